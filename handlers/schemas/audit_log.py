"""Entries of the audit log on the wire."""

from handlers.messages.base import Plain, Shape, WireSchema
from persistence.audit_log import AuditEntry


class _ComputedFields(WireSchema):
    is_erased = Plain()
    changes = Plain(attribute="shown_changes")


AUDIT_ENTRY = Shape(_ComputedFields, AuditEntry, without=("changes",))
