"""Signing in by OAuth 2.0 client credentials (RFC 6749, section 4.4), for API users and for people."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from domain.access import Grant, narrow_grant
from domain.users import PasswordChangeRequired
from handlers.call import Call, RequestContext
from handlers.services import passwords, tokens
from persistence import organizations, transactions, users
from persistence.engine import autocommit
from persistence.users import Credentials

# Every number of so many digits fits the 64-bit ids of the database.
_MAX_ID_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRequest:
    """A request for an access token (RFC 6749, section 4.4.2)."""

    client_id: str | None
    client_secret: str | None
    scope: str | None
    new_password: str | None
    organization_id: str | None


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """An access token with its lifetime in seconds, and the permissions that it has."""

    access_token: str
    lifetime: int
    scopes: Sequence[str]


class TokenRefused(Exception):
    """An error of RFC 6749, section 5.2; `problem_type` is set if it is also one of the product's problems."""

    def __init__(self, status: int, error: str, description: str, problem_type: str | None = None) -> None:
        super().__init__(description)
        self.status, self.error, self.description, self.problem_type = status, error, description, problem_type


@dataclass(frozen=True, slots=True)
class SignIn:
    """A user whose credentials were right; `new_hash` is the password hash to store if it changes, else None.

    `is_new_password` is False if `new_hash` is the hash of the same password with newer parameters.
    """

    user: Credentials
    new_hash: str | None = None
    is_new_password: bool = False


class ClientOrganizations:
    """Finds the organizations of the clients of token requests, before their credentials are checked."""

    def __init__(self, engine: Engine) -> None:
        self._read_engine = autocommit(engine)

    def __call__(self, headers: Mapping[str, str], body: TokenRequest) -> int | None:
        """The id of the organization for which the client requests a token; None if there is no such client.

        Also None if the database does not respond: the check of the credentials reports that.
        """
        try:
            client_id, _ = _credentials(headers, body)
            organization_id = _organization_id(body.organization_id)
            user = transactions.read(
                self._read_engine, lambda db: users.find_credentials(db, client_id, organization_id)
            )
        # psycopg2 raises ValueError for a text that PostgreSQL cannot store.
        except (TokenRefused, SQLAlchemyError, ValueError):
            return None
        return None if user is None else user.organization_id


def check_credentials(context: RequestContext) -> SignIn | TokenRefused:
    """Check the credentials of a token request and hash a new password.

    Hashing is slow, so this happens before the transaction of the call.
    """
    body: TokenRequest = context.body
    try:
        client_id, secret = _credentials(context.headers, body)
        organization_id = _organization_id(body.organization_id)
        user = context.read(lambda db: users.find_credentials(db, client_id, organization_id))
        if not passwords.matches(None if user is None else user.password_hash, secret) or user is None:
            raise _unknown_client()
        new_password = body.new_password
        if new_password is not None:
            _check_new_password(user, secret, new_password)
            return SignIn(user, passwords.hash_password(new_password), is_new_password=True)
        if passwords.is_outdated(user.password_hash):
            return SignIn(user, passwords.hash_password(secret))
        return SignIn(user)
    except TokenRefused as refusal:
        return refusal


def hashes_password(headers: Mapping[str, str], body: TokenRequest) -> bool:
    """True if `check_credentials` has to hash a password for this request, which is slow."""
    try:
        _, secret = _credentials(headers, body)
    except TokenRefused:
        return False
    return body.new_password is not None or not passwords.is_generated(secret)


def issue_token(call: Call, sign_in: SignIn, scope: str | None) -> IssuedToken:
    """Issue a token with all permissions of the user, or with the permissions in `scope`. Raises TokenRefused."""
    user = _find_user_again(call, sign_in)
    organization_and_rights = organizations.find_with_rights(call.db, user.organization_id, user.user_id)
    if organization_and_rights is None:
        raise _unknown_client()
    organization, rights = organization_and_rights
    if not rights.is_member:
        raise _unknown_client()
    grant = _narrow_to_scope(rights.grant, scope)
    generation = _store_sign_in(call, sign_in, user)
    claims = {
        "sub": user.auth_client_id,
        "userId": user.user_id,
        "organizationId": user.organization_id,
        "environment": organization.environment,
        "roles": sorted(grant.roles),
        "isAdmin": grant.is_admin,
        "isSystemAdmin": grant.is_system_admin,
        "tokenGeneration": generation,
    }
    lifetime = tokens.ACCESS_TOKEN_SECONDS
    return IssuedToken(tokens.issue(call.db, call.settings, claims, lifetime, call.now), lifetime, grant.scopes)


def _find_user_again(call: Call, sign_in: SignIn) -> Credentials:
    """Find the user of checked credentials; lock the user if the sign-in changes the record.

    Raises TokenRefused, also if the password has changed since the check.
    """
    checked_user = sign_in.user
    will_change = sign_in.new_hash is not None or checked_user.pending_provisioning
    user = users.find_credentials(call.db, checked_user.auth_client_id, checked_user.organization_id, lock=will_change)
    if user is None or user.user_id != checked_user.user_id or user.password_hash != checked_user.password_hash:
        raise _unknown_client()
    if user.password_is_temporary:
        if user.password_expires_at is not None and user.password_expires_at <= call.now:
            raise TokenRefused(
                401, "invalid_client", "The temporary password has expired; an administrator can reset it."
            )
        if not sign_in.is_new_password:
            description = "The password is temporary: send the one that is to replace it as new_password."
            raise TokenRefused(403, "invalid_grant", description, f"/problems/{PasswordChangeRequired.slug}")
    return user


def _store_sign_in(call: Call, sign_in: SignIn, user: Credentials) -> int:
    """Store a new password hash, and the first sign-in of a user. Returns the generation of the user's new tokens."""
    if sign_in.is_new_password and sign_in.new_hash is not None:
        users.set_password(call.db, user.user_id, sign_in.new_hash, temporary_until=None, now=call.now)
    elif sign_in.new_hash is not None:
        users.change_user(call.db, user.user_id, password_hash=sign_in.new_hash)
    if user.pending_provisioning:
        users.change_user(call.db, user.user_id, pending_provisioning=False, updated_at=call.now)
    # `user` was read before `set_password`, which has incremented the generation.
    return user.token_generation + sign_in.is_new_password


def _check_new_password(user: Credentials, secret: str, new_password: str) -> None:
    """Raise TokenRefused for a new password of an API user, for a weak one, and for the current password."""
    if user.is_api_user:
        raise TokenRefused(400, "invalid_request", "The secret of an API user is changed by resetUserPassword.")
    fault = passwords.password_fault(new_password, user)
    if new_password == secret:
        fault = "is the present password"
    if fault is not None:
        raise TokenRefused(400, "invalid_request", f"The new_password {fault}.")


def _unknown_client() -> TokenRefused:
    return TokenRefused(401, "invalid_client", "The client is unknown or its secret is wrong.")


def _organization_id(text: str | None) -> int | None:
    """The id in a request, None if it has none; raises TokenRefused."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MAX_ID_DIGITS):
        raise TokenRefused(
            400, "invalid_request", f"The organization_id is not a number of at most {_MAX_ID_DIGITS} digits."
        )
    return int(text)


def _credentials(headers: Mapping[str, str], body: TokenRequest) -> tuple[str, str]:
    """The client id and secret from HTTP Basic or from the form; raises TokenRefused, also if both have them.

    See RFC 6749, section 2.3.
    """
    try:
        basic_credentials = decode_basic_credentials(headers.get("authorization", ""))
    except ValueError:
        raise TokenRefused(401, "invalid_client", "The credentials of HTTP Basic cannot be read.") from None
    if basic_credentials is not None:
        client_id, _ = basic_credentials
        if body.client_secret is not None or body.client_id not in (None, client_id):
            raise TokenRefused(400, "invalid_request", "Send the credentials only by HTTP Basic or only in the form.")
        return basic_credentials
    if body.client_id is None or body.client_secret is None:
        raise TokenRefused(401, "invalid_client", "The request contains no client credentials.")
    return body.client_id, body.client_secret


def _narrow_to_scope(user_grant: Grant, scope: str | None) -> Grant:
    """The part of a user's grant that `scope` names, all of it if `scope` is None; raises TokenRefused."""
    grant = user_grant if scope is None else narrow_grant(user_grant, scope.split(" "))
    if grant is None:
        raise TokenRefused(400, "invalid_scope", "The scope asks for a role that the user does not have.")
    return grant


def decode_basic_credentials(authorization: str) -> tuple[str, str] | None:
    """Decode client id and secret of HTTP Basic; None for another scheme. Raises ValueError if they cannot be read."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    text = base64.b64decode(encoded.strip(), validate=True).decode()
    encoded_id, colon, encoded_secret = text.partition(":")
    # Both are form-encoded before they are joined, so that the id may contain a colon (RFC 6749, section 2.3.1).
    client_id, secret = unquote_plus(encoded_id, errors="strict"), unquote_plus(encoded_secret, errors="strict")
    if not colon or "\x00" in client_id:
        raise ValueError("no client id and secret")
    return client_id, secret
