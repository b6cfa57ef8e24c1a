"""The time of each report over many events and ledger transactions: `python -m bench.reports [MILLIONS]`.

The database writes the records itself, and their totals as a worker leaves them; the newest records are noted by the
triggers and not moved yet. In the end all figures are compared with a count of the records.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from sqlalchemy import Engine, text

from bench.databases import new_database
from domain.reports import days_of, report_range
from handlers.services.organizations.create import create_organization
from handlers.services.verify import verify_reports
from persistence import transactions
from persistence.engine import autocommit
from persistence.reports import books, figures, wallets
from persistence.reports.records import COUPONS, EVENTS, MEMBERS, MINTS, RECORDS
from persistence.reports.totals import totals_of, wallet_totals_of

MEMBERS_EACH_MILLION, DAYS, CHUNK, ROUNDS = 10_000, 730, 250_000, 5
# Changes that a worker has not moved yet; coupons are a tenth of the events.
PENDING, BOOKS, MISSIONS = 5_000, 200, 10
LAST = datetime(2026, 11, 22, tzinfo=UTC)

_FILL_MEMBERS = """
WITH made AS (
    INSERT INTO wallets (organization_id, wallet_id, wallet_key, ledger_id, created_at)
    SELECT :org, n, gen_random_uuid(), :ledger, :last - n % 730 * interval '1 day' FROM generate_series(1, :members) n
)
INSERT INTO members (organization_id, member_id, loyalty_member_id, wallet_id, wallet_key, created_at, updated_at)
SELECT :org, n, 'member-' || n, n, gen_random_uuid(), :last - n % 730 * interval '1 day', :last
FROM generate_series(1, :members) n
"""

# Moments in order through the days; members in random order.
_AT = ":last - :days * interval '1 day' * (1 - CAST(n AS float) / :count)"

_FILL_EVENTS = f"""
INSERT INTO events (organization_id, loyalty_event_id, loyalty_event_key, member_id, event_type, system_unique_key,
    request_digest, payload, evaluation_status, status, limit_counters, result, created_at, updated_at)
SELECT :org, n, gen_random_uuid(), 1 + mod(CAST(n AS bigint) * 7919, :members), 'member-purchase-order-created',
    'event-' || n, '', '{{}}', 1, 'success', '[]', '{{}}', {_AT}, {_AT}
FROM generate_series(:first, :until) n
"""

_FILL_TRANSACTIONS = f"""
INSERT INTO ledger_transactions (organization_id, ledger_transaction_id, ledger_account_id, transaction_type, status,
    amount, system_unique_key, tags, to_wallet_id, created_at, updated_at)
SELECT :org, n, :account, 1, 1, 1 + mod(n, 97), 'mint-' || n, CASE WHEN mod(n, 10) = 0 THEN ARRAY['spring'] END,
    1 + mod(CAST(n AS bigint) * 7919, :members), {_AT}, {_AT}
FROM generate_series(:first, :until) n
"""

_FILL_ENTRIES = """
INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id, amount)
SELECT :org, n, side, :account, CASE WHEN side = 1 THEN 1 + mod(CAST(n AS bigint) * 7919, :members) END,
    (1 + mod(n, 97)) * (2 * side - 1)
FROM generate_series(:first, :until) n CROSS JOIN (VALUES (0), (1)) sides(side)
"""


_FILL_BOOKS = """
INSERT INTO coupon_books (organization_id, coupon_book_id, coupon_book_key, publishing_status, type, name, tags,
    discount_amount, discount_type, created_at, updated_at)
OVERRIDING SYSTEM VALUE
SELECT :org, n, gen_random_uuid(), 'published', 'codeless', 'Book ' || n, CASE WHEN mod(n, 10) = 0 THEN ARRAY['spring']
    ELSE '{}' END, 1 + mod(n, 5), 'amount', :last - :days * interval '1 day', :last
FROM generate_series(1, :books) n
"""

_FILL_USAGES = f"""
INSERT INTO coupon_usages (organization_id, coupon_usage_key, coupon_id, coupon_book_id, member_id, system_unique_key,
    amount_used, amount_assigned, updated_total_usages, updated_total_assigned, amount_discounted, created_at,
    updated_at)
SELECT :org, gen_random_uuid(), 1 + mod(n / 20, :books), 1 + mod(n / 20, :books),
    1 + mod(CAST(n AS bigint) * 7919, :members), 'usage-' || n, mod(n / 10, 2), 1 - mod(n / 10, 2), 1, 1,
    CASE WHEN mod(n, 20) = 0 THEN 1.5 END, {_AT}, {_AT}
FROM generate_series(:first, :until) n WHERE mod(n, 10) = 0
"""

_FILL_MISSIONS = """
INSERT INTO missions (organization_id, mission_id, mission_key, name, event_type, active, max_repetitions, goal_count,
    created_at, updated_at)
OVERRIDING SYSTEM VALUE
SELECT :org, n, gen_random_uuid(), 'Mission ' || n, 'member-purchase-order-created', true, 100, 10, :last, :last
FROM generate_series(1, :missions) n
"""

_FILL_MEMBER_MISSIONS = """
INSERT INTO member_missions (organization_id, member_id, mission_id, goal_count, counted, times_achieved, updated_at)
SELECT :org, member, mission, 10, mod(member * mission, 25), mod(member * mission, 25) / 10, :last
FROM generate_series(1, :members) member CROSS JOIN generate_series(1, :missions) mission
"""

_FILL_OF_CHUNK = (_FILL_EVENTS, _FILL_TRANSACTIONS, _FILL_ENTRIES, _FILL_USAGES)

# The rows that a worker makes of the changes, here computed from the records.
_RECORDED = "\nUNION ALL\n".join(
    f"SELECT organization_id, '{kind}' AS kind, at, subject, label, CAST(NULL AS text[]) AS tags, wallet_id, a, b, c, d"
    f" FROM ({query}) r WHERE organization_id = :org AND at >= :begin AND at < :end"
    for kind, query in RECORDS.items()
)
_ADD_TOTALS = f"""
WITH recorded AS MATERIALIZED ({_RECORDED}), totals AS (
    INSERT INTO report_totals AS t (organization_id, kind, level, label, bucket, subject, a, b, c, d)
    {totals_of("recorded")}
    ON CONFLICT (organization_id, kind, level, label, bucket, subject)
        DO UPDATE SET a = t.a + excluded.a, b = t.b + excluded.b, c = t.c + excluded.c, d = t.d + excluded.d
)
INSERT INTO report_wallet_totals AS t
    (organization_id, level, label, bucket, wallet_id, ledger_account_id, minted, mints)
{wallet_totals_of("recorded")}
ON CONFLICT (organization_id, level, label, bucket, wallet_id, ledger_account_id)
    DO UPDATE SET minted = t.minted + excluded.minted, mints = t.mints + excluded.mints
"""


def _fill(engine: Engine, count: int) -> tuple[int, int]:
    """Write an organization with `count` events and their reports; return its id and the id of its account.

    The last `PENDING` events are not in the totals of the reports yet.
    """
    created = transactions.run(engine, lambda db: create_organization(db, name="Corner Coffee", now=LAST))
    values: dict[str, Any] = {
        "org": created.organization_id,
        "ledger": created.ledger_id,
        "account": created.ledger_account_id,
        "members": MEMBERS_EACH_MILLION * count // 1_000_000,
        "count": count,
        "days": DAYS,
        "last": LAST,
        "books": BOOKS,
        "missions": MISSIONS,
    }

    def write(statements: Sequence[str], *, without_checks: bool, **more: Any) -> None:
        with engine.begin() as db:
            if without_checks:
                # Neither triggers nor foreign keys: the rows are right, and checks take longer than the writes.
                db.execute(text("SET LOCAL session_replication_role = replica"))
            for statement in statements:
                db.execute(text(statement), {**values, **more})

    plain = (_FILL_MEMBERS, _FILL_BOOKS, _FILL_MISSIONS, _FILL_MEMBER_MISSIONS)
    write(plain, without_checks=True)
    settled_count = count - PENDING
    for first in range(1, settled_count + 1, CHUNK):
        write(_FILL_OF_CHUNK, without_checks=True, first=first, until=min(first + CHUNK - 1, settled_count))
        print(f"\r{first:,} ", end="", file=sys.stderr, flush=True)
    with autocommit(engine).connect() as db:
        db.execute(text("VACUUM ANALYZE"))
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    months = [LAST - timedelta(days=30 * months_ago) for months_ago in range(DAYS // 30 + 2, 0, -1)]
    for begin, end in pairwise([epoch, *months, LAST + timedelta(days=1)]):
        write((_ADD_TOTALS,), without_checks=True, begin=begin, end=end)
        print(f"\r{begin:%Y-%m-%d}", end="", file=sys.stderr, flush=True)
    with engine.begin() as db:
        # Each balance is checked at the commit, transaction by transaction, which is not to be measured here.
        db.execute(text("ALTER TABLE ledger_transactions DISABLE TRIGGER ledger_transaction_is_balanced"))
        db.execute(text("ALTER TABLE coupon_usages DISABLE TRIGGER ALL"))
        db.execute(text("ALTER TABLE coupon_usages ENABLE TRIGGER USER"))
    write(_FILL_OF_CHUNK, without_checks=False, first=settled_count + 1, until=count)
    with autocommit(engine).connect() as db:
        db.execute(text("VACUUM ANALYZE"))
    return created.organization_id, created.ledger_account_id


def main() -> None:
    """Fill the database, compute each report for several ranges, and print the table."""
    count = int(float(sys.argv[1] if len(sys.argv) > 1 else 10) * 1_000_000)
    options = {"fsync": "off", "full_page_writes": "off", "max_wal_size": "4GB"}
    with new_database(options=options, statement_timeout_ms=0) as (engine, _):
        started = time.perf_counter()
        org, account = _fill(engine, count)
        fill_seconds = time.perf_counter() - started
        ranges = {
            "30 days": report_range(LAST - timedelta(days=30), LAST, "Europe/Madrid", LAST),
            "200 days, uneven ends": report_range(
                LAST - timedelta(days=300, seconds=77), LAST - timedelta(days=100, seconds=33), "Asia/Kathmandu", LAST
            ),
            "everything": report_range(LAST - timedelta(days=DAYS + 1), LAST, None, LAST),
        }
        print(f"{count:,} events and transactions, filled in {fill_seconds:.0f} s")
        print(f"| report | {' | '.join(ranges)} |\n|---|{'---|' * len(ranges)}")
        event = "member-purchase-order-created"
        reports: dict[str, Any] = {
            "members over time": lambda db, r: figures.find_series(db, org, MEMBERS, days_of(r)),
            "coupons over time": lambda db, r: figures.find_series(db, org, COUPONS, days_of(r)),
            "top coupon books": lambda db, r: books.find_top(db, org, r.begin, r.end, 10, by_usage=True),
            "coupon books by tag": lambda db, r: books.find_by_tag(db, org, r.begin, r.end, None),
            "top members": lambda db, r: wallets.find_top(db, org, r.begin, r.end, 10),
            "top members of a tag": lambda db, r: wallets.find_top(db, org, r.begin, r.end, 10, tag="spring"),
            "tag series": lambda db, r: figures.find_series(db, org, MINTS, days_of(r), label="spring"),
            "tag total": lambda db, r: figures.find_sum(db, org, MINTS, r.begin, r.end, label="spring"),
            "ledger account totals": lambda db, r: wallets.find_mint_totals(db, org, r.begin, r.end, account),
            "event count": lambda db, r: figures.find_sum(db, org, EVENTS, r.begin, r.end, label=event),
            "discounts": lambda db, r: books.find_discounts(db, org, r.begin, r.end, None),
            "missions summary": lambda db, r: figures.find_summary(db, org, 10),
        }
        with autocommit(engine).connect() as db:
            for name, ask in reports.items():
                medians = []
                for date_range in ranges.values():
                    durations = []
                    for _ in range(ROUNDS):
                        started = time.perf_counter()
                        ask(db, date_range)
                        durations.append((time.perf_counter() - started) * 1000)
                    medians.append(f"{statistics.median(durations):.0f} ms")
                print(f"| {name} | {' | '.join(medians)} |", flush=True)
        started = time.perf_counter()
        with engine.connect() as db:
            findings = verify_reports(db, org)
        print(f"compared with the records in {time.perf_counter() - started:.1f} s: {findings or 'nothing differs'}")


if __name__ == "__main__":
    main()
