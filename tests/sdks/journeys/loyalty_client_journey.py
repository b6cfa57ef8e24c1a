"""The journey of the project's own client for Python."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Literal

from loyalty_client import AdministrationClient, IntegrationClient, Problem, types

EventType = Literal[
    "member-purchase-order-created", "member-purchase-order-confirmed", "member-purchase-order-returned"
]


def setting(name: str) -> str:
    return os.environ[f"JOURNEY_{name}"]


def points(client: IntegrationClient) -> str:
    balances = client.get_member("ana", include_balance=True)["loyaltyMember"]["ledgerBalances"]
    return "0" if not balances else str(balances[0]["balance"])


def order(event_type: EventType, total: Decimal) -> types.TrackedEvent:
    return {
        "loyaltyMemberId": "ana",
        "eventType": event_type,
        "payload": {"order": {"externalId": "order-1", "total": total}, "till": 7},
    }


url = setting("URL")
with (
    AdministrationClient(url, int(setting("ORGANIZATION_ID")), token=setting("ADMIN_TOKEN")) as office,
    IntegrationClient(url, client_id=setting("CLIENT_ID"), client_secret=setting("CLIENT_SECRET")) as shop,
):
    campaign = office.create_campaign({"code": "spend", "name": "Spend", "eventType": "member-purchase-order-created"})[
        "campaign"
    ]
    office.create_action(
        campaign["campaignId"],
        {
            "rules": {"expression": "order.total >= 1"},
            "effects": {
                "items": [{"effectId": "mint-points", "params": [{"id": "amount", "expression": "floor(order.total)"}]}]
            },
            "status": "running",
            "priority": 1,
        },
    )
    for name in ("ana", "ben", "cleo", "dora", "eve"):
        shop.create_member({"loyaltyMemberId": name})
    total = Decimal(setting("DECIMAL"))
    account: types.LedgerAccountCreate = {
        "name": "Gems",
        "alias": "gems",
        "active": True,
        "isRevolving": True,
        "chainSyncEnabled": False,
        "decimals": 6,
    }
    gems = office.create_ledger_account(int(setting("LEDGER_ID")), account)["ledgerAccount"]["ledgerAccountId"]
    [minted] = office.mint_member_points("ben", {"amount": total, "ledgerAccountId": gems})["ledgerTransactions"]
    shop.track_events({"events": [order("member-purchase-order-created", total)]})
    points_earned = points(shop)
    book = shop.create_coupon_book({"publishingStatus": "published", "type": "list", "name": "Free flat white"})
    book_key = book["couponBook"]["couponBookKey"]
    shop.add_coupon_book_coupons(book_key, {"codes": ["FLAT-1"]})
    assigned = shop.assign_coupon("ana", book_key, {"amount": 1})["couponUsage"]
    usage = shop.use_coupon("ana", book_key, {"code": "FLAT-1"})["couponUsage"]
    shop.track_events({"events": [order("member-purchase-order-confirmed", total)]})
    shop.track_events({"events": [order("member-purchase-order-returned", total)]})
    try:
        shop.use_coupon("ana", book_key, {"code": "FLAT-1"})
        raise AssertionError("the coupon was used twice")
    except Problem as problem:
        refusal = {"status": problem.status, "type": problem.type, "hasRequestId": bool(problem.request_id)}
    try:
        shop.create_member({"loyaltyMemberId": " ana"})
        raise AssertionError("the member was created")
    except Problem as problem:
        pointers = [fault["pointer"] for fault in problem.errors]
    print(
        json.dumps(
            {
                "decimal": str(minted["amount"]),
                "earned": points_earned,
                "returned": points(shop),
                "coupons": [assigned["code"], usage["code"]],
                "refusal": refusal,
                "pointers": pointers,
                "members": [
                    member["loyaltyMemberId"] for member in shop.iterate_members(limit=2, order="createdAt,asc")
                ],
                "campaigns": [campaign["code"] for campaign in office.iterate_campaigns(limit=1)],
            }
        )
    )
