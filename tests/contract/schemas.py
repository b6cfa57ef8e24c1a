"""The documents' schemas as JSON Schema Draft 2020-12, to check values with: a second opinion, not the server's own."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


_BASE = "urn:document"


def validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """A validator of the schema; raises ValueError or ValidationError where it cannot be compiled."""
    return jsonschema_rs.Draft202012Validator(
        _translated(schema),
        registry=_registry(document),
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(),
    )


# The components of the document that was asked for last: lints ask for one many times.
_last: list[tuple[dict[str, Any], jsonschema_rs.Registry]] = []


def _registry(document: dict[str, Any]) -> jsonschema_rs.Registry:
    if not _last or _last[0][0] is not document:
        components = _translated_all(document["components"]["schemas"])
        resource = (_BASE, {"components": {"schemas": components}})
        _last[:] = [(document, jsonschema_rs.Registry([resource], draft=jsonschema_rs.Draft202012))]
    return _last[0][1]


def faults(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """What is wrong with the value, each fault with its place in it."""
    return [
        f"/{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in validator(document, schema).iter_errors(value)
    ]


def _translated_all(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _translated(schema) for name, schema in schemas.items()}


def _translated(schema: dict[str, Any]) -> dict[str, Any]:
    """One OpenAPI 3.0 schema in the newer dialect: `nullable` and integer formats in its words."""
    result = {key: value for key, value in schema.items() if key not in ("nullable", "example", "default")}
    if "$ref" in schema:
        result["$ref"] = _BASE + schema["$ref"]
    if "properties" in schema:
        result["properties"] = _translated_all(schema["properties"])
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            result[key] = _translated(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            result[key] = [_translated(variant) for variant in schema[key]]
    if schema.get("format") in _BOUNDS:
        del result["format"]
        least, most = _BOUNDS[schema["format"]]
        result.setdefault("minimum", least)
        result.setdefault("maximum", most)
    if schema.get("nullable"):
        result["type"] = [schema["type"], "null"]
    return result
