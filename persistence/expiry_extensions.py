"""Extensions of the expiry of points, and the lots and wallets that they are about."""

from collections.abc import Collection

from sqlalchemy import Connection

from domain.ledger.extensions import ExpiryExtension
from persistence.connections import query
from persistence.records import Records
from persistence.rows import fields_of
from persistence.tables.ledger import expiry_extensions

EXTENSIONS = Records(expiry_extensions, ExpiryExtension)

_COLUMNS = ", ".join(fields_of(ExpiryExtension))

# The oldest of any organization: each extends in the order of its requests, and none waits for the many of another. One
# whose clock is advanced, or failed to be, waits for that. The row is locked by a statement of its own, which a cluster
# can send to one node.
_RUNNING = """
SELECT organization_id, min(expiry_extension_id) FROM expiry_extensions e
WHERE status = 'running' AND (organization_id = %(organization_id)s
    OR %(organization_id)s::bigint IS NULL AND NOT EXISTS (SELECT FROM organizations o
        WHERE o.organization_id = e.organization_id AND o.clock_target IS NOT NULL))
GROUP BY organization_id ORDER BY random() LIMIT 1
"""
_CLAIM = f"""
SELECT {_COLUMNS} FROM expiry_extensions
WHERE organization_id = %s AND expiry_extension_id = %s AND status = 'running' FOR UPDATE SKIP LOCKED
"""

_WALLETS = """
SELECT DISTINCT wallet_id FROM ledger_lots
WHERE organization_id = %s AND ledger_account_id = %s AND wallet_id > %s AND remaining > 0
ORDER BY wallet_id LIMIT %s
"""

_OF_LOTS = """
SELECT ledger_lot_id, wallet_id FROM ledger_lots
WHERE organization_id = %s AND ledger_account_id = %s AND ledger_lot_id = ANY(%s)
"""


def claim_running(db: Connection, organization_id: int | None = None) -> ExpiryExtension | None:
    """Lock the oldest running extension of one organization or of any; None if there is none, or a worker has it."""
    for key in query(db, _RUNNING, {"organization_id": organization_id}):
        for row in query(db, _CLAIM, tuple(key)):
            return ExpiryExtension(*row)
    return None


def next_wallets(db: Connection, extension: ExpiryExtension, limit: int) -> list[int]:
    """The next wallets, by id, with lots of the account that are not extended yet."""
    values = (extension.organization_id, extension.ledger_account_id, extension.after_wallet_id, limit)
    return [row[0] for row in query(db, _WALLETS, values)]


def wallets_of_lots(
    db: Connection, organization_id: int, ledger_account_id: int, lot_ids: Collection[int]
) -> dict[int, int]:
    """The wallets of the lots of an account, by the id of the lot."""
    return dict(query(db, _OF_LOTS, (organization_id, ledger_account_id, list(lot_ids))))
