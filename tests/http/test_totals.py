"""Totals of lists: exact where they are counted quickly, never less than the rows read."""

from __future__ import annotations

import pytest

from persistence import counts, members
from persistence.counts import RowCount
from tests.builders.imports import Imports
from tests.builders.statements import count_statements
from tests.builders.users import Users

MEMBERS = 60
PAGE_SIZE = 7
# Filters that match all members.
OF_A_TYPE = {"memberType": "guest"}
SINCE_EVER = {"fromCreatedAt": "2000-01-01T00:00:00Z"}


def page_of(number, filters):
    """The query for a page of 7 members; the first page has the number 0."""
    return {"page": number, "limit": PAGE_SIZE, **filters}


@pytest.fixture
def organization(organization):
    """An organization with 60 members, whose type is guest."""
    rows = "\n".join(f"m-{number},guest" for number in range(MEMBERS))
    Imports(organization).run(f"loyaltyMemberId,memberType\n{rows}\n")
    return organization


@pytest.fixture
def find(organization):
    """A function that finds the page of a number, of 7 members unless the query has another limit."""
    with organization.api.engine.connect() as db:
        yield lambda page, filters=OF_A_TYPE, **query: members.find_page(
            db, organization.id, page_of(page, filters) | query
        )


def test_the_total_is_exact_up_to_the_maximum_of_counted_rows(find, monkeypatch):
    for maximum in (MEMBERS, MEMBERS + 1):
        monkeypatch.setattr(counts, "MAX_COUNTED", maximum)
        assert find(0).total_count == MEMBERS


def test_a_count_reads_at_most_one_row_more_than_the_maximum(find, organization, monkeypatch):
    # The count stops at the first row beyond the maximum.
    monkeypatch.setattr(counts, "MAX_COUNTED", 20)
    with organization.api.engine.connect() as db, count_statements(db) as statements:
        assert members.find_page(db, organization.id, page_of(0, OF_A_TYPE)).total_count == 20 + 1
    [count_statement] = [statement for statement in statements if statement.startswith("SELECT count(")]
    assert "LIMIT" in count_statement


def test_a_total_is_at_least_the_rows_up_to_the_page_and_one_if_more_follow(find, monkeypatch):
    # As if a count were wrong.
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: RowCount(1))
    last_number = MEMBERS // PAGE_SIZE
    for number in range(last_number):
        page = find(number)
        assert page.total_count == (number + 1) * PAGE_SIZE + 1
        assert page.next is not None
    last_page = find(last_number)
    assert (last_page.total_count, last_page.next) == (MEMBERS, None)


def test_the_total_of_an_empty_page_is_at_most_the_number_of_rows_before_it(find, monkeypatch):
    # As if a count were wrong.
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: RowCount(10**6))
    assert find(10).total_count == 10 * PAGE_SIZE


def test_the_total_of_all_members_is_exact_however_many_there_are(find, organization, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 3)
    assert find(0, {}).total_count == MEMBERS
    organization.member("ana")
    with organization.api.engine.connect() as db, count_statements(db) as statements:
        assert members.find_page(db, organization.id, page_of(0, {})).total_count == MEMBERS + 1
    # The number of all members is stored, so that no statement counts them.
    assert not any("count(" in statement for statement in statements)


def test_the_total_of_a_list_of_very_many_users_is_not_exact(organization, monkeypatch):
    users = Users.of(organization)
    for _ in range(3):
        users.create()
    monkeypatch.setattr(counts, "MAX_COUNTED", 2)
    page = users.surface.get("/users", includeAPIUsers=True, limit=1)
    assert (page["totalCount"], page["totalIsExact"]) == (3, False)


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
    assert [row["loyaltyMemberId"] for row in rows] == [f"m-{number}" for number in range(MEMBERS)]
    *earlier_pages, last_page = responses
    # An exact total is not marked.
    assert last_page["totalCount"] == MEMBERS
    assert "totalIsExact" not in last_page
    for number, page in enumerate(earlier_pages, 1):
        # The rows so far and one more page, but at least the rows that were counted.
        assert page["totalCount"] == max(10 + 1, (number + 1) * limit)
        assert page["totalIsExact"] is False


def test_the_total_of_pages_of_several_sizes_depends_on_the_rows_so_far(find, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    page_of_20 = find(0, limit=20)
    page_of_3 = find(0, cursor=page_of_20.next_cursor, limit=3)
    page_of_30 = find(0, cursor=page_of_3.next_cursor, limit=30)
    last_page = find(0, cursor=page_of_30.next_cursor, limit=30)
    # The rows so far and one more page of the size, but at least the total of the page before: 23 + 3 is less than 40.
    assert (page_of_20.total_count, page_of_20.is_exact) == (20 + 20, False)
    assert (page_of_3.total_count, page_of_3.is_exact) == (40, False)
    assert (page_of_30.total_count, page_of_30.is_exact) == (53 + 30, False)
    assert (last_page.total_count, last_page.is_exact) == (MEMBERS, True)


def test_the_member_list_of_the_integration_interface_marks_a_total_that_is_not_exact(organization, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    first_page = organization.integration.get("/members", limit=25, **SINCE_EVER)
    # The rows so far and one more page.
    assert (first_page["total"], first_page["totalIsExact"]) == (25 + 25, False)
    second_page = organization.integration.get("/members", limit=25, **SINCE_EVER, cursor=first_page["nextCursor"])
    assert (second_page["total"], second_page["totalIsExact"]) == (50 + 25, False)
    last_page = organization.integration.get("/members", limit=25, **SINCE_EVER, cursor=second_page["nextCursor"])
    assert (last_page["total"], len(last_page["results"])) == (MEMBERS, MEMBERS - 50)
    assert "totalIsExact" not in last_page


def test_an_empty_page_of_a_list_beyond_the_maximum_count_has_no_exact_total(find, monkeypatch):
    monkeypatch.setattr(counts, "MAX_COUNTED", 10)
    # Page 10 of 7 members would begin after 70 rows.
    empty_page = find(10)
    assert (empty_page.total_count, empty_page.is_exact, empty_page.results) == (10 + 1, False, [])
