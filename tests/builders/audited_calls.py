"""A call of every audited operation, one after the other, as clients make them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.builders.api import Organization
from tests.builders.content import Content, item
from tests.builders.person import give_up
from tests.builders.users import Users

SECRET = "whsec_" + "c2VjcmV0LW9mLXRoZS10cmlnZ2VyLWl0c2VsZg=="
HEADER = "only-the-receiver-knows"


def make_all(organization: Organization) -> Mapping[str, Any]:
    """Call every audited operation at least once; return the created records by name."""
    records: dict[str, Any] = {}
    for part in (
        _members,
        _imports,
        _exports,
        _configuration,
        _campaigns,
        _badges_and_tiers,
        _coupons,
        _ledger,
        _events,
        _partners,
        _users,
        _content,
        _offline_allowances,
        _points_payments,
        _coupon_locks,
        _clock,
    ):
        part(organization, records)
    return records


def _users(organization: Organization, records: dict[str, Any]) -> None:
    users, administration = Users.of(organization), organization.administration
    group, ana = users.group(roles=["tiers:read"]), users.person()
    administration.put(f"/permission-groups/{group['permissionGroupKey']}", {"roles": []})
    administration.delete(f"/permission-groups/{users.group()['permissionGroupKey']}")
    path = f"/users/{ana['userId']}"
    administration.put(path, {"organizations": [], "name": "Ana S."})
    administration.put(f"{path}/permissions", {"isAdmin": False, "roles": ["users:read"]})
    administration.put(f"{path}/password", {"password": "rain-and-espresso-42"}, expect=204)
    emails = {"emails": ["bob@corner-coffee.example"]}
    administration.post("/users/bulk-add", emails, expect=200)
    administration.post("/users/bulk-reassign", {**emails, "roles": ["users:read"]}, expect=200)
    administration.post("/users/bulk-remove", emails, expect=200)
    administration.delete(path)
    portal = administration.post("/portals", {"name": "Corner", "active": True})["portal"]
    administration.put(f"/portals/{portal['portalId']}", {"active": False})


def _members(organization: Organization, records: dict[str, Any]) -> None:
    ana, ben = organization.member("ana-7", profile={"name": "Ana", "city": "Rosario"}), organization.member("ben-8")
    organization.integration.post("/members/batch", {"members": [{"loyaltyMemberId": "cora-10"}]}, expect=200)
    changes = {"profile": {"city": "Lima"}, "updateReason": "Moved house"}
    organization.integration.patch("/members/ana-7", changes)
    dora = organization.member("gone-9")
    organization.administration.delete(f"/members/{dora['memberId']}", expect=200)
    records.update(ana=ana, ben=ben)


def _imports(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    path = f"/imports/{administration.post('/imports', {'kind': 'members', 'format': 'csv'})['import']['importId']}"
    administration.put(f"{path}/parts/1", b"loyaltyMemberId\nimported-1\n")
    administration.post(f"{path}/start", {"parts": 1}, expect=200)
    administration.post(f"{path}/cancel", expect=200)


def _exports(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    path = f"/exports/{administration.post('/exports', {'kind': 'members'})['export']['exportId']}"
    administration.post(f"{path}/cancel", expect=200)


def _configuration(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    record = administration.get("")["organization"]
    administration.put("", {"name": "Tea", "locales": record["locales"], "defaultLocale": record["defaultLocale"]})
    administration.post(
        "/custom-event-types", {"name": "Cup returned", "apiCode": "cup-returned", "schemaType": "custom"}
    )
    administration.put(
        "/custom-event-types/cup-returned", {"name": "Cup", "apiCode": "cup-returned", "schemaType": "custom"}
    )
    condition = {"field": "categoryCode", "operator": "equals", "value": "hot"}
    body = {"name": "Hot", "type": "item-matcher", "matcher": {"operator": "AND", "conditions": [condition]}}
    matcher = administration.post("/matchers", body)["matcher"]
    administration.put(f"/matchers/{matcher['matcherId']}", {**body, "name": "Hotter"})
    group = administration.post("/stacking-groups", {"name": "Offers", "mode": "best"})["stackingGroup"]
    administration.put(f"/stacking-groups/{group['stackingGroupId']}", {"name": "Offers", "mode": "worst"})
    body = {"name": "Tasters", "matcherType": "list-matcher"}
    audience = administration.post("/audiences", body)["audience"]
    path = f"/audiences/{audience['audienceId']}"
    administration.put(path, {**body, "name": "Tasting panel"})
    administration.patch(f"{path}/members", {"add": [records["ana"]["memberId"]], "remove": []})
    settings = {"url": "https://hooks.invalid/", "entities": ["campaign"], "secret": SECRET}
    body = {"triggerKey": "told", "type": "EntityChangeWebhook", "name": "Told", "settings": settings}
    trigger = administration.post("/triggers", body)["trigger"]
    path = f"/triggers/{trigger['triggerId']}"
    administration.put(path, {**body, "settings": {**settings, "headers": {"X-Key": HEADER}}})
    administration.post("/campaigns", {"code": "told", "name": "told"})
    delivery = administration.get(f"{path}/deliveries")["results"][0]
    administration.post(f"{path}/deliveries/{delivery['triggerDeliveryId']}/redeliver", expect=202)
    records.update(audience=audience, trigger=trigger)


def _campaigns(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    body = {"code": "one", "name": "One", "eventType": "cup-returned"}
    campaign = administration.post("/campaigns", body)["campaign"]
    path = f"/campaigns/{campaign['campaignId']}"
    administration.put(path, {**body, "name": "First"})
    effect = {"effectId": "mint-points", "params": [{"id": "amount", "value": 5}]}
    body = {"name": "Mint", "effects": {"items": [effect]}, "status": "running", "priority": 1}
    action = administration.post(f"{path}/actions", body)["action"]
    administration.put(f"{path}/actions/{action['actionId']}", {**body, "priority": 2})
    body = {"name": "Ten cups", "eventType": "cup-returned", "maxRepetitions": 9, "goalCount": 10}
    mission = administration.post("/missions", body)["mission"]
    administration.put(f"/missions/{mission['missionId']}", {**body, "goalCount": 11})
    administration.post(
        f"/members/{records['ana']['memberId']}/missions/{mission['missionId']}/progress", {"amount": 2}, expect=200
    )
    body = {"name": "Friends", "code": "friends", "active": True, "maxPerCode": 9, "eventType": "cup-returned"}
    program = administration.post("/referral-programs", body)["referralProgram"]
    path = f"/referral-programs/{program['referralProgramId']}"
    administration.put(path, {**body, "name": "Good friends"})
    administration.post(f"{path}/codes", {"memberId": records["ben"]["memberId"], "codes": ["BEN-8", "BEN-9"]})
    records.update(campaign=campaign)


def _offline_allowances(organization: Organization, records: dict[str, Any]) -> None:
    administration, integration, defaults = organization.administration, organization.integration, organization.defaults
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
    administration.put(path, {**body, "offlineAllowance": {"enabled": True, "maxAmount": 5}})
    administration.post("/members/by-loyalty-member-id/ana-7/mint", {"amount": 5}, expect=200)
    for action in ("redeem", "cancel"):
        request = {"amount": 5, "systemUniqueKey": str(uuid.uuid4())}
        allowance = integration.post("/members/ana-7/offline-allowances", request)["offlineAllowance"]
        if action == "redeem":
            redemption = {"token": allowance["token"], "amount": 1, "externalEventDate": allowance["createdAt"]}
            integration.post(
                "/offline-allowances/redeem", {**redemption, "systemUniqueKey": str(uuid.uuid4())}, expect=200
            )
            administration.post("/members/by-loyalty-member-id/ana-7/mint", {"amount": 1}, expect=200)
        else:
            integration.post(f"/offline-allowances/{allowance['offlineAllowanceKey']}/cancel", expect=200)


def _points_payments(organization: Organization, records: dict[str, Any]) -> None:
    administration, integration, defaults = organization.administration, organization.integration, organization.defaults
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
    administration.put(path, {**body, "redemption": {"pointsPerUnit": 1, "currency": "EUR"}})
    administration.post("/members/by-loyalty-member-id/ana-7/mint", {"amount": 5}, expect=200)
    for actions in (("capture", "refund"), ("release",)):
        request = {"points": 5, "orderTotal": 9, "systemUniqueKey": str(uuid.uuid4())}
        payment = integration.post("/members/ana-7/points-payments", request)["pointsPayment"]
        for action in actions:
            refund = {"points": 5, "systemUniqueKey": str(uuid.uuid4())} if action == "refund" else None
            integration.post(f"/points-payments/{payment['pointsPaymentKey']}/{action}", refund, expect=200)


def _coupon_locks(organization: Organization, records: dict[str, Any]) -> None:
    integration = organization.integration
    book = integration.post("/coupon-books", {"name": "Free tea", "type": "codeless", "publishingStatus": "published"})[
        "couponBook"
    ]
    request = {"autoAssign": True, "systemUniqueKey": str(uuid.uuid4())}
    lock = integration.post(f"/members/ana-7/coupon-books/{book['couponBookKey']}/lock", request)["couponLock"]
    integration.post(f"/coupon-locks/{lock['couponLockKey']}/release", expect=200)


def _badges_and_tiers(organization: Organization, records: dict[str, Any]) -> None:
    administration, integration = organization.administration, organization.integration
    badge = integration.post("/badges", {"name": "Early bird", "maxAmount": 9, "active": True})["badge"]
    integration.patch(f"/badges/{badge['badgeKey']}", {"name": "Lark"})
    path = f"/members/ana-7/badges/{badge['badgeKey']}"
    key = {"systemUniqueKey": str(uuid.uuid4())}
    # The second request has the key of the first, so it changes nothing.
    integration.post(f"{path}/assign", key, expect=200)
    tracking = integration.post(f"{path}/assign", key, expect=200)["badgeTracking"]
    integration.post(f"{path}/unassign", {}, expect=200)
    integration.post(f"{path}/assign", {}, expect=200)
    integration.post(f"/members/ana-7/badge-trackings/{tracking['badgeTrackingKey']}/revert", expect=200)
    body = {"ledgerId": organization.defaults.ledger_id, "description": "Spare", "setAsDefault": False}
    program = administration.post("/loyalty-programs", body)["loyaltyProgram"]
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    administration.put(path, {**body, "description": "Second"})
    body = {"name": "Gold", "active": True, "minRequiredPoints": 100, "tierOrder": 1}
    tier = administration.post(f"{path}/tiers", body)["tier"]
    administration.put(f"{path}/tiers/{tier['loyaltyTierId']}", {**body, "minRequiredPoints": 200})
    member_id = records["ana"]["memberId"]
    administration.put(f"/members/{member_id}{path}/tier", {"loyaltyTierId": tier["loyaltyTierId"]})
    ids = {"loyaltyProgramId": program["loyaltyProgramId"], "loyaltyTierId": None}
    administration.put("/members/by-loyalty-member-id/ana-7/tier", ids)
    records.update(badge=badge, tier=tier)


def _coupons(organization: Organization, records: dict[str, Any]) -> None:
    administration, integration, member_id = (
        organization.administration,
        organization.integration,
        records["ana"]["memberId"],
    )
    body = {"name": "Coffee", "type": "list", "publishingStatus": "published", "requiredPointsConfig": None}
    book = administration.post("/coupon-books", body)["couponBook"]
    path, integration_path = f"/coupon-books/{book['couponBookId']}", f"/coupon-books/{book['couponBookKey']}"
    administration.patch(path, {"name": "Espresso", "requiredPointsConfig": None})
    integration.put(f"{integration_path}/status", {"publishingStatus": "published"})
    codes = [f"CODE-{number}" for number in range(12)]
    coupons = administration.post(f"{path}/coupons", {"codes": codes})["codes"]
    administration.patch(f"{path}/coupons/{coupons[11]['couponId']}", {"code": "OTHER-CODE"})
    member_book = f"/members/ana-7{integration_path}"
    integration.post(f"{member_book}/assign", {"code": "CODE-0"}, expect=200)
    usage = integration.post(f"{member_book}/use", {"code": "CODE-0"}, expect=200)["couponUsage"]
    integration.post(f"/members/ana-7/coupon-usages/{usage['couponUsageKey']}/revert", expect=200)
    integration.post(f"{member_book}/use", {"code": "CODE-0"}, expect=200)
    integration.post(f"{member_book}/coupons/CODE-0/revert", expect=200)
    administration.post(f"{path}/assign", {"memberId": member_id, "codes": ["CODE-1", "CODE-2"]}, expect=200)
    administration.post(f"{path}/batch-assign", {"items": [{"memberId": member_id}]}, expect=200)
    code = f"{path}/coupons/{coupons[5]['couponId']}"
    administration.post(f"{code}/assign", {"memberId": member_id}, expect=200)
    usage = administration.post(f"{code}/use", {"memberId": member_id}, expect=200)["couponUsage"]
    administration.post(f"/coupon-usages/{usage['couponUsageId']}/revert", {}, expect=200)
    records.update(book=book)


def _ledger(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    ledger = administration.post("/ledgers", {"name": "Second"})["ledger"]
    body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    account = administration.post(f"/ledgers/{ledger['ledgerId']}/accounts", body)["ledgerAccount"]
    path = f"/ledgers/{ledger['ledgerId']}/accounts/{account['ledgerAccountId']}"
    administration.put(path, {**body, "name": "Bright stars"})
    administration.put(f"{path}/max-supply", {"maxSupply": 1000})
    stars = administration.post(f"/ledgers/{ledger['ledgerId']}/accounts", {**body, "expiresInMonths": 12})[
        "ledgerAccount"
    ]
    longer = {"ledgerAccountId": stars["ledgerAccountId"], "months": 1, "systemUniqueKey": "longer-1"}
    administration.post("/expiry-extensions", {**longer, "memberId": records["ana"]["memberId"]}, expect=200)
    ledger_path = f"/ledgers/{organization.defaults.ledger_id}"
    path = f"{ledger_path}/accounts/{organization.defaults.ledger_account_id}"
    ana_path = "/members/by-loyalty-member-id/ana-7"
    key = {"amount": 100, "systemUniqueKey": "mint-100"}
    # The second request has the key of the first, so it mints nothing.
    for _ in range(2):
        mint_row = administration.post(f"{ana_path}/mint", key, expect=200)["ledgerTransactions"][0]
    administration.post(f"{ana_path}/burn", {"amount": 1}, expect=200)
    wallet_id, ben_wallet_id = mint_row["toWalletId"], records["ben"]["ledgerWalletId"]
    transfer = {"amount": 2, "fromWalletId": wallet_id, "toWalletId": ben_wallet_id, "description": "A present"}
    [row, *_] = administration.post(f"{path}/transactions", transfer)["transactions"]
    burn = {"amount": 1, "fromWalletId": wallet_id, "toWalletId": None}
    item = {**burn, "ledgerAccountId": organization.defaults.ledger_account_id}
    administration.post(f"{ledger_path}/transaction-sets", {"create": [item]})
    administration.post(f"{path}/transactions/{row['ledgerTransactionId']}/revert", {}, expect=200)
    [hold, *_] = administration.post(f"{path}/transactions", {**burn, "captureMethod": "manual"})["transactions"]
    captures = {"transactions": [{"ledgerTransactionId": str(hold["ledgerTransactionId"])}]}
    administration.post(f"{path}/captures", captures, expect=200)
    waiting = administration.post(f"{ana_path}/mint", {"amount": 1, "availableAfter": "P14D"}, expect=200)[
        "ledgerTransactions"
    ][0]
    releases = {"transactions": [{"ledgerTransactionId": str(waiting["ledgerTransactionId"])}]}
    administration.post(f"{path}/releases", releases, expect=200)
    administration.post(f"{path}/wallets/{wallet_id}/burn", {"amount": 1}, expect=200)
    administration.post(f"{ledger_path}/wallets/{wallet_id}/mint", {"amount": 1}, expect=200)
    # The second item burns more than the member has and is refused.
    batch = administration.post("/ledger-transactions/batch", {"items": [item, {**item, "amount": 10**9}]}, expect=200)
    transaction_id = batch["processed"][0]["transactions"][0]["ledgerTransactionId"]
    administration.post("/ledger-transactions/batch-revert", {"transactionIds": [str(transaction_id)]}, expect=200)


def _events(organization: Organization, records: dict[str, Any]) -> None:
    administration, integration = organization.administration, organization.integration
    event = {"loyaltyMemberId": "ana-7", "systemUniqueKey": str(uuid.uuid4()), "eventType": "cup-returned"}
    [result] = integration.post("/events/track", {"events": [event]}, expect=200)["results"]
    integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {"description": "Broken"}, expect=200)
    event["systemUniqueKey"] = str(uuid.uuid4())
    [event_result] = integration.post("/events/track", {"events": [event], "executionMode": "captureOnly"}, expect=200)[
        "results"
    ]
    administration.post(f"/events/{event_result['loyaltyEventKey']}/evaluate", expect=200)
    event["systemUniqueKey"] = str(uuid.uuid4())
    [receipt] = integration.post("/events/track-async", {"events": [event]}, expect=202)["results"]
    give_up(organization.api.engine, organization.id, receipt["loyaltyEventKey"])
    administration.post(f"/events/{receipt['loyaltyEventKey']}/requeue", expect=202)


def _partners(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    organization_key = administration.get("")["organization"]["organizationKey"]
    for partner in ("partnera", "partnerb"):
        key = administration.post("/partner-api-keys", {"partner": partner, "name": "The wallet"})
        intent: dict[str, Any] = {
            "total": 5,
            "type": "qr",
            "loyaltyMemberId": f"customer-of-{partner}",
            "organizationKey": organization_key,
            "forceUserSubscription": True,
        }
        intent |= {"paymentId": "a-1"} if partner == "partnera" else {"referenceId": "b-1", "merchantId": "30-71"}
        surface = organization.api.surface()
        headers = {"x-api-key": key["apiKey"]}
        surface.request("POST", f"/partners/{partner}/payment-intents", intent, headers=headers, expect=200)
        administration.delete(f"/partner-api-keys/{key['partnerApiKey']['partnerApiKeyId']}")


def _content(organization: Organization, records: dict[str, Any]) -> None:
    content = Content.of(organization)
    integration = organization.integration
    integration.patch(content.path, {"name": "Hot drinks"})
    document = content.put({"title": "Espresso"})
    path = f"{content.documents}/{document['documentKey']}"
    integration.patch(path, {"attrs": {"title": "Ristretto"}}, locale="")
    content.batch(item({"title": "Latte"}))
    integration.delete(path, locale="", expect=200)


def _clock(organization: Organization, records: dict[str, Any]) -> None:
    administration = organization.administration
    now = administration.post("/test-clock", {})["testClock"]["now"]
    later = datetime.fromisoformat(now) + timedelta(seconds=1)
    administration.post("/test-clock/advance", {"to": later.isoformat()}, expect=200)
    administration.delete("/test-clock")
