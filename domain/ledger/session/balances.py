"""The locked balances of a unit of work, the steps that change them and can be rolled back, and computed amounts."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from decimal import ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TypeVar

from domain.ledger.clawbacks import Clawback
from domain.ledger.lots import LotMove, LotUse, MoveLots, NewLot, SettleLots, TakeLots, end_of_lot, split_uses
from domain.ledger.postings import (
    ZERO,
    BalanceKey,
    Confirmation,
    Details,
    Earning,
    Entry,
    Holding,
    Posting,
    Step,
    StoredTransaction,
)
from domain.ledger.records import MAX_AMOUNT, LedgerAccount
from domain.ledger.refusals import (
    AccountInactive,
    BalanceLimitReached,
    InsufficientBalance,
    OverdraftLimitExceeded,
    PointsNotTracked,
    supply_exceeded,
)
from domain.ledger.session.fiat_values import fiat_sum
from domain.problems import FieldFault, InvalidRequest
from domain.undo_log import UndoableState

AnyStep = TypeVar("AnyStep", bound=Step)

_NOTHING = Holding()

AwaitedEvent = tuple[str, str | None, int]
"""An event for which mints wait: its type, its order or None, and the wallet of its member, 0 if it has an order."""


class Balances(UndoableState, ABC):
    """Locked balances of wallets by (wallet, account) at the moment `at`; months of expiry are counted in `zone`.

    `accounts` are the accounts, by id, as locked; `issued` is known for those with a maximum supply.
    """

    def __init__(
        self,
        accounts: Mapping[int, LedgerAccount],
        holdings: Mapping[BalanceKey, Holding],
        issued: Mapping[int, Decimal],
        at: datetime,
        zone: tzinfo = UTC,
    ) -> None:
        self.accounts = accounts
        self.at = at
        self.zone = zone
        # For accounts with `tier_expirations`: the keys of the tiers by which points of a wallet expire. The arguments
        # are the wallet's id, when the points were earned, and when they were minted.
        self.tier_keys_of_mint: Callable[[int, datetime, datetime], Collection[str]] = lambda *_: ()
        # A part of a refusal's text: which points of a balance are not available yet.
        self.waiting_text: Callable[[int, int], str] = lambda wallet_id, ledger_account_id: ""
        self.steps: list[Step] = []
        self._holdings = dict(holdings)
        self._issued = dict(issued)
        # What each account had issued before the reverts whose supply is checked together; None outside of them.
        self._issued_before_reverts: dict[int, Decimal] | None = None
        # By transaction: its new status, if this unit of work captured or reverted it.
        self._new_statuses: dict[int, int] = {}
        # By transaction: amounts that partial reverts reverted or released, and missing amounts of mints.
        self._reverted_amounts: dict[int, Decimal] = {}
        self._released: dict[int, Decimal] = {}
        self._fiat_returned: dict[int, Decimal] = {}
        self._missing: dict[int, Decimal] = {}
        # By mint: the mint, and its last revert that left a missing amount.
        self._short_reverts: dict[int, tuple[StoredTransaction, Posting]] = {}
        # By revert or return: its uses of lots, if this unit of work has changed them.
        self._clawbacks: dict[int, Clawback] = {}
        # By lot: amounts that this unit of work burned because they had expired.
        self._expired: dict[int, Decimal] = {}
        # By transaction: amounts of lots that this unit of work created, without an id yet, and that had expired.
        self._expired_on_arrival: dict[int, Decimal] = {}
        # Points that this unit of work added to or subtracted from the earned ones, by balance.
        self._earnings: dict[BalanceKey, tuple[Earning, ...]] = {}
        # By mint: all its points that no longer count as earned.
        self._unearned: dict[int, Decimal] = {}
        # Expiries of idle balances that late activities may revert, by balance.
        self._idle_expiries: dict[BalanceKey, list[StoredTransaction]] = {}
        # Stored mints that wait for an event.
        self._awaiting: dict[AwaitedEvent, list[StoredTransaction]] = {}
        # Mints of this unit of work that wait for an event.
        self.new_waiting_mints: list[Posting] = []
        # By mint whose event has happened: when its points become available.
        self._confirmed: dict[int, Confirmation] = {}
        super().__init__(self.steps, self.new_waiting_mints)

    def assume(self, wallet_id: int, ledger_account_id: int, holding: Holding) -> None:
        """Use this holding for a wallet that is not stored."""
        self._holdings[wallet_id, ledger_account_id] = holding

    @property
    def has_changed_transactions(self) -> bool:
        """True if this unit of work has changed transactions that were stored before."""
        return bool(self._new_statuses or self._released or self._missing or self._unearned or self._confirmed)

    def changed_holdings(self) -> list[tuple[BalanceKey, Holding]]:
        """The holdings that the steps have changed, in the order of wallets and accounts."""
        return sorted(self.changes_of(self._holdings).items())

    def holding(self, wallet_id: int, ledger_account_id: int) -> Holding:
        """The present holding of the wallet, including everything posted so far; zero if there is no balance yet."""
        return self._holdings.get((wallet_id, ledger_account_id), _NOTHING)

    def earnings(self, wallet_id: int, ledger_account_id: int) -> tuple[Earning, ...]:
        """The wallet's earnings of the account in this unit of work."""
        return self._earnings.get((wallet_id, ledger_account_id), ())

    def record_activity(self, account: LedgerAccount, wallet_id: int, activity: str, happened_at: datetime) -> None:
        """Restart the idle period of the balance at `happened_at`, if the account's policy counts the activity.

        A late activity reverts the expiry that it would have prevented, as far as the account allows.
        """
        pair = (wallet_id, account.ledger_account_id)
        if activity not in _activities_of(account, self.zone):
            return
        balance = self.holding(*pair)
        before = balance.last_activity_date or balance.last_transaction_date
        if before is None or before < happened_at:
            self.put(self._holdings, pair, replace(balance, last_activity_date=happened_at))
        self._revert_idle_expiries(account, wallet_id, happened_at)

    def record_event(self, wallet_id: int, event_type: str, happened_at: datetime) -> None:
        """Record an event of the wallet's holder as an activity on all accounts on which the wallet has a balance."""
        for account in self.accounts.values():
            if account.expiration_policies and (wallet_id, account.ledger_account_id) in self._holdings:
                self.record_activity(account, wallet_id, event_type, happened_at)

    @abstractmethod
    def _revert_idle_expiries(self, account: LedgerAccount, wallet_id: int, happened_at: datetime) -> None:
        """Revert the expiries of an idle balance that an activity at a moment would have prevented."""

    def _record_movement(self, account: LedgerAccount, wallet_id: int, activity: str, details: Details) -> bool:
        """Record a movement as an activity and return True, or keep the idle period and return False if it is none."""
        is_activity = details.counts_as_activity and activity in _activities_of(account, self.zone)
        if is_activity:
            self.record_activity(account, wallet_id, activity, details.external_event_date or self.at)
        else:
            self._keep_idle_period(account, wallet_id)
        return is_activity

    def _keep_idle_period(self, account: LedgerAccount, wallet_id: int, arrived_at: datetime | None = None) -> None:
        """Keep the idle period of a balance, which must not be prolonged by a movement that is no activity.

        If points arrive at `arrived_at`, a new period begins if the last one has ended by then, or if none has begun.
        """
        policy = account.idle_policy(self.zone)
        if policy is not None:
            pair = (wallet_id, account.ledger_account_id)
            balance = self.holding(*pair)
            dates = balance.last_transaction_date, balance.last_activity_date
            begin = policy.start_after_movement(*dates, bool(balance.current), arrived_at)
            if begin != balance.last_activity_date:
                self.put(self._holdings, pair, replace(balance, last_activity_date=begin))

    def _end_of_idle_balance(self, account: LedgerAccount, wallet_id: int) -> datetime | None:
        """When the balance expires by the account's idle policy; None means never."""
        return account.end_of_idle_balance(self.holding(wallet_id, account.ledger_account_id), self.zone)

    def _end_of_use(self, account: LedgerAccount, wallet_id: int, use: LotUse) -> datetime | None:
        """When points of a lot expire: at its own date, or before it with the idle balance; None means never."""
        return end_of_lot(use.expires_at, self._end_of_idle_balance(account, wallet_id), use.kept_until)

    def _unreserve(
        self, account: LedgerAccount, wallet_id: int, debit: Decimal = ZERO, credit: Decimal = ZERO
    ) -> Holding:
        """End the reservation of a pending debit or credit; return the holding."""
        balance = self.holding(wallet_id, account.ledger_account_id)
        balance = replace(
            balance,
            pending_debit=balance.pending_debit - debit,
            pending_credit=balance.pending_credit - credit,
            last_transaction_date=self.at,
        )
        self.put(self._holdings, (wallet_id, account.ledger_account_id), balance)
        return balance

    def _credit(self, account: LedgerAccount, wallet_id: int, amount: Decimal) -> tuple[Holding, Decimal]:
        """Credit a wallet, whose debt is repaid first; return the holding and the amount added to the balance."""
        balance = self.holding(wallet_id, account.ledger_account_id)
        repaid_debt = min(balance.overdraft, amount)
        balance = replace(
            balance,
            current=balance.current + amount - repaid_debt,
            overdraft=balance.overdraft - repaid_debt,
            overdraft_credit=balance.overdraft_credit + repaid_debt,
            last_transaction_date=self.at,
        )
        self.put(self._holdings, (wallet_id, account.ledger_account_id), balance)
        return balance, amount - repaid_debt

    def _earn(
        self,
        account: LedgerAccount,
        wallet_id: int,
        amount: Decimal,
        moment: datetime,
        released_at: datetime | None = None,
    ) -> None:
        """Count points as earned by something that happened at a moment; a negative amount lowers the count.

        `released_at` is the moment at which points that had to wait became available.
        """
        pair = (wallet_id, account.ledger_account_id)
        balance = self.holding(*pair)
        self.put(self._holdings, pair, replace(balance, earned=balance.earned + amount))
        self.put(self._earnings, pair, (*self._earnings.get(pair, ()), Earning(moment, amount, released_at)))

    def _debit(self, account: LedgerAccount, wallet_id: int, amount: Decimal, shortfall: Decimal) -> tuple[Entry, ...]:
        """Debit a wallet by `amount`, and by `shortfall` into debt; return an entry for each part."""
        balance = self.holding(wallet_id, account.ledger_account_id)
        current, overdraft = balance.current - amount, balance.overdraft + shortfall
        balance = replace(balance, current=current, overdraft=overdraft, last_transaction_date=self.at)
        self.put(self._holdings, (wallet_id, account.ledger_account_id), balance)
        entry = Entry(wallet_id, -amount, current)
        if not shortfall:
            return (entry,)
        entry_of_debt = Entry(wallet_id, -shortfall, current, is_overdraft=True)
        return (entry, entry_of_debt) if amount else (entry_of_debt,)

    def _shortfall(self, account: LedgerAccount, wallet_id: int, amount: Decimal, allow_overdraft: bool) -> Decimal:
        """The part of a debit that goes into debt; raises InsufficientBalance or OverdraftLimitExceeded."""
        balance = self.holding(wallet_id, account.ledger_account_id)
        shortfall = max(ZERO, amount - balance.available)
        if not shortfall:
            return ZERO
        limit = overdraft_of(account)
        if not allow_overdraft or not limit:
            note = self.waiting_text(wallet_id, account.ledger_account_id) if balance.pending_credit else ""
            raise InsufficientBalance(
                f"The amount {amount} is more than the available balance of {balance.available}{note}."
            )
        if balance.overdraft + shortfall > limit:
            raise OverdraftLimitExceeded(f"The debt would be {balance.overdraft + shortfall}, its limit is {limit}.")
        return shortfall

    def _refuse_unavailable(self, account: LedgerAccount, wallet_id: int, amount: Decimal) -> None:
        self._shortfall(account, wallet_id, amount, allow_overdraft=False)

    def _refuse_over_supply(self, account: LedgerAccount, amount: Decimal) -> None:
        """Raise SupplyExceeded if the account cannot issue `amount` more."""
        issued = self._issued.get(account.ledger_account_id, ZERO)
        if account.max_supply is not None and issued + amount > account.max_supply:
            raise supply_exceeded(account.max_supply, issued)

    def within_max_balance(
        self, account: LedgerAccount, wallet_id: int, amount: Decimal
    ) -> tuple[Decimal, BalanceLimitReached | None]:
        """The part of `amount` that the wallet may get, and the refusal of the rest; repaid debt does not count."""
        limit = account.max_balance
        if limit is None:
            return amount, None
        balance = self.holding(wallet_id, account.ledger_account_id)
        remaining = max(ZERO, limit + balance.overdraft - balance.effective - balance.pending_credit)
        if amount <= remaining:
            return amount, None
        detail = f"A wallet may hold at most {limit}; this one holds {balance.effective + balance.pending_credit}"
        return remaining, BalanceLimitReached(f"{detail}, including pending points.", available=remaining)

    def _refuse_over_balance(self, account: LedgerAccount, wallet_id: int, amount: Decimal) -> None:
        _, refusal = self.within_max_balance(account, wallet_id, amount)
        if refusal is not None:
            raise refusal

    def _expiry_of_mint(
        self,
        account: LedgerAccount,
        wallet_id: int,
        earned_at: datetime,
        available_at: datetime | None = None,
        minted_at: datetime | None = None,
    ) -> datetime | None:
        """When points expire by the rules of their account; None if they never do.

        Months are counted from `available_at` (default `earned_at`); `minted_at` is now by default.
        """
        months = account.expires_in_months
        if account.tier_expirations:
            months = account.months_to_expiry(self.tier_keys_of_mint(wallet_id, earned_at, minted_at or self.at))
        if months is None:
            return None
        return account.expiry_calendar(self.zone).expiry(available_at or earned_at, months, account.expiry_rounding)

    def _add_fiat(self, account: LedgerAccount, wallet_id: int, value: Decimal | None) -> None:
        """Add the fiat value of a burn to the sum of all burns of the wallet; a revert adds a negative value."""
        if value:
            pair = (wallet_id, account.ledger_account_id)
            balance = self.holding(*pair)
            self.put(self._holdings, pair, replace(balance, fiat=fiat_sum(balance.fiat, value)))

    def _add_step(self, step: AnyStep) -> AnyStep:
        """Add a step, and count the supply that it issues or, if negative, takes away; return the step."""
        self.steps.append(step)
        account = step.account
        newly_issued = step.minted - (step.burned if account.is_revolving else ZERO)
        if newly_issued:
            before = self._issued.get(account.ledger_account_id, ZERO)
            self.put(self._issued, account.ledger_account_id, before + newly_issued)
        return step


def _activities_of(account: LedgerAccount, zone: tzinfo) -> frozenset[str]:
    """The activities that keep the points of the account alive; none if it has no such policy."""
    policy = account.idle_policy(zone)
    return frozenset() if policy is None or policy.activities is None else policy.activities


# Wider than any number of a request or an expression: nothing is rounded before it is cut.
_WIDE = Context(prec=200)


def overdraft_of(account: LedgerAccount) -> Decimal:
    """The maximum debt that the account allows; zero if it has no overdraft."""
    return max(ZERO, account.overdraft_limit or ZERO) if account.is_revolving else ZERO


def check_amount(account: LedgerAccount, amount: Decimal, name: str = "amount") -> None:
    """Refuse an amount on an inactive account, or one that is too large or has too many fraction digits.

    `name` is the name of the field with the amount.
    """
    if not account.active:
        raise AccountInactive(f"The ledger account {account.name} is inactive.")
    if amount > MAX_AMOUNT:
        raise InvalidRequest([FieldFault(f"{name} is more than {MAX_AMOUNT}", pointer=f"/{name}")])
    refuse_fractions(account, amount, name)


def refuse_fractions(account: LedgerAccount, amount: Decimal, name: str) -> None:
    """Refuse an amount with too many fraction digits; `name` is the name of the field with the amount."""
    if amount != round_down(account, amount):
        detail = f"{name} has more than the {account.decimals} fraction digits of this account"
        raise InvalidRequest([FieldFault(detail, pointer=f"/{name}")])


def round_down(account: LedgerAccount, amount: Decimal) -> Decimal:
    """A computed amount, rounded down to the digits of the account."""
    units = _WIDE.scaleb(amount, account.decimals).to_integral_value(ROUND_FLOOR)
    return _WIDE.scaleb(units, -account.decimals)


def share_of(account: LedgerAccount, amount: Decimal, part: Decimal, whole: Decimal) -> Decimal:
    """The share of an amount that belongs to `part` of `whole`, rounded down to the digits of the account."""
    units = Fraction(amount) * Fraction(part) / Fraction(whole) * 10**account.decimals
    return Decimal(units.numerator // units.denominator).scaleb(-account.decimals)


def refuse_untracked_expiry(account: LedgerAccount, expires_at: datetime | None) -> None:
    """Refuse an expiry of points on an account without point tracking."""
    if expires_at is not None and not account.point_tracking_enabled:
        raise PointsNotTracked(f"expirationDate is given, but the ledger account {account.name} does not track points.")


def moves_from_lots(
    account: LedgerAccount,
    wallet_id: int,
    amount: Decimal,
    first_transaction_id: int | None = None,
    preferred_uses: Iterable[LotUse] = (),
) -> tuple[LotMove, ...]:
    """Moves that take `amount` from lots: of `first_transaction_id` first, then from the lots of `preferred_uses`."""
    if not account.point_tracking_enabled or not amount:
        return ()
    lot_ids = frozenset(use.ledger_lot_id for use in preferred_uses)
    return (TakeLots(wallet_id, account.ledger_account_id, amount, first_transaction_id, preferred_lot_ids=lot_ids),)


def lot_transfers(
    account: LedgerAccount, from_wallet_id: int, to_wallet_id: int, amount: Decimal, to_lots: Decimal
) -> tuple[LotMove, ...]:
    """The moves that take `amount` out of lots of one wallet, and put `to_lots` of it into lots of the other wallet."""
    if not account.point_tracking_enabled or not amount:
        return ()
    return (MoveLots(from_wallet_id, to_wallet_id, account.ledger_account_id, amount, to_lots),)


def expired_on_arrival(move: LotMove, at: datetime) -> Decimal:
    """The amount of a settled mint or transfer that went into lots that had expired at the moment `at`."""
    new_lots: Iterable[NewLot | LotUse] = ()
    if isinstance(move, NewLot):
        new_lots = (move,)
    elif isinstance(move, SettleLots):
        # The kept lots are sorted by expiry; the lots that expire first repaid debt and went into no lot.
        kept_amount = sum((use.amount for use in move.kept_uses), ZERO)
        _, new_lots = split_uses(move.kept_uses, kept_amount - move.to_lots)
    return sum((lot.amount for lot in new_lots if lot.expires_at is not None and lot.expires_at <= at), ZERO)
