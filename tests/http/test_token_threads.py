"""Threads of requests for access tokens: generated secrets do not wait for passwords, nor clients for other clients."""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from sqlalchemy import create_engine

from handlers.call import Response
from handlers.http.exchange import Exchange
from handlers.http.threads import Threads
from handlers.http.token_threads import PASSWORD_THREADS, TokenThreads
from handlers.schemas.auth import token_request
from handlers.services.sign_in import ClientOrganizations, TokenRequest
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


class TokenRequests:
    """Requests for tokens whose passwords are checked in one thread, after a first check that waits for `finish`.

    `organizations` has the organization of each client id that exists.
    """

    def __init__(self, organizations: Mapping[str, int]) -> None:
        assert PASSWORD_THREADS == 1
        self._organizations = organizations
        self._lookups = Threads(1, "lookup")
        self._threads = TokenThreads(lambda _: self._lookups(), self._find_organization)
        self._begin_order: list[str] = []
        self._first_has_begun, self._go_on = threading.Event(), threading.Event()
        self.add("first", client_id="somebody", address="198.51.100.1")
        assert self._first_has_begun.wait(MAX_WAIT_SECONDS)

    def _find_organization(self, headers: Mapping[str, str], request: TokenRequest) -> int | None:
        assert request.client_id is not None
        return self._organizations.get(request.client_id)

    def _check(self, name: str) -> None:
        self._begin_order.append(name)
        self._first_has_begun.set()
        assert self._go_on.wait(MAX_WAIT_SECONDS)

    def add(self, name: str, *, client_id: str, address: str = "192.0.2.1") -> None:
        """Let the threads check the password of a client at an address; the name is that of the check."""
        exchange = Exchange({}, "id", 0, 0, address=address)
        form = urlencode({**PASSWORD, "client_id": client_id}).encode()
        self._threads.of(exchange, form).submit(self._check, name)

    def finish(self) -> list[str]:
        """Let all checks run; return their names in the order in which they began, without the first."""
        # The organizations of all clients are found before the first check ends.
        self._lookups.close()
        self._go_on.set()
        self._threads.close()
        assert self._begin_order[0] == "first"
        return self._begin_order[1:]


def test_passwords_of_several_clients_of_an_organization_are_checked_alternately():
    requests = TokenRequests({"ana": 1, "ben": 1})
    for number in range(3):
        requests.add(f"ana {number}", client_id="ana", address="192.0.2.1")
    requests.add("ben", client_id="ben", address="192.0.2.1")
    requests.add("ana elsewhere", client_id="ana", address="192.0.2.2")
    # The same client at two addresses counts as two.
    assert requests.finish() == ["ana 0", "ben", "ana elsewhere", "ana 1", "ana 2"]


def test_an_organization_with_many_users_has_one_turn_like_one_with_a_single_user():
    many_users = [f"user {number}" for number in range(60)]
    requests = TokenRequests({**dict.fromkeys(many_users, 1), "ana": 2, "ben": 3})
    for client_id in many_users:
        requests.add(client_id, client_id=client_id)
    requests.add("ana", client_id="ana")
    requests.add("ben 0", client_id="ben")
    requests.add("ben 1", client_id="ben")
    assert requests.finish() == ["user 0", "ana", "ben 0", "user 1", "ben 1", *many_users[2:]]


def test_unknown_clients_of_an_address_have_one_turn():
    requests = TokenRequests({"ana": 1})
    for number in range(3):
        requests.add(f"unknown {number}", client_id=f"unknown {number}", address="192.0.2.1")
    requests.add("unknown elsewhere", client_id="unknown 0", address="192.0.2.2")
    requests.add("ana", client_id="ana", address="192.0.2.1")
    assert requests.finish() == ["unknown 0", "unknown elsewhere", "ana", "unknown 1", "unknown 2"]


@pytest.mark.parametrize(
    ("changed_fields", "is_found", "status"),
    [
        pytest.param({}, True, 401, id="a wrong secret of a client"),
        pytest.param({"organization_id": "0"}, False, 401, id="another organization"),
        pytest.param({"organization_id": "x"}, False, 400, id="no organization id"),
        pytest.param({"client_id": "nobody"}, False, 401, id="an unknown client"),
        pytest.param({"client_id": "a\x00b"}, False, 400, id="a text that PostgreSQL cannot store"),
        pytest.param({"client_id": ""}, False, 401, id="no client"),
    ],
)
def test_the_organization_of_a_client_is_found_before_the_secret_is_checked(
    api, organization, changed_fields, is_found, status
):
    find_organization = ClientOrganizations(api.engine)
    form = {"client_id": organization.defaults.client_id, "client_secret": "lsk_wrong", **changed_fields}
    fields = {name: text for name, text in form.items() if text}
    expected_organization_id = organization.id if is_found else None
    assert find_organization({}, token_request(fields)) == expected_organization_id
    form = {"grant_type": "client_credentials", **fields}
    api.surface().request("POST", "/oauth/token", form=form, expect=status)


def test_no_organization_is_found_while_the_database_does_not_respond():
    find_organization = ClientOrganizations(create_engine("postgresql+psycopg2://nobody@127.0.0.1:1/nothing"))
    assert find_organization({}, token_request(PASSWORD)) is None
