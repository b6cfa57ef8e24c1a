"""A simulation equals the tracking of the same order and changes nothing; its missing amounts are exactly enough."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.missions import create as create_mission
from tests.builders.missions import new_badge
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, WHOLE_DOLLARS, Shop, order, running, spend

CENT = Decimal("0.01")


class Market:
    """An organization with limits, tiers, missions, badges, coupons and discounts."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        books = CouponBooks(shop.organization)
        points = {"ledgerAccountKey": shop.organization.defaults.ledger_account_key}
        self.stars = shop.account(decimals=2, alias="stars", pointTrackingEnabled=True, expiresInMonths=3)
        self.tiers = TierSchedule.new(shop, Silver=100, Gold=300)
        gift = books.make(type="codeless", maxAssignedPerMember=4)
        cup = books.make(
            type="codeless", minOrderTotal=30, assignmentRequiredPoints=60, requiredPointsConfig=points, name="Cup"
        )
        books.make("TEN", type="single", discountType="percentage", discountAmount=10, minOrderTotal=20)
        badge = new_badge(shop, maxAmount=3)  # Of the mission Three.
        shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, name="All")
        shop.campaign(
            running(mint(("=", "order.total / 3.0"), ledgerAccountKey=self.stars["ledgerAccountKey"])),
            eventType=ORDER_CREATED,
            allowPartialApplicationOnLimit=True,
            pointsMonthlyLimitPerMember=30,
        )
        shop.campaign(
            running(mint(100), exclusiveGroup="bonus", rule="order.total > 80 && member.active"),
            running(mint(10), exclusiveGroup="bonus", rule="order.total >= 40.5", priority=2),
            running(effect("discount", type="percentage", value=5), rule="order.total >= 25"),
            eventType=ORDER_CREATED,
            minSpendValue=20,
            name="Bonus",
        )
        shop.campaign(
            running(mint(7), effect("assign-coupon", couponBookKey=gift["couponBookKey"])),
            eventType="member-tier-set",
            name="Welcome",
        )
        shop.campaign(running(spend(2)), eventType="coupon-code-assigned", name="Fee")
        shop.campaign(
            running(effect("use-coupon", couponBookKey=gift["couponBookKey"]), rule="order.total < 15"),
            eventType=ORDER_CREATED,
        )
        create_mission(shop, eventType=ORDER_CREATED, goalCount=3, badgeKey=badge, pointsAccrual=11, name="Three")
        create_mission(
            shop, eventType=ORDER_CREATED, goalCount=2, couponBookKey=cup["couponBookKey"], minSpendValue=30, name="Two"
        )

    def simulate(self, total: Decimal, **body) -> dict:
        """Simulate an order of a total."""
        return self.shop.integration.post("/simulations", {"order": {"total": total}, **body}, expect=200)["simulation"]

    def balances(self, member: str) -> dict[int, Decimal]:
        """The member's balance in each account, by its id."""
        record = self.shop.integration.get(f"/members/{member}")["loyaltyMember"]
        return {balance["ledgerAccountId"]: balance["balance"] for balance in record["ledgerBalances"]}


def comparable(effects):
    """The parts of effects that a dry run and a real run have in common."""
    return [
        (
            outcome["actionId"],
            outcome["effectId"],
            outcome["status"].replace("executed", "evaluated"),
            outcome["params"],
            outcome.get("error"),
            [(coupon["amountAssigned"], coupon["amountUsed"]) for coupon in outcome.get("coupons", ())],
        )
        for outcome in effects
    ]


def comparable_missions(missions):
    """Missions without the fields that only a real achievement has: the status and the code of a reward."""
    return [
        {
            **mission,
            "rewards": [(reward["kind"], reward["amount"], reward.get("error")) for reward in mission["rewards"]],
        }
        for mission in missions
    ]


@pytest.mark.slow
def test_a_simulation_equals_the_result_of_tracking_the_same_order(organization):
    market, random_source = Market(Shop(organization)), random.Random(7)
    shop, members = market.shop, [market.shop.member() for _ in range(3)]
    account_ids = {
        organization.defaults.ledger_account_key: organization.defaults.ledger_account_id,
        market.stars["ledgerAccountKey"]: market.stars["ledgerAccountId"],
    }
    for _ in range(40):
        # From 1.00 to 119.99.
        member, total = random_source.choice(members), Decimal(random_source.randrange(100, 12000)) / 100
        earn = market.simulate(total, loyaltyMemberId=member)["earn"]
        balances_before, tier_before = market.balances(member), market.tiers.of(member)
        earlier_keys = {event["loyaltyEventKey"] for event in shop.events(member, limit=25)}
        track_result = shop.track_one(order(member, total=total))
        balances_after, tier_after = market.balances(member), market.tiers.of(member)
        simulated_changes = {
            account["ledgerAccountKey"]: account["available"] for account in earn["accounts"] if account["available"]
        }
        changes = {key: balances_after.get(id_, 0) - balances_before.get(id_, 0) for key, id_ in account_ids.items()}
        assert simulated_changes == {key: change for key, change in changes.items() if change}
        events = shop.events(member, include="result", limit=25)
        new_events = [event for event in events if event["loyaltyEventKey"] not in earlier_keys]
        new_events.sort(key=lambda event: event["loyaltyEventId"])
        results = [event["result"] for event in new_events]
        # The simulation reports the effects of the order first, then those of the events that it causes.
        assert comparable(track_result["effects"]) == comparable(earn["effects"])[: len(track_result["effects"])]
        all_effects = [effect for result in results for effect in result["effects"]]
        assert sorted(map(repr, comparable(all_effects))) == sorted(map(repr, comparable(earn["effects"])))
        missions = [mission for result in results for mission in result["missions"]]
        assert comparable_missions(missions) == comparable_missions(earn["missions"])
        simulated_moves = [(move["before"], move["after"]) for move in earn["tiers"]]
        if tier_before == tier_after:
            assert simulated_moves == []
        else:
            assert simulated_moves == [(market.tiers.key(tier_before), market.tiers.key(tier_after))]


@pytest.mark.slow
def test_the_missing_amount_makes_the_action_apply_and_a_cent_less_does_not(organization):
    market, random_source = Market(Shop(organization)), random.Random(11)
    member = market.shop.member()

    def evaluated_params(order_total):
        """The parameters of each effect that an order of this total would have."""
        effects = market.simulate(order_total, loyaltyMemberId=member)["earn"]["effects"]
        return [outcome["params"] for outcome in effects if outcome["status"] == "evaluated"]

    reward_count = 0
    for _ in range(30):
        total = Decimal(random_source.randrange(100, 9000)) / 100
        for reward in market.simulate(total, loyaltyMemberId=member)["next"]:
            if reward["missing"]["kind"] != "orderTotal":
                continue
            reward_count += 1
            params_of_reward = [outcome["params"] for outcome in reward["gives"]]
            sufficient_total = total + reward["missing"]["amount"]
            assert all(params in evaluated_params(sufficient_total) for params in params_of_reward)
            assert not any(params in evaluated_params(sufficient_total - CENT) for params in params_of_reward)
    # So that the test cannot pass without rewards.
    assert reward_count > 20


_TABLES = """
SELECT c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'S') ORDER BY 1
"""


def footprint(engine):
    """The number of rows of every table, and the last value of every sequence."""
    with engine.connect() as db:
        names = db.exec_driver_sql(_TABLES).all()
        counts = {
            name: db.exec_driver_sql(
                f'SELECT last_value, is_called FROM "{name}"' if kind == "S" else f'SELECT count(*), 0 FROM "{name}"'
            ).one()
            for name, kind in names
        }
        return {name: tuple(row) for name, row in counts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("calls", [60, pytest.param(10_000, marks=pytest.mark.stress)])
def test_row_counts_and_sequences_are_the_same_after_any_number_of_simulations(organization, calls):
    market, random_source = Market(Shop(organization)), random.Random(13)
    members = [market.shop.member() for _ in range(3)]
    for member in members:
        market.shop.track_one(order(member, total=90))
    gold = market.tiers.key("Gold")
    # Each member, a newcomer, and an assumed person with the tier Gold.
    people = [{"loyaltyMemberId": member} for member in members] + [{}, {"as": {"tierKeys": [gold]}}]
    footprint_before = footprint(market.shop.engine)
    for _ in range(calls):
        total = Decimal(random_source.randrange(100, 12000)) / 100
        coupons = {"couponCodes": ["TEN"]} if random_source.random() < 0.5 else {}
        market.simulate(total, **random_source.choice(people), **coupons)
    assert footprint(market.shop.engine) == footprint_before


LOCKABLE_TABLES = (
    "wallets",
    "members",
    "ledger_accounts",
    "ledger_balances",
    "coupon_books",
    "coupons",
    "member_coupons",
)


def lockers(db, organization):
    """The transaction that locked each row of the organization last."""
    statement = "SELECT array_agg(xmax::text ORDER BY xmax::text) FROM {} WHERE organization_id = %s"
    return [db.exec_driver_sql(statement.format(table), (organization.id,)).scalar() for table in LOCKABLE_TABLES]


def test_a_simulation_waits_for_no_lock_and_takes_none(organization):
    market = Market(Shop(organization))
    member = market.shop.member()
    market.shop.track_one(order(member, total=90))
    with market.shop.engine.connect() as db, ThreadPoolExecutor(1) as thread:
        for table in LOCKABLE_TABLES:
            db.exec_driver_sql(f"SELECT FROM {table} WHERE organization_id = %s FOR UPDATE", (organization.id,))
        lockers_before = lockers(db, organization)
        simulation = thread.submit(market.simulate, Decimal(60), loyaltyMemberId=member, couponCodes=["TEN"])
        # It ends although this transaction has locked all rows.
        assert simulation.result(timeout=30)["earn"]["accounts"]
        db.rollback()
        market.simulate(Decimal(60), loyaltyMemberId=member, couponCodes=["TEN"])
        assert lockers(db, organization) == lockers_before
