"""Literal keys of matchers in an action, and matchers and audiences in expressions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.campaigns.checks import faults_of_length
from domain.campaigns.compiled import compile_effects, compile_rules
from domain.campaigns.references import campaign_reads_orders, faults_of_matches, sources_of, unknown_matchers
from domain.expressions import MAX_TEXTS, parse, to_tree
from domain.matchers import compile_matcher
from tests.builders.campaigns import Bench, action, campaign, campaign_action_and_reason, facts, mint, statuses

HOT = compile_matcher(
    {"operator": "AND", "conditions": [{"field": "categoryCode", "operator": "equals", "value": "hot"}]}
)
ITEM = {
    "productCode": None,
    "description": None,
    "customAttributes": {},
    "total": None,
    "amount": None,
    "quantity": None,
    "discountedTotal": None,
    "subTotal": None,
    "categoryCode": None,
}
RULE = 'order.items.exists(i, matches(i, "hot"))'


def faults(rules, *effects, matcher_keys=()):
    """(pointer, code, start, end) of each unknown key of a matcher."""
    node, _ = compile_rules(rules)
    items = {"items": list(effects)}
    references = unknown_matchers(sources_of(rules, node, items, compile_effects(items)), matcher_keys)
    return [(fault.pointer, fault.code, fault.start, fault.end) for fault in references]


def test_a_rule_may_use_the_key_of_an_existing_matcher():
    assert faults({"expression": RULE}, matcher_keys=["hot"]) == []
    assert faults({}, mint(1)) == []


def test_an_unknown_matcher_key_is_reported_at_its_place_in_the_rule():
    start = RULE.index('"hot"')
    assert faults({"expression": RULE}) == [("/rules/expression", "unknown-matcher", start, start + len('"hot"'))]
    [(pointer, *_)] = faults({"node": to_tree(parse(RULE))})
    assert pointer == "/rules/node"


def test_an_unknown_matcher_key_is_reported_at_the_parameter_of_the_effect():
    counting_effect = mint(
        ("=", 'order.items.filter(i, !matches(i, "cold") && matches(i, "hot")).size()'), description="x"
    )
    assert [fault[:2] for fault in faults({}, mint(1), counting_effect, matcher_keys=["hot"])] == [
        ("/effects/items/1/params/0/expression", "unknown-matcher")
    ]
    # Without matchers, the rule has one unknown key, and the effect has two.
    assert len(faults({"expression": RULE}, counting_effect)) == 3


def test_only_literal_keys_are_checked():
    assert faults({"expression": "order.items.exists(i, matches(i, event.description))"}) == []
    assert faults({"expression": 'order.channel.matches("hot") && order.items.exists(i, i.description == "hot")'}) == []


def order(*categories):
    """An event with an order of items of these categories."""
    event = facts("10")
    event.context["order"]["items"] = [{**ITEM, "categoryCode": category} for category in categories]
    return event


@pytest.mark.parametrize(("categories", "applies"), [(["hot"], True), (["cold", "hot"], True), (["cold"], False)])
def test_a_rule_uses_the_matcher_whose_key_it_names(categories, applies):
    bench = Bench(campaign(action(1, mint(5), rule=RULE)), matchers={"hot": HOT})
    assert statuses(bench.run(order(*categories))) == ([(1, "executed")] if applies else [])


def test_a_missing_matcher_is_an_error_of_the_evaluation():
    bench = Bench(campaign(action(1, mint(5), rule=RULE)), matchers={"cold": HOT})
    evaluation = bench.run(order("hot"), explaining=True, tracing=True)
    assert campaign_action_and_reason(evaluation) == [(1, None, None), (1, 1, "CONDITION_ERROR")]
    assert "there is no matcher hot" in str(evaluation.explanations[-1].trace)


@pytest.mark.parametrize(
    ("topics", "event_type", "is_refused"),
    # Without types the campaign evaluates all events. A custom type may have items.
    [
        ((), None, False),
        (("member-generic-event",), None, True),
        ((), "member-generic-event", True),
        (("member-generic-event",), "member-purchase-order-created", False),
        (("till-opened",), None, False),
    ],
)
def test_the_function_matches_is_refused_in_a_campaign_whose_event_types_never_have_items(
    topics, event_type, is_refused
):
    one_campaign = replace(campaign().record, enabled_topics=topics, event_type=event_type)
    sources = [("/rules/expression", parse(RULE))]
    assert [fault.pointer for fault in faults_of_matches(one_campaign, sources)] == (["/rules"] if is_refused else [])
    assert faults_of_matches(one_campaign, [("/rules/expression", parse("true"))]) == []
    assert faults_of_matches(one_campaign, [("/rules/expression", parse("event.eventType.matches('a')"))]) == []


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("member.orderCount > 3", True),
        ("sponsor.lastOrderAt == null", True),
        ("order.total > 1.0 && (member.orderCount == 0 || false)", True),
        ("[member].exists(m, m.orderCount > 3)", True),
        ("event.payload.person.orderCount > 3", True),
        ("event.payload.orderCount > 3", False),
        ("member.memberId > 3", False),
        ("order.channel == 'orderCount'", False),
        ("true", False),
    ],
)
def test_earlier_orders_are_read_only_for_expressions_that_name_them(text, reads):
    """A field `orderCount` within free data may belong to a member, so it counts, too."""
    in_rule = campaign(action(1, mint(1)), action(2, mint(1), rule=text))
    in_effect = campaign(action(1, mint(1, description=("=", f"({text}) ? 'a' : 'b'"))))
    assert campaign_reads_orders(in_rule) is reads
    assert campaign_reads_orders(in_effect) is reads


@pytest.mark.parametrize(("length", "pointers"), [(MAX_TEXTS, []), (MAX_TEXTS + 1, ["/effects"])])
def test_all_expressions_of_the_effects_share_a_maximum_length(length, pointers):
    halves = ("1" * (length // 2), "1" * (length - length // 2))
    effects = {"items": [{"params": [{"id": "amount", "expression": half}, {"id": "tags"}]} for half in halves]}
    assert [fault.pointer for fault in faults_of_length(effects)] == pointers
