"""Clawbacks: which lots get points back when spent points return."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from domain.ledger.clawbacks import Clawback, exchange_uses, merge_uses
from domain.ledger.lots import LotUse

DAY = datetime(2027, 3, 1, tzinfo=UTC)
OWN_LOT, SOON, LATE, NEVER = 1, 2, 3, 4
EXPIRIES = {OWN_LOT: DAY, SOON: DAY + timedelta(days=1), LATE: DAY + timedelta(days=2), NEVER: None}


def uses(**amounts):
    """Uses of the lots OWN_LOT, SOON, LATE and NEVER, `mint` for OWN_LOT and so on, each with its expiry."""
    lots = {"mint": OWN_LOT, "soon": SOON, "late": LATE, "never": NEVER}
    return tuple(LotUse(lots[name], Decimal(amount), EXPIRIES[lots[name]]) for name, amount in amounts.items())


def clawback(transaction_id=9, own_lot=OWN_LOT, **amounts):
    """A clawback of the points of one lot."""
    return Clawback(transaction_id, frozenset({own_lot}), uses(**amounts))


def test_the_lot_that_expires_last_gets_points_back_first():
    returned_uses, [changed_clawback] = exchange_uses(uses(mint=15), [clawback(mint=5, soon=10, late=10)])
    assert returned_uses == uses(soon=5, late=10)
    assert changed_clawback == clawback(mint=5 + 15, soon=10 - 5)


def test_a_lot_that_never_expires_gets_points_back_before_the_others():
    returned_uses, [changed_clawback] = exchange_uses(uses(mint=15), [clawback(late=10, never=10)])
    assert returned_uses == uses(late=5, never=10)
    assert changed_clawback == clawback(mint=15, late=5)


def test_points_beyond_a_clawback_return_to_their_own_lot():
    returned_uses, [changed_clawback] = exchange_uses(uses(mint=30), [clawback(soon=10)])
    assert returned_uses == uses(mint=30 - 10, soon=10)
    assert changed_clawback == clawback(mint=10)


def test_points_of_other_lots_are_not_exchanged():
    assert exchange_uses(uses(late=30), [clawback(soon=10)]) == (uses(late=30), [])


def test_a_clawback_that_took_only_its_own_lot_exchanges_nothing():
    assert exchange_uses(uses(mint=30), [clawback(mint=10)]) == (uses(mint=30), [])


def test_the_last_clawback_is_exchanged_first():
    first, last = clawback(transaction_id=8, soon=10), clawback(transaction_id=9, late=10)
    assert exchange_uses(uses(mint=10), [last, first]) == (uses(late=10), [clawback(transaction_id=9, mint=10)])


def test_points_pass_on_to_the_lot_that_gave_points_for_a_lot_that_gave_points():
    clawbacks = [clawback(transaction_id=8, soon=10), clawback(transaction_id=9, own_lot=SOON, late=4)]
    returned_uses, changed_clawbacks = exchange_uses(uses(mint=10), clawbacks)
    assert returned_uses == uses(soon=10 - 4, late=4)
    assert changed_clawbacks == [clawback(transaction_id=8, mint=10), clawback(9, own_lot=SOON, soon=4)]


def test_the_number_of_uses_may_be_large():
    count = 50_000
    other_uses = tuple(LotUse(OWN_LOT + 1 + number, Decimal(1)) for number in range(count))
    clawback_of_many_lots = Clawback(9, frozenset({OWN_LOT}), other_uses)
    returned_uses, [changed_clawback] = exchange_uses(uses(mint=count), [clawback_of_many_lots])
    assert returned_uses == other_uses
    assert changed_clawback == clawback(mint=count)


def test_merged_uses_have_one_use_of_each_lot_in_the_order_of_expiry():
    several_uses = (*uses(never=1, late=2), *uses(late=3, soon=0, mint=4))
    assert merge_uses(several_uses) == uses(mint=4, late=2 + 3, never=1)


AMOUNTS = st.dictionaries(st.sampled_from(["mint", "soon", "late", "never"]), st.integers(1, 20), max_size=4)


@given(returned_amounts=AMOUNTS, first=AMOUNTS, second=AMOUNTS)
def test_an_exchange_keeps_every_sum(returned_amounts, first, second):
    clawbacks = [clawback(8, **first), clawback(9, own_lot=SOON, **second)]
    exchanged_uses, changed_clawbacks = exchange_uses(uses(**returned_amounts), clawbacks)
    current_clawbacks = {clawback.ledger_transaction_id: clawback for clawback in (*clawbacks, *changed_clawbacks)}
    # Each clawback takes as much as before, and as much returns.
    assert total(current_clawbacks[8].uses) == sum(first.values())
    assert total(current_clawbacks[9].uses) == sum(second.values())
    assert total(exchanged_uses) == sum(returned_amounts.values())
    # If the exchange returns 3 points more to a lot, the clawbacks have 3 points less of this lot, and the reverse.
    for lot in EXPIRIES:
        returned_more = of_lot(exchanged_uses, lot) - of_lot(uses(**returned_amounts), lot)
        amounts_before = [of_lot(clawback.uses, lot) for clawback in clawbacks]
        current_amounts = [of_lot(clawback.uses, lot) for clawback in current_clawbacks.values()]
        assert returned_more == sum(amounts_before) - sum(current_amounts)


def total(several_uses):
    return sum(use.amount for use in several_uses)


def of_lot(several_uses, lot):
    """The amount that is used of one lot."""
    return total(use for use in several_uses if use.ledger_lot_id == lot)
