"""Amounts that the limits of campaigns leave to one event."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal

from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.cooldowns import Application
from domain.campaigns.limits import ALL_ACCOUNTS, POINTS, Counters, EventLimits, LimitRule

ZERO = Decimal(0)


class LimitBudget:
    """The limits of every campaign that an event reaches, counted in the counters of its batch."""

    def __init__(self, member_id: int, loyalty_event_id: int, at: datetime, counters: Counters) -> None:
        self._member_id = member_id
        self._loyalty_event_id = loyalty_event_id
        self._at = at
        self._counters = counters
        self._cooling: dict[int, datetime | None] = {}
        self._limits: dict[int, EventLimits] = {}
        self._shut: dict[int, LimitRule | None] = {}
        self._counted: set[int] = set()
        self._applied: list[int] = []

    def of(self, campaign: CompiledCampaign) -> EventLimits:
        """The limits of a campaign with the counters of this event."""
        campaign_id = campaign.campaign.campaign_id
        limits = self._limits.get(campaign_id)
        if limits is None:
            limits = EventLimits.of(campaign.limits, campaign_id, self._member_id, self._at, campaign.zone)
            self._limits[campaign_id] = limits
        return limits

    def shut_by(self, campaign: CompiledCampaign) -> LimitRule | None:
        """The transactions rule that was exhausted before this event; None if there is none."""
        campaign_id = campaign.campaign.campaign_id
        if campaign_id not in self._shut:
            self._shut[campaign_id] = self.of(campaign).exhausted(self._counters)
        return self._shut[campaign_id]

    def cooling_by(self, campaign: CompiledCampaign) -> datetime | None:
        """The date of an event before this one on which the campaign had an effect, and that is too near."""
        if campaign.cooldown is None:
            return None
        campaign_id = campaign.campaign.campaign_id
        if campaign_id not in self._cooling:
            self._cooling[campaign_id] = self._counters.applications.too_near(
                campaign_id, self._member_id, self._at, campaign.cooldown, campaign.zone
            )
        return self._cooling[campaign_id]

    @property
    def cooldown_campaign_ids(self) -> tuple[int, ...]:
        """The campaigns with a cooldown that have had an effect on the event."""
        return tuple(self._applied)

    def broken_by(self, campaign: CompiledCampaign, mints: Sequence[tuple[int, Decimal]]) -> LimitRule | None:
        """The points rule that all mints of an action together would break; `mints` are (ledger account id, amount)."""
        if campaign.campaign.allow_partial_application_on_limit:
            return None
        for rule, key in self.of(campaign).rules:
            if rule.type == POINTS:
                total = sum((a for i, a in mints if rule.ledger_account_id in (ALL_ACCOUNTS, i)), ZERO)
                if total and self._counters.used(key) + total > rule.limit:
                    return rule
        return None

    def used(self, campaign: CompiledCampaign, rule: LimitRule) -> Decimal:
        """How much of a rule of the campaign is used up."""
        return next(self._counters.used(key) for limit_rule, key in self.of(campaign).rules if limit_rule is rule)

    def room(self, campaign: CompiledCampaign, ledger_account_id: int) -> tuple[Decimal | None, LimitRule | None]:
        """The points that may still be minted into the account, and the rule that limits them; None if unlimited."""
        return self.of(campaign).room(ledger_account_id, self._counters) if campaign.limits else (None, None)

    def count_mint(self, campaign: CompiledCampaign, ledger_account_id: int, amount: Decimal) -> None:
        """Count points minted into the account."""
        if campaign.limits:
            self.of(campaign).count_mint(ledger_account_id, amount, self._counters)

    def count_event(self, campaign: CompiledCampaign) -> None:
        """Count the event, once however many effects it has."""
        campaign_id = campaign.campaign.campaign_id
        if campaign.limits and campaign_id not in self._counted:
            self._counted.add(campaign_id)
            self.of(campaign).count_transaction(self._counters)
        if campaign.cooldown is not None and campaign_id not in self._applied:
            self._applied.append(campaign_id)
            application = Application(campaign_id, self._member_id, self._loyalty_event_id, self._at)
            self._counters.applications.add(application)
