"""Coupon books: offers, with their audience, validity and stock (integration 2.1 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.fields import Key
from domain.problems import Conflict, NotFound

SINGLE, LIST, GENERATED, CODELESS = "single", "list", "generated", "codeless"
DRAFT, PUBLISHED, DISABLED, ARCHIVED = "draft", "published", "disabled", "archived"


@dataclass(frozen=True, slots=True)
class CouponBook:
    """A stored coupon book; an empty restriction restricts nothing.

    `coupon_count` is the number of its codes; `total_assigned` and `total_usages` are sums over all members. `tiers`
    are the ids of the tiers in `tier_keys`, in the same order.
    """

    organization_id: int
    coupon_book_id: int
    coupon_book_key: Key
    loyalty_program_id: int | None
    # A program's key never changes, so books can be returned and filtered by it without a join.
    loyalty_program_key: Key | None
    external_id: str | None
    publishing_status: str
    type: str
    current_version_id: int | None
    name: str
    description: str | None
    subtitle: str | None
    picture_url: str | None
    detail_picture_url: str | None
    images: Mapping[str, str]
    ranking_index: Decimal | None
    discount_amount: Decimal | None
    discount_type: str | None
    max_coupon_count: int | None
    max_assigned_per_member: int | None
    max_assigned_per_coupon: int | None
    valid_from_date: datetime | None
    valid_to_date: datetime | None
    max_discount_per_period: Decimal | None
    discount_period_type: str | None
    max_usages_per_period: int | None
    usage_period_type: str | None
    timezone: str | None
    max_discount_per_use: Decimal | None
    assignment_required_points: Decimal | None
    usage_required_points: Decimal | None
    required_points_config: Mapping[str, str] | None
    tags: list[str]
    audience_keys: list[str]
    locations: list[str]
    categories: list[str]
    product_categories: list[str]
    payment_methods: list[str]
    channels: list[str]
    days_of_week: list[int]
    content_schema_id: int | None
    content_schema_version_id: int | None
    custom_attributes: Mapping[str, Any]
    condition: Mapping[str, Any]
    tier_keys: list[str]
    tiers: list[int]
    extra_fields: Mapping[str, Any]
    locale: str | None
    content: Mapping[str, Any] | None
    is_default_locale: bool | None
    default_locale: str | None
    code_pattern: Mapping[str, Any] | None
    coupon_count: int
    total_assigned: Decimal
    total_usages: Decimal
    external_key: str | None
    created_at: datetime
    updated_at: datetime


class UnknownCouponBook(NotFound):
    """The organization does not have the coupon book that a request names."""

    slug = "unknown-coupon-book"
    title = "The coupon book does not exist"


class BookArchived(Conflict):
    """An archived coupon book cannot be changed, assigned or used."""

    slug = "coupon-book-archived"
    title = "The coupon book is archived"


def stock_left(book: CouponBook, unassigned: int | None = None) -> Decimal | None:
    """The amount of the book that can still be assigned; None if unlimited. `unassigned` counts free codes of a list.

    Each code of a list goes to one member; otherwise `maxCouponCount` limits the total, and `maxAssignedPerCoupon` also
    limits a single code. A single book without its code has nothing to assign.
    """
    if book.type == LIST:
        return Decimal(unassigned or 0)
    if book.type == SINGLE and not book.coupon_count:
        return Decimal(0)
    caps = [book.max_coupon_count]
    if book.type == SINGLE:
        caps.append(book.max_assigned_per_coupon)
    lowest = min((cap for cap in caps if cap is not None), default=None)
    return None if lowest is None else lowest - book.total_assigned
