"""The intake of events: checks that each can be tracked, and finds events that were tracked before."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from domain.event_types import BUILT_IN_EVENT_TYPES, NOT_TRACKABLE, PAYMENT_CONFIRMED, refuse_other_payload
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
from handlers.messages.events import completed_result, track_result
from handlers.messages.json_text import digest_of
from handlers.services.configuration import Configuration
from handlers.services.references import unknown_event_type, unknown_member
from handlers.services.unit_of_work.tracked import Result, TrackedEvent
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, partners
from persistence.events import AnsweredEvent

_BUILT_IN = frozenset(BUILT_IN_EVENT_TYPES)
# Events that undo an order are tracked whatever the status of the member.
_OF_INACTIVE_MEMBERS = frozenset(
    {
        "member-profile-deactivated",
        "member-purchase-order-cancelled",
        "member-purchase-order-rejected",
        "member-purchase-order-returned",
        "member-purchase-order-partially-returned",
    }
)


# What an event failed by that may have come too early: before the order, or the status that it needs.
_TOO_EARLY = frozenset(f"/problems/{refusal.slug}" for refusal in (OrderStatusConflict, UnknownOrder))


class RefusedBefore(Refusal):
    """An event that failed under this key before; refused again in the same words."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(problem["detail"])
        self._problem = dict(problem)

    def as_problem(self) -> dict[str, Any]:
        """The problem object of the first time."""
        return dict(self._problem)


def refuse_untrackable(event: IncomingEvent, member: Member, configuration: Configuration, by_server: bool) -> None:
    """Refuse an event that cannot be tracked at present.

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
        raise MemberInactive("Events of an inactive member are not tracked.")
    schema_type = configuration.custom_event_types.get(event.event_type)
    if schema_type is not None:
        refuse_other_payload(event.event_type, schema_type, event.payload)
    if event.event_type in STATUS_OF_EVENT and (event.payload or {}).get("order") is None:
        raise PayloadMissing(f"An event of type {event.event_type} needs payload.order.")
    if event.event_type == PAYMENT_CONFIRMED and not (event.payload or {}).get("payment"):
        raise PayloadMissing(f"An event of type {event.event_type} needs payload.payment.")


class Intake:
    """Sorts the events of a batch; `results` are those of the events that need no evaluation, by position.

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
        # The positions of repeated events, with that of the first one.
        self._repeats: dict[int, int] = {}
        self.results: dict[int, Result] = {}

    def accept(
        self, incoming: Sequence[IncomingEvent], members: Mapping[Any, Member], known_keys: Collection[str]
    ) -> list[TrackedEvent]:
        """The events to be tracked now, the first one of each key; `members` are locked, by either id.

        `known_keys` are those of events that were tracked before; none in a dry run, which asks what would happen if
        the event came now.
        """
        db, organization_id = self._unit.db, self._unit.organization_id
        existing_results = events.find_answered(db, organization_id, known_keys) if known_keys else {}
        first: dict[str, TrackedEvent] = {}
        accepted: list[TrackedEvent] = []
        for position, event in enumerate(incoming):
            key = event.system_unique_key
            try:
                tracked = self._looked_up(position, event, members)
                before = existing_results.get(key)
                if before is not None:
                    _refuse_other_event(tracked, before)
                    if not _may_have_come_too_early(before.result):
                        self.results[position] = _answered_before(before)
                        continue
                    # It is evaluated again under the id and key that it is stored with.
                    tracked.loyalty_event_id, tracked.key = before.loyalty_event_id, before.result["loyaltyEventKey"]
                    tracked.tracked_at = before.created_at
                refuse_untrackable(event, tracked.member, self._unit.configuration, self._by_server)
                self._refuse_uncapturable(event)
                original = first.setdefault(key, tracked)
                refuse_reuse(key, original.digest, tracked.digest)
            except Refusal as refusal:
                self.results[position] = _refused_result(event, refusal)
                continue
            if original is tracked:
                accepted.append(tracked)
            else:
                self._repeats[position] = original.position
        if self._claims_payments and any(event.event.event_type == PAYMENT_CONFIRMED for event in accepted):
            return self._with_free_payments(accepted)
        return accepted

    def _refuse_uncapturable(self, event: IncomingEvent) -> None:
        """Refuse to capture an event that would end an order and leave what the order gave.

        A quiet import captures the history of orders that gave nothing here.
        """
        if self._unit.mode == CAPTURE_ONLY and not self._unit.execution.is_quiet and event.event_type in UNDOING_EVENTS:
            raise NotTrackable(
                f"Events of type {event.event_type} undo an order, and the executionMode {CAPTURE_ONLY} undoes nothing."
                " Track the event with the mode full."
            )

    def _with_free_payments(self, accepted: Sequence[TrackedEvent]) -> list[TrackedEvent]:
        """Claim the ids of payments, and refuse the events whose ids another transaction has claimed.

        A dry run only looks for them.
        """
        first: dict[str, TrackedEvent] = {}
        payment_ids = {tracked.position: payment_id_of(tracked.event) for tracked in accepted}
        for tracked in accepted:
            if (payment_id := payment_ids[tracked.position]) is not None:
                first.setdefault(payment_id, tracked)
        if not first:
            return list(accepted)
        execution = self._unit.execution
        db, organization_id = execution.db, execution.organization.organization_id
        if self._unit.is_dry_run:
            free = first.keys() - partners.find_payments(db, organization_id, first.keys())
        else:
            claims = [(payment_id, None, tracked.member.member_id) for payment_id, tracked in first.items()]
            free = partners.claim_payments(db, organization_id, claims, execution.now)
        remaining = []
        for tracked in accepted:
            payment_id = payment_ids[tracked.position]
            if payment_id is None or (payment_id in free and first[payment_id] is tracked):
                remaining.append(tracked)
            else:
                self.results[tracked.position] = _refused_result(tracked.event, payment_exists(payment_id))
        return remaining

    def all_results(self) -> list[Result]:
        """The results in the order of the events; a repeated event has the result of the first one."""
        for position, original in self._repeats.items():
            self.results[position] = self.results[original]
        return [result for _, result in sorted(self.results.items())]

    def _looked_up(self, position: int, event: IncomingEvent, members: Mapping[Any, Member]) -> TrackedEvent:
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
            # A member cannot be the own sponsor, or campaigns would pay one person as both.
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
    """The digest of an event in a request: two requests with the same digest are the same request."""
    return digest_of(
        (
            member.member_id,
            sponsor.member_id if sponsor else None,
            event.event_type,
            event.external_id,
            event.description,
            event.payload,
            event.external_event_date,
            event.tags,
            unit.mode,
            unit.campaign_keys,
        )
    )


def _refused_result(event: IncomingEvent, refusal: Refusal) -> Result:
    return Result(track_result(event, None, FAILURE, None, refusal), refusal)


def _may_have_come_too_early(result: Mapping[str, Any]) -> bool:
    """True if an event failed by the status of its order, which may be another one by now."""
    return "error" in result and result["error"]["type"] in _TOO_EARLY


def _refuse_other_event(tracked: TrackedEvent, before: AnsweredEvent) -> None:
    """Refuse an event with the key of another one, or of the same in another mode, which the detail names."""
    if tracked.digest != before.digest:
        detail = f"The systemUniqueKey {tracked.event.system_unique_key} was used for another request"
        name = (before.result or {}).get("loyaltyEventKey")
        raise KeyReused(f"{detail}." if name is None else f"{detail}, whose event has the loyaltyEventKey {name}.")


def _answered_before(before: AnsweredEvent) -> Result:
    result = before.result
    return Result(completed_result(result), RefusedBefore(result["error"]) if "error" in result else None)
