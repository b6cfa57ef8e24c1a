"""Too many calls, calls that take too long, and a database with a full disk or that is read-only."""

from __future__ import annotations

import base64
import dataclasses
import gc
import logging
import threading

import pytest
from sqlalchemy import event, text

from domain.problems import Unauthorized
from handlers.call import Response
from handlers.http import storage
from handlers.http.app import _readiness
from persistence.engine import create_engine
from tests.http.support import SETTINGS, Recorder, body, operation, serve

OK = {"200": {"description": "done", "content": {"application/json": {"schema": {}}}}}
BOOKS = {"/books": {"get": operation("listBooks", "books:read")}}


def server(dispatch=None, paths=BOOKS, **settings):
    """A client of a server with these settings."""
    client, _ = serve(paths, dispatch=dispatch, settings=dataclasses.replace(SETTINGS, **settings))
    return client


def test_without_rates_responses_have_no_rate_headers():
    reply = server()("GET", "/v2/books")
    assert reply.status == 200
    assert "ratelimit" not in reply.headers


@pytest.mark.parametrize("name", ["token", "client", "address"])
def test_calls_beyond_the_rate_are_429_with_the_time_to_wait(name):
    client = server(**{f"rate_per_{name}": "2/hour"})
    first_reply, second_reply, refused_reply = (client("GET", "/v2/books") for _ in range(3))
    assert [reply.status for reply in (first_reply, second_reply, refused_reply)] == [200, 200, 429]
    # q calls in w seconds; r remain, and another is added in t seconds.
    assert first_reply.headers["ratelimit-policy"] == f'"{name}";q=2;w=3600'
    assert first_reply.headers["ratelimit"] == f'"{name}";r=1;t=1800'
    assert refused_reply.json["type"] == "/problems/too-many-requests"
    # The test takes less than 5 seconds.
    assert 1795 <= int(refused_reply.headers["retry-after"]) <= 1800
    assert refused_reply.headers["ratelimit"].startswith(f'"{name}";r=0')


def test_tokens_are_counted_individually_and_addresses_across_tokens():
    client = server(rate_per_token="1/hour", rate_per_address="3/hour")
    # The third call exceeds the rate of its token, the fourth that of the address.
    tokens = ("reader", "writer", "reader", "admin")
    assert [client("GET", "/v2/books", token=token).status for token in tokens] == [200, 200, 429, 429]


def test_a_token_is_counted_however_the_request_spells_it():
    client = server(rate_per_token="1/hour")
    spellings = [
        {"Authorization": "Bearer reader"},
        {"Authorization": "bEARER reader"},
        {"Authorization": "Bearer  reader"},
        {"Authorization": "Bearer reader", "X-Api-Key": "1"},
    ]
    assert [client("GET", "/v2/books", headers=headers).status for headers in spellings] == [200, 429, 429, 429]


def test_requests_without_a_valid_token_are_counted_only_by_address():
    client = server(rate_per_token="1/hour", rate_per_address="3/hour")
    assert [client("GET", "/v2/books", token="wrong").status for _ in range(5)] == [401] * 3 + [429] * 2


FORM = body({"type": "object", "properties": {"client_id": {"type": "string"}}}, "application/x-www-form-urlencoded")
REFUSED = {"401": {"description": "refused", "content": {"application/json": {"schema": {}}}}}
TOKENS = {
    "/oauth/token": {"post": operation("createAccessToken", public=True, requestBody=FORM, responses={**OK, **REFUSED})}
}


class TestWrongSecrets:
    def request_token(self, client, name, **headers):
        """Request a token as the client of this id; return the status of the response."""
        form = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        return client("POST", "/v2/oauth/token", body=f"client_id={name}".encode(), headers=form, token=None).status

    def test_a_client_with_too_many_wrong_secrets_must_wait(self):
        client_ids = []

        def dispatch(request):
            """Accept only the secret of the client `good`."""
            client_ids.append(request.body["client_id"])
            return Response(200 if request.body["client_id"] == "good" else 401, {})

        client = server(Recorder(dispatch), TOKENS, wrong_secrets_per_client="3/hour", trusted_proxies="127.0.0.1")
        assert [self.request_token(client, "wrong") for _ in range(5)] == [401, 401, 401, 429, 429]
        # The last two requests did not reach the handler.
        assert client_ids == ["wrong"] * 3
        assert [self.request_token(client, "good") for _ in range(5)] == [200] * 5
        # Guesses from one address do not lock the client out at another one.
        assert self.request_token(client, "wrong", **{"X-Forwarded-For": "192.0.2.7"}) == 401

    def test_a_client_must_wait_however_http_basic_encodes_its_id(self):
        client = server(Recorder(lambda request: Response(401, {})), TOKENS, wrong_secrets_per_client="3/hour")

        def request_token(client_id):
            """Request a token with HTTP Basic; return the status of the response."""
            pair = base64.b64encode(f"{client_id}:x".encode()).decode()
            headers = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": f"Basic {pair}"}
            return client("POST", "/v2/oauth/token", body=b"scope=", headers=headers, token=None).status

        # All are till-4.
        spellings = ["till-4", "%74ill-4", "t%69ll-4", "til%6c-4", "%74%69%6C%6C%2D%34"]
        assert [request_token(client_id) for client_id in spellings] == [401, 401, 401, 429, 429]
        # Two spellings of a space, in HTTP Basic and in the form.
        assert [request_token(client_id) for client_id in ("till+4", "till%204", "till%204")] == [401, 401, 401]
        assert self.request_token(client, "till%204") == 429

    def test_an_address_that_tries_many_clients_must_wait(self):
        client = server(Recorder(lambda request: Response(401, {})), TOKENS, wrong_secrets_per_address="4/hour")
        assert [self.request_token(client, f"client-{n}") for n in range(6)] == [401] * 4 + [429] * 2


class TestDeadlines:
    def test_a_call_beyond_its_deadline_is_503(self):
        deadline_is_over = threading.Event()

        def dispatch(request):
            deadline_is_over.wait(60)
            return Response(200, {})

        client = server(Recorder(dispatch), request_timeout_ms=100)
        reply = client("GET", "/v2/books")
        assert (reply.status, reply.json["type"]) == (503, "/problems/deadline-exceeded")
        assert "retry-after" in reply.headers
        deadline_is_over.set()

    def test_an_error_after_the_deadline_logs_no_warning(self, caplog):
        deadline_is_over = threading.Event()

        def dispatch(request):
            deadline_is_over.wait(60)
            raise Unauthorized("late")

        client = server(Recorder(dispatch), threads=1, request_timeout_ms=100)
        assert client("GET", "/v2/books").status == 503
        deadline_is_over.set()
        # The only thread handles this call after the first one has failed. A destructor might log the warning.
        client("GET", "/v2/books")
        gc.collect()
        assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_full_disk_is_a_503_and_makes_the_server_unready(engine, monkeypatch):
    # As if the disk had never been full.
    monkeypatch.setattr(storage, "_full_at", float("-inf"))

    def dispatch(request):
        # 53100 is the error that PostgreSQL raises when the disk is full.
        with engine.begin() as db:
            db.execute(text("DO $$ BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END $$"))

    client = server(Recorder(dispatch))
    assert not storage.is_full()
    reply = client("GET", "/v2/books")
    assert (reply.status, reply.json["type"]) == (503, "/problems/storage-full")
    assert storage.is_full()
    assert _readiness(engine)() == {"database": True, "storage": False, "migrations": True}


def test_a_write_to_a_read_only_database_is_a_503_and_the_server_is_unready(settings, caplog):
    read_only_engine = create_engine(settings.database_url, threads=1)
    event.listen(
        read_only_engine,
        "connect",
        lambda connection, _: connection.send_separately("SET default_transaction_read_only = on"),
    )

    def dispatch(request):
        with read_only_engine.begin() as db:
            db.execute(text("CREATE TABLE never_created (number int)"))

    reply = server(Recorder(dispatch))("GET", "/v2/books")
    assert (reply.status, reply.json["type"]) == (503, "/problems/unavailable")
    assert "retry-after" in reply.headers
    messages = [record.getMessage() for record in caplog.records if record.name == "loyalty.errors"]
    assert messages == ["the database is unavailable: ReadOnlySqlTransaction"]
    assert _readiness(read_only_engine)() == {"database": False, "storage": True, "migrations": True}
    read_only_engine.dispose()
