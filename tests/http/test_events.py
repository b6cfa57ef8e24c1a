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
    answer = shop.integration.post("/events/track", {"events": [sent_event]}, expect=200)
    assert (answer["executionMode"], answer["dryRun"]) == ("full", False)
    [result] = answer["results"]
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
    answer = shop.administration.post("/events/track", body, expect=200)
    assert answer == {
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
    repeated_answer = shop.administration.post("/events/track", body, expect=200)
    assert repeated_answer == answer
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
    assert {fault["pointer"].split("/")[2] for fault in problem["errors"]} == {"1", "2", "3", "4", "5"}
    assert shop.events(member) == []


@pytest.mark.parametrize("date", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_dates_outside_the_calendar_are_refused_with_pointers(shop, member, date):
    for one, place in (
        ({**event(member), "externalEventDate": date}, "/events/0/externalEventDate"),
        (
            event(member, ORDER_CREATED, payload={"order": {"externalId": "o", "total": 1, "externalEventDate": date}}),
            "/events/0/payload/order/externalEventDate",
        ),
    ):
        problem = shop.integration.post("/events/track", {"events": [one]}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [place]


@pytest.mark.parametrize("count", [0, 101])
def test_a_batch_has_1_to_100_events(shop, member, count):
    shop.integration.post("/events/track", {"events": [event(member)] * count}, expect=400)


def test_the_results_of_100_events_of_3_members_are_in_the_order_of_the_events(shop):
    members = [shop.member() for _ in range(3)]
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    orders = [order(members[i % 3], i) for i in range(100)]
    results = shop.track(*orders)
    assert [result["systemUniqueKey"] for result in results] == [purchase["systemUniqueKey"] for purchase in orders]
    assert [shop.balance(member) for member in members] == [sum(range(i, 100, 3)) for i in range(3)]
    assert len({result["loyaltyEventKey"] for result in results}) == 100
    shop.check_ledger()


def test_every_built_in_type_except_those_of_the_server_can_be_tracked(shop, member):
    payment = {"paymentId": "p", "total": 1}
    for event_type in BUILT_IN_EVENT_TYPES:
        # The status of an order decides which events about it are allowed.
        if event_type.startswith("member-purchase-order-"):
            continue
        one = event(member, event_type, payload={"payment": payment})
        if event_type in NOT_TRACKABLE:
            assert shop.expect_refusal(one) == "/problems/event-type-not-trackable"
        else:
            shop.track_one(one)


def test_a_refused_event_is_not_stored_and_its_key_stays_free(shop, member):
    inactive_member = shop.member(active=False)
    cases = {
        "/problems/unknown-member": event("nobody"),
        "/problems/unknown-event-type": event(member, "moon-landing"),
        "/problems/event-type-not-trackable": event(member, "ledger-transaction-created"),
        "/problems/member-inactive": event(inactive_member),
        "/problems/payload-missing": event(member, ORDER_CREATED),
    }
    results = shop.track(*cases.values(), event(member))
    assert [result.get("error", {}).get("type") for result in results] == [*cases, None]
    assert [result["loyaltyEventKey"] is None for result in results] == [True] * 5 + [False]
    for result in results[:5]:
        assert result["error"]["title"]
        assert result["error"]["detail"]
    assert {result["error"]["status"] for result in results[:2]} == {404}
    assert {result["error"]["status"] for result in results[2:5]} == {409}
    for one in cases.values():
        shop.track_one({**event(member), "systemUniqueKey": one["systemUniqueKey"]})


def test_a_sponsor_must_exist(shop, member):
    one = event(member, sponsorLoyaltyMemberId="nobody")
    assert shop.expect_refusal(one) == "/problems/unknown-member"


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
    assert (shop.balance(member), shop.balance(sponsor)) == (11, 1100)


def test_a_payment_needs_its_payload(shop, member):
    for payload in ({}, {"payload": {}}, {"payload": {"order": {"externalId": "o"}}}):
        assert shop.expect_refusal(event(member, "member-payment-confirmed", **payload)) == "/problems/payload-missing"


def test_the_administration_returns_refusals_as_problems(shop, member):
    inactive_member_id = shop.organization.member(active=False)["memberId"]
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    shop.track_one(order(member, external_id="order-1"))
    order_payload = {"order": {"externalId": "order-1", "total": 1}}
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
    before = len(shop.rows("events"))
    for status, slug, subject, event_type, payload in cases:
        body = {
            "organizationId": shop.organization.id,
            "memberId": subject,
            "systemUniqueKey": key(),
            "eventType": event_type,
            **({} if payload is None else {"payload": payload}),
        }
        problem = shop.administration.post("/events/track", body, expect=status)
        assert problem["type"] == f"/problems/{slug}"
        assert problem["instance"]
    assert len(shop.rows("events")) == before


def test_members_of_another_organization_are_unknown(shop, member, other_organization):
    stranger = other_organization.member()["loyaltyMemberId"]
    assert shop.expect_refusal(event(stranger)) == "/problems/unknown-member"
    assert shop.expect_refusal(event(member, sponsorLoyaltyMemberId=stranger)) == "/problems/unknown-member"
    tracked_event = shop.track_one(event(member))
    other_organization.integration.get(f"/events/{tracked_event['loyaltyEventKey']}", expect=404)


def test_an_unknown_event_is_not_found(shop):
    assert shop.integration.get(f"/events/{uuid.uuid4()}", expect=404)["type"] == "/problems/not-found"
    shop.integration.get("/events/not-a-key", expect=400)


def test_an_inactive_member_may_still_be_reported_as_deactivated(shop):
    inactive_member = shop.member(active=False)
    shop.track_one(event(inactive_member, "member-profile-deactivated"))


# --- the same key ------------------------------------------------------------------------------------------------


def test_a_repeated_request_gets_the_identical_response(shop, member):
    # One effect mints 6, a third of the total in whole points; the other one fails.
    shop.campaign(running(mint(("=", "order.total / 3.0")), spend(10**6)), pointsMonthlyLimitPerMember=7)
    one = order(member, Decimal("20.50"), items=[{"productCode": "x", "quantity": Decimal("1.5")}], tags=["a"])
    first, second = (
        shop.integration.request("POST", "/events/track", {"events": [one]}, expect=200).text for _ in range(2)
    )
    assert first == second
    assert shop.balance(member) == 6
    assert len(shop.events(member)) == 1
    shop.check_ledger()


def test_the_same_key_with_other_content_is_refused_and_changes_nothing(shop, member):
    other = shop.member()
    shop.campaign(running(mint(5)))
    one = event(
        member, description="a", tags=["a"], payload={"n": 1}, externalId="e", externalEventDate="2026-01-01T00:00:00Z"
    )
    shop.track_one(one)
    changes = [
        {"loyaltyMemberId": other},
        {"sponsorLoyaltyMemberId": other},
        {"eventType": "benefit-used"},
        {"description": "b"},
        {"tags": ["b"]},
        {"payload": {"n": 2}},
        {"externalId": "f"},
        {"externalEventDate": "2026-01-01T00:00:01Z"},
    ]
    results = shop.track(*({**one, **change} for change in changes))
    assert [result["error"]["type"] for result in results] == ["/problems/key-reused"] * len(changes)
    assert {result["loyaltyEventKey"] for result in results} == {None}
    assert shop.expect_refusal(one, executionMode="captureOnly") == "/problems/key-reused"
    assert (shop.balance(member), shop.balance(other)) == (5, 0)
    assert shop.track_one(one)["loyaltyEventKey"]


@pytest.mark.parametrize("empty_field", [{"tags": []}, {"payload": {}}])
def test_an_empty_field_has_the_same_content_as_no_field(shop, member, empty_field):
    shop.campaign(running(mint(5)))
    for first, second in ((event(member), empty_field), (event(member, **empty_field), {})):
        repeated_event = {**{name: value for name, value in first.items() if name not in empty_field}, **second}
        assert shop.track_one(first) == shop.track_one(repeated_event)
    assert shop.balance(member) == 10
    assert len(shop.events(member)) == 2


def test_a_key_repeated_in_one_batch_has_effects_once(shop, member):
    shop.campaign(running(mint(5)))
    one, second = event(member), event(member)
    results = shop.track(one, second, one, {**one, "description": "other"}, second)
    assert results[0] == results[2]
    assert results[1] == results[4]
    assert results[3]["error"]["type"] == "/problems/key-reused"
    assert shop.balance(member) == 10
    assert len(shop.events(member)) == 2


def test_a_later_event_of_the_batch_can_have_the_key_of_a_refused_event(shop, member):
    one = event(member)
    results = shop.track({**one, "loyaltyMemberId": "nobody"}, one)
    assert [result["status"] for result in results] == ["failed", "success"]


def test_both_surfaces_share_keys(shop, member):
    campaign = shop.campaign(running(mint(5)))
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    one = event(member, payload={"n": 1}, tags=["a"])
    body = {name: value for name, value in one.items() if name != "loyaltyMemberId"}
    body |= {"organizationId": shop.organization.id, "memberId": member_id}
    first = shop.track_one(one)
    assert shop.administration.post("/events/track", body, expect=200)["effects"] == first["effects"]
    body["systemUniqueKey"] = one["systemUniqueKey"] = key()
    second = shop.administration.post("/events/track", body, expect=200)
    assert shop.track_one(one)["effects"] == second["effects"]
    assert second["effects"][0]["campaignId"] == campaign["campaignId"]
    assert shop.balance(member) == 10
    problem = shop.administration.post("/events/track", {**body, "tags": ["b"]}, expect=409)
    assert problem["type"] == "/problems/key-reused"


def test_a_repeated_failed_event_gets_its_first_failure_on_both_surfaces(shop, member):
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    shop.track_one(order(member, external_id="order-1"))
    failing_order = order(member, external_id="order-1")
    [first] = shop.track(failing_order)
    assert first["error"]["type"] == "/problems/order-exists"
    assert first["loyaltyEventKey"]
    assert shop.track(failing_order, failing_order) == [first, first]
    body = {name: value for name, value in failing_order.items() if name != "loyaltyMemberId"}
    body |= {"organizationId": shop.organization.id, "memberId": member_id}
    problem = shop.administration.post("/events/track", body, expect=409)
    assert {**first["error"], "instance": problem["instance"]} == problem
    event_outcome = shop.integration.get(f"/events/{first['loyaltyEventKey']}")
    assert event_outcome["event"]["status"] == "failed"
    assert event_outcome["event"]["evaluationStatus"] == EVALUATION_FAILED
    assert event_outcome["event"]["lastError"] == first["error"]
    assert event_outcome["result"] == first


def test_a_repeated_event_gets_its_first_result_after_changes_of_the_configuration_and_the_member(shop, member):
    campaign = shop.campaign(running(mint(5)))
    shop.integration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup", "schemaType": "custom"})
    one, cup = event(member), event(member, "cup")
    first = shop.track(one, cup)
    action = campaign["actions"][0]
    path = f"/campaigns/{campaign['campaignId']}"
    shop.administration.put(f"{path}/actions/{action['actionId']}", running(mint(99)))
    shop.administration.put(path, {"code": campaign["code"], "name": "Over", "active": False})
    shop.integration.patch("/custom-event-types/cup", {"active": False})
    shop.integration.patch(f"/members/{member}", {"active": False})
    assert shop.track(one, cup) == first
    assert shop.expect_refusal(event(member)) == "/problems/member-inactive"


def test_two_organizations_can_use_the_same_key(shop, member, other_organization):
    other = Shop(other_organization)
    one = event(member)
    shop.track_one(one)
    other.track_one({**one, "loyaltyMemberId": other.member()})


def test_a_key_of_an_event_can_be_reused_for_a_transaction(shop, member):
    one = event(member)
    shop.track_one(one)
    shop.give(member, 5, systemUniqueKey=one["systemUniqueKey"])
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
    earlier_order = order(member, external_id="kept")
    shop.track_one(earlier_order)
    events = [order(member, 40, items=[{"productCode": "x"}]), order(member, 7), order("nobody"), event(member, "no")]
    before = snapshot_database(api)
    body = {"events": [*events, order_update(member, "kept", "confirmed")], "executionMode": "dryRun"}
    answer = shop.integration.post("/events/track", body, expect=200)
    assert snapshot_database(api) == before
    assert (answer["executionMode"], answer["dryRun"]) == ("dryRun", True)
    statuses = [[effect["status"] for effect in result["effects"]] for result in answer["results"]]
    # The first event uses the rest of the monthly limit, so that the later ones mint nothing.
    without_mints = ["skipped", "skipped", "evaluated"]
    assert statuses == [["partial", "skipped", "evaluated"], without_mints, [], [], without_mints]
    assert [result["loyaltyEventKey"] for result in answer["results"]] == [None] * 5
    assert [result["status"] for result in answer["results"]] == ["success", "success", "failed", "failed", "success"]
    repeated_answer = shop.integration.post("/events/track", body, expect=200)
    assert repeated_answer == answer
    real_results = shop.track(*body["events"])
    for dry_result, real_result in zip(answer["results"], real_results, strict=True):
        dry_statuses = [e["status"].replace("evaluated", "executed") for e in dry_result["effects"]]
        assert dry_statuses == [e["status"] for e in real_result["effects"]]
        assert [e["params"] for e in dry_result["effects"]] == [e["params"] for e in real_result["effects"]]
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
    big = explain[matching_campaign["campaignId"], "Big"]
    assert big["applied"] is False
    assert big["campaignKey"] == matching_campaign["campaignKey"]
    assert big["campaignCode"] == matching_campaign["code"]
    assert big["actionId"] == matching_campaign["actions"][0]["actionId"]
    assert (big["reason"]["start"], big["reason"]["end"]) == (0, len("order.total >= 20"))
    assert big["reason"]["label"] == "not true: order total is at least 20 (it is 4.50)"
    assert big["reason"]["actual"][0]["value"] == Decimal("4.5")
    assert big["trace"]["value"] is False
    assert explain[matching_campaign["campaignId"], "Small"]["applied"] is True
    assert explain[matching_campaign["campaignId"], None]["applied"] is True
    location = explain[campaign_elsewhere["campaignId"], None]
    assert location["applied"] is False
    assert location["reason"]["code"] == "LOCATION"
    assert location["reason"]["label"] == "the event has no location"
    assert location["reason"]["start"] is None
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
    events = [event(member, description=d) for d in ("in", "out", "out")]
    results = shop.track(*events, executionMode="dryRun")
    assert [[e["status"] for e in result["effects"]] for result in results] == [
        ["evaluated"],
        ["evaluated"],
        ["failed"],
    ]
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
    one = order(member, 10, external_id="captured", items=[{"productCode": "x"}])
    result = shop.track_one(one, executionMode="captureOnly")
    assert result == {**RESULT, "systemUniqueKey": one["systemUniqueKey"], "loyaltyEventKey": result["loyaltyEventKey"]}
    assert shop.balance(member) == 0
    event_record = shop.integration.get(f"/events/{result['loyaltyEventKey']}")["event"]
    assert (event_record["evaluationStatus"], event_record["status"]) == (NOT_EVALUATED, "success")
    assert [row.status for row in shop.rows("purchase_orders")] == ["created"]
    assert len(shop.rows("order_items")) == 1
    assert (
        shop.expect_refusal(order(member, external_id="captured"), executionMode="captureOnly")
        == "/problems/order-exists"
    )


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
    shop.integration.post("/events/track", {"events": [event(member)], "executionMode": "authorise"}, expect=400)


def test_campaign_keys_restrict_the_campaigns_in_every_mode(shop, member):
    first, second = (shop.campaign(running(mint(amount))) for amount in (1, 10))
    inactive_campaign = shop.campaign(running(mint(100)), active=False)
    keys = [second["campaignKey"].upper(), inactive_campaign["campaignKey"]]
    [result] = shop.track(event(member), campaignKeys=keys)
    assert [outcome["campaignId"] for outcome in result["effects"]] == [second["campaignId"]]
    assert shop.balance(member) == 10
    [dry_result] = shop.track(event(member), campaignKeys=[first["campaignKey"]], executionMode="dryRun")
    assert {explanation["campaignId"] for explanation in dry_result["explain"]} == {first["campaignId"]}
    # Without keys and with an empty list, all active campaigns run.
    shop.track_one(event(member))
    assert shop.balance(member) == 21
    shop.track(event(member), campaignKeys=[])
    assert shop.balance(member) == 32


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
    program = shop.organization.created.loyalty_program_id
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
    one = event(
        member,
        ORDER_CREATED,
        payload={"order": {"externalId": "o-1", "total": Decimal("9.000001"), "items": [item, {}], **fields}},
    )
    result = shop.track_one(one)
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
    first, second = shop.rows("order_items", order="order_item_id")
    assert (first.product_code, first.description, first.category_code) == ("flat-white", "Flat white", "coffee")
    assert (first.total, first.amount, first.quantity) == (Decimal("4.5"), Decimal("4.5"), 1)
    assert (first.discounted_total, first.sub_total, first.custom_attributes) == (
        Decimal("4.05"),
        Decimal("4.5"),
        {"milk": "oat"},
    )
    assert (second.product_code, second.total, second.custom_attributes) == (None, None, {})


def test_the_status_of_an_order_follows_its_events(shop, member):
    events, expected_problems = [], []
    for before, after in itertools.product(STATUSES, STATUSES):
        external_id = f"{before}-{after}"
        events.append(order(member, external_id=external_id))
        expected_problems.append(None)
        for status in LATER_STATUSES[before]:
            events.append(order_update(member, external_id, status))
            expected_problems.append(None)
        events.append(order(member, 5 if after == "created" else None, status=after, external_id=external_id))
        if after == "created":
            expected_problems.append("/problems/order-exists")
        else:
            expected_problems.append(None if (before, after) in ALLOWED_CHANGES else "/problems/order-status")
    results = []
    for start in range(0, len(events), 37):
        # Batches of any size: some orders change in the batch that created them, others in a later one.
        results += shop.track(*events[start : start + 37])
    assert [result.get("error", {}).get("type") for result in results] == expected_problems
    statuses = {row.external_id: row.status for row in shop.rows("purchase_orders")}
    assert statuses == {
        f"{before}-{after}": after if (before, after) in ALLOWED_CHANGES else before
        for before, after in itertools.product(STATUSES, STATUSES)
    }


def test_an_order_belongs_to_its_member(shop, member):
    shop.track_one(order(member, external_id="mine"))
    stranger = shop.member()
    assert shop.expect_refusal(order_update(stranger, "mine", "confirmed")) == "/problems/unknown-order"
    assert shop.expect_refusal(order(stranger, 5, external_id="mine")) == "/problems/order-exists"
    assert shop.expect_refusal(order_update(member, "other", "confirmed")) == "/problems/unknown-order"
    shop.track_one(order_update(member, "mine", "confirmed"))


def test_an_order_whose_status_contradicts_the_event_type_is_refused(shop, member):
    one = event(member, ORDER_CREATED, payload={"order": {"externalId": "o", "total": 1, "status": "confirmed"}})
    assert shop.expect_refusal(one) == "/problems/order-status"
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
    # The total of the second order is below the minimum spend.
    shop.track(
        order(member, 12, external_id="a", locationCode="c"), order(member, 9, external_id="b", locationCode="c")
    )
    shop.track(*(order_update(member, external_id, "confirmed") for external_id in "ab"))
    assert shop.balance(member) == 12


def test_an_event_that_the_status_of_its_order_forbids_is_stored_without_effects(shop, member):
    shop.campaign(running(mint(5)), maxTransactionsPerMember=10)
    shop.track_one(order(member, external_id="o"))
    before = [shop.rows(table) for table in ("purchase_orders", "ledger_transactions", "campaign_limit_counters")]
    shop.expect_refusal(order(member, external_id="o"))
    assert [
        shop.rows(table) for table in ("purchase_orders", "ledger_transactions", "campaign_limit_counters")
    ] == before
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
    one = order(ana, Decimal("9.5"), items=items, externalEventDate="2026-01-01T00:00:00Z", tags=["rain"])
    one["payload"]["n"] = 3
    one |= {"externalId": "e", "sponsorLoyaltyMemberId": sponsor}
    [dry_result] = shop.track(one, executionMode="dryRun")
    unmet_rules = [
        (explanation["actionName"], explanation["reason"])
        for explanation in dry_result["explain"]
        if not explanation["applied"]
    ]
    assert unmet_rules == []
    assert len(shop.track_one(one)["effects"]) == len(rules)


def test_rules_see_a_payment_which_counts_towards_the_minimum_spend(shop, member):
    shop.campaign(
        running(mint(("=", "payment.products.map(p, p.quantity).sum()")), rule="payment.storeId == 's'"),
        eventType="member-payment-confirmed",
        minSpendValue=Decimal("4.50"),
    )
    products = [{"sku": "a", "quantity": 2}, {"sku": "b", "quantity": 3, "total": Decimal("1.5")}]
    for total, points in ((Decimal("4.49"), 0), (Decimal("4.50"), 5)):
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
    one = order(member, Decimal("10.5"))
    [dry_result] = shop.track(one, executionMode="dryRun")
    assert dry_result["status"] == "success"
    first = shop.track(one)
    assert shop.track(one) == first
    shop.integration.get(f"/events/{first[0]['loyaltyEventKey']}")
    assert shop.balance(member) <= 5


def test_limits_cut_effects_and_their_counters_are_recorded(shop, member):
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        pointsMonthlyLimitPerMember=100,
        limitRules=[{"scope": "campaign", "type": "transactions", "period": "weekly", "limit": 5}],
        allowPartialApplicationOnLimit=True,
    )
    day = "2026-03-04T12:00:00Z"
    results = shop.track(*(order(member, 60, externalEventDate=day) for _ in range(3)))
    assert [result["effects"][0]["status"] for result in results] == ["executed", "partial", "skipped"]
    assert [result["limitDiscardedTotalAmount"] for result in results] == [0, 20, 60]
    assert results[1]["effects"][0]["error"]["type"] == "/problems/limit-reached"
    assert shop.balance(member) == 100
    third, second, first = shop.events(member)
    assert [event_record["limitDiscardedTotalAmount"] for event_record in (first, second, third)] == [0, 20, 60]
    counters = sorted(second["limitCounters"], key=lambda limit_counter: limit_counter["type"])
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
    assert third["limitCounters"] == []
    shop.track_one(order(member, 60, externalEventDate="2026-04-01T00:00:00Z"))
    assert shop.balance(member) == 160


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
        "ledgerId": shop.organization.created.ledger_id,
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
    [row] = shop.integration.get(path)["results"]
    assert (row["amount"], row["description"], row["transactionType"]) == (5, "Thanks", "mint")
    assert row["externalEventDate"] == "2026-01-02T03:04:05Z"


# --- changes of the configuration --------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_process_uses_a_changed_campaign_from_the_next_event_on(settings, shop, member):
    with running_api(settings) as other_api:
        integration = other_api.surface("", shop.organization.token)

        def track_event():
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
    assert shop.balance(member) == 4


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
    pages = [list_events(history, surface, page=p, limit=3) for p in range(4)]
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
        rows = list_events(history, surface, order=column + direction)["results"]
        descending = direction == ",desc"
        values = [row[column] for row in rows]
        present_values = [value for value in values if value is not None]
        assert present_values == sorted(present_values, reverse=descending)
        assert values[len(present_values) :] == [None] * (len(values) - len(present_values))
        for before, after in itertools.pairwise(rows):
            if before[column] == after[column]:
                assert (before["loyaltyEventId"] > after["loyaltyEventId"]) is descending
    shop, member = history
    shop.integration.get(f"/members/{member}/events", order="payload", expect=400)


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_the_events_of_a_member_can_be_filtered(history, surface):
    def external_ids(**query):
        return [result["externalId"] for result in list_events(history, surface, **query)["results"]]

    assert external_ids(eventType=GENERIC) == ["e-3", "e-1"]
    assert external_ids(eventType="benefit-used") == ["e-2", "e-0"]
    assert external_ids(eventType="nothing-known") == []
    assert len(external_ids(status="failed")) == 1
    assert len(external_ids(status="success")) == 6
    assert external_ids(status="pending") == external_ids(status="running") == []
    # The range includes its first moment and excludes its last one.
    [_, _, third, fourth, *_] = list_events(history, surface, order="createdAt,asc")["results"]
    assert len(external_ids(fromCreatedAt=third["createdAt"])) == 5
    assert len(external_ids(toCreatedAt=third["createdAt"])) == 2
    assert external_ids(fromCreatedAt=third["createdAt"], toCreatedAt=fourth["createdAt"]) == [third["externalId"]]
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert external_ids(fromCreatedAt=tomorrow) == []
    shop, member = history
    for query in (
        {"status": "done"},
        {"fromCreatedAt": "soon"},
        {"limit": 26},
        {"limit": 0},
        {"page": -1},
        {"colour": "red"},
    ):
        shop.integration.get(f"/members/{member}/events", expect=400, **query)
    shop.integration.get("/members/nobody/events", expect=404)


# --- events of the server's own ----------------------------------------------------------------------------------


def test_campaigns_see_the_events_of_enrolments_and_updates(shop):
    shop.campaign(running(mint(10)), eventType="member-created")
    shop.campaign(running(mint(1)), eventType="member-updated")
    shop.campaign(running(mint(100)), eventType="member-profile-deactivated")
    member = shop.member()
    assert shop.balance(member) == 10
    shop.integration.patch(f"/members/{member}", {"memberType": "vip", "updateReason": "They asked"})
    assert shop.balance(member) == 11
    shop.integration.patch(f"/members/{member}", {"memberType": "new", "emitEvent": False})
    assert shop.balance(member) == 11
    shop.integration.patch(f"/members/{member}", {"active": False})
    # Inactive members receive no points.
    assert shop.balance(member) == 11
    events = shop.events(member)
    assert [loyalty_event["eventType"] for loyalty_event in events] == [
        "member-profile-deactivated",
        "member-updated",
        "member-updated",
    ]
    assert events[-1]["reason"] == "They asked"
    shop.check_ledger()
