"""Members with the parts of their record that are stored elsewhere: tiers and balances."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

from domain.ledger.views import WalletView
from domain.members import Member
from domain.problems import FieldFault, InvalidRequest
from domain.tier_policies import BALANCE, TierPoints
from domain.tiers import MemberTier, Points, TierAssignments, TierSchedule, TierStatus, tier_status
from handlers.call import Call
from handlers.services.configuration import Configuration, configuration_of
from handlers.services.unit_of_work.derived_events import Earnings, find_tier_earnings
from persistence import expiring_points, ledger_wallets, member_tiers
from persistence import members as stored_members
from persistence.member_lookups import MemberWithHoldings
from persistence.rows import fields_of

_FIELD_NAMES = fields_of(Member)
_field_values = attrgetter(*_FIELD_NAMES)

# The customAttributes that one call reads, in bytes of JSON; a process needs many times as much memory for them.
MAX_ATTRIBUTE_BYTES = 16 * 1024 * 1024
# So many members cannot have more.
_ALWAYS_READABLE = 100

Balances = Mapping[int, Sequence[WalletView]]


def refuse_large_attributes(call: Call, member_ids: Collection[int]) -> None:
    """Raise InvalidRequest if these members have too large customAttributes to be read by one call."""
    if len(member_ids) <= _ALWAYS_READABLE:
        return
    size = stored_members.attribute_bytes(call.db, call.organization.organization_id, member_ids)
    if size > MAX_ATTRIBUTE_BYTES:
        detail = (
            f"The customAttributes of these members have {size:,} bytes together, more than the maximum of "
            f"{MAX_ATTRIBUTE_BYTES:,}. Read fewer members by a call."
        )
        raise InvalidRequest([FieldFault(detail, pointer="/memberIds")])


def view_members(call: Call, members: Sequence[Member], *, with_balances: bool = False) -> list[dict[str, Any]]:
    """The member records in order; the number of statements does not depend on the number of members.

    With balances, the records also have the amounts that count for tiers.
    """
    balances = _balances_of(call, members) if with_balances else None
    tiers = current_tiers(call, members, balances)
    if balances is None:
        return [_record(member, tiers[member.member_id]) for member in members]
    statuses = _statuses(call, members, tiers, balances)
    return [
        _record(member, tiers[member.member_id], statuses[member.member_id], balances.get(member.wallet_id, []))
        for member in members
    ]


def view_member(call: Call, member: Member) -> dict[str, Any]:
    """The record of a member with its balances, and the amounts that count for tiers."""
    return view_members(call, [member], with_balances=True)[0]


class MemberRequest(NamedTuple):
    """A member whose record a call requests: without balances, with them, or also with the amounts that expire."""

    holder: MemberWithHoldings
    with_balances: bool
    with_expiring: bool


def view_holders(calls: Sequence[Call], requests: Sequence[MemberRequest]) -> list[dict[str, Any]]:
    """The record of the member that each call requests, in the form of `view_members`; the calls share a transaction.

    The number of statements does not depend on the number of calls.
    """
    call = calls[0]
    members: dict[int, Member] = {}
    stored_tiers: dict[int, list[MemberTier]] = {}
    balances: dict[int, Sequence[WalletView]] = {}
    members_with_balances: dict[int, Member] = {}
    balances_to_complete: dict[int, Sequence[WalletView]] = {}
    for (member, tiers_of_member, balances_of_wallet), with_balances, with_expiring in requests:
        members[member.member_id] = member
        stored_tiers[member.member_id] = list(tiers_of_member)
        balances[member.wallet_id] = balances_of_wallet
        if with_balances:
            members_with_balances[member.member_id] = member
        if with_expiring:
            balances_to_complete[member.wallet_id] = balances_of_wallet
    tiers = replace_lapsed_tiers(call, [*members.values()], stored_tiers, balances)
    statuses = _statuses(call, [*members_with_balances.values()], tiers, balances) if members_with_balances else {}
    views_with_expiring = _with_expiring(call, balances_to_complete) if balances_to_complete else {}
    records = []
    for holder, with_balances, with_expiring in requests:
        member = holder.member
        own_tiers = tiers[member.member_id]
        if with_balances:
            shown_balances = (views_with_expiring if with_expiring else balances)[member.wallet_id]
            records.append(_record(member, own_tiers, statuses[member.member_id], shown_balances))
        else:
            records.append(_record(member, own_tiers))
    return records


def _with_expiring(call: Call, balances: Balances) -> Balances:
    """The balances, each with the amounts that will expire; one statement."""
    views = [view for balances_of_wallet in balances.values() for view in balances_of_wallet]
    accounts = configuration_of(call.db, call.organization).accounts
    by_wallet: dict[int, list[WalletView]] = {wallet_id: [] for wallet_id in balances}
    for view in expiring_points.with_expiring(call.db, call.organization, views, accounts, call.now):
        by_wallet[view.wallet_id].append(view)
    return by_wallet


def _record(
    member: Member,
    tiers: Sequence[MemberTier],
    statuses: Sequence[TierStatus] | None = None,
    balances: Sequence[WalletView] | None = None,
) -> dict[str, Any]:
    """The record of a member, with its balances and its tier status, or without both."""
    # Not `asdict`: its deep copies would take a third of the time for a page of members.
    record = dict(zip(_FIELD_NAMES, _field_values(member), strict=True))
    return {**record, "tiers": tiers, "tier_status": statuses, "ledger_balances": balances}


def _statuses(
    call: Call,
    members: Sequence[Member],
    tiers: Mapping[int, Sequence[MemberTier]],
    balances: Balances,
) -> dict[int, list[TierStatus]]:
    """The tier status of the members in every active program; at most one statement, if tiers depend on a period."""
    configuration = configuration_of(call.db, call.organization)
    tiers_by_id = {tier.loyalty_tier_id: tier for tier in configuration.tiers.values()}
    points = points_of(call, configuration, members, balances)
    statuses: dict[int, list[TierStatus]] = {}
    for member in members:
        tiers_by_program = {tier.loyalty_program_id: tier for tier in tiers[member.member_id]}
        statuses[member.member_id] = [
            tier_status(
                schedule, tiers_by_id, tiers_by_program.get(schedule.loyalty_program_id), points(member), call.now
            )
            for schedule in configuration.tier_schedules
        ]
    return statuses


def current_tiers(
    call: Call, members: Sequence[Member], balances: Balances | None = None
) -> dict[int, list[MemberTier]]:
    """The tiers of the members, by member id.

    Tiers that have expired, or that depended on expired points, are replaced like in the evaluation. Writes nothing.
    `balances` has the balances of each wallet by its id; None if they were not read yet.
    """
    stored_tiers = member_tiers.find_of_members(
        call.db, call.organization.organization_id, [member.member_id for member in members]
    )
    return replace_lapsed_tiers(call, members, stored_tiers, balances)


def replace_lapsed_tiers(
    call: Call, members: Sequence[Member], stored_tiers: dict[int, list[MemberTier]], balances: Balances | None = None
) -> dict[int, list[MemberTier]]:
    """Replace the entries of `stored_tiers` that have expired, or whose points have expired or arrived; return it.

    Points have arrived if they are available, but not posted yet. `stored_tiers` has the tiers by member id, `balances`
    the balances by wallet id. If these are None, they are read only if a tier may have ended: if not, arrived points do
    not count.
    """
    if balances is None:
        may_have_ended = any(
            _account_behind(call, tier) for member in members for tier in stored_tiers[member.member_id]
        )
        balances = _balances_of(call, members) if may_have_ended else {}
    expired_balances = {
        (view.wallet_id, view.ledger_account_id) for views in balances.values() for view in views if view.expired
    }
    arrivals = {
        (view.wallet_id, view.ledger_account_id): view.arrived_mints[-1].available_at
        for views in balances.values()
        for view in views
        if view.arrived_mints
    }
    if expired_balances or arrivals:
        for member in members:
            stored_tiers[member.member_id] = [
                _lapse_by_points(call, member.wallet_id, tier, expired_balances, arrivals)
                for tier in stored_tiers[member.member_id]
            ]
    lapsed_members = [
        member
        for member in members
        if any(tier.held_tier.has_lapsed(call.now) for tier in stored_tiers[member.member_id])
    ]
    if lapsed_members:
        configuration = configuration_of(call.db, call.organization)
        tier_assignments = TierAssignments(configuration.tier_schedules, tiers={}, at=call.now)
        # Empty balances may not have been read, so they are read here.
        points = points_of(call, configuration, lapsed_members, balances or None)
        for member in lapsed_members:
            present_tiers = (
                _replaced_if_lapsed(tier, tier_assignments, points(member)) for tier in stored_tiers[member.member_id]
            )
            stored_tiers[member.member_id] = [tier for tier in present_tiers if tier is not None]
    return stored_tiers


def _lapse_by_points(
    call: Call,
    wallet_id: int,
    tier: MemberTier,
    expired_balances: Collection[tuple[int, int]],
    arrivals: Mapping[tuple[int, int], datetime],
) -> MemberTier:
    """The tier of the wallet's owner, with an end if another tier may replace it.

    It ends when points arrive that can give another tier, or now if its own points have expired. `arrivals` has the
    moment of the last arrival, by wallet and account id.
    """
    # No account has the id 0.
    moment = arrivals.get((wallet_id, _account_of_other_tier(call, tier) or 0))
    if moment is None and (wallet_id, _account_behind(call, tier) or 0) in expired_balances:
        moment = call.now
    return tier if moment is None else replace(tier, expires_at=moment)


def _account_behind(call: Call, tier: MemberTier) -> int | None:
    """The account whose balance decides how long a member keeps a tier; None if none does, or if it cannot expire."""
    schedule = _schedule_of(call, tier)
    if tier.is_manual or schedule is None or not schedule.moves_members or schedule.policy.basis != BALANCE:
        return None
    # No account has the id 0.
    account = configuration_of(call.db, call.organization).accounts.get(schedule.ledger_account_id or 0)
    can_expire = account is not None and (account.point_tracking_enabled or account.expiration_policies)
    return schedule.ledger_account_id if can_expire else None


def _account_of_other_tier(call: Call, tier: MemberTier) -> int | None:
    """The account whose points can give the member another tier now; None if none can, or if points of a period count.

    Points of a period are read from postings, which do not contain arrived points yet.
    """
    schedule = _schedule_of(call, tier)
    if tier.held_tier.is_fixed or schedule is None or not schedule.moves_members or schedule.policy.has_period:
        return None
    return schedule.ledger_account_id


def _schedule_of(call: Call, tier: MemberTier) -> TierSchedule | None:
    """The schedule of the program of a tier; None if the program has none."""
    schedules = configuration_of(call.db, call.organization).tier_schedules
    return next((schedule for schedule in schedules if schedule.loyalty_program_id == tier.loyalty_program_id), None)


def _balances_of(call: Call, members: Sequence[Member]) -> Balances:
    organization = call.organization
    wallet_ids = [member.wallet_id for member in members]
    return ledger_wallets.find_balances_of_wallets(
        call.db, organization.organization_id, wallet_ids, call.now, organization.timezone
    )


def points_of(
    call: Call, configuration: Configuration, members: Sequence[Member], balances: Balances | None = None
) -> Callable[[Member], Points]:
    """A function that returns a member's present points by account, without expired ones; runs at most two queries.

    `balances` has the balances of each wallet by its id; None if they were not read yet.
    """
    if balances is None:
        balances = _balances_of(call, members)
    earnings: Earnings = {}
    schedules = configuration.schedules_of_periods
    if schedules:
        wallet_ids = [member.wallet_id for member in members]
        earnings = find_tier_earnings(call.db, call.organization.organization_id, schedules, wallet_ids, call.now)
    points_by_wallet_and_account = {
        (wallet_id, view.ledger_account_id): TierPoints(
            view.current_balance, view.earned, earnings.get((wallet_id, view.ledger_account_id), ())
        )
        for wallet_id, views in balances.items()
        for view in views
    }

    def points_of_member(member: Member) -> Points:
        return lambda account_id: points_by_wallet_and_account.get((member.wallet_id, account_id), TierPoints())

    return points_of_member


def _replaced_if_lapsed(tier: MemberTier, tier_assignments: TierAssignments, points: Points) -> MemberTier | None:
    """The unchanged tier, or the one that replaces it if it has lapsed; None if the member then has no tier."""
    held_tier = tier.held_tier
    if not held_tier.has_lapsed(tier_assignments.at) or tier.expires_at is None:
        return tier
    present_tier = tier_assignments.present_tier(tier.loyalty_program_id, held_tier, points)
    if present_tier is None:
        return None
    stays = present_tier.loyalty_tier_id == tier.loyalty_tier_id and not held_tier.is_fixed
    floor = present_tier.floor
    return replace(
        tier,
        loyalty_tier_id=present_tier.loyalty_tier_id,
        is_manual=present_tier.is_manual,
        expires_at=present_tier.expires_at,
        created_at=tier.created_at if stays else tier.expires_at,
        floor_tier_id=None if floor is None else floor.loyalty_tier_id,
        floor_expires_at=None if floor is None else floor.expires_at,
    )
