"""Statements about coupons: the same number for one and for many members, codes or uses."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from handlers.services.coupons import assign_and_use, assign_to_members
from handlers.services.coupons.assign_and_use import CouponCommand, CouponRequest
from handlers.services.coupons.assign_to_members import BatchItem
from handlers.services.coupons.revert import UsageToRevert, revert_code, revert_usages
from tests.builders.coupon_shop import CouponShop, priced
from tests.builders.statements import count, rows_fetched, rows_read

TYPES = ("single", "list", "generated", "codeless")


@pytest.fixture(scope="module")
def shop(engine):
    return CouponShop.new(engine)


@pytest.fixture(scope="module")
def members(shop):
    return [shop.member(points=10_000) for _ in range(100)]


def book_of(shop, type_):
    """A book with codes enough for all assignments, each of which costs 1 point."""
    book = shop.book(type_, **priced(shop, assignment_required_points=Decimal(1)), max_assigned_per_member=10**6)
    if type_ in ("single", "list"):
        shop.add_codes(book, [f"S-{n}" for n in range(1 if type_ == "single" else 1500)])
    return book


@pytest.mark.parametrize("type_", TYPES)
def test_a_batch_of_100_members_needs_as_many_statements_as_one_of_2(shop, members, type_):
    book = book_of(shop, type_)

    def batch(size):
        """The number of statements that assign a coupon to each of so many members."""
        items = [BatchItem(member.member_id, None, None) for member in members[:size]]

        def call():
            results = shop.run(lambda call: assign_to_members.assign_to_members(call, book, items, None))
            assert all(result.usage is not None for result in results)

        return count(shop.engine, call)

    batch(1)
    assert batch(2) == batch(20) == batch(100)
    assert batch(100) < 45


@pytest.mark.slow
@pytest.mark.parametrize("type_", TYPES)
def test_a_thousand_codes_for_one_member_need_as_many_statements_as_two(shop, members, type_):
    book = book_of(shop, type_)

    def assign(code_count):
        """The number of statements that assign so many codes to one member."""

        def call():
            assert len(shop.assign(members[0], book, count=code_count)) == code_count

        return count(shop.engine, call)

    assert assign(2) == assign(1000)


def test_reverting_30_uses_of_a_code_needs_as_many_statements_as_reverting_2(shop, members):
    book = shop.book("single", **priced(shop, usage_required_points=Decimal(1)))
    [coupon] = shop.add_codes(book, ["ALL"])
    shop.assign(members[0], book, amount=Decimal(100))

    def revert(use_count):
        """Use the code so many times; return the number of statements that revert these uses."""
        for _ in range(use_count):
            shop.use(members[0], book)

        def call():
            response = shop.run(lambda call: revert_code(call, members[0], coupon, all_of_them=True))
            assert len(response.outcomes) == use_count

        return count(shop.engine, call)

    revert(1)
    assert revert(2) == revert(30)


def member_with_lots(shop, book, lot_count):
    """A member with so many lots of a book: a third each expire after 1 day, after 30 days, and never."""
    member, now = shop.member(points=10_000), shop.now
    for expires_at in (now + timedelta(days=1), now + timedelta(days=30), None):
        shop.assign(member, book, count=lot_count // 3, expires_at=expires_at)
    return member


def measure(shop, act):
    """Act in one transaction: the result, and how many rows it fetched of all tables and read of the coupon lots."""

    def work(call):
        before = rows_read(call.db, "coupon_lots")
        with rows_fetched(call.db) as rows:
            result = act(call)
        return result, sum(rows), rows_read(call.db, "coupon_lots") - before

    return shop.run(work)


@pytest.mark.slow
@pytest.mark.parametrize(("type_", "lot_count"), [("single", 900), ("codeless", 900), ("list", 900)])
def test_a_coupon_reads_as_many_rows_for_a_member_with_3_lots_as_with_many(engine, type_, lot_count):
    shop = CouponShop.new(engine)
    book = book_of(shop, type_)

    def assign(call, member):
        [assignments] = assign_and_use.assign_coupons([call], [CouponRequest(member, book, CouponCommand())])
        return assignments[0]

    def use(call, member, bypass=False):
        [usage] = assign_and_use.use_coupons(
            [call], [CouponRequest(member, book, CouponCommand(bypass_restrictions=bypass))]
        )
        return usage

    def costs(member):
        """Of each step: the rows that it fetched of all tables, and the rows that it read of the coupon lots."""
        assignment, *assignment_rows = measure(shop, lambda call: assign(call, member))
        usage, *use_rows = measure(shop, lambda call: use(call, member))
        # With a bypass, expired lots can be used, too.
        _, *bypass_rows = measure(shop, lambda call: use(call, member, bypass=True))
        _, *use_revert_rows = measure(shop, lambda call: revert_usages([call], [UsageToRevert(usage)]))
        _, *assignment_revert_rows = measure(shop, lambda call: revert_usages([call], [UsageToRevert(assignment)]))
        return assignment_rows, use_rows, bypass_rows, use_revert_rows, assignment_revert_rows

    member_with_few_lots, member_with_many_lots = (member_with_lots(shop, book, number) for number in (3, lot_count))
    # Now the lots that expire after a day have expired.
    shop.now += timedelta(days=2)
    costs_of_few_lots, costs_of_many_lots = costs(member_with_few_lots), costs(member_with_many_lots)
    assert costs_of_few_lots == costs_of_many_lots
    assert all(fetched < 60 and read < 20 for fetched, read in costs_of_few_lots)
    shop.check()
