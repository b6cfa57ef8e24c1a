"""Files of records: YAML with `!ref kind/name` for other records, exact numbers, and the line of each value."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from math import inf
from pathlib import Path
from typing import Any

import yaml

from domain.problems import pointer_part
from handlers.server.configuration_files.kinds import KIND_OF

REF = "!ref"
_MAX_NAME = 80
# The maximum size of a file's content by `_size`. The server reads requests of up to 1 MiB by default.
_MAX_SIZE = 2_000_000
# The entries of a file: the necessary ones, and all.
_ENTRIES, _ALL_ENTRIES = ("record", "fields"), ("record", "order", "fields")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Ref:
    """The name of a record in place of its id or key."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True)
class RecordFile:
    """The file of one record: its name, its fields, and the line of each value by its JSON pointer.

    Records of ordered kinds are created in the `order` of their files; files without one come last.
    """

    file: str
    ref: Ref
    fields: Mapping[str, Any]
    lines: Mapping[str, int] = field(default_factory=dict)
    order: float = inf

    @property
    def own_name(self) -> str:
        """The name of the record without that of its parent."""
        return self.ref.name if KIND_OF[self.ref.kind].parent is None else self.ref.name.rpartition("/")[2]

    def location(self, pointer: str) -> str:
        """The file and the line of a value, for messages; of the nearest enclosing value if its own line is unknown."""
        while pointer and pointer not in self.lines:
            pointer = pointer.rpartition("/")[0]
        return f"{self.file}, line {self.lines.get(pointer, 1)}"


class FaultyFiles(Exception):
    """Files that cannot be used; each fault names file, line and field."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(Ref, lambda dumper, ref: dumper.represent_scalar(REF, str(ref)))
_Dumper.add_representer(
    Decimal,
    lambda dumper, number: dumper.represent_scalar("tag:yaml.org,2002:float", f"{number:f}"),
)


def file_names(refs: Iterable[Ref]) -> dict[Ref, str]:
    """The names of the files of records, in a folder for each kind: the record's name in small letters and hyphens.

    If two names would be equal, the later one gets a number.
    """
    names: dict[Ref, str] = {}
    for ref in refs:
        slug = re.sub(r"[^a-z0-9]+", "-", ref.name.lower()).strip("-")[:_MAX_NAME] or "unnamed"
        name, number = f"{ref.kind}/{slug}.yaml", 1
        while name in names.values():
            number += 1
            name = f"{ref.kind}/{slug}-{number}.yaml"
        names[ref] = name
    return names


def texts_of(records: Mapping[Ref, Mapping[str, Any]]) -> dict[str, str]:
    """The texts of the files with the fields of records, by file name.

    Records of ordered kinds are numbered in the order of `records`.
    """
    counts, texts = Counter[str](), dict[str, str]()
    for ref, name in file_names(records).items():
        counts[ref.kind] += 1
        order = {"order": counts[ref.kind]} if KIND_OF[ref.kind].is_ordered else {}
        content = {"record": str(ref), **order, "fields": dict(records[ref])}
        texts[name] = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return texts


def read_folder(folder: Path) -> list[RecordFile]:
    """All files below a folder; raises FaultyFiles with every fault."""
    faults: list[str] = []
    files: dict[Ref, RecordFile] = {}
    paths = sorted(path for path in folder.rglob("*") if path.suffix in (".yaml", ".yml") and path.is_file())
    if not paths:
        raise FaultyFiles([f"{folder} contains no .yaml files"])
    for path in paths:
        file_name = path.relative_to(folder).as_posix()
        try:
            text = path.read_bytes().decode("utf-8")
            record_file = _read(file_name, text)
        except UnicodeDecodeError as error:
            faults.append(f"{file_name}, byte {error.start + 1}: the file is not text in UTF-8")
        except yaml.MarkedYAMLError as error:
            faults.append(_describe(file_name, error))
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            faults.append(f"{file_name}, line {line}: the character U+{error.character:04X} is not allowed")
        except RecursionError:
            faults.append(f"{file_name}: the content is nested too deeply")
        except FaultyFiles as error:
            faults += error.faults
        else:
            ref = record_file.ref
            if ref in files:
                faults.append(f"{record_file.location('/record')}: {ref} is in {files[ref].file} too")
            files[ref] = record_file
    if faults:
        raise FaultyFiles(faults)
    return list(files.values())


def _describe(file_name: str, error: yaml.MarkedYAMLError) -> str:
    """The file, line and text of a syntax error; the line is the first one of a quote that is not closed."""
    problem, mark = error.problem, error.problem_mark
    if error.context == "while scanning a quoted scalar" and problem == "found unexpected end of stream":
        problem, mark = "the quote is not closed", error.context_mark
    return f"{file_name}, line {mark.line + 1 if mark else 1}: {problem}"


def _read(file_name: str, text: str) -> RecordFile:
    """Read `text`, the content of a file; raises FaultyFiles, YAMLError or, for deep nesting, RecursionError."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    lines: dict[str, int] = {}
    faults: list[str] = []
    if node is not None and _size(node, sizes={}, faults=faults, file_name=file_name) > _MAX_SIZE:
        faults.append(f"{file_name}: the content has more than {_MAX_SIZE} characters if all aliases are expanded")
    if faults:
        raise FaultyFiles(faults)
    content = None if node is None else _value(node, "", lines, faults, file_name)
    if not faults:
        faults = _faults_of_form(file_name, content, lines)
    if faults:
        raise FaultyFiles(faults)
    assert isinstance(content, dict)
    kind, _, name_in_kind = content["record"].partition("/")
    fields_lines = {pointer.removeprefix("/fields"): line for pointer, line in lines.items()}
    return RecordFile(
        file=file_name,
        ref=Ref(kind, name_in_kind),
        fields=content["fields"],
        lines=fields_lines,
        order=content.get("order", inf),
    )


def _faults_of_form(file_name: str, content: Any, lines: Mapping[str, int]) -> list[str]:
    """The faults of a file that lacks an entry, or has an unknown one or one of the wrong type."""
    entries = content if isinstance(content, dict) else ()
    faults = [f"{file_name}, line 1: the entry `{entry}` is missing" for entry in _ENTRIES if entry not in entries]
    faults += [
        f"{file_name}, line {lines[f'/{pointer_part(entry)}']}: `{entry}` is not an entry;"
        " a file has `record`, `fields` and, if needed, `order`"
        for entry in entries
        if entry not in _ALL_ENTRIES
    ]
    if faults:
        return faults
    record = content["record"]
    if not isinstance(record, str) or "/" not in record or record.partition("/")[0] not in KIND_OF:
        form = f"write a kind and a name, such as badge/Early bird; the kinds are {', '.join(KIND_OF)}"
        return [f"{file_name}, line {lines['/record']}: record does not name a record: {form}"]
    if type(content.get("order", 0)) is not int:
        return [f"{file_name}, line {lines['/order']}: order is not a whole number"]
    if not isinstance(content["fields"], dict):
        detail = "fields is not an object; write a name and a value for each field"
        return [f"{file_name}, line {lines['/fields']}: {detail}"]
    return []


def _size(node: yaml.Node, sizes: dict[int, int], faults: list[str], file_name: str) -> int:
    """The number of characters and values of a node with all aliases expanded, at most _MAX_SIZE + 1.

    Visits each node only once: `sizes` has the size of each visited node, by its `id`. Adds a fault for each text of
    the file `file_name` that has a surrogate.
    """
    if id(node) not in sizes:
        # A node that has an alias of itself has no end.
        sizes[id(node)] = _MAX_SIZE + 1
        if isinstance(node, yaml.ScalarNode):
            size = 1 + len(node.value)
            if surrogate := _SURROGATE.search(node.value):
                detail = f"\\u{ord(surrogate[0]):x} is not a character; write one above \\uffff as \\U with 8 digits"
                faults.append(f"{file_name}, line {node.start_mark.line + 1}: {detail}")
        else:
            parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
            size = 1 + sum(_size(part, sizes, faults, file_name) for part in parts)
        sizes[id(node)] = min(size, _MAX_SIZE + 1)
    return sizes[id(node)]


def _value(node: yaml.Node, pointer: str, lines: dict[str, int], faults: list[str], file_name: str) -> Any:
    """The value of the node at the JSON pointer `pointer`; adds the line of each part to `lines`, and faults."""
    lines[pointer] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        fields: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = key_node.value
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or key_node.tag == "tag:yaml.org,2002:merge":
                faults.append(f"{file_name}, line {line}: the name of a field must be a text")
                continue
            if key in fields:
                faults.append(f"{file_name}, line {line}: {key} appears twice")
            fields[key] = _value(value_node, f"{pointer}/{pointer_part(key)}", lines, faults, file_name)
            lines[f"{pointer}/{pointer_part(key)}"] = line
        return fields
    if isinstance(node, yaml.SequenceNode):
        return [
            _value(item_node, f"{pointer}/{index}", lines, faults, file_name)
            for index, item_node in enumerate(node.value)
        ]
    return _scalar(node, faults, file_name)


def _scalar(node: yaml.Node, faults: list[str], file_name: str) -> Any:
    """The value of a scalar node: a text, number, bool, None or Ref. Adds a fault and returns None for other tags."""
    line = node.start_mark.line + 1
    text = str(node.value)
    tag = node.tag.removeprefix("tag:yaml.org,2002:")
    if tag == REF:
        kind, _, name_in_kind = text.partition("/")
        if kind not in KIND_OF or not name_in_kind:
            faults.append(f"{file_name}, line {line}: {REF} {text} names no record: write {REF} kind/name")
        return Ref(kind, name_in_kind)
    if tag in ("str", "timestamp"):
        return text
    if tag == "null":
        return None
    if tag == "bool":
        return text.lower() in ("true", "yes", "on")
    with suppress(ArithmeticError, ValueError):
        if tag == "int":
            return int(text)
        if tag == "float":
            number = Decimal(text)
            if number.is_finite():
                return number
    faults.append(f"{file_name}, line {line}: {text[:40]} is neither a text in quotes nor a plain decimal number")
    return None
