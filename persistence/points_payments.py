"""Payments with points; the transactions that hold their points are beside them."""

from domain.points_payments import PointsPayment
from persistence.records import Records
from persistence.tables.points_payments import points_payments

PAYMENTS = Records(points_payments, PointsPayment)
