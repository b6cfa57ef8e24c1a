"""Permissions of users: inline and by groups, and which callers may change them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from domain.access import Grant
from domain.users import (
    Membership,
    PermissionGroup,
    PermissionNotHeld,
    User,
    grant_of_groups,
    is_email,
    require_permissions,
    require_rank,
)

MEMBERSHIP = Membership(
    organization_id=1,
    user_id=2,
    active=True,
    is_admin=False,
    roles=("orders:read",),
    permission_group_keys=("tills",),
    group_is_admin=False,
    group_roles=("orders:write", "members:read"),
)
USER = User(**{**dict.fromkeys(User.__slots__, False), "active": True, "membership": MEMBERSHIP})
TILLS = PermissionGroup(
    organization_id=1,
    permission_group_id=1,
    permission_group_key="tills",
    name="Tills",
    description=None,
    is_admin=False,
    roles=("orders:write",),
    created_at=None,
    updated_at=None,
)
ADMINISTRATORS = replace(TILLS, permission_group_key="administrators", roles=("users:read",), is_admin=True)


def test_a_user_has_the_higher_role_of_inline_permissions_and_groups():
    membership = replace(MEMBERSHIP, roles=("orders:read",), group_roles=("orders:write", "members:read"))
    assert membership.inline == Grant(frozenset({"orders:read"}))
    assert membership.grant == Grant(frozenset({"orders:write", "members:read"}))
    assert replace(USER, membership=membership).grant == membership.grant


def test_a_user_is_an_administrator_inline_or_by_a_group():
    assert replace(MEMBERSHIP, is_admin=True).inline.is_admin
    assert not replace(MEMBERSHIP, group_is_admin=True).inline.is_admin
    assert replace(MEMBERSHIP, group_is_admin=True).grant.is_admin
    assert replace(USER, membership=replace(MEMBERSHIP, is_admin=True)).grant.is_admin


def test_a_system_administrator_is_one_in_every_organization():
    assert replace(USER, is_system_admin=True).grant.is_system_admin
    assert not USER.grant.is_system_admin


@pytest.mark.parametrize(
    ("changes", "administers"),
    [
        ({}, True),
        ({"active": False}, False),
        ({"pending_provisioning": True}, False),
        ({"membership": MEMBERSHIP}, False),
    ],
)
def test_only_an_active_administrator_with_a_password_administers(changes, administers):
    administrator = replace(USER, membership=replace(MEMBERSHIP, group_is_admin=True))
    assert replace(administrator, **changes).administers is administers


@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ("ana@shop.example", True),
        ("!#$%+-{}~@?A", True),
        ("ana", False),
        ("@shop.example", False),
        ("ana@", False),
        ("a@b@c", False),
        ("ana b@shop.example", False),
        ("añá@shop.example", False),
        ("ana@shop.example\n", False),
        ("a" * 242 + "@shop.example", False),
        ("a" * 241 + "@shop.example", True),
    ],
)
def test_an_email_address_has_two_parts_of_ascii_characters(text, is_valid):
    assert is_email(text) is is_valid


def test_a_group_gives_its_permissions():
    assert replace(TILLS, roles=("orders:write",)).grant == Grant(frozenset({"orders:write"}))
    assert replace(TILLS, is_admin=True).grant.is_admin


def test_a_user_has_the_permissions_of_all_groups():
    # The tills have the role orders:write, the administrators users:read.
    assert grant_of_groups([TILLS, ADMINISTRATORS]) == Grant(frozenset({"orders:write", "users:read"}), is_admin=True)
    assert grant_of_groups([TILLS, ADMINISTRATORS], excluded_keys=["administrators"]) == TILLS.grant
    assert grant_of_groups([]) == Grant(frozenset())


def test_a_caller_can_only_grant_permissions_that_they_hold():
    required_grant = Grant(frozenset({"orders:write", "coupons:read"}), is_admin=True)
    grant_of_caller = Grant(frozenset({"orders:write"}))
    with pytest.raises(PermissionNotHeld) as caught:
        require_permissions(grant_of_caller, required_grant, "The group")
    assert str(caught.value) == "The group: the caller does not have isAdmin, coupons:read."
    require_permissions(required_grant, required_grant, "The group")


def test_only_administrators_change_administrators():
    administrator, system_administrator = Grant(frozenset(), is_admin=True), Grant(frozenset(), is_system_admin=True)
    require_rank(administrator, Grant(frozenset({"users:write"}), is_admin=True))
    # Roles do not matter: a user may change users with more roles.
    require_rank(Grant(frozenset()), Grant(frozenset({"users:write"})))
    require_rank(system_administrator, administrator)
    with pytest.raises(PermissionNotHeld, match=r"The user has more permissions than the caller: .* isAdmin"):
        require_rank(Grant(frozenset({"orders:write"})), administrator)
    with pytest.raises(PermissionNotHeld, match="isSystemAdmin"):
        require_rank(administrator, system_administrator)
