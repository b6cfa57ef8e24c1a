"""Coupon books, their codes, who may have and use them, and what was assigned and used."""
