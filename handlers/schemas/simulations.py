"""Simulations on the wire."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from domain.event_types import EVENTS_WITH_ORDER, PAYMENT_CONFIRMED
from domain.events import IncomingEvent
from domain.fields import Key
from domain.problems import FieldFault, InvalidRequest
from handlers.messages.base import Body, Shape
from handlers.messages.events import incoming_event
from handlers.services.simulations.dry_run import ORDER, PAYMENT, Scenario
from handlers.services.simulations.hypothetical import NOBODY, HypotheticalMember
from handlers.services.simulations.results import Simulation
from handlers.services.simulations.simulate import EARN, NEXT, REDEEM, SimulationRequest

_ORDER_CREATED = "member-purchase-order-created"
_EVENT = "event"
_DEFAULT_INCLUDE = frozenset({EARN, REDEEM, NEXT})


@dataclass(frozen=True, slots=True, kw_only=True)
class _SimulationBody:
    order: Mapping[str, Any] | None = None
    payment: Mapping[str, Any] | None = None
    event: Mapping[str, Any] | None = None
    loyalty_member_id: str | None = None
    person: HypotheticalMember | None = field(default=None, metadata={"wire": "as"})
    at: datetime | None = None
    campaign_keys: Sequence[Key] = ()
    coupon_codes: Sequence[str] = ()
    include: Sequence[str] = ()


_BODY = Body(_SimulationBody)
SIMULATION = Shape(Simulation)


def simulation_request(body: Mapping[str, Any]) -> SimulationRequest:
    """The request of an accepted body; raises InvalidRequest for contradictions."""
    fields = _BODY.load(body)
    faults = list(_faults(fields))
    if faults:
        raise InvalidRequest(faults)
    event, person = _event(fields), None
    if fields.loyalty_member_id is None:
        # Without a member, the event is about the described person; by default, about a newcomer.
        event, person = replace(event, member_id=NOBODY), fields.person or HypotheticalMember()
    # Some generated clients send an empty list for one that was not set.
    scenario = Scenario(event, person, fields.campaign_keys or None)
    return SimulationRequest(scenario, fields.at, fields.coupon_codes, frozenset(fields.include) or _DEFAULT_INCLUDE)


def _faults(fields: _SimulationBody) -> Iterator[FieldFault]:
    """Contradictions between the fields of a body."""
    occasions = [name for name in (ORDER, PAYMENT, _EVENT) if getattr(fields, name) is not None]
    if len(occasions) != 1:
        fact = f"has {' and '.join(occasions)}" if occasions else "has neither order nor payment nor event"
        yield FieldFault(f"The body {fact}: send exactly one of order, payment and event", pointer="")
    if fields.loyalty_member_id is not None and fields.person is not None:
        yield FieldFault("as and loyaltyMemberId both define the person: send only one of them", pointer="/as")
    event_type = (fields.event or {}).get("eventType")
    if event_type in EVENTS_WITH_ORDER and event_type != _ORDER_CREATED:
        fact = f"eventType {event_type} is about a stored order"
        detail = f"{fact}; of the events about orders, only {_ORDER_CREATED} can be simulated"
        yield FieldFault(detail, pointer="/event/eventType")


def _event(fields: _SimulationBody) -> IncomingEvent:
    """The event that would be tracked; ids that the request does not have to name are generated."""
    key = f"simulation-{uuid.uuid4()}"
    event: Mapping[str, Any] = fields.event or {}
    # A pointer into the event becomes one into the body: `body_prefix` replaces `event_prefix`.
    event_prefix, body_prefix = "", f"/{_EVENT}"
    if fields.order is not None:
        event = {"eventType": _ORDER_CREATED, "payload": {ORDER: {"externalId": key, **fields.order}}}
        event_prefix, body_prefix = "/payload", ""
    elif fields.payment is not None:
        event = {"eventType": PAYMENT_CONFIRMED, "payload": {PAYMENT: {"paymentId": key, **fields.payment}}}
    try:
        return incoming_event({**event, "systemUniqueKey": key, "loyaltyMemberId": fields.loyalty_member_id})
    except InvalidRequest as refusal:
        faults = [
            replace(fault, pointer=body_prefix + (fault.pointer or "").removeprefix(event_prefix))
            for fault in refusal.faults
        ]
        raise InvalidRequest(faults) from refusal
