"""Checks of coupons: books, coupons, members' coupons and lots against the usages, and the stock against its limits."""

from persistence.record_checks.forms import MARGIN, OF_ORGANIZATION, unchained_totals, wrong_sums


def _differing_from_usages(
    table: str, keys: tuple[str, ...], assigned_column: str, used_column: str, subject: str
) -> str:
    """SQL that finds rows of a table whose amounts are not the sums of the usages with the same keys."""
    by = ", ".join(("organization_id", *keys))
    return wrong_sums(
        f"SELECT {by}, {assigned_column} AS assigned, {used_column} AS used FROM {table} k"
        f" WHERE {OF_ORGANIZATION.format('k')}",
        f"SELECT {by}, amount_assigned AS assigned, amount_used AS used FROM coupon_usages u"
        f" WHERE {OF_ORGANIZATION.format('u')} AND {keys[-1]} IS NOT NULL",
        keys,
        ("assigned", "used"),
        subject,
        ("counts %s assigned and %s used", "its usages add up to %s and %s"),
    )


def _unchained_usages(column: str, total_column: str, word: str) -> str:
    """SQL that finds coupons of members whose usages do not lead, step by step, from 0 to the stored amount.

    `column` has the amount in `member_coupons`, and its change in `coupon_usages`. `total_column` has the amount after
    a usage. `word` is the name of the amount in the fault.
    """
    return unchained_totals(
        f"SELECT organization_id, member_id, coupon_id, {column} AS total FROM member_coupons h"
        f" WHERE {OF_ORGANIZATION.format('h')}",
        f"SELECT organization_id, member_id, coupon_id, {column} AS change, {total_column} AS total"
        f" FROM coupon_usages u WHERE {OF_ORGANIZATION.format('u')}",
        ("member_id", "coupon_id"),
        f"member %s, {word} of coupon %s",
    )


_WRONG_COUNT = f"""
SELECT b.organization_id, format('coupon book %s: counts %s codes up to position %s, it has %s up to %s',
    b.coupon_book_id, b.coupon_count, b.coupon_count, coalesce(c.number, 0), coalesce(c.last, 0))
FROM coupon_books b LEFT JOIN (
    SELECT c.organization_id, c.coupon_book_id, count(*) AS number, max(c.position) AS last
    FROM coupons c WHERE {OF_ORGANIZATION.format("c")} GROUP BY c.organization_id, c.coupon_book_id
) c USING (organization_id, coupon_book_id)
WHERE {OF_ORGANIZATION.format("b")}
    AND (b.coupon_count <> coalesce(c.number, 0) OR b.coupon_count <> coalesce(c.last, 0))
"""

_WRONG_PLACE = f"""
SELECT u.organization_id, format('coupon usage %s: is of book %s, its coupon %s of book %s', u.coupon_usage_id,
    u.coupon_book_id, u.coupon_id, c.coupon_book_id)
FROM coupon_usages u JOIN coupons c USING (organization_id, coupon_id)
WHERE {OF_ORGANIZATION.format("u")} AND u.coupon_book_id <> c.coupon_book_id
UNION ALL
SELECT h.organization_id, format('member %s, coupon %s: is counted for book %s, and is of book %s', h.member_id,
    h.coupon_id, h.coupon_book_id, c.coupon_book_id)
FROM member_coupons h JOIN coupons c USING (organization_id, coupon_id)
WHERE {OF_ORGANIZATION.format("h")} AND h.coupon_book_id <> c.coupon_book_id
UNION ALL
SELECT l.organization_id, format('coupon lot %s: is of member %s and coupon %s, its assignment of %s and %s',
    l.coupon_lot_id, l.member_id, l.coupon_id, u.member_id, u.coupon_id)
FROM coupon_lots l JOIN coupon_usages u ON u.organization_id = l.organization_id
    AND u.coupon_usage_id = l.coupon_lot_id
WHERE {OF_ORGANIZATION.format("l")} AND (l.member_id <> u.member_id OR l.coupon_id <> u.coupon_id
    OR l.coupon_book_id <> u.coupon_book_id)
"""

# If an assignment is reversed while it is used, its whole remaining amount is owed.
_WRONG_LOT = f"""
SELECT l.organization_id, format('coupon lot %s: is of %s, of which %s are used and %s owed', l.coupon_lot_id,
    trim_scale(l.amount), trim_scale(l.amount_used), trim_scale(l.amount_owed))
FROM coupon_lots l
WHERE {OF_ORGANIZATION.format("l")} AND (least(l.amount, l.amount_used) < 0 OR l.amount_owed NOT IN (0, l.amount))
"""

# The remaining value needs exactly the value coupons that are unused, unless the assignment was reversed.
_WRONG_VALUE = f"""
SELECT l.organization_id, format('coupon lot %s: a value of %s is left of %s coupons of %s, of which %s are used',
    l.coupon_lot_id, trim_scale(l.remaining_value), trim_scale(l.amount), trim_scale(l.value),
    trim_scale(l.amount_used))
FROM coupon_lots l
WHERE {OF_ORGANIZATION.format("l")} AND l.value IS NOT NULL AND (l.remaining_value IS NULL OR l.remaining_value < 0
    OR l.amount >= l.amount_used AND l.amount - l.amount_used <> ceil(l.remaining_value / l.value))
"""

# The revert of a use also takes what the reversed assignment owes; then it is the reversal of both.
_WRONG_REVERTS = f"""
SELECT u.organization_id, format('coupon usage %s: reverts %s, which has no link to it', u.coupon_usage_id,
    u.reverted_usage_id)
FROM coupon_usages u LEFT JOIN coupon_usages original ON original.organization_id = u.organization_id
    AND original.coupon_usage_id = u.reverted_usage_id
WHERE {OF_ORGANIZATION.format("u")} AND u.reverted_usage_id IS NOT NULL
    AND original.reversal_usage_id IS DISTINCT FROM u.coupon_usage_id
UNION ALL
SELECT u.organization_id, format('coupon usage %s: is reverted by %s, which has no link to it', u.coupon_usage_id,
    u.reversal_usage_id)
FROM coupon_usages u LEFT JOIN coupon_usages reversal ON reversal.organization_id = u.organization_id
    AND reversal.coupon_usage_id = u.reversal_usage_id
WHERE {OF_ORGANIZATION.format("u")} AND u.reversal_usage_id IS NOT NULL AND (reversal.reverted_usage_id IS NULL
    OR u.amount_assigned = 0 AND u.reverted_usage_id IS NULL AND reversal.reverted_usage_id <> u.coupon_usage_id)
UNION ALL
SELECT u.organization_id, format('coupon usage %s: moves %s assigned and %s used, it reverts %s and %s',
    u.coupon_usage_id, trim_scale(u.amount_assigned), trim_scale(u.amount_used),
    trim_scale(original.amount_assigned), trim_scale(original.amount_used))
FROM coupon_usages u JOIN coupon_usages original ON original.organization_id = u.organization_id
    AND original.coupon_usage_id = u.reverted_usage_id
WHERE {OF_ORGANIZATION.format("u")} AND (u.member_id <> original.member_id OR u.coupon_id <> original.coupon_id
    OR u.amount_used <> -original.amount_used AND u.remaining_value IS NULL OR u.amount_assigned > 0
    OR original.amount_assigned > 0 AND -u.amount_assigned > original.amount_assigned)
"""

_ASSIGNED = f"SELECT * FROM coupon_usages u WHERE {OF_ORGANIZATION.format('u')} AND u.amount_assigned > 0"

_OVER_LIMIT = f"""
SELECT b.organization_id, format('coupon book %s: has %s assigned of at most %s', b.coupon_book_id,
    trim_scale(b.total_assigned), least(b.max_coupon_count, single.most))
FROM coupon_books b
CROSS JOIN LATERAL (VALUES (CASE b.type WHEN 'single' THEN b.max_assigned_per_coupon END)) AS single(most)
JOIN (
    SELECT u.organization_id, u.coupon_book_id, max(u.created_at) AS last_at FROM ({_ASSIGNED}) u
    GROUP BY u.organization_id, u.coupon_book_id
) u USING (organization_id, coupon_book_id)
WHERE {OF_ORGANIZATION.format("b")} AND b.type <> 'list' AND b.total_assigned > least(b.max_coupon_count, single.most)
    AND u.last_at > b.updated_at + {MARGIN}
UNION ALL
SELECT b.organization_id, format('coupon book %s: member %s has %s of at most %s', b.coupon_book_id, h.member_id,
    trim_scale(h.assigned), b.max_assigned_per_member)
FROM coupon_books b JOIN (
    SELECT h.organization_id, h.coupon_book_id, h.member_id, sum(h.amount_assigned) AS assigned
    FROM member_coupons h WHERE {OF_ORGANIZATION.format("h")} GROUP BY h.organization_id, h.coupon_book_id, h.member_id
) h USING (organization_id, coupon_book_id)
JOIN (
    SELECT u.organization_id, u.coupon_book_id, u.member_id, max(u.created_at) AS last_at FROM ({_ASSIGNED}) u
    GROUP BY u.organization_id, u.coupon_book_id, u.member_id
) u ON u.organization_id = h.organization_id AND u.coupon_book_id = h.coupon_book_id AND u.member_id = h.member_id
WHERE {OF_ORGANIZATION.format("b")} AND h.assigned > b.max_assigned_per_member AND u.last_at > b.updated_at + {MARGIN}
UNION ALL
SELECT b.organization_id, format('coupon %s of book %s: has %s assigned of at most %s', c.coupon_id,
    b.coupon_book_id, trim_scale(c.total_assigned), b.max_assigned_per_coupon)
FROM coupon_books b JOIN coupons c USING (organization_id, coupon_book_id)
JOIN (
    SELECT u.organization_id, u.coupon_id, max(u.created_at) AS last_at FROM ({_ASSIGNED}) u
    GROUP BY u.organization_id, u.coupon_id
) u ON u.organization_id = c.organization_id AND u.coupon_id = c.coupon_id
WHERE {OF_ORGANIZATION.format("b")} AND c.code IS NOT NULL AND c.total_assigned > b.max_assigned_per_coupon
    AND u.last_at > b.updated_at + {MARGIN}
"""

# Each code of these books belongs to one member.
_SHARED_CODE = f"""
SELECT h.organization_id, format('coupon %s of book %s: is held by %s members, the first of them %s', h.coupon_id,
    h.coupon_book_id, count(*), min(h.member_id))
FROM member_coupons h JOIN coupon_books b USING (organization_id, coupon_book_id)
WHERE {OF_ORGANIZATION.format("h")}
    AND b.type IN ('list', 'generated') AND (h.amount_assigned <> 0 OR h.amount_used <> 0)
GROUP BY h.organization_id, h.coupon_book_id, h.coupon_id HAVING count(*) > 1
"""

CHECKS = (
    _differing_from_usages(
        "member_coupons", ("member_id", "coupon_id"), "amount_assigned", "amount_used", "member %s, coupon %s"
    ),
    _differing_from_usages("coupons", ("coupon_id",), "total_assigned", "total_usages", "coupon %s"),
    _differing_from_usages("coupon_books", ("coupon_book_id",), "total_assigned", "total_usages", "coupon book %s"),
    _differing_from_usages("coupon_lots", ("coupon_lot_id",), "amount", "amount_used", "coupon lot %s"),
    _unchained_usages("amount_assigned", "updated_total_assigned", "assignments"),
    _unchained_usages("amount_used", "updated_total_usages", "uses"),
    _WRONG_COUNT,
    _WRONG_PLACE,
    _WRONG_LOT,
    _WRONG_VALUE,
    _WRONG_REVERTS,
    _OVER_LIMIT,
    _SHARED_CODE,
)
