"""The condition of a coupon book: a rule about the member, in the language of campaign rules."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.context import member_variable
from domain.campaigns.variables import MEMBER, ORDER_FIELDS, TEXTS
from domain.expression_faults import invalid_expression
from domain.expressions import (
    BOOL,
    DECIMAL,
    TIMESTAMP,
    Budget,
    Deadline,
    Environment,
    EvaluationError,
    ExpressionError,
    MapOf,
    Program,
    TimeExceeded,
    compile_expression,
    from_tree,
    parse,
)
from domain.members import Member
from domain.orders import NO_ORDERS, EarlierOrders
from domain.problems import FieldFault, InvalidRequest

ENVIRONMENT = Environment(
    variables={
        "member": MEMBER,
        "balances": MapOf(DECIMAL),
        "badges": MapOf(DECIMAL),
        "audiences": TEXTS,
        "tiers": TEXTS,
        "now": TIMESTAMP,
    },
    labels={
        "balances": "balance of",
        "badges": "badges of",
        "audiences": "member audiences",
        "tiers": "member tiers",
        "now": "the current time",
    },
)
"""The variables of conditions, the same as in campaign rules."""

_MAX_PROGRAMS = 10_000


def check_condition(condition: Mapping[str, Any]) -> None:
    """Refuse a condition that is not `{}`, `{expression}` or `{node}`.

    Raises InvalidRequest with the position of every fault.
    """
    if not condition:
        return
    if len(condition) > 1:
        raise InvalidRequest(
            [FieldFault("condition has both an expression and a node; send one of them", pointer="/condition")]
        )
    try:
        _program_of(condition)
    except ExpressionError as error:
        [form] = condition
        raise invalid_expression(error, f"/condition/{form}") from error


def holds(condition: Mapping[str, Any], context: Mapping[str, Any], deadline: Deadline | None = None) -> bool:
    """True if a stored condition holds; one that cannot be evaluated, such as for a missing attribute, does not.

    Raises TimeExceeded if the deadline passes before the condition is evaluated.
    """
    if not condition:
        return True
    # Compiling takes time, too.
    if deadline is not None and deadline.has_passed():
        raise TimeExceeded
    try:
        return _program_of(condition).run(context, Budget(deadline=deadline)) is True
    except TimeExceeded:
        raise
    except EvaluationError:
        return False


def condition_may_read_orders(condition: Mapping[str, Any]) -> bool:
    """False if a stored condition does not depend on earlier orders of the member; found without compiling it."""
    text = repr(condition)
    return any(field in text for field in ORDER_FIELDS)


def context_of(
    member: Member,
    *,
    balances: Mapping[str, Decimal],
    badges: Mapping[str, Decimal],
    audience_keys: frozenset[str],
    tier_keys: frozenset[str],
    now: datetime,
    orders: EarlierOrders = NO_ORDERS,
) -> dict[str, Any]:
    """The variables of conditions; `balances` by account key and alias, `badges` by badge key.

    `orders` are the member's orders before `now`, needed only by conditions that read them.
    """
    return {
        "member": member_variable(member, orders),
        "balances": balances,
        "badges": badges,
        "audiences": sorted(audience_keys),
        "tiers": sorted(tier_keys),
        "now": now,
    }


def _program_of(condition: Mapping[str, Any]) -> Program:
    """The program of a condition, compiled once per process; raises ExpressionError."""
    key = repr(condition)
    program = _programs.get(key)
    if program is None:
        [(form, source)] = condition.items()
        node = parse(source) if form == "expression" else from_tree(source)
        program = compile_expression(node, ENVIRONMENT, BOOL)
        if len(_programs) >= _MAX_PROGRAMS:
            _programs.clear()
        _programs[key] = program
    return program


_programs: dict[str, Program] = {}
