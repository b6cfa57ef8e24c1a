"""Campaigns and events through the API: short ways to create campaigns and to write and track events."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Engine, text

from tests.builders.api import Organization
from tests.builders.campaigns import effect, mint
from tests.builders.verification import verify

ORDER_CREATED = "member-purchase-order-created"
GENERIC = "member-generic-event"
# An effect that mints a point for each whole dollar of an order.
WHOLE_DOLLARS = mint(("=", "floor(order.total)"))


def key() -> str:
    """An unused systemUniqueKey."""
    return f"key-{uuid.uuid4()}"


def event(member: str, event_type: str = GENERIC, **more: Any) -> dict[str, Any]:
    """The body of an event of a member, with a new systemUniqueKey; keywords are further fields."""
    return {"loyaltyMemberId": member, "systemUniqueKey": key(), "eventType": event_type, **more}


def order(member: str, total: Any = 10, *, status: str = "created", external_id: str | None = None, **more: Any) -> Any:
    """The body of an event about a new order, by default with a total of 10 and an unused externalId.

    Keywords are fields of the order, except those that are fields of events.
    """
    if external_id is None:
        external_id = f"order-{uuid.uuid4()}"
    total_field = {} if total is None else {"total": Decimal(total)}
    return order_update(member, external_id, status, **total_field, **more)


def order_update(member: str, external_id: str, status: str, **more: Any) -> Any:
    """The body of an event that changes the status of an order; the keywords are those of `order`."""
    event_fields = {name: more.pop(name) for name in ("systemUniqueKey", "externalEventDate", "tags") if name in more}
    payload = {"order": {"externalId": external_id, **more}}
    return event(member, f"member-purchase-order-{status}", payload=payload, **event_fields)


def running(*effects: Mapping[str, Any], rule: str | None = None, **more: Any) -> dict[str, Any]:
    """The body of a running action of priority 1 with these effects, and with `rule` as its condition."""
    rules = {} if rule is None else {"rules": {"expression": rule}}
    return {"effects": {"items": list(effects)}, "status": "running", "priority": 1, **rules, **more}


@dataclass(frozen=True)
class Shop:
    """An organization, with short ways to create campaigns, track events and move points in its default account."""

    organization: Organization

    @property
    def integration(self) -> Any:
        return self.organization.integration

    @property
    def administration(self) -> Any:
        return self.organization.administration

    @property
    def engine(self) -> Engine:
        """The server's own engine."""
        return self.organization.api.engine

    def member(self, **properties: Any) -> str:
        """A new member's loyaltyMemberId."""
        return self.organization.member(**properties)["loyaltyMemberId"]

    def account(self, **settings: Any) -> dict[str, Any]:
        """Create a further account of the default ledger, without limits; return it."""
        body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False, **settings}
        return self.administration.post(f"/ledgers/{self.organization.defaults.ledger_id}/accounts", body)[
            "ledgerAccount"
        ]

    def campaign(self, *actions: Mapping[str, Any], **body: Any) -> dict[str, Any]:
        """Create a campaign with actions; return its record, with the records of the actions as `actions`."""
        campaign_body = {"code": f"code-{uuid.uuid4()}", "name": "Campaign", **body}
        record = self.administration.post("/campaigns", campaign_body)["campaign"]
        path = f"/campaigns/{record['campaignId']}/actions"
        return {**record, "actions": [self.administration.post(path, action)["action"] for action in actions]}

    def track(self, *events: Mapping[str, Any], **body: Any) -> list[dict[str, Any]]:
        """Track events and return their results."""
        return self.integration.post("/events/track", {"events": list(events), **body}, expect=200)["results"]

    def track_one(self, one: Mapping[str, Any], **body: Any) -> dict[str, Any]:
        """Track one event and return its result, which must be a success."""
        [result] = self.track(one, **body)
        assert result["status"] == "success", result
        return result

    def expect_refusal(self, one: Mapping[str, Any], **body: Any) -> str:
        """Track one event that must fail, and return the type of the problem."""
        [result] = self.track(one, **body)
        assert result["status"] == "failed", result
        assert result["effects"] == []
        return result["error"]["type"]

    def give(self, member: str, amount: Any, **body: Any) -> dict[str, Any]:
        """Mint points for a member, by default in the default account; return the transaction."""
        return self._move(member, "mint", amount, body)

    def take(self, member: str, amount: Any, **body: Any) -> dict[str, Any]:
        """Burn points of a member, by default in the default account; return the transaction."""
        return self._move(member, "burn", amount, body)

    def _move(self, member: str, action: str, amount: Any, body: Mapping[str, Any]) -> dict[str, Any]:
        path = f"/members/by-loyalty-member-id/{member}/{action}"
        response = self.administration.post(path, {"amount": amount, **body}, expect=200)
        return response["ledgerTransactions"][0]

    def use_transaction_keys(self, member: str, loyalty_event_key: str) -> int:
        """Mint a point for each of the keys that transactions of the event could have; return the number of points."""
        names = [*range(4), *(f"{name}-{number}" for name in ("undo", "mission") for number in range(3))]
        for name in names:
            self.give(member, 1, systemUniqueKey=f"{loyalty_event_key}:{name}")
        return len(names)

    def balance(self, member: str, ledger_account_id: int | None = None) -> Any:
        """The member's balance in an account, by default the default account."""
        account_id = ledger_account_id or self.organization.defaults.ledger_account_id
        record = self.integration.get(f"/members/{member}")["loyaltyMember"]
        return next(
            balance["balance"] for balance in record["ledgerBalances"] if balance["ledgerAccountId"] == account_id
        )

    def events(self, member: str, **query: Any) -> list[dict[str, Any]]:
        """The member's events, newest first, without the event `member-created`."""
        member_id = self.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
        results = self.administration.get(f"/members/{member_id}/events", **query)["results"]
        return [result for result in results if result["eventType"] != "member-created"]

    def rows(self, table: str, columns: str = "*", *, order: str = "1") -> Sequence[Any]:
        """The stored rows of the organization in a table, with SQL for the columns and the order."""
        statement = text(f"SELECT {columns} FROM {table} WHERE organization_id = :id ORDER BY {order}")
        with self.organization.api.engine.connect() as db:
            return db.execute(statement, {"id": self.organization.id}).all()

    def check_ledger(self) -> None:
        """Assert that the stored ledger has no inconsistencies."""
        with self.organization.api.engine.connect() as db:
            assert verify(db, self.organization.id) == []


def spend(amount: Any, **params: Any) -> dict[str, Any]:
    """A burn-points effect; the amount `("=", text)` is an expression."""
    return effect("burn-points", amount=amount, **params)
