"""The check of an expression's types, before it runs: reports every fault at once, each with its place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.expressions.environment import Environment
from domain.expressions.errors import EvaluationError, ExpressionError, Fault
from domain.expressions.functions import FUNCTIONS, METHODS, OPERATORS, Overload
from domain.expressions.limits import MAX_FAULTS
from domain.expressions.runtime import TYPE_NAMES
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
    is_operator,
    parts,
)
from domain.expressions.types import (
    BOOL,
    DECIMAL,
    DYN,
    INT,
    NULL,
    STRING,
    TYPE,
    ListOf,
    MapOf,
    ObjectOf,
    Scalar,
    Type,
    comparable,
    fits,
    join,
)
from domain.problems import nearest

_CONSTANTS: dict[str, Type] = {"int": INT, "decimal": DECIMAL, "string": STRING, "bool": BOOL, "null": NULL}


@dataclass(frozen=True, slots=True)
class Analysis:
    """The type, faults and warnings of an expression, and the types and overloads of its parts by the part's `id`."""

    node: Node
    type: Type
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]
    types: Mapping[int, Type] = field(repr=False)
    overloads: Mapping[int, Overload] = field(repr=False)

    def type_of(self, node: Node) -> Type:
        """The type of a part of the expression."""
        return self.types[id(node)]

    def overload(self, node: Node) -> Overload | None:
        """The overload that a call uses, or None if that depends on the values."""
        return self.overloads.get(id(node))


def check(node: Node, environment: Environment, expected_type: Type | None = None) -> Analysis:
    """Check the types of an expression; with `expected_type`, its type must fit.

    An int fits a decimal; dyn fits, and is checked at run time. Raises `ExpressionError` for a type nested too deep.
    """
    checker = _Checker(environment)
    try:
        node_type = checker.find_type(node, dict(environment.variables))
        is_expected = expected_type is None or fits(node_type, expected_type)
        # Messages need the name of the type, and computing it recurses, too: find out here if it is nested too deep.
        str(node_type)
    except RecursionError:
        fault = Fault("the type of the expression is nested too deep", node.start, node.end, "limit")
        raise ExpressionError([fault]) from None
    if expected_type is not None and not is_expected:
        checker.add_fault(
            node, f"the expression must be {_with_article(expected_type)}, this is {_with_article(node_type)}"
        )
    return Analysis(node, node_type, tuple(checker.faults), tuple(checker.warnings), checker.types, checker.overloads)


def _with_article(kind: Type) -> str:
    """The type as a noun in a message: "an int", "true or false" for a bool."""
    if kind == BOOL:
        return "true or false"
    if kind == NULL:
        return "null"
    name = str(kind)
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _suggest_name(name: str, names: Iterable[str]) -> str:
    """The ending of a message about an unknown name."""
    close = nearest(name, names)
    return f"; did you mean '{close}'?" if close is not None else ""


class _Checker:
    """Collects faults and warnings, and the types and overloads of nodes.

    Most methods return the type of a node; `scope` has the types of the variables that the node can use.
    """

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.faults: list[Fault] = []
        self.warnings: list[Fault] = []
        self.types: dict[int, Type] = {}
        self.overloads: dict[int, Overload] = {}

    def add_fault(self, node: Node, message: str, code: str = "type") -> Type:
        """Add a fault; return dyn, a type that causes no further faults."""
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(Fault(message, node.start, node.end, code))
        return DYN

    def warn(self, node: Node, message: str, code: str) -> None:
        """Add a warning at the node."""
        self.warnings.append(Fault(message, node.start, node.end, code))

    def find_type(self, node: Node, scope: Mapping[str, Type]) -> Type:
        """Find the type of a node, and record it."""
        match node:
            case Constant():
                node_type = _CONSTANTS[node.type]
            case Identifier():
                node_type = self.identifier(node, scope)
            case Select():
                node_type = self.select(node, scope)
            case ListLiteral():
                node_type = ListOf(self.common(node.items, scope, "list elements"))
            case MapLiteral():
                node_type = self.map(node, scope)
            case Macro():
                node_type = self.macro(node, scope)
            case FunctionCall():
                node_type = self.call(node, scope)
            case _:
                raise TypeError(f"{node!r} is not a node of an expression")
        self.types[id(node)] = node_type
        return node_type

    def identifier(self, node: Identifier, scope: Mapping[str, Type]) -> Type:
        """The type of a variable or of the name of a type; a fault for any other name."""
        if node.name in scope:
            return scope[node.name]
        if node.name in TYPE_NAMES:
            return TYPE
        return self.add_fault(
            node, f"unknown variable '{node.name}'{_suggest_name(node.name, scope)}", "unknown-variable"
        )

    def select(self, node: Select, scope: Mapping[str, Type]) -> Type:
        """The type of the field `target.field`; a fault if the type of the target has no such field."""
        target = self.find_type(node.target, scope)
        if isinstance(target, ObjectOf):
            if node.field in target.fields:
                return target.fields[node.field].type
            hint = _suggest_name(node.field, target.fields) or f"; known: {', '.join(sorted(target.fields))}"
            return self.add_fault(node, f"{target} has no field '{node.field}'{hint}", "unknown-field")
        if isinstance(target, MapOf) and target.key in (STRING, DYN):
            return target.value
        return DYN if target == DYN else self.add_fault(node, f"{_with_article(target)} has no fields")

    def common(self, nodes: Iterable[Node], scope: Mapping[str, Type], what: str) -> Type:
        """The common type of all nodes; if they have none, dyn, with a warning that calls the nodes `what`."""
        common_type: Type | None = None
        for node in nodes:
            node_type = self.find_type(node, scope)
            joined = node_type if common_type is None else join(common_type, node_type)
            if joined is None:
                self.warn(node, f"{what} of different types: {common_type} and {node_type}", "mixed-types")
            common_type = DYN if joined is None else joined
        return DYN if common_type is None else common_type

    def map(self, node: MapLiteral, scope: Mapping[str, Type]) -> Type:
        """The type of a map literal; a fault if a key is no string, int or bool."""
        key = self.common([key for key, _ in node.entries], scope, "map keys")
        for part, _ in node.entries:
            if self.types[id(part)] not in (STRING, INT, BOOL, DYN):
                self.add_fault(
                    part, f"a map key must be a string, int or bool, not {_with_article(self.types[id(part)])}"
                )
                # Only keys without parts: the type of an expression stays no larger than its text.
                key = DYN
        return MapOf(self.common([value for _, value in node.entries], scope, "map values"), key)

    def macro(self, node: Macro, scope: Mapping[str, Type]) -> Type:
        """The type of the result of all, exists, exists_one, filter or map, whose body can use the variable."""
        target = self.find_type(node.target, scope)
        element: Type = DYN
        if isinstance(target, ListOf | MapOf):
            element = target.element if isinstance(target, ListOf) else target.key
        elif target != DYN:
            self.add_fault(node.target, f"{node.function}() needs a list or map, this is {_with_article(target)}")
        if node.variable in scope:
            self.warn(node, f"'{node.variable}' hides another variable of this name", "shadowed-variable")
        inner = {**scope, node.variable: DYN if element == NULL else element}
        if node.condition is not None:
            self.check_condition(node.condition, inner)
        if node.function == "map":
            return ListOf(self.find_type(node.body, inner))
        self.check_condition(node.body, inner)
        return ListOf(element) if node.function == "filter" else BOOL

    def check_condition(self, node: Node, scope: Mapping[str, Type]) -> None:
        """Add a fault unless the node is true or false."""
        node_type = self.find_type(node, scope)
        if node_type not in (BOOL, DYN):
            self.add_fault(node, f"a condition must be true or false, this is {_with_article(node_type)}")

    def call(self, node: FunctionCall, scope: Mapping[str, Type]) -> Type:
        """The type of the result of an operator, function, method or host function."""
        name, args = node.function, node.args
        if node.target is not None:
            return self.type_of_call(node, METHODS.get(name), scope)
        if name in CHAINS or name == "!":
            for argument in args:
                self.check_condition(argument, scope)
            return BOOL
        special = {"?:": self.conditional, "[]": self.index, "in": self.membership}.get(name)
        if special:
            return special(node, scope)
        if name in ("==", "!="):
            left, right = (self.find_type(argument, scope) for argument in args)
            if not comparable(left, right):
                self.add_fault(node, f"{_with_article(left)} never equals {_with_article(right)}")
            return BOOL
        if name == "has":
            self.find_type(args[0], scope)
            return BOOL
        if name in self.environment.functions:
            return self.host_call(node, scope)
        return self.type_of_call(node, OPERATORS.get(name) or FUNCTIONS.get(name), scope)

    def conditional(self, node: FunctionCall, scope: Mapping[str, Type]) -> Type:
        """The common type of both results of `condition ? a : b`; a fault if they have none."""
        condition, yes, no = node.args
        self.check_condition(condition, scope)
        left, right = self.find_type(yes, scope), self.find_type(no, scope)
        joined = join(left, right)
        if joined is None:
            return self.add_fault(node, f"the two results of ?: have different types: {left} and {right}")
        return joined

    def index(self, node: FunctionCall, scope: Mapping[str, Type]) -> Type:
        """The type of `list[index]` or `map[key]`."""
        target, index = (self.find_type(argument, scope) for argument in node.args)
        if isinstance(target, ListOf):
            if index not in (INT, DYN):
                self.add_fault(node.args[1], f"the index of a list must be an int, not {_with_article(index)}")
            return target.element
        if isinstance(target, MapOf):
            if not comparable(index, target.key):
                self.add_fault(node.args[1], f"the keys are of type {target.key}, not {index}")
            return target.value
        if target == DYN:
            return DYN
        return self.add_fault(node, f"an index needs a list or a map, not {_with_article(target)}")

    def membership(self, node: FunctionCall, scope: Mapping[str, Type]) -> Type:
        """The type of `needle in values`, which is bool; a fault if the types do not fit."""
        needle, values = (self.find_type(argument, scope) for argument in node.args)
        if isinstance(values, ListOf | MapOf):
            element = values.element if isinstance(values, ListOf) else values.key
            if not comparable(needle, element):
                self.add_fault(node, f"{_with_article(needle)} is never in a {values}")
        elif values != DYN:
            self.add_fault(node, f"'in' needs a list or map, this is {_with_article(values)}")
        return BOOL

    def host_call(self, node: FunctionCall, scope: Mapping[str, Type]) -> Type:
        """The result type of a host function; a fault if the arguments do not fit its parameters."""
        function = self.environment.functions[node.function]
        argument_types = [self.find_type(argument, scope) for argument in node.args]
        parameters = function.parameters
        if len(argument_types) != len(parameters) or not all(map(fits, argument_types, parameters)):
            self.add_misuse_fault(node, tuple(argument_types), [parameters])
        return function.result

    def type_of_call(
        self, node: FunctionCall, overloads: tuple[Overload, ...] | None, scope: Mapping[str, Type]
    ) -> Type:
        """Return the type of the result of a call, and record which of the `overloads` it uses.

        If the type of an argument is only known at run time (dyn), no overload is recorded: the values decide then.
        """
        argument_types = tuple(self.find_type(part, scope) for part in parts(node))
        if overloads is None:
            return self.add_unknown_function_fault(node)
        candidates = [overload for overload in overloads if overload.takes(argument_types)]
        if not candidates:
            return self.add_misuse_fault(node, argument_types, [overload.parameters for overload in overloads])
        self.check_arguments(node, candidates[0], argument_types)
        # An overload for dyn takes every value, so that nothing is left to decide at run time.
        if DYN not in argument_types or candidates[0].parameters == (DYN,):
            self.overloads[id(node)] = candidates[0]
            return candidates[0].result_for(argument_types)
        first_result, *other_results = [candidate.result_for(argument_types) for candidate in candidates]
        has_one_result = all(result == first_result for result in other_results)
        return first_result if has_one_result else DYN

    def check_arguments(self, node: FunctionCall, overload: Overload, argument_types: tuple[Type, ...]) -> None:
        """Validate the constant arguments of a call, and warn of integer division."""
        for position, part in enumerate(parts(node)):
            validate = overload.validators.get(position)
            if validate and isinstance(part, Constant):
                self.validate(part, validate)
        if node.function == "/" and argument_types == (INT, INT):
            self.warn(node, "dividing integers drops the fraction; make one a decimal, as in 2.0", "integer-division")

    def validate(self, part: Constant, validate: Any) -> None:
        """Add a fault if `validate` refuses the value of a constant argument."""
        try:
            validate(part.value)
        except EvaluationError as error:
            self.add_fault(part, error.message, "argument")
        except ArithmeticError:
            self.add_fault(part, "the number is too large", "argument")

    def add_unknown_function_fault(self, node: FunctionCall) -> Type:
        """Add a fault that suggests a similar name, or to call a method instead of a function, or vice versa."""
        name, is_method = node.function, node.target is not None
        all_functions = {**FUNCTIONS, **self.environment.functions}
        same_form, other_form = (METHODS, FUNCTIONS) if is_method else (all_functions, METHODS)
        kind = "method" if is_method else "function"
        if name in other_form:
            hint = f"; write {name}(...)" if is_method else f"; write it after a dot: x.{name}(...)"
        else:
            hint = _suggest_name(name, same_form)
        return self.add_fault(node, f"unknown {kind} '{name}'{hint}", "unknown-function")

    def add_misuse_fault(
        self, node: FunctionCall, argument_types: tuple[Type, ...], allowed_types: Iterable[tuple[Type, ...]]
    ) -> Type:
        """Add a fault for a call with arguments of the wrong number or types."""
        signature = ", ".join(map(str, argument_types))
        if is_operator(node):
            return self.add_fault(node, f"'{node.function}' cannot be used on ({signature})")
        signatures = " or ".join(sorted({"(" + ", ".join(map(str, kinds)) + ")" for kinds in allowed_types}))
        receiver_note = " (the value before the dot comes first)" if node.target is not None else ""
        return self.add_fault(node, f"{node.function}() takes {signatures}{receiver_note}, not ({signature})")


def is_plain(kind: Type) -> bool:
    """True if values of the type have no parts and the type is known for certain."""
    return isinstance(kind, Scalar) and kind not in (DYN, NULL, TYPE)
