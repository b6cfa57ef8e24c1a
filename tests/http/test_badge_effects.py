"""Badges that campaigns assign and unassign: the outcomes, and their reversal when the event is cancelled."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.builders.badges import Badges, assigns, unassigns
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, Shop, event, order, order_update, running

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def badges(shop):
    return Badges(shop)


@pytest.fixture
def badge(badges):
    """A badge of which a member holds at most 3."""
    return badges.create(maxAmount=3)


@pytest.fixture
def member(shop):
    return shop.member()


def cancel(shop, tracked_event, expect=200):
    """Cancel the event of this result; return the results of the cancellation, or the problem.

    The last result is that of the event itself. Those before it are of events that it has caused.
    """
    response = shop.integration.post(f"/events/{tracked_event['loyaltyEventKey']}/cancel", {}, expect=expect)
    return response["results"] if expect == 200 else response


def outcomes(result):
    """(effectId, status, type of the error or None) of each effect."""
    return [(effect["effectId"], effect["status"], effect.get("error", {}).get("type")) for effect in result["effects"]]


def test_a_campaign_assigns_and_unassigns_badges(shop, badges, badge, member):
    other_badge = badges.create(maxAmount=3)
    badges.assign(member, other_badge, amount=3)
    effects = (assigns(badge), assigns(badge, amount=2), unassigns(other_badge, amount=2))
    shop.campaign(running(*effects), eventType=GENERIC)
    result = shop.track_one(event(member))
    assert outcomes(result) == [
        ("assign-badge", "executed", None),
        ("assign-badge", "executed", None),
        ("unassign-badge", "executed", None),
    ]
    assert (badges.balance(member, badge), badges.balance(member, other_badge)) == (1 + 2, 3 - 2)
    assert [loyalty_event["eventType"] for loyalty_event in shop.events(member)][:3] == [
        "badge-unassigned",
        "badge-assigned",
        "badge-assigned",
    ]
    rows = shop.rows("badge_trackings", "amount_assigned, loyalty_event_id", order="badge_tracking_id")
    event_record = shop.integration.get(f"/events/{result['loyaltyEventKey']}")["event"]
    # The first row is the assignment by request.
    assert [(row.amount_assigned, row.loyalty_event_id) for row in rows[1:]] == [
        (amount, event_record["loyaltyEventId"]) for amount in (1, 2, -2)
    ]


def test_amounts_are_rounded_down_to_whole_badges(shop, badges, badge, member):
    shop.campaign(running(assigns(badge, amount=("=", "order.total / 10"))))
    # 2.999 and 0.999 badges.
    [large_order, small_order] = shop.track(order(member, "29.99"), order(member, "9.99"))
    assert badges.balance(member, badge) == 2
    assert outcomes(large_order) == [("assign-badge", "executed", None)]
    assert outcomes(small_order) == [("assign-badge", "skipped", "/problems/zero-amount")]


def test_effects_beyond_the_bounds_of_a_badge_are_skipped_and_not_cut(shop, badges, badge, member):
    inactive_badge = badges.create(active=False)
    # The member may hold at most 3 of the badge, and holds none.
    effects = (assigns(badge, amount=4), unassigns(badge), assigns(inactive_badge), mint(1))
    shop.campaign(running(*effects), eventType=GENERIC)
    assert outcomes(shop.track_one(event(member))) == [
        ("assign-badge", "skipped", "/problems/badge-limit"),
        ("unassign-badge", "skipped", "/problems/insufficient-badges"),
        ("assign-badge", "skipped", "/problems/badge-inactive"),
        ("mint-points", "executed", None),
    ]
    assert shop.rows("badge_trackings") == []


def test_a_literal_badge_key_must_exist(shop, badge, other_organization):
    foreign_badge = Badges(Shop(other_organization)).create()
    campaign = shop.campaign()
    path = f"/campaigns/{campaign['campaignId']}/actions"
    for wrong_badge in (foreign_badge, {"badgeKey": UNKNOWN}, {"badgeKey": "early-bird"}):
        for effect in (assigns(wrong_badge), unassigns(wrong_badge)):
            problem = shop.administration.post(path, running(effect), expect=404)
            assert problem["type"] == "/problems/unknown-badge"
    action = shop.administration.post(path, running(assigns({"badgeKey": badge["badgeKey"].upper()})))["action"]
    problem = shop.administration.put(f"{path}/{action['actionId']}", running(assigns(foreign_badge)), expect=404)
    assert problem["type"] == "/problems/unknown-badge"
    effect_without_key = {"effectId": "assign-badge", "params": [{"id": "amount", "value": 1}]}
    problem = shop.administration.post(path, running(effect_without_key), expect=400)
    assert problem["type"] == "/problems/invalid-request"


def test_a_badge_key_from_an_expression_may_be_unknown(shop, badges, badge, member):
    badge_reference = {"badgeKey": ("=", "event.tags[0]")}
    shop.campaign(running(assigns(badge_reference)), eventType=GENERIC)
    [valid_result, invalid_result] = shop.track(
        event(member, tags=[badge["badgeKey"]]), event(member, tags=["early-bird"])
    )
    assert outcomes(valid_result) == [("assign-badge", "executed", None)]
    assert outcomes(invalid_result) == [("assign-badge", "failed", "/problems/unknown-badge")]
    assert badges.balance(member, badge) == 1


def test_rules_see_the_current_badges_of_the_member(shop, badges, badge, member):
    other_badge = badges.create(maxAmount=3)
    number, other_number = (f"badges['{record['badgeKey']}']" for record in (badge, other_badge))
    shop.campaign(running(assigns(badge), rule=f"{number} < 3"), eventType=GENERIC)
    shop.campaign(running(assigns(other_badge), rule=f"{number} == 2"), eventType="badge-assigned")
    shop.campaign(running(mint(1), rule=f"{other_number} > 0"), eventType=GENERIC)
    shop.track(*(event(member) for _ in range(5)))
    # The second assignment assigns the other badge. Each assignment of that badge assigns it again, up to its maximum.
    assert (badges.balance(member, badge), badges.balance(member, other_badge)) == (3, 3)
    # One point for each event after the second one.
    assert shop.balance(member) == 5 - 2


@pytest.mark.slow
def test_a_chain_of_campaigns_that_assign_badges_ends_after_five_caused_events(shop, badges, member):
    chain = [badges.create(name=f"B{n}") for n in range(7)]
    shop.campaign(running(assigns(chain[0])), eventType=GENERIC)
    rule = "event.payload.badgeTracking.badgeKey == '{}'"
    for previous_badge, next_badge in pairwise(chain):
        shop.campaign(
            running(assigns(next_badge), rule=rule.format(previous_badge["badgeKey"])), eventType="badge-assigned"
        )
    tracked_event = shop.track_one(event(member))
    # The first event, and events at most five steps away from it.
    assert [badges.balance(member, badge) for badge in chain] == [1, 1, 1, 1, 1, 1, 0]
    results = cancel(shop, tracked_event)
    assert sum(len(result["badges"]) for result in results) == 6
    assert [badges.balance(member, badge) for badge in chain] == [0] * 7


def test_a_dry_run_reports_effects_and_changes_nothing(shop, badges, badge, member):
    # The second effect exceeds the maximum of 3.
    shop.campaign(running(assigns(badge), assigns(badge, amount=3)), eventType=GENERIC)
    # It would apply to an assignment that is not stored, so only in a dry run.
    shop.campaign(running(mint(5), rule="event.payload.badgeTracking.badgeTrackingId == null"))
    tables = ("badge_trackings", "member_badges", "events", "ledger_transactions")
    initial_counts = {table: shop.rows(table, "count(*)") for table in tables}
    [result] = shop.track(event(member), executionMode="dryRun")
    assert outcomes(result) == [
        ("assign-badge", "evaluated", None),
        ("assign-badge", "skipped", "/problems/badge-limit"),
    ]
    assert {table: shop.rows(table, "count(*)") for table in tables} == initial_counts
    assert badges.balance(member, badge) == 0
    [executed_result] = shop.track(event(member))
    # The same effects and errors; only the status of the first is `executed` now.
    assert outcomes(executed_result) == [
        ("assign-badge", "executed", None),
        ("assign-badge", "skipped", "/problems/badge-limit"),
    ]


def test_an_event_tracked_several_times_assigns_a_badge_once(shop, badges, badge, member):
    shop.campaign(running(assigns(badge)), eventType=GENERIC)
    generic_event = event(member)
    shop.track(generic_event, generic_event)
    shop.track(generic_event)
    assert badges.balance(member, badge) == 1


# --- cancellations -----------------------------------------------------------------------------------------------


def test_cancelling_restores_the_prior_state(shop, badges, badge, member):
    other_badge = badges.create()
    # The state that is restored: 1 badge, 3 other badges, no points.
    badges.assign(member, badge, amount=1)
    badges.assign(member, other_badge, amount=3)
    shop.campaign(running(assigns(badge, amount=2), unassigns(other_badge, amount=2), mint(5)), eventType=GENERIC)
    tracked_event = shop.track_one(event(member))
    event_count = len(shop.events(member))
    [*results_of_caused_events, result_of_event] = cancel(shop, tracked_event)
    # Two assignments by request, the two trackings of the campaign, and their two reversals, the last first.
    rows = shop.rows("badge_trackings", order="badge_tracking_id")
    [_, _, assignment, unassignment, reversal_of_unassignment, reversal_of_assignment] = rows
    assert result_of_event["badges"] == [
        {
            "badgeTrackingId": row.badge_tracking_id,
            "badgeTrackingKey": str(row.badge_tracking_key),
            "badgeKey": reverted_badge["badgeKey"],
            "amountAssigned": amount,
            "revertedAmount": amount,
            "updatedTotalAssigned": total,
            "outcome": "reverted",
        }
        for row, reverted_badge, amount, total in ((unassignment, other_badge, -2, 3), (assignment, badge, 2, 1))
    ]
    # Those of the assignment and of the unassignment.
    assert [result["badges"] for result in results_of_caused_events] == [[], []]
    assert (badges.balance(member, badge), badges.balance(member, other_badge), shop.balance(member)) == (1, 3, 0)
    # The event of the cancellation; reversals of badges cause none.
    assert len(shop.events(member)) == event_count + 1
    assert reversal_of_unassignment.reverted_badge_tracking_id == unassignment.badge_tracking_id
    assert reversal_of_assignment.reverted_badge_tracking_id == assignment.badge_tracking_id
    assert cancel(shop, tracked_event, expect=409)["type"] == "/problems/event-cancelled"


def test_cancelling_claws_back_only_badges_that_the_member_still_holds(shop, badges, badge, member):
    shop.campaign(running(assigns(badge, amount=3)), eventType=GENERIC)
    tracked_event = shop.track_one(event(member))
    # One of the three badges remains.
    badges.unassign(member, badge, amount=2)
    [reversal] = [reversal for result in cancel(shop, tracked_event) for reversal in result["badges"]]
    assert (reversal["amountAssigned"], reversal["revertedAmount"], reversal["outcome"]) == (3, 1, "clamped")
    assert badges.balance(member, badge) == 0


def test_cancelling_gives_unassigned_badges_back_up_to_the_maximum(shop, badges, badge, member):
    badges.assign(member, badge, amount=3)
    shop.campaign(running(unassigns(badge, amount=2)), eventType=GENERIC)
    tracked_event = shop.track_one(event(member))
    # 3 - 2 + 1 = 2, so only one more is below the maximum of 3.
    badges.assign(member, badge, amount=1)
    badges.change(badge, active=False)
    [reversal] = [reversal for result in cancel(shop, tracked_event) for reversal in result["badges"]]
    assert (reversal["amountAssigned"], reversal["revertedAmount"], reversal["outcome"]) == (-2, -1, "clamped")
    assert badges.balance(member, badge) == 3


def test_an_assignment_is_reverted_by_a_request_or_by_a_cancellation_but_not_by_both(shop, badges, badge, member):
    shop.campaign(running(assigns(badge, amount=2)), eventType=GENERIC)
    tracked_event = shop.track_one(event(member))
    [assignment] = shop.rows("badge_trackings")
    badges.revert(member, {"badgeTrackingKey": assignment.badge_tracking_key})
    badges.assign(member, badge, amount=3)
    assert [result["badges"] for result in cancel(shop, tracked_event)] == [[], []]
    assert badges.balance(member, badge) == 3
    # A request cannot revert an assignment that a cancellation has reverted.
    badges.unassign(member, badge, amount=3)
    cancel(shop, shop.track_one(event(member)))
    newest_first = shop.rows("badge_trackings", order="badge_tracking_id DESC")
    second_assignment = next(row for row in newest_first if row.amount_assigned == 2)
    problem = badges.revert(member, {"badgeTrackingKey": second_assignment.badge_tracking_key}, expect=409)
    assert problem["type"] == "/problems/badge-tracking-reverted"


def test_a_full_return_claws_badges_back_and_a_partial_one_does_not(shop, badges, badge, member):
    shop.campaign(running(assigns(badge)), eventType="member-purchase-order-created")
    items = [{"productCode": code, "total": 5, "quantity": 1} for code in ("a", "b")]
    creation = order(member, 10, external_id="order-1", items=items)
    full_return = order_update(member, "order-1", "returned")
    partial_return = order_update(member, "order-1", "partially-returned", items=items[:1])
    confirmation = order_update(member, "order-1", "confirmed")
    assert {result["status"] for result in shop.track(creation, confirmation, partial_return)} == {"success"}
    assert badges.balance(member, badge) == 1
    reverted_events = shop.track_one(full_return)["reverted"]
    reversals = [reversal for reverted_event in reverted_events for reversal in reverted_event["badges"]]
    assert [reversal["revertedAmount"] for reversal in reversals] == [1]
    assert badges.balance(member, badge) == 0


def test_orders_created_and_cancelled_in_one_batch_leave_no_badges(shop, badges, badge, member):
    shop.campaign(running(assigns(badge)), eventType="member-purchase-order-created")
    batch = [
        order(member, 10, status=status, external_id=f"order-{n}")
        for n in range(3)
        for status in ("created", "cancelled")
    ]
    assert {result["status"] for result in shop.track(*batch)} == {"success"}
    assert badges.balance(member, badge) == 0
    assert [row.amount_assigned for row in shop.rows("badge_trackings", order="badge_tracking_id")] == [1, -1] * 3


def test_an_unassignment_reverted_after_the_return_of_the_order_gives_nothing_back(shop, badges, badge, member):
    shop.campaign(running(assigns(badge)), eventType="member-purchase-order-created")
    shop.track_one(order(member, 10, external_id="o-1"))
    unassignment = badges.unassign(member, badge)
    shop.track_one(order_update(member, "o-1", "confirmed"))
    # The last of the reverted events is the creation of the order.
    reverted_creation = shop.track_one(order_update(member, "o-1", "returned"))["reverted"][-1]
    [reversal] = reverted_creation["badges"]
    assert (reversal["revertedAmount"], reversal["outcome"]) == (0, "clamped")
    event_count = len(shop.events(member))
    reversal = badges.revert(member, unassignment)
    assert (reversal["amountAssigned"], reversal["updatedTotalAssigned"]) == (0, 0)
    assert badges.balance(member, badge) == 0
    assert len(shop.events(member)) == event_count
    # Later reversals give badges back: nothing more is to be clawed back.
    badges.assign(member, badge)
    badges.revert(member, badges.unassign(member, badge))
    assert badges.balance(member, badge) == 1


def test_a_badge_above_the_maximum_is_given_back_when_another_assignment_is_reverted(shop, badges, member):
    badge = badges.create(maxAmount=1)
    badges.assign(member, badge)
    shop.campaign(running(unassigns(badge)), eventType=GENERIC)
    tracked_event = shop.track_one(event(member))
    assignment = badges.assign(member, badge)
    # The member holds the maximum, so the unassigned badge cannot be given back yet.
    assert cancel(shop, tracked_event)[-1]["badges"][0]["outcome"] == "clamped"
    badges.revert(member, assignment)
    assert badges.balance(member, badge) == 1
