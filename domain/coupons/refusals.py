"""Reasons why nobody, or not this member, or not now, can have or use a coupon; lists report them as exclusions."""

from domain.problems import Conflict


class BookNotPublished(Conflict):
    """Coupons can be assigned and used only while their book is published."""

    slug = "coupon-book-not-published"
    title = "The coupon book is not published"


class BookNotYetValid(Conflict):
    """The book's validFromDate is in the future."""

    slug = "coupon-book-not-yet-valid"
    title = "The coupon book is not valid yet"


class BookExpired(Conflict):
    """The book's validToDate has passed."""

    slug = "coupon-book-expired"
    title = "The coupon book is not valid any more"


class BookNotToday(Conflict):
    """The book is not valid on this day of the week."""

    slug = "coupon-book-day"
    title = "The coupon book is not for this day of the week"


class BookClosed(Conflict):
    """The book is closed at this time of the week."""

    slug = "coupon-book-hours"
    title = "The coupon book is closed at this time"


class TierNotEligible(Conflict):
    """The member is in none of the book's tiers."""

    slug = "coupon-book-tier"
    title = "The coupon book is not for the member's tiers"


class AudienceNotEligible(Conflict):
    """The member is in none of the book's audiences."""

    slug = "coupon-book-audience"
    title = "The coupon book is not for the member's audiences"


class ConditionNotMet(Conflict):
    """The book's condition does not hold for the member."""

    slug = "coupon-book-condition"
    title = "The condition of the coupon book is not met"


class OrderTotalTooLow(Conflict):
    """The total of the order is below the book's minimum."""

    slug = "coupon-order-total"
    title = "The order is below the minimum of the coupon book"


class OutOfStock(Conflict):
    """The stock of the book is less than the requested amount."""

    slug = "coupon-out-of-stock"
    title = "The coupon book is out of stock"


class QuotaReached(Conflict):
    """The member would have more of the book than its limit per member."""

    slug = "coupon-quota"
    title = "The member cannot have more of the coupon book"


class UsageLimitReached(Conflict):
    """The member has reached the book's limit of uses in the period."""

    slug = "coupon-usage-limit"
    title = "The uses in the period are exhausted"


class DiscountLimitReached(Conflict):
    """The discounts of the member in the period leave too little of the limit for this one."""

    slug = "coupon-discount-limit"
    title = "The discount in the period is exhausted"


class DiscountTooHigh(Conflict):
    """The discount exceeds the limit for one use."""

    slug = "coupon-discount-too-high"
    title = "The discount is above the maximum of one use"
