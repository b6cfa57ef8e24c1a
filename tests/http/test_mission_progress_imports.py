"""Progress in missions that is imported from files and exported to them."""

from __future__ import annotations

import json

import pytest

from tests.builders.exports import exported
from tests.builders.imports import Imports, counts
from tests.builders.missions import advance, create, member_id_of, reported, times_and_count
from tests.builders.tracking import Shop, event
from tests.builders.triggers import add_trigger

HEADER = "loyaltyMemberId,mission,count,timesAchieved\n"


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def coffees(shop):
    """A mission of ten coffees that gives 50 points, and a member."""
    shop.member(loyaltyMemberId="ana")
    return create(shop, name="Coffees", code="ten-coffees", goalCount=10, pointsAccrual=50)


def run(shop, *rows, **options):
    """The import of rows, and its faults."""
    imports = Imports(shop.organization)
    progress_import = imports.run(HEADER + "\n".join(rows) + "\n", kind="mission-progress", **options)
    return counts(progress_import)[2:], imports.errors(progress_import)


@pytest.mark.parametrize("name", ["Coffees", "ten-coffees", "key", "KEY"])
def test_imported_counts_are_completed_and_paid_once(shop, coffees, name):
    key = coffees["missionKey"]
    mission_name = {"key": key, "KEY": key.upper()}.get(name, name)
    assert run(shop, f"ana,{mission_name},7,2") == ((1, 0), [])
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana"), reported(shop, "ana")) == ((2, 7), 0, [])
    for _ in range(3):
        shop.track_one(event("ana"))
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana"), len(reported(shop, "ana"))) == ((3, 10), 50, 1)


def test_an_import_that_emits_events_reports_no_achievements(shop, coffees):
    add_trigger(shop.administration)
    assert run(shop, "ana,Coffees,10,1", emitEvents=True) == ((1, 0), [])
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana"), reported(shop, "ana")) == ((1, 10), 0, [])
    assert shop.rows("trigger_deliveries") == []


def test_faults_are_those_of_their_rows(shop, coffees):
    create(shop, name="Twice")
    create(shop, name="Twice")
    create(shop, name="Tea", code="Twice")
    create(shop, name="ten-coffees")
    rows = ["ana,Coffees,10,0", "ana,Coffees,11,1", "ana,Coffees,-1,", "ana,Coffees,1,-1", "ana,Cakes,1,"]
    rows += ["ana,Twice,1,", "ana,ten-coffees,1,", "eva,Coffees,1,", "ana,Coffees,1.5,", ",Coffees,1,"]
    assert run(shop, *rows) == (
        (0, 10),
        [
            (2, "count", "count is 10, not between 0 and 9; the mission has the goal 10."),
            (3, "count", "count is 11, not between 0 and 10; the mission has the goal 10."),
            (4, "count", "count is -1, not between 0 and 9; the mission has the goal 10."),
            (5, "timesAchieved", "timesAchieved is -1, not between 0 and 9000000000."),
            (6, "mission", "There is no mission Cakes."),
            (7, "mission", "Several missions are called Twice. Name the key."),
            (8, "mission", "Several missions are called ten-coffees. Name the key."),
            (9, "loyaltyMemberId", "There is no member eva."),
            (10, "count", "count is not a whole number."),
            (11, "loyaltyMemberId", "loyaltyMemberId is missing."),
        ],
    )


def test_existing_progress_fails_the_row_or_is_replaced(shop, coffees):
    advance(shop, "ana", coffees["missionId"], 23)
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((2, 3), 100)
    expected_faults = [(2, "mission", "The member has progress in the mission Coffees.")]
    assert run(shop, "ana,Coffees,7,0") == ((0, 1), expected_faults)
    assert run(shop, "ana,Coffees,7,0", mode="upsert") == ((1, 0), [])
    assert run(shop, "ana,Coffees,7,0", mode="upsert") == ((1, 0), [])
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((0, 7), 100)
    assert run(shop, "ana,Coffees,,", mode="upsert") == ((1, 0), [])
    assert run(shop, "ana,Coffees,1,", "ana,Coffees,2,") == (
        (1, 1),
        [(3, "mission", "The member has progress in the mission Coffees.")],
    )
    assert times_and_count(shop, "ana", coffees) == (0, 1)


def test_imported_achievements_do_not_count_in_the_present_period(shop):
    shop.member(loyaltyMemberId="ana")
    mission = create(shop, name="Week", goalCount=1, repetitionPeriod="weekly", periodLimit=1, pointsAccrual=5)
    assert run(shop, "ana,Week,1,4") == ((1, 0), [])
    path = f"/members/{member_id_of(shop, 'ana')}/missions"
    assert [entry["name"] for entry in shop.administration.get(path, available=True)["results"]] == ["Week"]
    shop.track(event("ana"), event("ana"))
    assert (times_and_count(shop, "ana", mission), shop.balance("ana")) == ((5, 1), 5)
    assert shop.administration.get(path, available=True)["results"] == []


def test_a_dry_run_reports_faults_and_changes_nothing(shop, coffees):
    assert run(shop, "ana,Coffees,7,", "ana,Coffees,99,", dryRun=True)[0] == (1, 1)
    assert times_and_count(shop, "ana", coffees) == (0, 0)
    assert shop.rows("mission_trackings") == []


def test_counts_after_an_import_can_be_cancelled(shop, coffees):
    run(shop, "ana,Coffees,9,0")
    tracked = shop.track_one(event("ana"))
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((1, 10), 50)
    shop.integration.post(f"/events/{tracked['loyaltyEventKey']}/cancel", {}, expect=200)
    assert (times_and_count(shop, "ana", coffees), shop.balance("ana")) == ((0, 9), 0)


def test_cancelling_an_event_whose_count_an_import_removed_keeps_counts_at_zero(shop, coffees):
    tracked = shop.track_one(event("ana"))
    run(shop, "ana,Coffees,5,2", mode="upsert")
    run(shop, "ana,Coffees,0,0", mode="upsert")
    shop.integration.post(f"/events/{tracked['loyaltyEventKey']}/cancel", {}, expect=200)
    assert times_and_count(shop, "ana", coffees) == (0, 0)


def test_the_timeline_has_a_row_for_the_import(shop, coffees):
    run(shop, "ana,Coffees,7,2")
    [row] = shop.integration.get("/members/ana/timeline", kinds="mission")["results"]
    assert row["text"] == "The progress in the mission Coffees was imported."
    assert (row["mission"]["counted"], row["mission"]["achieved"], row["by"]) == (27, 2, None)


@pytest.mark.parametrize(("path", "role"), [("/imports", "campaigns:write"), ("/exports", "campaigns:read")])
def test_an_import_and_an_export_need_a_role_for_missions(organization, path, role):
    body = {"kind": "mission-progress", **({"format": "csv"} if path == "/imports" else {})}
    resource_role = f"{path[1:]}:write"
    surface = organization.administration.with_token(organization.token_of(resource_role, "members:write"))
    assert surface.post(path, body, expect=403)["type"] == "/problems/forbidden"
    organization.administration.with_token(organization.token_of(resource_role, role)).post(path, body)


def test_exported_progress_is_imported_unchanged(api, shop, organization, coffees):
    other = Shop(api.organization())
    for store in (shop, other):
        create(store, name="Three times")
    tea = create(shop, name="ten-coffees")
    create(other, name="Coffees", goalCount=10)
    shop.member(loyaltyMemberId="ben")
    for name in ("ana", "ben"):
        other.member(loyaltyMemberId=name)
    shop.track(event("ana"), event("ana"), event("ana"), event("ana"), event("ben"))
    lines = exported(organization, "mission-progress")
    others = [line for line in lines if tea["missionKey"] in line]
    assert [tuple(json.loads(line).values())[2:] for line in others] == [(1, 1), (1, 0)]
    lines = [line for line in lines if line not in others]
    assert [tuple(json.loads(line).values()) for line in lines] == [
        ("ana", "Coffees", 4, 0),
        ("ana", "Three times", 1, 1),
        ("ben", "Coffees", 1, 0),
        ("ben", "Three times", 1, 0),
    ]
    progress_import = Imports(other.organization).run("".join(lines), kind="mission-progress", file_format="ndjson")
    assert counts(progress_import)[2:] == (4, 0)
    assert exported(other.organization, "mission-progress") == lines
    other.check_ledger()


def test_counts_that_a_reversal_left_unrewarded_are_rewarded_after_their_import(api, shop, organization):
    other = Shop(api.organization())
    for store in (shop, other):
        store.member(loyaltyMemberId="ana")
    mission, elsewhere = (create(store, name="Two", goalCount=2, pointsAccrual=5) for store in (shop, other))
    results = shop.track(event("ana"), event("ana"), event("ana"))
    shop.integration.post(f"/events/{results[1]['loyaltyEventKey']}/cancel", {}, expect=200)
    assert times_and_count(shop, "ana", mission) == (0, 2)
    lines = exported(organization, "mission-progress")
    assert json.loads(lines[0]) == {"loyaltyMemberId": "ana", "mission": "Two", "count": 1, "timesAchieved": 0}
    Imports(other.organization).run("".join(lines), kind="mission-progress", file_format="ndjson")
    other.track_one(event("ana"))
    assert (times_and_count(other, "ana", elsewhere), other.balance("ana")) == ((1, 2), 5)
