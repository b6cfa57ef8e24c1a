"""Late events are evaluated by the tiers and the limits of their dates, in any order of arrival."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest
from sqlalchemy import text

from tests.builders import clock as clocks
from tests.builders.campaigns import mint
from tests.builders.queue import drain, send
from tests.builders.statements import count_statements
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, WHOLE_DOLLARS, Shop, event, order, running

NOVEMBER_24 = datetime(2026, 11, 24, tzinfo=UTC)


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def clock(monkeypatch):
    return clocks.install_clock(monkeypatch)


@pytest.fixture
def stars(shop):
    """A second account, on which the tiers do not depend, so that events change no tier."""
    return shop.account(name="Stars")


@pytest.fixture
def tiers(shop):
    """Silver requires 100 points, gold 500; all other members have the default tier, Basic."""
    return TierSchedule.new(shop, Silver=100, Gold=500)


@pytest.fixture
def gold_campaign(shop, stars, tiers):
    """Two stars for each unit of an order, for gold members."""
    double_points = mint(("=", "order.total * 2"), ledgerAccountKey=stars["ledgerAccountKey"])
    return shop.campaign(running(double_points), eventType=ORDER_CREATED, loyaltyTierKeys=[tiers.key("Gold")])


def balance_of_stars(shop, member, stars):
    return shop.balance(member, stars["ledgerAccountId"])


def set_clock(clock, moment):
    """Move the clock of all calls to a moment."""
    clock.ahead = moment - datetime.now(UTC)


@pytest.fixture
def member(shop, clock, tiers, gold_campaign):
    """A member who is silver since 10 January 2026 and gold since 10:00 on 24 November; it is 12:00 on that day."""
    set_clock(clock, datetime(2026, 1, 10, 9, tzinfo=UTC))
    member = shop.member()
    shop.give(member, 100)
    set_clock(clock, NOVEMBER_24 + timedelta(hours=10))
    shop.give(member, 400)
    set_clock(clock, NOVEMBER_24 + timedelta(hours=12))
    assert tiers.of(member) == "Gold"
    return member


# --- tiers -------------------------------------------------------------------------------------------------------


def test_a_late_purchase_depends_on_the_tier_of_its_date(shop, stars, member):
    # In March the member was silver.
    result = shop.track_one(order(member, 50, externalEventDate="2026-03-01T18:00:00Z"))
    assert (result["effects"], result["tiersAsOf"]) == ([], "2026-03-01T18:00:00Z")
    assert balance_of_stars(shop, member, stars) == 0
    # An event of half an hour ago is not late: it sees the present tier, gold.
    result = shop.track_one(order(member, 50, externalEventDate="2026-11-24T11:30:00Z"))
    assert [effect["status"] for effect in result["effects"]] == ["executed"]
    assert result["tiersAsOf"] is None
    assert balance_of_stars(shop, member, stars) == 2 * 50


def test_a_late_purchase_after_the_tier_was_reached_earns_by_this_tier(shop, stars, member):
    # The member is gold since 10:00.
    result = shop.track_one(order(member, 7, externalEventDate="2026-11-24T10:30:00Z"))
    assert result["tiersAsOf"] == "2026-11-24T10:30:00Z"
    assert balance_of_stars(shop, member, stars) == 2 * 7


def test_the_date_of_the_order_counts_like_that_of_the_event(shop, stars, member):
    late_order = order(member, 50)
    late_order["payload"]["order"]["externalEventDate"] = "2026-03-01T18:00:00Z"
    assert shop.track_one(late_order)["tiersAsOf"] == "2026-03-01T18:00:00Z"
    # In March the member was silver.
    assert balance_of_stars(shop, member, stars) == 0


@pytest.mark.parametrize(("date", "tier"), [("2025-12-31T00:00:00Z", "Basic"), ("2026-02-01T00:00:00Z", "Silver")])
def test_expressions_of_late_events_see_the_tiers_of_their_date(shop, stars, tiers, member, date, tier):
    one_star = mint(1, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(one_star, rule=f'"{tiers.key(tier)}" in tiers && size(tiers) == 1'), eventType=GENERIC)
    assert shop.track_one(event(member, externalEventDate=date))["tiersAsOf"] == date
    assert balance_of_stars(shop, member, stars) == 1


def test_late_events_see_the_present_tiers_with_the_setting_evaluation(shop, stars, member):
    shop.administration.put("", {"defaultLocale": "en", "lateEventTiers": "evaluation"})
    result = shop.track_one(order(member, 50, externalEventDate="2026-03-01T18:00:00Z"))
    assert result["tiersAsOf"] is None
    # Now the member is gold.
    assert balance_of_stars(shop, member, stars) == 2 * 50


def test_a_late_event_that_no_rule_considers_shows_the_moment_of_its_tiers_like_a_dry_run(shop, member):
    late_event = event(member, externalEventDate="2026-03-01T18:00:00Z")
    moments = [shop.track_one(late_event, executionMode=mode)["tiersAsOf"] for mode in ("dryRun", "full")]
    assert moments == ["2026-03-01T18:00:00Z"] * 2


def test_captured_and_queued_late_events_depend_on_the_tiers_of_their_date(shop, clock, stars, member):
    captured_order, queued_order = (order(member, 50, externalEventDate="2026-03-01T18:00:00Z") for _ in range(2))
    [captured_result] = shop.track(captured_order, executionMode="captureOnly")
    assert captured_result["tiersAsOf"] is None
    path = f"/events/{captured_result['loyaltyEventKey']}"
    evaluation = shop.administration.post(f"{path}/evaluate", expect=200)["result"]
    assert (evaluation["effects"], evaluation["tiersAsOf"]) == ([], "2026-03-01T18:00:00Z")
    send(shop, queued_order)
    drain(shop)
    # The repeated request returns the result of the queued event.
    queued_result = shop.track_one(queued_order)
    assert (queued_result["effects"], queued_result["tiersAsOf"]) == ([], "2026-03-01T18:00:00Z")
    # In March the member was silver.
    assert balance_of_stars(shop, member, stars) == 0


def test_a_captured_purchase_is_evaluated_by_the_tier_of_its_capture(shop, clock, stars, member):
    # With 500 - 400 points the member is silver when the order is captured, and gold again when it is evaluated.
    shop.take(member, 400)
    clock.wait(minutes=30)
    captured_order = order(member, 50)
    [captured_result] = shop.track(captured_order, executionMode="captureOnly")
    shop.give(member, 400)
    clock.wait(hours=2)
    path = f"/events/{captured_result['loyaltyEventKey']}"
    evaluation = shop.administration.post(f"{path}/evaluate", expect=200)
    assert evaluation["result"]["tiersAsOf"] == evaluation["event"]["createdAt"]
    assert balance_of_stars(shop, member, stars) == 0


def test_a_dry_run_of_a_late_event_depends_on_the_tiers_of_its_date_and_changes_nothing(shop, stars, member):
    late_order = order(member, 50, externalEventDate="2026-03-01T18:00:00Z")
    [dry_result] = shop.track(late_order, executionMode="dryRun")
    [reason] = [explanation["reason"] for explanation in dry_result["explain"] if not explanation["applied"]]
    assert (reason["code"], dry_result["tiersAsOf"]) == ("TIER", "2026-03-01T18:00:00Z")
    undated_order = {key: value for key, value in late_order.items() if key != "externalEventDate"}
    [dry_result] = shop.track(undated_order, executionMode="dryRun", now="2026-03-01T18:00:00Z")
    # An event evaluated at another `now` is never late: it sees the tiers of today.
    assert [effect["status"] for effect in dry_result["effects"]] == ["evaluated"]
    assert dry_result["tiersAsOf"] is None
    assert balance_of_stars(shop, member, stars) == 0


def test_events_that_a_late_event_causes_depend_on_the_present_tiers(shop, clock, tiers, stars):
    """The purchase is late; the event about the tier that it causes happens now, when the member is gold."""
    # Gold requires these 500 points.
    shop.campaign(running(mint(500)), eventType=ORDER_CREATED)
    bonus = mint(50, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(bonus), eventType="member-tier-set", loyaltyTierKeys=[tiers.key("Gold")])
    member = shop.member()
    clock.wait(days=3)
    date = clock.moment(days=-2)
    assert shop.track_one(order(member, 50, externalEventDate=date))["tiersAsOf"] == date
    assert tiers.of(member) == "Gold"
    assert balance_of_stars(shop, member, stars) == 50


def test_late_events_see_the_tiers_that_were_set_and_unset_by_request(shop, clock, tiers, stars):
    path = f"/loyalty-programs/{tiers.program['loyaltyProgramKey']}/tier"
    one_star = mint(1, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(one_star), eventType=GENERIC, loyaltyTierKeys=[tiers.key("Gold")])
    member, dates = shop.member(), []
    # None unsets the tier. Each date is an hour after a change.
    for tier in ("Gold", None, "Gold", "Silver"):
        clock.wait(days=1)
        tier_key = None if tier is None else tiers.key(tier)
        shop.integration.put(f"/members/{member}{path}", {"loyaltyTierKey": tier_key})
        dates.append(clock.moment(hours=1))
    clock.wait(days=1)
    results = shop.track(*(event(member, externalEventDate=date) for date in dates))
    # The campaign applies to the two dates with the tier gold.
    assert [len(result["effects"]) for result in results] == [1, 0, 1, 0]
    assert balance_of_stars(shop, member, stars) == 2


def test_the_default_tier_counts_before_the_enrolment(shop, clock, tiers, stars):
    one_star = mint(1, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(one_star), eventType=GENERIC, loyaltyTierKeys=[tiers.key("Basic")])
    # The member is enrolled today and gold at once.
    member = shop.member()
    shop.give(member, 500)
    result = shop.track_one(event(member, externalEventDate="2026-01-01T00:00:00Z"))
    assert (len(result["effects"]), result["tiersAsOf"]) == (1, "2026-01-01T00:00:00Z")


def test_late_events_of_a_batch_read_past_tiers_by_one_statement(shop, clock, stars, member):
    def statements_about_past_tiers(*events):
        """Track the events; return the statements that read past tiers."""
        with count_statements(shop.engine) as all_statements:
            shop.track(*events)
        return [statement for statement in all_statements if "past_member_tiers" in statement]

    date = "2026-03-01T18:00:00Z"
    assert statements_about_past_tiers(order(member, 1), order(member, 2)) == []
    assert len(statements_about_past_tiers(order(member, 1, externalEventDate=date))) == 1
    other_members = [shop.member() for _ in range(3)]
    late_orders = [order(buyer, 1, externalEventDate=date) for buyer in (member, *other_members, *other_members)]
    assert len(statements_about_past_tiers(*late_orders)) == 1


def test_stored_results_without_the_date_of_tiers_are_returned_with_null(shop, member):
    late_order = order(member, 50, externalEventDate="2026-03-01T18:00:00Z")
    first_result = shop.track_one(late_order)
    # Results that earlier versions of the server stored lack the field.
    with shop.engine.begin() as db:
        update = "UPDATE events SET result = (result::jsonb - 'tiersAsOf')::json WHERE organization_id = :o"
        db.execute(text(f"{update} AND result::jsonb ? 'tiersAsOf'"), {"o": shop.organization.id})
    assert shop.track_one(late_order) == {**first_result, "tiersAsOf": None}
    result = shop.integration.get(f"/events/{first_result['loyaltyEventKey']}", include="result")["result"]
    assert result == {**first_result, "tiersAsOf": None}


# --- limits, orders and the sequence -----------------------------------------------------------------------------


def create_limited_campaign(shop, *, daily_limit):
    """A campaign that mints a point for each whole unit of an order, up to a limit of a member's day."""
    return shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "member", "type": "points", "period": "daily", "limit": daily_limit}],
        allowPartialApplicationOnLimit=True,
    )


def minted_points(result):
    """The sum of the amounts of the effects of an event."""
    return sum(param["value"] for effect in result["effects"] for param in effect["params"] if param["id"] == "amount")


def test_a_limit_is_charged_to_the_day_of_the_event_in_the_order_of_arrival(shop):
    create_limited_campaign(shop, daily_limit=100)
    member = shop.member()
    totals_and_dates = [(80, "2025-11-02T18:00:00Z"), (50, "2025-11-02T09:00:00Z"), (50, "2025-11-01T12:00:00Z")]
    results = [shop.track_one(order(member, total, externalEventDate=date)) for total, date in totals_and_dates]
    # The limit of 2 November is 100 points, of which 80 are used when the order of the morning arrives.
    assert [minted_points(result) for result in results] == [80, 20, 50]
    assert shop.balance(member) == 80 + 20 + 50


def test_a_second_creation_of_an_order_is_refused_even_with_another_key(shop):
    create_limited_campaign(shop, daily_limit=100)
    member = shop.member()
    shop.track_one(order(member, 50, external_id="receipt-17", systemUniqueKey="till-4-17"))
    second_creation = order(member, 50, external_id="receipt-17", systemUniqueKey="till-9-sync-3")
    assert shop.expect_refusal(second_creation) == "/problems/order-exists"
    assert shop.balance(member) == 50


# (total, date) of orders
SALES = [(80, "2025-11-02T18:00:00Z"), (50, "2025-11-02T09:00:00Z"), (50, "2025-11-01T12:00:00Z")]


@pytest.mark.parametrize("sequence", [*permutations(SALES)])
def test_results_below_the_limits_do_not_depend_on_the_sequence_of_events(shop, clock, tiers, stars, sequence):
    double_points = mint(("=", "order.total * 2"), ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(double_points), eventType=ORDER_CREATED, loyaltyTierKeys=[tiers.key("Silver")])
    create_limited_campaign(shop, daily_limit=1000)
    set_clock(clock, datetime(2025, 11, 1, tzinfo=UTC))
    member = shop.member()
    set_clock(clock, datetime(2025, 11, 2, 12, tzinfo=UTC))
    shop.give(member, 100)
    set_clock(clock, NOVEMBER_24)
    for total, date in sequence:
        shop.track_one(order(member, total, externalEventDate=date))
    # The 100 given and the totals of all sales.
    assert shop.balance(member) == 100 + 80 + 50 + 50
    # Silver from noon on 2 November: two stars a dollar for the sale of that evening.
    assert balance_of_stars(shop, member, stars) == 2 * 80


@pytest.mark.parametrize("sequence", [*permutations(SALES)])
def test_the_points_of_each_limited_day_do_not_depend_on_the_sequence_of_events(shop, sequence):
    create_limited_campaign(shop, daily_limit=100)
    member = shop.member()
    points_by_day = {}
    for total, date in sequence:
        points = minted_points(shop.track_one(order(member, total, externalEventDate=date)))
        points_by_day[date[:10]] = points_by_day.get(date[:10], 0) + points
    # On 2 November, the limit of 100 cuts off 30 of 80 + 50.
    assert points_by_day == {"2025-11-01": 50, "2025-11-02": 100}
