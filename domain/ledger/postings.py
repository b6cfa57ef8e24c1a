"""Movements of the ledger: holdings, transactions to be posted, and stored transactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from domain.ledger.availability import Wait
from domain.ledger.clawbacks import Clawback
from domain.ledger.lots import LotMove, LotUse
from domain.ledger.records import LedgerAccount

ZERO = Decimal(0)


class Earning(NamedTuple):
    """Qualifying points of a mint for something that happened at `moment`; a negative amount was reverted.

    Points that had to wait count from `released_at` on.
    """

    moment: datetime
    amount: Decimal
    released_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Holding:
    """A wallet's holding of an account during a session: a `Balance` without the timestamps.

    `fiat` is the value in money of its burns less their reverts. `earned` are the qualifying points of its mints
    less reversals, whether or not they were spent or have expired. `last_activity_date` is set only if the
    policy of the account counts activities. `expired` are points of `current` whose expiry a later session posts.
    """

    current: Decimal = ZERO
    pending_credit: Decimal = ZERO
    pending_debit: Decimal = ZERO
    overdraft: Decimal = ZERO
    overdraft_credit: Decimal = ZERO
    fiat: Decimal = ZERO
    last_transaction_date: datetime | None = None
    earned: Decimal = ZERO
    last_activity_date: datetime | None = None
    expired: Decimal = ZERO

    @property
    def effective(self) -> Decimal:
        """The current balance without points that have expired."""
        return self.current - self.expired

    @property
    def available(self) -> Decimal:
        """The spendable amount: what has not expired, less amounts reserved for manual captures."""
        return self.effective - self.pending_debit


@dataclass(frozen=True, slots=True)
class Fiat:
    """The value of a burn in money."""

    value: Decimal | None = None
    gross_amount: Decimal | None = None
    currency: str | None = None


NO_FIAT = Fiat()


@dataclass(frozen=True, slots=True)
class Details:
    """Details of a transaction; `request_digest` is None for transactions that the server itself caused.

    `counts_as_activity`: a mint or burn keeps an idle balance alive, if the policy of the account counts it.
    `order_external_id` is the order that a mint is for, if it is for one.
    """

    system_unique_key: str
    request_digest: bytes | None = None
    external_id: str | None = None
    external_event_date: datetime | None = None
    description: str | None = None
    tags: tuple[str, ...] | None = None
    loyalty_event_id: int | None = None
    atomic_set_id: str | None = None
    fiat: Fiat = NO_FIAT
    counts_as_activity: bool = True
    order_external_id: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A leg of a transaction: `wallet_id` None means the account's issuance; the amounts of all legs add up to zero."""

    wallet_id: int | None
    amount: Decimal
    updated_balance: Decimal | None = None
    is_overdraft: bool = False


@dataclass(frozen=True, slots=True)
class Posting:
    """A transaction to be posted; `minted` and `burned` are added to the account's supply.

    `is_extension`: a mint of 0 that extends the expiry of lots. `is_partial`: it reverts a part of `reverts`, which
    keeps its status. `pending_expires_at`: the expiry of the value of a pending mint, if it is not the account's own
    policy. `part_of`: the step that caused it, such as the revert that returned the points of this expiry.
    `held_until`: when the hold of a pending transaction ends, if it ends by time. `ends_hold`: it is the release of
    such a hold. `qualifying`: the points of a mint that count as earned, None for the whole amount. A mint with a
    `wait` is not available yet; `policy_expires_at` is its expiry by the account's policy.
    """

    account: LedgerAccount
    transaction_type: int
    status: int
    amount: Decimal
    from_wallet_id: int | None
    to_wallet_id: int | None
    entries: tuple[Entry, ...]
    details: Details
    minted: Decimal = ZERO
    burned: Decimal = ZERO
    lot_moves: tuple[LotMove, ...] = ()
    reverts: StoredTransaction | None = None
    is_expiry: bool = False
    is_extension: bool = False
    fiat_value: Decimal | None = None
    is_partial: bool = False
    pending_expires_at: datetime | None = None
    part_of: Step | None = None
    held_until: datetime | None = None
    ends_hold: bool = False
    qualifying: Decimal | None = None
    wait: Wait | None = None
    policy_expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """A pending transaction to be captured at `amount`; `fiat_currency` and `external_event_date` are stored, if set.

    For a mint that waited, `available_at` is when it became available, and `expires_at` when its points expire.
    """

    stored: StoredTransaction
    account: LedgerAccount
    amount: Decimal
    entries: tuple[Entry, ...]
    minted: Decimal
    burned: Decimal
    lot_moves: tuple[LotMove, ...]
    fiat_value: Decimal | None
    fiat_currency: str | None = None
    external_event_date: datetime | None = None
    qualifying: Decimal | None = None
    available_at: datetime | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """A stored transaction with its `uses` of lots; a capture numbers its entries from `entry_count` on.

    Partial reverts have reverted `reverted_amount`, and released `released` while it was pending. `fiat_returned` is
    the value in money of the reverted parts of a burn. `policy_expires_at` is its expiry by the account's policy,
    `order_external_id` its order, if known.

    A mint created the lots `lot_ids`, of which the amount `expired` has expired. Its `qualifying` points, or its amount
    if they are None, count as earned, except `unearned` ones; it was for something that happened at `happened_at`. A
    mint that is not available at once has `available_at`, or `awaited` terms while it waits for an event, at most until
    `held_until`. `created_at` is None for a transaction of this unit of work.

    For a reverted mint, `missing` is the spent amount that its reverts could not claw back, and `clamped_by` the last
    of these reverts. For a debit, `mints_to_repay` are the reverted mints of its wallet with missing amounts; the
    points that a reversal of the debit returns repay them. `clawbacks` are the reverts and returns that took points of
    other lots, because the debit had spent the points of a mint.
    """

    ledger_transaction_id: int
    ledger_account_id: int
    transaction_type: int
    status: int
    amount: Decimal
    from_wallet_id: int | None
    to_wallet_id: int | None
    is_expiry: bool
    fiat_value: Decimal | None
    reversal_ledger_transaction_id: int | None
    external_event_date: datetime | None
    pending_expires_at: datetime | None
    entry_count: int
    reverted_amount: Decimal = ZERO
    uses: tuple[LotUse, ...] = ()
    released: Decimal = ZERO
    expired: Decimal = ZERO
    lot_ids: tuple[int, ...] = ()
    missing: Decimal = ZERO
    clamped_by: int | None = None
    fiat_currency: str | None = None
    mints_to_repay: tuple[StoredTransaction, ...] = ()
    clawbacks: tuple[Clawback, ...] = ()
    unearned: Decimal = ZERO
    happened_at: datetime | None = None
    held_until: datetime | None = None
    qualifying: Decimal | None = None
    fiat_returned: Decimal = ZERO
    available_at: datetime | None = None
    awaited: Mapping[str, Any] | None = None
    policy_expires_at: datetime | None = None
    order_external_id: str | None = None
    created_at: datetime | None = None

    @property
    def debited_wallet_id(self) -> int:
        """The id of the wallet that the transaction debits; 0, which no wallet has, for a mint."""
        return self.from_wallet_id or 0

    @property
    def credited_wallet_id(self) -> int:
        """The id of the wallet that the transaction credits; 0, which no wallet has, for a burn."""
        return self.to_wallet_id or 0

    @property
    def has_wait(self) -> bool:
        """True for a mint that was not available at once: while pending, it does not wait for a capture."""
        return self.available_at is not None or self.awaited is not None


class Confirmation(NamedTuple):
    """When a mint becomes available that waited for an event, and its expiry by the account's policy."""

    available_at: datetime
    policy_expires_at: datetime | None


Step = Posting | Capture
"""One change by a session: a transaction that it posts, or a stored one that it captures."""


def temporary_id(position: int) -> int:
    """The id of the transaction of a session's step until it is written; unlike stored ids, it is negative."""
    return -1 - position


def position_of(temporary_id: int) -> int:
    """The position of the step whose transaction has a temporary id."""
    return -1 - temporary_id


BalanceKey = tuple[int, int]
"""The key of a balance: a wallet's id and a ledger account's id."""
