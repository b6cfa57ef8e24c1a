"""Reverts of earlier transactions, whole or in part."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from domain.ledger.availability import NOT_CONFIRMED
from domain.ledger.lots import LotMove
from domain.ledger.postings import NO_FIAT, ZERO, Details, Entry, Fiat, Posting, StoredTransaction
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, TRANSACTION_TYPES, LedgerAccount
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    FiatExceedsBurn,
    FiatNotAllowed,
    InsufficientBalance,
    NotRevertible,
    supply_exceeded,
)
from domain.ledger.session.balances import moves_from_lots, overdraft_of, refuse_fractions
from domain.ledger.session.confirmations import ConfirmationSession
from domain.ledger.session.fiat_values import fiat_sum, rest_of
from domain.ledger.session.missing_amounts import reversal
from domain.ledger.session.returns import returned_uses_of


class LedgerSession(ConfirmationSession):
    """The ledger session of one unit of work: movements, captures, confirmations and reverts."""

    @contextmanager
    def net_supply_of_reverts(self) -> Iterator[None]:
        """Check the supply once, after all reverts of this context; raises SupplyExceeded at its end.

        So a burn can be reverted although the supply is exhausted, if mints are reverted as well. An inner context also
        checks the reverts that the outer one has made before.
        """
        outer = self._issued_before_reverts
        before_reverts = self._issued_before_reverts = dict(self._issued) if outer is None else outer
        try:
            yield
            for account_id, before in before_reverts.items():
                max_supply = self.accounts[account_id].max_supply
                if max_supply is not None and self._issued[account_id] > max(max_supply, before):
                    raise supply_exceeded(max_supply, before)
        finally:
            self._issued_before_reverts = outer

    def revert(
        self,
        transaction: StoredTransaction,
        account: LedgerAccount,
        details: Details,
        allow_overdraft: bool = False,
        burn_available: bool = False,
        partial_fiat: Decimal | None = None,
    ) -> Posting:
        """Revert a transaction by a new one, linked both ways; a pending transaction is released.

        If points of a mint were spent, `allow_overdraft` takes the spent part into debt; `burn_available` takes the
        available part and records the rest as missing. Raises AlreadyReverted, NotRevertible, InsufficientBalance,
        OverdraftLimitExceeded, SupplyExceeded, FiatNotAllowed or FiatExceedsBurn.
        """
        self._refuse_revert(transaction, account, details, partial_fiat)
        status, available_before = self.status_of(transaction), self._available_of(transaction)
        details = replace(details, fiat=Fiat(currency=transaction.fiat_currency))
        if status == PENDING:
            posting = self._release(transaction, account, details)
        elif transaction.transaction_type == MINT:
            posting = self._revert_mint(transaction, account, details, allow_overdraft, burn_available)
        elif transaction.transaction_type == BURN:
            posting = self._revert_burn(transaction, account, details, partial_fiat)
        else:
            posting = self._revert_transfer(transaction, account, details)
        self._post_revert(transaction, posting, is_mint=status == SETTLED and transaction.transaction_type == MINT)
        cause = f"revert-{transaction.ledger_transaction_id}"
        self._settle_returned_points(
            account, transaction, posting.amount, returned_uses_of(posting), available_before, cause, posting
        )
        return posting

    def refund(
        self, transaction: StoredTransaction, account: LedgerAccount, amount: Decimal, fiat: Decimal, details: Details
    ) -> Posting:
        """Return a part of a settled burn, worth `fiat`, to its lots, beginning with the lots that expire last.

        The refund of the whole unreverted part reverts the burn; the amount cannot exceed that part. Raises
        AlreadyReverted, AccountInactive, SupplyExceeded, or InvalidRequest for too many fraction digits.
        """
        if amount == self.unreverted_of(transaction):
            return self.revert(transaction, account, details)
        self._refuse_revert(transaction, account, details, partial_fiat=None)
        refuse_fractions(account, amount, "points")
        available_before, returned_before = self._available_of(transaction), self.reverted_amount_of(transaction)
        # The refund has the currency of the burn; its value in money is `fiat`.
        details = replace(details, fiat=Fiat(currency=transaction.fiat_currency))
        posting = replace(self._give_back(transaction, account, details, amount, fiat), is_partial=True)
        transaction_id = transaction.ledger_transaction_id
        self.put(self._reverted_amounts, transaction_id, returned_before + amount)
        fiat_returned = fiat_sum(self.fiat_returned_of(transaction), fiat)
        self.put(self._fiat_returned, transaction_id, fiat_returned)
        self._add_step(posting)
        # A part of the keys of expiries that this refund causes; `returned_before` differs for each refund of a burn.
        cause = f"refund-{transaction_id}-{returned_before}"
        # Points of lots that have expired since the burn expire now; missing amounts of mints are taken from the rest.
        self._settle_returned_points(
            account, transaction, amount, returned_uses_of(posting), available_before, cause, posting
        )
        return posting

    def end_hold(
        self, transaction: StoredTransaction, account: LedgerAccount, ended_at: datetime | None = None
    ) -> None:
        """Release a pending transaction whose hold has ended: at `ended_at`, or by default at the end of its time.

        The points of a mint that waited in vain for an event are cancelled. Like an expiry, the release is no action
        of the member, so it does not delay the expiry of an idle balance.
        """
        ended_at = ended_at or transaction.held_until or self.at
        wallet_id = transaction.debited_wallet_id or transaction.credited_wallet_id
        available_before = self._available_of(transaction)
        last_transaction_date = self.holding(wallet_id, account.ledger_account_id).last_transaction_date
        # With the moment, the key cannot equal a key used by a client.
        key = f"hold-ended-{transaction.ledger_transaction_id}-{self.at.timestamp():.6f}"
        why = NOT_CONFIRMED if transaction.has_wait else "Hold ended"
        posting = self._release(transaction, account, Details(key, description=why, external_event_date=ended_at))
        posting = replace(posting, ends_hold=True)
        # `_release` has set the date to now.
        self._date_last_transaction(wallet_id, account, last_transaction_date)
        self._post_revert(transaction, posting, is_mint=False)
        cause = f"hold-{transaction.ledger_transaction_id}"
        self._settle_returned_points(
            account, transaction, posting.amount, returned_uses_of(posting), available_before, cause, posting, ended_at
        )

    def _refuse_revert(
        self, transaction: StoredTransaction, account: LedgerAccount, details: Details, partial_fiat: Decimal | None
    ) -> None:
        """Refuse the revert of a transaction that cannot be reverted, or not in this way.

        `partial_fiat` is the part of the value in money that the revert returns, None for all of it.
        """
        if self.status_of(transaction) == REVERTED:
            raise AlreadyReverted(f"Transaction {transaction.ledger_transaction_id} has already been reverted.")
        _refuse_not_revertible(transaction)
        if partial_fiat is not None and transaction.transaction_type != BURN:
            raise FiatNotAllowed(
                f"partialFiatValue is sent, but transaction {transaction.ledger_transaction_id} is a"
                f" {TRANSACTION_TYPES[transaction.transaction_type]}; only the revert of a burn can have it."
            )
        if details.fiat != NO_FIAT:
            raise FiatNotAllowed("A revert has no fiatValue, fiatGrossAmount or fiatCurrency.")
        if not account.active:
            raise AccountInactive(f"The ledger account {account.name} is inactive.")

    def _post_revert(self, transaction: StoredTransaction, posting: Posting, *, is_mint: bool) -> None:
        """Post a revert and mark the transaction as reverted.

        For a settled mint (`is_mint`), also note the points that were spent and cannot be clawed back, and stop
        counting its points as earned.
        """
        remaining = self.unreverted_of(transaction)
        self.put(self._new_statuses, transaction.ledger_transaction_id, REVERTED)
        self._add_step(posting)
        if is_mint:
            self._record_missing(transaction, posting, remaining - posting.amount)
            # The points do not count as earned, even if they are spent or have expired.
            self._unearn(transaction, posting.account, self.qualifying_of(transaction))

    def reverse_part(
        self,
        transaction: StoredTransaction,
        account: LedgerAccount,
        amount: Decimal,
        details: Details,
        unearned: Decimal | None = None,
    ) -> Posting | None:
        """Revert a mint in part, so that `amount` of it is reverted in total; less if the wallet has less.

        Lowers the reserved amount of a pending mint; records the missing amount of a settled mint. `unearned` (default
        `amount`) is how many of its qualifying points no longer count in total: it differs from `amount` if a part has
        expired, or if not the whole amount qualifies. Returns None if nothing can be taken or recorded, or the
        transaction is not a mint. Raises AccountInactive.
        """
        status, wallet_id = self.status_of(transaction), transaction.to_wallet_id
        if transaction.transaction_type != MINT or wallet_id is None or status == REVERTED:
            return None
        if not account.active:
            raise AccountInactive(f"The ledger account {account.name} is inactive.")
        due_amount = amount - self.reverted_amount_of(transaction) - self.released_of(transaction)
        if status == PENDING:
            return self._lower(transaction, account, due_amount, details) if due_amount > 0 else None
        is_less_earned = self._unearn(transaction, account, amount if unearned is None else unearned)
        if due_amount <= 0:
            # A partial revert of zero records points that do not count as earned any more, though they have expired.
            return self._take_part(account, transaction, ZERO, moves=(), details=details) if is_less_earned else None
        taken_amount = min(due_amount, self.holding(wallet_id, account.ledger_account_id).available)
        if not taken_amount and due_amount == self.missing_of(transaction) and not is_less_earned:
            return None
        moves = moves_from_lots(
            account, wallet_id, taken_amount, first_transaction_id=transaction.ledger_transaction_id
        )
        posting = self._take_part(account, transaction, taken_amount, moves, details)
        self._record_missing(transaction, posting, due_amount - taken_amount)
        return posting

    def _lower(
        self, transaction: StoredTransaction, account: LedgerAccount, amount: Decimal, details: Details
    ) -> Posting:
        """Lower the reserved amount of a pending mint, to zero if `amount` is all of it."""
        if amount >= self.amount_of(transaction):
            return self.revert(transaction, account, details)
        wallet_id = transaction.credited_wallet_id
        # The part of a mint that waits was issued when it was minted; a part that is to be captured was not.
        minted = -amount if transaction.has_wait else ZERO
        balance = self._unreserve(account, wallet_id, credit=amount)
        self.put(self._released, transaction.ledger_transaction_id, self.released_of(transaction) + amount)
        entries = (Entry(wallet_id, ZERO, balance.current),)
        posting = reversal(transaction, account, details, amount, entries, minted=minted, status=REVERTED)
        return self._add_step(replace(posting, is_partial=True))

    def _release(self, transaction: StoredTransaction, account: LedgerAccount, details: Details) -> Posting:
        """The revert of a pending transaction, which ends its reservations."""
        entries: list[Entry] = []
        moves: tuple[LotMove, ...] = ()
        if transaction.from_wallet_id is not None:
            balance = self._unreserve(account, transaction.from_wallet_id, debit=transaction.amount)
            entries.append(Entry(transaction.from_wallet_id, ZERO, balance.current))
            moves = self._moves_back_to_lots(
                account, transaction, transaction.amount, transaction.amount, revives=False
            )
        if transaction.to_wallet_id is not None:
            balance = self._unreserve(account, transaction.to_wallet_id, credit=self.amount_of(transaction))
            entries.append(Entry(transaction.to_wallet_id, ZERO, balance.current))
        amount = self.amount_of(transaction)
        return reversal(
            transaction,
            account,
            details,
            amount,
            tuple(entries),
            lot_moves=moves,
            minted=-amount if transaction.has_wait else ZERO,
            status=REVERTED,
        )

    def _revert_mint(
        self,
        transaction: StoredTransaction,
        account: LedgerAccount,
        details: Details,
        allow_overdraft: bool,
        burn_available: bool,
    ) -> Posting:
        """The revert of a settled mint, which takes the points from the wallet; the flags are as in `revert`."""
        wallet_id = transaction.credited_wallet_id
        available = self.holding(wallet_id, account.ledger_account_id).available
        amount, shortfall = self.unreverted_of(transaction), ZERO
        if amount > available:
            if allow_overdraft and overdraft_of(account):
                shortfall = self._shortfall(account, wallet_id, amount, allow_overdraft)
            elif burn_available:
                amount = available
            else:
                raise InsufficientBalance(f"Only {available} of the {amount} points to claw back are left.")
        entries = self._debit(account, wallet_id, amount - shortfall, shortfall)
        moves = moves_from_lots(
            account, wallet_id, amount - shortfall, first_transaction_id=transaction.ledger_transaction_id
        )
        return reversal(
            transaction,
            account,
            details,
            amount,
            (*entries, Entry(wallet_id=None, amount=amount)),
            lot_moves=moves,
            minted=-amount,
        )

    def _revert_burn(
        self, transaction: StoredTransaction, account: LedgerAccount, details: Details, partial_fiat: Decimal | None
    ) -> Posting:
        """Revert a settled burn; return the posting.

        It returns `partial_fiat` of the burn's value in money, by default all that is left.
        """
        remaining_fiat = rest_of(transaction.fiat_value, self.fiat_returned_of(transaction))
        if partial_fiat is not None and partial_fiat > (remaining_fiat or ZERO):
            raise FiatExceedsBurn(
                f"partialFiatValue is {partial_fiat}; only {remaining_fiat or ZERO} of the fiatValue of the burn are"
                " left."
            )
        fiat = remaining_fiat if partial_fiat is None else partial_fiat
        return self._give_back(transaction, account, details, self.unreverted_of(transaction), fiat)

    def _give_back(
        self,
        transaction: StoredTransaction,
        account: LedgerAccount,
        details: Details,
        amount: Decimal,
        fiat: Decimal | None,
    ) -> Posting:
        """Give back `amount` of a burn, worth `fiat` in money."""
        wallet_id = transaction.debited_wallet_id
        self._refuse_return_over_supply(account, amount)
        balance, to_lots = self._credit(account, wallet_id, amount)
        self._add_fiat(account, wallet_id, None if fiat is None else fiat.copy_negate())
        entries = (Entry(wallet_id, amount, balance.current), Entry(wallet_id=None, amount=-amount))
        moves = self._moves_back_to_lots(account, transaction, amount, to_lots)
        posting = reversal(transaction, account, details, amount, entries, lot_moves=moves, burned=-amount)
        return replace(posting, fiat_value=fiat)

    def _refuse_return_over_supply(self, account: LedgerAccount, amount: Decimal) -> None:
        """Raise SupplyExceeded if the account cannot issue the points of a burn again.

        The reverts of `net_supply_of_reverts` are checked at its end.
        """
        if account.is_revolving and self._issued_before_reverts is None:
            self._refuse_over_supply(account, amount)

    def _revert_transfer(self, transaction: StoredTransaction, account: LedgerAccount, details: Details) -> Posting:
        """Give the unreverted part of a transfer back to its sender; the receiver must be able to spend it."""
        sender, receiver = transaction.debited_wallet_id, transaction.credited_wallet_id
        amount = self.unreverted_of(transaction)
        self._refuse_unavailable(account, receiver, amount)
        debit = self._debit(account, receiver, amount, ZERO)
        balance, to_lots = self._credit(account, sender, amount)
        moves = (
            *moves_from_lots(account, receiver, amount, first_transaction_id=transaction.ledger_transaction_id),
            *self._moves_back_to_lots(account, transaction, transaction.amount, to_lots),
        )
        entries = (*debit, Entry(sender, amount, balance.current))
        return reversal(transaction, account, details, amount, entries, lot_moves=moves)

    def unreverted_of(self, transaction: StoredTransaction) -> Decimal:
        """The part of a transaction that is not reverted yet."""
        return max(
            ZERO, self.reversible_of(transaction) - self.reverted_amount_of(transaction) - self.released_of(transaction)
        )


def _refuse_not_revertible(transaction: StoredTransaction) -> None:
    """Raise NotRevertible for a revert, an expiry, and the record of a change of the account, which has no wallets."""
    if transaction.transaction_type == REVERT:
        reason = "is a revert"
    elif transaction.is_expiry:
        reason = "is an expiry"
    elif transaction.from_wallet_id is None and transaction.to_wallet_id is None:
        reason = "records a change of the account"
    else:
        return
    raise NotRevertible(f"Transaction {transaction.ledger_transaction_id} cannot be reverted: it {reason}.")
