"""Portals on the wire (administration "Records": Portal)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.portals import Portal
from handlers.messages.base import Shape


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalProperties:
    """The writable fields of a portal."""

    name: str
    active: bool
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    links: Mapping[str, Any] = field(default_factory=dict)
    theme: Mapping[str, Any] = field(default_factory=dict)
    forms: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    loyalty_program_id: int | None = None
    auth_redirect_url: str | None = None
    auth_valid_scopes: list[str] = field(default_factory=list)


PORTAL = Shape(Portal)
