"""Collections of content and their documents (integration 4.4, items 1 to 11)."""

from collections.abc import Mapping
from typing import Any

from domain.content.collections import ContentCollection
from domain.content.documents import ContentDocument, DocumentAddress
from domain.problems import InvalidRequest, NotFound
from handlers.audit_trail import Audited
from handlers.call import INTEGRATION, Call
from handlers.messages.base import Changes, wrapped
from handlers.messages.lists import listed
from handlers.messages.validation import body_faults, component_validator
from handlers.operation import declare_get, operation
from handlers.schemas.content import (
    COLLECTION,
    DOCUMENT,
    CollectionProperties,
    DocumentBatch,
    batch_item,
    document_batch_response,
)
from handlers.schemas.content_search import search_of, search_response
from handlers.services.content import write_collections
from handlers.services.content.write_documents import (
    DOCUMENT_ENTITY,
    BatchOutcome,
    DocumentProperties,
    DocumentWrite,
    audit_versions,
    change_version,
    document_key_of,
    version_of,
    write_batch,
    write_version,
)
from persistence.content import collections, documents, search
from persistence.content.collections import COLLECTIONS
from persistence.paging import Paged

_AUDITED = Audited("content-collection", "content_collection_id", COLLECTION.dump)


@operation("listCollections", response=listed(COLLECTION.dump), may_be_outdated=True)
def list_collections(call: Call, query: Mapping[str, Any]) -> Paged[ContentCollection]:
    """A page of the collections that match all filters."""
    filters = {name: value for name, value in query.items() if name != "sort"}
    if "sort" in query:
        # `sort` separates the direction by a colon, as in searches of documents, and `order` of all lists by a comma.
        filters["order"] = query["sort"].replace(":", ",")
    return COLLECTIONS.find_page(call.db, call.organization.organization_id, filters)


@operation("createCollection", response=wrapped("collection", COLLECTION.dump), audit=_AUDITED)
def create_collection(call: Call, body: CollectionProperties) -> ContentCollection:
    """Create a collection; by default its slug is derived from the name."""
    return write_collections.create(call, body)


declare_get("getCollection", "collection", COLLECTION.dump)


@operation(
    "updateCollection",
    response=wrapped("collection", COLLECTION.dump),
    audit=_AUDITED.changing(is_found_by_handler=True),
)
def update_collection(
    call: Call, collection: ContentCollection, body: Changes[CollectionProperties]
) -> ContentCollection:
    """Change the fields that are sent. The documents stay unchanged; if `ftsFields` changes, they are reindexed."""
    return write_collections.update(call, collection, body)


@operation("searchDocuments", may_be_outdated=True)
def search_documents(call: Call, collection: ContentCollection, query: Mapping[str, Any]) -> dict[str, Any]:
    """The documents that match the query and, for each facet field, how many of them have each value."""
    document_search, description = search_of(collection, query)
    return search_response(collection, description, search.find(call.db, document_search))


@operation("batchUpsertDocuments", response=document_batch_response, audit=DOCUMENT_ENTITY)
def batch_upsert_documents(call: Call, collection: ContentCollection, body: DocumentBatch) -> BatchOutcome:
    """Create or change versions of documents; a fault in one version does not affect the others."""
    items = [_batch_item(document) for document in body.documents]
    return write_batch(call, collection, items, body.documents)


def _batch_item(item: Any) -> DocumentWrite | InvalidRequest:
    """The write that an item of a batch requests; a refusal if the item has faults."""
    validator = component_validator("ContentBatchDocument", INTEGRATION)
    faults = [] if validator.accepts(item) else body_faults(validator, item)
    if faults:
        return InvalidRequest(faults)
    try:
        return batch_item(item)
    except InvalidRequest as refusal:
        return refusal


@operation("getDocument", response=wrapped("document", DOCUMENT.dump))
def get_document(
    call: Call, collection: ContentCollection, document: DocumentAddress, query: Mapping[str, Any]
) -> ContentDocument:
    """The version of a document in one locale."""
    return version_of(call, collection, document, query["locale"])


@operation("updateDocument", response=wrapped("document", DOCUMENT.dump), audit=DOCUMENT_ENTITY)
def update_document(
    call: Call,
    collection: ContentCollection,
    document: DocumentAddress,
    query: Mapping[str, Any],
    body: Changes[DocumentProperties],
) -> ContentDocument:
    """Change the sent fields of a document's version in one locale."""
    return change_version(call, collection, document, query["locale"], body)


@operation("deleteDocument", response=wrapped("document", DOCUMENT.dump), audit=DOCUMENT_ENTITY)
def delete_document(
    call: Call, collection: ContentCollection, document: DocumentAddress, query: Mapping[str, Any]
) -> ContentDocument:
    """Delete the version of a document in one locale; the versions in other locales stay."""
    collection = collections.increment_content_version(call.db, collection)
    version = version_of(call, collection, document, query["locale"], lock=True)
    deleted_version = documents.delete(call.db, version, call.now)
    audit_versions(call, [deleted_version], {(version.document_key, version.locale): version}, deleted=True)
    return deleted_version


@operation("listDocumentLocales")
def list_document_locales(call: Call, collection: ContentCollection, document: DocumentAddress) -> dict[str, Any]:
    """The locales of the versions of a document; the default locale is the empty string."""
    locales = documents.find_locales(call.db, collection, document_key_of(call, collection, document))
    if not locales:
        raise NotFound(f"There is no document {document.key_or_slug} in the collection {collection.slug}.")
    return {"documentKeyOrSlug": document.key_or_slug, "locales": locales}


@operation("upsertDocumentLocale", response=wrapped("document", DOCUMENT.dump), audit=DOCUMENT_ENTITY)
def upsert_document_locale(
    call: Call, collection: ContentCollection, document: DocumentAddress, locale: str, body: Changes[DocumentProperties]
) -> ContentDocument:
    """Create or change the version of a document in one locale."""
    return write_version(call, collection, document, locale, body)
