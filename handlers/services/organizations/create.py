"""Creates an organization with everything that it needs for its first purchase."""

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, insert

from domain.access import INTEGRATION_ROLES
from domain.organizations import LIVE
from domain.tier_history import EVENT_DATE
from domain.tier_policies import EARNED, complete_tier_policy
from handlers.services import passwords
from persistence import organizations
from persistence.tables.ledger import ledger_accounts, ledgers
from persistence.tables.organizations import loyalty_programs, loyalty_tiers


@dataclass(frozen=True, slots=True)
class DefaultRecords:
    """The default ledger with its account, and the default program, which every organization begins with."""

    ledger_id: int
    ledger_account_id: int
    ledger_account_key: str
    loyalty_program_id: int
    loyalty_program_key: str


@dataclass(frozen=True, slots=True)
class CreatedOrganization(DefaultRecords):
    """The data that the operator needs for the new organization; the client secret cannot be read again."""

    organization_id: int
    organization_key: str
    client_id: str
    client_secret: str


def create_organization(
    db: Connection, *, name: str, now: datetime, timezone: str = "UTC", environment: str = LIVE
) -> CreatedOrganization:
    """Create the organization, its ledger, account, program, administrator and API user.

    The default ledger has the account `points`, the program a default tier, and the API user the roles that an
    integration needs.
    """
    organization = organizations.add_organization(
        db,
        organization_key=_key(),
        name=name,
        timezone=timezone,
        environment=environment,
        late_event_tiers=EVENT_DATE,
        locales=["en"],
        created_at=now,
        updated_at=now,
    )
    default_records = add_default_records(db, organization.organization_id, now)
    client_id, client_secret = _add_users(db, organization.organization_id, now)
    return CreatedOrganization(
        **asdict(default_records),
        organization_id=organization.organization_id,
        organization_key=organization.organization_key,
        client_id=client_id,
        client_secret=client_secret,
    )


def add_default_records(db: Connection, organization_id: int, now: datetime) -> DefaultRecords:
    """Add a ledger, its account and a program, and make them the defaults of the organization."""
    common_values = {"organization_id": organization_id, "created_at": now, "updated_at": now}
    ledger_id = db.execute(
        insert(ledgers).values(**common_values, ledger_key=_key(), name="Default").returning(ledgers.c.ledger_id)
    ).scalar_one()
    account = db.execute(
        insert(ledger_accounts)
        .values(
            **common_values,
            ledger_account_key=_key(),
            ledger_id=ledger_id,
            alias="points",
            name="Points",
            active=True,
            decimals=0,
            is_revolving=True,
            is_default_account=True,
            point_tracking_enabled=True,
        )
        .returning(ledger_accounts.c.ledger_account_id, ledger_accounts.c.ledger_account_key)
    ).one()
    program = _add_program(db, common_values, ledger_id, account.ledger_account_id)
    organizations.change_organization(
        db,
        organization_id,
        default_loyalty_program_id=program.loyalty_program_id,
        default_ledger_id=ledger_id,
    )
    return DefaultRecords(
        ledger_id=ledger_id,
        ledger_account_id=account.ledger_account_id,
        ledger_account_key=account.ledger_account_key,
        loyalty_program_id=program.loyalty_program_id,
        loyalty_program_key=program.loyalty_program_key,
    )


def _add_program(db: Connection, common_values: Mapping[str, Any], ledger_id: int, ledger_account_id: int) -> Row[Any]:
    """Add the default program with its default tier; return its id and key."""
    program = db.execute(
        insert(loyalty_programs)
        .values(
            **common_values,
            loyalty_program_key=_key(),
            name="Default",
            description="The program that members join unless another is named.",
            active=True,
            ledger_id=ledger_id,
            tier_points_ledger_account_id=ledger_account_id,
            main_ledger_account_id=ledger_account_id,
            # Redeeming points does not lower the tier.
            tier_policy=complete_tier_policy({"basis": EARNED}),
        )
        .returning(loyalty_programs.c.loyalty_program_id, loyalty_programs.c.loyalty_program_key)
    ).one()
    tier_id = db.execute(
        insert(loyalty_tiers)
        .values(
            **common_values,
            loyalty_tier_key=_key(),
            loyalty_program_id=program.loyalty_program_id,
            name="Member",
            active=True,
            min_required_points=Decimal(0),
            tier_order=0,
            is_default=True,
        )
        .returning(loyalty_tiers.c.loyalty_tier_id)
    ).scalar_one()
    db.execute(
        loyalty_programs.update()
        .where(
            loyalty_programs.c.organization_id == common_values["organization_id"],
            loyalty_programs.c.loyalty_program_id == program.loyalty_program_id,
        )
        .values(default_tier_id=tier_id)
    )
    return program


class ApiCredentials(NamedTuple):
    """The credentials of an API user."""

    client_id: str
    client_secret: str


def _add_users(db: Connection, organization_id: int, now: datetime) -> ApiCredentials:
    """Create the administrator, without a password yet, and the API user. Returns the API user's credentials."""
    timestamps = {"created_at": now, "updated_at": now}
    organizations.add_user(
        db,
        organization_id,
        {"is_admin": True, "roles": []},
        name="Administrator",
        auth_client_id=f"administrator-{_key()}",
        password_hash=None,
        **timestamps,
    )
    client_id = f"api-{_key()}"
    client_secret = passwords.new_secret()
    organizations.add_user(
        db,
        organization_id,
        {"is_admin": False, "roles": list(INTEGRATION_ROLES)},
        name="API user",
        auth_client_id=client_id,
        password_hash=passwords.hash_secret(client_secret),
        is_api_user=True,
        **timestamps,
    )
    return ApiCredentials(client_id, client_secret)


def _key() -> str:
    return str(uuid.uuid4())
