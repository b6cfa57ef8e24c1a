"""Totals of lists: exact where they are counted quickly, never less than the rows read."""

from __future__ import annotations

import pytest

from persistence import counts, members
from persistence.counts import RowCount
from tests.builders.imports import Imports
from tests.builders.statements import count_statements

COUNT = 60
# A filter that matches all members.
OF_A_TYPE = {"memberType": "guest"}
SINCE_EVER = {"fromCreatedAt": "2000-01-01T00:00:00Z"}


def page_of(number, filters):
    return {"page": number, "limit": 7, **filters}


@pytest.fixture
def organization(organization):
    rows = "\n".join(f"m-{number},guest" for number in range(COUNT))
    Imports(organization).run(f"loyaltyMemberId,memberType\n{rows}\n")
    return organization


@pytest.fixture
def find(organization):
    """Pages of members, in one database transaction."""
    with organization.api.engine.connect() as db:
        yield lambda page, filters=OF_A_TYPE, **query: members.find_page(
            db, organization.id, page_of(page, filters) | query
        )


def test_few_rows_are_counted(find, monkeypatch):
    for most in (COUNT, COUNT + 1):
        monkeypatch.setattr(counts, "MAX_COUNTED", most)
        assert find(0).total_count == COUNT


def test_many_rows_are_not_read_to_be_counted(find, organization, monkeypatch):
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


def test_no_total_is_more_than_a_page_behind_the_end_has_before_it(find, monkeypatch):
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: RowCount(10**6))
    assert find(10).total_count == 70


def test_all_members_are_known_exactly_however_many(find, organization, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 3)
    assert find(0, {}).total_count == COUNT
    organization.member("ana")
    with organization.api.engine.connect() as db, count_statements(db) as statements:
        assert members.find_page(db, organization.id, page_of(0, {})).total_count == COUNT + 1
    assert not [statement for statement in statements if "count(" in statement]


def _read_by_page(organization, path, limit, **query):
    """The rows of a list, read by page as long as the latest total promises more, and all pages."""
    rows, responses = [], []
    while not responses or len(rows) < responses[-1]["totalCount"]:
        responses.append(organization.administration.get(path, limit=limit, page=len(responses), **query))
        rows += responses[-1]["results"]
    return rows, responses


def _read_by_cursor(organization, path, limit, **query):
    """The same, where the pages after the first are found by cursor."""
    rows, responses, cursor = [], [], {}
    while not responses or len(rows) < responses[-1]["totalCount"]:
        responses.append(organization.administration.get(path, limit=limit, **query, **cursor))
        rows += responses[-1]["results"]
        cursor = {"cursor": responses[-1]["nextCursor"]}
    return rows, responses


@pytest.mark.parametrize("read_all", [_read_by_page, _read_by_cursor])
@pytest.mark.parametrize("limit", [1, 7, 10, 20, 25])
def test_paging_by_the_total_reads_a_list_beyond_the_bound_to_its_end(organization, monkeypatch, read_all, limit):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    rows, responses = read_all(organization, "/members", limit, order="memberId,asc", **SINCE_EVER)
    assert [row["loyaltyMemberId"] for row in rows] == [f"m-{number}" for number in range(COUNT)]
    *before, last = responses
    assert (last["totalCount"], "totalIsExact" in last) == (COUNT, False)
    pages = range(1, len(responses))
    assert [page["totalCount"] for page in before] == [max(11, (number + 1) * limit) for number in pages]
    assert all(page["totalIsExact"] is False for page in before)


def test_the_total_of_pages_of_several_sizes_depends_on_the_rows_so_far(find, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    first = find(0, limit=20)
    second = find(0, cursor=first.next_cursor, limit=3)
    third = find(0, cursor=second.next_cursor, limit=30)
    last = find(0, cursor=third.next_cursor, limit=30)
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


def test_a_page_behind_the_end_of_a_list_beyond_the_bound_has_no_exact_total(find, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    behind = find(10)
    assert (behind.total_count, behind.is_exact, behind.results) == (11, False, [])
