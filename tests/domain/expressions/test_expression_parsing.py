"""The parser of expressions: operators, literals, macros, comments, and the places of faults."""

import time
from decimal import Decimal

import pytest

from domain.expressions import ExpressionError, parse, to_text
from domain.expressions.limits import MAX_DEPTH, MAX_TEXT
from domain.expressions.tree import Constant, FunctionCall, Macro, Select


def fault(text):
    """The first fault of a text that is refused."""
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value.faults[0]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("42", 42),
        ("-42", -42),
        ("0x2A", 42),
        ("-0X2a", -42),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-0x8000000000000000", -(2**63)),
        ("8000000000000000", 8 * 10**15),
        ("7".zfill(40), 7),
        ("0.05", Decimal("0.05")),
        (".5", Decimal("0.5")),
        ("1.5".zfill(100), Decimal("1.5")),
        ("'\\ud7ff\\ue000'", "\ud7ff\ue000"),
        ("1e3", Decimal(1000)),
        ("-1.50E-2", Decimal("-0.015")),
        ("true", True),
        ("null", None),
        ('"a\\"b"', 'a"b'),
        ("'a\"b'", 'a"b'),
        ("r'a\\nb'", "a\\nb"),
        ('R"a"', "a"),
        ("'''a\n'b'\n'''", "a\n'b'\n"),
        ('"""say "hi" """', 'say "hi" '),
        ("'\\a\\b\\f\\n\\r\\t\\v\\\\\\?\\`'", "\a\b\f\n\r\t\v\\?`"),
        ("'\\x41\\X42\\u00e9\\U0001F600\\101'", "ABé😀A"),
    ],
)
def test_literals_are_constants(text, value):
    node = parse(text)
    assert isinstance(node, Constant)
    assert type(node.value) is type(value)
    assert node.value == value
    assert node.text == text


@pytest.mark.parametrize(
    ("text", "start", "end", "message"),
    [
        ("", 0, 0, "unexpected end of expression"),
        ("order.total >", 13, 13, "unexpected end of expression"),
        ("order.total > 5 )", 16, 17, "unexpected ')'"),
        ("a b", 2, 3, "unexpected 'b'"),
        ("a + # b", 4, 5, "unexpected character '#'"),
        # A long word is cut.
        ("a " + "b" * 41, 2, 43, f"unexpected {'b' * 40!r}"),
        ("a == 'x", 5, 7, "the text in quotes does not end"),
        ("in", 0, 2, "unexpected 'in'"),
        ("a.true", 2, 6, "unexpected 'true'"),
        ("if", 0, 2, "'if' is a reserved word"),
        ("1 + for(2)", 4, 7, "'for' is a reserved word"),
        ("2 + 9223372036854775808", 4, 23, "the integer does not fit 64 bits"),
        ("-9223372036854775809", 1, 20, "the integer does not fit 64 bits"),
        ("0x8000000000000000", 0, 18, "the integer does not fit 64 bits"),
        ("1" * 3000, 0, 3000, "the integer does not fit 64 bits"),
        # A number of more than 40 digits is not read, even if most of them are zeros.
        ("7".zfill(41), 0, 41, "the integer does not fit 64 bits"),
        ("1e7000", 0, 6, "a decimal must be 0, or from 1e-6143 to below 1e6145 in absolute value"),
        ("0." + "1" * 35, 0, 37, "the decimal has more than 34 significant digits"),
        ("'ab\\z'", 3, 5, "unknown escape \\z"),
        ("'\\ud800'", 1, 7, "\\ud800 is not a character"),
        ("'ab\\ud800'", 3, 9, "\\ud800 is not a character"),
        ("1.5".zfill(101), 0, 101, "not a decimal number"),
        ("'\\udfff'", 1, 7, "\\udfff is not a character"),
        ("'\\U00110000'", 1, 11, "\\U00110000 is not a character"),
        ("'\\000'", 0, 6, "the character U+0000 is not allowed"),
        ("a\0", 1, 2, "the character U+0000 is not allowed"),
        ("\ud800", 0, 1, "the character U+D800 is not allowed"),
        ("1 + 7u", 4, 6, "unsigned integers are not part of this language"),
        ("b'x'", 0, 4, "bytes are not part of this language"),
        ("a.exists(1, b)", 9, 10, "the first argument of exists() names a variable"),
        ("a.exists((x), b)", 9, 12, "the first argument of exists() names a variable"),
        ("a.all(x)", 2, 8, "all() takes a variable and an expression"),
        ("has(a)", 0, 6, "has() takes one field, as in has(order.total)"),
        ("é", 0, 1, "unexpected character 'é'"),
    ],
)
def test_a_syntax_fault_has_a_place_and_a_message(text, start, end, message):
    error = fault(text)
    assert (error.start, error.end, error.message) == (start, end, message)


def test_positions_count_code_points():
    node = parse("'😀' == x.y")
    assert isinstance(node, FunctionCall)
    assert [(part.start, part.end) for part in node.args] == [(0, 3), (7, 10)]


def test_operators_bind_by_their_precedence():
    text = "a || b && c == d + e * -f.g[0]"
    inner = "a || (b && (c == (d + (e * (-((f.g)[0]))))))"
    assert to_text(parse(text)) == text
    assert str(strip(parse(inner))) == str(strip(parse(text)))


def strip(node):
    """The structure of a tree: operators and names without parentheses."""
    if isinstance(node, FunctionCall):
        return (node.function, *map(strip, node.args))
    if isinstance(node, Select):
        return (strip(node.target), node.field)
    return to_text(node).strip("()")


@pytest.mark.parametrize("sign", ["&&", "||"])
def test_a_chain_of_one_operator_is_one_level_of_the_tree(sign):
    node = parse(f" {sign} ".join(["a"] * 500))
    assert isinstance(node, FunctionCall)
    assert len(node.args) == 500
    assert node.depth == 2


def test_subtraction_is_left_associative():
    node = parse("1 - 2 - 3")
    assert isinstance(node, FunctionCall)
    assert to_text(node.args[0]) == "1 - 2"


def test_the_conditional_is_right_associative():
    node = parse("a ? 1 : b ? 2 : 3")
    assert isinstance(node, FunctionCall)
    assert to_text(node.args[2]) == "b ? 2 : 3"


def test_macros_are_distinct_from_fields_and_functions():
    node = parse("a.map(x, x > 1, x * 2)")
    assert isinstance(node, Macro)
    assert (node.variable, to_text(node.condition), to_text(node.body)) == ("x", "x > 1", "x * 2")
    assert isinstance(parse("a.exists"), Select)
    assert isinstance(parse("exists(a, b)"), FunctionCall)


def test_comments_and_white_space_are_ignored():
    assert to_text(parse("a // first\n  &&\tb // second")) == "a && b"


@pytest.mark.parametrize("text", ["[1, 2,]", "{'a': 1,}", "[]", "{}"])
def test_trailing_commas_are_ignored(text):
    assert to_text(parse(text)) == text.replace(",]", "]").replace(",}", "}")


@pytest.mark.parametrize("text", ["f(a,)", "[,]", "{,}", "f(,)", "{'a'}"])
def test_misplaced_commas_are_faults(text):
    assert fault(text).message.startswith("unexpected")


def test_reserved_words_may_name_fields():
    assert to_text(parse("a.for.`in`.`content-type`")) == "a.for.`in`.`content-type`"


HOSTILE = [
    "(" * MAX_TEXT,
    "[" * MAX_TEXT,
    "(" * 1999 + "1" + ")" * 2000,
    "[" * 1999 + "]" * 2000,
    "!" * 3999 + "a",
    "-" * 3999 + "1",
    "1" + "+1" * 1999,
    "a" + ".b" * 1999,
    "a" + "[0]" * 1300,
    "a?b:" * 999 + "c",
    "{1:" * 1000 + "1" + "}" * 1000,
    "a.map(x," * 400 + "x" + ")" * 400,
    "'" * MAX_TEXT,
    '"""' * 1300,
    "\\" * MAX_TEXT,
    "`" * MAX_TEXT,
    "a&&" * 1333,
    ",".join("a" * 1999),
    "//" * 2000,
    "1." * 2000,
    "0x" * 2000,
    "\n" * MAX_TEXT,
    "é" * MAX_TEXT,
    "1e" + "9" * 3990,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12].encode("unicode_escape").decode())
def test_hostile_text_is_refused_or_read_in_good_time(text):
    start = time.process_time()
    faults = ()
    try:
        parse(text)
    except ExpressionError as error:
        faults = error.faults
    assert all(0 <= fault.start <= fault.end <= len(text) for fault in faults)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("size", [MAX_TEXT + 1, 100_000, 10_000_000])
def test_a_text_that_is_too_long_is_refused(size):
    error = fault("(" * size)
    assert error.code == "limit"
    assert error.message == f"an expression has at most {MAX_TEXT} characters"


def test_a_text_of_the_maximum_length_is_read():
    node = parse('"' + "a" * (MAX_TEXT - 2) + '"')
    assert isinstance(node, Constant)
    assert node.value == "a" * (MAX_TEXT - 2)


def test_an_expression_has_a_maximum_depth():
    assert parse("a" + ".b" * (MAX_DEPTH - 1)).depth == MAX_DEPTH
    assert fault("a" + ".b" * MAX_DEPTH).code == "limit"


def test_a_value_that_is_not_a_text_is_refused():
    assert fault(None).message == "an expression must be a string, not NoneType"
    assert fault(b"a").message == "an expression must be a string, not bytes"
