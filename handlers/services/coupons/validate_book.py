"""Checks the references of a coupon book before it is saved: program, tiers, audiences, the account of its points."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.coupons.book_rules import check_book
from domain.coupons.books import CouponBook, pattern_of
from domain.fields import Key, wire_name
from domain.ledger.records import fraction_fault
from domain.ledger.refusals import UnknownLedger, UnknownLedgerAccount
from domain.problems import FieldFault, InvalidRequest
from domain.programs import UnknownTier
from handlers.call import Call
from handlers.messages.base import Changes, values_of
from handlers.services import references
from handlers.services.configuration import configuration_of
from persistence.ledger import LEDGERS
from persistence.programs import PROGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class CouponBookProperties:
    """The writable fields of a coupon book on both surfaces."""

    external_id: str | None = None
    current_version_id: int | None = None
    name: str
    description: str | None = None
    subtitle: str | None = None
    picture_url: str | None = None
    detail_picture_url: str | None = None
    images: Mapping[str, str] = field(default_factory=dict)
    ranking_index: Decimal | None = None
    discount_amount: Decimal | None = None
    discount_type: str | None = None
    max_coupon_count: int | None = None
    max_assigned_per_member: int | None = None
    max_assigned_per_coupon: int | None = None
    valid_from_date: datetime | None = None
    valid_to_date: datetime | None = None
    max_discount_per_period: Decimal | None = None
    discount_period_type: str | None = None
    max_usages_per_period: int | None = None
    usage_period_type: str | None = None
    timezone: str | None = None
    max_discount_per_use: Decimal | None = None
    min_order_total: Decimal | None = None
    restore_on_cancel: bool = True
    face_value: Decimal | None = None
    day_of_week_schedule: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    assignment_required_points: Decimal | None = None
    usage_required_points: Decimal | None = None
    required_points_config: Mapping[str, str] | None = field(default=None, metadata={"omit_none": True})
    tags: Sequence[str] = ()
    audience_keys: Sequence[Key] = ()
    locations: Sequence[str] = ()
    categories: Sequence[str] = ()
    product_categories: Sequence[str] = ()
    payment_methods: Sequence[str] = ()
    channels: Sequence[str] = ()
    content_schema_id: int | None = None
    content_schema_version_id: int | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    condition: Mapping[str, Any] = field(default_factory=dict)
    tier_keys: Sequence[Key] = ()
    code_pattern: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    locale: str | None = None
    content: Mapping[str, Any] = field(default_factory=dict)
    is_default_locale: bool | None = None
    default_locale: str | None = None
    external_key: str | None = None


def checked_book_values(
    call: Call, changes: Changes[CouponBookProperties], before: CouponBook | None
) -> dict[str, Any]:
    """Check the values of a book that a request sets; complete and return them.

    `before` is None for a new book. Refuses contradictions in the resulting book, and unknown or unsuitable references:
    raises InvalidRequest, or the NotFound of the kind of record.
    """
    values = values_of(changes.of(before))
    check_book(values if before is None else asdict(before) | values)
    changed_values = values if before is None else {name: values[name] for name in changes.fields}
    _complete_program(call, changed_values)
    _complete_tiers(call, changed_values, are_both_sent=changes.fields.keys() >= {"tier_keys", "tiers"})
    references.refuse_unknown_audiences(call, changed_values.get("audience_keys", ()))
    if changed_values.get("required_points_config") is not None:
        changed_values["required_points_config"] = _complete_points_config(
            call, changed_values["required_points_config"]
        )
    _refuse_fractions_of_points(call, values | changed_values)
    if changed_values.get("code_pattern") is not None:
        changed_values["code_pattern"] = pattern_of(changed_values["code_pattern"]).as_document()
    return changed_values


def _complete_program(call: Call, values: dict[str, Any]) -> None:
    """Complete the program in the `values` of a book: one surface sends its key, the other its id; both are stored."""
    organization_id = call.organization.organization_id
    for sent_name, derived_name in (
        ("loyalty_program_key", "loyalty_program_id"),
        ("loyalty_program_id", "loyalty_program_key"),
    ):
        if sent_name not in values or derived_name in values:
            continue
        program = None
        if values[sent_name] is not None:
            program = PROGRAMS.find_by(call.db, organization_id, **{sent_name: values[sent_name]})
            if program is None:
                raise references.unknown_loyalty_program(values[sent_name])
        values[derived_name] = None if program is None else getattr(program, derived_name)


def _complete_tiers(call: Call, values: dict[str, Any], are_both_sent: bool) -> None:
    """Complete the tiers in the `values` of a book: `tierKeys` and the deprecated `tiers` are the same restriction.

    Raises UnknownTier, or InvalidRequest if the request sends both and they name different tiers.
    """
    if "tier_keys" not in values and "tiers" not in values:
        return
    keys_by_id = configuration_of(call.db, call.organization).tier_keys
    ids_by_key = {key: tier_id for tier_id, key in keys_by_id.items()}
    unknown_tiers = [key for key in values.get("tier_keys", ()) if key not in ids_by_key]
    unknown_tiers += [str(tier_id) for tier_id in values.get("tiers", ()) if tier_id not in keys_by_id]
    if unknown_tiers:
        raise UnknownTier(f"There is no tier {unknown_tiers[0]}.")
    keys_of_tiers = [keys_by_id[tier_id] for tier_id in values.get("tiers", ())]
    # The values of a new book have both names, with an empty list for the one that was not sent.
    keys = values.get("tier_keys") or keys_of_tiers
    if are_both_sent and set(keys_of_tiers) != set(values["tier_keys"]):
        raise InvalidRequest(
            [FieldFault("tiers and tierKeys name different tiers; send only tierKeys", pointer="/tiers")]
        )
    values["tier_keys"] = keys
    values["tiers"] = [ids_by_key[key] for key in values["tier_keys"]]


def _refuse_fractions_of_points(call: Call, values: Mapping[str, Any]) -> None:
    """Refuse points with more fraction digits than the account allows; `values` are the fields of the book."""
    config = values["required_points_config"]
    if not config:
        return
    account = configuration_of(call.db, call.organization).accounts_by_key.get(config["ledgerAccountKey"])
    if account is None:
        return
    points_fields = ("assignment_required_points", "usage_required_points")
    faults = [fraction_fault(wire_name(name), values[name], account.decimals) for name in points_fields]
    if any(faults):
        raise InvalidRequest([fault for fault in faults if fault])


def _complete_points_config(call: Call, config: dict[str, str]) -> dict[str, str]:
    """Return the lower-case key of the account that pays for a use, with the key of its ledger, the default ledger.

    Raises UnknownLedger or UnknownLedgerAccount.
    """
    organization = call.organization
    ledger = None
    if organization.default_ledger_id is not None:
        ledger = LEDGERS.find(call.db, organization.organization_id, organization.default_ledger_id)
    ledger_key = config.get("ledgerKey")
    if ledger is None or (ledger_key is not None and ledger_key.lower() != ledger.ledger_key):
        raise UnknownLedger(f"The default ledger does not have the key {ledger_key}.")
    account_key = config["ledgerAccountKey"].lower()
    if account_key not in configuration_of(call.db, organization).accounts_by_key:
        raise UnknownLedgerAccount(f"The default ledger has no account with the key {account_key}.")
    return {"ledgerKey": ledger.ledger_key, "ledgerAccountKey": account_key}
