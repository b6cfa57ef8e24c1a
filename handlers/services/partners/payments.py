"""Payment intents of partners: find or enrol the customer, track the payment, and return its results to the partner.

This is one database transaction: a refused intent leaves neither a member nor a payment.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from domain.campaigns.outcomes import EXECUTED, PARTIAL
from domain.event_types import PAYMENT_CONFIRMED
from domain.events import EventOrigin, IncomingEvent
from domain.ledger.postings import Posting
from domain.ledger.records import SETTLED
from domain.members import AmbiguousMember, Member, MemberProperties, is_loyalty_member_id
from domain.partners import (
    AccountAccrual,
    MemberInfo,
    MemberNotCreated,
    PaymentIntent,
    PaymentOutcome,
    UnknownOrganization,
    merge_missions,
    payment_effects,
    payment_exists,
)
from domain.problems import Refusal, Unauthorized
from domain.tiers import MemberTier
from handlers.call import Call, NotBatchable, PartnerKey
from handlers.messages.members import MEMBER_PROPERTIES
from handlers.services.configuration import configuration_of
from handlers.services.events.track import track
from handlers.services.members.enrol import NewMember, add_members, created_event, report_created
from handlers.services.members.view import current_tiers, view_members
from handlers.services.references import unknown_member
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import members, partners
from persistence.members import MEMBERS


def create_payment_intents(
    calls: Sequence[Call], intents: Sequence[PaymentIntent]
) -> list[PaymentOutcome | Refusal | NotBatchable]:
    """Track the payment of each call and return its results (integration 2.9 and 4.7).

    The refusal of a payment is UnknownOrganization, PaymentExists, UnknownMember, MemberNotCreated, AmbiguousMember or
    MemberInactive. Among several calls, a call is NotBatchable if its member is not found by the `loyaltyMemberId`, or
    if an earlier call has the same member or payment. A refusal is raised, not returned, if tracking refuses a
    payment, or if the member of a single call is not found by the `loyaltyMemberId`. Raises NotBatchable if a payment
    rewards the member of another one.
    """
    call = calls[0]
    organization_id = call.organization.organization_id
    unit = UnitOfWork(call)
    # The outcome of each call by its position in the batch; NotBatchable until the call has another outcome.
    outcomes: dict[int, PaymentOutcome | Refusal | NotBatchable] = dict.fromkeys(range(len(calls)), NotBatchable())
    loyalty_member_ids = {intent.loyalty_member_id for intent in intents}
    existing_members = {
        member.loyalty_member_id: member
        for member in MEMBERS.find_all(call.db, organization_id, loyalty_member_id=loyalty_member_ids)
    }
    payments_by_id: dict[str, _Payment] = {}
    member_ids_of_payments: set[int] = set()
    for position, (call_of_payment, intent) in enumerate(zip(calls, intents, strict=True)):
        key = _key_of(call_of_payment)
        if intent.organization_key.lower() != call.organization.organization_key:
            outcomes[position] = UnknownOrganization(
                f"There is no organization with the organizationKey {intent.organization_key}."
            )
            continue
        member = existing_members.get(intent.loyalty_member_id)
        is_new = False
        if member is None and len(calls) == 1:
            if partners.find_payments(call.db, organization_id, [intent.payment_id]):
                raise payment_exists(intent.payment_id)
            member, is_new = _find_or_enrol(call, unit, key, intent)
        if member is None or member.member_id in member_ids_of_payments or intent.payment_id in payments_by_id:
            continue
        payments_by_id[intent.payment_id] = _Payment(position, call_of_payment, key, intent, member, is_new)
        member_ids_of_payments.add(member.member_id)
    claims = [
        partners.PaymentClaim(payment_id, payment.member.member_id, payment.key.partner_api_key_id)
        for payment_id, payment in payments_by_id.items()
    ]
    new_claims = partners.claim_payments(call.db, organization_id, claims, call.now)
    for payment_id in payments_by_id.keys() - new_claims:
        refused_payment = payments_by_id.pop(payment_id)
        outcomes[refused_payment.position] = payment_exists(payment_id)
    if payments_by_id:
        outcomes |= _track(unit, [*payments_by_id.values()])
    return list(outcomes.values())


@dataclass(frozen=True, slots=True)
class _Payment:
    """A payment to be tracked: the position of its call, the partner's key, and the member, who may be a new one."""

    position: int
    call: Call
    key: PartnerKey
    intent: PaymentIntent
    member: Member
    is_new: bool


def _key_of(call: Call) -> PartnerKey:
    """The API key of the partner that calls; raises Unauthorized."""
    if call.caller is None or call.caller.partner is None:
        raise Unauthorized("This operation needs the API key of a partner.")
    return call.caller.partner


def _track(unit: UnitOfWork, payments: Sequence[_Payment]) -> dict[int, PaymentOutcome]:
    """Track the payments of a batch; return the outcome of each call by its position in the batch.

    A batch has either one payment, whose member may be new, or payments of several existing members.
    """
    events: list[IncomingEvent] = []
    origins: list[EventOrigin] = []
    for payment in payments:
        if payment.is_new:
            reason = "The member was enrolled by a partner's payment."
            events.append(created_event(payment.call, payment.member, reason))
            origins.append(payment.call.origin)
        payment_event = IncomingEvent(
            system_unique_key=f"{PAYMENT_CONFIRMED}-{payment.call.new_key()}",
            event_type=PAYMENT_CONFIRMED,
            member_id=payment.member.member_id,
            external_id=payment.intent.payment_id,
            description=f"Payment reported by {payment.key.name}.",
            payload=payment.intent.payload,
        )
        events.append(payment_event)
        origins.append(payment.call.origin)
    # `create_payment_intents` has claimed the ids of the payments.
    results = track(unit, events, origins=origins, claims_payments=False)
    for event, result in zip(events, results, strict=True):
        # The failure of a `member-created` event does not refuse the enrolment, as in `enrol_new_members`.
        if result.refusal is not None and event.event_type == PAYMENT_CONFIRMED:
            raise result.refusal
    if len(payments) > 1:
        _refuse_shared_rewards(unit, {payment.member.wallet_id: payment.member.member_id for payment in payments})
    for payment in payments:
        if payment.is_new:
            created_values = MEMBER_PROPERTIES.dump(payment.member)
            payment.call.audit.add(
                "member", payment.member.member_id, after=created_values, member_ids=[payment.member.member_id]
            )
            report_created(payment.call, view_members(payment.call, [payment.member], with_balances=True))
    tiers = current_tiers(payments[0].call, [payment.member for payment in payments])
    return {payment.position: _outcome(payment, unit, tiers[payment.member.member_id]) for payment in payments}


def _refuse_shared_rewards(unit: UnitOfWork, members_by_wallet: Mapping[int, int]) -> None:
    """Raise NotBatchable if the payment of a member moved points of another member; wallets and members are ids."""
    if not unit.is_open:
        return
    owners = {outcome.loyalty_event_id: outcome.member_id for outcome in unit.outcomes}
    for step in unit.ledger.steps:
        if isinstance(step, Posting) and step.details.loyalty_event_id is not None:
            owner = owners.get(step.details.loyalty_event_id)
            # Wallets of members without a payment do not matter, nor entries without a wallet.
            if any(members_by_wallet.get(entry.wallet_id or 0, owner) != owner for entry in step.entries):
                raise NotBatchable("a payment rewards the member of another payment")


def _find_or_enrol(call: Call, unit: UnitOfWork, key: PartnerKey, intent: PaymentIntent) -> tuple[Member, bool]:
    """Find or enrol the customer; return the member, and True if it is a new one."""
    existing_member = _find(call, intent)
    if existing_member is not None:
        return existing_member, False
    if not intent.force_user_subscription:
        raise unknown_member(intent.loyalty_member_id)
    gov_id = intent.new_gov_id
    # Another payment of the same customer may give the new member another loyaltyMemberId.
    lock_names = [f"member {intent.loyalty_member_id}", f"member {intent.new_member_id}"]
    if gov_id is not None:
        lock_names.append(f"government {gov_id}")
    partners.lock_customers(call.db, call.organization.organization_id, lock_names)
    # Search again: another call may have enrolled the customer before this one had the lock.
    existing_member = _find(call, intent)
    if existing_member is not None:
        return existing_member, False
    _refuse_uncreatable(call, intent.new_member_id, gov_id)
    member_info = intent.member_info or MemberInfo()
    properties = MemberProperties(
        loyalty_member_id=intent.new_member_id,
        channel_acquisition=key.name,
        profile=member_info.profile(gov_id),
        custom_attributes=member_info.data,
    )
    # If another call enrols the same member at this moment, this call is retried, and then finds the member.
    [member] = add_members(call, unit, [NewMember(properties)])
    return member, True


def _find(call: Call, intent: PaymentIntent) -> Member | None:
    """The member with the `loyaltyMemberId`, or else this text as government id, or else the `new_member_id`.

    None if there is none; raises AmbiguousMember if several members have the government id.
    """
    organization_id = call.organization.organization_id
    members_with_id = MEMBERS.find_all(
        call.db, organization_id, loyalty_member_id={intent.loyalty_member_id, intent.new_member_id}
    )
    by_id = {member.loyalty_member_id: member for member in members_with_id}
    if intent.loyalty_member_id in by_id:
        return by_id[intent.loyalty_member_id]
    by_gov_id = members.find_all_by_gov_id(call.db, organization_id, intent.loyalty_member_id, limit=2)
    if len(by_gov_id) > 1:
        raise AmbiguousMember(f"Several members have the government id {intent.loyalty_member_id}.")
    return by_gov_id[0] if by_gov_id else by_id.get(intent.new_member_id)


def _refuse_uncreatable(call: Call, loyalty_member_id: str, gov_id: str | None) -> None:
    """Refuse to enrol a customer with an invalid id, or with the government id of a member."""
    if not is_loyalty_member_id(loyalty_member_id):
        raise MemberNotCreated(f"{loyalty_member_id} cannot be the loyaltyMemberId of a member.")
    if gov_id is not None and members.find_all_by_gov_id(call.db, call.organization.organization_id, gov_id, limit=1):
        raise MemberNotCreated(f"The userGovId {gov_id} belongs to another member.")


def _outcome(payment: _Payment, unit: UnitOfWork, member_tiers: Sequence[MemberTier]) -> PaymentOutcome:
    """The outcome of a payment, from the evaluated events of its member."""
    call, member = payment.call, payment.member
    results = [outcome.response for outcome in unit.outcomes if outcome.member_id == member.member_id]
    effects = [effect for result in results for effect in result["effects"] if effect["status"] in (EXECUTED, PARTIAL)]
    return PaymentOutcome(
        loyalty_member_id=member.loyalty_member_id,
        tier=_tier_name(call, member_tiers),
        is_new_member=payment.is_new,
        accruals=_accruals(member, unit),
        missions=_with_messages(call, merge_missions(mission for result in results for mission in result["missions"])),
        effects=payment_effects(payment.intent.total, effects),
    )


def _tier_name(call: Call, member_tiers: Sequence[MemberTier]) -> str | None:
    """The name of the member's tier in the default program; None if the member has no tier in this program."""
    program_id = call.organization.default_loyalty_program_id
    configuration = configuration_of(call.db, call.organization)
    keys = (
        configuration.tier_keys[tier.loyalty_tier_id] for tier in member_tiers if tier.loyalty_program_id == program_id
    )
    return next((configuration.tiers[key].name for key in keys), None)


def _accruals(member: Member, unit: UnitOfWork) -> list[AccountAccrual]:
    """The changes of the member's points in each account, without expired and pending points."""
    if not unit.is_open:
        return []
    accruals: dict[int, Decimal] = {}
    accounts = {}
    # The steps before these were due before the payment. A capture makes points available that waited for the payment.
    for step in unit.ledger.steps[unit.ledger_events.due_step_count :]:
        if isinstance(step, Posting) and (step.is_expiry or step.status != SETTLED):
            continue
        amounts = [entry.amount for entry in step.entries if entry.wallet_id == member.wallet_id]
        if any(amounts):
            account = step.account
            accounts[account.ledger_account_id] = account
            accruals[account.ledger_account_id] = sum(amounts, accruals.get(account.ledger_account_id, Decimal(0)))
    return [
        AccountAccrual(
            ledger_account_id=account_id,
            unit_name=accounts[account_id].name,
            balance=unit.ledger.holding(member.wallet_id, account_id).effective,
            new_accrual=amount,
        )
        for account_id, amount in sorted(accruals.items())
    ]


def _with_messages(call: Call, outcomes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The outcomes of missions, each with the short description of its mission as `userMessage`, None if unknown."""
    missions = configuration_of(call.db, call.organization).missions
    outcomes_with_messages = []
    for outcome in outcomes:
        compiled = missions.get(outcome["missionId"])
        message = None if compiled is None else compiled.mission.short_description
        outcomes_with_messages.append({**outcome, "userMessage": message})
    return outcomes_with_messages
