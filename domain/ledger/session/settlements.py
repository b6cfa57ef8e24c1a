"""Settlement of earlier transactions: captures of pending ones, and reverts."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from domain.ledger.expiry import SPEND
from domain.ledger.lots import (
    LotMove,
    LotUse,
    NewLot,
    SettleLots,
    TakeLots,
    split_uses,
)
from domain.ledger.postings import ZERO, Capture, Details, Entry, Fiat, Posting, Stored
from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED, LedgerAccount
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    CaptureExceedsHold,
    FiatExceedsBurn,
    FiatNotAllowed,
    InsufficientBalance,
    NotPending,
    NotRevertible,
)
from domain.ledger.session.balances import (
    check_amount,
    expired_on_arrival,
    overdraft_of,
    prorated,
    rest_of,
    taken,
)
from domain.ledger.session.claims import reversal
from domain.ledger.session.returns import Returns, returned_by


class LedgerSession(Returns):
    """The ledger session of one unit of work: movements, captures and reverts."""

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
        if self._status(stored) != PENDING:
            raise NotPending(f"Transaction {stored.ledger_transaction_id} is not pending.")
        if amount > reserved:
            raise CaptureExceedsHold(f"{amount} is more than the {reserved} that are held.")
        check_amount(account, amount)
        kept, released = split_uses(stored.uses, amount)
        fiat_value = None if stored.fiat_value is None else prorated(stored.fiat_value, amount, reserved)
        if fiat is not None:
            fiat_value = fiat.value
        if external_event_date is not None and stored.transaction_type == BURN:
            self.be_active(account, stored.from_wallet_id or 0, SPEND, external_event_date)
        before = self._available_of(stored)
        qualifying = self._settle_qualifying(stored, account, amount)
        entries, moves = self._settle(stored, account, amount, kept, released)
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
        """The entries and lots of a capture; updates both wallets' holdings."""
        if stored.transaction_type == MINT:
            self._refuse_over_supply(account, amount)
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
                self._earn(account, stored.to_wallet_id or 0, amount, stored.external_event_date or self.at)
            expiry = stored.pending_expires_at or self._expiry_of_mint(
                account, stored.to_wallet_id or 0, stored.external_event_date or self.at
            )
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
        """Revert a transaction by a new one, linked both ways; a pending one is released.

        If a mint was spent, `allow_overdraft` takes the missing part into debt; `burn_available` takes what is
        available and records the missing part. Raises AlreadyReverted, NotRevertible, InsufficientBalance,
        OverdraftLimitExceeded, SupplyExceeded, FiatNotAllowed or FiatExceedsBurn.
        """
        self._refuse_revert(stored, account, details, partial_fiat)
        status, before = self._status(stored), self._available_of(stored)
        details = replace(details, fiat=Fiat(currency=stored.fiat_currency))
        if status == PENDING:
            posting = self._release(stored, account, details)
        elif stored.transaction_type == MINT:
            posting = self._revert_mint(stored, account, details, allow_overdraft, burn_available)
        elif stored.transaction_type == BURN:
            posting = self._revert_burn(stored, account, details, partial_fiat)
        else:
            posting = self._revert_transfer(stored, account, details)
        self._post_revert(stored, posting, is_mint=status == SETTLED and stored.transaction_type == MINT)
        cause = f"revert-{stored.ledger_transaction_id}"
        self._settle_returned(account, stored, posting.amount, returned_by(posting), before, cause, posting)
        return posting

    def refund(
        self, stored: Stored, account: LedgerAccount, amount: Decimal, fiat: Decimal, details: Details
    ) -> Posting:
        """Give back a part of a settled burn, worth `fiat`, to the lots that expire last; the last part reverts it.

        The amount is at most what is left of the burn. Raises AlreadyReverted, AccountInactive or SupplyExceeded.
        """
        if amount == self._left_of(stored):
            return self.revert(stored, account, details)
        self._refuse_revert(stored, account, details, None)
        before, returned_before = self._available_of(stored), self.taken_back_of(stored)
        details = replace(details, fiat=Fiat(currency=stored.fiat_currency))
        posting = replace(self._give_back(stored, account, details, amount, fiat), is_partial=True)
        transaction_id = stored.ledger_transaction_id
        self._undo_log.put(self._taken_back, transaction_id, returned_before + amount)
        self._undo_log.put(self._fiat_returned, transaction_id, self.fiat_returned_of(stored) + fiat)
        self._add_step(posting)
        cause = f"refund-{transaction_id}-{returned_before}"
        self._settle_returned(account, stored, amount, returned_by(posting), before, cause, posting)
        return posting

    def end_hold(self, stored: Stored, account: LedgerAccount, ended_at: datetime | None = None) -> None:
        """Release a pending transaction whose hold has ended, by time unless at the moment `ended_at`.

        As an expiry, it is no action of the member and does not delay the expiry of an idle balance.
        """
        ended_at = ended_at or stored.held_until or self.at
        pair = (stored.from_wallet_id or 0, account.ledger_account_id)
        before, last_transaction_date = self._available_of(stored), self.holding(*pair).last_transaction_date
        # With the moment, the key cannot equal a key used by a client.
        key = f"hold-ended-{stored.ledger_transaction_id}-{self.at.timestamp():.6f}"
        posting = self._release(stored, account, Details(key, description="Hold ended", external_event_date=ended_at))
        posting = replace(posting, ends_hold=True)
        self._undo_log.put(
            self._holdings, pair, replace(self.holding(*pair), last_transaction_date=last_transaction_date)
        )
        self._post_revert(stored, posting, is_mint=False)
        cause = f"hold-{stored.ledger_transaction_id}"
        self._settle_returned(account, stored, posting.amount, returned_by(posting), before, cause, posting, ended_at)

    def _refuse_revert(
        self, stored: Stored, account: LedgerAccount, details: Details, partial_fiat: Decimal | None
    ) -> None:
        """Refuse the revert of a transaction that cannot be reverted, or not in this way."""
        if self._status(stored) == REVERTED:
            raise AlreadyReverted(f"Transaction {stored.ledger_transaction_id} has already been reverted.")
        _refuse_not_revertible(stored)
        if (partial_fiat is not None and stored.transaction_type != BURN) or details.fiat:
            raise FiatNotAllowed("Only the revert of a burn has a fiat value.")
        if not account.active:
            raise AccountInactive(f"The ledger account {account.name} is inactive.")

    def _post_revert(self, stored: Stored, posting: Posting, *, is_mint: bool) -> None:
        """Post a revert and mark the transaction as reverted; a mint may be spent, and is not earned any more."""
        left = self._left_of(stored)
        self._undo_log.put(self._settled, stored.ledger_transaction_id, REVERTED)
        self._add_step(posting)
        if is_mint:
            self._note_missing(stored, posting, left - posting.amount)
            # The points do not count as earned, even if they are spent or have expired.
            self._unearn(stored, posting.account, self.qualifying_of(stored))

    def reverse_part(
        self, stored: Stored, account: LedgerAccount, amount: Decimal, details: Details, unearned: Decimal | None = None
    ) -> Posting | None:
        """Revert a mint in part, so that `amount` of it is taken back in total, or as much as is available.

        The set-aside amount of a pending mint is lowered. The missing amount of a settled one is recorded. `unearned`
        of its qualifying points do not count any more; it equals `amount` unless some has expired, or others qualify.
        None if nothing can be taken or recorded, or the transaction is not a mint. Raises AccountInactive.
        """
        status, wallet_id = self._status(stored), stored.to_wallet_id
        if stored.transaction_type != MINT or wallet_id is None or status == REVERTED:
            return None
        if not account.active:
            raise AccountInactive(f"The ledger account {account.name} is inactive.")
        due = amount - self.taken_back_of(stored) - self.released_of(stored)
        if status == PENDING:
            return self._lower(stored, account, due, details) if due > 0 else None
        is_less_earned = self._unearn(stored, account, amount if unearned is None else unearned)
        if due <= 0:
            # A partial revert of zero records points that do not count as earned any more, though they have expired.
            return self._take_part(account, stored, ZERO, (), details) if is_less_earned else None
        taking = min(due, self.holding(wallet_id, account.ledger_account_id).available)
        if not taking and due == self.missing_of(stored) and not is_less_earned:
            return None
        moves = taken(account, wallet_id, taking, first_of=stored.ledger_transaction_id)
        posting = self._take_part(account, stored, taking, moves, details)
        self._note_missing(stored, posting, due - taking)
        return posting

    def _lower(self, stored: Stored, account: LedgerAccount, amount: Decimal, details: Details) -> Posting:
        """Lower the set-aside amount of a pending mint, to zero if `amount` is all of it."""
        if amount >= self.amount_of(stored):
            return self.revert(stored, account, details)
        wallet_id = stored.to_wallet_id or 0
        held = self._unreserve(account, wallet_id, credit=amount)
        self._undo_log.put(self._released, stored.ledger_transaction_id, self.released_of(stored) + amount)
        entries = (Entry(wallet_id, ZERO, held.current),)
        posting = reversal(stored, account, details, amount, entries, status=REVERTED)
        return self._add_step(replace(posting, is_partial=True))

    def _release(self, stored: Stored, account: LedgerAccount, details: Details) -> Posting:
        entries: list[Entry] = []
        moves: tuple[LotMove, ...] = ()
        if stored.from_wallet_id is not None:
            held = self._unreserve(account, stored.from_wallet_id, debit=stored.amount)
            entries.append(Entry(stored.from_wallet_id, ZERO, held.current))
            moves = self._restored(account, stored, stored.amount, stored.amount, revives=False)
        if stored.to_wallet_id is not None:
            held = self._unreserve(account, stored.to_wallet_id, credit=self.amount_of(stored))
            entries.append(Entry(stored.to_wallet_id, ZERO, held.current))
        amount = self.amount_of(stored)
        return reversal(stored, account, details, amount, tuple(entries), lot_moves=moves, status=REVERTED)

    def _revert_mint(
        self, stored: Stored, account: LedgerAccount, details: Details, allow_overdraft: bool, burn_available: bool
    ) -> Posting:
        wallet_id = stored.to_wallet_id or 0
        available = self.holding(wallet_id, account.ledger_account_id).available
        amount, shortfall = self._left_of(stored), ZERO
        if amount > available:
            if allow_overdraft and overdraft_of(account):
                shortfall = self._shortfall(account, wallet_id, amount, allow_overdraft)
            elif burn_available:
                amount = available
            else:
                raise InsufficientBalance(f"Only {available} of the {amount} points to take back are left.")
        entries = self._debit(account, wallet_id, amount - shortfall, shortfall)
        moves = taken(account, wallet_id, amount - shortfall, first_of=stored.ledger_transaction_id)
        return reversal(
            stored, account, details, amount, (*entries, Entry(None, amount)), lot_moves=moves, minted=-amount
        )

    def _revert_burn(
        self, stored: Stored, account: LedgerAccount, details: Details, partial_fiat: Decimal | None
    ) -> Posting:
        left = rest_of(stored.fiat_value, self.fiat_returned_of(stored))
        if partial_fiat is not None and partial_fiat > (left or ZERO):
            raise FiatExceedsBurn(f"partialFiatValue is {partial_fiat}, the fiatValue of the burn is {left or ZERO}.")
        fiat = left if partial_fiat is None else partial_fiat
        return self._give_back(stored, account, details, self._left_of(stored), fiat)

    def _give_back(
        self, stored: Stored, account: LedgerAccount, details: Details, amount: Decimal, fiat: Decimal | None
    ) -> Posting:
        """Give back `amount` of a burn, worth `fiat` in money."""
        wallet_id = stored.from_wallet_id or 0
        if account.is_revolving:
            self._refuse_over_supply(account, amount)
        held, to_lots = self._credit(account, wallet_id, amount)
        self._count_fiat(account, wallet_id, None if fiat is None else fiat.copy_negate())
        entries = (Entry(wallet_id, amount, held.current), Entry(None, -amount))
        moves = self._restored(account, stored, amount, to_lots)
        posting = reversal(stored, account, details, amount, entries, lot_moves=moves, burned=-amount)
        return replace(posting, fiat_value=fiat)

    def _revert_transfer(self, stored: Stored, account: LedgerAccount, details: Details) -> Posting:
        sender, receiver, amount = stored.from_wallet_id or 0, stored.to_wallet_id or 0, self._left_of(stored)
        self._refuse_unavailable(account, receiver, amount)
        returned = self._debit(account, receiver, amount, ZERO)
        held, to_lots = self._credit(account, sender, amount)
        moves = (
            *taken(account, receiver, amount, first_of=stored.ledger_transaction_id),
            *self._restored(account, stored, amount, to_lots),
        )
        entries = (*returned, Entry(sender, amount, held.current))
        return reversal(stored, account, details, amount, entries, lot_moves=moves)

    def _left_of(self, stored: Stored) -> Decimal:
        """The part of a transaction that is not reverted yet."""
        return max(ZERO, self.reversible_of(stored) - self.taken_back_of(stored) - self.released_of(stored))

    def _expire_arrived(self, capture: Capture) -> None:
        """Expire at once what a capture has given to a wallet but expired while it was set aside."""
        amount = sum((expired_on_arrival(move, self.at) for move in capture.lot_moves), ZERO)
        if amount:
            account, wallet_id = capture.account, capture.stored.to_wallet_id or 0
            transaction_id = capture.stored.ledger_transaction_id
            arrived = TakeLots(wallet_id, account.ledger_account_id, amount, first_of=transaction_id, expires=True)
            key = f"expiry-on-capture-{transaction_id}-{self.at.timestamp():.6f}"
            self._expire(account, wallet_id, amount, (arrived,), self.at, key, capture)

    def _status(self, stored: Stored) -> int:
        return self._settled.get(stored.ledger_transaction_id, stored.status)


def _refuse_not_revertible(stored: Stored) -> None:
    """Raise NotRevertible for a revert, an expiry, and a transaction that moves no points."""
    if stored.transaction_type == REVERT:
        what = "is a revert"
    elif stored.is_expiry:
        what = "is an expiry"
    elif (stored.from_wallet_id or stored.to_wallet_id) is None:
        what = "moves no points"
    else:
        return
    raise NotRevertible(f"Transaction {stored.ledger_transaction_id} cannot be reverted: it {what}.")
