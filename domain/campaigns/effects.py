"""The catalogue of effects, with the parameters of each (administration "Matchers and effects" 2)."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from domain.campaigns.discounts import AMOUNT, INITIAL, PER_ITEM, PER_ORDER, PERCENTAGE, REDUCED
from domain.event_types import BUILT_IN_EVENT_TYPES, pascal_case
from domain.expressions.types import BOOL, DECIMAL, DYN, STRING, TIMESTAMP, MapOf, Type
from domain.ledger.availability import DAY, NONE
from domain.tiers import FIXED, FLOOR

MINT_POINTS, BURN_POINTS, DISCOUNT = "mint-points", "burn-points", "discount"
ASSIGN_BADGE, UNASSIGN_BADGE = "assign-badge", "unassign-badge"
ADVANCE_MISSION = "advance-mission"
ASSIGN_COUPON, USE_COUPON = "assign-coupon", "use-coupon"
SET_TIER = "set-tier"
EXTEND_EXPIRY = "extend-expiry"

NOTIFY = "notify"

# The recipients of points.
MEMBER, SPONSOR = "member", "sponsor"

JSON_OBJECT = MapOf(DYN)


@dataclass(frozen=True, slots=True)
class EffectParameter:
    """A parameter of an effect. `type` is the type of its values, `choices` are the allowed values, empty if all are.

    A parameter that `is_of_items` is never a constant: its expression is evaluated for each `item` of the order. An
    `only_if_named` parameter is in the result of an effect only if the effect names it.
    """

    id: str
    label: str
    type: Type
    default_value: Any = None
    is_optional: bool = False
    choices: tuple[str, ...] = ()
    is_of_items: bool = False
    only_if_named: bool = False


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of the catalogue."""

    effect_id: str
    name: str
    params: tuple[EffectParameter, ...]

    @property
    def supported_event_types(self) -> Mapping[str, str]:
        """Every built-in event type by its PascalCase name; custom types are supported as well."""
        return {pascal_case(code): code for code in BUILT_IN_EVENT_TYPES}


_ACCOUNT = EffectParameter("ledgerAccountKey", "Ledger account", STRING, is_optional=True)
_RECIPIENT = EffectParameter("recipient", "Recipient", STRING, MEMBER, is_optional=True, choices=(MEMBER, SPONSOR))
_DESCRIPTION = EffectParameter("description", "Description", STRING, is_optional=True)
_AVAILABILITY = tuple(
    EffectParameter(name, label, type_, is_optional=True, choices=choices, only_if_named=True)
    for name, label, type_, choices in (
        ("availableAt", "Available at", TIMESTAMP, ()),
        ("availableAfter", "Available after", STRING, ()),
        ("availableRounding", "Rounding of availability", STRING, (NONE, DAY)),
        ("availableOn", "Available on an event", JSON_OBJECT, ()),
    )
)
_BADGE = (
    EffectParameter("badgeKey", "Badge", STRING),
    EffectParameter("amount", "Amount", DECIMAL, Decimal(1), is_optional=True),
)
_COUPON = (
    EffectParameter("couponBookKey", "Coupon book", STRING),
    EffectParameter("amount", "Amount", DECIMAL, Decimal(1), is_optional=True),
)

EFFECTS: Mapping[str, Effect] = {
    effect.effect_id: effect
    for effect in (
        Effect(
            MINT_POINTS,
            "Mint points",
            (
                EffectParameter("amount", "Amount", DECIMAL),
                _ACCOUNT,
                _RECIPIENT,
                EffectParameter("expirationDate", "Expiration date", TIMESTAMP, is_optional=True),
                _DESCRIPTION,
                EffectParameter("qualifyingAmount", "Qualifying amount", DECIMAL, is_optional=True, only_if_named=True),
                *_AVAILABILITY,
            ),
        ),
        Effect(
            BURN_POINTS,
            "Burn points",
            (EffectParameter("amount", "Amount", DECIMAL), _ACCOUNT, _RECIPIENT, _DESCRIPTION),
        ),
        Effect(
            DISCOUNT,
            "Discount",
            (
                EffectParameter("type", "Type", STRING, choices=(PERCENTAGE, AMOUNT)),
                EffectParameter("value", "Value", DECIMAL),
                EffectParameter("base", "Base", STRING, REDUCED, is_optional=True, choices=(REDUCED, INITIAL)),
                EffectParameter("itemFilter", "Item filter", BOOL, is_optional=True, is_of_items=True),
                EffectParameter("per", "Per", STRING, PER_ORDER, is_optional=True, choices=(PER_ORDER, PER_ITEM)),
                EffectParameter("maxAmount", "Maximum amount", DECIMAL, is_optional=True, only_if_named=True),
            ),
        ),
        Effect(ASSIGN_BADGE, "Assign a badge", _BADGE),
        Effect(UNASSIGN_BADGE, "Unassign a badge", _BADGE),
        Effect(ASSIGN_COUPON, "Assign a coupon", _COUPON),
        Effect(USE_COUPON, "Use a coupon", _COUPON),
        Effect(
            SET_TIER,
            "Set a tier",
            (
                EffectParameter("loyaltyProgramKey", "Loyalty program", STRING),
                EffectParameter("loyaltyTierKey", "Tier", STRING),
                EffectParameter("expiresAt", "Expires at", TIMESTAMP, is_optional=True),
                EffectParameter("tierHold", "Tier hold", STRING, FIXED, is_optional=True, choices=(FLOOR, FIXED)),
            ),
        ),
        Effect(
            EXTEND_EXPIRY,
            "Extend the expiry of points",
            (
                EffectParameter("until", "Until", TIMESTAMP, is_optional=True),
                EffectParameter("months", "Months", DECIMAL, is_optional=True),
                _ACCOUNT,
                _RECIPIENT,
                _DESCRIPTION,
            ),
        ),
        Effect(
            NOTIFY,
            "Notify",
            (EffectParameter("name", "Name", STRING), EffectParameter("data", "Data", JSON_OBJECT, is_optional=True)),
        ),
        Effect(
            ADVANCE_MISSION,
            "Advance a mission",
            (
                EffectParameter("missionKey", "Mission", STRING),
                EffectParameter("amount", "Amount", DECIMAL, Decimal(1), is_optional=True),
            ),
        ),
    )
}
