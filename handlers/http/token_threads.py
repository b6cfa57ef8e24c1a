"""The threads of requests for access tokens: passwords are slow to check, so generated secrets do not wait for them."""

from concurrent.futures import Executor

from handlers.http.exchange import Exchange
from handlers.http.request_plans import pairs_of
from handlers.http.threads import FairThreads
from handlers.http.throttle import client_id_of
from handlers.schemas.auth import token_request
from handlers.services.sign_in import hashes_password

SECRET_THREADS = 1
PASSWORD_THREADS = 1
# A longer form has no credentials that could be right.
_MAX_FORM_BYTES = 16_384


class TokenThreads:
    """The threads for generated secrets and those for passwords; waiting requests begin in turns, one of each client.

    A client is a client id at an address, so that guesses from other addresses do not delay the client.
    """

    def __init__(self) -> None:
        self._secret_threads = FairThreads(SECRET_THREADS, "secret")
        self._password_threads = FairThreads(PASSWORD_THREADS, "password")

    def of(self, exchange: Exchange, form: bytes) -> Executor:
        """The executor of a token request."""
        fields: dict[str, str] = {}
        if len(form) <= _MAX_FORM_BYTES:
            # A field without a value counts as left out. A request with a repeated field is refused later.
            fields = {name: text for name, text in pairs_of(form, []) if text}
        is_slow = len(form) > _MAX_FORM_BYTES or hashes_password(exchange.headers, token_request(fields))
        threads = self._password_threads if is_slow else self._secret_threads
        return threads.of((exchange.address, client_id_of(exchange.headers, fields)))

    def close(self) -> None:
        """Let running and waiting requests finish, then end the threads."""
        self._secret_threads.close()
        self._password_threads.close()
