"""Move the changes of all organizations into the totals of reports, as a worker does."""

from __future__ import annotations

from sqlalchemy import Engine

from handlers.services.report_totals import ReportTotals


def move_all_changes(engine: Engine) -> None:
    """Move the changes of all organizations until none are left."""
    totals = ReportTotals(engine)
    while totals.step():
        pass
