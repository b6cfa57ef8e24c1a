"""Locks of coupons that several members request at the same time."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.concurrency.simultaneous import run_simultaneously


def test_one_key_locks_a_coupon_for_only_one_of_two_members(shop):
    body = {"name": "Juice", "type": "codeless", "publishingStatus": "published", "requiredPointsConfig": None}
    book = shop.administration.post("/coupon-books", body)["couponBook"]
    paths = [f"/members/{shop.member()}/coupon-books/{book['couponBookKey']}/lock" for _ in range(2)]
    request = {"autoAssign": True, "systemUniqueKey": "basket-1"}
    replies = run_simultaneously([partial(shop.integration.request, "POST", path, request) for path in paths] * 4)
    assert Counter((reply.status, reply.json.get("type")) for reply in replies) == {
        (201, None): 4,
        (409, "/problems/key-reused"): 4,
    }
