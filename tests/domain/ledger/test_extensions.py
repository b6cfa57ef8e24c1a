"""Extensions of lots: which lots live longer, and until when."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.calendar import LAST_MOMENT
from domain.ledger.expiry import ExpiryCalendar
from domain.ledger.extensions import ExtendLots, Extension, totals_of
from domain.ledger.lots import Lot

NOW = datetime(2026, 3, 1, tzinfo=UTC)
JUNE, JULY, SEPTEMBER = (datetime(2026, month, 1, tzinfo=UTC) for month in (6, 7, 9))
CALENDAR = ExpiryCalendar(UTC, 1)


def lot(expires_at=JUNE, remaining=10, **more):
    """Lot 1, of 20 points."""
    return Lot(
        ledger_lot_id=1,
        wallet_id=1,
        ledger_account_id=1,
        ledger_transaction_id=1,
        expires_at=expires_at,
        amount=Decimal(20),
        remaining=Decimal(remaining),
        **more,
    )


def expiry_after_extension(old, *, end_of_balance=None, only=None, **change):
    """(when a lot expires after an extension, until when an idle balance keeps it), or None if it does not change.

    The extension is made at NOW; `only` are the ids of lots that it may change.
    """
    move = ExtendLots(
        wallet_id=1,
        ledger_account_id=1,
        extension=Extension(**change),
        calendar=CALENDAR,
        end=end_of_balance,
        at=NOW,
        only_lot_ids=only,
    )
    extended_lot = move.changed_lot(old)
    return None if extended_lot is None else (extended_lot.expires_at, extended_lot.kept_until)


def test_an_extension_lets_a_lot_live_until_a_moment_or_some_months_longer():
    assert expiry_after_extension(lot(JUNE), until=JULY) == (JULY, JULY)
    assert expiry_after_extension(lot(JUNE), months=3) == (SEPTEMBER, SEPTEMBER)
    assert expiry_after_extension(lot(JUNE), months=Decimal(3)) == (SEPTEMBER, SEPTEMBER)


def test_an_extension_does_not_change_lots_that_it_cannot_lengthen():
    assert expiry_after_extension(lot(JULY), until=JUNE) is None
    assert expiry_after_extension(lot(JUNE), until=JUNE) is None
    # These lots never expire, or have expired.
    assert expiry_after_extension(lot(expires_at=None), until=JULY) is None
    assert expiry_after_extension(lot(NOW), until=JULY) is None
    assert expiry_after_extension(lot(datetime(2026, 2, 1, tzinfo=UTC)), until=JULY) is None
    # The lot is empty, or the extension is only of lot 2.
    assert expiry_after_extension(lot(remaining=0), until=JULY) is None
    assert expiry_after_extension(lot(), only=frozenset({2}), until=JULY) is None
    assert expiry_after_extension(lot(), only=frozenset({1}), until=JULY) == (JULY, JULY)


def test_an_extension_keeps_a_lot_beyond_the_end_of_its_idle_balance():
    assert expiry_after_extension(lot(SEPTEMBER), end_of_balance=JUNE, until=JULY) == (SEPTEMBER, JULY)
    assert expiry_after_extension(lot(None), end_of_balance=JUNE, until=JULY) == (None, JULY)
    assert expiry_after_extension(lot(None), end_of_balance=JUNE, months=3) == (None, SEPTEMBER)
    assert expiry_after_extension(lot(None, kept_until=JULY), end_of_balance=JUNE, until=SEPTEMBER) == (None, SEPTEMBER)
    assert expiry_after_extension(lot(None, kept_until=JULY), end_of_balance=JUNE, months=2) == (None, SEPTEMBER)


def test_no_lot_lives_beyond_the_last_moment():
    assert expiry_after_extension(lot(datetime(9999, 12, 1, tzinfo=UTC)), months=1200) == (LAST_MOMENT, LAST_MOMENT)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"months": 1}, []),
        ({"months": Decimal(1200)}, []),
        ({"until": JULY}, []),
        ({}, ["until"]),
        ({"until": JULY, "months": 1}, ["months"]),
        ({"months": 0}, ["months"]),
        ({"months": 1201}, ["months"]),
        ({"months": Decimal("1.5")}, ["months"]),
        ({"until": NOW}, ["until"]),
        ({"until": datetime(2026, 2, 1, tzinfo=UTC)}, ["until"]),
    ],
)
def test_an_extension_is_refused_unless_it_has_either_valid_months_or_a_future_moment(change, names):
    assert [fault.pointer for fault in Extension(**change).field_faults(NOW)] == [f"/{name}" for name in names]


def test_the_total_of_lots_is_their_number_and_their_remaining_points():
    assert totals_of([lot(remaining=10), lot(remaining=3)]) == (2, 10 + 3)
    assert totals_of([]) == (0, 0)
