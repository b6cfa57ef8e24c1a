"""Events and their results in stored and sent form."""

from collections.abc import Mapping, Sequence
from typing import Any

from domain.calendar import instant_of, instant_text
from domain.campaigns.counters import ALL_ACCOUNTS, ALL_MEMBERS, Count
from domain.campaigns.limits import CAMPAIGN, LOCATION, MEMBER
from domain.campaigns.outcomes import EffectOutcome, Evaluation, Explanation, RuleError
from domain.events import IncomingEvent, LoyaltyEvent
from domain.problems import FieldFault, InvalidRequest, Refusal
from domain.tenders import TenderRefund
from handlers.messages.base import Body, Shape
from handlers.messages.json_text import exact_number, to_json_value

# Fields that no response shows, or only some responses.
_NOT_SHOWN = ("sponsor_member_id", "payload", "result", "actor", "user_id", "cause_loyalty_event_id", "evaluated_at")
# Fields of results that earlier versions of the server did not store, with their values for such results.
_ADDED_FIELDS = {"tiersAsOf": None, "discountTotal": 0}
_RECORD = Shape(LoyaltyEvent, without=_NOT_SHOWN, optional=("last_error",))
_INCOMING = Body(IncomingEvent)
_RULE_ERROR = Shape(RuleError, without=("at",))
TENDER_REFUND = Shape(TenderRefund)


def event_record(event: LoyaltyEvent | Mapping[str, Any]) -> dict[str, Any]:
    """The record of an event, from the event or from its stored row."""
    response = _RECORD.dump(event)
    response["tags"] = response["tags"] or []
    return response


def track_result(
    event: IncomingEvent,
    key: str | None,
    status: str,
    *,
    evaluation: Evaluation | None = None,
    error: Refusal | None = None,
    missions: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """The result of one event, which is returned now, and again for the same `systemUniqueKey`.

    `key` is the key of the stored event, None if it was not stored. `evaluation` is None for an event that was not
    evaluated.
    """
    evaluation = evaluation or Evaluation()
    result: dict[str, Any] = {
        "systemUniqueKey": event.system_unique_key,
        "loyaltyEventKey": key,
        "status": status,
        "effects": [_effect(effect) for effect in evaluation.effects],
        "limitDiscardedTotalAmount": exact_number(evaluation.limit_discarded) if evaluation.limit_discarded else 0,
        "discountTotal": exact_number(evaluation.discount_total) if evaluation.discount_total else 0,
        "tiersAsOf": None if evaluation.tiers_as_of is None else instant_text(evaluation.tiers_as_of),
        "missions": list(missions),
        "referrals": [],
        "explain": [_explanation(explanation) for explanation in evaluation.explanations],
        "errors": [_rule_error(fault) for fault in evaluation.errors],
    }
    if error is not None:
        result["error"] = error.as_problem()
    return result


def completed_result(result: Mapping[str, Any]) -> dict[str, Any]:
    """A stored result with the fields that earlier versions of the server did not store."""
    return {**_ADDED_FIELDS, **result} if _ADDED_FIELDS.keys() - result.keys() else dict(result)


def stored_result(event: LoyaltyEvent, status: str, error: Mapping[str, Any] | None) -> dict[str, Any]:
    """The result of a stored event, without any effects; `error` is the problem of a failed event."""
    incoming_event = IncomingEvent(event.system_unique_key, event.event_type)
    result = track_result(incoming_event, event.loyalty_event_key, status)
    return result if error is None else {**result, "error": dict(error)}


def limit_counter(count: Count) -> dict[str, Any]:
    """The amount that an event counted against one limit; it is negative if an amount was returned to the limit.

    The `sharedKey`, `location` and `currency` are left out if the limit has none.
    """
    key, location = count.key, count.key.location_code
    scope = CAMPAIGN if key.member_id == ALL_MEMBERS else MEMBER
    if location is not None:
        scope = LOCATION
    response = {
        "campaignId": count.campaign_id,
        "scope": scope,
        "type": key.type,
        "period": key.period,
        "periodStart": key.period_start.isoformat(),
        "ledgerAccountId": None if key.ledger_account_id == ALL_ACCOUNTS else key.ledger_account_id,
        "amount": exact_number(count.amount),
    }
    if key.shared_key:
        response["sharedKey"] = key.shared_key
    if location is not None:
        response["location"] = location
    if count.currency is not None:
        response["currency"] = count.currency
    return response


def _effect(outcome: EffectOutcome) -> dict[str, Any]:
    """The outcome of an effect; discount, worth, waiting points and error are left out if it has none."""
    response = {
        "actionId": outcome.action.action_id,
        "actionIndex": outcome.action.action_index,
        "campaignId": outcome.campaign.campaign_id,
        "campaignVersionId": outcome.campaign.campaign_version_id,
        "campaignCode": outcome.campaign.code,
        "actionName": outcome.action.name,
        "effectId": outcome.effect_id,
        "status": outcome.status,
        "params": [{"id": name, "value": to_json_value(value)} for name, value in outcome.params],
        **outcome.details,
    }
    if outcome.discount is not None:
        response["discountAmount"] = exact_number(outcome.discount.amount)
        response["allocation"] = [
            {"itemIndex": index, "amount": exact_number(amount)} for index, amount in outcome.discount.allocation
        ]
    if outcome.worth is not None:
        response["worth"] = exact_number(outcome.worth)
    if outcome.wait is not None:
        response["availableAt"] = outcome.wait.available_at_text
    if outcome.error is not None:
        response["error"] = outcome.error
    return response


def _rule_error(error: RuleError) -> dict[str, Any]:
    fields = _RULE_ERROR.dump(error)
    if error.at is not None:
        start, end = error.at
        fields["position"] = {"start": start, "end": end}
    return fields


def _explanation(explanation: Explanation) -> dict[str, Any]:
    """The JSON object that explains why a campaign or an action was applied or not."""
    response: dict[str, Any] = {
        "campaignId": explanation.campaign.campaign_id,
        "campaignVersionId": explanation.campaign.campaign_version_id,
        "campaignKey": explanation.campaign.campaign_key,
        "campaignCode": explanation.campaign.code,
        "actionId": None if explanation.action is None else explanation.action.action_id,
        "actionName": None if explanation.action is None else explanation.action.name,
        "applied": explanation.applied,
        "trace": to_json_value(explanation.trace or {}),
    }
    if explanation.reason is not None:
        start, end = explanation.reason.at or (None, None)
        response["reason"] = {
            "code": explanation.reason.code,
            "label": explanation.reason.label,
            "start": start,
            "end": end,
            "actual": to_json_value(explanation.reason.actual),
        }
    return response


def queued_result(response: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of an event that is tracked asynchronously: queued, now or before, or rejected with a problem.

    An event that was tracked before and has failed meanwhile is rejected with its problem and its key.
    """
    outcome: dict[str, Any] = {
        "systemUniqueKey": response["systemUniqueKey"],
        "loyaltyEventKey": response["loyaltyEventKey"],
        "outcome": "rejected" if "error" in response else "queued",
    }
    if "error" in response:
        outcome["error"] = response["error"]
    return outcome


def incoming_event(body: Mapping[str, Any]) -> IncomingEvent:
    """An event that an OpenAPI document accepted; raises InvalidRequest for invalid dates."""
    order_date = ((body.get("payload") or {}).get("order") or {}).get("externalEventDate")
    event = _INCOMING.load(body)
    if order_date is not None:
        # The payload is stored unchanged: its date is only checked here.
        try:
            instant_of(order_date)
        except ValueError as error:
            detail = "externalEventDate is not between the years 1 and 9999"
            raise InvalidRequest([FieldFault(detail, pointer="/payload/order/externalEventDate")]) from error
    return event
