"""The messages to receivers of webhooks as an AsyncAPI 3.0 document, made from the callbacks of `createTrigger`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import openapi

_TRIGGERS = "/organizations/{organizationId}/triggers"
_SCHEMAS = "#/components/schemas/"
# Keywords of OpenAPI 3.0 that JSON Schema expresses differently.
_TRANSLATED = ("nullable", "example")
_DESCRIPTION = """\
The messages that the server posts to receivers. Each kind of trigger is a channel, whose address is the URL that the
trigger names. [Webhooks](/docs/webhooks) says how to verify, answer and repeat them."""


@dataclass(frozen=True)
class _Message:
    """One type of message, with the callback that describes it."""

    type: str
    channel: str
    callback: dict[str, Any]
    content: dict[str, Any]

    @property
    def payload(self) -> dict[str, Any]:
        """The schema of the body: that of the callback, for this type."""
        return {"allOf": [self.content["schema"], {"properties": {"type": {"const": self.type}}}]}

    @property
    def examples(self) -> list[dict[str, Any]]:
        example = self.content["example"]
        return [{"payload": example}] if example["type"] == self.type else []


def document() -> dict[str, Any]:
    """The AsyncAPI document: a channel for each type of trigger, a message for each `type`, and their schemas."""
    administration = openapi.bundle("administration")
    messages = list(_messages(administration))
    channels = dict.fromkeys(message.channel for message in messages)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Loyalty webhooks",
            "version": administration["info"]["version"],
            "description": _DESCRIPTION,
            "contact": administration["info"]["contact"],
            "license": administration["info"]["license"],
        },
        "defaultContentType": "application/json",
        "channels": {channel: _channel(channel, messages) for channel in channels},
        "operations": {
            f"send{channel}": {
                "action": "send",
                "channel": {"$ref": f"#/channels/{channel}"},
                "summary": f"What triggers of type {channel} are sent",
                "bindings": {"http": {"method": "POST", "bindingVersion": "0.3.0"}},
            }
            for channel in channels
        },
        "components": {
            "messages": {message.type: _message_object(message) for message in messages},
            "messageTraits": {"headers": {"headers": _headers(administration, messages[0].callback)}},
            "schemas": _reached_schemas(administration, messages),
        },
    }


def _messages(administration: dict[str, Any]) -> Iterator[_Message]:
    """The types of messages that each callback of `createTrigger` lists."""
    for callback in administration["paths"][_TRIGGERS]["post"]["callbacks"].values():
        [item] = callback.values()
        receiver = item["post"]
        content = receiver["requestBody"]["content"]["application/json"]
        schema = openapi.resolve(administration, content["schema"])
        for message_type in schema["properties"]["type"]["enum"]:
            yield _Message(message_type, receiver["x-trigger-type"], receiver, content)


def _channel(channel: str, messages: list[_Message]) -> dict[str, Any]:
    """The channel of a type of trigger; it has no address, because each trigger has its own URL."""
    return {
        "address": None,
        "title": channel,
        "description": f"Receivers of triggers of type `{channel}`, at the `url` of their settings.",
        "messages": {
            message.type: {"$ref": f"#/components/messages/{message.type}"}
            for message in messages
            if message.channel == channel
        },
    }


def _message_object(message: _Message) -> dict[str, Any]:
    """The description of a message, with examples if the callback has one of this type."""
    description = {
        "name": message.type,
        "title": message.type,
        "summary": message.callback["summary"],
        "description": message.callback["description"],
        "contentType": "application/json",
        "payload": message.payload,
        "traits": [{"$ref": "#/components/messageTraits/headers"}],
    }
    return {**description, "examples": message.examples} if message.examples else description


def _headers(administration: dict[str, Any], callback: dict[str, Any]) -> dict[str, Any]:
    """The schema of the headers, which are the same for all messages."""
    parameters = [openapi.resolve(administration, parameter) for parameter in callback["parameters"]]
    return {
        "type": "object",
        "required": [parameter["name"] for parameter in parameters if parameter["required"]],
        "properties": {
            parameter["name"]: {**_as_json_schema(parameter["schema"]), "description": parameter["description"]}
            for parameter in parameters
        },
    }


def _reached_schemas(administration: dict[str, Any], messages: list[_Message]) -> dict[str, Any]:
    """The schemas that the messages refer to, directly or by other schemas, sorted by name."""
    schemas = administration["components"]["schemas"]
    schemas_by_name: dict[str, Any] = {}
    to_do = [name for message in messages for name in _references(message.content["schema"])]
    while to_do:
        name = to_do.pop()
        if name not in schemas_by_name:
            schemas_by_name[name] = _as_json_schema(schemas[name])
            to_do += _references(schemas[name])
    return dict(sorted(schemas_by_name.items()))


def _references(node: Any) -> Iterator[str]:
    """The names of the schemas that a node refers to."""
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"].removeprefix(_SCHEMAS)
        else:
            for child in node.values():
                yield from _references(child)
    elif isinstance(node, list):
        for child in node:
            yield from _references(child)


def _as_json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of OpenAPI 3.0 as JSON Schema, draft 7, which AsyncAPI takes."""
    translated = {key: value for key, value in schema.items() if key not in _TRANSLATED}
    if "properties" in schema:
        translated["properties"] = {name: _as_json_schema(child) for name, child in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            translated[key] = _as_json_schema(schema[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in schema:
            translated[key] = [_as_json_schema(child) for child in schema[key]]
    if schema.get("nullable"):
        translated["type"] = [schema["type"], "null"]
    if "example" in schema:
        translated["examples"] = [schema["example"]]
    return translated
