"""Badges, the balances that members have of them, and the trackings of every change of a balance."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select

from domain.badges import Badge, BadgeBalance, BadgeChanges, BadgeTracking, MemberBadge, Place
from domain.members import Member
from persistence.connections import defer, fetch_rows
from persistence.filters import conditions_of, has_all, is_any_of, is_same
from persistence.paging import Page, Paged, paged_columns, sorting_of
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import add_all, as_json, as_rows, change_all, fields_of, update_by_id, upsert
from persistence.tables.badges import badge_trackings, badges, member_badges

BADGES = Records(badges, Badge, equal=("active",), filters={"tags": has_all(badges.c.tags)})
TRACKINGS = Records(
    badge_trackings,
    BadgeTracking,
    source=badge_trackings.join(badges, is_same(badges, badge_trackings, "badge_id")),
    columns={"badge_key": badges.c.badge_key},
)

_BALANCE = func.coalesce(member_badges.c.assigned_balance, 0)
_TRACKING_NAMES = tuple(name for name in fields_of(BadgeTracking) if name != "badge_key")

_BALANCES = Prepared("""
SELECT member_id, badge_id, assigned_balance FROM member_badges
WHERE organization_id = %s AND member_id = ANY(%s::bigint[]) AND assigned_balance > 0
""")

_STORE_BALANCES = upsert(member_badges)
_CHANGEABLE = ("badge_tracking_id", "reversal_badge_tracking_id", "missing")
_CHANGE_TRACKINGS = update_by_id(badge_trackings, *_CHANGEABLE)


def find_page_of_member(db: Connection, member: Member, query: Mapping[str, Any]) -> Paged[MemberBadge]:
    """A page of the badges that the member holds; with `badgeKeys` in the query, of these badges, held or not."""
    source = badges.outerjoin(
        member_badges,
        is_same(member_badges, badges, "badge_id") & (member_badges.c.member_id == member.member_id),
    )
    page, filters = Page.of(query), {**BADGES.filters, "badgeKeys": is_any_of(badges.c.badge_key)}
    conditions = [badges.c.organization_id == member.organization_id, *conditions_of(filters, query)]
    if "badgeKeys" not in query:
        conditions.append(member_badges.c.assigned_balance > 0)
    sorting = sorting_of(page.order, {**BADGES.order_columns, "assignedBalance": _BALANCE}, badges.c.badge_id)
    return paged_columns(db, MemberBadge, [*BADGES.columns, _BALANCE], source, conditions, page, sorting)


def find_balance(db: Connection, member: Member, badge: Badge) -> BadgeBalance:
    """The amount of the badge that the member holds."""
    balance = db.execute(
        select(member_badges.c.assigned_balance).where(
            is_same(member_badges, member, "member_id"), member_badges.c.badge_id == badge.badge_id
        )
    ).scalar()
    return BadgeBalance(badge.badge_id, badge.badge_key, member.member_id, member.loyalty_member_id, balance or 0)


def find_balances(db: Connection, organization_id: int, member_ids: Collection[int]) -> dict[Place, int]:
    """The members' balances of badges, by member id and badge id; balances of zero are left out."""
    rows = fetch_rows(db, _BALANCES, (organization_id, list(member_ids)))
    return {(member_id, badge_id): balance for member_id, badge_id, balance in rows}


def find_for_reversal(
    db: Connection,
    organization_id: int,
    member_ids: Collection[int],
    *,
    event_ids: Collection[int] = (),
    badge_tracking_ids: Collection[int] = (),
) -> list[BadgeTracking]:
    """The trackings of these events, or with these ids, and all others that their reversal may change.

    The others are the members' earlier reversals with a missing amount, which the reversal may repay.
    """
    columns = badge_trackings.c
    conditions = [and_(columns.missing != 0, columns.member_id.in_(list(member_ids)))]
    if event_ids:
        conditions.append(columns.loyalty_event_id.in_(list(event_ids)))
    if badge_tracking_ids:
        conditions.append(columns.badge_tracking_id.in_(list(badge_tracking_ids)))
    return TRACKINGS.find_where(db, organization_id, or_(*conditions))


def store(db: Connection, organization_id: int, changes: BadgeChanges, at: datetime) -> None:
    """Store the changes of a unit of work, which has locked the members, with at most three deferred statements."""
    if changes.balances:
        balance_rows = [
            {
                "organization_id": organization_id,
                "member_id": member_id,
                "badge_id": badge_id,
                "assigned_balance": balance,
                "updated_at": at,
            }
            for (member_id, badge_id), balance in changes.balances.items()
        ]
        defer(db, _STORE_BALANCES, (as_json(balance_rows),))
    add_all(db, badge_trackings, as_rows(changes.trackings, _TRACKING_NAMES))
    change_all(db, _CHANGE_TRACKINGS, organization_id, as_rows(changes.changed_trackings, _CHANGEABLE))
