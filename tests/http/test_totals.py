"""Totals of lists: exact where they are counted quickly, never less than the rows read."""

from __future__ import annotations

import pytest

from persistence import counts, members
from persistence.counts import RowCount
from tests.builders.imports import Imports
from tests.builders.statements import count_statements

COUNT = 60
# Filters that match all members.
OF_A_TYPE = {"memberType": "guest"}
SINCE_EVER = {"fromCreatedAt": "2000-01-01T00:00:00Z"}


def page_of(number, filters):
    """The query for a page of 7 members."""
    return {"page": number, "limit": 7, **filters}


@pytest.fixture
def organization(organization):
    rows = "\n".join(f"m-{number},guest" for number in range(COUNT))
    Imports(organization).run(f"loyaltyMemberId,memberType\n{rows}\n")
    return organization


@pytest.fixture
def find(organization):
    """A function that finds pages of members, in one database transaction."""
    with organization.api.engine.connect() as db:
        yield lambda page, filters=OF_A_TYPE, **query: members.find_page(
            db, organization.id, page_of(page, filters) | query
        )


def test_the_total_is_exact_up_to_the_maximum_of_counted_rows(find, monkeypatch):
    for maximum in (COUNT, COUNT + 1):
        monkeypatch.setattr(counts, "MAX_COUNTED", maximum)
        assert find(0).total_count == COUNT


def test_a_count_reads_at_most_one_row_more_than_the_maximum(find, organization, monkeypatch):
    # The count stops at the first row beyond the maximum.
    monkeypatch.setattr(counts, "MAX_COUNTED", 20)
    with organization.api.engine.connect() as db, count_statements(db) as statements:
        assert members.find_page(db, organization.id, page_of(0, OF_A_TYPE)).total_count == 21
    [count] = [statement for statement in statements if statement.startswith("SELECT count(")]
    assert "LIMIT" in count


def test_a_total_is_at_least_the_rows_up_to_the_page_and_one_if_more_follow(find, monkeypatch):
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: RowCount(1))
    for number in range(COUNT // 7):
        page = find(number)
        assert page.total_count == (number + 1) * 7 + 1
        assert page.next is not None
    assert (find(COUNT // 7).total_count, find(COUNT // 7).next) == (COUNT, None)


def test_the_total_of_an_empty_page_is_at_most_the_number_of_rows_before_it(find, monkeypatch):
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: RowCount(10**6))
    assert find(10).total_count == 70


def test_the_total_of_all_members_is_exact_however_many_there_are(find, organization, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 3)
    assert find(0, {}).total_count == COUNT
    organization.member("ana")
    with organization.api.engine.connect() as db, count_statements(db) as statements:
        assert members.find_page(db, organization.id, page_of(0, {})).total_count == COUNT + 1
    assert not [statement for statement in statements if "count(" in statement]


def _read_by_page(organization, path, limit, **query):
    """Read a list by page while the latest total promises more rows; return the rows and the responses."""
    rows, responses = [], []
    while not responses or len(rows) < responses[-1]["totalCount"]:
        responses.append(organization.administration.get(path, limit=limit, page=len(responses), **query))
        rows += responses[-1]["results"]
    return rows, responses


def _read_by_cursor(organization, path, limit, **query):
    """Read a list as `_read_by_page` does, with cursors for the pages after the first."""
    rows, responses, cursor = [], [], {}
    while not responses or len(rows) < responses[-1]["totalCount"]:
        responses.append(organization.administration.get(path, limit=limit, **query, **cursor))
        rows += responses[-1]["results"]
        cursor = {"cursor": responses[-1]["nextCursor"]}
    return rows, responses


@pytest.mark.parametrize("read_all", [_read_by_page, _read_by_cursor])
@pytest.mark.parametrize("limit", [1, 7, 10, 20, 25])
def test_paging_by_the_total_reads_a_list_beyond_the_maximum_count_to_its_end(
    organization, monkeypatch, read_all, limit
):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    rows, responses = read_all(organization, "/members", limit, order="memberId,asc", **SINCE_EVER)
    assert [row["loyaltyMemberId"] for row in rows] == [f"m-{number}" for number in range(COUNT)]
    *earlier_pages, last = responses
    assert (last["totalCount"], "totalIsExact" in last) == (COUNT, False)
    pages = range(1, len(responses))
    # The rows so far and one more page, but at least the rows that were counted.
    assert [page["totalCount"] for page in earlier_pages] == [max(11, (number + 1) * limit) for number in pages]
    assert all(page["totalIsExact"] is False for page in earlier_pages)


def test_the_total_of_pages_of_several_sizes_depends_on_the_rows_so_far(find, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    first = find(0, limit=20)
    second = find(0, cursor=first.next_cursor, limit=3)
    third = find(0, cursor=second.next_cursor, limit=30)
    last = find(0, cursor=third.next_cursor, limit=30)
    # The rows so far and one more page of the size, but at least the total of the page before:
    # 20 + 20, then 23 + 3, which is less than 40, then 53 + 30.
    assert [page.total_count for page in (first, second, third, last)] == [40, 40, 83, COUNT]
    assert [page.is_exact for page in (first, second, third, last)] == [False, False, False, True]


def test_the_member_list_of_the_integration_interface_marks_a_total_that_is_not_exact(organization, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    first = organization.integration.get("/members", limit=25, **SINCE_EVER)
    assert (first["total"], first["totalIsExact"]) == (50, False)
    second = organization.integration.get("/members", limit=25, **SINCE_EVER, cursor=first["nextCursor"])
    assert (second["total"], second["totalIsExact"]) == (75, False)
    last = organization.integration.get("/members", limit=25, **SINCE_EVER, cursor=second["nextCursor"])
    assert (last["total"], "totalIsExact" in last, len(last["results"])) == (COUNT, False, 10)


def test_an_empty_page_of_a_list_beyond_the_maximum_count_has_no_exact_total(find, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    empty_page = find(10)
    assert (empty_page.total_count, empty_page.is_exact, empty_page.results) == (11, False, [])
