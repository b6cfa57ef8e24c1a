"""Grants: how they are narrowed, merged, limited and compared, and which permissions imply others."""

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


@pytest.mark.parametrize("roles", [{"orders:write"}, {"orders:read"}, {"members:read", "orders:write"}])
def test_a_grant_is_narrowed_to_fewer_roles(roles):
    assert narrow_grant(TILL, roles) == Grant(frozenset(roles))


@pytest.mark.parametrize("roles", [{"members:write"}, {ADMIN}, {"orders:write", "coupons:read"}, {"nonsense"}, {""}])
def test_a_grant_is_not_narrowed_to_other_roles(roles):
    assert narrow_grant(TILL, roles) is None


def test_an_administrator_who_requests_roles_is_no_administrator():
    assert narrow_grant(ADMINISTRATOR, ROLES) == Grant(ROLES)
    assert narrow_grant(OPERATOR, {"users:write"}) == Grant(frozenset({"users:write"}))


def test_an_administrator_who_requests_an_unknown_role_gets_no_grant():
    assert narrow_grant(ADMINISTRATOR, {"everything"}) is None


def test_an_administrator_may_request_to_stay_one():
    assert narrow_grant(ADMINISTRATOR, {ADMIN}) == ADMINISTRATOR
    assert narrow_grant(OPERATOR, {ADMIN, "users:read"}) == Grant(
        frozenset({"users:read"}), is_admin=True, is_system_admin=True
    )


def test_the_scopes_of_a_grant_are_its_sorted_roles_or_only_admin():
    assert TILL.scopes == ("members:read", "orders:write")
    assert OPERATOR.scopes == (ADMIN,)


GRANTS = st.builds(Grant, st.frozensets(st.sampled_from(sorted(ROLES))), st.booleans(), st.booleans())


def implied_permissions(grant):
    """All permissions that a grant includes or implies, by a simple model."""
    if grant.is_admin or grant.is_system_admin:
        roles = set(ROLES) | {ADMIN}
    else:
        roles = {role for role in ROLES if role in grant.roles or role.replace(":read", ":write") in grant.roles}
    return roles | ({"system"} if grant.is_system_admin else set())


@given(st.lists(GRANTS, max_size=4))
def test_merged_grants_allow_what_their_parts_allow_without_repetition(grants):
    merged_grant = merge_grants(grants)
    assert implied_permissions(merged_grant) == set().union(*map(implied_permissions, grants))
    # A role to write implies the role to read.
    repeated_roles = {role.replace(":write", ":read") for role in merged_grant.roles if role.endswith(":write")}
    assert repeated_roles & merged_grant.roles == set()
    assert merge_grants([merged_grant, *reversed(grants)]) == merged_grant


@given(GRANTS, GRANTS)
def test_a_token_is_limited_to_the_current_permissions_of_its_user(token_grant, user_grant):
    permissions_of_both = implied_permissions(token_grant) & implied_permissions(user_grant)
    assert implied_permissions(limit_grant(token_grant, user_grant)) == permissions_of_both


@given(GRANTS, GRANTS)
def test_permissions_are_missing_exactly_if_the_new_grant_exceeds_the_held_one(held_grant, new_grant):
    is_included = implied_permissions(new_grant) <= implied_permissions(held_grant)
    assert (missing_permissions(held_grant, new_grant) == []) is is_included


@given(GRANTS, GRANTS)
def test_the_added_permissions_turn_the_old_grant_into_the_new_one(old_grant, new_grant):
    added_grant = added_permissions(old_grant, new_grant)
    assert implied_permissions(new_grant) <= implied_permissions(merge_grants([old_grant, added_grant]))
    assert implied_permissions(added_grant) <= implied_permissions(new_grant)
    assert added_permissions(old_grant, old_grant) == Grant(frozenset())
