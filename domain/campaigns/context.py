"""Facts of an event, and the variables that expressions see: each declared field is present, None if unset."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from domain.campaigns.discounts import Basket
from domain.campaigns.variables import ITEM, MEMBER, ORDER, ORDER_FIELDS, ORDER_PAYMENT, PAYMENT, PRODUCT
from domain.events import IncomingEvent
from domain.expressions import Budget, EvaluationError
from domain.fields import field_name
from domain.hours import Occasion
from domain.ledger.records import LedgerAccount
from domain.ledger.session import LedgerSession
from domain.matchers import ItemPredicate
from domain.members import Member
from domain.orders import NO_ORDERS, EarlierOrders, Order, OrderItem
from domain.problems import Refusal
from domain.profiles import visible_profile

# The fields of variables that are computed below; all other fields are read from a record.
_COMPUTED = frozenset({"tags", "items", "payments", "moneyTotal", "profile", *ORDER_FIELDS})
# The fields of each variable that are read from a record: the name in expressions, and the name in the record.
_ORDER, _ITEM, _MEMBER = (
    [(name, field_name(name)) for name in variable.fields if name not in _COMPUTED]
    for variable in (ORDER, ITEM, MEMBER)
)
_PAYMENT = [name for name in PAYMENT.fields if name not in ("memberInfo", "products")]


def event_variable(event: IncomingEvent, key: str, at: datetime) -> dict[str, Any]:
    """The variable `event`: the event, which happened `at` this moment."""
    return {
        "loyaltyEventKey": key,
        "eventType": event.event_type,
        "systemUniqueKey": event.system_unique_key,
        "externalId": event.external_id,
        "description": event.description,
        "payload": event.payload or {},
        "externalEventDate": at,
        "tags": list(event.tags or ()),
    }


def order_variable(order: Order | None, items: tuple[OrderItem, ...]) -> dict[str, Any] | None:
    """The variable `order`: the purchase order that the event is about; None for other events."""
    if order is None:
        return None
    variable: dict[str, Any] = {name: getattr(order, field) for name, field in _ORDER}
    variable["tags"] = list(order.tags)
    variable["payments"] = [*map(_tender_variable, order.payments)] if order.payments else []
    variable["moneyTotal"] = order.money_total if order.payments else order.total
    variable["items"] = [{name: getattr(item, field) for name, field in _ITEM} for item in items]
    return variable


def _tender_variable(payment: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: payment.get(name) for name in ORDER_PAYMENT.fields}, "amount": Decimal(payment["amount"])}


def payment_variable(payload: Mapping[str, Any] | None, default_currency: str | None) -> dict[str, Any] | None:
    """The variable `payment`: the confirmed payment of the payload; None if the payload has none.

    A payment without a currency gets the default one.
    """
    payment = (payload or {}).get("payment")
    if payment is None:
        return None
    variable = {name: payment.get(name) for name in _PAYMENT}
    variable["currency"] = variable["currency"] or default_currency
    variable["memberInfo"] = {"data": (payment.get("memberInfo") or {}).get("data") or {}}
    variable["products"] = [
        {name: product.get(name) for name in PRODUCT.fields} for product in payment.get("products") or ()
    ]
    return variable


def member_variable(member: Member | None, orders: EarlierOrders = NO_ORDERS) -> dict[str, Any] | None:
    """The variable `member` or `sponsor`; None if the event has no sponsor.

    `orders` are the member's earlier orders, needed only if an expression reads them.
    """
    if member is None:
        return None
    variable: dict[str, Any] = {name: getattr(member, field) for name, field in _MEMBER}
    variable["lastOrderAt"] = orders.last_at
    variable["orderCount"] = orders.count
    variable["profile"] = visible_profile(member.profile)
    return variable


def balances_by_name(session: LedgerSession, wallet_id: int, accounts: Iterable[LedgerAccount]) -> dict[str, Decimal]:
    """The variable `balances`: the spendable amount of each account, by its key and by its alias."""
    return {
        name: session.holding(wallet_id, account.ledger_account_id).available
        for account in accounts
        for name in (account.ledger_account_key, account.alias)
        if name is not None
    }


def spend_of(order: Order | None, payment: Mapping[str, Any] | None) -> Decimal | None:
    """The amount that `minSpendValue` is compared with: the total of the order, or else of the payment; else None."""
    if order is not None:
        return order.total
    return None if payment is None else Decimal(payment["total"])


def currency_of(order: Order | None, payment: Mapping[str, Any] | None) -> str | None:
    """The currency of the order, or else of the payment; None if neither has one."""
    if order is not None:
        return order.currency
    return None if payment is None else payment["currency"]


Functions = Mapping[str, Callable[..., Any]]
"""The functions of expressions by name; see `domain.expressions.environment.Functions`."""


def host_functions(matchers: Mapping[str, ItemPredicate]) -> Functions:
    """The functions of expressions: `matches` looks items up in the organization's matchers, by their keys."""

    def matches(budget: Budget, item: Mapping[str, Any], key: str) -> bool:
        matcher = matchers.get(key)
        if matcher is None:
            raise EvaluationError("missing", f"there is no matcher {key[:60]}")
        budget.charge(matcher.cost(item))
        return matcher(item)

    return {"matches": matches}


@dataclass(frozen=True, slots=True)
class EventFacts:
    """Facts about an event; `at` is the moment when it happened, used for windows and periods.

    `tier_keys` are the member's tiers at the moment `tiers_as_of`, or the present tiers if it is None.
    The keys of the event's ledger transactions begin with `transaction_prefix`.
    `location_zone` is the event location's own time zone, used for days and hours; None if it has none.
    `order_external_id` names the order of the event, or of the event that caused it.
    Effects give nothing to a member or a sponsor who is not active, and take nothing from them. Discounts are taken off
    the `basket`: the member's order or payment that the event is about, or that has caused the event. The worth
    of points and coupons is in the `home_currency`, which is the organization's.
    """

    event_type: str
    loyalty_event_id: int
    key: str
    transaction_prefix: str
    at: datetime
    external_event_date: datetime | None
    member_id: int
    wallet_id: int
    sponsor_member_id: int | None
    sponsor_wallet_id: int | None
    spend: Decimal | None
    location_code: str | None
    tier_keys: frozenset[str]
    audience_keys: frozenset[str]
    context: Mapping[str, Any]
    external_id: str | None = None
    order_external_id: str | None = None
    description: str | None = None
    is_active: bool = True
    is_sponsor_active: bool = True
    tiers_as_of: datetime | None = None
    location_zone: tzinfo | None = None
    currency: str | None = None
    home_currency: str | None = None
    basket: Basket | None = None

    @property
    def occasion(self) -> Occasion:
        """When and where the event happened."""
        return Occasion(self.at, self.location_zone)


class ExecutorResult(NamedTuple):
    """The report of an executor about an effect: amount and worth in money, if any, and further fields of a response.

    `refusal` is the reason why a part of the amount was not executed; None if all of it was.
    """

    amount: Decimal | None = None
    details: Mapping[str, Any] = MappingProxyType({})
    worth: Decimal | None = None
    refusal: Refusal | None = None


Executor = Callable[[EventFacts, Mapping[str, Any]], ExecutorResult | None]
"""Executes an effect with these parameters, or raises a Refusal without having changed anything."""

# The limits of a JSON object: its values in all levels, the characters of its texts and names, and its levels.
MAX_VALUES, MAX_CHARACTERS, MAX_LEVELS = 1000, 50_000, 20
# Every JSON reader can hold numbers up to this power of ten; an expression can produce larger ones.
MAX_EXPONENT = 300


def is_json_object(value: Any) -> bool:
    """True for an object of texts, numbers, booleans, nulls, moments, lists and objects, within bounds."""
    if not isinstance(value, dict):
        return False
    values = characters = 0
    unvisited = [(value, 1)]
    while unvisited:
        part, level = unvisited.pop()
        values += 1
        if isinstance(part, str):
            characters += len(part)
        elif isinstance(part, dict):
            if not all(isinstance(name, str) for name in part):
                return False
            characters += sum(map(len, part))
            unvisited.extend((inner, level + 1) for inner in part.values())
        elif isinstance(part, list | tuple):
            unvisited.extend((inner, level + 1) for inner in part)
        elif not _is_scalar(part):
            return False
        if values + len(unvisited) > MAX_VALUES or characters > MAX_CHARACTERS or level > MAX_LEVELS:
            return False
    return True


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, bool | datetime) or is_number(value)


def is_number(value: Any) -> bool:
    """True for a number that every JSON reader can hold."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return not value or abs(Decimal(value).adjusted()) <= MAX_EXPONENT
