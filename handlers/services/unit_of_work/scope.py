"""The scope that opens every participant of a unit of work, and the interface of participants."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from domain.ledger.postings import Posting
from domain.ledger.session import LedgerSession
from domain.members import Member
from domain.organizations import Organization
from domain.reversals import WHOLE, Extent, ReversedPart
from domain.tiers import TierAssignments
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.derived_events import DerivedEvent
from handlers.services.unit_of_work.tier_points import TierPointsReader
from persistence.rows import IdAllocator


class TransactionIds:
    """The ids of the transactions that a unit of work posts, known before they are written; none in a dry run."""

    def __init__(self, ledger: LedgerSession, allocator: IdAllocator | None) -> None:
        self._ledger = ledger
        self._allocator = allocator
        self._taken: list[int] = []

    def expect(self, count: int) -> None:
        """Prepare for `count` more transactions, so that their ids come with the next statement."""
        if self._allocator is not None:
            self._allocator.expect(count)

    def of(self, number: int) -> int | None:
        """The id of the nth posting of the ledger, from 0."""
        while self._allocator is not None and len(self._taken) <= number:
            self._taken.append(self._allocator.take())
        return None if self._allocator is None else self._taken[number]

    def last(self) -> int | None:
        """The id of the last posting."""
        return self.of(self._postings() - 1)

    def of_postings(self) -> Sequence[int]:
        """The ids of all postings."""
        self.expect(self._postings() - len(self._taken))
        if self._postings():
            self.last()
        return self._taken

    def _postings(self) -> int:
        return sum(isinstance(step, Posting) for step in self._ledger.steps)


@dataclass(frozen=True, slots=True)
class UnitScope:
    """The scope of a unit of work: the members, by id, that it has locked, and the stored events it may reverse.

    `event_types` are those of the events it was begun for, None for a request, which may be about anything; `moments`
    are when they happened, and now, so that all it does happens at one of them. `referral_code_ids` are the referral
    codes that may be used, of members who are among the members. A dry run locks nothing, takes no ids from the
    database and writes nothing.
    """

    db: Connection
    organization: Organization
    configuration: Configuration
    members: Mapping[int, Member]
    now: datetime
    new_key: Callable[[], str]
    is_dry_run: bool
    ledger: LedgerSession
    transaction_ids: TransactionIds
    tier_assignments: TierAssignments
    tier_points: TierPointsReader
    reversible: frozenset[int]
    event_types: frozenset[str] | None
    moments: frozenset[datetime]
    referral_code_ids: frozenset[int]


@dataclass(frozen=True, slots=True)
class Reversal:
    """A reversal of events by another event: the id and key of that event, and options."""

    loyalty_event_id: int
    key: str
    extent: Extent = WHOLE
    allow_overdraft: bool = False
    description: str | None = None
    external_event_date: datetime | None = None


class Participant(Protocol):
    """The part of a unit of work that is about one subject."""

    def take_derived(self) -> Sequence[DerivedEvent]:
        """Returns the derived events of this subject, each once."""

    def reverse(self, event_id: int, by: Reversal) -> Sequence[ReversedPart]:
        """Reverse the effects of a stored event here, as far as possible; the ledger reverses points."""

    def flush(self) -> None:
        """Store the changes since the last flush."""
