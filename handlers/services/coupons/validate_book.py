"""The references of a coupon book, checked before it is saved: program, tiers, audiences, the account of its points."""

from __future__ import annotations

from typing import Any

from domain.audiences import UnknownAudience
from domain.coupons.book_rules import check_book
from domain.coupons.patterns import pattern_of
from domain.ledger.refusals import UnknownLedger, UnknownLedgerAccount
from domain.problems import FieldFault, InvalidRequest
from domain.programs import UnknownLoyaltyProgram, UnknownTier
from handlers.call import Call
from handlers.services.configuration import configuration_of
from persistence import audiences, ledger, programs


def settle_book(call: Call, changed: dict[str, Any], whole: dict[str, Any]) -> None:
    """Add derived fields to the changes of a book, and refuse unknown or unsuitable references.

    `changed` are the changed fields, `whole` is the resulting book with all fields. Raises InvalidRequest, or NotFound
    of its kind.
    """
    whole |= changed
    check_book(whole)
    _settle_program(call, changed)
    _settle_tiers(call, changed)
    _refuse_unknown_audiences(call, changed)
    if changed.get("required_points_config") is not None:
        changed["required_points_config"] = _points_account(call, changed["required_points_config"])
    if changed.get("code_pattern") is not None:
        changed["code_pattern"] = pattern_of(changed["code_pattern"]).as_members()


def _settle_program(call: Call, changed: dict[str, Any]) -> None:
    """Complete the program, which one surface names by key and the other by id; the book stores both."""
    organization_id = call.organization.organization_id
    for given, find, other in (
        ("loyalty_program_key", programs.find_by_key, "loyalty_program_id"),
        ("loyalty_program_id", programs.find, "loyalty_program_key"),
    ):
        if given not in changed or other in changed:
            continue
        program = None
        if changed[given] is not None:
            program = find(call.db, organization_id, changed[given])
            if program is None:
                raise UnknownLoyaltyProgram(f"There is no loyalty program {changed[given]}.")
        changed[other] = None if program is None else getattr(program, other)


def _settle_tiers(call: Call, changed: dict[str, Any]) -> None:
    """Complete the tiers; `tierKeys` and the deprecated `tiers` are two names of one restriction."""
    if "tier_keys" not in changed and "tiers" not in changed:
        return
    keys_by_id = configuration_of(call.db, call.organization).tier_keys
    ids_by_key = {key: tier_id for tier_id, key in keys_by_id.items()}
    unknown = [key for key in changed.get("tier_keys", ()) if key not in ids_by_key]
    unknown += [str(tier_id) for tier_id in changed.get("tiers", ()) if tier_id not in keys_by_id]
    if unknown:
        raise UnknownTier(f"There is no tier {unknown[0]}.")
    by_id = [keys_by_id[tier_id] for tier_id in changed.get("tiers", ())]
    keys = changed.get("tier_keys") or by_id
    if by_id and set(by_id) != set(keys):
        raise InvalidRequest([FieldFault("tiers and tierKeys name different tiers", pointer="/tiers")])
    changed["tier_keys"] = keys
    changed["tiers"] = [ids_by_key[key] for key in changed["tier_keys"]]


def _refuse_unknown_audiences(call: Call, changed: dict[str, Any]) -> None:
    keys = changed.get("audience_keys")
    if keys:
        unknown = set(keys) - audiences.known_keys(call.db, call.organization.organization_id, keys)
        if unknown:
            raise UnknownAudience(f"There is no audience with the key {min(unknown)}.")


def _points_account(call: Call, config: dict[str, str]) -> dict[str, str]:
    """The account of the book's points, by the keys of its ledger (the default one) and its own."""
    organization = call.organization
    home = None
    if organization.default_ledger_id is not None:
        home = ledger.find_ledger(call.db, organization.organization_id, organization.default_ledger_id)
    named = config.get("ledgerKey")
    if home is None or (named is not None and named.lower() != home.ledger_key):
        raise UnknownLedger(f"The default ledger does not have the key {named}.")
    account_key = config["ledgerAccountKey"].lower()
    if account_key not in configuration_of(call.db, organization).accounts_by_key:
        raise UnknownLedgerAccount(f"The default ledger has no account with the key {account_key}.")
    return {"ledgerKey": home.ledger_key, "ledgerAccountKey": account_key}
