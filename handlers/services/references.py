"""Looks up records that a request names: one function and one text of the refusal for each kind of record."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

from domain.audiences import UnknownAudience
from domain.badges import UnknownBadge
from domain.coupons.books import CouponBook, UnknownCouponBook
from domain.event_types import BUILT_IN_EVENT_TYPES
from domain.events import UnknownCampaign, UnknownEventType, UnknownMember
from domain.ledger.availability import Availability, awaited_event
from domain.ledger.records import Ledger, LedgerAccount
from domain.ledger.refusals import (
    UnknownLedger,
    UnknownLedgerAccount,
    WalletNotInLedger,
    unknown_account,
    unknown_ledger,
)
from domain.matchers import UnknownMatcher
from domain.members import Member
from domain.missions.records import Mission, UnknownMission
from domain.problems import MAX_NAME_LENGTH, Refusal, did_you_mean, unknown_key
from domain.programs import LoyaltyProgram, LoyaltyTier, UnknownLoyaltyProgram, UnknownPortal, UnknownTier
from domain.referrals import ReferralProgram
from domain.scalars import is_key
from handlers.call import Execution
from handlers.services.configuration import Configuration, configuration_of
from persistence.audiences import AUDIENCES
from persistence.campaigns import CAMPAIGNS
from persistence.coupons.books import BOOKS
from persistence.ledger import ACCOUNTS, LEDGERS
from persistence.matchers import MATCHERS
from persistence.members import MEMBERS
from persistence.portals import PORTALS
from persistence.programs import PROGRAMS, TIERS

Record = TypeVar("Record")
# A body with terms of availability.
RewardingBody = TypeVar("RewardingBody", bound=Any)

# The number of custom types that an unknown event type is compared with. It is small, since a batch may have a thousand
# unknown types.
_MAX_COMPARED = 50


def unknown_member(member_id: object) -> UnknownMember:
    """The refusal of an unknown member, by the id in the request."""
    return UnknownMember(f"There is no member {member_id}.")


def unknown_loyalty_program(id_or_key: object) -> UnknownLoyaltyProgram:
    """The refusal of an unknown loyalty program, by the id or key in the request."""
    return UnknownLoyaltyProgram(f"There is no loyalty program {id_or_key}.")


def unknown_audience(keys: Collection[str]) -> UnknownAudience:
    """The refusal of unknown audiences, by their keys."""
    return UnknownAudience(f"There is no audience with the key {min(keys)}.")


def unknown_coupon_book(key: str) -> UnknownCouponBook:
    """The refusal of an unknown coupon book, by its key."""
    return UnknownCouponBook(f"There is no coupon book with the key {key[:MAX_NAME_LENGTH]}.")


def unknown_event_type(configuration: Configuration, event_type: str) -> UnknownEventType:
    """The refusal of an event type that is neither built-in nor an active custom type, with a suggestion."""
    custom_types = islice(configuration.custom_event_types, _MAX_COMPARED)
    suggestion = did_you_mean(event_type, (*custom_types, *BUILT_IN_EVENT_TYPES))
    return UnknownEventType(f"There is no active event type {event_type}.{suggestion}")


def _require_record(record: Record | None, refusal: Refusal) -> Record:
    if record is None:
        raise refusal
    return record


def member(call: Execution, member_id: int | None) -> Member:
    """The member with this id; raises UnknownMember."""
    organization_id = call.organization.organization_id
    record = None if member_id is None else MEMBERS.find(call.db, organization_id, member_id)
    return _require_record(record, unknown_member(member_id))


def loyalty_program(call: Execution, program_id: int) -> LoyaltyProgram:
    """The loyalty program with this id; raises UnknownLoyaltyProgram."""
    organization_id = call.organization.organization_id
    return _require_record(PROGRAMS.find(call.db, organization_id, program_id), unknown_loyalty_program(program_id))


def tier_of_program(call: Execution, program: LoyaltyProgram, id_or_key: int | str) -> LoyaltyTier:
    """The program's tier with this id or, if `id_or_key` is a text, with this key; raises UnknownTier."""
    column = "loyalty_tier_key" if isinstance(id_or_key, str) else "loyalty_tier_id"
    tier = TIERS.find_by(call.db, call.organization.organization_id, **{column: id_or_key})
    if tier is None or tier.loyalty_program_id != program.loyalty_program_id:
        raise UnknownTier(f"The loyalty program has no tier {id_or_key}.")
    return tier


def coupon_book(call: Execution, key: str) -> CouponBook:
    """The coupon book with this key, in letters of any case; raises UnknownCouponBook."""
    organization_id = call.organization.organization_id
    lower_key = key.lower()
    record = BOOKS.find_by(call.db, organization_id, coupon_book_key=lower_key) if is_key(lower_key) else None
    return _require_record(record, unknown_coupon_book(key))


def refuse_unknown(call: Execution, **ids: int | None) -> None:
    """Refuse ids of records that do not exist, each under its kind, such as `campaign`; None names no record."""
    for kind, record_id in ids.items():
        find, refusal_type = _BY_ID[kind]
        if record_id is not None and find(call.db, call.organization.organization_id, record_id) is None:
            raise refusal_type(f"There is no {kind.replace('_', ' ')} {record_id}.")


_BY_ID: Mapping[str, tuple[Any, type[Refusal]]] = {
    "loyalty_program": (PROGRAMS.find, UnknownLoyaltyProgram),
    "campaign": (CAMPAIGNS.find, UnknownCampaign),
    "audience": (AUDIENCES.find, UnknownAudience),
    "matcher": (MATCHERS.find, UnknownMatcher),
    "portal": (PORTALS.find, UnknownPortal),
    "member": (MEMBERS.find, UnknownMember),
    "ledger_account": (ACCOUNTS.find, UnknownLedgerAccount),
    "coupon_book": (BOOKS.find, UnknownCouponBook),
}


def refuse_unknown_audiences(call: Execution, keys: Collection[str]) -> None:
    """Refuse keys of audiences that do not exist; raises UnknownAudience."""
    organization_id = call.organization.organization_id
    unknown_keys = set(keys) - AUDIENCES.find_values(call.db, organization_id, audience_key=keys) if keys else None
    if unknown_keys:
        raise unknown_audience(unknown_keys)


def refuse_unknown_campaigns(call: Execution, keys: Collection[str]) -> None:
    """Refuse keys of campaigns that do not exist; raises UnknownCampaign."""
    existing_keys = CAMPAIGNS.find_values(call.db, call.organization.organization_id, campaign_key=keys)
    unknown_keys = [key for key in keys if key not in existing_keys]
    if unknown_keys:
        raise UnknownCampaign(f"There is no campaign with the key {unknown_keys[0]}.")


def refuse_unknown_event_type(configuration: Configuration, event_type: str) -> None:
    """Raise UnknownEventType for a type that is neither built-in nor an active custom type."""
    if event_type not in BUILT_IN_EVENT_TYPES and event_type not in configuration.custom_event_types:
        raise unknown_event_type(configuration, event_type)


def refuse_unknown_event_types(configuration: Configuration, availability: Availability) -> None:
    """Refuse points that wait for an event of an unknown type; raises UnknownEventType."""
    for event_type in availability.event_types:
        refuse_unknown_event_type(configuration, event_type)


def with_checked_awaited_event(
    call: Execution, body: RewardingBody, before: Mission | ReferralProgram | None
) -> RewardingBody:
    """Check the event for which the points of rewards wait, if any; return the body with all fields of that event.

    If `before` already names the same event, it is not checked again: its type may have been deactivated since. Raises
    UnknownEventType.
    """
    if body.available_on is None:
        return body
    awaited = awaited_event(body.available_on)
    if before is None or awaited != before.available_on:
        refuse_unknown_event_types(configuration_of(call.db, call.organization), Availability(on=awaited))
    return replace(body, available_on=awaited)


def refuse_unknown_tiers(configuration: Configuration, keys: Collection[str]) -> None:
    """Refuse keys of tiers that do not exist; raises UnknownTier."""
    unknown_keys = set(keys) - set(configuration.tier_keys.values())
    if unknown_keys:
        raise UnknownTier(unknown_key("tier", min(unknown_keys), configuration.tiers))


def refuse_unknown_badge(configuration: Configuration, key: str | None) -> None:
    """Refuse the key of a badge that does not exist; raises UnknownBadge."""
    if key is not None and key.lower() not in configuration.badges:
        raise UnknownBadge(unknown_key("badge", key, configuration.badges))


def refuse_unknown_mission(configuration: Configuration, key: str | None) -> None:
    """Refuse the key of a mission that does not exist; raises UnknownMission."""
    mission_keys = {mission.mission.mission_key for mission in configuration.missions.values()}
    if key is not None and key.lower() not in mission_keys:
        raise UnknownMission(unknown_key("mission", key, mission_keys))


def refuse_unknown_tier(configuration: Configuration, program_key: str | None, tier_key: str | None) -> None:
    """Refuse an unknown program, and a tier that is unknown or not in the program."""
    if program_key is not None and program_key.lower() not in configuration.program_keys:
        raise UnknownLoyaltyProgram(unknown_key("loyalty program", program_key, configuration.program_keys))
    if tier_key is None:
        return
    tier = configuration.tiers.get(tier_key.lower())
    if tier is None or (program_key is not None and tier.loyalty_program_key != program_key.lower()):
        raise UnknownTier(unknown_key("tier of the loyalty program", tier_key, configuration.tiers))


def refuse_unknown_account(configuration: Configuration, key: str | None) -> None:
    """Refuse the key of an account that the default ledger does not have; raises UnknownLedgerAccount."""
    if key is not None and configuration.account_with_key(key) is None:
        raise UnknownLedgerAccount(unknown_key("account of the default ledger", key, configuration.accounts_by_key))


def ledger_or_default(call: Execution, ledger_id: int | None) -> Ledger:
    """The ledger with this id, or the organization's default ledger if it is None; raises UnknownLedger."""
    chosen_id = call.organization.default_ledger_id if ledger_id is None else ledger_id
    record = None if chosen_id is None else LEDGERS.find(call.db, call.organization.organization_id, chosen_id)
    return _require_record(record, UnknownLedger(unknown_ledger(chosen_id)))


def account_of_ledger(call: Execution, ledger_id: int, ledger_account_id: int | None) -> LedgerAccount:
    """The account with this id, or the ledger's default account if it is None; raises UnknownLedgerAccount."""
    organization_id = call.organization.organization_id
    if ledger_account_id is None:
        account = ACCOUNTS.find_by(call.db, organization_id, ledger_id=ledger_id, is_default_account=True)
    else:
        account = ACCOUNTS.find(call.db, organization_id, ledger_account_id)
    if account is None or account.ledger_id != ledger_id:
        raise UnknownLedgerAccount(unknown_account(ledger_id, ledger_account_id))
    return account


def account_of_members(call: Execution, ledger_id: int | None, ledger_account_id: int | None) -> LedgerAccount:
    """The account that a request names for points of members, by default the default account of the default ledger.

    Raises UnknownLedger, UnknownLedgerAccount, or WalletNotInLedger for an account of another ledger.
    """
    if ledger_id in (None, call.organization.default_ledger_id):
        configuration = configuration_of(call.db, call.organization)
        named_account = configuration.accounts.get(ledger_account_id or 0)
        account = configuration.default_account if ledger_account_id is None else named_account
        if account is not None:
            return account
    ledger = ledger_or_default(call, ledger_id)
    account = account_of_ledger(call, ledger.ledger_id, ledger_account_id)
    refuse_other_ledger(call, ledger)
    return account


def account_of_members_with_key(call: Execution, key: str | None) -> LedgerAccount:
    """The account with this key in the default ledger, in which members have wallets; None for its default account.

    Raises UnknownLedgerAccount.
    """
    if key is None:
        return account_of_members(call, ledger_id=None, ledger_account_id=None)
    account = configuration_of(call.db, call.organization).account_with_key(key)
    return _require_record(account, UnknownLedgerAccount(f"The default ledger has no account with the key {key}."))


def refuse_other_ledger(call: Execution, ledger: Ledger) -> None:
    """Refuse a ledger in which members have no wallets; raises WalletNotInLedger."""
    if ledger.ledger_id != call.organization.default_ledger_id:
        raise WalletNotInLedger(
            f"Ledger {ledger.ledger_id} is not the organization's default ledger, in which members have their wallets."
        )
