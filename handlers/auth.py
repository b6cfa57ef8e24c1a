"""Access tokens by OAuth 2.0 client credentials (RFC 6749, section 4.4), for API users and for people."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from domain.access import Grant, narrowed
from domain.users import PasswordChangeRequired
from handlers.call import Answer, Call, RequestContext
from handlers.operation import operation
from handlers.schemas.auth import TokenRequest, TokenRequestBody, decode_basic_credentials
from handlers.services import passwords, tokens
from persistence import organizations, users
from persistence.users import Credentials

_BASIC_CHALLENGE = ("WWW-Authenticate", 'Basic realm="loyalty"')
_NOT_STORED = ("Cache-Control", "no-store")
_LARGEST_ID_DIGITS = 18


class _Refused(Exception):
    """An error of RFC 6749, section 5.2; `problem_type` is set if it is also a problem of the product's own."""

    def __init__(self, status: int, error: str, description: str, problem_type: str | None = None) -> None:
        super().__init__(description)
        self.status, self.error, self.description, self.problem_type = status, error, description, problem_type

    def as_answer(self) -> Answer:
        """The error object, with a challenge if the client is not known."""
        body = {"error": self.error, "error_description": self.description}
        if self.problem_type is not None:
            body |= {"error_uri": self.problem_type, "type": self.problem_type}
        return Answer(self.status, body, (_NOT_STORED, *((_BASIC_CHALLENGE,) if self.status == 401 else ())))


@dataclass(frozen=True, slots=True)
class _SignIn:
    """A user whose credentials were right; `new_hash` is the password hash to store if it changes, else None.

    `is_changed` is True for a new password, False for the same one hashed with newer parameters.
    """

    user: Credentials
    new_hash: str | None = None
    is_changed: bool = False


def _sign_in(context: RequestContext) -> _SignIn | _Refused:
    """Check the credentials and hash a new password.

    Hashing is slow, so this happens before the transaction of the call.
    """
    body: TokenRequest = context.body
    try:
        client_id, secret = _credentials(context.headers, body)
        organization_id = _organization_id(body.organization_id)
        user = context.read(lambda db: users.find_credentials(db, client_id, organization_id))
        if not passwords.is_right(None if user is None else user.password_hash, secret) or user is None:
            raise _unknown_client()
        new_password = body.new_password
        if new_password is not None:
            _check_new_password(user, secret, new_password)
            return _SignIn(user, passwords.hash_password(new_password), is_changed=True)
        if passwords.is_outdated(user.password_hash):
            return _SignIn(user, passwords.hash_password(secret))
        return _SignIn(user)
    except _Refused as refused:
        return refused


@operation("createAccessToken", body=TokenRequestBody(), before_transaction=_sign_in)
def create_access_token(call: Call, hook_result: _SignIn | _Refused, body: TokenRequest) -> Answer:
    """Issue a token with all permissions of the user, or with those that `scope` names."""
    try:
        if isinstance(hook_result, _Refused):
            raise hook_result
        user = _still_right(call, hook_result)
        organization_and_rights = organizations.find_with_rights(call.db, user.organization_id, user.user_id)
        if organization_and_rights is None or not organization_and_rights[1].is_member:
            raise _unknown_client()
        grant = _narrowed(organization_and_rights[1].grant, body.scope)
        generation = _store(call, hook_result, user)
    except _Refused as refused:
        return refused.as_answer()
    claims = {
        "sub": user.auth_client_id,
        "userId": user.user_id,
        "organizationId": user.organization_id,
        "environment": organization_and_rights[0].environment,
        "roles": sorted(grant.roles),
        "isAdmin": grant.is_admin,
        "isSystemAdmin": grant.is_system_admin,
        "tokenGeneration": generation,
    }
    lifetime = tokens.ACCESS_TOKEN_SECONDS
    issued: dict[str, Any] = {
        "access_token": tokens.issue(call.db, call.settings, claims, lifetime, call.now),
        "token_type": "Bearer",
        "expires_in": lifetime,
        "scope": " ".join(grant.scopes),
    }
    return Answer(200, issued, (_NOT_STORED,))


def _still_right(call: Call, signed_in: _SignIn) -> Credentials:
    """The user as of now; the password may have changed since the credentials were checked. Raises _Refused."""
    seen = signed_in.user
    is_change = signed_in.new_hash is not None or seen.pending_provisioning
    user = users.find_credentials(call.db, seen.auth_client_id, seen.organization_id, lock=is_change)
    if user is None or user.user_id != seen.user_id or user.password_hash != seen.password_hash:
        raise _unknown_client()
    if user.password_is_temporary:
        if user.password_expires_at is not None and user.password_expires_at <= call.now:
            raise _Refused(401, "invalid_client", "The temporary password has expired.")
        if not signed_in.is_changed:
            description = "The password is temporary: send the one that is to replace it as new_password."
            raise _Refused(403, "invalid_grant", description, f"/problems/{PasswordChangeRequired.slug}")
    return user


def _store(call: Call, signed_in: _SignIn, user: Credentials) -> int:
    """Store a new password and the time of the sign-in. Returns the generation of the tokens from now on."""
    if signed_in.is_changed and signed_in.new_hash is not None:
        users.set_password(call.db, user.user_id, signed_in.new_hash, temporary_until=None, now=call.now)
    elif signed_in.new_hash is not None:
        users.change_user(call.db, user.user_id, password_hash=signed_in.new_hash)
    if user.pending_provisioning:
        users.change_user(call.db, user.user_id, pending_provisioning=False, updated_at=call.now)
    return user.token_generation + signed_in.is_changed


def _check_new_password(user: Credentials, secret: str, new_password: str) -> None:
    if user.is_api_user:
        raise _Refused(400, "invalid_request", "The secret of an API user is changed by resetUserPassword.")
    fault = passwords.password_fault(new_password, (user.name, user.email, user.user_name, user.auth_client_id))
    if new_password == secret:
        fault = "is the present password"
    if fault is not None:
        raise _Refused(400, "invalid_request", f"The new_password {fault}.")


def _unknown_client() -> _Refused:
    return _Refused(401, "invalid_client", "The client is unknown or its secret is wrong.")


def _organization_id(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LARGEST_ID_DIGITS):
        raise _Refused(400, "invalid_request", "The organization_id is no whole number.")
    return int(text)


def _credentials(headers: Mapping[str, str], body: TokenRequest) -> tuple[str, str]:
    """Client id and secret from HTTP Basic or from the form, but not from both (RFC 6749, section 2.3)."""
    try:
        basic = decode_basic_credentials(headers.get("authorization", ""))
    except ValueError:
        raise _Refused(401, "invalid_client", "The credentials of HTTP Basic cannot be read.") from None
    if basic is not None:
        if body.client_secret is not None or body.client_id not in (None, basic[0]):
            raise _Refused(400, "invalid_request", "The client authenticates in two ways at once.")
        return basic
    if body.client_id is None or body.client_secret is None:
        raise _Refused(401, "invalid_client", "The request holds no client credentials.")
    return body.client_id, body.client_secret


def _narrowed(held: Grant, scope: str | None) -> Grant:
    grant = held if scope is None else narrowed(held, scope.split(" "))
    if grant is None:
        raise _Refused(400, "invalid_scope", "The scope asks for a role that the user does not have.")
    return grant
