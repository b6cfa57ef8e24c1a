"""Derived events of the ledger: transactions, points that wait or expire, and tiers that change with the points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from domain.event_types import (
    POINTS_AVAILABLE,
    POINTS_CANCELLED,
    POINTS_EXPIRED,
    TIER_REMOVED,
    TIER_SET,
    TRANSACTION_CREATED,
)
from domain.ledger.postings import BalanceKey, Capture, Earning, Posting, Step, StoredTransaction, position_of
from domain.ledger.session import LedgerSession
from domain.members import Member
from domain.tier_policies import BALANCE, TierPoints
from domain.tiers import HeldTier, TierMove, TierSchedule
from handlers.messages.derived_events import (
    SettledMint,
    available_payload,
    cancelled_payload,
    expired_payload,
    tier_payload,
    transaction_payload,
)
from persistence import ledger_wallets

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork

# The reasons of events about what happens by time, without a request or another event that causes it. Such an event
# always has one: the timelines of members recognize the events of the server by their reason.
_REASONS = {
    POINTS_AVAILABLE: "Points became available.",
    POINTS_CANCELLED: "Points were not confirmed in time.",
    POINTS_EXPIRED: "Points had expired.",
}
_TIER_EXPIRED, _TIER_EVALUATED = "The tier had expired.", "The tier was evaluated again."
_TIER_DEACTIVATED = "The tier was deactivated."

# The earnings of each wallet in each account, by wallet id and account id.
Earnings = Mapping[BalanceKey, tuple[Earning, ...]]


@dataclass(frozen=True, slots=True)
class DerivedEvent:
    """An event about a member that the server itself reports.

    `happened_at` is when it happened, None for the moment of the unit of work. `key` becomes its systemUniqueKey, so
    that it is not reported twice; None for a new key. `reason` is None if the event has the reason of the unit of work.
    `external_id` and `tags` come from the request that caused it.
    """

    member_id: int
    event_type: str
    payload: Mapping[str, Any]
    happened_at: datetime | None = None
    key: str | None = None
    reason: str | None = None
    external_id: str | None = None
    tags: tuple[str, ...] = ()


def tier_event(
    member_id: int,
    schedule: TierSchedule,
    keys: Mapping[int, str],
    before: int | None,
    tier: HeldTier | None,
) -> DerivedEvent:
    """The event of a member whose tier in a program changed to `tier`; `keys` has the keys of tiers by id.

    `before` is the id of the previous tier. Both tiers may be None: then the member had, or has, none in the program.
    """
    payload = tier_payload(schedule, keys, before, tier)
    return DerivedEvent(member_id, TIER_REMOVED if tier is None else TIER_SET, payload)


class LedgerEvents:
    """Derives events from the steps of a unit's ledger session, and moves the tiers that depend on the points."""

    def __init__(self, unit: UnitOfWork) -> None:
        self._unit = unit
        self._member_ids = {member.wallet_id: member.member_id for member in unit.members.values()}
        # How many steps were due when the session was opened: the passing of time caused them, not the request.
        self.due_step_count = len(unit.ledger.steps)
        # How many steps have been reported, and how many of these are postings.
        self._reported_step_count = 0
        self._reported_posting_count = 0

    def take_due(self, settled_accounts: Collection[int] = ()) -> list[DerivedEvent]:
        """Return the events of what was due when the unit was opened, such as expiries; move the tiers of the members.

        Tiers that depend on `settled_accounts` are evaluated even if nothing has expired in these accounts.
        """
        steps = self._unit.ledger.steps
        changed_accounts: Mapping[int, set[int]] = {}
        events: list[DerivedEvent] = []
        if steps:
            changed_accounts = _changed_accounts(steps)
            self._reported_step_count = len(steps)
            # No event reports the transactions of what has expired.
            self._reported_posting_count = len([step for step in steps if isinstance(step, Posting)])
            events = self._due_events(steps)
        for wallet_id, member_id in self._member_ids.items():
            events += self._move_tiers_by_points(
                wallet_id, member_id, {*settled_accounts, *changed_accounts.get(wallet_id, ())}, steps
            )
        return events

    def take_derived(self) -> list[DerivedEvent]:
        """Return the events of the ledger steps since the last call; the events of changed tiers come last."""
        steps = self._unit.ledger.steps[self._reported_step_count :]
        if not steps:
            return []
        due_count = max(self.due_step_count - self._reported_step_count, 0)
        self._reported_step_count += len(steps)
        due_steps, caused_steps = steps[:due_count], steps[due_count:]
        events = self._report_transactions(steps)
        changed_accounts = caused_accounts = _changed_accounts(steps)
        if due_steps:
            events += self._due_events(due_steps)
            caused_accounts = _changed_accounts(caused_steps)
        events += self._events_of_settled_waits(caused_steps) + self._events_of_expiries(caused_steps)
        for wallet_id, accounts in changed_accounts.items():
            if wallet_id in self._member_ids:
                events += self._move_tiers_by_points(
                    wallet_id, self._member_ids[wallet_id], accounts, due_steps, caused_accounts.get(wallet_id, ())
                )
        return events

    def _due_events(self, steps: Sequence[Step]) -> list[DerivedEvent]:
        """The events about points that became available, were cancelled or expired by time, each with its reason."""
        events = self._events_of_settled_waits(steps) + self._events_of_expiries(steps)
        return [replace(event, reason=_REASONS[event.event_type]) for event in events]

    def _report_transactions(self, steps: Iterable[Step]) -> list[DerivedEvent]:
        """Report transactions, each for the member who received the points or, if no member did, for the giver.

        Expiries and ends of holds, which happen by time, are not reported.
        """
        events = []
        is_reported = TRANSACTION_CREATED in self._unit.possible_derived_types
        for step in steps:
            if not isinstance(step, Posting):
                continue
            number = self._reported_posting_count
            self._reported_posting_count += 1
            giver_id = self._member_ids.get(step.from_wallet_id or 0)
            member_id = self._member_ids.get(step.to_wallet_id or 0, giver_id)
            if is_reported and member_id is not None and not (step.is_expiry or step.ends_hold):
                payload = transaction_payload(step, self._unit.transaction_id(number))
                events.append(DerivedEvent(member_id, TRANSACTION_CREATED, payload))
        return events

    def _events_of_settled_waits(self, steps: Iterable[Step]) -> list[DerivedEvent]:
        """The events about points that became available, or never will: one for each member, account and moment."""
        mints_by_key: dict[tuple[str, int, int, datetime], list[SettledMint]] = {}
        for step in steps:
            mint = mint_settled_by(step)
            if mint is None or not step.amount:
                continue
            is_available = isinstance(step, Capture)
            moment = step.available_at if isinstance(step, Capture) else step.details.external_event_date
            expires_at = step.expires_at if isinstance(step, Capture) else None
            event_type = POINTS_AVAILABLE if is_available else POINTS_CANCELLED
            key = (event_type, mint.to_wallet_id or 0, step.account.ledger_account_id, moment or self._unit.now)
            order_id = mint.order_external_id
            settled_mint = SettledMint(self._transaction_id_of(mint), step.amount, order_id, expires_at)
            mints_by_key.setdefault(key, []).append(settled_mint)
        events = []
        for (event_type, wallet_id, account_id, moment), mints in mints_by_key.items():
            member = self._unit.members.get(self._member_ids.get(wallet_id, 0))
            if member is not None and member.erased_at is None:
                # None: at the moment of the unit of work.
                happened_at = None if moment == self._unit.now else moment
                make_payload = available_payload if event_type == POINTS_AVAILABLE else cancelled_payload
                payload = make_payload(self._unit.ledger.accounts[account_id], mints, moment)
                events.append(DerivedEvent(member.member_id, event_type, payload, happened_at))
        return events

    def _transaction_id_of(self, mint: StoredTransaction) -> int | None:
        """The transaction id of a mint; None if the mint is a posting of this session in a dry run."""
        if mint.ledger_transaction_id > 0:
            return mint.ledger_transaction_id
        # The id is temporary, since the posting is not stored yet: count the postings before it in this session.
        earlier_steps = self._unit.ledger.steps[: position_of(mint.ledger_transaction_id)]
        return self._unit.transaction_id(len([step for step in earlier_steps if isinstance(step, Posting)]))

    def _events_of_expiries(self, steps: Iterable[Step]) -> list[DerivedEvent]:
        """The events about expired points: one for each member, account and moment.

        Inactive and erased members get no event. If nothing uses events of this type, there are none at all.
        """
        if POINTS_EXPIRED not in self._unit.possible_derived_types:
            return []
        amounts: dict[tuple[int, int, datetime], Decimal] = {}
        for step in steps:
            if isinstance(step, Posting) and step.is_expiry and step.amount:
                moment = step.details.external_event_date or self._unit.now
                key = (step.from_wallet_id or 0, step.account.ledger_account_id, moment)
                amounts[key] = amounts.get(key, Decimal(0)) + step.amount
        events = []
        for (wallet_id, account_id, moment), amount in amounts.items():
            member = self._unit.members.get(self._member_ids.get(wallet_id, 0))
            if member is not None and can_be_notified(member):
                payload = expired_payload(self._unit.ledger.accounts[account_id], amount, moment)
                # None: at the moment of the unit of work.
                happened_at = None if moment == self._unit.now else moment
                events.append(DerivedEvent(member.member_id, POINTS_EXPIRED, payload, happened_at))
        return events

    def _move_tiers_by_points(
        self,
        wallet_id: int,
        member_id: int,
        ledger_account_ids: set[int],
        due_steps: Sequence[Step],
        caused_accounts: Collection[int] = (),
    ) -> list[DerivedEvent]:
        """Move a member's expired tiers, and the tiers that depend on these accounts, as the points require.

        Returns the events. `due_steps` happened by time; an event or a request changed the `caused_accounts`.
        """
        unit = self._unit
        moves = unit.tier_assignments.move_by_points(
            member_id, ledger_account_ids, partial(unit.tier_points, wallet_id)
        )
        if not moves:
            return []
        keys = unit.configuration.tier_keys
        events = []
        for move in moves:
            is_caused = move.schedule.ledger_account_id in caused_accounts
            reason = None if is_caused else _reason_of_move(move, due_steps, wallet_id, unit.now)
            event = tier_event(member_id, move.schedule, keys, move.tier_id_before, move.tier)
            events.append(replace(event, reason=reason))
        return events


def tier_points_of(session: LedgerSession, earnings: Earnings, wallet_id: int, ledger_account_id: int) -> TierPoints:
    """The current points of a wallet in one account, as tiers need them.

    `earnings` has the stored earnings of all wallets. It can be empty if no tier depends on the points earned in a
    period.
    """
    balance = session.holding(wallet_id, ledger_account_id)
    stored_earnings = earnings.get((wallet_id, ledger_account_id), ())
    new_earnings = session.earnings(wallet_id, ledger_account_id)
    return TierPoints(balance.effective, balance.earned, (*stored_earnings, *new_earnings))


def find_tier_earnings(
    db: Connection,
    organization_id: int,
    tier_schedules: Iterable[TierSchedule],
    wallet_ids: Collection[int],
    at: datetime,
) -> Earnings:
    """Find the earnings of wallets that count for tiers at the moment `at` or later; at most one statement."""
    since_by_account: dict[int, datetime] = {}
    for schedule in tier_schedules:
        if schedule.ledger_account_id is not None:
            earliest = schedule.policy.earliest_counting_moment(at)
            other_earliest = since_by_account.get(schedule.ledger_account_id, earliest)
            since_by_account[schedule.ledger_account_id] = min(earliest, other_earliest)
    if not (since_by_account and wallet_ids):
        return {}
    return ledger_wallets.find_earnings(db, organization_id, wallet_ids, since_by_account)


def can_be_notified(member: Member) -> bool:
    """True for an active member who is not erased; other members are not notified of points that expire."""
    return member.active and member.erased_at is None


def mint_settled_by(step: Step) -> StoredTransaction | None:
    """The mint whose waiting points a step made available, or cancelled because no event confirmed them in time.

    None for other steps.
    """
    if isinstance(step, Capture):
        return step.stored if step.available_at is not None else None
    return step.reverts if step.ends_hold and step.reverts is not None and step.reverts.has_wait else None


def _reason_of_move(move: TierMove, due_steps: Iterable[Step], wallet_id: int, at: datetime) -> str:
    """The reason of a change of tier that neither an event nor a request has caused.

    `due_steps` happened by time. They do not explain the end of a manual tier, which does not depend on points.
    """
    previous_tier, schedule = move.previous, move.schedule
    if previous_tier is not None and schedule.step_of(previous_tier.loyalty_tier_id) is None:
        return _TIER_DEACTIVATED
    has_lapsed = previous_tier is not None and previous_tier.has_lapsed(at)
    if has_lapsed and previous_tier is not None and previous_tier.is_manual:
        return _TIER_EXPIRED
    reasons = set()
    for step in due_steps:
        is_of_wallet = any(entry.wallet_id == wallet_id for entry in step.entries)
        if not is_of_wallet or step.account.ledger_account_id != schedule.ledger_account_id:
            continue
        # The other steps that are due end holds and cancel points that wait, which do not count for tiers.
        if isinstance(step, Capture):
            reasons.add(_REASONS[POINTS_AVAILABLE])
        elif step.is_expiry and schedule.policy.basis == BALANCE:
            reasons.add(_REASONS[POINTS_EXPIRED])
    if reasons:
        return " ".join(sorted(reasons))
    return _TIER_EXPIRED if has_lapsed else _TIER_EVALUATED


def _changed_accounts(steps: Iterable[Step]) -> dict[int, set[int]]:
    """The ids of the accounts that the steps changed, by wallet."""
    accounts_by_wallet: dict[int, set[int]] = {}
    for step in steps:
        for entry in step.entries:
            if entry.wallet_id is not None:
                accounts_by_wallet.setdefault(entry.wallet_id, set()).add(step.account.ledger_account_id)
    return accounts_by_wallet
