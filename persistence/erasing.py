"""Erasing a member: personal data is removed from every table, found by indexes; amounts, counts and links stay.

Keys of requests (`system_unique_key`) stay, so that a repeated request is refused and never done again; the digests of
the requests' content are removed. Other members' records keep the data about their own members.
"""

from datetime import datetime

from sqlalchemy import Connection, DefaultClause, LargeBinary, Table, text

from domain.members import Member
from persistence.rows import as_json, columns_of
from persistence.tables.badges import badge_trackings
from persistence.tables.coupons import coupon_locks, coupon_lots, coupon_usages, coupons, member_coupons
from persistence.tables.events import events, order_items, purchase_orders
from persistence.tables.ledger import ledger_transactions
from persistence.tables.members import member_tier_trackings, members
from persistence.tables.missions import mission_trackings
from persistence.tables.offline_allowances import offline_allowances
from persistence.tables.points_payments import points_payments
from persistence.tables.referrals import referral_logs

_EMPTIED_DIGEST = "CASE WHEN {0} IS NULL THEN NULL ELSE CAST('' AS bytea) END"


def _emptied(table: Table, alias: str, **values: str) -> str:
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

# The events of an order keep its external id, in its new form, so that the order can still be cancelled by its event.
_PAYLOADS = """
WITH orders AS MATERIALIZED (
    SELECT jsonb_object_agg(p.external_id, jsonb_build_object(
        'order', jsonb_build_object('externalId', 'erased-' || p.order_id))) AS payloads
    FROM purchase_orders p WHERE p.organization_id = :o AND p.member_id = :m
)"""
_PAYLOAD = "coalesce(CAST(orders.payloads -> (e.payload -> 'order' ->> 'externalId') AS json), '{}')"
_STATUS = "CASE WHEN e.status IN ('pending', 'running') THEN 'failed' ELSE e.status END"

# The member's own records.
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
    f"""
    {_PAYLOADS}
    UPDATE events e SET {_emptied(events, "e", payload=_PAYLOAD, result="'null'", status=_STATUS)}
    FROM orders WHERE e.organization_id = :o AND e.member_id = :m
    """,
    f"""
    UPDATE order_items i SET {_emptied(order_items, "i")}
    FROM purchase_orders p WHERE p.organization_id = :o AND p.member_id = :m
        AND i.organization_id = p.organization_id AND i.order_id = p.order_id
    """,
    f"""
    UPDATE purchase_orders p SET {_emptied(purchase_orders, "p", external_id="'erased-' || p.order_id")}
    WHERE p.organization_id = :o AND p.member_id = :m
    """,
    f"""
    UPDATE coupons c SET {_emptied(coupons, "c")}
    FROM member_coupons mc JOIN coupon_books b USING (organization_id, coupon_book_id)
    WHERE mc.organization_id = :o AND mc.member_id = :m
        AND b.type NOT IN ('single', 'codeless')
        AND c.organization_id = mc.organization_id AND c.coupon_id = mc.coupon_id
    """,
    f"""
    UPDATE coupon_lots l SET {_emptied(coupon_lots, "l")}
    FROM coupon_usages u WHERE u.organization_id = :o AND u.member_id = :m
        AND l.organization_id = u.organization_id AND l.coupon_lot_id = u.coupon_usage_id
    """,
    *(
        f"UPDATE {table.name} t SET {_emptied(table, 't')} WHERE t.organization_id = :o AND t.member_id = :m{condition}"
        for table, condition in (
            (coupon_usages, ""),
            (coupon_locks, ""),
            (member_coupons, ""),
            (badge_trackings, ""),
            (member_tier_trackings, ""),
            (offline_allowances, ""),
            (points_payments, ""),
            (mission_trackings, " AND t.loyalty_event_id IS NULL"),
        )
    ),
    f"""
    UPDATE ledger_transactions t SET {_emptied(ledger_transactions, "t")}
    FROM (
        SELECT e.ledger_transaction_id FROM ledger_entries e WHERE e.organization_id = :o AND e.wallet_id = :w
        UNION SELECT p.ledger_transaction_id FROM ledger_transactions p
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
_USES_OF_REFERRAL_CODES = (
    f"""
    UPDATE referral_logs l SET {_emptied(referral_logs, "l")}
    FROM events e WHERE e.organization_id = :o AND e.member_id = :m
        AND l.organization_id = e.organization_id AND l.loyalty_event_id = e.loyalty_event_id
    """,
    f"""
    UPDATE referral_logs l SET {_emptied(referral_logs, "l")}
    FROM referral_codes c WHERE c.organization_id = :o AND c.referral_code_id = ANY(:codes)
        AND l.organization_id = c.organization_id AND l.referral_code_id = c.referral_code_id
    """,
)
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
    f"""
    UPDATE trigger_deliveries d SET payload = CAST(replace(CAST(d.payload AS text), :quoted, :quoted_new) AS json)
    FROM (SELECT DISTINCT member_id FROM ({_WITH_REFERRAL_CODE}) AS named(loyalty_event_id, member_id)) named
    WHERE d.organization_id = :o AND d.member_id = named.member_id AND strpos(CAST(d.payload AS text), :quoted) > 0
    """,
    "UPDATE purchase_orders SET referral_code = :new WHERE organization_id = :o AND referral_code = :code",
    "UPDATE members SET referral_code = :new WHERE organization_id = :o AND referral_code = :code",
    "UPDATE referral_codes SET code = :new WHERE organization_id = :o AND referral_code_id = :code_id",
)

# Entries of the audit log stay, with their actor and time, but lose the changes and the reason. Entries about erasings
# contain nothing personal.
_EMPTY_ENTRIES_WITH_REFERRAL_CODE = f"""
UPDATE audit_log a SET changes = NULL, salt = NULL, reason = NULL
FROM (SELECT DISTINCT member_id FROM ({_WITH_REFERRAL_CODE}) AS named(loyalty_event_id, member_id)) named
WHERE a.organization_id = :o AND a.member_ids @> ARRAY[named.member_id] AND a.salt IS NOT NULL
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
UPDATE members m SET {_emptied(members, "m", **_ERASED_MEMBER)}
WHERE m.organization_id = :o AND m.member_id = :m
RETURNING {_MEMBER_COLUMNS}
"""


def lock(db: Connection, member: Member) -> Member:
    """Lock the member and its records, waiting for other transactions; return the current member."""
    parameters = {"o": member.organization_id, "m": member.member_id}
    for statement in _LOCKS:
        db.execute(text(statement), parameters)
    return Member(*db.execute(text(_LOCK_MEMBER), parameters).one())


def erase(db: Connection, member: Member, pseudonym: str, now: datetime) -> tuple[Member, list[int]]:
    """Erase a locked member; returns the erased member, and the ids of the audit log entries that were emptied."""
    parameters = {"o": member.organization_id, "m": member.member_id, "w": member.wallet_id, "now": now}
    referral_codes = [(row[0], row[1]) for row in db.execute(text(_REFERRAL_CODES), parameters)]
    for statement in _USES_OF_REFERRAL_CODES:
        db.execute(text(statement), {**parameters, "codes": [code_id for code_id, _ in referral_codes]})
    emptied_ids: set[int] = set()
    for code_id, code in referral_codes:
        emptied_ids.update(_rename_referral_code(db, member.organization_id, code_id, code))
    for statement in _OWN_RECORDS:
        db.execute(text(statement), parameters)
    emptied_ids.update(db.execute(text(_EMPTY_ENTRIES), parameters).scalars())
    erased = Member(*db.execute(text(_ERASE_MEMBER), {**parameters, "pseudonym": pseudonym}).one())
    return erased, sorted(emptied_ids)


def _rename_referral_code(db: Connection, organization_id: int, code_id: int, code: str) -> list[int]:
    """Replace a referral code by a meaningless one in all records; returns the ids of the emptied audit log entries."""
    new = f"erased-{code_id}"
    parameters = {
        "o": organization_id,
        "code_id": code_id,
        "code": code,
        "new": new,
        "quoted": as_json(code),
        "quoted_new": as_json(new),
    }
    emptied_ids = list(db.execute(text(_EMPTY_ENTRIES_WITH_REFERRAL_CODE), parameters).scalars())
    for statement in _RENAME_REFERRAL_CODE:
        db.execute(text(statement), parameters)
    return emptied_ids
