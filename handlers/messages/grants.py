"""The grants of an event, which are stored so that they can be reduced when a part of its order is returned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from domain.calendar import instant_of
from domain.campaigns.outcomes import ActionGrants, EffectGrant
from handlers.messages.json_text import exact_number, to_json_value

# The variables of expressions that change after the event: by its own grants, or in the course of time.
_BALANCES, _LISTS = ("balances", "badges"), ("audiences", "tiers")


def grants_record(actions: Sequence[ActionGrants], context: Mapping[str, Any]) -> dict[str, Any]:
    """The record of what actions granted, with the variables by which their expressions were evaluated."""
    return {
        "variables": {
            **{name: _balances_record(context[name]) for name in _BALANCES},
            **{name: list(context[name]) for name in _LISTS},
            "missions": context["missions"],
            "now": to_json_value(context["now"]),
        },
        "actions": [_action_record(action) for action in actions],
    }


def granted_actions(record: Mapping[str, Any]) -> list[ActionGrants]:
    """The grants in a record that `grants_record` made."""
    return [_action_of(action) for action in record["actions"]]


def recorded_variables(record: Mapping[str, Any], present_variables: Mapping[str, Any]) -> dict[str, Any]:
    """The variables of expressions: the values in a record, and the present values of variables that it does not have.

    Accounts and badges that did not exist at the time of the record have the balance 0.
    """
    variables = record["variables"]
    return {
        **present_variables,
        **{
            name: {**dict.fromkeys(present_variables[name], Decimal(0)), **_balances_of(variables[name])}
            for name in _BALANCES
        },
        **{name: variables[name] for name in _LISTS},
        "missions": {**present_variables["missions"], **variables["missions"]},
        "now": instant_of(variables["now"]),
    }


def _balances_record(balances: Mapping[str, Decimal]) -> dict[str, Any]:
    """The record of balances, without zero balances."""
    return {key: exact_number(amount) for key, amount in balances.items() if amount}


def _balances_of(record: Mapping[str, Any]) -> dict[str, Decimal]:
    return {key: Decimal(amount) for key, amount in record.items()}


def _action_record(action: ActionGrants) -> dict[str, Any]:
    """The grants of an action as JSON."""
    return {
        "rules": action.rules,
        "effects": action.effects,
        "timezone": action.zone,
        "minSpendValue": to_json_value(action.min_spend_value),
        "balancesAfter": _balances_record(action.balances_after),
        "grants": [_grant_record(grant) for grant in action.grants],
    }


def _action_of(record: Mapping[str, Any]) -> ActionGrants:
    """The grants of an action from their JSON, the reverse of `_action_record`."""
    return ActionGrants(
        rules=record["rules"],
        effects=record["effects"],
        zone=record["timezone"],
        min_spend_value=_decimal(record["minSpendValue"]),
        balances_after=_balances_of(record["balancesAfter"]),
        grants=[_grant_of(grant) for grant in record["grants"]],
    )


def _grant_record(grant: EffectGrant) -> dict[str, Any]:
    """The stored form of a grant."""
    return {
        "place": grant.place,
        "amount": exact_number(grant.amount),
        "number": grant.transaction_number,
        "qualifying": to_json_value(grant.qualifying),
        "items": to_json_value(grant.items),
        "fromCount": grant.from_count,
        "toCount": grant.to_count,
    }


def _grant_of(record: Mapping[str, Any]) -> EffectGrant:
    """The grant of a stored form."""
    return EffectGrant(
        place=record["place"],
        amount=Decimal(record["amount"]),
        transaction_number=record["number"],
        qualifying=_decimal(record["qualifying"]),
        items=None if record["items"] is None else tuple(record["items"]),
        from_count=record["fromCount"],
        to_count=record["toCount"],
    )


def _decimal(value: Any) -> Decimal | None:
    return None if value is None else Decimal(value)
