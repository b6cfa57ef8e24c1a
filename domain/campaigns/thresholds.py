"""The amount that an order's total lacks for a rule to hold, if only a comparison with the total is false."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from domain.currencies import EXACT
from domain.expressions import Node, Trace, to_text
from domain.expressions.tree import Constant, FunctionCall, Identifier, Select, is_operator

MONEY_DIGITS = 2
"""Decimal places of the amount that a total lacks."""

_UNIT = Decimal(1).scaleb(-MONEY_DIGITS)
_MIRRORED = {"<=": ">=", "<": ">"}


@dataclass(frozen=True, slots=True)
class TotalThreshold:
    """A total to be reached, or with `is_strict` to be exceeded."""

    total: Decimal
    is_strict: bool = False

    def shortfall(self, total: Decimal) -> Decimal:
        """The smallest amount of money that lifts a total below the threshold to it, or with `is_strict` above it."""
        difference = EXACT.subtract(self.total, total)
        if self.is_strict:
            return EXACT.add(difference.quantize(_UNIT, ROUND_FLOOR, EXACT), _UNIT)
        return difference.quantize(_UNIT, ROUND_CEILING, EXACT)


def thresholds_of(node: Node | None, variable: str) -> list[TotalThreshold]:
    """The thresholds in a rule's top-level `&&` of comparisons like `order.total >= 50`; `variable` is `order`."""
    return [threshold for part in _conjuncts(node) if (threshold := _threshold(part, variable)) is not None]


def only_false_threshold(node: Node | None, trace: Trace | Mapping[str, Any], variable: str) -> TotalThreshold | None:
    """The threshold of a rule's only false part, if that is a comparison with the total; None if it is not.

    `trace` has the values of the rule's parts. `variable` is the name of the variable with the total, such as `order`.
    """
    by_text = {to_text(part): part for part in _conjuncts(node)}
    parts_not_true = [part for part in _traced_conjuncts(trace) if part.get("value") is not True]
    # A part that could not be evaluated has no value.
    if len(parts_not_true) != 1 or parts_not_true[0].get("value") is not False:
        return None
    part = by_text.get(parts_not_true[0]["expression"])
    return None if part is None else _threshold(part, variable)


def _conjuncts(node: Node | None) -> tuple[Node, ...]:
    """The operands of a top-level `&&`, or else the node itself."""
    if node is None:
        return ()
    if isinstance(node, FunctionCall) and is_operator(node) and node.function == "&&":
        return node.args
    return (node,)


def _traced_conjuncts(trace: Trace | Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The traces of the operands of a top-level `&&`, or else the trace itself; a constant operand has no trace."""
    return trace.get("children", ()) if trace.get("operator") == "&&" else (trace,)


def _threshold(part: Node, variable: str) -> TotalThreshold | None:
    """The threshold of a comparison of the total with a literal; None for other parts of a rule."""
    for sign, side, literal in _in_both_orders(part):
        is_total = isinstance(side, Select) and side.field == "total" and _is_named(side.target, variable)
        if is_total and sign in (">=", ">") and isinstance(literal, Constant) and literal.type in ("int", "decimal"):
            return TotalThreshold(Decimal(str(literal.value)), is_strict=sign == ">")
    return None


def _in_both_orders(part: Node) -> Iterator[tuple[str, Node, Node]]:
    """Yield a comparison as (sign, left, right), and again with its sides swapped; yield nothing for other parts."""
    if isinstance(part, FunctionCall) and is_operator(part) and len(part.args) == 2:
        left, right = part.args
        yield part.function, left, right
        yield _MIRRORED.get(part.function, ""), right, left


def _is_named(node: Node, variable: str) -> bool:
    return isinstance(node, Identifier) and node.name == variable
