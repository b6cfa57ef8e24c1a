"""The facts of an event for its evaluation, and the variables of its expressions."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from domain.audiences import CompiledAudience
from domain.campaigns.context import (
    balances_by_name,
    event_variable,
    member_variable,
    order_variable,
    payment_variable,
    spend_of,
)
from domain.campaigns.facts import EventFacts
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.subjects import Participants
from handlers.services.unit_of_work.tracked import TrackedEvent


def event_facts(
    tracked: TrackedEvent,
    order: Any,
    participants: Participants,
    configuration: Configuration,
    audiences: Sequence[CompiledAudience],
    now: datetime,
) -> EventFacts:
    """The facts of one event at this point of the unit; `order` is the order with its items, or None."""
    record, items = order or (None, ())
    payment = payment_variable(tracked.event.payload)
    tier_ids = participants.tier_ids(tracked.member.member_id, tracked.member.wallet_id)
    # A tier created after the configuration was read does not matter to any campaign yet.
    known = configuration.tier_keys
    tier_keys = frozenset(known[tier_id] for tier_id in tier_ids if tier_id in known)
    audience_keys = [audience.audience_key for audience in audiences]
    balances = balances_by_name(participants.ledger, tracked.member.wallet_id, configuration.accounts.values())
    context = {
        "event": event_variable(tracked.event, tracked.key, tracked.at),
        "order": order_variable(record, items),
        "payment": payment,
        "member": member_variable(tracked.member),
        "sponsor": member_variable(tracked.sponsor),
        "balances": balances,
        "balancesAfter": dict(balances),
        **participants.variables(tracked.member.member_id),
        "audiences": audience_keys,
        "tiers": sorted(tier_keys),
        "now": now,
    }
    return EventFacts(
        event_type=tracked.event.event_type,
        loyalty_event_id=tracked.loyalty_event_id,
        key=tracked.key,
        at=tracked.at,
        external_event_date=tracked.stored_date(now),
        member_id=tracked.member.member_id,
        wallet_id=tracked.member.wallet_id,
        sponsor_member_id=None if tracked.sponsor is None else tracked.sponsor.member_id,
        sponsor_wallet_id=None if tracked.sponsor is None else tracked.sponsor.wallet_id,
        spend=spend_of(record, payment),
        location_code=None if record is None else record.location_code,
        tier_keys=tier_keys,
        audience_keys=frozenset(audience_keys),
        context=context,
        external_id=tracked.event.external_id,
        description=tracked.event.description,
        is_active=tracked.member.active,
        is_sponsor_active=tracked.sponsor is None or tracked.sponsor.active,
    )
