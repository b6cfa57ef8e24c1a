"""Locks of coupons: who can use a locked coupon, which limits locks count against, and how they end."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import effect
from tests.builders.coupons import CouponBooks
from tests.builders.test_clocks import Clock
from tests.builders.tracking import ORDER_CREATED, Shop, key, order, running

LOCKED, ENDED = "/problems/coupon-locked", "/problems/coupon-lock-ended"
OUT_OF_STOCK, NOT_ASSIGNED = "/problems/coupon-out-of-stock", "/problems/coupon-not-assigned"


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def books(organization):
    return CouponBooks(organization)


class Holder:
    """A member who locks and uses coupons of a book; where a refusal is expected, calls return its type."""

    def __init__(self, shop, book, member=None):
        self.shop, self.book, self.member = shop, book, member or shop.member()
        self.path = f"/members/{self.member}/coupon-books/{book['couponBookKey']}"

    def lock(self, expect=201, **body):
        """Lock a coupon that the member has, or with `autoAssign` one of the stock; return the lock."""
        body = {"systemUniqueKey": key(), **body}
        response = self.shop.integration.post(f"{self.path}/lock", body, expect=expect)
        return response["couponLock"] if expect == 201 else response["type"]

    def use(self, lock=None, expect=200, **body):
        """Use a coupon, with the key of the lock if there is one; return the usage."""
        if lock is not None:
            body["couponLockKey"] = lock["couponLockKey"]
        response = self.shop.integration.post(f"{self.path}/use", body, expect=expect)
        return response["couponUsage"] if expect == 200 else response["type"]

    def assign(self, expect=200, **body):
        """Assign a coupon; return the usage."""
        response = self.shop.integration.post(f"{self.path}/assign", body, expect=expect)
        return response["couponUsage"] if expect == 200 else response["type"]

    def release(self, lock, expect=200):
        """Release the lock; return it."""
        response = self.shop.integration.post(f"/coupon-locks/{lock['couponLockKey']}/release", expect=expect)
        return response["couponLock"] if expect == 200 else response["type"]

    def book_names(self, **query):
        """The names of the books in the member's list."""
        books = self.shop.integration.get(f"/members/{self.member}/coupon-books", **query)["results"]
        return [book["name"] for book in books]

    def listed_and_simulated_reasons(self, **query):
        """The codes of the reasons that exclude the book from the member's list, and in a simulation."""
        query_of_book = {"couponBookKey": self.book["couponBookKey"], "dryRun": True, **query}
        [listed_book] = self.shop.integration.get(f"/members/{self.member}/coupon-books", **query_of_book)["results"]
        body = {"loyaltyMemberId": self.member, "order": {"total": 10}, "include": ["redeem"]}
        simulated_books = self.shop.integration.post("/simulations", body, expect=200)["simulation"]["redeem"]
        [simulated_book] = [book for book in simulated_books if book["couponBookKey"] == self.book["couponBookKey"]]
        listed_reasons, simulated_reasons = (
            [reason["code"] for reason in book["exclusionReasons"]] for book in (listed_book, simulated_book)
        )
        assert (listed_book["eligible"], simulated_book["usable"]) == (not listed_reasons, not simulated_reasons)
        return listed_reasons, simulated_reasons


def test_a_locked_coupon_can_only_be_used_with_its_lock_key(shop, books):
    ana = Holder(shop, books.make("A", type="list"))
    assert ana.lock(expect=409) == NOT_ASSIGNED
    ana.assign()
    lock = ana.lock(code="A")
    assert lock["code"] == "A"
    assert (ana.use(expect=409), ana.lock(expect=409), ana.use(code="A", expect=409)) == (LOCKED, LOCKED, LOCKED)
    usage = ana.use(lock)
    assert (usage["code"], usage["amountUsed"]) == ("A", 1)
    assert (ana.use(lock, expect=409), ana.release(lock, expect=409)) == (ENDED, ENDED)


def test_an_expired_lock_returns_the_coupon_to_the_stock(api):
    clock = Clock.new(api, starts_at="2026-03-02T10:00:00Z")
    shop, books = Shop(clock.organization), CouponBooks(clock.organization)
    book = books.make(type="codeless", maxCouponCount=1)
    ana, ben = Holder(shop, book), Holder(shop, book)
    lock = ana.lock(autoAssign=True, validFor="PT30M")
    assert lock == {"couponLockKey": lock["couponLockKey"], "code": None, "expiresAt": "2026-03-02T10:30:00Z"}
    clock.advance("2026-03-02T10:29:59Z")
    assert ben.lock(expect=409, autoAssign=True) == ben.assign(expect=409) == OUT_OF_STOCK
    clock.advance("2026-03-02T10:30:00Z")
    assert ana.use(lock, expect=409) == ENDED
    assert ben.use(autoAssign=True)["amountUsed"] == 1


def test_reverts_of_a_use_and_its_assignment_free_the_coupon_for_another_lock(api):
    clock = Clock.new(api, starts_at="2026-03-02T10:00:00Z")
    shop, books = Shop(clock.organization), CouponBooks(clock.organization)
    ana = Holder(shop, books.make(type="codeless", maxCouponCount=1))
    usage = ana.use(ana.lock(autoAssign=True))
    assert usage["amountUsed"] == 1
    assert ana.lock(expect=409, autoAssign=True) == OUT_OF_STOCK
    shop.administration.post(f"/coupon-usages/{usage['couponUsageId']}/revert", {}, expect=200)
    usages = shop.integration.get(f"/members/{ana.member}/coupon-usages")["results"]
    [assignment] = [usage for usage in usages if usage["amountAssigned"] > 0]
    shop.administration.post(f"/coupon-usages/{assignment['couponUsageId']}/revert", {}, expect=200)
    # By default a lock lasts 30 minutes.
    assert ana.lock(autoAssign=True)["expiresAt"] == "2026-03-02T10:30:00Z"


def test_a_locked_code_of_a_list_is_reserved_for_its_member(shop, books):
    book = books.make("A", "B", type="list")
    ana, ben = Holder(shop, book), Holder(shop, book)
    lock = ana.lock(code="A", autoAssign=True)
    assert (ben.lock(expect=409, code="A", autoAssign=True), ben.assign(expect=409, code="A")) == (LOCKED, LOCKED)
    assert ben.use(expect=409, code="A", autoAssign=True) == LOCKED
    # B is the only free code.
    assert ben.assign()["code"] == "B"
    assert ben.assign(expect=409) == OUT_OF_STOCK
    # Without a code, a use with autoAssign needs another code than the locked one.
    assert ana.use(expect=409, autoAssign=True) == OUT_OF_STOCK
    assert ana.lock(expect=409, code="A", autoAssign=True) == LOCKED
    assert ana.use(lock, expect=400, code="B") == "/problems/invalid-request"
    assert ana.use(lock)["code"] == "A"


def test_a_code_of_a_list_is_assigned_to_another_member_after_its_lock_was_released(shop, books):
    book = books.make("C", type="list")
    ana, ben = Holder(shop, book), Holder(shop, book)
    lock = ana.lock(autoAssign=True)
    assert lock["code"] == "C"
    assert ben.assign(expect=409) == OUT_OF_STOCK
    assert ana.release(lock) == lock
    assert ben.assign()["code"] == "C"


def test_codes_are_generated_for_locks(shop, books):
    ana = Holder(shop, books.make(type="generated", maxCouponCount=1))
    lock = ana.lock(autoAssign=True)
    assert Holder(shop, ana.book).assign(expect=409) == OUT_OF_STOCK
    assert ana.use(lock)["code"] == lock["code"]
    assert Holder(shop, ana.book).assign(expect=409) == OUT_OF_STOCK


def test_locks_of_a_shared_code_count_against_its_limit(shop, books):
    book = books.make("ALL", type="single", maxAssignedPerCoupon=2)
    ana, ben, eva = (Holder(shop, book) for _ in range(3))
    lock = ana.lock(autoAssign=True, code="ALL")
    # The member has the code, but only the lock can use it.
    assert ana.lock(expect=409, autoAssign=True) == ana.use(expect=409, autoAssign=True) == LOCKED
    # The lock and this assignment reach the limit of 2.
    ben.assign()
    assert eva.lock(expect=409, autoAssign=True) == OUT_OF_STOCK
    ana.release(lock)
    assert eva.lock(autoAssign=True)["code"] == "ALL"


@pytest.mark.parametrize(("book_type", "codes"), [("codeless", ()), ("single", ("ALL",)), ("list", ("A", "B", "C"))])
def test_a_member_can_lock_a_coupon_of_the_stock_and_an_assigned_one_and_use_both(shop, books, book_type, codes):
    ana = Holder(shop, books.make(*codes, type=book_type))
    stock_lock = ana.lock(autoAssign=True)
    ana.assign()
    assignment_lock = ana.lock()
    # The coupon that ana has is locked, but not the one that the first lock keeps.
    assert ana.use(expect=409) == LOCKED
    assert ana.use(stock_lock)["code"] == stock_lock["code"]
    assert ana.use(assignment_lock)["code"] == assignment_lock["code"]
    assert ana.use(expect=409) == NOT_ASSIGNED
    book = shop.administration.get(f"/coupon-books/{ana.book['couponBookId']}")["couponBook"]
    assert (book["totalAssigned"], book["totalUsages"]) == (2, 2)


def test_using_a_lock_on_the_stock_keeps_a_coupon_that_was_assigned_meanwhile(shop, books):
    ana = Holder(shop, books.make(type="codeless", maxCouponCount=2))
    # One of the two coupons is locked, the other one assigned.
    lock = ana.lock(autoAssign=True)
    ana.assign()
    ana.use(lock)
    assert Holder(shop, ana.book).assign(expect=409) == OUT_OF_STOCK
    assert ana.use()["amountUsed"] == 1


def test_locks_count_against_quota_and_limits_of_periods(shop, books):
    quota_holder = Holder(shop, books.make("A", "B", type="list", maxAssignedPerMember=1))
    quota_holder.lock(autoAssign=True)
    assert quota_holder.assign(expect=409) == quota_holder.lock(expect=409, autoAssign=True) == "/problems/coupon-quota"
    daily_holder = Holder(shop, books.make(type="codeless", maxUsagesPerPeriod=2, usagePeriodType="daily"))
    daily_holder.assign(amount=5)
    # The lock and one use are the two uses of the day.
    lock = daily_holder.lock()
    daily_holder.use()
    assert daily_holder.use(expect=409) == daily_holder.lock(expect=409) == "/problems/coupon-usage-limit"
    daily_holder.use(lock)
    assert daily_holder.use(expect=409) == "/problems/coupon-usage-limit"


def test_a_refused_use_keeps_the_lock(shop, books):
    account = shop.organization.defaults.ledger_account_key
    price_settings = {"requiredPointsConfig": {"ledgerAccountKey": account}, "usageRequiredPoints": 3}
    ana = Holder(shop, books.make(type="codeless", maxCouponCount=1, **price_settings))
    lock = ana.lock(autoAssign=True)
    # A use costs 3 points.
    assert ana.use(lock, expect=409) == "/problems/insufficient-balance"
    shop.give(ana.member, 3)
    assert ana.use(lock)["amountUsed"] == 1
    assert shop.balance(ana.member) == 0


def test_lists_with_stock_only_omit_a_book_whose_only_coupon_is_locked(shop, books):
    book = books.make(type="codeless", name="One", maxCouponCount=1)
    ana, ben = Holder(shop, book), Holder(shop, book)
    assert ben.book_names(withStockOnly=True) == ["One"]
    lock = ana.lock(autoAssign=True)
    assert ben.book_names(withStockOnly=True) == []
    ana.release(lock)
    assert ben.book_names(withStockOnly=True) == ["One"]


@pytest.mark.parametrize("book_type", ["codeless", "generated"])
def test_lists_and_simulations_report_that_only_locked_uses_are_left(shop, books, book_type):
    ana = Holder(shop, books.make(type=book_type))
    ana.assign(amount=2)
    locks = [ana.lock()]
    assert ana.listed_and_simulated_reasons() == ([], [])
    locks.append(ana.lock())
    # In a book of personal codes, another code can be assigned.
    is_shared = book_type == "codeless"
    reasons = ["coupon-locked"] if is_shared else []
    assert ana.listed_and_simulated_reasons() == (reasons, reasons)
    if is_shared:
        assert ana.use(autoAssign=True, expect=409) == LOCKED
    else:
        assert ana.use(autoAssign=True)["amountUsed"] == 1
    ana.release(locks[0])
    assert ana.listed_and_simulated_reasons() == ([], [])
    assert ana.use()["amountUsed"] == 1


def test_lists_and_simulations_count_locks_against_stock_quota_and_limits_of_periods(shop, books):
    book = books.make(type="codeless", maxCouponCount=1)
    ana, ben = Holder(shop, book), Holder(shop, book)
    ana.lock(autoAssign=True)
    assert ben.use(autoAssign=True, expect=409) == OUT_OF_STOCK
    assert ben.listed_and_simulated_reasons(withStockOnly=True) == (["coupon-out-of-stock"], ["coupon-out-of-stock"])
    code = Holder(shop, books.make("A", "B", type="list", maxAssignedPerMember=1))
    code.lock(autoAssign=True)
    assert code.use(autoAssign=True, expect=409) == "/problems/coupon-quota"
    assert code.listed_and_simulated_reasons() == (["coupon-quota"], ["coupon-quota"])
    daily = Holder(shop, books.make(type="codeless", maxUsagesPerPeriod=1, usagePeriodType="daily"))
    daily.assign(amount=2)
    daily.lock()
    assert daily.use(expect=409) == "/problems/coupon-usage-limit"
    assert daily.listed_and_simulated_reasons() == (["coupon-usage-limit"], ["coupon-usage-limit"])


def test_a_repeated_key_returns_the_first_lock(shop, books):
    ana = Holder(shop, books.make(type="codeless"))
    body = {"autoAssign": True, "systemUniqueKey": key()}
    first_lock = ana.lock(**body)
    ana.release(first_lock)
    assert ana.lock(**body) == first_lock
    # The default time, written out, is the same request.
    assert ana.lock(**body, validFor="PT30M") == first_lock
    assert ana.lock(expect=409, **{**body, "validFor": "PT1H"}) == "/problems/key-reused"


def test_a_lock_lasts_at_most_seven_days(shop, books):
    ana = Holder(shop, books.make(type="codeless"))
    for duration in ("P8D", "PT0S", "PTT"):
        assert ana.lock(expect=400, autoAssign=True, validFor=duration) == "/problems/invalid-request"
    ana.lock(autoAssign=True, validFor="P7D")


def test_locks_are_shown_in_the_timeline(shop, books):
    ana = Holder(shop, books.make(type="codeless", name="Tea"))
    lock_with_use = ana.lock(autoAssign=True)
    ana.use(lock_with_use)
    released_lock = ana.lock(autoAssign=True)
    ana.release(released_lock)
    active_lock = ana.lock(autoAssign=True)
    rows = shop.integration.get(f"/members/{ana.member}/timeline", kinds="coupon")["results"]
    lock_rows = [(row["text"], row["isReversed"], row["by"] is not None) for row in rows if "couponLock" in row]
    assert lock_rows == [
        (f"The coupon Tea was locked until {active_lock['expiresAt']}.", False, True),
        (f"The coupon Tea was locked until {released_lock['expiresAt']}, and released.", True, True),
        (f"The coupon Tea was locked until {lock_with_use['expiresAt']}, and used.", False, True),
    ]
    assert rows[0]["couponLock"] == {
        "couponLockKey": active_lock["couponLockKey"],
        "couponBookId": ana.book["couponBookId"],
        "couponBookKey": ana.book["couponBookKey"],
        "expiresAt": active_lock["expiresAt"],
        "couponUsageId": None,
    }
    # The assignment and the use of the first lock.
    assert len([row for row in rows if "coupon" in row]) == 2


def test_a_lock_is_unknown_to_other_members_and_books(shop, books):
    ana = Holder(shop, books.make(type="codeless"))
    lock = ana.lock(autoAssign=True)
    assert Holder(shop, ana.book).use(lock, expect=404) == "/problems/unknown-coupon-lock"
    ana_with_other_book = Holder(shop, books.make(type="codeless"), ana.member)
    assert ana_with_other_book.use(lock, expect=404) == "/problems/unknown-coupon-lock"


@pytest.mark.parametrize("way", ["deactivate", "erase"])
def test_locks_end_when_their_member_is_deactivated_or_erased(shop, books, way):
    book = books.make("A", type="list")
    ana, ben = Holder(shop, book), Holder(shop, book)
    lock = ana.lock(autoAssign=True)
    assert ben.assign(expect=409) == OUT_OF_STOCK
    member_id = shop.integration.get(f"/members/{ana.member}")["loyaltyMember"]["memberId"]
    if way == "erase":
        shop.administration.delete(f"/members/{member_id}", expect=200)
    else:
        shop.integration.patch(f"/members/{ana.member}", {"active": False})
    assert ben.assign()["code"] == "A"
    assert ana.release(lock, expect=409) == ("/problems/member-erased" if way == "erase" else ENDED)


def test_cancelling_the_order_that_assigned_a_coupon_reverts_it_despite_its_lock(shop, books):
    book = books.make(type="codeless")
    assignment = effect("assign-coupon", couponBookKey=book["couponBookKey"], amount=1)
    shop.campaign(running(assignment), eventType=ORDER_CREATED)
    holder = Holder(shop, book)
    event_key = shop.track_one(order(holder.member, 10))["loyaltyEventKey"]
    lock = holder.lock()
    shop.integration.post(f"/events/{event_key}/cancel", {}, expect=200)
    assert holder.use(lock, expect=409) == NOT_ASSIGNED
    shop.integration.post(f"/coupon-locks/{lock['couponLockKey']}/release", None, expect=200)
