"""Records for every operation that changes a record, with bodies that set all fields."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.builders import changeable_rules as rules
from tests.builders.api import Organization, Surface
from tests.builders.changeable import ATTRIBUTES, BY_HOURS, ORDER_CREATED, TEXTS, WINDOW, Changeable, audience, tier
from tests.builders.users import Users


def changeable(organization: Organization, operation: str) -> Sequence[Changeable]:
    """Records that `surface:operationId` changes; each field that it can set has a value in one of them."""
    return MAKERS[operation](organization)


def _badge(organization: Organization) -> Sequence[Changeable]:
    body = {"name": "A", "maxAmount": 3, "active": False, "tags": ["x"], "externalKey": "own-1", **TEXTS, **ATTRIBUTES}
    badge = organization.integration.post("/badges", body)["badge"]
    return [Changeable(f"/badges/{badge['badgeKey']}", body)]


def _event_type(organization: Organization) -> Sequence[Changeable]:
    details = {"apiCode": "cup", "externalKey": "own-1", **ATTRIBUTES}
    body = {"name": "Cup", "description": "A", "active": False, "schemaType": "custom", **details}
    organization.administration.post("/custom-event-types", body)
    return [Changeable("/custom-event-types/cup", body)]


def _event_type_without_code(organization: Organization) -> Sequence[Changeable]:
    [event_type] = _event_type(organization)
    return [Changeable(event_type.path, {name: event_type.body[name] for name in event_type.body if name != "apiCode"})]


def _collection(organization: Organization) -> Sequence[Changeable]:
    body = {
        "name": "Drinks",
        "description": "All of them",
        "slug": "drinks",
        "ftsFields": ["title"],
        "facetFields": {"size": {"type": "string"}},
        "jsonschema": {"type": "object"},
        "tags": ["x"],
        "contentType": "static",
        "externalKey": "own-1",
        **ATTRIBUTES,
    }
    organization.integration.post("/content/collections", body)
    return [Changeable("/content/collections/drinks", body)]


def _document(organization: Organization) -> Sequence[Changeable]:
    [collection] = _collection(organization)
    key = str(uuid.uuid4())
    document = f"{collection.path}/documents/{key}"
    body = {
        "slug": "flat-white",
        "attrs": {"title": "Flat white"},
        "status": "published",
        "locale": "es",
        "fromDate": WINDOW[0],
        "toDate": WINDOW[1],
        "audienceKeys": [audience(organization)["audienceKey"]],
        "daysOfWeek": ["1", "7"],
        "dayOfWeekSchedule": {"timezone": "Europe/Madrid", "schedule": [{"day": 1, "fromHour": 8, "toHour": 9}]},
    }
    organization.integration.put(f"{document}/locales/es", body)
    return [Changeable(document, body, query={"locale": "es"})]


def _document_locale(organization: Organization) -> Sequence[Changeable]:
    [document] = _document(organization)
    return [Changeable(f"{document.path}/locales/es", document.body, get=document.path, query=document.query)]


def _audiences(organization: Organization) -> Sequence[Changeable]:
    body = {
        "organizationId": organization.id,
        "active": False,
        "name": "Regulars",
        "description": "Who comes often",
        "matcherType": "attribute-matcher",
        "matcher": {"tags": ["vip"], "memberTypes": ["gold"]},
        "segmentKey": "seg-1",
        "refreshedAt": WINDOW[0],
        "expiresAt": WINDOW[1],
        "memberCount": 12,
        "externalKey": "own-1",
    }
    record = audience(organization, **body)
    # Null sets the current time, which is later than the value in the body.
    after_null = {"refreshedAt": lambda value: value > "2026-06-01"}
    return [Changeable(f"/audiences/{record['audienceId']}", body, unset=after_null)]


def _tiers(organization: Organization) -> Sequence[Changeable]:
    record = tier(organization)
    body = {
        "name": "Silver",
        "active": True,
        "minRequiredPoints": 400,
        "tierOrder": 3,
        "pictureUrl": "https://pictures.example/p",
        "isDefault": True,
        "externalKey": "own-1",
        **ATTRIBUTES,
    }
    path = f"/loyalty-programs/{organization.defaults.loyalty_program_id}/tiers/{record['loyaltyTierId']}"
    return [Changeable(path, body)]


def _program(organization: Organization) -> Sequence[Changeable]:
    defaults, administration = organization.defaults, organization.administration
    body = {
        "active": False,
        "name": "Club",
        "description": "The club",
        "ledgerId": defaults.ledger_id,
        "tierPointsLedgerAccountId": defaults.ledger_account_id,
        "mainLedgerAccountId": defaults.ledger_account_id,
        "setAsDefault": False,
        "mainPortalId": administration.post("/portals", {"name": "Corner", "active": True})["portal"]["portalId"],
        "tierPolicy": {"basis": "earned", "period": "rolling", "months": 6, "startMonth": None, "timezone": None},
        "externalKey": "own-1",
    }
    program = administration.post("/loyalty-programs", body)["loyaltyProgram"]
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    tier = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 2}
    tier_id = administration.post(f"{path}/tiers", tier)["tier"]["loyaltyTierId"]
    return [Changeable(path, {**body, "defaultTierId": tier_id})]


def _account(organization: Organization) -> Sequence[Changeable]:
    program_id = organization.defaults.loyalty_program_id
    gold = {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 2}
    tier = organization.administration.post(f"/loyalty-programs/{program_id}/tiers", gold)["tier"]
    body = {
        "alias": "stars",
        "name": "Stars",
        "active": True,
        "isCurrency": True,
        "decimals": 2,
        "formatString": "* {}",
        "isRevolving": True,
        "pointTrackingEnabled": True,
        "chainSyncEnabled": True,
        "expiresInMonths": 12,
        "expirationPolicies": [{"expirationType": "lastTransaction", "period": 3}],
        "expiryRounding": "quarter",
        "expiryYearStartMonth": 2,
        "timezone": "Europe/Madrid",
        "tierExpirations": [{"loyaltyTierKey": tier["loyaltyTierKey"], "months": 24}],
        "lateActivityDays": 5,
        "restoredExpiryDays": 30,
        "pointsExpiring": {"daysBefore": [14], "at": "09:30"},
        "overdraftLimit": 5,
        "maxBalance": 500,
        "defaultAvailability": {"availableAt": None, "availableAfter": "P14D", "availableRounding": "day"},
        "offlineAllowance": {"enabled": True, "maxAmount": 5, "maxHours": 12, "syncHours": 0},
        "fiatPerPoint": 3,
        "redemption": {"pointsPerUnit": 100, "currency": "EUR", "minPoints": 1, "multipleOf": 2, "maxShare": 0.5},
        "isDefaultAccount": True,
        "externalKey": "own-1",
    }
    path = f"/ledgers/{organization.defaults.ledger_id}/accounts"
    account = organization.administration.post(path, body)["ledgerAccount"]

    def read() -> Mapping[str, Any]:
        page = organization.administration.get(path, ledgerAccountKey=account["ledgerAccountKey"])
        return page["results"][0]

    return [Changeable(f"{path}/{account['ledgerAccountId']}", body, read=read)]


def _trigger(organization: Organization) -> Sequence[Changeable]:
    settings = {
        "url": "https://hooks.invalid/loyalty",
        "headers": {"X-A": "1"},
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    }
    changeables = []
    kinds = {"WebHook": {"eventTypes": [ORDER_CREATED]}, "EntityChangeWebhook": {"entities": ["member"]}}
    for type_, subscription in kinds.items():
        names = {"triggerKey": type_, "externalKey": type_, "name": "A"}
        body = {**names, "type": type_, "active": False, "settings": {**settings, **subscription}}
        trigger = organization.administration.post("/triggers", body)["trigger"]
        path = f"/triggers/{trigger['triggerId']}"
        # The response has only the names of headers, and the secret once.
        changeables.append(Changeable(path, body, not_answered=("settings.headers", "settings.secret")))
    return changeables


def _organization_itself(organization: Organization) -> Sequence[Changeable]:
    body = {
        "name": "Tea",
        "defaultLoyaltyProgramId": organization.defaults.loyalty_program_id,
        "defaultLocale": "es",
        "locales": ["es", "en"],
        "timezone": "Europe/Madrid",
        "currency": "EUR",
        "locationTimezones": {"LPA": "Atlantic/Canary"},
        "lateEventTiers": "evaluation",
        "pointsExpiring": {"daysBefore": [30, 7, 1], "at": "10:00"},
        **TEXTS,
        **ATTRIBUTES,
    }
    organization.administration.put("", body)
    return [Changeable("", body, unset={"timezone": "UTC"})]


def _group(organization: Organization) -> Sequence[Changeable]:
    group = Users.of(organization).group()
    body = {"name": "Readers", "description": "They read", "isAdmin": True, "roles": ["tiers:read"]}
    path = f"/permission-groups/{group['permissionGroupKey']}"
    organization.administration.put(path, body)

    def read() -> Mapping[str, Any]:
        return organization.administration.get("/permission-groups")["results"][0]

    return [Changeable(path, body, read=read)]


def _portal(organization: Organization) -> Sequence[Changeable]:
    body = {
        "name": "Corner",
        "active": True,
        "customAttributes": {"floor": 2},
        "links": {"imprint": "https://x.example"},
        "theme": {"primaryColour": "#6f4e37"},
        "forms": {"signUp": {"fields": ["email"]}},
        "metadata": {"title": "Corner"},
        "loyaltyProgramId": organization.defaults.loyalty_program_id,
        "authRedirectUrl": "https://members.corner.example/callback",
        "authValidScopes": ["openid"],
    }
    portal = organization.administration.post("/portals", body)["portal"]
    return [Changeable(f"/portals/{portal['portalId']}", body)]


def _user(organization: Organization) -> Sequence[Changeable]:
    users = Users.of(organization)
    group = users.group(roles=["tiers:read"])["permissionGroupKey"]
    names = {"userName": "ana", "authClientId": f"client-{uuid.uuid4()}"}
    person = users.person(isAdmin=False, roles=["orders:read"], permissionGroupKeys=[group], **names)
    body = {
        "name": "Ana",
        "nickname": "A",
        "profilePictureUrl": "https://pictures.example/p",
        "isSystemAdmin": False,
        "pendingProvisioning": True,
        "organizations": [],
        "permissionGroupKeys": [group],
        "active": False,
    }
    # The operation accepts these fields and does not change them.
    ignored = {name: person[name] for name in ("email", "userName", "authClientId")}
    path = f"/users/{person['userId']}"
    organization.administration.put(path, body)
    body |= ignored
    return [Changeable(path, body, unset=ignored, not_answered=("organizations",), follows=("organizations",))]


def _member(organization: Organization) -> dict[str, Any]:
    return {
        "loyaltyMemberId": "ana-7",
        "publicLoyaltyMemberId": "public-7",
        "profile": {
            "name": "Ana",
            "lastName": "Sur",
            "email": "ana@example.com",
            "govId": {"id": "1", "type": "dni", "issuingCountry": "AR"},
            "birthdate": "1990-01-01",
            "phoneNumber": "5",
            "pictureUrl": "https://pictures.example/p",
            "nickname": "A",
            "emails": ["b@example.com"],
            "locations": ["centre"],
            "gender": "f",
            "country": "AR",
            "state": "S",
            "city": "Rosario",
            "address": {"addressLine": "a", "floor": "1", "apartment": "b", "zipCode": "9"},
            "tags": ["vip"],
            **ATTRIBUTES,
        },
        "active": False,
        "memberType": "gold",
        "notifications": {"email": True, "phone": False, "push": True},
        "updateReason": "Asked for",
        "emitEvent": False,
        **ATTRIBUTES,
    }


def _book_body(organization: Organization) -> dict[str, Any]:
    gold = tier(organization)
    account = organization.administration.get(f"/ledgers/{organization.defaults.ledger_id}/accounts")["results"][0]
    return {
        "name": "Coffee",
        "extraFields": {"a": 1},
        "externalId": "crm-7",
        "currentVersionId": 3,
        "subtitle": "On the house",
        "detailPictureUrl": "https://pictures.example/p",
        "images": {"main": "https://cdn.example.com/a.png"},
        "rankingIndex": 2,
        "discountAmount": 4,
        "discountType": "amount",
        "maxCouponCount": 1000,
        "maxAssignedPerMember": 2,
        "maxAssignedPerCoupon": 1,
        "validFromDate": WINDOW[0],
        "validToDate": WINDOW[1],
        "maxDiscountPerPeriod": 9,
        "discountPeriodType": "monthly",
        "maxUsagesPerPeriod": 1,
        "usagePeriodType": "daily",
        "timezone": "America/Buenos_Aires",
        "maxDiscountPerUse": 5,
        "minOrderTotal": 30,
        "restoreOnCancel": False,
        "faceValue": 5,
        "assignmentRequiredPoints": 100,
        "usageRequiredPoints": 1,
        "requiredPointsConfig": {"ledgerKey": account["ledgerKey"], "ledgerAccountKey": account["ledgerAccountKey"]},
        "tags": ["x"],
        "audienceKeys": [audience(organization)["audienceKey"]],
        **{name: ["a"] for name in ("locations", "categories", "productCategories", "paymentMethods", "channels")},
        "contentSchemaId": 4,
        "contentSchemaVersionId": 5,
        "condition": {"expression": "member.active"},
        "tierKeys": [gold["loyaltyTierKey"]],
        "codePattern": {"prefix": "A-", "suffix": "-Z", "alphabet": "ABCDEFGHJKLMNPQR", "length": 20},
        "locale": "es",
        "content": {"title": "A"},
        "isDefaultLocale": True,
        "defaultLocale": "es",
        "externalKey": "own-1",
        **TEXTS,
        **ATTRIBUTES,
    }


_BOOK: dict[str, Any] = {
    "together": {
        "maxDiscountPerPeriod": {"discountPeriodType": None},
        "discountPeriodType": {"maxDiscountPerPeriod": None},
        "maxUsagesPerPeriod": {"usagePeriodType": None},
        "usagePeriodType": {"maxUsagesPerPeriod": None},
        "requiredPointsConfig": {"assignmentRequiredPoints": None, "usageRequiredPoints": None},
        "tierKeys": {"tiers": []},
        "tiers": {"tierKeys": []},
    },
    "follows": ("loyaltyProgramId", "loyaltyProgramKey"),
}


def _book(organization: Organization, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The body of an update and a new coupon book to update."""
    body = {**_book_body(organization), **more}
    draft = {"name": "A", "type": "generated", "publishingStatus": "draft"}
    return body, organization.integration.post("/coupon-books", draft)["couponBook"]


def _book_by_key(organization: Organization) -> Sequence[Changeable]:
    programs = organization.administration.get("/loyalty-programs")["loyaltyPrograms"]
    more = {"daysOfWeek": [1, 7], "loyaltyProgramKey": programs[0]["loyaltyProgramKey"]}
    body, book = _book(organization, **more)
    tiers = organization.integration.patch(f"/coupon-books/{book['couponBookKey']}", body)["couponBook"]["tiers"]
    path, body = f"/coupon-books/{book['couponBookKey']}", {**body, "tiers": tiers}
    return [Changeable(path, body, **_BOOK), _by_hours(organization, organization.integration, "couponBookKey", body)]


def _book_by_id(organization: Organization) -> Sequence[Changeable]:
    more = {"daysOfWeek": ["1", "7"], "loyaltyProgramId": organization.defaults.loyalty_program_id}
    body, book = _book(organization, **more)
    path = f"/coupon-books/{book['couponBookId']}"
    tiers = organization.administration.patch(path, body)["couponBook"]["tiers"]
    body = {**body, "tiers": tiers}
    return [Changeable(path, body, **_BOOK), _by_hours(organization, organization.administration, "couponBookId", body)]


def _by_hours(organization: Organization, surface: Surface, identity: str, body: dict[str, Any]) -> Changeable:
    """Another book, which is open at some hours instead of on some days."""
    draft = {"name": "B", "type": "generated", "publishingStatus": "draft"}
    book = organization.integration.post("/coupon-books", draft)["couponBook"]
    path, body = f"/coupon-books/{book[identity]}", {**body, **BY_HOURS, "externalKey": "own-2"}
    surface.patch(path, body)
    return Changeable(path, body, **_BOOK)


# Fields about the request, which the member does not have.
_OF_REQUEST = ("updateReason", "emitEvent")


def _member_by_key(organization: Organization) -> Sequence[Changeable]:
    organization.member("ana-7")
    return [Changeable("/members/ana-7", _member(organization), not_answered=_OF_REQUEST)]


def _member_by_id(organization: Organization) -> Sequence[Changeable]:
    member = organization.member("ana-7")
    more = {"channelAcquisition": "web", "referralCode": "R-1", "onChain": {"wallets": [{"address": "x"}]}}
    body = {**_member(organization), **more}
    return [Changeable(f"/members/{member['memberId']}", body, not_answered=_OF_REQUEST)]


MAKERS: Mapping[str, Callable[[Organization], Sequence[Changeable]]] = {
    "integration:updateBadge": _badge,
    "integration:updateCouponBook": _book_by_key,
    "integration:updateCollection": _collection,
    "integration:updateDocument": _document,
    "integration:upsertDocumentLocale": _document_locale,
    "integration:updateCustomEventType": _event_type_without_code,
    "integration:updateMember": _member_by_key,
    "administration:updateCouponBook": _book_by_id,
    "administration:updateCustomEventType": _event_type,
    "administration:updateOrganization": _organization_itself,
    "administration:updateLoyaltyProgram": _program,
    "administration:updateTier": _tiers,
    "administration:updateMember": _member_by_id,
    "administration:updateLedgerAccount": _account,
    "administration:updateCampaign": rules.campaign,
    "administration:updateAction": rules.action,
    "administration:updateReferralProgram": rules.referral_program,
    "administration:updateAudience": _audiences,
    "administration:updateMatcher": rules.matcher,
    "administration:updateStackingGroup": rules.stacking_group,
    "administration:updateMission": rules.missions,
    "administration:updateTrigger": _trigger,
    "administration:updateUser": _user,
    "administration:updatePermissionGroup": _group,
    "administration:updatePortal": _portal,
}
