"""Claims of queued events: their order, and the rows that they read."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import text

from persistence import organizations, queue

MEMBERS, EVENTS_OF_MEMBER = 3000, 10
_EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, TIMING OFF)"
# An id that no other organization has.
ORGANIZATION = 10**15


_ADD_ORGANIZATION = text(
    "INSERT INTO organizations (organization_id, organization_key, name, created_at, updated_at)"
    " VALUES (:o, gen_random_uuid(), 'Coffee', now(), now())"
)
# The members have the ids from 1 to `:m`, in turn; the first event of member 2 has the place 1.
_GROW = text(
    "INSERT INTO queued_events (organization_id, loyalty_event_id, member_id, place, attempts, next_attempt_at,"
    " queued_at) SELECT :o, n, n % :m + 1, n, 0, now(), now() FROM generate_series(0, :all - 1) n"
)


@pytest.fixture(params=[0, 5, 5000])
def long_queue(db, request):
    """The connection to a queue of 30,000 events of 3,000 members.

    Its statistics were collected when it had only 0, 5 or 5,000 events.
    """
    db.execute(text("SET LOCAL session_replication_role = replica"))  # rows without their events
    db.execute(_ADD_ORGANIZATION, {"o": ORGANIZATION})
    db.execute(_GROW, {"o": ORGANIZATION - 1, "m": MEMBERS, "all": request.param})
    db.execute(text("ANALYZE queued_events"))
    db.execute(_GROW, {"o": ORGANIZATION, "m": MEMBERS, "all": MEMBERS * EVENTS_OF_MEMBER})
    return db


def claim(db, after=0, limit=100):
    """Claim due members with ids above `after`; returns their ids."""
    return queue.claim_members(db, ORGANIZATION, after, limit)


def pages_read(db, explained, values):
    """How many pages the explained statement reads."""
    plan = "\n".join(db.exec_driver_sql(explained, values).scalars())
    return max(int(number) for number in re.findall(r"shared hit=(\d+)", plan))


def test_the_members_whose_first_event_is_due_are_claimed_in_the_order_of_their_ids(long_queue):
    assert claim(long_queue) == list(range(1, 101))
    assert claim(long_queue, after=2990) == list(range(2991, 3001))
    assert claim(long_queue, after=MEMBERS) == []
    # The first event of member 2 waits for its retry.
    long_queue.execute(
        text(
            "UPDATE queued_events SET attempts = 1, next_attempt_at = now() + interval '1 day'"
            " WHERE member_id = 2 AND place = 1"
        )
    )
    assert claim(long_queue, limit=3) == [1, 3, 4]


def test_a_claim_reads_few_pages_of_a_long_queue_whatever_the_statistics_say(long_queue):
    parameters = {"organization_id": ORGANIZATION, "after": 0, "limit": 100, "waits_for_retry": True}
    pages = pages_read(long_queue, queue._CLAIM_HEADS.replace("WITH", f"{_EXPLAIN} WITH", 1), parameters)
    # A few pages for each of the 100 members.
    assert 100 < pages < 30 * 100


def test_organizations_with_waiting_events_are_found_without_reading_all_events(long_queue):
    assert ORGANIZATION in queue.find_waiting_organizations(long_queue)
    statement = organizations._WITH_ROWS.format(table="queued_events", condition="w.dead_at IS NULL")
    organization_count = long_queue.execute(text("SELECT count(*) FROM organizations")).scalar_one()
    # A few pages for each organization; other tests have added most of them.
    assert 0 < pages_read(long_queue, _EXPLAIN + statement, ()) < 50 + 5 * organization_count
