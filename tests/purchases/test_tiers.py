"""The tiers that real purchases lead to, compared with a computation outside the product."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop as TrackingShop
from tests.purchases.cdnow import AT_LENGTH, orders
from tests.purchases.shop import Shop, mint

THRESHOLDS = {"Silver": 200, "Gold": 500, "Platinum": 1000}


def tier_at(points):
    """The name of the tier with so many points."""
    return next((name for name, minimum in reversed(THRESHOLDS.items()) if points >= minimum), "Basic")


@pytest.mark.parametrize("count", AT_LENGTH)
def test_members_reach_tiers_by_their_points_and_each_change_is_reported_once(api, count):
    purchases = orders(count)
    shop = Shop.new(api, purchases)
    tiers = TierSchedule.new(TrackingShop(shop.organization), **THRESHOLDS)
    shop.campaign(mint("floor(order.total)"))
    shop.track(purchases)

    points: Counter[str] = Counter()
    moves = []
    for order in purchases:
        # A member without points has no tier yet.
        former_tier = tier_at(points[order.customer]) if points[order.customer] else None
        points[order.customer] += int(order.total)
        new_tier = tier_at(points[order.customer]) if points[order.customer] else None
        if new_tier != former_tier:
            moves.append((order.customer, former_tier, new_tier))

    rows = shop.ask(
        "SELECT loyalty_member_id, loyalty_tier_id FROM member_tiers JOIN members USING (organization_id, member_id)"
        " WHERE organization_id = :organization_id"
    )
    expected_tiers = {member: tier_at(total) for member, total in points.items() if total}
    assert {member: tiers.name(tier_id) for member, tier_id in rows} == expected_tiers
    # Each tier has some members.
    assert all(Counter(expected_tiers.values())[name] > 10 for name in ("Basic", *THRESHOLDS))

    event_rows = shop.ask(
        "SELECT loyalty_member_id, payload FROM events JOIN members USING (organization_id, member_id)"
        " WHERE organization_id = :organization_id AND event_type = 'member-tier-set' ORDER BY loyalty_event_id"
    )
    reported_moves = [
        (member, tiers.name(payload["previousLoyaltyTierId"]), tiers.name(payload["loyaltyTierId"]))
        for member, payload in event_rows
    ]
    assert reported_moves == moves
