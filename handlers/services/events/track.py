"""Tracking: events in, everything they set in motion out, in a number of statements that is the same for any number.

A batch is one database transaction: lock the members, answer what was tracked before, evaluate the rest in order on
values alone, and write all of it. An event that is refused leaves the others standing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.campaigns.context import moment_of
from domain.events import (
    AUTHORIZE,
    CAPTURE_ONLY,
    DRY_RUN,
    FAILURE,
    FULL,
    IncomingEvent,
    UnknownMember,
)
from domain.members import Member
from domain.organizations import Organization
from domain.problems import KeyReused, Refusal
from handlers.call import Call
from handlers.messages.events import track_result
from handlers.services.events.intake import (
    Accepted,
    RefusedBefore,
    Result,
    event_digest,
    refuse_untrackable,
    without_repeats,
)
from handlers.services.unit_of_work.orders import OrderWork, order_payload
from handlers.services.unit_of_work.reversals import Reversals, segments, undone_orders
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, reversals
from persistence.rows import reserve_ids


class TrackBatch(UnitOfWork):
    """One batch of events of one organization; with `own_events`, of what the server alone reports."""

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
        tracing: bool = False,
    ) -> None:
        super().__init__(db, organization, mode, now, new_key, request_id, campaign_keys, tracing)
        self._own_events = own_events
        self._results: dict[int, Result] = {}

    def track(self, incoming: Sequence[IncomingEvent]) -> list[Result]:
        """Track the events in order and answer a result for each."""
        accepted = self._accept(incoming)
        if accepted:
            first, repeats = without_repeats(accepted)
            for segment in segments(first, self._mode in (FULL, AUTHORIZE)):
                self._evaluate(segment)
            for repeat, original in repeats:
                self._results[repeat.position] = self._repeated(repeat, original)
        return [self._results[position] for position in range(len(incoming))]

    def _accept(self, incoming: Sequence[IncomingEvent]) -> list[Accepted]:
        """Lock the members and sort out what can't be tracked and what was tracked before."""
        by_loyalty_id = {e.loyalty_member_id for e in incoming if e.loyalty_member_id is not None}
        by_loyalty_id |= {e.sponsor_loyalty_member_id for e in incoming if e.sponsor_loyalty_member_id is not None}
        by_id = {e.member_id for e in incoming if e.member_id is not None}
        members = self._lock(by_loyalty_id, by_id | self._concerned_by_undoing(incoming), incoming)
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

    def _concerned_by_undoing(self, incoming: Sequence[IncomingEvent]) -> set[int]:
        """The members who have got something from the orders that events undo."""
        undone = undone_orders(incoming)
        return reversals.find_members_of_orders(self._db, self._organization_id, undone) if undone else set()

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
        new = [each for each in accepted if not each.loyalty_event_id]
        ids = self._ids(len(new), len(payloads), sum(len(each.get("items") or ()) for each in payloads))
        for each, event_id in zip(new, ids["events"], strict=True):
            each.loyalty_event_id, each.key = event_id, self._new_key()
        external_ids = {payload["externalId"] for payload in payloads}
        orders = self._orders(external_ids, ids)
        undone = undone_orders(each.event for each in accepted) if self._mode != CAPTURE_ONLY else set()
        led_to = {i for name in undone if (order := orders.stored(name)) is not None for i in order.event_ids}
        work = self._begin(accepted, orders, Reversals(self._db, self._organization_id, led_to))
        for each in accepted:
            self._caused = 0
            self._results[each.position] = self._one(each, work)
        if self._mode != DRY_RUN:
            self._write(work)

    def _orders(self, external_ids: set[str], ids: Mapping[str, Sequence[int]]) -> OrderWork:
        """The orders that the events are about."""
        return OrderWork(
            self._db, self._organization_id, external_ids, self._now, ids["purchase_orders"], ids["order_items"]
        )

    def _ids(self, events_: int, orders: int, items: int) -> Mapping[str, Sequence[int]]:
        """Ids for all that the batch may store; a dry run stores nothing and takes none from the database."""
        counts = {"events": events_, "purchase_orders": orders, "order_items": items}
        if self._mode == DRY_RUN:
            return {name: [0] * count for name, count in counts.items()}
        return reserve_ids(self._db, **counts)


def emit(
    call: Call, member: Member, event_type: str, payload: Mapping[str, Any], reason: str | None = None
) -> Mapping[str, Any]:
    """Track an event that the server itself reports of a member, such as `member-created` (integration 6).

    Returns what came of it, as tracking answers it.
    """
    event = IncomingEvent(
        system_unique_key=f"{event_type}-{call.new_key()}",
        event_type=event_type,
        member_id=member.member_id,
        payload=payload,
        reason=reason,
    )
    batch = TrackBatch(call.db, call.organization, FULL, call.now, call.new_key, call.request_id, own_events=True)
    [result] = batch.track([event])
    return result.answer
