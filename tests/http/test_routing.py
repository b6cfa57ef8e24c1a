"""Routing: paths and methods of operations, percent-encoded segments, and documents that cannot be served."""

from __future__ import annotations

import pytest

from domain.problems import NotFound
from handlers.call import Response
from handlers.messages.validation import DocumentError
from tests.http.support import operation, parameter, serve

CODE = parameter("code", {"type": "string"}, "path")
PATHS = {
    "/books": {"get": operation("listBooks"), "post": operation("createBook")},
    "/books/search": {"post": operation("searchBooks")},
    "/books/{code}": {
        "get": operation("getBook", parameters=[CODE]),
        "delete": operation("deleteBook", parameters=[CODE]),
    },
    "/books/{code}/pages/{page}": {
        "parameters": [CODE, parameter("page", {"type": "integer"}, "path")],
        "get": operation("getPage"),
    },
}


@pytest.fixture(scope="module")
def server():
    """(client, recorder of the requests) of an application with these paths."""
    return serve(
        PATHS,
        other={
            "/organizations/{id}/books": {
                "get": operation("listBooks", parameters=[parameter("id", {"type": "integer"}, "path")]),
            }
        },
    )


def test_the_operation_of_a_path_gets_typed_path_parameters(server):
    client, recorder = server
    assert client("GET", "/v2/books/abc/pages/12").status == 200
    assert recorder.last.operation_id == "getPage"
    assert recorder.last.path == {"code": "abc", "page": 12}
    assert recorder.last.surface == "integration"


def test_two_surfaces_can_have_the_same_operation_id(server):
    client, recorder = server
    client("GET", "/v2/organizations/7/books")
    assert (recorder.last.surface, recorder.last.operation_id) == ("administration", "listBooks")
    assert recorder.last.path == {"id": 7}
    client("GET", "/v2/books")
    assert (recorder.last.surface, recorder.last.operation_id) == ("integration", "listBooks")


@pytest.mark.parametrize(
    ("segment", "code"),
    [
        ("50%25OFF", "50%OFF"),
        ("a%2Fb", "a/b"),
        ("a%2fb%20c", "a/b c"),
        ("caf%C3%A9", "café"),
        ("a+b", "a+b"),
        ("a%0Ab", "a\nb"),
        ("..", ".."),
        ("%2E%2E%2Fsearch", "../search"),
        ("a%3Fb%23c", "a?b#c"),
    ],
)
def test_a_percent_encoded_code_in_a_path_reaches_the_handler_decoded(server, segment, code):
    client, recorder = server
    assert client("GET", f"/v2/books/{segment}").status == 200
    assert recorder.last.path == {"code": code}


def test_a_literal_segment_may_be_percent_encoded(server):
    client, recorder = server
    # %6F is the letter o.
    assert client("GET", "/v2/b%6Foks").status == 200
    assert recorder.last.operation_id == "listBooks"


@pytest.mark.parametrize(
    "path",
    [
        "/v2",
        "/v2/",
        "/v2/book",
        "/v2/books/",
        "/v2/books//pages/1",
        "/books",
        "/v2/books/a/b",
        "/%FF",
        "/v2/x/%00",
        "/v2/books/a/b/%0A",
    ],
)
def test_an_unknown_path_is_a_404_problem(server, path):
    client, _ = server
    reply = client("GET", path, token=None)
    assert reply.status == 404
    assert reply.headers["content-type"] == "application/problem+json"
    assert (reply.json["type"], reply.json["title"]) == ("/problems/not-found", NotFound.title)
    assert reply.json["instance"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/v2/books", "GET, HEAD, OPTIONS, POST"),
        ("GET", "/v2/books/search", "OPTIONS, POST"),
        ("PATCH", "/v2/books/x", "DELETE, GET, HEAD, OPTIONS"),
        ("TRACE", "/v2/books", "GET, HEAD, OPTIONS, POST"),
        ("BREW", "/v2/books", "GET, HEAD, OPTIONS, POST"),
    ],
)
def test_a_405_names_every_method_of_the_path(server, method, path, allow):
    client, _ = server
    reply = client(method, path)
    assert (reply.status, reply.headers["allow"]) == (405, allow)
    assert reply.json["type"] == "/problems/method-not-allowed"


def test_a_target_may_be_absolute(server):
    client, recorder = server
    assert client("GET", "http://shop.example/v2/books/abc").status == 200
    assert recorder.last.path == {"code": "abc"}
    assert client("OPTIONS", "*").status == 404


def test_options_returns_the_methods_to_any_caller(server):
    client, _ = server
    reply = client("OPTIONS", "/v2/books", token=None)
    assert (reply.status, reply.headers["allow"], reply.content) == (204, "GET, HEAD, OPTIONS, POST", b"")


def test_head_returns_the_headers_of_get_without_a_body():
    client, _ = serve(PATHS, dispatch=lambda request: Response(200, {"a": 1}))
    get_reply, head_reply = client("GET", "/v2/books"), client("HEAD", "/v2/books")
    assert head_reply.content == b""
    assert get_reply.content == b'{"a":1}'
    assert head_reply.status == 200
    assert head_reply.headers["content-length"] == get_reply.headers["content-length"] == "7"


def test_a_partly_variable_segment_is_refused_at_start():
    with pytest.raises(DocumentError, match="either a parameter or literal"):
        serve({"/books/{code}:print": {"post": operation("printBook", parameters=[CODE])}})


def test_a_path_that_two_documents_have_is_refused_at_start():
    with pytest.raises(DocumentError, match="declared twice: by administration:b and by integration:a"):
        serve({"/books": {"get": operation("a")}}, other={"/books": {"get": operation("b")}})


def test_a_path_parameter_without_a_declaration_is_refused_at_start():
    with pytest.raises(DocumentError, match="differ"):
        serve({"/books/{code}": {"get": operation("a")}})
