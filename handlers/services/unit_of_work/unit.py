"""One unit of work on the members of an organization: events are evaluated in it, with all that comes of them.

Lock the members, open the desks, evaluate in order on values alone, write all of it. Tracking, cancelling and whatever
a request does at the desks come through here; derived events are evaluated in the same unit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.audiences import CompiledAudience
from domain.campaigns.evaluation import MAX_ERRORS, Evaluator
from domain.campaigns.facts import EventFacts
from domain.campaigns.outcomes import Evaluation
from domain.campaigns.plans import EvaluationPlan
from domain.events import CAPTURE_ONLY, DRY_RUN, FAILURE, FULL, MAX_CAUSED, MAX_DEPTH, SUCCESS, IncomingEvent
from domain.ledger.session import LedgerSession
from domain.members import Member
from domain.orders import Order
from domain.organizations import Organization
from domain.problems import Refusal
from domain.reversals import RevertedEvent
from domain.tiers import HeldTier, MemberProgram, TierAssignments
from domain.triggers import CREATED, PURCHASE_ORDER, UPDATED
from handlers.http import metrics
from handlers.messages.events import track_result
from handlers.messages.missions import mission_outcome
from handlers.messages.orders import order_record
from handlers.messages.referrals import referral_results
from handlers.messages.reversals import reverted_event
from handlers.services.configuration import Configuration, complete_plan, configuration_of
from handlers.services.events.intake import Accepted, Result, event_digest
from handlers.services.members.match_audiences import match_audiences
from handlers.services.unit_of_work.derived_events import DerivedEvent, LedgerEvents, possible_types
from handlers.services.unit_of_work.evaluation_time import evaluation_deadline
from handlers.services.unit_of_work.event_facts import event_facts
from handlers.services.unit_of_work.event_limits import open_limits
from handlers.services.unit_of_work.event_rows import event_row
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.participants.referrals import may_refer, usable_codes
from handlers.services.unit_of_work.reversals import Reversals, extent_of
from handlers.services.unit_of_work.scope import Reversal, TransactionIds, UnitScope
from handlers.services.unit_of_work.tier_points import open_tier_points
from handlers.services.unit_of_work.work import Participants, open_participants
from handlers.services.webhooks.outbox import queue_entities, queue_events
from persistence import events, member_tiers, posting
from persistence.rows import IdAllocator

# Enough ids, beside some for each event, for what most units cause: taken from the database when first needed.
_SPARE_IDS = 16

EXPIRED = "Points or a tier had expired."


@dataclass(frozen=True, slots=True)
class Work:
    """What is open while a unit of work runs; no desks where nothing looks at any of its events."""

    orders: OrderWork
    reversals: Reversals
    event_ids: IdAllocator
    participants: Participants | None = None
    derivation: LedgerEvents | None = None


class UnitOfWork:
    """A unit of work of one organization, within one database transaction."""

    def __init__(
        self,
        db: Connection,
        organization: Organization,
        mode: str,
        now: datetime,
        new_key: Callable[[], str],
        request_id: str,
        campaign_keys: Collection[str] | None = None,
        tracing: bool = False,
    ) -> None:
        self._db = db
        self._organization = organization
        self._organization_id = organization.organization_id
        self._configuration: Configuration = configuration_of(db, organization)
        self._plans = self._configuration.plans_among(campaign_keys)
        if mode == DRY_RUN:
            self._complete_plan = complete_plan(db, organization, self._plans.campaigns, campaign_keys)
        self._campaign_keys = None if campaign_keys is None else sorted(set(campaign_keys))
        self._mode = mode
        self._tracing = tracing
        # A dry run is for people, who wait for it: its events share one.
        self._deadline = evaluation_deadline() if mode == DRY_RUN else None
        self._now = now
        self._new_key = new_key
        self._request_id = request_id
        self._rows: list[dict[str, Any]] = []
        self._members: dict[int, Member] = {}
        self._held: dict[MemberProgram, HeldTier] = {}
        self._caused = 0
        self._audiences: Mapping[int, Sequence[CompiledAudience]] = {}
        # The referral codes that may be used, by id, each with the member who has it.
        self._referral_codes: Mapping[int, int] = {}
        # What came of every event, the server's own included, beside the member whose event it is, in their order.
        self.outcomes: list[tuple[int, Mapping[str, Any]]] = []
        # The books of the work that was written last, if it needed any.
        self.ledger: LedgerSession | None = None

    def _lock(
        self, loyalty_member_ids: Collection[str], member_ids: Collection[int], incoming: Sequence[IncomingEvent] = ()
    ) -> dict[Any, Member]:
        """Lock and load members, and those whose referral codes the events may use; answers them by either id."""
        if self._mode in (FULL, DRY_RUN):
            self._referral_codes = usable_codes(self._db, self._configuration, incoming, loyalty_member_ids, member_ids)
            member_ids = {*member_ids, *self._referral_codes.values()}
        if self._mode != DRY_RUN:
            events.lock_members(self._db, self._organization_id, loyalty_member_ids, member_ids)
        members: dict[Any, Member] = {}
        for member, held in events.find_members(self._db, self._organization_id, loyalty_member_ids, member_ids):
            members[member.loyalty_member_id] = members[member.member_id] = self._members[member.member_id] = member
            self._held |= {(member.member_id, program_id): tier for program_id, tier in held.items()}
        return members

    def _begin(
        self,
        accepted: Sequence[Accepted],
        orders: OrderWork,
        undoable: Reversals,
        always: bool = False,
        moments: Collection[datetime] = (),
    ) -> Work:
        """Open what the events may touch, or what may be touched `always`; reports what has expired until now.

        `moments` are when something will happen, beside the events and now.
        """
        event_ids = IdAllocator(self._db, "events", _SPARE_IDS + 4 * len(accepted))
        concerned = any(self._is_looked_at(each.event) for each in accepted)
        if self._mode == CAPTURE_ONLY or not (always or undoable or concerned or self._mode == DRY_RUN):
            return Work(orders, undoable, event_ids)
        members, among = list(self._members.values()), self._configuration.audiences
        types = None if always else frozenset(each.event.event_type for each in accepted)
        at = frozenset((self._now, *moments, *(each.at for each in accepted)))
        participants = self._open(accepted, undoable, types, at)
        self._audiences = match_audiences(self._db, self._organization_id, among, members, self._now)
        wallets = {member.wallet_id: member.member_id for member in members}
        ids = participants.scope.transaction_ids
        points = participants.scope.tier_points
        derivation = LedgerEvents(
            self._configuration, participants.ledger, participants.tier_assignments, wallets, ids.of, points
        )
        work = Work(orders, undoable, event_ids, participants, derivation)
        self._report(derivation.begin(), None, EXPIRED, work)
        return work

    def _is_looked_at(self, event: IncomingEvent) -> bool:
        """Whether anything may come of an event."""
        looked_at = self._configuration.concerns(self._plans, event.event_type)
        return looked_at or may_refer(self._configuration, event, self._referral_codes)

    def _open(
        self,
        accepted: Sequence[Accepted],
        undoable: Reversals,
        event_types: frozenset[str] | None,
        moments: frozenset[datetime],
    ) -> Participants:
        """The counters, balances and desks that the events may touch, locked unless nothing will be written."""
        is_dry_run = self._mode == DRY_RUN
        counters = open_limits(
            self._db,
            self._organization_id,
            self._plans,
            accepted,
            possible_types(self._configuration),
            self._members,
            self._now,
            undoable.counter_keys,
            lock=not is_dry_run,
        )
        wallets = {member.wallet_id for member in self._members.values()}
        accounts = {*self._configuration.accounts, *undoable.ledger_account_ids}
        ledger = posting.open_session(self._db, self._organization_id, wallets, accounts, self._now)
        points = open_tier_points(self._db, self._organization_id, self._configuration.tier_schedules, ledger, wallets)
        allocator = None if is_dry_run else IdAllocator(self._db, "ledger_transactions", _SPARE_IDS + 4 * len(accepted))
        scope = UnitScope(
            db=self._db,
            organization=self._organization,
            configuration=self._configuration,
            members=self._members,
            now=self._now,
            new_key=self._new_key,
            is_dry_run=is_dry_run,
            ledger=ledger,
            transaction_ids=TransactionIds(ledger, allocator),
            tier_assignments=TierAssignments(self._configuration.tier_schedules, self._held, self._now),
            tier_points=points,
            undoable=undoable.event_ids,
            event_types=event_types,
            moments=moments,
            referral_code_ids=frozenset(self._referral_codes),
        )
        return open_participants(scope, counters)

    def _write(self, work: Work) -> None:
        """Store all that came of the events."""
        self._write_events()
        work.orders.write()
        self._tell_orders(work.orders)
        work.reversals.write(self._now)
        if work.participants is not None:
            participants = work.participants
            self.ledger = participants.ledger
            posting.write_session(
                self._db, self._organization_id, participants.ledger, participants.scope.transaction_ids.taken
            )
            member_tiers.move(self._db, self._organization_id, participants.tier_assignments.changed, self._now)
            events.count(self._db, self._organization_id, participants.counters.changed)
            participants.write()
            for member_program, held in participants.tier_assignments.changed.items():
                self._held.pop(member_program, None)
                if held is not None:
                    self._held[member_program] = held

    def _write_events(self) -> None:
        """Store the events themselves, and tell the triggers that listen."""
        self._store(self._rows)
        queue_events(self._db, self._configuration, self._rows, self._members, self._now)
        self._rows = []

    def _store(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store events."""
        events.add_events(self._db, rows)

    def _tell_orders(self, orders: OrderWork) -> None:
        """Tell the triggers that listen of the orders that were created or moved on."""
        if any(each.hears_entity(PURCHASE_ORDER) for each in self._configuration.listeners):
            changes = [(CREATED, order_record(each)) for each in orders.new]
            changes += [(UPDATED, order_record(each)) for each in orders.moved]
            queue_entities(self._db, self._configuration, PURCHASE_ORDER, changes, self._now)

    def _own(self, own: DerivedEvent, cause: Accepted | None, why: str, work: Work) -> Accepted:
        """An event that the server reports because of another one, or because of `why`."""
        self._caused += 1
        depth = 1 if cause is None else cause.depth + 1
        limit = None
        if depth > MAX_DEPTH:
            limit = f"it is more than {MAX_DEPTH} events away from the first one"
        elif self._caused > MAX_CAUSED:
            limit = f"more than {MAX_CAUSED} came of one event"
        at = self._now if cause is None else cause.at
        event = IncomingEvent(
            system_unique_key=f"{own.event_type}-{self._new_key()}",
            event_type=own.event_type,
            member_id=own.member_id,
            reason=why if limit is None else f"{why} Not evaluated: {limit}.",
            payload=own.payload,
            external_event_date=None if at == self._now else at,
        )
        member = self._members[own.member_id]
        return Accepted(
            position=-1,
            event=event,
            digest=event_digest(event, member, None, self._mode, self._campaign_keys),
            member=member,
            sponsor=None,
            at=at,
            is_evaluated=limit is None,
            loyalty_event_id=0 if self._mode == DRY_RUN else work.event_ids.take(),
            key=self._new_key(),
            cause_id=None if cause is None else cause.loyalty_event_id,
            depth=depth,
            request_id=None if cause is None else cause.request_id,
        )

    def _one(self, each: Accepted, work: Work) -> Result:
        """Build the order of one event, evaluate it and what comes of it; a refusal fails this event and no other."""
        found: Evaluation | None = None
        order = None
        refusal: Refusal | None = None
        reverted: list[RevertedEvent] = []
        try:
            order = work.orders.take(each.event, each.loyalty_event_id, each.member)
            if order is not None:
                reverted = self._undo(each, order[0], work)
                work.orders.keep(order)
            if work.participants is not None and each.is_evaluated:
                found = self._evaluated(each, order, work.participants)
        except Refusal as error:
            refusal = error
        stored_key = None if self._mode == DRY_RUN else each.key
        status = SUCCESS if refusal is None else FAILURE
        moved = [] if work.participants is None else work.participants.missions.moved()
        missions = [mission_outcome(each_move, self._mode == DRY_RUN) for each_move in moved]
        answer = track_result(each.event, stored_key, status, found, refusal, missions)
        if work.participants is not None:
            answer["referrals"] = referral_results(work.participants.referrals.taken(), self._mode == DRY_RUN)
        if reverted:
            answer["reverted"] = [reverted_event(one) for one in reverted]
        for failed in () if found is None or self._mode == DRY_RUN else found.errors:
            metrics.count_error(self._organization_id, failed)
        if self._mode != DRY_RUN:
            location = order[0].location_code if order else None
            request_id = each.request_id or self._request_id
            self._rows.append(event_row(each, found, status, answer, location, request_id, self._now, reverted))
        self.outcomes.append((each.member.member_id, answer))
        self._follow(each, work)
        return Result(answer, refusal)

    def _evaluated(self, each: Accepted, order: Any, participants: Participants) -> Evaluation:
        """Run one event through all that looks at it."""
        facts, deadline = self._facts(each, order, participants), self._deadline or evaluation_deadline()
        if self._mode in (FULL, DRY_RUN) and participants.missions.handle(facts, deadline):
            # What a mission counted and paid is there for the campaigns to see.
            facts = self._facts(each, order, participants)
        failed = participants.missions.failed()
        evaluator = Evaluator(
            facts,
            participants.ledger,
            participants.counters,
            self._configuration.accounts_by_key,
            self._configuration.functions,
            executors=participants.executors,
            mode=self._mode,
            tracing=self._tracing,
            deadline=deadline,
        )
        found = evaluator.run(self._considered(each))
        found.errors[:] = [*failed, *found.errors][:MAX_ERRORS]
        if self._mode in (FULL, DRY_RUN):
            participants.referrals.handle(facts, each.event, None if order is None else order[0])
        return found

    def _facts(self, each: Accepted, order: Any, participants: Participants) -> EventFacts:
        """What is known of an event as the desks stand now."""
        audiences = self._audiences[each.member.member_id]
        tier_ids = self._tier_ids(each.member, participants)
        return event_facts(each, order, participants, self._configuration, tier_ids, audiences, self._now)

    def _follow(self, each: Accepted, work: Work) -> None:
        """Evaluate what the server reports because of an event."""
        if work.derivation is not None and work.participants is not None:
            found = [*work.derivation.take_derived(), *work.participants.take_derived()]
            self._report(found, each, f"Caused by {each.event.event_type} {each.key}.", work)

    def _report(self, found: Sequence[DerivedEvent], cause: Accepted | None, why: str, work: Work) -> None:
        """Evaluate what the server itself reports."""
        work.event_ids.expect(len(found))
        for own in found:
            if cause is None:
                self._caused = 0
            self._one(self._own(own, cause, why, work), work)

    def _undo(self, each: Accepted, order: Order, work: Work) -> list[RevertedEvent]:
        """Take back what the order's events gave, as far as the order's new status undoes it."""
        extent = extent_of(order)
        standing = [each for each in reversed(order.event_ids) if work.reversals.stands(each)]
        if extent is None or work.participants is None or not standing:
            return []
        by = Reversal(each.loyalty_event_id, each.key, extent, external_event_date=each.event.external_event_date)
        return work.reversals.undo(standing, by, work.participants)

    def _considered(self, each: Accepted) -> EvaluationPlan:
        """The campaigns worth running: all of them where each must be explained."""
        return self._complete_plan if self._mode == DRY_RUN else self._plans.of(each.event.event_type)

    def _tier_ids(self, member: Member, participants: Participants) -> list[int]:
        """The tiers that the member has at this point of the unit."""
        return participants.tier_assignments.tier_ids(
            member.member_id, participants.scope.tier_points.of(member.wallet_id)
        )
