"""The audit log (an extension of the administration interface)."""

from handlers.messages.lists import listed_by_cursor
from handlers.operation import declare_list
from handlers.schemas.audit_log import AUDIT_ENTRY
from persistence.audit_log import AUDIT_LOG

declare_list("listAuditLog", AUDIT_LOG.find_page, listed_by_cursor(AUDIT_ENTRY))
