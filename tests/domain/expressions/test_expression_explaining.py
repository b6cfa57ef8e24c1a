"""Explanations of conditions: labels in words, and traces with the value of each part.

The variables are those of CONTEXT: the order has the total 84.30 and two items, `paid` is null, and the count is 3.
"""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.campaigns.variables import ENVIRONMENT as CAMPAIGNS
from domain.expressions import (
    BOOL,
    Budget,
    CharacterBudget,
    Environment,
    ExpressionError,
    explain,
    label,
    parse,
    reason,
)
from domain.expressions.explain import shorten
from tests.domain.expressions.expression_cases import CONTEXT, ENVIRONMENT, FUNCTIONS


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("order.total >= 50", "order total is at least 50"),
        ("order.total < 50 || order.total > 60", "order total is less than 50 or order total is more than 60"),
        (
            "order.paid && (count == 1 || !order.paid)",
            "order paid and (count is 1 or not order paid)",
        ),
        ("count == 1 || count == 2 && order.paid", "count is 1 or (count is 2 and order paid)"),
        ("order.coupon == null", "order coupon is not set"),
        ("sponsor != null", "sponsor is set"),
        ("has(payload.code) && !has(payload.x)", "payload code is set and payload x is not set"),
        ('order.coupon in ["a", "b"]', 'order coupon is one of "a", "b"'),
        ('!(order.coupon in ["a"])', 'order coupon is not one of "a"'),
        ('"vip" in order.tags', 'order tags contains "vip"'),
        ('!order.coupon.startsWith("x")', 'order coupon does not start with "x"'),
        (
            'order.items.exists(i, i.code == "tea" && i.quantity >= 2)',
            'at least one of order items has (code is "tea" and quantity is at least 2)',
        ),
        ("!order.items.exists(i, i.gift)", "none of order items has (gift)"),
        ('order.items.exists(i, matches(i, "tea"))', 'at least one of order items has (it matches "tea")'),
        (
            "order.items.all(i, order.items.exists(j, j.total > i.total))",
            "each of order items has (at least one of order items has (total is more than i total))",
        ),
        (
            "round(order.items.filter(i, i.gift).map(i, i.total).sum() * 0.05, 2)",
            "((sum of total of each of order items with (gift)) × 0.05) rounded to 2 decimals",
        ),
        ("(order.total + 1) * 2", "(order total + 1) × 2"),
        ("now - age < now", "the current time − age is before the current time"),
        ('now >= timestamp("2026-01-01T00:00:00Z")', "the current time is at or after 2026-01-01T00:00:00Z"),
        ('now.getHours("Europe/Madrid") < 12', 'hours of the current time in "Europe/Madrid" is less than 12'),
        ("balances.points >= 100", "balance of points is at least 100"),
        ('balances["points"] >= 100', "balance of points is at least 100"),
        ("count > 1 ? 5 : 10", "5 if count is more than 1, otherwise 10"),
        ("max(count, 3)", "the greatest of count and 3"),
        ("min(order.total, 50) * 2", "(the least of order total and 50) × 2"),
        ("-max(order.total, 5) - 3", "−(the greatest of order total and 5) − 3"),
        ("order.items.map(i, i.total).sum() * 2", "(sum of total of each of order items) × 2"),
        ("order.items[0].total >= 20", "(element 0 of order items, counted from 0) total is at least 20"),
        ("payload.l[0] * 2", "payload l [0] × 2"),
        ("payload.l.map(x, x)[count]", "(it of each of payload l) [count]"),
        ("round(min(count, 3), 2)", "(the least of count and 3) rounded to 2 decimals"),
        ("abs(min(count, 3))", "absolute value of the least of count and 3"),
        ("min(3, max(count, 1))", "the least of 3 and (the greatest of count and 1)"),
        ("dyn(abs(count)) * 2", "(absolute value of count) × 2"),
        ("round(order.total) * 2", "order total rounded × 2"),
        ('now - duration("1h")', "the current time − 1h"),
        ("abs(count).foo()", "(absolute value of count).foo()"),
        ("order.tags.size() > 1", "number of order tags is more than 1"),
        ("order.coupon.size() > 1", "length of order coupon is more than 1"),
        ("-count", "−count"),
        ("order.items[0].total", "(element 0 of order items, counted from 0) total"),
        ("unknown.name(1)", "unknown.name(1)"),
        ("order.foo(1, 2)", "order.foo(1, 2)"),
        ("foo(1, 2)", "foo(1, 2)"),
        ("{'a': 1, 'b': count}", '{"a": 1, "b": count}'),
        ("payload.t < now", "payload t is less than the current time"),
        ("string(order.coupon)", "order coupon as a text"),
        ("order.coupon.trim()", "order coupon without spaces around"),
        ("now.startOf('month', order.coupon)", "the start of the month of the current time in order coupon"),
        ("!payload.l.all(x, x > 1)", "not each of payload l has (it is more than 1)"),
        ("!payload.x.isGood()", "not payload x.isGood()"),
        ("!(count == 1 || count == 2)", "not (count is 1 or count is 2)"),
        ("!matches(order.items[0], 'a')", 'not (element 0 of order items, counted from 0) matches "a"'),
    ],
)
def test_an_expression_has_a_label_in_words(text, sentence):
    assert label(parse(text), ENVIRONMENT) == sentence


@pytest.mark.parametrize("text", ["timestamp()", "duration()", "count.startOf()", "matches(payload)"])
def test_a_call_with_too_few_arguments_has_a_label(text):
    assert label(parse(text), ENVIRONMENT) == text


def test_a_path_may_have_its_own_label():
    environment = Environment(ENVIRONMENT.variables, labels={"order.total": "the amount"})
    assert label(parse("order.total > count"), environment) == "the amount is more than count"
    # The label is not that of the variable of a macro that has the same name.
    text = "payload.l.all(order, order.total > 1)"
    assert label(parse(text), environment) == "each of payload l has (total is more than 1)"


def test_a_label_omits_the_innermost_variable_and_names_the_outer_ones():
    root = trace("payload.l.all(a, payload.l.all(b, a + b > 0))", payload={"l": [1]})
    [inner] = root["elements"][0]["elements"]
    assert inner["labelledExpression"] == "a + it is more than 0"


def test_variables_of_campaigns_have_labels():
    assert label(parse("orderAfter.total >= 60"), CAMPAIGNS) == "order after discounts total is at least 60"
    text = 'event.eventType == "x" && member.profile.city == "Madrid" && missions["m1"].timesAchieved > 2'
    assert label(parse(text), CAMPAIGNS) == (
        'event type is "x" and member city is "Madrid" and mission m1 times achieved is more than 2'
    )


def trace(text, budget=None, **variables):
    """The trace of an expression, with the values of all of its parts; it can be written as JSON."""
    root = explain(parse(text), ENVIRONMENT, {**CONTEXT, **variables}, FUNCTIONS, budget)
    json.dumps(root, allow_nan=False, default=Decimal.__str__)
    return root


def test_a_trace_has_the_value_of_each_part():
    assert trace("order.total >= 50 && count in [1, 2]") == {
        "expression": "order.total >= 50 && count in [1, 2]",
        "labelledExpression": "order total is at least 50 and count is one of 1, 2",
        "at": [0, 36],
        "operator": "&&",
        "value": False,
        "children": [
            {
                "expression": "order.total >= 50",
                "labelledExpression": "order total is at least 50",
                "at": [0, 17],
                "operator": ">=",
                "value": True,
                "children": [
                    {
                        "expression": "order.total",
                        "labelledExpression": "order total",
                        "at": [0, 11],
                        "value": Decimal("84.30"),
                    }
                ],
            },
            {
                "expression": "count in [1, 2]",
                "labelledExpression": "count is one of 1, 2",
                "at": [21, 36],
                "operator": "in",
                "value": False,
                "children": [
                    {"expression": "count", "labelledExpression": "count", "at": [21, 26], "value": 3},
                ],
            },
        ],
    }


def test_all_operands_are_shown_even_if_the_first_one_decides():
    root = trace("false && 1 / 0 == 1 && count == 3")
    assert root["value"] is False
    assert root["children"][0]["error"] == {"code": "division-by-zero", "message": "division by zero", "at": [9, 14]}
    assert root["children"][1]["value"] is True


def test_a_trace_has_the_deciding_elements_of_a_loop():
    root = trace("order.items.exists(i, i.quantity > 1)")
    assert root["children"] == [
        {
            "expression": "order.items",
            "labelledExpression": "order items",
            "at": [0, 11],
            "value": [
                {"code": "coffee", "total": Decimal("10.05"), "quantity": 2, "gift": False},
                {"code": "tea", "total": Decimal("74.25"), "quantity": 1, "gift": True},
            ],
        }
    ]
    assert [
        (element["labelledExpression"], element["value"], element["element"]["code"]) for element in root["elements"]
    ] == [("quantity is more than 1", True, "coffee")]
    assert root["elements"][0]["children"][0]["value"] == 2


def test_a_trace_shows_at_most_10_elements_of_a_loop_or_value_and_200_characters_of_a_text():
    numbers = list(range(300))
    text = "payload.l.all(a, payload.l.exists(b, payload.l.exists(c, a + b + c > 5)))"
    root = trace(text, Budget(10**9), payload={"l": numbers[:40]})
    assert root["value"] is True
    assert len(json.dumps(root)) < 2_000_000
    assert len(root["elements"]) == 10
    trace_of_list = trace("payload.l", payload={"l": numbers})
    assert trace_of_list["value"] == [*range(10), "…"]
    assert trace("payload.t", payload={"t": "a" * 1000})["value"] == "a" * 200 + "…"
    trace_of_map = trace("payload", payload={str(n): n for n in numbers})
    # The last entry stands for all that are not shown.
    assert len(trace_of_map["value"]) == 10 + 1


def test_the_rest_of_a_condition_is_shown_after_a_long_loop():
    root = trace("payload.l.all(a, payload.l.all(b, a + b + 1 > 0)) && count == 4", payload={"l": list(range(100))})
    assert reason(root)["label"] == "not true: count is 4 (it is 3)"


def test_loops_have_at_most_1000_traces_without_those_of_later_operands():
    loops = "payload.l.all(a, payload.l.all(b, payload.l.all(c, a + b + c >= 0)))"
    root = trace(f"{loops} && count == 4", payload={"l": list(range(11))})
    root_loops_and_list = 3
    comparison_and_count = 2
    assert json.dumps(root).count('"labelledExpression"') == root_loops_and_list + 1000 + comparison_and_count


def test_an_element_at_a_constant_position_has_no_parts_in_a_trace():
    assert "children" not in trace("order.items[0].total")
    assert [part["expression"] for part in trace("order.items[count - 3].total")["children"]] == [
        "order.items[count - 3]"
    ]


def test_only_operators_and_macros_have_an_operator_in_a_trace():
    assert trace("-count")["operator"] == "-"
    assert trace("order.tags.all(t, true)")["operator"] == "all"
    assert "operator" not in trace("order.tags.size()")


def test_an_operand_of_a_constant_is_a_part_of_a_trace():
    assert [part["expression"] for part in trace("order.paid || true")["children"]] == ["order.paid"]


@pytest.mark.parametrize(("characters", "parts"), [(19, 0), (20, 0), (21, 1)])
def test_a_trace_omits_parts_for_which_no_characters_remain(characters, parts):
    # Both "count == 3" and "count is 3" have 10 characters.
    root = explain(parse("count == 3"), ENVIRONMENT, CONTEXT, FUNCTIONS, characters=CharacterBudget(characters))
    assert len(root.get("children", [])) == parts


def test_a_faulty_expression_is_not_explained():
    with pytest.raises(ExpressionError):
        explain(parse("nope"), ENVIRONMENT, CONTEXT)
    with pytest.raises(ExpressionError):
        explain(parse("count"), ENVIRONMENT, CONTEXT, expected_type=BOOL)


@pytest.mark.parametrize(
    "value", [float("nan"), 10**5000, b"x", object(), {1: {2: {3: {4: {5: 6}}}}}], ids=lambda v: type(v).__name__
)
def test_unexpected_values_can_be_written_as_json(value):
    json.dumps(explain(parse("payload.x == 1"), ENVIRONMENT, {"payload": {"x": value}}), allow_nan=False)


class TestReason:
    def test_a_true_condition_has_no_reason_for_failing(self):
        assert reason(trace("count == 3")) is None

    def test_the_reason_is_the_first_false_operand_with_its_values(self):
        text = "order.total > 50 && (order.tags.size() == 2 && order.total + count < 60) && count == 4"
        assert reason(trace(text)) == {
            "code": "CONDITION_FALSE",
            "at": [47, 71],
            "label": "not true: order total + count is less than 60 (order total is 84.30, count is 3)",
            "actual": [
                {"expression": "order.total", "label": "order total", "value": Decimal("84.30")},
                {"expression": "count", "label": "count", "value": 3},
            ],
        }

    def test_the_reason_of_a_false_disjunction_is_the_whole_disjunction(self):
        cause = reason(trace("order.total > 50 && (count == 1 || count == 2)"))
        assert cause["label"] == "not true: count is 1 or count is 2 (it is 3)"
        assert [read["value"] for read in cause["actual"]] == [3, 3]

    def test_the_reason_of_a_conjunction_with_the_constant_false_is_the_whole_conjunction(self):
        assert reason(trace("false && count == 3"))["label"] == "not true: false and count is 3 (count is 3)"

    def test_the_reason_of_a_condition_without_a_conjunction_is_the_whole_condition(self):
        assert reason(trace("count == 1"))["at"] == [0, 10]

    def test_a_false_operand_is_the_reason_before_an_error(self):
        assert reason(trace("payload.nothing == 1 && count == 4"))["label"] == "not true: count is 4 (it is 3)"

    def test_the_reason_of_an_error_is_the_failing_part(self):
        assert reason(trace("count == 3 && payload.nothing == 1")) == {
            "code": "CONDITION_ERROR",
            "at": [14, 34],
            "label": 'cannot be evaluated: payload nothing is 1 (the map has no key "nothing")',
            "actual": [],
            "message": 'the map has no key "nothing"',
        }

    def test_null_is_reported_where_a_condition_is_needed(self):
        cause = reason(trace("count == 3 && order.paid"))
        assert cause["code"] == "CONDITION_ERROR"
        assert cause["label"] == "cannot be evaluated: order paid (true or false is needed, not null)"
        assert cause["actual"][0]["value"] is None
        assert cause["message"] == "true or false is needed, not null"

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("payload.n == 4", "not true: payload n is 4 (it is 3)"),
            ('payload.t == "b"', 'not true: payload t is "b" (it is "")'),
            ("payload.e != null", "not true: payload e is set (it is not set)"),
            ("!payload.b", "not true: not payload b (payload b is true)"),
            ("payload.f", "not true: payload f"),
            ('payload.long == "b"', f'not true: payload long is "b" (it is {"a" * 60}…)'),
            ("payload.l.exists(x, x > 5)", "not true: at least one of payload l has (it is more than 5)"),
            (
                "payload.n + payload.m + payload.o > payload.p",
                "not true: payload n + payload m + payload o is more than payload p "
                "(payload n is 3, payload m is 1, payload o is 2)",
            ),
        ],
    )
    def test_a_false_condition_is_reported_by_a_sentence_with_the_values(self, text, sentence):
        payload = {
            "n": 3,
            "m": 1,
            "o": 2,
            "p": 9,
            "t": "",
            "e": None,
            "b": True,
            "f": False,
            "l": [1],
            "long": "a" * 99,
        }
        assert reason(trace(text, payload=payload))["label"] == sentence

    @pytest.mark.parametrize("text", ["order.paid", "payload.n"])
    def test_a_value_that_is_neither_true_nor_false_is_an_error(self, text):
        cause = reason(trace(text))
        assert (cause["code"], cause["message"]) == ("CONDITION_ERROR", "neither true nor false")

    def test_an_exhausted_budget_is_the_reason(self):
        assert reason(trace("order.items.all(i, order.items.all(j, true))", Budget(3)))["code"] == "COST"


@pytest.mark.parametrize(
    ("value", "short_value"),
    [
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 200 + "…"),
        ([1] * 10, [1] * 10),
        ([1] * 11, [1] * 10 + ["…"]),
        ({str(n): n for n in range(10)}, {str(n): n for n in range(10)}),
        ({str(n): n for n in range(11)}, {**{str(n): n for n in range(10)}, "…": "…"}),
        ({"k" * 201: 1}, {"k" * 200: 1}),
        ([[[[1]]]], [[[[1]]]]),
        ([[[[[1]]]]], [[[["…"]]]]),
        ({"a": {"a": {"a": {"a": {"a": 1}}}}}, {"a": {"a": {"a": {"a": "…"}}}}),
        (2**64 - 1, 2**64 - 1),
        (2**64, "(int)"),
        (-(2**64), "(int)"),
        (None, None),
        (True, True),
        (datetime(2026, 3, 1, 9, tzinfo=UTC), "2026-03-01T09:00:00Z"),
        (datetime(2026, 3, 1, 9), "2026-03-01T09:00:00"),
    ],
    ids=str,
)
def test_long_values_are_cut(value, short_value):
    assert shorten(value) == short_value


def test_no_value_is_shown_without_remaining_characters():
    assert shorten("abc", CharacterBudget(1)) == "abc"
    assert shorten("abc", CharacterBudget(0)) == "…"
    characters = CharacterBudget(100)
    shorten(["ab", 5, "x" * 300], characters)
    # The list and the number cost 10 each, "ab" 2, and the cut text 200.
    assert characters.remaining == 100 - 10 - 2 - 10 - 200


def test_traces_outside_loops_do_not_count_against_the_maximum_of_traces_in_loops():
    payload = {"l": list(range(11))}
    operands_before_loops = " && ".join(["order.paid"] * 200)
    loops = "payload.l.all(a, payload.l.all(b, payload.l.all(c, a + b + c >= 0)))"
    trace_of_loops = json.dumps(trace(loops, payload=payload))
    root = trace(f"{operands_before_loops} && {loops}", payload=payload)
    assert json.dumps(root["children"][-1]).count('"labelledExpression"') == trace_of_loops.count(
        '"labelledExpression"'
    )
