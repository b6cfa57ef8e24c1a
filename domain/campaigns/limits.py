"""Limits: how much a campaign may give to a member, at a location or to all, in a period or ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from decimal import Decimal
from typing import Any, NamedTuple

from domain.calendar import MONTHLY, TOTAL, period_start
from domain.campaigns.counters import (
    ALL_ACCOUNTS,
    ALL_CAMPAIGNS,
    ALL_MEMBERS,
    ZERO,
    Ceiling,
    CounterKey,
    Counters,
    location_key,
)
from domain.campaigns.records import Campaign
from domain.currencies import floor_money

# The scopes and the types of limits.
MEMBER, CAMPAIGN, LOCATION = "member", "campaign", "location"
TRANSACTIONS, POINTS, MONEY, COUPONS = "transactions", "points", "money", "coupons"


@dataclass(frozen=True, slots=True)
class LimitRule:
    """At most `limit` of something in a period: for each member, at each location, or in total, by the `scope`.

    The `type` is what is limited: transactions (events with an effect), minted points, money in the `currency`, or
    assigned coupons. The `ledger_account_id` ALL_ACCOUNTS counts points minted into any account. Rules with the same
    `shared_key` share their counters, even across campaigns. `location_limits` has the limits of some locations by
    code; other locations have the `limit`. An alert is reported when one of the `alert_shares`, in percent, is used.
    `api_form` is the rule as the API writes it.
    """

    scope: str
    type: str
    period: str
    limit: Decimal
    ledger_account_id: int = ALL_ACCOUNTS
    shared_key: str = ""
    location_limits: Mapping[str, Decimal] = field(default_factory=dict)
    alert_shares: tuple[int, ...] = ()
    currency: str | None = None
    api_form: Mapping[str, Any] = field(default_factory=dict)

    def limit_at(self, location_code: str | None) -> Decimal:
        """The limit at a location; `location_code` is None for events without one."""
        return self.location_limits.get(location_code or "", self.limit) if self.location_limits else self.limit

    def ceiling(self, limit: Decimal) -> Ceiling:
        """The amounts at which a counter with this limit has to be exact."""
        if not self.alert_shares:
            return Ceiling(limit)
        return Ceiling(limit, {_alert_name(share, limit): limit * share / 100 for share in self.alert_shares})

    def concerns(self, use: LimitUse) -> bool:
        """True if the rule limits a use."""
        if self.type != use.type:
            return False
        if self.type == POINTS:
            return self.ledger_account_id in (ALL_ACCOUNTS, use.ledger_account_id)
        return self.type != MONEY or use.currency in (None, self.currency)


def _alert_name(share: int, limit: Decimal) -> str:
    """The name of an alert; it contains the limit, so that a changed limit has new alerts."""
    return f"{share} % of {limit.normalize():f}"


class LimitUse(NamedTuple):
    """An amount of a type that an effect uses: points of an account, money in a currency."""

    type: str
    amount: Decimal
    ledger_account_id: int = ALL_ACCOUNTS
    currency: str | None = None


ONE_TRANSACTION = LimitUse(TRANSACTIONS, Decimal(1))


class Alert(NamedTuple):
    """A `share` of a limit, in percent, is used for the first time in the period.

    `location` is the code of the location, None unless the limit holds for each location.
    """

    campaign_key: str
    rule: LimitRule
    share: int
    used: Decimal
    limit: Decimal
    location: str | None


def _limit_rule_of(rule: Mapping[str, Any], account_ids: Mapping[str, int], currency: str | None) -> LimitRule:
    """The limit rule with these fields of the API; `currency` is that of limits of money."""
    account_key = rule.get("ledgerAccountKey")
    location_limits = rule.get("locationLimits") or {}
    return LimitRule(
        scope=str(rule["scope"]),
        type=str(rule["type"]),
        period=str(rule["period"]),
        limit=Decimal(rule["limit"]),
        ledger_account_id=account_ids[account_key] if account_key else ALL_ACCOUNTS,
        shared_key=rule.get("sharedKey") or "",
        location_limits={code: Decimal(limit) for code, limit in location_limits.items()},
        alert_shares=tuple(rule.get("alertShares") or ()),
        currency=currency if rule["type"] == MONEY else None,
        api_form=rule,
    )


def limit_rules_of(
    campaign: Campaign, account_ids: Mapping[str, int], default_currency: str | None = None
) -> tuple[LimitRule, ...]:
    """All limit rules of a campaign, including the two that it has as fields; `account_ids` are by ledger account key.

    Money is in the currency of the campaign, else in `default_currency`.
    """
    currency = campaign.currency or default_currency
    rules = [_limit_rule_of(rule, account_ids, currency) for rule in campaign.limit_rules]
    if campaign.points_monthly_limit_per_member is not None:
        rules.append(LimitRule(MEMBER, POINTS, MONTHLY, campaign.points_monthly_limit_per_member))
    if campaign.max_transactions_per_member is not None:
        rules.append(LimitRule(MEMBER, TRANSACTIONS, TOTAL, Decimal(campaign.max_transactions_per_member)))
    return tuple(rules)


def counter_of(
    rule: LimitRule, campaign_id: int, member_id: int, at: datetime, zone: tzinfo, location_code: str | None = None
) -> CounterKey:
    """The counter that `rule` reads for an event of a member; periods begin at midnight in `zone`."""
    return CounterKey(
        campaign_id=ALL_CAMPAIGNS if rule.shared_key else campaign_id,
        member_id=member_id if rule.scope == MEMBER else ALL_MEMBERS,
        ledger_account_id=rule.ledger_account_id,
        type=rule.type,
        period=rule.period,
        period_start=period_start(rule.period, at, zone),
        shared_key=rule.shared_key,
        location=location_key(location_code) if rule.scope == LOCATION else "",
    )


class EventLimit(NamedTuple):
    """A rule that limits an event, with the counter of the event, and the limit at its location."""

    rule: LimitRule
    key: CounterKey
    limit: Decimal


@dataclass(frozen=True, slots=True)
class EventLimits:
    """The limits of one campaign for one event."""

    campaign_id: int
    campaign_key: str
    limits: tuple[EventLimit, ...]

    def first_exhausted(self, counters: Counters) -> EventLimit | None:
        """The first limit of transactions that does not allow one more event; None if there is none."""
        return self.broken_by((ONE_TRANSACTION,), counters)

    def broken_by(self, uses: Sequence[LimitUse], counters: Counters) -> EventLimit | None:
        """The first limit that the uses would exceed in total; None if they exceed none."""
        for limit in self.limits:
            total = sum((use.amount for use in uses if limit.rule.concerns(use)), ZERO)
            if total and counters.remaining(limit.key, limit.limit, total) < total:
                return limit
        return None

    def remaining(self, use: LimitUse, counters: Counters) -> tuple[Decimal, EventLimit | None]:
        """The part of a use that the limits allow, and the strictest limit; None if they allow all of it."""
        allowed_amount, strictest = use.amount, None
        for limit in self.limits:
            if limit.rule.concerns(use):
                remaining_amount = counters.remaining(limit.key, limit.limit, use.amount)
                if remaining_amount < allowed_amount:
                    if use.type == MONEY:
                        # Rounded down to the digits of the currency.
                        remaining_amount = floor_money(remaining_amount, limit.rule.currency)
                    allowed_amount, strictest = remaining_amount, limit
        return allowed_amount, strictest

    def count(self, use: LimitUse, counters: Counters) -> list[Alert]:
        """Count a use; returns the alerts that are to be reported because of it."""
        matching_limits = [limit for limit in self.limits if limit.rule.concerns(use)]
        if not matching_limits:
            return []
        currency = next((limit.rule.currency for limit in matching_limits), None)
        counters.count([limit.key for limit in matching_limits], use.amount, self.campaign_id, currency)
        return [
            alert
            for limit in matching_limits
            if limit.rule.alert_shares
            for alert in self._report_alerts(limit, counters)
        ]

    def _report_alerts(self, limit: EventLimit, counters: Counters) -> Iterable[Alert]:
        """Yield the due alerts of one limit that were not reported before, and mark them as reported."""
        used_amount = counters.used_amount(limit.key)
        for share in sorted(limit.rule.alert_shares):
            name = _alert_name(share, limit.limit)
            if used_amount * 100 >= limit.limit * share and not counters.is_reported(limit.key, name):
                counters.report(limit.key, name)
                yield Alert(self.campaign_key, limit.rule, share, used_amount, limit.limit, limit.key.location_code)
