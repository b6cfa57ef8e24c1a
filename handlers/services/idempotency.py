"""Digests of requests: two requests under one key are the same if their digests are."""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from types import NoneType
from typing import Any

import msgspec
from sqlalchemy import Connection

from domain.campaigns.references import Sources, named_keys
from handlers.messages.base import exact_number
from handlers.services.configuration import Configuration
from persistence import audiences

_canonical = msgspec.json.Encoder(order="deterministic").encode


def digest_of(asked: Any) -> bytes:
    """The digest of plain values; a number counts by its value, so that 10, 10.0 and 1e1 are the same."""
    return hashlib.sha256(_canonical(_by_value(asked))).digest()


# Most values are of these types, which are encoded as they are.
_UNCHANGED = frozenset({NoneType, bool, bytes, datetime, int, str})


def _by_value(asked: Any) -> Any:
    if isinstance(asked, Decimal):
        return exact_number(asked)
    if isinstance(asked, Mapping):
        return {name: value if type(value) in _UNCHANGED else _by_value(value) for name, value in asked.items()}
    if isinstance(asked, list | tuple):
        return [value if type(value) in _UNCHANGED else _by_value(value) for value in asked]
    return asked


def known_keys(db: Connection, configuration: Configuration, sources: Sources) -> dict[str, dict[str, str]]:
    """The keys of the organization with their names, by the variables of expressions that hold them."""
    accounts = {account.ledger_account_key: account.name for account in configuration.accounts.values()}
    accounts |= {
        account.alias: account.name for account in configuration.accounts.values() if account.alias is not None
    }
    named = {key.key for _, node in sources for key in named_keys(node) if key.variable == "audiences"}
    return {
        "balances": accounts,
        "balancesAfter": accounts,
        "badges": {key: badge.name for key, badge in configuration.badges.items()},
        "missions": {mission.mission.mission_key: mission.mission.name for mission in configuration.missions.values()},
        "audiences": audiences.names_by_key(db, configuration.organization_id) if named else {},
        "tiers": {key: tier.name for key, tier in configuration.tiers.items()},
    }
