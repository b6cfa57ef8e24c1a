"""Warnings about expressions that are valid but probably not intended."""

from __future__ import annotations

import pytest

from domain.campaigns.compiled import compile_action
from domain.campaigns.warnings import warnings_of, warnings_of_action, warnings_of_mission
from domain.expressions import parse
from tests.builders.campaigns import action, effect, mint
from tests.builders.missions import mission

MIDNIGHT = "now.getHours() == 0"


def warnings_in(text, *, is_condition=True):
    """The code of each warning and the part of the text that it is about."""
    warnings = warnings_of("/rules/expression", parse(text), is_condition=is_condition)
    assert all(warning.pointer == "/rules/expression" for warning in warnings)
    return [(warning.code, text[warning.start : warning.end]) for warning in warnings]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (MIDNIGHT, "now.getHours()"),
        ("true || now.getDayOfWeek() == 1", "now.getDayOfWeek()"),
        ("now.startOf('day') < event.externalEventDate", "now.startOf('day')"),
        ("now.endOf('month') > event.externalEventDate", "now.endOf('month')"),
        ("order.items.exists(i, now.getHours() == 0)", "now.getHours()"),
    ],
)
def test_a_condition_on_the_calendar_of_now_has_a_warning(text, part):
    assert warnings_in(text) == [("NOW_IN_CONDITION", part)]
    assert warnings_in(text, is_condition=False) == []


@pytest.mark.parametrize(
    "text",
    [
        "event.externalEventDate.getHours() == 0",
        "now > event.externalEventDate",
        "now - event.externalEventDate < duration('1h')",
    ],
)
def test_other_conditions_on_times_have_no_warning(text):
    assert warnings_in(text) == []


def test_a_macro_variable_called_now_is_not_the_time():
    text_with_macro_variable, text_with_time = (
        "[event.externalEventDate].exists(now, now.getHours() == 0)",
        "[now.getHours()].exists(now, now == 0)",
    )
    assert warnings_in(text_with_macro_variable) == [("shadowed-variable", text_with_macro_variable)]
    assert ("NOW_IN_CONDITION", "now.getHours()") in warnings_in(text_with_time)


def test_warnings_are_in_the_order_of_the_text():
    assert warnings_in("7 / 2 > 3 && now.getHours() == 0 && 7 / 2 > 3") == [
        ("integer-division", "7 / 2"),
        ("NOW_IN_CONDITION", "now.getHours()"),
        ("integer-division", "7 / 2"),
    ]


def codes_and_pointers(warnings):
    """(code, pointer) of each warning."""
    return [(warning.code, warning.pointer) for warning in warnings]


def test_only_the_rule_of_an_action_is_a_condition():
    saved_action = compile_action(action(1, mint(("=", "now.getHours()")), mint(("=", "7 / 2")), rule=MIDNIGHT))
    assert codes_and_pointers(warnings_of_action(saved_action)) == [
        ("NOW_IN_CONDITION", "/rules/expression"),
        ("integer-division", "/effects/items/1/params/0/expression"),
    ]


def test_an_action_that_cannot_be_compiled_has_no_warnings():
    saved_action = compile_action(action(1, mint(1), rule="nosuch(1)"))
    assert saved_action.fault is not None
    assert warnings_of_action(saved_action) == []


def test_the_count_expression_of_a_mission_is_a_condition():
    assert codes_and_pointers(warnings_of_mission(mission(count_expression="now.getHours()"))) == [
        ("NOW_IN_CONDITION", "/countExpression")
    ]
    assert warnings_of_mission(mission()) == []


def test_a_count_expression_that_does_not_compile_gets_no_warnings():
    assert warnings_of_mission(mission(count_expression="nosuch(1)")) == []


def test_a_warning_gives_advice():
    [warning] = warnings_of_action(compile_action(action(1, mint(1), rule=MIDNIGHT)))
    assert warning.message == "`now` is when the event is evaluated; use `event.externalEventDate`"


def test_warnings_about_a_filter_of_items_know_the_item():
    shadowing_filter = 'order.items.exists(item, item.total > 1.0) && item.productCode == "mug"'
    warnings = warnings_of_action(
        compile_action(action(1, effect("discount", type="amount", value=1, itemFilter=("=", shadowing_filter))))
    )
    assert codes_and_pointers(warnings) == [("shadowed-variable", "/effects/items/0/params/2/expression")]
    # Outside a filter of items there is no variable `item` that could be shadowed.
    counting = mint(("=", "order.items.exists(item, item.total > 1.0) ? 1.0 : 0.0"))
    assert warnings_of_action(compile_action(action(1, counting))) == []
