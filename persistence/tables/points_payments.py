"""Payments of members with points, in addition to the transactions that hold the points."""

from domain.points_payments import PointsPayment
from persistence.tables.base import foreign_key, index, record_table, unique

points_payments = record_table(
    "points_payments",
    PointsPayment,
    "points_payment_id",
    unique("points_payment_key"),
    unique("ledger_transaction_id"),
    index("ix_points_payments_member", "member_id", "ledger_account_id"),
    foreign_key("members", "member_id"),
    foreign_key("ledger_transactions", "ledger_transaction_id"),
)
