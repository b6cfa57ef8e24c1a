"""A member with one word in every text field, and requests that carry the word into every table."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import Engine, text

from tests.builders.api import Organization

WORD = "zqxana"
NAME = f"{WORD}-7"


def word(suffix: str) -> str:
    """A text that occurs only in records of the member."""
    return f"{WORD} {suffix}"


def key() -> str:
    """An unused systemUniqueKey, without personal data."""
    return str(uuid.uuid4())


_ATTRIBUTES = {"customAttributes": {WORD: word("attribute")}}
_DETAILS = {"externalId": word("external"), "description": word("description"), "tags": [word("tag")]}


def enrol(organization: Organization) -> dict[str, Any]:
    """Enrol the member with every field that enrolment and changes can set."""
    organization.integration.post("/members", _enrolment())
    changes = {"profile": {"city": word("town")}, "updateReason": word("moved")}
    return organization.integration.patch(f"/members/{NAME}", changes)["loyaltyMember"]


def _enrolment() -> dict[str, Any]:
    profile = {name: word(name) for name in ("name", "lastName", "nickname", "city", "state")}
    profile |= {"email": f"{WORD}@example.com", "emails": [f"{WORD}2@example.com"], "phoneNumber": WORD}
    profile |= {"govId": {"id": WORD, "type": "passport"}, "address": {"addressLine": word("street")}}
    profile |= {"tags": [word("tag")], "customAttributes": {WORD: word("of the profile")}}
    return {
        "loyaltyMemberId": NAME,
        "publicLoyaltyMemberId": f"{NAME}-public",
        "profile": profile,
        "customAttributes": {WORD: word("of the member")},
        "memberType": word("type"),
        "channelAcquisition": word("channel"),
        "notifications": {"email": True},
    }


def event(event_type: str = "cup-returned", **more: Any) -> dict[str, Any]:
    """An event with every field of an event."""
    fields = {"payload": {"note": word("note"), WORD: 1}, **_DETAILS, **more}
    return {"loyaltyMemberId": NAME, "systemUniqueKey": key(), "eventType": event_type, **fields}


def order(external_id: str = word("order"), **more: Any) -> dict[str, Any]:
    """An order with every field of an order."""
    item = {"productCode": "P-1", "description": word("item"), "total": 5, "quantity": 1, **_ATTRIBUTES}
    words = {name: word(name) for name in ("merchantId", "paymentMethod", "locationCode", "channel", "type")}
    return {"externalId": external_id, "total": 5, "items": [item], "description": word("an order"), **words, **more}


def live(organization: Organization) -> dict[str, Any]:
    """Let the member use every feature and other members refer to the member; return the created records by name."""
    administration, integration = organization.administration, organization.integration
    shop = _shop(organization)
    ana, ben = enrol(organization), organization.member("ben-8")
    home, of_ana = f"/members/{ana['memberId']}", f"/members/{NAME}"
    program = f"/referral-programs/{shop['program']['referralProgramId']}"
    administration.post(f"{program}/codes", {"memberId": ana["memberId"], "codes": [f"{WORD}-friend"]})
    cleo = organization.member("cleo-9", referralCode=f"{WORD}-friend")
    administration.patch(
        f"/audiences/{shop['audience']['audienceId']}/members", {"add": [ana["memberId"]], "remove": []}
    )
    cup = event()
    results = [_track(organization, cup)]
    results.append(_track(organization, event("member-purchase-order-created", payload={"order": order()})))
    return_order = {"externalId": word("order"), "total": 1}
    results.append(_track(organization, event("member-purchase-order-returned", payload={"order": return_order})))
    results.append(_track(organization, event("member-purchase-order-returned", payload={"order": order("none")})))
    cleo_order = order("order-of-cleo", referralCode=f"{WORD}-friend")
    of_cleo = {"loyaltyMemberId": "cleo-9", "systemUniqueKey": key(), "eventType": "member-purchase-order-created"}
    _track(organization, {**of_cleo, "payload": {"order": _plain(cleo_order)}})
    sponsored_event = {"loyaltyMemberId": "ben-8", "systemUniqueKey": key(), "eventType": "cup-returned"}
    _track(organization, {**sponsored_event, "sponsorLoyaltyMemberId": NAME})
    integration.post(f"/events/{results[0]['loyaltyEventKey']}/cancel", {"description": word("cancelled")}, expect=200)
    administration.post(f"{home}/purchase-orders", {**order(word("second")), "status": "created"})
    _assign_and_use(organization, shop, home, of_ana)
    _points(organization, ana, ben)
    receipts = integration.post("/events/track-async", {"events": [event(), event()]}, expect=202)["results"]
    give_up(organization.api.engine, organization.id, receipts[0]["loyaltyEventKey"])
    _fail_a_delivery(organization.api.engine, organization.id)
    return {**shop, "ana": ana, "ben": ben, "cleo": cleo, "event": cup}


def _plain(body: dict[str, Any]) -> dict[str, Any]:
    """The order without the word of the member, except in the referral code."""
    return {name: body[name] for name in ("externalId", "total", "referralCode")}


def _track(organization: Organization, body: dict[str, Any]) -> dict[str, Any]:
    return organization.integration.post("/events/track", {"events": [body]}, expect=200)["results"][0]


def _shop(organization: Organization) -> dict[str, Any]:
    administration, integration = organization.administration, organization.integration
    administration.post("/custom-event-types", {"name": "Cup", "apiCode": "cup-returned", "schemaType": "custom"})
    for type_ in ("WebHook", "AsyncTrackWebhook", "EntityChangeWebhook"):
        body = {"triggerKey": type_, "type": type_, "name": type_, "settings": {"url": "https://hooks.invalid/"}}
        administration.post("/triggers", body)
    for code, event_type in (("cups", "cup-returned"), ("orders", "member-purchase-order-created")):
        body = {"code": code, "name": code, "eventType": event_type}
        campaign = administration.post("/campaigns", body)["campaign"]
        effects = {"items": [{"effectId": "mint-points", "params": [{"id": "amount", "value": 100}]}]}
        body = {"name": "Mint", "effects": effects, "status": "running", "priority": 1}
        administration.post(f"/campaigns/{campaign['campaignId']}/actions", body)
    program = {"name": "Friends", "code": "friends", "active": True, "maxPerCode": 9, "referrerPointsAccrual": 10}
    program |= {"eventType": "member-purchase-order-created"}
    book = {"name": "Coffee", "type": "list", "publishingStatus": "published", "requiredPointsConfig": None}
    book = administration.post("/coupon-books", book)["couponBook"]
    codes = [f"CODE-{number}" for number in range(5)]
    administration.post(f"/coupon-books/{book['couponBookId']}/coupons", {"codes": codes})
    mission = {"name": "Ten cups", "eventType": "cup-returned", "maxRepetitions": 9, "goalCount": 2}
    return {
        "program": administration.post("/referral-programs", program)["referralProgram"],
        "audience": administration.post("/audiences", {"name": "Panel", "matcherType": "list-matcher"})["audience"],
        "badge": integration.post("/badges", {"name": "Lark", "maxAmount": 9, "active": True})["badge"],
        "mission": administration.post("/missions", mission)["mission"],
        "book": book,
    }


def _assign_and_use(organization: Organization, shop: dict[str, Any], home: str, member_path: str) -> None:
    administration, integration = organization.administration, organization.integration
    details = {"externalId": word("external"), **_ATTRIBUTES}
    integration.post(f"{member_path}/badges/{shop['badge']['badgeKey']}/assign", details, expect=200)
    administration.post(
        f"{home}/missions/{shop['mission']['missionId']}/progress", {"amount": 2, **_DETAILS}, expect=200
    )
    program = f"/loyalty-programs/{organization.defaults.loyalty_program_id}"
    tier = {"name": "Gold", "active": True, "minRequiredPoints": 1000, "tierOrder": 1}
    tier = administration.post(f"{program}/tiers", tier)["tier"]
    administration.put(f"{home}{program}/tier", {"loyaltyTierId": tier["loyaltyTierId"], **_DETAILS})
    coupons = f"{member_path}/coupon-books/{shop['book']['couponBookKey']}"
    integration.post(
        f"{coupons}/assign", {"code": "CODE-0", "couponData": {WORD: word("data")}, **_DETAILS}, expect=200
    )
    integration.post(f"{coupons}/use", {"code": "CODE-0", "usageData": {WORD: word("usage")}, **_DETAILS}, expect=200)


def _points(organization: Organization, ana: dict[str, Any], ben: dict[str, Any]) -> None:
    administration = organization.administration
    administration.post(
        f"/members/by-loyalty-member-id/{NAME}/mint", {"amount": 50, **_DETAILS, "tags": []}, expect=200
    )
    path = f"/ledgers/{organization.defaults.ledger_id}/accounts/{organization.defaults.ledger_account_id}/transactions"
    ana_wallet, ben_wallet = ana["ledgerWalletId"], ben["ledgerWalletId"]
    details = {name: _DETAILS[name] for name in ("externalId", "description")}
    for source, target in ((None, ana_wallet), (ana_wallet, ben_wallet), (ana_wallet, None)):
        for method in ({}, {"captureMethod": "manual"}):
            administration.post(path, {"amount": 1, "fromWalletId": source, "toWalletId": target, **details, **method})


def give_up(engine: Engine, organization_id: int, loyalty_event_key: str) -> None:
    """Make a queued event a dead letter: no request does that, only repeated faults of the system."""
    condition = (
        "loyalty_event_id = (SELECT loyalty_event_id FROM events WHERE organization_id = :o AND loyalty_event_key = :k)"
    )
    with engine.begin() as db:
        parameters = {"o": organization_id, "k": loyalty_event_key}
        db.execute(text(f"UPDATE queued_events SET dead_at = now() WHERE {condition}"), parameters)
        db.execute(text(f"UPDATE events SET status = 'failed' WHERE {condition}"), parameters)


def _fail_a_delivery(engine: Engine, organization_id: int) -> None:
    """Mark half of the messages about the member as failed, with an error text that has the word of the member."""
    with engine.begin() as db:
        statement = (
            "UPDATE trigger_deliveries SET status = 'failed', last_error = :error, next_attempt_at = NULL"
            " WHERE organization_id = :o AND mod(trigger_delivery_id, 2) = 0 AND CAST(payload AS text) LIKE :word"
        )
        db.execute(text(statement), {"o": organization_id, "error": word("is unknown here"), "word": f"%{NAME}%"})


_TABLES = """
    SELECT tablename, EXISTS (
        SELECT FROM information_schema.columns c
        WHERE c.table_schema = 'public' AND c.table_name = tablename AND c.column_name = 'organization_id'
    ) FROM pg_tables WHERE schemaname = 'public'
"""


def traces(engine: Engine, word: str = WORD, *, organization_id: int | None = None) -> dict[str, list[str]]:
    """The rows that contain a word in any column, as texts by table; with `organization_id` only its rows.

    Tables without a column `organization_id` are always searched completely.
    """
    rows_by_table = {}
    values = {"word": f"%{word}%"} | ({} if organization_id is None else {"organization_id": organization_id})
    with engine.connect() as db:
        tables = db.execute(text(_TABLES)).all()
        for table, is_tenants in tables:
            condition = " AND organization_id = :organization_id" if is_tenants and organization_id is not None else ""
            statement = text(f"SELECT CAST(t AS text) FROM {table} t WHERE CAST(t AS text) ILIKE :word{condition}")
            rows = db.execute(statement, values).scalars().all()
            if rows:
                rows_by_table[table] = list(rows)
    return rows_by_table
