"""Runs the official CEL tests against the expressions of this project, and classifies the deviations.

A test counts as passed only if the value is the one expected (and the type, where the test names one), or if an error
is expected and the expression fails for a reason of its own: an expression refused because it uses something this
language leaves out counts as failed even where CEL expects an error.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from functools import cache
from typing import Any

from domain.expressions import (
    BOOL,
    DECIMAL,
    DURATION,
    DYN,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Environment,
    EvaluationError,
    ExpressionError,
    ListOf,
    MapOf,
    Type,
    TypeValue,
    check,
    compile_expression,
    parse,
)
from tests.cel_data import Case, cases

_PRIMITIVES = {"INT64": INT, "DOUBLE": DECIMAL, "STRING": STRING, "BOOL": BOOL}
_MESSAGES = {"google.protobuf.Duration": DURATION, "google.protobuf.Timestamp": TIMESTAMP}
_TYPE_NAMES = {"double": "decimal", "google.protobuf.Timestamp": "timestamp", "google.protobuf.Duration": "duration"}

LEFT_OUT: dict[str, tuple[str, str]] = {
    "messages": (
        "protobuf messages, enumerations and wrappers",
        r"[A-Z]\w*\s*\{|proto[23]|google\.protobuf|TestAll|GlobalEnum|NullValue|proto\.(has|get)Ext|\bmsg\b|enum",
    ),
    "optionals": ("optional values, fields and entries (`?.`, `optional.of`)", r"optional\b|\.\?|\[\?|\{\?|, ?\?"),
    "uint": ("unsigned integers", r"\d[uU]\b|\buint\b|UINT"),
    "bytes": ("byte strings", r"\bbytes\b|BYTES|(?<!\w)[rR]?[bB][rR]?['\"]"),
    "macros": (
        "macros of two variables, `existsOne`, `transformList`, `transformMap`",
        r"(all|exists)\(\w+, ?\w+,|existsOne|transform",
    ),
    "libraries": (
        "the libraries `math`, `cel.bind`, `cel.block`, `base64`, `sets`, and `format`, `quote`, `reverse` of strings",
        r"\bmath\.|\bcel\.|base64|strings\.|\.format\(|\bsets\b|\.reverse\(|\btuple\(|\bset\(|\bsort\(|\bfn\b|fn_",
    ),
    "names": ("names with dots, found by way of a container", r"'name': '\w+\.|[( ]\.\w"),
    "doubles": (
        "what only binary floating point has: NaN, infinities, division by 0.0, no remainder, rounding to 53 bits",
        r"NaN|Inf|/ ?-?0\.0|\de\+?-?3\d\d|9223372036854775(807|808|809)\.0|double\(\d{16,}|\.\d+ % |/ 0\.0",
    ),
    "nanoseconds": ("times finer than a microsecond", r"\dns'|\.\d{7,9}Z'\)\)"),
    "U+0000": ("the character U+0000", r"\\(0{3}|[xX]00|u0000|U0{8}) "),
}
"""The parts of CEL that this language lacks or changes: each in words, and as a pattern that finds tests with it."""

CHECKED = "checked"
CHECKED_IN_WORDS = "tests that switch the type check off: here every expression is checked before it runs"
EMPTY_LISTS = "empty lists"
EMPTY_LISTS_IN_WORDS = "the type deduced for empty lists inside lists: here their elements are `dyn`"
OTHER = "other"


@dataclass(frozen=True)
class Outcome:
    """The result of one test; `detail` explains a failure."""

    case: Case
    passed: bool
    detail: str = ""

    @property
    def category(self) -> str:
        """The omitted part of CEL that the test uses, or another known reason for a deviation, or OTHER."""
        original = self.case.original
        container = original.get("container", "")
        if "protobuf" in container or "conformance" in container or "google" in container:
            return "messages"
        text = " ".join((self.case.text, str(original.get("typeEnv", "")), self.case.section))
        for name, (_, pattern) in LEFT_OUT.items():
            if re.search(pattern, text):
                return name
        if original.get("disableCheck") or self.case.name.endswith("null_lt_right_no_such_overload"):
            return CHECKED
        return EMPTY_LISTS if original.get("checkOnly") and "[]" in self.case.text else OTHER


class _Unsupported(Exception):
    """The test needs a type that this language leaves out."""


def _type(encoded_type: Mapping[str, Any]) -> Type:
    kind, value = next(iter(encoded_type.items()))
    if kind == "primitive" and value in _PRIMITIVES:
        return _PRIMITIVES[value]
    if kind == "wellKnown" and value in ("DURATION", "TIMESTAMP"):
        return DURATION if value == "DURATION" else TIMESTAMP
    if kind == "messageType" and value in _MESSAGES:
        return _MESSAGES[value]
    if kind == "listType":
        return ListOf(_type(value.get("elemType", {"dyn": {}})))
    if kind == "mapType":
        return MapOf(_type(value["valueType"]), _type(value["keyType"]))
    if kind in ("dyn", "null"):
        return DYN if kind == "dyn" else NULL
    raise _Unsupported(str(encoded_type))


def _value(encoded_value: Mapping[str, Any]) -> Any:
    kind, value = next(iter(encoded_value.items()))
    match kind:
        case "int64Value":
            return int(value)
        case "doubleValue" if value not in ("NaN", "Infinity", "-Infinity"):
            return Decimal(str(value))
        case "stringValue" | "boolValue" | "nullValue":
            return value
        case "listValue":
            return [_value(item) for item in value.get("values", [])]
        case "mapValue":
            return {_value(entry["key"]): _value(entry["value"]) for entry in value.get("entries", [])}
        case "typeValue":
            return TypeValue(_TYPE_NAMES.get(value, value))
        case "objectValue" if value["@type"].endswith("google.protobuf.Duration"):
            return timedelta(seconds=float(value["value"].rstrip("s")))
    raise _Unsupported(str(encoded_value)[:80])


def _agree(value: Any, expected_value: Any) -> bool:
    """True if a value has the type and the content that a test expects."""
    if isinstance(expected_value, TypeValue):
        return isinstance(value, TypeValue) and value.name == expected_value.name
    if isinstance(expected_value, list):
        return isinstance(value, list) and len(value) == len(expected_value) and all(map(_agree, value, expected_value))
    if isinstance(expected_value, dict):
        return (
            isinstance(value, dict)
            and value.keys() == expected_value.keys()
            and all(_agree(value[key], expected_value[key]) for key in value)
        )
    if isinstance(expected_value, Decimal):
        return isinstance(value, Decimal) and value == expected_value
    return type(value) is type(expected_value) and value == expected_value


def _environment(case: Case) -> Environment:
    variables = {}
    for entry in case.original.get("typeEnv", []):
        if "ident" not in entry or "." in entry["name"]:
            raise _Unsupported("a qualified name or a function of the test")
        variables[entry["name"]] = _type(entry["ident"]["type"])
    return Environment(variables)


def run(case: Case) -> Outcome:
    """Evaluate one conformance test; return its outcome."""
    original = case.original
    expects_error = "evalError" in original
    try:
        environment = _environment(case)
        context = {name: _value(bound["value"]) for name, bound in original.get("bindings", {}).items()}
        program = compile_expression(parse(case.text), environment)
        typed = original.get("typedResult")
        if typed and "deducedType" in typed and program.type != _type(typed["deducedType"]):
            return Outcome(case, False, f"type {program.type}")
        if original.get("checkOnly"):
            return Outcome(case, True)
        value = program.run(context)
        expected_value = _value(typed["result"] if typed else original.get("value", {"boolValue": True}))
    except _Unsupported as reason:
        return Outcome(case, False, f"not run: {reason}")
    except ExpressionError as error:
        allowed_codes = {"type", "argument", "literal"} | ({"unknown-variable", "unknown-function"} & {_unknown(case)})
        codes = {fault.code for fault in error.faults}
        return Outcome(case, expects_error and codes <= allowed_codes, f"refused: {error}")
    except EvaluationError as error:
        return Outcome(case, expects_error, f"error: {error}")
    if expects_error:
        return Outcome(case, False, f"value {value!r}, an error was expected")
    return Outcome(case, _agree(value, expected_value), f"value {value!r}, expected {expected_value!r}")


def _unknown(case: Case) -> str:
    """The fault code that a test of an unknown name expects; empty for other tests."""
    return {"x": "unknown-variable", "f_unknown(17)": "unknown-function"}.get(case.text, "")


@cache
def outcomes() -> tuple[Outcome, ...]:
    """All conformance tests, run."""
    return tuple(run(case) for case in cases("conformance"))


def syntax_agrees(case: Case) -> bool:
    """True if the parser accepts a text exactly if the official parser accepts it."""
    try:
        parse(case.text)
    except ExpressionError:
        return "ast" not in case.data
    return "ast" in case.data


def _cel_name(kind: Type) -> str:
    if isinstance(kind, ListOf):
        return f"list({_cel_name(kind.element)})"
    if isinstance(kind, MapOf):
        return f"map({_cel_name(kind.key)}, {_cel_name(kind.value)})"
    return "double" if kind == DECIMAL else str(kind)


def types_agree(case: Case) -> bool | None:
    """True if the checker finds the official type; None if this language refuses the expression."""
    try:
        result = check(parse(case.text), _environment(case))
    except (_Unsupported, ExpressionError):
        return None
    return None if result.faults else _cel_name(result.type) == case.data["type"]
