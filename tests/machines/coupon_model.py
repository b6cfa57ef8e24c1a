"""The rules of coupon books, written as simply as possible: usages in a list, without a database.

Every sum is computed from the usages that are not reverted. An assignment is a lot: it expires, and uses are taken from
the lot that expires soonest. The rules of a book: its type, stock, quota of a member, cap of a code, uses and discounts
(each None or a PeriodLimit), zone, maximum discount (`most`), points of an assignment and of a use.
"""

from datetime import timedelta
from types import SimpleNamespace as Record
from typing import NamedTuple
from zoneinfo import ZoneInfo


class Refused(Exception):
    """Raised before anything has changed, with the slug of the problem."""


def refuse(condition, slug):
    if condition:
        raise Refused(slug)


def period_of(kind, moment, zone):
    day = moment.astimezone(ZoneInfo(zone)).date()
    return {"daily": day, "weekly": day - timedelta(day.weekday()), "monthly": day.replace(day=1)}[kind]


class PeriodLimit(NamedTuple):
    """The maximum of uses or of discounts in each period."""

    period: str
    maximum: int


class Model:
    def __init__(self, rules, points, now):
        self.rules, self.points, self.now = rules, points, now
        self.status = ["published" for _ in rules]
        self.codes = [["ALL"] if rule.type == "single" else [None] if rule.type == "codeless" else [] for rule in rules]
        self.usages = []

    def active_usages(self, **like):
        """The usages with these fields that are not reverted."""
        return [usage for usage in self.usages if not usage.reverted and like.items() <= vars(usage).items()]

    def total(self, name, **like):
        return sum(getattr(usage, name) for usage in self.active_usages(**like))

    def remaining_of(self, lot):
        return lot.assigned - self.used_of(lot)

    def used_of(self, lot):
        return sum(usage.used for usage in self.usages if usage.lot is lot and not usage.reverted)

    def lots(self, **like):
        """The assignments that are not used up, also expired ones, in the order of use."""
        usable = [usage for usage in self.active_usages(**like) if usage.assigned and self.remaining_of(usage) > 0]
        return sorted(usable, key=lambda u: (u.expires is None, u.expires or self.now))

    def has_expired(self, lot):
        return lot.expires is not None and lot.expires <= self.now

    def expiry_and_data(self, **like):
        """The expiry and the data that a list shows of a member's lots of a coupon."""
        lots = self.lots(**like)
        unexpired_lots = [lot for lot in lots if not self.has_expired(lot)]
        if unexpired_lots:
            return unexpired_lots[0].expires, unexpired_lots[0].data
        # If all have expired: the lot that expired last, and of several the oldest.
        last = max(lots, key=lambda lot: lot.expires)
        return last.expires, last.data

    def free(self, book):
        return [free_code for free_code in self.codes[book] if not self.active_usages(book=book, code=free_code)]

    def refuse_book(self, book):
        refuse(self.status[book] == "archived", "coupon-book-archived")
        refuse(self.status[book] != "published", "coupon-book-not-published")

    def check_assign(self, member, book, amount, code):
        rule = self.rules[book]
        self.refuse_book(book)
        if rule.type != "list":
            stocks = [
                maximum for maximum in (rule.stock, rule.cap if rule.type == "single" else None) if maximum is not None
            ]
            refuse(stocks and self.total("assigned", book=book) + amount > min(stocks), "coupon-out-of-stock")
        if rule.quota is not None:
            refuse(self.total("assigned", book=book, member=member) + amount > rule.quota, "coupon-quota")
        if rule.type in ("list", "generated") and code is not None:
            refuse(
                any(usage.member != member for usage in self.active_usages(book=book, code=code)), "coupon-code-held"
            )
        if rule.type == "list" and code is None:
            refuse(not self.free(book), "coupon-out-of-stock")
            code = self.free(book)[0]
        if rule.type in ("single", "codeless"):
            code = self.codes[book][0]
        if rule.cap is not None and rule.type != "codeless":
            assigned_before = 0 if code is None else self.total("assigned", book=book, code=code)
            refuse(assigned_before + amount > rule.cap, "coupon-out-of-stock")
        return code

    def assign(self, member, book, *, amount, code, override, expires, data, new_code):
        """Assign a coupon; `new_code` returns the code that the server has made for a generated book."""
        code = self.check_assign(member, book, amount, code)
        self.pay(member, self.rules[book].assignment * amount if override is None else override)
        if self.rules[book].type == "generated" and code is None:
            code = new_code()
            self.codes[book].append(code)
        points = self.rules[book].assignment * amount if override is None else override
        return self.keep(member, book, code, assigned=amount, points=points, expires=expires, data=data or {})

    def use(self, member, book, *, code, discount, bypass, override):
        rule = self.rules[book]
        self.refuse_book(book)
        uses = [usage for usage in self.active_usages(book=book, member=member) if usage.used]

        def in_period(kind):
            return [
                usage for usage in uses if period_of(kind, usage.at, rule.zone) == period_of(kind, self.now, rule.zone)
            ]

        if not bypass and rule.uses is not None:
            refuse(len(in_period(rule.uses.period)) + 1 > rule.uses.maximum, "coupon-usage-limit")
        refuse(rule.most is not None and discount is not None and discount > rule.most, "coupon-discount-too-high")
        if not bypass and rule.discounts is not None:
            discounts_before = sum(usage.discount or 0 for usage in in_period(rule.discounts.period))
            refuse(discount and discounts_before + discount > rule.discounts.maximum, "coupon-discount-limit")
        lots = [lot for lot in self.lots(book=book, member=member) if code in (None, lot.code)]
        unexpired_lots = [lot for lot in lots if bypass or not self.has_expired(lot)]
        refuse(lots and not unexpired_lots, "coupon-expired")
        refuse(not unexpired_lots, "coupon-not-assigned")
        self.pay(member, rule.use if override is None else override)
        points = rule.use if override is None else override
        return self.keep(
            member, book, unexpired_lots[0].code, uses=1, discount=discount, points=points, lot=unexpired_lots[0]
        )

    def revert(self, usage, force):
        refuse(usage.reverted, "coupon-usage-reverted")
        refuse(usage.assigned and self.used_of(usage) and not force, "coupon-assignment-used")
        refuse(usage.points < 0 and self.points[usage.member] < -usage.points, "insufficient-balance")
        self.points[usage.member] += usage.points
        usage.reverted = True

    def pay(self, member, points):
        refuse(points > self.points[member], "insufficient-balance")
        self.points[member] -= points

    def keep(self, member, book, code, assigned=0, uses=0, discount=None, points=0, expires=None, data=None, lot=None):
        usage = Record(
            member=member, book=book, code=code, assigned=assigned, used=uses, discount=discount, points=points,
            at=self.now, reverted=False, expires=expires, data=data, lot=lot,
        )  # fmt: skip
        self.usages.append(usage)
        return usage
