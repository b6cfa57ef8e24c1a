"""The bodies of webhooks (integration 6, rules 3 to 5); the component file `webhooks` documents them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from domain.content.collections import ContentCollection
from domain.content.documents import ContentDocument
from domain.members import Member
from handlers.messages.base import Shape, instant_text
from handlers.messages.events import event_record
from persistence.paging import Paged

EVENT_EVALUATED, EVENT_CANCELLED = "event.evaluated", "event.cancelled"
NOTIFICATION = "campaign.notification"
ASYNC_EVENT_EVALUATED = "async-event.evaluated"
USER_INVITED = "user.invited"


def message(type_: str, data: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The body of a message."""
    return {"type": type_, "timestamp": instant_text(now), "data": data}


def event_data(row: Mapping[str, Any], member: Member) -> dict[str, Any]:
    """An event that was evaluated, or that cancelled another, with its results; `row` is the row of the event."""
    return {
        "loyaltyMemberId": member.loyalty_member_id,
        "event": event_record(row),
        "payload": row["payload"],
        "result": row["result"],
    }


COLLECTION_NAME = Shape(ContentCollection, only=("collection_key", "name"))
MEMBER_DOCUMENT = Shape(
    ContentDocument,
    only=("document_key", "slug", "attrs", "status", "locale", "from_date", "to_date", "created_at", "updated_at"),
)


def member_documents(collection: Any, query: dict[str, Any], page: Paged[ContentDocument]) -> dict[str, Any]:
    """A page of the documents that a member is shown."""
    return {
        "collection": COLLECTION_NAME.dump(collection),
        "query": query,
        "totalCount": page.total_count,
        "items": [MEMBER_DOCUMENT.dump(result) for result in page.results],
    }
