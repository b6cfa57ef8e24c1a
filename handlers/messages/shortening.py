"""Short forms of large refused values, because `jsonschema-rs` copies a refused list or object into its error."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

_ANY_VALUE: Mapping[str, Any] = {}
# Keywords that compare a whole value, or apply several schemas to it.
_WHOLE_VALUE = frozenset({"enum", "const", "allOf", "anyOf", "oneOf", "not"})


class Shortener:
    """Shortens values that their schemas refuse; `components` are the translated component schemas by name."""

    def __init__(self, components: Mapping[str, Mapping[str, Any]]) -> None:
        self._components = components

    def shorten(self, value: Any, schema: Mapping[str, Any]) -> Any:
        """The value without the parts that do not change its first fault, such as the values of unknown fields."""
        if not isinstance(value, list | dict):
            return value
        if not schema:
            return type(value)()
        schema = self._resolve(schema, value)
        if not self._allows_type(schema, value):
            return _stand_in(value)
        if _WHOLE_VALUE & schema.keys():
            return value
        if isinstance(value, dict):
            return {name: self.shorten(value[name], part) for name, part in _schemas_of_fields(value, schema).items()}
        maximum = schema.get("maxItems", len(value))
        item_schema = schema.get("items", _ANY_VALUE)
        if len(value) > maximum:
            # The number of items is the first fault, whatever the items are.
            return [self.shorten(item, _ANY_VALUE) for item in value[: maximum + 1]]
        if schema.get("uniqueItems"):
            # Different items must not become equal.
            return [item if self._allows_type(item_schema, item) else _stand_in(item) for item in value]
        count = len(value) if item_schema else schema.get("minItems", 0)
        return [self.shorten(item, item_schema) for item in value[:count]]

    def _resolve(self, schema: Mapping[str, Any], value: Any) -> Mapping[str, Any]:
        """The schema that finally describes the value.

        It follows a `$ref`, the only part of an `allOf`, and the branch that the value's discriminator chooses.
        """
        while True:
            parts = schema.get("allOf", ())
            if "$ref" in schema:
                _, _, name = schema["$ref"].rpartition("/")
                schema = self._components[name]
            elif len(parts) == 1 and len(schema) == 1:
                schema = parts[0]
            elif parts and all("if" in part for part in parts):
                no_branch = {key: schema[key] for key in schema if key != "allOf"}
                schema = next((part["then"] for part in parts if _is_chosen(part["if"], value)), no_branch)
            else:
                return schema

    def _allows_type(self, schema: Mapping[str, Any], value: Any) -> bool:
        """False for a list if the schema allows no lists, and for an object if it allows no objects."""
        if not isinstance(value, list | dict):
            return True
        schema = self._resolve(schema, value)
        if "enum" in schema:
            return any(isinstance(choice, type(value)) for choice in schema["enum"])
        alternatives = schema.get("oneOf") or schema.get("anyOf")
        if alternatives and not any(self._allows_type(alternative, value) for alternative in alternatives):
            return False
        # `type` is a text or a list of texts; no name of a type is part of another one.
        type_name = "object" if isinstance(value, dict) else "array"
        return type_name in schema.get("type", type_name)


def _is_chosen(condition: Mapping[str, Any], value: Any) -> bool:
    """True if the value's discriminator has the constant of the condition."""
    fields = condition["properties"].items()
    return isinstance(value, dict) and all(value.get(name) == field["const"] for name, field in fields)


def _stand_in(value: Any) -> Any:
    """A small value of the same type, in place of `value`; its replacement differs for different values."""
    return {str(id(value)): None} if isinstance(value, dict) else [id(value)]


def _schemas_of_fields(value: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The schemas of those fields that can change the first fault of an object, by name, in the order of the object."""
    maximum = schema.get("maxProperties", len(value))
    if len(value) > maximum:
        # The number of fields is the first fault, whatever the fields are.
        return dict.fromkeys(islice(value, maximum + 1), _ANY_VALUE)
    fields = {**dict.fromkeys(schema.get("required", ()), _ANY_VALUE), **schema.get("properties", {})}
    schema_of_others = schema.get("additionalProperties", True)
    if isinstance(schema_of_others, Mapping):
        return {name: fields.get(name, schema_of_others) for name in value}
    # If no unknown fields are allowed, the first one is the fault. If they are allowed, only their number counts.
    count = schema.get("maxProperties", max(1, schema.get("minProperties", 0)))
    unknown_fields = set(islice((name for name in value if name not in fields), count))
    return {name: fields.get(name, _ANY_VALUE) for name in value if name in fields or name in unknown_fields}
