"""Calls that start at the same time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from sqlalchemy import text

from domain.problems import Conflict
from tests.builders.tracking import Shop
from tests.processes.fleet import wait_until

PATIENCE = 60


def run_simultaneously(calls: Iterable[Callable[[], Any]]) -> list[Any]:
    """Make the calls in threads that start at the same time; return their results in order, or raise an exception."""
    call_list: Sequence[Callable[[], Any]] = list(calls)
    results: list[Any] = [None] * len(call_list)
    failures: list[BaseException] = []
    start = threading.Barrier(len(call_list))

    def run(index: int) -> None:
        try:
            start.wait()
            results[index] = call_list[index]()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(call_list))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return results


def statuses(replies: Iterable[Any]) -> Counter[tuple[int, str | None]]:
    """Count the replies of the server by their status and the type of their problem."""
    return Counter((reply.status, reply.json.get("type")) for reply in replies)


def outcome(call: Callable[[], Any]) -> str:
    """Make a call; return the slug of its refusal, or "done"."""
    try:
        call()
    except Conflict as refusal:
        return refusal.slug
    return "done"


def outcomes(calls: Iterable[Callable[[], Any]], threads: int = 32) -> Counter[str]:
    """Make calls in many threads; count the slugs of their refusals, and "done"."""
    with ThreadPoolExecutor(threads) as pool:
        return Counter(pool.map(outcome, calls))


def race(*calls: Callable[[], Any]) -> tuple[str, ...]:
    """Make calls that start at the same time; return the slug of each refusal or "done", in order."""
    return tuple(run_simultaneously([lambda call=call: outcome(call) for call in calls]))


def run_after(monkeypatch: Any, module: ModuleType, name: str, act: Callable[[], Any]) -> list[Any]:
    """Run `act` in another thread after the first call of a function, before the caller goes on; return the calls."""
    original, calls = getattr(module, name), list[Any]()

    def call(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        calls.append(args)
        if len(calls) == 1:
            thread = threading.Thread(target=act)
            thread.start()
            thread.join(PATIENCE)
            assert not thread.is_alive()
        return result

    monkeypatch.setattr(module, name, call)
    return calls


def start_after(
    monkeypatch: Any, shop: Shop, module: ModuleType, name: str, act: Callable[[], Any]
) -> threading.Thread:
    """Start `act` in a thread after the first call of a function; return the thread.

    The caller of the function goes on as soon as `act` has ended, or waits for a lock.
    """
    original, thread = getattr(module, name), threading.Thread(target=act)

    def call(*args: Any, **options: Any) -> Any:
        result = original(*args, **options)
        if thread.ident is None:
            thread.start()
            wait_until(lambda: not thread.is_alive() or lock_waits(shop) > 0, PATIENCE)
        return result

    monkeypatch.setattr(module, name, call)
    return thread


def lock_waits(shop: Shop) -> int:
    """How many statements wait for a lock, on Citus also those that wait on another node."""
    with shop.engine.connect() as db:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        if db.execute(text("SELECT to_regclass('citus_lock_waits')")).scalar_one() is not None:
            waits = "SELECT count(*) FROM citus_lock_waits"
        return int(db.execute(text(waits)).scalar_one())
