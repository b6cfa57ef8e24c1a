"""Reports on the wire, as JSON and as CSV (administration, "Reports")."""

import csv
import io
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from domain.reports import DailySeries
from handlers.messages.base import Shape
from handlers.messages.json_text import exact_number
from persistence.reports.books import BookFigures, Discounts
from persistence.reports.figures import MissionFigures
from persistence.reports.wallets import MintTotals, TopMember

# Averages are rounded to the maximum number of fraction digits of a ledger account.
_MILLIONTH = Decimal("0.000001")


TOP_BOOK = Shape(BookFigures, without=("coupon_book_id", "discount_amount"), names={"coupon_book_key": "key"})
BOOK_BY_TAG = Shape(BookFigures, without=("type",))
TOP_MEMBER = Shape(TopMember)
MISSION = Shape(
    MissionFigures,
    names={"achieved": "totalMembersAchievedMission", "under_way": "totalActiveMissions", "started": "totalMembers"},
)
DISCOUNTS = Shape(Discounts, names={"assigned": "totalDiscountAmountAssigned", "used": "totalDiscountAmountUsed"})


def series(report: DailySeries) -> dict[str, Any]:
    """The rows of a series, one for each day."""
    return {
        "results": [
            {"date": day.isoformat(), **dict(zip(report.names, map(exact_number, row), strict=True))}
            for day, row in zip(report.days, report.rows, strict=True)
        ]
    }


def series_as_csv(report: DailySeries) -> str:
    """A series as a table (RFC 4180); its first line has the names of the columns."""
    text = io.StringIO(newline="")
    table = csv.writer(text)
    table.writerow(["date", *report.names])
    for day, row in zip(report.days, report.rows, strict=True):
        table.writerow([day.isoformat(), *(format(Decimal(exact_number(figure)), "f") for figure in row)])
    return text.getvalue()


def total(name: str) -> Callable[[Decimal], dict[str, Any]]:
    """A function that renders a total as `{result: {name: total}}`."""
    return lambda amount: {"result": {name: exact_number(amount)}}


def received_points_response(report: MintTotals) -> dict[str, Any]:
    """The total that members received in an account, and the average, 0 if no member received anything."""
    average = Decimal(0)
    if report.wallet_count:
        average = (report.amount / report.wallet_count).quantize(_MILLIONTH, ROUND_HALF_EVEN)
    return {"result": {"totalAmount": exact_number(report.amount), "avgAmountPerUser": exact_number(average)}}
