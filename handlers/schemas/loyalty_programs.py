"""Loyalty programs on the wire (administration, "Loyalty program")."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.programs import LoyaltyProgram
from handlers.messages.base import OF_REQUEST, Plain, Shape, WireSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramProperties:
    """The writable fields of a loyalty program."""

    active: bool = True
    name: str | None = None
    description: str
    ledger_id: int
    tier_points_ledger_account_id: int | None = None
    main_ledger_account_id: int | None = None
    set_as_default: bool = field(default=False, metadata=OF_REQUEST)
    main_portal_id: int | None = None
    default_tier_id: int | None = field(default=None, metadata=OF_REQUEST)
    tier_policy: Mapping[str, Any] = field(default_factory=dict)
    external_key: str | None = None


class _IsDefault(WireSchema):
    set_as_default = Plain()


PROGRAM = Shape(_IsDefault, LoyaltyProgram, without=("created_at", "updated_at"))
