"""Coupons assigned, used and reverted on both surfaces, and the lists of members' coupons."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event, key, running

KEY_REUSED = "/problems/key-reused"
CODES_BY_TYPE = {"single": ["ALL"], "list": ["A-1", "A-2", "A-3"], "generated": [], "codeless": []}


class CouponClient:
    """Calls about coupons on one surface, in a form common to both; for an expected refusal they return its type."""

    def __init__(self, organization: Any, surface: str) -> None:
        self.organization = organization
        self.shop = Shop(organization)
        self.books = CouponBooks(organization)
        self.surface = surface
        self.is_integration = surface == "integration"

    def book(self, type_: str = "codeless", *codes: str, **settings: Any) -> Any:
        """A new book; without `codes` it has those of `CODES_BY_TYPE`."""
        return self.books.make(*(codes or CODES_BY_TYPE[type_]), type=type_, **settings)

    def member(self, points: int = 0, **properties: Any) -> Any:
        """A new member with this number of points in the default account."""
        member = self.organization.member(**properties)
        if points:
            self.shop.give(member["loyaltyMemberId"], points)
        return member

    def _usages(self, verb: str, member: Any, book: Any, body: Any, expect: int) -> Any:
        """Assign or use coupons; return the usages, or the problem if `expect` is not 200."""
        if self.is_integration:
            path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/{verb}"
            response = self.organization.integration.post(path, body, expect=expect)
            return response if expect != 200 else [response["couponUsage"]]
        path = f"/coupon-books/{book['couponBookId']}/{verb}"
        response = self.organization.administration.post(path, {"memberId": member["memberId"], **body}, expect=expect)
        return response if expect != 200 else response["couponUsages"]

    def assign(self, member: Any, book: Any, *, expect: int = 200, **body: Any) -> Any:
        if not self.is_integration:
            for name, plural in (("code", "codes"), ("systemUniqueKey", "systemUniqueKeys")):
                if name in body:
                    body[plural] = [body.pop(name)]
            if "expiresAt" in body:
                body["expiredAt"] = body.pop("expiresAt")
        response = self._usages("assign", member, book, body, expect)
        return response[0] if expect == 200 else response["type"]

    def use(self, member: Any, book: Any, *, expect: int = 200, **body: Any) -> Any:
        response = self._usages("use", member, book, body, expect)
        return response[0] if expect == 200 else response["type"]

    def revert(self, member: Any, usage: Any, *, expect: int = 200, force: bool | None = None) -> Any:
        if self.is_integration:
            path = f"/members/{member['loyaltyMemberId']}/coupon-usages/{usage['couponUsageKey']}/revert"
            response = self.organization.integration.post(path, expect=expect)
            return response["couponUsage"] if expect == 200 else response["type"]
        path = f"/coupon-usages/{usage['couponUsageId']}/revert"
        body = None if force is None else {"forceRevert": force}
        response = self.organization.administration.post(path, body, expect=expect)
        return response["couponUsages"][0] if expect == 200 else response["type"]

    def balance(self, member: Any) -> Any:
        """The member's points in the default account."""
        return self.shop.balance(member["loyaltyMemberId"])

    def totals(self, book: Any) -> tuple[Any, Any]:
        """The assigned and the used amount of all coupons of the book."""
        stored_book = self.books.get(book)
        return stored_book["totalAssigned"], stored_book["totalUsages"]


@pytest.fixture(params=["integration", "administration"])
def client(request, organization):
    return CouponClient(organization, request.param)


@pytest.fixture
def integration(organization):
    """A client of the integration surface, for what only this surface offers."""
    return CouponClient(organization, "integration")


@pytest.fixture
def administration(organization):
    """A client of the administration surface, for what only this surface offers."""
    return CouponClient(organization, "administration")


def point_prices(client, **prices):
    """Settings of a book that takes these numbers of points from the default account."""
    account_key = client.organization.defaults.ledger_account_key
    return {"requiredPointsConfig": {"ledgerAccountKey": account_key}, **prices}


@pytest.mark.parametrize("book_type", CODES_BY_TYPE)
def test_amounts_follow_an_assignment_a_use_and_a_revert(client, book_type):
    book, member = client.book(book_type), client.member()
    assignment = client.assign(member, book, externalId="till-4")
    assert (assignment["amountAssigned"], assignment["amountUsed"], assignment["externalId"]) == (1, 0, "till-4")
    assert client.totals(book) == (1, 0)
    usage = client.use(member, book)
    assert (usage["amountAssigned"], usage["amountUsed"], usage["couponId"]) == (0, 1, assignment["couponId"])
    assert (usage["updatedTotalAssigned"], usage["updatedTotalUsages"]) == (1, 1)
    assert client.totals(book) == (1, 1)
    assert client.use(member, book, expect=409) == "/problems/coupon-not-assigned"
    assert client.revert(member, assignment, expect=409) == "/problems/coupon-assignment-used"
    reversal = client.revert(member, usage)
    assert (reversal["amountUsed"], reversal["revertedUsageId"]) == (-1, usage["couponUsageId"])
    assert client.totals(book) == (1, 0)
    assert client.revert(member, usage, expect=409) == "/problems/coupon-usage-reverted"
    assert client.revert(member, reversal, expect=409) == "/problems/coupon-usage-not-revertible"
    client.use(member, book)
    assert client.totals(book) == (1, 1)


def test_codes_of_a_list_are_assigned_in_order_and_are_free_again_after_a_revert(client):
    book, ana, ben = client.book("list", "A-1", "A-2", "A-3"), client.member(), client.member()
    usage_of_a1, usage_of_a2 = client.assign(ana, book), client.assign(ben, book)
    assert usage_of_a1["couponId"] < usage_of_a2["couponId"]
    assert client.assign(ana, book, code="A-3")["couponId"] == usage_of_a2["couponId"] + 1
    assert client.assign(ben, book, expect=409) == "/problems/coupon-out-of-stock"
    assert client.assign(ben, book, code="A-1", expect=409) == "/problems/coupon-code-held"
    assert client.assign(ben, book, code="A-9", expect=404) == "/problems/unknown-coupon"
    assert client.use(ben, book, code="A-9", expect=404) == "/problems/unknown-coupon"
    assert client.use(ben, book, code="A-1", expect=409) == "/problems/coupon-not-assigned"
    client.revert(ana, usage_of_a1)
    assert client.assign(ben, book, code="A-1")["couponId"] == usage_of_a1["couponId"]


def test_generated_codes_are_all_different_and_follow_the_pattern(client):
    pattern = {"length": 13, "alphabet": "0123456789", "prefix": "CO-", "suffix": "-X"}
    book, member = client.book("generated", codePattern=pattern), client.member()
    for _ in range(3):
        client.assign(member, book)
    codes = [result["code"] for result in client.books.surface.get(f"{client.books.path(book)}/coupons")["results"]]
    assert len(set(codes)) == 3
    assert all(re.fullmatch(r"CO-[0-9]{13}-X", code) for code in codes)


def test_stock_and_quotas_limit_assignments(client):
    ana, ben = client.member(), client.member()
    limited_book = client.book("codeless", maxCouponCount=2, maxAssignedPerMember=1)
    client.assign(ana, limited_book)
    assert client.assign(ana, limited_book, expect=409) == "/problems/coupon-quota"
    assert client.assign(ben, limited_book, amount=2, expect=409) == "/problems/coupon-out-of-stock"
    client.assign(ben, limited_book)
    assert client.assign(client.member(), limited_book, expect=409) == "/problems/coupon-out-of-stock"
    single_book = client.book("single", maxAssignedPerCoupon=3)
    client.assign(ana, single_book, amount=2)
    assert client.assign(ben, single_book, amount=2, expect=409) == "/problems/coupon-out-of-stock"
    list_book = client.book("list", "L", maxAssignedPerCoupon=2)
    client.assign(ana, list_book, code="L", amount=2)
    assert client.assign(ana, list_book, code="L", expect=409) == "/problems/coupon-out-of-stock"


@pytest.mark.parametrize(
    ("restriction", "problem"),
    [
        ({"publishingStatus": "draft"}, "coupon-book-not-published"),
        ({"publishingStatus": "disabled"}, "coupon-book-not-published"),
        ({"validFromDate": "2999-01-01T00:00:00Z"}, "coupon-book-not-yet-valid"),
        ({"validToDate": "2001-01-01T00:00:00Z"}, "coupon-book-expired"),
        ({"condition": {"expression": "member.memberType == 'gold'"}}, "coupon-book-condition"),
    ],
)
def test_a_closed_book_refuses_assignments_and_uses(client, restriction, problem):
    member, book = client.member(), client.book(**restriction)
    assert client.assign(member, book, expect=409) == f"/problems/{problem}"
    assert client.use(member, book, expect=409) == f"/problems/{problem}"


def test_an_archived_book_and_a_book_of_another_day_refuse_assignments(client):
    member, book = client.member(), client.book()
    client.assign(member, book)
    client.books.set_status(book, "archived")
    assert client.assign(member, book, expect=409) == "/problems/coupon-book-archived"
    assert client.use(member, book, expect=409) == "/problems/coupon-book-archived"
    # Not today, wherever midnight falls while the test runs.
    other_day = (datetime.now(UTC) + timedelta(days=3)).isoweekday()
    assert client.assign(member, client.book(daysOfWeek=[other_day]), expect=409) == "/problems/coupon-book-day"


def test_a_book_refuses_members_of_other_tiers_or_audiences_and_inactive_members(client):
    administration, member = client.organization.administration, client.member()
    tiers = TierSchedule.new(client.shop, Gold=1000)
    assert client.assign(member, client.book(tierKeys=[tiers.key("Gold")]), expect=409) == (
        "/problems/coupon-book-tier"
    )
    audience = administration.post("/audiences", {"name": "Few", "matcherType": "list-matcher"})["audience"]
    book = client.book(audienceKeys=[audience["audienceKey"]])
    assert client.assign(member, book, expect=409) == "/problems/coupon-book-audience"
    administration.patch(f"/audiences/{audience['audienceId']}/members", {"add": [member["memberId"]]})
    client.assign(member, book)
    inactive_member = client.member(active=False)
    assert client.assign(inactive_member, client.book(), expect=409) == "/problems/member-inactive"


def test_assignments_and_uses_cost_the_points_of_the_book(client):
    book = client.book(**point_prices(client, assignmentRequiredPoints=10, usageRequiredPoints=5))
    member = client.member(points=26)
    assignment = client.assign(member, book, amount=2)
    assert client.balance(member) == 26 - 2 * 10
    assert assignment["ledgerTransactionId"] is not None
    usage = client.use(member, book)
    assert client.balance(member) == 6 - 5
    assert client.use(member, book, expect=409) == "/problems/insufficient-balance"
    assert client.assign(member, book, expect=409) == "/problems/insufficient-balance"
    reversal = client.revert(member, usage)
    assert reversal["ledgerTransactionId"] not in (None, usage["ledgerTransactionId"])
    assert client.balance(member) == 1 + 5
    client.revert(member, assignment)
    assert client.balance(member) == 26
    client.shop.check_ledger()


def test_an_override_replaces_the_points_of_a_book(client):
    book = client.book(**point_prices(client, assignmentRequiredPoints=10, usageRequiredPoints=5))
    member = client.member(points=3)
    free_assignment = client.assign(member, book, pointsOverride=0, amount=5)
    assert (free_assignment["ledgerTransactionId"], client.balance(member)) == (None, 3)
    # A negative price gives points.
    negative_use = client.use(member, book, pointsOverride=-7)
    assert client.balance(member) == 3 + 7
    client.use(member, book, pointsOverride=8)
    assert client.balance(member) == 10 - 8
    assert client.use(member, book, pointsOverride=3, expect=409) == "/problems/insufficient-balance"
    # Only 2 of the 7 minted points remain.
    assert client.revert(member, negative_use, expect=409) == "/problems/insufficient-balance"
    assert client.use(member, book, pointsOverride=0.5, expect=400) == "/problems/invalid-request"


def test_an_amount_whose_price_exceeds_the_maximum_of_points_is_refused(integration):
    # More than half of the maximum.
    book = integration.book(**point_prices(integration, assignmentRequiredPoints=18446744073709))
    member = integration.member()
    path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/assign"
    faults = integration.organization.integration.post(path, {"amount": 2}, expect=400)["errors"]
    assert [fault["pointer"] for fault in faults] == ["/amount"]


def test_an_assignment_can_capture_a_pending_burn_as_its_price(client):
    ledger, account = client.organization.defaults.ledger_id, client.organization.defaults.ledger_account_id
    book = client.book(**point_prices(client, assignmentRequiredPoints=10))
    member, other_member = client.member(points=30), client.member(points=30)

    def hold(owner, amount):
        """Hold points of a member; return the id of the pending burn."""
        body = {
            "fromWalletId": owner["ledgerWalletId"],
            "toWalletId": None,
            "amount": amount,
            "captureMethod": "manual",
        }
        path = f"/ledgers/{ledger}/accounts/{account}/transactions"
        return client.organization.administration.post(path, body)["transactions"][0]["ledgerTransactionId"]

    hold_id, hold_id_of_other_member = hold(member, 12), hold(other_member, 12)
    name = "pendingCaptureLedgerTransactionId"
    # The hold of another member, and an id that no transaction has.
    for unknown_id in (hold_id_of_other_member, 10**15):
        refusal = client.assign(member, book, expect=404, **{name: unknown_id})
        assert refusal == "/problems/unknown-ledger-transaction"
    assert client.assign(member, book, expect=400, pointsOverride=1, **{name: hold_id}) == "/problems/invalid-request"
    assignment = client.assign(member, book, **{name: hold_id})
    assert assignment["ledgerTransactionId"] == hold_id
    # 12 are captured, although the price is 10.
    assert client.balance(member) == 30 - 12
    assert client.assign(member, book, expect=409, **{name: hold_id}) == "/problems/not-pending"
    client.revert(member, assignment)
    assert client.balance(member) == 30
    client.shop.check_ledger()


def test_a_repeated_key_returns_the_first_usage(client):
    book, member, other_member = client.book(), client.member(), client.member()
    assign_key = key()
    assignment = client.assign(member, book, systemUniqueKey=assign_key, amount=3)
    assert assignment["systemUniqueKey"] == assign_key
    assert client.assign(member, book, systemUniqueKey=assign_key, amount=3) == assignment
    assert client.totals(book) == (3, 0)
    # The same key with another amount, another member, or for a use.
    assert client.assign(member, book, systemUniqueKey=assign_key, expect=409) == KEY_REUSED
    assert client.assign(other_member, book, systemUniqueKey=assign_key, amount=3, expect=409) == KEY_REUSED
    assert client.use(member, book, systemUniqueKey=assign_key, expect=409) == KEY_REUSED
    use_key = key()
    usage = client.use(member, book, systemUniqueKey=use_key)
    client.revert(member, usage)
    # The first response is repeated, although the use was reverted since.
    assert client.use(member, book, systemUniqueKey=use_key) == usage
    assert client.totals(book) == (3, 0)


def test_an_empty_object_counts_as_a_missing_one_in_a_repeated_request(client):
    book, member = client.book(), client.member()
    names = ("usageData", "couponData") if client.is_integration else ("customAttributes",)
    assign_key, use_key = key(), key()
    assignment = client.assign(member, book, systemUniqueKey=assign_key)
    usage = client.use(member, book, systemUniqueKey=use_key)
    for name in names:
        assert client.assign(member, book, systemUniqueKey=assign_key, **{name: {}}) == assignment
    assert client.use(member, book, systemUniqueKey=use_key, **{names[0]: {}}) == usage
    assert client.use(member, book, systemUniqueKey=use_key, **{names[0]: {"till": 1}}, expect=409) == KEY_REUSED


def test_a_repeated_key_returns_the_current_code_of_the_coupon(client):
    book, member = client.book("list", "A-1"), client.member()
    assign_key = key()
    assignment = client.assign(member, book, systemUniqueKey=assign_key)
    assert assignment["code"] == "A-1"
    path = f"/coupon-books/{book['couponBookId']}/coupons/{assignment['couponId']}"
    client.organization.administration.patch(path, {"code": "B-1"})
    assert client.assign(member, book, systemUniqueKey=assign_key) == {**assignment, "code": "B-1"}


def test_uses_and_discounts_are_limited_per_period(integration):
    book = integration.book(
        timezone="America/Sao_Paulo",
        maxUsagesPerPeriod=2,
        usagePeriodType="monthly",
        maxDiscountPerPeriod=10,
        discountPeriodType="monthly",
        maxDiscountPerUse=8,
    )
    member = integration.member()
    integration.assign(member, book, amount=9)
    assert integration.use(member, book, amountDiscounted=9, expect=409) == "/problems/coupon-discount-too-high"
    usage = integration.use(member, book, amountDiscounted=8)
    assert usage["amountDiscounted"] == 8
    # 8 + 3 is more than 10 in the month.
    assert integration.use(member, book, amountDiscounted=3, expect=409) == "/problems/coupon-discount-limit"
    integration.use(member, book, amountDiscounted=2)
    # These were the two uses of the month.
    assert integration.use(member, book, expect=409) == "/problems/coupon-usage-limit"
    integration.use(member, book, amountDiscounted=5, bypassUsageRestrictions=True)
    refusal = integration.use(member, book, amountDiscounted=9, bypassUsageRestrictions=True, expect=409)
    assert refusal == "/problems/coupon-discount-too-high"


def test_a_revert_gives_the_limits_of_the_period_back(integration):
    limits = {
        "maxUsagesPerPeriod": 1,
        "usagePeriodType": "weekly",
        "maxDiscountPerPeriod": 5,
        "discountPeriodType": "daily",
    }
    book, member = integration.book(**limits), integration.member()
    integration.assign(member, book, amount=2)
    usage = integration.use(member, book, amountDiscounted=5)
    # One use a week.
    assert integration.use(member, book, expect=409) == "/problems/coupon-usage-limit"
    assert integration.revert(member, usage)["amountDiscounted"] == -5
    integration.use(member, book, amountDiscounted=5)


def test_an_assignment_whose_expiry_is_in_the_past_is_refused(organization, integration):
    book, member = integration.book("generated"), integration.member()
    path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/assign"
    refusal = organization.integration.post(path, {"expiresAt": "2001-01-01T00:00:00Z"}, expect=400)
    assert [error["pointer"] for error in refusal["errors"]] == ["/expiresAt"]
    path = f"/coupon-books/{book['couponBookId']}/assign"
    body = {"memberId": member["memberId"], "expiredAt": "2001-01-01T00:00:00Z"}
    refusal = organization.administration.post(path, body, expect=400)
    assert [error["pointer"] for error in refusal["errors"]] == ["/expiredAt"]


def test_expired_coupons_can_only_be_used_by_bypassing_restrictions(integration):
    book, member = integration.book("generated"), integration.member()
    integration.assign(member, book, expiresAt="2999-01-01T00:00:00Z", couponData={"seat": 4}, usageData={"till": 1})
    # The coupon as the member's list and as the list of the book show it.
    path = f"/members/{member['loyaltyMemberId']}/coupons"
    [member_coupon] = integration.organization.integration.get(path)["results"]
    assert (member_coupon["expiredAt"], member_coupon["customAttributes"]) == ("2999-01-01T00:00:00Z", {"seat": 4})
    [coupon] = integration.books.surface.get(f"{integration.books.path(book)}/coupons")["results"]
    assert (coupon["expiredAt"], coupon["customAttributes"]) == ("2999-01-01T00:00:00Z", {"seat": 4})
    _let_expire(integration, member)
    assert integration.use(member, book, expect=409) == "/problems/coupon-expired"
    # A new coupon is assigned besides the expired one.
    assert integration.use(member, book, autoAssign=True)["couponId"] != coupon["couponId"]
    assert integration.use(member, book, bypassUsageRestrictions=True)["couponId"] == coupon["couponId"]


def _let_expire(client, member):
    """Let all coupons of the member expire."""
    with client.shop.engine.begin() as db:
        statement = "UPDATE coupon_lots SET expired_at = '2001-01-01T00:00:00Z' WHERE member_id = :member"
        db.execute(text(statement), {"member": member["memberId"]})


def test_auto_assign_follows_the_rules_of_an_assignment(integration):
    book = integration.book(
        "list",
        "ONE",
        maxAssignedPerMember=1,
        **point_prices(integration, assignmentRequiredPoints=4, usageRequiredPoints=2),
    )
    member, poor_member = integration.member(points=6), integration.member()
    assert integration.use(member, book, expect=409) == "/problems/coupon-not-assigned"
    assert integration.use(poor_member, book, autoAssign=True, expect=409) == "/problems/insufficient-balance"
    assert integration.totals(book) == (0, 0)
    usage = integration.use(member, book, autoAssign=True, systemUniqueKey=key())
    assert (usage["updatedTotalAssigned"], usage["updatedTotalUsages"]) == (1, 1)
    # 4 for the assignment and 2 for the use.
    assert integration.balance(member) == 6 - 4 - 2
    assert integration.use(member, book, autoAssign=True, expect=409) == "/problems/coupon-quota"
    free_use = {"autoAssign": True, "pointsOverride": 0}
    assert integration.use(poor_member, book, **free_use, expect=409) == "/problems/coupon-out-of-stock"
    assert integration.use(poor_member, book, **free_use, code="ONE", expect=409) == "/problems/coupon-code-held"


@pytest.fixture
def assign_codes(administration):
    """A function that assigns codes of the book to the member; it returns the usages, or the problem of a refusal."""

    def assign(book, member, *, expect=200, **body):
        path = f"/coupon-books/{book['couponBookId']}/assign"
        body["memberId"] = member["memberId"]
        response = administration.organization.administration.post(path, body, expect=expect)
        return response["couponUsages"] if expect == 200 else response

    return assign


def test_several_codes_are_assigned_to_one_member_at_once(administration, assign_codes):
    book, member = administration.book("list", "B-1", "B-2", "B-3"), administration.member()
    body = {"codes": ["B-3", "B-1"], "systemUniqueKeys": ["x", "y"], "amount": 2, "customAttributes": {"a": 1}}
    usages = assign_codes(book, member, **body)
    assert [usage["code"] for usage in usages] == ["B-3", "B-1"]
    assert [usage["systemUniqueKey"] for usage in usages] == ["x", "y"]
    assert [usage["amountAssigned"] for usage in usages] == [2, 2]
    assert [usage["customAttributes"] for usage in usages] == [{"a": 1}, {"a": 1}]
    # A repeated request returns the same usages.
    assert assign_codes(book, member, **body) == usages
    problem = assign_codes(book, member, numberOfCodes=2, systemUniqueKeys=["x", "z"], expect=409)
    assert problem["type"] == "/problems/key-reused"
    assert administration.totals(book) == (2 * 2, 0)


def test_codes_are_assigned_all_or_none_only_in_strict_mode(administration, assign_codes):
    book, member = administration.book("list", "B-1", "B-2"), administration.member()
    problem = assign_codes(book, member, numberOfCodes=3, strictMode=True, expect=409)
    assert problem["type"] == "/problems/coupon-out-of-stock"
    problem = assign_codes(book, member, codes=["B-9", "B-2"], strictMode=True, expect=404)
    assert problem["type"] == "/problems/unknown-coupon"
    assert administration.totals(book) == (0, 0)
    # If not strict, the codes that exist are assigned, here B-2.
    [usage] = assign_codes(book, member, codes=["B-9", "B-2"], systemUniqueKeys=["v", "w"])
    assert (usage["code"], usage["systemUniqueKey"]) == ("B-2", "w")
    assert assign_codes(book, member, codes=["B-9", "B-2"], systemUniqueKeys=["v", "w"]) == [usage]
    # Only B-1 is free now.
    assert [usage["code"] for usage in assign_codes(book, member, numberOfCodes=5)] == ["B-1"]
    # Without any code to assign, the request is refused in both modes.
    problem = assign_codes(book, member, numberOfCodes=2, expect=409)
    assert problem["type"] == "/problems/coupon-out-of-stock"
    problem = assign_codes(book, member, codes=["B-9", "B-8"], expect=404)
    assert problem["type"] == "/problems/unknown-coupon"


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        (
            {"codes": ["B-1"], "numberOfCodes": 2, "systemUniqueKeys": ["p"]},
            ["/numberOfCodes", "/systemUniqueKeys"],
        ),
        # One hold cannot pay for several codes.
        ({"numberOfCodes": 2, "pendingCaptureLedgerTransactionId": 1}, ["/pendingCaptureLedgerTransactionId"]),
    ],
)
def test_contradicting_fields_of_an_assignment_of_codes_are_refused(administration, assign_codes, fields, pointers):
    book = administration.book("list", "B-1", "B-2")
    problem = assign_codes(book, administration.member(), expect=400, **fields)
    assert [fault["pointer"] for fault in problem["errors"]] == pointers
    assert administration.totals(book) == (0, 0)


def test_a_batch_reports_a_result_for_each_item(administration):
    book = administration.book(
        "list", *(f"C-{n}" for n in range(4)), **point_prices(administration, assignmentRequiredPoints=3)
    )
    ana, ben, cleo = administration.member(points=3), administration.member(), administration.member(points=3)
    path = f"/coupon-books/{book['couponBookId']}/batch-assign"

    def batch(*items, expect=200, **body):
        """Assign a coupon to the member of each item; return the response."""
        return administration.organization.administration.post(path, {"items": list(items), **body}, expect=expect)

    response = batch(
        {"memberId": ana["memberId"], "systemUniqueKey": "b-1"},
        # Ben has no points.
        {"loyaltyMemberId": ben["loyaltyMemberId"], "systemUniqueKey": "b-2"},
        # The first item again, and its key for another member.
        {"memberId": ana["memberId"], "systemUniqueKey": "b-1"},
        {"memberId": cleo["memberId"], "systemUniqueKey": "b-1"},
        # An unknown member, and ids of two members.
        {"memberId": 10**15},
        {"memberId": ana["memberId"], "loyaltyMemberId": ben["loyaltyMemberId"]},
        {"memberId": cleo["memberId"], "loyaltyMemberId": cleo["loyaltyMemberId"]},
    )
    assert (response["successCount"], response["failureCount"], response["totalAttempted"]) == (3, 4, 7)
    assert [result["status"] for result in response["results"]] == [
        "assigned", "failed", "assigned", "failed", "failed", "failed", "assigned",
    ]  # fmt: skip
    assert [result["error"]["type"] for result in response["results"] if "error" in result] == [
        "/problems/insufficient-balance",
        "/problems/key-reused",
        "/problems/unknown-member",
        "/problems/unknown-member",
    ]
    first_assignment, _, repeated_assignment, _, unknown_member_failure, _, _ = response["results"]
    assert first_assignment == repeated_assignment
    assert unknown_member_failure["memberId"] == 10**15
    assert administration.totals(book) == (2, 0)
    repeated_results = batch({"memberId": ana["memberId"], "systemUniqueKey": "b-1"})["results"]
    assert repeated_results == response["results"][:1]
    # A negative price gives points.
    assert batch({"memberId": ben["memberId"]}, pointsOverride=-2)["successCount"] == 1
    assert administration.balance(ben) == 2
    refusal = batch({"systemUniqueKey": "b-9"}, expect=400)
    assert [error["pointer"] for error in refusal["errors"]] == ["/items/0"]
    refusal = batch(*({"memberId": ana["memberId"]} for _ in range(101)), expect=400)
    assert [error["pointer"] for error in refusal["errors"]] == ["/items"]


def test_a_batch_fails_only_the_items_of_erased_members(administration):
    book = administration.book("list", "E-1", "E-2")
    ana, ben = administration.member(), administration.member()
    admin = administration.organization.administration
    admin.delete(f"/members/{ben['memberId']}", expect=200)
    body = {"items": [{"memberId": ben["memberId"]}, {"memberId": ana["memberId"]}]}
    failure, assignment = admin.post(f"/coupon-books/{book['couponBookId']}/batch-assign", body, expect=200)["results"]
    assert (failure["status"], failure["error"]["type"]) == ("failed", "/problems/member-erased")
    assert (assignment["status"], assignment["memberId"]) == ("assigned", ana["memberId"])
    assert administration.totals(book) == (1, 0)


def test_a_coupon_can_be_assigned_and_used_by_its_id(administration):
    book = administration.book("list", "D-1", "D-2")
    member, other_member = administration.member(), administration.member()
    # The newest is first.
    [coupon, _] = administration.books.surface.get(f"{administration.books.path(book)}/coupons")["results"]
    assert coupon["code"] == "D-2"
    path = f"/coupon-books/{book['couponBookId']}/coupons/{coupon['couponId']}"
    post = administration.organization.administration.post
    body = {"memberId": member["memberId"], "systemUniqueKey": key(), "amount": 2, "strictMode": True}
    [assignment] = post(f"{path}/assign", body, expect=200)["couponUsages"]
    assert (assignment["couponId"], assignment["amountAssigned"]) == (coupon["couponId"], 2)
    assert post(f"{path}/assign", body, expect=200)["couponUsages"] == [assignment]
    refusal = post(f"{path}/assign", {"memberId": other_member["memberId"]}, expect=409)
    assert refusal["type"] == "/problems/coupon-code-held"
    use = {"memberId": member["memberId"], "systemUniqueKey": key(), "customAttributes": {"till": 2}}
    usage = post(f"{path}/use", use, expect=200)["couponUsage"]
    assert (usage["couponId"], usage["customAttributes"]) == (coupon["couponId"], {"till": 2})
    assert post(f"{path}/use", use, expect=200)["couponUsage"] == usage
    unknown_member_problem = post(f"{path}/use", {"memberId": 10**15}, expect=404)
    assert unknown_member_problem["type"] == "/problems/unknown-member"
    problem = post(f"/coupon-books/{book['couponBookId']}/coupons/{10**15}/use", {"memberId": 1}, expect=404)
    assert problem["type"] == "/problems/not-found"


def test_a_forced_revert_claws_a_used_coupon_back(administration):
    book, member, other_member = administration.book("list", "E-1"), administration.member(), administration.member()
    assignment = administration.assign(member, book)
    administration.use(member, book)
    assert administration.revert(member, assignment, force=False, expect=409) == "/problems/coupon-assignment-used"
    assert administration.revert(member, assignment, force=True)["amountAssigned"] == -1
    assert administration.totals(book) == (0, 1)
    # A used code is not assigned to another member.
    assert administration.assign(other_member, book, expect=409) == "/problems/coupon-out-of-stock"
    assert administration.assign(other_member, book, code="E-1", expect=409) == "/problems/coupon-code-held"


def test_a_forced_revert_takes_only_what_is_left_of_an_assignment_of_a_cancelled_event(administration):
    book, ana = administration.book(maxAssignedPerMember=2, maxCouponCount=2), administration.member()
    shop, member = administration.shop, ana["loyaltyMemberId"]
    shop.campaign(running(effect("assign-coupon", couponBookKey=book["couponBookKey"], amount=2)))
    result = shop.track_one(event(member))
    [assignment] = shop.integration.get(f"/members/{member}/coupon-usages")["results"]
    usage = administration.use(ana, book)
    administration.use(ana, book)
    # Both coupons are used, so the cancellation takes none; then the revert of one use takes this coupon.
    shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert administration.revert(ana, usage)["amountAssigned"] == -1
    reversal = administration.revert(ana, assignment, force=True)
    assert (reversal["amountAssigned"], reversal["updatedTotalAssigned"]) == (-1, 0)
    assert administration.totals(book) == (0, 1)
    # Of the two coupons of the book, two can be assigned again, since no assignment is left.
    administration.assign(ana, book, amount=2)
    assert administration.assign(ana, book, expect=409) == "/problems/coupon-out-of-stock"


def test_uses_of_a_code_can_be_reverted_individually_or_all_at_once(integration):
    code = "50% off/ñ"
    book, member = integration.book("single", code, **point_prices(integration)), integration.member(points=10)
    integration.assign(member, book, amount=9)

    book_path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}"

    def revert(expect=200, **query):
        """Revert the last use of the code, or all uses; return the response."""
        path = f"{book_path}/coupons/{quote(code, safe='')}/revert"
        return integration.organization.integration.post(path, expect=expect, **query)

    assert revert(expect=409)["type"] == "/problems/coupon-nothing-to-revert"
    first_use, second_use = integration.use(member, book), integration.use(member, book)
    response = revert()
    assert (response["status"], response["couponUsage"]["revertedUsageId"]) == ("success", second_use["couponUsageId"])
    assert [detail["status"] for detail in response["details"]] == ["reverted"]
    # This use gives the member 5 points. Its revert needs them, but all 10 + 5 points are spent then.
    negative_use = integration.use(member, book, pointsOverride=-5)
    integration.shop.take(member["loyaltyMemberId"], 10 + 5)
    response = revert(revertAll=True)
    assert response["status"] == "warning"
    assert [(detail["couponUsageKey"], detail["status"]) for detail in response["details"]] == [
        (negative_use["couponUsageKey"], "failed"),
        (first_use["couponUsageKey"], "reverted"),
    ]
    assert response["details"][0]["error"]["type"] == "/problems/insufficient-balance"
    assert response["couponUsage"]["revertedUsageId"] == first_use["couponUsageId"]
    assert revert(expect=409, revertAll=True)["type"] == "/problems/insufficient-balance"
    integration.shop.give(member["loyaltyMemberId"], 5)
    assert revert(revertAll=True)["status"] == "success"


def test_the_lists_of_a_member_can_be_filtered_ordered_and_paged(integration):
    get = integration.organization.integration.get
    member = integration.member()
    coffee = integration.book("list", "F-1", "F-2", tags=["coffee", "spring"])
    cake = integration.book("codeless", tags=["cake", "spring"])
    assignment_of_f1, assignment_of_f2 = integration.assign(member, coffee), integration.assign(member, coffee)
    assignment_of_cakes = integration.assign(member, cake, amount=2)
    use_of_f1 = integration.use(member, coffee, code="F-1")
    base = f"/members/{member['loyaltyMemberId']}"

    def codes(**query):
        """The codes of the member's coupons, newest first by default."""
        return [result["code"] for result in get(f"{base}/coupons", **query)["results"]]

    assert codes() == [None, "F-2", "F-1"]
    assert codes(notUsedOnly=True) == [None, "F-2"]
    assert codes(couponBookTags="coffee,spring") == ["F-2", "F-1"]
    assert codes(couponBookTags="coffee,cake") == []
    assert codes(couponBookTagsAny="coffee,cake", order="code,asc") == ["F-1", "F-2", None]
    assert codes(couponCode="F-2") == ["F-2"]
    assert codes(couponBookKey=cake["couponBookKey"]) == [None]
    page = get(f"{base}/coupons", limit=1, page=1)
    assert (page["totalCount"], [result["code"] for result in page["results"]]) == (3, ["F-2"])
    [cake_coupon] = get(f"{base}/coupons", couponBookKey=cake["couponBookKey"])["results"]
    assert (cake_coupon["amountAssigned"], cake_coupon["amountUsed"]) == (2, 0)
    assert cake_coupon["couponBook"] == integration.books.get(cake)

    def usage_ids_in_list(**query):
        """The ids of the member's usages, newest first by default."""
        results = get(f"{base}/coupon-usages", **query)["results"]
        return [result["couponUsageId"] for result in results]

    use, cakes, f2, f1 = (
        usage["couponUsageId"] for usage in (use_of_f1, assignment_of_cakes, assignment_of_f2, assignment_of_f1)
    )
    assert usage_ids_in_list() == [use, cakes, f2, f1]
    assert usage_ids_in_list(codes="F-1") == [use, f1]
    assert usage_ids_in_list(codes="F-1,F-2", unusedOnly=True) == [f2]
    assert usage_ids_in_list(unusedOnly=True) == [cakes, f2]
    assert usage_ids_in_list(couponBookTags="spring", couponBookTagsAny="cake,tea") == [cakes]
    assert usage_ids_in_list(couponBookKey=coffee["couponBookKey"], order="couponUsageId,asc") == [f1, f2, use]
    assert usage_ids_in_list(fromCreatedAt="2999-01-01T00:00:00Z") == []
    period = {"fromCreatedAt": assignment_of_f1["createdAt"], "toCreatedAt": "2999-01-01T00:00:00Z"}
    assert usage_ids_in_list(**period) == [use, cakes, f2, f1]
    # A coupon whose assignment is reverted leaves the list.
    integration.revert(member, assignment_of_f2)
    assert codes() == [None, "F-1"]


def test_a_usage_is_found_only_as_one_of_its_member(integration):
    get = integration.organization.integration.get
    member, other_member = integration.member(), integration.member()
    usage = integration.assign(member, integration.book())
    response = get(f"/members/{member['loyaltyMemberId']}/coupon-usages/{usage['couponUsageKey']}")
    assert (response["status"], response["couponUsage"]) == ("success", usage)
    path = f"/members/{other_member['loyaltyMemberId']}/coupon-usages/{usage['couponUsageKey']}"
    assert get(path, expect=404)["type"] == "/problems/not-found"


def test_the_lists_and_totals_of_a_program_can_be_filtered(administration):
    surface = administration.organization.administration
    program = administration.organization.defaults.loyalty_program_id
    body = {"description": "", "setAsDefault": False, "ledgerId": administration.organization.defaults.ledger_id}
    other_program = surface.post("/loyalty-programs", body)["loyaltyProgram"]["loyaltyProgramId"]
    program_key = surface.get(f"/loyalty-programs/{program}")["loyaltyProgram"]["loyaltyProgramKey"]
    member = administration.member()
    program_book = administration.book(
        "list", "G-1", loyaltyProgramKey=program_key, tags=["a", "b"], validToDate="2998-01-01T00:00:00Z"
    )
    book_without_program = administration.book("codeless", tags=["b"], validFromDate="2001-01-01T00:00:00Z")
    assignment = administration.assign(member, program_book)
    administration.assign(member, book_without_program, amount=4)
    administration.use(member, book_without_program)

    def member_path(program_id):
        return f"/loyalty-programs/{program_id}/members/{member['memberId']}"

    def book_ids(program_id=program, **query):
        """The ids of the books of the member's coupons in the program."""
        results = surface.get(f"{member_path(program_id)}/coupons", **query)["results"]
        return [result["couponBookId"] for result in results]

    assert book_ids() == [book_without_program["couponBookId"], program_book["couponBookId"]]
    assert book_ids(other_program) == [book_without_program["couponBookId"]]
    assert book_ids(couponBookId=program_book["couponBookId"]) == [program_book["couponBookId"]]
    assert book_ids(couponCodeId=assignment["couponId"], couponCode="G-1") == [program_book["couponBookId"]]
    assert book_ids(notUsedOnly=True, couponBookTags="a") == [program_book["couponBookId"]]
    assert book_ids(couponBookTagsAny="a,b", order="amountAssigned,desc")[0] == book_without_program["couponBookId"]
    [coupon] = surface.get(f"{member_path(program)}/coupons", couponCode="G-1")["results"]
    assert coupon["couponBook"] == CouponBooks(administration.organization, "administration").get(program_book)

    def totals(program_id=program, **query):
        """(assigned, used): the total amounts of the member's coupons in the program."""
        response = surface.get(f"{member_path(program_id)}/coupon-totals", **query)
        return response["amountAssigned"], response["amountUsed"]

    # One coupon of the program's book, and four of the other book, of which one is used.
    assert totals() == (1 + 4, 1)
    assert totals(other_program) == (4, 1)
    assert totals(tags="a,b") == (1, 0)
    assert totals(tagsAny="a,c") == (1, 0)
    # Books that are valid after the first moment, or before the second one.
    assert totals(validFromDate="2999-01-01T00:00:00Z") == (4, 1)
    assert totals(validToDate="2000-01-01T00:00:00Z") == (1, 0)
    # A range that ends before it begins has no moment.
    assert totals(validFromDate="2026-03-02T00:00:00Z", validToDate="2026-03-02T00:00:00Z") == (5, 1)
    assert totals(validFromDate="2026-03-02T00:00:01Z", validToDate="2026-03-02T00:00:00Z") == (0, 0)


def test_coupons_of_another_organization_cannot_be_assigned_used_or_reverted(client, other_organization):
    foreign_client = CouponClient(other_organization, client.surface)
    foreign_book, foreign_member = foreign_client.book(), foreign_client.member()
    foreign_usage = foreign_client.assign(foreign_member, foreign_book)
    our_member = client.member()
    assert client.assign(our_member, foreign_book, expect=404) == "/problems/not-found"
    assert client.use(our_member, foreign_book, expect=404) == "/problems/not-found"
    assert client.revert(our_member, foreign_usage, expect=404) == "/problems/not-found"
    # The integration names the member in the path, the administration in the body.
    refusal = client.assign(foreign_member, client.book(), expect=404)
    assert refusal == ("/problems/not-found" if client.is_integration else "/problems/unknown-member")


def test_the_points_that_an_item_of_a_batch_earns_pay_for_the_next_item(administration):
    shop, prices = Shop(administration.organization), point_prices(administration, assignmentRequiredPoints=3)
    shop.campaign(running(mint(3)), eventType="coupon-code-assigned")
    book, ana = administration.book("list", "C-1", "C-2", **prices), administration.member(points=3)
    path = f"/coupon-books/{book['couponBookId']}/batch-assign"
    items = [{"memberId": ana["memberId"], "systemUniqueKey": f"b-{number}"} for number in range(2)]
    response = shop.administration.post(path, {"items": items}, expect=200)
    assert [result["status"] for result in response["results"]] == ["assigned", "assigned"]
    assert [result["code"] for result in response["results"]] == ["C-1", "C-2"]
    assert shop.balance(ana["loyaltyMemberId"]) == 3
