"""API keys of partners: made of 256 random bits, stored as hashes, looked up in every call."""

import hashlib
import secrets
from datetime import UTC, datetime

from sqlalchemy import Engine

from domain.partners import LAST_USE_INTERVAL, key_of, organization_of
from domain.problems import Unauthorized
from handlers.call import Caller, PartnerKey
from persistence import partners, transactions
from persistence.engine import autocommit
from persistence.partners import PARTNER_API_KEYS


def new_key(organization_id: int) -> str:
    """A new random API key of a partner, which begins with the id of the organization."""
    return key_of(organization_id, secrets.token_urlsafe(32))


def hash_of(key: str) -> bytes:
    """The stored form of a key. A fast hash does not reveal the key, since keys are random."""
    return hashlib.sha256(key.encode()).digest()


# The number of last characters that are stored of a key, so that people can distinguish keys.
HINT_LENGTH = 4


class KeyAuthenticator:
    """Turns an API key into a caller; a revoked key is invalid in the next call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = autocommit(engine)

    def __call__(self, key: str) -> Caller:
        """The caller of a valid key; raises Unauthorized. The use of a key is recorded at most once a minute."""
        organization_id = organization_of(key)
        if organization_id is None:
            raise Unauthorized("The API key is malformed.")
        api_key = transactions.read(
            self._engine,
            lambda db: PARTNER_API_KEYS.find_by(db, organization_id, key_hash=hash_of(key), revoked_at=None),
        )
        if api_key is None:
            raise Unauthorized("The API key is unknown or revoked.")
        now = datetime.now(UTC)
        if api_key.last_used_at is None or api_key.last_used_at <= now - LAST_USE_INTERVAL:
            # In a separate transaction, so that calls with one key do not wait for each other.
            transactions.read(self._engine, lambda db: partners.record_use(db, api_key, now))
        key_id = api_key.partner_api_key_id
        return Caller(
            subject=f"partner-api-key:{key_id}",
            organization_id=organization_id,
            roles=frozenset(),
            partner=PartnerKey(key_id, api_key.partner, api_key.name),
        )
