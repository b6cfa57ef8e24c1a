"""Referrals in a unit of work: the codes of events, the rewards of both sides, and reversals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import Connection

from domain.campaigns.context import EventFacts
from domain.campaigns.outcomes import EXECUTED, FAILED, PARTIAL, SKIPPED
from domain.events import MAX_DEPTH, IncomingEvent
from domain.ledger.availability import Availability, Wait
from domain.ledger.postings import Details
from domain.ledger.refusals import UnknownLedgerAccount
from domain.orders import Order
from domain.problems import Conflict, Refusal
from domain.referrals import (
    APPLIED,
    REFERRER,
    CodeUse,
    ProgramWithRewards,
    ReferralCode,
    ReferralLog,
    ReferralOutcome,
    ReferralReward,
    ReferralUsageState,
    RewardOutcome,
    UnknownReferralCode,
    refuse_referral,
)
from domain.retries import StartOver
from domain.reversals import ReversedPart
from handlers.messages.reversals import reversed_referral
from handlers.services.configuration import Configuration
from handlers.services.unit_of_work.reversals import Participant, Reversal
from persistence import referral_uses
from persistence.referrals import REFERRAL_CODES

if TYPE_CHECKING:
    from handlers.services.unit_of_work.unit import UnitOfWork


def find_usable_codes(
    db: Connection,
    configuration: Configuration,
    incoming_events: Sequence[IncomingEvent],
    loyalty_member_ids: Collection[str],
    member_ids: Collection[int],
    reported_types: Collection[str] = (),
) -> dict[int, int]:
    """Find the owner's id of each referral code that the events of these members may use, by the code's id.

    `reported_types` are the types of derived events that the unit of work itself reports. The caller locks the owners
    like the other members. One statement, or none if no program considers any of the possible events.
    """
    programs = configuration.referral_programs
    if not programs.by_id:
        return {}
    considered_events = [event for event in incoming_events if event.event_type in programs.types]
    codes: set[str] = set()
    if considered_events:
        # The codes of all events: a code with which an order is created counts for the later events of the order, too.
        named_codes = map(named_code, incoming_events)
        codes = {code for code in named_codes if code is not None}
    orders = map(_order, considered_events)
    order_ids = {order["externalId"] for order in orders if order.get("externalId") is not None}
    active_events = [event for event in considered_events if event.event_type in programs.active_types]
    max_chain = max_referral_chain(configuration, reported_types)
    if not max_chain:
        # Without derived events, only the members of the tracked events can be referred.
        loyalty_member_ids = {event.loyalty_member_id for event in active_events if event.loyalty_member_id is not None}
        member_ids = {event.member_id for event in active_events if event.member_id is not None}
    if not (codes or order_ids or loyalty_member_ids or member_ids):
        return {}
    organization_id = configuration.organization_id
    return referral_uses.find_usable(
        db,
        organization_id,
        codes=codes,
        orders=order_ids,
        loyalty_member_ids=loyalty_member_ids,
        member_ids=member_ids,
        # Even without derived events, the referrers of the events' own members are needed.
        max_distance=max(max_chain, 1),
    )


def max_referral_chain(configuration: Configuration, reported_types: Collection[str] = ()) -> int:
    """The maximum length of a chain in which each referral is an event derived from the previous referral; mostly 0.

    `reported_types` are types of derived events that the unit reports regardless of the configuration. If only an event
    of such a type can be a referral, the chain ends with that event.
    """
    programs = configuration.referral_programs
    if programs.active_types & configuration.possible_derived_types:
        return 1 + MAX_DEPTH
    return 0 if programs.active_types.isdisjoint(reported_types) else 1


def may_refer(configuration: Configuration, event: IncomingEvent, usable_code_ids: Collection[int]) -> bool:
    """True if an event may be a referral, or names a code whose outcome has to be reported."""
    is_considered = event.event_type in configuration.referral_programs.types
    return is_considered and (bool(usable_code_ids) or named_code(event) is not None)


def may_refer_by_order(
    configuration: Configuration, incoming_events: Sequence[IncomingEvent], order_codes: Collection[str]
) -> bool:
    """True if an event may use the code of its order: one of `order_codes`, or of an order that the events create."""
    types = configuration.referral_programs.types
    if not any(event.event_type in types and _order(event) for event in incoming_events):
        return False
    return bool(order_codes) or any(named_code(event) is not None for event in incoming_events)


def named_code(event: IncomingEvent) -> str | None:
    """The referral code that the event itself names, None for none."""
    return (event.payload or {}).get("referralCode") or _order(event).get("referralCode")


def _order(event: IncomingEvent) -> Mapping[str, Any]:
    return (event.payload or {}).get("order") or {}


class _PaidReward(NamedTuple):
    """The paid points of a reward, the refusal of the rest (None if all were paid), and what the points wait for."""

    points: Decimal
    refusal_of_rest: Refusal | None
    wait: Wait | None


class ReferralWork(Participant):
    """Uses the referral codes of events: pays the rewards, and reverses uses. Derived events report only rewards."""

    def __init__(self, unit: UnitOfWork) -> None:
        """Load the usable codes, and the uses that may be reversed: three statements at most.

        Raises StartOver if another transaction has added a use since the members to be locked were found.
        """
        self._unit = unit
        self._programs = unit.configuration.referral_programs
        self._audience_keys = {audience.audience_id: audience.audience_key for audience in unit.configuration.audiences}
        self._logs_by_event: dict[int, list[ReferralLog]] = {}
        code_ids = set(unit.referral_codes)
        if unit.reversals and self._programs.by_id:
            for log in referral_uses.find_logs_of_events(unit.db, unit.organization_id, unit.reversals.event_ids):
                if log.referrer_member_id not in unit.members:
                    raise StartOver(f"The referrer {log.referrer_member_id} of a reversed referral is not locked.")
                self._logs_by_event.setdefault(log.loyalty_event_id, []).append(log)
                code_ids.add(log.referral_code_id)
        self._state: ReferralUsageState = referral_uses.load_state(
            unit.db, unit.organization_id, code_ids, unit.members
        )
        # By the id of a reversed log: the id of the event that reversed it.
        self._reversal_event_ids: dict[int, int] = {}
        self._outcomes: list[ReferralOutcome] = []

    def use_code_of_event(self, facts: EventFacts, event: IncomingEvent, order: Order | None) -> None:
        """Use the code that an event, its order or its member names; `take_outcomes` returns the outcome.

        An inactive program considers only the codes of events and orders, so that their refusals are reported.
        """
        named_text = named_code(event) or (None if order is None else order.referral_code)
        text = named_text or self._unit.members[facts.member_id].referral_code
        if text is None:
            return
        code = self._state.find(text)
        rewarded_program = None if code is None else self._programs.by_id.get(code.referral_program_id)
        if code is None or rewarded_program is None:
            # The codes of members were only looked for if an active program considers the event.
            was_looked_for = named_text is not None or event.event_type in self._programs.active_types
            if (
                code is None
                and order is not None
                and named_code(event) is None
                and was_looked_for
                and self._is_code(text)
            ):
                # The codes were found before the locks were acquired, and the order was created in between.
                raise StartOver(f"The owner of the referral code of the order {order.external_id} is not locked.")
            if named_text is not None:
                unknown = UnknownReferralCode(f"There is no referral code {text}.")
                self._outcomes.append(ReferralOutcome.of_refusal(text, referral_code=None, refusal=unknown))
        elif rewarded_program.record.event_type == facts.event_type and (
            named_text is not None or rewarded_program.record.active
        ):
            self._outcomes.append(self._use_code(facts, event, code, rewarded_program))

    def _is_code(self, text: str) -> bool:
        return bool(REFERRAL_CODES.find_values(self._unit.db, self._unit.organization_id, code=[text]))

    def take_outcomes(self) -> list[ReferralOutcome]:
        """Return the outcomes of the codes used since the last call."""
        outcomes, self._outcomes = self._outcomes, []
        return outcomes

    def _use_code(
        self, facts: EventFacts, event: IncomingEvent, code: ReferralCode, rewarded_program: ProgramWithRewards
    ) -> ReferralOutcome:
        """Use a code, if that is allowed: reward both sides and add a log."""
        program = rewarded_program.record
        referrer = self._unit.members[code.member_id]
        is_in_audience = self._audience_keys.get(program.audience_id or 0) in facts.audience_keys
        try:
            refuse_referral(program, referrer, facts.member_id, facts.at, is_in_audience, facts.is_active)
            self._state.refuse_over_limit(program, code, facts.member_id)
        except Refusal as refusal:
            return ReferralOutcome.of_refusal(code.code, code, refusal)
        rewards = tuple(self._pay_reward(facts, code, rewarded_program, reward) for reward in rewarded_program.rewards)
        points = [reward.points for reward in rewards if reward.reward.recipient == REFERRER]
        self._state.add(
            CodeUse(
                code=code,
                referred_member_id=facts.member_id,
                loyalty_event_id=facts.loyalty_event_id,
                system_unique_key=event.system_unique_key,
                custom_attributes=(event.payload or {}).get("referralAttributes") or {},
                referrer_points=sum(points, Decimal(0)),
            )
        )
        return ReferralOutcome(
            code=code.code,
            referral_program_id=program.referral_program_id,
            referral_code_id=code.referral_code_id,
            referrer_member_id=code.member_id,
            status=APPLIED,
            rewards=rewards,
        )

    def _pay_reward(
        self, facts: EventFacts, code: ReferralCode, rewarded_program: ProgramWithRewards, reward: ReferralReward
    ) -> RewardOutcome:
        """Give the recipient one reward; a refused reward does not affect the other ones."""
        member_id = code.member_id if reward.recipient == REFERRER else facts.member_id
        coupon_code = refusal_of_rest = wait = None
        points = Decimal(0)
        try:
            if reward.coupon_book_key is None:
                points, refusal_of_rest, wait = self._mint(facts, rewarded_program, reward, member_id)
            else:
                coupon_code = self._unit.coupons.assign_reward(
                    member_id,
                    reward.coupon_book_key,
                    loyalty_event_id=facts.loyalty_event_id,
                    external_event_date=facts.external_event_date,
                    description=rewarded_program.record.name,
                    occasion=facts.occasion,
                ).code
        except Conflict as conflict:
            return RewardOutcome(reward, member_id, SKIPPED, conflict.as_problem())
        except Refusal as failure:
            return RewardOutcome(reward, member_id, FAILED, failure.as_problem())
        if refusal_of_rest is not None:
            status = PARTIAL if points else SKIPPED
            return RewardOutcome(reward, member_id, status, refusal_of_rest.as_problem(), points=points, wait=wait)
        return RewardOutcome(reward, member_id, EXECUTED, code=coupon_code, points=points, wait=wait)

    def _mint(
        self, facts: EventFacts, rewarded_program: ProgramWithRewards, reward: ReferralReward, member_id: int
    ) -> _PaidReward:
        """Pay the points of a reward, as far as the maximum balance of the wallet allows."""
        ledger = self._unit.ledger
        wallet_id = self._unit.members[member_id].wallet_id
        account = ledger.accounts.get(reward.ledger_account_id or 0)
        if account is None or reward.points is None:
            raise UnknownLedgerAccount(
                f"{reward.recipient}PointsAccrual has no account: set {reward.recipient}LedgerAccountId, or create a "
                "default account in the default ledger."
            )
        # The referrer must not see texts about the referred member. Erasing that member would not remove them, either.
        is_own = member_id == facts.member_id
        details = Details(
            system_unique_key=f"{facts.transaction_prefix}:referral-{reward.recipient}",
            external_event_date=facts.external_event_date,
            external_id=facts.external_id if is_own else None,
            description=(facts.description if is_own else None) or rewarded_program.record.name,
            tags=rewarded_program.record.tags or None,
            loyalty_event_id=facts.loyalty_event_id,
            order_external_id=facts.order_external_id,
        )
        granted_amount, refusal_of_rest = ledger.within_max_balance(account, wallet_id, reward.points)
        if refusal_of_rest is not None and not granted_amount:
            return _PaidReward(granted_amount, refusal_of_rest, wait=None)
        terms = Availability.from_fields_of(rewarded_program.record)
        minted = ledger.mint(account, wallet_id, granted_amount, details, availability=terms)
        return _PaidReward(granted_amount, refusal_of_rest, minted.wait)

    def reverse(self, event_id: int, reversal: Reversal) -> list[ReversedPart]:
        """Reverse the uses of codes by an event, so that the uses no longer count."""
        parts = []
        for log in self._logs_by_event.pop(event_id, ()):
            self._state.reverse(log)
            self._reversal_event_ids[log.referral_log_id] = reversal.loyalty_event_id
            parts.append(reversed_referral(log, self._state.codes[log.referral_code_id].code))
        return parts

    def flush(self) -> None:
        """Store new uses and reversals, with three statements at most."""
        db, organization_id, now = self._unit.db, self._unit.organization_id, self._unit.now
        additions, removed_logs = self._state.added_logs, self._state.removed_logs
        count_changes = Counter(use.code.referral_code_id for use in additions)
        count_changes.subtract(log.referral_code_id for log in removed_logs)
        referral_uses.add_logs(db, additions, now)
        referral_uses.reverse_logs(db, organization_id, self._reversal_event_ids, now)
        referral_uses.change_usage_counts(db, organization_id, count_changes, now)
        self._state.added_logs = []
        self._state.removed_logs = []
        self._reversal_event_ids = {}
