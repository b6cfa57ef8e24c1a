"""Badges of members over HTTP: assigned, unassigned, reverted and listed, on both surfaces."""

from __future__ import annotations

from itertools import product

import pytest

from tests.builders.badges import Badges
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, running

UNKNOWN = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture(params=[False, True], ids=["integration", "administration"])
def badges(shop, request):
    """The badges of the shop, assigned on one of the two surfaces."""
    return Badges(shop, by_id=request.param)


@pytest.fixture
def badge(badges):
    """An active badge of which a member can hold 3."""
    return badges.create()


@pytest.fixture
def member(shop):
    """The loyaltyMemberId of a new member without badges."""
    return shop.member()


def member_id(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]


def test_an_assignment_returns_its_tracking(badges, badge, member):
    body = {"systemUniqueKey": "till-1", "customAttributes": {"till": 4}, "externalId": "receipt-1"}
    tracking = badges.assign(member, badge, amount=2, **body)
    assert tracking == {
        **body,
        "badgeTrackingId": tracking["badgeTrackingId"],
        "badgeTrackingKey": tracking["badgeTrackingKey"],
        "badgeKey": badge["badgeKey"],
        "amountAssigned": 2,
        "updatedTotalAssigned": 2,
        "revertedBadgeTrackingId": None,
        "reversalBadgeTrackingId": None,
        "createdAt": tracking["createdAt"],
    }
    assert badges.balance(member, badge) == 2


def test_the_amount_defaults_to_1_and_the_key_is_generated(shop, badge, member):
    path = f"/members/{member}/badges/{badge['badgeKey']}"
    assignment = shop.integration.post(f"{path}/assign", {}, expect=200)["badgeTracking"]
    second_assignment = shop.integration.post(f"{path}/assign", {"systemUniqueKey": None}, expect=200)["badgeTracking"]
    unassignment = shop.integration.post(f"{path}/unassign", {"externalId": None}, expect=200)["badgeTracking"]
    assert [tracking["amountAssigned"] for tracking in (assignment, second_assignment, unassignment)] == [1, 1, -1]
    assert [tracking["updatedTotalAssigned"] for tracking in (assignment, second_assignment, unassignment)] == [1, 2, 1]
    assert len({tracking["systemUniqueKey"] for tracking in (assignment, second_assignment, unassignment)}) == 3


def test_each_member_has_a_balance_for_each_badge(shop, badges, badge, member):
    other_member, other_badge = shop.member(), badges.create()
    badges.assign(member, badge, amount=3)
    badges.unassign(member, badge, amount=1)
    badges.assign(other_member, badge)
    assert (badges.balance(member, badge), badges.balance(member, other_badge)) == (3 - 1, 0)
    assert (badges.balance(other_member, badge), badges.balance(other_member, other_badge)) == (1, 0)
    balance = shop.integration.get(f"/members/{member}/badges/{badge['badgeKey']}/balance")["balance"]
    assert balance == {
        "badgeId": badge["badgeId"],
        "badgeKey": badge["badgeKey"],
        "memberId": member_id(shop, member),
        "loyaltyMemberId": member,
        "assignedBalance": 2,
    }


def test_a_balance_stays_between_0_and_the_maximum(badges, badge, member):
    # The maximum is 3.
    assert badges.unassign(member, badge, expect=409)["type"] == "/problems/insufficient-badges"
    assert badges.assign(member, badge, amount=4, expect=409)["type"] == "/problems/badge-limit"
    badges.assign(member, badge, amount=3)
    assert badges.assign(member, badge, expect=409)["type"] == "/problems/badge-limit"
    assert badges.unassign(member, badge, amount=4, expect=409)["type"] == "/problems/insufficient-badges"
    assert badges.balance(member, badge) == 3
    badges.unassign(member, badge, amount=3)
    assert badges.balance(member, badge) == 0


def test_a_member_with_more_than_a_lowered_maximum_keeps_the_badges(badges, badge, member):
    badges.assign(member, badge, amount=3)
    badges.change(badge, maxAmount=2)
    assert badges.balance(member, badge) == 3
    assert badges.assign(member, badge, expect=409)["type"] == "/problems/badge-limit"
    badges.unassign(member, badge, amount=2)
    badges.assign(member, badge)
    assert badges.assign(member, badge, expect=409)["type"] == "/problems/badge-limit"
    badges.change(badge, maxAmount=3)
    assert badges.assign(member, badge)["updatedTotalAssigned"] == 3


def test_an_inactive_badge_cannot_be_assigned_or_unassigned_but_its_assignment_can_be_reverted(badges, badge, member):
    assignment = badges.assign(member, badge)
    badges.change(badge, active=False)
    for act in (badges.assign, badges.unassign):
        assert act(member, badge, expect=409)["type"] == "/problems/badge-inactive"
    badges.revert(member, assignment)
    assert badges.balance(member, badge) == 0


def test_a_revert_undoes_an_assignment_or_unassignment(shop, badges, badge, member):
    assignment = badges.assign(member, badge, amount=3)
    unassignment = badges.unassign(member, badge, amount=2)
    revert = badges.revert(member, unassignment)
    assert (revert["amountAssigned"], revert["updatedTotalAssigned"]) == (2, 3)
    assert (revert["revertedBadgeTrackingId"], revert["reversalBadgeTrackingId"]) == (
        unassignment["badgeTrackingId"],
        None,
    )
    assert badges.revert(member, assignment)["updatedTotalAssigned"] == 0
    # The trackings in their order: assignment, unassignment, revert of the unassignment.
    rows = shop.rows("badge_trackings", "badge_tracking_id, reverted_badge_tracking_id, reversal_badge_tracking_id")
    _assignment_row, unassignment_row, revert_row, *_ = rows
    assert unassignment_row.reversal_badge_tracking_id == revert["badgeTrackingId"]
    assert revert_row.reverted_badge_tracking_id == unassignment["badgeTrackingId"]


def test_reverts_that_break_a_rule_are_refused(badges, badge, member):
    assignment = badges.assign(member, badge, amount=2)
    unassignment = badges.unassign(member, badge)
    # The member holds 1: 2 cannot be returned. With 3, the maximum, the unassigned one cannot be restored.
    assert badges.revert(member, assignment, expect=409)["type"] == "/problems/insufficient-badges"
    badges.assign(member, badge, amount=2)
    assert badges.revert(member, unassignment, expect=409)["type"] == "/problems/badge-limit"
    revert = badges.revert(member, assignment)
    assert badges.revert(member, assignment, expect=409)["type"] == "/problems/badge-tracking-reverted"
    assert badges.revert(member, revert, expect=409)["type"] == "/problems/badge-tracking-not-revertible"
    assert badges.balance(member, badge) == 1


def test_a_repeated_key_assigns_once(shop, badges, badge, member):
    body = {"systemUniqueKey": "till-1", "customAttributes": {"till": 4}, "externalId": "receipt-1"}
    assignment = badges.assign(member, badge, amount=2, **body)
    assert badges.assign(member, badge, amount=2, **body) == assignment
    assert badges.balance(member, badge) == 2
    # The event of the assignment.
    assert len(shop.events(member)) == 1
    for other_request in (
        lambda: badges.assign(member, badge, amount=1, expect=409, **body),
        lambda: badges.unassign(member, badge, amount=2, expect=409, **body),
        lambda: badges.assign(shop.member(), badge, amount=2, expect=409, **body),
        lambda: badges.assign(member, badges.create(), amount=2, expect=409, **body),
        lambda: badges.assign(member, badge, amount=2, expect=409, **{**body, "externalId": "receipt-2"}),
        lambda: badges.assign(member, badge, amount=2, expect=409, **{**body, "customAttributes": {}}),
    ):
        assert other_request()["type"] == "/problems/key-reused"
    assert badges.balance(member, badge) == 2


def test_a_repeated_request_returns_its_first_response_although_its_tracking_was_reverted(badges, badge, member):
    assignment = badges.assign(member, badge, amount=3, systemUniqueKey="till-1")
    badges.revert(member, assignment)
    badges.change(badge, active=False, maxAmount=1)
    repeated_response = badges.assign(member, badge, amount=3, systemUniqueKey="till-1")
    assert repeated_response == assignment
    assert repeated_response["reversalBadgeTrackingId"] is None
    assert badges.balance(member, badge) == 0


def test_a_whole_number_may_be_written_with_a_point(shop, badge, member):
    path = f"/members/{member}/badges/{badge['badgeKey']}/assign"
    response = shop.integration.post(path, {"amount": 2.0}, expect=200)
    assert response["badgeTracking"]["amountAssigned"] == 2


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"amount": 0}, "/amount"),
        ({"amount": -1}, "/amount"),
        ({"amount": 1.5}, "/amount"),
        ({"amount": 2**53}, "/amount"),
        ({"amount": None}, "/amount"),
        ({"systemUniqueKey": ""}, "/systemUniqueKey"),
        ({"customAttributes": None}, "/customAttributes"),
        ({"externalId": "x" * 256}, "/externalId"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_invalid_requests_are_refused_with_pointers(badges, badge, member, body, pointer):
    for act in (badges.assign, badges.unassign):
        problem = act(member, badge, expect=400, **body)
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert badges.balance(member, badge) == 0


def test_unknown_and_foreign_records_are_not_found(shop, badges, badge, member, other_organization):
    other_shop = Shop(other_organization)
    stranger, foreign_badge = other_shop.member(), Badges(other_shop).create()
    foreign_tracking = Badges(other_shop).assign(stranger, foreign_badge)
    member_with_badge = shop.member()
    tracking_of_another_member = badges.assign(member_with_badge, badge)
    unknown_ids = {"badgeId": 10**15, "badgeKey": UNKNOWN, "badgeTrackingId": 10**15, "badgeTrackingKey": UNKNOWN}
    for wrong_record in (unknown_ids, foreign_badge):
        assert badges.assign(member, wrong_record, expect=404)["type"] == "/problems/not-found"
        assert badges.unassign(member, wrong_record, expect=404)["type"] == "/problems/not-found"
    for wrong_record in (unknown_ids, foreign_tracking, tracking_of_another_member):
        assert badges.revert(member, wrong_record, expect=404)["type"] == "/problems/not-found"
    assert badges.balance(member_with_badge, badge) == 1
    for path in (f"/badges/{badge['badgeKey']}/balance", "/badges"):
        shop.integration.get(f"/members/{stranger}{path}", expect=404)


def test_campaigns_evaluate_assignments_unassignments_and_reverts(shop, badges, badge, member):
    rule = "event.payload.badgeTracking.badgeKey == '{}' && event.payload.badgeTracking.amountAssigned == {}"
    # Points by type: 10 for an assignment of 2, 100 for an unassignment of 2.
    for event_type, amount, points in (("badge-assigned", 2, 10), ("badge-unassigned", -2, 100)):
        condition = rule.format(badge["badgeKey"], amount)
        shop.campaign(running(mint(points), rule=condition), eventType=event_type)
    tracking = badges.assign(member, badge, amount=2)
    assert shop.balance(member) == 10
    badges.assign(member, badge, amount=1)
    # The revert of an assignment is reported as an unassignment.
    badges.revert(member, tracking)
    assert shop.balance(member) == 10 + 100
    badges.assign(member, badge, amount=2)
    # No rule is true for an unassignment of 3.
    badges.unassign(member, badge, amount=3)
    assert shop.balance(member) == 10 + 100 + 10
    badge_events = [event for event in shop.events(member) if event["eventType"].startswith("badge-")]
    assert [event["eventType"].removeprefix("badge-") for event in reversed(badge_events)] == [
        "assigned",
        "assigned",
        "unassigned",
        "assigned",
        "unassigned",
    ]
    rows = shop.rows("events", "payload, event_type, reason", order="loyalty_event_id")
    first_assignment = next(row for row in rows if row.event_type == "badge-assigned")
    assert first_assignment.payload == {"badgeTracking": tracking}
    assert first_assignment.reason == "The badge was assigned by request."


# --- how members, badges and trackings are named in the administration -------------------------------------------


def test_a_member_and_a_badge_can_be_named_by_each_of_their_ids(shop, badge):
    administration, member = shop.administration, shop.member()
    for name, identifier in product((member, member_id(shop, member)), (badge["badgeKey"], badge["badgeId"])):
        balance = administration.get(f"/members/{name}/badges/{identifier}/balance")["balance"]
        assert (balance["loyaltyMemberId"], balance["badgeKey"]) == (member, badge["badgeKey"])


@pytest.fixture
def ambiguous_members(shop):
    """A member, the member's memberId, and another member whose loyaltyMemberId has the same digits."""
    member = shop.member()
    number = member_id(shop, member)
    return member, number, shop.organization.member(str(number))["loyaltyMemberId"]


def test_digits_that_are_ids_of_two_members_are_refused(shop, badge, ambiguous_members):
    member, number, look_alike = ambiguous_members
    administration = shop.administration
    badge_path = f"/members/{number}/badges/{badge['badgeId']}"
    tracking = Badges(shop).assign(member, badge)["badgeTrackingId"]
    for problem in (
        administration.get(f"{badge_path}/balance", expect=409),
        administration.post(f"{badge_path}/assign", {}, expect=409),
        administration.post(f"{badge_path}/unassign", {}, expect=409),
        administration.post(f"/members/{number}/badge-trackings/{tracking}/revert", expect=409),
    ):
        assert problem["type"] == "/problems/ambiguous-member"
        assert f"memberId:{number} or loyaltyMemberId:{number}" in problem["detail"]
    assert (Badges(shop).balance(member, badge), Badges(shop).balance(look_alike, badge)) == (1, 0)


def test_a_prefix_decides_which_of_the_ids_is_meant(shop, badge, ambiguous_members):
    member, number, look_alike = ambiguous_members
    for prefix, expected_member in (("memberId", member), ("loyaltyMemberId", look_alike)):
        path = f"/members/{prefix}:{number}/badges/{badge['badgeId']}"
        shop.administration.post(f"{path}/assign", {"amount": 2}, expect=200)
        assert shop.administration.get(f"{path}/balance")["balance"]["loyaltyMemberId"] == expected_member
        assert Badges(shop).balance(expected_member, badge) == 2
    # One of the two badges of the member with this memberId.
    shop.administration.post(f"/members/memberId:{number}/badges/{badge['badgeKey']}/unassign", {}, expect=200)
    assert (Badges(shop).balance(member, badge), Badges(shop).balance(look_alike, badge)) == (2 - 1, 2)


def test_an_id_that_begins_like_a_prefix_must_be_sent_with_a_prefix(shop, badge, ambiguous_members):
    first_member, number, _look_alike = ambiguous_members
    for name in (f"memberId:{number}", f"loyaltyMemberId:{first_member}", "memberId:"):
        shop.organization.member(name)

    def find_member(identifier, expect=200):
        """The loyaltyMemberId of the member that the identifier names in a path."""
        path = f"/members/{identifier}/badges/{badge['badgeId']}/balance"
        return shop.administration.get(path, expect=expect).get("balance", {}).get("loyaltyMemberId")

    assert find_member(f"memberId:{number}") == first_member
    assert find_member(f"loyaltyMemberId:{first_member}") == first_member
    assert find_member(f"loyaltyMemberId:memberId:{number}") == f"memberId:{number}"
    assert find_member(f"loyaltyMemberId:loyaltyMemberId:{first_member}") == f"loyaltyMemberId:{first_member}"
    for identifier in (
        "memberId:",
        "memberId:ana",
        f"memberId:0{number}",
        "memberId:1e3",
        "loyaltyMemberId:",
        "LoyaltyMemberId:x",
    ):
        find_member(identifier, expect=404)


def test_digits_that_are_the_id_of_one_member_need_no_prefix(shop, badge):
    member = shop.member()
    number = member_id(shop, member)
    expected_members = {number: member}
    # loyaltyMemberIds of digits that are the memberId of no member.
    for name in (f"0{number}", str(10**18), str(10**15)):
        expected_members[name] = shop.organization.member(name)["loyaltyMemberId"]
    for identifier, expected_member in expected_members.items():
        path = f"/members/{identifier}/badges/{badge['badgeId']}/balance"
        assert shop.administration.get(path)["balance"]["loyaltyMemberId"] == expected_member
    shop.administration.get(f"/members/{10**15 + 1}/badges/{badge['badgeId']}/balance", expect=404)


def test_digits_of_another_organization_are_not_ambiguous(shop, badge, other_organization):
    member = shop.member()
    other_organization.member(str(member_id(shop, member)))
    path = f"/members/{member_id(shop, member)}/badges/{badge['badgeId']}/balance"
    assert shop.administration.get(path)["balance"]["loyaltyMemberId"] == member


def test_a_tracking_is_named_by_its_id_or_its_key(shop, badges, badge, member):
    for name in ("badgeTrackingId", "badgeTrackingKey"):
        tracking = badges.assign(member, badge)
        path = f"/members/{member}/badge-trackings/{tracking[name]}/revert"
        revert = shop.administration.post(path, expect=200)["badgeTracking"]
        assert revert["revertedBadgeTrackingId"] == tracking["badgeTrackingId"]


@pytest.mark.parametrize("identifier", ["early-bird", "0", "01", "-1", "1.0", UNKNOWN[:-1]])
def test_an_identifier_that_is_neither_an_id_nor_a_key_is_refused(shop, member, identifier):
    problem = shop.administration.get(f"/members/{member}/badges/{identifier}/balance", expect=400)
    assert problem["errors"][0]["parameter"] == "badgeIdentifier"
    path = f"/members/{member}/badge-trackings/{identifier}/revert"
    assert shop.administration.post(path, expect=400)["errors"][0]["parameter"] == "badgeTrackingIdentifier"


def test_an_id_has_at_most_18_digits(shop, member):
    shop.administration.get(f"/members/{member}/badges/{10**18 - 1}/balance", expect=404)
    problem = shop.administration.get(f"/members/{member}/badges/{10**18}/balance", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["badgeIdentifier"]


# --- the list ------------------------------------------------------------------------------------------------


@pytest.fixture
def member_with_badges(shop):
    """A member, and all six badges, each with the number that the member holds; another member holds badges, too.

    The member holds 2, 1, 0, 3, 0 and 1 of them. The second and the third badge are inactive.
    """
    badges, member, other_member = Badges(shop), shop.member(), shop.member()
    all_badges = [
        badges.create(name=f"B{n}", maxAmount=9 - n, active=True, tags=tags)
        for n, tags in enumerate((["a"], ["a", "b"], ["b"], [], ["a", "b"], ["c"]))
    ]
    amounts = [2, 1, 0, 3, 0, 1]
    for badge, amount in zip(all_badges, amounts, strict=True):
        badges.assign(other_member, badge)
        if amount:
            badges.assign(member, badge, amount=amount)
    # One badge is assigned and unassigned again.
    badges.assign(member, all_badges[4])
    badges.unassign(member, all_badges[4])
    all_badges = [badges.change(badge, active=False) if n in (1, 2) else badge for n, badge in enumerate(all_badges)]
    return member, [{**badge, "assignedBalance": amount} for badge, amount in zip(all_badges, amounts, strict=True)]


def list_badges(shop, member, **query):
    """A page of the badges that a member holds."""
    return shop.integration.get(f"/members/{member}/badges", **query)


def test_the_list_has_every_badge_that_the_member_holds_newest_first(shop, member_with_badges):
    member, records = member_with_badges
    page = list_badges(shop, member)
    # The member holds four of the six badges.
    assert (page["totalCount"], page["page"], page["limit"]) == (4, 0, 25)
    assert page["results"] == [record for record in reversed(records) if record["assignedBalance"]]
    assert list_badges(shop, shop.member()) == {"totalCount": 0, "page": 0, "limit": 25, "results": []}


def test_filters_find_the_badges_that_a_full_scan_finds(shop, member_with_badges):
    member, records = member_with_badges
    keys = [record["badgeKey"] for record in records]
    for active, tags, badge_keys in product(
        (None, True, False),
        ((), ("a",), ("b", "a"), ("z",)),
        ((), (keys[2],), (keys[4], keys[0]), (UNKNOWN,)),
    ):
        query = {} if active is None else {"active": active}
        query |= {"tags": ",".join(tags)} if tags else {}
        query |= {"badgeKeys": ",".join(badge_keys)} if badge_keys else {}
        # Without keys, the list has only badges that the member holds.
        expected_records = [
            record
            for record in reversed(records)
            if (record["badgeKey"] in badge_keys if badge_keys else record["assignedBalance"] > 0)
            and active in (None, record["active"])
            and set(tags) <= set(record["tags"])
        ]
        page = list_badges(shop, member, **query)
        assert (page["results"], page["totalCount"]) == (expected_records, len(expected_records))


def test_the_list_is_ordered_by_every_column_and_paged(shop, member_with_badges):
    member, records = member_with_badges
    all_keys = ",".join(record["badgeKey"] for record in records)
    for column in ("badgeId", "name", "active", "maxAmount", "assignedBalance", "createdAt", "updatedAt"):
        for direction in ("asc", "desc"):
            expected_records = sorted(records, key=lambda e: (e[column], e["badgeId"]), reverse=direction == "desc")
            order = f"{column},{direction}"
            assert list_badges(shop, member, badgeKeys=all_keys, order=order)["results"] == expected_records
            page = list_badges(shop, member, badgeKeys=all_keys, order=order, limit=2, page=1)
            assert (page["results"], page["totalCount"]) == (expected_records[2:4], 6)


def test_a_page_after_the_last_has_the_total_of_the_badges_that_the_member_holds(shop, member_with_badges):
    member, records = member_with_badges
    assert sum(record["assignedBalance"] > 0 for record in records) == 4
    page = list_badges(shop, member, page=7)
    assert (page["results"], page["totalCount"]) == ([], 4)


@pytest.mark.parametrize(
    "query", [{"order": "tags"}, {"limit": 26}, {"limit": 0}, {"page": -1}, {"badgeKeys": "early"}, {"colour": "red"}]
)
def test_invalid_parameters_of_the_list_are_refused(shop, member, query):
    problem = shop.integration.get(f"/members/{member}/badges", expect=400, **query)
    assert [error["parameter"] for error in problem["errors"]] == list(query)
