"""Creates and changes collections."""

from dataclasses import replace
from typing import Any

from domain.content.collections import ContentCollection, check_collection, slug_of
from domain.problems import NameTaken, Refusal
from handlers.call import Call
from handlers.messages.base import Changes, values_of
from handlers.services.content.document_schemas import check_schema
from persistence.content import collections, documents
from persistence.content.collections import COLLECTIONS
from persistence.content.languages import language_of, languages_of


def create(call: Call, properties: Any) -> ContentCollection:
    """Create a collection; a missing slug is made from the name. Raises NameTaken or InvalidRequest."""
    check_collection(values_of(properties))
    check_schema(properties.jsonschema)
    organization_id = call.organization.organization_id
    refusals: dict[str, Refusal] = {collections.SLUG_CONSTRAINT: _slug_taken(properties.slug)}
    if properties.slug is None:
        # No refusal of a taken slug: if another call uses the same slug meanwhile, this call is retried.
        base_slug = slug_of(properties.name, existing_slugs=())
        properties = replace(
            properties, slug=slug_of(properties.name, collections.find_slugs_like(call.db, organization_id, base_slug))
        )
        refusals = {}
    generated = {"collection_key": call.new_key(), "language": language_of(call.organization.default_locale)}
    return COLLECTIONS.add(call.db, organization_id, {**generated, **values_of(properties)}, call.now, refusals)


def update(call: Call, collection: ContentCollection, changes: Changes[Any]) -> ContentCollection:
    """Change the fields that are sent.

    If `fts_fields` change, the collection gets the language of the organization's default locale, and its documents
    are indexed again. Raises NameTaken or InvalidRequest.
    """
    check_collection(changes.fields)
    if "jsonschema" in changes.fields:
        check_schema(changes.fields["jsonschema"])
    before = COLLECTIONS.lock(call.db, collection)
    call.audit.keep_before(before)
    values = values_of(changes.of(before))
    refusals = {collections.SLUG_CONSTRAINT: _slug_taken(values["slug"])}
    is_reindexed = values["fts_fields"] != before.fts_fields
    if is_reindexed:
        values["language"] = language_of(call.organization.default_locale)
    after = COLLECTIONS.store(call.db, before, values, call.now, refusals)
    if is_reindexed:
        locales = documents.find_locales_in_use(call.db, after)
        documents.reindex(call.db, after, languages_of(after, locales))
    return after


def _slug_taken(slug: str | None) -> NameTaken:
    return NameTaken(f"Another collection has the slug {slug}.")
