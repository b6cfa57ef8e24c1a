"""Coupon books, their coupons, and the patterns of generated codes (integration 2.1, 2.2 and 3)."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from domain.fields import Internal, Key, Personal
from domain.problems import Conflict, FieldFault, InvalidRequest, NotFound

# The types and the publishing statuses of coupon books.
SINGLE, LIST, GENERATED, CODELESS = "single", "list", "generated", "codeless"
DRAFT, PUBLISHED, DISABLED, ARCHIVED = "draft", "published", "disabled", "archived"


@dataclass(frozen=True, slots=True)
class BookTerms:
    """The fields of a coupon book that decide about assignments and uses of its coupons, or that their events contain.

    An empty restriction restricts nothing. `coupon_count` is the number of the book's codes; `total_assigned` and
    `total_usages` are sums over all members.
    """

    organization_id: int
    coupon_book_id: int
    coupon_book_key: Key
    publishing_status: str
    type: str
    current_version_id: int | None
    name: str
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
    min_order_total: Decimal | None
    restore_on_cancel: bool
    # The worth of a coupon in money; None if it has none.
    face_value: Decimal | None
    is_value_coupon: bool
    assignment_required_points: Decimal | None
    usage_required_points: Decimal | None
    required_points_config: Mapping[str, str] | None
    tags: list[str]
    audience_keys: list[str]
    days_of_week: list[int]
    day_of_week_schedule: Mapping[str, Any] | None
    condition: Mapping[str, Any]
    tier_keys: list[str]
    code_pattern: Mapping[str, Any] | None
    coupon_count: int
    total_assigned: Decimal
    total_usages: Decimal
    # The latest end of a lock of its coupons; from then on, none of them is locked.
    locked_until: Internal[datetime | None]


@dataclass(frozen=True, slots=True)
class CouponBook(BookTerms):
    """A stored coupon book: its terms, and the fields that describe it.

    The fields that describe a book may be long, so they are read only for the books that a response contains. `tiers`
    are the ids of the tiers in `tier_keys`, in the same order.
    """

    loyalty_program_id: int | None
    # A program's key never changes, so books can be returned and filtered by it without a join.
    loyalty_program_key: Key | None
    external_id: str | None
    description: str | None
    subtitle: str | None
    picture_url: str | None
    detail_picture_url: str | None
    images: Mapping[str, str]
    ranking_index: Decimal | None
    locations: list[str]
    categories: list[str]
    product_categories: list[str]
    payment_methods: list[str]
    channels: list[str]
    content_schema_id: int | None
    content_schema_version_id: int | None
    custom_attributes: Mapping[str, Any]
    tiers: list[int]
    extra_fields: Mapping[str, Any]
    locale: str | None
    content: Mapping[str, Any] | None
    is_default_locale: bool | None
    default_locale: str | None
    external_key: str | None
    created_at: datetime
    updated_at: datetime


class UnknownCouponBook(NotFound, title="The coupon book does not exist"):
    """The organization does not have the coupon book that a request names."""


class BookArchived(Conflict, slug="coupon-book-archived", title="The coupon book is archived"):
    """An archived coupon book cannot be changed, assigned or used."""


class CouponBookLimit(Conflict, title="The organization has reached a limit of coupon books"):
    """Another coupon book, or a larger one, would exceed a maximum of the organization."""


def stock_left(book: BookTerms, unassigned: int | None = None) -> Decimal | None:
    """The amount of the book that can still be assigned; None if unlimited.

    Each code of a `list` book goes to one member; `unassigned` is the number of its free codes. In other books
    `maxCouponCount` limits the total, and in a `single` book also `maxAssignedPerCoupon`. A `single` book that has no
    code yet has nothing to assign.
    """
    if book.type == LIST:
        return Decimal(unassigned or 0)
    if book.type == SINGLE and not book.coupon_count:
        return Decimal(0)
    limits = [book.max_coupon_count]
    if book.type == SINGLE:
        limits.append(book.max_assigned_per_coupon)
    lowest = min((limit for limit in limits if limit is not None), default=None)
    return None if lowest is None else lowest - book.total_assigned


@dataclass(frozen=True, slots=True)
class Coupon:
    """A code of a book; the one coupon of a codeless book has no code.

    `position` numbers the coupons of a book in the order in which they were added, from 1, without a gap.
    """

    organization_id: int
    coupon_id: int
    coupon_book_id: int
    position: Internal[int]
    code: str | None
    total_assigned: Decimal
    total_usages: Decimal
    custom_attributes: Personal[Mapping[str, Any]]
    expired_at: datetime | None
    # Until then an unassigned code is reserved for the member who has locked it.
    locked_until: Internal[datetime | None]
    created_at: datetime
    updated_at: datetime

    def is_locked(self, at: datetime) -> bool:
        """True if the code is reserved for a member."""
        return self.locked_until is not None and at < self.locked_until

    def is_free(self, at: datetime) -> bool:
        """True if the code of a list is neither assigned nor used nor locked."""
        return self.total_assigned == 0 and self.total_usages == 0 and not self.is_locked(at)


def free_codes_of(book: BookTerms, free_codes: Iterable[Coupon]) -> list[Coupon]:
    """The codes of the book, among these free ones, in the order of their positions."""
    codes = [coupon for coupon in free_codes if coupon.coupon_book_id == book.coupon_book_id]
    return sorted(codes, key=lambda coupon: coupon.position)


class UnknownCoupon(NotFound, title="The coupon does not exist"):
    """The coupon book does not hold the code that a request names."""


class CodeTaken(Conflict, slug="coupon-code-taken", title="The coupon book already has the code"):
    """The book already has this code, or one request names it twice."""


def code_taken(code: str) -> CodeTaken:
    """The refusal of a code that the book has."""
    return CodeTaken(f"The coupon book already has the code {code}.")


class CodesNotAccepted(Conflict, slug="coupon-codes-not-accepted", title="The coupon book does not take these codes"):
    """Only books of the type `list` accept codes, and a book of the type `single` accepts its first one."""


def refuse_codes(book: BookTerms, codes: Sequence[str]) -> None:
    """Refuse codes that the locked book does not accept; raises CodesNotAccepted, or CodeTaken for a repeated one."""
    if book.type not in (SINGLE, LIST):
        raise CodesNotAccepted(f"A book of the type {book.type} takes no codes.")
    if book.type == SINGLE and book.coupon_count + len(codes) > 1:
        raise CodesNotAccepted("A book of the type single has only one code; it already has one, or several were sent.")
    if len(set(codes)) < len(codes):
        repeated_code = next(code for code, count in Counter(codes).items() if count > 1)
        raise CodeTaken(f"The code {repeated_code} is named twice.")


# Capital letters and digits that do not look alike (0 O, 1 I L, 2 Z, 5 S, 8 B, U V).
CLEAR_CHARACTERS = "34679ACDEFGHJKMNPQRTWXY"
MIN_BITS = 40
_DEFAULT_LENGTH = 18
_MAX_CODE_LENGTH = 255


class RandomSource(Protocol):
    """A source of random values that cannot be predicted, such as `secrets.SystemRandom()`."""

    def choices(self, population: str, *, k: int) -> list[str]:
        """`k` random characters of `population`, each with the same probability."""


@dataclass(frozen=True, slots=True)
class CodePattern:
    """The pattern of a book's codes; the default one has 18 characters of 23, which is 81 bits."""

    length: int = _DEFAULT_LENGTH
    alphabet: str = CLEAR_CHARACTERS
    prefix: str = ""
    suffix: str = ""

    @property
    def bits(self) -> float:
        """The entropy of a code: the binary logarithm of the number of possible codes."""
        return self.length * math.log2(len(self.alphabet))

    def as_document(self) -> dict[str, Any]:
        """The pattern as stored and returned."""
        return {name: getattr(self, name) for name in self.__slots__}

    def draw(self, source: RandomSource) -> str:
        """A random code; the caller that stores it ensures that it is new in its book."""
        return self.prefix + "".join(source.choices(self.alphabet, k=self.length)) + self.suffix


def pattern_of(document: Mapping[str, Any] | None) -> CodePattern:
    """The pattern of a book; None means the default one."""
    return CodePattern(**(document or {}))


def check_pattern(document: Mapping[str, Any], pointer: str = "/codePattern") -> CodePattern:
    """Check a pattern, and fill in its defaults; raises InvalidRequest if codes would be easy to guess or too long."""
    pattern = pattern_of(document)
    faults = []
    if len(set(pattern.alphabet)) < len(pattern.alphabet):
        faults.append(FieldFault("alphabet has the same character twice", pointer=f"{pointer}/alphabet"))
    elif pattern.bits < MIN_BITS:
        bits = f"{pattern.bits:.1f} bits, which are easy to guess"
        detail = f"length and alphabet make codes of {bits}; {MIN_BITS} are needed"
        faults.append(FieldFault(detail, pointer=f"{pointer}/length"))
    if len(pattern.prefix) + pattern.length + len(pattern.suffix) > _MAX_CODE_LENGTH:
        faults.append(FieldFault(f"codePattern makes codes longer than {_MAX_CODE_LENGTH} characters", pointer=pointer))
    if faults:
        raise InvalidRequest(faults)
    return pattern
