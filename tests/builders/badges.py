"""Badges through the API: created, assigned and unassigned on one of the two surfaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.builders.campaigns import effect
from tests.builders.tracking import Shop


def badge_body(**properties: Any) -> dict[str, Any]:
    """The body of a badge of which a member can hold at most 3."""
    return {"name": "Early bird", "maxAmount": 3, "active": True, **properties}


def assigns(badge: Any, **params: Any) -> dict[str, Any]:
    """An effect that assigns a badge."""
    return effect("assign-badge", badgeKey=badge["badgeKey"], **params)


def unassigns(badge: Any, **params: Any) -> dict[str, Any]:
    """An effect that unassigns a badge."""
    return effect("unassign-badge", badgeKey=badge["badgeKey"], **params)


@dataclass(frozen=True)
class Badges:
    """The badges of a shop's organization: by keys on the integration surface, or by ids on the administration's."""

    shop: Shop
    by_id: bool = False

    def create(self, **properties: Any) -> dict[str, Any]:
        """A new badge, of which a member can hold at most 3 unless `properties` has another `maxAmount`."""
        return self.shop.integration.post("/badges", badge_body(**properties))["badge"]

    def change(self, badge: Any, **properties: Any) -> dict[str, Any]:
        """Change the badge and return it."""
        return self.shop.integration.patch(f"/badges/{badge['badgeKey']}", properties)["badge"]

    def assign(self, member: str, badge: Any, *, amount: int = 1, expect: int = 200, **body: Any) -> dict[str, Any]:
        """Assign a badge; return the tracking, or the problem if `expect` is not 200."""
        return self._post(f"{self._badge_path(member, badge)}/assign", {"amount": amount, **body}, expect)

    def unassign(self, member: str, badge: Any, *, amount: int = 1, expect: int = 200, **body: Any) -> dict[str, Any]:
        """Unassign a badge; return the tracking, or the problem if `expect` is not 200."""
        return self._post(f"{self._badge_path(member, badge)}/unassign", {"amount": amount, **body}, expect)

    def revert(self, member: str, tracking: Any, *, expect: int = 200) -> dict[str, Any]:
        """Revert a tracking; return the new tracking, or the problem if `expect` is not 200."""
        identity = tracking["badgeTrackingId"] if self.by_id else tracking["badgeTrackingKey"]
        return self._post(f"{self._member_path(member)}/badge-trackings/{identity}/revert", None, expect)

    def balance(self, member: str, badge: Any) -> int:
        """How many of the badge the member holds."""
        return self._surface.get(f"{self._badge_path(member, badge)}/balance")["balance"]["assignedBalance"]

    @property
    def _surface(self) -> Any:
        return self.shop.administration if self.by_id else self.shop.integration

    def _member_path(self, member: str) -> str:
        if not self.by_id:
            return f"/members/{member}"
        return f"/members/{self.shop.integration.get(f'/members/{member}')['loyaltyMember']['memberId']}"

    def _badge_path(self, member: str, badge: Any) -> str:
        return f"{self._member_path(member)}/badges/{badge['badgeId'] if self.by_id else badge['badgeKey']}"

    def _post(self, path: str, body: Any, expect: int) -> dict[str, Any]:
        response = self._surface.post(path, body, expect=expect)
        return response["badgeTracking"] if expect == 200 else response
