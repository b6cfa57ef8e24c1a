"""Counters of limits: how much of each limit is used, in one row, or in several parts while many transactions use it.

A counter that many transactions wait for is split: each part may count up to its quota, independently of other parts.
The quotas leave a reserve of the limit, so that no limit is exceeded and no alert missed; the reserve is counted in one
row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from typing import NamedTuple

from domain.campaigns.cooldowns import Applications
from domain.retries import StartOver

# The ids in keys of counters that are not for a single member, account or campaign.
ALL_MEMBERS = 0
ALL_ACCOUNTS = 0
ALL_CAMPAIGNS = 0

ZERO = Decimal(0)

MAX_PARTS = 16
# The share of a limit that the quotas leave unused; a counter that has no more left is not split.
RESERVE = Decimal("0.02")
# The quota of a part allows at least this many counts of the largest amount counted now.
_MIN_COUNTS_OF_PART = 10
# A counter is split after this many transactions have waited for it.
_WAITS_BEFORE_SPLIT = 8

_LOCATION_PREFIX = "@"


@dataclass(frozen=True, slots=True)
class CounterKey:
    """The counter that a rule reads: a campaign, a member (or ALL_MEMBERS), an account and a period.

    Campaigns with the same `shared_key` share a counter, whose campaign is ALL_CAMPAIGNS. `location` is empty unless
    the counter is that of one location, see `location_key`.
    """

    campaign_id: int
    member_id: int
    ledger_account_id: int
    type: str
    period: str
    period_start: date
    shared_key: str = ""
    location: str = ""

    @property
    def location_code(self) -> str | None:
        """The code of the location, empty for orders that name none; None if the counter is not of one location."""
        return self.location.removeprefix(_LOCATION_PREFIX) if self.location else None


def location_key(code: str | None) -> str:
    """The `location` of a counter of the location with this code; None means orders without a location."""
    return _LOCATION_PREFIX + (code or "")


class Count(NamedTuple):
    """An amount that a campaign has counted, negative for a reversal; money is in the `currency`."""

    key: CounterKey
    amount: Decimal
    campaign_id: int
    currency: str | None = None


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The amounts at which a counter has to be exact: its limit, and the amounts of its alerts by name."""

    limit: Decimal
    alerts: Mapping[str, Decimal] = field(default_factory=dict)

    def next_amount(self, reported_alerts: Iterable[str]) -> Decimal:
        """The smallest of the limit and the amounts of alerts that have not been reported yet."""
        reported_names = frozenset(reported_alerts)
        return min([self.limit, *(amount for name, amount in self.alerts.items() if name not in reported_names)])

    def combine(self, other: Ceiling) -> Ceiling:
        """The ceiling of a counter that two limit rules share: the lower limit, and the alerts of both."""
        return Ceiling(min(self.limit, other.limit), {**self.alerts, **other.alerts})


@dataclass(frozen=True, slots=True)
class LockedCounter:
    """A stored counter that the unit of work has locked: all its rows, or only the row of one `part`.

    `used` is what the locked rows have counted, by part; part 0 is the row of the counter itself. `parts` is the number
    of parts of a split counter. A part may count up to its `quota`; all parts together stay below the amount `until`,
    which is the limit or the amount of the next alert. `alerts` are the names of the reported alerts; `waits` is the
    number of transactions that have waited for the counter since it was split last.
    """

    used: Mapping[int, Decimal]
    parts: int = 0
    part: int = 0
    quota: Decimal | None = None
    until: Decimal | None = None
    alerts: tuple[str, ...] = ()
    waits: int = 0

    @property
    def total(self) -> Decimal:
        """The sum that the locked rows have counted."""
        return sum(self.used.values(), ZERO)


class CounterRow(NamedTuple):
    """A row to be stored: `used` is added to the stored amount, the other fields replace the stored ones."""

    key: CounterKey
    part: int
    used: Decimal
    parts: int = 0
    quota: Decimal | None = None
    until: Decimal | None = None
    alerts: tuple[str, ...] = ()
    waits: int = 0


CountersSavepoint = tuple[int, Mapping[CounterKey, tuple[str, ...]]]
"""The length of the count log, and the names of the reported alerts of each counter."""


class Counters:
    """The counters of a unit of work; `count_log` lists the counts made, in order.

    `locked` are the counters that all members share; the counters of one member are protected by the member's lock.
    `ceilings` follow from the present rules, `applications` are the events that cooldowns depend on.
    """

    def __init__(
        self,
        used_amounts: Mapping[CounterKey, Decimal],
        locked: Mapping[CounterKey, LockedCounter] = {},
        ceilings: Mapping[CounterKey, Ceiling] = {},
        applications: Applications | None = None,
    ) -> None:
        self._used = {**used_amounts, **{key: counter.total for key, counter in locked.items()}}
        self.locked = locked
        self._ceilings = ceilings
        self._applications = applications
        self._alerts: dict[CounterKey, list[str]] = {}
        self.count_log: list[Count] = []

    @property
    def applications(self) -> Applications:
        """The events that cooldowns depend on."""
        if self._applications is None:
            self._applications = Applications()
        return self._applications

    def used_amount(self, key: CounterKey) -> Decimal:
        """How much has been counted; of a split counter, only in the rows that this unit of work has locked."""
        return self._used.get(key, ZERO)

    def remaining(self, key: CounterKey, limit: Decimal, amount: Decimal) -> Decimal:
        """How much of a limit is left for a use of `amount`.

        If only a part of a split counter is locked, it is how much the part has left. Raises StartOver if that is less
        than `amount`, since other parts may have more.
        """
        counter = self.locked.get(key)
        if counter is None or counter.quota is None:
            return max(ZERO, limit - self.used_amount(key))
        quota_left = counter.quota - self.used_amount(key)
        if quota_left < amount:
            raise StartOver(
                f"The locked part of a limit has {quota_left} left, but {amount} are needed: lock all parts."
            )
        return quota_left

    def count(self, keys: Iterable[CounterKey], amount: Decimal, campaign_id: int, currency: str | None = None) -> None:
        """Add `amount` to each of the counters, only once if `keys` has a counter several times."""
        for key in dict.fromkeys(keys):
            self._used[key] = self.used_amount(key) + amount
            self.count_log.append(Count(key, amount, campaign_id, currency))

    def savepoint(self) -> CountersSavepoint:
        """A point that `rollback_to` can return to."""
        return len(self.count_log), {key: tuple(alerts) for key, alerts in self._alerts.items()}

    def rollback_to(self, savepoint: CountersSavepoint) -> None:
        """Forget the counts and the alerts since the savepoint."""
        length, alerts = savepoint
        while len(self.count_log) > length:
            count = self.count_log.pop()
            self._used[count.key] -= count.amount
        self._alerts = {key: list(names) for key, names in alerts.items()}

    def reverse(self, count: Count) -> None:
        """Subtract an amount from a counter, which never falls below zero."""
        key = count.key
        reversed_amount = min(count.amount, self.used_amount(key))
        self._used[key] = self.used_amount(key) - reversed_amount
        self.count_log.append(count._replace(amount=-reversed_amount))

    def is_reported(self, key: CounterKey, alert: str) -> bool:
        """True if an alert of the counter was reported before, or by this unit of work."""
        counter = self.locked.get(key)
        return alert in self._alerts.get(key, ()) or (counter is not None and alert in counter.alerts)

    def report(self, key: CounterKey, alert: str) -> None:
        """Note that an alert of the counter is reported."""
        self._alerts.setdefault(key, []).append(alert)

    def changes(self) -> list[CounterRow]:
        """The rows to be stored."""
        totals: dict[CounterKey, Decimal] = {}
        largest_amounts: dict[CounterKey, Decimal] = {}
        for key, amount, *_ in self.count_log:
            totals[key] = totals.get(key, ZERO) + amount
            largest_amounts[key] = max(largest_amounts.get(key, ZERO), amount)
        # A split counter that is locked as a whole gets new quotas or is joined, even if nothing was counted.
        zeros = {key: ZERO for key, counter in self.locked.items() if counter.parts and not counter.part}
        rows: list[CounterRow] = []
        for key, amount in {**zeros, **totals}.items():
            counter = self.locked.get(key)
            if counter is None:
                rows.append(CounterRow(key, 0, amount))
            elif counter.part:
                rows.append(CounterRow(key, counter.part, amount, 0, counter.quota, counter.until))
            else:
                counter = replace(counter, alerts=(*counter.alerts, *self._alerts.get(key, ())))
                largest_amount = largest_amounts.get(key, ZERO)
                rows += _merge_and_split(key, counter, amount, self._ceilings.get(key), largest_amount)
        return rows


def _merge_and_split(
    key: CounterKey, counter: LockedCounter, amount: Decimal, ceiling: Ceiling | None, largest_amount: Decimal
) -> Sequence[CounterRow]:
    """The rows of a counter that is locked as a whole: row 0 takes over the counts of all parts.

    The parts start again from zero, with a new quota or with none. A counter without parts is split if many
    transactions have waited for it. `amount` is the sum of the new counts, `largest_amount` the largest of them.
    """
    used_amount = counter.total + amount
    split = None
    if ceiling is not None and (counter.parts or counter.waits >= _WAITS_BEFORE_SPLIT):
        split = _split_of(used_amount, ceiling.next_amount(counter.alerts), RESERVE * ceiling.limit, largest_amount)
    parts = 0 if split is None else split.parts
    waits = 0 if counter.parts or parts else counter.waits
    change = used_amount - counter.used.get(0, ZERO)
    rows = [CounterRow(key, 0, change, parts, alerts=counter.alerts, waits=waits)]
    for part in range(1, max(parts, counter.parts) + 1):
        # `change` has moved the amount of this part to row 0, so the part starts again from zero.
        merged_amount = counter.used.get(part, ZERO)
        row = CounterRow(key, part, -merged_amount)
        if split is not None and part <= parts:
            row = row._replace(quota=split.quota, until=split.until)
        rows.append(row)
    return rows


class _Split(NamedTuple):
    """The number of parts of a counter, the quota of each, and the amount that they do not reach together."""

    parts: int
    quota: Decimal
    until: Decimal


def _split_of(
    used_amount: Decimal, next_threshold: Decimal, reserve: Decimal, largest_amount: Decimal
) -> _Split | None:
    """The parts that share the amount left until the next alert or the limit, less a reserve; None if it is too small.

    `largest_amount` is the largest amount counted now.
    """
    if largest_amount <= 0:
        return None
    free_amount = next_threshold - used_amount - reserve
    parts = min(MAX_PARTS, int(free_amount / (_MIN_COUNTS_OF_PART * largest_amount)))
    # One part would only move the waiting from row 0 to the part.
    return _Split(parts, free_amount / parts, next_threshold) if parts > 1 else None
