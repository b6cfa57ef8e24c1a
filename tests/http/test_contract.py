"""Responses are checked against the OpenAPI document, as in all tests; a violation becomes a 500."""

from __future__ import annotations

import logging
from decimal import Decimal

import pytest

from domain.problems import Conflict
from handlers.call import Response
from handlers.settings import Settings
from tests.http.support import SETTINGS, operation, serve

BOOK = {
    "type": "object",
    "additionalProperties": False,
    "required": ["id"],
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "price": {"type": "number", "nullable": True},
    },
}
RESPONSES = {
    "200": {
        "description": "a book",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Book"}}},
    },
    "204": {"description": "nothing"},
}
PATHS = {"/book": {"get": operation("getBook", responses=RESPONSES)}}
# Conflicts are not documented.
PATHS["/book"]["get"]["responses"].pop("409")


def client_that_gets(response, *, settings=SETTINGS):
    """A client of a server that sends this response to `GET /v2/book`."""
    return serve(PATHS, {"Book": BOOK}, dispatch=lambda request: response, settings=settings)[0]


@pytest.mark.parametrize(
    "response",
    [
        Response(200, {"id": 1}),
        Response(200, {"id": 1, "price": None, "at": "2024-01-01T00:00:00Z"}),
        Response(200, {"id": 1, "price": Decimal("18446744073709.123456")}),
        Response(204, None),
    ],
)
def test_a_response_that_the_document_allows_is_sent(response):
    assert client_that_gets(response)("GET", "/v2/book").status == response.status


@pytest.mark.parametrize(
    ("response", "violation"),
    [
        (Response(200, {}), "/id: id is missing."),
        (Response(200, {"id": 1, "x": 2}), "/x: x is not a known field."),
        (Response(200, {"id": 2**63}), "/id: id is more than 9223372036854775807"),
        (Response(200, {"id": 1, "at": "today"}), "/at: at is not a date-time such as"),
        (Response(200, None), "the media type (none) is not documented for 200"),
        (Response(200, {"id": 1}, (("Content-Type", "text/plain"),)), "the media type text/plain"),
        (Response(201, {"id": 1}), "the status 201 is not documented"),
        (Response(409, {"id": 1}), "the response with 409 is application/json, not application/problem+json"),
    ],
)
def test_a_response_that_violates_the_document_becomes_a_500_and_is_logged(response, violation, caplog):
    reply = client_that_gets(response)("GET", "/v2/book")
    assert reply.status == 500
    assert violation in reply.json["detail"]
    assert "AssertionError: integration:getBook" in caplog.text


def test_an_undocumented_problem_becomes_a_500():
    def dispatch(request):
        raise Conflict("no")

    client, _ = serve(PATHS, {"Book": BOOK}, dispatch=dispatch)
    reply = client("GET", "/v2/book")
    assert (reply.status, reply.json["type"]) == (500, "/problems/contract-violation")
    assert "409" in reply.json["detail"]


def test_responses_are_not_checked_without_validate_responses(caplog):
    settings = Settings(threads=1, validate_responses=False)
    client = client_that_gets(Response(201, {"x": 1}), settings=settings)
    with caplog.at_level(logging.WARNING):
        assert client("GET", "/v2/book").status == 201
    assert not caplog.records
