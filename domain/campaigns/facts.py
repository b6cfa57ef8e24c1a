"""What an evaluation is told of an event, and what it calls to have an effect done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class EventFacts:
    """What the evaluation knows of an event: `at` is when it happened, which windows and periods go by.

    Nothing is given to a member or a sponsor who is not active, and nothing taken from them.
    """

    event_type: str
    loyalty_event_id: int
    key: str
    at: datetime
    external_event_date: datetime | None
    member_id: int
    wallet_id: int
    sponsor_member_id: int | None
    sponsor_wallet_id: int | None
    spend: Decimal | None
    location_code: str | None
    tier_keys: frozenset[str]
    audience_keys: frozenset[str]
    context: Mapping[str, Any]
    is_active: bool = True
    is_sponsor_active: bool = True


class Performed(NamedTuple):
    """What an effect did: how much, where it has an amount, and what the answer tells of it beside its status."""

    amount: Decimal | None = None
    details: Mapping[str, Any] = MappingProxyType({})


Executor = Callable[[EventFacts, Mapping[str, Any]], Performed | None]
"""Carries out an effect with these parameters, or raises a Refusal and has then changed nothing."""
