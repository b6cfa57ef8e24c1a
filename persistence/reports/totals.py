"""Moves changes into the totals, a limited number in each database transaction."""

from sqlalchemy import Connection, text

from domain.reports import DAY, MONTH, QUARTER, QUARTER_HOUR, YEAR
from persistence import organizations

CHANGES_AT_ONCE = 20_000

# The key of an advisory lock, which nothing else in the database uses. Only one worker moves changes at a time, so that
# workers do not wait for each other's rows.
_LOCK = 0x6C6F79616C7402


def bucket_of(level: int, at: str = "at") -> str:
    """The SQL of the beginning of the bucket of this level that contains the moment `at`, which is SQL, too."""
    if level == QUARTER_HOUR:
        return f"date_bin(interval '15 minutes', {at}, timestamptz '0001-01-01 00:00:00+00')"
    name = {DAY: "day", MONTH: "month", QUARTER: "quarter", YEAR: "year"}[level]
    return f"date_trunc('{name}', {at}, 'UTC')"


def buckets_of(levels: tuple[int, ...], at: str = "at") -> str:
    """The SQL of a table `l`, whose rows are the levels, each with its `bucket` that contains the moment `at`."""
    rows = ", ".join(f"({level}, {bucket_of(level, at)})" for level in levels)
    return f"LATERAL (VALUES {rows}) AS l(level, bucket)"


# The SQL of an array of a label and all distinct tags. Most changes have no tags: the CASE saves their subquery.
LABELS = "CASE WHEN {1} IS NULL THEN ARRAY[{0}] ELSE ARRAY(SELECT {0} UNION SELECT unnest({1})) END"

_LEVELS, _WALLET_LEVELS = (QUARTER_HOUR, DAY, MONTH), (QUARTER_HOUR, MONTH, QUARTER, YEAR)


def totals_of(source: str, levels: tuple[int, ...] = _LEVELS) -> str:
    """The SQL of what the changes in a table or query add to the totals of these levels.

    Coupons count for their book, and for all books together. Missions have no time, so their only level is the month.
    """
    return f"""
SELECT c.organization_id, c.kind, l.level, tag.label, l.bucket, c.subject, sum(c.a) AS a, sum(c.b) AS b,
    sum(c.c) AS c, sum(c.d) AS d
FROM (
    SELECT organization_id, kind, at, subject, label, tags, a, b, c, d FROM {source} WHERE kind <> 'coupons'
    UNION ALL
    SELECT organization_id, 'coupons', at, 0, label, tags, a, b, c, d FROM {source} WHERE kind = 'coupons'
    UNION ALL
    SELECT organization_id, 'coupon-books', at, subject, label, tags, a, b, c, d FROM {source} WHERE kind = 'coupons'
) c
CROSS JOIN {buckets_of(tuple(sorted({*levels, MONTH})), "c.at")}
CROSS JOIN LATERAL unnest({LABELS.format("c.label", "c.tags")}) AS tag(label)
WHERE CASE WHEN c.kind = 'missions' THEN l.level = {MONTH} ELSE l.level IN ({", ".join(map(str, levels))}) END
GROUP BY 1, 2, 3, 4, 5, 6
"""


def wallet_totals_of(source: str, levels: tuple[int, ...] = _WALLET_LEVELS) -> str:
    """The SQL of what the changes in a table or query add to the totals of wallets of these levels."""
    return f"""
SELECT c.organization_id, l.level, tag.label, l.bucket, c.wallet_id, c.subject AS ledger_account_id, sum(c.a) AS minted,
    CAST(sum(c.b) AS bigint) AS mints
FROM {source} c
CROSS JOIN {buckets_of(levels, "c.at")}
CROSS JOIN LATERAL unnest({LABELS.format("c.label", "c.tags")}) AS tag(label)
WHERE c.kind = 'mints'
GROUP BY 1, 2, 3, 4, 5, 6
"""


_MOVE = f"""
WITH taken AS MATERIALIZED (
    DELETE FROM report_changes
    WHERE organization_id = :organization_id AND report_change_id = ANY(ARRAY(
        SELECT report_change_id FROM report_changes WHERE organization_id = :organization_id LIMIT :limit
    ))
    RETURNING *
), totals AS (
    INSERT INTO report_totals AS t (organization_id, kind, level, label, bucket, subject, a, b, c, d)
    {totals_of("taken")}
    ON CONFLICT (organization_id, kind, level, label, bucket, subject)
        DO UPDATE SET a = t.a + excluded.a, b = t.b + excluded.b, c = t.c + excluded.c, d = t.d + excluded.d
), wallet_totals AS (
    INSERT INTO report_wallet_totals AS t
        (organization_id, level, label, bucket, wallet_id, ledger_account_id, minted, mints)
    {wallet_totals_of("taken")}
    ON CONFLICT (organization_id, level, label, bucket, wallet_id, ledger_account_id)
        DO UPDATE SET minted = t.minted + excluded.minted, mints = t.mints + excluded.mints
)
SELECT count(*) FROM taken
"""


def move_changes(db: Connection, limit: int = CHANGES_AT_ONCE) -> int:
    """Move changes into the totals, up to `limit`; return their number, which is 0 if another worker moves changes."""
    if not db.execute(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK}).scalar_one():
        return 0
    count = 0
    for organization_id in organizations.find_ids_with_rows(db, "report_changes"):
        parameters = {"organization_id": organization_id, "limit": limit - count}
        count += db.execute(text(_MOVE), parameters).scalar_one()
        if count >= limit:
            break
    return count
