"""Values that can never work and are refused when a campaign or an action is saved."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.campaigns.compiled import CompiledEffect
from domain.campaigns.effects import DISCOUNT, MINT_POINTS
from domain.campaigns.limits import TRANSACTIONS
from domain.expressions import MAX_TEXTS
from domain.problems import FieldFault

_QUALIFYING = "qualifyingAmount"
_DATES = ("expirationDate", "expiresAt")


def faults_of_limits(rules: Sequence[Mapping[str, Any]]) -> list[FieldFault]:
    """Faults of limits: transactions must be whole numbers, and only limits of points can name an account."""
    faults = []
    for index, rule in enumerate(rules):
        at = f"/limitRules/{index}"
        if rule["type"] == TRANSACTIONS and rule["limit"] % 1:
            faults.append(
                FieldFault(
                    f"limit of transactions is {rule['limit']}, not a whole number",
                    pointer=f"{at}/limit",
                )
            )
        if rule["type"] == TRANSACTIONS and rule.get("ledgerAccountKey"):
            detail = "ledgerAccountKey goes only with a limit of points"
            faults.append(FieldFault(detail, pointer=f"{at}/ledgerAccountKey"))
    return faults


def faults_of_length(effects: Mapping[str, Any]) -> list[FieldFault]:
    """A fault if the texts of all expressions together are too long to be compiled in a moment."""
    params = [param for item in effects.get("items", ()) for param in item.get("params", ())]
    size = sum(len(param.get("expression") or "") for param in params)
    if size <= MAX_TEXTS:
        return []
    return [FieldFault(f"effects have expressions of more than {MAX_TEXTS} characters together", pointer="/effects")]


def faults_of_constants(
    compiled: Collection[CompiledEffect], effects: Mapping[str, Any], now: datetime
) -> list[FieldFault]:
    """Faults of constants of effects that would fail at every event; `effects` are the compiled ones, as written."""
    faults = []
    for index, (effect, item) in enumerate(zip(compiled, effects.get("items", ()), strict=True)):
        values = {param.parameter.id: param.value for param in effect.params if param.program is None}
        places = {param["id"]: place for place, param in enumerate(item.get("params", ()))}
        for name, detail in _faults(effect.effect.effect_id, values, now):
            if name in places:
                pointer = f"/effects/items/{index}/params/{places[name]}/value"
                faults.append(FieldFault(detail, pointer=pointer))
    return faults


def _faults(effect_id: str, values: Mapping[str, Any], now: datetime) -> Iterator[tuple[str, str]]:
    amount, qualifying = values.get("amount"), values.get(_QUALIFYING)
    # A mint of nothing may have points that qualify for tiers; what an expression computes is no constant.
    may_be_zero = effect_id == MINT_POINTS and (qualifying is not None or _QUALIFYING not in values)
    if qualifying is not None and qualifying < 0:
        yield _QUALIFYING, f"{_QUALIFYING} of {effect_id} is {qualifying}, less than 0"
    if amount is not None and (amount < 0 or not (amount or may_be_zero)):
        yield "amount", f"amount of {effect_id} is {amount}, not more than 0"
    if effect_id == DISCOUNT and isinstance(values.get("value"), int | Decimal):
        yield from _of_discount(values)
    for name in _DATES:
        if values.get(name) is not None and values[name] <= now:
            yield name, f"{name} of {effect_id} is not in the future"


def _of_discount(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    value = values["value"]
    if value <= 0:
        yield "value", f"value of {DISCOUNT} is {value}, which is not more than 0"
    elif values.get("type") == "percentage" and value > 100:
        yield "value", f"value of {DISCOUNT} is {value} percent, which is more than 100"
