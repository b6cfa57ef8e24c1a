"""Erasing a member: personal data goes from every table, by index; amounts, counts and links stay.

Keys of requests (`system_unique_key`) stay, so that a request that comes again is refused and never done again; the
digests of what the requests said go. Other members' records keep what they say of their own members.
"""

from datetime import datetime

from sqlalchemy import Connection, text

from domain.members import Member
from persistence.rows import as_json, columns_of
from persistence.tables.members import members

_MEMBER_COLUMNS = ", ".join(f"m.{column.name}" for column in columns_of(members, Member))

# A worker's processing of the member's events is waited for first, then everything that has the wallet locked, then
# rows that only refer to the member, such as a code or an event being queued. From then on nothing can interfere.
_LOCKS = (
    "SELECT loyalty_event_id FROM queued_events WHERE organization_id = :o AND member_id = :m"
    " ORDER BY place FOR UPDATE",
    "SELECT w.wallet_id FROM members m JOIN wallets w USING (organization_id, wallet_id)"
    " WHERE m.organization_id = :o AND m.member_id = :m FOR UPDATE OF w",
)
_LOCK_MEMBER = f"SELECT {_MEMBER_COLUMNS} FROM members m WHERE m.organization_id = :o AND m.member_id = :m FOR UPDATE"

# The member's own records. An order's external id comes with the events that name it, so that the order can still be
# cancelled by its event.
_OWN = (
    "DELETE FROM queued_events WHERE organization_id = :o AND member_id = :m",
    """
    DELETE FROM failed_import_rows f USING members m
    WHERE m.organization_id = :o AND m.member_id = :m
        AND f.organization_id = m.organization_id AND f.loyalty_member_id = m.loyalty_member_id
    """,
    "DELETE FROM trigger_deliveries WHERE organization_id = :o AND member_id = :m",
    """
    UPDATE events e SET external_id = NULL, description = NULL, reason = NULL, tags = NULL, location = NULL,
        last_error = NULL, request_digest = '', result = 'null',
        payload = coalesce((
            SELECT json_build_object('order', json_build_object('externalId', 'erased-' || p.order_id))
            FROM purchase_orders p
            WHERE p.organization_id = :o AND p.member_id = :m AND p.external_id = e.payload -> 'order' ->> 'externalId'
        ), '{}'),
        status = CASE WHEN e.status IN ('pending', 'running') THEN 'failed' ELSE e.status END
    WHERE e.organization_id = :o AND e.member_id = :m
    """,
    """
    UPDATE order_items i SET description = NULL, custom_attributes = '{}'
    FROM purchase_orders p WHERE p.organization_id = :o AND p.member_id = :m
        AND i.organization_id = p.organization_id AND i.order_id = p.order_id
    """,
    """
    UPDATE purchase_orders SET external_id = 'erased-' || order_id, description = NULL, custom_attributes = '{}',
        type = NULL, tags = '{}', merchant_id = NULL, payment_method = NULL, location_code = NULL, channel = NULL,
        referral_code = NULL, coupons = '{}'
    WHERE organization_id = :o AND member_id = :m
    """,
    """
    UPDATE coupon_usages SET custom_attributes = '{}', external_id = NULL, description = NULL, tags = '{}',
        request_digest = CASE WHEN request_digest IS NULL THEN NULL ELSE CAST('' AS bytea) END
    WHERE organization_id = :o AND member_id = :m
    """,
    """
    UPDATE coupons c SET custom_attributes = '{}'
    FROM member_coupons mc JOIN coupon_books b USING (organization_id, coupon_book_id)
    WHERE mc.organization_id = :o AND mc.member_id = :m
        AND b.type NOT IN ('single', 'codeless')
        AND c.organization_id = mc.organization_id AND c.coupon_id = mc.coupon_id
    """,
    """
    UPDATE coupon_lots l SET custom_attributes = '{}'
    FROM coupon_usages u WHERE u.organization_id = :o AND u.member_id = :m
        AND l.organization_id = u.organization_id AND l.coupon_lot_id = u.coupon_usage_id
    """,
    "UPDATE member_coupons SET custom_attributes = '{}' WHERE organization_id = :o AND member_id = :m",
    """
    UPDATE badge_trackings SET custom_attributes = '{}', external_id = NULL, request_digest = ''
    WHERE organization_id = :o AND member_id = :m
    """,
    """
    UPDATE member_tier_trackings SET external_id = NULL, description = NULL, tags = '{}', request_digest = ''
    WHERE organization_id = :o AND member_id = :m
    """,
    """
    UPDATE mission_trackings SET external_id = NULL, description = NULL, tags = '{}', answer = NULL,
        request_digest = ''
    WHERE organization_id = :o AND member_id = :m AND loyalty_event_id IS NULL
    """,
    """
    UPDATE ledger_transactions t SET external_id = NULL, description = NULL,
        request_digest = CASE WHEN request_digest IS NULL THEN NULL ELSE CAST('' AS bytea) END
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

# Members referred by the member's codes, and records with the codes: enrolments, orders, events, messages.
_CODES = """
SELECT c.referral_code_id, c.code FROM referral_programs p
JOIN referral_codes c USING (organization_id, referral_program_id)
WHERE p.organization_id = :o AND c.member_id = :m ORDER BY 1
"""
_USES_OF_CODES = (
    """
    UPDATE referral_logs l SET custom_attributes = '{}'
    FROM events e WHERE e.organization_id = :o AND e.member_id = :m
        AND l.organization_id = e.organization_id AND l.loyalty_event_id = e.loyalty_event_id
    """,
    """
    UPDATE referral_logs l SET custom_attributes = '{}'
    FROM referral_codes c WHERE c.organization_id = :o AND c.referral_code_id = ANY(:codes)
        AND l.organization_id = c.organization_id AND l.referral_code_id = c.referral_code_id
    """,
)
_NAMED = """
SELECT l.loyalty_event_id, l.referred_member_id FROM referral_logs l
WHERE l.organization_id = :o AND l.referral_code_id = :code_id
UNION SELECT p.loyalty_event_id, p.member_id FROM purchase_orders p
WHERE p.organization_id = :o AND p.referral_code = :code
UNION SELECT NULL, m.member_id FROM members m WHERE m.organization_id = :o AND m.referral_code = :code
"""
_RENAME_CODE = (
    f"""
    UPDATE events e SET payload = CAST(replace(CAST(e.payload AS text), :quoted, :quoted_new) AS json),
        result = CAST(replace(CAST(e.result AS text), :quoted, :quoted_new) AS json)
    FROM ({_NAMED}) named
    WHERE e.organization_id = :o AND e.loyalty_event_id = named.loyalty_event_id
    """,
    f"""
    UPDATE trigger_deliveries d SET payload = CAST(replace(CAST(d.payload AS text), :quoted, :quoted_new) AS json)
    FROM (SELECT DISTINCT member_id FROM ({_NAMED}) AS named(loyalty_event_id, member_id)) named
    WHERE d.organization_id = :o AND d.member_id = named.member_id AND strpos(CAST(d.payload AS text), :quoted) > 0
    """,
    "UPDATE purchase_orders SET referral_code = :new WHERE organization_id = :o AND referral_code = :code",
    "UPDATE members SET referral_code = :new WHERE organization_id = :o AND referral_code = :code",
    "UPDATE referral_codes SET code = :new WHERE organization_id = :o AND referral_code_id = :code_id",
)

# Entries of the audit log: that there are any, by whom and when, stays. Those about erasings contain nothing personal.
_EMPTY_ENTRIES_WITH_CODE = f"""
UPDATE audit_log a SET changes = NULL, salt = NULL, reason = NULL
FROM (SELECT DISTINCT member_id FROM ({_NAMED}) AS named(loyalty_event_id, member_id)) named
WHERE a.organization_id = :o AND a.member_ids @> ARRAY[named.member_id] AND a.salt IS NOT NULL
    AND a.operation_id <> 'eraseMember' AND strpos(CAST(a.changes AS text), :quoted) > 0
RETURNING a.audit_log_id
"""
_EMPTY_ENTRIES = """
UPDATE audit_log SET changes = NULL, salt = NULL, reason = NULL
WHERE organization_id = :o AND member_ids @> ARRAY[CAST(:m AS bigint)]
RETURNING audit_log_id
"""

_ERASE_MEMBER = f"""
UPDATE members m SET loyalty_member_id = :pseudonym, public_loyalty_member_id = NULL, active = false,
    member_type = NULL, channel_acquisition = NULL, referral_code = NULL, profile = '{{}}', custom_attributes = '{{}}',
    notifications = '{{}}', on_chain = '{{"wallets": []}}', updated_at = :now, erased_at = :now
WHERE m.organization_id = :o AND m.member_id = :m
RETURNING {_MEMBER_COLUMNS}
"""


def lock(db: Connection, member: Member) -> Member:
    """The member as it is now, locked, once no other transaction works on the member's records."""
    given = {"o": member.organization_id, "m": member.member_id}
    for statement in _LOCKS:
        db.execute(text(statement), given)
    return Member(*db.execute(text(_LOCK_MEMBER), given).one())


def erase(db: Connection, member: Member, pseudonym: str, now: datetime) -> tuple[Member, list[int]]:
    """Erase a locked member; returns the erased member, and the ids of the audit log entries that are empty now."""
    given = {"o": member.organization_id, "m": member.member_id, "w": member.wallet_id, "now": now}
    codes = [(row[0], row[1]) for row in db.execute(text(_CODES), given)]
    for statement in _USES_OF_CODES:
        db.execute(text(statement), {**given, "codes": [code_id for code_id, _ in codes]})
    emptied: set[int] = set()
    for code_id, code in codes:
        emptied.update(_rename_code(db, member.organization_id, code_id, code))
    for statement in _OWN:
        db.execute(text(statement), given)
    emptied.update(db.execute(text(_EMPTY_ENTRIES), given).scalars())
    erased = Member(*db.execute(text(_ERASE_MEMBER), {**given, "pseudonym": pseudonym}).one())
    return erased, sorted(emptied)


def _rename_code(db: Connection, organization_id: int, code_id: int, code: str) -> list[int]:
    """Replace a code by a meaningless one, wherever it is stored; returns the ids of the audit log entries with it."""
    new = f"erased-{code_id}"
    given = {
        "o": organization_id,
        "code_id": code_id,
        "code": code,
        "new": new,
        "quoted": as_json(code),
        "quoted_new": as_json(new),
    }
    emptied = list(db.execute(text(_EMPTY_ENTRIES_WITH_CODE), given).scalars())
    for statement in _RENAME_CODE:
        db.execute(text(statement), given)
    return emptied
