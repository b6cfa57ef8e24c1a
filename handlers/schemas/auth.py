"""Token requests on the wire, which are forms (integration 2.10)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


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
