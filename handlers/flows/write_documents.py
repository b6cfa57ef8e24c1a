"""Documents written: one version, a change of one, or a batch in which each stands or falls on its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from domain.audiences import UnknownAudience
from domain.content.collections import ContentCollection
from domain.content.documents import (
    DEFAULT_LOCALE,
    ContentDocument,
    DocumentAddress,
    LocaleFixed,
    coupon_book_key_of,
    document_faults,
)
from domain.coupons.books import UnknownCouponBook
from domain.coupons.periods import zone_names
from domain.problems import FieldFault, InvalidRequest, NotFound, Refusal
from handlers.call import Call
from handlers.flows.content_schemas import attrs_faults
from handlers.http.json_text import encode
from persistence import audiences
from persistence.content import collections, documents
from persistence.content.languages import languages_of
from persistence.coupons import books

# What the audit log calls them.
DOCUMENT_ENTITY = "content-document"

_CHANGEABLE = (
    *("slug", "attrs", "status", "from_date", "to_date", "audience_keys", "days_of_week", "day_of_week_schedule"),
)


@dataclass(frozen=True, slots=True)
class Failed:
    """A document of a batch that was not written, by its place in the request."""

    index: int
    document_key: str | None
    locale: str | None
    refusal: Refusal


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of the documents of a batch, both in the order of the request."""

    upserted: list[ContentDocument]
    failed: list[Failed]


def version_of(
    call: Call, collection: ContentCollection, address: DocumentAddress, locale: str, *, lock: bool = False
) -> ContentDocument:
    """The version of a document for a locale; raises NotFound."""
    found = documents.find_version(call.db, collection, address.key, locale, lock=lock)
    if found is None:
        shown = f"the locale {locale}" if locale != DEFAULT_LOCALE else "the default locale"
        raise NotFound(f"The document {address.named} has no version for {shown}.")
    return found


def write_version(
    call: Call, collection: ContentCollection, address: DocumentAddress, locale: str, values: dict[str, Any]
) -> ContentDocument:
    """Create or replace the version of a document for a locale; raises the refusal of what is wrong with it."""
    if values["locale"] not in (None, locale):
        raise _locale_fixed(address, locale, values["locale"])
    collection = collections.hold(call.db, collection)
    row = {**values, "document_key": address.key, "locale": locale}
    return _write_one(call, collection, row, row)


def change_version(
    call: Call, collection: ContentCollection, address: DocumentAddress, locale: str, changes: Mapping[str, Any]
) -> ContentDocument:
    """Change the fields that are sent of a version; the others stay."""
    if changes.get("locale", locale) != locale:
        raise _locale_fixed(address, locale, changes["locale"])
    collection = collections.hold(call.db, collection)
    version = version_of(call, collection, address, locale, lock=True)
    sent = {name: value for name, value in changes.items() if name != "locale"}
    whole = {name: getattr(version, name) for name in _CHANGEABLE}
    row = {**whole, **sent, "document_key": version.document_key, "locale": locale}
    # What is stored is not judged again, but the two ends of its window are judged together.
    judged = {"from_date": row["from_date"], "to_date": row["to_date"], **sent}
    return _write_one(call, collection, judged, row)


def _write_one(
    call: Call, collection: ContentCollection, judged: dict[str, Any], row: dict[str, Any]
) -> ContentDocument:
    refusal = _Judge(call, collection, [judged]).refusal_of(judged)
    if refusal is not None:
        raise refusal
    languages = languages_of(collection, [row["locale"]])
    written = documents.upsert(call.db, collection, [row], languages, call.now)
    note_versions(call, written)
    return written[0]


def write_batch(
    call: Call, collection: ContentCollection, items: Sequence[dict[str, Any] | Refusal], named: Sequence[Any]
) -> BatchOutcome:
    """Write the documents that can be written; the number of statements is the same for any number of documents.

    `items` are the documents of the request, or what is wrong with their form; `named` what the request has in their
    places, for the answer.
    """
    collection = collections.hold(call.db, collection)
    judge = _Judge(call, collection, [each for each in items if not isinstance(each, Refusal)])
    rows: list[dict[str, Any]] = []
    failed: list[Failed] = []
    seen: set[tuple[str, str]] = set()
    for index, item in enumerate(items):
        refusal = item if isinstance(item, Refusal) else judge.refusal_of(item)
        if not isinstance(item, Refusal):
            place = (item["document_key"], item["locale"])
            if refusal is None and place in seen:
                detail = f"documentKey {place[0]} is in this batch twice for the same locale; the first one counts"
                refusal = InvalidRequest([FieldFault(detail, pointer="/documentKey")])
            seen.add(place)
            if refusal is None:
                rows.append(item)
        if refusal is not None:
            failed.append(Failed(index, _text(named[index], "documentKey"), _text(named[index], "locale"), refusal))
    languages = languages_of(collection, {row["locale"] for row in rows})
    written = documents.upsert(call.db, collection, rows, languages, call.now)
    note_versions(call, written)
    return BatchOutcome(written, failed)


def note_versions(call: Call, versions: Sequence[ContentDocument], *, deleted: bool = False) -> None:
    """Add the versions that were written to the audit log: their address and status, but not their content."""
    for each in versions:
        told = {"documentKey": each.document_key, "locale": each.locale, "slug": each.slug, "status": each.status}
        after = {**told, "deleted": True} if deleted else told
        call.audit.add(DOCUMENT_ENTITY, each.content_document_id, after=after)


def _text(item: Any, name: str) -> str | None:
    """What an item of any form has as a field, for the answer, if that is a text."""
    found = item.get(name, "" if name == "locale" else None) if isinstance(item, dict) else None
    return found[:100] if isinstance(found, str) else None


class _Judge:
    """Knows what the documents of one call name, looked up in two statements at most."""

    def __init__(self, call: Call, collection: ContentCollection, items: Sequence[Mapping[str, Any]]) -> None:
        self._collection = collection
        organization_id = call.organization.organization_id
        for item in items:
            if item.get("audience_keys"):
                item["audience_keys"][:] = [key.lower() for key in item["audience_keys"]]
        keys = {key for item in items for key in item.get("audience_keys") or ()}
        self._audiences = audiences.known_keys(call.db, organization_id, keys) if keys else set()
        named = {key for item in items if (key := coupon_book_key_of(item.get("attrs") or {}))}
        self._books = set()
        if collection.is_coupon and named:
            self._books = books.known_keys(call.db, organization_id, named)

    def refusal_of(self, values: Mapping[str, Any]) -> Refusal | None:
        """What is wrong with a document, or with the changes of one; every fault of its fields together."""
        attrs = values.get("attrs")
        size = len(encode(attrs)) if attrs is not None else 0
        faults = document_faults(self._collection, values, size, zone_names())
        if attrs is not None and not any(fault.pointer == "/attrs" for fault in faults):
            faults += attrs_faults(self._collection.jsonschema, attrs)
        if faults:
            return InvalidRequest(faults[:50])
        unknown = set(values.get("audience_keys") or ()) - self._audiences
        if unknown:
            return UnknownAudience(f"There is no audience with the key {min(unknown)}.")
        book_key = coupon_book_key_of(attrs or {})
        if self._collection.is_coupon and book_key is not None and book_key not in self._books:
            return UnknownCouponBook(f"There is no coupon book with the key {book_key}.")
        return None


def _locale_fixed(address: DocumentAddress, locale: str, other: str) -> LocaleFixed:
    return LocaleFixed(
        f"The version of the document {address.named} for the locale '{locale}' cannot become one for '{other}'."
    )
