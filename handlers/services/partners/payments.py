"""Payment intents of partners: find or enrol the customer, track the payment, and return its results to the partner.

All of it is one database transaction: an intent that is refused leaves neither a member nor a payment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from domain.campaigns.outcomes import EXECUTED, PARTIAL
from domain.events import IncomingEvent
from domain.ledger.postings import Posting
from domain.ledger.records import SETTLED
from domain.members import AmbiguousMember, Member, is_loyalty_member_id
from domain.partners import (
    AccountAccrual,
    MemberInfo,
    MemberNotCreated,
    PaymentExists,
    PaymentIntent,
    PaymentOutcome,
    UnknownOrganization,
    discounted,
    joined_missions,
)
from handlers.call import Call, PartnerKey
from handlers.messages.members import MEMBER_PROPERTIES, MemberProperties
from handlers.services.configuration import configuration_of
from handlers.services.events.track import track
from handlers.services.members.enrol import NewMember, add_members, created_event, tell_created
from handlers.services.members.view import view_members
from handlers.services.references import unknown_member
from handlers.services.tiers.current import current_tiers
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import members, partners, programs

PAYMENT_CONFIRMED = "member-payment-confirmed"


def create_payment_intent(call: Call, key: PartnerKey, intent: PaymentIntent) -> PaymentOutcome:
    """Track a payment and return its results (integration 2.9 and 4.7).

    Raises UnknownOrganization, PaymentExists, UnknownMember, MemberNotCreated, AmbiguousMember or MemberInactive.
    """
    organization_id = call.organization.organization_id
    if intent.organization_key.lower() != call.organization.organization_key:
        raise UnknownOrganization(f"There is no organization with the organizationKey {intent.organization_key}.")
    if partners.payment_exists(call.db, organization_id, intent.payment_id):
        raise _exists(intent)
    unit = UnitOfWork(call)
    member, is_new = _found_or_enrolled(call, unit, key, intent)
    is_claimed = partners.claim_payment(
        call.db,
        organization_id,
        payment_id=intent.payment_id,
        partner_api_key_id=key.partner_api_key_id,
        member_id=member.member_id,
        at=call.now,
    )
    if not is_claimed:
        raise _exists(intent)
    enrolment = [created_event(call, member)] if is_new else []
    payment = track(unit, [*enrolment, _payment_event(call, key, intent, member)])[-1]
    if payment.refusal is not None:
        raise payment.refusal
    if is_new:
        created = MEMBER_PROPERTIES.dump(member)
        call.audit.add("member", member.member_id, after=created, member_ids=[member.member_id])
        tell_created(call, view_members(call, [member], with_balances=True))
    return _outcome(call, intent, member, is_new, unit)


def _exists(intent: PaymentIntent) -> PaymentExists:
    return PaymentExists(f"The paymentId {intent.payment_id} belongs to another transaction.")


def _payment_event(call: Call, key: PartnerKey, intent: PaymentIntent, member: Member) -> IncomingEvent:
    return IncomingEvent(
        system_unique_key=f"{PAYMENT_CONFIRMED}-{call.new_key()}",
        event_type=PAYMENT_CONFIRMED,
        member_id=member.member_id,
        external_id=intent.payment_id,
        description=f"Payment reported by {key.name}.",
        payload=intent.payload,
    )


def _found_or_enrolled(call: Call, unit: UnitOfWork, key: PartnerKey, intent: PaymentIntent) -> tuple[Member, bool]:
    """The customer's member, and True if it is a new one."""
    found = _find(call, intent)
    if found is not None:
        return found, False
    if not intent.force_user_subscription:
        raise unknown_member(intent.loyalty_member_id)
    info = intent.member_info or MemberInfo()
    names = [f"member {intent.new_member_id}"]
    if info.user_gov_id is not None:
        names.append(f"government {info.user_gov_id}")
    partners.lock_customers(call.db, call.organization.organization_id, names)
    # Look again: other calls may have made changes until now.
    found = _find(call, intent)
    if found is not None:
        return found, False
    _refuse_uncreatable(call, intent.new_member_id, info.user_gov_id)
    properties = MemberProperties(
        loyalty_member_id=intent.new_member_id,
        channel_acquisition=key.name,
        profile=info.profile,
        custom_attributes=info.data,
    )
    # A call that enrols the same member at this moment makes this one start over, and it finds the member then.
    [member] = add_members(call, unit, [NewMember(properties)])
    return member, True


def _find(call: Call, intent: PaymentIntent) -> Member | None:
    """The member by `loyaltyMemberId`, else by the same id as a government id, else by the id of `memberInfo`."""
    organization_id = call.organization.organization_id
    known = members.find_all_by_loyalty_member_id(
        call.db, organization_id, {intent.loyalty_member_id, intent.new_member_id}
    )
    by_id = {member.loyalty_member_id: member for member in known}
    if intent.loyalty_member_id in by_id:
        return by_id[intent.loyalty_member_id]
    same = members.find_all_by_gov_id(call.db, organization_id, intent.loyalty_member_id, most=2)
    if len(same) > 1:
        raise AmbiguousMember(f"Several members have the government id {intent.loyalty_member_id}.")
    return same[0] if same else by_id.get(intent.new_member_id)


def _refuse_uncreatable(call: Call, loyalty_member_id: str, gov_id: str | None) -> None:
    if not is_loyalty_member_id(loyalty_member_id):
        raise MemberNotCreated(f"{loyalty_member_id} cannot be the loyaltyMemberId of a member.")
    if gov_id is not None and members.find_all_by_gov_id(call.db, call.organization.organization_id, gov_id, most=1):
        raise MemberNotCreated(f"The userGovId {gov_id} belongs to another member.")


def _outcome(call: Call, intent: PaymentIntent, member: Member, is_new: bool, unit: UnitOfWork) -> PaymentOutcome:
    own = [outcome for member_id, outcome in unit.outcomes if member_id == member.member_id]
    effects = [
        (effect["effectId"], {param["id"]: param["value"] for param in effect["params"]})
        for outcome in own
        for effect in outcome["effects"]
        if effect["status"] in (EXECUTED, PARTIAL)
    ]
    return PaymentOutcome(
        loyalty_member_id=member.loyalty_member_id,
        tier=_tier_name(call, member),
        is_new_member=is_new,
        accruals=_accruals(member, unit),
        missions=_with_messages(call, joined_missions(move for outcome in own for move in outcome["missions"])),
        effects=discounted(intent.total, effects),
    )


def _tier_name(call: Call, member: Member) -> str | None:
    """The name of the member's present tier in the default program."""
    program_id = call.organization.default_loyalty_program_id
    for held in current_tiers(call, [member])[member.member_id]:
        if held.loyalty_program_id == program_id:
            tier = programs.find_tier(call.db, member.organization_id, held.loyalty_tier_id)
            return None if tier is None else tier.name
    return None


def _accruals(member: Member, unit: UnitOfWork) -> list[AccountAccrual]:
    """The points moved for the member, by account, without those that had expired before."""
    if not unit.is_open:
        return []
    moved: dict[int, Decimal] = {}
    accounts = {}
    for step in unit.ledger.steps:
        if not isinstance(step, Posting) or step.is_expiry or step.status != SETTLED:
            continue
        amounts = [entry.amount for entry in step.entries if entry.wallet_id == member.wallet_id]
        if amounts:
            account = step.account
            accounts[account.ledger_account_id] = account
            moved[account.ledger_account_id] = sum(amounts, moved.get(account.ledger_account_id, Decimal(0)))
    return [
        AccountAccrual(
            ledger_account_id=account_id,
            unit_name=accounts[account_id].name,
            balance=unit.ledger.holding(member.wallet_id, account_id).current,
            new_accrual=amount,
        )
        for account_id, amount in sorted(moved.items())
    ]


def _with_messages(call: Call, outcomes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outcomes with the missions' messages for people, as `userMessage`."""
    known = configuration_of(call.db, call.organization).missions
    return [
        {
            **outcome,
            "userMessage": known[outcome["missionId"]].mission.short_description
            if outcome["missionId"] in known
            else None,
        }
        for outcome in outcomes
    ]
