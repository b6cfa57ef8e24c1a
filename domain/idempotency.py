"""Requests under a key: the same one is answered again, another one is refused."""

from domain.problems import KeyReused


def refuse_other_request(key: str | None, digest: bytes | None, before: bytes | None) -> None:
    """Refuse a request unless its digest is that of the request that was done `before` under its key.

    Raises KeyReused.
    """
    if digest != before:
        raise KeyReused(f"The key {key} was used for another request.")
