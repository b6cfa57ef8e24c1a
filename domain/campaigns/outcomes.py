"""What an evaluation answers: what became of each effect, and why campaigns and actions did not apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

from domain.campaigns.limits import POINTS, CounterKey, LimitRule
from domain.problems import Conflict, Refusal

ZERO = Decimal(0)

EXECUTED, PARTIAL, SKIPPED, FAILED = "executed", "partial", "skipped", "failed"
EVALUATED, AUTHORIZED = "evaluated", "authorized"


class LimitReached(Conflict):
    """A limit of the campaign leaves no room."""

    slug = "limit-reached"
    title = "A limit of the campaign is reached"

    @classmethod
    def of(cls, rule: LimitRule) -> LimitReached:
        """The refusal that `rule` is the reason of."""
        what = "points" if rule.type == POINTS else "transactions"
        return cls(f"The limit of {rule.limit} {what} of a {rule.scope} ({rule.period}) is reached.")


class NoSponsor(Conflict):
    """The effect is for the sponsor, and the event names none."""

    slug = "no-sponsor"
    title = "The event has no sponsor"


class NothingToDo(Conflict):
    """The amount came to zero."""

    slug = "zero-amount"
    title = "The amount is zero"


class BadParameter(Conflict):
    """A parameter of an effect could not be computed, or came to a value that the effect cannot use."""

    slug = "effect-parameter"
    title = "A parameter of the effect has no usable value"


@dataclass(frozen=True, slots=True)
class EffectOutcome:
    """What became of one effect of an action (administration "Records": Evaluation result).

    Of `params`, `amount` is what was done, and `requestedAmount` what was asked for where that is something else.
    `details` are fields of the answer that effects of this kind have beside the others.
    """

    action_id: int
    action_index: int
    campaign_id: int
    campaign_version_id: int
    campaign_code: str
    action_name: str | None
    effect_id: str
    status: str
    error: Mapping[str, Any] | None
    params: tuple[tuple[str, Any], ...]
    details: Mapping[str, Any] = field(default_factory=dict)


class RuleError(NamedTuple):
    """A rule, or what a mission counts by, that could not be told; `at` is the place of what failed in its text."""

    campaign_id: int | None
    action_id: int | None
    message: str
    at: tuple[int, int] | None
    mission_id: int | None = None


class Done(NamedTuple):
    """What became of an effect: its status, what stood in the way, and how much was done of what has an amount."""

    status: str
    error: Refusal | None
    amount: Decimal | None = None


class Reason(NamedTuple):
    """The first thing that was not fulfilled, `at` its place in the text of a rule, and the value that was seen."""

    code: str
    label: str | None
    actual: Any = None
    at: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a campaign (`action_id` None) or an action applied or not.

    `trace` tells what every part of its rule came to, where that is asked for.
    """

    campaign_id: int
    campaign_version_id: int
    campaign_key: str
    campaign_code: str
    action_id: int | None
    action_name: str | None
    applied: bool
    reason: Reason | None
    trace: Mapping[str, Any] | None


@dataclass(slots=True)
class Evaluation:
    """What an event set in motion, gathered while its actions run."""

    effects: list[EffectOutcome] = field(default_factory=list)
    errors: list[RuleError] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    limit_discarded: Decimal = ZERO
    counted: list[tuple[CounterKey, Decimal]] = field(default_factory=list)
