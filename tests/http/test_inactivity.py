"""Balances that expire by inactivity: what counts as an activity, and activities that are reported late."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

import openapi
from domain.ledger.records import REVERTED
from handlers.server.jobs import expire_points
from tests.builders.campaigns import mint
from tests.builders.exports import exported_lines
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running, spend
from tests.contract.schemas import faults

IS_ORDER = f"event.eventType == '{ORDER_CREATED}'"
# 20 May 2025, 12:00 in Madrid. Midnight in Madrid is 22:00 UTC in summer, 23:00 UTC in winter.
START = "2025-05-20T10:00:00Z"
# After 12 months without activity, the quarter ends on 1 July 2026, 00:00 in Madrid.
LAST_SECOND, END_OF_QUARTER, END_A_YEAR_LATER = "2026-06-30T21:59:59Z", "2026-06-30T22:00:00Z", "2027-06-30T22:00:00Z"
END_OF_SEPTEMBER_2026, END_OF_SEPTEMBER_2027 = "2026-09-30T22:00:00Z", "2027-09-30T22:00:00Z"
END_OF_2026, END_OF_MARCH_2027 = "2026-12-31T23:00:00Z", "2027-03-31T22:00:00Z"


def by_inactivity(**settings):
    """Policies by which a balance expires after 12 months without activity, at the end of the quarter."""
    return [{"expirationType": "inactivity", "period": 12, "rounding": "quarter", **settings}]


class Program:
    """The member ana with points that expire by inactivity, who gets a point for each unit spent."""

    def __init__(self, clock: Clock, **settings) -> None:
        self.clock = clock
        self.shop = Shop(clock.organization)
        policies = settings.pop("expirationPolicies", by_inactivity())
        self.points = Points.new(clock.organization, expirationPolicies=policies, **settings)
        self.key = self.points.account["ledgerAccountKey"]
        self.shop.campaign(running(mint(("=", "floor(order.total)"), ledgerAccountKey=self.key), rule=IS_ORDER))
        self.wallet = clock.organization.member("ana")["ledgerWalletId"]

    def buy(self, total, **more):
        """Track an order of ana, who gets this number of points; return the result."""
        return self.shop.track_one(order("ana", total, **more))

    @property
    def balance(self):
        return self.points.balance(self.wallet)

    @property
    def lots(self):
        """The amounts of points by their moments of expiry."""
        lots = self.points.wallet_of(self.wallet, include="lots")["lots"]
        return {lot["expiresAt"]: lot["available"] for lot in lots["expiring"]}

    def history(self):
        """The transactions of the account, oldest first: type, amount and description."""
        rows = self.points.rows(order="ledgerTransactionId,asc")
        return [(row["transactionType"], row["amount"], row["description"]) for row in rows]


@pytest.fixture
def clock(api):
    """The clock of a test organization in Madrid, at 20 May 2025."""
    return Clock.new(api, starts_at=START)


@pytest.fixture
def program(clock):
    """A program whose member got 500 points by a purchase on 20 May 2025."""
    program = Program(clock)
    program.buy(500)
    return program


class TestActivities:
    """The fixture `program` has 500 points of 20 May 2025, which expire at END_OF_QUARTER without another activity."""

    def test_the_whole_balance_expires_at_the_end_of_the_quarter(self, program):
        assert program.lots == {END_OF_QUARTER: 500}
        program.clock.advance(LAST_SECOND)
        assert program.balance == 500
        assert program.clock.advance(END_OF_QUARTER)["steps"] == 1
        assert program.balance == 0
        expiry = program.points.rows()[0]
        assert (expiry["transactionType"], expiry["amount"], expiry["externalEventDate"]) == (
            "burn",
            500,
            END_OF_QUARTER,
        )
        assert program.points.verify() == []

    @pytest.mark.parametrize(
        "terms",
        [
            pytest.param({"expirationPolicies": by_inactivity()}, id="inactivity"),
            pytest.param(
                {"expirationPolicies": [{"expirationType": "lastTransaction", "period": 13}]}, id="last transaction"
            ),
            pytest.param({"expirationPolicies": [], "expiresInMonths": 13}, id="fixed"),
        ],
    )
    def test_a_balance_of_more_than_a_request_can_move_expires_in_one_transaction(self, clock, terms):
        program = Program(clock, **terms)
        # The maximum of a request.
        for _ in range(2):
            program.points.mint(program.wallet, 18446744073709)
        # After 13 months, all three kinds of points have expired.
        program.clock.advance(END_OF_QUARTER)
        account_page = program.points.admin.get(f"{program.points.path}/transactions")
        member_page = clock.organization.integration.get("/members/ana/ledger-transactions")
        for surface, page in (("administration", account_page), ("integration", member_page)):
            # The expiry of both mints: 2 x 18446744073709
            assert [row["amount"] for row in page["results"]] == [36893488147418, 18446744073709, 18446744073709]
            document = openapi.bundle(surface)
            assert faults(document, document["components"]["schemas"]["LedgerTransactionPage"], page) == []
        assert program.points.verify() == []

    def test_a_purchase_at_the_last_moment_extends_the_whole_balance(self, program):
        # 30 June, 23:59 in Madrid.
        program.clock.advance("2026-06-30T21:59:00Z")
        program.buy(10)
        assert program.lots == {END_A_YEAR_LATER: 500 + 10}
        program.clock.advance(END_OF_QUARTER)
        assert program.balance == 500 + 10
        program.clock.advance(END_A_YEAR_LATER)
        assert program.balance == 0

    def test_a_purchase_at_the_end_of_the_quarter_is_too_late(self, program):
        program.clock.advance(END_OF_QUARTER)
        program.buy(10)
        # 12 months later is the first moment of a quarter, so it is rounded to the end of that quarter.
        assert program.lots == {END_OF_SEPTEMBER_2027: 10}

    def test_each_lot_expires_at_its_fixed_end_or_by_inactivity_whichever_is_earlier(self, clock):
        clock.advance("2026-06-01T10:00:00Z")
        # Points live for at most 48 months, and 18 months without activity.
        policies = [{"expirationType": "inactivity", "period": 18}]
        program = Program(clock, expiresInMonths=48, expirationPolicies=policies)
        program.buy(10)
        program.points.mint(program.wallet, 100, externalEventDate="2024-01-10T09:00:00Z")
        program.points.mint(program.wallet, 30, externalEventDate="2022-09-01T08:00:00Z")
        # 48 months after they were earned, the 30 points expire before 18 months of inactivity are over.
        assert program.lots == {"2026-09-01T08:00:00Z": 30, "2027-12-01T11:00:00Z": 10 + 100}
        program.clock.advance("2026-12-01T11:00:00Z")
        program.buy(1)
        # Now the 100 points of 2024 reach their 48 months first.
        assert program.lots == {"2028-01-10T09:00:00Z": 100, "2028-06-01T10:00:00Z": 10 + 1}

    def test_burns_and_transfers_are_activities_of_the_wallet_that_they_debit(self, program):
        receiver = program.points.wallet()
        program.clock.advance("2025-12-01T11:00:00Z")
        program.points.burn(program.wallet, 100)
        assert program.lots == {END_OF_2026: 500 - 100}
        program.clock.advance("2026-03-01T11:00:00Z")
        program.points.move(100, source=program.wallet, target=receiver)
        assert program.lots == {END_OF_MARCH_2027: 500 - 100 - 100}
        # The first transfer starts the period of the receiving wallet; the second does not extend it.
        program.clock.advance("2026-06-01T11:00:00Z")
        program.points.move(100, source=program.wallet, target=receiver)
        lots_of_receiver = program.points.wallet_of(receiver, include="lots")["lots"]["expiring"]
        assert {lot["expiresAt"]: lot["available"] for lot in lots_of_receiver} == {END_OF_MARCH_2027: 100 + 100}
        assert program.points.verify() == []

    def test_reverts_and_corrections_are_no_activities(self, program):
        program.clock.advance("2025-12-01T11:00:00Z")
        burn = program.points.burn(program.wallet, 10, countsAsActivity=False)[0]["ledgerTransactionId"]
        program.points.revert(burn)
        program.points.mint(program.wallet, 5, countsAsActivity=False)
        program.shop.give("ana", 1, ledgerAccountId=program.points.account_id, countsAsActivity=False)
        program.shop.take("ana", 1, ledgerAccountId=program.points.account_id, countsAsActivity=False)
        assert program.lots == {END_OF_QUARTER: 500 + 5}

    def test_points_minted_after_an_idle_balance_expired_get_a_new_period_even_without_activity(self, program):
        program.clock.advance(END_OF_QUARTER)
        program.points.mint(program.wallet, 5, countsAsActivity=False)
        # END_OF_QUARTER is midnight of 1 July 2026 in Madrid: 12 months later, the quarter ends with September 2027.
        assert program.lots == {END_OF_SEPTEMBER_2027: 5}

    @pytest.mark.parametrize("kind", ["due", "released", "captured", "transferred"])
    def test_points_that_arrive_after_an_idle_balance_expired_get_a_new_period(
        self, program, advance_past_the_end, kind
    ):
        points, wallet = program.points, program.wallet
        if kind == "transferred":
            sender = points.wallet()
            points.mint(sender, 40)
            pending_transaction = points.move(40, source=sender, target=wallet, captureMethod="manual")[0]
        else:
            waits = {
                "due": {"availableAfter": "P450D"},
                "released": {"availableAfter": "P600D"},
                "captured": {"captureMethod": "manual"},
            }
            pending_transaction = points.move(40, target=wallet, **waits[kind])[0]
        # 450 days after 20 May 2025; the 500 points have expired.
        advance_past_the_end("2026-08-13T10:00:00Z")
        if kind == "released":
            points.release(pending_transaction["ledgerTransactionId"])
        elif kind != "due":
            points.capture((pending_transaction["ledgerTransactionId"], None))
        assert program.balance == 40
        # 12 months after 13 August 2026, the quarter ends with September 2027.
        assert program.lots == {END_OF_SEPTEMBER_2027: 40}
        program.clock.advance("2027-09-30T21:59:59Z")
        assert program.balance == 40
        program.clock.advance(END_OF_SEPTEMBER_2027)
        assert program.balance == 0
        assert points.verify() == []

    def test_points_that_arrive_before_an_idle_balance_expires_do_not_prolong_it(self, program):
        program.points.mint(program.wallet, 40, availableAfter="P90D")
        # 90 days after 20 May 2025.
        program.clock.advance("2025-08-18T10:00:00Z")
        assert program.lots == {END_OF_QUARTER: 500 + 40}

    @pytest.mark.parametrize("kind", ["due", "released", "captured", "transferred"])
    def test_the_first_idle_period_of_points_that_wait_begins_when_they_become_available(self, clock, kind):
        """The wallet has had no activity, since the policy counts only visits."""
        program = Program(clock, expirationPolicies=by_inactivity(activities=[GENERIC]))
        points = program.points
        waits = {
            "due": {"availableAfter": "P90D"},
            "released": {"availableAfter": "P600D"},
            "captured": {"captureMethod": "manual"},
        }
        if kind == "transferred":
            sender = points.wallet()
            points.mint(sender, 40)
            pending_transaction = points.move(40, source=sender, target=program.wallet, captureMethod="manual")[0]
        else:
            pending_transaction = points.move(40, target=program.wallet, **waits[kind])[0]
        # 90 days after 20 May 2025, in the next quarter.
        clock.advance("2025-08-18T10:00:00Z")
        if kind == "released":
            points.release(pending_transaction["ledgerTransactionId"])
        elif kind != "due":
            points.capture((pending_transaction["ledgerTransactionId"], None))
        # 12 months after 18 August 2025, the quarter ends with September 2026.
        assert program.lots == {END_OF_SEPTEMBER_2026: 40}
        clock.advance(END_OF_QUARTER)
        assert program.balance == 40
        clock.advance(END_OF_SEPTEMBER_2026)
        assert program.balance == 0
        assert points.verify() == []

    @pytest.mark.parametrize(
        "more", [{"availableAfter": "P90D"}, {"captureMethod": "manual"}], ids=["waiting", "pending"]
    )
    def test_points_that_have_not_arrived_do_not_prolong_a_balance_without_an_activity(self, clock, more):
        program = Program(clock, expirationPolicies=by_inactivity(activities=[GENERIC]))
        program.points.mint(program.wallet, 60)
        clock.advance("2025-08-18T10:00:00Z")
        # These points are not available yet.
        program.points.mint(program.wallet, 40, **more)
        assert program.lots == {END_OF_QUARTER: 60}

    def test_only_the_activities_of_the_policy_count(self, clock):
        policies = by_inactivity(activities=["spend", GENERIC])
        program = Program(clock, expirationPolicies=policies)
        program.buy(500)
        clock.advance("2025-12-01T11:00:00Z")
        # To earn points is no activity of this policy.
        program.buy(10)
        assert program.lots == {END_OF_QUARTER: 500 + 10}
        program.shop.track_one(event("ana", GENERIC))
        assert program.lots == {END_OF_2026: 500 + 10}
        # Neither a dry run nor a captured event is an activity.
        clock.advance("2026-03-01T11:00:00Z")
        program.shop.track_one(event("ana", GENERIC), executionMode="dryRun")
        program.shop.track_one(event("ana", GENERIC), executionMode="captureOnly")
        assert program.lots == {END_OF_2026: 500 + 10}
        program.points.burn(program.wallet, 1)
        assert program.lots == {END_OF_MARCH_2027: 500 + 10 - 1}

    def test_points_earned_too_long_ago_expire_at_once(self, clock):
        program = Program(clock)
        # 12 months later, the quarter ended with March 2025. Now it is May 2025.
        program.buy(40, externalEventDate="2024-03-31T10:00:00Z")
        assert program.balance == 0
        assert program.history() == [("mint", 40, None), ("burn", 40, "Expired")]
        # A day later, the next quarter ends with June 2025.
        program.buy(7, externalEventDate="2024-04-01T10:00:00Z")
        assert program.lots == {"2025-06-30T22:00:00Z": 7}
        assert program.points.verify() == []

    def test_an_activity_counts_at_the_date_on_which_it_happened(self, program):
        program.clock.advance("2026-01-10T11:00:00Z")
        # The last second of 2025 in Madrid.
        program.buy(10, externalEventDate="2025-12-31T22:59:59Z")
        assert program.lots == {END_OF_2026: 500 + 10}
        program.buy(10, externalEventDate="2025-08-01T22:59:59Z")
        assert program.lots == {END_OF_2026: 500 + 10 + 10}

    def test_a_cancelled_activity_still_extends_the_balance(self, program):
        program.clock.advance("2026-01-10T11:00:00Z")
        purchase = program.buy(10)
        key = purchase["loyaltyEventKey"]
        program.shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
        assert program.lots == {END_OF_MARCH_2027: 500}

    def test_the_job_expires_wallets_after_the_end_of_the_quarter(self, clock):
        program = Program(clock)
        program.buy(500)
        clock.advance("2026-06-01T10:00:00Z")
        # The 12 months have ended, the quarter has not.
        newest_transaction = program.points.rows()[0]
        assert newest_transaction["transactionType"] == "mint"
        clock.advance("2026-07-01T10:00:00Z")
        expiry = program.points.rows()[0]
        assert expiry["externalEventDate"] == END_OF_QUARTER
        # The clock has run the job, so nothing is due any more.
        assert expire_points(clock.organization.api.engine, clock.organization.id).amounts == {}

    def test_policies_have_defaults_and_only_one_kind_per_account(self, clock):
        path = f"/ledgers/{clock.organization.defaults.ledger_id}/accounts"
        body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}

        def problem_of(*policies, expect):
            """The problem of an account with these policies."""
            account = {**body, "expirationPolicies": list(policies)}
            return clock.organization.administration.post(path, account, expect=expect)

        def pointers_of(*policies):
            """The pointers of the faults of an account with these policies."""
            return [error["pointer"] for error in problem_of(*policies, expect=400)["errors"]]

        inactivity = {"expirationType": "inactivity", "period": 12}
        last_transaction = {"expirationType": "lastTransaction", "period": 12}
        assert pointers_of(inactivity, last_transaction) == ["/expirationPolicies"]
        assert pointers_of({**last_transaction, "rounding": "month"}) == ["/expirationPolicies/0/rounding"]
        problem = problem_of({**inactivity, "activities": ["sleep"]}, expect=404)
        assert problem["type"] == "/problems/unknown-event-type"
        points = Points.new(clock.organization, expirationPolicies=[inactivity])
        policy_with_defaults = {**inactivity, "activities": ["earn", "spend"], "rounding": "none"}
        assert points.account["expirationPolicies"] == [policy_with_defaults]
        # A transfer always counts as an activity, so its body has no such field.
        problem = points.move(0, source=points.wallet(), target=points.wallet(), expect=400, countsAsActivity=False)
        assert [error["pointer"] for error in problem["errors"]] == ["/countsAsActivity"]


@pytest.fixture(params=["posted", "not-posted"])
def advance_past_the_end(request, program):
    """A function that advances past the end of the quarter; the expiry is posted by the job, or not posted yet."""

    def advance(to):
        if request.param == "not-posted":
            # Sets the clock without running due jobs.
            program.points.change(
                "UPDATE organizations SET clock_now = :now WHERE organization_id = :id",
                now=to,
                id=program.clock.organization.id,
            )
        else:
            program.clock.advance(to)

    return advance


class TestReverts:
    """A burn of 200 of the 500 points is reverted after the balance has expired."""

    def program_after_revert(self, clock, fields_of_mint=None, policy=None, **settings):
        """The program after the revert of the burn of 200 points on 10 July 2026.

        With `fields_of_mint`, 7 points are minted on 5 July, after the balance has expired and before the revert.
        """
        program = Program(clock, expirationPolicies=policy or by_inactivity(), **settings)
        program.buy(500)
        burn = program.points.burn(program.wallet, 200)[0]["ledgerTransactionId"]
        clock.advance("2026-07-05T10:00:00Z")
        assert program.balance == 0
        if fields_of_mint is not None:
            program.points.mint(program.wallet, 7, **fields_of_mint)
        clock.advance("2026-07-10T10:00:00Z")
        program.points.revert(burn)
        assert program.points.verify() == []
        return program

    def test_points_returned_to_an_expired_balance_expire_at_once(self, clock):
        assert self.program_after_revert(clock).balance == 0

    def test_points_returned_to_an_expired_balance_live_for_the_configured_days(self, clock):
        # 30 days after the revert on 10 July.
        assert self.program_after_revert(clock, restoredExpiryDays=30).lots == {"2026-08-09T10:00:00Z": 200}

    @pytest.mark.parametrize("fields_of_mint", [{}, {"countsAsActivity": False}], ids=["activity", "no activity"])
    @pytest.mark.parametrize("days", [0, 30])
    def test_points_returned_to_a_new_balance_live_as_long_as_its_points(self, clock, fields_of_mint, days):
        program = self.program_after_revert(clock, fields_of_mint, restoredExpiryDays=days)
        assert program.lots == {END_OF_SEPTEMBER_2027: 200 + 7}

    def test_a_revert_is_a_last_transaction(self, clock):
        policy = [{"expirationType": "lastTransaction", "period": 12}]
        assert self.program_after_revert(clock, policy=policy).lots == {"2027-07-10T10:00:00Z": 200}


class TestChangesOfThePolicy:
    """The policy of 12 months becomes one of a month at 12:00 on 10 March 2026.

    The 500 points of the fixture `program` are of 20 May 2025, more than a month before.
    """

    CHANGED_AT = "2026-03-10T11:00:00Z"

    def set_months(self, program, months):
        """Change the policy to this number of months without activity, without rounding to quarters."""
        settings = {name: program.points.account[name] for name in ("name", "active", "isRevolving", "decimals")}
        policies = by_inactivity(period=months, rounding="none")
        body = {**settings, "chainSyncEnabled": False, "expirationPolicies": policies}
        program.points.admin.put(program.points.path, body)

    def daily_amounts(self, program):
        """The balances of the member from 8 to 11 March 2026, one for each day."""
        path = f"{program.points.ledger_path}/wallets/{program.wallet}/daily-balances"
        days = program.points.admin.get(path, fromDate="2026-03-08", toDate="2026-03-11")["results"]
        return [day["amount"] for day in days if day["ledgerAccountId"] == program.points.account_id]

    @pytest.fixture
    def program_with_expired_points(self, program):
        program.clock.advance(self.CHANGED_AT)
        self.set_months(program, 1)
        return program

    def test_points_whose_new_months_have_passed_expire_when_the_policy_changes(
        self, program_with_expired_points, advance_past_the_end
    ):
        assert program_with_expired_points.balance == 0
        advance_past_the_end("2026-03-12T11:00:00Z")
        # Days before the change keep their balances.
        assert self.daily_amounts(program_with_expired_points) == [500, 500, 0, 0]
        program_with_expired_points.clock.advance("2026-03-12T11:00:01Z")
        assert program_with_expired_points.points.rows()[0]["externalEventDate"] == self.CHANGED_AT
        assert program_with_expired_points.history() == [("mint", 500, None), ("burn", 500, "Expired")]
        assert self.daily_amounts(program_with_expired_points) == [500, 500, 0, 0]
        assert program_with_expired_points.points.verify() == []

    def test_a_longer_period_restores_expired_points_only_before_their_expiry_is_posted(
        self, program_with_expired_points
    ):
        self.set_months(program_with_expired_points, 12)
        assert program_with_expired_points.balance == 500
        # 12 months after the purchase on 20 May 2025.
        assert program_with_expired_points.lots == {"2026-05-20T10:00:00Z": 500}
        self.set_months(program_with_expired_points, 1)
        # The clock posts the expiry.
        program_with_expired_points.clock.advance("2026-03-10T11:00:01Z")
        self.set_months(program_with_expired_points, 12)
        assert program_with_expired_points.balance == 0

    def test_a_movement_of_points_posts_the_expiry_by_the_changed_policy(self, program_with_expired_points):
        # This movement posts the expiry of the 500 points, which the longer period does not restore.
        program_with_expired_points.points.mint(program_with_expired_points.wallet, 10)
        self.set_months(program_with_expired_points, 12)
        assert program_with_expired_points.history() == [
            ("mint", 500, None),
            ("burn", 500, "Expired"),
            ("mint", 10, None),
        ]
        assert program_with_expired_points.lots == {"2027-03-10T11:00:00Z": 10}

    def test_setting_the_same_policy_again_does_not_change_the_date_of_an_expiry(self, clock):
        program = Program(clock, expirationPolicies=by_inactivity(period=12, rounding="none"))
        program.buy(500)
        # Sets the clock without running due jobs.
        program.points.change(
            "UPDATE organizations SET clock_now = :now WHERE organization_id = :id",
            now="2026-07-05T10:00:00Z",
            id=clock.organization.id,
        )
        self.set_months(program, 12)
        # The clock posts the expiry, at the date 12 months after the purchase.
        clock.advance("2026-07-05T10:00:01Z")
        assert program.points.rows()[0]["externalEventDate"] == "2026-05-20T10:00:00Z"


class TestLateActivities:
    """An activity before END_OF_QUARTER is reported after it; the fixture `program` has 500 points until then."""

    def test_a_late_activity_in_time_restores_the_whole_balance(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        assert program.balance == 0
        # Reported on 2 July, bought on 30 June at 18:00 in Madrid.
        program.buy(40, externalEventDate="2026-06-30T16:00:00Z")
        assert program.lots == {END_A_YEAR_LATER: 500 + 40}
        assert program.history() == [
            ("mint", 500, None),
            ("burn", 500, "Expired"),
            ("revert", 500, "late-activity"),
            ("mint", 40, None),
        ]
        _mint, expiry, revert, _second_mint = program.points.rows(order="ledgerTransactionId,asc")
        assert (expiry["status"], expiry["reversalLedgerTransactionId"]) == (REVERTED, revert["ledgerTransactionId"])
        assert revert["revertedLedgerTransactionId"] == expiry["ledgerTransactionId"]
        assert program.points.verify() == []
        program.clock.advance(END_A_YEAR_LATER)
        assert program.balance == 0
        assert program.points.verify() == []

    @pytest.mark.parametrize(
        ("now", "restored_points"),
        [
            pytest.param("2026-07-03T22:00:00Z", 500, id="72 hours after the end of the quarter"),
            pytest.param("2026-07-03T22:00:01Z", 0, id="a second later"),
            pytest.param("2026-07-03T22:01:00Z", 0, id="a minute later"),
        ],
    )
    def test_a_late_activity_is_in_time_for_72_hours(self, program, advance_past_the_end, now, restored_points):
        advance_past_the_end(now)
        program.buy(40, externalEventDate="2026-06-30T16:00:00Z")
        assert program.lots == {END_A_YEAR_LATER: restored_points + 40}
        assert program.points.verify() == []

    def test_an_activity_after_the_end_restores_nothing(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        program.buy(40, externalEventDate=END_OF_QUARTER)
        assert program.lots == {END_OF_SEPTEMBER_2027: 40}

    @pytest.mark.parametrize("date_without_effect", ["2025-04-20T10:00:00Z", "2025-05-21T10:00:00Z"])
    def test_a_late_activity_restores_the_balance_after_one_that_would_not_have_prevented_the_expiry(
        self, clock, date_without_effect
    ):
        # After the purchase of 20 May 2025 the balance expires on 20 May 2026, with one of the next day on 21 May.
        program = Program(clock, expirationPolicies=by_inactivity(rounding="none"))
        program.buy(500)
        clock.advance("2026-05-22T10:00:00Z")
        program.buy(7, externalEventDate=date_without_effect)
        assert program.balance == 0
        program.buy(40, externalEventDate="2026-05-20T09:00:00Z")
        assert program.lots == {"2027-05-20T09:00:00Z": 500 + 40}
        assert program.points.verify() == []

    def test_an_activity_long_before_the_expiry_restores_nothing_after_a_later_activity(self, program):
        program.clock.advance("2026-07-02T10:00:00Z")
        program.buy(7)
        # After 12 months without another activity, the balance would have expired with the first quarter of 2026.
        program.buy(40, externalEventDate="2025-03-20T10:00:00Z")
        # The 500 points remain expired.
        assert program.balance == 7 + 40

    @pytest.mark.parametrize("more", [{}, {"captureMethod": "manual"}], ids=["burns", "holds"])
    def test_a_late_activity_restores_points_that_reverts_have_returned_since(self, program, more):
        burns = [program.points.burn(program.wallet, amount, **more)[0] for amount in (200, 100)]
        # The other 200 points expire, and the reverts return 200 and 100, which expire at once.
        program.clock.advance("2026-07-01T10:00:00Z")
        for burn in burns:
            program.points.revert(burn["ledgerTransactionId"])
        assert program.balance == 0
        program.clock.advance("2026-07-02T10:00:00Z")
        program.buy(40, externalEventDate="2026-06-30T16:00:00Z")
        assert program.lots == {END_A_YEAR_LATER: 500 + 40}
        assert program.points.verify() == []

    def test_a_late_activity_restores_the_balance_after_later_activities(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        program.buy(7)
        assert program.balance == 7
        program.buy(40, externalEventDate="2026-06-30T16:00:00Z")
        assert program.lots == {END_OF_SEPTEMBER_2027: 7 + 500 + 40}
        # The balance is restored only once.
        program.buy(1, externalEventDate="2026-06-30T16:00:00Z")
        assert program.balance == 7 + 500 + 40 + 1
        assert program.points.verify() == []

    def test_each_event_of_a_batch_sees_the_balance_after_earlier_events(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        late_date = {"externalEventDate": "2026-06-30T16:00:00Z"}
        program.shop.track(order("ana", 7), order("ana", 40, **late_date), order("ana", 1, **late_date))
        assert program.balance == 7 + 500 + 40 + 1
        assert program.history()[1:3] == [("burn", 500, "Expired"), ("mint", 7, None)]
        assert program.points.verify() == []

    def test_restored_points_can_be_spent_by_a_late_event(self, program, advance_past_the_end):
        rule = f"event.eventType == '{GENERIC}'"
        program.shop.campaign(running(spend(450, ledgerAccountKey=program.key), rule=rule))
        advance_past_the_end("2026-07-02T10:00:00Z")
        program.shop.track_one(event("ana", GENERIC, externalEventDate="2026-06-30T16:00:00Z"))
        assert program.lots == {END_A_YEAR_LATER: 500 - 450}
        assert program.points.verify() == []

    def test_a_refused_burn_restores_nothing(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        # One more than the 500 points that the burn would restore.
        program.points.burn(program.wallet, 501, expect=409, externalEventDate="2026-06-30T16:00:00Z")
        assert program.balance == 0
        program.points.burn(program.wallet, 499, externalEventDate="2026-06-30T16:00:00Z")
        assert program.lots == {END_A_YEAR_LATER: 500 - 499}
        assert program.points.verify() == []

    def test_a_correction_restores_nothing(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        late_date = {"externalEventDate": "2026-06-30T16:00:00Z"}
        program.points.mint(program.wallet, 5, countsAsActivity=False, **late_date)
        # The 500 points remain expired.
        assert program.balance == 5

    def test_a_late_activity_restores_nothing_if_late_activity_days_is_0(self, clock):
        program = Program(clock, lateActivityDays=0)
        program.buy(500)
        clock.advance("2026-06-30T22:00:01Z")
        program.buy(40, externalEventDate="2026-06-30T16:00:00Z")
        # The 500 points remain expired.
        assert program.balance == 40

    def test_lots_with_an_earlier_fixed_expiry_are_not_restored(self, clock):
        # After 14 months, the 500 points end on 20 July 2026, and the 20 points on 1 July, before the purchase is sent.
        program = Program(clock, expiresInMonths=14)
        program.buy(500)
        program.clock.advance("2025-06-01T10:00:00Z")
        program.points.mint(program.wallet, 20, externalEventDate="2025-05-01T22:00:00Z")
        program.clock.advance("2026-07-02T10:00:00Z")
        program.buy(40, externalEventDate="2026-06-30T16:00:00Z")
        assert program.lots == {"2026-07-20T10:00:00Z": 500, END_A_YEAR_LATER: 40}
        assert program.points.verify() == []

    def test_a_dry_run_sees_the_restored_balance(self, program, advance_past_the_end):
        advance_past_the_end("2026-07-02T10:00:00Z")
        rule = f"event.eventType == '{GENERIC}'"
        program.shop.campaign(running(spend(450, ledgerAccountKey=program.key), rule=rule))
        late_event = event("ana", GENERIC, externalEventDate="2026-06-30T16:00:00Z")
        [dry_run] = program.shop.track(late_event, executionMode="dryRun")
        assert [(effect["effectId"], effect["status"]) for effect in dry_run["effects"]] == [
            ("burn-points", "evaluated")
        ]
        assert program.balance == 0
        [outcome] = program.shop.track_one(late_event)["effects"]
        assert (outcome["effectId"], outcome["status"]) == ("burn-points", "executed")
        assert program.balance == 500 - 450


class TestExports:
    def test_exported_balances_have_the_earlier_of_their_two_expiries(self, clock):
        program = Program(clock, expiresInMonths=48)
        program.buy(500)
        # 48 months later is September 2025, before the end of the inactivity.
        program.points.mint(program.wallet, 20, externalEventDate="2021-09-01T10:00:00Z")
        program.points.mint(program.wallet, 3, countsAsActivity=False)
        rows = map(json.loads, exported_lines(clock.organization, "balances", now=datetime(2025, 6, 1, tzinfo=UTC)))
        amounts = [(row["amount"], row["expiresAt"]) for row in rows if "expiresAt" in row]
        assert sorted(amounts) == [(20, "2025-09-01T10:00:00Z"), (500 + 3, END_OF_QUARTER)]
        rows = map(json.loads, exported_lines(clock.organization, "balances", now=datetime(2026, 7, 1, tzinfo=UTC)))
        assert [row for row in rows if "expiresAt" in row] == []
