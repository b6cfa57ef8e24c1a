"""Portals of the organization (administration "Portals")."""

from collections.abc import Mapping
from typing import Any

from domain.portals import Portal, redirect_url_fault
from domain.problems import FieldFault, InvalidRequest
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import operation
from handlers.schemas.portals import PORTAL, PortalProperties
from handlers.services import references
from persistence.paging import Paged
from persistence.portals import PORTALS

_AUDITED = Audited("portal", "portal_id", PORTAL)


@operation("listPortals", answer=listed(PORTAL))
def list_portals(call: Call, query: Mapping[str, Any]) -> Paged[Portal]:
    """A page of portals."""
    return PORTALS.find_page(call.db, call.organization.organization_id, query)


@operation("createPortal", answer=wrapped("portal", PORTAL), audit=_AUDITED)
def create_portal(call: Call, body: PortalProperties) -> Portal:
    """Create a portal with a new public id."""
    _check(call, body)
    values = {"public_id": call.new_key(), **values_of(body)}
    return PORTALS.add(call.db, call.organization.organization_id, values, call.now)


@operation("getPortal", answer=wrapped("portal", PORTAL))
def get_portal(call: Call, portal: Portal) -> Portal:
    """One portal, active or not."""
    return portal


@operation("updatePortal", answer=wrapped("portal", PORTAL), audit=_AUDITED.changing("portal"))
def update_portal(call: Call, portal: Portal, body: Merged[PortalProperties]) -> Portal:
    """Change a portal, or switch it on or off; its public id stays."""
    _check(call, body)
    return PORTALS.store(call.db, portal, values_of(body), call.now)


def _check(call: Call, body: PortalProperties) -> None:
    fault = None if body.auth_redirect_url is None else redirect_url_fault(body.auth_redirect_url)
    if fault is not None:
        raise InvalidRequest([FieldFault(f"authRedirectUrl {fault}", pointer="/authRedirectUrl")])
    references.refuse_unknown(call, loyalty_program=body.loyalty_program_id)
