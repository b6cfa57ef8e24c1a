"""Referral programs, codes, logs and leaderboards, for requests."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
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
)
from persistence.connections import defer, query
from persistence.paging import Page, Paged, paged
from persistence.rows import add, change, columns_of, fields_of, record, records, with_external_key
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

# Codes are created one request after the other, so that no two are alike but for case.
_TAKE_TURN = "SELECT pg_advisory_xact_lock(hashtextextended('referral codes', %s))"

_TAKEN = """
SELECT code FROM referral_codes
WHERE organization_id = %s AND lower(code) = ANY(SELECT lower(x) FROM unnest(%s::text[]) x) ORDER BY code
"""

_ADD_CODES = f"""
INSERT INTO referral_codes AS c
    (organization_id, referral_program_id, member_id, code, total_usages, created_at, updated_at)
SELECT %s, %s, %s, x.code, 0, %s, %s FROM unnest(%s::text[]) WITH ORDINALITY AS x(code, place) ORDER BY x.place
ON CONFLICT DO NOTHING RETURNING {_CODE_COLUMNS}
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


def find_page(
    db: Connection, organization_id: int, page: Page, *, external_key: str | None = None
) -> Paged[ReferralProgram]:
    """A page of programs."""
    conditions = [
        referral_programs.c.organization_id == organization_id,
        *with_external_key(referral_programs, external_key),
    ]
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
    return ReferralProgramExists(f"A referral program with the code {values['code']} already exists.")


def totals_of(db: Connection, organization_id: int, program_ids: Collection[int]) -> dict[int, ProgramTotals]:
    """The totals of each of these programs, by program id; one statement for all."""
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


def find_known_codes(db: Connection, organization_id: int, codes: Collection[str]) -> set[str]:
    """The texts that are codes of members."""
    known = "SELECT code FROM referral_codes WHERE organization_id = %s AND code = ANY(%s)"
    return {code for (code,) in query(db, known, (organization_id, list(codes)))}


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
    """Give a member codes, all of them or none.

    Raises ReferralCodeTaken where one is taken, or differs from another one in the case of its letters only.
    """
    organization_id = program.organization_id
    alike = [code for code, count in Counter(code.lower() for code in codes).items() if count > 1]
    if alike:
        raise ReferralCodeTaken(f"codes holds {', '.join(alike)} twice, in letters of another case.")
    defer(db, _TAKE_TURN, (organization_id,))
    taken = db.exec_driver_sql(_TAKEN, (organization_id, list(codes))).scalars().all()
    if not taken:
        given = (organization_id, program.referral_program_id, member_id, now, now, list(codes))
        added = records(ReferralCode, db.exec_driver_sql(_ADD_CODES, given))
        if len(added) == len(codes):
            place = {code: number for number, code in enumerate(codes)}
            return sorted(added, key=lambda referral_code: place[referral_code.code])
        # Another request was faster.
        taken = sorted(set(codes) - {referral_code.code for referral_code in added})
    raise ReferralCodeTaken(f"These codes are taken: {', '.join(taken)}.")


def find_log_page(db: Connection, code: ReferralCode, page: Page) -> Paged[ReferralLog]:
    """A page of a code's unreversed logs."""
    table = referral_logs
    conditions = [
        table.c.organization_id == code.organization_id,
        table.c.referral_code_id == code.referral_code_id,
        table.c.reversal_loyalty_event_id.is_(None),
    ]
    return paged(db, ReferralLog, table, conditions, page, table.c.referral_log_id, LOG_ORDER)


def find_leaderboard(db: Connection, program: ReferralProgram, page: Page) -> Paged[LeaderboardRow]:
    """A page of the members with codes in the program, the most rewarded first unless ordered otherwise."""
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
