"""Sends due deliveries to the receivers of webhooks, and removes old ones (integration 6).

Due deliveries are claimed in a short transaction, sent outside of transactions, and their results are stored in another
transaction. If a sender dies in between, its deliveries are sent again after the lease: at least once.
"""

import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from domain.calendar import instant_text
from domain.triggers import FAILED, PENDING, SUCCEEDED
from domain.webhooks import delay_after, signatures
from handlers import tracing
from handlers.call import TEST_CLOCK_HEADER
from handlers.services.webhooks.post_message import Reply, WebhookClient
from handlers.setting_values import ports_of
from handlers.settings import Settings
from persistence import organizations, transactions, triggers
from persistence.triggers import ClaimedDelivery, ClaimLimits

# The beginning of `ce-type`, before the type of the message.
CLOUD_EVENT_PREFIX = "loyalty."
# Longer than an attempt can take, however busy the machine is.
LEASE = timedelta(seconds=60)
_STATUS_GONE = 410
# The time after which further due deliveries are claimed while others are being sent.
_PAUSE_SECONDS = 0.25
_REMOVED_AT_ONCE = 1000

_log = logging.getLogger("loyalty.webhooks")


class Sender:
    """Sends due deliveries in several threads: a trigger uses at most a quarter of them.

    An organization uses at most as many threads as remain free, so at most half of them.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        poster: WebhookClient | None = None,
        organization_id: int | None = None,
    ) -> None:
        self._engine = engine
        self._organization_id = organization_id
        self._poster = poster or WebhookClient(
            settings.webhook_allow_http, settings.webhook_allow_private, ports_of(settings.webhook_ports)
        )
        threads = settings.webhook_threads
        # So a receiver that never responds, or organizations with many of them, do not delay other deliveries.
        self._limits = ClaimLimits(threads, max(1, threads // 4))
        self._under_way: dict[Future[Reply], ClaimedDelivery] = {}

    def send_due(self, is_stopping: Callable[[], bool] = lambda: False) -> int:
        """Send until nothing is due and nothing is being sent. Returns the number of attempts.

        Once `is_stopping` returns True, no new attempts are begun.
        """
        attempts = 0
        with ThreadPoolExecutor(self._limits.total, thread_name_prefix="webhooks") as pool:
            while True:
                new_attempts = 0 if is_stopping() else self._begin(pool)
                attempts += new_attempts
                if not self._under_way:
                    return attempts
                # Wait for a free thread, or until further deliveries may be due.
                finished_posts, _ = wait(self._under_way, _PAUSE_SECONDS, FIRST_COMPLETED)
                self._conclude(finished_posts)

    def _begin(self, pool: ThreadPoolExecutor) -> int:
        """Claim due deliveries for the free threads, and begin to send them. Returns their number."""
        under_way = self._under_way.values()
        if len(under_way) >= self._limits.total:
            return 0
        deliveries = transactions.run(
            self._engine,
            lambda db: triggers.claim_due(db, LEASE, self._limits, under_way, self._organization_id),
        )
        for delivery in deliveries:
            self._under_way[pool.submit(self._send, delivery)] = delivery
        return len(deliveries)

    def _send(self, delivery: ClaimedDelivery) -> Reply:
        """Send a delivery, in a thread; every failure is described in the reply."""
        try:
            body = delivery.payload.encode()
            headers = message_headers(delivery, datetime.now(UTC), body)
            with tracing.span("delivery", _span_attributes(delivery)):
                return self._poster.post(delivery.settings["url"], headers, body)
        except Exception as error:
            _log.exception("delivery %s could not be sent", delivery.trigger_delivery_id)
            return Reply(status_code=None, error=f"The message could not be sent: {type(error).__name__}.")

    def _conclude(self, finished_posts: set[Future[Reply]]) -> None:
        """Store the results of deliveries, of each organization in a transaction of its own.

        Results that need a row that is locked are not stored: these deliveries are sent again after the lease.
        """
        replies_by_organization: dict[int, list[tuple[ClaimedDelivery, Reply]]] = {}
        for future in finished_posts:
            delivery = self._under_way.pop(future)
            replies_by_organization.setdefault(delivery.organization_id, []).append((delivery, future.result()))
        for organization_id, replies in replies_by_organization.items():
            try:
                transactions.run(self._engine, partial(_store_results, organization_id, replies))
            except DBAPIError as error:
                if not transactions.is_lock_timeout(error):
                    raise
                _log.info("results of %d deliveries need a row that is locked: they are not stored", len(replies))
                continue
            for delivery, reply in replies:
                _log.info(
                    "delivery %s, attempt %s: %s",
                    delivery.trigger_delivery_id,
                    delivery.attempts,
                    reply.error or reply.status_code,
                )


def _store_results(organization_id: int, replies: Sequence[tuple[ClaimedDelivery, Reply]], db: Connection) -> None:
    """Store the results of deliveries; deactivate triggers whose receivers respond with 410 (Gone)."""
    gone_deliveries = [delivery for delivery, reply in replies if reply.status_code == _STATUS_GONE]
    if gone_deliveries:
        organizations.increment_configuration_version(db, organization_id)
        triggers.deactivate(db, gone_deliveries)
    triggers.conclude(db, [outcome(delivery, reply, random.random()) for delivery, reply in replies])


def _span_attributes(delivery: ClaimedDelivery) -> Mapping[str, Any]:
    """The attributes of the span of a delivery; no addresses of receivers, which may contain secrets."""
    return {
        "loyalty.organization_id": delivery.organization_id,
        "loyalty.trigger_id": delivery.trigger_id,
        "loyalty.attempt": delivery.attempts,
    }


def send_due(
    engine: Engine,
    settings: Settings,
    is_stopping: Callable[[], bool] = lambda: False,
    organization_id: int | None = None,
) -> int:
    """Send all due deliveries, of one or (None) of all organizations. Returns the number of attempts."""
    return Sender(engine, settings, organization_id=organization_id).send_due(is_stopping)


def message_headers(delivery: ClaimedDelivery, now: datetime, body: bytes) -> dict[str, str]:
    """The headers of one attempt: the sender's, some of which the trigger may replace, and the trigger's."""
    timestamp = int(now.timestamp())
    secrets = [secret for secret in (delivery.secret, delivery.previous_secret) if secret is not None]
    configured_headers: Mapping[str, str] = delivery.settings["headers"]
    configured_names = {name.lower() for name in configured_headers}
    replaceable = {"User-Agent": "loyalty-server", **cloud_event_attributes(delivery)}
    clock_header = {TEST_CLOCK_HEADER: instant_text(delivery.recorded_at)} if delivery.has_test_clock else {}
    return {
        **configured_headers,
        **{name: value for name, value in replaceable.items() if name.lower() not in configured_names},
        **clock_header,
        "Content-Type": "application/json",
        "webhook-id": delivery.trigger_delivery_key,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": signatures(secrets, delivery.trigger_delivery_key, timestamp, body),
    }


def cloud_event_attributes(delivery: ClaimedDelivery) -> dict[str, str]:
    """The context attributes of the message as a CloudEvent in binary mode (CloudEvents 1.0, HTTP protocol binding)."""
    subject = {} if delivery.member_id is None else {"ce-subject": f"members/{delivery.member_id}"}
    return {
        "ce-specversion": "1.0",
        "ce-id": delivery.trigger_delivery_key,
        "ce-type": f"{CLOUD_EVENT_PREFIX}{delivery.type}",
        "ce-source": f"/organizations/{delivery.organization_key}",
        "ce-time": instant_text(delivery.recorded_at),
        **subject,
    }


def outcome(delivery: ClaimedDelivery, reply: Reply, fraction: float) -> Mapping[str, Any]:
    """The columns of a delivery after a reply; `fraction` spreads the next attempts in time, see `delay_after`."""
    is_received = reply.status_code is not None and 200 <= reply.status_code < 300
    delay = None if is_received or reply.status_code == _STATUS_GONE else delay_after(delivery.attempts, fraction)
    error = None if is_received else reply.error or f"The receiver responded with {reply.status_code}."
    status = SUCCEEDED
    if not is_received:
        status = FAILED if delay is None else PENDING
    return {
        "organization_id": delivery.organization_id,
        "trigger_delivery_id": delivery.trigger_delivery_id,
        "attempts": delivery.attempts,
        "last_attempt_at": delivery.last_attempt_at,
        "status": status,
        "wait_seconds": None if delay is None else delay.total_seconds(),
        "last_status_code": reply.status_code,
        "last_error": error,
    }


def remove_old_deliveries(engine: Engine, organization_id: int, days: int) -> Iterator[int]:
    """Remove the deliveries of one organization older than `days`; yield their number in each transaction."""
    before = datetime.now(UTC) - timedelta(days=days)
    last_id: int | None = 0
    while last_id is not None:
        remove_next = partial(
            triggers.remove_old_deliveries,
            organization_id=organization_id,
            after=last_id,
            before=before,
            limit=_REMOVED_AT_ONCE,
        )
        removal = transactions.run(engine, remove_next)
        last_id = removal.last_id
        yield removal.removed_count
