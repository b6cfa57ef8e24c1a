"""Lists that are read page by page with cursors, and refused cursors."""

from __future__ import annotations

import base64
import json

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import ORDER_CREATED, Shop, order, running
from tests.builders.triggers import add_trigger

# name -> the surface and the path of a list.
LISTS = {
    "members": ("integration", "/members"),
    "members, administration": ("administration", "/members"),
    "events": ("integration", "/members/{member}/events"),
    "events, administration": ("administration", "/members/{memberId}/events"),
    "ledger transactions of a member": ("integration", "/members/{member}/ledger-transactions"),
    "ledger transactions": ("administration", "/ledgers/{ledgerId}/accounts/{accountId}/transactions"),
    "coupons of a book": ("integration", "/coupon-books/{couponBookKey}/coupons"),
    "coupons of a book, administration": ("administration", "/coupon-books/{couponBookId}/coupons"),
    "coupons": ("integration", "/coupons"),
    "coupon usages": ("integration", "/members/{member}/coupon-usages"),
    "audit log": ("administration", "/audit-log"),
    "deliveries": ("administration", "/triggers/{triggerId}/deliveries"),
    "purchase orders": ("administration", "/members/{memberId}/purchase-orders"),
}


class Lists:
    """The lists of an organization, each with some rows: among them the members ana, ben and cy, in this order."""

    def __init__(self, organization):
        shop = Shop(organization)
        trigger = add_trigger(shop.administration)
        book = CouponBooks(organization).make("A", "B", "C", "D", type="list")
        effects = (mint(3), effect("assign-coupon", couponBookKey=book["couponBookKey"]))
        shop.campaign(running(*effects), eventType=ORDER_CREATED)
        member = organization.member("ana")
        organization.member("ben")
        organization.member("cy")
        for number in range(3):
            shop.track_one(order("ana", external_id=f"order-{number}"))
        self.organization = organization
        self.names = {
            "member": "ana",
            "memberId": member["memberId"],
            "ledgerId": organization.defaults.ledger_id,
            "accountId": organization.defaults.ledger_account_id,
            "couponBookKey": book["couponBookKey"],
            "couponBookId": book["couponBookId"],
            "triggerId": trigger["triggerId"],
        }

    def get(self, name, **query):
        """The response of a list."""
        surface, path = LISTS[name]
        return getattr(self.organization, surface).get(path.format(**self.names), **query)

    def faults(self, name, **query):
        """The details of a refused call, by parameter."""
        problem = self.get(name, expect=400, **query)
        assert problem["type"].endswith("/problems/invalid-request")
        return {fault["parameter"]: fault["detail"] for fault in problem["errors"]}


@pytest.fixture(scope="module")
def lists(api):
    return Lists(api.organization())


def cursor_of(content):
    """A cursor with this content, encoded like the server's own."""
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


# The content of a cursor of the list of members.
CONTENT = {"list": "members.member_id", "order": None, "page": 1, "total": 5, "last": [5]}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_is_paged_through_by_the_cursors_of_its_responses(lists, name):
    whole_list = lists.get(name)
    assert whole_list["nextCursor"] is None
    assert len(whole_list["results"]) > 2
    first_page = lists.get(name, limit=1)
    pages = [first_page]
    while pages[-1]["nextCursor"] is not None:
        pages.append(lists.get(name, limit=2, cursor=pages[-1]["nextCursor"]))
    assert [row for page in pages for row in page["results"]] == whole_list["results"]
    count_field = "total" if "total" in first_page else "totalCount"
    assert {page[count_field] for page in pages} == {whole_list[count_field]}
    assert [page["page"] for page in pages] == [*range(len(pages))]
    assert [page["limit"] for page in pages] == [1] + [2] * (len(pages) - 1)


@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(
    "cursor",
    [
        pytest.param("x", id="no base64"),
        pytest.param("eyJ", id="no JSON"),
        pytest.param(cursor_of({"events": 1}), id="other fields"),
        pytest.param(cursor_of({**CONTENT, "page": -1}), id="negative page"),
        pytest.param(cursor_of({**CONTENT, "page": 2**31}), id="page too large"),
        pytest.param(cursor_of({**CONTENT, "total": True}), id="total is no number"),
        pytest.param(cursor_of({**CONTENT, "last": [2**63]}), id="id too large"),
        pytest.param(cursor_of({**CONTENT, "last": ["5"]}), id="id is a text"),
        pytest.param(cursor_of({**CONTENT, "list": "badges.badge_id"}), id="another list"),
    ],
)
def test_a_cursor_that_no_response_returned_is_refused(lists, name, cursor):
    faults = lists.faults(name, cursor=cursor)
    assert [*faults] == ["cursor"]
    assert faults["cursor"].startswith("cursor is not from a response of this list: send the nextCursor")


@pytest.mark.parametrize("cursor", ["", "!!", "a=b", "a" * 4001])
def test_a_text_that_is_no_cursor_is_refused(lists, cursor):
    assert [*lists.faults("members", cursor=cursor)] == ["cursor"]


@pytest.mark.parametrize("name", LISTS)
def test_a_cursor_that_was_cut_is_refused(lists, name):
    cursor = lists.get(name, limit=1)["nextCursor"]
    assert [*lists.faults(name, cursor=cursor[:-3])] == ["cursor"]


def test_a_cursor_needs_the_order_of_its_page(lists):
    cursor = lists.get("members", limit=1, order="createdAt,desc")["nextCursor"]
    for other_order in ({}, {"order": "createdAt"}, {"order": "memberId,desc"}):
        faults = lists.faults("members", cursor=cursor, **other_order)
        assert [*faults] == ["order"]
        assert "send the same order" in faults["order"]
    assert len(lists.get("members", limit=1, order="createdAt,desc", cursor=cursor)["results"]) == 1


def test_a_cursor_of_an_order_without_a_direction_is_valid_for_the_ascending_order(lists):
    cursor = lists.get("members", limit=1, order="loyaltyMemberId")["nextCursor"]
    page = lists.get("members", limit=1, order="loyaltyMemberId,asc", cursor=cursor)
    # The first page has ana.
    assert [member["loyaltyMemberId"] for member in page["results"]] == ["ben"]


def test_a_page_that_contradicts_the_cursor_is_refused(lists):
    cursor = lists.get("members", limit=1)["nextCursor"]
    assert [*lists.faults("members", cursor=cursor, page=1)] == ["page"]
    assert [*lists.faults("members", cursor=cursor, page=1, order="createdAt")] == ["page", "order"]
    # 0 is the default, and is ignored.
    assert lists.get("members", limit=1, cursor=cursor, page=0)["page"] == 1


def test_a_cursor_can_be_combined_with_a_filter(lists):
    first_page = lists.get("coupons", limit=1, loyaltyMemberId="ana")
    second_page = lists.get("coupons", loyaltyMemberId="ana", cursor=first_page["nextCursor"])
    whole_list = lists.get("coupons", loyaltyMemberId="ana")
    # Each of the three orders of ana gave a coupon.
    assert whole_list["totalCount"] == second_page["totalCount"] == 3
    assert first_page["results"] + second_page["results"] == whole_list["results"]


def test_a_cursor_with_a_filter_that_matches_no_rows_finds_nothing(lists):
    cursor = lists.get("coupons", limit=1, loyaltyMemberId="ana")["nextCursor"]
    page = lists.get("coupons", loyaltyMemberId="nobody", cursor=cursor)
    assert (page["results"], page["nextCursor"]) == ([], None)


def test_lists_of_configuration_have_no_cursors(lists):
    problem = lists.organization.administration.get("/campaigns", cursor="x", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["cursor"]
    assert "nextCursor" not in lists.organization.administration.get("/campaigns")
