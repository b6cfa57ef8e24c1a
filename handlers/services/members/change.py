"""Changes of members, and their erasing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from domain.members import Member, differences, merge_fields, merge_profile, refuse_erased
from domain.triggers import MEMBER as MEMBER_ENTITY
from domain.triggers import UPDATED
from handlers.call import Call
from handlers.messages.base import Changes, values_of
from handlers.messages.json_text import digest_of
from handlers.messages.members import MEMBER, MEMBER_PROPERTIES
from handlers.services.coupons.lock import release_locks
from handlers.services.events.track import track_by_server
from handlers.services.ledger.holds import release_holds
from handlers.services.members.enrol import lock_referrers
from handlers.services.members.view import view_member
from handlers.services.webhooks.outbox import queue_entity_change
from persistence import erasing, exports, imports, members
from persistence.erasing import Erasing

# The time in which a call erases rows, and its maximum share of the time for a request; a job erases the other rows.
MAX_ERASING_SECONDS, _ERASING_SHARE = 5.0, 0.2
# The maximum number of emptied entries that an entry of the audit log lists. The database searches these lists for each
# emptied entry, and longer ones would be cut.
MAX_LISTED_ENTRIES = 200


def change_member(call: Call, member: Member, changes: Changes[Any]) -> dict[str, Any]:
    """Change the fields that are sent, and report the change if `emitEvent` is true. Returns the member's view.

    An update that changes nothing reports nothing. Raises MemberErased.
    """
    lock_referrers(call.db, call.organization, member.wallet_id, ("member-updated", "member-profile-deactivated"))
    before = members.lock(call.db, member)
    refuse_erased(before)
    update = changes.of(before)
    values = changed_values(before, changes)
    call.audit.reason = update.update_reason
    call.audit.keep_before(before)
    if _digest_of_properties(replace(before, **values)) == _digest_of_properties(before):
        return view_member(call, before)
    if before.active and not values["active"]:
        release_holds(call, [before])
        release_locks(call, [before])
    after = members.store_member(call.db, before, values, call.now)
    if after.loyalty_member_id != before.loyalty_member_id:
        imports.rename_member_in_failed_rows(call.db, before, after.loyalty_member_id)
    if update.emit_event:
        payload = {"changedFields": list(differences(MEMBER_PROPERTIES.dump(before), MEMBER_PROPERTIES.dump(after)))}
        track_by_server(
            call, after, "member-updated", payload, update.update_reason or "The member was changed by request."
        )
        if before.active and not after.active:
            reason = update.update_reason or "The member was deactivated by request."
            track_by_server(call, after, "member-profile-deactivated", payload, reason)
    record = view_member(call, after)
    queue_entity_change(call, MEMBER_ENTITY, UPDATED, lambda: MEMBER.dump(record))
    return record


def _digest_of_properties(member: Member) -> bytes:
    """A digest of a member's properties; 1 and 1.0 are the same, 1 and true are not."""
    return digest_of(MEMBER_PROPERTIES.dump(member))


def changed_values(before: Member, changes: Changes[Any]) -> dict[str, Any]:
    """The values of a member after a change: `profile` and `notifications` are merged into the stored ones."""
    update = changes.of(before)
    values = values_of(update)
    if "profile" in changes.fields:
        values["profile"] = merge_profile(before.profile, update.profile)
    if "notifications" in changes.fields:
        values["notifications"] = merge_fields(before.notifications, update.notifications)
    return values


def erase(call: Call, member: Member) -> Member:
    """Erase the member; a member who was erased before stays unchanged.

    Waits for running work on the member; later calls do not find the member by the old ids. If the member has very many
    events, orders or other rows, the call erases some of them, and a job erases the rest.
    """
    before = erasing.lock(call.db, member)
    if before.erased_at is not None:
        return before
    release_holds(call, [before])
    release_locks(call, [before])
    seconds = min(MAX_ERASING_SECONDS, call.settings.request_timeout_ms / 1000 * _ERASING_SHARE)
    erasure = erasing.erase(call.db, before, f"erased-{call.new_key()}", call.now, seconds)
    after = erasure.member
    exports.forget_rows(call.db, after.organization_id, call.real_now)
    _add_audit_entries(call, erasure)
    queue_entity_change(call, MEMBER_ENTITY, UPDATED, lambda: _record(call, after))
    return after


def _add_audit_entries(call: Call, erasure: Erasing) -> None:
    """Add an entry about the erasing, and further ones if it has emptied more entries than an entry can list."""
    call.audit.is_erasure = True
    member_id, emptied_ids = erasure.member.member_id, erasure.emptied_ids
    flags = {"isErased": True, "isComplete": erasure.is_complete}
    for listed_ids in split_into_entries(emptied_ids) or [()]:
        changes = {**flags, "erasedEntries": listed_ids}
        call.audit.add("member", member_id, after=changes, member_ids=(member_id,))


def split_into_entries(emptied_ids: Sequence[int]) -> list[Sequence[int]]:
    """Divide the ids of emptied entries of the audit log among the new entries that list them."""
    return [emptied_ids[start : start + MAX_LISTED_ENTRIES] for start in range(0, len(emptied_ids), MAX_LISTED_ENTRIES)]


def _record(call: Call, member: Member) -> dict[str, Any]:
    return MEMBER.dump(view_member(call, member))
