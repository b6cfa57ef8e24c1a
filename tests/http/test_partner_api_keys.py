"""API keys of partners over HTTP: created, listed without the secret, used and revoked."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from tests.builders.partners import Partner
from tests.builders.statements import count_statements
from tests.builders.tracking import Shop


@pytest.fixture
def shop(organization):
    return Shop(organization)


def list_keys(shop, **query):
    """The records of the listed keys, newest first."""
    return shop.administration.get("/partner-api-keys", **query)["results"]


def set_last_use(shop, moment):
    """Store this moment as the last use of each key."""
    statement = text("UPDATE partner_api_keys SET last_used_at = :moment WHERE organization_id = :id")
    with shop.engine.begin() as db:
        db.execute(statement, {"moment": moment, "id": shop.organization.id})


def test_a_key_is_shown_once_and_kept_as_a_hash(shop):
    body = {"partner": "partnera", "name": "The wallet"}
    response = shop.administration.post("/partner-api-keys", body)
    record, key = response["partnerApiKey"], response["apiKey"]
    assert {name: record[name] for name in body} == body
    assert record["keyHint"] == key[-4:]
    assert record["lastUsedAt"] is record["revokedAt"] is None
    assert list_keys(shop) == [record]
    assert key not in str(shop.administration.get("/partner-api-keys"))
    [row] = shop.rows("partner_api_keys", "key_hash, partner_api_keys::text AS whole")
    assert bytes(row.key_hash) == hashlib.sha256(key.encode()).digest()
    assert key not in row.whole
    assert key not in str(shop.rows("audit_log", "audit_log::text"))


def test_every_new_key_is_different(shop):
    assert len({Partner.of(shop).key for _ in range(5)}) == 5


@pytest.mark.parametrize(
    "invalid_fields",
    [
        {"partner": "partnerc"},
        {"name": ""},
        {"name": "  \n"},
        {"name": "x" * 101},
        {"name": None},
        {"partner": None},
        {"apiKey": "mine"},
    ],
)
def test_a_key_with_invalid_fields_is_not_created(shop, invalid_fields):
    body = {"partner": "partnera", "name": "A", **invalid_fields}
    problem = shop.administration.post("/partner-api-keys", body, expect=400)
    # A partner that is null has two faults: it is no text, and no partner.
    assert {fault["pointer"] for fault in problem["errors"]} == {f"/{name}" for name in invalid_fields}
    assert list_keys(shop) == []


def test_keys_are_listed_by_partner_and_by_whether_they_are_revoked(shop):
    names = ("partnera", "partnera", "partnerb")
    valid_a, revoked_a, valid_b = (Partner.of(shop, name).record["partnerApiKeyId"] for name in names)
    shop.administration.delete(f"/partner-api-keys/{revoked_a}")

    def list_ids(**query):
        """The ids of the listed keys."""
        return [record["partnerApiKeyId"] for record in list_keys(shop, **query)]

    assert list_ids() == [valid_b, revoked_a, valid_a]
    assert list_ids(order="partnerApiKeyId,asc", limit=2, page=1) == [valid_b]
    assert list_ids(partner="partnera") == [revoked_a, valid_a]
    assert list_ids(revoked=True) == [revoked_a]
    assert list_ids(revoked=False) == [valid_b, valid_a]
    assert list_ids(partner="partnera", revoked=False) == [valid_a]


def test_a_revoked_key_is_refused_from_the_next_request_on(shop):
    partner, second_partner = Partner.of(shop), Partner.of(shop)
    member = shop.member()
    partner.pay(member)
    path = f"/partner-api-keys/{partner.record['partnerApiKeyId']}"
    shop.administration.delete(path)
    reply = partner.send(partner.body(member))
    assert (reply.status, reply.json["type"]) == (401, "/problems/unauthorized")
    [revoked_key] = list_keys(shop, revoked=True)
    # A second revocation changes nothing: the log has one entry.
    shop.administration.delete(path)
    assert list_keys(shop, revoked=True) == [revoked_key]
    actions = [row.operation_id for row in shop.rows("audit_log", "operation_id", order="audit_log_id")]
    assert actions.count("revokePartnerApiKey") == 1
    assert actions.count("createPartnerApiKey") == 2
    assert second_partner.pay(member)


def test_a_foreign_or_unknown_key_cannot_be_revoked(shop, api):
    foreign_partner = Partner.of(Shop(api.organization()))
    for key_id in (foreign_partner.record["partnerApiKeyId"], 10**15):
        problem = shop.administration.delete(f"/partner-api-keys/{key_id}", expect=404)
        assert problem["type"] == "/problems/not-found"
    # The key of the other organization is still valid.
    assert foreign_partner.pay(foreign_partner.shop.member())


def test_a_forged_key_is_refused(shop, api):
    partner, other_partner = Partner.of(shop), Partner.of(Shop(api.organization()))
    secret = partner.key.split("_", 2)[2]
    other_prefix = other_partner.key.split("_", 2)[:2]
    body = partner.body("somebody")
    # The prefix of a key has the id of its organization.
    for key in (
        "_".join([*other_prefix, secret]),
        partner.key[:-1],
        partner.key + "A",
        partner.key.upper(),
        "partner_0_" + "A" * 43,
    ):
        assert partner.send(body, headers={"x-api-key": key}).status == 401


def test_the_time_of_the_last_use_is_updated_at_most_once_a_minute(shop):
    partner = Partner.of(shop)
    member = shop.member()
    partner.pay(member)
    [key_after_first_use] = list_keys(shop)
    assert key_after_first_use["lastUsedAt"] is not None
    with count_statements(shop.engine) as statements:
        partner.pay(member)
    # The last use was stored a moment ago, so it is not updated.
    assert not [statement for statement in statements if statement.startswith("UPDATE partner_api_keys")]
    assert list_keys(shop) == [key_after_first_use]
    set_last_use(shop, datetime(2026, 1, 1, tzinfo=UTC))
    # A refused intent is a use as well.
    status, _type = partner.expect_refusal("nobody-here")
    assert status == 404
    [key_after_refusal] = list_keys(shop)
    assert key_after_refusal["lastUsedAt"] > key_after_first_use["lastUsedAt"]
