"""Token requests on the wire, which are forms (integration 2.10)."""

import base64
import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request for an access token (RFC 6749, section 4.4.2)."""

    client_id: str | None
    client_secret: str | None
    scope: str | None
    new_password: str | None
    organization_id: str | None


class TokenRequestBody:
    """The form of a token request, whose fields are named as inside; unknown ones are left out, as the RFC asks."""

    def load(self, body: Mapping[str, Any]) -> TokenRequest:
        """The request of a form that the document accepted."""
        return TokenRequest(**{field.name: body.get(field.name) for field in dataclasses.fields(TokenRequest)})


def decode_basic_credentials(authorization: str) -> tuple[str, str] | None:
    """Decode client id and secret of HTTP Basic; None for another scheme. Raises ValueError if they cannot be read."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    text = base64.b64decode(encoded.strip(), validate=True).decode()
    client_id, colon, secret = text.partition(":")
    # Form-encoded before they are joined, so that the id may hold a colon (RFC 6749, section 2.3.1).
    pair = unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict")
    if not colon or "\x00" in pair[0]:
        raise ValueError("no client id and secret")
    return pair
