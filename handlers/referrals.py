"""Referral programs, their codes and logs (administration "Referrals")."""

from collections.abc import Mapping
from typing import Any

from domain.ledger.refusals import UnknownLedgerAccount, unknown_account
from domain.ledger.session import round_down
from domain.members import MemberInactive
from domain.problems import FieldFault, InvalidRequest
from domain.referrals import (
    REFERRED,
    REFERRER,
    LeaderboardRow,
    ProgramTotals,
    ReferralCode,
    ReferralLog,
    ReferralProgram,
)
from domain.timezones import localized, zone_faults
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import listed, results, values_of, wrapped
from handlers.operation import operation
from handlers.schemas.referrals import (
    CODE,
    LEADERBOARD_ROW,
    LOG,
    NEW_CODES,
    PROGRAM_BODY,
    PROGRAM_CHANGES,
    NewReferralCodes,
    ReferralProgramProperties,
    program_record,
)
from handlers.services import references
from handlers.services.configuration import Configuration, configuration_of
from persistence import referrals
from persistence.paging import Page, Paged
from persistence.referrals.lists import REFERRAL_CODES, REFERRAL_PROGRAMS

ProgramWithTotals = tuple[ReferralProgram, ProgramTotals]

_AUDITED = Audited(
    # The totals of a program are not part of its changes.
    "referral-program",
    "referral_program_id",
    PROGRAM_BODY,
    records=lambda result: result[:1],
)


@operation("listReferralPrograms", answer=listed(program_record))
def list_referral_programs(call: Call, query: Mapping[str, Any]) -> Paged[ProgramWithTotals]:
    """A page of programs."""
    organization_id = call.organization.organization_id
    page = REFERRAL_PROGRAMS.find_page(call.db, organization_id, query)
    totals = referrals.totals_of(call.db, organization_id, [result.referral_program_id for result in page.results])
    rows = [(result, totals[result.referral_program_id]) for result in page.results]
    return page.showing(rows)


@operation(
    "createReferralProgram",
    body=PROGRAM_BODY,
    answer=wrapped("referralProgram", program_record),
    audit=_AUDITED,
    changes_configuration=True,
)
def create_referral_program(call: Call, body: ReferralProgramProperties) -> ProgramWithTotals:
    """Create a program, which has no codes yet."""
    values = {"referral_program_key": call.new_key(), **values_of(_validated(call, body, None))}
    program = REFERRAL_PROGRAMS.add(call.db, call.organization.organization_id, values, call.now)
    return program, ProgramTotals()


@operation("getReferralProgram", answer=wrapped("referralProgram", program_record))
def get_referral_program(call: Call, referral_program: ReferralProgram) -> ProgramWithTotals:
    """One program."""
    return _with_totals(call, referral_program)


@operation(
    "updateReferralProgram",
    body=PROGRAM_CHANGES,
    merge_into="referral_program",
    answer=wrapped("referralProgram", program_record),
    audit=_AUDITED.changing("referral_program"),
    changes_configuration=True,
)
def update_referral_program(
    call: Call, referral_program: ReferralProgram, body: ReferralProgramProperties
) -> ProgramWithTotals:
    """Change a program; all processes use the change from their next event on."""
    properties = _validated(call, body, referral_program)
    changed = REFERRAL_PROGRAMS.store(call.db, referral_program, values_of(properties), call.now)
    return _with_totals(call, changed)


@operation(
    "createReferralCodes",
    body=NEW_CODES,
    answer=results(CODE, "referrals"),
    audit=Audited("referral-code", "referral_code_id", CODE, records=iter),
)
def create_referral_codes(call: Call, referral_program: ReferralProgram, body: NewReferralCodes) -> list[ReferralCode]:
    """Create codes for a member, all or none."""
    member = references.member(call, body.member_id)
    if not member.active:
        raise MemberInactive("Inactive members are given no referral codes.")
    return referrals.add_codes(call.db, referral_program, member.member_id, body.codes, call.now)


@operation("listReferralCodes", answer=listed(CODE))
def list_referral_codes(call: Call, referral_program: ReferralProgram, query: Mapping[str, Any]) -> Paged[ReferralCode]:
    """A page of the program's codes."""
    program_id = referral_program.referral_program_id
    return REFERRAL_CODES.find_page(call.db, referral_program.organization_id, query, referral_program_id=program_id)


@operation("listReferralCodeLogs", answer=listed(LOG))
def list_referral_code_logs(
    call: Call, referral_program: ReferralProgram, referral_code: ReferralCode, query: Mapping[str, Any]
) -> Paged[ReferralLog]:
    """A page of the uses of a code that count."""
    return referrals.find_log_page(call.db, referral_code, query)


@operation("getReferralLeaderboard", answer=listed(LEADERBOARD_ROW))
def get_referral_leaderboard(
    call: Call, referral_program: ReferralProgram, query: Mapping[str, Any]
) -> Paged[LeaderboardRow]:
    """A page of the members who have codes in the program, the most rewarded first."""
    return referrals.find_leaderboard(call.db, referral_program, Page.of(query))


def _with_totals(call: Call, program: ReferralProgram) -> ProgramWithTotals:
    identity = program.referral_program_id
    return program, referrals.totals_of(call.db, program.organization_id, [identity])[identity]


def _validated(
    call: Call, body: ReferralProgramProperties, before: ReferralProgram | None
) -> ReferralProgramProperties:
    """The program as it is stored; refuses unknown references, an end before its begin, and rewards not to be paid.

    The event type that it named `before` may have been deactivated since.
    """
    body = localized(body, ("valid_from_date", "valid_to_date"), call.organization.timezone)
    begins, ends = body.valid_from_date, body.valid_to_date
    faults = zone_faults(body.timezone)
    if begins and ends and ends < begins:
        faults.append(FieldFault("validToDate is before validFromDate", pointer="/validToDate"))
    if faults:
        raise InvalidRequest(faults)
    configuration = configuration_of(call.db, call.organization)
    references.refuse_unknown(
        call, loyalty_program=body.loyalty_program_id, campaign=body.campaign_id, audience=body.audience_id
    )
    if before is None or body.event_type != before.event_type:
        references.refuse_unknown_event_type(configuration, body.event_type)
    for side in (REFERRER, REFERRED):
        _check_side(call, configuration, body, side)
    return body


def _check_side(call: Call, configuration: Configuration, body: ReferralProgramProperties, side: str) -> None:
    """Refuse a reward of one side that could not be paid."""
    ledger_id, book_key = getattr(body, f"{side}_ledger_id"), getattr(body, f"{side}_coupon_book_key")
    if ledger_id is not None:
        references.refuse_other_ledger(call, references.ledger_or_default(call, ledger_id))
    if book_key is not None:
        references.coupon_book(call, book_key)
    account_id, points = getattr(body, f"{side}_ledger_account_id"), getattr(body, f"{side}_points_accrual")
    account = configuration.points_account(body.loyalty_program_id) if account_id is None else None
    if account_id is not None:
        account = configuration.accounts.get(account_id)
        if account is None:
            raise UnknownLedgerAccount(unknown_account(None, account_id))
    if not points:
        return
    if account is None:
        raise UnknownLedgerAccount("The default ledger has no account that points could go to.")
    if points != round_down(account, points):
        fault = f"{side}PointsAccrual has more than the {account.decimals} fraction digits of this account"
        raise InvalidRequest([FieldFault(fault, pointer=f"/{side}PointsAccrual")])
