"""Badges of the same members, which many calls assign, unassign and revert at the same time."""

from __future__ import annotations

from functools import partial

import pytest

from tests.builders.badges import Badges, assigns
from tests.builders.tracking import GENERIC, event, key, running
from tests.concurrency.simultaneous import run_simultaneously


@pytest.fixture
def badges(shop):
    return Badges(shop)


def change_badge(badges, action, member, badge, **body):
    """Assign or unassign a badge by one request; return the tracking, or the type of the problem."""
    path = f"/members/{member}/badges/{badge['badgeKey']}/{action}"
    reply = badges.shop.integration.request("POST", path, body)
    assert reply.status in (200, 409), reply.text
    return reply.json["badgeTracking"] if reply.status == 200 else reply.json["type"]


def revert(badges, member, tracking):
    """Revert a tracking; return the tracking of the revert, or the type of the problem."""
    path = f"/members/{member}/badge-trackings/{tracking['badgeTrackingKey']}/revert"
    reply = badges.shop.integration.request("POST", path)
    assert reply.status in (200, 409), reply.text
    return reply.json["badgeTracking"] if reply.status == 200 else reply.json["type"]


def trackings(shop):
    return shop.rows("badge_trackings", order="badge_tracking_id")


def check_trackings(badges, member, badge):
    """Check that the trackings add up to the balance, and that no total was below 0 or above the maximum."""
    total = 0
    for row in trackings(badges.shop):
        total += row.amount_assigned
        assert row.updated_total_assigned == total
        assert 0 <= total <= badge["maxAmount"]
    assert badges.balance(member, badge) == total


def test_assignments_at_the_same_time_stop_exactly_at_the_maximum(shop, badges):
    badge, member = badges.create(maxAmount=10), shop.member()
    shop.campaign(running(assigns(badge)), eventType=GENERIC)
    requests = [partial(change_badge, badges, "assign", member, badge) for _ in range(16)]
    events = [partial(shop.track, event(member), event(member)) for _ in range(8)]
    outcomes = run_simultaneously([*requests, *events])
    outcomes_of_requests, results_of_events = outcomes[:16], [result for batch in outcomes[16:] for result in batch]
    refusals = [outcome for outcome in outcomes_of_requests if outcome == "/problems/badge-limit"]
    skipped_effects = [effect for result in results_of_events for effect in result["effects"] if "error" in effect]
    assert {effect["error"]["type"] for effect in skipped_effects} <= {"/problems/badge-limit"}
    # 16 requests and 16 events, of which 10 succeed.
    assert len(refusals) + len(skipped_effects) == 32 - 10
    assert badges.balance(member, badge) == 10
    check_trackings(badges, member, badge)


def test_assignments_and_unassignments_at_the_same_time_stay_between_0_and_the_maximum(shop, badges):
    badge, member = badges.create(maxAmount=3), shop.member()
    actions = [("assign", 1), ("unassign", 1), ("assign", 2), ("unassign", 2)] * 8
    outcomes = run_simultaneously(
        [partial(change_badge, badges, name, member, badge, amount=amount) for name, amount in actions]
    )
    amounts = [outcome["amountAssigned"] for outcome in outcomes if isinstance(outcome, dict)]
    assert sum(amounts) == badges.balance(member, badge)
    assert len(amounts) == len(trackings(shop))
    check_trackings(badges, member, badge)


def test_one_key_assigns_only_once_and_only_to_the_member_of_the_first_call(shop, badges):
    badge, members = badges.create(maxAmount=100), [shop.member() for _ in range(4)]
    for _ in range(3):
        unique_key = key()
        outcomes = run_simultaneously(
            [
                partial(change_badge, badges, "assign", member, badge, systemUniqueKey=unique_key)
                for member in members * 6
            ]
        )
        trackings = [outcome for outcome in outcomes if isinstance(outcome, dict)]
        assert len({tracking["badgeTrackingId"] for tracking in trackings}) == 1
        # The 6 calls for one member have one tracking; the 18 for the others are refused.
        assert len(trackings) == 6
        assert outcomes.count("/problems/key-reused") == 18
    # One badge for each of the three keys.
    assert sum(badges.balance(member, badge) for member in members) == 3


def test_only_one_of_many_reverts_of_a_tracking_succeeds(shop, badges):
    badge, member = badges.create(maxAmount=100), shop.member()
    for _ in range(3):
        tracking = badges.assign(member, badge, amount=2)
        outcomes = run_simultaneously([partial(revert, badges, member, tracking) for _ in range(16)])
        assert outcomes.count("/problems/badge-tracking-reverted") == 15
    check_trackings(badges, member, badge)
    assert badges.balance(member, badge) == 0


def test_a_balance_is_the_sum_of_assignments_reverts_and_cancellations(shop, badges):
    badge, member = badges.create(maxAmount=5), shop.member()
    shop.campaign(running(assigns(badge)), eventType=GENERIC)
    for _ in range(3):
        assignments = [badges.assign(member, badge) for _ in range(2)]
        tracked_events = shop.track(*(event(member) for _ in range(3)))
        cancels = [
            partial(shop.integration.post, f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
            for result in tracked_events
        ]
        run_simultaneously(
            [
                *(partial(revert, badges, member, assignment) for assignment in assignments * 2),
                *cancels,
                *(partial(change_badge, badges, "assign", member, badge) for _ in range(12)),
                *(partial(change_badge, badges, "unassign", member, badge) for _ in range(6)),
            ]
        )
        check_trackings(badges, member, badge)
        # The next round begins without badges.
        balance = badges.balance(member, badge)
        if balance:
            badges.unassign(member, badge, amount=balance)
