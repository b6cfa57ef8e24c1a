"""Amounts that the limits of campaigns leave to one event."""

from datetime import datetime
from decimal import Decimal

from domain.campaigns.compiled import CompiledCampaign
from domain.campaigns.context import EventFacts
from domain.campaigns.cooldowns import Application
from domain.campaigns.counters import Counters, CountersSavepoint
from domain.campaigns.limits import (
    MONEY,
    ONE_TRANSACTION,
    Alert,
    EventLimit,
    EventLimits,
    LimitUse,
    counter_of,
)


class LimitBudget:
    """The limits of all campaigns for one event; what the event uses is counted in the counters of its batch.

    `alerts` are the alerts that are to be reported because of the event.
    """

    def __init__(self, event: EventFacts, counters: Counters) -> None:
        self._event = event
        self._counters = counters
        # Results of `date_within_cooldown`, `limits_of` and `limit_exhausted_before`, computed once, by campaign id.
        self._dates_within_cooldown: dict[int, datetime | None] = {}
        self._limits: dict[int, EventLimits] = {}
        self._exhausted_before: dict[int, EventLimit | None] = {}
        # The campaigns with limits that have counted the event.
        self._counted_campaign_ids: set[int] = set()
        # The campaigns with a cooldown that have had an effect on the event.
        self._applied_campaign_ids: list[int] = []
        self.alerts: list[Alert] = []

    def savepoint(self) -> tuple[CountersSavepoint, int]:
        """A point that `rollback_to` can return to."""
        return self._counters.savepoint(), len(self.alerts)

    def rollback_to(self, savepoint: tuple[CountersSavepoint, int]) -> None:
        """Forget what was counted since the savepoint, and the alerts about it."""
        counters_savepoint, alert_count = savepoint
        self._counters.rollback_to(counters_savepoint)
        del self.alerts[alert_count:]

    def limits_of(self, campaign: CompiledCampaign) -> EventLimits:
        """The limits of a campaign for this event; limits of money in another currency do not apply."""
        campaign_id, event = campaign.record.campaign_id, self._event
        limits = self._limits.get(campaign_id)
        if limits is None:
            event_limits = [
                EventLimit(
                    rule,
                    counter_of(rule, campaign_id, event.member_id, event.at, campaign.zone, event.location_code),
                    rule.limit_at(event.location_code),
                )
                for rule in campaign.limits
                if rule.type != MONEY or event.currency in (None, rule.currency)
            ]
            limits = EventLimits(campaign_id, campaign.record.campaign_key, tuple(event_limits))
            self._limits[campaign_id] = limits
        return limits

    def limit_exhausted_before(self, campaign: CompiledCampaign) -> EventLimit | None:
        """The limit of transactions that was exhausted before this event; None if there is none."""
        campaign_id = campaign.record.campaign_id
        if campaign_id not in self._exhausted_before:
            self._exhausted_before[campaign_id] = self.limits_of(campaign).first_exhausted(self._counters)
        return self._exhausted_before[campaign_id]

    def date_within_cooldown(self, campaign: CompiledCampaign) -> datetime | None:
        """The date of another event on which the campaign had an effect, within its cooldown; None if there is none."""
        if campaign.cooldown is None:
            return None
        campaign_id = campaign.record.campaign_id
        if campaign_id not in self._dates_within_cooldown:
            self._dates_within_cooldown[campaign_id] = self._counters.applications.last_within_cooldown(
                campaign_id, self._event.member_id, self._event.at, campaign.cooldown, campaign.zone
            )
        return self._dates_within_cooldown[campaign_id]

    @property
    def cooldown_campaign_ids(self) -> tuple[int, ...]:
        """The campaigns with a cooldown that have had an effect on the event."""
        return tuple(self._applied_campaign_ids)

    def remaining(self, campaign: CompiledCampaign, use: LimitUse) -> tuple[Decimal, EventLimit | None]:
        """The part of a use that the limits allow, and the strictest limit; None if they allow all of it."""
        return self.limits_of(campaign).remaining(use, self._counters) if campaign.limits else (use.amount, None)

    def count(self, campaign: CompiledCampaign, *uses: LimitUse) -> None:
        """Count what an effect uses."""
        if campaign.limits:
            for use in uses:
                self.alerts += self.limits_of(campaign).count(use, self._counters)

    def count_event(self, campaign: CompiledCampaign) -> None:
        """Count the event for the limits and the cooldown of a campaign, once for all effects of the campaign."""
        campaign_id = campaign.record.campaign_id
        if campaign.limits and campaign_id not in self._counted_campaign_ids:
            self._counted_campaign_ids.add(campaign_id)
            self.count(campaign, ONE_TRANSACTION)
        if campaign.cooldown is not None and campaign_id not in self._applied_campaign_ids:
            self._applied_campaign_ids.append(campaign_id)
            event = self._event
            application = Application(campaign_id, event.member_id, event.loyalty_event_id, event.at)
            self._counters.applications.add(application)
