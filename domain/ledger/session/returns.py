"""Points that the reversal of a debit returns: the lots that they return to, and those of them that have expired."""

from datetime import datetime
from decimal import Decimal

from domain.calendar import add_days
from domain.ledger.lots import LotMove, LotUse, NewLot, RestoreLots, end_of_idle_balance, split_uses
from domain.ledger.postings import ZERO, Capture, Posting, Stored
from domain.ledger.records import LedgerAccount
from domain.ledger.session.claims import Claims, Returned


class Returns(Claims):
    """A session that gives back what reverted and released debits had taken."""

    def _restored(
        self, account: LedgerAccount, stored: Stored, to_lots: Decimal, *, revives: bool = True
    ) -> tuple[LotMove, ...]:
        """The lots of a reverted debit, `to_lots` in total: the last to expire come back first.

        What was of lots that have expired becomes one lot that lives for a while, if the account `revives` it.
        """
        if not account.point_tracking_enabled:
            return ()
        pair = (stored.from_wallet_id or 0, account.ledger_account_id)
        used = sum((use.amount for use in stored.uses), ZERO)
        spent, returned = split_uses(stored.uses, max(ZERO, used - to_lots))
        revived: tuple[LotUse, ...] = ()
        if revives and account.restored_expiry_days:
            revived = tuple(use for use in returned if self._has_ended(account, pair[0], use))
            returned = tuple(use for use in returned if use not in revived)
        extra, expiry = max(ZERO, to_lots - used), self._expiry_of_mint(account, pair[0], self.at)
        moves: tuple[LotMove, ...] = (RestoreLots(*pair, returned, (*spent, *revived), extra, expiry),)
        if revived:
            end = add_days(self.at, account.restored_expiry_days, account.expiry_calendar(self.zone).zone)
            moves += (NewLot(*pair, sum((use.amount for use in revived), ZERO), end),)
        return moves

    def _available_of(self, stored: Stored) -> Decimal:
        """The spendable amount of the wallet that a transaction debits."""
        return self.holding(stored.from_wallet_id or 0, stored.ledger_account_id).available

    def _settle_returned(
        self,
        account: LedgerAccount,
        stored: Stored,
        amount: Decimal,
        uses: tuple[LotUse, ...],
        before: Decimal,
        cause: str,
        step: Posting | Capture,
        returned_at: datetime | None = None,
    ) -> None:
        """Settle `amount` returned to a wallet that could spend `before`, into lots by `uses`.

        Amounts returned to lots that have expired meanwhile expire at once, at the moment `returned_at` (default now),
        not when the lots expired. From the rest, missing amounts of reverted mints are taken.
        """
        wallet_id, repaid = stored.from_wallet_id, amount - self._available_of(stored) + before
        if wallet_id is None:
            return
        expired: dict[datetime, list[LotUse]] = {}
        for use in uses:
            end = self._end_of(account, wallet_id, use)
            if end is not None and end <= self.at:
                expired.setdefault(max(end, returned_at or self.at), []).append(use)
        for moment, lots_of_moment in sorted(expired.items()):
            key = f"expiry-after-{cause}-{moment.timestamp():.6f}"
            self.expire(account, wallet_id, tuple(lots_of_moment), moment, key, step)
        arrived = self._available_of(stored) - before
        gone = {use.ledger_lot_id: use.amount for moment in expired.values() for use in moment}
        lots = (use for use in uses if use.ledger_lot_id not in gone)
        self._take_missing(account, stored, Returned(arrived, repaid, gone), lots, step)

    def _end_of(self, account: LedgerAccount, wallet_id: int, use: LotUse) -> datetime | None:
        """When an amount that is back in its lot expires: with the lot, or with the idle balance."""
        idle_since = self.holding(wallet_id, account.ledger_account_id).last_transaction_date
        end_of_idle = end_of_idle_balance(account.expires_after_last_transaction, idle_since, self.zone)
        return min((end for end in (use.expires_at, end_of_idle) if end is not None), default=None)

    def _has_ended(self, account: LedgerAccount, wallet_id: int, use: LotUse) -> bool:
        end = self._end_of(account, wallet_id, use)
        return end is not None and end <= self.at


def returned_by(posting: Posting) -> tuple[LotUse, ...]:
    """The lots to which a reversal gives back."""
    return tuple(use for move in posting.lot_moves if isinstance(move, RestoreLots) for use in move.returned)
