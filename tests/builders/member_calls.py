"""Requests of many kinds about one member: the paths of reads, and changes by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.builders.tracking import Shop, event, order

# Of the integration interface, after the path of the member.
READS = (
    *("", "/audiences", "/badges", "/badges/{badgeKey}/balance", "/coupon-books", "/coupons", "/coupon-usages"),
    *("/events", "/ledger-transactions", "/offline-allowances", "/timeline"),
)
ADMINISTRATION_READS = (
    *("/members/{memberId}", "/members/{memberId}/events", "/members/{memberId}/missions"),
    *("/members/{memberId}/purchase-orders", "/members/{memberId}/timeline"),
    *("/members/{memberId}{program}/tiers", "{program}/members/{memberId}/coupon-books"),
    *("{program}/members/{memberId}/coupons", "{program}/members/{memberId}/coupon-totals"),
)


def calls_about(shop: Shop, member: str, book: Mapping[str, Any], badge: Mapping[str, Any]) -> dict[str, Callable]:
    """Functions that send a request about a member; `book` is a codeless coupon book."""
    integration, administration, defaults = shop.integration, shop.administration, shop.organization.defaults
    by_id = f"/members/by-loyalty-member-id/{member}"
    coupons = f"/members/{member}/coupon-books/{book['couponBookKey']}"
    account = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"

    def revert():
        [mint_row] = administration.post(f"{by_id}/mint", {"amount": 2}, expect=None)["ledgerTransactions"]
        administration.post(f"{account}/transactions/{mint_row['ledgerTransactionId']}/revert", {}, expect=200)

    def cancel():
        result = shop.track_one(event(member))
        integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)

    return {
        "track": lambda: shop.track_one(event(member)),
        "order": lambda: shop.track_one(order(member, "12.50")),
        "cancel": cancel,
        "mint": lambda: administration.post(f"{by_id}/mint", {"amount": 1}, expect=200),
        "burn": lambda: administration.post(f"{by_id}/burn", {"amount": 1}, expect=200),
        "revert": revert,
        "assign": lambda: integration.post(f"{coupons}/assign", {}, expect=200),
        "use": lambda: integration.post(f"{coupons}/use", {}, expect=200),
        "badge": lambda: integration.post(f"/members/{member}/badges/{badge['badgeKey']}/assign", {}, expect=200),
        "change": lambda: integration.patch(f"/members/{member}", {"profile": {"name": "Ana"}}),
    }
