"""The audit log: entries are added, found by filters, and sealed into a chain of hashes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from persistence.connections import defer, fetch_rows
from persistence.filters import has_row, is_at_or_after, is_before
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import as_json, fields_of
from persistence.tables.audit_log import audit_log

# The digest of an entry in two steps: first of the part that can be erased, with a salt, then of the rest with this
# first digest. Checks use the same expressions.
PERSONAL_DIGEST = "sha256({0}.salt || convert_to(CAST(json_build_array({0}.reason, {0}.changes) AS text), 'UTF8'))"
DIGEST = (
    "sha256(convert_to(CAST(json_build_array({0}.organization_id, {0}.audit_log_id, extract(epoch FROM {0}.created_at),"
    " {0}.actor, {0}.user_id, {0}.token_id, {0}.surface, {0}.operation_id, {0}.request_id, {0}.entity_type,"
    " {0}.entity_id, array_to_json({0}.member_ids)) AS text), 'UTF8') || {0}.personal_digest"
    " || convert_to(coalesce(CAST(extract(epoch FROM {0}.test_clock) AS text), ''), 'UTF8'))"
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry; `changes` is None once its personal data is erased."""

    organization_id: int
    audit_log_id: int
    created_at: datetime
    # What the test clock of the organization showed, if it had one.
    test_clock: datetime | None
    actor: str
    user_id: int | None
    token_id: str | None
    surface: str | None
    operation_id: str
    request_id: str | None
    entity_type: str
    entity_id: str
    member_ids: Sequence[int]
    reason: str | None
    changes: dict[str, Any] | None

    @property
    def is_erased(self) -> bool:
        """True if the changes of the entry were erased."""
        return self.changes is None

    @property
    def shown_changes(self) -> dict[str, Any]:
        """The changes; empty if they were erased."""
        return self.changes or {}


_COLUMNS = ", ".join(fields_of(AuditEntry))
# The type of entries about ledger transactions.
_POINTS = "ledger-transaction"

# Ids are drawn in a query that reads no table: in a distributed database, a node that reads tables would draw them from
# its own sequence. Members are looked up one by one: for a join, the planner may read all members of the organization.
# The result is true if an entry that is not about points names an erased member.
_ADD = Prepared(f"""
WITH numbered AS MATERIALIZED (
    SELECT nextval('audit_log_audit_log_id_seq') AS audit_log_id, x.*,
        uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) AS salt
    FROM json_to_recordset(CAST(%(entries)s AS json)) AS x(
        actor text, user_id bigint, token_id text, surface text, operation_id text, request_id text, reason text,
        entity_type text, entity_id text, changes text, member_ids bigint[], wallet_ids bigint[])
), named AS MATERIALIZED (
    SELECT n.audit_log_id, id AS member_id FROM numbered n, unnest(n.member_ids) AS id
    UNION
    SELECT n.audit_log_id, (
        SELECT m.member_id FROM members m WHERE m.organization_id = %(organization_id)s AND m.wallet_id = wallet.id
    ) FROM numbered n, unnest(n.wallet_ids) AS wallet(id)
), given AS MATERIALIZED (
    SELECT CAST(%(organization_id)s AS bigint) AS organization_id, n.audit_log_id,
        CAST(%(created_at)s AS timestamptz) AS created_at, CAST(%(test_clock)s AS timestamptz) AS test_clock,
        n.actor, n.user_id, n.token_id, n.surface, n.operation_id,
        n.request_id, n.entity_type, n.entity_id,
        ARRAY(
            SELECT member_id FROM named WHERE audit_log_id = n.audit_log_id AND member_id IS NOT NULL ORDER BY 1
        ) AS member_ids,
        n.reason, CAST(n.changes AS json) AS changes, n.salt
    FROM numbered n
), salted AS (
    SELECT given.*, {PERSONAL_DIGEST.format("given")} AS personal_digest FROM given
), added AS (
    INSERT INTO audit_log ({_COLUMNS}, salt, personal_digest, digest)
    SELECT {_COLUMNS}, salt, personal_digest, {DIGEST.format("salted")} FROM salted
), unsealed AS (
    INSERT INTO unsealed_audit_log (organization_id, audit_log_id) SELECT organization_id, audit_log_id FROM given
)
SELECT coalesce(bool_or((
    SELECT m.erased_at IS NOT NULL FROM members m
    WHERE m.organization_id = %(organization_id)s AND m.member_id = named.member_id
)), false)
FROM numbered n JOIN named USING (audit_log_id) WHERE n.entity_type <> '{_POINTS}'
""")


@dataclass(frozen=True, slots=True)
class Origin:
    """The caller and the request, which is the same for all entries of a call; commands and workers have no request."""

    actor: str
    user_id: int | None
    token_id: str | None
    surface: str | None
    operation_id: str
    request_id: str | None
    reason: str | None

    @classmethod
    def by_operator(cls, operation_id: str) -> Origin:
        """The origin of what the operator does on the command line."""
        return cls(
            actor="operator",
            user_id=None,
            token_id=None,
            surface=None,
            operation_id=operation_id,
            request_id=None,
            reason=None,
        )


@dataclass(frozen=True, slots=True)
class NewEntry:
    """One entry to be added; `changes` is JSON text, members are named by id or by wallet."""

    entity_type: str
    entity_id: str
    changes: str
    member_ids: tuple[int, ...] = ()
    wallet_ids: tuple[int, ...] = ()


AUDIT_LOG = Records(
    audit_log,
    AuditEntry,
    equal=("actor", "userId", "operationId", "entityType", "entityId", "requestId"),
    filters={
        "memberId": lambda member_id: audit_log.c.member_ids.contains([member_id]),
        "fromCreatedAt": is_at_or_after(audit_log.c.created_at),
        "toCreatedAt": is_before(audit_log.c.created_at),
    },
)


def add_entries(
    db: Connection,
    organization_id: int,
    now: datetime,
    entries: Sequence[tuple[Origin, NewEntry]],
    test_clock: datetime | None = None,
) -> bool:
    """Write entries with one statement; return True if an entry names an erased member.

    `now` is the real time, and `test_clock` the time of the organization's test clock, None if it has none.
    Entries about points do not count for the result, since they name only a wallet, which is not personal data even
    after its member was erased. If all entries are about points, the statement is deferred.
    """
    entity_types = {entry.entity_type for _, entry in entries}
    rows = [{**_fields(origin), **_fields(entry)} for origin, entry in entries]
    common = {"organization_id": organization_id, "created_at": now, "test_clock": test_clock}
    values = {**common, "entries": as_json(rows)}
    if entity_types == {_POINTS}:
        defer(db, _ADD, values)
        return False
    [(names_erased_member,)] = fetch_rows(db, _ADD, values)
    return bool(names_erased_member)


def _fields(part: Origin | NewEntry) -> dict[str, Any]:
    return {name: getattr(part, name) for name in fields_of(type(part))}


def has_entry(db: Connection, organization_id: int, entity_type: str, entity_id: str) -> bool:
    """True if the log has an entry about this record."""
    is_of_organization = audit_log.c.organization_id == organization_id
    is_about_record = (audit_log.c.entity_type == entity_type, audit_log.c.entity_id == entity_id)
    return has_row(db, is_of_organization, *is_about_record)


def acquire_lock(db: Connection, organization_id: int, name: str) -> None:
    """Lock `name` for the organization until the transaction ends, waiting for transactions that have locked it.

    To be called before all other locks.
    """
    lock = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, :organization_id))")
    db.execute(lock, {"name": name, "organization_id": organization_id})


# Calls of `seal` for an organization are serialized; adding entries never waits for them.
_SEAL = """
WITH sealed AS (
    DELETE FROM unsealed_audit_log WHERE organization_id = :organization_id AND audit_log_id IN (
        SELECT audit_log_id FROM unsealed_audit_log WHERE organization_id = :organization_id
        ORDER BY audit_log_id LIMIT :limit
    ) RETURNING audit_log_id
), last AS (
    SELECT seal_number, hash FROM audit_log_seals WHERE organization_id = :organization_id
    ORDER BY seal_number DESC LIMIT 1
), entries AS (
    SELECT array_agg(a.audit_log_id ORDER BY a.audit_log_id) AS ids,
        string_agg(int8send(a.audit_log_id) || a.digest, '' ORDER BY a.audit_log_id) AS digests
    FROM audit_log a JOIN sealed USING (audit_log_id) WHERE a.organization_id = :organization_id
)
INSERT INTO audit_log_seals (organization_id, seal_number, created_at, audit_log_ids, previous_hash, hash)
SELECT :organization_id, coalesce((SELECT seal_number FROM last), 0) + 1, :now, ids, previous.hash,
    sha256(previous.hash || digests)
FROM entries, (SELECT coalesce((SELECT hash FROM last), CAST('' AS bytea)) AS hash) previous
WHERE ids IS NOT NULL
RETURNING cardinality(audit_log_ids)
"""


def seal(db: Connection, organization_id: int, now: datetime, limit: int) -> int:
    """Seal the oldest entries that are in no seal, at most `limit` of them; returns how many were sealed."""
    acquire_lock(db, organization_id, "seals of the audit log")
    parameters = {"organization_id": organization_id, "now": now, "limit": limit}
    return db.execute(text(_SEAL), parameters).scalar_one_or_none() or 0


class ChainHead(NamedTuple):
    """The last seal of an organization: its number, and its hash in hexadecimal digits."""

    seal_number: int
    seal_hash: str


def find_chain_head(db: Connection, organization_id: int) -> ChainHead | None:
    """The last seal of an organization; None if it has no seal."""
    statement = text(
        "SELECT seal_number, encode(hash, 'hex') FROM audit_log_seals "
        "WHERE organization_id = :organization_id ORDER BY seal_number DESC LIMIT 1"
    )
    row = db.execute(statement, {"organization_id": organization_id}).one_or_none()
    return None if row is None else ChainHead(*row)
