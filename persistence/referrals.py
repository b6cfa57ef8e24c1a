"""Referral programs, codes, logs and leaderboards, for requests."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.referrals import (
    LeaderboardRow,
    ProgramTotals,
    ReferralCode,
    ReferralCodeTaken,
    ReferralLog,
    ReferralProgram,
    ReferralProgramExists,
)
from persistence.connections import defer
from persistence.paging import Page, Paged
from persistence.records import Records
from persistence.rows import fields_of
from persistence.tables.referrals import referral_codes, referral_logs, referral_programs

REFERRAL_PROGRAMS = Records(
    referral_programs,
    ReferralProgram,
    conflicts={
        "uq_referral_programs_organization_id_code": (
            ReferralProgramExists,
            "A referral program with the code {code} already exists.",
        )
    },
)
REFERRAL_CODES = Records(referral_codes, ReferralCode, equal=("memberId",))
REFERRAL_LOGS = Records(referral_logs, ReferralLog)

LEADERBOARD_ORDER = {
    "memberId": "member_id",
    "name": "name",
    "email": "email",
    "invites": "invites",
    "acceptedInvites": "accepted_invites",
    "pointsAccumulated": "points_accumulated",
}

_CODE_COLUMNS = ", ".join(f"c.{name}" for name in fields_of(ReferralCode))

_TOTALS = """
SELECT p.referral_program_id,
    (SELECT count(DISTINCT l.referred_member_id) FROM referral_logs l WHERE l.organization_id = %(organization)s
        AND l.referral_program_id = p.referral_program_id AND l.reversal_loyalty_event_id IS NULL),
    c.codes, c.usages
FROM referral_programs p, LATERAL (
    SELECT count(*) AS codes, coalesce(sum(c.total_usages), 0)::bigint AS usages FROM referral_codes c
    WHERE c.organization_id = %(organization)s AND c.referral_program_id = p.referral_program_id) c
WHERE p.organization_id = %(organization)s AND p.referral_program_id = ANY(%(programs)s::bigint[])
"""

# Serializes requests that create codes, so that no two codes differ only in the case of their letters.
_SERIALIZE = "SELECT pg_advisory_xact_lock(hashtextextended('referral codes', %s))"

# Also the former codes of an erased member, until a job has replaced them in all records: it would replace them in the
# records of a new owner, too.
_TAKEN = """
WITH given AS MATERIALIZED (SELECT ARRAY(SELECT lower(x) FROM unnest(%s::text[]) x) AS codes)
SELECT c.code FROM referral_codes c, given WHERE c.organization_id = %s AND lower(c.code) = ANY(given.codes)
UNION
SELECT former.code FROM unfinished_erasings u, jsonb_each_text(u.referral_codes) AS former (id, code), given
WHERE u.organization_id = %s AND lower(former.code) = ANY(given.codes)
ORDER BY code
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

# The members with codes, the members who were enrolled with these codes (invites), and the logs (accepted invites). All
# joins are by indexes, since the planner assumes that a program is small.
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


def find_totals(db: Connection, organization_id: int, program_ids: Collection[int]) -> dict[int, ProgramTotals]:
    """The totals of these programs, by program id; one statement for all."""
    rows = db.exec_driver_sql(_TOTALS, {"organization": organization_id, "programs": list(program_ids)})
    return {program_id: ProgramTotals(*totals) for program_id, *totals in rows}


def add_codes(
    db: Connection, program: ReferralProgram, member_id: int, codes: Sequence[str], now: datetime
) -> list[ReferralCode]:
    """Add codes of a member, all of them or none; returns them in the order of `codes`.

    Raises ReferralCodeTaken if a code is taken, or differs from another code only in the case of its letters.
    """
    organization_id = program.organization_id
    counts_of_codes = Counter(code.lower() for code in codes)
    repeated_codes = [code for code, count in counts_of_codes.items() if count > 1]
    if repeated_codes:
        raise ReferralCodeTaken(f"codes contains {', '.join(repeated_codes)} twice, in letters of another case.")
    defer(db, _SERIALIZE, (organization_id,))
    parameters_of_taken = (list(codes), organization_id, organization_id)
    existing_codes = db.exec_driver_sql(_TAKEN, parameters_of_taken).scalars().all()
    if not existing_codes:
        parameters = (organization_id, program.referral_program_id, member_id, now, now, list(codes))
        new_codes = [ReferralCode(*row) for row in db.exec_driver_sql(_ADD_CODES, parameters)]
        if len(new_codes) == len(codes):
            new_codes_by_text = {referral_code.code: referral_code for referral_code in new_codes}
            return [new_codes_by_text[code] for code in codes]
        # Another request has added one of the codes.
        existing_codes = sorted(set(codes) - {referral_code.code for referral_code in new_codes})
    raise ReferralCodeTaken(f"These codes are taken: {', '.join(existing_codes)}.")


def find_log_page(db: Connection, code: ReferralCode, query: Mapping[str, Any]) -> Paged[ReferralLog]:
    """A page of a code's unreversed logs."""
    is_unreversed = referral_logs.c.reversal_loyalty_event_id.is_(None)
    return REFERRAL_LOGS.find_page(
        db, code.organization_id, query, is_unreversed, referral_code_id=code.referral_code_id
    )


def find_leaderboard(db: Connection, program: ReferralProgram, page: Page) -> Paged[LeaderboardRow]:
    """A page of the members with codes in the program, by default the member with the most points first."""
    name, _, direction = (page.order or "pointsAccumulated,desc").partition(",")
    sql_direction = "DESC" if direction == "desc" else "ASC"
    statement = (
        f"{_LEADERBOARD} ORDER BY {LEADERBOARD_ORDER[name]} {sql_direction} NULLS LAST, member_id {sql_direction}"
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
    return Paged(total_count=total, page=page.page, limit=page.limit, results=rows)
