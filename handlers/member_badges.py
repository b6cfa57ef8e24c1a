"""Members' badges, assigned, unassigned and reverted (integration 4.3, items 5 to 9; administration "Badges")."""

from collections.abc import Mapping
from typing import Any

from domain.badges import Badge, BadgeBalance, BadgeGrant, BadgeTracking, MemberBadge, UnknownBadge
from domain.members import Member
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.badges import TRACKING
from handlers.messages.base import values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import BatchHandler, operation
from handlers.schemas.member_badges import BALANCE, MEMBER_BADGE, GrantRequest
from handlers.services.badges import ASSIGN, UNASSIGN, assign_badges, grant, unassign_badges
from handlers.services.unit_of_work.requests import unit_of_work
from persistence import badges
from persistence.badges import BADGES
from persistence.paging import Paged

_AUDITED = Audited("badge-tracking", "badge_tracking_id", TRACKING)


@operation("listMemberBadges", response=listed(MEMBER_BADGE))
def list_member_badges(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[MemberBadge]:
    """A page of the badges that the member holds, or of the badges with the `badgeKeys` of the query, held or not."""
    return badges.find_page_of_member(call.db, member, query)


@operation("getMemberBadgeBalance", response=wrapped("balance", BALANCE))
def get_member_badge_balance(call: Call, member: Member, badge: Badge) -> BadgeBalance:
    """The member's balance of the badge."""
    return badges.find_balance(call.db, member, badge)


@operation(
    "assignBadge", response=wrapped("badgeTracking", TRACKING), audit=_AUDITED, batch=BatchHandler(assign_badges)
)
def assign_badge(call: Call, member: Member, badge: Badge, body: GrantRequest) -> BadgeGrant:
    """Assign a badge to the member; campaigns evaluate the event."""
    return grant(ASSIGN, member, badge, **values_of(body))


@operation(
    "unassignBadge", response=wrapped("badgeTracking", TRACKING), audit=_AUDITED, batch=BatchHandler(unassign_badges)
)
def unassign_badge(call: Call, member: Member, badge: Badge, body: GrantRequest) -> BadgeGrant:
    """Unassign a badge from the member; campaigns evaluate the event."""
    return grant(UNASSIGN, member, badge, **values_of(body))


@operation("revertBadgeTracking", response=wrapped("badgeTracking", TRACKING), audit=_AUDITED)
def revert_badge_tracking(call: Call, member: Member, badge_tracking: BadgeTracking) -> BadgeTracking:
    """Revert one assignment or unassignment of a badge; campaigns evaluate the event."""
    badge = BADGES.find(call.db, member.organization_id, badge_tracking.badge_id)
    if badge is None:
        raise UnknownBadge(f"The badge of the tracking {badge_tracking.badge_tracking_key} does not exist.")
    reason = f"The badge tracking {badge_tracking.badge_tracking_key} was reverted by request."
    with unit_of_work(call, [member.member_id], reason) as unit:
        return unit.badges.revert(badge_tracking.badge_tracking_id, badge)
