"""Examples of pages that consist of requests, such as docs/campaigns.md: sent in order, responses compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import pytest

from tests.builders.api import Organization, Surface

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(http|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Names in angle brackets, without spaces; comparisons in expressions have spaces.
NAME = re.compile(r"<([a-z][A-Za-z]*)>")
# Only the first parameters of an effect are shown.
PARTLY_SHOWN = "params"


class Exchange(NamedTuple):
    """A request and the part of its response that the page shows, if any; with its own headers it has no token."""

    method: str
    path: str
    headers: str
    body: str
    response: Any


def sections(page: str) -> dict[str, list[Exchange]]:
    """The exchanges of each section of a page by its title, without sections that have none."""
    _, *parts = re.split(r"^## (.+)$", (DOCS / page).read_text(), flags=re.MULTILINE)
    exchanges_by_title = {title: list(exchanges(text)) for title, text in zip(parts[::2], parts[1::2], strict=True)}
    return {title: section_exchanges for title, section_exchanges in exchanges_by_title.items() if section_exchanges}


def exchanges(section: str) -> Iterator[Exchange]:
    """The requests of a section, each with the response in the block after it if that is JSON."""
    blocks = BLOCK.findall(section)
    for (kind, content), (next_kind, next_content) in zip(blocks, [*blocks, ("", "")][1:], strict=True):
        if kind == "http":
            head, _, body = content.partition("\n\n")
            request_line, _, headers = head.strip().partition("\n")
            method, path = request_line.split(" ")
            response = parse_response(next_content) if next_kind == "json" else None
            yield Exchange(method, path, headers, body.strip(), response)


def parse_response(response: str) -> Any:
    """Parse a response of the page; names in angle brackets become strings, also in the places of numbers."""
    return exact(re.sub(f'"?{NAME.pattern}"?', r'"<\1>"', response))


def exact(text: str) -> Any:
    """Parse JSON without rounding its numbers."""
    return json.loads(text, parse_float=Decimal)


def insert_values(text: str, values: dict[str, Any]) -> str:
    """The text with its names in angle brackets replaced by their values."""
    return NAME.sub(lambda name: str(values[name[1]]), text)


def compare(page_value: Any, response: Any, values: dict[str, Any], place: str) -> None:
    """Check that the response has what the page shows; a new name takes its value from the response."""
    if isinstance(page_value, dict):
        for name, part in page_value.items():
            assert name in response, f"{place}.{name} is missing in {response}"
            compare(part, response[name], values, f"{place}.{name}")
    elif isinstance(page_value, list):
        response_items = response[: len(page_value)] if place.endswith(PARTLY_SHOWN) else response
        assert len(response_items) == len(page_value), f"{place} is {response}"
        for index, (part, response_item) in enumerate(zip(page_value, response_items, strict=True)):
            compare(part, response_item, values, f"{place}[{index}]")
    elif isinstance(page_value, str) and NAME.fullmatch(page_value):
        name = page_value.strip("<>")
        assert values.setdefault(name, response) == response, f"{place} is {response}"
    else:
        assert response == page_value, f"{place} is {response}"


def initial_values(organization: Organization) -> dict[str, Any]:
    """The values of the names of records that every organization has."""
    defaults = organization.defaults
    path = f"/loyalty-programs/{defaults.loyalty_program_id}"
    program = organization.administration.get(path)["loyaltyProgram"]
    return {
        "organizationId": organization.id,
        "loyaltyProgramId": defaults.loyalty_program_id,
        "loyaltyProgramKey": program["loyaltyProgramKey"],
        "ledgerId": defaults.ledger_id,
        "ledgerAccountId": defaults.ledger_account_id,
    }


PAGES = (
    "campaigns.md",
    "recipes.md",
    "offline.md",
    "coupons.md",
    "events.md",
    "expressions.md",
    "ledger.md",
    "referrals.md",
    "content.md",
    "reports.md",
    "webhooks.md",
    "privacy.md",
    "users.md",
    "partners.md",
    "http.md",
)
SECTIONS = {title: section for page in PAGES for title, section in sections(page).items()}
IN_A_TEST_ORGANIZATION = sections("testing-time.md")
RECIPES = {
    "Returns",
    "Referral codes",
    "Expiry after 12 months",
    "Happy hours",
    "At most once a day",
    "Waiting points",
    "Points when the order is confirmed",
    "A gift card",
    "A coupon for a basket",
    "Migration",
}


def test_the_pages_show_ten_campaigns_and_all_recipes_with_their_requests():
    # The titles of campaigns.md begin with their numbers.
    assert len([title for title in SECTIONS if title[0].isdigit()]) == 10
    assert all(
        len(section_exchanges) > 3
        for page in ("campaigns.md", "recipes.md")
        for section_exchanges in sections(page).values()
    )
    assert SECTIONS.keys() >= RECIPES


def test_no_two_sections_have_one_title():
    assert len(SECTIONS) == sum(len(sections(page)) for page in PAGES)


def expected_statuses(response: Any) -> tuple[int, ...]:
    """The status of the problem that the page shows; if it shows none, those of success."""
    is_problem = isinstance(response, dict) and str(response.get("type", "")).startswith("/problems/")
    return (response["status"],) if is_problem else (200, 201)


def follow(organization: Organization, exchanges: list[Exchange]) -> None:
    """Send every request of a section in order, and compare its response with the page."""
    api = Surface(organization.api.app, "", organization.token)
    values = initial_values(organization)
    for exchange in exchanges:
        address, body = (
            insert_values(exchange.path, values),
            exact(insert_values(exchange.body, values)) if exchange.body else None,
        )
        path, _, query = address.removeprefix("/v2").partition("?")
        headers = dict(line.split(": ") for line in insert_values(exchange.headers, values).splitlines())
        caller = api.with_token(None) if headers else api
        reply = caller.request(exchange.method, path, body, headers=headers, **dict(parse_qsl(query)))
        assert reply.status in expected_statuses(exchange.response), f"{exchange.method} {path}: {reply.text}"
        if exchange.response is not None:
            compare(exchange.response, reply.json, values, "response")


@pytest.mark.parametrize("title", SECTIONS)
def test_the_responses_to_the_requests_of_a_section_are_those_on_the_page(organization, title):
    follow(organization, SECTIONS[title])


@pytest.mark.parametrize("title", IN_A_TEST_ORGANIZATION)
def test_requests_that_move_a_test_clock_have_the_responses_on_the_page(api, title):
    follow(api.organization(environment="test"), IN_A_TEST_ORGANIZATION[title])
