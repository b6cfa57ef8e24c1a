"""An organization for a command to work in, made if there is none, with a token for its administration."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Connection, text

from handlers.settings import Settings
from persistence import organizations

TOKEN_SECONDS = 24 * 3600


def organization_with_token(
    db: Connection, settings: Settings, *, name: str, by_name: bool, lock: int
) -> tuple[int, str]:
    """The oldest organization, `by_name` of those called `name`, else a new one of that name.

    `lock` lets commands that look for the same one at once take turns.
    """
    from handlers.flows.create_organization import create_organization
    from handlers.tokens import issue_operator_token

    now = datetime.now(UTC)
    db.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": lock})
    organization_id = organizations.find_oldest(db, name if by_name else None)
    if organization_id is None:
        organization_id = create_organization(db, name=name, now=now).organization_id
    token = issue_operator_token(
        db,
        settings,
        organization_id=organization_id,
        roles=frozenset(),
        is_admin=True,
        lifetime=TOKEN_SECONDS,
        now=now,
    )
    return organization_id, token
