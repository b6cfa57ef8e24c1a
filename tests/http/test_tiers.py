"""Tiers over HTTP: their properties, default tiers, lists and refusals."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from domain.ledger.records import MAX_AMOUNT

SILVER = {"name": "Silver", "active": True, "minRequiredPoints": 500, "tierOrder": 2}


@pytest.fixture
def path(organization):
    """The path of the tiers of the default program, which has one tier, Member."""
    return f"/loyalty-programs/{organization.defaults.loyalty_program_id}/tiers"


@pytest.fixture
def create(organization, path):
    """A function that creates the tier Silver, which needs 500 points, with some fields changed."""

    def create(**changes):
        return organization.administration.post(path, {**SILVER, **changes})["tier"]

    return create


def default_tier_id(organization):
    """The id of the default tier of the default program."""
    program = organization.administration.get(f"/loyalty-programs/{organization.defaults.loyalty_program_id}")
    return program["loyaltyProgram"]["defaultTierId"]


def test_a_tier_is_created_with_every_property(organization, path):
    body = {
        **SILVER,
        "minRequiredPoints": Decimal("18446744073708.123456"),
        "customAttributes": {"freeRefills": 1, "discount": Decimal("0.10")},
        "pictureUrl": "https://cornercoffee.example/silver.png",
        "isDefault": False,
        "externalKey": "silver",
    }
    tier = organization.administration.post(path, body)["tier"]
    program = organization.defaults
    assert tier == {
        **body,
        "organizationId": organization.id,
        "loyaltyTierId": tier["loyaltyTierId"],
        "loyaltyTierKey": str(uuid.UUID(tier["loyaltyTierKey"])),
        "loyaltyProgramId": program.loyalty_program_id,
        "loyaltyProgramKey": program.loyalty_program_key,
        "createdAt": tier["createdAt"],
        "updatedAt": tier["createdAt"],
    }
    assert organization.administration.get(f"{path}/{tier['loyaltyTierId']}")["tier"] == tier


def test_an_update_changes_the_tier(organization, path, create):
    tier = create(customAttributes={"a": 1}, pictureUrl="https://x.example")
    address = f"{path}/{tier['loyaltyTierId']}"
    body = {"name": "Gold", "active": False, "minRequiredPoints": Decimal("400.5"), "tierOrder": 7}
    updated_tier = organization.administration.put(address, body)["tier"]
    assert {name: updated_tier[name] for name in body} == body
    assert updated_tier == {**tier, **body, "updatedAt": updated_tier["updatedAt"]}
    assert updated_tier["loyaltyTierKey"] == tier["loyaltyTierKey"]
    assert updated_tier["updatedAt"] > tier["updatedAt"]
    assert organization.administration.get(address)["tier"] == updated_tier


def test_a_new_default_tier_replaces_the_former_one_and_cannot_be_unset(organization, path, create):
    former_default_id = default_tier_id(organization)
    tier = create(isDefault=True)
    assert tier["isDefault"] is True
    assert default_tier_id(organization) == tier["loyaltyTierId"]
    former_path = f"{path}/{former_default_id}"
    assert organization.administration.get(former_path)["tier"]["isDefault"] is False

    updated_tier = organization.administration.put(former_path, {**SILVER, "isDefault": True})["tier"]
    assert updated_tier["isDefault"] is True
    assert default_tier_id(organization) == former_default_id
    unchanged_tier = organization.administration.put(former_path, {**SILVER, "isDefault": False})["tier"]
    assert unchanged_tier["isDefault"] is True
    assert default_tier_id(organization) == former_default_id


def test_concurrent_updates_leave_one_default_tier(organization, path, create):
    tier_ids = [create(name=f"Tier {number}")["loyaltyTierId"] for number in range(4)]
    body = {**SILVER, "isDefault": True}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda tier_id: organization.administration.put(f"{path}/{tier_id}", body), tier_ids))
    results = organization.administration.get(path)["results"]
    assert [tier["loyaltyTierId"] for tier in results if tier["isDefault"]] == [default_tier_id(organization)]
    assert default_tier_id(organization) in tier_ids


def test_tiers_are_listed_filtered_and_ordered(organization, path, create):
    silver = create()
    create(name="Gold", minRequiredPoints=1000, tierOrder=3, active=False)

    def names(**query):
        return [tier["name"] for tier in organization.administration.get(path, **query)["results"]]

    # The default tier is Member.
    assert names() == ["Gold", "Silver", "Member"]
    assert names(onlyActive=True) == ["Silver", "Member"]
    assert names(onlyActive=False) == ["Gold", "Silver", "Member"]
    assert names(loyaltyTierKey=silver["loyaltyTierKey"]) == ["Silver"]
    assert names(order="minRequiredPoints,desc") == ["Gold", "Silver", "Member"]
    assert names(order="tierOrder") == ["Member", "Silver", "Gold"]
    assert names(order="name,asc") == ["Gold", "Member", "Silver"]
    assert names(order="active,desc") == ["Silver", "Member", "Gold"]
    assert names(order="createdAt,asc") == ["Member", "Silver", "Gold"]
    assert names(order="updatedAt") == ["Member", "Silver", "Gold"]
    assert names(order="loyaltyTierId") == ["Member", "Silver", "Gold"]


@pytest.mark.parametrize("query", [{"order": "pictureUrl"}, {"colour": "red"}])
def test_an_invalid_query_of_the_list_is_refused(organization, path, query):
    problem = organization.administration.get(path, expect=400, **query)
    assert [fault["parameter"] for fault in problem["errors"]] == list(query)


def test_paging_of_the_list_is_deprecated(organization, path, create):
    # Silver, besides the default tier.
    create()
    plain_reply = organization.administration.request("GET", path)
    assert "Deprecation" not in plain_reply.headers
    assert (plain_reply.json["totalCount"], plain_reply.json["page"], plain_reply.json["limit"]) == (2, 0, 100)
    paged_reply = organization.administration.request("GET", path, page=1, limit=1)
    assert paged_reply.headers["Deprecation"].startswith("@")
    assert [tier["loyaltyTierId"] for tier in paged_reply.json["results"]] == [default_tier_id(organization)]
    assert (paged_reply.json["totalCount"], paged_reply.json["page"], paged_reply.json["limit"]) == (2, 1, 1)
    empty_page = organization.administration.get(path, page=9, limit=1)
    assert (empty_page["totalCount"], empty_page["results"]) == (2, [])


def test_a_tier_is_found_only_in_its_own_program(organization, other_organization, path, create):
    tier_id = create()["loyaltyTierId"]
    body = {"ledgerId": organization.defaults.ledger_id, "description": "Another", "setAsDefault": False}
    other_program = organization.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    for address in (
        f"/loyalty-programs/{other_program['loyaltyProgramId']}/tiers/{tier_id}",
        f"{path}/{2**62}",
        f"{path}/{default_tier_id(other_organization)}",
        f"/loyalty-programs/{other_organization.defaults.loyalty_program_id}/tiers/{tier_id}",
    ):
        assert organization.administration.get(address, expect=404)["type"] == "/problems/not-found"
        organization.administration.put(address, SILVER, expect=404)
    foreign_path = f"/loyalty-programs/{other_organization.defaults.loyalty_program_id}/tiers"
    organization.administration.get(foreign_path, expect=404)
    organization.administration.post(foreign_path, SILVER, expect=404)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("minRequiredPoints", -1),
        ("minRequiredPoints", MAX_AMOUNT + 1),
        ("tierOrder", Decimal("1.5")),
        ("tierOrder", 2**31),
        ("active", None),
        ("isDefault", "yes"),
    ],
)
def test_invalid_values_of_a_tier_are_refused_with_the_field(organization, path, field, value):
    faults = organization.administration.post(path, {**SILVER, field: value}, expect=400)["errors"]
    assert [fault["pointer"] for fault in faults] == [f"/{field}"]
