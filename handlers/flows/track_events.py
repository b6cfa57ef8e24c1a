"""Tracking: events in, everything they set in motion out, in a number of statements that is the same for any number.

A batch is one database transaction: lock the members, answer what was tracked before, evaluate the rest in order on
values alone, and write all of it. An event that is refused leaves the others standing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
from sqlalchemy import Connection

from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import (
    HOST_FUNCTIONS,
    event_variable,
    member_variable,
    moment_of,
    order_variable,
    payment_variable,
    spend_of,
)
from domain.campaigns.evaluation import Evaluation, Evaluator, EventFacts
from domain.campaigns.limits import CounterKey, Counters, EventLimits
from domain.event_types import BUILT_IN_EVENT_TYPES, NOT_TRACKABLE
from domain.events import (
    CAPTURE_ONLY,
    DRY_RUN,
    EVALUATED,
    EVALUATION_FAILED,
    FAILURE,
    FULL,
    NOT_EVALUATED,
    SUCCESS,
    IncomingEvent,
    NotTrackable,
    PayloadMissing,
    UnknownEventType,
    UnknownMember,
)
from domain.ledger.books import Books
from domain.members import Member, MemberInactive
from domain.organizations import Organization
from domain.problems import KeyReused, Refusal
from handlers.call import Call
from handlers.flows.build_orders import OrderDesk, order_payload
from handlers.flows.configuration import Configuration, configuration_of
from handlers.wire.events import limit_counter, track_result
from persistence import events, posting
from persistence.rows import reserve_ids

_canonical = msgspec.json.Encoder(order="deterministic", decimal_format="number").encode

_BUILT_IN = frozenset(BUILT_IN_EVENT_TYPES)
_OF_INACTIVE_MEMBERS = frozenset({"member-profile-deactivated"})


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one event: the answer on the wire, and the refusal behind a failure."""

    answer: dict[str, Any]
    refusal: Refusal | None = None


class RefusedBefore(Refusal):
    """An event that failed under this key before: refused again in the same words."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self._problem = dict(problem)

    def as_problem(self) -> dict[str, Any]:
        """The problem object of the first time."""
        return dict(self._problem)


@dataclass(slots=True)
class _Accepted:
    """An event that will be evaluated, with what was looked up for it."""

    position: int
    event: IncomingEvent
    digest: bytes
    member: Member
    sponsor: Member | None
    tier_ids: Sequence[int]
    at: datetime
    loyalty_event_id: int = 0
    key: str = ""
    counter_keys: set[CounterKey] = field(default_factory=set)


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

    def track(self, incoming: Sequence[IncomingEvent]) -> list[Result]:
        """Track the events in order and answer a result for each."""
        accepted = self._accept(incoming)
        if accepted:
            first, repeats = self._without_repeats(accepted)
            self._evaluate(first)
            for repeat, original in repeats:
                self._results[repeat.position] = self._repeated(repeat, original)
        return [self._results[position] for position in range(len(incoming))]

    def _accept(self, incoming: Sequence[IncomingEvent]) -> list[_Accepted]:
        """Lock the members and sort out what can't be tracked and what was tracked before."""
        by_loyalty_id = {e.loyalty_member_id for e in incoming if e.loyalty_member_id is not None}
        by_loyalty_id |= {e.sponsor_loyalty_member_id for e in incoming if e.sponsor_loyalty_member_id is not None}
        by_id = {e.member_id for e in incoming if e.member_id is not None}
        if self._mode != DRY_RUN:
            events.lock_members(self._db, self._organization_id, by_loyalty_id, by_id)
        found = events.find_members(self._db, self._organization_id, by_loyalty_id, by_id, self._now)
        members: dict[Any, tuple[Member, list[int]]] = {}
        for member, tier_ids in found:
            members[member.loyalty_member_id] = members[member.member_id] = (member, tier_ids)
        answered = events.find_answered(self._db, self._organization_id, {e.system_unique_key for e in incoming})
        accepted = []
        for position, event in enumerate(incoming):
            try:
                each = self._looked_up(position, event, members)
                before = answered.get(event.system_unique_key)
                if before is None:
                    self._refuse_untrackable(event, each.member)
                    accepted.append(each)
                else:
                    self._results[position] = self._answered_before(each, *before)
            except Refusal as refusal:
                self._results[position] = self._refused(event, refusal)
        return accepted

    def _looked_up(self, position: int, event: IncomingEvent, members: Mapping[Any, Any]) -> _Accepted:
        member, tier_ids = members.get(event.member_id or event.loyalty_member_id, (None, ()))
        if member is None:
            raise UnknownMember("The organization has no such member.")
        sponsor = None
        if event.sponsor_loyalty_member_id is not None:
            sponsor, _ = members.get(event.sponsor_loyalty_member_id, (None, ()))
            if sponsor is None:
                raise UnknownMember("The organization has no such sponsor.")
        digest = self._digest(event, member, sponsor)
        return _Accepted(position, event, digest, member, sponsor, tier_ids, moment_of(event, self._now))

    def _refuse_untrackable(self, event: IncomingEvent, member: Member) -> None:
        """Refuse what cannot be tracked as things stand now, which says nothing of what was tracked before."""
        if event.event_type not in _BUILT_IN and event.event_type not in self._configuration.custom_event_types:
            raise UnknownEventType(f"There is no active event type {event.event_type}.")
        if event.event_type in NOT_TRACKABLE and not self._own_events:
            raise NotTrackable(f"Events of type {event.event_type} are emitted by the server alone.")
        if not member.active and event.event_type not in _OF_INACTIVE_MEMBERS and not self._own_events:
            raise MemberInactive("Events of an inactive member are not tracked.")
        order_payload(event)
        if event.event_type == "member-payment-confirmed" and not (event.payload or {}).get("payment"):
            raise PayloadMissing(f"An event of type {event.event_type} needs payload.payment.")

    def _digest(self, event: IncomingEvent, member: Member, sponsor: Member | None) -> bytes:
        """What makes two requests the same: all that was said, on whichever surface it was said."""
        said = (
            member.member_id,
            sponsor.member_id if sponsor else None,
            event.event_type,
            event.external_id,
            event.description,
            event.payload,
            event.external_event_date,
            event.tags,
            self._mode,
            self._campaign_keys,
        )
        return hashlib.sha256(_canonical(said)).digest()

    def _refused(self, event: IncomingEvent, refusal: Refusal) -> Result:
        return Result(track_result(event, None, FAILURE, None, refusal), refusal)

    def _answered_before(self, each: _Accepted, digest: bytes, answer: Mapping[str, Any]) -> Result:
        if digest != each.digest:
            return self._refused(each.event, KeyReused(f"The key {each.event.system_unique_key} was used before."))
        return Result(dict(answer), RefusedBefore(answer["error"]) if "error" in answer else None)

    def _without_repeats(self, accepted: list[_Accepted]) -> tuple[list[_Accepted], list[tuple[_Accepted, _Accepted]]]:
        """Those whose key comes for the first time in the batch, and the others beside the first of their key."""
        first: dict[str, _Accepted] = {}
        repeats = []
        for each in accepted:
            original = first.setdefault(each.event.system_unique_key, each)
            if original is not each:
                repeats.append((each, original))
        return list(first.values()), repeats

    def _repeated(self, repeat: _Accepted, original: _Accepted) -> Result:
        if repeat.digest != original.digest:
            return self._refused(repeat.event, KeyReused(f"The key {repeat.event.system_unique_key} came twice."))
        return self._results[original.position]

    def _evaluate(self, accepted: list[_Accepted]) -> None:
        stores = self._mode != DRY_RUN
        evaluates = self._mode != CAPTURE_ONLY and any(self._considered(each) for each in accepted)
        payloads = [payload for each in accepted if (payload := order_payload(each.event)) is not None]
        ids = self._ids(len(accepted), len(payloads), sum(len(each.get("items") or ()) for each in payloads))
        for each, event_id in zip(accepted, ids["events"], strict=True):
            each.loyalty_event_id, each.key = event_id, self._new_key()
        external_ids = {payload["externalId"] for payload in payloads}
        desk = OrderDesk(
            self._db, self._organization_id, external_ids, self._now, ids["purchase_orders"], ids["order_items"]
        )
        books, counters = self._open(accepted) if evaluates else (None, None)
        for each in accepted:
            self._one(each, desk, books, counters)
        if stores:
            events.add_events(self._db, self._rows)
            desk.write()
            if books is not None and counters is not None:
                posting.write_books(self._db, self._organization_id, books)
                events.count(self._db, self._organization_id, counters.changed)

    def _ids(self, events_: int, orders: int, items: int) -> Mapping[str, Sequence[int]]:
        """Ids for all that the batch may store; a dry run stores nothing and takes none from the database."""
        counts = {"events": events_, "purchase_orders": orders, "order_items": items}
        if self._mode == DRY_RUN:
            return {name: [0] * count for name, count in counts.items()}
        return reserve_ids(self._db, **counts)

    def _open(self, accepted: list[_Accepted]) -> tuple[Books, Counters]:
        """The counters and balances that the batch may touch, locked unless nothing will be written."""
        keys: set[CounterKey] = set()
        for each in accepted:
            for campaign in self._campaigns:
                if campaign.limits and campaign.considers(each.event.event_type):
                    limits = EventLimits.of(
                        campaign.limits, campaign.campaign.campaign_id, each.member.member_id, each.at
                    )
                    keys.update(key for _, key in limits.rules)
        counters = Counters(events.open_counters(self._db, self._organization_id, keys, lock=self._mode != DRY_RUN))
        wallets = {each.member.wallet_id for each in accepted}
        wallets |= {each.sponsor.wallet_id for each in accepted if each.sponsor is not None}
        books = posting.open_books(self._db, self._organization_id, wallets, self._configuration.accounts, self._now)
        return books, counters

    def _one(self, each: _Accepted, desk: OrderDesk, books: Books | None, counters: Counters | None) -> None:
        """Build the order of one event and evaluate it; a refusal fails this event and no other."""
        found: Evaluation | None = None
        order = None
        refusal: Refusal | None = None
        try:
            order = desk.take(each.event, each.loyalty_event_id, each.member)
            if books is not None and counters is not None:
                facts = self._facts(each, order, books)
                found = Evaluator(
                    facts,
                    books,
                    counters,
                    self._configuration.accounts_by_key,
                    HOST_FUNCTIONS,
                    explaining=self._mode == DRY_RUN,
                ).run(self._considered(each))
        except Refusal as error:
            refusal = error
        stored_key = None if self._mode == DRY_RUN else each.key
        status = SUCCESS if refusal is None else FAILURE
        answer = track_result(each.event, stored_key, status, found, refusal)
        self._results[each.position] = Result(answer, refusal)
        if self._mode != DRY_RUN:
            self._rows.append(self._row(each, order[0].location_code if order else None, status, answer, found))

    def _considered(self, each: _Accepted) -> Sequence[CompiledCampaign]:
        """The campaigns worth running: all of them where each must be explained."""
        if self._mode == DRY_RUN:
            return self._campaigns
        return [campaign for campaign in self._campaigns if campaign.considers(each.event.event_type)]

    def _facts(self, each: _Accepted, order: Any, books: Books) -> EventFacts:
        record, items = order or (None, ())
        payment = payment_variable(each.event.payload)
        # A tier that was made after the configuration was read is no campaign's concern yet.
        known = self._configuration.tier_keys
        tier_keys = frozenset(known[tier_id] for tier_id in each.tier_ids if tier_id in known)
        context = {
            "event": event_variable(each.event, each.key),
            "order": order_variable(record, items),
            "payment": payment,
            "member": member_variable(each.member),
            "sponsor": member_variable(each.sponsor),
            "balances": {
                name: books.holding(each.member.wallet_id, account.ledger_account_id).current
                for account in self._configuration.accounts.values()
                for name in (account.ledger_account_key, account.alias)
                if name is not None
            },
            "badges": {},
            "missions": {},
            "audiences": [],
            "tiers": sorted(tier_keys),
            "now": self._now,
        }
        return EventFacts(
            event_type=each.event.event_type,
            loyalty_event_id=each.loyalty_event_id,
            key=each.key,
            at=each.at,
            external_event_date=each.event.external_event_date,
            member_id=each.member.member_id,
            wallet_id=each.member.wallet_id,
            sponsor_wallet_id=None if each.sponsor is None else each.sponsor.wallet_id,
            spend=spend_of(record, payment),
            location_code=None if record is None else record.location_code,
            tier_keys=tier_keys,
            audience_keys=frozenset(),
            context=context,
        )

    def _row(
        self,
        each: _Accepted,
        location: str | None,
        status: str,
        answer: Mapping[str, Any],
        found: Evaluation | None,
    ) -> dict[str, Any]:
        event = each.event
        if self._mode == CAPTURE_ONLY:
            evaluation = NOT_EVALUATED
        else:
            evaluation = EVALUATED if status == SUCCESS else EVALUATION_FAILED
        return {
            "organization_id": self._organization_id,
            "loyalty_event_id": each.loyalty_event_id,
            "loyalty_event_key": each.key,
            "member_id": each.member.member_id,
            "sponsor_member_id": each.sponsor.member_id if each.sponsor else None,
            "event_type": event.event_type,
            "system_unique_key": event.system_unique_key,
            "request_digest": "\\x" + each.digest.hex(),
            "external_id": event.external_id,
            "external_event_date": event.external_event_date,
            "description": event.description,
            "reason": event.reason,
            "payload": event.payload or {},
            "tags": event.tags,
            "location": location,
            "e2e_tracking_id": self._request_id,
            "reverted_loyalty_event_id": None,
            "reversal_loyalty_event_id": None,
            "evaluation_status": evaluation,
            "status": status,
            "last_error": answer.get("error"),
            "limit_discarded_total_amount": Decimal(0) if found is None else found.limit_discarded,
            "limit_counters": [limit_counter(*counted) for counted in found.counted] if found else [],
            "result": answer,
            "created_at": self._now,
            "updated_at": self._now,
        }


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
