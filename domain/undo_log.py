"""Savepoints of in-memory state, to which later changes can be rolled back."""

from collections.abc import Hashable, Iterable
from typing import Any, NewType, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")

Savepoint = NewType("Savepoint", tuple[int, ...])


class UndoableState:
    """State that logs its changes: changes of dictionaries by `put`, and of lists to which items are only appended."""

    def __init__(self, *lists: list[Any]) -> None:
        self._lists = lists
        self._changes: list[tuple[dict[Any, Any], Any, Any]] = []

    def put(self, store: dict[Key, Value], key: Key, value: Value) -> None:
        """Set a key of a dictionary, whose values are never None."""
        self._changes.append((store, key, store.get(key)))
        store[key] = value

    def put_all(self, changes: Iterable[tuple[dict[Any, Any], Any, Any]]) -> None:
        """Set keys of several dictionaries: each change is the arguments of `put`."""
        for store, key, value in changes:
            self._changes.append((store, key, store.get(key)))
            store[key] = value

    def changes_of(self, store: dict[Key, Value]) -> dict[Key, Value]:
        """The keys of a dictionary that were set since the last `take_changed_keys`, with their present values."""
        return {key: store[key] for target, key, _ in self._changes if target is store}

    def take_changed_keys(self) -> dict[int, set[Any]]:
        """Return the keys that were set of each dictionary, by the dictionary's `id`, and forget the changes.

        The changes remain in effect, and cannot be rolled back any more.
        """
        keys: dict[int, set[Any]] = {}
        for store, key, _ in self._changes:
            keys.setdefault(id(store), set()).add(key)
        self._changes.clear()
        return keys

    def savepoint(self) -> Savepoint:
        """A point that `rollback_to` can return to."""
        return Savepoint((len(self._changes), *map(len, self._lists)))

    def rollback_to(self, savepoint: Savepoint) -> None:
        """Roll back all changes since the savepoint."""
        change_count, *lengths = savepoint
        for items, length in zip(self._lists, lengths, strict=True):
            del items[length:]
        while len(self._changes) > change_count:
            store, key, before = self._changes.pop()
            if before is None:
                del store[key]
            else:
                store[key] = before
