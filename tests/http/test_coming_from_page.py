"""The files of docs/coming-from.md: imported by their column names, they lead to the responses on the page."""

from __future__ import annotations

import re

import pytest
import yaml

from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.tracking import Shop
from tests.http.test_campaign_examples import DOCS, compare, exchanges

TEXT = (DOCS / "coming-from.md").read_text()
FILES = re.compile(r"^```(csv|yaml) ([a-z-]+) ([a-z]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SYSTEMS = ("openloyalty", "talonone", "voucherify", "spreadsheet")


def files(system: str) -> dict[tuple[str, str], str]:
    """The files of a system, by form and kind."""
    return {(form, kind): content for form, kind, name, content in FILES.findall(TEXT) if name == system}


def test_every_file_of_the_page_is_imported():
    assert {name for _, _, name, _ in FILES.findall(TEXT)} == set(SYSTEMS)
    assert len(list(exchanges(TEXT))) == len(SYSTEMS)


@pytest.mark.parametrize("system", SYSTEMS)
def test_members_and_points_are_imported(organization, system):
    shop, imports, contents = Shop(organization), Imports(organization), files(system)
    for kind in ("members", "balances"):
        content, columns = contents["csv", kind], yaml.safe_load(contents["yaml", kind])
        job = imports.run(content, kind=kind, columnNames=columns, ignoreUnknownColumns=True)
        # All rows but the first, which has the column names, are done, and none has failed.
        assert status_read_done_failed(job)[2:] == (content.count("\n") - 1, 0), imports.errors(job)
    # The page shows the first member of the file.
    member = re.search(r"^.*?\n([^,;]+)[,;]", contents["csv", "members"])[1]
    [exchange] = [exchange for exchange in exchanges(TEXT) if exchange.path.endswith(f"/{member}")]
    compare(exchange.response, shop.integration.get(exchange.path.removeprefix("/v2")), {}, exchange.path)
    shop.check_ledger()
