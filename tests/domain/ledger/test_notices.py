"""Notices of points that will expire: when they are due, and what they are about."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from domain.ledger.notices import NoticeSchedule, amounts_between, complete_notices
from tests.builders.campaigns import account

MADRID = ZoneInfo("Europe/Madrid")
SETTINGS = {"daysBefore": [30, 7], "at": "10:00"}


def at(text):
    return datetime.fromisoformat(text)


def schedule(**settings):
    """The schedule of an account in Madrid: 30 and 7 days before the expiry, at 10:00, unless `settings` differ."""
    return NoticeSchedule.of(account(points_expiring={**SETTINGS, **settings}), None, MADRID)


def due(after, until, **settings):
    """The notices that are due after one moment and until another.

    Each is a tuple: the moment of the notice, the local day on which the points expire, and how many days it is before.
    """
    return [
        (notice.moment, notice.day.isoformat(), notice.days_before)
        for notice in schedule(**settings).due(at(after), at(until))
    ]


def test_an_account_has_its_own_schedule_or_that_of_the_organization():
    schedule_of_account = schedule()
    assert schedule_of_account.zone == MADRID
    assert schedule_of_account.days_before == (30, 7)
    assert schedule_of_account.at.isoformat() == "10:00:00"
    assert NoticeSchedule.of(account(), SETTINGS, MADRID) == schedule_of_account
    assert NoticeSchedule.of(account(timezone="UTC"), SETTINGS, MADRID).zone == UTC
    assert NoticeSchedule.of(account(), None, MADRID) is None


def test_notices_are_due_after_the_first_and_up_to_the_second_of_two_moments():
    """10:00 in Madrid is 09:00 in UTC, and 08:00 in summer."""
    notice_of_7_days = (at("2026-03-01T09:00Z"), "2026-03-08", 7)
    notice_of_30_days = (at("2026-03-01T09:00Z"), "2026-03-31", 30)
    assert due("2026-03-01T08:59:59Z", "2026-03-01T09:00Z") == [notice_of_7_days, notice_of_30_days]
    assert due("2026-03-01T09:00Z", "2026-03-02T08:59:59Z") == []
    assert due("2026-03-01T12:00Z", "2026-03-02T08:59:59Z") == []
    assert due("2026-03-31T00:00Z", "2026-03-31T08:00Z", daysBefore=[7]) == [(at("2026-03-31T08:00Z"), "2026-04-07", 7)]


def test_only_the_latest_of_several_missed_notices_about_one_day_is_due():
    """The notices about the expiry on 31 March are those of 1 March and 24 March."""
    notices = due(after="2026-03-01T08:00Z", until="2026-03-25T08:00Z")
    notices_of_the_day = [(moment, days_before) for moment, day, days_before in notices if day == "2026-03-31"]
    assert notices_of_the_day == [(at("2026-03-24T09:00Z"), 7)]
    # Points that expired on an earlier day are not announced any more.
    assert min(day for _, day, _ in notices) == "2026-03-25"


def test_the_next_notice_is_that_of_the_next_smaller_number_of_days_before_the_expiry():
    expiry = at("2026-03-31T12:00Z")
    assert schedule().next_notice_at(expiry, after=at("2026-02-01T00:00Z")) == at("2026-03-01T09:00Z")
    assert schedule().next_notice_at(expiry, after=at("2026-03-01T09:00Z")) == at("2026-03-24T09:00Z")
    assert schedule().next_notice_at(expiry, after=at("2026-03-24T09:00Z")) is None
    # A notice on the day itself is due at 08:00 in UTC, which has to be before the expiry.
    assert schedule(daysBefore=[0]).next_notice_at(at("2026-03-31T08:00Z"), after=at("2026-03-01T00:00Z")) is None
    assert schedule(daysBefore=[0]).next_notice_at(expiry, after=at("2026-03-01T00:00Z")) == at("2026-03-31T08:00Z")
    assert schedule(daysBefore=[0]).next_notice_at(at("2026-03-31T07:00Z"), after=at("2026-03-01T00:00Z")) is None


def test_the_window_of_notices_has_the_expiries_of_whole_local_days():
    begin, end = schedule().expiry_range(days_before=7, after=at("2026-03-01T08:00Z"), until=at("2026-03-02T12:00Z"))
    assert (begin, end) == (at("2026-03-07T23:00Z"), at("2026-03-09T23:00Z"))
    begin, end = schedule().expiry_range(days_before=7, after=at("2026-03-01T09:00Z"), until=at("2026-03-02T12:00Z"))
    assert (begin, end) == (at("2026-03-08T23:00Z"), at("2026-03-09T23:00Z"))
    begin, end = schedule().expiry_range(days_before=7, after=at("2026-03-01T12:00Z"), until=at("2026-03-02T12:00Z"))
    assert (begin, end) == (at("2026-03-08T23:00Z"), at("2026-03-09T23:00Z"))
    assert schedule().bounds_of_day(date(2026, 3, 29)) == (at("2026-03-28T23:00Z"), at("2026-03-29T22:00Z"))


def test_the_amounts_of_a_day_are_added_up_by_wallet():
    begin, noon, end = (at(f"2026-03-0{day}") for day in ("8T00:00Z", "8T12:00Z", "9T00:00Z"))
    # (wallet, moment of expiry, amount) of each lot
    lots = [
        (1, noon, Decimal(5)),
        (1, begin, Decimal(2)),
        (2, noon, Decimal(0)),
        (3, end, Decimal(9)),
        (3, at("2026-03-09T12:00Z"), Decimal(9)),
        (3, at("2026-03-07T12:00Z"), Decimal(9)),
        (3, noon, Decimal(1)),
    ]
    amounts = amounts_between(lots, begin, end)
    # The points of wallet 2 are 0, and only one lot of wallet 3 expires on the day.
    assert amounts.keys() == {1, 3}
    assert (amounts[1].wallet_id, amounts[1].amount, amounts[1].expires_at) == (1, 5 + 2, begin)
    assert (amounts[3].wallet_id, amounts[3].amount, amounts[3].expires_at) == (3, 1, noon)


def test_settings_without_a_time_get_the_default_time():
    assert complete_notices({"points_expiring": {"daysBefore": [7]}}) == {
        "points_expiring": {"at": "10:00", "daysBefore": [7]}
    }
    assert complete_notices({"points_expiring": None, "name": "Points"}) == {"points_expiring": None, "name": "Points"}
    assert complete_notices({"points_expiring": SETTINGS}) == {"points_expiring": SETTINGS}
