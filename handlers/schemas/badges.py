"""Badges, balances and trackings on the wire (integration 2.4 and 4.3)."""

from __future__ import annotations

from handlers.messages.base import Instant, Plain, Shape, WireSchema


class _Writable(WireSchema):
    name = Plain()
    description = Plain()
    picture_url = Plain()
    max_amount = Plain()
    active = Plain()
    tags = Plain(load_default=list)
    custom_attributes = Plain(load_default=dict)


class _Record(_Writable):
    badge_id = Plain()
    badge_key = Plain()
    created_at = Instant()
    updated_at = Instant()


class _MemberBadge(_Record):
    assigned_balance = Plain()


class _Balance(WireSchema):
    badge_id = Plain()
    badge_key = Plain()
    member_id = Plain()
    loyalty_member_id = Plain()
    assigned_balance = Plain()


class _Grant(WireSchema):
    amount = Plain(load_default=1)
    system_unique_key = Plain()
    custom_attributes = Plain(load_default=dict)
    external_id = Plain()


BADGE_BODY = Shape(_Writable, complete=True)
BADGE_CHANGES = Shape(_Writable)
BADGE = Shape(_Record)
MEMBER_BADGE = Shape(_MemberBadge)
BALANCE = Shape(_Balance)
GRANT = Shape(_Grant, complete=True)
