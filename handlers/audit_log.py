"""The audit log (an extension of the administration interface)."""

from collections.abc import Mapping
from typing import Any

from handlers.call import Call
from handlers.messages.lists import walked
from handlers.operation import operation
from handlers.schemas.audit_log import AUDIT_ENTRY
from persistence.audit_log import AUDIT_LOG, AuditEntry
from persistence.paging import Paged


@operation("listAuditLog", answer=walked(AUDIT_ENTRY))
def list_audit_log(call: Call, query: Mapping[str, Any]) -> Paged[AuditEntry]:
    """A page of the entries that match all filters."""
    return AUDIT_LOG.find_page(call.db, call.organization.organization_id, query)
