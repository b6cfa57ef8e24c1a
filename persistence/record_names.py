"""The names of records of the configuration, by the keys that responses contain instead of them."""

from collections.abc import Collection

from sqlalchemy import Connection, select, union_all

from persistence.tables.badges import badges
from persistence.tables.campaigns import campaigns
from persistence.tables.coupons import coupon_books
from persistence.tables.ledger import ledger_accounts
from persistence.tables.missions import missions
from persistence.tables.organizations import loyalty_programs, loyalty_tiers

_KEYS = (
    badges.c.badge_key,
    campaigns.c.campaign_key,
    coupon_books.c.coupon_book_key,
    ledger_accounts.c.ledger_account_key,
    loyalty_programs.c.loyalty_program_key,
    loyalty_tiers.c.loyalty_tier_key,
    missions.c.mission_key,
)


def find_names(db: Connection, organization_id: int, keys: Collection[str]) -> dict[str, str]:
    """The names of the organization's records with these keys, by key; other keys are left out."""
    if not keys:
        return {}
    statement = union_all(
        *(
            select(key, key.table.c.name).where(key.table.c.organization_id == organization_id, key.in_(list(keys)))
            for key in _KEYS
        )
    )
    return dict(map(tuple, db.execute(statement)))
