"""Requests with a key: a repeated request gets the first result, another request with the same key is refused."""

from collections.abc import Iterable
from typing import Generic, TypeVar

from domain.problems import KeyReused

Result = TypeVar("Result")


class ResultsByKey(Generic[Result]):
    """The results of requests by their keys: stored results, and those of the present unit of work.

    Each result has the digest of its request; the digest is None if the server itself caused the result.
    """

    def __init__(self, stored_results: Iterable[tuple[str, bytes | None, Result]] = ()) -> None:
        self._results: dict[str, tuple[bytes | None, Result]] = {}
        for key, digest, result in stored_results:
            self._results[key] = digest, result

    def __contains__(self, key: str) -> bool:
        return key in self._results

    def add(self, key: str, digest: bytes | None, result: Result) -> None:
        """Record the result of a request."""
        self._results[key] = digest, result

    def find(self, key: str | None, digest: bytes | None) -> Result | None:
        """The result of the request with this digest under a key, None if the key is new.

        Raises KeyReused if the key was used for a request with another digest.
        """
        if key is None or key not in self._results:
            return None
        used_digest, result = self._results[key]
        refuse_reuse(key, used_digest, digest)
        return result


def refuse_reuse(key: str | None, used_digest: bytes | None, digest: bytes | None) -> None:
    """Refuse a request whose key was used for a request with another digest; raises KeyReused."""
    if used_digest != digest:
        raise KeyReused(f"The key {key} was used for another request.")
