"""Coupon books through the API: short ways to create and change them on one of the two surfaces."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.builders.api import Organization, Surface

# The required fields of a coupon book.
REQUIRED_FIELDS: dict[str, Any] = {"publishingStatus": "published", "type": "list", "name": "Free coffee"}


@dataclass(frozen=True)
class CouponBooks:
    """Coupon books of an organization, as the surface of this name creates and returns them."""

    organization: Organization
    surface_name: str = "integration"

    @property
    def surface(self) -> Surface:
        return getattr(self.organization, self.surface_name)

    @property
    def is_administration(self) -> bool:
        return self.surface_name == "administration"

    def body(self, **fields: Any) -> dict[str, Any]:
        """The body that creates a book: the required fields and `fields`."""
        points = {"requiredPointsConfig": None} if self.is_administration else {}
        return {**REQUIRED_FIELDS, **points, **fields}

    def make(self, *codes: str, **fields: Any) -> dict[str, Any]:
        """A new published book of type list with these codes, unless `fields` has other settings."""
        book = self.surface.post("/coupon-books", self.body(**fields))["couponBook"]
        if codes:
            self.add(book, *codes)
        return book

    def path(self, book: Mapping[str, Any]) -> str:
        """The path of the book on the surface."""
        return f"/coupon-books/{book['couponBookId' if self.is_administration else 'couponBookKey']}"

    def get(self, book: Mapping[str, Any]) -> dict[str, Any]:
        """The current book."""
        return self.surface.get(self.path(book))["couponBook"]

    def add(self, book: Mapping[str, Any], *codes: str, expect: int = 201) -> Any:
        """Add codes; return the coupons, or the problem if `expect` is not 201."""
        response = self.surface.post(f"{self.path(book)}/coupons", {"codes": list(codes)}, expect=expect)
        return response["codes"] if expect == 201 else response

    def change(self, book: Mapping[str, Any], *, expect: int = 200, **fields: Any) -> Any:
        """Change fields of the book; return the book, or the problem if `expect` is not 200."""
        points = {"requiredPointsConfig": book.get("requiredPointsConfig")} if self.is_administration else {}
        response = self.surface.patch(self.path(book), {**points, **fields}, expect=expect)
        return response["couponBook"] if expect == 200 else response

    def set_status(self, book: Mapping[str, Any], status: str, *, expect: int = 200) -> Any:
        """Set the publishing status on the integration surface; return the book, or the problem if not 200."""
        path = f"/coupon-books/{book['couponBookKey']}/status"
        response = self.organization.integration.put(path, {"publishingStatus": status}, expect=expect)
        return response["couponBook"] if expect == 200 else response

    def expect_refusal(self, *, expect: int = 400, **fields: Any) -> Any:
        """Send a creation that is refused; return the pointers of the faults of a 400, or the type of the problem."""
        problem = self.surface.post("/coupon-books", self.body(**fields), expect=expect)
        return [fault["pointer"] for fault in problem["errors"]] if expect == 400 else problem["type"]


def new_key() -> str:
    """An unused key."""
    return str(uuid.uuid4())
