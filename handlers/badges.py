"""Badges (integration 4.3, items 1 to 4)."""

from collections.abc import Mapping
from typing import Any

from domain.badges import Badge
from handlers.audit_trail import Audited
from handlers.call import Call
from handlers.messages.base import listed, values_of, wrapped
from handlers.operation import operation
from handlers.schemas.badges import BADGE, BADGE_BODY, BADGE_CHANGES, BadgeProperties
from persistence import badges
from persistence.paging import Page, Paged

_AUDITED = Audited("badge", "badge_id", BADGE)


@operation("listBadges", answer=listed(BADGE))
def list_badges(call: Call, query: Mapping[str, Any]) -> Paged[Badge]:
    """A page of the badges that match all filters."""
    return badges.find_page(
        call.db,
        call.organization.organization_id,
        Page.of(query),
        active=query.get("active"),
        tags=query.get("tags", ()),
        external_key=query.get("externalKey"),
    )


@operation("createBadge", body=BADGE_BODY, answer=wrapped("badge", BADGE), audit=_AUDITED, changes_configuration=True)
def create_badge(call: Call, body: BadgeProperties) -> Badge:
    """Create a badge, which no member holds yet."""
    organization_id = call.organization.organization_id
    return badges.add_badge(
        call.db, organization_id, badge_key=call.new_key(), created_at=call.now, updated_at=call.now, **values_of(body)
    )


@operation("getBadge", answer=wrapped("badge", BADGE))
def get_badge(call: Call, badge: Badge) -> Badge:
    """One badge."""
    return badge


@operation(
    "updateBadge",
    body=BADGE_CHANGES,
    merge_into="badge",
    answer=wrapped("badge", BADGE),
    audit=_AUDITED.changing("badge"),
    changes_configuration=True,
)
def update_badge(call: Call, badge: Badge, body: BadgeProperties) -> Badge:
    """Change a badge. Members keep what they hold of it, even above a new maximum."""
    return badges.change_badge(call.db, badge, updated_at=call.now, **values_of(body))
