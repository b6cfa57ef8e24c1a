"""Imports and exports of the progress in missions."""

from __future__ import annotations

import json

import pytest

from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.missions import achievement_events, advance, create, member_id_of, times_and_count
from tests.builders.tracking import Shop, event
from tests.builders.triggers import add_trigger

HEADER = "loyaltyMemberId,mission,count,timesAchieved\n"


@pytest.fixture
def shop(organization):
    """A shop whose ledger is verified after the test."""
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def coffees(shop):
    """A mission with the goal 10 that gives 50 points; the shop has the member ana."""
    shop.member(loyaltyMemberId="ana")
    return create(shop, name="Coffees", code="ten-coffees", goalCount=10, pointsAccrual=50)


def import_rows(shop, *rows, **options):
    """Import rows of member, mission, count and timesAchieved.

    Returns the numbers of rows that were done and that failed, and the faults.
    """
    imports = Imports(shop.organization)
    progress_import = imports.run(HEADER + "\n".join(rows) + "\n", kind="mission-progress", **options)
    return status_read_done_failed(progress_import)[2:], imports.errors(progress_import)


@pytest.mark.parametrize("name", ["Coffees", "ten-coffees", "key", "KEY"])
def test_events_after_an_import_complete_the_count_and_only_their_achievement_is_rewarded(shop, coffees, name):
    key = coffees["missionKey"]
    mission_name = {"key": key, "KEY": key.upper()}.get(name, name)
    assert import_rows(shop, f"ana,{mission_name},7,2") == ((1, 0), [])
    assert times_and_count(shop, "ana", coffees) == (2, 7)
    assert (shop.balance("ana"), achievement_events(shop, "ana")) == (0, [])
    # 7 + 3 = 10, the goal.
    for _ in range(3):
        shop.track_one(event("ana"))
    assert times_and_count(shop, "ana", coffees) == (3, 10)
    assert (shop.balance("ana"), len(achievement_events(shop, "ana"))) == (50, 1)


def test_an_import_that_emits_events_reports_no_achievements(shop, coffees):
    add_trigger(shop.administration)
    assert import_rows(shop, "ana,Coffees,10,1", emitEvents=True) == ((1, 0), [])
    assert times_and_count(shop, "ana", coffees) == (1, 10)
    assert (shop.balance("ana"), achievement_events(shop, "ana")) == (0, [])
    assert shop.rows("trigger_deliveries") == []


def test_each_row_with_a_fault_is_reported_with_its_line(shop, coffees):
    # A name that several missions have, and names that are the code of another mission.
    create(shop, name="Twice")
    create(shop, name="Twice")
    create(shop, name="Tea", code="Twice")
    create(shop, name="ten-coffees")
    rows = ["ana,Coffees,10,0", "ana,Coffees,11,1", "ana,Coffees,-1,", "ana,Coffees,1,-1", "ana,Cakes,1,"]
    rows += ["ana,Twice,1,", "ana,ten-coffees,1,", "eva,Coffees,1,", "ana,Coffees,1.5,", ",Coffees,1,"]
    assert import_rows(shop, *rows) == (
        (0, 10),
        [
            (2, "count", "count is 10, not between 0 and 9; the mission has the goal 10."),
            (3, "count", "count is 11, not between 0 and 10; the mission has the goal 10."),
            (4, "count", "count is -1, not between 0 and 9; the mission has the goal 10."),
            (5, "timesAchieved", "timesAchieved is -1, not between 0 and 9000000000."),
            (6, "mission", "There is no mission Cakes."),
            (7, "mission", "Several missions are called Twice; use the key instead of the name."),
            (8, "mission", "Several missions are called ten-coffees; use the key instead of the name."),
            (9, "loyaltyMemberId", "There is no member eva."),
            (10, "count", "count is not a whole number."),
            (11, "loyaltyMemberId", "loyaltyMemberId is missing."),
        ],
    )


def test_a_row_about_existing_progress_fails_or_in_the_mode_upsert_replaces_it(shop, coffees):
    # The goal of 10 twice, and 3.
    advance(shop, "ana", coffees["missionId"], amount=23)
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((2, 3), 2 * 50)
    expected_faults = [(2, "mission", "The member has progress in the mission Coffees.")]
    assert import_rows(shop, "ana,Coffees,7,0") == ((0, 1), expected_faults)
    assert import_rows(shop, "ana,Coffees,7,0", mode="upsert") == ((1, 0), [])
    assert import_rows(shop, "ana,Coffees,7,0", mode="upsert") == ((1, 0), [])
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((0, 7), 100)
    # Empty cells remove the progress, so that a row can be imported again, but not two.
    assert import_rows(shop, "ana,Coffees,,", mode="upsert") == ((1, 0), [])
    assert import_rows(shop, "ana,Coffees,1,", "ana,Coffees,2,") == (
        (1, 1),
        [(3, "mission", "The member has progress in the mission Coffees.")],
    )
    assert times_and_count(shop, "ana", coffees) == (0, 1)


def test_imported_achievements_do_not_count_in_the_present_period(shop):
    shop.member(loyaltyMemberId="ana")
    mission = create(shop, name="Week", goalCount=1, repetitionPeriod="weekly", periodLimit=1, pointsAccrual=5)
    assert import_rows(shop, "ana,Week,1,4") == ((1, 0), [])
    path = f"/members/{member_id_of(shop, 'ana')}/missions"
    assert [entry["name"] for entry in shop.administration.get(path, available=True)["results"]] == ["Week"]
    # Only the first of two events achieves the mission, which is limited to once a week.
    shop.track(event("ana"), event("ana"))
    assert (times_and_count(shop, "ana", mission), shop.balance("ana")) == ((4 + 1, 1), 5)
    assert shop.administration.get(path, available=True)["results"] == []


def test_a_dry_run_reports_faults_and_changes_nothing(shop, coffees):
    assert import_rows(shop, "ana,Coffees,7,", "ana,Coffees,99,", dryRun=True)[0] == (1, 1)
    assert times_and_count(shop, "ana", coffees) == (0, 0)
    assert shop.rows("mission_trackings") == []


def test_counts_after_an_import_can_be_cancelled(shop, coffees):
    import_rows(shop, "ana,Coffees,9,0")
    track_result = shop.track_one(event("ana"))
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((1, 10), 50)
    shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((0, 9), 0)


def test_a_cancelled_event_whose_count_an_import_replaced_leaves_the_count_at_0(shop, coffees):
    track_result = shop.track_one(event("ana"))
    import_rows(shop, "ana,Coffees,5,2", mode="upsert")
    import_rows(shop, "ana,Coffees,0,0", mode="upsert")
    shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert times_and_count(shop, "ana", coffees) == (0, 0)


def test_the_timeline_has_a_row_for_the_import(shop, coffees):
    import_rows(shop, "ana,Coffees,7,2")
    [row] = shop.integration.get("/members/ana/timeline", kinds="mission")["results"]
    assert row["text"] == "The progress in the mission Coffees was imported."
    # Two achievements of 10, and 7.
    assert (row["mission"]["counted"], row["mission"]["achieved"], row["by"]) == (2 * 10 + 7, 2, None)


@pytest.mark.parametrize(("path", "role"), [("/imports", "campaigns:write"), ("/exports", "campaigns:read")])
def test_an_import_and_an_export_need_a_role_for_missions(organization, path, role):
    body = {"kind": "mission-progress", **({"format": "csv"} if path == "/imports" else {})}
    resource_role = f"{path[1:]}:write"
    surface = organization.administration.with_token(organization.token_of(resource_role, "members:write"))
    assert surface.post(path, body, expect=403)["type"] == "/problems/forbidden"
    organization.administration.with_token(organization.token_of(resource_role, role)).post(path, body)


def test_exported_progress_is_imported_unchanged(api, shop, organization, coffees):
    target_shop = Shop(api.organization())
    for shop_of_test in (shop, target_shop):
        create(shop_of_test, name="Three times")
    # The name of this mission is the code of another one, so that it is exported by its key.
    tea = create(shop, name="ten-coffees")
    create(target_shop, name="Coffees", goalCount=10)
    shop.member(loyaltyMemberId="ben")
    for name in ("ana", "ben"):
        target_shop.member(loyaltyMemberId=name)
    shop.track(event("ana"), event("ana"), event("ana"), event("ana"), event("ben"))
    lines = exported_lines(organization, "mission-progress")
    tea_lines = [line for line in lines if tea["missionKey"] in line]
    # The count and timesAchieved.
    assert [tuple(json.loads(line).values())[2:] for line in tea_lines] == [(1, 1), (1, 0)]
    lines = [line for line in lines if line not in tea_lines]
    assert [tuple(json.loads(line).values()) for line in lines] == [
        ("ana", "Coffees", 4, 0),
        ("ana", "Three times", 1, 1),
        ("ben", "Coffees", 1, 0),
        ("ben", "Three times", 1, 0),
    ]
    progress_import = Imports(target_shop.organization).run(
        "".join(lines), kind="mission-progress", file_format="ndjson"
    )
    assert status_read_done_failed(progress_import)[2:] == (4, 0)
    assert exported_lines(target_shop.organization, "mission-progress") == lines
    target_shop.check_ledger()


def test_a_full_count_without_an_achievement_is_exported_as_one_less(api, shop, organization):
    target_shop = Shop(api.organization())
    for shop_of_test in (shop, target_shop):
        shop_of_test.member(loyaltyMemberId="ana")
    mission, target_mission = (
        create(shop_of_test, name="Two", goalCount=2, pointsAccrual=5) for shop_of_test in (shop, target_shop)
    )
    results = shop.track(event("ana"), event("ana"), event("ana"))
    shop.integration.post(f"/events/{results[1]['loyaltyEventKey']}/cancel", {}, expect=200)
    # The goal of 2 is reached, but the event that achieved it is cancelled.
    assert times_and_count(shop, "ana", mission) == (0, 2)
    lines = exported_lines(organization, "mission-progress")
    assert json.loads(lines[0]) == {"loyaltyMemberId": "ana", "mission": "Two", "count": 1, "timesAchieved": 0}
    Imports(target_shop.organization).run("".join(lines), kind="mission-progress", file_format="ndjson")
    # The next event achieves the imported mission and is rewarded.
    target_shop.track_one(event("ana"))
    assert (times_and_count(target_shop, "ana", target_mission), target_shop.balance("ana")) == ((1, 2), 5)
