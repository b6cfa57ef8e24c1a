"""Missions on the wire (administration "Records": Mission; integration 2.9: missionsStatus)."""

from __future__ import annotations

from typing import Any

from domain.missions.progress import Advance
from domain.missions.records import MemberMission, Mission, MissionBalance, MissionTracking, Reward
from domain.missions.state import MissionMove
from handlers.schemas.base import Exact, Instant, LocalInstant, Plain, Shape, WireSchema, exact_number


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


class _Balance(WireSchema):
    member_id = Plain()
    times_achieved = Plain()
    last_counter_count_when_achieved = Plain()
    current_counter_count = Plain()
    last_achieved_at = Instant()


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
_BALANCE = Shape(_Balance)


def member_mission(found: MemberMission) -> dict[str, Any]:
    """A mission with where the member stands in it."""
    return {**MISSION.dump(found.mission), "balance": _BALANCE.dump(found.balance)}


def progress_answer(balance: MissionBalance, achieved: int) -> dict[str, Any]:
    """What a request to advance a mission is answered."""
    return {"balance": {**_BALANCE.dump(balance), "lastGoalsAchieved": achieved}}


def mission_outcome(move: MissionMove, is_dry_run: bool) -> dict[str, Any]:
    """What an event did to a mission, in the words of a payment's missionsStatus."""
    advance = move.advance
    return {
        "missionId": move.mission.mission_id,
        "missionKey": move.mission.mission_key,
        "currentCounter": advance.before.begun,
        "newCounter": advance.after.counter,
        "achieved": advance.achieved > 0,
        "goal": move.mission.goal_count,
        "timesAchieved": advance.after.times_achieved,
        "rewards": [_reward(each, is_dry_run) for each in move.rewards],
    }


def achieved_payload(move: MissionMove) -> dict[str, Any]:
    """The payload of `mission-status-updated`."""
    return {
        "mission": {
            **mission_outcome(move, is_dry_run=False),
            "code": move.mission.code,
            "name": move.mission.name,
            "goalsAchieved": move.advance.achieved,
        }
    }


def reversed_mission(mission: Mission, tracking: MissionTracking, advance: Advance) -> dict[str, Any]:
    """What was taken off a mission when an event was undone."""
    return {
        "missionId": mission.mission_id,
        "missionKey": mission.mission_key,
        "counted": tracking.counted,
        "goalsAchieved": tracking.achieved,
        "currentCounter": advance.before.counter,
        "newCounter": advance.after.counter,
        "timesAchieved": advance.after.times_achieved,
    }


def _reward(reward: Reward, is_dry_run: bool) -> dict[str, Any]:
    status = "failed" if reward.refusal is not None else "evaluated" if is_dry_run else "executed"
    answer: dict[str, Any] = {
        "kind": reward.kind,
        "status": status,
        "amount": exact_number(reward.amount),
        "ledgerAccountKey": reward.ledger_account_key,
        "badgeKey": reward.badge_key,
        "couponBookKey": reward.coupon_book_key,
        "code": None if is_dry_run else reward.code,
    }
    if reward.refusal is not None:
        answer["error"] = reward.refusal
    return answer
