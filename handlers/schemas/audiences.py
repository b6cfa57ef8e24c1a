"""Audiences on the wire (administration "Records": Audience)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from domain.audiences import CompiledAudience
from handlers.messages.base import OF_REQUEST, Instant, Part, Plain, Shape, WireSchema


class _Attributes(WireSchema):
    values = Plain()
    not_include = Plain(load_default=False)


class _Matcher(WireSchema):
    custom_attributes = Part(Shape(_Attributes, complete=True), metadata={"omit_none": True})
    tags = Plain(load_default=list)
    locations = Plain(load_default=list)
    email_domains = Plain(load_default=list)
    member_types = Plain(load_default=list)


class _Writable(WireSchema):
    organization_id = Plain()
    active = Plain(load_default=True)
    name = Plain()
    description = Plain()
    matcher_type = Plain()
    matcher = Part(Shape(_Matcher, complete=True), metadata={"omit_none": True})
    segment_key = Plain()
    refreshed_at = Instant(metadata=OF_REQUEST)
    expires_at = Instant()
    member_count = Plain()


class _Record(_Writable):
    audience_id = Plain()
    audience_key = Plain()
    version = Plain()
    created_at = Instant()
    updated_at = Instant()


class _ListChange(WireSchema):
    add = Plain(load_default=list)
    remove = Plain(load_default=list)


AUDIENCE_BODY = Shape(_Writable, complete=True)
AUDIENCE_CHANGES = Shape(_Writable)
AUDIENCE = Shape(_Record)
LIST_CHANGE = Shape(_ListChange, complete=True)


def audience_ids(found: Sequence[CompiledAudience]) -> dict[str, Any]:
    """The ids of audiences."""
    return {"audienceIds": [audience.audience_id for audience in found]}


def audience_keys(found: Sequence[CompiledAudience]) -> dict[str, Any]:
    """The keys of audiences."""
    return {"audienceKeys": [audience.audience_key for audience in found]}
