"""The size of the records that every process keeps in memory for the events of an organization."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, bindparam, func, select, union_all

from domain.campaigns.records import RUNNING
from persistence.connections import fetch_rows
from persistence.rows import bytes_of_texts, compile_statement
from persistence.tables.badges import badges
from persistence.tables.campaigns import audiences, campaign_actions, campaigns, matchers, stacking_groups
from persistence.tables.events import custom_event_types
from persistence.tables.ledger import ledger_accounts
from persistence.tables.missions import missions
from persistence.tables.organizations import loyalty_programs, loyalty_tiers
from persistence.tables.referrals import referral_programs
from persistence.tables.triggers import triggers

BYTES_OF_RECORD = 2_048
"""The size of a record without its texts: about the memory that a process needs for a mission with a short name."""


def _select_size(table: Table, *conditions: ColumnElement[bool]) -> Select[Any]:
    """The SELECT of the total size of an organization's rows: BYTES_OF_RECORD for each, and the bytes of its texts."""
    size_of_row = BYTES_OF_RECORD + bytes_of_texts(table.c)
    of_organization = table.c.organization_id == bindparam("organization_id")
    return select(func.sum(size_of_row).label("size")).where(of_organization, *conditions)


_SIZES = union_all(
    *map(_select_size, (badges, custom_event_types, ledger_accounts, loyalty_programs, loyalty_tiers)),
    *map(_select_size, (matchers, missions, referral_programs, stacking_groups)),
    _select_size(audiences, audiences.c.active),
    _select_size(campaigns, campaigns.c.active),
    _select_size(campaign_actions, campaign_actions.c.status == RUNNING),
    _select_size(triggers, triggers.c.active),
).subquery("sizes")
# Prepared, since the database takes longer to plan this statement than to execute it.
_TOTAL = compile_statement(select(func.coalesce(func.sum(_SIZES.c.size), 0)))


def configuration_bytes(db: Connection, organization_id: int) -> int:
    """The size of an organization's active configuration: of its records, and of their texts, lists and JSON values."""
    [(size,)] = fetch_rows(db, _TOTAL, {"organization_id": organization_id})
    return int(size)
