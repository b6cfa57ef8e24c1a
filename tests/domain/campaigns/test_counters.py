"""Counters that are split into parts under contention: they stay exact at alerts and limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.campaigns.counters import (
    ALL_CAMPAIGNS,
    ALL_MEMBERS,
    Ceiling,
    Count,
    CounterKey,
    Counters,
    LockedCounter,
    location_key,
)
from domain.retries import StartOver

CAMPAIGN_ID = 3
KEY = CounterKey(CAMPAIGN_ID, ALL_MEMBERS, 0, "money", "total", date(1, 1, 1))
LIMIT = Decimal(1000)
SEVEN_FIFTY = Decimal("7.5")


def counters(counter, ceiling=None):
    """The counters of a unit of work: one, whose limit is 1000 unless it has another ceiling."""
    return Counters(used_amounts={}, locked={KEY: counter}, ceilings={KEY: ceiling or Ceiling(LIMIT)})


def whole(amount, waits=0, **more):
    """A counter that is not split, and for which as many transactions have waited."""
    return LockedCounter(used={0: Decimal(amount)}, waits=waits, **more)


def row(part, difference, *, parts=0, quota=None, until=None):
    """The change of a row by `difference`. The part 0 is the whole counter, with the number of its parts.

    Any other part may count up to its quota, until the whole counter reaches `until`.
    """
    return part, difference, parts, quota, until


def rows_after_counts(counter, *amounts, ceiling=None):
    """The changes of rows after these counts."""
    return [
        row(change.part, change.used, parts=change.parts, quota=change.quota, until=change.until)
        for change in _changes(counter, *amounts, ceiling=ceiling)
    ]


def waits_after_counts(counter, *amounts):
    """The number of waits of each changed row after these counts."""
    return [change.waits for change in _changes(counter, *amounts)]


def _changes(counter, *amounts, ceiling=None):
    unit = counters(counter, ceiling)
    for amount in amounts:
        unit.count([KEY], Decimal(amount), CAMPAIGN_ID)
    return unit.changes()


def test_a_counter_with_less_than_8_waits_stays_in_one_row():
    assert rows_after_counts(whole(10, waits=7), "7.5") == [row(0, SEVEN_FIFTY)]
    assert waits_after_counts(whole(10, waits=7), "7.5") == [7]
    assert waits_after_counts(whole(LIMIT, waits=0), "7.5") == [0]


def test_a_counter_with_8_waits_is_split_while_its_parts_hold_ten_counts():
    # 10 and 7.5 of 1000 are used, and 2 % are a reserve: parts of at least 75 (ten counts) share the other 962.5.
    parts = [row(part, 0, quota=Decimal("962.5") / 12, until=LIMIT) for part in range(1, 13)]
    assert rows_after_counts(whole(10, waits=8), "7.5") == [row(0, SEVEN_FIFTY, parts=12), *parts]
    # The maximum is 16 parts.
    assert len(rows_after_counts(whole(10, waits=8), "0.5")) == 1 + 16
    # The 122.5 that remain are not enough for two parts of 75.
    assert rows_after_counts(whole(850, waits=8), "7.5") == [row(0, SEVEN_FIFTY)]


def test_quotas_end_before_the_next_alert():
    ceiling = Ceiling(LIMIT, alerts={"80 %": Decimal(800), "100 %": LIMIT})
    # 800 less 301 and a reserve of 20 are 479, which the maximum of 16 parts share.
    rows = rows_after_counts(whole(300, waits=8), "1", ceiling=ceiling)
    assert rows[1] == row(1, 0, quota=Decimal(479) / 16, until=Decimal(800))
    # The alert has been reported: 1000 less 801 and the reserve are 179.
    rows = rows_after_counts(whole(800, waits=8, alerts=("80 %",)), "1", ceiling=ceiling)
    assert rows[1] == row(1, 0, quota=Decimal(179) / 16, until=LIMIT)
    # The alert is due, and the next unit of work that counts has to report it.
    assert rows_after_counts(whole(800, waits=8), "1", ceiling=ceiling) == [row(0, 1)]


def test_a_part_counts_up_to_its_quota_and_no_further():
    """The part 3 has counted 30 of its quota of 60."""
    part = LockedCounter(used={3: Decimal(30)}, parts=16, part=3, quota=Decimal(60), until=LIMIT)
    unit = counters(part)
    assert unit.remaining(KEY, LIMIT, Decimal(30)) == 60 - 30
    unit.count([KEY], Decimal(20), CAMPAIGN_ID)
    assert unit.remaining(KEY, LIMIT, Decimal(10)) == 60 - 30 - 20
    # More than the quota needs the whole counter.
    with pytest.raises(StartOver):
        unit.remaining(KEY, LIMIT, Decimal("10.5"))
    assert rows_after_counts(part, 20) == [row(3, 20, quota=60, until=LIMIT)]


def test_a_split_counter_that_is_locked_as_a_whole_is_divided_again_or_joined():
    """180 are used: 100 by the whole counter, and 50 and 30 by its parts."""
    split_counter = LockedCounter(used={0: Decimal(100), 1: Decimal(50), 2: Decimal(30)}, parts=2)
    assert counters(split_counter).remaining(KEY, LIMIT, Decimal(820)) == 1000 - 180
    rows = rows_after_counts(split_counter, 40)
    # 1000 - 220 - 20 are 760 for the one part that would hold ten counts: it is joined.
    assert rows == [row(0, 40 + 50 + 30), row(1, -50), row(2, -30)]
    # 1000 - 200 - 20 are 780 for three parts that hold ten counts of 20.
    rows = rows_after_counts(split_counter, 20)
    assert rows == [
        row(0, 20 + 50 + 30, parts=3),
        row(1, -50, quota=Decimal(780) / 3, until=LIMIT),
        row(2, -30, quota=Decimal(780) / 3, until=LIMIT),
        row(3, 0, quota=Decimal(780) / 3, until=LIMIT),
    ]
    # The limit is used up, and the next unit of work should see that at once.
    assert rows_after_counts(split_counter) == [row(0, 50 + 30), row(1, -50), row(2, -30)]
    # A counter without a limit is joined when a count of it is reversed.
    unit = Counters(used_amounts={}, locked={KEY: split_counter})
    unit.reverse(Count(KEY, Decimal(170), CAMPAIGN_ID))
    assert [(change.part, change.used) for change in unit.changes()] == [(0, -170 + 50 + 30), (1, -50), (2, -30)]


def test_the_stricter_of_two_rules_decides_and_alerts_of_both_are_reported():
    ceiling = Ceiling(Decimal(10), alerts={"a": Decimal(5)}).combine(Ceiling(Decimal(8), alerts={"b": Decimal(4)}))
    assert ceiling.limit == 8
    # The next amount is that of the first alert that has not been reported, or else the limit.
    assert ceiling.next_amount(()) == 4
    assert ceiling.next_amount(("b",)) == 5
    assert ceiling.next_amount(("a", "b")) == 8


def test_an_alert_is_reported_once():
    unit = counters(whole(10, alerts=("50 %",)))
    assert unit.is_reported(KEY, "50 %")
    assert not unit.is_reported(KEY, "80 %")
    unit.count([KEY], Decimal(1), CAMPAIGN_ID)
    unit.report(KEY, "80 %")
    assert unit.is_reported(KEY, "80 %")
    assert unit.changes()[0].alerts == ("50 %", "80 %")


def test_the_location_code_of_a_counter_is_empty_for_events_without_a_location_and_none_for_all_locations():
    assert replace(KEY, location="").location_code is None
    assert replace(KEY, location=location_key(None)).location_code == ""
    assert replace(KEY, location=location_key("MAD")).location_code == "MAD"


def test_a_shared_counter_differs_from_the_counter_of_a_campaign():
    assert replace(KEY, campaign_id=ALL_CAMPAIGNS, shared_key="x") != KEY


class Stored:
    """The rows of a counter, as a database stores them."""

    def __init__(self):
        self.used, self.quotas = {0: Decimal(0)}, {}
        self.parts, self.until, self.waits = 0, None, 0

    def lock(self, part, as_whole):
        """The counter as one unit of work reads it: as a whole, or one of its parts."""
        if as_whole or not self.parts:
            return LockedCounter(used=dict(self.used), parts=self.parts, waits=self.waits + 1)
        part = 1 + part % self.parts
        return LockedCounter(
            used={part: self.used[part]}, parts=self.parts, part=part, quota=self.quotas[part], until=self.until
        )

    def store(self, changes):
        """Change the rows."""
        for change in changes:
            self.used[change.part] = self.used.get(change.part, Decimal(0)) + change.used
            if change.part:
                self.quotas[change.part] = change.quota
                self.until = change.until or self.until
            else:
                self.parts, self.waits = change.parts, change.waits

    @property
    def total(self):
        return sum(self.used.values())


@given(
    limit=st.integers(1, 500),
    counts=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100), st.booleans()), max_size=120),
)
def test_a_split_counter_counts_like_a_single_row(limit, counts):
    """Each count adds an amount by one of the parts, or reverses it."""
    stored_counter, model = Stored(), 0
    for amount, part, gives_back in counts:
        gives_back = gives_back and model >= amount
        fits = model + amount <= limit
        # A reversal locks the whole counter; a count that exceeds the quota of its part is repeated with the whole.
        for as_whole in (gives_back, True):
            locked_counters = {KEY: stored_counter.lock(part, as_whole)}
            unit = Counters(used_amounts={}, locked=locked_counters, ceilings={KEY: Ceiling(Decimal(limit))})
            try:
                if gives_back:
                    unit.reverse(Count(KEY, Decimal(amount), CAMPAIGN_ID))
                    model -= amount
                elif amount:
                    assert (unit.remaining(KEY, Decimal(limit), Decimal(amount)) >= amount) is fits
                    if fits:
                        unit.count([KEY], Decimal(amount), CAMPAIGN_ID)
                        model += amount
                stored_counter.store(unit.changes())
                break
            except StartOver:
                assert not as_whole
        assert stored_counter.total == model
        assert model <= limit
        # All parts together can never count beyond the limit.
        sum_of_quotas = sum(stored_counter.quotas[part] for part in range(1, stored_counter.parts + 1))
        assert stored_counter.used[0] + sum_of_quotas <= limit


def test_a_counter_without_new_counts_is_stored_only_to_join_its_parts():
    assert rows_after_counts(whole(10)) == []
    assert rows_after_counts(LockedCounter(used={3: Decimal(10)}, part=3, quota=Decimal(50), until=LIMIT)) == []
    split_counter = LockedCounter(used={0: Decimal(10), 1: Decimal(4), 2: Decimal(6)}, parts=2)
    assert rows_after_counts(split_counter) == [row(0, 4 + 6), row(1, -4), row(2, -6)]


# The fullest counter that a count of 7.5 splits. Of the limit of 1000, 20 are a reserve. After the count, two parts of
# 75 have to be left, each for ten counts.
FULLEST_TO_SPLIT = LIMIT - 20 - 2 * 75 - SEVEN_FIFTY
TOO_FULL_TO_SPLIT = FULLEST_TO_SPLIT + Decimal("0.1")


def test_a_counter_is_split_into_at_least_two_parts():
    two_parts = [row(part, 0, quota=Decimal(75), until=LIMIT) for part in (1, 2)]
    for waits in (8, 9):
        rows = rows_after_counts(whole(FULLEST_TO_SPLIT, waits=waits), "7.5")
        assert rows == [row(0, SEVEN_FIFTY, parts=2), *two_parts]
    assert rows_after_counts(whole(TOO_FULL_TO_SPLIT, waits=8), "7.5") == [row(0, SEVEN_FIFTY)]


def test_a_counter_of_a_limit_of_one_is_split_by_the_size_of_its_counts():
    """1.00 less 0.30 and a reserve of 0.02 are 0.68, and six parts hold ten counts of 0.01 each."""
    rows = rows_after_counts(whole("0.29", waits=8), "0.01", ceiling=Ceiling(Decimal(1)))
    assert len(rows) == 1 + 6
    assert rows[0] == row(0, Decimal("0.01"), parts=6)
    assert rows[1] == row(1, 0, quota=Decimal("0.68") / 6, until=1)


def test_the_number_of_waits_returns_to_0_when_a_counter_is_split_or_joined():
    # After a split, the rows are the whole counter and its two parts.
    assert waits_after_counts(whole(FULLEST_TO_SPLIT, waits=9), "7.5") == [0, 0, 0]
    assert waits_after_counts(whole(TOO_FULL_TO_SPLIT, waits=9), "7.5") == [9]
    # A full counter is joined. The first row is the whole counter.
    assert waits_after_counts(LockedCounter(used={0: LIMIT, 1: Decimal(0)}, parts=1, waits=5), "7.5")[0] == 0
