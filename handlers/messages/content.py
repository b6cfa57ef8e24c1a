"""Documents in the form of responses to members, and the names of collections."""

from typing import Any

from domain.content.collections import ContentCollection
from domain.content.documents import ContentDocument
from handlers.messages.base import Shape
from persistence.paging import Paged

COLLECTION_NAME = Shape(ContentCollection, only=("collection_key", "name"))
MEMBER_DOCUMENT = Shape(
    ContentDocument,
    only=("document_key", "slug", "attrs", "status", "locale", "from_date", "to_date", "created_at", "updated_at"),
)


def member_documents(collection: Any, query: dict[str, Any], page: Paged[ContentDocument]) -> dict[str, Any]:
    """The response with a page of the documents that a member may see; `query` is returned in it."""
    return {
        "collection": COLLECTION_NAME.dump(collection),
        "query": query,
        "totalCount": page.total_count,
        "items": [MEMBER_DOCUMENT.dump(result) for result in page.results],
    }
