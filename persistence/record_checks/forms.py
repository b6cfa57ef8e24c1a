"""The forms of checks that several subjects share: stored sums against their changes, and chains of totals."""

OF_ORGANIZATION = "{0}.organization_id = :organization_id"
"""The SQL condition that a row is of the checked organization; `{0}` is the alias of its table."""

# A limit may be lowered below what was given before. Only a record that is later than the last change of a rule by more
# than this time proves that the rule was broken: clocks differ, and a call follows the rules that it read first.
MARGIN = "interval '1 hour'"


def wrong_sums(
    stored_rows: str,
    changes: str,
    keys: tuple[str, ...],
    figures: tuple[str, ...],
    subject: str,
    texts: tuple[str, str],
) -> str:
    """SQL that finds where `figures` of `stored_rows` are not the sums of `figures` of `changes` with the same `keys`.

    Its rows have the organization and a text about the violation. `subject` is the beginning of the text, with a `%s`
    for each key. The first of the `texts` has a `%s` for each stored figure, the second has one for each sum.
    """
    by = ", ".join(("organization_id", *keys))
    sums = ", ".join(f"sum({figure}) AS {figure}" for figure in figures)
    arguments = ", ".join(
        f"trim_scale(coalesce({side}.{figure}, 0))" for side in ("stored", "added") for figure in figures
    )
    differ = " OR ".join(f"coalesce(stored.{figure}, 0) <> coalesce(added.{figure}, 0)" for figure in figures)
    return f"""
SELECT organization_id, format('{subject}: {texts[0]}, {texts[1]}', {", ".join(keys)}, {arguments})
FROM ({stored_rows}) stored
FULL JOIN (SELECT {by}, {sums} FROM ({changes}) changes GROUP BY {by}) added USING ({by})
WHERE {differ}
"""


def unchained_totals(stored_rows: str, changes: str, keys: tuple[str, ...], subject: str) -> str:
    """SQL that finds where changes do not lead step by step from zero to the `total` of their row in `stored_rows`.

    A row of `changes` has the keys, the `change` and the `total` after it. The total after each change must be the
    total before the next change. The check does not depend on the order of the changes: it only compares how often a
    number is the total after a change with how often it is the total before a change.
    """
    by = ", ".join(("organization_id", *keys))
    return f"""
WITH changes AS MATERIALIZED ({changes})
SELECT organization_id, format('{subject}: the totals of its changes form no chain, see %s', {", ".join(keys)},
    trim_scale(CAST(min(value) AS numeric)))
FROM (
    SELECT {by}, value FROM (
        SELECT {by}, total AS value, 1 AS times FROM changes
        UNION ALL SELECT {by}, total - change, -1 FROM changes
        UNION ALL SELECT {by}, 0, 1 FROM ({stored_rows}) beginning
        UNION ALL SELECT {by}, total, -1 FROM ({stored_rows}) ending
    ) steps
    GROUP BY {by}, value HAVING sum(times) <> 0
) odd GROUP BY {by}
"""
