"""What every desk is opened with, and what it has to offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from domain.ledger.postings import Posting
from domain.ledger.session import Books
from domain.members import Member
from domain.organizations import Organization
from domain.reversals import WHOLE, Extent, Undone
from domain.tiers import Standings
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.derived_events import OwnEvent
from handlers.services.unit_of_work.tier_points import TierPointsReader
from persistence.rows import IdStock


class TransactionIds:
    """The ids of the transactions that a unit of work posts, known before they are written; none in a rehearsal."""

    def __init__(self, books: Books, stock: IdStock | None) -> None:
        self._books = books
        self._stock = stock
        self.taken: list[int] = []

    def expect(self, count: int) -> None:
        """Prepare for so many transactions more, so that their ids come with the next statement."""
        if self._stock is not None:
            self._stock.expect(count)

    def of(self, number: int) -> int | None:
        """The id of the nth posting of the books, from 0."""
        while self._stock is not None and len(self.taken) <= number:
            self.taken.append(self._stock.take())
        return None if self._stock is None else self.taken[number]

    def last(self) -> int | None:
        """The id of what was posted last."""
        return self.of(sum(isinstance(step, Posting) for step in self._books.steps) - 1)


@dataclass(frozen=True, slots=True)
class Opening:
    """What a unit of work is about: the members, by id, whose locks it holds, and the stored events it may undo.

    `event_types` are those of the events it was begun for, None for a request, which may be about anything; `moments`
    are when they happened, and now, so that all it does happens at one of them. `referral_code_ids` are the referral
    codes that may be used, of members who are among the members. A rehearsal is a dry run: it locks nothing, takes no
    ids from the database and writes nothing.
    """

    db: Connection
    organization: Organization
    configuration: Configuration
    members: Mapping[int, Member]
    now: datetime
    new_key: Callable[[], str]
    is_rehearsal: bool
    books: Books
    transaction_ids: TransactionIds
    standings: Standings
    tier_points: TierPointsReader
    undoable: frozenset[int]
    event_types: frozenset[str] | None
    moments: frozenset[datetime]
    referral_code_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Reversal:
    """What undoes an event: another event, by its id and key, and how it goes about it."""

    loyalty_event_id: int
    key: str
    extent: Extent = WHOLE
    allow_overdraft: bool = False
    description: str | None = None
    external_event_date: datetime | None = None


class Desk(Protocol):
    """One subject's part in a unit of work."""

    def follow(self) -> Sequence[OwnEvent]:
        """What the server itself is to report since the last look."""

    def undo(self, event_id: int, by: Reversal) -> Sequence[Undone]:
        """Take back what a stored event did here, as far as it still stands; points are the ledger's to take back."""

    def write(self) -> None:
        """Store what has changed since the last time."""
