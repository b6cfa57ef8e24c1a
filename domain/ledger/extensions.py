"""Extensions of the expiry of lots: to a moment, or by months from each lot's own end."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from domain.fields import Internal
from domain.ledger.expiry import ExpiryCalendar
from domain.ledger.lots import ChangeExpiry, Lot, end_of_lot
from domain.problems import FieldFault, NotFound

# The statuses of extensions by request.
RUNNING, DONE = "running", "done"
MAX_MONTHS = 1200


class UnknownLedgerLot(NotFound, title="The ledger lot does not exist"):
    """The account does not have the lot that a request names."""


@dataclass(frozen=True, slots=True)
class Extension:
    """A change of lots: they expire at the moment `until`, or `months` later than before; the other field is None."""

    until: datetime | None = None
    months: int | Decimal | None = None

    def faults(self) -> Iterator[tuple[str, str]]:
        """The faults of the fields: the name of a field and a sentence."""
        if (self.until is None) == (self.months is None):
            yield "until" if self.months is None else "months", "Send either until or months"
        if self.months is not None and (self.months != int(self.months) or not 1 <= self.months <= MAX_MONTHS):
            yield "months", f"months is not a whole number from 1 to {MAX_MONTHS}"

    def field_faults(self, now: datetime) -> list[FieldFault]:
        """The faults of a request for the extension."""
        faults = [FieldFault(detail, pointer=f"/{name}") for name, detail in self.faults()]
        if self.until is not None and self.until <= now:
            faults.append(FieldFault("until is not in the future", pointer="/until"))
        return faults

    def new_end(self, end: datetime, calendar: ExpiryCalendar) -> datetime:
        """The new end of a lot that expires at `end`; it may be earlier."""
        if self.months is not None:
            return calendar.expiry(end, int(self.months))
        return end if self.until is None else self.until


@dataclass(frozen=True, slots=True)
class ExtendLots(ChangeExpiry):
    """The lots of a balance expire later, except lots that never expire or have expired at `at`.

    `end` is when the whole balance expires by an idle policy, None means never. `only_lot_ids` None means all lots.
    """

    extension: Extension
    calendar: ExpiryCalendar
    end: datetime | None
    at: datetime
    only_lot_ids: frozenset[int] | None = None

    def changed_lot(self, lot: Lot) -> Lot | None:
        """The extended lot; None if it does not change."""
        end = end_of_lot(lot.expires_at, self.end, lot.kept_until)
        if end is None or end <= self.at or not lot.remaining:
            return None
        if self.only_lot_ids is not None and lot.ledger_lot_id not in self.only_lot_ids:
            return None
        new_end = self.extension.new_end(end, self.calendar)
        if new_end <= end:
            return None
        expires_at = None if lot.expires_at is None else max(lot.expires_at, new_end)
        # `kept_until` has no effect while the balance expires later, but keeps the lot if that end is brought forward.
        return replace(lot, expires_at=expires_at, kept_until=max(lot.kept_until or new_end, new_end))


@dataclass(frozen=True, slots=True)
class ExpiryExtension:
    """An extension by request: `lots` with `amount` in total were extended, or would be by a dry run.

    An extension of a whole account is `running` until its last wallet is extended; the next one is after
    `after_wallet_id`.
    """

    organization_id: int
    expiry_extension_id: int
    ledger_account_id: int
    system_unique_key: str
    request_digest: Internal[bytes]
    until: datetime | None
    months: int | None
    is_dry_run: bool
    status: str
    after_wallet_id: Internal[int]
    lots: int
    amount: Decimal
    created_at: datetime
    updated_at: datetime

    @property
    def extension(self) -> Extension:
        """The change of lots."""
        return Extension(self.until, self.months)


class LotTotals(NamedTuple):
    """The number of some lots, and the sum of their remaining amounts."""

    lots: int
    amount: Decimal


def totals_of(lots: Collection[Lot]) -> LotTotals:
    """The number of lots and the sum of their remaining amounts."""
    return LotTotals(len(lots), sum((lot.remaining for lot in lots), Decimal(0)))
