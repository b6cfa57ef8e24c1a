"""The files of docs/moving.md: after their imports, the API returns the responses on the page."""

from __future__ import annotations

import re

import pytest

from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.missions import create, times_and_count
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import Shop, event
from tests.http.test_campaign_examples import DOCS, compare, exchanges

FILES = re.compile(r"^```csv ([a-z-]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def section():
    """The section of the page about a move that keeps the status of members."""
    _, text_from_section = (DOCS / "moving.md").read_text().split("\n## A move that keeps status\n")
    return text_from_section.partition("\n## ")[0]


def test_the_files_of_the_page_lead_to_the_responses_on_the_page(organization, section):
    shop = Shop(organization)
    TierSchedule.new(shop, policy={"basis": "earned"}, Silver=500, Gold=1000)
    mission = create(shop, name="Ten coffees", goalCount=10, pointsAccrual=50)
    files = FILES.findall(section)
    assert [kind for kind, _ in files] == ["members", "balances", "mission-progress"]
    for kind, content in files:
        # All rows but the line with the names of the columns are imported.
        data_import = Imports(organization).run(content, kind=kind)
        assert status_read_done_failed(data_import)[2:] == (content.count("\n") - 1, 0), Imports(organization).errors(
            data_import
        )
    for exchange in exchanges(section):
        response = shop.integration.get(exchange.path.removeprefix("/v2"))
        compare(exchange.response, response, {}, exchange.path)
    # The files of the page give ana 300 points, and two achievements and a count of 7.
    assert (times_and_count(shop, "ana", mission), shop.balance("ana")) == ((2, 7), 300)
    # The tenth coffee achieves the mission and pays 50 points.
    shop.track(event("ana"), event("ana"), event("ana"))
    assert (times_and_count(shop, "ana", mission), shop.balance("ana")) == ((3, 10), 300 + 50)
    shop.check_ledger()
