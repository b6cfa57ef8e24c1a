"""Badge trackings in messages."""

from domain.badges import BadgeTracking
from handlers.messages.base import Shape

TRACKING = Shape(BadgeTracking, without=("organization_id", "badge_id", "member_id", "loyalty_event_id", "missing"))
