"""Releasing the stored responses of old events.

The events stay, and their keys stay used: an old request that is repeated is refused, never done again.
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
    answers, last_position, newer = 0, after, []
    for organization_id in organization_ids:
        position: int | None = after
        while position is not None:
            if stopping():
                return None
            page_bounds = (organization_id, position, before, EVENTS_AT_ONCE)
            page = transactions.run(engine, partial(_release_page, page_bounds))
            answers += page.released
            last_position = max(last_position, page.last_id or 0)
            if page.first_newer_id is not None:
                newer.append(page.first_newer_id)
            position = page.last_id if page.first_newer_id is None else None
    return Released(answers, min(newer) - 1 if newer else last_position)


def _release_page(page: tuple[int, int, datetime, int], db: Connection) -> events.ReleasedPage:
    return events.release_answers(db, *page)
