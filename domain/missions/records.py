"""The records of missions and of members' progress in them (administration "Records": Mission)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Internal, Key, Personal
from domain.ledger.availability import Wait
from domain.organizations import Organization
from domain.problems import Conflict, NotFound


@dataclass(frozen=True, slots=True)
class Mission:
    """A goal of `goal_count` counts, which can be achieved at most `max_repetitions` times.

    An event counts 1, or the value of `count_expression`. With a `currency`, only orders and payments in it count.

    In a calendar period of its `timezone`, or else the organization's, it can be achieved at most `period_limit` times.
    Points go to the organization's default ledger and account unless the mission names others, and are available by the
    terms of the mission, or else of the account. `badge_matcher`, `manual_expiration` and `available_on` are stored in
    the form of the API.
    """

    organization_id: int
    mission_id: int
    mission_key: Key
    campaign_id: int | None
    loyalty_program_id: int | None
    name: str
    short_description: str | None
    description: str | None
    picture_url: str | None
    custom_attributes: Mapping[str, Any]
    type: str | None
    audience_id: int | None
    tags: tuple[str, ...]
    code: str | None
    matcher_id: int | None
    event_type: str
    active: bool
    valid_from: datetime | None
    valid_to: datetime | None
    max_repetitions: int
    repetition_period: str | None
    period_limit: int | None
    goal_count: int
    points_accrual: Decimal | None
    ledger_id: int | None
    ledger_account_id: int | None
    available_at: datetime | None
    available_after: str | None
    available_rounding: str
    available_on: Mapping[str, Any] | None
    coupon_book_key: Key | None
    badge_key: Key | None
    ledger_transaction_description: str | None
    inline_matcher: Mapping[str, Any] | None
    badge_matcher: Mapping[str, Any] | None
    min_spend_value: Decimal | None
    currency: str | None
    manual_expiration: Mapping[str, Any] | None
    count_expression: str | None
    timezone: str | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime

    def in_zone_of(self, organization: Organization) -> Mission:
        """The mission with the organization's `timezone` if it has none of its own, ready for counting."""
        return self if self.timezone is not None else replace(self, timezone=organization.timezone)


@dataclass(frozen=True, slots=True)
class MissionBalance:
    """A member's balance in a mission; the last two fields are of the achievement whose event happened last."""

    member_id: int
    times_achieved: int
    current_counter_count: int
    last_counter_count_when_achieved: int | None
    last_achieved_at: datetime | None


@dataclass(frozen=True, slots=True)
class MemberMission:
    """A mission and the member's balance in it."""

    mission: Mission
    balance: MissionBalance


@dataclass(frozen=True, slots=True)
class MissionTracking:
    """The count of an event, or a request, for a member's mission, and how often it achieved the goal.

    `goal_count` is the goal at that time. A tracking by request has a key, and `answer`, the response to repetitions
    of the request. A tracking by an event is reversed with it, by the event `reversal_loyalty_event_id`.
    """

    organization_id: int
    mission_tracking_id: int
    member_id: int
    mission_id: int
    # The event that counted; None for a count by request.
    loyalty_event_id: int | None
    counted: int
    achieved: int
    goal_count: int
    happened_at: datetime
    system_unique_key: str | None
    request_digest: Personal[Internal[bytes | None]]
    external_id: Personal[str | None]
    description: Personal[str | None]
    tags: Personal[tuple[str, ...]]
    # The caller of a request: the subject of the token and its user.
    actor: str | None
    user_id: int | None
    answer: Personal[Mapping[str, Any] | None]
    reversal_loyalty_event_id: int | None
    created_at: datetime
    # True for a change of the progress by an import, for which no reward is paid.
    is_imported: Internal[bool] = False


class UnknownMission(NotFound, title="The mission does not exist"):
    """The organization does not have the mission that a request or an effect names."""


class MissionClosed(Conflict, title="The mission is not open to the member"):
    """The mission is not active, not within its dates, or for an audience without the member."""


class MissionExhausted(Conflict, title="The member has achieved the mission the maximum number of times"):
    """The member has achieved the mission the maximum number of times, in total or in the period."""


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of an achieved mission, or why it was not given: `refusal` is a problem object.

    `paid` is the part of the amount that was paid, also if the rest was refused. `code` is the code of the assigned
    coupon. `wait` is set for points that are not available yet.
    """

    kind: str
    amount: Decimal
    ledger_account_key: str | None = None
    badge_key: str | None = None
    coupon_book_key: str | None = None
    code: str | None = None
    refusal: Mapping[str, Any] | None = None
    paid: Decimal = Decimal(0)
    wait: Wait | None = None
