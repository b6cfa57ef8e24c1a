"""Access tokens for API users: OAuth 2.0 client credentials (RFC 6749, section 4.4)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote_plus

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from domain.access import Grant, narrowed
from handlers import tokens
from handlers.call import Answer, Call
from handlers.operations import operation
from persistence import organizations
from persistence.organizations import ApiUser

_HASHER = PasswordHasher()
_BASIC_CHALLENGE = ("WWW-Authenticate", 'Basic realm="loyalty"')
_NOT_STORED = ("Cache-Control", "no-store")


class _Refused(Exception):
    """An error of RFC 6749, section 5.2."""

    def __init__(self, status: int, error: str, description: str) -> None:
        super().__init__(description)
        self.status, self.error, self.description = status, error, description


@operation("createAccessToken")
def create_access_token(call: Call, headers: Mapping[str, str], body: Mapping[str, Any]) -> Answer:
    """Issue a token with all that the API user may do, or with the part of it that `scope` names."""
    try:
        user = _authenticated(call, *_credentials(headers, body))
        grant = _grant(user, body.get("scope"))
    except _Refused as refused:
        challenge = (_BASIC_CHALLENGE,) if refused.status == 401 else ()
        answer = {"error": refused.error, "error_description": refused.description}
        return Answer(refused.status, answer, (_NOT_STORED, *challenge))
    claims = {
        "sub": user.auth_client_id,
        "userId": user.user_id,
        "organizationId": user.organization_id,
        "roles": sorted(grant.roles),
        "isAdmin": grant.is_admin,
        "isSystemAdmin": grant.is_system_admin,
    }
    lifetime = tokens.ACCESS_TOKEN_SECONDS
    issued: dict[str, Any] = {
        "access_token": tokens.issue(call.db, call.settings, claims, lifetime, call.now),
        "token_type": "Bearer",
        "expires_in": lifetime,
        "scope": " ".join(grant.scopes),
    }
    return Answer(200, issued, (_NOT_STORED,))


def _credentials(headers: Mapping[str, str], body: Mapping[str, Any]) -> tuple[str, str]:
    """Client id and secret from HTTP Basic or from the form, but not from both (RFC 6749, section 2.3)."""
    scheme, _, encoded = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "basic":
        client_id, secret = _basic(encoded.strip())
        if "client_secret" in body or body.get("client_id", client_id) != client_id:
            raise _Refused(400, "invalid_request", "The client authenticates in two ways at once.")
        return client_id, secret
    if "client_id" not in body or "client_secret" not in body:
        raise _Refused(401, "invalid_client", "The request holds no client credentials.")
    return body["client_id"], body["client_secret"]


def _basic(encoded: str) -> tuple[str, str]:
    try:
        text = base64.b64decode(encoded, validate=True).decode()
        client_id, colon, secret = text.partition(":")
        # Form-encoded before they are joined, so that the id may hold a colon (RFC 6749, section 2.3.1).
        pair = unquote_plus(client_id, errors="strict"), unquote_plus(secret, errors="strict")
    except (binascii.Error, ValueError):
        colon, pair = "", ("", "")
    if not colon or "\x00" in pair[0]:
        raise _Refused(401, "invalid_client", "The credentials of HTTP Basic cannot be read.")
    return pair


def _authenticated(call: Call, client_id: str, secret: str) -> ApiUser:
    """The active API user with these credentials; an unknown one takes as long as a wrong secret."""
    user = organizations.find_api_user(call.db, client_id)
    stored = _hash_of_nobody() if user is None else user.password_hash
    try:
        _HASHER.verify(stored, secret)
    except (VerificationError, InvalidHashError):
        user = None
    if user is None:
        raise _Refused(401, "invalid_client", "The client is unknown or its secret is wrong.")
    if _HASHER.check_needs_rehash(stored):
        organizations.change_password_hash(call.db, user.user_id, _HASHER.hash(secret))
    return user


@cache
def _hash_of_nobody() -> str:
    return _HASHER.hash("")


def _grant(user: ApiUser, scope: str | None) -> Grant:
    held = Grant(frozenset(user.roles), user.is_admin, user.is_system_admin)
    grant = held if scope is None else narrowed(held, scope.split(" "))
    if grant is None:
        raise _Refused(400, "invalid_scope", "The scope asks for a role that the client does not have.")
    return grant
