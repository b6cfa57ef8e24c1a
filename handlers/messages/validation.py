"""The schemas of an OpenAPI document, compiled for `jsonschema-rs`: OpenAPI 3.0.3 becomes JSON Schema Draft 2020-12."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache
from itertools import islice
from typing import Any

import jsonschema_rs

import openapi
from domain.problems import FieldFault
from handlers.messages.faults import MASK, MAX_FAULTS, PATTERN_FAULT, Explainer, Place, SchemaAt
from handlers.messages.json_text import encode, pointer_to
from handlers.messages.shortening import Shortener

ITEM_BY_ITEM = "x-checked-item-by-item"
"""On an array: a fault of an item is reported in the result of that item, and does not refuse other items."""

SERVER_PATTERN = "x-server-pattern"
"""Next to a `pattern` that all regular expression engines can read: the pattern of the server, which refuses more."""

MAX_EXPLAINED_VALUES = 2_000
"""If a body has more values than this, only its first fault is reported."""

# A value gets no second fault by these keywords if it has one by another: a text of a wrong length, and a value that is
# not one of the allowed ones.
_BETTER_FAULTS = {"pattern": ("minLength", "maxLength"), "type": ("enum",)}
# Longer chains of references count as circular.
_MAX_REFERENCES = 20
_INT_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
# Keywords that are the same in OpenAPI and JSON Schema.
_COPIED_KEYWORDS = (
    *("type", "enum", "format", "pattern", "maxLength", "minLength", "maximum", "minimum", "multipleOf"),
    *("maxItems", "minItems", "uniqueItems", "maxProperties", "minProperties", "required", PATTERN_FAULT),
)
_ANNOTATIONS = {"title", "description", "deprecated", "example", "externalDocs", "readOnly", "writeOnly", "default"}
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATE_TIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)


class DocumentError(RuntimeError):
    """An OpenAPI document uses a feature that the HTTP layer does not support; raised when the server starts."""


def is_date(text: str) -> bool:
    """True for a calendar date as RFC 3339 writes it, from the year 1."""
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """True for an RFC 3339 time; the offset may also be `+0000` or missing (UTC), as some clients write it."""
    if not _DATE_TIME.fullmatch(text):
        return False
    try:
        moment = datetime.fromisoformat(text)
        # Raises OverflowError for a moment that is outside of the calendar in UTC.
        if moment.tzinfo is not None:
            moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return False
    return True


class Schemas:
    """The component schemas of one OpenAPI document, and validators for schemas that refer to these components."""

    def __init__(self, name: str, document: Mapping[str, Any]) -> None:
        self._document = document
        self._base = f"urn:loyalty:{name}"
        components = document.get("components", {}).get("schemas", {})
        translated = {key: self.translate(schema) for key, schema in components.items()}
        self._components = {"components": {"schemas": translated}}
        self._shortener = Shortener(translated)
        self._registry = jsonschema_rs.Registry([(self._base, self._components)], draft=jsonschema_rs.Draft202012)
        self._validators: dict[bytes, Validator] = {}

    def validator(self, schema: Mapping[str, Any]) -> Validator:
        """Compile a schema of the OpenAPI document; equal schemas share one validator."""
        translated = self.translate(schema)
        key = encode(translated)
        if key not in self._validators:
            self._validators[key] = self.compile(translated)
        return self._validators[key]

    def compile(self, translated: Mapping[str, Any]) -> Validator:
        """Compile a translated schema; raises DocumentError for a pattern that cannot be matched in linear time."""
        try:
            compiled = jsonschema_rs.Draft202012Validator(
                dict(translated),
                registry=self._registry,
                formats={"date": is_date, "date-time": is_date_time},
                validate_formats=True,
                mask=MASK,
                # Linear time whatever the client sends; look-around and back references are refused at start.
                pattern_options=jsonschema_rs.RegexOptions(),
            )
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            raise DocumentError(f"a schema cannot be compiled: {error}") from error
        return Validator(
            compiled,
            schema_finder(self._components, translated),
            shorten=lambda value: self._shortener.shorten(value, translated),
        )

    def resolve(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The schema itself, or the target of its `$ref`."""
        for _ in range(_MAX_REFERENCES):
            if "$ref" not in schema:
                return schema
            schema = self.follow(schema["$ref"])
        raise DocumentError(f"the references are circular: {schema['$ref']}")

    def follow(self, reference: str) -> Any:
        """The target of a local reference such as `#/components/parameters/limit`."""
        node: Any = self._document
        try:
            for part in reference.removeprefix("#/").split("/"):
                node = node[part.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            raise DocumentError(f"{reference} refers to nothing in the document") from None
        return node

    def translate(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """The Draft 2020-12 form of an OpenAPI 3.0.3 schema, with absolute references."""
        if "$ref" in schema:
            keywords = {key for key in schema if key != "$ref" and not key.startswith("x-")} - _ANNOTATIONS
            if keywords:
                raise DocumentError(f"{schema['$ref']} has {sorted(keywords)} next to it, which OpenAPI 3.0 ignores")
            return {"$ref": self._base + schema["$ref"]}
        if len(schema.get("allOf", ())) == 1 and schema.keys() - _ANNOTATIONS == {"allOf"}:
            # An OpenAPI document uses such an `allOf` to describe a use of a component. The validator needs only the
            # component.
            return self.translate(schema["allOf"][0])
        result = {key: schema[key] for key in _COPIED_KEYWORDS if key in schema}
        if SERVER_PATTERN in schema:
            result["pattern"] = schema[SERVER_PATTERN]
        _add_bounds(schema, result)
        if "properties" in schema:
            result["properties"] = {name: self.translate(child) for name, child in schema["properties"].items()}
        for key in ("items", "not"):
            # Operations check such items individually, by the same schema.
            if key in schema and not (key == "items" and schema.get(ITEM_BY_ITEM)):
                result[key] = self.translate(schema[key])
        for key in ("allOf", "anyOf", "oneOf"):
            if key in schema:
                result[key] = [self.translate(child) for child in schema[key]]
        additional = schema.get("additionalProperties", True)
        if isinstance(additional, Mapping):
            result["additionalProperties"] = self.translate(additional)
        elif not additional and result.get("properties"):
            result["additionalProperties"] = False
        elif not additional:
            # An object without fields, for which this keyword has a message of its own.
            result["maxProperties"] = 0
        if "discriminator" in schema:
            self._choose_by_discriminator(schema, result)
        return _allow_null(result) if schema.get("nullable") else result

    def _choose_by_discriminator(self, schema: Mapping[str, Any], result: dict[str, Any]) -> None:
        """Replace `oneOf` by `if` and `then`, so that faults are reported for the branch that the client chose.

        Leaves `oneOf` if the values of the discriminator do not choose one branch.
        """
        name = schema["discriminator"]["propertyName"]
        branches: dict[str, Any] = {}
        for branch in schema.get("oneOf", ()):
            values = self._enum_of_field(branch, name)
            if not values or branches.keys() & set(values):
                return
            branches |= dict.fromkeys(values, self.translate(branch))
        if not branches:
            return
        del result["oneOf"]
        result["type"] = "object"
        result["required"] = sorted({*result.get("required", ()), name})
        choice = {name: {"enum": list(branches)}}
        result["properties"] = {**result.get("properties", {}), **choice}
        result["allOf"] = result.get("allOf", []) + [
            {"if": {"properties": {name: {"const": value}}, "required": [name]}, "then": branch}
            for value, branch in branches.items()
        ]

    def _enum_of_field(self, schema: Mapping[str, Any], name: str) -> list[str]:
        """The allowed values of the field `name` of a schema or a part of its `allOf`; empty if it has no `enum`."""
        schema = self.resolve(schema)
        field_schema = schema.get("properties", {}).get(name)
        if field_schema is not None:
            return list(self.resolve(field_schema).get("enum", ()))
        for part in schema.get("allOf", ()):
            if values := self._enum_of_field(part, name):
                return values
        return []


def _add_bounds(schema: Mapping[str, Any], result: dict[str, Any]) -> None:
    """Add the bounds of a number: exclusive ones as numbers, not flags, and for an integer those of its format."""
    for inclusive, exclusive in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(exclusive) is True and inclusive in result:
            result[exclusive] = result.pop(inclusive)
    if schema.get("type") == "integer":
        minimum, maximum = _INT_BOUNDS.get(schema.get("format", ""), _INT_BOUNDS["int64"])
        if "exclusiveMinimum" not in result:
            result["minimum"] = max(minimum, result.get("minimum", minimum))
        if "exclusiveMaximum" not in result:
            result["maximum"] = min(maximum, result.get("maximum", maximum))
        result.pop("format", None)


def _allow_null(result: dict[str, Any]) -> dict[str, Any]:
    """Let a translated schema allow null; change it in place where possible, and return it."""
    if "type" not in result or {"allOf", "anyOf", "oneOf", "not"} & result.keys():
        return {"anyOf": [{"type": "null"}, result]}
    result["type"] = [result["type"], "null"]
    if "enum" in result and None not in result["enum"]:
        result["enum"] = [*result["enum"], None]
    return result


@cache
def component_validator(schema: str, surface: str) -> Validator:
    """The validator of the component schema with this name, in the OpenAPI document of an interface."""
    return _schemas_of(surface).validator({"$ref": f"#/components/schemas/{schema}"})


@cache
def _schemas_of(surface: str) -> Schemas:
    return Schemas(surface, openapi.bundle(surface))


class Validator:
    """A compiled schema that reports every fault of a value in words; `root` is the place of its values in a body.

    `shorten` returns a shorter form of a refused value, with the same first fault.
    """

    def __init__(
        self,
        compiled: Any,
        schema_at: SchemaAt,
        root: Place = (),
        shorten: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.accepts: Callable[[Any], bool] = compiled.is_valid
        self._validate = compiled.validate
        self._iterate_errors = compiled.iter_errors
        self._shorten = shorten
        self._explainer = Explainer(schema_at, root)

    def faults(self, value: Any) -> list[tuple[Place, str]]:
        """The faults of the value as (place, sentence), at most `MAX_FAULTS`; only the first fault of a large value."""
        faults: list[tuple[Place, str]] = []
        errors = self._errors(value)
        keywords_at = {(error.kind.name, *error.instance_path) for error in errors}
        for error in errors:
            better_names = _BETTER_FAULTS.get(error.kind.name, ())
            if keywords_at.isdisjoint((name, *error.instance_path) for name in better_names):
                faults.extend(self._explainer.explain(error))
        return list(dict.fromkeys(faults))[:MAX_FAULTS]

    def _errors(self, value: Any) -> list[Any]:
        """The errors of `jsonschema-rs` for a value; only the first error of a large value."""
        # `iter_errors` finds all errors, in microseconds each, before it returns; meanwhile no other thread runs.
        if not is_too_large_for_all_errors(value):
            return list(islice(self._iterate_errors(value), MAX_FAULTS))
        # `validate` copies the list or object with the fault into the error, in up to 0.3 seconds for one of 1 MiB.
        # The whole value only if the short form, unexpectedly, has no fault.
        for form in (self._shorten(value), value):
            try:
                self._validate(form)
            except jsonschema_rs.ValidationError as error:
                return [error]
        return []


def is_too_large_for_all_errors(value: Any) -> bool:
    """True for a value in which it takes too long to find more than the first error.

    Such a value contains more than `MAX_EXPLAINED_VALUES` values; a number of over 64 bits counts as 100.
    """
    count = 0
    todo = [value]
    while todo:
        part = todo.pop()
        if isinstance(part, dict | list):
            count += len(part)
            if count > MAX_EXPLAINED_VALUES:
                return True
            todo.extend(part.values() if isinstance(part, dict) else part)
        elif type(part) is int and part.bit_length() > 64:
            count += 100
    return False


def schema_finder(*roots: Mapping[str, Any]) -> SchemaAt:
    """A function that finds the schema of a keyword by the keyword's path, which begins at one of the roots."""

    def schema_at(path: Sequence[str | int]) -> Mapping[str, Any]:
        for root in roots:
            schema = _schema_at(root, path[:-1])
            if schema is not None:
                return schema
        return {}

    return schema_at


def _has_part(node: Any, part: str | int) -> bool:
    """True if an object has this field, or a list this index."""
    if isinstance(node, Mapping):
        return part in node
    return isinstance(part, int) and part < len(node)


def _schema_at(root: Any, path: Sequence[str | int]) -> Mapping[str, Any] | None:
    """The schema at a path that begins at the root; None if there is none."""
    node = root
    for part in path:
        if not _has_part(node, part):
            return None
        node = node[part]
    return node if isinstance(node, Mapping) else None


def body_faults(validator: Validator, body: Any) -> list[FieldFault]:
    """The faults of a request body, each with its JSON pointer."""
    return [FieldFault(detail, pointer=pointer_to(place)) for place, detail in validator.faults(body)]
