"""Late events: the tiers and the limits of the day on which they happened, in any order of arrival."""

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
    return clocks.installed(monkeypatch)


@pytest.fixture
def stars(shop):
    """A second account, not that of the tiers, so that events move no tier."""
    return shop.account(name="Stars")


@pytest.fixture
def ladder(shop):
    return TierSchedule.new(shop, Silver=100, Gold=500)


@pytest.fixture
def gold_campaign(shop, stars, ladder):
    """Two stars a euro for gold members."""
    twice = mint(("=", "order.total * 2"), ledgerAccountKey=stars["ledgerAccountKey"])
    return shop.campaign(running(twice), eventType=ORDER_CREATED, loyaltyTierKeys=[ladder.key("Gold")])


def stars_of(shop, member, stars):
    return shop.balance(member, stars["ledgerAccountId"])


def set_to(clock, moment):
    clock.ahead = moment - datetime.now(UTC)


def text_of(moment):
    return moment.isoformat().replace("+00:00", "Z")


@pytest.fixture
def member(shop, clock, ladder, gold_campaign):
    """A member who is silver from January on and gold since 10:00 on 24 November; it is 12:00 now."""
    set_to(clock, datetime(2026, 1, 10, 9, tzinfo=UTC))
    member = shop.member()
    shop.give(member, 100)
    set_to(clock, NOVEMBER_24 + timedelta(hours=10))
    shop.give(member, 400)
    set_to(clock, NOVEMBER_24 + timedelta(hours=12))
    assert ladder.of(member) == "Gold"
    return member


# --- tiers -------------------------------------------------------------------------------------------------------


def test_a_late_purchase_depends_on_the_tier_of_its_date(shop, stars, member):
    result = shop.track_one(order(member, 50, externalEventDate="2026-03-01T18:00:00Z"))
    assert (result["effects"], result["tiersAsOf"]) == ([], "2026-03-01T18:00:00Z")
    assert stars_of(shop, member, stars) == 0
    # Half an hour ago is not late; at 11:30 the member was gold anyway.
    result = shop.track_one(order(member, 50, externalEventDate="2026-11-24T11:30:00Z"))
    assert ([effect["status"] for effect in result["effects"]], result["tiersAsOf"]) == (["executed"], None)
    assert stars_of(shop, member, stars) == 100


def test_a_late_purchase_since_the_tier_was_reached_earns_by_it(shop, stars, member):
    result = shop.track_one(order(member, 7, externalEventDate="2026-11-24T10:30:00Z"))
    assert result["tiersAsOf"] == "2026-11-24T10:30:00Z"
    assert stars_of(shop, member, stars) == 14


def test_the_date_of_the_order_counts_like_that_of_the_event(shop, stars, member):
    one = order(member, 50)
    one["payload"]["order"]["externalEventDate"] = "2026-03-01T18:00:00Z"
    assert shop.track_one(one)["tiersAsOf"] == "2026-03-01T18:00:00Z"
    assert stars_of(shop, member, stars) == 0


@pytest.mark.parametrize(("date", "tier"), [("2025-12-31T00:00:00Z", "Basic"), ("2026-02-01T00:00:00Z", "Silver")])
def test_expressions_see_the_tiers_of_then(shop, stars, ladder, member, date, tier):
    one = mint(1, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(one, rule=f'"{ladder.key(tier)}" in tiers && size(tiers) == 1'), eventType=GENERIC)
    assert shop.track_one(event(member, externalEventDate=date))["tiersAsOf"] == date
    assert stars_of(shop, member, stars) == 1


def test_the_present_tiers_count_where_the_organization_wants_them(shop, stars, member):
    shop.administration.put("", {"defaultLocale": "en", "lateEventTiers": "evaluation"})
    result = shop.track_one(order(member, 50, externalEventDate="2026-03-01T18:00:00Z"))
    assert result["tiersAsOf"] is None
    assert stars_of(shop, member, stars) == 100


def test_captured_and_queued_events_follow_the_same_rule(shop, clock, stars, member):
    late = [order(member, 50, externalEventDate="2026-03-01T18:00:00Z") for _ in range(2)]
    [captured] = shop.track(late[0], executionMode="captureOnly")
    assert captured["tiersAsOf"] is None
    path = f"/events/{captured['loyaltyEventKey']}"
    evaluated = shop.administration.post(f"{path}/evaluate", expect=200)["result"]
    assert (evaluated["effects"], evaluated["tiersAsOf"]) == ([], "2026-03-01T18:00:00Z")
    send(shop, late[1])
    drain(shop)
    [queued] = [one for one in shop.track(late[1]) if one["status"] == "success"]
    assert (queued["effects"], queued["tiersAsOf"]) == ([], "2026-03-01T18:00:00Z")
    assert stars_of(shop, member, stars) == 0


def test_a_purchase_that_waits_in_the_queue_keeps_the_tier_of_its_date(shop, clock, stars, member):
    shop.give(member, 400, "burn")
    clock.wait(minutes=30)
    waiting = order(member, 50)
    [captured] = shop.track(waiting, executionMode="captureOnly")
    shop.give(member, 400)
    clock.wait(hours=2)
    path = f"/events/{captured['loyaltyEventKey']}"
    evaluated = shop.administration.post(f"{path}/evaluate", expect=200)
    assert evaluated["result"]["tiersAsOf"] == evaluated["event"]["createdAt"]
    assert stars_of(shop, member, stars) == 0


def test_a_dry_run_says_the_same_and_changes_nothing(shop, stars, member):
    late = order(member, 50, externalEventDate="2026-03-01T18:00:00Z")
    [tried] = shop.track(late, executionMode="dryRun")
    [reason] = [why["reason"]["code"] for why in tried["explain"] if not why["applied"]]
    assert (reason, tried["tiersAsOf"]) == ("TIER", "2026-03-01T18:00:00Z")
    at_that_time = {key: value for key, value in late.items() if key != "externalEventDate"}
    [tried] = shop.track(at_that_time, executionMode="dryRun", now="2026-03-01T18:00:00Z")
    # An event evaluated at another `now` is never late: it sees the tiers of today.
    assert ([effect["status"] for effect in tried["effects"]], tried["tiersAsOf"]) == (["evaluated"], None)
    assert stars_of(shop, member, stars) == 0


def test_what_the_server_reports_of_a_late_event_depends_on_the_present_tiers(shop, clock, ladder, stars):
    """The member reaches the tier now, whatever the date of the purchase."""
    shop.campaign(running(mint(500)), eventType=ORDER_CREATED)
    bonus = mint(50, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(bonus), eventType="member-tier-set", loyaltyTierKeys=[ladder.key("Gold")])
    member = shop.member()
    clock.wait(days=3)
    date = clock.moment(days=-2)
    assert shop.track_one(order(member, 50, externalEventDate=date))["tiersAsOf"] == date
    assert ladder.of(member) == "Gold"
    assert stars_of(shop, member, stars) == 50


def test_tiers_that_were_set_and_taken_away_by_hand_are_known(shop, clock, ladder, stars):
    path = f"/loyalty-programs/{ladder.program['loyaltyProgramKey']}/tier"
    one = mint(1, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(one), eventType=GENERIC, loyaltyTierKeys=[ladder.key("Gold")])
    member, dates = shop.member(), []
    for tier in ("Gold", None, "Gold", "Silver"):
        clock.wait(days=1)
        shop.integration.put(f"/members/{member}{path}", {"loyaltyTierKey": tier and ladder.key(tier)})
        dates.append(clock.moment(hours=1))
    clock.wait(days=1)
    results = shop.track(*(event(member, externalEventDate=date) for date in dates))
    assert [len(result["effects"]) for result in results] == [1, 0, 1, 0]
    assert stars_of(shop, member, stars) == 2


def test_the_default_tier_counts_before_the_enrolment(shop, clock, ladder, stars):
    one = mint(1, ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(one), eventType=GENERIC, loyaltyTierKeys=[ladder.key("Basic")])
    member = shop.member()
    shop.give(member, 500)
    result = shop.track_one(event(member, externalEventDate="2026-01-01T00:00:00Z"))
    assert (len(result["effects"]), result["tiersAsOf"]) == (1, "2026-01-01T00:00:00Z")


def test_many_late_events_take_one_more_statement(shop, clock, stars, member):
    def statements(*events):
        with count_statements(shop.engine) as all_statements:
            shop.track(*events)
        return [statement for statement in all_statements if "past_member_tiers" in statement]

    date = "2026-03-01T18:00:00Z"
    assert statements(order(member, 1), order(member, 2)) == []
    assert len(statements(order(member, 1, externalEventDate=date))) == 1
    others = [shop.member() for _ in range(3)]
    late = [order(buyer, 1, externalEventDate=date) for buyer in (member, *others, *others)]
    assert len(statements(*late)) == 1


def test_results_of_an_earlier_version_have_no_date_of_tiers(shop, member):
    one = order(member, 50, externalEventDate="2026-03-01T18:00:00Z")
    before = shop.track_one(one)
    with shop.engine.begin() as db:
        update = "UPDATE events SET result = (result::jsonb - 'tiersAsOf')::json WHERE organization_id = :o"
        db.execute(text(f"{update} AND result::jsonb ? 'tiersAsOf'"), {"o": shop.organization.id})
    assert shop.track_one(one) == {**before, "tiersAsOf": None}
    result = shop.integration.get(f"/events/{before['loyaltyEventKey']}", include="result")["result"]
    assert result == {**before, "tiersAsOf": None}


# --- limits, orders and the sequence -----------------------------------------------------------------------------


def capped(shop, limit=100):
    return shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "member", "type": "points", "period": "daily", "limit": limit}],
        allowPartialApplicationOnLimit=True,
    )


def minted(result):
    return sum(param["value"] for effect in result["effects"] for param in effect["params"] if param["id"] == "amount")


def test_a_limit_is_charged_to_the_day_of_the_event_in_the_order_of_arrival(shop):
    capped(shop)
    member = shop.member()
    dated = [(80, "2025-11-02T18:00:00Z"), (50, "2025-11-02T09:00:00Z"), (50, "2025-11-01T12:00:00Z")]
    results = [shop.track_one(order(member, total, externalEventDate=date)) for total, date in dated]
    assert [minted(result) for result in results] == [80, 20, 50]
    assert shop.balance(member) == 150


def test_the_same_receipt_under_another_key_gives_nothing(shop):
    capped(shop)
    member = shop.member()
    shop.track_one(order(member, 50, external_id="receipt-17", systemUniqueKey="till-4-17"))
    again = order(member, 50, external_id="receipt-17", systemUniqueKey="till-9-sync-3")
    assert shop.expect_refusal(again) == "/problems/order-exists"
    assert shop.balance(member) == 50


SALES = [(80, "2025-11-02T18:00:00Z"), (50, "2025-11-02T09:00:00Z"), (50, "2025-11-01T12:00:00Z")]


@pytest.mark.parametrize("sequence", [*permutations(SALES)])
def test_the_sequence_does_not_matter_where_no_limit_cuts(shop, clock, ladder, stars, sequence):
    twice = mint(("=", "order.total * 2"), ledgerAccountKey=stars["ledgerAccountKey"])
    shop.campaign(running(twice), eventType=ORDER_CREATED, loyaltyTierKeys=[ladder.key("Silver")])
    capped(shop, limit=1000)
    set_to(clock, datetime(2025, 11, 1, tzinfo=UTC))
    member = shop.member()
    set_to(clock, datetime(2025, 11, 2, 12, tzinfo=UTC))
    shop.give(member, 100)
    set_to(clock, NOVEMBER_24)
    for total, date in sequence:
        shop.track_one(order(member, total, externalEventDate=date))
    # Silver from noon on 2 November: only the sale of that evening counts twice.
    assert (shop.balance(member), stars_of(shop, member, stars)) == (280, 160)


@pytest.mark.parametrize("sequence", [*permutations(SALES)])
def test_the_sum_of_each_period_does_not_depend_on_the_sequence(shop, sequence):
    capped(shop)
    member = shop.member()
    by_day = {}
    for total, date in sequence:
        points = minted(shop.track_one(order(member, total, externalEventDate=date)))
        by_day[date[:10]] = by_day.get(date[:10], 0) + points
    assert by_day == {"2025-11-01": 50, "2025-11-02": 100}
