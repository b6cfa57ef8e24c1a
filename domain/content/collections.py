"""Collections of content: their slugs, and the fields that searches may name (integration 2.5)."""

import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from domain.fields import Key
from domain.problems import FieldFault, InvalidRequest

# The values of `content_type`, and the types of fields.
STATIC, COUPON = "static", "coupon"
STRING, NUMBER, BOOLEAN, DATE = "string", "number", "boolean", "date"

MAX_SLUG_LENGTH = 200
MAX_FIELD_NAME_LENGTH = 100
# Paths have this word, for the batch operation, where they have a document's slug.
RESERVED_SLUG = "batch"

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.I)
_TYPES = {"string": STRING, "number": NUMBER, "integer": NUMBER, "boolean": BOOLEAN}


@dataclass(frozen=True, slots=True)
class ContentCollection:
    """A stored collection; `language` is the text search configuration for documents of the default locale.

    `content_version` rises with every change of its documents, and of the list of an audience.
    """

    organization_id: int
    content_collection_id: int
    collection_key: Key
    name: str
    description: str
    slug: str
    fts_fields: tuple[str, ...]
    facet_fields: Mapping[str, Mapping[str, Any]]
    jsonschema: Mapping[str, Any]
    tags: tuple[str, ...]
    content_type: str
    custom_attributes: Mapping[str, Any]
    language: str
    content_version: int
    external_key: str | None
    created_at: datetime
    updated_at: datetime

    @property
    def is_coupon(self) -> bool:
        """True if each document is about a coupon book."""
        return self.content_type == COUPON

    @property
    def properties(self) -> Mapping[str, Any]:
        """The fields of `attrs` that the JSON Schema describes at its top."""
        properties = self.jsonschema.get("properties")
        return properties if isinstance(properties, dict) else {}

    def declares(self, field: str) -> bool:
        """True for a field of `attrs` that is in `facetFields` or in the JSON Schema."""
        return field in self.facet_fields or field in self.properties

    def type_of(self, field: str) -> str | None:
        """The type of a field by `facetFields`, or else by the JSON Schema; None if neither gives one.

        For a list, it is the type of its elements.
        """
        if field in self.facet_fields:
            return str(self.facet_fields[field].get("type", STRING))
        schema = self.properties.get(field)
        if not isinstance(schema, dict):
            return None
        kind = schema.get("type")
        if kind == "array" and isinstance(schema.get("items"), dict):
            schema = schema["items"]
            kind = schema.get("type")
        if isinstance(kind, list):
            kinds = [type_name for type_name in kind if type_name != "null"]
            kind = kinds[0] if len(kinds) == 1 else None
        if kind == "string" and schema.get("format") in ("date", "date-time"):
            return DATE
        return _TYPES.get(kind) if isinstance(kind, str) else None


def is_uuid(text: str) -> bool:
    """True for a UUID, the form of a key; no slug has this form."""
    return _UUID.fullmatch(text) is not None


def slug_fault(slug: str | None) -> FieldFault | None:
    """The fault of a slug that is a UUID or reserved; None for other slugs."""
    if slug is None or not (is_uuid(slug) or slug == RESERVED_SLUG):
        return None
    kind = "a UUID" if is_uuid(slug) else "reserved"
    return FieldFault(f"slug {slug} is {kind}: choose another one", pointer="/slug")


def slug_of(name: str, existing_slugs: Collection[str]) -> str:
    """The slug made from a name; if it is taken, with the first free number from 2 on appended."""
    plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    # Ten characters are left for a number.
    slug = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[: MAX_SLUG_LENGTH - 10].strip("-") or "collection"
    if is_uuid(slug) or slug == RESERVED_SLUG:
        slug = f"collection-{slug}"
    if slug not in existing_slugs:
        return slug
    number = 2
    while f"{slug}-{number}" in existing_slugs:
        number += 1
    return f"{slug}-{number}"


def check_collection(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a slug that is a UUID or reserved, and for empty or too long names in `facetFields`."""
    faults = [fault] if (fault := slug_fault(values.get("slug"))) else []
    for field in values.get("facet_fields") or ():
        if not 0 < len(field) <= MAX_FIELD_NAME_LENGTH:
            detail = f"facetFields contains a name that does not have 1 to {MAX_FIELD_NAME_LENGTH} characters"
            faults.append(FieldFault(detail, pointer="/facetFields"))
    if faults:
        raise InvalidRequest(faults)
