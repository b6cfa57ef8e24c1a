"""Time zones of organizations, campaigns, missions and referral programs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from handlers.services.organizations.create import create_organization
from persistence import transactions
from tests.builders import missions
from tests.builders.campaigns import mint
from tests.builders.clock import install_clock
from tests.builders.coupons import CouponBooks
from tests.builders.points import Points
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, running

# In Los Angeles the 8th of March 2026, a Sunday, has 23 hours, from 08:00Z to 07:00Z of the next day. The 1st of
# November, also a Sunday, has 25 hours, from 07:00Z to 08:00Z of the next day.
LOS_ANGELES = "America/Los_Angeles"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def set_zone(shop, zone, *, expect=200):
    """Set the time zone of the organization; return the response."""
    return shop.administration.put("", {"defaultLocale": "en", "timezone": zone}, expect=expect)


def balance_after_event_at(shop, member, moment):
    """Track a generic event that happened at a moment; return the member's balance after it."""
    shop.track_one(event(member, externalEventDate=moment))
    return shop.balance(member)


def test_the_zone_of_an_organization_is_utc_until_it_is_set(shop):
    assert shop.administration.get("")["organization"]["timezone"] == "UTC"
    assert set_zone(shop, LOS_ANGELES)["organization"]["timezone"] == LOS_ANGELES
    assert shop.administration.put("", {"defaultLocale": "en"})["organization"]["timezone"] == LOS_ANGELES
    assert shop.administration.get("")["organization"]["timezone"] == LOS_ANGELES
    assert set_zone(shop, None)["organization"]["timezone"] == "UTC"


def test_an_organization_is_created_in_a_zone(api, db):
    now = datetime.now(UTC)
    organization = transactions.run(
        api.engine, lambda db: create_organization(db, name="A", now=now, timezone=LOS_ANGELES)
    )
    query = text("SELECT timezone FROM organizations WHERE organization_id = :id")
    assert db.execute(query, {"id": organization.organization_id}).scalar() == LOS_ANGELES


# Some are files of the time zone database, or depend on the machine.
INVALID_ZONES = ["Mars/Olympus", "america/los_angeles", "+03:00", "", "../UTC"]
INVALID_ZONES += ["localtime", "Factory", "posixrules", "posix/Europe/Madrid", "right/Europe/Madrid"]


@pytest.mark.parametrize("zone", INVALID_ZONES)
def test_unknown_zones_are_refused(shop, zone):
    program = {"name": "P", "active": True, "maxPerCode": 1, "code": "p", "eventType": "member-created"}
    book = {"publishingStatus": "draft", "name": "B", "type": "codeless", "timezone": zone}
    administration = shop.administration
    for problem in (
        set_zone(shop, zone, expect=400),
        administration.post("/campaigns", {"code": "c", "name": "c", "timezone": zone}, expect=400),
        administration.post("/missions", missions.body(timezone=zone), expect=400),
        administration.post("/referral-programs", {**program, "timezone": zone}, expect=400),
        shop.integration.post("/coupon-books", book, expect=400),
    ):
        assert [error["pointer"] for error in problem["errors"]] == ["/timezone"]
    program_id = administration.get("/loyalty-programs")["loyaltyPrograms"][0]["loyaltyProgramId"]
    policy = {"basis": "earned", "period": "calendar", "timezone": zone}
    body = {"description": "Club", "setAsDefault": True, "ledgerId": shop.organization.defaults.ledger_id}
    problem = administration.put(f"/loyalty-programs/{program_id}", {**body, "tierPolicy": policy}, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/tierPolicy/timezone"]
    problem = administration.get("/reports/members-over-time", tz=zone, expect=400)
    assert [error["parameter"] for error in problem["errors"]] == ["tz"]


@pytest.mark.parametrize("zone", ["localtime", "Factory", "posix/Europe/Madrid"])
def test_a_rule_cannot_name_a_file_of_the_time_zone_database(shop, zone):
    campaign = shop.administration.post("/campaigns", {"code": "c", "name": "c"})["campaign"]
    action = running(mint(1), rule=f"event.externalEventDate.getHours('{zone}') == 23")
    problem = shop.administration.post(f"/campaigns/{campaign['campaignId']}/actions", action, expect=400)
    assert problem["detail"] == (
        'rules.expression is not a valid expression: the text is not a time zone such as "Europe/Madrid" or "-03:00".'
    )


def test_days_of_the_week_of_a_campaign_are_in_its_zone_or_that_of_the_organization(shop, member):
    """The first campaign gives 1 on Sundays in Los Angeles, the second 10 on Sundays in UTC, which begin earlier."""
    set_zone(shop, LOS_ANGELES)
    shop.campaign(running(mint(1)), eventType=GENERIC, daysOfWeek=[7])
    shop.campaign(running(mint(10)), eventType=GENERIC, daysOfWeek=[7], timezone="UTC")
    assert balance_after_event_at(shop, member, "2026-03-08T07:59:59Z") == 10
    assert balance_after_event_at(shop, member, "2026-03-08T08:00:00Z") == 10 + 1 + 10
    assert balance_after_event_at(shop, member, "2026-03-09T06:59:59Z") == 21 + 1
    assert balance_after_event_at(shop, member, "2026-03-09T07:00:00Z") == 22


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
    # Two moments of one UTC day that lie on two days in Los Angeles.
    events = [event(member, externalEventDate=f"2026-03-08T0{hour}:00:00Z") for hour in (7, 8)]
    assert [result["effects"][0]["status"] for result in shop.track(*events)] == ["executed", "executed"]
    assert balance_after_event_at(shop, member, "2026-03-09T06:59:59Z") == 2
    assert balance_after_event_at(shop, member, "2026-03-09T07:00:00Z") == 2  # the limit of the month is used up
    # In Los Angeles 1 April begins at 07:00Z. Then 1 November has an event at its begin and none at its end.
    assert balance_after_event_at(shop, member, "2026-04-01T06:59:59Z") == 2
    assert balance_after_event_at(shop, member, "2026-04-01T07:00:00Z") == 3
    assert balance_after_event_at(shop, member, "2026-11-01T06:59:59Z") == 4
    assert balance_after_event_at(shop, member, "2026-11-01T07:00:00Z") == 5
    assert balance_after_event_at(shop, member, "2026-11-02T07:59:59Z") == 5
    assert balance_after_event_at(shop, member, "2026-11-02T08:00:00Z") == 6


def test_calendar_methods_of_rules_and_amounts_are_in_the_zone_of_the_campaign(shop, member):
    set_zone(shop, LOS_ANGELES)
    stars = shop.account(alias="stars", pointTrackingEnabled=True)["ledgerAccountKey"]
    quarter_start_rule = 'event.externalEventDate.startOf("quarter") == timestamp("%s")'
    expiry = ("=", 'event.externalEventDate.addYears(100).endOf("quarter")')
    for zone, start in ((None, "2026-01-01T08:00:00Z"), ("Europe/Madrid", "2025-12-31T23:00:00Z")):
        action = running(mint(1, ledgerAccountKey=stars, expirationDate=expiry), rule=quarter_start_rule % start)
        shop.campaign(action, eventType=GENERIC, timezone=zone)
    track_result = shop.track_one(event(member, externalEventDate="2026-02-10T12:00:00Z"))
    params = [{param["id"]: param["value"] for param in outcome["params"]} for outcome in track_result["effects"]]
    # The first quarter of 2126 ends at midnight in Los Angeles and in Madrid.
    expiries = [params_of_effect["expirationDate"] for params_of_effect in params]
    assert expiries == ["2126-04-01T07:00:00Z", "2126-03-31T22:00:00Z"]


def test_a_changed_zone_applies_from_the_next_event_on(shop, member):
    shop.campaign(running(mint(1)), eventType=GENERIC, daysOfWeek=[7])
    assert balance_after_event_at(shop, member, "2026-03-08T07:00:00Z") == 1
    # There it is still Saturday, so the second event gives nothing.
    set_zone(shop, LOS_ANGELES)
    assert balance_after_event_at(shop, member, "2026-03-08T07:00:00Z") == 1


def test_rules_read_times_in_the_zone_of_the_campaign_unless_they_name_one(shop, member):
    # Day 0 is Sunday.
    sunday_rule = "event.externalEventDate.getDayOfWeek() == 0"
    sunday_in_utc_rule = "event.externalEventDate.getDayOfWeek('UTC') == 0"
    shop.campaign(running(mint(1), rule=sunday_rule), eventType=GENERIC, timezone=LOS_ANGELES)
    shop.campaign(running(mint(10), rule=sunday_in_utc_rule), eventType=GENERIC, timezone=LOS_ANGELES)
    assert balance_after_event_at(shop, member, "2026-03-08T07:59:59Z") == 10
    assert balance_after_event_at(shop, member, "2026-03-09T06:59:59Z") == 10 + 1
    generic_event = event(member, externalEventDate="2026-03-09T06:59:59Z")
    [result] = shop.track(generic_event, executionMode="dryRun")
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1]


def test_rules_see_the_date_of_the_event_or_of_its_order_or_else_the_current_time(shop, member):
    has_the_date = "event.externalEventDate == timestamp('2026-03-08T07:00:00Z')"
    shop.campaign(running(mint(1), rule="event.externalEventDate == now"))
    shop.campaign(running(mint(10), rule=has_the_date))
    assert [effect["status"] for effect in shop.track_one(event(member))["effects"]] == ["executed"]
    assert shop.balance(member) == 1
    assert balance_after_event_at(shop, member, "2026-03-08T07:00:00Z") == 1 + 10
    order = {"externalId": "order-1", "total": 1, "externalEventDate": "2026-03-08T07:00:00Z"}
    shop.track_one(event(member, "member-purchase-order-created", payload={"order": order}))
    assert shop.balance(member) == 11 + 10
    # A dry run can have another current time.
    [result] = shop.track(event(member), executionMode="dryRun", now="2026-03-08T07:00:00Z")
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1, 10]


@pytest.mark.parametrize("has_zone", [True, False], ids=["zone of the mission", "zone of the organization"])
def test_missions_are_repeated_by_days_of_their_zone(shop, member, has_zone):
    zone = {"timezone": LOS_ANGELES} if has_zone else {}
    if not has_zone:
        set_zone(shop, LOS_ANGELES)
    mission = missions.create(shop, goalCount=1, repetitionPeriod="daily", periodLimit=1, **zone)
    assert mission["timezone"] == (LOS_ANGELES if has_zone else None)
    for moment, times in (
        ("2026-03-08T07:59:59Z", 1),
        ("2026-03-08T08:00:00Z", 2),
        ("2026-03-09T06:59:59Z", 2),
        ("2026-03-09T07:00:00Z", 3),
    ):
        shop.track_one(event(member, externalEventDate=moment))
        times_achieved, _count = missions.times_and_count(shop, member, mission)
        assert times_achieved == times


def test_missions_are_available_by_days_of_their_zone(shop, member):
    member_id = missions.member_id_of(shop, member)
    mission_keys = [
        missions.create(shop, goalCount=1, repetitionPeriod="daily", periodLimit=1, **zone)["missionKey"]
        for zone in ({}, {"timezone": "Pacific/Kiritimati"}, {"timezone": "Pacific/Midway"})
    ]
    # UTC, 14 hours ahead of it, and 11 hours behind it. After the event no mission is available on its day.
    available_missions = shop.administration.get(f"/members/{member_id}/missions", available=True)["results"]
    assert {result["missionKey"] for result in available_missions} == set(mission_keys)
    shop.track_one(event(member))
    assert shop.administration.get(f"/members/{member_id}/missions", available=True)["results"] == []


def test_dates_without_an_offset_are_local(shop):
    dates = {"validFrom": "2026-03-08T00:00:00", "validTo": "2026-03-09T00:00:00"}
    dates_in_utc = {"validFrom": "2026-03-08T08:00:00Z", "validTo": "2026-03-09T07:00:00Z"}
    program = {"name": "P", "active": True, "maxPerCode": 1, "eventType": "member-created", "timezone": LOS_ANGELES}
    # Only the first of these dates is without an offset.
    program |= {"validFromDate": dates["validFrom"], "validToDate": "2026-03-09T00:00:00+01:00"}
    administration = shop.administration
    campaign_body = {"code": "c", "name": "c", "timezone": LOS_ANGELES, **dates}
    campaign = administration.post("/campaigns", campaign_body)["campaign"]
    assert {name: campaign[name] for name in dates} == dates_in_utc
    referral_program = administration.post("/referral-programs", {**program, "code": "p"})["referralProgram"]
    assert referral_program["validFromDate"] == dates_in_utc["validFrom"]
    assert referral_program["validToDate"] == "2026-03-08T23:00:00Z"
    assert referral_program["timezone"] == LOS_ANGELES
    # The zone of the organization is UTC, then Los Angeles.
    mission = administration.post("/missions", missions.body(**dates))["mission"]
    assert (mission["validFrom"], mission["validTo"]) == ("2026-03-08T00:00:00Z", "2026-03-09T00:00:00Z")
    set_zone(shop, LOS_ANGELES)
    mission = administration.post("/missions", missions.body(**dates))["mission"]
    assert ({name: mission[name] for name in dates}, mission["timezone"]) == (dates_in_utc, None)


@pytest.fixture
def early_on_monday(monkeypatch):
    """A clock at 02:00 UTC on a Monday, when it is Sunday in Los Angeles."""
    clock = install_clock(monkeypatch)
    now = clock.now()
    monday = now.replace(hour=2, minute=0, second=0) + timedelta(days=8 - now.isoweekday())
    clock.wait(seconds=(monday - now).total_seconds())
    return clock


def test_a_coupon_book_without_a_zone_has_the_days_and_periods_of_the_organization(organization, early_on_monday):
    make = CouponBooks(organization).make
    sunday_book = make(type="codeless", daysOfWeek=[7])
    sunday_in_utc_book = make(type="codeless", daysOfWeek=[7], timezone="UTC")
    once_a_day_book = make(type="codeless", maxUsagesPerPeriod=1, usagePeriodType="daily")
    member = organization.member()["loyaltyMemberId"]

    def call(action, book, *, expect=200, **body):
        """Assign or use a coupon of the member; return the response."""
        path = f"/members/{member}/coupon-books/{book['couponBookKey']}/{action}"
        return organization.integration.post(path, body, expect=expect)

    assert call("assign", sunday_book, expect=409)["type"] == "/problems/coupon-book-day"
    set_zone(Shop(organization), LOS_ANGELES)
    call("assign", sunday_book)
    call("use", sunday_book)
    assert call("assign", sunday_in_utc_book, expect=409)["type"] == "/problems/coupon-book-day"
    call("assign", once_a_day_book, amount=3)
    call("use", once_a_day_book)
    # 06:59 UTC is the same Sunday there, 08:00 UTC is Monday, whether or not summer time is in force.
    early_on_monday.wait(hours=4, minutes=59)
    assert call("use", once_a_day_book, expect=409)["type"] == "/problems/coupon-usage-limit"
    early_on_monday.wait(hours=1, minutes=1)
    call("use", once_a_day_book)


def test_points_expire_by_the_months_of_the_organization(organization, shop):
    points = Points.new(organization, expiresInMonths=1)
    in_january = "2030-01-31T05:30:00Z"
    # In Los Angeles it is 30 January at 21:30. A month later is 28 February at 21:30.
    expiry_by_zone = {"UTC": "2030-02-28T05:30:00Z", LOS_ANGELES: "2030-03-01T05:30:00Z"}
    for zone, expiry in expiry_by_zone.items():
        set_zone(shop, zone)
        wallet = points.wallet()
        points.mint(wallet, 10, externalEventDate=in_january)
        lots = points.wallet_of(wallet, include="lots")["lots"]
        assert [(lot["expiresAt"], lot["available"]) for lot in lots["expiring"]] == [(expiry, 10)]


def test_tiers_count_the_years_of_the_organization(shop):
    TierSchedule.new(shop, policy={"basis": "earned", "period": "calendar"}, Silver=100)
    # In Los Angeles this is still the year before.
    new_year = f"{datetime.now(UTC).year}-01-01T03:00:00Z"
    for zone, expected_points in (("UTC", 100), (LOS_ANGELES, 0)):
        set_zone(shop, zone)
        member = shop.member()
        path = f"/members/by-loyalty-member-id/{member}/mint"
        shop.administration.post(path, {"amount": 100, "externalEventDate": new_year}, expect=200)
        [status] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["tierStatus"]
        assert status["points"] == expected_points


def test_reports_count_the_days_of_the_organization(shop, member):
    set_zone(shop, LOS_ANGELES)
    path = f"/members/by-loyalty-member-id/{member}/mint"
    mint_of_sunday = {"amount": 7, "externalEventDate": "2026-03-09T06:59:59Z", "tags": ["spring"]}
    shop.administration.post(path, mint_of_sunday, expect=200)
    # Two days in Los Angeles, which are parts of three days in UTC.
    two_days = {"sinceFrom": "2026-03-08T08:00:00Z", "sinceTo": "2026-03-10T07:00:00Z", "tag": "spring"}
    days = shop.administration.get("/reports/tag-series", **two_days)["results"]
    assert days == [{"date": "2026-03-08", "amount": 7}, {"date": "2026-03-09", "amount": 0}]
    days_in_utc = shop.administration.get("/reports/tag-series", **two_days, tz="UTC")["results"]
    assert [day["amount"] for day in days_in_utc] == [0, 7, 0]


def test_daily_balances_follow_the_days_of_the_organization(organization, early_on_monday):
    points = Points.new(organization)
    set_zone(Shop(organization), LOS_ANGELES)
    wallet = points.wallet()
    points.mint(wallet, 10)
    sunday = (early_on_monday.now() - timedelta(days=1)).date()
    early_on_monday.wait(days=1)
    points.mint(wallet, 5)
    path = f"{points.ledger_path}/wallets/{wallet}/daily-balances"
    rows = points.admin.get(path, fromDate=str(sunday - timedelta(days=1)))["results"]
    balances = [(row["date"], row["amount"]) for row in rows if row["ledgerAccountId"] == points.account_id]
    assert balances == [
        (str(sunday - timedelta(days=1)), 0),
        (str(sunday), 10),
        (str(sunday + timedelta(days=1)), 10 + 5),
    ]
