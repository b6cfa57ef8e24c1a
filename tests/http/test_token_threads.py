"""Threads of requests for access tokens: generated secrets do not wait for passwords, nor clients for one client."""

from __future__ import annotations

import base64
import threading
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest

from handlers.call import Response
from handlers.http.exchange import Exchange
from handlers.http.token_threads import PASSWORD_THREADS, TokenThreads
from tests.http.support import body, operation, serve

SECONDS = 60
FORM_TYPE = "application/x-www-form-urlencoded"
PATHS = {
    "/oauth/token": {
        "post": operation("createAccessToken", public=True, requestBody=body({"type": "object"}, FORM_TYPE)),
    }
}
PASSWORD = {"client_id": "ana", "client_secret": "espresso-and-rain-4711"}
SECRET = {"client_id": "till", "client_secret": "lsk_abc"}


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


@pytest.mark.parametrize(
    ("slow_form", "fast_form", "fast_headers"),
    [
        (PASSWORD, SECRET, {}),
        (PASSWORD, {"grant_type": "client_credentials"}, basic("till", "lsk_abc")),
        # The text lsk_ elsewhere does not turn a password into a generated secret.
        ({**PASSWORD, "client_id": "lsk_ana", "scope": "lsk_abc"}, SECRET, {}),
        # The first sign-in of a person with a generated temporary password hashes the new one.
        ({**SECRET, "new_password": "espresso-and-rain-4711"}, SECRET, {}),
        ({**PASSWORD, "scope": "a" * 17_000}, SECRET, {}),
    ],
)
def test_a_generated_secret_does_not_wait_for_passwords(slow_form, fast_form, fast_headers):
    password_is_checked, go_on = threading.Event(), threading.Event()

    def dispatch(request):
        if request.body == slow_form:
            password_is_checked.set()
            assert go_on.wait(SECONDS)
        return Response(200, {})

    client, _ = serve(PATHS, {}, dispatch=dispatch)

    def request_token(form, headers):
        return client(
            "POST",
            "/v2/oauth/token",
            body=urlencode(form).encode(),
            headers={"Content-Type": FORM_TYPE, **headers},
            token=None,
        ).status

    with ThreadPoolExecutor(4) as clients:
        try:
            slow_requests = [clients.submit(request_token, slow_form, {}) for _ in range(3)]
            assert password_is_checked.wait(SECONDS)
            assert clients.submit(request_token, fast_form, fast_headers).result(SECONDS) == 200
            assert not any(request.done() for request in slow_requests)
        finally:
            go_on.set()
        assert [request.result(SECONDS) for request in slow_requests] == [200] * 3


def test_passwords_of_several_clients_are_checked_alternately():
    assert PASSWORD_THREADS == 1
    threads = TokenThreads()
    begin_order, first_has_begun, go_on = [], threading.Event(), threading.Event()

    def check(name: str) -> None:
        begin_order.append(name)
        first_has_begun.set()
        assert go_on.wait(SECONDS)

    def submit(client_id: str, address: str, name: str) -> None:
        exchange = Exchange({}, "id", 0, 0, address=address)
        threads.of(exchange, urlencode({**PASSWORD, "client_id": client_id}).encode()).submit(check, name)

    submit("ana", "192.0.2.1", "first")
    assert first_has_begun.wait(SECONDS)
    for number in range(3):
        submit("ana", "192.0.2.1", f"ana {number}")
    submit("ben", "192.0.2.1", "ben")
    submit("ana", "192.0.2.2", "ana elsewhere")
    go_on.set()
    threads.close()
    assert begin_order == ["first", "ana 0", "ben", "ana elsewhere", "ana 1", "ana 2"]
