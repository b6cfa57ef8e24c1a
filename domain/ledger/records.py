"""The records of the ledger, and the rules for settings of its accounts."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any

from domain.calendar import zone_faults, zone_named
from domain.fields import Internal, Key, wire_name
from domain.ledger.availability import AT_ONCE, Availability
from domain.ledger.expiry import (
    NO_ROUNDING,
    ExpiryCalendar,
    HasLastDates,
    IdlePolicy,
    complete_policies,
    policy_faults,
)
from domain.problems import Conflict, FieldFault, InvalidRequest

MAX_AMOUNT = Decimal(18446744073709)

TRANSFER, MINT, BURN, REVERT = 0, 1, 2, 3
TRANSACTION_TYPES = ("transfer", "mint", "burn", "revert")

# The statuses of transactions.
PENDING, SETTLED, REVERTED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Ledger:
    """A ledger holds ledger accounts (units of value) and wallets (holders)."""

    organization_id: int
    ledger_id: int
    ledger_key: Key
    name: str
    description: str | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LedgerAccount:
    """A unit of value such as points; `decimals` is how many fraction digits an amount may have.

    `timezone` is the zone of all dates of expiry; None means the zone of the organization. `tier_expirations` replace
    `expires_in_months` for members of tiers. An activity that is at most `late_activity_days` late reverts
    the expiry of an idle balance, and points that a revert returns to an expired lot live for
    `restored_expiry_days`. `points_expiring` are notices of points that will expire; None means the setting of the
    organization.
    """

    organization_id: int
    ledger_account_id: int
    ledger_account_key: Key
    ledger_id: int
    alias: str | None
    name: str
    active: bool
    is_currency: bool
    decimals: int
    format_string: str | None
    chain_asset_id: str | None
    chain_sync_enabled: bool
    max_supply: Decimal | None
    is_revolving: bool
    point_tracking_enabled: bool
    expires_in_months: int | None
    expiration_policies: tuple[Mapping[str, Any], ...]
    expiry_rounding: str
    expiry_year_start_month: int
    timezone: str | None
    tier_expirations: tuple[Mapping[str, Any], ...]
    late_activity_days: int
    restored_expiry_days: int
    points_expiring: Mapping[str, Any] | None
    is_default_account: bool
    overdraft_limit: Decimal | None
    max_balance: Decimal | None
    offline_allowance: Mapping[str, Any] | None
    # The worth of one unit in money; None if it has none.
    fiat_per_point: Decimal | None
    redemption: Mapping[str, Any] | None
    default_availability: Mapping[str, Any] | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime
    # When the settings by which whole balances expire were changed, None if they never were.
    idle_policy_since: Internal[datetime | None] = None

    def expiry_calendar(self, zone: tzinfo) -> ExpiryCalendar:
        """The calendar of all dates of expiry; `zone` is the organization's."""
        account_zone = zone if self.timezone is None else zone_named(self.timezone)
        return ExpiryCalendar(account_zone, self.expiry_year_start_month)

    def months_to_expiry(self, tier_keys: Collection[str]) -> int | None:
        """After how many months points of a member of these tiers expire: the longest of the tiers; None means never.

        A member of no tier in `tier_expirations` has the months of the account.
        """
        months = [rule["months"] for rule in self.tier_expirations if rule["loyaltyTierKey"] in tier_keys]
        return max(months) if months else self.expires_in_months

    @property
    def availability(self) -> Availability:
        """The terms on which points are available if their mint names no terms."""
        return AT_ONCE if self.default_availability is None else Availability.of(self.default_availability)

    def idle_policy(self, zone: tzinfo) -> IdlePolicy | None:
        """The policy by which a whole balance expires, None if there is none; `zone` is the organization's."""
        if not self.expiration_policies:
            return None
        return IdlePolicy.of(self.expiration_policies, self.expiry_calendar(zone), self.idle_policy_since)

    def end_of_idle_balance(self, balance: HasLastDates, zone: tzinfo) -> datetime | None:
        """When a whole balance expires by the idle policy; None means never."""
        policy = self.idle_policy(zone)
        return None if policy is None else policy.end(balance.last_transaction_date, balance.last_activity_date)


@dataclass(frozen=True, slots=True)
class Wallet:
    """A holder of balances in the accounts of one ledger."""

    organization_id: int
    wallet_id: int
    wallet_key: Key
    ledger_id: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class TransactionIds:
    """The ids of a ledger transaction and its account."""

    organization_id: int
    ledger_transaction_id: int
    ledger_account_id: int


@dataclass(frozen=True, slots=True)
class Balance:
    """A wallet's balance of one account; a row that does not exist yet reads as zero."""

    organization_id: int
    wallet_id: int
    ledger_account_id: int
    current_balance: Decimal
    pending_credit_balance: Decimal
    pending_debit_balance: Decimal
    current_overdraft_balance: Decimal
    total_overdraft_credit_balance: Decimal
    total_fiat_value: Decimal
    last_transaction_date: datetime | None
    created_at: datetime
    updated_at: datetime


class LedgerAccountInUse(Conflict, title="The ledger account has transactions"):
    """Settings that give stored amounts their meaning cannot change once the account has transactions."""


class LedgerAccountLimit(Conflict, title="The organization has the maximum number of ledger accounts"):
    """Another ledger account would exceed the maximum."""


def complete_settings(settings: Mapping[str, Any], current: LedgerAccount | None = None) -> dict[str, Any]:
    """The settings of an account with implied ones filled in; raises InvalidRequest with every fault.

    `current` is the account before the change, None for a new one: its tracking and its default flag stay unless they
    are set.
    """
    faults = list(_setting_faults(settings))
    if faults:
        raise InvalidRequest(faults)
    is_tracked = settings.get("point_tracking_enabled")
    if is_tracked is None:
        is_tracked = _expires(settings) or (current is not None and current.point_tracking_enabled)
    return {
        **settings,
        "expiration_policies": complete_policies(settings["expiration_policies"]),
        "point_tracking_enabled": is_tracked,
        "is_default_account": settings.get("is_default_account")
        or (current is not None and current.is_default_account),
    }


def changes_idle_policy(current: LedgerAccount, settings: Mapping[str, Any]) -> bool:
    """True if complete settings change when whole balances of the account expire."""
    names = ("expiry_year_start_month", "timezone")
    return [*settings["expiration_policies"]] != [*current.expiration_policies] or any(
        settings[name] != getattr(current, name) for name in names
    )


def refuse_changes_in_use(current: LedgerAccount, settings: Mapping[str, Any]) -> None:
    """Raise LedgerAccountInUse for a change that an account with transactions does not allow."""
    fixed_settings = ("decimals", "is_revolving")
    changed_settings = [wire_name(name) for name in fixed_settings if settings[name] != getattr(current, name)]
    # The lots record when points expire: without lots, the dates would be unknown.
    if current.point_tracking_enabled and not settings["point_tracking_enabled"]:
        changed_settings.append("pointTrackingEnabled")
    if changed_settings:
        raise LedgerAccountInUse(
            f"{', '.join(changed_settings)} cannot be changed, because the ledger account has transactions."
        )


def _expires(settings: Mapping[str, Any]) -> bool:
    """True if lots or whole balances of the account expire."""
    return _lots_expire(settings) or bool(settings["expiration_policies"])


def _lots_expire(settings: Mapping[str, Any]) -> bool:
    return settings["expires_in_months"] is not None or bool(settings["tier_expirations"])


def _setting_faults(settings: Mapping[str, Any]) -> Iterator[FieldFault]:
    """Contradictions between the settings of an account, and settings with wrong values."""
    if settings.get("point_tracking_enabled") is False and _expires(settings):
        detail = (
            "pointTrackingEnabled is false, but the settings let points expire: send true, or remove these settings"
        )
        yield FieldFault(detail, pointer="/pointTrackingEnabled")
    yield from zone_faults(settings["timezone"])
    yield from policy_faults(settings["expiration_policies"])
    if settings["expiry_rounding"] != NO_ROUNDING and not _lots_expire(settings):
        detail = "expiryRounding needs expiresInMonths or tierExpirations, whose end it rounds"
        yield FieldFault(detail, pointer="/expiryRounding")
    keys = [rule["loyaltyTierKey"] for rule in settings["tier_expirations"]]
    for position, key in enumerate(keys):
        if key in keys[:position]:
            pointer = f"/tierExpirations/{position}/loyaltyTierKey"
            yield FieldFault(f"tierExpirations names the tier {key} twice", pointer=pointer)
    if (settings["overdraft_limit"] or 0) > 0 and not settings["is_revolving"]:
        yield FieldFault("overdraftLimit is more than 0, but the account is not revolving", pointer="/overdraftLimit")
    for name in ("max_supply", "overdraft_limit", "max_balance"):
        fault = fraction_fault(wire_name(name), settings.get(name), settings["decimals"])
        if fault is not None:
            yield fault


def fraction_fault(field: str, amount: Decimal | None, decimals: int) -> FieldFault | None:
    """A fault for an amount with more fraction digits than the account allows, None for any other amount."""
    if amount is None or amount == round(amount, decimals):
        return None
    return FieldFault(f"{field} has more than the {decimals} fraction digits of this account", pointer=f"/{field}")


@dataclass(frozen=True, slots=True)
class HoldState:
    """The state of the transaction that holds the points; `ended_at` is when a hold that is not pending has ended.

    `returned` is the part of `amount` that was given back, and `fiat_returned` its value in money; `returned_at` is
    when points were last given back.
    """

    status: int
    is_captured: bool
    ended_at: datetime
    amount: Decimal
    fiat_value: Decimal | None
    returned: Decimal
    fiat_returned: Decimal
    returned_at: datetime | None
