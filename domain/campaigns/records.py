"""The records of campaigns and their actions (administration "Records": Campaign, Campaign action)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Key
from domain.problems import Conflict, NotFound

# The statuses of actions, and the values of `on_return` of campaigns.
DISABLED, RUNNING, DRAFT = "disabled", "running", "draft"
PRORATE, REEVALUATE = "prorate", "reevaluate"


class CampaignChanged(Conflict, title="The campaign has changed meanwhile"):
    """The campaign, or one of its actions, has changed since the version that the request names."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """A campaign: when and for whom its actions are considered, and how much they may give.

    `campaign_version_id` counts its changes, including those of its actions. Periods of limits are in its `timezone`,
    or else in that of the organization; so are days and hours, unless the event's location has a time zone.
    `cooldown` is the minimum time between the dates of two events of a member on which the campaign has an effect.
    A campaign with a `currency` applies to orders and payments in this currency, and its amounts of money are in it.
    If an `exclusive` campaign applies to an event, no other campaign does. `on_return` decides whether a partial return
    reverses grants in proportion, or re-evaluates them on the rest of the order.
    """

    organization_id: int
    campaign_id: int
    campaign_key: Key
    campaign_version_id: int
    loyalty_program_id: int | None
    code: str
    active: bool
    name: str
    description: str | None
    picture_url: str | None
    type: str | None
    tags: tuple[str, ...]
    enabled_topics: tuple[str, ...]
    audience_keys: tuple[str, ...]
    days_of_week: tuple[int, ...]
    day_of_week_schedule: Mapping[str, Any] | None
    location_codes: tuple[str, ...]
    loyalty_tier_keys: tuple[str, ...]
    event_type: str | None
    points_monthly_limit_per_member: Decimal | None
    allow_partial_application_on_limit: bool
    max_transactions_per_member: int | None
    limit_rules: tuple[Mapping[str, Any], ...]
    min_spend_value: Decimal | None
    cooldown: str | None
    currency: str | None
    exclusive: bool
    on_return: str
    custom_attributes: Mapping[str, Any]
    smart_rewards: Mapping[str, Any]
    valid_from: datetime | None
    valid_to: datetime | None
    timezone: str | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StackingGroup:
    """A group of actions. Its `mode` decides which of them apply to an event, once or, by `scope`, for each item."""

    organization_id: int
    stacking_group_id: int
    stacking_group_key: Key
    name: str
    mode: str
    scope: str
    active: bool
    external_key: str | None
    created_at: datetime
    updated_at: datetime


class UnknownStackingGroup(NotFound, title="The stacking group does not exist"):
    """The organization does not have the stacking group that an action names."""


@dataclass(frozen=True, slots=True)
class Action:
    """Effects of a campaign, executed if the rules hold; actions with `priority` 1 run first."""

    organization_id: int
    action_id: int
    action_key: Key
    campaign_id: int
    # The version of the campaign, which a change of any action changes.
    campaign_version_id: int
    action_index: int
    abort_evaluation_if_false: bool
    abort_evaluation_on_error: bool
    name: str | None
    # As the client wrote them, fields in the same order.
    rules: Mapping[str, Any]
    effects: Mapping[str, Any]
    status: str
    priority: int
    exclusive_group: str | None
    # An action of a stacking group has no exclusive group.
    stacking_group_key: Key | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime
