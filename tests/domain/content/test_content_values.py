"""Searchable values of documents, slugs, and the types of fields."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.content.collections import ContentCollection, slug_of
from domain.content.values import number_text, searchable_values

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def collection(**values) -> ContentCollection:
    """A collection without fields and texts, except those in `values`."""
    plain = dict.fromkeys(("collection_key", "name", "description", "slug", "content_type", "language"), "")
    empty = {"fts_fields": (), "facet_fields": {}, "jsonschema": {}, "tags": (), "custom_attributes": {}}
    ids = {"organization_id": 1, "content_collection_id": 1, "content_version": 1, "external_key": None}
    ids |= {"created_at": NOW, "updated_at": NOW}
    return ContentCollection(**plain | empty | ids | values)


@pytest.mark.parametrize(
    ("name", "existing_slugs", "slug"),
    [
        ("Hot Drinks!", (), "hot-drinks"),
        ("Hot Drinks", ("hot-drinks",), "hot-drinks-2"),
        ("Hot Drinks", ("hot-drinks", "hot-drinks-2"), "hot-drinks-3"),
        ("Café con leche", (), "cafe-con-leche"),
        ("咖啡", (), "collection"),
        ("Batch", (), "collection-batch"),
        ("7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e5f", (), "collection-7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e5f"),
    ],
)
def test_slugs_are_made_of_names(name, existing_slugs, slug):
    assert slug_of(name, existing_slugs) == slug
    assert len(slug_of(name * 300, ())) <= 200


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (12, "12"),
        (Decimal("12.0"), "12"),
        (Decimal("-0.50"), "-0.5"),
        (Decimal("0.0"), "0"),
        (Decimal("1E+300"), "1E+300"),
        # A number with more than 40 digits before the point, or 40 after it, has an exponent.
        (Decimal("1E+39"), "1" + "0" * 39),
        (Decimal("1E+40"), "1E+40"),
        (Decimal("1E-39"), "0." + "0" * 38 + "1"),
        (Decimal("1E-40"), "1E-40"),
    ],
)
def test_equal_numbers_have_the_same_text(number, text):
    assert number_text(number) == text


def test_values_at_the_top_level_and_in_its_lists_are_searchable():
    attrs = {
        "": 1,
        "title": "x" * 1000,
        "price": Decimal("3.50"),
        "vegan": True,
        "since": "2026-01-02",
        "tags": ["a", "b", "a", {"no": 1}, None],
        "nested": {"a": 1},
        "nothing": None,
        "n" * 101: 1,
        "x": "one letter",
    }
    values_by_place = {(value.field, value.position): value for value in searchable_values(attrs)}
    # The values of a list are numbered from 1; a repeated one counts once.
    assert sorted(values_by_place) == [
        ("price", 0),
        ("since", 0),
        ("tags", 1),
        ("tags", 2),
        ("title", 0),
        ("vegan", 0),
        ("x", 0),
    ]
    # Texts are cut at 256 characters.
    assert values_by_place["title", 0].text_value == "x" * 256
    price = values_by_place["price", 0]
    assert (price.text_value, price.number_value) == ("3.5", Decimal("3.50"))
    assert values_by_place["vegan", 0].text_value == "true"
    assert values_by_place["since", 0].instant_value == datetime(2026, 1, 2, tzinfo=UTC)
    # The maximum is 100 values of one list.
    assert len(searchable_values({"many": [str(n) for n in range(500)]})) == 100


@pytest.mark.parametrize("elements", [["1", 1], [1, "1"], ["1", Decimal("1.0"), "1"]])
def test_a_number_of_a_list_is_a_value_although_the_list_has_its_text_too(elements):
    [value] = searchable_values({"sizes": elements})
    assert (value.position, value.text_value, value.number_value) == (1, "1", 1)


def test_a_field_has_the_type_that_its_collection_declares():
    properties = {
        "price": {"type": "number"},
        "count": {"type": ["integer", "null"]},
        "since": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "any": {},
        "mixed": {"type": ["string", "number"]},
        "vegan": True,
    }
    typed_collection = collection(
        jsonschema={"properties": properties}, facet_fields={"colour": {}, "price": {"type": "date"}}
    )
    types = {name: typed_collection.type_of(name) for name in (*properties, "colour", "other")}
    assert types == {
        "price": "date",
        "count": "number",
        "since": "date",
        "tags": "string",
        "any": None,
        "mixed": None,
        "vegan": None,
        "colour": "string",
        "other": None,
    }
    assert typed_collection.declares("vegan")
    assert not typed_collection.declares("other")


def test_properties_that_are_no_object_are_ignored():
    assert collection(jsonschema={"properties": 7}).properties == {}


def test_a_long_slug_is_cut_so_that_a_number_fits_behind_it():
    assert slug_of("a" * 300, ()) == "a" * 190
    assert slug_of("a" * 300, ["a" * 190]) == "a" * 190 + "-2"
    # No hyphen remains at the end.
    assert slug_of("a" * 189 + "-b", ()) == "a" * 189


def test_a_list_has_the_type_of_its_elements_and_other_fields_have_their_own():
    properties = {"any": {"type": "array"}, "text": {"type": "string", "items": {"type": "number"}}}
    typed_collection = collection(jsonschema={"properties": properties})
    assert typed_collection.type_of("any") is None
    assert typed_collection.type_of("text") == "string"
