"""Coupons that many ask for at once: stock, quotas, limits of periods and caps of codes hold exactly."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pytest

from domain.coupons.refusals import OutOfStock
from domain.problems import Conflict
from persistence.coupons import usages
from persistence.engine import create_engine
from tests.builders.coupon_shop import CouponShop, priced
from tests.concurrency.conftest import THREADS
from tests.concurrency.together import together


@pytest.fixture(scope="module")
def busy_engine(settings):
    engine = create_engine(settings.database_url, threads=THREADS, application_name="loyalty-tests-coupons")
    yield engine
    engine.dispose()


@pytest.fixture
def shop(busy_engine):
    """An organization of the test's own, in which every sum must be right in the end."""
    shop = CouponShop.new(busy_engine)
    yield shop
    shop.check()


def outcomes(calls):
    """What became of calls that many threads make: how often each refusal, or "done"."""

    def one(call):
        try:
            call()
        except Conflict as refusal:
            return refusal.slug
        return "done"

    with ThreadPoolExecutor(THREADS) as pool:
        return Counter(pool.map(one, calls))


@pytest.mark.parametrize(
    ("type_", "stock"),
    [("list", {}), ("generated", {"max_coupon_count": 100}), ("codeless", {"max_coupon_count": 100})],
)
def test_a_hundred_coupons_go_to_a_hundred_of_four_hundred_callers(shop, type_, stock):
    book = shop.book(type_, **stock)
    if type_ == "list":
        shop.add_codes(book, [f"CODE-{n}" for n in range(100)])
    members = [shop.member() for _ in range(40)]
    calls = [lambda m=members[n % 40]: shop.assign(m, book) for n in range(400)]
    assert outcomes(calls) == {"done": 100, "coupon-out-of-stock": 300}
    assert shop.stored(book).total_assigned == 100
    if type_ != "codeless":
        assert [coupon.total_assigned for coupon in shop.coupons(book)] == [1] * 100


def test_a_shared_code_is_assigned_up_to_its_cap(shop):
    book = shop.book("single", max_assigned_per_coupon=50)
    shop.add_codes(book, ["ALL"])
    members = [shop.member() for _ in range(20)]
    calls = [lambda m=members[n % 20]: shop.assign(m, book, codes=("ALL",)) for n in range(120)]
    assert outcomes(calls) == {"done": 50, "coupon-out-of-stock": 70}


def test_a_code_of_a_list_that_many_name_goes_to_one(shop):
    book = shop.book("list")
    shop.add_codes(book, ["A", "B", "C"])
    members = [shop.member() for _ in range(THREADS)]
    calls = [lambda m=m, c=c: shop.assign(m, book, codes=(c,)) for m in members for c in "ABC"]
    random.Random(1).shuffle(calls)
    assert outcomes(calls) == {"done": 3, "coupon-code-held": 3 * THREADS - 3}


def test_the_quota_of_a_member_holds(shop):
    book, members = shop.book("generated", max_assigned_per_member=3), [shop.member(), shop.member()]
    calls = [lambda m=members[n % 2]: shop.assign(m, book) for n in range(60)]
    assert outcomes(calls) == {"done": 6, "coupon-quota": 54}


def test_the_limits_of_a_period_hold(shop):
    book = shop.book(max_usages_per_period=5, usage_period_type="daily", timezone="Asia/Tokyo")
    saving = shop.book(max_discount_per_period=Decimal(10), discount_period_type="monthly")
    members = [shop.member(), shop.member()]
    for member in members:
        shop.assign(member, book, amount=Decimal(100))
        shop.assign(member, saving, amount=Decimal(100))
    uses = [lambda m=members[n % 2]: shop.use(m, book) for n in range(60)]
    assert outcomes(uses) == {"done": 10, "coupon-usage-limit": 50}
    savings = [lambda m=members[n % 2]: shop.use(m, saving, amount_discounted=Decimal(3)) for n in range(60)]
    assert outcomes(savings) == {"done": 6, "coupon-discount-limit": 54}


def test_using_and_taking_back_the_assignment_exclude_each_other(shop):
    book = shop.book("list")
    shop.add_codes(book, [f"R-{n}" for n in range(12)])

    def race(member, assigned):
        calls = (lambda: shop.use(member, book)), (lambda: shop.revert(assigned))
        return sorted(together([lambda call=call: next(iter(outcomes([call]))) for call in calls]))

    for _ in range(12):
        member = shop.member()
        [assigned] = shop.assign(member, book)
        assert race(member, assigned) in (["coupon-assignment-used", "done"], ["coupon-not-assigned", "done"])


def test_a_usage_is_reverted_once_and_its_points_come_back_once(shop):
    book = shop.book(**priced(shop, usage_required_points=Decimal(4)))
    member = shop.member(points=4)
    shop.assign(member, book)
    used = shop.use(member, book)
    assert outcomes([lambda: shop.revert(used)] * 20) == {"done": 1, "coupon-usage-reverted": 19}
    assert shop.points(member) == 4


def test_the_same_key_makes_one_usage(shop):
    book = shop.book("generated")
    members = [shop.member(), shop.member()]
    calls = [lambda m=members[n % 2]: shop.assign(m, book, keys=("once",)) for n in range(40)]
    found = outcomes(calls)
    assert found == {"done": 20, "key-reused": 20}
    assert shop.stored(book).total_assigned == 1


def test_codes_that_come_back_go_out_again_under_load(shop):
    book = shop.book("list")
    shop.add_codes(book, [f"T-{n}" for n in range(6)])
    members = [shop.member() for _ in range(12)]

    def visit(member):
        for _ in range(6):
            try:
                [assigned] = shop.assign(member, book)
            except OutOfStock:
                continue
            shop.revert(assigned)

    together([lambda m=m: visit(m) for m in members])
    assert shop.stored(book).total_assigned == 0


def test_lots_assigned_used_and_reverted_at_once(shop):
    """Whatever comes first, each lot has what was taken from it, and nothing that has expired is used."""
    book = shop.book(**priced(shop, assignment_required_points=Decimal(1), usage_required_points=Decimal(1)))
    members = [shop.member(points=1000) for _ in range(3)]
    soon, late = shop.now + timedelta(hours=1), shop.now + timedelta(days=30)
    refused = set()

    def work(number):
        chance, member = random.Random(number), members[number % len(members)]
        made = []
        for _ in range(12):
            call = chance.choice(["assign", "assign", "use", "use", "revert"])
            try:
                if call == "assign":
                    expires_at = chance.choice([None, soon, late])
                    made += shop.assign(member, book, amount=Decimal(chance.randint(1, 3)), expires_at=expires_at)
                elif call == "use":
                    made.append(shop.use(member, book))
                elif made:
                    shop.revert(made.pop(chance.randrange(len(made))), force=chance.random() < 0.2)
            except Conflict as refusal:
                refused.add(refusal.slug)

    together([lambda n=n: work(n) for n in range(THREADS)])
    assert refused <= {"coupon-not-assigned", "coupon-assignment-used"}
    shop.now += timedelta(hours=2)
    alive = """SELECT member_id, sum(amount - amount_used) FROM coupon_lots WHERE organization_id = :org
        AND amount > amount_used AND coalesce(expired_at > :now, true) GROUP BY 1"""
    left_of = dict(shop.ask(alive, now=shop.now))
    left, before = sum(left_of.values()), shop.stored(book).total_usages
    calls = [lambda m=m: shop.use(m, book) for m in members for _ in range(int(left_of.get(m.member_id, 0)) + 3)]
    found = outcomes(calls)
    assert found.pop("done", 0) == left
    assert set(found) <= {"coupon-expired", "coupon-not-assigned"}
    assert shop.stored(book).total_usages == before + left


def test_a_use_and_the_revert_of_one_of_two_lots_exclude_each_other(shop):
    """The lot that expires first is used or reverted; the other one is there for whoever comes second."""
    book = shop.book("single")
    shop.add_codes(book, ["ALL"])

    def race(member, assigned):
        calls = (lambda: shop.use(member, book)), (lambda: shop.revert(assigned))
        return sorted(together([lambda call=call: next(iter(outcomes([call]))) for call in calls]))

    for _ in range(8):
        member = shop.member()
        [assigned] = shop.assign(member, book, expires_at=shop.now + timedelta(days=1))
        [kept] = shop.assign(member, book)
        seen = race(member, assigned)
        taken = shop.ask(
            "SELECT coupon_lot_id FROM coupon_lots WHERE organization_id = :org AND member_id = :member"
            " AND amount_used = 1",
            member=member.member_id,
        )
        if seen == ["done", "done"]:
            assert taken == [(kept.coupon_usage_id,)]
        else:
            assert seen == ["coupon-assignment-used", "done"]
            assert taken == [(assigned.coupon_usage_id,)]


def test_the_last_of_a_lot_is_used_once_and_comes_back_once(shop):
    book, member = shop.book(), shop.member()
    shop.assign(member, book, expires_at=shop.now + timedelta(days=1))
    shop.assign(member, book)
    assert outcomes([lambda: shop.use(member, book)] * 20) == {"done": 2, "coupon-not-assigned": 18}
    uses = shop.ask("SELECT coupon_usage_id FROM coupon_usages WHERE organization_id = :org AND amount_used = 1")
    found = [shop.run(lambda call, each=each: usages.find(call.db, shop.id, each)) for (each,) in uses]
    assert outcomes([lambda u=u: shop.revert(u) for u in found * 6]) == {"done": 2, "coupon-usage-reverted": 10}
    lots = shop.ask("SELECT amount, amount_used FROM coupon_lots WHERE organization_id = :org")
    assert lots == [(1, 0), (1, 0)]
