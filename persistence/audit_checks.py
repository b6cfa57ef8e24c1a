"""Checks of the audit log's integrity: each is a query that finds violations, like those of `ledger_checks`."""

from persistence.audit_log import DIGEST, PERSONAL_DIGEST
from persistence.record_checks.forms import OF_ORGANIZATION

_CHANGED_ENTRY = f"""
SELECT a.organization_id, format('audit log entry %s: was changed, its digest is that of another content',
    a.audit_log_id)
FROM audit_log a WHERE {OF_ORGANIZATION.format("a")} AND (
    a.digest <> {DIGEST.format("a")}
    OR (a.salt IS NOT NULL AND a.personal_digest <> {PERSONAL_DIGEST.format("a")})
    OR (a.salt IS NULL AND (a.changes IS NOT NULL OR a.reason IS NOT NULL)))
"""

# The ids of the entries that erasings of members emptied. The entry about an erasing lists them; earlier versions
# stored a text instead of a list that was too long. The call that erases a member adds such an entry at `erased_at`,
# the time of the test clock if there is one. A worker that erases the remaining rows adds further ones later.
_EMPTIED_BY_ERASINGS = f"""
SELECT e.organization_id, CAST(emptied.id AS bigint) AS audit_log_id
FROM audit_log e JOIN members m
    ON m.organization_id = e.organization_id AND m.member_id = e.member_ids[1]
    AND (m.erased_at = coalesce(e.test_clock, e.created_at) OR m.erased_at IS NOT NULL AND e.actor = 'worker')
CROSS JOIN LATERAL json_array_elements_text(
    CASE json_typeof(e.changes #> '{{erasedEntries,to}}') WHEN 'array' THEN e.changes #> '{{erasedEntries,to}}' END
) AS emptied(id)
WHERE {OF_ORGANIZATION.format("e")} AND e.entity_type = 'member' AND e.operation_id = 'eraseMember'
"""

# Resets of test organizations empty all entries before them.
_EMPTY_ENTRY = f"""
SELECT a.organization_id, format('audit log entry %s: is empty, but no erasing of a member emptied it', a.audit_log_id)
FROM audit_log a LEFT JOIN (SELECT DISTINCT organization_id, audit_log_id FROM ({_EMPTIED_BY_ERASINGS}) x) emptied
    USING (organization_id, audit_log_id)
WHERE {OF_ORGANIZATION.format("a")} AND a.salt IS NULL AND emptied.audit_log_id IS NULL AND NOT EXISTS (
    SELECT FROM audit_log e JOIN organizations o USING (organization_id)
    WHERE {OF_ORGANIZATION.format("e")} AND e.operation_id = 'resetOrganization'
        AND e.audit_log_id > a.audit_log_id AND o.environment = 'test'
)
"""

# Each entry that a seal contains, with the number of the seal.
_SEALED = f"""
SELECT s.organization_id, s.seal_number, id AS audit_log_id
FROM audit_log_seals s CROSS JOIN LATERAL unnest(s.audit_log_ids) AS id WHERE {OF_ORGANIZATION.format("s")}
"""

_REMOVED_ENTRY = f"""
SELECT organization_id, format('audit log entry %s: is missing, seal %s holds it', audit_log_id, seal_number)
FROM ({_SEALED}) sealed
WHERE NOT EXISTS (SELECT FROM audit_log a
    WHERE {OF_ORGANIZATION.format("a")} AND a.audit_log_id = sealed.audit_log_id)
"""

# Every entry is in exactly one place: in a seal, or among the entries that wait for a seal.
_ENTRY_NOT_IN_ONE_PLACE = f"""
SELECT a.organization_id, format('audit log entry %s: is %s times in a seal or waiting for a seal, not once',
    a.audit_log_id, coalesce(places.number, 0))
FROM audit_log a LEFT JOIN (
    SELECT organization_id, audit_log_id, count(*) AS number FROM (
        SELECT organization_id, audit_log_id FROM ({_SEALED}) sealed
        UNION ALL
        SELECT u.organization_id, u.audit_log_id FROM unsealed_audit_log u WHERE {OF_ORGANIZATION.format("u")}
    ) place GROUP BY organization_id, audit_log_id
) places USING (organization_id, audit_log_id)
WHERE {OF_ORGANIZATION.format("a")} AND places.number IS DISTINCT FROM 1
"""

_CHANGED_SEAL = f"""
SELECT s.organization_id, format('audit log seal %s: its hash is not that of its entries', s.seal_number)
FROM audit_log_seals s LEFT JOIN (
    SELECT sealed.organization_id, sealed.seal_number,
        string_agg(int8send(a.audit_log_id) || a.digest, '' ORDER BY a.audit_log_id) AS digests
    FROM ({_SEALED}) sealed JOIN audit_log a USING (organization_id, audit_log_id) WHERE {OF_ORGANIZATION.format("a")}
    GROUP BY sealed.organization_id, sealed.seal_number
) entries USING (organization_id, seal_number)
WHERE {OF_ORGANIZATION.format("s")}
    AND s.hash IS DISTINCT FROM sha256(s.previous_hash || coalesce(entries.digests, ''))
"""

_BROKEN_SEALS = f"""
SELECT organization_id, format('audit log seal %s: does not follow the one before it', seal_number)
FROM (
    SELECT s.organization_id, s.seal_number, s.previous_hash,
        lag(s.hash, 1, CAST('' AS bytea)) OVER chain AS hash_before, row_number() OVER chain AS row_number
    FROM audit_log_seals s WHERE {OF_ORGANIZATION.format("s")}
    WINDOW chain AS (PARTITION BY s.organization_id ORDER BY s.seal_number)
) seals
WHERE row_number <> seal_number OR previous_hash <> hash_before
"""

CHECKS = (_CHANGED_ENTRY, _EMPTY_ENTRY, _REMOVED_ENTRY, _ENTRY_NOT_IN_ONE_PLACE, _CHANGED_SEAL, _BROKEN_SEALS)
