"""The exports of one organization, created by many calls at the same time, and while a member is erased."""

from __future__ import annotations

from functools import partial

from domain.exports import MAX_UNFINISHED_EXPORTS
from handlers.services.exports.write import ExportWriter
from persistence import exports
from tests.builders.person import NAME, traces
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import PATIENCE, run_after, run_simultaneously, start_after, statuses


def test_simultaneous_calls_create_the_maximum_of_unfinished_exports(shop):
    administration = shop.administration
    earlier_replies = [
        administration.request("POST", "/exports", {"kind": "members"}) for _ in range(MAX_UNFINISHED_EXPORTS - 3)
    ]
    assert statuses(earlier_replies) == {(201, None): MAX_UNFINISHED_EXPORTS - 3}
    replies = run_simultaneously([partial(administration.request, "POST", "/exports", {"kind": "members"})] * THREADS)
    assert statuses(replies) == {(201, None): 3, (409, "/problems/export-limit"): THREADS - 3}
    assert administration.get("/exports")["totalCount"] == MAX_UNFINISHED_EXPORTS == 20


def create(shop):
    """Create an export of the members; return its path."""
    return f"/exports/{shop.administration.post('/exports', {'kind': 'members'})['export']['exportId']}"


def write(shop):
    """Write the exports that wait."""
    settings = shop.organization.api.settings
    writer = ExportWriter(shop.engine, settings, is_stopping=lambda: False)
    while writer.step():
        pass


def test_an_export_that_begins_while_a_member_is_erased_has_no_row_of_the_member(shop, monkeypatch):
    member_id, path = shop.organization.member(NAME)["memberId"], create(shop)
    # The worker is ready after the erasing has removed the rows of exports, and before it is committed.
    run_after(monkeypatch, exports, "forget_rows", partial(write, shop))
    shop.administration.delete(f"/members/{member_id}", expect=200)
    write(shop)
    assert shop.administration.get(path)["export"]["status"] == "done"
    assert traces(shop.engine, organization_id=shop.organization.id) == {}


def test_an_export_that_is_created_while_a_member_is_erased_has_no_row_of_the_member(shop, monkeypatch):
    member_id, paths = shop.organization.member(NAME)["memberId"], []

    def create_and_write():
        paths.append(create(shop))
        write(shop)

    creating_thread = start_after(monkeypatch, shop, exports, "forget_rows", create_and_write)
    shop.administration.delete(f"/members/{member_id}", expect=200)
    creating_thread.join(PATIENCE)
    assert [shop.administration.get(path)["export"]["status"] for path in paths] == ["done"]
    assert traces(shop.engine, organization_id=shop.organization.id) == {}
