"""One unit of work on members of an organization, within one database transaction.

Lock the members, open the participants, act on values alone, flush all changes: every use case that moves something for
a member goes this way. Tracking evaluates events in it; a request acts on the participants by `unit_of_work`. The
derived events of either are evaluated in the same unit. After a flush a unit can be opened again.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from domain.audiences import CompiledAudience
from domain.campaigns.plans import EvaluationPlan
from domain.events import AUTHORIZE, CAPTURE_ONLY, DRY_RUN, FAILURE, FULL, EventOrigin, IncomingEvent
from domain.expressions import Deadline
from domain.ledger.session import LedgerSession
from domain.members import Member, refuse_erased
from domain.problems import Refusal
from domain.tiers import HeldTier, MemberProgram, TierAssignments
from domain.triggers import CREATED, PURCHASE_ORDER, UPDATED
from handlers.call import Call, Execution
from handlers.messages.events import track_result
from handlers.messages.orders import order_record
from handlers.services.configuration import Configuration, complete_plan, configuration_of
from handlers.services.members.match_audiences import match_audiences
from handlers.services.unit_of_work.derived_events import LedgerEvents, possible_types
from handlers.services.unit_of_work.evaluation_time import call_deadline
from handlers.services.unit_of_work.event_limits import open_limits
from handlers.services.unit_of_work.event_rows import event_row
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.participants.badges import BadgeWork
from handlers.services.unit_of_work.participants.coupons import CouponWork
from handlers.services.unit_of_work.participants.missions import MissionWork
from handlers.services.unit_of_work.participants.referrals import may_refer, usable_codes
from handlers.services.unit_of_work.participants.tiers import TierWork
from handlers.services.unit_of_work.pipeline import EventPipeline
from handlers.services.unit_of_work.reversals import Reversals
from handlers.services.unit_of_work.scope import TransactionIds, UnitScope
from handlers.services.unit_of_work.subjects import Participants, open_participants
from handlers.services.unit_of_work.tier_points import open_tier_points
from handlers.services.unit_of_work.tracked import EventOutcome, Result, TrackedEvent
from handlers.services.webhooks.outbox import queue_entities, queue_events
from persistence import events, member_tiers, posting
from persistence.rows import IdAllocator

# Enough ids, beside some for each event, for most units: taken from the database when first needed.
SPARE_IDS = 16

EXPIRED = "Points or a tier had expired."

T = TypeVar("T")


class UnitOfWork:
    """A unit of work in an execution mode: a dry run locks nothing and is never flushed.

    `campaign_keys` limit the campaigns that are evaluated; `tracing` has expressions explained; `reported` are types of
    derived events that are reported whatever the configuration says; `call_deadline` ends the evaluation of all events.
    `outcomes` has the outcome of every event, derived ones included.
    """

    def __init__(
        self,
        execution: Execution,
        mode: str = FULL,
        campaign_keys: Collection[str] | None = None,
        tracing: bool = False,
        reported: Collection[str] = (),
        call_deadline: Deadline | None = None,
    ) -> None:
        db, organization = execution.db, execution.organization
        self.execution = execution
        self.mode = mode
        self.tracing = tracing
        self.configuration: Configuration = configuration_of(db, organization)
        self.campaign_keys = None if campaign_keys is None else sorted(set(campaign_keys))
        self.members: dict[int, Member] = {}
        self.audiences: Mapping[int, Sequence[CompiledAudience]] = {}
        self.rows: list[dict[str, Any]] = []
        self.outcomes: list[EventOutcome] = []
        self.call_deadline = call_deadline
        self._db = db
        self._organization_id = organization.organization_id
        self._reported = frozenset(reported)
        self._plans = self.configuration.plans_among(campaign_keys)
        if mode == DRY_RUN:
            self._complete_plan = complete_plan(db, organization, self._plans.campaigns, campaign_keys)
        self._held: dict[MemberProgram, HeldTier] = {}
        # The ids of members who were created in this database transaction.
        self._created: set[int] = set()
        # The referral codes that may be used, by id, each with the member who has it.
        self._referral_codes: Mapping[int, int] = {}
        self._stored_ids: set[int] = set()
        self._participants: Participants | None = None

    @property
    def is_dry_run(self) -> bool:
        """True if nothing is locked, and nothing will be stored."""
        return self.mode == DRY_RUN

    @property
    def rewards(self) -> bool:
        """True if the effects of events of an order are stored, and may be reversed by later events of the batch."""
        return self.mode in (FULL, AUTHORIZE)

    @property
    def is_open(self) -> bool:
        """True if there are participants; there are none if no record looks at any of the events."""
        return self._participants is not None

    @property
    def participants(self) -> Participants:
        """The participants of all subjects."""
        if self._participants is None:
            raise AssertionError("the unit of work is not open")
        return self._participants

    @property
    def ledger(self) -> LedgerSession:
        """The points of the members."""
        return self.participants.ledger

    @property
    def tiers(self) -> TierWork:
        """The tiers of the members."""
        return self.participants.tiers

    @property
    def badges(self) -> BadgeWork:
        """The badges of the members."""
        return self.participants.badges

    @property
    def coupons(self) -> CouponWork:
        """The coupons of the members."""
        return self.participants.coupons

    @property
    def missions(self) -> MissionWork:
        """The missions of the members."""
        return self.participants.missions

    def plan_of(self, event_type: str) -> EvaluationPlan:
        """The campaigns to be evaluated for events of a type; all of them in a dry run, since each is explained."""
        return self._complete_plan if self.is_dry_run else self._plans.of(event_type)

    def lock(
        self,
        loyalty_member_ids: Collection[str] = (),
        member_ids: Collection[int] = (),
        incoming: Sequence[IncomingEvent] = (),
    ) -> dict[Any, Member]:
        """Lock and load members, and the owners of referral codes that the events may use.

        Returns them by either id.
        """
        if self.mode in (FULL, DRY_RUN):
            self._referral_codes = usable_codes(
                self._db, self.configuration, incoming, loyalty_member_ids, member_ids, self._reported
            )
            member_ids = {*member_ids, *self._referral_codes.values()}
        others = [member_id for member_id in member_ids if member_id not in self._created]
        if loyalty_member_ids or others:
            if not self.is_dry_run:
                events.lock_members(self._db, self._organization_id, loyalty_member_ids, others)
            self._add(events.find_members(self._db, self._organization_id, loyalty_member_ids, others))
        members: dict[Any, Member] = {}
        for member in self.members.values():
            members[member.loyalty_member_id] = members[member.member_id] = member
        return members

    def adopt(self, created: Sequence[tuple[Member, Mapping[int, HeldTier]]]) -> None:
        """Add members whom this database transaction has created, which nobody else can see and `lock` need not read.

        Each is given with the tiers held, by program id.
        """
        self._add(created)
        self._created |= {member.member_id for member, _ in created}

    def _add(self, members_with_tiers: Sequence[tuple[Member, Mapping[int, HeldTier]]]) -> None:
        for member, held in members_with_tiers:
            self.members[member.member_id] = member
            self._held |= {(member.member_id, program_id): tier for program_id, tier in held.items()}

    def open(
        self,
        tracked: Sequence[TrackedEvent] = (),
        orders: OrderWork | None = None,
        reversals: Reversals | None = None,
        *,
        moments: Collection[datetime] | None = None,
        transaction_ids: IdAllocator | None = None,
    ) -> None:
        """Open everything that the events may touch; a request, which may touch anything, gives its `moments`.

        Expiries until now are reported first. `transaction_ids` is the allocator of ids for transactions of the ledger,
        if some are reserved.
        """
        self.orders = OrderWork.none(self.execution) if orders is None else orders
        self.reversals = Reversals.none(self.execution) if reversals is None else reversals
        self._stored_ids |= {
            tracked_event.loyalty_event_id for tracked_event in tracked if tracked_event.tracked_at is not None
        }
        self._participants = None
        self._pipeline = EventPipeline(IdAllocator(self._db, "events", SPARE_IDS + 4 * len(tracked)))
        concerned = any(self.is_looked_at(tracked_event.event) for tracked_event in tracked)
        is_request = moments is not None
        if self.mode == CAPTURE_ONLY or not (is_request or self.reversals or concerned or self.is_dry_run):
            return
        at = frozenset((self.execution.now, *(moments or ()), *(tracked_event.at for tracked_event in tracked)))
        types = None if is_request else frozenset(tracked_event.event.event_type for tracked_event in tracked)
        if transaction_ids is None:
            transaction_ids = IdAllocator(self._db, "ledger_transactions", SPARE_IDS + 4 * len(tracked))
        participants = self._participants = self._open_participants(tracked, types, at, transaction_ids)
        members = list(self.members.values())
        among, now = self.configuration.audiences, self.execution.now
        self.audiences = match_audiences(self._db, self._organization_id, among, members, now)
        self._ledger_events = LedgerEvents(
            self.configuration,
            participants.ledger,
            participants.tier_assignments,
            {member.wallet_id: member.member_id for member in members},
            participants.scope.transaction_ids.of,
            participants.scope.tier_points,
        )
        self._pipeline.report(self, self._ledger_events.begin(), EXPIRED)

    def evaluate(self, tracked: TrackedEvent) -> Result:
        """Evaluate one event and its derived events; a refusal fails this event and no other."""
        return self._pipeline.evaluate(self, tracked)

    def report(self, reason: str, cause: TrackedEvent | None = None, origin: EventOrigin | None = None) -> None:
        """Evaluate the derived events of all changes since the last report.

        Those without a cause belong to the request `origin`, else to that of the execution.
        """
        if self.is_open:
            derived = [*self._ledger_events.take_derived(), *self.participants.take_derived()]
            if not self.execution.is_quiet:
                self._pipeline.report(self, derived, reason, cause, origin)

    def keep(self, tracked: TrackedEvent, status: str, answer: Mapping[str, Any], **known: Any) -> None:
        """Keep an event to be stored by the flush; `known` are further arguments of `event_row`."""
        origin = tracked.origin or self.execution.origin
        self.rows.append(event_row(tracked, status, answer, origin, self.execution.now, **known))

    def fail(self, tracked: TrackedEvent, refusal: Refusal) -> Result:
        """Keep an event that was trackable when it came, but cannot be evaluated any more."""
        answer = track_result(tracked.event, tracked.key, FAILURE, None, refusal)
        self._stored_ids.add(tracked.loyalty_event_id)
        self.keep(tracked, FAILURE, answer)
        return Result(answer, refusal)

    def flush(self) -> None:
        """Store all changes, in the order of `persistence.locks`."""
        db, organization_id, now = self._db, self._organization_id, self.execution.now
        self.flush_events()
        self.orders.flush()
        self._tell_orders()
        self.reversals.flush(now)
        if not self.is_open:
            return
        participants = self.participants
        posting.write_session(
            db, organization_id, participants.ledger, participants.scope.transaction_ids.of_postings()
        )
        member_tiers.move(db, organization_id, participants.tier_assignments.changed, now)
        events.count(db, organization_id, participants.counters.changed)
        participants.flush()
        for member_program, held in participants.tier_assignments.changed.items():
            self._held.pop(member_program, None)
            if held is not None:
                self._held[member_program] = held

    def flush_events(self) -> None:
        """Store the events themselves, and tell the triggers that listen."""
        known = [row for row in self.rows if row["loyalty_event_id"] in self._stored_ids]
        if known:
            events.finish_events(self._db, self._organization_id, known)
        events.add_events(self._db, [row for row in self.rows if row["loyalty_event_id"] not in self._stored_ids])
        if not self.execution.is_quiet:
            queue_events(self._db, self.configuration, self.rows, self.members, self.execution.now)
        self.rows = []

    def is_looked_at(self, event: IncomingEvent) -> bool:
        """True if the event can have any effect."""
        looked_at = self.configuration.concerns(self._plans, event.event_type)
        return looked_at or may_refer(self.configuration, event, self._referral_codes)

    def _open_participants(
        self,
        tracked: Sequence[TrackedEvent],
        event_types: frozenset[str] | None,
        moments: frozenset[datetime],
        transaction_ids: IdAllocator,
    ) -> Participants:
        """The counters, balances and participants that may be touched, locked unless this is a dry run."""
        db, organization_id, now = self._db, self._organization_id, self.execution.now
        schedules = self.configuration.tier_schedules
        counters = open_limits(
            db,
            organization_id,
            self._plans,
            tracked,
            possible_types(self.configuration) | self._reported,
            self.members,
            now,
            self.reversals.counter_keys,
            lock=not self.is_dry_run,
        )
        wallets = {member.wallet_id for member in self.members.values()}
        accounts = {*self.configuration.accounts, *self.reversals.ledger_account_ids}
        ledger = posting.open_session(db, self.execution.organization, wallets, accounts, now)
        scope = UnitScope(
            db=db,
            organization=self.execution.organization,
            configuration=self.configuration,
            members=self.members,
            now=now,
            new_key=self.execution.new_key,
            is_dry_run=self.is_dry_run,
            ledger=ledger,
            transaction_ids=TransactionIds(ledger, None if self.is_dry_run else transaction_ids),
            tier_assignments=TierAssignments(schedules, self._held, now),
            tier_points=open_tier_points(db, organization_id, schedules, ledger, wallets),
            reversible=self.reversals.event_ids,
            event_types=event_types,
            moments=moments,
            referral_code_ids=frozenset(self._referral_codes),
        )
        return open_participants(scope, counters)

    def _tell_orders(self) -> None:
        """Tell the listening triggers of new and changed orders."""
        listeners = () if self.execution.is_quiet else self.configuration.listeners
        if any(listener.hears_entity(PURCHASE_ORDER) for listener in listeners):
            changes = [(CREATED, order_record(order)) for order in self.orders.new]
            changes += [(UPDATED, order_record(order)) for order in self.orders.moved]
            queue_entities(self._db, self.configuration, PURCHASE_ORDER, changes, self.execution.now)


@contextmanager
def unit_of_work(
    call: Call,
    member_ids: Collection[int],
    reason: str,
    moments: Collection[datetime] = (),
    reported: Collection[str] = (),
) -> Iterator[UnitOfWork]:
    """A unit of work for a request, its members locked; flushed at the end of the block.

    `reason` is the reason in the derived events; `moments` are those of changes that do not happen now; `reported` is
    as in `UnitOfWork`. Raises MemberErased. A Refusal raised in the block leaves no changes.
    """
    unit = UnitOfWork(call, reported=reported, call_deadline=call_deadline())
    members = unit.lock(member_ids=member_ids)
    for member_id in member_ids:
        if member_id in members:
            refuse_erased(members[member_id])
    unit.open(moments=moments)
    yield unit
    unit.report(reason)
    unit.flush()


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """The part of a call in a unit of work: `do` is about one member, and `reason` is as in `unit_of_work`.

    If `do` raises a Refusal, it has changed nothing.
    """

    call: Call
    member_id: int
    reason: str
    do: Callable[[UnitOfWork], T]


def done_together(
    parts: Sequence[Part[T]],
    prepare: Callable[[UnitOfWork], None] = lambda unit: None,
    moments: Collection[datetime] = (),
) -> list[T | Refusal]:
    """Do the parts of calls of one organization and moment in one unit of work, one after the other.

    `prepare` loads what the parts need, before the first of them; `moments` are as in `unit_of_work`. Returns the
    result or the refusal of each.
    """
    outcomes: list[T | Refusal] = []
    with unit_of_work(parts[0].call, {part.member_id for part in parts}, parts[0].reason, moments) as unit:
        prepare(unit)
        for part in parts:
            try:
                outcomes.append(part.do(unit))
            except Refusal as refusal:
                outcomes.append(refusal)
            unit.report(part.reason, origin=part.call.origin)
    return outcomes


def only(outcomes: Sequence[T | Refusal | None]) -> T:
    """The result of the only call; raises its refusal."""
    [outcome] = outcomes
    if isinstance(outcome, Refusal):
        raise outcome
    assert outcome is not None
    return outcome
