"""Notices of points that will expire: each is reported once, as an event of the member."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from domain.event_types import POINTS_EXPIRING
from domain.ledger.notices import ExpiringAmount, Notice, NoticeSchedule, amounts_between
from domain.ledger.records import LedgerAccount
from domain.organizations import OrganizationDetails
from handlers.call import Execution
from handlers.messages.derived_events import expiring_payload
from handlers.services.unit_of_work.derived_events import DerivedEvent, can_be_notified
from handlers.services.unit_of_work.evaluation import evaluate_derived
from handlers.services.unit_of_work.requests import open_unit
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.wallet_batches import MAX_DUE_ROWS, MAX_EXPIRED_LOTS
from persistence import events, expiry_notices, ledger_lots
from persistence.expiry_notices import NoticeProgress
from persistence.ledger import ACCOUNTS

_REASON = "Points will expire."


def report_next(db: Connection, organization: OrganizationDetails, now: datetime, limit: int) -> int | None:
    """Report due notices of one account to the members of its next wallets, at most `limit`.

    Returns the number of events, None if no account has a due notice.
    """
    for account, schedule in find_schedules(db, organization):
        progress = expiry_notices.find_progress(db, account)
        if progress is None or schedule.due(progress.done_until, now):
            # Without progress, notices begin at the last change of the account or the organization.
            begun_at = min(now, max(account.updated_at, organization.updated_at))
            progress = expiry_notices.lock_progress(db, account, begun_at)
            # Check again under the lock: another transaction may have reported the notices meanwhile.
            if due_notices := schedule.due(progress.done_until, now):
                return _report(db, organization, account, schedule, progress, due_notices, now, limit)
    return None


def find_schedules(db: Connection, organization: OrganizationDetails) -> list[tuple[LedgerAccount, NoticeSchedule]]:
    """The accounts of members' points with notices, each with the schedule of its notices, by account id."""
    if organization.default_ledger_id is None:
        return []
    accounts = ACCOUNTS.find_all(db, organization.organization_id, ledger_id=organization.default_ledger_id)
    with_schedules = (
        (account, NoticeSchedule.of(account, organization.points_expiring, organization.zone))
        for account in sorted(accounts, key=lambda account: account.ledger_account_id)
        if account.point_tracking_enabled
    )
    return [(account, schedule) for account, schedule in with_schedules if schedule is not None]


def _report(
    db: Connection,
    organization: OrganizationDetails,
    account: LedgerAccount,
    schedule: NoticeSchedule,
    progress: NoticeProgress,
    due_notices: Sequence[Notice],
    now: datetime,
    limit: int,
) -> int:
    """Report the notices of the first due moment to the next wallets; return the number of events.

    If the wallets have more than `MAX_DUE_ROWS` points that expire by inactivity or become available, the last wallets
    are left to the next step. Stores the progress: the last wallet, or that the moment is done.
    """
    moment = due_notices[0].moment
    notices = [notice for notice in due_notices if notice.moment == moment]
    expiry_ranges = [schedule.bounds_of_day(notice.day) for notice in notices]
    after = progress.after_wallet_id if progress.moment == moment else 0
    wallet_ids = expiry_notices.find_next_wallets(db, organization, account, expiry_ranges, after, limit)
    is_last_step = len(wallet_ids) < limit
    idle_accounts = [account.ledger_account_id] if account.expiration_policies else []
    ids_to_report = ledger_lots.limit_due_rows(
        db, organization.organization_id, wallet_ids, idle_accounts, now, MAX_DUE_ROWS
    )
    event_count = _report_to(db, organization, account, schedule, notices, ids_to_report, now) if ids_to_report else 0
    is_done = is_last_step and len(ids_to_report) == len(wallet_ids)
    new_progress = NoticeProgress(moment) if is_done else NoticeProgress(progress.done_until, moment, ids_to_report[-1])
    expiry_notices.store_progress(db, account, new_progress)
    return event_count


def _report_to(
    db: Connection,
    organization: OrganizationDetails,
    account: LedgerAccount,
    schedule: NoticeSchedule,
    notices: Sequence[Notice],
    wallet_ids: Sequence[int],
    now: datetime,
) -> int:
    """Report notices of one moment to the members of these wallets; return the number of new events."""
    execution = Execution(
        db=db, organization=organization, now=now, request_id="notices", max_expired_lots=MAX_EXPIRED_LOTS
    )
    unit = UnitOfWork(execution, reported_types=(POINTS_EXPIRING,))
    account_ids = {account.ledger_account_id}
    unit.lock_wallets(wallet_ids, account_ids)
    with open_unit(unit, account_ids=account_ids, moments=[notices[0].moment]):
        members = {member.wallet_id: member.member_id for member in unit.members.values() if can_be_notified(member)}
        expiring_parts = expiry_notices.find_amounts(db, organization, account, list(members), now, notices[0].moment)
        lots = [(part.wallet_id, part.expires_at, part.amount) for part in expiring_parts]
        notice_events = []
        for notice in notices:
            begin_of_day, begin_of_next_day = schedule.bounds_of_day(notice.day)
            amounts = amounts_between(lots, begin_of_day, begin_of_next_day)
            notice_events += [
                _event(account, notice, members[amount.wallet_id], amount, now) for amount in amounts.values()
            ]
        keys = [event.key for event in notice_events if event.key is not None]
        existing_keys = events.find_existing_and_reserve_ids(db, organization.organization_id, keys, order_ids=()).keys
        new_events = [event for event in notice_events if event.key not in existing_keys]
        evaluate_derived(unit, new_events, _REASON)
    return len(new_events)


def _event(
    account: LedgerAccount, notice: Notice, member_id: int, amount: ExpiringAmount, now: datetime
) -> DerivedEvent:
    """The event that notifies a member of points that will expire."""
    return DerivedEvent(
        member_id,
        POINTS_EXPIRING,
        expiring_payload(account, amount.amount, amount.expires_at, notice.days_before),
        happened_at=None if notice.moment == now else notice.moment,
        # The key prevents that a member is notified twice, even if the settings change.
        key=f"{POINTS_EXPIRING}-{member_id}-{account.ledger_account_id}-{notice.day}-{notice.days_before}",
    )
