"""Rules of payments that partners report, on values alone."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.members import is_loyalty_member_id
from domain.partners import (
    MemberInfo,
    MemberNotCreated,
    PaymentEffect,
    PaymentIntent,
    discounted,
    joined_missions,
    key_of,
    organization_of,
    payment_exists,
    payment_id_of,
)

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


def intent(**values):
    plain = {"payment_id": "p-1", "total": Decimal("12.50"), "type": "qr", "loyalty_member_id": "30111222"}
    return PaymentIntent(**{**plain, "organization_key": "shop", **values})


def test_a_new_member_has_the_id_of_the_payment_or_of_its_data():
    assert intent().new_member_id == "30111222"
    assert intent(member_info=MemberInfo()).new_member_id == "30111222"
    assert intent(member_info=MemberInfo("ana")).new_member_id == "ana"


def test_the_next_payment_finds_a_new_member_of_another_id_by_the_government_id():
    assert intent().new_gov_id is None
    assert intent(member_info=MemberInfo(user_gov_id="77")).new_gov_id == "77"
    assert intent(member_info=MemberInfo("ana")).new_gov_id == "30111222"
    assert intent(member_info=MemberInfo("ana", "30111222")).new_gov_id == "30111222"


def test_a_member_that_the_next_payment_would_not_find_is_not_created():
    with pytest.raises(MemberNotCreated) as caught:
        _ = intent(member_info=MemberInfo("ana", "77")).new_gov_id
    assert str(caught.value) == "30111222 is neither the loyaltyMemberId nor the userGovId of memberInfo."
    assert intent(loyalty_member_id="x" * 100, member_info=MemberInfo("ana")).new_gov_id == "x" * 100
    with pytest.raises(MemberNotCreated, match="longer than a userGovId can be, 100 characters"):
        _ = intent(loyalty_member_id="x" * 101, member_info=MemberInfo("ana")).new_gov_id


def test_the_payload_has_the_payment_without_personal_data():
    info = MemberInfo("ana", email="ana@shop.example", data={"size": "XL"})
    payment = intent(
        reference_id="r", merchant_id="m", store_id="s", raw_qr="q", post_payment=True, products=({"id": 1},)
    )
    expected = {
        "paymentId": "p-1",
        "referenceId": "r",
        "total": Decimal("12.50"),
        "type": "qr",
        "merchantId": "m",
        "storeId": "s",
        "products": [{"id": 1}],
        "rawQr": "q",
        "postPayment": True,
    }
    assert payment.payload == {"payment": {**expected, "memberInfo": {"data": {}}}}
    with_data = replace(payment, member_info=info).payload
    assert with_data == {"payment": {**expected, "memberInfo": {"data": {"size": "XL"}}}}


def test_the_profile_has_what_is_known():
    info = MemberInfo("ana", "77", "ana@shop.example", "+5411", "Ana", "Costa")
    assert info.profile("77") == {
        "name": "Ana",
        "lastName": "Costa",
        "email": "ana@shop.example",
        "phoneNumber": "+5411",
        "govId": {"id": "77"},
    }
    assert MemberInfo(first_name="  ", last_name="").profile(None) == {"lastName": ""}


def test_a_payment_is_known_by_its_id():
    confirmed = {"payload": {"payment": {"paymentId": "p-1"}}}
    assert payment_id_of(SimpleNamespace(event_type="member-payment-confirmed", **confirmed)) == "p-1"
    assert payment_id_of(SimpleNamespace(event_type="member-payment-confirmed", payload=None)) is None
    assert payment_id_of(SimpleNamespace(event_type="till-opened", **confirmed)) is None
    assert str(payment_exists("p-1")) == "The paymentId p-1 belongs to another transaction."


@pytest.mark.parametrize(
    ("total", "kind", "value", "discount"),
    [
        ("10", "percentage", "12.345", "1.23"),
        ("10", "percentage", "12.35", "1.24"),
        ("10.000", "percentage", "12.345", "1.23"),
        ("10.125", "percentage", "50", "5.063"),
        ("10", "amount", "3.005", "3.01"),
        ("10", "amount", "11", "10"),
        ("10", "amount", "-1", "0"),
    ],
)
def test_a_discount_is_rounded_half_up(total, kind, value, discount):
    [effect] = discounted(Decimal(total), [("discount", {"type": kind, "value": value})])
    assert effect == PaymentEffect("discount", Decimal(discount), Decimal(total) - Decimal(discount), kind)
