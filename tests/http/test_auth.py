"""Requests for access tokens: the credentials, the scope, the errors of OAuth, and the time that a check takes."""

from __future__ import annotations

import base64
import logging
import threading
from datetime import UTC, datetime
from urllib.parse import quote_plus

import jwt
import pytest
from argon2 import PasswordHasher
from sqlalchemy import select, update

from domain.access import INTEGRATION_ROLES
from handlers import metrics
from handlers.http.token_threads import PASSWORD_THREADS
from handlers.services import passwords
from persistence import organizations, transactions
from persistence.tables.organizations import organization_users, users

GRANT = {"grant_type": "client_credentials"}


@pytest.fixture
def ask(api):
    """Request a token with a form; `basic` is the client id and secret for HTTP Basic."""

    def ask(form, basic=None, expect=200, headers=None):
        headers = dict(headers or {})
        if basic is not None:
            pair = ":".join(quote_plus(part) for part in basic)
            headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
        return api.surface().request("POST", "/oauth/token", form=form, headers=headers, expect=expect)

    return ask


@pytest.fixture
def credentials(organization):
    return {"client_id": organization.defaults.client_id, "client_secret": organization.defaults.client_secret}


@pytest.fixture
def api_user(api, organization):
    """Create an API user of the organization with these roles; returns its client id and secret."""

    def make(*roles, secret="s€cret: with & signs", id_prefix="till 4:é", is_admin=False, **values):
        now = datetime.now(UTC)
        client_id = f"{id_prefix}-{organization.id}"

        def add(db):
            organizations.add_user(
                db,
                organization.id,
                {"is_admin": is_admin, "roles": list(roles)},
                **{
                    "name": "Till",
                    "auth_client_id": client_id,
                    # Cheaper parameters than those of the server, so this hash is outdated.
                    "password_hash": PasswordHasher(time_cost=1, memory_cost=64).hash(secret),
                    "is_api_user": True,
                    "created_at": now,
                    "updated_at": now,
                    **values,
                },
            )

        transactions.run(api.engine, add)
        return client_id, secret

    return make


def claims_of(reply):
    """The claims of the access token in the reply."""
    return jwt.decode(reply.json["access_token"], options={"verify_signature": False})


def test_credentials_in_the_form_get_a_token(api, organization, ask, credentials):
    reply = ask({**GRANT, **credentials})
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Content-Type"] == "application/json"
    assert {name: reply.json[name] for name in ("token_type", "expires_in", "scope")} == {
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": " ".join(INTEGRATION_ROLES),
    }
    claims = claims_of(reply)
    assert (claims["sub"], claims["organizationId"]) == (credentials["client_id"], organization.id)
    assert (claims["roles"], claims["isAdmin"], claims["isSystemAdmin"]) == (list(INTEGRATION_ROLES), False, False)
    assert claims["exp"] - claims["iat"] == 3600
    api.surface(token=reply.json["access_token"]).get("/members")


def test_the_api_user_of_a_new_organization_integrates_and_administers_nothing(api, organization, ask, credentials):
    token = ask({**GRANT, **credentials}).json["access_token"]
    surface, administration = api.surface(token=token), api.surface(f"/organizations/{organization.id}", token)
    surface.post("/members", {"loyaltyMemberId": "ana"})
    event = {"loyaltyMemberId": "ana", "systemUniqueKey": "k-1", "eventType": "member-generic-event"}
    surface.post("/events/track", {"events": [event]}, expect=200)
    for path in ("/coupon-books", "/badges", "/event-types", "/content/collections"):
        surface.get(path)
    administration.put("", {"defaultLocale": "en"}, expect=403)
    administration.get("/users", expect=403)
    administration.post("/campaigns", {"code": "c", "name": "c"}, expect=403)
    assert ask({**GRANT, **credentials, "scope": "admin"}, expect=400).json["error"] == "invalid_scope"


def test_credentials_by_http_basic_are_form_encoded(api, ask, api_user):
    reply = ask(GRANT, basic=api_user("members:write"))
    assert reply.json["scope"] == "members:write"
    assert claims_of(reply)["roles"] == ["members:write"]
    surface = api.surface(token=reply.json["access_token"])
    surface.post("/members", {"loyaltyMemberId": "ana"})
    surface.get("/members")
    surface.get("/custom-event-types", expect=403)


def test_a_form_may_repeat_the_client_id_of_http_basic(ask, credentials):
    basic = tuple(credentials.values())
    ask({**GRANT, "client_id": credentials["client_id"]}, basic=basic)


@pytest.mark.slow
def test_a_scope_narrows_the_roles(api, ask, api_user):
    client_id, secret = api_user("members:write", "orders:read")
    form = {**GRANT, "client_id": client_id, "client_secret": secret}
    assert ask(form).json["scope"] == "members:write orders:read"
    # A role to write includes the role to read.
    reply = ask({**form, "scope": "orders:read members:read"})
    assert reply.json["scope"] == "members:read orders:read"
    narrow_surface = api.surface(token=reply.json["access_token"])
    narrow_surface.get("/members")
    narrow_surface.post("/members", {"loyaltyMemberId": "ana"}, expect=403)
    for scope in ("coupons:read", "orders:write", "admin", "members:write nonsense"):
        refusal = ask({**form, "scope": scope}, expect=400)
        assert refusal.json["error"] == "invalid_scope"


@pytest.mark.slow
def test_an_administrator_may_request_a_narrower_scope(api, organization, ask, api_user):
    client_id, secret = api_user(is_admin=True)
    credentials = {"client_id": client_id, "client_secret": secret}
    reply = ask({**GRANT, **credentials, "scope": "tiers:read"})
    assert (reply.json["scope"], claims_of(reply)["isAdmin"]) == ("tiers:read", False)
    surface = api.surface(f"/organizations/{organization.id}", reply.json["access_token"])
    surface.get("/loyalty-programs")
    surface.get("/members", expect=403)
    assert ask({**GRANT, **credentials, "scope": "admin"}).json["scope"] == "admin"
    refusal = ask({**GRANT, **credentials, "scope": "everything"}, expect=400)
    assert refusal.json["error"] == "invalid_scope"


# Without a `client_id`, that of the organization is sent; without a `client_secret`, none.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("client_id", "client_secret"),
    [
        pytest.param("nobody", "any secret", id="unknown client"),
        pytest.param(None, "wrong", id="wrong secret"),
        pytest.param(None, None, id="no secret"),
        pytest.param("a\u00e9", "x" * 1024, id="client id that is not ASCII and long secret"),
    ],
)
def test_wrong_credentials_are_refused(ask, credentials, client_id, client_secret):
    form = {**GRANT, "client_id": client_id or credentials["client_id"]}
    if client_secret is not None:
        form["client_secret"] = client_secret
    reply = ask(form, expect=401)
    assert reply.json["error"] == "invalid_client"
    assert reply.headers["WWW-Authenticate"].startswith("Basic")
    assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "header",
    [
        pytest.param("Basic", id="without credentials"),
        pytest.param("Basic !!!", id="not Base64"),
        pytest.param("Basic bm9jb2xvbg==", id="without a colon"),
        pytest.param("Basic /////w==", id="not UTF-8"),
        pytest.param("Basic OmE=", id="with an empty client id"),
    ],
)
def test_unreadable_http_basic_credentials_are_refused(ask, header):
    assert ask(GRANT, headers={"Authorization": header}, expect=401).json["error"] == "invalid_client"


def test_two_ways_to_authenticate_at_once_are_refused(ask, credentials):
    reply = ask({**GRANT, **credentials}, basic=tuple(credentials.values()), expect=400)
    assert reply.json["error"] == "invalid_request"


def test_a_client_id_that_differs_from_the_one_of_http_basic_is_refused(ask, credentials):
    basic = tuple(credentials.values())
    ask({**GRANT, "client_id": credentials["client_id"]}, basic=basic)
    reply = ask({**GRANT, "client_id": "another"}, basic=basic, expect=400)
    assert reply.json["error"] == "invalid_request"


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"grant_type": ""}, "invalid_request"),
        ({}, "invalid_request"),
        ({"grant_type": "client_credentials", "scope": "a  b"}, "invalid_scope"),
        ({"grant_type": "client_credentials", "client_id": "x" * 300}, "invalid_request"),
    ],
)
def test_malformed_requests_have_the_errors_of_oauth(ask, credentials, form, error):
    reply = ask({**credentials, **form}, expect=400)
    assert reply.json["error"] == error
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("field", ["grant_type", "scope"])
def test_a_field_that_was_sent_more_than_once_makes_the_request_invalid(ask, credentials, field):
    reply = ask({**GRANT, **credentials, field: ["client_credentials"] * 2}, expect=400)
    assert reply.json == {"error": "invalid_request", "error_description": f"{field} was sent more than once."}


def test_unknown_parameters_are_ignored(ask, credentials):
    ask({**GRANT, **credentials, "audience": "https://api.example"})


def test_empty_parameters_are_treated_as_missing(ask, credentials):
    ask({**GRANT, **credentials, "scope": "", "new_password": "", "organization_id": ""})


def test_a_token_request_with_a_json_body_is_refused(api, credentials):
    problem = api.surface().post("/oauth/token", {**GRANT, **credentials}, expect=415)
    assert problem["type"] == "/problems/unsupported-media-type"


@pytest.mark.parametrize("columns", [{"active": False}, {"password_hash": None}])
def test_inactive_users_and_users_without_a_password_get_no_token(ask, api_user, columns):
    ask(GRANT, basic=api_user("members:read", **columns), expect=401)


@pytest.mark.slow
def test_an_outdated_hash_is_replaced(api, ask, api_user, db):
    client_id, secret = api_user("members:read")

    def read_hash():
        return db.execute(select(users.c.password_hash).where(users.c.auth_client_id == client_id)).scalar_one()

    # The fixture stores a hash that is cheaper than those of the server.
    outdated_hash = read_hash()
    assert PasswordHasher().check_needs_rehash(outdated_hash)
    ask(GRANT, basic=(client_id, secret))
    new_hash = read_hash()
    assert new_hash != outdated_hash
    assert not PasswordHasher().check_needs_rehash(new_hash)
    ask(GRANT, basic=(client_id, secret))
    assert read_hash() == new_hash


@pytest.fixture
def watched_hasher(monkeypatch):
    """The notes on passwords that were verified by argon2, and the class whose `note` makes them of the hashes."""
    notes = []

    class WatchedHasher:
        note = staticmethod(lambda password_hash: password_hash)
        hash = staticmethod(passwords._HASHER.hash)
        real = passwords._HASHER

        def verify(self, password_hash, secret):
            notes.append(self.note(password_hash))
            return self.real.verify(password_hash, secret)

    monkeypatch.setattr(passwords, "_HASHER", WatchedHasher())
    return notes, WatchedHasher


@pytest.mark.slow
def test_an_unknown_client_takes_as_long_as_a_wrong_secret(watched_hasher, ask, credentials):
    ask({**GRANT, "client_id": "nobody", "client_secret": "x"}, expect=401)
    ask({**GRANT, **credentials, "client_secret": "x"}, expect=401)
    [hash_for_unknown, hash_for_wrong], _ = watched_hasher
    # The parameters between the dollar signs determine the time.
    assert hash_for_unknown.split("$")[1:4] == hash_for_wrong.split("$")[1:4]


@pytest.mark.slow
def test_passwords_are_verified_in_a_few_separate_threads_without_a_connection(api, watched_hasher, ask, credentials):
    notes, hasher = watched_hasher
    hasher.note = staticmethod(lambda _: (threading.current_thread().name, api.engine.pool.checkedout()))
    for _ in range(3):
        ask({**GRANT, **credentials, "client_secret": "x"}, expect=401)
    assert len(notes) == 3
    # The name of such a thread is password_ and a number.
    assert {(name.partition("_")[0], connections) for name, connections in notes} == {("password", 0)}
    assert PASSWORD_THREADS <= 2


def test_generated_secrets_are_not_verified_by_argon2(watched_hasher, ask, credentials):
    ask({**GRANT, **credentials})
    ask({**GRANT, **credentials, "client_secret": f"{credentials['client_secret']}x"}, expect=401)
    notes, _ = watched_hasher
    assert notes == []


@pytest.mark.slow
def test_response_times_do_not_reveal_which_clients_are_people(watched_hasher, ask, credentials, api_user):
    notes, _ = watched_hasher
    person, _ = api_user(id_prefix="ana", is_api_user=False)
    clients = (person, credentials["client_id"], "nobody")
    # Only the prefix of generated secrets decides whether argon2 is used.
    for client_id in clients:
        ask({**GRANT, "client_id": client_id, "client_secret": "lsk_wrong"}, expect=401)
    assert notes == []
    for client_id in clients:
        ask({**GRANT, "client_id": client_id, "client_secret": "wrong"}, expect=401)
    assert len(notes) == 3


@pytest.mark.slow
def test_wrong_secrets_are_counted_and_logged_without_the_secret(ask, credentials, caplog):
    def count_refusals():
        lines = metrics.exposition().decode().splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith("loyalty_token_requests_refused_total"))

    previous_refusals = count_refusals()
    with caplog.at_level(logging.WARNING, "loyalty.security"):
        ask({**GRANT, **credentials, "client_secret": "correct-horse-battery"}, expect=401)
        ask(GRANT, basic=(credentials["client_id"], "correct-horse-staple"), expect=401)
    assert count_refusals() == previous_refusals + 2
    messages = [record.getMessage() for record in caplog.records if record.name == "loyalty.security"]
    assert [credentials["client_id"] in message for message in messages] == [True, True]
    assert "correct-horse" not in caplog.text


@pytest.mark.parametrize("table", ["users", "organization_users"])
def test_a_deactivated_user_is_refused_from_the_next_request_on(api, organization, ask, api_user, table):
    client_id, secret = api_user("members:read")
    token = ask(GRANT, basic=(client_id, secret)).json["access_token"]
    surface = api.surface(token=token)
    surface.get("/members")
    user_id = jwt.decode(token, options={"verify_signature": False})["userId"]
    user_table = {"users": users, "organization_users": organization_users}[table]

    def deactivate(db):
        db.execute(update(user_table).where(user_table.c.user_id == user_id).values(active=False))

    transactions.run(api.engine, deactivate)
    assert surface.get("/members", expect=401)["type"] == "/problems/unauthorized"
    api.surface(f"/organizations/{organization.id}", token).get("", expect=401)
