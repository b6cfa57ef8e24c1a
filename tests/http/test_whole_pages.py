"""The requests of pages whose sections build on each other return the responses that the pages show."""

from __future__ import annotations

import pytest

from tests.http.test_campaign_examples import DOCS, exchanges, follow

# The number of requests on each page, so that none is skipped.
PAGES = {
    "README.md": 1,
    "budgets.md": 9,
    "currencies.md": 5,
    "members.md": 13,
    "missions.md": 5,
    "payments.md": 11,
    "problems.md": 1,
    "sdks.md": 3,
    "stacking.md": 9,
    "test-organizations.md": 1,
    "timeline.md": 3,
    "versioning.md": 1,
}


@pytest.mark.parametrize("page", PAGES)
def test_the_requests_of_a_page_return_the_shown_responses(api, page):
    steps = list(exchanges((DOCS / page).read_text()))
    assert len(steps) == PAGES[page]
    # Only test organizations have a clock.
    environment = "test" if page == "test-organizations.md" else "live"
    follow(api.organization(environment=environment), steps)
