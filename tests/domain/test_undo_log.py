"""Savepoints of state in memory, compared with copies of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.undo_log import UndoableState

# A step puts a value under a key, appends a number to the list, or does nothing.
STEPS = st.lists(st.one_of(st.tuples(st.integers(0, 3), st.integers()), st.integers(), st.none()), max_size=30)


@given(STEPS, STEPS)
def test_a_rollback_restores_the_state_at_the_savepoint(steps_before, steps_since):
    store, log = {0: 1}, ["begin"]
    state = UndoableState(log)

    def do(steps):
        """Change the store and the log."""
        for step in steps:
            if isinstance(step, tuple):
                state.put(store, *step)
            elif step is not None:
                log.append(step)

    do(steps_before)
    savepoint, copies = state.savepoint(), (dict(store), list(log))
    do(steps_since)
    state.rollback_to(savepoint)
    assert (store, log) == copies
    changed_keys = {step[0] for step in steps_before if isinstance(step, tuple)}
    assert set(state.changes_of(store)) == changed_keys


def test_a_rollback_keeps_changes_whose_keys_were_returned_before_the_savepoint():
    store, state = {}, UndoableState()
    state.put(store, "a", 1)
    state.take_changed_keys()
    savepoint = state.savepoint()
    state.put(store, "a", 2)
    assert state.changes_of(store) == {"a": 2}
    state.rollback_to(savepoint)
    assert (store, state.changes_of(store)) == ({"a": 1}, {})


def test_the_changed_keys_of_all_stores_are_returned_once():
    books, codes, unchanged_store = {1: "a"}, {}, {1: "b"}
    state = UndoableState()
    state.put_all([(books, 1, "c"), (books, 2, "d"), (codes, (1, "x"), "e")])
    changed_keys = state.take_changed_keys()
    assert changed_keys == {id(books): {1, 2}, id(codes): {(1, "x")}}
    assert id(unchanged_store) not in changed_keys
    assert state.take_changed_keys() == {}
