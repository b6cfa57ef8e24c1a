"""Missions through the API, and as plain values for tests that run them without a database."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from domain.missions.records import Mission
from tests.builders.tracking import GENERIC, Shop

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)


def mission(**values: Any) -> Mission:
    """An active mission of three generic events, without a reward; it can be achieved up to 1000 times."""
    settings: dict[str, Any] = {
        **dict.fromkeys(Mission.__slots__),
        "organization_id": 1,
        "mission_id": 1,
        "mission_key": "mission-1",
        "name": "Three times",
        "custom_attributes": {},
        "tags": (),
        "event_type": GENERIC,
        "active": True,
        "max_repetitions": 1000,
        "goal_count": 3,
        "external_key": None,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Mission(**{**settings, **values})


def body(**values: Any) -> dict[str, Any]:
    """The body of a mission of three generic events, without a reward; it can be achieved up to 1000 times."""
    return {"name": "Three times", "eventType": GENERIC, "maxRepetitions": 1000, "goalCount": 3, **values}


def create(shop: Shop, **values: Any) -> dict[str, Any]:
    """A new mission with this body."""
    return shop.administration.post("/missions", body(**values))["mission"]


def member_id_of(shop: Shop, member: str) -> int:
    """The id of a member by the loyaltyMemberId."""
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]


def progress_of(shop: Shop, member: str, mission_key: str) -> dict[str, Any]:
    """The record of the member's progress in a mission, such as `currentCounterCount` and `timesAchieved`."""
    path = f"/members/{member_id_of(shop, member)}/missions"
    [progress] = shop.administration.get(path, missionKey=mission_key)["results"]
    return progress["balance"]


def advance(shop: Shop, member: str, mission_id: int, *, amount: int, expect: int = 200, **more: Any) -> dict[str, Any]:
    """Add to a member's count in a mission; return the response."""
    path = f"/members/{member_id_of(shop, member)}/missions/{mission_id}/progress"
    return shop.administration.post(path, {"amount": amount, **more}, expect=expect)


def new_badge(shop: Shop, **values: Any) -> str:
    """The key of a new badge, of which a member can hold at most 2 unless `values` has another `maxAmount`."""
    body = {"name": "Cup", "maxAmount": 2, "active": True, **values}
    return shop.integration.post("/badges", body)["badge"]["badgeKey"]


def assign(shop: Shop, member: str, badge: str, *, amount: int = 1) -> dict[str, Any]:
    """Assign a badge by its key; return the tracking."""
    path = f"/members/{member}/badges/{badge}/assign"
    return shop.integration.post(path, {"amount": amount}, expect=200)["badgeTracking"]


class MissionCount(NamedTuple):
    """The counts of a mission before and after an event, whether the event achieved it, and the times in all."""

    before: int
    after: int
    achieved: bool
    times: int


def counters(result: dict[str, Any]) -> list[MissionCount]:
    """The count of each mission that a tracking result reports."""
    return [
        MissionCount(move["currentCounter"], move["newCounter"], move["achieved"], move["timesAchieved"])
        for move in result["missions"]
    ]


def times_and_count(shop: Shop, member: str, mission: dict[str, Any]) -> tuple[int, int]:
    """(times that the member has achieved the mission, count towards the next achievement)."""
    progress = progress_of(shop, member, mission["missionKey"])
    return progress["timesAchieved"], progress["currentCounterCount"]


def achievement_events(shop: Shop, member: str) -> list[dict[str, Any]]:
    """The events that report achievements of the member, newest first."""
    return [event for event in shop.events(member) if event["eventType"] == "mission-status-updated"]
