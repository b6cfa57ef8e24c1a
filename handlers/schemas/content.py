"""Collections and documents on the wire (integration 2.5 and 4.4)."""

from __future__ import annotations

from typing import Any

from domain.content.collections import STATIC
from domain.content.documents import ContentDocument
from handlers.schemas.base import Instant, Plain, Shape, WireSchema
from persistence.paging import Paged


class _Collection(WireSchema):
    name = Plain()
    description = Plain()
    slug = Plain()
    fts_fields = Plain(load_default=list)
    facet_fields = Plain(load_default=dict)
    jsonschema = Plain(load_default=dict)
    tags = Plain(load_default=list)
    content_type = Plain(load_default=STATIC)
    custom_attributes = Plain(load_default=dict)


class _CollectionRecord(_Collection):
    collection_key = Plain()
    created_at = Instant()
    updated_at = Instant()


class _CollectionName(WireSchema):
    collection_key = Plain()
    name = Plain()


class _Writable(WireSchema):
    slug = Plain()
    attrs = Plain()
    status = Plain()
    locale = Plain()
    from_date = Instant()
    to_date = Instant()
    audience_keys = Plain(load_default=list)
    days_of_week = Plain(load_default=list)
    day_of_week_schedule = Plain(metadata={"omit_none": True})


class _BatchItem(_Writable):
    document_key = Plain()


class _DocumentRecord(_Writable):
    document_key = Plain()
    created_at = Instant()
    updated_at = Instant()


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


COLLECTION_BODY = Shape(_Collection, complete=True)
COLLECTION_CHANGES = Shape(_Collection)
COLLECTION = Shape(_CollectionRecord)
COLLECTION_NAME = Shape(_CollectionName)
DOCUMENT_CHANGES = Shape(_Writable)
BATCH_ITEM = Shape(_BatchItem)
DOCUMENT = Shape(_DocumentRecord)
MEMBER_DOCUMENT = Shape(_MemberDocument)


def batch_answer(outcome: Any) -> dict[str, Any]:
    """What became of the documents of a batch; `outcome` has `upserted` and `failed` in the order of the request."""
    return {
        "upserted": [DOCUMENT.dump(each) for each in outcome.upserted],
        "failed": [
            {
                "index": each.index,
                "documentKey": each.document_key,
                "locale": each.locale,
                "error": each.refusal.as_problem(),
            }
            for each in outcome.failed
        ],
        "total": len(outcome.upserted) + len(outcome.failed),
        "successCount": len(outcome.upserted),
        "failureCount": len(outcome.failed),
    }


def member_documents(collection: Any, query: dict[str, Any], found: Paged[ContentDocument]) -> dict[str, Any]:
    """A page of the documents that a member is shown."""
    return {
        "collection": COLLECTION_NAME.dump(collection),
        "query": query,
        "totalCount": found.total_count,
        "items": [MEMBER_DOCUMENT.dump(each) for each in found.results],
    }
