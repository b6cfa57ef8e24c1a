"""Compiled expressions, and their rendering as text."""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.expressions.check import Analysis, check
from domain.expressions.codegen import generate
from domain.expressions.environment import Environment, Functions
from domain.expressions.errors import CostExceeded, EvaluationError, ExpressionError
from domain.expressions.interpret import Interpreter
from domain.expressions.runtime import Budget, accepts, name_of, plain_classes, result_of
from domain.expressions.tree import (
    BINARY,
    CHAINS,
    Constant,
    FunctionCall,
    Identifier,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Select,
    weight,
)
from domain.expressions.types import DYN, Type

NO_FUNCTIONS: Functions = {}


class Program:
    """A compiled expression; immutable, for any number of threads at once."""

    __slots__ = ("_environment", "_expected_type", "_plain", "_run", "_weight", "analysis")

    def __init__(self, analysis: Analysis, environment: Environment, expected_type: Type | None) -> None:
        self.analysis = analysis
        self._environment = environment
        self._expected_type = expected_type
        self._plain = plain_classes(expected_type)
        self._run = generate(analysis, environment)
        self._weight = weight(analysis.node)

    @property
    def type(self) -> Type:
        """The static type of the value of the expression."""
        return self.analysis.type

    def run(self, context: Mapping[str, Any], budget: Budget | None = None, functions: Functions = NO_FUNCTIONS) -> Any:
        """Compute the value for the variables in `context`; raises `EvaluationError`, and nothing else.

        Charges `budget`, which several programs may share; without one there is a new budget for each run.
        """
        budget = Budget() if budget is None else budget
        steps_before = budget.remaining
        try:
            budget.charge(self._weight)
            value = self._run(context, budget, functions)
        except CostExceeded as error:
            node = self.analysis.node
            raise type(error)(node.start, node.end) from None
        except Exception:
            # The interpreter finds the place of the error, or a value, since `||` and `&&` may absorb the error.
            budget.remaining = steps_before
            value = self.run_strictly(context, budget, functions)
        kind = type(value)
        if kind in self._plain and (kind is not Decimal or value.is_finite()):
            return value
        return self._check_result(value)

    def run_strictly(self, context: Mapping[str, Any], budget: Budget, functions: Functions = NO_FUNCTIONS) -> Any:
        """Compute the value by the interpreter, which is slower than `run`.

        It knows the place of an error, and absorbs errors as CEL.
        """
        budget.charge(self._weight * Interpreter.price)
        return Interpreter(self.analysis, self._environment, context, budget, functions).value(self.analysis.node, {})

    def _check_result(self, value: Any) -> Any:
        """Copy the lists and maps of a value; raises EvaluationError if it is too large or of another type."""
        node, expected_type = self.analysis.node, self._expected_type
        if expected_type is not None and expected_type != DYN and not accepts(expected_type, value):
            code = "null" if value is None else "type"
            raise EvaluationError(code, f"the value is {name_of(value)}, not {expected_type}", node.start, node.end)
        try:
            return result_of(value)
        except EvaluationError as error:
            raise EvaluationError(error.code, error.message, node.start, node.end) from None
        except RecursionError:
            raise EvaluationError("too-large", "the value is nested too deep", node.start, node.end) from None


def compile_expression(node: Node, environment: Environment, expected_type: Type | None = None) -> Program:
    """Compile a tree to a program; raises `ExpressionError` with every fault that `check` finds.

    With `expected_type`, a value of another type (a null, or the actual value of a dyn) is an `EvaluationError`.
    """
    analysis = check(node, environment, expected_type)
    if analysis.faults:
        raise ExpressionError(analysis.faults)
    return Program(analysis, environment, expected_type)


_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "in"})


def to_text(node: Node) -> str:
    """The text of a tree: the parsed text with normalized white space, without comments and trailing commas."""
    return "(" * node.parens + _text_without_parens(node) + ")" * node.parens


def _text_without_parens(node: Node) -> str:
    """The text of a tree without the parentheses around it."""
    match node:
        case Constant(text=text):
            return text
        case Identifier(name=name):
            return name
        case Select(target=target, field=field):
            return f"{to_text(target)}.{name_of_field(field)}"
        case ListLiteral(items=items):
            return f"[{_comma(items)}]"
        case MapLiteral(entries=entries):
            return "{" + ", ".join(f"{to_text(key)}: {to_text(value)}" for key, value in entries) + "}"
        case Macro():
            conditions = [] if node.condition is None else [node.condition]
            return f"{to_text(node.target)}.{node.function}({node.variable}, {_comma((*conditions, node.body))})"
        case FunctionCall():
            return _call_text(node)
    raise TypeError(f"{node!r} is not a node of an expression")


def _comma(nodes: tuple[Node, ...]) -> str:
    """The texts of the nodes, joined by commas."""
    return ", ".join(map(to_text, nodes))


def _call_text(node: FunctionCall) -> str:
    """The text of an operator with its operands, or of a call of a function or method."""
    name, args = node.function, node.args
    if node.target is not None:
        return f"{to_text(node.target)}.{name}({_comma(args)})"
    if name in CHAINS or (name in BINARY and len(args) == 2):
        return f" {name} ".join(map(to_text, args))
    if name in ("!", "-"):
        return name + to_text(args[0])
    if name == "?:":
        return f"{to_text(args[0])} ? {to_text(args[1])} : {to_text(args[2])}"
    if name == "[]":
        return f"{to_text(args[0])}[{to_text(args[1])}]"
    return f"{name}({_comma(args)})"


def name_of_field(field: str) -> str:
    """The text of a field after a dot: in back quotes unless it is a plain name."""
    return field if _NAME.fullmatch(field) and field not in _WORDS else f"`{field}`"
