"""Exports: their filters, and how long their rows can be read."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from domain.exports import ABANDONED_AFTER, FILTERS_OF_KIND, ExportJob

DONE_AT = datetime(2026, 3, 4, tzinfo=UTC)
EXPIRED_AT = datetime(2026, 3, 11, 1, tzinfo=UTC)
EXPORT = ExportJob(
    **{
        **dict.fromkeys(ExportJob.__slots__),
        "filters": {},
        "finished_at": DONE_AT,
        "updated_at": EXPIRED_AT,
    }
)


def test_filters_that_are_not_set_are_none():
    assert replace(EXPORT, filters={"memberId": 7}).all_filters == {
        "createdFrom": None,
        "createdTo": None,
        "memberId": 7,
        "eventType": None,
        "ledgerAccountId": None,
        "couponBookId": None,
    }


@pytest.mark.parametrize(
    ("kind", "filters"),
    [
        ("members", {"createdFrom", "createdTo", "memberId"}),
        ("balances", {"memberId", "ledgerAccountId"}),
        ("coupon-codes", {"createdFrom", "createdTo", "couponBookId"}),
        ("coupons", {"createdFrom", "createdTo", "memberId", "couponBookId"}),
        ("badges", {"memberId"}),
        ("audience-members", {"memberId"}),
        ("events", {"createdFrom", "createdTo", "memberId", "eventType"}),
        ("mission-progress", {"memberId"}),
        ("event-results", {"createdFrom", "createdTo", "memberId", "eventType"}),
        ("ledger-transactions", {"createdFrom", "createdTo", "memberId", "ledgerAccountId"}),
        ("coupon-usages", {"createdFrom", "createdTo", "memberId", "couponBookId"}),
        ("audit-log", {"createdFrom", "createdTo", "memberId"}),
    ],
)
def test_the_filters_of_an_export_are_those_of_its_rows(kind, filters):
    assert FILTERS_OF_KIND[kind] == filters


@pytest.mark.parametrize(
    ("status", "expires"),
    [("done", True), ("expired", True), ("failed", False), ("cancelled", False), ("running", False)],
)
def test_the_rows_of_a_complete_export_expire_after_a_week(status, expires):
    a_week_after_its_end = datetime(2026, 3, 4 + 7, tzinfo=UTC)
    assert replace(EXPORT, status=status).expires_at == (a_week_after_its_end if expires else None)
    assert replace(EXPORT, status=status, finished_at=None).expires_at is None


def test_the_rows_of_an_export_expire_at_the_moment_when_an_erasing_ends_it():
    erased_at = datetime(2026, 3, 5, tzinfo=UTC)
    assert replace(EXPORT, status="expired", updated_at=erased_at).expires_at == erased_at


def test_a_job_without_progress_for_two_minutes_counts_as_abandoned():
    assert ABANDONED_AFTER.total_seconds() == 120
