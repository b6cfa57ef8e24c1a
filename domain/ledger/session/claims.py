"""What reverts could not take back: it is remembered, and taken from what undoing earlier debits gives back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from domain.ledger.lots import LotMove, LotUse
from domain.ledger.postings import ZERO, Capture, Details, Entry, Posting, Stored
from domain.ledger.records import REVERT, REVERTED, SETTLED, LedgerAccount
from domain.ledger.session.lot_moves import taken
from domain.ledger.session.movements import Movements


class Returned(NamedTuple):
    """What undoing a debit gave back: `arrived` can be spent, `repaid` went into debt, of lots some has `expired`."""

    arrived: Decimal
    repaid: Decimal
    expired: Mapping[int, Decimal]


class Clamp(NamedTuple):
    """What of a mint is missing by now; `by` is the posting that last found no more, if it is of this unit of work."""

    missing: Decimal
    by: Posting | None


class Claims(Movements):
    """A session that remembers what reverts of mints could not take back.

    A revert takes all that a wallet has before anything is missing. So had a debit been undone before that, what it
    gives back would have been taken as well: that is what happens to it now, whichever lots it comes back to.
    """

    @property
    def clamps(self) -> Mapping[int, Clamp]:
        """The mints of which something else is missing than before this unit of work, by transaction."""
        by = {i: posting for i, (_, posting) in self._clamped.items()}
        return {i: Clamp(missing, by.get(i)) for i, missing in self._missing.items()}

    @property
    def lowered(self) -> Mapping[int, Decimal]:
        """How much was taken off pending mints in all, by transaction."""
        return self._released

    def taken_back_of(self, stored: Stored) -> Decimal:
        """What partial reverts have taken back of a transaction so far."""
        return self._taken_back.get(stored.ledger_transaction_id, stored.taken_back)

    def released_of(self, stored: Stored) -> Decimal:
        """What partial reverts have taken off a transaction while it was pending."""
        return self._released.get(stored.ledger_transaction_id, stored.released)

    def amount_of(self, stored: Stored) -> Decimal:
        """What a transaction moves, or has set aside, by now."""
        return stored.amount - self.released_of(stored) + stored.released

    def reversible_of(self, stored: Stored) -> Decimal:
        """What a transaction gave or was to give, less what of it has expired: that is gone already."""
        expired = stored.expired + sum((self._expired.get(lot, ZERO) for lot in stored.lots), ZERO)
        return self.given_of(stored) - expired

    @property
    def unearned(self) -> Mapping[int, Decimal]:
        """How much of mints that stand is not earned any more, by transaction, where that has changed."""
        return {i: amount for i, amount in self._unearned.items() if self._settled.get(i) != REVERTED}

    def given_of(self, stored: Stored) -> Decimal:
        """What a transaction was to give at first, also if some of it has expired."""
        return self.amount_of(stored) + self.released_of(stored)

    def missing_of(self, stored: Stored) -> Decimal:
        """What of a mint could not be taken back yet."""
        return self._missing.get(stored.ledger_transaction_id, stored.missing)

    def parts_of(self, step: Posting | Capture) -> list[Posting]:
        """The mints' parts that were taken back at once from what a revert or capture gave back."""
        parts = (each for each in self.steps if isinstance(each, Posting) and each.reverts is not None)
        return [part for part in parts if part.part_of is step]

    def _unearn(self, stored: Stored, account: LedgerAccount, in_all: Decimal) -> bool:
        """Have so much of a settled mint count as not earned; true if that is more than before."""
        before = self._unearned.get(stored.ledger_transaction_id, stored.unearned)
        if in_all <= before:
            return False
        self._journal.put(self._unearned, stored.ledger_transaction_id, in_all)
        self._earn(account, stored.to_wallet_id or 0, before - in_all, stored.happened_at or self.at)
        return True

    def _note_missing(self, stored: Stored, posting: Posting, missing: Decimal) -> None:
        """Remember what a revert of a mint, or of a part of it, could not take."""
        if missing or self.missing_of(stored):
            self._journal.put(self._missing, stored.ledger_transaction_id, missing)
            self._journal.put(self._clamped, stored.ledger_transaction_id, (stored, posting))

    def _take_missing(
        self,
        account: LedgerAccount,
        reverted: Stored,
        back: Returned,
        lots: Iterable[LotUse],
        step: Posting | Capture,
    ) -> None:
        """Take what is missing of mints from what undoing a debit has given back, partly to these lots."""
        wallet_id, preferred = reverted.from_wallet_id or 0, tuple(lots)
        for mint in self._claims_on(reverted, account):
            # What has expired of the mint itself is gone already.
            missing = self.missing_of(mint) - sum((back.expired.get(lot, ZERO) for lot in mint.lots), ZERO)
            missing = max(ZERO, missing)
            points = min(missing, back.arrived)
            debt = min(missing - points, back.repaid)
            back = Returned(back.arrived - points, back.repaid - debt, back.expired)
            self._journal.put(self._missing, mint.ledger_transaction_id, missing - points - debt)
            if points or debt:
                moves = taken(account, wallet_id, points, mint.ledger_transaction_id, preferred)
                details = _details_of(mint, reverted, step, self)
                # What has repaid a debt is debt again.
                self._take_part(account, mint, points, moves, details, debt, step)

    def _take_part(
        self,
        account: LedgerAccount,
        mint: Stored,
        amount: Decimal,
        moves: tuple[LotMove, ...],
        details: Details,
        debt: Decimal = ZERO,
        part_of: Posting | Capture | None = None,
    ) -> Posting:
        """Revert a settled mint in part: take `amount` from its wallet, and `debt` beside."""
        debits, amount = self._debited(account, mint.to_wallet_id or 0, amount, debt), amount + debt
        entries = (*debits, Entry(None, amount))
        self._journal.put(self._taken_back, mint.ledger_transaction_id, self.taken_back_of(mint) + amount)
        posting = reversal(mint, account, details, amount, entries, lot_moves=moves, minted=-amount)
        return self._post(replace(posting, is_partial=True, part_of=part_of))

    def _claims_on(self, reverted: Stored, account: LedgerAccount) -> list[Stored]:
        """The mints of which something is missing that an undone debit gives back, the oldest first."""
        known = {mint.ledger_transaction_id: mint for mint in reverted.claims}
        pair = (reverted.from_wallet_id, account.ledger_account_id)
        # Whatever is undone was posted before this unit of work began, and so before what was clamped in it.
        here = (mint for mint, _ in self._clamped.values())
        known.update({m.ledger_transaction_id: m for m in here if (m.to_wallet_id, m.ledger_account_id) == pair})
        return [known[i] for i in sorted(known)]


def _details_of(mint: Stored, reverted: Stored, step: Posting | Capture, session: Claims) -> Details:
    """What the taking of a missing part says of itself: what the revert says that made it possible."""
    # The moment makes it a key that no client can have used for something else.
    key = f"missing-{mint.ledger_transaction_id}-after-{reverted.ledger_transaction_id}-{session.at.timestamp():.6f}"
    if isinstance(step, Capture):
        return Details(key)
    said = step.details
    return Details(
        key,
        external_event_date=said.external_event_date,
        description=said.description,
        loyalty_event_id=said.loyalty_event_id,
    )


def reversal(
    stored: Stored,
    account: LedgerAccount,
    details: Details,
    amount: Decimal,
    entries: tuple[Entry, ...],
    *,
    lot_moves: tuple[LotMove, ...] = (),
    minted: Decimal = ZERO,
    burned: Decimal = ZERO,
    status: int = SETTLED,
) -> Posting:
    """A transaction of type `revert` that undoes a stored one."""
    return Posting(
        account=account,
        transaction_type=REVERT,
        status=status,
        amount=amount,
        from_wallet_id=stored.to_wallet_id,
        to_wallet_id=stored.from_wallet_id,
        entries=entries,
        details=details,
        minted=minted,
        burned=burned,
        lot_moves=lot_moves,
        reverts=stored,
    )
