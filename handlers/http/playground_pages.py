"""The playground: a page that tries events on members through the public API, with the token that its user enters."""

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any

import flask

import openapi
from domain.event_types import NOT_TRACKABLE
from handlers.http.page_responses import cached_page, html_page, root_of, site_file
from handlers.messages.json_text import encode

_FILES = (
    "lit-html.js",
    "playground.css",
    "playground.js",
    "playground-api.js",
    "playground-code.js",
    "playground-editor.js",
    "playground-explain.js",
    "playground-ledger.js",
    "playground-member.js",
)


def add_playground(app: flask.Flask, base_url: str) -> None:
    """Add the page, its files, and the schema that its completion of payloads uses."""
    values = {"root": root_of(base_url), "title": "Playground - Loyalty server"}
    app.add_url_rule("/playground", "playground", lambda: html_page("playground.html", values))
    for name in _FILES:
        app.add_url_rule(f"/playground/{name}", f"playground_{name}", partial(site_file, name))
    app.add_url_rule("/playground/event-schema.json", "event_schema", _event_schema)


def _event_schema() -> flask.Response:
    return cached_page(_schema_text(), "application/json")


@functools.cache
def _schema_text() -> bytes:
    schemas = openapi.bundle("integration")["components"]["schemas"]
    return encode({"payload": _fields(schemas, schemas["EventPayload"]), "reported": sorted(NOT_TRACKABLE)})


def _fields(schemas: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The type, the description and the fields of a schema, with references replaced by what they refer to."""
    if "$ref" in schema:
        return _fields(schemas, schemas[schema["$ref"].rsplit("/", 1)[1]])
    described_schema = {name: schema[name] for name in ("type", "description") if name in schema}
    for part in schema.get("allOf", ()):
        described_schema = {**_fields(schemas, part), **described_schema}
    if "properties" in schema:
        described_schema["properties"] = {name: _fields(schemas, field) for name, field in schema["properties"].items()}
    if "items" in schema:
        described_schema["items"] = _fields(schemas, schema["items"])
    return described_schema
