"""Payloads and results of events, returned if `include` names them."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.queue import drain, outcome, send
from tests.builders.tracking import GENERIC, Shop, event, order, running


@pytest.fixture
def shop(organization):
    """A shop whose generic events mint 3 points."""
    shop = Shop(organization)
    shop.campaign(running(mint(3)), eventType=GENERIC)
    return shop


@pytest.fixture
def member(shop):
    return shop.member()


def event_lists(shop, member, **query):
    """The member's events as each surface lists them."""
    member_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    return [
        shop.integration.get(f"/members/{member}/events", **query)["results"],
        shop.administration.get(f"/members/{member_id}/events", **query)["results"],
    ]


def test_lists_include_payloads_and_results_only_on_request(shop, member):
    generic_result = shop.track_one(event(member, payload={"note": ["rain", 1.25, None]}))
    order_result = shop.track_one(order(member, 9, status="created", external_id="order-7"))
    for events in event_lists(shop, member):
        assert [loyalty_event.keys() & {"payload", "result"} for loyalty_event in events] == [set()] * 3
    for events in event_lists(shop, member, include="payload,result"):
        assert [loyalty_event["result"] for loyalty_event in events[:2]] == [order_result, generic_result]
        assert [loyalty_event["payload"] for loyalty_event in events[:2]] == [
            {"order": {"externalId": "order-7", "total": 9}},
            {"note": ["rain", 1.25, None]},
        ]
        # Events are listed newest first.
        enrolment = events[-1]
        assert (enrolment["eventType"], enrolment["payload"]) == ("member-created", {})
    for events in event_lists(shop, member, include="result", eventType=GENERIC):
        [generic_event] = events
        assert generic_event["result"] == generic_result
        assert "payload" not in generic_event
    for events in event_lists(shop, member, include="payload"):
        assert [loyalty_event.keys() & {"payload", "result"} for loyalty_event in events] == [{"payload"}] * 3


def test_an_event_returns_its_payload_on_request(shop, member):
    result = shop.track_one(event(member, payload={"note": "rain"}))
    path = f"/events/{result['loyaltyEventKey']}"
    response = shop.integration.get(path)
    assert response["result"] == result
    assert {"payload", "result"}.isdisjoint(response["event"])
    for include in ("payload", "payload,result"):
        assert shop.integration.get(path, include=include) == {
            "event": {**response["event"], "payload": {"note": "rain"}},
            "result": result,
        }
    assert shop.integration.get(path, include="result") == response


def test_a_queued_event_has_a_payload_and_no_result(shop, member):
    [queued_event] = send(shop, event(member, payload={"note": "rain"}))
    for events in event_lists(shop, member, include="payload,result", eventType=GENERIC):
        [pending_event] = events
        assert (pending_event["status"], pending_event["payload"]) == ("pending", {"note": "rain"})
        assert "result" not in pending_event
    drain(shop)
    for events in event_lists(shop, member, include="payload,result", eventType=GENERIC):
        assert events[0]["result"] == outcome(shop, queued_event)["result"]


@pytest.mark.parametrize("include", ["everything", "payload,payload,result", ""])
def test_an_unknown_include_is_refused(shop, member, include):
    problem = shop.integration.get(f"/members/{member}/events", include=include, expect=400)
    assert problem["errors"][0]["parameter"] == "include"
