"""Portals of the organization (administration "Portals")."""

from collections.abc import Mapping
from typing import Any

from domain.portals import Portal, redirect_url_fault
from domain.problems import FieldFault, InvalidRequest
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import listed, values_of, wrapped
from handlers.operation import operation
from handlers.schemas.portals import PORTAL, PORTAL_BODY, PortalProperties
from handlers.services import references
from persistence.paging import Paged
from persistence.portals import PORTALS


@operation("listPortals", answer=listed(PORTAL))
def list_portals(call: Call, query: Mapping[str, Any]) -> Paged[Portal]:
    """A page of portals."""
    return PORTALS.find_page(call.db, call.organization.organization_id, query)


@operation(
    "createPortal",
    body=PORTAL_BODY,
    answer=wrapped("portal", PORTAL),
    audit=Audited("portal", "portal_id", PORTAL),
)
def create_portal(call: Call, body: PortalProperties) -> Portal:
    """Create a portal with a new public id."""
    fault = None if body.auth_redirect_url is None else redirect_url_fault(body.auth_redirect_url)
    if fault is not None:
        raise InvalidRequest([FieldFault(f"authRedirectUrl {fault}", pointer="/authRedirectUrl")])
    references.refuse_unknown(call, loyalty_program=body.loyalty_program_id)
    values = {"public_id": call.new_key(), **values_of(body)}
    return PORTALS.add(call.db, call.organization.organization_id, values, call.now)
