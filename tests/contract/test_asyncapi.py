"""The AsyncAPI document has exactly the messages of the callbacks."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import openapi
from domain.triggers import ASYNC_TRACK, ENTITY_CHANGE, WEB_HOOK
from openapi import asyncapi
from tests import npm
from tests.contract.documents import callback_contents, resolve
from tests.contract.messages import faults_of_message

PARSER = "@asyncapi/parser@3.6.6"
# Severities of the parser: 0 is an error and 1 a warning; 2 means that a newer version of AsyncAPI exists.
PARSE = """
const { Parser } = require("@asyncapi/parser");
new Parser().validate(require("fs").readFileSync(0, "utf8")).then((found) => {
  console.log(JSON.stringify(found.filter(({ severity }) => severity < 2)));
});
"""


def test_the_document_has_exactly_the_messages_of_the_callbacks():
    document = openapi.bundle("administration")
    message_types = {
        type_
        for _, content in callback_contents(document)
        for type_ in resolve(document, content["schema"])["properties"]["type"]["enum"]
    }
    messages = asyncapi.document()
    assert set(messages["components"]["messages"]) == message_types
    assert {type_ for channel in messages["channels"].values() for type_ in channel["messages"]} == message_types


def test_there_is_a_channel_for_each_type_of_trigger():
    channels = asyncapi.document()["channels"]
    assert set(channels) == {WEB_HOOK, ENTITY_CHANGE, ASYNC_TRACK}
    assert set(channels[ASYNC_TRACK]["messages"]) == {"async-event.evaluated"}
    assert {"event.evaluated", "event.cancelled", "campaign.notification"} <= set(channels[WEB_HOOK]["messages"])


def test_the_schemas_are_schemas_of_the_openapi_document():
    schemas = openapi.bundle("administration")["components"]["schemas"]
    shared_schemas = asyncapi.document()["components"]["schemas"]
    assert shared_schemas["TrackResult"]["required"] == schemas["TrackResult"]["required"]
    assert set(shared_schemas) <= set(schemas)


def test_faults_of_messages_are_reported():
    headers = {"ce-type": "loyalty.user.invited", "webhook-timestamp": "1"}
    faults = faults_of_message(headers, b'{"type": "user.left", "timestamp": "2026-03-02T08:15:02Z", "data": {}}')
    assert any('"user.invited" was expected' in fault for fault in faults)
    assert any("ce-id" in fault for fault in faults)
    assert faults_of_message({"ce-type": "loyalty.other"}, b"{}") == ["ce-type 'other' is not documented"]


@pytest.mark.slow
def test_the_parser_of_asyncapi_accepts_the_document_without_a_warning(tmp_path: Path):
    node = npm.node()
    if node is None:
        pytest.skip("the parser needs Node")
    modules = npm.install_packages(PARSER)
    text = json.dumps(asyncapi.document())
    process = subprocess.run(
        [node, "-e", PARSE], input=text, cwd=modules.parent, capture_output=True, text=True, check=True
    )
    assert json.loads(process.stdout) == []
