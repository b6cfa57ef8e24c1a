"""What a call has read is given back as soon as the call is done, and does not wait for the garbage collector."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import contextmanager

import pytest

from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import GENERIC, Shop, event, order, running

OURS = ("domain.", "handlers.", "openapi.", "persistence.")


@contextmanager
def garbage():
    """The types, of the product, of objects that only the garbage collector can free, of what is done meanwhile."""
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(name for one in gc.garbage if (name := _name(type(one))).startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@pytest.fixture(scope="module")
def calls(api):
    shop = Shop(api.organization())
    shop.campaign(running(mint(5)), eventType=GENERIC)
    book = CouponBooks(shop.organization).make(name="Flat white", type="codeless")
    badge = shop.integration.post("/badges", {"name": "Regular", "maxAmount": 1000, "active": True})["badge"]
    member, integration, administration = shop.member(), shop.integration, shop.administration
    by_id = f"/members/by-loyalty-member-id/{member}"
    coupons = f"/members/{member}/coupon-books/{book['couponBookKey']}"
    account = f"/ledgers/{shop.organization.created.ledger_id}/accounts/{shop.organization.created.ledger_account_id}"

    def revert():
        [minted] = administration.post(f"{by_id}/mint", {"amount": 2}, expect=None)["ledgerTransactions"]
        administration.post(f"{account}/transactions/{minted['ledgerTransactionId']}/revert", {}, expect=200)

    def cancel():
        tracked = shop.track_one(event(member))
        integration.post(f"/events/{tracked['loyaltyEventKey']}/cancel", {}, expect=200)

    return {
        "track": lambda: shop.track(event(member), order(member, "12.50")),
        "cancel": cancel,
        "mint": lambda: administration.post(f"{by_id}/mint", {"amount": 1}, expect=200),
        "burn": lambda: administration.post(f"{by_id}/burn", {"amount": 1}, expect=200),
        "revert": revert,
        "assign": lambda: integration.post(f"{coupons}/assign", {}, expect=200),
        "use": lambda: integration.post(f"{coupons}/use", {}, expect=200),
        "badge": lambda: integration.post(f"/members/{member}/badges/{badge['badgeKey']}/assign", {}, expect=200),
        "enrol": shop.member,
        "change": lambda: integration.patch(f"/members/{member}", {"profile": {"name": "Ana"}}),
        "read": lambda: integration.get(f"/members/{member}"),
        "list": lambda: integration.get("/members"),
        "not found": lambda: integration.get("/members/nobody", expect=404),
    }


CALLS = (
    *("track", "cancel", "mint", "burn", "revert", "assign", "use", "badge", "enrol", "change", "read", "list"),
    "not found",
)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_no_garbage(calls, name):
    calls[name]()
    with garbage() as found:
        calls[name]()
    assert found == {}
