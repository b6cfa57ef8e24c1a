"""Tracking on the wire: events in, results out, and events as they are kept (integration 2.7)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

from domain.calendar import instant_of
from domain.campaigns.limits import ALL_ACCOUNTS, ALL_MEMBERS, CounterKey
from domain.campaigns.outcomes import EffectOutcome, Evaluation, Explanation, RuleError
from domain.events import WAITING, IncomingEvent, LoyaltyEvent
from domain.problems import FieldFault, InvalidRequest, Refusal
from domain.queue import DeadLetter
from handlers.schemas.base import (
    Exact,
    Instant,
    Plain,
    Shape,
    WireSchema,
    exact_number,
    instant_text,
    json_able,
)

# What `include` may name.
PAYLOAD, RESULT = "payload", "result"


class _Incoming(WireSchema):
    system_unique_key = Plain()
    event_type = Plain()
    loyalty_member_id = Plain()
    member_id = Plain()
    sponsor_loyalty_member_id = Plain()
    external_id = Plain()
    description = Plain()
    payload = Plain()
    external_event_date = Instant()
    tags = Plain()


class _Kept(WireSchema):
    loyalty_event_id = Plain()
    loyalty_event_key = Plain()
    organization_id = Plain()
    external_id = Plain()
    member_id = Plain()
    external_event_date = Instant()
    event_type = Plain()
    last_error = Plain(metadata={"omit_none": True})
    description = Plain()
    reason = Plain()
    system_unique_key = Plain()
    tags = Plain()
    location = Plain()
    e2e_tracking_id = Plain()
    reverted_loyalty_event_id = Plain()
    reversal_loyalty_event_id = Plain()
    evaluation_status = Plain()
    status = Plain()
    limit_discarded_total_amount = Exact()
    limit_counters = Plain()
    created_at = Instant()
    updated_at = Instant()


_INCOMING = Shape(_Incoming)
_KEPT = Shape(_Kept)


def incoming_events(bodies: Sequence[Mapping[str, Any]]) -> list[IncomingEvent]:
    """Events as a document has accepted them; raises InvalidRequest naming every date that is none."""
    loaded, faults = [], []
    for index, body in enumerate(bodies):
        dated = ((body.get("payload") or {}).get("order") or {}).get("externalEventDate")
        try:
            loaded.append(IncomingEvent(**_INCOMING.load(body)))
            if dated is not None:
                instant_of(dated)
        except InvalidRequest as refusal:
            faults += [replace(f, pointer=f"/events/{index}{f.pointer}") for f in refusal.faults]
        except ValueError as error:
            pointer = f"/events/{index}/payload/order/externalEventDate"
            faults.append(FieldFault(f"externalEventDate: {error}", pointer=pointer))
    if faults:
        raise InvalidRequest(faults)
    return loaded


def kept_event(event: LoyaltyEvent | Mapping[str, Any]) -> dict[str, Any]:
    """The record of an event, or of the row that it is stored as."""
    answer = _KEPT.dump(event)
    answer["tags"] = answer["tags"] or []
    return answer


def detailed_event(event: LoyaltyEvent, include: Collection[str]) -> dict[str, Any]:
    """The record of an event with its `payload` and its `result`, as far as `include` names them."""
    answer = kept_event(event)
    if PAYLOAD in include:
        answer["payload"] = event.payload
    if RESULT in include:
        answer |= _result(event)
    return answer


def event_outcome(event: LoyaltyEvent, include: Collection[str]) -> dict[str, Any]:
    """An event with its result beside it, once there is one, and as long as it is kept."""
    return {"event": detailed_event(event, {*include} - {RESULT}), **_result(event)}


def _result(event: LoyaltyEvent) -> dict[str, Any]:
    known = event.result is not None and event.status not in WAITING
    return {"result": event.result} if known else {}


def track_result(
    event: IncomingEvent,
    key: str | None,
    status: str,
    found: Evaluation | None,
    error: Refusal | None,
    missions: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The result of one event: what was answered, and what is answered again for the same key."""
    found = found or Evaluation()
    result: dict[str, Any] = {
        "systemUniqueKey": event.system_unique_key,
        "loyaltyEventKey": key,
        "status": status,
        "effects": [_effect(each) for each in found.effects],
        "limitDiscardedTotalAmount": exact_number(found.limit_discarded),
        "missions": list(missions),
        "referrals": [],
        "explain": [_explanation(each) for each in found.explanations],
        "errors": [_rule_error(each) for each in found.errors],
    }
    if error is not None:
        result["error"] = error.as_problem()
    return result


def stored_result(event: LoyaltyEvent, status: str, error: Mapping[str, Any] | None) -> dict[str, Any]:
    """The result of a stored event of which nothing has come."""
    said = IncomingEvent(event.system_unique_key, event.event_type)
    result = track_result(said, event.loyalty_event_key, status, None, None)
    return result if error is None else {**result, "error": dict(error)}


def queued_result(answer: Mapping[str, Any]) -> dict[str, Any]:
    """What asynchronous tracking answers of an event: that it is queued, or was taken before, or why it is not."""
    key = answer["loyaltyEventKey"]
    outcome: dict[str, Any] = {
        "systemUniqueKey": answer["systemUniqueKey"],
        "loyaltyEventKey": key,
        "outcome": "rejected" if key is None else "queued",
    }
    if key is None:
        outcome["error"] = answer["error"]
    return outcome


def dead_letter(letter: DeadLetter, include: Collection[str]) -> dict[str, Any]:
    """An event on the dead-letter list."""
    return {
        "event": detailed_event(letter.event, include),
        "attempts": letter.attempts,
        "queuedAt": instant_text(letter.queued_at),
        "deadAt": instant_text(letter.dead_at),
    }


def limit_counter(key: CounterKey, amount: Decimal) -> dict[str, Any]:
    """What an event counted against one limit."""
    return {
        "campaignId": key.campaign_id,
        "scope": "campaign" if key.member_id == ALL_MEMBERS else "member",
        "type": key.type,
        "period": key.period,
        "periodStart": key.period_start.isoformat(),
        "ledgerAccountId": None if key.ledger_account_id == ALL_ACCOUNTS else key.ledger_account_id,
        "amount": exact_number(amount),
    }


def _effect(outcome: EffectOutcome) -> dict[str, Any]:
    answer = {
        "actionId": outcome.action_id,
        "actionIndex": outcome.action_index,
        "campaignId": outcome.campaign_id,
        "campaignVersionId": outcome.campaign_version_id,
        "campaignCode": outcome.campaign_code,
        "actionName": outcome.action_name,
        "effectId": outcome.effect_id,
        "status": outcome.status,
        "params": [{"id": name, "value": json_able(value)} for name, value in outcome.params],
        **outcome.details,
    }
    if outcome.error is not None:
        answer["error"] = outcome.error
    return answer


def _rule_error(error: RuleError) -> dict[str, Any]:
    told: dict[str, Any] = {
        "campaignId": error.campaign_id,
        "actionId": error.action_id,
        "missionId": error.mission_id,
        "message": error.message,
    }
    if error.at is not None:
        told["position"] = {"start": error.at[0], "end": error.at[1]}
    return told


def _explanation(why: Explanation) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "campaignId": why.campaign_id,
        "campaignVersionId": why.campaign_version_id,
        "campaignKey": why.campaign_key,
        "campaignCode": why.campaign_code,
        "actionId": why.action_id,
        "actionName": why.action_name,
        "applied": why.applied,
        "trace": why.trace or {},
    }
    if why.reason is not None:
        start, end = why.reason.at or (None, None)
        answer["reason"] = {
            "code": why.reason.code,
            "label": why.reason.label,
            "start": start,
            "end": end,
            "actual": json_able(why.reason.actual),
        }
    return answer
