"""One unit of work on members of an organization, within one database transaction.

Lock the members, load what they have, act on values in memory, flush all changes: every use case that moves something
for a member has these steps. `evaluation` evaluates events in a unit; requests change its participants by `requests`.
The derived events of both are evaluated in the same unit. After a flush a unit can be opened again.

A unit can also have wallets without a member, for whom there are no tiers and no derived events.
"""

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property, partial
from typing import Any

from domain.audiences import CompiledAudience
from domain.campaigns.compiled import EvaluationPlan
from domain.campaigns.counters import Counters
from domain.campaigns.discounts import Basket
from domain.events import AUTHORIZE, CAPTURE_ONLY, DRY_RUN, FULL, IncomingEvent
from domain.ledger.postings import Posting, Step
from domain.ledger.session import LedgerSession
from domain.orders import OrderHistory
from domain.problems import DeadlineExceeded
from domain.tier_history import TierHistory
from domain.tier_policies import TierPoints
from domain.tiers import TierAssignments
from handlers.call import Execution
from handlers.services.complete_plan import complete_plan
from handlers.services.configuration import configuration_of
from handlers.services.members.match_audiences import match_audiences
from handlers.services.unit_of_work.derived_events import DerivedEvent, LedgerEvents, find_tier_earnings, tier_points_of
from handlers.services.unit_of_work.event_limits import open_limits
from handlers.services.unit_of_work.facts import load_order_history, load_tier_history, tier_keys_of_mint
from handlers.services.unit_of_work.locked_members import LockedMembers
from handlers.services.unit_of_work.orders import OrderWork
from handlers.services.unit_of_work.participants.badges import BadgeWork
from handlers.services.unit_of_work.participants.coupons import CouponWork
from handlers.services.unit_of_work.participants.missions import MissionWork
from handlers.services.unit_of_work.participants.outbox import OutboxWork
from handlers.services.unit_of_work.participants.payments import PaymentWork
from handlers.services.unit_of_work.participants.referrals import ReferralWork, may_refer, may_refer_by_order
from handlers.services.unit_of_work.participants.tiers import TierWork
from handlers.services.unit_of_work.reversals import Participant, Reversals
from handlers.services.unit_of_work.tracked import EventOutcome, EventRows, TrackedEvent
from persistence import limit_counters, member_tiers, posting
from persistence.rows import IdAllocator

# How many ids of derived events, and of transactions, a unit reserves at first, and how many more for each event.
SPARE_IDS, SPARE_IDS_PER_EVENT = 16, 4
# The maximum of effects and missions in the results of a call. Until its end each of them takes some 50 KB of memory.
MAX_EFFECTS = 5_000

# The participants in the order of flushing and reversing, see `persistence.locks`.
SUBJECTS = ("tiers", "badges", "coupons", "missions", "referrals", "payments", "outbox")


class UnitOfWork(LockedMembers):
    """A unit of work in an execution mode: a dry run locks nothing and is never flushed.

    Only the campaigns with `campaign_keys` are evaluated, if these are set; with `tracing`, expressions are explained;
    `reported_types` are types of derived events that are reported even if the configuration does not use them.

    `members` are the locked members, by id, and `ledger_ids` the ledgers of all locked wallets. `outcomes` has the
    outcome of every event, derived ones included. While it `is_open`, the points are in `ledger`, the counts of limits
    in `counters`, and the tiers in `tier_assignments`; `event_allocator` and `transaction_allocator` have the ids of
    new records. Each participant (`tiers`, `badges`, `coupons`, `missions`, `referrals`, `payments`, `outbox`) is
    loaded when it is first used. It has a weak reference to the unit, so that all records are freed with the unit.
    """

    ledger: LedgerSession
    tier_assignments: TierAssignments
    ledger_events: LedgerEvents
    tier_points: Callable[[int, int], TierPoints]

    def __init__(
        self,
        execution: Execution,
        mode: str = FULL,
        campaign_keys: Collection[str] | None = None,
        tracing: bool = False,
        reported_types: Collection[str] = (),
    ) -> None:
        super().__init__()
        self.execution = execution
        self.db = execution.db
        self.organization = execution.organization
        self.organization_id = execution.organization.organization_id
        self.now = execution.now
        self.new_key = execution.new_key
        self.mode = mode
        self.is_dry_run = mode == DRY_RUN
        # Whether the effects of an order's events are stored, so that later events of the batch may reverse them.
        self.stores_rewards = mode in (FULL, AUTHORIZE)
        self.tracing = tracing
        configuration = self.configuration = configuration_of(self.db, self.organization)
        self.campaign_keys = None if campaign_keys is None else sorted(set(campaign_keys))
        self.plans = configuration.plans if campaign_keys is None else configuration.plans.restrict_to(campaign_keys)
        self.possible_derived_types = configuration.possible_derived_types | frozenset(reported_types)
        self.is_open = False
        self.orders: OrderWork | None = None
        self.reversals: Reversals | None = None
        self.outcomes: list[EventOutcome] = []
        # How many derived events the current tracked event has caused, and the basket that its discounts are taken off.
        self.caused_count = 0
        self._effect_count = 0
        self.basket: Basket | None = None
        self._reported_types = frozenset(reported_types)
        # The keys of points payments among the orders of the events.
        self._payment_keys: frozenset[str] = frozenset()
        # Whether the members' points that wait for events are loaded.
        self._has_loaded_waiting = False
        self._transaction_ids: list[int] = []

    # -- opening ------------------------------------------------------------------------------------------------------

    def may_have_effect(self, event: IncomingEvent) -> bool:
        """True if the event can have an effect, or names a referral code whose outcome is reported."""
        configuration, event_type = self.configuration, event.event_type
        if event_type in configuration.missions_by_type or event_type in configuration.activity_types:
            return True
        if event_type in self.awaited_types:
            return True
        if self.plans.plan_of(event_type).campaigns:
            return True
        return may_refer(self.configuration, event, self.referral_codes)

    def open_for_events(
        self,
        tracked: Sequence[TrackedEvent],
        orders: OrderWork,
        reversals: Reversals | None = None,
        transaction_allocator: IdAllocator | None = None,
    ) -> list[DerivedEvent]:
        """Load the state that these events can affect, if they can affect any.

        `transaction_allocator` allocates ids for ledger transactions; None for a new allocator. Returns the derived
        events of changes of points and tiers that have become due. `reversals` has the events that these may reverse.
        """
        self._close()
        self.orders, self.reversals = orders, reversals
        self.event_rows.expect_stored(tracked)
        if self.mode == CAPTURE_ONLY:
            return []
        self._payment_keys = orders.payment_keys(tracked)
        incoming_events = [event.event for event in tracked]
        can_affect_state = (
            self.is_dry_run
            or reversals
            or self._payment_keys
            or any(map(self.may_have_effect, incoming_events))
            or may_refer_by_order(self.configuration, incoming_events, orders.referral_codes)
        )
        if not can_affect_state:
            return []
        event_moments = [event.at for event in tracked]
        self.moments = frozenset([self.now, *event_moments])
        self.event_types: frozenset[str] | None = frozenset([event.event.event_type for event in tracked])
        spare_ids = SPARE_IDS_PER_EVENT * len(tracked)
        self._open(tracked, spare_ids, transaction_allocator=transaction_allocator, since=min(event_moments))
        return self.ledger_events.take_due()

    def open_for_request(
        self,
        moments: Collection[datetime] = (),
        account_ids: Collection[int] | None = None,
        settled_accounts: Collection[int] | None = None,
        transaction_allocator: IdAllocator | None = None,
        since: datetime | None = None,
    ) -> list[DerivedEvent]:
        """Load the state that a request can affect, whose changes happen at these moments and now.

        `account_ids` are the accounts whose points the request moves; if it is None, all accounts are locked. If the
        movements may concern members, all accounts are locked, too. `since` is the earliest date of the movements.
        `transaction_allocator` is as in `open_for_events`.

        Returns the derived events of changes of points and tiers that have become due. With `account_ids`, but without
        `settled_accounts`, it returns none: `LedgerEvents.take_derived` reports them with the events of the movements.
        The tiers that depend on `settled_accounts` are evaluated even if none of their points were due.
        """
        self._close()
        # A request may cause events of any type.
        self.moments, self.event_types = frozenset((self.now, *moments)), None
        accounts: Collection[int] = self.configuration.accounts
        if account_ids is not None:
            may_concern_members = self._may_concern_members(account_ids)
            accounts = {*account_ids, *accounts} if may_concern_members else account_ids
        self._open((), spare_ids=0, account_ids=accounts, transaction_allocator=transaction_allocator, since=since)
        if account_ids is not None and settled_accounts is None:
            return []
        return self.ledger_events.take_due(settled_accounts or ())

    def _open(
        self,
        tracked: Sequence[TrackedEvent],
        spare_ids: int,
        account_ids: Collection[int] | None = None,
        transaction_allocator: IdAllocator | None = None,
        since: datetime | None = None,
    ) -> None:
        """Load points, limits and tiers, in the order of `persistence.locks`; locked unless this is a dry run."""
        if account_ids is None:
            account_ids = self.configuration.accounts
        if self.reversals:
            account_ids = {*account_ids, *self.reversals.ledger_account_ids}
        lock = not self.is_dry_run
        self.ledger = posting.open_session(
            self.db,
            self.organization,
            self.ledger_ids,
            account_ids,
            self.now,
            self.configuration.accounts,
            lock=lock,
            since=since,
            max_expired_lots=self.execution.max_expired_lots,
        )
        if self.ledger.steps:
            self._add_due_moments()
            self._add_owners_of_settled_points()
        reversed_counters = self.reversals.counter_keys if self.reversals else ()
        if self.plans.have_limits or reversed_counters:
            self.counters = open_limits(self, tracked, reversed_counters)
        self.tier_assignments = TierAssignments(self.configuration.tier_schedules, self._held_tiers, self.now)
        schedules = self.configuration.schedules_of_periods
        earnings = (
            find_tier_earnings(self.db, self.organization_id, schedules, self.ledger_ids, self.now) if schedules else {}
        )
        self.tier_points = partial(tier_points_of, self.ledger, earnings)
        self.ledger.tier_keys_of_mint = partial(tier_keys_of_mint, weakref.proxy(self))
        self._transaction_ids = []
        id_count = SPARE_IDS + spare_ids
        self.event_allocator = IdAllocator(self.db, "events", id_count)
        self.transaction_allocator = transaction_allocator or IdAllocator(self.db, "ledger_transactions", id_count)
        self.ledger_events = LedgerEvents(weakref.proxy(self))
        self.is_open = True

    def confirm_mints(self, tracked: TrackedEvent) -> None:
        """Make available the member's points that wait for this event.

        The first event of a type for which any member's points wait loads the stored mints that wait.
        """
        event_type = tracked.event.event_type
        if event_type in self.awaited_types and not self._has_loaded_waiting:
            self._has_loaded_waiting = True
            self.ledger.expect_events(posting.find_waiting_mints(self.db, self.organization_id, self.ledger_ids))
        self.ledger.confirm(tracked.member.wallet_id, event_type, tracked.order_external_id, tracked.at)

    def count_effects(self, result: Mapping[str, Any]) -> None:
        """Count the effects and missions in the result of an event; raises DeadlineExceeded if a call has too many."""
        self._effect_count += len(result["effects"]) + len(result["missions"])
        if self._effect_count > MAX_EFFECTS and self.execution.is_awaited:
            raise DeadlineExceeded(
                f"The events have more than {MAX_EFFECTS:,} effects and missions, the maximum of a call. Nothing was "
                "changed. Send fewer events in a call."
            )

    def _close(self) -> None:
        """Forget what was open; the members stay locked."""
        self.is_open, self.orders, self.reversals = False, None, None
        self._has_loaded_waiting = False
        self._payment_keys = frozenset()
        # Cached properties, which are loaded again when they are next used.
        for name in (*SUBJECTS, "counters", "audiences", "tier_history", "order_history"):
            self.__dict__.pop(name, None)

    @cached_property
    def event_rows(self) -> EventRows:
        """The events to be stored."""
        return EventRows(self.execution, self.configuration)

    @cached_property
    def counters(self) -> Counters:
        """The counts of limits; empty unless `_open` has loaded stored ones."""
        return Counters({})

    @cached_property
    def audiences(self) -> Mapping[int, Sequence[CompiledAudience]]:
        """The audiences that each member is in, by member id."""
        candidates, members = self.configuration.audiences, self.members.values()
        return match_audiences(self.db, self.organization_id, candidates, members, self.now)

    @cached_property
    def tier_history(self) -> TierHistory:
        """The tiers that the members had, for late events, without the changes of this unit since it was opened."""
        return load_tier_history(self.db, self.organization_id, self.members, self.configuration.tier_schedules)

    @cached_property
    def order_history(self) -> OrderHistory:
        """The orders of the members, for expressions that read them."""
        return load_order_history(self)

    # -- participants -------------------------------------------------------------------------------------------------

    @cached_property
    def tiers(self) -> TierWork:
        """The tiers that effects and requests set."""
        return TierWork(weakref.proxy(self))

    @cached_property
    def badges(self) -> BadgeWork:
        """The badges of the members."""
        return BadgeWork(weakref.proxy(self))

    @cached_property
    def coupons(self) -> CouponWork:
        """The coupons of the members."""
        return CouponWork(weakref.proxy(self))

    @cached_property
    def missions(self) -> MissionWork:
        """The missions of the members."""
        return MissionWork(weakref.proxy(self))

    @cached_property
    def referrals(self) -> ReferralWork:
        """The referral codes that may be used."""
        return ReferralWork(weakref.proxy(self))

    @cached_property
    def payments(self) -> PaymentWork:
        """The payments with points of the orders."""
        return PaymentWork(weakref.proxy(self), self._payment_keys)

    @cached_property
    def outbox(self) -> OutboxWork:
        """The notifications of campaigns."""
        return OutboxWork(weakref.proxy(self))

    def uses(self, subject: str) -> bool:
        """True if the participant of a subject was used since the unit was opened."""
        return subject in self.__dict__

    def used_participants(self) -> list[Participant]:
        """The participants that were used, in the order of flushing."""
        participants = self.__dict__
        return [participants[name] for name in SUBJECTS if name in participants]

    def all_participants(self) -> list[Participant]:
        """All participants, in the order of reversing."""
        return [getattr(self, name) for name in SUBJECTS]

    @cached_property
    def complete_plan(self) -> EvaluationPlan:
        """The plan of all campaigns, also of inactive ones, so that each can be explained."""
        return complete_plan(self.db, self.organization, self.plans.campaigns, self.campaign_keys)

    # -- ids ----------------------------------------------------------------------------------------------------------

    def expect_events(self, count: int) -> None:
        """Prepare for `count` derived events, and for what they may cause, so that few statements reserve the ids."""
        self.event_allocator.expect(SPARE_IDS + SPARE_IDS_PER_EVENT * count)
        self.transaction_allocator.expect(SPARE_IDS + SPARE_IDS_PER_EVENT * count)

    def transaction_id(self, number: int) -> int | None:
        """The id of the posting with this number (from 0) in the session, before it is written; None in a dry run."""
        if self.is_dry_run:
            return None
        while len(self._transaction_ids) <= number:
            self._transaction_ids.append(self.transaction_allocator.take())
        return self._transaction_ids[number]

    def id_of(self, step: Step) -> int:
        """The transaction id of a ledger step, after the flush."""
        return self._ids_of_steps[id(step)]

    # -- storing ------------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Store all changes, in the order of `persistence.locks`."""
        if "event_rows" in self.__dict__:
            self.event_rows.flush(self.members)
        if self.orders is not None:
            self.orders.flush(self.configuration)
        if self.reversals is not None:
            self.reversals.flush(self.now)
        if self.is_open:
            self._flush_state()

    def _flush_state(self) -> None:
        """Store the points, tiers and counts of limits, then the changes of the participants."""
        steps = self.ledger.steps
        postings = len([step for step in steps if isinstance(step, Posting)])
        # If there are more postings than reserved ids, the statement that writes them also reserves the missing ids.
        self._transaction_ids += self.transaction_allocator.take_reserved(postings - len(self._transaction_ids))
        ids = posting.write_session(self.db, self.organization_id, self.ledger, self.ledger_ids, self._transaction_ids)
        self._ids_of_steps = dict(zip(map(id, steps), ids, strict=True))
        self._expect_awaited_events()
        changed_tiers = self.tier_assignments.changed_tiers
        if changed_tiers:
            member_tiers.move(self.db, self.organization_id, changed_tiers, self.now)
        if "counters" in self.__dict__ and (self.counters.count_log or self.counters.locked):
            limit_counters.store(self.db, self.organization_id, self.counters.changes())
        for participant in self.used_participants():
            participant.flush()
        # The unit begins with these tiers if it is opened again.
        for member_program, held_tier in changed_tiers.items():
            self._held_tiers.pop(member_program, None)
            if held_tier is not None:
                self._held_tiers[member_program] = held_tier
