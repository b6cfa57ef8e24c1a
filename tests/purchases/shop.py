"""An organization that tracks the orders of the file in batches, by the service and without HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, text

from handlers.call import Execution
from handlers.schemas.events import incoming_event
from handlers.services.events.track import track
from handlers.services.unit_of_work.unit import UnitOfWork
from handlers.services.verify import verify
from persistence import organizations, transactions
from persistence.engine import autocommit
from tests.builders.api import Api, Organization
from tests.purchases.cdnow import Order

BATCH = 100
EVENT_TYPE = "member-purchase-order-created"

_ENROL = text(
    """
    WITH wanted AS MATERIALIZED (
        SELECT loyalty_member_id, joined_at, gen_random_uuid() AS wallet_key
        FROM unnest(CAST(:members AS text[]), CAST(:joined AS timestamptz[])) AS x(loyalty_member_id, joined_at)
    ), made AS (
        INSERT INTO wallets (organization_id, wallet_key, ledger_id, created_at)
        SELECT :organization_id, wallet_key, :ledger_id, now() FROM wanted
        RETURNING wallet_id, wallet_key
    )
    INSERT INTO members (organization_id, loyalty_member_id, wallet_id, wallet_key, on_chain, created_at, updated_at)
    SELECT :organization_id, loyalty_member_id, wallet_id, wallet_key, '{"wallets": []}', joined_at, now()
    FROM wanted JOIN made USING (wallet_key)
    """
)


@dataclass(frozen=True)
class Shop:
    """The organization, and figures of its ledger and records by member."""

    organization: Organization

    @classmethod
    def new(cls, api: Api, purchases: Iterable[Order], joined_by_first_order: bool = False) -> Shop:
        """A new organization with the customers as members, who joined now or at their first order."""
        # The planner must have statistics of these tables before the many rows are added.
        with autocommit(api.engine).connect() as db:
            db.execute(text("ANALYZE members, wallets"))
        shop = cls(api.organization("CD shop"))
        now = datetime.now(UTC)
        joined_at: dict[str, datetime] = {}
        for order in purchases:
            at = order.at if joined_by_first_order else now
            joined_at[order.customer] = min(at, joined_at.get(order.customer, at))
        values = {
            "organization_id": shop.organization.id,
            "ledger_id": shop.organization.defaults.ledger_id,
            "members": sorted(joined_at),
            "joined": [joined_at[member] for member in sorted(joined_at)],
        }
        transactions.run(api.engine, lambda db: db.execute(_ENROL, values))
        return shop

    def campaign(self, *actions: dict[str, Any], **properties: Any) -> None:
        """Create a campaign for orders, with its actions in this order."""
        administration = self.organization.administration
        body = {"code": "points", "name": "Points", "eventType": EVENT_TYPE, **properties}
        campaign_id = administration.post("/campaigns", body)["campaign"]["campaignId"]
        for priority, action in enumerate(actions, 1):
            body = {"status": "running", "priority": priority, **action}
            administration.post(f"/campaigns/{campaign_id}/actions", body)

    def track(self, purchases: Sequence[Order]) -> list[dict[str, Any]]:
        """Track the orders one after the other, in batches; returns all results."""
        results: list[dict[str, Any]] = []
        for start in range(0, len(purchases), BATCH):
            bodies = [_event(order) for order in purchases[start : start + BATCH]]
            results += transactions.run(self.organization.api.engine, lambda db, bodies=bodies: self._track(db, bodies))
        return results

    def _track(self, db: Connection, bodies: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        organization = organizations.find(db, self.organization.id)
        assert organization is not None
        execution = Execution(db=db, organization=organization, now=datetime.now(UTC), request_id="test")
        return [result.response for result in track(UnitOfWork(execution), [incoming_event(body) for body in bodies])]

    def balances(self) -> dict[str, int]:
        """The balances that are not zero, by member."""
        return dict(
            self.ask(
                "SELECT loyalty_member_id, current_balance::bigint FROM ledger_balances JOIN members"
                " USING (organization_id, wallet_id) WHERE organization_id = :organization_id AND current_balance <> 0"
            )
        )

    def discarded_points(self) -> dict[str, int]:
        """The points that limits discarded by member, from the records of the events."""
        return dict(
            self.ask(
                "SELECT loyalty_member_id, sum(limit_discarded_total_amount)::bigint FROM events JOIN members"
                " USING (organization_id, member_id) WHERE organization_id = :organization_id"
                " GROUP BY 1 HAVING sum(limit_discarded_total_amount) <> 0"
            )
        )

    def counters(self) -> dict[tuple[str, str], int]:
        """The amounts that count towards the limits, by member and month."""
        rows = self.ask(
            "SELECT loyalty_member_id, to_char(period_start, 'YYYYMM'), used::bigint FROM campaign_limit_counters"
            " JOIN members USING (organization_id, member_id) WHERE organization_id = :organization_id AND used <> 0"
        )
        return {(member, month): amount for member, month, amount in rows}

    def sizes(self) -> dict[str, int]:
        """The numbers of rows in the tables that tracking writes."""
        tables = (
            "events",
            "purchase_orders",
            "order_items",
            "ledger_transactions",
            "ledger_entries",
            "ledger_balances",
        )
        return {
            table: self.ask(f"SELECT count(*) FROM {table} WHERE organization_id = :organization_id")[0][0]
            for table in tables
        }

    def faults(self) -> list[str]:
        """The violations that `verify` reports of the ledger."""
        with self.organization.api.engine.connect() as db:
            return verify(db, self.organization.id)

    def ask(self, statement: str) -> list[Any]:
        """The rows of a query on the organization."""
        with self.organization.api.engine.connect() as db:
            return list(map(tuple, db.execute(text(statement), {"organization_id": self.organization.id})))


def mint(expression: str, rule: str | None = None, **properties: Any) -> dict[str, Any]:
    """An action that mints."""
    effect = {"effectId": "mint-points", "params": [{"id": "amount", "expression": expression}]}
    return {"rules": {"expression": rule} if rule else {}, "effects": {"items": [effect]}, **properties}


def _event(order: Order) -> dict[str, Any]:
    return {
        "loyaltyMemberId": order.customer,
        "systemUniqueKey": order.key,
        "eventType": EVENT_TYPE,
        "externalEventDate": f"{order.date[:4]}-{order.date[4:6]}-{order.date[6:]}T00:00:00Z",
        "payload": {"order": {"externalId": order.key, "total": order.total}},
    }
