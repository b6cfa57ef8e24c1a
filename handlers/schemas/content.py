"""Collections and documents on the wire (integration 2.5 and 4.4)."""

from __future__ import annotations

from typing import Any

from domain.content.collections import STATIC
from handlers.messages.base import Instant, Plain, Shape, WireSchema
from handlers.messages.content import DocumentProperties


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


class _BatchItem(DocumentProperties):
    document_key = Plain()


class _DocumentRecord(DocumentProperties):
    document_key = Plain()
    created_at = Instant()
    updated_at = Instant()


COLLECTION_BODY = Shape(_Collection, complete=True)
COLLECTION_CHANGES = Shape(_Collection)
COLLECTION = Shape(_CollectionRecord)
BATCH_ITEM = Shape(_BatchItem)
DOCUMENT = Shape(_DocumentRecord)


def batch_answer(outcome: Any) -> dict[str, Any]:
    """The answer to a batch; `outcome` has `upserted` and `failed` in the order of the request."""
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
