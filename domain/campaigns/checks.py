"""Values that can never work and are refused when a campaign or an action is saved."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from domain.campaigns.compiled import CompiledEffect
from domain.campaigns.effects import DISCOUNT, EXTEND_EXPIRY, MINT_POINTS
from domain.campaigns.limits import COUPONS, LOCATION, MEMBER, MONEY, POINTS, TRANSACTIONS
from domain.expressions import MAX_TEXTS
from domain.ledger.availability import Availability
from domain.ledger.extensions import Extension
from domain.organizations import MAX_LOCATION_CODE
from domain.problems import FieldFault

_QUALIFYING = "qualifyingAmount"
_DATES = ("expirationDate", "expiresAt", "until")


def faults_of_limits(rules: Sequence[Mapping[str, Any]], has_currency: bool) -> list[FieldFault]:
    """Faults of limits; `has_currency` is False if neither the campaign nor the organization has one."""
    return [
        FieldFault(detail, pointer=f"/limitRules/{index}/{field}")
        for index, rule in enumerate(rules)
        for field, detail in _limit_faults(rule, has_currency)
    ]


def _limit_faults(rule: Mapping[str, Any], has_currency: bool) -> Iterator[tuple[str, str]]:
    """The faults of one rule, each as its field and its text."""
    kind, scope = rule["type"], rule["scope"]
    limits = rule.get("locationLimits") or {}
    if kind in (TRANSACTIONS, COUPONS):
        if rule["limit"] % 1:
            yield "limit", f"limit of {kind} is {rule['limit']}, not a whole number"
        if any(limit % 1 for limit in limits.values()):
            yield "locationLimits", f"locationLimits has a limit of {kind} that is not a whole number"
    if kind == MONEY and not has_currency:
        yield "type", "type is money, and neither the campaign nor the organization has a currency"
    if kind != POINTS and rule.get("ledgerAccountKey"):
        yield "ledgerAccountKey", "ledgerAccountKey is only allowed in a limit of points"
    if scope != LOCATION and limits:
        yield "locationLimits", "locationLimits is only allowed with the scope location"
    if any(len(code) > MAX_LOCATION_CODE for code in limits):
        yield "locationLimits", f"locationLimits has a code of more than {MAX_LOCATION_CODE} characters"
    if scope == MEMBER and rule.get("alertShares"):
        yield "alertShares", "alertShares needs the scope campaign or location"


class SharedRule(NamedTuple):
    """A limit rule with a `sharedKey`, and the currency of its campaign.

    `code` is the code of that campaign; None for a rule of the campaign that is checked.
    """

    rule: Mapping[str, Any]
    currency: str | None
    code: str | None = None


def faults_of_sharing(
    rules: Sequence[Mapping[str, Any]], currency: str | None, others: Sequence[SharedRule]
) -> list[FieldFault]:
    """Faults of rules that share a counter and differ; `others` are the rules of other campaigns."""
    faults = []
    by_key = {other.rule["sharedKey"]: other for other in others}
    for index, rule in enumerate(rules):
        key = rule.get("sharedKey")
        if key is None:
            continue
        other = by_key.setdefault(key, SharedRule(rule, currency))
        fields, other_fields = _shared_fields(rule, currency), _shared_fields(other.rule, other.currency)
        different = ", ".join(name for name, value in fields.items() if value != other_fields[name])
        if different:
            sharer = "another rule of this campaign" if other.code is None else f"a rule of campaign {other.code}"
            detail = f"sharedKey {key} is shared with {sharer}; the two rules differ in {different}"
            faults.append(FieldFault(detail, pointer=f"/limitRules/{index}/sharedKey"))
    return faults


def _shared_fields(rule: Mapping[str, Any], currency: str | None) -> dict[str, Any]:
    """The fields that must be equal in all rules with one `sharedKey`, by the names that an error shows."""
    return {
        **{name: rule[name] for name in ("scope", "type", "period", "limit")},
        "ledgerAccountKey": rule.get("ledgerAccountKey"),
        "locationLimits": rule.get("locationLimits") or {},
        "alertShares": sorted(rule.get("alertShares") or ()),
        "the currency of the campaign": currency,
    }


def faults_of_length(effects: Mapping[str, Any]) -> list[FieldFault]:
    """A fault if the texts of all expressions together are too long to be compiled quickly."""
    params = [param for item in effects.get("items", ()) for param in item.get("params", ())]
    size = sum(len(param.get("expression") or "") for param in params)
    if size <= MAX_TEXTS:
        return []
    return [FieldFault(f"effects has expressions with more than {MAX_TEXTS} characters in total", pointer="/effects")]


def faults_of_constants(
    compiled: Collection[CompiledEffect], effects: Mapping[str, Any], now: datetime
) -> list[FieldFault]:
    """Faults of constants of effects that would fail at every event; `compiled` are the same effects, compiled."""
    faults = []
    for index, (effect, item) in enumerate(zip(compiled, effects.get("items", ()), strict=True)):
        values = effect.constants
        computed = {param.parameter.id for param in effect.params} - values.keys()
        positions = {param["id"]: position for position, param in enumerate(item.get("params", ()))}
        for name, detail in _constant_faults(effect.effect.effect_id, values, computed, now):
            pointer = f"/effects/items/{index}/params"
            if name in positions:
                pointer += f"/{positions[name]}/value"
            faults.append(FieldFault(detail, pointer=pointer))
    return faults


def _constant_faults(
    effect_id: str, values: Mapping[str, Any], computed: Collection[str], now: datetime
) -> Iterator[tuple[str, str]]:
    """The faults of one effect's constant parameters, each as the name of the parameter and a text.

    `values` has the constants by parameter; `computed` are the names of the parameters that have an expression.
    """
    amount, qualifying = values.get("amount"), values.get(_QUALIFYING)
    # The amount of a mint may be 0 if it has qualifying points, constant or computed.
    may_be_zero = effect_id == MINT_POINTS and (qualifying is not None or _QUALIFYING in computed)
    if qualifying is not None and qualifying < 0:
        yield _QUALIFYING, f"{_QUALIFYING} of {effect_id} is {qualifying}, less than 0"
    if amount is not None and (amount < 0 or (amount == 0 and not may_be_zero)):
        yield "amount", f"amount of {effect_id} is {amount}, not more than 0"
    if effect_id == DISCOUNT and isinstance(values.get("value"), int | Decimal):
        yield from _discount_faults(values)
    if effect_id == MINT_POINTS:
        yield from _availability_faults(values)
    if effect_id == EXTEND_EXPIRY and {"until", "months"} <= values.keys():
        yield from Extension(values["until"], values["months"]).faults()
    for name in _DATES:
        if values.get(name) is not None and values[name] <= now:
            yield name, f"{name} of {effect_id} is not in the future"


def _availability_faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The faults of the parameters that determine when minted points are available."""
    terms = Availability.of(values)
    yield from terms.faults()
    expires_at = values.get("expirationDate")
    if terms.at is not None and expires_at is not None and expires_at <= terms.at:
        yield "expirationDate", f"expirationDate of {MINT_POINTS} is not after its availableAt"


def _discount_faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The faults of the value and the maximum of a discount."""
    value, max_amount = values["value"], values.get("maxAmount")
    if max_amount is not None and max_amount <= 0:
        yield "maxAmount", f"maxAmount of {DISCOUNT} is {max_amount}, not more than 0"
    if value <= 0:
        yield "value", f"value of {DISCOUNT} is {value}, which is not more than 0"
    elif values.get("type") == "percentage" and value > 100:
        yield "value", f"value of {DISCOUNT} is {value} percent, which is more than 100"
