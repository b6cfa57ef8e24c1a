"""The text of cursors."""

from __future__ import annotations

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.cursors import decode_cursor, encode_cursor
from domain.problems import InvalidRequest

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.none() | st.booleans() | st.integers() | TEXTS | st.lists(TEXTS)


def in_base64(content):
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@given(st.dictionaries(TEXTS, VALUES))
def test_a_cursor_decodes_to_the_encoded_object(content):
    cursor = encode_cursor(content)
    assert re.fullmatch("[A-Za-z0-9_-]+", cursor)
    assert decode_cursor(cursor) == content


@pytest.mark.parametrize(
    "cursor",
    [
        *("x", "!!", "", "=", "e30=e30", "\xe9", "\ud800"),
        *(in_base64(json.dumps(value).encode()) for value in (None, [], 1, "text", True)),
        *(in_base64(content) for content in (b"\xff", b"{", b'{"a":')),
        # Nested too deeply for the parser.
        in_base64(b"[" * 3000),
        # A number with more digits than Python converts.
        in_base64(b'{"a":' + b"9" * 5000 + b"}"),
    ],
)
def test_a_text_that_cannot_be_decoded_to_an_object_is_refused(cursor):
    with pytest.raises(InvalidRequest) as refusal:
        decode_cursor(cursor)
    assert [fault.parameter for fault in refusal.value.faults] == ["cursor"]


@given(st.text() | st.binary().map(in_base64))
def test_any_text_decodes_to_an_object_or_is_refused(cursor):
    try:
        content = decode_cursor(cursor)
    except InvalidRequest:
        return
    assert isinstance(content, dict)
