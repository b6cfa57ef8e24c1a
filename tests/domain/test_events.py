"""When an event happened, whose request it was, and whether it still waits for an evaluation."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from domain.events import EVALUATED, EVALUATION_FAILED, NOT_EVALUATED, EventOrigin, IncomingEvent, LoyaltyEvent

DATE_OF_EVENT, DATE_OF_ORDER = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
ORDER = {"order": {"externalEventDate": "2026-03-02"}}


@pytest.mark.parametrize(
    ("event_date", "payload", "happened_at"),
    [
        (DATE_OF_EVENT, ORDER, DATE_OF_EVENT),
        (None, ORDER, DATE_OF_ORDER),
        (None, {"order": {}}, None),
        (None, {"order": None}, None),
        (None, {}, None),
        (None, None, None),
    ],
)
def test_an_event_has_its_own_date_or_that_of_its_order(event_date, payload, happened_at):
    event = IncomingEvent("key", "member-purchase-order-created", payload=payload, external_event_date=event_date)
    assert event.happened_at == happened_at


STORED_EVENT = LoyaltyEvent(
    **{
        **dict.fromkeys(LoyaltyEvent.__slots__),
        "e2e_tracking_id": "request-1",
        "actor": "shop",
        "user_id": 5,
        "status": "success",
        "evaluation_status": NOT_EVALUATED,
    }
)


def test_the_origin_of_a_stored_event_is_its_request():
    assert STORED_EVENT.origin == EventOrigin(request_id="request-1", actor="shop", user_id=5)


@pytest.mark.parametrize(
    ("changes", "is_captured_only"),
    [
        ({}, True),
        ({"reason": "tier"}, False),
        ({"status": "failed"}, False),
        ({"evaluation_status": EVALUATED}, False),
        ({"evaluation_status": EVALUATION_FAILED}, False),
    ],
)
def test_only_a_successful_event_without_evaluation_and_reason_is_captured_only(changes, is_captured_only):
    assert replace(STORED_EVENT, **changes).is_captured_only is is_captured_only


def test_stored_states_of_evaluation_keep_their_numbers():
    assert (NOT_EVALUATED, EVALUATED, EVALUATION_FAILED) == (0, 1, 2)
