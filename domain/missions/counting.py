"""The count of an event for a mission: 1, or the value of the mission's own expression."""

from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

from domain.campaigns.variables import ENVIRONMENT
from domain.expression_faults import invalid_expression
from domain.expressions import Budget, ExpressionError, Functions, Node, Program, compile_expression, parse
from domain.expressions.types import DECIMAL

COUNT_EXPRESSION = "/countExpression"

# The most that a request can count at once (openapi MissionProgressBody).
MOST_COUNTED = 1_000_000_000


@lru_cache(maxsize=1000)
def compile_count(expression: str) -> Program:
    """The program of a `countExpression`; raises InvalidRequest with the position of every fault."""
    try:
        return compile_expression(parse(expression), ENVIRONMENT, DECIMAL)
    except ExpressionError as error:
        raise invalid_expression(error, COUNT_EXPRESSION) from error


def count_sources(expression: str) -> list[tuple[str, Node]]:
    """The expression with its place in a mission, for searches of the names that it uses."""
    return [(COUNT_EXPRESSION, compile_count(expression).checked.node)]


def count_of(program: Program, variables: Mapping[str, Any], budget: Budget, functions: Functions) -> int:
    """The whole count that an expression computes, rounded down: zero below 1, at most `MOST_COUNTED`.

    Raises EvaluationError if its value is not a number.
    """
    value = program.run(variables, budget, functions)
    return min(MOST_COUNTED, max(0, int(Decimal(value).to_integral_value(ROUND_FLOOR))))
