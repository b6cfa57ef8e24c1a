"""Coupons assigned and used a second, compared with pgbench writing the same: `python -m bench.coupon_usages`.

As in `bench.ledger`, baseline and product alternate on one durable server, and a ratio is the median of the ratios of
the rounds. All coupons are of one codeless book, so every assignment and every use adds to the sums of the same row.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import statistics
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, text

from bench.databases import new_database
from bench.ledger import new_session
from bench.load import by_pgbench
from domain.coupons.books import CouponBook
from domain.members import Member
from domain.problems import Refusal
from handlers.call import ADMINISTRATION, Call
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest, assign_coupons, use_coupons
from handlers.services.coupons.assign_to_members import BatchItem, assign_to_members
from handlers.settings import Settings
from persistence import organizations, transactions
from persistence.coupons import codes
from persistence.engine import create_engine
from persistence.members import MEMBERS
from persistence.rows import add
from persistence.tables.coupons import coupon_books

CLIENTS, BATCH = 4, 100
KINDS = ("assign", "use", "batch")

_ENROL = """
INSERT INTO members (organization_id, loyalty_member_id, wallet_id, wallet_key, created_at, updated_at)
SELECT organization_id, 'member-' || wallet_id, wallet_id, wallet_key, now(), now()
FROM wallets WHERE organization_id = :organization
"""

# The rows of one assignment or use, with the event that is reported of it, in a transaction of its own; no rules.
_SCRIPT = """
\\set member random(:first, :last)
BEGIN;
SELECT w.wallet_id FROM members m JOIN wallets w USING (organization_id, wallet_id)
WHERE m.organization_id = :organization AND m.member_id = :member FOR NO KEY UPDATE OF w;
INSERT INTO events (organization_id, loyalty_event_key, member_id, event_type, payload, system_unique_key,
    request_digest, evaluation_status, status, limit_counters, result, created_at, updated_at)
VALUES (:organization, gen_random_uuid(), :member, 'coupon', '{{}}', gen_random_uuid()::text, sha256('request'), 1,
    'success', '[]', '{{}}', now(), now());
WITH usage AS (INSERT INTO coupon_usages (organization_id, coupon_usage_key, coupon_id, coupon_book_id, member_id,
    system_unique_key, amount_used, amount_assigned, updated_total_usages, updated_total_assigned, created_at,
    updated_at)
VALUES (:organization, gen_random_uuid(), :coupon, :book, :member, gen_random_uuid()::text, {used}, {assigned}, 1, 1,
    now(), now()) RETURNING *) {lot};
INSERT INTO member_coupons AS h (organization_id, member_id, coupon_id, coupon_book_id, amount_assigned, amount_used,
    created_at, updated_at) VALUES (:organization, :member, :coupon, :book, {assigned}, {used}, now(), now())
ON CONFLICT (organization_id, member_id, coupon_id) DO UPDATE SET
    amount_assigned = h.amount_assigned + {assigned}, amount_used = h.amount_used + {used}, updated_at = now();
UPDATE coupon_books SET total_assigned = total_assigned + {assigned}, total_usages = total_usages + {used}
WHERE organization_id = :organization AND coupon_book_id = :book;
UPDATE coupons SET total_assigned = total_assigned + {assigned}, total_usages = total_usages + {used}
WHERE organization_id = :organization AND coupon_id = :coupon;
COMMIT;
"""

_ADD_LOT = """INSERT INTO coupon_lots (organization_id, coupon_lot_id, member_id, coupon_id, coupon_book_id, amount,
    amount_used, created_at, updated_at)
SELECT organization_id, coupon_usage_id, member_id, coupon_id, coupon_book_id, 1, 0, now(), now() FROM usage"""
_USE_LOT = """UPDATE coupon_lots l SET amount_used = l.amount_used + 1, updated_at = now() FROM usage u
WHERE l.organization_id = u.organization_id AND l.coupon_lot_id = (SELECT coupon_lot_id FROM coupon_lots
    WHERE organization_id = :organization AND member_id = :member AND coupon_book_id = :book AND coupon_id = :coupon
        AND amount > amount_used ORDER BY expired_at NULLS LAST, created_at, coupon_lot_id LIMIT 1)"""


@dataclass(frozen=True)
class Shop:
    """An organization with members and one codeless book."""

    url: str
    organization_id: int
    book: CouponBook
    coupon_id: int
    members: tuple[Member, ...]


def new_shop(url: str, engine: Engine) -> Shop:
    """Create an organization with as many members as `bench.ledger` has wallets, each with coupons to use."""
    organization_id = new_session(url, engine).organization.organization_id

    def fill(db: Connection) -> Shop:
        db.execute(text("SET LOCAL statement_timeout = 0"))
        db.execute(text(_ENROL), {"organization": organization_id})
        now = datetime.now(UTC)
        key_and_name = {"organization_id": organization_id, "coupon_book_key": str(uuid.uuid4()), "name": "Coffee"}
        other_values = {"type": "codeless", "publishing_status": "published", "created_at": now, "updated_at": now}
        book = add(db, coupon_books, CouponBook, {**key_and_name, **other_values})
        [coupon] = codes.add_codes(db, book, [None], now)
        query = "SELECT member_id FROM members WHERE organization_id = :organization ORDER BY 1"
        ids = db.execute(text(query), {"organization": organization_id}).scalars().all()
        return Shop(
            url, organization_id, book, coupon.coupon_id, tuple(MEMBERS.find_all(db, organization_id, member_id=ids))
        )

    shop = transactions.run(engine, fill)
    for first in range(0, len(shop.members), BATCH):
        items = [BatchItem(member.member_id, None, None) for member in shop.members[first : first + BATCH]]
        for _ in range(2):
            serve(engine, shop, lambda call, items=items: assign_to_members(call, shop.book, items, None))
    return shop


def serve(engine: Engine, shop: Shop, work: Any) -> Any:
    """Do one call as a handler does it, without HTTP, and commit. Returns the result."""

    def begin(db: Connection) -> Any:
        organization = organizations.find(db, shop.organization_id)
        assert organization is not None
        return work(
            Call(
                db=db,
                organization=organization,
                caller=None,
                now=datetime.now(UTC),
                request_id="bench",
                surface=ADMINISTRATION,
                settings=Settings(database_url="", home=Path()),
            )
        )

    return transactions.run(engine, begin)


def _work(shop: Shop, kind: str, seconds: float, start: Any, results: Any) -> None:
    """Assign or use coupons for `seconds` after `start`, in a process of its own; put the rate into `results`."""
    engine, chance, count = create_engine(shop.url, threads=1), random.Random(), 0

    def once() -> int:
        if kind == "batch":
            members = chance.sample(shop.members, BATCH)
            items = [BatchItem(member.member_id, None, None) for member in members]
            serve(engine, shop, lambda call: assign_to_members(call, shop.book, items, None))
            return BATCH
        member = chance.choice(shop.members)
        change = use_coupons if kind == "use" else assign_coupons
        request = CouponRequest(member, shop.book, CouponCommand(auto_assign=kind == "use"))
        [outcome] = serve(engine, shop, lambda call: change([call], [request]))
        assert not isinstance(outcome, Refusal), outcome
        return 1

    once()
    start.wait()
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += once()
    results.put(count / (time.perf_counter() - began))


def product_rate(shop: Shop, kind: str, seconds: float) -> float:
    """Coupons a second of as many processes as pgbench has clients."""
    context = multiprocessing.get_context("spawn")
    start, results = context.Barrier(CLIENTS), context.Queue()
    workers = [context.Process(target=_work, args=(shop, kind, seconds, start, results)) for _ in range(CLIENTS)]
    for worker in workers:
        worker.start()
    rates = [results.get(timeout=seconds + 120) for _ in workers]
    for worker in workers:
        worker.join()
    return sum(rates)


def pgbench_rate(shop: Shop, kind: str, seconds: float) -> float:
    """Coupons a second that pgbench writes."""
    variables = {
        "organization": shop.organization_id,
        "book": shop.book.coupon_book_id,
        "coupon": shop.coupon_id,
        "first": shop.members[0].member_id,
        "last": shop.members[-1].member_id,
    }
    return by_pgbench(shop.url, pgbench_script(kind), variables, seconds, CLIENTS).rate


def pgbench_script(kind: str) -> str:
    """The statements of an assignment or a use."""
    assigned, amount_used = (0, 1) if kind == "use" else (1, 0)
    return _SCRIPT.format(assigned=assigned, used=amount_used, lot=_USE_LOT if amount_used else _ADD_LOT)


def main() -> None:
    """Run everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with new_database(statement_timeout_ms=0) as (engine, url):
        shop, baseline = new_shop(url, engine), new_shop(url, engine)
        print("\n| what | pgbench/s | loyalty/s | of pgbench |\n|---|---|---|---|", flush=True)
        for kind in KINDS:
            rates = [
                (pgbench_rate(baseline, kind, arguments.seconds), product_rate(shop, kind, arguments.seconds))
                for _ in range(arguments.rounds)
            ]
            pgbench, product = (statistics.median(column) for column in zip(*rates, strict=True))
            share = statistics.median(round_rates[1] / round_rates[0] for round_rates in rates)
            name = f"assign, in batches of {BATCH}" if kind == "batch" else kind
            print(f"| {name} | {pgbench:,.0f} | {product:,.0f} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
