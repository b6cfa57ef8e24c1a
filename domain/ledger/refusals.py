"""Refusals of requests that name what the ledger does not have."""

from domain.problems import NotFound


class UnknownLedger(NotFound):
    """A request names a ledger that the organization does not have."""

    slug = "unknown-ledger"
    title = "The ledger does not exist"


class UnknownLedgerAccount(NotFound):
    """A request names a ledger account that the ledger does not have."""

    slug = "unknown-ledger-account"
    title = "The ledger account does not exist"
