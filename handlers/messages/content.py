"""Documents as they are written and as they are shown to members."""

from typing import Any

from domain.content.documents import ContentDocument
from handlers.messages.base import Instant, Plain, Shape, WireSchema
from persistence.paging import Paged


class _MemberDocument(WireSchema):
    document_key = Plain()
    slug = Plain()
    attrs = Plain()
    status = Plain()
    locale = Plain()
    from_date = Instant()
    to_date = Instant()
    created_at = Instant()
    updated_at = Instant()


MEMBER_DOCUMENT = Shape(_MemberDocument)


def member_documents(collection: Any, query: dict[str, Any], page: Paged[ContentDocument]) -> dict[str, Any]:
    """A page of the documents that a member is shown."""
    return {
        "collection": COLLECTION_NAME.dump(collection),
        "query": query,
        "totalCount": page.total_count,
        "items": [MEMBER_DOCUMENT.dump(result) for result in page.results],
    }


class _CollectionName(WireSchema):
    collection_key = Plain()
    name = Plain()


COLLECTION_NAME = Shape(_CollectionName)
