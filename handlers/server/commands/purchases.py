"""Reads files of purchases in the form of the CDNOW master file: a line of headings, then a line for each purchase."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import click

HEADINGS = ("customer_id", "date", "number_of_cds", "dollar_value")
_FORM = "customer_id date number_of_cds dollar_value"
_DATE = re.compile(r"[0-9]{8}")
_QUANTITY = re.compile(r"[0-9]{1,9}")
_VALUE = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?")
# Member ids that are possible in a path: without slashes and control characters, and not only dots.
_CUSTOMER = re.compile(r"(?!\.+$)[^/\x00-\x1f\x7f]{1,255}")
_MAX_FAULTS_LISTED = 10


@dataclass(frozen=True, slots=True)
class Purchase:
    """One line: a purchase of items on a day, in dollars; `number` is 1 for the line after the headings."""

    number: int
    customer_id: str
    day: date
    quantity: int
    total: Decimal

    @property
    def at(self) -> datetime:
        """The beginning of the day in UTC, since the file has no times of day."""
        return datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC)


class FaultyFile(click.ClickException):
    """The file cannot be read as purchases; the message names the lines."""


def read_purchases(path: Path) -> list[Purchase]:
    """All purchases in file order, without empty lines; raises FaultyFile, which names every invalid line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise FaultyFile(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise FaultyFile(f"{path} is not a text file in UTF-8") from None
    if not lines or tuple(lines[0].split()) != HEADINGS:
        raise FaultyFile(f"{path}, line 1: the headings must be `{_FORM}`")
    purchases, faults = [], []
    for number, line in enumerate(lines[1:], 1):
        if line.strip():
            try:
                purchases.append(_purchase(number, line.split()))
            except ValueError as fault:
                faults.append(f"{path}, line {number + 1}: {fault}")
    if faults:
        more = len(faults) - _MAX_FAULTS_LISTED
        raise FaultyFile("\n".join([*faults[:_MAX_FAULTS_LISTED], *([f"and {more} more"] if more > 0 else [])]))
    if not purchases:
        raise FaultyFile(f"{path} contains no purchases")
    return purchases


def _purchase(number: int, fields: list[str]) -> Purchase:
    """The purchase of one line; raises ValueError with a text about the fault."""
    if len(fields) != len(HEADINGS):
        raise ValueError(f"the line has {len(fields)} fields; expected {len(HEADINGS)}: `{_FORM}`")
    customer_id, day, quantity, value = fields
    if not _CUSTOMER.fullmatch(customer_id):
        raise ValueError("customer_id must have at most 255 characters, no slash, and not only dots")
    if not _QUANTITY.fullmatch(quantity):
        raise ValueError(f"number_of_cds must be a whole number, not {quantity!r}")
    if not _VALUE.fullmatch(value):
        raise ValueError(f"dollar_value must be an amount such as 11.77, not {value!r}")
    return Purchase(number=number, customer_id=customer_id, day=_day(day), quantity=int(quantity), total=Decimal(value))


def _day(text: str) -> date:
    """The day of a text of eight digits; raises ValueError with a text about the fault."""
    try:
        if _DATE.fullmatch(text):
            return date(int(text[:4]), int(text[4:6]), int(text[6:]))
    except ValueError:
        pass
    raise ValueError(f"date must be a day such as 19970131, not {text!r}")
