"""Savepoints of state in memory, beside copies of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.undo_log import UndoLog

STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 3), st.integers()), st.integers(), st.none()), max_size=30)


@given(STEPS, STEPS)
def test_a_rollback_leaves_what_was_there_at_the_savepoint(before, since):
    store, appended = {0: 1}, ["first"]
    undo_log = UndoLog(appended)

    def do(steps):
        for step in steps:
            if isinstance(step, tuple):
                undo_log.put(store, *step)
            elif step is not None:
                appended.append(step)

    do(before)
    savepoint, copies = undo_log.savepoint(), (dict(store), list(appended))
    do(since)
    undo_log.rollback_to(savepoint)
    assert (store, appended) == copies
    assert undo_log.changed_keys_of(store) == {step[0] for step in before if isinstance(step, tuple)}


def test_what_was_cleared_stays():
    store, undo_log = {}, UndoLog()
    undo_log.put(store, "a", 1)
    undo_log.clear()
    savepoint = undo_log.savepoint()
    undo_log.put(store, "a", 2)
    assert undo_log.changed_keys_of(store) == {"a"}
    undo_log.rollback_to(savepoint)
    assert (store, undo_log.changed_keys_of(store)) == ({"a": 1}, set())


def test_the_changed_keys_of_all_stores_come_in_one_pass():
    books, codes, untouched = {1: "a"}, {}, {1: "b"}
    undo_log = UndoLog()
    undo_log.put(books, 1, "c")
    undo_log.put(books, 2, "d")
    undo_log.put(codes, (1, "x"), "e")
    assert undo_log.changed_keys() == {id(books): {1, 2}, id(codes): {(1, "x")}}
    assert id(untouched) not in undo_log.changed_keys()
    undo_log.clear()
    assert undo_log.changed_keys() == {}
