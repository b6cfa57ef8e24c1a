"""Facts of events for their rules and effects; late events are evaluated with the tiers of their time."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from domain.campaigns.context import (
    EventFacts,
    balances_by_name,
    currency_of,
    event_variable,
    member_variable,
    order_variable,
    payment_variable,
    spend_of,
)
from domain.campaigns.discounts import Basket
from domain.members import Member
from domain.orders import NO_ORDERS, EarlierOrders, Order, OrderHistory, OrderWithItems
from domain.tier_history import EVENT_DATE, TierHistory, is_late
from domain.tiers import HeldTier, TierSchedule
from handlers.services.unit_of_work.tracked import TrackedEvent
from persistence import member_tiers, orders

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


def facts_of(unit: UnitOfWork, tracked: TrackedEvent, order_with_items: OrderWithItems | None) -> EventFacts:
    """The facts of one event at this point of the unit, with the variables of its expressions."""
    record, items = order_with_items or (None, ())
    location_code = None if record is None else record.location_code
    configuration, event, member = unit.configuration, tracked.event, tracked.member
    payment = payment_variable(event.payload, unit.organization.currency)
    tiers_as_of = tiers_as_of_event(unit, tracked)
    tier_keys = tier_keys_of(unit, _tiers_of(unit, member, tiers_as_of))
    audiences = unit.audiences[member.member_id] if configuration.audiences else ()
    audience_keys = [audience.audience_key for audience in audiences]
    balances = balances_by_name(unit.ledger, member.wallet_id, configuration.accounts.values())
    own_orders = orders_of_sponsor = NO_ORDERS
    if configuration.reads_orders:
        own_orders = orders_before(unit, member, tracked.at, record)
        orders_of_sponsor = orders_before(unit, tracked.sponsor, tracked.at, record)
    order_value, spend = order_variable(record, items), spend_of(record, payment)
    currency = currency_of(record, payment)
    basket = _set_or_inherit_basket(unit, member.member_id, spend, currency, order_value)
    reads_order_after = configuration.reads_order_after and order_value is not None
    context = {
        "event": event_variable(event, tracked.key, tracked.at),
        "order": order_value,
        "orderAfter": basket.remainder() if basket is not None and reads_order_after else None,
        "payment": payment,
        "member": member_variable(member, own_orders),
        "sponsor": member_variable(tracked.sponsor, orders_of_sponsor),
        "balances": balances,
        "balancesAfter": dict(balances),
        "badges": unit.badges.balances_by_key(member.member_id) if configuration.badges else {},
        "missions": unit.missions.progress_by_key(member.member_id) if configuration.uses_missions else {},
        "audiences": audience_keys,
        "tiers": sorted(tier_keys),
        "now": unit.now,
    }
    return EventFacts(
        event_type=event.event_type,
        loyalty_event_id=tracked.loyalty_event_id,
        key=tracked.key,
        transaction_prefix=tracked.transaction_prefix,
        at=tracked.at,
        external_event_date=tracked.stored_date(unit.now),
        member_id=member.member_id,
        wallet_id=member.wallet_id,
        sponsor_member_id=None if tracked.sponsor is None else tracked.sponsor.member_id,
        sponsor_wallet_id=None if tracked.sponsor is None else tracked.sponsor.wallet_id,
        spend=spend,
        currency=currency,
        home_currency=unit.organization.currency,
        location_code=location_code,
        location_zone=configuration.zone_of_location(location_code) if configuration.location_timezones else None,
        tier_keys=tier_keys,
        audience_keys=frozenset(audience_keys),
        context=context,
        external_id=event.external_id,
        order_external_id=tracked.order_external_id,
        description=event.description,
        is_active=member.active,
        is_sponsor_active=tracked.sponsor is None or tracked.sponsor.active,
        tiers_as_of=tiers_as_of,
        basket=basket,
    )


def _set_or_inherit_basket(
    unit: UnitOfWork, member_id: int, spend: Decimal | None, currency: str | None, order: Mapping[str, Any] | None
) -> Basket | None:
    """The basket that discounts are taken off: a new one for an order or payment, else that of the causing event.

    A new basket is kept in the unit, for the events that this event causes. None if the causing event has no basket or
    one of another member, or if the configuration discounts no orders. An event without a cause begins with no basket.
    """
    if not unit.configuration.discounts_orders:
        return None
    if spend is not None:
        unit.basket = Basket(member_id, spend, currency, () if order is None else order["items"])
    basket = unit.basket
    return basket if basket is not None and basket.member_id == member_id else None


def tiers_as_of_event(unit: UnitOfWork, tracked: TrackedEvent) -> datetime | None:
    """The moment whose tiers apply to a late event; None if the present tiers apply.

    A derived event reports what happens at the evaluation, such as a new tier: the present tiers apply.
    """
    is_by_date = unit.organization.late_event_tiers == EVENT_DATE and not tracked.depth
    return tracked.at if is_by_date and is_late(tracked.at, unit.now) else None


def _tiers_of(unit: UnitOfWork, member: Member, as_of: datetime | None) -> list[int]:
    """The ids of the member's tiers at a moment, or the present ones if it is None."""
    return present_tiers(unit, member) if as_of is None else _tiers_at(unit, member, as_of)


def tier_keys_of_mint(unit: UnitOfWork, wallet_id: int, earned_at: datetime, minted_at: datetime) -> frozenset[str]:
    """The keys of the tiers that the member with this wallet had when points were earned; none without a member.

    If the organization evaluates late events with the tiers at the evaluation, these are the tiers at the mint.
    """
    member = next((member for member in unit.members.values() if member.wallet_id == wallet_id), None)
    if member is None:
        return frozenset()
    at = earned_at if unit.organization.late_event_tiers == EVENT_DATE else minted_at
    # The present tiers apply unless the moment is too long ago.
    as_of = at if is_late(at, unit.now) else None
    return tier_keys_of(unit, _tiers_of(unit, member, as_of))


def tier_keys_of(unit: UnitOfWork, tier_ids: Iterable[int]) -> frozenset[str]:
    """The keys of tiers, without tiers created after the configuration was read, which no campaign uses yet."""
    keys = unit.configuration.tier_keys
    return frozenset([keys[tier_id] for tier_id in tier_ids if tier_id in keys])


def present_tiers(unit: UnitOfWork, member: Member) -> list[int]:
    """The ids of the tiers that the member has at this point of the unit."""
    return unit.tier_assignments.tier_ids(member.member_id, partial(unit.tier_points, member.wallet_id))


def _tiers_at(unit: UnitOfWork, member: Member, at: datetime) -> list[int]:
    """The ids of the tiers that the member had at a moment."""
    points = partial(unit.tier_points, member.wallet_id)

    def evaluate(program_id: int, lapsed_tier: HeldTier) -> int | None:
        return unit.tier_assignments.present_tier_id(program_id, lapsed_tier, points)

    return unit.tier_history.tier_ids(member.member_id, at, evaluate)


def load_tier_history(
    db: Connection, organization_id: int, member_ids: Collection[int], schedules: Iterable[TierSchedule]
) -> TierHistory:
    """Load the recorded tiers of members."""
    default_tiers = {schedule.loyalty_program_id: schedule.default_tier_id for schedule in schedules}
    return TierHistory(member_tiers.find_periods(db, organization_id, member_ids), default_tiers)


def load_order_history(unit: UnitOfWork) -> OrderHistory:
    """Load the orders of the members, except the orders that the unit's events are about."""
    stored_ids = () if unit.orders is None else unit.orders.stored_ids
    return orders.find_order_history(unit.db, unit.organization_id, unit.members, max(unit.moments), stored_ids)


def orders_before(
    unit: UnitOfWork, member: Member | None, at: datetime, own_order: Order | None = None
) -> EarlierOrders:
    """The orders of a member before a moment, except `own_order`, which the event is about; none without a member."""
    if member is None:
        return NO_ORDERS
    unit_orders = () if unit.orders is None else unit.orders.current_orders
    own_id = None if own_order is None else own_order.order_id
    return unit.order_history.before(member.member_id, at, unit_orders, own_id)
