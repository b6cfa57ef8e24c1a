"""Checks of report figures against a count of all records, as queries: each finds and describes differences.

Each is one statement, so that it sees one state of records, changes and totals even while others write.
"""

from __future__ import annotations

from persistence.reports.records import MINTS, RECORDS
from persistence.reports.totals import EXPANDED, EXPANDED_WALLETS

# Null stands for all organizations.
_OF = "(CAST(:organization_id AS bigint) IS NULL OR {0}.organization_id = :organization_id)"

_RECORDED = "\nUNION ALL\n".join(
    f"SELECT organization_id, '{kind}' AS kind, at, subject, label, CAST(NULL AS text[]) AS tags, wallet_id, a, b, c, d"
    f" FROM ({query}) r WHERE {_OF.format('r')}"
    for kind, query in RECORDS.items()
)
_MINTED = (
    "SELECT organization_id, 'mints' AS kind, at, subject, label, CAST(NULL AS text[]) AS tags, wallet_id, a, b"
    f" FROM ({RECORDS[MINTS]}) r WHERE {_OF.format('r')}"
)
_CHANGES = f"SELECT * FROM report_changes r WHERE {_OF.format('r')}"


def _differences(keys: str, figures: tuple[str, ...], words: str, kept: str, expanded: str, recorded: str) -> str:
    sums = ", ".join(f"sum({figure}) AS {figure}" for figure in figures)
    negated = ", ".join(f"-{figure}" for figure in figures)
    columns = ", ".join(figures)
    differs = " OR ".join(f"sum({figure}) <> 0" for figure in figures)
    told = ", ".join(f"trim_scale({figure})" for figure in figures)
    return f"""
WITH recorded AS MATERIALIZED ({recorded}), changes AS MATERIALIZED ({_CHANGES})
SELECT organization_id, format('{words}: differs from its records by %s', {keys}, concat_ws(', ', {told}))
FROM (
    SELECT organization_id, {keys}, {sums} FROM (
        SELECT organization_id, {keys}, {columns} FROM {kept} k WHERE {_OF.format("k")}
        UNION ALL SELECT organization_id, {keys}, {columns} FROM ({expanded.format("changes")}) c
        UNION ALL SELECT organization_id, {keys}, {negated} FROM ({expanded.format("recorded")}) r
    ) figures
    GROUP BY organization_id, {keys} HAVING {differs}
) wrong
"""


CHECKS: tuple[str, ...] = (
    _differences(
        "kind, level, label, bucket, subject",
        ("a", "b", "c", "d"),
        "report of %s, level %s, label %s, from %s, subject %s",
        "report_totals",
        EXPANDED,
        _RECORDED,
    ),
    _differences(
        "level, label, bucket, wallet_id, ledger_account_id",
        ("minted", "mints"),
        "report of mints, level %s, label %s, from %s, wallet %s, account %s",
        "report_wallet_totals",
        EXPANDED_WALLETS,
        _MINTED,
    ),
)
