"""Real purchases earn points that expire; the ledger is compared with a computation outside the product.

One point per whole dollar expires after six months; fifty are spent whenever the balance is a hundred or more.
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import groupby

import pytest

from tests.builders.ledger_client import LedgerClient, Movement
from tests.purchases.cdnow import AT_LENGTH, Order, orders

MONTHS, MIN_BALANCE, SPENT = 6, 100, 50
BATCH = 500
MINTS, BURNS = "transaction_type = 1", "transaction_type = 2 AND NOT is_expiry"
END = datetime(1998, 7, 1, tzinfo=UTC)


def half_a_year_after(moment: datetime) -> datetime:
    year, month = divmod(moment.year * 12 + moment.month - 1 + MONTHS, 12)
    return moment.replace(year=year, month=month + 1, day=min(moment.day, monthrange(year, month + 1)[1]))


@dataclass
class Lot:
    """The remaining points of a purchase, and when they expire."""

    expires_at: datetime
    remaining: int


class Reckoning:
    """The expected minted, burned, expired and remaining points of each member."""

    def __init__(self, purchases: Sequence[Order]) -> None:
        self.minted: Counter[str] = Counter()
        self.burned: Counter[str] = Counter()
        self.expired: Counter[tuple[str, datetime]] = Counter()
        self.lots: dict[str, list[Lot]] = defaultdict(list)
        for order in purchases:
            self.expire(order.customer, order.at)
            self.lots[order.customer].append(Lot(half_a_year_after(order.at), int(order.total)))
            self.minted[order.customer] += int(order.total)
            if sum(lot.remaining for lot in self.lots[order.customer]) >= MIN_BALANCE:
                self.burn(order.customer)
        for customer in self.lots:
            self.expire(customer, END)
        self.balances = {customer: sum(lot.remaining for lot in lots) for customer, lots in self.lots.items()}

    def expire(self, customer: str, now: datetime) -> None:
        for lot in self.lots[customer]:
            if lot.expires_at <= now:
                self.expired[customer, lot.expires_at] += lot.remaining
        self.lots[customer] = [lot for lot in self.lots[customer] if lot.expires_at > now]

    def burn(self, customer: str) -> None:
        remaining = SPENT
        for lot in sorted(self.lots[customer], key=lambda lot: lot.expires_at):
            taken_amount = min(remaining, lot.remaining)
            lot.remaining -= taken_amount
            remaining -= taken_amount
        self.burned[customer] += SPENT


class Club:
    """The same purchases on the ledger: a wallet for each member, and a clock at the day of the orders."""

    def __init__(self, engine, customers: Sequence[str]) -> None:
        self.client = LedgerClient.new(engine)
        self.points = self.client.account(point_tracking_enabled=True, expires_in_months=MONTHS)
        self.wallets = dict(zip(customers, self.client.wallets(len(customers)), strict=True))
        self.customers = {wallet: customer for customer, wallet in self.wallets.items()}

    def take(self, purchases: Sequence[Order]) -> None:
        """Post orders of different members on one day: first all mints, and then the burns."""
        self.client.now = purchases[0].at
        wallets = [self.wallets[order.customer] for order in purchases]
        mints = [Decimal(int(order.total)) for order in purchases]
        self.post(Movement(self.points, mint, to_wallet_id=to) for mint, to in zip(mints, wallets, strict=True))
        balances = self.client.balances(wallets)
        burning_wallets = [wallet for wallet in wallets if balances[wallet, self.points].current_balance >= MIN_BALANCE]
        self.post(Movement(self.points, Decimal(SPENT), from_wallet_id=wallet) for wallet in burning_wallets)

    def post(self, movements: Iterator[Movement]) -> None:
        outcomes = self.client.post_batch(list(movements))
        assert [outcome for outcome in outcomes if not isinstance(outcome, int)] == []

    def amounts_moved(self, side: str, condition: str) -> dict[str, int]:
        """The sums of the transactions that meet a condition, by the member whose wallet is in the column `side`."""
        rows = self.client.ask(
            f"SELECT {side}, sum(amount)::bigint FROM ledger_transactions WHERE organization_id = :org AND {condition}"
            " GROUP BY 1 HAVING sum(amount) > 0"
        )
        return {self.customers[wallet]: amount for wallet, amount in rows}

    def expired(self) -> dict[tuple[str, datetime], int]:
        """The expired points by member and moment, including expiries that are not posted yet."""
        rows = self.client.ask(
            "SELECT wallet_id, moment, sum(amount)::bigint FROM ("
            " SELECT from_wallet_id AS wallet_id, external_event_date AS moment, amount FROM ledger_transactions"
            " WHERE organization_id = :org AND is_expiry"
            " UNION ALL SELECT wallet_id, expires_at, remaining FROM ledger_lots"
            " WHERE organization_id = :org AND expires_at <= :now AND remaining > 0"
            ") gone GROUP BY 1, 2",
            now=self.client.now,
        )
        return {(self.customers[wallet], moment): amount for wallet, moment, amount in rows}

    def balances(self) -> dict[str, int]:
        views = self.client.balances(self.customers)
        return {self.customers[wallet]: int(view.current_balance) for (wallet, _), view in views.items()}


def rounds(purchases: Sequence[Order]) -> Iterator[list[Order]]:
    """The orders day by day, in parts with at most one order of each member."""
    for _, of_day in groupby(purchases, key=lambda order: order.date):
        pending = list(of_day)
        while pending:
            first_orders = {}
            for order in pending:
                first_orders.setdefault(order.customer, order)
            yield from (
                list(first_orders.values())[start : start + BATCH] for start in range(0, len(first_orders), BATCH)
            )
            pending = [order for order in pending if first_orders[order.customer] is not order]


@pytest.mark.parametrize("count", AT_LENGTH)
def test_minted_burned_expired_and_remaining_points_equal_the_computation(engine, count):
    purchases = sorted(orders(count), key=lambda order: (order.date, order.number))
    reckoning = Reckoning(purchases)
    club = Club(engine, sorted(reckoning.lots))
    for part in rounds(purchases):
        club.take(part)
    club.client.now = END

    minted_points = club.amounts_moved("to_wallet_id", MINTS)
    burned_points = club.amounts_moved("from_wallet_id", BURNS)
    expired_points, balances = club.expired(), club.balances()
    # The plus removes the zeros of a counter.
    assert minted_points == +reckoning.minted
    assert burned_points == +reckoning.burned
    assert expired_points == +reckoning.expired
    assert balances == reckoning.balances
    total, *parts = (sum(amounts.values()) for amounts in (minted_points, burned_points, expired_points, balances))
    assert total == sum(int(order.total) for order in purchases) == sum(parts)
    # Some points were burned, some expired, and some remain.
    assert min(parts) > 0
    assert club.client.verify() == []
