"""Literal keys of records in expressions: which ones are found, and how unknown ones are reported."""

from __future__ import annotations

import pytest

from domain.campaigns.references import has_variable, named_keys, names_variable, unknown_keys
from domain.expressions import parse
from tests.builders.campaigns import action, campaign, mint

BADGES = {"gold": "Gold badge", "silver": "Silver badge"}


def keys_in(text):
    """(variable, key) of each literal key in an expression."""
    return [(named_key.variable, named_key.key) for named_key in named_keys(parse(text))]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("balances.points > 5", [("balances", "points")]),
        ("balancesAfter['points'] > 5", [("balancesAfter", "points")]),
        ("badges[member.name] > 5", []),
        ("'gold' in badges", [("badges", "gold")]),
        ("!('gold' in badges)", [("badges", "gold")]),
        ("'vip' in tiers || 'vip' in audiences", [("tiers", "vip"), ("audiences", "vip")]),
        ("tiers == ['vip', 'new']", [("tiers", "vip"), ("tiers", "new")]),
        ("['vip'] != audiences", [("audiences", "vip")]),
        ("tiers[0] == 'vip'", [("tiers", "vip")]),
        ("'vip' != tiers[0]", [("tiers", "vip")]),
        ("tiers['vip']", []),
        ("badges == ['gold']", []),
        ("audiences.exists(a, a == 'vip')", [("audiences", "vip")]),
        ("audiences.exists(a, 'vip' != a)", [("audiences", "vip")]),
        ("audiences.exists(a, a in ['vip', 'new'])", [("audiences", "vip"), ("audiences", "new")]),
        ("missions.exists(m, m == 'm-1' && balances.points > 1)", [("missions", "m-1"), ("balances", "points")]),
        ("audiences.exists(a, tiers.exists(a, a == 'vip'))", [("tiers", "vip")]),
        (
            "audiences.exists(b, tiers.exists(a, a == 'vip' && b == 'new'))",
            [("tiers", "vip"), ("audiences", "new")],
        ),
        ("order.items.exists(balances, balances.points > 1)", []),
        ("order.items.exists(a, a.code == 'vip')", []),
        ("audiences.exists(a, order.tags.exists(a, a == 'vip'))", []),
        ("order.balances.points > 5", []),
        ("'vip' in order.tags", []),
        ("5 in tiers", []),
        ("tiers.size() == 5", []),
        ("tiers.x", []),
    ],
)
def test_keys_are_those_that_a_keyed_variable_is_compared_with(text, keys):
    assert sorted(keys_in(text)) == sorted(keys)


def details(text, names_by_key):
    """The faults of an expression if these are the existing badges."""
    return [fault.detail for fault in unknown_keys([("/rules/expression", parse(text))], {"badges": names_by_key})]


def test_an_unknown_key_is_refused_where_it_is_written():
    text = "1 > 0 && badges.golden > 1"
    [fault] = unknown_keys([("/rules/expression", parse(text))], {"badges": BADGES})
    assert (fault.pointer, fault.code) == ("/rules/expression", "unknown-key")
    assert text[fault.start : fault.end] == "badges.golden"
    assert details("badges.gold > 1", BADGES) == []
    # Variables without known keys are not checked.
    assert details("balances.nothing > 1", BADGES) == []


def test_the_fault_suggests_a_similar_key():
    list_of_keys = "The existing keys are gold (Gold badge), silver (Silver badge)."
    [by_key] = details("badges.golden > 1", BADGES)
    assert by_key.endswith(f'"golden", which is the key of no badge. Did you mean gold (Gold badge)? {list_of_keys}')
    [by_name] = details("badges['silver badge!'] > 1", {"b1": "Gold badge", "b2": "Silver badge"})
    assert "Did you mean b2 (Silver badge)? The existing keys are" in by_name
    [without_suggestion] = details("badges.xyz > 1", BADGES)
    assert without_suggestion.endswith(f"the key of no badge. {list_of_keys}")
    [without_keys] = details("badges.gold > 1", {})
    assert without_keys.endswith("the key of no badge. There is none at all.")


def test_the_fault_lists_20_keys():
    [detail_of_20] = details("badges.xyz > 1", {f"key-{n}": "N" for n in range(20)})
    assert detail_of_20.endswith("key-19 (N).")
    [detail_of_22] = details("badges.xyz > 1", {f"key-{n}": "N" for n in range(22)})
    assert detail_of_22.endswith("key-19 (N) and 2 more.")


def test_a_long_key_is_cut():
    [detail] = details(f"badges.{'x' * 70} > 1", BADGES)
    assert f'"{"x" * 60}",' in detail


def test_an_expression_uses_a_variable_anywhere_in_it():
    assert has_variable(parse("1 + (order.total > 2 ? now.getHours() : 0)"), "now")
    assert not has_variable(parse("order.now > 2"), "now")


def test_a_campaign_uses_the_variables_of_its_rules_and_effects():
    in_rule = campaign(action(1, mint(1)), action(2, mint(1), rule="order.total > 2"))
    in_effect = campaign(action(1, mint(1, description=("=", "'x'")), mint(("=", "order.total"))))
    for one_campaign in (in_rule, in_effect):
        assert names_variable(one_campaign, "order")
        assert not names_variable(one_campaign, "member")
    assert not names_variable(campaign(action(1, mint(1))), "order")
