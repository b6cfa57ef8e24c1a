"""The API keys of partners, and the ids of the payments that partners have reported."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, text, update

from domain.partners import LAST_USE_INTERVAL, PartnerApiKey
from persistence.connections import defer, fetch_rows
from persistence.filters import is_same, is_true
from persistence.prepared_statements import Prepared
from persistence.records import Records
from persistence.rows import as_json
from persistence.tables.organizations import partner_api_keys

PARTNER_API_KEYS = Records(
    partner_api_keys,
    PartnerApiKey,
    equal=("partner",),
    filters={"revoked": is_true(partner_api_keys.c.revoked_at.is_not(None))},
)

_PAYMENTS = Prepared("SELECT payment_id FROM partner_payments WHERE organization_id = %s AND payment_id = ANY(%s)")

# All transactions insert in one order, so that none deadlock.
_CLAIM = Prepared("""
INSERT INTO partner_payments (organization_id, payment_id, partner_api_key_id, member_id, created_at)
SELECT %s, x.payment_id, x.partner_api_key_id, x.member_id, %s
FROM jsonb_to_recordset(%s::jsonb) AS x(payment_id text, partner_api_key_id bigint, member_id bigint)
ORDER BY x.payment_id
ON CONFLICT (organization_id, payment_id) DO NOTHING
RETURNING payment_id
""")

_RELEASE = Prepared("DELETE FROM partner_payments WHERE organization_id = %s AND payment_id = ANY(%s)")

# All transactions lock in one order, so that none deadlock.
_LOCK_CUSTOMERS = text(
    """
    SELECT pg_advisory_xact_lock(lock) FROM (
        SELECT DISTINCT hashtextextended(name, :organization_id) AS lock FROM unnest(CAST(:names AS text[])) AS name
        ORDER BY lock
    ) AS ordered
    """
)


def record_use(db: Connection, key: PartnerApiKey, now: datetime) -> None:
    """Store that a key was used, unless a use within the last minute was stored."""
    last = partner_api_keys.c.last_used_at
    db.execute(
        update(partner_api_keys)
        .where(
            is_same(partner_api_keys, key, "partner_api_key_id"),
            last.is_(None) | (last <= now - LAST_USE_INTERVAL),
        )
        .values(last_used_at=now)
    )


def revoke(db: Connection, key: PartnerApiKey, at: datetime) -> bool:
    """Make a key invalid from now on; returns False if it was invalid before."""
    result = db.execute(
        update(partner_api_keys)
        .where(
            is_same(partner_api_keys, key, "partner_api_key_id"),
            partner_api_keys.c.revoked_at.is_(None),
        )
        .values(revoked_at=at, updated_at=at)
    )
    return result.rowcount == 1


def lock_customers(db: Connection, organization_id: int, names: Collection[str]) -> None:
    """Serialize the creation of members with any of these names (see `persistence.locks`)."""
    db.execute(_LOCK_CUSTOMERS, {"organization_id": organization_id, "names": list(names)})


def find_payments(db: Connection, organization_id: int, payment_ids: Collection[str]) -> set[str]:
    """The ids, among these, with which a payment was reported before."""
    return {payment_id for (payment_id,) in fetch_rows(db, _PAYMENTS, (organization_id, list(payment_ids)))}


class PaymentClaim(NamedTuple):
    """The claim of the id of a payment; the payment has an API key only if a partner reported it."""

    payment_id: str
    member_id: int
    partner_api_key_id: int | None = None


def claim_payments(db: Connection, organization_id: int, claims: Sequence[PaymentClaim], at: datetime) -> set[str]:
    """Claim the ids of payments; return the ids that no other transaction has claimed.

    Waits for the end of transactions that are claiming one of the ids.
    """
    if not claims:
        return set()
    claimed_rows = as_json([claim._asdict() for claim in claims])
    return {payment_id for (payment_id,) in fetch_rows(db, _CLAIM, (organization_id, at, claimed_rows))}


def release_payments(db: Connection, organization_id: int, payment_ids: Collection[str]) -> None:
    """Release the claimed ids of payments whose events have failed; a deferred statement."""
    if payment_ids:
        defer(db, _RELEASE, (organization_id, list(payment_ids)))
