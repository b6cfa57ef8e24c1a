"""Tier floors set by requests, effects and imports: points raise the member above the floor and never below it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.builders import clock
from tests.builders.campaigns import effect, mint
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, running


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def program(shop):
    """The tiers are Member below 500 earned points, Silver from 500 and Gold from 1000."""
    return TierSchedule.new(shop, policy={"basis": "earned"}, Silver=500, Gold=1000)


@pytest.fixture
def end():
    """A moment in 30 days."""
    return (datetime.now(UTC) + timedelta(days=30)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
def imports(organization, program):
    return Imports(organization)


def status(shop, member="ana"):
    """(tier, tier hold, True if points do not decide the tier, next tier, points that are missing to it)."""
    [entry] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["tierStatus"]
    next_tier = entry.get("nextTier", {})
    current_tier = entry["tier"]["name"], entry["tierHold"], entry["isManual"]
    return *current_tier, next_tier.get("name"), next_tier.get("missingPoints")


def test_an_imported_tier_is_a_floor_that_points_exceed(shop, imports, program):
    members_import = imports.run("loyaltyMemberId,tier\nana,Silver\n")
    assert status_read_done_failed(members_import) == ("done", 1, 1, 0)
    assert status(shop) == ("Silver", "floor", True, "Gold", 1000)
    start_of_tier = shop.rows("member_tiers", "created_at")
    shop.give("ana", 600)
    # The points give Silver as well.
    assert status(shop) == ("Silver", "floor", False, "Gold", 1000 - 600)
    assert shop.rows("member_tiers", "created_at") == start_of_tier
    shop.give("ana", 400)
    assert status(shop) == ("Gold", "floor", False, None, None)
    assert program.moves("ana") == [("member-tier-set", "Basic", "Silver"), ("member-tier-set", "Silver", "Gold")]


def test_the_event_about_a_fall_to_the_floor_is_manual(shop):
    program = TierSchedule.new(shop, policy={"basis": "balance"}, Silver=500, Gold=1000)
    member = shop.member(loyaltyMemberId="ana")
    program.set(member, "Silver", tierHold="floor")
    shop.give(member, 1000)
    shop.take(member, 900)
    # 100 points are below Silver.
    assert status(shop) == ("Silver", "floor", True, "Gold", 1000 - 100)
    rows = shop.rows("events", "event_type, payload", order="loyalty_event_id")
    payloads = [row.payload for row in rows if row.event_type == "member-tier-set"]
    assert [(program.name(payload["loyaltyTierId"]), payload["isManual"]) for payload in payloads] == [
        ("Silver", True),
        ("Gold", False),
        ("Silver", True),
    ]


def test_points_decide_the_tier_after_the_end_of_a_floor(shop, imports, program, monkeypatch, end):
    imports.run(f"loyaltyMemberId,tier,tierExpiresAt\nana,Gold,{end}\n")
    shop.give("ana", 700)
    assert status(shop) == ("Gold", "floor", True, None, None)
    assert program.entry("ana")["expiresAt"] == end
    clock.install_clock(monkeypatch).wait(days=30)
    assert status(shop) == ("Silver", None, False, "Gold", 1000 - 700)


def test_points_do_not_change_a_fixed_tier(shop, imports):
    imports.run("loyaltyMemberId,tier,tierHold\nana,Silver,fixed\n")
    shop.give("ana", 6000)
    assert status(shop) == ("Silver", "fixed", True, None, None)


def test_an_imported_floor_raises_only_members_whose_points_reach_a_lower_tier(shop, imports):
    shop.member(loyaltyMemberId="ana")
    shop.member(loyaltyMemberId="ben")
    shop.give("ana", 2000)
    members_import = imports.run("loyaltyMemberId,tier,tierHold\nana,Silver,\nben,Silver,floor\n", mode="upsert")
    assert status_read_done_failed(members_import) == ("done", 2, 2, 0), imports.errors(members_import)
    assert status(shop) == ("Gold", "floor", False, None, None)
    assert status(shop, "ben") == ("Silver", "floor", True, "Gold", 1000)


def test_rows_with_invalid_tier_holds_fail(imports):
    members_import = imports.run("loyaltyMemberId,tier,tierHold\nana,,floor\nben,Silver,ceiling\ncora,Silver,FLOOR\n")
    assert imports.errors(members_import) == [
        (2, "tierHold", "tierHold needs a tier."),
        (3, "tierHold", "tierHold is neither floor nor fixed."),
        (4, "tierHold", "tierHold is neither floor nor fixed."),
    ]


def test_a_request_replaces_the_earlier_tier_hold(shop, program):
    member = shop.member(loyaltyMemberId="ana")
    shop.give(member, 1000)
    assert program.set(member, "Silver", tierHold="floor") == {"loyaltyTierKey": program.key("Gold")}
    assert status(shop) == ("Gold", "floor", False, None, None)
    [tracking] = shop.rows("member_tier_trackings")
    assert (tracking.loyalty_tier_id, tracking.answered_tier_id) == (program.id("Silver"), program.id("Gold"))
    assert program.set(member, "Silver") == {"loyaltyTierKey": program.key("Silver")}
    assert status(shop) == ("Silver", "fixed", True, None, None)
    program.set(member)
    assert status(shop) == ("Gold", None, False, None, None)


def test_a_request_with_another_tier_hold_is_not_a_repetition(shop, program):
    member = shop.member(loyaltyMemberId="ana")
    # The default is fixed, so these are repetitions.
    for hold in ({}, {"tierHold": "fixed"}, {"tierHold": None}):
        program.set(member, "Silver", systemUniqueKey="a", **hold)
    problem = program.set(member, "Silver", systemUniqueKey="a", tierHold="floor", expect=409)
    assert problem["type"] == "/problems/key-reused"
    program.set(member, "Silver", systemUniqueKey="b", tierHold="floor")
    program.set(member, "Silver", systemUniqueKey="b", tierHold="floor")
    assert len(shop.rows("member_tier_trackings")) == 2


def test_a_tier_hold_without_a_tier_is_refused(shop, program):
    member = shop.member(loyaltyMemberId="ana")
    problem = program.set(member, expect=400, tierHold="floor")
    assert [(fault["pointer"], fault["detail"]) for fault in problem["errors"]] == [
        ("/tierHold", "tierHold needs a tier.")
    ]


def test_an_effect_sets_a_floor_which_a_cancellation_removes(shop, program):
    member = shop.member(loyaltyMemberId="ana")
    keys = {"loyaltyProgramKey": program.program["loyaltyProgramKey"], "loyaltyTierKey": program.key("Silver")}
    shop.campaign(running(effect("set-tier", tierHold="floor", **keys)), eventType=GENERIC)
    track_result = shop.track_one(event(member))
    assert status(shop) == ("Silver", "floor", True, "Gold", 1000)
    shop.give(member, 1000)
    assert status(shop) == ("Gold", "floor", False, None, None)
    # A cancellation keeps later points.
    shop.give(member, 1)
    shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert status(shop) == ("Gold", None, False, None, None)


def test_an_unknown_tier_hold_in_a_campaign_is_refused(shop, program):
    keys = {"loyaltyProgramKey": program.program["loyaltyProgramKey"], "loyaltyTierKey": program.key("Silver")}
    campaign = shop.campaign(running(mint(1)), eventType=GENERIC)
    path = f"/campaigns/{campaign['campaignId']}/actions"
    problem = shop.administration.post(path, running(effect("set-tier", tierHold="ceiling", **keys)), expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/effects/items/0/params/0/value"]


def test_a_revert_of_points_lowers_the_member_to_the_floor_and_not_below(shop, program):
    member = shop.member(loyaltyMemberId="ana")
    program.set(member, "Silver", tierHold="floor")
    transaction = shop.give(member, 1500)
    assert status(shop)[:3] == ("Gold", "floor", False)
    path = f"/ledgers/{transaction['ledgerId']}/accounts/{transaction['ledgerAccountId']}"
    shop.administration.post(f"{path}/transactions/{transaction['ledgerTransactionId']}/revert", {}, expect=200)
    assert status(shop) == ("Silver", "floor", True, "Gold", 1000)


def test_an_exported_floor_is_imported_unchanged(api, organization, shop, imports, program, end):
    imports.run(f"loyaltyMemberId,tier,tierExpiresAt,tierHold\nana,Silver,{end},\nben,Gold,,fixed\ncora,Silver,,\n")
    shop.give("cora", 1200)
    lines = exported_lines(organization)
    rows = [json.loads(line) for line in lines]
    # The points of Cora give Gold, but the export has her floor.
    assert [(row["loyaltyMemberId"], row["tier"], row.get("tierExpiresAt"), row["tierHold"]) for row in rows] == [
        ("ana", "Silver", end, "floor"),
        ("ben", "Gold", None, "fixed"),
        ("cora", "Silver", None, "floor"),
    ]
    importing_shop = Shop(api.organization())
    TierSchedule.new(importing_shop, policy={"basis": "earned"}, Silver=500, Gold=1000)
    members_import = Imports(importing_shop.organization).run("".join(lines), file_format="ndjson")
    assert members_import["status"] == "done"
    assert exported_lines(importing_shop.organization) == lines


def test_the_timeline_has_a_row_for_the_import_of_a_tier(shop, imports, program, end):
    shop.campaign(running(mint(5)), eventType="member-tier-set")
    imports.run(f"loyaltyMemberId,tier,tierExpiresAt\nana,Silver,{end}\nben,,\n")
    [row] = shop.integration.get("/members/ana/timeline", kinds="tier")["results"]
    assert row["text"] == f"The tier in Default changed from Member to Silver until {end[:10]}: import."
    assert (row["tier"]["loyaltyTierId"], row["tier"]["isManual"]) == (program.id("Silver"), True)
    assert shop.integration.get("/members/ben/timeline", kinds="tier")["results"] == []
    # The import reports no events, so the campaign gives nothing.
    assert (shop.balance("ana"), shop.rows("trigger_deliveries")) == (0, [])
    imports.run("loyaltyMemberId,tier\nana,Gold\n", mode="upsert")
    rows = shop.integration.get("/members/ana/timeline", kinds="tier")["results"]
    assert [row["text"] for row in rows] == [
        "The tier in Default changed from Silver to Gold: import.",
        f"The tier in Default changed from Member to Silver until {end[:10]}: import.",
    ]


def test_an_import_that_emits_events_reports_its_tiers(shop, imports, program):
    shop.campaign(running(mint(5)), eventType="member-tier-set", loyaltyTierKeys=[program.key("Gold")])
    imports.run("loyaltyMemberId,tier\nana,Gold\nben,Silver\n", emitEvents=True)
    assert (shop.balance("ana"), shop.balance("ben")) == (5, 0)
    assert program.moves("ana") == [("member-tier-set", "Basic", "Gold")]


def test_administrators_set_tier_holds_by_member_id_and_by_loyalty_member_id(shop, program):
    member_id = shop.organization.member("ana")["memberId"]
    program_id, silver = program.program["loyaltyProgramId"], program.id("Silver")
    shop.give("ana", 1000)
    path = f"/members/{member_id}/loyalty-programs/{program_id}/tier"
    # The 1000 points give Gold, which is above the floor.
    response = shop.administration.put(path, {"loyaltyTierId": silver, "tierHold": "floor"})
    assert response["loyaltyTierId"] == program.id("Gold")
    body = {"loyaltyTierId": silver, "loyaltyProgramId": program_id, "tierHold": "fixed"}
    response = shop.administration.put("/members/by-loyalty-member-id/ana/tier", body)
    assert response["loyaltyTierId"] == silver
    assert status(shop) == ("Silver", "fixed", True, None, None)
    [newest_entry, _older_entry] = shop.administration.get("/audit-log", entityType="member-tier")["results"]
    assert newest_entry["changes"]["tierHold"] == {"from": None, "to": "fixed"}
