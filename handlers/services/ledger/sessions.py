"""Work on wallets, of members or not: movements of points by request or by expiry.

The ledger session is flushed at the end. Tiers that depend on the points move with it, and derived events are tracked
in a unit of work of their own, within the same database transaction.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection

from domain.campaigns.limits import ALL_MEMBERS, EventLimits
from domain.events import EventOrigin
from domain.ledger.postings import Posting
from domain.ledger.session import LedgerSession
from domain.organizations import Organization
from domain.tiers import TierAssignments
from handlers.call import Execution
from handlers.services.configuration import Configuration, configuration_of
from handlers.services.events.track import track
from handlers.services.unit_of_work.derived_events import (
    TIER_REMOVED,
    TIER_SET,
    TRANSACTION_CREATED,
    DerivedEvent,
    LedgerEvents,
    possible_types,
)
from handlers.services.unit_of_work.tier_points import open_tier_points
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, member_tiers, posting


@dataclass(slots=True)
class WalletWork:
    """An open ledger session; `transaction_ids` are the ids of its postings, known after the flush.

    `origins` are the requests that asked for postings, by wallet; the derived events belong to them.
    """

    ledger: LedgerSession
    transaction_ids: list[int] = field(default_factory=list)
    origins: dict[int, EventOrigin] = field(default_factory=dict)

    def ask(self, step: Posting, origin: EventOrigin) -> None:
        """Note the request that asked for a posting."""
        for wallet_id in (step.from_wallet_id, step.to_wallet_id):
            if wallet_id is not None:
                self.origins[wallet_id] = origin


@contextmanager
def work_on_wallets(
    execution: Execution,
    wallet_ids: Collection[int],
    ledger_account_ids: Collection[int],
    reason: str,
) -> Iterator[WalletWork]:
    """Work on locked wallets; the postings of the block are flushed at its end, with their consequences.

    `reason` is the reason in the derived events.
    """
    db, organization = execution.db, execution.organization
    work = WalletWork(open_session(db, organization, wallet_ids, ledger_account_ids, execution.now))
    yield work
    _flush(execution, work, reason)


def open_session(
    db: Connection,
    organization: Organization,
    wallet_ids: Collection[int],
    ledger_account_ids: Collection[int],
    at: datetime,
) -> LedgerSession:
    """The session of locked wallets, as `posting.open_session`.

    The limits that derived events may count are locked, too.
    """
    configuration = configuration_of(db, organization)
    if _concern(configuration, ledger_account_ids):
        # Limits of all members come before accounts in the order of `locks`; a member's own go by the wallet's lock.
        possible = possible_types(configuration)
        keys = {
            key
            for campaign in configuration.campaigns
            if campaign.limits and any(campaign.considers(event_type) for event_type in possible)
            for _, key in EventLimits.of(campaign.limits, campaign.campaign.campaign_id, 0, at, campaign.zone).rules
            if key.member_id == ALL_MEMBERS
        }
        events.open_counters(db, organization.organization_id, keys, lock=True)
        # And all accounts at once, in their order, since a campaign may mint into any of them.
        ledger_account_ids = {*ledger_account_ids, *configuration.accounts}
    return posting.open_session(db, organization, wallet_ids, ledger_account_ids, at)


def tiers_of_wallets(
    db: Connection, configuration: Configuration, wallet_ids: Collection[int], at: datetime
) -> tuple[TierAssignments, Mapping[int, int]]:
    """The tiers of the members who own locked wallets, and the members' ids by wallet; other wallets are left out."""
    members = member_tiers.of_wallets(db, configuration.organization_id, wallet_ids)
    held = {(member_id, program): tier for member_id, tiers in members.values() for program, tier in tiers.items()}
    assignments = TierAssignments(configuration.tier_schedules, held, at)
    return assignments, {wallet_id: member_id for wallet_id, (member_id, _) in members.items()}


def has_consequences(execution: Execution) -> bool:
    """True if the derived events of movements can themselves move something."""
    configuration = configuration_of(execution.db, execution.organization)
    referring = configuration.referral_programs.active_types
    return any(
        event_type in referring or configuration.concerns(configuration.plans, event_type)
        for event_type in (TIER_SET, TIER_REMOVED, TRANSACTION_CREATED)
    )


def report(
    execution: Execution,
    derived: Collection[DerivedEvent],
    reason: str,
    origins: Mapping[int, EventOrigin] | None = None,
) -> None:
    """Track derived events, all of them in one batch; `origins` are those of members other than the execution's."""
    if derived:
        incoming = [event.incoming(execution.new_key, reason) for event in derived]
        by_member = origins or {}
        of_events = [by_member.get(event.member_id, execution.origin) for event in derived]
        track(UnitOfWork(execution), incoming, by_server=True, origins=of_events)


def _concern(configuration: Configuration, ledger_account_ids: Collection[int]) -> bool:
    """True if movements on these accounts can move a tier or are to be reported themselves."""
    schedules = configuration.tier_schedules
    if any(schedule.moves and schedule.ledger_account_id in ledger_account_ids for schedule in schedules):
        return True
    return bool(ledger_account_ids) and TRANSACTION_CREATED in possible_types(configuration)


def _flush(execution: Execution, work: WalletWork, reason: str) -> None:
    db, organization = execution.db, execution.organization
    session, organization_id = work.ledger, organization.organization_id
    configuration = configuration_of(db, organization)
    is_concerned = _concern(configuration, {step.account.ledger_account_id for step in session.steps})
    wallets = {entry.wallet_id for step in session.steps for entry in step.entries if entry.wallet_id is not None}
    schedules = configuration.tier_schedules if is_concerned else ()
    points = open_tier_points(db, organization_id, schedules, session, wallets)
    work.transaction_ids = posting.write_session(db, organization_id, session)
    if not is_concerned:
        return
    assignments, member_ids = tiers_of_wallets(db, configuration, wallets, session.at)
    steps = zip(work.transaction_ids, session.steps, strict=True)
    posted = [transaction_id for transaction_id, step in steps if isinstance(step, Posting)]
    ledger_events = LedgerEvents(configuration, session, assignments, member_ids, posted.__getitem__, points)
    derived = ledger_events.take_derived()
    member_tiers.move(db, organization_id, assignments.changed, session.at)
    if execution.is_quiet:
        return
    requests = {member_ids[wallet_id]: origin for wallet_id, origin in work.origins.items() if wallet_id in member_ids}
    report(execution, derived, reason, requests)
