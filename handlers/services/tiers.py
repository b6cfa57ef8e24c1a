"""Sets tiers of members by request, and evaluates tiers again when they expire."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from domain.event_types import TIER_REMOVED, TIER_SET
from domain.idempotency import refuse_reuse
from domain.members import Member, refuse_inactive
from domain.organizations import Organization
from domain.problems import FieldFault, InvalidRequest
from domain.programs import LoyaltyProgram, LoyaltyTier, TierInactive
from domain.tier_log import TierTracking
from domain.tiers import FIXED, FLOOR, TierHold
from handlers.call import Call, Execution
from handlers.messages.json_text import digest_of
from handlers.services.unit_of_work.evaluation import evaluate_derived
from handlers.services.unit_of_work.requests import unit_of_work
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.wallet_batches import MAX_DUE_ROWS, MAX_EXPIRED_LOTS, MAX_WALLETS
from persistence import ledger_lots, member_tiers
from persistence.member_tiers import TRACKINGS


@dataclass(frozen=True, slots=True, kw_only=True)
class TierSetting:
    """The details of a request that sets a tier; `tier_hold` is `fixed` by default."""

    expires_at: datetime | None = None
    tier_hold: str | None = None
    external_id: str | None = None
    system_unique_key: str | None = None
    description: str | None = None
    tags: Sequence[str] = ()


def set_tier(
    call: Call, member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, setting: TierSetting
) -> TierTracking:
    """Set the member's tier; if `tier` is None, let it depend on the points again. Returns the record of the request.

    Raises KeyReused, MemberInactive, TierInactive, or InvalidRequest for an `expires_at` in the past or without a tier.
    """
    organization_id = call.organization.organization_id
    key = setting.system_unique_key or call.new_key()
    digest = _digest(member, program, tier, setting)
    reason = setting.description or "The tier was set by request."
    with unit_of_work(call, [member.member_id], reason, reported_types=(TIER_SET, TIER_REMOVED)) as unit:
        earlier_tracking = TRACKINGS.find_by(call.db, organization_id, system_unique_key=key)
        if earlier_tracking is not None:
            refuse_reuse(key, earlier_tracking.request_digest, digest)
            return earlier_tracking
        refuse_inactive(unit.members[member.member_id])
        _check_setting(tier, setting, call.now)
        hold = None
        if tier is not None:
            hold = TierHold(tier.loyalty_tier_id, setting.expires_at, setting.tier_hold or FIXED)
        previous_tier_id, new_tier_id = unit.tiers.assign(
            member.member_id, program, tier, hold, external_id=setting.external_id, tags=setting.tags
        )
        values = {
            "member_id": member.member_id,
            "loyalty_program_id": program.loyalty_program_id,
            "loyalty_tier_id": None if tier is None else tier.loyalty_tier_id,
            "answered_tier_id": new_tier_id,
            "expires_at": setting.expires_at,
            "system_unique_key": key,
            "request_digest": digest,
            "external_id": setting.external_id,
            "description": setting.description,
            "tags": setting.tags,
            "tier_hold": None if hold is None else hold.kind,
        }
        tracking = TRACKINGS.add(call.db, organization_id, values, call.now)
        call.audit.add(
            "member-tier",
            tracking.member_tier_tracking_id,
            before={"loyaltyTierId": previous_tier_id},
            after={
                "memberId": member.member_id,
                "loyaltyProgramId": program.loyalty_program_id,
                "loyaltyTierId": new_tier_id,
                "isManual": tier is not None,
                "tierHold": None if hold is None else hold.kind,
                "expiresAt": setting.expires_at,
                "externalId": setting.external_id,
                "systemUniqueKey": key,
                "description": setting.description,
                "tags": setting.tags,
            },
            member_ids=(member.member_id,),
        )
        return tracking


def _digest(member: Member, program: LoyaltyProgram, tier: LoyaltyTier | None, setting: TierSetting) -> bytes:
    """The digest of a request, by which its repetition is recognized."""
    content: tuple[Any, ...] = (
        member.member_id,
        program.loyalty_program_id,
        None if tier is None else tier.loyalty_tier_id,
        setting.expires_at,
        setting.external_id,
        setting.description,
        setting.tags,
    )
    # Earlier versions had only fixed tiers: without a floor, the digest is the same, so that they are still recognized.
    return digest_of((*content, FLOOR) if setting.tier_hold == FLOOR else content)


def _check_setting(tier: LoyaltyTier | None, setting: TierSetting, now: datetime) -> None:
    """Refuse an expiry or a hold without a tier, an expiry in the past, and an inactive tier."""
    fields = {"expiresAt": setting.expires_at, "tierHold": setting.tier_hold}
    faults = [
        FieldFault(f"{name} needs a tier", pointer=f"/{name}")
        for name, value in fields.items()
        if value is not None and tier is None
    ]
    if faults:
        raise InvalidRequest(faults)
    if setting.expires_at is not None and setting.expires_at <= now:
        raise InvalidRequest([FieldFault("expiresAt is not in the future", pointer="/expiresAt")])
    if tier is not None and not tier.active:
        raise TierInactive(f"The tier {tier.name} is not active.")


@dataclass(frozen=True, slots=True)
class EvaluatedTiers:
    """The numbers of evaluated members and of changed tiers; the next step begins after `last_wallet_id`."""

    last_wallet_id: int
    members: int
    moves: int


def evaluate_next(
    db: Connection,
    organization: Organization,
    after: int,
    now: datetime,
    *,
    everyone: bool,
    limit: int = MAX_WALLETS,
) -> EvaluatedTiers | None:
    """Evaluate the tiers of the next members, in the order of their wallet ids, after the wallet id `after`.

    These are all members if `everyone`, else the members with an expired tier. The expiry of at most
    `MAX_EXPIRED_LOTS` lots is posted first. If the members have more than `MAX_DUE_ROWS` points that expire by
    inactivity or become available, the last members are left to the next step. Returns the numbers of members and
    changes, None if there are no more members.
    """
    organization_id = organization.organization_id
    if everyone:
        wallet_ids = member_tiers.find_next_wallets(db, organization_id, after, limit)
    else:
        wallet_ids = member_tiers.find_next_wallets_with_lapsed_tier(db, organization_id, after, now, limit)
    if not wallet_ids:
        return None
    execution = Execution(
        db=db, organization=organization, now=now, request_id="evaluate-tiers", max_expired_lots=MAX_EXPIRED_LOTS
    )
    unit = UnitOfWork(execution)
    accounts = unit.configuration.accounts
    idle_accounts = [account_id for account_id, account in accounts.items() if account.expiration_policies]
    wallet_ids = ledger_lots.limit_due_rows(db, organization_id, wallet_ids, idle_accounts, now, MAX_DUE_ROWS)
    # Load the owners in any case: a tier that was set ends by itself, even if the points decide no tier.
    unit.lock_wallets(wallet_ids, accounts, loads_owners=True)
    # Points that are due cause events, too.
    due_events = unit.open_for_request(account_ids=accounts, settled_accounts=accounts if everyone else ())
    evaluate_derived(unit, due_events)
    unit.flush()
    move_count = sum(event.event_type in (TIER_SET, TIER_REMOVED) for event in due_events)
    return EvaluatedTiers(wallet_ids[-1], len(unit.members), move_count)
