"""Currencies: their fraction digits, rounding to them, and the exact allocation of an amount to several receivers.

Amounts are never converted into another currency.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from fractions import Fraction

from domain.problems import Conflict

DIGITS = 2
"""The fraction digits of most currencies, and of amounts whose currency is not known."""

# The currencies with other digits in ISO 4217, list one. A table instead of a package, since the standard
# changes them once in years.
_OTHER_DIGITS = {
    code: digits
    for digits, codes in (
        (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
        (3, "BHD IQD JOD KWD LYD OMR TND"),
        (4, "CLF UYW"),
    )
    for code in codes.split()
}

EXACT = Context(prec=1000)
"""The context of exact arithmetic: wide enough for sums and products of any amounts of requests and expressions.

Only quotients are rounded, and what `quantize` rounds to a unit.
"""


class CurrencyMismatch(Conflict, title="The currency is not that of the record"):
    """An amount is in another currency than the record that it is about."""


def digits_of(currency: str | None) -> int:
    """The fraction digits of amounts in a currency, 2 for None."""
    return DIGITS if currency is None else _OTHER_DIGITS.get(currency, DIGITS)


def round_money(amount: Decimal, currency: str | None) -> Decimal:
    """A computed amount rounded to the digits of its currency; halves are rounded away from zero."""
    return amount.quantize(_unit_of(currency), ROUND_HALF_UP, EXACT)


def floor_money(amount: Decimal, currency: str | None) -> Decimal:
    """An amount of at least 0, rounded down to the digits of its currency."""
    return amount.quantize(_unit_of(currency), ROUND_DOWN, EXACT)


def _unit_of(currency: str | None) -> Decimal:
    """The smallest amount of a currency."""
    return Decimal(1).scaleb(-digits_of(currency))


def fraction_digits(*amounts: Decimal) -> int:
    """The maximum number of fraction digits of the amounts."""
    exponents = [amount.normalize(EXACT).as_tuple().exponent for amount in amounts]
    digits = [-exponent for exponent in exponents if isinstance(exponent, int)]
    return max([0, *digits])


def finest_digits(currency: str | None, amount: Decimal) -> int:
    """The fraction digits of a currency, or those of the amount if these are more."""
    return max(digits_of(currency), fraction_digits(amount))


def allocate(amount: Decimal, weights: Sequence[Decimal], limits: Sequence[Decimal], unit: Decimal) -> list[Decimal]:
    """Split an amount by weight, each share at most its own limit; the shares add up exactly.

    Shares are rounded by largest remainder to `unit`, or to the digits of the amounts if these are finer; of equal
    remainders the first is rounded up. The limits of the receivers with a weight must add up to at least the amount.
    """
    digits = fraction_digits(unit, amount, *limits)
    units_left = int(amount.scaleb(digits, EXACT))
    maxima = [int(limit.scaleb(digits, EXACT)) for limit in limits]
    shares, open_positions = [0] * len(maxima), [position for position, limit in enumerate(maxima) if limit]
    while units_left:
        total_weight = sum((Fraction(weights[position]) for position in open_positions), Fraction(0))
        exact_shares = {
            position: units_left * Fraction(weights[position]) / total_weight for position in open_positions
        }
        full_positions = [position for position in open_positions if exact_shares[position] >= maxima[position]]
        if not full_positions:
            _round_shares(shares, exact_shares, units_left)
            break
        for position in full_positions:
            shares[position] = maxima[position]
            units_left -= maxima[position]
        open_positions = [position for position in open_positions if position not in full_positions]
    return [Decimal(share).scaleb(-digits, EXACT) for share in shares]


def _round_shares(shares: list[int], exact_shares: Mapping[int, Fraction], total: int) -> None:
    """Round the shares at the positions of `exact_shares`, so that all shares add up to the total."""
    for position, share in exact_shares.items():
        shares[position] = int(share)
    by_remainder = sorted(exact_shares, key=lambda position: int(exact_shares[position]) - exact_shares[position])
    for position in by_remainder[: total - sum(shares[position] for position in exact_shares)]:
        shares[position] += 1
