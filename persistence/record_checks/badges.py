"""Checks of badges: the members' balances against the trackings, each of which records one change."""

from persistence.record_checks.forms import MARGIN, OF_ORGANIZATION, unchained_totals, wrong_sums

_BALANCES = f"""
SELECT b.organization_id, b.member_id, b.badge_id, b.assigned_balance AS total
FROM member_badges b WHERE {OF_ORGANIZATION.format("b")}
"""
_CHANGES = f"""
SELECT t.organization_id, t.member_id, t.badge_id, t.amount_assigned AS change, t.updated_total_assigned AS total
FROM badge_trackings t WHERE {OF_ORGANIZATION.format("t")}
"""
_KEYS, _SUBJECT = ("member_id", "badge_id"), "member %s, badge %s"

_OUT_OF_RANGE = f"""
SELECT t.organization_id, format('badge tracking %s: leaves %s of badge %s, of which members hold 0 to %s',
    t.badge_tracking_id, t.updated_total_assigned, t.badge_id, b.max_amount)
FROM badge_trackings t JOIN badges b USING (organization_id, badge_id)
WHERE {OF_ORGANIZATION.format("t")} AND (t.updated_total_assigned < 0 OR t.amount_assigned > 0
    AND t.updated_total_assigned > b.max_amount AND t.created_at > b.updated_at + {MARGIN})
"""

_WRONG_REVERTS = f"""
SELECT t.organization_id, format('badge tracking %s: reverts %s, which has no link to it', t.badge_tracking_id,
    t.reverted_badge_tracking_id)
FROM badge_trackings t LEFT JOIN badge_trackings original ON original.organization_id = t.organization_id
    AND original.badge_tracking_id = t.reverted_badge_tracking_id
WHERE {OF_ORGANIZATION.format("t")} AND t.reverted_badge_tracking_id IS NOT NULL
    AND original.reversal_badge_tracking_id IS DISTINCT FROM t.badge_tracking_id
UNION ALL
SELECT t.organization_id, format('badge tracking %s: is reverted by %s, which has no link to it', t.badge_tracking_id,
    t.reversal_badge_tracking_id)
FROM badge_trackings t LEFT JOIN badge_trackings reversal ON reversal.organization_id = t.organization_id
    AND reversal.badge_tracking_id = t.reversal_badge_tracking_id
WHERE {OF_ORGANIZATION.format("t")} AND t.reversal_badge_tracking_id IS NOT NULL
    AND reversal.reverted_badge_tracking_id IS DISTINCT FROM t.badge_tracking_id
UNION ALL
SELECT t.organization_id, format('badge tracking %s: moves %s of badge %s of member %s, it reverts %s of %s of %s',
    t.badge_tracking_id, t.amount_assigned, t.badge_id, t.member_id, original.amount_assigned, original.badge_id,
    original.member_id)
FROM badge_trackings t JOIN badge_trackings original ON original.organization_id = t.organization_id
    AND original.badge_tracking_id = t.reverted_badge_tracking_id
WHERE {OF_ORGANIZATION.format("t")} AND (t.member_id <> original.member_id OR t.badge_id <> original.badge_id
    OR sign(t.amount_assigned) * sign(original.amount_assigned) > 0
    OR abs(t.amount_assigned) > abs(original.amount_assigned))
"""

CHECKS = (
    wrong_sums(
        _BALANCES,
        f"SELECT organization_id, member_id, badge_id, change AS total FROM ({_CHANGES}) c",
        _KEYS,
        ("total",),
        _SUBJECT,
        ("holds %s", "its trackings add up to %s"),
    ),
    unchained_totals(_BALANCES, _CHANGES, _KEYS, _SUBJECT),
    _OUT_OF_RANGE,
    _WRONG_REVERTS,
)
