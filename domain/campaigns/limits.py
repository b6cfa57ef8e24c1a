"""Limits: how much a campaign may give to a member or to all, in a period or ever."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from decimal import Decimal

from domain.calendar import MONTHLY, TOTAL, period_start
from domain.campaigns.cooldowns import Applications
from domain.campaigns.records import Campaign

MEMBER, CAMPAIGN = "member", "campaign"
TRANSACTIONS, POINTS = "transactions", "points"

ALL_MEMBERS = 0
ALL_ACCOUNTS = 0

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class LimitRule:
    """At most `limit` transactions (events with an effect) or minted points, of one member or of all, in a period.

    The `ledger_account_id` ALL_ACCOUNTS counts points minted into any account.
    """

    scope: str
    type: str
    period: str
    limit: Decimal
    ledger_account_id: int = ALL_ACCOUNTS


@dataclass(frozen=True, slots=True)
class CounterKey:
    """The counter that a rule reads: a campaign, a member (or ALL_MEMBERS), an account and a period."""

    campaign_id: int
    member_id: int
    ledger_account_id: int
    type: str
    period: str
    period_start: date


def limit_rules_of(campaign: Campaign, account_ids: Mapping[str, int]) -> tuple[LimitRule, ...]:
    """All the rules of a campaign, including its two shorthands; `account_ids` by ledger account key."""
    rules = [
        LimitRule(
            scope=str(rule["scope"]),
            type=str(rule["type"]),
            period=str(rule["period"]),
            limit=Decimal(rule["limit"]),
            ledger_account_id=account_ids[rule["ledgerAccountKey"]] if rule.get("ledgerAccountKey") else ALL_ACCOUNTS,
        )
        for rule in campaign.limit_rules
    ]
    if campaign.points_monthly_limit_per_member is not None:
        rules.append(LimitRule(MEMBER, POINTS, MONTHLY, campaign.points_monthly_limit_per_member))
    if campaign.max_transactions_per_member is not None:
        rules.append(LimitRule(MEMBER, TRANSACTIONS, TOTAL, Decimal(campaign.max_transactions_per_member)))
    return tuple(rules)


def counter_of(rule: LimitRule, campaign_id: int, member_id: int, at: datetime, zone: tzinfo) -> CounterKey:
    """The counter that `rule` reads for an event of a member at a moment; periods are those of `zone`."""
    return CounterKey(
        campaign_id=campaign_id,
        member_id=member_id if rule.scope == MEMBER else ALL_MEMBERS,
        ledger_account_id=rule.ledger_account_id,
        type=rule.type,
        period=rule.period,
        period_start=period_start(rule.period, at, zone),
    )


class Counters:
    """The locked counters of a unit of work; `journal` lists the counts made, in order.

    `applications` are the events that cooldowns go by.
    """

    def __init__(self, used: Mapping[CounterKey, Decimal], applications: Applications | None = None) -> None:
        self._used = dict(used)
        self.applications = applications or Applications()
        self.journal: list[tuple[CounterKey, Decimal]] = []

    @property
    def changed(self) -> dict[CounterKey, Decimal]:
        """The amounts that this unit of work has counted, by counter."""
        totals: dict[CounterKey, Decimal] = {}
        for key, amount in self.journal:
            totals[key] = totals.get(key, ZERO) + amount
        return totals

    def used(self, key: CounterKey) -> Decimal:
        """How much has been counted."""
        return self._used.get(key, ZERO)

    def count(self, keys: Iterable[CounterKey], amount: Decimal) -> None:
        """Add `amount` to each of the counters, once where two rules read the same one."""
        for key in set(keys):
            self._used[key] = self.used(key) + amount
            self.journal.append((key, amount))

    def reverse(self, key: CounterKey, amount: Decimal) -> None:
        """Subtract `amount` from a counter, which never falls below zero."""
        given = min(amount, self.used(key))
        self._used[key] = self.used(key) - given
        self.journal.append((key, -given))


@dataclass(frozen=True, slots=True)
class EventLimits:
    """The limits of one campaign for one event: each rule with its counter."""

    rules: tuple[tuple[LimitRule, CounterKey], ...]

    @classmethod
    def of(
        cls, rules: Iterable[LimitRule], campaign_id: int, member_id: int, at: datetime, zone: tzinfo
    ) -> EventLimits:
        """The counters of `rules` for an event of the member at `at`, with the periods of `zone`."""
        return cls(tuple((rule, counter_of(rule, campaign_id, member_id, at, zone)) for rule in rules))

    def exhausted(self, counters: Counters) -> LimitRule | None:
        """The first transactions rule that does not allow one more event."""
        for rule, key in self.rules:
            if rule.type == TRANSACTIONS and counters.used(key) + 1 > rule.limit:
                return rule
        return None

    def room(self, ledger_account_id: int, counters: Counters) -> tuple[Decimal | None, LimitRule | None]:
        """The points that may still be minted into the account, and the rule that limits them; None if unlimited."""
        least: Decimal | None = None
        strictest: LimitRule | None = None
        for rule, key in self.rules:
            if rule.type == POINTS and rule.ledger_account_id in (ALL_ACCOUNTS, ledger_account_id):
                left = max(ZERO, rule.limit - counters.used(key))
                if least is None or left < least:
                    least, strictest = left, rule
        return least, strictest

    def count_mint(self, ledger_account_id: int, amount: Decimal, counters: Counters) -> None:
        """Count points minted into the account."""
        counters.count(
            (
                key
                for rule, key in self.rules
                if rule.type == POINTS and rule.ledger_account_id in (ALL_ACCOUNTS, ledger_account_id)
            ),
            amount,
        )

    def count_transaction(self, counters: Counters) -> None:
        """Count one event that had an effect."""
        counters.count((key for rule, key in self.rules if rule.type == TRANSACTIONS), Decimal(1))
