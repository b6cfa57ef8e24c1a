"""Bearer tokens: JWTs signed by the server's own key, and those of one external issuer (semantics of RFC 7519)."""

import secrets
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.types import Options
from sqlalchemy import Connection, Engine

from domain.organizations import LIVE
from domain.problems import Unauthorized
from handlers.call import Caller
from handlers.services.issuer_keys import KEYS_SECONDS, IssuerKeys
from handlers.services.organizations.caller_rights import caller_with_user
from handlers.services.signing_keys import ALGORITHM, find_or_add_signing_key
from handlers.settings import Settings
from persistence import organizations, transactions
from persistence.engine import autocommit
from persistence.organizations import SigningKey

ACCESS_TOKEN_SECONDS = 3600
MEMBER_TOKEN_SECONDS = 900
_MAX_CACHED_TOKENS = 10_000
_CLOCK_LEEWAY_SECONDS = 5
# The last moment at which a cached token expires, in seconds since 1970: a `float` has all integers up to this one.
_LAST_SECOND = 2**53
_EXTERNAL_ALGORITHMS = ["RS256", "ES256", "PS256", "EdDSA"]
_REQUIRED: Options = {"require": ["exp", "sub"]}
# The checks of claims that are made even without the key.
_WITHOUT_SIGNATURE: Options = {
    **_REQUIRED,
    "verify_signature": False,
    "verify_exp": True,
    "verify_nbf": True,
    "verify_iat": True,
    "verify_aud": True,
    "verify_iss": True,
    "verify_sub": True,
    "verify_jti": True,
}


def issue(db: Connection, settings: Settings, claims: Mapping[str, Any], lifetime: int, now: datetime) -> str:
    """Sign a token with `claims` that expires `lifetime` seconds after `now`."""
    key = find_or_add_signing_key(db, now)
    return jwt.encode(
        {
            "iss": settings.token_issuer,
            "aud": settings.token_audience,
            "iat": int(now.timestamp()),
            "exp": int((now + timedelta(seconds=lifetime)).timestamp()),
            "jti": secrets.token_hex(8),
            **claims,
        },
        key.private_key,
        algorithm=key.algorithm,
        headers={"kid": key.key_id},
    )


def verified_claims(db: Connection, token: str, audience: str) -> Mapping[str, Any] | None:
    """The claims of a token, expired or not; None if no published key has signed it for the audience."""
    keys = {key.key_id: key for key in organizations.find_signing_keys(db)}
    try:
        key = keys[jwt.get_unverified_header(token)["kid"]]
        claims: Mapping[str, Any] = jwt.decode(
            token,
            _public_key(key),
            algorithms=[key.algorithm],
            audience=audience,
            options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
    except (jwt.PyJWTError, KeyError, TypeError, ValueError, RecursionError):
        return None
    return claims


def issue_operator_token(
    db: Connection,
    settings: Settings,
    *,
    organization_id: int,
    roles: frozenset[str],
    is_admin: bool,
    lifetime: int,
    now: datetime,
    is_system_admin: bool = False,
) -> str:
    """Sign a token for the command line, which belongs to no user and is valid until it expires."""
    organization = organizations.find(db, organization_id)
    claims = {
        "sub": "operator",
        "organizationId": organization_id,
        "environment": LIVE if organization is None else organization.environment,
        "roles": sorted(roles),
        "isAdmin": is_admin,
        "isSystemAdmin": is_system_admin,
    }
    return issue(db, settings, claims, lifetime, now)


def _public_key(key: SigningKey) -> ec.EllipticCurvePublicKey:
    private = serialization.load_pem_private_key(key.private_key.encode(), None)
    return cast(ec.EllipticCurvePrivateKey, private).public_key()


class Authenticator:
    """Turns a bearer token into a caller; verified tokens are cached until they expire."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine
        self._read_engine = autocommit(engine)
        self._keys: dict[str, jwt.PyJWK] = {}
        # The Unix time at which the token expires, and its caller.
        self._callers_by_token: dict[str, tuple[float, Caller]] = {}
        self._lock = threading.Lock()
        self._external = IssuerKeys.at(settings.external_jwks_url) if settings.external_jwks_url else None

    def __call__(self, token: str) -> Caller:
        """The caller of a valid token; raises Unauthorized, and Unavailable if the issuer's keys cannot be fetched."""
        earlier_caller = self.cached_caller(token)
        if earlier_caller is not None:
            return earlier_caller
        claims, is_external = self._claims(token)
        caller = _caller(claims, is_external)
        if is_external:
            caller = transactions.read(self._read_engine, lambda db: caller_with_user(db, caller))
        # A number of any size is valid, but not every number is a `float`.
        expires = float(min(int(claims["exp"]), _LAST_SECOND))
        if is_external:
            # The issuer may have removed the key by then.
            expires = min(expires, time.time() + KEYS_SECONDS)
        with self._lock:
            if len(self._callers_by_token) >= _MAX_CACHED_TOKENS:
                # Tokens that are still in use are verified again.
                self._callers_by_token.clear()
            self._callers_by_token[token] = (expires, caller)
        return caller

    def cached_caller(self, token: str) -> Caller | None:
        """The caller of a token that was verified before and has not expired, else None; never looks anything up."""
        expires, caller = self._callers_by_token.get(token, (0.0, None))
        return caller if expires > time.time() else None

    def jwks(self) -> dict[str, Any]:
        """The JWK set (RFC 7517) that verifies the server's own tokens."""
        self._load_keys()
        return {"keys": [_public_jwk(key_id, key) for key_id, key in self._keys.items()]}

    def _claims(self, token: str) -> tuple[dict[str, Any], bool]:
        """The verified claims of a token, and True if it is a token of the external issuer."""
        settings = self._settings
        try:
            header = jwt.get_unverified_header(token)
            issuer = jwt.decode(token, options={"verify_signature": False}).get("iss")
            if self._external is not None and issuer == settings.external_issuer:
                is_external, algorithms = True, _EXTERNAL_ALGORITHMS
                audience = settings.external_audience or settings.token_audience
                _check_before_fetching_keys(token, header, audience, issuer)
                key: Any = self._external.find(header.get("kid"))
            else:
                is_external = False
                algorithms = [ALGORITHM]
                issuer, audience = settings.token_issuer, settings.token_audience
                key = self._own_key(header.get("kid"))
            claims = _decode(token, audience, issuer, _REQUIRED, key=key, algorithms=algorithms)
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError) as error:
            raise Unauthorized("The access token is not valid or has expired.") from error
        return claims, is_external

    def _own_key(self, key_id: Any) -> jwt.PyJWK:
        """The key of this server with the id that a token names; raises InvalidKeyError if there is none."""
        if not isinstance(key_id, str) or key_id not in self._keys:
            self._load_keys()
        try:
            return self._keys[key_id]
        except (KeyError, TypeError):
            raise jwt.InvalidKeyError("unknown key") from None

    def _load_keys(self) -> None:
        """Load the present keys of this server; create the first key if there is none."""

        def load(db: Connection) -> None:
            find_or_add_signing_key(db, datetime.now(UTC))
            for key in organizations.find_signing_keys(db):
                numbers = jwt.algorithms.ECAlgorithm.to_jwk(_public_key(key), as_dict=True)
                self._keys[key.key_id] = jwt.PyJWK({**numbers, "alg": key.algorithm})

        transactions.run(self._engine, load)


def _check_before_fetching_keys(token: str, header: Mapping[str, Any], audience: str, issuer: str) -> None:
    """Refuse a token of the external issuer that no key could make valid; raises PyJWTError."""
    if header.get("alg") not in _EXTERNAL_ALGORITHMS:
        raise jwt.InvalidAlgorithmError("The algorithm of the token is not accepted.")
    _decode(token, audience, issuer, _WITHOUT_SIGNATURE)


def _decode(token: str, audience: str, issuer: str, options: Options, **more: Any) -> dict[str, Any]:
    """The claims of a token that passes the checks of `options`; `more` has the key and its algorithms."""
    return jwt.decode(token, audience=audience, issuer=issuer, leeway=_CLOCK_LEEWAY_SECONDS, options=options, **more)


def _public_jwk(key_id: str, key: jwt.PyJWK) -> dict[str, Any]:
    return {**jwt.algorithms.ECAlgorithm.to_jwk(key.key, as_dict=True), "kid": key_id, "use": "sig", "alg": ALGORITHM}


def _caller(claims: Mapping[str, Any], is_external: bool) -> Caller:
    """The caller of verified claims, without a user id from the tokens of the external issuer."""
    roles = claims.get("roles") or []
    organization_id = claims.get("organizationId")
    user_id = None if is_external else claims.get("userId")
    member = claims.get("loyaltyMemberId")
    token_id = claims.get("jti")
    generation = claims.get("tokenGeneration", 1)
    ids = [claim for claim in (organization_id, user_id) if claim is not None]
    are_valid = (
        isinstance(roles, list)
        and all(map(_is_id, [*ids, generation]))
        and isinstance(member, str | None)
        and _is_text(claims["sub"])
    )
    if not are_valid:
        raise Unauthorized("The access token has claims of the wrong type.")
    return Caller(
        subject=claims["sub"],
        organization_id=organization_id,
        roles=frozenset(str(role) for role in roles),
        is_admin=claims.get("isAdmin") is True,
        is_system_admin=claims.get("isSystemAdmin") is True,
        user_id=user_id,
        loyalty_member_id=member,
        token_id=token_id if isinstance(token_id, str) else None,
        is_external=is_external,
        token_generation=generation,
    )


def _is_id(value: Any) -> bool:
    """True for an integer that fits the database; a boolean is an `int` to Python, but no id."""
    return type(value) is int and 0 < value < 2**63


def _is_text(value: Any) -> bool:
    """True for a text that fits the database."""
    try:
        return isinstance(value, str) and b"\x00" not in value.encode()
    except UnicodeEncodeError:
        return False
