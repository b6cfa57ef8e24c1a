"""Coupons assigned, used and reverted on both surfaces, and the lists of members' coupons."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy import text

from tests.builders.coupons import CouponBooks
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, key

TYPES = {"single": ["ALL"], "list": ["A-1", "A-2", "A-3"], "generated": [], "codeless": []}


class Counter:
    """Calls of one surface about coupons, in a form common to both; books have a `type` and settings."""

    def __init__(self, organization: Any, surface: str) -> None:
        self.organization = organization
        self.shop = Shop(organization)
        self.books = CouponBooks(organization)
        self.surface = surface
        self.is_integration = surface == "integration"

    def book(self, type_: str = "codeless", *codes: str, **settings: Any) -> Any:
        return self.books.make(*(codes or TYPES[type_]), type=type_, **settings)

    def member(self, points: int = 0, **properties: Any) -> Any:
        member = self.organization.member(**properties)
        if points:
            self.shop.give(member["loyaltyMemberId"], points)
        return member

    def _do(self, verb: str, member: Any, book: Any, body: Any, expect: int) -> Any:
        if self.is_integration:
            path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/{verb}"
            answer = self.organization.integration.post(path, body, expect=expect)
            return answer if expect != 200 else [answer["couponUsage"]]
        path = f"/coupon-books/{book['couponBookId']}/{verb}"
        answer = self.organization.administration.post(path, {"memberId": member["memberId"], **body}, expect=expect)
        return answer if expect != 200 else answer["couponUsages"]

    def assign(self, member: Any, book: Any, *, expect: int = 200, **body: Any) -> Any:
        if not self.is_integration:
            for name, other in (("code", "codes"), ("systemUniqueKey", "systemUniqueKeys")):
                if name in body:
                    body[other] = [body.pop(name)]
            if "expiresAt" in body:
                body["expiredAt"] = body.pop("expiresAt")
        answer = self._do("assign", member, book, body, expect)
        return answer[0] if expect == 200 else answer["type"]

    def use(self, member: Any, book: Any, *, expect: int = 200, **body: Any) -> Any:
        answer = self._do("use", member, book, body, expect)
        return answer[0] if expect == 200 else answer["type"]

    def revert(self, member: Any, usage: Any, *, expect: int = 200, force: bool | None = None) -> Any:
        if self.is_integration:
            path = f"/members/{member['loyaltyMemberId']}/coupon-usages/{usage['couponUsageKey']}/revert"
            answer = self.organization.integration.post(path, expect=expect)
            return answer["couponUsage"] if expect == 200 else answer["type"]
        path = f"/coupon-usages/{usage['couponUsageId']}/revert"
        body = None if force is None else {"forceRevert": force}
        answer = self.organization.administration.post(path, body, expect=expect)
        return answer["couponUsages"][0] if expect == 200 else answer["type"]

    def balance(self, member: Any) -> Any:
        return self.shop.balance(member["loyaltyMemberId"])

    def totals(self, book: Any) -> tuple[Any, Any]:
        stored_book = self.books.get(book)
        return stored_book["totalAssigned"], stored_book["totalUsages"]


@pytest.fixture(params=["integration", "administration"])
def counter(request, organization):
    return Counter(organization, request.param)


@pytest.fixture
def till(organization):
    """The integration surface, which offers more."""
    return Counter(organization, "integration")


@pytest.fixture
def office(organization):
    """The administration surface."""
    return Counter(organization, "administration")


def points(counter, **prices):
    """Settings of a book whose points come from the default account."""
    account = counter.organization.administration.get(f"/ledgers/{counter.organization.created.ledger_id}/accounts")[
        "results"
    ][0]
    return {"requiredPointsConfig": {"ledgerAccountKey": account["ledgerAccountKey"]}, **prices}


@pytest.mark.parametrize("type_", TYPES)
def test_amounts_follow_an_assignment_a_use_and_a_revert(counter, type_):
    book, member = counter.book(type_), counter.member()
    assignment = counter.assign(member, book, externalId="till-4")
    assert (assignment["amountAssigned"], assignment["amountUsed"], assignment["externalId"]) == (1, 0, "till-4")
    assert counter.totals(book) == (1, 0)
    usage = counter.use(member, book)
    assert (usage["amountAssigned"], usage["amountUsed"], usage["couponId"]) == (0, 1, assignment["couponId"])
    assert (usage["updatedTotalAssigned"], usage["updatedTotalUsages"]) == (1, 1)
    assert counter.totals(book) == (1, 1)
    assert counter.use(member, book, expect=409) == "/problems/coupon-not-assigned"
    assert counter.revert(member, assignment, expect=409) == "/problems/coupon-assignment-used"
    reversal = counter.revert(member, usage)
    assert (reversal["amountUsed"], reversal["revertedUsageId"]) == (-1, usage["couponUsageId"])
    assert counter.totals(book) == (1, 0)
    assert counter.revert(member, usage, expect=409) == "/problems/coupon-usage-reverted"
    assert counter.revert(member, reversal, expect=409) == "/problems/coupon-usage-not-revertible"
    counter.use(member, book)
    assert counter.totals(book) == (1, 1)


def test_codes_of_a_list_are_assigned_in_order_and_return_when_reverted(counter):
    book, ana, ben = counter.book("list"), counter.member(), counter.member()
    first, second = counter.assign(ana, book), counter.assign(ben, book)
    assert first["couponId"] < second["couponId"]
    assert counter.assign(ana, book, code="A-3")["couponId"] == second["couponId"] + 1
    assert counter.assign(ben, book, expect=409) == "/problems/coupon-out-of-stock"
    assert counter.assign(ben, book, code="A-1", expect=409) == "/problems/coupon-code-held"
    assert counter.assign(ben, book, code="A-9", expect=404) == "/problems/unknown-coupon"
    assert counter.use(ben, book, code="A-9", expect=404) == "/problems/unknown-coupon"
    assert counter.use(ben, book, code="A-1", expect=409) == "/problems/coupon-not-assigned"
    counter.revert(ana, first)
    assert counter.assign(ben, book, code="A-1")["couponId"] == first["couponId"]


def test_generated_codes_are_all_different_and_follow_the_pattern(counter):
    pattern = {"length": 12, "alphabet": "0123456789", "prefix": "CO-", "suffix": "-X"}
    pattern |= {"length": 13}
    book, member = counter.book("generated", codePattern=pattern), counter.member()
    for _ in range(3):
        counter.assign(member, book)
    codes = [result["code"] for result in counter.books.surface.get(f"{counter.books.path(book)}/coupons")["results"]]
    assert len(set(codes)) == 3
    assert all(code.startswith("CO-") and code.endswith("-X") and code[3:-2].isdigit() for code in codes)


def test_stock_and_quotas_limit_assignments(counter):
    ana, ben = counter.member(), counter.member()
    limited_book = counter.book("codeless", maxCouponCount=2, maxAssignedPerMember=1)
    counter.assign(ana, limited_book)
    assert counter.assign(ana, limited_book, expect=409) == "/problems/coupon-quota"
    assert counter.assign(ben, limited_book, amount=2, expect=409) == "/problems/coupon-out-of-stock"
    counter.assign(ben, limited_book)
    assert counter.assign(counter.member(), limited_book, expect=409) == "/problems/coupon-out-of-stock"
    single = counter.book("single", maxAssignedPerCoupon=3)
    counter.assign(ana, single, amount=2)
    assert counter.assign(ben, single, amount=2, expect=409) == "/problems/coupon-out-of-stock"
    list_book = counter.book("list", "L", maxAssignedPerCoupon=2)
    counter.assign(ana, list_book, code="L", amount=2)
    assert counter.assign(ana, list_book, code="L", expect=409) == "/problems/coupon-out-of-stock"


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
def test_a_closed_book_refuses_assignments_and_uses(counter, restriction, problem):
    member, book = counter.member(), counter.book(**restriction)
    assert counter.assign(member, book, expect=409) == f"/problems/{problem}"
    assert counter.use(member, book, expect=409) == f"/problems/{problem}"


def test_an_archived_book_and_one_of_another_day_refuse_assignments(counter):
    member, book = counter.member(), counter.book()
    counter.assign(member, book)
    counter.books.set_status(book, "archived")
    assert counter.assign(member, book, expect=409) == "/problems/coupon-book-archived"
    assert counter.use(member, book, expect=409) == "/problems/coupon-book-archived"
    # Not today, wherever midnight falls while the test runs.
    other = (datetime.now(UTC) + timedelta(days=3)).isoweekday()
    assert counter.assign(member, counter.book(daysOfWeek=[other]), expect=409) == "/problems/coupon-book-day"


def test_assignments_are_refused_to_other_tiers_other_audiences_and_inactive_members(counter):
    administration, member = counter.organization.administration, counter.member()
    tiers = TierSchedule.new(counter.shop, Gold=1000)
    assert counter.assign(member, counter.book(tierKeys=[tiers.key("Gold")]), expect=409) == (
        "/problems/coupon-book-tier"
    )
    audience = administration.post("/audiences", {"name": "Few", "matcherType": "list-matcher"})["audience"]
    book = counter.book(audienceKeys=[audience["audienceKey"]])
    assert counter.assign(member, book, expect=409) == "/problems/coupon-book-audience"
    administration.patch(f"/audiences/{audience['audienceId']}/members", {"add": [member["memberId"]]})
    counter.assign(member, book)
    sleeping = counter.member(active=False)
    assert counter.assign(sleeping, counter.book(), expect=409) == "/problems/member-inactive"


def test_assignments_and_uses_cost_the_points_of_the_book(counter):
    book = counter.book(**points(counter, assignmentRequiredPoints=10, usageRequiredPoints=5))
    member = counter.member(points=26)
    assignment = counter.assign(member, book, amount=2)
    assert counter.balance(member) == 6
    assert assignment["ledgerTransactionId"] is not None
    usage = counter.use(member, book)
    assert counter.balance(member) == 1
    assert counter.use(member, book, expect=409) == "/problems/insufficient-balance"
    assert counter.assign(member, book, expect=409) == "/problems/insufficient-balance"
    reversal = counter.revert(member, usage)
    assert reversal["ledgerTransactionId"] not in (None, usage["ledgerTransactionId"])
    assert counter.balance(member) == 6
    counter.revert(member, assignment)
    assert counter.balance(member) == 26
    counter.shop.check_ledger()


def test_an_override_replaces_the_points_of_a_book(counter):
    book = counter.book(**points(counter, assignmentRequiredPoints=10, usageRequiredPoints=5))
    member = counter.member(points=3)
    free = counter.assign(member, book, pointsOverride=0, amount=5)
    assert (free["ledgerTransactionId"], counter.balance(member)) == (None, 3)
    negative_use = counter.use(member, book, pointsOverride=-7)
    assert counter.balance(member) == 10
    counter.use(member, book, pointsOverride=8)
    assert counter.balance(member) == 2
    assert counter.use(member, book, pointsOverride=3, expect=409) == "/problems/insufficient-balance"
    # What was minted is spent.
    assert counter.revert(member, negative_use, expect=409) == "/problems/insufficient-balance"
    assert counter.use(member, book, pointsOverride=0.5, expect=400) == "/problems/invalid-request"


def test_a_price_that_rounds_to_nothing_moves_no_points(counter):
    book = counter.book(**points(counter, assignmentRequiredPoints=0.5, usageRequiredPoints=1.5))
    member = counter.member(points=1)
    assert counter.assign(member, book)["ledgerTransactionId"] is None
    assert counter.balance(member) == 1
    assert counter.use(member, book)["ledgerTransactionId"] is not None
    assert counter.balance(member) == 0


def test_a_price_above_all_points_is_the_fault_of_the_amount(till):
    book, member = till.book(**points(till, assignmentRequiredPoints=18446744073709)), till.member()
    path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/assign"
    faults = till.organization.integration.post(path, {"amount": 2}, expect=400)["errors"]
    assert [fault["pointer"] for fault in faults] == ["/amount"]


def test_a_pending_burn_is_captured(counter):
    ledger, account = counter.organization.created.ledger_id, counter.organization.created.ledger_account_id
    book = counter.book(**points(counter, assignmentRequiredPoints=10))
    member, other = counter.member(points=30), counter.member(points=30)

    def hold(of, amount):
        body = {
            "fromWalletId": of["ledgerWalletId"],
            "toWalletId": None,
            "amount": amount,
            "captureMethod": "manual",
        }
        path = f"/ledgers/{ledger}/accounts/{account}/transactions"
        return counter.organization.administration.post(path, body)["transactions"][0]["ledgerTransactionId"]

    pending, theirs = hold(member, 12), hold(other, 12)
    name = "pendingCaptureLedgerTransactionId"
    assert counter.assign(member, book, expect=404, **{name: theirs}) == "/problems/unknown-ledger-transaction"
    assert counter.assign(member, book, expect=404, **{name: 10**15}) == "/problems/unknown-ledger-transaction"
    assert counter.assign(member, book, expect=400, pointsOverride=1, **{name: pending}) == "/problems/invalid-request"
    assignment = counter.assign(member, book, **{name: pending})
    assert assignment["ledgerTransactionId"] == pending
    assert counter.balance(member) == 18
    assert counter.assign(member, book, expect=409, **{name: pending}) == "/problems/not-pending"
    counter.revert(member, assignment)
    assert counter.balance(member) == 30
    counter.shop.check_ledger()


def test_a_repeated_key_returns_the_first_usage(counter):
    book, member, other = counter.book(), counter.member(), counter.member()
    name = key()
    first = counter.assign(member, book, systemUniqueKey=name, amount=3)
    assert first["systemUniqueKey"] == name
    assert counter.assign(member, book, systemUniqueKey=name, amount=3) == first
    assert counter.totals(book) == (3, 0)
    assert counter.assign(member, book, systemUniqueKey=name, expect=409) == "/problems/key-reused"
    assert counter.assign(other, book, systemUniqueKey=name, amount=3, expect=409) == "/problems/key-reused"
    assert counter.use(member, book, systemUniqueKey=name, expect=409) == "/problems/key-reused"
    use_key = key()
    usage = counter.use(member, book, systemUniqueKey=use_key)
    counter.revert(member, usage)
    # The first response is repeated, although the use was reverted since.
    assert counter.use(member, book, systemUniqueKey=use_key) == usage
    assert counter.totals(book) == (3, 0)


def test_uses_and_discounts_are_limited_per_period(till):
    book = till.book(
        timezone="America/Sao_Paulo",
        maxUsagesPerPeriod=2,
        usagePeriodType="monthly",
        maxDiscountPerPeriod=10,
        discountPeriodType="monthly",
        maxDiscountPerUse=8,
    )
    member = till.member()
    till.assign(member, book, amount=9)
    assert till.use(member, book, amountDiscounted=9, expect=409) == "/problems/coupon-discount-too-high"
    usage = till.use(member, book, amountDiscounted=8)
    assert usage["amountDiscounted"] == 8
    assert till.use(member, book, amountDiscounted=3, expect=409) == "/problems/coupon-discount-limit"
    till.use(member, book, amountDiscounted=2)
    assert till.use(member, book, expect=409) == "/problems/coupon-usage-limit"
    till.use(member, book, amountDiscounted=5, bypassUsageRestrictions=True)
    too_high = till.use(member, book, amountDiscounted=9, bypassUsageRestrictions=True, expect=409)
    assert too_high == "/problems/coupon-discount-too-high"


def test_a_revert_gives_the_limits_of_the_period_back(till):
    limits = {
        "maxUsagesPerPeriod": 1,
        "usagePeriodType": "weekly",
        "maxDiscountPerPeriod": 5,
        "discountPeriodType": "daily",
    }
    book, member = till.book(**limits), till.member()
    till.assign(member, book, amount=2)
    usage = till.use(member, book, amountDiscounted=5)
    assert till.use(member, book, expect=409) == "/problems/coupon-usage-limit"
    assert till.revert(member, usage)["amountDiscounted"] == -5
    till.use(member, book, amountDiscounted=5)


def test_expired_coupons_can_only_be_used_by_bypassing_restrictions(till, office):
    book, member = till.book("generated"), till.member()
    path = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/assign"
    past = till.organization.integration.post(path, {"expiresAt": "2001-01-01T00:00:00Z"}, expect=400)
    assert [error["pointer"] for error in past["errors"]] == ["/expiresAt"]
    path = f"/coupon-books/{book['couponBookId']}/assign"
    body = {"memberId": member["memberId"], "expiredAt": "2001-01-01T00:00:00Z"}
    past = office.organization.administration.post(path, body, expect=400)
    assert [error["pointer"] for error in past["errors"]] == ["/expiredAt"]
    till.assign(member, book, expiresAt="2999-01-01T00:00:00Z", couponData={"seat": 4}, usageData={"till": 1})
    [entry] = till.organization.integration.get(f"/members/{member['loyaltyMemberId']}/coupons")["results"]
    assert (entry["expiredAt"], entry["customAttributes"]) == ("2999-01-01T00:00:00Z", {"seat": 4})
    [coupon] = till.books.surface.get(f"{till.books.path(book)}/coupons")["results"]
    assert (coupon["expiredAt"], coupon["customAttributes"]) == ("2999-01-01T00:00:00Z", {"seat": 4})
    _let_expire(till, member)
    assert till.use(member, book, expect=409) == "/problems/coupon-expired"
    # A new coupon is assigned besides the expired one.
    assert till.use(member, book, autoAssign=True)["couponId"] != coupon["couponId"]
    assert till.use(member, book, bypassUsageRestrictions=True)["couponId"] == coupon["couponId"]


def _let_expire(counter, member):
    """Let all coupons of the member expire."""
    with counter.shop.engine.begin() as db:
        statement = "UPDATE coupon_lots SET expired_at = '2001-01-01T00:00:00Z' WHERE member_id = :member"
        db.execute(text(statement), {"member": member["memberId"]})


def test_auto_assign_follows_the_rules_of_an_assignment(till):
    book = till.book(
        "list", "ONE", maxAssignedPerMember=1, **points(till, assignmentRequiredPoints=4, usageRequiredPoints=2)
    )
    member, poor = till.member(points=6), till.member()
    assert till.use(member, book, expect=409) == "/problems/coupon-not-assigned"
    assert till.use(poor, book, autoAssign=True, expect=409) == "/problems/insufficient-balance"
    assert till.totals(book) == (0, 0)
    usage = till.use(member, book, autoAssign=True, systemUniqueKey=key())
    assert (usage["updatedTotalAssigned"], usage["updatedTotalUsages"]) == (1, 1)
    assert till.balance(member) == 0
    assert till.use(member, book, autoAssign=True, expect=409) == "/problems/coupon-quota"
    assert till.use(poor, book, autoAssign=True, pointsOverride=0, expect=409) == "/problems/coupon-out-of-stock"
    assert (
        till.use(poor, book, autoAssign=True, code="ONE", pointsOverride=0, expect=409) == "/problems/coupon-code-held"
    )


def test_several_codes_are_assigned_to_one_member_at_once(office):
    book, member = office.book("list", "B-1", "B-2", "B-3"), office.member()
    path = f"/coupon-books/{book['couponBookId']}/assign"

    def assign(expect=200, **body):
        answer = office.organization.administration.post(path, {"memberId": member["memberId"], **body}, expect=expect)
        return answer["couponUsages"] if expect == 200 else answer

    assert assign(numberOfCodes=4, strictMode=True, expect=409)["type"] == "/problems/coupon-out-of-stock"
    assert office.totals(book) == (0, 0)
    two = assign(codes=["B-3", "B-1"], systemUniqueKeys=["x", "y"], amount=2, customAttributes={"a": 1})
    assert [usage["systemUniqueKey"] for usage in two] == ["x", "y"]
    assert [usage["amountAssigned"] for usage in two] == [2, 2]
    assert [usage["customAttributes"] for usage in two] == [{"a": 1}, {"a": 1}]
    assert assign(codes=["B-3", "B-1"], systemUniqueKeys=["x", "y"], amount=2, customAttributes={"a": 1}) == two
    assert assign(numberOfCodes=2, systemUniqueKeys=["x", "z"], expect=409)["type"] == "/problems/key-reused"
    assert assign(codes=["B-9", "B-8"], expect=404)["type"] == "/problems/unknown-coupon"
    assert assign(codes=["B-9", "B-2"], strictMode=True, expect=404)["type"] == "/problems/unknown-coupon"
    [one] = assign(codes=["B-9", "B-2"], systemUniqueKeys=["v", "w"])
    assert one["systemUniqueKey"] == "w"
    assert assign(codes=["B-9", "B-2"], systemUniqueKeys=["v", "w"]) == [one]
    assert assign(numberOfCodes=2, expect=409)["type"] == "/problems/coupon-out-of-stock"
    faults = assign(codes=["B-1"], numberOfCodes=2, systemUniqueKeys=["p"], expect=400)["errors"]
    assert [fault["pointer"] for fault in faults] == ["/numberOfCodes", "/systemUniqueKeys"]
    office.books.add(book, "B-4", "B-5")
    assert len(assign(numberOfCodes=5)) == 2
    faults = assign(numberOfCodes=2, pendingCaptureLedgerTransactionId=1, expect=400)["errors"]
    assert [fault["pointer"] for fault in faults] == ["/pendingCaptureLedgerTransactionId"]


def test_a_batch_reports_a_result_for_each_item(office):
    book = office.book("list", *(f"C-{n}" for n in range(4)), **points(office, assignmentRequiredPoints=3))
    ana, ben, cleo = office.member(points=3), office.member(), office.member(points=3)
    path = f"/coupon-books/{book['couponBookId']}/batch-assign"

    def batch(*items, expect=200, **body):
        return office.organization.administration.post(path, {"items": list(items), **body}, expect=expect)

    response = batch(
        {"memberId": ana["memberId"], "systemUniqueKey": "b-1"},
        {"loyaltyMemberId": ben["loyaltyMemberId"], "systemUniqueKey": "b-2"},
        {"memberId": ana["memberId"], "systemUniqueKey": "b-1"},
        {"memberId": cleo["memberId"], "systemUniqueKey": "b-1"},
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
    assert response["results"][0] == response["results"][2]
    assert response["results"][4]["memberId"] is not None
    assert response["results"][6]["systemUniqueKey"] is not None
    assert office.totals(book) == (2, 0)
    again = batch({"memberId": ana["memberId"], "systemUniqueKey": "b-1"})["results"]
    assert again == response["results"][:1]
    assert batch({"memberId": ben["memberId"]}, pointsOverride=-2)["successCount"] == 1
    assert office.balance(ben) == 2
    nameless = batch({"systemUniqueKey": "b-9"}, expect=400)
    assert [error["pointer"] for error in nameless["errors"]] == ["/items/0"]
    assert batch(*({"memberId": ana["memberId"]} for _ in range(101)), expect=400)["status"] == 400


def test_a_chosen_coupon_is_assigned(office):
    book, member, other = office.book("list", "D-1", "D-2"), office.member(), office.member()
    [second, first] = office.books.surface.get(f"{office.books.path(book)}/coupons")["results"]
    assert (first["code"], second["code"]) == ("D-1", "D-2")
    path = f"/coupon-books/{book['couponBookId']}/coupons/{second['couponId']}"
    post = office.organization.administration.post
    body = {"memberId": member["memberId"], "systemUniqueKey": key(), "amount": 2, "strictMode": True}
    [assignment] = post(f"{path}/assign", body, expect=200)["couponUsages"]
    assert (assignment["couponId"], assignment["amountAssigned"]) == (second["couponId"], 2)
    assert post(f"{path}/assign", body, expect=200)["couponUsages"] == [assignment]
    refusal = post(f"{path}/assign", {"memberId": other["memberId"]}, expect=409)
    assert refusal["type"] == "/problems/coupon-code-held"
    use = {"memberId": member["memberId"], "systemUniqueKey": key(), "customAttributes": {"till": 2}}
    usage = post(f"{path}/use", use, expect=200)["couponUsage"]
    assert (usage["couponId"], usage["customAttributes"]) == (second["couponId"], {"till": 2})
    assert post(f"{path}/use", use, expect=200)["couponUsage"] == usage
    unknown = post(f"{path}/use", {"memberId": 10**15}, expect=404)
    assert unknown["type"] == "/problems/unknown-member"
    problem = post(f"/coupon-books/{book['couponBookId']}/coupons/{10**15}/use", {"memberId": 1}, expect=404)
    assert problem["type"] == "/problems/not-found"


def test_a_forced_revert_takes_back_a_used_coupon(office):
    book, member, other = office.book("list", "E-1"), office.member(), office.member()
    assignment = office.assign(member, book)
    office.use(member, book)
    assert office.revert(member, assignment, force=False, expect=409) == "/problems/coupon-assignment-used"
    assert office.revert(member, assignment, force=True)["amountAssigned"] == -1
    assert office.totals(book) == (0, 1)
    # A used code is not assigned to another member.
    assert office.assign(other, book, expect=409) == "/problems/coupon-out-of-stock"
    assert office.assign(other, book, code="E-1", expect=409) == "/problems/coupon-code-held"


def test_uses_of_a_code_can_be_reverted_individually_or_all_at_once(till):
    code = "50% off/ñ"
    book, member = till.book("single", code, **points(till)), till.member(points=10)
    till.assign(member, book, amount=9)

    def revert(expect=200, **query):
        path = (
            f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/coupons/{quote(code, safe='')}"
        )
        return till.organization.integration.post(f"{path}/revert", expect=expect, **query)

    assert revert(expect=409)["type"] == "/problems/coupon-nothing-to-revert"
    first, second = till.use(member, book), till.use(member, book)
    one = revert()
    assert (one["status"], one["couponUsage"]["revertedUsageId"]) == ("success", second["couponUsageId"])
    assert [detail["status"] for detail in one["details"]] == ["reverted"]
    negative_use = till.use(member, book, pointsOverride=-5)
    till.shop.give(member["loyaltyMemberId"], 15, "burn")
    all_of_them = revert(revertAll=True)
    assert all_of_them["status"] == "warning"
    assert [(detail["couponUsageKey"], detail["status"]) for detail in all_of_them["details"]] == [
        (negative_use["couponUsageKey"], "failed"),
        (first["couponUsageKey"], "reverted"),
    ]
    assert all_of_them["details"][0]["error"]["type"] == "/problems/insufficient-balance"
    assert all_of_them["couponUsage"]["revertedUsageId"] == first["couponUsageId"]
    assert revert(expect=409, revertAll=True)["type"] == "/problems/insufficient-balance"
    till.shop.give(member["loyaltyMemberId"], 5)
    assert revert(revertAll=True)["status"] == "success"


def test_the_lists_of_a_member_can_be_filtered_ordered_and_paged(till):
    integration = till.organization.integration
    member = till.member()
    coffee = till.book("list", "F-1", "F-2", tags=["coffee", "spring"])
    cake = till.book("codeless", tags=["cake", "spring"])
    first, second = till.assign(member, coffee), till.assign(member, coffee)
    till.assign(member, cake, amount=2)
    usage = till.use(member, coffee, code="F-1")
    base = f"/members/{member['loyaltyMemberId']}"

    def codes(**query):
        return [result["code"] for result in integration.get(f"{base}/coupons", **query)["results"]]

    assert codes() == [None, "F-2", "F-1"]
    assert codes(notUsedOnly=True) == [None, "F-2"]
    assert codes(couponBookTags="coffee,spring") == ["F-2", "F-1"]
    assert codes(couponBookTags="coffee,cake") == []
    assert codes(couponBookTagsAny="coffee,cake", order="code,asc") == ["F-1", "F-2", None]
    assert codes(couponCode="F-2") == ["F-2"]
    assert codes(couponBookKey=cake["couponBookKey"]) == [None]
    page = integration.get(f"{base}/coupons", limit=1, page=1)
    assert (page["totalCount"], [result["code"] for result in page["results"]]) == (3, ["F-2"])
    [entry] = integration.get(f"{base}/coupons", couponBookKey=cake["couponBookKey"])["results"]
    assert (entry["amountAssigned"], entry["amountUsed"]) == (2, 0)
    assert entry["couponBook"] == till.books.get(cake)

    def usages(**query):
        results = integration.get(f"{base}/coupon-usages", **query)["results"]
        return [result["couponUsageId"] for result in results]

    usage_ids = usages()
    assert (usage_ids[0], usage_ids[-1], len(usage_ids)) == (usage["couponUsageId"], first["couponUsageId"], 4)
    assert usages(codes="F-1") == [usage["couponUsageId"], first["couponUsageId"]]
    assert usages(codes="F-1,F-2", unusedOnly=True) == [second["couponUsageId"]]
    assert len(usages(unusedOnly=True)) == 2
    assert len(usages(couponBookTags="spring", couponBookTagsAny="cake,tea")) == 1
    assert usages(couponBookKey=coffee["couponBookKey"], order="couponUsageId,asc")[0] == first["couponUsageId"]
    assert usages(fromCreatedAt="2999-01-01T00:00:00Z") == []
    assert len(usages(toCreatedAt="2999-01-01T00:00:00Z", fromCreatedAt=first["createdAt"])) == 4
    one = integration.get(f"{base}/coupon-usages/{usage['couponUsageKey']}")
    assert (one["status"], one["couponUsage"]) == ("success", usage)
    other = till.member()
    path = f"/members/{other['loyaltyMemberId']}/coupon-usages/{usage['couponUsageKey']}"
    assert integration.get(path, expect=404)["type"] == "/problems/not-found"
    till.revert(member, second)
    assert codes() == [None, "F-1"]


def test_the_lists_and_totals_of_a_program_can_be_filtered(office):
    administration = office.organization.administration
    program = office.organization.created.loyalty_program_id
    other = administration.post(
        "/loyalty-programs",
        {"description": "", "setAsDefault": False, "ledgerId": office.organization.created.ledger_id},
    )
    other = other["loyaltyProgram"]["loyaltyProgramId"]
    key_of = administration.get(f"/loyalty-programs/{program}")["loyaltyProgram"]["loyaltyProgramKey"]
    member = office.member()
    ours = office.book("list", "G-1", loyaltyProgramKey=key_of, tags=["a", "b"], validToDate="2998-01-01T00:00:00Z")
    free = office.book("codeless", tags=["b"], validFromDate="2001-01-01T00:00:00Z")
    assignment = office.assign(member, ours)
    office.assign(member, free, amount=4)
    office.use(member, free)

    def base(of):
        return f"/loyalty-programs/{of}/members/{member['memberId']}"

    def book_ids(of=program, **query):
        results = administration.get(f"{base(of)}/coupons", **query)["results"]
        return [result["couponBookId"] for result in results]

    assert book_ids() == [free["couponBookId"], ours["couponBookId"]]
    assert book_ids(other) == [free["couponBookId"]]
    assert book_ids(couponBookId=ours["couponBookId"]) == [ours["couponBookId"]]
    assert book_ids(couponCodeId=assignment["couponId"], couponCode="G-1") == [ours["couponBookId"]]
    assert book_ids(notUsedOnly=True, couponBookTags="a") == [ours["couponBookId"]]
    assert book_ids(couponBookTagsAny="a,b", order="amountAssigned,desc")[0] == free["couponBookId"]
    [entry] = administration.get(f"{base(program)}/coupons", couponCode="G-1")["results"]
    assert entry["couponBook"] == CouponBooks(office.organization, "administration").get(ours)

    def totals(of=program, **query):
        answer = administration.get(f"{base(of)}/coupon-totals", **query)
        return answer["amountAssigned"], answer["amountUsed"]

    assert totals() == (5, 1)
    assert totals(other) == (4, 1)
    assert totals(tags="a,b") == (1, 0)
    assert totals(tagsAny="a,c") == (1, 0)
    assert totals(validFromDate="2999-01-01T00:00:00Z") == (4, 1)
    assert totals(validToDate="2000-01-01T00:00:00Z") == (1, 0)


def test_coupons_of_another_organization_are_out_of_reach(counter, other_organization):
    theirs = Counter(other_organization, counter.surface)
    book, member = theirs.book(), theirs.member()
    usage = theirs.assign(member, book)
    own_member = counter.member()
    assert counter.assign(own_member, book, expect=404) == "/problems/not-found"
    assert counter.use(own_member, book, expect=404) == "/problems/not-found"
    assert counter.revert(own_member, usage, expect=404) == "/problems/not-found"
    assert counter.assign(member, counter.book(), expect=404) in ("/problems/not-found", "/problems/unknown-member")
