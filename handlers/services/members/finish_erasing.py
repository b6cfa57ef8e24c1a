"""Erases the rows of erased members that the call has left, in many short transactions."""

from datetime import UTC, datetime

from sqlalchemy import Connection

from domain.organizations import Organization
from persistence import audit_log, erasing, exports
from persistence.audit_log import NewEntry, Origin
from persistence.erased_rows import erase_page
from persistence.rows import as_json

_ORIGIN = Origin(
    actor="worker", user_id=None, token_id=None, surface="", operation_id="eraseMember", request_id="", reason=None
)
_COMPLETION = as_json({"isComplete": {"from": False, "to": True}})


def erase_next(db: Connection, organization: Organization, _: datetime, limit: int) -> int | None:
    """Erase at most `limit` rows of an erased member; return the number of members who are then erased completely.

    Adds an entry about such a member to the audit log, and removes exports that may have rows of the member. Returns
    None if no erased member has rows left.
    """
    unfinished_erasing = erasing.claim_unfinished(db, organization.organization_id)
    if unfinished_erasing is None:
        return None
    member, progress = unfinished_erasing
    next_progress = erase_page(db, member, progress, limit)
    erasing.store_progress(db, member, next_progress)
    if next_progress is not None:
        return 0
    now = datetime.now(UTC)
    exports.forget_rows(db, member.organization_id, now)
    entry = NewEntry("member", str(member.member_id), _COMPLETION, member_ids=(member.member_id,))
    test_clock = organization.clock_now
    audit_log.add_entries(db, member.organization_id, now, [(_ORIGIN, entry)], test_clock=test_clock)
    return 1
