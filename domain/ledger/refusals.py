"""The refusals of the ledger, each with its own problem type."""

from decimal import Decimal

from domain.problems import Conflict, NotFound


class UnknownLedger(NotFound, title="The ledger does not exist"):
    """The organization does not have the ledger that a request names."""


class UnknownLedgerAccount(NotFound, title="The ledger account does not exist"):
    """The ledger does not have the ledger account that a request names."""


def unknown_ledger(ledger_id: int | None) -> str:
    """The detail of UnknownLedger; None means the default ledger."""
    return "The organization has no default ledger." if ledger_id is None else f"There is no ledger {ledger_id}."


def unknown_account(ledger_id: int | None, ledger_account_id: int | None) -> str:
    """The detail of UnknownLedgerAccount; None means the default ledger or account."""
    ledger = "The default ledger" if ledger_id is None else f"The ledger {ledger_id}"
    return f"{ledger} has no " + ("default account." if ledger_account_id is None else f"account {ledger_account_id}.")


class UnknownWallet(NotFound, title="The wallet does not exist"):
    """The ledger does not have the wallet that a request names."""


class UnknownLedgerTransaction(NotFound, title="The ledger transaction does not exist"):
    """The organization or the account does not have the transaction that a request names."""


class InsufficientBalance(Conflict, title="The wallet does not hold enough"):
    """A burn, transfer or revert needs more than the wallet can spend."""


class OverdraftLimitExceeded(Conflict, slug="overdraft-limit", title="The overdraft limit is reached"):
    """A burn or revert with `allowOverdraft` would raise the debt above the account's `overdraftLimit`."""


class SupplyExceeded(Conflict, title="The account's supply is exhausted"):
    """A mint, or the revert of a burn, would issue more than the account's `maxSupply`."""


class BalanceLimitReached(Conflict, slug="balance-limit", title="The maximum balance is reached"):
    """A mint or transfer would raise what a wallet holds, waiting points included, above the account's `maxBalance`."""


class AccountInactive(Conflict, title="The ledger account is inactive"):
    """An inactive account has no movements."""


class WalletNotInLedger(Conflict, title="The member has no wallet in this ledger"):
    """A member's wallet can hold balances of the default ledger's accounts only."""


class FiatNotAllowed(Conflict, title="Only burns have a fiat value"):
    """Fiat fields are accepted on burns, and a partial fiat value on reverts of burns (integration 7)."""


class FiatExceedsBurn(Conflict, title="The fiat value is greater than that of the burn"):
    """The revert of a burn cannot return more fiat value than the burn has left."""


class PointsNotTracked(Conflict, title="The ledger account does not track points"):
    """Only an account with point tracking knows which of its points expire when."""


class CaptureNotSupported(Conflict, title="The account does not support manual capture"):
    """Accounts with an overdraft do not support captures: reserved amounts would look like possible debt."""


class NotPending(Conflict, title="The transaction is not pending"):
    """Only a pending transaction can be captured."""


class CaptureExceedsHold(Conflict, title="The capture is greater than the hold"):
    """A capture cannot exceed the reserved amount."""


class AlreadyReverted(Conflict, title="The transaction has already been reverted"):
    """A transaction can be reverted only once."""


class SetFailed(Conflict, slug="atomic-set-failed", title="Another item of the set was refused"):
    """Another item of the same atomic set was refused, so this one was not executed either."""


class SupplyBelowIssued(Conflict, title="The new supply is lower than the issued supply"):
    """The maximum supply cannot be lower than the issued supply."""


class NotRevertible(Conflict, title="The transaction cannot be reverted"):
    """Reverts, expiries and changes of the supply cannot be reverted."""


def supply_exceeded(max_supply: Decimal, issued: Decimal) -> SupplyExceeded:
    """The refusal of a mint that would raise the issued amount of an account above its maximum supply."""
    return SupplyExceeded(
        f"The account may issue {max_supply} in all and has issued {issued}.", available=max_supply - issued
    )
