"""Creates, changes and removes one user (administration "Users" 2 to 5)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from domain.access import Grant, merge_grants, without_implied_roles
from domain.fields import wire_name
from domain.problems import FieldFault, InvalidRequest
from domain.users import (
    TEMPORARY_PASSWORD_LIFETIME,
    ExternalUser,
    Membership,
    PermissionNotHeld,
    User,
    UserExists,
    grant_of_groups,
    require_permissions,
    require_rank,
)
from handlers.call import Call
from handlers.messages.base import OF_REQUEST, Changes
from handlers.services import passwords
from handlers.services.users.administer_users import (
    administering,
    audit_change,
    find_groups,
    lock_user,
    refuse_change_of_shared_user,
    require_grantable,
)
from handlers.services.users.invitations import Invitation, queue_invitations
from persistence import users

# The fields that a user has in all organizations. An administrator may change them if the user has only one.
_COMMON_FIELDS = ("name", "nickname", "profile_picture_url", "pending_provisioning")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProperties:
    """The fields that a request may set for all organizations of a user."""

    name: str
    nickname: str | None = None
    profile_picture_url: str | None = None
    is_system_admin: bool
    pending_provisioning: bool
    email: str | None = None
    user_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUser(UserProperties):
    """A user to create in the organization."""

    auth_client_id: str
    active: bool
    is_admin: bool
    roles: Sequence[str]
    permission_group_keys: Sequence[str] = ()
    password: str | None = None
    password_is_temporary: bool | None = None
    send_invite: bool = False
    email_is_verified: bool = False
    is_external: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionsUpdate:
    """Permissions in the organization; None keeps the stored ones."""

    is_admin: bool | None = None
    roles: Sequence[str] | None = None
    permission_group_keys: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipUpdate:
    """The inline permissions of a user in one organization; None keeps the stored ones."""

    organization_id: int
    is_admin: bool | None = None
    roles: Sequence[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserUpdate(UserProperties):
    """A changed user; the last two fields are of the organization of the path, and None keeps the stored value."""

    auth_client_id: str | None = None
    organizations: Sequence[MembershipUpdate] = field(default=(), metadata=OF_REQUEST)
    permission_group_keys: Sequence[str] | None = field(default=None, metadata=OF_REQUEST)
    active: bool | None = field(default=None, metadata=OF_REQUEST)


def create_user(call: Call, new_user: NewUser, password_hash: str | None) -> tuple[User, str | None]:
    """Create a user of the organization; return the user and the password.

    The password is the one in `new_user`, else a generated one; None for an external user. `password_hash` is the hash
    of the password in `new_user`, None if it has none.
    """
    _refuse_contradictions(new_user)
    inline = Grant(without_implied_roles(new_user.roles), new_user.is_admin)
    with administering(call) as caller_grant:
        groups = find_groups(call, new_user.permission_group_keys)
        new_grant = merge_grants(
            [inline, grant_of_groups(groups), Grant(frozenset(), is_system_admin=new_user.is_system_admin)]
        )
        require_permissions(caller_grant, new_grant, "These permissions cannot be given")
        organization_id = call.organization.organization_id
        if new_user.email is not None and users.find_by_emails(call.db, organization_id, [new_user.email]):
            raise UserExists(f"The organization already has a user with the email address {new_user.email}.")
        password = new_user.password
        if password is None and not new_user.is_external:
            password = passwords.new_secret()
            password_hash = passwords.hash_secret(password)
        is_temporary = new_user.password_is_temporary
        if is_temporary is None:
            is_temporary = new_user.email is not None and not new_user.is_external and new_user.password is None
        expires_at = call.real_now + TEMPORARY_PASSWORD_LIFETIME if is_temporary else None
        user_id = users.add_user(
            call.db,
            **{
                name: getattr(new_user, name)
                for name in (*_COMMON_FIELDS, "user_name", "email", "auth_client_id", "is_system_admin")
            },
            email_is_verified=new_user.email_is_verified,
            is_external=new_user.is_external,
            is_api_user=new_user.email is None and not new_user.is_external,
            password_hash=password_hash,
            password_is_temporary=is_temporary,
            password_expires_at=expires_at,
            created_at=call.real_now,
            updated_at=call.real_now,
        )
        users.save_memberships(
            call.db, [new_membership(organization_id, user_id, new_user.active, inline)], call.real_now
        )
        users.set_groups(call.db, organization_id, [user_id], [group.permission_group_id for group in groups])
        user = _existing_user(call, user_id)
        audit_change(call, before=None, after=user)
        if new_user.send_invite:
            secret = password if is_temporary else None
            queue_invitations(call, [Invitation.to(user, secret, expires_at)])
    return user, password


def _refuse_contradictions(new_user: NewUser) -> None:
    """Refuse fields that exclude each other."""
    faults = []
    has_email = new_user.email is not None
    is_external = new_user.is_external
    if is_external and new_user.password is not None:
        detail = "password cannot be set for an external user, who signs in at the external issuer"
        faults.append(FieldFault(detail, pointer="/password"))
    if new_user.password_is_temporary and (is_external or not has_email):
        detail = "passwordIsTemporary needs an email, and cannot be true for an external user"
        faults.append(FieldFault(detail, pointer="/passwordIsTemporary"))
    if new_user.send_invite and not has_email:
        faults.append(FieldFault("sendInvite needs an email", pointer="/sendInvite"))
    if faults:
        raise InvalidRequest(faults)


def update_user(call: Call, user: User, changes: Changes[UserUpdate]) -> User:
    """Change the fields that are sent; memberships are added or changed, never removed."""
    membership_updates = changes.of(user).organizations
    organization_id = call.organization.organization_id
    organization_ids = [update.organization_id for update in membership_updates]
    if len(set(organization_ids)) < len(organization_ids):
        raise InvalidRequest(
            [FieldFault("organizations contains the same organization twice", pointer="/organizations")]
        )
    assert call.caller is not None
    if set(organization_ids) - {organization_id} and not call.caller.is_system_admin:
        raise PermissionNotHeld("Only a system administrator may name another organization than that of the path.")
    with administering(call, organization_ids) as caller_grant:
        user = lock_user(call, user)
        require_rank(caller_grant, user.grant)
        # Complete the changes again from the locked record: another call may have changed the user meanwhile.
        update = changes.of(user)
        _change_common_fields(call, caller_grant, user, update)
        _store_memberships(call, caller_grant, user, membership_updates, update.active)
        if update.permission_group_keys is not None:
            _replace_groups(call, caller_grant, user, update.permission_group_keys)
        return _audit_update(call, user)


def _change_common_fields(call: Call, caller_grant: Grant, user: User, update: UserUpdate) -> None:
    """Change the fields that a user has in all organizations."""
    new_values = {name: value for name in _COMMON_FIELDS if (value := getattr(update, name)) != getattr(user, name)}
    if new_values:
        refuse_change_of_shared_user(call, caller_grant, user, " and ".join(map(wire_name, new_values)))
    if update.is_system_admin != user.is_system_admin:
        require_permissions(caller_grant, Grant(frozenset(), is_system_admin=True), "isSystemAdmin cannot be changed")
        new_values["is_system_admin"] = update.is_system_admin
    if new_values:
        users.change_user(call.db, user.user_id, **new_values, updated_at=call.real_now)


def _store_memberships(
    call: Call, caller_grant: Grant, user: User, updates: Sequence[MembershipUpdate], active: bool | None
) -> None:
    """Store the memberships that an update adds or changes, and whether the user is active in the organization.

    `caller_grant` has the permissions of the caller. Raises PermissionNotHeld or UserExists.
    """
    organization_id = call.organization.organization_id
    by_organization = {organization_id: user.membership}
    if any(update.organization_id != organization_id for update in updates):
        by_organization = {
            membership.organization_id: membership
            for membership in users.find_memberships(call.db, [user.user_id])[user.user_id]
        }
    _refuse_second_address(call, user, {update.organization_id for update in updates} - by_organization.keys())
    memberships = {}
    for update in updates:
        before = by_organization.get(update.organization_id)
        inline_before = Grant(frozenset()) if before is None else before.inline
        inline = _changed_inline(inline_before, update)
        require_grantable(caller_grant, before, inline)
        is_active = True if before is None else before.active
        memberships[update.organization_id] = new_membership(update.organization_id, user.user_id, is_active, inline)
    if active is not None:
        memberships[organization_id] = replace(memberships.get(organization_id, user.membership), active=active)
    users.save_memberships(call.db, list(memberships.values()), call.real_now)
    # `_audit_update` audits the membership of the call's organization.
    for other_id, membership in memberships.items():
        if other_id != organization_id:
            after = {"organizationId": other_id, "isAdmin": membership.is_admin, "roles": list(membership.roles)}
            call.audit.add("user", user.user_id, after=after)


def _refuse_second_address(call: Call, user: User, new_organization_ids: Collection[int]) -> None:
    """Refuse to add a user to an organization that has another user with the address; raises UserExists."""
    if user.email is None or not new_organization_ids:
        return
    organization_id = users.find_organization_with_email(call.db, new_organization_ids, user.email)
    if organization_id is not None:
        raise UserExists(f"Organization {organization_id} already has a user with the email address {user.email}.")


def _replace_groups(call: Call, caller_grant: Grant, user: User, keys: Sequence[str]) -> None:
    """Replace the permission groups of a user in the organization; no `keys` remove all groups."""
    groups = find_groups(call, keys)
    require_grantable(caller_grant, user.membership, user.membership.inline, groups)
    ids = [group.permission_group_id for group in groups]
    users.set_groups(call.db, call.organization.organization_id, [user.user_id], ids)


def _changed_inline(inline: Grant, update: MembershipUpdate | PermissionsUpdate) -> Grant:
    """The inline permissions after an update, which may leave out fields."""
    roles = inline.roles if update.roles is None else update.roles
    return Grant(without_implied_roles(roles), inline.is_admin if update.is_admin is None else update.is_admin)


def set_permissions(call: Call, user: User, update: PermissionsUpdate) -> User:
    """Replace the user's inline permissions and groups.

    A request that names no group must contain `isAdmin` and `roles`. A request that names groups may leave them out;
    then they stay unchanged. An empty list of groups removes all groups.
    """
    keys = update.permission_group_keys
    if not keys:
        missing_fields = [
            name for name, value in (("isAdmin", update.is_admin), ("roles", update.roles)) if value is None
        ]
        if missing_fields:
            reason = "is required unless permissionGroupKeys names a group"
            raise InvalidRequest([FieldFault(f"{name} {reason}", pointer=f"/{name}") for name in missing_fields])
    with administering(call) as caller_grant:
        user = lock_user(call, user)
        require_rank(caller_grant, user.grant)
        before = user.membership
        inline = _changed_inline(before.inline, update)
        require_grantable(caller_grant, before, inline)
        membership = new_membership(before.organization_id, user.user_id, before.active, inline)
        users.save_memberships(call.db, [membership], call.real_now)
        if keys is not None:
            _replace_groups(call, caller_grant, user, keys)
        return _audit_update(call, user)


def remove_user(call: Call, user: User) -> None:
    """End the user's membership of the organization; memberships of other organizations stay."""
    with administering(call) as caller_grant:
        user = lock_user(call, user)
        require_rank(caller_grant, user.grant)
        users.remove_memberships(call.db, call.organization.organization_id, [user.user_id])
        audit_change(call, user, after=None)


def reset_password(call: Call, user: User, permanent: bool | None, password_hash: str) -> None:
    """Give the user another password, which is temporary unless `permanent` is true or the user is an API user.

    With the new password the caller could sign in as the user, so the caller must hold all permissions of the user.
    """
    with administering(call) as caller_grant:
        user = lock_user(call, user)
        if user.is_external:
            raise ExternalUser("The user signs in at the external issuer and has no password on this server.")
        if user.is_api_user and permanent is False:
            raise InvalidRequest([FieldFault("permanent cannot be false for an API user", pointer="/permanent")])
        require_permissions(caller_grant, user.grant, "The user has more permissions than the caller")
        refuse_change_of_shared_user(call, caller_grant, user, "the password")
        temporary_until = None if permanent or user.is_api_user else call.real_now + TEMPORARY_PASSWORD_LIFETIME
        users.set_password(call.db, user.user_id, password_hash, temporary_until=temporary_until, now=call.real_now)
        # The audit log does not contain the passwords.
        before = {"password": "former", "passwordIsTemporary": user.password_is_temporary}
        after = {"password": "new", "passwordIsTemporary": temporary_until is not None}
        call.audit.add("user", user.user_id, before=before, after=after)


def new_membership(organization_id: int, user_id: int, active: bool, inline: Grant) -> Membership:
    """A membership with inline permissions; its groups are stored separately, by `set_groups`."""
    roles = tuple(sorted(inline.roles))
    return Membership(
        organization_id,
        user_id,
        active,
        inline.is_admin,
        roles,
        permission_group_keys=(),
        group_is_admin=False,
        group_roles=(),
    )


def _audit_update(call: Call, before: User) -> User:
    """Add the change of a user to the audit log; return the user after it."""
    after = _existing_user(call, before.user_id)
    audit_change(call, before, after)
    return after


def _existing_user(call: Call, user_id: int) -> User:
    user = users.find(call.db, call.organization.organization_id, user_id)
    assert user is not None
    return user
