"""The queries for reversals of events and of all events that they caused."""

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import Connection

from domain.events import LoyaltyEvent
from domain.ledger.postings import StoredTransaction
from domain.ledger.records import REVERT, REVERTED
from persistence import posting
from persistence.connections import fetch_rows
from persistence.rows import as_rows, change_all, columns_of, update_by_id
from persistence.tables.events import events

_EVENT_COLUMNS = ", ".join(f"e.{column.name}" for column in columns_of(events, LoyaltyEvent))

# LATERAL with OFFSET 0 looks up the rows of each event by an index. The planner does not know how few events there are,
# and would read all rows of the organization instead.
_FAMILIES = """
WITH RECURSIVE family AS (
    SELECT e.loyalty_event_id AS root_id, e.loyalty_event_id FROM events e
    WHERE e.organization_id = %s AND e.loyalty_event_id = ANY(%s)
    UNION ALL
    SELECT f.root_id, e.loyalty_event_id FROM family f
    CROSS JOIN LATERAL (
        SELECT loyalty_event_id FROM events
        WHERE organization_id = %s AND cause_loyalty_event_id = f.loyalty_event_id OFFSET 0
    ) e
)
"""

_FAMILY_EVENTS = f"""{_FAMILIES}
SELECT f.root_id, {_EVENT_COLUMNS} FROM family f
CROSS JOIN LATERAL (
    SELECT * FROM events WHERE organization_id = %s AND loyalty_event_id = f.loyalty_event_id OFFSET 0
) e
ORDER BY e.loyalty_event_id DESC
"""

# The members of the events, the sponsors whom a new evaluation of the events can read, the members whose wallets the
# events' transactions changed, and the owners of the used referral codes.
_FAMILY_MEMBERS = f"""{_FAMILIES}
SELECT e.member_id FROM family f
CROSS JOIN LATERAL (
    SELECT member_id FROM events WHERE organization_id = %s AND loyalty_event_id = f.loyalty_event_id OFFSET 0
) e
UNION
SELECT e.sponsor_member_id FROM family f
CROSS JOIN LATERAL (
    SELECT sponsor_member_id, grants FROM events
    WHERE organization_id = %s AND loyalty_event_id = f.loyalty_event_id OFFSET 0
) e
WHERE e.grants IS NOT NULL AND e.sponsor_member_id IS NOT NULL
UNION
SELECT m.member_id FROM family f
CROSS JOIN LATERAL (
    SELECT from_wallet_id, to_wallet_id FROM ledger_transactions
    WHERE organization_id = %s AND loyalty_event_id = f.loyalty_event_id OFFSET 0
) t
CROSS JOIN LATERAL (
    SELECT member_id FROM members
    WHERE organization_id = %s AND wallet_id IN (t.from_wallet_id, t.to_wallet_id) OFFSET 0
) m
UNION
SELECT r.referrer_member_id FROM family f
CROSS JOIN LATERAL (
    SELECT referrer_member_id FROM referral_logs
    WHERE organization_id = %s AND loyalty_event_id = f.loyalty_event_id OFFSET 0
) r
"""

_ORDER_EVENTS = """
SELECT unnest(event_ids) FROM purchase_orders WHERE organization_id = %s AND external_id = ANY(%s)
"""

# Reverts cannot be reverted, and reverted transactions are left out. So are the transactions of coupon uses that a
# cancellation does not restore; OFFSET 0 has them looked up for each transaction.
_ACTIVE_TRANSACTIONS = f"""
SELECT t.ledger_transaction_id, t.loyalty_event_id, t.system_unique_key FROM ledger_transactions t
WHERE t.organization_id = %s AND t.loyalty_event_id = ANY(%s)
    AND t.transaction_type <> {REVERT} AND t.status <> {REVERTED} AND NOT t.is_expiry
    AND NOT EXISTS (
        SELECT FROM coupon_usages u
        JOIN coupon_books b ON b.organization_id = u.organization_id AND b.coupon_book_id = u.coupon_book_id
        WHERE u.organization_id = %s AND u.loyalty_event_id = t.loyalty_event_id
            AND u.ledger_transaction_id = t.ledger_transaction_id AND u.amount_assigned = 0 AND NOT b.restore_on_cancel
        OFFSET 0
    )
ORDER BY t.ledger_transaction_id DESC
"""

_CHANGEABLE = ("loyalty_event_id", "limit_counters", "reversal_loyalty_event_id")
_WRITE = update_by_id(events, *_CHANGEABLE, "updated_at")


def find_members(db: Connection, organization_id: int, event_ids: Collection[int]) -> set[int]:
    """The ids of the members whom a reversal of these events, and of all events that they caused, affects."""
    values = (organization_id, list(event_ids), *(organization_id,) * 6)
    return set(db.exec_driver_sql(_FAMILY_MEMBERS, values).scalars())


def find_members_of_orders(db: Connection, organization_id: int, external_ids: Collection[str]) -> set[int]:
    """The ids of the members whom a reversal of all events about these orders affects, like `find_members`."""
    event_ids = db.exec_driver_sql(_ORDER_EVENTS, (organization_id, list(external_ids))).scalars().all()
    return find_members(db, organization_id, event_ids) if event_ids else set()


def find_families(db: Connection, organization_id: int, event_ids: Collection[int]) -> dict[int, list[LoyaltyEvent]]:
    """Each of these events with all events that it caused, newest first, by the id of the first event."""
    families: dict[int, list[LoyaltyEvent]] = {}
    values = (organization_id, list(event_ids), organization_id, organization_id)
    for root_id, *event in fetch_rows(db, _FAMILY_EVENTS, values):
        families.setdefault(root_id, []).append(LoyaltyEvent(*event))
    return families


def find_active_transactions(
    db: Connection, organization_id: int, event_ids: Collection[int]
) -> dict[int, dict[str, StoredTransaction]]:
    """The transactions of these events that can be reverted, newest first, by event id and by systemUniqueKey."""
    rows = fetch_rows(db, _ACTIVE_TRANSACTIONS, (organization_id, list(event_ids), organization_id))
    ids = [transaction_id for transaction_id, _, _ in rows]
    transactions_by_id = posting.find_stored(db, organization_id, ids)
    by_event: dict[int, dict[str, StoredTransaction]] = {}
    for transaction_id, event_id, key in rows:
        by_event.setdefault(event_id, {})[key] = transactions_by_id[transaction_id]
    return by_event


def write_events(db: Connection, organization_id: int, changed_events: Iterable[LoyaltyEvent], at: datetime) -> None:
    """Store the limit counters of events, and the events that reversed them."""
    change_all(db, _WRITE, organization_id, as_rows(changed_events, _CHANGEABLE, updated_at=at))
