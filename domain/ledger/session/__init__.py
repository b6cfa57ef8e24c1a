"""The ledger session of one unit of work: locked balances, and the transactions posted to them.

Every movement of points goes through the session, so each rule of the ledger is implemented once. Nothing is stored:
the caller writes `steps` and `changed_holdings` if the work has succeeded, and discards the session if it has failed.
`savepoint` and `rollback_to` roll back a part of the work, such as one item of a batch.
"""

from domain.ledger.session.balances import check_amount, overdraft_of, refuse_untracked_expiry, round_down, share_of
from domain.ledger.session.settlements import LedgerSession

__all__ = ["LedgerSession", "check_amount", "overdraft_of", "refuse_untracked_expiry", "round_down", "share_of"]
