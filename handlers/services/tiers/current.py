"""The present tiers of members: the stored ones, or the successors of tiers that have expired since."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from domain.ledger.views import WalletView
from domain.members import Member, MemberTier
from domain.tier_policies import TierPoints
from domain.tiers import HeldTier, Points, TierAssignments
from handlers.call import Call
from handlers.services.configuration import configuration_of
from handlers.services.unit_of_work.tier_points import earnings_of
from persistence import ledger_wallets, member_tiers


def current_tiers(call: Call, members: Sequence[Member]) -> dict[int, list[MemberTier]]:
    """The tiers of the members, by member id.

    Expired ones are replaced as the evaluation will do it. Writes nothing.
    """
    stored = member_tiers.of_members(
        call.db, call.organization.organization_id, [member.member_id for member in members]
    )
    return tiers_by_now(call, members, stored)


def tiers_by_now(
    call: Call, members: Sequence[Member], stored: dict[int, list[MemberTier]]
) -> dict[int, list[MemberTier]]:
    """The stored tiers of the members, by member id, as in `current_tiers`."""
    lapsed = [m for m in members if any(_held(tier).has_lapsed(call.now) for tier in stored[m.member_id])]
    if lapsed:
        tier_assignments = TierAssignments(configuration_of(call.db, call.organization).tier_schedules, {}, call.now)
        points = points_of(call, lapsed)
        for member in lapsed:
            evaluated = (_evaluated(tier, tier_assignments, points(member)) for tier in stored[member.member_id])
            stored[member.member_id] = [tier for tier in evaluated if tier is not None]
    return stored


def points_of(
    call: Call, members: Sequence[Member], balances: Mapping[int, Sequence[WalletView]] | None = None
) -> Callable[[Member], Points]:
    """The present points of each member by account, without expired ones; at most two queries for all members.

    `balances` are those of the wallets, by id, if they are known already.
    """
    organization_id, wallets = call.organization.organization_id, [member.wallet_id for member in members]
    if balances is None:
        balances = ledger_wallets.balances_of_wallets(
            call.db, organization_id, wallets, call.now, call.organization.zone
        )
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
