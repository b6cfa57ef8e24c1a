"""The reasons of events about what happens by time: whatever opens the unit of work, each has its own."""

from __future__ import annotations

from datetime import datetime

import pytest

from handlers.services.tiers import evaluate_next
from persistence import organizations, transactions
from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, running

# The clock starts at START. Then 20 points are due after a day, 5 are cancelled after ten, and 10 expire after a month.
# All of that has happened at LATER.
START, LATER = "2026-03-01T09:00:00Z", "2026-04-01T12:00:00Z"
AVAILABLE, EXPIRED = "Points became available.", "Points had expired."
REASONS = {
    "points-available": AVAILABLE,
    "points-cancelled": "Points were not confirmed in time.",
    "points-expired": EXPIRED,
}
SET = "member-tier-set"
ON_CONFIRMED = {"eventTypes": ["member-purchase-order-confirmed"], "cancelAfter": "P10D"}


@pytest.fixture
def shop(clock):
    return Shop(clock.organization)


@pytest.fixture
def points(clock):
    """The default account, whose points expire after a month."""
    points = Points.default(clock.organization)
    body = {name: points.account[name] for name in ("name", "active", "isRevolving", "chainSyncEnabled", "alias")}
    clock.organization.administration.put(points.path, {**body, "isDefaultAccount": True, "expiresInMonths": 1})
    return points


@pytest.fixture
def member(shop, points):
    """A member with 10 points that expire, 20 that wait for a moment, and 5 that wait for an event."""
    member = shop.member()
    shop.campaign(running(mint(1)), eventType=GENERIC)
    # Expiries are reported while a campaign names the type of event.
    shop.campaign(eventType="points-expired")
    for body in ({"amount": 10}, {"amount": 20, "availableAfter": "P1D"}, {"amount": 5, "availableOn": ON_CONFIRMED}):
        shop.give(member, **body)
    return member


@pytest.fixture
def make_due(clock, points):
    """A function that moves the clock to `LATER` without the work that is due then."""

    def move():
        sql = "UPDATE organizations SET clock_now = :now WHERE organization_id = :id"
        points.change(sql, now=LATER, id=clock.organization.id)

    return move


def evaluate_tiers(shop, at=LATER):
    """Evaluate the tiers of all members; return the numbers of evaluated members and of changed tiers."""
    now = datetime.fromisoformat(at)
    evaluation = transactions.run(
        shop.organization.api.engine,
        lambda db: evaluate_next(db, organizations.find(db, shop.organization.id), 0, now, everyone=True),
    )
    return evaluation.members, evaluation.moves


def member_id(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]


def reasons(shop, member, event_type):
    """The reasons of the member's events of this type, oldest first."""
    events = [record for record in shop.events(member) if record["eventType"] == event_type]
    return [record["reason"] for record in sorted(events, key=lambda record: record["loyaltyEventId"])]


def check_reasons_of_due_points(shop, member):
    """Assert that each of the three amounts of the member has one event, which has the reason of `REASONS`."""
    assert {event_type: reasons(shop, member, event_type) for event_type in REASONS} == {
        event_type: [reason] for event_type, reason in REASONS.items()
    }


@pytest.mark.parametrize("trigger", ["request", "event", "extension", "evaluation of tiers"])
def test_events_of_due_points_have_their_own_reasons(shop, points, member, make_due, trigger):
    make_due()
    if trigger == "request":
        shop.give(member, 1)
    elif trigger == "event":
        shop.track_one(event(member))
    elif trigger == "extension":
        lots = {"ledgerAccountId": points.account_id, "memberId": member_id(shop, member)}
        shop.administration.post("/expiry-extensions", {**lots, "months": 1, "systemUniqueKey": "e-1"}, expect=200)
    else:
        evaluate_tiers(shop)
    check_reasons_of_due_points(shop, member)


def test_events_of_due_points_do_not_count_as_changed_tiers(shop, member, make_due):
    make_due()
    evaluated_members, changed_tiers = evaluate_tiers(shop)
    assert (evaluated_members, changed_tiers) == (1, 0)
    check_reasons_of_due_points(shop, member)


def test_events_of_the_test_clock_have_their_own_reasons(clock, shop, member):
    clock.advance(LATER)
    check_reasons_of_due_points(shop, member)


def test_a_tier_change_has_the_reason_that_points_became_available_or_expired(clock, shop, member):
    # The balance is 10, then 10 + 20, and 20 when the 10 have expired.
    tiers = TierSchedule.new(shop, Gold=25)
    clock.advance(LATER)
    assert tiers.moves(member) == [(SET, "Basic", "Gold"), (SET, "Gold", "Basic")]
    assert reasons(shop, member, SET) == [AVAILABLE, EXPIRED]


@pytest.mark.parametrize(
    ("trigger", "reason"),
    [
        ("request", "Points were moved by request."),
        ("event", f"{AVAILABLE} {EXPIRED}"),
        ("evaluation of tiers", f"{AVAILABLE} {EXPIRED}"),
    ],
)
def test_the_reason_of_a_tier_names_the_due_points_unless_a_request_moved_points(
    shop, member, make_due, trigger, reason
):
    # The balance is 10 before and 20 after the due points are settled.
    TierSchedule.new(shop, Gold=15)
    make_due()
    if trigger == "request":
        shop.give(member, 1)
    elif trigger == "event":
        shop.track_one(event(member))
    else:
        evaluate_tiers(shop)
    assert reasons(shop, member, SET) == [reason]


def test_an_expired_tier_has_its_own_reason_when_a_request_moves_points_of_another_account(
    clock, shop, points, make_due
):
    tiers, member = TierSchedule.new(shop, Gold=15), shop.member()
    another_account = Points.new(clock.organization)
    tiers.set(member, "Gold", expiresAt="2026-03-15T09:00:00Z")
    make_due()
    shop.give(member, 1, ledgerAccountId=another_account.account_id)
    assert tiers.moves(member) == [(SET, "Basic", "Gold"), (SET, "Gold", "Basic")]
    assert reasons(shop, member, SET)[-1] == "The tier had expired."


@pytest.mark.parametrize("hold", ["fixed", "floor"])
def test_the_end_of_a_set_tier_has_the_reason_that_it_expired_even_if_points_expire_with_it(
    shop, points, make_due, hold
):
    tiers, member = TierSchedule.new(shop, Gold=100), shop.member()
    # The points expire after a month, when the set tier ends.
    shop.give(member, 10)
    tiers.set(member, "Gold", expiresAt="2026-04-01T09:00:00Z", tierHold=hold)
    make_due()
    evaluate_tiers(shop)
    assert shop.balance(member) == 0
    assert tiers.moves(member) == [(SET, "Basic", "Gold"), (SET, "Gold", "Basic")]
    assert reasons(shop, member, SET)[-1] == "The tier had expired."


def test_the_end_of_a_tier_by_earned_points_has_the_reason_that_it_and_not_points_expired(shop, points, make_due):
    policy = {"basis": "earned", "period": "rolling", "months": 1}
    tiers, member = TierSchedule.new(shop, policy=policy, Gold=10), shop.member()
    shop.give(member, 10)
    make_due()
    evaluate_tiers(shop)
    assert shop.balance(member) == 0
    assert tiers.moves(member) == [(SET, "Basic", "Gold"), (SET, "Gold", "Basic")]
    assert reasons(shop, member, SET)[-1] == "The tier had expired."


def test_a_tier_that_changes_by_new_settings_has_the_reason_that_it_was_evaluated_again(shop, points):
    member = shop.member()
    shop.give(member, 20)
    # The tier Gold is created when the member has enough points for it.
    TierSchedule.new(shop, Gold=15)
    evaluate_tiers(shop, at=START)
    assert reasons(shop, member, SET) == ["The tier was evaluated again."]


@pytest.mark.parametrize("trigger", ["request", "event", "evaluation of tiers"])
def test_the_end_of_an_inactive_tier_has_the_reason_that_it_was_deactivated(shop, points, trigger):
    tiers, member = TierSchedule.new(shop, Gold=15), shop.member()
    another_account = Points.new(shop.organization)
    shop.campaign(running(mint(1)), eventType=GENERIC)
    tiers.set(member, "Gold")
    path = f"/loyalty-programs/{tiers.program['loyaltyProgramId']}/tiers/{tiers.id('Gold')}"
    shop.administration.put(path, {"name": "Gold", "active": False, "minRequiredPoints": 15, "tierOrder": 2})
    if trigger == "request":
        shop.give(member, 1, ledgerAccountId=another_account.account_id)
    elif trigger == "event":
        shop.track_one(event(member))
    else:
        evaluate_tiers(shop)
    assert tiers.moves(member)[1:] == [(SET, "Gold", "Basic")]
    assert reasons(shop, member, SET)[-1] == "The tier was deactivated."
    newest_row = shop.integration.get(f"/members/{member}/timeline", kinds="tier")["results"][0]
    # The name of the tier Basic is Member.
    assert newest_row["text"] == "The tier in Default changed from Gold to Member: The tier was deactivated."
