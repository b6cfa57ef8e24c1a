"""The sentences and ids of timeline rows about events, tiers, missions and referrals."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.timeline.events import EventFact, MissionFact, ReferralFact, TierFact

RECORDED_AT = datetime(2026, 3, 2, 8, 15, tzinfo=UTC)
HAPPENED_AT = datetime(2026, 3, 1, 17, 0, tzinfo=UTC)

EVENT = EventFact(
    loyalty_event_id=7,
    created_at=RECORDED_AT,
    external_event_date=None,
    loyalty_event_key="key-7",
    event_type="member-purchase-order-created",
    type_name=None,
    order_external_id="order-17",
    order_total="1200.50",
    description=None,
    system_unique_key="sale-17",
    status="success",
    evaluation_status=1,
    reversal_loyalty_event_id=None,
    reverted_loyalty_event_id=None,
    error_title=None,
    effects=(),
    actor="shop",
)


def effect(effect_id="mint-points", amount=Decimal("12.00"), status="executed", campaign="WELCOME10", **more):
    """A stored outcome of an effect; `more` replaces other fields."""
    return {
        "campaignId": 3,
        "campaignCode": campaign,
        "actionId": 4,
        "effectId": effect_id,
        "status": status,
        "params": [{"id": "description", "value": 5}, {"id": "amount", "value": amount}],
        "secret": "not shown",
        **more,
    }


def text(fact, **changes):
    """The text of the row of a fact with these changes."""
    return replace(fact, **changes).row().text


def test_the_row_of_an_event_has_its_ids_its_effects_and_its_caller():
    row = replace(EVENT, effects=[effect()], description="At the till").row()
    assert (row.kind, row.by, row.loyalty_event_id, row.is_reversed) == ("event", "shop", 7, False)
    assert row.details == {
        "loyaltyEventId": 7,
        "loyaltyEventKey": "key-7",
        "eventType": "member-purchase-order-created",
        "status": "success",
        "externalId": "order-17",
        "description": "At the till",
        "systemUniqueKey": "sale-17",
        "revertedLoyaltyEventId": None,
        "reversalLoyaltyEventId": None,
        "effects": [
            {
                "campaignId": 3,
                "campaignCode": "WELCOME10",
                "actionId": 4,
                "effectId": "mint-points",
                "status": "executed",
                "amount": Decimal("12.00"),
            }
        ],
    }


@pytest.mark.parametrize(("external_date", "happened_at"), [(None, RECORDED_AT), (HAPPENED_AT, HAPPENED_AT)])
def test_an_event_happened_at_its_external_date_or_else_when_it_was_recorded(external_date, happened_at):
    row = replace(EVENT, external_event_date=external_date).row()
    assert (row.recorded_at, row.happened_at) == (RECORDED_AT, happened_at)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "The order order-17 over 1,200.5 was created."),
        (
            {"event_type": "member-purchase-order-partially-returned"},
            "The order order-17 over 1,200.5 was partially returned.",
        ),
        ({"order_total": "7"}, "The order order-17 over 7 was created."),
        ({"order_total": None}, "The order order-17 was created."),
        # A total that is no number of at most 20 digits before the point is left out.
        ({"order_total": "NaN"}, "The order order-17 was created."),
        ({"order_total": "1" * 21}, "The order order-17 was created."),
        ({"order_external_id": None}, "The order (unknown) over 1,200.5 was created."),
        # The text has at most 255 characters of the id.
        ({"order_external_id": "x" * 300, "order_total": None}, f"The order {'x' * 255} was created."),
        ({"event_type": "member-created"}, "The member was enrolled."),
        ({"event_type": "member-updated"}, "The profile was changed."),
        ({"event_type": "till-opened"}, "The event till-opened happened."),
        ({"event_type": "till-opened", "type_name": "Till opened"}, "The event Till opened happened."),
        ({"event_type": "till-opened", "description": " Early. "}, "The event till-opened happened: Early."),
    ],
)
def test_the_text_about_an_event_says_what_happened(changes, sentence):
    assert text(EVENT, **changes) == sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"status": "pending"}, "It waits for its evaluation."),
        ({"status": "running"}, "It waits for its evaluation."),
        ({"status": "failed", "error_title": "The order does not exist."}, "It failed: The order does not exist."),
        ({"status": "failed"}, "It failed: the reason is not known."),
        ({"evaluation_status": 0}, "It was stored without evaluation."),
        ({"reversal_loyalty_event_id": 8, "evaluation_status": 0}, "It was reversed later."),
        ({"reverted_loyalty_event_id": 6, "evaluation_status": 0}, "It reversed an earlier event."),
    ],
)
def test_a_second_sentence_reports_the_result_of_the_event(changes, sentence):
    sentences = text(EVENT, event_type="member-created", effects=[effect()], **changes)
    assert sentences == f"The member was enrolled. {sentence}"


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("created", "The order order-17 was cancelled."),
        ("confirmed", "The confirmation of the order order-17 was cancelled."),
        ("returned", "The order order-17 was returned."),
    ],
)
def test_the_sentence_about_a_cancellation_reports_the_reversal(status, sentence):
    changes = {"order_total": None, "reverted_loyalty_event_id": 6, "evaluation_status": 0}
    sentences = text(EVENT, event_type=f"member-purchase-order-{status}", **changes)
    assert sentences == f"{sentence} It reversed an earlier event."


def test_the_row_of_a_reversed_event_is_marked_as_reversed():
    assert replace(EVENT, reversal_loyalty_event_id=8).row().is_reversed


def test_the_text_about_an_event_lists_executed_effects_by_campaign():
    """Effects that were skipped or failed are left out."""
    effects = [
        effect(),
        effect("assign-badge", amount=None),
        effect(amount=Decimal(3), campaign="SPRING"),
        effect(amount=Decimal(4), status="skipped"),
        effect(amount=Decimal(5), status="failed"),
        effect(amount=Decimal(6), status="partial"),
    ]
    assert text(EVENT, event_type="member-created", effects=effects) == (
        "The member was enrolled. Campaign WELCOME10: mint-points 12, assign-badge, mint-points 6. "
        "Campaign SPRING: mint-points 3."
    )


def test_the_row_of_an_event_whose_stored_response_was_removed_has_no_effects():
    row = replace(EVENT, effects=None).row()
    assert row.details["effects"] == []
    assert row.text == "The order order-17 over 1,200.5 was created."


def test_the_amount_of_an_effect_is_a_number_or_none():
    # A text is no number, and the second effect has no parameters at all.
    effects = [effect(amount="12"), effect(params=[]), effect(amount=5)]
    rows = replace(EVENT, effects=effects).row().details["effects"]
    assert [effect_row["amount"] for effect_row in rows] == [None, None, 5]


TIER = TierFact(
    loyalty_event_id=9,
    created_at=RECORDED_AT,
    external_event_date=None,
    loyalty_event_key="key-9",
    loyalty_program_id=2,
    program_name="Default",
    previous_name="Member",
    previous_tier_id=20,
    tier_name="Silver",
    tier_id=21,
    is_manual=False,
    expires_at=None,
    reason=None,
    cause_loyalty_event_id=None,
    cause_type=None,
    actor="ana@shop",
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({}, "The tier in Default changed from Member to Silver."),
        ({"program_name": None}, "The tier changed from Member to Silver."),
        ({"previous_name": None}, "The tier in Default changed from none to Silver."),
        ({"tier_name": None}, "The tier in Default changed from Member to none."),
        (
            {"expires_at": "2027-01-31T00:00:00Z"},
            "The tier in Default changed from Member to Silver until 2027-01-31.",
        ),
        (
            {"cause_type": "member-created"},
            "The tier in Default changed from Member to Silver by the points of member-created.",
        ),
        (
            # The reason is left out if an event caused the change.
            {"cause_type": "member-created", "is_manual": True, "reason": "No matter"},
            "The tier in Default changed from Member to Silver by the effects of member-created.",
        ),
        ({"reason": "Goodwill."}, "The tier in Default changed from Member to Silver: Goodwill."),
    ],
)
def test_the_text_about_a_change_of_the_tier_names_both_tiers_and_the_reason(changes, sentence):
    assert text(TIER, **changes) == sentence


def test_the_row_of_a_change_of_the_tier_has_its_ids():
    row = replace(TIER, cause_loyalty_event_id=7, external_event_date=HAPPENED_AT, is_manual=True).row()
    assert (row.kind, row.by, row.loyalty_event_id, row.is_reversed) == ("tier", "ana@shop", 9, False)
    assert (row.recorded_at, row.happened_at) == (RECORDED_AT, HAPPENED_AT)
    assert TIER.row().happened_at == RECORDED_AT
    assert row.details == {
        "loyaltyEventKey": "key-9",
        "loyaltyProgramId": 2,
        "previousLoyaltyTierId": 20,
        "loyaltyTierId": 21,
        "isManual": True,
        "causeLoyaltyEventId": 7,
    }


MISSION = MissionFact(
    mission_tracking_id=11,
    created_at=RECORDED_AT,
    happened_at=HAPPENED_AT,
    mission_id=5,
    mission_key="mission-5",
    mission_name="Ten coffees",
    counted=2,
    achieved=0,
    goal_count=10,
    description=None,
    reversal_loyalty_event_id=None,
    loyalty_event_id=7,
    actor=None,
    is_imported=False,
)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        # Imported progress has no counts in its text.
        ({"is_imported": True, "achieved": 3}, "The progress in the mission Ten coffees was imported."),
        ({}, "2 counted for the mission Ten coffees, whose goal is 10."),
        ({"achieved": 1}, "2 counted for the mission Ten coffees, whose goal is 10; it was achieved."),
        ({"achieved": 3}, "2 counted for the mission Ten coffees, whose goal is 10; it was achieved 3 times."),
        (
            {"reversal_loyalty_event_id": 8, "description": "Two cups."},
            "2 counted for the mission Ten coffees, whose goal is 10; this was reversed later: Two cups.",
        ),
    ],
)
def test_the_sentence_about_a_mission_reports_whether_the_goal_was_achieved(changes, sentence):
    assert text(MISSION, **changes) == sentence


@pytest.mark.parametrize("reversal", [None, 8])
def test_the_row_of_a_count_for_a_mission_has_its_ids_amounts_and_reversal(reversal):
    row = replace(MISSION, reversal_loyalty_event_id=reversal, achieved=1, actor="shop").row()
    assert (row.kind, row.recorded_at, row.happened_at) == ("mission", RECORDED_AT, HAPPENED_AT)
    assert (row.by, row.loyalty_event_id, row.is_reversed) == ("shop", 7, reversal is not None)
    assert row.details == {
        "missionTrackingId": 11,
        "missionId": 5,
        "missionKey": "mission-5",
        "counted": 2,
        "achieved": 1,
        "goalCount": 10,
        "reversalLoyaltyEventId": reversal,
    }


REFERRAL = ReferralFact(
    referral_log_id=13,
    created_at=RECORDED_AT,
    referral_program_id=6,
    program_name="Friends",
    code="ANA-1",
    is_referrer=True,
    other_member_id=33,
    other_loyalty_member_id="bob",
    reversal_loyalty_event_id=None,
    loyalty_event_id=7,
)


def test_the_text_about_a_referral_differs_for_the_owner_and_the_user_of_the_code():
    assert text(REFERRAL) == "The member bob used the code ANA-1 of Friends, which is this member's."
    assert text(REFERRAL, is_referrer=False) == "The member used the code ANA-1 of Friends, which is the member bob's."
    assert text(REFERRAL, is_referrer=False, reversal_loyalty_event_id=8).endswith("bob's; this was reversed later.")


@pytest.mark.parametrize("reversal", [None, 8])
def test_the_row_of_a_referral_has_its_ids_and_its_reversal(reversal):
    row = replace(REFERRAL, reversal_loyalty_event_id=reversal).row()
    assert (row.kind, row.recorded_at, row.happened_at) == ("referral", RECORDED_AT, RECORDED_AT)
    assert (row.by, row.loyalty_event_id, row.is_reversed) == (None, 7, reversal is not None)
    assert row.details == {
        "referralLogId": 13,
        "referralProgramId": 6,
        "isReferrer": True,
        "otherMemberId": 33,
        "reversalLoyaltyEventId": reversal,
    }
