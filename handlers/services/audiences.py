"""Changes the lists of audiences."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from domain.audiences import LIST_MATCHER, Audience, NotAListAudience
from domain.members import refuse_erased
from handlers.call import Call
from handlers.services.references import unknown_member
from persistence import audiences
from persistence.audiences import AUDIENCES
from persistence.content import collections
from persistence.members import MEMBERS_WITHOUT_ATTRIBUTES


def refuse_without_list(audience: Audience) -> None:
    """Raise NotAListAudience for an audience that has no list."""
    if audience.matcher_type != LIST_MATCHER:
        raise NotAListAudience(
            f"The audience {audience.name_or_key} is of the type {audience.matcher_type}, which has no list."
        )


def protect_from_erasing(call: Call, member_ids: Collection[int]) -> None:
    """Keep members who are to be added to a list from being erased until the transaction ends.

    Raises UnknownMember or MemberErased.
    """
    members = MEMBERS_WITHOUT_ATTRIBUTES.find_all_for_key_share(
        call.db, call.organization.organization_id, member_id=member_ids
    )
    members_by_id = {member.member_id: member for member in members}
    for member_id in sorted(member_ids):
        if member_id not in members_by_id:
            raise unknown_member(member_id)
        refuse_erased(members_by_id[member_id])


class MembershipChange(NamedTuple):
    """The ids of members to be added to the list of an audience, and of members to be removed."""

    audience: Audience
    new_ids: Collection[int]
    removed_ids: Collection[int]


def change_lists(call: Call, changes: Iterable[MembershipChange]) -> list[Audience]:
    """Change the lists of audiences.

    Skips members to be added who are already on the list, and members to be removed who are not. If a list changes,
    increments the content versions, so that cached pages of member content are read again. Returns the audiences.
    """
    audiences_after = []
    has_changes = False
    for change in changes:
        before = AUDIENCES.lock(call.db, change.audience)
        after = _change_list(call, before, change.new_ids, change.removed_ids)
        audiences_after.append(after)
        has_changes = has_changes or after is not before
    if has_changes:
        # Only now that all audiences are locked, so that two transactions cannot deadlock.
        collections.increment_content_versions(call.db, call.organization.organization_id)
    return audiences_after


def _change_list(call: Call, before: Audience, new_ids: Collection[int], removed_ids: Collection[int]) -> Audience:
    """Add and remove members of the list of a locked audience. Returns `before` itself if nothing changes."""
    added_count = audiences.add_members(call.db, before, new_ids, call.now)
    removed_count = audiences.remove_members(call.db, before, removed_ids)
    if not added_count and not removed_count:
        return before
    count = (before.member_count or 0) + added_count - removed_count
    call.audit.add(
        "audience",
        before.audience_id,
        before={"memberCount": before.member_count},
        after={"memberCount": count, "add": sorted(new_ids), "remove": sorted(removed_ids)},
    )
    return audiences.store_audience(call.db, before, {"member_count": count, "refreshed_at": call.now}, call.now)
