"""Loyalty programs and tiers on the wire (administration, "Loyalty program" and "Loyalty tier")."""

from handlers.messages.base import OF_REQUEST, Exact, Instant, Plain, Shape, WireSchema


class _Program(WireSchema):
    active = Plain(load_default=True)
    name = Plain()
    description = Plain()
    ledger_id = Plain()
    tier_points_ledger_account_id = Plain()
    main_ledger_account_id = Plain()
    set_as_default = Plain(metadata=OF_REQUEST)
    main_portal_id = Plain()
    default_tier_id = Plain(metadata=OF_REQUEST)
    tier_policy = Plain(load_default=dict)


class _ProgramRecord(_Program):
    organization_id = Plain()
    loyalty_program_id = Plain()
    loyalty_program_key = Plain()


class _Tier(WireSchema):
    name = Plain()
    active = Plain()
    min_required_points = Exact()
    tier_order = Plain()
    custom_attributes = Plain(load_default=dict)
    picture_url = Plain()
    is_default = Plain(load_default=False, metadata=OF_REQUEST)


class _TierRecord(_Tier):
    organization_id = Plain()
    loyalty_tier_id = Plain()
    loyalty_tier_key = Plain()
    loyalty_program_id = Plain()
    loyalty_program_key = Plain()
    created_at = Instant()
    updated_at = Instant()


PROGRAM_BODY = Shape(_Program, complete=True)
PROGRAM_CHANGES = Shape(_Program)
PROGRAM = Shape(_ProgramRecord)
TIER_BODY = Shape(_Tier, complete=True)
TIER_CHANGES = Shape(_Tier)
TIER = Shape(_TierRecord)
