"""Reading figures: totals, changes that are not in them yet, and the records themselves at the ends of a range.

Each report is one statement, so that it sees one state of all three: what moves from the changes into the totals is
counted once.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from domain.reports import DAY, MONTH, QUARTER_HOUR, TOTALS, Cover, Day, Piece, Span, ceiling, cover, floor
from persistence.connections import query as ask
from persistence.counts import RowCount
from persistence.reports.records import COUPONS, MINTS, RECORDS
from persistence.reports.totals import bucket_of
from persistence.rows import AnyRow

# The totals of each coupon book; those of all of them together are of the kind `COUPONS`.
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
    """The sums of a kind of record; `persistence.tables.reports` lists what each figure is of each kind."""

    a: Decimal = _ZERO
    b: Decimal = _ZERO
    c: Decimal = _ZERO
    d: Decimal = _ZERO


class FigureQuery:
    """The parts of a statement about one kind of record, with its values by the names that they get.

    `label` is the type of events or a tag of mints, `subject` a coupon book, an account or a mission.
    """

    def __init__(self, organization_id: int, kind: str, label: str = "", subject: int | None = None) -> None:
        self.values: dict[str, Any] = {"organization_id": organization_id, "kind": kind, "label": label}
        self.record_kind = COUPONS if kind == COUPON_BOOKS else kind
        self.values["record_kind"] = self.record_kind
        self._label, self._subject = label, subject
        if subject is not None:
            self.values["subject"] = subject

    def rows(self, db: Connection, statement: str) -> Sequence[AnyRow]:
        """The rows of a statement that names values of this query."""
        return db.execute(text(statement), self.values).all()

    def value(self, value: Any) -> str:
        """The name of a value in the statement."""
        name = f"v{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def moment(self, at: datetime) -> str:
        """Bind a moment as `value` does; return its SQL expression."""
        return f"CAST({self.value(at)} AS timestamptz)"

    def of_subject(self, column: str = "subject") -> str:
        """The condition on the coupon book or account, where one is asked for."""
        return "" if self._subject is None else f" AND {column} = :subject"

    def totals(self, span: Span, columns: str) -> str:
        """Totals of a span."""
        return (
            f"SELECT {columns} FROM report_totals WHERE organization_id = :organization_id AND kind = :kind"
            f" AND level = {span.level} AND label = :label AND bucket >= {self.moment(span.begin)}"
            f" AND bucket < {self.moment(span.end)}{self.of_subject()}"
        )

    def changes(self, begin: datetime, end: datetime, columns: str) -> str:
        """Changes of the range that are not in the totals yet."""
        label = " AND label = :label"
        if self.record_kind == MINTS:
            label = " AND :label = ANY(tags)" if self._label else ""
        return (
            f"SELECT {columns} FROM report_changes WHERE organization_id = :organization_id AND kind = :record_kind"
            f" AND at >= {self.moment(begin)} AND at < {self.moment(end)}{label}{self.of_subject()}"
        )

    def records(self, pieces: Sequence[Piece], columns: str) -> str:
        """The records of pieces of time, each by the index."""
        # OFFSET 0 keeps the planner from joining the pieces with all records there are.
        begins = self.value([piece.begin for piece in pieces])
        ends = self.value([piece.end for piece in pieces])
        return (
            f"SELECT {columns} FROM unnest(CAST({begins} AS timestamptz[]), CAST({ends} AS timestamptz[]))"
            f" AS piece(begin, until) CROSS JOIN LATERAL (SELECT * FROM ({RECORDS[self.record_kind]}) every_record"
            f" WHERE organization_id = :organization_id AND at >= piece.begin AND at < piece.until"
            f" AND label = :label{self.of_subject()} OFFSET 0) AS records"
        )

    def without(self, pieces: Sequence[Piece]) -> str:
        """The condition that excludes the changes in these pieces of time, whose records are read instead."""
        if not pieces:
            return ""
        begins = self.value([floor(piece.begin, QUARTER_HOUR) for piece in pieces])
        return f" AND {bucket_of(QUARTER_HOUR)} <> ALL(CAST({begins} AS timestamptz[]))"


def by_subject(query: FigureQuery, begin: datetime, end: datetime) -> str:
    """The figures of a range by subject, as a query with the columns subject, a, b, c and d."""
    made_of = cover(begin, end, TOTALS)
    columns = "subject, {0}a AS a, {0}b AS b, {0}c AS c, {0}d AS d"
    parts = [query.totals(span, columns.format("" if span.sign > 0 else "-")) for span in made_of.spans]
    parts += rest(query, made_of, columns.format(""))
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
    """The figures of a range, of all subjects or of one: a coupon book, a ledger account."""
    query = FigureQuery(organization_id, kind, label, subject)
    [row] = query.rows(db, f"SELECT sum(a), sum(b), sum(c), sum(d) FROM ({by_subject(query, begin, end)}) AS found")
    return Figures(*(figure or _ZERO for figure in row))


def count_all(db: Connection, organization_id: int, kind: str) -> RowCount:
    """The number of all records of a kind, exactly, without reading them."""
    return RowCount(int(ask(db, _COUNT_ALL, {"organization_id": organization_id, "kind": kind})[0][0]))


def find_series(
    db: Connection,
    organization_id: int,
    kind: str,
    days: Sequence[Day],
    *,
    label: str = "",
    subject: int | None = None,
) -> list[Figures]:
    """The figures of each of the days, which are consecutive; zero where there are none."""
    if not days:
        return []
    begin, end = days[0].begin, days[-1].end
    bounds = [day.begin for day in days]
    pieces = _partial_quarters([*bounds, end], begin, end)
    level = DAY if all(floor(bound, DAY) == bound for bound in [*bounds, end]) else QUARTER_HOUR
    first, last = ceiling(begin, level), floor(end, level)
    query = FigureQuery(organization_id, kind, label, subject)
    name = query.value(bounds)
    day = f"width_bucket({{0}}, CAST({name} AS timestamptz[])) AS day, a, b, c, d"
    parts = [query.changes(begin, end, day.format("at")) + query.without(pieces)]
    if first is not None and first < last:
        without = ""
        if pieces:
            bucket_starts = query.value([floor(piece.begin, QUARTER_HOUR) for piece in pieces])
            without = f" AND bucket <> ALL(CAST({bucket_starts} AS timestamptz[]))"
        parts.append(query.totals(Span(level, first, last), day.format("bucket")) + without)
    if pieces:
        parts.append(query.records(pieces, day.format("at")))
    union = " UNION ALL ".join(parts)
    rows = query.rows(db, f"SELECT day, sum(a), sum(b), sum(c), sum(d) FROM ({union}) figures GROUP BY day")
    by_number = {row[0]: Figures(*row[1:]) for row in rows}
    return [by_number.get(number, Figures()) for number in range(1, len(days) + 1)]


def rest(query: FigureQuery, made_of: Cover, columns: str) -> list[str]:
    """The part of a range that totals do not cover: changes, and records at its ends."""
    parts = [query.changes(made_of.begin, made_of.end, columns) + query.without(made_of.pieces)]
    if made_of.pieces:
        parts.append(query.records(made_of.pieces, columns))
    return parts


def _partial_quarters(bounds: Sequence[datetime], begin: datetime, end: datetime) -> list[Piece]:
    """The parts of quarters of an hour that the range includes, where a day begins or ends within the quarter."""
    pieces: dict[datetime, Piece] = {}
    for bound in bounds:
        quarter_begin = floor(bound, QUARTER_HOUR)
        if quarter_begin != bound:
            quarter_end = ceiling(bound, QUARTER_HOUR)
            piece_end = end if quarter_end is None else min(quarter_end, end)
            pieces[quarter_begin] = Piece(max(quarter_begin, begin), piece_end)
    return [piece for piece in pieces.values() if piece.begin < piece.end]


class MissionFigures(NamedTuple):
    """A mission: how many members achieved it, are in progress, and have any count."""

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
ORDER BY coalesce(f.b, 0) DESC, coalesce(f.a, 0) DESC, m.mission_id LIMIT :most
"""


def find_summary(db: Connection, organization_id: int, limit: int) -> list[MissionFigures]:
    """The missions achieved by most members, the most first."""
    rows = db.execute(text(_SUMMARY), {"organization_id": organization_id, "most": limit})
    return [MissionFigures(*row) for row in rows]
