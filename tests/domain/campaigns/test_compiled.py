"""Saving actions: what is compiled, and what is refused with its place."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from domain.campaigns.compiled import compile_effects, compile_rules, without_nulls
from domain.campaigns.effects import EFFECTS
from domain.event_types import BUILT_IN_EVENT_TYPES
from domain.expressions import parse, to_tree
from domain.problems import InvalidRequest
from tests.builders.campaigns import campaign, effect, mint


def faults(compiling, part):
    """The faults for which a function that compiles parts of an action refuses this part."""
    with pytest.raises(InvalidRequest) as refusal:
        compiling(part)
    return refusal.value.faults


def test_an_action_without_rules_always_applies():
    assert compile_rules({}) == (None, None)


def test_a_rule_is_the_same_as_text_and_as_tree():
    node = parse("order.total >= 20")
    from_text, _ = compile_rules({"expression": "order.total >= 20"})
    from_tree, program = compile_rules({"node": to_tree(node)})
    assert from_text == from_tree
    assert program.run({"order": {"total": Decimal(20)}}, None, {}) is True


def test_text_and_tree_together_are_refused():
    [fault] = faults(compile_rules, {"expression": "true", "node": {"kind": "constant"}})
    assert fault.pointer == "/rules"


@pytest.mark.parametrize(
    ("text", "code", "faulty_part"),
    [
        # The fault of an incomplete expression is at its end.
        ("order.total >=", "syntax", ""),
        ("order.totl > 1", "unknown-field", "order.totl"),
        ("ordr.total > 1", "unknown-variable", "ordr"),
        ("order.total + 1", "type", "order.total + 1"),
        ("order.total > 'ten'", "type", "order.total > 'ten'"),
        ("nosuch(order)", "unknown-function", "nosuch(order)"),
    ],
)
def test_a_faulty_rule_is_refused_with_its_place(text, code, faulty_part):
    [fault] = faults(compile_rules, {"expression": text})
    assert (fault.pointer, fault.code) == ("/rules/expression", code)
    assert fault.detail.startswith("rules.expression is not a valid expression: ")
    start = text.index(faulty_part) if faulty_part else len(text)
    assert (fault.start, fault.end) == (start, start + len(faulty_part))


def test_every_fault_of_the_effects_is_reported():
    effect_faults = faults(
        compile_effects,
        {
            "items": [
                {"effectId": "give-cake", "params": []},
                mint(5),
                effect("mint-points", recipient="everyone"),
                {"effectId": "discount", "params": [{"id": "type"}, {"id": "value", "value": 1, "expression": "1"}]},
                {
                    "effectId": "burn-points",
                    "params": [{"id": "amount", "value": 1}, {"id": "amount", "value": 1}, {"id": "size", "value": 1}],
                },
                mint(("=", "'five'"), expirationDate="soon"),
            ]
        },
    )
    assert [fault.pointer for fault in effect_faults] == [
        "/effects/items/0/effectId",
        "/effects/items/2/params/0/value",
        "/effects/items/2/params",
        "/effects/items/3/params/0",
        "/effects/items/3/params/1",
        "/effects/items/4/params/1/id",
        "/effects/items/4/params/2/id",
        "/effects/items/5/params/0/expression",
        "/effects/items/5/params/1/value",
    ]
    # The fault of the expression is about the text 'five' with its quotes.
    fault_of_expression = effect_faults[7]
    assert fault_of_expression.code
    assert (fault_of_expression.start, fault_of_expression.end) == (0, len("'five'"))


@pytest.mark.parametrize(
    ("name", "value", "internal_value"),
    [
        ("amount", 5, Decimal(5)),
        ("amount", Decimal("0.1"), Decimal("0.1")),
        ("expirationDate", "2026-12-31", datetime(2026, 12, 31, tzinfo=UTC)),
        ("expirationDate", "2026-12-31T02:00:00+02:00", datetime(2026, 12, 31, tzinfo=UTC)),
        ("expirationDate", None, None),
        ("recipient", "sponsor", "sponsor"),
        ("recipient", None, "member"),
        ("description", "", ""),
    ],
)
def test_constants_are_converted_to_their_internal_form(name, value, internal_value):
    values = {"amount": 1, name: value}
    [compiled_effect] = compile_effects({"items": [effect("mint-points", **values)]})
    internal_values = {param.parameter.id: param.value for param in compiled_effect.params}
    assert internal_values[name] == internal_value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("amount", True),
        ("amount", "5"),
        ("amount", None),
        ("amount", [5]),
        ("expirationDate", 20261231),
        ("expirationDate", "31.12.2026"),
        ("expirationDate", "9999-12-31T23:59:59-10:00"),
        ("expirationDate", "0001-01-01T00:00:00+10:00"),
        ("recipient", "Sponsor"),
        ("recipient", {}),
        ("ledgerAccountKey", 5),
        ("description", False),
    ],
)
def test_constants_of_the_wrong_kind_or_out_of_range_are_refused_with_their_pointer(name, value):
    values = {"amount": 1, name: value}
    effect_faults = faults(compile_effects, {"items": [effect("mint-points", **values)]})
    position = list(values).index(name)
    assert [fault.pointer for fault in effect_faults] == [f"/effects/items/0/params/{position}/value"]


def test_parameters_left_out_have_their_defaults():
    [compiled_effect] = compile_effects({"items": [mint(5)]})
    assert {param.parameter.id: param.value for param in compiled_effect.params} == {
        "amount": 5,
        "ledgerAccountKey": None,
        "recipient": "member",
        "expirationDate": None,
        "description": None,
    }


def test_compiled_effects_have_optional_parameters_only_if_sent():
    [compiled_effect] = compile_effects({"items": [mint(5, qualifyingAmount=7, availableAfter="P14D")]})
    values = {param.parameter.id: param.value for param in compiled_effect.params}
    assert list(values.items())[-2:] == [("qualifyingAmount", 7), ("availableAfter", "P14D")]


def test_effects_need_some_parameters_and_have_defaults_for_others():
    required_params = {
        name: [param.id for param in effect.params if not param.is_optional] for name, effect in EFFECTS.items()
    }
    assert required_params == {
        "mint-points": ["amount"],
        "burn-points": ["amount"],
        "discount": ["type", "value"],
        "assign-badge": ["badgeKey"],
        "unassign-badge": ["badgeKey"],
        "assign-coupon": ["couponBookKey"],
        "use-coupon": ["couponBookKey"],
        "set-tier": ["loyaltyProgramKey", "loyaltyTierKey"],
        "extend-expiry": [],
        "notify": ["name"],
        "advance-mission": ["missionKey"],
    }
    defaults = {
        (param.id, param.default_value)
        for effect in EFFECTS.values()
        for param in effect.params
        if param.default_value is not None
    }
    assert defaults == {
        ("amount", 1),
        ("recipient", "member"),
        ("base", "reduced"),
        ("per", "order"),
        ("tierHold", "fixed"),
    }


def test_every_effect_supports_every_built_in_event_type():
    for definition in EFFECTS.values():
        assert sorted(definition.supported_event_types.values()) == sorted(BUILT_IN_EVENT_TYPES)
        assert all(name[0].isupper() and "-" not in name for name in definition.supported_event_types)


def test_fields_of_rules_and_effects_that_are_null_are_removed():
    """The value of a parameter may be null, unless the parameter has an expression."""
    rules, effects = without_nulls(
        {"expression": "true", "node": None},
        {
            "items": [
                {"effectId": "notify"},
                {
                    "effectId": "mint-points",
                    "params": [
                        {"id": "amount", "expression": "1", "value": None},
                        {"id": "description", "expression": None, "value": None},
                        {"id": "recipient", "expression": None, "value": "member"},
                        {"id": "tags", "expression": "2", "value": 3},
                    ],
                },
            ],
            "more": 1,
        },
    )
    assert rules == {"expression": "true"}
    assert effects == {
        "items": [
            {"effectId": "notify"},
            {
                "effectId": "mint-points",
                "params": [
                    {"id": "amount", "expression": "1"},
                    {"id": "description", "value": None},
                    {"id": "recipient", "value": "member"},
                    {"id": "tags", "expression": "2", "value": 3},
                ],
            },
        ],
        "more": 1,
    }
    assert without_nulls({"node": {}}, {}) == ({}, {"items": []})


def test_a_campaign_considers_events_of_its_types_or_of_all_types_if_it_names_none():
    typed_campaign = campaign(event_type="member-created", enabled_topics=("member-updated",))
    assert typed_campaign.considers("member-created")
    assert typed_campaign.considers("member-updated")
    assert not typed_campaign.considers("till-opened")
    assert campaign().considers("till-opened")


def test_a_campaign_has_its_own_time_zone_or_the_default_one():
    assert campaign(timezone="Asia/Tokyo").zone == ZoneInfo("Asia/Tokyo")
    assert campaign(default_timezone="Europe/Madrid").zone == ZoneInfo("Europe/Madrid")


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ({"id": "recipient", "value": "all"}, "value of recipient is not one of: member, sponsor."),
        ({"id": "description", "value": 5}, "value of description is not a string."),
        ({"id": "expirationDate", "value": "soon"}, "value of expirationDate is not a timestamp."),
        ({"id": "amount", "value": "5"}, "value of amount is not a decimal."),
        ({"id": "amont", "value": 5}, "id amont is no parameter of mint-points. Did you mean amount?"),
        ({"id": "amount"}, "amount needs either a value or an expression."),
        ({"id": "amount", "value": 1, "expression": "1"}, "amount needs either a value or an expression."),
    ],
)
def test_a_fault_describes_the_error_of_a_parameter(parameter, text):
    required_params = [] if parameter["id"] == "amount" else [{"id": "amount", "value": 1}]
    params = [*required_params, parameter]
    [fault] = faults(compile_effects, {"items": [{"effectId": "mint-points", "params": params}]})
    assert fault.detail == text


def test_a_fault_names_the_missing_or_unknown_parameter():
    [unknown_param] = faults(compile_effects, {"items": [effect("unassign-badge", badgeKey="b", x=5)]})
    assert unknown_param.detail == "id x is no parameter of unassign-badge. There are: badgeKey, amount."
    [missing_param] = faults(compile_effects, {"items": [{"effectId": "mint-points", "params": []}]})
    assert missing_param.detail == "params of mint-points lack amount."
    [missing_value] = faults(compile_effects, {"items": [effect("discount", type="amount")]})
    assert missing_value.detail == "params of discount lack value."
    [repeated_param] = faults(
        compile_effects, {"items": [{"effectId": "mint-points", "params": [{"id": "amount", "value": 1}] * 2}]}
    )
    assert repeated_param.detail == "id amount is in params twice."
    [unknown_effect] = faults(compile_effects, {"items": [{"effectId": "mint-point"}]})
    assert unknown_effect.detail == "effectId mint-point is no effect. Did you mean mint-points?"
    [wrong_data] = faults(compile_effects, {"items": [effect("notify", name="n", data=5)]})
    assert wrong_data.detail == "value of data is not a JSON object, or too large a one."
