"""Objects that a call has read are freed as soon as the call ends, without the garbage collector."""

from __future__ import annotations

import gc
import gzip
from collections import Counter
from contextlib import contextmanager

import pytest

from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.imports import Imports
from tests.builders.member_calls import calls_about
from tests.builders.tracking import GENERIC, Shop, running

PACKAGES = ("domain.", "handlers.", "openapi.", "persistence.")


@contextmanager
def count_garbage():
    """Count the product objects, by type, of the block that only the garbage collector can free."""
    type_counts: Counter[str] = Counter()
    # Objects from before the block are left out: after other tests there are many, and each collection visits them all.
    gc.freeze()
    gc.disable()
    try:
        yield type_counts
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        names = [_name(type(garbage)) for garbage in gc.garbage]
        type_counts.update(name for name in names if name.startswith(PACKAGES))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()


def _name(kind: type) -> str:
    """The name of a type with its module."""
    return f"{kind.__module__}.{kind.__qualname__}"


@pytest.fixture(scope="module")
def calls(api):
    """Calls of the API by name, each of which can be made repeatedly."""
    shop = Shop(api.organization())
    shop.campaign(running(mint(5)), eventType=GENERIC)
    book = CouponBooks(shop.organization).make(name="Flat white", type="codeless")
    badge = shop.integration.post("/badges", {"name": "Regular", "maxAmount": 1000, "active": True})["badge"]
    member = shop.member()
    shop.give(member, 100)
    shop.integration.post(f"/members/{member}/coupon-books/{book['couponBookKey']}/assign", {"amount": 5}, expect=200)
    return {
        **calls_about(shop, member, book, badge),
        "enrol": shop.member,
        "read": lambda: shop.integration.get(f"/members/{member}"),
        "list": lambda: shop.integration.get("/members"),
        "not found": lambda: shop.integration.get("/members/nobody", expect=404),
    }


# The keys of the fixture `calls`.
CALLS = (
    *("track", "order", "cancel", "mint", "burn", "revert", "assign", "use", "badge", "change", "enrol", "read"),
    *("list", "not found"),
)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_leaves_no_garbage(calls, name):
    # The first call fills caches, whose objects stay.
    calls[name]()
    with count_garbage() as type_counts:
        calls[name]()
    assert type_counts == {}


# A row that is too long between two good ones; rows that cannot be read; a file that ends early; rows of JSON.
FILES = {
    "right": b"loyaltyMemberId,city\nana,Lima\nben," + b"x" * 200_000 + b"\ncleo,Quito\n",
    "wrong": b"loyaltyMemberId,city\nana,Lima\n\xff\xfe,\n" + b'"dan,\n' + b"x" * 200_000,
    "damaged": gzip.compress(b"loyaltyMemberId\n" + b"ana\n" * 1000)[:-20],
    "JSON": b'{"loyaltyMemberId": "ana"}\n[]\n{"loyaltyMemberId": 5}\n',
}


@pytest.mark.parametrize("name", FILES)
def test_an_import_leaves_no_garbage(organization, name):
    imports, file_format = Imports(organization, rows=2), "ndjson" if name == "JSON" else "csv"
    # The first import fills caches, whose objects stay.
    imports.run(FILES[name], format=file_format, mode="upsert")
    path, importer = imports.queue(FILES[name], format=file_format, mode="upsert"), imports.importer
    with count_garbage() as type_counts:
        while importer.step():
            pass
    assert imports.get(path)["status"] == ("failed" if name == "damaged" else "done")
    assert type_counts == {}
