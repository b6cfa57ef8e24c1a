"""The ids that members may have, and reads by ids, over HTTP."""

from __future__ import annotations

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import openapi
from domain.members import is_loyalty_member_id, is_reserved_id
from handlers.messages.validation import SERVER_PATTERN

# Ids with a blank or invisible character at an end, ids with a control character, and ids that no path can contain.
REFUSED = [
    *(f"ana{blank}" for blank in " \u00a0\u2003\u3000\u200b\ufeff"),
    *(f"{blank}ana" for blank in " \u00a0\u200b"),
    *(f"a{control}na" for control in "\t\n\x01\x7f\x85\u2028\u202e"),
    " ",
    "a/b",
    ".",
    "..",
]
ACCEPTED = [
    "ana",
    "a",
    "ana maria",
    "a.b",
    ".a",
    "a.",
    "..a..",
    ". .",
    "Ana\u200dMaria",
    "é ü+%?#&",
    "existss",
    "x" * 255,
]


@pytest.fixture
def integration(organization):
    return organization.integration


@pytest.fixture
def administration(organization):
    return organization.administration


def faults(problem):
    """The pointer and the detail of each fault of a problem."""
    return [(error["pointer"], error["detail"]) for error in problem["errors"]]


@pytest.mark.parametrize("name", REFUSED)
def test_an_id_that_looks_like_another_id_or_fits_in_no_path_is_refused(integration, administration, name):
    member = integration.post("/members", {"loyaltyMemberId": "ben"})["loyaltyMember"]
    for problem in (
        integration.post("/members", {"loyaltyMemberId": name}, expect=400),
        administration.post("/members", {"loyaltyMemberId": name}, expect=400),
        integration.patch("/members/ben", {"loyaltyMemberId": name}, expect=400),
        administration.patch(f"/members/{member['memberId']}", {"loyaltyMemberId": name}, expect=400),
    ):
        [(pointer, detail)] = faults(problem)
        assert pointer == "/loyaltyMemberId"
        assert detail.startswith("loyaltyMemberId begins or ends with a blank")


def test_a_public_id_that_looks_like_another_id_is_refused(integration, administration):
    member = integration.post("/members", {"loyaltyMemberId": "ben"})["loyaltyMember"]
    for name in ("BEAN-7 ", " BEAN-7", "BEAN\n7", "\u200bBEAN", " "):
        for problem in (
            integration.post("/members", {"loyaltyMemberId": "eve", "publicLoyaltyMemberId": name}, expect=400),
            administration.patch(f"/members/{member['memberId']}", {"publicLoyaltyMemberId": name}, expect=400),
        ):
            [(pointer, detail)] = faults(problem)
            assert pointer == "/publicLoyaltyMemberId"
            assert detail.startswith("publicLoyaltyMemberId begins or ends with a blank")
    integration.patch("/members/ben", {"publicLoyaltyMemberId": "BEAN 7/8 ..."})


@pytest.mark.parametrize("name", ["exists", "batch"])
def test_an_id_that_is_the_path_of_an_operation_is_refused(integration, administration, name):
    body = {"loyaltyMemberId": name}
    integration.post("/members", {"loyaltyMemberId": "ben"})
    for problem in (
        integration.post("/members", body, expect=400),
        administration.post("/members", body, expect=400),
        integration.patch("/members/ben", body, expect=400),
    ):
        [(pointer, detail)] = faults(problem)
        assert pointer == "/loyaltyMemberId"
        # The detail names the id as its third word.
        assert detail.split()[2].rstrip(",") == name
    # Upper case differs: this id is none of the paths.
    capital = name.capitalize()
    integration.post("/members", {"loyaltyMemberId": capital})
    assert integration.get(f"/members/{capital}")["loyaltyMember"]["loyaltyMemberId"] == capital


@pytest.mark.parametrize("name", ACCEPTED)
def test_short_and_long_ids_and_ids_with_inner_blanks_dots_or_symbols_are_accepted(integration, name):
    assert integration.post("/members", {"loyaltyMemberId": name})["loyaltyMember"]["loyaltyMemberId"] == name


def test_every_path_segment_next_to_the_id_of_a_member_is_a_reserved_id():
    other_paths = {
        path.split("/")[2] for path in openapi.bundle("integration")["paths"] if path.startswith("/members/")
    } - {"{loyaltyMemberId}"}
    assert other_paths == {"batch", "exists"}
    assert all(is_reserved_id(name) for name in other_paths)


_SCHEMA = openapi.bundle("integration")["components"]["schemas"]["NewLoyaltyMemberId"]
_SERVER_VALIDATOR = jsonschema_rs.Draft202012Validator(
    {name: _SCHEMA[name] for name in ("type", "minLength", "maxLength")} | {"pattern": _SCHEMA[SERVER_PATTERN]},
    pattern_options=jsonschema_rs.RegexOptions(),
)
_CLIENT_VALIDATOR = jsonschema_rs.Draft202012Validator(
    {"type": "string", "pattern": _SCHEMA["pattern"]}, pattern_options=jsonschema_rs.RegexOptions()
)
_ODD_CHARACTERS = st.sampled_from(
    " ./\t\n\x00\x1c\x7f\x85\xa0\u1680\u2003\u200b\u200d\u2028\u202e\u2060\u2066\u3000\ufeffab"
)


@given(st.text(_ODD_CHARACTERS, max_size=6) | st.text(max_size=300))
@example("exists")
@example("x" * 256)
def test_the_schema_and_the_domain_refuse_the_same_ids(text):
    assert is_loyalty_member_id(text) == (_SERVER_VALIDATOR.is_valid(text) and not is_reserved_id(text))
    # The clients' pattern refuses no id that the server accepts.
    assert _CLIENT_VALIDATOR.is_valid(text) or not _SERVER_VALIDATOR.is_valid(text)


def test_impossible_and_unknown_ids_are_reported_as_not_existing(integration, administration):
    ana, ben = (integration.post("/members", {"loyaltyMemberId": name})["loyaltyMember"] for name in ("ana", "ben"))
    unknown_ids = ["", " ana", "ana ", "a/b", "..", "\t", "exists", "x" * 256, "x" * 100_000, "ANA"]
    response = integration.post(
        "/members/exists", {"loyaltyMemberIds": ["ben", *unknown_ids, "ana", "ben"]}, expect=200
    )
    assert [loyalty_member["loyaltyMemberId"] for loyalty_member in response["loyaltyMembers"]] == ["ben", "ana"]
    ids = [ben["memberId"], 0, -5, 2**62, ana["memberId"], 0]
    batch = administration.post("/members/batch-get", {"memberIds": ids}, expect=200)
    assert [member["loyaltyMemberId"] for member in batch["members"]] == ["ben", "ana"]
    assert batch["notFound"] == [0, -5, 2**62]


def test_an_empty_list_of_ids_is_accepted(integration, administration):
    assert integration.post("/members/exists", {"loyaltyMemberIds": []}, expect=200) == {"loyaltyMembers": []}
    assert administration.post("/members/batch-get", {"memberIds": []}, expect=200) == {"members": [], "notFound": []}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/loyaltyMemberIds"),
        ({"loyaltyMemberIds": [7]}, "/loyaltyMemberIds/0"),
        ({"loyaltyMemberIds": ["a\x00"]}, "/loyaltyMemberIds/0"),
    ],
)
def test_a_malformed_list_of_loyalty_member_ids_is_refused(integration, body, pointer):
    problem = integration.post("/members/exists", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_a_list_of_member_ids_has_only_numbers(administration):
    problem = administration.post("/members/batch-get", {"memberIds": ["ana"]}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/memberIds/0"]


def test_names_that_consist_only_of_blanks_are_refused(organization, integration, administration):
    blank = " \t\u00a0"
    for call in (
        lambda: integration.post("/badges", {"name": blank, "maxAmount": 1, "active": True}, expect=400),
        lambda: integration.post(
            "/custom-event-types", {"name": blank, "schemaType": "custom", "apiCode": "x"}, expect=400
        ),
        lambda: integration.post(
            "/coupon-books", {"name": blank, "type": "single", "publishingStatus": "draft"}, expect=400
        ),
        lambda: integration.post("/content/collections", {"name": blank, "description": "x"}, expect=400),
        lambda: administration.post("/ledgers", {"name": blank}, expect=400),
        lambda: administration.post("/campaigns", {"name": blank}, expect=400),
        lambda: administration.post("/audiences", {"name": blank, "matcherType": "list-matcher"}, expect=400),
        lambda: administration.post("/missions", {"name": blank, "goalCount": 1}, expect=400),
        lambda: administration.post("/matchers", {"name": blank}, expect=400),
        lambda: administration.post("/users", {"name": blank}, expect=400),
        lambda: administration.post("/triggers", {"name": blank}, expect=400),
    ):
        assert ("/name", "name consists of blanks only.") in faults(call())
    for name in ("name", "lastName", "nickname"):
        body = {"loyaltyMemberId": "ana", "profile": {name: blank}}
        assert faults(integration.post("/members", body, expect=400)) == [
            (f"/profile/{name}", f"profile.{name} consists of blanks only.")
        ]
    integration.post(
        "/members", {"loyaltyMemberId": "ana", "profile": {"name": "Ana", "lastName": "", "nickname": None}}
    )
