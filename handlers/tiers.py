"""The tiers of a loyalty program (administration, "Organization, tiers, programs" 2)."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from domain.programs import LoyaltyProgram, LoyaltyTier, refuse_inactive_default
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.tiers import TIER, TierProperties
from persistence import programs
from persistence.paging import Paged
from persistence.programs import TIERS

_AUDITED = Audited("tier", "loyalty_tier_id", TIER)


@operation("listTiers", response=listed(TIER))
def list_tiers(call: Call, program: LoyaltyProgram, query: Mapping[str, Any]) -> Paged[dict[str, Any]]:
    """A page of the program's tiers."""
    page = TIERS.find_page(call.db, program.organization_id, query, loyalty_program_id=program.loyalty_program_id)
    return page.with_results([_tier_values(program, tier) for tier in page.results])


@operation("createTier", response=wrapped("tier", TIER), audit=_AUDITED, changes_configuration=True)
def create_tier(call: Call, program: LoyaltyProgram, body: TierProperties) -> dict[str, Any]:
    """Add a tier to the program, as its default tier if `isDefault` is true."""
    if body.is_default:
        refuse_inactive_default(body.name, body.active)
    # `_make_default` sets the mark, since another tier may have it.
    values = {"loyalty_program_id": program.loyalty_program_id, "loyalty_tier_key": call.new_key(), "is_default": False}
    tier = TIERS.add(call.db, program.organization_id, {**values, **values_of(body)}, call.now)
    return _tier_values(program, _make_default(call, tier) if body.is_default else tier)


@operation("getTier", response=wrapped("tier", TIER))
def get_tier(call: Call, program: LoyaltyProgram, tier: LoyaltyTier) -> dict[str, Any]:
    """One tier of the program."""
    return _tier_values(program, tier)


@operation("updateTier", response=wrapped("tier", TIER), audit=_AUDITED.changing("tier"), changes_configuration=True)
def update_tier(call: Call, program: LoyaltyProgram, tier: LoyaltyTier, body: Merged[TierProperties]) -> dict[str, Any]:
    """Change a tier.

    A tier can become the program's default; `isDefault` false does not end that.
    """
    if body.is_default or tier.is_default:
        refuse_inactive_default(tier.name, body.active)
    call.audit.keep_before(_tier_values(program, tier))
    tier = TIERS.store(call.db, tier, values_of(body), call.now)
    return _tier_values(program, _make_default(call, tier) if body.is_default else tier)


def _make_default(call: Call, tier: LoyaltyTier) -> LoyaltyTier:
    """Make the tier its program's default; return it with `is_default`."""
    default_marks = programs.set_default_tier(
        call.db, tier.organization_id, tier.loyalty_program_id, tier.loyalty_tier_id
    )
    # The former default tier; the change of this tier has its own entry.
    for tier_id in default_marks.keys() - {tier.loyalty_tier_id}:
        call.audit.add_flag_change("tier", tier_id, "isDefault", is_set=False)
    return replace(tier, is_default=True)


def _tier_values(program: LoyaltyProgram, tier: LoyaltyTier) -> dict[str, Any]:
    """The fields of a tier, and the key of its program."""
    return {**asdict(tier), "loyalty_program_key": program.loyalty_program_key}
