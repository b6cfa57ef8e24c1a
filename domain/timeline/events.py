"""Rows about events, and about tiers, missions and referrals, which follow from them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from domain.event_types import EVENTS_WITH_ORDER
from domain.events import NOT_EVALUATED, SUCCESS, WAITING
from domain.timeline.rows import (
    EVENT,
    MISSION,
    REFERRAL,
    TIER,
    TimelineRow,
    after_colon,
    amount_text,
    without_full_stop,
)

_AMOUNT = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
_MAX_ID_LENGTH = 255


@dataclass(frozen=True, slots=True)
class EventFact:
    """A tracked event; `effects` are None once its stored response was removed."""

    loyalty_event_id: int
    created_at: datetime
    external_event_date: datetime | None
    loyalty_event_key: str
    event_type: str
    type_name: str | None
    order_external_id: str | None
    order_total: str | None
    description: str | None
    system_unique_key: str
    status: str
    evaluation_status: int
    reversal_loyalty_event_id: int | None
    reverted_loyalty_event_id: int | None
    error_title: str | None
    effects: Sequence[Mapping[str, Any]] | None
    actor: str | None

    def row(self) -> TimelineRow:
        """The row of the event, with its effects."""
        effects = [_effect(effect) for effect in self.effects or ()]
        text = " ".join(sentence for sentence in (self._occurrence(), self._outcome(effects)) if sentence)
        details = {
            "loyaltyEventId": self.loyalty_event_id,
            "loyaltyEventKey": self.loyalty_event_key,
            "eventType": self.event_type,
            "status": self.status,
            "externalId": self.order_external_id,
            "description": self.description,
            "systemUniqueKey": self.system_unique_key,
            "revertedLoyaltyEventId": self.reverted_loyalty_event_id,
            "reversalLoyaltyEventId": self.reversal_loyalty_event_id,
            "effects": effects,
        }
        return TimelineRow(
            kind=EVENT,
            recorded_at=self.created_at,
            happened_at=self.external_event_date or self.created_at,
            text=text,
            by=self.actor,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=self.reversal_loyalty_event_id is not None,
            details=details,
        )

    def _occurrence(self) -> str:
        """The sentence that reports what happened."""
        if self.event_type in EVENTS_WITH_ORDER:
            order = f"order {(self.order_external_id or '(unknown)')[:_MAX_ID_LENGTH]}"
            if self.reverted_loyalty_event_id is not None and self.event_type in _CANCELLATIONS:
                return _CANCELLATIONS[self.event_type].format(order)
            what = self.event_type.removeprefix("member-purchase-order-").replace("-", " ")
            total = ""
            # The payload of a failed event may have any form that its client sent.
            if self.order_total is not None and _AMOUNT.fullmatch(self.order_total):
                total = f" over {amount_text(Decimal(self.order_total))}"
            return f"The {order}{total} was {what}."
        sentence = _SENTENCES.get(self.event_type)
        if sentence is not None:
            return sentence
        return f"The event {self.type_name or self.event_type} happened{after_colon(self.description)}."

    def _outcome(self, effects: Sequence[Mapping[str, Any]]) -> str:
        """The sentences that report what the event led to; empty if it had no effects."""
        if self.status in WAITING:
            return "It waits for its evaluation."
        if self.status != SUCCESS:
            return f"It failed: {without_full_stop(self.error_title or 'the reason is not known')}."
        if self.reversal_loyalty_event_id is not None:
            return "It was reversed later."
        if self.reverted_loyalty_event_id is not None:
            return "It reversed an earlier event."
        if self.evaluation_status == NOT_EVALUATED:
            return "It was stored without evaluation."
        effects_by_campaign: dict[str, list[str]] = {}
        for effect in effects:
            if effect["status"] not in ("skipped", "failed"):
                amount = "" if effect["amount"] is None else f" {amount_text(Decimal(effect['amount']))}"
                effects_by_campaign.setdefault(effect["campaignCode"], []).append(f"{effect['effectId']}{amount}")
        return " ".join(f"Campaign {code}: {', '.join(what)}." for code, what in effects_by_campaign.items())


# The sentences about the cancellation of an event, by the type that both events have. The order is cancelled only with
# the event that created it.
_CANCELLATIONS: Mapping[str, str] = {
    "member-purchase-order-created": "The {} was cancelled.",
    "member-purchase-order-confirmed": "The confirmation of the {} was cancelled.",
}
_SENTENCES: Mapping[str, str] = {
    "member-created": "The member was enrolled.",
    "member-updated": "The profile was changed.",
    "member-profile-completed": "The profile was completed.",
    "member-profile-deactivated": "The member was deactivated.",
    "member-payment-confirmed": "A payment was confirmed by a partner.",
}


def _effect(effect: Mapping[str, Any]) -> dict[str, Any]:
    """The effect as the details of the row show it; `amount` is None if it has none."""
    amounts = [param.get("value") for param in effect.get("params", ()) if param.get("id") == "amount"]
    return {
        "campaignId": effect["campaignId"],
        "campaignCode": effect["campaignCode"],
        "actionId": effect["actionId"],
        "effectId": effect["effectId"],
        "status": effect["status"],
        "amount": next((amount for amount in amounts if isinstance(amount, int | Decimal)), None),
    }


@dataclass(frozen=True, slots=True)
class TierFact:
    """A change of the member's tier in one program, as its event reports it; names are None for no tier."""

    loyalty_event_id: int
    created_at: datetime
    external_event_date: datetime | None
    loyalty_event_key: str
    loyalty_program_id: int | None
    program_name: str | None
    previous_name: str | None
    previous_tier_id: int | None
    tier_name: str | None
    tier_id: int | None
    is_manual: bool
    expires_at: str | None
    reason: str | None
    cause_loyalty_event_id: int | None
    cause_type: str | None
    actor: str | None

    def row(self) -> TimelineRow:
        """The row of the change."""
        program = f" in {self.program_name}" if self.program_name else ""
        text = f"The tier{program} changed from {self.previous_name or 'none'} to {self.tier_name or 'none'}"
        if self.expires_at:
            text += f" until {self.expires_at[:10]}"
        if self.cause_type is not None:
            text += f" by the {'effects' if self.is_manual else 'points'} of {self.cause_type}"
        elif self.reason:
            text += f": {without_full_stop(self.reason)}"
        details = {
            "loyaltyEventKey": str(self.loyalty_event_key),
            "loyaltyProgramId": self.loyalty_program_id,
            "previousLoyaltyTierId": self.previous_tier_id,
            "loyaltyTierId": self.tier_id,
            "isManual": self.is_manual,
            "causeLoyaltyEventId": self.cause_loyalty_event_id,
        }
        happened_at = self.external_event_date or self.created_at
        return TimelineRow(
            kind=TIER,
            recorded_at=self.created_at,
            happened_at=happened_at,
            text=f"{text}.",
            by=self.actor,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=False,
            details=details,
        )


@dataclass(frozen=True, slots=True)
class MissionFact:
    """The count of an event, or of a request, for a mission."""

    mission_tracking_id: int
    created_at: datetime
    happened_at: datetime
    mission_id: int
    mission_key: str
    mission_name: str
    counted: int
    achieved: int
    goal_count: int
    description: str | None
    reversal_loyalty_event_id: int | None
    loyalty_event_id: int | None
    actor: str | None
    is_imported: bool

    def row(self) -> TimelineRow:
        """The row of the count."""
        text = f"{self.counted} counted for the mission {self.mission_name}, whose goal is {self.goal_count}"
        if self.is_imported:
            text = f"The progress in the mission {self.mission_name} was imported"
        elif self.achieved:
            text += "; it was achieved" + ("" if self.achieved == 1 else f" {self.achieved} times")
        if self.reversal_loyalty_event_id is not None:
            text += "; this was reversed later"
        details = {
            "missionTrackingId": self.mission_tracking_id,
            "missionId": self.mission_id,
            "missionKey": str(self.mission_key),
            "counted": self.counted,
            "achieved": self.achieved,
            "goalCount": self.goal_count,
            "reversalLoyaltyEventId": self.reversal_loyalty_event_id,
        }
        is_reversed = self.reversal_loyalty_event_id is not None
        return TimelineRow(
            kind=MISSION,
            recorded_at=self.created_at,
            happened_at=self.happened_at,
            text=f"{text}{after_colon(self.description)}.",
            by=self.actor,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=is_reversed,
            details=details,
        )


@dataclass(frozen=True, slots=True)
class ReferralFact:
    """The use of a referral code: this member's side, and the other member."""

    referral_log_id: int
    created_at: datetime
    referral_program_id: int
    program_name: str
    code: str
    is_referrer: bool
    other_member_id: int
    other_loyalty_member_id: str
    reversal_loyalty_event_id: int | None
    loyalty_event_id: int

    def row(self) -> TimelineRow:
        """The row of the referral."""
        other, code = self.other_loyalty_member_id, f"the code {self.code} of {self.program_name}"
        if self.is_referrer:
            text = f"The member {other} used {code}, which is this member's"
        else:
            text = f"The member used {code}, which is the member {other}'s"
        if self.reversal_loyalty_event_id is not None:
            text += "; this was reversed later"
        details = {
            "referralLogId": self.referral_log_id,
            "referralProgramId": self.referral_program_id,
            "isReferrer": self.is_referrer,
            "otherMemberId": self.other_member_id,
            "reversalLoyaltyEventId": self.reversal_loyalty_event_id,
        }
        at, is_reversed = self.created_at, self.reversal_loyalty_event_id is not None
        return TimelineRow(
            kind=REFERRAL,
            recorded_at=at,
            happened_at=at,
            text=f"{text}.",
            by=None,
            loyalty_event_id=self.loyalty_event_id,
            is_reversed=is_reversed,
            details=details,
        )
