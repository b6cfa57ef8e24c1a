"""Derived events of the ledger: tiers that changed because points moved, and the transactions."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.events import IncomingEvent
from domain.ledger.postings import Posting, Step
from domain.ledger.session import LedgerSession
from domain.tiers import TierAssignments, TierSchedule
from handlers.messages.derived_events import tier_payload, transaction_payload
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.tier_points import TierPointsReader

TIER_SET, TIER_REMOVED = "member-tier-set", "member-tier-removed"
TRANSACTION_CREATED = "ledger-transaction-created"
BADGE_ASSIGNED, BADGE_UNASSIGNED = "badge-assigned", "badge-unassigned"
MISSION_ACHIEVED = "mission-status-updated"
COUPON_ASSIGNED, COUPON_USED, BENEFIT_USED = COUPON_EVENTS = "coupon-code-assigned", "coupon-code-used", "benefit-used"


@dataclass(frozen=True, slots=True)
class DerivedEvent:
    """An event that the server itself reports of a member."""

    member_id: int
    event_type: str
    payload: Mapping[str, Any]

    def incoming(self, new_key: Callable[[], str], reason: str, happened_at: datetime | None = None) -> IncomingEvent:
        """The event as it is tracked; without a moment, it happens now."""
        return IncomingEvent(
            system_unique_key=f"{self.event_type}-{new_key()}",
            event_type=self.event_type,
            member_id=self.member_id,
            reason=reason,
            payload=self.payload,
            external_event_date=happened_at,
        )


def tier_event(
    member_id: int,
    schedule: TierSchedule,
    keys: Mapping[int, str],
    before: int | None,
    after: int | None,
    *,
    is_manual: bool = False,
    expires_at: datetime | None = None,
) -> DerivedEvent:
    """The event of a member whose tier changed from `before` to `after`; `keys` are those of tiers, by id."""
    payload = tier_payload(schedule, keys, before, after, is_manual=is_manual, expires_at=expires_at)
    return DerivedEvent(member_id, TIER_REMOVED if after is None else TIER_SET, payload)


def possible_types(configuration: Configuration) -> frozenset[str]:
    """The types of derived events that can occur in the organization, because other records ask for them."""
    event_types: set[str] = set(COUPON_EVENTS)
    if any(schedule.moves for schedule in configuration.tier_schedules) or configuration.sets_tiers:
        event_types |= {TIER_SET, TIER_REMOVED}
    if configuration.badges:
        event_types |= {BADGE_ASSIGNED, BADGE_UNASSIGNED}
    # Every movement causes one, so they are reported only if a record names them.
    named = any(TRANSACTION_CREATED in campaign.event_types for campaign in configuration.campaigns)
    others = {*configuration.missions_by_type, *configuration.referral_programs.active_types}
    if named or TRANSACTION_CREATED in others:
        event_types.add(TRANSACTION_CREATED)
    if configuration.missions_by_type:
        event_types.add(MISSION_ACHIEVED)
    return frozenset(event_types)


class LedgerEvents:
    """The derived events of the ledger session of a unit of work; tiers are moved with the points.

    `member_ids` are those of the wallets, by wallet id; `transaction_id` returns the id of the nth posting.
    """

    def __init__(
        self,
        configuration: Configuration,
        session: LedgerSession,
        tier_assignments: TierAssignments,
        member_ids: Mapping[int, int],
        transaction_id: Callable[[int], int | None],
        tier_points: TierPointsReader,
    ) -> None:
        self._configuration = configuration
        self._session = session
        self._assignments = tier_assignments
        self._member_ids = member_ids
        self._transaction_id = transaction_id
        self._tier_points = tier_points
        self._possible = possible_types(configuration)
        self._steps = 0
        self._postings = 0

    def begin(self, always: Collection[int] = ()) -> list[DerivedEvent]:
        """The events of points and tiers that had expired when the unit was opened.

        Tiers that depend on the accounts of `always` are evaluated in any case.
        """
        changed = _changed(self._session.steps)
        self._steps = len(self._session.steps)
        self._postings = sum(isinstance(step, Posting) for step in self._session.steps)
        return [
            event
            for wallet_id, member_id in self._member_ids.items()
            for event in self._moved(wallet_id, member_id, {*always, *changed.get(wallet_id, ())})
        ]

    def take_derived(self) -> list[DerivedEvent]:
        """The events of the new steps, in their order; those of tiers last."""
        steps = self._session.steps[self._steps :]
        self._steps += len(steps)
        if not self._possible:
            return []
        events = self._transactions(steps)
        for wallet_id, accounts in _changed(steps).items():
            if wallet_id in self._member_ids:
                events += self._moved(wallet_id, self._member_ids[wallet_id], accounts)
        return events

    def _transactions(self, steps: Iterable[Step]) -> list[DerivedEvent]:
        """The transactions, each of the member who received the points, else of the one who gave them.

        Expiries are not reported.
        """
        events = []
        for step in steps:
            if not isinstance(step, Posting):
                continue
            number, self._postings = self._postings, self._postings + 1
            member_id = self._member_ids.get(step.to_wallet_id or 0, self._member_ids.get(step.from_wallet_id or 0))
            if TRANSACTION_CREATED in self._possible and member_id is not None and not step.is_expiry:
                payload = transaction_payload(step, self._transaction_id(number))
                events.append(DerivedEvent(member_id, TRANSACTION_CREATED, payload))
        return events

    def _moved(self, wallet_id: int, member_id: int, ledger_account_ids: set[int]) -> list[DerivedEvent]:
        points = self._tier_points.of(wallet_id)
        keys = self._configuration.tier_keys
        return [
            tier_event(member_id, move.schedule, keys, move.before, move.after, expires_at=move.expires_at)
            for move in self._assignments.settle(member_id, ledger_account_ids, points)
        ]


def balance_of(session: LedgerSession, wallet_id: int, ledger_account_id: int) -> Decimal:
    """The balance of the wallet in the account at this point of the unit."""
    return session.holding(wallet_id, ledger_account_id).current


def _changed(steps: Iterable[Step]) -> dict[int, set[int]]:
    """The accounts that the steps changed, by wallet."""
    accounts_by_wallet: dict[int, set[int]] = {}
    for step in steps:
        for entry in step.entries:
            if entry.wallet_id is not None:
                accounts_by_wallet.setdefault(entry.wallet_id, set()).add(step.account.ledger_account_id)
    return accounts_by_wallet
