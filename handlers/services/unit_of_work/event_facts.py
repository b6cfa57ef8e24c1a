"""What the evaluation is told of an event: the facts it goes by, and the variables that expressions see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
from handlers.services.events.intake import Accepted
from handlers.services.unit_of_work.work import Participants


def event_facts(
    each: Accepted,
    order: Any,
    participants: Participants,
    configuration: Configuration,
    tier_ids: Collection[int],
    audiences: Sequence[CompiledAudience],
    now: datetime,
) -> EventFacts:
    """The facts of one event, as the desks stand at this point; `order` is the order with its items, or None."""
    record, items = order or (None, ())
    payment = payment_variable(each.event.payload)
    # A tier that was made after the configuration was read is no campaign's concern yet.
    known = configuration.tier_keys
    tier_keys = frozenset(known[tier_id] for tier_id in tier_ids if tier_id in known)
    audience_keys = [audience.audience_key for audience in audiences]
    balances = balances_by_name(participants.ledger, each.member.wallet_id, configuration.accounts.values())
    context = {
        "event": event_variable(each.event, each.key, each.at),
        "order": order_variable(record, items),
        "payment": payment,
        "member": member_variable(each.member),
        "sponsor": member_variable(each.sponsor),
        "balances": balances,
        "balancesAfter": dict(balances),
        **participants.variables(each.member.member_id),
        "audiences": audience_keys,
        "tiers": sorted(tier_keys),
        "now": now,
    }
    return EventFacts(
        event_type=each.event.event_type,
        loyalty_event_id=each.loyalty_event_id,
        key=each.key,
        at=each.at,
        external_event_date=each.event.external_event_date,
        member_id=each.member.member_id,
        wallet_id=each.member.wallet_id,
        sponsor_member_id=None if each.sponsor is None else each.sponsor.member_id,
        sponsor_wallet_id=None if each.sponsor is None else each.sponsor.wallet_id,
        spend=spend_of(record, payment),
        location_code=None if record is None else record.location_code,
        tier_keys=tier_keys,
        audience_keys=frozenset(audience_keys),
        context=context,
        is_active=each.member.active,
        is_sponsor_active=each.sponsor is None or each.sponsor.active,
    )
