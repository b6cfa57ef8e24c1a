"""Missions by the number of members who take part in them."""

from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import Connection, text

from domain.reports.spans import MONTH


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
