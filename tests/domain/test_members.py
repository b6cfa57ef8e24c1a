"""Members: changes of profiles, columns of imports, ids, and refusals of erased or inactive members."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from domain.imports.records import MEMBER_COLUMNS, PLACES
from domain.members import (
    Member,
    MemberErased,
    MemberInactive,
    MemberProperties,
    differences,
    is_loyalty_member_id,
    is_reserved_id,
    member_exists,
    merge_fields,
    merge_profile,
    public_id_exists,
    refuse_erased,
    refuse_inactive,
)
from domain.profiles import empty_profile, visible_profile
from domain.tiers import HeldTier, MemberTier, TierFloor

PROFILE = {"name": "Ana", "city": "Rosario", "tags": ["a", "b"], "govId": {"id": "1", "type": "x"}}


@pytest.mark.parametrize(
    ("changes", "merged_profile"),
    # The changes are made to PROFILE.
    [
        ({}, PROFILE),
        ({"city": "Lima"}, {**PROFILE, "city": "Lima"}),
        ({"city": None}, {"name": "Ana", "tags": ["a", "b"], "govId": {"id": "1", "type": "x"}}),
        ({"nickname": None}, PROFILE),
        ({"tags": ["c"]}, {**PROFILE, "tags": ["c"]}),
        ({"tags": []}, {**PROFILE, "tags": []}),
        ({"govId": {"type": "y"}}, {**PROFILE, "govId": {"id": "1", "type": "y"}}),
        ({"govId": {"type": None}}, {**PROFILE, "govId": {"id": "1"}}),
        (
            {"govId": {"id": None, "type": None, "issuingCountry": None}},
            {"name": "Ana", "city": "Rosario", "tags": ["a", "b"]},
        ),
        ({"address": {"floor": "1", "zipCode": None}}, {**PROFILE, "address": {"floor": "1"}}),
        ({"address": {}}, PROFILE),
        ({"customAttributes": {"a": {"b": None}}}, {**PROFILE, "customAttributes": {"a": {"b": None}}}),
    ],
)
def test_a_profile_changes_in_the_fields_that_are_sent(changes, merged_profile):
    assert merge_profile(PROFILE, changes) == merged_profile


def test_a_merge_does_not_change_the_stored_profile():
    merge_profile(PROFILE, {"govId": {"id": "2"}, "city": "Lima"})
    assert PROFILE["govId"] == {"id": "1", "type": "x"}
    assert PROFILE["city"] == "Rosario"


def test_null_removes_a_field():
    assert merge_fields({"email": True, "push": False}, {"push": None, "phone": True}) == {"email": True, "phone": True}


def test_differences_are_named_by_the_path_of_the_field():
    before = {"active": True, "profile": {"city": "Rosario", "govId": {"id": "1"}}, "memberType": None}
    after = {"active": True, "profile": {"city": "Lima", "address": {"floor": "1"}}, "memberType": "staff"}
    assert differences(before, after) == {
        "memberType": {"from": None, "to": "staff"},
        "profile.address": {"from": None, "to": {"floor": "1"}},
        "profile.city": {"from": "Rosario", "to": "Lima"},
        "profile.govId": {"from": {"id": "1"}, "to": None},
    }
    assert differences(before, before) == {}


def test_an_object_with_a_long_name_is_one_changed_value():
    # With the prefix "attributes." the first name has more than 100 characters, and the second one has fewer.
    names = {"a" * 95: {"b": 1}, "c" * 86: {"b": {"d": 1}}}
    changed_names = {"a" * 95: {"b": 2}, "c" * 86: {"b": {"d": 2}}}
    assert differences({"attributes": names}, {"attributes": changed_names}) == {
        f"attributes.{'a' * 95}": {"from": {"b": 1}, "to": {"b": 2}},
        f"attributes.{'c' * 86}.b.d": {"from": 1, "to": 2},
    }


def test_columns_of_imports_follow_from_writable_fields_and_the_profile():
    assert list(MEMBER_COLUMNS)[:7] == [
        "loyaltyMemberId",
        "publicLoyaltyMemberId",
        "active",
        "memberType",
        "channelAcquisition",
        "referralCode",
        "joinedAt",
    ]
    assert PLACES["govIdCountry"] == ("profile", "govId", "issuingCountry")
    assert PLACES["notifyByPush"] == ("notifications", "push")
    assert (MEMBER_COLUMNS["active"], MEMBER_COLUMNS["emails"], MEMBER_COLUMNS["city"]) == (bool, list, str)
    # Custom attributes of the member are the last column; those of the profile have a column with another name.
    assert list(MEMBER_COLUMNS)[-1] == "customAttributes"
    assert PLACES["customAttributes"] == ("customAttributes",)
    assert PLACES["profileAttributes"] == ("profile", "customAttributes")
    assert MEMBER_COLUMNS["profileAttributes"] is dict
    # These are set only by the API, or by columns for their parts.
    assert {"onChain", "profile", "notifications", "address"}.isdisjoint(MEMBER_COLUMNS)
    assert MEMBER_COLUMNS.keys() - PLACES.keys() == {"joinedAt", "tier", "tierExpiresAt", "tierHold"}


def test_expressions_see_the_labelled_fields_of_a_profile():
    profile = visible_profile({"name": "Ana", "tags": ["a"], "pictureUrl": "https://x.example/a.png"})
    assert (profile["name"], profile["tags"]) == ("Ana", ["a"])
    # Fields that the profile lacks are visible, too.
    assert (profile["city"], profile["customAttributes"]) == (None, {})
    assert "pictureUrl" not in profile
    assert (empty_profile()["emails"], empty_profile()["email"]) == ([], None)
    assert "govId" not in empty_profile()


MEMBER = Member(**{**dict.fromkeys(Member.__slots__), "member_id": 7, "loyalty_member_id": "ana", "active": True})


def test_a_new_member_is_active_by_default():
    member = MemberProperties(loyalty_member_id="ana")
    assert (member.active, member.profile, member.on_chain) == (True, {}, {"wallets": []})


def test_an_operation_on_an_erased_member_is_refused():
    refuse_erased(MEMBER)
    with pytest.raises(MemberErased, match=r"The member 7 was erased\."):
        refuse_erased(replace(MEMBER, erased_at=datetime(2026, 3, 4, tzinfo=UTC)))


def test_an_operation_for_active_members_is_refused_for_an_inactive_member():
    refuse_inactive(MEMBER)
    with pytest.raises(MemberInactive, match=r"The member ana is not active\."):
        refuse_inactive(replace(MEMBER, active=False))


def test_the_refusal_of_an_id_that_another_member_has_names_the_id():
    assert str(member_exists("ana")) == "A member with the loyaltyMemberId ana already exists."
    assert str(public_id_exists("A-1")) == "A member with the publicLoyaltyMemberId A-1 already exists."


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("ana", True),
        ("ana maria", True),
        ("a" * 255, True),
        ("a" * 256, False),
        ("", False),
        (" ana", False),
        ("ana ", False),
        ("\u200bana", False),
        ("ana\ufeff", False),
        ("a/b", False),
        ("a\x00b", False),
        ("a\u202eb", False),
        ("..", False),
        ("..a", True),
        ("exists", False),
        ("exists2", True),
    ],
)
def test_an_id_of_a_member_is_printable_and_can_be_a_part_of_a_path(text, is_valid):
    assert is_loyalty_member_id(text) is is_valid


def test_ids_that_equal_the_name_of_an_operation_are_reserved():
    assert is_reserved_id("batch")
    assert is_reserved_id("exists")
    assert not is_reserved_id("ana")


def test_a_stored_tier_has_its_hold():
    until = datetime(2026, 3, 4, tzinfo=UTC)
    member_tier = MemberTier(
        organization_id=1,
        member_id=7,
        loyalty_program_id=2,
        loyalty_tier_id=20,
        is_manual=True,
        expires_at=until,
        created_at=until,
    )
    assert member_tier.held_tier == HeldTier(20, is_manual=True, expires_at=until)
    assert replace(member_tier, floor_tier_id=19).held_tier.floor == TierFloor(19)
    assert replace(member_tier, floor_tier_id=19, floor_expires_at=until).held_tier.floor == TierFloor(19, until)
