"""Compiled expressions."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.expressions.check import Checked, check
from domain.expressions.codegen import generate
from domain.expressions.environment import Environment, Functions
from domain.expressions.errors import CostExceeded, EvaluationError, ExpressionError
from domain.expressions.interpret import Interpreter
from domain.expressions.runtime import Budget, accepts, name_of, plain_classes, result_of
from domain.expressions.tree import Node, weight
from domain.expressions.types import DYN, Type

NO_FUNCTIONS: Functions = {}


class Program:
    """A compiled expression; immutable, for any number of threads at once."""

    __slots__ = ("_environment", "_expected", "_plain", "_run", "_weight", "checked")

    def __init__(self, checked: Checked, environment: Environment, expected: Type | None) -> None:
        self.checked = checked
        self._environment = environment
        self._expected = expected
        self._plain = plain_classes(expected)
        self._run = generate(checked, environment)
        self._weight = weight(checked.node)

    @property
    def type(self) -> Type:
        """The static type of the value."""
        return self.checked.type

    def run(self, context: Mapping[str, Any], budget: Budget | None = None, functions: Functions = NO_FUNCTIONS) -> Any:
        """The value for the variables in `context`; raises `EvaluationError`, and nothing else.

        Charges `budget`, which several programs may share; without one there is a new budget for each run.
        """
        budget = Budget() if budget is None else budget
        before = budget.left
        try:
            budget.charge(self._weight)
            value = self._run(context, budget, functions)
        except CostExceeded as error:
            node = self.checked.node
            raise type(error)(node.start, node.end) from None
        except Exception:
            budget.left = before
            value = self.run_strictly(context, budget, functions)
        kind = type(value)
        if kind in self._plain and (kind is not Decimal or value.is_finite()):
            return value
        return self._finished(value)

    def run_strictly(self, context: Mapping[str, Any], budget: Budget, functions: Functions = NO_FUNCTIONS) -> Any:
        """As `run`, but by the interpreter: slower, with the place of an error, and absorbing errors as CEL does."""
        budget.charge(self._weight * Interpreter.price)
        return Interpreter(self.checked, self._environment, context, budget, functions).value(self.checked.node, {})

    def _finished(self, value: Any) -> Any:
        node, expected = self.checked.node, self._expected
        if expected is not None and expected != DYN and not accepts(expected, value):
            code = "null" if value is None else "type"
            raise EvaluationError(code, f"the value is {name_of(value)}, not {expected}", node.start, node.end)
        try:
            return result_of(value)
        except EvaluationError as error:
            raise EvaluationError(error.code, error.message, node.start, node.end) from None
        except RecursionError:
            raise EvaluationError("too-large", "a value nested too deep", node.start, node.end) from None


def compile_expression(node: Node, environment: Environment, expected: Type | None = None) -> Program:
    """Compile a tree to a program; raises `ExpressionError` with every fault that `check` finds.

    With `expected`, a value of another type (a null, or the actual value of a dyn) is an `EvaluationError`.
    """
    checked = check(node, environment, expected)
    if checked.faults:
        raise ExpressionError(checked.faults)
    return Program(checked, environment, expected)
