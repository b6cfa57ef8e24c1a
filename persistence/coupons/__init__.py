"""Coupon books, their codes, and the coupons of members."""
