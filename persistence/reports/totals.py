"""Moves changes of an organization into the totals, a limited number in each database transaction."""

from sqlalchemy import Connection, text

from domain.reports import DAY, MONTH, QUARTER, QUARTER_HOUR, YEAR
from persistence import organizations

# The labels of a change are its label and its tags. Each costs up to seven rows of totals, one for each level. So a
# transaction writes at most 14,000 rows, a small part of what the statement timeout allows.
LABELS_AT_ONCE = 2_000

# Only one worker at a time moves the changes of an organization, so that workers do not wait for each other's rows.
_CLAIM = "SELECT pg_try_advisory_xact_lock(hashtextextended('report totals', :organization_id))"


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


# Every change has a label, so one more change than `limit` shows whether there are more.
_MOVE = f"""
WITH waiting AS MATERIALIZED (
    SELECT report_change_id, labels, sum(labels) OVER (ORDER BY report_change_id) AS labels_so_far
    FROM (
        SELECT report_change_id, 1 + coalesce(cardinality(tags), 0) AS labels FROM report_changes
        WHERE organization_id = :organization_id ORDER BY report_change_id LIMIT :limit + 1
    ) c
), taken AS MATERIALIZED (
    DELETE FROM report_changes
    WHERE organization_id = :organization_id AND report_change_id = ANY(ARRAY(
        SELECT report_change_id FROM waiting WHERE labels_so_far <= greatest(:limit, labels)
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
SELECT (SELECT count(*) FROM waiting) > (SELECT count(*) FROM taken)
"""


def find_waiting_organizations(db: Connection) -> list[int]:
    """The ids of the organizations with changes that are not in the totals, in random order."""
    return organizations.find_ids_with_rows(db, "report_changes")


def move_changes(db: Connection, organization_id: int, limit: int = LABELS_AT_ONCE) -> bool:
    """Move the oldest changes of an organization into the totals; False if it has no more, or if a worker moves them.

    The changes that are moved have at most `limit` labels together; a change with more labels is moved individually.
    """
    parameters = {"organization_id": organization_id, "limit": limit}
    if not db.execute(text(_CLAIM), parameters).scalar_one():
        return False
    has_more: bool = db.execute(text(_MOVE), parameters).scalar_one()
    return has_more
