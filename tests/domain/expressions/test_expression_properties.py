"""Properties of all expressions, checked on random ones."""

# ruff: noqa: PT017 - whether a random input is refused is not known beforehand

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from domain.expressions import (
    Budget,
    EvaluationError,
    ExpressionError,
    Program,
    check,
    explain,
    from_tree,
    label,
    parse,
    reason,
    to_text,
    to_tree,
)
from domain.expressions.codegen import generate
from domain.expressions.environment import Environment
from domain.expressions.explain import shorten
from domain.expressions.runtime import TypeValue
from tests.domain.expressions.expression_cases import CONTEXT, ENVIRONMENT, FUNCTIONS

# Python has to compile the generated code without warnings.
pytestmark = pytest.mark.filterwarnings("error")

# Well-typed expressions, by the type of their value; at depth 0 only leaves.

LEAVES = {
    "int": [
        "count",
        "0",
        "1",
        "-7",
        "0x1F",
        "order.items[0].quantity",
        "order.items.size()",
        "payload.n",
        "now.getHours()",
    ],
    "decimal": [
        "order.total",
        "0.05",
        "-1.5",
        "1e3",
        "balances.points",
        "balances['stars']",
        "payload.d",
        "sponsor.total",
    ],
    "string": ["order.coupon", "'a'", '"web"', "r'x'", "order.items[1].code", "payload.s", "payload.nothing", "''"],
    "bool": [
        "true",
        "false",
        "order.paid",
        "order.items[0].gift",
        "payload.b",
        "has(order.coupon)",
        "has(sponsor.total)",
    ],
    "timestamp": ["now", "timestamp('2026-01-01T00:00:00Z')", "timestamp(0)"],
    "duration": ["age", "duration('90m')", "-age"],
    "ints": ["[]", "[1, 2, 3]", "order.items.map(i, i.quantity)", "[count, null]", "[0]", "payload.list"],
    "strings": ["order.tags", "['a', 'b']", "'a,b'.split(',')", "sponsor.tags"],
}
FORMS = {
    "int": [
        "({int} + {int})",
        "{int} - ({int})",
        "({int}) * ({int})",
        "({int}) / ({int})",
        "({int}) % ({int})",
        "({bool} ? {int} : {int})",
        "{ints}.size()",
        "{ints}.sum()",
        "min({int}, {int})",
        "abs({int})",
        "({ints})[{int}]",
        "int({decimal})",
        "({string}).indexOf({string})",
        "({timestamp}).getDayOfWeek('Asia/Kathmandu')",
        "{ints}.max()",
    ],
    "decimal": [
        "{decimal} + {int}",
        "({decimal}) - ({decimal})",
        "({decimal}) * ({decimal})",
        "({decimal}) / ({int})",
        "({bool} ? {decimal} : {int})",
        "round({decimal}, 2)",
        "floor({decimal})",
        "max({decimal}, {int})",
        "-({decimal})",
        "order.items.map(i, i.total * ({decimal})).sum()",
        "({decimal}) % ({decimal})",
    ],
    "string": [
        "({string}) + ({string})",
        "string({int})",
        "({string}).substring({int})",
        "({bool} ? {string} : {string})",
        "{strings}.join('-')",
        "({string}).upperAscii()",
        "({string}).replace({string}, 'z')",
        "string({duration})",
    ],
    "bool": [
        "{bool} && {bool}",
        "({bool} || {bool})",
        "!({bool})",
        "({int}) < ({decimal})",
        "({int}) == ({int})",
        "({string}) != ({string})",
        "({string}) in {strings}",
        "({int}) in {ints}",
        "({timestamp}) >= ({timestamp})",
        "{ints}.exists(x, {bool} || x == ({int}))",
        "{ints}.all(x, 1 / x < ({int}) && {bool})",
        "{ints}.exists_one(x, x > 1)",
        "order.items.exists(i, i.gift || i.quantity > ({int}))",
        "({string}).contains({string})",
        "({string}) == null",
        "({decimal}) == ({int})",
        "({duration}) < ({duration})",
        "dyn({int}) == dyn({string})",
        "{ints} == {ints}",
        "order.items.all(i, matches(i, {string}))",
        "({bool}) == ({bool})",
        "({string}).matches('[a-z]+')",
    ],
    "timestamp": ["({timestamp}) + ({duration})", "({timestamp}) - ({duration})"],
    "duration": ["({timestamp}) - ({timestamp})", "({duration}) + ({duration})"],
    "ints": [
        "({ints}) + ({ints})",
        "({ints}).filter(x, {bool})",
        "({ints}).map(x, x * ({int}))",
        "({ints}).map(x, {bool}, x)",
    ],
    "strings": ["({strings}) + ({strings})", "({strings}).filter(s, s != ({string}))", "({string}).split({string})"],
}


@st.composite
def expressions(draw: Any, kind: str | None = None, depth: int = 4) -> str:
    kind = kind or draw(st.sampled_from(sorted(FORMS)))
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(LEAVES[kind]))
    form = draw(st.sampled_from(FORMS[kind]))
    while "{" in form:
        start = form.index("{")
        end = form.index("}", start)
        form = form[:start] + draw(expressions(form[start + 1 : end], depth - 1)) + form[end + 1 :]
    return form


TOKENS = [
    "a",
    "order",
    "total",
    "count",
    ".",
    ",",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "?",
    ":",
    "&&",
    "||",
    "!",
    "-",
    "+",
    "*",
    "/",
    "==",
    "<=",
    "in",
    "1",
    "0x1f",
    "1.5",
    "1e9",
    "'x'",
    '"',
    "'''",
    "r'",
    "\\",
    "`b-c`",
    "true",
    "null",
    "if",
    "has(",
    ".map(x,",
    ".exists(i, ",
    " ",
    "\n",
    "//",
    "é",
    "\u2028",
    "7u",
    "b'",
    "payload",
    "[0]",
    "\0",
    "\ud800",
]
random_texts = st.lists(st.sampled_from(TOKENS), max_size=30).map("".join) | st.text(max_size=60)


def without_white_space(text: str) -> str:
    return text.replace(" ", "")


@given(expressions())
def test_the_text_of_a_parsed_text_differs_only_in_white_space(text):
    node = parse(text)
    printed_text = to_text(node)
    assert without_white_space(printed_text) == without_white_space(text)
    assert parse(printed_text) == node
    assert to_text(parse(printed_text)) == printed_text


@given(expressions())
def test_a_tree_that_is_written_as_json_is_read_back_unchanged(text):
    node = parse(text)
    tree = json.loads(json.dumps(to_tree(node)))
    assert from_tree(tree) == node
    assert to_tree(from_tree(tree)) == tree
    annotated_tree = json.loads(json.dumps(to_tree(node, check(node, ENVIRONMENT))))
    assert to_tree(from_tree(annotated_tree)) == tree


numbers = st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63)])
amounts = st.decimals(-1000, 1000, places=2) | st.sampled_from([Decimal("1e-40"), Decimal("1E+6000"), Decimal(0)])
texts = st.sampled_from(["", "a", "web", "a,b", "é😀", "coffee"])


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


items = st.fixed_dictionaries(
    {"code": maybe(texts), "total": maybe(amounts), "quantity": maybe(numbers), "gift": maybe(st.booleans())}
)
orders = st.fixed_dictionaries(
    {
        "total": maybe(amounts),
        "coupon": maybe(texts),
        "paid": maybe(st.booleans()),
        "tags": maybe(st.lists(texts, max_size=3)),
        "items": maybe(st.lists(items, max_size=3)),
    }
)
payload_values = st.recursive(
    st.none() | st.booleans() | numbers | amounts | texts, lambda inner: st.lists(inner, max_size=2), max_leaves=3
)
contexts = st.just(CONTEXT) | st.fixed_dictionaries(
    {
        "order": orders,
        "sponsor": maybe(orders),
        "balances": st.dictionaries(st.sampled_from(["points", "stars"]), amounts),
        "payload": st.dictionaries(st.sampled_from(["n", "d", "s", "b", "list"]), payload_values),
        "count": maybe(numbers),
        "now": maybe(st.datetimes(timezones=st.just(UTC)) | st.just(datetime.max.replace(tzinfo=UTC))),
        "age": maybe(st.timedeltas(timedelta(-400), timedelta(400))),
    }
)


def equal(left: Any, right: Any) -> bool:
    """True if the values are equal and of one type; an int may equal a decimal."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    same_kind = type(left) is type(right) or {type(left), type(right)} == {int, Decimal}
    return same_kind and left == right


@given(expressions(), contexts)
@settings(max_examples=2 * settings.default.max_examples)
def test_the_fast_and_the_strict_evaluation_agree(text, context):
    node = parse(text)
    analysis = check(node, ENVIRONMENT)
    # Some have faults, such as a literal out of range inside abs().
    assume(not analysis.faults)
    program = Program(analysis, ENVIRONMENT, None)
    try:
        fast_value = generate(analysis, ENVIRONMENT)(context, Budget(10**9), FUNCTIONS)
    except Exception:
        # The fast evaluation may fail; run() then returns the result of the strict one.
        try:
            strict_value = program.run_strictly(context, Budget(10**9), FUNCTIONS)
        except EvaluationError as error:
            assert 0 <= error.start < error.end <= len(text)
            return
        assert equal(program.run(context, Budget(10**9), FUNCTIONS), strict_value)
        return
    assert equal(fast_value, program.run_strictly(context, Budget(10**9), FUNCTIONS))


@given(expressions("bool"), contexts)
def test_an_explanation_agrees_with_the_run(text, context):
    node = parse(text)
    assume(not check(node, ENVIRONMENT).faults)
    trace = explain(node, ENVIRONMENT, context, FUNCTIONS)
    json.dumps(trace, allow_nan=False, default=Decimal.__str__)
    why = reason(trace)
    try:
        value = Program(check(node, ENVIRONMENT), ENVIRONMENT, None).run(context, functions=FUNCTIONS)
    except EvaluationError as error:
        assert trace["error"]["code"] == error.code
        assert why is not None
        assert why["code"] in ("CONDITION_ERROR", "COST")
        return
    assert trace["value"] == shorten(value)
    assert (why is None) == (value is True)


@given(random_texts)
def test_no_text_raises_another_error_than_an_expression_error_or_an_evaluation_error(text):
    try:
        node = parse(text)
    except ExpressionError as error:
        assert all(0 <= fault.start <= fault.end <= len(text) for fault in error.faults)
        return
    assert parse(to_text(node)) == node
    assert isinstance(label(node, ENVIRONMENT), str)
    analysis = check(node, ENVIRONMENT)
    if not analysis.faults:
        try:
            value = Program(analysis, ENVIRONMENT, None).run(CONTEXT, functions=FUNCTIONS)
        except EvaluationError:
            return
        assert value is None or isinstance(
            value, bool | int | Decimal | str | datetime | timedelta | list | dict | TypeValue
        )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def broken_trees(draw: Any) -> Any:
    """The tree of an expression, of which one field or element is replaced."""
    tree = to_tree(parse(draw(expressions(depth=2))))
    place: Any = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return tree
        key = draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and draw(st.booleans()):
            place = place[key]
            continue
        place[key] = draw(
            json_values | st.sampled_from(["-", "!", "?:", "[]", "in", "all", "1 + 1", {"kind": "list", "items": []}])
        )
        return tree


@given(broken_trees() | json_values)
def test_a_tree_is_refused_or_equals_its_text(tree):
    try:
        node = from_tree(tree)
    except ExpressionError as error:
        assert error.faults
        return
    assert parse(to_text(node)) == node
    assert from_tree(to_tree(node)) == node


@given(st.text(alphabet="abr\"'\\nx0u\n", max_size=25))
def test_a_string_of_any_characters_is_a_constant_of_a_tree(text):
    tree = {"kind": "constant", "type": "string", "value": text}
    node = from_tree(tree)
    assert to_tree(node) == tree
    assert Program(check(node, Environment({})), Environment({}), None).run({}) == text
