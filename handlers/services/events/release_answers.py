"""Releases the stored responses of old events: removes the responses, and keeps the events.

The keys of the events remain used: an old request that is repeated is refused, not executed again.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Self

from sqlalchemy import Engine

from persistence import events, transactions
from persistence.events import ReleasedPage

EVENTS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ReleasedResponses:
    """The number of released responses, and the id of an event up to which all responses are released."""

    answers: int
    up_to: int

    @classmethod
    def of(cls, after: int, pages: Collection[ReleasedPage]) -> Self:
        """The total of pages of all organizations, which all begin after the id `after`.

        Ids come from one sequence for all organizations, so one id marks the progress in all of them.
        """
        last_id = max((page.last_id for page in pages if page.last_id is not None), default=after)
        newer_ids = [page.first_newer_id for page in pages if page.first_newer_id is not None]
        return cls(sum(page.released for page in pages), min(newer_ids) - 1 if newer_ids else last_id)


def release_answers(engine: Engine, organization_id: int, after: int, before: datetime) -> Iterator[ReleasedPage]:
    """Release the responses of events after the id `after` that were tracked before `before`; yield each page."""
    page_start: int | None = after
    while page_start is not None:
        release_page = partial(
            events.release_answers,
            organization_id=organization_id,
            after=page_start,
            before=before,
            limit=EVENTS_AT_ONCE,
        )
        page = transactions.run(engine, release_page)
        page_start = page.last_id if page.first_newer_id is None else None
        yield page
