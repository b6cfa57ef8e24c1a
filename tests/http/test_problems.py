"""Problems over HTTP: their statuses, logs and headers, and the ids of requests."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import psycopg2
import psycopg2.errors
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from domain.problems import Conflict, FieldFault, Forbidden, InvalidRequest, KeyReused, NotFound, Refusal
from handlers.call import Response
from handlers.http.problems import problem_body
from tests.http.support import operation, serve

PATHS = {"/x": {"get": operation("x"), "delete": operation("gone", responses={"204": {"description": "gone"}})}}
SECRET = "SELECT secret FROM vault"


class Unavailable(Refusal):
    kind = "unavailable"
    slug = "unavailable"


def client_whose_call_raises(error):
    """A client of an application whose dispatcher raises the error."""

    def dispatch(request):
        raise error

    return serve(PATHS, dispatch=dispatch)[0]


@pytest.mark.parametrize(
    ("refusal", "status", "slug"),
    [
        (InvalidRequest([FieldFault("is wrong", pointer="/a")]), 400, "invalid-request"),
        (Forbidden("not here"), 403, "forbidden"),
        (NotFound("no such book"), 404, "not-found"),
        (KeyReused("used before", systemUniqueKey="k"), 409, "key-reused"),
        (Conflict("no"), 409, "conflict"),
        (Unavailable("later"), 503, "unavailable"),
    ],
    ids=lambda argument: type(argument).__name__ if isinstance(argument, Refusal) else None,
)
def test_the_kind_of_a_refusal_decides_the_status_of_its_problem(refusal, status, slug):
    reply = client_whose_call_raises(refusal)("GET", "/v2/x")
    assert reply.status == status
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json == {
        "type": f"/problems/{slug}",
        "title": refusal.title,
        "status": status,
        "detail": refusal.detail,
        "instance": reply.headers["x-request-id"],
        **refusal.extension_fields,
    }
    assert ("retry-after" in reply.headers) == (status == 503)


@pytest.mark.parametrize(
    "error",
    [
        OperationalError(SECRET, {}, psycopg2.OperationalError("connection refused")),
        OperationalError(SECRET, {}, psycopg2.errors.QueryCanceled("statement timeout")),
        OperationalError(SECRET, {}, psycopg2.errors.LockNotAvailable("lock timeout")),
        DBAPIError(SECRET, {}, psycopg2.DatabaseError("server closed"), connection_invalidated=True),
        PoolTimeout("QueuePool limit"),
    ],
    ids=["connection refused", "statement timeout", "lock timeout", "invalidated", "pool"],
)
def test_an_unavailable_database_is_a_503(error, caplog):
    reply = client_whose_call_raises(error)("GET", "/v2/x")
    assert reply.status == 503
    assert int(reply.headers["retry-after"]) > 0
    assert reply.json["type"] == "/problems/unavailable"
    assert b"secret" not in reply.content
    assert [record.levelname for record in caplog.records if record.name == "loyalty.errors"] == ["WARNING"]
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError(SECRET),
        KeyError(SECRET),
        IntegrityError(SECRET, {}, psycopg2.IntegrityError("x")),
        RecursionError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_returns_no_details_and_logs_one_line_with_its_trace(error, caplog):
    reply = client_whose_call_raises(error)("GET", "/v2/x")
    assert reply.status == 500
    assert reply.json["type"] == "/problems/internal-error"
    assert b"secret" not in reply.content
    [log_record] = [record for record in caplog.records if record.levelno >= logging.ERROR]
    _, logged_error, _ = log_record.exc_info
    assert logged_error is error
    assert log_record.requestId == reply.json["instance"] == reply.headers["x-request-id"]
    assert log_record.operation == "integration:x"


def test_a_result_that_is_not_json_is_a_500_and_no_broken_response(caplog):
    client, _ = serve(PATHS, dispatch=lambda request: Response(200, object()))
    reply = client("GET", "/v2/x")
    assert (reply.status, reply.json["type"]) == (500, "/problems/internal-error")


def test_a_problem_without_a_type_of_its_own_has_the_type_about_blank():
    # 426 is a status of HTTP, and no problem of this server has it.
    body = problem_body(426, "Upgrade Required.", "r-1")
    assert json.loads(body) == {
        "type": "about:blank",
        "title": "Upgrade Required",
        "status": 426,
        "detail": "Upgrade Required.",
        "instance": "r-1",
    }


def test_a_204_has_no_body():
    client, _ = serve(PATHS, dispatch=lambda request: Response(204, None))
    reply = client("DELETE", "/v2/x")
    assert (reply.status, reply.content) == (204, b"")
    assert "content-type" not in reply.headers
    assert "content-length" not in reply.headers


def test_headers_of_a_result_are_sent_with_the_default_headers():
    client, _ = serve(
        PATHS, dispatch=lambda request: Response(200, {}, (("Location", "/v2/x/1"), ("Cache-Control", "private")))
    )
    reply = client("GET", "/v2/x")
    assert reply.headers["location"] == "/v2/x/1"
    assert reply.headers["cache-control"] == "private"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["content-type"] == "application/json"


def test_responses_forbid_caches_to_store_them():
    client, _ = serve(PATHS)
    assert client("GET", "/v2/x").headers["cache-control"] == "no-store"


@pytest.mark.parametrize("request_id", ["abc-1.2_3", "x" * 64])
def test_a_valid_request_id_is_used(request_id):
    client, recorder = serve(PATHS)
    assert client("GET", "/v2/x", headers={"X-Request-Id": request_id}).headers["x-request-id"] == request_id
    assert recorder.last.request_id == request_id


@pytest.mark.parametrize("request_id", ["", "x" * 65, "a b", "a\tb", "é", "a\n", "<script>"])
def test_an_invalid_request_id_is_replaced(request_id):
    client, recorder = serve(PATHS)
    new_id = client("GET", "/v2/x", headers={"X-Request-Id": request_id}).headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", new_id)
    assert recorder.last.request_id == new_id


def test_every_response_has_a_request_id():
    client, _ = serve(PATHS)
    for method, path in (("GET", "/nowhere"), ("PUT", "/v2/x"), ("OPTIONS", "/v2/x"), ("GET", "/health/live")):
        assert client(method, path).headers["x-request-id"]


def test_a_websocket_connection_is_refused():
    client, _ = serve(PATHS)
    messages = []

    async def connect():
        async def receive():
            return {"type": "websocket.connect"}

        async def send(message):
            messages.append(message)

        await client.app({"type": "websocket", "path": "/v2/x", "headers": []}, receive, send)

    asyncio.run(connect())
    assert messages == [{"type": "websocket.close", "code": 1008}]
