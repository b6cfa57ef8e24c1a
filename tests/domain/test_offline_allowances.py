"""The status of offline allowances, and what an account allows of them."""

from __future__ import annotations

from datetime import UTC, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest

from domain.ledger.records import PENDING, REVERTED, SETTLED, HoldState
from domain.offline_allowances import (
    OfflineAllowanceClosed,
    OfflineAllowanceDisabled,
    OfflineAllowanceLimit,
    OfflineAllowanceRedeemed,
    complete_policy,
    ends_of,
    refuse_unless_open,
    status_of,
)
from domain.problems import InvalidRequest
from tests.builders.campaigns import NOON, account

# The maximum amount of an allowance is 40 points, it lasts for 48 hours, and is reported within 24 more hours.
POLICY = {"enabled": True, "maxAmount": Decimal(40), "maxHours": 48, "syncHours": 24}
ORGANIZATION = SimpleNamespace(zone=UTC)
ALLOWANCE = SimpleNamespace(held_until=NOON)
MICROSECOND = timedelta(microseconds=1)


def ends(amount=40, valid_for=None, now=NOON, **policy):
    """When a new allowance by POLICY, with changes, ends, and until when its redemption may be reported."""
    return ends_of(account(1, offline_allowance=POLICY | policy), ORGANIZATION, Decimal(amount), valid_for, now)


@pytest.mark.parametrize(
    ("status_of_hold", "is_captured", "end_of_hold", "now", "allowance_status"),
    # The end of the hold and the present are in microseconds from the end of the allowance, which is at NOON.
    [
        (PENDING, False, -5, -1, "open"),
        (PENDING, False, -5, 0, "expired"),
        (SETTLED, True, -1, 5, "redeemed"),
        (REVERTED, True, 5, 5, "redeemed"),
        (REVERTED, False, -1, 5, "cancelled"),
        (REVERTED, False, 0, 5, "expired"),
    ],
)
def test_the_hold_and_the_time_decide_the_status(status_of_hold, is_captured, end_of_hold, now, allowance_status):
    hold = HoldState(
        status=status_of_hold,
        is_captured=is_captured,
        ended_at=NOON + end_of_hold * MICROSECOND,
        amount=Decimal(40),
        fiat_value=None,
        returned=Decimal(0),
        fiat_returned=Decimal(0),
        returned_at=None,
    )
    assert status_of(ALLOWANCE, hold, NOON + now * MICROSECOND) == allowance_status


def test_only_an_open_allowance_can_be_redeemed_or_cancelled():
    refuse_unless_open("open", "k")
    with pytest.raises(OfflineAllowanceRedeemed):
        refuse_unless_open("redeemed", "k")
    for status in ("cancelled", "expired"):
        with pytest.raises(OfflineAllowanceClosed):
            refuse_unless_open(status, "k")


def test_an_allowance_lasts_as_long_as_requested_or_as_the_account_allows():
    assert ends(maxHours=48, syncHours=24) == (NOON + timedelta(hours=48), NOON + timedelta(hours=48 + 24))
    after_an_hour = NOON + timedelta(hours=1)
    assert ends(valid_for="PT1H", syncHours=0) == (after_an_hour, after_an_hour)
    # Tokens have whole seconds, so the fraction of the second is cut off.
    end, _ = ends(valid_for="PT1S", now=NOON.replace(microsecond=999_999))
    assert end == NOON + timedelta(seconds=1)


@pytest.mark.parametrize("valid_for", ["PT0S", "PT48H1S", "P3D", "soon"])
def test_an_allowance_cannot_last_longer_than_the_account_allows(valid_for):
    with pytest.raises(InvalidRequest) as refusal:
        ends(valid_for=valid_for, maxHours=48)
    assert [fault.pointer for fault in refusal.value.faults] == ["/validFor"]


def test_an_amount_of_0_or_above_the_limit_of_the_account_is_refused():
    with pytest.raises(OfflineAllowanceLimit):
        ends(amount=Decimal("40.01"), maxAmount=Decimal(40))
    with pytest.raises(InvalidRequest):
        ends(amount=0)


def test_an_account_allows_no_offline_allowance_by_default():
    with pytest.raises(OfflineAllowanceDisabled):
        ends(enabled=False)
    account_without_policy = account(1, offline_allowance=None)
    with pytest.raises(OfflineAllowanceDisabled):
        ends_of(account_without_policy, ORGANIZATION, amount=Decimal(1), valid_for=None, now=NOON)


def test_a_policy_has_defaults():
    policy = {"enabled": False, "maxAmount": Decimal("1.5")}
    assert complete_policy(policy, decimals=1) == {**policy, "maxHours": 24, "syncHours": 24}
    assert complete_policy(POLICY, decimals=0) == POLICY
    assert complete_policy(None, decimals=0) is None
    # An account of whole points cannot allow 1.5 points.
    with pytest.raises(InvalidRequest) as refusal:
        complete_policy(policy, decimals=0)
    assert [fault.pointer for fault in refusal.value.faults] == ["/offlineAllowance/maxAmount"]
