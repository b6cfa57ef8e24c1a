from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from persistence import queue

MEMBERS, EACH = 3000, 10
# An organization of no other test; nothing else is needed of it here.
ORGANIZATION = 10**15


_GROW = text(
    "INSERT INTO queued_events (organization_id, loyalty_event_id, member_id, place, attempts, next_attempt_at,"
    " queued_at) SELECT :o, n, n % :m + 1, n, 0, now(), now() FROM generate_series(0, :all - 1) n"
)


@pytest.fixture(params=[0, 5, 5000])
def long_queue(db, request):
    """Lines that have grown since the statistics were taken of few events, or of none."""
    db.execute(text("SET LOCAL session_replication_role = replica"))  # lines of events that are not there
    db.execute(_GROW, {"o": ORGANIZATION - 1, "m": MEMBERS, "all": request.param})
    db.execute(text("ANALYZE queued_events"))
    db.execute(_GROW, {"o": ORGANIZATION, "m": MEMBERS, "all": MEMBERS * EACH})
    return db


def claim(db, after=0, limit=100):
    return queue.claim_members(db, ORGANIZATION, after, datetime.now(UTC) + timedelta(minutes=1), limit)


def test_heads_are_claimed_from_member_to_member(long_queue):
    assert claim(long_queue) == list(range(1, 101))
    assert claim(long_queue, after=2990) == list(range(2991, 3001))
    assert claim(long_queue, after=MEMBERS) == []
    long_queue.execute(
        text("UPDATE queued_events SET next_attempt_at = now() + interval '1 day' WHERE member_id = 2 AND place = 1")
    )
    assert claim(long_queue, limit=3) == [1, 3, 4]


def test_a_claim_reads_little_of_a_long_queue_whatever_the_statistics_say(long_queue):
    """Of some 600 pages in all."""
    given = {"organization_id": ORGANIZATION, "after": 0, "now": datetime.now(UTC) + timedelta(minutes=1), "limit": 100}
    explained = queue._CLAIM_HEADS.replace("WITH", "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF) WITH", 1)
    plan = "\n".join(long_queue.exec_driver_sql(explained, given).scalars())
    pages = [int(number) for number in re.findall(r"shared hit=(\d+)", plan)]
    assert 100 < max(pages) < 3000, plan


def test_the_organizations_are_found_without_reading_their_lines(long_queue):
    assert ORGANIZATION in queue.waiting_organizations(long_queue)
