"""Collections and documents on the wire (integration 2.5 and 4.4)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from domain.content.collections import STATIC, ContentCollection
from domain.content.documents import ContentDocument
from domain.fields import Key
from handlers.messages.base import Shape, Update
from handlers.services.content.write_documents import DocumentProperties, DocumentWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionProperties:
    """The writable fields of a collection."""

    name: str
    description: str
    slug: str | None = None
    fts_fields: Sequence[str] = ()
    facet_fields: Mapping[str, Any] = field(default_factory=dict)
    jsonschema: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    content_type: str = STATIC
    custom_attributes: Mapping[str, Any] = field(default_factory=dict)
    external_key: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _BatchDocument(DocumentProperties):
    document_key: Key


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentBatch:
    """The documents of a batch, not yet checked: the operation checks each document individually."""

    documents: Sequence[Any]


_IDS_OF_DOCUMENT = ("organization_id", "content_document_id", "content_collection_id")
COLLECTION = Shape(
    ContentCollection, without=("organization_id", "content_collection_id", "language", "content_version")
)
DOCUMENT = Shape(ContentDocument, without=_IDS_OF_DOCUMENT, optional=("day_of_week_schedule",))
_BATCH_ITEM: Update[DocumentProperties] = Update(_BatchDocument)


def batch_item(item: Mapping[str, Any]) -> DocumentWrite:
    """A document of a batch that its schema accepted; raises InvalidRequest for an invalid date."""
    changes = _BATCH_ITEM.load(item)
    return DocumentWrite(changes.fields["document_key"], changes.fields.get("locale") or "", changes)


def document_batch_response(outcome: Any) -> dict[str, Any]:
    """The response to a batch; `outcome` has `upserted` and `failed` in the order of the request."""
    return {
        "upserted": [DOCUMENT.dump(version) for version in outcome.upserted],
        "failed": [
            {
                "index": failure.index,
                "documentKey": failure.document_key,
                "locale": failure.locale,
                "error": failure.refusal.as_problem(),
            }
            for failure in outcome.failed
        ],
        "total": len(outcome.upserted) + len(outcome.failed),
        "successCount": len(outcome.upserted),
        "failureCount": len(outcome.failed),
    }
