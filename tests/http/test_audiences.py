"""Audiences over HTTP: their records, lists and members, and their use by campaigns."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from handlers.services import configuration
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, Shop, event, running

MATCHER = {
    "customAttributes": {"values": {"staff": True, "level": [1, Decimal("2.50"), "x"]}, "notInclude": True},
    "tags": ["vip"],
    "locations": ["centre", "harbour"],
    "emailDomains": ["example.com"],
    "memberTypes": ["regular"],
}
# All fields that a request can have.
FULL = {
    "active": False,
    "name": "Regulars",
    "description": "Who comes often",
    "matcherType": "attribute-matcher",
    "matcher": MATCHER,
    "segmentKey": "crm-7",
    "refreshedAt": "2026-01-02T03:04:05.000006Z",
    "expiresAt": "2026-12-31T00:00:00Z",
    "memberCount": 2**53 - 1,
    "externalKey": "regulars",
}
LIST = {"matcherType": "list-matcher"}
# Another system knows the members.
EXTERNAL = {"matcherType": "null-matcher"}
# The fields of a record if the request has only the matcherType.
DEFAULTS = {
    "active": True,
    "name": None,
    "description": None,
    "segmentKey": None,
    "refreshedAt": None,
    "expiresAt": None,
    "memberCount": None,
    "externalKey": None,
}
# No member and no audience has it.
UNKNOWN_ID = 10**15


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def audience(administration):
    """Create an audience; returns its record."""

    def make(**body):
        return administration.post("/audiences", body)["audience"]

    return make


def matching(**criteria):
    """The body of an audience of the members who match all criteria."""
    return {"matcherType": "attribute-matcher", "matcher": criteria}


def generated_fields(record):
    """The fields of the record that the server generates."""
    names = ("organizationId", "audienceId", "audienceKey", "version", "createdAt", "updatedAt")
    return {name: record[name] for name in names}


def test_an_audience_is_stored_with_all_its_fields(organization, administration, audience):
    regulars = audience(**FULL, organizationId=organization.id)
    assert regulars == {**FULL, **generated_fields(regulars)}
    assert regulars["organizationId"] == organization.id
    # The key is a UUID in canonical form.
    assert regulars["audienceKey"] == str(uuid.UUID(regulars["audienceKey"]))
    assert regulars["version"] == 1
    assert regulars["createdAt"] == regulars["updatedAt"]
    assert administration.get(f"/audiences/{regulars['audienceId']}") == {"audience": regulars}


def test_minimal_audiences_have_default_values(audience):
    external = audience(**EXTERNAL)
    assert external == {**DEFAULTS, **EXTERNAL, **generated_fields(external)}
    member_list = audience(**LIST)
    assert member_list == {
        **DEFAULTS,
        **LIST,
        **generated_fields(member_list),
        "memberCount": 0,
        "refreshedAt": member_list["createdAt"],
    }
    everyone = audience(**matching())
    matcher = {"tags": [], "locations": [], "emailDomains": [], "memberTypes": []}
    expected_fields = {
        **DEFAULTS,
        "matcherType": "attribute-matcher",
        "matcher": matcher,
        "refreshedAt": everyone["createdAt"],
    }
    assert everyone == {**expected_fields, **generated_fields(everyone)}
    attributes = audience(**matching(customAttributes={"values": {"a": 1}}))["matcher"]["customAttributes"]
    assert attributes == {"values": {"a": 1}, "notInclude": False}


def test_null_fields_get_their_defaults(audience):
    nulls = {name: None for name, value in DEFAULTS.items() if value is None}
    external = audience(**EXTERNAL, **nulls)
    assert external == {**DEFAULTS, **EXTERNAL, **generated_fields(external)}


def test_an_update_changes_only_the_fields_it_sends_and_increments_the_version(administration, audience):
    regulars = audience(**FULL)
    path = f"/audiences/{regulars['audienceId']}"
    updated_regulars = administration.put(path, matching(tags=["a"]))["audience"]
    matcher = {"tags": ["a"], "locations": [], "emailDomains": [], "memberTypes": []}
    assert updated_regulars == {
        **regulars,
        "matcher": matcher,
        "version": 2,
        "refreshedAt": updated_regulars["updatedAt"],
        "updatedAt": updated_regulars["updatedAt"],
    }
    assert updated_regulars["updatedAt"] > regulars["updatedAt"]
    restored_audience = administration.put(path, FULL)["audience"]
    assert restored_audience == {
        **FULL,
        **generated_fields(regulars),
        "version": 3,
        "updatedAt": restored_audience["updatedAt"],
    }
    assert administration.get(path)["audience"] == restored_audience


def test_the_matcher_type_cannot_change(administration, audience):
    bodies = (FULL, LIST, EXTERNAL)
    for body in bodies:
        existing_audience = audience(**body)
        path = f"/audiences/{existing_audience['audienceId']}"
        for body_of_other_type in bodies:
            if body_of_other_type["matcherType"] != body["matcherType"]:
                problem = administration.put(path, body_of_other_type, expect=409)
                assert problem["type"] == "/problems/matcher-type-fixed"
                # A message about an audience without a name has the key.
                name = existing_audience["name"] or existing_audience["audienceKey"]
                assert problem["detail"].startswith(f"The matcherType of the audience {name} is ")
        assert administration.get(path)["audience"] == existing_audience


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/matcherType"),
        ({**LIST, "matcherType": "sql-matcher"}, "/matcherType"),
        ({"matcherType": "attribute-matcher"}, "/matcher"),
        ({**LIST, "matcher": {"tags": ["a"]}}, "/matcher"),
        ({**EXTERNAL, "matcher": {}}, "/matcher"),
        ({**LIST, "active": None}, "/active"),
        ({**LIST, "active": "yes"}, "/active"),
        ({**LIST, "name": "x" * 256}, "/name"),
        ({**LIST, "description": "x" * 2001}, "/description"),
        ({**LIST, "segmentKey": "x" * 256}, "/segmentKey"),
        ({**LIST, "expiresAt": "soon"}, "/expiresAt"),
        ({**LIST, "refreshedAt": "2026-02-30T00:00:00Z"}, "/refreshedAt"),
        ({**LIST, "memberCount": -1}, "/memberCount"),
        ({**LIST, "memberCount": Decimal("1.5")}, "/memberCount"),
        ({**LIST, "version": 4}, "/version"),
        ({**LIST, "organizationId": 10**9}, "/organizationId"),
        (matching(colours=["red"]), "/matcher/colours"),
        (matching(tags="a"), "/matcher/tags"),
        (matching(tags=[""]), "/matcher/tags/0"),
        (matching(locations=[1]), "/matcher/locations/0"),
        (matching(memberTypes=[None]), "/matcher/memberTypes/0"),
        (matching(emailDomains=["a@example.com"]), "/matcher/emailDomains/0"),
        (matching(customAttributes={}), "/matcher/customAttributes/values"),
        (matching(customAttributes={"values": {}}), "/matcher/customAttributes/values"),
        (matching(customAttributes={"values": {"a": 1}, "notInclude": 1}), "/matcher/customAttributes/notInclude"),
        (matching(customAttributes={"values": {"a": None}}), "/matcher/customAttributes/values/a"),
        (matching(customAttributes={"values": {"a/b": {"c": 1}}}), "/matcher/customAttributes/values/a~1b"),
        (matching(customAttributes={"values": {"a": []}}), "/matcher/customAttributes/values/a"),
    ],
)
def test_an_invalid_audience_is_refused_with_a_pointer_to_the_fault(administration, audience, body, pointer):
    problems = [administration.post("/audiences", body, expect=400)]
    # An update may leave out all fields but the matcherType.
    if body.keys() - {"matcherType"}:
        valid_bodies = {"attribute-matcher": FULL, "list-matcher": LIST, "null-matcher": EXTERNAL}
        existing_audience = audience(**valid_bodies[body["matcherType"]])
        problems.append(administration.put(f"/audiences/{existing_audience['audienceId']}", body, expect=400))
    for problem in problems:
        assert problem["type"] == "/problems/invalid-request"
        assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


def test_audiences_and_members_of_another_organization_are_not_found(shop, other_organization, audience):
    our_audience = audience(**LIST, name="Ours")
    foreign_administration, member = other_organization.administration, shop.member()
    member_id = shop.organization.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    path = f"/audiences/{our_audience['audienceId']}"
    assert foreign_administration.get(path, expect=404)["type"] == "/problems/not-found"
    foreign_administration.put(path, LIST, expect=404)
    foreign_administration.patch(f"{path}/members", {"remove": [1]}, expect=404)
    assert foreign_administration.get("/audiences", search="Ours")["totalCount"] == 0
    assert foreign_administration.get("/audiences", audienceKeys=our_audience["audienceKey"])["totalCount"] == 0
    foreign_audience = foreign_administration.post("/audiences", LIST)["audience"]
    problem = foreign_administration.patch(
        f"/audiences/{foreign_audience['audienceId']}/members", {"add": [member_id]}, expect=404
    )
    assert problem["type"] == "/problems/unknown-member"
    body = {"code": str(uuid.uuid4()), "name": "n", "audienceKeys": [our_audience["audienceKey"]]}
    assert foreign_administration.post("/campaigns", body, expect=404)["type"] == "/problems/unknown-audience"
    other_organization.integration.get(f"/members/{member}/audiences", expect=404)
    check = f"/members/{member}/audiences/check"
    other_organization.integration.post(check, {"audienceIds": [foreign_audience["audienceId"]]}, expect=404)
    foreign_administration.post("/audiences", matching())
    assert shop.integration.get(f"/members/{member}/audiences") == {"audienceKeys": []}


# --- lists of audiences ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three_audiences(api):
    """The administration surface of an organization, and its audiences, oldest first."""
    administration = api.organization().administration
    bodies = [
        {**LIST, "name": "Tasters", "description": "The 100% panel", "expiresAt": "2026-02-01T00:00:00Z"},
        {**EXTERNAL, "name": "Old_timers", "active": False, "memberCount": 5, "refreshedAt": "2020-01-01T00:00:00Z"},
        {
            **matching(),
            "name": "All",
            "description": "tasters too",
            "expiresAt": "2026-01-01T00:00:00Z",
            "memberCount": 7,
        },
    ]
    return administration, [administration.post("/audiences", body)["audience"] for body in bodies]


def names_in_list(three_audiences, **query):
    """The names of the audiences in the list, in its order."""
    return [result["name"] for result in three_audiences[0].get("/audiences", **query)["results"]]


def test_audiences_are_listed_newest_first_in_pages(three_audiences):
    administration, audiences = three_audiences
    newest_first = audiences[::-1]
    assert administration.get("/audiences") == {"totalCount": 3, "page": 0, "limit": 100, "results": newest_first}
    pages = [administration.get("/audiences", page=page, limit=2) for page in range(3)]
    assert [page["results"] for page in pages] == [newest_first[:2], newest_first[2:], []]
    assert [page["totalCount"] for page in pages] == [3, 3, 3]


def test_audiences_can_be_filtered(three_audiences):
    _, audiences = three_audiences
    assert names_in_list(three_audiences, matcherType="list-matcher") == ["Tasters"]
    assert names_in_list(three_audiences, matcherType="null-matcher") == ["Old_timers"]
    assert names_in_list(three_audiences, active=True) == ["All", "Tasters"]
    assert names_in_list(three_audiences, active=False) == ["Old_timers"]
    assert names_in_list(three_audiences, search="TASTER") == ["All", "Tasters"]
    # The wildcards of SQL have no meaning in a search.
    assert names_in_list(three_audiences, search="0%") == ["Tasters"]
    assert names_in_list(three_audiences, search="_") == ["Old_timers"]
    assert names_in_list(three_audiences, search="%") == ["Tasters"]
    assert names_in_list(three_audiences, search="nobody") == []
    keys = ",".join([audiences[0]["audienceKey"], audiences[1]["audienceKey"].upper(), str(uuid.uuid4())])
    assert names_in_list(three_audiences, audienceKeys=keys) == ["Old_timers", "Tasters"]
    assert names_in_list(three_audiences, audienceKeys=keys, active=True, search="panel") == ["Tasters"]


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("matcherType", "sql-matcher"),
        ("active", "maybe"),
        ("search", ""),
        ("audienceKeys", "x"),
        ("limit", 101),
        ("order", "matcher"),
    ],
)
def test_an_invalid_query_of_the_list_of_audiences_is_refused(administration, parameter, value):
    problem = administration.get("/audiences", expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


# A list audience without members has 0 as its memberCount. Missing dates are last.
@pytest.mark.parametrize(
    ("order", "expected_names"),
    [
        ("name", ["All", "Old_timers", "Tasters"]),
        ("name,desc", ["Tasters", "Old_timers", "All"]),
        ("audienceId,asc", ["Tasters", "Old_timers", "All"]),
        ("active", ["Old_timers", "Tasters", "All"]),
        ("matcherType", ["All", "Tasters", "Old_timers"]),
        ("memberCount", ["Tasters", "Old_timers", "All"]),
        ("memberCount,desc", ["All", "Old_timers", "Tasters"]),
        ("expiresAt", ["All", "Tasters", "Old_timers"]),
        ("refreshedAt", ["Old_timers", "Tasters", "All"]),
        ("createdAt,desc", ["All", "Old_timers", "Tasters"]),
        ("updatedAt", ["Tasters", "Old_timers", "All"]),
        ("version,desc", ["All", "Old_timers", "Tasters"]),
    ],
)
def test_audiences_can_be_ordered(three_audiences, order, expected_names):
    assert names_in_list(three_audiences, order=order) == expected_names


# --- lists of members --------------------------------------------------------------------------------------------


@pytest.fixture
def members(organization):
    return [organization.member() for _ in range(4)]


def ids(members):
    return [member["memberId"] for member in members]


def audiences_of(shop, member):
    """The keys of the audiences of the member."""
    return shop.integration.get(f"/members/{member['loyaltyMemberId']}/audiences")["audienceKeys"]


def test_members_are_put_on_a_list_and_taken_off(shop, administration, audience, members):
    member_list = audience(**LIST)
    path = f"/audiences/{member_list['audienceId']}/members"
    ana, bob, cleo, dan = ids(members)
    filled_list = administration.patch(path, {"add": [ana, bob, cleo, ana]})["audience"]
    assert filled_list == {
        **member_list,
        "memberCount": 3,
        "version": 2,
        "refreshedAt": filled_list["updatedAt"],
        "updatedAt": filled_list["updatedAt"],
    }
    assert filled_list["updatedAt"] > member_list["updatedAt"]
    assert [bool(audiences_of(shop, member)) for member in members] == [True, True, True, False]
    updated_list = administration.patch(path, {"add": [dan, bob], "remove": [ana, cleo]})["audience"]
    assert (updated_list["memberCount"], updated_list["version"]) == (2, 3)
    assert [bool(audiences_of(shop, member)) for member in members] == [False, True, False, True]
    assert administration.get(f"/audiences/{member_list['audienceId']}")["audience"] == updated_list


def test_adding_listed_members_and_removing_unlisted_ones_changes_nothing(administration, audience, members):
    member_list = audience(**LIST)
    path = f"/audiences/{member_list['audienceId']}/members"
    ana, bob, *_ = ids(members)
    filled_list = administration.patch(path, {"add": [ana]})["audience"]
    for body in ({"add": [ana]}, {"remove": [bob]}, {"remove": [UNKNOWN_ID]}, {"add": [ana], "remove": [bob]}, {}):
        assert administration.patch(path, body)["audience"] == filled_list


def test_an_update_of_a_list_audience_keeps_its_members_and_their_count(shop, administration, audience, members):
    member_list = audience(**LIST)
    path = f"/audiences/{member_list['audienceId']}"
    filled_list = administration.patch(f"{path}/members", {"add": ids(members)})["audience"]
    body = {**LIST, "name": "Panel", "memberCount": 99, "refreshedAt": "2020-01-01T00:00:00Z"}
    updated_list = administration.put(path, body)["audience"]
    assert updated_list == {
        **filled_list,
        "name": "Panel",
        "version": 3,
        "updatedAt": updated_list["updatedAt"],
    }
    assert all(audiences_of(shop, member) == [member_list["audienceKey"]] for member in members)


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({"add": [0]}, {"/add/0"}),
        ({"add": ["7"]}, {"/add/0"}),
        ({"add": None}, {"/add"}),
        ({"remove": [1] * 5001}, {"/remove"}),
        ({"add": [1] * 5001}, {"/add"}),
        ({"add": [8, 7, 9], "remove": [7, 10, 9]}, {"/remove/0", "/remove/2"}),
        ({"members": [1]}, {"/members"}),
    ],
)
def test_invalid_changes_of_a_list_are_refused_with_pointers_to_the_faults(administration, audience, body, pointers):
    problem = administration.patch(f"/audiences/{audience(**LIST)['audienceId']}/members", body, expect=400)
    assert {fault["pointer"] for fault in problem["errors"]} == pointers


def test_an_unknown_member_is_refused_and_nothing_changes(shop, administration, audience, members):
    member_list = audience(**LIST)
    path = f"/audiences/{member_list['audienceId']}/members"
    problem = administration.patch(path, {"add": [*ids(members), UNKNOWN_ID]}, expect=404)
    assert problem["type"] == "/problems/unknown-member"
    assert str(UNKNOWN_ID) in problem["detail"]
    assert administration.get(f"/audiences/{member_list['audienceId']}")["audience"] == member_list
    assert audiences_of(shop, members[0]) == []


@pytest.mark.parametrize("body", [EXTERNAL, matching(tags=["a"])])
def test_members_can_only_be_added_to_a_list(administration, audience, members, body):
    audience_without_list = audience(**body)
    path = f"/audiences/{audience_without_list['audienceId']}/members"
    problem = administration.patch(path, {"add": ids(members)}, expect=409)
    assert problem["type"] == "/problems/not-a-list-audience"
    assert problem["detail"].startswith(f"The audience {audience_without_list['audienceKey']} is of the type ")


def test_5000_members_can_be_added_and_removed_in_one_call(shop, administration, audience, members):
    member_list = audience(**LIST)
    path = f"/audiences/{member_list['audienceId']}/members"
    member_ids = ids(members)
    unlisted_ids = list(range(10**12, 10**12 + 5000))
    # The ids of four members, each 1250 times.
    filled_list = administration.patch(path, {"add": member_ids * 1250, "remove": unlisted_ids})["audience"]
    assert filled_list["memberCount"] == 4
    emptied_list = administration.patch(path, {"remove": [*unlisted_ids[:4996], *member_ids]})["audience"]
    assert emptied_list["memberCount"] == 0


def test_concurrent_changes_of_a_list_are_all_counted(administration, audience, organization):
    member_list = audience(**LIST)
    path = f"/audiences/{member_list['audienceId']}/members"
    member_ids = ids([organization.member() for _ in range(8)])
    # Each of five changes twice. Together they add all eight members.
    changes = [{"add": member_ids[start : start + 4]} for start in range(5)] * 2
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda body: administration.patch(path, body)["audience"]["memberCount"], changes))
    assert max(counts) == 8
    changed_list = administration.get(f"/audiences/{member_list['audienceId']}")["audience"]
    assert changed_list["memberCount"] == len(Shop(organization).rows("audience_members")) == 8
    # The version of the creation, and one more for each change that adds a member: at least two changes of four
    # members each, at most the five different changes.
    assert 1 + 2 <= changed_list["version"] <= 1 + 5


# --- audiences of members ----------------------------------------------------------------------------------------

# The body of a member.
VIP = {
    "profile": {
        "email": "ana@Example.com",
        "emails": ["ana@work.example"],
        "tags": ["vip"],
        "locations": ["centre"],
        "customAttributes": {"drink": "mocha"},
    },
    "memberType": "regular",
    "customAttributes": {"staff": False, "visits": 3, "sports": ["golf"]},
}


@pytest.mark.parametrize(
    ("criteria", "is_in"),
    [
        ({}, True),
        ({"tags": ["x", "vip"]}, True),
        ({"tags": ["x"]}, False),
        ({"locations": ["centre"]}, True),
        ({"locations": ["harbour"]}, False),
        ({"emailDomains": ["EXAMPLE.com"]}, True),
        ({"emailDomains": ["work.example"]}, True),
        ({"emailDomains": ["mail.example"]}, False),
        ({"memberTypes": ["regular"]}, True),
        ({"memberTypes": ["guest"]}, False),
        ({"customAttributes": {"values": {"visits": Decimal("3.0"), "drink": ["tea", "mocha"]}}}, True),
        ({"customAttributes": {"values": {"visits": 3, "drink": "tea"}}}, False),
        ({"customAttributes": {"values": {"sports": "golf"}}}, True),
        ({"customAttributes": {"values": {"staff": True}, "notInclude": True}}, True),
        ({"customAttributes": {"values": {"staff": False}, "notInclude": True}}, False),
        ({"tags": ["vip"], "memberTypes": ["guest"]}, False),
        ({"tags": ["vip"], "memberTypes": ["regular"], "locations": ["centre"]}, True),
    ],
)
def test_a_member_is_in_an_audience_if_all_criteria_match(shop, audience, criteria, is_in):
    key = audience(**matching(**criteria))["audienceKey"]
    assert audiences_of(shop, shop.organization.member(**VIP)) == ([key] if is_in else [])


def test_members_enter_and_leave_audiences_when_their_attributes_change(shop, audience):
    audience(**matching(tags=["vip"]))
    member = shop.organization.member(**VIP)
    assert audiences_of(shop, member)
    shop.integration.patch(f"/members/{member['loyaltyMemberId']}", {"profile": {"tags": []}})
    assert not audiences_of(shop, member)


def seconds_from_now(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_inactive_expired_and_external_audiences_have_no_members(shop, administration, audience):
    member = shop.organization.member(**VIP)
    inactive_audience = audience(**matching(), active=False)
    expired_audience = audience(**matching(), expiresAt=seconds_from_now(-1))
    inactive_list = audience(**LIST, active=False)
    expired_list = audience(**LIST, expiresAt=seconds_from_now(-1))
    external_audience = audience(**EXTERNAL, memberCount=5)
    lasting_audience = audience(**matching(), expiresAt=seconds_from_now(3600))
    lasting_list = audience(**LIST, expiresAt=seconds_from_now(3600))
    for member_list in (inactive_list, expired_list, lasting_list):
        administration.patch(f"/audiences/{member_list['audienceId']}/members", {"add": [member["memberId"]]})
    empty_audiences = [inactive_audience, expired_audience, inactive_list, expired_list, external_audience]
    lasting_audiences = [lasting_audience, lasting_list]
    assert audiences_of(shop, member) == [record["audienceKey"] for record in lasting_audiences]
    body = {"audienceIds": [record["audienceId"] for record in [*empty_audiences, *lasting_audiences]]}
    response = shop.integration.post(f"/members/{member['loyaltyMemberId']}/audiences/check", body, expect=200)
    assert response == {"audienceIds": [record["audienceId"] for record in lasting_audiences]}
    administration.put(f"/audiences/{inactive_audience['audienceId']}", {**matching(), "active": True})
    assert audiences_of(shop, member)[0] == inactive_audience["audienceKey"]


def test_a_check_returns_the_matching_audience_ids_in_the_requested_order(shop, audience):
    member = shop.organization.member(**VIP)
    everyone_id = audience(**matching())["audienceId"]
    vips_id = audience(**matching(tags=["vip"]))["audienceId"]
    unmatched_id = audience(**matching(tags=["x"]))["audienceId"]
    path = f"/members/{member['loyaltyMemberId']}/audiences/check"

    def check(*audience_ids):
        """The ids that the response to a check of these has."""
        return shop.integration.post(path, {"audienceIds": list(audience_ids)}, expect=200)["audienceIds"]

    assert check(vips_id, unmatched_id, everyone_id, vips_id, UNKNOWN_ID) == [vips_id, everyone_id]
    assert check(unmatched_id) == []
    assert check() == []


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, {"/audienceIds"}),
        ({"audienceIds": [0]}, {"/audienceIds/0"}),
        ({"audienceIds": [1] * 1001}, {"/audienceIds"}),
        ({"ids": []}, {"/audienceIds", "/ids"}),
    ],
)
def test_an_invalid_check_of_audiences_is_refused_with_pointers_to_the_faults(shop, body, pointers):
    problem = shop.integration.post(f"/members/{shop.member()}/audiences/check", body, expect=400)
    assert {fault["pointer"] for fault in problem["errors"]} == pointers


def test_the_audiences_of_an_unknown_member_are_not_found(shop):
    shop.integration.post("/members/nobody/audiences/check", {"audienceIds": []}, expect=404)
    shop.integration.get("/members/nobody/audiences", expect=404)


# --- audiences of campaigns --------------------------------------------------------------------------------------


def test_a_campaign_applies_to_the_members_of_any_of_its_audiences(shop, administration, audience):
    vips, member_list = audience(**matching(tags=["vip"])), audience(**LIST)
    vip, listed_member, other_member = (shop.organization.member(**body) for body in (VIP, {}, {}))
    administration.patch(f"/audiences/{member_list['audienceId']}/members", {"add": [listed_member["memberId"]]})
    keys = [vips["audienceKey"], member_list["audienceKey"].upper()]
    campaign = shop.campaign(running(mint(5)), audienceKeys=keys)
    assert campaign["audienceKeys"] == [vips["audienceKey"], member_list["audienceKey"]]
    results = shop.track(*(event(member["loyaltyMemberId"]) for member in (vip, listed_member, other_member, vip)))
    assert [len(result["effects"]) for result in results] == [1, 1, 0, 1]
    # 5 points for each event; the VIP has two.
    assert [shop.balance(member["loyaltyMemberId"]) for member in (vip, listed_member, other_member)] == [10, 5, 0]
    [explanation] = shop.track(event(other_member["loyaltyMemberId"]), executionMode="dryRun")[0]["explain"]
    assert (explanation["applied"], explanation["reason"]["code"]) == (False, "AUDIENCE")


def test_expressions_see_the_audiences_of_the_member(shop, administration, audience):
    vips, member_list = audience(**matching(tags=["vip"])), audience(**LIST)
    key = member_list["audienceKey"]
    shop.campaign(running(mint(("=", "audiences.size()")), rule=f'"{key}" in audiences'), eventType=GENERIC)
    vip, listed_member = shop.organization.member(**VIP), shop.organization.member()
    path = f"/audiences/{member_list['audienceId']}/members"
    administration.patch(path, {"add": [vip["memberId"], listed_member["memberId"]]})
    shop.track(event(vip["loyaltyMemberId"]), event(listed_member["loyaltyMemberId"]))
    # One point for each audience of the member.
    assert [shop.balance(member["loyaltyMemberId"]) for member in (vip, listed_member)] == [2, 1]
    administration.put(f"/audiences/{vips['audienceId']}", {**matching(tags=["vip"]), "active": False})
    administration.patch(path, {"remove": [listed_member["memberId"]]})
    shop.track(event(vip["loyaltyMemberId"]), event(listed_member["loyaltyMemberId"]))
    # Now the VIP is only on the list, and the other member is in no audience.
    assert [shop.balance(member["loyaltyMemberId"]) for member in (vip, listed_member)] == [2 + 1, 1 + 0]


def test_a_campaign_applies_until_its_audience_expires(shop, audience):
    lasting_audience, expired_audience = (
        audience(**matching(), expiresAt=seconds_from_now(3600)),
        audience(**matching(), expiresAt=seconds_from_now(-1)),
    )
    member = shop.member()
    shop.campaign(running(mint(5)), audienceKeys=[expired_audience["audienceKey"]])
    assert shop.track_one(event(member))["effects"] == []
    shop.campaign(running(mint(5)), audienceKeys=[lasting_audience["audienceKey"]])
    assert len(shop.track_one(event(member))["effects"]) == 1


def test_a_changed_audience_is_seen_by_other_processes_at_their_next_event(shop, administration, audience, monkeypatch):
    vips, member_list = audience(**matching(tags=["vip"])), audience(**LIST)
    shop.campaign(running(mint(1)), audienceKeys=[vips["audienceKey"]])
    shop.campaign(running(mint(1)), audienceKeys=[member_list["audienceKey"]])
    member, cache_of_other_process = shop.organization.member(**VIP), {}

    def effects_elsewhere():
        """The number of effects of an event that a process with its own cache evaluates."""
        with monkeypatch.context() as patch:
            patch.setattr(configuration, "_cache", cache_of_other_process)
            return len(shop.track_one(event(member["loyaltyMemberId"]))["effects"])

    # The campaign of the VIPs.
    assert effects_elsewhere() == 1
    assert shop.organization.id in cache_of_other_process
    administration.patch(f"/audiences/{member_list['audienceId']}/members", {"add": [member["memberId"]]})
    # Both campaigns.
    assert effects_elsewhere() == 2
    administration.put(f"/audiences/{vips['audienceId']}", matching(tags=["other"]))
    # The campaign of the list.
    assert effects_elsewhere() == 1
    administration.put(f"/audiences/{member_list['audienceId']}", {**LIST, "active": False})
    assert effects_elsewhere() == 0
