"""Time zones of organizations, campaigns, missions and referral programs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from handlers.services.organizations.create import create_organization
from persistence import transactions
from tests.builders import missions
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, Shop, event, running

# In Los Angeles the 8th of March 2026, a Sunday, has 23 hours, from 08:00Z to 07:00Z, and the 1st of November 25.
LOS_ANGELES = "America/Los_Angeles"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def move(shop, zone, expect=200):
    """Give the organization a time zone."""
    return shop.administration.put("", {"defaultLocale": "en", "timezone": zone}, expect=expect)


def at(shop, member, moment):
    """Track an event that happened at a moment; what the member has then."""
    shop.track_one(event(member, externalEventDate=moment))
    return shop.balance(member)


def test_an_organization_has_a_zone(shop):
    assert shop.administration.get("")["organization"]["timezone"] == "UTC"
    assert move(shop, LOS_ANGELES)["organization"]["timezone"] == LOS_ANGELES
    assert shop.administration.put("", {"defaultLocale": "en"})["organization"]["timezone"] == LOS_ANGELES
    assert shop.administration.get("")["organization"]["timezone"] == LOS_ANGELES
    assert move(shop, None)["organization"]["timezone"] == "UTC"


def test_an_organization_is_created_in_a_zone(api, db):
    now = datetime.now(UTC)
    made = transactions.run(api.engine, lambda db: create_organization(db, name="A", now=now, timezone=LOS_ANGELES))
    found = text("SELECT timezone FROM organizations WHERE organization_id = :id")
    assert db.execute(found, {"id": made.organization_id}).scalar() == LOS_ANGELES


@pytest.mark.parametrize("zone", ["Mars/Olympus", "america/los_angeles", "+03:00", "", "../UTC"])
def test_zones_that_are_none_are_refused(shop, zone):
    program = {"name": "P", "active": True, "maxPerCode": 1, "code": "p", "eventType": "member-created"}
    a = shop.administration
    for problem in (
        move(shop, zone, expect=400),
        a.post("/campaigns", {"code": "c", "name": "c", "timezone": zone}, expect=400),
        a.post("/missions", missions.body(timezone=zone), expect=400),
        a.post("/referral-programs", {**program, "timezone": zone}, expect=400),
    ):
        assert [error["pointer"] for error in problem["errors"]] == ["/timezone"]


def test_weekends_are_those_of_the_organization_or_the_campaign(shop, member):
    move(shop, LOS_ANGELES)
    shop.campaign(running(mint(1)), eventType=GENERIC, daysOfWeek=[7])
    shop.campaign(running(mint(10)), eventType=GENERIC, daysOfWeek=[7], timezone="UTC")
    assert at(shop, member, "2026-03-08T07:59:59Z") == 10
    assert at(shop, member, "2026-03-08T08:00:00Z") == 21
    assert at(shop, member, "2026-03-09T06:59:59Z") == 22
    assert at(shop, member, "2026-03-09T07:00:00Z") == 22


def test_limits_count_days_of_23_and_25_hours_and_months_of_the_zone(shop, member):
    shop.campaign(
        running(mint(1)),
        eventType=GENERIC,
        timezone=LOS_ANGELES,
        limitRules=[
            {"scope": "member", "type": "transactions", "period": "daily", "limit": 1},
            {"scope": "campaign", "type": "points", "period": "monthly", "limit": 2},
        ],
    )
    # Two moments of one day of UTC, which are two days there.
    given = [event(member, externalEventDate=f"2026-03-08T0{hour}:00:00Z") for hour in (7, 8)]
    assert [each["effects"][0]["status"] for each in shop.track(*given)] == ["executed", "executed"]
    assert at(shop, member, "2026-03-09T06:59:59Z") == 2
    assert at(shop, member, "2026-03-09T07:00:00Z") == 2  # the month is used up
    assert at(shop, member, "2026-04-01T06:59:59Z") == 2
    assert at(shop, member, "2026-04-01T07:00:00Z") == 3
    assert at(shop, member, "2026-11-01T06:59:59Z") == 4
    assert at(shop, member, "2026-11-01T07:00:00Z") == 5
    assert at(shop, member, "2026-11-02T07:59:59Z") == 5
    assert at(shop, member, "2026-11-02T08:00:00Z") == 6


def test_a_zone_that_changes_counts_from_the_next_event_on(shop, member):
    shop.campaign(running(mint(1)), eventType=GENERIC, daysOfWeek=[7])
    assert at(shop, member, "2026-03-08T07:00:00Z") == 1
    move(shop, LOS_ANGELES)
    assert at(shop, member, "2026-03-08T07:00:00Z") == 1


def test_rules_read_times_in_the_zone(shop, member):
    rule = "event.externalEventDate.getDayOfWeek() == 0"
    shop.campaign(running(mint(1), rule=rule), eventType=GENERIC, timezone=LOS_ANGELES)
    shop.campaign(running(mint(10), rule=rule.replace("()", "('UTC')")), eventType=GENERIC, timezone=LOS_ANGELES)
    assert at(shop, member, "2026-03-08T07:59:59Z") == 10
    assert at(shop, member, "2026-03-09T06:59:59Z") == 11
    dry = {**event(member, externalEventDate="2026-03-09T06:59:59Z")}
    [result] = shop.track(dry, executionMode="dryRun")
    assert len(result["effects"]) == 1


def test_rules_always_see_a_date(shop, member):
    dated = "event.externalEventDate == timestamp('2026-03-08T07:00:00Z')"
    shop.campaign(running(mint(1), rule="event.externalEventDate == now"))
    shop.campaign(running(mint(10), rule=dated))
    assert [e["status"] for e in shop.track_one(event(member))["effects"]] == ["executed"]
    assert shop.balance(member) == 1
    assert at(shop, member, "2026-03-08T07:00:00Z") == 11
    order = {"externalId": "order-1", "total": 1, "externalEventDate": "2026-03-08T07:00:00Z"}
    shop.track_one(event(member, "member-purchase-order-created", payload={"order": order}))
    assert shop.balance(member) == 21
    [result] = shop.track(event(member), executionMode="dryRun", now="2026-03-08T07:00:00Z")
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1, 10]


@pytest.mark.parametrize("own", [True, False])
def test_missions_are_repeated_by_days_of_their_zone(shop, member, own):
    zone = {"timezone": LOS_ANGELES} if own else {}
    if not own:
        move(shop, LOS_ANGELES)
    made = missions.create(shop, goalCount=1, repetitionPeriod="daily", periodLimit=1, **zone)
    assert made["timezone"] == (LOS_ANGELES if own else None)
    for moment, times in (
        ("2026-03-08T07:59:59Z", 1),
        ("2026-03-08T08:00:00Z", 2),
        ("2026-03-09T06:59:59Z", 2),
        ("2026-03-09T07:00:00Z", 3),
    ):
        shop.track_one(event(member, externalEventDate=moment))
        assert missions.stand(shop, member, made)[0] == times


def test_missions_are_available_by_days_of_their_zone(shop, member):
    member_id = missions.member_id_of(shop, member)
    made = [
        missions.create(shop, goalCount=1, repetitionPeriod="daily", periodLimit=1, **zone)["missionKey"]
        for zone in ({}, {"timezone": "Pacific/Kiritimati"}, {"timezone": "Pacific/Midway"})
    ]
    available = shop.administration.get(f"/members/{member_id}/missions", available=True)["results"]
    assert {result["missionKey"] for result in available} == set(made)
    shop.track_one(event(member))
    assert shop.administration.get(f"/members/{member_id}/missions", available=True)["results"] == []


def test_dates_without_an_offset_are_local(shop):
    dates = {"validFrom": "2026-03-08T00:00:00", "validTo": "2026-03-09T00:00:00"}
    local = {"validFrom": "2026-03-08T08:00:00Z", "validTo": "2026-03-09T07:00:00Z"}
    program = {"name": "P", "active": True, "maxPerCode": 1, "eventType": "member-created", "timezone": LOS_ANGELES}
    program |= {"validFromDate": dates["validFrom"], "validToDate": "2026-03-09T00:00:00+01:00"}
    a = shop.administration
    made = a.post("/campaigns", {"code": "c", "name": "c", "timezone": LOS_ANGELES, **dates})["campaign"]
    assert {name: made[name] for name in dates} == local
    made = a.post("/referral-programs", {**program, "code": "p"})["referralProgram"]
    assert (made["validFromDate"], made["validToDate"]) == (local["validFrom"], "2026-03-08T23:00:00Z")
    assert made["timezone"] == LOS_ANGELES
    made = a.post("/missions", missions.body(**dates))["mission"]
    assert {name: made[name] for name in dates} == {name: f"{text}Z" for name, text in dates.items()}
    move(shop, LOS_ANGELES)
    made = a.post("/missions", missions.body(**dates))["mission"]
    assert ({name: made[name] for name in dates}, made["timezone"]) == (local, None)
