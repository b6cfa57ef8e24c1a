"""Collections of content over HTTP."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.content import Content

UNKNOWN = "00000000-0000-4000-8000-000000000000"
COLLECTIONS = "/content/collections"


@pytest.fixture
def integration(organization):
    return organization.integration


def test_a_collection_is_stored_with_all_its_fields(organization, integration):
    body = {
        "name": "Drinks",
        "description": "What we pour.",
        "slug": "our-drinks",
        "ftsFields": ["title", "body"],
        "facetFields": {"colour": {"type": "string"}, "vegan": {"type": "boolean"}},
        "jsonschema": {"type": "object", "properties": {"price": {"type": "number", "multipleOf": Decimal("0.01")}}},
        "tags": ["menu"],
        "contentType": "coupon",
        "customAttributes": {"a": [1, {"b": None}]},
        "externalKey": "drinks",
    }
    collection = Content.of(organization, **body).collection
    assigned_fields = {name: collection[name] for name in ("collectionKey", "createdAt", "updatedAt")}
    assert collection == {**body, **assigned_fields}
    for name in (collection["collectionKey"], collection["collectionKey"].upper(), "our-drinks"):
        assert integration.get(f"{COLLECTIONS}/{name}") == collection


def test_missing_fields_of_a_collection_have_defaults(organization):
    collection = Content.of(organization, name="Drinks").collection
    defaults = {
        "slug": "drinks",
        "ftsFields": [],
        "facetFields": {},
        "jsonschema": {},
        "tags": [],
        "contentType": "static",
        "customAttributes": {},
    }
    assert {name: collection[name] for name in defaults} == defaults


def test_slugs_derive_from_names_and_are_unique(organization, integration):
    slugs = [Content.of(organization, name="Drinks").collection["slug"] for _ in range(3)]
    assert slugs == ["drinks", "drinks-2", "drinks-3"]
    body = {"name": "Other", "description": "", "slug": "drinks"}
    assert integration.post(COLLECTIONS, body, expect=409)["type"] == "/problems/name-taken"
    other_collection = Content.of(organization, name="Other")
    assert integration.patch(other_collection.path, {"slug": "drinks"}, expect=409)["type"] == "/problems/name-taken"
    assert integration.patch(other_collection.path, {"slug": "other"})["collection"]["slug"] == "other"
    # A slug must differ from the last part of other paths and from keys.
    for slug in ("batch", UNKNOWN):
        problem = integration.post(COLLECTIONS, {**body, "slug": slug}, expect=400)
        assert problem["errors"][0]["pointer"] == "/slug"


def test_an_update_changes_only_the_fields_it_sends(organization, integration):
    content = Content.of(organization)
    collection = content.collection
    for change in (
        {"name": "Hot drinks"},
        {"description": ""},
        {"slug": "hot"},
        {"ftsFields": ["title"]},
        {"facetFields": {"a": {}}},
        {"jsonschema": {"required": ["title"]}},
        {"tags": ["x"]},
        {"contentType": "coupon"},
        {"customAttributes": {"a": 1}},
    ):
        updated_collection = integration.patch(content.path, change)["collection"]
        assert updated_collection == {**collection, **change, "updatedAt": updated_collection["updatedAt"]}
        collection = updated_collection
    assert integration.get(content.path) == collection


@pytest.mark.parametrize(
    ("fault", "pointer"),
    [
        ({"name": None}, "/name"),
        ({"name": ""}, "/name"),
        ({"description": 7}, "/description"),
        ({"slug": "a/b"}, "/slug"),
        ({"ftsFields": [""]}, "/ftsFields/0"),
        ({"facetFields": {"a": {"type": "colour"}}}, "/facetFields/a/type"),
        ({"facetFields": {"a" * 101: {}}}, "/facetFields"),
        ({"contentType": "video"}, "/contentType"),
        ({"jsonschema": {"type": "strin"}}, "/jsonschema/type"),
        ({"jsonschema": {"properties": {"a": {"minimum": "x"}}}}, "/jsonschema/properties/a/minimum"),
        ({"jsonschema": {"properties": {"a": {"pattern": "(?=x)"}}}}, "/jsonschema/properties/a/pattern"),
        ({"jsonschema": {"pattern": "((a{1,1000}){1,1000}){1,1000}"}}, "/jsonschema/pattern"),
        ({"jsonschema": {"patternProperties": {"(": {}}}}, "/jsonschema/patternProperties/("),
        ({"jsonschema": {"items": {"multipleOf": 1e-300}}}, "/jsonschema/items/multipleOf"),
        ({"jsonschema": {"allOf": [{"pattern": f"(?:a|b)*a(?:a|b){{{n}}}c"} for n in range(99)]}}, "/jsonschema"),
        ({"jsonschema": {"$ref": "http://127.0.0.1:1/schema"}}, "/jsonschema/$ref"),
        ({"jsonschema": {"$ref": "#"}}, "/jsonschema"),
        ({"jsonschema": True}, "/jsonschema"),
        ({"collectionKey": UNKNOWN}, "/collectionKey"),
    ],
)
def test_faults_of_collections_are_reported_with_pointers(organization, integration, fault, pointer):
    content = Content.of(organization)
    body = {"name": "A", "description": "B"}
    for problem in (
        integration.post(COLLECTIONS, {**body, **fault}, expect=400),
        integration.patch(content.path, fault, expect=400),
    ):
        assert {error["pointer"] for error in problem["errors"]} == {pointer}
    assert integration.get(COLLECTIONS)["results"] == [content.collection]


def test_unknown_and_foreign_collections_are_not_found(organization, integration, other_organization):
    foreign_collection = Content.of(other_organization, name="Elsewhere").collection
    for name in (UNKNOWN, foreign_collection["collectionKey"], foreign_collection["slug"], "none"):
        assert integration.get(f"{COLLECTIONS}/{name}", expect=404)["type"] == "/problems/not-found"
        integration.patch(f"{COLLECTIONS}/{name}", {}, expect=404)
        integration.get(f"{COLLECTIONS}/{name}/documents", expect=404)


def test_collections_are_listed_filtered_and_ordered(organization, integration):
    oldest = Content.of(organization, name="b", tags=["x"], contentType="static").collection
    middle = Content.of(organization, name="a", tags=["x", "y"], contentType="coupon").collection
    newest = Content.of(organization, name="c", tags=[], contentType="static").collection
    whole_list = integration.get(COLLECTIONS)
    assert whole_list == {"results": [newest, middle, oldest], "totalCount": 3, "page": 0, "limit": 20}
    assert integration.get(COLLECTIONS, tags="x")["results"] == [middle, oldest]
    assert integration.get(COLLECTIONS, tags="x,y")["results"] == [middle]
    assert integration.get(COLLECTIONS, contentType="static")["results"] == [newest, oldest]
    second_page = integration.get(COLLECTIONS, limit=1, page=1)
    assert second_page == {"results": [middle], "totalCount": 3, "page": 1, "limit": 1}
    for column in ("name", "slug", "contentType", "createdAt", "updatedAt", "collectionKey"):
        for direction in ("asc", "desc"):
            results = integration.get(COLLECTIONS, sort=f"{column}:{direction}")["results"]
            column_values = [result[column] for result in results]
            assert len(column_values) == 3
            assert column_values == sorted(column_values, reverse=direction == "desc")


# An order is written with a colon, as in name:asc.
@pytest.mark.parametrize(
    ("parameter", "value"), [("sort", "tags"), ("sort", "name,asc"), ("limit", 101), ("contentType", "x")]
)
def test_an_invalid_query_of_the_list_of_collections_is_refused(integration, parameter, value):
    problem = integration.get(COLLECTIONS, expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]
