"""Trees as JSON, for rule builders that work on the tree rather than on the text.

Every node is an object with a `kind`:

    constant    type (int, decimal, string, bool, null), value (decimals and integers beyond 2^53 are strings)
    identifier  name
    select      target, field
    list        items
    map         entries: [{key, value}]
    call        function, args, and target for a method; operators are named by their sign
    macro       function, target, variable, body, and condition for a `map` of three arguments

A constant whose spelling differs from the canonical one (`'single'`, `0xFF`) has it as `text`, and `parens` counts the
pairs of parentheses beyond the needed ones. So text -> tree -> text restores the text, except for white space, comments
and trailing commas. An annotated tree adds `type` and `at` ([start, end]); both are ignored when a tree is read.
"""

from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

from domain.expressions.check import Analysis
from domain.expressions.errors import ExpressionError, Fault
from domain.expressions.limits import MAX_DEPTH, MAX_NODES, MAX_TEXT
from domain.expressions.literals import spell
from domain.expressions.numbers import is_decimal_text
from domain.expressions.parse import parse
from domain.expressions.program import to_text
from domain.expressions.tree import (
    MACROS,
    Constant,
    FunctionCall,
    Identifier,
    ListLiteral,
    Macro,
    MapLiteral,
    Node,
    Select,
    is_operator,
    parts_with_precedence,
    precedence_of,
)

_EXACT_IN_DOUBLES = 2**53


def to_tree(node: Node, annotate: Analysis | bool = False) -> dict[str, Any]:
    """The tree as JSON; `annotate` adds each node's place, and its type if it is the result of `check` for the node."""
    return _Writer(annotate).write(node, 0)


class _Writer:
    """Writes nodes as JSON; `annotate` is that of `to_tree`."""

    def __init__(self, annotate: Analysis | bool) -> None:
        self.annotate = annotate

    def write(self, node: Node, required_parens: int) -> dict[str, Any]:
        """Write the node; `required_parens`, 0 or 1, is the number of its parentheses that its place requires."""
        result = self.write_fields(node)
        if node.parens > required_parens:
            result["parens"] = node.parens - required_parens
        if isinstance(self.annotate, Analysis):
            result["type"] = str(self.annotate.type_of(node))
        if self.annotate:
            result["at"] = [node.start, node.end]
        return result

    def write_fields(self, node: Node) -> dict[str, Any]:
        """Write the kind and the fields of the node.

        The parts of the node are written in the order of the text, which is that of its fields: each field takes the
        next of the `written_parts`.
        """
        if isinstance(node, Constant):
            return _constant(node)
        written_parts = (
            self.write(part, required_parens=1 if precedence_of(part) < required_precedence else 0)
            for part, required_precedence in parts_with_precedence(node)
        )
        kind = _KINDS[type(node)]
        _, fields = _NODES[kind]
        result: dict[str, Any] = {"kind": kind}
        for name in fields:
            value = getattr(node, name)
            if value is not None:
                result[name] = _field_of(value, written_parts)
        return result


def _field_of(value: Any, written_parts: Iterator[dict[str, Any]]) -> Any:
    """The JSON of a field of a node, in which each node is replaced by the next one of the written parts.

    A tuple in a list is an entry of a map: its key and its value.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, Node):
        return next(written_parts)
    return [
        {"key": next(written_parts), "value": next(written_parts)} if isinstance(item, tuple) else next(written_parts)
        for item in value
    ]


def _constant(node: Constant) -> dict[str, Any]:
    """The JSON of a literal, with its text if the text is not the usual spelling of the value."""
    value = node.value
    if isinstance(value, Decimal):
        value = spell(value)
    elif isinstance(value, int) and abs(value) >= _EXACT_IN_DOUBLES:
        value = str(value)
    result = {"kind": "constant", "type": node.type, "value": value}
    return result if node.text == spell(node.value) else result | {"text": node.text}


def from_tree(value: object) -> Node:
    """The node of a JSON tree. The tree is printed as a text, which must parse to the same tree.

    So a tree can express nothing that a text cannot. Raises `ExpressionError`.
    """
    node = _Reader().read(value, "", 1)
    try:
        text = to_text(node)
        if len(text) > MAX_TEXT:
            _refuse(f"the expression of the tree has more than {MAX_TEXT} characters", "limit")
        printed_node = parse(text)
    except RecursionError:
        _refuse(f"the tree is nested more than {MAX_DEPTH} deep", "limit")
    if printed_node != node:
        _refuse(f"the tree differs from the tree of its text {text[:200]!r}", "tree")
    return printed_node


def _refuse(message: str, code: str = "tree") -> NoReturn:
    raise ExpressionError([Fault(message, code=code)])


class _Reader:
    """Reads untrusted trees, and checks the JSON type of each field, the depth and the number of nodes.

    The readers of fields (see `_NODES`) have the same parameters: the JSON value, its path and the depth of its nodes.
    """

    def __init__(self) -> None:
        self.node_count = 0

    def read(self, value: object, path: str, depth: int) -> Node:
        """Read a node of any kind; refuses unknown kinds and fields."""
        self.node_count += 1
        if depth > MAX_DEPTH or self.node_count > MAX_NODES:
            _refuse(f"the tree is nested more than {MAX_DEPTH} deep or has more than {MAX_NODES} nodes", "limit")
        if not isinstance(value, Mapping):
            _refuse(f"{path or 'the tree'} is not an object")
        fields = {name: content for name, content in value.items() if name not in ("at", "parens")}
        kind = fields.pop("kind", None)
        if not isinstance(kind, str) or kind not in _NODES:
            _refuse(f"{path}/kind is not one of {', '.join(_NODES)}")
        if kind == "constant":
            node = self.constant(fields, path)
        else:
            fields.pop("type", None)
            node = self.node(kind, fields, path, depth)
        if fields:
            _refuse(f"{path}/{str(next(iter(fields)))[:40]} is not a field of {kind}")
        return _set_parens(node, self.count(value.get("parens", 0), f"{path}/parens"))

    def count(self, value: object, path: str) -> int:
        """Read the number of pairs of parentheses."""
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_TEXT:
            _refuse(f"{path} is not a whole number from 0 to {MAX_TEXT}")
        return value

    def text(self, value: object, path: str, depth: int = 0) -> str:
        """Read a text."""
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            _refuse(f"{path} is not a text of at most {MAX_TEXT} characters")
        return value

    def nodes(self, value: object, path: str, depth: int) -> tuple[Node, ...]:
        """Read a list of nodes."""
        if not isinstance(value, list):
            _refuse(f"{path} is not a list")
        return tuple(self.read(item, f"{path}/{i}", depth) for i, item in enumerate(value))

    def entries(self, value: object, path: str, depth: int) -> tuple[tuple[Node, Node], ...]:
        """Read the entries of a map, each an object with `key` and `value`."""
        if not isinstance(value, list):
            _refuse(f"{path} is not a list")
        entries = []
        for i, entry in enumerate(value):
            if not isinstance(entry, Mapping) or set(entry) != {"key", "value"}:
                _refuse(f"{path}/{i} is not an object with key and value")
            key = self.read(entry["key"], f"{path}/{i}/key", depth)
            entries.append((key, self.read(entry["value"], f"{path}/{i}/value", depth)))
        return tuple(entries)

    def constant(self, fields: dict[Any, Any], path: str) -> Node:
        """Read a literal by its `type`."""
        kind = self.text(fields.pop("type", None), f"{path}/type")
        read_value = _VALUES.get(kind, _refuse_type)
        value = read_value(fields.pop("value", None), path)
        text = self.text(fields.pop("text"), f"{path}/text") if "text" in fields else spell(value)
        return Constant(type=kind, value=value, text=text)

    def node(self, kind: str, fields: dict[Any, Any], path: str, depth: int) -> Node:
        """Read a node of this kind by the readers of its fields, which are removed from `fields`."""
        node_class, readers = _NODES[kind]
        values = {
            name: read(self, fields.pop(name, None), f"{path}/{name}", depth + 1)
            for name, read in readers.items()
            if name in fields or (kind, name) not in _OPTIONAL
        }
        node = node_class(**values)
        if isinstance(node, Macro) and node.function not in MACROS:
            _refuse(f"{path}/function is not one of {', '.join(sorted(MACROS))}")
        if isinstance(node, FunctionCall) and is_operator(node) and not _allows_operands(node.function, len(node.args)):
            _refuse(f"{path}/args has the wrong number of operands for {node.function}")
        return node


# The class of each kind of node, and how its fields are read. Fields with nodes are in the order of the text.
_NODES: Mapping[str, tuple[type[Node], Mapping[str, Callable[..., Any]]]] = {
    "constant": (Constant, {}),
    "identifier": (Identifier, {"name": _Reader.text}),
    "select": (Select, {"target": _Reader.read, "field": _Reader.text}),
    "list": (ListLiteral, {"items": _Reader.nodes}),
    "map": (MapLiteral, {"entries": _Reader.entries}),
    "call": (FunctionCall, {"function": _Reader.text, "target": _Reader.read, "args": _Reader.nodes}),
    "macro": (
        Macro,
        {
            "function": _Reader.text,
            "target": _Reader.read,
            "variable": _Reader.text,
            "condition": _Reader.read,
            "body": _Reader.read,
        },
    ),
}
_KINDS = {node_class: kind for kind, (node_class, _) in _NODES.items()}
_OPTIONAL = frozenset({("call", "target"), ("macro", "condition")})


def _allows_operands(operator: str, count: int) -> bool:
    """True if the operator takes this number of operands."""
    if operator in ("&&", "||"):
        return count >= 2
    return count in {"-": (1, 2), "!": (1,), "?:": (3,)}.get(operator, (2,))


def _set_parens(node: Node, extra: int) -> Node:
    """Set the node's `parens`; add to the `parens` of each part the pair that its place requires, if any."""
    object.__setattr__(node, "parens", extra)
    for part, required_precedence in parts_with_precedence(node):
        if precedence_of(part) < required_precedence:
            object.__setattr__(part, "parens", part.parens + 1)
    return node


def _refuse_type(value: object, path: str) -> NoReturn:
    _refuse(f"{path}/type is not one of {', '.join(_VALUES)}")


def _int(value: object, path: str) -> int:
    """Read a whole number of 64 bits: a number of JSON, or a text of digits."""
    # 20 characters are enough for 64 bits with a sign.
    if isinstance(value, str) and len(value) <= 20 and value.lstrip("-").isascii() and value.lstrip("-").isdigit():
        try:
            return int(value)
        except ValueError:  # Such as `--1`, which is refused below.
            pass
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**63:
        _refuse(f"{path}/value is not an integer of 64 bits")
    return value


def _decimal(value: object, path: str) -> Decimal:
    """Read a decimal, which is written as a text."""
    if isinstance(value, str) and is_decimal_text(value):
        try:
            value = Decimal(value)
        except InvalidOperation:
            value = None
    if not isinstance(value, Decimal) or not value.is_finite():
        _refuse(f"{path}/value is not a decimal written as a text")
    return value


def _string(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        _refuse(f"{path}/value is not a text of at most {MAX_TEXT} characters")
    return value


def _bool(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        _refuse(f"{path}/value is neither true nor false")
    return value


def _null(value: object, path: str) -> None:
    if value is not None:
        _refuse(f"{path}/value is not null")


_VALUES: dict[str, Callable[[object, str], object]] = {
    "int": _int,
    "decimal": _decimal,
    "string": _string,
    "bool": _bool,
    "null": _null,
}
