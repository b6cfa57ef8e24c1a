"""The present tiers of members: the stored ones, or the successors of tiers that have expired since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from domain.ledger.views import WalletView
from domain.members import Member, MemberTier
from domain.tier_policies import BALANCE, TierPoints
from domain.tiers import HeldTier, Points, TierAssignments
from handlers.call import Call
from handlers.services.configuration import configuration_of
from handlers.services.unit_of_work.derived_events import earnings_of
from persistence import ledger_wallets, member_tiers

Balances = Mapping[int, Sequence[WalletView]]


def current_tiers(
    call: Call, members: Sequence[Member], balances: Balances | None = None
) -> dict[int, list[MemberTier]]:
    """The tiers of the members, by member id.

    Those that have expired, and those that expired points held, are replaced as the evaluation will do it. Writes
    nothing. `balances` are those of the wallets, by id, if they are known already.
    """
    stored = member_tiers.of_members(
        call.db, call.organization.organization_id, [member.member_id for member in members]
    )
    return tiers_by_now(call, members, stored, balances)


def tiers_by_now(
    call: Call, members: Sequence[Member], stored: dict[int, list[MemberTier]], balances: Balances | None = None
) -> dict[int, list[MemberTier]]:
    """The stored tiers of the members, by member id, as in `current_tiers`."""
    if balances is None:
        may_have_ended = any(_account_behind(call, tier) for member in members for tier in stored[member.member_id])
        balances = _balances_of(call, members) if may_have_ended else {}
    expired = {
        (view.wallet_id, view.ledger_account_id) for views in balances.values() for view in views if view.expired
    }
    if expired:
        for member in members:
            stored[member.member_id] = [
                replace(tier, expires_at=call.now)
                if (member.wallet_id, _account_behind(call, tier)) in expired
                else tier
                for tier in stored[member.member_id]
            ]
    lapsed = [m for m in members if any(_held(tier).has_lapsed(call.now) for tier in stored[m.member_id])]
    if lapsed:
        tier_assignments = TierAssignments(configuration_of(call.db, call.organization).tier_schedules, {}, call.now)
        points = points_of(call, lapsed, balances or None)
        for member in lapsed:
            evaluated = (_evaluated(tier, tier_assignments, points(member)) for tier in stored[member.member_id])
            stored[member.member_id] = [tier for tier in evaluated if tier is not None]
    return stored


def _account_behind(call: Call, tier: MemberTier) -> int | None:
    """The account whose balance decides how long a member holds a tier, if it can expire."""
    configuration = configuration_of(call.db, call.organization)
    schedule = next((s for s in configuration.tier_schedules if s.loyalty_program_id == tier.loyalty_program_id), None)
    if tier.is_manual or schedule is None or not schedule.moves or schedule.policy.basis != BALANCE:
        return None
    account = configuration.accounts.get(schedule.ledger_account_id or 0)
    can_expire = account is not None and (account.point_tracking_enabled or account.expiration_policies)
    return schedule.ledger_account_id if can_expire else None


def _balances_of(call: Call, members: Sequence[Member]) -> Balances:
    organization, wallet_ids = call.organization, [member.wallet_id for member in members]
    return ledger_wallets.balances_of_wallets(
        call.db, organization.organization_id, wallet_ids, call.now, organization.zone
    )


def points_of(call: Call, members: Sequence[Member], balances: Balances | None = None) -> Callable[[Member], Points]:
    """The present points of each member by account, without expired ones; at most two queries for all members.

    `balances` are those of the wallets, by id, if they are known already.
    """
    organization_id, wallets = call.organization.organization_id, [member.wallet_id for member in members]
    if balances is None:
        balances = _balances_of(call, members)
    tier_schedules = configuration_of(call.db, call.organization).tier_schedules
    earnings = earnings_of(call.db, organization_id, tier_schedules, wallets, call.now)
    points = {
        (wallet_id, view.ledger_account_id): TierPoints(
            view.current_balance, view.earned, earnings.get((wallet_id, view.ledger_account_id), ())
        )
        for wallet_id, views in balances.items()
        for view in views
    }
    return lambda member: lambda account_id: points.get((member.wallet_id, account_id), TierPoints())


def _held(tier: MemberTier) -> HeldTier:
    return HeldTier(tier.loyalty_tier_id, tier.is_manual, tier.expires_at)


def _evaluated(tier: MemberTier, tier_assignments: TierAssignments, points: Points) -> MemberTier | None:
    held = _held(tier)
    if not held.has_lapsed(tier_assignments.at) or tier.expires_at is None:
        return tier
    now = tier_assignments.place_now(tier.loyalty_program_id, held, points)
    if now is None:
        return None
    stays = now.loyalty_tier_id == tier.loyalty_tier_id and not tier.is_manual
    since = tier.created_at if stays else tier.expires_at
    return replace(
        tier, loyalty_tier_id=now.loyalty_tier_id, is_manual=False, expires_at=now.expires_at, created_at=since
    )
