"""Changes the lists of audiences."""

from collections.abc import Collection

from domain.audiences import LIST_MATCHER, Audience, NotAListAudience
from handlers.call import Call
from persistence import audiences
from persistence.audiences import AUDIENCES


def refuse_without_list(audience: Audience) -> None:
    """Raise NotAListAudience for an audience of another type."""
    if audience.matcher_type != LIST_MATCHER:
        raise NotAListAudience(
            f"The audience {audience.name} is of the type {audience.matcher_type}, which has no list."
        )


def change_list(call: Call, audience: Audience, add: Collection[int], remove: Collection[int]) -> Audience:
    """Add and remove members of the list; skips members who are already on it, or not on it. Returns the audience."""
    before = AUDIENCES.lock(call.db, audience)
    added_count = audiences.add_members(call.db, audience, add, call.now)
    removed_count = audiences.remove_members(call.db, audience, remove)
    if not added_count and not removed_count:
        return before
    count = (before.member_count or 0) + added_count - removed_count
    call.audit.add(
        "audience",
        audience.audience_id,
        before={"memberCount": before.member_count},
        after={"memberCount": count, "add": sorted(add), "remove": sorted(remove)},
    )
    return audiences.store_audience(call.db, audience, {"member_count": count, "refreshed_at": call.now}, call.now)
