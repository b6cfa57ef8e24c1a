"""Offline allowances; the transactions that hold their points are beside them."""

from domain.offline_allowances import OfflineAllowance
from persistence.records import Records
from persistence.tables.offline_allowances import offline_allowances

ALLOWANCES = Records(offline_allowances, OfflineAllowance)
