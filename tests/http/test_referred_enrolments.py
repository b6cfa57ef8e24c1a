"""The referral that the response to an enrolment reports, over HTTP."""

from __future__ import annotations

import pytest

from tests.builders.referrals import Friends
from tests.builders.tracking import GENERIC, Shop


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture(params=["integration", "administration"])
def enrol(shop, request):
    """A function that enrols a member on one surface and returns the referrals of the response."""

    def enrol_on_surface(name, **properties):
        response = getattr(shop, request.param).post("/members", {"loyaltyMemberId": name, **properties})
        member = response["loyaltyMember" if request.param == "integration" else "loyalMember"]
        assert member["loyaltyMemberId"] == name
        return response["referrals"]

    return enrol_on_surface


def test_an_unknown_code_is_reported_as_skipped(shop, enrol):
    friends = Friends(shop, eventType="member-created")
    friends.codes(shop.member(), "BEN")
    # Codes are compared with the case of letters.
    for code in ("NOBODY", "ben"):
        [referral] = enrol(f"by-{code}", referralCode=code)
        assert (referral["code"], referral["status"], referral["rewards"]) == (code, "skipped", [])
        assert (referral["error"]["type"], referral["referralCodeId"]) == ("/problems/unknown-referral-code", None)
        assert shop.integration.get(f"/members/by-{code}")["loyaltyMember"]["referralCode"] == code


def test_a_code_is_reported_as_unknown_if_there_are_no_programs(enrol):
    [referral] = enrol("ana", referralCode="NOBODY")
    assert referral["error"]["type"] == "/problems/unknown-referral-code"


def test_an_applied_code_is_reported_with_its_rewards(shop, enrol):
    friends = Friends(shop, eventType="member-created", referrerPointsAccrual=100, referredPointsAccrual=50)
    ben = shop.member()
    code = friends.code(ben)
    [referral] = enrol("ana", referralCode=code)
    assert (referral["code"], referral["status"], len(referral["rewards"])) == (code, "applied", 2)
    assert (shop.balance(ben), shop.balance("ana")) == (100, 50)


def test_the_response_to_an_enrolment_has_no_referral_if_the_program_is_for_another_event(shop, enrol):
    code = Friends(shop, eventType=GENERIC).code(shop.member())
    assert enrol("ana", referralCode=code) == []


def test_the_response_to_an_enrolment_without_a_code_has_no_referral(shop, enrol):
    Friends(shop, eventType="member-created").code(shop.member())
    assert enrol("ana") == []
    assert enrol("ben", referralCode=None) == []


def test_a_code_that_an_inactive_member_uses_is_reported_as_skipped_with_the_reason(shop, enrol):
    friends, ben = Friends(shop, eventType="member-created"), shop.member()
    code = friends.code(ben)
    [referral] = enrol("ana", referralCode=code, active=False)
    assert (referral["status"], referral["error"]["type"]) == ("skipped", "/problems/member-inactive")
