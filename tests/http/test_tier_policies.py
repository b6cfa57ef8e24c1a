"""Tiers by earned points: burns do not lower them, returns and the end of a period do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.services.tiers import evaluate_next
from persistence import organizations
from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.clock import earlier
from tests.builders.missions import member_id_of
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running

EARNED = {"basis": "earned"}
ROLLING = {"basis": "earned", "period": "rolling", "months": 12}
CALENDAR = {"basis": "earned", "period": "calendar"}
BALANCE = {"basis": "balance", "period": "lifetime", "months": None, "startMonth": None, "timezone": None}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    return shop.member()


def spend_earns_points(shop):
    shop.campaign(
        running({"effectId": "mint-points", "params": [{"id": "amount", "expression": "order.total"}]}),
        eventType=ORDER_CREATED,
    )


def move(shop, member, kind, amount, **more):
    path = f"/members/by-loyalty-member-id/{member}/{kind}"
    return shop.administration.post(path, {"amount": amount, **more}, expect=200)


def status(shop, member):
    """The member's tier status, of which both surfaces report the same."""
    [entry] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["tierStatus"]
    by_id = shop.administration.get(f"/members/{member_id_of(shop, member)}")["loyalMember"]["tierStatus"]
    assert by_id == [entry]
    return entry


def ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


class TestPrograms:
    def test_tiers_of_new_organizations_depend_on_earned_points_and_of_further_programs_on_the_balance(self, shop):
        [default] = shop.administration.get("/loyalty-programs")["loyaltyPrograms"]
        assert default["tierPolicy"] == {**BALANCE, "basis": "earned"}
        body = {"ledgerId": default["ledgerId"], "description": "Club", "setAsDefault": False}
        assert shop.administration.post("/loyalty-programs", body)["loyaltyProgram"]["tierPolicy"] == BALANCE

    def test_a_policy_is_stored_with_every_field(self, shop):
        schedule = TierSchedule.new(
            shop, policy={**CALENDAR, "startMonth": 4, "timezone": "America/New_York"}, Silver=100
        )
        policy = {**BALANCE, **CALENDAR, "startMonth": 4, "timezone": "America/New_York"}
        assert schedule.program["tierPolicy"] == policy
        path = f"/loyalty-programs/{schedule.program['loyaltyProgramId']}"
        assert shop.administration.get(path)["loyaltyProgram"]["tierPolicy"] == policy

    @pytest.mark.parametrize(
        ("policy", "name"),
        [
            ({"basis": "balance", "period": "rolling", "months": 3}, "period"),
            ({"basis": "earned", "period": "rolling"}, "months"),
            ({"basis": "earned", "timezone": "UTC"}, "timezone"),
            ({"basis": "earned", "period": "calendar", "timezone": "Mars/Base"}, "timezone"),
            ({"basis": "earned", "period": "rolling", "months": 0}, "months"),
            ({"basis": "spent"}, "basis"),
        ],
    )
    def test_an_invalid_policy_is_refused_with_the_field(self, shop, policy, name):
        ledger = shop.organization.created.ledger_id
        body = {"ledgerId": ledger, "description": "Club", "setAsDefault": False, "tierPolicy": policy}
        problem = shop.administration.post("/loyalty-programs", body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/tierPolicy/{name}"]


class TestEarned:
    def test_burns_lower_no_tier_and_later_points_are_added_to_the_earned_ones(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=EARNED, Silver=100, Gold=200)
        move(shop, ana, "mint", 120)
        move(shop, ana, "burn", 120)
        assert (schedule.of(ana), shop.balance(ana)) == ("Silver", 0)
        tier_status = status(shop, ana)
        assert (tier_status["points"], tier_status["nextTier"]["name"], tier_status["nextTier"]["missingPoints"]) == (
            120,
            "Gold",
            80,
        )
        assert (tier_status["tier"]["loyaltyTierKey"], tier_status["expiresAt"]) == (schedule.key("Silver"), None)
        move(shop, ana, "mint", 80)
        assert schedule.of(ana) == "Gold"
        assert schedule.moves(ana)[-1] == ("member-tier-set", "Silver", "Gold")
        assert "nextTier" not in status(shop, ana)

    def test_burns_lower_a_tier_by_the_balance(self, shop, ana):
        schedule = TierSchedule.new(shop, Silver=100)
        move(shop, ana, "mint", 120)
        move(shop, ana, "burn", 120)
        assert schedule.of(ana) == "Basic"
        assert status(shop, ana)["points"] == 0

    def test_returned_orders_reduce_the_earned_points_even_if_these_are_spent(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=EARNED, Silver=100)
        spend_earns_points(shop)
        purchase = order(ana, 120)
        shop.track_one(purchase)
        move(shop, ana, "burn", 110)
        name = purchase["payload"]["order"]["externalId"]
        shop.track_one(order_update(ana, name, "confirmed"))
        shop.track_one(order(ana, 60, status="partially-returned", external_id=name))
        assert (status(shop, ana)["points"], schedule.of(ana), shop.balance(ana)) == (60, "Basic", 0)
        shop.track_one(order_update(ana, name, "returned"))
        assert status(shop, ana)["points"] == 0
        shop.check_ledger()

    def test_a_campaign_sees_the_tier_of_earned_points_after_a_burn(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=EARNED, Silver=100)
        shop.campaign(running(mint(7)), loyaltyTierKeys=[schedule.key("Silver")], eventType=GENERIC)
        move(shop, ana, "mint", 120)
        move(shop, ana, "burn", 120)
        shop.track_one(event(ana))
        assert shop.balance(ana) == 7

    def test_transferred_points_count_for_the_member_who_earned_them(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=EARNED, Silver=100)
        ben = shop.member()
        account = shop.organization.created.ledger_account_id
        wallets = [
            shop.integration.get(f"/members/{person}")["loyaltyMember"]["ledgerWalletId"] for person in (ana, ben)
        ]
        move(shop, ana, "mint", 150)
        path = f"/ledgers/{shop.organization.created.ledger_id}/accounts/{account}/transactions"
        body = {"amount": 150, "fromWalletId": wallets[0], "toWalletId": wallets[1]}
        shop.administration.post(path, body)
        assert [status(shop, person)["points"] for person in (ana, ben)] == [150, 0]
        assert [schedule.of(person) for person in (ana, ben)] == ["Silver", "Basic"]


class TestPeriods:
    def test_late_events_count_in_the_period_of_their_date(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=ROLLING, Silver=100, Gold=200)
        spend_earns_points(shop)
        shop.track(order(ana, 150, externalEventDate=ago(500)), order(ana, 120, externalEventDate=ago(200)))
        assert schedule.of(ana) == "Silver"
        tier_status = status(shop, ana)
        assert (tier_status["points"], tier_status["pointsToKeep"], tier_status["projectedTier"]["name"]) == (
            120,
            100,
            "Member",
        )
        assert tier_status["nextTier"]["missingPoints"] == 80
        until = datetime.fromisoformat(tier_status["expiresAt"])
        assert timedelta(days=160) < until - datetime.now(UTC) < timedelta(days=170)
        assert schedule.entry(ana)["expiresAt"] == tier_status["expiresAt"]
        since = tier_status["since"]
        # Later points postpone the expiry; the tier is still the same.
        shop.track_one(order(ana, 50, externalEventDate=ago(100)))
        tier_status = status(shop, ana)
        assert (tier_status["points"], tier_status["pointsToKeep"], tier_status["since"]) == (170, 50, since)

    def test_a_tier_expires_without_any_event(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=ROLLING, Silver=100)
        move(shop, ana, "mint", 120, externalEventDate=ago(200))
        assert schedule.of(ana) == "Silver"
        self.pass_a_year(shop)
        # Reads show the lower tier at once; the job stores and reports it.
        assert schedule.of(ana) == "Basic"
        assert schedule.moves(ana)[-1][2] == "Silver"
        with shop.organization.api.engine.begin() as db:
            evaluate_next(db, organizations.find(db, shop.organization.id), 0, datetime.now(UTC), everyone=False)
        assert schedule.moves(ana)[-1] == ("member-tier-set", "Silver", "Basic")
        assert status(shop, ana)["points"] == 0

    def test_an_event_is_evaluated_without_a_tier_that_has_expired(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=ROLLING, Silver=100)
        shop.campaign(running(mint(7)), loyaltyTierKeys=[schedule.key("Silver")], eventType=GENERIC)
        move(shop, ana, "mint", 120, externalEventDate=ago(200))
        self.pass_a_year(shop)
        assert shop.track_one(event(ana))["effects"] == []
        assert schedule.moves(ana)[-1] == ("member-tier-set", "Silver", "Basic")

    def test_a_cancellation_reduces_the_points_of_the_year_in_which_they_were_earned(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=CALENDAR, Silver=100)
        spend_earns_points(shop)
        last_year = f"{datetime.now(UTC).year - 1}-06-01T00:00:00Z"
        old, new = order(ana, 300, externalEventDate=last_year), order(ana, 120)
        shop.track(old, new)
        assert (status(shop, ana)["points"], schedule.of(ana)) == (120, "Silver")
        for purchase, points in ((old, 120), (new, 0)):
            shop.track_one(order_update(ana, purchase["payload"]["order"]["externalId"], "cancelled"))
            assert status(shop, ana)["points"] == points
        assert schedule.of(ana) == "Basic"

    def pass_a_year(self, shop):
        """Move all earned points and the expiries of tiers one year into the past."""
        with shop.engine.begin() as db:
            db.exec_driver_sql(
                f"UPDATE ledger_transactions SET external_event_date = {earlier('external_event_date', '%s')}"
                " WHERE organization_id = %s",
                ("1 year", shop.organization.id),
            )
            db.exec_driver_sql(
                f"UPDATE member_tiers SET expires_at = {earlier('expires_at', '%s')} WHERE organization_id = %s",
                ("1 year", shop.organization.id),
            )


@dataclass
class Purchase:
    """An order of the model: its total without what was returned, and its age."""

    external_id: str
    remaining: int
    days_ago: int


# Kind, amount, and for an order its age in days.
steps = st.lists(
    st.tuples(
        st.sampled_from(["buy", "buy", "buy", "redeem", "return", "part", "expire"]),
        st.integers(1, 90),
        st.integers(0, 700),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.slow
@given(steps=steps)
@settings(max_examples=6, suppress_health_check=list(HealthCheck), derandomize=True)
def test_tiers_depend_only_on_the_orders_that_were_not_returned(shop_with_periods, steps):
    """Compare the points with a model: the orders of the last year, each without its returned part."""
    shop, schedule = shop_with_periods
    ana, orders = shop.member(), []
    for kind, amount, days in steps:
        if kind == "buy":
            new_order = order(ana, amount, externalEventDate=ago(days))
            shop.track_one(new_order)
            purchase = Purchase(new_order["payload"]["order"]["externalId"], amount, days)
            shop.track_one(order_update(ana, purchase.external_id, "confirmed"))
            orders.append(purchase)
        elif kind == "expire":
            with shop.engine.begin() as db:
                db.exec_driver_sql(
                    "UPDATE ledger_lots SET expires_at = now() WHERE organization_id = %s",
                    (shop.organization.id,),
                )
        elif kind == "redeem" and shop.balance(ana):
            move(shop, ana, "burn", min(amount, int(shop.balance(ana))))
        elif kind in ("return", "part") and (returnable := [purchase for purchase in orders if purchase.remaining]):
            purchase = returnable[amount % len(returnable)]
            part = purchase.remaining if kind == "return" else min(amount, purchase.remaining)
            shop.track_one(order(ana, part, status="partially-returned", external_id=purchase.external_id))
            purchase.remaining -= part
    expected_points = sum(purchase.remaining for purchase in orders if purchase.days_ago < 365)
    tier_status = status(shop, ana)
    assert tier_status["points"] == expected_points
    assert schedule.of(ana) == ("Gold" if expected_points >= 100 else "Silver" if expected_points >= 40 else "Basic")
    shop.check_ledger()


@pytest.fixture(scope="module")
def shop_with_periods(request):
    with running_api(request.getfixturevalue("settings")) as api:
        shop = Shop(api.organization())
        spend_earns_points(shop)
        yield shop, TierSchedule.new(shop, policy=ROLLING, Silver=40, Gold=100)
