"""Extensions of the expiry of points, by request and by effect."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from handlers.server.jobs import expire_points
from handlers.services.ledger.extend_expiry import extend_running
from tests.builders.campaigns import effect
from tests.builders.exports import exported_lines
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, Shop, event, running
from tests.http.test_inactivity import END_OF_QUARTER, Program

START = "2025-01-31T12:00:00Z"
# After the moment at which the balance of a `Program` expires by inactivity.
AFTER_INACTIVITY = datetime(2026, 7, 1, 12, tzinfo=UTC)


@pytest.fixture
def clock(api):
    """A clock at 31 January 2025, 12:00 in UTC."""
    return Clock.new(api, starts_at=START)


@pytest.fixture
def points(clock):
    """An account whose points live for 12 months, in UTC: until 31 January 2026."""
    return Points.new(clock.organization, expiresInMonths=12, timezone="UTC")


class Member:
    """A member with points of one account."""

    def __init__(self, clock, points, name="ana") -> None:
        self.clock, self.points = clock, points
        self.member = clock.organization.member(name)
        self.id, self.wallet = self.member["memberId"], self.member["ledgerWalletId"]

    @property
    def lots(self):
        """The available amounts by their moments of expiry."""
        lots = self.points.wallet_of(self.wallet, include="lots")["lots"]
        return {lot["expiresAt"]: lot["available"] for lot in lots["expiring"]}

    def mint(self, amount, **more):
        """Mint into the member's wallet, by the batch operation, which accepts an expiration date."""
        item = {
            "amount": amount,
            "fromWalletId": None,
            "toWalletId": self.wallet,
            "ledgerAccountId": self.points.account_id,
            **more,
        }
        path = "/ledger-transactions/batch"
        self.clock.organization.administration.post(path, {"items": [item]}, expect=200)


@pytest.fixture
def ana(clock, points):
    return Member(clock, points)


def extend(points, *, key="apology-1", expect=200, **body):
    """Extend points of the account; with the same key and body, return the state of the earlier extension."""
    values = {"ledgerAccountId": points.account["ledgerAccountId"], "systemUniqueKey": key, **body}
    return points.organization.administration.post("/expiry-extensions", values, expect=expect)


def completed_extension(*, lots, amount):
    """The response of an extension that has extended this number of lots, with this amount in sum."""
    return {"lots": lots, "amount": amount, "status": "done"}


class TestLots:
    def test_months_are_added_to_the_expiry_of_each_lot(self, points, ana):
        ana.mint(100)
        ana.mint(30, expirationDate="2025-11-30T00:00:00Z")
        assert extend(points, memberId=ana.id, months=3) == completed_extension(lots=2, amount=130)
        # 3 months after 30 November 2025 and after 31 January 2026; neither month has such a last day.
        assert ana.lots == {"2026-02-28T00:00:00Z": 30, "2026-04-30T12:00:00Z": 100}
        assert points.verify() == []

    def test_an_extension_until_a_date_shortens_no_lot(self, points, ana):
        ana.mint(100)
        ana.mint(30, expirationDate="2025-11-30T00:00:00Z")
        assert extend(points, memberId=ana.id, until="2025-12-24T00:00:00Z") == completed_extension(lots=1, amount=30)
        # The 100 points expire later without the extension.
        assert ana.lots == {"2025-12-24T00:00:00Z": 30, "2026-01-31T12:00:00Z": 100}

    def test_an_extension_revives_no_expired_lot(self, clock, points, ana):
        ana.mint(100)
        clock.advance("2026-01-31T12:00:00Z")
        assert extend(points, memberId=ana.id, months=3) == completed_extension(lots=0, amount=0)
        assert points.balance(ana.wallet) == 0

    def test_an_extended_lot_expires_at_its_new_end(self, clock, points, ana):
        ana.mint(100)
        # Until 28 February, the last day of the next month.
        extend(points, memberId=ana.id, months=1)
        clock.advance("2026-02-28T11:59:59Z")
        assert points.balance(ana.wallet) == 100
        clock.advance("2026-02-28T12:00:00Z")
        assert points.balance(ana.wallet) == 0
        assert points.rows()[0]["externalEventDate"] == "2026-02-28T12:00:00Z"
        assert points.verify() == []

    def test_only_the_requested_lots_are_extended(self, points, ana):
        ana.mint(100)
        ana.mint(30, expirationDate="2025-11-30T00:00:00Z")
        # The burn takes points of the lot that expires first.
        points.burn(ana.wallet, 10)
        burn = points.rows(include="lots")[0]
        [lot] = burn["lots"]["consumed"]
        extension = extend(points, ledgerLotIds=[lot["ledgerLotId"]], until="2030-01-01T00:00:00Z")
        assert extension == completed_extension(lots=1, amount=30 - 10)
        assert ana.lots == {"2026-01-31T12:00:00Z": 100, "2030-01-01T00:00:00Z": 30 - 10}

    def test_a_repeated_request_extends_once(self, points, ana):
        ana.mint(100)
        first_response = extend(points, memberId=ana.id, months=1)
        assert extend(points, memberId=ana.id, months=1) == first_response
        assert ana.lots == {"2026-02-28T12:00:00Z": 100}
        assert extend(points, memberId=ana.id, months=2, expect=409)["type"] == "/problems/key-reused"

    def test_a_dry_run_changes_nothing(self, points, ana):
        ana.mint(100)
        assert extend(points, memberId=ana.id, months=1, dryRun=True) == completed_extension(lots=1, amount=100)
        assert ana.lots == {"2026-01-31T12:00:00Z": 100}
        # Only the mint.
        assert len(points.rows()) == 1
        assert extend(points, memberId=ana.id, months=1) == completed_extension(lots=1, amount=100)

    def test_an_extension_is_in_the_timeline_and_the_audit_log(self, points, ana):
        ana.mint(100)
        extend(points, memberId=ana.id, months=1)
        administration = points.organization.administration
        timeline_row = administration.get(f"/members/{ana.id}/timeline", kinds="points")["results"][0]
        assert timeline_row["points"]["amount"] == 0
        assert timeline_row["text"] == f"The expiry of {points.account['name']} was extended by request."
        [entry] = administration.get("/audit-log", entityType="expiry-extension")["results"]
        assert entry["operationId"] == "extendExpiry"

    @pytest.mark.parametrize(
        ("body", "status", "problem"),
        [
            ({}, 400, "invalid-request"),
            ({"months": 1, "until": "2030-01-01T00:00:00Z"}, 400, "invalid-request"),
            ({"until": START}, 400, "invalid-request"),
            ({"memberId": 1, "ledgerLotIds": [1], "months": 1}, 400, "invalid-request"),
            ({"ledgerLotIds": [987654321], "months": 1}, 404, "unknown-ledger-lot"),
            ({"memberId": 987654321, "months": 1}, 404, "unknown-member"),
            ({"ledgerAccountId": 987654321, "months": 1}, 404, "unknown-ledger-account"),
        ],
    )
    def test_invalid_extensions_are_refused(self, points, body, status, problem):
        assert extend(points, expect=status, **body)["type"] == f"/problems/{problem}"

    def test_an_account_that_tracks_no_points_is_refused(self, clock):
        untracked_points = Points.new(clock.organization)
        assert extend(untracked_points, months=1, expect=409)["type"] == "/problems/points-not-tracked"


class TestWholeAccount:
    def test_the_worker_extends_all_members(self, clock, points, ana, api):
        ben = Member(clock, points, "ben")
        ana.mint(100)
        ben.mint(50)
        assert extend(points, months=1) == {"lots": 0, "amount": 0, "status": "running"}
        assert ana.lots == {"2026-01-31T12:00:00Z": 100}
        while extend_running(api.engine):
            pass
        assert extend(points, months=1) == completed_extension(lots=2, amount=100 + 50)
        assert (ana.lots, ben.lots) == ({"2026-02-28T12:00:00Z": 100}, {"2026-02-28T12:00:00Z": 50})
        assert points.verify() == []

    def test_a_dry_run_counts_the_lots_of_all_members(self, points, ana, api):
        ana.mint(100)
        assert extend(points, months=1, dryRun=True)["status"] == "running"
        while extend_running(api.engine):
            pass
        assert extend(points, months=1, dryRun=True) == completed_extension(lots=1, amount=100)
        assert ana.lots == {"2026-01-31T12:00:00Z": 100}
        # Only the mint.
        assert len(points.rows()) == 1

    def test_a_failed_clock_does_not_delay_other_organizations(self, clock, points, ana, api):
        other_clock = Clock.new(api, starts_at=START)
        other_points = Points.new(other_clock.organization, expiresInMonths=12, timezone="UTC")
        bea = Member(other_clock, other_points, "bea")
        ana.mint(100)
        bea.mint(50)
        for account in (points, other_points):
            assert extend(account, months=1)["status"] == "running"
        # Let the advance of the first clock fail.
        points.change(
            "UPDATE organizations SET clock_target = clock_now, clock_error = 'x' WHERE organization_id = :id",
            id=clock.organization.id,
        )
        while extend_running(api.engine):
            pass
        assert extend(other_points, months=1) == completed_extension(lots=1, amount=50)
        assert bea.lots == {"2026-02-28T12:00:00Z": 50}

    def test_extensions_are_applied_in_the_order_of_their_requests(self, points, ana, api):
        ana.mint(100)
        # The 15th of January, February, March of 2027, each followed by one more month: in any other order, more
        # months would be added after the last date.
        for number in range(3):
            extend(points, key=f"until-{number}", until=f"2027-0{number + 1}-15T00:00:00Z")
            extend(points, key=f"months-{number}", months=1)
        while extend_running(api.engine):
            pass
        assert ana.lots == {"2027-04-15T00:00:00Z": 100}

    @pytest.mark.parametrize("limit", ["WALLETS_AT_ONCE", "MAX_LOTS_AT_ONCE"])
    def test_extensions_are_applied_in_steps(self, clock, points, api, monkeypatch, limit):
        # Each member has one lot.
        monkeypatch.setattr(f"handlers.services.ledger.extend_expiry.{limit}", 1)
        for number in range(3):
            Member(clock, points, f"member-{number}").mint(10)
        extend(points, months=1)
        for lots in (1, 2):
            assert extend_running(api.engine)
            assert extend(points, months=1) == {"lots": lots, "amount": 10 * lots, "status": "running"}
        while extend_running(api.engine):
            pass
        assert extend(points, months=1) == completed_extension(lots=3, amount=3 * 10)

    def test_an_advance_of_the_clock_completes_extensions_before_it_expires_points(self, clock, points, ana):
        ana.mint(100)
        extend(points, months=1)
        # A day after the expiry without the extension.
        clock.advance("2026-02-01T00:00:00Z")
        assert points.balance(ana.wallet) == 100
        assert extend(points, months=1) == completed_extension(lots=1, amount=100)


class TestInactivity:
    @pytest.fixture
    def program(self, api):
        """A program whose member got 500 points on 20 May 2025, a point for each unit spent.

        By inactivity they expire 12 months later, at END_OF_QUARTER: 1 July 2026, 00:00 in Madrid.
        """
        program = Program(Clock.new(api, starts_at="2025-05-20T10:00:00Z"))
        program.buy(500)
        return program

    @staticmethod
    def extend(program, **body):
        """Extend the points of the program's only member."""
        [member] = program.clock.organization.administration.get("/members")["results"]
        return extend(program.points, memberId=member["memberId"], **body)

    def test_activity_after_an_extension_can_only_prolong_it(self, program):
        assert self.extend(program, until="2026-12-31T00:00:00Z") == completed_extension(lots=1, amount=500)
        assert program.lots == {"2026-12-31T00:00:00Z": 500}
        program.clock.advance("2026-02-20T10:00:00Z")
        program.buy(10)
        # 12 months after the purchase, at the end of the quarter.
        assert program.lots == {"2027-03-31T22:00:00Z": 500 + 10}

    def test_extended_points_outlive_points_that_were_not_extended(self, program):
        assert self.extend(program, until="2028-01-01T00:00:00Z") == completed_extension(lots=1, amount=500)
        program.buy(10)
        assert program.lots == {END_OF_QUARTER: 10, "2028-01-01T00:00:00Z": 500}
        program.clock.advance(END_OF_QUARTER)
        assert program.balance == 500
        assert program.lots == {"2028-01-01T00:00:00Z": 500}
        program.points.burn(program.wallet, 100)
        assert program.lots == {"2028-01-01T00:00:00Z": 500 - 100}
        program.clock.advance("2028-01-01T00:00:00Z")
        assert program.balance == 0
        assert program.points.rows()[0]["externalEventDate"] == "2028-01-01T00:00:00Z"
        assert program.points.verify() == []

    def test_balances_are_the_same_before_and_after_the_expiry_is_posted(self, program):
        self.extend(program, until="2026-08-01T00:00:00Z")
        program.buy(10)
        program.clock.advance("2026-07-31T23:59:59Z")
        # The 10 points expired at END_OF_QUARTER.
        assert program.balance == 500
        program.clock.advance("2026-08-01T00:00:00Z")
        assert program.balance == 0
        rows = [(row["transactionType"], row["amount"], row["externalEventDate"]) for row in program.points.rows()[:2]]
        assert rows == [("burn", 500, "2026-08-01T00:00:00Z"), ("burn", 10, END_OF_QUARTER)]

    def test_a_burn_that_is_no_activity_does_not_prolong_extended_points(self, program):
        self.extend(program, until="2026-10-01T00:00:00Z")
        program.clock.advance("2026-08-01T00:00:00Z")
        program.points.burn(program.wallet, 100, countsAsActivity=False)
        assert program.lots == {"2026-10-01T00:00:00Z": 500 - 100}
        program.clock.advance("2026-10-01T00:00:00Z")
        assert program.balance == 0
        assert program.points.verify() == []

    def test_an_extension_is_no_activity(self, program):
        program.clock.advance("2026-06-30T10:00:00Z")
        # One month after the end of June.
        self.extend(program, months=1)
        assert program.lots == {"2026-07-31T22:00:00Z": 500}

    def test_a_restored_lot_outlives_the_idle_balance(self, clock):
        # 12 months after 31 January 2025, this balance expires at the end of the quarter.
        program = Program(clock, restoredExpiryDays=30)
        program.buy(500)
        [burn] = program.points.burn(program.wallet, 80)
        program.clock.advance("2026-09-30T22:00:00Z")
        assert program.balance == 0
        program.points.revert(burn["ledgerTransactionId"])
        assert program.lots == {"2026-10-30T23:00:00Z": 80}
        assert program.balance == 80
        program.clock.advance("2026-10-30T23:00:00Z")
        assert program.balance == 0
        assert program.points.verify() == []


class TestEffect:
    def test_all_points_of_the_member_live_longer(self, clock, points, ana):
        ana.mint(100)
        shop = Shop(clock.organization)
        key = points.account["ledgerAccountKey"]
        shop.campaign(running(effect("extend-expiry", months=1, ledgerAccountKey=key)), eventType=GENERIC)
        result = shop.track_one(event("ana", GENERIC))
        [outcome] = result["effects"]
        assert (outcome["effectId"], outcome["status"]) == ("extend-expiry", "executed")
        assert ana.lots == {"2026-02-28T12:00:00Z": 100}
        assert points.verify() == []

    @pytest.mark.parametrize(
        ("params", "pointer"),
        [
            ({}, ""),
            ({"months": 1, "until": "2030-01-01T00:00:00Z"}, "/0/value"),
            ({"months": 0}, "/0/value"),
            ({"months": 1.5}, "/0/value"),
            ({"until": START}, "/0/value"),
        ],
    )
    def test_an_action_that_cannot_extend_is_refused(self, clock, points, params, pointer):
        shop = Shop(clock.organization)
        campaign = shop.campaign(running(effect("extend-expiry", months=1)), eventType=GENERIC)
        action = running(effect("extend-expiry", **params))
        problem = shop.administration.post(f"/campaigns/{campaign['campaignId']}/actions", action, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/effects/items/0/params{pointer}"]


class TestReads:
    """Reads of a balance with extended lots, before and after the expiry of its other lots is posted."""

    def read_all(self, program):
        """The report of each read about the points of the program's only member."""
        administration = program.clock.organization.administration
        [member] = administration.get("/members")["results"]
        member = administration.get(f"/members/{member['memberId']}", include="expiring")["loyalMember"]
        [balance] = [row for row in member["ledgerBalances"] if row["ledgerAccountId"] == program.points.account_id]
        days = administration.get(
            f"{program.points.ledger_path}/wallets/{program.wallet}/daily-balances",
            fromDate="2026-06-30",
            toDate="2026-07-01",
        )["results"]
        account_amounts = [day["amount"] for day in days if day["ledgerAccountId"] == program.points.account_id]
        rows = [
            json.loads(line) for line in exported_lines(program.clock.organization, "balances", now=AFTER_INACTIVITY)
        ]
        exported_lots = [(row["amount"], row["expiresAt"]) for row in rows if row["amount"]]
        return {
            "wallet": program.balance,
            "lots": program.lots,
            "member": balance["balance"],
            "next expiry": balance["expiring"]["next"],
            "daily balances": account_amounts,
            "export": exported_lots,
        }

    def test_all_reads_return_the_same_lots(self, api):
        program = Program(Clock.new(api, starts_at="2025-05-20T10:00:00Z"))
        program.buy(500)
        TestInactivity.extend(program, until="2027-02-01T00:00:00Z")
        program.buy(10)
        program.clock.advance("2026-06-30T21:59:59Z")
        # The clock advances without the job.
        program.points.change(
            "UPDATE organizations SET clock_now = :now WHERE organization_id = :id",
            now=AFTER_INACTIVITY,
            id=program.clock.organization.id,
        )
        # The 10 points have expired on 1 July, the 500 are extended.
        expected_reads = {
            "wallet": 500,
            "lots": {"2027-02-01T00:00:00Z": 500},
            "member": 500,
            "next expiry": {"amount": 500, "expiresAt": "2027-02-01T00:00:00Z"},
            "daily balances": [500 + 10, 500],
            "export": [(500, "2027-02-01T00:00:00Z")],
        }
        assert self.read_all(program) == expected_reads
        expire_points(api.engine, program.clock.organization.id)
        assert self.read_all(program) == expected_reads
        assert program.history()[-1] == ("burn", 10, "Expired")
        assert program.points.verify() == []
