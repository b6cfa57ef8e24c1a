"""The audit log (an extension beside the administration interface)."""

from collections.abc import Mapping
from typing import Any

from domain.calendar import instant_of
from handlers.call import Call
from handlers.messages.base import walked
from handlers.operation import operation
from handlers.schemas.audit_log import AUDIT_ENTRY
from persistence import audit_log
from persistence.audit_log import AuditEntry, AuditFilter
from persistence.paging import Page, Paged


@operation("listAuditLog", answer=walked(AUDIT_ENTRY))
def list_audit_log(call: Call, query: Mapping[str, Any]) -> Paged[AuditEntry]:
    """A page of the entries that match all filters."""
    filters = AuditFilter(
        actor=query.get("actor"),
        user_id=query.get("userId"),
        operation_id=query.get("operationId"),
        entity_type=query.get("entityType"),
        entity_id=query.get("entityId"),
        member_id=query.get("memberId"),
        request_id=query.get("requestId"),
        created_from=_moment(query, "fromCreatedAt"),
        created_to=_moment(query, "toCreatedAt"),
    )
    return audit_log.find_page(call.db, call.organization.organization_id, Page.of(query), filters)


def _moment(query: Mapping[str, Any], name: str) -> Any:
    return instant_of(query[name]) if name in query else None
