"""In-memory progress of the members of one unit of work: decides on counts and collects the changes to be stored."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from domain.calendar import period_start, zone_named
from domain.missions.progress import MAX_ACHIEVEMENTS, Advance, Progress
from domain.missions.records import Mission, MissionBalance, MissionTracking, Reward

ProgressKey = tuple[int, int]
"""A member's id and a mission's id."""

PeriodKey = tuple[int, int, date]
"""A member's id, a mission's id, and the first day of a period."""


@dataclass(frozen=True, slots=True)
class MissionProgress:
    """A member's progress in a mission, with data of the achievement whose event happened last."""

    progress: Progress
    last_counter: int | None = None
    last_achieved_at: datetime | None = None

    @property
    def has_begun(self) -> bool:
        """True if anything is counted or achieved."""
        return bool(self.progress.counted or self.progress.times_achieved)

    def balance(self, member_id: int) -> MissionBalance:
        """The balance in the form of responses."""
        return MissionBalance(
            member_id=member_id,
            times_achieved=self.progress.times_achieved,
            current_counter_count=self.progress.counter,
            last_counter_count_when_achieved=self.last_counter,
            last_achieved_at=self.last_achieved_at,
        )


@dataclass(frozen=True, slots=True)
class MissionChanges:
    """Changes to be stored; `reversals` has, by the id of a tracking, the id of the event that reversed it."""

    progress_of_members: Mapping[ProgressKey, MissionProgress]
    trackings: tuple[MissionTracking, ...]
    reversals: Mapping[int, int]
    # Missions of members with a reversed achievement: an earlier achievement may now be the last one.
    reversed_achievements: frozenset[ProgressKey]


@dataclass(frozen=True, slots=True)
class ProgressCause:
    """The cause of a count for a member: an event, by its id, or a request, by its key; `at` is when it happened."""

    organization_id: int
    member_id: int
    at: datetime
    now: datetime
    loyalty_event_id: int | None = None
    system_unique_key: str | None = None
    request_digest: bytes | None = None
    external_id: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    actor: str | None = None
    user_id: int | None = None


class MissionProgressState:
    """Progress by member and mission, and the number of achievements in the current periods.

    Missions that are not loaded have a count of zero.
    """

    def __init__(
        self, progress_of_members: Mapping[ProgressKey, MissionProgress], achievement_counts: Mapping[PeriodKey, int]
    ) -> None:
        self._progress = dict(progress_of_members)
        self._achievement_counts = dict(achievement_counts)
        # The changes that are not stored yet: `take_changes` returns them, and begins again without changes.
        self._changed_missions: set[ProgressKey] = set()
        self._trackings: list[MissionTracking] = []
        # By the id of a reversed tracking: the id of the event that reversed it.
        self._reversal_event_ids: dict[int, int] = {}
        # Missions of members with a reversed achievement.
        self._reversed_achievements: set[ProgressKey] = set()
        # All trackings that this unit of work has reversed; `take_changes` keeps them.
        self._reversed_tracking_ids: set[int] = set()

    def assume(self, member_id: int, mission: Mission, progress: Progress) -> None:
        """Use this progress for a member who is not stored."""
        self._progress[member_id, mission.mission_id] = MissionProgress(progress)

    def remaining_count(self, member_id: int, mission: Mission, at: datetime) -> int | None:
        """The count that the member lacks for one more achievement; None if none is possible at `at`."""
        if not self.remaining_achievements(member_id, mission, at):
            return None
        progress = self.progress(member_id, mission).progress
        return max(1, (progress.times_achieved + 1) * progress.goal - progress.counted)

    def progress(self, member_id: int, mission: Mission) -> MissionProgress:
        """The member's progress towards the present goal of the mission."""
        mission_progress = self._progress.get((member_id, mission.mission_id))
        if mission_progress is None:
            return MissionProgress(Progress(mission.goal_count))
        return replace(mission_progress, progress=mission_progress.progress.towards(mission.goal_count))

    def remaining_achievements(self, member_id: int, mission: Mission, at: datetime) -> int:
        """The number of times that the member may still achieve the mission at `at`."""
        maximum = min(mission.max_repetitions, MAX_ACHIEVEMENTS)
        remaining = maximum - self.progress(member_id, mission).progress.times_achieved
        if mission.repetition_period is not None and mission.period_limit is not None:
            period = _period(member_id, mission, mission.repetition_period, at)
            remaining = min(remaining, mission.period_limit - self._achievement_counts.get(period, 0))
        return max(0, remaining)

    def count(self, mission: Mission, amount: int, cause: ProgressCause) -> Advance:
        """Count up to `amount` for the member, as the limits allow; only a positive count leaves a tracking."""
        progress_key = (cause.member_id, mission.mission_id)
        before = self.progress(cause.member_id, mission)
        advance = before.progress.advance(amount, self.remaining_achievements(cause.member_id, mission, cause.at))
        if not advance.counted:
            return advance
        after = replace(before, progress=advance.after)
        if advance.achieved:
            if before.last_achieved_at is None or before.last_achieved_at <= cause.at:
                after = replace(after, last_counter=mission.goal_count, last_achieved_at=cause.at)
            self._count_period(mission, cause.member_id, cause.at, advance.achieved)
        self._progress[progress_key] = after
        self._changed_missions.add(progress_key)
        self._trackings.append(_tracking(mission, advance, cause))
        return advance

    def import_progress(self, mission: Mission, progress: Progress, cause: ProgressCause) -> None:
        """Set the member's progress to the progress in another system; no rewards are paid for it."""
        progress_key = (cause.member_id, mission.mission_id)
        before = self._progress.get(progress_key) or MissionProgress(Progress(mission.goal_count))
        if before.progress == progress:
            return
        count_change = progress.counted - before.progress.counted
        achieved = progress.times_achieved - before.progress.times_achieved
        self._progress[progress_key] = replace(before, progress=progress)
        self._changed_missions.add(progress_key)
        tracking = _tracking(mission, Advance(before.progress, progress, count_change, achieved), cause)
        self._trackings.append(replace(tracking, is_imported=True))

    def reverse(self, tracking: MissionTracking, mission: Mission, by_event_id: int) -> Advance:
        """Reverse the counts of an event, because of the event `by_event_id`."""
        progress_key = (tracking.member_id, tracking.mission_id)
        before = self.progress(tracking.member_id, mission)
        after = before.progress.after_reversal(tracking.counted, tracking.achieved, tracking.goal_count)
        self._progress[progress_key] = replace(before, progress=after)
        self._changed_missions.add(progress_key)
        self._reversal_event_ids[tracking.mission_tracking_id] = by_event_id
        self._reversed_tracking_ids.add(tracking.mission_tracking_id)
        if tracking.achieved:
            self._reversed_achievements.add(progress_key)
            self._count_period(mission, tracking.member_id, tracking.happened_at, -tracking.achieved)
        return Advance(before.progress, after, -tracking.counted, -tracking.achieved)

    def is_reversed(self, tracking: MissionTracking) -> bool:
        """True if the tracking was reversed in this unit of work."""
        return tracking.mission_tracking_id in self._reversed_tracking_ids

    def store_response(self, response: Mapping[str, Any]) -> None:
        """Store the response to the request that caused the last count."""
        self._trackings[-1] = replace(self._trackings[-1], answer=response)

    def take_changes(self) -> MissionChanges:
        """Return the changes since the last call, which count as stored from now on."""
        changes = MissionChanges(
            progress_of_members={
                progress_key: self._progress[progress_key] for progress_key in sorted(self._changed_missions)
            },
            trackings=tuple(self._trackings),
            reversals=self._reversal_event_ids,
            reversed_achievements=frozenset(self._reversed_achievements),
        )
        self._changed_missions, self._reversed_achievements = set(), set()
        self._trackings, self._reversal_event_ids = [], {}
        return changes

    def _count_period(self, mission: Mission, member_id: int, at: datetime, achieved: int) -> None:
        """Add `achieved`, which may be negative, to the achievements in the period that contains `at`."""
        if mission.repetition_period is not None:
            period = _period(member_id, mission, mission.repetition_period, at)
            self._achievement_counts[period] = self._achievement_counts.get(period, 0) + achieved


def _period(member_id: int, mission: Mission, kind: str, at: datetime) -> PeriodKey:
    """The key of a count of achievements: member, mission and the first day of the period."""
    return member_id, mission.mission_id, period_start(kind, at, zone_named(mission.timezone))


def _tracking(mission: Mission, advance: Advance, cause: ProgressCause) -> MissionTracking:
    """The record of an advance; its id is chosen when it is stored."""
    return MissionTracking(
        organization_id=cause.organization_id,
        mission_tracking_id=0,
        member_id=cause.member_id,
        mission_id=mission.mission_id,
        loyalty_event_id=cause.loyalty_event_id,
        counted=advance.counted,
        achieved=advance.achieved,
        goal_count=mission.goal_count,
        happened_at=cause.at,
        system_unique_key=cause.system_unique_key,
        request_digest=cause.request_digest,
        external_id=cause.external_id,
        description=cause.description,
        tags=cause.tags,
        actor=cause.actor,
        user_id=cause.user_id,
        answer=None,
        reversal_loyalty_event_id=None,
        created_at=cause.now,
    )


@dataclass(frozen=True, slots=True)
class MissionMove:
    """Changes of a member's mission by one event or request, and the rewards for them."""

    member_id: int
    mission: Mission
    advance: Advance
    rewards: tuple[Reward, ...]
