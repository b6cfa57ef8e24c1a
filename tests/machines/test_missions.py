"""Random histories of counting and undoing, compared with a list of the active events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)

from domain.missions.state import MissionProgressState, ProgressCause
from tests.builders.missions import NOON, mission
from tests.machines.effects import Effects

MEMBERS = st.integers(1, 2)
DAYS = st.integers(0, 3)


class CountedEvent(NamedTuple):
    """An event that counted for the mission `steps` times, and achieved it `times` times."""

    number: int
    day: int
    times: int
    steps: int


class Missions(RuleBasedStateMachine):
    """One mission; the model knows the events of each member that are not reversed."""

    effects: Effects
    active_events = Bundle("events")

    @initialize(goal=st.integers(1, 4), maximum=st.integers(1, 6), limit=st.none() | st.integers(1, 2))
    def create(self, goal, maximum, limit):
        period = None if limit is None else "daily"
        self.mission = mission(goal_count=goal, max_repetitions=maximum, repetition_period=period, period_limit=limit)
        self.state = MissionProgressState({}, {})
        self.events: dict[int, list[CountedEvent]] = {1: [], 2: []}
        self.number = 0

    def remaining(self, member, day):
        """How many times the member can still achieve the mission on a day."""
        remaining = self.mission.max_repetitions - sum(event.times for event in self.events[member])
        if self.mission.period_limit is not None:
            today = sum(event.times for event in self.events[member] if event.day == day)
            remaining = min(remaining, self.mission.period_limit - today)
        return remaining

    @rule(target=active_events, member=MEMBERS, day=DAYS, amount=st.just(1) | st.integers(2, 9))
    def count(self, member, day, amount):
        self.number += 1
        at = NOON + timedelta(days=day)
        advance = self.state.count(
            self.mission,
            amount,
            ProgressCause(organization_id=1, member_id=member, at=at, now=NOON, loyalty_event_id=self.number),
        )
        trackings = self.state.take_changes().trackings
        remaining = self.remaining(member, day)
        if remaining <= 0:
            assert (advance.counted, trackings) == (0, ())
            return multiple()
        times_before = sum(event.times for event in self.events[member])
        steps_before = sum(event.steps for event in self.events[member])
        # Count one by one, until the last achievement that is allowed.
        counted_steps, times = 0, 0
        while counted_steps < amount and times < remaining:
            counted_steps += 1
            times = min(remaining, max(0, (steps_before + counted_steps) // self.mission.goal_count - times_before))
        self.events[member].append(CountedEvent(self.number, day, times, steps=counted_steps))
        self.effects["count"] += 1
        self.effects["achieve"] += times > 0
        self.effects["count in part"] += counted_steps < amount
        [tracking] = trackings
        assert (tracking.counted, tracking.achieved, tracking.loyalty_event_id) == (counted_steps, times, self.number)
        return tracking

    @rule(tracking=consumes(active_events))
    def undo(self, tracking):
        self.state.reverse(tracking, self.mission, by_event_id=999)
        self.events[tracking.member_id] = [
            event for event in self.events[tracking.member_id] if event.number != tracking.loyalty_event_id
        ]
        self.effects["undo a count" if not tracking.achieved else "undo an achievement"] += 1
        assert self.state.take_changes().reversed_achievements == (
            {(tracking.member_id, 1)} if tracking.achieved else set()
        )

    @invariant()
    def the_balances_are_those_of_the_active_events(self):
        for member, events in getattr(self, "events", {}).items():
            progress = self.state.progress(member, self.mission).progress
            total = sum(event.steps for event in events)
            assert progress.counted == total
            assert progress.times_achieved == sum(event.times for event in events) <= self.mission.max_repetitions
            assert progress.counter == ((total - 1) % self.mission.goal_count + 1 if total else 0)


def test_progress_after_random_counts_and_reversals_equals_the_model():
    effects = Effects()
    machine = type("CountedMissions", (Missions,), {"effects": effects})
    profile = settings(max_examples=150, stateful_step_count=40, database=None, derandomize=True)
    run_state_machine_as_test(machine, settings=profile)
    effects.check(("count", "achieve", "count in part", "undo a count", "undo an achievement"))


def test_a_late_event_does_not_replace_the_last_achievement():
    state, record = MissionProgressState({}, {}), mission(goal_count=1)
    # The event of 2 March is counted last.
    for day in (5, 9, 2):
        at = datetime(2026, 3, day, tzinfo=UTC)
        state.count(record, 1, ProgressCause(organization_id=1, member_id=1, at=at, now=NOON, loyalty_event_id=day))
    assert state.progress(1, record).last_achieved_at == datetime(2026, 3, 9, tzinfo=UTC)
