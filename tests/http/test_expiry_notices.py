"""Notices of expiring points, and events of expired ones."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from handlers.server.jobs import report_expiring
from handlers.services import wallet_batches
from handlers.services.ledger import notices
from tests.builders.campaigns import mint
from tests.builders.points import SETTINGS, Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import Shop, order, running

START = "2025-03-01T09:00:00Z"
# Points that are minted in Madrid in March 2025 expire 12 months later, at the end of the month.
EXPIRED_AT = "2026-03-31T22:00:00Z"
MONTHLY = {"expiresInMonths": 12, "expiryRounding": "month"}
# At 10:00, the default time.
NOTICES = {"daysBefore": [30, 7, 1]}
TYPES = ("points-expiring", "points-expired")


class ExpiringPoints:
    """A program whose points expire on 1 April 2026, with notices to its members."""

    def __init__(self, clock: Clock, *, notices=NOTICES, **settings) -> None:
        self.clock = clock
        self.shop = Shop(clock.organization)
        self.points = Points.new(clock.organization, **{**MONTHLY, "pointsExpiring": notices, **settings})
        self.wallets = {}

    def give(self, member, amount, **more):
        """Mint for a member, who is enrolled first if necessary; return the id of the transaction."""
        if member not in self.wallets:
            self.wallets[member] = self.clock.organization.member(member)["ledgerWalletId"]
        return self.points.mint(self.wallets[member], amount, **more)

    def burn(self, member, amount):
        """Burn points of a member."""
        self.points.burn(self.wallets[member], amount)

    def events(self, *types):
        """The reported events of the members, in order: the moment, the type, the amount and the days before."""
        rows = self.shop.rows("events", "*", order="loyalty_event_id")
        return [
            (
                row.created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                row.event_type,
                row.payload["amount"],
                row.payload.get("daysBefore"),
            )
            for row in rows
            if row.event_type in (types or TYPES)
        ]

    def notices(self):
        """(moment, amount, days before) of the reported notices, in order."""
        return [(moment, amount, days) for moment, _, amount, days in self.events("points-expiring")]

    def set_clock(self, to):
        """Set a later time without running due jobs, as if no worker had run."""
        self.points.change(
            "UPDATE organizations SET clock_now = :now WHERE organization_id = :id",
            now=to,
            id=self.clock.organization.id,
        )

    def run_job(self):
        """Report what is due; returns the number of notices."""
        return sum(report_expiring(self.clock.organization.api.engine, self.clock.organization.id))


@pytest.fixture
def clock(api):
    return Clock.new(api, starts_at=START)


@pytest.fixture
def program(clock):
    """On 1 March 2026, a program whose member ana has 400 points that expire a month later."""
    program = ExpiringPoints(clock)
    program.give("ana", 400)
    clock.advance("2026-03-01T09:00:00Z")
    return program


def test_a_step_reports_to_further_members_only_for_few_due_points(clock, monkeypatch):
    program = ExpiringPoints(clock)
    account_id = program.points.account["ledgerAccountId"]
    for member in ("ana", "ben"):
        program.give(member, 400)
        program.shop.give(member, 5, ledgerAccountId=account_id, availableAt="2026-01-01T00:00:00Z")
    # Notices begin with the first run of the job.
    program.set_clock("2026-03-01T09:00:00Z")
    assert program.run_job() == 0
    program.set_clock("2026-03-02T09:00:00Z")
    # The points that have become available of both members are more.
    monkeypatch.setattr(notices, "MAX_DUE_ROWS", 1)
    assert list(report_expiring(clock.organization.api.engine, clock.organization.id)) == [1, 1]
    assert program.notices() == [("2026-03-02T09:00:00Z", 400, 30)] * 2


class TestNotices:
    """In `program`, it is 1 March 2026, and the 400 points of ana expire at the end of the month.

    Notices are due at 10:00 in Madrid on 2, 25 and 31 March: 30 days, 7 days and 1 day before 1 April.
    """

    def test_one_advance_reports_notices_and_the_expiry_at_their_moments(self, program):
        """The notices are reported at 10:00 in Madrid on 2, 25 and 31 March, the expiry at the start of 1 April."""
        trigger = {"triggerKey": "app", "name": "App", "type": "WebHook", "active": True}
        settings = {"url": "https://hooks.invalid/app", "eventTypes": list(TYPES)}
        program.clock.organization.administration.post("/triggers", {**trigger, "settings": settings})
        assert program.clock.advance("2026-04-02T09:00:00Z")["steps"] == 4
        assert program.events() == [
            ("2026-03-02T09:00:00Z", "points-expiring", 400, 30),
            ("2026-03-25T09:00:00Z", "points-expiring", 400, 7),
            ("2026-03-31T08:00:00Z", "points-expiring", 400, 1),
            (EXPIRED_AT, "points-expired", 400, None),
        ]
        messages = program.shop.rows("trigger_deliveries", "payload", order="trigger_delivery_id")
        assert [message.payload["timestamp"] for message in messages] == [
            "2026-03-02T09:00:00Z",
            "2026-03-25T09:00:00Z",
            "2026-03-31T08:00:00Z",
            "2026-03-31T22:00:00Z",
        ]

    def test_payloads_have_the_account_the_amount_and_the_moment(self, program):
        program.clock.advance("2026-04-02T09:00:00Z")
        key = program.points.account["ledgerAccountKey"]
        rows = program.shop.rows("events", "event_type, payload, external_event_date", order="loyalty_event_id")
        payloads = [(row.payload, row.external_event_date) for row in rows if row.event_type in TYPES]
        assert payloads[0] == (
            {"ledgerAccountKey": key, "amount": 400, "expiresAt": EXPIRED_AT, "daysBefore": 30},
            None,
        )
        assert payloads[-1] == ({"ledgerAccountKey": key, "amount": 400, "expiredAt": EXPIRED_AT}, None)

    def test_each_notice_has_the_amount_that_would_expire_at_its_moment(self, program):
        program.clock.advance("2026-03-20T09:00:00Z")
        program.burn("ana", 150)
        program.clock.advance("2026-04-01T09:00:00Z")
        assert program.notices() == [
            ("2026-03-02T09:00:00Z", 400, 30),
            ("2026-03-25T09:00:00Z", 400 - 150, 7),
            ("2026-03-31T08:00:00Z", 400 - 150, 1),
        ]

    def test_no_notice_is_reported_if_no_points_will_expire(self, program):
        program.clock.advance("2026-03-26T09:00:00Z")
        program.burn("ana", 400)
        assert program.clock.advance("2026-04-01T09:00:00Z")["steps"] == 0
        assert program.notices() == [("2026-03-02T09:00:00Z", 400, 30), ("2026-03-25T09:00:00Z", 400, 7)]
        assert program.events("points-expired") == []

    def test_points_minted_after_a_notice_are_in_the_next_one(self, program):
        program.clock.advance("2026-03-10T09:00:00Z")
        # Points of March 2025 also expire at the end of March 2026.
        program.give("ben", 70, externalEventDate="2025-03-20T09:00:00Z")
        program.give("ana", 5, externalEventDate="2025-03-20T09:00:00Z")
        program.clock.advance("2026-03-25T09:00:00Z")
        assert program.notices()[1:] == [("2026-03-25T09:00:00Z", 400 + 5, 7), ("2026-03-25T09:00:00Z", 70, 7)]

    def test_accounts_without_settings_use_those_of_the_organization(self, clock):
        administration = clock.organization.administration
        body = {"defaultLocale": "en", "pointsExpiring": {"daysBefore": [2], "at": "18:30"}}
        assert administration.put("", body)["organization"]["pointsExpiring"] == body["pointsExpiring"]
        program_of_organization, program_with_settings = (
            ExpiringPoints(clock, notices=None),
            ExpiringPoints(clock, notices={"daysBefore": [3], "at": "07:00"}, timezone="Asia/Tokyo"),
        )
        assert "pointsExpiring" not in program_of_organization.points.account
        program_of_organization.give("ana", 10)
        program_with_settings.wallets = program_of_organization.wallets
        program_with_settings.give("ana", 20)
        clock.advance("2026-04-01T09:00:00Z")
        # Three days before 1 April at 07:00 in Tokyo, and two days before it at 18:30 in Madrid.
        assert program_with_settings.notices() == [("2026-03-28T22:00:00Z", 20, 3), ("2026-03-30T16:30:00Z", 10, 2)]
        settings = administration.put("", {"defaultLocale": "en", "pointsExpiring": None})["organization"]
        assert "pointsExpiring" not in settings

    def test_lots_that_expire_on_one_day_are_announced_by_one_notice(self, clock):
        program = ExpiringPoints(clock, notices={"daysBefore": [1], "at": "08:00"}, expiryRounding="none")
        for hour in ("05", "12", "20"):
            program.give("ana", 10, externalEventDate=f"2025-02-28T{hour}:30:00Z")
        clock.advance("2026-02-27T06:59:59Z")
        assert program.notices() == []
        clock.advance("2026-02-27T07:00:00Z")
        assert program.notices() == [("2026-02-27T07:00:00Z", 3 * 10, 1)]
        clock.advance("2026-03-02T07:00:00Z")
        assert [amount for _, _, amount, _ in program.events("points-expired")] == [10] * 3

    def test_the_end_of_an_idle_balance_is_announced(self, clock):
        policy = [{"expirationType": "inactivity", "period": 12, "rounding": "month"}]
        settings = {"expiresInMonths": None, "expiryRounding": "none", "expirationPolicies": policy}
        program = ExpiringPoints(clock, **settings)
        program.give("ana", 400)
        program.give("ben", 30)
        clock.advance("2026-03-10T09:00:00Z")
        # This activity prolongs the balance of ben.
        program.burn("ben", 10)
        clock.advance("2026-04-30T08:00:00Z")
        assert program.events() == [
            ("2026-03-02T09:00:00Z", "points-expiring", 400, 30),
            ("2026-03-02T09:00:00Z", "points-expiring", 30, 30),
            ("2026-03-25T09:00:00Z", "points-expiring", 400, 7),
            ("2026-03-31T08:00:00Z", "points-expiring", 400, 1),
            (EXPIRED_AT, "points-expired", 400, None),
        ]

    def test_inactive_and_erased_members_get_no_notices(self, program):
        program.give("ben", 10, externalEventDate=START)
        program.give("eve", 20, externalEventDate=START)
        program.clock.organization.integration.request("PATCH", "/members/ben", {"active": False}, expect=200)
        path = f"/members/{program.shop.integration.get('/members/eve')['loyaltyMember']['memberId']}"
        program.clock.organization.administration.request("DELETE", path, expect=200)
        program.clock.advance("2026-04-02T09:00:00Z")
        # The three notices and the expiry of ana.
        assert [amount for _, _, amount, _ in program.events()] == [400] * 4

    def test_campaigns_can_react_to_notices(self, program):
        program.shop.campaign(
            running(mint(7), rule="event.eventType == 'points-expiring' && event.payload.daysBefore == 1")
        )
        program.clock.advance("2026-04-02T09:00:00Z")
        assert program.shop.balance("ana") == 7

    def test_a_worker_that_was_down_reports_only_the_latest_notice(self, program):
        program.set_clock("2026-03-26T15:00:00Z")
        assert program.run_job() == 1
        assert program.notices() == [("2026-03-26T15:00:00Z", 400, 7)]
        # The date of the event is the moment at which the notice was due.
        [notice_event] = [row for row in program.shop.rows("events") if row.event_type == "points-expiring"]
        assert notice_event.external_event_date == datetime(2026, 3, 25, 9, tzinfo=UTC)
        program.set_clock("2026-04-01T15:00:00Z")
        assert program.run_job() == 0

    def test_a_late_notice_omits_lots_minted_after_its_moment(self, program):
        # The notice of 25 March is late.
        program.set_clock("2026-03-26T15:00:00Z")
        program.give("ana", 5, externalEventDate="2025-03-20T09:00:00Z")
        program.give("ben", 6, externalEventDate="2025-03-20T09:00:00Z")
        assert program.run_job() == 1
        assert program.notices() == [("2026-03-26T15:00:00Z", 400, 7)]

    def test_no_member_gets_a_notice_twice_when_the_settings_change(self, program):
        program.clock.advance("2026-03-25T09:30:00Z")
        body = {"name": "Stars", **SETTINGS}
        program.points.admin.put(
            program.points.path, {**body, "pointsExpiring": {"daysBefore": [30, 7, 5], "at": "12:00"}}
        )
        program.clock.advance("2026-03-27T12:00:00Z")
        assert program.notices()[1:] == [("2026-03-25T09:00:00Z", 400, 7), ("2026-03-27T11:00:00Z", 400, 5)]

    def test_new_settings_cause_no_notices_whose_moments_have_passed(self, clock):
        program = ExpiringPoints(clock, notices=None)
        program.give("ana", 400)
        program.set_clock("2026-03-26T15:00:00Z")
        body = {"name": "Stars", **SETTINGS}
        program.points.admin.put(program.points.path, {**body, "pointsExpiring": NOTICES})
        assert program.run_job() == 0
        program.set_clock("2026-03-31T15:00:00Z")
        assert program.run_job() == 1
        assert program.notices() == [("2026-03-31T15:00:00Z", 400, 1)]

    def test_all_notices_are_reported_a_few_at_a_time(self, program, monkeypatch):
        for number in range(5):
            program.give(f"member-{number}", number + 1, externalEventDate=START)
        for name in ("FIRST_WALLETS", "MAX_WALLETS"):
            monkeypatch.setattr(wallet_batches, name, 2)
        program.set_clock("2026-03-02T09:00:00Z")
        assert program.run_job() == 1 + 5
        assert [amount for _, amount, _ in program.notices()] == [400, 1, 2, 3, 4, 5]
        assert program.run_job() == 0

    def test_invalid_settings_are_refused(self, clock):
        path = f"/ledgers/{clock.organization.defaults.ledger_id}/accounts"

        def places(**notices):
            """The pointers of the faults of an account with these notices."""
            body = {"name": "Stars", **SETTINGS, "pointsExpiring": notices}
            problem = clock.organization.administration.post(path, body, expect=400)
            return [error["pointer"] for error in problem["errors"]]

        assert places(daysBefore=[]) == ["/pointsExpiring/daysBefore"]
        assert places(daysBefore=[1, 2, 3, 4, 5, 6]) == ["/pointsExpiring/daysBefore"]
        assert places(daysBefore=[367]) == ["/pointsExpiring/daysBefore/0"]
        assert places(daysBefore=[0]) == ["/pointsExpiring/daysBefore/0"]
        assert places(daysBefore=[1], at="24:00") == ["/pointsExpiring/at"]


class TestExpired:
    """In `program`, it is 1 March 2026, and the 400 points of ana expire at the end of the month."""

    def test_expired_points_cause_no_event_without_a_subscriber(self, clock):
        program = ExpiringPoints(clock, notices=None)
        program.give("ana", 400)
        clock.advance("2026-04-02T09:00:00Z")
        assert program.events() == []

    def test_campaigns_can_react_to_expired_points(self, clock):
        program = ExpiringPoints(clock, notices=None)
        program.give("ana", 400)
        amount = mint(("=", "event.payload.amount / 4"))
        program.shop.campaign(running(amount), eventType="points-expired")
        clock.advance("2026-04-02T09:00:00Z")
        assert program.events() == [(EXPIRED_AT, "points-expired", 400, None)]
        assert program.shop.balance("ana") == 400 / 4

    def test_an_expiry_is_reported_once_by_an_event_or_the_job(self, program):
        program.set_clock("2026-04-01T15:00:00Z")
        # The first event posts and reports the expiry; neither the second nor the advance does so again.
        program.shop.track_one(order("ana"))
        program.shop.track_one(order("ana"))
        program.clock.advance("2026-04-02T15:00:00Z")
        assert program.events("points-expired") == [("2026-04-01T15:00:00Z", "points-expired", 400, None)]

    def test_points_that_a_revert_returns_and_that_expire_at_once_are_reported_separately(self, program):
        burn = program.points.burn(program.wallets["ana"], 80)[0]["ledgerTransactionId"]
        program.clock.advance("2026-04-05T09:00:00Z")
        program.points.revert(burn)
        assert [(moment, amount) for moment, _, amount, _ in program.events("points-expired")] == [
            (EXPIRED_AT, Decimal(400 - 80)),
            ("2026-04-05T09:00:00Z", Decimal(80)),
        ]
        assert program.points.verify() == []

    def test_clients_cannot_report_expiries(self, program):
        for event_type in TYPES:
            body = {"loyaltyMemberId": "ana", "systemUniqueKey": event_type, "eventType": event_type}
            assert program.shop.expect_refusal(body) == "/problems/event-type-not-trackable"
