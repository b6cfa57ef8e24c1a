"""Campaigns, missions, referral programs and matchers that can be changed, with bodies that set all fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.builders.api import Organization
from tests.builders.changeable import (
    ATTRIBUTES,
    BY_HOURS,
    LATTE,
    ORDER_CREATED,
    TEXTS,
    WINDOW,
    Changeable,
    audience,
    badge_key,
    coupon_book,
    tier,
)


def _campaign_body(organization: Organization) -> dict[str, Any]:
    return {
        "loyaltyProgramId": organization.defaults.loyalty_program_id,
        "code": "one",
        "active": False,
        "name": "One",
        "type": "spring",
        "tags": ["x"],
        "enabledTopics": ["member-generic-event"],
        "audienceKeys": [audience(organization)["audienceKey"]],
        "daysOfWeek": [1, 7],
        "locationCodes": ["centre"],
        "loyaltyTierKeys": [tier(organization)["loyaltyTierKey"]],
        "eventType": ORDER_CREATED,
        "pointsMonthlyLimitPerMember": 100,
        "allowPartialApplicationOnLimit": True,
        "maxTransactionsPerMember": 9,
        "limitRules": [
            {
                "scope": "member",
                "type": "transactions",
                "period": "monthly",
                "limit": 5,
                "ledgerAccountKey": None,
                "sharedKey": "all",
                "locationLimits": {},
                "alertShares": [],
            }
        ],
        "minSpendValue": 5,
        "cooldown": "PT24H",
        "currency": "EUR",
        "exclusive": True,
        "onReturn": "reevaluate",
        "smartRewards": {"a": 1},
        "externalKey": "own-1",
        "validFrom": WINDOW[0],
        "validTo": WINDOW[1],
        "timezone": "America/Buenos_Aires",
        **TEXTS,
        **ATTRIBUTES,
    }


def campaign(organization: Organization) -> Sequence[Changeable]:
    body = _campaign_body(organization)
    record = organization.administration.post("/campaigns", body)["campaign"]
    by_hours = {**body, **BY_HOURS, "code": "two", "externalKey": "own-2"}
    other = organization.administration.post("/campaigns", by_hours)["campaign"]
    return [
        Changeable(f"/campaigns/{record['campaignId']}", body),
        Changeable(f"/campaigns/{other['campaignId']}", by_hours),
    ]


def action(organization: Organization) -> Sequence[Changeable]:
    whole, _ = campaign(organization)
    path = f"{whole.path}/actions"
    effect = {"effectId": "mint-points", "params": [{"id": "amount", "value": 5}]}
    body = {
        "actionIndex": 7,
        "abortEvaluationIfFalse": True,
        "abortEvaluationOnError": True,
        "name": "Mint",
        "rules": {"expression": "order.total > 5"},
        "effects": {"items": [effect]},
        "status": "running",
        "priority": 3,
        "exclusiveGroup": "g",
        "externalKey": "own-1",
    }
    record = organization.administration.post(path, body)["action"]
    group = organization.administration.post("/stacking-groups", {"name": "All", "mode": "all"})["stackingGroup"]
    stacked = {**body, "actionIndex": 8, "exclusiveGroup": None, "externalKey": "own-2"}
    stacked["stackingGroupKey"] = group["stackingGroupKey"]
    other = organization.administration.post(path, stacked)["action"]
    return [
        Changeable(f"{path}/{record['actionId']}", body, unset={"actionIndex": 7}),
        Changeable(f"{path}/{other['actionId']}", stacked, unset={"actionIndex": 8}),
    ]


def stacking_group(organization: Organization) -> Sequence[Changeable]:
    body = {"name": "Offers", "mode": "best", "scope": "item", "active": False, "externalKey": "own-1"}
    group = organization.administration.post("/stacking-groups", body)["stackingGroup"]
    return [Changeable(f"/stacking-groups/{group['stackingGroupId']}", body)]


def matcher(organization: Organization) -> Sequence[Changeable]:
    body = {
        "organizationId": organization.id,
        "name": "Hot",
        "type": "item-matcher",
        "matcher": LATTE,
        "externalKey": "own-1",
    }
    record = organization.administration.post("/matchers", body)["matcher"]
    return [Changeable(f"/matchers/{record['matcherId']}", body)]


# When points become available: from a moment on, or some time after an event.
AT_A_MOMENT = {"availableAt": "2031-01-01T00:00:00Z"}
AFTER_AN_EVENT = {
    "availableAfter": "P14D",
    "availableRounding": "day",
    "availableOn": {"eventTypes": ["member-purchase-order-confirmed"], "cancelAfter": "P60D"},
}
AT_ONCE = {"availableAt": None, "availableAfter": None, "availableRounding": "none", "availableOn": None}


def missions(organization: Organization) -> Sequence[Changeable]:
    administration, defaults = organization.administration, organization.defaults
    campaign = administration.post("/campaigns", {"code": "two", "name": "Two"})["campaign"]
    body = {
        "campaignId": campaign["campaignId"],
        "loyaltyProgramId": defaults.loyalty_program_id,
        "name": "Three times",
        "shortDescription": "Three",
        "type": "visits",
        "audienceId": audience(organization)["audienceId"],
        "tags": ["x"],
        "code": "three",
        "eventType": ORDER_CREATED,
        "active": False,
        "validFrom": WINDOW[0],
        "validTo": WINDOW[1],
        "timezone": "America/Buenos_Aires",
        "maxRepetitions": 9,
        "repetitionPeriod": "weekly",
        "periodLimit": 2,
        "goalCount": 3,
        "pointsAccrual": 10,
        "ledgerId": defaults.ledger_id,
        "ledgerAccountId": defaults.ledger_account_id,
        "couponBookKey": coupon_book(organization),
        "badgeKey": badge_key(organization),
        "ledgerTransactionDescription": "Three times",
        "countExpression": "2",
        "externalKey": "own-1",
        "manualExpiration": {"value": 3, "unit": "months"},
        **TEXTS,
        **ATTRIBUTES,
    }
    [hot] = matcher(organization)
    hot_id = int(hot.path.rsplit("/", 1)[1])
    on_orders = {"matcherId": hot_id, "inlineMatcher": LATTE, "minSpendValue": 5, "currency": "EUR", **AFTER_AN_EVENT}
    condition = {"badgeKey": badge_key(organization), "value": 1, "operator": ">="}
    on_badges = {
        "code": "badges",
        "externalKey": "own-2",
        "eventType": "badge-assigned",
        "badgeMatcher": {"operator": "OR", "conditions": [condition]},
        **AT_A_MOMENT,
    }
    together = {
        "repetitionPeriod": {"periodLimit": None},
        "periodLimit": {"repetitionPeriod": None},
        "pointsAccrual": {"ledgerId": None, "ledgerAccountId": None, "manualExpiration": None, **AT_ONCE},
    }
    changeables = []
    for whole in (body | on_orders, body | on_badges):
        mission = administration.post("/missions", whole)["mission"]
        changeables.append(Changeable(f"/missions/{mission['missionId']}", whole, together=together))
    return changeables


def referral_program(organization: Organization) -> Sequence[Changeable]:
    administration, defaults = organization.administration, organization.defaults
    campaign = administration.post("/campaigns", {"code": "two", "name": "Two"})["campaign"]
    sides = {
        f"{side}{name}": value
        for side in ("referrer", "referred")
        for name, value in (
            ("PointsAccrual", 10),
            ("LedgerId", defaults.ledger_id),
            ("LedgerAccountId", defaults.ledger_account_id),
            ("CouponBookKey", coupon_book(organization)),
        )
    }
    body = {
        "loyaltyProgramId": defaults.loyalty_program_id,
        "name": "Friends",
        "active": False,
        "validFromDate": WINDOW[0],
        "validToDate": WINDOW[1],
        "timezone": "America/Buenos_Aires",
        "maxPerCode": 9,
        "maxReferralsPerMember": 7,
        "maxRedeemsPerReferredMemberPerCode": 2,
        "campaignId": campaign["campaignId"],
        "audienceId": audience(organization)["audienceId"],
        "tags": ["x"],
        "eventType": "member-created",
        **sides,
        **TEXTS,
        **ATTRIBUTES,
    }
    programs = []
    for name, terms in (("friends", AT_A_MOMENT), ("neighbours", AFTER_AN_EVENT)):
        whole = {**body, **terms, "code": name, "externalKey": name}
        program = administration.post("/referral-programs", whole)["referralProgram"]
        programs.append(Changeable(f"/referral-programs/{program['referralProgramId']}", whole))
    return programs
