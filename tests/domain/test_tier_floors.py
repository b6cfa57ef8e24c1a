"""Tier holds with a floor: the member has the higher of the floor and the tier by points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.postings import Earning
from domain.tier_log import TierLog, TierTracking
from domain.tier_policies import CALENDAR, EARNED, ROLLING, TierPoints, TierPolicy
from domain.tiers import FIXED, FLOOR, HeldTier, TierAssignments, TierFloor, TierHold, TierSchedule, TierStep

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
LATER = NOON + timedelta(days=100)
ACCOUNT, PROGRAM, MEMBER = 1, 1, 7
BASIC, SILVER, GOLD, OTHER = 10, 11, 12, 13
# Basic needs 0 points, Silver 500 and Gold 1,000.
STEPS = (TierStep(BASIC, Decimal(0), 0), TierStep(SILVER, Decimal(500), 1), TierStep(GOLD, Decimal(1000), 2))
YEAR = TierPolicy(EARNED, ROLLING, months=12)


def schedule(policy=YEAR, steps=STEPS, default=BASIC):
    """A program that counts the points of the last 12 months, unless the policy differs."""
    return TierSchedule(PROGRAM, "program-1", ACCOUNT, default, steps, moves_members=True, policy=policy)


def points_earned(*amounts):
    """A function that returns these points, earned at these moments, for any account."""
    earnings = tuple(Earning(moment, Decimal(amount)) for moment, amount in amounts)
    points = TierPoints(earned=sum((earning.amount for earning in earnings), Decimal(0)), earnings=earnings)
    return lambda _: points


NOTHING = points_earned()


def test_a_floor_above_the_points_decides_until_it_ends():
    # 700 points are enough for Silver, and Gold needs 1,000.
    tier = schedule().held_tier_of(points_earned((NOON, 700)), NOON, TierFloor(GOLD, LATER))
    assert tier == HeldTier(GOLD, is_manual=True, expires_at=LATER, floor=TierFloor(GOLD, LATER))
    assert schedule().held_tier_of(points_earned((NOON, 700)), LATER, tier.floor).loyalty_tier_id == SILVER


@pytest.mark.parametrize(("amount", "tier_id"), [(500, SILVER), (999, SILVER), (1000, GOLD)])
def test_points_that_suffice_for_the_floor_decide(amount, tier_id):
    """Silver needs 500 points, and Gold 1,000."""
    tier = schedule().held_tier_of(points_earned((NOON, amount)), NOON, TierFloor(SILVER))
    assert (tier.loyalty_tier_id, tier.is_manual, tier.floor) == (tier_id, False, TierFloor(SILVER))


def test_a_tier_by_points_falls_to_the_floor_when_the_points_leave_the_period():
    tier = schedule().held_tier_of(points_earned((NOON, 1000)), NOON, TierFloor(SILVER))
    in_a_year = datetime(2027, 3, 4, 12, 0, tzinfo=UTC)
    assert (tier.loyalty_tier_id, tier.expires_at) == (GOLD, in_a_year)
    tier_in_a_year = schedule().held_tier_of(points_earned((NOON, 1000)), in_a_year, tier.floor)
    assert tier_in_a_year == HeldTier(SILVER, is_manual=True, expires_at=None, floor=TierFloor(SILVER))


def test_the_end_of_a_floor_does_not_end_a_tier_that_the_points_keep():
    tier = schedule(TierPolicy(EARNED)).held_tier_of(points_earned((NOON, 600)), NOON, TierFloor(SILVER, LATER))
    assert tier == HeldTier(SILVER, is_manual=False, expires_at=None, floor=TierFloor(SILVER, LATER))
    assert (tier.hold(NOON), tier.hold(LATER)) == (FLOOR, None)


def test_points_that_count_from_a_later_moment_raise_the_member_above_the_floor_at_that_moment():
    next_year = datetime(2027, 1, 1, tzinfo=UTC)
    policy = TierPolicy(EARNED, CALENDAR)
    tier = schedule(policy).held_tier_of(points_earned((next_year + timedelta(days=9), 1200)), NOON, TierFloor(SILVER))
    assert (tier.loyalty_tier_id, tier.expires_at) == (SILVER, next_year)
    tier_next_year = schedule(policy).held_tier_of(points_earned((next_year, 1200)), next_year, tier.floor)
    assert tier_next_year.loyalty_tier_id == GOLD


def test_an_inactive_tier_is_no_floor():
    for inactive_id in (OTHER, BASIC - 1):
        assert schedule().held_tier_of(NOTHING, NOON, TierFloor(inactive_id)) == HeldTier(BASIC)


def test_a_floor_is_the_tier_if_the_points_reach_none():
    steps_without_basic = STEPS[1:]
    tier = schedule(steps=steps_without_basic, default=None).held_tier_of(NOTHING, NOON, TierFloor(SILVER))
    assert tier == HeldTier(SILVER, is_manual=True, expires_at=None, floor=TierFloor(SILVER))


def test_tiers_with_the_same_points_are_ranked_by_their_order():
    # Silver needs 500 points, too, and has the order 1.
    tier_above_silver, tier_below_silver = TierStep(OTHER, Decimal(500), tier_order=2), TierStep(OTHER, Decimal(500), 0)
    tier = schedule(steps=(*STEPS, tier_above_silver)).held_tier_of(points_earned((NOON, 500)), NOON, TierFloor(SILVER))
    assert (tier.loyalty_tier_id, tier.is_manual) == (OTHER, False)
    tier = schedule(steps=(*STEPS, tier_below_silver)).held_tier_of(NOTHING, NOON, TierFloor(OTHER))
    assert tier.loyalty_tier_id == OTHER


def test_a_tier_hold_of_an_inactive_program_ignores_points():
    held_tier = TierHold(GOLD, LATER, FLOOR).held_tier(schedule=None, points=points_earned((NOON, 9999)), at=NOON)
    assert held_tier == HeldTier(GOLD, is_manual=True, expires_at=LATER, floor=TierFloor(GOLD, LATER))
    assert TierHold(GOLD, LATER, FIXED).held_tier(schedule(), NOTHING, NOON) == HeldTier(
        GOLD, is_manual=True, expires_at=LATER
    )


def test_points_change_a_tier_with_a_floor():
    silver_by_floor = HeldTier(SILVER, is_manual=True, expires_at=None, floor=TierFloor(SILVER))
    assignments = TierAssignments((schedule(TierPolicy(EARNED)),), {(MEMBER, PROGRAM): silver_by_floor}, NOON)
    # 1,000 points are enough for Gold.
    [move] = assignments.move_by_points(MEMBER, {ACCOUNT}, points_earned((NOON, 1000)))
    assert (move.tier_id_before, move.tier_id_after) == (SILVER, GOLD)
    gold_by_points = HeldTier(GOLD, is_manual=False, expires_at=None, floor=TierFloor(SILVER))
    assert assignments.stored_tier((MEMBER, PROGRAM)) == gold_by_points


def test_points_do_not_change_a_fixed_tier():
    fixed_silver = HeldTier(SILVER, is_manual=True)
    assignments = TierAssignments((schedule(TierPolicy(EARNED)),), {(MEMBER, PROGRAM): fixed_silver}, NOON)
    assert assignments.move_by_points(MEMBER, {ACCOUNT}, points_earned((NOON, 1000))) == []
    assert assignments.stored_tier((MEMBER, PROGRAM)) == fixed_silver


MOMENTS = st.integers(-800, 800).map(lambda days: NOON + timedelta(days=days))
POLICIES = st.sampled_from([TierPolicy(EARNED), YEAR, TierPolicy(EARNED, CALENDAR), TierPolicy(EARNED, ROLLING, 3)])
FLOORS = st.builds(TierFloor, st.sampled_from([BASIC, SILVER, GOLD, OTHER]), st.none() | MOMENTS)
RANK = {None: -1, BASIC: 0, SILVER: 1, GOLD: 2}


@given(POLICIES, st.lists(st.tuples(MOMENTS, st.integers(0, 900)), max_size=6), FLOORS, MOMENTS, MOMENTS)
def test_the_tier_is_the_higher_of_the_floor_and_the_tier_by_points(policy, earnings, floor, at, other_moment):
    program, points = schedule(policy), points_earned(*earnings)
    tier_by_points, tier = program.held_tier_of(points, at), program.held_tier_of(points, at, floor)
    # OTHER is no tier of the program.
    is_active = floor.loyalty_tier_id in RANK and not floor.has_ended(at)
    minimum = RANK[floor.loyalty_tier_id] if is_active else -1
    assert RANK[tier.loyalty_tier_id] == max(RANK[tier_by_points.loyalty_tier_id], minimum)
    assert tier.is_manual == (minimum > RANK[tier_by_points.loyalty_tier_id])
    # The tier does not change until it ends, and then it changes.
    tier_at_other_moment = program.held_tier_of(points, other_moment, floor)
    if at <= other_moment and (tier.expires_at is None or other_moment < tier.expires_at):
        assert tier_at_other_moment.loyalty_tier_id == tier.loyalty_tier_id
    if tier.expires_at is not None:
        assert program.held_tier_of(points, tier.expires_at, floor).loyalty_tier_id != tier.loyalty_tier_id


def tracking(number, tier_id, kind, previous=None):
    """The tracking with the id `number` of a tier hold; `previous` is the tier before it."""
    blank = TierTracking(
        organization_id=1,
        member_tier_tracking_id=number,
        member_id=MEMBER,
        loyalty_program_id=PROGRAM,
        loyalty_tier_id=tier_id,
        answered_tier_id=tier_id,
        expires_at=None,
        system_unique_key=f"key-{number}",
        request_digest=b"",
        external_id=None,
        description=None,
        tags=(),
        loyalty_event_id=number,
        previous_tier_id=None,
        previous_is_manual=False,
        previous_expires_at=None,
        reversal_loyalty_event_id=None,
        created_at=NOON,
        tier_hold=kind,
    )
    return blank.with_previous(previous)


def test_the_reversal_of_a_floor_restores_the_hold_before_it():
    previous_tier = HeldTier(GOLD, is_manual=True, expires_at=LATER, floor=TierFloor(GOLD, LATER))
    log, assignments = TierLog(), TierAssignments((schedule(),), {}, NOON)
    log.put_trackings([tracking(1, SILVER, FLOOR, previous_tier)])
    # Points have raised the member to Gold since, but the floor is still the one that was set.
    assignments.put((MEMBER, PROGRAM), HeldTier(GOLD, is_manual=False, expires_at=None, floor=TierFloor(SILVER)))
    assert log.reverse(1, assignments, loyalty_event_id=9)
    assert assignments.stored_tier((MEMBER, PROGRAM)) == previous_tier


def test_a_floor_that_was_replaced_is_not_reversed():
    log, assignments = TierLog(), TierAssignments((schedule(),), {}, NOON)
    log.put_trackings([tracking(1, SILVER, FLOOR)])
    for later_tier in (
        HeldTier(SILVER, is_manual=True),
        HeldTier(GOLD, is_manual=True, expires_at=None, floor=TierFloor(GOLD)),
        HeldTier(SILVER),
    ):
        assignments.put((MEMBER, PROGRAM), later_tier)
        assert not log.reverse(1, assignments, loyalty_event_id=9)
        assert assignments.stored_tier((MEMBER, PROGRAM)) == later_tier
