"""Coupon books as values, for tests of rules without a database."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from domain.coupons.books import LIST, PUBLISHED, CouponBook

_LISTS = (
    *("tags", "audience_keys", "locations", "categories", "product_categories", "payment_methods", "channels"),
    *("days_of_week", "tier_keys", "tiers"),
)


def coupon_book(**fields: Any) -> CouponBook:
    """A published book of type list, without restrictions except those in `fields`."""
    values: dict[str, Any] = {field.name: None for field in dataclasses.fields(CouponBook)}
    values |= {name: [] for name in _LISTS}
    values |= {name: {} for name in ("images", "custom_attributes", "condition", "extra_fields")}
    values |= {"organization_id": 1, "coupon_book_id": 12, "name": "Free coffee", "coupon_count": 0}
    values |= {"publishing_status": PUBLISHED, "type": LIST, "total_assigned": Decimal(0), "total_usages": Decimal(0)}
    values |= dict.fromkeys(("created_at", "updated_at"), datetime(2026, 1, 1, tzinfo=UTC))
    return CouponBook(**{**values, **fields})
