"""Generation of a Python function from a checked tree.

The function is made of constants, subscripts with constant keys, comparisons, comprehensions and calls of the functions
this module names. It has no attribute access and no built-ins, so an expression can reach nothing else. A value that
it returns is always right. When it raises, the interpreter evaluates the expression again to find out the result.
"""

import ast
from collections.abc import Callable, Mapping
from typing import Any

from domain.expressions.check import Analysis, is_plain
from domain.expressions.environment import Environment, Functions
from domain.expressions.functions import FUNCTIONS, METHODS, OPERATORS, Overload, apply
from domain.expressions.runtime import (
    TYPE_NAMES,
    Budget,
    as_bool,
    at_key,
    charge_each_item,
    charge_size,
    contains,
    different,
    exactly_one,
    has_field,
    in_list,
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
    parts,
)
from domain.expressions.types import BOOL, STRING, ListOf, MapOf

Compiled = Callable[[Mapping[str, Any], Budget, Functions], Any]
"""A generated function: it computes the value from the context, the budget and the host functions."""

_COMPARISONS: dict[str, ast.cmpop] = {
    "==": ast.Eq(),
    "!=": ast.NotEq(),
    "<": ast.Lt(),
    "<=": ast.LtE(),
    ">": ast.Gt(),
    ">=": ast.GtE(),
}
# Conversions of constants that are computed when the function is generated.
_FOLDED = frozenset({"timestamp", "duration", "decimal", "double"})
# Operators and macros whose result is always a bool.
_BOOL_SIGNS = frozenset({"==", "!=", "<", "<=", ">", ">=", "in", "&&", "||", "!"})
_BOOL_MACROS = frozenset({"all", "exists", "exists_one"})


def generate(analysis: Analysis, environment: Environment) -> Compiled:
    """The function that computes a checked expression from the context, the budget and the host functions."""
    generator = _Generator(analysis, environment)
    body = generator.expression(analysis.node, frozenset())
    function = ast.Expression(_lambda(("context", "budget", "functions"), body))
    code = compile(ast.fix_missing_locations(function), "<expression>", "eval")
    compiled: Compiled = eval(code, {"__builtins__": {}, **generator.constants})
    return compiled


def _lambda(names: tuple[str, ...], body: ast.expr) -> ast.Lambda:
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(name) for name in names],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
    return ast.Lambda(arguments, body)


def _name(name: str) -> ast.Name:
    return ast.Name(name, ast.Load())


def _subscript(value: ast.expr, key: str | int) -> ast.expr:
    return ast.Subscript(value, ast.Constant(key), ast.Load())


def _local(variable: str) -> str:
    """The Python name of a macro's variable, different from all other names in the code."""
    return f"v_{variable}"


class _Generator:
    """Creates the Python code of nodes; `scope` has the variables of the macros around a node."""

    def __init__(self, analysis: Analysis, environment: Environment) -> None:
        self.analysis = analysis
        self.environment = environment
        self.constants: dict[str, Any] = {}
        # The names of the constants, by the `id` of their value.
        self.names: dict[int, str] = {}

    def add_constant(self, value: Any) -> ast.expr:
        """Add a value that Python code cannot contain to the function's globals; return the code of its name."""
        name = self.names.setdefault(id(value), f"k{len(self.constants)}")
        self.constants[name] = value
        return _name(name)

    def call_of(self, function: Callable[..., Any], *arguments: ast.expr) -> ast.expr:
        """The code that calls the function."""
        return ast.Call(self.add_constant(function), list(arguments), [])

    def call_with_budget(self, function: Callable[..., Any], *arguments: ast.expr) -> ast.expr:
        """The code that calls the function with the budget as its first argument."""
        return self.call_of(function, _name("budget"), *arguments)

    def expression(self, node: Node, scope: frozenset[str]) -> ast.expr:
        """The code of a node."""
        match node:
            case Constant(type="decimal", value=value):
                return self.add_constant(value)
            case Constant(value=value):
                return ast.Constant(value)  # type: ignore[arg-type]
            case Identifier(name=name):
                return self.variable(name, scope)
            case Select(target=target, field=field):
                return _subscript(self.expression(target, scope), field)
            case ListLiteral(items=items):
                return ast.List([self.expression(item, scope) for item in items], ast.Load())
            case MapLiteral():
                return self.call_of(make_map, *(self.expression(part, scope) for part in parts(node)))
            case Macro():
                return self.macro(node, scope)
            case FunctionCall():
                return self.call(node, scope)
        raise TypeError(f"{node!r} is not a node of an expression")

    def variable(self, name: str, scope: frozenset[str]) -> ast.expr:
        """The code of a variable of a macro or of the context, or of the name of a type."""
        if name in scope:
            return _name(_local(name))
        if name in self.environment.variables:
            return _subscript(_name("context"), name)
        return self.add_constant(TYPE_NAMES[name])

    def condition(self, node: Node, scope: frozenset[str]) -> ast.expr:
        """The expression as a condition, which raises unless it is true or false: null must not count as false."""
        code = self.expression(node, scope)
        return code if self.is_surely_bool(node) else self.call_of(as_bool, code)

    def is_surely_bool(self, node: Node) -> bool:
        """True if the value of the node is always a bool, so that the code need not check it."""
        if isinstance(node, Macro):
            return node.function in _BOOL_MACROS
        if isinstance(node, Constant):
            return node.type == "bool"
        if not isinstance(node, FunctionCall):
            return False
        overload = self.analysis.overload(node)
        if overload is not None:
            return overload.result == BOOL
        return node.target is None and (node.function in _BOOL_SIGNS or node.function == "has")

    def macro(self, node: Macro, scope: frozenset[str]) -> ast.expr:
        """The comprehension of a macro; each item is charged with the weight of what is evaluated for it."""
        inner = scope | {node.variable}
        weight_of_item = ast.Constant(macro_weight(node))
        values = self.call_with_budget(charge_each_item, self.expression(node.target, scope), weight_of_item)
        element = ast.Name(_local(node.variable), ast.Store())
        conditions = [] if node.condition is None else [self.condition(node.condition, inner)]
        if node.function == "map":
            body = self.expression(node.body, inner)
            return ast.ListComp(body, [ast.comprehension(element, values, conditions, is_async=0)])
        body = self.condition(node.body, inner)
        if node.function == "filter":
            loop = ast.comprehension(element, values, [body], is_async=0)
            return ast.ListComp(_name(_local(node.variable)), [loop])
        conditions_of_items = ast.GeneratorExp(body, [ast.comprehension(element, values, [], is_async=0)])
        function = {"all": all, "exists": any, "exists_one": exactly_one}[node.function]
        return self.call_of(function, conditions_of_items)

    def call(self, node: FunctionCall, scope: frozenset[str]) -> ast.expr:
        """The code of an operator, function, method or host function."""
        name, args = node.function, node.args
        if node.target is None:
            if name in CHAINS:
                operator = ast.Or() if name == "||" else ast.And()
                return ast.BoolOp(operator, [self.condition(argument, scope) for argument in args])
            if name == "!":
                return ast.UnaryOp(ast.Not(), self.condition(args[0], scope))
            if name == "?:":
                condition, yes, no = args
                outcomes = self.expression(yes, scope), self.expression(no, scope)
                return ast.IfExp(self.condition(condition, scope), *outcomes)
            if name == "has":
                target, field = args[0].target, args[0].field  # type: ignore[attr-defined]
                return self.call_of(has_field, self.expression(target, scope), ast.Constant(field))
            if name in ("==", "!="):
                return self.equality(node, scope)
            if name == "in":
                return self.containment(node, scope)
            if name == "[]":
                return self.index(node, scope)
            if name in self.environment.functions:
                call = self.environment.functions[name].call
                host_arguments = _name("functions"), _name("budget")
                return self.call_of(call, *host_arguments, *(self.expression(argument, scope) for argument in args))
        return self.call_by_overload(node, scope)

    def equality(self, node: FunctionCall, scope: frozenset[str]) -> ast.expr:
        """A comparison by Python if it has the meaning and the cost of `same` or `different`, else a call of these."""
        left, right = node.args
        codes = self.expression(left, scope), self.expression(right, scope)
        for side, other in ((left, codes[1]), (right, codes[0])):
            if isinstance(side, Constant) and side.value is None:
                if isinstance(other, ast.Constant) and other.value is not None:
                    # Python warns of `1 is None`; the result is known.
                    return ast.Constant(node.function == "!=")
                return ast.Compare(other, [ast.Is() if node.function == "==" else ast.IsNot()], [ast.Constant(None)])
        # Comparing with a constant is cheap, since it is short; comparing two other texts is charged.
        is_cheap = self.analysis.type_of(left) != STRING or isinstance(left, Constant) or isinstance(right, Constant)
        if self.is_plain(left) and self.is_plain(right) and is_cheap:
            return ast.Compare(codes[0], [_COMPARISONS[node.function]], [codes[1]])
        return self.call_with_budget(same if node.function == "==" else different, *codes)

    def is_plain(self, node: Node) -> bool:
        """True if values of the node's type have no parts, and the type is known for certain."""
        return is_plain(self.analysis.type_of(node))

    def containment(self, node: FunctionCall, scope: frozenset[str]) -> ast.expr:
        """The operator `in` of Python if it has the meaning of `contains`, else a call of `contains`."""
        needle, values = node.args
        code = self.expression(needle, scope)
        kind = self.analysis.type_of(values)
        if self.is_plain(needle):
            constants = self.constant_items(values)
            if constants is not None:
                return ast.Compare(code, [ast.In()], [self.add_constant(constants)])
            if isinstance(kind, ListOf) and is_plain(kind.element):
                if not isinstance(needle, Constant):
                    return self.call_with_budget(in_list, code, self.expression(values, scope))
                sized_values = self.call_with_budget(charge_size, self.expression(values, scope))
                return ast.Compare(code, [ast.In()], [sized_values])
            if isinstance(kind, MapOf) and kind.key == STRING and _is_text_constant(needle):
                return ast.Compare(code, [ast.In()], [self.expression(values, scope)])
        return self.call_with_budget(contains, code, self.expression(values, scope))

    def constant_items(self, node: Node) -> frozenset[Any] | tuple[Any, ...] | None:
        """The values of a list literal whose items are constants of one type without parts; None for other nodes.

        The values are in a set if they are strings.
        """
        kind = self.analysis.type_of(node)
        if not isinstance(node, ListLiteral) or not isinstance(kind, ListOf) or not is_plain(kind.element):
            return None
        if not all(isinstance(item, Constant) for item in node.items):
            return None
        values = tuple(item.value for item in node.items)  # type: ignore[attr-defined]
        return frozenset(values) if kind.element == STRING else values

    def index(self, node: FunctionCall, scope: frozenset[str]) -> ast.expr:
        """The code for `target[index]`: a subscript of Python if the types and constants rule out other cases.

        Else a call: of `at_key` for a map with keys that are strings, of `item_at` for other values.
        """
        target, index = node.args
        target_code = self.expression(target, scope)
        kind = self.analysis.type_of(target)
        if isinstance(kind, ListOf) and isinstance(index, Constant) and type(index.value) is int and index.value >= 0:
            return _subscript(target_code, index.value)
        index_code = self.expression(index, scope)
        if isinstance(kind, MapOf) and kind.key == STRING and self.analysis.type_of(index) == STRING:
            if isinstance(index, Constant):
                return ast.Subscript(target_code, index_code, ast.Load())
            return self.call_with_budget(at_key, target_code, index_code)
        return self.call_with_budget(item_at, target_code, index_code)

    def call_by_overload(self, node: FunctionCall, scope: frozenset[str]) -> ast.expr:
        """An operator, function or method by its overload, which is found at run time if the types do not decide."""
        overload = self.analysis.overload(node)
        arguments = [self.expression(part, scope) for part in parts(node)]
        if overload is None:
            overloads = METHODS if node.target is not None else OPERATORS if node.function in OPERATORS else FUNCTIONS
            return self.call_with_budget(_dispatch(node.function, overloads[node.function]), *arguments)
        # Comparing texts is charged, unless one of them is a constant, which is short.
        is_charged = overload.metered and not any(isinstance(part, Constant) for part in parts(node))
        if node.function in _COMPARISONS and not is_charged:
            return ast.Compare(arguments[0], [_COMPARISONS[node.function]], [arguments[1]])
        if node.function in _FOLDED and isinstance(node.args[0], Constant):
            return self.conversion_of_constant(overload, node.args[0], arguments)
        if overload.metered:
            return self.call_with_budget(overload.call, *arguments)
        if overload.charges_size:
            arguments[0] = self.call_with_budget(charge_size, arguments[0])
        return self.call_of(overload.call, *arguments)

    def conversion_of_constant(self, overload: Overload, argument: Constant, codes: list[ast.expr]) -> ast.expr:
        """The code of a conversion of a constant: the value, computed now, or a call if that fails."""
        try:
            return self.add_constant(overload.call(argument.value))
        except Exception:
            # A failure must occur at run time: an `||` may absorb it.
            return self.call_of(overload.call, *codes)


def _is_text_constant(node: Node) -> bool:
    return isinstance(node, Constant) and node.type == "string"


def _dispatch(name: str, overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    """A function that calls the first of the overloads that accepts the values."""

    def call(budget: Budget, *values: Any) -> Any:
        return apply(budget, name, overloads, values)

    return call
