"""Captures of pending transactions, and waiting mints that become available."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from domain.ledger.expiry import SPEND
from domain.ledger.lots import (
    ChangedUse,
    LotMove,
    LotUse,
    NewLot,
    SettleLots,
    TakeLots,
    changes_of_uses,
    split_uses,
)
from domain.ledger.postings import ZERO, Capture, Confirmation, Entry, Fiat, StoredTransaction
from domain.ledger.records import BURN, MINT, PENDING, REVERTED, SETTLED, LedgerAccount
from domain.ledger.refusals import CaptureExceedsHold, NotPending
from domain.ledger.session.balances import check_amount, expired_on_arrival
from domain.ledger.session.fiat_values import prorate
from domain.ledger.session.returns import Returns


class SettledUses(NamedTuple):
    """The uses of lots that a captured debit keeps, the amounts that return to lots, and the changes of stored uses."""

    kept: tuple[LotUse, ...] = ()
    released: tuple[LotUse, ...] = ()
    changed: tuple[ChangedUse, ...] = ()


class CaptureSession(Returns):
    """A session that settles pending transactions."""

    def capture(
        self,
        transaction: StoredTransaction,
        account: LedgerAccount,
        amount: Decimal | None = None,
        fiat: Fiat | None = None,
        external_event_date: datetime | None = None,
        amount_field: str = "amount",
    ) -> Capture:
        """Settle a pending transaction at `amount` (default all), sent as `amount_field`, and release the rest.

        Without `fiat`, the fiat value of a burn is reduced in proportion. Without `external_event_date`, the date of
        the transaction counts. Raises NotPending, CaptureExceedsHold, SupplyExceeded, AccountInactive or
        InvalidRequest.
        """
        reserved_amount = self.amount_of(transaction)
        amount = reserved_amount if amount is None else amount
        if self.status_of(transaction) != PENDING or transaction.has_wait:
            raise NotPending(f"Transaction {transaction.ledger_transaction_id} is not pending.")
        if amount > reserved_amount:
            raise CaptureExceedsHold(
                f"The amount {amount} is more than the {reserved_amount} that the transaction holds."
            )
        check_amount(account, amount, amount_field)
        if transaction.transaction_type == MINT:
            self._refuse_over_supply(account, amount)
        uses = self._settled_uses(transaction, amount)
        fiat_value = None if fiat is None else fiat.value
        if fiat is None and transaction.fiat_value is not None:
            fiat_value = prorate(transaction.fiat_value, amount, reserved_amount)
        if external_event_date is not None and transaction.transaction_type == BURN:
            self.record_activity(account, transaction.debited_wallet_id, SPEND, external_event_date)
        available_before = self._available_of(transaction)
        qualifying = self._settle_qualifying(transaction, account, amount)
        # Only a mint that was pending before the upgrade from an earlier version has no date: it counts at its capture.
        expiry = transaction.pending_expires_at or self._expiry_of_stored_mint(transaction, account)
        entries, moves = self._settle(transaction, account, amount, uses, expiry)
        if transaction.from_wallet_id is not None:
            self._add_fiat(account, transaction.from_wallet_id, fiat_value)
        self.put(self._new_statuses, transaction.ledger_transaction_id, SETTLED if amount else REVERTED)
        capture = Capture(
            stored=transaction,
            account=account,
            amount=amount,
            entries=entries,
            minted=amount if transaction.transaction_type == MINT else ZERO,
            burned=amount if transaction.transaction_type == BURN else ZERO,
            lot_moves=moves,
            fiat_value=fiat_value,
            fiat_currency=None if fiat is None else fiat.currency,
            external_event_date=external_event_date,
            qualifying=qualifying,
        )
        self._add_step(capture)
        cause = f"capture-{transaction.ledger_transaction_id}"
        released_amount = reserved_amount - amount
        # Released points return to their lots, which may have expired or belong to reverted mints.
        self._settle_returned_points(
            account, transaction, released_amount, uses.released, available_before, cause, capture
        )
        # Points that reach the other wallet may have expired during the hold.
        self._expire_on_arrival(capture, self.at)
        return capture

    def _settled_uses(self, transaction: StoredTransaction, amount: Decimal) -> SettledUses:
        """The uses of lots that a pending transaction keeps and releases if this amount of it is captured."""
        kept_uses, released_uses = split_uses(transaction.uses, amount)
        changes = changes_of_uses(transaction.ledger_transaction_id, transaction.uses, kept_uses)
        released_uses, changes_of_clawbacks = self._exchange_with_clawbacks(transaction, released_uses)
        return SettledUses(kept_uses, released_uses, changes + changes_of_clawbacks)

    def make_available(
        self, transaction: StoredTransaction, account: LedgerAccount, early_at: datetime | None = None
    ) -> Capture:
        """Settle a waiting mint, as of the moment for which it waits, or as of the earlier moment `early_at`.

        The rules were checked when it was minted, so they are not checked now. Raises NotPending for other
        transactions.
        """
        if self.status_of(transaction) != PENDING or not transaction.has_wait:
            raise NotPending(
                f"Transaction {transaction.ledger_transaction_id} has no points that wait until they are available."
            )
        amount, wallet_id = self.amount_of(transaction), transaction.credited_wallet_id
        moment = early_at or transaction.available_at or self.at
        policy_expiry = self._policy_expiry(transaction, account, moment)
        last_transaction_at = self.holding(wallet_id, account.ledger_account_id).last_transaction_date
        if transaction.available_at is None:
            # An expiry that was set for this mint precedes that of the policy, which is then not stored.
            stored_expiry = policy_expiry if transaction.pending_expires_at is None else None
            self.put(self._confirmed, transaction.ledger_transaction_id, Confirmation(moment, stored_expiry))
        # The points count as earned from this moment on, which is `early_at` for an early release.
        transaction = replace(transaction, available_at=moment)
        qualifying = self._settle_qualifying(transaction, account, amount)
        expiry = transaction.pending_expires_at or policy_expiry
        entries, moves = self._settle(transaction, account, amount, SettledUses(), expiry)
        # `_settle` has set the date of the last transaction to now; the points became available at `moment`.
        self._date_last_transaction(wallet_id, account, max(moment, last_transaction_at or moment))
        self.put(self._new_statuses, transaction.ledger_transaction_id, SETTLED)
        capture = self._add_step(
            Capture(
                stored=transaction,
                account=account,
                amount=amount,
                entries=entries,
                minted=ZERO,
                burned=ZERO,
                lot_moves=moves,
                fiat_value=None,
                qualifying=qualifying,
                available_at=moment,
                expires_at=expiry,
            )
        )
        self._expire_on_arrival(capture, max(moment, expiry or moment))
        return capture

    def _policy_expiry(
        self, transaction: StoredTransaction, account: LedgerAccount, moment: datetime
    ) -> datetime | None:
        """The expiry, by the account's policy, of a waiting mint that becomes available at `moment`.

        It is stored for the moment that was planned at the mint, and computed for other moments.
        """
        if moment == transaction.available_at:
            return transaction.policy_expires_at
        return self._expiry_of_stored_mint(transaction, account, moment)

    def _expiry_of_stored_mint(
        self, mint: StoredTransaction, account: LedgerAccount, available_at: datetime | None = None
    ) -> datetime | None:
        """When points of a mint that was not settled at once expire by the account's own rules; None means never."""
        earned_at = mint.external_event_date or self.at
        return self._expiry_of_mint(account, mint.credited_wallet_id, earned_at, available_at, mint.created_at)

    def _settle(
        self,
        transaction: StoredTransaction,
        account: LedgerAccount,
        amount: Decimal,
        uses: SettledUses,
        expiry: datetime | None,
    ) -> tuple[tuple[Entry, ...], tuple[LotMove, ...]]:
        """Update the balances of both wallets; return the entries of a capture and the moves of its lots.

        `uses` are the uses of lots by a debit. The lots of a mint expire at `expiry`.
        """
        entries: tuple[Entry, ...] = ()
        moves: list[LotMove] = []
        if transaction.from_wallet_id is not None:
            self._unreserve(account, transaction.from_wallet_id, debit=transaction.amount)
            entries += self._debit(account, transaction.from_wallet_id, amount, ZERO)
        to_lots = ZERO
        if transaction.to_wallet_id is not None:
            if amount:
                arrived_at = transaction.available_at or self.at
                self._keep_idle_period(account, transaction.to_wallet_id, arrived_at=arrived_at)
            self._unreserve(account, transaction.to_wallet_id, credit=self.amount_of(transaction))
            balance, to_lots = self._credit(account, transaction.to_wallet_id, amount)
            entries += (Entry(transaction.to_wallet_id, amount, balance.current),)
        if transaction.transaction_type == MINT:
            entries += (Entry(wallet_id=None, amount=-amount),)
            if transaction.qualifying is None:
                happened_at = transaction.external_event_date or self.at
                self._earn(account, transaction.credited_wallet_id, amount, happened_at, transaction.available_at)
            if account.point_tracking_enabled and to_lots:
                moves.append(NewLot(transaction.credited_wallet_id, account.ledger_account_id, to_lots, expiry))
        elif transaction.transaction_type == BURN:
            entries += (Entry(wallet_id=None, amount=amount),)
        if account.point_tracking_enabled and transaction.from_wallet_id is not None:
            moves.append(
                SettleLots(
                    transaction.ledger_transaction_id,
                    transaction.from_wallet_id,
                    account.ledger_account_id,
                    kept_uses=uses.kept,
                    released_uses=uses.released,
                    changed_uses=uses.changed,
                    to_wallet_id=transaction.to_wallet_id,
                    to_lots=to_lots,
                    expiring_lot_ids=self._ended_lots_of(account, transaction.from_wallet_id, uses.released),
                )
            )
        return entries if amount else (), tuple(moves)

    def _expire_on_arrival(self, capture: Capture, moment: datetime) -> None:
        """Burn, as of `moment`, the points of a capture that had expired by the time they reached the wallet."""
        amount = sum((expired_on_arrival(move, self.at) for move in capture.lot_moves), ZERO)
        if amount:
            self.expire_arrived(capture, amount, moment)

    def expire_arrived(self, capture: Capture, amount: Decimal, moment: datetime) -> None:
        """Burn points that a capture of this unit of work credited and that expired at `moment`."""
        account, wallet_id = capture.account, capture.stored.credited_wallet_id
        transaction_id = capture.stored.ledger_transaction_id
        before = self._expired_on_arrival.get(transaction_id, ZERO)
        self.put(self._expired_on_arrival, transaction_id, before + amount)
        expired_lots = TakeLots(
            wallet_id, account.ledger_account_id, amount, first_transaction_id=transaction_id, is_expiry=True
        )
        key = f"expiry-on-capture-{transaction_id}-{self.at.timestamp():.6f}"
        self._expire(account, wallet_id, amount, (expired_lots,), moment, key, capture)

    def unexpired_amount_of(self, capture: Capture) -> Decimal:
        """The amount of a captured mint that went into lots in this unit of work and had not expired by then."""
        released_amount = sum((move.amount for move in capture.lot_moves if isinstance(move, NewLot)), ZERO)
        return released_amount - self._expired_on_arrival.get(capture.stored.ledger_transaction_id, ZERO)

    def _date_last_transaction(self, wallet_id: int, account: LedgerAccount, moment: datetime | None) -> None:
        """Set the date of the last transaction of a balance."""
        pair = wallet_id, account.ledger_account_id
        self.put(self._holdings, pair, replace(self.holding(*pair), last_transaction_date=moment))

    def status_of(self, transaction: StoredTransaction) -> int:
        """The present status of a stored transaction."""
        return self._new_statuses.get(transaction.ledger_transaction_id, transaction.status)
