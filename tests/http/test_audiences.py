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
FULL = {
    "active": False,
    "name": "Regulars",
    "description": "Who comes often",
    "matcherType": "attribute-matcher",
    "matcher": MATCHER,
    "segmentKey": "crm-7",
    "refreshedAt": "2026-01-02T03:04:05.000006Z",
    "expiresAt": "2026-12-31T00:00:00Z",
    "memberCount": 9007199254740991,
    "externalKey": "regulars",
}
LIST, OUTSIDE = {"matcherType": "list-matcher"}, {"matcherType": "null-matcher"}
LEAST = {
    "active": True,
    "name": None,
    "description": None,
    "segmentKey": None,
    "refreshedAt": None,
    "expiresAt": None,
    "memberCount": None,
    "externalKey": None,
}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def audience(administration):
    def make(**body):
        return administration.post("/audiences", body)["audience"]

    return make


def by(**criteria):
    return {"matcherType": "attribute-matcher", "matcher": criteria}


def stamps(record):
    names = ("organizationId", "audienceId", "audienceKey", "version", "createdAt", "updatedAt")
    return {name: record[name] for name in names}


def test_an_audience_is_stored_with_all_its_fields(organization, administration, audience):
    regulars = audience(**FULL, organizationId=organization.id)
    assert regulars == {**FULL, **stamps(regulars)}
    assert regulars["organizationId"] == organization.id
    assert regulars["audienceKey"] == str(uuid.UUID(regulars["audienceKey"]))
    assert regulars["version"] == 1
    assert regulars["createdAt"] == regulars["updatedAt"]
    assert administration.get(f"/audiences/{regulars['audienceId']}") == {"audience": regulars}


def test_minimal_audiences_have_default_values(audience):
    outside = audience(**OUTSIDE)
    assert outside == {**LEAST, **OUTSIDE, **stamps(outside)}
    listing = audience(**LIST)
    assert listing == {**LEAST, **LIST, **stamps(listing), "memberCount": 0, "refreshedAt": listing["createdAt"]}
    everyone = audience(**by())
    matcher = {"tags": [], "locations": [], "emailDomains": [], "memberTypes": []}
    expected_fields = {
        **LEAST,
        "matcherType": "attribute-matcher",
        "matcher": matcher,
        "refreshedAt": everyone["createdAt"],
    }
    assert everyone == {**expected_fields, **stamps(everyone)}
    attributes = audience(**by(customAttributes={"values": {"a": 1}}))["matcher"]["customAttributes"]
    assert attributes == {"values": {"a": 1}, "notInclude": False}


def test_null_fields_get_their_defaults(audience):
    nulls = {name: None for name, value in LEAST.items() if value is None}
    outside = audience(**OUTSIDE, **nulls)
    assert outside == {**LEAST, **OUTSIDE, **stamps(outside)}


def test_an_update_changes_only_the_fields_it_sends_and_makes_a_version(administration, audience):
    regulars = audience(**FULL)
    path = f"/audiences/{regulars['audienceId']}"
    updated_regulars = administration.put(path, by(tags=["a"]))["audience"]
    matcher = {"tags": ["a"], "locations": [], "emailDomains": [], "memberTypes": []}
    assert updated_regulars == {
        **regulars,
        "matcher": matcher,
        "version": 2,
        "refreshedAt": updated_regulars["updatedAt"],
        "updatedAt": updated_regulars["updatedAt"],
    }
    assert updated_regulars["updatedAt"] > regulars["updatedAt"]
    again = administration.put(path, FULL)["audience"]
    assert again == {**FULL, **stamps(regulars), "version": 3, "updatedAt": again["updatedAt"]}
    assert administration.get(path)["audience"] == again


def test_the_matcher_type_cannot_change(administration, audience):
    bodies = (FULL, LIST, OUTSIDE)
    for existing_audience, body in ((audience(**body), body) for body in bodies):
        for other in bodies:
            if other["matcherType"] != body["matcherType"]:
                problem = administration.put(f"/audiences/{existing_audience['audienceId']}", other, expect=409)
                assert problem["type"] == "/problems/matcher-type-fixed"
        assert administration.get(f"/audiences/{existing_audience['audienceId']}")["audience"] == existing_audience


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/matcherType"),
        ({**LIST, "matcherType": "sql-matcher"}, "/matcherType"),
        ({"matcherType": "attribute-matcher"}, "/matcher"),
        ({**LIST, "matcher": {"tags": ["a"]}}, "/matcher"),
        ({**OUTSIDE, "matcher": {}}, "/matcher"),
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
        (by(colours=["red"]), "/matcher/colours"),
        (by(tags="a"), "/matcher/tags"),
        (by(tags=[""]), "/matcher/tags/0"),
        (by(locations=[1]), "/matcher/locations/0"),
        (by(memberTypes=[None]), "/matcher/memberTypes/0"),
        (by(emailDomains=["a@example.com"]), "/matcher/emailDomains/0"),
        (by(customAttributes={}), "/matcher/customAttributes/values"),
        (by(customAttributes={"values": {}}), "/matcher/customAttributes/values"),
        (by(customAttributes={"values": {"a": 1}, "notInclude": 1}), "/matcher/customAttributes/notInclude"),
        (by(customAttributes={"values": {"a": None}}), "/matcher/customAttributes/values/a"),
        (by(customAttributes={"values": {"a/b": {"c": 1}}}), "/matcher/customAttributes/values/a~1b"),
        (by(customAttributes={"values": {"a": []}}), "/matcher/customAttributes/values/a"),
    ],
)
def test_an_invalid_audience_is_refused_with_a_pointer_to_the_fault(administration, audience, body, pointer):
    existing_audience = audience(**(FULL if body.get("matcherType") == "attribute-matcher" else LIST))
    problems = [administration.post("/audiences", body, expect=400)]
    if body.keys() - {"matcherType"} and (
        existing_audience["matcherType"] == body["matcherType"] or pointer != "/matcher"
    ):
        problems.append(administration.put(f"/audiences/{existing_audience['audienceId']}", body, expect=400))
    for problem in problems:
        assert problem["type"] == "/problems/invalid-request"
        assert {fault["pointer"] for fault in problem["errors"]} == {pointer}


def test_audiences_and_members_of_another_organization_are_not_found(shop, other_organization, audience):
    ours = audience(**LIST, name="Ours")
    foreign, member = other_organization.administration, shop.member()
    member_id = shop.organization.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
    path = f"/audiences/{ours['audienceId']}"
    assert foreign.get(path, expect=404)["type"] == "/problems/not-found"
    foreign.put(path, LIST, expect=404)
    foreign.patch(f"{path}/members", {"remove": [1]}, expect=404)
    assert foreign.get("/audiences", search="Ours")["totalCount"] == 0
    assert foreign.get("/audiences", audienceKeys=ours["audienceKey"])["totalCount"] == 0
    theirs = foreign.post("/audiences", LIST)["audience"]
    problem = foreign.patch(f"/audiences/{theirs['audienceId']}/members", {"add": [member_id]}, expect=404)
    assert problem["type"] == "/problems/unknown-member"
    body = {"code": str(uuid.uuid4()), "name": "n", "audienceKeys": [ours["audienceKey"]]}
    assert foreign.post("/campaigns", body, expect=404)["type"] == "/problems/unknown-audience"
    other_organization.integration.get(f"/members/{member}/audiences", expect=404)
    check = f"/members/{member}/audiences/check"
    other_organization.integration.post(check, {"audienceIds": [theirs["audienceId"]]}, expect=404)
    foreign.post("/audiences", by())
    assert shop.integration.get(f"/members/{member}/audiences") == {"audienceKeys": []}


# --- lists of audiences ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many(api):
    administration = api.organization().administration
    rows = [
        {**LIST, "name": "Tasters", "description": "The 100% panel", "expiresAt": "2026-02-01T00:00:00Z"},
        {**OUTSIDE, "name": "Old_timers", "active": False, "memberCount": 5, "refreshedAt": "2020-01-01T00:00:00Z"},
        {**by(), "name": "All", "description": "tasters too", "expiresAt": "2026-01-01T00:00:00Z", "memberCount": 7},
    ]
    return administration, [administration.post("/audiences", row)["audience"] for row in rows]


def names(many, **query):
    return [result["name"] for result in many[0].get("/audiences", **query)["results"]]


def test_audiences_are_listed_newest_first_in_pages(many):
    administration, audiences = many
    assert administration.get("/audiences") == {"totalCount": 3, "page": 0, "limit": 100, "results": audiences[::-1]}
    pages = [administration.get("/audiences", page=page, limit=2) for page in range(3)]
    assert [page["results"] for page in pages] == [audiences[:0:-1], audiences[:1], []]
    assert [page["totalCount"] for page in pages] == [3, 3, 3]


def test_audiences_can_be_filtered(many):
    administration, audiences = many
    assert names(many, matcherType="list-matcher") == ["Tasters"]
    assert names(many, matcherType="null-matcher") == ["Old_timers"]
    assert names(many, active=True) == ["All", "Tasters"]
    assert names(many, active=False) == ["Old_timers"]
    assert names(many, search="TASTER") == ["All", "Tasters"]
    assert names(many, search="0%") == ["Tasters"]
    assert names(many, search="_") == ["Old_timers"]
    assert names(many, search="%") == ["Tasters"]
    assert names(many, search="nobody") == []
    keys = ",".join([audiences[0]["audienceKey"], audiences[1]["audienceKey"].upper(), str(uuid.uuid4())])
    assert names(many, audienceKeys=keys) == ["Old_timers", "Tasters"]
    assert names(many, audienceKeys=keys, active=True, search="panel") == ["Tasters"]
    for query in (
        {"matcherType": "sql-matcher"},
        {"active": "maybe"},
        {"search": ""},
        {"audienceKeys": "x"},
        {"limit": 101},
        {"order": "matcher"},
    ):
        administration.get("/audiences", expect=400, **query)


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
def test_audiences_can_be_ordered(many, order, expected_names):
    assert names(many, order=order) == expected_names


# --- lists of members --------------------------------------------------------------------------------------------


@pytest.fixture
def members(organization):
    return [organization.member() for _ in range(4)]


def ids(members):
    return [member["memberId"] for member in members]


def audiences_of(shop, member):
    return shop.integration.get(f"/members/{member['loyaltyMemberId']}/audiences")["audienceKeys"]


def test_members_are_put_on_a_list_and_taken_off(shop, administration, audience, members):
    listing = audience(**LIST)
    path = f"/audiences/{listing['audienceId']}/members"
    ana, bob, cleo, dan = ids(members)
    filled_listing = administration.patch(path, {"add": [ana, bob, cleo, ana]})["audience"]
    assert filled_listing == {
        **listing,
        "memberCount": 3,
        "version": 2,
        "refreshedAt": filled_listing["updatedAt"],
        "updatedAt": filled_listing["updatedAt"],
    }
    assert filled_listing["updatedAt"] > listing["updatedAt"]
    assert [bool(audiences_of(shop, member)) for member in members] == [True, True, True, False]
    updated_listing = administration.patch(path, {"add": [dan, bob], "remove": [ana, cleo]})["audience"]
    assert (updated_listing["memberCount"], updated_listing["version"]) == (2, 3)
    assert [bool(audiences_of(shop, member)) for member in members] == [False, True, False, True]
    assert administration.get(f"/audiences/{listing['audienceId']}")["audience"] == updated_listing


def test_adding_listed_members_and_removing_unlisted_ones_changes_nothing(administration, audience, members):
    listing = audience(**LIST)
    path = f"/audiences/{listing['audienceId']}/members"
    ana, bob, *_ = ids(members)
    filled_listing = administration.patch(path, {"add": [ana]})["audience"]
    for body in ({"add": [ana]}, {"remove": [bob]}, {"remove": [10**15]}, {"add": [ana], "remove": [bob]}, {}):
        assert administration.patch(path, body)["audience"] == filled_listing


def test_an_update_of_an_audience_keeps_its_list_and_its_count(shop, administration, audience, members):
    listing = audience(**LIST)
    path = f"/audiences/{listing['audienceId']}"
    filled_listing = administration.patch(f"{path}/members", {"add": ids(members)})["audience"]
    body = {**LIST, "name": "Panel", "memberCount": 99, "refreshedAt": "2020-01-01T00:00:00Z"}
    updated_listing = administration.put(path, body)["audience"]
    assert updated_listing == {
        **filled_listing,
        "name": "Panel",
        "version": 3,
        "updatedAt": updated_listing["updatedAt"],
    }
    assert all(audiences_of(shop, member) == [listing["audienceKey"]] for member in members)


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
    listing = audience(**LIST)
    path = f"/audiences/{listing['audienceId']}/members"
    problem = administration.patch(path, {"add": [*ids(members), 10**15]}, expect=404)
    assert problem["type"] == "/problems/unknown-member"
    assert str(10**15) in problem["detail"]
    assert administration.get(f"/audiences/{listing['audienceId']}")["audience"] == listing
    assert audiences_of(shop, members[0]) == []


@pytest.mark.parametrize("body", [OUTSIDE, by(tags=["a"])])
def test_members_can_only_be_added_to_a_list(administration, audience, members, body):
    path = f"/audiences/{audience(**body)['audienceId']}/members"
    problem = administration.patch(path, {"add": ids(members)}, expect=409)
    assert problem["type"] == "/problems/not-a-list-audience"


def test_5000_members_can_be_added_and_removed_in_one_call(shop, administration, audience, members):
    listing = audience(**LIST)
    path = f"/audiences/{listing['audienceId']}/members"
    member_ids = ids(members)
    absent = list(range(10**12, 10**12 + 5000))
    assert administration.patch(path, {"add": member_ids * 1250, "remove": absent})["audience"]["memberCount"] == 4
    assert administration.patch(path, {"remove": [*absent[:4996], *member_ids]})["audience"]["memberCount"] == 0


def test_concurrent_changes_of_a_list_are_all_counted(administration, audience, organization):
    listing = audience(**LIST)
    path = f"/audiences/{listing['audienceId']}/members"
    member_ids = ids([organization.member() for _ in range(8)])
    changes = [{"add": member_ids[start : start + 4]} for start in range(5)] * 2
    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(lambda body: administration.patch(path, body)["audience"]["memberCount"], changes))
    assert max(counts) == 8
    now = administration.get(f"/audiences/{listing['audienceId']}")["audience"]
    assert now["memberCount"] == len(Shop(organization).rows("audience_members")) == 8
    assert now["version"] <= 6


# --- who is in them ----------------------------------------------------------------------------------------------

ANA = {
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
    key = audience(**by(**criteria))["audienceKey"]
    assert audiences_of(shop, shop.organization.member(**ANA)) == ([key] if is_in else [])


def test_attributes_are_those_of_the_moment(shop, audience):
    audience(**by(tags=["vip"]))
    member = shop.organization.member(**ANA)
    assert audiences_of(shop, member)
    shop.integration.patch(f"/members/{member['loyaltyMemberId']}", {"profile": {"tags": []}})
    assert not audiences_of(shop, member)


def moment(seconds):
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_inactive_expired_and_external_audiences_have_no_members(shop, administration, audience):
    member = shop.organization.member(**ANA)
    empty = [
        audience(**by(), active=False),
        audience(**by(), expiresAt=moment(-1)),
        audience(**LIST, active=False),
        audience(**LIST, expiresAt=moment(-1)),
        audience(**OUTSIDE, memberCount=5),
    ]
    lasting = [audience(**by(), expiresAt=moment(3600)), audience(**LIST, expiresAt=moment(3600))]
    for listing in (*empty[2:4], lasting[1]):
        administration.patch(f"/audiences/{listing['audienceId']}/members", {"add": [member["memberId"]]})
    assert audiences_of(shop, member) == [record["audienceKey"] for record in lasting]
    body = {"audienceIds": [record["audienceId"] for record in [*empty, *lasting]]}
    response = shop.integration.post(f"/members/{member['loyaltyMemberId']}/audiences/check", body, expect=200)
    assert response == {"audienceIds": [record["audienceId"] for record in lasting]}
    administration.put(f"/audiences/{empty[0]['audienceId']}", {**by(), "active": True})
    assert audiences_of(shop, member)[0] == empty[0]["audienceKey"]


def test_a_check_returns_the_matching_audience_ids_in_the_requested_order(shop, audience):
    member = shop.organization.member(**ANA)
    everyone, vips, others = (audience(**by(**c))["audienceId"] for c in ({}, {"tags": ["vip"]}, {"tags": ["x"]}))
    path = f"/members/{member['loyaltyMemberId']}/audiences/check"

    def check(*audience_ids):
        return shop.integration.post(path, {"audienceIds": list(audience_ids)}, expect=200)["audienceIds"]

    assert check(vips, others, everyone, vips, 10**15) == [vips, everyone]
    assert check(others) == check() == []
    for body, pointer in (({}, "/audienceIds"), ({"audienceIds": [0]}, "/audienceIds/0"), ({"ids": []}, "/ids")):
        problem = shop.integration.post(path, body, expect=400)
        assert pointer in {fault["pointer"] for fault in problem["errors"]}
    shop.integration.post(path, {"audienceIds": [1] * 1001}, expect=400)
    shop.integration.post("/members/nobody/audiences/check", {"audienceIds": []}, expect=404)
    shop.integration.get("/members/nobody/audiences", expect=404)


# --- in campaigns ------------------------------------------------------------------------------------------------


def test_a_campaign_applies_to_the_members_of_any_of_its_audiences(shop, administration, audience):
    vips, listing = audience(**by(tags=["vip"])), audience(**LIST)
    vip, listed, neither = (shop.organization.member(**body) for body in (ANA, {}, {}))
    administration.patch(f"/audiences/{listing['audienceId']}/members", {"add": [listed["memberId"]]})
    keys = [vips["audienceKey"], listing["audienceKey"].upper()]
    campaign = shop.campaign(running(mint(5)), audienceKeys=keys)
    assert campaign["audienceKeys"] == [vips["audienceKey"], listing["audienceKey"]]
    results = shop.track(*(event(member["loyaltyMemberId"]) for member in (vip, listed, neither, vip)))
    assert [len(result["effects"]) for result in results] == [1, 1, 0, 1]
    assert [shop.balance(member["loyaltyMemberId"]) for member in (vip, listed, neither)] == [10, 5, 0]
    [explanation] = shop.track(event(neither["loyaltyMemberId"]), executionMode="dryRun")[0]["explain"]
    assert (explanation["applied"], explanation["reason"]["code"]) == (False, "AUDIENCE")


def test_expressions_see_the_audiences_of_the_member(shop, administration, audience):
    vips, listing = audience(**by(tags=["vip"])), audience(**LIST)
    key = listing["audienceKey"]
    shop.campaign(running(mint(("=", "audiences.size()")), rule=f'"{key}" in audiences'), eventType=GENERIC)
    vip, listed = shop.organization.member(**ANA), shop.organization.member()
    path = f"/audiences/{listing['audienceId']}/members"
    administration.patch(path, {"add": [vip["memberId"], listed["memberId"]]})
    shop.track(event(vip["loyaltyMemberId"]), event(listed["loyaltyMemberId"]))
    assert [shop.balance(member["loyaltyMemberId"]) for member in (vip, listed)] == [2, 1]
    administration.put(f"/audiences/{vips['audienceId']}", {**by(tags=["vip"]), "active": False})
    administration.patch(path, {"remove": [listed["memberId"]]})
    shop.track(event(vip["loyaltyMemberId"]), event(listed["loyaltyMemberId"]))
    assert [shop.balance(member["loyaltyMemberId"]) for member in (vip, listed)] == [3, 1]


def test_an_audience_expires_between_two_events(shop, audience):
    lasting, expired = audience(**by(), expiresAt=moment(3600)), audience(**by(), expiresAt=moment(-1))
    member = shop.member()
    shop.campaign(running(mint(5)), audienceKeys=[expired["audienceKey"]])
    assert shop.track_one(event(member))["effects"] == []
    shop.campaign(running(mint(5)), audienceKeys=[lasting["audienceKey"]])
    assert len(shop.track_one(event(member))["effects"]) == 1


def test_a_change_is_seen_by_other_processes_at_their_next_event(shop, administration, audience, monkeypatch):
    vips, listing = audience(**by(tags=["vip"])), audience(**LIST)
    shop.campaign(running(mint(1)), audienceKeys=[vips["audienceKey"]])
    shop.campaign(running(mint(1)), audienceKeys=[listing["audienceKey"]])
    member, theirs = shop.organization.member(**ANA), {}

    def effects_elsewhere():
        with monkeypatch.context() as patched:
            patched.setattr(configuration, "_cache", theirs)
            return len(shop.track_one(event(member["loyaltyMemberId"]))["effects"])

    assert effects_elsewhere() == 1
    assert shop.organization.id in theirs
    administration.patch(f"/audiences/{listing['audienceId']}/members", {"add": [member["memberId"]]})
    assert effects_elsewhere() == 2
    administration.put(f"/audiences/{vips['audienceId']}", by(tags=["other"]))
    assert effects_elsewhere() == 1
    administration.put(f"/audiences/{listing['audienceId']}", {**LIST, "active": False})
    assert effects_elsewhere() == 0
