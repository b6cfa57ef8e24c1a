"""The page about webhooks names every type of message, and describes tries as the product makes them."""

from __future__ import annotations

import re
from pathlib import Path

import openapi
from domain.webhooks import DELAYS, MOST_ATTEMPTS
from handlers.services.webhooks.post_message import SECONDS
from tests.contract.documents import callback_contents, resolve

PAGE = (Path(openapi.__file__).parents[1] / "docs" / "webhooks.md").read_text(encoding="utf-8")


def test_every_type_of_message_is_on_the_page_and_no_other() -> None:
    document = openapi.bundle("administration")
    documented = {
        name
        for _, content in callback_contents(document)
        for name in resolve(document, content["schema"])["properties"]["type"]["enum"]
    }
    table = PAGE[: PAGE.index("`settings.eventTypes` narrows")]
    assert set(re.findall(r"`([a-z-]+\.[a-z-]+)`", table)) - {"data.event"} == documented


def test_the_schedule_is_the_real_one() -> None:
    units = {"second": 1, "minute": 60, "hour": 3600}
    flat = " ".join(PAGE.split())
    sentence = flat[flat.index("sent again after 5 seconds") :].partition("each a tenth")[0]
    seconds = [int(number) * units[unit] for number, unit in re.findall(r"(\d+) (second|minute|hour)", sentence)]
    assert seconds == [delay.total_seconds() for delay in DELAYS]
    assert f"{SECONDS:g} seconds" in flat
    hours = sum(seconds) // units["hour"]
    trigger = openapi.bundle("administration")["paths"]["/organizations/{organizationId}/triggers"]["post"]
    for text in (flat, " ".join(trigger["description"].split())):
        assert f"about {hours} hours" in text
    assert f"{MOST_ATTEMPTS} attempts" in PAGE
