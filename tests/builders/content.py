"""Collections and documents, created through the API."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from tests.builders.api import Organization, Surface


def document_key() -> str:
    """A key as a client chooses it."""
    return str(uuid.uuid4())


def item(attrs: Any, **fields: Any) -> dict[str, Any]:
    """An item of a batch: a published document with a new key, unless `fields` has others."""
    return {"documentKey": document_key(), "attrs": attrs, "status": "published", **fields}


@dataclass(frozen=True)
class Content:
    """One collection of an organization."""

    organization: Organization
    collection: dict[str, Any]

    @classmethod
    def of(cls, organization: Organization, **fields: Any) -> Content:
        """A new collection, with these fields."""
        body = {"name": "Drinks", "description": "What we pour.", **fields}
        return cls(organization, organization.integration.post("/content/collections", body)["collection"])

    @property
    def integration(self) -> Surface:
        return self.organization.integration

    @property
    def path(self) -> str:
        return f"/content/collections/{self.collection['collectionKey']}"

    @property
    def documents(self) -> str:
        return f"{self.path}/documents"

    def put(
        self, attrs: Any, *, key: str | None = None, locale: str = "default", expect: int = 200, **fields: Any
    ) -> Any:
        """Write a published version of a document; return the document, or the problem if `expect` is not 200."""
        path = f"{self.documents}/{key or document_key()}/locales/{locale}"
        response = self.integration.put(path, {"attrs": attrs, "status": "published", **fields}, expect=expect)
        return response["document"] if expect == 200 else response

    def batch(self, *documents: Any) -> Any:
        """Write documents by one request; return the response."""
        return self.integration.post(f"{self.documents}/batch", {"documents": list(documents)}, expect=200)

    def search(self, **query: Any) -> Any:
        """The page of documents that match a query."""
        return self.integration.get(self.documents, **query)

    def shown_to(self, member: str, *, token: str | None = None, **query: Any) -> list[str]:
        """The keys of the documents that a member is shown, requested with `token` or else by the administrator."""
        path = f"/members/{member}/content{self.path.removeprefix('/content')}/documents"
        surface = self.integration if token is None else self.integration.with_token(token)
        return [document["documentKey"] for document in surface.get(path, **query)["items"]]
