"""The test clock of an organization: starting it, advancing it from one due moment to the next, and removing it.

An advance is a target in the record of the organization. The call that requested it, or a worker that finds it, does
one step after the other, each in its own transaction, until the clock shows the target. If much is due at one moment, a
step does a part of it; after a crash the next process begins again with that moment.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine

from domain.organizations import TEST, Organization, OrganizationDetails
from domain.test_clocks import (
    ADVANCING,
    NotATestOrganization,
    TestClock,
    TestClockExists,
    TestClockInUse,
    TestClockMissing,
    refuse_during_advance,
    refuse_moment,
    refuse_start,
    refuse_target,
)
from handlers.call import Call
from handlers.services.events.drain_queue import Drain
from handlers.services.ledger import notices
from handlers.services.ledger.expire import expire_next
from handlers.services.ledger.extend_expiry import extend_next
from handlers.services.tiers import evaluate_next
from handlers.settings import Settings
from persistence import expiry_notices, ledger_lots, member_tiers, organizations, queue, test_clocks, transactions
from persistence.connections import TransactionDeadlineExceeded
from persistence.expiry_extensions import claim_running

# The maximum time for which a call advances a clock, or a worker before it continues with the next clock.
CALL_SECONDS = 10.0
_RETRIES = 3
# After this time a step ends; the next one does the rest that is due at the moment.
_STEP_SECONDS = 1.0
# The wallets after which a step looks at the time.
_WALLETS_AT_ONCE = 50
# The pause before the next attempt, while another caller advances the clock.
_PAUSE_SECONDS = 0.05

_log = logging.getLogger("loyalty.clocks")


def clock_of(organization: OrganizationDetails) -> TestClock:
    """The test clock of the organization; raises NotATestOrganization and TestClockMissing."""
    _refuse_live(organization)
    clock = organization.test_clock
    if clock is None:
        raise TestClockMissing("The organization uses the real time: createTestClock creates a clock.")
    return clock


@dataclass(frozen=True, slots=True)
class ClockChange:
    """The organization before a request changed its clock, and after it."""

    before: OrganizationDetails
    after: OrganizationDetails


def start_clock(call: Call, starts_at: datetime | None) -> ClockChange:
    """Give the organization a clock; raises TestClockExists, TestClockBackwards and InvalidRequest."""
    _refuse_live(call.organization)
    organization = _take_clock(call)
    if organization.clock_now is not None:
        raise TestClockExists("The organization already has a test clock. Advance it, or remove it first.")
    moment = call.real_now if starts_at is None else starts_at
    refuse_moment(moment, call.real_now, "/startsAt")
    refuse_start(moment, test_clocks.find_time_of_newest_record(call.db, organization.organization_id))
    return _change_clock(call, organization, clock_now=moment, clock_steps=0)


def begin_advance(call: Call, to: datetime) -> ClockChange:
    """Begin an advance, or continue a failed one to the same moment; raises the refusals of its target.

    A running advance stays unchanged; the call does not wait for its present step.
    """
    organization = organizations.find_details(call.db, call.organization.organization_id)
    clock = clock_of(organization)
    if (clock.status, clock.target) == (ADVANCING, to):
        return ClockChange(organization, organization)
    organization = _take_clock(call)
    clock = clock_of(organization)
    refuse_moment(to, call.real_now, "/to")
    refuse_target(clock, to)
    if clock.target is not None:
        return _change_clock(call, organization, clock_error=None)
    if to == clock.now:
        return ClockChange(organization, organization)
    return _change_clock(call, organization, clock_target=to, clock_started_at=call.real_now, clock_steps=0)


def remove_clock(call: Call) -> ClockChange:
    """Return the organization to the real time.

    Raises TestClockAdvancing during an advance, and TestClockInUse if a record is dated after the real time.
    """
    organization = _take_clock(call)
    clock = clock_of(organization)
    refuse_during_advance(clock)
    if test_clocks.has_later_record(call.db, organization.organization_id, call.real_now):
        raise TestClockInUse(
            "A record is dated later than the real time. Empty the organization: this also removes the clock."
        )
    return _change_clock(call, organization, **test_clocks.WITHOUT_CLOCK)


class _Progress(Enum):
    """The result of an attempt to do the next step.

    BUSY if another caller has the clock or a row that the step needs, or if events are queued.
    """

    MOVED, BUSY, ENDED = auto(), auto(), auto()


def advance_clock(
    engine: Engine, settings: Settings, organization_id: int, is_stopping: Callable[[], bool]
) -> OrganizationDetails:
    """Advance the clock of an organization step by step until it shows its target, a step fails, or `is_stopping()`.

    The events in the queue are evaluated first, at the time of the clock; failed events are retried at once. Waits
    while another caller does a step.
    """
    find_organization = test_clocks.find_and_hold_advancing_clock
    drain = Drain(engine, settings, is_stopping, find_organization=find_organization, waits_for_retry=False)
    failures = 0
    progress = _Progress.MOVED
    position = None
    while progress is not _Progress.ENDED and not is_stopping():
        try:
            while not is_stopping() and drain.evaluate_next(organization_id):
                pass
            progress, position = transactions.run(engine, partial(_do_step, organization_id, position))
            failures = 0
        except TransactionDeadlineExceeded:
            raise
        except Exception as error:
            if transactions.is_unavailable(error):
                raise
            if transactions.is_lock_timeout(error):
                progress = _Progress.BUSY
            else:
                failures += 1
            if failures > _RETRIES:
                _log.exception("the advance of the clock of organization %s failed", organization_id)
                _store_failure(engine, organization_id, error)
                break
        if progress is _Progress.BUSY:
            time.sleep(_PAUSE_SECONDS)
    return transactions.run(engine, lambda db: organizations.find_details(db, organization_id))


def advance_for_a_call(engine: Engine, settings: Settings, organization_id: int) -> OrganizationDetails:
    """Advance for at most ten seconds, or half of the time limit of a request."""
    return advance_clock(
        engine, settings, organization_id, _stopping_after(min(CALL_SECONDS, settings.request_timeout_ms / 2000))
    )


def advance_clocks(engine: Engine, settings: Settings, is_stopping: Callable[[], bool]) -> bool:
    """Continue every unfinished advance, each for at most ten seconds; False if there is none."""
    organization_ids = transactions.run(engine, test_clocks.find_advancing_ids)
    for organization_id in organization_ids:
        advance_clock(engine, settings, organization_id, _stopping_after(CALL_SECONDS, is_stopping))
    return bool(organization_ids)


def _stopping_after(seconds: float, is_stopping: Callable[[], bool] = lambda: False) -> Callable[[], bool]:
    """A function that returns True after some seconds, and when `is_stopping` does."""
    end = time.monotonic() + seconds
    return lambda: is_stopping() or time.monotonic() >= end


@dataclass(frozen=True, slots=True)
class _Position:
    """The position in the work of a moment: the number of finished kinds, and the last wallet of the next kind."""

    moment: datetime
    kinds_done: int = 0
    last_wallet_id: int = 0

    @property
    def is_done(self) -> bool:
        """True if all work of the moment is done."""
        return self.kinds_done == len(_KINDS)


def _do_step(organization_id: int, position: _Position | None, db: Connection) -> tuple[_Progress, _Position | None]:
    """Continue the due work at a position, None at first; if all is done, move the clock to the next due moment."""
    organization = test_clocks.find_and_try_to_take_clock(db, organization_id)
    if organization is None:
        return _Progress.BUSY, position
    now, target = organization.clock_now, organization.clock_target
    if now is None or target is None:
        return _Progress.ENDED, None
    if queue.has_waiting(db, organization_id):
        return _Progress.BUSY, position
    steps = organization.clock_steps or 0
    if position is None or position.moment != now:
        # Begin with the work that is already due: older than the clock, or left by a job or by a worker that died.
        position = _Position(now)
    elif position.is_done:
        moment = _next_due_moment(db, organization, now, target)
        if moment is None:
            _store(db, organization, clock_now=target, clock_target=None, clock_error=None)
            return _Progress.ENDED, None
        position = _Position(moment)
        steps += 1
    position = _process_due(db, replace(organization, clock_now=position.moment), position)
    if position.moment != now:
        # Last, as it locks the row of the organization, which senders of messages may change.
        _store(db, organization, clock_now=position.moment, clock_steps=steps)
    return _Progress.MOVED, position


def _next_due_moment(
    db: Connection, organization: OrganizationDetails, after: datetime, until: datetime
) -> datetime | None:
    """The first moment after `after`, up to `until`, at which `_process_due` has work; None if there is none."""
    moments = (
        ledger_lots.find_first_due(db, organization, after, until),
        member_tiers.find_first_lapse(db, organization.organization_id, after, until),
        expiry_notices.find_first_due(db, organization, notices.find_schedules(db, organization), after, until),
    )
    return min((moment for moment in moments if moment is not None), default=None)


def _process_due(db: Connection, organization: OrganizationDetails, position: _Position) -> _Position:
    """Do the due work at a position, kind by kind, for about a second; return the position to continue from."""
    end = time.monotonic() + _STEP_SECONDS
    while not position.is_done:
        last_wallet_id = _KINDS[position.kinds_done](db, organization, position)
        if last_wallet_id is None:
            position = _Position(position.moment, position.kinds_done + 1)
        else:
            position = replace(position, last_wallet_id=last_wallet_id)
        if time.monotonic() >= end:
            break
    return position


def _expire_points(db: Connection, organization: Organization, position: _Position) -> int | None:
    """Expire the points of the next wallets; return the last of them, None if nothing expires any more."""
    expiries = expire_next(db, organization, position.last_wallet_id, position.moment, _WALLETS_AT_ONCE)
    return None if expiries is None else expiries.last_wallet_id


def _extend_expiry(db: Connection, organization: Organization, position: _Position) -> int | None:
    """Do the next part of a running extension of expiry; return None if no extension is running.

    An extension stores its own progress, so the function returns the unchanged wallet of the position.
    """
    extension = claim_running(db, organization.organization_id)
    if extension is None:
        return None
    extend_next(db, organization, extension, position.moment)
    return position.last_wallet_id


def _evaluate_tiers(db: Connection, organization: Organization, position: _Position) -> int | None:
    """Evaluate the tiers of the next members with a lapsed one; return the last wallet, None if no tier is lapsed."""
    evaluated_tiers = evaluate_next(
        db, organization, position.last_wallet_id, position.moment, everyone=False, limit=_WALLETS_AT_ONCE
    )
    return None if evaluated_tiers is None else evaluated_tiers.last_wallet_id


def _report_notices(db: Connection, organization: OrganizationDetails, position: _Position) -> int | None:
    """Report the next notices of expiry; return the last wallet of the position, None if no notice is due.

    A notice is due until it is reported, so the wallet stays the same.
    """
    event_count = notices.report_next(db, organization, position.moment, _WALLETS_AT_ONCE)
    return None if event_count is None else position.last_wallet_id


# The kinds of work of a moment, in order. Each function does a part of the work after the last wallet of the position.
# It returns the wallet after which the kind continues, None if nothing is due any more.
_KINDS: Sequence[Callable[[Connection, OrganizationDetails, _Position], int | None]] = (
    _extend_expiry,
    _expire_points,
    _evaluate_tiers,
    _report_notices,
)


def _store_failure(engine: Engine, organization_id: int, error: Exception) -> None:
    """Store that the advance failed, which ends it until a caller continues it."""
    failure = f"A step met {type(error).__name__}; the log of the server has more."

    def store_failure(db: Connection) -> None:
        # None if another process has taken the clock meanwhile: it continues the advance.
        organization = test_clocks.find_and_try_to_take_clock(db, organization_id)
        if organization is not None and organization.clock_target is not None:
            _store(db, organization, clock_error=failure)

    transactions.run(engine, store_failure)


def _take_clock(call: Call) -> OrganizationDetails:
    """Take the clock for this call, waiting for calls that still hold it; return the organization."""
    return test_clocks.find_and_take_clock(call.db, call.organization.organization_id)


def _refuse_live(organization: Organization) -> None:
    """Refuse an organization that is not a test organization."""
    if organization.environment != TEST:
        raise NotATestOrganization("Only a test organization can have a test clock.")


def _change_clock(call: Call, organization: OrganizationDetails, **values: Any) -> ClockChange:
    return ClockChange(organization, _store(call.db, organization, **values))


def _store(db: Connection, organization: OrganizationDetails, **values: Any) -> OrganizationDetails:
    return organizations.change_organization(db, organization.organization_id, **values)
