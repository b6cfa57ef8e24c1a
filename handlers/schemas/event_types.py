"""Custom event types on the wire (integration 2.8)."""

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Writable(WireSchema):
    api_code = Plain()
    name = Plain()
    description = Plain()
    schema_type = Plain()
    active = Plain(load_default=True)
    custom_attributes = Plain(load_default=dict)


class _Record(_Writable):
    organization_id = Plain()
    is_custom_type = Plain()
    created_at = Instant()
    updated_at = Instant()


NEW_EVENT_TYPE = Shape(_Writable, complete=True)
EVENT_TYPE_CHANGES = Shape(_Writable)
EVENT_TYPE = Shape(_Record)
