from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.access import (
    ADMIN,
    ROLES,
    Grant,
    added_permissions,
    limit_grant,
    merge_grants,
    missing_permissions,
    narrow_grant,
)

TILL = Grant(frozenset({"orders:write", "members:read"}))
ADMINISTRATOR = Grant(frozenset(), is_admin=True)
OPERATOR = Grant(frozenset(), is_admin=True, is_system_admin=True)


@pytest.mark.parametrize("wanted", [{"orders:write"}, {"orders:read"}, {"members:read", "orders:write"}])
def test_less_than_is_held(wanted):
    assert narrow_grant(TILL, wanted) == Grant(frozenset(wanted))


@pytest.mark.parametrize("wanted", [{"members:write"}, {ADMIN}, {"orders:write", "coupons:read"}, {"nonsense"}, {""}])
def test_more_than_is_held(wanted):
    assert narrow_grant(TILL, wanted) is None


def test_an_administrator_who_asks_for_less_is_none_then():
    assert narrow_grant(ADMINISTRATOR, ROLES) == Grant(ROLES)
    assert narrow_grant(OPERATOR, {"users:write"}) == Grant(frozenset({"users:write"}))
    assert narrow_grant(ADMINISTRATOR, {"everything"}) is None


def test_an_administrator_who_asks_to_stay_one():
    assert narrow_grant(ADMINISTRATOR, {ADMIN}) == ADMINISTRATOR
    assert narrow_grant(OPERATOR, {ADMIN, "users:read"}) == Grant(frozenset({"users:read"}), True, True)


def test_a_grant_as_scopes():
    assert TILL.scopes == ("members:read", "orders:write")
    assert OPERATOR.scopes == (ADMIN,)


GRANTS = st.builds(Grant, st.frozensets(st.sampled_from(sorted(ROLES))), st.booleans(), st.booleans())


def amounts_to(grant):
    """Everything that a grant allows, said one by one: a naive model."""
    if grant.is_admin or grant.is_system_admin:
        allowed = set(ROLES) | {ADMIN}
    else:
        allowed = {role for role in ROLES if role in grant.roles or role.replace(":read", ":write") in grant.roles}
    return allowed | ({"system"} if grant.is_system_admin else set())


@given(st.lists(GRANTS, max_size=4))
def test_what_is_merged_allows_what_its_parts_allow_and_says_it_shortly(grants):
    found = merge_grants(grants)
    assert amounts_to(found) == set().union(*map(amounts_to, grants))
    assert not any(role.replace(":write", ":read") in found.roles for role in found.roles if role.endswith(":write"))
    assert merge_grants([found, *reversed(grants)]) == found


@given(GRANTS, GRANTS)
def test_a_token_is_limited_to_what_its_user_has_by_now(claimed, current):
    assert amounts_to(limit_grant(claimed, current)) == amounts_to(claimed) & amounts_to(current)


@given(GRANTS, GRANTS)
def test_what_is_lacking_is_what_could_not_be_given(held, wanted):
    assert (missing_permissions(held, wanted) == []) == (amounts_to(wanted) <= amounts_to(held))


@given(GRANTS, GRANTS)
def test_what_a_change_adds_leads_from_one_grant_to_the_other(before, after):
    assert amounts_to(merge_grants([before, added_permissions(before, after)])) >= amounts_to(after)
    assert not amounts_to(added_permissions(before, after)) - amounts_to(after)
    assert added_permissions(before, before) == Grant(frozenset())
