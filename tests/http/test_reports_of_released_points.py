"""Reports of points that waited: they count on the day on which they became available, whenever they were settled."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from domain.ledger.records import PENDING
from handlers.services.ledger.expire import expire_next
from handlers.services.verify import verify_reports
from persistence import organizations
from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.reports import move_all_changes
from tests.builders.tracking import ORDER_CREATED, Shop, event, order, order_update, running

# The test clock starts on 1 March 2026 at 10:00 in Madrid.
MARCH = {"sinceFrom": "2026-02-28T23:00:00Z", "sinceTo": "2026-03-31T22:00:00Z", "tz": "Europe/Madrid"}


@pytest.fixture(params=["changes", "totals"])
def settle(request, api):
    """A function that moves all records into the totals, or none, before reports are read, and verifies the totals."""

    def settle(shop):
        if request.param == "totals":
            move_all_changes(api.engine)
        with api.engine.connect() as db:
            assert verify_reports(db, shop.organization.id) == []

    return settle


@pytest.fixture
def shop(clock):
    return Shop(clock.organization)


def amount_by_day(shop, **query):
    """The minted amount by day, without days of 0."""
    rows = shop.administration.get("/reports/tag-series", **query)["results"]
    return {row["date"]: row["amount"] for row in rows if row["amount"]}


def figures(shop, since, until, **query):
    """(total, amounts of the top members, (total of the account, average for each member)) of a range."""
    parameters = {"sinceFrom": since, "sinceTo": until, **query}
    account = shop.organization.defaults.ledger_account_id
    top = shop.administration.get("/reports/top-members", **parameters)["results"]
    # The report of an account has no parameter `tag`.
    account_parameters = {name: value for name, value in parameters.items() if name != "tag"}
    totals = shop.administration.get(f"/reports/ledger-accounts/{account}/totals", **account_parameters)["result"]
    return (
        shop.administration.get("/reports/tag-total", **parameters)["result"]["amount"],
        [row["amount"] for row in top],
        (totals["totalAmount"], totals["avgAmountPerUser"]),
    )


def default_account(shop):
    """The default account, whose points members receive."""
    return Points(shop.organization, {"ledgerAccountId": shop.organization.defaults.ledger_account_id})


@pytest.mark.slow
def test_points_count_on_the_day_on_which_they_become_available(clock, shop, settle):
    member = shop.member()
    shop.give(member, 100, availableAfter="P14D", tags=["spring"])
    shop.give(member, 7, tags=["spring"])
    settle(shop)
    assert amount_by_day(shop, **MARCH) == {"2026-03-01": 7}
    clock.advance("2026-03-20T09:00:00Z")
    settle(shop)
    assert amount_by_day(shop, **MARCH) == {"2026-03-01": 7, "2026-03-15": 100}
    assert amount_by_day(shop, tag="spring", **MARCH) == {"2026-03-01": 7, "2026-03-15": 100}
    first_week = ("2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z")
    third_week = ("2026-03-15T00:00:00Z", "2026-03-22T00:00:00Z")
    assert figures(shop, *first_week, tag="spring") == (7, [7], (7, 7))
    assert figures(shop, *third_week, tag="spring") == (100, [100], (100, 100))


def test_points_count_in_the_range_that_begins_when_they_become_available(clock, shop, settle):
    # The moment is inside a quarter of an hour, so the reports read the records and not the totals.
    shop.give(shop.member(), 100, availableAt="2026-03-15T09:00:00.5Z")
    clock.advance("2026-03-20T09:00:00Z")
    settle(shop)
    assert figures(shop, "2026-03-01T08:59:59Z", "2026-03-15T09:00:00.5Z") == (0, [], (0, 0))
    assert figures(shop, "2026-03-15T09:00:00.5Z", "2026-03-15T09:00:00.500001Z") == (100, [100], (100, 100))
    # The moment of the mint does not count.
    assert figures(shop, "2026-03-01T08:59:59Z", "2026-03-01T09:00:01Z") == (0, [], (0, 0))


@pytest.mark.parametrize(
    ("zone", "day"), [("Europe/Madrid", "2026-03-15"), ("UTC", "2026-03-14"), ("Asia/Kathmandu", "2026-03-15")]
)
def test_points_count_on_the_day_in_the_requested_time_zone(clock, shop, settle, zone, day):
    # 13 days after 1 March the points wait until midnight in Madrid, which is 23:00 of 14 March in UTC.
    shop.give(shop.member(), 100, availableAfter="P13D", availableRounding="day")
    clock.advance("2026-03-20T09:00:00Z")
    settle(shop)
    assert amount_by_day(shop, **{**MARCH, "tz": zone}) == {day: 100}


@pytest.mark.parametrize("settled_by", ["worker", "movement"])
def test_points_settled_late_count_on_the_day_on_which_they_were_available(organization, api, settle, settled_by):
    # The points are minted now, and the stored transaction is changed as if they had been minted in 2024.
    shop = Shop(organization)
    member = shop.member()
    mint_transaction = shop.give(member, 100, availableAfter="P1D")
    Points(organization).change(
        "UPDATE ledger_transactions SET external_event_date = '2024-03-01T12:00:00Z',"
        " available_at = '2024-03-11T03:30:00Z' WHERE ledger_transaction_id = :id",
        id=mint_transaction["ledgerTransactionId"],
    )
    march = {"sinceFrom": "2024-03-01T05:00:00Z", "sinceTo": "2024-04-01T04:00:00Z", "tz": "America/New_York"}
    assert amount_by_day(shop, **march) == {}
    if settled_by == "worker":
        with api.engine.begin() as db:
            expire_next(db, organizations.find(db, organization.id), 0, datetime.now(UTC))
    else:
        shop.take(member, 30)
    settle(shop)
    assert shop.balance(member) == (100 if settled_by == "worker" else 100 - 30)
    # The points became available on 10 March at 23:30 in New York.
    assert amount_by_day(shop, **march) == {"2024-03-10": 100}
    # By default a series is of the last 30 days.
    assert amount_by_day(shop) == {}


def test_points_released_early_count_on_the_day_of_their_release(clock, shop, settle):
    mint_transaction = shop.give(shop.member(), 100, availableAfter="P14D")
    clock.advance("2026-03-05T22:59:59Z")
    default_account(shop).release(mint_transaction["ledgerTransactionId"])
    clock.advance("2026-03-20T09:00:00Z")
    settle(shop)
    assert amount_by_day(shop, **MARCH) == {"2026-03-05": 100}
    # 22:59:59 UTC is before midnight in Madrid and after midnight in Kathmandu.
    assert amount_by_day(shop, **{**MARCH, "tz": "Asia/Kathmandu"}) == {"2026-03-06": 100}


def test_points_that_waited_for_an_event_count_on_the_day_of_their_availability(clock, shop, settle):
    member_with_100, member_with_10, member_with_1 = shop.member(), shop.member(), shop.member()
    terms = {"availableOn": {"eventTypes": ["member-generic-event"]}}
    shop.give(member_with_100, 100, availableAfter="P2D", **terms)
    shop.give(member_with_10, 10, **terms)
    mint_to_release = shop.give(member_with_1, 1, **terms)
    clock.advance("2026-03-05T09:00:00Z")
    shop.track(event(member_with_100), event(member_with_10))
    default_account(shop).release(mint_to_release["ledgerTransactionId"])
    clock.advance("2026-03-20T09:00:00Z")
    settle(shop)
    # The 10 by their event and the 1 by its release; the 100 two days after their event.
    assert amount_by_day(shop, **MARCH) == {"2026-03-05": 10 + 1, "2026-03-07": 100}


def test_points_that_remain_after_a_return_count_when_they_are_available(clock, shop, settle):
    shop.campaign(running(mint(("=", "floor(order.total)"), availableAfter="P14D")), eventType=ORDER_CREATED)
    member = shop.member()
    shop.track_one(order(member, total=100, external_id="order-1"))
    clock.advance("2026-03-10T09:00:00Z")
    shop.track_one(order_update(member, "order-1", "confirmed"))
    shop.track_one(order_update(member, "order-1", "partially-returned", items=[{"total": 40}]))
    settle(shop)
    assert amount_by_day(shop, **MARCH) == {}
    clock.advance("2026-03-20T09:00:00Z")
    settle(shop)
    assert amount_by_day(shop, **MARCH) == {"2026-03-15": 100 - 40}


def test_a_revert_counts_on_its_own_day(clock, shop, settle):
    member = shop.member()
    available_mint = shop.give(member, 100, availableAfter="P14D")
    waiting_mint = shop.give(member, 30, availableAfter="P14D")
    clock.advance("2026-03-10T09:00:00Z")
    default_account(shop).revert(waiting_mint["ledgerTransactionId"])
    clock.advance("2026-03-20T09:00:00Z")
    default_account(shop).revert(available_mint["ledgerTransactionId"])
    settle(shop)
    assert amount_by_day(shop, **MARCH) == {"2026-03-15": 100, "2026-03-20": -100}


def test_points_that_never_waited_count_on_the_day_of_their_event(clock, shop, settle):
    member = shop.member()
    # These points are available at once: the 14 days have passed on 1 March.
    shop.give(member, 100, availableAfter="P14D", externalEventDate="2026-02-10T12:00:00Z")
    # These points are captured.
    shop.campaign(running(mint(10)), eventType=ORDER_CREATED)
    authorized_order = order(member, total=40, externalEventDate="2026-02-20T12:00:00Z")
    shop.track(authorized_order, executionMode="authorize")
    clock.advance("2026-03-10T09:00:00Z")
    rows = shop.rows("ledger_transactions", "ledger_transaction_id, status")
    [pending_id] = [row.ledger_transaction_id for row in rows if row.status == PENDING]
    # None captures the whole amount.
    default_account(shop).capture((pending_id, None))
    settle(shop)
    months = {"sinceFrom": "2026-02-01T00:00:00Z", "sinceTo": "2026-04-01T00:00:00Z", "tz": "UTC"}
    assert amount_by_day(shop, **months) == {"2026-02-10": 100, "2026-02-20": 10}
