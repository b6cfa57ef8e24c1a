"""Evaluates queued events: a database transaction claims, evaluates and removes a batch of one organization.

A crashed process leaves nothing claimed. If a batch fails, its events are evaluated individually, so that only faulty
ones fail. A failed event is retried later, and the member's later events wait until it is done or a dead letter. An
event that needs a row that a call has locked has not failed: it stays the first in its member's queue, for the next
batch.
"""

import logging
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from domain.queue import QueuedEvent, Retries
from handlers import tracing
from handlers.services.events.evaluate_queued import STEP_SECONDS, evaluate_claimed, record_failure
from handlers.services.webhooks.outbox import TooManyMessages
from handlers.settings import Settings
from persistence import queue, transactions
from persistence.test_clocks import FindOrganization, find_and_hold_clock
from persistence.transactions import is_lock_timeout

_log = logging.getLogger("loyalty.queue")


class Drain:
    """The progress of one worker through the queue: a batch of each organization in turn.

    The members of an organization take part in turn, too. Unless it `waits_for_retry`, failed events are retried at
    once.
    """

    def __init__(
        self,
        engine: Engine,
        settings: Settings,
        is_stopping: Callable[[], bool] = lambda: False,
        find_organization: FindOrganization = find_and_hold_clock,
        *,
        waits_for_retry: bool = True,
    ) -> None:
        self._engine = engine
        self._find_organization = find_organization
        self._waits_for_retry = waits_for_retry
        self._batch = settings.queue_batch
        self._retries = Retries(settings.queue_attempts, timedelta(milliseconds=settings.queue_retry_ms))
        self._is_stopping = is_stopping
        # The last member of the last batch of each organization: the next batch continues after this member, so that
        # members with long queues do not delay the others.
        self._last_members: dict[int, int] = {}

    def step(self) -> bool:
        """Evaluate a batch of each organization that has due events; False if none has.

        Raises the database's error if the database is unavailable.
        """
        has_worked = False
        for organization_id in transactions.run(self._engine, queue.find_waiting_organizations):
            if self._is_stopping():
                break
            after = self._last_members.pop(organization_id, 0)
            with tracing.span("queue batch", {"loyalty.organization_id": organization_id}):
                member_ids = self.evaluate_next(organization_id, after)
            if len(member_ids) == self._batch:
                self._last_members[organization_id] = member_ids[-1]
            # No members after `after` means the end: the next step begins with the first member again.
            if member_ids or after > 0:
                has_worked = True
        return has_worked

    def evaluate_next(self, organization_id: int, after: int = 0) -> list[int]:
        """Evaluate a batch of the next members after the id `after` whose events can be claimed. Returns their ids."""
        member_ids: list[int] = []
        batch: list[QueuedEvent] = []
        failed_before: list[QueuedEvent] = []

        def evaluate_batch(db: Connection) -> None:
            """Claim members and evaluate their next events; put both into the lists of the enclosing function."""
            organization = self._find_organization(db, organization_id)
            member_ids.clear()
            if organization is None:
                return
            member_ids[:] = queue.claim_members(
                db, organization_id, after, self._batch, waits_for_retry=self._waits_for_retry
            )
            if not member_ids:
                return
            queued_events = queue.find_lines(db, organization_id, member_ids, self._batch // len(member_ids))
            # Events that failed before are evaluated individually, so that they fail no batch again. Until then, the
            # later events of their members wait.
            failed_before[:] = [queued for queued in queued_events if queued.attempts]
            waiting_member_ids = {queued.event.member_id for queued in failed_before}
            batch[:] = [queued for queued in queued_events if queued.event.member_id not in waiting_member_ids]
            if batch:
                evaluate_claimed(db, organization, batch, organization.time_at(datetime.now(UTC)))

        try:
            transactions.run(self._engine, evaluate_batch)
        except Exception as error:
            if not batch or transactions.is_unavailable(error):
                raise
            if len(batch) > 1:
                level = logging.INFO if is_lock_timeout(error) else logging.WARNING
                _log.log(
                    level, "a batch of %d events failed: %s; evaluating them one by one", len(batch), _error_text(error)
                )
                self._evaluate_individually(organization_id, batch)
            else:
                self._record_failure(organization_id, batch[0], error)
        self._evaluate_individually(organization_id, failed_before)
        return member_ids

    def _evaluate_individually(self, organization_id: int, queued_events: Sequence[QueuedEvent]) -> None:
        """Evaluate events in one transaction each; if one fails, skip the member's later events.

        After `STEP_SECONDS`, the remaining events stay in the queue, so that other organizations have their turn.
        """
        waiting_member_ids: set[int] = set()
        began_at = time.monotonic()
        for queued in queued_events:
            if queued.event.member_id in waiting_member_ids:
                continue
            if self._is_stopping() or time.monotonic() - began_at > STEP_SECONDS:
                return
            try:
                transactions.run(self._engine, partial(self._evaluate_one, organization_id, queued))
            except Exception as error:
                if transactions.is_unavailable(error):
                    raise
                self._record_failure(organization_id, queued, error)
                waiting_member_ids.add(queued.event.member_id)

    def _record_failure(self, organization_id: int, queued: QueuedEvent, error: Exception) -> None:
        """Log and store a failed attempt; after the last attempt the event is a dead letter.

        An attempt that found a row locked does not count.
        """
        key = queued.event.loyalty_event_key
        if is_lock_timeout(error):
            _log.info("the event %s needs a row that is locked: it stays in the queue", key)
            return
        failures = queued.attempts + 1
        # An event that causes too many messages would cause them again.
        can_succeed = not isinstance(error, TooManyMessages)
        wait = self._retries.wait(failures, random.random()) if can_succeed else None
        if wait is None:
            _log.error("the event %s is a dead letter after %d attempts", key, failures, exc_info=error)
        else:
            _log.warning("attempt %d on the event %s failed: %s", failures, key, _error_text(error), exc_info=error)

        def store_failure(db: Connection) -> None:
            organization = self._find_organization(db, organization_id)
            if organization is not None:
                now = organization.time_at(datetime.now(UTC))
                record_failure(db, organization, queued, _error_text(error), wait, now)

        try:
            transactions.run(self._engine, store_failure)
        except DBAPIError as error_of_record:
            # Another worker has claimed the event meanwhile, and stores its own result.
            if not is_lock_timeout(error_of_record):
                raise

    def _evaluate_one(self, organization_id: int, queued: QueuedEvent, db: Connection) -> None:
        """Evaluate one event, unless another worker has evaluated it or is evaluating it."""
        organization = self._find_organization(db, organization_id)
        if organization is None:
            return
        first_event_id = queue.claim_head(
            db, organization_id, queued.event.member_id, waits_for_retry=self._waits_for_retry
        )
        if first_event_id == queued.event.loyalty_event_id:
            evaluate_claimed(db, organization, [queued], organization.time_at(datetime.now(UTC)))


def _error_text(error: Exception) -> str:
    """A description of an error that contains no values of records."""
    if isinstance(error, DBAPIError):
        return f"{type(error).__name__} {getattr(error.orig, 'pgcode', None) or ''}".strip()
    return str(error) if isinstance(error, TooManyMessages) else type(error).__name__
