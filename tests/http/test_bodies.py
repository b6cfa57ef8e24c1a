"""Bodies: exact numbers, and the list of hostile ones, each a 4xx that leaves no trace in the error log."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from dataclasses import replace
from decimal import Decimal

import pytest

from handlers.call import Response
from handlers.messages.json_text import MAX_DEPTH
from tests.http.support import SETTINGS, body, operation, serve

BOOK = {
    "type": "object",
    "additionalProperties": False,
    "required": ["title"],
    "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "pages": {"type": "integer", "minimum": 1},
        "small": {"type": "integer", "format": "int32"},
        "count": {"type": "integer"},
        "price": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "at": {"type": "string", "format": "date-time", "nullable": True},
        "code": {"type": "string", "pattern": "^[a-z]+$"},
        "size": {"type": "string", "enum": ["s", "l"], "nullable": True},
        "owner": {"nullable": True, "allOf": [{"$ref": "#/components/schemas/Owner"}]},
        "labels": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3},
        "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Book"}},
        "action": {"$ref": "#/components/schemas/Action"},
        "extra": {},
    },
}
SCHEMAS = {
    "Book": BOOK,
    "Owner": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
    "Mint": {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "amount"],
        "properties": {"kind": {"type": "string", "enum": ["mint"]}, "amount": {"type": "number"}},
    },
    "Note": {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "text"],
        "properties": {"kind": {"type": "string", "enum": ["note"]}, "text": {"type": "string"}},
    },
    "Action": {
        "oneOf": [{"$ref": "#/components/schemas/Mint"}, {"$ref": "#/components/schemas/Note"}],
        "discriminator": {"propertyName": "kind"},
    },
}
FORM = {
    "type": "object",
    "additionalProperties": False,
    "required": ["grant_type"],
    "properties": {
        "grant_type": {"type": "string", "enum": ["client_credentials"]},
        "client_id": {"type": "string"},
        "lifetime": {"type": "integer"},
    },
}
PATHS = {
    "/books": {"post": operation("create", requestBody=body({"$ref": "#/components/schemas/Book"}))},
    "/any": {
        "post": operation("any", requestBody=body({})),
        "patch": operation("patch", requestBody=body({"type": "object"}, required=False)),
        "delete": operation("delete"),
    },
    "/oauth/token": {
        "post": operation("token", public=True, requestBody=body(FORM, "application/x-www-form-urlencoded"))
    },
}

UNREADABLE_NUMBER = "The body contains a number that is out of range or has more than 80 characters."


@pytest.fixture(scope="module")
def server():
    """A client, and the recorder of the requests that the server has accepted; bodies have at most 20,000 bytes."""
    return serve(PATHS, SCHEMAS)


@pytest.fixture(scope="module")
def large_body_client():
    """A client of a server that accepts bodies of up to 300,000 bytes."""
    client, _ = serve(PATHS, SCHEMAS, settings=replace(SETTINGS, max_body_bytes=300_000))
    return client


@pytest.fixture
def no_warnings(caplog):
    """Check that the test logs no warning and no error."""
    with caplog.at_level(logging.WARNING):
        yield caplog
    assert [record.getMessage() for record in caplog.records] == []


def nested_arrays(depth: int) -> bytes:
    """Arrays, each the only item of the one around it."""
    return b"[" * depth + b"]" * depth


HOSTILE = {
    "only a space": b" ",
    "cut off": b'{"title": "a',
    "text after the object": b'{"title": "a"} x',
    "a comment": b'{"title": "a" /* b */}',
    "single quotes": b"{'title': 'a'}",
    "a byte order mark": b'\xef\xbb\xbf{"title": "a"}',
    "UTF-16": '{"title": "a"}'.encode("utf-16"),
    "invalid UTF-8": b'{"title": "\xff"}',
    "overlong UTF-8": b'{"title": "\xc0\x80"}',
    "an encoded surrogate": b'{"title": "\xed\xa0\x80"}',
    "a lone high surrogate": b'{"title": "\\ud800"}',
    "a lone low surrogate": b'{"title": "\\udc00x"}',
    "a lone surrogate in a name": b'{"title": "a", "extra": {"\\ud800": 1}}',
    "a raw NUL": b'{"title": "a\x00"}',
    "U+0000": b'{"title": "a\\u0000"}',
    "U+0000 deep inside": b'{"title": "a", "extra": [[{"x": "\\u0000"}]]}',
    "U+0000 in a name": b'{"title": "a", "extra": {"\\u0000": 1}}',
    "NaN": b'{"title": "a", "price": NaN}',
    "Infinity": b'{"title": "a", "price": Infinity}',
    "minus Infinity": b'{"title": "a", "price": -Infinity}',
    "1e999999999999": b'{"title": "a", "price": 1e999999999999}',
    "1e999999999": b'{"title": "a", "extra": 1e999999999}',
    "1e400": b'{"title": "a", "extra": 1e400}',
    "0e999999999": b'{"title": "a", "extra": 0e999999999}',
    "1e-999999999999": b'{"title": "a", "extra": 1e-999999999999}',
    "81 digits behind the point": b'{"title": "a", "extra": 0.' + b"1" * 81 + b"}",
    "an integer of 5000 digits": b'{"title": "a", "extra": ' + b"9" * 5000 + b"}",
    "an integer beyond 64 bits": b'{"title": "a", "count": 9223372036854775808}',
    "a whole float beyond 64 bits": b'{"title": "a", "count": 1e19}',
    "an integer beyond 32 bits": b'{"title": "a", "small": 2147483648}',
    "a fraction for an integer": b'{"title": "a", "pages": 1.5}',
    "a text for an integer": b'{"title": "a", "pages": "1"}',
    "true for an integer": b'{"title": "a", "pages": true}',
    "a leading zero": b'{"title": "a", "pages": 01}',
    "a leading plus": b'{"title": "a", "pages": +1}',
    "an unknown field": b'{"title": "a", "colour": "red"}',
    "a missing field": b"{}",
    "another type": b"[]",
    "null": b"null",
    "a name twice": b'{"title": "a", "title": "b"}',
    "a name twice, the same value": b'{"title": "a", "title": "a"}',
    "a name twice, once escaped": b'{"title": "a", "\\u0074itle": "b"}',
    "a name twice in a part": b'{"title": "a", "extra": {"x": {"y": 1, "y": 2}}}',
    "a name twice among quotes": b'{"title": "\\"a\\"", "extra": {"\\"": 1, "\\"": 2}}',
    "a name twice, and as many escaped quotes": b'{"title": "a", "extra": 1, "extra": "\\u0022\\u0022"}',
    "a name twice next to a colon": b'{"title": "a:b", "extra": "c:d", "extra": 1}',
    # The beginning of 100,000 arrays, as long as a body may be.
    "100,000 arrays": nested_arrays(100_000)[:20_000],
    # The object adds a level to the maximum.
    "201 levels": b'{"title": "a", "extra": ' + nested_arrays(MAX_DEPTH) + b"}",
    "900 arrays": b'{"title": "a", "extra": ' + nested_arrays(900) + b"}",
    "a trailing newline against a pattern": b'{"title": "a", "code": "abc\\n"}',
    "a day that does not exist": b'{"title": "a", "at": "2023-02-29T00:00:00Z"}',
    "a moment after the year 9999 in UTC": b'{"title": "a", "at": "9999-12-31T23:59:59-14:00"}',
    "an offset of a day": b'{"title": "a", "at": "2023-02-28T00:00:00+24:00"}',
    "null where it is not allowed": b'{"title": null}',
    "an excluded minimum": b'{"title": "a", "price": 0.0}',
    "equal items": b'{"title": "a", "labels": ["x", "x"]}',
    "equal numbers in different notations": b'{"title": "a", "labels": [1, 1.0]}',
    "a form body": b"title=a",
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_body_gets_a_400_and_logs_no_error(server, no_warnings, raw):
    client, recorder = server
    request_count = len(recorder.requests)
    reply = client("POST", "/v2/books", body=raw)
    assert reply.status == 400, reply.content
    assert reply.json["type"] == "/problems/invalid-request"
    assert reply.json["errors"]
    assert len(recorder.requests) == request_count


def test_all_faults_of_a_small_body_are_listed_and_only_the_first_of_a_large_one(large_body_client, no_warnings):
    small = large_body_client("POST", "/v2/books", body=json.dumps({"title": "a", "parts": [{}] * 30}).encode())
    assert [error["pointer"] for error in small.json["errors"]] == [f"/parts/{n}/title" for n in range(30)]
    # A body is large if it contains more than 2,000 values.
    parts = [{"title": "a"}] * 5_000
    large = large_body_client("POST", "/v2/books", body=json.dumps({"title": "a", "parts": [*parts, {}, {}]}).encode())
    assert (large.status, [error["pointer"] for error in large.json["errors"]]) == (400, ["/parts/5000/title"])


def test_a_body_has_at_most_20000_objects_and_lists(large_body_client, no_warnings):
    # Each has two lists more: the outer one and its last item.
    largest_body, too_large_body = b"[" + b"[]," * 19_998 + b"[]]", b"[" + b"{}," * 19_999 + b"[]]"
    assert large_body_client("POST", "/v2/any", body=largest_body).status == 200
    refusal = large_body_client("POST", "/v2/any", body=too_large_body)
    assert (refusal.status, refusal.json["detail"]) == (400, "The body has more than 20,000 objects and lists.")


@pytest.mark.parametrize("name", ["customAttributes", "usageData", "wallets"])
def test_an_object_of_free_fields_has_at_most_64_kib(large_body_client, no_warnings, name):
    # 64 KiB are 65,536 characters, of which `{"a":""}` has 8.
    largest, too_large = {"a": "x" * (65_536 - 8)}, {"a": "x" * (65_536 - 8 + 1)}
    assert (
        large_body_client("POST", "/v2/any", json_body={"members": [{name: largest}, {"title": "x" * 100_000}]}).status
        == 200
    )
    refusal = large_body_client("POST", "/v2/any", json_body={"members": [{name: largest}, {name: too_large}]})
    assert refusal.faults() == {f"/members/1/{name}": f"members[1].{name} has more than 64 KiB of JSON."}


def test_an_unreadable_number_in_a_large_body_is_reported_without_its_place(large_body_client, no_warnings):
    for number in (b"1" * 81, b"1e999"):
        raw = b'{"title": "a", "extra": [' + b"1, " * 30_000 + number + b"]}"
        assert large_body_client("POST", "/v2/books", body=raw).faults() == {"": UNREADABLE_NUMBER}


def test_only_the_first_fault_of_a_body_with_many_long_numbers_is_reported(large_body_client, no_warnings):
    # A number of more than 64 bits counts as 100 values, and all faults of at most 2,000 values are reported.
    numbers = [int("9" * 80)] * 21
    body = {"title": "a", "parts": [{"title": "a", "pages": 0}, {}], "extra": numbers}
    assert list(large_body_client("POST", "/v2/books", json_body=body).faults()) == ["/parts/0/pages"]
    assert len(large_body_client("POST", "/v2/books", json_body={**body, "extra": numbers[:15]}).faults()) == 2


def test_arrays_nested_too_deep_get_a_400(large_body_client, no_warnings):
    for depth in (100_000, 1_000, MAX_DEPTH + 1):
        assert large_body_client("POST", "/v2/any", body=nested_arrays(depth)).status == 400
    assert large_body_client("POST", "/v2/any", body=nested_arrays(MAX_DEPTH)).status == 200


@pytest.mark.parametrize(
    ("raw", "expected_body"),
    [
        (b"18446744073709.123456", Decimal("18446744073709.123456")),
        (b"0.10", Decimal("0.10")),
        (b"1e-7", Decimal("1e-7")),
        (b"5e-324", Decimal("5e-324")),
        (b"1.7976931348623157e+308", Decimal("1.7976931348623157e+308")),
        (b"1.0", 1),
        (b"1e3", 1000),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
        (b'"\\ud83d\\ude00 \\u00e9 \\\\u0000"', "😀 é \\u0000"),
        (b'{"a:b": "c\\"d", "a": {"a": 1}}', {"a:b": 'c"d', "a": {"a": 1}}),
        (b" \n[true, null]\t ", [True, None]),
    ],
)
def test_the_handler_gets_the_value_of_the_body_in_its_type(server, no_warnings, raw, expected_body):
    client, recorder = server
    assert client("POST", "/v2/any", body=raw).status == 200
    assert recorder.last.body == expected_body
    assert type(recorder.last.body) is type(expected_body)


def test_a_whole_float_arrives_as_an_integer(server):
    client, recorder = server
    assert client("POST", "/v2/books", body=b'{"title": "a", "pages": 12.0}').status == 200
    assert type(recorder.last.body["pages"]) is int


def test_decimals_are_sent_as_exact_json_numbers():
    response = {"a": Decimal("18446744073709.123456"), "b": Decimal("0.10"), "c": 10**30}
    client, _ = serve(PATHS, SCHEMAS, dispatch=lambda request: Response(200, response))
    assert client("POST", "/v2/any", body=b"1").content == (
        b'{"a":18446744073709.123456,"b":0.10,"c":1000000000000000000000000000000}'
    )


@pytest.mark.parametrize(
    "field", [{"size": None}, {"at": None}, {"owner": None}, {"size": "s"}, {"owner": {"name": "x"}}]
)
def test_null_is_accepted_where_the_document_allows_it(server, field):
    client, recorder = server
    assert client("POST", "/v2/books", json_body={"title": "a", **field}).status == 200
    assert recorder.last.body == {"title": "a", **field}


@pytest.mark.parametrize("text", ["2024-02-29T10:00:00Z", "2024-02-29T10:00:00.123+0000", "2024-02-29T10:00:00"])
def test_a_time_can_be_written_in_several_ways(server, text):
    client, _ = server
    assert client("POST", "/v2/books", json_body={"title": "a", "at": text}).status == 200


def test_all_faults_of_a_body_are_reported_at_once(server):
    client, _ = server
    reply = client(
        "POST",
        "/v2/books?colour=1",
        json_body={"pages": 0, "x": 1, "owner": {}, "parts": [{"title": ""}, {"title": "a", "y~/": 1}], "size": "m"},
    )
    assert reply.faults() == {
        "colour": "The query parameter colour is not known here.",
        "/title": "title is missing.",
        "/pages": "pages is less than 1.",
        "/x": "x is not a known field.",
        "/owner/name": "owner.name is missing.",
        "/parts/0/title": "parts[0].title is empty.",
        "/parts/1/y~0~1": "parts[1].y~/ is not a known field.",
        "/size": "size is not one of: s, l, null.",
    }


def test_a_value_of_another_type_than_the_allowed_ones_has_one_fault(server):
    client, _ = server
    reply = client("POST", "/v2/books", json_body={"title": "a", "size": 5, "action": {"kind": None}})
    assert [(fault["pointer"], fault["detail"]) for fault in reply.json["errors"]] == [
        ("/size", "size is not one of: s, l, null."),
        ("/action/kind", "action.kind is not one of: mint, note."),
    ]


def test_an_unknown_name_is_reported_with_a_similar_one(server):
    client, _ = server
    reply = client("POST", "/v2/books", json_body={"tilte": "a", "title": "a", "parts": [{"title": "x", "Titel": "x"}]})
    assert reply.faults() == {
        "/tilte": "tilte is not a known field. Did you mean title?",
        "/parts/0/Titel": "parts[0].Titel is not a known field. Did you mean title?",
    }
    reply = client("POST", "/v2/books", json_body={"title": "a", "action": {"kind": "nota", "text": "a"}})
    assert reply.faults() == {"/action/kind": "action.kind is not one of: mint, note. Did you mean note?"}


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (
            b'{"title": "a", "extra": [1, {"b": 1e999, "c": [0.' + b"1" * 100 + b"]}]}",
            {
                "/extra/1/b": "extra[1].b is out of range: the exponent of a number is between -330 and 330.",
                "/extra/1/c/0": "extra[1].c[0] has more than 80 characters.",
            },
        ),
        (b'{"title": ' + b"1" * 81 + b"}", {"/title": "title has more than 80 characters."}),
        (b'{"title": -' + b"1" * 80 + b"}", {"/title": "title has more than 80 characters."}),
        (
            b'{"title": "' + b"1" * 81 + b'", "extra": 1' + b"0" * 5000 + b"}",
            {"/extra": "extra has more than 80 characters."},
        ),
        (b"1e999", {"": "The body is out of range: the exponent of a number is between -330 and 330."}),
        (b'{"title": 1e999, "title": 1}', {"": UNREADABLE_NUMBER}),
        (b'{"title": 1e999, ', {"": UNREADABLE_NUMBER}),
        (b'{"title": "a", "extra": [{"b": 1, "b": 1}]}', {"/extra/0/b": "extra[0].b is in the body twice."}),
        (b'{"title": "a", "extra": {"b": "\\u0000"}}', {"/extra/b": "extra.b contains the character U+0000."}),
    ],
    ids=[
        "numbers",
        "a long integer",
        "a negative long integer",
        "a long integer after a text of digits",
        "only a number",
        "a number of a name twice",
        "cut off",
        "twice",
        "U+0000",
    ],
)
def test_an_unreadable_value_is_reported_at_its_field_if_the_rest_of_the_body_can_be_read(server, body, faults):
    client, _ = server
    assert client("POST", "/v2/books", body=body).faults() == faults


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b'{"title": "\\ud800"}', "a text ends in half of a UTF-16 surrogate pair"),
        (b'{"title": "\\ud800', "Input data was truncated"),
        (b'{"title": "a', "Input data was truncated"),
    ],
)
def test_a_lone_high_surrogate_and_a_truncated_body_are_refused_with_different_reasons(server, body, reason):
    client, _ = server
    assert client("POST", "/v2/books", body=body).faults() == {"": f"The body is not valid JSON: {reason}."}


def test_only_faults_of_the_alternative_that_the_discriminator_names_are_reported(server):
    client, _ = server

    def faults(action):
        """The faults of a book with this action."""
        return client("POST", "/v2/books", json_body={"title": "a", "action": action}).faults()

    assert faults({"kind": "mint"}) == {"/action/amount": "action.amount is missing."}
    assert faults({"kind": "note", "text": 1, "amount": 2}) == {
        "/action/text": "action.text is not of type string.",
        "/action/amount": "action.amount is not a known field.",
    }
    assert faults({"kind": "burn"}) == {"/action/kind": "action.kind is not one of: mint, note."}
    assert faults({"amount": 1}) == {"/action/kind": "action.kind is missing."}


def test_a_fault_does_not_repeat_a_long_value(server):
    client, _ = server
    reply = client("POST", "/v2/books", json_body={"title": "t" * 9000, "n" * 9000: 1})
    assert reply.status == 400
    assert len(reply.content) < 2000


@pytest.mark.slow
def test_the_number_of_reported_faults_is_bounded(server):
    client, _ = server
    reply = client("POST", "/v2/books", json_body={"title": "a", "parts": [{"x": 1}] * 500})
    assert len(reply.json["errors"]) == 50


TYPES = {
    # The client sends no header with this value.
    "none": "(none)",
    "text": "text/plain",
    "a list": "application/json, text/plain",
    "multipart": "multipart/form-data; boundary=x",
    "a form": "application/x-www-form-urlencoded",
    "another JSON": "application/merge-patch+json",
    "Latin-1": "application/json; charset=latin-1",
    "an odd charset": "application/json; charset=bogus",
    "UTF-16": "application/json;charset=utf-16",
    "long": "x" * 5000,
    "not ASCII": "application/jsön",
}


@pytest.mark.parametrize("content_type", TYPES.values(), ids=TYPES.keys())
def test_another_media_type_is_a_415(server, no_warnings, content_type):
    client, _ = server
    reply = client("POST", "/v2/books", body=b'{"title": "a"}', headers={"Content-Type": content_type})
    assert reply.status == 415
    assert reply.json["type"] == "/problems/unsupported-media-type"
    assert reply.headers["accept"] == "application/json"
    assert len(reply.content) < 600


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "APPLICATION/JSON", "application/json; charset=UTF-8", 'application/json ;charset="utf-8"'],
)
def test_the_documented_media_type_may_be_written_in_any_way(server, content_type):
    client, _ = server
    assert client("POST", "/v2/books", body=b'{"title": "a"}', headers={"Content-Type": content_type}).status == 200


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip", "chunked", "x"])
def test_a_compressed_body_is_a_415(server, no_warnings, coding):
    client, _ = server
    compressed_body = gzip.compress(b'{"title": "a"}')
    reply = client("POST", "/v2/books", body=compressed_body, headers={"Content-Encoding": coding})
    assert (reply.status, reply.headers["accept-encoding"]) == (415, "identity")


def test_a_body_that_is_compressed_for_the_transfer_is_a_415(server, no_warnings):
    client, _ = server
    compressed_body = gzip.compress(b'{"title": "a"}')
    for sent_body in (compressed_body, b'{"title": "a"}'):
        reply = client("POST", "/v2/books", body=[sent_body], headers={"Transfer-Encoding": "gzip, chunked"})
        assert (reply.status, reply.json["type"]) == (415, "/problems/unsupported-media-type")


def test_a_body_may_arrive_in_parts(server):
    client, recorder = server
    parts = [b'{"tit', b"", b'le": "caf\xc3', b'\xa9"}']
    assert client("POST", "/v2/books", body=parts, headers={"Transfer-Encoding": "chunked"}).status == 200
    assert recorder.last.body == {"title": "café"}


def test_a_body_with_a_too_large_content_length_is_not_read(server, no_warnings):
    client, _ = server
    # One more than the maximum.
    reply = client("POST", "/v2/books", body=b"{}", headers={"Content-Length": "20001"})
    assert (reply.status, client.body_reads) == (413, 0)
    assert reply.json["type"] == "/problems/payload-too-large"
    assert client("POST", "/v2/books", body=b"{}", headers={"Content-Length": "9" * 30}).status == 413


def test_a_body_is_not_read_further_once_it_is_too_large(server, no_warnings):
    client, _ = server
    # The first 20 parts are within the maximum of 20,000 bytes.
    reply = client("POST", "/v2/books", body=[b" " * 1000] * 10_000)
    assert (reply.status, client.body_reads) == (413, 21)
    largest_body = b'{"title": "a"}'.ljust(20_000)
    assert client("POST", "/v2/books", body=largest_body).status == 200
    assert client("POST", "/v2/books", body=largest_body + b" ").status == 413


def test_a_missing_body_is_refused_only_if_it_is_required(server):
    client, recorder = server
    assert client("POST", "/v2/books").faults() == {"": "The body is missing."}
    content_type = {"Content-Type": "application/json"}
    assert client("POST", "/v2/books", headers=content_type).faults() == {"": "The body is missing."}
    assert client("PATCH", "/v2/any").status == 200
    assert recorder.last.body is None
    assert client("PATCH", "/v2/any", headers=content_type).status == 200
    assert client("PATCH", "/v2/any", json_body={"a": 1}).status == 200
    assert recorder.last.body == {"a": 1}


def test_a_body_that_the_operation_does_not_declare_is_not_read(server):
    client, recorder = server
    assert client("DELETE", "/v2/any", body=b"\xff\x00 whatever").status == 200
    assert (recorder.last.body, client.body_reads) == (None, 0)


def send_form(client, form, **headers):
    """Request a token with this form, without a token of the client; return the reply."""
    return client(
        "POST",
        "/v2/oauth/token",
        body=form,
        token=None,
        headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
    )


def test_a_form_arrives_as_an_object_with_its_credentials(server):
    client, recorder = server
    reply = send_form(
        client, b"grant_type=client_credentials&client_id=a%2Bb+c&lifetime=60", Authorization="Basic YTpi"
    )
    assert reply.status == 200
    assert recorder.last.body == {"grant_type": "client_credentials", "client_id": "a+b c", "lifetime": 60}
    assert recorder.last.headers["authorization"] == "Basic YTpi"
    assert recorder.last.caller is None


@pytest.mark.parametrize(
    ("form", "place"),
    [
        (b"grant_type=password", "/grant_type"),
        (b"client_id=a", "/grant_type"),
        (b"grant_type=client_credentials&scope=x", "/scope"),
        (b"grant_type=client_credentials&grant_type=client_credentials", "grant_type"),
        (b"grant_type=client_credentials&client_id=%00", "client_id"),
        (b"grant_type=client_credentials&client_id=%FF", "client_id"),
        (b"grant_type=client_credentials&client_id=\xff", "client_id"),
        (b"grant_type=%zz", "grant_type"),
        (b"grant_type=client_credentials&lifetime=1_0", "lifetime"),
    ],
)
def test_a_malformed_form_is_refused_with_the_place_of_the_fault(server, no_warnings, form, place):
    client, _ = server
    assert list(send_form(client, form).faults()) == [place]


def test_json_for_a_form_is_a_415(server):
    client, _ = server
    assert client("POST", "/v2/oauth/token", json_body={"grant_type": "client_credentials"}).status == 415


def test_duplicate_names_are_found_however_they_are_written(server):
    client, _ = server
    for text in ("plain", 'qu"ote', "back\\slash", "caf\u00e9", "\u2028", "colon: {}", "\x7f"):
        for ensure_ascii in (True, False):
            # The text is both the name and the value.
            quoted_text = json.dumps(text, ensure_ascii=ensure_ascii)
            body_with_name_once = f'{{{quoted_text}: {quoted_text}, "other": {quoted_text}}}'.encode()
            body_with_name_twice = f"{{{quoted_text}: {quoted_text}, {quoted_text}: {quoted_text}}}".encode()
            assert client("POST", "/v2/any", body=body_with_name_once).status == 200, body_with_name_once
            assert client("POST", "/v2/any", body=body_with_name_twice).status == 400, body_with_name_twice


def test_a_client_that_disconnects_before_its_body_is_complete_gets_no_response_and_logs_no_error(server, no_warnings):
    client, recorder = server
    request_count = len(recorder.requests)
    response_messages = []
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]

    async def receive():
        return messages.pop(0)

    async def send(message):
        response_messages.append(message)

    headers = [(b"authorization", b"Bearer admin"), (b"content-type", b"application/json")]
    scope = {"type": "http", "http_version": "1.0", "method": "POST", "query_string": b""}
    scope |= {"path": "/v2/books", "raw_path": b"/v2/books", "headers": headers}
    asyncio.run(client.app(scope, receive, send))
    assert (response_messages, len(recorder.requests)) == ([], request_count)
