"""Entries of the audit log on the wire."""

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Entry(WireSchema):
    organization_id = Plain()
    audit_log_id = Plain()
    created_at = Instant()
    actor = Plain()
    user_id = Plain()
    token_id = Plain()
    surface = Plain()
    operation_id = Plain()
    request_id = Plain()
    entity_type = Plain()
    entity_id = Plain()
    member_ids = Plain()
    reason = Plain()
    is_erased = Plain()
    changes = Plain(attribute="shown_changes")


AUDIT_ENTRY = Shape(_Entry)
