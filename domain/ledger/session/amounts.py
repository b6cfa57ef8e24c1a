"""Amounts of an account: validation, rounding and expiry."""

from datetime import datetime, tzinfo
from decimal import ROUND_FLOOR, Context, Decimal

from domain.calendar import add_months
from domain.ledger.postings import ZERO
from domain.ledger.records import MAX_AMOUNT, LedgerAccount
from domain.ledger.refusals import (
    AccountInactive,
    PointsNotTracked,
)
from domain.problems import FieldFault, InvalidRequest

_FIAT_DIGITS = Decimal("0.000001")


# Wider than any number of a request or an expression: nothing is rounded before it is cut.
_WIDE = Context(prec=200)


def overdraft_of(account: LedgerAccount) -> Decimal:
    """The greatest debt that the account allows; zero if it has no overdraft."""
    limit = account.overdraft_limit
    return limit if limit is not None and limit > 0 and account.is_revolving else ZERO


def check_amount(account: LedgerAccount, amount: Decimal) -> None:
    """Refuse an amount on an inactive account, or one that is too large or has too many fraction digits."""
    if not account.active:
        raise AccountInactive(f"The ledger account {account.name} is inactive.")
    if amount > MAX_AMOUNT:
        raise InvalidRequest([FieldFault(f"amount is more than {MAX_AMOUNT}", pointer="/amount")])
    if amount != round_down(account, amount):
        raise InvalidRequest(
            [
                FieldFault(
                    f"amount has more than the {account.decimals} fraction digits of this account", pointer="/amount"
                )
            ]
        )


def round_down(account: LedgerAccount, amount: Decimal) -> Decimal:
    """The greatest amount of the account that is not above `amount`, to round computed amounts."""
    whole = _WIDE.scaleb(amount, account.decimals).to_integral_value(ROUND_FLOOR)
    return _WIDE.scaleb(whole, -account.decimals)


def expiry_of_mint(account: LedgerAccount, at: datetime, zone: tzinfo) -> datetime | None:
    """The expiry, by the account's own policy in months of `zone`, of points minted at `at`; None is never."""
    return None if account.expires_in_months is None else add_months(at, account.expires_in_months, zone)


def refuse_untracked_expiry(account: LedgerAccount, expires_at: datetime | None) -> None:
    """Refuse an expiry of points on an account without point tracking."""
    if expires_at is not None and not account.point_tracking_enabled:
        raise PointsNotTracked(f"expirationDate is given, but the ledger account {account.name} does not track points.")


def prorated(fiat: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    """The share of a fiat value that belongs to `part` of `whole`, to six digits."""
    return fiat if part == whole else (fiat * part / whole).quantize(_FIAT_DIGITS)
