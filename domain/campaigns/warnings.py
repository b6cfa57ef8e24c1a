"""Warnings about the expressions of actions and missions: they can be saved, and are probably not what was meant."""

from collections.abc import Iterator
from dataclasses import dataclass

from domain.campaigns.compiled import CompiledAction
from domain.campaigns.references import Sources, sources_of
from domain.campaigns.variables import ENVIRONMENT, ITEM_ENVIRONMENT
from domain.expressions import Environment, Fault, Node, check
from domain.expressions.times import ACCESSORS
from domain.expressions.tree import FunctionCall, Identifier, Macro, parts
from domain.missions.progress import count_sources
from domain.missions.records import Mission
from domain.problems import InvalidRequest

NOW_IN_CONDITION = "NOW_IN_CONDITION"
_READS_OF_CALENDAR = frozenset({*ACCESSORS, "startOf", "endOf"})
_ADVICE = "`now` is when the event is evaluated; use `event.externalEventDate`"


@dataclass(frozen=True, slots=True)
class ExpressionWarning:
    """A warning about the expression at `pointer` of a request: its part from `start` to `end`, in characters."""

    code: str
    message: str
    pointer: str
    start: int
    end: int


def warnings_of(
    pointer: str, node: Node, *, is_condition: bool, environment: Environment = ENVIRONMENT
) -> list[ExpressionWarning]:
    """The warnings about one expression, in the order of its text.

    An event may be evaluated long after it happened, so a condition that reads a part of `now`, such as the hour,
    gets a warning. Parameters of effects get none: points often expire a time after the evaluation.
    """
    faults = [*check(node, environment).warnings, *(_reads_of_now(node) if is_condition else ())]
    return [
        ExpressionWarning(fault.code, fault.message, pointer, fault.start, fault.end)
        for fault in sorted(faults, key=lambda fault: (fault.start, fault.end))
    ]


def warnings_of_action(action: CompiledAction) -> list[ExpressionWarning]:
    """The warnings about the rule and the effects of an action; empty if the stored action no longer compiles."""
    if action.fault is not None:
        return []
    record = action.record
    sources = sources_of(record.rules, action.node, record.effects, action.effects)
    nodes_of_items = [
        param.program.analysis.node
        for effect in action.effects
        for param in effect.params
        if param.parameter.is_of_items and param.program is not None
    ]
    warnings: list[ExpressionWarning] = []
    for pointer, node in sources:
        is_of_items = any(node is other for other in nodes_of_items)
        environment = ITEM_ENVIRONMENT if is_of_items else ENVIRONMENT
        warnings += warnings_of(pointer, node, is_condition=node is action.node, environment=environment)
    return warnings


def warnings_of_mission(mission: Mission) -> list[ExpressionWarning]:
    """The warnings about the count expression of a mission.

    Empty if the mission has no count expression, or if the stored one no longer compiles.
    """
    sources: Sources = ()
    if mission.count_expression is not None:
        try:
            sources = count_sources(mission.count_expression)
        except InvalidRequest:
            return []
    return [warning for pointer, node in sources for warning in warnings_of(pointer, node, is_condition=True)]


def _reads_of_now(node: Node) -> Iterator[Fault]:
    """A warning for each call that reads the day or the time of the variable `now`, such as `now.getHours()`."""
    match node:
        case FunctionCall(target=Identifier(name="now"), function=name) if name in _READS_OF_CALENDAR:
            yield Fault(_ADVICE, node.start, node.end, NOW_IN_CONDITION)
    for part in parts(node):
        # Inside a macro whose variable is called `now`, the name is that variable.
        if not (isinstance(node, Macro) and node.variable == "now" and part is not node.target):
            yield from _reads_of_now(part)
