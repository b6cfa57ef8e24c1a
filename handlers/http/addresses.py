"""The addresses of records in paths: one table by which an address becomes a record, or a 404.

An address is always looked up inside the caller's organization, so that the existence of another tenant's records is
never revealed. Addresses are resolved in the order of the path, and a nested record must belong to the one before it.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from domain.content.documents import DEFAULT_LOCALE, DEFAULT_LOCALE_IN_PATHS, DocumentAddress
from domain.members import AmbiguousMember
from domain.problems import MAX_NAME_LENGTH, NotFound
from handlers.call import Call
from persistence import member_lookups, members, users
from persistence.audiences import AUDIENCES
from persistence.badges import BADGES, TRACKINGS
from persistence.campaigns import ACTIONS, CAMPAIGNS, STACKING_GROUPS
from persistence.content import collections
from persistence.coupons import codes
from persistence.coupons.books import BOOKS
from persistence.coupons.codes import COUPONS
from persistence.coupons.locks import LOCKS
from persistence.coupons.usages import USAGES
from persistence.event_types import EVENT_TYPES
from persistence.events import EVENTS
from persistence.exports import EXPORTS
from persistence.imports import IMPORTS
from persistence.ledger import ACCOUNTS, LEDGERS
from persistence.ledger_transactions import TRANSACTIONS
from persistence.ledger_wallets import WALLETS
from persistence.matchers import MATCHERS
from persistence.members import MEMBERS
from persistence.missions import MISSIONS
from persistence.offline_allowances import ALLOWANCES
from persistence.orders import ORDERS
from persistence.partners import PARTNER_API_KEYS
from persistence.permission_groups import PERMISSION_GROUPS
from persistence.points_payments import PAYMENTS
from persistence.portals import PORTALS
from persistence.programs import PROGRAMS, TIERS
from persistence.records import Lookup, Records
from persistence.referrals import REFERRAL_CODES, REFERRAL_PROGRAMS
from persistence.triggers import DELIVERIES, TRIGGERS

# The path parameter that names the organization of a call, which is found before all others.
ORGANIZATION = "organizationId"

# A function that finds records, from a call, the values of a path parameter, and the records of the parameters before
# it by argument. It returns the records by value; a value without a record is left out or has None.
Find = Callable[[Call, Collection[Any], Mapping[str, Any]], Mapping[Any, Any]]


@dataclass(frozen=True, slots=True)
class PathAddress:
    """The kind of records that a path parameter addresses; `argument` is the name under which handlers get the record.

    If `is_batched`, `find` sends one statement for any number of values, and needs no records of earlier parameters. A
    nested record has `inside`: the argument of the record to which it belongs, and the attribute that is equal in both.
    """

    argument: str
    find: Find
    inside: tuple[str, str] | None = None
    is_batched: bool = False

    def contains(self, record: Any, arguments: Mapping[str, Any]) -> bool:
        """True if a nested record belongs to the record that the path names before it, or the path names none."""
        assert self.inside is not None
        parent_argument, attribute = self.inside
        if parent_argument not in arguments:
            return True
        return bool(getattr(record, attribute) == getattr(arguments[parent_argument], attribute))

    def not_found(self, name: str, value: Any) -> NotFound:
        """The refusal of a value of the path parameter `name` that addresses no record."""
        noun = _NOUNS.get(self.argument, self.argument.replace("_", " "))
        return NotFound(f"There is no {noun} with the {name} {str(value)[:MAX_NAME_LENGTH]}.")


def _address_by_function(argument: str, find: Callable[..., Any], inside: tuple[str, str] | None = None) -> PathAddress:
    """An address whose records are found individually, by `find(db, organization_id, value)`."""

    def find_each(call: Call, values: Collection[Any], parents: Mapping[str, Any]) -> Mapping[Any, Any]:
        return {value: find(call.db, call.organization.organization_id, value) for value in values}

    return PathAddress(argument, find_each, inside)


def _address_by_column(
    argument: str, records: Records[Any], column: str, inside: tuple[str, str] | None = None
) -> PathAddress:
    """An address that is the value of a column; one statement finds the records of all values."""

    def find(call: Call, values: Collection[Any], parents: Mapping[str, Any]) -> Mapping[Any, Any]:
        organization_id = call.organization.organization_id
        if len(values) == 1:
            [value] = values
            return {value: records.find_by(call.db, organization_id, **{column: value})}
        existing_records = records.find_all(call.db, organization_id, **{column: values})
        by_address = {getattr(record, column): record for record in existing_records}
        # A generated key may be sent in capitals.
        return {value: by_address.get(value.lower() if column.endswith("_key") else value) for value in values}

    return PathAddress(argument, find, inside, is_batched=True)


def _address_without_lookup(argument: str, read: Callable[[Any], Any] = lambda value: value) -> PathAddress:
    """An address that is not looked up here: the handler gets its value, after `read`."""
    return PathAddress(argument, lambda call, values, parents: {value: read(value) for value in values})


_ID = re.compile("[1-9][0-9]{0,17}")


def _finder_by_id_or(find_by_id: Callable[..., Any], find_by_name: Callable[..., Any]) -> Callable[..., Any]:
    """A function that finds a record by its id or its name: up to 18 digits without a leading zero are an id.

    Only the form decides, never the existing records, so that an identifier always means the same record. It is
    for records whose names cannot look like an id.
    """

    def find(db: Any, organization_id: int, value: str) -> Any:
        if _ID.fullmatch(value):
            return find_by_id(db, organization_id, int(value))
        return find_by_name(db, organization_id, value)

    return find


_BY_MEMBER_ID = "memberId:"
_BY_LOYALTY_MEMBER_ID = "loyaltyMemberId:"


def _identified_member(db: Connection, organization_id: int, identifier: str) -> Any:
    """The member with this identifier; None if there is none.

    A prefix names the id that follows. Without a prefix, digits can be either id, other texts a
    `loyaltyMemberId`. Raises AmbiguousMember for digits that are the `memberId` of one member and the `loyaltyMemberId`
    of another.
    """
    if identifier.startswith(_BY_LOYALTY_MEMBER_ID):
        return MEMBERS.find_by(db, organization_id, loyalty_member_id=identifier[len(_BY_LOYALTY_MEMBER_ID) :])
    if identifier.startswith(_BY_MEMBER_ID):
        digits = identifier[len(_BY_MEMBER_ID) :]
        return MEMBERS.find(db, organization_id, int(digits)) if _ID.fullmatch(digits) else None
    if not _ID.fullmatch(identifier):
        return MEMBERS.find_by(db, organization_id, loyalty_member_id=identifier)
    matching_members = members.find_all_by_either_id(db, organization_id, int(identifier), identifier)
    if len(matching_members) > 1:
        raise AmbiguousMember(
            f"The memberIdentifier {identifier} is the memberId of one member and the loyaltyMemberId of another. "
            f"Write {_BY_MEMBER_ID}{identifier} or {_BY_LOYALTY_MEMBER_ID}{identifier} to name one of them."
        )
    return matching_members[0] if matching_members else None


_IN_MEMBER = ("member", "member_id")
_IN_LEDGER = ("ledger", "ledger_id")

# By path parameter.
ADDRESSES: Mapping[str, PathAddress] = {
    "loyaltyMemberId": _address_by_column("member", MEMBERS, "loyalty_member_id"),
    "memberId": _address_by_column("member", MEMBERS, "member_id"),
    "memberIdentifier": _address_by_function("member", _identified_member),
    "badgeKey": _address_by_column("badge", BADGES, "badge_key"),
    "badgeIdentifier": _address_by_function("badge", _finder_by_id_or(BADGES.find, BADGES.finder_by("badge_key"))),
    "badgeTrackingKey": _address_by_function("badge_tracking", TRACKINGS.finder_by("badge_tracking_key"), _IN_MEMBER),
    "badgeTrackingIdentifier": _address_by_function(
        "badge_tracking", _finder_by_id_or(TRACKINGS.find, TRACKINGS.finder_by("badge_tracking_key")), _IN_MEMBER
    ),
    "loyaltyProgramId": _address_by_function("program", PROGRAMS.find),
    "loyaltyProgramKey": _address_by_function("program", PROGRAMS.finder_by("loyalty_program_key")),
    "loyaltyTierId": _address_by_function("tier", TIERS.find, ("program", "loyalty_program_id")),
    "ledgerId": _address_by_column("ledger", LEDGERS, "ledger_id"),
    "ledgerAccountId": _address_by_column("account", ACCOUNTS, "ledger_account_id", _IN_LEDGER),
    "ledgerTransactionId": _address_by_function("transaction", TRANSACTIONS.find, ("account", "ledger_account_id")),
    "walletId": _address_by_column("wallet", WALLETS, "wallet_id", _IN_LEDGER),
    "pointsPaymentKey": _address_by_column("points_payment", PAYMENTS, "points_payment_key"),
    "couponLockKey": _address_by_function("coupon_lock", LOCKS.finder_by("coupon_lock_key")),
    "offlineAllowanceKey": _address_by_column("offline_allowance", ALLOWANCES, "offline_allowance_key"),
    "campaignId": _address_by_function("campaign", CAMPAIGNS.find),
    "actionId": _address_by_function("action", ACTIONS.find, ("campaign", "campaign_id")),
    "stackingGroupId": _address_by_function("stacking_group", STACKING_GROUPS.find),
    "matcherId": _address_by_function("matcher", MATCHERS.find),
    "matcherKey": _address_by_function("matcher", MATCHERS.finder_by("matcher_key")),
    "audienceId": _address_by_function("audience", AUDIENCES.find),
    "triggerId": _address_by_function("trigger", TRIGGERS.find),
    "triggerDeliveryId": _address_by_function("delivery", DELIVERIES.find, ("trigger", "trigger_id")),
    "missionId": _address_by_column("mission", MISSIONS, "mission_id"),
    "couponBookKey": _address_by_column("book", BOOKS, "coupon_book_key"),
    "couponBookId": _address_by_function("book", BOOKS.find),
    "couponId": _address_by_function("coupon", COUPONS.find, ("book", "coupon_book_id")),
    "couponCode": PathAddress(
        "coupon",
        lambda call, values, parents: {code: codes.find_by_code(call.db, parents["book"], code) for code in values},
    ),
    "couponUsageKey": _address_by_column("coupon_usage", USAGES, "coupon_usage_key", _IN_MEMBER),
    "couponUsageId": _address_by_function("coupon_usage", USAGES.find),
    "referralProgramId": _address_by_function("referral_program", REFERRAL_PROGRAMS.find),
    "referralCodeId": _address_by_function(
        "referral_code", REFERRAL_CODES.find, ("referral_program", "referral_program_id")
    ),
    "portalId": _address_by_function("portal", PORTALS.find),
    "partnerApiKeyId": _address_by_function("partner_api_key", PARTNER_API_KEYS.find),
    "collectionKeyOrSlug": _address_by_function("collection", collections.find),
    # Which content document has the slug depends on the locale, which the path or the query names later.
    "documentKeyOrSlug": _address_without_lookup("document", DocumentAddress),
    "locale": _address_without_lookup(
        "locale", lambda name: DEFAULT_LOCALE if name == DEFAULT_LOCALE_IN_PATHS else name
    ),
    "apiCode": _address_by_function("event_type", EVENT_TYPES.find),
    "orderId": _address_by_function("order", ORDERS.find, _IN_MEMBER),
    "loyaltyEventKey": _address_by_function("event", EVENTS.finder_by("loyalty_event_key")),
    "userId": _address_by_function("user", users.find),
    "permissionGroupKey": _address_by_function("permission_group", PERMISSION_GROUPS.finder_by("permission_group_key")),
    "importId": _address_by_function("import_job", IMPORTS.find),
    "exportId": _address_by_function("export_job", EXPORTS.find),
    "partNumber": _address_without_lookup("part_number"),
    # The catalogue of effects is the product's own: the handler looks the id up in it.
    "effectId": _address_without_lookup("effect_id"),
}


def _with_holdings(lookup: Lookup[Any]) -> PathAddress:
    """An address of members whom the lookup finds with tiers and balances."""
    return PathAddress(
        HOLDER,
        lambda call, values, parents: lookup.find(call.db, call.organization, values, call.now),
        is_batched=True,
    )


# The argument of handlers that need a member with tiers and balances, which one statement finds together.
HOLDER = "holder"
_HOLDER_LOOKUPS: Mapping[str, Lookup[Any]] = {
    "loyaltyMemberId": member_lookups.HOLDER_BY_LOYALTY_MEMBER_ID,
    "memberId": member_lookups.HOLDER_BY_ID,
}
_HOLDERS = {name: _with_holdings(lookup) for name, lookup in _HOLDER_LOOKUPS.items()}
_MEMBER_LOOKUPS: Mapping[str, Lookup[Any]] = {
    "loyaltyMemberId": member_lookups.BY_LOYALTY_MEMBER_ID,
    "memberId": member_lookups.BY_ID,
}

# The nouns for records in 404s, unless the argument's name is clear.
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


def addresses_of(parameters: Iterable[str], arguments: Collection[str]) -> tuple[tuple[str, PathAddress], ...]:
    """The path parameters that address records, each with its address.

    `arguments` are those of the handler. If HOLDER is one of them, members are found with their tiers and balances.
    """
    by_name = {**ADDRESSES, **_HOLDERS} if HOLDER in arguments else ADDRESSES
    return tuple((name, by_name[name]) for name in parameters if name in by_name)


def first_lookup(parameters: Iterable[str], arguments: Collection[str]) -> Lookup[Any] | None:
    """The lookup that finds the first record of a path by the same statement as the organization; None without one."""
    lookups = _HOLDER_LOOKUPS if HOLDER in arguments else _MEMBER_LOOKUPS
    return next((lookups.get(name) for name in parameters if name != ORGANIZATION), None)


def offered_arguments(parameters: Iterable[str]) -> set[str]:
    """The arguments that handlers may name for the parameters of a path."""
    records = {name for name in parameters if name != ORGANIZATION}
    return {ADDRESSES[name].argument for name in records} | ({HOLDER} if records & _HOLDERS.keys() else set())
