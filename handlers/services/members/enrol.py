"""Enrolment of members: the record, a wallet, the default tier of the default program, an event, and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from domain.events import IncomingEvent
from domain.members import Member, merged, merged_profile
from domain.triggers import CREATED
from domain.triggers import MEMBER as MEMBER_ENTITY
from handlers.call import Call
from handlers.messages.base import values_of
from handlers.messages.members import MEMBER, MemberProperties
from handlers.services.members.view import view_members
from handlers.services.webhooks.outbox import entity_changed
from persistence import members

MEMBER_CREATED = "member-created"


def enrol_member(call: Call, properties: MemberProperties, add: Callable[..., Any] = members.add_member) -> Member:
    """Insert a member by `add`.

    The caller tracks `created_event`, then tells triggers by `tell_created`.
    """
    organization = call.organization
    member: Member = add(
        call.db,
        organization.organization_id,
        ledger_id=organization.default_ledger_id,
        loyalty_program_id=organization.default_loyalty_program_id,
        wallet_key=call.new_key(),
        now=call.now,
        **{
            **values_of(properties),
            "profile": merged_profile({}, properties.profile),
            "notifications": merged({}, properties.notifications),
        },
    )[0]
    return member


def created_event(call: Call, member: Member) -> IncomingEvent:
    """The event `member-created` of a new member (integration 6)."""
    return IncomingEvent(
        system_unique_key=f"{MEMBER_CREATED}-{call.new_key()}",
        event_type=MEMBER_CREATED,
        member_id=member.member_id,
        payload={},
    )


def tell_created(call: Call, member: Member) -> None:
    """Tell the triggers that listen of a new member."""
    entity_changed(
        call, MEMBER_ENTITY, CREATED, lambda: MEMBER.dump(view_members(call, [member], with_balances=True)[0])
    )
