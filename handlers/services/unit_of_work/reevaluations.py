"""Re-evaluations: what the granted actions of an order's events would still grant for the rest of the order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from domain.campaigns.discounts import Basket
from domain.campaigns.reevaluation import Reevaluation, reevaluate
from domain.events import LoyaltyEvent
from domain.expressions import Deadline
from domain.orders import OrderWithItems
from domain.returns import rest_of
from handlers.messages.grants import granted_actions, recorded_variables
from handlers.services.unit_of_work.facts import facts_of
from handlers.services.unit_of_work.tracked import incoming_of, tracked_again

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


def reevaluations(
    unit: UnitOfWork, order: OrderWithItems, events: Iterable[LoyaltyEvent], deadline: Deadline
) -> dict[int, Reevaluation]:
    """The re-evaluation of each event that keeps what it granted, by its id; its members are those of the unit."""
    rest = rest_of(*order)
    by_event: dict[int, Reevaluation] = {}
    for event in events:
        if event.grants is None:
            continue
        tracked = tracked_again(-1, event, incoming_of(event), unit.members)
        facts = facts_of(unit, tracked, (rest.order, rest.items))
        variables = recorded_variables(event.grants, facts.context)
        basket = Basket(event.member_id, rest.order.total, rest.order.currency, variables["order"]["items"])
        if unit.configuration.reads_order_after:
            variables["orderAfter"] = basket.remainder()
        facts = replace(facts, context=variables, basket=basket)
        actions = granted_actions(event.grants)
        by_event[event.loyalty_event_id] = reevaluate(
            actions, facts, rest.item_positions, unit.configuration.functions, deadline
        )
        # It is the purchase of no event of this unit.
        unit.basket = None
    return by_event
