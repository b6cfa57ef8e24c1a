"""Checks of referral programs before they are saved."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.calendar import with_offsets, zone_faults
from domain.ledger.availability import NONE, Availability
from domain.ledger.refusals import UnknownLedgerAccount, unknown_account
from domain.ledger.session.balances import refuse_fractions
from domain.problems import FieldFault, InvalidRequest
from domain.referrals import MAX_REFERRALS, REFERRED, REFERRER, ReferralProgram
from handlers.call import Call
from handlers.messages.base import LocalMoment
from handlers.services import references
from handlers.services.configuration import Configuration, configuration_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferralProgramProperties:
    """The writable fields of a referral program."""

    loyalty_program_id: int | None = None
    name: str
    description: str | None = None
    picture_url: str | None = None
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    active: bool
    valid_from_date: LocalMoment | None = None
    valid_to_date: LocalMoment | None = None
    timezone: str | None = None
    max_per_code: int
    max_referrals_per_member: int = MAX_REFERRALS
    max_redeems_per_referred_member_per_code: int | None = None
    campaign_id: int | None = None
    audience_id: int | None = None
    tags: Sequence[str] = ()
    code: str
    event_type: str
    referrer_points_accrual: Decimal | None = None
    referrer_ledger_id: int | None = None
    referrer_ledger_account_id: int | None = None
    referrer_coupon_book_key: str | None = None
    referred_points_accrual: Decimal | None = None
    referred_ledger_id: int | None = None
    referred_ledger_account_id: int | None = None
    referred_coupon_book_key: str | None = None
    available_at: datetime | None = None
    available_after: str | None = None
    available_rounding: str = NONE
    available_on: Mapping[str, Any] | None = field(default=None, metadata={"omit_none": True})
    external_key: str | None = None


def validated_program(
    call: Call, body: ReferralProgramProperties, before: ReferralProgram | None
) -> ReferralProgramProperties:
    """The program to store; refuses unknown references, an end before its begin, and rewards that cannot be paid.

    The event type that the stored program (`before`) already has is not checked again: it may be inactive by now.
    """
    body = with_offsets(body, ("valid_from_date", "valid_to_date"), call.organization.timezone)
    valid_from, valid_to = body.valid_from_date, body.valid_to_date
    faults = zone_faults(body.timezone)
    if valid_from and valid_to and valid_to < valid_from:
        faults.append(FieldFault("validToDate is before validFromDate", pointer="/validToDate"))
    faults += _faults_of_availability(body)
    if faults:
        raise InvalidRequest(faults)
    configuration = configuration_of(call.db, call.organization)
    references.refuse_unknown(
        call, loyalty_program=body.loyalty_program_id, campaign=body.campaign_id, audience=body.audience_id
    )
    if before is None or body.event_type != before.event_type:
        references.refuse_unknown_event_type(configuration, body.event_type)
    for side in (REFERRER, REFERRED):
        _refuse_unpayable_reward(call, configuration, body, side)
    return references.with_checked_awaited_event(call, body, before)


def _faults_of_availability(body: ReferralProgramProperties) -> list[FieldFault]:
    """The faults of the terms of availability: contradictions, or any terms if the program pays no points."""
    terms = Availability.from_fields_of(body)
    if terms is None:
        return []
    if body.referrer_points_accrual is not None or body.referred_points_accrual is not None:
        return terms.field_faults()
    without = "without referrerPointsAccrual and referredPointsAccrual"
    return [FieldFault(f"{name} is given {without}", pointer=f"/{name}") for name in terms.term_names]


def _refuse_unpayable_reward(
    call: Call, configuration: Configuration, body: ReferralProgramProperties, side: str
) -> None:
    """Refuse a reward of the referrer or the referred member (`side`) that could not be paid."""
    ledger_id, book_key = getattr(body, f"{side}_ledger_id"), getattr(body, f"{side}_coupon_book_key")
    if ledger_id is not None:
        references.refuse_other_ledger(call, references.ledger_or_default(call, ledger_id))
    if book_key is not None:
        references.coupon_book(call, book_key)
    account_id, points = getattr(body, f"{side}_ledger_account_id"), getattr(body, f"{side}_points_accrual")
    if account_id is None:
        account = configuration.main_accounts.get(body.loyalty_program_id)
    else:
        account = configuration.accounts.get(account_id)
        if account is None:
            raise UnknownLedgerAccount(unknown_account(ledger_id=None, ledger_account_id=account_id))
    if not points:
        return
    if account is None:
        raise UnknownLedgerAccount(
            f"{side}PointsAccrual has no account: the default ledger has no default account. "
            f"Send {side}LedgerAccountId, or create a default account."
        )
    refuse_fractions(account, points, f"{side}PointsAccrual")
