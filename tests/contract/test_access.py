"""Which callers may call which operation, tested for every operation in the documents.

A new path parameter needs a value in `records`, else the tests of its operation fail.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

import openapi
from domain.access import ADMIN, ROLES
from tests.builders.api import Api, Organization, Reply
from tests.builders.coupons import CouponBooks
from tests.builders.partners import Partner, organization_key
from tests.builders.tracking import Shop
from tests.contract.documents import DocumentedOperation, body_contents, operations, path_parameters

DOCUMENT_KEY = "7c1d2e3f-4a5b-4c6d-9e8f-0a1b2c3d4e5f"
MARKER = "only-the-first-tenant-has-this"
# The only public operation: it issues tokens.
PUBLIC = {"createAccessToken"}
# The scope of members' own tokens; an operation with it also accepts a role.
MEMBER = "member"
# Path parameters that address the organization, or something that belongs to no organization.
NO_RECORD = {"organizationId", "effectId", "locale", "partNumber"}
# Imports also require the role to write their records; exports, and the errors of imports, the role to read them.
FURTHER_ROLES = dict.fromkeys(("createImport", "uploadImportPart", "startImport", "cancelImport"), "members:write")
FURTHER_ROLES |= dict.fromkeys(("createExport", "cancelExport", "getExportPart", "getImportErrors"), "members:read")

DOCUMENTS = {surface: openapi.bundle(surface) for surface in openapi.SURFACES}


@dataclass(frozen=True)
class Operation:
    """A documented operation, and a call of it as any caller."""

    surface: str
    documented: DocumentedOperation

    @property
    def name(self) -> str:
        return f"{self.surface}:{self.documented.operation_id}"

    @property
    def scopes(self) -> list[str]:
        """The scopes of a token other than a member's; empty if the operation requires the API key of a partner."""
        return next((scopes for scopes in self._alternatives if scopes != [MEMBER]), [])

    @property
    def is_for_members(self) -> bool:
        """True if the operation accepts a member's own token."""
        return [MEMBER] in self._alternatives

    @property
    def _alternatives(self) -> list[list[str]]:
        requirements = self.documented.operation["security"]
        return [requirement["oauth2"] for requirement in requirements if "oauth2" in requirement]

    @property
    def partner(self) -> str | None:
        """The partner whose API key the operation requires; None if it requires none."""
        schemes = DOCUMENTS[self.surface]["components"]["securitySchemes"]
        schemes_used = [schemes[name] for requirement in self.documented.operation["security"] for name in requirement]
        return next((scheme["x-partner"] for scheme in schemes_used if scheme["type"] == "apiKey"), None)

    @property
    def records(self) -> set[str]:
        """The path parameters that address a record of an organization."""
        return path_parameters(self.documented.path) - NO_RECORD

    def call(self, api: Api, token: str | None, values: dict[str, Any], *, key: str | None = None) -> Reply:
        """Send the example of the document to the organization and records in `values`, by their path parameters.

        Returns the reply, which may have any status. The API key of a partner, `key`, is sent instead of the token.
        """
        path = self.documented.path
        # An operation that removes a record has its own record under its id, so that later operations find theirs.
        values = {**values, **values.get(self.documented.operation_id, {})}
        for name in path_parameters(path):
            path = path.replace(f"{{{name}}}", str(values[name]))
        contents = body_contents(DOCUMENTS[self.surface], self.documented)
        [example] = [content["example"] for content in contents.values()] or [None]
        body = example.encode() if "application/octet-stream" in contents else example
        names = ("organizationId", "organizationKey", "token", *(["loyaltyMemberId"] if self.is_for_members else []))
        for name in names:
            if isinstance(body, dict) and name in body:
                body = {**body, name: values[name]}
        surface = api.surface(token=None if key else token)
        headers = {"x-api-key": key} if key else {}
        required_parameters = [
            parameter
            for parameter in self.documented.parameters
            if parameter["in"] == "query" and parameter.get("required")
        ]
        query = {parameter["name"]: parameter.get("example", "") for parameter in required_parameters}
        return surface.request(self.documented.method.upper(), path, body, headers=headers, **query)


EVERY_OPERATION = [
    Operation(surface, documented) for surface, document in DOCUMENTS.items() for documented in operations(document)
]
WITH_PARTNER_KEY = [
    operation for operation in EVERY_OPERATION if operation.documented.operation_id not in PUBLIC and operation.partner
]
WITH_TOKEN = [
    operation
    for operation in EVERY_OPERATION
    if operation.documented.operation_id not in PUBLIC and not operation.partner
]
WITH_ROLE = [operation for operation in WITH_TOKEN if operation.scopes]
# The operations whose path addresses a record of an organization.
WITH_RECORD = [operation for operation in WITH_TOKEN if operation.records]
INTEGRATION_READS = [
    operation
    for operation in WITH_TOKEN
    if operation.surface == "integration" and not operation.records and operation.documented.method == "get"
]


def by_name(cases: list[Operation]) -> Any:
    """A mark that runs a test for each of these operations, named after it."""
    return pytest.mark.parametrize("operation", cases, ids=[case.name for case in cases])


@pytest.fixture(scope="module")
def organization(api: Api) -> Organization:
    """The organization of the records."""
    return api.organization()


@pytest.fixture(scope="module")
def other_organization(api: Api) -> Organization:
    """An organization without records."""
    return api.organization("Another tenant")


@pytest.fixture(scope="module")
def records(organization: Organization) -> dict[str, Any]:
    """The id or key of a record of the organization for each path parameter of the documents, by its name."""
    defaults, administration = organization.defaults, organization.administration
    member = organization.member(f"{MARKER}-member")
    event_type = {"name": "Marked", "schemaType": "custom", "apiCode": MARKER}
    administration.post("/custom-event-types", event_type)
    campaign = administration.post("/campaigns", {"code": MARKER, "name": "Marked"})["campaign"]
    action = {"name": "Nothing", "rules": {}, "effects": {"items": []}, "status": "draft", "priority": 1}
    actions = f"/campaigns/{campaign['campaignId']}/actions"
    program = administration.get(f"/loyalty-programs/{defaults.loyalty_program_id}")["loyaltyProgram"]
    events = organization.integration.get(f"/members/{member['loyaltyMemberId']}/events")["results"]
    wallet = f"/ledgers/{defaults.ledger_id}/wallets/{member['ledgerWalletId']}"
    mint_result = administration.post(f"{wallet}/mint", {"amount": 1000}, expect=200)
    conditions = [{"field": "productCode", "operator": "equals", "value": MARKER}]
    matcher = administration.post(
        "/matchers",
        {"name": MARKER, "type": "item-matcher", "matcher": {"operator": "AND", "conditions": conditions}},
    )["matcher"]
    group = administration.post("/stacking-groups", {"name": MARKER, "mode": "best"})["stackingGroup"]
    audience = administration.post("/audiences", {"name": MARKER, "matcherType": "list-matcher"})["audience"]
    badge = organization.integration.post("/badges", {"name": MARKER, "maxAmount": 10**6, "active": True})["badge"]
    assign = f"/members/{member['loyaltyMemberId']}/badges/{badge['badgeKey']}/assign"
    badge_tracking = organization.integration.post(assign, {"amount": 1000}, expect=200)["badgeTracking"]
    settings = {"url": "https://hooks.invalid/loyalty", "entities": ["campaign"]}
    trigger = administration.post(
        "/triggers", {"triggerKey": MARKER, "type": "EntityChangeWebhook", "name": MARKER, "settings": settings}
    )["trigger"]
    administration.post("/campaigns", {"code": f"{MARKER}-told", "name": "Told"})
    deliveries = administration.get(f"/triggers/{trigger['triggerId']}/deliveries")["results"]
    mission = administration.post(
        "/missions", {"name": MARKER, "eventType": "member-updated", "maxRepetitions": 1, "goalCount": 3}
    )["mission"]
    book = {"name": "Marked", "tags": [MARKER], "type": "list", "publishingStatus": "draft"}
    book = administration.post("/coupon-books", {**book, "requiredPointsConfig": None})["couponBook"]
    codes = administration.post(f"/coupon-books/{book['couponBookId']}/coupons", {"codes": [MARKER, "B"]})["codes"]
    organization.integration.put(
        f"/coupon-books/{book['couponBookKey']}/status", {"publishingStatus": "published"}, expect=200
    )
    with_code = {"code": MARKER, "externalId": MARKER, "usageData": {"marker": MARKER}}
    assign = f"/members/{member['loyaltyMemberId']}/coupon-books/{book['couponBookKey']}/assign"
    coupon_usage = organization.integration.post(assign, with_code, expect=200)["couponUsage"]
    referral_settings = {"name": MARKER, "active": True, "maxPerCode": 1, "code": MARKER, "eventType": MARKER}
    referral_program = administration.post("/referral-programs", referral_settings)["referralProgram"]
    referral_codes = f"/referral-programs/{referral_program['referralProgramId']}/codes"
    referrals = administration.post(referral_codes, {"memberId": member["memberId"], "codes": [MARKER]})["referrals"]
    order = {"externalId": MARKER, "type": "dine-in", "total": 5, "status": "created"}
    stored_order = administration.post(f"/members/{member['memberId']}/purchase-orders", order)["order"]
    partner_key = administration.post("/partner-api-keys", {"partner": "partnera", "name": MARKER})["partnerApiKey"]
    user = {"active": True, "name": MARKER, "nickname": None, "profilePictureUrl": None, "isSystemAdmin": False}
    user |= {"pendingProvisioning": False, "isAdmin": False, "roles": [], "authClientId": f"{MARKER}-{organization.id}"}
    user_id = administration.post("/users", {**user, "email": f"{MARKER}@x.example"})["user"]["userId"]
    administration.post("/permission-groups", {"permissionGroupKey": MARKER, "name": MARKER})
    collection = {"name": MARKER, "description": MARKER, "slug": MARKER}
    collection = organization.integration.post("/content/collections", collection)["collection"]
    document_path = f"/content/collections/{MARKER}/documents/{DOCUMENT_KEY}/locales/default"
    organization.integration.put(document_path, {"attrs": {"title": MARKER}, "status": "published"})
    member_to_remove = organization.member(f"{MARKER}-gone")
    account = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    account["offlineAllowance"] = {"enabled": True, "maxAmount": 100}
    account["redemption"] = {"pointsPerUnit": 100, "currency": "EUR"}
    administration.put(f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}", account)
    body = {"amount": 40, "systemUniqueKey": MARKER}
    allowances = f"/members/{member['loyaltyMemberId']}/offline-allowances"
    allowance = organization.integration.post(allowances, body)["offlineAllowance"]
    organization.integration.post(f"/offline-allowances/{allowance['offlineAllowanceKey']}/cancel", expect=200)
    payments = f"/members/{member['loyaltyMemberId']}/points-payments"
    body = {"points": 200, "orderTotal": 9, "systemUniqueKey": f"{MARKER}-paid"}
    payment = organization.integration.post(payments, body)["pointsPayment"]
    lockable_book = CouponBooks(organization).make(type="codeless")
    locks = f"/members/{member['loyaltyMemberId']}/coupon-books/{lockable_book['couponBookKey']}/lock"
    lock = organization.integration.post(locks, {"autoAssign": True, "systemUniqueKey": MARKER})["couponLock"]
    return {
        "eraseMember": {"memberId": member_to_remove["memberId"]},
        "collectionKeyOrSlug": collection["collectionKey"],
        "documentKeyOrSlug": DOCUMENT_KEY,
        "locale": "es",
        "organizationId": organization.id,
        "organizationKey": organization_key(Shop(organization)),
        "partnerApiKeyId": partner_key["partnerApiKeyId"],
        "portalId": administration.post("/portals", {"name": MARKER, "active": True})["portal"]["portalId"],
        "userId": user_id,
        "permissionGroupKey": MARKER,
        "orderId": stored_order["orderId"],
        "memberId": member["memberId"],
        "loyaltyMemberId": member["loyaltyMemberId"],
        "memberIdentifier": member["loyaltyMemberId"],
        "badgeKey": badge["badgeKey"],
        "badgeIdentifier": badge["badgeId"],
        "badgeTrackingKey": badge_tracking["badgeTrackingKey"],
        "badgeTrackingIdentifier": badge_tracking["badgeTrackingId"],
        "walletId": member["ledgerWalletId"],
        "ledgerId": defaults.ledger_id,
        "ledgerAccountId": defaults.ledger_account_id,
        "loyaltyProgramId": defaults.loyalty_program_id,
        "loyaltyProgramKey": program["loyaltyProgramKey"],
        "loyaltyTierId": program["defaultTierId"],
        "campaignId": campaign["campaignId"],
        "actionId": administration.post(actions, action)["action"]["actionId"],
        "apiCode": MARKER,
        "stackingGroupId": group["stackingGroupId"],
        "matcherId": matcher["matcherId"],
        "matcherKey": matcher["matcherKey"],
        "audienceId": audience["audienceId"],
        "triggerId": trigger["triggerId"],
        "triggerDeliveryId": deliveries[0]["triggerDeliveryId"],
        "importId": administration.post("/imports", {"kind": "members", "format": "csv"})["import"]["importId"],
        "exportId": administration.post("/exports", {"kind": "members"})["export"]["exportId"],
        "partNumber": 1,
        "missionId": mission["missionId"],
        "referralProgramId": referral_program["referralProgramId"],
        "referralCodeId": referrals[0]["referralCodeId"],
        "loyaltyEventKey": events[0]["loyaltyEventKey"],
        "effectId": "mint-points",
        "couponBookId": book["couponBookId"],
        "couponBookKey": book["couponBookKey"],
        "couponId": codes[1]["couponId"],
        "couponCode": MARKER,
        "couponUsageKey": coupon_usage["couponUsageKey"],
        "couponUsageId": coupon_usage["couponUsageId"],
        "couponLockKey": lock["couponLockKey"],
        "offlineAllowanceKey": allowance["offlineAllowanceKey"],
        "pointsPaymentKey": payment["pointsPaymentKey"],
        "token": allowance["token"],
        "ledgerTransactionId": mint_result["transactions"][0]["ledgerTransactionId"],
    }


def test_only_the_token_operation_is_public():
    public_operations = [
        operation.name for operation in EVERY_OPERATION if not operation.documented.operation["security"]
    ]
    assert public_operations == [f"integration:{name}" for name in sorted(PUBLIC)]


def test_the_documents_declare_exactly_the_roles_of_the_domain():
    for document in DOCUMENTS.values():
        flows = document["components"]["securitySchemes"]["oauth2"]["flows"]
        assert set(flows["clientCredentials"]["scopes"]) == ROLES | {ADMIN, "member"}


@by_name(WITH_TOKEN)
@pytest.mark.parametrize("token", [None, "nonsense"], ids=["without a token", "with nonsense"])
def test_calls_without_a_token_are_refused(api: Api, records: dict[str, Any], operation: Operation, token: str | None):
    reply = operation.call(api, token, records)
    assert reply.status == 401, reply.text
    assert reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert MARKER not in reply.text


@by_name(WITH_ROLE)
def test_calls_without_the_role_are_refused(
    api: Api, organization: Organization, records: dict[str, Any], operation: Operation
):
    [scope] = operation.scopes
    # The role to write includes the role to read.
    sufficient = {scope, scope.replace(":read", ":write")}
    reply = operation.call(api, organization.token_of(*(ROLES - sufficient)), records)
    assert reply.status == 403, reply.text
    assert json.loads(reply.text)["type"] == "/problems/forbidden"
    assert MARKER not in reply.text


@by_name(WITH_TOKEN)
def test_only_operations_for_members_accept_a_members_token(
    api: Api, organization: Organization, records: dict[str, Any], operation: Operation
):
    token = organization.member_token(records["loyaltyMemberId"])
    statuses = {200, 201} if operation.is_for_members else {403}
    assert operation.call(api, token, records).status in statuses


@by_name(WITH_TOKEN)
def test_calls_with_the_role_are_accepted(
    api: Api, organization: Organization, records: dict[str, Any], operation: Operation
):
    further_roles = [role for name, role in FURTHER_ROLES.items() if name == operation.documented.operation_id]
    # Some examples name records that do not exist, or that have changed since.
    statuses = {int(operation.documented.success), 404, 409}
    # Some operations accept any token.
    for scope in operation.scopes or ["orders:read"]:
        token = organization.token_of(is_admin=True) if scope == ADMIN else organization.token_of(scope, *further_roles)
        assert operation.call(api, token, records).status in statuses
        if scope.endswith(":read"):
            token = organization.token_of(scope.replace(":read", ":write"), *further_roles)
            assert operation.call(api, token, records).status in statuses


@pytest.fixture(scope="module")
def partner_keys(organization: Organization) -> dict[str, str]:
    """The API key of each partner in the first organization, by the name of the partner."""
    return {name: Partner.of(Shop(organization), name).key for name in ("partnera", "partnerb")}


def test_the_partners_have_operations_with_keys():
    assert {operation.partner for operation in WITH_PARTNER_KEY} == {"partnera", "partnerb"}


@by_name(WITH_PARTNER_KEY)
def test_operations_accept_only_the_key_of_their_partner(
    api: Api,
    other_organization: Organization,
    records: dict[str, Any],
    partner_keys: dict[str, str],
    operation: Operation,
):
    assert operation.partner is not None
    assert operation.call(api, None, records, key=partner_keys[operation.partner]).status == 200
    key_of_other_partner = next(key for name, key in partner_keys.items() if name != operation.partner)
    reply = operation.call(api, None, records, key=key_of_other_partner)
    assert (reply.status, json.loads(reply.text)["type"]) == (403, "/problems/forbidden")
    key_of_other_organization = Partner.of(Shop(other_organization), operation.partner).key
    assert operation.call(api, None, records, key=key_of_other_organization).status == 404


@by_name(WITH_PARTNER_KEY)
def test_calls_without_a_partners_key_are_refused(
    api: Api, organization: Organization, records: dict[str, Any], operation: Operation
):
    for token, key in ((None, None), (organization.token, None), (None, "nonsense")):
        reply = operation.call(api, token, records, key=key)
        assert reply.status == 401, reply.text
        assert reply.headers["WWW-Authenticate"] == 'ApiKey realm="loyalty"'


@by_name(WITH_ROLE)
def test_a_partners_key_is_refused_where_a_token_is_required(
    api: Api, records: dict[str, Any], partner_keys: dict[str, str], operation: Operation
):
    for key in partner_keys.values():
        # The key in place of a token, and as the key.
        assert operation.call(api, key, records).status == 401
        assert operation.call(api, None, records, key=key).status == 401


@by_name([operation for operation in WITH_TOKEN if operation.surface == "administration"])
def test_a_token_of_another_organization_is_refused(
    api: Api, other_organization: Organization, records: dict[str, Any], operation: Operation
):
    reply = operation.call(api, other_organization.token, records)
    assert reply.status == 403, reply.text
    assert MARKER not in reply.text


@by_name(WITH_RECORD)
def test_records_of_another_organization_are_not_found(
    api: Api, other_organization: Organization, records: dict[str, Any], operation: Operation
):
    reply = operation.call(api, other_organization.token, {**records, "organizationId": other_organization.id})
    assert reply.status == 404, reply.text
    assert json.loads(reply.text)["type"] == "/problems/not-found"


@by_name(INTEGRATION_READS)
def test_lists_contain_no_record_of_another_organization(
    api: Api,
    organization: Organization,
    other_organization: Organization,
    records: dict[str, Any],
    operation: Operation,
):
    assert MARKER not in operation.call(api, other_organization.token, records).text
    assert MARKER in operation.call(api, organization.token, records).text
