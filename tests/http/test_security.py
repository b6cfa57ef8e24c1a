"""Access to operations: tokens, scopes, challenges, and the order of the checks."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy.exc import OperationalError

from domain.problems import Unauthorized
from handlers.call import Request, Response
from handlers.http.app import build_app
from handlers.http.threads import FairThreads
from handlers.messages.validation import DocumentError
from persistence.transactions import check_deadline, deadline_of_thread
from tests.http.support import (
    CALLERS,
    KEYS,
    SETTINGS,
    Client,
    Recorder,
    authenticate,
    authenticate_key,
    body,
    document,
    operation,
    parameter,
    serve,
)

MAX_WAIT_SECONDS = 60
PLAIN: dict[str, list[str]] = {"bearerAuth": []}
PATHS = {
    "/public": {"get": operation("public", public=True)},
    "/any": {"get": operation("any")},
    "/books": {
        "get": operation("list", "books:read"),
        "post": operation("create", "books:write", requestBody=body({"type": "object"})),
    },
    "/admin": {"get": operation("admin", "admin")},
    "/mine": {"get": {**operation("mine"), "security": [{"oauth2": ["member"]}, {"oauth2": ["books:read"]}, PLAIN]}},
    "/both": {"get": operation("both", "books:read", "admin")},
    "/books/{id}": {"get": operation("get", "books:read", parameters=[parameter("id", {"type": "integer"}, "path")])},
}


@pytest.fixture(scope="module")
def server():
    """(client, recorder of the requests) of an application; a token is the name of a caller in `CALLERS`."""
    return serve(PATHS)


@pytest.mark.parametrize(
    ("path", "allowed_callers"),
    [
        ("/public", {"admin", "reader", "writer", "nobody", "member"}),
        ("/any", {"admin", "reader", "writer", "nobody"}),
        ("/books", {"admin", "reader", "writer"}),
        ("/admin", {"admin"}),
        ("/mine", {"admin", "reader", "writer", "member"}),
        ("/both", {"admin"}),
    ],
)
def test_an_operation_is_allowed_to_callers_who_have_its_scopes(server, path, allowed_callers):
    client, recorder = server
    for name in CALLERS:
        reply = client("GET", f"/v2{path}", token=name)
        assert reply.status == (200 if name in allowed_callers else 403), name
        if name in allowed_callers and path != "/public":
            assert recorder.last.caller is CALLERS[name]


def test_without_a_token_only_public_operations_are_served(server):
    client, recorder = server
    for path in PATHS:
        reply = client("GET", "/v2" + path.replace("{id}", "1"), token=None)
        assert reply.status == (200 if path == "/public" else 401), path
    assert recorder.last.caller is None


def test_a_401_challenges_for_a_bearer_token(server):
    client, _ = server
    reply = client("GET", "/v2/books", token=None)
    assert reply.headers["www-authenticate"] == 'Bearer realm="loyalty"'
    assert reply.json["type"] == "/problems/unauthorized"
    assert reply.json["instance"] == reply.headers["x-request-id"]


@pytest.mark.parametrize(
    "credentials",
    [
        "Bearer wrong",
        "Bearer",
        "Bearer ",
        "bearer a b",
        "Bearer admin, Bearer admin",
        "Bearer \xff",
        pytest.param("Bearer " + "x" * 9000, id="a very long token"),
    ],
)
def test_an_invalid_token_is_a_401_with_the_error_invalid_token(server, credentials):
    client, _ = server
    reply = client("GET", "/v2/books", headers={"Authorization": credentials})
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == 'Bearer realm="loyalty", error="invalid_token"'
    # The response does not repeat the token.
    assert len(reply.content) < 500


@pytest.mark.parametrize("credentials", ["Basic YTpi", "admin", "Digest x", "BearerX admin"])
def test_credentials_of_other_schemes_count_as_none(server, credentials):
    client, _ = server
    reply = client("GET", "/v2/books", headers={"Authorization": credentials})
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="loyalty"')


def test_the_scheme_of_a_token_may_be_written_in_any_case(server):
    client, _ = server
    assert client("GET", "/v2/books", headers={"Authorization": "bEARER admin"}).status == 200


def test_two_authorization_headers_are_no_credentials(server):
    client, _ = server
    pairs = [("Authorization", "Bearer admin"), ("Authorization", "Bearer admin")]
    assert client("GET", "/v2/books", headers=pairs).status == 401


def test_a_403_names_the_missing_scope(server):
    client, _ = server
    reply = client("POST", "/v2/books", json_body={}, token="reader")
    assert reply.status == 403
    assert "books:write" in reply.json["detail"]
    assert reply.headers["www-authenticate"] == (
        'Bearer realm="loyalty", error="insufficient_scope", scope="books:write"'
    )


def test_credentials_are_checked_before_scopes_and_scopes_before_the_request(server):
    client, recorder = server
    count_before = len(recorder.requests)
    # Both requests are invalid: the body is no JSON, and the id is no number.
    for token, status in ((None, 401), ("reader", 403), ("writer", 400)):
        assert client("POST", "/v2/books?x=1", body=b"{", token=token).status == status
    for token, status in ((None, 401), ("nobody", 403), ("reader", 400)):
        assert client("GET", "/v2/books/abc", token=token).status == status
    assert len(recorder.requests) == count_before


def test_the_body_of_a_refused_caller_is_not_read(server):
    client, _ = server
    for token in (None, "wrong", "reader"):
        client("POST", "/v2/books", body=b"{}", token=token)
        assert client.body_reads == 0


def test_a_token_is_verified_off_the_event_loop_unless_it_is_cached():
    threads_of_verifications = []

    class Authenticator:
        def __call__(self, token):
            threads_of_verifications.append(threading.current_thread())
            return authenticate(token)

        def cached_caller(self, token):
            return CALLERS["reader"] if token == "known" else None

    app = build_app({"integration": document(PATHS)}, Recorder(), Authenticator(), SETTINGS)
    client = Client(app)
    assert client("GET", "/v2/books", token="known").status == 200
    assert threads_of_verifications == []
    assert client("GET", "/v2/books", token="admin").status == 200
    # The event loop runs in the main thread.
    [thread] = threads_of_verifications
    assert thread is not threading.main_thread()


def test_tokens_from_several_addresses_are_verified_alternately(monkeypatch):
    """One thread verifies all tokens; the first one waits until the others are queued."""
    verified_tokens, queued, go_on = [], threading.Semaphore(0), threading.Event()
    submit = FairThreads.submit

    def submit_and_count(*arguments):
        future = submit(*arguments)
        queued.release()
        return future

    def verify(token):
        verified_tokens.append(token)
        assert go_on.wait(MAX_WAIT_SECONDS)
        return authenticate(token)

    monkeypatch.setattr(FairThreads, "submit", submit_and_count)
    settings = replace(SETTINGS, threads=1, trusted_proxies="127.0.0.1")
    client = Client(build_app({"integration": document(PATHS)}, Recorder(), verify, settings))
    requests = [(f"wrong-{number}", "192.0.2.1") for number in range(4)] + [("reader", "192.0.2.2")]
    with ThreadPoolExecutor(len(requests)) as clients:
        try:
            replies = []
            for token, address in requests:
                headers = {"X-Forwarded-For": address}
                replies.append(clients.submit(client, "GET", "/v2/books", token=token, headers=headers))
                assert queued.acquire(timeout=MAX_WAIT_SECONDS)
        finally:
            go_on.set()
        assert [reply.result().status for reply in replies] == [401] * 4 + [200]
    assert verified_tokens == ["wrong-0", "wrong-1", "reader", "wrong-2", "wrong-3"]


def test_a_401_of_a_handler_challenges_in_the_scheme_of_the_client():
    def refuse(request):
        raise Unauthorized("Unknown client.")

    client, _ = serve(PATHS, dispatch=refuse)
    reply_to_basic = client("GET", "/v2/public", headers={"Authorization": "Basic YTpi"})
    assert (reply_to_basic.status, reply_to_basic.headers["www-authenticate"]) == (401, 'Basic realm="loyalty"')
    # By default the client of the tests sends a bearer token.
    reply_to_bearer = client("GET", "/v2/books")
    assert reply_to_bearer.headers["www-authenticate"] == 'Bearer realm="loyalty", error="invalid_token"'


def test_cookies_and_unknown_headers_do_not_reach_a_handler(server):
    client, recorder = server
    client("GET", "/v2/any", headers={"Cookie": "a=b", "User-Agent": "x", "X-Odd": "1"})
    assert recorder.last.headers == {"authorization": "Bearer admin", "user-agent": "x"}


def test_an_unavailable_database_during_verification_is_a_503():
    def fail(token):
        raise OperationalError("SELECT secret", {}, Exception("connection refused"))

    client = Client(build_app({"integration": document(PATHS)}, Recorder(), fail, SETTINGS))
    reply = client("GET", "/v2/mine")
    assert (reply.status, reply.json["type"]) == (503, "/problems/unavailable")
    assert "retry-after" in reply.headers


# An operation of each partner, which needs the API key of this partner.
PATHS_OF_PARTNERS = {
    f"/{partner}": {
        "post": {
            **operation("pay", requestBody=body({"type": "object", "additionalProperties": False})),
            "operationId": f"pay-{partner}",
            "security": [{partner: []}],
        }
    }
    for partner in ("alpha", "beta")
}


@pytest.fixture(scope="module")
def with_keys():
    """(client, recorder of the requests) of an application with operations of partners."""
    return serve({**PATHS, **PATHS_OF_PARTNERS})


def pay(client, partner, key, **more):
    """Call the operation of a partner with an API key, or without one; return the reply."""
    headers = {} if key is None else {"x-api-key": key}
    return client("POST", f"/v2/{partner}", json_body={}, token=None, headers=headers, **more)


def test_a_key_allows_only_the_operations_of_its_partner(with_keys):
    client, recorder = with_keys
    for partner in ("alpha", "beta"):
        assert pay(client, partner, f"{partner}-key").status == 200
        assert recorder.last.caller is KEYS[f"{partner}-key"]
    for partner, key in (("alpha", "beta-key"), ("beta", "alpha-key")):
        reply = pay(client, partner, key)
        assert (reply.status, reply.json["type"]) == (403, "/problems/forbidden")


INVALID_KEYS = [None, "", "wrong", "alpha-key, alpha-key", "\xff"]


@pytest.mark.parametrize("key", INVALID_KEYS)
def test_a_request_without_a_valid_key_is_a_401_that_challenges_for_a_key(with_keys, key):
    client, _ = with_keys
    reply = pay(client, "alpha", key)
    assert (reply.status, reply.headers["www-authenticate"]) == (401, 'ApiKey realm="loyalty"')


@pytest.mark.parametrize("key", INVALID_KEYS)
def test_the_body_of_a_request_without_a_valid_key_is_not_read(with_keys, key):
    client, _ = with_keys
    pay(client, "alpha", key)
    assert client.body_reads == 0


def test_tokens_and_keys_do_not_replace_each_other(with_keys):
    client, _ = with_keys
    assert client("POST", "/v2/alpha", json_body={}, token="admin").status == 401
    assert client("GET", "/v2/any", token=None, headers={"X-Api-Key": "alpha-key"}).status == 401
    assert client("GET", "/v2/any", token="alpha-key").status == 401


def test_a_key_is_verified_off_the_event_loop():
    threads_of_verifications = []

    def record_thread_and_authenticate(key):
        threads_of_verifications.append(threading.current_thread())
        return authenticate_key(key)

    app = build_app(
        {"integration": document(PATHS_OF_PARTNERS)},
        Recorder(),
        authenticate,
        SETTINGS,
        authenticate_key=record_thread_and_authenticate,
    )
    assert pay(Client(app), "alpha", "alpha-key").status == 200
    # The event loop runs in the main thread.
    [thread] = threads_of_verifications
    assert thread is not threading.main_thread()


def test_a_key_is_verified_in_the_time_of_its_own_call():
    """One thread serves both calls. The first one exceeds its time, which does not affect the second."""

    def wait_for_deadline(_: Request) -> Response:
        while not deadline_of_thread.get().is_expired:
            time.sleep(0.01)
        return Response(200, {})

    def check_deadline_and_authenticate(key):
        check_deadline()
        return authenticate_key(key)

    recorder = Recorder(wait_for_deadline)
    settings = replace(SETTINGS, threads=1, request_timeout_ms=200)
    app = build_app(
        {"integration": document(PATHS_OF_PARTNERS)},
        recorder,
        authenticate,
        settings,
        authenticate_key=check_deadline_and_authenticate,
    )
    client = Client(app)
    assert pay(client, "alpha", "alpha-key").status == 503
    recorder.answer = lambda request: Response(200, {})
    assert pay(client, "alpha", "alpha-key").status == 200


def test_a_call_whose_credentials_cannot_be_verified_in_time_is_refused():
    def wait_for_deadline(key):
        while True:
            time.sleep(0.01)
            check_deadline()

    settings = replace(SETTINGS, request_timeout_ms=200)
    app = build_app(
        {"integration": document(PATHS_OF_PARTNERS)},
        Recorder(),
        authenticate,
        settings,
        authenticate_key=wait_for_deadline,
    )
    reply = pay(Client(app), "alpha", "alpha-key")
    assert (reply.status, reply.headers["retry-after"]) == (503, "2")
    assert reply.json["detail"] == "The database is unavailable, or did not respond in time. Try again."


def test_an_api_key_in_the_query_is_refused_at_start():
    api_document = document(PATHS_OF_PARTNERS)
    api_document["components"]["securitySchemes"]["alpha"]["in"] = "query"
    with pytest.raises(DocumentError):
        build_app({"integration": api_document}, Recorder(), authenticate, SETTINGS)


def test_an_api_key_scheme_without_a_partner_is_refused_at_start():
    api_document = document(PATHS_OF_PARTNERS)
    del api_document["components"]["securitySchemes"]["alpha"]["x-partner"]
    with pytest.raises(DocumentError):
        build_app({"integration": api_document}, Recorder(), authenticate, SETTINGS)


def test_an_error_that_is_declared_without_content_has_no_body():
    declared_operation = operation(
        "bare", "books:write", requestBody=body({"type": "object", "additionalProperties": False})
    )
    declared_operation["responses"]["400"] = {"description": "refused"}
    client, _ = serve({**PATHS, "/bare": {"post": declared_operation}})
    for raw_body in (b"{", b'{"a": 1}', b""):
        reply = client("POST", "/v2/bare", body=raw_body, headers={"Content-Type": "application/json"})
        assert (reply.status, reply.content) == (400, b"")
        assert "content-type" not in reply.headers
        assert reply.headers["x-request-id"]
    # Other errors, and other operations, have their usual problem.
    assert client("POST", "/v2/bare", json_body={}, token="reader").json["type"] == "/problems/forbidden"
    assert client("POST", "/v2/books", body=b"{").json["type"] == "/problems/invalid-request"


def test_the_plain_scheme_needs_the_roles_of_another_scheme():
    paths = {
        "/alone": {"get": {**operation("alone"), "security": [PLAIN]}},
        "/first": {"get": {**operation("first"), "security": [PLAIN, {"oauth2": ["books:write"]}]}},
    }
    client, _ = serve(paths)
    assert {client("GET", "/v2/alone", token=name).status for name in CALLERS} == {401}
    allowed_callers = {name for name in CALLERS if client("GET", "/v2/first", token=name).status == 200}
    assert allowed_callers == {"admin", "writer"}
    assert client("GET", "/v2/first", token="reader").status == 403
