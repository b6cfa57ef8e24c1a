"""The nodes of an expression.

A node has its place in the text (`start`, `end`, in code points, parentheses included) and the number of pairs of
parentheses written around it, so that printing it restores the text. Equality ignores positions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

CONDITIONAL, OR, AND, RELATION, SUM, PRODUCT, UNARY, MEMBER, BARE = range(9)
"""The precedence of a node; `BARE` is for nodes that never need parentheses."""

BINARY = {
    "==": RELATION,
    "!=": RELATION,
    "<": RELATION,
    "<=": RELATION,
    ">": RELATION,
    ">=": RELATION,
    "in": RELATION,
    "+": SUM,
    "-": SUM,
    "*": PRODUCT,
    "/": PRODUCT,
    "%": PRODUCT,
}
CHAINS = {"||": OR, "&&": AND}
OPERATORS = frozenset({*BINARY, *CHAINS, "!", "?:", "[]"})
MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The base of all nodes; `depth` is the height of the tree under it."""

    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)
    parens: int = 0
    depth: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Constant(Node):
    """A literal: `type` is int, decimal, string, bool or null, and `text` its spelling."""

    type: str
    value: object
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Identifier(Node):
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Select(Node):
    """A field of an object, or a string key of a map: `target.field`."""

    target: Node
    field: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLiteral(Node):
    """`[a, b]`."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapLiteral(Node):
    """`{key: value}`."""

    entries: tuple[tuple[Node, Node], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionCall(Node):
    """An operator, a function (`target` is None) or a method.

    The `function` of an operator is its sign. `&&` and `||` have two or more arguments, `-` one or two, `?:` three, and
    `[]` two.
    """

    function: str
    args: tuple[Node, ...]
    target: Node | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro(Node):
    """`target.function(variable, body)`; `map` may have a condition: `target.map(variable, condition, body)`."""

    function: str
    target: Node
    variable: str
    body: Node
    condition: Node | None = None


def is_operator(node: Node) -> bool:
    """True if the node is written with a sign rather than as a call."""
    return isinstance(node, FunctionCall) and node.target is None and node.function in OPERATORS


def precedence_of(node: Node) -> int:
    """The precedence of the node; a node with a higher one binds tighter."""
    if isinstance(node, Constant):
        return UNARY if node.text.startswith("-") else BARE
    if not isinstance(node, FunctionCall) or node.target is not None or node.function not in OPERATORS:
        return MEMBER
    if node.function == "!" or (node.function == "-" and len(node.args) == 1):
        return UNARY
    if node.function == "?:":
        return CONDITIONAL
    return CHAINS.get(node.function) or BINARY.get(node.function, MEMBER)


def parts_with_precedence(node: Node) -> Iterator[tuple[Node, int]]:
    """The direct parts of the node in written order, each with the lowest precedence that needs no parentheses."""
    match node:
        case Select(target=target):
            yield target, MEMBER
        case ListLiteral(items=items):
            yield from ((item, CONDITIONAL) for item in items)
        case MapLiteral(entries=entries):
            for key, value in entries:
                yield key, CONDITIONAL
                yield value, CONDITIONAL
        case Macro():
            yield node.target, MEMBER
            if node.condition is not None:
                yield node.condition, CONDITIONAL
            yield node.body, CONDITIONAL
        case FunctionCall(target=None, function=name, args=args) if name in OPERATORS:
            yield from zip(args, _operand_precedences(name, args), strict=True)
        case FunctionCall():
            if node.target is not None:
                yield node.target, MEMBER
            yield from ((argument, CONDITIONAL) for argument in node.args)


def _operand_precedences(name: str, args: tuple[Node, ...]) -> tuple[int, ...]:
    """The lowest precedence with which each operand of an operator needs no parentheses."""
    if name in CHAINS:
        return (CHAINS[name] + 1,) * len(args)
    if name == "?:":
        return OR, OR, CONDITIONAL
    if name == "[]":
        return MEMBER, CONDITIONAL
    if len(args) == 1:
        # `-5` is a literal, so the negation of the literal 5 is written `-(5)`: above BARE, it always gets parentheses.
        is_number = name == "-" and isinstance(args[0], Constant) and args[0].type in ("int", "decimal")
        is_positive_number = is_number and precedence_of(args[0]) != UNARY
        return (BARE + 1,) if is_positive_number else (UNARY,)
    return BINARY[name], BINARY[name] + 1


def parts(node: Node) -> Iterator[Node]:
    """The direct parts of the node in the order of the text."""
    return (part for part, _ in parts_with_precedence(node))


def all_nodes(node: Node) -> Iterator[Node]:
    """The node and all nodes under it, in the order of the text."""
    remaining_nodes = [node]
    while remaining_nodes:
        node = remaining_nodes.pop()
        yield node
        remaining_nodes += reversed([*parts(node)])


def operands(node: FunctionCall) -> tuple[Node, ...]:
    """The arguments of a call, after the receiver if it is a method."""
    return node.args if node.target is None else (node.target, *node.args)


def weight(node: Node) -> int:
    """The number of nodes of the tree, which is the cost of one evaluation without loops."""
    return 1 + sum(map(weight, parts(node)))


def macro_weight(node: Macro) -> int:
    """The number of nodes that a macro evaluates for one item: the nodes of its body and of its condition."""
    return weight(node.body) + (0 if node.condition is None else weight(node.condition))
