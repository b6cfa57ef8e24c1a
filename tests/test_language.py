"""Docstrings begin with a noun phrase or an imperative, and names use the words of the glossary."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("domain", "handlers", "persistence")
EVERYWHERE = (*FOLDERS, "openapi", "tests", "bench")
# Migrations keep the words of their time.
LEFT_OUT = ("persistence/migrations",)
PRONOUN = re.compile(r"(What|Whoever|Those)\b")
METAPHORS = frozenset({"desk", "clerk", "till", "shelf", "rehearsal", "ladder", "lineup"})
# Names that do not describe a thing.
EMPTY_NAMES = frozenset({"each", "found", "wanted", "said", "everything", "own", "mine", "some", "in_all"})
METAPHORS_AND_PLURALS = METAPHORS | {"shelves", "hears"} | {f"{word}s" for word in METAPHORS - {"shelf"}}
# Names of which a reader asks: a known what?
PARTICIPLE = re.compile(
    r"added|allowed|answered|applied|asked|begun|broken|brought|changed|checked|chosen|claimed|"
    r"closed|come|completed|concerned|counted|covered|described|done|drawn|earned|emptied|enrolled|expected|"
    r"filled|fixed|given|gone|granted|grown|handed|"
    r"heard|held|inherited|installed|kept|known|laid|left|limited|loaded|lost|made|marked|matched|meant|missing|"
    r"moved|named|needed|nested|opened|ordered|owned|paid|parsed|patched|picked|planned|pooled|printed|reached|ready|"
    r"received|refused|removed|reserved|returned|reverted|seen|sent|set_aside|settled|shown|sold|spent|stored|taken|"
    r"thrown|told|used|written"
)
# Functions that may have such names: rules of the grammar, renderers of responses as in `response=listed(BADGE)`,
# and a verb.
NAMED_LIKE_PARTICIPLES = {"parenthesized", "unsupported", "listed", "wrapped", "proceed"}
# Bounds begin with MAX or MIN, such as MAX_NAME_LENGTH.
OTHER_BOUND = re.compile(r"_?(MOST|LEAST|LONGEST|LARGEST|SHORTEST|SMALLEST)(_[A-Z_]+)?")
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Module:
    """The docstrings and names of a module, each with its line, and the texts of its prose."""

    name: str
    docstrings: list[tuple[int, str]]
    identifiers: list[tuple[int, str]]
    public_classes: list[tuple[int, str]]
    functions: list[tuple[int, str]]
    bare_participles: list[tuple[int, str]]
    prose: list[str]


def read_module(name: str, content: str) -> Module:
    nodes = list(ast.walk(ast.parse(content)))
    return Module(
        name,
        list(docstrings(nodes)),
        list(identifiers(nodes)),
        list(public_classes(nodes)),
        [(node.lineno, node.name) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)],
        list(bare_participles(nodes)),
        [*texts(nodes), *comments(content)],
    )


@cache
def modules(folder: str) -> list[Module]:
    """The modules of a folder, each parsed once for all tests."""
    paths = {path.relative_to(ROOT).as_posix(): path for path in sorted((ROOT / folder).rglob("*.py"))}
    return [
        read_module(name, path.read_text(encoding="utf-8"))
        for name, path in paths.items()
        if not name.startswith(LEFT_OUT)
    ]


def docstrings(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The texts that are statements, including those below attributes, each with its line."""
    for node in nodes:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def identifiers(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute):
            yield node.lineno, node.attr
        elif isinstance(node, ast.arg | ast.keyword):
            yield node.lineno, node.arg or ""
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.alias):
            yield node.lineno, node.asname or node.name


def metaphors(text: str) -> set[str]:
    """The metaphors among the words of a text or an identifier, such as `openDesk` or `open_desk`."""
    return {word.lower() for word in WORD.findall(text)} & METAPHORS_AND_PLURALS


def begins_with_pronoun(docstring: str) -> bool:
    return PRONOUN.match(docstring.strip()) is not None


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_modules_are_found(folder):
    assert len(modules(folder)) > 10
    assert any(module.docstrings for module in modules(folder))


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_do_not_begin_with_a_pronoun(folder):
    faulty_docstrings = {
        f"{module.name}:{line}: {text.strip().splitlines()[0]}"
        for module in modules(folder)
        for line, text in module.docstrings
        if begins_with_pronoun(text)
    }
    assert faulty_docstrings == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_and_identifiers_use_no_metaphors(folder):
    places = {
        f"{module.name}:{line}: {', '.join(sorted(words))}"
        for module in modules(folder)
        for line, text in [*module.docstrings, *module.identifiers]
        if (words := metaphors(text))
    }
    assert places == set()


def test_pronouns_at_the_beginning_of_docstrings_and_metaphors_are_found():
    source = 'class OpenDesk:\n    """What a desk holds."""\n\n    def at_till(self, ladders):\n'
    source += '        """Those of the shelf."""\n'
    module = read_module("desks.py", source)
    assert [begins_with_pronoun(text) for _, text in module.docstrings] == [True, True]
    assert set().union(*(metaphors(text) for _, text in module.docstrings)) == {"desk", "shelf"}
    assert set().union(*(metaphors(name) for _, name in module.identifiers)) == {"desk", "till", "ladders"}
    assert metaphors("until the description is still there") == set()
    assert not begins_with_pronoun("Whatever is left of it.")


def public_classes(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    for node in nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.lineno, node.name


def names_with_two_meanings(classes: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that several classes have, with the places of the classes."""
    places: dict[str, list[str]] = {}
    for place, name in classes:
        places.setdefault(name, []).append(place)
    return {name: places_of_name for name, places_of_name in sorted(places.items()) if len(places_of_name) > 1}


def test_no_two_public_classes_have_one_name():
    classes = (
        (f"{module.name}:{line}", class_name)
        for folder in FOLDERS
        for module in modules(folder)
        for line, class_name in module.public_classes
    )
    assert names_with_two_meanings(classes) == {}


def test_a_second_class_of_a_name_is_found():
    source = "class Lot:\n    class Use: ...\n\nclass Use: ...\nclass _Own: ...\nclass _Own: ...\n"
    classes = [(f"lots.py:{line}", name) for line, name in read_module("lots.py", source).public_classes]
    assert names_with_two_meanings(iter(classes)) == {"Use": ["lots.py:4", "lots.py:2"]}


@pytest.mark.parametrize("folder", EVERYWHERE)
def test_no_name_is_an_empty_word(folder):
    empty_names = {
        f"{module.name}:{line}: {identifier}"
        for module in modules(folder)
        for line, identifier in module.identifiers
        if identifier.strip("_").lower() in EMPTY_NAMES
    }
    assert empty_names == set()


@pytest.mark.parametrize("folder", EVERYWHERE)
def test_names_of_bounds_begin_with_max_or_min(folder):
    other_bounds = {
        f"{module.name}:{line}: {identifier}"
        for module in modules(folder)
        for line, identifier in module.identifiers
        if OTHER_BOUND.fullmatch(identifier)
    }
    assert other_bounds == set()


def test_no_function_has_a_participle_as_its_name():
    functions = {
        f"{module.name}:{line}: {name}"
        for folder in FOLDERS
        for module in modules(folder)
        for line, name in module.functions
        if re.fullmatch(r"_?[a-z]+ed", name) and name not in NAMED_LIKE_PARTICIPLES
    }
    assert functions == set()


def bare_participles(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The bare participles that a module binds as names, except `left` next to `right`."""
    names = [(line, name.strip("_")) for line, name in bound_names(nodes)]
    for line, name in names:
        is_operand = name == "left" and any(other == "right" and abs(at - line) <= 1 for at, other in names)
        if PARTICIPLE.fullmatch(name) and not is_operand:
            yield line, name


def bound_names(nodes: list[ast.AST]) -> Iterator[tuple[int, str]]:
    """The variables, parameters, functions and classes; fields of records are named after their columns."""
    classes = [node for node in nodes if isinstance(node, ast.ClassDef)]
    fields = {id(field.target) for node in classes for field in node.body if isinstance(field, ast.AnnAssign)}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in fields:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler):
            yield node.lineno, node.name or ""


def test_no_name_is_a_bare_participle():
    names = {
        f"{module.name}:{line}: {identifier}"
        for folder in EVERYWHERE
        for module in modules(folder)
        for line, identifier in module.bare_participles
    }
    assert names == set()


def test_bare_participles_are_found():
    source = "def _told(given, left, right, existing_emails):\n    kept = held_coupons = 1\n\n\n    left = kept\n"
    source += "class Row:\n    reserved: int\n"
    names = sorted(read_module("coupons.py", source).bare_participles)
    assert names == [(1, "given"), (1, "told"), (2, "kept"), (5, "left")]


# Phrases that have to be read twice, each with the words to use instead.
PHRASES = {
    r"anew": "again, re-",
    r"as (?:it|they) (?:is|are|was|were|stands?)": "unchanged, current",
    r"told|tells?|says?|said": "report, return, notify, contain",
    r"answer(?:s|ed)?": "response, result",
    r"comes? to|came to": "evaluates to, reaches",
    r"go(?:es)? by": "depends on, uses",
    r"room": "remaining",
    r"alone": "only, exclusively, individually",
    r"pass(?:ed|es|ing)? over": "skip",
    r"whoever|nobody|somebody": "the one who acts",
    r"those (?:that|who|which)": "the noun",
    r"beside": "besides, next to",
    r"otherwise": "if not, else",
    r"in a circle": "deadlock",
    r"take turns": "serialize",
    r"travels? together": "pipelined",
    r"(?:done|do) together": "batched",
    r"start(?:s|ed)? over": "retry",
    r"set aside": "reserve, hold",
    r"tak(?:en|es|e|ing) back": "claw back, revert",
    r"stands?": "active",
}
PHRASE = re.compile(rf"\b(?:{'|'.join(PHRASES)})\b", re.IGNORECASE)
# The maximum number of these phrases in each folder, which must only become smaller.
ALLOWED_PHRASES = {
    "domain": 4,
    "handlers": 2,
    "persistence": 6,
    "openapi": 2,
    "docs": 12,
    "tests": 40,
    "bench": 6,
}
ENDINGS = {"docs": "*.md", "openapi": "*.yaml"}


def texts(nodes: list[ast.AST]) -> Iterator[str]:
    """The strings that have a space."""
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def comments(content: str) -> Iterator[str]:
    """The comments of a module, if one of its comments may have a phrase: tokenizing all modules takes long."""
    if any(PHRASE.search(line, line.find("#")) for line in content.splitlines() if "#" in line):
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type == tokenize.COMMENT:
                yield token.string


def count_phrases(folder: str) -> int:
    if folder in ENDINGS:
        content = [path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob(ENDINGS[folder])]
    else:
        this_file = Path(__file__).relative_to(ROOT).as_posix()
        content = [text for module in modules(folder) if module.name != this_file for text in module.prose]
    return sum(len(PHRASE.findall(text)) for text in content)


@pytest.mark.parametrize("folder", ALLOWED_PHRASES)
def test_phrases_that_are_hard_to_read_become_fewer(folder):
    count = count_phrases(folder)
    maximum = ALLOWED_PHRASES[folder]
    assert count <= maximum, f"{folder} has {count - maximum} more of these phrases: {PHRASES}"
    assert count >= maximum - 25, f"lower the number of {folder} to {count}"


def test_phrases_that_are_hard_to_read_are_found():
    source = '"""Whoever is told."""\n\nname = "told"\n# Indexed anew, as it is.\n'
    phrases = [PHRASE.findall(text) for text in read_module("told.py", source).prose]
    assert phrases == [["Whoever", "told"], ["anew", "as it is"]]
