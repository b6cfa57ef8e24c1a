"""Reports (administration, "Reports"); all operations only read.

Figures are stored by kind, such as `MINTS`, in the columns `a` to `d`, which `persistence.tables.reports` describes.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from domain.calendar import instant_of
from domain.event_types import BUILT_IN_EVENT_TYPES
from domain.ledger.records import LedgerAccount
from domain.problems import FieldFault, InvalidRequest
from domain.reports import DailySeries, ReportRange, days_of, report_range
from handlers.call import Call
from handlers.messages.base import wrapped
from handlers.messages.lists import results
from handlers.operation import operation
from handlers.schemas.charts import chart
from handlers.schemas.reports import (
    BOOK_BY_TAG,
    DISCOUNTS,
    MISSION,
    TOP_BOOK,
    TOP_MEMBER,
    received_points_response,
    series,
    series_as_csv,
    total,
)
from persistence.event_types import EVENT_TYPES
from persistence.ledger import ACCOUNTS
from persistence.reports import books, figures, wallets
from persistence.reports.records import COUPONS, EVENTS, MEMBERS, MINTS

# The forms of a series other than JSON.
_SERIES: Mapping[str, Any] = {"text/csv": series_as_csv, "image/svg+xml": chart}


@operation("reportMembersOverTime", response=series, representations=_SERIES)
def report_members_over_time(call: Call, query: Mapping[str, Any]) -> DailySeries:
    """The number of members created on each day."""
    return _series(call, query, "Members created", {"amount": "a"}, MEMBERS)


@operation("reportCouponsOverTime", response=series, representations=_SERIES)
def report_coupons_over_time(call: Call, query: Mapping[str, Any]) -> DailySeries:
    """The numbers of coupons assigned and used on each day."""
    return _series(call, query, "Coupons assigned and used", {"assigned": "a", "usages": "b"}, COUPONS)


@operation("reportTopCouponBooks", response=results(TOP_BOOK))
def report_top_coupon_books(call: Call, query: Mapping[str, Any]) -> list[books.BookFigures]:
    """The coupon books with the largest assigned amounts, or with `orderByUsage` the largest used amounts."""
    date_range = _range(call, query)
    return books.find_top(
        call.db,
        _organization_id(call),
        date_range.begin,
        date_range.end,
        query["limit"],
        by_usage=query["orderByUsage"],
    )


@operation("reportCouponBooksByTag", response=results(BOOK_BY_TAG))
def report_coupon_books_by_tag(call: Call, query: Mapping[str, Any]) -> list[books.BookFigures]:
    """The coupon books that carry a tag, each with its amounts assigned, used and discounted."""
    date_range = _range(call, query)
    return books.find_by_tag(call.db, _organization_id(call), date_range.begin, date_range.end, query.get("tag"))


@operation("reportTopMembers", response=results(TOP_MEMBER))
def report_top_members(call: Call, query: Mapping[str, Any]) -> list[wallets.TopMember]:
    """The members with the largest minted amounts."""
    date_range = _range(call, query)
    return wallets.find_top(
        call.db,
        _organization_id(call),
        date_range.begin,
        date_range.end,
        query["limit"],
        tag=query.get("tag"),
        ledger_account_id=_account_id(call, query),
    )


@operation("reportTagSeries", response=series, representations=_SERIES)
def report_tag_series(call: Call, query: Mapping[str, Any]) -> DailySeries:
    """The amounts minted on each day by transactions that carry a tag."""
    return _series(call, query, "Minted", {"amount": "a"}, MINTS, query.get("tag", ""), _account_id(call, query))


@operation("reportTagTotal", response=total("amount"))
def report_tag_total(call: Call, query: Mapping[str, Any]) -> Decimal:
    """The amount minted by transactions that carry a tag."""
    date_range = _range(call, query)
    minted_amount, *_ = figures.find_sum(
        call.db,
        _organization_id(call),
        MINTS,
        date_range.begin,
        date_range.end,
        label=query.get("tag", ""),
        subject=_account_id(call, query),
    )
    return minted_amount


@operation("reportLedgerAccountTotals", response=received_points_response)
def report_ledger_account_totals(call: Call, account: LedgerAccount, query: Mapping[str, Any]) -> wallets.MintTotals:
    """The amount minted in an account, and the number of members who received it."""
    date_range = _range(call, query)
    return wallets.find_mint_totals(
        call.db, _organization_id(call), date_range.begin, date_range.end, account.ledger_account_id
    )


@operation("reportEventCount", response=total("totalCount"))
def report_event_count(call: Call, query: Mapping[str, Any]) -> Decimal:
    """The number of events of a type."""
    event_type = query["eventType"]
    if event_type not in BUILT_IN_EVENT_TYPES and EVENT_TYPES.find(call.db, _organization_id(call), event_type) is None:
        fault = f"eventType {event_type} is neither a built-in event type nor one of the organization's own."
        raise InvalidRequest([FieldFault(fault, parameter="eventType")])
    date_range = _range(call, query)
    event_count, *_ = figures.find_sum(
        call.db, _organization_id(call), EVENTS, date_range.begin, date_range.end, label=event_type
    )
    return event_count


@operation("reportDiscounts", response=wrapped("result", DISCOUNTS))
def report_discounts(call: Call, query: Mapping[str, Any]) -> books.Discounts:
    """The discounts that the assigned and the used coupons were worth."""
    date_range = _range(call, query)
    return books.find_discounts(
        call.db, _organization_id(call), date_range.begin, date_range.end, query.get("discountType")
    )


@operation("reportMissionsSummary", response=results(MISSION))
def report_missions_summary(call: Call, query: Mapping[str, Any]) -> list[figures.MissionFigures]:
    """The missions, ordered by the number of members who achieved them, largest first."""
    return figures.find_summary(call.db, _organization_id(call), query["limit"])


def _organization_id(call: Call) -> int:
    return call.organization.organization_id


def _range(call: Call, query: Mapping[str, Any]) -> ReportRange:
    """The range of a report, by `sinceFrom` and `sinceTo` of its query."""
    since_from, since_to = (
        None if query.get(name) is None else instant_of(query[name]) for name in ("sinceFrom", "sinceTo")
    )
    return report_range(since_from, since_to, query.get("tz"), call.now, call.organization.zone)


def _account_id(call: Call, query: Mapping[str, Any]) -> int | None:
    """The account that a report is restricted to; None for all. Raises InvalidRequest for an unknown account."""
    account_id = query.get("ledgerAccountId")
    if account_id is not None and ACCOUNTS.find(call.db, _organization_id(call), account_id) is None:
        fault = f"ledgerAccountId {account_id} names no ledger account of the organization"
        raise InvalidRequest([FieldFault(fault, parameter="ledgerAccountId")])
    return account_id


def _series(
    call: Call,
    query: Mapping[str, Any],
    title: str,
    names: Mapping[str, str],
    kind: str,
    label: str = "",
    subject: int | None = None,
) -> DailySeries:
    """The figures of each day of the range.

    `names` maps the name of each figure in the response to its column. `kind`, `label` and `subject` select the stored
    figures: for `MINTS`, the label is a tag ('' for all mints), and the subject a ledger account (None for all).
    """
    days = days_of(_range(call, query))
    daily_figures = figures.find_series(call.db, _organization_id(call), kind, days, label=label, subject=subject)
    rows: Sequence[tuple[Decimal, ...]] = [
        tuple(getattr(day_figures, column) for column in names.values()) for day_figures in daily_figures
    ]
    return DailySeries(title, tuple(names), [day.date for day in days], rows)
