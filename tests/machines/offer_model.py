"""Waiting points, budgets and competing discounts, as simple as possible: no database, no code of the product.

An order earns a point for each whole euro. The points wait three days and expire three months later, by the calendar of
Madrid. The order gets the better one of a percentage and an amount. A visit gets a voucher. Points, discounts and
vouchers come from budgets, and are cut to what remains of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

from tests.machines.effects import Effects
from tests.machines.year_model import MADRID, months_later

CENT = Decimal("0.01")
# How many days points wait, and the budgets of points and of money.
DAYS, POINTS, MONEY = 3, 900, Decimal(150)
PERCENT, AMOUNT = 20, Decimal("7.77")


def to_cents(amount: Decimal) -> Decimal:
    """The amount in cents, rounded half away from zero."""
    return amount.quantize(CENT, ROUND_HALF_UP)


def days_later(moment: datetime) -> datetime:
    """The same time of day in Madrid some days later."""
    return (moment.astimezone(MADRID) + timedelta(days=DAYS)).astimezone(moment.tzinfo)


def allocate(amount: Decimal, totals: list[Decimal]) -> list[Decimal]:
    """The shares of the amount in proportion to the totals; the remaining cents by largest remainder."""
    exact = [amount * total / sum(totals) for total in totals]
    shares = [share.quantize(CENT, ROUND_FLOOR) for share in exact]
    order = sorted(range(len(totals)), key=lambda place: (shares[place] - exact[place], place))
    for place in order[: int((amount - sum(shares)) / CENT)]:
        shares[place] += CENT
    return shares


@dataclass
class Lot:
    """The points of an order."""

    amount: int
    available: datetime
    ends: datetime
    left: int = 0
    expired: int = 0
    is_waiting: bool = True


@dataclass(eq=False)
class Sale:
    """An order with its points and discount; `left` is the total that is not returned."""

    member: str
    total: Decimal
    left: Decimal
    lot: Lot
    discount: Decimal
    winner: str | None
    allocation: list[Decimal]

    @property
    def points(self) -> int:
        """The points of the order that the budget counts after returns."""
        return int(self.lot.amount * self.left / self.total)

    @property
    def money(self) -> Decimal:
        """The discount of the order that the budget counts after returns."""
        return to_cents(self.discount * self.left / self.total)


@dataclass
class OfferModel:
    """The sales, and the lots of each member, oldest first."""

    lots: dict[str, list[Lot]]
    sales: list[Sale] = field(default_factory=list)
    counts: Effects = field(default_factory=Effects)

    def pass_time(self, now: datetime) -> None:
        """Make points available, and expire points, up to a moment."""
        for lot in (lot for lots in self.lots.values() for lot in lots):
            if lot.is_waiting and lot.available <= now:
                lot.is_waiting, lot.left = False, lot.left or lot.amount
                self.counts["available"] += lot.left > 0
            if not lot.is_waiting and lot.ends <= now and lot.left:
                lot.expired, lot.left = lot.expired + lot.left, 0
                self.counts["expired"] += 1

    def budget_counts(self) -> tuple[int, Decimal]:
        """The used points and the used money of the budgets."""
        return sum(sale.points for sale in self.sales), sum((sale.money for sale in self.sales), Decimal(0))

    def buy(self, member: str, totals: list[Decimal], now: datetime) -> Sale:
        """Add an order of items with these totals."""
        points, money = self.budget_counts()
        total = sum(totals, Decimal(0))
        points_earned = min(int(total), POINTS - points)
        self.counts["points cut"] += 0 < points_earned < int(total)
        offers = {"percentage": to_cents(total * PERCENT / 100), "amount": min(AMOUNT, total)}
        worths = {name: min(worth, MONEY - money) for name, worth in offers.items()}
        winner = max(worths, key=worths.__getitem__)
        discount = worths[winner]
        self.counts["discount cut"] += 0 < discount < offers[winner]
        self.counts[winner] += discount > 0
        available = days_later(now)
        lot = Lot(points_earned, available, months_later(available))
        self.lots[member].append(lot)
        lot.left = 0
        allocation = allocate(discount, totals) if discount else []
        sale = Sale(member, total, total, lot, discount, winner if discount else None, allocation)
        self.sales.append(sale)
        return sale

    def visit(self, member: str) -> Sale:
        """Add a visit, which gets a voucher of AMOUNT, or of what remains of the budget."""
        discount = min(AMOUNT, MONEY - self.budget_counts()[1])
        self.counts["voucher"] += discount > 0
        self.counts["voucher cut"] += 0 < discount < AMOUNT
        no_points = Lot(0, datetime.max, datetime.max, is_waiting=False)
        sale = Sale(member, AMOUNT, AMOUNT, no_points, discount, None, [])
        self.sales.append(sale)
        return sale

    def holds(self, member: str) -> tuple[int, int, tuple[int, datetime] | None]:
        """The balance, the waiting points, and the amount and moment of the next points to become available."""
        waiting = [lot for lot in self.lots[member] if lot.is_waiting and lot.amount]
        first = min((lot.available for lot in waiting), default=None)
        coming = first and (sum(lot.amount for lot in waiting if lot.available == first), first)
        return sum(lot.left for lot in self.lots[member]), sum(lot.amount for lot in waiting), coming

    def spend(self, member: str, amount: int, first: Lot | None = None) -> None:
        """Use points of one lot first, then of the soonest to expire."""
        lots = sorted(
            enumerate(self.lots[member]),
            key=lambda numbered_lot: (numbered_lot[1] is not first, numbered_lot[1].ends, numbered_lot[0]),
        )
        for _, lot in lots:
            spent_points = min(lot.left, amount)
            lot.left, amount = lot.left - spent_points, amount - spent_points

    def extend(self, member: str) -> int:
        """Extend the expiry of a member's points by three months; return the number of lots."""
        lots = [lot for lot in self.lots[member] if lot.left]
        for lot in lots:
            lot.ends = months_later(lot.ends)
        self.counts["extended"] += len(lots)
        return len(lots)

    def give_up(self, sale: Sale) -> None:
        """Cancel an order: remove its waiting points, or its available points that are unexpired, up to the balance."""
        lot = sale.lot
        if lot.is_waiting:
            self.counts["cancelled while waiting"] += 1
            lot.amount = 0
        else:
            remainder = lot.amount - lot.expired
            self.counts["cancelled"] += 1
            self.spend(sale.member, min(remainder, self.holds(sale.member)[0]), lot)
        self.sales.remove(sale)
