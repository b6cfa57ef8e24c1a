"""Erasing a member: personal data is removed from every table, found by indexes; amounts, counts and links stay.

Keys of requests (`system_unique_key`) stay, so that a repeated request is refused and never done again; the digests of
the requests' content are removed. Other members' records keep the data about their own members.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, text

from domain.ledger.records import PENDING
from domain.members import Member
from persistence.erased_rows import ERASED_CODE, ErasingProgress, emptying_assignments, erase_page
from persistence.rows import as_json, columns_of
from persistence.tables.coupons import coupon_locks
from persistence.tables.ledger import ledger_transactions
from persistence.tables.members import member_tier_trackings, members
from persistence.tables.missions import mission_trackings
from persistence.tables.offline_allowances import offline_allowances
from persistence.tables.points_payments import points_payments

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
            WHERE p.organization_id = :o AND p.from_wallet_id = :w AND p.status = {PENDING}
        UNION SELECT p.ledger_transaction_id FROM ledger_transactions p
            WHERE p.organization_id = :o AND p.to_wallet_id = :w AND p.status = {PENDING}
    ) own
    WHERE t.organization_id = :o AND t.ledger_transaction_id = own.ledger_transaction_id
    """,
    """
    WITH off AS (
        DELETE FROM audience_members WHERE organization_id = :o AND member_id = :m RETURNING audience_id
    )
    UPDATE audiences a
    SET member_count = a.member_count - 1, version = a.version + 1, refreshed_at = :now, updated_at = :now
    FROM off WHERE a.organization_id = :o AND a.audience_id = off.audience_id
    """,
)

# The referral codes of the member get meaningless texts at once, so that no later request can use the old ones.
_REPLACE_REFERRAL_CODES = f"""
WITH old AS MATERIALIZED (
    SELECT c.referral_code_id, c.code FROM referral_programs p
    JOIN referral_codes c USING (organization_id, referral_program_id)
    WHERE p.organization_id = :o AND c.organization_id = :o AND c.member_id = :m
)
UPDATE referral_codes c SET code = '{ERASED_CODE}' || c.referral_code_id
FROM old WHERE c.organization_id = :o AND c.referral_code_id = old.referral_code_id
RETURNING c.referral_code_id, old.code
"""
# Entries of the audit log stay, with their actor and time, but lose the changes and the reason.
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
INSERT INTO unfinished_erasings (organization_id, member_id, kind, up_to, referral_codes)
VALUES (:o, :m, :kind, :up_to, CAST(:referral_codes AS jsonb))
ON CONFLICT (organization_id, member_id) DO UPDATE SET kind = excluded.kind, up_to = excluded.up_to
"""
_FINISH = "DELETE FROM unfinished_erasings WHERE organization_id = :o AND member_id = :m"
_CLAIM = f"""
SELECT u.kind, u.up_to, u.referral_codes, {_MEMBER_COLUMNS}
FROM unfinished_erasings u JOIN members m USING (organization_id, member_id)
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
    replaced_codes = db.execute(text(_REPLACE_REFERRAL_CODES), parameters)
    referral_codes = dict(map(tuple, replaced_codes))
    for statement in _OWN_RECORDS:
        db.execute(text(statement), parameters)
    emptied_ids = set(db.execute(text(_EMPTY_ENTRIES), parameters).scalars())
    progress: ErasingProgress | None = ErasingProgress(referral_codes=referral_codes)
    while progress is not None:
        progress, emptied_ids_of_page = erase_page(db, member, progress, PAGE_ROWS)
        emptied_ids.update(emptied_ids_of_page)
        if time.monotonic() >= end:
            break
    erased_member = Member(*db.execute(text(_ERASE_MEMBER), {**parameters, "pseudonym": pseudonym}).one())
    store_progress(db, erased_member, progress)
    return Erasing(erased_member, sorted(emptied_ids), progress is None)


def store_progress(db: Connection, member: Member, progress: ErasingProgress | None) -> None:
    """Store how far the rows of an erased member are erased; None if all are."""
    parameters = {"o": member.organization_id, "m": member.member_id}
    if progress is None:
        db.execute(text(_FINISH), parameters)
    else:
        codes = as_json({str(code_id): code for code_id, code in progress.referral_codes.items()})
        values = {"kind": progress.kind, "up_to": progress.up_to, "referral_codes": codes}
        db.execute(text(_STORE_PROGRESS), {**parameters, **values})


def claim_unfinished(db: Connection, organization_id: int) -> tuple[Member, ErasingProgress] | None:
    """Claim and lock an erased member of the organization that has rows left.

    Returns None if there is none, or if other workers have claimed all of them.
    """
    row = db.execute(text(_CLAIM), {"o": organization_id}).one_or_none()
    if row is None:
        return None
    kind, up_to, referral_codes, *values = row
    codes_by_id = {int(code_id): code for code_id, code in referral_codes.items()}
    return lock(db, Member(*values)), ErasingProgress(kind, up_to, codes_by_id)
