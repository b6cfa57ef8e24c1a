"""Fiat values: what burned points were worth in money. Sums are exact for any number of digits."""

from decimal import Decimal

from domain.currencies import EXACT

_SHARE_DIGITS = Decimal("0.000001")


def prorate(fiat: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    """The part of a fiat value that belongs to `part` of `whole` points, to six digits."""
    if part == whole:
        return fiat
    return EXACT.divide(EXACT.multiply(fiat, part), whole).quantize(_SHARE_DIGITS, context=EXACT)


def fiat_sum(fiat: Decimal, other: Decimal) -> Decimal:
    """The sum of two fiat values."""
    return EXACT.add(fiat, other)


def rest_of(fiat: Decimal | None, returned_fiat: Decimal) -> Decimal | None:
    """The rest of a fiat value after returns."""
    return None if fiat is None else EXACT.subtract(fiat, returned_fiat)
