"""Hooks of Schemathesis: valid requests are given what a schema cannot say, such as ids of records that exist.

Only the parts of a request that were generated as valid are touched, and one in eight is left as it was generated,
but for requests that follow links, where a 404 means that a record got lost.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.meta import TestPhase

from tests.fuzz.world import CONDITIONS, World

WORLD = World.from_json(os.environ["FUZZ_WORLD"])
LONGEST_URL = 8000
_numbers = itertools.count(1)
_following_links = False
# Ids that answers have named so far, by the name of their path parameter.
_known: set[tuple[str, str]] = {(name, str(value)) for name, value in WORLD.ids.items()}

Body = dict[str, Any]


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Make the valid parts of a request succeed."""
    if case.meta is None:
        return
    global _following_links
    _following_links = case.meta.phase.name is TestPhase.STATEFUL
    operation = case.operation.definition.raw.get("operationId", "")
    components = {place: info.mode.is_positive for place, info in case.meta.components.items()}
    if components.get(ParameterLocation.PATH):
        _use_real_ids(operation, case.path_parameters)
    if components.get(ParameterLocation.BODY) and isinstance(case.body, dict) and operation in _BODIES:
        body = json.loads(json.dumps(case.body))
        _BODIES[operation](body, case.path_parameters)
        case.body = body


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Remember the ids in an answer, which links and later requests use."""
    if 200 <= response.status_code < 300 and response.content:
        _learn(response.json())


def _learn(value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            _learn(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in WORLD.ids and isinstance(each, int | str):
                _known.add((name, str(each)))
            elif isinstance(each, list | dict):
                _learn(each)


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Let the server refuse what is longer than a line that it reads, whichever operation it was for."""
    return not (response.status_code == 414 and len(response.request.url) > LONGEST_URL)


def _now_and_then() -> bool:
    return not _following_links and next(_numbers) % 8 == 0


def _use_real_ids(operation: str, path: dict[str, Any]) -> None:
    real = {**WORLD.ids, **WORLD.changeable.get(operation, {})}
    if operation == "getOrganization":
        real["organizationId"] = str(real["organizationId"])
    if "organizationId" in path:
        path["organizationId"] = real["organizationId"]
    is_known = all((name, str(value)) in _known for name, value in path.items())
    if (is_known and (_following_links or next(_numbers) % 2)) or _now_and_then():
        return
    for name in path:
        path[name] = real[name]


def _unique(body: Body, name: str, longest: int = 255) -> None:
    """Keep what was generated, behind a number that was not used before."""
    if isinstance(body.get(name), str) and not _now_and_then():
        body[name] = f"{next(_numbers)}-{body[name]}"[:longest].rstrip()


def _real(body: Body, name: str, value: Any) -> None:
    if body.get(name) is not None and not _now_and_then():
        body[name] = value


def _member(body: Body, path: Body) -> None:
    _unique(body, "loyaltyMemberId")
    _unique(body, "publicLoyaltyMemberId")


def _member_change(body: Body, path: Body) -> None:
    _unique(body, "publicLoyaltyMemberId")
    if "loyaltyMemberId" in body:
        if "loyaltyMemberId" in path:
            body["loyaltyMemberId"] = path["loyaltyMemberId"]
        else:
            _unique(body, "loyaltyMemberId")


def _event_type(body: Body, path: Body) -> None:
    if "apiCode" in path:
        if "apiCode" in body:
            body["apiCode"] = path["apiCode"]
    else:
        _unique(body, "apiCode")


def _organization(body: Body, path: Body) -> None:
    _real(body, "defaultLoyaltyProgramId", WORLD.ids["loyaltyProgramId"])


def _program(body: Body, path: Body) -> None:
    for name, value in (
        ("ledgerId", WORLD.ids["ledgerId"]),
        ("tierPointsLedgerAccountId", WORLD.ids["ledgerAccountId"]),
        ("mainLedgerAccountId", WORLD.ids["ledgerAccountId"]),
        ("mainPortalId", None),
        ("defaultTierId", None),
    ):
        _real(body, name, value)


def _account(body: Body, path: Body) -> None:
    _unique(body, "alias", 100)
    if body.get("overdraftLimit") is not None:
        body["overdraftLimit"] = int(body["overdraftLimit"])
    if body.get("maxSupply") is not None:
        body["maxSupply"] = int(body["maxSupply"])
    if not body["isRevolving"] and (body.get("overdraftLimit") or 0) > 0:
        body["overdraftLimit"] = 0
    if body.get("expiresInMonths") or body.get("expirationPolicies"):
        body.pop("pointTrackingEnabled", None)


def _points(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "ledgerId", WORLD.ids["ledgerId"])
    _real(body, "ledgerAccountId", WORLD.ids["ledgerAccountId"])
    # The account has no fraction digits.
    body["amount"] = int(body["amount"])


def _burn(body: Body, path: Body) -> None:
    _points(body, path)
    if not _now_and_then():
        body["amount"] %= 10


def _tier(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    _real(body, "loyaltyTierId", WORLD.ids["loyaltyTierId"])
    _real(body, "loyaltyTierKey", WORLD.keys["tier"])
    if body.get("loyaltyTierId") is None and body.get("loyaltyTierKey") is None:
        body.pop("expiresAt", None)
    _real(body, "expiresAt", "2099-12-31T23:00:00Z")


def _campaign(body: Body, path: Body) -> None:
    _unique(body, "code")
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])
    _real(body, "eventType", "cup-returned")
    _real(body, "audienceKeys", [WORLD.keys["audience"]])
    _real(body, "loyaltyTierKeys", [WORLD.keys["tier"]])
    _real(body, "enabledTopics", ["cup-returned", "member-purchase-order-created"])
    for rule in body.get("limitRules", ()):
        _real(rule, "ledgerAccountKey", WORLD.keys["account"])
    if body.get("validFrom") and body.get("validTo"):
        del body["validTo"]


def _action(body: Body, path: Body) -> None:
    if body.get("rules"):
        n = next(_numbers) % len(CONDITIONS)
        body["rules"] = {"expression": CONDITIONS[n]} if "expression" in body["rules"] else {"node": WORLD.trees[n]}
    amount = {"id": "amount", "expression": "order.total * 2"}
    choices = [
        {"effectId": "mint-points", "params": [{"id": "amount", "value": 5}]},
        {"effectId": "burn-points", "params": [amount]},
        {"effectId": "mint-points", "params": [amount, {"id": "ledgerAccountKey", "value": WORLD.keys["account"]}]},
    ]
    body["effects"]["items"] = [choices[next(_numbers) % len(choices)] for _ in body["effects"]["items"]]


def _matcher(body: Body, path: Body) -> None:
    if "organizationId" in body:
        body["organizationId"] = path["organizationId"]
    choices = [
        {"field": "productCode", "operator": "startsWith", "value": "latte"},
        {"field": "total", "operator": ">=", "value": 4.5},
        {"field": "customAttributes.sizes", "operator": "in", "value": ["small", 2, True]},
    ]
    conditions = body["matcher"]["conditions"]
    body["matcher"]["conditions"] = [choices[next(_numbers) % len(choices)] for _ in conditions]


def _audience(body: Body, path: Body) -> None:
    if "organizationId" in body:
        body["organizationId"] = path["organizationId"]
    if body["matcherType"] == "attribute-matcher":
        attributes = body.setdefault("matcher", {}).get("customAttributes")
        if attributes is not None:
            attributes["values"] = {"staff": True, "size": ["small", 2]}
    else:
        body.pop("matcher", None)


def _audience_change(body: Body, path: Body) -> None:
    body["matcherType"] = "attribute-matcher"
    _audience(body, path)


def _audience_list(body: Body, path: Body) -> None:
    _real(body, "add", [WORLD.ids["memberId"]])
    if "remove" in body:
        body["remove"] = [each for each in body["remove"] if each not in body.get("add", ())]


def _events(body: Body, path: Body) -> None:
    if "campaignKeys" in body:
        _real(body, "campaignKeys", [WORLD.keys["campaign"]])
    for event in body["events"]:
        _unique(event, "systemUniqueKey")
        _real(event, "loyaltyMemberId", WORLD.ids["loyaltyMemberId"])
        _real(event, "eventType", "cup-returned")


def _event(body: Body, path: Body) -> None:
    _unique(body, "systemUniqueKey")
    _real(body, "memberId", WORLD.ids["memberId"])
    _real(body, "eventType", "cup-returned")
    body["organizationId"] = path["organizationId"]


def _order(body: Body, path: Body) -> None:
    _unique(body, "externalId")
    _real(body, "loyaltyProgramId", WORLD.ids["loyaltyProgramId"])


def _orders(body: Body, path: Body) -> None:
    for order in body["orders"]:
        _order(order, path)
        _real(order, "loyaltyMemberId", WORLD.ids["loyaltyMemberId"])


def _credentials(body: Body, path: Body) -> None:
    if not _now_and_then():
        body |= {"client_id": WORLD.client_id, "client_secret": WORLD.client_secret}
    if "scope" in body:
        body["scope"] = "members:read"


_BODIES: dict[str, Callable[[Body, Body], None]] = {
    "createMember": _member,
    "updateMember": _member_change,
    "createCustomEventType": _event_type,
    "updateCustomEventType": _event_type,
    "updateOrganization": _organization,
    "createLoyaltyProgram": _program,
    "updateLoyaltyProgram": _program,
    "createLedgerAccount": _account,
    "updateLedgerAccount": _account,
    "mintMemberPoints": _points,
    "burnMemberPoints": _burn,
    "setMemberTier": _tier,
    "setMemberTierByLoyaltyMemberId": _tier,
    "createCampaign": _campaign,
    "updateCampaign": _campaign,
    "createMatcher": _matcher,
    "updateMatcher": _matcher,
    "createAudience": _audience,
    "updateAudience": _audience_change,
    "updateAudienceMembers": _audience_list,
    "createAction": _action,
    "updateAction": _action,
    "trackEvents": _events,
    "trackEvent": _event,
    "createPurchaseOrder": _order,
    "batchCreatePurchaseOrders": _orders,
    "createAccessToken": _credentials,
}
