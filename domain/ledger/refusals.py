"""The refusals of the ledger, each with its own problem type."""

from domain.problems import Conflict, NotFound


class UnknownLedger(NotFound):
    """The organization does not have the ledger that a request names."""

    slug = "unknown-ledger"
    title = "The ledger does not exist"


class UnknownLedgerAccount(NotFound):
    """The ledger does not have the ledger account that a request names."""

    slug = "unknown-ledger-account"
    title = "The ledger account does not exist"


def unknown_ledger(ledger_id: int | None) -> str:
    """The detail of UnknownLedger; None is the default one."""
    return "The organization has no default ledger." if ledger_id is None else f"There is no ledger {ledger_id}."


def unknown_account(ledger_id: int | None, ledger_account_id: int | None) -> str:
    """The detail of UnknownLedgerAccount; None is the default one."""
    ledger = "The default ledger" if ledger_id is None else f"The ledger {ledger_id}"
    return f"{ledger} has no " + ("default account." if ledger_account_id is None else f"account {ledger_account_id}.")


class UnknownWallet(NotFound):
    """The ledger does not have the wallet that a request names."""

    slug = "unknown-wallet"
    title = "The wallet does not exist"


class UnknownLedgerTransaction(NotFound):
    """The organization or the account does not have the transaction that a request names."""

    slug = "unknown-ledger-transaction"
    title = "The ledger transaction does not exist"


class InsufficientBalance(Conflict):
    """A burn, transfer or revert asks for more than the wallet can spend."""

    slug = "insufficient-balance"
    title = "The wallet does not hold enough"


class OverdraftLimitExceeded(Conflict):
    """A burn or revert with `allowOverdraft` would raise the debt above the account's `overdraftLimit`."""

    slug = "overdraft-limit"
    title = "The overdraft limit is reached"


class SupplyExceeded(Conflict):
    """A mint, or the revert of a burn, would issue more than the account's `maxSupply`."""

    slug = "supply-exceeded"
    title = "The account's supply is exhausted"


class BalanceLimitReached(Conflict):
    """A mint or transfer would raise what a wallet holds, waiting points included, above the account's `maxBalance`."""

    slug = "balance-limit"
    title = "The maximum balance is reached"


class AccountInactive(Conflict):
    """An inactive account has no movements."""

    slug = "account-inactive"
    title = "The ledger account is inactive"


class WalletNotInLedger(Conflict):
    """A member's wallet can hold balances of the default ledger's accounts only."""

    slug = "wallet-not-in-ledger"
    title = "The member has no wallet in this ledger"


class FiatNotAllowed(Conflict):
    """Fiat fields are accepted on burns, and a partial fiat value on reverts of burns (integration 7)."""

    slug = "fiat-not-allowed"
    title = "Only burns have a fiat value"


class FiatExceedsBurn(Conflict):
    """The revert of a burn cannot take back more fiat value than the burn has."""

    slug = "fiat-exceeds-burn"
    title = "The fiat value is greater than that of the burn"


class PointsNotTracked(Conflict):
    """Only an account with point tracking knows which of its points expire when."""

    slug = "points-not-tracked"
    title = "The ledger account does not track points"


class CaptureNotSupported(Conflict):
    """Accounts with an overdraft do not support captures: reserved amounts would look like possible debt."""

    slug = "capture-not-supported"
    title = "The account does not support manual capture"


class NotPending(Conflict):
    """Only a pending transaction can be captured."""

    slug = "not-pending"
    title = "The transaction is not pending"


class CaptureExceedsHold(Conflict):
    """A capture cannot exceed the reserved amount."""

    slug = "capture-exceeds-hold"
    title = "The capture is greater than the hold"


class AlreadyReverted(Conflict):
    """A transaction can be reverted only once."""

    slug = "already-reverted"
    title = "The transaction has already been reverted"


class SetFailed(Conflict):
    """Another item of the same atomic set was refused, so this one was not executed either."""

    slug = "atomic-set-failed"
    title = "Another item of the set was refused"


class SupplyBelowIssued(Conflict):
    """The maximum supply cannot be lower than the issued supply."""

    slug = "supply-below-issued"
    title = "The new supply is lower than the issued supply"


class NotRevertible(Conflict):
    """Reverts, expiries and changes of the supply cannot be reverted."""

    slug = "not-revertible"
    title = "The transaction cannot be reverted"
