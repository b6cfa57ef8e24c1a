"""Progress of a member in a mission: the total count, and the number of rewarded achievements.

The two diverge only where something was reversed: a goal reached again after that is not rewarded twice, and counts on
top of something reversed are rewarded with the next count.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache
from typing import Any

from domain.campaigns.variables import ENVIRONMENT
from domain.expression_faults import invalid_expression
from domain.expressions import Budget, ExpressionError, Functions, Node, Program, compile_expression, parse
from domain.expressions.types import DECIMAL

# Even with the greatest goal (openapi MissionBody) the count fits the database's 64-bit integers.
MOST_ACHIEVEMENTS = 9_000_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """`counted` events towards goals of `goal` each, and `times_achieved` goals that were rewarded."""

    goal: int
    counted: int = 0
    times_achieved: int = 0

    @classmethod
    def from_counts(cls, goal: int, count: int, times_achieved: int) -> Progress:
        """The progress of a member with this count towards the present goal, which was achieved so often before.

        The count of an achieved goal may stay at the goal, as `counter` has it, or be 0.
        """
        return cls(goal, times_achieved * goal + count % goal, times_achieved)

    @property
    def counter(self) -> int:
        """The count towards the present goal; it stays at the goal until the next count, which starts at 1."""
        return (self.counted - 1) % self.goal + 1 if self.counted else 0

    @property
    def current_count(self) -> int:
        """The count that the next one adds to: as `counter`, but 0 once the goal is reached."""
        return self.counted % self.goal

    def towards(self, goal: int) -> Progress:
        """The same progress after a change of the goal.

        Goals that were reached remain reached. The counts since then count towards the new goal, but at most up to one
        less than it, so that only an event can reach it.
        """
        if goal == self.goal:
            return self
        goals_reached, since = divmod(self.counted, self.goal)
        return replace(self, goal=goal, counted=goals_reached * goal + min(since, goal - 1))

    def advanced(self, amount: int, remaining: int) -> Advance:
        """The result of counting `amount` if the goal may be achieved `remaining` more times; nothing beyond counts."""
        if amount <= 0 or remaining <= 0:
            return Advance(self, self, 0, 0)
        # Counting ends with the last achievement; if a reversal left more than that, one more count achieves it.
        most = max(1, (self.times_achieved + remaining) * self.goal - self.counted)
        count = self.counted + min(amount, most)
        achieved = min(max(0, count // self.goal - self.times_achieved), remaining)
        after = replace(self, counted=count, times_achieved=self.times_achieved + achieved)
        return Advance(self, after, min(amount, most), achieved)

    def after_reversal(self, reversed_count: int, achieved: int, goal: int) -> Progress:
        """The progress without the counts and achievements of an event towards `goal`; never below zero.

        An achievement that this breaks is subtracted with the goal that it had then, which may differ from the present
        one.
        """
        goals_reached, since = divmod(self.counted, self.goal)
        broken_goals = min(goals_reached, -(-max(0, reversed_count - since) // goal))
        remaining = max(0, since + broken_goals * goal - reversed_count)
        return replace(
            self,
            counted=(goals_reached - broken_goals) * self.goal + min(remaining, self.goal - 1),
            times_achieved=max(0, self.times_achieved - achieved),
        )


@dataclass(frozen=True, slots=True)
class Advance:
    """One step of progress: the amount counted, and the number of times that it achieved the goal."""

    before: Progress
    after: Progress
    counted: int
    achieved: int


COUNT_EXPRESSION = "/countExpression"

# The most that a request can count at once (openapi MissionProgressBody).
MOST_COUNTED = 1_000_000_000


@lru_cache(maxsize=1000)
def compile_count(expression: str) -> Program:
    """The program of a `countExpression`; raises InvalidRequest with the position of every fault."""
    try:
        return compile_expression(parse(expression), ENVIRONMENT, DECIMAL)
    except ExpressionError as error:
        raise invalid_expression(error, COUNT_EXPRESSION) from error


def count_sources(expression: str) -> list[tuple[str, Node]]:
    """The expression with its place in a mission, for searches of the names that it uses."""
    return [(COUNT_EXPRESSION, compile_count(expression).analysis.node)]


def count_of(program: Program, variables: Mapping[str, Any], budget: Budget, functions: Functions) -> int:
    """The whole count that an expression computes, rounded down: zero below 1, at most `MOST_COUNTED`.

    Raises EvaluationError if its value is not a number.
    """
    value = program.run(variables, budget, functions)
    return min(MOST_COUNTED, max(0, int(Decimal(value).to_integral_value(ROUND_FLOOR))))
