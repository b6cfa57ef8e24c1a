"""Hours of campaigns and coupon books over HTTP, and the time zones of locations."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.builders import missions
from tests.builders.campaigns import effect, mint
from tests.builders.clock import install_clock
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running

MADRID = "Europe/Madrid"


def window(day, begin, end):
    """A window of a schedule; day 1 is Monday."""
    return {"day": day, "from": begin, "to": end}


def daily(begin, end):
    """A schedule with the same window on each day of the week."""
    return {"schedule": [window(day, begin, end) for day in range(1, 8)]}


HAPPY_HOURS = daily("15:00", "17:00")
CLOSED = "/problems/coupon-book-hours"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


@pytest.fixture
def ana(shop):
    """The loyaltyMemberId of a new member."""
    return shop.member()


def set_location_timezones(shop, expect=200, **timezones):
    """Set the time zones of these locations; all other locations have none afterwards. Return the response."""
    body = {"defaultLocale": "en", "locationTimezones": timezones}
    return shop.administration.put("", body, expect=expect)


def sale(member, at, location=None):
    """An order of 10 at a moment, at a location or at none."""
    purchase = order(member, 10, externalEventDate=at)
    if location is not None:
        purchase["payload"]["order"]["locationCode"] = location
    return purchase


def applies_at(shop, member, schedule, *moments):
    """Track an event at each of these moments; return for each whether a campaign with this schedule in Madrid applied.

    The campaign mints one point for each event to which it applies.
    """
    shop.campaign(running(mint(1)), eventType=GENERIC, dayOfWeekSchedule=schedule, timezone=MADRID)
    results = shop.track(*(event(member, externalEventDate=moment) for moment in moments))
    assert {result["status"] for result in results} == {"success"}
    return [bool(result["effects"]) for result in results]


# --- when a campaign is open -----------------------------------------------------------------------------------------


def test_happy_hours_follow_the_local_clock_before_and_after_it_changes(shop, ana):
    # The happy hours are from 15:00 to 17:00 in Madrid: from 14:00 UTC in winter, from 13:00 UTC in summer.
    spring = {
        "2026-03-28T14:00:00Z": True,
        "2026-03-29T13:00:00Z": True,
        "2026-03-29T14:59:59Z": True,
        "2026-03-29T15:00:00Z": False,
    }
    autumn = {
        "2026-10-24T13:30:00Z": True,
        "2026-10-24T14:59:59Z": True,
        "2026-10-24T15:00:00Z": False,
        "2026-10-25T13:30:00Z": False,
        "2026-10-25T14:30:00Z": True,
        "2026-10-25T15:00:00Z": True,
        "2026-10-25T16:00:00Z": False,
    }
    applies_by_moment = spring | autumn
    assert applies_at(shop, ana, HAPPY_HOURS, *applies_by_moment) == list(applies_by_moment.values())
    assert shop.balance(ana) == sum(applies_by_moment.values())


def test_a_window_of_friday_night_is_open_on_saturday_morning(shop, ana):
    night = {"schedule": [window(5, "22:00", "02:00")]}
    applies_by_moment = {
        # Saturday, 01:30 in Madrid; Friday, 01:30; and Saturday, 02:00.
        "2026-03-07T00:30:00Z": True,
        "2026-03-06T00:30:00Z": False,
        "2026-03-07T01:00:00Z": False,
    }
    assert applies_at(shop, ana, night, *applies_by_moment) == list(applies_by_moment.values())


def test_a_window_never_opens_in_an_hour_that_clocks_skip_and_opens_twice_in_a_repeated_hour(shop, ana):
    # From 02:00 to 03:00 in Madrid clocks are put forward in spring, and back in autumn.
    moments_of_spring = [f"2026-03-29T{hour:02}:{minute}:00Z" for hour in range(23) for minute in ("00", "30")]
    moments_of_autumn = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]
    applies = applies_at(shop, ana, daily("02:00", "03:00"), *moments_of_spring, *moments_of_autumn)
    assert applies == [False] * len(moments_of_spring) + [True, True]


def test_the_hours_follow_the_clock_of_the_store(shop, ana):
    assert set_location_timezones(shop, LPA="Atlantic/Canary")["organization"]["locationTimezones"] == {
        "LPA": "Atlantic/Canary"
    }
    shop.campaign(running(mint(1)), eventType=ORDER_CREATED, dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)
    # The happy hours from 15:00 to 17:00 are from 13:00 to 15:00 UTC in Madrid, from 14:00 to 16:00 UTC in Las Palmas.
    applies_by_hour = {}
    for hour in (13, 14, 15):
        sales = [sale(ana, f"2026-07-01T{hour}:30:00Z", location) for location in (None, "MAD", "LPA")]
        applies_by_hour[hour] = [bool(result["effects"]) for result in shop.track(*sales)]
    assert applies_by_hour == {13: [True, True, False], 14: [True, True, True], 15: [False, False, True]}
    # From the next event on, the time zone of the campaign applies to the store.
    set_location_timezones(shop)
    assert len(shop.track_one(sale(ana, "2026-07-01T13:30:00Z", "LPA"))["effects"]) == 1
    # One point for each of the 6 sales above to which the campaign applied, and one for the last.
    assert shop.balance(ana) == 6 + 1


def test_days_of_the_week_follow_the_clock_of_the_store_and_limits_that_of_the_campaign(shop, ana):
    set_location_timezones(shop, LPA="Atlantic/Canary")
    shop.campaign(
        running(mint(1)),
        eventType=ORDER_CREATED,
        daysOfWeek=[7],
        timezone=MADRID,
        limitRules=[{"scope": "member", "type": "transactions", "period": "daily", "limit": 1}],
    )
    # The campaign runs on Sundays. 23:30 on Sunday in Las Palmas is Monday in Madrid, also for the daily limit.
    assert shop.track_one(sale(ana, "2026-03-08T23:30:00Z", "LPA"))["effects"][0]["status"] == "executed"
    assert shop.track_one(sale(ana, "2026-03-08T23:30:00Z", "MAD"))["effects"] == []
    # 23:30 and 23:40 on Sunday in Madrid: the limit of that day allows one transaction.
    assert shop.track_one(sale(ana, "2026-03-08T22:30:00Z", "LPA"))["effects"][0]["status"] == "executed"
    assert shop.track_one(sale(ana, "2026-03-08T22:40:00Z", "LPA"))["effects"][0]["status"] == "skipped"
    assert shop.balance(ana) == 2


def test_the_hours_of_a_campaign_apply_to_the_date_of_an_event_and_not_to_its_arrival(shop, ana, monkeypatch):
    clock = install_clock(monkeypatch)
    # 22:00 in Madrid, after the happy hours.
    ten_in_the_evening = datetime(2030, 7, 3, 20, 0, tzinfo=UTC)
    clock.wait(seconds=(ten_in_the_evening - clock.now()).total_seconds())
    shop.campaign(running(mint(1)), eventType=GENERIC, dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)
    assert shop.track_one(event(ana, externalEventDate="2030-07-03T14:30:00Z"))["effects"][0]["status"] == "executed"
    assert shop.track_one(event(ana))["effects"] == []


def test_a_cancellation_ignores_the_hours(shop, ana):
    shop.campaign(running(mint(5)), eventType=ORDER_CREATED, dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)
    purchase = sale(ana, "2026-07-01T13:30:00Z")
    shop.track_one(purchase)
    assert shop.balance(ana) == 5
    cancellation = {**purchase, "systemUniqueKey": "cancelled", "eventType": "member-purchase-order-cancelled"}
    shop.track_one({**cancellation, "externalEventDate": "2026-07-01T20:00:00Z"})
    assert shop.balance(ana) == 0


def test_a_dry_run_explains_the_local_time(shop, ana):
    shop.campaign(running(mint(1)), code="happy", dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)

    def explain(**body):
        """The first reason of a dry run for which a campaign does not apply, or None."""
        [result] = shop.track(event(ana), executionMode="dryRun", **body)
        return next((explanation["reason"] for explanation in result["explain"] if "reason" in explanation), None)

    # 19:00 in Madrid, on a Thursday.
    reason = explain(now="2030-03-07T18:00:00Z")
    assert reason["code"] == "OUTSIDE_HOURS"
    assert reason["actual"] == {"localTime": "19:00", "day": 4, "timezone": MADRID}
    assert reason["label"] == "the campaign does not run at 19:00 on day 4 of the week (time zone Europe/Madrid)"
    assert explain(now="2030-03-07T15:30:00Z") is None


# --- coupon books ----------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """The clock at 14:30 in Madrid, on a Wednesday in summer."""
    clock = install_clock(monkeypatch)
    clock.wait(seconds=(datetime(2030, 7, 3, 12, 30, tzinfo=UTC) - clock.now()).total_seconds())
    return clock


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_coupons_are_assigned_and_used_within_the_hours_of_their_book(organization, books, clock, surface):
    member = organization.member()
    book = books.make(type="codeless", dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)

    def do(verb, expect):
        """Send the request that assigns or uses a coupon of the book; return the response."""
        if surface == "integration":
            path, body = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/{verb}", {}
        else:
            path, body = f"/coupon-books/{book['couponBookId']}/{verb}", {"memberId": member["memberId"]}
        return getattr(organization, surface).post(path, body, expect=expect)

    def exclusion_reasons():
        """The codes of the reasons for which the book is not available to the member."""
        path = f"/members/{member['loyaltyMemberId']}/coupon-books"
        [entry] = organization.integration.get(path, dryRun=True, couponBookKey=book["couponBookKey"])["results"]
        assert organization.integration.get(path)["totalCount"] == int(entry["eligible"])
        return [reason["code"] for reason in entry["exclusionReasons"]]

    problem = do("assign", 409)
    assert problem["type"] == CLOSED
    assert problem["detail"] == "The coupon book is closed at 14:30 on day 3 of the week (time zone Europe/Madrid)."
    assert exclusion_reasons() == ["coupon-book-hours"]
    # 15:00 in Madrid, when the happy hours begin.
    clock.wait(minutes=30)
    assert exclusion_reasons() == []
    do("assign", 200)
    do("assign", 200)
    do("use", 200)
    # 17:00, when they end.
    clock.wait(hours=2)
    assert do("use", 409)["type"] == CLOSED
    assert books.get(book)["totalUsages"] == 1


def test_a_coupon_book_without_a_zone_has_the_hours_of_the_organization(organization, books, shop, clock):
    book, member = books.make(type="codeless", dayOfWeekSchedule=HAPPY_HOURS), shop.member()
    path = f"/members/{member}/coupon-books/{book['couponBookKey']}/assign"
    # 13:30 in UTC, the first time zone of the organization, and 15:30 in Madrid. The happy hours begin at 15:00.
    clock.wait(hours=1)
    assert organization.integration.post(path, {}, expect=409)["type"] == CLOSED
    shop.administration.put("", {"defaultLocale": "en", "timezone": MADRID}, expect=200)
    organization.integration.post(path, {}, expect=200)


def test_coupon_effects_are_skipped_while_the_book_is_closed_at_the_time_and_store_of_the_event(
    shop, books, ana, clock
):
    set_location_timezones(shop, LPA="Atlantic/Canary")
    book = books.make(type="codeless", dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)
    params = {"couponBookKey": book["couponBookKey"], "amount": 1}
    assign, use = effect("assign-coupon", **params), effect("use-coupon", **params)
    shop.campaign(running(assign, use), eventType=ORDER_CREATED)
    # The happy hours are from 15:00 to 17:00. In Madrid, the time zone of sales without a store, they begin at 13:00
    # UTC, and in Las Palmas at 14:00 UTC. The present time, 12:30 UTC on the next day, is before both.
    expected_statuses = {
        ("2030-07-02T12:30:00Z", None): "skipped",
        ("2030-07-02T13:30:00Z", None): "executed",
        ("2030-07-02T13:30:00Z", "LPA"): "skipped",
        ("2030-07-02T15:30:00Z", "LPA"): "executed",
    }
    statuses = {
        time_and_location: [outcome["status"] for outcome in shop.track_one(sale(ana, *time_and_location))["effects"]]
        for time_and_location in expected_statuses
    }
    assert statuses == {time_and_location: [status, status] for time_and_location, status in expected_statuses.items()}
    error = shop.track_one(sale(ana, "2030-07-02T13:30:00Z", "LPA"))["effects"][0]["error"]
    assert error["type"] == CLOSED
    assert error["detail"] == "The coupon book is closed at 14:30 on day 2 of the week (time zone Atlantic/Canary)."


def test_a_mission_gives_no_coupon_while_the_book_is_closed_at_the_time_and_store_of_the_event(shop, books, ana, clock):
    set_location_timezones(shop, LPA="Atlantic/Canary")
    book = books.make(type="codeless", dayOfWeekSchedule=HAPPY_HOURS, timezone=MADRID)
    missions.create(shop, eventType=ORDER_CREATED, goalCount=1, couponBookKey=book["couponBookKey"])

    def problem_of_reward(at, location=None):
        """The type of the problem for which a sale gets no coupon, or None."""
        [move] = shop.track_one(sale(ana, at, location))["missions"]
        [reward] = move["rewards"]
        return reward.get("error", {}).get("type")

    # 15:30 in Madrid, 14:30 and 16:30 in Las Palmas.
    assert problem_of_reward("2030-07-02T13:30:00Z") is None
    assert problem_of_reward("2030-07-02T13:30:00Z", "LPA") == CLOSED
    assert problem_of_reward("2030-07-02T15:30:00Z", "LPA") is None
    assert books.get(book)["totalAssigned"] == 2


# --- what is stored and what is refused ------------------------------------------------------------------------------


REQUIRED_FIELDS = {"code": "c", "name": "C"}


def test_an_update_of_a_campaign_keeps_the_hours_unless_it_sends_null(shop):
    campaign = shop.campaign(**REQUIRED_FIELDS, dayOfWeekSchedule=HAPPY_HOURS)
    path = f"/campaigns/{campaign['campaignId']}"
    assert campaign["dayOfWeekSchedule"] == HAPPY_HOURS
    assert shop.administration.get(path)["campaign"]["dayOfWeekSchedule"] == HAPPY_HOURS
    assert shop.administration.put(path, REQUIRED_FIELDS)["campaign"]["dayOfWeekSchedule"] == HAPPY_HOURS
    body = {**REQUIRED_FIELDS, "dayOfWeekSchedule": None}
    assert "dayOfWeekSchedule" not in shop.administration.put(path, body)["campaign"]


def test_a_campaign_with_hours_can_get_days_of_the_week_only_instead_of_them(shop):
    path = f"/campaigns/{shop.campaign(**REQUIRED_FIELDS, dayOfWeekSchedule=HAPPY_HOURS)['campaignId']}"
    body = {**REQUIRED_FIELDS, "daysOfWeek": [1]}
    problem = shop.administration.put(path, body, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/dayOfWeekSchedule"]
    campaign = shop.administration.put(path, {**body, "dayOfWeekSchedule": None}, expect=200)["campaign"]
    assert campaign["daysOfWeek"] == [1]
    assert "dayOfWeekSchedule" not in campaign


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_an_update_of_a_book_keeps_the_hours_unless_it_sends_null(organization, surface):
    books = CouponBooks(organization, surface)
    book = books.make(dayOfWeekSchedule=HAPPY_HOURS)
    assert book["dayOfWeekSchedule"] == HAPPY_HOURS
    assert books.change(book, name="Tea")["dayOfWeekSchedule"] == HAPPY_HOURS
    assert "dayOfWeekSchedule" not in books.change(book, dayOfWeekSchedule=None)
    assert "dayOfWeekSchedule" not in books.get(book)


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_a_book_with_hours_can_get_no_days_of_the_week(organization, surface):
    books = CouponBooks(organization, surface)
    problem = books.change(books.make(dayOfWeekSchedule=HAPPY_HOURS), daysOfWeek=[1], expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/dayOfWeekSchedule"]


@pytest.mark.parametrize("surface", ["integration", "administration"])
def test_books_are_listed_by_the_days_of_their_hours(organization, surface):
    books = CouponBooks(organization, surface)
    books.make(name="always")
    books.make(name="mondays", daysOfWeek=[1])
    windows = [window(5, "22:00", "02:00"), window(7, "09:00", "10:00")]
    books.make(name="nights", dayOfWeekSchedule={"schedule": windows})

    def names(days):
        """The names of the books that are listed by these days of the week."""
        return [book["name"] for book in books.surface.get("/coupon-books", daysOfWeek=days, order="name")["results"]]

    assert names("1") == ["always", "mondays"]
    # A window belongs to the day on which it begins.
    assert names("6") == ["always"]
    assert names("5") == names("2,7") == ["always", "nights"]
    assert names("1,5") == ["always", "mondays", "nights"]


# The first window ends on Monday at 02:00.
OVERLAPPING = [window(7, "22:00", "02:00"), window(1, "01:00", "03:00")]


@pytest.mark.parametrize(
    ("windows", "pointer"),
    [
        (OVERLAPPING, "/1"),
        ([window(1, "09:00", "09:00")], "/0/from"),
        ([window(1, "24:00", "09:00")], "/0/from"),
        ([window(1, "9:00", "10:00")], "/0/from"),
        ([window(1, "09:00", "24:01")], "/0/to"),
        ([window(0, "09:00", "10:00")], "/0/day"),
        ([window(8, "09:00", "10:00")], "/0/day"),
        ([{"day": 1, "from": "09:00"}], "/0/to"),
        ([], ""),
        # 51 windows, one more than the maximum.
        ([window(1, f"00:{minute:02}", f"00:{minute + 1:02}") for minute in range(51)], ""),
    ],
)
def test_invalid_schedules_are_refused(shop, books, windows, pointer):
    schedule = {"schedule": windows}
    campaign = {"code": "c", "name": "C", "dayOfWeekSchedule": schedule}
    problem = shop.administration.post("/campaigns", campaign, expect=400)
    pointers = [f"/dayOfWeekSchedule/schedule{pointer}"]
    assert [error["pointer"] for error in problem["errors"]] == pointers
    assert books.expect_refusal(dayOfWeekSchedule=schedule) == pointers


def test_fifty_windows_can_be_stored(shop):
    windows = [window(1, f"00:{minute:02}", f"00:{minute + 1:02}") for minute in range(50)]
    assert shop.campaign(dayOfWeekSchedule={"schedule": windows})["dayOfWeekSchedule"] == {"schedule": windows}


def test_an_update_replaces_the_time_zones_of_locations_only_if_it_sends_them(shop):
    assert shop.administration.get("")["organization"]["locationTimezones"] == {}
    set_location_timezones(shop, LPA="Atlantic/Canary", MAD=MADRID)
    response = shop.administration.put("", {"defaultLocale": "en"}, expect=200)
    assert response["organization"]["locationTimezones"] == {"LPA": "Atlantic/Canary", "MAD": MADRID}
    set_location_timezones(shop, TFN="Atlantic/Canary")
    assert shop.administration.get("")["organization"]["locationTimezones"] == {"TFN": "Atlantic/Canary"}
    [entry, *_] = shop.administration.get("/audit-log", entityType="organization", order="auditLogId,desc")["results"]
    assert entry["changes"] == {
        "locationTimezones.LPA": {"from": "Atlantic/Canary", "to": None},
        "locationTimezones.MAD": {"from": MADRID, "to": None},
        "locationTimezones.TFN": {"from": None, "to": "Atlantic/Canary"},
    }


def test_invalid_time_zones_of_locations_are_refused(shop):
    problem = set_location_timezones(shop, expect=400, LPA="Atlantic/Canaries", MAD=MADRID)
    assert [error["pointer"] for error in problem["errors"]] == ["/locationTimezones/LPA"]
    assert "Did you mean Atlantic/Canary?" in problem["detail"]
    problem = set_location_timezones(shop, expect=400, **{"": MADRID})
    assert problem["errors"][0]["pointer"] == "/locationTimezones/"


def test_at_most_5000_locations_have_a_time_zone(shop):
    max_timezones = {f"store-{number}": MADRID for number in range(5000)}
    assert set_location_timezones(shop, **max_timezones)["organization"]["locationTimezones"] == max_timezones
    problem = set_location_timezones(shop, expect=400, **max_timezones, another=MADRID)
    assert [error["pointer"] for error in problem["errors"]] == ["/locationTimezones"]
