"""An organization in which every operation of the documents can succeed, filled by calls of the API."""

from __future__ import annotations

import http.client
import json
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

CONDITIONS = (
    "order.total >= 20",
    "event.eventType == 'cup-returned'",
    "'vip' in event.tags || order.total > 100",
    "true",
)

REFERRAL_CODE = "BOB-8"

_NAMES = ("ana", "bob-8", "cleo-9")

# The redemption of an offline allowance, which has the same response whenever it is sent.
REDEMPTION = {"amount": 1, "systemUniqueKey": "redeemed", "externalEventDate": "2026-01-01T00:00:00Z"}

# The one code of a coupon book that never runs out, and the operations that are pointed at it.
GIFT = "GIFT"
GIFTS = (
    "useCoupon",
    "assignCoupon",
    "revertMemberCouponCode",
    "assignCoupons",
    "batchAssignCoupons",
    "useCouponCode",
    "assignCouponCode",
)

_AUDIENCES: tuple[dict[str, Any], ...] = (
    {"matcherType": "null-matcher"},
    {"matcherType": "attribute-matcher", "matcher": {}},
    {"matcherType": "list-matcher"},
)


@dataclass(frozen=True)
class World:
    """The ids of records by the names of path parameters, and other values that valid requests need."""

    token: str
    client_id: str
    client_secret: str
    ids: Mapping[str, Any]
    # Other ids for operations that change records, by operation, so that other operations find theirs unchanged.
    changeable: Mapping[str, Any]
    keys: Mapping[str, str]
    # The wallets of a giver and a receiver, and the rows of their settled and pending transactions.
    wallet_ids: list[int] = field(default_factory=list)
    transactions: list[Any] = field(default_factory=list)
    trees: list[Any] = field(default_factory=list)
    # Keys of events on the dead-letter list, which requests cannot put there.
    dead_letters: list[str] = field(default_factory=list)
    organization_key: str = ""
    # The API keys of the partners, by the names in their paths.
    partner_keys: Mapping[str, str] = field(default_factory=dict)
    # Keys of documents that no other operation uses, so that they can be deleted.
    documents: list[str] = field(default_factory=list)
    # Ids of mints that wait until they are available.
    waiting_mints: list[int] = field(default_factory=list)

    def credentials(self, path: str) -> dict[str, str]:
        """The headers with the credentials for the operation of a path."""
        for partner, key in self.partner_keys.items():
            if f"/partners/{partner}/" in path:
                return {"x-api-key": key}
        return {"Authorization": f"Bearer {self.token}"}

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> World:
        return cls(**json.loads(text))


class Client:
    """Calls of one administrator; returns the body, and fails for anything but a 2xx."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    def __call__(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        media_type = "application/octet-stream" if isinstance(body, bytes) else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": media_type}
        content = body if body is None or isinstance(body, bytes) else json.dumps(body)
        try:
            connection.request(method, f"/v2{path}", content, headers)
            response = connection.getresponse()
            text = response.read().decode()
        finally:
            connection.close()
        assert 200 <= response.status < 300, (method, path, response.status, text)
        return json.loads(text)


def build_world(port: int, organization: Mapping[str, Any], token: str) -> World:
    """Fill the organization that `loyalty organizations create` returned as `created`."""
    call = Client(port, token)
    home = f"/organizations/{organization['organizationId']}"
    ledger = f"{home}/ledgers/{organization['ledgerId']}"
    program = f"{home}/loyalty-programs/{organization['loyaltyProgramId']}"
    members = [call("POST", f"{home}/members", {"loyaltyMemberId": name})["loyalMember"] for name in _NAMES]
    tiers = [
        call("POST", f"{program}/tiers", {"name": n, "active": True, "minRequiredPoints": p, "tierOrder": p})["tier"]
        for n, p in (("Silver", 500), ("Gold", 1000))
    ]
    first_program = call("GET", program)["loyaltyProgram"]
    account, limited_account = (
        call("POST", f"{ledger}/accounts", _account(name))["ledgerAccount"]
        for name in ("Spare points", "Limited points")
    )
    campaigns = [call("POST", f"{home}/campaigns", {"code": code, "name": code})["campaign"] for code in ("one", "two")]
    action = f"{home}/campaigns/{campaigns[0]['campaignId']}/actions"
    actions = [call("POST", action, _action(organization))["action"] for _ in range(2)]
    for code in ("cup-returned", "cup-lost"):
        call("POST", f"{home}/custom-event-types", {"name": code, "apiCode": code, "schemaType": "custom"})
    mint, other_mint = (
        call("POST", f"{home}/members/by-loyalty-member-id/{name}/mint", {"amount": 100_000})["ledgerTransactions"][0]
        for name in ("ana", "bob-8")
    )
    wallet_ids = [mint["toWalletId"], other_mint["toWalletId"]]
    posting = f"{ledger}/accounts/{organization['ledgerAccountId']}/transactions"
    posted_rows = [row for body in _postings(*wallet_ids) for row in call("POST", posting, body)["transactions"]]
    points = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    points["offlineAllowance"] = {"enabled": True, "maxAmount": 100}
    points["redemption"] = {"pointsPerUnit": 100, "currency": "EUR"}
    call("PUT", f"{ledger}/accounts/{organization['ledgerAccountId']}", points)
    redeemed_allowance, cancellable_allowance = (
        call("POST", f"/members/{name}/offline-allowances", {"amount": 1, "systemUniqueKey": f"app-{name}"})
        for name in ("ana", "bob-8")
    )
    redemption_token = redeemed_allowance["offlineAllowance"]["token"]
    call("POST", "/offline-allowances/redeem", {**REDEMPTION, "token": redemption_token})
    payments = [
        call(
            "POST", "/members/ana/points-payments", {"points": 10, "orderTotal": 5, "systemUniqueKey": f"pay-{number}"}
        )
        for number in range(4)
    ]
    held_payment, captured_payment, unpaid_payment, refunded_payment = (
        payment["pointsPayment"]["pointsPaymentKey"] for payment in payments
    )
    call("POST", f"/points-payments/{refunded_payment}/capture", {})
    mint_path = f"{home}/members/by-loyalty-member-id/ana/mint"
    waiting_rows = [
        call("POST", mint_path, {"amount": 1, "availableAfter": "P30D"})["ledgerTransactions"][0] for _ in range(3)
    ]
    imports = [call("POST", f"{home}/imports", {"kind": "members", "format": "csv"})["import"] for _ in range(3)]
    exports = [call("POST", f"{home}/exports", {"kind": "members"})["export"] for _ in range(2)]
    call("PUT", f"{home}/imports/{imports[1]['importId']}/parts/1", b"loyaltyMemberId\n")
    event, event_to_cancel = call(
        "POST", "/events/track", {"events": [_event("ana", "cup-returned"), _event("ana", "cup-returned")]}
    )["results"]
    orders = f"{home}/members/{members[0]['memberId']}/purchase-orders"
    order = call("POST", orders, {"externalId": "order-1", "type": "dine-in", "total": 5, "status": "created"})["order"]
    badges = [call("POST", "/badges", {**_BADGE, "name": name})["badge"] for name in ("Early bird", "Late bird")]
    grants = f"/members/ana/badges/{badges[0]['badgeKey']}/assign"
    badge_tracking = call("POST", grants, {"amount": 1_000_000})["badgeTracking"]
    reversible_tracking = call("POST", grants, {"amount": 1})["badgeTracking"]
    stacking_groups = [
        call("POST", f"{home}/stacking-groups", {"name": mode, "mode": mode})["stackingGroup"]
        for mode in ("all", "first")
    ]
    matchers = [call("POST", f"{home}/matchers", _matcher(name))["matcher"] for name in ("Hot drinks", "Cold drinks")]
    audiences = [call("POST", f"{home}/audiences", body)["audience"] for body in _AUDIENCES]
    triggers = [call("POST", f"{home}/triggers", _trigger(key))["trigger"] for key in ("told", "changed")]
    call("POST", f"{home}/campaigns", {"code": "told", "name": "told"})
    delivery = call("GET", f"{home}/triggers/{triggers[0]['triggerId']}/deliveries")["results"][0]
    missions = [call("POST", f"{home}/missions", _mission(name))["mission"] for name in ("Ten cups", "More cups")]
    books = [call("POST", f"{home}/coupon-books", _book(name))["couponBook"] for name in ("Coffee", "Tea", "Cake")]
    codes = f"{home}/coupon-books/{books[0]['couponBookId']}/coupons"
    lockable_book = call("POST", f"{home}/coupon-books", {**_book("Juice"), "type": "codeless"})["couponBook"]
    lock_path = f"/members/ana/coupon-books/{lockable_book['couponBookKey']}/lock"
    lock_result = call("POST", lock_path, {"autoAssign": True, "systemUniqueKey": "basket-1"})
    coupons = call("POST", codes, {"codes": ["COFFEE-1", "COFFEE-2"]})["codes"]
    gift, gift_coupon, usages = _gift(call, home)
    collections = [
        call("POST", "/content/collections", _collection(name))["collection"] for name in ("Drinks", "Cakes")
    ]
    document = _document(call, collections[0]["slug"], "flat-white")
    changeable_document = _document(call, collections[0]["slug"], "latte")
    deletable_documents = [_document(call, collections[0]["slug"], None) for _ in range(40)]
    referral_programs = [
        call("POST", f"{home}/referral-programs", _referral_program(code))["referralProgram"]
        for code in ("friends", "neighbours")
    ]
    referral_codes = f"{home}/referral-programs/{referral_programs[0]['referralProgramId']}/codes"
    referral_body = {"memberId": members[1]["memberId"], "codes": [REFERRAL_CODE]}
    referral_code = call("POST", referral_codes, referral_body)["referrals"][0]
    partner_keys = {}
    for partner in ("partnera", "partnerb"):
        partner_key = call("POST", f"{home}/partner-api-keys", {"partner": partner, "name": partner})
        partner_keys[partner] = partner_key["apiKey"]
    spare_key = call("POST", f"{home}/partner-api-keys", {"partner": "partnera", "name": "Spare"})["partnerApiKey"]
    parse_response = call(
        "POST", f"{home}/expressions/parse", {"inputs": [{"expression": text} for text in CONDITIONS]}
    )
    second_program = call(
        "POST",
        f"{home}/loyalty-programs",
        {"ledgerId": organization["ledgerId"], "description": "Spare", "setAsDefault": False},
    )["loyaltyProgram"]
    users = [call("POST", f"{home}/users", _user(name))["user"] for name in ("reader", "changed", "removed")]
    groups = [
        call("POST", f"{home}/permission-groups", {"permissionGroupKey": name, "name": name})
        for name in ("leads", "others", "former")
    ]
    portals = [call("POST", f"{home}/portals", {"name": n, "active": True})["portal"] for n in ("Corner", "Other")]
    ids = {
        "organizationId": organization["organizationId"],
        "loyaltyMemberId": members[0]["loyaltyMemberId"],
        "memberId": members[0]["memberId"],
        "loyaltyProgramId": organization["loyaltyProgramId"],
        "loyaltyProgramKey": first_program["loyaltyProgramKey"],
        "loyaltyTierId": tiers[0]["loyaltyTierId"],
        "ledgerId": organization["ledgerId"],
        "ledgerAccountId": organization["ledgerAccountId"],
        "walletId": mint["toWalletId"],
        "ledgerTransactionId": mint["ledgerTransactionId"],
        "campaignId": campaigns[0]["campaignId"],
        "actionId": actions[0]["actionId"],
        "apiCode": "cup-returned",
        "loyaltyEventKey": event["loyaltyEventKey"],
        "orderId": order["orderId"],
        "effectId": "mint-points",
        "badgeKey": badges[0]["badgeKey"],
        "badgeIdentifier": str(badges[0]["badgeId"]),
        "memberIdentifier": members[0]["loyaltyMemberId"],
        "badgeTrackingKey": badge_tracking["badgeTrackingKey"],
        "badgeTrackingIdentifier": str(badge_tracking["badgeTrackingId"]),
        "offlineAllowanceKey": cancellable_allowance["offlineAllowance"]["offlineAllowanceKey"],
        "pointsPaymentKey": held_payment,
        "couponLockKey": lock_result["couponLock"]["couponLockKey"],
        "stackingGroupId": stacking_groups[0]["stackingGroupId"],
        "matcherId": matchers[0]["matcherId"],
        "matcherKey": matchers[0]["matcherKey"],
        "audienceId": audiences[0]["audienceId"],
        "couponBookId": books[0]["couponBookId"],
        "couponBookKey": books[0]["couponBookKey"],
        "collectionKeyOrSlug": collections[0]["collectionKey"],
        "documentKeyOrSlug": document["documentKey"],
        "locale": "default",
        "couponId": coupons[0]["couponId"],
        "couponCode": GIFT,
        "couponUsageKey": usages[0]["couponUsageKey"],
        "couponUsageId": usages[0]["couponUsageId"],
        "triggerId": triggers[0]["triggerId"],
        "triggerDeliveryId": delivery["triggerDeliveryId"],
        "missionId": missions[0]["missionId"],
        "referralProgramId": referral_programs[0]["referralProgramId"],
        "referralCodeId": referral_code["referralCodeId"],
        "partnerApiKeyId": spare_key["partnerApiKeyId"],
        "portalId": portals[0]["portalId"],
        "importId": imports[0]["importId"],
        "exportId": exports[0]["exportId"],
        "partNumber": 1,
        "userId": users[0]["userId"],
        "permissionGroupKey": groups[0]["permissionGroup"]["permissionGroupKey"],
    }
    changeable = {
        "updateMember": {"loyaltyMemberId": members[1]["loyaltyMemberId"], "memberId": members[1]["memberId"]},
        "eraseMember": {"memberId": members[2]["memberId"]},
        "updateLoyaltyProgram": {"loyaltyProgramId": second_program["loyaltyProgramId"]},
        "updateTier": {"loyaltyTierId": tiers[1]["loyaltyTierId"]},
        "updateLedgerAccount": {"ledgerAccountId": account["ledgerAccountId"]},
        "updateMaxSupply": {"ledgerAccountId": limited_account["ledgerAccountId"]},
        "cancelEvent": {"loyaltyEventKey": event_to_cancel["loyaltyEventKey"]},
        "updateCampaign": {"campaignId": campaigns[1]["campaignId"]},
        "updateAction": {"actionId": actions[1]["actionId"]},
        "updateCustomEventType": {"apiCode": "cup-lost"},
        "updateBadge": {"badgeKey": badges[1]["badgeKey"]},
        "revertBadgeTracking": {
            "badgeTrackingKey": reversible_tracking["badgeTrackingKey"],
            "badgeTrackingIdentifier": reversible_tracking["badgeTrackingKey"],
        },
        "startImport": {"importId": imports[1]["importId"]},
        "cancelImport": {"importId": imports[2]["importId"]},
        "cancelExport": {"exportId": exports[1]["exportId"]},
        "capturePointsPayment": {"pointsPaymentKey": captured_payment},
        "releasePointsPayment": {"pointsPaymentKey": unpaid_payment},
        "refundPointsPayment": {"pointsPaymentKey": refunded_payment},
        "updateStackingGroup": {"stackingGroupId": stacking_groups[1]["stackingGroupId"]},
        "updateMatcher": {"matcherId": matchers[1]["matcherId"]},
        "updateMission": {"missionId": missions[1]["missionId"]},
        "updateAudience": {"audienceId": audiences[1]["audienceId"]},
        "updateTrigger": {"triggerId": triggers[1]["triggerId"]},
        "updateReferralProgram": {"referralProgramId": referral_programs[1]["referralProgramId"]},
        "updateUser": {"userId": users[1]["userId"]},
        "setUserPermissions": {"userId": users[1]["userId"]},
        "resetUserPassword": {"userId": users[1]["userId"]},
        "removeUser": {"userId": users[2]["userId"]},
        "updatePermissionGroup": {"permissionGroupKey": "others"},
        "deletePermissionGroup": {"permissionGroupKey": "former"},
        "updatePortal": {"portalId": portals[1]["portalId"]},
        "updateAudienceMembers": {"audienceId": audiences[2]["audienceId"]},
        "updateCouponBook": {
            "couponBookId": books[1]["couponBookId"],
            "couponBookKey": books[1]["couponBookKey"],
        },
        "updateCouponBookStatus": {"couponBookKey": books[2]["couponBookKey"]},
        "updateCollection": {"collectionKeyOrSlug": collections[1]["collectionKey"]},
        "updateDocument": {"documentKeyOrSlug": changeable_document["documentKey"]},
        "upsertDocumentLocale": {"documentKeyOrSlug": changeable_document["documentKey"]},
        "deleteDocument": {"documentKeyOrSlug": deletable_documents[0]["documentKey"]},
        "updateCouponCode": {"couponId": coupons[1]["couponId"]},
        **{
            operation: {
                "couponBookId": gift["couponBookId"],
                "couponBookKey": gift["couponBookKey"],
                "couponId": gift_coupon["couponId"],
            }
            for operation in GIFTS
        },
    }
    for operation, usage in zip(("revertMemberCouponUsage", "revertCouponUsage"), usages[1:], strict=False):
        changeable[operation] = {name: usage[name] for name in ("couponUsageKey", "couponUsageId")}
    keys = {
        "redemption": redemption_token,
        "campaign": campaigns[0]["campaignKey"],
        "tier": tiers[0]["loyaltyTierKey"],
        "account": organization["ledgerAccountKey"],
        "audience": audiences[0]["audienceKey"],
        "mission": missions[0]["missionKey"],
        "badge": badges[0]["badgeKey"],
        "gift": gift["couponBookKey"],
        "program": first_program["loyaltyProgramKey"],
    }
    assert not any(node["errors"] for node in parse_response["nodes"]), parse_response
    trees = [node["node"] for node in parse_response["nodes"]]
    captured_events = {"events": [_event("bob-8", "cup-returned") for _ in range(60)], "executionMode": "captureOnly"}
    dead_letters = [result["loyaltyEventKey"] for result in call("POST", "/events/track", captured_events)["results"]]
    waiting_events = {"events": [_event("bob-8", "cup-returned")], "executionMode": "captureOnly"}
    [waiting_event] = call("POST", "/events/track", waiting_events)["results"]
    changeable["evaluateEvent"] = {"loyaltyEventKey": waiting_event["loyaltyEventKey"]}
    return World(
        token=token,
        client_id=organization["clientId"],
        client_secret=organization["clientSecret"],
        ids=ids,
        changeable=changeable,
        keys=keys,
        wallet_ids=wallet_ids,
        transactions=posted_rows,
        trees=trees,
        dead_letters=dead_letters,
        organization_key=call("GET", home)["organization"]["organizationKey"],
        partner_keys=partner_keys,
        documents=[document["documentKey"] for document in deletable_documents],
        waiting_mints=[row["ledgerTransactionId"] for row in waiting_rows],
    )


_BADGE = {"maxAmount": 2**53 - 1, "active": True}


def _account(name: str) -> dict[str, Any]:
    return {"name": name, "active": True, "isRevolving": True, "chainSyncEnabled": False, "decimals": 6}


def _postings(giver: int, receiver: int) -> list[dict[str, Any]]:
    burn = {"amount": 5, "fromWalletId": giver, "toWalletId": None}
    pending = [{**burn, "captureMethod": "manual"} for _ in range(3)]
    return [burn, burn, {**burn, "toWalletId": receiver}, *pending]


def _action(organization: Mapping[str, Any]) -> dict[str, Any]:
    params = [
        {"id": "amount", "expression": "1"},
        {"id": "ledgerAccountKey", "value": organization["ledgerAccountKey"]},
    ]
    effects = {"items": [{"effectId": "mint-points", "params": params}]}
    return {"status": "running", "priority": 1, "rules": {"expression": CONDITIONS[0]}, "effects": effects}


def _referral_program(code: str) -> dict[str, Any]:
    points = {"referrerPointsAccrual": 10, "referredPointsAccrual": 5}
    return {"name": code, "code": code, "active": True, "maxPerCode": 1000, "eventType": "cup-returned", **points}


def _matcher(name: str) -> dict[str, Any]:
    conditions = [{"field": "categoryCode", "operator": "equals", "value": name}]
    return {"name": name, "type": "item-matcher", "matcher": {"operator": "AND", "conditions": conditions}}


def _trigger(key: str) -> dict[str, Any]:
    settings = {"url": f"https://{key}.invalid/", "entities": ["campaign"]}
    return {"triggerKey": key, "type": "EntityChangeWebhook", "name": key, "settings": settings}


def _mission(name: str) -> dict[str, Any]:
    return {"name": name, "eventType": "cup-returned", "maxRepetitions": 2**50, "goalCount": 10, "pointsAccrual": 1}


def _book(name: str) -> dict[str, Any]:
    return {"name": name, "type": "list", "publishingStatus": "published", "requiredPointsConfig": None}


def _gift(call: Client, home: str) -> tuple[Any, Any, list[Any]]:
    """A book with one code for all, of which ana has plenty: the book, its coupon, and the usages so far."""
    book = call("POST", f"{home}/coupon-books", {**_book("Gift"), "type": "single"})["couponBook"]
    [coupon] = call("POST", f"{home}/coupon-books/{book['couponBookId']}/coupons", {"codes": [GIFT]})["codes"]
    path = f"/members/ana/coupon-books/{book['couponBookKey']}"
    assignment = call("POST", f"{path}/assign", {"amount": 1_000_000})["couponUsage"]
    uses = [call("POST", f"{path}/use", {})["couponUsage"] for _ in range(20)]
    return book, coupon, [assignment, *uses]


def _user(name: str) -> dict[str, Any]:
    unset = {"nickname": None, "profilePictureUrl": None, "isSystemAdmin": False, "pendingProvisioning": False}
    email = f"{name}@corner-coffee.example"
    return {
        "active": True,
        "name": name,
        "isAdmin": False,
        "roles": [],
        "authClientId": str(uuid.uuid4()),
        "email": email,
        **unset,
    }


def _collection(name: str) -> dict[str, Any]:
    schema = {"properties": {"price": {"type": "number"}, "since": {"type": "string", "format": "date"}}}
    facets = {"colour": {"type": "string"}}
    return {"name": name, "description": name, "ftsFields": ["title"], "facetFields": facets, "jsonschema": schema}


def _document(call: Client, collection: str, slug: str | None) -> Any:
    attrs = {"title": slug or "A drink", "price": 3.5, "colour": "red", "since": "2026-01-01"}
    path = f"/content/collections/{collection}/documents/{uuid.uuid4()}/locales/default"
    return call("PUT", path, {"slug": slug, "attrs": attrs, "status": "published"})["document"]


def _event(member: str, event_type: str) -> dict[str, Any]:
    return {"loyaltyMemberId": member, "systemUniqueKey": str(uuid.uuid4()), "eventType": event_type}
