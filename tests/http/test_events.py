"""Tracking events over HTTP, and reading their outcomes."""

from __future__ import annotations

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text

from domain.event_types import BUILT_IN_EVENT_TYPES, NOT_TRACKABLE
from domain.events import EVALUATED, EVALUATION_FAILED, NOT_EVALUATED
from handlers.services import configuration
from tests.builders.api import running_api
from tests.builders.campaigns import effect, mint
from tests.builders.queue import drain
from tests.builders.tracking import (
    GENERIC,
    ORDER_CREATED,
    WHOLE_DOLLARS,
    Shop,
    event,
    key,
    order,
    order_update,
    running,
    spend,
)

# The fields of the result of an event without effects.
RESULT = {
    "status": "success",
    "effects": [],
    "limitDiscardedTotalAmount": 0,
    "discountTotal": 0,
    "tiersAsOf": None,
    "missions": [],
    "referrals": [],
    "explain": [],
    "errors": [],
}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def snapshot_database(api):
    """Every row of every table, and the value of every sequence."""
    with api.engine.connect() as db:
        tables = (
            db.execute(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")).scalars().all()
        )
        rows = {
            table: db.execute(
                text(f"SELECT count(*), md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM {table} t")
            ).one()
            for table in tables
        }
        sequences = db.execute(text("SELECT sequencename, last_value FROM pg_sequences ORDER BY 1")).all()
    return rows, sequences


# --- one event ---------------------------------------------------------------------------------------------------


def test_an_event_is_stored_with_all_its_fields(shop, member):
    sponsor = shop.member()
    sent_event = {
        "loyaltyMemberId": member,
        "sponsorLoyaltyMemberId": sponsor,
        "systemUniqueKey": key(),
        "externalId": "receipt-7",
        "eventType": ORDER_CREATED,
        "description": "Two flat whites",
        "externalEventDate": "2026-03-02T10:15:00.25+02:00",
        "tags": ["morning", "rain"],
        "payload": {
            "note": {"any": [1, Decimal("0.10"), None, True, "ü"]},
            "order": {"externalId": "order-7", "total": Decimal("9.00"), "locationCode": "centre"},
        },
    }
    response = shop.integration.post("/events/track", {"events": [sent_event]}, expect=200)
    assert (response["executionMode"], response["dryRun"]) == ("full", False)
    [result] = response["results"]
    event_key = str(uuid.UUID(result["loyaltyEventKey"]))
    assert result == {
        **RESULT,
        "systemUniqueKey": sent_event["systemUniqueKey"],
        "loyaltyEventKey": event_key,
        "tiersAsOf": "2026-03-02T08:15:00.250000Z",
    }
    outcome = shop.integration.get(f"/events/{event_key}")
    assert outcome["result"] == result
    event_record = outcome["event"]
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    assert event_record == {
        "loyaltyEventId": event_record["loyaltyEventId"],
        "loyaltyEventKey": event_key,
        "organizationId": shop.organization.id,
        "externalId": "receipt-7",
        "memberId": member_id,
        "externalEventDate": "2026-03-02T08:15:00.250000Z",
        "eventType": ORDER_CREATED,
        "description": "Two flat whites",
        "reason": None,
        "systemUniqueKey": sent_event["systemUniqueKey"],
        "tags": ["morning", "rain"],
        "location": "centre",
        "e2eTrackingId": event_record["e2eTrackingId"],
        "revertedLoyaltyEventId": None,
        "reversalLoyaltyEventId": None,
        "evaluationStatus": EVALUATED,
        "status": "success",
        "limitDiscardedTotalAmount": 0,
        "limitCounters": [],
        "createdAt": event_record["createdAt"],
        "updatedAt": event_record["createdAt"],
    }
    assert event_record["e2eTrackingId"]
    assert shop.events(member) == [{**event_record, "actor": "operator", "userId": None}]
    assert shop.integration.get(f"/members/{member}/events")["results"][0] == event_record


def test_missing_fields_of_an_event_are_null(shop, member):
    result = shop.track_one(event(member))
    event_record = shop.integration.get(f"/events/{result['loyaltyEventKey']}")["event"]
    assert [event_record[name] for name in ("externalId", "externalEventDate", "description", "location")] == [None] * 4
    assert event_record["tags"] == []


def test_the_administration_tracks_one_event_with_its_effects(shop, member):
    campaign = shop.campaign(running(mint(5), name="Five"))
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    body = {
        "organizationId": shop.organization.id,
        "memberId": member_id,
        "systemUniqueKey": key(),
        "externalId": "abc",
        "eventType": GENERIC,
        "description": "Waved",
        "payload": {"hand": "left"},
        "externalEventDate": "2026-03-02T08:15:00Z",
        "tags": ["wave"],
    }
    response = shop.administration.post("/events/track", body, expect=200)
    assert response == {
        "systemUniqueKey": body["systemUniqueKey"],
        "effects": [
            {
                "actionId": campaign["actions"][0]["actionId"],
                "actionIndex": 0,
                "campaignId": campaign["campaignId"],
                # Version 1 had no action.
                "campaignVersionId": 2,
                "campaignCode": campaign["code"],
                "actionName": "Five",
                "effectId": "mint-points",
                "status": "executed",
                "params": [
                    {"id": "amount", "value": 5},
                    {"id": "ledgerAccountKey", "value": None},
                    {"id": "recipient", "value": "member"},
                    {"id": "expirationDate", "value": None},
                    {"id": "description", "value": None},
                ],
            }
        ],
    }
    assert shop.balance(member) == 5
    [event_record] = shop.events(member)
    assert (event_record["description"], event_record["tags"], event_record["externalId"]) == ("Waved", ["wave"], "abc")
    # A repeated request has no further effects.
    repeated_response = shop.administration.post("/events/track", body, expect=200)
    assert repeated_response == response
    assert shop.balance(member) == 5


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"systemUniqueKey": "ab"}, "/systemUniqueKey"),
        ({"systemUniqueKey": "a" * 256}, "/systemUniqueKey"),
        ({"externalId": "ab"}, "/externalId"),
        ({"externalId": "a" * 256}, "/externalId"),
        ({"memberId": 0}, "/memberId"),
        ({"memberId": "1"}, "/memberId"),
        ({"eventType": "ab"}, "/eventType"),
        ({"organizationId": 999999}, "/organizationId"),
        ({"externalEventDate": "soon"}, "/externalEventDate"),
        ({"externalEventDate": "0001-01-01T00:00:00+01:00"}, "/externalEventDate"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_the_administration_refuses_invalid_events_with_pointers(shop, change, pointer):
    body = {"organizationId": shop.organization.id, "memberId": 1, "systemUniqueKey": "abc", "eventType": GENERIC}
    problem = shop.administration.post("/events/track", {**body, **change}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_every_fault_of_a_batch_is_reported_and_nothing_is_tracked(shop, member):
    valid_event = event(member)
    invalid_events = [
        {**event(member), "externalEventDate": "2026-02-30T00:00:00Z"},
        {"loyaltyMemberId": member},
        order(member, externalEventDate="0001-01-01T00:00:00+01:00"),
        event(member, payload={"order": {"externalId": "o", "total": -1}}),
        event(member, payload={"order": {"externalId": "o", "externalEventDate": "9999-12-31T23:59:59-01:00"}}),
    ]
    problem = shop.integration.post("/events/track", {"events": [valid_event, *invalid_events]}, expect=400)
    assert [fault["pointer"].removeprefix("/events") for fault in problem["errors"]] == [
        "/1/externalEventDate",
        "/2/systemUniqueKey",
        "/2/eventType",
        "/3/externalEventDate",
        "/4/payload/order/total",
        "/5/payload/order/externalEventDate",
    ]
    assert shop.events(member) == []


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_dates_outside_the_calendar_are_refused_with_pointers(shop, member, date):
    for invalid_event, pointer in (
        ({**event(member), "externalEventDate": date}, "/events/0/externalEventDate"),
        (
            event(member, ORDER_CREATED, payload={"order": {"externalId": "o", "total": 1, "externalEventDate": date}}),
            "/events/0/payload/order/externalEventDate",
        ),
    ):
        problem = shop.integration.post("/events/track", {"events": [invalid_event]}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_1_to_100_events(shop, member, count):
    problem = shop.integration.post("/events/track", {"events": [event(member)] * count}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/events"]


def test_the_results_of_100_events_of_3_members_are_in_the_order_of_the_events(shop):
    members = [shop.member() for _ in range(3)]
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    # The members in turn; each order has its number as its total.
    orders = [order(members[number % 3], number) for number in range(100)]
    results = shop.track(*orders)
    assert [result["systemUniqueKey"] for result in results] == [purchase["systemUniqueKey"] for purchase in orders]
    # A point for each dollar of every third order.
    assert [shop.balance(member) for member in members] == [sum(range(first, 100, 3)) for first in range(3)]
    assert len({result["loyaltyEventKey"] for result in results}) == 100
    shop.check_ledger()


def test_every_built_in_type_except_those_of_the_server_can_be_tracked(shop, member):
    payment = {"paymentId": "p", "total": 1}
    for event_type in BUILT_IN_EVENT_TYPES:
        # The status of an order decides which events about it are allowed.
        if event_type.startswith("member-purchase-order-"):
            continue
        event_of_type = event(member, event_type, payload={"payment": payment})
        if event_type in NOT_TRACKABLE:
            assert shop.expect_refusal(event_of_type) == "/problems/event-type-not-trackable"
        else:
            shop.track_one(event_of_type)


def test_a_refused_event_is_not_stored_and_its_key_stays_free(shop, member):
    inactive_member = shop.member(active=False)
    events_by_problem = {
        "/problems/unknown-member": event("nobody"),
        "/problems/unknown-event-type": event(member, "moon-landing"),
        "/problems/event-type-not-trackable": event(member, "ledger-transaction-created"),
        "/problems/member-inactive": event(inactive_member),
        "/problems/payload-missing": event(member, ORDER_CREATED),
    }
    results = shop.track(*events_by_problem.values(), event(member))
    assert [result.get("error", {}).get("type") for result in results] == [*events_by_problem, None]
    assert [result["loyaltyEventKey"] is None for result in results] == [True] * 5 + [False]
    for result in results[:5]:
        assert result["error"]["title"]
        assert result["error"]["detail"]
    # The member or the event type is unknown; the other events are in conflict with a rule.
    assert {result["error"]["status"] for result in results[:2]} == {404}
    assert {result["error"]["status"] for result in results[2:5]} == {409}
    for refused_event in events_by_problem.values():
        shop.track_one({**event(member), "systemUniqueKey": refused_event["systemUniqueKey"]})


def test_a_sponsor_must_exist(shop, member):
    sponsored_event = event(member, sponsorLoyaltyMemberId="nobody")
    assert shop.expect_refusal(sponsored_event) == "/problems/unknown-member"


@pytest.mark.parametrize("asynchronously", [False, True])
def test_a_member_who_is_sent_as_their_own_sponsor_has_no_sponsor(shop, member, asynchronously):
    # Each digit of a balance shows whether one effect was executed.
    shop.campaign(running(mint(1), rule="sponsor == null"), eventType=GENERIC)
    shop.campaign(running(mint(10), mint(100, recipient="sponsor"), rule="sponsor != null"))
    shop.campaign(running(mint(1000, recipient="sponsor")))
    self_sponsored_event = event(member, sponsorLoyaltyMemberId=member)
    if asynchronously:
        shop.integration.post("/events/track-async", {"events": [self_sponsored_event]}, expect=202)
        drain(shop)
    else:
        effects = shop.track_one(self_sponsored_event)["effects"]
        assert [effect.get("error", {}).get("type") for effect in effects] == [None, "/problems/no-sponsor"]
    assert shop.balance(member) == 1
    sponsor = shop.member()
    shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    assert (shop.balance(member), shop.balance(sponsor)) == (1 + 10, 100 + 1000)


def test_a_payment_needs_its_payload(shop, member):
    for payload in ({}, {"payload": {}}, {"payload": {"order": {"externalId": "o"}}}):
        assert shop.expect_refusal(event(member, "member-payment-confirmed", **payload)) == "/problems/payload-missing"


def test_the_administration_returns_refusals_as_problems(shop, member):
    inactive_member_id = shop.organization.member(active=False)["memberId"]
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    shop.track_one(order(member, external_id="order-1"))
    order_payload = {"order": {"externalId": "order-1", "total": 1}}
    # (status, problem, id of the member, event type, payload)
    cases = [
        (404, "unknown-member", 10**12, GENERIC, None),
        (404, "unknown-event-type", member_id, "moon-landing", None),
        (409, "event-type-not-trackable", member_id, "ledger-transaction-created", None),
        (409, "member-inactive", inactive_member_id, GENERIC, None),
        (409, "payload-missing", member_id, ORDER_CREATED, None),
        (409, "payload-missing", member_id, ORDER_CREATED, {"order": {"externalId": "order-2"}}),
        (409, "order-exists", member_id, ORDER_CREATED, order_payload),
        (409, "order-status", member_id, "member-purchase-order-returned", order_payload),
        (404, "unknown-order", member_id, "member-purchase-order-confirmed", {"order": {"externalId": "order-3"}}),
    ]
    event_count = len(shop.rows("events"))
    for status, slug, id_in_event, event_type, payload in cases:
        body = {
            "organizationId": shop.organization.id,
            "memberId": id_in_event,
            "systemUniqueKey": key(),
            "eventType": event_type,
            **({} if payload is None else {"payload": payload}),
        }
        problem = shop.administration.post("/events/track", body, expect=status)
        assert problem["type"] == f"/problems/{slug}"
        assert problem["instance"]
    assert len(shop.rows("events")) == event_count


def test_members_of_another_organization_are_unknown(shop, member, other_organization):
    stranger = other_organization.member()["loyaltyMemberId"]
    assert shop.expect_refusal(event(stranger)) == "/problems/unknown-member"
    assert shop.expect_refusal(event(member, sponsorLoyaltyMemberId=stranger)) == "/problems/unknown-member"
    tracked_event = shop.track_one(event(member))
    other_organization.integration.get(f"/events/{tracked_event['loyaltyEventKey']}", expect=404)


def test_an_unknown_event_is_not_found(shop):
    assert shop.integration.get(f"/events/{uuid.uuid4()}", expect=404)["type"] == "/problems/not-found"
    problem = shop.integration.get("/events/not-a-key", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["loyaltyEventKey"]


def test_an_inactive_member_may_still_be_reported_as_deactivated(shop):
    inactive_member = shop.member(active=False)
    shop.track_one(event(inactive_member, "member-profile-deactivated"))


# --- the same key ------------------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_identical_response(shop, member):
    # One effect mints 6, a third of the total of 20.50 in whole points; the other one fails.
    shop.campaign(running(mint(("=", "order.total / 3.0")), spend(10**6)), pointsMonthlyLimitPerMember=7)
    purchase = order(member, Decimal("20.50"), items=[{"productCode": "x", "quantity": Decimal("1.5")}], tags=["a"])
    first_text, second_text = (
        shop.integration.request("POST", "/events/track", {"events": [purchase]}, expect=200).text for _ in range(2)
    )
    assert first_text == second_text
    assert shop.balance(member) == 6
    assert len(shop.events(member)) == 1
    shop.check_ledger()


def test_the_same_key_with_other_content_is_refused_and_changes_nothing(shop, member):
    other_member = shop.member()
    shop.campaign(running(mint(5)))
    tracked_event = event(
        member, description="a", tags=["a"], payload={"n": 1}, externalId="e", externalEventDate="2026-01-01T00:00:00Z"
    )
    first_result = shop.track_one(tracked_event)
    changes = [
        {"loyaltyMemberId": other_member},
        {"sponsorLoyaltyMemberId": other_member},
        {"eventType": "benefit-used"},
        {"description": "b"},
        {"tags": ["b"]},
        {"payload": {"n": 2}},
        {"externalId": "f"},
        {"externalEventDate": "2026-01-01T00:00:01Z"},
    ]
    results = shop.track(*({**tracked_event, **change} for change in changes))
    assert [result["error"]["type"] for result in results] == ["/problems/key-reused"] * len(changes)
    assert {result["loyaltyEventKey"] for result in results} == {None}
    assert shop.expect_refusal(tracked_event, executionMode="captureOnly") == "/problems/key-reused"
    assert (shop.balance(member), shop.balance(other_member)) == (5, 0)
    assert shop.track_one(tracked_event) == first_result


@pytest.mark.parametrize("empty_field", [{"tags": []}, {"payload": {}}])
def test_an_empty_field_has_the_same_content_as_no_field(shop, member, empty_field):
    shop.campaign(running(mint(5)))
    event_without_field = event(member)
    assert shop.track_one(event_without_field) == shop.track_one({**event_without_field, **empty_field})
    event_without_field = event(member)
    assert shop.track_one({**event_without_field, **empty_field}) == shop.track_one(event_without_field)
    assert shop.balance(member) == 2 * 5
    assert len(shop.events(member)) == 2


def test_a_key_repeated_in_one_batch_has_effects_once(shop, member):
    shop.campaign(running(mint(5)))
    first_event, second_event = event(member), event(member)
    changed_event = {**first_event, "description": "other"}
    results = shop.track(first_event, second_event, first_event, changed_event, second_event)
    assert results[0] == results[2]
    assert results[1] == results[4]
    assert results[3]["error"]["type"] == "/problems/key-reused"
    assert shop.balance(member) == 2 * 5
    assert len(shop.events(member)) == 2


def test_a_later_event_of_the_batch_can_have_the_key_of_a_refused_event(shop, member):
    valid_event = event(member)
    results = shop.track({**valid_event, "loyaltyMemberId": "nobody"}, valid_event)
    assert [result["status"] for result in results] == ["failed", "success"]


def test_both_surfaces_share_keys(shop, member):
    campaign = shop.campaign(running(mint(5)))
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    integration_body = event(member, payload={"n": 1}, tags=["a"])
    administration_body = {name: value for name, value in integration_body.items() if name != "loyaltyMemberId"}
    administration_body |= {"organizationId": shop.organization.id, "memberId": member_id}
    # First on the integration surface.
    result = shop.track_one(integration_body)
    response = shop.administration.post("/events/track", administration_body, expect=200)
    assert response["effects"] == result["effects"]
    # First on the administration surface, with another key.
    administration_body["systemUniqueKey"] = integration_body["systemUniqueKey"] = key()
    response = shop.administration.post("/events/track", administration_body, expect=200)
    assert shop.track_one(integration_body)["effects"] == response["effects"]
    assert response["effects"][0]["campaignId"] == campaign["campaignId"]
    # 5 points for each of the two keys.
    assert shop.balance(member) == 2 * 5
    problem = shop.administration.post("/events/track", {**administration_body, "tags": ["b"]}, expect=409)
    assert problem["type"] == "/problems/key-reused"


def test_a_repeated_failed_event_gets_its_first_failure_on_both_surfaces(shop, member):
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    shop.track_one(order(member, external_id="order-1"))
    failing_order = order(member, external_id="order-1")
    [first_failure] = shop.track(failing_order)
    assert first_failure["error"]["type"] == "/problems/order-exists"
    assert first_failure["loyaltyEventKey"]
    assert shop.track(failing_order, failing_order) == [first_failure, first_failure]
    body = {name: value for name, value in failing_order.items() if name != "loyaltyMemberId"}
    body |= {"organizationId": shop.organization.id, "memberId": member_id}
    problem = shop.administration.post("/events/track", body, expect=409)
    assert {**first_failure["error"], "instance": problem["instance"]} == problem
    event_outcome = shop.integration.get(f"/events/{first_failure['loyaltyEventKey']}")
    assert event_outcome["event"]["status"] == "failed"
    assert event_outcome["event"]["evaluationStatus"] == EVALUATION_FAILED
    assert event_outcome["event"]["lastError"] == first_failure["error"]
    assert event_outcome["result"] == first_failure


def test_a_repeated_event_gets_its_first_result_after_changes_of_the_configuration_and_the_member(shop, member):
    campaign = shop.campaign(running(mint(5)))
    shop.integration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    generic_event, cup_event = event(member), event(member, "cup")
    first_results = shop.track(generic_event, cup_event)
    action = campaign["actions"][0]
    path = f"/campaigns/{campaign['campaignId']}"
    shop.administration.put(f"{path}/actions/{action['actionId']}", running(mint(99)))
    shop.administration.put(path, {"code": campaign["code"], "name": "Over", "active": False})
    shop.integration.patch("/custom-event-types/cup", {"active": False})
    shop.integration.patch(f"/members/{member}", {"active": False})
    assert shop.track(generic_event, cup_event) == first_results
    assert shop.expect_refusal(event(member)) == "/problems/member-inactive"


def test_two_organizations_can_use_the_same_key(shop, member, other_organization):
    other_shop = Shop(other_organization)
    tracked_event = event(member)
    shop.track_one(tracked_event)
    other_shop.track_one({**tracked_event, "loyaltyMemberId": other_shop.member()})


def test_a_key_of_an_event_can_be_reused_for_a_transaction(shop, member):
    tracked_event = event(member)
    shop.track_one(tracked_event)
    shop.give(member, 5, systemUniqueKey=tracked_event["systemUniqueKey"])
    assert shop.balance(member) == 5


# --- modes -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_dry_run_changes_nothing_and_reports_the_effects_of_a_real_run(api, shop, member):
    tracking_account = shop.account(pointTrackingEnabled=True, expiresInMonths=1, maxSupply=1000)
    shop.give(member, 50, ledgerAccountId=tracking_account["ledgerAccountId"], externalEventDate="2020-01-01T00:00:00Z")
    shop.campaign(
        running(WHOLE_DOLLARS, mint(3, ledgerAccountKey=tracking_account["ledgerAccountKey"]), spend(2)),
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 100}],
        pointsMonthlyLimitPerMember=50,
        allowPartialApplicationOnLimit=True,
    )
    # 10 + 3 of the 50 points of the month.
    shop.track_one(order(member, 10, external_id="kept"))
    events = [
        order(member, 40, items=[{"productCode": "x"}]),
        order(member, 7),
        order("nobody"),
        event(member, "no"),
        order_update(member, "kept", "confirmed"),
    ]
    stored_state = snapshot_database(api)
    body = {"events": events, "executionMode": "dryRun"}
    response = shop.integration.post("/events/track", body, expect=200)
    assert snapshot_database(api) == stored_state
    assert (response["executionMode"], response["dryRun"]) == ("dryRun", True)
    statuses = [[effect["status"] for effect in result["effects"]] for result in response["results"]]
    # The first event uses the remaining 37 points of the month, so that the later ones mint nothing.
    without_mints = ["skipped", "skipped", "evaluated"]
    assert statuses == [["partial", "skipped", "evaluated"], without_mints, [], [], without_mints]
    assert [result["loyaltyEventKey"] for result in response["results"]] == [None] * 5
    assert [result["status"] for result in response["results"]] == ["success", "success", "failed", "failed", "success"]
    repeated_response = shop.integration.post("/events/track", body, expect=200)
    assert repeated_response == response
    real_results = shop.track(*events)
    for dry_result, real_result in zip(response["results"], real_results, strict=True):
        # `evaluated` in a dry run is `executed` in a real one.
        dry_statuses = [outcome["status"].replace("evaluated", "executed") for outcome in dry_result["effects"]]
        assert dry_statuses == [outcome["status"] for outcome in real_result["effects"]]
        dry_params = [outcome["params"] for outcome in dry_result["effects"]]
        assert dry_params == [outcome["params"] for outcome in real_result["effects"]]
        assert dry_result["limitDiscardedTotalAmount"] == real_result["limitDiscardedTotalAmount"]
    shop.check_ledger()


def test_a_dry_run_explains_every_campaign_and_action(shop, member):
    matching_campaign = shop.campaign(
        running(mint(1), rule="order.total >= 20", name="Big"),
        running(mint(1), rule="order.total < 20", name="Small"),
        running(mint(1), rule="payment.total > 1", name="Error", abortEvaluationOnError=True),
        running(mint(1), name="Never"),
        eventType=ORDER_CREATED,
    )
    campaign_elsewhere = shop.campaign(running(mint(1)), locationCodes=["moon"])
    [result] = shop.track(order(member, Decimal("4.50")), executionMode="dryRun", trace=True)
    explain = {(explanation["campaignId"], explanation["actionName"]): explanation for explanation in result["explain"]}
    # Two campaigns, and the four actions of the one that applies.
    assert len(explain) == len(result["explain"]) == 6
    codes = {name: explanation.get("reason", {}).get("code") for (_, name), explanation in explain.items() if name}
    assert codes == {"Big": "CONDITION_FALSE", "Small": None, "Error": "CONDITION_ERROR", "Never": "ABORTED"}
    explanation_of_big = explain[matching_campaign["campaignId"], "Big"]
    assert explanation_of_big["applied"] is False
    assert explanation_of_big["campaignKey"] == matching_campaign["campaignKey"]
    assert explanation_of_big["campaignCode"] == matching_campaign["code"]
    assert explanation_of_big["actionId"] == matching_campaign["actions"][0]["actionId"]
    assert (explanation_of_big["reason"]["start"], explanation_of_big["reason"]["end"]) == (0, len("order.total >= 20"))
    assert explanation_of_big["reason"]["label"] == "not true: order total is at least 20 (it is 4.50)"
    assert explanation_of_big["reason"]["actual"][0]["value"] == Decimal("4.5")
    assert explanation_of_big["trace"]["value"] is False
    assert explain[matching_campaign["campaignId"], "Small"]["applied"] is True
    assert explain[matching_campaign["campaignId"], None]["applied"] is True
    elsewhere = explain[campaign_elsewhere["campaignId"], None]
    assert elsewhere["applied"] is False
    assert elsewhere["reason"]["code"] == "LOCATION"
    assert elsewhere["reason"]["label"] == "the event has no location"
    assert elsewhere["reason"]["start"] is None
    assert shop.track(order(member), executionMode="full")[0]["explain"] == []


def test_the_trace_of_a_dry_run_can_contain_moments_and_durations(shop, member):
    rule = (
        "event.externalEventDate + duration('1h') < timestamp('2020-01-01T00:00:00Z') && now < event.externalEventDate"
    )
    shop.campaign(running(mint(1), rule=rule))
    dated_event = event(member, externalEventDate="2026-01-01T00:00:00Z")
    [result] = shop.track(dated_event, executionMode="dryRun", trace=True)
    [_, action] = result["explain"]
    assert action["reason"]["code"] == "CONDITION_FALSE"
    assert action["trace"]["value"] is False


def test_later_events_of_a_dry_run_see_the_effects_of_earlier_events(shop, member):
    shop.campaign(
        running(mint(6), rule="event.description == 'in'"), running(spend(5), rule="event.description == 'out'")
    )
    events = [event(member, description=description) for description in ("in", "out", "out")]
    results = shop.track(*events, executionMode="dryRun")
    # After 6 - 5 points, the second burn of 5 fails.
    statuses = [[outcome["status"] for outcome in result["effects"]] for result in results]
    assert statuses == [["evaluated"], ["evaluated"], ["failed"]]
    assert shop.balance(member) == 0


def test_a_dry_run_of_a_tracked_event_reports_the_effects_that_it_would_have_now(shop, member):
    shop.campaign(running(mint(6)))
    tracked_event = event(member)
    shop.track_one(tracked_event)
    [result] = shop.track(tracked_event, executionMode="dryRun")
    assert (result["status"], [outcome["status"] for outcome in result["effects"]]) == ("success", ["evaluated"])
    assert shop.balance(member) == 6


def test_a_captured_event_is_stored_with_its_order_and_not_evaluated(shop, member):
    shop.campaign(running(WHOLE_DOLLARS))
    captured_order = order(member, 10, external_id="captured", items=[{"productCode": "x"}])
    result = shop.track_one(captured_order, executionMode="captureOnly")
    assert result == {
        **RESULT,
        "systemUniqueKey": captured_order["systemUniqueKey"],
        "loyaltyEventKey": result["loyaltyEventKey"],
    }
    assert shop.balance(member) == 0
    event_record = shop.integration.get(f"/events/{result['loyaltyEventKey']}")["event"]
    assert (event_record["evaluationStatus"], event_record["status"]) == (NOT_EVALUATED, "success")
    assert [row.status for row in shop.rows("purchase_orders")] == ["created"]
    assert len(shop.rows("order_items")) == 1
    second_order = order(member, external_id="captured")
    assert shop.expect_refusal(second_order, executionMode="captureOnly") == "/problems/order-exists"


def test_the_deprecated_field_dry_run_sets_the_mode_and_gets_a_deprecation_header(shop, member):
    for body, mode in (
        ({"dryRun": True}, "dryRun"),
        ({"dryRun": True, "executionMode": "full"}, "dryRun"),
        ({"dryRun": False}, "full"),
        ({"dryRun": False, "executionMode": "captureOnly"}, "captureOnly"),
    ):
        reply = shop.integration.request("POST", "/events/track", {"events": [event(member)], **body}, expect=200)
        assert reply.json["executionMode"] == mode
        assert reply.json["dryRun"] is (mode == "dryRun")
        assert reply.headers["Deprecation"].startswith("@")
    reply = shop.integration.request("POST", "/events/track", {"events": [event(member)]}, expect=200)
    assert "Deprecation" not in reply.headers
    # Two of the first four requests and the last one were no dry runs.
    assert len(shop.events(member)) == 3
    body = {"events": [event(member)], "executionMode": "authorise"}
    problem = shop.integration.post("/events/track", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/executionMode"]


def test_campaign_keys_restrict_the_campaigns_in_every_mode(shop, member):
    # Each digit of a balance shows how often one campaign was applied.
    campaign_of_1, campaign_of_10 = (shop.campaign(running(mint(amount))) for amount in (1, 10))
    inactive_campaign = shop.campaign(running(mint(100)), active=False)
    keys = [campaign_of_10["campaignKey"].upper(), inactive_campaign["campaignKey"]]
    [result] = shop.track(event(member), campaignKeys=keys)
    assert [outcome["campaignId"] for outcome in result["effects"]] == [campaign_of_10["campaignId"]]
    assert shop.balance(member) == 10
    [dry_result] = shop.track(event(member), campaignKeys=[campaign_of_1["campaignKey"]], executionMode="dryRun")
    assert {explanation["campaignId"] for explanation in dry_result["explain"]} == {campaign_of_1["campaignId"]}
    # Without keys and with an empty list, all active campaigns run.
    shop.track_one(event(member))
    assert shop.balance(member) == 10 + 11
    shop.track(event(member), campaignKeys=[])
    assert shop.balance(member) == 10 + 11 + 11


def test_unknown_campaign_keys_refuse_the_call(shop, member, other_organization):
    foreign_key = Shop(other_organization).campaign()["campaignKey"]
    for campaign_key in (str(uuid.uuid4()), foreign_key):
        body = {"events": [event(member)], "campaignKeys": [campaign_key]}
        problem = shop.integration.post("/events/track", body, expect=404)
        assert problem["type"] == "/problems/unknown-campaign"
    assert shop.events(member) == []


# --- orders ------------------------------------------------------------------------------------------------------

STATUSES = ("created", "confirmed", "cancelled", "rejected", "returned", "partially-returned")
# Pairs of a status and one that may follow it.
ALLOWED_CHANGES = {
    ("created", "confirmed"),
    ("created", "cancelled"),
    ("created", "rejected"),
    ("confirmed", "cancelled"),
    ("confirmed", "returned"),
    ("confirmed", "partially-returned"),
    ("partially-returned", "partially-returned"),
    ("partially-returned", "returned"),
}
# status -> the statuses of the events that bring a created order to it.
LATER_STATUSES = {
    "created": (),
    "confirmed": ("confirmed",),
    "cancelled": ("cancelled",),
    "rejected": ("rejected",),
    "returned": ("confirmed", "returned"),
    "partially-returned": ("confirmed", "partially-returned"),
}


def test_an_order_is_stored_with_all_its_fields(shop, member):
    program = shop.organization.defaults.loyalty_program_id
    item = {
        "productCode": "flat-white",
        "description": "Flat white",
        "customAttributes": {"milk": "oat"},
        "total": Decimal("4.50"),
        "amount": Decimal("4.5"),
        "quantity": 1,
        "discountedTotal": Decimal("4.05"),
        "subTotal": Decimal("4.50"),
        "categoryCode": "coffee",
    }
    fields = {
        "externalEventDate": "2026-03-01T10:00:00+02:00",
        "description": "Breakfast",
        "loyaltyProgramId": program,
        "customAttributes": {"table": 7},
        "type": "dine-in",
        "tags": ["morning"],
        "discountedTotal": Decimal("8.10"),
        "subTotal": Decimal("9.00"),
        "merchantId": "m-1",
        "paymentMethod": "cash",
        "locationCode": "centre",
        "referralCode": "ref",
        "channel": "counter",
        "coupons": {"code": "ten"},
        "status": "created",
    }
    order_payload = {"externalId": "o-1", "total": Decimal("9.000001"), "items": [item, {}], **fields}
    result = shop.track_one(event(member, ORDER_CREATED, payload={"order": order_payload}))
    [order_row] = shop.rows("purchase_orders")
    event_id = shop.integration.get(f"/events/{result['loyaltyEventKey']}")["event"]["loyaltyEventId"]
    assert (order_row.loyalty_event_id, order_row.external_id, order_row.total) == (
        event_id,
        "o-1",
        Decimal("9.000001"),
    )
    assert order_row.external_event_date == datetime(2026, 3, 1, 8, tzinfo=UTC)
    assert (order_row.discounted_total, order_row.sub_total) == (Decimal("8.1"), 9)
    assert (order_row.description, order_row.loyalty_program_id, order_row.type, order_row.tags) == (
        "Breakfast",
        program,
        "dine-in",
        ["morning"],
    )
    assert (order_row.merchant_id, order_row.payment_method, order_row.location_code) == ("m-1", "cash", "centre")
    assert (order_row.referral_code, order_row.channel, order_row.status) == ("ref", "counter", "created")
    assert (order_row.custom_attributes, order_row.coupons) == ({"table": 7}, {"code": "ten"})
    first_item, empty_item = shop.rows("order_items", order="order_item_id")
    assert (first_item.product_code, first_item.description, first_item.category_code) == (
        "flat-white",
        "Flat white",
        "coffee",
    )
    assert (first_item.total, first_item.amount, first_item.quantity) == (Decimal("4.5"), Decimal("4.5"), 1)
    assert (first_item.discounted_total, first_item.sub_total, first_item.custom_attributes) == (
        Decimal("4.05"),
        Decimal("4.5"),
        {"milk": "oat"},
    )
    assert (empty_item.product_code, empty_item.total, empty_item.custom_attributes) == (None, None, {})


def test_the_status_of_an_order_follows_its_events(shop, member):
    events, expected_problems = [], []
    for status_before, status_after in itertools.product(STATUSES, STATUSES):
        external_id = f"{status_before}-{status_after}"
        events.append(order(member, external_id=external_id))
        expected_problems.append(None)
        for status in LATER_STATUSES[status_before]:
            events.append(order_update(member, external_id, status))
            expected_problems.append(None)
        events.append(
            order(member, 5 if status_after == "created" else None, status=status_after, external_id=external_id)
        )
        if status_after == "created":
            expected_problems.append("/problems/order-exists")
        else:
            expected_problems.append(
                None if (status_before, status_after) in ALLOWED_CHANGES else "/problems/order-status"
            )
    results = []
    for start in range(0, len(events), 37):
        # Batches of any size: some orders change in the batch that created them, others in a later one.
        results += shop.track(*events[start : start + 37])
    assert [result.get("error", {}).get("type") for result in results] == expected_problems
    statuses = {row.external_id: row.status for row in shop.rows("purchase_orders")}
    assert statuses == {
        f"{status_before}-{status_after}": status_after
        if (status_before, status_after) in ALLOWED_CHANGES
        else status_before
        for status_before, status_after in itertools.product(STATUSES, STATUSES)
    }


def test_an_order_belongs_to_its_member(shop, member):
    shop.track_one(order(member, external_id="mine"))
    stranger = shop.member()
    assert shop.expect_refusal(order_update(stranger, "mine", "confirmed")) == "/problems/unknown-order"
    assert shop.expect_refusal(order(stranger, 5, external_id="mine")) == "/problems/order-exists"
    assert shop.expect_refusal(order_update(member, "other", "confirmed")) == "/problems/unknown-order"
    shop.track_one(order_update(member, "mine", "confirmed"))


def test_an_order_whose_status_contradicts_the_event_type_is_refused(shop, member):
    contradictory_event = event(
        member, ORDER_CREATED, payload={"order": {"externalId": "o", "total": 1, "status": "confirmed"}}
    )
    assert shop.expect_refusal(contradictory_event) == "/problems/order-status"
    assert shop.rows("purchase_orders") == []


def test_a_new_order_needs_a_total(shop, member):
    [result] = shop.track(order(member, None, external_id="o"))
    assert result["error"]["type"] == "/problems/payload-missing"
    assert result["loyaltyEventKey"]
    shop.track_one(order(member, 0, external_id="o"))


def test_later_events_of_an_order_have_the_total_and_location_of_its_creation(shop, member):
    shop.campaign(
        running(WHOLE_DOLLARS), eventType="member-purchase-order-confirmed", minSpendValue=10, locationCodes=["c"]
    )
    # The total of the second order is below the minimum spend of 10.
    shop.track(
        order(member, 12, external_id="o-1", locationCode="c"), order(member, 9, external_id="o-2", locationCode="c")
    )
    shop.track(*(order_update(member, external_id, "confirmed") for external_id in ("o-1", "o-2")))
    assert shop.balance(member) == 12


def test_an_event_that_the_status_of_its_order_forbids_is_stored_without_effects(shop, member):
    shop.campaign(running(mint(5)), maxTransactionsPerMember=10)
    shop.track_one(order(member, external_id="o"))
    tables = ("purchase_orders", "ledger_transactions", "campaign_limit_counters")
    stored_rows = [shop.rows(table) for table in tables]
    shop.expect_refusal(order(member, external_id="o"))
    assert [shop.rows(table) for table in tables] == stored_rows
    assert shop.balance(member) == 5
    assert [loyalty_event["status"] for loyalty_event in shop.events(member)] == ["failed", "success"]


def test_a_custom_type_with_the_prefix_of_order_events_is_no_order_event(shop, member):
    body = {"name": "Rated", "apiCode": "member-purchase-order-rated", "schemaType": "number"}
    shop.integration.post("/custom-event-types", body)
    shop.track_one(event(member, "member-purchase-order-rated", payload={"value": 5}))


# --- what campaigns see ------------------------------------------------------------------------------------------


def test_expressions_see_the_event_the_order_the_member_and_the_balances(shop):
    ana = shop.member(memberType="staff", profile={"country": "PT", "tags": ["vip"]}, customAttributes={"level": 3})
    sponsor = shop.member(memberType="friend")
    stars = shop.account(alias="stars", decimals=2)
    shop.give(ana, Decimal("2.25"), ledgerAccountId=stars["ledgerAccountId"])
    rules = [
        "event.payload.n == 3 && event.tags.exists(t, t == 'rain') && event.externalId == 'e'",
        "order.total == 9.5 && order.items.size() == 2 && order.items.map(i, i.total).sum() == 9.5",
        "order.items.exists(i, i.categoryCode == 'coffee' && i.quantity >= 1)",
        "member.memberType == 'staff' && member.profile.country == 'PT' && 'vip' in member.profile.tags",
        "member.customAttributes.level == 3",
        "sponsor.memberType == 'friend'",
        f"balances['stars'] == 2.25 && balances['{stars['ledgerAccountKey']}'] == 2.25 && balances['points'] == 0.0",
        "tiers.size() == 1",
        "now > event.externalEventDate",
        "payment == null",
    ]
    shop.campaign(*(running(effect("discount", type="amount", value=i), rule=rule) for i, rule in enumerate(rules, 1)))
    items = [{"total": 4, "categoryCode": "coffee", "quantity": 1}, {"total": Decimal("5.5")}]
    purchase = order(ana, Decimal("9.5"), items=items, externalEventDate="2026-01-01T00:00:00Z", tags=["rain"])
    purchase["payload"]["n"] = 3
    purchase |= {"externalId": "e", "sponsorLoyaltyMemberId": sponsor}
    [dry_result] = shop.track(purchase, executionMode="dryRun")
    unmet_rules = [
        (explanation["actionName"], explanation["reason"])
        for explanation in dry_result["explain"]
        if not explanation["applied"]
    ]
    assert unmet_rules == []
    assert len(shop.track_one(purchase)["effects"]) == len(rules)


def test_rules_see_a_payment_which_counts_towards_the_minimum_spend(shop, member):
    shop.campaign(
        running(mint(("=", "payment.products.map(p, p.quantity).sum()")), rule="payment.storeId == 's'"),
        eventType="member-payment-confirmed",
        minSpendValue=Decimal("4.50"),
    )
    products = [{"sku": "a", "quantity": 2}, {"sku": "b", "quantity": 3, "total": Decimal("1.5")}]
    # A point for each product, if the total is at least 4.50.
    for total, points in ((Decimal("4.49"), 0), (Decimal("4.50"), 2 + 3)):
        payment = {"paymentId": key(), "total": total, "storeId": "s", "products": products}
        shop.track_one(event(member, "member-payment-confirmed", payload={"payment": payment}))
        assert shop.balance(member) == points


def test_a_sponsor_gets_the_effects_for_the_sponsor(shop, member):
    sponsor = shop.member()
    shop.campaign(running(mint(5), mint(3, recipient="sponsor")))
    shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    assert (shop.balance(member), shop.balance(sponsor)) == (5, 3)
    result = shop.track_one(event(member))
    assert [outcome["status"] for outcome in result["effects"]] == ["executed", "skipped"]
    assert result["effects"][1]["error"]["type"] == "/problems/no-sponsor"
    shop.check_ledger()


def test_a_failed_effect_does_not_prevent_later_effects(shop, member):
    shop.campaign(running(spend(5), mint(2)))
    result = shop.track_one(event(member))
    assert [outcome["status"] for outcome in result["effects"]] == ["failed", "executed"]
    assert result["effects"][0]["error"]["type"] == "/problems/insufficient-balance"
    assert result["effects"][0]["error"]["status"] == 409
    assert shop.balance(member) == 2


@pytest.mark.parametrize("partial", [True, False])
def test_huge_amounts_cause_no_server_error(shop, member, partial):
    shop.campaign(
        running(mint(10**30), mint(("=", "order.total * 1e300 * 1e300")), mint(("=", "order.total * 1e3000"))),
        running(effect("discount", type="amount", value=("=", "0.0 - order.total * 1e4000"))),
        pointsMonthlyLimitPerMember=5,
        allowPartialApplicationOnLimit=partial,
    )
    purchase = order(member, Decimal("10.5"))
    [dry_result] = shop.track(purchase, executionMode="dryRun")
    assert dry_result["status"] == "success"
    [result] = shop.track(purchase)
    assert shop.track(purchase) == [result]
    shop.integration.get(f"/events/{result['loyaltyEventKey']}")
    # Of the first effect, the limit allows 5 points, unless parts are not applied. The others have no usable amount.
    assert shop.balance(member) == (5 if partial else 0)


def test_limits_cut_effects_and_their_counters_are_recorded(shop, member):
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        pointsMonthlyLimitPerMember=100,
        limitRules=[{"scope": "campaign", "type": "transactions", "period": "weekly", "limit": 5}],
        allowPartialApplicationOnLimit=True,
    )
    wednesday = "2026-03-04T12:00:00Z"
    results = shop.track(*(order(member, 60, externalEventDate=wednesday) for _ in range(3)))
    # A point for each dollar: 60, then the remaining 40 of 100, then nothing.
    assert [result["effects"][0]["status"] for result in results] == ["executed", "partial", "skipped"]
    assert [result["limitDiscardedTotalAmount"] for result in results] == [0, 20, 60]
    assert results[1]["effects"][0]["error"]["type"] == "/problems/limit-reached"
    assert shop.balance(member) == 100
    # The newest is first.
    third_event, second_event, first_event = shop.events(member)
    discarded_amounts = [record["limitDiscardedTotalAmount"] for record in (first_event, second_event, third_event)]
    assert discarded_amounts == [0, 20, 60]
    counters = sorted(second_event["limitCounters"], key=lambda limit_counter: limit_counter["type"])
    campaign_id = counters[0]["campaignId"]
    assert counters == [
        {
            "campaignId": campaign_id,
            "scope": "member",
            "type": "points",
            "period": "monthly",
            "periodStart": "2026-03-01",
            "ledgerAccountId": None,
            "amount": 40,
        },
        {
            "campaignId": campaign_id,
            "scope": "campaign",
            "type": "transactions",
            "period": "weekly",
            "periodStart": "2026-03-02",
            "ledgerAccountId": None,
            "amount": 1,
        },
    ]
    assert third_event["limitCounters"] == []
    shop.track_one(order(member, 60, externalEventDate="2026-04-01T00:00:00Z"))
    assert shop.balance(member) == 100 + 60


def test_points_minted_by_events_expire_by_the_settings_of_the_account_or_the_effect(shop, member):
    stars = shop.account(pointTrackingEnabled=True, expiresInMonths=1)
    shop.campaign(
        running(
            mint(5, ledgerAccountKey=stars["ledgerAccountKey"]),
            mint(7, ledgerAccountKey=stars["ledgerAccountKey"], expirationDate="2100-01-01T00:00:00Z"),
        )
    )
    shop.track_one(event(member, externalEventDate="2020-01-01T00:00:00Z"))
    # The 5 points expired a month after the event.
    assert shop.balance(member, stars["ledgerAccountId"]) == 7
    shop.track_one(event(member))
    assert shop.balance(member, stars["ledgerAccountId"]) == 7 + 5 + 7
    shop.check_ledger()


def test_points_without_an_account_key_go_to_the_account_of_the_program(shop, member):
    stars = shop.account(alias="stars")
    program = {
        "ledgerId": shop.organization.defaults.ledger_id,
        "description": "Second",
        "setAsDefault": False,
        "active": True,
    }
    second_program = shop.administration.post(
        "/loyalty-programs", {**program, "name": "Second", "mainLedgerAccountId": stars["ledgerAccountId"]}
    )["loyaltyProgram"]
    shop.campaign(running(mint(5)), loyaltyProgramId=second_program["loyaltyProgramId"])
    shop.campaign(running(mint(3)))
    shop.track_one(event(member))
    assert (shop.balance(member, stars["ledgerAccountId"]), shop.balance(member)) == (5, 3)


def test_the_ledger_lists_the_transaction_of_an_event(shop, member):
    shop.campaign(running(mint(5, description="Thanks")))
    shop.track_one(event(member, externalEventDate="2026-01-02T03:04:05Z"))
    path = f"/members/{member}/ledger-transactions"
    [transaction] = shop.integration.get(path)["results"]
    assert (transaction["amount"], transaction["description"]) == (5, "Thanks")
    assert (transaction["transactionType"], transaction["externalEventDate"]) == ("mint", "2026-01-02T03:04:05Z")


# --- changes of the configuration --------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_process_uses_a_changed_campaign_from_the_next_event_on(settings, shop, member):
    with running_api(settings) as other_api:
        integration = other_api.surface("", shop.organization.token)

        def track_event():
            """Track an event in the other process; return the amounts of its effects."""
            [result] = integration.post("/events/track", {"events": [event(member)]}, expect=200)["results"]
            return [outcome["params"][0]["value"] for outcome in result["effects"]]

        assert track_event() == []
        campaign = shop.campaign(running(mint(1)))
        assert track_event() == [1]
        path = f"/campaigns/{campaign['campaignId']}"
        action_path = f"{path}/actions/{campaign['actions'][0]['actionId']}"
        shop.administration.put(action_path, running(mint(2)))
        assert track_event() == [2]
        shop.administration.put(action_path, running(mint(2), status="disabled"))
        assert track_event() == []
        shop.administration.put(action_path, running(mint(3)))
        shop.administration.put(path, {"code": campaign["code"], "name": "n", "active": False})
        assert track_event() == []
        shop.administration.put(
            path, {"code": campaign["code"], "name": "n", "active": True, "validTo": "2020-01-01T00:00:00Z"}
        )
        assert track_event() == []


def test_a_custom_type_is_tracked_from_its_creation_on_and_not_while_inactive(shop, member):
    # The configuration is in memory before the type exists.
    assert shop.expect_refusal(event(member, "cup")) == "/problems/unknown-event-type"
    shop.integration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    shop.campaign(running(mint(2)), eventType="cup")
    shop.track_one(event(member, "cup"))
    shop.integration.patch("/custom-event-types/cup", {"active": False})
    assert shop.expect_refusal(event(member, "cup")) == "/problems/unknown-event-type"
    body = {"name": "Cup", "apiCode": "cup", "schemaType": "custom"}
    shop.administration.put("/custom-event-types/cup", body)
    assert shop.expect_refusal(event(member, "cup")) == "/problems/unknown-event-type"
    shop.administration.put("/custom-event-types/cup", {**body, "active": True})
    shop.track_one(event(member, "cup"))
    assert shop.balance(member) == 2 * 2


def test_a_changed_account_is_used_from_the_next_event_on(shop, member):
    shop.track_one(event(member))
    stars = shop.account()
    shop.campaign(running(mint(2, ledgerAccountKey=stars["ledgerAccountKey"])))
    shop.track_one(event(member))
    path = f"/ledgers/{stars['ledgerId']}/accounts/{stars['ledgerAccountId']}"
    body = {"name": "Stars", "active": False, "isRevolving": True, "chainSyncEnabled": False}
    shop.administration.put(path, body)
    result = shop.track_one(event(member))
    assert result["effects"][0]["error"]["type"] == "/problems/account-inactive"
    assert shop.balance(member, stars["ledgerAccountId"]) == 2


def test_configurations_are_cached_by_version(shop, member):
    shop.track_one(event(member))
    cached_configuration = configuration._cache[shop.organization.id]
    shop.track_one(event(member))
    assert configuration._cache[shop.organization.id] is cached_configuration
    shop.campaign()
    shop.track_one(event(member))
    assert configuration._cache[shop.organization.id].version > cached_configuration.version


# --- lists -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def history(api):
    """A member with 7 events: the enrolment, 4 dated or undated ones, an order, and an order that failed."""
    shop = Shop(api.organization())
    member = shop.member()
    days = ["2026-03-03T00:00:00Z", "2026-03-01T00:00:00Z", None, "2026-03-02T00:00:00Z"]
    for number, day in enumerate(days):
        event_type = GENERIC if number % 2 else "benefit-used"
        shop.track_one(event(member, event_type, externalEventDate=day, externalId=f"e-{number}"))
    shop.track_one(order(member, external_id="o"))
    shop.track(order(member, external_id="o"))
    return shop, member


def list_events(history, surface="administration", **query):
    """The member's events as a surface lists them."""
    shop, member = history
    if surface == "integration":
        return shop.integration.get(f"/members/{member}/events", **query)
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    return shop.administration.get(f"/members/{member_id}/events", **query)


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_the_events_of_a_member_are_listed_newest_first_in_pages(history, surface):
    whole_list = list_events(history, surface)
    assert (whole_list["totalCount"], whole_list["page"], whole_list["limit"]) == (7, 0, 25)
    ids = [result["loyaltyEventId"] for result in whole_list["results"]]
    assert ids == sorted(ids, reverse=True)
    pages = [list_events(history, surface, page=page, limit=3) for page in range(4)]
    assert [result["loyaltyEventId"] for page in pages for result in page["results"]] == ids
    assert {page["totalCount"] for page in pages} == {7}
    assert pages[3]["results"] == []
    event_types = {result["eventType"] for result in whole_list["results"]}
    assert event_types == {GENERIC, "benefit-used", ORDER_CREATED, "member-created"}


@pytest.mark.parametrize("surface", ["integration", "administration"])
@pytest.mark.parametrize(
    "column", ["loyaltyEventId", "externalEventDate", "eventType", "status", "createdAt", "updatedAt"]
)
def test_the_events_of_a_member_can_be_ordered_by_every_column(history, surface, column):
    for direction in ("", ",asc", ",desc"):
        events = list_events(history, surface, order=column + direction)["results"]
        descending = direction == ",desc"
        values = [event_record[column] for event_record in events]
        assert len(values) == 7
        present_values = [value for value in values if value is not None]
        # Missing values are last, and equal ones are ordered by id.
        assert present_values == sorted(present_values, reverse=descending)
        assert values[len(present_values) :] == [None] * (len(values) - len(present_values))
        for event_record, next_record in itertools.pairwise(events):
            if event_record[column] == next_record[column]:
                assert (event_record["loyaltyEventId"] > next_record["loyaltyEventId"]) is descending


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_the_events_of_a_member_can_be_filtered(history, surface):
    def external_ids(**query):
        """The externalIds of the listed events, newest first by default."""
        return [result["externalId"] for result in list_events(history, surface, **query)["results"]]

    assert external_ids(eventType=GENERIC) == ["e-3", "e-1"]
    assert external_ids(eventType="benefit-used") == ["e-2", "e-0"]
    assert external_ids(eventType="nothing-known") == []
    # The enrolment and the orders have no externalId. The second order failed.
    assert external_ids(status="failed") == [None]
    assert external_ids(status="success") == [None, "e-3", "e-2", "e-1", "e-0", None]
    assert external_ids(status="pending") == external_ids(status="running") == []
    # The range includes its first moment and excludes its last one.
    [_, _, third_event, fourth_event, *_] = list_events(history, surface, order="createdAt,asc")["results"]
    third_moment, fourth_moment = third_event["createdAt"], fourth_event["createdAt"]
    assert external_ids(fromCreatedAt=third_moment) == [None, None, "e-3", "e-2", "e-1"]
    assert external_ids(toCreatedAt=third_moment) == ["e-0", None]
    assert external_ids(fromCreatedAt=third_moment, toCreatedAt=fourth_moment) == [third_event["externalId"]]
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert external_ids(fromCreatedAt=tomorrow) == []


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("status", "done"),
        ("fromCreatedAt", "soon"),
        ("order", "payload"),
        ("limit", 26),
        ("limit", 0),
        ("page", -1),
        ("colour", "red"),
    ],
)
def test_an_invalid_query_of_the_events_of_a_member_is_refused(history, parameter, value):
    shop, member = history
    problem = shop.integration.get(f"/members/{member}/events", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_the_events_of_an_unknown_member_are_not_found(shop):
    assert shop.integration.get("/members/nobody/events", expect=404)["type"] == "/problems/not-found"


# --- events of the server's own ----------------------------------------------------------------------------------


def test_campaigns_see_the_events_of_enrolments_and_updates(shop):
    shop.campaign(running(mint(10)), eventType="member-created")
    shop.campaign(running(mint(1)), eventType="member-updated")
    shop.campaign(running(mint(100)), eventType="member-profile-deactivated")
    member = shop.member()
    assert shop.balance(member) == 10
    shop.integration.patch(f"/members/{member}", {"memberType": "vip", "updateReason": "They asked"})
    assert shop.balance(member) == 10 + 1
    shop.integration.patch(f"/members/{member}", {"memberType": "new", "emitEvent": False})
    assert shop.balance(member) == 10 + 1
    shop.integration.patch(f"/members/{member}", {"active": False})
    # Inactive members receive no points.
    assert shop.balance(member) == 10 + 1
    events = shop.events(member)
    assert [loyalty_event["eventType"] for loyalty_event in events] == [
        "member-profile-deactivated",
        "member-updated",
        "member-updated",
    ]
    assert events[-1]["reason"] == "They asked"
    shop.check_ledger()
