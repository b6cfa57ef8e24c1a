"""Missions, progress of members in them, and the counts of events and requests."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

from sqlalchemy import Connection, cast, select

from domain.missions.progress import Progress
from domain.missions.records import Mission, MissionTracking
from domain.missions.state import MemberMission, MissionChanges, MissionProgress, Period
from domain.problems import NameTaken
from persistence.connections import Prepared, defer, query
from persistence.paging import Page, Paged, paged
from persistence.rows import add, add_all, as_json, change, columns_of, fields_of, given, records, with_external_key
from persistence.tables.missions import mission_trackings, missions

ORDER_COLUMNS = {
    name: missions.c[column]
    for name, column in {
        "missionId": "mission_id",
        "code": "code",
        "name": "name",
        "type": "type",
        "eventType": "event_type",
        "active": "active",
        "validFrom": "valid_from",
        "validTo": "valid_to",
        "maxRepetitions": "max_repetitions",
        "goalCount": "goal_count",
        "pointsAccrual": "points_accrual",
        "createdAt": "created_at",
        "updatedAt": "updated_at",
    }.items()
}

_COLUMNS = columns_of(missions, Mission)
_TRACKING_COLUMNS = columns_of(mission_trackings, MissionTracking)
# The database assigns the id.
_NEW_TRACKING = tuple(name for name in fields_of(MissionTracking) if name != "mission_tracking_id")

_STANDINGS = Prepared("""
SELECT member_id, mission_id, goal_count, counted, times_achieved, last_counter_count_when_achieved, last_achieved_at
FROM member_missions WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND mission_id = ANY(%s::bigint[])
""")

_ACHIEVED = """
SELECT t.member_id, t.mission_id, x.first_day, sum(t.achieved)::bigint
FROM jsonb_to_recordset(%s::jsonb) AS x(mission_id bigint, first_day date, begins timestamptz, ends timestamptz)
JOIN mission_trackings t ON t.organization_id = %s AND t.member_id = ANY(%s) AND t.mission_id = x.mission_id
    AND t.happened_at >= x.begins AND t.happened_at < x.ends
    AND t.achieved > 0 AND t.reversal_loyalty_event_id IS NULL
GROUP BY 1, 2, 3
"""

_KEEP = Prepared("""
INSERT INTO member_missions (organization_id, member_id, mission_id, goal_count, counted, times_achieved,
    last_counter_count_when_achieved, last_achieved_at, updated_at)
SELECT %s, x.member_id, x.mission_id, x.goal_count, x.counted, x.times_achieved, x.last_counter, x.last_achieved_at, %s
FROM jsonb_to_recordset(%s::jsonb) AS x(member_id bigint, mission_id bigint, goal_count bigint, counted bigint,
    times_achieved bigint, last_counter bigint, last_achieved_at timestamptz)
ON CONFLICT (organization_id, member_id, mission_id) DO UPDATE SET
    goal_count = excluded.goal_count, counted = excluded.counted, times_achieved = excluded.times_achieved,
    last_counter_count_when_achieved = excluded.last_counter_count_when_achieved,
    last_achieved_at = excluded.last_achieved_at, updated_at = excluded.updated_at
""")

_UNDO = """
UPDATE mission_trackings t SET reversal_loyalty_event_id = x.by_event_id
FROM (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(mission_tracking_id bigint, by_event_id bigint) LIMIT %s
) AS x
WHERE t.organization_id = %s AND t.mission_tracking_id = x.mission_tracking_id
"""

_FIND_LAST = """
UPDATE member_missions m SET last_counter_count_when_achieved = last.goal_count, last_achieved_at = last.happened_at
FROM (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(member_id bigint, mission_id bigint) LIMIT %s
) AS x
LEFT JOIN LATERAL (
    SELECT t.goal_count, t.happened_at FROM mission_trackings t
    WHERE t.organization_id = %s AND t.member_id = x.member_id AND t.mission_id = x.mission_id
        AND t.achieved > 0 AND t.reversal_loyalty_event_id IS NULL
    ORDER BY t.happened_at DESC, t.mission_tracking_id DESC LIMIT 1
) last ON true
WHERE m.organization_id = %s AND m.member_id = x.member_id AND m.mission_id = x.mission_id
"""


def find(db: Connection, organization_id: int, mission_id: int) -> Mission | None:
    """The mission with this id."""
    existing = find_some(db, organization_id, [mission_id])
    return existing[0] if existing else None


def find_some(db: Connection, organization_id: int, mission_ids: Collection[int]) -> list[Mission]:
    """The existing missions among these, in no certain order."""
    is_listed = missions.c.mission_id.in_(list(mission_ids))
    return records(
        Mission, db.execute(select(*_COLUMNS).where(missions.c.organization_id == organization_id, is_listed))
    )


def find_all(db: Connection, organization_id: int) -> list[Mission]:
    """Every mission of the organization, active or not, by id."""
    rows = db.execute(
        select(*_COLUMNS).where(missions.c.organization_id == organization_id).order_by(missions.c.mission_id)
    )
    return records(Mission, rows)


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    loyalty_program_id: int | None = None,
    type_: str | None = None,
    codes: Collection[str] = (),
    tags: Collection[str] = (),
    external_key: str | None = None,
) -> Paged[Mission]:
    """A page of missions; all of `tags` must be there, any of `codes` matches."""
    conditions = [
        missions.c.organization_id == organization_id,
        *filters(loyalty_program_id=loyalty_program_id, type_=type_, codes=codes, tags=tags),
        *with_external_key(missions, external_key),
    ]
    return paged(db, Mission, missions, conditions, page, missions.c.mission_id, ORDER_COLUMNS)


def filters(
    *, loyalty_program_id: int | None, type_: str | None, codes: Collection[str], tags: Collection[str]
) -> list[Any]:
    """The conditions on missions that all lists of them offer."""
    conditions: list[Any] = []
    if loyalty_program_id is not None:
        conditions.append(missions.c.loyalty_program_id == loyalty_program_id)
    if type_ is not None:
        conditions.append(missions.c.type == type_)
    if codes:
        conditions.append(missions.c.code.in_(list(codes)))
    if tags:
        conditions.append(missions.c.tags.op("@>")(cast(list(tags), missions.c.tags.type)))
    return conditions


def add_mission(db: Connection, organization_id: int, **values: Any) -> Mission:
    """Insert a mission; a code that exists raises NameTaken."""
    return add(db, missions, Mission, {"organization_id": organization_id, **values}, _code_taken(values["code"]))


def change_mission(db: Connection, mission: Mission, /, **values: Any) -> Mission:
    """Change a mission; a code that another has raises NameTaken."""
    address = {"organization_id": mission.organization_id, "mission_id": mission.mission_id}
    return change(db, missions, Mission, address, values, _code_taken(values["code"]))


def _code_taken(code: str | None) -> dict[str, NameTaken]:
    return {"uq_missions_organization_id_code": NameTaken(f"A mission with the code {code} already exists.")}


def progress_of_members(
    db: Connection, organization_id: int, member_ids: Collection[int], mission_ids: Collection[int]
) -> dict[MemberMission, MissionProgress]:
    """Progress of members in missions; members without counts are left out."""
    rows = query(db, _STANDINGS, (organization_id, list(member_ids), list(mission_ids)))
    return {
        (member_id, mission_id): MissionProgress(Progress(goal, counted, times), last_counter, last_achieved_at)
        for member_id, mission_id, goal, counted, times, last_counter, last_achieved_at in rows
    }


def achieved_in_periods(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    periods: Mapping[tuple[int, date], tuple[datetime, datetime]],
) -> dict[Period, int]:
    """How often members achieved missions in `periods`: their begin and end, by mission id and first day."""
    bounds = [
        {"mission_id": mission_id, "first_day": first_day, "begins": begins, "ends": ends}
        for (mission_id, first_day), (begins, ends) in periods.items()
    ]
    rows = query(db, _ACHIEVED, (as_json(bounds), organization_id, list(member_ids)))
    return {(member_id, mission_id, first_day): times for member_id, mission_id, first_day, times in rows}


def find_trackings(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[MissionTracking]:
    """The unreversed trackings of these events, newest first."""
    table = mission_trackings
    rows = db.execute(
        select(*_TRACKING_COLUMNS)
        .where(
            table.c.organization_id == organization_id,
            table.c.loyalty_event_id.in_(list(event_ids)),
            table.c.reversal_loyalty_event_id.is_(None),
        )
        .order_by(table.c.mission_tracking_id.desc())
    )
    return records(MissionTracking, rows)


def find_tracked(db: Connection, organization_id: int, system_unique_keys: Collection[str]) -> list[MissionTracking]:
    """The trackings made under these keys."""
    table = mission_trackings
    is_listed = table.c.system_unique_key.in_(list(system_unique_keys))
    rows = db.execute(select(*_TRACKING_COLUMNS).where(table.c.organization_id == organization_id, is_listed))
    return records(MissionTracking, rows)


def write(db: Connection, organization_id: int, changes: MissionChanges, at: datetime) -> None:
    """Store the changes of a unit of work; at most four statements."""
    if changes.reversals:
        undone = [
            {"mission_tracking_id": tracking_id, "by_event_id": by} for tracking_id, by in changes.reversals.items()
        ]
        defer(db, _UNDO, (*given(undone), organization_id))
    if changes.trackings:
        rows = [{name: getattr(tracking, name) for name in _NEW_TRACKING} for tracking in changes.trackings]
        add_all(db, mission_trackings, _NEW_TRACKING, _with_digests(rows))
    if changes.progress_of_members:
        kept = [
            {
                "member_id": member_id,
                "mission_id": mission_id,
                "goal_count": progress.progress.goal,
                "counted": progress.progress.counted,
                "times_achieved": progress.progress.times_achieved,
                "last_counter": progress.last_counter,
                "last_achieved_at": progress.last_achieved_at,
            }
            for (member_id, mission_id), progress in changes.progress_of_members.items()
        ]
        defer(db, _KEEP, (organization_id, at, as_json(kept)))
    if changes.lost:
        places = [{"member_id": member_id, "mission_id": mission_id} for member_id, mission_id in sorted(changes.lost)]
        defer(db, _FIND_LAST, (*given(places), organization_id, organization_id))


def _with_digests(rows: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    for row in rows:
        digest = row["request_digest"]
        row["request_digest"] = None if digest is None else "\\x" + digest.hex()
    return rows
