"""Finds or creates an organization for a command, and issues a token for it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from handlers.settings import Settings

TOKEN_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Tenant:
    """An organization; `credentials` (client id and secret of its API user) are set only if it was just created."""

    organization_id: int
    credentials: tuple[str, str] | None


def find_or_create(db: Connection, *, name: str, by_name: bool, lock: int) -> Tenant:
    """Find the oldest organization; create one called `name` if there is none.

    With `by_name`, it is the oldest one of this name. `lock` is a key that serializes commands which look for the same
    organization.
    """
    from handlers.services.organizations.create import create_organization
    from persistence import organizations

    db.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock})
    organization_id = organizations.find_oldest(db, name if by_name else None)
    if organization_id is not None:
        return Tenant(organization_id, credentials=None)
    organization = create_organization(db, name=name, now=datetime.now(UTC))
    return Tenant(organization.organization_id, (organization.client_id, organization.client_secret))


def new_operator_token(
    db: Connection, settings: Settings, organization_id: int, lifetime: int = TOKEN_SECONDS, **rights: Any
) -> str:
    """Issue a token of the operator for the organization, with only these rights."""
    from handlers.services.tokens import issue_operator_token

    return issue_operator_token(
        db,
        settings,
        organization_id=organization_id,
        lifetime=lifetime,
        now=datetime.now(UTC),
        **{"roles": frozenset(), "is_admin": False, **rights},
    )
