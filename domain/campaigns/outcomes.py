"""Results of an evaluation: the outcome of each effect, and why campaigns and actions did not apply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple

from domain.campaigns.counters import Count
from domain.campaigns.discounts import Discount
from domain.campaigns.limits import MONEY, Alert, EventLimit
from domain.campaigns.records import Action, Campaign
from domain.ledger.availability import Wait
from domain.problems import Conflict, Refusal

ZERO = Decimal(0)
NO_DETAILS: Mapping[str, Any] = MappingProxyType({})

# The statuses of effects; EVALUATED and AUTHORIZED replace EXECUTED in dry runs and authorizations.
EXECUTED, PARTIAL, SKIPPED, FAILED = "executed", "partial", "skipped", "failed"
EVALUATED, AUTHORIZED = "evaluated", "authorized"


class LimitReached(Conflict, title="A limit of the campaign is reached"):
    """A limit of the campaign is reached."""

    @classmethod
    def of(cls, limit: EventLimit) -> LimitReached:
        """The refusal for an exhausted `limit`."""
        rule = limit.rule
        unit = (rule.currency or "") if rule.type == MONEY else rule.type
        return cls(f"The limit of {limit.limit} {unit} of a {rule.scope} ({rule.period}) is reached.")


class NoSponsor(Conflict, title="The event has no sponsor"):
    """The effect rewards the sponsor, and the event names none."""


class NothingToDo(Conflict, slug="zero-amount", title="The amount is zero"):
    """The amount evaluated to zero."""


class BadParameter(Conflict, slug="effect-parameter", title="A parameter of the effect has no usable value"):
    """A parameter of an effect could not be computed, or evaluated to a value that the effect cannot use."""


@dataclass(frozen=True, slots=True)
class EffectOutcome:
    """The outcome of one effect of an action (administration "Records": Evaluation result).

    In `params`, `amount` is the executed amount, and `requestedAmount` the requested one if it differs. `details` are
    further fields of the response for effects of this kind. `worth` is the worth in money of what the effect gave, None
    without one. `wait` is set for points that are not available at once.
    """

    campaign: Campaign
    action: Action
    effect_id: str
    status: str
    error: Mapping[str, Any] | None
    params: tuple[tuple[str, Any], ...]
    details: Mapping[str, Any] = field(default_factory=dict)
    discount: Discount | None = None
    worth: Decimal | None = None
    wait: Wait | None = None


class RuleError(NamedTuple):
    """A rule, or a mission's count, that could not be evaluated; `at` is the place of the failing part in its text."""

    campaign_id: int | None
    action_id: int | None
    message: str
    at: tuple[int, int] | None
    mission_id: int | None = None


class EffectResult(NamedTuple):
    """The result of an effect: its status, the error if there is one, and the executed amount, discount and worth.

    `amount` is None if it is the requested one, or the effect has none. `details` are further fields of the response.
    `wait` is set for points that are not available at once.
    """

    status: str
    error: Refusal | None
    amount: Decimal | None = None
    discount: Discount | None = None
    worth: Decimal | None = None
    wait: Wait | None = None
    details: Mapping[str, Any] = NO_DETAILS


class Reason(NamedTuple):
    """The first condition that was not fulfilled, its place `at` in the text of a rule, and the actual value."""

    code: str
    label: str | None
    actual: Any = None
    at: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explains why a campaign (`action` None) or an action applied or not.

    `trace` has the values of all parts of its rule, if requested.
    """

    campaign: Campaign
    action: Action | None
    applied: bool
    reason: Reason | None
    trace: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class EffectGrant:
    """The grant of an effect of a campaign: the `amount` of points, or of a discount.

    `place` is the effect's place in the action. `transaction_number` is the number of a mint among the transactions of
    the event; the key of the mint ends with it. It is None for a discount. The effect's counts on limits are the counts
    of the event from position `from_count` up to, but not including, `to_count`. `qualifying` are the qualifying points
    of a mint, None if its amount qualifies. `items` are the positions of the items that a discount was limited to, None
    if it was not limited.
    """

    place: int
    amount: Decimal
    transaction_number: int | None
    qualifying: Decimal | None
    items: tuple[int, ...] | None
    from_count: int
    to_count: int


@dataclass(frozen=True, slots=True)
class ActionGrants:
    """The grants of an action, to be re-evaluated when a part of the order is returned.

    `balances_after` is the variable as the action saw it, `zone` the time zone of its rules.
    """

    rules: Mapping[str, Any]
    effects: Mapping[str, Any]
    zone: str
    min_spend_value: Decimal | None
    balances_after: Mapping[str, Decimal]
    grants: Sequence[EffectGrant]


@dataclass(slots=True)
class Evaluation:
    """The results of an event, collected while its actions run."""

    effects: list[EffectOutcome] = field(default_factory=list)
    errors: list[RuleError] = field(default_factory=list)
    explanations: list[Explanation] = field(default_factory=list)
    # The sum of the points that limits cut off.
    limit_discarded: Decimal = ZERO
    discount_total: Decimal = ZERO
    # How much of each limit the event has used.
    counts: list[Count] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    # The campaigns with a cooldown that have had an effect.
    cooldown_campaign_ids: tuple[int, ...] = ()
    # The moment of the tiers that counted; None for the present tiers.
    tiers_as_of: datetime | None = None
    # For an order: the actions to be re-evaluated when a part of it is returned, and the same as a stored record.
    granted_actions: list[ActionGrants] = field(default_factory=list)
    grants: Mapping[str, Any] | None = None
