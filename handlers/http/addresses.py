"""The addresses of records in paths: one table that turns an address into the record, or into a 404.

An address is always looked up inside the caller's organization, so that the existence of another tenant's records is
never revealed. Addresses are resolved in the order of the path, and a nested record must belong to the one before it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.content.documents import DEFAULT_LOCALE, DEFAULT_LOCALE_IN_PATHS, DocumentAddress
from domain.members import AmbiguousMember
from domain.near_names import LONGEST_NAME
from domain.problems import Forbidden, NotFound
from handlers.call import Call
from persistence import (
    member_holdings,
    members,
    users,
)
from persistence.audiences import AUDIENCES
from persistence.badges import BADGES, TRACKINGS
from persistence.campaigns import ACTIONS, CAMPAIGNS
from persistence.content import collections
from persistence.coupons import codes
from persistence.coupons.books import BOOKS
from persistence.coupons.codes import COUPONS
from persistence.coupons.usages import USAGES
from persistence.event_types import EVENT_TYPES
from persistence.events import EVENTS
from persistence.exports import EXPORTS
from persistence.imports import IMPORTS
from persistence.ledger import ACCOUNTS, LEDGERS
from persistence.ledger_transactions import TRANSACTIONS
from persistence.ledger_wallets import WALLETS
from persistence.lookups import Address, Lookup
from persistence.matchers import MATCHERS
from persistence.members import MEMBERS
from persistence.missions import MISSIONS
from persistence.orders import ORDERS
from persistence.partners import PARTNER_API_KEYS
from persistence.permission_groups import PERMISSION_GROUPS
from persistence.programs import PROGRAMS, TIERS
from persistence.referrals.lists import REFERRAL_CODES, REFERRAL_PROGRAMS
from persistence.triggers import DELIVERIES, TRIGGERS

Resolve = Callable[[Call, Any, Mapping[str, Any]], Any]


def _in_organization(find: Callable[..., Any]) -> Resolve:
    return lambda call, value, parents: find(call.db, call.organization.organization_id, value)


def _inside(find: Callable[..., Any], parent: str, parent_id: str) -> Resolve:
    """Find a record that must belong to `parent`, which the path names before it."""

    def resolve(call: Call, value: Any, parents: Mapping[str, Any]) -> Any:
        record = find(call.db, call.organization.organization_id, value)
        if record is None or parent not in parents:
            return record
        return record if getattr(record, parent_id) == getattr(parents[parent], parent_id) else None

    return resolve


def _by(lookup: Lookup[Any]) -> Resolve:
    return lambda call, value, parents: lookup.find(call.db, call.organization, value, call.now)


def _refuse_other_members(call: Call, loyalty_member_id: str) -> None:
    """Refuse a member's own token for any other id, even if no such member exists."""
    own = call.caller.loyalty_member_id if call.caller is not None else None
    if own is not None and own != loyalty_member_id:
        raise Forbidden("The access token is another member's.")


_ID = re.compile("[1-9][0-9]{0,17}")


def _by_id_or(find_by_id: Callable[..., Any], find_by_name: Callable[..., Any]) -> Callable[..., Any]:
    """Find by an identifier: up to 18 digits without a leading zero are an id, all else is a name.

    Only the form decides, never the existing records, so that an identifier cannot come to mean another record. It is
    for records whose names cannot look like an id.
    """

    def find(db: Any, organization_id: int, value: str) -> Any:
        if _ID.fullmatch(value):
            return find_by_id(db, organization_id, int(value))
        return find_by_name(db, organization_id, value)

    return find


_BY_MEMBER_ID = "memberId:"
_BY_LOYALTY_MEMBER_ID = "loyaltyMemberId:"


def _identified_member(call: Call, value: str, parents: Mapping[str, Any]) -> Any:
    """The member that an identifier means: by the id of its prefix, if it has one, else by either of the two ids.

    Raises AmbiguousMember for digits that are the `memberId` of one member and the `loyaltyMemberId` of another.
    """
    db, organization_id = call.db, call.organization.organization_id
    if value.startswith(_BY_LOYALTY_MEMBER_ID):
        return MEMBERS.find_by(db, organization_id, loyalty_member_id=value[len(_BY_LOYALTY_MEMBER_ID) :])
    if value.startswith(_BY_MEMBER_ID):
        digits = value[len(_BY_MEMBER_ID) :]
        return MEMBERS.find(db, organization_id, int(digits)) if _ID.fullmatch(digits) else None
    if not _ID.fullmatch(value):
        return MEMBERS.find_by(db, organization_id, loyalty_member_id=value)
    fitting = members.find_all_by_either_id(db, organization_id, int(value), value)
    if len(fitting) > 1:
        raise AmbiguousMember(
            f"The memberIdentifier {value} is the memberId of one member and the loyaltyMemberId of another. Write "
            f"{_BY_MEMBER_ID}{value} or {_BY_LOYALTY_MEMBER_ID}{value} to say which one is meant."
        )
    return fitting[0] if fitting else None


# path parameter -> (argument of the handler, how it is found)
ADDRESSES: Mapping[str, tuple[str, Resolve]] = {
    "loyaltyMemberId": ("member", _in_organization(MEMBERS.by("loyalty_member_id"))),
    "memberId": ("member", _in_organization(MEMBERS.find)),
    "memberIdentifier": ("member", _identified_member),
    "badgeKey": ("badge", _in_organization(BADGES.by("badge_key"))),
    "badgeIdentifier": ("badge", _in_organization(_by_id_or(BADGES.find, BADGES.by("badge_key")))),
    "badgeTrackingKey": ("badge_tracking", _inside(TRACKINGS.by("badge_tracking_key"), "member", "member_id")),
    "badgeTrackingIdentifier": (
        "badge_tracking",
        _inside(_by_id_or(TRACKINGS.find, TRACKINGS.by("badge_tracking_key")), "member", "member_id"),
    ),
    "loyaltyProgramId": ("program", _in_organization(PROGRAMS.find)),
    "loyaltyProgramKey": ("program", _in_organization(PROGRAMS.by("loyalty_program_key"))),
    "loyaltyTierId": ("tier", _inside(TIERS.find, "program", "loyalty_program_id")),
    "ledgerId": ("ledger", _in_organization(LEDGERS.find)),
    "ledgerAccountId": ("account", _inside(ACCOUNTS.find, "ledger", "ledger_id")),
    "ledgerTransactionId": ("transaction", _inside(TRANSACTIONS.find, "account", "ledger_account_id")),
    "walletId": ("wallet", _inside(WALLETS.find, "ledger", "ledger_id")),
    "campaignId": ("campaign", _in_organization(CAMPAIGNS.find)),
    "actionId": ("action", _inside(ACTIONS.find, "campaign", "campaign_id")),
    "matcherId": ("matcher", _in_organization(MATCHERS.find)),
    "matcherKey": ("matcher", _in_organization(MATCHERS.by("matcher_key"))),
    "audienceId": ("audience", _in_organization(AUDIENCES.find)),
    "triggerId": ("trigger", _in_organization(TRIGGERS.find)),
    "triggerDeliveryId": ("delivery", _inside(DELIVERIES.find, "trigger", "trigger_id")),
    "missionId": ("mission", _in_organization(MISSIONS.find)),
    "couponBookKey": ("book", _in_organization(BOOKS.by("coupon_book_key"))),
    "couponBookId": ("book", _in_organization(BOOKS.find)),
    "couponId": ("coupon", _inside(COUPONS.find, "book", "coupon_book_id")),
    "couponCode": ("coupon", lambda call, value, parents: codes.find_by_code(call.db, parents["book"], value)),
    "couponUsageKey": ("coupon_usage", _inside(USAGES.by("coupon_usage_key"), "member", "member_id")),
    "couponUsageId": ("coupon_usage", _in_organization(USAGES.find)),
    "referralProgramId": ("referral_program", _in_organization(REFERRAL_PROGRAMS.find)),
    "referralCodeId": (
        "referral_code",
        _inside(REFERRAL_CODES.find, "referral_program", "referral_program_id"),
    ),
    "partnerApiKeyId": ("partner_api_key", _in_organization(PARTNER_API_KEYS.find)),
    "collectionKeyOrSlug": ("collection", _in_organization(collections.find)),
    # The document with a slug depends on the locale, which the path or the query names later.
    "documentKeyOrSlug": ("document", lambda call, value, parents: DocumentAddress(value)),
    "locale": ("locale", lambda call, value, parents: DEFAULT_LOCALE if value == DEFAULT_LOCALE_IN_PATHS else value),
    "apiCode": ("event_type", _in_organization(EVENT_TYPES.find)),
    "orderId": ("order", _inside(ORDERS.find, "member", "member_id")),
    "loyaltyEventKey": ("event", _in_organization(EVENTS.by("loyalty_event_key"))),
    "userId": ("user", _in_organization(users.find)),
    "permissionGroupKey": ("permission_group", _in_organization(PERMISSION_GROUPS.by("permission_group_key"))),
    "importId": ("import_job", _in_organization(IMPORTS.find)),
    "exportId": ("export_job", _in_organization(EXPORTS.find)),
    "partNumber": ("part_number", lambda call, value, parents: value),
    # The catalogue of effects is the product's own: the handler looks the id up in it.
    "effectId": ("effect_id", lambda call, value, parents: value),
}


# How a member comes with tiers and balances, by the same statement, for handlers that name HOLDER.
HOLDER = "holder"
HOLDERS: Mapping[str, Lookup[Any]] = {
    "loyaltyMemberId": member_holdings.BY_LOYALTY_MEMBER_ID,
    "memberId": member_holdings.BY_ID,
}
_MEMBERS: Mapping[str, Lookup[Any]] = {"loyaltyMemberId": members.BY_LOYALTY_MEMBER_ID, "memberId": members.BY_ID}

# What records are called in 404s, where the argument's name alone could be something else.
_NOUNS: Mapping[str, str] = {
    "account": "ledger account",
    "book": "coupon book",
    "delivery": "message of the trigger",
    "export_job": "export",
    HOLDER: "member",
    "import_job": "import",
    "program": "loyalty program",
    "transaction": "ledger transaction",
}


def first_address(path: Mapping[str, Any], names: Collection[str], now: datetime) -> Address[Any] | None:
    """The address of a path's first record, if it can be read together with the organization."""
    for name, value in _records_of(path):
        lookup = (HOLDERS if HOLDER in names else _MEMBERS).get(name)
        return None if lookup is None else Address(lookup, value, now)
    return None


def resolve_addresses(call: Call, path: Mapping[str, Any], names: Collection[str], first: Any = None) -> dict[str, Any]:
    """The handler's arguments, of these names, for a path's parameters.

    `first` is the record of the first parameter, if it was read already. Raises NotFound naming the first parameter
    without a record.
    """
    arguments: dict[str, Any] = {}
    for name, value in _records_of(path):
        if name == "loyaltyMemberId":
            _refuse_other_members(call, value)
        is_holder = HOLDER in names and name in HOLDERS
        argument, resolve = (HOLDER, _by(HOLDERS[name])) if is_holder else ADDRESSES[name]
        record = resolve(call, value, arguments) if first is None else first
        arguments[argument] = _existing(record, argument, name, value)
        first = None
    return arguments


def offered_arguments(parameters: Iterable[str]) -> set[str]:
    """The arguments that handlers may name for the parameters of a path."""
    records = {name for name in parameters if name != "organizationId"}
    return {ADDRESSES[name][0] for name in records} | ({HOLDER} if records & HOLDERS.keys() else set())


@dataclass(frozen=True, slots=True)
class _Set:
    """How many records are found by their addresses with one statement; `address` is the attribute that is the address.

    `inside` names the argument that a record belongs to, and the attribute that both have then.
    """

    find_all: Callable[[Connection, int, Collection[Any]], Iterable[Any]]
    address: str
    inside: tuple[str, str] | None = None


# The addresses of operations that are done together.
_SETS: Mapping[str, _Set] = {
    "loyaltyMemberId": _Set(MEMBERS.all_by("loyalty_member_id"), "loyalty_member_id"),
    "memberId": _Set(MEMBERS.all_by("member_id"), "member_id"),
    "missionId": _Set(MISSIONS.all_by("mission_id"), "mission_id"),
    "badgeKey": _Set(BADGES.all_by("badge_key"), "badge_key"),
    "couponBookKey": _Set(BOOKS.all_by("coupon_book_key"), "coupon_book_key"),
    "couponUsageKey": _Set(USAGES.all_by("coupon_usage_key"), "coupon_usage_key", inside=("member", "member_id")),
    "ledgerId": _Set(LEDGERS.all_by("ledger_id"), "ledger_id"),
    "ledgerAccountId": _Set(ACCOUNTS.all_by("ledger_account_id"), "ledger_account_id", inside=("ledger", "ledger_id")),
    "walletId": _Set(WALLETS.all_by("wallet_id"), "wallet_id", inside=("ledger", "ledger_id")),
}


def are_found_in_sets(parameters: Iterable[str]) -> bool:
    """True if `resolve_all_addresses` knows all parameters of a path."""
    return all(name in _SETS for name in parameters if name != "organizationId")


def resolve_all_addresses(calls: Sequence[Call], paths: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | NotFound]:
    """The arguments for the paths of calls of one operation and organization, or the refusal of each.

    One statement for each parameter of the path, however many calls there are.
    """
    all_arguments: list[dict[str, Any]] = [{} for _ in paths]
    refused: dict[int, NotFound] = {}
    for name, _ in _records_of(paths[0]):
        lookup, argument = _SETS[name], ADDRESSES[name][0]
        values = {path[name] for path in paths}
        records = {
            getattr(record, lookup.address): record
            for record in lookup.find_all(calls[0].db, calls[0].organization.organization_id, values)
        }
        for position, path in enumerate(paths):
            record = records.get(path[name])
            if record is not None and lookup.inside is not None and position not in refused:
                parent, shared = lookup.inside
                record = record if getattr(record, shared) == getattr(all_arguments[position][parent], shared) else None
            try:
                all_arguments[position][argument] = _existing(record, argument, name, path[name])
            except NotFound as refusal:
                refused.setdefault(position, refusal)
    return [refused.get(position, arguments) for position, arguments in enumerate(all_arguments)]


def _records_of(path: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """The parameters of a path that address records, in its order."""
    return ((name, value) for name, value in path.items() if name != "organizationId")


def _existing(record: Any, argument: str, name: str, value: Any) -> Any:
    """The record that a parameter addresses; raises NotFound if there is none."""
    if record is None:
        noun = _NOUNS.get(argument, argument.replace("_", " "))
        raise NotFound(f"There is no {noun} with the {name} {str(value)[:LONGEST_NAME]}.")
    return record
