"""Releases the stored responses of old events: removes the responses, and keeps the events.

The keys of the events remain used: an old request that is repeated is refused, not executed again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from sqlalchemy import Connection, Engine

from persistence import events, transactions

EVENTS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Released:
    """The number of released responses, and the id of an event up to which all responses are released."""

    answers: int
    up_to: int


def release_answers(
    engine: Engine, organization_ids: Collection[int], after: int, before: datetime, stopping: Callable[[], bool]
) -> Released | None:
    """Release the responses of events after the id `after` that were tracked before `before`; None if it was stopped.

    Ids come from one sequence for all organizations, so one id marks the progress in all of them.
    """
    answers, last_id, first_newer_ids = 0, after, []
    for organization_id in organization_ids:
        page_start: int | None = after
        while page_start is not None:
            if stopping():
                return None
            page_bounds = (organization_id, page_start, before, EVENTS_AT_ONCE)
            page = transactions.run(engine, partial(_release_page, page_bounds))
            answers += page.released
            last_id = max(last_id, page.last_id or 0)
            if page.first_newer_id is not None:
                first_newer_ids.append(page.first_newer_id)
            page_start = page.last_id if page.first_newer_id is None else None
    return Released(answers, min(first_newer_ids) - 1 if first_newer_ids else last_id)


def _release_page(page: tuple[int, int, datetime, int], db: Connection) -> events.ReleasedPage:
    return events.release_answers(db, *page)
