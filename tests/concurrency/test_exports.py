"""The exports of one organization, created by many calls at the same time."""

from __future__ import annotations

from functools import partial

from domain.exports import MAX_UNFINISHED_EXPORTS
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import run_simultaneously, statuses


def test_simultaneous_calls_create_the_maximum_of_unfinished_exports(shop):
    administration = shop.administration
    earlier_replies = [
        administration.request("POST", "/exports", {"kind": "members"}) for _ in range(MAX_UNFINISHED_EXPORTS - 3)
    ]
    assert statuses(earlier_replies) == {(201, None): MAX_UNFINISHED_EXPORTS - 3}
    replies = run_simultaneously([partial(administration.request, "POST", "/exports", {"kind": "members"})] * THREADS)
    assert statuses(replies) == {(201, None): 3, (409, "/problems/export-limit"): THREADS - 3}
    assert administration.get("/exports")["totalCount"] == MAX_UNFINISHED_EXPORTS == 20
