"""Simulations: what an order would earn, what the member could redeem, and the amount missing to the next reward."""

from __future__ import annotations

from decimal import Decimal
from typing import ClassVar

import pytest

from handlers.services.simulations import coupons as simulated_coupons
from handlers.services.simulations import rewards
from handlers.services.unit_of_work import deadlines
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.missions import create as create_mission
from tests.builders.missions import new_badge, progress_of
from tests.builders.statements import parameters_of_statements_about
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, WHOLE_DOLLARS, Shop, order, running, spend


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


@pytest.fixture
def a_point_a_unit(shop):
    """A campaign that gives a point for each whole unit of the order's total."""
    return shop.campaign(running(WHOLE_DOLLARS), name="A point a unit", eventType=ORDER_CREATED)


@pytest.fixture
def a_hundred_from_fifty(shop):
    """A campaign that gives 100 points for an order of at least 50."""
    return shop.campaign(running(mint(100)), name="A hundred", eventType=ORDER_CREATED, minSpendValue=50)


def simulate(shop, total=None, *, expect=200, api=None, **body):
    """Simulate an order of a total, or `body`, for a newcomer unless `body` names a member.

    Returns the simulation, or the problem if `expect` is not 200.
    """
    if total is not None:
        body["order"] = {"total": Decimal(total), **body.get("order", {})}
    response = (api or shop.integration).post("/simulations", body, expect=expect)
    return response["simulation"] if expect == 200 else response


def available_and_discarded(simulation):
    """(available points, discarded points) that each account gets by the order."""
    return [(account["available"], account["discarded"]) for account in simulation["earn"]["accounts"]]


def shortfalls(simulation, *kinds):
    """(name, kind of the missing amount, missing amount) of each next reward of these kinds, by default of all."""
    return [
        (reward["name"], reward["missing"]["kind"], reward["missing"]["amount"])
        for reward in simulation["next"]
        if not kinds or reward["kind"] in kinds
    ]


def test_a_newcomer_earns_points_and_gets_the_amount_missing_to_the_next_reward(
    shop, a_point_a_unit, a_hundred_from_fifty
):
    simulation = simulate(shop, total="37.60")
    account = shop.organization.defaults.ledger_account_key
    assert simulation["earn"]["accounts"] == [
        {
            "ledgerAccountKey": account,
            "available": 37,
            "pending": 0,
            "availableAt": None,
            "expiresAt": None,
            "discarded": 0,
        }
    ]
    [reward] = simulation["next"]
    gives = [(outcome["effectId"], outcome["params"][0]) for outcome in reward.pop("gives")]
    assert gives == [("mint-points", {"id": "amount", "value": 100})]
    assert reward == {
        "kind": "campaign",
        "key": a_hundred_from_fifty["campaignKey"],
        "name": "A hundred",
        "missing": {"kind": "orderTotal", "amount": Decimal("12.4")},
    }
    assert simulation["nextComplete"] is True
    assert [outcome["status"] for outcome in simulation["earn"]["effects"]] == ["evaluated"]


@pytest.mark.parametrize(
    ("total", "available", "missing_amounts"), [("50.00", 50 + 100, []), ("49.99", 49, [Decimal("0.01")])]
)
def test_the_amount_missing_to_the_next_reward_is_the_smallest_that_suffices(
    shop, a_point_a_unit, a_hundred_from_fifty, total, available, missing_amounts
):
    simulation = simulate(shop, total=total)
    assert available_and_discarded(simulation) == [(available, 0)]
    assert [amount for _name, _kind, amount in shortfalls(simulation)] == missing_amounts


@pytest.mark.parametrize("is_stored", [True, False], ids=["stored member", "assumed person"])
def test_a_tier_that_the_order_reaches_gives_its_rewards(shop, a_point_a_unit, is_stored):
    tiers = TierSchedule.new(shop, Silver=500, Gold=1000, Black=5000)
    keys = {name: tier["loyaltyTierKey"] for name, tier in tiers.tiers.items()}
    shop.campaign(
        running(mint(50), rule=f"'{keys['Gold']}' in tiers"),
        eventType="member-tier-set",
    )
    # The person has 980 points, so the tier is Silver.
    if is_stored:
        member = shop.member()
        shop.give(member, 980)
        person = {"loyaltyMemberId": member}
    else:
        account = shop.organization.defaults.ledger_account_key
        person = {"as": {"tierKeys": [keys["Silver"]], "balances": {account: 980}}}
    simulation = simulate(shop, total=37, **person)
    # 37 for the order and 50 for the tier.
    assert available_and_discarded(simulation) == [(37 + 50, 0)]
    [change] = simulation["earn"]["tiers"]
    assert (change["before"], change["after"]) == (keys["Silver"], keys["Gold"])
    [next_tier] = simulation["next"]
    assert (next_tier["kind"], next_tier["key"]) == ("tier", keys["Black"])
    assert next_tier["missing"] == {"kind": "points", "amount": 5000 - (980 + 37 + 50)}
    assert [outcome["effectId"] for outcome in next_tier["gives"]] == ["set-tier"]
    assert [outcome["effectId"] for outcome in simulation["earn"]["effects"]] == ["mint-points", "mint-points"]


def test_points_beyond_a_monthly_limit_are_discarded(shop):
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        pointsMonthlyLimitPerMember=500,
        allowPartialApplicationOnLimit=True,
    )
    member = shop.member()
    shop.track_one(order(member, total=480))
    # 20 of the limit remain. A simulation does not use them, so a second one has the same result.
    for _ in range(2):
        assert available_and_discarded(simulate(shop, total="37.60", loyaltyMemberId=member)) == [(20, 37 - 20)]
    # A hypothetical member has used nothing of the limit.
    assert available_and_discarded(simulate(shop, total="37.60")) == [(37, 0)]


def test_a_limit_of_the_campaign_also_applies_to_newcomers(shop):
    limit = {"scope": "campaign", "type": "transactions", "period": "total", "limit": 1}
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, limitRules=[limit])
    # Without a member in the request, a newcomer is simulated.
    assert available_and_discarded(simulate(shop, total=30)) == [(30, 0)]
    # Another member uses the only transaction.
    shop.track_one(order(shop.member(), total=10))
    assert available_and_discarded(simulate(shop, total=30)) == [(0, 30)]


def test_a_book_is_affordable_after_the_order(shop, books, a_point_a_unit):
    config = {"ledgerAccountKey": shop.organization.defaults.ledger_account_key}
    cup_book = books.make(type="codeless", name="Cup", assignmentRequiredPoints=150, requiredPointsConfig=config)
    pot_book = books.make(type="codeless", name="Pot", assignmentRequiredPoints=500, requiredPointsConfig=config)
    member = shop.member()
    shop.give(member, 120)
    simulation = simulate(shop, total="37.60", loyaltyMemberId=member)
    cup, pot = simulation["redeem"]
    assert cup == {
        "couponBookKey": cup_book["couponBookKey"],
        "name": "Cup",
        "usable": False,
        "cost": 150,
        "missingPoints": 150 - 120,
        "affordableAfterOrder": True,
        "discount": None,
        "exclusionReasons": [
            {"code": "insufficient-balance", "detail": "150 points are needed, and the member has 120."}
        ],
    }
    assert (pot["cost"], pot["missingPoints"], pot["affordableAfterOrder"]) == (500, 500 - 120, False)
    # The order gives 37 of the missing 380 points.
    assert shortfalls(simulation) == [("Pot", "points", 380 - 37)]
    assert simulation["next"][0]["key"] == pot_book["couponBookKey"]


def test_a_simulation_evaluates_the_campaigns_of_its_moment(shop, a_point_a_unit):
    # On every day from 15:00 to 17:00 in Madrid a second campaign gives the same points.
    hours = {"schedule": [{"day": day, "from": "15:00", "to": "17:00"} for day in range(1, 8)]}
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED, timezone="Europe/Madrid", dayOfWeekSchedule=hours)
    assert available_and_discarded(simulate(shop, total="37.60", at="2030-03-06T15:30:00+01:00")) == [(37 + 37, 0)]
    simulation = simulate(shop, total="37.60", at="2030-03-06T17:00:00+01:00")
    assert (available_and_discarded(simulation), simulation["at"]) == ([(37, 0)], "2030-03-06T16:00:00Z")


@pytest.mark.parametrize(("currency", "discount"), [("JPY", "101"), ("KWD", "100.555"), (None, "100.56")])
def test_discounts_of_coupons_have_the_digits_of_the_currency(shop, books, currency, discount):
    # 10 % of 1005.55 are 100.555; the digits of a total count, too, so that of the order in yen has none.
    total = "1005" if currency == "JPY" else "1005.55"
    books.make("TEN", type="single", discountType="percentage", discountAmount=10)
    simulation = simulate(shop, total=total, order={"currency": currency}, couponCodes=["TEN"])
    assert [coupon["discount"] for coupon in simulation["coupons"]] == [Decimal(discount)]
    assert [redemption["discount"] for redemption in simulation["redeem"]] == [Decimal(discount)]


def test_presented_codes_are_reported_with_discount_and_reasons(shop, books):
    ten = books.make("TEN", type="single", discountType="percentage", discountAmount=10)
    five = books.make("FIVE", type="single", discountType="amount", discountAmount=5, minOrderTotal=30)
    twenty = books.make("TWENTY", type="single", discountType="percentage", discountAmount=20, minOrderTotal=50)
    coupons = simulate(shop, total="37.60", couponCodes=["TEN", "FIVE", "TWENTY", "NONE"])["coupons"]
    # 10 % of 37.60, 5.00, and 20 % of 37.60, for which 12.40 are missing to 50.00.
    assert [
        (coupon["couponBookKey"], coupon["usable"], coupon["discount"], coupon["missingTotal"]) for coupon in coupons
    ] == [
        (ten["couponBookKey"], True, Decimal("3.76"), None),
        (five["couponBookKey"], True, 5, None),
        (twenty["couponBookKey"], False, Decimal("7.52"), Decimal("12.4")),
        (None, False, None, None),
    ]
    assert [[reason["code"] for reason in coupon["exclusionReasons"]] for coupon in coupons] == [
        [],
        [],
        ["coupon-order-total"],
        ["unknown-coupon"],
    ]


def test_codes_of_other_members_and_used_codes_are_excluded_with_the_reason(shop, books):
    # A member can get one coupon.
    book = books.make("A", "B", type="list", maxAssignedPerMember=1)
    ana, ben = shop.member(), shop.member()
    ana_path = f"/members/{ana}/coupon-books/{book['couponBookKey']}"
    shop.integration.post(f"{ana_path}/assign", {"code": "A"}, expect=200)

    def reasons(member, *codes):
        """The codes of the reasons why a member cannot use each of the codes."""
        coupons = simulate(shop, total=10, loyaltyMemberId=member, couponCodes=list(codes))["coupons"]
        return [[reason["code"] for reason in coupon["exclusionReasons"]] for coupon in coupons]

    assert reasons(ana, "A", "B") == [[], ["coupon-quota"]]
    assert reasons(ben, "A", "B") == [["coupon-code-held"], []]
    shop.integration.post(f"{ana_path}/use", {"code": "A"}, expect=200)
    assert reasons(ana, "A") == [["coupon-quota"]]


def test_a_member_token_can_simulate_only_this_member_and_gets_no_details_of_rules(api, shop, a_point_a_unit):
    # The rule fails, because the order has no items.
    shop.campaign(running(mint(1), rule="order.items[0].quantity > 1"), eventType=ORDER_CREATED)
    ana, ben = shop.member(), shop.member()
    member_surface = api.surface(token=shop.organization.member_token(ana))
    for another_person in ({"loyaltyMemberId": ben}, {}, {"as": {}}):
        problem = simulate(shop, total=10, api=member_surface, expect=403, **another_person)
        assert problem["type"] == "/problems/forbidden"
    simulation = simulate(shop, total=10, api=member_surface, loyaltyMemberId=ana)
    assert available_and_discarded(simulation) == [(10, 0)]
    assert (simulation["errors"], simulation["explain"]) == ([], [])
    # An administrator gets the error of the rule.
    assert len(simulate(shop, total=10, loyaltyMemberId=ana)["errors"]) == 1
    problem = simulate(shop, total=10, api=member_surface, expect=400, loyaltyMemberId=ana, include=["explain"])
    assert [fault["pointer"] for fault in problem["errors"]] == ["/include"]


def test_an_assumed_person_is_simulated_and_not_stored(shop, a_point_a_unit):
    gold = TierSchedule.new(shop, Gold=1000).tiers["Gold"]["loyaltyTierKey"]
    shop.campaign(running(mint(7)), eventType=ORDER_CREATED, loyaltyTierKeys=[gold])
    member_count_before = shop.rows("members", "count(*)")
    simulation = simulate(shop, total=10, **{"as": {"tierKeys": [gold]}})
    # 10 for the order and 7 for the tier.
    assert (available_and_discarded(simulation), simulation["earn"]["tiers"]) == ([(10 + 7, 0)], [])
    assert available_and_discarded(simulate(shop, total=10)) == [(10, 0)]
    assert shop.rows("members", "count(*)") == member_count_before


def test_assumed_tiers_apply_at_any_event_date(shop):
    gold = TierSchedule.new(shop, Gold=1000).tiers["Gold"]["loyaltyTierKey"]
    shop.campaign(running(mint(7)), eventType=ORDER_CREATED, loyaltyTierKeys=[gold])
    body = {"order": {"externalEventDate": "2026-01-05T12:00:00Z"}}
    for at in (None, "2026-01-05T12:00:00Z"):
        assert available_and_discarded(simulate(shop, total=10, **body, at=at, **{"as": {"tierKeys": [gold]}})) == [
            (7, 0)
        ]
        assert available_and_discarded(simulate(shop, total=10, **body, at=at)) == []


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
@pytest.mark.parametrize("policy", [{"basis": "earned", "period": "rolling", "months": 12}, None])
def test_the_first_and_the_last_moment_can_be_simulated(shop, a_point_a_unit, moment, policy):
    gold = TierSchedule.new(shop, policy=policy, Gold=1000).tiers["Gold"]["loyaltyTierKey"]
    account = shop.organization.defaults.ledger_account_key
    create_mission(shop, eventType=ORDER_CREATED, repetitionPeriod="weekly", periodLimit=2)
    # A newcomer, a member with a tier, and one whom the order of 10.00 raises to Gold.
    for person in ({}, {"tierKeys": [gold]}, {"balances": {account: 995}}):
        simulation = simulate(shop, total=10, at=moment, **{"as": person})
        assert (available_and_discarded(simulation), simulation["at"]) == ([(10, 0)], moment)


def test_rules_see_every_field_of_an_assumed_person(shop):
    account = shop.organization.defaults.ledger_account_key
    audience = shop.administration.post("/audiences", {"name": "VIP", "matcherType": "list-matcher"})["audience"]
    badge, mission = new_badge(shop, maxAmount=9), create_mission(shop)
    # Each rule gives another power of two.
    rules = {
        f"balances['{account}'] == 12.0": 1,
        f"'{audience['audienceKey']}' in audiences": 2,
        f"badges['{badge}'] == 3.0": 4,
        f"missions['{mission['missionKey']}'].timesAchieved == 2": 8,
        "member.profile.city == 'Madrid'": 16,
        "member.customAttributes.colour == 'red'": 32,
    }
    shop.campaign(*(running(mint(amount), rule=rule) for rule, amount in rules.items()), eventType=GENERIC)
    person = {
        "balances": {account: 12},
        "audienceKeys": [audience["audienceKey"]],
        "badges": {badge: 3},
        "missions": {mission["missionKey"]: {"timesAchieved": 2}},
        "profile": {"city": "Madrid"},
        "customAttributes": {"colour": "red"},
    }

    def points_of(assumed_person):
        return available_and_discarded(simulate(shop, event={"eventType": GENERIC}, **{"as": assumed_person}))

    for name, amount in zip(person, (1, 2, 4, 8, 16, 32), strict=True):
        assert points_of({name: person[name]}) == [(amount, 0)], name
    assert points_of(person) == [(1 + 2 + 4 + 8 + 16 + 32, 0)]
    assert available_and_discarded(simulate(shop, event={"eventType": GENERIC})) == []


@pytest.mark.parametrize(
    ("person", "problem"),
    [
        ({"tierKeys": ["0b6c7d1e-9a5f-4f0d-8a3b-2c1d0e9f8a7b"]}, "unknown-tier"),
        ({"audienceKeys": ["0b6c7d1e-9a5f-4f0d-8a3b-2c1d0e9f8a7b"]}, "unknown-audience"),
        ({"badges": {"x": 1}}, "unknown-badge"),
        ({"missions": {"x": {}}}, "unknown-mission"),
        ({"balances": {"x": 1}}, "unknown-ledger-account"),
    ],
)
def test_an_unknown_key_of_an_assumed_person_is_refused(shop, person, problem):
    response = simulate(shop, total=10, expect=404, **{"as": person})
    assert response["type"] == f"/problems/{problem}"


def test_missions_are_counted_and_rewarded_and_their_missing_count_is_reported(shop):
    badge = new_badge(shop)
    create_mission(shop, name="Two", eventType=ORDER_CREATED, goalCount=2, badgeKey=badge, maxRepetitions=1)
    create_mission(shop, name="Five", eventType=ORDER_CREATED, goalCount=5, pointsAccrual=20)
    # A mission that counts other events than orders.
    create_mission(shop, name="Elsewhere", goalCount=4, pointsAccrual=1)
    create_mission(shop, name="Over", goalCount=1, validTo="2020-01-01T00:00:00Z")
    member = shop.member()
    shop.track_one(order(member, total=5))
    # The second order of the member.
    simulation = simulate(shop, total=5, loyaltyMemberId=member)
    missions = simulation["earn"]["missions"]
    assert [(mission["name"], mission["newCounter"], mission["achieved"]) for mission in missions] == [
        ("Two", 2, True),
        ("Five", 2, False),
    ]
    assert simulation["earn"]["badges"] == [{"badgeKey": badge, "amount": 1}]
    assert shortfalls(simulation) == [("Five", "count", 5 - 2), ("Elsewhere", "count", 4)]
    account = shop.organization.defaults.ledger_account_key
    assert simulation["next"][0]["gives"] == [
        {
            "effectId": "mint-points",
            "params": [{"id": "amount", "value": 20}, {"id": "ledgerAccountKey", "value": account}],
        }
    ]


@pytest.mark.parametrize("order_count", range(8))
def test_a_member_and_an_assumed_person_with_the_same_progress_have_the_same_simulation(shop, order_count):
    mission_key = create_mission(shop, eventType=ORDER_CREATED, goalCount=3, maxRepetitions=9)["missionKey"]
    member = shop.member()
    for _ in range(order_count):
        shop.track_one(order(member, total=5))
    progress = progress_of(shop, member, mission_key)
    person = {"missions": {mission_key: {name: progress[name] for name in ("timesAchieved", "currentCounterCount")}}}
    [mission_of_member] = simulate(shop, total=5, loyaltyMemberId=member)["earn"]["missions"]
    [mission_of_person] = simulate(shop, total=5, **{"as": person})["earn"]["missions"]
    # The next order is the third, sixth or ninth one of a goal of 3.
    assert mission_of_member["achieved"] == ((order_count + 1) % 3 == 0)
    assert mission_of_person == mission_of_member


def test_a_simulation_reports_discounts_coupons_and_burned_points(shop, books):
    book = books.make(type="codeless")
    campaign = shop.campaign(
        running(
            effect("discount", type="percentage", value=10),
            effect("discount", type="amount", value=5),
            effect("assign-coupon", couponBookKey=book["couponBookKey"], amount=2),
            spend(30),
        ),
        eventType=ORDER_CREATED,
    )
    member = shop.member()
    shop.give(member, 100)
    earn = simulate(shop, total="37.60", loyaltyMemberId=member)["earn"]
    action = campaign["actions"][0]["actionId"]
    assert earn["discounts"] == [
        {"campaignKey": campaign["campaignKey"], "actionId": action, "amount": Decimal("3.76"), "allocation": []},
        {"campaignKey": campaign["campaignKey"], "actionId": action, "amount": 5, "allocation": []},
    ]
    assert earn["discountTotal"] == Decimal("3.76") + 5
    assert earn["coupons"] == [{"couponBookKey": book["couponBookKey"], "amount": 2}]
    # `available` is the change of the balance: the order burns 30 of the 100 points.
    assert [account["available"] for account in earn["accounts"]] == [-30]


def test_new_points_are_reported_with_their_first_expiry(shop):
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=12)
    key = account["ledgerAccountKey"]
    shop.campaign(
        running(mint(3, ledgerAccountKey=key), mint(4, ledgerAccountKey=key, expirationDate="2030-04-01T00:00:00Z")),
        eventType=ORDER_CREATED,
    )
    [earnings] = simulate(shop, total=10, at="2030-03-06T15:30:00Z")["earn"]["accounts"]
    assert (earnings["ledgerAccountKey"], earnings["available"]) == (key, 3 + 4)
    # The 3 expire after 12 months.
    assert earnings["expiresAt"] == "2030-04-01T00:00:00Z"


class TestNext:
    @pytest.mark.parametrize(
        ("rule", "missing_amounts"),
        [
            ("order.total >= 50", [Decimal("12.4")]),
            ("order.total > 50", [Decimal("12.41")]),
            ("50.005 <= order.total", [Decimal("12.41")]),
            ("member.active && order.total >= 50", [Decimal("12.4")]),
            ("order.total >= 50 && order.total >= 60", []),
            ("order.total >= 50 && !member.active", []),
            ("order.total >= 50 && order.channel == 'app'", []),
            ("order.total >= 50 && order.items[0].quantity > 1", []),
            ("order.total >= 50 || order.channel == 'app'", []),
            ("order.total * 2 >= 100", []),
            ("order.total >= 50 && order.total < 50", []),
        ],
    )
    def test_a_reward_is_reported_if_only_a_higher_total_is_missing_to_its_rule(self, shop, rule, missing_amounts):
        shop.campaign(running(mint(1), rule=rule), eventType=ORDER_CREATED)
        simulation = simulate(shop, total="37.60")
        assert [amount for _name, _kind, amount in shortfalls(simulation)] == missing_amounts
        # The missing amount is enough, and a cent less is not.
        for amount in missing_amounts:
            assert available_and_discarded(simulate(shop, total=Decimal("37.60") + amount)) == [(1, 0)]
            assert available_and_discarded(simulate(shop, total=Decimal("37.59") + amount)) == []

    def test_the_missing_amount_satisfies_the_minimum_spend_and_the_rule(self, shop):
        shop.campaign(
            running(mint(1)),
            running(mint(2), rule="order.total > 60"),
            eventType=ORDER_CREATED,
            minSpendValue=50,
            name="Both",
        )
        simulation = simulate(shop, total=40)
        assert shortfalls(simulation) == [("Both", "orderTotal", 10), ("Both", "orderTotal", Decimal("20.01"))]
        [effect_from_50], [effect_above_60] = (reward["gives"] for reward in simulation["next"])
        assert (effect_from_50["params"][0]["value"], effect_above_60["params"][0]["value"]) == (1, 2)

    def test_a_reward_that_no_higher_total_can_give_is_not_reported(self, shop):
        shop.campaign(running(mint(1)), eventType=ORDER_CREATED, minSpendValue=50, locationCodes=["moon"])
        shop.campaign(running(mint(1)), eventType=ORDER_CREATED, minSpendValue=50, active=False)
        shop.campaign(running(mint(1)), eventType=GENERIC, minSpendValue=50)
        used_up_limit = {"scope": "campaign", "type": "points", "period": "total", "limit": 0}
        shop.campaign(running(mint(1)), eventType=ORDER_CREATED, minSpendValue=50, limitRules=[used_up_limit])
        assert simulate(shop, total=40)["next"] == []

    def test_an_action_that_its_exclusive_group_prevents_is_no_reward(self, shop):
        first_action = running(mint(1), exclusiveGroup="g", priority=1)
        second_action = running(mint(1), exclusiveGroup="g", priority=2)
        shop.campaign(first_action, eventType=ORDER_CREATED)
        # With 50.00, the action of this campaign would still be excluded by the first.
        shop.campaign(second_action, eventType=ORDER_CREATED, minSpendValue=50)
        assert simulate(shop, total=40)["next"] == []

    def test_the_missing_amount_of_a_payment_is_reported(self, shop):
        shop.campaign(running(mint(1)), eventType="member-payment-confirmed", minSpendValue=50, name="Paid")
        assert shortfalls(simulate(shop, payment={"total": 40})) == [("Paid", "orderTotal", 10)]

    def test_at_most_eight_totals_are_tried_and_at_most_ten_rewards_returned(self, shop):
        for total in range(1, 9):
            shop.campaign(running(mint(total)), eventType=ORDER_CREATED, minSpendValue=40 + total, name=f"{total}")
        simulation = simulate(shop, total=40)
        assert [amount for _name, _kind, amount in shortfalls(simulation)] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert simulation["nextComplete"] is True
        # A ninth total, and three missions of which two are among the ten rewards.
        shop.campaign(running(mint(9)), eventType=ORDER_CREATED, minSpendValue=49)
        for goal in (7, 5, 6):
            create_mission(shop, name="Mission", goalCount=goal)
        simulation = simulate(shop, total=40)
        assert simulation["nextComplete"] is False
        assert [amount for _name, _kind, amount in shortfalls(simulation)] == [1, 2, 3, 4, 5, 6, 7, 8, 5, 6]

    def test_no_total_is_tried_after_the_time_is_used_up(self, shop, a_point_a_unit, a_hundred_from_fifty, monkeypatch):
        monkeypatch.setattr(rewards, "TRIAL_SECONDS", 0)
        simulation = simulate(shop, total=40)
        assert (simulation["next"], simulation["nextComplete"]) == ([], False)

    def test_a_tier_that_is_assumed_without_a_balance_has_no_missing_points(self, shop, a_point_a_unit):
        tiers = TierSchedule.new(shop, Silver=500, Gold=1000)
        key = tiers.tiers["Silver"]["loyaltyTierKey"]
        # The order gives 10 points.
        assert shortfalls(simulate(shop, total=10)) == [("Silver", "points", 500 - 10), ("Gold", "points", 1000 - 10)]
        assert shortfalls(simulate(shop, total=10, **{"as": {"tierKeys": [key]}})) == []

    def test_tiers_up_to_the_floor_of_the_member_are_no_rewards(self, shop, a_point_a_unit):
        tiers = TierSchedule.new(shop, Silver=500, Gold=1000, Platinum=2000)
        tiers.set(shop.member(loyaltyMemberId="ana"), "Gold", tierHold="floor")
        assert shortfalls(simulate(shop, total=10, loyaltyMemberId="ana")) == [("Platinum", "points", 2000 - 10)]


def test_only_the_requested_parts_of_a_simulation_are_returned(shop, books, a_point_a_unit, a_hundred_from_fifty):
    books.make(type="codeless")
    parts = ("earn", "redeem", "next", "explain")
    for part in parts:
        simulation = simulate(shop, total=10, include=[part])
        assert [name for name in parts if simulation.get(name)] == [part]
    assert [name for name in parts if simulate(shop, total=10).get(name)] == ["earn", "redeem", "next"]
    explanations = simulate(shop, total=10, include=["explain"])["explain"]
    assert [entry["applied"] for entry in explanations] == [True, False, True]
    assert [entry["trace"] for entry in explanations] == [{}, {}, {}]
    # The order of 10 is below the minimum spend of 50.
    assert [entry["reason"]["code"] for entry in explanations if "reason" in entry] == ["MIN_SPEND"]


def test_only_the_campaigns_that_the_request_names_are_evaluated(shop, a_point_a_unit, a_hundred_from_fifty):
    simulation = simulate(shop, total=60, campaignKeys=[a_hundred_from_fifty["campaignKey"]])
    assert available_and_discarded(simulation) == [(100, 0)]
    problem = simulate(shop, total=60, expect=404, campaignKeys=["0b6c7d1e-9a5f-4f0d-8a3b-2c1d0e9f8a7b"])
    assert problem["type"] == "/problems/unknown-campaign"


def test_usable_books_come_first_and_then_books_of_a_lower_ranking_index(shop, books):
    # The books are named after their expected places.
    books.make(type="codeless", name="4", rankingIndex=1, condition={"expression": "false"})
    books.make(type="codeless", name="2", rankingIndex=2)
    books.make(type="codeless", name="3")
    books.make(type="codeless", name="1", rankingIndex=1)
    books.make(type="codeless", name="draft", publishingStatus="draft")
    books.make(type="codeless", name="over", validToDate="2020-01-01T00:00:00Z")
    books.make(type="list", name="empty")
    redemptions = simulate(shop, total=10)["redeem"]
    assert [(redemption["name"], redemption["usable"]) for redemption in redemptions] == [
        ("1", True),
        ("2", True),
        ("3", True),
        ("4", False),
        ("empty", False),
    ]
    empty_book = redemptions[-1]
    assert [reason["code"] for reason in empty_book["exclusionReasons"]] == ["coupon-out-of-stock"]


class TestTimeOfConditions:
    """The conditions of coupon books share a time limit; a book is left out if there is no time for its condition."""

    CONDITION: ClassVar = {"condition": {"expression": "true"}}

    @pytest.fixture
    def no_time(self, monkeypatch):
        """No condition is evaluated in time."""
        monkeypatch.setattr(deadlines, "_event_seconds", 0.0)

    @pytest.fixture
    def make_book(self, shop, books):
        """A function that creates a book of a name; a newcomer lacks all `usageRequiredPoints`."""
        points = {"requiredPointsConfig": {"ledgerAccountKey": shop.organization.defaults.ledger_account_key}}

        def make(name, **fields):
            more = points if "usageRequiredPoints" in fields else {}
            books.make(type="codeless", name=name, **fields, **more)

        return make

    def names(self, simulation):
        """The names of the books that the member could redeem."""
        return [book["name"] for book in simulation["redeem"]]

    def test_all_conditions_are_evaluated_in_time(self, shop, make_book):
        make_book("free", **self.CONDITION)
        make_book("for points", usageRequiredPoints=5, **self.CONDITION)
        simulation = simulate(shop, total=10)
        assert (self.names(simulation), simulation["redeemComplete"]) == (["free", "for points"], True)
        assert (shortfalls(simulation), simulation["nextComplete"]) == ([("for points", "points", 5)], True)

    def test_books_without_a_condition_are_returned_when_the_time_is_used_up(self, shop, make_book, no_time):
        make_book("free")
        make_book("for points", usageRequiredPoints=5)
        make_book("free for some", **self.CONDITION)
        make_book("for points for some", usageRequiredPoints=5, **self.CONDITION)
        simulation = simulate(shop, total=10)
        assert (self.names(simulation), simulation["redeemComplete"]) == (["free", "for points"], False)
        assert (shortfalls(simulation), simulation["nextComplete"]) == ([("for points", "points", 5)], False)

    def test_no_condition_is_evaluated_after_all_redemptions_are_found(self, shop, make_book, no_time, monkeypatch):
        monkeypatch.setattr(simulated_coupons, "MAX_REDEMPTIONS", 1)
        make_book("1", rankingIndex=1)
        make_book("2", rankingIndex=2, **self.CONDITION)
        simulation = simulate(shop, total=10, include=["redeem"])
        assert (self.names(simulation), simulation["redeemComplete"]) == (["1"], True)

    def test_no_condition_is_evaluated_after_the_nearest_rewards_are_found(self, shop, make_book, no_time, monkeypatch):
        monkeypatch.setattr(rewards, "MAX_REWARDS", 1)
        make_book("5", usageRequiredPoints=5)
        make_book("6", usageRequiredPoints=6, **self.CONDITION)
        simulation = simulate(shop, payment={"total": 10}, include=["next"])
        assert (shortfalls(simulation), simulation["nextComplete"]) == ([("5", "points", 5)], True)

    def test_a_presented_code_whose_books_take_too_long_is_not_usable(self, shop, books, no_time):
        books.make("TEN", type="single", **self.CONDITION)
        [ten, unknown_coupon] = simulate(shop, total=10, couponCodes=["TEN", "NONE"])["coupons"]
        assert (ten["usable"], ten["couponBookKey"]) == (False, None)
        assert [reason["code"] for reason in ten["exclusionReasons"]] == ["deadline-exceeded"]
        assert [reason["code"] for reason in unknown_coupon["exclusionReasons"]] == ["unknown-coupon"]


def test_simulations_read_no_book_as_a_whole(api, shop, books):
    books.make(type="codeless", name="Espresso", customAttributes={"menu": ["espresso"]})
    with parameters_of_statements_about(api.engine, "detail_picture_url") as parameters:
        [redemption] = simulate(shop, total=10)["redeem"]
    assert redemption["name"] == "Espresso"
    assert parameters == []


def test_a_limited_number_of_books_is_considered(shop, books, monkeypatch):
    monkeypatch.setattr(simulated_coupons, "MAX_OFFERS", 2)
    books.make(type="codeless", name="2")
    books.make(type="codeless", name="1", rankingIndex=9)
    simulation = simulate(shop, total=10)
    assert [book["name"] for book in simulation["redeem"]] == ["1", "2"]
    assert (simulation["redeemComplete"], simulation["nextComplete"]) == (True, True)
    # A third book is one more than are considered.
    books.make(type="codeless", name="0", rankingIndex=1)
    simulation = simulate(shop, total=10)
    assert [book["name"] for book in simulation["redeem"]] == ["0", "1"]
    assert (simulation["redeemComplete"], simulation["nextComplete"]) == (False, False)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"order": {"total": 1}, "payment": {"total": 1}}, ""),
        ({"order": {}}, "/order/total"),
        ({"order": {"total": 1}, "loyaltyMemberId": "x", "as": {}}, "/as"),
        ({"order": {"total": 1, "externalEventDate": "0001-01-01T00:00:00+14:00"}}, "/order/externalEventDate"),
        (
            {"event": {"eventType": "member-purchase-order-returned", "payload": {"order": {"externalId": "o"}}}},
            "/event/eventType",
        ),
    ],
)
def test_an_invalid_simulation_is_refused_with_the_field(shop, body, pointer):
    assert [fault["pointer"] for fault in simulate(shop, expect=400, **body)["errors"]] == [pointer]


def test_unknown_members_and_event_types_are_refused(shop):
    assert simulate(shop, total=1, expect=404, loyaltyMemberId="nobody")["type"] == "/problems/unknown-member"
    assert simulate(shop, expect=404, event={"eventType": "none"})["type"] == "/problems/unknown-event-type"


@pytest.mark.parametrize("payload", [{}, {"payload": {"order": {"externalId": "o"}}}])
def test_an_event_of_an_order_without_its_total_is_refused(shop, payload):
    problem = simulate(shop, expect=400, event={"eventType": ORDER_CREATED, **payload})
    assert problem["type"] == "/problems/payload-missing"


def test_inactive_and_erased_members_are_refused(shop):
    member = shop.organization.member("gone")
    path = f"/members/{member['memberId']}"
    shop.administration.patch(path, {"active": False})
    assert simulate(shop, total=1, expect=409, loyaltyMemberId="gone")["type"] == "/problems/member-inactive"
    shop.administration.delete(path, expect=200)
    erased_id = shop.administration.get(path)["loyalMember"]["loyaltyMemberId"]
    assert simulate(shop, total=1, expect=404, loyaltyMemberId=erased_id)["type"] == "/problems/unknown-member"


def test_an_order_with_payments_has_missing_amounts(shop, a_hundred_from_fifty):
    order = {"total": 0, "payments": [{"tender": "card", "amount": 0}]}
    simulation = shop.integration.post("/simulations", {"order": order}, expect=200)["simulation"]
    assert [reward["missing"] for reward in simulation["next"]] == [{"kind": "orderTotal", "amount": 50}]
