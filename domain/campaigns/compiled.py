"""Compiled campaigns and actions, with checked expressions, and the plans that give their order of evaluation."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from domain.calendar import instant_of, zone_named
from domain.campaigns.context import is_json_object, is_number
from domain.campaigns.effects import EFFECTS, JSON_OBJECT, Effect, EffectParameter
from domain.campaigns.limits import LimitRule
from domain.campaigns.records import Action, Campaign, StackingGroup
from domain.campaigns.restrictions import Restriction, restrictions_of
from domain.campaigns.stacking import Stacking, stacking_of
from domain.campaigns.variables import ENVIRONMENT, ITEM_ENVIRONMENT
from domain.durations import Duration, duration_of
from domain.expression_faults import invalid_expression
from domain.expressions import Environment, ExpressionError, Node, Program, compile_expression, from_tree, parse
from domain.expressions.types import BOOL, DECIMAL, STRING, TIMESTAMP, Type
from domain.ledger.records import LedgerAccount
from domain.problems import FieldFault, InvalidRequest, did_you_mean

NO_GROUPS: Mapping[str, StackingGroup] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CompiledParameter:
    """A parameter's constant `value`, or the `program` that computes it for each event."""

    parameter: EffectParameter
    value: Any = None
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class CompiledEffect:
    """An effect with the parameters that the action names, and the other parameters with their defaults.

    A parameter that the action does not name is absent if it is `only_if_named`.
    """

    effect: Effect
    params: tuple[CompiledParameter, ...]

    @property
    def constants(self) -> dict[str, Any]:
        """The values of the parameters that are not expressions, by the id of the parameter."""
        return {param.parameter.id: param.value for param in self.params if param.program is None}


@dataclass(frozen=True, slots=True)
class CompiledAction:
    """An action with its compiled effects and rule (None always holds); `node` is the rule's tree, for explanations.

    `fault` is the reason why an action that an earlier release saved no longer compiles: it fails at every event.
    `stacking` is the group of the action.
    """

    record: Action
    node: Node | None
    rule: Program | None
    effects: tuple[CompiledEffect, ...]
    fault: str | None = None
    stacking: Stacking | None = None


@dataclass(frozen=True, slots=True)
class CompiledCampaign:
    """A campaign with its running actions; points go to `main_account` unless an effect names another account.

    `inactive_actions` are the actions that do not run; they are loaded only to explain every action. Days and periods
    are in the time zone `zone`.
    """

    record: Campaign
    actions: tuple[CompiledAction, ...]
    limits: tuple[LimitRule, ...]
    main_account: LedgerAccount | None
    event_types: frozenset[str]
    restrictions: tuple[Restriction, ...]
    inactive_actions: tuple[Action, ...] = ()
    zone: tzinfo = UTC
    cooldown: Duration | None = None

    def considers(self, event_type: str) -> bool:
        """True if the campaign evaluates events of this type; a campaign without event types evaluates all."""
        return not self.event_types or event_type in self.event_types


def compile_campaign(
    campaign: Campaign,
    actions: Sequence[CompiledAction],
    limits: tuple[LimitRule, ...],
    main_account: LedgerAccount | None,
    default_timezone: str = "UTC",
) -> CompiledCampaign:
    """Join a campaign with its compiled actions; `default_timezone` applies unless the campaign has its own."""
    zone = zone_named(campaign.timezone or default_timezone)
    types = frozenset(
        event_type for event_type in (campaign.event_type, *campaign.enabled_topics) if event_type is not None
    )
    return CompiledCampaign(
        record=campaign,
        actions=tuple(actions),
        limits=limits,
        main_account=main_account,
        event_types=types,
        restrictions=restrictions_of(campaign, types, zone),
        zone=zone,
        cooldown=None if campaign.cooldown is None else duration_of(campaign.cooldown),
    )


def compile_action(
    action: Action, previous: CompiledAction | None = None, groups: Mapping[str, StackingGroup] = NO_GROUPS
) -> CompiledAction:
    """Compile a stored action; if it can no longer be compiled, it gets a `fault`, and other actions still run.

    The compiled parts of the `previous` version are reused if rules and effects have not changed. `groups` are the
    stacking groups by key.
    """
    stacking = stacking_of(action, groups)
    if previous is not None and (previous.record.rules, previous.record.effects) == (action.rules, action.effects):
        return replace(previous, record=action, stacking=stacking)
    try:
        node, rule = compile_rules(action.rules)
        return CompiledAction(action, node, rule, compile_effects(action.effects), stacking=stacking)
    except InvalidRequest as refusal:
        return CompiledAction(
            record=action, node=None, rule=None, effects=(), fault=refusal.faults[0].detail, stacking=stacking
        )


def without_nulls(rules: Mapping[str, Any], effects: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rules and effects without the parts that count as absent.

    In rules these are null and `{}`; in parameters a null `expression`, and a null `value` next to an expression.
    """
    rules_with_value = {form: source for form, source in rules.items() if source is not None and source != {}}
    items = [_effect_without_nulls(effect) for effect in effects.get("items", ())]
    return rules_with_value, {**effects, "items": items}


def _effect_without_nulls(effect: Mapping[str, Any]) -> dict[str, Any]:
    """The effect without the nulls in its parameters that count as absent."""
    if "params" not in effect:
        return dict(effect)
    return {**effect, "params": [_param_without_nulls(param) for param in effect["params"]]}


def _param_without_nulls(param: Mapping[str, Any]) -> dict[str, Any]:
    """The parameter without a null `expression`, and without a null `value` next to an expression."""
    absent_if_null = "expression" if param.get("expression") is None else "value"
    return {name: value for name, value in param.items() if value is not None or name != absent_if_null}


def compile_rules(rules: Mapping[str, Any]) -> tuple[Node | None, Program | None]:
    """Compile `{expression}` or `{node}`; return the tree and the program, both None for `{}`, which is no rule.

    Raises InvalidRequest with every fault's position.
    """
    if not rules:
        return None, None
    if len(rules) > 1:
        raise InvalidRequest(
            [FieldFault("rules has both an expression and a node; send one of them", pointer="/rules")]
        )
    [(form, source)] = rules.items()
    return _compile(source, BOOL, f"/rules/{form}", is_tree=form == "node")


def compile_effects(effects: Mapping[str, Any]) -> tuple[CompiledEffect, ...]:
    """Compile `{items: [{effectId, params}]}`; raises InvalidRequest naming every fault."""
    compiled: list[CompiledEffect] = []
    faults: list[FieldFault] = []
    for index, item in enumerate(effects.get("items", ())):
        pointer = f"/effects/items/{index}"
        effect = EFFECTS.get(item["effectId"])
        if effect is None:
            faults.append(
                FieldFault(
                    _with_suggestion(f"effectId {item['effectId']} is no effect.", item["effectId"], EFFECTS),
                    pointer=f"{pointer}/effectId",
                )
            )
            continue
        try:
            params = _compile_params(effect, item.get("params", ()), f"{pointer}/params")
            compiled.append(CompiledEffect(effect, params))
        except InvalidRequest as refusal:
            faults.extend(refusal.faults)
    if faults:
        raise InvalidRequest(faults)
    return tuple(compiled)


def _with_suggestion(detail: str, name: str, names: Collection[str]) -> str:
    """The error text `detail` for an unknown name, followed by the most similar of `names`, or else by all."""
    return detail + (did_you_mean(name, names) or f" There are: {', '.join(names)}.")


def _compile_params(effect: Effect, values: Sequence[Mapping[str, Any]], pointer: str) -> tuple[CompiledParameter, ...]:
    """Compile the parameters of one effect, stored as `values` at `pointer`; raises InvalidRequest with every fault."""
    parameters = {parameter.id: parameter for parameter in effect.params}
    compiled: dict[str, CompiledParameter] = {}
    faults: list[FieldFault] = []
    for index, param in enumerate(values):
        param_pointer = f"{pointer}/{index}"
        parameter = parameters.get(param["id"])
        if parameter is None:
            faults.append(
                FieldFault(
                    _with_suggestion(
                        f"id {param['id']} is no parameter of {effect.effect_id}.", param["id"], parameters
                    ),
                    pointer=f"{param_pointer}/id",
                )
            )
        elif parameter.id in compiled:
            faults.append(FieldFault(f"id {parameter.id} is in params twice", pointer=f"{param_pointer}/id"))
        else:
            try:
                compiled[parameter.id] = _compile_param(parameter, param, param_pointer)
            except InvalidRequest as refusal:
                faults.extend(refusal.faults)
    named_ids = {param["id"] for param in values}
    faults += [
        FieldFault(f"params of {effect.effect_id} lack {parameter.id}", pointer=pointer)
        for parameter in effect.params
        if not parameter.is_optional and parameter.id not in named_ids
    ]
    if faults:
        raise InvalidRequest(faults)
    return tuple(
        compiled.get(parameter.id) or CompiledParameter(parameter, parameter.default_value)
        for parameter in effect.params
        if parameter.id in compiled or not parameter.only_if_named
    )


def _compile_param(parameter: EffectParameter, param: Mapping[str, Any], pointer: str) -> CompiledParameter:
    """Compile the value or the expression that an effect has for a parameter; raises InvalidRequest."""
    if parameter.is_of_items and param.get("value") is not None:
        detail = f"{parameter.id} is evaluated for each item: send an expression, not a value"
        raise InvalidRequest([FieldFault(detail, pointer=f"{pointer}/value")])
    if ("value" in param) == ("expression" in param):
        raise InvalidRequest([FieldFault(f"{parameter.id} needs either a value or an expression", pointer=pointer)])
    if "expression" in param:
        environment = ITEM_ENVIRONMENT if parameter.is_of_items else ENVIRONMENT
        source, pointer_of_source = param["expression"], f"{pointer}/expression"
        _, program = _compile(source, parameter.type, pointer_of_source, environment, is_tree=False)
        return CompiledParameter(parameter, program=program)
    value = parameter_value(parameter, param["value"])
    if value is WRONG_KIND:
        raise InvalidRequest([FieldFault(f"value of {_kind_fault(parameter)}", pointer=f"{pointer}/value")])
    return CompiledParameter(parameter, value)


def _compile(
    source: Any, result_type: Type, pointer: str, environment: Environment = ENVIRONMENT, *, is_tree: bool
) -> tuple[Node, Program]:
    """Compile an expression, from a JSON tree or from text; faults point to `pointer`."""
    try:
        node = from_tree(source) if is_tree else parse(source)
        return node, compile_expression(node, environment, result_type)
    except ExpressionError as error:
        raise invalid_expression(error, pointer) from error


WRONG_KIND = object()
"""The result of `parameter_value` for a value of the wrong kind."""


def parameter_value(parameter: EffectParameter, value: Any) -> Any:
    """The value of a parameter, converted to the parameter's type; `WRONG_KIND` if it does not fit.

    `value` is a JSON constant of an action, or the result of an expression.
    """
    if value is None and parameter.is_optional:
        return parameter.default_value
    if parameter.type == DECIMAL:
        return Decimal(value) if is_number(value) else WRONG_KIND
    if parameter.type == JSON_OBJECT:
        return value if is_json_object(value) else WRONG_KIND
    if parameter.type == TIMESTAMP:
        return value if isinstance(value, datetime) else _moment(value)
    if parameter.type == STRING:
        fits = isinstance(value, str) and (not parameter.choices or value in parameter.choices)
        return value if fits else WRONG_KIND
    return WRONG_KIND


def _moment(value: Any) -> Any:
    """The moment that a text names, WRONG_KIND if it names none."""
    try:
        return instant_of(value) if isinstance(value, str) else WRONG_KIND
    except ValueError:
        return WRONG_KIND


def _kind_fault(parameter: EffectParameter) -> str:
    """The error text for a value of the wrong kind; it begins with the name of the parameter."""
    if parameter.choices:
        return f"{parameter.id} is not one of: {', '.join(parameter.choices)}"
    if parameter.type == JSON_OBJECT:
        return f"{parameter.id} is not a JSON object, or too large a one"
    return f"{parameter.id} is not a {parameter.type}"


CampaignAction = tuple[CompiledCampaign, CompiledAction]


class Turn(NamedTuple):
    """Actions that are evaluated together: those of a stacking group, or a single one.

    `contest` is the group if its actions compete, else None.
    """

    actions: tuple[CampaignAction, ...]
    contest: Stacking | None = None


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Campaigns, and the turns of all their actions by priority, campaign and index.

    The actions of a stacking group share the turn of its first action. Exclusive campaigns come first, since they
    decide whether other campaigns apply.
    """

    campaigns: tuple[CompiledCampaign, ...]
    turns: tuple[Turn, ...]

    @classmethod
    def of(cls, campaigns: Iterable[CompiledCampaign]) -> EvaluationPlan:
        """The plan of these campaigns."""
        all_campaigns = tuple(campaigns)
        # A turn is for exclusive campaigns or for others, and for a group of actions, or one action by its id.
        actions_by_turn: dict[tuple[bool, Stacking | int], list[CampaignAction]] = {}
        actions = [(campaign, action) for campaign in all_campaigns for action in campaign.actions]
        for campaign, action in sorted(actions, key=_order_of_evaluation):
            stacking = action.stacking
            group = stacking if stacking is not None and stacking.shares_turn else action.record.action_id
            actions_by_turn.setdefault((campaign.record.exclusive, group), []).append((campaign, action))
        turns = [Turn(tuple(turn_actions), _contest_of(group)) for (_, group), turn_actions in actions_by_turn.items()]
        return cls(all_campaigns, tuple(turns))


MAX_PLANS = 100
"""The maximum number of plans that are kept: an organization can have thousands of event types and of campaigns."""


class EvaluationPlans:
    """The plan for each type of event, computed on first use and kept; safe for any number of threads."""

    def __init__(self, campaigns: Iterable[CompiledCampaign]) -> None:
        self.campaigns = tuple(campaigns)
        self.have_cooldowns = any(campaign.cooldown is not None for campaign in self.campaigns)
        # Cooldowns are loaded together with the counters of limits, so they count as limits here.
        self.have_limits = self.have_cooldowns or any(campaign.limits for campaign in self.campaigns)
        self._by_type: dict[str, EvaluationPlan] = {}

    def plan_of(self, event_type: str) -> EvaluationPlan:
        """The plan of the campaigns that consider events of this type."""
        plan = self._by_type.get(event_type)
        if plan is None:
            plan = EvaluationPlan.of(campaign for campaign in self.campaigns if campaign.considers(event_type))
            if len(self._by_type) >= MAX_PLANS:
                self._by_type.clear()
            self._by_type[event_type] = plan
        return plan

    def restrict_to(self, campaign_keys: Collection[str]) -> EvaluationPlans:
        """The plans of only those campaigns that have these keys."""
        requested_keys = set(campaign_keys)
        return EvaluationPlans(
            campaign for campaign in self.campaigns if campaign.record.campaign_key in requested_keys
        )


def _contest_of(group: Stacking | int) -> Stacking | None:
    """`group` if its actions compete, else None. A turn of a single action has its id in place of a group."""
    return group if isinstance(group, Stacking) and group.is_contest else None


def _order_of_evaluation(campaign_action: CampaignAction) -> tuple[bool, int, int, int, int]:
    """The sort key of an action in a plan: exclusive campaigns first, then by priority, campaign and index."""
    compiled_campaign, compiled_action = campaign_action
    campaign, action = compiled_campaign.record, compiled_action.record
    return not campaign.exclusive, action.priority, campaign.campaign_id, action.action_index, action.action_id
