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
        self.received = 0

    async def receive(self):
        # As gunicorn does with Python 3.11, ignore the cancellation, since a part has arrived.
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
        self.received += 1
        return {"type": "http.request", "body": b"a", "more_body": self.received < PARTS}


def test_a_body_that_still_arrives_at_its_deadline_is_refused():
    slow_body = SlowBody()
    exchange = SimpleNamespace(headers={})
    with pytest.raises(HttpProblem) as caught:
        asyncio.run(read_body(slow_body.receive, exchange, 1000, 0.1, KeptBody(Counter(), 1)))
    assert caught.value.status == 408
    assert slow_body.received < PARTS
