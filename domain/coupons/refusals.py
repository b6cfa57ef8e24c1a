"""Reasons why a member cannot have or use a coupon of a book now; lists report them as exclusions."""

from domain.problems import Conflict


class BookNotPublished(Conflict, slug="coupon-book-not-published", title="The coupon book is not published"):
    """Coupons can be assigned and used only while their book is published."""


class BookNotYetValid(Conflict, slug="coupon-book-not-yet-valid", title="The coupon book is not valid yet"):
    """The book's validFromDate is in the future."""


class BookExpired(Conflict, slug="coupon-book-expired", title="The coupon book is not valid any more"):
    """The book's validToDate has passed."""


class BookNotToday(Conflict, slug="coupon-book-day", title="The coupon book is not for this day of the week"):
    """The book is not valid on this day of the week."""


class BookClosed(Conflict, slug="coupon-book-hours", title="The coupon book is closed at this time"):
    """The book is closed at this time of the week."""


class TierNotEligible(Conflict, slug="coupon-book-tier", title="The coupon book is not for the member's tiers"):
    """The member is in none of the book's tiers."""


class AudienceNotEligible(
    Conflict, slug="coupon-book-audience", title="The coupon book is not for the member's audiences"
):
    """The member is in none of the book's audiences."""


class ConditionNotMet(Conflict, slug="coupon-book-condition", title="The condition of the coupon book is not met"):
    """The book's condition does not hold for the member."""


class OrderTotalTooLow(Conflict, slug="coupon-order-total", title="The order is below the minimum of the coupon book"):
    """The total of the order is below the book's minimum."""


class OutOfStock(Conflict, slug="coupon-out-of-stock", title="The coupon book is out of stock"):
    """The stock of the book is less than the requested amount."""


class QuotaReached(Conflict, slug="coupon-quota", title="The member cannot have more of the coupon book"):
    """The member would have more of the book than its limit per member."""


class UsageLimitReached(Conflict, slug="coupon-usage-limit", title="The uses in the period are exhausted"):
    """The member has reached the book's limit of uses in the period."""


class DiscountLimitReached(Conflict, slug="coupon-discount-limit", title="The discount in the period is exhausted"):
    """The discounts of the member in the period leave too little of the limit for this discount."""


class DiscountTooHigh(Conflict, slug="coupon-discount-too-high", title="The discount is above the maximum of one use"):
    """The discount exceeds the limit for one use."""
