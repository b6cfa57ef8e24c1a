"""Checks of report figures against a count of all records, as queries: each finds and describes differences.

Each is one statement, so that it sees one state of records, changes and totals even while others write.
"""

from domain.reports import DAY, MONTH, QUARTER, QUARTER_HOUR, YEAR
from persistence.record_checks.forms import OF_ORGANIZATION
from persistence.reports.records import MINTS, RECORDS
from persistence.reports.totals import buckets_of, totals_of, wallet_totals_of

_RECORDED = "\nUNION ALL\n".join(
    f"SELECT organization_id, '{kind}' AS kind, at, subject, label, CAST(NULL AS text[]) AS tags, wallet_id, a, b, c, d"
    f" FROM ({query}) r WHERE {OF_ORGANIZATION.format('r')}"
    for kind, query in RECORDS.items()
)
_MINTED = (
    "SELECT organization_id, 'mints' AS kind, at, subject, label, CAST(NULL AS text[]) AS tags, wallet_id, a, b"
    f" FROM ({RECORDS[MINTS]}) r WHERE {OF_ORGANIZATION.format('r')}"
)
_CHANGES = f"SELECT * FROM report_changes r WHERE {OF_ORGANIZATION.format('r')}"


def _nonzero_sums_query(keys: str, figures: tuple[str, ...], words: str, summands: str) -> str:
    """A query that finds the keys for which the sums of figures in `summands` are not zero.

    `summands` is the SQL of rows with the keys and the figures. `words` is the beginning of the text about a violation,
    with a `%s` for each key.
    """
    sums = ", ".join(f"sum({figure}) AS {figure}" for figure in figures)
    differs = " OR ".join(f"sum({figure}) <> 0" for figure in figures)
    figure_texts = ", ".join(f"trim_scale({figure})" for figure in figures)
    return f"""
SELECT organization_id, format('{words} by %s', {keys}, concat_ws(', ', {figure_texts}))
FROM (
    SELECT organization_id, {keys}, {sums} FROM ({summands}) summands
    GROUP BY organization_id, {keys} HAVING {differs}
) wrong
"""


def _differences(
    table: str,
    keys: str,
    figures: tuple[str, ...],
    words: str,
    of_changes: str,
    of_records: str,
    recorded: str,
    condition: str,
) -> str:
    """A query that finds the totals of a table that differ from a count of the records.

    It compares the totals of the shortest buckets, plus the changes that are not added to the totals yet. `condition`
    selects the totals that are compared. `recorded` is the SQL of all records in the form of changes. `of_records` is
    the SQL of the totals of a table `recorded`, `of_changes` that of a table `changes`, which has the changes that are
    not added yet. `words` is the beginning of the text about a difference, with a `%s` for each key.
    """
    negated = ", ".join(f"-{figure}" for figure in figures)
    columns = ", ".join(figures)
    summands = f"""
        SELECT organization_id, {keys}, {columns} FROM {table} k WHERE {OF_ORGANIZATION.format("k")} AND {condition}
        UNION ALL SELECT organization_id, {keys}, {columns} FROM ({of_changes}) c
        UNION ALL SELECT organization_id, {keys}, {negated} FROM ({of_records}) r
    """
    wrong = _nonzero_sums_query(keys, figures, f"{words}: differs from its records", summands)
    return f"WITH recorded AS MATERIALIZED ({recorded}), changes AS MATERIALIZED ({_CHANGES}) {wrong}"


def _differing_from_parts(
    table: str, keys: tuple[str, ...], figures: tuple[str, ...], words: str, levels: tuple[int, ...], condition: str
) -> str:
    """A query that finds the totals of longer buckets that differ from the sum of the shortest buckets in them.

    Changes that are not added yet are in neither of the two.
    """
    columns, key_columns = ", ".join(figures), ", ".join(keys)
    parts = ", ".join(f"-sum(k.{figure})" for figure in figures)
    of_parts = ", ".join(f"k.{key}" for key in keys)
    summands = f"""
        SELECT organization_id, level, bucket, {key_columns}, {columns} FROM {table} k
        WHERE {OF_ORGANIZATION.format("k")} AND level <> {QUARTER_HOUR} AND {condition}
        UNION ALL SELECT k.organization_id, l.level, l.bucket, {of_parts}, {parts} FROM {table} k
        CROSS JOIN {buckets_of(levels, "k.bucket")}
        WHERE {OF_ORGANIZATION.format("k")} AND k.level = {QUARTER_HOUR} AND {condition}
        GROUP BY 1, 2, 3, {of_parts}
    """
    return _nonzero_sums_query(f"level, bucket, {key_columns}", figures, f"{words}: differs from its parts", summands)


_FIGURES, _WALLET_FIGURES = ("a", "b", "c", "d"), ("minted", "mints")
_QUARTER_HOURS = (QUARTER_HOUR,)

CHECKS: tuple[str, ...] = (
    _differences(
        "report_totals",
        "kind, level, label, bucket, subject",
        _FIGURES,
        "report of %s, level %s, label %s, from %s, subject %s",
        totals_of("changes", _QUARTER_HOURS),
        totals_of("recorded", _QUARTER_HOURS),
        _RECORDED,
        f"(level = {QUARTER_HOUR} OR kind = 'missions')",
    ),
    _differences(
        "report_wallet_totals",
        "level, label, bucket, wallet_id, ledger_account_id",
        _WALLET_FIGURES,
        "report of mints, level %s, label %s, from %s, wallet %s, account %s",
        wallet_totals_of("changes", _QUARTER_HOURS),
        wallet_totals_of("recorded", _QUARTER_HOURS),
        _MINTED,
        f"level = {QUARTER_HOUR}",
    ),
    _differing_from_parts(
        "report_totals",
        ("kind", "label", "subject"),
        _FIGURES,
        "report at level %s, from %s, of %s, label %s, subject %s",
        (DAY, MONTH),
        "kind <> 'missions'",
    ),
    _differing_from_parts(
        "report_wallet_totals",
        ("label", "wallet_id", "ledger_account_id"),
        _WALLET_FIGURES,
        "report of mints at level %s, from %s, label %s, wallet %s, account %s",
        (MONTH, QUARTER, YEAR),
        "true",
    ),
)
