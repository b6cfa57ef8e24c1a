"""Currencies: the digits of each, and rounding to them. Amounts are never converted into another currency."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

from domain.problems import Conflict

DIGITS = 2
"""The fraction digits of most currencies, and of amounts whose currency is not known."""

# The other digits in ISO 4217, list one. A table instead of a package, since the standard changes them once in years.
_OTHER_DIGITS = {
    code: digits
    for digits, codes in (
        (0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
        (3, "BHD IQD JOD KWD LYD OMR TND"),
        (4, "CLF UYW"),
    )
    for code in codes.split()
}

# Wide enough for any amount that a request or an expression can have.
_EXACT = Context(prec=1000)


class CurrencyMismatch(Conflict, title="The currency is not that of the record"):
    """An amount is in another currency than the record that it is about."""


def digits_of(currency: str | None) -> int:
    """The fraction digits of amounts in a currency, 2 without one."""
    return DIGITS if currency is None else _OTHER_DIGITS.get(currency, DIGITS)


def round_money(amount: Decimal, currency: str | None) -> Decimal:
    """A computed amount rounded to the digits of its currency, a half away from zero."""
    return amount.quantize(_unit_of(currency), ROUND_HALF_UP, _EXACT)


def floor_money(amount: Decimal, currency: str | None) -> Decimal:
    """The largest amount that its currency can hold and that is not above this one, which is not negative."""
    return amount.quantize(_unit_of(currency), ROUND_DOWN, _EXACT)


def _unit_of(currency: str | None) -> Decimal:
    return Decimal(1).scaleb(-digits_of(currency))
