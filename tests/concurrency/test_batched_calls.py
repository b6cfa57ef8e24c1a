"""Calls of many clients that are batched: their results are those of calls one after the other."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from sqlalchemy import event as listeners
from sqlalchemy import text

from handlers.http import threads
from handlers.settings import Settings
from persistence.engine import create_engine
from tests.builders.api import Reply, running_api
from tests.builders.campaigns import mint
from tests.builders.partners import PAYMENT, Partner, new_id
from tests.builders.referrals import Friends
from tests.builders.statements import count_statements
from tests.builders.tracking import WHOLE_DOLLARS, Shop, event, key, order, running
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import PATIENCE, lock_waits
from tests.conftest import SLOW_MS
from tests.processes.fleet import wait_until

# The tests see only locks of one node of the database.
pytestmark = pytest.mark.undistributed

LOCK = """
SELECT w.wallet_id FROM members m JOIN wallets w USING (organization_id, wallet_id)
WHERE m.organization_id = :organization_id AND m.loyalty_member_id = :member FOR UPDATE OF w
"""


LOCK_ALL = "LOCK TABLE members IN ACCESS EXCLUSIVE MODE"


@contextmanager
def lock_member(shop: Shop, member: str, lock: str = LOCK) -> Iterator[None]:
    """Lock a member, or all members by LOCK_ALL, in another transaction until the block ends."""
    engine = create_engine(shop.organization.api.settings.database_url, threads=1)
    with engine.begin() as db:
        db.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        db.execute(text(lock), {"organization_id": shop.organization.id, "member": member})
        yield
    engine.dispose()


def call(shop: Shop, *events: Any, **body: Any) -> Reply:
    """One call of `trackEvents`, whatever its outcome."""
    return shop.integration.request("POST", "/events/track", {"events": list(events), **body})


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls wait for the one before them for ten minutes, so that no call overtakes on a slow machine."""
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 600.0)


@contextmanager
def send_waiting_calls(
    shop: Shop, calls: list[Callable[[], Any]], first: Callable[[str], Reply] | None = None, lock: str = LOCK
) -> Iterator[list[Future[Any]]]:
    """Send calls that wait, because an earlier call is blocked by a lock until the block ends; wait for all of them."""
    with (
        ThreadPoolExecutor(len(calls) + 1) as clients,
        send_behind_blocked_call(shop, calls, clients, first, lock) as futures,
    ):
        yield futures


@contextmanager
def send_behind_blocked_call(
    shop: Shop,
    calls: list[Callable[[], Any]],
    clients: ThreadPoolExecutor,
    first_call: Callable[[str], Reply] | None = None,
    lock: str = LOCK,
) -> Iterator[list[Future[Any]]]:
    """Send calls like `send_waiting_calls`, without waiting for them at the end of the block.

    The blocked call is `first_call` for a member who is locked; by default it tracks an event.
    """
    blocker = shop.member()
    sent_calls = threading.Semaphore(0)
    with lock_member(shop, blocker, lock):
        blocked_call = clients.submit(first_call or (lambda member: call(shop, event(member))), blocker)
        wait_until(lambda: lock_waits(shop) > 0, PATIENCE)

        def send_call(send: Callable[[], Any]) -> Any:
            sent_calls.release()
            return send()

        futures = [clients.submit(send_call, send) for send in calls]
        for _ in calls:
            assert sent_calls.acquire(timeout=60)
        # The calls have been sent; this is only the time until they are in the queue, and no result depends on it.
        time.sleep(0.3)
        yield futures
    assert blocked_call.result(120).status < 300


def event_counts_of_transactions(shop: Shop) -> list[int]:
    """How many events each database transaction has stored, highest first, without enrolments."""
    with shop.engine.connect() as db:
        counts = """
            SELECT count(*) FROM events WHERE organization_id = :organization_id AND event_type <> 'member-created'
            GROUP BY xmin::text
        """
        return sorted(db.execute(text(counts), {"organization_id": shop.organization.id}).scalars(), reverse=True)


def test_waiting_calls_are_one_transaction_with_a_response_for_each(shop):
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    members = [shop.member() for _ in range(10)]
    # Orders of 3 to 12 dollars, with a point for each dollar.
    calls = [partial(call, shop, order(member, total=3 + number)) for number, member in enumerate(members)]
    with send_waiting_calls(shop, calls) as futures:
        assert not any(future.done() for future in futures)
    replies = [future.result() for future in futures]
    assert [reply.status for reply in replies] == [200] * 10
    assert [reply.json["results"][0]["effects"][0]["params"][0]["value"] for reply in replies] == list(range(3, 13))
    assert [shop.balance(member) for member in members] == list(range(3, 13))
    # One for the blocked call and one for the batch; a call that arrives late needs one more.
    assert event_counts_of_transactions(shop)[0] > 1
    assert len(event_counts_of_transactions(shop)) < 10
    # Each event is stored with the id of its own request.
    request_ids = {row.e2e_tracking_id for row in shop.rows("events", "e2e_tracking_id")}
    assert {reply.headers["x-request-id"] for reply in replies} <= request_ids


def test_a_batch_of_12_calls_needs_as_many_statements_as_a_batch_of_2(shop):
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    counts = []
    for size in (2, 12):
        calls = [partial(call, shop, order(shop.member(), 5)) for _ in range(size)]
        transactions_before = event_counts_of_transactions(shop)
        # The statements are counted until the last response.
        with count_statements(shop.engine) as statements, send_waiting_calls(shop, calls) as futures:
            pass
        assert {future.result().status for future in futures} == {200}
        transaction_count = len(event_counts_of_transactions(shop)) - len(transactions_before)
        counts.append(len(statements) / transaction_count)
    count_of_2_calls, count_of_12_calls = counts
    # A single call takes nine statements.
    assert 9 <= count_of_12_calls <= count_of_2_calls + 1


def test_every_call_of_a_batch_has_the_result_of_an_unbatched_call(shop):
    """The same calls in a second organization, one after the other, have the same outcomes."""
    twin_shop = Shop(shop.organization.api.organization())
    replies: list[list[Reply]] = []
    for tested_shop in (shop, twin_shop):
        tested_shop.campaign(
            running(WHOLE_DOLLARS),
            eventType="member-purchase-order-created",
            limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 1000}],
        )
        ana, bo, inactive_member = tested_shop.member(), tested_shop.member(), tested_shop.member()
        member_id = tested_shop.integration.get(f"/members/{inactive_member}")["loyaltyMember"]["memberId"]
        tested_shop.administration.patch(f"/members/{member_id}", {"active": False})
        earlier_order = order(ana, 7)
        assert call(tested_shop, earlier_order).status == 200
        calls = [
            partial(call, tested_shop, order(ana, 11)),
            # These are refused for different reasons, and do not affect the others.
            partial(call, tested_shop, event("nobody")),
            partial(call, tested_shop, event(bo, "no-such-type")),
            partial(call, tested_shop, event(inactive_member)),
            partial(call, tested_shop, {**earlier_order, "payload": {"order": {"externalId": "other", "total": 1}}}),
            partial(call, tested_shop, {"eventType": "without-the-rest"}),
            # A repetition, which gets the first response.
            partial(call, tested_shop, earlier_order),
            # Calls that are not batched.
            partial(call, tested_shop, order(bo, 13), executionMode="capture-only"),
            partial(call, tested_shop, order(bo, 17), dryRun=True),
            partial(call, tested_shop, order(bo, 19), campaignKeys=["00000000-0000-4000-8000-000000000000"]),
            # Several events of one call.
            partial(call, tested_shop, order(bo, 23), order(ana, 29)),
        ]
        if tested_shop is shop:
            with send_waiting_calls(tested_shop, calls) as futures:
                pass
            replies.append([future.result() for future in futures])
        else:
            replies.append([send() for send in calls])
        # A point for each dollar of the orders that were tracked.
        assert (tested_shop.balance(ana), tested_shop.balance(bo)) == (7 + 11 + 29, 23)
    batched_replies, unbatched_replies = replies
    assert [reply.status for reply in batched_replies] == [reply.status for reply in unbatched_replies]
    for batched_reply, unbatched_reply in zip(batched_replies, unbatched_replies, strict=True):
        if batched_reply.status == 200:
            assert [_outcome_of(result) for result in batched_reply.json["results"]] == [
                _outcome_of(result) for result in unbatched_reply.json["results"]
            ]


def _outcome_of(result: dict[str, Any]) -> tuple[Any, ...]:
    """The status of a result, those of its effects, and the type of its error, if any."""
    error = result.get("error") or {}
    return result["status"], [effect["status"] for effect in result["effects"]], error.get("type")


def test_waiting_uses_of_coupons_are_one_transaction_with_a_response_for_each(shop):
    book = shop.integration.post("/coupon-books", {"name": "Tea", "type": "codeless", "publishingStatus": "published"})
    path = f"/coupon-books/{book['couponBook']['couponBookKey']}/use"

    def use(member: str) -> Reply:
        return shop.integration.request("POST", f"/members/{member}{path}", {"autoAssign": True})

    members = [shop.member() for _ in range(10)]
    with send_waiting_calls(shop, [partial(use, member) for member in (*members, "nobody")], first=use) as futures:
        pass
    replies = [future.result() for future in futures]
    assert [reply.status for reply in replies] == [200] * 10 + [404]
    # One for the blocked call and one for the batch; a call that arrives late needs one more.
    assert len({row.xmin for row in shop.rows("coupon_usages", "xmin::text")}) < 10
    # Each entry of the audit log and each event is stored with the id of its own request.
    request_ids = {reply.headers["x-request-id"] for reply in replies[:10]}
    assert request_ids <= {row.request_id for row in shop.rows("audit_log", "request_id")}
    assert request_ids <= {row.e2e_tracking_id for row in shop.rows("events", "e2e_tracking_id")}


def test_waiting_enrolments_are_one_transaction_with_a_response_for_each(shop):
    shop.campaign(running(mint(5)), eventType="member-created")

    def enrol(member: str) -> Reply:
        return shop.integration.request("POST", "/members", {"loyaltyMemberId": member})

    members = [f"new-{number}" for number in range(10)]
    calls = [partial(enrol, member) for member in (*members, "new-0")]
    with send_waiting_calls(shop, calls, first=lambda blocker: enrol(f"{blocker}-2"), lock=LOCK_ALL) as futures:
        pass
    replies = [future.result() for future in futures]
    # Two calls enrol new-0.
    assert sorted(reply.status for reply in replies) == [201] * 10 + [409]
    records = [reply.json["loyaltyMember"] for reply in replies if reply.status == 201]
    assert {record["loyaltyMemberId"] for record in records} == {*members}
    assert [record["ledgerBalances"][0]["balance"] for record in records] == [5] * 10
    # The locked member, the blocked call, and the batch; a call that arrives late needs one more.
    assert len({row.xmin for row in shop.rows("audit_log", "xmin::text")}) < 10
    # Each entry of the audit log and each event is stored with the id of its own request.
    request_ids = {reply.headers["x-request-id"] for reply in replies if reply.status == 201}
    assert request_ids <= {row.request_id for row in shop.rows("audit_log", "request_id")}
    assert request_ids <= {row.e2e_tracking_id for row in shop.rows("events", "e2e_tracking_id")}


def test_waiting_reads_of_members_take_one_statement_and_have_a_response_each(shop):
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    members = [shop.member() for _ in range(5)]
    for number, member in enumerate(members):
        shop.track(order(member, 10 + number))
    paths = [f"/members/{member}{query}" for member in members for query in ("", "?includeBalance=false")]
    paths += [f"/members/{members[0]}", f"/members/{members[0]}?include=expiring", "/members/nobody"]

    def read(path: str) -> Reply:
        return shop.integration.request("GET", path)

    unbatched_replies = [read(path) for path in paths]
    calls = [partial(read, path) for path in paths]
    with (
        count_statements(shop.engine) as statements,
        send_waiting_calls(shop, calls, first=lambda blocker: read(f"/members/{blocker}"), lock=LOCK_ALL) as futures,
    ):
        statements_of_enrolment = len(statements)
    replies = [future.result() for future in futures]
    assert [reply.status for reply in replies] == [200] * 12 + [404]
    assert [reply.json for reply in replies[:12]] == [reply.json for reply in unbatched_replies[:12]]
    # The first ten replies are about the five members, each with and without balances.
    balances = [reply.json["loyaltyMember"]["ledgerBalances"][0]["balance"] for reply in replies[:10:2]]
    assert balances == [10, 11, 12, 13, 14]
    # One for the members, and one for their expiring points; a call that arrives late needs more.
    assert len(statements) - statements_of_enrolment < 6


def test_each_refused_call_of_a_batch_has_its_own_refusal(shop):
    """The first call is refused by its schema, the second by the database."""
    book = shop.integration.post("/coupon-books", {"name": "Tea", "type": "codeless", "publishingStatus": "published"})
    path = f"/coupon-books/{book['couponBook']['couponBookKey']}/use"

    def use(member: str, **body: Any) -> Reply:
        return shop.integration.request("POST", f"/members/{member}{path}", {"autoAssign": True, **body})

    calls = [partial(use, shop.member(), autoAssign="yes"), partial(use, "nobody")]
    with send_waiting_calls(shop, calls, first=use) as futures:
        pass
    assert [future.result().status for future in futures] == [400, 404]


def test_one_key_in_many_calls_of_a_batch_counts_once(shop):
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    member, unique_key = shop.member(), key()
    purchase = order(member, total=10, systemUniqueKey=unique_key)
    other_purchase = order(member, total=11, systemUniqueKey=unique_key)
    with send_waiting_calls(
        shop, [partial(call, shop, purchase)] * 6 + [partial(call, shop, other_purchase)] * 2
    ) as futures:
        pass
    texts = {future.result().text for future in futures}
    # Only one of the two orders is tracked.
    assert shop.balance(member) in (10, 11)
    # All calls of one request have one response; the other request is refused.
    assert len(texts) == 2
    assert sum("key-reused" in text for text in texts) == 1


def test_a_call_of_a_batch_that_raises_an_error_fails_and_the_others_succeed(shop, caplog):
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    members = [shop.member() for _ in range(8)]

    def fail(connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if "poisoned" in str(parameters):
            raise RuntimeError("a fault of the test")

    calls = [partial(call, shop, order(member, total=5)) for member in members]
    calls.insert(3, partial(call, shop, order(members[0], total=7, externalId="poisoned")))
    listeners.listen(shop.engine, "before_cursor_execute", fail)
    try:
        with caplog.at_level(logging.CRITICAL), send_waiting_calls(shop, calls) as futures:
            pass
        replies = [future.result() for future in futures]
    finally:
        listeners.remove(shop.engine, "before_cursor_execute", fail)
    assert [reply.status for reply in replies] == [200, 200, 200, 500, 200, 200, 200, 200, 200]
    assert [shop.balance(member) for member in members] == [5] * 8


@pytest.fixture
def patient_shop(settings: Settings) -> Iterator[Shop]:
    """A shop whose calls may take as long as a slow machine needs."""
    slow = {"request_timeout_ms": SLOW_MS, "lock_timeout_ms": SLOW_MS, "statement_timeout_ms": SLOW_MS}
    with running_api(replace(settings, threads=THREADS, validate_responses=False, **slow)) as api:
        yield Shop(api.organization())


def test_a_locked_member_delays_only_one_call_of_a_batch(patient_shop, caplog):
    shop = patient_shop
    caplog.set_level(logging.INFO, "loyalty")
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    locked_member, members = shop.member(), [shop.member() for _ in range(5)]
    calls = [partial(call, shop, order(member, 5)) for member in (locked_member, *members)]
    with ThreadPoolExecutor(8) as clients, lock_member(shop, locked_member):
        with send_behind_blocked_call(shop, calls, clients) as futures:
            pass
        assert [future.result(120).status for future in futures[1:]] == [200] * 5
        assert not futures[0].done(), futures[0].result().text
    assert futures[0].result(120).status == 200
    assert [shop.balance(member) for member in (locked_member, *members)] == [5] * 6
    [line] = [record for record in caplog.records if "batch" in record.getMessage()]
    assert line.getMessage() == "a batch of 6 calls needs a row that is locked: they are run individually"
    assert (line.levelname, line.exc_info) == ("INFO", None)


@pytest.fixture
def hurried_shop(settings: Settings, shop: Shop) -> Iterator[Shop]:
    """The shop by a server whose calls may take two seconds."""
    hurried_settings = replace(settings, threads=THREADS, validate_responses=False, request_timeout_ms=2000)
    with running_api(hurried_settings) as api:
        yield Shop(replace(shop.organization, api=api))


def test_calls_past_their_deadline_report_what_they_changed_and_release_their_locks(shop, hurried_shop):
    shop.campaign(running(WHOLE_DOLLARS), eventType="member-purchase-order-created")
    locked_member, other_member = shop.member(), shop.member()
    with lock_member(shop, locked_member), ThreadPoolExecutor(4) as clients:
        blocked_call = clients.submit(call, hurried_shop, order(locked_member, 5))
        wait_until(lambda: lock_waits(shop) > 0, PATIENCE)
        later_calls = [clients.submit(call, hurried_shop, order(other_member, 5)) for _ in range(3)]
        assert blocked_call.result(120).status == 503
        replies = [future.result(120) for future in later_calls]
        wait_until(lambda: lock_waits(shop) == 0, PATIENCE)
    assert {reply.status for reply in replies} <= {200, 503}
    # A call that had not begun reports that nothing was changed; a running one may have changed something.
    unchanged_count = sum("Nothing was changed" in reply.text for reply in replies)
    successes = sum(reply.status == 200 for reply in replies)
    assert shop.balance(locked_member) == 0
    assert successes <= shop.balance(other_member) / 5 <= 3 - unchanged_count
    # The locks are released, and calls of this kind are served again.
    wait_until(lambda: call(hurried_shop, order(locked_member, 7)).status == 200, PATIENCE)


@pytest.mark.parametrize("size", [1, 100])
def test_the_last_point_of_a_limit_goes_to_one_call(settings: Settings, size: int) -> None:
    """Calls are batched if the maximum size of a batch is 100, and not if it is 1."""
    with running_api(replace(settings, threads=THREADS, validate_responses=False, calls_together=size)) as api:
        shop = Shop(api.organization())
        shop.campaign(
            running(WHOLE_DOLLARS),
            eventType="member-purchase-order-created",
            limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 50}],
        )
        members = [shop.member() for _ in range(4)]
        with ThreadPoolExecutor(16) as clients:
            replies = list(clients.map(lambda number: call(shop, order(members[number % 4], total=7)), range(48)))
        assert {reply.status for reply in replies} == {200}
        # Seven orders of 7 points fit into the limit of 50.
        assert sum(shop.balance(member) for member in members) == 7 * 7
        shop.check_ledger()


def test_a_call_that_has_waited_long_overtakes_the_running_one(patient_shop, monkeypatch):
    monkeypatch.setattr(threads, "PATIENCE_SECONDS", 0.05)
    shop, locked_member, other_member = patient_shop, patient_shop.member(), patient_shop.member()
    with ThreadPoolExecutor(2) as clients, lock_member(shop, locked_member):
        blocked_call = clients.submit(call, shop, event(locked_member))
        wait_until(lambda: lock_waits(shop) > 0, PATIENCE)
        assert call(shop, event(other_member)).status == 200
        assert not blocked_call.done(), blocked_call.result().text
    assert blocked_call.result(120).status == 200


class TestPayments:
    """Payments that partners report."""

    @pytest.fixture
    def partner(self, shop):
        shop.campaign(running(mint(("=", "payment.total"))), eventType=PAYMENT)
        return Partner.of(shop)

    @staticmethod
    def paying(partner: Partner, bodies: list[dict[str, Any]]) -> list[Reply]:
        """The replies to payments that are sent while another payment is blocked."""
        calls = [partial(partner.send, body) for body in bodies]
        with send_waiting_calls(
            partner.shop, calls, first=lambda member: partner.send(partner.body(member))
        ) as futures:
            assert not any(future.done() for future in futures)
        return [future.result() for future in futures]

    def test_payments_of_several_members_are_one_transaction(self, shop, partner):
        members = [shop.member() for _ in range(10)]
        # Payments of 3 to 12, with a point for each unit of money.
        bodies = [partner.body(member, total=3 + number) for number, member in enumerate(members)]
        with count_statements(shop.engine) as statements:
            replies = self.paying(partner, bodies)
        assert [reply.status for reply in replies] == [200] * 10
        assert [reply.json["accountBalances"][0]["newAccrual"] for reply in replies] == list(range(3, 13))
        assert [shop.balance(member) for member in members] == list(range(3, 13))
        # One transaction of the ten payments, and one of the blocked payment.
        assert event_counts_of_transactions(shop) == [10, 1]
        assert sum("INSERT INTO partner_payments" in statement for statement in statements) == 2

    def test_each_payment_of_a_batch_has_its_own_response(self, shop, partner):
        payer, inactive_member, other_member = shop.member(), shop.member(), shop.member()
        shop.integration.patch(f"/members/{inactive_member}", {"active": False})
        earlier_payment = partner.body(other_member, total=5)
        assert partner.send(earlier_payment).status == 200
        repeated_payment = partner.body(payer, total=7)
        statuses_of_bodies = [
            (partner.body(payer, total=8), 200),
            (partner.body(inactive_member), 409),
            (earlier_payment, 409),
            (partner.body("nobody"), 400),
            (partner.body(new_id("card"), total=9, forceUserSubscription=True), 200),
            ({**partner.body(other_member), "organizationKey": str(uuid.uuid4())}, 404),
        ]
        bodies = [repeated_payment, repeated_payment, *(body for body, _ in statuses_of_bodies)]
        replies = self.paying(partner, bodies)
        assert sorted(reply.status for reply in replies[:2]) == [200, 409]
        assert [reply.status for reply in replies[2:]] == [status for _, status in statuses_of_bodies]
        problem_types = [reply.json["type"] for reply in replies if reply.status == 409]
        assert sorted(problem_types) == sorted([*["/problems/payment-exists"] * 2, "/problems/member-inactive"])
        assert shop.balance(payer) == 7 + 8
        assert shop.balance(other_member) == 5

    def test_the_accrual_that_a_payment_reports_excludes_points_by_other_payments_of_the_batch(self, shop, partner):
        """The payer's referrer pays, too, and gets 100 points for the referral before or after its own payment."""
        friends = Friends(shop, eventType=PAYMENT)
        referrer = shop.member()
        payer = shop.member(referralCode=friends.code(referrer))
        balance_before = shop.balance(referrer)
        replies = self.paying(partner, [partner.body(payer, total=1), partner.body(referrer, total=2)])
        assert [reply.status for reply in replies] == [200, 200]
        _, reply_of_referrer = replies
        [account_balance_view] = reply_of_referrer.json["accountBalances"]
        assert account_balance_view["newAccrual"] == 2
        assert account_balance_view["balance"] in (balance_before + 2, balance_before + 2 + 100)
        assert shop.balance(referrer) == balance_before + 2 + 100
