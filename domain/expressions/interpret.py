"""Evaluation of an expression by traversing its tree, which defines the exact meaning of the expression.

Slower than generated code, but it knows the place of an error, and follows CEL's rule for errors: `&&`, `||`, `all` and
`exists` drop an error when another operand decides the result. It runs after generated code has failed, and to explain.
"""

from collections.abc import Callable, Iterable, Mapping
from decimal import DecimalException
from typing import Any, NoReturn, cast

from domain.expressions.check import Analysis
from domain.expressions.environment import Environment, Functions
from domain.expressions.errors import CostExceeded, EvaluationError
from domain.expressions.functions import FUNCTIONS, METHODS, OPERATORS, apply
from domain.expressions.limits import PRECISION
from domain.expressions.runtime import (
    TYPE_NAMES,
    Budget,
    as_bool,
    charge_each_item,
    contains,
    different,
    field_of,
    has_field,
    item_at,
    make_map,
    same,
)
from domain.expressions.tree import (
    CHAINS,
    Constant,
    FunctionCall,
    Identifier,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Select,
    macro_weight,
    operands,
    parts,
)

Scope = Mapping[str, Any]
"""The values of the variables of the macros around a node."""


class Interpreter:
    """Evaluates one expression; `context` has the variables, `functions` the host functions."""

    exhaustive = False
    """True to evaluate all operands of `&&` and `||`, even if one has decided."""

    price = 4
    """The cost of a node relative to its cost in generated code: the interpreter is at least this much slower."""

    def __init__(
        self,
        analysis: Analysis,
        environment: Environment,
        context: Mapping[str, Any],
        budget: Budget,
        functions: Functions,
    ) -> None:
        self.analysis = analysis
        self.environment = environment
        self.context = context
        self.budget = budget
        self.functions = functions

    def value(self, node: Node, scope: Scope) -> Any:
        """The value of a part; raises `EvaluationError` with the place of the innermost part that failed."""
        try:
            return _BY_KIND[type(node)](self, node, scope)
        except EvaluationError as error:
            if not error.end:
                error.start, error.end = node.start, node.end
            raise
        except Exception as error:
            _raise_evaluation_error(error, node)

    def _select(self, node: Select, scope: Scope) -> Any:
        """The value of a field."""
        return field_of(self.value(node.target, scope), node.field)

    def _list(self, node: ListLiteral, scope: Scope) -> Any:
        return [self.value(item, scope) for item in node.items]

    def _map(self, node: MapLiteral, scope: Scope) -> Any:
        return make_map(*(self.value(part, scope) for part in parts(node)))

    def _variable(self, node: Identifier, scope: Scope) -> Any:
        """The value of a variable of a macro or of the context; a name of a type is its own value."""
        name = node.name
        if name in scope:
            return scope[name]
        if name in self.environment.variables:
            if name not in self.context:
                raise EvaluationError("missing", f"the variable '{name}' has no value here")
            return self.context[name]
        # The check refuses all other names.
        return TYPE_NAMES[name]

    def _condition(self, node: Node, scope: Scope) -> bool:
        """The value of a part, which has to be true or false."""
        return self.bool_of(self.value(node, scope), node)

    def bool_of(self, value: Any, node: Node) -> bool:
        """The `value` of the node as a condition; raises EvaluationError at the node unless it is true or false."""
        try:
            return as_bool(value)
        except EvaluationError as error:
            error.start, error.end = node.start, node.end
            raise

    def _call(self, node: FunctionCall, scope: Scope) -> Any:
        """The value of an operator, function, method or host function."""
        name, args = node.function, node.args
        if node.target is None:
            if name in CHAINS:
                return self.decide(name == "||", [(argument, scope) for argument in args])
            if name == "!":
                return not self._condition(args[0], scope)
            if name == "?:":
                return self.value(args[1 if self._condition(args[0], scope) else 2], scope)
            if name == "has":
                field = cast(Select, args[0])
                return has_field(self.value(field.target, scope), field.field)
        values = tuple([self.value(part, scope) for part in operands(node)])
        if node.target is None:
            operator = _SIMPLE_OPERATORS.get(name)
            if operator:
                return operator(self.budget, *values)
            if name in self.environment.functions:
                return self.environment.functions[name].call(self.functions, self.budget, *values)
        overload = self.analysis.overload(node)
        overloads = METHODS if node.target is not None else OPERATORS if name in OPERATORS else FUNCTIONS
        return apply(self.budget, _call_name(node), (overload,) if overload else overloads[name], values)

    def decide(self, stop: bool, operands: list[tuple[Node, Scope]]) -> bool:
        """The value of operands that are joined by `||` (`stop` is true) or `&&` (`stop` is false).

        It is `stop` if an operand is `stop`, else its opposite. Raises the first error of an operand unless another
        operand is `stop`.
        """
        failure: EvaluationError | None = None
        decided = False
        for node, scope in operands:
            try:
                if self._condition(node, scope) is stop:
                    decided = True
                    if not self.exhaustive:
                        break
            except CostExceeded:
                raise
            except EvaluationError as error:
                failure = failure or error
        if failure and not decided:
            raise failure
        return stop if decided else not stop

    def _macro(self, node: Macro, scope: Scope) -> Any:
        """The value of all, exists, exists_one, map or filter over the items of a list or the keys of a map."""
        weight_of_item = self.price * macro_weight(node)
        values = list(charge_each_item(self.budget, self.value(node.target, scope), weight_of_item))
        scopes = ({**scope, node.variable: value} for value in self.budget.watch(values, weight_of_item))
        if node.function in ("all", "exists"):
            return self._quantify(node, scopes)
        if node.function == "map":
            condition = node.condition
            matching_scopes = (
                element_scope
                for element_scope in scopes
                if condition is None or self._element_condition(condition, element_scope, node.variable)
            )
            return [self.element(node.body, element_scope, node.variable) for element_scope in matching_scopes]
        results = [self._element_condition(node.body, element_scope, node.variable) for element_scope in scopes]
        if node.function == "exists_one":
            return sum(results) == 1
        # `filter` is the last macro.
        return [value for value, result in zip(values, results, strict=True) if result]

    def _quantify(self, node: Macro, scopes: Iterable[dict[str, Any]]) -> bool:
        """The value of `all` or `exists`; an error of one element counts only if no other element decides."""
        stop = node.function == "exists"
        failure: EvaluationError | None = None
        for scope in scopes:
            try:
                if self._element_condition(node.body, scope, node.variable) is stop:
                    return stop
            except CostExceeded:
                raise
            except EvaluationError as error:
                failure = failure or error
        if failure:
            raise failure
        return not stop

    def _element_condition(self, part: Node, scope: Scope, variable: str) -> bool:
        """The value of a condition of a macro for one element; see `element`."""
        return self.bool_of(self.element(part, scope, variable), part)

    def element(self, part: Node, scope: Scope, variable: str) -> Any:
        """The value of a part of a macro for one element, which the scope has as `variable`."""
        return self.value(part, scope)


_BY_KIND: dict[type[Node], Callable[..., Any]] = {
    Constant: lambda interpreter, node, scope: node.value,
    Identifier: Interpreter._variable,
    Select: Interpreter._select,
    ListLiteral: Interpreter._list,
    MapLiteral: Interpreter._map,
    Macro: Interpreter._macro,
    FunctionCall: Interpreter._call,
}


_SIMPLE_OPERATORS = {"==": same, "!=": different, "in": contains, "[]": item_at}


def _call_name(node: FunctionCall) -> str:
    return f"'{node.function}'" if node.function in OPERATORS else f"{node.function}()"


def _raise_evaluation_error(error: Exception, node: Node) -> NoReturn:
    """Raise an EvaluationError at this node for an exception of Python; its text is for authors of expressions."""
    if isinstance(error, DecimalException | OverflowError):
        message = f"the number is too large, or needs more than {PRECISION} digits"
        raise EvaluationError("overflow", message, node.start, node.end) from error
    if isinstance(error, RecursionError | MemoryError):
        raise EvaluationError("too-large", "a value is too large or nested too deep", node.start, node.end) from error
    raise EvaluationError(
        "type", "this part cannot be computed from values of these types", node.start, node.end
    ) from error
