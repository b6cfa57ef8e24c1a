"""The requests of the pages about money are answered as the pages show."""

from __future__ import annotations

import pytest

from tests.http.test_campaign_examples import DOCS, exchanges, follow


@pytest.mark.parametrize(
    ("page", "requests"), [("currencies.md", 5), ("budgets.md", 9), ("stacking.md", 9), ("payments.md", 10)]
)
def test_the_requests_of_a_page_are_answered_as_shown(organization, page, requests):
    steps = list(exchanges((DOCS / page).read_text()))
    assert len(steps) == requests
    follow(organization, steps)
