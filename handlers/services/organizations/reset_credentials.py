"""A new secret for an API user, given by an operator."""

from datetime import datetime

from sqlalchemy import Connection

from handlers.audit_trail import NOT_SHOWN
from handlers.services import passwords
from persistence import audit_log, organizations, users
from persistence.audit_log import NewEntry, Origin
from persistence.rows import as_json


class CredentialsNotFound(LookupError):
    """The organization or its API user does not exist, or it is ambiguous which one is meant."""


def reset_credentials(db: Connection, organization_id: int, client_id: str | None, now: datetime) -> tuple[str, str]:
    """Give an API user of the organization a new secret, which ends its tokens; returns client id and secret.

    Without a `client_id` the organization must have exactly one API user. Raises CredentialsNotFound.
    """
    if organizations.find(db, organization_id) is None:
        raise CredentialsNotFound(f"there is no organization {organization_id}")
    api_users = users.find_api_users(db, organization_id)
    named = [user for user in api_users if client_id in (None, user.auth_client_id)]
    if client_id is not None and not named:
        raise CredentialsNotFound(f"organization {organization_id} has no API user with the client id {client_id}")
    if len(named) != 1:
        ids = ", ".join(user.auth_client_id for user in named) or "none"
        raise CredentialsNotFound(f"--client-id has to name one of the API users of the organization: {ids}")
    [user] = named
    secret = passwords.new_secret()
    users.set_password(db, user.user_id, passwords.hash_secret(secret), temporary_until=None, now=now)
    entry = NewEntry("user", str(user.user_id), as_json({"password": {"from": NOT_SHOWN, "to": NOT_SHOWN}}))
    audit_log.add_entries(db, organization_id, now, [(Origin.by_operator("resetCredentials"), entry)])
    return user.auth_client_id, secret
