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


def orders_earn_their_total(shop):
    """Create a campaign that gives as many points as the total of an order."""
    shop.campaign(running(mint(("=", "order.total"))), eventType=ORDER_CREATED)


def move(shop, member, kind, amount, **more):
    """Mint or burn points of a member; return the response."""
    path = f"/members/by-loyalty-member-id/{member}/{kind}"
    return shop.administration.post(path, {"amount": amount, **more}, expect=200)


def status(shop, member):
    """The member's tier status, of which both surfaces report the same."""
    [entry] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["tierStatus"]
    by_id = shop.administration.get(f"/members/{member_id_of(shop, member)}")["loyalMember"]["tierStatus"]
    assert by_id == [entry]
    return entry


def ago(*, days):
    """The text of the moment that was so many days ago."""
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


class TestPrograms:
    def test_tiers_of_new_organizations_depend_on_earned_points_and_of_further_programs_on_the_balance(self, shop):
        [default_program] = shop.administration.get("/loyalty-programs")["loyaltyPrograms"]
        assert default_program["tierPolicy"] == {**BALANCE, "basis": "earned"}
        body = {"ledgerId": default_program["ledgerId"], "description": "Club", "setAsDefault": False}
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
        ("policy", "field"),
        [
            ({"basis": "balance", "period": "rolling", "months": 3}, "period"),
            ({"basis": "earned", "period": "rolling"}, "months"),
            ({"basis": "earned", "timezone": "UTC"}, "timezone"),
            ({"basis": "earned", "period": "calendar", "timezone": "Mars/Base"}, "timezone"),
            ({"basis": "earned", "period": "rolling", "months": 0}, "months"),
            ({"basis": "spent"}, "basis"),
        ],
    )
    def test_an_invalid_policy_is_refused_with_the_field(self, shop, policy, field):
        ledger = shop.organization.defaults.ledger_id
        body = {"ledgerId": ledger, "description": "Club", "setAsDefault": False, "tierPolicy": policy}
        problem = shop.administration.post("/loyalty-programs", body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/tierPolicy/{field}"]


class TestEarned:
    def test_burns_lower_no_tier_and_later_points_are_added_to_the_earned_ones(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=EARNED, Silver=100, Gold=200)
        move(shop, ana, "mint", 120)
        move(shop, ana, "burn", 120)
        assert (schedule.of(ana), shop.balance(ana)) == ("Silver", 0)
        tier_status = status(shop, ana)
        assert tier_status["points"] == 120
        assert (tier_status["nextTier"]["name"], tier_status["nextTier"]["missingPoints"]) == ("Gold", 200 - 120)
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
        orders_earn_their_total(shop)
        shop.track_one(order(ana, total=120, external_id="o-1"))
        move(shop, ana, "burn", 110)
        shop.track_one(order_update(ana, "o-1", "confirmed"))
        shop.track_one(order(ana, total=60, status="partially-returned", external_id="o-1"))
        # The balance was 10, less than the 60 to claw back.
        assert (status(shop, ana)["points"], schedule.of(ana), shop.balance(ana)) == (120 - 60, "Basic", 0)
        shop.track_one(order_update(ana, "o-1", "returned"))
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
        account = shop.organization.defaults.ledger_account_id
        ana_wallet, ben_wallet = (
            shop.integration.get(f"/members/{person}")["loyaltyMember"]["ledgerWalletId"] for person in (ana, ben)
        )
        move(shop, ana, "mint", 150)
        path = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts/{account}/transactions"
        shop.administration.post(path, {"amount": 150, "fromWalletId": ana_wallet, "toWalletId": ben_wallet})
        assert (status(shop, ana)["points"], schedule.of(ana)) == (150, "Silver")
        assert (status(shop, ben)["points"], schedule.of(ben)) == (0, "Basic")


class TestPeriods:
    def test_late_events_count_in_the_period_of_their_date(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=ROLLING, Silver=100, Gold=200)
        orders_earn_their_total(shop)
        # The first order is older than the 12 months of the period.
        shop.track(
            order(ana, total=150, externalEventDate=ago(days=500)),
            order(ana, total=120, externalEventDate=ago(days=200)),
        )
        assert schedule.of(ana) == "Silver"
        tier_status = status(shop, ana)
        # The 120 will have left the period when Silver ends, so the member needs 100 others to keep it.
        assert (tier_status["points"], tier_status["pointsToKeep"]) == (120, 100)
        assert tier_status["projectedTier"]["name"] == "Member"
        assert tier_status["nextTier"]["missingPoints"] == 200 - 120
        expiry = datetime.fromisoformat(tier_status["expiresAt"])
        # A year after the second order is in about 165 days.
        assert timedelta(days=160) < expiry - datetime.now(UTC) < timedelta(days=170)
        assert schedule.entry(ana)["expiresAt"] == tier_status["expiresAt"]
        # Later points count after the expiry as well. The tier is still the same.
        shop.track_one(order(ana, total=50, externalEventDate=ago(days=100)))
        later_status = status(shop, ana)
        assert (later_status["points"], later_status["pointsToKeep"]) == (120 + 50, 100 - 50)
        assert later_status["since"] == tier_status["since"]

    def test_a_tier_expires_without_any_event(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=ROLLING, Silver=100)
        move(shop, ana, "mint", 120, externalEventDate=ago(days=200))
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
        move(shop, ana, "mint", 120, externalEventDate=ago(days=200))
        self.pass_a_year(shop)
        assert shop.track_one(event(ana))["effects"] == []
        assert schedule.moves(ana)[-1] == ("member-tier-set", "Silver", "Basic")

    def test_a_cancellation_reduces_the_points_of_the_year_in_which_they_were_earned(self, shop, ana):
        schedule = TierSchedule.new(shop, policy=CALENDAR, Silver=100)
        orders_earn_their_total(shop)
        last_year = f"{datetime.now(UTC).year - 1}-06-01T00:00:00Z"
        shop.track(
            order(ana, total=300, external_id="old", externalEventDate=last_year),
            order(ana, total=120, external_id="new"),
        )
        assert (status(shop, ana)["points"], schedule.of(ana)) == (120, "Silver")
        shop.track_one(order_update(ana, "old", "cancelled"))
        assert status(shop, ana)["points"] == 120
        shop.track_one(order_update(ana, "new", "cancelled"))
        assert (status(shop, ana)["points"], schedule.of(ana)) == (0, "Basic")

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
            new_order = order(ana, total=amount, externalEventDate=ago(days=days))
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
            returned_total = purchase.remaining if kind == "return" else min(amount, purchase.remaining)
            shop.track_one(
                order(ana, total=returned_total, status="partially-returned", external_id=purchase.external_id)
            )
            purchase.remaining -= returned_total
    expected_points = sum(purchase.remaining for purchase in orders if purchase.days_ago < 365)
    tier_status = status(shop, ana)
    assert tier_status["points"] == expected_points
    # The tiers of `shop_with_periods`.
    assert schedule.of(ana) == ("Gold" if expected_points >= 100 else "Silver" if expected_points >= 40 else "Basic")
    shop.check_ledger()


@pytest.fixture(scope="module")
def shop_with_periods(request):
    """(shop, tiers) for points of the last 12 months: Silver from 40 and Gold from 100."""
    with running_api(request.getfixturevalue("settings")) as api:
        shop = Shop(api.organization())
        orders_earn_their_total(shop)
        yield shop, TierSchedule.new(shop, policy=ROLLING, Silver=40, Gold=100)
