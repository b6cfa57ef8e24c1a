"""Badges (integration 4.3, items 1 to 4)."""

from domain.badges import Badge
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import Merged, values_of, wrapped
from handlers.messages.lists import listed
from handlers.operation import declare_get, declare_list, operation
from handlers.schemas.badges import BADGE, BadgeProperties
from persistence.badges import BADGES

_AUDITED = Audited("badge", "badge_id", BADGE)


declare_list("listBadges", BADGES.find_page, listed(BADGE))


@operation("createBadge", response=wrapped("badge", BADGE), audit=_AUDITED, changes_configuration=True)
def create_badge(call: Call, body: BadgeProperties) -> Badge:
    """Create a badge, which no member holds yet."""
    values = {"badge_key": call.new_key(), **values_of(body)}
    return BADGES.add(call.db, call.organization.organization_id, values, call.now)


declare_get("getBadge", "badge", wrapped("badge", BADGE))


@operation(
    "updateBadge", response=wrapped("badge", BADGE), audit=_AUDITED.changing("badge"), changes_configuration=True
)
def update_badge(call: Call, badge: Badge, body: Merged[BadgeProperties]) -> Badge:
    """Change a badge. Members keep their balance of it, even above a new maximum."""
    return BADGES.store(call.db, badge, values_of(body), call.now)
