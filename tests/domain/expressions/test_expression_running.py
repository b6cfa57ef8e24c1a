"""The evaluation of expressions: values, errors and the budget."""

import decimal
import threading
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest

from domain.expressions import (
    BOOL,
    DECIMAL,
    DYN,
    STRING,
    Budget,
    CostExceeded,
    Environment,
    EvaluationError,
    check,
    compile_expression,
    parse,
)
from domain.expressions.functions import FUNCTIONS as FUNCTION_TABLE
from domain.expressions.functions import METHODS, OPERATORS
from tests.domain.expressions.expression_cases import CONTEXT, ENVIRONMENT, FUNCTIONS, failure, run

D = Decimal


@pytest.mark.parametrize(
    # The variables are those of CONTEXT: the order of a coffee for 10.05 and a tea for 74.25, without a coupon; the
    # count is 3, and there are 120 points. Of the payload, n is 7, d is 2.5, s is "text", b is true, and none is null.
    ("text", "value"),
    [
        ("0.1 + 0.2 == 0.3", True),
        ("order.total * 0.05", D("4.2150")),
        ("1 / 2", 0),
        ("-7 / 2", -3),
        ("-7 % 3", -1),
        ("7 / 2.0", D("3.5")),
        ("7.5 % 2", D("1.5")),
        ("1 + 2.5", D("3.5")),
        ("2.0 == 2", True),
        ("1 / 3.0", D("0.3333333333333333333333333333333333")),
        ("18446744073709.123456 + 0.000001", D("18446744073709.123457")),
        ("'a' + 'b'", "ab"),
        ("[1] + [2.5]", [1, D("2.5")]),
        ("1 in [1, 2]", True),
        ("1.0 in [1, 2]", True),
        ("'a' in {'a': 1}", True),
        ("'points' in balances", True),
        ("'web' in order.tags", True),
        ("null in [1, null]", True),
        ("1 == null || 'a' == null || null != null", False),
        ("true in {true: 1}", True),
        ("true in [1, 'a']", False),
        ("dyn(0) in {false: 1}", False),
        ("dyn(0) in {0: 1}", True),
        ("{'a': 1} == {'a': 2}", False),
        ("{'a': 1} == {'b': 1}", False),
        ("{'a': 1} == {'a': 1, 'b': 2}", False),
        ("{'a': 1, 'b': 2} == {'b': 2, 'a': 1}", True),
        ("true in [dyn(1), true]", True),
        ("timestamp(99999999999999) == now || true", True),
        ("dyn(1) in {true: 1}", False),
        ("dyn(true) in {1: 1}", False),
        ("dyn(true) == dyn(1)", False),
        ("[[1, 2]] == [[1.0, 2]]", True),
        ("{'a': [1]} == {'a': [1.0]}", True),
        ("[1, 2][1]", 2),
        ("{1: 'a'}[1]", "a"),
        ("balances['points']", D(120)),
        ("balances.points", D(120)),
        ("payload.list[1]", "two"),
        ("order.items[0].code", "coffee"),
        ("has(order.coupon)", False),
        ("has(order.total)", True),
        ("has(payload.s) && !has(payload.nothing) && !has(payload.none)", True),
        ("order.coupon == null", True),
        ("order.total != null", True),
        ("sponsor == null ? 'none' : sponsor.coupon", "none"),
        ("true ? 1 : 1 / 0", 1),
        ("order.items.exists(i, i.quantity > 1)", True),
        ("order.items.all(i, i.total > 50)", False),
        ("order.items.exists_one(i, i.code == 'tea')", True),
        ("order.items.filter(i, i.gift).map(i, i.code)", ["tea"]),
        ("order.items.map(i, i.gift, i.total)", [D("74.25")]),
        ("{'b': 1, 'a': 2}.map(k, k)", ["b", "a"]),
        ("order.items.map(i, i.total).sum()", D("84.30")),
        ("[1, 2].sum()", 3),
        ("[].sum()", 0),
        ("[1, 2.5].sum()", D("3.5")),
        ("order.items.map(i, order.items.map(j, i.quantity * j.quantity).sum()).sum()", 9),
        ("[3, 1.5, 2].min()", D("1.5")),
        ("['b', 'a'].max()", "b"),
        ("min(3, 1.5, 2)", D("1.5")),
        ("max(1, 2.5, 3.5)", D("3.5")),
        ("max(duration('1h'), duration('90m'))", timedelta(minutes=90)),
        ("round(2.5)", D(3)),
        ("round(-2.5)", D(-3)),
        ("round(2.345, 2)", D("2.35")),
        ("round(1234.5, -2)", D(1200)),
        ("floor(-1.5)", D(-2)),
        ("ceil(-1.5)", D(-1)),
        ("abs(-1.5)", D("1.5")),
        ("abs(-3)", 3),
        ("int(2.9)", 2),
        ("int('-12')", -12),
        ("int(timestamp('1970-01-02T00:00:00Z'))", 86400),
        ("decimal('1.50')", D("1.50")),
        ("double(2)", D(2)),
        ("bool('true')", True),
        ("string(1.50)", "1.50"),
        ("string(0.0000001)", "0.0000001"),
        ("string(true) + string(1) + string(null == null)", "true1true"),
        ("type(payload.n) == int && type(payload.d) == decimal && type(1.5) == double", True),
        ("type(payload.list) == list && type(payload) == map && type(type(1)) == type", True),
        ("size('é😀')", 2),
        ("order.tags.size() + size(payload)", 8),
        ("'abc'.contains('b') && 'abc'.startsWith('a') && 'abc'.endsWith('c')", True),
        ("'coffee-12'.matches('^[a-z]+-\\\\d+$')", True),
        ("'Ab'.lowerAscii() + 'Ab'.upperAscii()", "abAB"),
        ("'  a '.trim()", "a"),
        ("'a-b-c'.split('-')", ["a", "b", "c"]),
        ("'a-b-c'.split('-', 2)", ["a", "b-c"]),
        ("'abc'.split('')", ["a", "b", "c"]),
        ("'abc'.split('', 2)", ["a", "bc"]),
        ("['a', 'b'].join('+')", "a+b"),
        ("'aXbX'.replace('X', '--')", "a--b--"),
        ("'aXbX'.replace('X', '', 1)", "abX"),
        ("'abc'.substring(1)", "bc"),
        ("'abc'.substring(0, 2)", "ab"),
        ("'abcabc'.indexOf('c', 3)", 5),
        ("'abcabc'.lastIndexOf('b', 3)", 1),
        ("'abc'.charAt(3)", ""),
        ("duration('5s') - duration('3s') == duration('2s')", True),
        ("duration('5s') + duration('3s') == duration('8s')", True),
        ("timestamp('2024-05-31T18:30:05Z') - timestamp('2024-05-31T18:30:00Z') == duration('5s')", True),
        ("timestamp('2024-05-31T18:30:05Z') - duration('5s') == timestamp('2024-05-31T18:30:00Z')", True),
        ("-duration('5s') == duration('-5s')", True),
        ("matches(order.items[1], 'tea')", True),
        ("order.items.exists(i, matches(i, 'coffee'))", True),
        ("1 == null || null == 'a'", False),
        ("1 != null && null != 'a'", True),
        ("null == null", True),
        ("null != null", False),
        ("payload.n + 1", 8),
        ("payload.n / 2", 3),
        ("payload.d * 2", D("5.0")),
        ("payload.s + '!'", "text!"),
        ("payload.list.size()", 3),
        ("payload.b && true", True),
        ("[1, 2].exists(count, count == 2) && count == 3", True),
    ],
)
def test_expressions_evaluate_to_their_values(text, value):
    result = run(text)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    # `now` is 2026-03-29T00:30:00Z, a Sunday, half an hour before clocks in Madrid go forward; `age` is 36 hours.
    ("text", "value"),
    [
        ("now", datetime(2026, 3, 29, 0, 30, tzinfo=UTC)),
        ("now.getFullYear()", 2026),
        ("now.getMonth()", 2),
        ("now.getDate()", 29),
        ("now.getDayOfMonth()", 28),
        ("now.getDayOfWeek()", 0),
        ("now.getDayOfYear()", 87),
        ("now.getHours()", 0),
        ("now.getHours('Europe/Madrid')", 1),
        ("(now + duration('30m')).getHours('Europe/Madrid')", 3),
        ("now.getDate('America/New_York')", 28),
        ("now.getHours('-02:30')", 22),
        ("now.getMinutes('05:45')", 15),
        ("now.getSeconds() + now.getMilliseconds()", 0),
        ("timestamp('2026-03-29T02:30:00+02:00') == now", True),
        ("timestamp('2026-03-28T21:30:00-03:00') == now", True),
        ("timestamp('2026-03-29T00:30:00.123456789Z').getMilliseconds()", 123),
        ("timestamp('2026-03-29T00:30:00.999Z').getMilliseconds()", 999),
        ("string(now)", "2026-03-29T00:30:00Z"),
        ("string(timestamp('2026-03-29T00:30:00.5Z'))", "2026-03-29T00:30:00.5Z"),
        ("timestamp(0)", datetime(1970, 1, 1, tzinfo=UTC)),
        ("now - age < now", True),
        ("now - timestamp('2026-03-28T00:30:00Z') == duration('24h')", True),
        ("age.getHours() * 100 + age.getMinutes()", 36 * 100 + 36 * 60),
        ("duration('1h30m0.5s').getSeconds()", 90 * 60),
        ("duration('-1.5s').getMilliseconds()", -500),
        ("duration('-1ms').getMilliseconds()", -1),
        ("string(duration('-1.5s'))", "-1.5s"),
        ("string(-duration('1us'))", "-0.000001s"),
        ("string(duration('1000000s'))", "1000000s"),
        ("duration('1ms') + duration('1us') == duration('1001us')", True),
        ("-duration('1h') + duration('1h') == duration('0')", True),
    ],
)
def test_expressions_on_times_evaluate_to_their_values(text, value):
    assert run(text) == value


@pytest.mark.parametrize(
    # order.paid and the sponsor are null, and the payload has no field `nothing`.
    ("text", "value"),
    [
        ("false && 1 / 0 == 1", False),
        ("1 / 0 == 1 && false", False),
        ("true || 1 / 0 == 1", True),
        ("1 / 0 == 1 || true", True),
        ("order.paid || true", True),
        ("sponsor.paid && false", False),
        ("[0, 1].exists(x, 1 / x == 1)", True),
        ("(1 / 0 == 1 || true) && [1, 1].exists_one(x, x == 1)", False),
        ("[0, 1].all(x, 1 / x == 2)", False),
        ("payload.nothing == 1 || payload.n == 7", True),
        ("(payload.nothing || payload.n == 7) && (order.paid || !false)", True),
    ],
)
def test_an_error_in_an_operand_is_ignored_if_another_operand_decides(text, value):
    assert run(text) is value


@pytest.mark.parametrize(
    # order.paid, order.coupon, the sponsor and payload.none are null; there are no stars. The order has two items and
    # two tags. Of the payload, n is 7, d is 2.5, s is "text", b is true, and the list is [1, "two", null].
    ("text", "code", "part"),
    [
        ("1 / 0", "division-by-zero", "1 / 0"),
        ("1 % 0", "division-by-zero", "1 % 0"),
        ("1.5 / 0", "division-by-zero", "1.5 / 0"),
        ("order.total % 0.0", "division-by-zero", "order.total % 0.0"),
        ("count + 9223372036854775807", "overflow", "count + 9223372036854775807"),
        ("count * 9223372036854775807", "overflow", "count * 9223372036854775807"),
        *(
            (text, "overflow", text)
            for text in (
                "duration('9223372036s') + duration('1s')",
                "duration('-9223372036s') - duration('1s')",
                "timestamp('2400-01-01T00:00:00Z') - timestamp('2100-01-01T00:00:00Z')",
            )
        ),
        ("-(-9223372036854775808 + 0)", "overflow", "-(-9223372036854775808 + 0)"),
        ("-9223372036854775808 / -1", "overflow", "-9223372036854775808 / -1"),
        ("[9223372036854775807, 1].sum()", "overflow", "[9223372036854775807, 1].sum()"),
        ("1e6000 * 1e6000", "overflow", "1e6000 * 1e6000"),
        ("int(1e99)", "overflow", "int(1e99)"),
        ("timestamp('9999-12-31T23:59:59Z') + age", "overflow", "timestamp('9999-12-31T23:59:59Z') + age"),
        ("true && order.paid", "null", "order.paid"),
        ("!order.paid", "null", "order.paid"),
        ("order.paid ? 1 : 2", "null", "order.paid"),
        ("order.items.filter(i, order.paid)", "null", "order.paid"),
        ("sponsor.total > 5", "null", "sponsor.total"),
        ("has(sponsor.total)", "null", "has(sponsor.total)"),
        ("order.coupon.startsWith('a')", "null", "order.coupon.startsWith('a')"),
        ("'a'.substring(0, [null, 1][0])", "null", "'a'.substring(0, [null, 1][0])"),
        ("string(order.paid)", "null", "string(order.paid)"),
        ("order.coupon < 'a'", "null", "order.coupon < 'a'"),
        ("order.coupon + 'a'", "null", "order.coupon + 'a'"),
        ("sponsor.items.exists(i, true)", "null", "sponsor.items"),
        ("[1, null].sum()", "null", "[1, null].sum()"),
        ("balances.stars > 1", "missing", "balances.stars"),
        ("balances['stars'] > 1", "missing", "balances['stars']"),
        ("payload.a.b", "missing", "payload.a"),
        ("{1: 2}[3]", "missing", "{1: 2}[3]"),
        ("order.items[2]", "index", "order.items[2]"),
        ("order.tags[0 - 1]", "index", "order.tags[0 - 1]"),
        ("order.tags[-1]", "index", "order.tags[-1]"),
        ("'abc'.charAt(4)", "index", "'abc'.charAt(4)"),
        ("'abc'.substring(2, 1)", "index", "'abc'.substring(2, 1)"),
        ("payload.s * 2", "type", "payload.s * 2"),
        ("payload.s && true", "type", "payload.s"),
        ("payload.n.contains('a')", "type", "payload.n.contains('a')"),
        ("payload.n.x", "type", "payload.n.x"),
        ("payload.n[0]", "type", "payload.n[0]"),
        ("payload.none[0]", "null", "payload.none[0]"),
        ("payload.list.sum()", "type", "payload.list.sum()"),
        ("payload.list[dyn(0.5)]", "type", "payload.list[dyn(0.5)]"),
        ("payload.n.exists(x, true)", "type", "payload.n.exists(x, true)"),
        ("1 in payload.n", "type", "1 in payload.n"),
        ("'a' in payload.s", "type", "'a' in payload.s"),
        ("payload.n + payload.n && true", "type", "payload.n + payload.n"),
        ("[payload.n].max() && true", "type", "[payload.n].max()"),
        ("[payload.n, payload.s].max()", "type", "[payload.n, payload.s].max()"),
        ("{payload.d: 1}", "type", "{payload.d: 1}"),
        ("{'a': 1, 'a': 2}", "invalid", "{'a': 1, 'a': 2}"),
        ("[].min()", "invalid", "[].min()"),
        ("int(payload.s)", "invalid", "int(payload.s)"),
        ("timestamp(payload.s)", "invalid", "timestamp(payload.s)"),
        ("'a'.matches('(' + payload.s)", "invalid", "'a'.matches('(' + payload.s)"),
        ("now.getHours(payload.s)", "invalid", "now.getHours(payload.s)"),
        ("now.getHours('../' + payload.s)", "invalid", "now.getHours('../' + payload.s)"),
        ("round(1.5, count + 100)", "invalid", "round(1.5, count + 100)"),
        ("matches(sponsor.items[0], 'a')", "null", "sponsor.items"),
        ("matches(dyn(1), 'a')", "type", "matches(dyn(1), 'a')"),
    ],
)
def test_errors_have_a_code_and_a_place(text, code, part):
    error = failure(text)
    assert error.code == code
    assert text[error.start : error.end] == part
    assert error.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("payload.s * 2", "'*' cannot be used on (string, int)"),
        ("size(payload.n)", "size() cannot be used on (int)"),
        ("payload.n.contains('a')", "contains() cannot be used on (int, string)"),
        ("decimal('1e6144') * 10", "the number is too large, or needs more than 34 digits"),
        ("round(decimal('1e40') * payload.d, 2)", "the number is too large, or needs more than 34 digits"),
    ],
)
def test_an_error_names_the_function_and_the_types_of_its_values(text, message):
    assert failure(text).message == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("payload['x']", 'the map has no key "x"'),
        ("payload.x", 'the map has no key "x"'),
        ("{payload.list: 1}", "a map key must be a string, int or bool, not list"),
        ("[1][payload.s]", "the index of a list must be an int, not string"),
        ("[1, 2, 3][payload.d]", "the index of a list must be an int, not 2.5"),
    ],
)
def test_an_error_of_a_map_or_list_names_the_missing_or_refused_key(text, message):
    assert failure(text).message == message


def test_a_variable_without_a_value_is_an_error():
    program = compile_expression(parse("1 + count"), ENVIRONMENT)
    with pytest.raises(EvaluationError, match="the variable 'count' has no value here") as caught:
        program.run({})
    assert (caught.value.code, caught.value.start, caught.value.end) == ("missing", 4, 9)


def test_a_failing_host_function_is_an_error():
    program = compile_expression(parse("order.items.all(i, matches(i, 'a'))"), ENVIRONMENT)
    for functions in ({}, {"matches": lambda item, key: 1 / 0}, {"matches": lambda item, key: "yes"}):
        with pytest.raises(EvaluationError) as caught:
            program.run(CONTEXT, functions=functions)
        assert caught.value.code == "function"


@pytest.mark.parametrize(
    ("expected_type", "text", "code"),
    [
        (BOOL, "order.paid", "null"),
        (BOOL, "payload.s", "type"),
        (DECIMAL, "payload.none", "null"),
        (DECIMAL, "payload.b", "type"),
        (STRING, "payload.n", "type"),
    ],
)
def test_a_value_of_another_type_than_expected_is_an_error(expected_type, text, code):
    with pytest.raises(EvaluationError) as caught:
        run(text, expected_type=expected_type)
    assert caught.value.code == code


def test_an_int_is_accepted_where_a_decimal_is_expected():
    assert run("count", expected_type=DECIMAL, count=3) == 3


class TestBudget:
    def test_nested_loops_beyond_the_budget_fail_before_they_start(self):
        text = "payload.l.exists(a, payload.l.exists(b, payload.l.exists(c, a + b + c == 0)))"
        program = compile_expression(parse(text), ENVIRONMENT)
        values = {**CONTEXT, "payload": {"l": [1] * 1000}}
        start = time.process_time()
        with pytest.raises(CostExceeded) as caught:
            program.run(values)
        assert caught.value.code == "cost"
        assert (caught.value.start, caught.value.end) == (0, len(text))
        assert time.process_time() - start < 1

    def test_the_budget_is_shared_by_expressions(self):
        # An evaluation of the comparison costs 4 units.
        budget = Budget(25 * 4)
        for _ in range(25):
            run("order.total > 5", budget)
        with pytest.raises(CostExceeded):
            run("order.total > 5", budget)

    def test_an_exhausted_budget_is_an_error_even_if_another_operand_is_true(self):
        # Any other error in an operand is ignored if the other one is true.
        text = "order.items.all(a, order.items.all(b, 1 / 0 == 1)) || true"
        assert run(text, Budget(200)) is True
        # The budget is enough for the right operand, but not for all of the left one.
        with pytest.raises(CostExceeded):
            run(text, Budget(100))

    @pytest.mark.parametrize(
        "operands",
        [
            pytest.param("true", id="no error"),
            # The error of the first operand is ignored, because the second one is true.
            pytest.param("1 / 0 == 1 || true", id="an ignored error before"),
        ],
    )
    def test_an_operand_after_the_deciding_one_costs_nothing(self, operands):
        budget = Budget(1_000)
        # The last operand would exceed the budget: it visits 1,000 times 1,000 items.
        text = f"{operands} || payload.l.all(x, payload.l.all(y, true))"
        assert run(text, budget, payload={"l": [1] * 1_000}) is True
        assert budget.remaining > 900

    def test_an_expression_with_an_ignored_error_costs_four_times_as_much(self):
        without_error, with_error = Budget(1000), Budget(1000)
        run("order.items.exists(i, i.quantity / 1 == 5) || true", without_error)
        run("order.items.exists(i, i.quantity / 0 == 5) || true", with_error)
        cost_without_error, cost_with_error = 1000 - without_error.remaining, 1000 - with_error.remaining
        assert cost_with_error == 4 * cost_without_error

    @pytest.mark.parametrize(
        "text",
        [
            "payload.t.contains('b')",
            "payload.t.matches('b')",
            "payload.t.replace('a', 'b').size() > 0",
            "payload.l == payload.l",
            "5 in payload.l",
            "payload.l.sum() > 0",
            "payload.l + payload.l == []",
        ],
    )
    def test_work_on_a_large_value_costs_in_proportion_to_its_size(self, text):
        units = 100_000
        budget = Budget(units)
        # A unit pays for one element, or for 16 characters.
        run(text, budget, payload={"t": "a" * 80_000, "l": [1] * 4_000})
        assert units - budget.remaining >= 4_000

    def test_a_part_that_a_list_shares_costs_each_time_that_it_is_compared(self):
        # Each step creates a list of ten times the previous one: small in memory, but long to compare.
        text = "[1]" + ".map(x, [x, x, x, x, x, x, x, x, x, x])" * 3
        doubled_text = text.replace("[1]", "payload.l")
        nested_list = [1]
        for _ in range(12):
            nested_list = [nested_list] * 10
        with pytest.raises(CostExceeded):
            run("payload.l == payload.m", payload={"l": nested_list, "m": [list(nested_list[0])] * 10})
        with pytest.raises(EvaluationError) as caught:
            run(doubled_text, payload={"l": nested_list})
        assert caught.value.code == "too-large"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("payload.t + payload.t", "the resulting text has 120000 characters; the maximum is 100000"),
        ("payload.t.replace('a', payload.t)", "the resulting text has 3600000000 characters; the maximum is 100000"),
        ("[payload.t, payload.t].join()", "the resulting text has 120000 characters; the maximum is 100000"),
        ("payload.t.split('')", "the list has 60000 elements; the maximum is 10000"),
        ("payload.l + payload.l", "the list has 12000 elements; the maximum is 10000"),
    ],
)
def test_a_result_has_a_maximum_size(text, message):
    """The text `payload.t` has 60,000 characters, and the list `payload.l` has 6,000 elements."""
    error = failure(text, payload={"t": "a" * 60_000, "l": [1] * 6_000})
    assert (error.code, error.message) == ("too-large", message)


def test_a_result_has_at_most_10000_parts():
    """The inner lists and their elements count: two lists of 4,999 elements have 2 + 2 * 4,999 parts."""
    assert len(run("payload.l", payload={"l": [1] * 10_000})) == 10_000
    assert len(run("payload.l", payload={"l": [[1] * 4_999] * 2})) == 2
    for parts in ([1] * 10_001, [[1] * 5_000] * 2):
        error = failure("payload.l", payload={"l": parts})
        assert error.code == "too-large"
        assert error.message == "the result has more than 10000 elements, nested ones included: return fewer"


@pytest.mark.parametrize(("size", "name"), [(58, f'"{"k" * 58}"'), (59, f'"{"k" * 58}…'), (500, f'"{"k" * 58}…')])
def test_a_long_key_is_cut_to_60_characters(size, name):
    assert failure(f"payload['{'k' * size}']").message == f"the map has no key {name}"


def test_a_result_is_a_copy_whose_changes_leave_the_context_unchanged():
    tags = run("order.tags")
    tags.append("more")
    assert CONTEXT["order"]["tags"] == ["web", "summer"]


def test_a_regular_expression_that_backtracks_in_other_engines_is_searched_in_linear_time():
    start = time.process_time()
    assert run("payload.t.matches('(a+)+$')", payload={"t": "a" * 50_000 + "b"}) is False
    assert time.process_time() - start < 1


def test_the_decimal_context_of_the_thread_does_not_change_results():
    expression = "order.total / 7.0 + round(2.345, 2) - [1.005, 2.5].sum()"
    results = []

    def work():
        """Evaluate expressions in a thread whose numbers have 3 digits and are rounded up."""
        decimal.setcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP, capitals=0, traps=[]))
        results.append(run(expression))
        results.append(run("string(1e50)"))
        with pytest.raises(EvaluationError):
            run("order.total / 0.0")
        results.append(decimal.getcontext().prec)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    number, text, precision_afterwards = results
    assert number == run(expression)
    assert str(number) == "10.88785714285714285714285714285714"
    assert text == "1E+50"
    assert precision_afterwards == 3


def test_programs_run_in_many_threads_at_once():
    program = compile_expression(parse("order.items.map(i, i.total * count).sum() / 3.0"), ENVIRONMENT)
    expected_values = {n: program.run({**CONTEXT, "count": n}) for n in range(20)}
    wrong_numbers = []

    def work(n):
        for _ in range(200):
            if program.run({**CONTEXT, "count": n}) != expected_values[n]:
                wrong_numbers.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in expected_values]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong_numbers == []


SAMPLES = {
    "int": 1,
    "decimal": D("1.5"),
    "string": "a",
    "bool": True,
    "timestamp": CONTEXT["now"],
    "duration": CONTEXT["age"],
    "list<dyn>": [1],
    "list<decimal>": [1],
    "list<string>": ["a"],
    "list<timestamp>": [CONTEXT["now"]],
    "list<duration>": [CONTEXT["age"]],
    "map<dyn, dyn>": {"a": 1},
}
OVERLOADS = [
    pytest.param(overload, id=f"{name}({', '.join(map(str, overload.parameters))})")
    for table in (OPERATORS, FUNCTION_TABLE, METHODS)
    for name, overloads in table.items()
    for overload in overloads
    if DYN not in overload.parameters
]


@pytest.mark.parametrize("overload", OVERLOADS)
def test_every_implementation_of_a_function_raises_an_error_for_null(overload):
    """If types are known, generated code calls implementations without checks, so that they have to refuse null."""
    arguments = [SAMPLES[str(parameter)] for parameter in overload.parameters]
    call = partial(overload.call, Budget()) if overload.metered else overload.call
    if not overload.validators:
        call(*arguments)
    for position in range(len(arguments)):
        with pytest.raises((EvaluationError, TypeError, AttributeError)):
            call(*arguments[:position], None, *arguments[position + 1 :])


class Strange:
    """A value that a context should not have, because it cannot be compared."""

    def __eq__(self, other):
        raise RuntimeError("never")

    __hash__ = None


STRANGE = [1.5, float("nan"), b"x", object(), Strange(), (1,), {1, 2}, 10**5000, Decimal("NaN"), Decimal("sNaN")]
STRANGE += [
    Decimal("Infinity"),
    datetime(2026, 1, 1),
    datetime.max.replace(tzinfo=UTC),
    timedelta.max,
    "\ud800",
    range(3),
]
USES = [
    "x", "x == 1", "x == x", "x != null", "x < 1", "x + 1", "1.5 * x", "-x", "!x", "x && true", "x in [1]", "1 in x",
    "x[0]", "x['a']", "x.a", "has(x.a)", "x.size()", "x.exists(y, y)", "x.map(y, y)", "[x].sum()", "[x].max()",
    "string(x)", "int(x)", "decimal(x)", "type(x) == int", "timestamp(x)", "x.getHours()", "x - x", "x.matches('a')",
    "'a'.matches(x)", "{x: 1}", "{'a': x}", "x ? 1 : 2", "round(x, 2)", "floor(x)", "min(x, 1)", "[1][x]", "x.join()",
    "string(x).size()", "x.getHours('Europe/Madrid')", "now.getHours(x)", "x + duration('1h')", "x.lowerAscii()",
]  # fmt: skip


@pytest.mark.parametrize("kind", [DYN, DECIMAL, STRING, BOOL], ids=str)
def test_unexpected_values_raise_only_evaluation_errors(kind):
    environment = Environment({**ENVIRONMENT.variables, "x": kind})
    run_count = 0
    for text in USES:
        node = parse(text)
        if kind != DYN and check(node, environment).faults:
            continue
        program = compile_expression(node, environment)
        for value in STRANGE:
            run_count += 1
            try:
                result = program.run({**CONTEXT, "x": value}, functions=FUNCTIONS)
            except EvaluationError:
                continue
            assert type(result) is not float
    assert run_count > 50


def test_values_that_are_nested_too_deeply_raise_evaluation_errors():
    deep_list = []
    for _ in range(100_000):
        deep_list = [deep_list]
    for text in ("payload.x == [payload.x]", "payload.x", "string(payload.x) == ''"):
        with pytest.raises(EvaluationError):
            run(text, payload={"x": deep_list})
    # Python cannot free so deep a value at once.
    while deep_list:
        deep_list = deep_list.pop()
