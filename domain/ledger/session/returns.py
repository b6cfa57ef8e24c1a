"""Points that the reversal of a debit returns: to which lots they return, and which of them have expired."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal

from domain.calendar import add_days
from domain.ledger.clawbacks import exchange_uses
from domain.ledger.lots import (
    ChangedUse,
    LotMove,
    LotUse,
    NewLot,
    RestoreLots,
    TakeLots,
    changes_of_uses,
    split_uses,
)
from domain.ledger.postings import ZERO, Capture, Details, Entry, Posting, Step, StoredTransaction, temporary_id
from domain.ledger.records import REVERT, REVERTED, LedgerAccount
from domain.ledger.refusals import SupplyExceeded
from domain.ledger.session.missing_amounts import MissingAmounts, ReturnedPoints, reversal

# The description of the revert of an expiry that a late activity would have prevented.
LATE_ACTIVITY = "late-activity"


class Returns(MissingAmounts):
    """A session that returns the points of reverted and released debits, and of idle balances that had expired."""

    def _moves_back_to_lots(
        self,
        account: LedgerAccount,
        transaction: StoredTransaction,
        amount: Decimal,
        to_lots: Decimal,
        *,
        revives: bool = True,
    ) -> tuple[LotMove, ...]:
        """The moves of lots when `amount` of a debit is reverted and `to_lots` of it goes back to its lots.

        The rest of `amount` repays debt. The lots that expire last get their points first. With `revives`, points of
        expired lots become new lots, which live for the `restored_expiry_days` of the account, if it has them.
        """
        if not account.point_tracking_enabled:
            return ()
        wallet_id = transaction.debited_wallet_id
        pair = (wallet_id, account.ledger_account_id)
        uses = self._uses_left(transaction)
        # After a partial revert, the debit keeps its first uses.
        kept_uses, reverted_uses = split_uses(uses, max(ZERO, _total(uses) - amount))
        used_amount = _total(reverted_uses)
        # Of the reverted uses, the first ones repay debt, and the last ones return to their lots.
        repaying_uses, returned_uses = split_uses(reverted_uses, max(ZERO, used_amount - to_lots))
        changed_uses = changes_of_uses(transaction.ledger_transaction_id, uses, kept_uses) if kept_uses else ()
        returned_uses, changed_clawbacks = self._exchange_with_clawbacks(transaction, returned_uses)
        revived_uses: tuple[LotUse, ...] = ()
        if revives and account.restored_expiry_days:
            revived_uses = tuple(use for use in returned_uses if self._has_ended(account, wallet_id, use))
            returned_uses = tuple(use for use in returned_uses if use not in revived_uses)
        moves: tuple[LotMove, ...] = (
            RestoreLots(
                *pair,
                returned_uses=returned_uses,
                spent_uses=(*repaying_uses, *revived_uses),
                # What the debit took from an overdraft has no lot to return to.
                new_lot_amount=max(ZERO, to_lots - used_amount),
                expires_at=self._expiry_of_mint(account, wallet_id, self.at),
                reverts_expiry=transaction.is_expiry,
                changed_uses=changed_uses + changed_clawbacks,
                expiring_lot_ids=self._ended_lots_of(account, wallet_id, returned_uses),
            ),
        )
        if revived_uses:
            end = add_days(self.at, account.restored_expiry_days, account.expiry_calendar(self.zone).zone)
            moves += tuple(
                NewLot(*pair, use.amount, expires_at=end, kept_until=end, replaces=use.ledger_lot_id)
                for use in revived_uses
            )
        return moves

    def _exchange_with_clawbacks(
        self, debit: StoredTransaction, uses: tuple[LotUse, ...]
    ) -> tuple[tuple[LotUse, ...], tuple[ChangedUse, ...]]:
        """Exchange the returning `uses` of a debit with clawbacks; return the uses that return to lots instead.

        If the mint of a lot was reverted after the debit had spent its points, the revert took points of other lots.
        Now it takes the returned points of its own lot instead, and the other lots get theirs back, as if the debit had
        been reverted first. The second result is the changed uses of such reverts. A reverted expiry exchanges nothing,
        because a revert does not claw back expired points.
        """
        if debit.is_expiry or not debit.clawbacks:
            return uses, ()
        before = {
            clawback.ledger_transaction_id: self._clawbacks.get(clawback.ledger_transaction_id, clawback)
            for clawback in debit.clawbacks
        }
        uses, changed_clawbacks = exchange_uses(uses, before.values())
        changed_uses: tuple[ChangedUse, ...] = ()
        for clawback in changed_clawbacks:
            transaction_id = clawback.ledger_transaction_id
            self.put(self._clawbacks, transaction_id, clawback)
            changed_uses += changes_of_uses(transaction_id, before[transaction_id].uses, clawback.uses)
        return uses, changed_uses

    def _uses_left(self, transaction: StoredTransaction) -> tuple[LotUse, ...]:
        """The uses of a debit without the uses that partial reverts of this unit of work have returned."""
        returned_here = self.reverted_amount_of(transaction) - transaction.reverted_amount
        return split_uses(transaction.uses, max(ZERO, _total(transaction.uses) - returned_here))[0]

    def _available_of(self, transaction: StoredTransaction) -> Decimal:
        """The spendable amount of the wallet that a transaction debits."""
        return self.holding(transaction.debited_wallet_id, transaction.ledger_account_id).available

    def _settle_returned_points(
        self,
        account: LedgerAccount,
        transaction: StoredTransaction,
        amount: Decimal,
        uses: tuple[LotUse, ...],
        available_before: Decimal,
        cause: str,
        step: Posting | Capture,
        returned_at: datetime | None = None,
    ) -> None:
        """Expire or claw back points that the reversal of a debit has just returned to a wallet.

        The wallet could spend `available_before`; then `step` returned `amount`. A part of it repaid debt; `uses` are
        the parts that went back to lots. `cause` names the reversal in the keys of expiries.

        First, points of lots that have expired meanwhile expire again: at `returned_at` (default now), or at the end of
        their lot if that is later. Then, missing amounts of reverted mints are clawed back from the rest.
        """
        wallet_id = transaction.from_wallet_id
        if wallet_id is None:
            return
        repaid_debt = amount - (self._available_of(transaction) - available_before)
        expired_uses: dict[datetime, list[LotUse]] = {}
        for use in uses:
            end = self._end_of_use(account, wallet_id, use)
            if end is not None and end <= self.at:
                expired_uses.setdefault(max(end, returned_at or self.at), []).append(use)
        for moment, uses_of_moment in sorted(expired_uses.items()):
            key = f"expiry-after-{cause}-{moment.timestamp():.6f}"
            self.expire(account, wallet_id, tuple(uses_of_moment), moment, key, step)
        spendable = self._available_of(transaction) - available_before
        expired_amounts = {use.ledger_lot_id: use.amount for group in expired_uses.values() for use in group}
        remaining_uses = (use for use in uses if use.ledger_lot_id not in expired_amounts)
        returned_points = ReturnedPoints(spendable, repaid_debt, expired_amounts)
        self._take_missing(account, transaction, returned_points, remaining_uses, step)

    def _has_ended(self, account: LedgerAccount, wallet_id: int, use: LotUse) -> bool:
        """True if points of the lot have expired by now."""
        end = self._end_of_use(account, wallet_id, use)
        return end is not None and end <= self.at

    def _ended_lots_of(self, account: LedgerAccount, wallet_id: int, uses: Iterable[LotUse]) -> frozenset[int]:
        """The ids of the lots in `uses` whose points have expired by now."""
        return frozenset(use.ledger_lot_id for use in uses if self._has_ended(account, wallet_id, use))

    def expect_late_activity(self, expiries: Iterable[StoredTransaction] = ()) -> None:
        """Note the expiries of idle balances that late activities may revert: stored `expiries` and new ones."""
        # An expiry that is part of a mint or a capture is of points that arrived too late, not of an idle balance.
        new_expiries = (
            step
            for step in self.steps
            if isinstance(step, Posting) and step.is_expiry and (step.part_of is None or _is_revert(step.part_of))
        )
        for expiry in (*expiries, *map(self._as_stored, new_expiries)):
            moment = expiry.external_event_date
            # An idle balance expires before the dates of its lots.
            if moment is not None and any(use.expires_at is None or use.expires_at > moment for use in expiry.uses):
                pair = (expiry.debited_wallet_id, expiry.ledger_account_id)
                self._idle_expiries.setdefault(pair, []).append(expiry)

    def _as_stored(self, posting: Posting) -> StoredTransaction:
        """The form in which a posting of this session will be stored, with a temporary id."""
        # By identity: equal postings can be several steps.
        position = next(position for position, step in enumerate(self.steps) if step is posting)
        takes = [move for move in posting.lot_moves if isinstance(move, TakeLots)]
        return StoredTransaction(
            ledger_transaction_id=temporary_id(position),
            ledger_account_id=posting.account.ledger_account_id,
            transaction_type=posting.transaction_type,
            status=posting.status,
            amount=posting.amount,
            from_wallet_id=posting.from_wallet_id,
            to_wallet_id=posting.to_wallet_id,
            is_expiry=posting.is_expiry,
            fiat_value=posting.fiat_value,
            reversal_ledger_transaction_id=None,
            external_event_date=posting.details.external_event_date,
            pending_expires_at=posting.pending_expires_at,
            entry_count=len(posting.entries),
            qualifying=posting.qualifying,
            awaited=None if posting.wait is None else posting.wait.awaited,
            order_external_id=posting.details.order_external_id,
            uses=tuple(use for take in takes for use in take.exact_uses),
        )

    def _revert_idle_expiries(self, account: LedgerAccount, wallet_id: int, happened_at: datetime) -> None:
        """Revert the expiries of the idle balance that an activity at `happened_at` would have prevented."""
        policy, end_of_balance = account.idle_policy(self.zone), self._end_of_idle_balance(account, wallet_id)
        if policy is None or end_of_balance is None or end_of_balance <= self.at:
            # The points would expire again at once, and a later activity could not restore them.
            return
        max_delay, end = timedelta(days=account.late_activity_days), policy.end(None, happened_at)
        for expiry in self._idle_expiries.get((wallet_id, account.ledger_account_id), ()):
            moment = expiry.external_event_date or self.at
            would_prevent = end is not None and happened_at < moment < end
            is_in_time = self.at - moment <= max_delay
            if would_prevent and is_in_time and self._new_statuses.get(expiry.ledger_transaction_id) != REVERTED:
                self._revert_expiry(account, wallet_id, expiry)

    def _revert_expiry(self, account: LedgerAccount, wallet_id: int, expiry: StoredTransaction) -> None:
        """Revert the expiry of an idle balance; points expire again if their own lots have expired by now."""
        if account.is_revolving:
            try:
                self._refuse_over_supply(account, expiry.amount)
            except SupplyExceeded:
                # The expired points were issued again meanwhile, up to the maximum supply: they cannot come back.
                return
        available_before = self._available_of(expiry)
        balance, to_lots = self._credit(account, wallet_id, expiry.amount)
        # With the moment, the key cannot equal a key used by a client.
        key = f"{LATE_ACTIVITY}-{wallet_id}-{expiry.ledger_transaction_id}-{self.at.timestamp():.6f}"
        posting = reversal(
            expiry,
            account,
            Details(key, description=LATE_ACTIVITY),
            expiry.amount,
            (Entry(wallet_id, expiry.amount, balance.current), Entry(wallet_id=None, amount=-expiry.amount)),
            lot_moves=self._moves_back_to_lots(account, expiry, expiry.amount, to_lots, revives=False),
            burned=-expiry.amount,
        )
        self.put(self._new_statuses, expiry.ledger_transaction_id, REVERTED)
        self._add_step(posting)
        self._settle_returned_points(
            account, expiry, expiry.amount, returned_uses_of(posting), available_before, key, posting
        )


def _is_revert(step: Step) -> bool:
    return isinstance(step, Posting) and step.transaction_type == REVERT


def _total(uses: Iterable[LotUse]) -> Decimal:
    """The sum of the amounts of uses."""
    return sum((use.amount for use in uses), ZERO)


def returned_uses_of(posting: Posting) -> tuple[LotUse, ...]:
    """The amounts that a reversal gives back to lots."""
    restorations = [move for move in posting.lot_moves if isinstance(move, RestoreLots)]
    return tuple(use for restoration in restorations for use in restoration.returned_uses)
