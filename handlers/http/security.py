"""Bearer tokens with scopes, and partners' API keys: the only place that enforces `security` in OpenAPI documents."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from connexion.lifecycle import ConnexionRequest
from connexion.security import NO_VALUE, SECURITY_HANDLERS

from domain.problems import Forbidden, Unauthorized
from handlers.call import Caller
from handlers.http.exchange import Exchange, exchange_of
from handlers.http.problems import KEY_CHALLENGE, REALM, CredentialsProblem
from handlers.messages.validation import DocumentError
from persistence.transactions import TransactionDeadline

MEMBER_SCOPE = "member"

_INSUFFICIENT_SCOPE = f'Bearer realm="{REALM}", error="insufficient_scope"'

Authenticate = Callable[[str], Caller]


def security_map(
    authenticate: Authenticate,
    authenticate_key: Authenticate,
    pool: Callable[[Exchange], Executor],
    request_seconds: float,
) -> Mapping[str, Any]:
    """The handlers of security schemes by type, for connexion; `request_seconds` is the time limit of a request.

    `pool` returns the threads that verify the credentials of a request.
    """
    return {
        **SECURITY_HANDLERS,
        "oauth2": lambda: TokenHandler(Authentication(authenticate, pool, request_seconds)),
        "bearer": BearerHandler,
        "apiKey": lambda: KeyHandler(Authentication(authenticate_key, pool, request_seconds)),
    }


def refuse_every_key(_key: str) -> Caller:
    """The authenticator of an application that knows no API keys; raises Unauthorized."""
    raise Unauthorized("The API key is not valid.")


class Authentication:
    """Finds the callers with given credentials, in threads of a pool, and in the time that their requests have left."""

    def __init__(
        self, authenticate: Authenticate, pool: Callable[[Exchange], Executor], request_seconds: float
    ) -> None:
        self._authenticate = authenticate
        self._pool = pool
        self._request_seconds = request_seconds
        # The caller of a cached token (None if it is not cached), without a change of threads.
        self.cached_caller: Callable[[str], Caller | None] = getattr(authenticate, "cached_caller", lambda token: None)

    async def find_caller(self, exchange: Exchange, credentials: str) -> Caller:
        """The caller with these credentials; raises Unauthorized, and TransactionDeadlineExceeded."""
        deadline = TransactionDeadline()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(exchange.seconds_left(self._request_seconds), deadline.expire)
        try:
            return await loop.run_in_executor(self._pool(exchange), self._find_caller, deadline, credentials)
        finally:
            timer.cancel()

    def _find_caller(self, deadline: TransactionDeadline, credentials: str) -> Caller:
        with deadline.of_thread():
            return self._authenticate(credentials)


class TokenHandler:
    """Checks `Authorization: Bearer` for operations secured by an `oauth2` scheme."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    def get_fn(self, _scheme: Mapping[str, Any], scopes: list[str]) -> Callable[[ConnexionRequest], Any]:
        """The check of one operation's requirement; connexion calls it for every request."""
        required_scopes = tuple(scopes)

        async def check(request: ConnexionRequest) -> Any:
            exchange = exchange_of(request.scope)
            kind, _, token = exchange.headers.get("authorization", "").partition(" ")
            if kind.lower() != "bearer":
                return NO_VALUE
            if exchange.caller is None:
                exchange.caller = await self._caller(exchange, token.strip())
            if required_scopes == (MEMBER_SCOPE,) and exchange.caller.loyalty_member_id is None:
                # An operation for members lists a second requirement, a role, which decides about all other callers.
                return NO_VALUE
            _require(exchange.caller, required_scopes)
            return {"sub": exchange.caller.subject}

        return check

    async def _caller(self, exchange: Exchange, token: str) -> Caller:
        """The caller with this token; raises CredentialsProblem."""
        caller = self._authentication.cached_caller(token)
        if caller is not None:
            return caller
        try:
            if not token or not token.isascii() or any(c in token for c in " ,"):
                raise Unauthorized("The access token is malformed.")
            return await self._authentication.find_caller(exchange, token)
        except Unauthorized as refusal:
            challenge = f'Bearer realm="{REALM}", error="invalid_token"'
            raise CredentialsProblem(refusal, challenge) from None


class BearerHandler:
    """An `http` `bearer` scheme: it describes the token of `oauth2` for clients that do not know OAuth.

    It never authorizes a caller, since such a scheme has no roles in OpenAPI 3.0. Every operation also has an `oauth2`
    requirement, which decides about the same header; an operation without one would refuse all calls.
    """

    def get_fn(self, _scheme: Mapping[str, Any], _scopes: list[str]) -> Callable[[ConnexionRequest], Any]:
        """The check of one operation's requirement: always undecided."""

        async def check(_request: ConnexionRequest) -> Any:
            return NO_VALUE

        return check


class KeyHandler:
    """Checks the header of an `apiKey` scheme; the key must belong to the partner that `x-partner` names."""

    def __init__(self, authentication: Authentication) -> None:
        self._authentication = authentication

    def get_fn(self, scheme: Mapping[str, Any], _scopes: list[str]) -> Callable[[ConnexionRequest], Any]:
        """The check of one operation's requirement; raises DocumentError for a scheme that is not served."""
        if scheme.get("in") != "header" or "x-partner" not in scheme:
            raise DocumentError("a security scheme of type apiKey needs `in: header` and x-partner")
        header = scheme["name"].lower()
        partner = scheme["x-partner"]

        async def check(request: ConnexionRequest) -> Any:
            exchange = exchange_of(request.scope)
            key = exchange.headers.get(header)
            if not key:
                refusal = Unauthorized(f"The request has no API key; it belongs in the header {header}.")
                raise CredentialsProblem(refusal, KEY_CHALLENGE)
            try:
                caller = await self._authentication.find_caller(exchange, key)
            except Unauthorized as refusal:
                raise CredentialsProblem(refusal, KEY_CHALLENGE) from None
            if caller.partner is None or caller.partner.partner != partner:
                raise CredentialsProblem(Forbidden("The API key belongs to another partner."), KEY_CHALLENGE)
            exchange.caller = caller
            return {"sub": caller.subject}

        return check


def _require(caller: Caller, required: tuple[str, ...]) -> None:
    """Raise CredentialsProblem if the caller lacks a required scope, or if a member calls an operation for users."""
    missing_scopes = [scope for scope in required if not caller.holds(scope)]
    if missing_scopes:
        refusal = Forbidden(f"The access token lacks: {', '.join(missing_scopes)}.")
        raise CredentialsProblem(refusal, f'{_INSUFFICIENT_SCOPE}, scope="{" ".join(required)}"')
    # A member's token is only for operations for members; it does not suffice for other operations without a role.
    if caller.loyalty_member_id is not None and MEMBER_SCOPE not in required:
        refusal = Forbidden("The access token is a member's. The operation needs the token of a user.")
        raise CredentialsProblem(refusal, _INSUFFICIENT_SCOPE)
