"""Exact numbers: 64-bit integers that raise on overflow, and decimals of 34 digits.

Nothing here uses the decimal context of the thread: every operation goes through `DECIMALS`.
"""

import decimal
import re
from decimal import Decimal
from typing import Any

from domain.expressions.errors import EvaluationError
from domain.expressions.limits import MAX_INT, MIN_INT, PRECISION

DECIMALS = decimal.Context(
    prec=PRECISION,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=-6143,
    Emax=6144,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
_MAX_PLAIN_EXPONENT = 40
# Maximum lengths of texts that are converted, so that a conversion costs little. They leave space for leading zeros.
_MAX_INT_DIGITS = 40
_MAX_DECIMAL_TEXT = 100
_DECIMAL_TEXT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def int64(value: int) -> int:
    """The integer; raises EvaluationError unless it fits 64 bits."""
    if MIN_INT <= value <= MAX_INT:
        return value
    raise EvaluationError("overflow", "the integer does not fit 64 bits")


def divide_int(left: int, right: int) -> int:
    """Quotient truncated towards zero, as CEL divides integers."""
    if right == 0:
        raise EvaluationError("division-by-zero", "division by zero")
    quotient = abs(left) // abs(right)
    return int64(quotient if (left < 0) == (right < 0) else -quotient)


def modulo_int(left: int, right: int) -> int:
    """Remainder with the sign of the dividend."""
    if right == 0:
        raise EvaluationError("division-by-zero", "division by zero")
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def divide(left: Decimal | int, right: Decimal | int) -> Decimal:
    """Quotient to 34 digits."""
    if right == 0:
        raise EvaluationError("division-by-zero", "division by zero")
    return DECIMALS.divide(left, right)


def modulo(left: Decimal | int, right: Decimal | int) -> Decimal:
    """Remainder with the sign of the dividend."""
    if right == 0:
        raise EvaluationError("division-by-zero", "division by zero")
    return DECIMALS.remainder(left, right)


def exact(value: Decimal | int | str) -> Decimal:
    """The value as a decimal; refuses anything but a finite number."""
    result = DECIMALS.create_decimal(value)
    if not result.is_finite():
        raise EvaluationError("invalid", "the number is not finite")
    return result


# The unit to which a number is rounded, by the number of fraction digits.
_STEPS = {digits: Decimal((0, (1,), -digits)) for digits in range(-PRECISION, PRECISION + 1)}


def _to_decimal(value: Any) -> Decimal:
    """The decimal of a number or a text; raises EvaluationError for null, true and false."""
    if type(value) is Decimal:
        return value
    if value is None or isinstance(value, bool):
        raise EvaluationError("type", "the value is not a number")
    return exact(value)


def round_half_up(value: Decimal | int, digits: int = 0) -> Decimal:
    """The value rounded to the given number of fraction digits, half away from zero; -1 rounds to tens."""
    step = _STEPS.get(digits)
    if step is None:
        raise EvaluationError("invalid", f"round() takes -{PRECISION} to {PRECISION} digits")
    rounded_value = _to_decimal(value).quantize(step, decimal.ROUND_HALF_UP, DECIMALS)
    # Rounded to tens, the number has an exponent, as in 1.2E+2; the result has none.
    return rounded_value if digits >= 0 else rounded_value.quantize(_STEPS[0], context=DECIMALS)


def floor(value: Decimal) -> Decimal:
    """The largest whole number not above the value."""
    return _to_decimal(value).to_integral_value(decimal.ROUND_FLOOR, DECIMALS)


def ceil(value: Decimal) -> Decimal:
    """The smallest whole number not below the value."""
    return _to_decimal(value).to_integral_value(decimal.ROUND_CEILING, DECIMALS)


def to_int(value: Decimal | int) -> int:
    """The number without its fraction; raises EvaluationError unless it fits 64 bits."""
    if not MIN_INT - 1 < value < MAX_INT + 1:
        raise EvaluationError("overflow", "the number does not fit 64 bits")
    return int(value)


def int_from_text(text: str) -> int:
    """The integer in a text of decimal digits with an optional sign; raises EvaluationError unless it fits 64 bits."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    if not (digits.isascii() and digits.isdigit()):
        raise EvaluationError("invalid", "the text is not an integer")
    if len(digits) > _MAX_INT_DIGITS:
        raise EvaluationError("invalid", f"the text has {len(digits)} digits; the maximum is {_MAX_INT_DIGITS}")
    return int64(int(text))


def is_decimal_text(text: str) -> bool:
    """True for a number in ASCII digits, such as `-1.50` or `1e3`, without blanks and of at most 100 characters."""
    return len(text) <= _MAX_DECIMAL_TEXT and _DECIMAL_TEXT.fullmatch(text) is not None


def decimal_from_text(text: str) -> Decimal:
    """The decimal in a text; raises EvaluationError if it is too long or not a finite number."""
    if len(text) > _MAX_DECIMAL_TEXT:
        raise EvaluationError(
            "invalid", f"the text has {len(text)} characters; a number may have at most {_MAX_DECIMAL_TEXT}"
        )
    if not is_decimal_text(text):
        raise EvaluationError("invalid", "the text is not a number")
    try:
        return exact(text)
    except decimal.InvalidOperation:
        raise EvaluationError("invalid", "the text is not a number") from None


def decimal_to_text(value: Decimal) -> str:
    """The decimal in plain digits, with trailing zeros; with an exponent if it is very large or small."""
    if abs(value.adjusted()) > _MAX_PLAIN_EXPONENT or not value.is_finite():
        return DECIMALS.to_sci_string(value)
    return format(value, "f")
