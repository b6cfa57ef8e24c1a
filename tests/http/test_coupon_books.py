"""Coupon books over HTTP, on both surfaces: their records, faults, statuses and references."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from tests.builders.coupons import REQUIRED_FIELDS, CouponBooks, new_key

DEFAULTS = {
    **dict.fromkeys(
        (
            *("externalId", "currentVersionId", "description", "subtitle", "pictureUrl", "detailPictureUrl"),
            *("rankingIndex", "discountAmount", "discountType", "maxCouponCount", "maxAssignedPerMember"),
            *("maxAssignedPerCoupon", "validFromDate", "validToDate", "maxDiscountPerPeriod", "discountPeriodType"),
            *("maxUsagesPerPeriod", "usagePeriodType", "timezone", "maxDiscountPerUse", "minOrderTotal", "faceValue"),
            *(
                "assignmentRequiredPoints",
                "usageRequiredPoints",
                "contentSchemaId",
                "contentSchemaVersionId",
                "locale",
                "isDefaultLocale",
            ),
            *("defaultLocale", "loyaltyProgramId", "externalKey"),
        )
    ),
    **{
        name: []
        for name in (
            *("tags", "audienceKeys", "locations", "categories", "productCategories", "paymentMethods", "channels"),
            *("daysOfWeek", "tierKeys", "tiers"),
        )
    },
    **{name: {} for name in ("images", "customAttributes", "condition", "extraFields", "content")},
    "restoreOnCancel": True,
    "isValueCoupon": False,
    "totalAssigned": 0,
    "totalUsages": 0,
}
# All fields but references to other records.
FULL = {
    "externalId": "crm-7",
    "currentVersionId": 3,
    "description": "For early birds",
    "subtitle": "On the house",
    "pictureUrl": "https://cdn.example.com/a.png",
    "detailPictureUrl": "https://cdn.example.com/b.png",
    "images": {"main": "https://cdn.example.com/a.png", "thumbnail": "https://cdn.example.com/c.png"},
    "rankingIndex": Decimal("-1.5"),
    "discountAmount": Decimal("4.50"),
    "discountType": "amount",
    "maxCouponCount": 1000,
    "maxAssignedPerMember": 2,
    "maxAssignedPerCoupon": 1,
    "validFromDate": "2026-03-01T00:00:00Z",
    "validToDate": "2026-06-30T23:59:59.000001Z",
    "maxDiscountPerPeriod": Decimal("18446744073.000001"),
    "discountPeriodType": "monthly",
    "maxUsagesPerPeriod": 1,
    "usagePeriodType": "daily",
    "timezone": "America/Buenos_Aires",
    "maxDiscountPerUse": 5,
    "minOrderTotal": Decimal("30.50"),
    "restoreOnCancel": False,
    "faceValue": Decimal("2.50"),
    "assignmentRequiredPoints": 100,
    "usageRequiredPoints": 0,
    "tags": ["coffee", "spring"],
    "locations": ["centre"],
    "categories": ["drinks"],
    "productCategories": ["hot"],
    "paymentMethods": ["card"],
    "channels": ["app", "web"],
    "contentSchemaId": 4,
    "contentSchemaVersionId": 5,
    "customAttributes": {"a": [1, Decimal("2.50"), None]},
    "condition": {"expression": "member.active && balances['points'] >= 1.50"},
    "locale": "es-AR",
    "content": {"title": "Café"},
    "isDefaultLocale": True,
    "defaultLocale": "es",
    "externalKey": "early-coffee",
}


@pytest.fixture(params=["integration", "administration"])
def books(request, organization):
    return CouponBooks(organization, request.param)


@pytest.fixture
def integration(organization):
    return CouponBooks(organization)


@pytest.fixture
def administration(organization):
    return CouponBooks(organization, "administration")


@pytest.fixture
def program(organization):
    path = f"/loyalty-programs/{organization.defaults.loyalty_program_id}"
    return organization.administration.get(path)["loyaltyProgram"]


@pytest.fixture
def tiers(organization):
    path = f"/loyalty-programs/{organization.defaults.loyalty_program_id}/tiers"
    # No member reaches these tiers.
    bodies = [{"name": name, "active": True, "minRequiredPoints": 10**9, "tierOrder": 9} for name in ("Gold", "Iron")]
    return [organization.administration.post(path, body)["tier"] for body in bodies]


@pytest.fixture
def points(organization):
    """The account in which books take points: the default account, which has whole points."""
    [ledger] = organization.administration.get("/ledgers")["results"]
    return {"ledgerKey": ledger["ledgerKey"], "ledgerAccountKey": organization.defaults.ledger_account_key}


def generated_fields(book):
    """The fields of the book that the server generates."""
    names = ("organizationId", "couponBookId", "couponBookKey", "createdAt", "updatedAt")
    return {name: book[name] for name in names}


def test_a_minimal_book_has_default_values(books, organization):
    book = books.make()
    program = {} if books.is_administration else {"loyaltyProgramKey": None}
    assert book == {**REQUIRED_FIELDS, **DEFAULTS, **program, **generated_fields(book)}
    assert book["organizationId"] == organization.id
    # The key is a UUID in canonical form.
    assert book["couponBookKey"] == str(uuid.UUID(book["couponBookKey"]))
    assert book["createdAt"] == book["updatedAt"]
    assert books.get(book) == book


def test_a_book_is_stored_with_all_its_fields(books, organization, program, tiers, points):
    audience = organization.administration.post("/audiences", {"matcherType": "null-matcher"})["audience"]
    tier = tiers[0]
    fields = {**FULL, "requiredPointsConfig": points, "audienceKeys": [audience["audienceKey"].upper()]}
    if books.is_administration:
        fields |= {"loyaltyProgramId": program["loyaltyProgramId"], "daysOfWeek": [1, "7"]}
    else:
        fields |= {"loyaltyProgramKey": program["loyaltyProgramKey"], "daysOfWeek": [1, 7]}
    book = books.make(**fields, tierKeys=[tier["loyaltyTierKey"]])
    tier_id = tier["loyaltyTierId"]
    expected_book = {
        **REQUIRED_FIELDS,
        **DEFAULTS,
        **fields,
        "loyaltyProgramId": program["loyaltyProgramId"],
        "audienceKeys": [audience["audienceKey"]],
        "tierKeys": [tier["loyaltyTierKey"]],
        "tiers": [str(tier_id)] if books.is_administration else [tier_id],
        "daysOfWeek": ["1", "7"] if books.is_administration else [1, 7],
        **generated_fields(book),
    }
    assert book == expected_book
    assert books.get(book) == book


def test_both_surfaces_see_the_same_book(integration, administration, program):
    book = integration.make(**FULL | {"assignmentRequiredPoints": None, "usageRequiredPoints": None})
    administration_view = administration.get(book)
    assert administration_view | {"loyaltyProgramKey": None} == book
    program_book = administration.make(loyaltyProgramId=program["loyaltyProgramId"])
    assert integration.get(program_book)["loyaltyProgramKey"] == program["loyaltyProgramKey"]


def test_an_update_changes_only_the_fields_it_sends(books):
    book = books.make(**FULL | {"assignmentRequiredPoints": None, "usageRequiredPoints": None})
    updated_book = books.change(book, name="Tea", rankingIndex=7, extraFields={"b": 1}, tags=["tea"], channels=None)
    changes = {"name": "Tea", "rankingIndex": 7, "extraFields": {"b": 1}, "tags": ["tea"], "channels": []}
    assert updated_book == {**book, **changes, "updatedAt": updated_book["updatedAt"]}
    assert updated_book["updatedAt"] > book["updatedAt"]
    assert books.get(book) == updated_book


def test_nulls_clear_fields(books, points):
    book = books.make(**FULL, requiredPointsConfig=points)
    nullable = [name for name, value in DEFAULTS.items() if value is None and name != "loyaltyProgramId"]
    nullable += ["locations", "categories", "productCategories", "paymentMethods", "channels"]
    response = books.surface.patch(books.path(book), dict.fromkeys(nullable) | {"requiredPointsConfig": None})
    updated_book = response["couponBook"]
    assert {name: updated_book[name] for name in nullable} == {name: DEFAULTS[name] for name in nullable}
    assert "requiredPointsConfig" not in updated_book


@pytest.mark.parametrize("name", ["publishingStatus", "type"])
def test_an_update_cannot_change_the_type_or_the_status(books, name):
    book = books.make()
    problem = books.change(book, **{name: book[name]}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}"]


def test_the_administration_surface_requires_the_field_required_points_config(administration):
    book = administration.make()
    problem = administration.surface.patch(administration.path(book), {"name": "x"}, expect=400)
    assert problem["errors"][0]["pointer"] == "/requiredPointsConfig"
    problem = administration.surface.post("/coupon-books", REQUIRED_FIELDS, expect=400)
    assert problem["errors"][0]["pointer"] == "/requiredPointsConfig"


def test_points_with_more_digits_than_their_account_are_refused(books, points):
    fields = {"assignmentRequiredPoints": 1.5, "usageRequiredPoints": 0.5, "requiredPointsConfig": points}
    problem = books.surface.post("/coupon-books", {**REQUIRED_FIELDS, **fields}, expect=400)
    assert {fault["pointer"]: fault["detail"] for fault in problem["errors"]} == {
        "/assignmentRequiredPoints": "assignmentRequiredPoints has more than the 0 fraction digits of this account.",
        "/usageRequiredPoints": "usageRequiredPoints has more than the 0 fraction digits of this account.",
    }
    book = books.make(usageRequiredPoints=2, requiredPointsConfig=points)
    problem = books.change(book, usageRequiredPoints=2.5, requiredPointsConfig=points, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/usageRequiredPoints"]


def test_the_ledger_of_the_points_is_optional(books, points):
    config = {"ledgerAccountKey": points["ledgerAccountKey"].upper()}
    assert books.make(assignmentRequiredPoints=1, requiredPointsConfig=config)["requiredPointsConfig"] == points


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({"name": ""}, ["/name"]),
        ({"name": None}, ["/name"]),
        ({"type": "free"}, ["/type"]),
        ({"publishingStatus": "archived"}, ["/publishingStatus"]),
        ({"extraFields": {}}, ["/extraFields"]),
        ({"validFromDate": "2026-02-01T00:00:00.1Z", "validToDate": "2026-02-01T00:00:00Z"}, ["/validToDate"]),
        ({"maxUsagesPerPeriod": 1}, ["/usagePeriodType"]),
        ({"usagePeriodType": "daily"}, ["/maxUsagesPerPeriod"]),
        ({"maxDiscountPerPeriod": 1}, ["/discountPeriodType"]),
        ({"discountPeriodType": "weekly"}, ["/maxDiscountPerPeriod"]),
        ({"discountPeriodType": "yearly", "maxDiscountPerPeriod": 1}, ["/discountPeriodType"]),
        ({"timezone": "Mars/Olympus"}, ["/timezone"]),
        ({"timezone": "../../etc/passwd"}, ["/timezone"]),
        ({"assignmentRequiredPoints": 1}, ["/requiredPointsConfig"]),
        ({"usageRequiredPoints": 0}, ["/requiredPointsConfig"]),
        ({"requiredPointsConfig": {}}, ["/requiredPointsConfig/ledgerAccountKey"]),
        ({"condition": {"expression": "member.activ"}}, ["/condition/expression"]),
        ({"condition": {"expression": "order.total > 1"}}, ["/condition/expression"]),
        ({"condition": {"expression": "1 + 1"}}, ["/condition/expression"]),
        ({"condition": {"node": {"kind": "nonsense"}}}, ["/condition/node"]),
        ({"condition": {"expression": "true", "node": {}}}, ["/condition"]),
        ({"codePattern": {}}, ["/codePattern"]),
        ({"type": "generated", "codePattern": {"length": 8}}, ["/codePattern/length"]),
        ({"type": "generated", "codePattern": {"alphabet": "ABCA", "length": 50}}, ["/codePattern/alphabet"]),
        ({"type": "generated", "codePattern": {"prefix": "é"}}, ["/codePattern/prefix"]),
        ({"maxCouponCount": -1}, ["/maxCouponCount"]),
        ({"maxCouponCount": Decimal("1.5")}, ["/maxCouponCount"]),
        ({"daysOfWeek": [0]}, ["/daysOfWeek/0"]),
        ({"channels": ["a,b"]}, ["/channels/0"]),
        ({"images": {"main": 1}}, ["/images/main"]),
        ({"timezone": "Mars", "maxUsagesPerPeriod": 1}, ["/usagePeriodType", "/timezone"]),
    ],
)
def test_invalid_books_are_refused_with_pointers_to_the_faults(books, fields, pointers):
    assert books.expect_refusal(**fields) == pointers


def test_a_fault_in_a_condition_has_a_position(books):
    expression = "member.active && tiers.size() > 'a'"
    body = books.body(condition={"expression": expression})
    [fault] = books.surface.post("/coupon-books", body, expect=400)["errors"]
    assert fault["pointer"] == "/condition/expression"
    assert expression[fault["start"] : fault["end"]] == "tiers.size() > 'a'"


def test_an_update_must_leave_the_book_consistent(books):
    book = books.make(maxUsagesPerPeriod=1, usagePeriodType="daily", validToDate="2026-01-01T00:00:00Z")
    for fields, pointer in (
        ({"usagePeriodType": None}, "/usagePeriodType"),
        ({"validFromDate": "2027-01-01T00:00:00Z"}, "/validToDate"),
        ({"codePattern": {}}, "/codePattern"),
        ({"assignmentRequiredPoints": 3}, "/requiredPointsConfig"),
    ):
        problem = books.change(book, **fields, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]
    assert books.get(book) == book


def test_a_book_that_references_an_unknown_record_is_refused(books, points):
    program = {"loyaltyProgramId": 10**9} if books.is_administration else {"loyaltyProgramKey": new_key()}
    for fields, slug in (
        (program, "unknown-loyalty-program"),
        ({"audienceKeys": [new_key()]}, "unknown-audience"),
        ({"tierKeys": [new_key()]}, "unknown-tier"),
        ({"tiers": [10**9]}, "unknown-tier"),
        ({"requiredPointsConfig": {"ledgerAccountKey": new_key()}}, "unknown-ledger-account"),
        ({"requiredPointsConfig": {**points, "ledgerKey": new_key()}}, "unknown-ledger"),
    ):
        assert books.expect_refusal(expect=404, **fields) == f"/problems/{slug}"
    book = books.make()
    assert books.change(book, tierKeys=[new_key()], expect=404)["type"] == "/problems/unknown-tier"
    assert books.get(book) == book


def test_the_program_of_a_book_can_be_set_and_cleared(books, program):
    book = books.make()
    name = "loyaltyProgramId" if books.is_administration else "loyaltyProgramKey"
    updated_book = books.change(book, **{name: program[name]})
    assert (updated_book["loyaltyProgramId"], updated_book[name]) == (program["loyaltyProgramId"], program[name])
    updated_book = books.change(book, **{name: None})
    assert (updated_book["loyaltyProgramId"], updated_book[name]) == (None, None)


def test_tiers_and_tier_keys_express_the_same_restriction(books, tiers):
    keys, ids = [tier["loyaltyTierKey"] for tier in tiers], [tier["loyaltyTierId"] for tier in tiers]
    surface_ids = [str(tier_id) for tier_id in ids] if books.is_administration else ids
    book = books.make(tiers=surface_ids)
    assert (book["tierKeys"], book["tiers"]) == (keys, surface_ids)
    updated_book = books.change(book, tierKeys=keys[1:])
    assert (updated_book["tierKeys"], updated_book["tiers"]) == (keys[1:], surface_ids[1:])
    problem = books.change(book, tierKeys=keys[:1], tiers=ids[1:], expect=400)
    assert problem["errors"][0]["pointer"] == "/tiers"
    assert books.change(book, tierKeys=keys, tiers=ids[::-1])["tierKeys"] == keys
    assert books.change(book, tierKeys=[])["tiers"] == []


def test_an_empty_list_of_tiers_contradicts_tiers_in_the_other_list(books, tiers):
    keys, ids = [tier["loyaltyTierKey"] for tier in tiers], [tier["loyaltyTierId"] for tier in tiers]
    book = books.make(tierKeys=keys)
    for contradiction in ({"tiers": ids, "tierKeys": []}, {"tiers": [], "tierKeys": keys}):
        problem = books.change(book, **contradiction, expect=400)
        assert problem["errors"][0]["pointer"] == "/tiers"
        assert books.expect_refusal(**contradiction) == ["/tiers"]
    assert books.get(book)["tierKeys"] == keys
    # The lists as the response has them do not contradict each other.
    assert books.change(book, tiers=book["tiers"], tierKeys=book["tierKeys"])["tierKeys"] == keys
    assert books.change(book, tiers=[], tierKeys=[])["tierKeys"] == []


@pytest.mark.parametrize(
    "fields",
    [{"locale": "es"}, {"content": {}}, {"isDefaultLocale": True}, {"defaultLocale": "es"}, {"tiers": []}],
    ids=lambda fields: next(iter(fields)),
)
def test_deprecated_fields_get_the_deprecation_header(books, fields):
    reply = books.surface.request("POST", "/coupon-books", books.body(**fields), expect=201)
    assert reply.headers["Deprecation"].startswith("@")
    reply = books.surface.request("POST", "/coupon-books", books.body(), expect=201)
    assert "Deprecation" not in reply.headers


def test_a_code_pattern_gets_defaults_for_its_missing_fields(books):
    # The default alphabet has no characters that look alike.
    book = books.make(type="generated", codePattern={"prefix": "CAFE-", "length": 12})
    assert book["codePattern"] == {
        "length": 12,
        "alphabet": "34679ACDEFGHJKMNPQRTWXY",
        "prefix": "CAFE-",
        "suffix": "",
    }
    assert "codePattern" not in books.change(book, codePattern=None)


def test_a_book_can_change_its_status_until_it_is_archived(integration):
    book = integration.make(publishingStatus="draft")
    for status in ("published", "disabled", "draft", "draft", "published", "archived"):
        updated_book = integration.set_status(book, status)
        assert updated_book == {**book, "publishingStatus": status, "updatedAt": updated_book["updatedAt"]}
    for status in ("draft", "published", "disabled", "archived"):
        assert integration.set_status(book, status, expect=409)["type"] == "/problems/coupon-book-archived"
    assert integration.get(book)["publishingStatus"] == "archived"


@pytest.mark.parametrize("status", ["draft", "published", "disabled"])
def test_a_book_is_archived_from_every_status(integration, status):
    book = integration.make(publishingStatus=status)
    assert integration.set_status(book, "archived")["publishingStatus"] == "archived"


def test_an_unknown_status_is_refused(integration):
    problem = integration.set_status(integration.make(), "retired", expect=400)
    assert problem["errors"][0]["pointer"] == "/publishingStatus"


def test_an_archived_book_cannot_change(books):
    book = books.make("A")
    archived_book = books.set_status(book, "archived")
    problem = books.change(book, name="x", expect=409)
    assert problem["type"] == "/problems/coupon-book-archived"
    assert problem["detail"] == f"The coupon book {book['name']} is archived."
    assert books.add(book, "B", expect=409)["type"] == "/problems/coupon-book-archived"
    assert books.get(book)["updatedAt"] == archived_book["updatedAt"]


def test_the_book_of_another_tenant_is_not_found(books, other_organization):
    book = books.make()
    stranger = CouponBooks(other_organization, books.surface_name)
    for path in (stranger.path(book), f"{stranger.path(book)}/coupons"):
        assert stranger.surface.get(path, expect=404)["type"] == "/problems/not-found"


def test_a_new_book_has_no_references(integration):
    path = f"{integration.path(integration.make())}/references"
    no_references = {"isReferenced": False, "references": {"campaigns": [], "documents": []}}
    assert integration.surface.get(path) == no_references
