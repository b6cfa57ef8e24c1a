"""Audiences: which members they have."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.audiences import (
    ATTRIBUTE_MATCHER,
    LIST_MATCHER,
    Audience,
    MatcherTypeFixed,
    check_matcher,
    compile_attribute_matcher,
    compile_audience,
)
from domain.members import Member
from domain.problems import InvalidRequest

NOON = datetime(2026, 3, 4, 12, tzinfo=UTC)
# The criteria of a matcher that every member meets.
NOTHING = {"custom_attributes": None, "tags": [], "locations": [], "email_domains": [], "member_types": []}


def member(profile=None, **values):
    settings = {
        "organization_id": 1,
        "member_id": 7,
        "loyalty_member_id": "ana",
        "public_loyalty_member_id": None,
        "active": True,
        "member_type": None,
        "channel_acquisition": None,
        "referral_code": None,
        "profile": profile or {},
        "custom_attributes": {},
        "notifications": {},
        "on_chain": {},
        "wallet_id": 70,
        "wallet_key": "wallet",
        "created_at": NOON,
        "updated_at": NOON,
    }
    return Member(**{**settings, **values})


def attributes(not_include=False, **values):
    """A criterion on the custom attributes of a member."""
    return {"custom_attributes": {"values": values, "not_include": not_include}}


def matches(who, **criteria):
    """True if the member meets all criteria."""
    return compile_attribute_matcher({**NOTHING, **criteria})(who)


ANA = member(
    {
        "email": "Ana@Example.com",
        "emails": ["ana@work.example", "odd"],
        "tags": ["vip", "barista"],
        "locations": ["centre"],
        "customAttributes": {"drink": "mocha", "shirt": "M", "staff": False},
    },
    member_type="regular",
    custom_attributes={"staff": True, "visits": 3, "ratio": Decimal("0.50"), "sports": ["golf", 9], "none": None},
)


@pytest.mark.parametrize(
    ("criteria", "is_match"),
    # The criteria are about ANA.
    [
        ({}, True),
        ({"tags": ["vip"]}, True),
        ({"tags": ["other", "barista"]}, True),
        ({"tags": ["VIP"]}, False),
        ({"locations": ["centre", "harbour"]}, True),
        ({"locations": ["harbour"]}, False),
        ({"member_types": ["regular"]}, True),
        ({"member_types": ["staff", "guest"]}, False),
        ({"email_domains": ["example.com"]}, True),
        ({"email_domains": ["EXAMPLE.COM"]}, True),
        ({"email_domains": ["work.example"]}, True),
        ({"email_domains": ["example"]}, False),
        ({"tags": ["vip"], "locations": ["centre"], "email_domains": ["example.com"]}, True),
        ({"tags": ["vip"], "locations": ["harbour"]}, False),
        (attributes(visits=3), True),
        (attributes(visits=Decimal("3.0")), True),
        (attributes(visits="3"), False),
        (attributes(visits=[1, 3]), True),
        (attributes(visits=[1, 2]), False),
        (attributes(staff=1), False),
        (attributes(staff=True), True),
        (attributes(staff=False), False),
        (attributes(ratio=Decimal("0.5")), True),
        (attributes(sports="golf"), True),
        (attributes(sports=["chess", 9]), True),
        (attributes(sports="chess"), False),
        (attributes(drink="mocha"), True),
        (attributes(drink="mocha", shirt="M"), True),
        (attributes(none="x"), False),
        (attributes(unheard=True), False),
        (attributes(visits=3, staff=True), True),
        (attributes(visits=3, staff=False), False),
        (attributes(not_include=True, visits=3), False),
        (attributes(not_include=True, visits=4), True),
        (attributes(not_include=True, visits=3, staff=False), True),
        (attributes(not_include=True, unheard=True), True),
        ({**attributes(not_include=True, visits=4), "tags": ["other"]}, False),
        ({**attributes(not_include=True, visits=4), "tags": ["vip"]}, True),
    ],
)
def test_a_member_matches_if_every_named_criterion_is_met(criteria, is_match):
    assert matches(ANA, **criteria) is is_match


def test_a_member_without_data_matches_no_criterion():
    member_without_data = member()
    for name in ("tags", "locations", "member_types", "email_domains"):
        assert not matches(member_without_data, **{name: ["a"]})
    assert not matches(member_without_data, **attributes(a=1))
    assert matches(member_without_data, **attributes(not_include=True, a=1))
    assert matches(member_without_data)


@pytest.mark.parametrize("value", [None, "", "x" * 1001, {}, [], [None], [["a"]], {"a": 1}, ["a"] * 101])
def test_an_invalid_value_of_an_attribute_is_refused_with_its_place(value):
    with pytest.raises(InvalidRequest) as refusal:
        matches(ANA, **attributes(fine=1, **{"a/b~c": value}))
    assert [fault.pointer for fault in refusal.value.faults] == ["/matcher/customAttributes/values/a~1b~0c"]


def test_an_attribute_is_compared_with_at_most_100_values():
    # Ana has 3 visits: the first of these 100 values.
    assert matches(ANA, **attributes(visits=[3, *range(100, 199)]))
    with pytest.raises(InvalidRequest, match="a has a value that is neither a text of 1 to 1000 characters"):
        matches(ANA, **attributes(a=[*range(101)]))


def audience(**values):
    """An audience with the id 5, by default of all members, in compiled form; None if it cannot have members."""
    settings = {
        "organization_id": 1,
        "audience_id": 5,
        "audience_key": "key",
        "active": True,
        "name": None,
        "description": None,
        "matcher_type": "attribute-matcher",
        "matcher": NOTHING,
        "segment_key": None,
        "version": 1,
        "refreshed_at": None,
        "expires_at": None,
        "member_count": None,
        "external_key": None,
        "created_at": NOON,
        "updated_at": NOON,
    }
    return compile_audience(Audience(**{**settings, **values}))


def test_an_audience_expires_at_its_moment():
    endless_audience, ending_audience = audience(), audience(expires_at=NOON)
    assert endless_audience.applies(NOON)
    assert ending_audience.applies(NOON - timedelta(microseconds=1))
    assert not ending_audience.applies(NOON)


def test_inactive_and_external_audiences_are_not_compiled():
    assert audience(active=False) is None
    assert audience(matcher_type="null-matcher", matcher=None) is None
    assert audience(matcher_type="list-matcher", matcher=None, active=False) is None


def test_a_list_audience_has_its_listed_members():
    list_audience = audience(audience_id=5, matcher_type="list-matcher", matcher=None)
    # The second argument has the ids of the audiences that list the member.
    assert list_audience.has(ANA, {4, 5})
    assert not list_audience.has(ANA, {4})
    assert not list_audience.has(ANA, ())
    # Audiences of the type attribute-matcher do not depend on lists.
    assert audience(audience_id=5, matcher=NOTHING).has(ANA, ())
    assert not audience(audience_id=5, matcher={**NOTHING, "tags": ["other"]}).has(ANA, {5})


texts = st.text("ab", min_size=1, max_size=2)
lists = st.lists(texts, max_size=3)
scalars = st.one_of(st.booleans(), st.integers(0, 2), st.decimals(0, 2, places=1), texts)
people = st.builds(
    lambda tags, locations, member_type, custom_attributes, attributes_of_profile: member(
        {"tags": tags, "locations": locations, "customAttributes": attributes_of_profile},
        member_type=member_type,
        custom_attributes=custom_attributes,
    ),
    lists,
    lists,
    st.none() | texts,
    st.dictionaries(texts, st.none() | scalars | st.lists(scalars, max_size=2), max_size=3),
    st.dictionaries(texts, scalars, max_size=3),
)
wanted_attributes = st.dictionaries(texts, scalars | st.lists(scalars, min_size=1, max_size=3), min_size=1, max_size=3)


@given(people, lists, lists, lists, wanted_attributes)
def test_a_matcher_matches_if_all_of_its_criteria_match(who, tags, locations, types, values):
    criteria = [{"tags": tags}, {"locations": locations}, {"member_types": types}, attributes(**values)]
    all_criteria = {name: value for criterion in criteria for name, value in criterion.items()}
    assert matches(who, **all_criteria) is all(matches(who, **criterion) for criterion in criteria)


@given(people, wanted_attributes)
def test_not_include_matches_exactly_the_other_members(who, values):
    has_attributes = matches(who, **attributes(**values))
    assert matches(who, **attributes(not_include=True, **values)) is not has_attributes


@given(people, wanted_attributes)
def test_attributes_match_if_each_of_them_has_one_of_its_wanted_values(who, values):
    has_each_attribute = []
    for name, wanted_value in values.items():
        single_values = wanted_value if isinstance(wanted_value, list) else [wanted_value]
        has_each_attribute.append(any(matches(who, **attributes(**{name: value})) for value in single_values))
    assert matches(who, **attributes(**values)) is all(has_each_attribute)


def test_only_an_audience_of_the_type_attribute_matcher_has_a_matcher():
    check_matcher(ATTRIBUTE_MATCHER, NOTHING)
    check_matcher(LIST_MATCHER, None)
    for matcher_type, matcher in ((ATTRIBUTE_MATCHER, None), (LIST_MATCHER, NOTHING)):
        with pytest.raises(InvalidRequest) as refusal:
            check_matcher(matcher_type, matcher)
        assert [fault.pointer for fault in refusal.value.faults] == ["/matcher"]


def test_the_type_of_the_matcher_cannot_change():
    stored_audience = SimpleNamespace(name_or_key="Regulars", matcher_type=LIST_MATCHER)
    check_matcher(LIST_MATCHER, None, stored_audience)
    with pytest.raises(MatcherTypeFixed, match="Regulars is list-matcher"):
        check_matcher(ATTRIBUTE_MATCHER, NOTHING, stored_audience)
