"""The threads of requests for access tokens: passwords are slow to check, so generated secrets do not wait for them."""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from handlers.http.exchange import Exchange
from handlers.http.request_plans import pairs_of
from handlers.http.threads import FairThreads
from handlers.http.throttle import client_id_of
from handlers.schemas.auth import token_request
from handlers.services.sign_in import TokenRequest, hashes_password

SECRET_THREADS = 1
PASSWORD_THREADS = 1
# A longer form has no credentials that could be right.
_MAX_FORM_BYTES = 16_384


FindOrganization = Callable[[Mapping[str, str], TokenRequest], int | None]
"""Finds the organization of the client of a token request, by its headers and body; None for an unknown client."""


def find_no_organization(_headers: Mapping[str, str], _body: TokenRequest) -> None:
    """Find no organization: the function of an application that knows no clients."""


class TokenThreads:
    """The threads for generated secrets and those for passwords; waiting requests begin in turns of organizations.

    So an organization with many users does not delay the users of others. The requests of an organization begin in
    turns, one of each client. A client is a client id at an address, so that guesses from other addresses do not delay
    the client. All unknown clients of an address share the turn of one organization.

    `find_organization` is called in a thread that `lookup_pool` returns for the request.
    """

    def __init__(
        self,
        lookup_pool: Callable[[Exchange], Executor],
        find_organization: FindOrganization = find_no_organization,
    ) -> None:
        self._lookup_pool = lookup_pool
        self._find_organization = find_organization
        self._secret_threads = FairThreads(SECRET_THREADS, "secret")
        self._password_threads = FairThreads(PASSWORD_THREADS, "password")

    def of(self, exchange: Exchange, form: bytes) -> Executor:
        """The executor of a token request."""
        fields: dict[str, str] = {}
        if len(form) <= _MAX_FORM_BYTES:
            # A field without a value counts as left out. A request with a repeated field is refused later.
            fields = {name: text for name, text in pairs_of(form, faults=[]) if text}
        body = token_request(fields)
        is_slow = len(form) > _MAX_FORM_BYTES or hashes_password(exchange.headers, body)
        threads = self._password_threads if is_slow else self._secret_threads
        client = (exchange.address, client_id_of(exchange.headers, fields))

        def find_executor() -> Executor:
            organization_id = self._find_organization(exchange.headers, body)
            return threads.of(exchange.address if organization_id is None else organization_id, client)

        return _LaterExecutor(self._lookup_pool(exchange), find_executor)

    def close(self) -> None:
        """Let running and waiting requests finish, then end the threads."""
        self._secret_threads.close()
        self._password_threads.close()


class _LaterExecutor(Executor):
    """Hands work to the executor that `find_executor` returns; it is called in a thread of `pool`."""

    def __init__(self, pool: Executor, find_executor: Callable[[], Executor]) -> None:
        self._pool = pool
        self._find_executor = find_executor

    def submit(self, do: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Have work done by an executor that is still being looked up; the result is the future of the work."""
        return self._pool.submit(self._hand_over, partial(do, *args, **kwargs))

    def _hand_over(self, do: Callable[[], Any]) -> Future[Any]:
        return self._find_executor().submit(do)
