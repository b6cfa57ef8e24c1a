"""Badges, what members hold of them, and the trackings of every change."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, cast, func, or_, select

from domain.badges import Badge, BadgeBalance, BadgeChanges, BadgeTracking, MemberBadge, Place
from domain.members import Member
from persistence.connections import Prepared, defer, query
from persistence.paging import Page, Paged, paged, paged_columns, sorting_of
from persistence.rows import (
    add,
    add_all,
    as_json,
    change,
    columns_of,
    fields_of,
    given,
    record,
    records,
    with_external_key,
)
from persistence.tables.badges import badge_trackings, badges, member_badges

ORDER_COLUMNS = {
    "badgeId": badges.c.badge_id,
    "name": badges.c.name,
    "active": badges.c.active,
    "maxAmount": badges.c.max_amount,
    "createdAt": badges.c.created_at,
    "updatedAt": badges.c.updated_at,
}

_COLUMNS = columns_of(badges, Badge)
_HELD = func.coalesce(member_badges.c.assigned_balance, 0)
_TRACKING_COLUMNS = tuple(
    badges.c.badge_key if name == "badge_key" else badge_trackings.c[name] for name in fields_of(BadgeTracking)
)
_TRACKING_NAMES = tuple(name for name in fields_of(BadgeTracking) if name != "badge_key")

_BALANCES = Prepared("""
SELECT member_id, badge_id, assigned_balance FROM member_badges
WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND assigned_balance > 0
""")

_STORE_BALANCES = """
INSERT INTO member_badges (organization_id, member_id, badge_id, assigned_balance, updated_at)
SELECT %s, x.member_id, x.badge_id, x.assigned_balance, %s
FROM jsonb_to_recordset(%s::jsonb) AS x(member_id bigint, badge_id bigint, assigned_balance bigint)
ON CONFLICT (organization_id, member_id, badge_id)
    DO UPDATE SET assigned_balance = excluded.assigned_balance, updated_at = excluded.updated_at
"""

_CHANGE_TRACKINGS = """
UPDATE badge_trackings t SET reversal_badge_tracking_id = x.reversal_id, missing = x.missing
FROM (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(badge_tracking_id bigint, reversal_id bigint, missing bigint)
    LIMIT %s
) AS x
WHERE t.organization_id = %s AND t.badge_tracking_id = x.badge_tracking_id
"""


def find(db: Connection, organization_id: int, badge_id: int) -> Badge | None:
    """The badge with this id."""
    return _find(db, organization_id, badges.c.badge_id == badge_id)


def find_by_key(db: Connection, organization_id: int, badge_key: str) -> Badge | None:
    """The badge with this key."""
    return _find(db, organization_id, badges.c.badge_key == badge_key)


def _find(db: Connection, organization_id: int, condition: Any) -> Badge | None:
    statement = select(*_COLUMNS).where(badges.c.organization_id == organization_id, condition)
    return record(Badge, db.execute(statement).one_or_none())


def find_all_by_key(db: Connection, organization_id: int, badge_keys: Collection[str]) -> list[Badge]:
    """The existing badges among these, in no certain order."""
    is_listed = badges.c.badge_key.in_(list(badge_keys))
    return records(Badge, db.execute(select(*_COLUMNS).where(badges.c.organization_id == organization_id, is_listed)))


def find_all(db: Connection, organization_id: int) -> list[Badge]:
    """Every badge of the organization, active or not, by id."""
    statement = select(*_COLUMNS).where(badges.c.organization_id == organization_id).order_by(badges.c.badge_id)
    return records(Badge, db.execute(statement))


def find_page(
    db: Connection,
    organization_id: int,
    page: Page,
    *,
    active: bool | None = None,
    tags: Collection[str] = (),
    external_key: str | None = None,
) -> Paged[Badge]:
    """A page of badges; all of `tags` must be there."""
    own = badges.c.organization_id == organization_id
    conditions = [own, *_restrictions(active, tags), *with_external_key(badges, external_key)]
    return paged(db, Badge, badges, conditions, page, badges.c.badge_id, ORDER_COLUMNS)


def find_page_of_member(
    db: Connection,
    member: Member,
    page: Page,
    *,
    active: bool | None = None,
    tags: Collection[str] = (),
    badge_keys: Collection[str] = (),
) -> Paged[MemberBadge]:
    """A page of the badges that the member holds, or of those with `badge_keys`, held or not."""
    held = badges.outerjoin(
        member_badges,
        and_(
            member_badges.c.organization_id == badges.c.organization_id,
            member_badges.c.badge_id == badges.c.badge_id,
            member_badges.c.member_id == member.member_id,
        ),
    )
    shown = badges.c.badge_key.in_(list(badge_keys)) if badge_keys else member_badges.c.assigned_balance > 0
    conditions = [badges.c.organization_id == member.organization_id, shown, *_restrictions(active, tags)]
    sorting = sorting_of(page.order, {**ORDER_COLUMNS, "assignedBalance": _HELD}, badges.c.badge_id)
    return paged_columns(db, MemberBadge, [*_COLUMNS, _HELD], held, conditions, page, sorting)


def _restrictions(active: bool | None, tags: Collection[str]) -> list[Any]:
    restrictions: list[Any] = [] if active is None else [badges.c.active == active]
    if tags:
        restrictions.append(badges.c.tags.op("@>")(cast(list(tags), badges.c.tags.type)))
    return restrictions


def add_badge(db: Connection, organization_id: int, **values: Any) -> Badge:
    """Insert a badge."""
    return add(db, badges, Badge, {"organization_id": organization_id, **values})


def change_badge(db: Connection, badge: Badge, /, **values: Any) -> Badge:
    """Change a badge."""
    address = {"organization_id": badge.organization_id, "badge_id": badge.badge_id}
    return change(db, badges, Badge, address, values)


def find_balance(db: Connection, member: Member, badge: Badge) -> BadgeBalance:
    """The amount of the badge that the member holds."""
    held = db.execute(
        select(member_badges.c.assigned_balance).where(
            member_badges.c.organization_id == member.organization_id,
            member_badges.c.member_id == member.member_id,
            member_badges.c.badge_id == badge.badge_id,
        )
    ).scalar()
    return BadgeBalance(badge.badge_id, badge.badge_key, member.member_id, member.loyalty_member_id, held or 0)


def balances_of(db: Connection, organization_id: int, member_ids: Collection[int]) -> dict[Place, int]:
    """The members' balances of badges; one statement for all, and zero balances are left out."""
    rows = query(db, _BALANCES, (organization_id, list(member_ids)))
    return {(member_id, badge_id): held for member_id, badge_id, held in rows}


def find_tracking(db: Connection, organization_id: int, badge_tracking_id: int) -> BadgeTracking | None:
    """The tracking with this id."""
    return next(iter(_trackings(db, organization_id, badge_trackings.c.badge_tracking_id == badge_tracking_id)), None)


def find_tracking_by_key(db: Connection, organization_id: int, badge_tracking_key: str) -> BadgeTracking | None:
    """The tracking with this key."""
    return next(iter(_trackings(db, organization_id, badge_trackings.c.badge_tracking_key == badge_tracking_key)), None)


def find_tracked(db: Connection, organization_id: int, system_unique_keys: Collection[str]) -> list[BadgeTracking]:
    """The trackings made under these keys."""
    return _trackings(db, organization_id, badge_trackings.c.system_unique_key.in_(list(system_unique_keys)))


def find_revertible(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    *,
    event_ids: Collection[int] = (),
    badge_tracking_ids: Collection[int] = (),
) -> list[BadgeTracking]:
    """The trackings of events or with these ids, and the reversals that are still missing something of the members."""
    columns = badge_trackings.c
    conditions = [and_(columns.missing != 0, columns.member_id.in_(list(member_ids)))]
    if event_ids:
        conditions.append(columns.loyalty_event_id.in_(list(event_ids)))
    if badge_tracking_ids:
        conditions.append(columns.badge_tracking_id.in_(list(badge_tracking_ids)))
    return _trackings(db, organization_id, or_(*conditions))


def _trackings(db: Connection, organization_id: int, condition: Any) -> list[BadgeTracking]:
    joined = badge_trackings.join(
        badges,
        and_(
            badges.c.organization_id == badge_trackings.c.organization_id,
            badges.c.badge_id == badge_trackings.c.badge_id,
        ),
    )
    statement = select(*_TRACKING_COLUMNS).select_from(joined)
    rows = db.execute(statement.where(badge_trackings.c.organization_id == organization_id, condition))
    return records(BadgeTracking, rows)


def store(db: Connection, organization_id: int, changes: BadgeChanges, at: datetime) -> None:
    """Store the changes of a unit of work on locked members: at most three statements."""
    if changes.balances:
        held = [
            {"member_id": member_id, "badge_id": badge_id, "assigned_balance": balance}
            for (member_id, badge_id), balance in changes.balances.items()
        ]
        defer(db, _STORE_BALANCES, (organization_id, at, as_json(held)))
    add_all(db, badge_trackings, _TRACKING_NAMES, [_row(tracking) for tracking in changes.trackings])
    if changes.changed:
        changed = [
            {
                "badge_tracking_id": tracking.badge_tracking_id,
                "reversal_id": tracking.reversal_badge_tracking_id,
                "missing": tracking.missing,
            }
            for tracking in changes.changed
        ]
        defer(db, _CHANGE_TRACKINGS, (*given(changed), organization_id))


def _row(tracking: BadgeTracking) -> Mapping[str, Any]:
    row = {name: getattr(tracking, name) for name in _TRACKING_NAMES}
    return {**row, "request_digest": "\\x" + tracking.request_digest.hex()}
