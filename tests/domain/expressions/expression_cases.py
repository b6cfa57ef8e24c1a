"""An environment and a context that the tests of expressions share, and shorthands to use them."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from domain.expressions import (
    BOOL,
    DECIMAL,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Budget,
    Environment,
    EvaluationError,
    ExpressionError,
    Field,
    HostFunction,
    ListOf,
    MapOf,
    ObjectOf,
    Type,
    check,
    compile_expression,
    parse,
)

ITEM = ObjectOf(
    "item",
    {
        "code": Field(STRING, "code"),
        "total": Field(DECIMAL, "total"),
        "quantity": Field(INT, "quantity"),
        "gift": Field(BOOL, "gift"),
    },
)
ORDER = ObjectOf(
    "order",
    {
        "total": Field(DECIMAL, "total"),
        "coupon": Field(STRING, "coupon"),
        "paid": Field(BOOL, "paid"),
        "tags": Field(ListOf(STRING), "tags"),
        "items": Field(ListOf(ITEM), "items"),
    },
)
ENVIRONMENT = Environment(
    {
        "order": ORDER,
        "sponsor": ORDER,
        "balances": MapOf(DECIMAL),
        "payload": MapOf(DYN),
        "count": INT,
        "now": TIMESTAMP,
        "age": DURATION,
    },
    labels={"now": "the current time", "balances": "balance of"},
    functions=[HostFunction("matches", (ITEM, STRING), BOOL, "{0} matches {1}")],
)
CONTEXT: dict[str, Any] = {
    "order": {
        "total": Decimal("84.30"),
        "coupon": None,
        "paid": None,
        "tags": ["web", "summer"],
        "items": [
            {"code": "coffee", "total": Decimal("10.05"), "quantity": 2, "gift": False},
            {"code": "tea", "total": Decimal("74.25"), "quantity": 1, "gift": True},
        ],
    },
    "sponsor": None,
    "balances": {"points": Decimal(120)},
    "payload": {"n": 7, "d": Decimal("2.5"), "s": "text", "b": True, "none": None, "list": [1, "two", None]},
    "count": 3,
    "now": datetime(2026, 3, 29, 0, 30, tzinfo=UTC),
    "age": timedelta(hours=36),
}
FUNCTIONS = {"matches": lambda item, key: item["code"] == key}


def run(text: str, budget: Budget | None = None, expected_type: Type | None = None, **variables: Any) -> Any:
    """The value of an expression over the context."""
    program = compile_expression(parse(text), ENVIRONMENT, expected_type)
    return program.run({**CONTEXT, **variables}, budget, FUNCTIONS)


def failure(text: str, **variables: Any) -> EvaluationError:
    """The error of an expression that compiles and has no value."""
    try:
        value = run(text, **variables)
    except EvaluationError as error:
        return error
    raise AssertionError(f"{text} is {value!r}")


def faults(text: str, expected_type: Type | None = None) -> list[tuple[str, str]]:
    """What is wrong with an expression: the part of the text, and the message."""
    try:
        expression_faults = check(parse(text), ENVIRONMENT, expected_type).faults
    except ExpressionError as error:
        expression_faults = error.faults
    return [(text[fault.start : fault.end], fault.message) for fault in expression_faults]


def warnings(text: str) -> list[tuple[str, str]]:
    """What looks wrong with an expression: the part of the text, and the code."""
    expression_warnings = check(parse(text), ENVIRONMENT).warnings
    return [(text[fault.start : fault.end], fault.code) for fault in expression_warnings]
