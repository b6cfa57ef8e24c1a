"""Missions with the progress of one member, filtered by properties of the mission and of the progress."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, case, func, literal, or_, select

from domain.calendar import PERIODS, next_period, period_start, start_of_day, zone_named
from domain.members import Member
from domain.missions.records import MemberMission, Mission, MissionBalance
from persistence.filters import (
    conditions_of,
    equals,
    is_at_least,
    is_null_or_at_or_after,
    is_null_or_at_or_before,
    is_same,
    is_true,
)
from persistence.missions import MISSIONS
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.tables.missions import member_missions as progress_rows
from persistence.tables.missions import mission_trackings as trackings
from persistence.tables.missions import missions

_goal, _period = missions.c.goal_count, missions.c.repetition_period
_times = func.coalesce(progress_rows.c.times_achieved, 0)
_rewarded_count = progress_rows.c.times_achieved * progress_rows.c.goal_count
# The count that `Progress.towards` computes if the mission has another goal now than when it was counted.
_goal_count = case(
    (progress_rows.c.goal_count == _goal, progress_rows.c.counted),
    (
        progress_rows.c.goal_count.is_not(None),
        progress_rows.c.times_achieved * _goal + func.least(progress_rows.c.counted - _rewarded_count, _goal - 1),
    ),
    else_=0,
)
# The formula of `Progress.counter`. In SQL the remainder of a negative number is negative, unlike in Python: adding the
# goal before a second `%` makes it positive.
_counter = case((or_(_goal_count > 0, _times > 0), ((_goal_count - 1) % _goal + _goal) % _goal + 1), else_=0)

_ORDER_COLUMNS = {
    **MISSIONS.order_columns,
    "timesAchieved": _times,
    "currentCounterCount": _counter,
    "lastAchievedAt": progress_rows.c.last_achieved_at,
}
# `find_page` adds the filter `available`, which depends on the member and the moment of the request.
_FILTERS = {
    **MISSIONS.filters,
    "missionKey": equals(missions.c.mission_key),
    "active": equals(missions.c.active),
    "validFrom": is_null_or_at_or_after(missions.c.valid_to),
    "validTo": is_null_or_at_or_before(missions.c.valid_from),
    "minTimesAchieved": is_at_least(_times),
    "minCounterCount": is_at_least(_counter),
    "inProgress": is_true(and_(_counter > 0, _counter < _goal, _times < missions.c.max_repetitions)),
}

_BALANCE = (_times, _counter, progress_rows.c.last_counter_count_when_achieved, progress_rows.c.last_achieved_at)


def find_page(
    db: Connection,
    member: Member,
    query: Mapping[str, Any],
    audience_ids: Collection[int],
    timezones: Sequence[str],
    now: datetime,
) -> Paged[MemberMission]:
    """A page of missions with the member's balances; `audience_ids` are the member's audiences now.

    `timezones` are the time zones of all missions; the first one is also for missions without a time zone.
    """
    is_of_member = is_same(progress_rows, missions, "mission_id") & (progress_rows.c.member_id == member.member_id)
    filters = {**_FILTERS, "available": is_true(_available(member, audience_ids, now, timezones))}
    conditions = [missions.c.organization_id == member.organization_id, *conditions_of(filters, query)]
    width = len(MISSIONS.columns)

    def member_mission(*row: Any) -> MemberMission:
        return MemberMission(Mission(*row[:width]), MissionBalance(member.member_id, *row[width:]))

    table, page = missions.outerjoin(progress_rows, is_of_member), Page.of(query)
    sorting = sorting_of(page.order, _ORDER_COLUMNS, missions.c.mission_id)
    return paged_columns(db, member_mission, [*MISSIONS.columns, *_BALANCE], table, conditions, page, sorting)


def _available(member: Member, audience_ids: Collection[int], now: datetime, timezones: Sequence[str]) -> Any:
    """The condition that an event at `now` could count for the mission."""
    return and_(
        missions.c.active,
        or_(missions.c.valid_from.is_(None), missions.c.valid_from <= now),
        or_(missions.c.valid_to.is_(None), missions.c.valid_to >= now),
        or_(missions.c.audience_id.is_(None), missions.c.audience_id.in_(list(audience_ids))),
        _times < missions.c.max_repetitions,
        or_(missions.c.period_limit.is_(None), _achieved_this_period(member, now, timezones) < missions.c.period_limit),
    )


def _achieved_this_period(member: Member, now: datetime, timezones: Sequence[str]) -> Any:
    """How often the member achieved the mission in the current period, in the time zone of the mission."""
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
            is_same(trackings, member, "member_id"),
            trackings.c.mission_id == missions.c.mission_id,
            trackings.c.happened_at >= begins,
            trackings.c.happened_at < ends,
            trackings.c.achieved > 0,
            trackings.c.reversal_loyalty_event_id.is_(None),
            ~trackings.c.is_imported,
        )
        .correlate(missions)
        .scalar_subquery()
    )
