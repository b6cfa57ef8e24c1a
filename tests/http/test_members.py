"""Members over HTTP: enrolment, reads, updates, lists, searches and access tokens."""

from __future__ import annotations

import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import jwt
import pytest
from sqlalchemy import select

from handlers import members as member_operations
from persistence import ledger_wallets
from persistence.tables.audit_log import audit_log
from persistence.tables.events import events
from tests.builders.statements import count
from tests.builders.users import Users

ANA = {
    "loyaltyMemberId": "ana-7",
    "publicLoyaltyMemberId": "BEAN-0007",
    "profile": {
        "name": "Ana María",
        "lastName": "Costa",
        "email": "Ana@Example.com",
        "govId": {"id": "30111222", "type": "national-id", "issuingCountry": "AR"},
        "birthdate": "1990-04-12",
        "phoneNumber": "+54 11 5555 0100",
        "pictureUrl": "https://cornercoffee.example/ana.png",
        "nickname": "Anita",
        "emails": ["ana@work.example"],
        "locations": ["centre"],
        "gender": "female",
        "country": "AR",
        "state": "Santa Fe",
        "city": "Rosario",
        "address": {"addressLine": "Mitre 100", "floor": "2", "apartment": "B", "zipCode": "2000"},
        "tags": ["barista-course"],
        "customAttributes": {"favouriteDrink": "flat white"},
    },
    "active": True,
    "customAttributes": {"spent": Decimal("18446744073709.123456"), "nested": {"list": [1, None, "x"]}},
    "memberType": "regular",
    "channelAcquisition": "counter",
    "notifications": {"email": True, "phone": False, "push": True},
    "referralCode": "FRIEND-1",
}
NO_PROFILE = {
    **dict.fromkeys(("name", "lastName", "email", "birthdate", "phoneNumber", "pictureUrl", "nickname")),
    **dict.fromkeys(("gender", "country", "state", "city")),
    "emails": [],
    "locations": [],
    "tags": [],
    "customAttributes": {},
}


@pytest.fixture
def integration(organization):
    return organization.integration


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def ana(integration):
    """The record of a new member with all fields, ana-7."""
    return integration.post("/members", ANA)["loyaltyMember"]


def default_tier(organization):
    """The entry about the default tier in the record of a member."""
    program = organization.administration.get(f"/loyalty-programs/{organization.defaults.loyalty_program_id}")
    return {
        "loyaltyProgramId": organization.defaults.loyalty_program_id,
        "loyaltyTierId": program["loyaltyProgram"]["defaultTierId"],
        "expiresAt": None,
    }


def without_balances(member):
    """A member as lists return it, without ledgerBalances and tierStatus."""
    return {name: value for name, value in member.items() if name not in ("ledgerBalances", "tierStatus")}


def test_a_member_is_enrolled_with_every_property(organization, integration, ana):
    defaults = organization.defaults
    assert ana == {
        **ANA,
        "organizationId": organization.id,
        "memberId": ana["memberId"],
        "tiers": [default_tier(organization)],
        "tierStatus": [
            {
                "loyaltyProgramId": defaults.loyalty_program_id,
                "loyaltyProgramKey": defaults.loyalty_program_key,
                "tier": ana["tierStatus"][0]["tier"],
                "isManual": False,
                "tierHold": None,
                "since": ana["createdAt"],
                "expiresAt": None,
                "points": 0,
                "pointsToKeep": None,
            }
        ],
        "ledgerWalletId": ana["ledgerWalletId"],
        "ledgerWalletKey": str(uuid.UUID(ana["ledgerWalletKey"])),
        "onChain": {"wallets": []},
        "ledgerBalances": [
            {
                "ledgerId": defaults.ledger_id,
                "ledgerAccountId": defaults.ledger_account_id,
                "walletId": ana["ledgerWalletId"],
                "balance": 0,
                "pending": 0,
            }
        ],
        "createdAt": ana["createdAt"],
        "updatedAt": ana["createdAt"],
    }
    assert integration.get("/members/ana-7")["loyaltyMember"] == ana
    assert integration.get("/members/ana-7", includeBalance=False)["loyaltyMember"] == without_balances(ana)


def test_a_member_needs_only_an_id(integration):
    member = integration.post("/members", {"loyaltyMemberId": "é ü+%?#&"})["loyaltyMember"]
    assert member["profile"] == NO_PROFILE
    assert member["notifications"] == {"email": None, "phone": None, "push": None}
    unset = ("publicLoyaltyMemberId", "memberType", "channelAcquisition", "referralCode")
    assert [member[name] for name in unset] == [None] * 4
    assert (member["active"], member["customAttributes"]) == (True, {})
    assert integration.get("/members/%C3%A9%20%C3%BC+%25%3F%23&")["loyaltyMember"] == member


def test_null_fields_count_as_missing_ones(integration):
    profile = {"name": None, "govId": {"id": None}, "address": {"floor": None, "zipCode": "1"}}
    body = {"loyaltyMemberId": "nobody", "profile": profile, "memberType": None, "notifications": {"push": None}}
    member = integration.post("/members", body)["loyaltyMember"]
    address = {"addressLine": None, "floor": None, "apartment": None, "zipCode": "1"}
    assert member["profile"] == {**NO_PROFILE, "address": address}
    assert member["notifications"]["push"] is None


def test_the_administration_enrols_with_wallets_of_blockchains(administration):
    wallets = {"wallets": [{"chain": "x", "address": "0xabc"}]}
    member = administration.post("/members", {**ANA, "onChain": wallets})["loyalMember"]
    assert {name: member[name] for name in ANA} == ANA
    assert member["onChain"] == wallets
    assert administration.get(f"/members/{member['memberId']}")["loyalMember"] == member
    by_loyalty_id = "/members/by-loyalty-member-id/ana-7"
    assert administration.get(by_loyalty_id)["loyalMember"] == member
    assert administration.get(by_loyalty_id, includeBalance=False)["loyalMember"] == without_balances(member)
    # By the id, a member is read with the balances.
    problem = administration.get(f"/members/{member['memberId']}", includeBalance=False, expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["includeBalance"]


def test_a_member_has_no_tier_if_the_default_program_has_no_default_tier(organization, integration, administration):
    body = {"ledgerId": organization.defaults.ledger_id, "description": "", "setAsDefault": True}
    administration.post("/loyalty-programs", body)
    assert integration.post("/members", {"loyaltyMemberId": "ana"})["loyaltyMember"]["tiers"] == []


def test_a_member_is_read_and_updated_with_its_balances(organization, integration, administration, ana):
    administration.post("/members/by-loyalty-member-id/ana-7/mint", {"amount": 120}, expect=200)
    balances = [{**ana["ledgerBalances"][0], "balance": 120}]
    assert integration.get("/members/ana-7")["loyaltyMember"]["ledgerBalances"] == balances
    patched_member = integration.patch("/members/ana-7", {"active": True})["loyaltyMember"]
    assert patched_member["ledgerBalances"] == balances


def test_a_read_returns_the_same_member_as_an_update(organization, integration, administration, ana):
    program = {"ledgerId": organization.defaults.ledger_id, "description": "", "setAsDefault": False}
    second_program = administration.post("/loyalty-programs", program)["loyaltyProgram"]["loyaltyProgramId"]
    tier_body = {"name": "Silver", "active": True, "minRequiredPoints": 500, "tierOrder": 1}
    silver = administration.post(f"/loyalty-programs/{second_program}/tiers", tier_body)["tier"]["loyaltyTierId"]
    body = {"loyaltyTierId": silver, "expiresAt": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    administration.put(f"/members/{ana['memberId']}/loyalty-programs/{second_program}/tier", body)
    accounts = f"/ledgers/{organization.defaults.ledger_id}/accounts"
    for name, active in (("Stars", True), ("Moons", False)):
        account = {"name": name, "active": active, "isRevolving": True, "chainSyncEnabled": False}
        administration.post(accounts, {**account, "isDefaultAccount": active})
    administration.post("/members/by-loyalty-member-id/ana-7/mint", {"amount": 12}, expect=200)

    updated_member = integration.patch("/members/ana-7", {"active": True})["loyaltyMember"]
    assert len(updated_member["tiers"]) == 2
    # The new default account, Stars, comes first, then Points; Moons is inactive.
    assert [balance["balance"] for balance in updated_member["ledgerBalances"]] == [12, 0]
    assert integration.get("/members/ana-7")["loyaltyMember"] == updated_member
    shorter_member = integration.get("/members/ana-7", includeBalance=False)["loyaltyMember"]
    assert shorter_member.items() >= without_balances(updated_member).items()
    member_by_id = administration.get(f"/members/{ana['memberId']}")
    assert member_by_id == administration.get("/members/by-loyalty-member-id/ana-7")
    assert member_by_id == administration.patch(f"/members/{ana['memberId']}", {"active": True})


def test_a_member_is_returned_without_balances_if_no_account_is_active(organization, integration, administration, ana):
    account = f"/ledgers/{organization.defaults.ledger_id}/accounts/{organization.defaults.ledger_account_id}"
    inactive = {"name": "Points", "active": False, "isRevolving": True, "chainSyncEnabled": False}
    administration.put(account, inactive)
    member = integration.get("/members/ana-7")["loyaltyMember"]
    assert member["ledgerBalances"] == []
    assert len(member["tiers"]) == 1


def test_one_statement_reads_a_member_and_the_organization_and_the_permissions_of_the_caller(organization, api, ana):
    users = Users.of(organization)
    token = users.token(users.create(roles=["members:read", "coupons:read"]))
    by_id = f"/members/{ana['memberId']}"
    for caller in (organization.token, token):
        integration = api.surface(token=caller)
        administration = api.surface(f"/organizations/{organization.id}", caller)
        calls = [
            partial(integration.get, "/members/ana-7"),
            partial(administration.get, by_id),
            partial(administration.get, "/members/by-loyalty-member-id/ana-7"),
        ]
        for call in calls:
            call()
            assert count(api.engine, call) == 1
        # One statement finds the member, the organization and the permissions, another one reads the list.
        assert count(api.engine, partial(integration.get, "/members/ana-7/coupons")) == 2
        integration.get("/members/nobody", expect=404)


@pytest.mark.parametrize("name", ["loyaltyMemberId", "publicLoyaltyMemberId"])
def test_an_id_belongs_to_one_member_of_an_organization(api, organization, integration, administration, ana, name):
    body = {"loyaltyMemberId": "someone-else", name: ANA[name]}
    assert integration.post("/members", body, expect=409)["type"] == "/problems/member-exists"
    assert administration.post("/members", body, expect=409)["type"] == "/problems/member-exists"
    ben = organization.member("ben")
    problem = integration.patch("/members/ben", {name: ANA[name]}, expect=409)
    assert problem["type"] == "/problems/member-exists"
    assert ANA[name] in problem["detail"]
    assert integration.get("/members/ben")["loyaltyMember"] == ben
    # In another organization the id is free.
    assert api.organization().integration.post("/members", body)["loyaltyMember"][name] == ANA[name]


def test_concurrent_requests_enrol_a_member_once(organization, integration):
    body = {"loyaltyMemberId": "ana"}
    with ThreadPoolExecutor(8) as pool:
        responses = list(pool.map(lambda _: integration.request("POST", "/members", body), range(8)))
    assert sorted(response.status for response in responses) == [201] + [409] * 7
    assert integration.get("/members")["total"] == 1


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/loyaltyMemberId"),
        ({"loyaltyMemberId": ""}, "/loyaltyMemberId"),
        ({"loyaltyMemberId": "a/b"}, "/loyaltyMemberId"),
        ({"loyaltyMemberId": ".."}, "/loyaltyMemberId"),
        ({"loyaltyMemberId": 7}, "/loyaltyMemberId"),
        ({"loyaltyMemberId": "a", "colour": "red"}, "/colour"),
        ({"loyaltyMemberId": "a", "onChain": {"wallets": []}}, "/onChain"),
        ({"loyaltyMemberId": "a", "updateReason": "x"}, "/updateReason"),
        ({"loyaltyMemberId": "a", "profile": None}, "/profile"),
        ({"loyaltyMemberId": "a", "profile": {"email": "nobody"}}, "/profile/email"),
        ({"loyaltyMemberId": "a", "profile": {"birthdate": "1990-02-30"}}, "/profile/birthdate"),
        ({"loyaltyMemberId": "a", "profile": {"govId": {"id": "1", "kind": "x"}}}, "/profile/govId/kind"),
        ({"loyaltyMemberId": "a", "profile": {"tags": ["a,b"]}}, "/profile/tags/0"),
        ({"loyaltyMemberId": "a", "notifications": {"email": "yes"}}, "/notifications/email"),
    ],
)
def test_a_malformed_body_is_refused_with_the_field(other_organization, body, pointer):
    problem = other_organization.integration.post("/members", body, expect=400)
    assert problem["type"] == "/problems/invalid-request"
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_an_update_changes_only_the_sent_fields(integration, administration, ana):
    changes = {
        "profile": {
            "city": "Buenos Aires",
            "nickname": None,
            "address": {"floor": None, "zipCode": "1000"},
            "tags": ["vip"],
            "customAttributes": {"sugar": False},
        },
        "memberType": None,
        "notifications": {"push": None, "phone": True},
        "customAttributes": {"a": 1},
    }
    updated_member = integration.patch("/members/ana-7", changes)["loyaltyMember"]
    assert updated_member == {
        **ana,
        "profile": {
            **ana["profile"],
            "city": "Buenos Aires",
            "nickname": None,
            "address": {**ana["profile"]["address"], "floor": None, "zipCode": "1000"},
            "tags": ["vip"],
            "customAttributes": {"sugar": False},
        },
        "memberType": None,
        "notifications": {"email": True, "phone": True, "push": None},
        "customAttributes": {"a": 1},
        "updatedAt": updated_member["updatedAt"],
    }
    assert updated_member["updatedAt"] > ana["updatedAt"]
    assert integration.get("/members/ana-7")["loyaltyMember"] == updated_member


def test_the_administration_updates_every_field(administration, integration, ana):
    path = f"/members/{ana['memberId']}"
    body = {
        "loyaltyMemberId": "ana-8",
        "publicLoyaltyMemberId": "BEAN-8",
        "channelAcquisition": "web",
        "referralCode": None,
        "onChain": {"wallets": [{"address": "0x1"}]},
        "active": False,
        "profile": {"govId": {"id": None, "type": None, "issuingCountry": None}},
    }
    updated_member = administration.patch(path, body)["loyalMember"]
    sent_fields = {name: value for name, value in body.items() if name != "profile"}
    assert {name: updated_member[name] for name in sent_fields} == sent_fields
    # Without an id, type and country, the whole object is removed.
    assert "govId" not in updated_member["profile"]
    assert updated_member["profile"]["address"] == ana["profile"]["address"]
    integration.get("/members/ana-7", expect=404)
    assert integration.get("/members/ana-8")["loyaltyMember"] == updated_member
    for name in ("channelAcquisition", "referralCode", "onChain"):
        problem = integration.patch("/members/ana-8", {name: body[name]}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}"]


def test_an_update_without_fields_changes_nothing(integration, ana):
    assert integration.patch("/members/ana-7", {})["loyaltyMember"] == ana


def test_concurrent_updates_of_different_fields_are_all_stored(integration, ana):
    fields = ["name", "lastName", "nickname", "city", "state", "country", "gender", "phoneNumber"]

    def change(name):
        return integration.patch("/members/ana-7", {"profile": {name: f"new {name}"}, "emitEvent": False})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(change, fields))
    profile = integration.get("/members/ana-7")["loyaltyMember"]["profile"]
    assert {name: profile[name] for name in fields} == {name: f"new {name}" for name in fields}


@pytest.mark.parametrize("emit", [True, False])
def test_an_update_is_in_the_audit_log(organization, integration, ana, db, emit):
    changes = {"profile": {"city": "Lima"}, "active": False, "updateReason": "Moved house", "emitEvent": emit}
    integration.patch("/members/ana-7", changes)
    entry = db.execute(
        select(audit_log).where(
            audit_log.c.organization_id == organization.id, audit_log.c.operation_id == "updateMember"
        )
    ).one()
    assert (entry.actor, entry.reason) == ("operator", "Moved house")
    assert (entry.entity_type, entry.entity_id) == ("member", str(ana["memberId"]))
    assert entry.changes == {"profile.city": {"from": "Rosario", "to": "Lima"}, "active": {"from": True, "to": False}}


def events_of(integration, loyalty_member_id):
    """The type, the status and the reason of each event of the member, oldest first."""
    results = integration.get(f"/members/{loyalty_member_id}/events", order="createdAt,asc")["results"]
    return [(result["eventType"], result["status"], result["reason"]) for result in results]


def test_enrolments_and_updates_are_events_unless_emit_event_is_false(organization, integration, ana, db):
    integration.patch("/members/ana-7", {"profile": {"city": "Lima", "nickname": None}, "updateReason": "Moved house"})
    integration.patch("/members/ana-7", {"memberType": "staff", "emitEvent": False})
    integration.patch("/members/ana-7", {"active": False})
    # An inactive member is not deactivated again.
    integration.patch("/members/ana-7", {"active": False, "memberType": None})
    assert events_of(integration, "ana-7") == [
        ("member-created", "success", "The member was enrolled by request."),
        ("member-updated", "success", "Moved house"),
        ("member-updated", "success", "The member was changed by request."),
        ("member-profile-deactivated", "success", "The member was deactivated by request."),
        ("member-updated", "success", "The member was changed by request."),
    ]
    rows = db.execute(
        select(events.c.payload).where(events.c.organization_id == organization.id).order_by(events.c.loyalty_event_id)
    )
    assert [row.payload for row in rows] == [
        {},
        {"changedFields": ["profile.city", "profile.nickname"]},
        {"changedFields": ["active"]},
        {"changedFields": ["active"]},
        {"changedFields": ["memberType"]},
    ]


def test_a_campaign_rewards_the_enrolment(integration, administration):
    campaign = administration.post("/campaigns", {"code": "welcome", "name": "Welcome", "eventType": "member-created"})
    effect = {"effectId": "mint-points", "params": [{"id": "amount", "value": 50}]}
    action = {"name": "Mint", "effects": {"items": [effect]}, "status": "running", "priority": 1}
    administration.post(f"/campaigns/{campaign['campaign']['campaignId']}/actions", action)
    member = integration.post("/members", {"loyaltyMemberId": "ana"})["loyaltyMember"]
    assert [ledger_balance["balance"] for ledger_balance in member["ledgerBalances"]] == [50]


def test_unknown_and_foreign_members_are_not_found(organization, other_organization, integration, administration, ana):
    foreign_member = other_organization.member()
    for path in ("/members/nobody", f"/members/{foreign_member['loyaltyMemberId']}"):
        assert integration.get(path, expect=404)["type"] == "/problems/not-found"
        integration.patch(path, {}, expect=404)
        integration.post(f"{path}/access-tokens", expect=404)
    for member_id in (2**62, foreign_member["memberId"]):
        administration.get(f"/members/{member_id}", expect=404)
        administration.patch(f"/members/{member_id}", {}, expect=404)
    administration.get(f"/members/by-loyalty-member-id/{foreign_member['loyaltyMemberId']}", expect=404)


@pytest.fixture
def three_members(organization):
    """Ana, Ben and Cleo, enrolled in this order, in an organization of the test."""
    return enrol_three(organization)


@pytest.fixture(scope="module")
def reading_administration(api):
    """The administration of an organization with Ana, Ben and Cleo, for tests that only read."""
    organization = api.organization()
    enrol_three(organization)
    return organization.administration


def enrol_three(organization):
    """Enrol Ana (ANA), Ben (staff, from the web) and Cleo (staff, inactive); return their records."""
    ana = organization.integration.post("/members", ANA)["loyaltyMember"]
    ben = organization.member(
        "ben",
        profile={"name": "Ben", "lastName": "Anders-Müller", "email": "ben@example.com", "govId": {"id": "42"}},
        memberType="staff",
        channelAcquisition="web",
    )
    cleo = organization.member("cleo.99", active=False, memberType="staff", profile={"nickname": "Queen"})
    return ana, ben, cleo


def test_both_surfaces_list_and_page_the_members(integration, administration, three_members):
    ana, ben, cleo = (without_balances(member) for member in three_members)
    whole_page = {"results": [cleo, ben, ana], "page": 0, "limit": 25, "nextCursor": None}
    assert integration.get("/members") == {**whole_page, "total": 3}
    assert administration.get("/members") == {**whole_page, "totalCount": 3}
    page = integration.get("/members", page=1, limit=2)
    assert page == {"results": [ana], "total": 3, "page": 1, "limit": 2, "nextCursor": None}
    page_past_the_end = integration.get("/members", page=5, limit=2)
    assert page_past_the_end == {"results": [], "total": 3, "page": 5, "limit": 2, "nextCursor": None}


# Only the administration has the filter by wallet.
@pytest.mark.parametrize(
    ("surface", "path", "parameter", "value"),
    [
        ("integration", "/members", "limit", 26),
        ("integration", "/members", "limit", 0),
        ("integration", "/members", "walletId", 1),
        ("integration", "/members", "order", "email"),
        ("integration", "/members", "fromCreatedAt", "yesterday"),
        ("administration", "/members", "page", -1),
        ("administration", "/members/search", "order", "name"),
        ("administration", "/members/search", "query", ""),
    ],
)
def test_an_invalid_query_of_a_list_of_members_is_refused(organization, surface, path, parameter, value):
    problem = getattr(organization, surface).get(path, expect=400, **{parameter: value})
    assert [fault["parameter"] for fault in problem["errors"]] == [parameter]


def test_members_are_filtered_and_ordered(integration, administration, three_members):
    ana, ben, cleo = (member["loyaltyMemberId"] for member in three_members)
    _ana_record, ben_record, cleo_record = three_members

    def list_ids(**query):
        """The ids of the members that both surfaces list, which must be the same."""
        ids = [member["loyaltyMemberId"] for member in integration.get("/members", **query)["results"]]
        administration_members = administration.get("/members", **query)["results"]
        assert [member["loyaltyMemberId"] for member in administration_members] == ids
        return ids

    assert list_ids(email="ana@EXAMPLE.com") == [ana]
    assert list_ids(email="nobody@example.com") == []
    assert list_ids(loyaltyMemberId="ben") == [ben]
    assert list_ids(loyaltyMemberId="BEN") == []
    assert list_ids(govId="42") == [ben]
    assert list_ids(govId="30111222", email="ana@example.com") == [ana]
    assert list_ids(govId="30111222", email="ben@example.com") == []
    assert list_ids(order="loyaltyMemberId") == [ana, ben, cleo]
    assert list_ids(order="loyaltyMemberId,desc") == [cleo, ben, ana]
    assert list_ids(order="memberId,asc") == [ana, ben, cleo]
    assert list_ids(order="createdAt") == [ana, ben, cleo]
    assert list_ids(order="updatedAt,asc") == [ana, ben, cleo]
    # Cleo is the only inactive member, and the members of one type are ordered by id.
    assert list_ids(order="active")[0] == cleo
    assert list_ids(order="memberType,asc") == [ana, ben, cleo]
    creation_of_ben = ben_record["createdAt"]
    # The first moment is included, the last one is not.
    assert list_ids(fromCreatedAt=creation_of_ben) == [cleo, ben]
    assert list_ids(toCreatedAt=creation_of_ben) == [ana]
    assert list_ids(fromCreatedAt=creation_of_ben, toCreatedAt=cleo_record["createdAt"]) == [ben]
    # A moment without an offset is UTC; an offset is applied.
    assert list_ids(fromCreatedAt=creation_of_ben.removesuffix("Z")) == [cleo, ben]
    creation_with_offset = datetime.fromisoformat(creation_of_ben) + timedelta(hours=2)
    assert list_ids(fromCreatedAt=creation_with_offset.strftime("%Y-%m-%dT%H:%M:%S.%f+02:00")) == [cleo, ben]
    # Only the administration has the filter by wallet.
    wallet_id = ben_record["ledgerWalletId"]
    assert [member["loyaltyMemberId"] for member in administration.get("/members", walletId=wallet_id)["results"]] == [
        ben
    ]


def test_existing_members_are_returned_in_the_order_of_the_request(integration, other_organization, three_members):
    ana, _, cleo = three_members
    foreign_id = other_organization.member()["loyaltyMemberId"]
    ids = ["cleo.99", "nobody", foreign_id, "ana-7", "cleo.99"]
    response = integration.post("/members/exists", {"loyaltyMemberIds": ids}, expect=200)
    assert response == {
        "loyaltyMembers": [
            {"memberId": cleo["memberId"], "loyaltyMemberId": "cleo.99", "active": False},
            {"memberId": ana["memberId"], "loyaltyMemberId": "ana-7", "active": True},
        ]
    }
    problem = integration.post("/members/exists", {"loyaltyMemberIds": ["x"] * 1001}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/loyaltyMemberIds"]


def test_several_members_are_read_in_one_request(administration, other_organization, three_members):
    ana, ben, _ = (without_balances(member) for member in three_members)
    foreign_id = other_organization.member()["memberId"]
    ids = [ben["memberId"], foreign_id, ana["memberId"], 2**62, ben["memberId"]]
    response = administration.post("/members/batch-get", {"memberIds": ids}, expect=200)
    assert response == {"members": [ben, ana], "notFound": [foreign_id, 2**62]}


def test_a_search_returns_a_row_with_personal_data(organization, administration, three_members):
    ana = three_members[0]
    page = administration.get("/members/search", query="costa")
    tier = default_tier(organization)
    assert page == {
        "totalCount": 1,
        "page": 0,
        "limit": 100,
        "results": [
            {
                "organizationId": organization.id,
                "memberId": ana["memberId"],
                "loyaltyProgramId": tier["loyaltyProgramId"],
                "loyaltyTierId": tier["loyaltyTierId"],
                "loyaltyMemberId": "ana-7",
                "data": {
                    "phoneNumber": "+54 11 5555 0100",
                    "govId": ANA["profile"]["govId"],
                    "birthdate": "1990-04-12",
                    "locations": ["centre"],
                    "tags": ["barista-course"],
                    "publicLoyaltyMemberId": "BEAN-0007",
                    "ledgerWalletId": ana["ledgerWalletId"],
                },
                "name": "Ana María",
                "lastName": "Costa",
                "email": "Ana@Example.com",
                "active": True,
                "since": ana["createdAt"],
            }
        ],
    }


@pytest.mark.parametrize(
    ("words", "expected_ids"),
    [
        ("ana", ["ana-7"]),
        ("an", ["ben", "ana-7"]),
        ("ANA costa", ["ana-7"]),
        ("costa ana", ["ana-7"]),
        ("cost ana", []),
        ("María", ["ana-7"]),
        ("ana@example.com", ["ana-7"]),
        ("ana@exam", ["ana-7"]),
        ("example", ["ben", "ana-7"]),
        ("müll", ["ben"]),
        ("anders-müller", ["ben"]),
        ("ana-7", ["ana-7"]),
        ("7", ["ana-7"]),
        ("queen", ["cleo.99"]),
        ("cleo.9", ["cleo.99"]),
        ("!!!", []),
        ("'", []),
        ("ana & ! | costa:*", ["ana-7"]),
        ("\\ ana", ["ana-7"]),
        ("nobody", []),
    ],
)
def test_a_search_finds_whole_words_and_the_beginning_of_the_last_one(reading_administration, words, expected_ids):
    page = reading_administration.get("/members/search", query=words)
    assert [row["loyaltyMemberId"] for row in page["results"]] == expected_ids
    assert page["totalCount"] == len(expected_ids)


def test_a_search_finds_the_updated_name_and_not_the_old_one(integration, administration, three_members):
    integration.patch("/members/ben", {"profile": {"lastName": "Okafor"}, "emitEvent": False})
    assert administration.get("/members/search", query="müller")["results"] == []
    assert administration.get("/members/search", query="okaf")["totalCount"] == 1


def test_searches_are_filtered_and_ordered(organization, administration, three_members):
    ana, ben, cleo = (member["loyaltyMemberId"] for member in three_members)
    creation_of_ben = three_members[1]["createdAt"]

    def list_ids(**query):
        """The ids of the members that a search returns."""
        return [row["loyaltyMemberId"] for row in administration.get("/members/search", **query)["results"]]

    assert list_ids() == [cleo, ben, ana]
    assert list_ids(memberType="staff") == [cleo, ben]
    assert list_ids(memberType="staff", query="ben") == [ben]
    assert list_ids(channelAcquisition="web") == [ben]
    assert list_ids(sinceFrom=creation_of_ben) == [cleo, ben]
    assert list_ids(sinceTo=creation_of_ben) == [ana]
    for order in ("email", "since,asc", "memberId,asc", "loyaltyMemberId,asc"):
        assert list_ids(order=order) == [ana, ben, cleo], order
    assert list_ids(page=1, limit=2) == [ana]


def test_searches_are_filtered_by_program_and_tier(organization, other_organization, administration, three_members):
    first_tier = default_tier(organization)
    body = {"ledgerId": organization.defaults.ledger_id, "description": "Second", "setAsDefault": True}
    program = administration.post("/loyalty-programs", body)["loyaltyProgram"]["loyaltyProgramId"]
    tier_body = {"name": "New", "active": True, "minRequiredPoints": 0, "tierOrder": 1, "isDefault": True}
    new_tier = administration.post(f"/loyalty-programs/{program}/tiers", tier_body)["tier"]
    organization.member("dora")

    def list_rows(**query):
        """The ids of the member, the program and the tier of each row of a search."""
        rows = administration.get("/members/search", **query)["results"]
        return [(row["loyaltyMemberId"], row["loyaltyProgramId"], row["loyaltyTierId"]) for row in rows]

    dora = ("dora", program, new_tier["loyaltyTierId"])
    tiers_of_others = [
        (name, first_tier["loyaltyProgramId"], first_tier["loyaltyTierId"]) for name in ("cleo.99", "ben", "ana-7")
    ]
    # Without a filter the default program is shown, in which only Dora has a tier.
    assert list_rows() == [dora, *((name, None, None) for name, _, _ in tiers_of_others)]
    assert list_rows(loyaltyProgramId=program) == [dora]
    assert list_rows(loyaltyProgramId=first_tier["loyaltyProgramId"]) == tiers_of_others
    assert list_rows(loyaltyTierId=new_tier["loyaltyTierId"]) == [dora]
    assert list_rows(loyaltyTierKey=new_tier["loyaltyTierKey"]) == [dora]
    assert list_rows(loyaltyTierId=first_tier["loyaltyTierId"]) == tiers_of_others
    assert list_rows(loyaltyTierId=first_tier["loyaltyTierId"], loyaltyProgramId=program) == []
    assert list_rows(loyaltyTierId=first_tier["loyaltyTierId"], loyaltyTierKey=new_tier["loyaltyTierKey"]) == []
    assert list_rows(loyaltyTierKey=uuid.uuid4()) == []
    assert list_rows(loyaltyTierId=default_tier(other_organization)["loyaltyTierId"]) == []
    assert list_rows(loyaltyProgramId=other_organization.defaults.loyalty_program_id) == []


def test_the_tiers_of_a_member_in_a_program_are_listed(organization, other_organization, administration, ana):
    tier = default_tier(organization)
    address = f"/members/{ana['memberId']}/loyalty-programs/{tier['loyaltyProgramId']}/tiers"
    entry = {
        **tier,
        "organizationId": organization.id,
        "memberId": ana["memberId"],
        "createdAt": ana["createdAt"],
    }
    expected_page = {"totalCount": 1, "page": 0, "limit": 100, "results": [entry]}
    assert administration.get(address) == expected_page
    for order in ("loyaltyTierId", "createdAt,desc", "expiresAt,asc"):
        assert administration.get(address, order=order) == expected_page
    assert administration.get(address, page=1, limit=1) == {**expected_page, "page": 1, "limit": 1, "results": []}
    body = {"ledgerId": organization.defaults.ledger_id, "description": "Second", "setAsDefault": False}
    program = administration.post("/loyalty-programs", body)["loyaltyProgram"]["loyaltyProgramId"]
    empty_page = administration.get(f"/members/{ana['memberId']}/loyalty-programs/{program}/tiers")
    assert (empty_page["totalCount"], empty_page["results"]) == (0, [])
    foreign_program_id = other_organization.defaults.loyalty_program_id
    administration.get(f"/members/{ana['memberId']}/loyalty-programs/{foreign_program_id}/tiers", expect=404)
    problem = administration.get(address, order="memberId", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["order"]


def test_an_access_token_of_a_member_gives_no_access_to_operations_for_users(organization, api, integration, ana):
    response = integration.post("/members/ana-7/access-tokens")
    assert (response["tokenType"], response["expiresIn"]) == ("Bearer", 900)
    claims = jwt.decode(response["accessToken"], options={"verify_signature": False})
    assert (claims["loyaltyMemberId"], claims["organizationId"]) == ("ana-7", organization.id)
    assert claims["exp"] - claims["iat"] == 900
    assert abs(claims["iat"] - time.time()) < 60
    member_surface = integration.with_token(response["accessToken"])
    member_surface.get("/members/ana-7", expect=403)
    api.surface(f"/organizations/{organization.id}", response["accessToken"]).get("", expect=403)


def test_an_inactive_member_gets_no_token(integration, ana):
    integration.patch("/members/ana-7", {"active": False, "emitEvent": False})
    problem = integration.post("/members/ana-7/access-tokens", expect=409)
    assert problem["type"] == "/problems/member-inactive"


def test_the_number_of_statements_of_a_list_does_not_depend_on_the_number_of_members(
    api, organization, integration, administration
):
    calls = (
        lambda: integration.get("/members", limit=20),
        lambda: administration.get("/members/search", limit=20),
        lambda: administration.post("/members/batch-get", {"memberIds": ids}, expect=200),
    )
    ids = [organization.member()["memberId"] for _ in range(2)]
    counts_of_2_members = [count(api.engine, call) for call in calls]
    ids = [organization.member()["memberId"] for _ in range(10)]
    assert [count(api.engine, call) for call in calls] == counts_of_2_members
    assert max(counts_of_2_members) <= 4


def test_the_balances_on_which_tiers_depend_are_read_for_some_members_at_a_time(
    organization, administration, monkeypatch
):
    defaults, sizes = organization.defaults, []
    account = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False, "expiresInMonths": 12}
    administration.put(f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}", account)
    path = f"/loyalty-programs/{defaults.loyalty_program_id}"
    program = {"ledgerId": defaults.ledger_id, "description": "", "setAsDefault": True}
    administration.put(path, {**program, "tierPolicy": {"basis": "balance", "period": "lifetime"}})
    administration.post(f"{path}/tiers", {"name": "Gold", "active": True, "minRequiredPoints": 10, "tierOrder": 2})
    ids = [organization.member()["memberId"] for _ in range(5)]
    original = ledger_wallets.find_balances_of_wallets

    def find_balances(db, organization_id, wallet_ids, *arguments):
        sizes.append(len(wallet_ids))
        return original(db, organization_id, wallet_ids, *arguments)

    monkeypatch.setattr(ledger_wallets, "find_balances_of_wallets", find_balances)
    monkeypatch.setattr(member_operations, "_VIEWED_AT_ONCE", 2)
    records = administration.post("/members/batch-get", {"memberIds": ids}, expect=200)["members"]
    assert [record["memberId"] for record in records] == ids
    assert sizes == [2, 2, 1]


def test_moments_are_returned_in_utc(ana):
    assert ana["createdAt"].endswith("Z")
    assert abs(datetime.fromisoformat(ana["createdAt"]) - datetime.now(UTC)) < timedelta(minutes=1)
