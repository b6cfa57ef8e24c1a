from __future__ import annotations

import pytest

from domain.access import ADMIN, ROLES, Grant, narrowed

TILL = Grant(frozenset({"orders:write", "members:read"}))
ADMINISTRATOR = Grant(frozenset(), is_admin=True)
OPERATOR = Grant(frozenset(), is_admin=True, is_system_admin=True)


@pytest.mark.parametrize("wanted", [{"orders:write"}, {"orders:read"}, {"members:read", "orders:write"}])
def test_less_than_is_held(wanted):
    assert narrowed(TILL, wanted) == Grant(frozenset(wanted))


@pytest.mark.parametrize("wanted", [{"members:write"}, {ADMIN}, {"orders:write", "coupons:read"}, {"nonsense"}, {""}])
def test_more_than_is_held(wanted):
    assert narrowed(TILL, wanted) is None


def test_an_administrator_who_asks_for_less_is_none_then():
    assert narrowed(ADMINISTRATOR, ROLES) == Grant(ROLES)
    assert narrowed(OPERATOR, {"users:write"}) == Grant(frozenset({"users:write"}))
    assert narrowed(ADMINISTRATOR, {"everything"}) is None


def test_an_administrator_who_asks_to_stay_one():
    assert narrowed(ADMINISTRATOR, {ADMIN}) == ADMINISTRATOR
    assert narrowed(OPERATOR, {ADMIN, "users:read"}) == Grant(frozenset({"users:read"}), True, True)


def test_a_grant_as_scopes():
    assert TILL.scopes == ("members:read", "orders:write")
    assert OPERATOR.scopes == (ADMIN,)
