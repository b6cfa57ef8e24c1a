"""Writes documents: a whole version, changes of a version, or a batch whose items succeed or fail independently."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from domain.calendar import ZONE_NAMES
from domain.content.collections import ContentCollection
from domain.content.documents import (
    DEFAULT_LOCALE,
    PUBLISHED,
    ContentDocument,
    DocumentAddress,
    LocaleFixed,
    coupon_book_key_of,
    document_faults,
)
from domain.fields import Key
from domain.problems import MAX_NAME_LENGTH, FieldFault, InvalidRequest, NotFound, Refusal
from handlers.call import Call
from handlers.messages.base import Changes, Shape, values_of
from handlers.messages.faults import MAX_FAULTS
from handlers.messages.json_text import encode
from handlers.services.content.document_schemas import AttributesValidator
from handlers.services.references import unknown_audience, unknown_coupon_book
from persistence import audit_log
from persistence.audiences import AUDIENCES
from persistence.content import collections, documents
from persistence.content.languages import languages_of
from persistence.coupons.books import BOOKS

# The name of documents in the audit log.
DOCUMENT_ENTITY = "content-document"

_AUDITED_FIELDS = Shape(
    ContentDocument,
    without=("organization_id", "content_document_id", "content_collection_id", "created_at", "updated_at"),
)

VersionKey = tuple[str, str]
"""The key of a document and the locale of its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentProperties:
    """The writable fields of a document."""

    slug: str | None = None
    attrs: Mapping[str, Any] | None = None
    status: str | None = None
    locale: str | None = None
    from_date: datetime | None = None
    to_date: datetime | None = None
    audience_keys: Sequence[Key] = ()
    days_of_week: Sequence[int] = ()
    day_of_week_schedule: Any = field(default=None, metadata={"omit_none": True})


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """The changes of one version of a document, which may not exist yet."""

    document_key: str
    locale: str
    changes: Changes[DocumentProperties]

    @property
    def version_key(self) -> VersionKey:
        """The key of the document and the locale of the version."""
        return self.document_key, self.locale

    def part_to_validate(self, version: ContentDocument | None) -> dict[str, Any]:
        """The values to be validated: the new ones, and both ends of the window, which depend on each other."""
        window = {} if version is None else {"from_date": version.from_date, "to_date": version.to_date}
        return {**window, **self.changes.fields, "document_key": self.document_key, "locale": self.locale}

    def row(self, version: ContentDocument | None) -> dict[str, Any]:
        """The whole version; fields that the changes leave out keep their stored values."""
        return {**values_of(self.changes.of(version)), "document_key": self.document_key, "locale": self.locale}


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A document of a batch that was not written, with its position in the request."""

    index: int
    document_key: str | None
    locale: str | None
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The outcome of a batch of documents, written and failed ones, both in the order of the request."""

    upserted: list[ContentDocument]
    failed: list[FailedDocument]


def document_key_of(
    call: Call, collection: ContentCollection, address: DocumentAddress, locale: str | None = None
) -> str:
    """The key of the addressed document; if several have the slug, a document with the slug in the locale is preferred.

    Raises NotFound for a slug that no document has.
    """
    key = address.key or documents.find_key(call.db, collection, address.key_or_slug, locale)
    if key is None:
        raise NotFound(f"There is no document with the documentKeyOrSlug {address.key_or_slug[:MAX_NAME_LENGTH]}.")
    return key


def version_of(
    call: Call, collection: ContentCollection, address: DocumentAddress, locale: str, *, lock: bool = False
) -> ContentDocument:
    """The version of a document for a locale; raises NotFound."""
    key = document_key_of(call, collection, address, locale)
    version = documents.find_version(call.db, collection, key, locale, lock=lock)
    if version is None:
        locale_text = f"the locale {locale}" if locale != DEFAULT_LOCALE else "the default locale"
        raise NotFound(f"The document {address.key_or_slug} has no version for {locale_text}.")
    return version


def write_version(
    call: Call,
    collection: ContentCollection,
    address: DocumentAddress,
    locale: str,
    changes: Changes[DocumentProperties],
) -> ContentDocument:
    """Create or change the version of a document for a locale; raises the refusal of an invalid document.

    A new version gets the slug that addresses it, unless the changes have a slug.
    """
    if changes.fields.get("locale") not in (None, locale):
        raise _locale_fixed(address, locale, changes.fields["locale"])
    collection = collections.increment_content_version(call.db, collection)
    item = DocumentWrite(document_key_of(call, collection, address, locale), locale, changes)
    versions = _lock_versions(call, collection, [item])
    if address.key is None and item.version_key not in versions:
        item = replace(item, changes=replace(changes, fields={"slug": address.key_or_slug, **changes.fields}))
    return _write_one(call, collection, item, versions.get(item.version_key))


def change_version(
    call: Call,
    collection: ContentCollection,
    address: DocumentAddress,
    locale: str,
    changes: Changes[DocumentProperties],
) -> ContentDocument:
    """Change the fields of a version that are sent; the other fields stay unchanged.

    A published version has to satisfy the current schema of the collection.
    """
    if changes.fields.get("locale", locale) != locale:
        raise _locale_fixed(address, locale, changes.fields["locale"])
    collection = collections.increment_content_version(call.db, collection)
    version = version_of(call, collection, address, locale, lock=True)
    if changes.fields.get("status") == PUBLISHED:
        # This validates the stored attributes if the request does not replace them.
        changes = replace(changes, fields={"attrs": version.attrs, **changes.fields})
    return _write_one(call, collection, DocumentWrite(version.document_key, locale, changes), version)


def _write_one(
    call: Call, collection: ContentCollection, item: DocumentWrite, version: ContentDocument | None
) -> ContentDocument:
    """Validate and store a version; `version` is the stored one, None if it does not exist."""
    refusal = _DocumentValidator(call, collection, [item]).refusal_of(item.part_to_validate(version))
    if refusal is not None:
        raise refusal
    languages = languages_of(collection, [item.locale])
    versions = documents.upsert(call.db, collection, [item.row(version)], languages, call.now)
    audit_versions(call, versions, {item.version_key: version})
    return versions[0]


def _lock_versions(
    call: Call, collection: ContentCollection, items: Sequence[DocumentWrite]
) -> dict[VersionKey, ContentDocument]:
    """Lock the versions that exist, and keep other calls from creating the missing ones; return the existing ones."""
    version_keys = {item.version_key for item in items}
    versions = documents.lock_versions(call.db, collection, version_keys)
    if version_keys - versions.keys():
        lock_name = f"new documents of {collection.content_collection_id}"
        audit_log.acquire_lock(call.db, collection.organization_id, lock_name)
        versions |= documents.lock_versions(call.db, collection, version_keys - versions.keys())
    return versions


def write_batch(
    call: Call, collection: ContentCollection, items: Sequence[DocumentWrite | Refusal], raw_items: Sequence[Any]
) -> BatchOutcome:
    """Write the valid documents of a batch, in a fixed number of statements.

    `items` has for each document of the request its changes, or a refusal if its form is wrong. `raw_items` are the
    same documents as the request contains them; from these, the response names the failed documents.
    """
    collection = collections.increment_content_version(call.db, collection)
    well_formed_items = [item for item in items if not isinstance(item, Refusal)]
    versions = _lock_versions(call, collection, well_formed_items)
    validator = _DocumentValidator(call, collection, well_formed_items)
    rows: list[dict[str, Any]] = []
    failed: list[FailedDocument] = []
    keys_in_batch: set[VersionKey] = set()
    for index, item in enumerate(items):
        refusal: Refusal | None
        if isinstance(item, Refusal):
            refusal = item
        else:
            version = versions.get(item.version_key)
            refusal = validator.refusal_of(item.part_to_validate(version))
            if refusal is None and item.version_key in keys_in_batch:
                refusal = _repeated_in_batch(item.document_key)
            keys_in_batch.add(item.version_key)
            if refusal is None:
                rows.append(item.row(version))
        if refusal is not None:
            raw_item = raw_items[index]
            failed.append(
                FailedDocument(index, _text_in(raw_item, "documentKey"), _text_in(raw_item, "locale"), refusal)
            )
    languages = languages_of(collection, {row["locale"] for row in rows})
    new_versions = documents.upsert(call.db, collection, rows, languages, call.now)
    audit_versions(call, new_versions, versions)
    return BatchOutcome(new_versions, failed)


def _repeated_in_batch(document_key: str) -> InvalidRequest:
    detail = f"documentKey {document_key} is in this batch twice for the same locale; the first one counts"
    return InvalidRequest([FieldFault(detail, pointer="/documentKey")])


def audit_versions(
    call: Call,
    versions: Sequence[ContentDocument],
    before_by_key: Mapping[VersionKey, ContentDocument | None],
    *,
    deleted: bool = False,
) -> None:
    """Add the written versions to the audit log; `before_by_key` has the versions before, None for new ones."""
    for version in versions:
        before = before_by_key.get((version.document_key, version.locale))
        after = _AUDITED_FIELDS(version) | ({"deleted": True} if deleted else {})
        before_values = None if before is None else _AUDITED_FIELDS(before)
        call.audit.add(DOCUMENT_ENTITY, version.content_document_id, before=before_values, after=after)


def _text_in(item: Any, name: str) -> str | None:
    """The text in the field `name` of a raw item of any form, shortened for the response; None if it has none.

    An item without a locale means the default locale.
    """
    default = DEFAULT_LOCALE if name == "locale" else None
    text = item.get(name, default) if isinstance(item, dict) else None
    return text[:100] if isinstance(text, str) else None


class _DocumentValidator:
    """Validates the documents of one call.

    Documents have to satisfy the schema of the collection, and the audiences and coupon books that they name have to
    exist. At most two statements look up these audiences and books.
    """

    def __init__(self, call: Call, collection: ContentCollection, items: Sequence[DocumentWrite]) -> None:
        self._collection = collection
        self._attrs_validator = AttributesValidator(collection.jsonschema)
        organization_id = call.organization.organization_id
        fields_of_items = [item.changes.fields for item in items]
        audience_keys = {key for fields in fields_of_items for key in fields.get("audience_keys") or ()}
        self._known_audience_keys = set()
        if audience_keys:
            self._known_audience_keys = AUDIENCES.find_values(call.db, organization_id, audience_key=audience_keys)
        book_keys = {coupon_book_key_of(fields.get("attrs") or {}) for fields in fields_of_items} - {None}
        self._known_book_keys = set()
        if collection.is_coupon and book_keys:
            self._known_book_keys = BOOKS.find_values(call.db, organization_id, coupon_book_key=book_keys)

    def refusal_of(self, values: Mapping[str, Any]) -> Refusal | None:
        """The refusal of a document, or of changes of one, with the faults of its fields; None if it is valid."""
        attrs = values.get("attrs")
        size = len(encode(attrs)) if attrs is not None else 0
        faults = document_faults(self._collection, values, size, ZONE_NAMES)
        if attrs is not None and not any(fault.pointer == "/attrs" for fault in faults):
            faults += self._attrs_validator.faults(attrs, size)
        if faults:
            return InvalidRequest(faults[:MAX_FAULTS])
        unknown_keys = set(values.get("audience_keys") or ()) - self._known_audience_keys
        if unknown_keys:
            return unknown_audience(unknown_keys)
        book_key = coupon_book_key_of(attrs or {})
        if self._collection.is_coupon and book_key is not None and book_key not in self._known_book_keys:
            return unknown_coupon_book(book_key)
        return None


def _locale_fixed(address: DocumentAddress, locale: str, other_locale: str) -> LocaleFixed:
    return LocaleFixed(
        f"The version of the document {address.key_or_slug} for the locale '{locale}' cannot become one for"
        f" '{other_locale}'."
    )
