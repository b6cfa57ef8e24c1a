"""The keys of the external issuer: when they are fetched again, and an issuer that does not respond."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import jwt
import pytest

from domain.problems import Unavailable
from handlers.services import issuer_keys
from handlers.services.issuer_keys import KEYS_SECONDS, RETRY_SECONDS, IssuerKeys


@dataclass
class Issuer:
    """An issuer with keys of these ids, which fails if `error` is set; `seconds` is the time."""

    ids: list[str]
    error: Exception | None = None
    fetches: int = 0
    seconds: float = 0.0
    keys: IssuerKeys = field(init=False)

    def __post_init__(self) -> None:
        self.keys = IssuerKeys(self._fetch, lambda: self.seconds)

    def _fetch(self) -> list[jwt.PyJWK]:
        self.fetches += 1
        if self.error is not None:
            raise self.error
        return [jwt.PyJWK({"kty": "oct", "k": "AAAA", "alg": "HS256", "kid": key_id}) for key_id in self.ids]

    def accepts(self, key_id: object) -> bool:
        """True if a token with this key is accepted; looking for the key may fetch the keys again."""
        try:
            return self.keys.find(key_id).key_id == key_id
        except jwt.PyJWTError:
            return False

    def retry_seconds(self, key_id: object) -> int:
        """The seconds after which a caller with this key should try again, because the keys cannot be fetched."""
        with pytest.raises(Unavailable) as refusal:
            self.keys.find(key_id)
        return refusal.value.retry_seconds


def test_a_removed_key_is_refused_after_five_minutes():
    issuer = Issuer(["one"])
    assert issuer.accepts("one")
    issuer.ids, issuer.seconds = ["two"], KEYS_SECONDS - 1
    assert issuer.accepts("one")
    issuer.seconds = KEYS_SECONDS
    assert not issuer.accepts("one")
    assert issuer.accepts("two")
    assert issuer.fetches == 2


def test_unknown_keys_are_looked_for_at_most_once_in_thirty_seconds():
    issuer = Issuer(["one"])
    # An id that is no text cannot be that of a key, so that the keys are not even fetched.
    assert not issuer.accepts(None)
    assert not issuer.accepts(7)
    assert issuer.fetches == 0
    assert not issuer.accepts("unknown")
    assert issuer.accepts("one")
    assert issuer.fetches == 1
    issuer.ids, issuer.seconds = ["one", "two"], RETRY_SECONDS
    assert issuer.accepts("two")
    assert issuer.fetches == 2


@pytest.mark.parametrize("error", [jwt.PyJWKClientError("no keys"), ConnectionResetError(), ValueError()])
def test_the_former_keys_stay_valid_while_the_issuer_fails(error):
    issuer = Issuer(["one"])
    assert issuer.accepts("one")
    # The keys are fetched again, in vain.
    issuer.error, issuer.seconds = error, KEYS_SECONDS
    assert issuer.accepts("one")
    assert issuer.retry_seconds("two") == RETRY_SECONDS == 30
    assert issuer.fetches == 2
    issuer.error, issuer.ids, issuer.seconds = None, ["two"], KEYS_SECONDS + RETRY_SECONDS
    assert not issuer.accepts("one")
    assert issuer.accepts("two")
    assert issuer.fetches == 3


def test_an_unknown_key_is_refused_only_if_the_last_fetch_succeeded():
    issuer = Issuer(["one"], error=TimeoutError())
    assert issuer.retry_seconds("one") == RETRY_SECONDS == 30
    # Half a second before the next fetch, which is rounded up.
    issuer.error, issuer.seconds = None, RETRY_SECONDS - 0.5
    assert issuer.retry_seconds("one") == 1
    assert issuer.fetches == 1
    # A fetch that succeeds.
    issuer.seconds = RETRY_SECONDS
    assert issuer.accepts("one")
    assert not issuer.accepts("two")
    assert issuer.fetches == 2
    # A fetch that fails.
    issuer.error, issuer.seconds = TimeoutError(), 2 * RETRY_SECONDS
    assert issuer.retry_seconds("two") == RETRY_SECONDS
    assert issuer.accepts("one")
    assert issuer.fetches == 3


@contextmanager
def issuer_url(serve=None) -> Iterator[str]:
    """The URL of an issuer that does `serve` with its first connection, or never responds."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if serve is not None:
            threading.Thread(target=lambda: serve(server.accept()[0]), daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/jwks.json"


def test_simultaneous_callers_ask_a_silent_issuer_once():
    attempts, refusals = [], []

    def fetch() -> list[jwt.PyJWK]:
        attempts.append(True)
        time.sleep(0.2)
        raise jwt.PyJWKClientConnectionError("no response")

    keys = IssuerKeys(fetch)

    def call() -> None:
        with pytest.raises(Unavailable):
            keys.find("one")
        refusals.append(True)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(refusals), len(attempts)) == (8, 1)


@pytest.mark.slow
def test_a_call_is_refused_as_unavailable_if_the_issuer_does_not_respond_in_time(monkeypatch):
    monkeypatch.setattr(issuer_keys, "FETCH_SECONDS", 0.3)
    begin = time.monotonic()
    with issuer_url(serve=None) as url, pytest.raises(Unavailable):
        IssuerKeys.at(url).find("one")
    assert 0.3 <= time.monotonic() - begin < 10


def test_a_connection_that_the_issuer_resets_is_a_failed_fetch():
    def reset(connection: socket.socket) -> None:
        connection.recv(10_000)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n{")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    with issuer_url(reset) as url, pytest.raises(Unavailable):
        IssuerKeys.at(url).find("one")
