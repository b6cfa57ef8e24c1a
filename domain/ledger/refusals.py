"""What the ledger refuses, each with a problem type of its own."""

from domain.problems import Conflict, NotFound


class UnknownLedger(NotFound):
    """A request names a ledger that the organization does not have."""

    slug = "unknown-ledger"
    title = "The ledger does not exist"


class UnknownLedgerAccount(NotFound):
    """A request names a ledger account that the ledger does not have."""

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
    """A request names a wallet that the ledger does not have."""

    slug = "unknown-wallet"
    title = "The wallet does not exist"


class UnknownLedgerTransaction(NotFound):
    """A request names a transaction that the organization or the account does not have."""

    slug = "unknown-ledger-transaction"
    title = "The ledger transaction does not exist"


class InsufficientBalance(Conflict):
    """A burn, transfer or revert asks for more than the wallet can spend."""

    slug = "insufficient-balance"
    title = "The wallet does not hold enough"


class OverdraftLimitExceeded(Conflict):
    """A burn or revert with `allowOverdraft` would drive the debt beyond the account's `overdraftLimit`."""

    slug = "overdraft-limit"
    title = "The overdraft limit is reached"


class SupplyExceeded(Conflict):
    """A mint, or the revert of a burn, would issue more than the account's `maxSupply`."""

    slug = "supply-exceeded"
    title = "The account's supply is exhausted"


class AccountInactive(Conflict):
    """Nothing moves on an inactive account."""

    slug = "account-inactive"
    title = "The ledger account is inactive"


class WalletNotInLedger(Conflict):
    """A member's wallet holds balances of the default ledger's accounts only."""

    slug = "wallet-not-in-ledger"
    title = "The member has no wallet in this ledger"


class FiatNotAllowed(Conflict):
    """Fiat members are accepted on burns, and a partial fiat value on reverts of burns (integration 7)."""

    slug = "fiat-not-allowed"
    title = "Only burns have a fiat value"


class FiatExceedsBurn(Conflict):
    """The revert of a burn takes back no more fiat value than the burn has."""

    slug = "fiat-exceeds-burn"
    title = "The fiat value is greater than that of the burn"


class PointsNotTracked(Conflict):
    """Only an account with point tracking can tell which of its points expire when."""

    slug = "points-not-tracked"
    title = "The ledger account does not track points"


class CaptureNotSupported(Conflict):
    """Accounts with an overdraft settle at once: what is set aside could not be told from what may become debt."""

    slug = "capture-not-supported"
    title = "The account does not support manual capture"


class NotPending(Conflict):
    """Only a pending transaction can be captured."""

    slug = "not-pending"
    title = "The transaction is not pending"


class CaptureExceedsHold(Conflict):
    """No more can be captured than was set aside."""

    slug = "capture-exceeds-hold"
    title = "The capture is greater than what was set aside"


class AlreadyReverted(Conflict):
    """A transaction is reverted once."""

    slug = "already-reverted"
    title = "The transaction is reverted already"


class SetFailed(Conflict):
    """Another item of the same atomic set was refused, so this one was not done either."""

    slug = "atomic-set-failed"
    title = "Another item of the set was refused"


class SupplyBelowIssued(Conflict):
    """The supply cannot be limited to less than what was issued already."""

    slug = "supply-below-issued"
    title = "More than the new supply is issued already"


class NotRevertible(Conflict):
    """Reverts, expiries and changes of the supply stand."""

    slug = "not-revertible"
    title = "The transaction cannot be reverted"
