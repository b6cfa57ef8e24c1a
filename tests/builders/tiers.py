"""Programs whose tiers depend on points, and the tiers of members in them, through the API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.builders.tracking import Shop


@dataclass(frozen=True)
class TierSchedule:
    """A loyalty program with its tiers by name; Basic is the default tier."""

    shop: Shop
    program: Mapping[str, Any]
    tiers: Mapping[str, Mapping[str, Any]]

    @classmethod
    def new(cls, shop: Shop, *, policy: Mapping[str, Any] | None = None, **thresholds: Any) -> TierSchedule:
        """The organization's default program with these tiers above Basic, each with the points that it requires.

        The tiers depend on the balance in the default account, or on `policy`.
        """
        defaults = shop.organization.defaults
        path = f"/loyalty-programs/{defaults.loyalty_program_id}"
        program = shop.administration.get(path)["loyaltyProgram"]
        tiers = {"Basic": shop.administration.get(f"{path}/tiers/{program['defaultTierId']}")["tier"]}
        body = {name: program[name] for name in ("ledgerId", "description", "defaultTierId", "active", "name")}
        body |= {"tierPointsLedgerAccountId": defaults.ledger_account_id, "setAsDefault": True}
        body["tierPolicy"] = policy or {"basis": "balance"}
        program = shop.administration.put(path, body)["loyaltyProgram"]
        for order, (name, threshold) in enumerate(thresholds.items(), 1):
            body = {"name": name, "active": True, "minRequiredPoints": threshold, "tierOrder": order}
            tiers[name] = shop.administration.post(f"{path}/tiers", body)["tier"]
        return cls(shop, program, tiers)

    def id(self, name: str) -> int:
        """A tier's id."""
        return self.tiers[name]["loyaltyTierId"]

    def key(self, name: str) -> str:
        """A tier's key."""
        return self.tiers[name]["loyaltyTierKey"]

    def name(self, tier_id: int | None) -> str | None:
        """The name of the tier with this id, or None."""
        return next((name for name, tier in self.tiers.items() if tier["loyaltyTierId"] == tier_id), None)

    def of(self, member: str) -> str | None:
        """The name of the member's tier in the program, or None."""
        return self.of_record(self.shop.integration.get(f"/members/{member}")["loyaltyMember"])

    def of_record(self, record: Mapping[str, Any]) -> str | None:
        """The name of the tier in the program that a member's record has, or None."""
        entry = self._entry_of_record(record)
        return None if entry is None else self.name(entry["loyaltyTierId"])

    def entry(self, member: str) -> dict[str, Any] | None:
        """The entry for the program in the tiers of the member's record, or None."""
        return self._entry_of_record(self.shop.integration.get(f"/members/{member}")["loyaltyMember"])

    def _entry_of_record(self, record: Mapping[str, Any]) -> dict[str, Any] | None:
        return next(
            (tier for tier in record["tiers"] if tier["loyaltyProgramId"] == self.program["loyaltyProgramId"]), None
        )

    def set(self, member: str, name: str | None = None, *, expect: int = 200, **more: Any) -> dict[str, Any]:
        """Set a member's tier by request, or unset it without a name; return the response."""
        path = f"/members/{member}/loyalty-programs/{self.program['loyaltyProgramKey']}/tier"
        body = {**({} if name is None else {"loyaltyTierKey": self.key(name)}), **more}
        return self.shop.integration.put(path, body, expect=expect)

    def expire(self, member: str) -> None:
        """End the tiers of a member that were set by request: they expire a second ago."""
        with self.shop.organization.api.engine.begin() as db:
            db.exec_driver_sql(
                "UPDATE member_tiers t SET expires_at = now() - interval '1 second' FROM members m"
                " WHERE t.organization_id = m.organization_id AND t.member_id = m.member_id AND t.is_manual"
                " AND t.organization_id = %s AND m.loyalty_member_id = %s",
                (self.shop.organization.id, member),
            )

    def moves(self, member: str) -> list[tuple[str, str | None, str | None]]:
        """The events about the member's tiers, oldest first: (event type, tier before, tier after)."""
        member_id = self.shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]
        rows = self.shop.rows("events", "event_type, payload, member_id", order="loyalty_event_id")
        return [
            (row.event_type, self.name(row.payload["previousLoyaltyTierId"]), self.name(row.payload["loyaltyTierId"]))
            for row in rows
            if row.member_id == member_id and row.event_type.startswith("member-tier-")
        ]
