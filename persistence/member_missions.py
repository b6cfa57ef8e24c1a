"""Missions from the view of one member: each with the member's progress, filtered by both."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, case, func, literal, not_, or_, select

from domain.calendar import PERIODS, next_period, period_start, start_of_day, zone_named
from domain.members import Member
from domain.missions.records import MemberMission, Mission, MissionBalance
from persistence import missions as all_missions
from persistence.paging import Page, Paged, ordering
from persistence.rows import columns_of
from persistence.tables.missions import member_missions as held
from persistence.tables.missions import mission_trackings as trackings
from persistence.tables.missions import missions


@dataclass(frozen=True, slots=True)
class MemberMissionFilter:
    """Filters of a list of a member's missions; None, or an empty collection, leaves out a condition.

    `valid_from` and `valid_to` select missions that are valid at some moment between them. `is_available` and
    `is_in_progress` are the member's state at the moment of the request.
    """

    loyalty_program_id: int | None = None
    type: str | None = None
    codes: Collection[str] = ()
    tags: Collection[str] = ()
    mission_key: str | None = None
    active: bool | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    min_times_achieved: int | None = None
    min_counter_count: int | None = None
    is_available: bool | None = None
    is_in_progress: bool | None = None


_goal = missions.c.goal_count
_times = func.coalesce(held.c.times_achieved, 0)
# As `Progress.towards`: counts made towards another goal than the present one. `/` and `%` are of whole numbers.
_counted = func.coalesce(
    case(
        (held.c.goal_count == _goal, held.c.counted),
        else_=held.c.counted.op("/")(held.c.goal_count) * _goal
        + func.least(held.c.counted % held.c.goal_count, _goal - 1),
    ),
    0,
)
_counter = case((_counted > 0, (_counted - 1) % _goal + 1), else_=0)

ORDER_COLUMNS = {
    **all_missions.ORDER_COLUMNS,
    "timesAchieved": _times,
    "currentCounterCount": _counter,
    "lastAchievedAt": held.c.last_achieved_at,
}

_MISSION = columns_of(missions, Mission)
_BALANCE = (_times, _counter, held.c.last_counter_count_when_achieved, held.c.last_achieved_at)


def find_page(
    db: Connection,
    member: Member,
    page: Page,
    filters: MemberMissionFilter,
    audience_ids: Collection[int],
    now: datetime,
    timezones: Sequence[str],
) -> Paged[MemberMission]:
    """A page of missions with the member's balances; `audience_ids` are those of the member now.

    `timezones` are those that missions have, the first one being that of missions without one.
    """
    of_member = and_(
        held.c.organization_id == missions.c.organization_id,
        held.c.mission_id == missions.c.mission_id,
        held.c.member_id == member.member_id,
    )
    table = missions.outerjoin(held, of_member)
    conditions = [missions.c.organization_id == member.organization_id, *_conditions(filters)]
    if filters.is_available is not None:
        available = _available(member, audience_ids, now, timezones)
        conditions.append(available if filters.is_available else not_(available))
    statement = select(*_MISSION, *_BALANCE).select_from(table).where(*conditions)
    statement = statement.order_by(*ordering(page.order, ORDER_COLUMNS, missions.c.mission_id))
    rows = db.execute(statement.limit(page.limit).offset(page.page * page.limit)).all()
    if len(rows) < page.limit and (rows or page.page == 0):
        total = page.page * page.limit + len(rows)
    else:
        total = db.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one()
    split = len(_MISSION)
    member_missions = [
        MemberMission(Mission(*row[:split]), MissionBalance(member.member_id, *row[split:])) for row in rows
    ]
    return Paged(total, page.page, page.limit, member_missions)


def _conditions(filters: MemberMissionFilter) -> list[Any]:
    """The conditions that do not depend on the moment."""
    conditions = all_missions.filters(
        loyalty_program_id=filters.loyalty_program_id, type_=filters.type, codes=filters.codes, tags=filters.tags
    )
    if filters.mission_key is not None:
        conditions.append(missions.c.mission_key == filters.mission_key)
    if filters.active is not None:
        conditions.append(missions.c.active == filters.active)
    if filters.valid_from is not None:
        conditions.append(or_(missions.c.valid_to.is_(None), missions.c.valid_to >= filters.valid_from))
    if filters.valid_to is not None:
        conditions.append(or_(missions.c.valid_from.is_(None), missions.c.valid_from <= filters.valid_to))
    if filters.min_times_achieved is not None:
        conditions.append(_times >= filters.min_times_achieved)
    if filters.min_counter_count is not None:
        conditions.append(_counter >= filters.min_counter_count)
    if filters.is_in_progress is not None:
        under_way = and_(_counter > 0, _counter < _goal, _times < missions.c.max_repetitions)
        conditions.append(under_way if filters.is_in_progress else not_(under_way))
    return conditions


def _available(member: Member, audience_ids: Collection[int], now: datetime, timezones: Sequence[str]) -> Any:
    """The condition that an event now would count."""
    return and_(
        missions.c.active,
        or_(missions.c.valid_from.is_(None), missions.c.valid_from <= now),
        or_(missions.c.valid_to.is_(None), missions.c.valid_to >= now),
        or_(missions.c.audience_id.is_(None), missions.c.audience_id.in_(list(audience_ids))),
        _times < missions.c.max_repetitions,
        or_(missions.c.period_limit.is_(None), _achieved_this_period(member, now, timezones) < missions.c.period_limit),
    )


def _achieved_this_period(member: Member, now: datetime, timezones: Sequence[str]) -> Any:
    """How often the member achieved the mission in the present period, in the zone of the mission."""
    begin_of, end_of = {}, {}
    for name in timezones:
        zone = zone_named(name)
        for period in PERIODS:
            first_day = period_start(period, now, zone)
            begin_of[f"{period} {name}"] = literal(start_of_day(first_day, zone))
            end_of[f"{period} {name}"] = literal(start_of_day(next_period(period, first_day), zone))
    period_and_zone = func.concat(_period, " ", func.coalesce(missions.c.timezone, timezones[0]))
    begins, ends = (case(moments, value=period_and_zone) for moments in (begin_of, end_of))
    return (
        select(func.coalesce(func.sum(trackings.c.achieved), 0))
        .where(
            trackings.c.organization_id == missions.c.organization_id,
            trackings.c.member_id == member.member_id,
            trackings.c.mission_id == missions.c.mission_id,
            trackings.c.happened_at >= begins,
            trackings.c.happened_at < ends,
            trackings.c.achieved > 0,
            trackings.c.reversal_loyalty_event_id.is_(None),
        )
        .correlate(missions)
        .scalar_subquery()
    )


_period = missions.c.repetition_period
