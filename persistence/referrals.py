"""Referral programs, codes and logs: their lists, and what tracking reads and writes of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from domain.referrals import (
    LeaderboardRow,
    ProgramTotals,
    ReferralCode,
    ReferralCodeTaken,
    ReferralLog,
    ReferralProgram,
    ReferralProgramExists,
    ReferralShelf,
    Use,
)
from persistence.paging import Page, Paged, paged
from persistence.rows import add, add_all, as_json, change, columns_of, fields_of, record, records
from persistence.tables.referrals import referral_codes, referral_logs, referral_programs

PROGRAM_ORDER = {
    name: referral_programs.c[column]
    for name, column in {
        "referralProgramId": "referral_program_id",
        "code": "code",
        "name": "name",
        "active": "active",
        "eventType": "event_type",
        "validFromDate": "valid_from_date",
        "validToDate": "valid_to_date",
        "createdAt": "created_at",
        "updatedAt": "updated_at",
    }.items()
}
CODE_ORDER = {
    "referralCodeId": referral_codes.c.referral_code_id,
    "memberId": referral_codes.c.member_id,
    "code": referral_codes.c.code,
    "totalUsages": referral_codes.c.total_usages,
    "createdAt": referral_codes.c.created_at,
    "updatedAt": referral_codes.c.updated_at,
}
LOG_ORDER = {
    "referralLogId": referral_logs.c.referral_log_id,
    "referredMemberId": referral_logs.c.referred_member_id,
    "systemUniqueKey": referral_logs.c.system_unique_key,
    "createdAt": referral_logs.c.created_at,
    "updatedAt": referral_logs.c.updated_at,
}
LEADERBOARD_ORDER = {
    "memberId": "member_id",
    "name": "name",
    "email": "email",
    "invites": "invites",
    "acceptedInvites": "accepted_invites",
    "pointsAccumulated": "points_accumulated",
}

_PROGRAM_COLUMNS = columns_of(referral_programs, ReferralProgram)
_CODE_COLUMNS = ", ".join(f"c.{name}" for name in fields_of(ReferralCode))
_LOG_COLUMNS = ", ".join(f"l.{name}" for name in fields_of(ReferralLog))

_CODE_TAKEN = "uq_referral_programs_organization_id_code"

_TOTALS = """
SELECT p.referral_program_id,
    (SELECT count(DISTINCT l.referred_member_id) FROM referral_logs l WHERE l.organization_id = p.organization_id
        AND l.referral_program_id = p.referral_program_id AND l.reversal_loyalty_event_id IS NULL),
    c.codes, c.usages
FROM referral_programs p, LATERAL (
    SELECT count(*) AS codes, coalesce(sum(c.total_usages), 0)::bigint AS usages FROM referral_codes c
    WHERE c.organization_id = p.organization_id AND c.referral_program_id = p.referral_program_id) c
WHERE p.organization_id = %s AND p.referral_program_id = ANY(%s::bigint[])
"""

_TAKEN = "SELECT code FROM referral_codes WHERE organization_id = %s AND code = ANY(%s::text[]) ORDER BY code"

_ADD_CODES = f"""
INSERT INTO referral_codes AS c
    (organization_id, referral_program_id, member_id, code, total_usages, created_at, updated_at)
SELECT %s, %s, %s, x.code, 0, %s, %s FROM unnest(%s::text[]) WITH ORDINALITY AS x(code, place) ORDER BY x.place
ON CONFLICT DO NOTHING RETURNING {_CODE_COLUMNS}
"""

# Codes that the requests name or orders were created with, the codes that members were enrolled with, and from their
# owners on, as far as what the server reports of an owner may be a referral again.
_USABLE = """
WITH RECURSIVE usable AS (
    (SELECT c.referral_code_id, c.member_id, 1 AS distance FROM referral_codes c
     WHERE c.organization_id = %(organization)s AND c.code = ANY(%(codes)s::text[])
     UNION
     SELECT c.referral_code_id, c.member_id, 1 FROM purchase_orders o
     JOIN referral_codes c ON c.organization_id = o.organization_id AND c.code = o.referral_code
     WHERE o.organization_id = %(organization)s AND o.external_id = ANY(%(orders)s::text[])
     UNION
     SELECT c.referral_code_id, c.member_id, 1 FROM members m
     JOIN referral_codes c ON c.organization_id = m.organization_id AND c.code = m.referral_code
     WHERE m.organization_id = %(organization)s
       AND (m.loyalty_member_id = ANY(%(names)s::text[]) OR m.member_id = ANY(%(members)s::bigint[])))
    UNION
    SELECT c.referral_code_id, c.member_id, u.distance + 1 FROM usable u
    JOIN members m ON m.organization_id = %(organization)s AND m.member_id = u.member_id
    JOIN referral_codes c ON c.organization_id = %(organization)s AND c.code = m.referral_code
    WHERE u.distance < %(distance)s
)
SELECT DISTINCT referral_code_id, member_id FROM usable
"""

_CODES = f"""
SELECT {_CODE_COLUMNS}, (SELECT coalesce(sum(o.total_usages), 0)::bigint FROM referral_codes o
    WHERE o.organization_id = c.organization_id AND o.referral_program_id = c.referral_program_id
      AND o.member_id = c.member_id)
FROM referral_codes c WHERE c.organization_id = %s AND c.referral_code_id = ANY(%s::bigint[])
"""

_PAIRS = """
SELECT l.referral_code_id, l.referred_member_id, count(*) FROM referral_logs l
WHERE l.organization_id = %s AND l.referral_code_id = ANY(%s::bigint[]) AND l.referred_member_id = ANY(%s::bigint[])
  AND l.reversal_loyalty_event_id IS NULL
GROUP BY 1, 2
"""

_LOGS_OF_EVENTS = f"""
SELECT {_LOG_COLUMNS} FROM referral_logs l
WHERE l.organization_id = %s AND l.loyalty_event_id = ANY(%s::bigint[]) AND l.reversal_loyalty_event_id IS NULL
ORDER BY l.referral_log_id DESC
"""

_COUNT = """
UPDATE referral_codes c SET total_usages = c.total_usages + x.change, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(referral_code_id bigint, change bigint)
WHERE c.organization_id = %s AND c.referral_code_id = x.referral_code_id
"""

_REVERSE = """
UPDATE referral_logs l SET reversal_loyalty_event_id = x.reversal_loyalty_event_id, updated_at = %s
FROM jsonb_to_recordset(%s::jsonb) AS x(referral_log_id bigint, reversal_loyalty_event_id bigint)
WHERE l.organization_id = %s AND l.referral_log_id = x.referral_log_id
"""

_LEADERS = (
    "SELECT count(DISTINCT member_id) FROM referral_codes WHERE organization_id = %s AND referral_program_id = %s"
)

# One pass over all that names a referrer: codes, members enrolled with them, and logs. It joins by index alone, since
# the planner takes any program for a small one.
_LEADERBOARD = """
SELECT m.member_id, m.profile ->> 'name' AS name, m.profile ->> 'email' AS email, s.invites, s.accepted_invites,
    s.points_accumulated
FROM (
    SELECT member_id, count(DISTINCT invited) AS invites,
        count(DISTINCT invited) FILTER (WHERE counts) AS accepted_invites, sum(points) AS points_accumulated
    FROM (
        SELECT member_id, NULL::bigint AS invited, false AS counts, 0::numeric AS points FROM referral_codes
        WHERE organization_id = %(organization)s AND referral_program_id = %(program)s
        UNION ALL
        SELECT c.member_id, m.member_id, false, 0 FROM referral_codes c
        JOIN members m ON m.organization_id = c.organization_id AND m.referral_code = c.code
        WHERE c.organization_id = %(organization)s AND c.referral_program_id = %(program)s
          AND m.member_id <> c.member_id
        UNION ALL
        SELECT referrer_member_id, referred_member_id, true, referrer_points FROM referral_logs
        WHERE organization_id = %(organization)s AND referral_program_id = %(program)s
          AND reversal_loyalty_event_id IS NULL
    ) x GROUP BY member_id
) s
JOIN members m ON m.organization_id = %(organization)s AND m.member_id = s.member_id
"""


def find(db: Connection, organization_id: int, referral_program_id: int) -> ReferralProgram | None:
    """The program with this id."""
    row = db.execute(
        select(*_PROGRAM_COLUMNS).where(
            referral_programs.c.organization_id == organization_id,
            referral_programs.c.referral_program_id == referral_program_id,
        )
    ).one_or_none()
    return record(ReferralProgram, row)


def find_all(db: Connection, organization_id: int) -> list[ReferralProgram]:
    """Every program, active or not, by id."""
    rows = db.execute(
        select(*_PROGRAM_COLUMNS)
        .where(referral_programs.c.organization_id == organization_id)
        .order_by(referral_programs.c.referral_program_id)
    )
    return records(ReferralProgram, rows)


def find_page(db: Connection, organization_id: int, page: Page) -> Paged[ReferralProgram]:
    """A page of programs."""
    conditions = [referral_programs.c.organization_id == organization_id]
    return paged(
        db,
        ReferralProgram,
        referral_programs,
        conditions,
        page,
        referral_programs.c.referral_program_id,
        PROGRAM_ORDER,
    )


def add_program(db: Connection, organization_id: int, **values: Any) -> ReferralProgram:
    """Insert a program; raises ReferralProgramExists where another has its code."""
    given = {"organization_id": organization_id, **values}
    return add(db, referral_programs, ReferralProgram, given, {_CODE_TAKEN: _exists(values)})


def change_program(db: Connection, program: ReferralProgram, /, **values: Any) -> ReferralProgram:
    """Change a program; raises ReferralProgramExists where another has the new code."""
    address = {"organization_id": program.organization_id, "referral_program_id": program.referral_program_id}
    return change(db, referral_programs, ReferralProgram, address, values, {_CODE_TAKEN: _exists(values)})


def _exists(values: Mapping[str, Any]) -> ReferralProgramExists:
    return ReferralProgramExists(f"There is a referral program with the code {values['code']} already.")


def totals_of(db: Connection, organization_id: int, program_ids: Collection[int]) -> dict[int, ProgramTotals]:
    """What has come of each of these programs, by program id; one statement for all."""
    rows = db.exec_driver_sql(_TOTALS, (organization_id, list(program_ids)))
    return {row[0]: ProgramTotals(*row[1:]) for row in rows}


def find_code(db: Connection, organization_id: int, referral_code_id: int) -> ReferralCode | None:
    """The code with this id."""
    row = db.execute(
        select(*columns_of(referral_codes, ReferralCode)).where(
            referral_codes.c.organization_id == organization_id,
            referral_codes.c.referral_code_id == referral_code_id,
        )
    ).one_or_none()
    return record(ReferralCode, row)


def find_code_page(
    db: Connection, program: ReferralProgram, page: Page, member_id: int | None = None
) -> Paged[ReferralCode]:
    """A page of a program's codes: only those of one member, where asked."""
    table = referral_codes
    conditions = [
        table.c.organization_id == program.organization_id,
        table.c.referral_program_id == program.referral_program_id,
    ]
    if member_id is not None:
        conditions.append(table.c.member_id == member_id)
    return paged(db, ReferralCode, table, conditions, page, table.c.referral_code_id, CODE_ORDER)


def add_codes(
    db: Connection, program: ReferralProgram, member_id: int, codes: Sequence[str], now: datetime
) -> list[ReferralCode]:
    """Give a member codes, all of them or none; raises ReferralCodeTaken where any is taken."""
    organization_id = program.organization_id
    taken = db.exec_driver_sql(_TAKEN, (organization_id, list(codes))).scalars().all()
    if not taken:
        given = (organization_id, program.referral_program_id, member_id, now, now, list(codes))
        added = records(ReferralCode, db.exec_driver_sql(_ADD_CODES, given))
        if len(added) == len(codes):
            place = {code: number for number, code in enumerate(codes)}
            return sorted(added, key=lambda each: place[each.code])
        # Somebody was quicker by a moment.
        taken = sorted(set(codes) - {each.code for each in added})
    raise ReferralCodeTaken(f"Taken already: {', '.join(taken)}.")


def find_log_page(db: Connection, code: ReferralCode, page: Page) -> Paged[ReferralLog]:
    """A page of a code's logs that stand."""
    table = referral_logs
    conditions = [
        table.c.organization_id == code.organization_id,
        table.c.referral_code_id == code.referral_code_id,
        table.c.reversal_loyalty_event_id.is_(None),
    ]
    return paged(db, ReferralLog, table, conditions, page, table.c.referral_log_id, LOG_ORDER)


def find_leaderboard(db: Connection, program: ReferralProgram, page: Page) -> Paged[LeaderboardRow]:
    """A page of the members who have codes in the program, the most rewarded first unless ordered otherwise."""
    name, _, direction = (page.order or "pointsAccumulated,desc").partition(",")
    way = "DESC" if direction == "desc" else "ASC"
    statement = (
        f"{_LEADERBOARD} ORDER BY {LEADERBOARD_ORDER[name]} {way} NULLS LAST, member_id {way}"
        " LIMIT %(limit)s OFFSET %(offset)s"
    )
    values = {
        "organization": program.organization_id,
        "program": program.referral_program_id,
        "limit": page.limit,
        "offset": page.page * page.limit,
    }
    rows = [LeaderboardRow(*row) for row in db.exec_driver_sql(statement, values)]
    address = (program.organization_id, program.referral_program_id)
    total = db.exec_driver_sql(_LEADERS, address).scalar_one()
    return Paged(total, page.page, page.limit, rows)


def find_usable(
    db: Connection,
    organization_id: int,
    codes: Collection[str],
    orders: Collection[str],
    loyalty_member_ids: Collection[str],
    member_ids: Collection[int],
    distance: int,
) -> dict[int, int]:
    """The ids of the codes that may be used, each with the member who has it; one statement.

    They are those that read as `codes`, those of `orders` (external ids) and those that the members were enrolled with;
    with a `distance` above 1 also those that owners were enrolled with, and so on.
    """
    values = {
        "organization": organization_id,
        "codes": list(codes),
        "orders": list(orders),
        "names": list(loyalty_member_ids),
        "members": list(member_ids),
        "distance": distance,
    }
    return {row[0]: row[1] for row in db.exec_driver_sql(_USABLE, values)}


def find_logs_of_events(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[ReferralLog]:
    """The logs of these events that stand, the newest first."""
    return records(ReferralLog, db.exec_driver_sql(_LOGS_OF_EVENTS, (organization_id, list(event_ids))))


def open_shelf(
    db: Connection, organization_id: int, code_ids: Collection[int], member_ids: Collection[int]
) -> ReferralShelf:
    """The codes with these ids as they stand, and what counts for them and these referred members; two statements.

    The owners must be locked.
    """
    if not code_ids:
        return ReferralShelf({}, {}, {})
    codes, of_referrers = {}, {}
    for row in db.exec_driver_sql(_CODES, (organization_id, list(code_ids))):
        code = ReferralCode(*row[:-1])
        codes[code.referral_code_id] = code
        of_referrers[code.referral_program_id, code.member_id] = row[-1]
    rows = db.exec_driver_sql(_PAIRS, (organization_id, list(code_ids), list(member_ids)))
    return ReferralShelf(codes, of_referrers, {(row[0], row[1]): row[2] for row in rows})


def add_logs(db: Connection, uses: Iterable[Use], now: datetime) -> None:
    """Store uses of codes."""
    rows = [
        {
            "organization_id": use.code.organization_id,
            "referral_code_id": use.code.referral_code_id,
            "referral_program_id": use.code.referral_program_id,
            "referrer_member_id": use.code.member_id,
            "referred_member_id": use.referred_member_id,
            "loyalty_event_id": use.loyalty_event_id,
            "system_unique_key": use.system_unique_key,
            "custom_attributes": use.custom_attributes,
            "referrer_points": use.referrer_points,
            "created_at": now,
            "updated_at": now,
        }
        for use in uses
    ]
    if rows:
        add_all(db, referral_logs, tuple(rows[0]), rows)


def reverse_logs(db: Connection, organization_id: int, reversals: Mapping[int, int], now: datetime) -> None:
    """Let logs count no more, by log id, each because of the event that undid it."""
    if reversals:
        rows = [{"referral_log_id": log, "reversal_loyalty_event_id": event} for log, event in reversals.items()]
        db.exec_driver_sql(_REVERSE, (now, as_json(rows), organization_id))


def count_usages(db: Connection, organization_id: int, changes: Mapping[int, int], now: datetime) -> None:
    """Add to the usages of codes, by code id."""
    rows = [{"referral_code_id": code_id, "change": change} for code_id, change in changes.items() if change]
    if rows:
        db.exec_driver_sql(_COUNT, (now, as_json(rows), organization_id))
