"""Expressions as trees in JSON: how they are read, written and limited."""

import copy
import json
from decimal import Decimal

import pytest

from domain.expressions import ExpressionError, check, from_tree, parse, to_text, to_tree
from domain.expressions.limits import MAX_DEPTH
from domain.expressions.tree import Constant, Identifier, all_nodes
from tests.domain.expressions.expression_cases import ENVIRONMENT

TOO_LARGE = "the tree is nested more than 64 deep or has more than 4000 nodes"
TEXTS = [
    "a && (b && c) || ((d)) ? x : (y ? 1 : -2.5e3)",
    "-(5) - -9223372036854775808",
    "a.exists(i, (i.`q-x`) > 1 && !(i.sku in ['a', \"b\", r'x', \"\\x41\"]))",
    "(a - b) - c - (d - e)",
    "(a ? b : c) ? d : e",
    "has((a).b)",
    "(-5).f(--5, --x, 0xff, 1.50, 1e3, .5)",
    "x.map(i, i > 1, i)[2][a ? b : c]",
    "{'a': [1, null], 2: {}}",
    "(a || b) && c",
    "!(a && b) == !!a",
    "-(-(5)) + (-x).y",
    "(a in b) in c",
    "'''a\nb'''",
    '"é😀\\u0007"',
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_tree_of_a_text_has_the_same_text(text):
    node = parse(text)
    tree = json.loads(json.dumps(to_tree(node)))
    assert to_text(node) == text
    assert to_text(from_tree(tree)) == text
    assert from_tree(tree) == node


def test_all_nodes_are_in_the_order_of_the_text():
    text = "a.b(c, 1).exists(i, d && {e: 2}[f] > 3) ? [g, 4] : h"
    nodes = list(all_nodes(parse(text)))
    leaves = [node for node in nodes if isinstance(node, Constant | Identifier)]
    assert [text[node.start : node.end] for node in leaves] == ["a", "c", "1", "d", "e", "2", "f", "3", "g", "4", "h"]
    assert text[nodes[0].start : nodes[0].end] == text


def test_a_tree_has_a_kind_and_fields_for_each_node():
    assert to_tree(parse("order.total >= 50.5 && !(x in ['a'])")) == {
        "kind": "call",
        "function": "&&",
        "args": [
            {
                "kind": "call",
                "function": ">=",
                "args": [
                    {"kind": "select", "target": {"kind": "identifier", "name": "order"}, "field": "total"},
                    {"kind": "constant", "type": "decimal", "value": "50.5"},
                ],
            },
            {
                "kind": "call",
                "function": "!",
                "args": [
                    {
                        "kind": "call",
                        "function": "in",
                        "args": [
                            {"kind": "identifier", "name": "x"},
                            {
                                "kind": "list",
                                "items": [{"kind": "constant", "type": "string", "value": "a", "text": "'a'"}],
                            },
                        ],
                    }
                ],
            },
        ],
    }


def test_large_integers_and_decimals_are_texts():
    assert to_tree(parse("9007199254740993"))["value"] == "9007199254740993"
    assert to_tree(parse("9007199254740991"))["value"] == 9007199254740991
    assert to_tree(parse("18446744073709.123456"))["value"] == "18446744073709.123456"


def test_annotations_of_a_tree_are_ignored_when_it_is_read():
    text = "order.items.exists(i, i.quantity > 1)"
    node = parse(text)
    tree = to_tree(node, check(node, ENVIRONMENT))
    assert tree["type"] == "bool"
    assert tree["at"] == [0, len(text)]
    assert (tree["target"]["type"], tree["target"]["at"]) == ("list<item>", [0, 11])
    assert tree["body"]["args"][0]["type"] == "int"
    assert from_tree(tree) == node
    assert to_tree(node, annotate=True)["at"] == [0, len(text)]


def test_a_tree_without_parentheses_and_source_texts_is_written_with_all_parentheses_that_it_needs():
    tree = {
        "kind": "call",
        "function": "*",
        "args": [
            {
                "kind": "call",
                "function": "+",
                "args": [
                    {"kind": "constant", "type": "int", "value": "1"},
                    {"kind": "constant", "type": "decimal", "value": Decimal(2)},
                ],
            },
            {"kind": "constant", "type": "string", "value": 'quo"te\n'},
        ],
    }
    assert to_text(from_tree(tree)) == '(1 + 2.0) * "quo\\"te\\n"'


ONE = {"kind": "constant", "type": "int", "value": 1}
NAME = {"kind": "identifier", "name": "a"}
HOSTILE = [
    None,
    [],
    "a",
    7,
    {},
    {"kind": []},
    {"kind": "lambda"},
    {"kind": "identifier"},
    {"kind": "identifier", "name": 5},
    {"kind": "identifier", "name": "a b"},
    {"kind": "identifier", "name": "true"},
    {"kind": "identifier", "name": "__import__('os')"},
    {"kind": "identifier", "name": ""},
    {"kind": "identifier", "name": "if"},
    {"kind": "identifier", "name": "a", "extra": 1},
    {"kind": "identifier", "name": "a", "parens": -1},
    {"kind": "identifier", "name": "a", "parens": True},
    {"kind": "identifier", "name": "a", "parens": 10**9},
    {"kind": "identifier", "name": "\ud800"},
    {"kind": "select", "target": NAME, "field": "x`y"},
    {"kind": "select", "target": NAME, "field": ""},
    {"kind": "select", "target": NAME, "field": "b\n"},
    {"kind": "select", "field": "b"},
    {"kind": "constant", "type": "int", "value": True},
    {"kind": "constant", "type": "int", "value": 1.5},
    {"kind": "constant", "type": "int", "value": 2**63},
    {"kind": "constant", "type": "int", "value": 10**5000},
    {"kind": "constant", "type": "int", "value": "--5"},
    {"kind": "constant", "type": "int", "value": "٥"},
    {"kind": "constant", "type": "int", "value": 1, "text": "2"},
    {"kind": "constant", "type": "int", "value": 1, "text": "1 + 1"},
    {"kind": "constant", "type": "int", "value": 1, "text": "1 // x"},
    {"kind": "constant", "type": "decimal", "value": 1.5},
    {"kind": "constant", "type": "decimal", "value": "NaN"},
    {"kind": "constant", "type": "decimal", "value": "1e999999999"},
    {"kind": "constant", "type": "decimal", "value": "0." + "1" * 60},
    {"kind": "constant", "type": "decimal", "value": Decimal("Infinity")},
    {"kind": "constant", "type": "string", "value": None},
    {"kind": "constant", "type": "string", "value": "a\0"},
    {"kind": "constant", "type": "string", "value": "\ud800"},
    {"kind": "constant", "type": "string", "value": "a" * 10**6},
    {"kind": "constant", "type": "string", "value": "a", "text": "'b'"},
    {"kind": "constant", "type": "bool", "value": 1},
    {"kind": "constant", "type": "null", "value": 0},
    {"kind": "constant", "type": "bytes", "value": "a"},
    {"kind": "constant", "type": ["int"], "value": 1},
    {"kind": "list", "items": {"a": 1}},
    {"kind": "list", "items": [ONE] * 5000},
    {"kind": "map", "entries": [[ONE, ONE]]},
    {"kind": "map", "entries": [{"key": ONE}]},
    {"kind": "call", "function": "&&", "args": [NAME]},
    {"kind": "call", "function": "?:", "args": [NAME, NAME]},
    {"kind": "call", "function": "!", "args": []},
    {"kind": "call", "function": "[]", "args": [NAME]},
    {"kind": "call", "function": "==", "args": [NAME] * 3},
    {"kind": "call", "function": "&&", "args": [NAME, NAME], "target": NAME},
    {"kind": "call", "function": "f(x); g", "args": []},
    {"kind": "call", "function": "has", "args": [NAME]},
    {"kind": "call", "function": "all", "args": [NAME, NAME], "target": NAME},
    {"kind": "call", "function": "-", "args": [{**ONE, "parens": 0}], "target": None},
    {"kind": "macro", "function": "reduce", "target": NAME, "variable": "x", "body": NAME},
    {"kind": "macro", "function": "all", "target": NAME, "variable": "x.y", "body": NAME},
    {"kind": "macro", "function": "all", "target": NAME, "variable": "x, true) || (a", "body": NAME},
    {"kind": "macro", "function": "all", "target": NAME, "variable": "x", "condition": NAME, "body": NAME},
]


@pytest.mark.parametrize("tree", HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_hostile_trees_are_refused(tree):
    with pytest.raises(ExpressionError) as caught:
        from_tree(tree)
    assert caught.value.faults


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (None, "the tree is not an object"),
        ({"kind": "call", "function": "f", "args": 7}, "/args is not a list"),
        ({"kind": "list", "items": [7]}, "/items/0 is not an object"),
        ({"kind": "identifier", "name": 5}, "/name is not a text of at most 4000 characters"),
        ({"kind": "identifier", "name": "a", "extra": 1}, "/extra is not a field of identifier"),
        ({"kind": "identifier", "name": "a", "parens": -1}, "/parens is not a whole number from 0 to 4000"),
        ({"kind": "identifier", "name": "a", "parens": 4001}, "/parens is not a whole number from 0 to 4000"),
        ({"kind": "constant", "type": "int", "value": 1.5}, "/value is not an integer of 64 bits"),
        ({"kind": "constant", "type": "decimal", "value": "NaN"}, "/value is not a decimal written as a text"),
        ({"kind": "constant", "type": "bool", "value": 1}, "/value is neither true nor false"),
        ({"kind": "constant", "type": "null", "value": 0}, "/value is not null"),
        ({"kind": "call", "function": "!", "args": []}, "/args has the wrong number of operands for !"),
        ({"kind": "map", "entries": [[ONE, ONE]]}, "/entries/0 is not an object with key and value"),
        (
            {"kind": "map", "entries": [{"key": ONE, "value": ONE, "extra": 1}]},
            "/entries/0 is not an object with key and value",
        ),
        (
            {"kind": "macro", "function": "any", "target": NAME, "variable": "a", "body": NAME},
            "/function is not one of all, exists, exists_one, filter, map",
        ),
    ],
)
def test_the_fault_of_a_tree_is_a_sentence(tree, message):
    with pytest.raises(ExpressionError) as caught:
        from_tree(tree)
    assert [fault.message for fault in caught.value.faults] == [message]


def test_deep_trees_are_refused():
    tree = NAME
    for _ in range(20_000):
        tree = {"kind": "call", "function": "!", "args": [tree]}
    with pytest.raises(ExpressionError) as caught:
        from_tree(tree)
    assert caught.value.faults[0].code == "limit"
    while tree is not NAME:  # Python cannot free so deep a tree at once.
        tree = tree["args"].pop()


def test_the_deepest_tree_is_read():
    node = parse("!" * (MAX_DEPTH - 1) + "a")
    assert from_tree(to_tree(node)) == node


def test_reading_a_tree_does_not_change_it():
    tree = to_tree(parse("(a + b) * 'x'"))
    tree_before = copy.deepcopy(tree)
    from_tree(tree)
    assert tree == tree_before


@pytest.mark.parametrize(
    "parent_of",
    [
        lambda tree: {"kind": "select", "target": tree, "field": "b"},
        lambda tree: {"kind": "list", "items": [tree]},
        lambda tree: {"kind": "macro", "function": "all", "target": NAME, "variable": "x", "body": tree},
        lambda tree: {"kind": "map", "entries": [{"key": NAME, "value": tree}]},
        lambda tree: {"kind": "map", "entries": [{"key": tree, "value": NAME}]},
    ],
    ids=["select", "list", "macro", "map", "key"],
)
def test_any_kind_of_node_counts_against_the_maximum_depth_of_a_tree(parent_of):
    tree = NAME
    for _ in range(MAX_DEPTH - 1):
        tree = parent_of(tree)
    from_tree(tree)
    # Deeper trees are refused as well, even beyond the thousand levels that Python can follow by recursion.
    for level in range(5_000):
        tree = parent_of(tree)
        if level in (0, 4_999):
            with pytest.raises(ExpressionError) as caught:
                from_tree(tree)
            assert [(fault.code, fault.message) for fault in caught.value.faults] == [("limit", TOO_LARGE)]


def test_a_tree_has_at_most_4000_nodes():
    def message(count):
        with pytest.raises(ExpressionError) as caught:
            from_tree({"kind": "list", "items": [NAME] * (count - 1)})
        return caught.value.faults[0].message

    assert message(4_000) == "the expression of the tree has more than 4000 characters"
    assert message(4_001) == TOO_LARGE


def test_a_long_field_name_is_reported_with_its_first_40_characters():
    with pytest.raises(ExpressionError) as caught:
        from_tree({**NAME, "m" * 50: 1})
    assert [fault.message for fault in caught.value.faults] == [f"/{'m' * 40} is not a field of identifier"]


@pytest.mark.parametrize(
    ("value", "number"), [("0" * 20, 0), (2**62 + 1, 2**62 + 1), (2**63 - 1, 2**63 - 1), ("-5", -5)]
)
def test_an_integer_may_be_written_as_a_text_of_20_characters(value, number):
    assert from_tree({"kind": "constant", "type": "int", "value": value}).value == number


@pytest.mark.parametrize("value", ["0" * 21, "+5", "5.0", 2**63 + 1, True, None])
def test_other_values_are_no_integers(value):
    with pytest.raises(ExpressionError) as caught:
        from_tree({"kind": "constant", "type": "int", "value": value})
    assert [fault.message for fault in caught.value.faults] == ["/value is not an integer of 64 bits"]


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("bool", True, "true"),
        ("bool", False, "false"),
        ("null", None, "null"),
        ("decimal", "5", "5.0"),
        ("string", 'a"b\\c\n', '"a\\"b\\\\c\\n"'),
        # Characters that cannot be printed are written as escapes.
        ("string", "\u200b\uffff", '"\\u200b\\uffff"'),
        ("string", "\U000e0001", '"\\U000e0001"'),
    ],
)
def test_a_constant_without_its_text_is_written_in_its_usual_form(kind, value, text):
    assert to_text(from_tree({"kind": "constant", "type": kind, "value": value})) == text


def test_a_decimal_may_have_100_characters():
    assert from_tree({"kind": "constant", "type": "decimal", "value": "1.5".zfill(100)}).value == Decimal("1.5")


@pytest.mark.parametrize("value", ["ten", "1,5", "", "1_0", "٤", " 1", "1\n", "1" * 101])
def test_a_decimal_that_is_not_the_text_of_a_number_is_refused(value):
    with pytest.raises(ExpressionError) as caught:
        from_tree({"kind": "constant", "type": "decimal", "value": value})
    assert [fault.message for fault in caught.value.faults] == ["/value is not a decimal written as a text"]


def test_a_tree_that_differs_from_its_text_is_refused_with_200_characters_of_the_text():
    text = "'" + "b" * 300 + "'"
    with pytest.raises(ExpressionError) as caught:
        from_tree({"kind": "constant", "type": "string", "value": "a", "text": text})
    [fault] = caught.value.faults
    assert (fault.code, fault.message) == ("tree", f"the tree differs from the tree of its text {text[:200]!r}")
