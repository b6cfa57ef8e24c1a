"""Settings of ledger accounts: implied ones, contradictory ones, and ones that are fixed once points have moved."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from domain.ledger.expiry import ExpiryCalendar, IdlePolicy
from domain.ledger.postings import Holding
from domain.ledger.records import (
    LedgerAccountInUse,
    changes_idle_policy,
    complete_settings,
    fraction_fault,
    refuse_changes_in_use,
)
from domain.problems import InvalidRequest
from tests.builders.campaigns import account

# An account whose points do not expire.
PLAIN = {
    "decimals": 2,
    "is_revolving": True,
    "expires_in_months": None,
    "expiration_policies": (),
    "expiry_rounding": "none",
    "timezone": None,
    "tier_expirations": (),
    "overdraft_limit": None,
}
MARCH = datetime(2026, 3, 1, tzinfo=UTC)
IDLE = {"expirationType": "lastTransaction", "period": 6}


def pointers(**settings):
    """The pointers of the faults for which the settings of an account are refused."""
    with pytest.raises(InvalidRequest) as caught:
        complete_settings(PLAIN | settings)
    return [fault.pointer for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("settings", "current_account", "is_tracked"),
    [
        ({}, None, False),
        ({"point_tracking_enabled": None}, None, False),
        ({"point_tracking_enabled": True}, None, True),
        ({"point_tracking_enabled": False}, account(point_tracking_enabled=True), False),
        ({"expires_in_months": 12}, None, True),
        ({"expires_in_months": 0}, None, True),
        ({"tier_expirations": ({"loyaltyTierKey": "gold", "months": 12},)}, None, True),
        ({"expiration_policies": (IDLE,)}, None, True),
        ({}, account(point_tracking_enabled=True), True),
        ({}, account(point_tracking_enabled=False), False),
    ],
)
def test_points_are_tracked_if_requested_or_if_they_expire_or_if_they_were_tracked_before(
    settings, current_account, is_tracked
):
    assert complete_settings(PLAIN | settings, current_account)["point_tracking_enabled"] is is_tracked


def test_an_account_whose_points_expire_cannot_stop_tracking():
    assert pointers(point_tracking_enabled=False, expires_in_months=12) == ["/pointTrackingEnabled"]
    assert pointers(point_tracking_enabled=False, expiration_policies=(IDLE,)) == ["/pointTrackingEnabled"]


def test_rounding_needs_an_expiry_that_it_rounds():
    for rounding in ("month", "quarter", "year"):
        assert pointers(expiry_rounding=rounding, expiration_policies=(IDLE,)) == ["/expiryRounding"]
    complete_settings(PLAIN | {"expiry_rounding": "month", "expires_in_months": 1})
    complete_settings(
        PLAIN | {"expiry_rounding": "month", "tier_expirations": ({"loyaltyTierKey": "gold", "months": 1},)}
    )


def test_a_tier_that_has_two_expirations_is_refused():
    gold, silver = ({"loyaltyTierKey": key, "months": 1} for key in ("gold", "silver"))
    assert pointers(tier_expirations=(gold, silver, gold)) == ["/tierExpirations/2/loyaltyTierKey"]


def test_an_unknown_time_zone_is_refused():
    assert pointers(timezone="Europe/Atlantis") == ["/timezone"]
    complete_settings(PLAIN | {"timezone": "Europe/Madrid"})


@pytest.mark.parametrize(
    ("requested", "current_account", "is_default"),
    # The account 1 is the default account of its ledger, and the account 2 is not.
    [(None, None, False), (True, None, True), (None, account(1), True), (None, account(2), False)],
)
def test_an_account_is_the_default_if_requested_or_if_it_was_before(requested, current_account, is_default):
    settings = complete_settings(PLAIN | {"is_default_account": requested}, current_account)
    assert bool(settings["is_default_account"]) is is_default


def test_a_setting_of_the_request_is_kept():
    assert complete_settings(PLAIN | {"max_supply": Decimal("5.25")})["max_supply"] == Decimal("5.25")


def test_an_account_that_is_not_revolving_has_no_overdraft():
    assert pointers(is_revolving=False, overdraft_limit=Decimal(1)) == ["/overdraftLimit"]
    for limit in (-1, 0):
        complete_settings(PLAIN | {"is_revolving": False, "overdraft_limit": Decimal(limit)})
    complete_settings(PLAIN | {"is_revolving": True, "overdraft_limit": Decimal(1)})


def test_limits_have_no_more_fraction_digits_than_amounts():
    # The amounts have two.
    assert pointers(max_supply=Decimal("5.125"), overdraft_limit=Decimal("0.001")) == ["/maxSupply", "/overdraftLimit"]
    assert pointers(max_balance=Decimal("0.001")) == ["/maxBalance"]
    assert fraction_fault("amount", None, decimals=0) is None
    assert fraction_fault("amount", Decimal("5.00"), decimals=0) is None
    fault = fraction_fault("amount", Decimal("5.5"), decimals=0)
    assert (fault.pointer, fault.detail) == (
        "/amount",
        "amount has more than the 0 fraction digits of this account.",
    )


def test_all_contradictions_are_refused_together():
    # The overdraft limit has two faults: the account is not revolving, and the limit has too many digits.
    assert pointers(
        point_tracking_enabled=False,
        expires_in_months=1,
        is_revolving=False,
        overdraft_limit=Decimal("0.001"),
    ) == ["/pointTrackingEnabled", "/overdraftLimit", "/overdraftLimit"]


@pytest.mark.parametrize(
    ("changes", "fixed_fields"),
    [
        ({"decimals": 3}, "decimals"),
        ({"is_revolving": False}, "isRevolving"),
        ({"point_tracking_enabled": False}, "pointTrackingEnabled"),
        ({"decimals": 3, "is_revolving": False}, "decimals, isRevolving"),
    ],
)
def test_settings_that_give_stored_amounts_their_meaning_cannot_change(changes, fixed_fields):
    current = account(decimals=2, point_tracking_enabled=True)
    settings = PLAIN | {"point_tracking_enabled": True}
    with pytest.raises(LedgerAccountInUse) as caught:
        refuse_changes_in_use(current, settings | changes)
    assert str(caught.value) == f"{fixed_fields} cannot be changed, because the ledger account has transactions."


def test_an_account_in_use_may_start_to_track_points():
    settings = PLAIN | {"point_tracking_enabled": True}
    refuse_changes_in_use(account(decimals=2, point_tracking_enabled=True), settings)
    refuse_changes_in_use(account(decimals=2, point_tracking_enabled=False), settings)


def test_an_account_has_an_idle_policy_only_if_a_policy_is_about_its_last_transaction():
    assert account().idle_policy(UTC) is None
    fixed_policy = {"expirationType": "fixed", "period": 3}
    assert account(expiration_policies=(fixed_policy, IDLE)).idle_policy(UTC) == IdlePolicy(
        ExpiryCalendar(UTC, year_start_month=1), months=6
    )
    assert account(expiration_policies=(fixed_policy,)).idle_policy(UTC) is None


@pytest.mark.parametrize(
    ("changes", "is_changed"),
    [
        ({}, False),
        ({"name": "Other points"}, False),
        ({"expiration_policies": (IDLE | {"period": 7},)}, True),
        ({"expiration_policies": ()}, True),
        ({"timezone": "Europe/Madrid"}, True),
        ({"expiry_year_start_month": 4}, True),
    ],
)
def test_settings_that_decide_when_a_whole_balance_expires_change_the_idle_policy(changes, is_changed):
    # Stored policies are read as a list.
    current = account(expiration_policies=[IDLE])
    plain = PLAIN | {"expiration_policies": (IDLE,), "expiry_year_start_month": 1}
    settings = complete_settings(plain) | changes
    assert changes_idle_policy(current, settings) is is_changed


def test_a_policy_about_inactivity_has_default_activities_and_no_rounding():
    policy = {"expirationType": "inactivity", "period": 12}
    [stored_policy] = complete_settings(PLAIN | {"expiration_policies": (policy,)})["expiration_policies"]
    assert stored_policy == policy | {"activities": ["earn", "spend"], "rounding": "none"}
    idle_policy = account(expiration_policies=(stored_policy,), timezone="Europe/Madrid").idle_policy(UTC)
    assert idle_policy == IdlePolicy(
        ExpiryCalendar(ZoneInfo("Europe/Madrid"), year_start_month=1),
        months=12,
        rounding="none",
        activities=frozenset({"earn", "spend"}),
    )
    [unchanged] = complete_settings(PLAIN | {"expiration_policies": (IDLE,)})["expiration_policies"]
    assert unchanged == IDLE


@pytest.mark.parametrize(
    ("activities", "last_activity", "end_month"),
    [
        # A policy about the last transaction ends six months after January, whatever the activities.
        (None, MARCH, 7),
        (None, None, 7),
        (("earn",), MARCH, 9),
        # Before the first activity, transactions count.
        (("earn",), None, 7),
    ],
)
def test_an_idle_balance_ends_after_the_last_activity_or_transaction(activities, last_activity, end_month):
    """The last transaction was in January, and the period is six months."""
    policy = {"expirationType": "inactivity", "period": 6, "rounding": "none", "activities": activities}
    ledger_account = account(expiration_policies=(IDLE if activities is None else policy,))
    balance = Holding(last_transaction_date=MARCH.replace(month=1), last_activity_date=last_activity)
    assert ledger_account.end_of_idle_balance(balance, UTC) == MARCH.replace(month=end_month)


def test_a_policy_about_inactivity_keeps_its_activities_and_its_rounding():
    policy = {"expirationType": "inactivity", "period": 6, "activities": ["earn"], "rounding": "month"}
    assert complete_settings(PLAIN | {"expiration_policies": (policy,)})["expiration_policies"] == (policy,)


def test_a_policy_about_the_last_transaction_is_refused_with_activities_or_rounding():
    policy = IDLE | {"activities": ["earn"], "rounding": "month"}
    assert pointers(expiration_policies=(policy,)) == [
        "/expirationPolicies/0/activities",
        "/expirationPolicies/0/rounding",
    ]
