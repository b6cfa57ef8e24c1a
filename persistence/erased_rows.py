"""The rows of a member of which there may be many, such as events and orders: they are erased in pages.

Each page is found by an index, and takes a short time, however many rows the member or the organization has. The last
kinds are records of other members in which the member's referral codes are replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from sqlalchemy import Connection, DefaultClause, LargeBinary, RowMapping, Table, text

from domain.members import Member
from persistence.orders import ERASED_EXTERNAL_ID, RENAME_AWAITED_ORDERS
from persistence.rows import as_json
from persistence.tables.badges import badge_trackings
from persistence.tables.coupons import coupon_lots, coupon_usages, coupons, member_coupons
from persistence.tables.events import events, order_items, purchase_orders
from persistence.tables.ledger import ledger_entries, ledger_transactions
from persistence.tables.members import members
from persistence.tables.referrals import referral_logs

# A referral code of an erased member is this and its id.
ERASED_CODE = "erased-"

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
    """All kinds of rows before number `kind` are erased, and of this kind the rows with ids up to `up_to`.

    `referral_codes` has the former texts of the member's referral codes by their ids.
    """

    kind: int = 0
    up_to: int = 0
    referral_codes: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Rows:
    """A kind of rows: the SQL `page` finds the next rows, and the SQL `statements` erase them.

    In all SQL of this module, `:o` is the organization, `:m` the member, and `:w` the wallet of the member.

    The statements read each column of the page as a list: `ids`, the `external_ids` of the orders of events, and for
    uses of referral codes the `event_ids`, the `user_ids`, which are members, and the codes. A statement that returns
    rows returns the ids of the audit log entries that it has emptied.
    """

    page: str
    statements: tuple[str, ...]


def _page(table: Table, id_name: str, external_id: str = "NULL", is_of_member: str = "member_id = :m") -> str:
    """SQL that finds the next rows of a member, ordered by id; `external_id` and `is_of_member` are SQL expressions."""
    return f"""
    SELECT {id_name} AS id, {external_id} AS external_id FROM {table.name}
    WHERE organization_id = :o AND {is_of_member} AND {id_name} > :up_to ORDER BY {id_name} LIMIT :limit
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

# The uses in a page, each with the new code. In JSON, codes are in quotes.
_USES = """
unnest(
    CAST(:ids AS bigint[]), CAST(:event_ids AS bigint[]),
    CAST(:quoted_codes AS text[]), CAST(:new_codes AS text[]), CAST(:quoted_new_codes AS text[])
) AS used (id, event_id, quoted_code, new_code, quoted_new_code)
"""
_USED_CODES = f"(SELECT DISTINCT quoted_code, quoted_new_code FROM {_USES}) AS used"
_REPLACED = "CAST(replace(CAST({0} AS text), used.quoted_code, used.quoted_new_code) AS json)"
_REPLACE_IN_EVENTS = f"""
UPDATE events e SET payload = {_REPLACED.format("e.payload")}, result = {_REPLACED.format("e.result")}
FROM {_USES} WHERE e.organization_id = :o AND e.loyalty_event_id = used.event_id
"""
_REPLACE_IN_DELIVERIES = f"""
UPDATE trigger_deliveries d SET payload = {_REPLACED.format("d.payload")}
FROM {_USED_CODES}
WHERE d.organization_id = :o AND d.member_id = ANY(CAST(:user_ids AS bigint[]))
    AND strpos(CAST(d.payload AS text), used.quoted_code) > 0
"""
# Entries of the audit log stay, with their actor and time, but lose the changes and the reason. Entries about erasings
# contain nothing personal.
_EMPTY_AUDIT_ENTRIES = f"""
UPDATE audit_log a SET changes = NULL, salt = NULL, reason = NULL
FROM {_USED_CODES}
WHERE a.organization_id = :o AND a.member_ids && CAST(:user_ids AS bigint[]) AND a.salt IS NOT NULL
    AND a.operation_id <> 'eraseMember' AND strpos(CAST(a.changes AS text), used.quoted_code) > 0
RETURNING a.audit_log_id
"""


def _uses(columns: str, source: str, statement: str) -> _Rows:
    """The erasing of records that contain a referral code of the member.

    `source` joins the records to the table `codes`; `statement` erases the code in the records of a page.
    """
    page = f"""
    SELECT {columns}, codes.referral_code_id FROM
        unnest(CAST(:code_ids AS bigint[]), CAST(:codes AS text[])) AS codes (referral_code_id, code) JOIN {source}
    LIMIT :limit
    """
    return _Rows(page, (_EMPTY_AUDIT_ENTRIES, _REPLACE_IN_DELIVERIES, _REPLACE_IN_EVENTS, statement))


def _records_with_code(table: Table, id_name: str, event_id: str) -> _Rows:
    """The erasing of the referral code in the column `referral_code` of a table.

    A page replaces the code, so no later page finds its records again.
    """
    return _uses(
        f"t.{id_name} AS id, {event_id} AS event_id, t.member_id AS user_id",
        f"{table.name} t ON t.organization_id = :o AND t.referral_code = codes.code",
        f"""
        UPDATE {table.name} t SET referral_code = used.new_code
        FROM {_USES} WHERE t.organization_id = :o AND t.{id_name} = used.id
        """,
    )


# In this order: events find orders by the external ids, which orders lose.
OWN_ROWS = (
    _Rows(
        _page(events, "loyalty_event_id", "payload -> 'order' ->> 'externalId'"),
        (_EMPTY_EVENTS, _empty(referral_logs, "loyalty_event_id")),
    ),
    _Rows(
        _page(purchase_orders, "order_id"),
        (
            f"{RENAME_AWAITED_ORDERS} AND t.organization_id = :o AND p.organization_id = :o AND p.order_id = ANY(:ids)",
            _empty(order_items, "order_id"),
            _empty(purchase_orders, "order_id", external_id=ERASED_EXTERNAL_ID.format("t")),
        ),
    ),
    # An entry has the id of its transaction.
    _Rows(
        _page(ledger_entries, "ledger_transaction_id", is_of_member="wallet_id = :w"),
        (_empty(ledger_transactions, "ledger_transaction_id"),),
    ),
    _Rows(
        _page(coupon_usages, "coupon_usage_id"),
        (_empty(coupon_lots, "coupon_lot_id"), _empty(coupon_usages, "coupon_usage_id")),
    ),
    _Rows(_page(member_coupons, "coupon_id"), (_EMPTY_COUPONS, _EMPTY_MEMBER_COUPONS)),
    _Rows(_page(badge_trackings, "badge_tracking_id"), (_empty(badge_trackings, "badge_tracking_id"),)),
)
USES_OF_REFERRAL_CODES = (
    _uses(
        "l.referral_log_id AS id, l.loyalty_event_id AS event_id, l.referred_member_id AS user_id",
        """
        referral_logs l ON l.organization_id = :o AND l.referrer_member_id = :m
            AND l.referral_code_id = codes.referral_code_id
        WHERE l.referral_log_id > :up_to ORDER BY l.referral_log_id
        """,
        _empty(referral_logs, "referral_log_id"),
    ),
    _records_with_code(purchase_orders, "order_id", "t.loyalty_event_id"),
    _records_with_code(members, "member_id", "NULL"),
)
# The numbers of the kinds are stored.
ROWS = (*OWN_ROWS, *USES_OF_REFERRAL_CODES)


class ErasedPage(NamedTuple):
    """The progress after a page of rows was erased, None if no rows are left.

    `emptied_ids` are the ids of the entries of the audit log that were emptied.
    """

    progress: ErasingProgress | None
    emptied_ids: list[int]


def erase_page(db: Connection, member: Member, progress: ErasingProgress, limit: int) -> ErasedPage:
    """Erase the next rows of a locked member, at most `limit` of one kind.

    The items of an order are erased with their order.
    """
    rows = ROWS[progress.kind]
    parameters: dict[str, Any] = {"o": member.organization_id, "m": member.member_id, "w": member.wallet_id}
    codes = progress.referral_codes
    of_page = {"up_to": progress.up_to, "limit": limit, "code_ids": list(codes), "codes": list(codes.values())}
    page = db.execute(text(rows.page), {**parameters, **of_page}).mappings().all()
    emptied_ids: list[int] = []
    if page:
        parameters.update(_row_parameters(page, codes))
        for statement in rows.statements:
            result = db.execute(text(statement), parameters)
            if result.returns_rows:
                emptied_ids += result.scalars()
    if len(page) == limit:
        return ErasedPage(replace(progress, up_to=page[-1]["id"]), emptied_ids)
    # The kinds after `OWN_ROWS` only contain the member's referral codes: skip them if the member has none.
    has_more_kinds = progress.kind + 1 < len(ROWS if codes else OWN_ROWS)
    next_progress = replace(progress, kind=progress.kind + 1, up_to=0) if has_more_kinds else None
    return ErasedPage(next_progress, emptied_ids)


def _row_parameters(page: Sequence[RowMapping], referral_codes: Mapping[int, str]) -> dict[str, Any]:
    """The columns of a page as the lists that the statements read."""
    parameters = {f"{name}s": [row[name] for row in page] for name in page[0]}
    code_ids = parameters.get("referral_code_ids", [])
    new_codes = [f"{ERASED_CODE}{code_id}" for code_id in code_ids]
    return {
        **parameters,
        "quoted_codes": [as_json(referral_codes[code_id]) for code_id in code_ids],
        "new_codes": new_codes,
        "quoted_new_codes": [as_json(code) for code in new_codes],
    }
