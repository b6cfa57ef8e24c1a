"""Reports on the wire, as JSON and as CSV (administration, "Reports")."""

import csv
import io
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from domain.reports import DailySeries
from handlers.messages.base import Exact, Plain, Shape, WireSchema
from handlers.messages.json_text import exact_number
from persistence.reports.books import Discounts
from persistence.reports.wallets import Received

# An average is rounded to the most fraction digits of a ledger account.
_MILLIONTH = Decimal("0.000001")


class _TopBook(WireSchema):
    key = Plain(attribute="coupon_book_key")
    name = Plain()
    assigned = Exact()
    usages = Exact()
    type = Plain()


class _BookByTag(WireSchema):
    coupon_book_id = Plain()
    coupon_book_key = Plain()
    name = Plain()
    assigned = Exact()
    usages = Exact()
    discount_amount = Exact()


class _TopMember(WireSchema):
    key = Plain()
    amount = Exact()
    name = Plain()
    lastname = Plain()


class _Mission(WireSchema):
    name = Plain()
    achieved = Exact(data_key="totalMembersAchievedMission")
    under_way = Exact(data_key="totalActiveMissions")
    started = Exact(data_key="totalMembers")


TOP_BOOK = Shape(_TopBook)
BOOK_BY_TAG = Shape(_BookByTag)
TOP_MEMBER = Shape(_TopMember)
MISSION = Shape(_Mission)


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


def tag_total(amount: Decimal) -> dict[str, Any]:
    """The response of a total."""
    return {"result": {"amount": exact_number(amount)}}


def event_count(count: Decimal) -> dict[str, Any]:
    """The response of a count."""
    return {"result": {"totalCount": exact_number(count)}}


def received(report: Received) -> dict[str, Any]:
    """The totals of an account; the average is 0 if no member received anything."""
    average = Decimal(0)
    if report.wallets:
        average = (report.amount / report.wallets).quantize(_MILLIONTH, ROUND_HALF_EVEN)
    return {"result": {"totalAmount": exact_number(report.amount), "avgAmountPerUser": exact_number(average)}}


def discounts(report: Discounts) -> dict[str, Any]:
    """The totals of discounts."""
    return {
        "result": {
            "totalDiscountAmountAssigned": exact_number(report.assigned),
            "totalDiscountAmountUsed": exact_number(report.used),
        }
    }
