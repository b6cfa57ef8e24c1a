"""External keys of configuration records: set, shown, found, changed, cleared, and unique among records of a kind."""

from __future__ import annotations

import pytest

import openapi
from handlers.server.configuration_files.kinds import KIND_OF
from tests.builders.external_keys import KeyedRecords

TAKEN = "/problems/external-key-taken"
# Kinds whose records can be updated.
UPDATABLE = [name for name, kind in KIND_OF.items() if kind.update is not None]


@pytest.fixture(params=KIND_OF)
def records(request, organization):
    return KeyedRecords.of(organization, request.param)


def test_a_record_is_shown_with_its_key_and_found_by_it(records):
    lower_case, upper_case = records.create("one", externalKey="a:1"), records.create("two", externalKey="A:1")
    record_without_key, record_with_null = records.create("three"), records.create("four", externalKey=None)
    keys = {records.identity(record): record["externalKey"] for record in records.find_all(limit=25)}
    assert keys[records.identity(lower_case)] == "a:1"
    assert keys[records.identity(upper_case)] == "A:1"
    assert keys[records.identity(record_without_key)] is None
    assert keys[records.identity(record_with_null)] is None
    [matching_record] = records.find_all(externalKey="a:1")
    assert records.identity(matching_record) == records.identity(lower_case)
    # A part of a key finds nothing.
    assert records.find_all(externalKey="a") == []


def test_a_key_in_use_is_refused_only_for_records_of_the_same_kind(organization, records):
    name = records.kind.name
    early_bird = records.create("one", externalKey="early-bird")
    response = records.add("two", externalKey="early-bird")
    assert (response.status, response.json["type"]) == (409, TAKEN)
    assert "early-bird" in response.json["detail"]
    # The refused record was not stored.
    [matching_record] = records.find_all(externalKey="early-bird")
    assert records.identity(matching_record) == records.identity(early_bird)
    late_bird = records.create("two", externalKey="late-bird")
    if name in UPDATABLE:
        response = records.change(late_bird, externalKey="early-bird")
        assert (response.status, response.json["type"]) == (409, TAKEN)
        # Its own key can be sent again.
        assert records.update(late_bird, externalKey="late-bird")["externalKey"] == "late-bird"
    records_of_other_organization = KeyedRecords.of(organization.api.organization(), name)
    assert records_of_other_organization.create("one", externalKey="early-bird")["externalKey"] == "early-bird"


def test_records_of_all_kinds_may_have_the_same_key(organization):
    for name in KIND_OF:
        records = KeyedRecords.of(organization, name)
        assert records.create("one", externalKey="early-bird")["externalKey"] == "early-bird", name


def test_children_of_different_records_cannot_have_the_same_key(organization):
    programs = KeyedRecords.of(organization, "loyaltyProgram")
    tiers = KeyedRecords.of(organization, "loyaltyTier")
    tiers.create("Gold", externalKey="gold")
    club = programs.create("Club")
    tiers_of_club = KeyedRecords(organization, tiers.kind, {"loyaltyProgramId": club["loyaltyProgramId"]})
    assert tiers_of_club.add("Gold", externalKey="gold").json["type"] == TAKEN
    assert tiers_of_club.find_all(externalKey="gold") == []


@pytest.mark.parametrize("name", UPDATABLE)
def test_a_key_is_kept_changed_and_cleared_by_updates(organization, name):
    records = KeyedRecords.of(organization, name)
    record = records.create("one", externalKey="a")
    # An update without the field keeps the key.
    assert records.update(record)["externalKey"] == "a"
    assert records.update(record, externalKey="b")["externalKey"] == "b"
    # The key a is free again.
    second_record = records.create("two", externalKey="a")
    assert records.update(record, externalKey=None)["externalKey"] is None
    # So is the key b.
    assert records.update(second_record, externalKey="b")["externalKey"] == "b"
    [matching_record] = records.find_all(externalKey="b")
    assert records.identity(matching_record) == records.identity(second_record)


@pytest.mark.parametrize("name", UPDATABLE)
def test_the_audit_log_has_the_changes_of_a_key(organization, name):
    records = KeyedRecords.of(organization, name)
    record = records.create("one", externalKey="a")
    records.update(record, externalKey="b")
    log = organization.administration.get("/audit-log", operationId=records.kind.update)["results"]
    assert [entry["changes"]["externalKey"] for entry in log] == [{"from": "a", "to": "b"}]
    newest_creation = organization.administration.get("/audit-log", operationId=records.kind.create)["results"][0]
    assert newest_creation["changes"]["externalKey"] == {"from": None, "to": "a"}


@pytest.mark.parametrize("key", ["", " a", "a ", "a/b", "{a}", "-a", "é", "a" * 101, 1])
def test_malformed_keys_are_refused(organization, key):
    badges = KeyedRecords.of(organization, "badge")
    response = badges.add("one", externalKey=key)
    assert response.status == 400
    assert [error["pointer"] for error in response.json["errors"]] == ["/externalKey"]
    if isinstance(key, str):
        assert badges.refusal(externalKey=key).json["errors"][0]["parameter"] == "externalKey"


def test_a_key_of_maximum_length_is_accepted(organization):
    assert KeyedRecords.of(organization, "badge").create("one", externalKey="a" * 100)["externalKey"] == "a" * 100


def test_a_badge_and_a_mission_of_a_member_are_shown_with_their_keys(organization):
    badge = KeyedRecords.of(organization, "badge").create("one", externalKey="early-bird")
    KeyedRecords.of(organization, "mission").create("one", externalKey="ten")
    ana = organization.member("ana-7")
    [member_badge] = organization.integration.get("/members/ana-7/badges", badgeKeys=badge["badgeKey"])["results"]
    assert member_badge["externalKey"] == "early-bird"
    [mission] = organization.administration.get(f"/members/{ana['memberId']}/missions")["results"]
    assert mission["externalKey"] == "ten"


def test_built_in_event_types_have_no_key(organization):
    # A new organization has only built-in types.
    event_type = organization.integration.get("/event-types")["results"][0]
    assert (event_type["isCustomType"], event_type["externalKey"]) == (False, None)


def test_both_interfaces_find_books_and_event_types_by_their_keys(organization):
    for name, path in (("couponBook", "/coupon-books"), ("eventType", "/custom-event-types")):
        records = KeyedRecords.of(organization, name)
        records.create("one", externalKey="a")
        records.create("two", externalKey="b")
        for surface in (organization.administration, organization.integration):
            [matching_record] = surface.get(path, externalKey="b")["results"]
            assert (matching_record["name"], matching_record["externalKey"]) == ("two", "b")


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_lists_of_configuration_can_be_filtered_by_the_key(surface):
    lists = {kind.list for kind in KIND_OF.values()}
    for path in openapi.bundle(surface)["paths"].values():
        for method, operation in path.items():
            if method == "get" and operation["operationId"] in lists:
                references = [parameter.get("$ref", "") for parameter in operation["parameters"]]
                assert "#/components/parameters/ExternalKeyFilter" in references, operation["operationId"]
