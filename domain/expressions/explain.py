"""Explanations of the value of an expression."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

from domain.expressions.check import check
from domain.expressions.environment import Environment, Functions
from domain.expressions.errors import EvaluationError, ExpressionError
from domain.expressions.interpret import Interpreter, Scope
from domain.expressions.labels import label
from domain.expressions.numbers import DECIMALS
from domain.expressions.program import NO_FUNCTIONS, to_text
from domain.expressions.runtime import Budget, TypeValue, name_of
from domain.expressions.times import duration_to_text, timestamp_to_text
from domain.expressions.tree import Constant, FunctionCall, Identifier, ListLiteral, Macro, Node, Select, is_operator
from domain.expressions.types import Type

Trace = dict[str, Any]
"""JSON in which numbers may be Decimal: `expression`, `labelledExpression`, `at`, `value` or `error` {code, message,
at}, and where there are any `operator` (the sign or macro), `children` (the parts that were evaluated) and `elements`
(the first ten passes of a macro, each with its `element`)."""

MAX_CHARACTERS = 250_000
"""Maximum number of characters of all explanations of an event; then parts are omitted, and values shown as "…"."""

# The maximum number of traces of parts in macros, and of traced passes of a macro.
MAX_TRACES = 1_000
MAX_ELEMENTS = 10
# The size of a value in a trace: items of a list or map, characters of a text, and levels.
_SHOWN_ITEMS = 10
_SHOWN_TEXT = 200
_SHOWN_DEPTH = 4
# The number of characters that a value other than a text is estimated to need.
_CHARACTERS_OF_OTHER_VALUE = 10
# How many values a sentence names, and how many characters of each value it contains.
_SENTENCE_VALUES = 3
_SENTENCE_TEXT = 60


class CharacterBudget:
    """The number of characters that one or several explanations may still use."""

    __slots__ = ("remaining",)

    def __init__(self, characters: int = MAX_CHARACTERS) -> None:
        self.remaining = characters

    def take(self, characters: int) -> None:
        """Subtract characters that were used."""
        self.remaining -= characters


def explain(
    node: Node,
    environment: Environment,
    context: Mapping[str, Any],
    functions: Functions = NO_FUNCTIONS,
    budget: Budget | None = None,
    expected_type: Type | None = None,
    characters: CharacterBudget | None = None,
) -> Trace:
    """Evaluate the expression and report each part's value; `&&` and `||` show all operands, decided or not.

    Raises `ExpressionError` as `compile_expression` does; errors of the evaluation are part of the trace.
    """
    analysis = check(node, environment, expected_type)
    if analysis.faults:
        raise ExpressionError(analysis.faults)
    explainer = _Explainer(
        characters or CharacterBudget(), analysis, environment, context, budget or Budget(), functions
    )
    explainer.observe(node, {})
    return explainer.traces[0]


class _Explainer(Interpreter):
    """An interpreter that records the value of each part.

    `traces` collects the traces of the parts of the current node, `passes` the traces of the current macro's passes.
    While it is `silent`, nothing is recorded. `traces_in_loops` counts the traces of parts of macros.
    """

    exhaustive = True
    price = 1

    def __init__(self, characters: CharacterBudget, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.characters = characters
        self.traces: list[Trace] = []
        self.passes: list[Trace] = []
        self.silent = False
        self.loop_depth = 0
        self.traces_in_loops = 0
        self.texts: dict[int, tuple[str, str]] = {}

    def observe(self, node: Node, scope: Scope) -> None:
        """Evaluate only for the trace."""
        with suppress(EvaluationError):  # The error is recorded in the trace.
            self.value(node, scope)

    def value(self, node: Node, scope: Scope) -> Any:
        """Evaluate a part and append its trace; the traces of its own parts become `children` and `elements`.

        A path such as `order.total` has one trace: its parts are evaluated silently.
        """
        if self.silent or self.has_no_trace(node):
            return super().value(node, scope)
        if self.loop_depth > 0:
            self.traces_in_loops += 1
        trace = self.trace(node, scope)
        outer_traces, self.traces = self.traces, []
        outer_passes, self.passes = self.passes, []
        self.silent = _is_path(node)
        try:
            value = super().value(node, scope)
            trace["value"] = shorten(value, self.characters)
            return value
        except EvaluationError as error:
            trace["error"] = {"code": error.code, "message": error.message, "at": [error.start, error.end]}
            raise
        finally:
            self.silent = False
            if self.traces:
                trace["children"] = self.traces
            if self.passes:
                trace["elements"] = self.passes
            self.traces, self.passes = outer_traces, outer_passes
            self.traces.append(trace)

    def has_no_trace(self, node: Node) -> bool:
        """True for constants, which need no explanation, and for all parts once a limit of the trace is reached."""
        if node is self.analysis.node:
            return False
        is_limit_reached = self.characters.remaining <= 0 or (
            self.loop_depth > 0 and self.traces_in_loops >= MAX_TRACES
        )
        return is_limit_reached or isinstance(node, Constant) or _is_constant_list(node)

    def trace(self, node: Node, scope: Scope) -> Trace:
        """A new trace of the node, without its value."""
        texts = self.texts.get(id(node))
        if texts is None:
            texts = to_text(node), label(node, self.environment, self.analysis, tuple(scope))
            self.texts[id(node)] = texts
        expression, labelled = texts
        self.characters.take(len(expression) + len(labelled))
        trace: Trace = {"expression": expression, "labelledExpression": labelled, "at": [node.start, node.end]}
        if isinstance(node, Macro) or (isinstance(node, FunctionCall) and is_operator(node)):
            trace["operator"] = node.function
        return trace

    def element(self, part: Node, scope: Scope, variable: str) -> Any:
        """Evaluate a part of a macro for one element, and add its traces to `passes`.

        Once `passes` has MAX_ELEMENTS traces, further elements leave no traces.
        """
        if self.silent:
            return super().element(part, scope, variable)
        outer_traces, self.traces = self.traces, []
        self.silent = len(self.passes) >= MAX_ELEMENTS
        self.loop_depth += 1
        try:
            return super().element(part, scope, variable)
        finally:
            self.loop_depth -= 1
            self.silent = False
            self.passes.extend(trace | {"element": shorten(scope[variable], self.characters)} for trace in self.traces)
            self.traces = outer_traces


def shorten(value: Any, characters: CharacterBudget | None = None, depth: int = 0) -> Any:
    """A value of bounded size: times and durations as texts, decimals unchanged, long lists and texts cut with "…"."""
    characters = characters or CharacterBudget()
    if characters.remaining <= 0:
        return "…"
    characters.take(min(len(value), _SHOWN_TEXT) if isinstance(value, str) else _CHARACTERS_OF_OTHER_VALUE)
    if isinstance(value, str):
        return value if len(value) <= _SHOWN_TEXT else value[:_SHOWN_TEXT] + "…"
    if isinstance(value, datetime):
        return timestamp_to_text(value) if value.tzinfo else value.isoformat()
    if isinstance(value, timedelta):
        return duration_to_text(value)
    if isinstance(value, list):
        if depth >= _SHOWN_DEPTH:
            return "…"
        items = [shorten(item, characters, depth + 1) for item in value[:_SHOWN_ITEMS]]
        return items if len(value) <= _SHOWN_ITEMS else [*items, "…"]
    if isinstance(value, dict):
        if depth >= _SHOWN_DEPTH:
            return "…"
        pairs = list(islice(value.items(), _SHOWN_ITEMS))
        fields = {str(key)[:_SHOWN_TEXT]: shorten(item, characters, depth + 1) for key, item in pairs}
        return fields if len(value) <= _SHOWN_ITEMS else fields | {"…": "…"}
    return value if value is None or isinstance(value, bool | Decimal) else _shorten_other(value)


def _shorten_other(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() <= 64:
        return value
    return repr(value)[:_SHOWN_TEXT] if isinstance(value, TypeValue) else f"({name_of(value)})"


def reason(trace: Trace) -> dict[str, Any] | None:
    """The reason why a condition did not hold: the first operand of its `&&` that is false, else the first that failed.

    Returns `code` (CONDITION_FALSE, CONDITION_ERROR or COST), `at`, `label` (a sentence), in `actual` the values that
    were read, and except for CONDITION_FALSE a `message`; None if the condition holds.
    """
    if trace.get("value") is True:
        return None
    culprit = trace
    while culprit.get("operator") == "&&":
        operands = culprit.get("children", [])
        false_operands = (child for child in operands if child.get("value") is False)
        failed_operands = (child for child in operands if child.get("value") is not True)
        operand = next(false_operands, None) or next(failed_operands, None)
        if operand is None:
            # The operand is a constant, or was omitted: it has no trace.
            break
        culprit = operand
    error = culprit.get("error") or trace.get("error")
    if culprit.get("value") is False:
        code, extra_fields = "CONDITION_FALSE", {}
    elif error is None:
        code, extra_fields = "CONDITION_ERROR", {"message": "neither true nor false"}
    else:
        code, extra_fields = "COST" if error["code"] == "cost" else "CONDITION_ERROR", {"message": error["message"]}
    return {
        "code": code,
        "at": culprit["at"],
        "label": _failed_sentence(culprit, extra_fields["message"]) if extra_fields else _false_sentence(culprit),
        "actual": list(islice(_values_read(culprit), _SHOWN_ITEMS)),
        **extra_fields,
    }


def _failed_sentence(trace: Trace, message: str) -> str:
    return f"cannot be evaluated: {trace['labelledExpression']} ({message})"


def _false_sentence(trace: Trace) -> str:
    """The sentence that a condition is false, with the first few values that it has read."""
    text = trace["labelledExpression"]
    values = {
        read["label"]: _in_words(read["value"])
        for read in _values_read(trace)
        if read["expression"] != trace["expression"]
    }
    words = [(name, value) for name, value in values.items() if value is not None][:_SENTENCE_VALUES]
    # The only value begins the sentence, and need not be named again.
    if len(words) == 1 and text.startswith(words[0][0]):
        words = [("it", words[0][1])]
    values_text = ", ".join(f"{name} is {value}" for name, value in words)
    return f"not true: {text} ({values_text})" if words else f"not true: {text}"


def _in_words(value: Any) -> str | None:
    """A value for a sentence; None for lists, objects and values that are omitted."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict) or value == "…":
        return None
    text = DECIMALS.to_sci_string(value) if isinstance(value, Decimal) else str(value)
    if len(text) > _SENTENCE_TEXT:
        return text[:_SENTENCE_TEXT] + "…"
    return text or '""'


def _values_read(trace: Trace) -> Iterator[dict[str, Any]]:
    """The values that a part has read: the leaves of its trace, without the iterations of macros."""
    children = trace.get("children", [])
    if not children and "value" in trace:
        yield {
            "expression": trace["expression"],
            "label": trace["labelledExpression"],
            "value": trace["value"],
        }
    for child in children:
        yield from _values_read(child)


def _is_path(node: Node) -> bool:
    """True if the node only reads: a variable, its fields, and elements at constant places."""
    if isinstance(node, Identifier):
        return True
    if isinstance(node, Select):
        return _is_path(node.target)
    if not isinstance(node, FunctionCall) or node.target is not None or node.function != "[]":
        return False
    target, index = node.args
    return _is_path(target) and isinstance(index, Constant)


def _is_constant_list(node: Node) -> bool:
    return isinstance(node, ListLiteral) and all(isinstance(item, Constant) for item in node.items)
