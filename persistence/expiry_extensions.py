"""Extensions of the expiry of points, and the lots and wallets that they extend."""

from collections.abc import Collection

from sqlalchemy import Connection

from domain.ledger.extensions import ExpiryExtension
from persistence.connections import fetch_rows
from persistence.records import Records
from persistence.rows import fields_of
from persistence.tables.ledger import expiry_extensions

EXTENSIONS = Records(expiry_extensions, ExpiryExtension)

_COLUMNS = ", ".join(fields_of(ExpiryExtension))

# The oldest extension of the organization, or of a random one: extensions of one organization run in the order of their
# requests, and no organization waits for the many extensions of another. An organization whose test clock is being
# advanced is left out. The row is locked by a separate statement, which a cluster can send to one node.
_RUNNING = """
SELECT organization_id, min(expiry_extension_id) FROM expiry_extensions e
WHERE status = 'running' AND {condition}
GROUP BY organization_id ORDER BY random() LIMIT 1
"""
_RUNNING_IN_ONE = _RUNNING.format(condition="organization_id = %s")
_RUNNING_IN_ANY = _RUNNING.format(
    condition="""NOT EXISTS (
    SELECT FROM organizations o WHERE o.organization_id = e.organization_id AND o.clock_target IS NOT NULL)"""
)
_CLAIM = f"""
SELECT {_COLUMNS} FROM expiry_extensions
WHERE organization_id = %s AND expiry_extension_id = %s AND status = 'running' FOR UPDATE SKIP LOCKED
"""

_WALLETS = """
SELECT wallet_id FROM ledger_lots
WHERE organization_id = %s AND ledger_account_id = %s AND wallet_id > %s AND remaining > 0
ORDER BY wallet_id LIMIT %s
"""

_OF_LOTS = """
SELECT ledger_lot_id, wallet_id FROM ledger_lots
WHERE organization_id = %s AND ledger_account_id = %s AND ledger_lot_id = ANY(%s)
"""


def claim_running(db: Connection, organization_id: int | None = None) -> ExpiryExtension | None:
    """Lock the oldest running extension of an organization, by default of any organization.

    Returns None if no extension is running, or if another worker has locked it.
    """
    keys = (
        fetch_rows(db, _RUNNING_IN_ANY, ())
        if organization_id is None
        else fetch_rows(db, _RUNNING_IN_ONE, (organization_id,))
    )
    for key in keys:
        for row in fetch_rows(db, _CLAIM, tuple(key)):
            return ExpiryExtension(*row)
    return None


def find_next_wallets(db: Connection, extension: ExpiryExtension, limit: int, max_lots: int) -> list[int]:
    """The next wallets, ordered by id, that have lots of the account and are not extended yet: at most `limit`.

    These are at least one wallet, and further ones only if all together have at most `max_lots` lots.
    """
    values = (extension.organization_id, extension.ledger_account_id, extension.after_wallet_id, max_lots + 1)
    rows = fetch_rows(db, _WALLETS, values)
    wallet_ids = list(dict.fromkeys(wallet_id for (wallet_id,) in rows))
    if len(rows) > max_lots:
        # Not all lots of the last wallet were read.
        wallet_ids = wallet_ids[:-1] or wallet_ids
    return wallet_ids[:limit]


def find_wallets_of_lots(
    db: Connection, organization_id: int, ledger_account_id: int, lot_ids: Collection[int]
) -> dict[int, int]:
    """The wallet ids of the lots of an account, by lot id; lots of other accounts are left out."""
    return dict(fetch_rows(db, _OF_LOTS, (organization_id, ledger_account_id, list(lot_ids))))
