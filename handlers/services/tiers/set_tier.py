"""Setting a member's tier by hand, and returning it to the points."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from domain.event_types import TIER_REMOVED, TIER_SET
from domain.idempotency import ResultsByKey
from domain.members import Member, refuse_inactive
from domain.problems import FieldFault, InvalidRequest
from domain.programs import LoyaltyProgram, LoyaltyTier
from domain.tiers import TierInactive, TierTracking
from handlers.call import Call
from handlers.services.idempotency import digest_of
from handlers.services.unit_of_work.requests import unit_of_work
from persistence import member_tiers


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSetting:
    """The details of a request that sets a tier."""

    expires_at: datetime | None = None
    external_id: str | None = None
    system_unique_key: str | None = None
    description: str | None = None
    tags: Sequence[str] = ()


def set_tier(
    call: Call, member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, asked: TierSetting
) -> TierTracking:
    """Set the member's tier, or return it to the points if `tier` is None. Returns the record of the request.

    Raises KeyReused, MemberInactive, TierInactive, or InvalidRequest for an `expires_at` that is past or has no tier.
    """
    organization_id = call.organization.organization_id
    key = asked.system_unique_key or call.new_key()
    digest = _digest(member, program, tier, asked)
    reason = asked.description or "The tier was set by request."
    with unit_of_work(call, [member.member_id], reason, reported=(TIER_SET, TIER_REMOVED)) as unit:
        before = member_tiers.find_tracking(call.db, organization_id, key)
        if before is not None:
            ResultsByKey([(key, before.request_digest, before)]).find(key, digest)
            return before
        refuse_inactive(unit.members[member.member_id])
        _refuse(tier, asked.expires_at, call.now)
        before_tier_id, after = unit.tiers.assign(member.member_id, program, tier, asked.expires_at)
        tracking = member_tiers.add_tracking(
            call.db,
            organization_id,
            member_id=member.member_id,
            loyalty_program_id=program.loyalty_program_id,
            loyalty_tier_id=None if tier is None else tier.loyalty_tier_id,
            answered_tier_id=after,
            expires_at=asked.expires_at,
            system_unique_key=key,
            request_digest=digest,
            external_id=asked.external_id,
            description=asked.description,
            tags=asked.tags,
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
                "expiresAt": asked.expires_at,
                "externalId": asked.external_id,
                "systemUniqueKey": key,
                "description": asked.description,
                "tags": asked.tags,
            },
            member_ids=(member.member_id,),
        )
        return tracking


def _digest(member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, asked: TierSetting) -> bytes:
    content = (
        member.member_id,
        program.loyalty_program_id,
        None if tier is None else tier.loyalty_tier_id,
        asked.expires_at,
        asked.external_id,
        asked.description,
        asked.tags,
    )
    return digest_of(content)


def _refuse(tier: LoyaltyTier | None, expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and tier is None:
        raise InvalidRequest([FieldFault("expiresAt is given without a tier", pointer="/expiresAt")])
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest([FieldFault("expiresAt is not in the future", pointer="/expiresAt")])
    if tier is not None and not tier.active:
        raise TierInactive(f"The tier {tier.name} is not active.")
