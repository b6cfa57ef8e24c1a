"""The audiences of members."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import Connection

from domain.audiences import CompiledAudience
from domain.members import Member
from persistence import audiences


def match_audiences(
    db: Connection,
    organization_id: int,
    candidates: Sequence[CompiledAudience],
    members: Collection[Member],
    at: datetime,
) -> dict[int, list[CompiledAudience]]:
    """The candidates that each member is in at the moment `at`, by member id; one statement if any is a list."""
    applicable_audiences = [audience for audience in candidates if audience.applies(at)]
    by_id = {member.member_id: member for member in members}
    lists = {}
    if any(audience.matches is None for audience in applicable_audiences):
        lists = audiences.find_lists_of_members(db, organization_id, by_id)
    return {
        member_id: [audience for audience in applicable_audiences if audience.has(member, lists.get(member_id, ()))]
        for member_id, member in by_id.items()
    }
