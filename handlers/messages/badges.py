"""Badge trackings in messages."""

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Tracking(WireSchema):
    badge_tracking_id = Plain()
    badge_tracking_key = Plain()
    badge_key = Plain()
    amount_assigned = Plain()
    updated_total_assigned = Plain()
    system_unique_key = Plain()
    custom_attributes = Plain()
    external_id = Plain()
    reverted_badge_tracking_id = Plain()
    reversal_badge_tracking_id = Plain()
    created_at = Instant()


TRACKING = Shape(_Tracking)
