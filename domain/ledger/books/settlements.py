"""What becomes of transactions that were posted before: captures of pending ones, and reverts."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from domain.ledger.books.amounts import check_amount, expiry_of_mint, overdraft_of, prorated
from domain.ledger.books.lot_moves import expired_on_arrival, taken
from domain.ledger.books.movements import Movements
from domain.ledger.lots import LotMove, LotUse, NewLot, RestoreLots, SettleLots, TakeLots, split_uses
from domain.ledger.postings import ZERO, Capture, Details, Entry, Posting, Stored
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, LedgerAccount
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    CaptureExceedsHold,
    FiatNotAllowed,
    InsufficientBalance,
    NotPending,
    NotRevertible,
)


class Books(Movements):
    """The books of one unit of work: movements, captures and reverts."""

    def capture(self, stored: Stored, account: LedgerAccount, amount: Decimal | None = None) -> Capture:
        """Settle a pending transaction at `amount` (default all) and release the rest.

        Raises NotPending, CaptureExceedsHold, SupplyExceeded, AccountInactive or InvalidRequest.
        """
        reserved = stored.amount
        amount = reserved if amount is None else amount
        if self._status(stored) != PENDING:
            raise NotPending(f"Transaction {stored.ledger_transaction_id} is not pending.")
        if amount > reserved:
            raise CaptureExceedsHold(f"{amount} is more than the {reserved} that were set aside.")
        check_amount(account, amount)
        kept, released = split_uses(stored.uses, amount)
        entries, moves = self._settle(stored, account, amount, kept, released)
        fiat = None if stored.fiat_value is None else prorated(stored.fiat_value, amount, reserved)
        if stored.from_wallet_id is not None:
            self._count_fiat(account, stored.from_wallet_id, fiat)
        self._put(self._settled, stored.ledger_transaction_id, SETTLED if amount else REVERTED)
        capture = Capture(
            stored=stored,
            account=account,
            amount=amount,
            entries=entries,
            minted=amount if stored.transaction_type == MINT else ZERO,
            burned=amount if stored.transaction_type == BURN else ZERO,
            lot_moves=moves,
            fiat_value=fiat,
        )
        self._step(capture)
        self._expire_returned(account, stored.from_wallet_id, released, f"capture-{stored.ledger_transaction_id}")
        self._expire_arrived(capture)
        return capture

    def _settle(
        self,
        stored: Stored,
        account: LedgerAccount,
        amount: Decimal,
        kept: tuple[LotUse, ...],
        released: tuple[LotUse, ...],
    ) -> tuple[tuple[Entry, ...], tuple[LotMove, ...]]:
        """The entries and lots of a capture, with both wallets' holdings put right."""
        if stored.transaction_type == MINT:
            self._refuse_over_supply(account, amount)
        entries: tuple[Entry, ...] = ()
        moves: list[LotMove] = []
        if stored.from_wallet_id is not None:
            self._unreserve(account, stored.from_wallet_id, debit=stored.amount)
            entries += self._debited(account, stored.from_wallet_id, amount, ZERO)
        to_lots = ZERO
        if stored.to_wallet_id is not None:
            self._unreserve(account, stored.to_wallet_id, credit=stored.amount)
            held, to_lots = self._credited(account, stored.to_wallet_id, amount)
            entries += (Entry(stored.to_wallet_id, amount, held.current),)
        if stored.transaction_type == MINT:
            entries += (Entry(None, -amount),)
            expiry = stored.pending_expires_at or expiry_of_mint(account, stored.external_event_date or self.at)
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

    def revert(
        self,
        stored: Stored,
        account: LedgerAccount,
        details: Details,
        allow_overdraft: bool = False,
        burn_available: bool = False,
        partial_fiat: Decimal | None = None,
    ) -> Posting:
        """Undo a transaction by a new one, linked both ways; a pending one is released.

        Of a mint that was spent, `allow_overdraft` takes the missing part into debt, `burn_available` takes what there
        is. Raises AlreadyReverted, NotRevertible, InsufficientBalance, OverdraftLimitExceeded, SupplyExceeded or
        FiatNotAllowed.
        """
        status = self._status(stored)
        if status == REVERTED:
            raise AlreadyReverted(f"Transaction {stored.ledger_transaction_id} is reverted already.")
        if (
            stored.transaction_type == REVERT
            or stored.is_expiry
            or (stored.from_wallet_id or stored.to_wallet_id) is None
        ):
            raise NotRevertible(f"Transaction {stored.ledger_transaction_id} stands.")
        if (partial_fiat is not None and stored.transaction_type != BURN) or details.fiat:
            raise FiatNotAllowed("Only the revert of a burn has a fiat value.")
        if not account.active:
            raise AccountInactive(f"The ledger account {account.name} is inactive.")
        if status == PENDING:
            posting = self._release(stored, account, details)
        elif stored.transaction_type == MINT:
            posting = self._revert_mint(stored, account, details, allow_overdraft, burn_available)
        elif stored.transaction_type == BURN:
            posting = self._revert_burn(stored, account, details, partial_fiat)
        else:
            posting = self._revert_transfer(stored, account, details)
        self._put(self._settled, stored.ledger_transaction_id, REVERTED)
        self._post(posting)
        for move in posting.lot_moves:
            if isinstance(move, RestoreLots):
                self._expire_returned(account, move.wallet_id, move.returned, f"revert-{stored.ledger_transaction_id}")
        return posting

    def take_back(self, stored: Stored, account: LedgerAccount, amount: Decimal, details: Details) -> Posting | None:
        """Revert a settled mint in part, so that `amount` of it is taken back in all, or as much as is available.

        None where there is nothing to take, or where the transaction is no settled mint. Raises AccountInactive.
        """
        if self._status(stored) != SETTLED or stored.transaction_type != MINT or stored.to_wallet_id is None:
            return None
        if not account.active:
            raise AccountInactive(f"The ledger account {account.name} is inactive.")
        wallet_id, before = stored.to_wallet_id, self.taken_back_of(stored)
        available = self.holding(wallet_id, account.ledger_account_id).available
        amount = min(amount - before, available)
        if amount <= 0:
            return None
        entries = (*self._debited(account, wallet_id, amount, ZERO), Entry(None, amount))
        moves = taken(account, wallet_id, amount, first_of=stored.ledger_transaction_id)
        posting = _reversal(stored, account, details, amount, entries, lot_moves=moves, minted=-amount)
        self._put(self._taken_back, stored.ledger_transaction_id, before + amount)
        return self._post(replace(posting, is_partial=True))

    def _release(self, stored: Stored, account: LedgerAccount, details: Details) -> Posting:
        entries: list[Entry] = []
        moves: tuple[LotMove, ...] = ()
        if stored.from_wallet_id is not None:
            held = self._unreserve(account, stored.from_wallet_id, debit=stored.amount)
            entries.append(Entry(stored.from_wallet_id, ZERO, held.current))
            moves = self._restored(account, stored, stored.amount)
        if stored.to_wallet_id is not None:
            held = self._unreserve(account, stored.to_wallet_id, credit=stored.amount)
            entries.append(Entry(stored.to_wallet_id, ZERO, held.current))
        return _reversal(stored, account, details, stored.amount, tuple(entries), lot_moves=moves, status=REVERTED)

    def _revert_mint(
        self, stored: Stored, account: LedgerAccount, details: Details, allow_overdraft: bool, burn_available: bool
    ) -> Posting:
        wallet_id = stored.to_wallet_id or 0
        available = self.holding(wallet_id, account.ledger_account_id).available
        amount, shortfall = stored.amount - self.taken_back_of(stored), ZERO
        if amount > available:
            if allow_overdraft and overdraft_of(account):
                shortfall = self._shortfall(account, wallet_id, amount, allow_overdraft)
            elif burn_available:
                amount = available
            else:
                raise InsufficientBalance(f"Of the {amount} to take back only {available} are left.")
        entries = self._debited(account, wallet_id, amount - shortfall, shortfall)
        moves = taken(account, wallet_id, amount - shortfall, first_of=stored.ledger_transaction_id)
        return _reversal(
            stored, account, details, amount, (*entries, Entry(None, amount)), lot_moves=moves, minted=-amount
        )

    def _revert_burn(
        self, stored: Stored, account: LedgerAccount, details: Details, partial_fiat: Decimal | None
    ) -> Posting:
        wallet_id = stored.from_wallet_id or 0
        if account.is_revolving:
            self._refuse_over_supply(account, stored.amount)
        held, to_lots = self._credited(account, wallet_id, stored.amount)
        fiat = stored.fiat_value if partial_fiat is None else partial_fiat
        self._count_fiat(account, wallet_id, None if fiat is None else -fiat)
        entries = (Entry(wallet_id, stored.amount, held.current), Entry(None, -stored.amount))
        moves = self._restored(account, stored, to_lots)
        posting = _reversal(stored, account, details, stored.amount, entries, lot_moves=moves, burned=-stored.amount)
        return replace(posting, fiat_value=fiat)

    def _revert_transfer(self, stored: Stored, account: LedgerAccount, details: Details) -> Posting:
        sender, receiver = stored.from_wallet_id or 0, stored.to_wallet_id or 0
        self._refuse_unavailable(account, receiver, stored.amount)
        returned = self._debited(account, receiver, stored.amount, ZERO)
        held, to_lots = self._credited(account, sender, stored.amount)
        moves = (
            *taken(account, receiver, stored.amount, first_of=stored.ledger_transaction_id),
            *self._restored(account, stored, to_lots),
        )
        entries = (*returned, Entry(sender, stored.amount, held.current))
        return _reversal(stored, account, details, stored.amount, entries, lot_moves=moves)

    def _restored(self, account: LedgerAccount, stored: Stored, to_lots: Decimal) -> tuple[LotMove, ...]:
        """How the lots of a reverted debit come back, `to_lots` in all: the last to expire first."""
        if not account.point_tracking_enabled:
            return ()
        used = sum((use.amount for use in stored.uses), ZERO)
        spent, returned = split_uses(stored.uses, max(ZERO, used - to_lots))
        extra, expiry = max(ZERO, to_lots - used), expiry_of_mint(account, self.at)
        wallet_id = stored.from_wallet_id or 0
        return (RestoreLots(wallet_id, account.ledger_account_id, returned, spent, extra, expiry),)

    def _expire_returned(
        self, account: LedgerAccount, wallet_id: int | None, uses: tuple[LotUse, ...], cause: str
    ) -> None:
        """What came back to lots that have expired meanwhile is gone at once: at this moment, not when they expired."""
        expired = tuple(use for use in uses if use.expires_at is not None and use.expires_at <= self.at)
        if wallet_id is not None and account.point_tracking_enabled and expired:
            self.expire(account, wallet_id, expired, self.at, f"expiry-after-{cause}-{self.at.timestamp():.6f}")

    def _expire_arrived(self, capture: Capture) -> None:
        """What a capture has given to a wallet, but expired while it was set aside, is gone at once too."""
        amount = sum((expired_on_arrival(move, self.at) for move in capture.lot_moves), ZERO)
        if amount:
            account, wallet_id = capture.account, capture.stored.to_wallet_id or 0
            transaction_id = capture.stored.ledger_transaction_id
            arrived = TakeLots(wallet_id, account.ledger_account_id, amount, first_of=transaction_id)
            key = f"expiry-on-capture-{transaction_id}-{self.at.timestamp():.6f}"
            self._expire(account, wallet_id, amount, (arrived,), self.at, key)

    def _status(self, stored: Stored) -> int:
        return self._settled.get(stored.ledger_transaction_id, stored.status)

    def taken_back_of(self, stored: Stored) -> Decimal:
        """What partial reverts have taken back of a transaction so far."""
        return self._taken_back.get(stored.ledger_transaction_id, stored.taken_back)


def _reversal(
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
