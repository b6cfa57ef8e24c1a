"""The intake of events: checks that they can be tracked, and finds events that were tracked before."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from domain.event_types import BUILT_IN_EVENT_TYPES, NOT_TRACKABLE, PAYMENT_CONFIRMED, check_payload
from domain.events import (
    CAPTURE_ONLY,
    FAILURE,
    EventOrigin,
    IncomingEvent,
    NotTrackable,
    PayloadMissing,
    UnknownMember,
)
from domain.idempotency import refuse_reuse
from domain.members import Member, MemberInactive, refuse_erased
from domain.orders import STATUS_OF_EVENT, UNDOING_EVENTS, OrderStatusConflict, UnknownOrder
from domain.partners import payment_exists, payment_id_of
from domain.problems import KeyReused, Refusal
from domain.retries import StartOver
from handlers.messages.events import completed_result, track_result
from handlers.messages.json_text import digest_of
from handlers.services.configuration import Configuration
from handlers.services.references import unknown_event_type, unknown_member
from handlers.services.unit_of_work.tracked import Result, TrackedEvent
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, partners
from persistence.events import EarlierEvent

_BUILT_IN = frozenset(BUILT_IN_EVENT_TYPES)
# Inactive members can have these events: their deactivation, and events that undo an order.
_OF_INACTIVE_MEMBERS = frozenset(
    {
        "member-profile-deactivated",
        "member-purchase-order-cancelled",
        "member-purchase-order-rejected",
        "member-purchase-order-returned",
        "member-purchase-order-partially-returned",
    }
)


# The types of problems of events that may have come too early: before their order, or before the status that they need.
_TOO_EARLY_TYPES = frozenset(f"/problems/{refusal.slug}" for refusal in (OrderStatusConflict, UnknownOrder))


class RefusedBefore(Refusal):
    """The refusal of an event that failed under this key before, with the same problem as then."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self._problem = dict(problem)

    def as_problem(self) -> dict[str, Any]:
        """The problem object of the first refusal."""
        return dict(self._problem)


def refuse_untrackable(event: IncomingEvent, member: Member, configuration: Configuration, by_server: bool) -> None:
    """Refuse an event that cannot be tracked now; `by_server` is as in `track`.

    Events that were tracked before are not affected. Raises UnknownEventType, NotTrackable, MemberErased,
    MemberInactive, PayloadMissing or PayloadInvalid.
    """
    if event.event_type not in _BUILT_IN and event.event_type not in configuration.custom_event_types:
        raise unknown_event_type(configuration, event.event_type)
    if event.event_type in NOT_TRACKABLE and not by_server:
        raise NotTrackable(f"Events of type {event.event_type} are emitted only by the server.")
    if not by_server:
        refuse_erased(member)
    if not member.active and event.event_type not in _OF_INACTIVE_MEMBERS and not by_server:
        raise MemberInactive("The member is not active, so its events are not tracked.")
    schema_type = configuration.custom_event_types.get(event.event_type)
    if schema_type is not None:
        check_payload(event.event_type, schema_type, event.payload)
    if event.event_type in STATUS_OF_EVENT and (event.payload or {}).get("order") is None:
        raise PayloadMissing(f"An event of type {event.event_type} needs payload.order.")
    if event.event_type == PAYMENT_CONFIRMED and not (event.payload or {}).get("payment"):
        raise PayloadMissing(f"An event of type {event.event_type} needs payload.payment.")


class Intake:
    """Sorts the events of a batch: `accept` returns the events to be tracked now.

    `results` has the results of all other events, by position; the caller adds those of the accepted events.
    `by_server`, `origins` and `claims_payments` are as in `track`.
    """

    def __init__(
        self,
        unit: UnitOfWork,
        by_server: bool = False,
        origins: Sequence[EventOrigin] | None = None,
        claims_payments: bool = True,
    ) -> None:
        self._unit = unit
        self._claims_payments = claims_payments
        self._by_server = by_server
        self._origins, self._own_origin = origins, unit.execution.origin
        # The position of the first event with the same key, by the position of a repeated event.
        self._repeats: dict[int, int] = {}
        self.results: dict[int, Result] = {}

    def accept(
        self, incoming_events: Sequence[IncomingEvent], members: Mapping[Any, Member], existing_keys: Collection[str]
    ) -> list[TrackedEvent]:
        """Return the events to be tracked now, the first one of each key; claim the ids of their payments.

        The other events get their results. `members` are the locked members, by either id.

        `existing_keys` are the keys that may have been used before. In a dry run they are empty, since it computes
        what would happen if the event were new.
        """
        db, organization_id = self._unit.db, self._unit.organization_id
        earlier_events = events.find_earlier_events(db, organization_id, existing_keys) if existing_keys else {}
        first_by_key: dict[str, TrackedEvent] = {}
        accepted_events: list[TrackedEvent] = []
        for position, event in enumerate(incoming_events):
            key = event.system_unique_key
            try:
                tracked = self._tracked_event(position, event, members)
                earlier_event = earlier_events.get(key)
                if earlier_event is not None:
                    _refuse_other_event(tracked, earlier_event)
                    if not _may_have_come_too_early(earlier_event.result):
                        self.results[position] = _result_of(earlier_event)
                        continue
                    self._require_lock(tracked.member)
                    # It is evaluated again under its stored id and key.
                    tracked.loyalty_event_id = earlier_event.loyalty_event_id
                    tracked.key = earlier_event.result["loyaltyEventKey"]
                    tracked.tracked_at = earlier_event.created_at
                refuse_untrackable(event, tracked.member, self._unit.configuration, self._by_server)
                self._refuse_uncapturable(event)
                first_event = first_by_key.setdefault(key, tracked)
                if first_event is tracked:
                    accepted_events.append(tracked)
                else:
                    refuse_reuse(key, first_event.digest, tracked.digest)
                    self._repeats[position] = first_event.position
            except Refusal as refusal:
                self.results[position] = _refused_result(event, refusal)
        if self._claims_payments and any(event.event.event_type == PAYMENT_CONFIRMED for event in accepted_events):
            return self._claim_payments(accepted_events)
        return accepted_events

    def _require_lock(self, member: Member) -> None:
        """Raise StartOver unless the unit has locked the member, so that no other call evaluates the event again."""
        if member.wallet_id not in self._unit.ledger_ids:
            raise StartOver("An event that came too early is queued again, and its member is not locked.")

    def _refuse_uncapturable(self, event: IncomingEvent) -> None:
        """Refuse to capture an event that undoes an order, as the order's effects would not be reversed.

        A quiet import may capture it: its orders are history and had no effects here.
        """
        if self._unit.mode == CAPTURE_ONLY and not self._unit.execution.is_quiet and event.event_type in UNDOING_EVENTS:
            raise NotTrackable(
                f"Events of type {event.event_type} undo an order, and the executionMode {CAPTURE_ONLY} undoes nothing."
                " Track the event with the mode full."
            )

    def _claim_payments(self, accepted_events: Sequence[TrackedEvent]) -> list[TrackedEvent]:
        """Claim the payment ids of the events, refuse events with an id that is already claimed, return the others.

        A dry run only looks up the ids.
        """
        first_by_id: dict[str, TrackedEvent] = {}
        payment_ids = {tracked.position: payment_id_of(tracked.event) for tracked in accepted_events}
        for tracked in accepted_events:
            if (payment_id := payment_ids[tracked.position]) is not None:
                first_by_id.setdefault(payment_id, tracked)
        if not first_by_id:
            return list(accepted_events)
        execution = self._unit.execution
        db, organization_id = execution.db, execution.organization.organization_id
        if self._unit.is_dry_run:
            free_ids = first_by_id.keys() - partners.find_payments(db, organization_id, first_by_id.keys())
        else:
            claims = [
                partners.PaymentClaim(payment_id, tracked.member.member_id)
                for payment_id, tracked in first_by_id.items()
            ]
            free_ids = partners.claim_payments(db, organization_id, claims, execution.now)
        events_to_track = []
        for tracked in accepted_events:
            payment_id = payment_ids[tracked.position]
            if payment_id is None or (payment_id in free_ids and first_by_id[payment_id] is tracked):
                events_to_track.append(tracked)
            else:
                self.results[tracked.position] = _refused_result(tracked.event, payment_exists(payment_id))
        return events_to_track

    def all_results(self) -> list[Result]:
        """The results in the order of the events; a repeated event has the result of the first one."""
        for position, first_position in self._repeats.items():
            self.results[position] = self.results[first_position]
        return [result for _, result in sorted(self.results.items())]

    def _tracked_event(self, position: int, event: IncomingEvent, members: Mapping[Any, Member]) -> TrackedEvent:
        """The event with its member and sponsor from `members`; raises UnknownMember."""
        unit = self._unit
        member = members.get(event.member_id or event.loyalty_member_id)
        if member is None:
            raise unknown_member(event.member_id or event.loyalty_member_id)
        sponsor = None
        if event.sponsor_loyalty_member_id is not None:
            sponsor = members.get(event.sponsor_loyalty_member_id)
            if sponsor is None:
                raise UnknownMember(f"There is no sponsor {event.sponsor_loyalty_member_id}.")
        digest = _digest_of(event, member, sponsor, unit)
        if sponsor == member:
            # Campaigns must not reward one person both as the member and as the sponsor.
            sponsor = None
        at = event.happened_at or unit.execution.now
        return TrackedEvent(
            position,
            event,
            member,
            sponsor,
            at,
            is_evaluated=unit.mode != CAPTURE_ONLY,
            origin=self._own_origin if self._origins is None else self._origins[position],
            digest=digest,
        )


def _digest_of(event: IncomingEvent, member: Member, sponsor: Member | None, unit: UnitOfWork) -> bytes:
    """The digest of an event in a request: two requests with the same digest are the same request.

    An empty payload and empty tags have the same digest as none, since they are stored and evaluated as the same.
    """
    return digest_of(
        (
            member.member_id,
            sponsor.member_id if sponsor else None,
            event.event_type,
            event.external_id,
            event.description,
            event.payload or None,
            event.external_event_date,
            event.tags or None,
            unit.mode,
            unit.campaign_keys,
        )
    )


def _refused_result(event: IncomingEvent, refusal: Refusal) -> Result:
    return Result(track_result(event, key=None, status=FAILURE, error=refusal), refusal)


def _may_have_come_too_early(result: Mapping[str, Any]) -> bool:
    """True if the event failed because of an order: it did not exist, or its status did not allow the event."""
    return "error" in result and result["error"]["type"] in _TOO_EARLY_TYPES


def _refuse_other_event(tracked: TrackedEvent, earlier_event: EarlierEvent) -> None:
    """Refuse an event whose key was used for another event, or for the same event in another mode."""
    if tracked.digest != earlier_event.digest:
        detail = f"The systemUniqueKey {tracked.event.system_unique_key} was used for another request"
        key = (earlier_event.result or {}).get("loyaltyEventKey")
        raise KeyReused(f"{detail}." if key is None else f"{detail}, whose event has the loyaltyEventKey {key}.")


def _result_of(earlier_event: EarlierEvent) -> Result:
    result = earlier_event.result
    return Result(completed_result(result), RefusedBefore(result["error"]) if "error" in result else None)
