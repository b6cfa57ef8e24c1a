"""Loyalty programs (administration, "Organization, tiers, programs" 3)."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from domain.problems import InvalidRequest
from domain.programs import LoyaltyProgram, LoyaltyProgramLimit, UnknownTier, refuse_inactive_default
from domain.tier_policies import complete_tier_policy, faults_of_policy
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Changes, values_of, wrapped
from handlers.messages.lists import results
from handlers.operation import operation
from handlers.schemas.loyalty_programs import PROGRAM, ProgramProperties
from handlers.services import references
from persistence import organizations, programs
from persistence.programs import PROGRAMS

MAX_PROGRAMS = 100
"""The maximum number of programs of an organization, since each record of a member has a status in each program."""

_AUDITED = Audited("loyalty-program", "loyalty_program_id", PROGRAM)


@operation("listLoyaltyPrograms", response=results(PROGRAM, "loyaltyPrograms"))
def list_loyalty_programs(call: Call, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The organization's programs; with `default=false` without the default one."""
    default_id = call.organization.default_loyalty_program_id
    page = programs.find_page(call.db, call.organization, query)
    return [_program_values(program, default_id) for program in page.results]


@operation(
    "createLoyaltyProgram", response=wrapped("loyaltyProgram", PROGRAM), audit=_AUDITED, changes_configuration=True
)
def create_loyalty_program(call: Call, body: ProgramProperties) -> dict[str, Any]:
    """Create a program; it has no tiers yet, so none can be its default."""
    body = _check_and_complete(call, body)
    if body.default_tier_id is not None:
        raise UnknownTier(
            f"defaultTierId is {body.default_tier_id}, but a new loyalty program has no tiers. Create the program "
            "without defaultTierId, then its tiers."
        )
    # `changes_configuration` serializes creations, so that each call counts the programs of the others.
    if len(PROGRAMS.find_all(call.db, call.organization.organization_id)) >= MAX_PROGRAMS:
        raise LoyaltyProgramLimit(f"The organization has {MAX_PROGRAMS} loyalty programs, the maximum.")
    values = {"loyalty_program_key": call.new_key(), **values_of(body)}
    program = PROGRAMS.add(call.db, call.organization.organization_id, values, call.now)
    return _program_values(program, _set_default_program(call, program, body.set_as_default))


@operation("getLoyaltyProgram", response=wrapped("loyaltyProgram", PROGRAM))
def get_loyalty_program(call: Call, program: LoyaltyProgram) -> dict[str, Any]:
    """One program."""
    return _program_values(program, call.organization.default_loyalty_program_id)


@operation(
    "updateLoyaltyProgram",
    response=wrapped("loyaltyProgram", PROGRAM),
    audit=_AUDITED.changing("program"),
    changes_configuration=True,
)
def update_loyalty_program(call: Call, program: LoyaltyProgram, body: Changes[ProgramProperties]) -> dict[str, Any]:
    """Change a program.

    A program can become the organization's default; `setAsDefault` false does not end that.
    """
    properties = _check_and_complete(call, body.of(program))
    _refuse_default_tier(call, program, properties.default_tier_id)
    call.audit.keep_before(_program_values(program, call.organization.default_loyalty_program_id))
    if "default_tier_id" in body.fields:
        tier_id = properties.default_tier_id
        default_marks = programs.set_default_tier(call.db, program.organization_id, program.loyalty_program_id, tier_id)
        for changed_tier_id, is_default in default_marks.items():
            call.audit.add_flag_change("tier", changed_tier_id, "isDefault", is_set=is_default)
    program = PROGRAMS.store(call.db, program, values_of(properties), call.now)
    return _program_values(program, _set_default_program(call, program, properties.set_as_default))


def _check_and_complete(call: Call, body: ProgramProperties) -> ProgramProperties:
    """Check the properties of a program; return them with every field of the tier policy.

    Refuses a policy whose fields contradict each other, an unknown ledger or portal, and accounts of another ledger.
    """
    policy = complete_tier_policy(body.tier_policy)
    faults = faults_of_policy(policy)
    if faults:
        raise InvalidRequest(faults)
    references.ledger_or_default(call, body.ledger_id)
    for account_id in (body.tier_points_ledger_account_id, body.main_ledger_account_id):
        if account_id is not None:
            references.account_of_ledger(call, body.ledger_id, account_id)
    references.refuse_unknown(call, portal=body.main_portal_id)
    return replace(body, tier_policy=policy)


def _refuse_default_tier(call: Call, program: LoyaltyProgram, loyalty_tier_id: int | None) -> None:
    """Refuse a default tier that is not in the program, or inactive; None means no default tier, which is allowed."""
    if loyalty_tier_id is None:
        return
    tier = references.tier_of_program(call, program, loyalty_tier_id)
    refuse_inactive_default(tier.name, tier.active)


def _set_default_program(call: Call, program: LoyaltyProgram, set_as_default: bool) -> int | None:
    """Make the program the organization's default if `set_as_default`; return the id of the default, None for none."""
    former_id = call.organization.default_loyalty_program_id
    if not set_as_default:
        return former_id
    # The audit log records that the former default program, if it is another one, is not the default any more.
    if former_id not in (None, program.loyalty_program_id):
        call.audit.add_flag_change("loyalty-program", former_id, "setAsDefault", is_set=False)
    organization = organizations.change_organization(
        call.db, program.organization_id, default_loyalty_program_id=program.loyalty_program_id
    )
    return organization.default_loyalty_program_id


def _program_values(program: LoyaltyProgram, default_program_id: int | None) -> dict[str, Any]:
    """The fields of a program, and whether it is the organization's default."""
    return {**asdict(program), "set_as_default": program.loyalty_program_id == default_program_id}
