"""Opening and closing the books outside of tracking: whatever moves points by request or by time comes through here.

Closing writes what was posted, moves the tiers that go by it, and has the campaigns evaluate what is to be reported.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection

from domain.campaigns.limits import ALL_MEMBERS, EventLimits
from domain.events import IncomingEvent
from domain.ledger.postings import Posting
from domain.ledger.session import LedgerSession
from domain.organizations import Organization
from domain.tiers import HeldTier, TierAssignments
from handlers.call import Call, Execution
from handlers.services.configuration import Configuration, configuration_of
from handlers.services.events.track import track
from handlers.services.unit_of_work.derived_events import (
    TRANSACTION_CREATED,
    DerivedEvent,
    LedgerEvents,
    possible_types,
)
from handlers.services.unit_of_work.tier_points import TierPointsReader, open_tier_points
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import events, member_tiers, posting


def open_session(
    db: Connection,
    organization: Organization,
    wallet_ids: Collection[int],
    ledger_account_ids: Collection[int],
    at: datetime,
) -> LedgerSession:
    """The books of locked wallets, as `posting.open_session`, with the limits locked that may count when they close."""
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
    return posting.open_session(db, organization.organization_id, wallet_ids, ledger_account_ids, at)


def close_session(
    db: Connection,
    organization: Organization,
    session: LedgerSession,
    new_key: Callable[[], str],
    request_id: str,
    reason: str,
) -> list[int]:
    """Write the books and do what follows from them; answers the transaction's id of each step.

    `reason` is what the events that come of it say about why they were reported.
    """
    configuration = configuration_of(db, organization)
    is_concerned = _concern(configuration, {step.account.ledger_account_id for step in session.steps})
    wallets = {entry.wallet_id for step in session.steps for entry in step.entries if entry.wallet_id is not None}
    tier_schedules = configuration.tier_schedules if is_concerned else ()
    points = open_tier_points(db, organization.organization_id, tier_schedules, session, wallets)
    ids = posting.write_session(db, organization.organization_id, session)
    if is_concerned:
        members = member_tiers.of_wallets(db, organization.organization_id, wallets)
        found = _follow(db, organization, session, ids, configuration, members, points)
        report(db, organization, found, session.at, new_key, request_id, reason)
    return ids


def close_call_session(call: Call, session: LedgerSession) -> list[int]:
    """Close the books of a call that moved points by request."""
    return close_session(
        call.db, call.organization, session, call.new_key, call.request_id, "Points were moved by request."
    )


def report(
    db: Connection,
    organization: Organization,
    found: Collection[DerivedEvent],
    now: datetime,
    new_key: Callable[[], str],
    request_id: str,
    reason: str,
) -> None:
    """Track what the server itself reports, all of it in one batch."""
    incoming = [
        IncomingEvent(
            system_unique_key=f"{own.event_type}-{new_key()}",
            event_type=own.event_type,
            member_id=own.member_id,
            payload=own.payload,
            reason=reason,
        )
        for own in found
    ]
    if incoming:
        execution = Execution(db=db, organization=organization, now=now, request_id=request_id, new_key=new_key)
        track(UnitOfWork(execution), incoming, by_server=True)


def _concern(configuration: Configuration, ledger_account_ids: Collection[int]) -> bool:
    """True if movements on these accounts can move a tier or are to be reported themselves."""
    if any(
        schedule.moves and schedule.ledger_account_id in ledger_account_ids for schedule in configuration.tier_schedules
    ):
        return True
    return bool(ledger_account_ids) and TRANSACTION_CREATED in possible_types(configuration)


def _follow(
    db: Connection,
    organization: Organization,
    session: LedgerSession,
    ids: list[int],
    configuration: Configuration,
    members: Mapping[int, tuple[int, Mapping[int, HeldTier]]],
    points: TierPointsReader,
) -> list[DerivedEvent]:
    organization_id = organization.organization_id
    held = {(member_id, program): tier for member_id, tiers in members.values() for program, tier in tiers.items()}
    tier_assignments = TierAssignments(configuration.tier_schedules, held, session.at)
    member_ids = {wallet_id: member_id for wallet_id, (member_id, _) in members.items()}
    posted = [each for each, step in zip(ids, session.steps, strict=True) if isinstance(step, Posting)]
    found = LedgerEvents(
        configuration, session, tier_assignments, member_ids, posted.__getitem__, points
    ).take_derived()
    member_tiers.move(db, organization_id, tier_assignments.changed, session.at)
    return found
