"""Loyalty programs over HTTP."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def body(organization):
    """The body of a program with all fields, named Bean Club."""
    return {
        "name": "Bean Club",
        "description": "Points for every coffee.",
        "active": True,
        "ledgerId": organization.defaults.ledger_id,
        "tierPointsLedgerAccountId": organization.defaults.ledger_account_id,
        "mainLedgerAccountId": organization.defaults.ledger_account_id,
        "setAsDefault": False,
    }


@pytest.fixture
def create(organization, body):
    """A function that creates a program with `body` and these changes, and returns its record."""

    def create(**changes):
        return organization.administration.post("/loyalty-programs", {**body, **changes})["loyaltyProgram"]

    return create


def test_a_program_is_created_with_every_property(organization, body, create):
    program = create()
    assert program == {
        **body,
        "organizationId": organization.id,
        "loyaltyProgramId": program["loyaltyProgramId"],
        "loyaltyProgramKey": str(uuid.UUID(program["loyaltyProgramKey"])),
        "mainPortalId": None,
        "defaultTierId": None,
        "tierPolicy": {"basis": "balance", "period": "lifetime", "months": None, "startMonth": None, "timezone": None},
        "externalKey": None,
    }
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    assert organization.administration.get(path)["loyaltyProgram"] == program


def test_missing_fields_of_a_program_have_defaults(organization):
    body = {"ledgerId": organization.defaults.ledger_id, "description": "", "setAsDefault": False}
    program = organization.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    unset_fields = ("name", "tierPointsLedgerAccountId", "mainLedgerAccountId", "mainPortalId", "defaultTierId")
    assert [program[name] for name in unset_fields] == [None] * 5
    assert program["active"] is True


def test_a_new_program_can_become_the_default_one(organization, create):
    program = create(setAsDefault=True)
    assert program["setAsDefault"] is True
    former_default = organization.administration.get(f"/loyalty-programs/{organization.defaults.loyalty_program_id}")
    assert former_default["loyaltyProgram"]["setAsDefault"] is False
    organization_record = organization.administration.get("")["organization"]
    assert organization_record["defaultLoyaltyProgramId"] == program["loyaltyProgramId"]


def test_an_update_changes_only_the_sent_fields_of_a_program(organization, body, create):
    program = create()
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    tier = organization.administration.post(
        f"{path}/tiers", {"name": "First", "active": True, "minRequiredPoints": 0, "tierOrder": 1}
    )["tier"]
    changes = {"name": "Renamed", "active": False, "setAsDefault": True, "defaultTierId": tier["loyaltyTierId"]}
    full_body = {**body, **changes}
    updated_program = organization.administration.put(path, full_body)["loyaltyProgram"]
    assert {name: updated_program[name] for name in full_body} == full_body
    read_program = organization.administration.get(path)["loyaltyProgram"]
    assert read_program == updated_program
    tier_record = organization.administration.get(f"{path}/tiers/{tier['loyaltyTierId']}")["tier"]
    assert tier_record["isDefault"] is True

    required_fields = {name: body[name] for name in ("ledgerId", "description", "setAsDefault")}
    updated_program = organization.administration.put(path, required_fields)["loyaltyProgram"]
    # setAsDefault false is ignored: only another program can replace the default one.
    assert updated_program == {**read_program, **required_fields, "setAsDefault": True}
    nulls = dict.fromkeys(("name", "tierPointsLedgerAccountId", "mainLedgerAccountId", "defaultTierId"))
    updated_program = organization.administration.put(path, {**required_fields, **nulls})["loyaltyProgram"]
    assert {name: updated_program[name] for name in nulls} == nulls
    tier_record = organization.administration.get(f"{path}/tiers/{tier['loyaltyTierId']}")["tier"]
    assert tier_record["isDefault"] is False


@pytest.mark.parametrize(
    ("field", "problem"),
    [
        ("ledgerId", "unknown-ledger"),
        ("tierPointsLedgerAccountId", "unknown-ledger-account"),
        ("mainLedgerAccountId", "unknown-ledger-account"),
        ("defaultTierId", "unknown-tier"),
        ("mainPortalId", "unknown-portal"),
    ],
)
def test_records_that_a_program_names_must_exist(organization, body, create, field, problem):
    body_with_unknown_record = {**body, field: 2**62}
    response = organization.administration.post("/loyalty-programs", body_with_unknown_record, expect=404)
    assert response["type"] == f"/problems/{problem}"
    program = create()
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    assert organization.administration.put(path, body_with_unknown_record, expect=404)["type"] == f"/problems/{problem}"
    assert organization.administration.get(path)["loyaltyProgram"] == program


def test_records_of_another_organization_are_unknown(organization, other_organization, body):
    administration, foreign_records = organization.administration, other_organization.defaults
    for field, value in (
        ("ledgerId", foreign_records.ledger_id),
        ("mainLedgerAccountId", foreign_records.ledger_account_id),
    ):
        administration.post("/loyalty-programs", {**body, field: value}, expect=404)
    path = f"/loyalty-programs/{foreign_records.loyalty_program_id}"
    assert administration.get(path, expect=404)["type"] == "/problems/not-found"
    administration.put(path, body, expect=404)


def test_the_accounts_of_a_program_must_belong_to_its_ledger(organization, body):
    ledger = organization.administration.post("/ledgers", {"name": "Stars"})["ledger"]
    # The accounts of `body` belong to the default ledger.
    body_with_other_ledger = {**body, "ledgerId": ledger["ledgerId"]}
    problem = organization.administration.post("/loyalty-programs", body_with_other_ledger, expect=404)
    assert problem["type"] == "/problems/unknown-ledger-account"


def test_the_default_tier_of_a_program_must_be_one_of_its_tiers(organization, body, create):
    program = create()
    default_program = organization.administration.get(f"/loyalty-programs/{organization.defaults.loyalty_program_id}")
    tier_of_default_program = default_program["loyaltyProgram"]["defaultTierId"]
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    problem = organization.administration.put(path, {**body, "defaultTierId": tier_of_default_program}, expect=404)
    assert problem["type"] == "/problems/unknown-tier"


def test_programs_are_listed_filtered_and_ordered(organization, create):
    default_id = organization.defaults.loyalty_program_id
    inactive_program, active_program = create(name="B", active=False), create(name="A")
    inactive_id, active_id = inactive_program["loyaltyProgramId"], active_program["loyaltyProgramId"]

    def list_ids(**query):
        programs = organization.administration.get("/loyalty-programs", **query)["loyaltyPrograms"]
        return [program["loyaltyProgramId"] for program in programs]

    assert list_ids() == [active_id, inactive_id, default_id]
    # `default` is whether the list includes the default program.
    assert list_ids(default=True) == [active_id, inactive_id, default_id]
    assert list_ids(default=False) == [active_id, inactive_id]
    assert list_ids(loyaltyProgramKey=inactive_program["loyaltyProgramKey"]) == [inactive_id]
    assert list_ids(loyaltyProgramKey=uuid.uuid4()) == []
    # The names are A, B and that of the default program, which comes after them.
    assert list_ids(order="name") == [active_id, inactive_id, default_id]
    assert list_ids(order="name,desc") == [default_id, inactive_id, active_id]
    assert list_ids(order="active,asc")[0] == inactive_id
    assert list_ids(order="loyaltyProgramId,asc") == [default_id, inactive_id, active_id]
    problem = organization.administration.get("/loyalty-programs", order="ledgerId", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["order"]


def test_paging_of_the_list_is_deprecated(organization, create):
    create()
    # Newest first, so the second page has the default program.
    reply = organization.administration.request("GET", "/loyalty-programs", limit=1, page=1)
    [listed_program] = reply.json["loyaltyPrograms"]
    assert listed_program["loyaltyProgramId"] == organization.defaults.loyalty_program_id
    assert reply.headers["Deprecation"].startswith("@")
    assert organization.administration.get("/loyalty-programs", page=7) == {"loyaltyPrograms": []}
    assert "Deprecation" not in organization.administration.request("GET", "/loyalty-programs").headers


def test_a_page_has_at_most_100_programs(organization):
    problem = organization.administration.get("/loyalty-programs", limit=101, expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["limit"]


def test_all_faults_of_a_body_are_reported_at_once(organization):
    body = {"ledgerId": "one", "colour": "red", "setAsDefault": 1}
    faults = organization.administration.post("/loyalty-programs", body, expect=400)["errors"]
    # The description is missing.
    assert {fault["pointer"] for fault in faults} == {"/ledgerId", "/colour", "/setAsDefault", "/description"}
