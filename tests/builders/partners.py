"""Partners and their payment intents through the API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from tests.builders.api import Reply
from tests.builders.tracking import Shop

PAYMENT = "member-payment-confirmed"


def new_id(prefix: str = "payment") -> str:
    """An unused id that begins with the prefix."""
    return f"{prefix}-{uuid.uuid4()}"


@dataclass(frozen=True)
class Partner:
    """A partner of a shop, with one of its API keys."""

    shop: Shop
    name: str
    key: str
    record: dict[str, Any]
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "headers", {"x-api-key": self.key})

    @classmethod
    def of(cls, shop: Shop, name: str = "partnera", key_name: str = "The wallet") -> Partner:
        """The partner with a new API key."""
        key = shop.administration.post("/partner-api-keys", {"partner": name, "name": key_name})
        return cls(shop, name, key["apiKey"], key["partnerApiKey"])

    @property
    def path(self) -> str:
        return f"/partners/{self.name}/payment-intents"

    def body(self, member: str, total: Any = 10, **more: Any) -> dict[str, Any]:
        """The body of a payment intent: required fields and `more`, where None leaves a field out."""
        fields = {
            "total": total,
            "type": "qr",
            "loyaltyMemberId": member,
            "organizationKey": organization_key(self.shop),
        }
        if self.name == "partnera":
            fields["paymentId"] = new_id()
        else:
            fields |= {"referenceId": new_id("reference"), "merchantId": "30-71", "forceUserSubscription": False}
        return {name: value for name, value in {**fields, **more}.items() if value is not None}

    def send(self, body: Any, *, headers: dict[str, str] | None = None) -> Reply:
        """Send a payment intent and return the reply; `headers` replace the API key of the partner."""
        api = self.shop.organization.api
        return api.surface().request("POST", self.path, body, headers=self.headers if headers is None else headers)

    def pay(self, member: str, total: Any = 10, **more: Any) -> dict[str, Any]:
        """Report a payment, which must succeed, and return the response."""
        reply = self.send(self.body(member, total, **more))
        assert reply.status == 200, reply.text
        return reply.json

    def expect_refusal(self, member: str, total: Any = 10, **more: Any) -> tuple[int, str]:
        """Report a payment, which must be refused; return the status and the problem's type."""
        reply = self.send(self.body(member, total, **more))
        assert reply.status >= 400, reply.text
        return reply.status, reply.json["type"]


def organization_key(shop: Shop) -> str:
    """The key of the shop's organization."""
    [row] = shop.rows("organizations", "organization_key")
    return str(row.organization_key)


def customer() -> str:
    """An unused loyaltyMemberId."""
    return new_id("customer")


def footprint(shop: Shop) -> dict[str, int]:
    """The number of rows of the organization in each table that an intent can write to."""
    tables = (
        "members",
        "wallets",
        "events",
        "partner_payments",
        "ledger_transactions",
        "member_tiers",
        "mission_trackings",
    )
    return {table: len(shop.rows(table, "1")) for table in tables}
