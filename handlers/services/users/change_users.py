"""Creating, changing and removing one user (administration "Users" 2 to 5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from domain.access import Grant, highest, merged
from domain.problems import FieldFault, InvalidRequest
from domain.users import (
    TEMPORARY_PASSWORD_LIFETIME,
    ExternalUser,
    Membership,
    PermissionNotHeld,
    User,
    UserExists,
    granted_by,
    require_held,
    require_rank,
)
from handlers.call import Call
from handlers.services import passwords
from handlers.services.users.administer_users import (
    administering,
    as_of_now,
    find_groups,
    note_change,
    refuse_shared,
    require_grantable,
)
from handlers.services.users.invitations import Invitation, queue_invitations
from persistence import users

# The fields of a user in all organizations; an administrator may change them if there is only one.
_COMMON = ("name", "nickname", "profile_picture_url", "pending_provisioning")


def create_user(call: Call, body: dict[str, Any], password_hash: str | None) -> tuple[User, str | None]:
    """Create a user of the organization. Returns it with its password, which is the given one or a new one.

    `password_hash` is that of the given password.
    """
    _refuse_contradictions(body)
    is_person, inline = body["email"] is not None, Grant(highest(body["roles"]), body["is_admin"])
    with administering(call) as held:
        groups = find_groups(call, body["permission_group_keys"])
        wanted = merged([inline, granted_by(groups), Grant(frozenset(), is_system_admin=body["is_system_admin"])])
        require_held(held, wanted, "These permissions cannot be given")
        organization_id = call.organization.organization_id
        if is_person and users.find_by_emails(call.db, organization_id, [body["email"]]):
            raise UserExists(f"The organization has a user with the address {body['email']} already.")
        password = body["password"]
        if password is None and not body["is_external"]:
            password = passwords.new_secret()
            password_hash = passwords.hash_secret(password)
        is_temporary = body["password_is_temporary"]
        if is_temporary is None:
            is_temporary = is_person and not body["is_external"] and body["password"] is None
        expires_at = call.now + TEMPORARY_PASSWORD_LIFETIME if is_temporary else None
        user_id = users.add_user(
            call.db,
            **{name: body[name] for name in (*_COMMON, "user_name", "email", "auth_client_id", "is_system_admin")},
            email_is_verified=body["email_is_verified"],
            is_external=body["is_external"],
            is_api_user=not is_person and not body["is_external"],
            password_hash=password_hash,
            password_is_temporary=is_temporary,
            password_expires_at=expires_at,
            created_at=call.now,
            updated_at=call.now,
        )
        save(call, _membership(organization_id, user_id, body["active"], inline))
        users.set_groups(call.db, organization_id, [user_id], [group.permission_group_id for group in groups])
        user = _found(call, user_id)
        note_change(call, None, user)
        if body["send_invite"]:
            secret = password if is_temporary else None
            queue_invitations(call, [Invitation.to(user, secret, expires_at)])
    return user, password


def _refuse_contradictions(body: Mapping[str, Any]) -> None:
    faults = []
    has_email, is_external = body["email"] is not None, body["is_external"]
    if is_external and body["password"] is not None:
        faults.append(FieldFault("password is given for an external user, who has none here", pointer="/password"))
    if body["password_is_temporary"] and (is_external or not has_email):
        detail = "passwordIsTemporary is true for a user without an email or a password here"
        faults.append(FieldFault(detail, pointer="/passwordIsTemporary"))
    if body["send_invite"] and not has_email:
        faults.append(FieldFault("sendInvite needs an email", pointer="/sendInvite"))
    if faults:
        raise InvalidRequest(faults)


def update_user(call: Call, user: User, body: dict[str, Any]) -> User:
    """Change the fields that are sent; memberships are added or changed, never removed."""
    items, organization_id = body["organizations"], call.organization.organization_id
    named = [item["organizationId"] for item in items]
    if len(set(named)) < len(named):
        raise InvalidRequest([FieldFault("organizations names an organization twice", pointer="/organizations")])
    assert call.caller is not None
    if set(named) - {organization_id} and not call.caller.is_system_admin:
        raise PermissionNotHeld("Only a system administrator names another organization than that of the path.")
    with administering(call, named) as held:
        user = as_of_now(call, user)
        require_rank(held, user.grant)
        _change_common(call, held, user, body)
        _reconcile(call, held, user, items, body.get("active"))
        if "permission_group_keys" in body:
            _regroup(call, held, user, body["permission_group_keys"])
        return _changed(call, user)


def _change_common(call: Call, held: Grant, user: User, body: Mapping[str, Any]) -> None:
    changed = {name: body[name] for name in _COMMON if name in body and body[name] != getattr(user, name)}
    if changed:
        refuse_shared(call, held, user, "what they share")
    is_system_admin = body.get("is_system_admin", user.is_system_admin)
    if is_system_admin != user.is_system_admin:
        require_held(held, Grant(frozenset(), is_system_admin=True), "isSystemAdmin cannot be changed")
        changed["is_system_admin"] = is_system_admin
    if changed:
        users.change_user(call.db, user.user_id, **changed, updated_at=call.now)


def _reconcile(call: Call, held: Grant, user: User, items: Sequence[Mapping[str, Any]], active: bool | None) -> None:
    organization_id = call.organization.organization_id
    present = {organization_id: user.membership}
    if any(item["organizationId"] != organization_id for item in items):
        present = {each.organization_id: each for each in users.memberships_of(call.db, [user.user_id])[user.user_id]}
    wanted = {}
    for item in items:
        before = present.get(item["organizationId"])
        inline = Grant(frozenset(), False) if before is None else before.inline
        inline = Grant(highest(item.get("roles", inline.roles)), item.get("isAdmin", inline.is_admin))
        require_grantable(held, before, inline)
        was_active = True if before is None else before.active
        wanted[item["organizationId"]] = _membership(item["organizationId"], user.user_id, was_active, inline)
    if active is not None:
        wanted[organization_id] = replace(wanted.get(organization_id, user.membership), active=active)
    users.save_memberships(call.db, list(wanted.values()), call.now)
    for other, membership in wanted.items():
        if other != organization_id:
            after = {"organizationId": other, "isAdmin": membership.is_admin, "roles": list(membership.roles)}
            call.audit.add("user", user.user_id, after=after)


def _regroup(call: Call, held: Grant, user: User, keys: Sequence[str]) -> None:
    groups = find_groups(call, keys)
    require_grantable(held, user.membership, user.membership.inline, groups)
    ids = [group.permission_group_id for group in groups]
    users.set_groups(call.db, call.organization.organization_id, [user.user_id], ids)


def set_permissions(call: Call, user: User, body: Mapping[str, Any]) -> User:
    """Replace the user's inline permissions and groups; fields that the body leaves out stay."""
    keys = body.get("permission_group_keys")
    if not keys:
        missing = [wire for wire, name in (("isAdmin", "is_admin"), ("roles", "roles")) if name not in body]
        if missing:
            detail = "{0} is missing, and permissionGroupKeys names no group"
            raise InvalidRequest([FieldFault(detail.format(name), pointer=f"/{name}") for name in missing])
    with administering(call) as held:
        user = as_of_now(call, user)
        require_rank(held, user.grant)
        before = user.membership
        inline = Grant(highest(body.get("roles", before.roles)), body.get("is_admin", before.is_admin))
        require_grantable(held, before, inline)
        save(call, _membership(before.organization_id, user.user_id, before.active, inline))
        if keys is not None:
            _regroup(call, held, user, keys)
        return _changed(call, user)


def remove_user(call: Call, user: User) -> None:
    """End the user's membership of the organization; other organizations keep theirs."""
    with administering(call) as held:
        user = as_of_now(call, user)
        require_rank(held, user.grant)
        users.remove_memberships(call.db, call.organization.organization_id, [user.user_id])
        note_change(call, user, None)


def reset_password(call: Call, user: User, permanent: bool | None, password_hash: str) -> None:
    """Give the user another password.

    Its new holder could sign in as the user, so the caller must hold all permissions of the user.
    """
    with administering(call) as held:
        user = as_of_now(call, user)
        if user.is_external:
            raise ExternalUser("The password of a user of the external issuer is not kept here.")
        if user.is_api_user and permanent is False:
            raise InvalidRequest([FieldFault("permanent is false for an API user", pointer="/permanent")])
        require_held(held, user.grant, "The user has more permissions than the caller")
        refuse_shared(call, held, user, "the password")
        until = None if permanent or user.is_api_user else call.now + TEMPORARY_PASSWORD_LIFETIME
        users.set_password(call.db, user.user_id, password_hash, temporary_until=until, now=call.now)
        # The log does not show the passwords.
        call.audit.add("user", user.user_id, before={"password": "former"}, after={"password": "new"})


def save(call: Call, membership: Membership) -> None:
    """Store the inline permissions of a membership."""
    users.save_memberships(call.db, [membership], call.now)


def _membership(organization_id: int, user_id: int, active: bool, inline: Grant) -> Membership:
    roles = tuple(sorted(inline.roles))
    return Membership(organization_id, user_id, active, inline.is_admin, roles, (), False, ())


def _changed(call: Call, before: User) -> User:
    after = _found(call, before.user_id)
    note_change(call, before, after)
    return after


def _found(call: Call, user_id: int) -> User:
    found = users.find(call.db, call.organization.organization_id, user_id)
    assert found is not None
    return found
