"""Coupon books through the API: short ways to make them on either surface."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.builders.api import Organization, Surface

MINIMAL_BOOK: dict[str, Any] = {"publishingStatus": "published", "type": "list", "name": "Free coffee"}


@dataclass(frozen=True)
class CouponBooks:
    """Coupon books of an organization, as one of the surfaces creates and returns them."""

    organization: Organization
    surface_name: str = "integration"

    @property
    def surface(self) -> Surface:
        return getattr(self.organization, self.surface_name)

    @property
    def is_administration(self) -> bool:
        return self.surface_name == "administration"

    def body(self, **members: Any) -> dict[str, Any]:
        """The body of a creation: the least members, and these."""
        points = {"requiredPointsConfig": None} if self.is_administration else {}
        return {**MINIMAL_BOOK, **points, **members}

    def make(self, *codes: str, **members: Any) -> dict[str, Any]:
        """A new book, with these codes."""
        book = self.surface.post("/coupon-books", self.body(**members))["couponBook"]
        if codes:
            self.add(book, *codes)
        return book

    def path(self, book: Mapping[str, Any]) -> str:
        """Where the book is."""
        return f"/coupon-books/{book['couponBookId' if self.is_administration else 'couponBookKey']}"

    def get(self, book: Mapping[str, Any]) -> dict[str, Any]:
        """The current book."""
        return self.surface.get(self.path(book))["couponBook"]

    def add(self, book: Mapping[str, Any], *codes: str, expect: int = 201) -> Any:
        """Add codes; returns the coupons, or the problem."""
        answer = self.surface.post(f"{self.path(book)}/coupons", {"codes": list(codes)}, expect=expect)
        return answer["codes"] if expect == 201 else answer

    def change(self, book: Mapping[str, Any], *, expect: int = 200, **members: Any) -> Any:
        """Change the book; returns it, or the problem."""
        points = {"requiredPointsConfig": book.get("requiredPointsConfig")} if self.is_administration else {}
        answer = self.surface.patch(self.path(book), {**points, **members}, expect=expect)
        return answer["couponBook"] if expect == 200 else answer

    def set_status(self, book: Mapping[str, Any], status: str, *, expect: int = 200) -> Any:
        """Publish, withdraw or archive the book, which the integration surface does."""
        path = f"/coupon-books/{book['couponBookKey']}/status"
        answer = self.organization.integration.put(path, {"publishingStatus": status}, expect=expect)
        return answer["couponBook"] if expect == 200 else answer

    def expect_refusal(self, expect: int = 400, **members: Any) -> Any:
        """Create a book that is refused; returns the pointers of the faults for 400, the type of the problem else."""
        problem = self.surface.post("/coupon-books", self.body(**members), expect=expect)
        return [fault["pointer"] for fault in problem["errors"]] if expect == 400 else problem["type"]


def new_key() -> str:
    """A key that nothing has."""
    return str(uuid.uuid4())
