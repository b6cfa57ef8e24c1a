"""Members' badges, assigned, unassigned and reverted (integration 4.3, items 5 to 9; administration "Badges")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from domain.badges import Badge, BadgeBalance, BadgeTracking, Grant, MemberBadge, UnknownBadge
from domain.members import Member
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.badges import TRACKING
from handlers.messages.base import listed, wrapped
from handlers.operation import operation
from handlers.schemas.member_badges import BALANCE, GRANT, MEMBER_BADGE, GrantRequest
from handlers.services.idempotency import digest_of
from handlers.services.unit_of_work.unit import unit_of_work
from persistence import badges
from persistence.paging import Page, Paged

_AUDITED = Audited("badge-tracking", "badge_tracking_id", TRACKING)


@operation("listMemberBadges", answer=listed(MEMBER_BADGE))
def list_member_badges(call: Call, member: Member, query: Mapping[str, Any]) -> Paged[MemberBadge]:
    """A page of the badges that the member holds, and of those that are requested by key."""
    return badges.find_page_of_member(
        call.db,
        member,
        Page.of(query),
        active=query.get("active"),
        tags=query.get("tags", ()),
        badge_keys=query.get("badgeKeys", ()),
    )


@operation("getMemberBadgeBalance", answer=wrapped("balance", BALANCE))
def get_member_badge_balance(call: Call, member: Member, badge: Badge) -> BadgeBalance:
    """The member's balance of the badge."""
    return badges.find_balance(call.db, member, badge)


@operation("assignBadge", body=GRANT, answer=wrapped("badgeTracking", TRACKING), audit=_AUDITED)
def assign_badge(call: Call, member: Member, badge: Badge, body: GrantRequest) -> BadgeTracking:
    """Assign a badge to the member; campaigns evaluate the event."""
    grant = _grant("assign", member, badge, body)
    with unit_of_work(call, [member.member_id], "The badge was assigned by request.") as unit:
        return unit.badges.assign(grant)


@operation("unassignBadge", body=GRANT, answer=wrapped("badgeTracking", TRACKING), audit=_AUDITED)
def unassign_badge(call: Call, member: Member, badge: Badge, body: GrantRequest) -> BadgeTracking:
    """Unassign a badge from the member; campaigns evaluate the event."""
    grant = _grant("unassign", member, badge, body)
    with unit_of_work(call, [member.member_id], "The badge was unassigned by request.") as unit:
        return unit.badges.unassign(grant)


@operation("revertBadgeTracking", answer=wrapped("badgeTracking", TRACKING), audit=_AUDITED)
def revert_badge_tracking(call: Call, member: Member, badge_tracking: BadgeTracking) -> BadgeTracking:
    """Revert one assignment or unassignment; campaigns evaluate the event."""
    badge = badges.find(call.db, member.organization_id, badge_tracking.badge_id)
    if badge is None:
        raise UnknownBadge(f"The badge of the tracking {badge_tracking.badge_tracking_key} does not exist.")
    reason = f"The badge tracking {badge_tracking.badge_tracking_key} was reverted by request."
    with unit_of_work(call, [member.member_id], reason) as unit:
        return unit.badges.revert(badge_tracking.badge_tracking_id, badge)


def _grant(action: str, member: Member, badge: Badge, body: GrantRequest) -> Grant:
    """The grant of a request; its digest decides if two requests under one key are the same."""
    asked = (action, member.member_id, badge.badge_id, body.amount, body.custom_attributes, body.external_id)
    return Grant(
        member.member_id,
        badge,
        body.amount,
        system_unique_key=body.system_unique_key,
        request_digest=digest_of(asked),
        custom_attributes=body.custom_attributes,
        external_id=body.external_id,
    )
