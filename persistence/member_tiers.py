"""The tiers that members hold or held, and the trackings of their changes.

Deferred statements are executed with the next query, at the latest with the COMMIT.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, func, select

from domain.tier_history import TierPeriod
from domain.tier_log import TierTracking
from domain.tiers import HeldTier, MemberProgram, MemberTier, TierFloor
from persistence.connections import defer, fetch_rows
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import (
    add_all,
    as_json,
    as_rows,
    change_all,
    fields_of,
    recordset_of,
    update_by_id,
)
from persistence.tables.members import member_tier_trackings, member_tiers, members

TRACKINGS = Records(member_tier_trackings, TierTracking)

# When a tier `t` of a member ends: at the latest when the tier `l` was made inactive.
EXPIRES_AT = "CASE WHEN l.active THEN t.expires_at ELSE least(t.expires_at, l.updated_at) END"
FLOOR_COLUMNS = "t.floor_tier_id, t.floor_expires_at"


_OF_MEMBERS = Prepared(f"""
SELECT t.organization_id, t.member_id, t.loyalty_program_id, t.loyalty_tier_id, t.is_manual, {EXPIRES_AT},
    t.created_at, {FLOOR_COLUMNS}
FROM member_tiers t JOIN loyalty_tiers l USING (organization_id, loyalty_tier_id)
WHERE t.organization_id = %s AND t.member_id = ANY(%s::bigint[])
ORDER BY t.loyalty_program_id
""")

# The condition that a member's tier continues, with its old beginning: it is the same tier, and neither the old nor the
# new one is fixed, regardless of points. Any other tier ends and becomes a past tier, for late events.
_STAYS = (
    "{0}.loyalty_tier_id = {1}.loyalty_tier_id AND NOT ({0}.is_manual AND {0}.floor_tier_id IS NULL)"
    " AND NOT ({1}.is_manual AND {1}.floor_tier_id IS NULL)"
)

_PAST_COLUMNS = "organization_id, member_id, loyalty_program_id, loyalty_tier_id, began_at, expires_at, ended_at"

_MOVE = Prepared(f"""
WITH x AS (
    SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(member_id bigint, loyalty_program_id bigint,
        loyalty_tier_id bigint, is_manual boolean, expires_at timestamptz, floor_tier_id bigint,
        floor_expires_at timestamptz)
), ended AS (
    INSERT INTO past_member_tiers ({_PAST_COLUMNS})
    SELECT t.organization_id, t.member_id, t.loyalty_program_id, t.loyalty_tier_id, t.created_at, t.expires_at, %s
    FROM member_tiers t JOIN x USING (member_id, loyalty_program_id)
    WHERE t.organization_id = %s AND t.created_at < %s AND NOT ({_STAYS.format("t", "x")})
)
INSERT INTO member_tiers (organization_id, member_id, loyalty_program_id, loyalty_tier_id, is_manual, expires_at,
    floor_tier_id, floor_expires_at, created_at)
SELECT %s, x.member_id, x.loyalty_program_id, x.loyalty_tier_id, x.is_manual, x.expires_at, x.floor_tier_id,
    x.floor_expires_at, %s FROM x
ORDER BY x.member_id, x.loyalty_program_id
ON CONFLICT (organization_id, member_id, loyalty_program_id) DO UPDATE SET
    loyalty_tier_id = excluded.loyalty_tier_id, is_manual = excluded.is_manual, expires_at = excluded.expires_at,
    floor_tier_id = excluded.floor_tier_id, floor_expires_at = excluded.floor_expires_at,
    created_at = CASE
        WHEN {_STAYS.format("member_tiers", "excluded")} THEN member_tiers.created_at
        ELSE excluded.created_at END
""")

_LEAVE = f"""
WITH ended AS (
    DELETE FROM member_tiers t
    USING (
        SELECT * FROM jsonb_to_recordset(%s::jsonb) AS g(member_id bigint, loyalty_program_id bigint) LIMIT %s
    ) AS x
    WHERE t.organization_id = %s AND t.member_id = x.member_id AND t.loyalty_program_id = x.loyalty_program_id
    RETURNING t.*
)
INSERT INTO past_member_tiers ({_PAST_COLUMNS})
SELECT organization_id, member_id, loyalty_program_id, loyalty_tier_id, created_at, expires_at, %s FROM ended
WHERE created_at < %s
"""

_PERIODS = Prepared(f"""
SELECT t.member_id, t.loyalty_program_id, t.loyalty_tier_id, t.is_manual, {EXPIRES_AT}, {FLOOR_COLUMNS}, t.created_at,
    NULL
FROM member_tiers t JOIN loyalty_tiers l USING (organization_id, loyalty_tier_id)
WHERE t.organization_id = %s AND t.member_id = ANY(%s::bigint[])
UNION ALL
SELECT member_id, loyalty_program_id, loyalty_tier_id, false, expires_at, NULL, NULL, began_at, ended_at
FROM past_member_tiers WHERE organization_id = %s AND member_id = ANY(%s::bigint[])
""")

# The trackings of the events, and all later trackings of the same members and programs.
_TRACKINGS_SINCE = """
SELECT {columns} FROM member_tier_trackings t
WHERE t.organization_id = %s AND t.reversal_loyalty_event_id IS NULL AND EXISTS (
    SELECT FROM member_tier_trackings e
    WHERE e.organization_id = %s AND e.loyalty_event_id = ANY(%s::bigint[])
        AND e.member_id = t.member_id AND e.loyalty_program_id = t.loyalty_program_id
        AND e.member_tier_tracking_id <= t.member_tier_tracking_id)
"""

_CHANGEABLE = (
    "member_tier_tracking_id",
    "previous_tier_id",
    "previous_is_manual",
    "previous_expires_at",
    "previous_floor_tier_id",
    "previous_floor_expires_at",
    "reversal_loyalty_event_id",
)
_CHANGE_TRACKINGS = update_by_id(member_tier_trackings, *_CHANGEABLE)

_LAPSED = """
SELECT m.wallet_id FROM members m
WHERE m.organization_id = %s AND m.wallet_id > %s AND EXISTS (
    SELECT FROM member_tiers t JOIN loyalty_tiers l USING (organization_id, loyalty_tier_id)
    JOIN loyalty_programs p ON p.organization_id = t.organization_id AND p.loyalty_program_id = t.loyalty_program_id
    WHERE t.organization_id = %s AND t.member_id = m.member_id
        AND (t.expires_at <= %s OR p.active AND NOT l.active))
ORDER BY m.wallet_id LIMIT %s
"""


def find_of_members(db: Connection, organization_id: int, member_ids: Collection[int]) -> dict[int, list[MemberTier]]:
    """The tiers of each member, by member id, ordered by program; one statement for all members."""
    tiers: dict[int, list[MemberTier]] = {member_id: [] for member_id in member_ids}
    if tiers:
        for row in fetch_rows(db, _OF_MEMBERS, (organization_id, list(tiers))):
            tier = MemberTier(*row)
            tiers[tier.member_id].append(tier)
    return tiers


def add(db: Connection, organization_id: int, tiers: Mapping[MemberProgram, HeldTier], at: datetime) -> None:
    """Insert tiers of new members, who have none in these programs yet, with one statement."""
    common_values = {"organization_id": organization_id, "created_at": at}
    rows = [_row(member_program, tier) | common_values for member_program, tier in tiers.items()]
    add_all(db, member_tiers, rows)


def move(
    db: Connection, organization_id: int, new_tiers: Mapping[MemberProgram, HeldTier | None], at: datetime
) -> None:
    """Store the new tiers of members, and the tiers that end as past tiers; None removes the tier of the program.

    At most two deferred statements.
    """
    new_rows, rows_to_remove = [], []
    for (member_id, program_id), tier_after in new_tiers.items():
        if tier_after is None:
            rows_to_remove.append({"member_id": member_id, "loyalty_program_id": program_id})
        else:
            new_rows.append(_row((member_id, program_id), tier_after))
    if new_rows:
        defer(db, _MOVE, (as_json(new_rows), at, organization_id, at, organization_id, at))
    if rows_to_remove:
        defer(db, _LEAVE, (*recordset_of(rows_to_remove), organization_id, at, at))


def _row(member_program: MemberProgram, tier: HeldTier) -> dict[str, Any]:
    """The columns of a member's tier."""
    member_id, program_id = member_program
    return {
        "member_id": member_id,
        "loyalty_program_id": program_id,
        "loyalty_tier_id": tier.loyalty_tier_id,
        "is_manual": tier.is_manual,
        "expires_at": tier.expires_at,
        "floor_tier_id": None if tier.floor is None else tier.floor.loyalty_tier_id,
        "floor_expires_at": None if tier.floor is None else tier.floor.expires_at,
    }


def find_periods(db: Connection, organization_id: int, member_ids: Collection[int]) -> list[TierPeriod]:
    """The current and the past tiers of members, with their times; one statement for all members."""
    values = (organization_id, list(member_ids))
    periods = []
    for row in fetch_rows(db, _PERIODS, (*values, *values)):
        member_id, program_id, tier_id, is_manual, expires_at, floor_id, floor_ends, began_at, ended_at = row
        floor = None if floor_id is None else TierFloor(floor_id, floor_ends)
        tier = HeldTier(tier_id, is_manual, expires_at, floor)
        periods.append(TierPeriod(member_id, program_id, tier, began_at, ended_at))
    return periods


def find_trackings_since(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[TierTracking]:
    """The unreversed trackings of the events, and all later unreversed ones of the same members and programs."""
    columns = ", ".join(f"t.{name}" for name in fields_of(TierTracking))
    rows = fetch_rows(db, _TRACKINGS_SINCE.format(columns=columns), (organization_id, organization_id, list(event_ids)))
    return [TierTracking(*row) for row in rows]


def store_trackings(
    db: Connection,
    organization_id: int,
    new_trackings: Sequence[TierTracking],
    changed_trackings: Sequence[TierTracking],
) -> None:
    """Insert and change trackings; at most two deferred statements."""
    add_all(db, member_tier_trackings, as_rows(new_trackings, fields_of(TierTracking)))
    change_all(db, _CHANGE_TRACKINGS, organization_id, as_rows(changed_trackings, _CHANGEABLE))


def find_next_wallets_with_lapsed_tier(
    db: Connection, organization_id: int, after: int, at: datetime, limit: int
) -> list[int]:
    """The next wallets, by id, of members with a tier that has expired by `at`, or that is not active any more."""
    return list(db.exec_driver_sql(_LAPSED, (organization_id, after, organization_id, at, limit)).scalars())


def find_first_lapse(db: Connection, organization_id: int, after: datetime, until: datetime) -> datetime | None:
    """The first moment after `after`, up to `until`, at which a tier of a member ends; None if none ends then."""
    ends = member_tiers.c.expires_at
    statement = select(func.min(ends)).where(
        member_tiers.c.organization_id == organization_id, ends > after, ends <= until
    )
    return db.execute(statement).scalar()


def find_next_wallets(db: Connection, organization_id: int, after: int, limit: int) -> list[int]:
    """The next wallets of members after an id, ordered by id."""
    statement = (
        select(members.c.wallet_id)
        .where(members.c.organization_id == organization_id, members.c.wallet_id > after)
        .order_by(members.c.wallet_id)
        .limit(limit)
    )
    return list(db.execute(statement).scalars())
