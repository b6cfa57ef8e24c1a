"""Outcomes of missions in stored and sent form."""

from typing import Any

from domain.campaigns.outcomes import EVALUATED, EXECUTED, FAILED, PARTIAL
from domain.missions.progress import Advance
from domain.missions.records import Mission, MissionBalance, MissionTracking, Reward
from domain.missions.state import MissionMove
from handlers.messages.base import Shape
from handlers.messages.json_text import exact_number

BALANCE = Shape(MissionBalance)
_MISSION = Shape(Mission, only=("mission_id", "mission_key", "code", "name"))


def progress_response(balance: MissionBalance, achieved: int) -> dict[str, Any]:
    """The response to a request that advances a mission; `achieved` is how often it achieved the goal."""
    return {"balance": {**BALANCE.dump(balance), "lastGoalsAchieved": achieved}}


def mission_outcome(move: MissionMove, is_dry_run: bool) -> dict[str, Any]:
    """The outcome of a mission for an event; `missionsStatus` of partners' payments has some of its fields."""
    advance = move.advance
    return {
        **_MISSION.dump(move.mission),
        "currentCounter": advance.before.current_count,
        "newCounter": advance.after.counter,
        "achieved": advance.achieved > 0,
        "goal": move.mission.goal_count,
        "timesAchieved": advance.after.times_achieved,
        "rewards": [_reward(reward, is_dry_run) for reward in move.rewards],
    }


def achieved_payload(move: MissionMove) -> dict[str, Any]:
    """The payload of `mission-status-updated`."""
    return {"mission": {**mission_outcome(move, is_dry_run=False), "goalsAchieved": move.advance.achieved}}


def reversed_mission(mission: Mission, tracking: MissionTracking, advance: Advance) -> dict[str, Any]:
    """The reversed progress of a mission: `tracking` is the count of its event, `advance` the reversal of the count."""
    return {
        **_MISSION.dump(mission),
        "counted": tracking.counted,
        "goalsAchieved": tracking.achieved,
        "currentCounter": advance.before.counter,
        "newCounter": advance.after.counter,
        "timesAchieved": advance.after.times_achieved,
    }


def _reward(reward: Reward, is_dry_run: bool) -> dict[str, Any]:
    """A reward with the paid amount; if it was refused in whole or in part, also the requested amount and the error."""
    if reward.refusal is not None:
        status = PARTIAL if reward.paid else FAILED
    else:
        status = EVALUATED if is_dry_run else EXECUTED
    response: dict[str, Any] = {
        "kind": reward.kind,
        "status": status,
        "amount": exact_number(reward.amount if reward.refusal is None else reward.paid),
        "ledgerAccountKey": reward.ledger_account_key,
        "badgeKey": reward.badge_key,
        "couponBookKey": reward.coupon_book_key,
        "code": None if is_dry_run else reward.code,
    }
    if reward.wait is not None:
        response["availableAt"] = reward.wait.available_at_text
    if reward.refusal is not None:
        response |= {"requestedAmount": exact_number(reward.amount), "error": reward.refusal}
    return response
