"""The points that tiers depend on, compared with a list of dated earnings, and the status that members see."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.calendar import add_months
from domain.ledger.postings import Earning
from domain.tier_policies import (
    CALENDAR,
    EARNED,
    ROLLING,
    TierPoints,
    TierPolicy,
    complete_tier_policy,
    faults_of_policy,
)
from domain.tiers import ConfiguredTier, HeldTier, MemberTier, TierAssignments, TierSchedule, TierStep, tier_status

NOON = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
ACCOUNT, PROGRAM, MEMBER = 1, 1, 7
BASIC, SILVER, GOLD = 10, 11, 12
# Basic needs 0 points, Silver 100 and Gold 200.
STEPS = (TierStep(BASIC, Decimal(0), 0), TierStep(SILVER, Decimal(100), 1), TierStep(GOLD, Decimal(200), 2))
NAMES = {
    tier_id: ConfiguredTier(tier_id, f"tier-{tier_id}", PROGRAM, "program-1", name, True)
    for tier_id, name in ((BASIC, "Basic"), (SILVER, "Silver"), (GOLD, "Gold"))
}


def schedule(policy):
    """The tiers of STEPS, by points that the policy counts."""
    return TierSchedule(PROGRAM, "program-1", ACCOUNT, BASIC, STEPS, moves_members=True, policy=policy)


def points_earned(*amounts):
    """Points by the date on which they were earned."""
    earnings = tuple(Earning(datetime.fromisoformat(day).replace(tzinfo=UTC), Decimal(n)) for day, n in amounts)
    return TierPoints(Decimal(0), sum((earning.amount for earning in earnings), Decimal(0)), earnings)


YEAR = TierPolicy(EARNED, ROLLING, months=12)


def test_the_balance_counts_unless_the_policy_names_earned_points():
    points = TierPoints(balance=Decimal(5), earned=Decimal(500))
    assert TierPolicy().counted_points(points, NOON) == 5
    assert TierPolicy(EARNED).counted_points(points, NOON) == 500
    assert list(TierPolicy(EARNED).changes(points, NOON)) == []


@pytest.mark.parametrize(
    ("at", "counted_sum"),
    [("2026-02-28T00:00:00+00:00", 150), ("2026-02-28T09:59:59+00:00", 150), ("2026-02-28T10:00:00+00:00", 50)],
)
def test_points_of_a_rolling_month_count_until_the_same_time_on_the_last_day_of_a_shorter_month(at, counted_sum):
    # The 100 points count until 28 February at 10:00.
    points = points_earned(("2026-01-31T10:00:00", 100), ("2026-02-10", 50))
    assert TierPolicy(EARNED, ROLLING, months=1).counted_points(points, datetime.fromisoformat(at)) == counted_sum


def test_years_begin_in_the_month_and_the_time_zone_of_the_policy():
    policy = TierPolicy(EARNED, CALENDAR, start_month=4, zone=ZoneInfo("America/New_York"))
    # Midnight in New York is 04:00 in UTC.
    points = points_earned(("2026-04-01T03:59:59", 1), ("2026-04-01T04:00:00", 10), ("2027-04-01T04:00:00", 100))
    begin_of_year = datetime(2026, 4, 1, 4, tzinfo=UTC)
    assert policy.counted_points(points, begin_of_year - timedelta(seconds=1)) == 1
    assert policy.counted_points(points, begin_of_year) == 10
    next_year = datetime(2027, 4, 1, 4, tzinfo=UTC)
    assert list(policy.changes(points, begin_of_year)) == [(next_year, 100), (datetime(2028, 4, 1, 4, tzinfo=UTC), 0)]


def test_points_can_be_counted_at_the_first_and_the_last_moment_of_the_calendar():
    zones = (UTC, ZoneInfo("Asia/Tokyo"))
    years = [TierPolicy(EARNED, CALENDAR, start_month=month, zone=zone) for month in (1, 4) for zone in zones]
    first_moment, last_moment = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    for policy in (YEAR, *years):
        points = TierPoints(earnings=(Earning(first_moment, Decimal(3)),))
        assert policy.counted_points(points, first_moment) == 3
        assert [counted_points for _, counted_points in policy.changes(points, first_moment)] == [0]
        assert policy.earliest_counting_moment(first_moment) <= first_moment
        # The period of these points ends with the calendar, so they do not count at its last moment.
        points = TierPoints(earnings=(Earning(last_moment, Decimal(3)),))
        assert policy.counted_points(points, last_moment) == 0
        assert list(policy.changes(points, last_moment)) == []
        assert policy.earliest_counting_moment(last_moment) <= last_moment


def test_the_last_year_of_the_calendar_counts_like_any_other():
    points = points_earned(("9998-06-01", 1), ("9999-02-01", 10))
    assert TierPolicy(EARNED, CALENDAR).counted_points(points, datetime(9999, 6, 1, tzinfo=UTC)) == 10


def points_available(*amounts):
    """Points by the date of their event, and the date from which they were available (None: at once)."""
    return TierPoints(
        earnings=tuple(
            Earning(
                datetime.fromisoformat(day).replace(tzinfo=UTC),
                Decimal(amount),
                None if available is None else datetime.fromisoformat(available).replace(tzinfo=UTC),
            )
            for day, amount, available in amounts
        )
    )


# 100 points of December could not be spent before the tenth of January.
LATE_POINTS = points_available(
    ("2024-06-01", 500, None), ("2025-06-01", 30, None), ("2025-12-20", 100, "2026-01-10"), ("2026-01-02", 80, None)
)


@pytest.mark.parametrize(
    ("day", "points"),
    [
        ("2025-12-31", 130),
        # Only the points of 2026 count.
        ("2026-01-09", 80),
        # The 100 points became available, so all 130 of 2025 count again until the end of 2026.
        ("2026-01-10", 130),
        ("2026-12-31", 130),
        ("2027-01-01", 0),
    ],
)
def test_an_ended_year_counts_again_until_the_end_of_the_year_in_which_points_of_it_become_available(day, points):
    at = datetime.fromisoformat(day).replace(tzinfo=UTC)
    assert TierPolicy(EARNED, CALENDAR).counted_points(LATE_POINTS, at) == points


@pytest.mark.parametrize(
    ("available", "points"), [("2025-12-31", 0), ("2026-01-01", 100), ("2026-03-04", 100), ("2026-03-05", 0)]
)
def test_an_ended_year_does_not_count_again_if_its_points_were_available_within_it_or_still_wait(available, points):
    at = datetime(2026, 3, 4, tzinfo=UTC)
    assert TierPolicy(EARNED, CALENDAR).counted_points(points_available(("2025-12-20", 100, available)), at) == points


def test_the_best_of_all_ended_years_with_points_that_became_available_counts():
    points = points_available(("2024-12-20", 100, "2026-02-01"), ("2025-12-20", 30, "2026-02-01"))
    assert TierPolicy(EARNED, CALENDAR).counted_points(points, NOON) == 100


def test_the_better_of_the_ended_and_the_current_year_counts():
    policy = TierPolicy(EARNED, CALENDAR)
    # 2025 has 130 of the LATE_POINTS, and 2026 has 80.
    assert policy.counted_points(LATE_POINTS, NOON) == 130
    # With 70 more points, 2026 has 150.
    more_points = TierPoints(earnings=(*LATE_POINTS.earnings, Earning(NOON, Decimal(70))))
    assert policy.counted_points(more_points, NOON) == 150


def test_points_of_a_rolling_period_count_from_the_date_of_their_event_however_late_they_are_available():
    points = points_available(("2025-12-20", 100, "2026-01-10"))
    assert YEAR.counted_points(points, datetime(2026, 12, 19, tzinfo=UTC)) == 100
    assert YEAR.counted_points(points, datetime(2026, 12, 20, tzinfo=UTC)) == 0
    assert list(YEAR.changes(points, NOON)) == [(datetime(2026, 12, 20, tzinfo=UTC), 0)]


@pytest.mark.parametrize(
    ("at", "changes"),
    [
        ("2026-01-09", []),
        # The end of 2026 is the next change, even though no points of 2026 end then.
        ("2026-01-10", [("2027-01-01", 0)]),
        ("2026-12-31", [("2027-01-01", 0)]),
        ("2027-01-01", []),
    ],
)
def test_a_year_that_counts_again_does_so_until_the_end_of_the_current_year(at, changes):
    points = points_available(("2025-12-20", 100, "2026-01-10"))
    policy_changes = TierPolicy(EARNED, CALENDAR).changes(points, datetime.fromisoformat(at).replace(tzinfo=UTC))
    assert [(moment.date().isoformat(), amount) for moment, amount in policy_changes] == changes


def test_an_ended_year_counts_again_if_its_points_become_available_at_the_first_moment_of_the_next_year():
    points = points_available(("2025-12-20", 100, "2026-01-01"))
    begin_of_2026, begin_of_2027 = (datetime(year, 1, 1, tzinfo=UTC) for year in (2026, 2027))
    # From the first moment of 2026 on, and until 2027 begins.
    assert TierPolicy(EARNED, CALENDAR).counted_points(points, begin_of_2026) == 100
    assert list(TierPolicy(EARNED, CALENDAR).changes(points, NOON)) == [(begin_of_2027, 0)]


def test_after_a_year_has_counted_again_only_points_of_the_new_year_count():
    points = points_available(("2025-12-20", 100, "2026-01-10"), ("2027-02-01", 40, None))
    changes = list(TierPolicy(EARNED, CALENDAR).changes(points, NOON))
    assert changes == [(datetime(2027, 1, 1, tzinfo=UTC), 40), (datetime(2028, 1, 1, tzinfo=UTC), 0)]


def test_waiting_points_of_an_ended_year_change_nothing_before_they_are_available():
    points = points_available(("2025-12-20", 100, "2026-04-01"), ("2026-01-02", 80, None))
    changes = list(TierPolicy(EARNED, CALENDAR).changes(points, NOON))
    assert changes == [(datetime(2027, 1, 1, tzinfo=UTC), 0)]


def test_earnings_are_read_from_the_beginning_of_the_period_on():
    assert TierPolicy(EARNED, CALENDAR, start_month=4).earliest_counting_moment(NOON) == datetime(
        2025, 4, 1, tzinfo=UTC
    )
    assert TierPolicy(EARNED, CALENDAR).earliest_counting_moment(NOON) == datetime(2026, 1, 1, tzinfo=UTC)
    # A year and one more day before NOON, because a zone may have skipped a day.
    assert YEAR.earliest_counting_moment(NOON) == datetime(2025, 3, 3, 12, tzinfo=UTC)


def test_no_earnings_are_overlooked_if_a_zone_skipped_a_day():
    """In Samoa 29 December 2011 was followed by 31 December."""
    monthly_policy = TierPolicy(EARNED, ROLLING, months=1, zone=ZoneInfo("Pacific/Apia"))
    first_moment_of_the_31st = datetime(2011, 12, 30, 10, tzinfo=UTC)
    end_of_30_january = datetime(2012, 1, 30, 9, 59, tzinfo=UTC)
    points = TierPoints(earnings=(Earning(first_moment_of_the_31st, Decimal(5)),))
    assert monthly_policy.counted_points(points, end_of_30_january) == 5
    assert monthly_policy.earliest_counting_moment(end_of_30_january) <= first_moment_of_the_31st


moments = st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC))
histories = st.lists(st.tuples(moments, st.integers(1, 150), st.integers(0, 4)), max_size=12)
policies = st.one_of(
    st.builds(
        lambda months, zone: TierPolicy(EARNED, ROLLING, months=months, zone=ZoneInfo(zone)),
        st.integers(1, 24),
        st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]),
    ),
    st.builds(
        lambda month, zone: TierPolicy(EARNED, CALENDAR, start_month=month, zone=ZoneInfo(zone)),
        st.integers(1, 12),
        st.sampled_from(["UTC", "America/New_York", "Asia/Kathmandu"]),
    ),
)


def counts_by_hand(policy, moment, at):
    """True if points that were earned at a moment count: a second implementation."""
    if policy.period == ROLLING:
        return add_months(moment, policy.months, policy.zone) > at
    earned_at, now = moment.astimezone(policy.zone), at.astimezone(policy.zone)
    year_of_points, current_year = (
        local_time.year - 1 if local_time.month < policy.start_month else local_time.year
        for local_time in (earned_at, now)
    )
    return year_of_points == current_year


def points_of(history):
    """The points of mints: each has a moment, an amount, and the number of its quarters that were reverted later."""
    earnings = [Earning(moment, Decimal(n)) for moment, n, _ in history]
    earnings += [
        Earning(moment, Decimal(-n) * reverted_quarters / 4)
        for moment, n, reverted_quarters in history
        if reverted_quarters
    ]
    return TierPoints(Decimal(0), sum((earning.amount for earning in earnings), Decimal(0)), tuple(earnings))


@given(policies, histories, moments)
def test_the_counted_points_equal_the_sum_by_hand(policy, history, at):
    sum_by_hand = sum(
        (
            Decimal(n) * (4 - reverted_quarters) / 4
            for moment, n, reverted_quarters in history
            if counts_by_hand(policy, moment, at)
        ),
        Decimal(0),
    )
    assert policy.counted_points(points_of(history), at) == sum_by_hand


@given(policies, histories, moments)
def test_points_that_were_earned_before_the_earliest_moment_do_not_count(policy, history, at):
    points, earliest = points_of(history), policy.earliest_counting_moment(at)
    later_points = TierPoints(earnings=tuple(earning for earning in points.earnings if earning.moment >= earliest))
    assert policy.counted_points(points, at) == policy.counted_points(later_points, at)


@given(policies, histories, moments, st.lists(st.integers(0, 500), max_size=6))
def test_a_tier_changes_exactly_when_it_expires(policy, history, at, days):
    program, points = schedule(policy), points_of(history)
    tier = program.held_tier_of(lambda _: points, at)
    for day in sorted(days):
        later_moment = at + timedelta(days=day)
        later_tier_id = program.tier_of(lambda _: points, later_moment)
        if tier.expires_at is None or later_moment < tier.expires_at:
            assert later_tier_id == tier.loyalty_tier_id
        if tier.expires_at == later_moment:
            assert later_tier_id != tier.loyalty_tier_id
    if tier.expires_at is not None:
        assert program.tier_of(lambda _: points, tier.expires_at) != tier.loyalty_tier_id


@given(policies, st.lists(st.tuples(histories, st.integers(0, 200)), min_size=1, max_size=4))
def test_a_tier_that_is_updated_step_by_step_equals_the_tier_of_all_points_at_the_moment(policy, batches):
    program, held_tiers, at, history = schedule(policy), {}, datetime(2025, 6, 1, tzinfo=UTC), []
    for new_history, days in batches:
        at, history = at + timedelta(days=days), history + new_history
        points = points_of(history)
        assignments = TierAssignments((program,), held_tiers, at)
        assignments.move_by_points(MEMBER, {ACCOUNT} if new_history else (), lambda _, points=points: points)
        held_tiers = {
            **held_tiers,
            **{place: tier for place, tier in assignments.changed_tiers.items() if tier is not None},
        }
        if (MEMBER, PROGRAM) in held_tiers:
            assert assignments.tier_ids(MEMBER, lambda _, points=points: points) == [
                program.tier_of(lambda _, points=points: points, at)
            ]


def test_a_member_moves_when_points_leave_the_period():
    program = schedule(YEAR)
    # 210 points are enough for Gold until the 120 of 2025 leave the period; 90 are not enough for Silver.
    points = points_earned(("2025-06-01", 120), ("2026-01-01", 90))
    assignments = TierAssignments((program,), {(MEMBER, PROGRAM): HeldTier(BASIC)}, NOON)
    [move] = assignments.move_by_points(MEMBER, {ACCOUNT}, lambda _: points)
    until = datetime(2026, 6, 1, tzinfo=UTC)
    assert move.tier == HeldTier(GOLD, expires_at=until)
    later_assignments = TierAssignments((program,), dict(assignments.changed_tiers), until)
    [move] = later_assignments.move_by_points(MEMBER, (), lambda _: points)
    assert (move.tier_id_before, move.tier) == (GOLD, HeldTier(BASIC))


class TestStatus:
    """Basic needs 0 points, Silver 100 and Gold 200."""

    def status(self, policy, member_tier, points, at=NOON):
        """The status that a member with a stored tier sees."""
        return tier_status(schedule(policy), NAMES, member_tier, lambda _: points, at)

    def stored_tier(self, tier_id, expires_at=None, is_manual=False):
        """The stored tier of a member since NOON."""
        return MemberTier(
            organization_id=1,
            member_id=MEMBER,
            loyalty_program_id=PROGRAM,
            loyalty_tier_id=tier_id,
            is_manual=is_manual,
            expires_at=expires_at,
            created_at=NOON,
        )

    def test_a_status_has_the_points_missing_to_the_next_tier(self):
        points = TierPoints(balance=Decimal(3), earned=Decimal(130))
        status = self.status(TierPolicy(EARNED), self.stored_tier(SILVER), points)
        assert (status.tier.name, status.points, status.since) == ("Silver", 130, NOON)
        assert (status.next_tier.name, status.next_tier.missing_points) == ("Gold", 200 - 130)
        assert (status.points_to_keep, status.projected_tier) == (None, None)

    @pytest.mark.parametrize(
        ("tier_id", "is_manual", "floor", "is_deciding"),
        [
            (SILVER, True, None, True),
            (BASIC, True, None, True),
            (SILVER, False, None, False),
            (SILVER, True, SILVER, False),
            (GOLD, True, GOLD, True),
            (BASIC, True, BASIC, True),
        ],
    )
    def test_a_tier_that_was_set_decides_unless_the_points_have_reached_its_floor(
        self, tier_id, is_manual, floor, is_deciding
    ):
        """130 points suffice for Silver."""
        member_tier = replace(self.stored_tier(tier_id, is_manual=is_manual), floor_tier_id=floor)
        assert self.status(TierPolicy(EARNED), member_tier, TierPoints(earned=Decimal(130))).is_manual is is_deciding

    def test_the_higher_of_two_next_tiers_with_equal_points_is_reported(self):
        steps = (TierStep(SILVER, Decimal(100), tier_order=1), TierStep(GOLD, Decimal(100), tier_order=2))
        plan = TierSchedule(
            PROGRAM,
            loyalty_program_key="program-1",
            ledger_account_id=ACCOUNT,
            default_tier_id=None,
            steps=steps,
            moves_members=True,
            policy=TierPolicy(),
        )
        status = tier_status(plan, NAMES, None, lambda _: TierPoints(balance=Decimal(99)), NOON)
        assert (status.next_tier.name, status.next_tier.missing_points) == ("Gold", 100 - 99)
        status_at_the_top = tier_status(plan, NAMES, None, lambda _: TierPoints(balance=Decimal(100)), NOON)
        assert status_at_the_top.next_tier is None

    def test_the_points_to_keep_a_tier_are_0_if_the_points_suffice_for_it(self):
        policy = TierPolicy(EARNED, ROLLING, months=12)
        member_tier = self.stored_tier(SILVER, datetime(2026, 6, 1, tzinfo=UTC))
        for amount, points_to_keep in ((99, 1), (100, 0), (150, 0)):
            status = self.status(policy, member_tier, points_earned(("2026-01-10", amount)))
            assert status.points_to_keep == points_to_keep

    def test_the_highest_tier_has_no_next_one(self):
        assert (
            self.status(TierPolicy(EARNED), self.stored_tier(GOLD), TierPoints(earned=Decimal(900))).next_tier is None
        )

    def test_a_member_set_to_a_tier_sees_the_next_one_above_it(self):
        status = self.status(
            TierPolicy(EARNED), self.stored_tier(SILVER, is_manual=True), TierPoints(earned=Decimal(20))
        )
        assert status.is_manual
        assert (status.next_tier.name, status.next_tier.missing_points) == ("Gold", 200 - 20)

    def test_a_tier_by_points_has_no_hold(self):
        status = self.status(TierPolicy(EARNED), self.stored_tier(SILVER), TierPoints(earned=Decimal(120)))
        assert (status.tier.name, status.is_manual, status.tier_hold, status.since) == ("Silver", False, None, NOON)
        assert (status.points, status.points_to_keep, status.projected_tier) == (120, None, None)

    def test_a_member_without_a_tier_has_a_next_tier(self):
        status = self.status(TierPolicy(EARNED), None, TierPoints(earned=Decimal(20)))
        assert (status.tier, status.is_manual, status.since, status.expires_at) == (None, False, None, None)
        assert (status.next_tier.loyalty_tier_id, status.next_tier.missing_points) == (SILVER, 100 - 20)

    def test_a_status_has_the_points_to_keep_the_tier(self):
        # The 120 points leave the period on 1 June 2026; for Gold, 110 are needed besides the other 90.
        points = points_earned(("2025-06-01", 120), ("2026-01-01", 90))
        status = self.status(YEAR, self.stored_tier(GOLD, datetime(2026, 6, 1, tzinfo=UTC)), points)
        assert (status.points, status.points_to_keep, status.projected_tier.name) == (120 + 90, 200 - 90, "Basic")

    def test_a_new_year_begins_without_points(self):
        policy = TierPolicy(EARNED, CALENDAR)
        points = points_earned(("2026-01-01", 150))
        member_tier = self.stored_tier(SILVER, datetime(2027, 1, 1, tzinfo=UTC))
        status = self.status(policy, member_tier, points)
        assert (status.points, status.points_to_keep, status.projected_tier.name) == (150, 100, "Basic")

    def test_a_tier_that_was_set_until_a_moment_has_points_to_keep(self):
        member_tier = self.stored_tier(GOLD, NOON + timedelta(days=9), is_manual=True)
        status = self.status(TierPolicy(EARNED), member_tier, TierPoints(earned=Decimal(120)))
        assert (status.points_to_keep, status.projected_tier.name) == (200 - 120, "Silver")

    def test_a_member_without_points_has_no_tier(self):
        status = self.status(TierPolicy(EARNED), None, TierPoints())
        assert (status.tier, status.since, status.points, status.next_tier.name) == (None, None, 0, "Silver")


@pytest.mark.parametrize(
    ("policy", "faulty_fields"),
    [
        ({"basis": "balance"}, []),
        ({"basis": "earned", "period": "rolling", "months": 12}, []),
        ({"basis": "earned", "period": "calendar", "startMonth": 4, "timezone": "Europe/Madrid"}, []),
        ({"basis": "balance", "period": "rolling", "months": 12}, ["period"]),
        ({"basis": "earned", "period": "rolling"}, ["months"]),
        ({"basis": "earned", "months": 3}, ["months"]),
        ({"basis": "earned", "startMonth": 3, "timezone": "UTC"}, ["startMonth", "timezone"]),
        ({"basis": "earned", "period": "calendar", "timezone": "Mars/Base"}, ["timezone"]),
    ],
)
def test_contradictory_fields_are_refused(policy, faulty_fields):
    faults = faults_of_policy(complete_tier_policy(policy))
    assert [fault.pointer for fault in faults] == [f"/tierPolicy/{name}" for name in faulty_fields]


@pytest.mark.parametrize(
    ("policy", "months", "start_month"),
    [
        ({"basis": "earned", "period": "calendar"}, None, 1),
        ({"basis": "earned", "period": "calendar", "startMonth": 4}, None, 4),
        ({"basis": "earned", "period": "rolling", "months": 3}, 3, None),
        ({}, None, None),
    ],
)
def test_a_policy_is_completed_by_defaults(policy, months, start_month):
    stored_policy = complete_tier_policy(policy)
    assert (stored_policy["months"], stored_policy["startMonth"]) == (months, start_month)
    basis, period = policy.get("basis", "balance"), policy.get("period", "lifetime")
    assert (stored_policy["basis"], stored_policy["period"]) == (basis, period)
    # Fields that do not matter for the period have a value anyway.
    expected_policy = TierPolicy(basis, period, months=months or 12, start_month=start_month or 1)
    assert TierPolicy.of(stored_policy, UTC) == expected_policy


def test_a_policy_is_read_from_its_stored_form():
    document = {"basis": "earned", "period": "rolling", "months": 3, "startMonth": 4, "timezone": None}
    tokyo = ZoneInfo("Asia/Tokyo")
    assert TierPolicy.of(document, tokyo) == TierPolicy(EARNED, ROLLING, months=3, start_month=4, zone=tokyo)
    document_without_months = {**document, "months": None, "startMonth": None, "timezone": "Europe/Madrid"}
    madrid = ZoneInfo("Europe/Madrid")
    year_in_madrid = TierPolicy(EARNED, ROLLING, months=12, start_month=1, zone=madrid)
    assert TierPolicy.of(document_without_months, tokyo) == year_in_madrid
    assert TierPolicy(EARNED, ROLLING) == TierPolicy(EARNED, ROLLING, months=12, start_month=1, zone=UTC)
    assert TierPolicy(EARNED, ROLLING).has_period
    assert not TierPolicy(EARNED).has_period


@pytest.mark.parametrize(
    ("policy", "details"),
    [
        (
            {"basis": "balance", "period": "calendar"},
            ["period calendar needs the basis earned."],
        ),
        (
            {"basis": "earned", "period": "rolling"},
            ["months is required with period rolling."],
        ),
        (
            {"basis": "earned", "months": 3, "startMonth": 4, "timezone": "UTC"},
            [
                "months can only be sent with period rolling.",
                "startMonth can only be sent with period calendar.",
                "timezone can only be sent with period calendar.",
            ],
        ),
    ],
)
def test_a_contradiction_is_reported_with_the_valid_combination(policy, details):
    defaults = {"period": "lifetime", "months": None, "startMonth": None, "timezone": None}
    assert [fault.detail for fault in faults_of_policy(defaults | policy)] == details
