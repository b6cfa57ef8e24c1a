"""The organization itself (administration, "Organization, tiers, programs" 1)."""

from collections.abc import Mapping
from typing import Any

from domain.calendar import zone_faults
from domain.ledger.notices import complete_notices
from domain.organizations import OrganizationDetails, locale_faults, location_faults
from domain.problems import InvalidRequest
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Changes, wrapped
from handlers.operation import operation
from handlers.schemas.organization import ORGANIZATION, OrganizationProperties
from handlers.services import references
from persistence import organizations


@operation("getOrganization", response=wrapped("organization", ORGANIZATION))
def get_organization(call: Call) -> OrganizationDetails:
    """The organization of the call, with all of its settings."""
    return organizations.find_details(call.db, call.organization.organization_id)


@operation(
    "updateOrganization",
    response=wrapped("organization", ORGANIZATION),
    audit=Audited("organization", "organization_id", ORGANIZATION).changing(is_found_by_handler=True),
    changes_configuration=True,
)
def update_organization(call: Call, body: Changes[OrganizationProperties]) -> OrganizationDetails:
    """Change the organization's properties."""
    organization_id = call.organization.organization_id
    before = organizations.find_details(call.db, organization_id)
    _refuse_faults(body.fields, before)
    references.refuse_unknown(call, loyalty_program=body.fields.get("default_loyalty_program_id"))
    call.audit.keep_before(before)
    former_id = call.organization.default_loyalty_program_id
    default_id = body.fields.get("default_loyalty_program_id", former_id)
    if default_id != former_id:
        _audit_default_program(call, former_id, default_id)
    values = complete_notices(body.fields)
    return organizations.change_organization(call.db, organization_id, updated_at=call.now, **values)


def _refuse_faults(fields: Mapping[str, Any], before: OrganizationDetails) -> None:
    """Refuse zones that do not exist, and a default locale outside the new or kept locales; raises InvalidRequest."""
    faults = [
        *zone_faults(fields.get("timezone")),
        *location_faults(fields.get("location_timezones", {})),
        *locale_faults(fields["default_locale"], fields.get("locales", before.locales)),
    ]
    if faults:
        raise InvalidRequest(faults)


def _audit_default_program(call: Call, former_id: int | None, default_id: int | None) -> None:
    """Add two audit entries: the former default program is not the default any more, and the new one is."""
    for program_id in {former_id, default_id} - {None}:
        call.audit.add_flag_change("loyalty-program", program_id, "setAsDefault", is_set=program_id == default_id)
