"""The lines that requests and failures write to the log."""

from __future__ import annotations

import json
import logging

import pytest

from handlers.http.logging import configure
from tests.http.support import operation, parameter, serve

PATHS = {"/books/{code}": {"get": operation("getBook", parameters=[parameter("code", {"type": "string"}, "path")])}}


@pytest.fixture
def configure_log():
    """The function that configures the log; the root logger is restored after the test."""
    root = logging.getLogger()
    handlers_before, level_before = root.handlers[:], root.level
    yield configure
    root.handlers[:] = handlers_before
    root.setLevel(level_before)


def test_a_request_writes_one_json_line_without_personal_data(configure_log, capsys):
    configure_log("info", "json")
    client, _ = serve(PATHS)
    reply = client("GET", "/v2/books/ana%40example.org", token="reader", headers={"X-Request-Id": "r1"})
    assert reply.status == 200
    client("GET", "/v2/books/ana?secret=1", token="reader")
    client("GET", "/ana/secret", token="reader")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    first_line, line_of_undeclared_parameter, line_of_unknown_path = lines
    assert first_line.pop("durationMs") >= 0
    assert first_line.pop("time")
    assert first_line == {
        "level": "INFO",
        "logger": "loyalty.requests",
        "message": "request",
        "requestId": "r1",
        "method": "GET",
        "route": "/v2/books/{code}",
        "operation": "integration:getBook",
        "status": 200,
        "organizationId": 1,
    }
    assert line_of_undeclared_parameter["status"] == 400
    assert (line_of_unknown_path["status"], line_of_unknown_path["route"]) == (404, None)
    log = json.dumps(lines)
    # "reader" is the token.
    for secret in ("ana", "secret", "reader", "Bearer"):
        assert secret not in log


def test_a_failure_writes_one_line_with_its_trace(configure_log, capsys):
    configure_log("warning", "json")

    def dispatch(request):
        logging.getLogger("loyalty.anything").warning("on the way")
        raise RuntimeError("boom")

    client, _ = serve(PATHS, dispatch=dispatch)
    client("GET", "/v2/books/a", headers={"X-Request-Id": "r2"})
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["message"], line["requestId"]) for line in lines] == [
        ("on the way", "r2"),
        ("a request failed", "r2"),
    ]
    assert "RuntimeError: boom" in lines[1]["exc_info"]
    assert lines[1]["operation"] == "integration:getBook"


def test_the_text_format_writes_a_request_as_one_line_of_text(configure_log, capsys):
    configure_log("info", "text")
    client, _ = serve(PATHS)
    client("GET", "/v2/books/ana", headers={"X-Request-Id": "r3"})
    (line,) = capsys.readouterr().err.splitlines()
    assert "INFO loyalty.requests [r3] request GET /v2/books/{code} 200 " in line


def test_requests_are_not_logged_at_the_level_error(configure_log, capsys):
    configure_log("error", "json")
    client, _ = serve(PATHS)
    client("GET", "/v2/books/ana")
    assert capsys.readouterr().err == ""
