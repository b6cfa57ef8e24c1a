"""The cost of a page of a timeline, and of the index that it needs: `python -m bench.timeline`.

One member has 100,000 events, each with a transaction, a mission tracking and a message; other members have as many in
all. Prints a table for `docs/performance.md`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, text

from bench.databases import new_database
from domain.members import Member
from handlers.schemas.timeline import timeline_page
from handlers.services.members.timeline import TimelineQuery, timeline_of
from handlers.services.organizations.create import CreatedOrganization, create_organization
from persistence import members, transactions
from persistence.engine import autocommit
from persistence.members import MEMBERS

EVENTS, OTHERS, ROUNDS = 100_000, 1_000, 15
NOW = datetime(2026, 6, 1, tzinfo=UTC)

# Rows of `:m` on the `:count` minutes before `:now`, the oldest first; `n` is below 0 and counts the minutes.
_ROWS = (
    """
    INSERT INTO events (organization_id, loyalty_event_key, member_id, event_type, system_unique_key, request_digest,
        payload, evaluation_status, status, limit_counters, result, created_at, updated_at)
    SELECT :o, gen_random_uuid(), CASE WHEN n %% 2 = 0 THEN :m ELSE :m + 1 - n %% :others END,
        'member-purchase-order-created', 'event' || n, '',
        json_build_object('order', json_build_object('externalId', 'order' || n, 'total', 12)), 1, 'success', '[]',
        json_build_object('effects', json_build_array(json_build_object('campaignId', 1, 'campaignCode', 'POINTS',
            'actionId', 1, 'effectId', 'mint-points', 'status', 'executed',
            'params', json_build_array(json_build_object('id', 'amount', 'value', 12)))), 'missions', '[]'::json),
        at, at
    FROM given
    """,
    """
    INSERT INTO ledger_transactions (organization_id, ledger_account_id, transaction_type, status, amount,
        system_unique_key, to_wallet_id, loyalty_event_id, created_at, updated_at)
    SELECT e.organization_id, :account, 1, 1, 12, e.loyalty_event_key || '\\:1', m.wallet_id, e.loyalty_event_id,
        e.created_at, e.created_at
    FROM events e JOIN members m USING (organization_id, member_id) ORDER BY e.loyalty_event_id
    """,
    """
    INSERT INTO ledger_entries (organization_id, ledger_transaction_id, entry_index, ledger_account_id, wallet_id,
        amount, updated_balance)
    SELECT organization_id, ledger_transaction_id, n, ledger_account_id, CASE WHEN n = 0 THEN to_wallet_id END,
        CASE WHEN n = 0 THEN 12 ELSE -12 END, CASE WHEN n = 0 THEN 12 END
    FROM ledger_transactions CROSS JOIN generate_series(0, 1) AS n
    """,
)
_COUNTED = """
    INSERT INTO mission_trackings (organization_id, member_id, mission_id, loyalty_event_id, counted, achieved,
        goal_count, happened_at, created_at)
    SELECT organization_id, member_id, :mission, loyalty_event_id, 1, 0, 10, created_at, created_at FROM events
    ORDER BY loyalty_event_id
"""
_MESSAGES = """
    INSERT INTO trigger_deliveries (organization_id, trigger_id, type, member_id, payload, status, created_at,
        updated_at)
    SELECT organization_id, :trigger, 'event.evaluated', member_id, '{}', 'succeeded', created_at, created_at
    FROM events ORDER BY loyalty_event_id
"""


def _fill(db: Connection, organization: CreatedOrganization) -> int:
    """Write all rows; returns the id of the member with half of them."""
    common_values = {"o": organization.organization_id, "now": NOW}
    first = 0
    for number in range(OTHERS + 1):
        row = {
            "loyalty_member_id": f"member-{number}",
            "active": True,
            "wallet_key": f"00000000-0000-4000-8000-{number:012d}",
            **{name: {} for name in ("profile", "custom_attributes", "notifications", "on_chain")},
        }
        [(member, _)] = members.add_members(
            db,
            organization.organization_id,
            [row],
            ledger_id=organization.ledger_id,
            loyalty_program_id=organization.loyalty_program_id,
            now=NOW,
        )
        first = first or member.member_id
    numbers_of_events = (
        "WITH given AS (SELECT n, :now + n * interval '1 minute' AS at FROM generate_series(:first, -1) AS n) "
    )
    values = {
        **common_values,
        "m": first,
        "others": OTHERS,
        "first": -2 * EVENTS,
        "account": organization.ledger_account_id,
    }
    for number, statement in enumerate(_ROWS):
        db.execute(text((numbers_of_events if number == 0 else "") + statement.replace("%%", "%")), values)
    mission = db.execute(
        text(
            "INSERT INTO missions (organization_id, mission_key, name, event_type, active, max_repetitions, goal_count,"
            " created_at, updated_at) VALUES (:o, gen_random_uuid(), 'Ten coffees', 'member-purchase-order-created',"
            " true, 1, 10, :now, :now) RETURNING mission_id"
        ),
        common_values,
    ).scalar_one()
    trigger = db.execute(
        text(
            "INSERT INTO triggers (organization_id, trigger_key, type, name, active, secret, created_at, updated_at)"
            " VALUES (:o, 'mailer', 'WebHook', 'Mailer', true, '', :now, :now) RETURNING trigger_id"
        ),
        common_values,
    ).scalar_one()
    # The first time without the index, to see what it costs.
    definition = db.execute(
        text("SELECT indexdef FROM pg_indexes WHERE indexname = 'ix_mission_trackings_timeline'")
    ).scalar_one()
    seconds = []
    for with_index in (False, True, False, True):
        db.execute(text("DROP INDEX ix_mission_trackings_timeline"))
        if with_index:
            db.execute(text(definition))
        db.execute(text("DELETE FROM mission_trackings"))
        began = time.perf_counter()
        db.execute(text(_COUNTED), {"mission": mission})
        seconds.append(time.perf_counter() - began)
        if not with_index:
            db.execute(text(definition))
    more = min(seconds[1], seconds[3]) - min(seconds[0], seconds[2])
    print(f"the index costs a mission tracking {more / (2 * EVENTS) * 1e6:.1f} us")
    db.execute(text(_MESSAGES), {"trigger": trigger})
    return first


def _pages(db: Connection, member: Member) -> dict[str, TimelineQuery]:
    """The queries of a member's timeline that are measured, by their names in the table."""
    middle = NOW - timedelta(minutes=EVENTS)
    cursor = timeline_of(db, member, TimelineQuery(25, created_to=middle)).next
    return {
        "the first page of 25": TimelineQuery(25),
        "the first page of 100": TimelineQuery(100),
        "a page of 25 in the middle, by cursor": TimelineQuery(25, positions=cursor),
        "points only": TimelineQuery(25, {"points"}),
        "badges only, of which there are none": TimelineQuery(25, {"badge"}),
        "before a day in the middle": TimelineQuery(25, created_to=middle),
        "since yesterday": TimelineQuery(25, created_from=NOW - timedelta(days=1)),
    }


def _milliseconds(work: Callable[[], Any]) -> list[float]:
    work()
    durations = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        durations.append((time.perf_counter() - began) * 1000)
    return sorted(durations)


def _measure(engine: Engine) -> None:
    """Fill an organization, measure each page of the timeline of its member, and print it as a row of the table."""
    organization = transactions.run(engine, lambda db: create_organization(db, name="Corner Coffee", now=NOW))
    member_id = transactions.run(engine, lambda db: _fill(db, organization))
    with autocommit(engine).connect() as db:
        db.execute(text("VACUUM ANALYZE"))
    print("| page | shortest | median |\n|---|---|---|")
    with engine.connect() as db:
        member = MEMBERS.find(db, organization.organization_id, member_id)
        assert member is not None
        for name, query in _pages(db, member).items():

            def page(query: TimelineQuery = query) -> Any:
                return timeline_page(timeline_of(db, member, query))

            durations = _milliseconds(page)
            print(f"| {name} | {durations[0]:.1f} ms | {statistics.median(durations):.1f} ms |")


def main() -> None:
    """Measure in a database of its own."""
    with new_database(options={"fsync": "off"}, statement_timeout_ms=600_000) as (engine, _):
        _measure(engine)


if __name__ == "__main__":
    main()
