"""The variables and functions of campaign rules and effects, with their names for people.

A context has every variable, and every field of every object; absent values are None.
"""

from collections.abc import Mapping

from domain import profiles
from domain.expressions import (
    BOOL,
    DECIMAL,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Environment,
    Field,
    HostFunction,
    ListOf,
    MapOf,
    ObjectOf,
    Type,
)

ATTRIBUTES = MapOf(DYN)
TEXTS = ListOf(STRING)


def _object(name: str, fields: Mapping[str, tuple[Type, str]]) -> ObjectOf:
    return ObjectOf(name, {field: Field(kind, label) for field, (kind, label) in fields.items()})


EVENT = _object(
    "event",
    {
        "loyaltyEventKey": (STRING, "key"),
        "eventType": (STRING, "type"),
        "systemUniqueKey": (STRING, "unique key"),
        "externalId": (STRING, "external id"),
        "description": (STRING, "description"),
        "payload": (ATTRIBUTES, "payload"),
        "externalEventDate": (TIMESTAMP, "date"),
        "tags": (TEXTS, "tags"),
    },
)

ITEM = _object(
    "order item",
    {
        "productCode": (STRING, "product code"),
        "description": (STRING, "description"),
        "customAttributes": (ATTRIBUTES, "attribute"),
        "total": (DECIMAL, "total"),
        "amount": (DECIMAL, "amount"),
        "quantity": (DECIMAL, "quantity"),
        "discountedTotal": (DECIMAL, "discounted total"),
        "subTotal": (DECIMAL, "subtotal"),
        "categoryCode": (STRING, "category code"),
    },
)

ORDER_PAYMENT = _object(
    "order payment",
    {
        "tender": (STRING, "tender"),
        "amount": (DECIMAL, "amount"),
        "pointsPaymentKey": (STRING, "points payment"),
        "reference": (STRING, "reference"),
    },
)

ORDER = _object(
    "order",
    {
        "externalId": (STRING, "external id"),
        "description": (STRING, "description"),
        "type": (STRING, "type"),
        "tags": (TEXTS, "tags"),
        "total": (DECIMAL, "total"),
        "currency": (STRING, "currency"),
        "discountedTotal": (DECIMAL, "discounted total"),
        "subTotal": (DECIMAL, "subtotal"),
        "merchantId": (STRING, "merchant"),
        "paymentMethod": (STRING, "payment method"),
        "locationCode": (STRING, "location"),
        "referralCode": (STRING, "referral code"),
        "channel": (STRING, "channel"),
        "status": (STRING, "status"),
        "customAttributes": (ATTRIBUTES, "attribute"),
        "items": (ListOf(ITEM), "items"),
        "payments": (ListOf(ORDER_PAYMENT), "payments"),
        "moneyTotal": (DECIMAL, "total in money"),
    },
)

ORDER_AFTER = _object(
    "order after discounts",
    {"total": (DECIMAL, "total"), "items": (ListOf(ITEM), "items")},
)

PRODUCT = _object(
    "payment product",
    {
        "sku": (STRING, "SKU"),
        "subTotal": (DECIMAL, "subtotal"),
        "total": (DECIMAL, "total"),
        "quantity": (DECIMAL, "quantity"),
        "description": (STRING, "description"),
    },
)

PAYMENT_MEMBER_INFO = _object("payment member info", {"data": (ATTRIBUTES, "data")})

PAYMENT = _object(
    "payment",
    {
        "paymentId": (STRING, "id"),
        "total": (DECIMAL, "total"),
        "currency": (STRING, "currency"),
        "type": (STRING, "type"),
        "merchantId": (STRING, "merchant"),
        "storeId": (STRING, "store"),
        "referenceId": (STRING, "reference"),
        "rawQr": (STRING, "QR code"),
        "postPayment": (BOOL, "post-payment"),
        "memberInfo": (PAYMENT_MEMBER_INFO, "member info"),
        "products": (ListOf(PRODUCT), "products"),
    },
)

# The types of the fields of a profile by their types in JSON.
_FORMS: Mapping[type[object], Type] = {str: STRING, list: TEXTS, dict: ATTRIBUTES}

PROFILE = _object(
    "profile",
    {name: (_FORMS[part.form], part.label) for name, part in profiles.PROFILE.items() if part.label is not None},
)

MEMBER = _object(
    "member",
    {
        "memberId": (INT, "id"),
        "loyaltyMemberId": (STRING, "loyalty id"),
        "publicLoyaltyMemberId": (STRING, "public loyalty id"),
        "memberType": (STRING, "type"),
        "active": (BOOL, "active"),
        "channelAcquisition": (STRING, "acquisition channel"),
        "referralCode": (STRING, "referral code"),
        "createdAt": (TIMESTAMP, "creation date"),
        "lastOrderAt": (TIMESTAMP, "date of the last order"),
        "orderCount": (INT, "number of orders"),
        "customAttributes": (ATTRIBUTES, "attribute"),
        "profile": (PROFILE, ""),
    },
)

ORDER_FIELDS = frozenset({"lastOrderAt", "orderCount"})
"""The fields of a member that summarize earlier orders. The orders are read only if an expression uses a field."""

MISSION = _object(
    "mission progress",
    {
        "timesAchieved": (INT, "times achieved"),
        "currentCounterCount": (INT, "count"),
    },
)

MATCHES = HostFunction("matches", (ITEM, STRING), BOOL, "{0} matches {1}", metered=True)
"""`matches(item, key)`: true if an order item satisfies the matcher with this key."""


ENVIRONMENT = Environment(
    variables={
        "event": EVENT,
        "order": ORDER,
        "orderAfter": ORDER_AFTER,
        "payment": PAYMENT,
        "member": MEMBER,
        "sponsor": MEMBER,
        "balances": MapOf(DECIMAL),
        "balancesAfter": MapOf(DECIMAL),
        "badges": MapOf(DECIMAL),
        "missions": MapOf(MISSION),
        "audiences": TEXTS,
        "tiers": TEXTS,
        "now": TIMESTAMP,
    },
    labels={
        "orderAfter": "order after discounts",
        "balances": "balance of",
        "balancesAfter": "balance so far of",
        "badges": "badges of",
        "missions": "mission",
        "audiences": "member audiences",
        "tiers": "member tiers",
        "now": "the current time",
    },
    functions=(MATCHES,),
)
"""The variables and functions of campaign rules and effects.

`order`, `orderAfter`, `payment` and `sponsor` may be null.
"""

ITEM_ENVIRONMENT = Environment(
    variables={**ENVIRONMENT.variables, "item": ITEM},
    labels=ENVIRONMENT.labels,
    functions=ENVIRONMENT.functions.values(),
)
"""The variables and functions of expressions about one `item` of the order."""
