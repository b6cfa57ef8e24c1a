"""Allocation of an amount of money to several places, exactly."""

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
    """Split an amount by weight, each share at most the limit of its place; the shares add up exactly.

    Shares are rounded by largest remainder to `unit`, or to the digits of the amounts if these are finer; of equal
    remainders the first is rounded up. The places with a weight must hold the amount.
    """
    digits = fraction_digits(unit, amount, *limits)
    units = int(amount.scaleb(digits, _WIDE))
    most = [int(limit.scaleb(digits, _WIDE)) for limit in limits]
    shares, open_places = [0] * len(most), [place for place, limit in enumerate(most) if limit]
    while units:
        whole = sum((Fraction(weights[place]) for place in open_places), Fraction(0))
        exact = {place: units * Fraction(weights[place]) / whole for place in open_places}
        full = [place for place in open_places if exact[place] >= most[place]]
        if not full:
            _round_shares(shares, exact, units)
            break
        for place in full:
            shares[place] = most[place]
            units -= most[place]
        open_places = [place for place in open_places if place not in full]
    return [Decimal(share).scaleb(-digits, _WIDE) for share in shares]


def _round_shares(shares: list[int], exact: Mapping[int, Fraction], whole: int) -> None:
    """Set the shares to the exact ones, rounded so that they add up to the whole."""
    for place, share in exact.items():
        shares[place] = int(share)
    by_remainder = sorted(exact, key=lambda place: int(exact[place]) - exact[place])
    for place in by_remainder[: whole - sum(shares[place] for place in exact)]:
        shares[place] += 1
