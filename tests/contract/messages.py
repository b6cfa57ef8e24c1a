"""Messages to receivers of webhooks, checked against the AsyncAPI document."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from openapi import asyncapi

_BASE = "urn:messages"


@functools.cache
def _document() -> dict[str, Any]:
    return asyncapi.document()


@functools.cache
def _registry() -> jsonschema_rs.Registry:
    resource = (_BASE, {"components": _based(_document()["components"])})
    return jsonschema_rs.Registry([resource], draft=jsonschema_rs.Draft7)


def _based(node: Any) -> Any:
    """A part of the document with its references made absolute."""
    if isinstance(node, dict):
        return {key: f"{_BASE}{child}" if key == "$ref" else _based(child) for key, child in node.items()}
    return [_based(child) for child in node] if isinstance(node, list) else node


@functools.cache
def _validator(pointer: str) -> jsonschema_rs.Draft7Validator:
    return jsonschema_rs.Draft7Validator(
        {"$ref": f"{_BASE}#/components/{pointer}"}, registry=_registry(), validate_formats=True
    )


def faults_of_message(headers: Mapping[str, str], body: bytes) -> list[str]:
    """The violations of the document in a message; the names of its headers are in lower case."""
    type_ = headers.get("ce-type", "").removeprefix("loyalty.")
    if type_ not in _document()["components"]["messages"]:
        return [f"ce-type {type_!r} is not documented"]
    message = json.loads(body)
    typed_headers: dict[str, Any] = {**headers, "webhook-timestamp": int(headers["webhook-timestamp"])}
    return [
        f"{type_}: /{'/'.join(map(str, error.instance_path))}: {error.message}"
        for pointer, value in ((f"messages/{type_}/payload", message), ("messageTraits/headers/headers", typed_headers))
        for error in _validator(pointer).iter_errors(value)
    ]
