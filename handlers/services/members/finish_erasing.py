"""Erases the rows of erased members that the call has left, in many short transactions."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from domain.organizations import Organization
from handlers.services.members.change import split_into_entries
from persistence import audit_log, erasing, exports
from persistence.audit_log import NewEntry, Origin
from persistence.erased_rows import erase_page
from persistence.rows import as_json

_ORIGIN = Origin(
    actor="worker", user_id=None, token_id=None, surface=None, operation_id="eraseMember", request_id=None, reason=None
)
_COMPLETION = {"isComplete": {"from": False, "to": True}}


def erase_next(db: Connection, organization: Organization, _: datetime, limit: int) -> int | None:
    """Erase at most `limit` rows of an erased member; return the number of members who are then erased completely.

    Adds entries to the audit log about emptied entries and about such a member, and removes exports that may have rows
    of the member. Returns None if no erased member has rows left.
    """
    unfinished_erasing = erasing.claim_unfinished(db, organization.organization_id)
    if unfinished_erasing is None:
        return None
    member, progress = unfinished_erasing
    next_progress, emptied_ids = erase_page(db, member, progress, limit)
    erasing.store_progress(db, member, next_progress)
    changes: list[Mapping[str, Any]] = [
        {"erasedEntries": {"from": None, "to": listed_ids}} for listed_ids in split_into_entries(emptied_ids)
    ]
    now = datetime.now(UTC)
    if next_progress is None:
        exports.forget_rows(db, member.organization_id, now)
        changes.append(_COMPLETION)
    entries = [
        (_ORIGIN, NewEntry("member", str(member.member_id), as_json(change), member_ids=(member.member_id,)))
        for change in changes
    ]
    if entries:
        audit_log.add_entries(db, member.organization_id, now, entries, test_clock=organization.clock_now)
    return 1 if next_progress is None else 0
