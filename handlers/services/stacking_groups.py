"""Checks of stacking groups and of the actions that name them."""

from collections.abc import Collection
from dataclasses import dataclass

from domain.campaigns.compiled import CompiledEffect, compile_action
from domain.campaigns.effects import ASSIGN_COUPON, DISCOUNT, MINT_POINTS
from domain.campaigns.records import Action, Campaign, StackingGroup, UnknownStackingGroup
from domain.campaigns.stacking import BEST, MAX_ACTIONS, PER_ITEM, PER_ORDER, WORST
from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call
from handlers.services import references
from handlers.services.configuration import Configuration, configuration_of
from persistence.campaigns import ACTIONS, CAMPAIGNS, STACKING_GROUPS


@dataclass(frozen=True, slots=True, kw_only=True)
class StackingGroupProperties:
    """The writable fields of a stacking group."""

    name: str
    mode: str
    scope: str = PER_ORDER
    active: bool = True
    external_key: str | None = None


def group_of(call: Call, key: str | None, exclusive_group: str | None, before: Action | None) -> StackingGroup | None:
    """The stacking group that an action names, None for none; raises UnknownStackingGroup.

    Refuses a stacking group together with an exclusive group, and a full group unless the action is already in it.
    `before` is the stored action, None for a new one.
    """
    if key is None:
        return None
    if exclusive_group is not None:
        detail = "stackingGroupKey and exclusiveGroup exclude each other: send one of them"
        raise InvalidRequest([FieldFault(detail, pointer="/stackingGroupKey")])
    organization_id = call.organization.organization_id
    group = STACKING_GROUPS.find_by(call.db, organization_id, stacking_group_key=key)
    if group is None:
        raise UnknownStackingGroup(f"There is no stacking group with the key {key}.")
    if before is None or before.stacking_group_key != key:
        actions = ACTIONS.find_all(call.db, organization_id, stacking_group_key=key)
        if len(actions) >= MAX_ACTIONS:
            detail = f"stackingGroupKey names a group that has {len(actions)} actions, the maximum"
            raise InvalidRequest([FieldFault(detail, pointer="/stackingGroupKey")])
    return group


def refuse_unfit_actions(call: Call, group: StackingGroup, body: StackingGroupProperties) -> None:
    """Refuse a new mode or scope of the group that does not fit one of its actions."""
    if (body.mode, body.scope) == (group.mode, group.scope):
        return
    organization_id = call.organization.organization_id
    for action in ACTIONS.find_all(call.db, organization_id, stacking_group_key=group.stacking_group_key):
        campaign = CAMPAIGNS.find(call.db, organization_id, action.campaign_id)
        compiled = compile_action(action)
        if campaign is not None and compiled.fault is None:
            refuse_unfit_action(call, campaign, body, compiled.effects)


def refuse_unfit_action(
    call: Call,
    campaign: Campaign,
    group: StackingGroup | StackingGroupProperties,
    effects: Collection[CompiledEffect],
    pointer: str | None = None,
) -> None:
    """Refuse an action that does not fit the mode or scope of a group.

    Actions compete by the money that they give. In a group for single items, whatever its mode, each needs a discount.
    `pointer` is the field to blame, by default the mode or scope of the group.
    """
    if group.scope == PER_ITEM:
        if not any(effect.effect.effect_id == DISCOUNT for effect in effects):
            pointer = pointer or "/scope"
            detail = f"{pointer[1:]} lets actions apply to single items, and an action has no discount"
            raise InvalidRequest([FieldFault(detail, pointer=pointer)])
    elif group.mode in (BEST, WORST):
        configuration = configuration_of(call.db, call.organization)
        if not any(_may_have_worth(call, configuration, campaign, effect) for effect in effects):
            pointer = pointer or "/mode"
            detail = (
                f"{pointer[1:]} lets actions compete by the money that they give, and an action gives none: "
                "it needs a discount, points of an account with a fiatPerPoint, or a coupon of a book with a faceValue"
            )
            raise InvalidRequest([FieldFault(detail, pointer=pointer)])


def _may_have_worth(call: Call, configuration: Configuration, campaign: Campaign, effect: CompiledEffect) -> bool:
    """True if an effect has a worth in money, or may have one because an expression decides."""
    effect_id = effect.effect.effect_id
    constants = effect.constants
    if effect_id == MINT_POINTS and "ledgerAccountKey" in constants:
        key = constants["ledgerAccountKey"]
        main_account = configuration.main_accounts.get(campaign.loyalty_program_id)
        account = configuration.account_with_key(key, default=main_account)
        return account is not None and account.fiat_per_point is not None
    if effect_id == ASSIGN_COUPON and "couponBookKey" in constants:
        return references.coupon_book(call, constants["couponBookKey"]).face_value is not None
    return effect_id in (DISCOUNT, MINT_POINTS, ASSIGN_COUPON)
