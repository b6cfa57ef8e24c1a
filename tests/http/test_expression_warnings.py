"""Warnings about expressions, in the responses of every call that saves or parses them."""

from __future__ import annotations

import pytest

from tests.builders import missions
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, running

ADVICE = "`now` is when the event is evaluated; use `event.externalEventDate`"
MIDNIGHT = "now.getHours() == 0"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def actions_path(shop):
    """The path of the actions of a new campaign."""
    return f"/campaigns/{shop.campaign()['campaignId']}/actions"


def now_warning(pointer, *, start, end):
    """The warning about `now` in a condition at the pointer, from the character `start` up to `end`."""
    return {"code": "NOW_IN_CONDITION", "message": ADVICE, "pointer": pointer, "start": start, "end": end}


def parse_warnings(shop, *inputs):
    """The warnings about each of the expressions, which are texts or inputs."""
    body = {
        "inputs": [expression if isinstance(expression, dict) else {"expression": expression} for expression in inputs]
    }
    return [node["warnings"] for node in shop.administration.post("/expressions/parse", body, expect=200)["nodes"]]


def test_a_rule_about_the_hour_of_now_is_saved_with_a_warning(shop, actions_path):
    response = shop.administration.post(actions_path, running(mint(1), rule=MIDNIGHT), expect=201)
    assert response["warnings"] == [now_warning("/rules/expression", start=0, end=len("now.getHours()"))]
    path = f"{actions_path}/{response['action']['actionId']}"
    assert shop.administration.get(path) == {"action": response["action"]}
    update = shop.administration.put(path, running(mint(2), rule=f"true || {MIDNIGHT}"), expect=200)
    assert update["warnings"] == [
        now_warning("/rules/expression", start=len("true || "), end=len("true || now.getHours()"))
    ]
    # An update with the same rule repeats the warning.
    repeated_update = shop.administration.put(path, running(mint(2), rule=f"true || {MIDNIGHT}"), expect=200)
    assert repeated_update["warnings"] == update["warnings"]


def test_a_rule_as_a_tree_has_the_same_warning(shop, actions_path):
    parsing = shop.administration.post("/expressions/parse", {"inputs": [{"expression": MIDNIGHT}]}, expect=200)
    tree = parsing["nodes"][0]["node"]
    body = {**running(mint(1)), "rules": {"node": tree}}
    response = shop.administration.post(actions_path, body, expect=201)
    assert response["warnings"] == [now_warning("/rules/node", start=0, end=len("now.getHours()"))]


def test_effects_may_depend_on_now_and_have_their_own_warnings(shop, actions_path):
    mint_that_expires = mint(("=", "7 / 2"), expirationDate=("=", 'now.endOf("quarter")'))
    response = shop.administration.post(actions_path, running(mint_that_expires), expect=201)
    # The only warning is about the division, not about `now`.
    [warning] = response["warnings"]
    assert (warning["code"], warning["pointer"]) == (
        "integer-division",
        "/effects/items/0/params/0/expression",
    )


def test_a_count_expression_that_depends_on_now_is_saved_with_a_warning(shop):
    body = missions.body(countExpression='now.startOf("day") == now ? 1 : 2')
    response = shop.administration.post("/missions", body, expect=201)
    assert response["warnings"] == [now_warning("/countExpression", start=0, end=len('now.startOf("day")'))]
    path = f"/missions/{response['mission']['missionId']}"
    assert shop.administration.get(path) == {"mission": response["mission"]}
    for expression in ("event.externalEventDate.getDate()", None):
        body = missions.body(countExpression=expression)
        assert shop.administration.put(path, body, expect=200)["warnings"] == []


@pytest.mark.parametrize(
    ("rule", "expected_sources"),
    [
        ("now.endOf('day') > now", ["now.endOf('day')"]),
        ("(now).getDayOfWeek('UTC') in [6, 7]", ["(now).getDayOfWeek('UTC')"]),
        ("!(now.getMonth() > 5) && now.startOf('year') < now", ["now.getMonth()", "now.startOf('year')"]),
        ("order.items.exists(i, now.getHours() < 9)", ["now.getHours()"]),
        ("now - member.createdAt > duration('720h')", []),
        ("(now - member.createdAt).getHours() > 720", []),
        ("now.addDays(-30) > member.createdAt", []),
        ("event.externalEventDate.getHours() == 0", []),
    ],
)
def test_only_conditions_on_the_hour_or_the_date_of_now_have_the_warning(shop, rule, expected_sources):
    [warnings] = parse_warnings(shop, rule)
    assert [warning["code"] for warning in warnings] == ["NOW_IN_CONDITION"] * len(expected_sources)
    assert [rule[warning["start"] : warning["end"]] for warning in warnings] == expected_sources


def test_a_variable_of_a_macro_that_is_called_now_has_only_the_warning_about_its_name(shop):
    # Here `now` is a tag, not the moment of the evaluation.
    [warnings] = parse_warnings(shop, "order.tags.exists(now, now.size() > now.getHours())")
    assert [warning["code"] for warning in warnings] == ["shadowed-variable"]


def test_the_warnings_of_parsing_point_to_their_input(shop):
    effect = {"expression": "now.getHours()", "isEffectExpression": True}
    invalid_expression = "now.getHour() > 1"
    warnings_of_division, warnings_of_condition, warnings_of_effect, warnings_of_invalid_expression = parse_warnings(
        shop, "7 / 2 > 1", MIDNIGHT, effect, invalid_expression
    )
    assert [(warning["code"], warning["pointer"]) for warning in warnings_of_division] == [
        ("integer-division", "/inputs/0/expression")
    ]
    assert warnings_of_condition == [now_warning("/inputs/1/expression", start=0, end=len("now.getHours()"))]
    assert warnings_of_effect == []
    assert warnings_of_invalid_expression == []
