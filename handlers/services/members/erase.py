"""Erasing a member: personal data are removed, figures stay."""

from typing import Any

from domain.members import Member
from domain.triggers import MEMBER as MEMBER_ENTITY
from domain.triggers import UPDATED
from handlers.call import Call
from handlers.messages.members import MEMBER
from handlers.services.members.view import view_members
from handlers.services.webhooks.outbox import entity_changed
from persistence import erasing, exports


def erase(call: Call, member: Member) -> Member:
    """Erase the member; a member who was erased before stays unchanged.

    Running work on the member is waited for; later calls do not find the member by the old ids.
    """
    before = erasing.lock(call.db, member)
    if before.erased_at is not None:
        return before
    after, emptied = erasing.erase(call.db, before, f"erased-{call.new_key()}", call.now)
    exports.forget_rows(call.db, after.organization_id, call.now)
    call.audit.is_erasure = True
    changes = {"isErased": True, "erasedEntries": emptied}
    call.audit.add("member", after.member_id, after=changes, member_ids=(after.member_id,))
    entity_changed(call, MEMBER_ENTITY, UPDATED, lambda: _record(call, after))
    return after


def _record(call: Call, member: Member) -> dict[str, Any]:
    [viewed] = view_members(call, [member], with_balances=True)
    return MEMBER.dump(viewed)
