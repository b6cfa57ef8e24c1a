"""Item matchers on the wire (administration "Records": Matcher)."""

from __future__ import annotations

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Writable(WireSchema):
    organization_id = Plain()
    name = Plain()
    type = Plain()
    matcher = Plain()


class _Record(_Writable):
    matcher_id = Plain()
    matcher_key = Plain()
    created_at = Instant()
    updated_at = Instant()


MATCHER_BODY = Shape(_Writable, complete=True)
MATCHER_CHANGES = Shape(_Writable)
MATCHER = Shape(_Record)
