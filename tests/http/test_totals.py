"""How many rows lists have: exactly where it is counted quickly, never fewer than were seen."""

from __future__ import annotations

import pytest

from persistence import counts, members
from persistence.members import MemberFilter
from persistence.paging import Page
from tests.builders.imports import Imports
from tests.builders.statements import counted

COUNT = 60
# All of them, as a filter.
OF_A_TYPE = MemberFilter(member_type="guest")


@pytest.fixture
def organization(organization):
    rows = "\n".join(f"m-{number},guest" for number in range(COUNT))
    Imports(organization).run(f"loyaltyMemberId,memberType\n{rows}\n")
    return organization


@pytest.fixture
def find(organization):
    """Pages of members, in one database transaction."""
    with organization.api.engine.connect() as db:
        yield lambda page, wanted=OF_A_TYPE: members.find_page(db, organization.id, page, wanted)


def test_few_rows_are_counted(find, monkeypatch):
    for most in (COUNT, COUNT + 1):
        monkeypatch.setattr(counts, "MOST_COUNTED", most)
        assert find(Page(0, 7)).total_count == COUNT


def test_many_rows_are_not_read_to_be_counted(find, organization, monkeypatch):
    monkeypatch.setattr(counts, "MOST_COUNTED", 10)
    with organization.api.engine.connect() as db, counted(db) as statements:
        assert members.find_page(db, organization.id, Page(0, 7), OF_A_TYPE).total_count == 11
    [count] = [statement for statement in statements if statement.startswith("SELECT count(")]
    assert "LIMIT" in count


def test_a_total_is_never_less_than_what_was_seen(find, monkeypatch):
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: 1)
    for number in range(COUNT // 7):
        page = find(Page(number, 7))
        assert page.total_count == (number + 1) * 7 + 1
        assert page.next is not None
    assert (find(Page(COUNT // 7, 7)).total_count, find(Page(COUNT // 7, 7)).next) == (COUNT, None)


def test_no_total_is_more_than_a_page_behind_the_end_has_before_it(find, monkeypatch):
    monkeypatch.setattr("persistence.paging.count_rows", lambda *_: 10**6)
    assert find(Page(10, 7)).total_count == 70


def test_all_members_are_known_exactly_however_many(find, organization, monkeypatch):
    monkeypatch.setattr(counts, "MOST_COUNTED", 3)
    assert find(Page(0, 7), MemberFilter()).total_count == COUNT
    organization.member("ana")
    with organization.api.engine.connect() as db, counted(db) as statements:
        assert members.find_page(db, organization.id, Page(0, 7), MemberFilter()).total_count == COUNT + 1
    assert not [statement for statement in statements if "count(" in statement]
