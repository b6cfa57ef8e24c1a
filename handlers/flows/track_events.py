"""Tracking: events in, everything they set in motion out, in a number of statements that is the same for any number.

A batch is one database transaction: lock the members, answer what was tracked before, evaluate the rest in order on
values alone, and write all of it. An event that is refused leaves the others standing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from domain.audiences import CompiledAudience
from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import moment_of
from domain.campaigns.evaluation import Evaluation, Evaluator
from domain.campaigns.limits import CounterKey, Counters, EventLimits
from domain.events import (
    CAPTURE_ONLY,
    DRY_RUN,
    FAILURE,
    FULL,
    MAX_CAUSED,
    MAX_DEPTH,
    SUCCESS,
    IncomingEvent,
    UnknownMember,
)
from domain.ledger.books import Books
from domain.members import Member
from domain.orders import Order
from domain.organizations import Organization
from domain.problems import KeyReused, Refusal
from domain.reversals import RevertedEvent
from domain.tiers import HeldTier, Place, Standings
from handlers.call import Call
from handlers.flows.build_orders import OrderDesk, order_payload
from handlers.flows.configuration import Configuration, configuration_of
from handlers.flows.derive_events import Derivation, OwnEvent, balance_of, possible_types
from handlers.flows.event_facts import event_facts
from handlers.flows.event_intake import (
    Accepted,
    RefusedBefore,
    Result,
    event_digest,
    refuse_untrackable,
    without_repeats,
)
from handlers.flows.event_rows import event_row
from handlers.flows.match_audiences import match_audiences
from handlers.flows.revert_events import Reversal, Reversals, extent_of, segments, undone_orders
from handlers.wire.events import track_result
from handlers.wire.reversals import reverted_event
from persistence import events, member_tiers, posting, reversals
from persistence.rows import IdStock, reserve_ids

# Enough ids, beside some for each event, for what most batches cause: taken from the database when first needed.
_SPARE_IDS = 16


@dataclass(frozen=True, slots=True)
class _Work:
    """What the events of a batch work on; nothing to evaluate with where no campaign looks at any of them."""

    desk: OrderDesk
    books: Books | None
    counters: Counters | None
    reversals: Reversals
    event_ids: IdStock
    transaction_ids: list[int]


class TrackBatch:
    """One batch of events of one organization, tracked in one database transaction."""

    def __init__(
        self,
        db: Connection,
        organization: Organization,
        mode: str,
        now: datetime,
        new_key: Callable[[], str],
        request_id: str,
        campaign_keys: Collection[str] | None = None,
        own_events: bool = False,
    ) -> None:
        self._db = db
        self._organization_id = organization.organization_id
        self._configuration: Configuration = configuration_of(db, organization)
        self._campaigns = self._configuration.campaigns_among(campaign_keys)
        self._campaign_keys = None if campaign_keys is None else sorted(set(campaign_keys))
        self._mode = mode
        self._now = now
        self._new_key = new_key
        self._request_id = request_id
        self._own_events = own_events
        self._results: dict[int, Result] = {}
        self._rows: list[dict[str, Any]] = []
        self._members: dict[int, Member] = {}
        self._held: dict[Place, HeldTier] = {}
        self._derivation: Derivation | None = None
        self._caused = 0
        self._audiences: Mapping[int, Sequence[CompiledAudience]] = {}

    def track(self, incoming: Sequence[IncomingEvent]) -> list[Result]:
        """Track the events in order and answer a result for each."""
        accepted = self._accept(incoming)
        if accepted:
            first, repeats = without_repeats(accepted)
            for segment in segments(first, self._mode == FULL):
                self._evaluate(segment)
            for repeat, original in repeats:
                self._results[repeat.position] = self._repeated(repeat, original)
        return [self._results[position] for position in range(len(incoming))]

    def _accept(self, incoming: Sequence[IncomingEvent]) -> list[Accepted]:
        """Lock the members and sort out what can't be tracked and what was tracked before."""
        by_loyalty_id = {e.loyalty_member_id for e in incoming if e.loyalty_member_id is not None}
        by_loyalty_id |= {e.sponsor_loyalty_member_id for e in incoming if e.sponsor_loyalty_member_id is not None}
        by_id = {e.member_id for e in incoming if e.member_id is not None}
        undone = undone_orders(incoming)
        if undone:
            by_id |= reversals.find_members_of_orders(self._db, self._organization_id, undone)
        members = self._lock(by_loyalty_id, by_id)
        keys = {e.system_unique_key for e in incoming}
        # A dry run asks what would happen if the event came now, whether or not it has come before.
        answered = {} if self._mode == DRY_RUN else events.find_answered(self._db, self._organization_id, keys)
        accepted = []
        for position, event in enumerate(incoming):
            try:
                each = self._looked_up(position, event, members)
                before = answered.get(event.system_unique_key)
                if before is None:
                    refuse_untrackable(event, each.member, self._configuration, self._own_events)
                    accepted.append(each)
                else:
                    self._results[position] = self._answered_before(each, *before)
            except Refusal as refusal:
                self._results[position] = self._refused(event, refusal)
        return accepted

    def _lock(self, loyalty_member_ids: Collection[str], member_ids: Collection[int]) -> dict[Any, Member]:
        """Lock and load members; answers them by either id."""
        if self._mode != DRY_RUN:
            events.lock_members(self._db, self._organization_id, loyalty_member_ids, member_ids)
        members: dict[Any, Member] = {}
        for member, held in events.find_members(self._db, self._organization_id, loyalty_member_ids, member_ids):
            members[member.loyalty_member_id] = members[member.member_id] = self._members[member.member_id] = member
            self._held |= {(member.member_id, program_id): tier for program_id, tier in held.items()}
        return members

    def _looked_up(self, position: int, event: IncomingEvent, members: Mapping[Any, Any]) -> Accepted:
        member = members.get(event.member_id or event.loyalty_member_id)
        if member is None:
            raise UnknownMember("The organization has no such member.")
        sponsor = None
        if event.sponsor_loyalty_member_id is not None:
            sponsor = members.get(event.sponsor_loyalty_member_id)
            if sponsor is None:
                raise UnknownMember("The organization has no such sponsor.")
        digest = event_digest(event, member, sponsor, self._mode, self._campaign_keys)
        evaluates = self._mode != CAPTURE_ONLY
        return Accepted(position, event, digest, member, sponsor, moment_of(event, self._now), evaluates)

    def _refused(self, event: IncomingEvent, refusal: Refusal) -> Result:
        return Result(track_result(event, None, FAILURE, None, refusal), refusal)

    def _answered_before(self, each: Accepted, digest: bytes, answer: Mapping[str, Any]) -> Result:
        if digest != each.digest:
            return self._refused(each.event, KeyReused(f"The key {each.event.system_unique_key} was used before."))
        return Result(dict(answer), RefusedBefore(answer["error"]) if "error" in answer else None)

    def _repeated(self, repeat: Accepted, original: Accepted) -> Result:
        if repeat.digest != original.digest:
            return self._refused(repeat.event, KeyReused(f"The key {repeat.event.system_unique_key} came twice."))
        return self._results[original.position]

    def _evaluate(self, accepted: list[Accepted]) -> None:
        payloads = [payload for each in accepted if (payload := order_payload(each.event)) is not None]
        ids = self._ids(len(accepted), len(payloads), sum(len(each.get("items") or ()) for each in payloads))
        for each, event_id in zip(accepted, ids["events"], strict=True):
            each.loyalty_event_id, each.key = event_id, self._new_key()
        external_ids = {payload["externalId"] for payload in payloads}
        desk = OrderDesk(
            self._db, self._organization_id, external_ids, self._now, ids["purchase_orders"], ids["order_items"]
        )
        undone = undone_orders(each.event for each in accepted) if self._mode != CAPTURE_ONLY else set()
        creations = {order.loyalty_event_id for name in undone if (order := desk.stored(name)) is not None}
        work = self._begin(accepted, desk, Reversals(self._db, self._organization_id, creations))
        for each in accepted:
            self._caused = 0
            self._one(each, work)
        if self._mode != DRY_RUN:
            self._write(work)

    def _begin(self, accepted: list[Accepted], desk: OrderDesk, undoable: Reversals) -> _Work:
        """Open what the events may touch."""
        books, counters = None, None
        if self._mode != CAPTURE_ONLY and (undoable or any(self._considered(each) for each in accepted)):
            books, counters = self._open(accepted, undoable)
            members, among = list(self._members.values()), self._configuration.audiences
            self._audiences = match_audiences(self._db, self._organization_id, among, members, self._now)
        work = _Work(desk, books, counters, undoable, IdStock(self._db, "events", _SPARE_IDS + 4 * len(accepted)), [])
        self._derive(work, _SPARE_IDS + 4 * len(accepted))
        return work

    def _write(self, work: _Work) -> None:
        """Store all that came of the events."""
        events.add_events(self._db, self._rows)
        self._rows = []
        work.desk.write()
        work.reversals.write(self._now)
        if work.books is not None and work.counters is not None:
            posting.write_books(self._db, self._organization_id, work.books, work.transaction_ids)
            member_tiers.move(self._db, self._organization_id, self._standings.changed, self._now)
            events.count(self._db, self._organization_id, work.counters.changed)
            for place, tier_id in self._standings.changed.items():
                self._held.pop(place, None)
                if tier_id is not None:
                    self._held[place] = HeldTier(tier_id)

    def _ids(self, events_: int, orders: int, items: int) -> Mapping[str, Sequence[int]]:
        """Ids for all that the batch may store; a dry run stores nothing and takes none from the database."""
        counts = {"events": events_, "purchase_orders": orders, "order_items": items}
        if self._mode == DRY_RUN:
            return {name: [0] * count for name, count in counts.items()}
        return reserve_ids(self._db, **counts)

    def _open(self, accepted: list[Accepted], undoable: Reversals) -> tuple[Books, Counters]:
        """The counters and balances that the batch may touch, locked unless nothing will be written."""
        keys = self._counter_keys(accepted) | undoable.counter_keys
        counters = Counters(events.open_counters(self._db, self._organization_id, keys, lock=self._mode != DRY_RUN))
        wallets = {member.wallet_id for member in self._members.values()}
        accounts = {*self._configuration.accounts, *undoable.ledger_account_ids}
        books = posting.open_books(self._db, self._organization_id, wallets, accounts, self._now)
        return books, counters

    def _counter_keys(self, accepted: list[Accepted]) -> set[CounterKey]:
        """What the events may count against limits, and what the server may report because of them."""
        keys: set[CounterKey] = set()
        derived = possible_types(self._configuration)
        for campaign in self._campaigns:
            if not campaign.limits:
                continue
            follows = any(campaign.considers(event_type) for event_type in derived)
            counted = {(e.member.member_id, e.at) for e in accepted if campaign.considers(e.event.event_type)}
            if follows:
                counted |= {(member_id, self._now) for member_id in self._members}
                counted |= {(e.member.member_id, e.at) for e in accepted}
                counted |= {(e.sponsor.member_id, e.at) for e in accepted if e.sponsor is not None}
            for member_id, at in counted:
                limits = EventLimits.of(campaign.limits, campaign.campaign.campaign_id, member_id, at)
                keys.update(key for _, key in limits.rules)
        return keys

    def _derive(self, work: _Work, first_ids: int) -> None:
        """Begin to follow what the books lead to; ids of transactions that are named meanwhile are the work's."""
        taken = work.transaction_ids
        self._standings = Standings(self._configuration.ladders, self._held, self._now)
        if work.books is None:
            self._derivation = None
            return
        stock = IdStock(self._db, "ledger_transactions", first_ids)

        def transaction_id(number: int) -> int | None:
            while self._mode != DRY_RUN and len(taken) <= number:
                taken.append(stock.take())
            return None if self._mode == DRY_RUN else taken[number]

        wallets = {member.wallet_id: member.member_id for member in self._members.values()}
        self._derivation = Derivation(self._configuration, work.books, self._standings, wallets, transaction_id)
        for own in self._derivation.begin():
            self._caused = 0
            self._one(self._own(own, None, work), work)

    def _own(self, own: OwnEvent, cause: Accepted | None, work: _Work) -> Accepted:
        """An event that the server reports because of another one, or of something that had expired."""
        self._caused += 1
        depth = 1 if cause is None else cause.depth + 1
        why = "Points or a tier had expired." if cause is None else f"Caused by {cause.event.event_type} {cause.key}."
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
        )

    def _one(self, each: Accepted, work: _Work) -> None:
        """Build the order of one event, evaluate it and what comes of it; a refusal fails this event and no other."""
        found: Evaluation | None = None
        order = None
        refusal: Refusal | None = None
        reverted: list[RevertedEvent] = []
        try:
            order = work.desk.take(each.event, each.loyalty_event_id, each.member)
            if order is not None:
                reverted = self._undo(each, order[0], work)
                work.desk.keep(order)
            if work.books is not None and work.counters is not None and each.is_evaluated:
                facts = event_facts(
                    each,
                    order,
                    work.books,
                    self._configuration,
                    self._tier_ids(each.member, work.books),
                    self._audiences[each.member.member_id],
                    self._now,
                )
                found = Evaluator(
                    facts,
                    work.books,
                    work.counters,
                    self._configuration.accounts_by_key,
                    self._configuration.functions,
                    explaining=self._mode == DRY_RUN,
                ).run(self._considered(each))
        except Refusal as error:
            refusal = error
        stored_key = None if self._mode == DRY_RUN else each.key
        status = SUCCESS if refusal is None else FAILURE
        answer = track_result(each.event, stored_key, status, found, refusal)
        if reverted:
            answer["reverted"] = [reverted_event(one) for one in reverted]
        if not each.depth:
            self._results[each.position] = Result(answer, refusal)
        if self._mode != DRY_RUN:
            location = order[0].location_code if order else None
            self._rows.append(event_row(each, found, status, answer, location, self._request_id, self._now, reverted))
        self._follow(each, work)

    def _follow(self, each: Accepted, work: _Work) -> None:
        """Evaluate what the server reports because of an event."""
        if self._derivation is not None:
            for own in self._derivation.follow():
                self._one(self._own(own, each, work), work)

    def _undo(self, each: Accepted, order: Order, work: _Work) -> list[RevertedEvent]:
        """Take back what the order's creation gave, as far as the order's new status undoes it."""
        extent = extent_of(order)
        if extent is None or work.books is None or work.counters is None:
            return []
        if not work.reversals.stands(order.loyalty_event_id):
            return []
        by = Reversal(each.loyalty_event_id, each.key, extent, external_event_date=each.event.external_event_date)
        return work.reversals.undo(order.loyalty_event_id, by, work.books, work.counters)

    def _considered(self, each: Accepted) -> Sequence[CompiledCampaign]:
        """The campaigns worth running: all of them where each must be explained."""
        if self._mode == DRY_RUN:
            return self._campaigns
        return [campaign for campaign in self._campaigns if campaign.considers(each.event.event_type)]

    def _tier_ids(self, member: Member, books: Books) -> list[int]:
        """The tiers that the member has at this point of the batch."""
        return self._standings.tier_ids(member.member_id, partial(balance_of, books, member.wallet_id))


def emit(call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str | None = None) -> None:
    """Track an event that the server itself reports of a member, such as `member-created` (integration 6)."""
    event = IncomingEvent(
        system_unique_key=f"{event_type}-{call.new_key()}",
        event_type=event_type,
        member_id=member.member_id,
        payload=payload,
        reason=reason,
    )
    TrackBatch(call.db, call.organization, FULL, call.now, call.new_key, call.request_id, own_events=True).track(
        [event]
    )
