"""Queries of figures: of totals, of changes that are not in the totals yet, and of records at the ends of a range.

Each report is one statement, so that it sees one state of the three. A change that moves into the totals meanwhile is
counted once.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from domain.reports import DAY, MONTH, QUARTER_HOUR, TOTALS, Cover, Day, Piece, Span, ceiling, cover, floor
from persistence import connections
from persistence.counts import RowCount
from persistence.reports.records import COUPONS, MINTS, RECORDS
from persistence.reports.totals import bucket_of
from persistence.rows import AnyRow

# The kind of the totals of each coupon book. The totals of all books together have the kind `COUPONS`.
COUPON_BOOKS = "coupon-books"

_ZERO = Decimal(0)

_COUNT_ALL = f"""
SELECT coalesce(sum(a), 0) FROM (
    SELECT a FROM report_totals
    WHERE organization_id = %(organization_id)s AND kind = %(kind)s AND level = {MONTH} AND label = ''
    UNION ALL
    SELECT a FROM report_changes WHERE organization_id = %(organization_id)s AND kind = %(kind)s
) x
"""


class Figures(NamedTuple):
    """The sums of a kind of record; `persistence.tables.reports` lists the meanings of a, b, c and d by kind."""

    a: Decimal = _ZERO
    b: Decimal = _ZERO
    c: Decimal = _ZERO
    d: Decimal = _ZERO


class FigureQuery:
    """Builds the parts of a statement about one kind of record, and binds the values of their placeholders.

    `label` is the type of events or a tag of mints; `subject` is a coupon book, an account or a mission, None for all.
    Totals of each coupon book have the kind `COUPON_BOOKS`; the records and changes from which they are made have the
    kind `COUPONS`. `record_kind` is the kind of the records and changes.
    """

    def __init__(self, organization_id: int, kind: str, label: str = "", subject: int | None = None) -> None:
        self.values: dict[str, Any] = {"organization_id": organization_id, "kind": kind, "label": label}
        self.record_kind = COUPONS if kind == COUPON_BOOKS else kind
        self.values["record_kind"] = self.record_kind
        self._label, self._subject = label, subject
        if subject is not None:
            self.values["subject"] = subject

    def execute(self, db: Connection, statement: str) -> Sequence[AnyRow]:
        """Execute a statement with the placeholders of this query; return its rows."""
        return db.execute(text(statement), self.values).all()

    def bind(self, value: Any) -> str:
        """Bind a value; return its placeholder for the statement."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def bind_moment(self, at: datetime) -> str:
        """Bind a moment as `bind` does; return its SQL expression."""
        return f"CAST({self.bind(at)} AS timestamptz)"

    def condition_on_subject(self, column: str = "subject") -> str:
        """The condition on the subject, as the end of a WHERE clause; empty if the figures are of all subjects."""
        return "" if self._subject is None else f" AND {column} = :subject"

    def select_totals(self, span: Span, columns: str) -> str:
        """The SELECT of the totals of a span."""
        return (
            f"SELECT {columns} FROM report_totals WHERE organization_id = :organization_id AND kind = :kind"
            f" AND level = {span.level} AND label = :label AND bucket >= {self.bind_moment(span.begin)}"
            f" AND bucket < {self.bind_moment(span.end)}{self.condition_on_subject()}"
        )

    def select_changes(self, begin: datetime, end: datetime, columns: str) -> str:
        """The SELECT of the changes in a range that are not in the totals yet."""
        label = " AND label = :label"
        # A mint has no label, but may have several tags; the empty label means all mints.
        if self.record_kind == MINTS:
            label = " AND :label = ANY(tags)" if self._label else ""
        return (
            f"SELECT {columns} FROM report_changes WHERE organization_id = :organization_id AND kind = :record_kind"
            f" AND at >= {self.bind_moment(begin)} AND at < {self.bind_moment(end)}{label}{self.condition_on_subject()}"
        )

    def select_records(self, pieces: Sequence[Piece], columns: str) -> str:
        """The SELECT of the records in pieces of time, which reads each piece by an index."""
        # OFFSET 0 keeps the planner from joining the pieces with all records.
        starts = self.bind([piece.begin for piece in pieces])
        ends = self.bind([piece.end for piece in pieces])
        return (
            f"SELECT {columns} FROM unnest(CAST({starts} AS timestamptz[]), CAST({ends} AS timestamptz[]))"
            f" AS piece(begin, until) CROSS JOIN LATERAL (SELECT * FROM ({RECORDS[self.record_kind]}) every_record"
            f" WHERE organization_id = :organization_id AND at >= piece.begin AND at < piece.until"
            f" AND label = :label{self.condition_on_subject()} OFFSET 0) AS records"
        )

    def condition_outside(self, pieces: Sequence[Piece]) -> str:
        """The condition that excludes the quarters of an hour of these pieces: their records are read instead."""
        if not pieces:
            return ""
        bucket_starts = self.bind([floor(piece.begin, QUARTER_HOUR) for piece in pieces])
        return f" AND {bucket_of(QUARTER_HOUR)} <> ALL(CAST({bucket_starts} AS timestamptz[]))"


def select_by_subject(query: FigureQuery, begin: datetime, end: datetime) -> str:
    """The SQL of the figures of a range by subject, with the columns subject, a, b, c and d."""
    coverage = cover(begin, end, TOTALS)
    columns = "subject, {0}a AS a, {0}b AS b, {0}c AS c, {0}d AS d"
    parts = [query.select_totals(span, columns.format("" if span.sign > 0 else "-")) for span in coverage.spans]
    parts += uncovered_parts(query, coverage, columns.format(""))
    union = " UNION ALL ".join(parts)
    return (
        f"SELECT subject, sum(a) AS a, sum(b) AS b, sum(c) AS c, sum(d) AS d FROM ({union}) AS figures GROUP BY subject"
    )


def find_sum(
    db: Connection,
    organization_id: int,
    kind: str,
    begin: datetime,
    end: datetime,
    *,
    label: str = "",
    subject: int | None = None,
) -> Figures:
    """The figures of one `kind` in a range, of one `subject` (a coupon book or a ledger account), or of all if None."""
    query = FigureQuery(organization_id, kind, label, subject)
    [row] = query.execute(
        db, f"SELECT sum(a), sum(b), sum(c), sum(d) FROM ({select_by_subject(query, begin, end)}) AS found"
    )
    return Figures(*(figure or _ZERO for figure in row))


def count_all(db: Connection, organization_id: int, kind: str) -> RowCount:
    """Count all records of a kind exactly, by the totals and changes."""
    [(count,)] = connections.fetch_rows(db, _COUNT_ALL, {"organization_id": organization_id, "kind": kind})
    return RowCount(int(count))


def find_series(
    db: Connection,
    organization_id: int,
    kind: str,
    days: Sequence[Day],
    *,
    label: str = "",
    subject: int | None = None,
) -> list[Figures]:
    """The figures of one `kind` on each of these consecutive days; zeros for a day without records."""
    if not days:
        return []
    begin, end = days[0].begin, days[-1].end
    bounds = [day.begin for day in days]
    pieces = _partial_quarters([*bounds, end], begin, end)
    # Days that begin at midnight in UTC have totals; other days are added up from quarters of an hour.
    are_days_in_utc = all(floor(bound, DAY) == bound for bound in [*bounds, end])
    level = DAY if are_days_in_utc else QUARTER_HOUR
    first, last = ceiling(begin, level), floor(end, level)
    query = FigureQuery(organization_id, kind, label, subject)
    columns = f"width_bucket({{0}}, CAST({query.bind(bounds)} AS timestamptz[])) AS day, a, b, c, d"
    parts = [query.select_changes(begin, end, columns.format("at")) + query.condition_outside(pieces)]
    if first is not None and first < last:
        without_pieces = ""
        if pieces:
            bucket_starts = query.bind([floor(piece.begin, QUARTER_HOUR) for piece in pieces])
            without_pieces = f" AND bucket <> ALL(CAST({bucket_starts} AS timestamptz[]))"
        parts.append(query.select_totals(Span(level, first, last), columns.format("bucket")) + without_pieces)
    if pieces:
        parts.append(query.select_records(pieces, columns.format("at")))
    union = " UNION ALL ".join(parts)
    rows = query.execute(db, f"SELECT day, sum(a), sum(b), sum(c), sum(d) FROM ({union}) figures GROUP BY day")
    by_number = {number: Figures(*figures) for number, *figures in rows}
    return [by_number.get(number, Figures()) for number in range(1, len(days) + 1)]


def uncovered_parts(query: FigureQuery, coverage: Cover, columns: str) -> list[str]:
    """The SELECTs of what the stored totals of a range do not cover.

    These are the changes that are not in the totals yet, and the records in the pieces at the ends of the range.
    """
    parts = [query.select_changes(coverage.begin, coverage.end, columns) + query.condition_outside(coverage.pieces)]
    if coverage.pieces:
        parts.append(query.select_records(coverage.pieces, columns))
    return parts


def _partial_quarters(bounds: Sequence[datetime], begin: datetime, end: datetime) -> list[Piece]:
    """The pieces, within the range, of each quarter of an hour in which a day begins or ends."""
    pieces: dict[datetime, Piece] = {}
    for bound in bounds:
        quarter_begin = floor(bound, QUARTER_HOUR)
        if quarter_begin != bound:
            quarter_end = ceiling(bound, QUARTER_HOUR)
            piece_end = end if quarter_end is None else min(quarter_end, end)
            pieces[quarter_begin] = Piece(max(quarter_begin, begin), piece_end)
    return [piece for piece in pieces.values() if piece.begin < piece.end]


class MissionFigures(NamedTuple):
    """A mission: how many members have achieved it, are on the way to its goal, and have begun it."""

    name: str
    achieved: Decimal
    under_way: Decimal
    started: Decimal


_SUMMARY = f"""
SELECT m.name, coalesce(f.b, 0), coalesce(f.c, 0), coalesce(f.a, 0)
FROM missions m LEFT JOIN (
    SELECT subject, sum(a) AS a, sum(b) AS b, sum(c) AS c FROM (
        SELECT subject, a, b, c FROM report_totals
        WHERE organization_id = :organization_id AND kind = 'missions' AND level = {MONTH}
        UNION ALL
        SELECT subject, a, b, c FROM report_changes
        WHERE organization_id = :organization_id AND kind = 'missions'
    ) AS figures GROUP BY subject
) f ON f.subject = m.mission_id
WHERE m.organization_id = :organization_id
ORDER BY coalesce(f.b, 0) DESC, coalesce(f.a, 0) DESC, m.mission_id LIMIT :limit
"""


def find_summary(db: Connection, organization_id: int, limit: int) -> list[MissionFigures]:
    """The missions that the most members have achieved, in this order."""
    rows = db.execute(text(_SUMMARY), {"organization_id": organization_id, "limit": limit})
    return [MissionFigures(*row) for row in rows]
