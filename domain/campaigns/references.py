"""Keys that the expressions of an action name literally, so that unknown ones are refused when it is saved."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from domain.campaigns.compiled import CompiledCampaign, CompiledEffect
from domain.campaigns.records import Campaign
from domain.campaigns.variables import MATCHES, MEMBER, ORDER_FIELDS
from domain.event_types import BUILT_IN_EVENT_TYPES, EVENTS_WITH_ORDER
from domain.expressions import DYN, Node, Program
from domain.expressions.tree import Constant, FunctionCall, Identifier, ListLiteral, Macro, Select, all_nodes, parts
from domain.problems import FieldFault, did_you_mean, name_at, nearest

Sources = Sequence[tuple[str, Node]]
"""The expressions of an action, each with its JSON pointer."""

MAX_LISTED = 20


def sources_of(
    rules: Mapping[str, Any],
    rule: Node | None,
    effects: Mapping[str, Any],
    compiled_effects: Collection[CompiledEffect],
) -> Sources:
    """The trees of the rule and of the expressions in `effects`, each with its JSON pointer.

    `rules` has one field, `expression` or `node`, and `rule` is its tree. `compiled_effects` are the same effects,
    compiled.
    """
    sources = [] if rule is None else [(f"/rules/{next(iter(rules))}", rule)]
    for index, (item, effect) in enumerate(zip(effects.get("items", ()), compiled_effects, strict=True)):
        programs = {param.parameter.id: param.program for param in effect.params}
        for position, param in enumerate(item.get("params", ())):
            program = programs[param["id"]]
            if program is not None:
                sources.append((f"/effects/items/{index}/params/{position}/expression", program.analysis.node))
    return sources


def unknown_matchers(sources: Sources, matcher_keys: Collection[str]) -> list[FieldFault]:
    """A fault for every unknown matcher key that is written in an expression."""
    faults = []
    for pointer, node in sources:
        for call in _calls_of_matches(node):
            # The second argument, if there is one.
            for key in call.args[1:2]:
                if isinstance(key, Constant) and key.value not in matcher_keys:
                    detail = f"{name_at(pointer)} names the matcher {key.value}, which does not exist."
                    detail += did_you_mean(str(key.value), matcher_keys)
                    faults.append(FieldFault(detail, pointer, code="unknown-matcher", start=key.start, end=key.end))
    return faults


class NamedKey(NamedTuple):
    """A key that is written in an expression, and the variable whose keys it is compared with."""

    variable: str
    key: str
    start: int
    end: int


def named_keys(
    node: Node, hidden: frozenset[str] = frozenset(), key_variables: Mapping[str, str] | None = None
) -> list[NamedKey]:
    """The keys of `balances.x`, `badges["x"]`, `"x" in tiers`, `audiences.exists(a, a == "x")` and the like.

    `hidden` are the variables of the enclosing macros, which hide variables of the same name. `key_variables` has the
    macro variables that take keys as values, such as `a` above, each with the variable whose keys it takes.
    """
    key_variables = key_variables or {}
    keys = list(_own_keys(node, hidden, key_variables))
    for part in parts(node):
        inner, inner_key_variables = hidden, key_variables
        if isinstance(node, Macro) and part is not node.target:
            inner = hidden | {node.variable}
            inner_key_variables = {name: variable for name, variable in key_variables.items() if name != node.variable}
            iterated_variable = _variable_with_keys(node.target, hidden)
            if iterated_variable is not None:
                inner_key_variables[node.variable] = iterated_variable
        keys += named_keys(part, inner, inner_key_variables)
    return keys


def _own_keys(node: Node, hidden: frozenset[str], key_variables: Mapping[str, str]) -> Iterator[NamedKey]:
    """The keys that the node itself compares, without those of its parts."""
    if isinstance(node, Select):
        variable = _variable_with_keys(node.target, hidden, excluded=LISTS)
        if variable is not None:
            yield NamedKey(variable, node.field, node.start, node.end)
    if not isinstance(node, FunctionCall) or node.target is not None or len(node.args) != 2:
        return
    left, right = node.args
    if node.function == "[]":
        yield from _literal_keys(_variable_with_keys(left, hidden, excluded=LISTS), right)
    elif node.function == "in":
        yield from _literal_keys(_variable_with_keys(right, hidden), left)
        yield from _literal_keys(_iterated_variable(left, key_variables), right)
    elif node.function in ("==", "!="):
        yield from _literal_keys(_variable_of_keys(left, hidden, key_variables), right)
        yield from _literal_keys(_variable_of_keys(right, hidden, key_variables), left)


def _literal_keys(variable: str | None, node: Node) -> Iterator[NamedKey]:
    """The string literals of a node that is compared with keys of `variable`: the node, or the items of a list.

    Nothing if `variable` is None: the node is not compared with keys.
    """
    if variable is None:
        return
    compared_nodes = node.items if isinstance(node, ListLiteral) else (node,)
    for item in compared_nodes:
        if isinstance(item, Constant) and isinstance(item.value, str):
            yield NamedKey(variable, item.value, item.start, item.end)


def _variable_with_keys(node: Node, hidden: frozenset[str], excluded: Collection[str] = ()) -> str | None:
    """The name of the node if it is a variable of `KEYED`; None for other nodes, and for `excluded` variables."""
    if not isinstance(node, Identifier) or node.name in hidden or node.name in excluded:
        return None
    return node.name if node.name in KEYED else None


def _iterated_variable(node: Node, key_variables: Mapping[str, str]) -> str | None:
    """The variable over whose keys the variable of a macro iterates, if the node is such a variable."""
    return key_variables.get(node.name) if isinstance(node, Identifier) else None


def _variable_of_keys(node: Node, hidden: frozenset[str], key_variables: Mapping[str, str]) -> str | None:
    """The variable whose keys the node represents: all (`tiers`), or one (`tiers[0]`, or a variable of a macro).

    None for other nodes.
    """
    if isinstance(node, FunctionCall) and node.target is None and node.function == "[]":
        variable = _variable_with_keys(node.args[0], hidden)
        return variable if variable in LISTS else None
    variable = _variable_with_keys(node, hidden)
    return _iterated_variable(node, key_variables) or (variable if variable in LISTS else None)


KEYED: Mapping[str, str] = {
    "balances": "ledger account",
    "balancesAfter": "ledger account",
    "badges": "badge",
    "missions": "mission",
    "audiences": "audience",
    "tiers": "tier",
}
"""The variables whose keys belong to the organization, with the kind of record that they name."""

LISTS = frozenset({"audiences", "tiers"})
"""The variables that are lists of keys; the others are maps from keys."""


def unknown_keys(sources: Sources, names_by_variable: Mapping[str, Mapping[str, str]]) -> list[FieldFault]:
    """A fault for every literal key that the organization does not have.

    `names_by_variable` has the existing keys of each variable, with their names; the keys of other variables are not
    checked.
    """
    faults = []
    for pointer, node in sources:
        for named_key in named_keys(node):
            keys = names_by_variable.get(named_key.variable)
            if keys is not None and named_key.key not in keys:
                kind = KEYED[named_key.variable]
                detail = f'{name_at(pointer)} names "{named_key.key[:60]}", which is the key of no {kind}.'
                detail += _suggestion_of_keys(named_key.key, keys)
                fault = FieldFault(
                    detail, pointer=pointer, code="unknown-key", start=named_key.start, end=named_key.end
                )
                faults.append(fault)
    return faults


def _suggestion_of_keys(key: str, keys: Mapping[str, str]) -> str:
    """The end of an error text: suggests a key that is similar or has a similar name, and lists the first keys."""
    if not keys:
        return " There is none at all."
    close = nearest(key, keys)
    if close is None:
        close_name = nearest(key, keys.values())
        close = next((known_key for known_key, name in keys.items() if name == close_name), None)
    suggestion = "" if close is None else f" Did you mean {close} ({keys[close]})?"
    listed_keys = ", ".join(f"{known_key} ({name})" for known_key, name in islice(keys.items(), MAX_LISTED))
    more = f" and {len(keys) - MAX_LISTED} more" if len(keys) > MAX_LISTED else ""
    return f"{suggestion} The existing keys are {listed_keys}{more}."


def faults_of_matches(campaign: Campaign, sources: Sources) -> list[FieldFault]:
    """A fault if a rule looks at order items, but no event type of the campaign has any."""
    types = {*campaign.enabled_topics, *([campaign.event_type] if campaign.event_type else [])}
    # Without types, the campaign evaluates all events; custom types may have an order.
    may_have_items = not types or not types.isdisjoint(EVENTS_WITH_ORDER) or not types <= set(BUILT_IN_EVENT_TYPES)
    if may_have_items or not any(_calls_of_matches(node) for _, node in sources):
        return []
    detail = f"rules call matches(), which looks at items of orders, and {', '.join(sorted(types))} has none"
    return [FieldFault(detail, pointer="/rules")]


def _calls_of_matches(node: Node) -> list[FunctionCall]:
    """The calls of the function `matches(item, key)`, but not of the method of texts with the same name."""
    calls = (part for part in all_nodes(node) if isinstance(part, FunctionCall))
    return [call for call in calls if call.target is None and call.function == MATCHES.name]


def _programs(campaign: CompiledCampaign) -> list[Program]:
    """The programs of the rules of all actions, and of the expressions of their effects."""
    rules = (action.rule for action in campaign.actions)
    params = (param.program for action in campaign.actions for effect in action.effects for param in effect.params)
    return [program for program in (*rules, *params) if program is not None]


def names_variable(campaign: CompiledCampaign, name: str) -> bool:
    """True if an action's rule, or an expression of one of its effects, uses the variable."""
    return any(has_variable(program.analysis.node, name) for program in _programs(campaign))


def campaign_reads_orders(campaign: CompiledCampaign) -> bool:
    """True if an action's rule, or an expression of one of its effects, reads a member's earlier orders."""
    return any(map(reads_orders, _programs(campaign)))


def has_variable(node: Node, name: str) -> bool:
    """True if an expression uses the variable."""
    return any(isinstance(part, Identifier) and part.name == name for part in all_nodes(node))


def reads_orders(program: Program) -> bool:
    """True if an expression depends on earlier orders of the member."""
    analysis = program.analysis
    return any(
        isinstance(part, Select) and part.field in ORDER_FIELDS and analysis.type_of(part.target) in (MEMBER, DYN)
        for part in all_nodes(analysis.node)
    )
