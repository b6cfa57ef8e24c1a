"""Creates and changes ledger accounts."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from domain.ledger.availability import Availability
from domain.ledger.expiry import EARN, SPEND
from domain.ledger.notices import complete_notices
from domain.ledger.records import (
    Ledger,
    LedgerAccount,
    LedgerAccountInUse,
    LedgerAccountLimit,
    changes_idle_policy,
    complete_settings,
    refuse_changes_in_use,
)
from domain.ledger.session import overdraft_of
from domain.offline_allowances import complete_policy
from domain.problems import InvalidRequest
from domain.redemptions import complete_redemption
from handlers.call import Call
from handlers.messages.base import Changes
from handlers.services import references
from handlers.services.configuration import configuration_of
from handlers.services.limit_configuration import limit_configuration
from persistence import ledger as ledgers
from persistence.holds import has_holding_records
from persistence.ledger import ACCOUNTS, LEDGERS
from persistence.offline_allowances import ALLOWANCES
from persistence.points_payments import PAYMENTS

MAX_ACCOUNTS = 200
"""The maximum number of accounts of an organization, since each record of a member has a balance of each account."""


def create_account(call: Call, ledger: Ledger, settings: Mapping[str, Any]) -> LedgerAccount:
    """Add an account to a ledger; the first account of a ledger is its default.

    Raises InvalidRequest, UnknownTier, UnknownEventType or LedgerAccountLimit.
    """
    if settings["is_default_account"]:
        LEDGERS.lock(call.db, ledger)
        _audit_former_default(call, ledger)
    values = {"ledger_account_key": call.new_key(), **_complete_settings_of_account(call, settings)}
    with limit_configuration(call.db, ledger.organization_id):
        account = ledgers.add_account(call.db, ledger, values, call.now)
    # From its insertion on, other calls that add an account to any ledger wait for this call, so that they count it.
    if len(ACCOUNTS.find_all(call.db, ledger.organization_id)) > MAX_ACCOUNTS:
        raise LedgerAccountLimit(f"The organization has {MAX_ACCOUNTS} ledger accounts, the maximum.")
    return account


def update_account(call: Call, ledger: Ledger, account: LedgerAccount, changes: Changes[Any]) -> LedgerAccount:
    """Change the settings of an account.

    Settings that define the meaning of stored amounts are fixed after the first movement. Raises LedgerAccountInUse,
    InvalidRequest, UnknownTier or UnknownEventType.
    """
    account = ledgers.lock_account(call.db, ledger, account)
    call.audit.keep_before(account)
    settings = _complete_settings_of_account(call, asdict(changes.of(account)), account)
    if (settings["overdraft_limit"] or 0) > 0 and not overdraft_of(account) and ledgers.has_pending(call.db, account):
        raise LedgerAccountInUse("overdraftLimit cannot be set while transactions of the account are pending.")
    removes_allowance = account.offline_allowance is not None and settings["offline_allowance"] is None
    if removes_allowance and has_holding_records(call.db, ALLOWANCES, account, call.now):
        raise LedgerAccountInUse("offlineAllowance cannot be null while offline allowances of the account are open.")
    removes_redemption = account.redemption is not None and settings["redemption"] is None
    if removes_redemption and has_holding_records(call.db, PAYMENTS, account, call.now):
        raise LedgerAccountInUse("redemption cannot be null while points payments of the account are held.")
    if ledgers.has_movements(call.db, account):
        refuse_changes_in_use(account, settings)
        if settings["point_tracking_enabled"] and not account.point_tracking_enabled:
            ledgers.start_tracking(call.db, account, call.new_key(), call.now)
    if settings["is_default_account"] and not account.is_default_account:
        _audit_former_default(call, ledger)
    if changes_idle_policy(account, settings):
        settings["idle_policy_since"] = call.now
    with limit_configuration(call.db, ledger.organization_id):
        return ledgers.store_account(call.db, ledger, account, settings, call.now)


def _complete_settings_of_account(
    call: Call, settings: Mapping[str, Any], account: LedgerAccount | None = None
) -> dict[str, Any]:
    """Check the settings of an account, and fill in settings that follow from others; `account` is None for a new one.

    Raises InvalidRequest, UnknownTier or UnknownEventType.
    """
    tier_expirations = [
        {**rule, "loyaltyTierKey": rule["loyaltyTierKey"].lower()} for rule in settings["tier_expirations"]
    ]
    all_settings = complete_notices(complete_settings({**settings, "tier_expirations": tier_expirations}, account))
    all_settings["default_availability"] = _complete_terms(all_settings["default_availability"])
    # A type that the account already has may have been deactivated since.
    stored_event_types = (
        set() if account is None else _event_types_of(account.expiration_policies, account.default_availability)
    )
    event_types = _event_types_of(all_settings["expiration_policies"], all_settings["default_availability"])
    for event_type in sorted(event_types - stored_event_types):
        references.refuse_unknown_event_type(configuration_of(call.db, call.organization), event_type)
    if tier_expirations:
        keys = [rule["loyaltyTierKey"] for rule in tier_expirations]
        references.refuse_unknown_tiers(configuration_of(call.db, call.organization), keys)
    decimals = all_settings["decimals"]
    return {
        **all_settings,
        "offline_allowance": complete_policy(all_settings["offline_allowance"], decimals),
        "redemption": complete_redemption(all_settings["redemption"], decimals),
    }


def _event_types_of(policies: Iterable[Mapping[str, Any]], availability: Mapping[str, Any] | None) -> set[str]:
    """The types of events that settings of an account name, as activities or as events that points wait for."""
    activities = {activity for policy in policies for activity in policy.get("activities", ())}
    return activities - {EARN, SPEND} | {*Availability.of(availability or {}).event_types}


def _audit_former_default(call: Call, ledger: Ledger) -> None:
    """Add to the audit log that the current default account of a locked ledger is no longer the default."""
    conditions = {"ledger_id": ledger.ledger_id, "is_default_account": True}
    former_default = ACCOUNTS.find_by(call.db, ledger.organization_id, **conditions)
    if former_default is not None:
        call.audit.add_flag_change("ledger-account", former_default.ledger_account_id, "isDefaultAccount", is_set=False)


def _complete_terms(document: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Terms of availability with every field, None for no terms; raises InvalidRequest for contradictory terms."""
    terms = None if document is None else Availability.of(document)
    faults = [] if terms is None else terms.field_faults("/defaultAvailability")
    if faults:
        raise InvalidRequest(faults)
    return terms.as_document() if terms is not None and terms.term_names else None
