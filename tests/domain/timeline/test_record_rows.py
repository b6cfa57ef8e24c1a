"""The sentences and ids of timeline rows about coupons, badges, the member's own record and messages."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.timeline.contacts import MessageFact, ProfileFact
from domain.timeline.holdings import BadgeFact, CouponFact, CouponLockFact
from domain.timeline.rows import amount_text

RECORDED_AT = datetime(2026, 3, 2, 8, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("amount", "text"),
    [("100", "100"), ("1234567.50", "1,234,567.5"), ("12.00", "12"), ("0.10", "0.1"), ("1E+3", "1,000")],
)
def test_an_amount_is_written_without_zeros_at_its_end(amount, text):
    assert amount_text(Decimal(amount)) == text


COUPON = CouponFact(
    coupon_usage_id=1,
    created_at=RECORDED_AT,
    coupon_usage_key="usage-1",
    coupon_book_id=2,
    coupon_book_key="book-2",
    book_name="Free coffee",
    amount_assigned=Decimal(1),
    amount_used=Decimal(0),
    amount_discounted=None,
    reverted_usage_id=None,
    reversal_usage_id=None,
    description=None,
    loyalty_event_id=7,
)
USED = {"amount_assigned": Decimal(0), "amount_used": Decimal(1)}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "The coupon Free coffee was assigned."),
        ({"amount_assigned": Decimal(3)}, "The coupon Free coffee was assigned 3 times."),
        (USED, "The coupon Free coffee was used."),
        ({**USED, "description": "At the till."}, "The coupon Free coffee was used: At the till."),
        (
            {"amount_assigned": Decimal(-2), "reverted_usage_id": 9},
            "The coupon Free coffee was taken away again 2 times.",
        ),
        (
            {**USED, "amount_used": Decimal(-1), "reverted_usage_id": 9},
            "The coupon Free coffee was given back after its use was reverted.",
        ),
    ],
)
def test_the_sentence_about_a_coupon_reports_its_assignment_use_or_reversal(changes, sentence):
    assert replace(COUPON, **changes).row().text == sentence


@pytest.mark.parametrize("reversal", [None, 4])
def test_the_row_of_a_coupon_has_its_ids_amounts_and_reversal(reversal):
    row = replace(COUPON, **USED, amount_discounted=Decimal(5), reversal_usage_id=reversal).row("shop")
    assert (row.kind, row.recorded_at, row.happened_at) == ("coupon", RECORDED_AT, RECORDED_AT)
    assert (row.by, row.loyalty_event_id, row.is_reversed) == ("shop", 7, reversal is not None)
    assert row.details == {
        "couponUsageId": 1,
        "couponUsageKey": "usage-1",
        "couponBookId": 2,
        "couponBookKey": "book-2",
        "amountAssigned": 0,
        "amountUsed": 1,
        "amountDiscounted": 5,
        "revertedUsageId": None,
        "reversalUsageId": reversal,
    }


LOCK = CouponLockFact(
    coupon_lock_id=1,
    created_at=RECORDED_AT,
    coupon_lock_key="key-1",
    coupon_book_id=3,
    coupon_book_key="book-3",
    book_name="Free coffee",
    expires_at=RECORDED_AT,
    ended_at=None,
    coupon_usage_id=None,
)


@pytest.mark.parametrize(
    ("changes", "end", "is_reversed"),
    [
        ({}, "", False),
        ({"ended_at": RECORDED_AT}, ", and released", True),
        ({"ended_at": RECORDED_AT, "coupon_usage_id": 9}, ", and used", False),
    ],
)
def test_the_sentence_about_a_lock_reports_how_the_lock_ended(changes, end, is_reversed):
    row = replace(LOCK, **changes).row("shop")
    assert row.text == f"The coupon Free coffee was locked until 2026-03-02T08:15:00Z{end}."
    assert (row.is_reversed, row.by, row.details["couponUsageId"]) == (
        is_reversed,
        "shop",
        changes.get("coupon_usage_id"),
    )


BADGE = BadgeFact(
    badge_tracking_id=1,
    created_at=RECORDED_AT,
    badge_tracking_key="tracking-1",
    badge_id=2,
    badge_key="badge-2",
    badge_name="Regular",
    amount=1,
    balance=1,
    reverted_badge_tracking_id=None,
    reversal_badge_tracking_id=None,
    loyalty_event_id=7,
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "The badge Regular was received; the member holds 1."),
        ({"amount": 2, "balance": 5}, "The badge Regular was received 2 times; the member holds 5."),
        ({"amount": -1, "balance": 0}, "The badge Regular was taken away; the member holds 0."),
        (
            {"amount": -2, "balance": 0, "reverted_badge_tracking_id": 9},
            "The badge Regular was taken away 2 times by a reversal; the member holds 0.",
        ),
    ],
)
def test_the_sentence_about_a_badge_reports_that_it_was_received_or_taken_away(changes, sentence):
    assert replace(BADGE, **changes).row().text == sentence


@pytest.mark.parametrize("reversal", [None, 4])
def test_the_row_of_a_badge_has_its_ids_amounts_and_reversal(reversal):
    row = replace(BADGE, reversal_badge_tracking_id=reversal).row("shop")
    assert (row.kind, row.recorded_at, row.happened_at) == ("badge", RECORDED_AT, RECORDED_AT)
    assert (row.by, row.loyalty_event_id, row.is_reversed) == ("shop", 7, reversal is not None)
    assert row.details == {
        "badgeTrackingId": 1,
        "badgeTrackingKey": "tracking-1",
        "badgeId": 2,
        "badgeKey": "badge-2",
        "amount": 1,
        "balance": 1,
        "revertedBadgeTrackingId": None,
        "reversalBadgeTrackingId": reversal,
    }


PROFILE = ProfileFact(
    audit_log_id=1,
    created_at=RECORDED_AT,
    actor="ana@shop",
    user_id=3,
    operation_id="updateMember",
    reason=None,
    fields=("phone", "email"),
    is_erased=False,
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "The member was changed: email, phone, by ana@shop."),
        ({"fields": ()}, "The member was changed, by ana@shop."),
        # Each letter is the name of a field.
        ({"fields": "abcde"}, "The member was changed: a, b, c, d, e, by ana@shop."),
        ({"fields": "gfedcba"}, "The member was changed: a, b, c, d, e and 2 more, by ana@shop."),
        (
            {"operation_id": "startImport", "actor": "import-3"},
            "The member was changed: email, phone, by import-3.",
        ),
        ({"operation_id": "createMember"}, "The member was enrolled, by ana@shop."),
        (
            {"operation_id": "eraseMember", "reason": "On request."},
            "The member's personal data was erased, by ana@shop: On request.",
        ),
    ],
)
def test_the_text_about_a_change_of_the_member_names_the_changed_fields_and_the_caller(changes, sentence):
    assert replace(PROFILE, **changes).row().text == sentence


def test_the_row_of_a_change_of_the_member_has_the_id_of_its_audit_entry():
    row = replace(PROFILE, reason="Moved").row()
    assert (row.kind, row.recorded_at, row.happened_at) == ("profile", RECORDED_AT, RECORDED_AT)
    assert (row.by, row.loyalty_event_id, row.is_reversed) == ("ana@shop", None, False)
    assert row.details == {
        "auditLogId": 1,
        "operationId": "updateMember",
        "userId": 3,
        "changedFields": ["email", "phone"],
        "reason": "Moved",
    }


MESSAGE = MessageFact(
    trigger_delivery_id=1,
    created_at=RECORDED_AT,
    trigger_delivery_key="delivery-1",
    type="member.updated",
    status="succeeded",
    attempts=1,
    delivered_at=RECORDED_AT,
    last_status_code=200,
    trigger_id=2,
    trigger_name="CRM",
)


@pytest.mark.parametrize(
    ("status", "attempts", "sentence"),
    [
        ("succeeded", 1, "The message member.updated to CRM was delivered after 1 attempt."),
        ("failed", 7, "The message member.updated to CRM could not be delivered after 7 attempts."),
        ("pending", 0, "The message member.updated to CRM waits."),
        ("pending", 2, "The message member.updated to CRM waits after 2 attempts."),
    ],
)
def test_the_sentence_about_a_message_reports_its_delivery(status, attempts, sentence):
    assert replace(MESSAGE, status=status, attempts=attempts).row().text == sentence


def test_the_row_of_a_message_has_its_delivery_but_not_its_content():
    row = MESSAGE.row()
    assert (row.kind, row.recorded_at, row.happened_at) == ("message", RECORDED_AT, RECORDED_AT)
    assert (row.by, row.loyalty_event_id, row.is_reversed) == (None, None, False)
    assert row.details == {
        "triggerDeliveryId": 1,
        "triggerDeliveryKey": "delivery-1",
        "triggerId": 2,
        "type": "member.updated",
        "status": "succeeded",
        "attempts": 1,
    }
