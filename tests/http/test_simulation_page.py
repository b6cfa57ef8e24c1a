"""The example of docs/simulations.md: its first response comes from the organization that its steps create."""

from __future__ import annotations

import re

from tests.builders.api import Surface
from tests.http.test_campaign_examples import DOCS, compare, exact, exchanges, initial_values, insert_values

PAGE = "simulations.md"


def test_the_first_request_of_the_page_returns_the_shown_response(organization):
    beginning, *later_sections = re.split(r"^## .+$", (DOCS / PAGE).read_text(), flags=re.MULTILINE)
    api, known_values = Surface(organization.api.app, "", organization.token), initial_values(organization)
    # The page begins with the request, and creates what it needs in the steps of later sections.
    [first_request] = exchanges(beginning)
    steps = [exchange for section in later_sections for exchange in exchanges(section)]
    assert len(steps) == 10
    statuses = []
    for step in (*steps, first_request):
        body = exact(insert_values(step.body, known_values)) if step.body else None
        reply = api.request(step.method, insert_values(step.path, known_values).removeprefix("/v2"), body)
        statuses.append(reply.status)
        if step.response is not None:
            compare(step.response, reply.json, known_values, "response")
    # The seventh step reads the accounts, the tenth mints points, and the others create records.
    assert statuses == [*[201] * 6, 200, 201, 201, 200, 200]
