"""Facts of timelines: the rows of each kind, and the queries that find what gave the points."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, text

from domain.members import Member
from domain.timeline.contacts import MessageFact, ProfileFact
from domain.timeline.events import EventFact, MissionFact, ReferralFact, TierFact
from domain.timeline.holdings import BadgeFact, CouponFact, CouponLockFact
from domain.timeline.points import PointsFact, PointsReleaseFact
from domain.timeline.rows import (
    BADGE,
    COUPON,
    COUPON_LOCK,
    EVENT,
    MESSAGE,
    MISSION,
    POINTS,
    POINTS_RELEASE,
    PROFILE,
    REFERRAL,
    TIER,
)
from persistence.rows import AnyRow, as_json

# The events `e` with these ids, each looked up individually: for several ids the planner may read the whole index by
# members instead.
_EVENTS = """unnest(CAST(:ids AS bigint[])) AS x(id)
        CROSS JOIN LATERAL (SELECT * FROM events WHERE organization_id = :o AND loyalty_event_id = x.id OFFSET 0) e"""

# By the name of the facts: their class, and the query of the rows with some ids. The columns of the query are in the
# order of the fields.
_FACTS: Mapping[str, tuple[Any, str]] = {
    EVENT: (
        EventFact,
        f"""
        SELECT e.loyalty_event_id, e.created_at, e.external_event_date, e.loyalty_event_key, e.event_type,
            y.name, coalesce(e.payload -> 'order' ->> 'externalId', (
                -- The cancellation of an event has no order of its own.
                SELECT r.payload -> 'order' ->> 'externalId' FROM events r
                WHERE r.organization_id = :o AND r.loyalty_event_id = e.reverted_loyalty_event_id
            )), e.payload -> 'order' ->> 'total', e.description,
            e.system_unique_key, e.status, e.evaluation_status, e.reversal_loyalty_event_id,
            e.reverted_loyalty_event_id, e.last_error ->> 'title', e.result -> 'effects',
            e.actor
        FROM {_EVENTS}
        LEFT JOIN custom_event_types y ON y.organization_id = :o AND y.api_code = e.event_type
        """,
    ),
    POINTS: (
        PointsFact,
        """
        SELECT t.ledger_transaction_id, t.created_at, t.external_event_date, t.ledger_account_id, a.ledger_account_key,
            a.name, t.transaction_type, t.status, t.amount, t.reserved_amount, t.captured_at,
            n.moved, n.balance, t.is_expiry, t.is_extension,
            t.request_digest IS NOT NULL, t.system_unique_key, t.description,
            t.from_wallet_id = :w, t.reverted_ledger_transaction_id, t.reversal_ledger_transaction_id,
            t.loyalty_event_id, t.has_wait, EXISTS (
                SELECT FROM ledger_transactions r WHERE r.organization_id = :o
                    AND r.ledger_transaction_id = t.reverted_ledger_transaction_id AND r.reserved_amount IS NOT NULL
                    AND (r.captured_at IS NULL OR r.captured_at > t.created_at)
            )
        FROM (
            SELECT *, available_at IS NOT NULL OR available_on IS NOT NULL AS has_wait FROM ledger_transactions
        ) t
        JOIN ledger_accounts a USING (organization_id, ledger_account_id)
        CROSS JOIN LATERAL (
            SELECT sum(n.amount) AS moved,
                (array_agg(n.updated_balance ORDER BY n.entry_index DESC) FILTER (WHERE NOT n.is_overdraft))[1]
                    AS balance
            FROM ledger_entries n WHERE n.organization_id = :o
                AND n.ledger_transaction_id = t.ledger_transaction_id AND n.wallet_id = :w
                -- The release of a mint that waited has a row of its own.
                AND (n.entry_index = 0 OR NOT t.has_wait)
        ) n
        WHERE t.organization_id = :o AND t.ledger_transaction_id = ANY(:ids)
        """,
    ),
    POINTS_RELEASE: (
        PointsReleaseFact,
        f"""
        SELECT e.loyalty_event_id, e.created_at, e.external_event_date, e.loyalty_event_key, a.ledger_account_id,
            a.ledger_account_key, a.name, CAST(e.payload ->> 'amount' AS numeric), ARRAY(
                SELECT CAST(lot ->> 'ledgerTransactionId' AS bigint) FROM json_array_elements(e.payload -> 'lots') lot
            ), e.cause_loyalty_event_id, (
                SELECT min(l.actor) FROM audit_log l WHERE l.organization_id = :o
                    AND l.request_id = e.e2e_tracking_id AND l.operation_id = 'releaseLedgerTransactions'
                    AND l.entity_type = 'ledger-transaction'
                    AND l.entity_id = e.payload #>> '{{lots,0,ledgerTransactionId}}'
            )
        FROM {_EVENTS}
        JOIN ledger_accounts a ON a.organization_id = :o
            AND a.ledger_account_key = CAST(e.payload ->> 'ledgerAccountKey' AS uuid)
        """,
    ),
    COUPON: (
        CouponFact,
        """
        SELECT u.coupon_usage_id, u.created_at, u.coupon_usage_key, u.coupon_book_id, b.coupon_book_key, b.name,
            u.amount_assigned, u.amount_used, u.amount_discounted, u.reverted_usage_id, u.reversal_usage_id,
            u.description, u.loyalty_event_id
        FROM coupon_usages u JOIN coupon_books b USING (organization_id, coupon_book_id)
        WHERE u.organization_id = :o AND u.coupon_usage_id = ANY(:ids)
        """,
    ),
    COUPON_LOCK: (
        CouponLockFact,
        """
        SELECT l.coupon_lock_id, l.created_at, l.coupon_lock_key, l.coupon_book_id, b.coupon_book_key, b.name,
            l.expires_at, l.ended_at, l.coupon_usage_id
        FROM coupon_locks l JOIN coupon_books b USING (organization_id, coupon_book_id)
        WHERE l.organization_id = :o AND l.coupon_lock_id = ANY(:ids)
        """,
    ),
    BADGE: (
        BadgeFact,
        """
        SELECT k.badge_tracking_id, k.created_at, k.badge_tracking_key, b.badge_id, b.badge_key, b.name,
            k.amount_assigned, k.updated_total_assigned, k.reverted_badge_tracking_id, k.reversal_badge_tracking_id,
            k.loyalty_event_id
        FROM badge_trackings k JOIN badges b USING (organization_id, badge_id)
        WHERE k.organization_id = :o AND k.badge_tracking_id = ANY(:ids)
        """,
    ),
    TIER: (
        TierFact,
        """
        SELECT e.loyalty_event_id, e.created_at, e.external_event_date, e.loyalty_event_key,
            CAST(e.payload ->> 'loyaltyProgramId' AS bigint), p.name, o.name, o.loyalty_tier_id, n.name,
            n.loyalty_tier_id, coalesce(CAST(e.payload ->> 'isManual' AS boolean), false), e.payload ->> 'expiresAt',
            e.reason, e.cause_loyalty_event_id, c.event_type, (
                SELECT min(a.actor) FROM audit_log a WHERE a.organization_id = :o
                    AND a.request_id = e.e2e_tracking_id AND a.entity_type = 'member-tier'
                    AND e.cause_loyalty_event_id IS NULL
            )
        FROM events e
        LEFT JOIN loyalty_programs p ON p.organization_id = e.organization_id
            AND p.loyalty_program_id = CAST(e.payload ->> 'loyaltyProgramId' AS bigint)
        LEFT JOIN loyalty_tiers o ON o.organization_id = e.organization_id
            AND o.loyalty_tier_id = CAST(e.payload ->> 'previousLoyaltyTierId' AS bigint)
        LEFT JOIN loyalty_tiers n ON n.organization_id = e.organization_id
            AND n.loyalty_tier_id = CAST(e.payload ->> 'loyaltyTierId' AS bigint)
        LEFT JOIN events c ON c.organization_id = e.organization_id AND c.loyalty_event_id = e.cause_loyalty_event_id
        WHERE e.organization_id = :o AND e.loyalty_event_id = ANY(:ids)
        """,
    ),
    MISSION: (
        MissionFact,
        """
        SELECT k.mission_tracking_id, k.created_at, k.happened_at, m.mission_id, m.mission_key, m.name, k.counted,
            k.achieved, k.goal_count, k.description, k.reversal_loyalty_event_id, k.loyalty_event_id,
            k.actor, k.is_imported
        FROM mission_trackings k JOIN missions m USING (organization_id, mission_id)
        WHERE k.organization_id = :o AND k.mission_tracking_id = ANY(:ids)
        """,
    ),
    REFERRAL: (
        ReferralFact,
        """
        SELECT r.referral_log_id, r.created_at, r.referral_program_id, p.name, c.code, r.referrer_member_id = :m,
            m.member_id, m.loyalty_member_id, r.reversal_loyalty_event_id, r.loyalty_event_id
        FROM referral_logs r
        JOIN referral_programs p USING (organization_id, referral_program_id)
        JOIN referral_codes c USING (organization_id, referral_code_id)
        JOIN members m ON m.organization_id = r.organization_id AND m.member_id =
            CASE WHEN r.referrer_member_id = :m THEN r.referred_member_id ELSE r.referrer_member_id END
        WHERE r.organization_id = :o AND r.referral_log_id = ANY(:ids)
        """,
    ),
    PROFILE: (
        ProfileFact,
        """
        SELECT a.audit_log_id, coalesce(a.test_clock, a.created_at), a.actor, a.user_id, a.operation_id, a.reason,
            ARRAY(SELECT json_object_keys(a.changes)), a.changes IS NULL
        FROM audit_log a WHERE a.organization_id = :o AND a.audit_log_id = ANY(:ids)
        """,
    ),
    MESSAGE: (
        MessageFact,
        """
        SELECT d.trigger_delivery_id, d.created_at, d.trigger_delivery_key, d.type, d.status, d.attempts,
            d.delivered_at, d.last_status_code, t.trigger_id, t.name
        FROM trigger_deliveries d JOIN triggers t USING (organization_id, trigger_id)
        WHERE d.organization_id = :o AND d.trigger_delivery_id = ANY(:ids)
        """,
    ),
}


_QUERIES = {kind: text(query) for kind, (_, query) in _FACTS.items()}


def find_facts(db: Connection, member: Member, facts_name: str, ids: Collection[int]) -> dict[int, Any]:
    """The facts of timeline rows with these ids, by id; `facts_name`, a key of `_FACTS`, is the kind of the rows."""
    fact, _ = _FACTS[facts_name]
    values = {"o": member.organization_id, "m": member.member_id, "w": member.wallet_id, "ids": list(ids)}
    # The first column of each query is the id of the row.
    return {id_: fact(id_, *columns) for id_, *columns in db.execute(_QUERIES[facts_name], values)}


# The transactions of events, with the keys from which their source can be found.
_TRANSACTIONS_OF_EVENTS = text("""
SELECT t.ledger_transaction_id, t.loyalty_event_id, t.system_unique_key FROM ledger_transactions t
WHERE t.organization_id = :o AND t.loyalty_event_id = ANY(:ids)
ORDER BY t.ledger_transaction_id
""")

_RESULTS_OF_EVENTS = text(f"""
SELECT e.loyalty_event_id, e.result -> 'effects', e.result -> 'missions'
FROM {_EVENTS}
""")

_BOOKS_OF_USAGES = text("""
SELECT u.coupon_usage_key, b.name FROM coupon_usages u JOIN coupon_books b USING (organization_id, coupon_book_id)
WHERE u.organization_id = :o AND u.coupon_usage_key = ANY(CAST(:keys AS uuid[]))
""")

_MISSION_NAMES = text("""
SELECT m.mission_key, m.name FROM missions m WHERE m.organization_id = :o AND m.mission_key = ANY(CAST(:keys AS uuid[]))
""")


def find_transactions_of_events(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[AnyRow]:
    """All transactions of these events: rows of the id, the event's id and the systemUniqueKey."""
    return list(db.execute(_TRANSACTIONS_OF_EVENTS, {"o": organization_id, "ids": list(event_ids)}).all())


def find_results_of_events(
    db: Connection, organization_id: int, event_ids: Collection[int]
) -> dict[int, tuple[Any, Any]]:
    """The stored outcomes of events, by event id: effects and missions, each None if they were removed."""
    rows = db.execute(_RESULTS_OF_EVENTS, {"o": organization_id, "ids": list(event_ids)})
    return {event_id: (effects, missions) for event_id, effects, missions in rows}


def find_book_names_of_usages(db: Connection, organization_id: int, usage_keys: Collection[str]) -> dict[str, str]:
    """The names of the coupon books of these usages, by the key of the usage."""
    rows = db.execute(_BOOKS_OF_USAGES, {"o": organization_id, "keys": list(usage_keys)})
    return {str(key): name for key, name in rows}


def find_names_of_missions(db: Connection, organization_id: int, keys: Collection[str]) -> dict[str, str]:
    """The names of missions, by their keys."""
    rows = db.execute(_MISSION_NAMES, {"o": organization_id, "keys": list(keys)})
    return {str(key): name for key, name in rows}


_ACTORS = text("""
SELECT a.entity_type, a.entity_id, a.actor FROM audit_log a
JOIN json_to_recordset(CAST(:entities AS json)) AS x(entity_type text, entity_id text)
    ON a.entity_type = x.entity_type AND a.entity_id = x.entity_id
WHERE a.organization_id = :o ORDER BY a.audit_log_id DESC
""")


def find_actors(
    db: Connection, organization_id: int, entities: Collection[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """The callers whose requests created these records, by the type and id that the audit log has for a record."""
    rows_of_entities = as_json([{"entity_type": kind, "entity_id": entity_id} for kind, entity_id in entities])
    rows = db.execute(_ACTORS, {"o": organization_id, "entities": rows_of_entities})
    # The oldest entry, which is read last and replaces the others, is that of the creation.
    return {(kind, entity_id): actor for kind, entity_id, actor in rows}
