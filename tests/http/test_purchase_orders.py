"""Purchase orders over HTTP: created without an event, listed and read."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from tests.builders.campaigns import mint
from tests.builders.statements import count_statements
from tests.builders.tracking import ORDER_CREATED, WHOLE_DOLLARS, Shop, order, running


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def member(shop):
    return shop.member()


@pytest.fixture
def member_id(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]


def body(**more):
    """The body of a created order of 10.00, unless `more` has other fields."""
    return {"externalId": f"order-{uuid.uuid4()}", "type": "dine-in", "total": 10, "status": "created", **more}


def create(shop, member_id, *, expect=201, **more):
    """Create an order of 10.00, or with the fields in `more`; return the response."""
    return shop.administration.post(f"/members/{member_id}/purchase-orders", body(**more), expect=expect)


def batch(shop, *orders, expect=200):
    """Create orders in one request; return the response."""
    return shop.administration.post("/purchase-orders/batch", {"orders": list(orders)}, expect=expect)


def test_an_order_is_created_with_every_field(shop, member, member_id):
    item = {
        "productCode": "flat-white",
        "description": "Flat white",
        "customAttributes": {"milk": "oat"},
        "total": Decimal("4.5"),
        "amount": Decimal("4.5"),
        "quantity": 1,
        "discountedTotal": Decimal("4.05"),
        "subTotal": Decimal("4.5"),
        "categoryCode": "coffee",
    }
    fields = {
        "externalEventDate": "2026-03-01T10:00:00+02:00",
        "externalId": "o-1",
        "description": "Breakfast",
        "loyaltyProgramId": shop.organization.defaults.loyalty_program_id,
        "customAttributes": {"table": 7},
        "type": "dine-in",
        "tags": ["morning"],
        "total": Decimal("9.000001"),
        "currency": "KWD",
        "discountedTotal": Decimal("8.1"),
        "subTotal": 9,
        "merchantId": "m-1",
        "paymentMethod": "cash",
        "locationCode": "centre",
        "referralCode": "ref",
        "channel": "counter",
        "coupons": {"code": "ten"},
        "status": "created",
        "items": [item, {}],
    }
    campaign = shop.campaign(running(WHOLE_DOLLARS, name="Dollars"))
    response = create(shop, member_id, **fields)
    created_order = response["order"]
    creation_event = shop.events(member)[0]
    coffee_item, empty_item = created_order["items"]
    stamps = {name: created_order[name] for name in ("createdAt", "updatedAt")}
    ids = {"orderItemId": coffee_item["orderItemId"], "orderId": created_order["orderId"]}
    assert coffee_item == {**item, **ids, **stamps}
    assert (empty_item["productCode"], empty_item["total"], empty_item["customAttributes"]) == (None, None, {})
    assert created_order == {
        **fields,
        **stamps,
        "externalEventDate": "2026-03-01T08:00:00Z",
        "orderId": created_order["orderId"],
        "memberId": member_id,
        "organizationId": shop.organization.id,
        "loyaltyEventId": creation_event["loyaltyEventId"],
        "items": [coffee_item, empty_item],
    }
    assert (creation_event["eventType"], creation_event["externalId"], creation_event["externalEventDate"]) == (
        ORDER_CREATED,
        "o-1",
        "2026-03-01T08:00:00Z",
    )
    [result] = response["evaluationResults"]
    assert result["systemUniqueKey"] == creation_event["systemUniqueKey"]
    assert [(effect["campaignId"], effect["status"]) for effect in result["effects"]] == [
        (campaign["campaignId"], "executed")
    ]
    # A point for each whole unit of 9.000001.
    assert shop.balance(member) == 9
    path = f"/members/{member_id}/purchase-orders/{created_order['orderId']}"
    assert shop.administration.get(path) == {"order": created_order}


def test_an_order_reports_the_granted_and_the_requested_amount(shop, member, member_id):
    limit = {"scope": "member", "type": "points", "period": "total", "limit": 3}
    shop.campaign(running(mint(10)), limitRules=[limit], allowPartialApplicationOnLimit=True, eventType=ORDER_CREATED)
    shop.campaign(running(mint(("=", "order.total / 2.0"))), eventType=ORDER_CREATED)
    [result] = create(shop, member_id, total=3)["evaluationResults"]
    params = [{param["id"]: param["value"] for param in effect["params"]} for effect in result["effects"]]
    granted_and_requested = [(params_by_id["amount"], params_by_id["requestedAmount"]) for params_by_id in params]
    # The limit allows 3 of 10. Half of the total is 1.5, of which 1 whole point is minted.
    assert granted_and_requested == [(3, 10), (1, Decimal("1.5"))]
    assert shop.balance(member) == 3 + 1


def test_an_order_with_only_required_fields_has_the_others_empty(shop, member_id):
    created_order = create(shop, member_id)["order"]
    null_fields = ("externalEventDate", "description", "loyaltyProgramId", "discountedTotal", "subTotal", "merchantId")
    assert [created_order[name] for name in null_fields] == [None] * len(null_fields)
    assert (created_order["customAttributes"], created_order["coupons"]) == ({}, {})
    assert (created_order["tags"], created_order["items"]) == ([], [])


@pytest.mark.parametrize(
    ("status", "events", "balance"),
    [
        ("created", ["created"], 10),
        ("confirmed", ["created", "confirmed"], 10 + 3),
        ("cancelled", ["created", "cancelled"], 0),
        ("rejected", ["created", "rejected"], 0),
        ("returned", ["created", "confirmed", "returned"], 0),
    ],
)
def test_the_events_that_lead_to_a_status_are_tracked(shop, member, member_id, status, events, balance):
    # The order of 10.00 gives 10 points, and 3 when it is confirmed.
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.campaign(running(mint(3), rule="order.total == 10"), eventType="member-purchase-order-confirmed")
    response = create(shop, member_id, total=10, status=status)
    assert response["order"]["status"] == status
    assert len(response["evaluationResults"]) == len(events)
    event_types = [event["eventType"] for event in shop.events(member)][::-1]
    assert event_types == [f"member-purchase-order-{event}" for event in events]
    assert shop.balance(member) == balance


@pytest.mark.parametrize(
    ("change", "http_status", "problem"),
    [
        ({"externalId": "o-1"}, 409, "order-exists"),
        ({"status": "partially-returned"}, 409, "order-status"),
        ({"loyaltyProgramId": 999_999_999}, 404, "unknown-loyalty-program"),
    ],
)
def test_a_refused_order_stores_neither_events_nor_an_order(shop, member, member_id, change, http_status, problem):
    create(shop, member_id, externalId="o-1")
    events_before = shop.events(member)
    assert create(shop, member_id, expect=http_status, **change)["type"] == f"/problems/{problem}"
    [result] = batch(shop, body(loyaltyMemberId=member, **change))["results"]
    assert (result["result"], result["error"]["type"]) == ([], f"/problems/{problem}")
    assert shop.events(member) == events_before
    assert len(shop.rows("purchase_orders")) == 1


def test_an_order_of_an_inactive_member_is_refused(shop, member, member_id):
    shop.administration.patch(f"/members/{member_id}", {"active": False})
    assert create(shop, member_id, expect=409)["type"] == "/problems/member-inactive"
    assert shop.rows("purchase_orders") == []


@pytest.mark.parametrize("required_field", ["externalId", "type", "total", "status"])
def test_an_order_without_a_required_field_is_refused(shop, member, member_id, required_field):
    incomplete_body = body()
    del incomplete_body[required_field]
    problem = shop.administration.post(f"/members/{member_id}/purchase-orders", incomplete_body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [f"/{required_field}"]
    problem = batch(shop, {**incomplete_body, "loyaltyMemberId": member}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [f"/orders/0/{required_field}"]


def test_an_order_of_a_batch_must_name_the_member(shop):
    problem = batch(shop, body(), expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/orders/0/loyaltyMemberId"]


@pytest.mark.parametrize("size", [0, 101])
def test_a_batch_has_1_to_100_orders(shop, member, size):
    problem = batch(shop, *(body(loyaltyMemberId=member) for _ in range(size)), expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/orders"]


@pytest.mark.parametrize(
    "change",
    [
        {"status": "paid"},
        {"total": -1},
        {"total": None},
        {"colour": "red"},
        {"externalEventDate": "2026-02-30T00:00:00Z"},
    ],
)
def test_malformed_orders_are_refused(shop, member, member_id, change):
    assert create(shop, member_id, expect=400, **change)["type"] == "/problems/invalid-request"
    problem = batch(shop, body(loyaltyMemberId=member), body(loyaltyMemberId=member, **change), expect=400)
    # Pointers are such as /orders/1/total, where 1 is the second order.
    assert {fault["pointer"].split("/")[2] for fault in problem["errors"]} == {"1"}
    assert shop.rows("purchase_orders") == []


def test_orders_of_a_batch_succeed_or_fail_individually(shop):
    members = [shop.member() for _ in range(3)]
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    orders = [
        body(loyaltyMemberId=members[0], externalId="o-1", total=10, status="confirmed"),
        body(loyaltyMemberId="nobody", externalId="o-2"),
        body(loyaltyMemberId=members[1], externalId="o-1"),
        body(loyaltyMemberId=members[2], externalId="o-3", status="returned"),
        body(loyaltyMemberId=members[0], externalId="o-4", total=Decimal("2.5")),
    ]
    results = batch(shop, *orders)["results"]
    assert [result["externalId"] for result in results] == [order_body["externalId"] for order_body in orders]
    errors = [result.get("error", {}).get("type") for result in results]
    assert errors == [None, "/problems/unknown-member", "/problems/order-exists", None, None]
    statuses = [[entry["order"]["status"] for entry in result["result"]] for result in results]
    assert statuses == [["confirmed"], [], [], ["returned"], ["created"]]
    repeated_results = batch(shop, *orders)["results"]
    assert {result["error"]["type"] for result in repeated_results} == {
        "/problems/order-exists",
        "/problems/unknown-member",
    }
    # A point for each whole unit of 10.00 and of 2.50. The order of the third member was returned.
    assert [shop.balance(buyer) for buyer in members] == [10 + 2, 0, 0]
    assert {row.external_id for row in shop.rows("purchase_orders")} == {"o-1", "o-3", "o-4"}


def test_an_order_is_created_if_an_earlier_one_of_the_batch_with_its_external_id_was_refused(shop, member):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    orders = [
        body(loyaltyMemberId="nobody", externalId="o-1", total=10),
        body(loyaltyMemberId=member, externalId="o-1", total=20, status="confirmed"),
        body(loyaltyMemberId=member, externalId="o-1", total=40, status="cancelled"),
        body(loyaltyMemberId=member, externalId="o-2", total=80),
    ]
    results = batch(shop, *orders)["results"]
    assert [result.get("error", {}).get("type") for result in results] == [
        "/problems/unknown-member",
        None,
        "/problems/order-exists",
        None,
    ]
    assert [[entry["order"]["total"] for entry in result["result"]] for result in results] == [[], [20], [], [80]]
    statuses = {row.external_id: row.status for row in shop.rows("purchase_orders")}
    assert statuses == {"o-1": "confirmed", "o-2": "created"}
    assert shop.balance(member) == 100


@pytest.mark.parametrize(("undone_status", "other_status"), [("cancelled", "created"), ("returned", "confirmed")])
def test_a_batch_evaluates_an_undone_order_completely_before_the_next_order(shop, undone_status, other_status):
    member_of_two_requests, member_of_one_batch = shop.member(), shop.member()
    statuses = (undone_status, other_status)
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "member", "type": "points", "period": "daily", "limit": 100}],
    )
    member_id = shop.integration.get(f"/members/{member_of_two_requests}")["loyaltyMember"]["memberId"]
    for status in statuses:
        create(shop, member_id, total=100, status=status)
    batch(shop, *(body(loyaltyMemberId=member_of_one_batch, total=100, status=status) for status in statuses))
    # The first order has given its 100 points back, so the limit leaves them to the second one.
    assert (shop.balance(member_of_two_requests), shop.balance(member_of_one_batch)) == (100, 100)


def statement_count(shop, *orders):
    """Create orders in one request, which must succeed; return the number of executed statements."""
    with count_statements(shop.engine) as log:
        results = batch(shop, *orders)["results"]
    assert all(result["result"] for result in results)
    return len(log)


@pytest.mark.slow
def test_a_batch_of_orders_executes_as_many_statements_as_one_order(shop):
    members = [shop.member() for _ in range(10)]
    shop.campaign(running(WHOLE_DOLLARS), pointsMonthlyLimitPerMember=10_000)
    batch(shop, body(loyaltyMemberId=members[0]))

    def order_of(number, status):
        return body(loyaltyMemberId=members[number % 10], status=status)

    count_of_one = statement_count(shop, order_of(0, "confirmed"))
    assert statement_count(shop, *(order_of(number, "confirmed") for number in range(100))) == count_of_one
    # Only an order that is undone is stored before its undoing.
    count_of_one = statement_count(shop, order_of(0, "returned"))
    other_orders = [order_of(number, "confirmed") for number in range(99)]
    assert statement_count(shop, *other_orders, order_of(99, "returned")) == count_of_one


def test_orders_are_listed_by_page_in_the_requested_order(shop, member, member_id):
    # o-0 has the total 10, o-1 has 9, o-2 has 8, o-3 has 7 and o-4 has 1.
    created_orders = [
        create(shop, member_id, externalId=f"o-{n}", total=10 - n, items=[{"total": n}])["order"] for n in range(4)
    ]
    shop.track_one(order(member, total=1, external_id="o-4"))
    path = f"/members/{member_id}/purchase-orders"
    first_page = shop.administration.get(path, limit=3)
    assert (first_page["totalCount"], first_page["page"], first_page["limit"]) == (5, 0, 3)
    assert [result["externalId"] for result in first_page["results"]] == ["o-4", "o-3", "o-2"]
    assert first_page["results"][1] == created_orders[3]
    second_page_by_total = shop.administration.get(path, limit=3, page=1, order="total,desc")
    assert [result["externalId"] for result in second_page_by_total["results"]] == ["o-3", "o-4"]
    assert shop.administration.get(path, page=9)["results"] == []
    # Orders with the same status, or without a date, are in the order of their ids.
    for name in ("orderId", "externalId", "externalEventDate", "status", "createdAt", "updatedAt"):
        results = shop.administration.get(path, order=f"{name},asc")["results"]
        assert [result["externalId"] for result in results] == ["o-0", "o-1", "o-2", "o-3", "o-4"], name


@pytest.mark.parametrize(
    ("parameter", "value"), [("order", "colour"), ("limit", 26), ("limit", 0), ("page", -1), ("colour", "red")]
)
def test_an_invalid_query_of_the_list_of_orders_is_refused(shop, member_id, parameter, value):
    problem = shop.administration.get(f"/members/{member_id}/purchase-orders", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_orders_are_found_only_under_their_member_and_organization(shop, member, member_id, other_organization):
    created_order = create(shop, member_id)["order"]
    id_of_another_member = shop.integration.get(f"/members/{shop.member()}")["loyaltyMember"]["memberId"]
    path_of_another_member = f"/members/{id_of_another_member}/purchase-orders"
    assert shop.administration.get(path_of_another_member)["results"] == []
    shop.administration.get(f"{path_of_another_member}/{created_order['orderId']}", expect=404)
    shop.administration.get(f"/members/{member_id}/purchase-orders/{created_order['orderId'] + 1000}", expect=404)
    foreign_administration = other_organization.administration
    foreign_member_id = other_organization.member()["memberId"]
    foreign_administration.get(f"/members/{member_id}/purchase-orders", expect=404)
    foreign_administration.get(f"/members/{foreign_member_id}/purchase-orders/{created_order['orderId']}", expect=404)
    foreign_administration.post(f"/members/{member_id}/purchase-orders", body(), expect=404)
    [result] = foreign_administration.post(
        "/purchase-orders/batch", {"orders": [body(loyaltyMemberId=member)]}, expect=200
    )["results"]
    assert result["error"]["type"] == "/problems/unknown-member"
    # The same externalId is free in another organization.
    foreign_administration.post(
        f"/members/{foreign_member_id}/purchase-orders", body(externalId=created_order["externalId"])
    )
