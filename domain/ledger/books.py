"""The books of one unit of work: balances that it holds locked, and the transactions it posts to them.

Whatever moves points goes through here, so each rule of the ledger stands once. Nothing is stored: the caller writes
`steps` and `changed` when the work has succeeded, and forgets the books when it has not. `mark` and `undo` take back a
part of the work, such as one item of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal

from domain.ledger.expiry import add_months
from domain.ledger.lots import LotMove, LotUse, MoveLots, NewLot, RestoreLots, SettleLots, TakeLots, split_uses
from domain.ledger.postings import ZERO, Capture, Details, Entry, Holding, Pair, Posting, Step, Stored
from domain.ledger.records import BURN, MAX_AMOUNT, MINT, PENDING, REVERT, REVERTED, SETTLED, TRANSFER, LedgerAccount
from domain.ledger.refusals import (
    AccountInactive,
    AlreadyReverted,
    CaptureExceedsHold,
    CaptureNotSupported,
    FiatNotAllowed,
    InsufficientBalance,
    NotPending,
    NotRevertible,
    OverdraftLimitExceeded,
    SupplyExceeded,
)
from domain.problems import FieldFault, InvalidRequest

_FIAT_DIGITS = Decimal("0.000001")


class Books:
    """Balances of locked wallets by (wallet, account), open for posting at the moment `at`.

    `accounts` are the accounts, by id, as they are while they are locked; `issued` is known of those with a maximum.
    """

    def __init__(
        self,
        accounts: Mapping[int, LedgerAccount],
        holdings: Mapping[Pair, Holding],
        issued: Mapping[int, Decimal],
        at: datetime,
    ) -> None:
        self.accounts = accounts
        self.at = at
        self.steps: list[Step] = []
        self._holdings = dict(holdings)
        self._issued = dict(issued)
        self._settled: dict[int, int] = {}
        self._taken_back: dict[int, Decimal] = {}
        self._undo: list[tuple[dict, object, object]] = []

    @property
    def changed(self) -> set[Pair]:
        """The balances that the steps have touched."""
        return {key for store, key, _ in self._undo if store is self._holdings}  # type: ignore[misc]

    def holding(self, wallet_id: int, ledger_account_id: int) -> Holding:
        """What the wallet holds now, with everything posted so far; zero where there is no balance yet."""
        return self._holdings.get((wallet_id, ledger_account_id), _NOTHING)

    def mark(self) -> tuple[int, int]:
        """A point to which `undo` can return."""
        return len(self.steps), len(self._undo)

    def undo(self, mark: tuple[int, int]) -> None:
        """Take back everything that was posted since `mark`."""
        steps, changes = mark
        del self.steps[steps:]
        while len(self._undo) > changes:
            store, key, before = self._undo.pop()
            if before is None:
                del store[key]
            else:
                store[key] = before

    def mint(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        expires_at: datetime | None = None,
        manual: bool = False,
    ) -> Posting:
        """Issue `amount` to the wallet; debt is repaid first. `expires_at` overrides the account's expiry.

        Raises AccountInactive, SupplyExceeded, FiatNotAllowed, or InvalidRequest for too many fraction digits.
        """
        _check(account, amount, details, fiat_allowed=False)
        self._refuse_over_supply(account, amount)
        if manual:
            return self._hold(account, MINT, None, wallet_id, amount, details)
        held, to_lot = self._credited(account, wallet_id, amount)
        expiry = expires_at or expiry_of_mint(account, details.external_event_date or self.at)
        tracked = account.point_tracking_enabled and to_lot
        posting = self._post(
            Posting(
                account=account,
                transaction_type=MINT,
                status=SETTLED,
                amount=amount,
                from_wallet_id=None,
                to_wallet_id=wallet_id,
                entries=(Entry(wallet_id, amount, held.current), Entry(None, -amount)),
                details=details,
                minted=amount,
                lot_moves=(NewLot(wallet_id, account.ledger_account_id, to_lot, expiry),) if tracked else (),
            )
        )
        if tracked and expiry is not None and expiry <= self.at:
            # Minted for something so long ago that it has expired already: it must not be spendable even now.
            just_minted = TakeLots(wallet_id, account.ledger_account_id, to_lot, just_made=True)
            # The moment makes it a key that no client can have used for something else.
            key = f"expiry-{wallet_id}-{details.system_unique_key}-{self.at.timestamp():.6f}"
            # It expires as it is minted, not before it was there: balances of the past go by the moment.
            self._expire(account, wallet_id, to_lot, (just_minted,), self.at, key)
        return posting

    def burn(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        allow_overdraft: bool = False,
        manual: bool = False,
    ) -> Posting:
        """Take `amount` from the wallet, with `allow_overdraft` into debt where the account has an overdraft.

        Raises AccountInactive, InsufficientBalance, OverdraftLimitExceeded, CaptureNotSupported or InvalidRequest.
        """
        _check(account, amount, details, fiat_allowed=True)
        if manual:
            self._refuse_unavailable(account, wallet_id, amount)
            return self._hold(account, BURN, wallet_id, None, amount, details)
        shortfall = self._shortfall(account, wallet_id, amount, allow_overdraft)
        entries = self._debited(account, wallet_id, amount - shortfall, shortfall)
        self._count_fiat(account, wallet_id, details.fiat.value)
        return self._post(
            Posting(
                account=account,
                transaction_type=BURN,
                status=SETTLED,
                amount=amount,
                from_wallet_id=wallet_id,
                to_wallet_id=None,
                entries=(*entries, Entry(None, amount)),
                details=details,
                burned=amount,
                lot_moves=_taken(account, wallet_id, amount - shortfall),
                fiat_value=details.fiat.value,
            )
        )

    def transfer(
        self,
        account: LedgerAccount,
        from_wallet_id: int,
        to_wallet_id: int,
        amount: Decimal,
        details: Details,
        manual: bool = False,
    ) -> Posting:
        """Move `amount` between wallets, value keeping its expiry; raises as `burn` does."""
        _check(account, amount, details, fiat_allowed=False)
        if from_wallet_id == to_wallet_id:
            raise InvalidRequest([FieldFault("a transfer is between two wallets", pointer="/toWalletId")])
        self._refuse_unavailable(account, from_wallet_id, amount)
        if manual:
            return self._hold(account, TRANSFER, from_wallet_id, to_wallet_id, amount, details)
        sent = self._debited(account, from_wallet_id, amount, ZERO)
        received, to_lots = self._credited(account, to_wallet_id, amount)
        return self._post(
            Posting(
                account=account,
                transaction_type=TRANSFER,
                status=SETTLED,
                amount=amount,
                from_wallet_id=from_wallet_id,
                to_wallet_id=to_wallet_id,
                entries=(*sent, Entry(to_wallet_id, amount, received.current)),
                details=details,
                lot_moves=_moved(account, from_wallet_id, to_wallet_id, amount, to_lots),
            )
        )

    def expire(
        self, account: LedgerAccount, wallet_id: int, uses: tuple[LotUse, ...], moment: datetime, key: str
    ) -> None:
        """Burn what these lots of the wallet still hold, which expired at `moment`."""
        amount = sum((use.amount for use in uses), ZERO)
        taken = TakeLots(wallet_id, account.ledger_account_id, amount, only=uses)
        self._expire(account, wallet_id, amount, (taken,), moment, key)

    def _expire(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        lot_moves: tuple[LotMove, ...],
        moment: datetime,
        key: str,
    ) -> None:
        held = self.holding(wallet_id, account.ledger_account_id)
        # An expiry is not something the member did: it does not put off the next one.
        held = replace(held, current=held.current - amount)
        self._put(self._holdings, (wallet_id, account.ledger_account_id), held)
        self._post(
            Posting(
                account=account,
                transaction_type=BURN,
                status=SETTLED,
                amount=amount,
                from_wallet_id=wallet_id,
                to_wallet_id=None,
                entries=(Entry(wallet_id, -amount, held.current), Entry(None, amount)),
                details=Details(key, description="Expired", external_event_date=moment),
                burned=amount,
                lot_moves=lot_moves,
                is_expiry=True,
            )
        )

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
        fiat = None if stored.fiat_value is None else _prorated(stored.fiat_value, amount, reserved)
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
            expiry = expiry_of_mint(account, stored.external_event_date or self.at)
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
        moves = _taken(account, wallet_id, amount, first_of=stored.ledger_transaction_id)
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
        moves = _taken(account, wallet_id, amount - shortfall, first_of=stored.ledger_transaction_id)
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
            *_taken(account, receiver, stored.amount, first_of=stored.ledger_transaction_id),
            *self._restored(account, stored, to_lots),
        )
        entries = (*returned, Entry(sender, stored.amount, held.current))
        return _reversal(stored, account, details, stored.amount, entries, lot_moves=moves)

    def _hold(
        self,
        account: LedgerAccount,
        transaction_type: int,
        from_wallet_id: int | None,
        to_wallet_id: int | None,
        amount: Decimal,
        details: Details,
    ) -> Posting:
        """Set aside what a capture will move; entries of zero stand for the wallets that it concerns."""
        if overdraft_of(account):
            raise CaptureNotSupported("An account with an overdraft does not support manual capture.")
        entries: list[Entry] = []
        for wallet_id, debit in ((from_wallet_id, True), (to_wallet_id, False)):
            if wallet_id is not None:
                held = self.holding(wallet_id, account.ledger_account_id)
                held = replace(
                    held,
                    pending_debit=held.pending_debit + (amount if debit else ZERO),
                    pending_credit=held.pending_credit + (ZERO if debit else amount),
                    last_transaction_date=self.at,
                )
                self._put(self._holdings, (wallet_id, account.ledger_account_id), held)
                entries.append(Entry(wallet_id, ZERO, held.current))
        return self._post(
            Posting(
                account=account,
                transaction_type=transaction_type,
                status=PENDING,
                amount=amount,
                from_wallet_id=from_wallet_id,
                to_wallet_id=to_wallet_id,
                entries=tuple(entries),
                details=details,
                lot_moves=() if from_wallet_id is None else _taken(account, from_wallet_id, amount),
                fiat_value=details.fiat.value,
            )
        )

    def _unreserve(
        self, account: LedgerAccount, wallet_id: int, debit: Decimal = ZERO, credit: Decimal = ZERO
    ) -> Holding:
        held = self.holding(wallet_id, account.ledger_account_id)
        held = replace(
            held,
            pending_debit=held.pending_debit - debit,
            pending_credit=held.pending_credit - credit,
            last_transaction_date=self.at,
        )
        self._put(self._holdings, (wallet_id, account.ledger_account_id), held)
        return held

    def _credited(self, account: LedgerAccount, wallet_id: int, amount: Decimal) -> tuple[Holding, Decimal]:
        """Credit a wallet, debt first; answers the holding and what went into the balance."""
        held = self.holding(wallet_id, account.ledger_account_id)
        repaid = min(held.overdraft, amount)
        held = replace(
            held,
            current=held.current + amount - repaid,
            overdraft=held.overdraft - repaid,
            overdraft_credit=held.overdraft_credit + repaid,
            last_transaction_date=self.at,
        )
        self._put(self._holdings, (wallet_id, account.ledger_account_id), held)
        return held, amount - repaid

    def _debited(
        self, account: LedgerAccount, wallet_id: int, amount: Decimal, shortfall: Decimal
    ) -> tuple[Entry, ...]:
        """Debit a wallet, `shortfall` of it into debt; answers an entry for each part."""
        held = self.holding(wallet_id, account.ledger_account_id)
        held = replace(
            held,
            current=held.current - amount,
            overdraft=held.overdraft + shortfall,
            last_transaction_date=self.at,
        )
        self._put(self._holdings, (wallet_id, account.ledger_account_id), held)
        entries = () if shortfall and not amount else (Entry(wallet_id, -amount, held.current),)
        return (*entries, Entry(wallet_id, -shortfall, held.current, True)) if shortfall else entries

    def _shortfall(self, account: LedgerAccount, wallet_id: int, amount: Decimal, allow_overdraft: bool) -> Decimal:
        """How much of a debit goes into debt; raises where it may not."""
        held = self.holding(wallet_id, account.ledger_account_id)
        shortfall = max(ZERO, amount - held.available)
        if not shortfall:
            return ZERO
        limit = overdraft_of(account)
        if not allow_overdraft or not limit:
            raise InsufficientBalance(f"{amount} is more than the available {held.available}.")
        if held.overdraft + shortfall > limit:
            raise OverdraftLimitExceeded(f"The debt would be {held.overdraft + shortfall}, its limit is {limit}.")
        return shortfall

    def _refuse_unavailable(self, account: LedgerAccount, wallet_id: int, amount: Decimal) -> None:
        self._shortfall(account, wallet_id, amount, allow_overdraft=False)

    def _refuse_over_supply(self, account: LedgerAccount, amount: Decimal) -> None:
        issued = self._issued.get(account.ledger_account_id, ZERO)
        if account.max_supply is not None and issued + amount > account.max_supply:
            raise SupplyExceeded(
                f"The account may issue {account.max_supply} in all and has issued {issued}.",
                available=account.max_supply - issued,
            )

    def _count_fiat(self, account: LedgerAccount, wallet_id: int, value: Decimal | None) -> None:
        if value:
            held = self.holding(wallet_id, account.ledger_account_id)
            self._put(self._holdings, (wallet_id, account.ledger_account_id), replace(held, fiat=held.fiat + value))

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
        amount = sum((_expired_on_arrival(move, self.at) for move in capture.lot_moves), ZERO)
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

    def _post(self, posting: Posting) -> Posting:
        self._step(posting)
        return posting

    def _step(self, step: Step) -> None:
        self.steps.append(step)
        account = step.account
        issued = step.minted - (step.burned if account.is_revolving else ZERO)
        if issued:
            before = self._issued.get(account.ledger_account_id, ZERO)
            self._put(self._issued, account.ledger_account_id, before + issued)

    def _put(self, store: dict, key: object, value: object) -> None:
        self._undo.append((store, key, store.get(key)))
        store[key] = value


_NOTHING = Holding()


def overdraft_of(account: LedgerAccount) -> Decimal:
    """The greatest debt that the account allows; zero where it has no overdraft."""
    limit = account.overdraft_limit
    return limit if limit is not None and limit > 0 and account.is_revolving else ZERO


def check_amount(account: LedgerAccount, amount: Decimal) -> None:
    """Refuse what no movement of the account may be: on an inactive account, too large, or too finely divided."""
    if not account.active:
        raise AccountInactive(f"The ledger account {account.name} is inactive.")
    if amount > MAX_AMOUNT:
        raise InvalidRequest([FieldFault(f"amount is at most {MAX_AMOUNT}", pointer="/amount")])
    if amount != round_down(account, amount):
        raise InvalidRequest(
            [FieldFault(f"amount has at most {account.decimals} fraction digits in this account", pointer="/amount")]
        )


def _check(account: LedgerAccount, amount: Decimal, details: Details, fiat_allowed: bool) -> None:
    check_amount(account, amount)
    if details.fiat and not fiat_allowed:
        raise FiatNotAllowed("Only burns have a fiat value.")


# Wider than any number that a request or an expression may come to: nothing is rounded before it is cut.
_WIDE = Context(prec=200)


def round_down(account: LedgerAccount, amount: Decimal) -> Decimal:
    """The greatest amount of the account that is not above `amount`: what a computed amount is worth."""
    whole = _WIDE.scaleb(amount, account.decimals).to_integral_value(ROUND_FLOOR)
    return _WIDE.scaleb(whole, -account.decimals)


def expiry_of_mint(account: LedgerAccount, at: datetime) -> datetime | None:
    """When what is minted at `at` expires by the account's own policy; None is never."""
    return None if account.expires_in_months is None else add_months(at, account.expires_in_months)


def _prorated(fiat: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    """The share of a fiat value that belongs to `part` of `whole`, to six digits."""
    return fiat if part == whole else (fiat * part / whole).quantize(_FIAT_DIGITS)


def _taken(account: LedgerAccount, wallet_id: int, amount: Decimal, first_of: int | None = None) -> tuple[LotMove, ...]:
    if not account.point_tracking_enabled or not amount:
        return ()
    return (TakeLots(wallet_id, account.ledger_account_id, amount, first_of=first_of),)


def _expired_on_arrival(move: LotMove, at: datetime) -> Decimal:
    """How much a settled mint or transfer has put into the receiver's lots that had expired by then."""
    arrived: tuple[LotUse, ...] = ()
    if isinstance(move, NewLot):
        arrived = (LotUse(0, move.amount, move.expires_at),)
    elif isinstance(move, SettleLots) and move.to_wallet_id is not None:
        # As lots are given: the first to expire went into the repayment of debt.
        kept = sum((use.amount for use in move.kept), ZERO)
        _, arrived = split_uses(move.kept, kept - move.to_lots)
    return sum((use.amount for use in arrived if use.expires_at is not None and use.expires_at <= at), ZERO)


def _moved(
    account: LedgerAccount, from_wallet_id: int, to_wallet_id: int, amount: Decimal, to_lots: Decimal
) -> tuple[LotMove, ...]:
    if not account.point_tracking_enabled or not amount:
        return ()
    return (MoveLots(from_wallet_id, to_wallet_id, account.ledger_account_id, amount, to_lots),)


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
