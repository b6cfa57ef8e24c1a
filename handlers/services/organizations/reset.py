"""Empties a test organization, resets its credentials, and checks the `organizationId` of a body."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from domain.organizations import TEST
from domain.problems import FieldFault, InvalidRequest
from domain.test_clocks import NotATestOrganization
from handlers.audit_trail import NOT_SHOWN
from handlers.call import Call
from handlers.services import passwords
from handlers.services.organizations.create import ApiCredentials, DefaultRecords, add_default_records
from persistence import audit_log, organizations, resetting, users
from persistence.audit_log import NewEntry, Origin
from persistence.rows import as_json


@dataclass(frozen=True, slots=True)
class ResetOrganization:
    """The number of rows that were removed, and the records that the organization has now."""

    removed_count: int
    records: DefaultRecords


def reset_organization(db: Connection, organization_id: int, now: datetime) -> ResetOrganization:
    """Remove all records of a test organization except its users, and add the default records of a new one.

    Raises NotATestOrganization.
    """
    organization = resetting.lock(db, organization_id)
    if organization is None or organization.environment != TEST:
        raise NotATestOrganization(f"The organization {organization_id} is not a test organization.")
    removed_count = resetting.remove_records(db, organization_id)
    records = add_default_records(db, organization_id, now)
    organizations.increment_configuration_version(db, organization_id)
    entry = NewEntry("organization", str(organization_id), "{}")
    entries = [(Origin.by_operator("resetOrganization"), entry)]
    audit_log.add_entries(db, organization_id, now, entries, test_clock=organization.clock_now)
    return ResetOrganization(removed_count, records)


class CredentialsNotFound(LookupError):
    """The organization or its API user does not exist, or it is ambiguous which one is meant."""


def reset_credentials(db: Connection, organization_id: int, client_id: str | None, now: datetime) -> ApiCredentials:
    """Give an API user of the organization a new secret, which ends its tokens; return the credentials.

    Without a `client_id` the organization must have exactly one API user. Raises CredentialsNotFound.
    """
    organization = organizations.find(db, organization_id)
    if organization is None:
        raise CredentialsNotFound(f"there is no organization {organization_id}")
    api_users = users.find_api_users(db, organization_id)
    matching_users = [user for user in api_users if client_id in (None, user.auth_client_id)]
    if client_id is not None and not matching_users:
        raise CredentialsNotFound(f"organization {organization_id} has no API user with the client id {client_id}")
    if len(matching_users) != 1:
        ids = ", ".join(user.auth_client_id for user in matching_users) or "none"
        raise CredentialsNotFound(f"--client-id has to name one of the API users of the organization: {ids}")
    [user] = matching_users
    secret = passwords.new_secret()
    users.set_password(db, user.user_id, passwords.hash_secret(secret), temporary_until=None, now=now)
    entry = NewEntry("user", str(user.user_id), as_json({"password": {"from": NOT_SHOWN, "to": NOT_SHOWN}}))
    entries = [(Origin.by_operator("resetCredentials"), entry)]
    audit_log.add_entries(db, organization_id, now, entries, test_clock=organization.clock_now)
    return ApiCredentials(user.auth_client_id, secret)


def refuse_other_organization(call: Call, organization_id: int | None) -> None:
    """Refuse a body whose `organizationId` is not the organization of the path; None is allowed."""
    if organization_id is not None and organization_id != call.organization.organization_id:
        raise InvalidRequest(
            [FieldFault("organizationId is not the organization of the path", pointer="/organizationId")]
        )
