"""Mints, burns, transfers and expiries, posted at once or reserved for a later capture."""

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from domain.calendar import instant_text
from domain.ledger.availability import Availability, ExpiresBeforeAvailable, Wait
from domain.ledger.expiry import EARN, SPEND
from domain.ledger.extensions import ExtendLots, Extension
from domain.ledger.lots import LotMove, LotUse, NewLot, TakeLots, end_of_lot
from domain.ledger.postings import NO_FIAT, ZERO, BalanceKey, Details, Entry, Posting, Step
from domain.ledger.records import BURN, MINT, PENDING, SETTLED, TRANSFER, LedgerAccount
from domain.ledger.refusals import CaptureNotSupported, FiatNotAllowed, PointsNotTracked
from domain.ledger.session.balances import (
    Balances,
    check_amount,
    lot_transfers,
    moves_from_lots,
    overdraft_of,
    refuse_untracked_expiry,
)
from domain.problems import FieldFault, InvalidRequest


class Movements(Balances):
    """A session that posts new movements."""

    def mint(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        expires_at: datetime | None = None,
        manual: bool = False,
        qualifying: Decimal | None = None,
        checks_max_balance: bool = True,
        availability: Availability | None = None,
    ) -> Posting:
        """Issue `amount` to the wallet; debt is repaid first. `expires_at` overrides the account's expiry.

        A `manual` mint only reserves the amount, for a later capture. `qualifying` points count as earned, in place of
        the amount. Points that are not available yet wait, unless the mint is `manual`; without an `availability`, the
        terms of the account apply. Raises AccountInactive, SupplyExceeded, BalanceLimitReached, FiatNotAllowed,
        PointsNotTracked for an expiry on an account without tracking, ExpiresBeforeAvailable, CaptureNotSupported, or
        InvalidRequest for too many fraction digits.
        """
        _check_movement(account, amount, details, allows_fiat=False)
        refuse_untracked_expiry(account, expires_at)
        self._refuse_over_supply(account, amount)
        if checks_max_balance and account.max_balance is not None:
            self._refuse_over_balance(account, wallet_id, amount)
        if qualifying is not None:
            _check_qualifying(account, qualifying, is_pending_zero=manual and not amount)
        happened_at = details.external_event_date or self.at
        has_policies = bool(account.expiration_policies)
        is_activity = has_policies and self._record_movement(account, wallet_id, EARN, details)
        if manual:
            return self._hold(account, MINT, None, wallet_id, amount, details, expires_at, qualifying=qualifying)
        wait = None
        if availability is not None or account.default_availability is not None:
            zone, terms = account.expiry_calendar(self.zone).zone, availability or account.availability
            wait = terms.wait(happened_at, zone, details.order_external_id)
        available_at = None if wait is None else wait.available_at
        expiry = expires_at or self._expiry_of_mint(account, wallet_id, happened_at, available_at)
        # A mint of only qualifying points does not wait, since these cannot be spent.
        if wait is not None and amount and (wait.available_at is None or wait.available_at > self.at):
            return self._wait(account, wallet_id, amount, details, wait, expires_at, expiry, qualifying)
        if has_policies and amount and not is_activity:
            self._keep_idle_period(account, wallet_id, arrived_at=self.at)
        balance, to_lot = self._credit(account, wallet_id, amount)
        earned_points = amount if qualifying is None else qualifying
        self._earn(account, wallet_id, earned_points, happened_at)
        has_lot = account.point_tracking_enabled and to_lot > 0
        posting = self._add_step(
            Posting(
                account=account,
                transaction_type=MINT,
                status=SETTLED,
                amount=amount,
                from_wallet_id=None,
                to_wallet_id=wallet_id,
                entries=(Entry(wallet_id, amount, balance.current), Entry(wallet_id=None, amount=-amount)),
                details=details,
                minted=amount,
                lot_moves=(NewLot(wallet_id, account.ledger_account_id, to_lot, expiry),) if has_lot else (),
                qualifying=qualifying,
            )
        )
        end = end_of_lot(expiry, self._end_of_idle_balance(account, wallet_id)) if has_policies else expiry
        if has_lot and end is not None and end <= self.at:
            self._expire_at_once(posting, wallet_id, to_lot)
        return posting

    def _expire_at_once(self, mint: Posting, wallet_id: int, amount: Decimal) -> None:
        """Expire points of a mint whose event is so old that they must never be spendable."""
        account = mint.account
        just_minted = TakeLots(wallet_id, account.ledger_account_id, amount, from_newest_lot=True, is_expiry=True)
        # With the moment, the key cannot equal a key used by a client.
        key = f"expiry-{wallet_id}-{mint.details.system_unique_key}-{self.at.timestamp():.6f}"
        # The expiry is dated at the mint, not before: past balances are computed by this moment.
        self._expire(account, wallet_id, amount, (just_minted,), self.at, key, part_of=mint)

    def _wait(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        wait: Wait,
        expires_at: datetime | None,
        policy_expiry: datetime | None,
        qualifying: Decimal | None,
    ) -> Posting:
        """Hold a mint until its points are available.

        The points count as issued at once, so that `max_supply` cannot prevent their release.
        `expires_at` is the expiry that the mint names, `policy_expiry` the one that the account's rules give.
        """
        available_at = wait.available_at
        if expires_at is not None and available_at is not None and expires_at <= available_at:
            raise ExpiresBeforeAvailable(
                f"The points would expire at {instant_text(expires_at)} and be available from "
                f"{instant_text(available_at)}."
            )
        posting = self._hold(
            account,
            MINT,
            from_wallet_id=None,
            to_wallet_id=wallet_id,
            amount=amount,
            details=details,
            expires_at=expires_at,
            held_until=wait.cancelled_at,
            qualifying=qualifying,
            wait=wait,
            policy_expires_at=None if available_at is None or expires_at is not None else policy_expiry,
        )
        if wait.awaited is not None:
            self.new_waiting_mints.append(posting)
        return posting

    def burn(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        details: Details,
        allow_overdraft: bool = False,
        manual: bool = False,
        held_until: datetime | None = None,
    ) -> Posting:
        """Take `amount` from the wallet, with `allow_overdraft` into debt if the account has an overdraft.

        A `manual` burn is a hold, which ends at `held_until` unless it was captured. Raises AccountInactive,
        InsufficientBalance, OverdraftLimitExceeded, CaptureNotSupported or InvalidRequest.
        """
        _check_movement(account, amount, details, allows_fiat=True)
        if account.expiration_policies:
            self._record_movement(account, wallet_id, SPEND, details)
        if manual:
            self._refuse_unavailable(account, wallet_id, amount)
            return self._hold(
                account, BURN, wallet_id, to_wallet_id=None, amount=amount, details=details, held_until=held_until
            )
        shortfall = self._shortfall(account, wallet_id, amount, allow_overdraft)
        entries = self._debit(account, wallet_id, amount - shortfall, shortfall)
        self._add_fiat(account, wallet_id, details.fiat.value)
        return self._add_step(
            Posting(
                account=account,
                transaction_type=BURN,
                status=SETTLED,
                amount=amount,
                from_wallet_id=wallet_id,
                to_wallet_id=None,
                entries=(*entries, Entry(wallet_id=None, amount=amount)),
                details=details,
                burned=amount,
                lot_moves=moves_from_lots(account, wallet_id, amount - shortfall),
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
        """Move `amount` between wallets; the points keep their expiry. With `manual`, only reserve it for a capture.

        Raises BalanceLimitReached, and the refusals of `burn`.
        """
        _check_movement(account, amount, details, allows_fiat=False)
        if from_wallet_id == to_wallet_id:
            raise InvalidRequest(
                [FieldFault("toWalletId equals fromWalletId; a transfer needs two wallets", pointer="/toWalletId")]
            )
        if account.expiration_policies:
            self._record_movement(account, from_wallet_id, SPEND, details)
            self._keep_idle_period(account, to_wallet_id, arrived_at=None if manual else self.at)
        self._refuse_unavailable(account, from_wallet_id, amount)
        self._refuse_over_balance(account, to_wallet_id, amount)
        if manual:
            return self._hold(account, TRANSFER, from_wallet_id, to_wallet_id, amount, details)
        debit = self._debit(account, from_wallet_id, amount, ZERO)
        receiver_balance, to_lots = self._credit(account, to_wallet_id, amount)
        return self._add_step(
            Posting(
                account=account,
                transaction_type=TRANSFER,
                status=SETTLED,
                amount=amount,
                from_wallet_id=from_wallet_id,
                to_wallet_id=to_wallet_id,
                entries=(*debit, Entry(to_wallet_id, amount, receiver_balance.current)),
                details=details,
                lot_moves=lot_transfers(account, from_wallet_id, to_wallet_id, amount, to_lots),
            )
        )

    def expire(
        self,
        account: LedgerAccount,
        wallet_id: int,
        uses: tuple[LotUse, ...],
        moment: datetime,
        key: str,
        part_of: Step | None = None,
    ) -> None:
        """Burn the amounts `uses` of lots of the wallet, which expired at `moment`; see `_expire` for `part_of`."""
        amount = sum((use.amount for use in uses), ZERO)
        lots_taken = TakeLots(wallet_id, account.ledger_account_id, amount, exact_uses=uses, is_expiry=True)
        for use in uses:
            before = self._expired.get(use.ledger_lot_id, ZERO)
            self.put(self._expired, use.ledger_lot_id, before + use.amount)
        self._expire(account, wallet_id, amount, (lots_taken,), moment, key, part_of)

    def leave_expired(self, wallet_id: int, ledger_account_id: int, amount: Decimal) -> None:
        """Leave the expiry of `amount` of a balance to a later session; this session cannot spend these points."""
        pair = (wallet_id, ledger_account_id)
        self.put(self._holdings, pair, replace(self.holding(*pair), expired=amount))

    def find_partly_expired(self) -> set[BalanceKey]:
        """The balances with expired points that are left to a later session."""
        return {pair for pair, holding in self._holdings.items() if holding.expired}

    def extend(
        self,
        account: LedgerAccount,
        wallet_id: int,
        extension: Extension,
        details: Details,
        only_lot_ids: frozenset[int] | None = None,
    ) -> Posting:
        """Extend the expiry of the wallet's lots, all or only `only_lot_ids`; raises PointsNotTracked."""
        if not account.point_tracking_enabled:
            raise PointsNotTracked("The account does not track when points expire: its pointTrackingEnabled is false.")
        extended_lots = ExtendLots(
            wallet_id,
            account.ledger_account_id,
            extension,
            account.expiry_calendar(self.zone),
            self._end_of_idle_balance(account, wallet_id),
            self.at,
            only_lot_ids,
        )
        current = self.holding(wallet_id, account.ledger_account_id).current
        return self._add_step(
            Posting(
                account=account,
                transaction_type=MINT,
                status=SETTLED,
                amount=ZERO,
                from_wallet_id=None,
                to_wallet_id=wallet_id,
                entries=(Entry(wallet_id, ZERO, current), Entry(wallet_id=None, amount=ZERO)),
                details=details,
                lot_moves=(extended_lots,),
                is_extension=True,
            )
        )

    def _expire(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        lot_moves: tuple[LotMove, ...],
        moment: datetime,
        key: str,
        part_of: Step | None = None,
    ) -> None:
        """Post the burn of points that expired at `moment`.

        `part_of` is the step that gave these points to the wallet, if they had already expired then.
        """
        balance = self.holding(wallet_id, account.ledger_account_id)
        # An expiry is not an action of the member and does not delay the next one.
        balance = replace(balance, current=balance.current - amount)
        self.put(self._holdings, (wallet_id, account.ledger_account_id), balance)
        self._add_step(
            Posting(
                account=account,
                transaction_type=BURN,
                status=SETTLED,
                amount=amount,
                from_wallet_id=wallet_id,
                to_wallet_id=None,
                entries=(Entry(wallet_id, -amount, balance.current), Entry(wallet_id=None, amount=amount)),
                details=Details(key, description="Expired", external_event_date=moment),
                burned=amount,
                lot_moves=lot_moves,
                is_expiry=True,
                part_of=part_of,
            )
        )

    def _hold(
        self,
        account: LedgerAccount,
        transaction_type: int,
        from_wallet_id: int | None,
        to_wallet_id: int | None,
        amount: Decimal,
        details: Details,
        expires_at: datetime | None = None,
        held_until: datetime | None = None,
        qualifying: Decimal | None = None,
        wait: Wait | None = None,
        policy_expires_at: datetime | None = None,
    ) -> Posting:
        """Reserve the amount until a capture, or for a `wait`; entries of zero mark the wallets concerned."""
        if overdraft_of(account) and wait is None:
            raise CaptureNotSupported("An account that allows an overdraft does not support manual capture.")
        if transaction_type == MINT:
            # The points are earned at this date, also if they are captured or released later.
            details = replace(details, external_event_date=details.external_event_date or self.at)
        entries: list[Entry] = []
        for wallet_id, is_debit in ((from_wallet_id, True), (to_wallet_id, False)):
            if wallet_id is not None:
                balance = self.holding(wallet_id, account.ledger_account_id)
                balance = replace(
                    balance,
                    pending_debit=balance.pending_debit + (amount if is_debit else ZERO),
                    pending_credit=balance.pending_credit + (ZERO if is_debit else amount),
                    last_transaction_date=self.at,
                )
                self.put(self._holdings, (wallet_id, account.ledger_account_id), balance)
                entries.append(Entry(wallet_id, ZERO, balance.current))
        return self._add_step(
            Posting(
                account=account,
                transaction_type=transaction_type,
                status=PENDING,
                amount=amount,
                from_wallet_id=from_wallet_id,
                to_wallet_id=to_wallet_id,
                entries=tuple(entries),
                details=details,
                lot_moves=() if from_wallet_id is None else moves_from_lots(account, from_wallet_id, amount),
                fiat_value=details.fiat.value,
                pending_expires_at=expires_at,
                held_until=held_until,
                qualifying=qualifying,
                minted=ZERO if wait is None else amount,
                wait=wait,
                policy_expires_at=policy_expires_at,
            )
        )


def _check_qualifying(account: LedgerAccount, qualifying: Decimal, *, is_pending_zero: bool) -> None:
    """Refuse qualifying points that the account cannot have, and those of a pending mint of 0, which never settles."""
    check_amount(account, qualifying, "qualifyingAmount")
    if is_pending_zero:
        fault = FieldFault(
            "qualifyingAmount needs a positive amount where the mint is pending", pointer="/qualifyingAmount"
        )
        raise InvalidRequest([fault])


def _check_movement(account: LedgerAccount, amount: Decimal, details: Details, allows_fiat: bool) -> None:
    check_amount(account, amount)
    if not allows_fiat and details.fiat != NO_FIAT:
        raise FiatNotAllowed("Only burns have a fiatValue, fiatGrossAmount and fiatCurrency.")
