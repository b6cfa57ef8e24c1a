"""Reports over HTTP: the figures, the day on which a record counts, and the media types of the responses."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from handlers.services.verify import verify_reports
from tests.builders.reports import move_all_changes
from tests.builders.tracking import WHOLE_DOLLARS, Shop, event, order, order_update, running

# Reports, with the required query, and the role that each needs.
ROLE_OF_REPORT = {
    "members-over-time": "members:read",
    "coupons-over-time": "coupons:read",
    "top-coupon-books": "coupons:read",
    "coupon-books-by-tag": "coupons:read",
    "top-members": "ledgers:read",
    "tag-series": "ledgers:read",
    "tag-total": "ledgers:read",
    "event-count?eventType=member-created": "orders:read",
    "discounts": "coupons:read",
    "missions-summary": "campaigns:read",
}
SERIES = ("members-over-time", "coupons-over-time", "tag-series")
# Reports without a range are of the last 30 days.
MARCH = {"sinceFrom": "2024-03-01T00:00:00Z", "sinceTo": "2024-04-01T00:00:00Z"}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture(params=["changes", "totals"])
def settle(request, shop):
    """A function that moves all records into the totals, or none, before reports are read, and verifies the totals."""

    def settle():
        if request.param == "totals":
            move_all_changes(shop.engine)
        with shop.engine.connect() as db:
            assert verify_reports(db, shop.organization.id) == []

    return settle


def report(shop, name, **query):
    """The response with a report."""
    return shop.administration.get(f"/reports/{name}", **query)


def nonzero_days(series):
    """The days of a series that are not all zero."""
    return [row for row in series["results"] if any(value for name, value in row.items() if name != "date")]


def today():
    return datetime.now(UTC).date().isoformat()


@pytest.mark.parametrize("path", ROLE_OF_REPORT)
def test_each_report_needs_its_role(organization, path):
    name, _, query = path.partition("?")
    query = dict([query.split("=")] if query else [])
    permitted_surface = organization.administration.with_token(organization.token_of(ROLE_OF_REPORT[path]))
    permitted_surface.get(f"/reports/{name}", **query)
    other_roles = set(ROLE_OF_REPORT.values()) - {ROLE_OF_REPORT[path]}
    surface_of_other_roles = organization.administration.with_token(organization.token_of(*sorted(other_roles)))
    surface_of_other_roles.get(f"/reports/{name}", expect=403, **query)
    surface_of_other_roles.with_token(None).get(f"/reports/{name}", expect=401, **query)


# A summary of missions has no range.
@pytest.mark.parametrize("path", [path for path in ROLE_OF_REPORT if path != "missions-summary"])
def test_invalid_ranges_and_zones_are_refused(organization, path):
    name, _, query = path.partition("?")
    query = dict([query.split("=")] if query else [])
    for invalid_query, parameter in (
        ({"sinceFrom": "2024-03-02T00:00:00Z", "sinceTo": "2024-03-01T00:00:00Z"}, "sinceTo"),
        ({"sinceFrom": "yesterday"}, "sinceFrom"),
        ({"tz": "Mars/Olympus"}, "tz"),
        ({"tz": "../etc/passwd"}, "tz"),
        ({"sinceform": "2024-03-02T00:00:00Z"}, "sinceform"),
    ):
        problem = organization.administration.get(f"/reports/{name}", expect=400, **query, **invalid_query)
        assert [error["parameter"] for error in problem["errors"]] == [parameter]
    moment = "2024-03-02T00:00:00Z"
    organization.administration.get(f"/reports/{name}", **query, sinceFrom=moment, sinceTo=moment)
    all_time = {"sinceFrom": "0001-01-01T00:00:00Z", "sinceTo": "9999-12-31T23:59:59Z"}
    # A series would have too many days.
    expect = 400 if name in SERIES else 200
    organization.administration.get(f"/reports/{name}", expect=expect, **query, **all_time, tz="Asia/Tokyo")


def test_invalid_parameters_are_refused(organization):
    for name, query, parameter in (
        ("event-count", {}, "eventType"),
        ("event-count", {"eventType": "cup-returned"}, "eventType"),
        ("top-members", {"limit": 0}, "limit"),
        ("top-members", {"limit": 101}, "limit"),
        ("top-members", {"ledgerAccountId": 2**40}, "ledgerAccountId"),
        ("tag-series", {"ledgerAccountId": 2**40}, "ledgerAccountId"),
        ("tag-total", {"ledgerAccountId": 2**40}, "ledgerAccountId"),
        ("top-coupon-books", {"orderByUsage": "maybe"}, "orderByUsage"),
        ("missions-summary", {"limit": 101}, "limit"),
        ("missions-summary", {"tz": "UTC"}, "tz"),
        ("tag-total", {"tag": "a,b"}, "tag"),
    ):
        problem = organization.administration.get(f"/reports/{name}", expect=400, **query)
        assert [error["parameter"] for error in problem["errors"]] == [parameter], (name, query)


def test_a_series_without_dates_covers_the_last_30_days(shop):
    shop.member()
    rows = report(shop, "members-over-time")["results"]
    first_day = datetime.now(UTC).date() - timedelta(days=29)
    assert [row["date"] for row in rows] == [(first_day + timedelta(days=n)).isoformat() for n in range(30)]
    assert [row["amount"] for row in rows] == [0] * 29 + [1]


def test_members_of_other_organizations_are_not_counted(shop, other_organization):
    other_organization.member()
    assert nonzero_days(report(shop, "members-over-time")) == []


@pytest.mark.slow
def test_a_range_includes_its_beginning_and_excludes_its_end(shop, settle):
    member = shop.member()
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    for total, event_date in (
        (1, "2024-03-09T23:59:59.999999Z"),
        (2, "2024-03-10T00:00:00Z"),
        (4, "2024-03-10T23:59:59.999999Z"),
        (8, "2024-03-11T00:00:00Z"),
    ):
        shop.track_one(order(member, total=total, externalEventDate=event_date))
    settle()
    day = {"sinceFrom": "2024-03-10T00:00:00Z", "sinceTo": "2024-03-11T00:00:00Z"}
    event_type = {"eventType": "member-purchase-order-created"}
    assert report(shop, "event-count", **event_type, **day)["result"] == {"totalCount": 2}
    assert report(shop, "event-count", **event_type, **MARCH)["result"] == {"totalCount": 4}
    assert report(shop, "event-count", **event_type)["result"] == {"totalCount": 0}


def test_mints_count_on_their_external_event_date(shop, settle):
    ana, ben = shop.member(profile={"name": "Ana", "lastName": "Alvarez"}), shop.member()
    new_york = {"tz": "America/New_York"}
    shop.give(ana, 100, tags=["spring", "web"], externalEventDate="2024-03-10T04:30:00Z")
    shop.give(ben, 30, tags=["spring"], externalEventDate="2024-03-11T03:59:59Z")
    shop.give(ben, 7, externalEventDate="2024-03-11T04:00:00Z")
    # Burns do not count.
    shop.take(ben, 5)
    settle()
    march = report(shop, "tag-series", **MARCH)
    assert len(march["results"]) == 31
    assert nonzero_days(march) == [{"date": "2024-03-10", "amount": 100}, {"date": "2024-03-11", "amount": 30 + 7}]
    # On 10 March clocks were set forward in New York, where the day before ended at 5:00 and this one ends at 4:00.
    local_march = {"sinceFrom": "2024-03-01T05:00:00Z", "sinceTo": "2024-04-01T04:00:00Z"}
    assert nonzero_days(report(shop, "tag-series", **local_march, **new_york)) == [
        {"date": "2024-03-09", "amount": 100},
        {"date": "2024-03-10", "amount": 30},
        {"date": "2024-03-11", "amount": 7},
    ]
    assert report(shop, "tag-total", tag="spring", **MARCH) == {"result": {"amount": 100 + 30}}
    assert report(shop, "tag-total", tag="web", **MARCH) == {"result": {"amount": 100}}
    assert report(shop, "tag-total", tag="autumn", **MARCH) == {"result": {"amount": 0}}
    assert report(shop, "top-members", **MARCH)["results"] == [
        {"key": ana, "amount": 100, "name": "Ana", "lastname": "Alvarez"},
        {"key": ben, "amount": 30 + 7, "name": None, "lastname": None},
    ]
    assert [row["amount"] for row in report(shop, "top-members", tag="spring", limit=1, **MARCH)["results"]] == [100]
    account = shop.organization.defaults.ledger_account_id
    totals = report(shop, f"ledger-accounts/{account}/totals", **MARCH)
    # 137 for two members.
    assert totals == {"result": {"totalAmount": 100 + 30 + 7, "avgAmountPerUser": Decimal("68.5")}}
    assert report(shop, f"ledger-accounts/{account}/totals")["result"]["totalAmount"] == 0


def test_a_range_may_begin_and_end_at_any_moment(shop, settle):
    member = shop.member()
    shop.give(member, 1, tags=["t"], externalEventDate="2024-03-10T10:07:12.999999Z")
    shop.give(member, 2, tags=["t"], externalEventDate="2024-03-10T10:07:13Z")
    shop.give(member, 4, tags=["t"], externalEventDate="2024-03-10T10:14:59Z")
    shop.give(member, 8, tags=["t"], externalEventDate="2024-03-11T17:31:01Z")
    settle()
    # The totals have quarters of an hour; the records at both ends of a range are read.
    two_days = {"sinceFrom": "2024-03-10T10:07:13Z", "sinceTo": "2024-03-11T17:31:01Z"}
    assert report(shop, "tag-total", tag="t", **two_days)["result"]["amount"] == 2 + 4
    assert report(shop, "top-members", **two_days)["results"][0]["amount"] == 2 + 4
    assert nonzero_days(report(shop, "tag-series", **two_days)) == [{"date": "2024-03-10", "amount": 2 + 4}]
    minutes = {"sinceFrom": "2024-03-10T10:07:13Z", "sinceTo": "2024-03-10T10:14:00Z"}
    assert report(shop, "tag-total", **minutes)["result"]["amount"] == 2
    assert report(shop, "top-members", **minutes)["results"][0]["amount"] == 2


def test_days_follow_zones_whose_offset_had_seconds(shop, settle):
    member = shop.member()
    # Until May 1940 Amsterdam was 0:20:00, until July 1937 it was 0:19:32 ahead of Greenwich.
    # In 1930 midnight in Amsterdam was 23:40:28 UTC.
    shop.give(member, 1, externalEventDate="1930-01-01T23:40:27Z")
    shop.give(member, 2, externalEventDate="1930-01-01T23:40:28Z")
    shop.give(member, 4, externalEventDate="1930-01-02T23:40:27Z")
    settle()
    january = {"sinceFrom": "1930-01-01T00:00:00Z", "sinceTo": "1930-02-01T00:00:00Z"}
    assert nonzero_days(report(shop, "tag-series", **january, tz="Europe/Amsterdam")) == [
        {"date": "1930-01-01", "amount": 1},
        {"date": "1930-01-02", "amount": 2 + 4},
    ]


def test_amounts_of_all_accounts_are_added_unless_one_account_is_requested(shop, settle):
    member = shop.member()
    stars = shop.account(decimals=6)
    shop.give(member, 5)
    shop.give(member, Decimal("0.000001"), ledgerAccountId=stars["ledgerAccountId"])
    settle()
    assert report(shop, "tag-total")["result"]["amount"] == Decimal("5.000001")
    assert report(shop, "top-members")["results"][0]["amount"] == Decimal("5.000001")
    only_stars = {"ledgerAccountId": stars["ledgerAccountId"]}
    assert report(shop, "tag-total", **only_stars)["result"]["amount"] == Decimal("0.000001")
    assert report(shop, "top-members", **only_stars)["results"][0]["amount"] == Decimal("0.000001")
    assert nonzero_days(report(shop, "tag-series", **only_stars)) == [{"date": today(), "amount": Decimal("0.000001")}]


def test_reverts_count_negatively_on_their_own_date(shop, settle):
    member, member_with_10 = shop.member(), shop.member()
    transaction = shop.give(member, 100, tags=["spring"], externalEventDate="2024-03-10T12:00:00Z")
    shop.give(member_with_10, 10, tags=["spring"], externalEventDate="2024-03-10T12:00:00Z")
    ledger = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts/{transaction['ledgerAccountId']}"
    path = f"{ledger}/transactions/{transaction['ledgerTransactionId']}/revert"
    shop.administration.post(path, {"externalEventDate": "2024-03-20T12:00:00Z", "tags": ["mistake"]}, expect=200)
    settle()
    assert nonzero_days(report(shop, "tag-series", tag="spring", **MARCH)) == [
        {"date": "2024-03-10", "amount": 100 + 10},
        {"date": "2024-03-20", "amount": -100},
    ]
    assert report(shop, "tag-total", tag="mistake", **MARCH)["result"]["amount"] == 0
    assert report(shop, "tag-total", tag="spring", **MARCH)["result"]["amount"] == 10
    assert [row["key"] for row in report(shop, "top-members", **MARCH)["results"]] == [member_with_10]
    totals = report(shop, f"ledger-accounts/{transaction['ledgerAccountId']}/totals", **MARCH)["result"]
    # Both members received points, so the average is of two.
    assert totals == {"totalAmount": 10, "avgAmountPerUser": 10 / 2}


def test_pending_mints_count_after_their_capture(shop, settle):
    member = shop.member()
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    shop.track(order(member, total=40), executionMode="authorize")
    settle()
    assert report(shop, "tag-total")["result"]["amount"] == 0
    [pending_mint] = shop.rows("ledger_transactions", "ledger_transaction_id, ledger_account_id")
    capture = {"transactions": [{"ledgerTransactionId": str(pending_mint.ledger_transaction_id), "captureAmount": 30}]}
    path = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts/{pending_mint.ledger_account_id}/captures"
    shop.administration.post(path, capture, expect=200)
    settle()
    assert report(shop, "tag-total")["result"]["amount"] == 30
    assert report(shop, "top-members")["results"][0]["amount"] == 30


def test_cancelled_events_count_negatively_and_failed_events_do_not_count(shop, settle):
    member = shop.member()
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    in_march = "2024-03-10T12:00:00Z"
    shop.track_one(order(member, total=10, external_id="returned-order", externalEventDate=in_march))
    creation_to_cancel = shop.track_one(
        order(member, total=10, external_id="cancelled-order", externalEventDate=in_march)
    )
    # Refused, because the order exists.
    shop.expect_refusal(order(member, total=10, external_id="returned-order"))
    creation_events = {"eventType": "member-purchase-order-created"}
    assert report(shop, "event-count", **creation_events, **MARCH)["result"]["totalCount"] == 2
    shop.integration.post(f"/events/{creation_to_cancel['loyaltyEventKey']}/cancel", {}, expect=200)
    settle()
    # The cancellation counts today, not in March.
    assert report(shop, "event-count", **creation_events, **MARCH)["result"]["totalCount"] == 2
    assert report(shop, "event-count", **creation_events)["result"]["totalCount"] == -1
    # A point for each whole unit of both orders.
    assert report(shop, "tag-total", **MARCH)["result"]["amount"] == 10 + 10
    assert report(shop, "tag-total")["result"]["amount"] == -10
    shop.track_one(order_update(member, "returned-order", "confirmed", externalEventDate="2024-03-24T12:00:00Z"))
    order_return = order_update(member, "returned-order", "returned", externalEventDate="2024-03-25T12:00:00Z")
    shop.track_one(order_return)
    settle()
    # The return cancels the creation of the other order on the date of the return.
    assert report(shop, "event-count", **creation_events, **MARCH)["result"]["totalCount"] == 1
    assert report(shop, "event-count", eventType=order_return["eventType"], **MARCH)["result"]["totalCount"] == 1


def test_events_of_active_and_inactive_custom_types_are_counted(shop, settle):
    member = shop.member()
    body = {"name": "Cup", "apiCode": "cup-returned", "schemaType": "custom"}
    shop.administration.post("/custom-event-types", body)
    shop.track_one(event(member, "cup-returned"))
    settle()
    assert report(shop, "event-count", eventType="cup-returned") == {"result": {"totalCount": 1}}
    shop.administration.put("/custom-event-types/cup-returned", {**body, "active": False})
    assert report(shop, "event-count", eventType="cup-returned") == {"result": {"totalCount": 1}}


def book(shop, **more):
    """A new published book of any number of coupons."""
    body = {"name": "Coffee", "type": "codeless", "publishingStatus": "published", "requiredPointsConfig": None, **more}
    return shop.administration.post("/coupon-books", body)["couponBook"]


def test_coupons_are_counted_as_assigned_used_and_reverted(shop, settle):
    member = shop.member()
    coffee = book(shop, tags=["hot"], discountAmount=3, discountType="amount")
    tea = book(shop, name="Tea", tags=["hot", "green"], discountAmount=10, discountType="percentage")
    book(shop, name="Cake")
    coffee_path, tea_path = (
        f"/members/{member}/coupon-books/{coupon_book['couponBookKey']}" for coupon_book in (coffee, tea)
    )
    shop.integration.post(f"{coffee_path}/assign", {"amount": 5}, expect=200)
    for body in ({"amountDiscounted": Decimal("2.5")}, {}):
        shop.integration.post(f"{coffee_path}/use", body, expect=200)
    shop.integration.post(f"{tea_path}/assign", {"amount": 4}, expect=200)
    usages = [
        shop.integration.post(f"{tea_path}/use", {"amountDiscounted": 1}, expect=200)["couponUsage"] for _ in range(4)
    ]
    revert_path = f"/members/{member}/coupon-usages/{usages[0]['couponUsageKey']}/revert"
    shop.integration.post(revert_path, expect=200)
    settle()
    # 2 uses of Coffee, and 4 of Tea of which one is reverted.
    assert nonzero_days(report(shop, "coupons-over-time")) == [{"date": today(), "assigned": 5 + 4, "usages": 2 + 3}]
    top_books = report(shop, "top-coupon-books")["results"]
    assert top_books == [
        {"key": coffee["couponBookKey"], "name": "Coffee", "assigned": 5, "usages": 2, "type": "codeless"},
        {"key": tea["couponBookKey"], "name": "Tea", "assigned": 4, "usages": 3, "type": "codeless"},
    ]
    assert report(shop, "top-coupon-books", orderByUsage=True)["results"] == top_books[::-1]
    assert report(shop, "top-coupon-books", limit=1)["results"] == top_books[:1]
    assert report(shop, "top-coupon-books", **MARCH)["results"] == []
    by_tag = report(shop, "coupon-books-by-tag", tag="hot")["results"]
    assert [(row["couponBookId"], row["assigned"], row["usages"], row["discountAmount"]) for row in by_tag] == [
        (tea["couponBookId"], 4, 3, 3 * 1),
        (coffee["couponBookId"], 5, 2, Decimal("2.5")),
    ]
    assert [row["name"] for row in report(shop, "coupon-books-by-tag")["results"]] == ["Tea", "Coffee", "Cake"]
    assert report(shop, "coupon-books-by-tag", tag="cold")["results"] == []
    # 5 coffees of 3 were assigned. One use was of 2.5, and one without an amount counts 3.
    assert report(shop, "discounts", discountType="amount")["result"] == {
        "totalDiscountAmountAssigned": 5 * 3,
        "totalDiscountAmountUsed": Decimal("2.5") + 3,
    }
    # Tea adds 4 x 10, and 3 x 1.
    assert report(shop, "discounts")["result"] == {
        "totalDiscountAmountAssigned": 5 * 3 + 4 * 10,
        "totalDiscountAmountUsed": Decimal("2.5") + 3 + 3 * 1,
    }
    assert report(shop, "discounts", discountType="voucher")["result"]["totalDiscountAmountAssigned"] == 0


def test_a_summary_counts_members_by_mission(shop, settle):
    member_with_3_events, member_with_2_events, member_with_1_event = (shop.member() for _ in range(3))
    body = {"eventType": "member-generic-event", "maxRepetitions": 5, "pointsAccrual": 1}
    shop.administration.post("/missions", {"name": "Two", "goalCount": 2, **body})
    shop.administration.post("/missions", {"name": "Three", "goalCount": 3, **body})
    for member, count in ((member_with_3_events, 3), (member_with_2_events, 2)):
        for _ in range(count):
            shop.track_one(event(member))
    only_progress = shop.track_one(event(member_with_1_event))
    settle()
    rows = report(shop, "missions-summary")["results"]
    names = ("name", "totalMembersAchievedMission", "totalActiveMissions", "totalMembers")
    assert [tuple(row[name] for name in names) for row in rows] == [("Two", 2, 2, 3), ("Three", 1, 2, 3)]
    # The member with one event loses the only progress, in both missions.
    shop.integration.post(f"/events/{only_progress['loyaltyEventKey']}/cancel", {}, expect=200)
    settle()
    rows = report(shop, "missions-summary", limit=1)["results"]
    assert [tuple(row[name] for name in names) for row in rows] == [("Two", 2, 1, 2)]


def test_a_member_with_an_achievement_counts_although_cancelled_counts_exceed_a_lowered_goal(shop, settle):
    member = shop.member()
    body = {"eventType": "member-generic-event", "maxRepetitions": 5, "name": "Coffees"}
    mission = shop.administration.post("/missions", {"goalCount": 3, **body})["mission"]
    results = shop.track(*(event(member) for _ in range(3)))
    shop.administration.put(f"/missions/{mission['missionId']}", {"goalCount": 1, **body})
    for track_result in results[:2]:
        shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    settle()
    [row] = report(shop, "missions-summary")["results"]
    assert (row["totalMembersAchievedMission"], row["totalMembers"]) == (1, 1)


def as_type(shop, name, accept, expect=200, **query):
    """The reply to the request for a report in one of the accepted media types."""
    headers = {"Accept": accept}
    return shop.administration.request("GET", f"/reports/{name}", expect=expect, headers=headers, **query)


@pytest.mark.parametrize("name", SERIES)
def test_a_series_is_returned_as_a_table(shop, name):
    shop.give(shop.member(), 5)
    response = as_type(shop, name, accept="text/csv")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["vary"] == "accept"
    results = report(shop, name)["results"]
    rows = list(csv.reader(io.StringIO(response.text, newline="")))
    assert rows == [list(results[0]), *([str(value) for value in row.values()] for row in results)]


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("days", [0, 1, 30, 400])
def test_a_series_is_returned_as_a_chart(shop, name, days):
    shop.give(shop.member(), 5)
    end = datetime.now(UTC)
    query = {"sinceFrom": (end - timedelta(days=days)).isoformat(), "sinceTo": end.isoformat()}
    response = as_type(shop, name, "image/svg+xml", **query)
    assert response.headers["content-type"] == "image/svg+xml; charset=utf-8"
    root = ElementTree.fromstring(response.text)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    shown_text = "".join(root.itertext())
    assert ("no days" in shown_text) == (days == 0)


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("", "application/json"),
        ("*/*", "application/json"),
        ("text/*", "text/csv"),
        ("application/json, text/csv, image/svg+xml, application/problem+json", "application/json"),
        ("image/*;q=0.5, text/csv;q=0.9", "text/csv"),
        ("*/*;q=0.1, IMAGE/SVG+XML", "image/svg+xml"),
        ("application/json;q=0, */*", "text/csv"),
        ("text/html, text/csv;q=nan, */*;q=0.1", "application/json"),
        ("text/html", None),
        ("application/json;q=0", None),
        ("text/csv;q=2", None),
        (",;=,q", None),
    ],
)
def test_a_series_has_the_media_type_that_the_client_prefers(shop, accept, media_type):
    response = as_type(shop, "members-over-time", accept, expect=406 if media_type is None else 200)
    if media_type is None:
        assert response.json["type"] == "/problems/not-acceptable"
        media_type = "application/problem+json"
    assert response.headers["content-type"].split(";")[0] == media_type


def test_reports_other_than_series_are_json_whatever_the_client_accepts(shop):
    response = as_type(shop, "tag-total", "text/csv")
    assert response.headers["content-type"] == "application/json"
    assert "vary" not in response.headers


def test_an_account_of_another_organization_is_unknown(shop, other_organization):
    account = other_organization.defaults.ledger_account_id
    shop.administration.get(f"/reports/ledger-accounts/{account}/totals", expect=404)
    problem = shop.administration.get("/reports/top-members", ledgerAccountId=account, expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["ledgerAccountId"]
