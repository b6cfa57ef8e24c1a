"""Referral programs, their codes and logs (administration "Referrals")."""

from collections.abc import Mapping
from typing import Any

from domain.members import MemberInactive, refuse_erased
from domain.referrals import LeaderboardRow, ProgramTotals, ReferralCode, ReferralLog, ReferralProgram
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed, results
from handlers.operation import operation
from handlers.schemas.referrals import CODE, LEADERBOARD_ROW, LOG, PROGRAM_BODY, NewReferralCodes, program_record
from handlers.services import references
from handlers.services.referrals import ReferralProgramProperties, validated_program
from persistence import referrals
from persistence.paging import Page, Paged
from persistence.referrals import REFERRAL_CODES, REFERRAL_PROGRAMS

ProgramWithTotals = tuple[ReferralProgram, ProgramTotals]

_AUDITED = Audited(
    "referral-program",
    "referral_program_id",
    PROGRAM_BODY,
    # Of a `ProgramWithTotals` only the program: the totals are not part of a change.
    records=lambda result: result[:1],
)


@operation("listReferralPrograms", response=listed(program_record))
def list_referral_programs(call: Call, query: Mapping[str, Any]) -> Paged[ProgramWithTotals]:
    """A page of programs, each with its totals."""
    organization_id = call.organization.organization_id
    page = REFERRAL_PROGRAMS.find_page(call.db, organization_id, query)
    totals = referrals.find_totals(call.db, organization_id, [result.referral_program_id for result in page.results])
    rows = [(result, totals[result.referral_program_id]) for result in page.results]
    return page.with_results(rows)


@operation(
    "createReferralProgram",
    response=wrapped("referralProgram", program_record),
    audit=_AUDITED,
    changes_configuration=True,
)
def create_referral_program(call: Call, body: ReferralProgramProperties) -> ProgramWithTotals:
    """Create a program, which has no codes yet."""
    values = {"referral_program_key": call.new_key(), **values_of(validated_program(call, body, before=None))}
    program = REFERRAL_PROGRAMS.add(call.db, call.organization.organization_id, values, call.now)
    return program, ProgramTotals()


@operation("getReferralProgram", response=wrapped("referralProgram", program_record))
def get_referral_program(call: Call, referral_program: ReferralProgram) -> ProgramWithTotals:
    """One program with its totals."""
    return _with_totals(call, referral_program)


@operation(
    "updateReferralProgram",
    response=wrapped("referralProgram", program_record),
    audit=_AUDITED.changing("referral_program"),
    changes_configuration=True,
)
def update_referral_program(
    call: Call, referral_program: ReferralProgram, body: Merged[ReferralProgramProperties]
) -> ProgramWithTotals:
    """Change a program; all processes use the change from their next event on."""
    properties = validated_program(call, body, referral_program)
    updated_program = REFERRAL_PROGRAMS.store(call.db, referral_program, values_of(properties), call.now)
    return _with_totals(call, updated_program)


@operation(
    "createReferralCodes",
    response=results(CODE, "referrals"),
    audit=Audited("referral-code", "referral_code_id", CODE, records=iter),
)
def create_referral_codes(call: Call, referral_program: ReferralProgram, body: NewReferralCodes) -> list[ReferralCode]:
    """Create codes for a member, all or none."""
    member = references.member(call, body.member_id)
    refuse_erased(member)
    if not member.active:
        raise MemberInactive("The member is not active and cannot get referral codes.")
    return referrals.add_codes(call.db, referral_program, member.member_id, body.codes, call.now)


@operation("listReferralCodes", response=listed(CODE))
def list_referral_codes(call: Call, referral_program: ReferralProgram, query: Mapping[str, Any]) -> Paged[ReferralCode]:
    """A page of the program's codes."""
    program_id = referral_program.referral_program_id
    return REFERRAL_CODES.find_page(call.db, referral_program.organization_id, query, referral_program_id=program_id)


@operation("listReferralCodeLogs", response=listed(LOG))
def list_referral_code_logs(
    call: Call, referral_program: ReferralProgram, referral_code: ReferralCode, query: Mapping[str, Any]
) -> Paged[ReferralLog]:
    """A page of the uses of a code that count as referrals."""
    return referrals.find_log_page(call.db, referral_code, query)


@operation("getReferralLeaderboard", response=listed(LEADERBOARD_ROW))
def get_referral_leaderboard(
    call: Call, referral_program: ReferralProgram, query: Mapping[str, Any]
) -> Paged[LeaderboardRow]:
    """A page of the members who have codes in the program, by default the most rewarded first."""
    return referrals.find_leaderboard(call.db, referral_program, Page.of(query))


def _with_totals(call: Call, program: ReferralProgram) -> ProgramWithTotals:
    program_id = program.referral_program_id
    return program, referrals.find_totals(call.db, program.organization_id, [program_id])[program_id]
