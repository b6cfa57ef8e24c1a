"""Portals on the wire (administration "Records": Portal)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handlers.messages.base import Body, Instant, Plain, Shape, WireSchema


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


class _Record(WireSchema):
    portal_id = Plain()
    public_id = Plain()
    organization_id = Plain()
    created_at = Instant()
    updated_at = Instant()


PORTAL_BODY = Body(PortalProperties)
PORTAL = Shape(PortalProperties, _Record)
