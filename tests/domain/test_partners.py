"""Rules of payments that partners report, without a database."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest

from domain.members import is_loyalty_member_id
from domain.partners import (
    MemberInfo,
    MemberNotCreated,
    PaymentEffect,
    PaymentIntent,
    key_of,
    merge_missions,
    organization_of,
    payment_effects,
    payment_exists,
    payment_id_of,
)


def test_discounts_of_a_payment_have_the_remaining_total():
    params = [{"id": "type", "value": "percentage"}, {"id": "value", "value": 10}]
    discount = {"effectId": "discount", "discountAmount": 2, "params": params}
    effects = [discount, {"effectId": "mint-points", "params": []}, {**discount, "discountAmount": Decimal("1.80")}]
    total = Decimal(20)
    assert payment_effects(total, effects) == [
        PaymentEffect("discount", discount=Decimal(2), discounted_total=total - Decimal(2), discount_type="percentage"),
        PaymentEffect("mint-points"),
        PaymentEffect(
            "discount",
            discount=Decimal("1.80"),
            discounted_total=total - Decimal(2) - Decimal("1.80"),
            discount_type="percentage",
        ),
    ]


def outcome(mission, *, before, after, is_achieved, times):
    """The outcome of an event for a mission whose goal is 3, as the response reports it."""
    return {
        "missionId": mission,
        "currentCounter": before,
        "newCounter": after,
        "achieved": is_achieved,
        "goal": 3,
        "timesAchieved": times,
    }


def test_several_outcomes_of_one_mission_are_merged():
    achievement = outcome(1, before=2, after=3, is_achieved=True, times=1)
    count_after_achievement = outcome(1, before=0, after=1, is_achieved=False, times=1)
    outcome_of_other_mission = outcome(2, before=0, after=1, is_achieved=False, times=0)
    merged_outcome = outcome(1, before=2, after=1, is_achieved=True, times=1)
    outcomes = [achievement, outcome_of_other_mission, count_after_achievement]
    assert merge_missions(outcomes) == [merged_outcome, outcome_of_other_mission]
    assert merge_missions([]) == []


@pytest.mark.parametrize("secret", ["A" * 43, "-_" + "9" * 41])
def test_a_key_names_its_organization(secret):
    assert organization_of(key_of(organization_id=117, secret=secret)) == 117


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
def test_a_malformed_key_names_no_organization(text):
    assert organization_of(text) is None


@pytest.mark.parametrize(
    ("text", "is_valid"),
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
def test_a_loyalty_member_id_has_1_to_255_characters_and_fits_in_a_path(text, is_valid):
    assert is_loyalty_member_id(text) is is_valid


def intent(**values):
    """A payment intent of the member 30111222 with these values."""
    plain = {"payment_id": "p-1", "total": Decimal("12.50"), "type": "qr", "loyalty_member_id": "30111222"}
    return PaymentIntent(**{**plain, "organization_key": "shop", **values})


def test_a_new_member_has_the_id_of_the_payment_or_of_its_data():
    payment = intent(loyalty_member_id="30111222")
    assert payment.new_member_id == "30111222"
    assert replace(payment, member_info=MemberInfo()).new_member_id == "30111222"
    assert replace(payment, member_info=MemberInfo(loyalty_member_id="ana")).new_member_id == "ana"


def test_a_new_member_with_another_id_than_the_payment_gets_its_id_as_government_id():
    payment = intent(loyalty_member_id="30111222")
    assert payment.new_gov_id is None
    assert replace(payment, member_info=MemberInfo(user_gov_id="77")).new_gov_id == "77"
    ana, ana_with_gov_id = MemberInfo(loyalty_member_id="ana"), MemberInfo("ana", user_gov_id="30111222")
    assert replace(payment, member_info=ana).new_gov_id == "30111222"
    assert replace(payment, member_info=ana_with_gov_id).new_gov_id == "30111222"


def test_a_member_that_the_next_payment_would_not_find_is_not_created():
    ana, ana_with_gov_id = MemberInfo(loyalty_member_id="ana"), MemberInfo("ana", user_gov_id="77")
    with pytest.raises(MemberNotCreated) as caught:
        _ = intent(loyalty_member_id="30111222", member_info=ana_with_gov_id).new_gov_id
    assert str(caught.value) == (
        "The loyaltyMemberId 30111222 of the payment intent is neither the loyaltyMemberId nor the userGovId of "
        "memberInfo."
    )
    assert intent(loyalty_member_id="x" * 100, member_info=ana).new_gov_id == "x" * 100
    with pytest.raises(MemberNotCreated, match="more than 100 characters, the maximum of a userGovId"):
        _ = intent(loyalty_member_id="x" * 101, member_info=ana).new_gov_id


def test_the_payload_has_the_payment_without_personal_data():
    info = MemberInfo("ana", email="ana@shop.example", data={"size": "XL"})
    payment = intent(
        payment_id="p-1",
        total=Decimal("12.50"),
        type="qr",
        reference_id="r",
        merchant_id="m",
        store_id="s",
        raw_qr="q",
        post_payment=True,
        products=({"id": 1},),
    )
    payment_fields = {
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
    assert payment.payload == {"payment": {**payment_fields, "memberInfo": {"data": {}}}}
    payload_with_data = replace(payment, member_info=info).payload
    assert payload_with_data == {"payment": {**payment_fields, "memberInfo": {"data": {"size": "XL"}}}}


def test_the_profile_has_the_fields_of_the_payment():
    info = MemberInfo("ana", "77", email="ana@shop.example", phone="+5411", first_name="Ana", last_name="Costa")
    assert info.profile(gov_id="77") == {
        "name": "Ana",
        "lastName": "Costa",
        "email": "ana@shop.example",
        "phoneNumber": "+5411",
        "govId": {"id": "77"},
    }
    # A first name of blanks is left out, an empty last name is not.
    assert MemberInfo(first_name="  ", last_name="").profile(gov_id=None) == {"lastName": ""}


def test_the_id_of_a_payment_is_read_from_its_confirmation():
    confirmed_event = {"payload": {"payment": {"paymentId": "p-1"}}}
    assert payment_id_of(SimpleNamespace(event_type="member-payment-confirmed", **confirmed_event)) == "p-1"
    assert payment_id_of(SimpleNamespace(event_type="member-payment-confirmed", payload=None)) is None
    assert payment_id_of(SimpleNamespace(event_type="till-opened", **confirmed_event)) is None


def test_the_refusal_of_a_used_payment_id_names_it():
    assert str(payment_exists("p-1")) == "The paymentId p-1 belongs to another transaction."
