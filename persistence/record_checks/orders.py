"""Checks of purchase orders: the returned amounts of orders and of their items."""

from persistence.record_checks.forms import OF_ORGANIZATION

_WRONG_RETURNED = f"""
SELECT o.organization_id, format('order %s: is %s, and %s of its %s are returned', o.order_id, o.status,
    trim_scale(o.returned_total), trim_scale(o.total))
FROM purchase_orders o
WHERE {OF_ORGANIZATION.format("o")} AND o.total >= 0 AND CASE o.status
    WHEN 'returned' THEN o.returned_total <> o.total
    WHEN 'partially-returned' THEN o.returned_total NOT BETWEEN 0 AND o.total
    ELSE o.returned_total <> 0 END
"""

# Items may add up to more than the order, for example because of a discount; their shares are rounded.
_UNLIKE_ITEMS = f"""
SELECT o.organization_id, format('order %s: %s of it are returned, of its items %s', o.order_id,
    trim_scale(o.returned_total), trim_scale(i.returned))
FROM purchase_orders o JOIN (
    SELECT i.organization_id, i.order_id, sum(i.returned_total) AS returned, sum(i.returned_quantity) AS quantity
    FROM order_items i WHERE {OF_ORGANIZATION.format("i")} GROUP BY i.organization_id, i.order_id
) i USING (organization_id, order_id)
WHERE {OF_ORGANIZATION.format("o")} AND CASE WHEN o.status IN ('returned', 'partially-returned')
    THEN o.returned_total < least(o.total, i.returned) - 0.000001 ELSE i.returned <> 0 OR i.quantity <> 0 END
"""

_WRONG_ITEM = f"""
SELECT i.organization_id, format('order item %s: %s of %s are returned, worth %s of %s', i.order_item_id,
    trim_scale(i.returned_quantity), coalesce(trim_scale(i.quantity), 1), trim_scale(i.returned_total),
    coalesce(CAST(trim_scale(i.total) AS text), 'an unknown value'))
FROM order_items i
WHERE {OF_ORGANIZATION.format("i")} AND (i.returned_quantity NOT BETWEEN 0 AND coalesce(i.quantity, 1)
    OR i.total >= 0 AND i.returned_total NOT BETWEEN 0 AND i.total)
"""

_WRONG_EVENTS = f"""
SELECT o.organization_id, format('order %s of member %s: was created by event %s, which is of member %s', o.order_id,
    o.member_id, o.loyalty_event_id, coalesce(CAST(e.member_id AS text), 'nobody'))
FROM purchase_orders o LEFT JOIN events e USING (organization_id, loyalty_event_id)
WHERE {OF_ORGANIZATION.format("o")} AND e.member_id IS DISTINCT FROM o.member_id
UNION ALL
SELECT o.organization_id, format('order %s: was created by event %s, its first event is %s', o.order_id,
    o.loyalty_event_id, coalesce(CAST(o.event_ids[1] AS text), 'missing'))
FROM purchase_orders o WHERE {OF_ORGANIZATION.format("o")} AND o.event_ids[1] IS DISTINCT FROM o.loyalty_event_id
"""

CHECKS = (_WRONG_RETURNED, _UNLIKE_ITEMS, _WRONG_ITEM, _WRONG_EVENTS)
