"""Renderer: from tree to text."""

import re

from domain.expressions.tree import (
    BINARY,
    CHAINS,
    Constant,
    FunctionCall,
    Identifier,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Select,
)

_NAME = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*", re.ASCII)
_WORDS = frozenset({"true", "false", "null", "in"})


def to_text(node: Node) -> str:
    """The text of a tree: the parsed text with normalized white space, without comments and trailing commas."""
    return "(" * node.parens + _bare(node) + ")" * node.parens


def _bare(node: Node) -> str:
    match node:
        case Constant(text=text):
            return text
        case Identifier(name=name):
            return name
        case Select(target=target, field=field):
            return f"{to_text(target)}.{name_of_field(field)}"
        case ListLiteral(items=items):
            return f"[{_comma(items)}]"
        case MapLiteral(entries=entries):
            return "{" + ", ".join(f"{to_text(key)}: {to_text(value)}" for key, value in entries) + "}"
        case Macro():
            given = [] if node.condition is None else [node.condition]
            return f"{to_text(node.target)}.{node.function}({node.variable}, {_comma((*given, node.body))})"
        case FunctionCall():
            return _call(node)
    raise TypeError(f"not a node: {node!r}")


def _comma(nodes: tuple[Node, ...]) -> str:
    return ", ".join(map(to_text, nodes))


def _call(node: FunctionCall) -> str:
    name, args = node.function, node.args
    if node.target is not None:
        return f"{to_text(node.target)}.{name}({_comma(args)})"
    if name in CHAINS or (name in BINARY and len(args) == 2):
        return f" {name} ".join(map(to_text, args))
    if name in ("!", "-"):
        return name + to_text(args[0])
    if name == "?:":
        return f"{to_text(args[0])} ? {to_text(args[1])} : {to_text(args[2])}"
    if name == "[]":
        return f"{to_text(args[0])}[{to_text(args[1])}]"
    return f"{name}({_comma(args)})"


def name_of_field(field: str) -> str:
    """The field as it is written after a dot: in back quotes unless it is a plain name."""
    return field if _NAME.fullmatch(field) and field not in _WORDS else f"`{field}`"
