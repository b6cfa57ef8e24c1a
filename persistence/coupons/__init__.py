"""Coupon books, their codes, and what members have of them."""
