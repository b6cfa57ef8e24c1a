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

MAX_WAIT_SECONDS = 60
FORM_TYPE = "application/x-www-form-urlencoded"
PATHS = {
    "/oauth/token": {
        "post": operation("createAccessToken", public=True, requestBody=body({"type": "object"}, FORM_TYPE)),
    }
}
PASSWORD = {"client_id": "ana", "client_secret": "espresso-and-rain-4711"}
SECRET = {"client_id": "till", "client_secret": "lsk_abc"}


def basic_credentials(client_id: str, secret: str) -> dict[str, str]:
    """The header with these credentials in HTTP Basic."""
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


@pytest.mark.parametrize(
    ("slow_form", "fast_form", "fast_headers"),
    [
        pytest.param(PASSWORD, SECRET, {}, id="in the form"),
        pytest.param(
            PASSWORD,
            {"grant_type": "client_credentials"},
            basic_credentials("till", "lsk_abc"),
            id="in HTTP Basic",
        ),
        # The text lsk_ elsewhere does not turn a password into a generated secret.
        pytest.param({**PASSWORD, "client_id": "lsk_ana", "scope": "lsk_abc"}, SECRET, {}, id="lsk_ elsewhere"),
        # The first sign-in of a person with a generated temporary password hashes the new one.
        pytest.param({**SECRET, "new_password": "espresso-and-rain-4711"}, SECRET, {}, id="a new password"),
        pytest.param({**PASSWORD, "scope": "a" * 17_000}, SECRET, {}, id="a long form"),
    ],
)
def test_a_generated_secret_does_not_wait_for_passwords(slow_form, fast_form, fast_headers):
    password_is_checked, go_on = threading.Event(), threading.Event()

    def dispatch(request):
        """Let the check of a password wait until the test lets it go on."""
        if request.body == slow_form:
            password_is_checked.set()
            assert go_on.wait(MAX_WAIT_SECONDS)
        return Response(200, {})

    client, _ = serve(PATHS, {}, dispatch=dispatch)

    def request_token(form, headers):
        """Request a token; return the status of the response."""
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
            assert password_is_checked.wait(MAX_WAIT_SECONDS)
            assert clients.submit(request_token, fast_form, fast_headers).result(MAX_WAIT_SECONDS) == 200
            assert not any(request.done() for request in slow_requests)
        finally:
            go_on.set()
        assert [request.result(MAX_WAIT_SECONDS) for request in slow_requests] == [200] * 3


def test_passwords_of_several_clients_are_checked_alternately():
    assert PASSWORD_THREADS == 1
    threads = TokenThreads()
    begin_order, first_has_begun, go_on = [], threading.Event(), threading.Event()

    def check(name: str) -> None:
        begin_order.append(name)
        first_has_begun.set()
        assert go_on.wait(MAX_WAIT_SECONDS)

    def submit(name: str, *, client_id: str, address: str) -> None:
        """Let the threads check the password of a client at an address; the name is that of the check."""
        exchange = Exchange({}, "id", 0, 0, address=address)
        threads.of(exchange, urlencode({**PASSWORD, "client_id": client_id}).encode()).submit(check, name)

    submit("first", client_id="ana", address="192.0.2.1")
    assert first_has_begun.wait(MAX_WAIT_SECONDS)
    for number in range(3):
        submit(f"ana {number}", client_id="ana", address="192.0.2.1")
    submit("ben", client_id="ben", address="192.0.2.1")
    submit("ana elsewhere", client_id="ana", address="192.0.2.2")
    go_on.set()
    threads.close()
    # The same client at two addresses counts as two.
    assert begin_order == ["first", "ana 0", "ben", "ana elsewhere", "ana 1", "ana 2"]
