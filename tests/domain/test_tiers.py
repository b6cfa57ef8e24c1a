"""Which tier points reach, and how members move between tiers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.programs import (
    LoyaltyProgram,
    LoyaltyTier,
    TierInactive,
    configured_tiers,
    refuse_inactive_default,
    schedules_of,
)
from domain.tier_log import TierLog, TierTracking
from domain.tier_policies import EARNED, LIFETIME, ROLLING, TierPoints, TierPolicy, complete_tier_policy
from domain.tiers import (
    FLOOR,
    ConfiguredTier,
    HeldTier,
    TierAssignments,
    TierFloor,
    TierSchedule,
    TierStep,
)
from tests.domain.campaigns.test_context import record

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
PROGRAM, ACCOUNT, MEMBER = 1, 10, 7
NO_ACCOUNT: tuple[int, ...] = ()
BASIC, SILVER, GOLD = 100, 200, 300


def schedule(
    *steps: TierStep, default: int | None = BASIC, account: int | None = ACCOUNT, program: int = PROGRAM
) -> TierSchedule:
    """A program whose default tier is Basic."""
    moves = any(step.loyalty_tier_id != default for step in steps)
    return TierSchedule(program, f"program-{program}", account, default, steps, moves)


# Basic needs 0 points, Silver 200 and Gold 500.
USUAL_SCHEDULE = schedule(
    TierStep(BASIC, Decimal(0), 0), TierStep(SILVER, Decimal(200), 1), TierStep(GOLD, Decimal(500), 2)
)

amounts = st.decimals(min_value=0, max_value=1000, places=2)
all_steps = st.lists(
    st.builds(
        TierStep, st.integers(1, 30), st.sampled_from([Decimal(n) for n in (0, 1, 5, 250, 999)]), st.integers(0, 3)
    ),
    unique_by=lambda step: step.loyalty_tier_id,
)
defaults = st.none() | st.integers(40, 50)


# Silver needs 200 points, and Gold 500.
@pytest.mark.parametrize(
    ("points", "tier"),
    [("0", BASIC), ("199.99", BASIC), ("200", SILVER), ("499", SILVER), ("500", GOLD), ("9999", GOLD)],
)
def test_a_tier_is_reached_at_its_threshold(points, tier):
    assert USUAL_SCHEDULE.tier_at(Decimal(points)) == tier


def test_the_highest_order_and_then_the_lowest_id_decide_between_tiers_with_equal_thresholds():
    five_points = Decimal(5)
    steps = [
        TierStep(3, five_points, tier_order=1),
        TierStep(1, five_points, tier_order=2),
        TierStep(2, five_points, tier_order=2),
    ]
    for ordered_steps in (steps, steps[::-1]):
        assert schedule(*ordered_steps).tier_at(five_points) == 1


def stored_program(number, default, active=True):
    """A program with a default tier; it counts the points of the last 6 months."""
    return record(
        LoyaltyProgram,
        loyalty_program_id=number,
        loyalty_program_key=f"program-{number}",
        active=active,
        tier_points_ledger_account_id=ACCOUNT,
        default_tier_id=default,
        tier_policy=complete_tier_policy({"basis": EARNED, "period": ROLLING, "months": 6}),
    )


def stored_tier(number, minimum, program=PROGRAM, active=True):
    """A tier that needs `minimum` points."""
    return record(
        LoyaltyTier,
        loyalty_tier_id=number,
        loyalty_tier_key=f"tier-{number}",
        loyalty_program_id=program,
        name=f"Tier {number}",
        active=active,
        min_required_points=Decimal(minimum),
        tier_order=number,
    )


def test_a_schedule_has_the_active_tiers_of_an_active_program():
    programs = [
        stored_program(PROGRAM, default=BASIC),
        stored_program(2, default=None),
        stored_program(3, default=None, active=False),
    ]
    tiers = [
        stored_tier(BASIC, 0),
        stored_tier(7, 5, program=3),
        stored_tier(SILVER, 9, active=False),
        stored_tier(GOLD, 99),
    ]
    policy = TierPolicy(EARNED, ROLLING, months=6, zone=UTC)
    # The order of a stored tier is its id.
    steps = TierStep(BASIC, Decimal(0), tier_order=BASIC), TierStep(GOLD, Decimal(99), tier_order=GOLD)
    assert schedules_of(programs, tiers, UTC) == (
        TierSchedule(PROGRAM, "program-1", ACCOUNT, BASIC, steps, moves_members=True, policy=policy),
        TierSchedule(
            2,
            loyalty_program_key="program-2",
            ledger_account_id=ACCOUNT,
            default_tier_id=None,
            steps=(),
            moves_members=False,
            policy=policy,
        ),
    )


@pytest.mark.parametrize(
    ("tiers", "default", "moves"),
    [
        ([stored_tier(BASIC, 0)], BASIC, False),
        ([stored_tier(BASIC, 0, active=False)], None, False),
        ([stored_tier(BASIC, 0, active=False), stored_tier(GOLD, 9)], None, True),
        ([stored_tier(BASIC, 0), stored_tier(GOLD, 9, active=False)], BASIC, True),
    ],
)
def test_an_inactive_default_tier_is_none_and_a_schedule_moves_members_if_it_has_other_tiers(tiers, default, moves):
    [program_schedule] = schedules_of([stored_program(PROGRAM, BASIC)], tiers, UTC)
    assert (program_schedule.default_tier_id, program_schedule.moves_members) == (default, moves)


def test_configured_tiers_have_the_keys_of_their_programs():
    programs = [stored_program(2, default=None), stored_program(1, default=None, active=False)]
    tiers = [stored_tier(100, 0, program=1), stored_tier(7, 5, program=2, active=False)]
    assert configured_tiers(programs, tiers) == [
        ConfiguredTier(100, "tier-100", 1, "program-1", "Tier 100", active=True),
        ConfiguredTier(7, "tier-7", 2, "program-2", "Tier 7", active=False),
    ]


def test_without_an_account_every_member_has_the_default_tier():
    assert schedule(TierStep(GOLD, Decimal(0), 0), account=None).tier_at(Decimal(9999)) == BASIC


@given(all_steps, defaults, amounts)
def test_the_tier_is_the_highest_reached_or_the_default_one(steps, default, points):
    tier_id = schedule(*steps, default=default).tier_at(points)
    reached_steps = [step for step in steps if step.min_required_points <= points]
    if not reached_steps:
        assert tier_id == default
        return
    [best_step] = [step for step in reached_steps if step.loyalty_tier_id == tier_id]
    for reached_step in reached_steps:
        rank = (reached_step.min_required_points, reached_step.tier_order)
        assert rank <= (best_step.min_required_points, best_step.tier_order)


@given(all_steps, defaults, amounts, amounts)
def test_more_points_never_lead_to_a_lower_threshold(steps, default, some_amount, other_amount):
    thresholds = {step.loyalty_tier_id: step.min_required_points for step in steps}
    lower_tier, higher_tier = (
        schedule(*steps, default=default).tier_at(points) for points in sorted((some_amount, other_amount))
    )
    assert thresholds.get(lower_tier, -1) <= thresholds.get(higher_tier, -1)


def points_of(amount):
    """A function that returns a balance for ACCOUNT, and 0 for any other account."""
    return lambda account: TierPoints(Decimal(amount if account == ACCOUNT else 0))


def tier_assignments(held_tier: HeldTier | None, *tier_schedules: TierSchedule) -> TierAssignments:
    """The tier of one member in a program in which Silver needs 200 points and Gold 500, or in other programs."""
    return TierAssignments(
        tier_schedules or (USUAL_SCHEDULE,), {} if held_tier is None else {(MEMBER, PROGRAM): held_tier}, NOON
    )


def test_points_move_a_member_up_and_down():
    assignments = tier_assignments(HeldTier(BASIC))
    [up] = assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(600))
    assert (up.member_id, up.tier_id_before, up.tier_id_after) == (MEMBER, BASIC, GOLD)
    assert assignments.tier_ids(MEMBER, points_of(600)) == [GOLD]
    assert assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(700)) == []
    [down] = assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(10))
    assert (down.tier_id_before, down.tier_id_after) == (GOLD, BASIC)
    assert assignments.changed_tiers == {(MEMBER, PROGRAM): HeldTier(BASIC)}


def test_points_of_other_accounts_move_no_member():
    assignments = tier_assignments(HeldTier(BASIC))
    assert assignments.move_by_points(MEMBER, {ACCOUNT + 1}, points_of(600)) == []
    assert assignments.changed_tiers == {}


def test_a_member_new_to_a_program_gets_a_tier():
    [move] = tier_assignments(None).move_by_points(MEMBER, {ACCOUNT}, points_of(1))
    assert (move.tier_id_before, move.tier_id_after) == (None, BASIC)


def test_a_member_below_the_lowest_tier_has_none_if_there_is_no_default_tier():
    assignments = tier_assignments(HeldTier(SILVER), schedule(TierStep(SILVER, Decimal(200), 1), default=None))
    [move] = assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(199))
    assert (move.tier_id_before, move.tier_id_after) == (SILVER, None)
    assert assignments.changed_tiers == {(MEMBER, PROGRAM): None}
    assert assignments.tier_ids(MEMBER, points_of(199)) == []


def test_a_program_with_only_its_default_tier_moves_no_member():
    assignments = tier_assignments(None, schedule(TierStep(BASIC, Decimal(0), 0)))
    assert assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(600)) == []
    assert assignments.changed_tiers == {}


@pytest.mark.parametrize("expires_at", [None, NOON + timedelta(seconds=1)])
def test_a_tier_set_by_request_does_not_depend_on_points(expires_at):
    assignments = tier_assignments(HeldTier(GOLD, is_manual=True, expires_at=expires_at))
    assert assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(0)) == []
    assert assignments.tier_ids(MEMBER, points_of(0)) == [GOLD]
    assert assignments.changed_tiers == {}


def test_a_tier_that_has_expired_is_evaluated_even_if_no_points_have_moved():
    assignments = tier_assignments(HeldTier(GOLD, is_manual=True, expires_at=NOON))
    assert assignments.tier_ids(MEMBER, points_of(300)) == [SILVER]
    [move] = assignments.move_by_points(MEMBER, NO_ACCOUNT, points_of(300))
    assert (move.tier_id_before, move.tier_id_after) == (GOLD, SILVER)
    assert assignments.changed_tiers == {(MEMBER, PROGRAM): HeldTier(SILVER)}
    assert assignments.move_by_points(MEMBER, NO_ACCOUNT, points_of(300)) == []


def test_an_expired_tier_that_the_points_confirm_is_stored_without_a_move():
    assignments = tier_assignments(HeldTier(SILVER, is_manual=True, expires_at=NOON))
    assert assignments.move_by_points(MEMBER, NO_ACCOUNT, points_of(300)) == []
    assert assignments.changed_tiers == {(MEMBER, PROGRAM): HeldTier(SILVER)}


def test_an_expired_tier_that_the_points_have_confirmed_moves_with_later_points():
    assignments = tier_assignments(HeldTier(SILVER, is_manual=True, expires_at=NOON))
    assignments.move_by_points(MEMBER, NO_ACCOUNT, points_of(300))
    [move] = assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(600))
    assert move.tier_id_after == GOLD


def test_members_of_inactive_programs_keep_their_tier():
    assignments = TierAssignments((), {(MEMBER, PROGRAM): HeldTier(GOLD, is_manual=True, expires_at=NOON)}, NOON)
    assert assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(0)) == []
    assert assignments.tier_ids(MEMBER, points_of(0)) == [GOLD]


def test_each_program_depends_on_its_own_account():
    other_account, other_tier = ACCOUNT + 1, 9
    step_of_one_point = TierStep(other_tier, Decimal(1), 0)
    other_program = schedule(step_of_one_point, default=None, account=other_account, program=2)
    assignments = tier_assignments(HeldTier(BASIC), USUAL_SCHEDULE, other_program)
    balances = {ACCOUNT: TierPoints(balance=Decimal(0)), other_account: TierPoints(balance=Decimal(3))}
    moves = assignments.move_by_points(MEMBER, {ACCOUNT, other_account}, balances.__getitem__)
    assert [(move.schedule.loyalty_program_id, move.tier_id_after) for move in moves] == [(2, other_tier)]


def test_a_program_that_moves_no_member_does_not_prevent_moves_of_the_next_program():
    program_of_other_account = schedule(TierStep(GOLD, Decimal(0), 0), default=None, account=ACCOUNT + 1, program=2)
    next_program, next_tier = 3, 9
    schedule_of_next_program = schedule(TierStep(next_tier, Decimal(1), 0), default=None, program=next_program)
    # In the usual program, the member has the tier Basic regardless of points.
    for first_schedule in (program_of_other_account, USUAL_SCHEDULE):
        assignments = tier_assignments(HeldTier(BASIC, is_manual=True), first_schedule, schedule_of_next_program)
        moves = assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(600))
        assert [(move.schedule.loyalty_program_id, move.tier_id_after) for move in moves] == [(next_program, next_tier)]


def test_a_program_without_an_account_counts_no_points():
    year = TierPolicy(EARNED, ROLLING)
    program = replace(schedule(TierStep(GOLD, Decimal(0), 0), account=None), policy=year)

    def points_of_no_account(account):
        raise AssertionError(account)

    assert program.counted_points(points_of_no_account, NOON) == 0
    assert program.held_tier_of(points_of_no_account, NOON) == HeldTier(BASIC)


@pytest.mark.parametrize(
    ("period", "account", "steps", "moves"),
    [
        (ROLLING, ACCOUNT, USUAL_SCHEDULE.steps, True),
        (LIFETIME, ACCOUNT, USUAL_SCHEDULE.steps, False),
        (ROLLING, None, USUAL_SCHEDULE.steps, False),
        (ROLLING, ACCOUNT, USUAL_SCHEDULE.steps[:1], False),
    ],
)
def test_only_a_program_with_a_period_an_account_and_other_tiers_moves_members_by_period(period, account, steps, moves):
    program = replace(schedule(*steps, account=account), policy=TierPolicy(EARNED, period))
    assert program.moves_by_period() is moves


def test_an_inactive_tier_is_refused_as_the_default_one():
    refuse_inactive_default("Basic", active=True)
    with pytest.raises(TierInactive, match="The tier Basic is not active"):
        refuse_inactive_default("Basic", active=False)


@given(all_steps, defaults, st.lists(amounts, min_size=1))
def test_only_the_last_of_several_balances_decides_the_tier(steps, default, balances):
    program = schedule(*steps, default=default)
    assignments = tier_assignments(None, program)
    for balance in balances:
        assignments.move_by_points(MEMBER, {ACCOUNT}, points_of(balance))
    last_balance = balances[-1]
    last_tier_id = program.tier_at(last_balance) if program.moves_members else None
    assert assignments.tier_ids(MEMBER, points_of(last_balance)) == ([] if last_tier_id is None else [last_tier_id])


def tracking(number: int, tier_id: int | None, event_id: int | None, previous: HeldTier | None = None) -> TierTracking:
    """The tier that an event set, or a request if `event_id` is None; the numbers are in the order of time."""
    blank = TierTracking(
        organization_id=1,
        member_tier_tracking_id=number,
        member_id=MEMBER,
        loyalty_program_id=PROGRAM,
        loyalty_tier_id=tier_id,
        answered_tier_id=tier_id,
        expires_at=None,
        system_unique_key=str(number),
        request_digest=b"",
        external_id=None,
        description=None,
        tags=(),
        loyalty_event_id=event_id,
        previous_tier_id=None,
        previous_is_manual=False,
        previous_expires_at=None,
        reversal_loyalty_event_id=None,
        created_at=NOON,
    )
    return blank.with_previous(previous)


def test_reversing_an_event_restores_the_previous_tier_with_its_expiry():
    previous_tier = HeldTier(SILVER, is_manual=True, expires_at=NOON + timedelta(days=1))
    assignments, log = tier_assignments(previous_tier), TierLog()
    log.put_trackings([tracking(1, GOLD, event_id=5, previous=previous_tier)])
    assignments.put((MEMBER, PROGRAM), HeldTier(GOLD, is_manual=True))
    assert [tracking_of_event.member_tier_tracking_id for tracking_of_event in log.unreverted_trackings(5)] == [1]
    assert log.reverse(1, assignments, loyalty_event_id=9)
    assert assignments.stored_tier((MEMBER, PROGRAM)) == previous_tier
    assert log.unreverted_trackings(5) == []
    log.put_trackings([tracking(2, GOLD, event_id=4), tracking(3, GOLD, event_id=6)])
    assert log.unreverted_trackings(5) == []
    new_trackings, [changed_tracking] = log.take_changes()
    assert new_trackings == []
    assert changed_tracking.reversal_loyalty_event_id == 9
    assert log.take_changes() == ([], [])


@pytest.mark.parametrize(
    "held_tier",
    [None, HeldTier(GOLD), HeldTier(GOLD, is_manual=True, expires_at=NOON), HeldTier(BASIC, is_manual=True)],
)
def test_the_reversal_of_an_event_keeps_a_tier_that_has_changed_after_the_event(held_tier):
    assignments, log = tier_assignments(held_tier), TierLog()
    log.put_trackings([tracking(1, GOLD, event_id=5, previous=HeldTier(SILVER))])
    assert not log.reverse(1, assignments, loyalty_event_id=9)
    assert assignments.stored_tier((MEMBER, PROGRAM)) == held_tier


def test_reversing_all_events_in_order_restores_the_first_tier():
    first_tier, log = HeldTier(BASIC), TierLog()
    assignments = tier_assignments(first_tier)
    for number, tier_id in enumerate((SILVER, GOLD, SILVER), 1):
        previous_tier = assignments.stored_tier((MEMBER, PROGRAM))
        log.put_trackings([tracking(number, tier_id, event_id=number, previous=previous_tier)])
        assignments.put((MEMBER, PROGRAM), HeldTier(tier_id, is_manual=True))
    # The third event has set the current tier.
    assert not log.reverse(1, assignments, loyalty_event_id=9)
    assert not log.reverse(2, assignments, loyalty_event_id=9)
    assert assignments.stored_tier((MEMBER, PROGRAM)) == HeldTier(SILVER, is_manual=True)
    assert log.reverse(3, assignments, loyalty_event_id=9)
    assert assignments.stored_tier((MEMBER, PROGRAM)) == first_tier


@pytest.mark.parametrize(
    "held_tier",
    [
        None,
        HeldTier(SILVER),
        HeldTier(SILVER, is_manual=True),
        HeldTier(SILVER, is_manual=True, expires_at=None, floor=TierFloor(SILVER)),
    ],
)
def test_a_request_for_evaluation_by_points_sets_no_tier(held_tier):
    assert not tracking(1, None, event_id=None).is_in_effect(held_tier)
    assert not replace(tracking(1, None, event_id=None), tier_hold=FLOOR).is_in_effect(held_tier)


def test_a_tracking_of_a_floor_sets_no_tier_if_the_member_has_none():
    assert not replace(tracking(1, GOLD, event_id=5), tier_hold=FLOOR).is_in_effect(None)


@pytest.mark.parametrize(
    "place_of_other_tier", [{"loyalty_program_id": PROGRAM + 1}, {"member_id": MEMBER - 1}, {"member_id": MEMBER + 1}]
)
def test_tiers_of_other_members_and_programs_do_not_prevent_a_reversal(place_of_other_tier):
    log, assignments = TierLog(), tier_assignments(HeldTier(GOLD, is_manual=True))
    log.put_trackings(
        [
            tracking(1, GOLD, event_id=5, previous=HeldTier(SILVER)),
            replace(tracking(2, BASIC, event_id=6), **place_of_other_tier),
        ]
    )
    assert log.reverse(1, assignments, loyalty_event_id=9)
    assert assignments.stored_tier((MEMBER, PROGRAM)) == HeldTier(SILVER)


def test_reversing_an_event_keeps_the_tier_that_a_later_request_set():
    log, assignments = TierLog(), tier_assignments(HeldTier(GOLD, is_manual=True))
    log.put_trackings(
        [
            tracking(1, GOLD, event_id=5),
            tracking(2, SILVER, event_id=None, previous=HeldTier(GOLD, is_manual=True)),
            tracking(3, GOLD, event_id=6),
        ]
    )
    assert not log.reverse(1, assignments, loyalty_event_id=9)
    _, [changed_tracking] = log.take_changes()
    assert changed_tracking.member_tier_tracking_id == 1


SETTINGS = st.tuples(st.sampled_from([BASIC, SILVER, GOLD]), st.booleans())


@given(st.lists(SETTINGS, max_size=6), st.randoms(use_true_random=False), st.sampled_from([None, HeldTier(BASIC)]))
def test_after_cancellations_in_any_order_the_member_has_the_last_tier_that_is_not_reversed(
    settings, random, first_tier
):
    member_program, log = (MEMBER, PROGRAM), TierLog()
    assignments = tier_assignments(first_tier)
    active_trackings = []
    for number, (tier_id, is_event) in enumerate(settings, 1):
        previous_tier = assignments.stored_tier(member_program)
        new_tracking = tracking(number, tier_id, event_id=number if is_event else None, previous=previous_tier)
        # Some trackings are stored, the others are added by this unit of work.
        if number % 2 or not is_event:
            log.put_trackings([new_tracking])
        else:
            log.add(new_tracking)
        assignments.put(member_program, HeldTier(tier_id, is_manual=True))
        active_trackings.append(new_tracking)
    trackings_of_events = [entry for entry in active_trackings if entry.loyalty_event_id is not None]
    random.shuffle(trackings_of_events)
    for cancelled_tracking in trackings_of_events:
        log.reverse(cancelled_tracking.member_tier_tracking_id, assignments, loyalty_event_id=99)
        active_trackings.remove(cancelled_tracking)
        tier_id = active_trackings[-1].loyalty_tier_id if active_trackings else None
        last_tier = first_tier if tier_id is None else HeldTier(tier_id, is_manual=True)
        assert assignments.stored_tier(member_program) == last_tier
