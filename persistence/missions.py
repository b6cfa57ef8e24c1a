"""Missions, the progress of members in missions, and the trackings of counts by events and requests."""

from collections.abc import Collection, Mapping
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, or_

from domain.missions.progress import Progress
from domain.missions.records import Mission, MissionTracking
from domain.missions.state import MissionChanges, MissionProgress, PeriodKey, ProgressKey
from domain.problems import NameTaken
from domain.scalars import is_key
from persistence.connections import defer, fetch_rows
from persistence.filters import has_all, is_any_of
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import add_all, as_json, as_rows, change_all, fields_of, recordset_of, update_by_id, upsert
from persistence.tables.missions import member_missions, mission_trackings, missions

MISSIONS = Records(
    missions,
    Mission,
    equal=("loyaltyProgramId", "type"),
    filters={"codes": is_any_of(missions.c.code), "tags": has_all(missions.c.tags)},
    conflicts={"uq_missions_organization_id_code": (NameTaken, "A mission with the code {code} already exists.")},
)

TRACKINGS = Records(mission_trackings, MissionTracking)
# The database assigns the id.
_NEW_TRACKING = tuple(name for name in fields_of(MissionTracking) if name != "mission_tracking_id")

_PROGRESS = Prepared("""
SELECT member_id, mission_id, goal_count, counted, times_achieved, last_counter_count_when_achieved, last_achieved_at
FROM member_missions WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND mission_id = ANY(%s::bigint[])
""")

_ACHIEVED = """
SELECT t.member_id, t.mission_id, x.first_day, sum(t.achieved)::bigint
FROM jsonb_to_recordset(%s::jsonb) AS x(mission_id bigint, first_day date, begins timestamptz, ends timestamptz)
JOIN mission_trackings t ON t.organization_id = %s AND t.member_id = ANY(%s) AND t.mission_id = x.mission_id
    AND t.happened_at >= x.begins AND t.happened_at < x.ends
    AND t.achieved > 0 AND t.reversal_loyalty_event_id IS NULL AND NOT t.is_imported
GROUP BY 1, 2, 3
"""

_STORE_PROGRESS = upsert(member_missions)

_MARK_REVERSED = update_by_id(mission_trackings, "mission_tracking_id", "reversal_loyalty_event_id")

# After a reversal, the last achievement is that of the newest remaining tracking, or none.
_RESET_LAST_ACHIEVED = """
UPDATE member_missions m SET last_counter_count_when_achieved = last.goal_count, last_achieved_at = last.happened_at
FROM (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(member_id bigint, mission_id bigint) LIMIT %s
) AS x
LEFT JOIN LATERAL (
    SELECT t.goal_count, t.happened_at FROM mission_trackings t
    WHERE t.organization_id = %s AND t.member_id = x.member_id AND t.mission_id = x.mission_id
        AND t.achieved > 0 AND t.reversal_loyalty_event_id IS NULL AND NOT t.is_imported
    ORDER BY t.happened_at DESC, t.mission_tracking_id DESC LIMIT 1
) last ON true
WHERE m.organization_id = %s AND m.member_id = x.member_id AND m.mission_id = x.mission_id
"""


def find_all_named(db: Connection, organization_id: int, names: Collection[str]) -> list[Mission]:
    """The missions whose key, code or name is one of `names`, ordered by id; several missions may share a name."""
    keys, table = [name.lower() for name in names if is_key(name.lower())], missions.c
    is_named = or_(table.mission_key.in_(keys), table.code.in_(list(names)), table.name.in_(list(names)))
    return MISSIONS.find_where(db, organization_id, is_named, order=[MISSIONS.id])


def find_progress_of_members(
    db: Connection, organization_id: int, member_ids: Collection[int], mission_ids: Collection[int]
) -> dict[ProgressKey, MissionProgress]:
    """The progress of members in missions, by member id and mission id; missions without counts are left out."""
    rows = fetch_rows(db, _PROGRESS, (organization_id, list(member_ids), list(mission_ids)))
    return {
        (member_id, mission_id): MissionProgress(Progress(goal, count, times), last_counter, last_achieved_at)
        for member_id, mission_id, goal, count, times, last_counter, last_achieved_at in rows
    }


def find_achieved_in_periods(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    periods: Mapping[tuple[int, date], tuple[datetime, datetime]],
) -> dict[PeriodKey, int]:
    """How often members achieved missions in periods.

    `periods` has the start and the end of each, by mission id and first day. The result is by member id, mission id and
    first day; periods without achievements are left out.
    """
    bounds = [
        {"mission_id": mission_id, "first_day": first_day, "begins": begins, "ends": ends}
        for (mission_id, first_day), (begins, ends) in periods.items()
    ]
    rows = fetch_rows(db, _ACHIEVED, (as_json(bounds), organization_id, list(member_ids)))
    return {(member_id, mission_id, first_day): times for member_id, mission_id, first_day, times in rows}


def find_trackings(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[MissionTracking]:
    """The unreversed trackings of these events, newest first."""
    trackings = TRACKINGS.find_all(db, organization_id, loyalty_event_id=event_ids, reversal_loyalty_event_id=None)
    return sorted(trackings, key=lambda tracking: tracking.mission_tracking_id, reverse=True)


def write(db: Connection, organization_id: int, changes: MissionChanges, at: datetime) -> None:
    """Store the changes of a unit of work; at most four deferred statements."""
    reversal_rows = [
        {"mission_tracking_id": tracking_id, "reversal_loyalty_event_id": event_id}
        for tracking_id, event_id in changes.reversals.items()
    ]
    change_all(db, _MARK_REVERSED, organization_id, reversal_rows)
    add_all(db, mission_trackings, as_rows(changes.trackings, _NEW_TRACKING))
    if changes.progress_of_members:
        progress_rows = [
            {
                "organization_id": organization_id,
                "member_id": member_id,
                "mission_id": mission_id,
                **_progress_columns(progress),
                "updated_at": at,
            }
            for (member_id, mission_id), progress in changes.progress_of_members.items()
        ]
        defer(db, _STORE_PROGRESS, (as_json(progress_rows),))
    if changes.reversed_achievements:
        pairs = [
            {"member_id": member_id, "mission_id": mission_id}
            for member_id, mission_id in sorted(changes.reversed_achievements)
        ]
        defer(db, _RESET_LAST_ACHIEVED, (*recordset_of(pairs), organization_id, organization_id))


def _progress_columns(progress: MissionProgress) -> dict[str, Any]:
    """The columns of the progress of a member in a mission."""
    # Reports count only members with a positive count.
    stored_progress = progress.progress.with_positive_count()
    return {
        "goal_count": stored_progress.goal,
        "counted": stored_progress.counted,
        "times_achieved": stored_progress.times_achieved,
        "last_counter_count_when_achieved": progress.last_counter,
        "last_achieved_at": progress.last_achieved_at,
    }
