"""Badges of the same members given, taken and reverted from many sides at once."""

from __future__ import annotations

from functools import partial

import pytest

from tests.builders.badges import Badges, assigns
from tests.builders.tracking import GENERIC, event, key, running
from tests.concurrency.together import together


@pytest.fixture
def badges(shop):
    return Badges(shop)


def act(badges, action, member, badge, **body):
    """The tracking of one request, or the type of the problem."""
    path = f"/members/{member}/badges/{badge['badgeKey']}/{action}"
    reply = badges.shop.integration.request("POST", path, body)
    assert reply.status in (200, 409), reply.text
    return reply.json["badgeTracking"] if reply.status == 200 else reply.json["type"]


def revert(badges, member, tracking):
    path = f"/members/{member}/badge-trackings/{tracking['badgeTrackingKey']}/revert"
    reply = badges.shop.integration.request("POST", path)
    assert reply.status in (200, 409), reply.text
    return reply.json["badgeTracking"] if reply.status == 200 else reply.json["type"]


def trackings(shop):
    return shop.rows("badge_trackings", order="badge_tracking_id")


def check(badges, member, badge):
    """What was tracked, in its order, leads to the balance and never left the bounds."""
    total = 0
    for row in trackings(badges.shop):
        total += row.amount_assigned
        assert row.updated_total_assigned == total
        assert 0 <= total <= badge["maxAmount"]
    assert badges.balance(member, badge) == total


def test_as_many_as_allowed_are_assigned_and_not_one_more(shop, badges):
    badge, member = badges.create(maxAmount=10), shop.member()
    shop.campaign(running(assigns(badge)), eventType=GENERIC)
    requests = [partial(act, badges, "assign", member, badge) for _ in range(16)]
    events = [partial(shop.track, event(member), event(member)) for _ in range(8)]
    answers = together([*requests, *events])
    refusals = [answer for answer in answers[:16] if answer == "/problems/badge-limit"]
    skipped = [
        effect for results in answers[16:] for result in results for effect in result["effects"] if "error" in effect
    ]
    assert {effect["error"]["type"] for effect in skipped} <= {"/problems/badge-limit"}
    assert len(refusals) + len(skipped) == 32 - 10
    assert badges.balance(member, badge) == 10
    check(badges, member, badge)


def test_a_mixture_never_leaves_the_bounds(shop, badges):
    badge, member = badges.create(maxAmount=3), shop.member()
    actions = [("assign", 1), ("unassign", 1), ("assign", 2), ("unassign", 2)] * 8
    answers = together([partial(act, badges, name, member, badge, amount=amount) for name, amount in actions])
    amounts = [answer["amountAssigned"] for answer in answers if isinstance(answer, dict)]
    assert sum(amounts) == badges.balance(member, badge)
    assert len(amounts) == len(trackings(shop))
    check(badges, member, badge)


def test_one_key_assigns_once_and_belongs_to_the_first_sender(shop, badges):
    badge, members = badges.create(maxAmount=100), [shop.member() for _ in range(4)]
    for _ in range(3):
        name = key()
        answers = together(
            [partial(act, badges, "assign", member, badge, systemUniqueKey=name) for member in members * 6]
        )
        trackings = [answer for answer in answers if isinstance(answer, dict)]
        assert len({tracking["badgeTrackingId"] for tracking in trackings}) == 1
        assert len(trackings) == 6
        assert answers.count("/problems/key-reused") == 18
    assert sum(badges.balance(member, badge) for member in members) == 3


def test_a_tracking_is_reverted_once(shop, badges):
    badge, member = badges.create(maxAmount=100), shop.member()
    for _ in range(3):
        tracking = badges.assign(member, badge, 2)
        answers = together([partial(revert, badges, member, tracking) for _ in range(16)])
        assert answers.count("/problems/badge-tracking-reverted") == 15
    check(badges, member, badge)
    assert badges.balance(member, badge) == 0


def test_a_balance_is_the_sum_of_assignments_reverts_and_cancellations(shop, badges):
    badge, member = badges.create(maxAmount=5), shop.member()
    shop.campaign(running(assigns(badge)), eventType=GENERIC)
    for _ in range(3):
        assignments = [badges.assign(member, badge) for _ in range(2)]
        tracked = shop.track(*(event(member) for _ in range(3)))
        cancels = [
            partial(shop.integration.post, f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
            for result in tracked
        ]
        together(
            [
                *(partial(revert, badges, member, assignment) for assignment in assignments * 2),
                *cancels,
                *(partial(act, badges, "assign", member, badge) for _ in range(12)),
                *(partial(act, badges, "unassign", member, badge) for _ in range(6)),
            ]
        )
        check(badges, member, badge)
        balance = badges.balance(member, badge)
        if balance:
            badges.unassign(member, badge, balance)
