"""Lots of coupons that are assigned, used and reverted at the same time, and of which some expire."""

from __future__ import annotations

import random
from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest

from domain.problems import Conflict
from persistence.coupons.usages import USAGES
from tests.builders.coupon_shop import priced
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import outcomes, race, run_simultaneously

TURNS = 8


@pytest.fixture
def shop(coupon_shop):
    return coupon_shop


def lots_of(shop, member):
    """The assigned and the used amount of each lot of the member, in the order of the assignments."""
    statement = """SELECT amount, amount_used FROM coupon_lots WHERE organization_id = :org AND member_id = :member
        ORDER BY coupon_lot_id"""
    return shop.ask(statement, member=member.member_id)


def test_lots_assigned_used_and_reverted_at_once_agree_with_their_book(shop):
    """In any order, no expired coupon is used, and all remaining ones can be used afterwards."""
    book = shop.book(**priced(shop, assignment_required_points=Decimal(1), usage_required_points=Decimal(1)))
    members = [shop.member(points=1000) for _ in range(3)]
    soon, late = shop.now + timedelta(hours=1), shop.now + timedelta(days=30)
    refusals = set()

    def work(number):
        chance, member = random.Random(number), members[number % len(members)]
        usages = []
        for _ in range(8):
            call = chance.choice(["assign", "assign", "use", "use", "revert"])
            try:
                if call == "assign":
                    expires_at = chance.choice([None, soon, late])
                    usages += shop.assign(member, book, amount=Decimal(chance.randint(1, 3)), expires_at=expires_at)
                elif call == "use":
                    usages.append(shop.use(member, book))
                elif usages:
                    shop.revert(usages.pop(chance.randrange(len(usages))), force=chance.random() < 0.2)
            except Conflict as refusal:
                refusals.add(refusal.slug)

    run_simultaneously([lambda n=n: work(n) for n in range(THREADS)])
    assert refusals <= {"coupon-not-assigned", "coupon-assignment-used"}
    shop.now += timedelta(hours=2)
    statement = """SELECT member_id, sum(amount - amount_used) FROM coupon_lots WHERE organization_id = :org
        AND amount > amount_used AND coalesce(expired_at > :now, true) GROUP BY 1"""
    unused_amounts = dict(shop.ask(statement, now=shop.now))
    remaining_uses, usages_before = sum(unused_amounts.values()), shop.find_book(book).total_usages
    # Each member tries three uses more than there are coupons.
    calls = [
        lambda member=member: shop.use(member, book)
        for member in members
        for _ in range(int(unused_amounts.get(member.member_id, 0)) + 3)
    ]
    counts = outcomes(calls)
    assert counts.pop("done", 0) == remaining_uses
    assert set(counts) <= {"coupon-expired", "coupon-not-assigned"}
    assert shop.find_book(book).total_usages == usages_before + remaining_uses


def test_a_use_and_the_revert_of_one_of_two_lots_exclude_each_other(shop):
    """The use takes the lot that expires first, unless it is already reverted: then it takes the other lot."""
    book = shop.book("single")
    shop.add_codes(book, ["ALL"])

    for _ in range(8):
        member = shop.member()
        [assignment] = shop.assign(member, book, expires_at=shop.now + timedelta(days=1))
        [other_assignment] = shop.assign(member, book)
        results = race(lambda m=member: shop.use(m, book), lambda a=assignment: shop.revert(a))
        used_lots = shop.ask(
            "SELECT coupon_lot_id FROM coupon_lots WHERE organization_id = :org AND member_id = :member"
            " AND amount_used = 1",
            member=member.member_id,
        )
        if results == ("done", "done"):
            assert used_lots == [(other_assignment.coupon_usage_id,)]
        else:
            assert results == ("done", "coupon-assignment-used")
            assert used_lots == [(assignment.coupon_usage_id,)]


def test_each_lot_of_one_coupon_is_used_only_once_and_returned_only_once(shop):
    book, member = shop.book(), shop.member()
    shop.assign(member, book, expires_at=shop.now + timedelta(days=1))
    shop.assign(member, book)
    assert outcomes([lambda: shop.use(member, book)] * 20) == {"done": 2, "coupon-not-assigned": 18}
    uses = shop.ask("SELECT coupon_usage_id FROM coupon_usages WHERE organization_id = :org AND amount_used = 1")
    usages = [shop.run(lambda call, usage_id=usage_id: USAGES.find(call.db, shop.id, usage_id)) for (usage_id,) in uses]
    # Six calls revert each of the two usages.
    reverts = [partial(shop.revert, usage) for usage in usages * 6]
    assert outcomes(reverts) == {"done": 2, "coupon-usage-reverted": 10}
    lots = shop.ask("SELECT amount, amount_used FROM coupon_lots WHERE organization_id = :org")
    assert lots == [(1, 0), (1, 0)]


def test_a_use_during_an_assignment_comes_before_or_after_it(shop):
    book = shop.book()
    for _ in range(TURNS):
        member = shop.member()
        results = race(lambda m=member: shop.assign(m, book), lambda m=member: shop.use(m, book))
        assert results in (("done", "done"), ("done", "coupon-not-assigned"))
        used_amount = 1 if results[1] == "done" else 0
        assert lots_of(shop, member) == [(1, used_amount)]


def test_a_use_takes_the_soonest_to_expire_of_the_lots_that_were_assigned_before_it(shop):
    book, soon = shop.book(), shop.now + timedelta(days=1)
    for _ in range(TURNS):
        member = shop.member()
        shop.assign(member, book)
        results = race(lambda m=member: shop.use(m, book), lambda m=member: shop.assign(m, book, expires_at=soon))
        assert results == ("done", "done")
        # One of the two lots was used.
        assert lots_of(shop, member) in ([(1, 1), (1, 0)], [(1, 0), (1, 1)])
        # The other lot is used next, and then none is left.
        assert outcomes([lambda m=member: shop.use(m, book)] * 3) == {"done": 1, "coupon-not-assigned": 2}


def test_an_assignment_is_reverted_only_after_its_use_was_reverted(shop):
    book = shop.book(**priced(shop, assignment_required_points=Decimal(2), usage_required_points=Decimal(1)))
    for _ in range(TURNS):
        member = shop.member(points=3)
        [assignment] = shop.assign(member, book)
        usage = shop.use(member, book)
        results = race(lambda u=usage: shop.revert(u), lambda a=assignment: shop.revert(a))
        assert results in (("done", "done"), ("done", "coupon-assignment-used"))
        is_assignment_reverted = results[1] == "done"
        # The member paid 2 of its 3 points for the assignment and 1 for the use.
        if is_assignment_reverted:
            assert lots_of(shop, member) == [(0, 0)]
            assert shop.points(member) == 3
        else:
            assert lots_of(shop, member) == [(1, 0)]
            assert shop.points(member) == 3 - 2


def test_the_revert_of_a_use_leaves_one_coupon_for_another_use(shop):
    book = shop.book()
    for _ in range(TURNS):
        member = shop.member()
        shop.assign(member, book, expires_at=shop.now + timedelta(days=1))
        usage = shop.use(member, book)
        results = race(lambda u=usage: shop.revert(u), lambda m=member: shop.use(m, book))
        assert results in (("done", "done"), ("done", "coupon-not-assigned"))
        used_amount = 1 if results[1] == "done" else 0
        assert lots_of(shop, member) == [(1, used_amount)]


def test_a_forced_revert_wins_over_a_use_and_leaves_nothing_to_use(shop):
    book = shop.book()
    for _ in range(TURNS):
        member = shop.member()
        [assignment] = shop.assign(member, book)
        results = race(lambda a=assignment: shop.revert(a, force=True), lambda m=member: shop.use(m, book))
        assert results in (("done", "done"), ("done", "coupon-not-assigned"))
        used_amount = 1 if results[1] == "done" else 0
        assert lots_of(shop, member) == [(0, used_amount)]
        assert outcomes([lambda m=member: shop.use(m, book)]) == {"coupon-not-assigned": 1}


def test_uses_that_are_reverted_at_the_same_time_return_each_to_its_own_lot(shop):
    book, member = shop.book(), shop.member()
    # Six lots of 2 coupons; the later a lot is assigned, the sooner it expires.
    for days in range(6, 0, -1):
        shop.assign(member, book, amount=Decimal(2), expires_at=shop.now + timedelta(days=days))
    usages = [shop.use(member, book) for _ in range(12)]
    assert lots_of(shop, member) == [(2, 2)] * 6
    # Two calls revert each usage.
    assert outcomes([lambda usage=usage: shop.revert(usage) for usage in usages * 2]) == {
        "done": 12,
        "coupon-usage-reverted": 12,
    }
    assert lots_of(shop, member) == [(2, 0)] * 6


def test_no_lot_is_used_from_the_moment_of_its_expiry_on(shop):
    """Half of the calls are made before three lots expire, and half at that moment; two more lots never expire."""
    book, member = shop.book(), shop.member()
    expiry = shop.now + timedelta(hours=1)
    for expires_at in (expiry, None, expiry, None, expiry):
        shop.assign(member, book, expires_at=expires_at)

    def use_at(moment):
        shop.use(member, book, now=moment)

    calls = [
        lambda moment=moment: use_at(moment)
        for moment in (expiry - timedelta(microseconds=1), expiry)
        for _ in range(10)
    ]
    random.Random(7).shuffle(calls)
    counts = outcomes(calls)
    # The ten calls before the expiry are enough to use the five lots.
    assert counts.pop("done") == 5
    assert set(counts) <= {"coupon-expired", "coupon-not-assigned"}
    late_uses = """SELECT count(*) FROM coupon_usages u JOIN coupon_lots l USING (organization_id, coupon_lot_id)
        WHERE u.organization_id = :org AND u.amount_used > 0 AND u.created_at >= l.expired_at"""
    assert shop.ask(late_uses) == [(0,)]


def test_a_coupon_whose_use_is_reverted_after_its_lot_expired_is_not_used_again(shop):
    """A coupon that is reverted after its lot expired returns to that lot, which cannot be used."""
    book, expiry = shop.book(), shop.now + timedelta(hours=1)
    for _ in range(TURNS):
        member = shop.member()
        shop.assign(member, book, expires_at=expiry)
        usage = shop.use(member, book)

        def use_late(m=member):
            return shop.use(m, book, now=expiry)

        results = race(lambda u=usage: shop.revert(u), use_late)
        assert results in (("done", "coupon-expired"), ("done", "coupon-not-assigned"))
        assert lots_of(shop, member) == [(1, 0)]


@pytest.mark.parametrize(
    ("type_", "rules", "refusal"),
    [
        ("codeless", {"max_assigned_per_member": 10}, "coupon-quota"),
        ("codeless", {"max_coupon_count": 10}, "coupon-out-of-stock"),
        ("single", {"max_assigned_per_coupon": 10}, "coupon-out-of-stock"),
    ],
)
def test_an_assignment_of_3_that_would_exceed_the_limit_of_10_is_refused_and_one_of_1_is_not(
    shop, type_, rules, refusal
):
    book, member = shop.book(type_, **rules), shop.member()
    if type_ == "single":
        shop.add_codes(book, ["ALL"])
    moments = [None, shop.now + timedelta(days=1), shop.now + timedelta(days=2)]
    calls = [
        lambda n=n: shop.assign(member, book, amount=Decimal(3), expires_at=moments[n % len(moments)])
        for n in range(20)
    ]
    # Three assignments of 3 make 9, and one of 1 makes 10.
    assert outcomes(calls) == {"done": 3, refusal: 17}
    assert lots_of(shop, member) == [(3, 0)] * 3
    assert outcomes([lambda: shop.assign(member, book)] * 5) == {"done": 1, refusal: 4}


def test_a_coupon_that_a_revert_returns_to_the_quota_is_assigned_only_once(shop):
    book = shop.book(max_assigned_per_member=2)
    for _ in range(TURNS):
        member = shop.member()
        [first_assignment] = shop.assign(member, book, expires_at=shop.now + timedelta(days=1))
        shop.assign(member, book)
        more_assignments = [lambda m=member: shop.assign(m, book)] * 3
        revert_result, *results = race(lambda f=first_assignment: shop.revert(f), *more_assignments)
        assert revert_result == "done"
        assert sorted(results) in (["coupon-quota", "coupon-quota", "done"], ["coupon-quota"] * 3)
        # The assignment that was not reverted, and the new one, if any.
        assert sum(amount for amount, _ in lots_of(shop, member)) == 1 + results.count("done")
