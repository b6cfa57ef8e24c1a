"""Verifying reports finds wrong figures at every level of totals, and lost changes."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from domain.reports import DAY, MONTH, QUARTER, QUARTER_HOUR, YEAR
from handlers.services.verify import verify_reports
from tests.builders.reports import move_all_changes
from tests.builders.tracking import Shop


@pytest.fixture
def shop(api):
    """An organization with 7 points in the totals of reports, and 5 in changes that are not moved to totals yet."""
    shop = Shop(api.organization())
    member = shop.organization.member()["loyaltyMemberId"]
    shop.give(member, 7)
    move_all_changes(api.engine)
    shop.give(member, 5)
    return shop


def findings_of(api, shop, statement=None, **values):
    """What verifying the reports finds after a statement, which is rolled back."""
    with api.engine.connect() as db, db.begin() as transaction:
        if statement is not None:
            row_count = db.execute(text(statement), {"of": shop.organization.id, **values}).rowcount
            assert row_count > 0
        findings = verify_reports(db, shop.organization.id)
        transaction.rollback()
        return findings


def test_correct_figures_have_no_findings(api, shop):
    assert findings_of(api, shop) == []


@pytest.mark.parametrize("level", [QUARTER_HOUR, DAY, MONTH])
@pytest.mark.parametrize("kind", ["mints", "events", "members"])
def test_a_wrong_total_is_found(api, shop, kind, level):
    where = "organization_id = :of AND kind = :kind AND level = :level"
    for statement in (f"UPDATE report_totals SET a = a + 1 WHERE {where}", f"DELETE FROM report_totals WHERE {where}"):
        findings = findings_of(api, shop, statement, kind=kind, level=level)
        assert any(kind in finding for finding in findings)


@pytest.mark.parametrize("level", [QUARTER_HOUR, MONTH, QUARTER, YEAR])
@pytest.mark.parametrize("change", ["minted = minted + 1", "mints = mints - 1"])
def test_a_wrong_total_of_a_wallet_is_found(api, shop, change, level):
    statement = f"UPDATE report_wallet_totals SET {change} WHERE organization_id = :of AND level = :level"
    assert any("report of mints" in finding for finding in findings_of(api, shop, statement, level=level))


def test_a_lost_change_is_found(api, shop):
    findings = findings_of(api, shop, "DELETE FROM report_changes WHERE organization_id = :of")
    # One mint of 5 points is missing: in the four figures of its account, of which mints use only the first two, and in
    # the two of its wallet.
    assert [finding.partition(": differs from ")[2] for finding in findings] == [
        "its records by -5, -1, 0, 0",
        "its records by -5, -1",
    ]
    assert all("report of mints" in finding for finding in findings)
