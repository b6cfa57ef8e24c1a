"""The texts of faults are readable sentences about the request, with the name of the field and without patterns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import openapi
from handlers.messages.validation import Schemas

ROOT = Path(openapi.__file__).parent.parent
LAYERS = ("domain", "persistence", "handlers")
# Texts of commands address the operator, and follow the conventions of the command line.
OF_THE_COMMAND_LINE = ROOT / "handlers" / "server" / "commands"
# Exceptions whose texts have no subject: the name of the field is added elsewhere.
NAMELESS = {"UnreadableText", "UnreadableNumber", "UnusableText"}
# Pieces of regular expressions, and of the paths that decoders of JSON report.
OF_A_PATTERN = re.compile(r"\^\[|\[\^|\\[swdS]|\(\?|\$\[|\]\+|\]\*|\{\d+,\d*\}|\.\*")
RULES_AS_FAULTS = re.compile(r"\b(must|has to|should|shall|ought)\b|\bis required\b|\bmay not\b|\bcannot both\b")
# Phrases that are hard to read, each with better words.
HARD_TO_READ = {
    re.compile(r"\balready\.?$"): "already before the verb",
    re.compile(r"\bstands?\b(?! for)"): "is not reverted, is in force",
    re.compile(r"\b(came|comes) to\b"): "evaluated to, is",
    re.compile(r"^Of the\b"): "the amount first: Only 20 of the 50",
    re.compile(r"\bby somebody\b"): "who it is",
    re.compile(r"\basked for\b"): "requested",
    re.compile(r"\balone\b\W*$"): "only, before the noun",
    re.compile(r"\bbeside\b"): "with",
    re.compile(r"\banew\b"): "again",
    re.compile(r"\bfor good\b"): "cannot change",
    re.compile(r"\bset aside\b"): "held",
    re.compile(r"\btaken back\b"): "reverted",
    re.compile(r", which (a|an|the)\b"): "what needs it as the subject",
    re.compile(r"^/\S*: "): "is not",
}
# Texts of which each pattern refuses at least one.
CANDIDATES = ("", " ", "\n", "\u00e9 , / @", ".", "a:b:c:", "9.9", "=", "\u200b", "\t\u0001", "a@@b c,,")


def _patterns(node: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each schema with a pattern in a document, with its place."""
    if isinstance(node, dict):
        if isinstance(node.get("pattern"), str):
            yield where, node
        for name, child in node.items():
            # Errors describe what clients have sent; headers are the server's.
            if name not in ("headers", "example", "examples"):
                yield from _patterns(child, f"{where}/{name}")
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield from _patterns(child, f"{where}/{index}")


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_every_pattern_is_described_in_words(surface):
    document = openapi.bundle(surface)
    schemas = Schemas(surface, document)
    patterns = list(_patterns(document))
    assert len(patterns) > 40
    faulty_texts = []
    for where, schema in patterns:
        single_schema = {
            name: schema[name] for name in ("type", "pattern", "x-server-pattern", "x-pattern-fault") if name in schema
        }
        validator = schemas.validator({"type": "object", "properties": {"field": single_schema}})
        descriptions = {
            detail.partition(" Did you")[0] for text in CANDIDATES for _, detail in validator.faults({"field": text})
        }
        if len(descriptions) != 1:
            faulty_texts.append(f"{where}: it refuses no candidate, or it has several descriptions: {descriptions}")
        faulty_texts += [
            f"{where}: {detail}" for detail in descriptions if _faults_of(detail) or "the pattern" in detail
        ]
    assert faulty_texts == []


def _faults_of(text: str) -> list[str]:
    """The faults in the wording of a text."""
    faults = _hard_words_of(text)
    if OF_A_PATTERN.search(text):
        faults.append("shows a pattern")
    if RULES_AS_FAULTS.search(text):
        faults.append("states the rule instead of the fault")
    if re.search(r"[!:;,]$|\s$|  ", text):
        faults.append("is no sentence")
    return faults


def _hard_words_of(text: str) -> list[str]:
    """The reasons why a text is hard to read; empty if it is easy."""
    return [f"is hard to read, better: {better}" for words, better in HARD_TO_READ.items() if words.search(text)]


# The classes, functions and calls of each file.
Nodes = dict[Path, list[ast.AST]]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module")
def nodes() -> Nodes:
    """The nodes of all files of the product."""
    return {
        path: [
            node
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, (ast.ClassDef, ast.Call, *FUNCTIONS))
        ]
        for layer in LAYERS
        for path in sorted((ROOT / layer).rglob("*.py"))
    }


def _refusal_names(nodes: Nodes) -> set[str]:
    """The names of all refusals."""
    bases = {
        node.name: {getattr(base, "id", getattr(base, "attr", "")) for base in node.bases}
        for file_nodes in nodes.values()
        for node in file_nodes
        if isinstance(node, ast.ClassDef)
    }
    names = {"Refusal", "HttpProblem"}
    while more := {name for name, base_names in bases.items() if base_names & names} - names:
        names |= more
    return names


def _string_parts(node: ast.expr | None) -> Iterator[str]:
    """The texts that an expression can evaluate to, with `{}` for inserted values."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
    elif isinstance(node, ast.IfExp):
        yield from _string_parts(node.body)
        yield from _string_parts(node.orelse)
    elif isinstance(node, ast.BinOp):
        yield from (f"{text}{{}}" for text in _string_parts(node.left))


def _texts(nodes: Nodes) -> Iterator[tuple[str, str, str]]:
    """(place, class, text) of the texts of refusals and faults; variables such as `detail` are replaced by values."""
    nodes = {path: file_nodes for path, file_nodes in nodes.items() if not _is_a_command(path)}
    names = _refusal_names(nodes) | {"FieldFault"} | NAMELESS
    for path, file_nodes in nodes.items():
        for scope in file_nodes:
            if not isinstance(scope, FUNCTIONS):
                continue
            texts_by_name: dict[str, list[str]] = {}
            nodes_of_scope = list(ast.walk(scope))
            for node in nodes_of_scope:
                if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    texts_by_name.setdefault(node.targets[0].id, []).extend(_string_parts(node.value))
            for node in nodes_of_scope:
                if not isinstance(node, ast.Call):
                    continue
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                if name not in names:
                    continue
                place = 1 if name == "HttpProblem" else 0
                argument = node.args[place] if len(node.args) > place else None
                texts = (
                    texts_by_name.get(argument.id, []) if isinstance(argument, ast.Name) else _string_parts(argument)
                )
                yield from ((f"{path.relative_to(ROOT)}:{node.lineno}", name, text) for text in texts)


def _is_a_command(path: Path) -> bool:
    return path.is_relative_to(OF_THE_COMMAND_LINE)


def _field_names() -> set[str]:
    """The names of all fields and parameters."""
    names = {"attrs", "jsonschema", "$ref", "$id", "$schema", "pattern", "{}"}

    def look(node: Any) -> None:
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict):
                names.update(node["properties"])
            if "in" in node and isinstance(node.get("name"), str):
                names.add(node["name"])
            for child in node.values():
                look(child)
        elif isinstance(node, list):
            for child in node:
                look(child)

    for surface in openapi.SURFACES:
        look(openapi.bundle(surface))
    return names


@pytest.mark.slow
def test_texts_are_sentences_that_begin_with_their_subject(nodes):
    names = _field_names()
    faulty_texts = []
    texts = list(_texts(nodes))
    assert len(texts) > 300
    for where, kind, text in texts:
        faults = _faults_of(text)
        first_word = re.match(r"\{\}|[$\w]*", text.split(" ")[0]).group(0)  # type: ignore[union-attr]
        if kind not in NAMELESS and not (first_word[:1].isupper() or first_word in names):
            faults.append("begins neither with a capital nor with the name of a field")
        # FieldFault adds the full stop itself.
        if kind not in NAMELESS | {"FieldFault"} and not text.endswith((".", "?", "{}")):
            faults.append("has no full stop")
        faulty_texts += [f"{where}: {text!r} {fault}" for fault in faults]
    assert faulty_texts == []


def test_titles_of_problems_are_easy_to_read(nodes):
    refusals = _refusal_names(nodes)
    titles = {
        text
        for file_nodes in nodes.values()
        for node in file_nodes
        if isinstance(node, ast.ClassDef) and node.name in refusals
        for keyword in node.keywords
        if keyword.arg == "title"
        for text in _string_parts(keyword.value)
    }
    assert len(titles) > 100
    assert [(title, _hard_words_of(title)) for title in titles if _hard_words_of(title)] == []


def test_examples_of_problems_are_easy_to_read():
    # In the documents and on the page of the problems.
    page = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    texts = re.findall(r'"(?:title|detail)": "(.*)"', page)
    for surface in openapi.SURFACES:
        texts += _texts_of_examples(openapi.bundle(surface))
    assert len(texts) > 250
    assert [(text, _hard_words_of(text)) for text in texts if _hard_words_of(text)] == []


def _texts_of_examples(node: Any) -> Iterator[str]:
    """The titles and details of examples of problems."""
    if isinstance(node, dict):
        if str(node.get("type", "")).startswith("/problems/"):
            yield from (node[name] for name in ("title", "detail") if isinstance(node.get(name), str))
        for child in node.values():
            yield from _texts_of_examples(child)
    elif isinstance(node, list):
        for child in node:
            yield from _texts_of_examples(child)


def test_faults_of_trees_are_sentences(nodes):
    # A sentence is "/args is not a list", and not "/args: a list".
    texts = [
        text
        for file_nodes in nodes.values()
        for node in file_nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "_refuse" and node.args
        for text in _string_parts(node.args[0])
    ]
    assert len(texts) > 15
    assert [text for text in texts if re.match(r"\S*: ", text)] == []


# Ids by which clients address records that have no key or name.
ADDRESSED_BY_ID = {
    "campaign_version_id",
    "ledger_id",
    "ledger_transaction_id",
    "loyalty_member_id",
    "member_id",
    "organization_id",
    "user_id",
}
# Ids that clients choose.
OWN_IDS = {"default_tier_id", "effect_id", "external_id", "payment_id", "sponsor_loyalty_member_id"}


def _ids_in(node: ast.expr) -> set[str]:
    """The names of the ids that an expression inserts into a text."""
    values = [part.value for part in ast.walk(node) if isinstance(part, ast.FormattedValue)]
    return {value.attr for value in values if isinstance(value, ast.Attribute) and value.attr.endswith("_id")}


def test_texts_contain_only_ids_by_which_clients_address_records(nodes):
    refusals = _refusal_names(nodes) | {"FieldFault"}
    ids = [
        (str(path.relative_to(ROOT)), name)
        for path, file_nodes in nodes.items()
        for node in file_nodes
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in refusals and node.args
        for name in _ids_in(node.args[0])
    ]
    assert {name for _, name in ids} >= {"loyalty_member_id", "external_id"}
    assert [(path, name) for path, name in ids if name not in ADDRESSED_BY_ID | OWN_IDS] == []


@pytest.mark.parametrize(
    "text",
    [
        "There is an order 7 already.",
        "Transaction 7 stands.",
        "Users are changed by somebody.",
        "/args: a list",
        "3 asked for, and 2 left.",
        "Of the item mug nothing is left.",
        "expiresAt came to a moment that is not in the future.",
        "value is not a number, which the operator > needs",
    ],
)
def test_the_rules_find_texts_that_are_hard_to_read(text):
    assert _hard_words_of(text) != []
