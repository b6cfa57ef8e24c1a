"""The ledger session of one unit of work: balances that it holds locked, and the transactions it posts to them.

Whatever moves points goes through here, so each rule of the ledger stands once. Nothing is stored: the caller writes
`steps` and `changed` when the work has succeeded, and forgets the session when it has not. `savepoint` and
`rollback_to` take back a part of the work, such as one item of a batch.
"""

from domain.ledger.session.amounts import check_amount, overdraft_of, refuse_untracked_expiry, round_down
from domain.ledger.session.settlements import LedgerSession

__all__ = ["LedgerSession", "check_amount", "overdraft_of", "refuse_untracked_expiry", "round_down"]
