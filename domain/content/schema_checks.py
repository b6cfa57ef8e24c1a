"""The JSON Schemas (Draft 2020-12) that a collection accepts: self-contained, and of bounded size.

A schema is refused if it refers to schemas elsewhere, or has patterns or numbers that take long to read or compare.
`schema_costs` bounds the cost of validating a document.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from domain.content.documents import is_deeper
from domain.content.schema_costs import MAX_DIGITS, is_long_number
from domain.content.schema_parts import Schemas, patterns_of, subschemas, target_of
from domain.problems import FieldFault, pointer_part

MAX_SCHEMA_BYTES = 65_536
MAX_SCHEMA_DEPTH = 64
MAX_SUBSCHEMAS = 2_000
MAX_PATTERN_LENGTH = 1_000
"""Maximum length of a `pattern` of a schema, in code points."""
MAX_ESCAPES = 100
"""Maximum number of backslashes of one pattern: the time to read it grows with their square."""
MAX_PATTERN_CHARACTERS = 10_000
"""Maximum number of characters of all patterns of a schema."""
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_UNSUPPORTED = ("$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "$vocabulary")


def schema_faults(schema: Mapping[str, Any], schema_bytes: int) -> list[FieldFault]:
    """Faults of a schema that its meta-schema does not find; pointers lead into the schema."""
    if schema_bytes > MAX_SCHEMA_BYTES:
        return [FieldFault(f"jsonschema is longer than {MAX_SCHEMA_BYTES} bytes as JSON", pointer="")]
    if is_deeper(schema, MAX_SCHEMA_DEPTH):
        return [FieldFault(f"jsonschema is nested deeper than {MAX_SCHEMA_DEPTH} levels", pointer="")]
    dialect = schema.get("$schema", DIALECT)
    if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
        return [FieldFault(f"$schema is not {DIALECT}, the only dialect served", pointer="/$schema")]
    if "type" in schema and "object" not in _types_of(schema):
        return [FieldFault("type excludes objects, and attrs is an object", pointer="/type")]
    schemas = subschemas(schema)
    if len(schemas) > MAX_SUBSCHEMAS:
        return [FieldFault(f"jsonschema has more than {MAX_SUBSCHEMAS} schemas in it", pointer="")]
    faults = [fault for place, subschema in schemas.items() for fault in _own_faults(place, subschema, schemas)]
    return [*faults, *_number_faults(schema), *_pattern_faults(schema)]


def _types_of(schema: Mapping[str, Any]) -> list[Any]:
    kind = schema["type"]
    return kind if isinstance(kind, list) else [kind]


def _own_faults(place: str, schema: Any, schemas: Schemas) -> Iterator[FieldFault]:
    """The faults of the schema at the pointer `place`, without those of the schemas inside it."""
    if not isinstance(schema, dict):
        return
    for key in _UNSUPPORTED:
        if key in schema:
            yield FieldFault(f"{key} is not served; use $ref to a schema in $defs", pointer=f"{place}/{key}")
    if place and ("$id" in schema or "$schema" in schema):
        yield FieldFault("$id or $schema is inside the schema, not at its top level", pointer=place)
    reference = schema.get("$ref")
    if reference is not None and target_of(reference) not in schemas:
        detail = "$ref leads to no schema in this jsonschema; remote schemas are not looked up"
        yield FieldFault(detail, pointer=f"{place}/$ref")


def _number_faults(schema: Mapping[str, Any]) -> Iterator[FieldFault]:
    """The faults of numbers with too many digits, anywhere in the schema."""
    todo: list[tuple[str, Any]] = [("", schema)]
    while todo:
        place, value = todo.pop()
        if isinstance(value, dict):
            todo.extend((f"{place}/{pointer_part(str(name))}", part) for name, part in value.items())
        elif isinstance(value, list):
            todo.extend((f"{place}/{position}", part) for position, part in enumerate(value))
        elif is_long_number(value):
            detail = f"jsonschema has a number of more than {MAX_DIGITS} digits before or after the point"
            yield FieldFault(detail, pointer=place)


def _pattern_faults(schema: Mapping[str, Any]) -> Iterator[FieldFault]:
    """The faults of regular expressions that are too long, individually or together."""
    characters = 0
    for place, pattern in patterns_of(schema):
        characters += len(pattern)
        if len(pattern) > MAX_PATTERN_LENGTH:
            yield FieldFault(f"pattern is longer than {MAX_PATTERN_LENGTH} characters", pointer=place)
        elif pattern.count("\\") > MAX_ESCAPES:
            yield FieldFault(f"pattern has more than {MAX_ESCAPES} backslashes", pointer=place)
    if characters > MAX_PATTERN_CHARACTERS:
        detail = f"jsonschema has patterns with more than {MAX_PATTERN_CHARACTERS} characters in total"
        yield FieldFault(detail, pointer="")
