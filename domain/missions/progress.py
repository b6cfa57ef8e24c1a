"""Progress of a member in a mission: the total count, and the number of rewarded achievements.

The number of achievements is that of the whole goals in the count, except after reversals. Example with a goal of 5: a
first event counts 4, and a second event counts 1 and achieves the goal. If the first event is then reversed, the count
is 1, and reaching 5 again gives no second reward. Another example: three events count 4, 1 and 4, and the second event
is reversed. The count is then 8, and no achievement remains; the next event that counts achieves the goal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from domain.campaigns.variables import ENVIRONMENT
from domain.expression_faults import invalid_expression
from domain.expressions import Budget, ExpressionError, Functions, Node, Program, compile_expression, parse
from domain.expressions.types import DECIMAL

# Even with the greatest goal (openapi MissionBody) the count fits the database's 64-bit integers.
MAX_ACHIEVEMENTS = 9_000_000_000


@dataclass(frozen=True, slots=True)
class Progress:
    """The total count `counted`, of which each achievement needs `goal`, and the number of rewarded achievements.

    `counted` is negative if counts of achievements were reversed, the goal was lowered since, and more counts were
    reversed than the achievements need now.
    """

    goal: int
    counted: int = 0
    times_achieved: int = 0

    @classmethod
    def from_counts(cls, goal: int, count: int, times_achieved: int) -> Progress:
        """The progress with this count towards the present goal, after `times_achieved` earlier achievements.

        Right after an achievement, `count` may be the goal, like `counter`, or 0.
        """
        return cls(goal, times_achieved * goal + count % goal, times_achieved)

    @property
    def counter(self) -> int:
        """The count towards the present goal; it stays at the goal until the next count, which starts at 1."""
        return (self.counted - 1) % self.goal + 1 if self.counted or self.times_achieved else 0

    @property
    def current_count(self) -> int:
        """The count to which the next one is added: the same as `counter`, but 0 once the goal is reached."""
        return self.counted % self.goal

    def towards(self, goal: int) -> Progress:
        """The same progress after a change of the goal.

        Achievements remain, and if counts of them were reversed, as many are missing as before. The counts since the
        last achievement count towards the new goal, but at most up to one less, so that only an event can reach it.
        """
        if goal == self.goal:
            return self
        count_since = min(self._since_achievement, goal - 1)
        return replace(self, goal=goal, counted=self.times_achieved * goal + count_since)

    def advance(self, amount: int, remaining: int) -> Advance:
        """The result of counting `amount`, or less, if only `remaining` more achievements are possible."""
        if amount <= 0 or remaining <= 0:
            return Advance(self, self, 0, 0)
        # Counting ends with the last possible achievement. After a reversal the count can already be beyond that: then
        # one is counted, and achieves the goal.
        maximum = max(1, (self.times_achieved + remaining) * self.goal - self.counted)
        count = self.counted + min(amount, maximum)
        achieved = min(max(0, count // self.goal - self.times_achieved), remaining)
        after = replace(self, counted=count, times_achieved=self.times_achieved + achieved)
        return Advance(self, after, min(amount, maximum), achieved)

    def after_reversal(self, reversed_count: int, achieved: int, goal: int) -> Progress:
        """The progress after the reversal of an event that counted towards `goal`, the goal of that time.

        The achievements do not fall below zero, nor does the count without achievements. If the reversal undoes an
        achievement, the other counts of this achievement, `goal` less those of the event, are kept as counts since the
        previous achievement. If the present goal is another one, these are limited as in `towards`.
        """
        times_achieved = max(0, self.times_achieved - achieved)
        count_since = self._since_achievement + (self.times_achieved - times_achieved) * goal - reversed_count
        if goal != self.goal:
            count_since = min(count_since, max(self._since_achievement, self.goal - 1))
        if not times_achieved:
            count_since = max(0, count_since)
        return replace(self, counted=times_achieved * self.goal + count_since, times_achieved=times_achieved)

    def with_positive_count(self) -> Progress:
        """The same progress in stored form: after any achievement `counted` is positive, as reports need it.

        If all counts of the achievements were reversed, the goal is raised, as each achievement adds it to `counted`.
        Later, `towards` restores the present goal.
        """
        if self.counted > 0 or not self.times_achieved:
            return self
        goal = math.ceil(Fraction(1 - self._since_achievement, self.times_achieved))
        return replace(self, goal=goal, counted=self.times_achieved * goal + self._since_achievement)

    @property
    def _since_achievement(self) -> int:
        """The counts since the last achievement; negative if achieved goals lack counts that were reversed.

        After the reversal of an achievement, there may be as many counts as the goal needs, or more.
        """
        return self.counted - self.times_achieved * self.goal


@dataclass(frozen=True, slots=True)
class Advance:
    """One step of progress: `counted` is the amount counted, `achieved` how many times it achieved the goal."""

    before: Progress
    after: Progress
    counted: int
    achieved: int


COUNT_EXPRESSION = "/countExpression"

# The maximum that a request can count at once (openapi MissionProgressBody).
MAX_COUNT = 1_000_000_000


@lru_cache(maxsize=1000)
def compile_count(expression: str) -> Program:
    """Compile a `countExpression`; raises InvalidRequest with the position of every fault."""
    try:
        return compile_expression(parse(expression), ENVIRONMENT, DECIMAL)
    except ExpressionError as error:
        raise invalid_expression(error, COUNT_EXPRESSION) from error


def count_sources(expression: str) -> list[tuple[str, Node]]:
    """The expression with its place in a mission, for searches of the names that it uses."""
    return [(COUNT_EXPRESSION, compile_count(expression).analysis.node)]


def count_of(program: Program, variables: Mapping[str, Any], budget: Budget, functions: Functions) -> int:
    """The count that an expression computes, rounded down to a whole number from 0 to `MAX_COUNT`.

    Raises EvaluationError if its value is not a number.
    """
    value = program.run(variables, budget, functions)
    return min(MAX_COUNT, max(0, int(Decimal(value).to_integral_value(ROUND_FLOOR))))
