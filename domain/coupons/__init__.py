"""Coupon books, their codes, the rules for having and using them, and coupon usages."""
