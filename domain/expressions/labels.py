"""Expressions as sentences for people: "order total is at least 50"."""

from collections.abc import Mapping
from typing import Any

from domain.expressions.check import Analysis, check
from domain.expressions.environment import Environment
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
    parts_with_precedence,
    precedence_of,
)
from domain.expressions.types import STRING, TIMESTAMP, ListOf, ObjectOf

Scope = Mapping[str, str]
"""The variables of the macros around a node, each with its text in sentences.

The text is the name, or "" for the variable of the innermost macro, which sentences omit.
"""

_SIGNS = {
    "==": "{0} is {1}",
    "!=": "{0} is not {1}",
    "<": "{0} is less than {1}",
    "<=": "{0} is at most {1}",
    ">": "{0} is more than {1}",
    ">=": "{0} is at least {1}",
    "+": "{0} + {1}",
    "-": "{0} − {1}",
    "*": "{0} × {1}",
    "/": "{0} ÷ {1}",
    "%": "{0} modulo {1}",
    "?:": "{1} if {0}, otherwise {2}",
}
_TIMES = {
    "<": "{0} is before {1}",
    "<=": "{0} is at or before {1}",
    ">": "{0} is after {1}",
    ">=": "{0} is at or after {1}",
}
# The phrases of functions and methods, one for each number of operands; `{0}` of a method is its receiver.
_CALLS = {
    "round": ("{0} rounded", "{0} rounded to {1} decimals"),
    "floor": ("{0} rounded down",),
    "ceil": ("{0} rounded up",),
    "abs": ("absolute value of {0}",),
    "int": ("{0} as a whole number",),
    "decimal": ("{0} as a number",),
    "double": ("{0} as a number",),
    "string": ("{0} as a text",),
    "bool": ("{0} as true or false",),
    "timestamp": ("{0} as a time",),
    "duration": ("{0} as a duration",),
    "dyn": ("{0}",),
    "type": ("type of {0}",),
    "size": ("number of {0}",),
}
_METHODS = {
    "size": ("number of {0}",),
    "sum": ("sum of {0}",),
    "min": ("least of {0}",),
    "max": ("greatest of {0}",),
    "contains": ("{0} contains {1}",),
    "startsWith": ("{0} starts with {1}",),
    "endsWith": ("{0} ends with {1}",),
    "matches": ("{0} matches the pattern {1}",),
    "lowerAscii": ("{0} in lower case",),
    "upperAscii": ("{0} in upper case",),
    "trim": ("{0} without spaces around",),
    "join": ("{0} joined", "{0} joined by {1}"),
    "split": ("{0} split at {1}", "{0} split at {1} into at most {2}"),
    "replace": ("{0} with {1} replaced by {2}", "{0} with {1} replaced by {2} up to {3} times"),
    "charAt": ("character {1} of {0}",),
    "substring": ("{0} from character {1}", "{0} from character {1} to {2}"),
    "indexOf": ("place of {1} in {0}", "place of {1} in {0} from {2}"),
    "lastIndexOf": ("last place of {1} in {0}", "last place of {1} in {0} before {2}"),
    "getFullYear": ("year of {0}", "year of {0} in {1}"),
    "getMonth": ("month (January is 0) of {0}", "month (January is 0) of {0} in {1}"),
    "getDate": ("day of the month of {0}", "day of the month of {0} in {1}"),
    "getDayOfMonth": ("day of the month (from 0) of {0}", "day of the month (from 0) of {0} in {1}"),
    "getDayOfWeek": ("day of the week (Sunday is 0) of {0}", "day of the week (Sunday is 0) of {0} in {1}"),
    "getDayOfYear": ("day of the year (from 0) of {0}", "day of the year (from 0) of {0} in {1}"),
    "getHours": ("hours of {0}", "hours of {0} in {1}"),
    "getMinutes": ("minutes of {0}", "minutes of {0} in {1}"),
    "getSeconds": ("seconds of {0}", "seconds of {0} in {1}"),
    "getMilliseconds": ("milliseconds of {0}", "milliseconds of {0} in {1}"),
    "addDays": ("{1} days after {0}", "{1} days after {0} in {2}"),
    "addMonths": ("{1} months after {0}", "{1} months after {0} in {2}"),
    "addYears": ("{1} years after {0}", "{1} years after {0} in {2}"),
    "startOf": ("the start of the {1} of {0}", "the start of the {1} of {0} in {2}"),
    "endOf": ("the end of the {1} of {0}", "the end of the {1} of {0} in {2}"),
}
_EXTREMES = {"min": "the least of ", "max": "the greatest of "}
_FUNCTIONS_OF_UNITS = frozenset({"startOf", "endOf"})
_ARITHMETIC = frozenset("+-*/%")
_NEGATED = {
    "contains": "{0} does not contain {1}",
    "startsWith": "{0} does not start with {1}",
    "endsWith": "{0} does not end with {1}",
    "matches": "{0} does not match the pattern {1}",
}
_QUANTIFIED = {
    "all": "each of {0} has ({1})",
    "exists": "at least one of {0} has ({1})",
    "exists_one": "exactly one of {0} has ({1})",
    "filter": "{0} with ({1})",
}


def label(
    node: Node, environment: Environment, analysis: Analysis | None = None, variables: tuple[str, ...] = ()
) -> str:
    """The expression as a sentence, in the words of the environment's labels.

    For a part of an expression, `analysis` is that of the whole expression, and `variables` are the variables of the
    macros around the part, the innermost last.
    """
    scope = {name: "" if name == variables[-1] else name for name in variables}
    return _Labeller(environment, analysis or check(node, environment)).text(node, scope)


class _Labeller:
    """Writes the nodes of one expression as phrases; `analysis` has the types of the nodes."""

    def __init__(self, environment: Environment, analysis: Analysis) -> None:
        self.environment = environment
        self.analysis = analysis

    def text(self, node: Node, scope: Scope) -> str:
        """The phrase of a node."""
        match node:
            case Constant(type="null"):
                return "nothing"
            case Constant(type="string", value=value):
                return f'"{value}"'
            case Constant(text=text):
                return text
            case Identifier() | Select():
                return self.path(node, scope)
            case ListLiteral(items=items):
                return "[" + ", ".join(self.text(item, scope) for item in items) + "]"
            case MapLiteral(entries=entries):
                pairs = (f"{self.text(key, scope)}: {self.text(value, scope)}" for key, value in entries)
                return "{" + ", ".join(pairs) + "}"
            case Macro():
                return self.macro(node, scope)
            case FunctionCall():
                return self.call(node, scope)
        raise TypeError(f"{node!r} is not a node of an expression")

    def path(self, node: Node, scope: Scope) -> str:
        """A variable or field: the environment's label for the whole path if it has one, else the words of parts."""
        path_label = self.environment.labels.get(_path_text(node))
        if path_label is not None and _root(node) not in scope:
            return path_label
        if isinstance(node, Identifier):
            return scope.get(node.name, node.name) or "it"
        assert isinstance(node, Select)
        target, kind = node.target, self.analysis.type_of(node.target)
        word = kind.fields[node.field].label if isinstance(kind, ObjectOf) and node.field in kind.fields else node.field
        if isinstance(target, Identifier) and scope.get(target.name) == "":
            return word
        return f"{self.text_of_operand(target, scope, is_followed=True)} {word}".strip()

    def text_of_operand(self, node: Node, scope: Scope, *, is_followed: bool = False) -> str:
        """The text of an operand in a phrase: in parentheses if the operand is an operation, except a subscript.

        An operand that `is_followed` by words of the phrase is also in parentheses if people would take them for its
        own.
        """
        text = self.text(node, scope)
        is_operation = isinstance(node, FunctionCall) and is_operator(node) and node.function != "[]"
        return f"({text})" if is_operation or (is_followed and self.ends_with_operand(node)) else text

    def ends_with_operand(self, node: Node) -> bool:
        """True if a function, macro or element ends with an operand: what follows could be taken for a part of that."""
        if isinstance(node, Macro):
            return node.function == "map"
        if not isinstance(node, FunctionCall):
            return False
        if is_operator(node):
            return node.function == "[]" and self.is_element(node)
        if node.function == "dyn" and node.target is None and node.args:
            return self.ends_with_operand(node.args[0])
        return not _is_moment(node) and self.template(node).endswith("}")

    def is_element(self, node: FunctionCall) -> bool:
        """True for an element of a list at a constant place."""
        values, index = node.args
        return isinstance(index, Constant) and isinstance(self.analysis.type_of(values), ListOf)

    def texts_of_operands(self, node: FunctionCall, scope: Scope) -> list[str]:
        """The text of each operand of a call, in parentheses if the tree needs them or people would misread it."""
        if not is_operator(node):
            template = self.template(node)
            # In "the least of a and b of c" people would misread even the last operand.
            is_enumeration = node.target is None and node.function in _EXTREMES
            return [
                self.text_of_operand(operand, scope, is_followed=is_enumeration or not template.endswith(f"{{{i}}}"))
                for i, operand in enumerate(parts(node))
            ]
        # People would misread "a or b and c": chains inside chains are always in parentheses.
        is_chain, is_arithmetic = node.function in CHAINS, node.function in _ARITHMETIC
        result = []
        for operand, min_precedence in parts_with_precedence(node):
            needs_parentheses = precedence_of(operand) < min_precedence or (is_chain and _is_chain(operand))
            is_enclosed = is_operator(operand) and needs_parentheses
            text = self.text(operand, scope)
            result.append(f"({text})" if is_enclosed or (is_arithmetic and self.ends_with_operand(operand)) else text)
        return result

    def call(self, node: FunctionCall, scope: Scope) -> str:
        """The phrase of an operator or a function."""
        name, args = node.function, node.args
        if node.target is None:
            if name in CHAINS:
                return {"&&": " and ", "||": " or "}[name].join(self.texts_of_operands(node, scope))
            if name == "!":
                return self.negation(args[0], scope)
            if name == "has":
                return f"{self.text(args[0], scope)} is set"
            if name in ("==", "!="):
                return self.equality(node, scope)
            if name == "in":
                return self.containment(node, scope, positive=True)
            if name == "[]":
                return self.element(node, scope)
            if name == "-" and len(args) == 1:
                return f"−{self.texts_of_operands(node, scope)[0]}"
        return self.phrase(node, scope)

    def phrase(self, node: FunctionCall, scope: Scope) -> str:
        """The template of a function or operator, filled with the operands."""
        name, values = node.function, self.texts_of_operands(node, scope)
        if is_operator(node):
            compares_times = name in _TIMES and self.analysis.type_of(node.args[0]) == TIMESTAMP
            return (_TIMES if compares_times else _SIGNS)[name].format(*values)
        if _is_moment(node):
            return str(node.args[0].value)  # type: ignore[attr-defined]
        takes_unit = node.target is not None and name in _FUNCTIONS_OF_UNITS and bool(node.args)
        if takes_unit and isinstance(node.args[0], Constant):
            # The target is value 0, the unit is value 1, such as `month`, which is written without quotes.
            values[1] = str(node.args[0].value)
        return self.template(node).format(*values)

    def template(self, node: FunctionCall) -> str:
        """The text for a function, with a placeholder for each operand, such as `length of {0}`.

        A function that has no such text is written as a call: `name({0}, {1})`, or `{0}.name({1})` for a method.
        """
        name, placeholders = node.function, [f"{{{i}}}" for i, _ in enumerate(parts(node))]
        if node.target is None and name in _EXTREMES:
            return _EXTREMES[name] + " and ".join(placeholders)
        if name == "size" and len(placeholders) == 1 and self.analysis.type_of(next(parts(node))) == STRING:
            return "length of {0}"
        if node.target is not None:
            templates = _METHODS.get(name, ())
        elif name in self.environment.functions:
            # A function that the product adds to the language has its text with it.
            templates = (self.environment.functions[name].label,)
        else:
            templates = _CALLS.get(name, ())
        for template in templates:
            # The template for this number of operands has a placeholder for the last operand, and none after it.
            if placeholders and placeholders[-1] in template and f"{{{len(placeholders)}}}" not in template:
                return template
        arguments = ", ".join(placeholders if node.target is None else placeholders[1:])
        return f"{name}({arguments})" if node.target is None else f"{{0}}.{name}({arguments})"

    def equality(self, node: FunctionCall, scope: Scope) -> str:
        """The phrase of `==` or `!=`; a comparison with null is "is set" or "is not set"."""
        left, right = node.args
        for side, other in ((left, right), (right, left)):
            if isinstance(side, Constant) and side.value is None:
                return f"{self.text_of_operand(other, scope)} is {'not set' if node.function == '==' else 'set'}"
        return self.phrase(node, scope)

    def containment(self, node: FunctionCall, scope: Scope, *, positive: bool) -> str:
        """The phrase of the operator `in`, or of its negation if not `positive`."""
        needle, values = (self.text_of_operand(argument, scope) for argument in node.args)
        values_node = node.args[1]
        if isinstance(values_node, ListLiteral):
            items = ", ".join(self.text(item, scope) for item in values_node.items)
            return f"{needle} is {'' if positive else 'not '}one of {items or 'nothing'}"
        return f"{values} {'contains' if positive else 'does not contain'} {needle}"

    def negation(self, node: Node, scope: Scope) -> str:
        """The phrase of `!` before the node: words such as "none of", or else "not"."""
        if isinstance(node, Macro) and node.function == "exists":
            return self.text_of_quantifier(node, scope, "none of {0} has ({1})")
        if isinstance(node, FunctionCall):
            if node.target is not None and node.function in _NEGATED and len(node.args) == 1:
                return _NEGATED[node.function].format(*self.texts_of_operands(node, scope))
            if node.target is None and node.function == "in":
                return self.containment(node, scope, positive=False)
            if node.target is None and node.function == "has":
                return f"{self.text(node.args[0], scope)} is not set"
        return f"not {self.text_of_operand(node, scope)}"

    def element(self, node: FunctionCall, scope: Scope) -> str:
        """The phrase of a subscript: the place in a list, or the key of a map."""
        values, index = node.args
        if self.is_element(node) and isinstance(index, Constant) and not isinstance(index.value, str):
            return f"element {index.value} of {self.text_of_operand(values, scope)}, counted from 0"
        text = self.text_of_operand(values, scope, is_followed=True)
        if isinstance(index, Constant) and isinstance(index.value, str):
            return f"{text} {index.value}"
        return f"{text} [{self.text(index, scope)}]"

    def macro(self, node: Macro, scope: Scope) -> str:
        """The phrase of a macro."""
        if node.function != "map":
            return self.text_of_quantifier(node, scope, _QUANTIFIED[node.function])
        inner = self.inside(node, scope)
        values = self.text_of_operand(node.target, scope)
        if node.condition is not None:
            values = f"{values} with ({self.text(node.condition, inner)})"
        return f"{self.text_of_operand(node.body, inner)} of each of {values}"

    def text_of_quantifier(self, node: Macro, scope: Scope, template: str) -> str:
        """The template, filled with the target and the body of the macro."""
        return template.format(self.text_of_operand(node.target, scope), self.text(node.body, self.inside(node, scope)))

    def inside(self, node: Macro, scope: Scope) -> Scope:
        """The scope inside a macro: sentences omit the macro's own variable, and name the outer variables."""
        return {**{name: name for name in scope}, node.variable: ""}


def _is_chain(node: Node) -> bool:
    return isinstance(node, FunctionCall) and node.target is None and node.function in CHAINS


def _is_moment(node: FunctionCall) -> bool:
    """True for a time or duration that is written as a constant, such as `duration("1h")`."""
    is_conversion = node.target is None and node.function in ("timestamp", "duration")
    return is_conversion and bool(node.args) and isinstance(node.args[0], Constant)


def _path_text(node: Node) -> str:
    """The text of a path such as `order.total`; empty for other nodes."""
    if isinstance(node, Identifier):
        return node.name
    if isinstance(node, Select):
        target = _path_text(node.target)
        return f"{target}.{node.field}" if target else ""
    return ""


def _root(node: Any) -> str:
    """The variable with which a path begins; empty for other nodes."""
    while isinstance(node, Select):
        node = node.target
    return node.name if isinstance(node, Identifier) else ""
