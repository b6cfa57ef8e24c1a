"""Custom event types on the wire (integration 2.8)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.event_types import CustomEventType
from handlers.messages.base import Plain, Shape, WireSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class EventTypeProperties:
    """The writable fields of a custom event type; `api_code` cannot be changed after the creation."""

    api_code: str
    name: str
    description: str | None = None
    schema_type: str
    active: bool = True
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    external_key: str | None = None


class _IsCustom(WireSchema):
    is_custom_type = Plain()


EVENT_TYPE = Shape(_IsCustom, CustomEventType)
