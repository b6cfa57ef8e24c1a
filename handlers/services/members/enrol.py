"""Enrolment of members: the records, wallets, the default tier of the default program, events, and messages.

The number of statements does not depend on the number of members.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress
from typing import Any

from sqlalchemy import Connection

from domain.events import EventOrigin, IncomingEvent
from domain.members import (
    Member,
    MemberExists,
    MemberProperties,
    member_exists,
    merge_fields,
    merge_profile,
    public_id_exists,
)
from domain.organizations import Organization
from domain.problems import Refusal
from domain.referrals import ReferralOutcome, UnknownReferralCode
from domain.tiers import HeldTier
from domain.triggers import CREATED
from domain.triggers import MEMBER as MEMBER_ENTITY
from handlers.call import Call, Execution
from handlers.messages.base import values_of
from handlers.messages.members import MEMBER
from handlers.messages.referrals import referral_results
from handlers.services.configuration import configuration_of
from handlers.services.events.track import reported_event, track
from handlers.services.members.view import view_members
from handlers.services.unit_of_work.participants.referrals import max_referral_chain
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.webhooks.outbox import queue_entity_changes
from persistence import member_tiers, members, posting, referral_uses
from persistence.referrals import REFERRAL_CODES

MEMBER_CREATED = "member-created"


@dataclass(frozen=True, slots=True)
class Enrolment:
    """The outcome for one new member: the record and the outcomes of the referral code, or a refusal."""

    loyalty_member_id: str
    record: Mapping[str, Any] | None = None
    referrals: Sequence[Mapping[str, Any]] = ()
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True)
class NewMember:
    """A member to be enrolled; `joined_at` is None for now, `tiers` has the tiers to begin with, by program id."""

    properties: MemberProperties
    joined_at: datetime | None = None
    tiers: Mapping[int, HeldTier] = field(default_factory=dict)


def enrol_members(
    call: Call, new_members: Sequence[MemberProperties], origins: Sequence[EventOrigin] | None = None
) -> list[Enrolment]:
    """Enrol members in their order; members whose id is in use are refused, the others are enrolled.

    `origins` has the request of each member, if they come from several requests.
    """
    refusals = find_refusals(call, new_members)
    is_accepted = [refusal is None for refusal in refusals]
    accepted_requests = [NewMember(properties) for properties in compress(new_members, is_accepted)]
    if origins is not None:
        origins = list(compress(origins, is_accepted))
    reason = "The member was enrolled by request."
    enrolments = iter(enrol_new_members(call, accepted_requests, reason, origins) if accepted_requests else ())
    return [
        next(enrolments) if refusal is None else Enrolment(properties.loyalty_member_id, refusal=refusal)
        for properties, refusal in zip(new_members, refusals, strict=True)
    ]


def enrol_by_calls(calls: Sequence[Call], new_members: Sequence[MemberProperties]) -> list[Enrolment | Refusal]:
    """Enrol the member of each call; return the enrolment or the refusal of each. The calls share a transaction."""
    enrolments = enrol_members(calls[0], new_members, [call.origin for call in calls])
    return [enrolment if enrolment.refusal is None else enrolment.refusal for enrolment in enrolments]


def find_refusals(execution: Execution, new_members: Sequence[MemberProperties]) -> list[MemberExists | None]:
    """Find the refusal of each new member, None if no member and no earlier new member has one of its ids."""
    public_ids = {
        properties.public_loyalty_member_id
        for properties in new_members
        if properties.public_loyalty_member_id is not None
    }
    taken_ids, taken_public_ids = members.find_taken_ids(
        execution.db,
        execution.organization.organization_id,
        {properties.loyalty_member_id for properties in new_members},
        public_ids,
    )
    refusals: list[MemberExists | None] = []
    for properties in new_members:
        if properties.loyalty_member_id in taken_ids:
            refusals.append(member_exists(properties.loyalty_member_id))
        elif properties.public_loyalty_member_id in taken_public_ids:
            refusals.append(public_id_exists(properties.public_loyalty_member_id))
        else:
            refusals.append(None)
            taken_ids.add(properties.loyalty_member_id)
            if properties.public_loyalty_member_id is not None:
                taken_public_ids.add(properties.public_loyalty_member_id)
    return refusals


def enrol_new_members(
    call: Call, new_members: Sequence[NewMember], reason: str, origins: Sequence[EventOrigin] | None = None
) -> list[Enrolment]:
    """Enrol members whose ids are free: insert them, track their events, and notify triggers.

    `reason` is the reason in the events. `origins` has the request of each member, if they come from several requests.
    """
    unit = UnitOfWork(call)
    inserted_members = add_members(call, unit, new_members)
    events = [created_event(call, member, reason) for member in inserted_members]
    results = track(unit, events, by_server=True, origins=origins)
    outcomes = [list(result.response.get("referrals", ())) for result in results]
    codes = {member.referral_code for member in inserted_members if member.referral_code is not None}
    existing_codes = (
        REFERRAL_CODES.find_values(call.db, call.organization.organization_id, code=codes) if codes else set()
    )
    records = view_members(call, inserted_members, with_balances=True)
    report_created(call, records)
    return [
        Enrolment(
            member.loyalty_member_id,
            record,
            code_outcomes or _outcomes_of_unknown_code(member.referral_code, existing_codes),
        )
        for member, record, code_outcomes in zip(inserted_members, records, outcomes, strict=True)
    ]


def _outcomes_of_unknown_code(code: str | None, existing_codes: Collection[str]) -> list[dict[str, Any]]:
    """The outcome of a referral code that no member has; empty without a code, and for one that waits for an event."""
    if code is None or code in existing_codes:
        return []
    unknown = UnknownReferralCode(f"There is no referral code {code}.")
    return referral_results([ReferralOutcome.of_refusal(code, referral_code=None, refusal=unknown)], is_dry_run=False)


def add_members(call: Call, unit: UnitOfWork, new_members: Sequence[NewMember]) -> list[Member]:
    """Insert members, and add them to the unit of work, as locked.

    The caller then tracks the `created_event` of each member, and notifies triggers by `report_created`.
    """
    members_with_tiers = insert_members(call, new_members)
    unit.adopt(members_with_tiers)
    return [member for member, _ in members_with_tiers]


def insert_members(execution: Execution, new_members: Sequence[NewMember]) -> list[tuple[Member, dict[int, HeldTier]]]:
    """Insert members without events and messages. Returns each member with the tiers, by program id."""
    db, organization, now = execution.db, execution.organization, execution.now
    rows = [
        {
            **values_of(new_member.properties),
            "profile": merge_profile(profile={}, changes=new_member.properties.profile),
            "notifications": merge_fields(fields={}, changes=new_member.properties.notifications),
            "wallet_key": execution.new_key(),
            "created_at": new_member.joined_at,
            "has_own_tier": organization.default_loyalty_program_id in new_member.tiers,
        }
        for new_member in new_members
    ]
    members_with_tiers = members.add_members(
        db,
        organization.organization_id,
        rows,
        ledger_id=organization.default_ledger_id,
        loyalty_program_id=organization.default_loyalty_program_id,
        now=now,
    )
    own_tiers = {
        (member.member_id, program_id): tier
        for (member, _), new_member in zip(members_with_tiers, new_members, strict=True)
        for program_id, tier in new_member.tiers.items()
    }
    member_tiers.add(db, organization.organization_id, own_tiers, now)
    return [
        (member, {**tiers, **new_member.tiers})
        for (member, tiers), new_member in zip(members_with_tiers, new_members, strict=True)
    ]


def created_event(call: Call, member: Member, reason: str) -> IncomingEvent:
    """The event `member-created` of a new member (integration 6); `reason` is what enrolled the member."""
    return reported_event(call, member, MEMBER_CREATED, payload={}, reason=reason)


def report_created(call: Call, records: Sequence[Mapping[str, Any]]) -> None:
    """Report new members, as records with balances, to the triggers that listen."""
    queue_entity_changes(call, MEMBER_ENTITY, CREATED, lambda: map(MEMBER.dump, records))


def lock_referrers(db: Connection, organization: Organization, wallet_id: int, event_types: Collection[str]) -> None:
    """Lock a member's wallet together with those of referrers; does nothing if no referral can be rewarded.

    If a referral program rewards derived events of these types, or of types that follow from them, all wallets are
    locked at once: wallets are the first rows in the lock order.
    """
    max_length = max_referral_chain(configuration_of(db, organization), event_types)
    if max_length:
        organization_id = organization.organization_id
        referrer_wallets = referral_uses.find_wallets_of_referrers(db, organization_id, [wallet_id], max_length)
        posting.lock_wallets(db, organization_id, {wallet_id, *referrer_wallets})
