"""Secrets and signatures of messages, as the Standard Webhooks specification has them (scheme `v1`, HMAC-SHA256)."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

SECRET_PREFIX = "whsec_"
SECRET_BYTES = 32
_LEAST_BYTES, _MOST_BYTES = 24, 64


def secret_of(key: bytes) -> str:
    """The text of a secret, as configured at the receiver."""
    return SECRET_PREFIX + base64.b64encode(key).decode()


def key_of(secret: str) -> bytes:
    """The key that a secret encodes; raises ValueError for anything but a secret of 24 to 64 bytes."""
    try:
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError("is not Base64") from error
    if not secret.startswith(SECRET_PREFIX) or not _LEAST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"is not {SECRET_PREFIX} followed by {_LEAST_BYTES} to {_MOST_BYTES} bytes in Base64")
    return key


def signatures(secrets: Sequence[str], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`: one signature for each secret; `timestamp` is in seconds since 1970."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (hmac.new(key_of(secret), signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)
