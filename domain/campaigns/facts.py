"""Inputs of an evaluation: facts about the event, and the executors of effects."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple


@dataclass(frozen=True, slots=True)
class EventFacts:
    """Facts about an event; `at` is the moment when it happened, used for windows and periods.

    Effects give nothing to a member or a sponsor who is not active, and take nothing from them.
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
    external_id: str | None = None
    description: str | None = None
    is_active: bool = True
    is_sponsor_active: bool = True


class Performed(NamedTuple):
    """The result of an effect: its amount, where it has one, and fields of the answer beside its status."""

    amount: Decimal | None = None
    details: Mapping[str, Any] = MappingProxyType({})


Executor = Callable[[EventFacts, Mapping[str, Any]], Performed | None]
"""Executes an effect with these parameters, or raises a Refusal and has then changed nothing."""
