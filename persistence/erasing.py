"""Erasing a member: personal data is removed from every table, found by indexes; amounts, counts and links stay.

Keys of requests (`system_unique_key`) stay, so that a repeated request is refused and never done again; the digests of
the requests' content are removed. Other members' records keep the data about their own members.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, text

from domain.members import Member
from persistence.erased_rows import ErasingProgress, emptying_assignments, erase_page
from persistence.rows import as_json, columns_of
from persistence.tables.coupons import coupon_locks
from persistence.tables.ledger import ledger_transactions
from persistence.tables.members import member_tier_trackings, members
from persistence.tables.missions import mission_trackings
from persistence.tables.offline_allowances import offline_allowances
from persistence.tables.points_payments import points_payments
from persistence.tables.referrals import referral_logs

_MEMBER_COLUMNS = ", ".join(f"m.{column.name}" for column in columns_of(members, Member))

# First waits for a worker that processes the member's events, then for transactions that have locked the wallet, then
# for transactions that add rows about the member, such as a code or a queued event. From then on nothing can interfere.
_LOCKS = (
    "SELECT loyalty_event_id FROM queued_events WHERE organization_id = :o AND member_id = :m"
    " ORDER BY place FOR UPDATE",
    "SELECT w.wallet_id FROM members m JOIN wallets w USING (organization_id, wallet_id)"
    " WHERE m.organization_id = :o AND m.member_id = :m FOR UPDATE OF w",
)
_LOCK_MEMBER = f"SELECT {_MEMBER_COLUMNS} FROM members m WHERE m.organization_id = :o AND m.member_id = :m FOR UPDATE"

# The own records of the member, except the many rows that `erase_page` erases.
_OWN_RECORDS = (
    "DELETE FROM queued_events WHERE organization_id = :o AND member_id = :m",
    """
    DELETE FROM failed_import_rows f USING members m
    WHERE m.organization_id = :o AND m.member_id = :m
        AND f.organization_id = m.organization_id AND f.loyalty_member_id = m.loyalty_member_id
    """,
    # Rows in which the id of a member could not be read, and rows that have an id of this member in another column.
    # Citus does not allow to_json of a column in the condition of a DELETE.
    """
    WITH m AS MATERIALIZED (
        SELECT organization_id, loyalty_member_id, CAST(to_json(loyalty_member_id) AS text) AS quoted,
            CAST(to_json(public_loyalty_member_id) AS text) AS quoted_public
        FROM members WHERE organization_id = :o AND member_id = :m
    )
    DELETE FROM failed_import_rows f USING m, imports i
    WHERE f.organization_id = :o AND m.organization_id = f.organization_id
        AND i.organization_id = f.organization_id AND i.import_id = f.import_id
        AND (
            f.loyalty_member_id IS NULL AND strpos(f.row #>> '{}', m.loyalty_member_id) > 0
            OR i.kind = 'events' AND strpos(f.row #>> '{}', m.quoted) > 0
            OR i.kind = 'members' AND strpos(f.row #>> '{}', m.quoted_public) > 0
        )
    """,
    "DELETE FROM trigger_deliveries WHERE organization_id = :o AND member_id = :m",
    *(
        f"UPDATE {table.name} t SET {emptying_assignments(table, 't')}"
        f" WHERE t.organization_id = :o AND t.member_id = :m{condition}"
        for table, condition in (
            (coupon_locks, ""),
            (member_tier_trackings, ""),
            (offline_allowances, ""),
            (points_payments, ""),
            (mission_trackings, " AND t.loyalty_event_id IS NULL"),
        )
    ),
    f"""
    UPDATE ledger_transactions t SET {emptying_assignments(ledger_transactions, "t")}
    FROM (
        SELECT p.ledger_transaction_id FROM ledger_transactions p
            WHERE p.organization_id = :o AND p.from_wallet_id = :w AND p.status = 0
        UNION SELECT p.ledger_transaction_id FROM ledger_transactions p
            WHERE p.organization_id = :o AND p.to_wallet_id = :w AND p.status = 0
    ) own
    WHERE t.organization_id = :o AND t.ledger_transaction_id = own.ledger_transaction_id
    """,
    """
    WITH off AS (
        DELETE FROM audience_members WHERE organization_id = :o AND member_id = :m RETURNING audience_id
    )
    UPDATE audiences a SET member_count = a.member_count - 1, refreshed_at = :now, updated_at = :now
    FROM off WHERE a.organization_id = :o AND a.audience_id = off.audience_id
    """,
)

# Members referred by the member's referral codes, and records with these codes: enrolments, orders, events, messages.
_REFERRAL_CODES = """
SELECT c.referral_code_id, c.code FROM referral_programs p
JOIN referral_codes c USING (organization_id, referral_program_id)
WHERE p.organization_id = :o AND c.member_id = :m ORDER BY 1
"""
_USES_OF_REFERRAL_CODES = f"""
UPDATE referral_logs l SET {emptying_assignments(referral_logs, "l")}
FROM referral_codes c WHERE c.organization_id = :o AND c.referral_code_id = ANY(:codes)
    AND l.organization_id = c.organization_id AND l.referral_code_id = c.referral_code_id
"""
# The events and members of records that contain a referral code.
_WITH_REFERRAL_CODE = """
SELECT l.loyalty_event_id, l.referred_member_id FROM referral_logs l
WHERE l.organization_id = :o AND l.referral_code_id = :code_id
UNION SELECT p.loyalty_event_id, p.member_id FROM purchase_orders p
WHERE p.organization_id = :o AND p.referral_code = :code
UNION SELECT NULL, m.member_id FROM members m WHERE m.organization_id = :o AND m.referral_code = :code
"""
_RENAME_REFERRAL_CODE = (
    f"""
    UPDATE events e SET payload = CAST(replace(CAST(e.payload AS text), :quoted, :quoted_new) AS json),
        result = CAST(replace(CAST(e.result AS text), :quoted, :quoted_new) AS json)
    FROM ({_WITH_REFERRAL_CODE}) named
    WHERE e.organization_id = :o AND e.loyalty_event_id = named.loyalty_event_id
    """,
    "UPDATE purchase_orders SET referral_code = :new WHERE organization_id = :o AND referral_code = :code",
    "UPDATE members SET referral_code = :new WHERE organization_id = :o AND referral_code = :code",
    "UPDATE referral_codes SET code = :new WHERE organization_id = :o AND referral_code_id = :code_id",
)

# The members of records that contain a referral code, and the messages about some of them.
_MEMBERS_WITH_REFERRAL_CODE = f"""
SELECT DISTINCT member_id FROM ({_WITH_REFERRAL_CODE}) AS named(loyalty_event_id, member_id)
"""
_RENAME_IN_DELIVERIES = """
UPDATE trigger_deliveries d SET payload = CAST(replace(CAST(d.payload AS text), :quoted, :quoted_new) AS json)
WHERE d.organization_id = :o AND d.member_id = ANY(:member_ids) AND strpos(CAST(d.payload AS text), :quoted) > 0
"""
# Entries of the audit log stay, with their actor and time, but lose the changes and the reason. Entries about erasings
# contain nothing personal.
_EMPTY_ENTRIES_WITH_REFERRAL_CODE = """
UPDATE audit_log a SET changes = NULL, salt = NULL, reason = NULL
WHERE a.organization_id = :o AND a.member_ids && CAST(:member_ids AS bigint[]) AND a.salt IS NOT NULL
    AND a.operation_id <> 'eraseMember' AND strpos(CAST(a.changes AS text), :quoted) > 0
RETURNING a.audit_log_id
"""
_EMPTY_ENTRIES = """
UPDATE audit_log SET changes = NULL, salt = NULL, reason = NULL
WHERE organization_id = :o AND member_ids @> ARRAY[CAST(:m AS bigint)]
RETURNING audit_log_id
"""

_ERASED_MEMBER = {
    "loyalty_member_id": ":pseudonym",
    "active": "false",
    "on_chain": """'{"wallets": []}'""",
    "updated_at": ":now",
    "erased_at": ":now",
}
_ERASE_MEMBER = f"""
UPDATE members m SET {emptying_assignments(members, "m", **_ERASED_MEMBER)}
WHERE m.organization_id = :o AND m.member_id = :m
RETURNING {_MEMBER_COLUMNS}
"""

# Erased members that still have rows, with the progress of their erasing.
_STORE_PROGRESS = """
INSERT INTO unfinished_erasings (organization_id, member_id, kind, up_to) VALUES (:o, :m, :kind, :up_to)
ON CONFLICT (organization_id, member_id) DO UPDATE SET kind = excluded.kind, up_to = excluded.up_to
"""
_FINISH = "DELETE FROM unfinished_erasings WHERE organization_id = :o AND member_id = :m"
_CLAIM = f"""
SELECT u.kind, u.up_to, {_MEMBER_COLUMNS} FROM unfinished_erasings u JOIN members m USING (organization_id, member_id)
WHERE u.organization_id = :o ORDER BY u.member_id LIMIT 1 FOR UPDATE OF u SKIP LOCKED
"""
# The number of rows that a statement erases at most in a call.
PAGE_ROWS = 500


def lock(db: Connection, member: Member) -> Member:
    """Lock the member and its records, waiting for other transactions; return the current member."""
    parameters = {"o": member.organization_id, "m": member.member_id}
    for statement in _LOCKS:
        db.execute(text(statement), parameters)
    return Member(*db.execute(text(_LOCK_MEMBER), parameters).one())


@dataclass(frozen=True, slots=True)
class Erasing:
    """An erased member, the ids of the audit log entries that were emptied, and whether all rows are erased."""

    member: Member
    emptied_ids: Sequence[int]
    is_complete: bool


def erase(db: Connection, member: Member, pseudonym: str, now: datetime, seconds: float) -> Erasing:
    """Erase a locked member; its rows that are not erased after `seconds` are left to `claim_unfinished`."""
    end = time.monotonic() + seconds
    parameters = {"o": member.organization_id, "m": member.member_id, "w": member.wallet_id, "now": now}
    referral_codes = [(row[0], row[1]) for row in db.execute(text(_REFERRAL_CODES), parameters)]
    codes = [code_id for code_id, _ in referral_codes]
    db.execute(text(_USES_OF_REFERRAL_CODES), {**parameters, "codes": codes})
    emptied_ids: set[int] = set()
    for code_id, code in referral_codes:
        emptied_ids.update(_rename_referral_code(db, member.organization_id, code_id, code))
    for statement in _OWN_RECORDS:
        db.execute(text(statement), parameters)
    emptied_ids.update(db.execute(text(_EMPTY_ENTRIES), parameters).scalars())
    progress = erase_page(db, member, ErasingProgress(), PAGE_ROWS)
    while progress is not None and time.monotonic() < end:
        progress = erase_page(db, member, progress, PAGE_ROWS)
    erased = Member(*db.execute(text(_ERASE_MEMBER), {**parameters, "pseudonym": pseudonym}).one())
    store_progress(db, erased, progress)
    return Erasing(erased, sorted(emptied_ids), progress is None)


def store_progress(db: Connection, member: Member, progress: ErasingProgress | None) -> None:
    """Store how far the rows of an erased member are erased; None if all are."""
    parameters = {"o": member.organization_id, "m": member.member_id}
    if progress is None:
        db.execute(text(_FINISH), parameters)
    else:
        db.execute(text(_STORE_PROGRESS), {**parameters, "kind": progress.kind, "up_to": progress.up_to})


def claim_unfinished(db: Connection, organization_id: int) -> tuple[Member, ErasingProgress] | None:
    """Claim and lock an erased member of the organization that has rows left; None if no other worker leaves one."""
    row = db.execute(text(_CLAIM), {"o": organization_id}).one_or_none()
    if row is None:
        return None
    kind, up_to, *values = row
    return lock(db, Member(*values)), ErasingProgress(kind, up_to)


def _rename_referral_code(db: Connection, organization_id: int, code_id: int, code: str) -> list[int]:
    """Replace a referral code by a meaningless one in all records; returns the ids of the emptied audit log entries."""
    new = f"erased-{code_id}"
    parameters: dict[str, Any] = {
        "o": organization_id,
        "code_id": code_id,
        "code": code,
        "new": new,
        "quoted": as_json(code),
        "quoted_new": as_json(new),
    }
    member_ids = list(db.execute(text(_MEMBERS_WITH_REFERRAL_CODE), parameters).scalars())
    emptied_ids: list[int] = []
    for page in (member_ids[start : start + PAGE_ROWS] for start in range(0, len(member_ids), PAGE_ROWS)):
        parameters["member_ids"] = page
        emptied_ids += db.execute(text(_EMPTY_ENTRIES_WITH_REFERRAL_CODE), parameters).scalars()
        db.execute(text(_RENAME_IN_DELIVERIES), parameters)
    for statement in _RENAME_REFERRAL_CODE:
        db.execute(text(statement), parameters)
    return emptied_ids
