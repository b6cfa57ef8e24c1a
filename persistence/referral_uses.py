"""The queries of referrals during tracking: usable codes, and their uses."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from sqlalchemy import Connection

from domain.referrals import CodeUse, ReferralCode, ReferralLog, ReferralUsageState
from persistence.connections import fetch_rows
from persistence.rows import add_all, change_all, fields_of, update_by_id
from persistence.tables.referrals import referral_codes, referral_logs

_CODE_COLUMNS = ", ".join(f"c.{name}" for name in fields_of(ReferralCode))
_LOG_COLUMNS = ", ".join(f"l.{name}" for name in fields_of(ReferralLog))

# The codes in requests, the codes of orders, and the codes with which members were enrolled. Then the codes with which
# the owners of these codes were enrolled, and so on: an event about an owner may be a referral, too.
_USABLE = """
WITH RECURSIVE usable AS (
    (SELECT c.referral_code_id, c.member_id, 1 AS distance FROM referral_codes c
     WHERE c.organization_id = %(organization)s AND c.code = ANY(%(codes)s::text[])
     UNION
     SELECT c.referral_code_id, c.member_id, 1 FROM purchase_orders o
     JOIN referral_codes c ON c.organization_id = o.organization_id AND c.code = o.referral_code
     WHERE o.organization_id = %(organization)s AND o.external_id = ANY(%(orders)s::text[])
     UNION
     SELECT c.referral_code_id, c.member_id, 1 FROM members m
     JOIN referral_codes c ON c.organization_id = m.organization_id AND c.code = m.referral_code
     WHERE m.organization_id = %(organization)s
       AND (m.loyalty_member_id = ANY(%(names)s::text[]) OR m.member_id = ANY(%(members)s::bigint[])))
    UNION
    SELECT c.referral_code_id, c.member_id, u.distance + 1 FROM usable u
    JOIN members m ON m.organization_id = %(organization)s AND m.member_id = u.member_id
    JOIN referral_codes c ON c.organization_id = %(organization)s AND c.code = m.referral_code
    WHERE u.distance < %(distance)s
)
SELECT DISTINCT referral_code_id, member_id FROM usable
"""


_WALLETS_OF_REFERRERS = """
WITH RECURSIVE referrers AS (
    SELECT m.member_id, m.wallet_id, m.referral_code, 0 AS distance FROM members m
    WHERE m.organization_id = %(organization)s AND m.wallet_id = ANY(%(wallets)s::bigint[])
    UNION
    SELECT m.member_id, m.wallet_id, m.referral_code, r.distance + 1 FROM referrers r
    JOIN referral_codes c ON c.organization_id = %(organization)s AND c.code = r.referral_code
    JOIN members m ON m.organization_id = %(organization)s AND m.member_id = c.member_id
    WHERE r.distance < %(distance)s
)
SELECT DISTINCT wallet_id FROM referrers WHERE distance > 0
"""

_CODES = f"""
SELECT {_CODE_COLUMNS}, (SELECT coalesce(sum(o.total_usages), 0)::bigint FROM referral_codes o
    WHERE o.organization_id = %s AND o.referral_program_id = c.referral_program_id
      AND o.member_id = c.member_id)
FROM referral_codes c WHERE c.organization_id = %s AND c.referral_code_id = ANY(%s::bigint[])
"""

_USES_OF_REFERRED = """
SELECT l.referral_code_id, l.referred_member_id, count(*) FROM referral_logs l
WHERE l.organization_id = %s AND l.referral_code_id = ANY(%s::bigint[]) AND l.referred_member_id = ANY(%s::bigint[])
  AND l.reversal_loyalty_event_id IS NULL
GROUP BY 1, 2
"""

_LOGS_OF_EVENTS = f"""
SELECT {_LOG_COLUMNS} FROM referral_logs l
WHERE l.organization_id = %s AND l.loyalty_event_id = ANY(%s::bigint[]) AND l.reversal_loyalty_event_id IS NULL
ORDER BY l.referral_log_id DESC
"""

_CHANGE_COUNTS = update_by_id(
    referral_codes, "referral_code_id", "updated_at", total_usages="t.total_usages + x.total_usages"
)
_REVERSE = update_by_id(referral_logs, "referral_log_id", "reversal_loyalty_event_id", "updated_at")


def find_usable(
    db: Connection,
    organization_id: int,
    *,
    codes: Collection[str] = (),
    orders: Collection[str] = (),
    loyalty_member_ids: Collection[str] = (),
    member_ids: Collection[int] = (),
    max_distance: int,
) -> dict[int, int]:
    """The ids of the codes that may be used, each with the id of its owner; one statement.

    At distance 1 they are the codes equal to one of `codes`, the codes of `orders` (external ids), and the codes with
    which the members were enrolled; at each further distance, up to `max_distance`, the codes with which the owners of
    the previous codes were enrolled.
    """
    values = {
        "organization": organization_id,
        "codes": list(codes),
        "orders": list(orders),
        "names": list(loyalty_member_ids),
        "members": list(member_ids),
        "distance": max_distance,
    }
    return dict(map(tuple, fetch_rows(db, _USABLE, values)))


def find_wallets_of_referrers(
    db: Connection, organization_id: int, wallet_ids: Collection[int], max_distance: int
) -> list[int]:
    """The wallets of the referrers of the members with these wallets, of the referrers of these referrers, and so on.

    The referrer of a member owns the code with which the member was enrolled. `max_distance` is the maximum number of
    steps from a member to a referrer.
    """
    values = {"organization": organization_id, "wallets": list(wallet_ids), "distance": max_distance}
    return list(db.exec_driver_sql(_WALLETS_OF_REFERRERS, values).scalars())


def find_logs_of_events(db: Connection, organization_id: int, event_ids: Collection[int]) -> list[ReferralLog]:
    """The unreversed logs of these events, newest first."""
    return [ReferralLog(*row) for row in fetch_rows(db, _LOGS_OF_EVENTS, (organization_id, list(event_ids)))]


def load_state(
    db: Connection, organization_id: int, code_ids: Collection[int], member_ids: Collection[int]
) -> ReferralUsageState:
    """Load the codes with these ids, the uses of all codes of their owners, and the uses by these referred members.

    The owners of the codes must be locked. Two statements.
    """
    if not code_ids:
        return ReferralUsageState(codes={}, use_counts_by_referrer={}, use_counts_by_pair={})
    codes, uses_of_referrers = {}, {}
    for *code_values, uses in fetch_rows(db, _CODES, (organization_id, organization_id, list(code_ids))):
        code = ReferralCode(*code_values)
        codes[code.referral_code_id] = code
        uses_of_referrers[code.referral_program_id, code.member_id] = uses
    rows = fetch_rows(db, _USES_OF_REFERRED, (organization_id, list(code_ids), list(member_ids)))
    uses_by_referred = {(code_id, referred_member_id): uses for code_id, referred_member_id, uses in rows}
    return ReferralUsageState(codes, uses_of_referrers, uses_by_referred)


def add_logs(db: Connection, uses: Iterable[CodeUse], now: datetime) -> None:
    """Store uses of codes."""
    rows = [
        {
            "organization_id": use.code.organization_id,
            "referral_code_id": use.code.referral_code_id,
            "referral_program_id": use.code.referral_program_id,
            "referrer_member_id": use.code.member_id,
            "referred_member_id": use.referred_member_id,
            "loyalty_event_id": use.loyalty_event_id,
            "system_unique_key": use.system_unique_key,
            "custom_attributes": use.custom_attributes,
            "referrer_points": use.referrer_points,
            "created_at": now,
            "updated_at": now,
        }
        for use in uses
    ]
    add_all(db, referral_logs, rows)


def reverse_logs(db: Connection, organization_id: int, reversals: Mapping[int, int], now: datetime) -> None:
    """Mark logs as reversed; `reversals` maps the id of each log to the id of the event that reversed it."""
    rows = [
        {"referral_log_id": log_id, "reversal_loyalty_event_id": event_id, "updated_at": now}
        for log_id, event_id in reversals.items()
    ]
    change_all(db, _REVERSE, organization_id, rows)


def change_usage_counts(db: Connection, organization_id: int, changes: Mapping[int, int], now: datetime) -> None:
    """Add `changes` to the numbers of usages of codes, by code id."""
    rows = [
        {"referral_code_id": code_id, "total_usages": change, "updated_at": now}
        for code_id, change in changes.items()
        if change
    ]
    change_all(db, _CHANGE_COUNTS, organization_id, rows)
