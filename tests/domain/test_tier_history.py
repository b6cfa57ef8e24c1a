"""The tiers that a member had at an earlier moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from domain.tier_history import TierHistory, TierPeriod, is_late
from domain.tiers import HeldTier

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
PROGRAM, OTHER_PROGRAM, MEMBER = 1, 2, 7
BASIC, SILVER, GOLD = 100, 200, 300
DAY = timedelta(days=1)


def period(tier, began, ended=None, *, expires=None, program=PROGRAM):
    """A tier from day `began` to day `ended`; a tier that `expires` on a day is set by request."""
    began_at, ended_at, expires_at = (None if day is None else NOON + day * DAY for day in (began, ended, expires))
    tier_of_member = HeldTier(tier, is_manual=expires is not None, expires_at=expires_at)
    return TierPeriod(MEMBER, program, tier_of_member, began_at, ended_at)


def tiers_at(day, *periods, tier_by_points=None, defaults=None):
    """The member's tiers on a day; a current tier that has expired becomes `tier_by_points`.

    The default tier of PROGRAM is BASIC.
    """
    history = TierHistory(periods, {PROGRAM: BASIC} if defaults is None else defaults)
    return history.tier_ids(MEMBER, NOON + day * DAY, lambda program_id, lapsed: tier_by_points)


@pytest.mark.parametrize(
    ("day", "tier"), [(0, BASIC), (0.99, BASIC), (1, SILVER), (4.99, SILVER), (5, GOLD), (100, GOLD)]
)
def test_each_tier_counts_from_its_beginning_until_the_next_one(day, tier):
    periods = [period(GOLD, began=5), period(BASIC, began=0, ended=1), period(SILVER, began=1, ended=5)]
    assert tiers_at(day, *periods) == [tier]


def test_the_default_tier_counts_before_the_enrolment():
    assert tiers_at(-1, period(GOLD, began=5), period(SILVER, began=0, ended=5)) == [BASIC]
    assert tiers_at(-1, period(GOLD, began=0), defaults={PROGRAM: None}) == []
    assert tiers_at(-1, period(GOLD, began=0), defaults={}) == []


def test_a_member_has_no_tier_between_the_end_of_one_and_the_beginning_of_the_next():
    silver, gold = period(SILVER, began=0, ended=1), period(GOLD, began=3)
    assert tiers_at(1, silver, gold) == []
    assert tiers_at(2, silver, gold) == []
    assert tiers_at(3, silver, gold) == [GOLD]
    assert tiers_at(2, silver) == []


def test_the_tier_of_the_next_evaluation_counts_from_the_expiry_of_the_tier_before_it():
    # It expired on day 2, and was evaluated on day 4.
    set_by_request = period(GOLD, began=0, ended=4, expires=2)
    assert tiers_at(1.99, set_by_request, period(SILVER, began=4)) == [GOLD]
    assert tiers_at(2, set_by_request, period(SILVER, began=4)) == [SILVER]
    assert tiers_at(3, set_by_request, period(SILVER, began=4, ended=6), period(BASIC, began=6)) == [SILVER]
    assert tiers_at(3, set_by_request) == []
    # The next tier did not begin with the evaluation on day 4.
    assert tiers_at(3, set_by_request, period(SILVER, began=5)) == []


def test_a_current_tier_that_has_expired_is_evaluated():
    gold_until_day_2 = period(GOLD, began=0, expires=2)
    assert tiers_at(1, gold_until_day_2, tier_by_points=SILVER) == [GOLD]
    assert tiers_at(2, gold_until_day_2, tier_by_points=SILVER) == [SILVER]
    assert tiers_at(2, gold_until_day_2, tier_by_points=None) == []


def test_the_tiers_of_several_programs_are_independent():
    periods = [
        period(GOLD, began=0, program=OTHER_PROGRAM),
        period(BASIC, began=0, ended=1),
        period(SILVER, began=1),
    ]
    assert tiers_at(0, *periods) == [BASIC, GOLD]
    assert tiers_at(1, *periods) == [SILVER, GOLD]
    other_member = MEMBER + 1
    assert TierHistory(periods, {}).tier_ids(other_member, NOON, lambda program_id, lapsed: None) == []


def test_an_event_is_late_after_more_than_an_hour():
    hour = timedelta(hours=1)
    # An event at the first moment is recorded at NOON.
    assert not is_late(NOON - hour, NOON)
    assert is_late(NOON - hour - timedelta(microseconds=1), NOON)
    assert not is_late(NOON + hour, NOON)
