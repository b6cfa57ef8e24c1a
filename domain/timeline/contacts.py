"""Rows about changes of the member's own record, and about messages that concern the member."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.timeline.rows import MESSAGE, PROFILE, TimelineRow, after_colon

_MAX_FIELDS_NAMED = 5
# The operations that change members. An import has entries only about members whom it changes.
_CHANGES = ("updateMember", "startImport")


@dataclass(frozen=True, slots=True)
class ProfileFact:
    """An entry of the audit log about the member's own record; `fields` are the changed ones."""

    audit_log_id: int
    created_at: datetime
    actor: str
    user_id: int | None
    operation_id: str
    reason: str | None
    fields: Sequence[str]
    is_erased: bool

    def row(self) -> TimelineRow:
        """The row of the entry: the names of the fields, without their values, which only the audit log has."""
        shown_fields, more = sorted(self.fields)[:_MAX_FIELDS_NAMED], len(self.fields) - _MAX_FIELDS_NAMED
        field_list = ", ".join(shown_fields) + (f" and {more} more" if more > 0 else "")
        if self.operation_id == "eraseMember":
            text = "The member's personal data was erased"
        elif self.operation_id in _CHANGES:
            text = f"The member was changed: {field_list}" if field_list else "The member was changed"
        else:
            text = "The member was enrolled"
        details = {
            "auditLogId": self.audit_log_id,
            "operationId": self.operation_id,
            "userId": self.user_id,
            "changedFields": sorted(self.fields),
            "reason": self.reason,
        }
        text = f"{text}, by {self.actor}{after_colon(self.reason)}."
        return TimelineRow(
            PROFILE,
            recorded_at=self.created_at,
            happened_at=self.created_at,
            text=text,
            by=self.actor,
            loyalty_event_id=None,
            is_reversed=False,
            details=details,
        )


@dataclass(frozen=True, slots=True)
class MessageFact:
    """A message about the member to the receiver of a trigger."""

    trigger_delivery_id: int
    created_at: datetime
    trigger_delivery_key: str
    type: str
    status: str
    attempts: int
    delivered_at: datetime | None
    last_status_code: int | None
    trigger_id: int
    trigger_name: str

    def row(self) -> TimelineRow:
        """The row of the message, without its content."""
        outcome = {"succeeded": "was delivered", "failed": "could not be delivered"}.get(self.status, "waits")
        attempts = f" after {self.attempts} attempt{'' if self.attempts == 1 else 's'}" if self.attempts else ""
        text = f"The message {self.type} to {self.trigger_name} {outcome}{attempts}."
        details = {
            "triggerDeliveryId": self.trigger_delivery_id,
            "triggerDeliveryKey": str(self.trigger_delivery_key),
            "triggerId": self.trigger_id,
            "type": self.type,
            "status": self.status,
            "attempts": self.attempts,
        }
        return TimelineRow(
            MESSAGE,
            recorded_at=self.created_at,
            happened_at=self.created_at,
            text=text,
            by=None,
            loyalty_event_id=None,
            is_reversed=False,
            details=details,
        )
