"""Expressions as text, tree and words over HTTP."""

from __future__ import annotations

import pytest

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
    [answer] = parse("order.total>=20")
    assert without_places(answer.pop("node")) == TREE
    assert answer == {
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
    [second_result] = parse(print_result["expression"])
    assert without_places(second_result["node"]) == without_places(parse_result["node"])


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
    condition, parameter = parse("order.total", {"expression": "order.total", "isEffectExpression": True})
    assert condition["errors"]
    assert condition["node"]
    assert (condition["isEffectExpression"], parameter["isEffectExpression"]) == (False, True)
    assert parameter["errors"] == []
    node = parameter["node"]
    condition, parameter = from_trees({"node": node}, {"node": node, "isEffectExpression": True})
    assert (bool(condition["errors"]), bool(parameter["errors"])) == (True, False)


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("order.total >=", 14, 14), ("", 0, 0), ("1 +* 2", 3, 4), ("'open", None, None), ("\x07", None, None)],
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
    [answer] = parse("order.colour == 'red' && ordr.total > 1")
    assert answer["node"]
    text = answer["expression"]
    assert [text[fault["start"] : fault["end"]] for fault in answer["errors"]] == ["order.colour", "ordr"]


@pytest.mark.parametrize(
    "node",
    [
        {},
        {"kind": "nothing"},
        {"kind": "call"},
        {"kind": "call", "function": "+", "args": [TREE]},
        {"kind": "constant", "type": "int", "value": "twenty"},
        {"kind": "constant", "type": "int", "value": 2**64},
        {"kind": "identifier", "name": "a b"},
        {"kind": "identifier", "name": "true"},
        {"kind": "select", "target": TREE, "field": ""},
        {**TREE, "colour": "red"},
        {**TREE, "args": None},
        {"kind": ["call"]},
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
        {},
        {"inputs": []},
        {"inputs": [{"expression": "true"}] * 101},
        {"inputs": [{"expression": "x" * 4001}]},
        {"inputs": [{}]},
        {"inputs": [{"expression": 5}]},
        {"inputs": [{"node": TREE}]},
        {"inputs": [{"expression": "true"}], "annotate": "yes"},
    ],
)
def test_malformed_requests_are_refused(organization, body):
    organization.administration.post("/expressions/parse", body, expect=400)


def test_100_expressions_can_be_parsed_at_once(parse):
    assert len(parse(*["order.total >= 20 && member.active"] * 100)) == 100


def test_labels_use_everyday_words(parse):
    [answer] = parse("order.items.exists(i, i.total > 5.0) && tiers.size() > 0")
    assert "member tiers" in answer["labelledExpression"]
    assert "items" in answer["labelledExpression"]


def test_a_call_with_too_few_arguments_is_reported(parse):
    [answer] = parse("now.startOf() > now")
    assert [error["code"] for error in answer["errors"]] == ["type"]
    assert answer["labelledExpression"] == "the current time.startOf() is more than the current time"
