"""The test clock of an organization: its operations, what depends on it, and what depends on the real time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import jwt
import pytest

from handlers.server import jobs
from handlers.server.jobs import evaluate_tiers, expire_points
from handlers.services.events import drain_queue
from handlers.services.organizations import test_clock as service
from handlers.services.organizations.reset import reset_credentials, reset_organization
from handlers.services.verify import verify
from persistence import idle_balances, organizations, transactions
from tests.builders.badges import Badges
from tests.builders.campaigns import mint
from tests.builders.content import Content
from tests.builders.coupons import CouponBooks
from tests.builders.imports import Imports
from tests.builders.points import Points
from tests.builders.queue import outcome, send, waiting
from tests.builders.test_clocks import Clock
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event, key, running
from tests.builders.triggers import add_trigger
from tests.builders.users import Users

START = "2026-03-01T09:00:00Z"
IS_GENERIC = "event.eventType == 'member-generic-event'"


@pytest.fixture
def clock(api):
    """A clock at 1 March 2026, 9:00 UTC."""
    return Clock.new(api, starts_at=START)


@pytest.fixture
def shop(clock):
    return Shop(clock.organization)


@pytest.fixture
def yearly_points(clock):
    """A further account, whose points expire after 12 months."""
    return Points.new(clock.organization, expiresInMonths=12, pointTrackingEnabled=True)


def track(shop, *events):
    """Track events; return their results."""
    return shop.integration.post("/events/track", {"events": list(events)}, expect=200)["results"]


def transactions_of(points):
    """The transactions of an account, newest first."""
    return points.admin.get(f"{points.path}/transactions")["results"]


def reset(clock):
    """Remove all records of the organization, as the operator's command does."""
    organization_id, now = clock.organization.id, datetime.now(UTC)
    transactions.run(clock.organization.api.engine, lambda db: reset_organization(db, organization_id, now))


def problem(response):
    """The type of a problem without its prefix."""
    return response["type"].removeprefix("/problems/")


def begin_advance(clock, monkeypatch, to):
    """Begin an advance by a request that has no time for its steps; return the state of the clock."""
    with monkeypatch.context() as patch:
        patch.setattr(service, "CALL_SECONDS", 0)
        return clock.advance(to)


class TestOperations:
    def test_a_clock_stays_at_its_start(self, clock):
        state = {"now": START, "status": "ready", "target": None, "startedAt": None, "steps": 0, "lastError": None}
        assert clock.get() == state
        assert clock.get() == state

    def test_a_clock_without_a_start_begins_with_the_real_time(self, api):
        clock = Clock(api.organization(environment="test"))
        time_before = datetime.now(UTC)
        start = datetime.fromisoformat(clock.start()["now"])
        assert time_before <= start <= datetime.now(UTC)

    def test_a_live_organization_has_no_clock(self, organization):
        live_clock = Clock(organization)
        responses = [
            live_clock.get(expect=409),
            live_clock.start(expect=409),
            live_clock.advance(START, expect=409),
            live_clock.remove(expect=409),
        ]
        assert [problem(response) for response in responses] == ["not-a-test-organization"] * 4

    def test_a_second_clock_is_refused(self, clock):
        assert problem(clock.start(expect=409)) == "test-clock-exists"
        assert clock.get()["now"] == START

    def test_calls_about_a_missing_clock_are_refused(self, api):
        no_clock = Clock(api.organization(environment="test"))
        responses = [no_clock.get(expect=404), no_clock.advance(START, expect=404), no_clock.remove(expect=404)]
        assert [problem(response) for response in responses] == ["test-clock-missing"] * 3

    def test_advancing_and_removing_need_the_role_for_campaigns(self, clock):
        admin = clock.organization.administration
        writer = admin.with_token(clock.organization.token_of("campaigns:write"))
        writer.post("/test-clock/advance", {"to": "2026-03-02T09:00:00Z"}, expect=200)
        reader = admin.with_token(clock.organization.token_of("campaigns:read"))
        assert reader.get("/test-clock")["testClock"]["now"] == "2026-03-02T09:00:00Z"
        reader.post("/test-clock/advance", {"to": "2026-03-03T09:00:00Z"}, expect=403)
        reader.delete("/test-clock", expect=403)

    def test_a_clock_does_not_go_back(self, clock):
        response = clock.advance("2026-03-01T08:59:59Z", expect=409)
        assert problem(response) == "test-clock-backwards"
        assert response["detail"] == "The clock shows 2026-03-01T09:00:00Z, which is after 2026-03-01T08:59:59Z."
        assert clock.get()["now"] == START

    def test_a_repeated_advance_changes_nothing(self, clock):
        first_state = clock.advance("2026-03-02T09:00:00Z")
        assert clock.advance("2026-03-02T09:00:00Z") == first_state
        # No points expired on the way, so there were no steps.
        assert (first_state["now"], first_state["steps"]) == ("2026-03-02T09:00:00Z", 0)

    def test_an_advance_is_limited_to_731_days(self, clock):
        # 731 days after 1 March 2026 is 1 March 2028, because 2028 is a leap year.
        response = clock.advance("2028-03-01T09:00:01Z", expect=400)
        detail = "to is more than 731 days after 2026-03-01T09:00:00Z, the time of the clock."
        assert response["errors"] == [{"pointer": "/to", "detail": detail}]
        assert clock.advance("2028-03-01T09:00:00Z")["now"] == "2028-03-01T09:00:00Z"

    def test_no_clock_shows_a_time_before_1970_or_ten_years_from_now(self, api):
        clock = Clock(api.organization(environment="test"))
        in_more_than_ten_years = (datetime.now(UTC) + timedelta(days=3700)).isoformat()
        for moment in ("1969-12-31T23:59:59Z", in_more_than_ten_years, "0001-01-01T00:00:00Z"):
            assert clock.start(startsAt=moment, expect=400)["errors"][0]["pointer"] == "/startsAt"
        clock.start(startsAt="1970-01-01T00:00:00Z")
        assert clock.advance(in_more_than_ten_years, expect=400)["errors"][0]["pointer"] == "/to"

    def test_a_clock_does_not_begin_before_the_newest_record(self, api):
        organization = api.organization(environment="test")
        # Without a clock, the member is enrolled in real time, after START.
        enrolled_at = organization.member("ana")["createdAt"]
        clock = Clock(organization)
        response = clock.start(startsAt=START, expect=409)
        assert problem(response) == "test-clock-backwards"
        assert clock.start(startsAt=enrolled_at)["now"] == enrolled_at

    def test_an_organization_shows_its_clock(self, clock, organization):
        test_organization = clock.organization.administration.get("")["organization"]
        assert test_organization["testClock"] == {"now": START, "status": "ready"}
        assert "testClock" not in organization.administration.get("")["organization"]

    def test_every_response_shows_the_clock(self, clock, shop):
        shop.member()
        list_reply = shop.integration.request("GET", "/members")
        unknown_reply = shop.integration.request("GET", "/members/nobody", expect=404)
        creation_reply = shop.integration.request("POST", "/members", {"loyaltyMemberId": "ben"}, expect=201)
        conflict_reply = shop.integration.request("POST", "/members", {"loyaltyMemberId": "ben"}, expect=409)
        for reply in (list_reply, unknown_reply, creation_reply, conflict_reply):
            assert reply.headers["x-test-clock"] == START
        advance_reply = clock.organization.administration.request(
            "POST", "/test-clock/advance", {"to": "2026-03-02T09:00:00Z"}
        )
        assert advance_reply.headers["x-test-clock"] == "2026-03-02T09:00:00Z"

    def test_responses_of_other_organizations_show_no_clock(self, organization):
        assert "x-test-clock" not in organization.integration.request("GET", "/members").headers

    def test_a_clock_is_removed_if_no_record_is_later_than_the_real_time(self, clock, shop):
        shop.member()
        clock.advance("2026-03-02T09:00:00Z")
        clock.remove()
        # A new member is enrolled in real time.
        enrolled_at = datetime.fromisoformat(shop.organization.member()["createdAt"])
        assert enrolled_at > datetime.now(UTC) - timedelta(minutes=5)
        clock.get(expect=404)

    def test_records_of_the_future_prevent_the_removal(self, api):
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        clock = Clock.new(api, starts_at=tomorrow)
        clock.organization.member()
        assert problem(clock.remove(expect=409)) == "test-clock-in-use"
        assert clock.get()["status"] == "ready"

    def test_changes_of_the_future_prevent_the_removal(self, clock, shop):
        tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
        badges = Badges(shop)
        badge = badges.create()
        clock.advance(tomorrow)
        badges.change(badge, name="Late bird")
        assert problem(clock.remove(expect=409)) == "test-clock-in-use"

    def test_users_and_groups_are_dated_by_the_real_time(self, api):
        clock = Clock.new(api, starts_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
        users = Users.of(clock.organization)
        group, user = users.group(), users.person()
        for record in (group, user):
            assert datetime.fromisoformat(record["createdAt"]) <= datetime.now(UTC)
        clock.remove()

    def test_the_audit_log_records_changes_of_the_clock_in_real_time(self, clock):
        clock.advance("2026-03-02T09:00:00Z")
        clock.advance("2026-03-02T09:00:00Z")
        clock.remove()
        entries = clock.organization.administration.get("/audit-log", order="auditLogId")["results"]
        # The repeated advance changes nothing, so there is no entry.
        creation, advance, removal = entries
        assert creation["operationId"] == "createTestClock"
        assert creation["testClock"] is None
        assert creation["changes"] == {"testClock": {"from": None, "to": {"now": START, "target": None}}}
        assert advance["operationId"] == "advanceTestClock"
        assert advance["testClock"] == START
        assert advance["changes"] == {"testClock.target": {"from": None, "to": "2026-03-02T09:00:00Z"}}
        assert (removal["operationId"], removal["testClock"]) == ("removeTestClock", "2026-03-02T09:00:00Z")
        for entry in entries:
            assert datetime.fromisoformat(entry["createdAt"]) > datetime.now(UTC) - timedelta(minutes=5)

    def test_a_reset_of_the_organization_removes_the_clock(self, clock, shop, api):
        shop.member()
        reset(clock)
        assert problem(clock.get(expect=404)) == "test-clock-missing"

    def test_a_reset_leaves_no_future_date_that_prevents_the_removal_of_a_new_clock(self, api):
        clock = Clock.new(api, starts_at=(datetime.now(UTC) + timedelta(days=1)).isoformat())
        record = clock.organization.administration.get("")["organization"]
        settings = {name: record[name] for name in ("locales", "defaultLocale")}
        # The change of the organization is dated by the clock, a day in the future.
        clock.organization.administration.put("", {"name": "Tea", **settings})
        reset(clock)
        clock.start()
        clock.remove()

    def test_the_audit_log_records_the_time_of_the_clock_for_commands(self, clock):
        organization_id, now = clock.organization.id, datetime.now(UTC)
        transactions.run(clock.organization.api.engine, lambda db: reset_credentials(db, organization_id, None, now))
        reset(clock)
        for operation in ("resetCredentials", "resetOrganization"):
            [entry] = clock.organization.administration.get("/audit-log", operationId=operation)["results"]
            assert entry["testClock"] == START


class TestAdvancing:
    def test_points_expire_at_their_moment(self, clock, yearly_points):
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100)
        state = clock.advance("2027-03-02T00:00:00Z")
        assert (state["now"], state["status"], state["steps"]) == ("2027-03-02T00:00:00Z", "ready", 1)
        assert yearly_points.balance(wallet) == 0
        [expiry, _mint] = transactions_of(yearly_points)
        assert (expiry["description"], expiry["amount"]) == ("Expired", 100)
        assert expiry["createdAt"] == "2027-03-01T09:00:00Z"

    def test_points_do_not_expire_before_their_moment(self, clock, yearly_points):
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100)
        # The points expire 12 months after START. Each moment at which points expire is a step.
        assert clock.advance("2027-03-01T08:59:59Z")["steps"] == 0
        assert yearly_points.balance(wallet) == 100
        assert clock.advance("2027-03-01T09:00:00Z")["steps"] == 1
        assert yearly_points.balance(wallet) == 0

    def test_idle_balances_expire_by_the_calendar_of_the_organizations_zone(self, api):
        # 23:30 UTC on 31 January is 0:30 on 1 February in Madrid. A month later is 0:30 on 1 March there.
        clock = Clock.new(api, starts_at="2026-01-31T23:30:00Z")
        policies = [{"expirationType": "lastTransaction", "period": 1}]
        idle_points = Points.new(clock.organization, expirationPolicies=policies)
        wallet = idle_points.wallet()
        idle_points.mint(wallet, 40)
        state = clock.advance("2026-04-01T00:00:00Z")
        assert state["steps"] == 1
        [expiry, _mint] = transactions_of(idle_points)
        assert (expiry["amount"], expiry["createdAt"]) == (40, "2026-02-28T23:30:00Z")

    def test_idle_balances_expire_in_the_order_of_the_organizations_zone(self, api, monkeypatch):
        # In Madrid the second mint is on 31 January at 0:30 and expires on 28 February at 0:30. The first mint expires
        # later, on 28 February at 13:00.
        # One balance at a time, so that the order matters.
        monkeypatch.setattr(idle_balances, "_FEW_IDLE", 1)
        monkeypatch.setattr(idle_balances, "_IDLE_AT_ONCE", 1)
        clock = Clock.new(api, starts_at="2026-01-28T12:00:00Z")
        idle_points = Points.new(
            clock.organization, expirationPolicies=[{"expirationType": "lastTransaction", "period": 1}]
        )
        idle_points.mint(idle_points.wallet(), 1)
        clock.advance("2026-01-30T23:30:00Z")
        idle_points.mint(idle_points.wallet(), 2)
        assert clock.advance("2026-04-01T00:00:00Z")["steps"] == 2
        last_expiry, first_expiry, *_mints = transactions_of(idle_points)
        assert (first_expiry["amount"], first_expiry["createdAt"]) == (2, "2026-02-27T23:30:00Z")
        assert (last_expiry["amount"], last_expiry["createdAt"]) == (1, "2026-02-28T12:00:00Z")

    def test_an_idle_balance_expires_if_another_account_of_the_wallet_fills_a_page(self, api, monkeypatch):
        monkeypatch.setattr(idle_balances, "_IDLE_AT_ONCE", 1)
        clock = Clock.new(api, starts_at="2026-01-28T12:00:00Z")
        policies = [{"expirationType": "lastTransaction", "period": 1}]
        later_points, earlier_points = (Points.new(clock.organization, expirationPolicies=policies) for _ in range(2))
        wallet = later_points.wallet()
        # In February 2026, points of the 30th of January at 9:00 expire on the 28th at 9:00, before those of the 28th.
        later_points.mint(wallet, 1)
        clock.advance("2026-01-30T09:00:00Z")
        earlier_points.mint(wallet, 2)
        clock.advance("2026-02-28T09:00:00Z")
        assert len(transactions_of(later_points)) == 1
        [expiry, _mint] = transactions_of(earlier_points)
        assert (expiry["amount"], expiry["createdAt"]) == (2, "2026-02-28T09:00:00Z")

    @pytest.mark.parametrize(
        ("timezone", "minted_at", "months", "expires_at"),
        [
            # 31 January at 0:30, and 30 June at 0:30 of summer time: a day and an hour sooner than in UTC.
            ("Europe/Madrid", "2026-01-30T23:30:00Z", 5, "2026-06-29T22:30:00Z"),
            # 30 July at 22:00 of summer time, and 28 February at 22:00: a day and an hour later than in UTC.
            ("America/New_York", "2026-07-31T02:00:00Z", 7, "2027-03-01T03:00:00Z"),
        ],
    )
    def test_idle_balances_expire_at_their_moment_after_a_change_of_summer_time(
        self, api, timezone, minted_at, months, expires_at
    ):
        clock = Clock.new(api, starts_at=minted_at, timezone=timezone)
        policies = [{"expirationType": "lastTransaction", "period": months}]
        idle_points = Points.new(clock.organization, expirationPolicies=policies)
        idle_points.mint(idle_points.wallet(), 40)
        end = datetime.fromisoformat(expires_at)
        assert clock.advance((end - timedelta(minutes=30)).isoformat())["steps"] == 0
        assert clock.advance((end + timedelta(minutes=30)).isoformat())["steps"] == 1
        [expiry, _mint] = transactions_of(idle_points)
        assert (expiry["amount"], expiry["createdAt"]) == (40, expires_at)

    def test_a_tier_by_calendar_years_is_reevaluated_at_the_new_year(self, api):
        clock = Clock.new(api, starts_at=START, timezone="UTC")
        shop = Shop(clock.organization)
        tiers = TierSchedule.new(shop, policy={"basis": "earned", "period": "calendar"}, Gold=1000)
        shop.campaign(running(mint(1000), rule=IS_GENERIC))
        member = shop.member()
        track(shop, event(member))
        assert tiers.of(member) == "Gold"
        assert clock.advance("2027-01-01T00:00:01Z")["steps"] == 1
        assert tiers.of(member) == "Basic"
        tier_events = shop.integration.get(f"/members/{member}/events", eventType="member-tier-set")["results"]
        assert [tier_event["createdAt"] for tier_event in tier_events] == ["2027-01-01T00:00:00Z", START]

    def test_queued_events_are_evaluated_before_time_passes(self, clock, shop):
        shop.campaign(running(mint(("=", "1 + now.getHours()")), rule=IS_GENERIC))
        member = shop.member()
        send(shop, event(member))
        clock.advance("2026-03-01T20:00:00Z")
        assert waiting(shop) == 0
        events = shop.integration.get(f"/members/{member}/events")["results"]
        assert {result["createdAt"] for result in events} == {START}
        [transaction] = transactions_of(Points.default(clock.organization))
        # The campaign gives 1 point and one for each hour of the time: 9:00 UTC is 10:00 in Madrid.
        assert (transaction["amount"], transaction["createdAt"]) == (1 + 10, START)

    def test_queued_events_that_fail_are_retried_before_time_passes(self, clock, shop, monkeypatch):
        shop.campaign(running(mint(5), rule=IS_GENERIC))
        member = shop.member()
        receipts = send(shop, event(member), event(member))
        evaluate, faults = drain_queue.evaluate_claimed, iter(range(3))

        def fail_thrice(*arguments):
            """Fail in the first three calls."""
            if next(faults, None) is not None:
                raise ZeroDivisionError
            evaluate(*arguments)

        monkeypatch.setattr(drain_queue, "evaluate_claimed", fail_thrice)
        assert clock.advance("2026-04-01T09:00:00Z")["status"] == "ready"
        assert [outcome(shop, receipt)["event"]["status"] for receipt in receipts] == ["success", "success"]
        moments = shop.rows("ledger_transactions", "created_at")
        assert moments == [(datetime.fromisoformat(START),)] * 2

    def test_queued_events_that_always_fail_become_dead_letters_before_time_passes(self, clock, shop, monkeypatch):
        member = shop.member()
        [receipt] = send(shop, event(member))

        def fail(*arguments):
            raise ZeroDivisionError

        monkeypatch.setattr(drain_queue, "evaluate_claimed", fail)
        assert clock.advance("2026-04-01T09:00:00Z")["status"] == "ready"
        [dead_letter] = shop.administration.get("/events/dead-letters")["results"]
        assert dead_letter["event"]["loyaltyEventKey"] == receipt["loyaltyEventKey"]
        assert (dead_letter["event"]["status"], dead_letter["event"]["updatedAt"]) == ("failed", START)

    def test_a_worker_can_deactivate_a_trigger_while_the_clock_advances(self, clock, yearly_points, monkeypatch, api):
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100)
        expire = service.expire_next

        def deactivate_meanwhile(*arguments):
            # A worker that deactivates a trigger increments the version of the configuration, in the row of the
            # organization. If the step held a lock on this row, the update would fail after 500 ms.
            with api.engine.begin() as db_of_worker:
                db_of_worker.exec_driver_sql("SET LOCAL lock_timeout = 500")
                organizations.increment_configuration_version(db_of_worker, clock.organization.id)
            return expire(*arguments)

        monkeypatch.setattr(service, "expire_next", deactivate_meanwhile)
        assert clock.advance("2027-03-02T00:00:00Z")["status"] == "ready"
        assert yearly_points.balance(wallet) == 0

    def test_a_clock_is_not_removed_while_work_of_its_target_is_due(self, api, clock, monkeypatch):
        begin_advance(clock, monkeypatch, "2026-03-02T09:00:00Z")
        with api.engine.begin() as db:
            # The clock shows its target, but the work of this moment is not done yet.
            update = "UPDATE organizations SET clock_now = clock_target WHERE organization_id = %s"
            db.exec_driver_sql(update, (clock.organization.id,))
        assert problem(clock.remove(expect=409)) == "test-clock-advancing"

    def test_changes_are_refused_and_reads_allowed_during_an_advance(self, clock, shop, monkeypatch):
        member = shop.member()
        state = begin_advance(clock, monkeypatch, "2026-03-02T09:00:00Z")
        assert (state["status"], state["target"], state["now"]) == ("advancing", "2026-03-02T09:00:00Z", START)
        reply = shop.integration.request("POST", "/events/track", {"events": [event(member)]}, expect=409)
        assert problem(reply.json) == "test-clock-advancing"
        assert (reply.headers["retry-after"], reply.headers["x-test-clock"]) == ("1", START)
        assert problem(clock.advance("2026-03-03T09:00:00Z", expect=409)) == "test-clock-advancing"
        assert problem(clock.remove(expect=409)) == "test-clock-advancing"
        assert shop.integration.get(f"/members/{member}/events", eventType="member-generic-event")["totalCount"] == 0
        shop.integration.post("/members/exists", {"loyaltyMemberIds": [member]}, expect=200)
        simulation = shop.integration.post("/simulations", {"order": {"total": 5}}, expect=200)["simulation"]
        assert simulation["at"] == START
        assert clock.advance("2026-03-02T09:00:00Z")["status"] == "ready"
        track(shop, event(member))

    def test_an_import_waits_until_an_advance_is_done(self, clock, monkeypatch):
        imports = Imports(clock.organization)
        path = imports.queue("loyaltyMemberId\nana\n")
        begin_advance(clock, monkeypatch, "2026-03-02T09:00:00Z")
        imports.importer.step()
        assert imports.get(path)["status"] == "queued"
        clock.advance("2026-03-02T09:00:00Z")
        while imports.importer.step():
            pass
        assert imports.get(path)["status"] == "done"
        member = clock.organization.integration.get("/members/ana")["loyaltyMember"]
        assert member["createdAt"] == "2026-03-02T09:00:00Z"

    def test_a_reset_of_the_organization_ends_an_advance(self, clock, yearly_points, monkeypatch, api):
        yearly_points.mint(yearly_points.wallet(), 100)
        begin_advance(clock, monkeypatch, "2027-03-02T00:00:00Z")
        reset(clock)
        organization = service.advance_clock(api.engine, api.settings, clock.organization.id, lambda: False)
        assert organization.test_clock is None
        clock.organization.integration.post("/members", {"loyaltyMemberId": "ana"})

    def test_points_that_are_due_when_the_clock_begins_expire_at_its_start(self, api):
        organization = api.organization(environment="test")
        idle_points = Points.new(organization, expirationPolicies=[{"expirationType": "lastTransaction", "period": 1}])
        wallet = idle_points.wallet()
        idle_points.mint(wallet, 40)
        clock, after_the_expiry = Clock(organization), (datetime.now(UTC) + timedelta(days=40)).isoformat()
        start = clock.start(startsAt=after_the_expiry)["now"]
        assert clock.advance((datetime.now(UTC) + timedelta(days=50)).isoformat())["steps"] == 0
        [expiry, _mint] = transactions_of(idle_points)
        assert (expiry["amount"], expiry["createdAt"]) == (40, start)

    def test_a_worker_continues_an_advance(self, clock, yearly_points, monkeypatch, api):
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100)
        begin_advance(clock, monkeypatch, "2027-03-02T00:00:00Z")
        assert service.advance_clocks(api.engine, api.settings, lambda: False)
        state = clock.get()
        assert (state["status"], state["now"], state["steps"]) == ("ready", "2027-03-02T00:00:00Z", 1)
        assert yearly_points.balance(wallet) == 0

    def test_the_work_of_one_moment_is_done_in_parts(self, clock, yearly_points, monkeypatch, api):
        wallets = [yearly_points.wallet() for _ in range(3)]
        for wallet in wallets:
            yearly_points.mint(wallet, 100)
        begin_advance(clock, monkeypatch, "2027-03-02T00:00:00Z")
        # A part is one wallet: a step ends after its first look at the time, which comes after each wallet.
        monkeypatch.setattr(service, "_STEP_SECONDS", 0)
        monkeypatch.setattr(service, "_WALLETS_AT_ONCE", 1)

        def expiries():
            return [row["createdAt"] for row in transactions_of(yearly_points) if row["description"] == "Expired"]

        # The advance stops after the first expiry of the moment.
        service.advance_clock(api.engine, api.settings, clock.organization.id, lambda: len(expiries()) == 1)
        state = clock.get()
        assert (state["now"], state["status"], state["steps"]) == ("2027-03-01T09:00:00Z", "advancing", 1)
        assert clock.advance("2027-03-02T00:00:00Z")["steps"] == 1
        assert expiries() == ["2027-03-01T09:00:00Z"] * 3
        assert [yearly_points.balance(wallet) for wallet in wallets] == [0, 0, 0]

    def test_a_worker_leaves_an_advance_after_its_time_for_one_clock_is_used_up(
        self, clock, yearly_points, monkeypatch, api
    ):
        yearly_points.mint(yearly_points.wallet(), 100)
        # Neither the request nor the worker has time for a step.
        monkeypatch.setattr(service, "CALL_SECONDS", 0)
        clock.advance("2027-03-02T00:00:00Z")
        assert service.advance_clocks(api.engine, api.settings, lambda: False)
        assert clock.get()["status"] == "advancing"

    def test_a_step_that_always_fails_ends_the_advance_until_the_request_is_repeated(
        self, clock, yearly_points, monkeypatch
    ):
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100)
        attempts = []

        def fail(*arguments):
            attempts.append(arguments)
            raise ZeroDivisionError

        with monkeypatch.context() as patch:
            patch.setattr(service, "expire_next", fail)
            state = clock.advance("2027-03-02T00:00:00Z")
        assert len(attempts) == 1 + 3  # the first attempt and three retries
        assert (state["status"], state["now"]) == ("failed", START)
        assert state["lastError"] == "A step met ZeroDivisionError; the log of the server has more."
        response = clock.organization.integration.post("/members", {"loyaltyMemberId": "b"}, expect=409)
        assert problem(response) == "test-clock-advancing"
        assert clock.advance("2027-03-02T00:00:00Z")["status"] == "ready"
        assert yearly_points.balance(wallet) == 0

    def test_jobs_use_the_time_of_the_clock_and_not_the_real_time(self, clock, yearly_points, api):
        wallet = yearly_points.wallet()
        # The lot expires on 1 May 2026, which is past in real time and in the future of the clock.
        yearly_points.mint(wallet, 100, expires_at=datetime(2026, 5, 1, tzinfo=UTC))
        expire_points(api.engine, clock.organization.id)
        evaluate_tiers(api.engine, clock.organization.id, everyone=True)
        assert yearly_points.balance(wallet) == 100

    def test_verify_finds_no_fault_after_an_advance(self, clock, yearly_points, api):
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100)
        clock.advance("2027-03-02T00:00:00Z")
        with api.engine.connect() as db:
            assert verify(db, clock.organization.id) == []


class TestStandingStill:
    """Changes that have the same date, since the clock does not move between two advances."""

    def test_content_follows_a_change_of_the_member_although_the_clock_stands_still(self, clock, shop):
        member = shop.member()
        vips = {"matcherType": "attribute-matcher", "matcher": {"tags": ["vip"]}}
        audience = shop.administration.post("/audiences", vips)["audience"]
        content = Content.of(clock.organization)
        document = content.put({}, audienceKeys=[audience["audienceKey"]])
        assert content.shown_to(member) == []
        shop.integration.patch(f"/members/{member}", {"profile": {"tags": ["vip"]}})
        assert content.shown_to(member) == [document["documentKey"]]
        path = f"/members/{member}/content{content.path.removeprefix('/content')}/documents"
        headers = shop.integration.request("GET", path).headers
        assert (headers["age"], headers["cache-control"]) == ("0", "private, max-age=0")

    def test_the_timeline_dates_changes_of_the_member_by_the_clock(self, clock, shop):
        member = shop.member()
        shop.integration.patch(f"/members/{member}", {"profile": {"city": "Lima"}})
        clock.advance("2026-03-02T09:00:00Z")
        track(shop, event(member))
        rows = shop.integration.get(f"/members/{member}/timeline", toCreatedAt="2026-03-02T00:00:00Z")["results"]
        # The enrolment and the change, each with its event.
        assert sorted(row["kind"] for row in rows) == ["event", "event", "profile", "profile"]
        assert {row["recordedAt"] for row in rows} == {START}


class TestRealTime:
    @pytest.mark.slow
    def test_records_are_not_removed_by_their_age_on_the_clock(self, clock, shop, api):
        add_trigger(shop.administration)
        shop.campaign(running(mint(5), rule=IS_GENERIC))
        generic_event = event(shop.member())
        first_results = track(shop, generic_event)
        delivery_count = len(shop.rows("trigger_deliveries"))
        assert delivery_count == 2
        # On the clock the records are older than a day, since it shows March 2026.
        settings = replace(api.settings, answers_kept_days=1, deliveries_kept_days=1)
        for job in (jobs.RELEASE_ANSWERS, jobs.REMOVE_DELIVERIES):
            jobs.run_job(api.engine, settings, job)
        assert track(shop, generic_event) == first_results
        assert len(shop.rows("trigger_deliveries")) == delivery_count

    def test_reports_end_with_the_day_of_the_clock(self, clock, shop):
        shop.member()
        days = shop.administration.get("/reports/members-over-time")["results"]
        assert days[-1]["date"] == "2026-03-01"

    def test_access_tokens_expire_by_the_real_time(self, clock, shop):
        member = shop.organization.member("ana")["loyaltyMemberId"]
        token = shop.organization.member_token(member)
        claims = jwt.decode(token, options={"verify_signature": False})
        assert abs(claims["iat"] - datetime.now(UTC).timestamp()) < 300
        clock.advance("2027-03-01T09:00:00Z")
        path = f"/members/{member}/content/documents/nothing"
        # The token is accepted: only the document is unknown.
        assert shop.integration.with_token(token).request("GET", path).status == 404

    def test_repeated_requests_about_points_are_audited_once(self, clock, yearly_points):
        body = {"amount": 5, "fromWalletId": None, "toWalletId": yearly_points.wallet(), "systemUniqueKey": key()}
        for _ in range(3):
            yearly_points.admin.post(f"{yearly_points.path}/transactions", body)
        page = yearly_points.admin.get("/audit-log", operationId="createLedgerTransaction")
        assert page["totalCount"] == 1

    def test_repeated_requests_about_badges_and_coupons_are_audited_once(self, clock, shop):
        member, badges, books = shop.member(), Badges(shop), CouponBooks(clock.organization)
        badge, book = badges.create(maxAmount=9), books.make("A", "B")
        path = f"/members/{member}/coupon-books/{book['couponBookKey']}"
        assign_key, use_key, badge_key = key(), key(), key()
        for _ in range(3):
            shop.integration.post(f"{path}/assign", {"code": "A", "systemUniqueKey": assign_key}, expect=200)
            shop.integration.post(f"{path}/use", {"code": "A", "systemUniqueKey": use_key}, expect=200)
            badges.assign(member, badge, systemUniqueKey=badge_key)
        for operation in ("assignCoupon", "useCoupon", "assignBadge"):
            assert shop.administration.get("/audit-log", operationId=operation)["totalCount"] == 1, operation

    def test_a_repeated_evaluation_of_a_captured_event_is_audited_once(self, clock, shop):
        member = shop.member()
        body = {"events": [event(member)], "executionMode": "captureOnly"}
        [result] = shop.integration.post("/events/track", body, expect=200)["results"]
        for _ in range(2):
            shop.administration.post(f"/events/{result['loyaltyEventKey']}/evaluate", expect=200)
        assert shop.administration.get("/audit-log", operationId="evaluateEvent")["totalCount"] == 1
