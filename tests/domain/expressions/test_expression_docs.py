"""The examples of docs/expressions.md are run, and its figures are compared with measured ones."""

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

from domain.campaigns.variables import ENVIRONMENT
from domain.expressions import (
    Environment,
    ExpressionError,
    check,
    compile_expression,
    explain,
    from_tree,
    label,
    parse,
    reason,
    to_text,
)
from domain.expressions.explain import MAX_CHARACTERS
from domain.expressions.functions import FUNCTIONS, METHODS
from domain.expressions.limits import (
    DEFAULT_COST,
    EVENT_COST,
    INSTRUCTIONS_PER_UNIT,
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_MATCHING,
    MAX_PATTERN,
    MAX_PROGRAM,
    MAX_STRING,
    MAX_TEXT,
    MAX_TEXTS,
)
from domain.expressions.tree import MACROS
from domain.expressions.types import TIMESTAMP, ListOf, MapOf, ObjectOf
from tests.cel_conformance import CHECKED, EMPTY_LISTS, OTHER, outcomes
from tests.domain.expressions.test_expression_conformance import DEVIATIONS, PASSED, SYNTAX, TYPES, WORDS

PAGE = (Path(__file__).parents[3] / "docs" / "expressions.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
_, VARIABLES, TREE = (block for language, block in BLOCKS if language == "json")
EXAMPLES = [
    tuple(part.strip() for part in line.rsplit("// ", 1))
    for language, block in BLOCKS
    if language == "cel"
    for line in block.splitlines()
]


def with_all_fields(kind, value):
    """The value with all declared fields, None if it lacks them, and with timestamps instead of their texts."""
    if isinstance(kind, ObjectOf) and value is not None:
        return {name: with_all_fields(field.type, value.get(name)) for name, field in kind.fields.items()}
    if isinstance(kind, ListOf) and value is not None:
        return [with_all_fields(kind.element, item) for item in value]
    if isinstance(kind, MapOf) and value is not None:
        return {key: with_all_fields(kind.value, item) for key, item in value.items()}
    if kind == TIMESTAMP and value is not None:
        return compile_expression(parse(f"timestamp('{value}')"), Environment({})).run({})
    return value


@pytest.fixture(scope="module")
def context():
    values = json.loads(VARIABLES, parse_float=Decimal)
    assert set(values) < set(ENVIRONMENT.variables)
    return {name: with_all_fields(kind, values.get(name)) for name, kind in ENVIRONMENT.variables.items()}


def test_the_page_has_examples():
    assert len(EXAMPLES) > 60


@pytest.mark.parametrize(("text", "result"), EXAMPLES, ids=[text for text, _ in EXAMPLES])
def test_examples_of_the_page_evaluate_to_their_values(text, result, context):
    """The page shows a value, or a message after `refused: ` or `error: `."""
    if result.startswith("refused: "):
        try:
            faults = check(parse(text), ENVIRONMENT).faults
        except ExpressionError as error:
            faults = error.faults
        assert [fault.message for fault in faults] == [result.removeprefix("refused: ")]
        return
    program = compile_expression(parse(text), ENVIRONMENT)
    if result.startswith("error: "):
        with pytest.raises(Exception, match=f"^{re.escape(result.removeprefix('error: '))}$"):
            program.run(context)
        return
    expected_value = compile_expression(parse(result), Environment({})).run({})
    assert program.run(context) == expected_value


def test_the_first_example_has_the_sentence_that_the_page_names():
    text = next(block.strip() for language, block in BLOCKS if not language)
    sentence = re.search(r"^> (.*)$", PAGE, re.MULTILINE)
    assert sentence is not None
    assert label(parse(text), ENVIRONMENT) == sentence[1]


def test_the_example_of_a_reason_is_correct(context):
    text = re.search(r"^For `(.*)`:$", PAGE, re.MULTILINE)
    assert text is not None
    why = reason(explain(parse(text[1]), ENVIRONMENT, context))
    assert why is not None
    assert f'> `{why["code"]}` at {why["at"][0]} to {why["at"][1]}: "{why["label"]}"\n' in PAGE


def test_the_example_of_a_tree_is_correct():
    assert to_text(from_tree(json.loads(TREE))) == "order.total >= 50"


def test_every_function_is_on_the_page():
    tables = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    for name in {*FUNCTIONS, *METHODS, *MACROS} - {"dyn", "type"}:
        assert re.search(rf"\b{name}\(", tables), name


def test_every_variable_and_field_is_on_the_page():
    tables = "\n".join(line for line in PAGE.splitlines() if line.startswith("|"))
    pending = list(ENVIRONMENT.variables.items())
    while pending:
        name, kind = pending.pop()
        assert re.search(rf"\b{name}\b", tables), name
        inner = getattr(kind, "element", None) or getattr(kind, "value", None) or kind
        if isinstance(inner, ObjectOf):
            pending.extend((field, field_type.type) for field, field_type in inner.fields.items())


@pytest.mark.parametrize(
    ("row", "limits"),
    [
        ("text of an expression", [MAX_TEXT]),
        ("nesting", [MAX_DEPTH]),
        ("cost", [DEFAULT_COST, EVENT_COST]),
        ("strings, lists", [MAX_STRING, MAX_ITEMS]),
        ("patterns", [MAX_PATTERN, MAX_PROGRAM, INSTRUCTIONS_PER_UNIT, MAX_MATCHING]),
        ("all texts together", [MAX_TEXTS]),
        ("explanations", [MAX_CHARACTERS]),
    ],
)
def test_the_page_names_the_limits(row, limits):
    [sentence] = re.findall(rf"^\| {row} \| (.*) \|$", PAGE, re.MULTILINE)
    for limit in limits:
        assert re.search(rf"\b{limit:,}\b(?!,[0-9])", sentence)


def test_the_page_has_the_figures_of_conformance():
    section = " ".join(PAGE[PAGE.index("## How close") :].split())
    for name, (passing, total) in PASSED.items():
        assert f"| {name} | {passing} | {total} |" in section
    for name, count in DEVIATIONS.items():
        assert f"| {count} | {WORDS[name]} |" in section
    supported_outcomes = [outcome for outcome in outcomes() if outcome.category in (OTHER, CHECKED, EMPTY_LISTS)]
    passing, total = (sum(figures) for figures in zip(*PASSED.values(), strict=True))
    passed_supported = sum(outcome.passed for outcome in supported_outcomes)
    assert (
        f"passes {passing} of {total:,} conformance tests: {passed_supported} of the {len(supported_outcomes)} tests"
        f" that use only what the language has, and {passing - passed_supported} of the others." in section
    )
    assert f"on {SYNTAX['parsing'][0]} of {SYNTAX['parsing'][1]} texts" in section
    assert f"of {TYPES[0]} of {TYPES[1]} expressions" in section
