"""Parser: from text to tree."""

import re
from dataclasses import replace
from functools import cache
from typing import Any, NoReturn

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken

from domain.expressions.errors import ExpressionError, Fault
from domain.expressions.limits import MAX_DEPTH, MAX_TEXT
from domain.expressions.literals import read_decimal, read_int, read_string
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
    all_nodes,
    parts,
)

RESERVED = frozenset(
    {
        *("as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop"),
        *("namespace", "package", "return", "var", "void", "while"),
    }
)
_FORBIDDEN = re.compile("[\0\ud800-\udfff]")
_WORDS = {"true": ("bool", True), "false": ("bool", False), "null": ("null", None)}


def parse(text: str) -> Node:
    """The tree of an expression; raises `ExpressionError` with the place of the fault."""
    if not isinstance(text, str):
        raise ExpressionError([Fault(f"an expression must be a string, not {type(text).__name__}")])
    if len(text) > MAX_TEXT:
        raise ExpressionError([Fault(f"an expression has at most {MAX_TEXT} characters", MAX_TEXT, len(text), "limit")])
    if match := _FORBIDDEN.search(text):
        fault = Fault(f"the character U+{ord(match[0]):04X} is not allowed", match.start(), match.end())
        raise ExpressionError([fault])
    try:
        node: Node = _parser().parse(text)  # type: ignore[assignment]
    except UnexpectedInput as error:
        raise ExpressionError([_syntax_fault(error, text)]) from None
    # `integer` accepts 2^63 because a minus may precede it, which makes it -2^63; without a minus it is refused here.
    # The texts are 2^63 in decimal and in hexadecimal digits.
    if "9223372036854775808" in text or "8" + "0" * 15 in text:
        for part in all_nodes(node):
            if isinstance(part, Constant) and part.type == "int" and part.value == 2**63:
                read_int(part.text, part.start)
    return node


def _syntax_fault(error: UnexpectedInput, text: str) -> Fault:
    """The fault of a text that the grammar refuses, at the first unexpected token or character, or at the end."""
    size = len(text)
    if isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        return Fault("unexpected end of expression", size, size)
    start = error.pos_in_stream or 0
    if isinstance(error, UnexpectedToken):
        token = error.token
        return Fault(f"unexpected {str(token)[:40]!r}", start, start + len(token))
    assert isinstance(error, UnexpectedCharacters)
    if text[start] in "\"'`":
        return Fault("the text in quotes does not end", start, size)
    return Fault(f"unexpected character {text[start]!r}", start, start + 1)


def _refuse(message: str, start: int, end: int, code: str = "syntax") -> NoReturn:
    raise ExpressionError([Fault(message, start, end, code)])


def _start(part: Any) -> int:
    return int(part.start_pos or 0) if isinstance(part, Token) else int(part.start)


def _end(part: Any) -> int:
    return int(part.end_pos or 0) if isinstance(part, Token) else int(part.end)


def _node(kind: type[Node], children: list[Any], **fields: Any) -> Node:
    """Create a node that spans its `children`; refuse it if it is nested too deep."""
    node = kind(start=_start(children[0]), end=_end(children[-1]), **fields)
    depth = 1 + max((part.depth for part in parts(node)), default=0)
    if depth > MAX_DEPTH:
        _refuse(f"the expression is nested more than {MAX_DEPTH} deep", node.start, node.end, "limit")
    object.__setattr__(node, "depth", depth)
    return node


def _constant(token: Token, kind: str, value: object) -> Node:
    """The node of a literal, whose value was read from the token."""
    return Constant(start=token.start_pos, end=token.end_pos, type=kind, value=value, text=str(token))  # type: ignore[arg-type]


class _Builder(Transformer[Token, Node]):
    """Creates the node of each rule of the grammar as soon as it is parsed: without recursion, however deep it is.

    The `children` of a rule are its nodes and all its tokens, such as operators and commas.
    """

    def conditional(self, children: list[Any]) -> Node:
        """The node of `condition ? a : b`."""
        condition, _mark, true_result, _colon, false_result = children
        return _node(FunctionCall, children, function="?:", args=(condition, true_result, false_result))

    def chain(self, children: list[Any]) -> Node:
        """The node of operands that one operator joins, such as `a && b && c`."""
        return _node(FunctionCall, children, function=str(children[1]), args=tuple(children[::2]))

    def binary(self, children: list[Any]) -> Node:
        """The node of an operator between two operands."""
        left, operator, right = children
        return _node(FunctionCall, children, function=str(operator), args=(left, right))

    def unary(self, children: list[Any]) -> Node:
        """The node of `!` or `-` before an operand; a minus before a number gives a negative literal."""
        sign, operand = children
        # The minus before a number is part of the literal.
        if sign == "-" and isinstance(operand, Constant) and not operand.parens and operand.text[0] in ".0123456789":
            text, start = "-" + operand.text, sign.start_pos
            value = read_int(text, start) if operand.type == "int" else read_decimal(text, start)
            return replace(operand, text=text, value=value, start=start)
        return _node(FunctionCall, children, function=str(sign), args=(operand,))

    def select(self, children: list[Any]) -> Node:
        """The node of `target.field`."""
        target, _dot, field = children
        return _node(Select, children, target=target, field=str(field).strip("`"))

    def index(self, children: list[Any]) -> Node:
        """The node of `target[index]`."""
        target, _bracket, index, _ = children
        return _node(FunctionCall, children, function="[]", args=(target, index))

    def method(self, children: list[Any]) -> Node:
        """The node of `target.name(...)`: a macro or the call of a method."""
        target, _, name, *rest = children
        args = _arguments(rest)
        if name in MACROS:
            return _macro(children, target, name, args)
        return _node(FunctionCall, children, function=str(name), args=args, target=target)

    def function(self, children: list[Any]) -> Node:
        """The node of `name(...)`; refuses reserved words, and `has` without a field."""
        name, *rest = children
        args = _arguments(rest)
        if name in RESERVED:
            _refuse(f"'{name}' is a reserved word", name.start_pos, name.end_pos)
        if name == "has" and (len(args) != 1 or not isinstance(args[0], Select)):
            _refuse("has() takes one field, as in has(order.total)", name.start_pos, _end(rest[-1]))
        return _node(FunctionCall, children, function=str(name), args=args)

    def identifier(self, children: list[Any]) -> Node:
        """The node of a name; refuses reserved words."""
        name = children[0]
        if name in RESERVED:
            _refuse(f"'{name}' is a reserved word", name.start_pos, name.end_pos)
        return _node(Identifier, children, name=str(name))

    def parenthesized(self, children: list[Any]) -> Node:
        """The node in the parentheses, with one more pair of them."""
        opening, inner, closing = children
        node: Node = inner
        return replace(node, parens=node.parens + 1, start=opening.start_pos, end=closing.end_pos)

    def list_literal(self, children: list[Any]) -> Node:
        return _node(ListLiteral, children, items=_arguments(children[1:]))

    def map_literal(self, children: list[Any]) -> Node:
        entries = children[1] if isinstance(children[1], list) else []
        return _node(MapLiteral, children, entries=tuple(entries))

    def arguments(self, children: list[Any]) -> Any:
        """The nodes of a list, without the commas."""
        return children[::2]

    items = arguments
    entries = arguments

    def entry(self, children: list[Any]) -> Any:
        """The key and the value of an entry of a map."""
        key, _colon, value = children
        return key, value

    def integer(self, children: list[Any]) -> Node:
        [token] = children
        value = 2**63 if _is_magnitude_of_min_int(token) else read_int(token, token.start_pos)
        return _constant(token, "int", value)

    def decimal(self, children: list[Any]) -> Node:
        [token] = children
        return _constant(token, "decimal", read_decimal(token, token.start_pos))

    def string(self, children: list[Any]) -> Node:
        [token] = children
        return _constant(token, "string", read_string(token, token.start_pos))

    def word(self, children: list[Any]) -> Node:
        """The node of `true`, `false` or `null`."""
        return _constant(children[0], *_WORDS[str(children[0])])

    def unsupported(self, children: list[Any]) -> Node:
        """Refuse a literal that CEL has and this language has not."""
        token = children[0]
        what = "bytes" if token.type == "BYTES" else "unsigned integers"
        _refuse(f"{what} are not part of this language", _start(token), _end(token), "unsupported")


def _is_magnitude_of_min_int(token: str) -> bool:
    """True if the digits are 2^63, which fits an integer only with a minus before it."""
    digits = token.lower().removeprefix("0x").lstrip("0")
    return digits == ("8" + "0" * 15 if token[:2] in ("0x", "0X") else "9223372036854775808")


def _arguments(rest: list[Any]) -> tuple[Node, ...]:
    """The nodes of the list of arguments among the children `rest`; none for `f()`, which has no such list."""
    lists = [part for part in rest if isinstance(part, list)]
    return tuple(lists[0]) if lists else ()


def _macro(children: list[Any], target: Node, name: Token, args: tuple[Node, ...]) -> Node:
    """The node of a macro such as `items.filter(i, i.total > 5)`; refuses arguments of another form."""
    if len(args) not in ((2, 3) if name == "map" else (2,)):
        _refuse(f"{name}() takes a variable and an expression", _start(name), _end(children[-1]))
    variable = args[0]
    if not isinstance(variable, Identifier) or variable.parens:
        _refuse(f"the first argument of {name}() names a variable", variable.start, variable.end)
    condition = args[1] if len(args) == 3 else None
    return _node(
        Macro,
        children,
        function=str(name),
        target=target,
        variable=variable.name,
        body=args[-1],
        condition=condition,
    )


@cache
def _parser() -> Lark:
    """The parser of the grammar, which calls `_Builder` for each rule."""
    return Lark.open(
        "grammar.lark",
        rel_to=__file__,
        parser="lalr",
        lexer="basic",
        transformer=_Builder(),
        keep_all_tokens=True,
        maybe_placeholders=False,
    )
