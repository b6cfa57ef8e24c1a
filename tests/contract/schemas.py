"""The documents' schemas as JSON Schema Draft 2020-12: they check values independently of the server's validation."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

_BOUNDS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}


_BASE = "urn:document"


def validator(document: dict[str, Any], schema: dict[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """A validator of the schema; raises ValueError or ValidationError if it cannot be compiled."""
    return jsonschema_rs.Draft202012Validator(
        _translated(schema),
        registry=_registry(document),
        validate_formats=True,
        pattern_options=jsonschema_rs.RegexOptions(),
    )


# The document of the last call and its components: lints use one document for many calls.
_last: list[tuple[dict[str, Any], jsonschema_rs.Registry]] = []


def _registry(document: dict[str, Any]) -> jsonschema_rs.Registry:
    if not _last or _last[0][0] is not document:
        components = _translated_all(document["components"]["schemas"])
        resource = (_BASE, {"components": {"schemas": components}})
        _last[:] = [(document, jsonschema_rs.Registry([resource], draft=jsonschema_rs.Draft202012))]
    return _last[0][1]


def faults(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    """The faults of the value, each with its place."""
    return [
        f"/{'/'.join(map(str, error.instance_path))}: {error.message}"
        for error in validator(document, schema).iter_errors(value)
    ]


def _translated_all(schemas: dict[str, Any]) -> dict[str, Any]:
    return {name: _translated(schema) for name, schema in schemas.items()}


def _translated(schema: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI 3.0 schema in the newer dialect: with types instead of `nullable`, and bounds instead of formats."""
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
        minimum, maximum = _BOUNDS[schema["format"]]
        result.setdefault("minimum", minimum)
        result.setdefault("maximum", maximum)
    if schema.get("nullable"):
        result["type"] = [schema["type"], "null"]
    return result
