"""Token requests on the wire, which are forms, and their responses (integration 2.10)."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from handlers.call import Response
from handlers.services.sign_in import IssuedToken, TokenRefused, TokenRequest

_BASIC_CHALLENGE = ("WWW-Authenticate", 'Basic realm="loyalty"')
_NOT_STORED = ("Cache-Control", "no-store")


def token_request(body: Mapping[str, Any]) -> TokenRequest:
    """The request in a form, whose fields have the names of the code; ignores unknown fields (RFC 6749, 3.2)."""
    return TokenRequest(**{field.name: body.get(field.name) for field in dataclasses.fields(TokenRequest)})


def token_response(token: IssuedToken) -> Response:
    """The response with a token."""
    body = {
        "access_token": token.access_token,
        "token_type": "Bearer",
        "expires_in": token.lifetime,
        "scope": " ".join(token.scopes),
    }
    return Response(200, body, (_NOT_STORED,))


def refusal_response(refusal: TokenRefused) -> Response:
    """The error response, with a challenge if the client is unknown (401)."""
    body = {"error": refusal.error, "error_description": refusal.description}
    if refusal.problem_type is not None:
        body |= {"error_uri": refusal.problem_type, "type": refusal.problem_type}
    return Response(refusal.status, body, (_NOT_STORED, *((_BASIC_CHALLENGE,) if refusal.status == 401 else ())))
