"""Statements of an advance of a test clock: as many for each moment, however many balances expire at other moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.builders.points import Points
from tests.builders.statements import count_statements, rows_fetched
from tests.builders.test_clocks import Clock

MONTHLY = [{"expirationType": "inactivity", "period": 1}]


def clock_with_balances(api, wallet_count, first_activity):
    """The clock, the account and the wallets of as many balances, which expire a minute after each other."""
    clock = Clock.new(api, starts_at=(first_activity + timedelta(hours=1)).isoformat())
    points = Points.new(clock.organization, expirationPolicies=MONTHLY)
    wallets = [points.wallet() for _ in range(wallet_count)]
    for number, wallet in enumerate(wallets):
        activity = first_activity + timedelta(minutes=number)
        points.mint(wallet, 10, externalEventDate=activity.isoformat())
    return clock, points, wallets


def costs_of_advance(api, wallet_count, first_activity):
    """Advance over idle balances, which expire; return the numbers of statements and of rows read."""
    clock, points, wallets = clock_with_balances(api, wallet_count, first_activity)
    with count_statements(api.engine) as statements, rows_fetched(api.engine) as rows:
        clock.advance("2026-05-01T00:00:00Z")
    assert [points.balance(wallet) for wallet in wallets] == [0] * wallet_count
    expiries = points.rows(order="ledgerTransactionId,desc", limit=wallet_count)[::-1]
    # Each balance has expired at its own moment.
    moments = [datetime.fromisoformat(row["externalEventDate"]) for row in expiries]
    assert moments == [moments[0] + timedelta(minutes=number) for number in range(wallet_count)]
    return len(statements), sum(rows)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first_activity",
    [
        pytest.param(datetime(2026, 3, 10, 10, tzinfo=UTC), id="ordinary-days"),
        # Clocks change between the activities and the expiries.
        pytest.param(datetime(2026, 3, 28, 10, tzinfo=UTC), id="change-of-clocks"),
    ],
)
def test_the_statements_of_an_advance_are_proportional_to_the_balances_that_expire(api, first_activity):
    statements, rows = zip(*(costs_of_advance(api, count, first_activity) for count in (4, 8, 12)), strict=True)
    # The last 4 balances cost as much as the 4 before them.
    for cost_of_4, cost_of_8, cost_of_12 in (statements, rows):
        assert cost_of_12 - cost_of_8 <= 1.1 * (cost_of_8 - cost_of_4)
    # For each balance: the transaction of the step, the search for the next moment, and the expiry.
    statements_of_4, statements_of_8, _ = statements
    assert statements_of_8 - statements_of_4 < 40 * 4


@pytest.mark.slow
def test_an_advance_does_not_read_again_balances_that_an_extension_keeps(api):
    def rows_of(wallet_count):
        """The rows that are read by an advance over the moments at which the balances would expire."""
        clock, points, wallets = clock_with_balances(api, wallet_count, datetime(2026, 3, 10, 10, tzinfo=UTC))
        extension = {"ledgerAccountId": points.account_id, "until": "2026-09-01T00:00:00Z"}
        points.admin.post("/expiry-extensions", {**extension, "systemUniqueKey": "outage"}, expect=200)
        # A short advance, in which the extension is applied.
        clock.advance((datetime.fromisoformat(clock.get()["now"]) + timedelta(seconds=1)).isoformat())
        with rows_fetched(api.engine) as rows:
            clock.advance("2026-05-01T00:00:00Z")
        assert [points.balance(wallet) for wallet in wallets] == [10] * wallet_count
        clock.advance("2026-09-01T00:00:00Z")
        assert [points.balance(wallet) for wallet in wallets] == [0] * wallet_count
        return sum(rows)

    rows_of_4, rows_of_8, rows_of_12 = (rows_of(count) for count in (4, 8, 12))
    assert rows_of_12 - rows_of_8 <= 1.1 * (rows_of_8 - rows_of_4)
