"""Missions on the wire (administration "Records": Mission; integration 2.9: missionsStatus)."""

from __future__ import annotations

from typing import Any

from domain.missions.records import MemberMission
from handlers.messages.base import Exact, Instant, LocalInstant, Plain, Shape, WireSchema
from handlers.messages.missions import BALANCE


class _Writable(WireSchema):
    campaign_id = Plain()
    loyalty_program_id = Plain()
    name = Plain()
    short_description = Plain()
    description = Plain()
    picture_url = Plain()
    custom_attributes = Plain(load_default=dict)
    type = Plain()
    audience_id = Plain()
    tags = Plain(load_default=list)
    code = Plain()
    matcher_id = Plain()
    event_type = Plain()
    active = Plain(load_default=True)
    valid_from = LocalInstant()
    valid_to = LocalInstant()
    timezone = Plain()
    max_repetitions = Plain()
    repetition_period = Plain()
    period_limit = Plain()
    goal_count = Plain()
    points_accrual = Exact()
    ledger_id = Plain()
    ledger_account_id = Plain()
    coupon_book_key = Plain()
    badge_key = Plain()
    ledger_transaction_description = Plain()
    inline_matcher = Plain(metadata={"omit_none": True})
    badge_matcher = Plain(metadata={"omit_none": True})
    min_spend_value = Exact()
    manual_expiration = Plain(metadata={"omit_none": True})
    count_expression = Plain()


class _Record(_Writable):
    organization_id = Plain()
    mission_id = Plain()
    mission_key = Plain()
    created_at = Instant()
    updated_at = Instant()


class _Progress(WireSchema):
    amount = Plain()
    system_unique_key = Plain()
    external_id = Plain()
    tags = Plain(load_default=list)
    description = Plain()
    external_event_date = Instant()


MISSION_BODY = Shape(_Writable, complete=True)
MISSION_CHANGES = Shape(_Writable)
MISSION = Shape(_Record)
PROGRESS_BODY = Shape(_Progress, complete=True)


def member_mission(found: MemberMission) -> dict[str, Any]:
    """A mission with the member's progress."""
    return {**MISSION.dump(found.mission), "balance": BALANCE.dump(found.balance)}
