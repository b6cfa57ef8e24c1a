"""Captures of pending transactions, mints that become available, and what reversals give back to wallets."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from domain.ledger.expiry import SPEND
from domain.ledger.lots import LotMove, LotUse, NewLot, SettleLots, TakeLots, split_uses
from domain.ledger.postings import ZERO, Capture, Entry, Fiat, Stored
from domain.ledger.records import BURN, MINT, PENDING, REVERTED, SETTLED, LedgerAccount
from domain.ledger.refusals import CaptureExceedsHold, NotPending
from domain.ledger.session.balances import check_amount, expired_on_arrival, prorated
from domain.ledger.session.returns import Returns


class CaptureSession(Returns):
    """A session that settles pending transactions."""

    def capture(
        self,
        stored: Stored,
        account: LedgerAccount,
        amount: Decimal | None = None,
        fiat: Fiat | None = None,
        external_event_date: datetime | None = None,
    ) -> Capture:
        """Settle a pending transaction at `amount` (default all) and release the rest.

        Without `fiat` a captured burn has the share of its fiat value, and without a date that of the transaction.
        Raises NotPending, CaptureExceedsHold, SupplyExceeded, AccountInactive or InvalidRequest.
        """
        reserved = self.amount_of(stored)
        amount = reserved if amount is None else amount
        if self.status_of(stored) != PENDING or stored.is_timed:
            raise NotPending(f"Transaction {stored.ledger_transaction_id} is not pending.")
        if amount > reserved:
            raise CaptureExceedsHold(f"{amount} is more than the {reserved} that are held.")
        check_amount(account, amount)
        if stored.transaction_type == MINT:
            self._refuse_over_supply(account, amount)
        kept, released = split_uses(stored.uses, amount)
        fiat_value = None if stored.fiat_value is None else prorated(stored.fiat_value, amount, reserved)
        if fiat is not None:
            fiat_value = fiat.value
        if external_event_date is not None and stored.transaction_type == BURN:
            self.be_active(account, stored.from_wallet_id or 0, SPEND, external_event_date)
        before = self._available_of(stored)
        qualifying = self._settle_qualifying(stored, account, amount)
        expiry = stored.pending_expires_at or self._expiry_of_mint(
            account, stored.to_wallet_id or 0, stored.external_event_date or self.at
        )
        entries, moves = self._settle(stored, account, amount, kept, released, expiry)
        if stored.from_wallet_id is not None:
            self._count_fiat(account, stored.from_wallet_id, fiat_value)
        self._undo_log.put(self._settled, stored.ledger_transaction_id, SETTLED if amount else REVERTED)
        capture = Capture(
            stored=stored,
            account=account,
            amount=amount,
            entries=entries,
            minted=amount if stored.transaction_type == MINT else ZERO,
            burned=amount if stored.transaction_type == BURN else ZERO,
            lot_moves=moves,
            fiat_value=fiat_value,
            fiat_currency=None if fiat is None else fiat.currency,
            external_event_date=external_event_date,
            qualifying=qualifying,
        )
        self._add_step(capture)
        cause = f"capture-{stored.ledger_transaction_id}"
        self._settle_returned(account, stored, reserved - amount, released, before, cause, capture)
        self._expire_arrived(capture, self.at)
        return capture

    def make_available(self, stored: Stored, account: LedgerAccount, early_at: datetime | None = None) -> Capture:
        """Settle a mint that waits, as of the moment that it waits for, or before that as of the moment `early_at`.

        It was decided when it was minted: nothing prevents that. Raises NotPending for any other transaction.
        """
        if self.status_of(stored) != PENDING or not stored.is_timed:
            raise NotPending(f"Transaction {stored.ledger_transaction_id} does not wait.")
        amount, wallet_id = self.amount_of(stored), stored.to_wallet_id or 0
        moment = early_at or stored.available_at or self.at
        happened_at = stored.external_event_date or self.at
        is_planned = moment == stored.available_at
        by_policy = (
            stored.policy_expires_at if is_planned else self._expiry_of_mint(account, wallet_id, happened_at, moment)
        )
        before = self.holding(wallet_id, account.ledger_account_id).last_transaction_date
        # What counts as earned counts from this moment on, which may be an early one.
        stored = replace(stored, available_at=moment)
        qualifying = self._settle_qualifying(stored, account, amount)
        expiry = stored.pending_expires_at or by_policy
        entries, moves = self._settle(stored, account, amount, (), (), expiry)
        self._date_last_transaction(wallet_id, account, max(moment, before or moment))
        self._undo_log.put(self._settled, stored.ledger_transaction_id, SETTLED)
        capture = self._add_step(
            Capture(
                stored=stored,
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
        self._expire_arrived(capture, max(moment, expiry or moment))
        return capture

    def _settle(
        self,
        stored: Stored,
        account: LedgerAccount,
        amount: Decimal,
        kept: tuple[LotUse, ...],
        released: tuple[LotUse, ...],
        expiry: datetime | None,
    ) -> tuple[tuple[Entry, ...], tuple[LotMove, ...]]:
        """The entries and lots of a capture, of a mint lots with the `expiry`; updates both wallets' holdings."""
        entries: tuple[Entry, ...] = ()
        moves: list[LotMove] = []
        if stored.from_wallet_id is not None:
            self._unreserve(account, stored.from_wallet_id, debit=stored.amount)
            entries += self._debit(account, stored.from_wallet_id, amount, ZERO)
        to_lots = ZERO
        if stored.to_wallet_id is not None:
            self._unreserve(account, stored.to_wallet_id, credit=self.amount_of(stored))
            held, to_lots = self._credit(account, stored.to_wallet_id, amount)
            entries += (Entry(stored.to_wallet_id, amount, held.current),)
        if stored.transaction_type == MINT:
            entries += (Entry(None, -amount),)
            if stored.qualifying is None:
                happened_at = stored.external_event_date or self.at
                self._earn(account, stored.to_wallet_id or 0, amount, happened_at, stored.available_at)
            if account.point_tracking_enabled and to_lots:
                moves.append(NewLot(stored.to_wallet_id or 0, account.ledger_account_id, to_lots, expiry))
        elif stored.transaction_type == BURN:
            entries += (Entry(None, amount),)
        if account.point_tracking_enabled and stored.from_wallet_id is not None:
            moves.append(
                SettleLots(
                    stored.ledger_transaction_id,
                    stored.from_wallet_id,
                    account.ledger_account_id,
                    kept,
                    released,
                    stored.to_wallet_id,
                    to_lots,
                )
            )
        return entries if amount else (), tuple(moves)

    def _expire_arrived(self, capture: Capture, moment: datetime) -> None:
        """Expire what a capture has given to a wallet at a moment, but has expired by now."""
        amount = sum((expired_on_arrival(move, self.at) for move in capture.lot_moves), ZERO)
        if amount:
            self.expire_arrived(capture, amount, moment)

    def expire_arrived(self, capture: Capture, amount: Decimal, moment: datetime) -> None:
        """Burn what is left of what a capture of this unit of work has given, which expired at a moment."""
        account, wallet_id = capture.account, capture.stored.to_wallet_id or 0
        transaction_id = capture.stored.ledger_transaction_id
        before = self._expired_on_arrival.get(transaction_id, ZERO)
        self._undo_log.put(self._expired_on_arrival, transaction_id, before + amount)
        arrived = TakeLots(wallet_id, account.ledger_account_id, amount, first_of=transaction_id, expires=True)
        key = f"expiry-on-capture-{transaction_id}-{self.at.timestamp():.6f}"
        self._expire(account, wallet_id, amount, (arrived,), moment, key, capture)

    def left_of(self, capture: Capture) -> Decimal:
        """The amount that a mint gave when it became available in this unit of work, unless it expired on arrival."""
        given = sum((move.amount for move in capture.lot_moves if isinstance(move, NewLot)), ZERO)
        return given - self._expired_on_arrival.get(capture.stored.ledger_transaction_id, ZERO)

    def _date_last_transaction(self, wallet_id: int, account: LedgerAccount, moment: datetime | None) -> None:
        pair = wallet_id, account.ledger_account_id
        self._undo_log.put(self._holdings, pair, replace(self.holding(*pair), last_transaction_date=moment))

    def status_of(self, stored: Stored) -> int:
        """The present status of a stored transaction."""
        return self._settled.get(stored.ledger_transaction_id, stored.status)
