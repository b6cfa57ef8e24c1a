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
    "text",
    [
        "order.items.exists(i, i.categoryCode == 'coffee' && i.quantity > 1)",
        "member.customAttributes.level in [1, 2, 3] || !(event.tags.size() > 2)",
        "balances['points'] - 1.5 > 0.0 ? true : false",
        "matches(order.items[0], 'coffee')",
        "now - duration('24h') < event.externalEventDate",
        "'a\\nb\\u00fc' + \"'\" == 'x'",
    ],
)
def test_a_text_that_is_printed_from_its_tree_is_the_same_expression(parse, from_trees, text):
    [parse_result] = parse(text)
    assert parse_result["errors"] == []
    assert parse_result["labelledExpression"]
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
    condition, parameter = parse("order.total", {"expression": "order.total", "isEffectExpression": True})
    assert condition["errors"]
    assert condition["node"]
    assert (condition["isEffectExpression"], parameter["isEffectExpression"]) == (False, True)
    assert parameter["errors"] == []
    node = parameter["node"]
    condition, parameter = from_trees({"node": node}, {"node": node, "isEffectExpression": True})
    assert condition["errors"]
    assert parameter["errors"] == []


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        pytest.param("order.total >=", 14, 14, id="missing operand"),
        pytest.param("", 0, 0, id="empty"),
        pytest.param("1 +* 2", 3, 4, id="two operators"),
        # The places of these two are not compared.
        pytest.param("'open", None, None, id="open quote"),
        pytest.param("\x07", None, None, id="control character"),
    ],
)
def test_a_text_that_does_not_parse_gets_faults_and_no_tree(parse, text, start, end):
    valid_result, invalid_result = parse("true", text)
    assert valid_result["errors"] == []
    assert "node" not in invalid_result
    assert (invalid_result["expression"], invalid_result["labelledExpression"]) == (text, None)
    [fault, *_] = invalid_result["errors"]
    assert fault["message"]
    assert fault["code"]
    if start is not None:
        assert (fault["start"], fault["end"]) == (start, end)


def test_a_text_with_unknown_names_gets_faults_and_a_tree(parse):
    [parse_result] = parse("order.colour == 'red' && ordr.total > 1")
    assert parse_result["node"]
    expression = parse_result["expression"]
    assert [expression[fault["start"] : fault["end"]] for fault in parse_result["errors"]] == ["order.colour", "ordr"]


@pytest.mark.parametrize(
    "node",
    [
        pytest.param({}, id="empty"),
        pytest.param({"kind": "nothing"}, id="unknown kind"),
        pytest.param({"kind": "call"}, id="call without function"),
        pytest.param({"kind": "call", "function": "+", "args": [TREE]}, id="one argument of two"),
        pytest.param({"kind": "constant", "type": "int", "value": "twenty"}, id="text as int"),
        pytest.param({"kind": "constant", "type": "int", "value": 2**64}, id="int of more than 64 bits"),
        pytest.param({"kind": "identifier", "name": "a b"}, id="name with a space"),
        pytest.param({"kind": "identifier", "name": "true"}, id="name is a keyword"),
        pytest.param({"kind": "select", "target": TREE, "field": ""}, id="empty field"),
        pytest.param({**TREE, "colour": "red"}, id="unknown property"),
        pytest.param({**TREE, "args": None}, id="null arguments"),
        pytest.param({"kind": ["call"]}, id="list as kind"),
    ],
)
def test_an_invalid_tree_gets_faults(from_trees, node):
    valid_result, invalid_result = from_trees({"node": TREE}, {"node": node})
    assert valid_result["errors"] == []
    assert invalid_result["errors"]
    assert invalid_result["expression"] is None


def test_a_deep_tree_causes_no_server_error(organization):
    node = {"kind": "identifier", "name": "order"}
    for _ in range(60):
        node = {"kind": "call", "function": "!", "args": [node]}
    body = {"inputs": [{"node": node}]}
    reply = organization.administration.request("POST", "/expressions/from-trees", body)
    assert reply.status in (200, 400)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param({}, id="no inputs"),
        pytest.param({"inputs": []}, id="empty inputs"),
        pytest.param({"inputs": [{"expression": "true"}] * 101}, id="more than 100 inputs"),
        pytest.param({"inputs": [{"expression": "x" * 4001}]}, id="more than 4000 characters"),
        pytest.param({"inputs": [{}]}, id="no expression"),
        pytest.param({"inputs": [{"expression": 5}]}, id="number"),
        pytest.param({"inputs": [{"node": TREE}]}, id="tree instead of text"),
        pytest.param({"inputs": [{"expression": "true"}], "annotate": "yes"}, id="annotate is no bool"),
    ],
)
def test_malformed_requests_are_refused(organization, body):
    organization.administration.post("/expressions/parse", body, expect=400)


def test_100_expressions_can_be_parsed_at_once(parse):
    assert len(parse(*["order.total >= 20 && member.active"] * 100)) == 100


def test_labels_use_everyday_words(parse):
    [parse_result] = parse("order.items.exists(i, i.total > 5.0) && tiers.size() > 0")
    assert "member tiers" in parse_result["labelledExpression"]
    assert "items" in parse_result["labelledExpression"]


def test_a_call_with_too_few_arguments_is_reported(parse):
    [parse_result] = parse("now.startOf() > now")
    assert [error["code"] for error in parse_result["errors"]] == ["type"]
    assert parse_result["labelledExpression"] == "the current time.startOf() is more than the current time"
