"""Coupon books on PostgreSQL and a simple model: after random steps, both have the same state."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import Engine

from domain.problems import Refusal
from persistence.coupons import member_coupons, usages
from persistence.coupons.member_books import find_amounts
from tests.builders.coupon_shop import CouponShop, priced
from tests.machines.coupon_model import Model, PeriodLimit, Refused
from tests.machines.effects import Effects

MEMBERS, BOOKS = 3, 3
ALL = {"limit": 1000}
STEPS_BETWEEN_CHECKS = 8

# Shortly before changes of the clocks, a leap day and the end of a month.
STARTS = (
    datetime(2026, 3, 7, 20, tzinfo=UTC),
    datetime(2026, 10, 24, 20, tzinfo=UTC),
    datetime(2028, 2, 28, 12, tzinfo=UTC),
    datetime(2026, 3, 31, 9, tzinfo=UTC),
)
ZONES = ("America/New_York", "Asia/Tokyo", "Europe/Lisbon", "UTC")
PERIODS = ("daily", "weekly", "monthly")

limits = st.none() | st.builds(PeriodLimit, st.sampled_from(PERIODS), st.integers(1, 4))
rules = st.builds(
    SimpleNamespace,
    type=st.sampled_from(["single", "list", "list", "generated", "codeless"]),
    stock=st.sampled_from([None, None, 3, 6]),
    quota=st.sampled_from([None, None, 2, 4]),
    cap=st.sampled_from([None, None, 2, 5]),
    uses=limits,
    discounts=limits,
    zone=st.sampled_from(ZONES),
    most=st.sampled_from([None, None, 2]),
    assignment=st.sampled_from([0, 0, 3]),
    use=st.sampled_from([0, 0, 2]),
)
members, books = st.integers(0, MEMBERS - 1), st.integers(0, BOOKS - 1)
overrides = st.sampled_from([None, None, None, 0, 4, -5])
rarely = st.sampled_from([False, False, False, True])

EFFECTS = ("add codes", "disabled book", "published book", "assign", "use", "revert", "expire")


class Coupons(RuleBasedStateMachine):
    """Each step is one call of the product and of the model, which have to agree."""

    engine: Engine
    effects: Effects

    @initialize(
        book_rules=st.lists(rules, min_size=BOOKS, max_size=BOOKS),
        start=st.sampled_from(STARTS),
        points=st.lists(st.sampled_from([0, 5, 30]), min_size=MEMBERS, max_size=MEMBERS),
    )
    def begin(self, book_rules, start, points):
        self.shop = CouponShop.new(self.engine, start)
        self.model = Model(book_rules, list(points), start)
        self.members = [self.shop.member(points=balance) for balance in points]
        self.books = [self.shop.book(rule.type, **self.settings(rule)) for rule in book_rules]
        for book in self.books:
            if book.type == "single":
                self.shop.add_codes(book, ["ALL"])
        # Pairs of a usage of the model and the stored one; `serial` numbers new codes.
        self.stored, self.serial, self.steps = [], 0, 0

    def settings(self, rule):
        """The settings of a book with the rules of the model."""
        no_limit = PeriodLimit(None, None)
        uses, discounts = rule.uses or no_limit, rule.discounts or no_limit
        return priced(
            self.shop,
            max_coupon_count=rule.stock,
            max_assigned_per_member=rule.quota,
            max_assigned_per_coupon=rule.cap,
            usage_period_type=uses.period,
            max_usages_per_period=uses.maximum,
            discount_period_type=discounts.period,
            max_discount_per_period=discounts.maximum,
            max_discount_per_use=rule.most,
            timezone=rule.zone,
            assignment_required_points=rule.assignment or None,
            usage_required_points=rule.use or None,
        )

    def on_both(self, model_act, act):
        """Run an act on the product and on the model; return both results, or None if both refuse with one slug."""
        try:
            result = act()
        except Refusal as refusal:
            with pytest.raises(Refused, match=f"^{refusal.slug}$"):
                model_act(None)
            return None
        return model_act(result), result

    @rule(hours=st.sampled_from([24, 1, 5, 13, 25, 24 * 3, 24 * 7, 24 * 31]))
    def wait(self, hours):
        expired_lots_before = self.expired_lots()
        self.shop.now += timedelta(hours=hours)
        self.model.now = self.shop.now
        self.effects["expire"] += self.expired_lots() - expired_lots_before

    @rule(member=members, book=books, days=st.integers(1, 3))
    def let_expire(self, member, book, days):
        """Advance the clock to the moment at which a lot expires."""
        self.assign(member, book, amount=1, position=None, override=0, days=days, data=None)
        lots = [lot for number in range(MEMBERS) for lot in self.model.lots(member=number) if lot.expires is not None]
        moments = [lot.expires for lot in lots if not self.model.has_expired(lot)]
        if moments:
            self.wait((min(moments) - self.shop.now) / timedelta(hours=1))

    @rule(book=books, count=st.integers(1, 3))
    def add_codes(self, book, count):
        if self.model.rules[book].type == "list":
            names = [f"code-{self.serial + n}" for n in range(count)]
            self.serial += count
            self.shop.add_codes(self.books[book], names)
            self.model.codes[book] += names
            self.effects["add codes"] += 1

    @rule(book=books, archive=st.sampled_from([False] * 7 + [True]))
    def publish(self, book, archive):
        """Disable a book, or publish it again, or archive it, which is final."""
        if self.model.status[book] != "archived":
            switched_status = "disabled" if self.model.status[book] == "published" else "published"
            status = "archived" if archive and self.serial > 2 else switched_status
            self.effects[f"{status} book"] += 1
            self.shop.change(self.books[book], publishing_status=status)
            self.model.status[book] = status

    @rule(
        member=members,
        book=books,
        amount=st.sampled_from([1, 1, 2, 3]),
        position=st.none() | st.integers(0, 5),
        override=overrides,
        days=st.sampled_from([1, None, 1, None, 1, 3]),
        data=st.none() | st.builds(dict, seat=st.integers(1, 9)),
    )
    def assign(self, member, book, amount, position, override, days, data):
        code = self.code(book, position)
        expires = None if days is None else self.shop.now + timedelta(days=days)
        command = {
            "amount": Decimal(amount),
            "codes": () if code is None else (code,),
            "points_override": None if override is None else Decimal(override),
            "expires_at": expires,
            "coupon_data": data,
        }
        results = self.on_both(
            lambda result: self.model.assign(
                member,
                book,
                amount=amount,
                code=code,
                override=override,
                expires=expires,
                data=data,
                new_code=lambda: self.code_of(result[0]),
            ),
            lambda: self.shop.assign(self.members[member], self.books[book], **command),
        )
        if results is not None:
            usage, [usage_row] = results
            assert self.code_of(usage_row) == usage_row.code == usage.code
            self.remember(usage, usage_row)
            self.effects["assign"] += 1

    @rule(
        member=members,
        book=books,
        position=st.none() | st.integers(0, 5),
        discount=st.sampled_from([None, None, 0, 1, 2, 3]),
        bypass=rarely,
        override=overrides,
    )
    def use(self, member, book, position, discount, bypass, override):
        code = self.code(book, position)
        command = {
            "codes": () if code is None else (code,),
            "amount_discounted": None if discount is None else Decimal(discount),
            "bypass_restrictions": bypass,
            "points_override": None if override is None else Decimal(override),
        }
        results = self.on_both(
            lambda result: self.model.use(member, book, code=code, discount=discount, bypass=bypass, override=override),
            lambda: self.shop.use(self.members[member], self.books[book], **command),
        )
        if results is not None:
            usage, usage_row = results
            assert (usage.code, self.books[book].coupon_book_key) == (usage_row.code, usage_row.coupon_book_key)
            # The lot that expires soonest was used.
            assert [lot.coupon_usage_id for model, lot in self.stored if model is usage.lot] == [
                usage_row.coupon_lot_id
            ]
            self.remember(usage, usage_row)
            self.effects["use"] += 1

    @rule(member=members, book=books, discount=st.sampled_from([None, None, 0, 1, 2]), is_reverted=rarely)
    def use_at_once(self, member, book, discount, is_reverted):
        """Assign a coupon and use it; sometimes revert the use."""
        self.assign(member, book, amount=1, position=None, override=0, days=None, data=None)
        self.use(member, book, position=None, discount=discount, bypass=False, override=0)
        if is_reverted:
            self.revert(which=0, force=False)

    @rule(which=st.integers(0, 9), force=rarely)
    def revert(self, which, force):
        if self.stored:
            usage, usage_row = self.stored[-1 - which % len(self.stored)]
            results = self.on_both(
                lambda result: self.model.revert(usage, force), lambda: self.shop.revert(usage_row, force=force)
            )
            if results is not None:
                _, reversal = results
                assert (reversal.amount_assigned, reversal.amount_used) == (-usage.assigned, -usage.used)
                self.effects["revert"] += 1

    def expired_lots(self):
        """The number of expired lots that are not used up."""
        return sum(self.model.has_expired(lot) for number in range(MEMBERS) for lot in self.model.lots(member=number))

    def code(self, book, position):
        """The code of the book that a request names, or None if it names none."""
        codes = [code for code in self.model.codes[book] if code is not None]
        return None if position is None or not codes else codes[position % len(codes)]

    def code_of(self, usage_row):
        """The code of the coupon of a stored usage."""
        statement = "SELECT code FROM coupons WHERE organization_id = :org AND coupon_id = :coupon"
        return self.shop.ask(statement, coupon=usage_row.coupon_id)[0][0]

    def remember(self, usage, usage_row):
        """Keep a usage of the model with the stored one, and compare their totals."""
        model, criteria = self.model, {"book": usage.book, "code": usage.code, "member": usage.member}
        assert usage_row.updated_total_assigned == model.total("assigned", **criteria)
        assert usage_row.updated_total_usages == model.total("used", **criteria)
        self.stored.append((usage, usage_row))

    @invariant()
    def the_state_equals_the_model(self):
        if not hasattr(self, "shop"):
            return
        self.steps += 1
        if self.steps % STEPS_BETWEEN_CHECKS:
            return
        self.shop.check()
        for member, balance in zip(self.members, self.model.points, strict=True):
            assert self.shop.points(member) == balance
        for number in range(MEMBERS):
            self.check_lists_of_member(number)
        for number, book in enumerate(self.books):
            current_book = self.shop.find_book(book)
            sums = self.model.total("assigned", book=number), self.model.total("used", book=number)
            assert (current_book.total_assigned, current_book.total_usages) == sums

    def check_lists_of_member(self, number):
        """Compare the listed coupons of a member with the model: what is unused, its expiry and its data."""
        member, now, model = self.members[number], self.shop.now, self.model
        numbers = {book.coupon_book_id: at for at, book in enumerate(self.books)}
        entries = self.shop.run(lambda call: member_coupons.find_page(call.db, member, ALL, None, now))
        expiry_and_data = {
            (numbers[result.coupon_book_id], result.code): (result.expired_at, result.custom_attributes)
            for result in entries.results
        }
        unexpired_lots = set()
        for lot in model.lots(member=number):
            place = {"book": lot.book, "code": lot.code}
            assert expiry_and_data[lot.book, lot.code] == model.expiry_and_data(member=number, **place)
            if not model.has_expired(lot):
                unexpired_lots.add((lot.book, lot.code))
        unused_only = {**ALL, "notUsedOnly": True}
        entries = self.shop.run(lambda call: member_coupons.find_page(call.db, member, unused_only, None, now))
        assert {(numbers[result.coupon_book_id], result.code) for result in entries.results} == unexpired_lots
        unused_only = {**ALL, "unusedOnly": True}
        unused = self.shop.run(lambda call: usages.find_page(call.db, member, unused_only, now)).results
        ids = {usage_row.coupon_usage_id: lot for lot, usage_row in self.stored}
        usable = [lot for lot in model.lots(member=number) if not model.has_expired(lot)]
        assert sorted(map(id, usable)) == sorted(id(ids[result.coupon_usage_id]) for result in unused)
        for of_book, amounts in self.shop.run(
            lambda call: find_amounts(call.db, member, [book.coupon_book_id for book in self.books], now)
        ).items():
            assert amounts.unused == sum(model.remaining_of(lot) for lot in usable if lot.book == numbers[of_book])

    def teardown(self):
        self.steps = STEPS_BETWEEN_CHECKS - 1
        self.the_state_equals_the_model()


def run(engine, **profile):
    """Run the machine, and check that each rule had an effect; `profile` are settings of Hypothesis."""
    effects = Effects()
    machine = type("CouponsOnEngine", (Coupons,), {"engine": engine, "effects": effects})
    checks = list(HealthCheck)
    run_state_machine_as_test(machine, settings=settings(database=None, suppress_health_check=checks, **profile))
    effects.check(EFFECTS)


def test_coupons_after_random_steps_equal_the_model(engine):
    run(engine, max_examples=50, stateful_step_count=30, derandomize=True)


@pytest.mark.stress
def test_coupons_after_many_random_steps_equal_the_model(engine):
    run(engine, max_examples=200, stateful_step_count=60)
