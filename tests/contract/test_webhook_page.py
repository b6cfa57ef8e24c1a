"""The page about webhooks names every type of message, and the actual schedule of attempts."""

from __future__ import annotations

import re
from pathlib import Path

import openapi
from domain.webhooks import DELAYS, MAX_ATTEMPTS
from handlers.services.webhooks.post_message import TIMEOUT_SECONDS
from tests.contract.documents import callback_contents, resolve

PAGE = (Path(openapi.__file__).parents[1] / "docs" / "webhooks.md").read_text(encoding="utf-8")


def test_the_page_has_exactly_the_types_of_messages() -> None:
    document = openapi.bundle("administration")
    documented_types = {
        name
        for _, content in callback_contents(document)
        for name in resolve(document, content["schema"])["properties"]["type"]["enum"]
    }
    # The tables of types come before this sentence; `data.event` is the name of a field.
    text_with_types = PAGE[: PAGE.index("`settings.eventTypes` limits")]
    assert set(re.findall(r"`([a-z-]+\.[a-z-]+)`", text_with_types)) - {"data.event"} == documented_types


def test_the_page_has_the_actual_schedule_and_time_limit() -> None:
    units = {"second": 1, "minute": 60, "hour": 3600}
    page_in_one_line = " ".join(PAGE.split())
    sentence = page_in_one_line[page_in_one_line.index("sent again after 5 seconds") :].partition("Each wait")[0]
    seconds = [int(number) * units[unit] for number, unit in re.findall(r"(\d+) (second|minute|hour)", sentence)]
    assert seconds == [delay.total_seconds() for delay in DELAYS]
    assert f"{TIMEOUT_SECONDS:g} seconds" in page_in_one_line
    hours = sum(seconds) // units["hour"]
    trigger = openapi.bundle("administration")["paths"]["/organizations/{organizationId}/triggers"]["post"]
    for text in (page_in_one_line, " ".join(trigger["description"].split())):
        assert f"about {hours} hours" in text
    assert f"{MAX_ATTEMPTS} attempts" in PAGE
