"""Sending due messages: attempts, their outcomes, and how the messages of a crashed sender are sent again."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import text
from standardwebhooks.webhooks import Webhook

from domain.webhooks import DELAYS, MAX_ATTEMPTS
from handlers.http import dispatch
from handlers.services.webhooks import send_deliveries
from handlers.services.webhooks.post_message import Reply, WebhookClient
from handlers.services.webhooks.send_deliveries import LEASE, Sender, outcome, remove_old_deliveries
from persistence import transactions, triggers
from persistence.engine import create_engine
from persistence.triggers import ClaimLimits
from tests.builders import test_clocks
from tests.builders.api import running_api
from tests.builders.clock import Clock
from tests.builders.receivers import hang, receiver, status
from tests.builders.tracking import GENERIC, Shop, event
from tests.builders.triggers import SECRET, add_trigger, deliveries, trigger_body
from tests.concurrency.simultaneous import run_simultaneously
from tests.processes.fleet import disposed


@pytest.fixture(scope="module")
def api(settings):
    with running_api(
        replace(settings, webhook_allow_http=True, webhook_allow_private=True, webhook_ports="any")
    ) as api:
        yield api


@pytest.fixture
def shop(api):
    return Shop(api.organization())


@pytest.fixture
def endpoint():
    with receiver() as hook:
        yield hook


def sender(shop, seconds=2.0, **changes):
    """A sender for the organization; its attempts end after so many seconds, and `changes` are changed settings."""
    api = shop.organization.api
    poster = WebhookClient(allows_http=True, allows_private=True, seconds=seconds)
    return Sender(api.engine, replace(api.settings, **changes), poster, shop.organization.id)


def send(shop, **changes):
    """Send all due messages of the organization; return the number of attempts."""
    return sender(shop, **changes).send_due()


def add_webhook(shop, endpoint, type_="WebHook", **settings):
    """Add a trigger that sends generic events to the receiver `endpoint`."""
    settings = {"url": endpoint.url, **({"eventTypes": [GENERIC]} if type_ == "WebHook" else {}), **settings}
    return add_trigger(shop.administration, type_, **settings)


def queue(shop, count=1):
    """Track events of a new member, so that each trigger for generic events gets so many messages."""
    member = shop.member()
    shop.track(*(event(member) for _ in range(count)))


def make_due(shop):
    """Make all pending deliveries due."""
    with shop.organization.api.engine.begin() as db:
        db.execute(
            text(
                "UPDATE trigger_deliveries SET next_attempt_at = now() WHERE organization_id = :id"
                " AND status = 'pending'"
            ),
            {"id": shop.organization.id},
        )


def claim_one(shop):
    """Claim deliveries as a sender with one free thread does."""
    return transactions.run(
        shop.organization.api.engine,
        lambda db: triggers.claim_due(
            db, LEASE, ClaimLimits(total=1, of_trigger=1), organization_id=shop.organization.id
        ),
    )


def wait_for(condition, seconds):
    """Wait until the condition is true, or the time is over."""
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)


def resolve_only_this_machine(host, _port):
    """Resolve only 127.0.0.1: a sender for all organizations would call the receivers of other tests, which hang."""
    if host != "127.0.0.1":
        raise OSError
    return [host]


def only_delivery(shop, trigger):
    """The only delivery of the trigger."""
    [delivery] = deliveries(shop.administration, trigger)
    return delivery


class TestAttempts:
    def test_a_message_arrives_signed_and_its_delivery_succeeds(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint, headers={"X-Source": "loyalty"})
        queue(shop)
        queued_delivery = only_delivery(shop, trigger)
        assert send(shop) == 1
        [request] = endpoint.received
        assert (
            Webhook(trigger["settings"]["secret"]).verify(request.body, request.headers) == queued_delivery["payload"]
        )
        assert request.headers["webhook-id"] == queued_delivery["triggerDeliveryKey"]
        assert request.headers["content-type"] == "application/json"
        assert request.headers["x-source"] == "loyalty"
        delivery = only_delivery(shop, trigger)
        assert (delivery["status"], delivery["attempts"], delivery["lastStatusCode"]) == ("succeeded", 1, 204)
        assert (delivery["lastError"], delivery["nextAttemptAt"]) == (None, None)
        assert delivery["deliveredAt"] == delivery["updatedAt"] >= delivery["lastAttemptAt"]
        assert send(shop) == 0
        assert len(endpoint.received) == 1

    def test_a_failed_message_is_sent_again_by_the_schedule_until_the_last_attempt(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        endpoint.usual_response = status(500)
        for attempt in range(1, MAX_ATTEMPTS + 1):
            assert send(shop) == 1
            delivery = only_delivery(shop, trigger)
            assert (delivery["attempts"], delivery["lastStatusCode"]) == (attempt, 500)
            assert delivery["lastError"] == "The receiver responded with 500."
            if attempt < MAX_ATTEMPTS:
                assert delivery["status"] == "pending"
                wait = moment(delivery["nextAttemptAt"]) - moment(delivery["updatedAt"])
                assert DELAYS[attempt - 1] * 0.9 <= wait <= DELAYS[attempt - 1] * 1.1
                assert send(shop) == 0
                make_due(shop)
        assert (delivery["status"], delivery["nextAttemptAt"], delivery["deliveredAt"]) == ("failed", None, None)
        make_due(shop)
        assert send(shop) == 0
        assert len({request.headers["webhook-id"] for request in endpoint.received}) == 1
        assert len({request.body for request in endpoint.received}) == 1

    @pytest.mark.slow
    def test_a_receiver_that_fails_and_then_works_gets_the_message(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        endpoint.responses = [status(503), status(302, Location=endpoint.url), hang]
        for error in ("responded with 503", "responded with 302", "did not respond"):
            send(shop, seconds=0.3)
            assert error in only_delivery(shop, trigger)["lastError"]
            make_due(shop)
        send(shop)
        delivery = only_delivery(shop, trigger)
        # Three attempts failed.
        assert (delivery["status"], delivery["attempts"], delivery["lastError"]) == ("succeeded", 3 + 1, None)
        for request in endpoint.received:
            Webhook(trigger["settings"]["secret"]).verify(request.body, request.headers)

    def test_both_secrets_sign_while_a_secret_is_being_replaced(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        path, old_secret = f"/triggers/{trigger['triggerId']}", trigger["settings"]["secret"]
        body = trigger_body(key=trigger["triggerKey"], url=endpoint.url, eventTypes=[GENERIC], secret=SECRET)
        shop.administration.put(path, body)
        queue(shop)
        send(shop)
        # The time in which the old secret signs ends.
        with shop.organization.api.engine.begin() as db:
            db.execute(
                text("UPDATE triggers SET previous_secret_until = now() WHERE trigger_id = :id"),
                {"id": trigger["triggerId"]},
            )
        queue(shop)
        send(shop)
        both_signatures, one_signature = (
            request.headers["webhook-signature"].split(" ") for request in endpoint.received
        )
        assert (len(both_signatures), len(one_signature)) == (2, 1)
        for request, secrets in zip(endpoint.received, ([SECRET, old_secret], [SECRET]), strict=True):
            for secret in secrets:
                Webhook(secret).verify(request.body, request.headers)

    def test_410_makes_the_trigger_inactive_and_its_other_messages_wait(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop, count=3)
        endpoint.usual_response = status(410)
        # One thread, so that no message is being sent during the first one.
        assert send(shop, webhook_threads=1) == 1
        assert shop.administration.get(f"/triggers/{trigger['triggerId']}")["trigger"]["active"] is False
        all_deliveries = deliveries(shop.administration, trigger)
        assert sorted(delivery["status"] for delivery in all_deliveries) == ["failed", "pending", "pending"]
        # An inactive trigger gets no new message.
        queue(shop)
        assert len(deliveries(shop.administration, trigger)) == 3
        assert send(shop) == 0
        endpoint.usual_response = status(200)
        body = trigger_body(key=trigger["triggerKey"], url=endpoint.url, eventTypes=[GENERIC], active=True)
        shop.administration.put(f"/triggers/{trigger['triggerId']}", body)
        assert send(shop) == 2

    def test_410_of_a_url_that_was_changed_meanwhile_leaves_the_trigger_active(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)

        def change_and_go(exchange):
            body = trigger_body(key=trigger["triggerKey"], url=endpoint.url + "/new", eventTypes=[GENERIC])
            shop.administration.put(f"/triggers/{trigger['triggerId']}", body)
            exchange.respond(410)

        endpoint.responses = [change_and_go]
        send(shop)
        assert shop.administration.get(f"/triggers/{trigger['triggerId']}")["trigger"]["active"] is True

    def test_results_of_an_organization_whose_row_is_locked_do_not_hinder_those_of_others(self, api, shop, endpoint):
        other_shop = Shop(api.organization())
        trigger, other_trigger = (add_webhook(each_shop, endpoint) for each_shop in (shop, other_shop))
        for each_shop in (shop, other_shop):
            queue(each_shop)
        with (
            disposed(create_engine(api.settings.database_url, threads=2, lock_timeout_ms=100)) as engine,
            api.engine.connect() as db,
        ):
            locked_row = text("SELECT 1 FROM organizations WHERE organization_id = :id FOR UPDATE")
            db.execute(locked_row, {"id": shop.organization.id})
            working_sender = Sender(engine, api.settings)
            claimed_deliveries = claim_one(shop) + claim_one(other_shop)
            for claimed_delivery, status_code in zip(claimed_deliveries, (410, 204), strict=True):
                post = Future()
                post.set_result(Reply(status_code, None))
                working_sender._under_way[post] = claimed_delivery
            working_sender._conclude(set(working_sender._under_way))
        assert only_delivery(other_shop, other_trigger)["status"] == "succeeded"
        # The other one is sent again after its lease.
        assert only_delivery(shop, trigger)["status"] == "pending"
        assert shop.administration.get(f"/triggers/{trigger['triggerId']}")["trigger"]["active"] is True

    def test_an_address_that_is_not_allowed_is_not_called(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        strict_sender = Sender(
            shop.organization.api.engine,
            shop.organization.api.settings,
            WebhookClient(allows_http=True),
            shop.organization.id,
        )
        assert strict_sender.send_due() == 1
        delivery = only_delivery(shop, trigger)
        assert (delivery["status"], delivery["lastStatusCode"]) == ("pending", None)
        assert delivery["lastError"].startswith("The URL names an address that is not public")
        assert endpoint.received == []

    def test_a_delivery_is_sent_again_on_request_under_the_same_id(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        send(shop)
        delivery = only_delivery(shop, trigger)
        path = f"/triggers/{trigger['triggerId']}/deliveries/{delivery['triggerDeliveryId']}/redeliver"
        redelivery = shop.administration.post(path, expect=202)["triggerDelivery"]
        assert (redelivery["status"], redelivery["attempts"], redelivery["deliveredAt"]) == ("pending", 0, None)
        assert send(shop) == 1
        assert only_delivery(shop, trigger)["status"] == "succeeded"
        first_request, second_request = endpoint.received
        assert first_request.headers["webhook-id"] == second_request.headers["webhook-id"]
        assert first_request.body == second_request.body

    def test_a_message_that_is_redelivered_during_its_last_attempt_is_sent_again(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        path = (
            f"/triggers/{trigger['triggerId']}/deliveries/{only_delivery(shop, trigger)['triggerDeliveryId']}/redeliver"
        )
        engine = shop.organization.api.engine
        [last_attempt] = claim_one(shop)
        shop.administration.post(path, expect=202)
        columns = outcome(last_attempt, Reply(410), fraction=0.5)
        transactions.run(engine, lambda db: triggers.conclude(db, [columns]))
        redelivery = only_delivery(shop, trigger)
        assert (redelivery["status"], redelivery["attempts"]) == ("pending", 0)
        assert send(shop) == 1
        assert only_delivery(shop, trigger)["status"] == "succeeded"

    def test_a_trigger_may_set_the_user_agent(self, shop, endpoint):
        add_webhook(shop, endpoint, headers={"user-agent": "our-loyalty"})
        queue(shop)
        agents = []
        endpoint.usual_response = lambda exchange: (
            agents.extend(exchange.handler.headers.get_all("User-Agent")),
            exchange.respond(200),
        )
        send(shop)
        assert agents == ["our-loyalty"]

    def test_numbers_arrive_with_all_digits(self, shop, endpoint):
        add_webhook(shop, endpoint)
        shop.track(event(shop.member(), payload={"n": Decimal("18446744073709.123456"), "text": "\u00e9\u2028"}))
        send(shop)
        assert b'"payload":{"n":18446744073709.123456,' in endpoint.received[0].body

    def test_an_exception_while_sending_is_a_failed_attempt(self, shop, endpoint, monkeypatch):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        working_sender = sender(shop)
        monkeypatch.setattr(WebhookClient, "post", lambda *_: 1 / 0)
        assert working_sender.send_due() == 1
        delivery = only_delivery(shop, trigger)
        assert (delivery["status"], delivery["attempts"]) == ("pending", 1)
        assert delivery["lastError"] == "The message could not be sent: ZeroDivisionError."


@pytest.mark.parametrize("hours", [1, -1])
def test_a_server_with_a_wrong_clock_sends_messages_immediately_and_again_by_the_schedule(
    shop, endpoint, monkeypatch, hours
):
    clock = Clock()
    clock.wait(hours=hours)
    endpoint.usual_response = status(500)
    trigger = add_webhook(shop, endpoint)
    with monkeypatch.context() as patch:
        patch.setattr(dispatch, "datetime", clock)
        queue(shop)
    with monkeypatch.context() as patch:
        patch.setattr(send_deliveries, "datetime", clock)
        assert send(shop) == 1
        assert send(shop) == 0
    [delivery_row] = shop.rows("trigger_deliveries", "next_attempt_at - now() AS wait")
    assert only_delivery(shop, trigger)["status"] == "pending"
    assert timedelta() < delivery_row.wait < timedelta(minutes=1)


class TestSeveralReceivers:
    def test_a_receiver_that_hangs_does_not_delay_others(self, shop, endpoint):
        with receiver() as stuck_receiver:
            stuck_receiver.usual_response = hang
            add_webhook(shop, stuck_receiver)
            add_webhook(shop, endpoint)
            queue(shop, count=20)
            others_are_sent = threading.Event()
            working_sender = sender(shop, seconds=120, webhook_threads=16)
            thread = threading.Thread(
                target=lambda: (working_sender.send_due(others_are_sent.is_set), others_are_sent.set())
            )
            thread.start()
            wait_for(lambda: len(endpoint.received) >= 20, seconds=100)
            others_are_sent.set()
            stuck_receiver.closing.set()
            thread.join()
            assert len(endpoint.received) == 20
            # A quarter of the 16 threads, the most for one trigger.
            assert len(stuck_receiver.received) <= 4

    # The first organization uses half of the 8 threads, each further one half of the threads that remain.
    @pytest.mark.slow
    @pytest.mark.parametrize("used_threads", [[4], [4, 6, 7]], ids=["one", "three"])
    def test_organizations_with_receivers_that_hang_do_not_delay_another(self, api, shop, endpoint, used_threads):
        slow_shops = [Shop(api.organization()) for _ in used_threads]
        with receiver() as stuck_receiver:
            stuck_receiver.usual_response = hang
            for slow_shop in slow_shops:
                for _ in range(8):
                    add_webhook(slow_shop, stuck_receiver)
            add_webhook(shop, endpoint)
            queue(slow_shops[0], count=8)
            # Longer than both waits below, so that no attempt ends in between.
            poster = WebhookClient(
                allows_http=True, allows_private=True, seconds=300, resolve=resolve_only_this_machine
            )
            working_sender = Sender(api.engine, replace(api.settings, webhook_threads=8), poster)
            others_are_sent = threading.Event()
            thread = threading.Thread(target=lambda: working_sender.send_due(others_are_sent.is_set))
            thread.start()
            # Each further organization gets its messages when the ones before it use their threads.
            for next_shop, number in zip([*slow_shops[1:], shop], used_threads, strict=True):
                wait_for(lambda number=number: len(stuck_receiver.received) >= number, seconds=100)
                queue(next_shop, count=20)
            wait_for(lambda: len(endpoint.received) >= 20, seconds=100)
            others_are_sent.set()
            assert (len(stuck_receiver.received), len(endpoint.received)) == (used_threads[-1], 20)
            stuck_receiver.closing.set()
            thread.join()

    def test_claims_include_triggers_with_few_messages(self, shop, endpoint):
        busy_trigger, quiet_trigger = (
            add_webhook(shop, endpoint),
            add_webhook(shop, endpoint, eventTypes=["member-created"]),
        )
        member = shop.member()
        # The busy trigger has 40 messages, the other one a single message, about the enrolment.
        shop.track(*(event(member) for _ in range(40)))
        trigger_ids = {delivery.trigger_id for _ in range(30) for delivery in claim_one(shop)}
        assert trigger_ids == {busy_trigger["triggerId"], quiet_trigger["triggerId"]}

    @pytest.mark.slow
    def test_messages_that_become_due_while_a_sender_works_are_sent(self, shop, endpoint):
        with receiver() as slow_receiver:
            slow_receiver.usual_response = lambda exchange: (time.sleep(1.5), exchange.respond(200))
            add_webhook(shop, slow_receiver, eventTypes=["member-created"])
            add_webhook(shop, endpoint)
            member = shop.member()
            thread = threading.Thread(target=lambda: send(shop))
            thread.start()
            wait_for(lambda: slow_receiver.received, seconds=3)
            shop.track(event(member))
            # The slow receiver takes longer than this.
            wait_for(lambda: endpoint.received, seconds=1)
            assert len(endpoint.received) == 1
            thread.join()

    def test_concurrent_senders_send_each_message_once(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop, count=60)
        counts = run_simultaneously([lambda: send(shop) for _ in range(4)])
        assert sum(counts) == 60
        assert len({request.headers["webhook-id"] for request in endpoint.received}) == len(endpoint.received) == 60
        page = shop.administration.get(f"/triggers/{trigger['triggerId']}/deliveries", status="succeeded")
        assert page["totalCount"] == 60

    def test_a_delivery_is_claimed_only_once_within_its_lease(self, shop, endpoint):
        add_webhook(shop, endpoint)
        queue(shop, count=40)
        with shop.organization.api.engine.begin() as db:
            first_claims = triggers.claim_due(
                db, LEASE, ClaimLimits(total=60, of_trigger=30), organization_id=shop.organization.id
            )
            assert len(first_claims) == 30
            second_claims = triggers.claim_due(
                db, LEASE, ClaimLimits(total=60, of_trigger=30), organization_id=shop.organization.id
            )
            assert len(second_claims) == 40 - 30
            assert {claim.trigger_delivery_id for claim in first_claims}.isdisjoint(
                claim.trigger_delivery_id for claim in second_claims
            )


class TestCrashedSenders:
    def claim(self, shop, lease):
        """Claim deliveries for a sender that crashes before it sends them."""
        return transactions.run(
            shop.organization.api.engine,
            lambda db: triggers.claim_due(
                db, lease, ClaimLimits(total=9, of_trigger=9), organization_id=shop.organization.id
            ),
        )

    def test_a_message_whose_attempt_was_not_recorded_is_sent_again(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        [delivery] = self.claim(shop, LEASE)
        # The message is sent, and the sender crashes before it can record the outcome.
        working_sender = sender(shop)
        assert working_sender._send(delivery) == Reply(204)
        assert send(shop) == 0
        # This ends the lease.
        make_due(shop)
        assert send(shop) == 1
        assert [request.headers["webhook-id"] for request in endpoint.received] == [delivery.trigger_delivery_key] * 2
        record = only_delivery(shop, trigger)
        assert (record["status"], record["attempts"]) == ("succeeded", 2)

    def test_an_outcome_recorded_after_the_lease_changes_nothing(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop)
        [late_claim] = self.claim(shop, timedelta())
        assert send(shop) == 1
        delivery = only_delivery(shop, trigger)
        working_sender = sender(shop)
        columns = outcome(late_claim, Reply(500), fraction=0.5)
        transactions.run(shop.organization.api.engine, lambda db: triggers.conclude(db, [columns]))
        assert only_delivery(shop, trigger) == delivery
        assert working_sender.send_due() == 0

    def test_a_sender_that_stops_begins_no_attempt_and_records_the_running_ones(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop, count=30)
        stop = threading.Event()

        def slow(exchange):
            stop.set()
            time.sleep(0.2)
            exchange.respond(200)

        endpoint.usual_response = slow
        attempts = sender(shop, webhook_threads=2).send_due(stop.is_set)
        # At most one of each thread.
        assert 1 <= attempts <= 2
        page = shop.administration.get(f"/triggers/{trigger['triggerId']}/deliveries", status="succeeded")
        assert len(page["results"]) == attempts


class TestRemoval:
    def test_old_deliveries_are_removed_except_those_pending_for_an_active_trigger(self, shop, endpoint):
        trigger = add_webhook(shop, endpoint)
        queue(shop, count=6)
        ids = [delivery["triggerDeliveryId"] for delivery in deliveries(shop.administration, trigger)]
        engine, organization_id = shop.organization.api.engine, shop.organization.id
        with engine.begin() as db:
            now = datetime.now(UTC)
            old = now - timedelta(days=31)
            # The last two of the six deliveries stay new and pending.
            states = (("succeeded", old), ("failed", old), ("pending", old), ("succeeded", now))
            for delivery_id, (new_status, created_at) in zip(ids[:4], states, strict=True):
                db.execute(
                    text("UPDATE trigger_deliveries SET status = :s, created_at = :t WHERE trigger_delivery_id = :i"),
                    {"s": new_status, "t": created_at, "i": delivery_id},
                )
        assert sum(remove_old_deliveries(engine, organization_id, days=30)) == 2
        remaining_ids = [delivery["triggerDeliveryId"] for delivery in deliveries(shop.administration, trigger)]
        assert remaining_ids == ids[2:]
        body = trigger_body(key=trigger["triggerKey"], url=endpoint.url, active=False)
        shop.administration.put(f"/triggers/{trigger['triggerId']}", body)
        # The old pending delivery, whose trigger is inactive now.
        assert sum(remove_old_deliveries(engine, organization_id, days=30)) == 1
        assert sum(remove_old_deliveries(engine, organization_id, days=30)) == 0
        assert len(deliveries(shop.administration, trigger)) == 3

    def test_any_number_of_old_deliveries_is_removed_in_batches(self, shop, endpoint, monkeypatch):
        monkeypatch.setattr("handlers.services.webhooks.send_deliveries._REMOVED_AT_ONCE", 4)
        add_webhook(shop, endpoint)
        queue(shop, count=15)
        engine, organization_id = shop.organization.api.engine, shop.organization.id
        with engine.begin() as db:
            db.execute(
                text(
                    "UPDATE trigger_deliveries SET status = 'succeeded', created_at = now() - interval '31 days'"
                    " WHERE organization_id = :id"
                ),
                {"id": organization_id},
            )
        queue(shop, count=5)
        assert sum(remove_old_deliveries(engine, organization_id, days=30)) == 15
        assert shop.rows("trigger_deliveries", "count(*)") == [(5,)]


def moment(value):
    return datetime.fromisoformat(value)


def test_messages_contain_the_time_of_the_test_clock_and_are_signed_with_the_real_time(api, endpoint):
    clock = test_clocks.Clock.new(api, starts_at="2026-03-01T09:00:00Z")
    shop = Shop(clock.organization)
    add_webhook(shop, endpoint)
    shop.track_one(event(shop.member()))
    clock.advance("2026-04-01T09:00:00Z")
    assert send(shop) == 1
    [request] = endpoint.received
    assert request.headers["x-test-clock"] == "2026-03-01T09:00:00Z"
    assert abs(int(request.headers["webhook-timestamp"]) - time.time()) < 300
    assert json.loads(request.body)["timestamp"] == "2026-03-01T09:00:00Z"
