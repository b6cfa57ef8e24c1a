"""The check of expressions: types, faults and warnings."""

import pytest

from domain.expressions import BOOL, DECIMAL, INT, STRING, ExpressionError, check, compile_expression, parse
from tests.domain.expressions.expression_cases import ENVIRONMENT, faults, warnings


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1", "int"),
        ("1 + 1.0", "decimal"),
        ("order.total / 2", "decimal"),
        ("order.items.map(i, i.quantity).sum()", "int"),
        ("order.items.map(i, i.total)", "list<decimal>"),
        ("order.items.filter(i, i.gift)", "list<item>"),
        ("order.items[0]", "item"),
        ("balances.points", "decimal"),
        ("balances", "map<string, decimal>"),
        ("payload.x", "dyn"),
        ("payload.x + 1", "dyn"),
        ("payload.x > 1", "bool"),
        ("payload.x.size()", "int"),
        ("[1, 2.5]", "list<decimal>"),
        ("[1, null]", "list<int>"),
        ("[1] + [2.5]", "list<decimal>"),
        ("[1] + ['a']", "list<dyn>"),
        ("['a'] + [1]", "list<dyn>"),
        ("[]", "list<dyn>"),
        ("{1: 'a'}", "map<int, string>"),
        ("{}.map(k, k)", "list<dyn>"),
        ("[null].map(x, x + 1)", "list<dyn>"),
        ("count > 1 ? 1 : 2.5", "decimal"),
        ("count > 1 ? 'a' : null", "string"),
        ("now - now", "duration"),
        ("now - age", "timestamp"),
        ("age + now", "timestamp"),
        ("min(1, 2)", "int"),
        ("min(1, 2.5)", "decimal"),
        ("['a'].max()", "string"),
        ("type(1)", "type"),
        ("int", "type"),
        ("dyn(1)", "dyn"),
        ("matches(order.items[0], 'a')", "bool"),
        ("'a'.split(',')", "list<string>"),
    ],
)
def test_an_expression_has_the_type_of_its_value(text, kind):
    analysis = check(parse(text), ENVIRONMENT)
    assert (str(analysis.type), analysis.faults) == (kind, ())


@pytest.mark.parametrize(
    ("text", "expected_faults"),
    [
        ("order.totl > 5", [("order.totl", "order has no field 'totl'; did you mean 'total'?")]),
        ("order.xyzzy", [("order.xyzzy", "order has no field 'xyzzy'; known: coupon, items, paid, tags, total")]),
        ("ordr.total > 5", [("ordr", "unknown variable 'ordr'; did you mean 'order'?")]),
        ("a && b", [("a", "unknown variable 'a'"), ("b", "unknown variable 'b'")]),
        ("size(1)", [("size(1)", "size() takes (list<dyn>) or (map<dyn, dyn>) or (string), not (int)")]),
        ("rund(1)", [("rund(1)", "unknown function 'rund'; did you mean 'round'?")]),
        ("order.total.round(2)", [("order.total.round(2)", "unknown method 'round'; write round(...)")]),
        (
            "startsWith('a', 'b')",
            [("startsWith('a', 'b')", "unknown function 'startsWith'; write it after a dot: x.startsWith(...)")],
        ),
        ("'a'.startWith('b')", [("'a'.startWith('b')", "unknown method 'startWith'; did you mean 'startsWith'?")]),
        (
            "'a'.startsWith(1)",
            [
                (
                    "'a'.startsWith(1)",
                    "startsWith() takes (string, string) (the value before the dot comes first), not (string, int)",
                )
            ],
        ),
        ("1 + 'a'", [("1 + 'a'", "'+' cannot be used on (int, string)")]),
        ("order < 1", [("order < 1", "'<' cannot be used on (order, int)")]),
        ("1 < 2 < 3", [("1 < 2 < 3", "'<' cannot be used on (bool, int)")]),
        ("-'a'", [("-'a'", "'-' cannot be used on (string)")]),
        ("double('1e9999')", [("'1e9999'", "the number is too large")]),
        ("null + 1", [("null + 1", "'+' cannot be used on (null, int)")]),
        ("1 == 'a'", [("1 == 'a'", "an int never equals a string")]),
        ("order == [1]", [("order == [1]", "an order never equals a list<int>")]),
        ("'a' in [1, 2]", [("'a' in [1, 2]", "a string is never in a list<int>")]),
        ("1 in balances", [("1 in balances", "an int is never in a map<string, decimal>")]),
        ("1 in 5", [("1 in 5", "'in' needs a list or map, this is an int")]),
        ("order.tags['a']", [("'a'", "the index of a list must be an int, not a string")]),
        ("balances[1]", [("1", "the keys are of type string, not int")]),
        ("count[0]", [("count[0]", "an index needs a list or a map, not an int")]),
        ("order['total']", [("order['total']", "an index needs a list or a map, not an order")]),
        ("count.x", [("count.x", "an int has no fields")]),
        ("!count", [("count", "a condition must be true or false, this is an int")]),
        ("count || true", [("count", "a condition must be true or false, this is an int")]),
        ("count ? 1 : 2", [("count", "a condition must be true or false, this is an int")]),
        ("true ? 1 : 'a'", [("true ? 1 : 'a'", "the two results of ?: have different types: int and string")]),
        ("count.all(x, x)", [("count", "all() needs a list or map, this is an int")]),
        ("order.tags.all(t, t)", [("t", "a condition must be true or false, this is a string")]),
        ("{1.5: 1}", [("1.5", "a map key must be a string, int or bool, not a decimal")]),
        (
            "order.tags.sum()",
            [
                (
                    "order.tags.sum()",
                    "sum() takes (list<decimal>) (the value before the dot comes first), not (list<string>)",
                )
            ],
        ),
        ("matches('a', 'b')", [("matches('a', 'b')", "matches() takes (item, string), not (string, string)")]),
        ("matches(order.items[0])", [("matches(order.items[0])", "matches() takes (item, string), not (item)")]),
        ("'a'.matches('(')", [("'('", "the pattern is not a regular expression in RE2 syntax")]),
        (
            "now.getHours('Mars/Base')",
            [("'Mars/Base'", 'the text is not a time zone such as "Europe/Madrid" or "-03:00"')],
        ),
        ("timestamp('soon')", [("'soon'", 'the text is not a timestamp such as "2024-05-31T18:30:00Z"')]),
        (
            "timestamp('2026-02-30T00:00:00Z')",
            [("'2026-02-30T00:00:00Z'", "the date or time does not exist in the years 1 to 9999")],
        ),
        ("duration('1d')", [("'1d'", 'the text is not a duration such as "36h", "1h30m" or "90s"')]),
        (
            f"duration('{'1h' * 51}')",
            [(f"'{'1h' * 51}'", "the text has 102 characters; a duration may have at most 100")],
        ),
        ("duration('1ns')", [("'1ns'", "a duration has no parts smaller than a microsecond")]),
        ("decimal('1,5')", [("'1,5'", "the text is not a number")]),
        ("decimal(' 1')", [("' 1'", "the text is not a number")]),
        ("decimal('Infinity')", [("'Infinity'", "the text is not a number")]),
        (
            f"decimal('{'1' * 101}')",
            [(f"'{'1' * 101}'", "the text has 101 characters; a number may have at most 100")],
        ),
        ("int('1.5')", [("'1.5'", "the text is not an integer")]),
        (f"int('-{'0' * 41}')", [(f"'-{'0' * 41}'", "the text has 41 digits; the maximum is 40")]),
        ("bool('F')", [("'F'", "the text is not one of 1, t, true, TRUE, True, 0, f, false, FALSE, False")]),
        ("round(1.5, 99)", [("99", "round() takes -34 to 34 digits")]),
        (
            "order.totl > 'a' && 1 == 'b' && nope",
            [
                ("order.totl", "order has no field 'totl'; did you mean 'total'?"),
                ("1 == 'b'", "an int never equals a string"),
                ("nope", "unknown variable 'nope'"),
            ],
        ),
    ],
)
def test_the_check_reports_every_fault_with_place_and_message(text, expected_faults):
    assert faults(text) == expected_faults


@pytest.mark.parametrize(
    ("expected_type", "text", "expected_faults"),
    [
        (BOOL, "count > 1", []),
        (BOOL, "payload.flag", []),
        (BOOL, "count", [("count", "the expression must be true or false, this is an int")]),
        (BOOL, "null", [("null", "the expression must be true or false, this is null")]),
        (DECIMAL, "count", []),
        (DECIMAL, "order.total > 1", [("order.total > 1", "the expression must be a decimal, this is true or false")]),
        (INT, "1.5", [("1.5", "the expression must be an int, this is a decimal")]),
        (STRING, "order.tags", [("order.tags", "the expression must be a string, this is a list<string>")]),
    ],
)
def test_an_expression_of_another_type_than_expected_is_a_fault(expected_type, text, expected_faults):
    assert faults(text, expected_type) == expected_faults


@pytest.mark.parametrize(
    ("text", "expected_warnings"),
    [
        ("count / 2", [("count / 2", "integer-division")]),
        ("count / 2.0", []),
        ("order.total / 2", []),
        ("[1, 'a']", [("'a'", "mixed-types")]),
        ("{'a': 1, 'b': 'c'}", [("'c'", "mixed-types")]),
        ("order.tags.all(count, count == 'a')", [("order.tags.all(count, count == 'a')", "shadowed-variable")]),
    ],
)
def test_suspicious_expressions_have_warnings(text, expected_warnings):
    assert faults(text) == []
    assert warnings(text) == expected_warnings


@pytest.mark.parametrize(
    "text",
    [
        "order.total == null",
        "null != order.paid",
        "count == null",
        "sponsor != null",
        "order.items == null",
        "null == null",
    ],
)
def test_values_of_all_types_may_be_compared_with_null(text):
    assert faults(text, BOOL) == []


def test_compiling_reports_every_fault():
    with pytest.raises(ExpressionError) as caught:
        compile_expression(parse("a + b"), ENVIRONMENT)
    assert len(caught.value.faults) == 2
    assert str(caught.value) == "unknown variable 'a'; unknown variable 'b'"
