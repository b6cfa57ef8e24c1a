"""Every assignment of a coupon is a lot: it has its own expiry and data, and is reverted individually."""

from __future__ import annotations

import pytest

from tests.builders import clock, missions
from tests.builders.campaigns import effect
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import GENERIC, Shop, event, running

# The types of books whose members share one coupon, and its code.
SHARED_CODES = {"single": ["ALL"], "codeless": []}


@pytest.fixture
def movable_clock(monkeypatch):
    """The clock of all calls, which a test can move forward."""
    return clock.install_clock(monkeypatch)


class Member:
    """A member, and one book as the member sees it."""

    def __init__(self, shop, *codes, **settings):
        self.shop = shop
        self.id = shop.member()
        self.book = CouponBooks(shop.organization).make(*codes, **settings)

    def do(self, verb, expect=200, **body):
        """Assign or use a coupon; return the usage, or the type of the problem if `expect` is not 200."""
        path = f"/members/{self.id}/coupon-books/{self.book['couponBookKey']}/{verb}"
        response = self.shop.integration.post(path, body, expect=expect)
        return response["couponUsage"] if expect == 200 else response["type"]

    def assign(self, **body):
        """Assign a coupon; return the usage."""
        return self.do("assign", **body)

    def use(self, **body):
        """Use a coupon; return the usage."""
        return self.do("use", **body)

    def revert(self, usage, expect=200):
        """Revert a usage; return the new usage, or the type of the problem if `expect` is not 200."""
        path = f"/members/{self.id}/coupon-usages/{usage['couponUsageKey']}/revert"
        response = self.shop.integration.post(path, expect=expect)
        return response["couponUsage"] if expect == 200 else response["type"]

    def coupons(self, **query):
        """(assigned amount, used amount, expiry, data) of each coupon of the book in the member's list."""
        path = f"/members/{self.id}/coupons"
        results = self.shop.integration.get(path, couponBookKey=self.book["couponBookKey"], **query)["results"]
        names = ("amountAssigned", "amountUsed", "expiredAt", "customAttributes")
        return [tuple(result[name] for name in names) for result in results]

    def unused_assignment_ids(self):
        """The ids of the assignments that are not used up, newest first."""
        usages = self.shop.integration.get(f"/members/{self.id}/coupon-usages", unusedOnly=True)["results"]
        return [result["couponUsageId"] for result in usages]

    def count(self, is_expired):
        """The number of the member's coupons that have expired, or that have not."""
        return self.shop.integration.get("/coupons", loyaltyMemberId=self.id, expired=is_expired)["totalCount"]


@pytest.fixture(params=SHARED_CODES)
def ana(request, organization):
    """A member, and a book whose members share one coupon."""
    return Member(Shop(organization), *SHARED_CODES[request.param], type=request.param)


def test_each_assignment_has_its_own_expiry(ana, movable_clock):
    soon = movable_clock.moment(days=1)
    short_assignment = ana.assign(expiresAt=soon, couponData={"seat": 1}, amount=2)
    unlimited_assignment = ana.assign(couponData={"seat": 2})
    # One entry for the shared coupon: the amounts of both lots, and the expiry and data of the lot that is used next.
    assert ana.coupons() == [(2 + 1, 0, soon, {"seat": 1})]
    assert ana.unused_assignment_ids() == [unlimited_assignment["couponUsageId"], short_assignment["couponUsageId"]]
    ana.use()
    movable_clock.wait(days=2)
    # One of the two with an expiry is used, the other has expired; the unlimited one is unaffected.
    assert ana.coupons() == [(3, 1, None, {"seat": 2})]
    assert ana.unused_assignment_ids() == [unlimited_assignment["couponUsageId"]]
    assert (ana.count(is_expired=True), ana.count(is_expired=False)) == (0, 1)
    ana.use()
    assert ana.use(expect=409) == "/problems/coupon-expired"
    assert ana.coupons() == [(3, 2, soon, {"seat": 1})]
    assert (ana.coupons(notUsedOnly=True), ana.unused_assignment_ids()) == ([], [])
    assert (ana.count(is_expired=True), ana.count(is_expired=False)) == (1, 0)
    ana.use(bypassUsageRestrictions=True)
    assert ana.use(bypassUsageRestrictions=True, expect=409) == "/problems/coupon-not-assigned"


def test_a_coupon_assigned_after_an_expiry_can_be_used(ana, movable_clock):
    ana.assign(expiresAt=movable_clock.moment(days=1))
    movable_clock.wait(days=2)
    assert ana.use(expect=409) == "/problems/coupon-expired"
    ana.assign()
    movable_clock.wait(days=30)
    ana.use()
    # A longer assignment does not revive the expired one.
    ana.assign(expiresAt=movable_clock.moment(days=9))
    ana.use()
    assert ana.use(expect=409) == "/problems/coupon-expired"


def test_a_revert_of_an_assignment_leaves_the_others_unchanged(ana, movable_clock):
    ana.assign(expiresAt=movable_clock.moment(days=5), couponData={"seat": 1})
    initial_coupons = ana.coupons()
    shorter_assignment = ana.assign(expiresAt=movable_clock.moment(days=1), couponData={"seat": 2})
    # The lot that expires first is used next.
    [(_, _, _, data)] = ana.coupons()
    assert data == {"seat": 2}
    ana.revert(shorter_assignment)
    assert ana.coupons() == initial_coupons
    shorter_assignment = ana.assign(expiresAt=movable_clock.moment(days=1))
    usage = ana.use()
    assert ana.revert(shorter_assignment, expect=409) == "/problems/coupon-assignment-used"
    ana.revert(usage)
    ana.revert(shorter_assignment)
    assert ana.coupons() == initial_coupons


def test_a_reverted_use_returns_to_its_lot(ana, movable_clock):
    ana.assign(expiresAt=movable_clock.moment(days=1))
    ana.assign()
    usage = ana.use()
    movable_clock.wait(days=2)
    # The lot of the reverted use has expired meanwhile, so only the other lot can be used.
    ana.revert(usage)
    ana.use()
    assert ana.use(expect=409) == "/problems/coupon-expired"


def test_an_assigned_coupon_that_has_expired_still_counts_against_the_quota(organization, movable_clock):
    ana = Member(Shop(organization), type="codeless", maxAssignedPerMember=1)

    def reasons():
        """The reasons why the book is excluded for Ana."""
        path = f"/members/{ana.id}/coupon-books"
        [book_entry] = ana.shop.integration.get(path, dryRun=True, couponBookKey=ana.book["couponBookKey"])["results"]
        return [exclusion_reason["code"] for exclusion_reason in book_entry["exclusionReasons"]]

    ana.assign(expiresAt=movable_clock.moment(days=1))
    assert reasons() == []
    movable_clock.wait(days=2)
    assert reasons() == ["coupon-quota"]
    assert ana.do("assign", expect=409) == "/problems/coupon-quota"


def test_a_code_of_one_member_may_have_several_lots(organization, movable_clock):
    ana = Member(Shop(organization), "A", "B", type="list", maxAssignedPerCoupon=5)
    ana.assign(expiresAt=movable_clock.moment(days=1), couponData={"n": 1})
    ana.assign(code="A", expiresAt=movable_clock.moment(days=3), couponData={"n": 2})

    def expiry_and_data():
        """The day of the expiry and the data of code A."""
        coupons = ana.shop.integration.get("/coupons", couponBookKey=ana.book["couponBookKey"], code="A")["results"]
        return coupons[0]["expiredAt"][:10], coupons[0]["customAttributes"]

    last_day = movable_clock.moment(days=3)[:10]
    assert expiry_and_data() == (last_day, {"n": 1})
    ana.use()
    assert expiry_and_data() == (last_day, {"n": 2})
    movable_clock.wait(days=2)
    assert (ana.count(is_expired=True), ana.count(is_expired=False)) == (0, 1)
    ana.use()
    movable_clock.wait(days=2)
    assert ana.use(expect=409) == "/problems/coupon-not-assigned"


def test_the_data_of_a_code_are_those_of_the_unexpired_assignment_that_is_used_next(organization, movable_clock):
    shop = Shop(organization)
    ana = Member(shop, "A", type="list")
    ana.assign(expiresAt=movable_clock.moment(days=1), couponData={"seat": 1})
    ana.assign(code="A", expiresAt=movable_clock.moment(days=3), couponData={"seat": 2})
    movable_clock.wait(days=2)
    ana.assign(code="A", expiresAt=movable_clock.moment(days=9), couponData={"seat": 3})
    [coupon] = shop.integration.get("/coupons", code="A")["results"]
    [(_, _, _, data_of_member_coupon)] = ana.coupons()
    assert (coupon["customAttributes"], data_of_member_coupon) == ({"seat": 2}, {"seat": 2})


def test_a_used_coupon_of_a_cancelled_event_is_clawed_back_when_its_use_is_reverted(organization):
    ana = Member(Shop(organization), type="codeless")
    assignment = effect("assign-coupon", couponBookKey=ana.book["couponBookKey"], amount=2)
    ana.shop.campaign(running(assignment), eventType=GENERIC)
    # The campaign assigns two coupons, of which one or both are used before the cancellation.
    for uses in (1, 2):
        key = ana.shop.track_one(event(ana.id))["loyaltyEventKey"]
        usages = [ana.use() for _ in range(uses)]
        # Only coupons that are not used are clawed back at once.
        ana.shop.integration.post(f"/events/{key}/cancel", {}, expect=200)
        [(assigned_amount, used_amount, _, _)] = ana.coupons()
        assert (assigned_amount, used_amount) == (uses, uses)
        for usage in usages:
            reversal = ana.revert(usage)
            assert (reversal["amountUsed"], reversal["amountAssigned"]) == (-1, -1)
        assert ana.coupons() == []
        assert ana.use(expect=409) == "/problems/coupon-not-assigned"


def test_usages_report_the_code_and_the_book(organization):
    ana = Member(Shop(organization), "A-1", "A-2", type="list")
    path = f"/coupon-books/{ana.book['couponBookId']}"
    member_id = missions.member_id_of(ana.shop, ana.id)
    body = {"items": [{"memberId": member_id}, {"memberId": 10**15}]}
    [assignment, failure] = ana.shop.administration.post(f"{path}/batch-assign", body, expect=200)["results"]
    assert (assignment["code"], assignment["couponBookKey"]) == ("A-1", ana.book["couponBookKey"])
    assert (failure["code"], failure["couponBookKey"]) == (None, None)
    new_assignment, repeated_assignment = (ana.assign(systemUniqueKey="again") for _ in range(2))
    use = ana.use(code="A-2")
    reversal = ana.revert(use)
    [listed_usage, *_] = ana.shop.integration.get(f"/members/{ana.id}/coupon-usages")["results"]
    for usage in (new_assignment, repeated_assignment, use, reversal, listed_usage):
        assert (usage["code"], usage["couponBookKey"]) == ("A-2", ana.book["couponBookKey"])
    member_with_codeless_coupon = Member(ana.shop, type="codeless")
    assert member_with_codeless_coupon.assign()["code"] is None
    codeless_book_key = member_with_codeless_coupon.book["couponBookKey"]
    assert member_with_codeless_coupon.use()["couponBookKey"] == codeless_book_key


def test_effects_and_rewards_report_the_coupon(organization):
    ana = Member(Shop(organization), "E-1", "E-2", "E-3", type="list")
    book_key = ana.book["couponBookKey"]
    actions = [running(effect(name, couponBookKey=book_key)) for name in ("assign-coupon", "use-coupon")]
    ana.shop.campaign(*actions, eventType=GENERIC)
    missions.create(ana.shop, goalCount=1, couponBookKey=book_key)
    [dry_run] = ana.shop.track(event(ana.id), executionMode="dryRun")
    # A dry run does not reveal a code.
    dry_run_coupons = [effect["coupons"][0] for effect in dry_run["effects"]]
    assert [(coupon["code"], coupon["couponUsageKey"], coupon["couponBookKey"]) for coupon in dry_run_coupons] == [
        (None, None, book_key)
    ] * 2
    assert [reward["code"] for reward in dry_run["missions"][0]["rewards"]] == [None]
    tracked_event = event(ana.id)
    result = ana.shop.track_one(tracked_event)
    coupons_by_effect = [effect["coupons"] for effect in result["effects"]]
    usages = ana.shop.integration.get(f"/members/{ana.id}/coupon-usages")["results"]
    amounts_by_usage = {
        usage["couponUsageKey"]: (usage["code"], usage["amountAssigned"], usage["amountUsed"]) for usage in usages
    }
    for [coupon] in coupons_by_effect:
        assert amounts_by_usage[coupon["couponUsageKey"]] == (
            coupon["code"],
            coupon["amountAssigned"],
            coupon["amountUsed"],
        )
        assert coupon["couponBookKey"] == book_key
    [reward] = result["missions"][0]["rewards"]
    assert (reward["couponBookKey"], {reward["code"], coupons_by_effect[0][0]["code"]}) == (book_key, {"E-1", "E-2"})
    # The stored result equals the response.
    assert ana.shop.track_one(tracked_event) == result
    rows = ana.shop.rows("events", "loyalty_event_id, result, event_type")
    stored_results = [row.result for row in rows if row.event_type == GENERIC]
    assert [stored_result["effects"][0]["coupons"] for stored_result in stored_results] == [coupons_by_effect[0]]


def test_coupons_can_be_used_without_a_discount_after_the_discounts_of_the_period_are_used_up(organization):
    ana = Member(Shop(organization), type="codeless", maxDiscountPerPeriod=10, discountPeriodType="monthly")
    ana.assign(amount=9)
    # The whole discount of the month.
    ana.use(amountDiscounted=10)
    ana.use()
    ana.use(amountDiscounted=0)
    assert ana.use(amountDiscounted=0.01, expect=409) == "/problems/coupon-discount-limit"
    ana.use(amountDiscounted=5, bypassUsageRestrictions=True)
    ana.use()


@pytest.mark.slow
def test_reverting_all_uses_reports_the_number_of_remaining_uses(organization):
    ana = Member(Shop(organization), "ALL", type="single")
    ana.assign(amount=105)
    for _ in range(103):
        ana.use()
    path = f"/members/{ana.id}/coupon-books/{ana.book['couponBookKey']}/coupons/ALL/revert"
    assert ana.shop.integration.post(path, expect=200)["remainingUsages"] == 103 - 1
    # One call reverts at most 100 uses.
    response = ana.shop.integration.post(path, expect=200, revertAll=True)
    assert (len(response["details"]), response["remainingUsages"]) == (100, 103 - 1 - 100)
    assert ana.shop.integration.post(path, expect=200, revertAll=True)["remainingUsages"] == 0
