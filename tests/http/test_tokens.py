"""Access tokens: claims, expiry, signatures, keys and trusted issuers."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from domain.problems import Unauthorized, Unavailable
from handlers.services import signing_keys, tokens
from handlers.services.signing_keys import KeyRefused
from handlers.services.tokens import Authenticator
from persistence import transactions
from tests.builders.api import running_api
from tests.builders.users import Users

CLAIMS = {"sub": "till-4", "organizationId": 7, "roles": ["members:read"], "isAdmin": False}


@pytest.fixture
def authenticator(settings, engine):
    return Authenticator(settings, engine)


@pytest.fixture
def issue(settings, engine):
    """A function that issues a token of the server, by default of `CLAIMS` and for an hour."""

    def issue(claims=CLAIMS, *, lifetime=3600, now=None, **changes):
        changed_settings = replace(settings, **changes)
        moment = now or datetime.now(UTC)
        return transactions.run(engine, lambda db: tokens.issue(db, changed_settings, claims, lifetime, moment))

    return issue


def expect_refusal(authenticator, token):
    """Assert that the authenticator refuses the token."""
    with pytest.raises(Unauthorized):
        authenticator(token)


def claims_now(**changes):
    """The claims of a token that the server issues now for a minute."""
    now = int(time.time())
    return {**CLAIMS, "iss": "loyalty-server", "aud": "loyalty-server", "iat": now, "exp": now + 60, **changes}


def test_a_token_of_the_server_identifies_its_caller(authenticator, issue):
    caller = authenticator(issue({**CLAIMS, "userId": 3, "isAdmin": True, "isSystemAdmin": True}))
    assert (caller.subject, caller.organization_id, caller.user_id) == ("till-4", 7, 3)
    assert caller.roles == {"members:read"}
    assert (caller.is_admin, caller.is_system_admin) == (True, True)
    assert caller.loyalty_member_id is None


def test_a_token_with_only_a_subject_grants_nothing(authenticator, issue):
    caller = authenticator(issue({"sub": "x"}))
    assert (caller.organization_id, caller.user_id, caller.roles) == (None, None, frozenset())
    assert not caller.is_admin
    assert not caller.is_system_admin
    # Only the JSON value true counts.
    assert not authenticator(issue({"sub": "x", "isAdmin": "true", "isSystemAdmin": 1})).is_admin


@pytest.mark.parametrize(
    "claims",
    [
        {"sub": "x", "roles": "members:read"},
        {"sub": "x", "organizationId": "7"},
        {"sub": "x", "userId": "3"},
        {"sub": "x", "loyaltyMemberId": 7},
        {"sub": "x", "organizationId": True},
        {"sub": "x", "organizationId": 0},
        {"sub": "x", "organizationId": 2**63},
        {"sub": "x", "organizationId": 7.0},
        {"sub": "x", "userId": True},
        {"sub": "x", "userId": -1},
        {"sub": "x", "tokenGeneration": "1"},
        {"sub": "x\u0000"},
        {"sub": "x\ud800"},
        {},
    ],
)
def test_claims_of_the_wrong_type_are_refused(authenticator, issue, claims):
    expect_refusal(authenticator, issue(claims))


def test_an_expired_token_is_refused(authenticator, issue):
    # The lifetime is an hour.
    expect_refusal(authenticator, issue(lifetime=3600, now=datetime.now(UTC) - timedelta(hours=2)))


def test_an_expired_token_is_no_longer_cached(authenticator, issue, monkeypatch):
    token = issue(lifetime=60)
    caller = authenticator(token)
    assert authenticator.cached_caller(token) == caller
    in_two_minutes = time.time() + 120
    monkeypatch.setattr(tokens.time, "time", lambda: in_two_minutes)
    assert authenticator.cached_caller(token) is None


def test_a_token_with_the_wrong_issuer_or_audience_is_refused(authenticator, issue):
    expect_refusal(authenticator, issue(token_audience="another"))
    expect_refusal(authenticator, issue(token_issuer="another"))


def test_a_token_of_another_key_is_refused(authenticator, issue):
    server_key_id = jwt.get_unverified_header(issue())["kid"]
    foreign_key = ec.generate_private_key(ec.SECP256R1())
    for key_id in (server_key_id, "another"):
        expect_refusal(authenticator, jwt.encode(claims_now(), foreign_key, "ES256", headers={"kid": key_id}))
    expect_refusal(authenticator, jwt.encode(claims_now(), foreign_key, "ES256"))
    expect_refusal(authenticator, jwt.encode(claims_now(), foreign_key, "ES256", headers={"kid": ""}))


def test_tokens_without_a_valid_signature_are_refused(authenticator, issue):
    valid_token = issue()
    key_id = jwt.get_unverified_header(valid_token)["kid"]
    expect_refusal(authenticator, jwt.encode(claims_now(), "", "none", headers={"kid": key_id}))
    key_record = authenticator.jwks()["keys"][0]
    del key_record["use"]
    public_key = jwt.PyJWK(key_record).key
    pem = public_key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    # The public key as a shared secret; without these changes PyJWT refuses to sign with it.
    secret = b"x" + pem.replace(b"PUBLIC", b"SHARED")
    expect_refusal(authenticator, jwt.encode(claims_now(), secret, "HS256", headers={"kid": key_id}))
    head, body, signature = valid_token.split(".")
    expect_refusal(authenticator, f"{head}.{body}.")
    expect_refusal(authenticator, f"{head}.{body[:-2]}AA.{signature}")
    for malformed_token in ("", ".", "..", "a.b.c", "é", valid_token + "x"):
        expect_refusal(authenticator, malformed_token)


def test_a_token_needs_an_expiry_and_a_subject(authenticator, issue, engine):
    key = transactions.run(engine, lambda db: signing_keys.find_or_add_signing_key(db, datetime.now(UTC)))
    for claim in ("exp", "sub"):
        claims = claims_now()
        del claims[claim]
        expect_refusal(authenticator, jwt.encode(claims, key.private_key, "ES256", headers={"kid": key.key_id}))


def test_the_key_set_verifies_the_servers_tokens(authenticator, issue, settings):
    token = issue()
    key_id = jwt.get_unverified_header(token)["kid"]
    [key] = [key for key in authenticator.jwks()["keys"] if key["kid"] == key_id]
    # d is the private part.
    assert "d" not in key
    assert (key["use"], key["alg"], key["kty"]) == ("sig", "ES256", "EC")
    claims = jwt.decode(token, jwt.PyJWK(key), audience=settings.token_audience, issuer=settings.token_issuer)
    assert claims["sub"] == "till-4"


def test_a_signing_key_is_replaced_while_the_tokens_of_both_keys_are_valid(settings, engine):
    with engine.connect() as db:

        def issue_token():
            """(token, id of the key that has signed it)."""
            token = tokens.issue(db, settings, CLAIMS, 3600, datetime.now(UTC))
            return token, jwt.get_unverified_header(token)["kid"]

        def is_valid(token):
            return tokens.verified_claims(db, token, settings.token_audience) is not None

        signing_keys.remove_all_keys(db)
        old_token, old_key = issue_token()
        new_key = signing_keys.add_key(db, datetime.now(UTC)).key_id
        # The new key does not sign yet.
        _, signing_key = issue_token()
        assert signing_key == old_key
        with pytest.raises(KeyRefused, match=f"the key {old_key} signs the new tokens, so it cannot be removed"):
            signing_keys.remove_keys(db, {old_key})
        # A clock that is behind does not matter.
        signing_keys.let_sign(db, new_key, datetime.now(UTC) - timedelta(hours=1))
        new_token, signing_key = issue_token()
        assert signing_key == new_key
        assert (is_valid(old_token), is_valid(new_token)) == (True, True)
        signing_keys.remove_keys(db, {old_key})
        assert (is_valid(old_token), is_valid(new_token)) == (False, True)
        for change in (
            lambda: signing_keys.remove_keys(db, {old_key}),
            lambda: signing_keys.let_sign(db, old_key, datetime.now(UTC)),
        ):
            with pytest.raises(KeyRefused, match=f"there is no key {old_key}"):
                change()
        signing_keys.remove_all_keys(db)
        assert not is_valid(new_token)
        # The only key signs.
        only_key = signing_keys.add_key(db, datetime.now(UTC)).key_id
        _, signing_key = issue_token()
        assert signing_key == only_key


def test_another_process_accepts_a_key_that_was_created_later(settings, engine, issue):
    authenticator_of_another_process = Authenticator(settings, engine)
    # Load the keys before the first token is issued.
    authenticator_of_another_process.jwks()
    assert authenticator_of_another_process(issue()).subject == "till-4"


class Issuer:
    """A foreign token service: a key and a JWK set served over HTTP."""

    name = "https://issuer.example"

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.fetches = 0
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.fetches += 1
                public = jwt.algorithms.RSAAlgorithm.to_jwk(issuer.key.public_key(), as_dict=True)
                body = json.dumps({"keys": [{**public, "kid": "k1", "use": "sig", "alg": "RS256"}]}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/jwks.json"

    def token(self, *, key=None, key_id="k1", **claims):
        """A token of the issuer for till-4 of organization 7, valid for a minute, unless `claims` has others."""
        return jwt.encode(claims_now(**{"iss": self.name, **claims}), key or self.key, "RS256", headers={"kid": key_id})


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    issuer = Issuer()
    yield issuer
    issuer.server.shutdown()
    issuer.server.server_close()


@pytest.fixture
def make_trusting_authenticator(settings, engine, issuer):
    """A function that creates an authenticator that trusts the issuer; `audience` is that of its tokens."""

    def make(audience=""):
        with_issuer = replace(
            settings, external_issuer=issuer.name, external_jwks_url=issuer.url, external_audience=audience
        )
        return Authenticator(with_issuer, engine)

    return make


def test_tokens_of_a_trusted_issuer_are_accepted(make_trusting_authenticator, authenticator, issuer, issue):
    token = issuer.token(isAdmin=True)
    caller = make_trusting_authenticator()(token)
    assert (caller.subject, caller.organization_id, caller.is_admin) == ("till-4", 7, True)
    # The server's own tokens stay valid; a server that does not trust the issuer refuses its tokens.
    assert make_trusting_authenticator()(issue()).subject == "till-4"
    expect_refusal(authenticator, token)


def test_tokens_of_the_trusted_issuer_need_its_audience(make_trusting_authenticator, issuer):
    assert make_trusting_authenticator(audience="our-api")(issuer.token(aud="our-api")).subject == "till-4"
    expect_refusal(make_trusting_authenticator(audience="our-api"), issuer.token())
    expect_refusal(make_trusting_authenticator(), issuer.token(aud="our-api"))


def test_invalid_tokens_that_name_the_trusted_issuer_are_refused(make_trusting_authenticator, issuer):
    foreign_key = rsa.generate_private_key(65537, 2048)
    expect_refusal(make_trusting_authenticator(), issuer.token(key=foreign_key))
    expect_refusal(make_trusting_authenticator(), issuer.token(key_id="unknown"))
    expect_refusal(make_trusting_authenticator(), issuer.token(exp=int(time.time()) - 60))
    expect_refusal(
        make_trusting_authenticator(), jwt.encode(claims_now(iss=issuer.name), "x" * 32, "HS256", headers={"kid": "k1"})
    )


def test_a_token_that_names_the_trusted_issuer_and_is_signed_by_the_server_is_refused(
    make_trusting_authenticator, issue, issuer
):
    # With the audience that tokens of the issuer need, so that only the key of the signature is wrong.
    expect_refusal(make_trusting_authenticator(), issue(token_issuer=issuer.name, token_audience="loyalty-server"))


def test_the_key_set_of_the_issuer_is_fetched_once(make_trusting_authenticator, issuer):
    authenticator = make_trusting_authenticator()
    fetches_before = issuer.fetches
    for number in range(5):
        authenticator(issuer.token(sub=f"till-{number}"))
    assert issuer.fetches == fetches_before + 1


@pytest.fixture(scope="module")
def unreachable_settings(settings, issuer):
    """Settings with an issuer whose keys cannot be fetched."""
    return replace(settings, external_issuer=issuer.name, external_jwks_url="http://127.0.0.1:9/jwks.json")


@pytest.mark.slow
def test_tokens_of_an_unreachable_issuer_get_503_and_the_time_of_the_next_attempt(unreachable_settings, issuer):
    with running_api(unreachable_settings) as api:
        token = issuer.token(isAdmin=True, organizationId=api.organization().id)
        replies = [api.surface(token=token).request("GET", "/members") for _ in range(2)]
    for reply in replies:
        assert (reply.status, reply.json["type"]) == (503, "/problems/unavailable")
        # The keys are fetched again 30 seconds after the first attempt.
        assert 20 < int(reply.headers["Retry-After"]) <= 30


def test_a_token_that_no_key_can_make_valid_gets_401_while_the_issuer_is_unreachable(
    unreachable_settings, engine, issuer, issue
):
    authenticator = Authenticator(unreachable_settings, engine)
    for token in (
        issuer.token(exp=int(time.time()) - 60),
        issuer.token(aud="another"),
        issuer.token(iss="another"),
        jwt.encode(claims_now(iss=issuer.name), issuer.key, "RS256"),
        jwt.encode(claims_now(iss=issuer.name), "x" * 32, "HS256", headers={"kid": "k1"}),
        "no token",
    ):
        expect_refusal(authenticator, token)
    assert authenticator(issue()).subject == "till-4"
    with pytest.raises(Unavailable):
        authenticator(issuer.token())


def test_a_token_of_the_trusted_issuer_is_verified_again_after_five_minutes(
    make_trusting_authenticator, issuer, monkeypatch
):
    authenticator, token = make_trusting_authenticator(), issuer.token(exp=int(time.time()) + 3600)
    assert authenticator(token).subject == "till-4"
    now = time.time()
    monkeypatch.setattr(tokens.time, "time", lambda: now + 5 * 60 - 10)
    assert authenticator.cached_caller(token) is not None
    monkeypatch.setattr(tokens.time, "time", lambda: now + 5 * 60 + 10)
    assert authenticator.cached_caller(token) is None


def test_a_token_that_was_verified_is_not_verified_again(authenticator, issue, monkeypatch):
    token = issue()
    caller = authenticator(token)
    monkeypatch.setattr(tokens.jwt, "decode", lambda *_, **__: pytest.fail("verified again"))
    assert authenticator(token) == caller


def test_the_cache_of_tokens_has_a_limited_size(authenticator, issue, monkeypatch):
    monkeypatch.setattr(tokens, "_MAX_CACHED_TOKENS", 3)
    all_tokens = [issue() for _ in range(5)]
    for token in all_tokens:
        authenticator(token)
        assert authenticator.cached_caller(token) is not None
    # The cache was full with the first three, and was emptied before the fourth.
    are_cached = [authenticator.cached_caller(token) is not None for token in all_tokens]
    assert are_cached == [False, False, False, True, True]


@pytest.fixture(scope="module")
def foreign_api(settings, issuer):
    """The application with settings by which it trusts the issuer."""
    with_issuer = replace(settings, external_issuer=issuer.name, external_jwks_url=issuer.url)
    with running_api(with_issuer) as api:
        yield api


@pytest.mark.parametrize(
    "claims", [{"organizationId": True}, {"organizationId": 10**30}, {"organizationId": "1"}, {"sub": "a\u0000b"}]
)
def test_invalid_claims_of_the_trusted_issuer_are_refused(foreign_api, issuer, claims):
    reply = foreign_api.surface(token=issuer.token(isAdmin=True, **claims)).request("GET", "/members")
    assert reply.status == 401, reply.text


@pytest.mark.parametrize("expires", [10**400, str(10**30)])
def test_a_token_of_the_trusted_issuer_may_expire_in_any_year(foreign_api, issuer, expires):
    token = issuer.token(isAdmin=True, organizationId=foreign_api.organization().id, exp=expires)
    foreign_api.surface(token=token).get("/members")


def test_a_token_for_an_organization_that_does_not_exist_is_refused(foreign_api, issuer):
    token = issuer.token(isAdmin=True, organizationId=2**60)
    reply = foreign_api.surface(token=token).request("GET", "/members")
    assert (reply.status, reply.json["type"]) == (403, "/problems/forbidden")


def test_the_record_of_a_user_counts_instead_of_the_claims_of_the_trusted_issuer(foreign_api, issuer):
    organization = foreign_api.organization()
    users = Users.of(organization)
    subject = f"auth0|{uuid.uuid4()}"
    claims = {"sub": subject, "organizationId": organization.id, "roles": ["members:write"], "isAdmin": False}
    # No user has this subject, so the claims count.
    foreign_api.surface(token=issuer.token(**claims)).get("/members")
    # The user may read loyalty programs, and no members.
    sue = users.create(isExternal=True, authClientId=subject, roles=["tiers:read"])
    programs = "/loyalty-programs"
    for other_claims in (
        {"roles": ["members:read"], "isAdmin": True, "isSystemAdmin": True},
        {"roles": None, "userId": 1},
    ):
        for organization_id in (organization.id, None):
            token = issuer.token(**{**claims, **other_claims, "organizationId": organization_id})
            foreign_api.surface(f"/organizations/{organization.id}", token).get(programs)
            foreign_api.surface(token=token).get("/members", expect=403)
    organization_without_user = foreign_api.organization("Another")
    foreign_api.surface(f"/organizations/{organization_without_user.id}", token).get(programs, expect=401)
    # The claim `again` only makes this token and the last one different.
    lasting_token = issuer.token(**claims, again=True)
    home = foreign_api.surface(f"/organizations/{organization.id}", lasting_token)
    home.get(programs)
    users.surface.put(f"/users/{sue['userId']}/permissions", {"isAdmin": False, "roles": []})
    home.get(programs, expect=403)
    users.surface.put(f"/users/{sue['userId']}/permissions", {"isAdmin": True, "roles": []})
    home.get(programs)
    users.surface.delete(f"/users/{sue['userId']}")
    home.get(programs, expect=401)
    new_token = issuer.token(**claims, again=False)
    foreign_api.surface(f"/organizations/{organization.id}", new_token).get(programs, expect=401)


def test_the_record_of_a_user_that_is_created_later_replaces_the_claims_of_the_token(foreign_api, issuer):
    organization = foreign_api.organization()
    subject = f"auth0|{uuid.uuid4()}"
    token = issuer.token(sub=subject, organizationId=organization.id, isAdmin=True)
    surface = foreign_api.surface(token=token)
    surface.get("/members")
    Users.of(organization).create(isExternal=True, authClientId=subject, roles=["tiers:read"])
    surface.get("/members", expect=403)
