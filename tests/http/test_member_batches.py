"""Members enrolled in batches: the results are those of single calls, in a fixed number of statements."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.referrals import Friends
from tests.builders.statements import count
from tests.builders.tracking import Shop, running

PROFILE = {"name": "Ana", "customAttributes": {"cups": 3}}


@pytest.fixture
def shop(organization):
    return Shop(organization)


def enrol(shop, *members, expect=200):
    """Enrol members by one batch; return the response."""
    return shop.integration.post("/members/batch", {"members": list(members)}, expect=expect)


def bodies(*names):
    """The body of a member for each loyaltyMemberId."""
    return [{"loyaltyMemberId": name} for name in names]


def test_the_response_has_a_result_for_each_member_in_the_order_of_the_batch(shop):
    shop.campaign(running(mint(5)), eventType="member-created")
    zoe = {"loyaltyMemberId": "zoe", "profile": PROFILE, "memberType": "regular"}
    response = enrol(shop, zoe, *bodies("ana", "ben"))
    assert (response["created"], response["failed"]) == (3, 0)
    assert [(result["loyaltyMemberId"], result["status"], result["referrals"]) for result in response["results"]] == [
        ("zoe", "created", []),
        ("ana", "created", []),
        ("ben", "created", []),
    ]
    members = [result["loyaltyMember"] for result in response["results"]]
    assert sorted(members, key=lambda member: member["memberId"]) == members
    assert [member["ledgerBalances"][0]["balance"] for member in members] == [5, 5, 5]
    for member in members:
        assert shop.integration.get(f"/members/{member['loyaltyMemberId']}")["loyaltyMember"] == member
    assert [row.event_type for row in shop.rows("events", "event_type")] == ["member-created"] * 3
    shop.check_ledger()


def test_a_batch_enrols_members_like_single_calls(shop):
    shop.campaign(running(mint(5)), eventType="member-created")
    body = {"profile": PROFILE, "active": False, "notifications": {"email": True}, "customAttributes": {"a": 1.50}}
    single_member = shop.integration.post("/members", {"loyaltyMemberId": "single", **body})["loyaltyMember"]
    batch_member = enrol(shop, {"loyaltyMemberId": "batched", **body})["results"][0]["loyaltyMember"]
    unique_fields = {"memberId", "loyaltyMemberId", "ledgerWalletId", "ledgerWalletKey", "createdAt", "updatedAt"}

    def shared_fields(member):
        """The fields that do not depend on when and under which ids the member was enrolled."""
        fields = {name: value for name, value in member.items() if name not in unique_fields}
        balances = [{**balance, "walletId": None} for balance in fields["ledgerBalances"]]
        statuses = [{**status, "since": None} for status in fields["tierStatus"]]
        return {**fields, "ledgerBalances": balances, "tierStatus": statuses}

    assert shared_fields(single_member) == shared_fields(batch_member)


def test_members_whose_ids_are_in_use_are_refused_individually(shop):
    shop.member(loyaltyMemberId="ana", publicLoyaltyMemberId="A-1")
    response = enrol(
        shop,
        *bodies("ana"),
        {"loyaltyMemberId": "ben", "publicLoyaltyMemberId": "A-1"},
        {"loyaltyMemberId": "ben", "publicLoyaltyMemberId": "B-1"},
        *bodies("ben"),
        {"loyaltyMemberId": "cora", "publicLoyaltyMemberId": "B-1"},
        *bodies("cora"),
    )
    assert (response["created"], response["failed"]) == (2, 4)
    assert [result["status"] for result in response["results"]] == [
        "failed",
        "failed",
        "created",
        "failed",
        "failed",
        "created",
    ]
    errors = [result["error"] for result in response["results"] if result["status"] == "failed"]
    assert {error["type"] for error in errors} == {"/problems/member-exists"}
    assert [error["detail"] for error in errors] == [
        "A member with the loyaltyMemberId ana already exists.",
        "A member with the publicLoyaltyMemberId A-1 already exists.",
        "A member with the loyaltyMemberId ben already exists.",
        "A member with the publicLoyaltyMemberId B-1 already exists.",
    ]


def test_a_repeated_batch_enrols_no_member_twice(shop):
    shop.campaign(running(mint(5)), eventType="member-created")
    enrol(shop, *bodies("ana", "ben"))
    assert enrol(shop, *bodies("ana", "ben"))["failed"] == 2
    assert [shop.balance(name) for name in ("ana", "ben")] == [5, 5]


def test_a_malformed_member_refuses_the_whole_batch(shop):
    # A reserved id: /members/exists is the path of another operation.
    problem = enrol(shop, *bodies("ana"), {"loyaltyMemberId": "exists"}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/members/1/loyaltyMemberId"]
    problem = enrol(shop, *bodies("ana"), {"loyaltyMemberId": "ben", "profile": {"birthdate": "1.2.1990"}}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/members/1/profile/birthdate"]
    shop.integration.get("/members/ana", expect=404)


@pytest.mark.parametrize("size", [0, 101])
def test_a_batch_has_1_to_100_members(shop, size):
    problem = enrol(shop, *bodies(*(f"m{n}" for n in range(size))), expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/members"]


def test_referral_codes_of_a_batch_count_up_to_the_limit_of_a_code(shop):
    friends, ben = Friends(shop, eventType="member-created", maxPerCode=2), shop.member()
    code = friends.code(ben)
    response = enrol(shop, *({"loyaltyMemberId": name, "referralCode": code} for name in ("a", "b", "c")))
    assert [result["referrals"][0]["status"] for result in response["results"]] == ["applied", "applied", "skipped"]
    [unknown_code_result] = enrol(shop, {"loyaltyMemberId": "d", "referralCode": "NOBODY"})["results"][0]["referrals"]
    assert unknown_code_result["error"]["type"] == "/problems/unknown-referral-code"
    # The program gives 100 points to the referrer of each of the two members, and 50 to each referred member.
    assert (shop.balance(ben), shop.balance("a"), shop.balance("c")) == (2 * 100, 50, 0)
    shop.check_ledger()


def test_a_batch_needs_the_role_to_write_members(organization):
    reader = organization.integration.with_token(organization.token_of("members:read"))
    reader.post("/members/batch", {"members": bodies("ana")}, expect=403)


def test_a_batch_of_100_members_takes_at_most_4_statements_more_than_a_batch_of_1(shop):
    shop.campaign(running(mint(5)), eventType="member-created")
    friends, ben = Friends(shop, eventType="member-created", maxPerCode=1000, maxReferralsPerMember=1000), shop.member()
    code = friends.code(ben)
    # The first batch fills caches.
    enrol(shop, {"loyaltyMemberId": "first", "referralCode": code})
    counts = {}
    for size in (1, 10, 100):
        members = [{"loyaltyMemberId": f"m{size}-{n}", "referralCode": code} for n in range(size)]
        counts[size] = count(shop.engine, lambda members=members: enrol(shop, *members))
    # A larger batch may need a few statements more, which reserve blocks of ids for transactions and events.
    assert counts[1] <= counts[10] <= counts[100] <= counts[1] + 4
