"""Rules of payments that partners report, on values alone."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.members import is_loyalty_member_id
from domain.partners import PaymentEffect, discounted, joined_missions, key_of, organization_of

TOTALS = st.decimals(0, 18446744073709, places=4)
DISCOUNTS = st.tuples(st.sampled_from(["percentage", "amount"]), st.decimals(-200, 10**15, places=6))


def as_effects(discounts):
    return [("discount", {"type": kind, "value": value}) for kind, value in discounts]


@given(TOTALS, st.lists(DISCOUNTS, max_size=6))
def test_discounts_take_off_what_they_say_and_never_more_than_there_is(total, discounts):
    told = discounted(total, as_effects(discounts))
    left = total
    for effect, (kind, value) in zip(told, discounts, strict=True):
        asked = left * value / 100 if kind == "percentage" else value
        asked = min(max(asked, Decimal(0)), left)
        assert 0 <= effect.discount <= left
        assert abs(effect.discount - asked) <= Decimal("0.005")
        assert effect.discounted_total == left - effect.discount
        left = effect.discounted_total
    assert sum((effect.discount for effect in told), Decimal(0)) + left == total


def test_other_effects_have_no_discount():
    assert discounted(Decimal(5), [("mint-points", {"amount": 5})]) == [PaymentEffect("mint-points")]


def test_a_whole_percentage_takes_all():
    [effect] = discounted(Decimal("0.001"), as_effects([("percentage", 100)]))
    assert (effect.discount, effect.discounted_total) == (Decimal("0.001"), 0)


def outcome(mission, before, after, achieved, times):
    return {
        "missionId": mission,
        "currentCounter": before,
        "newCounter": after,
        "achieved": achieved,
        "goal": 3,
        "timesAchieved": times,
    }


def test_moves_of_one_mission_become_one():
    moves = [outcome(1, 2, 3, True, 1), outcome(2, 0, 1, False, 0), outcome(1, 0, 1, False, 1)]
    assert joined_missions(moves) == [outcome(1, 2, 1, True, 1), outcome(2, 0, 1, False, 0)]
    assert joined_missions([]) == []


@pytest.mark.parametrize("secret", ["A" * 43, "-_" + "9" * 41])
def test_a_key_names_its_organization(secret):
    assert organization_of(key_of(117, secret)) == 117


@pytest.mark.parametrize(
    "text",
    [
        "",
        "partner_1_",
        "partner_1_" + "A" * 42,
        "partner_1_" + "A" * 44,
        "partner_01_" + "A" * 43,
        "partner_-1_" + "A" * 43,
        "partner_1_" + "A" * 42 + "\n",
        "partner_1_" + "A" * 43 + "\n",
        "partner_" + "9" * 19 + "_" + "A" * 43,
        "partner_١_" + "A" * 43,
        "Partner_1_" + "A" * 43,
    ],
)
def test_what_is_no_key_names_none(text):
    assert organization_of(text) is None


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("ana-7", True),
        ("", False),
        ("...", False),
        ("a/b", False),
        ("a\n", False),
        ("x" * 255, True),
        ("x" * 256, False),
    ],
)
def test_what_a_member_may_be_called(text, may):
    assert is_loyalty_member_id(text) is may
