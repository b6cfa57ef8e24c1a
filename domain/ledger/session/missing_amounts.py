"""Missing amounts of reverted mints: recorded, and clawed back when the reversal of an earlier debit returns points."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from domain.ledger.lots import LotMove, LotUse
from domain.ledger.postings import ZERO, Capture, Details, Entry, Posting, StoredTransaction
from domain.ledger.records import REVERT, REVERTED, SETTLED, LedgerAccount
from domain.ledger.session.balances import moves_from_lots, share_of
from domain.ledger.session.movements import Movements


class ReturnedPoints(NamedTuple):
    """The points that the reversal of a debit returned to a wallet.

    `arrived` are spendable now, `repaid` have repaid debt. `expired` are the points that expired at once, by lot id.
    """

    arrived: Decimal
    repaid: Decimal
    expired: Mapping[int, Decimal]


class MissingAmount(NamedTuple):
    """The missing amount of a mint.

    `posting` is the last revert of the mint in this unit of work that could not take everything; None if there is none.
    """

    amount: Decimal
    posting: Posting | None


class MissingAmounts(Movements):
    """A session that records missing amounts of reverted mints.

    A revert of a mint takes all points that the wallet has; the rest is missing. If an earlier debit is reverted later,
    the points that it returns first repay the missing amount, whichever lots they return to. So as much of the mint is
    clawed back as if the debit had been reverted first.
    """

    @property
    def missing_amounts(self) -> Mapping[int, MissingAmount]:
        """The missing amounts that this unit of work has changed, by the transaction id of the mint."""
        postings = {transaction_id: posting for transaction_id, (_, posting) in self._short_reverts.items()}
        return {
            transaction_id: MissingAmount(amount, postings.get(transaction_id))
            for transaction_id, amount in self._missing.items()
        }

    @property
    def released_amounts(self) -> Mapping[int, Decimal]:
        """The amounts that partial reverts have taken off pending mints, by transaction id."""
        return self._released

    def reverted_amount_of(self, transaction: StoredTransaction) -> Decimal:
        """The amount of a transaction that partial reverts have reverted so far."""
        return self._reverted_amounts.get(transaction.ledger_transaction_id, transaction.reverted_amount)

    def fiat_returned_of(self, transaction: StoredTransaction) -> Decimal:
        """The fiat value of a burn that partial reverts have returned so far."""
        return self._fiat_returned.get(transaction.ledger_transaction_id, transaction.fiat_returned)

    def released_of(self, transaction: StoredTransaction) -> Decimal:
        """The amount that partial reverts have taken off a transaction while it was pending."""
        return self._released.get(transaction.ledger_transaction_id, transaction.released)

    def amount_of(self, transaction: StoredTransaction) -> Decimal:
        """The present amount of a transaction, moved or reserved."""
        return transaction.amount - self.released_of(transaction) + transaction.released

    def reversible_of(self, transaction: StoredTransaction) -> Decimal:
        """The amount of a transaction, pending or not, less the part that has expired."""
        expired = transaction.expired + self._expired_on_arrival.get(transaction.ledger_transaction_id, ZERO)
        expired += sum((self._expired.get(lot_id, ZERO) for lot_id in transaction.lot_ids), ZERO)
        return self.original_amount_of(transaction) - expired

    @property
    def unearned_amounts(self) -> Mapping[int, Decimal]:
        """The changed amounts that do not count as earned, by the id of the mint; without reverted mints."""
        return {
            transaction_id: amount
            for transaction_id, amount in self._unearned.items()
            if self._new_statuses.get(transaction_id) != REVERTED
        }

    def original_amount_of(self, transaction: StoredTransaction) -> Decimal:
        """The original amount of a transaction, including the part that has expired."""
        return self.amount_of(transaction) + self.released_of(transaction)

    def qualifying_of(self, transaction: StoredTransaction) -> Decimal:
        """The points of a mint that counted as earned before any of it was reverted."""
        return self.original_amount_of(transaction) if transaction.qualifying is None else transaction.qualifying

    def missing_of(self, transaction: StoredTransaction) -> Decimal:
        """The spent amount of a reverted mint that could not be clawed back yet."""
        return self._missing.get(transaction.ledger_transaction_id, transaction.missing)

    def parts_of(self, step: Posting | Capture) -> list[Posting]:
        """The partial reverts of mints that clawed back points when `step`, a revert or capture, returned them."""
        parts = (posting for posting in self.steps if isinstance(posting, Posting) and posting.reverts is not None)
        return [part for part in parts if part.part_of is step]

    def _settle_qualifying(
        self, transaction: StoredTransaction, account: LedgerAccount, amount: Decimal
    ) -> Decimal | None:
        """Count the qualifying points of the captured `amount` of a mint as earned; return its new `qualifying`.

        The new `qualifying` is for the captured amount and for the amount that partial reverts released before the
        capture; the share of the released amount is recorded as not earned. The rest of the mint does not qualify.
        If `qualifying` is None, the whole amount qualifies, which the caller counts. If nothing is captured, nothing
        counts.
        """
        if transaction.qualifying is None or not amount:
            return transaction.qualifying
        released = self.released_of(transaction)
        qualifying = share_of(account, transaction.qualifying, amount + released, self.original_amount_of(transaction))
        earned_points = share_of(account, qualifying, amount, amount + released)
        if earned_points < qualifying:
            self.put(self._unearned, transaction.ledger_transaction_id, qualifying - earned_points)
        self._earn(
            account,
            transaction.credited_wallet_id,
            earned_points,
            transaction.external_event_date or self.at,
            transaction.available_at,
        )
        return qualifying

    def _unearn(self, transaction: StoredTransaction, account: LedgerAccount, unearned_amount: Decimal) -> bool:
        """Raise to this amount how many qualifying points of a settled mint do not count as earned.

        Returns True if they were fewer before; else nothing changes.
        """
        if transaction.qualifying is None:
            # The amount of the mint no longer contains what was released while it was pending.
            unearned_amount -= self.released_of(transaction)
        before = self._unearned.get(transaction.ledger_transaction_id, transaction.unearned)
        if unearned_amount <= before:
            return False
        self.put(self._unearned, transaction.ledger_transaction_id, unearned_amount)
        self._earn(
            account,
            transaction.credited_wallet_id,
            before - unearned_amount,
            transaction.happened_at or self.at,
            transaction.available_at,
        )
        return True

    def _record_missing(self, transaction: StoredTransaction, posting: Posting, shortfall: Decimal) -> None:
        """Record the amount that a revert of a mint, or of a part of it, could not take."""
        if shortfall or self.missing_of(transaction):
            self.put(self._missing, transaction.ledger_transaction_id, shortfall)
            self.put(self._short_reverts, transaction.ledger_transaction_id, (transaction, posting))

    def _take_missing(
        self,
        account: LedgerAccount,
        transaction: StoredTransaction,
        returned_points: ReturnedPoints,
        lots: Iterable[LotUse],
        step: Posting | Capture,
    ) -> None:
        """Claw back missing amounts of mints from the points that the reversal of a debit returned.

        `transaction` is the debit, `step` the revert or capture that returned points to `lots`. Points are taken from
        the lots of the mint first, then from `lots`, then from other lots.
        """
        wallet_id, uses_of_lots = transaction.debited_wallet_id, tuple(lots)
        for mint in self._mints_to_repay(transaction, account):
            # Points of the mint's own lots that expired when they were returned have been burned.
            shortfall = self.missing_of(mint) - sum(
                (returned_points.expired.get(lot_id, ZERO) for lot_id in mint.lot_ids), ZERO
            )
            shortfall = max(ZERO, shortfall)
            points = min(shortfall, returned_points.arrived)
            debt = min(shortfall - points, returned_points.repaid)
            returned_points = ReturnedPoints(
                returned_points.arrived - points, returned_points.repaid - debt, returned_points.expired
            )
            self.put(self._missing, mint.ledger_transaction_id, shortfall - points - debt)
            if points or debt:
                moves = moves_from_lots(account, wallet_id, points, mint.ledger_transaction_id, uses_of_lots)
                details = _details_of(mint, transaction, step, self)
                # Points that repaid debt become debt again.
                self._take_part(account, mint, points, moves, details, debt, step)

    def _take_part(
        self,
        account: LedgerAccount,
        mint: StoredTransaction,
        amount: Decimal,
        moves: tuple[LotMove, ...],
        details: Details,
        debt: Decimal = ZERO,
        part_of: Posting | Capture | None = None,
    ) -> Posting:
        """Revert a settled mint in part: take `amount` from its wallet by `moves` of lots, and `debt` as overdraft.

        `part_of` is the step that returned the points; None if the mint itself is reversed.
        """
        debits, total = self._debit(account, mint.credited_wallet_id, amount, debt), amount + debt
        entries = (*debits, Entry(wallet_id=None, amount=total))
        self.put(self._reverted_amounts, mint.ledger_transaction_id, self.reverted_amount_of(mint) + total)
        posting = reversal(mint, account, details, total, entries, lot_moves=moves, minted=-total)
        return self._add_step(replace(posting, is_partial=True, part_of=part_of))

    def _mints_to_repay(self, transaction: StoredTransaction, account: LedgerAccount) -> list[StoredTransaction]:
        """The mints whose missing amounts the reversal of a debit repays, oldest first.

        These are mints of the same balance that were reverted after the debit.
        """
        mints = {mint.ledger_transaction_id: mint for mint in transaction.mints_to_repay}
        pair = (transaction.from_wallet_id, account.ledger_account_id)
        # Also the mints that this unit of work has reverted: the debit was stored before their reverts.
        short_mints = (mint for mint, _ in self._short_reverts.values())
        mints.update(
            {
                mint.ledger_transaction_id: mint
                for mint in short_mints
                if (mint.to_wallet_id, mint.ledger_account_id) == pair
            }
        )
        return [mints[transaction_id] for transaction_id in sorted(mints)]


def _details_of(
    mint: StoredTransaction, transaction: StoredTransaction, step: Posting | Capture, session: MissingAmounts
) -> Details:
    """The details of the partial revert of a mint, taken from the revert that made it possible."""
    # With the moment, the key cannot equal a key used by a client.
    # With the amount, it differs from the key of another part of the same mint at this moment.
    part = f"{session.at.timestamp():.6f}-{session.reverted_amount_of(mint)}"
    key = f"missing-{mint.ledger_transaction_id}-after-{transaction.ledger_transaction_id}-{part}"
    if isinstance(step, Capture):
        return Details(key)
    details = step.details
    return Details(
        key,
        external_event_date=details.external_event_date,
        description=details.description,
        loyalty_event_id=details.loyalty_event_id,
    )


def reversal(
    transaction: StoredTransaction,
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
    """A transaction of type `revert` that reverts a stored one."""
    return Posting(
        account=account,
        transaction_type=REVERT,
        status=status,
        amount=amount,
        from_wallet_id=transaction.to_wallet_id,
        to_wallet_id=transaction.from_wallet_id,
        entries=entries,
        details=details,
        minted=minted,
        burned=burned,
        lot_moves=lot_moves,
        reverts=transaction,
    )
