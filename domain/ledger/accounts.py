"""Settings of ledger accounts, and which of them are fixed once the account has transactions."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from domain.ledger.records import LedgerAccount
from domain.problems import Conflict, FieldFault, InvalidRequest


class LedgerAccountInUse(Conflict):
    """Settings that give stored amounts their meaning cannot change once the account has transactions."""

    slug = "ledger-account-in-use"
    title = "The ledger account has transactions"


def complete_settings(settings: Mapping[str, Any], current: LedgerAccount | None = None) -> dict[str, Any]:
    """The settings of an account with implied ones filled in; raises InvalidRequest with every fault.

    `current` is the account before the change: its tracking and its default flag stay unless named.
    """
    faults = [*_tracking_faults(settings), *_overdraft_faults(settings), *_fraction_faults(settings)]
    if faults:
        raise InvalidRequest(faults)
    tracked = settings.get("point_tracking_enabled")
    if tracked is None:
        tracked = _expires(settings) or (current is not None and current.point_tracking_enabled)
    return {
        **settings,
        "point_tracking_enabled": tracked,
        "is_default_account": settings.get("is_default_account")
        or (current is not None and current.is_default_account),
    }


def refuse_changes_in_use(current: LedgerAccount, settings: Mapping[str, Any]) -> None:
    """Raise LedgerAccountInUse for a change that an account with transactions does not allow."""
    fixed = {"decimals": "decimals", "is_revolving": "isRevolving"}
    changed = [wire for name, wire in fixed.items() if settings[name] != getattr(current, name)]
    # The lots record when value expires: without them this would be unknown.
    if current.point_tracking_enabled and not settings["point_tracking_enabled"]:
        changed.append("pointTrackingEnabled")
    if changed:
        raise LedgerAccountInUse(f"The ledger account has transactions: {', '.join(changed)} cannot change any more.")


def _expires(settings: Mapping[str, Any]) -> bool:
    return settings["expires_in_months"] is not None or bool(settings["expiration_policies"])


def _tracking_faults(settings: Mapping[str, Any]) -> list[FieldFault]:
    if settings.get("point_tracking_enabled") is False and _expires(settings):
        detail = "pointTrackingEnabled is false on an account whose value expires"
        return [FieldFault(detail, pointer="/pointTrackingEnabled")]
    return []


def _overdraft_faults(settings: Mapping[str, Any]) -> list[FieldFault]:
    limit = settings["overdraft_limit"]
    if limit is not None and limit > 0 and not settings["is_revolving"]:
        return [
            FieldFault("overdraftLimit is more than 0, but the account is not revolving", pointer="/overdraftLimit")
        ]
    return []


def _fraction_faults(settings: Mapping[str, Any]) -> list[FieldFault]:
    limits = (("max_supply", "maxSupply"), ("overdraft_limit", "overdraftLimit"))
    faults = [fraction_fault(wire, settings.get(name), settings["decimals"]) for name, wire in limits]
    return [fault for fault in faults if fault is not None]


def fraction_fault(wire: str, amount: Decimal | None, decimals: int) -> FieldFault | None:
    """A fault for an amount with more fraction digits than the account allows; None otherwise."""
    if amount is None or amount == round(amount, decimals):
        return None
    return FieldFault(f"{wire} has more than the {decimals} fraction digits of this account", pointer=f"/{wire}")
