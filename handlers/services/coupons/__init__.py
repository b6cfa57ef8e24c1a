"""Use cases of coupon books and coupons."""
