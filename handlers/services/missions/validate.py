"""Checks of a mission before it is saved: its fields are consistent, and its references exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.audiences import UnknownAudience
from domain.badges import UnknownBadge
from domain.campaigns.references import unknown_keys, unknown_matchers
from domain.coupons.books import UnknownCouponBook
from domain.events import UnknownCampaign
from domain.ledger.records import LedgerAccount
from domain.ledger.refusals import (
    UnknownLedger,
    UnknownLedgerAccount,
    WalletNotInLedger,
    unknown_ledger,
)
from domain.ledger.session import round_down
from domain.matchers import UnknownMatcher, compile_matcher
from domain.missions.counting import count_sources
from domain.missions.records import Mission
from domain.missions.rules import INLINE_MATCHER, faults_of
from domain.problems import FieldFault, InvalidRequest
from domain.programs import UnknownLoyaltyProgram
from domain.timezones import localize, zone_faults
from handlers.call import Call
from handlers.services.configuration import configuration_of, refuse_unknown_event_type
from handlers.services.known_keys import known_keys
from persistence import audiences, campaigns, ledger, matchers, programs
from persistence.coupons import books


def validate_mission(call: Call, body: dict[str, Any], before: Mission | None) -> None:
    """Refuse a mission whose fields (by inside names) contradict each other, or with unknown references.

    The event type that it named `before` may have been deactivated since, and records that its expression named may be
    gone.

    Raises InvalidRequest with every fault, else NotFound of its kind, or WalletNotInLedger.
    """
    localize(body, ("valid_from", "valid_to"), call.organization.timezone)
    faults = [*zone_faults(body["timezone"]), *faults_of(body)]
    if body["inline_matcher"] is not None:
        try:
            compile_matcher(body["inline_matcher"], INLINE_MATCHER)
        except InvalidRequest as refusal:
            faults += refusal.faults
    if body["count_expression"] is not None and (before is None or body["count_expression"] != before.count_expression):
        faults += _faults_of_count(call, body["count_expression"])
    if faults:
        raise InvalidRequest(faults)
    if before is None or body["event_type"] != before.event_type:
        refuse_unknown_event_type(configuration_of(call.db, call.organization), body["event_type"])
    _refuse_unknown_records(call, body)
    _refuse_unknown_badges(call, body)
    _refuse_unknown_book(call, body)
    _check_points(call, body)


def _faults_of_count(call: Call, expression: str) -> list[FieldFault]:
    """The faults of a count expression, including unknown keys."""
    try:
        sources = count_sources(expression)
    except InvalidRequest as refusal:
        return list(refusal.faults)
    configuration = configuration_of(call.db, call.organization)
    known = known_keys(call.db, configuration, sources)
    return [*unknown_matchers(sources, configuration.matcher_keys), *unknown_keys(sources, known)]


def _refuse_unknown_records(call: Call, body: Mapping[str, Any]) -> None:
    for name, find, unknown, what in _REFERENCES:
        wanted = body[name]
        if wanted is not None and find(call.db, call.organization.organization_id, wanted) is None:
            raise unknown(f"There is no {what} {wanted}.")


_REFERENCES = (
    ("loyalty_program_id", programs.find, UnknownLoyaltyProgram, "loyalty program"),
    ("campaign_id", campaigns.find, UnknownCampaign, "campaign"),
    ("audience_id", audiences.find, UnknownAudience, "audience"),
    ("matcher_id", matchers.find, UnknownMatcher, "matcher"),
)


def _refuse_unknown_badges(call: Call, body: dict[str, Any]) -> None:
    known = configuration_of(call.db, call.organization).badges
    matcher = body["badge_matcher"]
    if matcher is not None:
        conditions = [{**condition, "badgeKey": condition["badgeKey"].lower()} for condition in matcher["conditions"]]
        body["badge_matcher"] = {**matcher, "conditions": conditions}
    named = [] if matcher is None else [condition["badgeKey"] for condition in body["badge_matcher"]["conditions"]]
    if body["badge_key"] is not None:
        body["badge_key"] = body["badge_key"].lower()
        named.append(body["badge_key"])
    for key in named:
        if key not in known:
            raise UnknownBadge(f"There is no badge with the key {key}.")


def _refuse_unknown_book(call: Call, body: dict[str, Any]) -> None:
    if body["coupon_book_key"] is not None:
        key = body["coupon_book_key"] = body["coupon_book_key"].lower()
        if books.find_by_key(call.db, call.organization.organization_id, key) is None:
            raise UnknownCouponBook(f"There is no coupon book with the key {key}.")


def _check_points(call: Call, body: Mapping[str, Any]) -> None:
    """Refuse a reward whose account cannot be held by members' wallets, or whose amount the account cannot move."""
    amount = body["points_accrual"]
    if amount is None:
        return
    account = _account(call, body["ledger_id"], body["ledger_account_id"])
    if amount != round_down(account, amount):
        detail = f"pointsAccrual has more than the {account.decimals} fraction digits of this account"
        raise InvalidRequest([FieldFault(detail, pointer="/pointsAccrual")])
    if body["manual_expiration"] is not None and not account.point_tracking_enabled:
        detail = "manualExpiration needs a ledger account with pointTrackingEnabled, whose points can expire"
        raise InvalidRequest([FieldFault(detail, pointer="/manualExpiration")])


def _account(call: Call, ledger_id: int | None, ledger_account_id: int | None) -> LedgerAccount:
    organization_id, default_id = call.organization.organization_id, call.organization.default_ledger_id
    wanted = default_id if ledger_id is None else ledger_id
    if wanted is None or ledger.find_ledger(call.db, organization_id, wanted) is None:
        raise UnknownLedger(unknown_ledger(wanted))
    if ledger_account_id is None:
        account = ledger.find_default_account(call.db, organization_id, wanted)
    else:
        account = ledger.find_account(call.db, organization_id, ledger_account_id)
    if account is None or (ledger_id is not None and account.ledger_id != ledger_id):
        named = "no default account" if ledger_account_id is None else f"no account {ledger_account_id}"
        raise UnknownLedgerAccount(f"The ledger {wanted} has {named}.")
    if account.ledger_id != default_id:
        raise WalletNotInLedger("Members' wallets are in the organization's default ledger.")
    return account
