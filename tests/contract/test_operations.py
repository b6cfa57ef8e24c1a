"""The documents have the planned operations, with the planned names, paths, methods, access and success statuses."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import openapi
from handlers.operation import all_operations
from tests.contract.documents import operations, resolve, response_schemas, table

ROLES = {
    f"{resource}:{action}"
    for resource in (
        "ledgers",
        "orders",
        "campaigns",
        "badges",
        "benefits",
        "tiers",
        "members",
        "coupons",
        "exports",
        "imports",
        "partnerships",
        "users",
    )
    for action in ("read", "write")
}

# Operations that only our server has, not the interfaces as others describe them.
EXTENSIONS = {
    "integration": {
        *("createAccessToken", "createMemberAccessToken", "createMembers", "getEvent", "listMemberTimeline"),
        "simulate",
        *("lockCoupon", "releaseCouponLock"),
        *("cancelOfflineAllowance", "createOfflineAllowance", "listOfflineAllowances", "redeemOfflineAllowance"),
        *("capturePointsPayment", "createPointsPayment", "getPointsPayment", "quotePointsPayment"),
        *("refundPointsPayment", "releasePointsPayment"),
    },
    "administration": {
        *("extendExpiry", "releaseLedgerTransactions"),
        *("cancelExport", "cancelImport", "createExport", "createImport", "createLedger", "createPartnerApiKey"),
        *("createPermissionGroup", "eraseMember", "evaluateEvent", "getAudience", "getExport", "getExportPart"),
        *("getImport", "getImportErrors", "getMission", "listAuditLog", "listDeadLetterEvents", "listExports"),
        *("listImports", "listLedgers", "listMemberTimeline", "listPartnerApiKeys", "listPermissionGroups"),
        *("getTestClock", "createTestClock", "advanceTestClock", "removeTestClock"),
        *("listTriggerDeliveries", "redeliverTriggerDelivery", "requeueDeadLetterEvent", "revokePartnerApiKey"),
        *("startImport", "updateAudience", "updateAudienceMembers", "updateMission", "updatePermissionGroup"),
        *("listStackingGroups", "createStackingGroup", "getStackingGroup", "updateStackingGroup"),
        *("getPortal", "updatePortal", "uploadImportPart", "deletePermissionGroup"),
    },
}

# The maximum page size of each list; tiers and loyalty programs are paged by deprecated parameters.
PAGE_SIZES = {
    ("integration", "listBadges"): 25,
    ("integration", "listCouponBookCoupons"): 25,
    ("integration", "listCouponBooks"): 100,
    ("integration", "listCoupons"): 25,
    ("integration", "listCustomEventTypes"): 100,
    ("integration", "listMemberBadges"): 25,
    ("integration", "listMemberCouponBooks"): 100,
    ("integration", "listMemberCoupons"): 25,
    ("integration", "listMemberCouponUsages"): 25,
    ("integration", "listMembers"): 25,
    ("integration", "listMemberEvents"): 25,
    ("integration", "listMemberLedgerTransactions"): 25,
    ("integration", "listOfflineAllowances"): 25,
    ("administration", "listActions"): 100,
    ("administration", "listAudiences"): 100,
    ("administration", "listAuditLog"): 100,
    ("administration", "listCampaigns"): 100,
    ("administration", "listCouponBookCoupons"): 25,
    ("administration", "listCouponBooks"): 25,
    ("administration", "listCustomEventTypes"): 100,
    ("administration", "listDeadLetterEvents"): 100,
    ("administration", "listEffects"): 100,
    ("administration", "listExports"): 100,
    ("administration", "listImports"): 100,
    ("administration", "listLedgerAccounts"): 25,
    ("administration", "listLedgers"): 25,
    ("administration", "listLedgerTransactions"): 25,
    ("administration", "listLoyaltyPrograms"): 100,
    ("administration", "listMatchers"): 100,
    ("administration", "listMemberCouponBooks"): 25,
    ("administration", "listMemberCoupons"): 25,
    ("administration", "listMemberEvents"): 25,
    ("administration", "listMemberMissions"): 100,
    ("administration", "listMembers"): 25,
    ("administration", "listMemberTiers"): 100,
    ("administration", "listMissions"): 100,
    ("administration", "listPartnerApiKeys"): 100,
    ("administration", "listPermissionGroups"): 100,
    ("administration", "listPortals"): 100,
    ("administration", "listPurchaseOrders"): 25,
    ("administration", "listReferralCodeLogs"): 100,
    ("administration", "listReferralCodes"): 100,
    ("administration", "listReferralPrograms"): 100,
    ("administration", "listStackingGroups"): 100,
    ("administration", "listTiers"): 100,
    ("administration", "listTriggerDeliveries"): 25,
    ("administration", "listTriggers"): 100,
    ("administration", "listUsers"): 100,
    ("administration", "searchMembers"): 100,
}
# The maximum page size of lists of content, which are ordered by `sort` and have a default page size of 20.
SORTED_PAGE_SIZES = {
    ("integration", "listCollections"): 100,
    ("integration", "searchDocuments"): 200,
    ("integration", "listMemberContentDocuments"): 200,
    ("integration", "listMemberValidDocuments"): 200,
}
# Lists whose default page size is smaller than the maximum.
DEFAULT_SIZES = {("integration", "listCouponBooks"): 25, ("integration", "listMemberCouponBooks"): 25}
# Lists without pages: they return all their records.
WHOLE_LISTS = {
    ("integration", "listDocumentLocales"),
    ("integration", "listEventTypes"),
    ("administration", "listDailyBalances"),
    ("administration", "listWallets"),
}

# Lists that are paged by page number or by cursor: the lists that can be very long.
PAGED_BY_CURSOR = {
    ("integration", "listCouponBookCoupons"),
    ("integration", "listCoupons"),
    ("integration", "listMemberCouponUsages"),
    ("integration", "listMemberEvents"),
    ("integration", "listMemberLedgerTransactions"),
    ("integration", "listMembers"),
    ("administration", "listAuditLog"),
    ("administration", "listCouponBookCoupons"),
    ("administration", "listLedgerTransactions"),
    ("administration", "listMemberEvents"),
    ("administration", "listMembers"),
    ("administration", "listPurchaseOrders"),
    ("administration", "listTriggerDeliveries"),
}
# The maximum page size of lists that are paged only by cursor.
CURSOR_PAGE_SIZES = {("integration", "listMemberTimeline"): 100, ("administration", "listMemberTimeline"): 100}
# Tags without a schema module: their responses use those of campaigns, or of messages.
WITHOUT_SCHEMAS = {"effects", "member-content"}
ROOT = Path(__file__).parents[2]

PLANNED = {(row["surface"], row["operationId"]): row for row in table("operations.csv")}
TO_COME = {(row["surface"], row["operationId"]): row for row in table("operations_to_come.csv")}
DOCUMENTED = {
    (surface, operation.operation_id): operation
    for surface in openapi.SURFACES
    for operation in operations(openapi.bundle(surface))
}


def test_the_tables_of_operations_name_each_operation_once() -> None:
    for name in ("operations.csv", "operations_to_come.csv"):
        names = Counter((row["surface"], row["operationId"]) for row in table(name))
        assert [operation for operation, count in names.items() if count > 1] == []
        places = Counter((row["surface"], row["method"], row["path"]) for row in table(name))
        assert [place for place, count in places.items() if count > 1] == []


def test_every_planned_operation_is_documented_or_to_come() -> None:
    assert PLANNED.keys() == DOCUMENTED.keys() | TO_COME.keys()


def test_documented_operations_are_not_among_those_to_come() -> None:
    assert DOCUMENTED.keys() & TO_COME.keys() == set()


def test_operations_to_come_are_listed_as_planned() -> None:
    for key, row in TO_COME.items():
        assert {name: PLANNED[key][name] for name in row} == row


@pytest.mark.parametrize("tag", sorted({row["tag"] for row in PLANNED.values()}))
def test_the_files_of_a_tag_have_its_name(tag: str) -> None:
    name = tag.replace("-", "_")
    surfaces = {surface for (surface, _), row in PLANNED.items() if row["tag"] == tag}
    files = [f"handlers/{name}.py", *(f"openapi/{surface}/{tag}.yaml" for surface in surfaces)]
    if tag not in WITHOUT_SCHEMAS:
        files.append(f"handlers/schemas/{name}.py")

    assert [file for file in files if not (ROOT / file).exists()] == []
    assert any((ROOT / "tests/http").glob(f"test_{name.removesuffix('s')}*.py"))


def test_each_operation_has_a_handler_and_each_handler_an_operation() -> None:
    assert set(all_operations()) == {operation_id for _, operation_id in DOCUMENTED}


@pytest.mark.parametrize("key", DOCUMENTED, ids=lambda key: "-".join(key))
def test_an_operation_is_documented_as_planned(key: tuple[str, str]) -> None:
    plan, operation = PLANNED[key], DOCUMENTED[key]
    assert {
        "tag": operation.operation["tags"],
        "method": operation.method.upper(),
        "path": operation.path,
        "security": operation.operation["security"],
        "success": operation.success,
    } == {
        "tag": [plan["tag"]],
        "method": plan["method"],
        "path": plan["path"],
        "security": _security(plan["access"], plan["path"]),
        "success": plan["success"],
    }


PARTNER_SCHEMES = {"partnera": "partnerAKey", "partnerb": "partnerBKey"}


def _security(access: str, path: str) -> list[dict[str, list[str]]]:
    """The security requirements of an operation with the planned access."""
    if access == "public":
        return []
    if access == "x-api-key":
        return [{PARTNER_SCHEMES[path.split("/")[2]]: []}]
    alternatives = [[] if scope == "authenticated" else [scope] for scope in access.split("|")]
    return [*({"oauth2": scopes} for scopes in alternatives), {"bearerAuth": []}]


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_scopes_are_the_roles(surface: str) -> None:
    scheme = openapi.bundle(surface)["components"]["securitySchemes"]["oauth2"]
    assert set(scheme["flows"]["clientCredentials"]["scopes"]) == ROLES | {"admin", "member"}


def test_the_key_of_a_partner_is_the_header_x_api_key() -> None:
    schemes = openapi.bundle("integration")["components"]["securitySchemes"]
    keys = {name: scheme for name, scheme in schemes.items() if scheme["type"] == "apiKey"}
    assert {scheme["x-partner"]: name for name, scheme in keys.items()} == PARTNER_SCHEMES
    assert {(scheme["in"], scheme["name"]) for scheme in keys.values()} == {("header", "x-api-key")}


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_operations_are_in_the_file_of_their_tag(surface: str) -> None:
    bundled_paths = openapi.bundle(surface)["paths"]
    for path, item in openapi.load(f"{surface}.yaml")["paths"].items():
        file = item["$ref"].partition("#")[0]
        for operation in DOCUMENTED.values():
            if operation.path == path and operation.operation in bundled_paths[path].values():
                assert Path(file).stem == operation.operation["tags"][0]


def test_exactly_the_long_lists_accept_a_cursor_and_return_the_next_one() -> None:
    lists_that_accept_a_cursor = {
        key
        for key, operation in DOCUMENTED.items()
        if "cursor" in {parameter["name"] for parameter in operation.parameters}
    }
    lists_that_return_a_cursor = {
        (surface, place[0])
        for surface, document in ((surface, openapi.bundle(surface)) for surface in openapi.SURFACES)
        for place, schema in response_schemas(document)
        if "nextCursor" in resolve(document, schema).get("required", ())
    }
    assert lists_that_accept_a_cursor == lists_that_return_a_cursor == PAGED_BY_CURSOR | CURSOR_PAGE_SIZES.keys()


def _query_parameters(key: tuple[str, str]) -> dict[str, Any]:
    """The schema of each query parameter of an operation, by the name of the parameter."""
    parameters = DOCUMENTED[key].parameters
    return {parameter["name"]: parameter["schema"] for parameter in parameters if parameter["in"] == "query"}


def test_every_list_has_the_planned_page_sizes() -> None:
    lists = {key for key in DOCUMENTED if key[1].startswith(("list", "search"))}
    assert lists == PAGE_SIZES.keys() | SORTED_PAGE_SIZES.keys() | CURSOR_PAGE_SIZES.keys() | WHOLE_LISTS
    for key, max_size in CURSOR_PAGE_SIZES.items():
        schemas_by_name = _query_parameters(key)
        limit = schemas_by_name["limit"]
        assert "cursor" in schemas_by_name, key
        assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, max_size, 25), key
    for key, max_size in SORTED_PAGE_SIZES.items():
        schemas_by_name = _query_parameters(key)
        assert {"page", "limit", "sort"} <= schemas_by_name.keys(), key
        limit = schemas_by_name["limit"]
        assert (limit["minimum"], limit["maximum"], limit["default"]) == (1, max_size, 20), key
    for key, max_size in PAGE_SIZES.items():
        schemas_by_name = _query_parameters(key)
        assert {"page", "limit", "order"} <= schemas_by_name.keys(), key
        assert (schemas_by_name["page"]["minimum"], schemas_by_name["page"]["default"]) == (0, 0), key
        limit = schemas_by_name["limit"]
        assert (limit["minimum"], limit["maximum"], limit["default"]) == (
            1,
            max_size,
            DEFAULT_SIZES.get(key, max_size),
        ), key
        assert schemas_by_name["order"]["pattern"].endswith(")(,(asc|desc))?$"), key


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_operations_that_only_our_server_has_are_marked_as_extensions(surface):
    extensions = {
        operation.operation_id
        for operation in operations(openapi.bundle(surface))
        if operation.operation.get("x-extension")
    }
    assert extensions == EXTENSIONS[surface]


@pytest.mark.parametrize("surface", openapi.SURFACES)
def test_lists_with_cursors_may_report_an_inexact_total(surface):
    document = openapi.bundle(surface)
    pages = {}
    for (operation_id, *_), schema in response_schemas(document):
        fields = resolve(document, schema).get("properties", {})
        if "nextCursor" in fields and (surface, operation_id) in PAGED_BY_CURSOR:
            pages[surface, operation_id] = fields
    assert pages.keys() == {key for key in PAGED_BY_CURSOR if key[0] == surface}
    assert [key for key, fields in pages.items() if "totalIsExact" not in fields] == []
