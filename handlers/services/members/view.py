"""Members with the parts of their record that are stored elsewhere: tiers and balances."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from domain.ledger.views import WalletView
from domain.members import Member, MemberTier
from domain.tier_status import TierStatus, tier_status
from handlers.call import Call
from handlers.services.configuration import configuration_of
from handlers.services.tiers import current_tiers, points_of, tiers_by_now
from persistence import expiring_points, ledger_wallets
from persistence.member_holdings import MemberWithHoldings
from persistence.rows import fields_of

_NAMES = fields_of(Member)
_values = attrgetter(*_NAMES)


def view_members(call: Call, members: Sequence[Member], *, with_balances: bool = False) -> list[dict[str, Any]]:
    """The member records in order; the number of statements does not depend on the number of members.

    With the balances come the amounts that count for the tiers.
    """
    organization = call.organization
    balances: dict[int, list[WalletView]] | None = None
    if with_balances:
        wallet_ids = [member.wallet_id for member in members]
        balances = ledger_wallets.balances_of_wallets(
            call.db, organization.organization_id, wallet_ids, call.now, organization.timezone
        )
    return _views(call, members, current_tiers(call, members, balances), balances)


def view_member(call: Call, member: Member) -> dict[str, Any]:
    """The record of a member with its balances, as `view_members` has it."""
    return view_members(call, [member], with_balances=True)[0]


def view_holdings(
    call: Call, holdings: MemberWithHoldings, *, with_balances: bool, with_expiring: bool = False
) -> dict[str, Any]:
    """The record of a member whose holdings are known already, as `view_members` has it.

    The balances are with what expires of them, if that is asked for.
    """
    member = holdings.member
    balances: dict[int, Sequence[WalletView]] = {member.wallet_id: holdings.balances}
    tiers = tiers_by_now(call, [member], {member.member_id: list(holdings.tiers)}, balances)
    if with_expiring and with_balances and holdings.balances:
        accounts = configuration_of(call.db, call.organization).accounts
        views = expiring_points.with_expiring(call.db, call.organization, holdings.balances, accounts, call.now)
        balances = {member.wallet_id: views}
    [viewed] = _views(call, [member], tiers, balances if with_balances else None)
    return viewed


def _views(
    call: Call,
    members: Sequence[Member],
    tiers: Mapping[int, Sequence[MemberTier]],
    balances: Mapping[int, Sequence[WalletView]] | None,
) -> list[dict[str, Any]]:
    statuses = {} if balances is None else _statuses(call, members, tiers, balances)
    return [
        {
            **_fields_of(member),
            "tiers": tiers[member.member_id],
            "tier_status": statuses.get(member.member_id),
            "ledger_balances": None if balances is None else balances.get(member.wallet_id, []),
        }
        for member in members
    ]


def _fields_of(member: Member) -> dict[str, Any]:
    # Not `asdict`, which copies whatever the member holds, at a third of the cost of a page of members.
    return dict(zip(_NAMES, _values(member), strict=True))


def _statuses(
    call: Call,
    members: Sequence[Member],
    tiers: Mapping[int, Sequence[MemberTier]],
    balances: Mapping[int, Sequence[WalletView]],
) -> dict[int, list[TierStatus]]:
    """The tier status of the members in every active program; at most one statement, if tiers depend on a period."""
    configuration = configuration_of(call.db, call.organization)
    tiers_by_id = {tier.loyalty_tier_id: tier for tier in configuration.tiers.values()}
    points = points_of(call, members, balances)
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
