"""References to a coupon book."""

from typing import NamedTuple

from sqlalchemy import Connection

from domain.coupons.books import CouponBook

# The parameter has the key of the book as its value, or the text of its expression contains the key anywhere.
_ASSIGNING_ACTIONS = """
SELECT DISTINCT campaign.campaign_id, campaign.campaign_key::text, action.action_id
FROM campaign_actions AS action
JOIN campaigns AS campaign
    ON campaign.organization_id = action.organization_id AND campaign.campaign_id = action.campaign_id
CROSS JOIN json_array_elements(action.effects -> 'items') AS item
CROSS JOIN json_array_elements(item -> 'params') AS param
WHERE action.organization_id = %(organization_id)s
    AND item ->> 'effectId' = 'assign-coupon' AND param ->> 'id' = 'couponBookKey'
    AND (lower(param ->> 'value') = %(key)s OR position(%(key)s in lower(param ->> 'expression')) > 0)
ORDER BY campaign.campaign_id, action.action_id
"""


class AssigningAction(NamedTuple):
    """An action with an effect that assigns coupons of a book."""

    campaign_id: int
    campaign_key: str
    action_id: int


def find_assigning_actions(db: Connection, book: CouponBook) -> list[AssigningAction]:
    """The actions with an effect that assigns coupons of the book."""
    values = {"organization_id": book.organization_id, "key": book.coupon_book_key}
    return [AssigningAction(*row) for row in db.exec_driver_sql(_ASSIGNING_ACTIONS, values)]
