"""Offline allowances; the transactions that hold their points are in the ledger."""

from domain.offline_allowances import OfflineAllowance
from persistence.records import Records
from persistence.tables.offline_allowances import offline_allowances

ALLOWANCES = Records(offline_allowances, OfflineAllowance)
