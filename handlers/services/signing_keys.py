"""The keys that sign access tokens and offline allowances, and how an operator replaces them.

The key with the latest date signs; all keys verify. So a new key is published before it signs, with a date in the past.
"""

import secrets
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Connection

from persistence import organizations
from persistence.organizations import SigningKey

ALGORITHM = "ES256"
NOT_YET = datetime(2000, 1, 1, tzinfo=UTC)
"""The date of a key that has never signed."""


class KeyRefused(Exception):
    """A change of the keys that is not possible; the text is the reason."""


def find_or_add_signing_key(db: Connection, now: datetime) -> SigningKey:
    """Return the key that signs; create one if there is none."""
    keys = organizations.find_signing_keys(db)
    if not keys:
        organizations.lock_signing_keys(db)
        keys = organizations.find_signing_keys(db)
    return keys[0] if keys else _create_key(db, now)


def add_key(db: Connection, now: datetime) -> SigningKey:
    """Add a key that verifies and does not sign yet; the first one signs at once."""
    organizations.lock_signing_keys(db)
    return _create_key(db, NOT_YET if organizations.find_signing_keys(db) else now)


def let_sign(db: Connection, key_id: str, now: datetime) -> None:
    """Let a key sign everything from now on; raises KeyRefused for an unknown key."""
    newest_key = _lock_keys(db, [key_id])[0]
    # The clock of this machine may be behind the one that dated the newest key.
    if newest_key.key_id != key_id:
        organizations.date_signing_key(db, key_id, max(now, newest_key.created_at + timedelta(microseconds=1)))


def remove_keys(db: Connection, key_ids: Collection[str]) -> list[str]:
    """Remove keys, whose tokens are then not valid any more; return their ids.

    Raises KeyRefused for an unknown key, and for the key that signs.
    """
    newest_key = _lock_keys(db, key_ids)[0]
    if newest_key.key_id in key_ids:
        cure = "let another key sign first, or remove all keys"
        raise KeyRefused(f"the key {newest_key.key_id} signs the new tokens, so it cannot be removed: {cure}")
    return organizations.remove_signing_keys(db, key_ids)


def remove_all_keys(db: Connection) -> list[str]:
    """Remove all keys, and return their ids; the next token gets a new one."""
    return organizations.remove_signing_keys(db, [key.key_id for key in _lock_keys(db, required_ids=())])


def _lock_keys(db: Connection, required_ids: Collection[str]) -> list[SigningKey]:
    """Lock the keys for a change; return all of them, the newest first.

    Raises KeyRefused if any of the `required_ids` is not the id of a key.
    """
    organizations.lock_signing_keys(db)
    keys = organizations.find_signing_keys(db)
    for key_id in required_ids:
        if all(key.key_id != key_id for key in keys):
            raise KeyRefused(f"there is no key {key_id}; `loyalty keys list` lists the keys")
    return keys


def _create_key(db: Connection, date: datetime) -> SigningKey:
    """Store a new random key with this date; return it."""
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    key = SigningKey(secrets.token_hex(8), ALGORITHM, pem.decode(), date)
    organizations.add_signing_key(db, key)
    return key
