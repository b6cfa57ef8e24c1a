"""Portals on the wire (administration "Records": Portal)."""

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Writable(WireSchema):
    name = Plain()
    active = Plain()
    custom_attributes = Plain(load_default=dict)
    links = Plain(load_default=dict)
    theme = Plain(load_default=dict)
    forms = Plain(load_default=dict)
    metadata = Plain(load_default=dict)
    loyalty_program_id = Plain()
    auth_redirect_url = Plain()
    auth_valid_scopes = Plain(load_default=list)


class _Record(_Writable):
    portal_id = Plain()
    public_id = Plain()
    organization_id = Plain()
    created_at = Instant()
    updated_at = Instant()


PORTAL_BODY = Shape(_Writable, complete=True)
PORTAL = Shape(_Record)
