"""The rows of a member of which there may be many, such as events and orders: they are erased in pages.

Each page is found by an index, and takes a short time, however many rows the member or the organization has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, DefaultClause, LargeBinary, Table, text

from domain.members import Member
from persistence.orders import ERASED_EXTERNAL_ID
from persistence.tables.badges import badge_trackings
from persistence.tables.coupons import coupon_lots, coupon_usages, coupons, member_coupons
from persistence.tables.events import events, order_items, purchase_orders
from persistence.tables.ledger import ledger_entries, ledger_transactions
from persistence.tables.referrals import referral_logs

_EMPTIED_DIGEST = "CASE WHEN {0} IS NULL THEN NULL ELSE CAST('' AS bytea) END"


def emptying_assignments(table: Table, alias: str, **values: str) -> str:
    """The SQL assignments that empty the personal columns of a table; `values` are expressions for single columns.

    A column that may not be null gets its default. A digest becomes empty, but not null: a repeated request has another
    digest and is refused as a reuse of its key.
    """
    assignments = {}
    for column in table.c:
        if column.name in values:
            assignments[column.name] = values[column.name]
        elif not column.info.get("personal"):
            continue
        elif isinstance(column.type, LargeBinary):
            assignments[column.name] = _EMPTIED_DIGEST.format(f"{alias}.{column.name}")
        elif column.nullable:
            assignments[column.name] = "NULL"
        elif isinstance(column.server_default, DefaultClause):
            assignments[column.name] = str(column.server_default.arg)
        else:
            raise TypeError(f"{table.name}.{column.name} is personal: erasing a member needs a value for it")
    return ", ".join(f"{name} = {value}" for name, value in assignments.items())


@dataclass(frozen=True, slots=True)
class ErasingProgress:
    """All kinds of rows before number `kind` are erased, and of this kind the rows with ids up to `up_to`."""

    kind: int = 0
    up_to: int = 0


@dataclass(frozen=True, slots=True)
class _Rows:
    """A kind of rows: `page` finds the next ids, and the statements erase the rows with these `ids`.

    The page of events also has the external ids of their orders, which the statements read as `external_ids`.
    """

    page: str
    statements: tuple[str, ...]


def _page(table: Table, id_name: str, external_id: str = "NULL", owner: str = "member_id = :m") -> str:
    """SQL that finds the next rows of a member, in the order of ids."""
    return f"""
    SELECT {id_name}, {external_id} FROM {table.name}
    WHERE organization_id = :o AND {owner} AND {id_name} > :up_to ORDER BY {id_name} LIMIT :limit
    """


def _empty(table: Table, id_name: str, **values: str) -> str:
    """SQL that empties the personal fields of rows."""
    return f"""
    UPDATE {table.name} t SET {emptying_assignments(table, "t", **values)}
    WHERE t.organization_id = :o AND t.{id_name} = ANY(:ids)
    """


# The events of an order keep its external id, in its new form, so that the order can still be cancelled by its event.
_EMPTY_EVENTS = f"""
WITH orders AS MATERIALIZED (
    SELECT jsonb_object_agg(p.external_id, jsonb_build_object(
        'order', jsonb_build_object('externalId', {ERASED_EXTERNAL_ID.format("p")}))) AS payloads
    FROM purchase_orders p
    WHERE p.organization_id = :o AND p.member_id = :m AND p.external_id = ANY(CAST(:external_ids AS text[]))
)
UPDATE events e SET {
    emptying_assignments(
        events,
        "e",
        payload="coalesce(CAST(orders.payloads -> (e.payload -> 'order' ->> 'externalId') AS json), '{}')",
        result="'null'",
        status="CASE WHEN e.status IN ('pending', 'running') THEN 'failed' ELSE e.status END",
    )
}
FROM orders WHERE e.organization_id = :o AND e.loyalty_event_id = ANY(:ids)
"""
_EMPTY_COUPONS = f"""
UPDATE coupons c SET {emptying_assignments(coupons, "c")}
FROM coupon_books b
WHERE c.organization_id = :o AND c.coupon_id = ANY(:ids)
    AND b.organization_id = c.organization_id AND b.coupon_book_id = c.coupon_book_id
    AND b.type NOT IN ('single', 'codeless')
"""
_EMPTY_MEMBER_COUPONS = f"{_empty(member_coupons, 'coupon_id')} AND t.member_id = :m"

# In this order: events find orders by the external ids, which orders lose. The numbers of the kinds are stored.
ROWS = (
    _Rows(
        _page(events, "loyalty_event_id", "payload -> 'order' ->> 'externalId'"),
        (_EMPTY_EVENTS, _empty(referral_logs, "loyalty_event_id")),
    ),
    _Rows(
        _page(purchase_orders, "order_id"),
        (
            _empty(order_items, "order_id"),
            _empty(purchase_orders, "order_id", external_id=ERASED_EXTERNAL_ID.format("t")),
        ),
    ),
    # An entry has the id of its transaction.
    _Rows(
        _page(ledger_entries, "ledger_transaction_id", owner="wallet_id = :w"),
        (_empty(ledger_transactions, "ledger_transaction_id"),),
    ),
    _Rows(
        _page(coupon_usages, "coupon_usage_id"),
        (_empty(coupon_lots, "coupon_lot_id"), _empty(coupon_usages, "coupon_usage_id")),
    ),
    _Rows(_page(member_coupons, "coupon_id"), (_EMPTY_COUPONS, _EMPTY_MEMBER_COUPONS)),
    _Rows(_page(badge_trackings, "badge_tracking_id"), (_empty(badge_trackings, "badge_tracking_id"),)),
)


def erase_page(db: Connection, member: Member, progress: ErasingProgress, limit: int) -> ErasingProgress | None:
    """Erase the next rows of a locked member, at most `limit` of one kind; return the progress, None if none are left.

    The items of an order are erased with their order.
    """
    rows = ROWS[progress.kind]
    parameters: dict[str, Any] = {"o": member.organization_id, "m": member.member_id, "w": member.wallet_id}
    page = db.execute(text(rows.page), {**parameters, "up_to": progress.up_to, "limit": limit}).all()
    if page:
        external_ids = [row[1] for row in page if row[1] is not None]
        parameters.update(ids=[row[0] for row in page], external_ids=external_ids)
        for statement in rows.statements:
            db.execute(text(statement), parameters)
    if len(page) == limit:
        return ErasingProgress(progress.kind, page[-1][0])
    return ErasingProgress(progress.kind + 1) if progress.kind + 1 < len(ROWS) else None
