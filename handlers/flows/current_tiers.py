"""The tiers that members have at a moment: what is stored, and what comes of a tier that has expired since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal

from domain.members import Member, MemberTier
from domain.tiers import HeldTier, Standings
from handlers.call import Call
from handlers.flows.configuration import configuration_of
from persistence import ledger, members


def current_tiers(call: Call, found: Sequence[Member]) -> dict[int, list[MemberTier]]:
    """The tiers of the members, by member id; those that have expired as they will be evaluated. Writes nothing."""
    stored = members.tiers_of(call.db, call.organization.organization_id, [member.member_id for member in found])
    lapsed = [m for m in found if any(_held(tier).has_lapsed(call.now) for tier in stored[m.member_id])]
    if lapsed:
        standings = Standings(configuration_of(call.db, call.organization).ladders, {}, call.now)
        points = points_of(call, lapsed)
        for member in lapsed:
            evaluated = (_evaluated(tier, standings, points(member)) for tier in stored[member.member_id])
            stored[member.member_id] = [tier for tier in evaluated if tier is not None]
    return stored


def points_of(call: Call, found: Sequence[Member]) -> Callable[[Member], Callable[[int], Decimal]]:
    """What each member has of each account now, without what has expired; one query for all of them."""
    wallets = [member.wallet_id for member in found]
    balances = {
        (wallet_id, view.ledger_account_id): view.current_balance
        for wallet_id, views in ledger.balances_of_wallets(
            call.db, call.organization.organization_id, wallets, call.now
        ).items()
        for view in views
    }
    return lambda member: lambda account_id: balances.get((member.wallet_id, account_id), Decimal(0))


def _held(tier: MemberTier) -> HeldTier:
    return HeldTier(tier.loyalty_tier_id, tier.is_manual, tier.expires_at)


def _evaluated(tier: MemberTier, standings: Standings, points: Callable[[int], Decimal]) -> MemberTier | None:
    held = _held(tier)
    if not held.has_lapsed(standings.at) or tier.expires_at is None:
        return tier
    tier_id = standings.current(tier.loyalty_program_id, held, points)
    if tier_id is None:
        return None
    return replace(tier, loyalty_tier_id=tier_id, is_manual=False, expires_at=None, created_at=tier.expires_at)
