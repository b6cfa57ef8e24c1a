"""API keys of partners on the wire (integration 2.9)."""

from dataclasses import dataclass
from typing import Any

from domain.partners import PartnerApiKey
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyProperties:
    """The writable fields of a key: the partner whom it is for, and the organization's name for the partner."""

    partner: str
    name: str


KEY = Shape(PartnerApiKey)


def new_key(key_with_secret: tuple[PartnerApiKey, str]) -> dict[str, Any]:
    """The response with a new key: its record and its text, which no other response shows."""
    record, key = key_with_secret
    return {"partnerApiKey": KEY.dump(record), "apiKey": key}
