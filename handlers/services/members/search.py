"""Searches for members."""

from collections.abc import Mapping
from typing import Any

from domain.members import Member
from domain.programs import LoyaltyTier
from domain.tiers import MemberTier
from handlers.call import Call
from handlers.services.members.view import current_tiers
from persistence import members
from persistence.paging import Paged
from persistence.programs import TIERS


def find_members_with_tiers(call: Call, query: Mapping[str, Any]) -> Paged[tuple[Member, MemberTier | None]]:
    """Find a page of members by the parameters of a query, each with a tier.

    The tier is the member's in the program that the query names, or in the default program if it names none. The page
    is empty if the query names a tier that does not exist or is of another program.
    """
    filters = dict(query)
    program_id = query.get("loyaltyProgramId")
    if "loyaltyTierId" in query or filters.pop("loyaltyTierKey", None) is not None:
        tier = _find_tier(call, query)
        if tier is None or program_id not in (None, tier.loyalty_program_id):
            return Paged.empty(query)
        program_id = tier.loyalty_program_id
        filters |= {"loyaltyProgramId": program_id, "loyaltyTierId": tier.loyalty_tier_id}
    page = members.find_page(call.db, call.organization.organization_id, filters)
    tiers = current_tiers(call, page.results)
    shown_program_id = call.organization.default_loyalty_program_id if program_id is None else program_id

    def shown_tier(member: Member) -> MemberTier | None:
        tiers_of_program = (tier for tier in tiers[member.member_id] if tier.loyalty_program_id == shown_program_id)
        return next(tiers_of_program, None)

    return page.with_results([(member, shown_tier(member)) for member in page.results])


def _find_tier(call: Call, query: Mapping[str, Any]) -> LoyaltyTier | None:
    """The tier that the query names by id, key or both; None if it does not exist, or if id and key differ."""
    organization_id = call.organization.organization_id
    tiers = []
    if "loyaltyTierId" in query:
        tiers.append(TIERS.find(call.db, organization_id, query["loyaltyTierId"]))
    if "loyaltyTierKey" in query:
        tiers.append(TIERS.find_by(call.db, organization_id, loyalty_tier_key=query["loyaltyTierKey"]))
    first_tier, *other_tiers = tiers
    return first_tier if all(tier == first_tier for tier in other_tiers) else None
