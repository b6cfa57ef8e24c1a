"""Setting a member's tier by hand, and giving it back to the points."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.members import Member, refuse_erased, refuse_inactive
from domain.problems import FieldFault, InvalidRequest, KeyReused
from domain.programs import LoyaltyProgram, LoyaltyTier
from domain.tiers import TierInactive, TierSchedule, TierTracking
from handlers.call import Call
from handlers.messages.derived_events import tier_payload
from handlers.services.configuration import configuration_of
from handlers.services.digests import digest_of
from handlers.services.ledger.sessions import report
from handlers.services.members.lock_wallets import lock_referrers
from handlers.services.tiers.current import points_of
from handlers.services.unit_of_work.derived_events import TIER_REMOVED, TIER_SET, DerivedEvent
from persistence import member_tiers, members


def set_tier(
    call: Call, member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, body: Mapping[str, Any]
) -> TierTracking:
    """Put the member into the tier, or where the points belong without one; answers what was kept of the request.

    Raises KeyReused, MemberInactive, TierInactive, or InvalidRequest for an `expires_at` that is past or has no tier.
    """
    organization_id = call.organization.organization_id
    lock_referrers(call.db, call.organization, member.wallet_id, (TIER_SET, TIER_REMOVED))
    locked = members.lock(call.db, member)
    refuse_erased(locked)
    key = body["system_unique_key"] or call.new_key()
    digest = _digest(member, program, tier, body)
    before = member_tiers.find_tracking(call.db, organization_id, key)
    if before is not None:
        if before.request_digest != digest:
            raise KeyReused(f"The key {key} was used for another request.")
        return before
    refuse_inactive(locked)
    _refuse(tier, body["expires_at"], call.now)
    before_tier_id, after = _move(call, member, program, tier, body)
    tracking = member_tiers.add_tracking(
        call.db,
        organization_id,
        member_id=member.member_id,
        loyalty_program_id=program.loyalty_program_id,
        loyalty_tier_id=None if tier is None else tier.loyalty_tier_id,
        answered_tier_id=after,
        expires_at=body["expires_at"],
        system_unique_key=key,
        request_digest=digest,
        external_id=body["external_id"],
        description=body["description"],
        tags=body["tags"],
        created_at=call.now,
    )
    call.audit.add(
        "member-tier",
        tracking.member_tier_tracking_id,
        before={"loyaltyTierId": before_tier_id},
        after={
            "memberId": member.member_id,
            "loyaltyProgramId": program.loyalty_program_id,
            "loyaltyTierId": after,
            "isManual": tier is not None,
            "expiresAt": body["expires_at"],
            "externalId": body["external_id"],
            "systemUniqueKey": key,
            "description": body["description"],
            "tags": body["tags"],
        },
        member_ids=(member.member_id,),
    )
    return tracking


def _digest(member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, body: Mapping[str, Any]) -> bytes:
    said = (
        member.member_id,
        program.loyalty_program_id,
        None if tier is None else tier.loyalty_tier_id,
        body["expires_at"],
        body["external_id"],
        body["description"],
        body["tags"],
    )
    return digest_of(said)


def _refuse(tier: LoyaltyTier | None, expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and tier is None:
        raise InvalidRequest([FieldFault("only a tier that is set expires", pointer="/expiresAt")])
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest([FieldFault("expiresAt must be in the future", pointer="/expiresAt")])
    if tier is not None and not tier.active:
        raise TierInactive(f"The tier {tier.name} is not active.")


def _move(
    call: Call, member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, body: Mapping[str, Any]
) -> tuple[int | None, int | None]:
    """Write the member's new place and report it; answers the tier that the member had and the one that it has now."""
    program_id, expires_at = program.loyalty_program_id, body["expires_at"]
    held = member_tiers.find(call.db, member, program_id)
    before = None if held is None else held.loyalty_tier_id
    configuration = configuration_of(call.db, call.organization)
    schedule = next((each for each in configuration.tier_schedules if each.loyalty_program_id == program_id), None)
    if schedule is None:
        # The tiers of an inactive program do not go by points.
        schedule = TierSchedule(program_id, program.loyalty_program_key, None, program.default_tier_id, (), False)
    keys = dict(configuration.tier_keys)
    if tier is not None:
        after: int | None = tier.loyalty_tier_id
        keys[tier.loyalty_tier_id] = tier.loyalty_tier_key
        member_tiers.set_by_hand(call.db, member, program_id, tier.loyalty_tier_id, expires_at=expires_at, now=call.now)
    else:
        now = schedule.place_of(points_of(call, [member])(member), call.now)
        after, expires_at = (None, None) if now is None else (now.loyalty_tier_id, now.expires_at)
        member_tiers.move(call.db, member.organization_id, {(member.member_id, program_id): now}, call.now)
    if tier is not None or after != before:
        payload = tier_payload(schedule, keys, before, after, is_manual=tier is not None, expires_at=expires_at)
        own = DerivedEvent(member.member_id, TIER_REMOVED if after is None else TIER_SET, payload)
        why = body["description"] or "The tier was set by request."
        report(call.db, call.organization, [own], call.now, call.new_key, call.request_id, why)
    return before, after
