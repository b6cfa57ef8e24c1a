"""Savepoints of state in memory, beside copies of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.journal import Journal

STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 3), st.integers()), st.integers(), st.none()), max_size=30)


@given(STEPS, STEPS)
def test_a_rollback_leaves_what_was_there_at_the_savepoint(before, since):
    store, appended = {0: 1}, ["first"]
    journal = Journal(appended)

    def do(steps):
        for step in steps:
            if isinstance(step, tuple):
                journal.put(store, *step)
            elif step is not None:
                appended.append(step)

    do(before)
    savepoint, copies = journal.savepoint(), (dict(store), list(appended))
    do(since)
    journal.rollback_to(savepoint)
    assert (store, appended) == copies
    assert journal.changed(store) == {step[0] for step in before if isinstance(step, tuple)}


def test_what_was_cleared_stays():
    store, journal = {}, Journal()
    journal.put(store, "a", 1)
    journal.clear()
    savepoint = journal.savepoint()
    journal.put(store, "a", 2)
    assert journal.changed(store) == {"a"}
    journal.rollback_to(savepoint)
    assert (store, journal.changed(store)) == ({"a": 1}, set())
