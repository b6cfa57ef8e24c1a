"""Allocation of an amount of money to several receivers, exactly."""

from collections.abc import Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction

# Wider than any number of a request or an expression: nothing is rounded before it is cut.
_WIDE = Context(prec=1000)


def fraction_digits(*amounts: Decimal) -> int:
    """The most fraction digits that any of the amounts has."""
    exponents = [amount.normalize(_WIDE).as_tuple().exponent for amount in amounts]
    return max([0, *(-exponent for exponent in exponents if isinstance(exponent, int))])


def allocate(amount: Decimal, weights: Sequence[Decimal], limits: Sequence[Decimal], unit: Decimal) -> list[Decimal]:
    """Split an amount by weight, each share at most its own limit; the shares add up exactly.

    Shares are rounded by largest remainder to `unit`, or to the digits of the amounts if these are finer; of equal
    remainders the first is rounded up. The limits of those with a weight must add up to at least the amount.
    """
    digits = fraction_digits(unit, amount, *limits)
    units = int(amount.scaleb(digits, _WIDE))
    most = [int(limit.scaleb(digits, _WIDE)) for limit in limits]
    shares, open_positions = [0] * len(most), [position for position, limit in enumerate(most) if limit]
    while units:
        whole = sum((Fraction(weights[position]) for position in open_positions), Fraction(0))
        exact = {position: units * Fraction(weights[position]) / whole for position in open_positions}
        full = [position for position in open_positions if exact[position] >= most[position]]
        if not full:
            _round_shares(shares, exact, units)
            break
        for position in full:
            shares[position] = most[position]
            units -= most[position]
        open_positions = [position for position in open_positions if position not in full]
    return [Decimal(share).scaleb(-digits, _WIDE) for share in shares]


def _round_shares(shares: list[int], exact: Mapping[int, Fraction], whole: int) -> None:
    """Set the shares to the exact ones, rounded so that they add up to the whole."""
    for position, share in exact.items():
        shares[position] = int(share)
    by_remainder = sorted(exact, key=lambda position: int(exact[position]) - exact[position])
    for position in by_remainder[: whole - sum(shares[position] for position in exact)]:
        shares[position] += 1
