"""Documents over HTTP: versions for locales, written one at a time and in batches, changed and deleted."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.content import Content, document_key, item
from tests.builders.coupons import CouponBooks
from tests.builders.statements import count

KEY = "7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e5f"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
SCHEDULE = {"timezone": "Europe/Madrid", "schedule": [{"day": 1, "fromHour": 7, "toHour": 11}]}


@pytest.fixture
def drinks(organization):
    """A collection whose documents can have a price, of at least 0."""
    return Content.of(organization, jsonschema={"properties": {"price": {"type": "number", "minimum": 0}}})


def new_audience(organization) -> str:
    """Create an audience; return its key."""
    return organization.administration.post("/audiences", {"matcherType": "list-matcher"})["audience"]["audienceKey"]


def test_a_document_is_stored_with_all_its_fields(organization, drinks):
    fields = {
        "slug": "flat-white",
        "attrs": {"title": "Flat white", "price": Decimal("3.25"), "deep": [{"a": [1, None, {"b": True}]}]},
        "status": "draft",
        "fromDate": "2026-01-01T00:00:00Z",
        "toDate": "2026-12-31T00:00:00Z",
        "audienceKeys": [new_audience(organization)],
        "daysOfWeek": ["1", "7"],
        "dayOfWeekSchedule": SCHEDULE,
    }
    fields_besides_attrs = {name: value for name, value in fields.items() if name != "attrs"}
    document = drinks.put(fields["attrs"], key=KEY.upper(), **fields_besides_attrs)
    generated_fields = {name: document[name] for name in ("createdAt", "updatedAt")}
    assert document == {**fields, **generated_fields, "documentKey": KEY, "locale": ""}
    for name in (KEY, KEY.upper(), "flat-white"):
        assert drinks.integration.get(f"{drinks.documents}/{name}", locale="") == {"document": document}


def test_a_write_keeps_missing_fields_of_a_document_and_null_unsets_them(drinks):
    document = drinks.put({"a": 1}, key=KEY, slug="x", daysOfWeek=["1"], dayOfWeekSchedule=SCHEDULE)
    rewritten_document = drinks.put({"b": 2}, key=KEY, daysOfWeek=None, dayOfWeekSchedule=None)
    assert rewritten_document["slug"] == "x"
    assert (rewritten_document["attrs"], rewritten_document["daysOfWeek"]) == ({"b": 2}, [])
    assert "dayOfWeekSchedule" not in rewritten_document
    assert rewritten_document["createdAt"] == document["createdAt"]
    assert rewritten_document["updatedAt"] > document["updatedAt"]
    # Another locale is another version, which had no slug.
    batch = drinks.batch(item({"c": 3}, documentKey=KEY, locale=""), item({"d": 4}, documentKey=KEY, locale="es"))
    assert [version["slug"] for version in batch["upserted"]] == ["x", None]
    assert drinks.put({"b": 2}, key=KEY, slug=None)["slug"] is None


def test_locales_are_versions_of_one_document(drinks):
    get, path = drinks.integration.get, f"{drinks.documents}/{KEY}"
    for locale in ("default", "es", "pt-BR"):
        drinks.put({"title": locale}, key=KEY, locale=locale, slug="one" if locale == "default" else None)
    assert get(f"{path}/locales") == {"documentKeyOrSlug": KEY, "locales": ["", "es", "pt-BR"]}
    assert get(f"{drinks.documents}/one/locales")["documentKeyOrSlug"] == "one"
    for locale, title in (("", "default"), ("es", "es"), ("pt-BR", "pt-BR")):
        assert get(path, locale=locale)["document"]["attrs"] == {"title": title}
    assert get(f"{drinks.documents}/one", locale="es")["document"]["attrs"] == {"title": "es"}
    assert get(path, locale="fr", expect=404)["type"] == "/problems/not-found"
    assert get(path, expect=400)["errors"][0]["parameter"] == "locale"
    assert get(path, locale="default", expect=400)["errors"][0]["parameter"] == "locale"


def test_a_deleted_version_is_not_found_until_it_is_written_again(drinks):
    integration, path = drinks.integration, f"{drinks.documents}/{KEY}"
    for locale in ("default", "es"):
        drinks.put({"title": locale}, key=KEY, locale=locale)
    deleted_document = integration.delete(path, locale="es", expect=200)["document"]
    assert deleted_document["attrs"] == {"title": "es"}
    for call in (integration.get, integration.delete):
        call(path, locale="es", expect=404)
    integration.patch(path, {}, locale="es", expect=404)
    assert integration.get(f"{path}/locales")["locales"] == [""]
    recreated_document = drinks.put({"title": "again"}, key=KEY, locale="es")
    assert recreated_document["createdAt"] > deleted_document["createdAt"]
    assert integration.get(path, locale="es")["document"] == recreated_document


def test_a_document_is_deleted_with_its_last_version(drinks):
    path = f"{drinks.documents}/{KEY}"
    for locale in ("default", "es"):
        drinks.put({}, key=KEY, locale=locale)
    for locale in ("", "es"):
        assert drinks.search(locale=locale)["totalCount"] == 1
        drinks.integration.delete(path, locale=locale, expect=200)
        assert drinks.search(locale=locale)["totalCount"] == 0
    drinks.integration.get(f"{path}/locales", expect=404)


def test_a_slug_of_several_documents_identifies_the_oldest(drinks):
    older_document, newer_document = (drinks.put({"n": n}, slug="same") for n in range(2))
    path = f"{drinks.documents}/same"
    assert drinks.integration.get(path, locale="")["document"] == older_document
    drinks.integration.delete(path, locale="", expect=200)
    assert drinks.integration.get(path, locale="")["document"] == newer_document
    body = {"attrs": {}, "status": "draft"}
    spanish = drinks.integration.put(f"{path}/locales/es", body)["document"]
    assert spanish["documentKey"] == newer_document["documentKey"]
    drinks.integration.put(f"{drinks.documents}/nobody/locales/es", body, expect=404)


def test_a_slug_of_several_documents_identifies_the_oldest_version_not_the_oldest_document(drinks):
    drinks.put({}, key=KEY)
    younger_document = drinks.put({}, slug="same")
    # The older document has the slug only in a version that was written later.
    drinks.put({}, key=KEY, locale="es", slug="same")
    path = f"{drinks.documents}/same"
    assert drinks.integration.get(f"{path}/locales")["locales"] == [""]
    french = drinks.integration.put(f"{path}/locales/fr", {"attrs": {}, "status": "draft"})["document"]
    assert french["documentKey"] == younger_document["documentKey"]
    spanish = drinks.integration.put(f"{path}/locales/es", {"attrs": {}, "status": "draft"})["document"]
    assert spanish["documentKey"] == KEY


def test_a_slug_identifies_the_document_that_has_it_in_the_requested_locale(drinks):
    get, path = drinks.integration.get, f"{drinks.documents}/offers"
    spanish = drinks.put({"of": "es"}, locale="es", slug="offers")
    default = drinks.put({"of": "default"}, slug="offers")
    key = default["documentKey"]
    assert get(path, locale="")["document"] == default
    assert get(path, locale="es")["document"] == spanish
    updated_document = drinks.integration.patch(path, {"status": "draft"}, locale="")["document"]
    assert (updated_document["documentKey"], updated_document["status"]) == (key, "draft")
    replacement = drinks.integration.put(f"{path}/locales/default", {"attrs": {}, "status": "published"})["document"]
    assert (replacement["documentKey"], replacement["attrs"], replacement["createdAt"]) == (
        key,
        {},
        default["createdAt"],
    )
    assert drinks.integration.delete(path, locale="", expect=200)["document"]["documentKey"] == key
    # No document has the slug in the default locale any more; the oldest one with the slug lacks that locale.
    drinks.integration.delete(path, locale="", expect=404)
    assert get(path, locale="es")["document"] == spanish
    assert get(f"{path}/locales")["locales"] == ["es"]


def test_a_new_version_written_by_slug_gets_this_slug_by_default(drinks):
    drinks.put({}, key=KEY, slug="one")
    body = {"attrs": {}, "status": "draft"}
    for locale, slug_field, slug in (("es", {}, "one"), ("fr", {"slug": "un"}, "un"), ("de", {"slug": None}, None)):
        document = drinks.integration.put(f"{drinks.documents}/one/locales/{locale}", {**body, **slug_field})[
            "document"
        ]
        assert (document["documentKey"], document["slug"]) == (KEY, slug)
    # A stored version keeps its own slug.
    assert drinks.integration.put(f"{drinks.documents}/one/locales/fr", body)["document"]["slug"] == "un"
    assert drinks.put({}, key=KEY, locale="it")["slug"] is None


def test_an_update_changes_only_the_fields_it_sends(organization, drinks):
    document = drinks.put({"a": 1}, key=KEY)
    path = f"{drinks.documents}/{KEY}"
    for change in (
        {"slug": "x"},
        {"slug": None},
        {"attrs": {"price": 2}},
        {"status": "draft"},
        {"fromDate": "2026-01-01T00:00:00Z"},
        {"toDate": "2026-02-01T00:00:00Z"},
        {"fromDate": None},
        {"audienceKeys": [new_audience(organization)]},
        {"daysOfWeek": ["3"]},
        {"dayOfWeekSchedule": SCHEDULE},
        {"locale": ""},
    ):
        updated_document = drinks.integration.patch(path, change, locale="")["document"]
        assert updated_document == {**document, **change, "updatedAt": updated_document["updatedAt"]}
        document = updated_document
    updated_document = drinks.integration.patch(path, {"dayOfWeekSchedule": None}, locale="")["document"]
    assert "dayOfWeekSchedule" not in updated_document
    problem = drinks.integration.patch(path, {"fromDate": "2027-01-01T00:00:00Z"}, locale="", expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/toDate"]


def test_a_version_cannot_move_to_another_locale(drinks):
    drinks.put({}, key=KEY, locale="es")
    path = f"{drinks.documents}/{KEY}"
    problem = drinks.integration.patch(path, {"locale": "fr"}, locale="es", expect=409)
    assert problem["type"] == "/problems/locale-fixed"
    body = {"attrs": {}, "status": "draft", "locale": ""}
    assert drinks.integration.put(f"{path}/locales/es", body, expect=409)["type"] == "/problems/locale-fixed"
    drinks.integration.put(f"{path}/locales/es", {**body, "locale": "es"})


FAULTS = [
    ({"slug": UNKNOWN}, "/slug"),
    ({"slug": "batch"}, "/slug"),
    ({"status": "archived"}, "/status"),
    ({"fromDate": "tomorrow"}, "/fromDate"),
    ({"fromDate": "2026-02-01T00:00:00Z", "toDate": "2026-01-01T00:00:00Z"}, "/toDate"),
    ({"audienceKeys": ["x"]}, "/audienceKeys/0"),
    ({"daysOfWeek": ["8"]}, "/daysOfWeek/0"),
    ({"daysOfWeek": [1]}, "/daysOfWeek/0"),
    ({"dayOfWeekSchedule": {**SCHEDULE, "timezone": "Mars/Base"}}, "/dayOfWeekSchedule/timezone"),
    ({"dayOfWeekSchedule": {**SCHEDULE, "schedule": []}}, "/dayOfWeekSchedule/schedule"),
    (
        {"dayOfWeekSchedule": {**SCHEDULE, "schedule": [{"day": 1, "fromHour": 9, "toHour": 8}]}},
        "/dayOfWeekSchedule/schedule/0/fromHour",
    ),
    # A price is a number of at least 0.
    ({"attrs": {"price": -1}}, "/attrs/price"),
    ({"attrs": {"price": "free"}}, "/attrs/price"),
    # Too many characters, and too many values.
    ({"attrs": {"text": "x" * 70_000}}, "/attrs"),
    ({"attrs": {str(n): list(range(100)) for n in range(11)}}, "/attrs"),
    ({"colour": "red"}, "/colour"),
]


@pytest.mark.parametrize(("fault", "pointer"), FAULTS)
def test_faults_of_documents_are_reported_for_every_way_of_writing(drinks, fault, pointer):
    document = drinks.put({"a": 1}, key=KEY)
    path = f"{drinks.documents}/{KEY}"
    valid_body = {"attrs": {}, "status": "draft"}
    for problem in (
        drinks.integration.put(f"{path}/locales/default", {**valid_body, **fault}, expect=400),
        drinks.integration.patch(path, fault, locale="", expect=400),
        drinks.batch({**valid_body, "documentKey": KEY, **fault})["failed"][0]["error"],
    ):
        assert problem["type"] == "/problems/invalid-request"
        assert {error["pointer"] for error in problem["errors"]} == {pointer}
    assert drinks.integration.get(path, locale="")["document"] == document


def test_audiences_of_a_document_must_exist(drinks):
    assert drinks.put({}, audienceKeys=[UNKNOWN], expect=404)["type"] == "/problems/unknown-audience"
    [failure] = drinks.batch(item({}, audienceKeys=[UNKNOWN]))["failed"]
    assert failure["error"]["type"] == "/problems/unknown-audience"


def test_a_batch_writes_its_valid_documents_and_reports_the_others(drinks):
    existing_document = drinks.put({"n": 0}, key=KEY)
    spanish_item = item({"n": 3}, locale="es")
    items = [
        item({"n": 1}, documentKey=KEY),
        # attrs and status are missing.
        {"documentKey": KEY},
        # The minimum is 0.
        item({"price": -1}, locale="fr"),
        spanish_item,
        # A second item for the same version
        {**spanish_item, "attrs": {"n": 4}},
        # No object, and a locale that is no text
        7,
        {**item({}), "locale": 5},
        item({"n": 8}, status="draft", slug="eight"),
    ]
    response = drinks.batch(*items)
    assert (response["total"], response["successCount"], response["failureCount"]) == (8, 3, 5)
    assert [document["attrs"]["n"] for document in response["upserted"]] == [1, 3, 8]
    assert [document["locale"] for document in response["upserted"]] == ["", "es", ""]
    assert response["upserted"][0]["createdAt"] == existing_document["createdAt"]
    assert [(failure["index"], failure["locale"]) for failure in response["failed"]] == [
        (1, ""),
        (2, "fr"),
        (4, "es"),
        (5, None),
        (6, None),
    ]
    assert [failure["documentKey"] for failure in response["failed"]][:3] == [
        KEY,
        items[2]["documentKey"],
        spanish_item["documentKey"],
    ]
    pointers = [[fault["pointer"] for fault in failure["error"]["errors"]] for failure in response["failed"]]
    assert pointers == [["/attrs", "/status"], ["/attrs/price"], ["/documentKey"], [""], ["/locale"]]
    for document in response["upserted"]:
        reply = drinks.integration.get(f"{drinks.documents}/{document['documentKey']}", locale=document["locale"])
        assert reply == {"document": document}


def test_documents_that_take_too_long_to_validate_are_refused(organization):
    schema = {"properties": {"a": {"pattern": "(?:a|b)*a(?:a|b){150}c"}}}
    content = Content.of(organization, jsonschema=schema)
    long_text, short_text = "ab" * 30_000, "ab" * 100 + "ac"
    problem = content.put({"a": long_text}, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/attrs"]
    assert "takes too long to validate" in problem["errors"][0]["detail"]
    response = content.batch(item({"a": long_text}), item({"a": short_text}))
    assert [document["attrs"] for document in response["upserted"]] == [{"a": short_text}]
    assert [failure["index"] for failure in response["failed"]] == [0]


def test_a_batch_has_1_to_200_documents(drinks):
    path = f"{drinks.documents}/batch"
    for documents in ([], [item({})] * 201):
        problem = drinks.integration.post(path, {"documents": documents}, expect=400)
        assert problem["errors"][0]["pointer"] == "/documents"
    assert drinks.batch(*(item({"n": n}) for n in range(200)))["successCount"] == 200


def test_the_number_of_statements_does_not_depend_on_the_size_of_a_batch(api, organization, drinks):
    audience_key = new_audience(organization)

    def count_statements(size: int) -> int:
        """Write a batch of this size; return the number of statements."""
        items = [item({"n": n, "tags": ["a", "b"]}, audienceKeys=[audience_key]) for n in range(size)]
        return count(api.engine, lambda: drinks.batch(*items))

    assert count_statements(1) == count_statements(150)


def test_documents_of_coupons_must_name_an_existing_book(organization):
    coupons = Content.of(organization, contentType="coupon")
    book = CouponBooks(organization).make()
    for attrs in ({}, {"couponBookKey": "coffee"}, {"couponBookKey": 7}):
        problem = coupons.put(attrs, expect=400)
        assert problem["errors"][0]["pointer"] == "/attrs/couponBookKey"
    assert coupons.put({"couponBookKey": UNKNOWN}, expect=404)["type"] == "/problems/unknown-coupon-book"
    coupons.put({"couponBookKey": book["couponBookKey"].upper()})


def test_the_references_of_a_coupon_book_include_documents_of_coupons(organization):
    coupons, static = Content.of(organization, contentType="coupon"), Content.of(organization)
    book = CouponBooks(organization).make()
    attrs = {"couponBookKey": book["couponBookKey"]}
    references = f"/coupon-books/{book['couponBookKey']}/references"
    static.put(attrs)
    # In another collection the field has no meaning.
    assert organization.integration.get(references)["isReferenced"] is False
    key = document_key()
    for locale in ("default", "es"):
        coupons.put(attrs, key=key, locale=locale, status="draft")
    reference = {"collectionKey": coupons.collection["collectionKey"], "documentKey": key}
    response = {"isReferenced": True, "references": {"campaigns": [], "documents": [reference]}}
    assert organization.integration.get(references) == response
    for locale in ("", "es"):
        coupons.integration.delete(f"{coupons.documents}/{key}", locale=locale, expect=200)
    assert organization.integration.get(references)["isReferenced"] is False


def test_documents_of_another_collection_or_organization_are_not_found(organization, other_organization, drinks):
    drinks.put({}, key=KEY, slug="here")
    other_collection = Content.of(organization)
    foreign_content = Content.of(other_organization, name="Elsewhere")
    foreign_content.put({}, key=UNKNOWN, slug="there")
    for name in (KEY, "here", UNKNOWN, "there"):
        other_collection.integration.get(f"{other_collection.documents}/{name}", locale="", expect=404)
    drinks.integration.get(f"{foreign_content.documents}/{UNKNOWN}", locale="", expect=404)


def test_a_changed_schema_applies_only_to_attrs_that_are_written_later(drinks):
    drinks.put({"price": 5}, key=KEY)
    schema = {"required": ["title"], "properties": {"since": {"type": "string", "format": "date"}}}
    drinks.integration.patch(drinks.path, {"jsonschema": schema})
    path = f"{drinks.documents}/{KEY}"
    drinks.integration.patch(path, {"status": "draft"}, locale="")
    problem = drinks.integration.patch(path, {"attrs": {"since": "today"}}, locale="", expect=400)
    assert sorted(error["pointer"] for error in problem["errors"]) == ["/attrs/since", "/attrs/title"]


def test_a_document_that_violates_a_changed_schema_cannot_be_published(drinks):
    drinks.put({"price": 5}, key=KEY, status="draft")
    drinks.integration.patch(drinks.path, {"jsonschema": {"required": ["title"]}})
    path = f"{drinks.documents}/{KEY}"
    problem = drinks.integration.patch(path, {"status": "published"}, locale="", expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/attrs/title"]
    assert drinks.integration.get(path, locale="")["document"]["status"] == "draft"
    titled_change = {"status": "published", "attrs": {"title": "Flat white"}}
    assert drinks.integration.patch(path, titled_change, locale="")["document"]["status"] == "published"
    drinks.integration.patch(path, {"status": "draft"}, locale="")
    published_document = drinks.integration.patch(path, {"status": "published"}, locale="")["document"]
    assert (published_document["status"], published_document["attrs"]) == ("published", {"title": "Flat white"})
