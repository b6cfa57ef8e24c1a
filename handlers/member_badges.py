"""Members' badges, assigned, unassigned and reverted (integration 4.3, items 5 to 9; administration "Badges")."""

from collections.abc import Mapping, Sequence
from typing import Any

from domain.badges import Badge, BadgeBalance, BadgeGrant, BadgeTracking, MemberBadge, UnknownBadge
from domain.members import Member
from domain.problems import Refusal
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.badges import TRACKING
from handlers.messages.base import listed, values_of, wrapped
from handlers.operation import Together, operation
from handlers.schemas.member_badges import BALANCE, GRANT, MEMBER_BADGE, GrantRequest
from handlers.services.badges.assign import ASSIGN, UNASSIGN, assign_badges, grant, unassign_badges
from handlers.services.unit_of_work.requests import only, unit_of_work
from persistence import badges
from persistence.badges import BADGES
from persistence.paging import Paged

_AUDITED = Audited("badge-tracking", "badge_tracking_id", TRACKING)


@operation("listMemberBadges", answer=listed(MEMBER_BADGE))
def list_member_badges(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[MemberBadge]:
    """A page of the badges that the member holds, and of those that are requested by key."""
    return badges.find_page_of_member(call.db, member, query)


@operation("getMemberBadgeBalance", answer=wrapped("balance", BALANCE))
def get_member_badge_balance(call: Call, member: Member, badge: Badge) -> BadgeBalance:
    """The member's balance of the badge."""
    return badges.find_balance(call.db, member, badge)


def _assign_together(calls: Sequence[Call], arguments: Sequence[Mapping[str, Any]]) -> list[BadgeTracking | Refusal]:
    return assign_badges(calls, [_grant(ASSIGN, **call_arguments) for call_arguments in arguments])


def _unassign_together(calls: Sequence[Call], arguments: Sequence[Mapping[str, Any]]) -> list[BadgeTracking | Refusal]:
    return unassign_badges(calls, [_grant(UNASSIGN, **call_arguments) for call_arguments in arguments])


@operation(
    "assignBadge",
    body=GRANT,
    answer=wrapped("badgeTracking", TRACKING),
    audit=_AUDITED,
    together=Together(_assign_together),
)
def assign_badge(call: Call, member: Member, badge: Badge, body: GrantRequest) -> BadgeTracking:
    """Assign a badge to the member; campaigns evaluate the event."""
    return only(assign_badges([call], [_grant(ASSIGN, member, badge, body)]))


@operation(
    "unassignBadge",
    body=GRANT,
    answer=wrapped("badgeTracking", TRACKING),
    audit=_AUDITED,
    together=Together(_unassign_together),
)
def unassign_badge(call: Call, member: Member, badge: Badge, body: GrantRequest) -> BadgeTracking:
    """Unassign a badge from the member; campaigns evaluate the event."""
    return only(unassign_badges([call], [_grant(UNASSIGN, member, badge, body)]))


@operation("revertBadgeTracking", answer=wrapped("badgeTracking", TRACKING), audit=_AUDITED)
def revert_badge_tracking(call: Call, member: Member, badge_tracking: BadgeTracking) -> BadgeTracking:
    """Revert one assignment or unassignment; campaigns evaluate the event."""
    badge = BADGES.find(call.db, member.organization_id, badge_tracking.badge_id)
    if badge is None:
        raise UnknownBadge(f"The badge of the tracking {badge_tracking.badge_tracking_key} does not exist.")
    reason = f"The badge tracking {badge_tracking.badge_tracking_key} was reverted by request."
    with unit_of_work(call, [member.member_id], reason) as unit:
        return unit.badges.revert(badge_tracking.badge_tracking_id, badge)


def _grant(action: str, member: Member, badge: Badge, body: GrantRequest) -> BadgeGrant:
    return grant(action, member, badge, **values_of(body))
