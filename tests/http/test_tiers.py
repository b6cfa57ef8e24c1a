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
    return f"/loyalty-programs/{organization.created.loyalty_program_id}/tiers"


@pytest.fixture
def create(organization, path):
    def create(**changes):
        return organization.administration.post(path, {**SILVER, **changes})["tier"]

    return create


def default_tier_id(organization):
    program = organization.administration.get(f"/loyalty-programs/{organization.created.loyalty_program_id}")
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
    program = organization.created
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
    former_default = default_tier_id(organization)
    tier = create(isDefault=True)
    assert tier["isDefault"] is True
    assert default_tier_id(organization) == tier["loyaltyTierId"]
    assert organization.administration.get(f"{path}/{former_default}")["tier"]["isDefault"] is False

    updated_tier = organization.administration.put(f"{path}/{former_default}", {**SILVER, "isDefault": True})["tier"]
    assert updated_tier["isDefault"] is True
    assert default_tier_id(organization) == former_default
    updated_tier = organization.administration.put(f"{path}/{former_default}", {**SILVER, "isDefault": False})["tier"]
    assert updated_tier["isDefault"] is True
    assert default_tier_id(organization) == former_default


def test_concurrent_updates_leave_one_default_tier(organization, path, create):
    tiers = [create(name=f"Tier {number}")["loyaltyTierId"] for number in range(4)]
    body = {**SILVER, "isDefault": True}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda tier: organization.administration.put(f"{path}/{tier}", body), tiers))
    results = organization.administration.get(path)["results"]
    assert [tier["loyaltyTierId"] for tier in results if tier["isDefault"]] == [default_tier_id(organization)]
    assert default_tier_id(organization) in tiers


def test_tiers_are_listed_filtered_and_ordered(organization, path, create):
    first = default_tier_id(organization)
    silver = create()
    gold = create(name="Gold", minRequiredPoints=1000, tierOrder=3, active=False)["loyaltyTierId"]
    silver, key = silver["loyaltyTierId"], silver["loyaltyTierKey"]

    def listed(**query):
        return [tier["loyaltyTierId"] for tier in organization.administration.get(path, **query)["results"]]

    assert listed() == [gold, silver, first]
    assert listed(onlyActive=True) == [silver, first]
    assert listed(onlyActive=False) == [gold, silver, first]
    assert listed(loyaltyTierKey=key) == [silver]
    assert listed(order="minRequiredPoints,desc") == [gold, silver, first]
    assert listed(order="tierOrder") == [first, silver, gold]
    assert listed(order="name,asc") == [gold, first, silver]
    assert listed(order="active,desc")[-1] == gold
    assert listed(order="createdAt,asc") == listed(order="updatedAt") == listed(order="loyaltyTierId")
    organization.administration.get(path, order="pictureUrl", expect=400)
    organization.administration.get(path, colour="red", expect=400)


def test_paging_of_the_list_is_deprecated(organization, path, create):
    create()
    plain_reply = organization.administration.request("GET", path)
    assert "Deprecation" not in plain_reply.headers
    assert (plain_reply.json["totalCount"], plain_reply.json["page"], plain_reply.json["limit"]) == (2, 0, 100)
    paged_reply = organization.administration.request("GET", path, page=1, limit=1)
    assert paged_reply.headers["Deprecation"].startswith("@")
    assert [tier["loyaltyTierId"] for tier in paged_reply.json["results"]] == [default_tier_id(organization)]
    assert {name: paged_reply.json[name] for name in ("totalCount", "page", "limit")} == {
        "totalCount": 2,
        "page": 1,
        "limit": 1,
    }
    empty_page = organization.administration.get(path, page=9, limit=1)
    assert (empty_page["totalCount"], empty_page["results"]) == (2, [])


def test_a_tier_is_found_only_in_its_own_program(organization, other_organization, path, create):
    tier = create()["loyaltyTierId"]
    program = organization.administration.post(
        "/loyalty-programs",
        {"ledgerId": organization.created.ledger_id, "description": "Another", "setAsDefault": False},
    )["loyaltyProgram"]["loyaltyProgramId"]
    for address in (
        f"/loyalty-programs/{program}/tiers/{tier}",
        f"{path}/{2**62}",
        f"{path}/{default_tier_id(other_organization)}",
        f"/loyalty-programs/{other_organization.created.loyalty_program_id}/tiers/{tier}",
    ):
        assert organization.administration.get(address, expect=404)["type"] == "/problems/not-found"
        organization.administration.put(address, SILVER, expect=404)
    foreign_path = f"/loyalty-programs/{other_organization.created.loyalty_program_id}/tiers"
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
