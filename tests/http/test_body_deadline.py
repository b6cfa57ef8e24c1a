"""The deadline of a body that arrives slowly."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from types import SimpleNamespace

import pytest

from handlers.http.intake import KeptBody, read_body
from handlers.http.problems import HttpProblem

PARTS = 100


class SlowBody:
    """A body whose parts arrive every hundredth of a second, also in the moment in which the time is up."""

    def __init__(self):
        self.received_parts = 0

    async def receive(self):
        # As gunicorn does with Python 3.11, ignore the cancellation, since a part has arrived.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        self.received_parts += 1
        return {"type": "http.request", "body": b"a", "more_body": self.received_parts < PARTS}


def test_a_body_that_still_arrives_at_its_deadline_is_refused():
    slow_body = SlowBody()
    exchange = SimpleNamespace(headers={})
    kept_body = KeptBody(Counter(), organization=1)
    # All parts would take a second.
    with pytest.raises(HttpProblem) as refusal:
        asyncio.run(read_body(slow_body.receive, exchange, max_bytes=1000, seconds=0.1, kept_body=kept_body))
    assert refusal.value.status == 408
    assert slow_body.received_parts < PARTS
