"""The public keys of the external issuer, fetched from its JWK set (RFC 7517)."""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping

import jwt

from domain.problems import Unavailable

# How long keys are used before they are fetched again.
KEYS_SECONDS = 300.0
# How long a fetch may take, and how long a caller waits for another thread that fetches the keys.
FETCH_SECONDS = 3.0
# The least time between two attempts to fetch the keys.
RETRY_SECONDS = 30.0

_log = logging.getLogger("loyalty.security")


class IssuerKeys:
    """The keys of an issuer by their id.

    One thread at a time fetches the keys. After a failure the former keys stay valid, and no thread fetches them for
    `RETRY_SECONDS`, so that an issuer that does not respond delays few calls.
    """

    def __init__(self, fetch: Callable[[], Iterable[jwt.PyJWK]], now: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._now = now
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._fetched_at = self._tried_at = float("-inf")
        self._has_failed = False
        self._fetching = threading.Lock()

    @classmethod
    def at(cls, url: str) -> "IssuerKeys":
        """The keys of the JWK set at this URL."""
        return cls(jwt.PyJWKClient(url, cache_jwk_set=False, timeout=FETCH_SECONDS).get_signing_keys)

    def find(self, key_id: object) -> jwt.PyJWK:
        """The key with this id.

        Raises jwt.InvalidKeyError if the issuer has no such key, and Unavailable if the keys cannot be fetched now.
        """
        if not isinstance(key_id, str):
            raise jwt.InvalidKeyError("The token has no key id (kid).")
        key = self._keys.get(key_id)
        is_up_to_date = True
        if key is None or self._now() >= self._fetched_at + KEYS_SECONDS:
            # A caller whose key is present does not wait for another thread.
            is_up_to_date = self._refresh(0 if key is not None else FETCH_SECONDS)
            key = self._keys.get(key_id)
        if key is not None:
            return key
        if is_up_to_date:
            raise jwt.InvalidKeyError("The issuer has no key with this id.")
        seconds = max(1, math.ceil(max(0.0, self._tried_at + RETRY_SECONDS - self._now())))
        raise Unavailable("The keys of the issuer of the access token cannot be fetched now. Try again.", seconds)

    def _refresh(self, wait_seconds: float) -> bool:
        """Fetch the keys, unless the last attempt was within `RETRY_SECONDS`; after a failure the old keys remain.

        Returns False if the last attempt has failed, or another thread still fetches the keys after `wait_seconds`.
        """
        if not self._fetching.acquire(timeout=wait_seconds):
            return False
        try:
            if self._now() >= self._tried_at + RETRY_SECONDS:
                try:
                    self._keys = {key.key_id: key for key in self._fetch() if key.key_id is not None}
                    self._fetched_at, self._has_failed = self._now(), False
                except (jwt.PyJWTError, OSError, ValueError, RecursionError) as error:
                    self._has_failed = True
                    _log.warning("the keys of the external issuer cannot be fetched: %s", error)
                self._tried_at = self._now()
            return not self._has_failed
        finally:
            self._fetching.release()
