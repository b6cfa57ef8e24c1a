"""API keys of partners on the wire (integration 2.9)."""

from dataclasses import dataclass
from typing import Any

from domain.partners import PartnerApiKey
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProperties:
    """The partner that a key is for, and the organization's name for it."""

    partner: str
    name: str


KEY = Shape(PartnerApiKey)


def new_key(key_with_secret: tuple[PartnerApiKey, str]) -> dict[str, Any]:
    """A new key, in the only response that ever shows it."""
    record, key = key_with_secret
    return {"partnerApiKey": KEY.dump(record), "apiKey": key}
