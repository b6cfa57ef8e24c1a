"""Offline allowances of members, in addition to the transactions that hold their points."""

from domain.offline_allowances import OfflineAllowance
from persistence.tables.base import foreign_key, index, record_table, unique

offline_allowances = record_table(
    "offline_allowances",
    OfflineAllowance,
    "offline_allowance_id",
    unique("offline_allowance_key"),
    unique("ledger_transaction_id"),
    unique("redemption_key"),
    index("ix_offline_allowances_member", "member_id", "ledger_account_id"),
    foreign_key("members", "member_id"),
    foreign_key("ledger_transactions", "ledger_transaction_id"),
)
