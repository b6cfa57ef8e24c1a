"""How far a member is in a mission: what was counted in all, and how often that was rewarded.

The two go apart only where something was undone: what is counted again after that is not rewarded twice, and what was
counted on top of something undone is rewarded with the next count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# With the greatest goal (openapi MissionBody) what is counted still fits the database's whole numbers of 64 bits.
MOST_ACHIEVEMENTS = 9_000_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """`counted` events towards goals of `goal` each, and `times_achieved` goals that were rewarded."""

    goal: int
    counted: int = 0
    times_achieved: int = 0

    @property
    def counter(self) -> int:
        """The count towards the present goal; it stays at the goal until the next count, which starts at 1."""
        return (self.counted - 1) % self.goal + 1 if self.counted else 0

    @property
    def begun(self) -> int:
        """What the next count goes on from: as `counter`, but 0 once the goal is reached."""
        return self.counted % self.goal

    def towards(self, goal: int) -> Progress:
        """The same progress after a change of the goal.

        Goals that were reached stay so. What was counted since counts towards the new one, of which at least one
        count is left to be made, so that nothing is achieved without an event.
        """
        if goal == self.goal:
            return self
        reached, since = divmod(self.counted, self.goal)
        return replace(self, goal=goal, counted=reached * goal + min(since, goal - 1))

    def advanced(self, amount: int, room: int) -> Advance:
        """What `amount` comes to where the goal may be achieved `room` more times: nothing beyond is counted."""
        if amount <= 0 or room <= 0:
            return Advance(self, self, 0, 0)
        # Counting ends with the last achievement; where undoing left more than that already, it takes one to get it.
        most = max(1, (self.times_achieved + room) * self.goal - self.counted)
        counted = self.counted + min(amount, most)
        achieved = min(max(0, counted // self.goal - self.times_achieved), room)
        after = replace(self, counted=counted, times_achieved=self.times_achieved + achieved)
        return Advance(self, after, min(amount, most), achieved)

    def taken_back(self, counted: int, achieved: int, goal: int) -> Progress:
        """The progress without what an event counted and achieved towards `goal`; never below nothing.

        A whole goal that this breaks is worth what it took then, which the present goal may not be.
        """
        reached, since = divmod(self.counted, self.goal)
        broken = min(reached, -(-max(0, counted - since) // goal))
        left = max(0, since + broken * goal - counted)
        return replace(
            self,
            counted=(reached - broken) * self.goal + min(left, self.goal - 1),
            times_achieved=max(0, self.times_achieved - achieved),
        )


@dataclass(frozen=True, slots=True)
class Advance:
    """One step of progress: what it counted, and how many times that achieved the goal."""

    before: Progress
    after: Progress
    counted: int
    achieved: int
