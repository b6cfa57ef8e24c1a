"""Adds, reassigns and removes users by address, each with its own outcome (administration "Users" 4).

The number of statements does not depend on the number of addresses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from domain.access import Grant, merge_grants, without_implied_roles
from domain.problems import FieldFault, InvalidRequest, Refusal
from domain.users import (
    TEMPORARY_PASSWORD_LIFETIME,
    LastAdministrator,
    Membership,
    PermissionGroup,
    UnknownUser,
    User,
    UserExists,
    grant_of_groups,
    is_email,
    require_permissions,
    require_rank,
)
from handlers.call import Call
from handlers.services import passwords
from handlers.services.users.administer_users import administering, audit_change, find_groups
from handlers.services.users.change_users import PermissionsUpdate, new_membership
from handlers.services.users.invitations import Invitation, has_invitation_trigger, queue_invitations
from persistence import users
from persistence.rows import reserve_ids

ADDED, REASSIGNED, REMOVED, FAILED = "added", "reassigned", "removed", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class UsersToChange(PermissionsUpdate):
    """The addresses of users, and the permissions that they get."""

    emails: Sequence[str]


@dataclass(frozen=True, slots=True)
class UserOutcome:
    """The outcome for one address; `error` is its refusal if it failed."""

    email: str
    status: str
    error: Refusal | None = None


def add_many(call: Call, request: UsersToChange, send_invite: bool) -> list[UserOutcome]:
    """Create a user for each new address, to be provisioned later; invited users get a temporary password."""
    with administering(call) as caller_grant:
        groups = find_groups(call, request.permission_group_keys or ())
        inline = Grant(without_implied_roles(request.roles or ()), bool(request.is_admin))
        require_permissions(
            caller_grant, merge_grants([inline, grant_of_groups(groups)]), "These permissions cannot be given"
        )
        existing_emails = set(users.find_by_emails(call.db, call.organization.organization_id, request.emails))
        new_emails: list[str] = []

        def add(email: str) -> None:
            """Note that a user with this address is to be added."""
            if not is_email(email):
                raise InvalidRequest([FieldFault(f"email {email} is not an email address")])
            if email.lower() in existing_emails:
                raise UserExists(f"The organization already has a user with the email address {email}.")
            existing_emails.add(email.lower())
            new_emails.append(email)

        outcomes = _act_one_by_one(request.emails, ADDED, add)
        with_invitation = send_invite and has_invitation_trigger(call)
        _insert(call, new_emails, inline, groups, with_invitation)
    return outcomes


def _insert(
    call: Call, emails: Sequence[str], inline: Grant, groups: Sequence[PermissionGroup], with_invitation: bool
) -> None:
    """Insert users, `with_invitation` with temporary passwords and messages to invite them."""
    organization_id = call.organization.organization_id
    expires_at = call.real_now + TEMPORARY_PASSWORD_LIFETIME
    ids = reserve_ids(call.db, users=len(emails))["users"]
    rows, invitations = [], []
    for user_id, email in zip(ids, emails, strict=True):
        secret = passwords.new_secret() if with_invitation else None
        row = {
            "user_id": user_id,
            "name": email,
            "email": email,
            "email_is_verified": False,
            "auth_client_id": f"user-{call.new_key()}",
            "password_hash": None if secret is None else passwords.hash_secret(secret),
            "password_is_temporary": secret is not None,
            "password_expires_at": None if secret is None else expires_at,
            "pending_provisioning": True,
            "created_at": call.real_now,
            "updated_at": call.real_now,
        }
        rows.append(row)
        call.audit.add("user", user_id, after=_audit_values(row, inline, groups))
        if secret is not None:
            invitations.append(
                Invitation(
                    user_id=user_id,
                    name=email,
                    email=email,
                    auth_client_id=str(row["auth_client_id"]),
                    temporary_password=secret,
                    expires_at=expires_at,
                )
            )
    users.add_users(call.db, rows)
    memberships = [new_membership(organization_id, user_id, active=True, inline=inline) for user_id in ids]
    users.save_memberships(call.db, memberships, call.real_now)
    users.set_groups(call.db, organization_id, ids, [group.permission_group_id for group in groups])
    queue_invitations(call, invitations)


def _audit_values(row: Mapping[str, Any], inline: Grant, groups: Sequence[PermissionGroup]) -> dict[str, Any]:
    """The new user in the audit log, with the same fields as for `createUser`."""
    return {
        "name": row["name"],
        "email": row["email"],
        "authClientId": row["auth_client_id"],
        "active": True,
        "isSystemAdmin": False,
        "isApiUser": False,
        "isExternal": False,
        "pendingProvisioning": row["pending_provisioning"],
        "isAdmin": inline.is_admin,
        "roles": sorted(inline.roles),
        "permissionGroupKeys": sorted(group.permission_group_key for group in groups),
    }


def reassign_many(call: Call, request: UsersToChange) -> list[UserOutcome]:
    """Set the permissions of the users with these addresses; permissions that the request leaves out stay."""
    keys = request.permission_group_keys
    organization_id = call.organization.organization_id
    if keys is None and request.roles is None and request.is_admin is None:
        detail = "The request changes nothing: send at least one of isAdmin, roles and permissionGroupKeys"
        raise InvalidRequest([FieldFault(detail, pointer="")])
    with administering(call) as caller_grant:
        groups = find_groups(call, keys or ())
        inline = Grant(without_implied_roles(request.roles or ()), bool(request.is_admin))
        by_groups = grant_of_groups(groups)
        require_permissions(caller_grant, merge_grants([inline, by_groups]), "These permissions cannot be given")
        users_by_email = users.find_by_emails(call.db, organization_id, request.emails)
        guard = _AdministratorGuard(call)
        memberships: dict[int, Membership] = {}

        def reassign(email: str) -> None:
            """Replace the permissions of the user with this address."""
            user = _user_of(users_by_email, email)
            require_rank(caller_grant, user.grant)
            membership = user.membership
            if request.is_admin is not None:
                membership = replace(membership, is_admin=inline.is_admin)
            if request.roles is not None:
                membership = replace(membership, roles=tuple(sorted(inline.roles)))
            if keys is not None:
                membership = replace(
                    membership,
                    permission_group_keys=tuple(sorted(keys)),
                    group_is_admin=by_groups.is_admin,
                    group_roles=tuple(sorted(by_groups.roles)),
                )
            after = replace(user, membership=membership)
            guard.change(user, administers=after.administers)
            users_by_email[email.lower()] = after
            memberships[user.user_id] = membership
            audit_change(call, user, after)

        outcomes = _act_one_by_one(request.emails, REASSIGNED, reassign)
        users.save_memberships(call.db, list(memberships.values()), call.real_now)
        if keys is not None:
            users.set_groups(
                call.db, organization_id, list(memberships), [group.permission_group_id for group in groups]
            )
    return outcomes


def remove_many(call: Call, request: UsersToChange) -> list[UserOutcome]:
    """End the memberships of the users with these addresses."""
    organization_id = call.organization.organization_id
    with administering(call) as caller_grant:
        users_by_email = users.find_by_emails(call.db, organization_id, request.emails)
        guard = _AdministratorGuard(call)
        user_ids: list[int] = []

        def remove(email: str) -> None:
            """Note that the user with this address is to be removed."""
            user = _user_of(users_by_email, email)
            require_rank(caller_grant, user.grant)
            guard.change(user, administers=False)
            # If the request repeats the address, it fails the second time.
            del users_by_email[email.lower()]
            user_ids.append(user.user_id)
            audit_change(call, user, after=None)

        outcomes = _act_one_by_one(request.emails, REMOVED, remove)
        users.remove_memberships(call.db, organization_id, user_ids)
    return outcomes


class _AdministratorGuard:
    """Tracks who is an administrator, so that the last one cannot be removed."""

    def __init__(self, call: Call) -> None:
        organization_id = call.organization.organization_id
        self._administrators = {user_id for _, user_id in users.find_administrators(call.db, [organization_id])}

    def change(self, user: User, *, administers: bool) -> None:
        """Record whether the user is an administrator from now on; raises LastAdministrator if no one else is."""
        if administers:
            self._administrators.add(user.user_id)
        elif self._administrators == {user.user_id}:
            raise LastAdministrator(f"{user.email} is the only active administrator of the organization.")
        else:
            self._administrators.discard(user.user_id)


def _user_of(users_by_email: Mapping[str, User], email: str) -> User:
    user = users_by_email.get(email.lower())
    if user is None:
        raise UnknownUser(f"The organization has no user with the email address {email}.")
    return user


def _act_one_by_one(emails: Sequence[str], success_status: str, act: Callable[[str], None]) -> list[UserOutcome]:
    """Call `act` for one address after the other; return the outcome of each, a refusal or `success_status`."""
    outcomes = []
    for email in emails:
        try:
            act(email)
        except Refusal as refusal:
            outcomes.append(UserOutcome(email, FAILED, refusal))
        else:
            outcomes.append(UserOutcome(email, success_status))
    return outcomes
