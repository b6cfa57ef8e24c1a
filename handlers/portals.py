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
from persistence import portals
from persistence.paging import Page, Paged


@operation("listPortals", answer=listed(PORTAL))
def list_portals(call: Call, query: Mapping[str, Any]) -> Paged[Portal]:
    """A page of portals."""
    return portals.find_page(
        call.db, call.organization.organization_id, Page.of(query, 100), public_id=query.get("publicId")
    )


@operation(
    "createPortal",
    body=PORTAL_BODY,
    answer=wrapped("portal", PORTAL),
    audit=Audited("portal", "portal_id", PORTAL),
)
def create_portal(call: Call, body: PortalProperties) -> Portal:
    """Create a portal with a new public id."""
    organization_id = call.organization.organization_id
    fault = None if body.auth_redirect_url is None else redirect_url_fault(body.auth_redirect_url)
    if fault is not None:
        raise InvalidRequest([FieldFault(f"authRedirectUrl {fault}", pointer="/authRedirectUrl")])
    references.refuse_unknown(call, loyalty_program=body.loyalty_program_id)
    return portals.add_portal(
        call.db, organization_id, public_id=call.new_key(), created_at=call.now, updated_at=call.now, **values_of(body)
    )
