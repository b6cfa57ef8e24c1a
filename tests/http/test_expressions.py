"""Expressions as text, tree and words over HTTP."""

from __future__ import annotations

import pytest

# The tree of `order.total >= 20`.
TREE = {
    "kind": "call",
    "function": ">=",
    "args": [
        {"kind": "select", "target": {"kind": "identifier", "name": "order"}, "field": "total"},
        {"kind": "constant", "type": "int", "value": 20},
    ],
}


@pytest.fixture
def parse(organization):
    """A function that parses expressions, which are texts or inputs, and returns the result of each."""

    def parse(*inputs, **more):
        expressions = [
            expression if isinstance(expression, dict) else {"expression": expression} for expression in inputs
        ]
        return organization.administration.post("/expressions/parse", {"inputs": expressions, **more}, expect=200)[
            "nodes"
        ]

    return parse


@pytest.fixture
def from_trees(organization):
    """A function that prints trees, which are nodes or inputs, as texts and returns the result of each."""

    def from_trees(*nodes, **more):
        trees = [node if "node" in node else {"node": node} for node in nodes]
        return organization.administration.post("/expressions/from-trees", {"inputs": trees, **more}, expect=200)[
            "nodes"
        ]

    return from_trees


def without_places(node):
    """The tree without the places of its nodes in the text."""
    if isinstance(node, dict):
        return {k: without_places(v) for k, v in node.items() if k not in ("start", "end", "at")}
    return [without_places(part) for part in node] if isinstance(node, list) else node


def test_a_text_is_parsed_to_a_tree_a_formatted_text_and_words(parse):
    [parse_result] = parse("order.total>=20")
    assert without_places(parse_result.pop("node")) == TREE
    assert parse_result == {
        "expression": "order.total >= 20",
        "labelledExpression": "order total is at least 20",
        "errors": [],
        "warnings": [],
        "isEffectExpression": False,
    }


@pytest.mark.parametrize(
    ("text", "label"),
    [
        (
            "order.items.exists(i, i.categoryCode == 'coffee' && i.quantity > 1)",
            'at least one of order items has (category code is "coffee" and quantity is more than 1)',
        ),
        (
            "member.customAttributes.level in [1, 2, 3] || !(event.tags.size() > 2)",
            "member attribute level is one of 1, 2, 3 or not (number of event tags is more than 2)",
        ),
        (
            "balances['points'] - 1.5 > 0.0 ? true : false",
            "true if balance of points − 1.5 is more than 0.0, otherwise false",
        ),
        ("matches(order.items[0], 'coffee')", '(element 0 of order items, counted from 0) matches "coffee"'),
        ("now - duration('24h') < event.externalEventDate", "the current time − 24h is before event date"),
        ("'a\\nb\\u00fc' + \"'\" == 'x'", '"a\nbü" + "\'" is "x"'),
    ],
)
def test_a_text_that_is_printed_from_its_tree_is_the_same_expression(parse, from_trees, text, label):
    [parse_result] = parse(text)
    assert parse_result["errors"] == []
    assert parse_result["labelledExpression"] == label
    [print_result] = from_trees(parse_result["node"])
    assert print_result == parse_result
    [result_of_printed_text] = parse(print_result["expression"])
    assert without_places(result_of_printed_text["node"]) == without_places(parse_result["node"])


def test_an_annotated_tree_has_the_type_of_each_node(parse, from_trees):
    [plain_result], [annotated_result] = parse("order.total >= 20"), parse("order.total >= 20", annotate=True)
    assert plain_result["node"] != annotated_result["node"]
    assert annotated_result["node"]["type"] == "bool"
    assert annotated_result["node"]["args"][0]["type"] == "decimal"
    assert annotated_result["node"]["at"] == [0, len("order.total >= 20")]
    assert "type" not in plain_result["node"]
    [print_result] = from_trees(plain_result["node"], annotate=True)
    assert print_result["node"] == annotated_result["node"]


def test_a_condition_must_be_a_bool_and_a_parameter_can_have_any_type(parse, from_trees):
    # The total is a decimal. An expression is a condition unless it is an effect expression.
    fault = {"code": "type", "message": "the expression must be true or false, this is a decimal"}
    fault_with_place = {**fault, "start": 0, "end": len("order.total")}
    condition, parameter = parse("order.total", {"expression": "order.total", "isEffectExpression": True})
    assert (condition["errors"], parameter["errors"]) == ([fault_with_place], [])
    assert condition["node"] == parameter["node"]
    assert (condition["isEffectExpression"], parameter["isEffectExpression"]) == (False, True)
    node = parameter["node"]
    condition, parameter = from_trees({"node": node}, {"node": node, "isEffectExpression": True})
    assert (condition["errors"], parameter["errors"]) == ([fault_with_place], [])


@pytest.mark.parametrize(
    ("text", "start", "end", "message"),
    [
        pytest.param("order.total >=", 14, 14, "unexpected end of expression", id="missing operand"),
        pytest.param("", 0, 0, "unexpected end of expression", id="empty"),
        pytest.param("1 +* 2", 3, 4, "unexpected '*'", id="two operators"),
        pytest.param("'open", 0, 5, "the text in quotes does not end", id="open quote"),
        pytest.param("\x07", 0, 1, r"unexpected character '\x07'", id="control character"),
    ],
)
def test_a_text_that_does_not_parse_gets_a_fault_and_no_tree(parse, text, start, end, message):
    valid_result, invalid_result = parse("true", text)
    assert valid_result["errors"] == []
    assert "node" not in invalid_result
    assert (invalid_result["expression"], invalid_result["labelledExpression"]) == (text, None)
    assert invalid_result["errors"] == [{"code": "syntax", "message": message, "start": start, "end": end}]


def test_a_text_with_unknown_names_gets_faults_and_a_tree(parse):
    [parse_result] = parse("order.colour == 'red' && ordr.total > 1")
    assert parse_result["node"]
    expression = parse_result["expression"]
    assert [expression[fault["start"] : fault["end"]] for fault in parse_result["errors"]] == ["order.colour", "ordr"]


KINDS = "constant, identifier, select, list, map, call, macro"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        pytest.param({}, f"/kind is not one of {KINDS}", id="empty"),
        pytest.param({"kind": "nothing"}, f"/kind is not one of {KINDS}", id="unknown kind"),
        pytest.param(
            {"kind": "call"}, "/function is not a text of at most 4000 characters", id="call without function"
        ),
        pytest.param(
            {"kind": "call", "function": "+", "args": [TREE]},
            "/args has the wrong number of operands for +",
            id="one argument of two",
        ),
        pytest.param(
            {"kind": "constant", "type": "int", "value": "twenty"},
            "/value is not an integer of 64 bits",
            id="text as int",
        ),
        pytest.param(
            {"kind": "constant", "type": "int", "value": 2**64},
            "/value is not an integer of 64 bits",
            id="int of more than 64 bits",
        ),
        pytest.param({"kind": "identifier", "name": "a b"}, "unexpected 'b'", id="name with a space"),
        pytest.param(
            {"kind": "identifier", "name": "true"},
            "the tree differs from the tree of its text 'true'",
            id="name is a keyword",
        ),
        pytest.param(
            {"kind": "select", "target": TREE, "field": ""}, "the text in quotes does not end", id="empty field"
        ),
        pytest.param({**TREE, "colour": "red"}, "/colour is not a field of call", id="unknown property"),
        pytest.param({**TREE, "args": None}, "/args is not a list", id="null arguments"),
        pytest.param({"kind": ["call"]}, f"/kind is not one of {KINDS}", id="list as kind"),
    ],
)
def test_an_invalid_tree_gets_a_fault_and_no_text(from_trees, node, message):
    valid_result, invalid_result = from_trees({"node": TREE}, {"node": node})
    assert valid_result["errors"] == []
    assert [fault["message"] for fault in invalid_result["errors"]] == [message]
    assert invalid_result["expression"] is None


def test_a_deep_tree_is_printed(from_trees):
    node = {"kind": "identifier", "name": "order"}
    for _ in range(60):
        node = {"kind": "call", "function": "!", "args": [node]}
    [print_result] = from_trees(node)
    assert print_result["expression"] == "!" * 60 + "order"


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        pytest.param({}, ["/inputs"], id="no inputs"),
        pytest.param({"inputs": []}, ["/inputs"], id="empty inputs"),
        pytest.param({"inputs": [{"expression": "true"}] * 101}, ["/inputs"], id="more than 100 inputs"),
        pytest.param(
            {"inputs": [{"expression": "x" * 4001}]}, ["/inputs/0/expression"], id="more than 4000 characters"
        ),
        pytest.param({"inputs": [{}]}, ["/inputs/0/expression"], id="no expression"),
        pytest.param({"inputs": [{"expression": 5}]}, ["/inputs/0/expression"], id="number"),
        pytest.param(
            {"inputs": [{"node": TREE}]}, ["/inputs/0/node", "/inputs/0/expression"], id="tree instead of text"
        ),
        pytest.param({"inputs": [{"expression": "true"}], "annotate": "yes"}, ["/annotate"], id="annotate is no bool"),
    ],
)
def test_a_malformed_request_is_refused_with_the_fields(organization, body, pointers):
    problem = organization.administration.post("/expressions/parse", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == pointers


def test_100_expressions_can_be_parsed_at_once(parse):
    assert len(parse(*["order.total >= 20 && member.active"] * 100)) == 100


def test_labels_use_everyday_words(parse):
    [parse_result] = parse("order.items.exists(i, i.total > 5.0) && tiers.size() > 0")
    assert parse_result["labelledExpression"] == (
        "at least one of order items has (total is more than 5.0) and number of member tiers is more than 0"
    )


def test_a_call_with_too_few_arguments_is_reported(parse):
    [parse_result] = parse("now.startOf() > now")
    assert [error["code"] for error in parse_result["errors"]] == ["type"]
    assert parse_result["labelledExpression"] == "the current time.startOf() is more than the current time"
