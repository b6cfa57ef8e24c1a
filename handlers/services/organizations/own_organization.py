"""Bodies that repeat the organization of the path."""

from domain.problems import FieldFault, InvalidRequest
from handlers.call import Call


def refuse_other_organization(call: Call, named: int | None) -> None:
    """Refuse another organization than the call's as the `organizationId` of a body."""
    if named is not None and named != call.organization.organization_id:
        raise InvalidRequest([FieldFault("organizationId is not that of the path", pointer="/organizationId")])
