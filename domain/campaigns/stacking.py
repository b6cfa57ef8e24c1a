"""Stacking: which actions of a group apply to an event, by the money that each would give."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from domain.campaigns.discounts import Discount, DiscountShare
from domain.campaigns.effects import ASSIGN_COUPON, DISCOUNT, MINT_POINTS
from domain.campaigns.outcomes import Reason
from domain.campaigns.records import Action, StackingGroup

# The modes and the scopes of stacking groups.
FIRST, BEST, WORST, ALL = "first", "best", "worst", "all"
PER_ORDER, PER_ITEM = "order", "item"

EFFECTS_WITH_WORTH = frozenset({DISCOUNT, MINT_POINTS, ASSIGN_COUPON})
MAX_ACTIONS = 50
"""Maximum number of actions of a stacking group."""

_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class Stacking:
    """The group of an action: a stacking group by its key, or an exclusive group by its name, whose mode is FIRST.

    Each action of a stacking group `shares_turn`: all are evaluated together, in the turn of the first action. Each
    action of an exclusive group has its own turn.
    """

    name: str
    mode: str = FIRST
    scope: str = PER_ORDER
    shares_turn: bool = False

    @property
    def is_contest(self) -> bool:
        """True if the actions are compared by what they would give."""
        return self.mode in (BEST, WORST) or (self.mode == FIRST and self.scope == PER_ITEM)


def stacking_of(action: Action, groups: Mapping[str, StackingGroup]) -> Stacking | None:
    """The exclusive group of an action, or else its stacking group.

    None if the action has neither, or if its stacking group is missing from `groups` or inactive.
    """
    if action.exclusive_group is not None:
        return Stacking(action.exclusive_group)
    group = None if action.stacking_group_key is None else groups.get(action.stacking_group_key)
    if group is None or not group.active:
        return None
    return Stacking(group.stacking_group_key, group.mode, group.scope, shares_turn=True)


class Bid(NamedTuple):
    """The bid of an action in a contest: the worth in money of all its effects, and the discount of each effect.

    The discount of an effect that gives no discount is None.
    """

    action: Action
    worth: Decimal
    discounts: Sequence[Discount | None]

    def worth_of(self, item_index: int) -> Decimal:
        """The amount that the discounts take off an item."""
        discounts = [discount for discount in self.discounts if discount is not None]
        shares = [share for discount in discounts for share in discount.allocation]
        return sum((share.amount for share in shares if share.item_index == item_index), _ZERO)

    @property
    def items(self) -> set[int]:
        """The indexes of the items that the discounts apply to."""
        return {share.item_index for discount in self.discounts if discount for share in discount.allocation}


class WonItems(NamedTuple):
    """The bid of an action in a contest, and the items that it has won."""

    bid: Bid
    items: Collection[int]

    def share(self, position: int) -> DiscountShare | None:
        """The share of the discount of the effect at this position in the action; None for other effects."""
        discount = self.bid.discounts[position]
        return None if discount is None else DiscountShare(discount, self.items)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a contest; bids are identified by their positions.

    `won_items` has the items that each winner has won, None for the whole order. `beaten` has for each other bid the
    winner that beat it.
    """

    won_items: Mapping[int, frozenset[int] | None]
    beaten: Mapping[int, int] = field(default_factory=dict)


def decide(stacking: Stacking, bids: Sequence[Bid]) -> Verdict:
    """The verdict on bids, which are in the order of evaluation: the first of several bids with the same worth wins."""
    won_items: Mapping[int, frozenset[int] | None] = {}
    if stacking.scope == PER_ITEM:
        won_items = _winners_of_items(stacking, bids)
    # The whole order is won, also in a contest for items in which no bid is about items.
    if not won_items and bids:
        winner = _winner(stacking, {position: bid.worth for position, bid in enumerate(bids)})
        won_items = {winner: None}
    beaten = {position: _winner_over(bid, won_items) for position, bid in enumerate(bids) if position not in won_items}
    return Verdict(won_items, beaten)


def _winners_of_items(stacking: Stacking, bids: Sequence[Bid]) -> dict[int, frozenset[int] | None]:
    """The items that each winner wins, by the position of its bid; empty if no bid is about items."""
    items: dict[int, set[int]] = {}
    item_indexes = {item_index for bid in bids for item_index in bid.items}
    for item_index in sorted(item_indexes):
        all_worths = {position: bid.worth_of(item_index) for position, bid in enumerate(bids)}
        worths = {position: worth for position, worth in all_worths.items() if worth}
        if worths:
            items.setdefault(_winner(stacking, worths), set()).add(item_index)
    return {position: frozenset(indexes) for position, indexes in sorted(items.items())}


def _winner(stacking: Stacking, worths: Mapping[int, Decimal]) -> int:
    """The position of the winner; `worths` has the worth of each bid by its position.

    With the mode FIRST the first bid wins; with another mode a bid worth nothing wins only if all are.
    """
    if stacking.mode == FIRST:
        return min(worths)
    candidates = {position: worth for position, worth in worths.items() if worth} or worths
    sign = 1 if stacking.mode == WORST else -1
    return min(candidates, key=lambda position: (sign * candidates[position], position))


def _winner_over(bid: Bid, won_items: Mapping[int, Collection[int] | None]) -> int:
    """The position of the winner that the report names as the one that has beaten `bid`.

    It is the winner of the item on which `bid` has the largest discount, or the first winner if `bid` discounts no
    item.
    """

    def lost_discount(position: int) -> Decimal:
        items = won_items[position]
        return _ZERO if items is None else max((bid.worth_of(index) for index in items), default=_ZERO)

    return max(won_items, key=lambda position: (lost_discount(position), -position))


def beaten_by(bid: Bid, winner: Bid) -> Reason:
    """The reason why the action of `bid` does not apply: the action of `winner` gives more."""
    actual: dict[str, Any] = {
        "actionId": winner.action.action_id,
        "worth": bid.worth,
        "winnerWorth": winner.worth,
    }
    return Reason("BEATEN_BY", f"another action of its group gives {winner.worth}, this one {bid.worth}", actual)
