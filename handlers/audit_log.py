"""The audit log (an extension of the administration interface)."""

from handlers.messages.lists import walked
from handlers.operation import declare_list
from handlers.schemas.audit_log import AUDIT_ENTRY
from persistence.audit_log import AUDIT_LOG

declare_list("listAuditLog", AUDIT_LOG.find_page, walked(AUDIT_ENTRY))
