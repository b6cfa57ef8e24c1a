"""Exports: rows that imports take, so that what goes out comes in again the same."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest

from handlers.services.exports.rows import ROWS, ExportRange, csv_header, csv_row, json_line
from tests.builders.imports import Imports, counts
from tests.builders.statements import count
from tests.builders.tracking import Shop

PROFILE = {
    "name": "=Ana",
    "lastName": 'Costa, "the first"',
    "emails": ["ana@example.com"],
    "phoneNumber": "+54 11",
    "tags": ["barista", "taster"],
    "govId": {"id": "30111222", "type": "national-id"},
    "address": {"zipCode": "2000"},
}


@pytest.fixture
def shop(organization):
    return Shop(organization)


def exported(organization, kind="members", **asked):
    """The rows of an export, as lines of JSON."""
    with organization.api.engine.connect() as db:
        return [json_line(row) for row in ROWS[kind](db, ExportRange(organization.id, **asked))]


def names(lines):
    return [json.loads(line)["loyaltyMemberId"] for line in lines]


def test_members_come_in_as_they_went_out(api, organization, shop):
    program = shop.organization.created.loyalty_program_id
    gold = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    until = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    other = api.organization()
    for each in (organization, other):
        path = f"/loyalty-programs/{each.created.loyalty_program_id}/tiers"
        each.administration.post(path, gold)
    organization.member("ana", profile=PROFILE, publicLoyaltyMemberId="A-1", customAttributes={"a": {"b": 1.5}})
    organization.member("ben", active=False, notifications={"push": False}, referralCode="FRIEND")
    Imports(organization).run(f"loyaltyMemberId,joinedAt,tier,tierExpiresAt\ncora,2020-03-02,Gold,{until}\n")
    lines = exported(organization)
    assert json.loads(lines[2]) == {
        "loyaltyMemberId": "cora",
        "active": True,
        "joinedAt": "2020-03-02T00:00:00Z",
        "tier": "Gold",
        "tierExpiresAt": until,
    }
    done = Imports(other).run("".join(lines), file_format="ndjson")
    assert counts(done) == ("done", 3, 3, 0), Imports(other).errors(done)
    assert exported(other) == lines
    assert program != other.created.loyalty_program_id


def test_balances_come_in_as_they_went_out(api, organization, shop):
    other = api.organization()
    until = (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")
    for each in (organization, other):
        Shop(each).account(pointTrackingEnabled=True, alias="stars", decimals=2)
        each.member("ana")
        each.member("ben")
    rows = ["ana,340,,", f"ana,1.25,stars,{until}", "ana,2.5,stars,", "ben,7,,"]
    Imports(organization).run("loyaltyMemberId,amount,account,expiresAt\n" + "\n".join(rows), kind="balances")
    lines = exported(organization, "balances")
    assert [tuple(json.loads(line).values()) for line in lines] == [
        ("ana", 340, "points"),
        ("ana", 1.25, "stars", until),
        ("ana", 2.5, "stars"),
        ("ben", 7, "points"),
    ]
    Imports(other).run("".join(lines), kind="balances", file_format="ndjson")
    assert exported(other, "balances") == lines
    Shop(other).check_ledger()


def test_an_export_goes_on_behind_a_member_and_takes_changes_alone(organization):
    members = [organization.member(name) for name in ("ana", "ben", "cora")]
    assert names(exported(organization, after=members[0]["memberId"])) == ["ben", "cora"]
    since = datetime.now(UTC)
    organization.integration.patch("/members/ana", {"profile": {"name": "Ana"}})
    assert names(exported(organization, updated_from=since)) == ["ana"]
    organization.administration.delete(f"/members/{members[1]['memberId']}", expect=200)
    assert names(exported(organization)) == ["ana", "cora"]


def test_cells_of_csv_are_no_formulas(organization):
    organization.member("ana", profile=PROFILE)
    with organization.api.engine.connect() as db:
        [row] = ROWS["members"](db, ExportRange(organization.id))
    text = csv_header("members") + csv_row("members", row)
    [told] = csv.DictReader(io.StringIO(text, newline=""))
    assert (told["name"], told["phoneNumber"], told["tags"]) == ("'=Ana", "'+54 11", "barista|taster")
    assert (told["lastName"], told["active"], told["govId"]) == ('Costa, "the first"', "true", "30111222")


@pytest.mark.parametrize("kind", ["members", "balances"])
def test_an_export_takes_as_many_statements_whatever_its_size(organization, kind):
    Imports(organization).run("loyaltyMemberId\nm-1\n")
    few = count(organization.api.engine, lambda: exported(organization, kind))
    Imports(organization).run("loyaltyMemberId\n" + "\n".join(f"n-{n}" for n in range(200)))
    assert count(organization.api.engine, lambda: exported(organization, kind)) == few
