"""Portals of the organization (administration "Portals")."""

from domain.portals import Portal, redirect_url_fault
from domain.problems import FieldFault, InvalidRequest
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.portals import PORTAL, PortalProperties
from handlers.services import references
from persistence.portals import PORTALS

_AUDITED = Audited("portal", "portal_id", PORTAL)


declare_list("listPortals", PORTALS.find_page, listed(PORTAL))


@operation("createPortal", response=wrapped("portal", PORTAL), audit=_AUDITED)
def create_portal(call: Call, body: PortalProperties) -> Portal:
    """Create a portal with a new public id."""
    _refuse_unusable(call, body)
    values = {"public_id": call.new_key(), **values_of(body)}
    return PORTALS.add(call.db, call.organization.organization_id, values, call.now)


declare_get("getPortal", "portal", wrapped("portal", PORTAL))


@operation("updatePortal", response=wrapped("portal", PORTAL), audit=_AUDITED.changing("portal"))
def update_portal(call: Call, portal: Portal, body: Merged[PortalProperties]) -> Portal:
    """Change a portal, or switch it on or off; its public id stays."""
    _refuse_unusable(call, body)
    return PORTALS.store(call.db, portal, values_of(body), call.now)


def _refuse_unusable(call: Call, body: PortalProperties) -> None:
    """Refuse an unusable redirect URL and an unknown loyalty program."""
    fault = None if body.auth_redirect_url is None else redirect_url_fault(body.auth_redirect_url)
    if fault is not None:
        raise InvalidRequest([FieldFault(f"authRedirectUrl {fault}", pointer="/authRedirectUrl")])
    references.refuse_unknown(call, loyalty_program=body.loyalty_program_id)
