"""What an action names outright in its expressions, to be refused when it is saved rather than at an event."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from domain.campaigns.compiled import CompiledCampaign, CompiledEffect
from domain.campaigns.variables import MATCHES
from domain.expressions import Node
from domain.expressions.tree import Call, Constant, Identifier, parts
from domain.problems import FieldFault


def unknown_matchers(
    rules: Mapping[str, Any],
    rule: Node | None,
    effects: Mapping[str, Any],
    compiled: Collection[CompiledEffect],
    known: Collection[str],
) -> list[FieldFault]:
    """A fault for every key of a matcher that is written in the rule or in an effect's expression and is not known."""
    faults = [] if rule is None else _faults(rule, f"/rules/{next(iter(rules))}", known)
    for index, (item, effect) in enumerate(zip(effects.get("items", ()), compiled, strict=True)):
        programs = {param.parameter.id: param.program for param in effect.params}
        for place, param in enumerate(item.get("params", ())):
            program = programs[param["id"]]
            if program is not None:
                pointer = f"/effects/items/{index}/params/{place}/expression"
                faults += _faults(program.checked.node, pointer, known)
    return faults


def _faults(node: Node, pointer: str, known: Collection[str]) -> list[FieldFault]:
    return [
        FieldFault(
            f"there is no matcher {key.value}", pointer=pointer, code="unknown-matcher", start=key.start, end=key.end
        )
        for key in _keys(node)
        if key.value not in known
    ]


def _keys(node: Node) -> Iterator[Constant]:
    """The keys that calls of `matches(item, key)` spell out."""
    if isinstance(node, Call) and node.target is None and node.function == MATCHES.name:
        yield from (key for key in node.args[1:2] if isinstance(key, Constant))
    for part in parts(node):
        yield from _keys(part)


def names_variable(campaign: CompiledCampaign, name: str) -> bool:
    """True if an action's rule, or an expression of one of its effects, speaks of the variable."""
    return any(
        _has_variable(node, name)
        for action in campaign.actions
        for node in (action.node, *_programs(action.effects))
        if node is not None
    )


def _programs(effects: Collection[CompiledEffect]) -> Iterator[Node]:
    return (param.program.checked.node for effect in effects for param in effect.params if param.program is not None)


def _has_variable(node: Node, name: str) -> bool:
    if isinstance(node, Identifier) and node.name == name:
        return True
    return any(_has_variable(part, name) for part in parts(node))
