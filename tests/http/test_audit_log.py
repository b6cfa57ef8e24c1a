"""The audit log: every change leaves an entry with who, what and why, and the log cannot be altered."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from handlers.operation import all_operations
from handlers.server.jobs import seal_audit_log
from handlers.services.organizations.reset import reset_credentials
from handlers.services.verify import verify
from persistence import transactions
from tests.builders.audited_calls import HEADER, SECRET, make_all
from tests.builders.statements import count_statements
from tests.builders.users import Users, new_email


@pytest.fixture(scope="module")
def busy_organization(api):
    """An organization in which every audited operation was called."""
    organization = api.organization(environment="test")
    make_all(organization)
    return organization


def entries_of(organization, **filters):
    """The entries of all pages, newest first by default."""
    page, entries = 0, []
    while results := organization.administration.get("/audit-log", page=page, **filters)["results"]:
        entries, page = entries + results, page + 1
    return entries


def test_every_audited_operation_leaves_entries(busy_organization):
    audited_operations = {name for name, operation in all_operations().items() if operation.audit is not None}
    assert {entry["operationId"] for entry in entries_of(busy_organization)} == audited_operations


def test_an_entry_says_who_changed_what_and_why(organization):
    ana = organization.member("ana-7", profile={"name": "Ana", "city": "Rosario"})
    changes = {"profile": {"city": "Lima"}, "active": False, "updateReason": "Moved house", "emitEvent": False}
    reply = organization.integration.request("PATCH", "/members/ana-7", changes, headers={"X-Request-Id": "r-1"})
    assert reply.status == 200
    [entry] = organization.administration.get("/audit-log", operationId="updateMember")["results"]
    assert entry["changes"] == {
        "active": {"from": True, "to": False},
        "profile.city": {"from": "Rosario", "to": "Lima"},
    }
    assert (entry["actor"], entry["userId"], entry["surface"]) == ("operator", None, "integration")
    assert len(entry["tokenId"]) == 16
    assert (entry["requestId"], entry["reason"], entry["isErased"]) == ("r-1", "Moved house", False)
    assert (entry["entityType"], entry["entityId"]) == ("member", str(ana["memberId"]))
    assert entry["memberIds"] == [ana["memberId"]]


def test_an_entry_has_the_old_and_the_new_value_and_a_creation_has_null_as_the_old_one(busy_organization):
    # `make_all` has created the badge Early bird, and renamed it to Lark.
    [entry] = entries_of(busy_organization, operationId="createBadge")
    assert entry["changes"]["name"] == {"from": None, "to": "Early bird"}
    [entry] = entries_of(busy_organization, operationId="updateBadge")
    assert entry["changes"] == {"name": {"from": "Early bird", "to": "Lark"}}


def test_secrets_and_headers_are_never_shown(busy_organization, db):
    # `make_all` has created a trigger with SECRET, and added the header X-Key with the value HEADER.
    [creation, update] = entries_of(busy_organization, entityType="trigger", order="auditLogId,asc")
    assert creation["changes"]["settings"]["to"]["secret"] == "(not shown)"
    assert update["changes"]["settings.headers.X-Key"] == {"from": None, "to": "(not shown)"}
    rows = db.execute(
        text("SELECT CAST(a AS text) FROM audit_log a WHERE organization_id = :o"), {"o": busy_organization.id}
    )
    log_text = "".join(rows.scalars())
    assert HEADER not in log_text
    assert SECRET not in log_text


def test_entries_can_be_filtered(busy_organization):
    entries = entries_of(busy_organization)
    partners = [entry for entry in entries if entry["actor"].startswith("partner-api-key:")]
    assert {partner["operationId"] for partner in partners} == {
        "createPartnerAPaymentIntent",
        "createPartnerBPaymentIntent",
    }
    assert entries_of(busy_organization, actor="operator") == [entry for entry in entries if entry not in partners]
    assert entries_of(busy_organization, actor=partners[0]["actor"]) == partners[:1]
    assert entries_of(busy_organization, actor="nobody") == entries_of(busy_organization, userId=1) == []
    assert {entry["entityType"] for entry in entries_of(busy_organization, entityType="coupon-usage")} == {
        "coupon-usage"
    }
    # Any entry that is not at an end of the log.
    sample = entries[5]
    assert sample in entries_of(busy_organization, entityType=sample["entityType"], entityId=sample["entityId"])
    entries_of_request = [entry for entry in entries if entry["requestId"] == sample["requestId"]]
    assert entries_of(busy_organization, requestId=sample["requestId"]) == entries_of_request
    # `make_all` creates Ana, then Ben, then a member who is erased; entries are newest first.
    _, ben_creation, _ = [entry for entry in entries if entry["operationId"] == "createMember"]
    [ben_id] = ben_creation["memberIds"]
    about_ben = entries_of(busy_organization, memberId=ben_id)
    assert about_ben == [entry for entry in entries if ben_id in entry["memberIds"]]
    expected_operations = {"createMember", "createReferralCodes", "createLedgerTransaction", "revertLedgerTransaction"}
    assert {entry["operationId"] for entry in about_ben} == expected_operations
    later_entries = entries_of(busy_organization, fromCreatedAt=sample["createdAt"])
    assert later_entries == [entry for entry in entries if entry["createdAt"] >= sample["createdAt"]]
    assert entries_of(busy_organization, toCreatedAt=sample["createdAt"]) == entries[len(later_entries) :]
    assert entries_of(busy_organization, order="createdAt,asc")[0] == entries[-1]


def test_a_repeated_request_leaves_one_entry(busy_organization):
    # Two of the requests have one systemUniqueKey and mint 100 points.
    mint_entries = entries_of(busy_organization, operationId="mintMemberPoints")
    assert [entry["changes"]["amount"]["to"] for entry in mint_entries].count(100) == 1
    # Two of the three requests have one systemUniqueKey.
    badge_entries = entries_of(busy_organization, operationId="assignBadge")
    assert len(badge_entries) == 2


def test_a_refused_request_leaves_no_entry(organization):
    organization.member("ana-7")
    organization.integration.post("/members", {"loyaltyMemberId": "ana-7"}, expect=409)
    # She has no points.
    organization.administration.post("/members/by-loyalty-member-id/ana-7/burn", {"amount": 5}, expect=409)
    assert [entry["operationId"] for entry in entries_of(organization)] == ["createMember"]


def test_only_administrators_of_the_organization_can_read_the_log(organization, other_organization):
    other_organization.member()
    assert entries_of(organization) == []
    organization.administration.with_token(organization.token_of("members:write")).get("/audit-log", expect=403)
    organization.administration.with_token(other_organization.token).get("/audit-log", expect=403)


def test_entries_of_a_batch_take_one_statement(organization):
    ana = organization.member("ana-7")
    mint = {
        "amount": 1,
        "fromWalletId": None,
        "toWalletId": ana["ledgerWalletId"],
        "ledgerAccountId": organization.defaults.ledger_account_id,
    }
    with count_statements(organization.api.engine) as statements:
        organization.administration.post("/ledger-transactions/batch", {"items": [mint] * 20}, expect=200)
    assert len([statement for statement in statements if "audit_log" in statement]) == 1
    assert len(entries_of(organization, operationId="batchLedgerTransactions")) == 20


def test_tracked_events_leave_no_entries(organization):
    organization.member("ana-7")
    event = {"loyaltyMemberId": "ana-7", "systemUniqueKey": "e-1", "eventType": "member-login"}
    with count_statements(organization.api.engine) as statements:
        organization.integration.post("/events/track", {"events": [event]}, expect=200)
    # Calls that change audited records are serialized by an advisory lock.
    assert not [statement for statement in statements if "audit_log" in statement or "advisory" in statement]


def test_entries_of_documents_have_the_old_and_the_new_values(organization):
    body = {"name": "Offers", "description": "What there is", "contentType": "static"}
    slug = organization.integration.post("/content/collections", body)["collection"]["slug"]
    path = f"/content/collections/{slug}/documents"
    key = str(uuid.uuid4())
    draft = {"attrs": {"title": "Mug", "price": 5}, "status": "draft"}
    organization.integration.put(f"{path}/{key}/locales/en", draft, expect=200)
    changes = {"attrs": {"title": "Mug", "price": 4}, "status": "published"}
    organization.integration.patch(f"{path}/{key}", changes, locale="en")
    organization.integration.delete(f"{path}/{key}", locale="en", expect=200)
    creation, update, deletion = (entry["changes"] for entry in entries_of(organization, order="auditLogId,asc")[-3:])
    assert creation["attrs"] == {"from": None, "to": {"title": "Mug", "price": 5}}
    assert creation["status"] == {"from": None, "to": "draft"}
    assert update == {"attrs.price": {"from": 5, "to": 4}, "status": {"from": "draft", "to": "published"}}
    assert deletion == {"deleted": {"from": None, "to": True}}


def test_a_change_of_the_default_leaves_entries_about_the_new_and_the_former_default(organization):
    surface = organization.administration

    def new_values(field):
        """The value of the field after the last request, by the id of each record on which it changed."""
        entries = entries_of(organization)
        last_entries = [entry for entry in entries if entry["requestId"] == entries[0]["requestId"]]
        return {entry["entityId"]: entry["changes"][field]["to"] for entry in last_entries if field in entry["changes"]}

    [program] = surface.get("/loyalty-programs")["loyaltyPrograms"]
    path, program_id = f"/loyalty-programs/{program['loyaltyProgramId']}", str(program["loyaltyProgramId"])
    [former_tier] = surface.get(f"{path}/tiers")["results"]
    tier = {"name": "Gold", "minRequiredPoints": 5, "tierOrder": 2, "active": True, "isDefault": True}
    # A new default tier, and the former one again.
    gold = surface.post(f"{path}/tiers", tier)["tier"]
    assert new_values("isDefault") == {str(gold["loyaltyTierId"]): True, str(former_tier["loyaltyTierId"]): False}
    settings = {"ledgerId": program["ledgerId"], "description": "Club", "setAsDefault": False}
    surface.put(path, {**settings, "defaultTierId": former_tier["loyaltyTierId"]}, expect=200)
    assert new_values("isDefault") == {str(gold["loyaltyTierId"]): False, str(former_tier["loyaltyTierId"]): True}
    # A new default program, and the former one again.
    club = surface.post("/loyalty-programs", {**settings, "setAsDefault": True})["loyaltyProgram"]
    club_id = str(club["loyaltyProgramId"])
    assert new_values("setAsDefault") == {club_id: True, program_id: False}
    defaults = {"defaultLocale": "en", "defaultLoyaltyProgramId": program["loyaltyProgramId"]}
    surface.put("", defaults, expect=200)
    assert new_values("setAsDefault") == {club_id: False, program_id: True}
    # A new default account, and the former one again.
    accounts = f"/ledgers/{program['ledgerId']}/accounts"
    [points] = surface.get(accounts)["results"]
    points_id = str(points["ledgerAccountId"])
    account = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    stars = {**account, "alias": "stars", "isDefaultAccount": True}
    stars_id = str(surface.post(accounts, stars)["ledgerAccount"]["ledgerAccountId"])
    assert new_values("isDefaultAccount") == {stars_id: True, points_id: False}
    surface.put(f"{accounts}/{points_id}", {**account, "isDefaultAccount": True}, expect=200)
    assert new_values("isDefaultAccount") == {stars_id: False, points_id: True}


@pytest.mark.slow
def test_entries_about_new_passwords_do_not_contain_them(organization, db):
    users = Users.of(organization)
    ana = users.person()
    api_user = users.create()
    for permanent in (False, True):
        users.surface.put(f"/users/{ana['userId']}/password", {"password": SECRET, "permanent": permanent}, expect=204)
    hidden = {"from": "(not shown)", "to": "(not shown)"}
    temporary_password, permanent_password = (
        entry["changes"] for entry in entries_of(organization, operationId="resetUserPassword")[::-1]
    )
    assert temporary_password == {"password": hidden, "passwordIsTemporary": {"from": False, "to": True}}
    assert permanent_password == {"password": hidden, "passwordIsTemporary": {"from": True, "to": False}}
    # An operator can reset the credentials of a user by a command, too.
    now = datetime.now(UTC)
    transactions.run(
        organization.api.engine, lambda db: reset_credentials(db, organization.id, api_user["authClientId"], now)
    )
    [entry] = entries_of(organization, operationId="resetCredentials")
    assert (entry["actor"], entry["entityType"], entry["entityId"]) == ("operator", "user", str(api_user["userId"]))
    assert (entry["surface"], entry["requestId"]) == (None, None)
    assert entry["changes"] == {"password": hidden}


def test_users_added_in_bulk_leave_the_same_entries_as_users_created_individually(organization):
    users = Users.of(organization)
    group = users.group(roles=["members:read"])
    permissions = {"isAdmin": False, "roles": ["orders:read"], "permissionGroupKeys": [group["permissionGroupKey"]]}
    email = new_email()
    users.surface.post("/users/bulk-add", {"emails": [email], "sendInvite": False, **permissions}, expect=200)
    users.create(email=new_email(), pendingProvisioning=True, **permissions)
    [bulk_entry] = entries_of(organization, operationId="bulkAddUsers")
    [individual_entry] = entries_of(organization, operationId="createUser")
    assert bulk_entry["changes"]["email"] == {"from": None, "to": email}
    individual_fields = {"name", "email", "authClientId"}
    assert bulk_entry["changes"].keys() == individual_entry["changes"].keys()
    for name in bulk_entry["changes"].keys() - individual_fields:
        assert bulk_entry["changes"][name] == individual_entry["changes"][name], name


def test_concurrent_changes_are_reported_in_the_order_of_their_effect(organization):
    badge = organization.integration.post("/badges", {"name": "0", "maxAmount": 9, "active": True})["badge"]

    def rename(number):
        organization.integration.patch(f"/badges/{badge['badgeKey']}", {"name": str(number)})

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(rename, range(1, 13)))
    changes = [entry["changes"]["name"] for entry in entries_of(organization, order="auditLogId,asc")]
    # The creation and the 12 changes.
    assert len(changes) == 1 + 12
    # The old name in each entry is the new name in the entry before it.
    assert [change["from"] for change in changes[1:]] == [change["to"] for change in changes[:-1]]


def find_tampering(organization, statement):
    """Change the stored log past its guards; return what `verify` finds, and roll the change back."""
    with organization.api.engine.connect() as db:
        transaction = db.begin()
        db.execute(text("SET LOCAL session_replication_role = replica"))
        assert db.execute(text(statement), {"o": organization.id}).rowcount
        findings = verify(db, organization.id)
        transaction.rollback()
    return findings


@pytest.fixture(scope="module")
def sealed_log(busy_organization):
    """The busy organization with several intact seals, and a last entry that is not sealed yet."""
    while seal_audit_log(busy_organization.api.engine, busy_organization.id):
        pass
    organization_id = busy_organization.id
    # A seal of one entry, and one more entry.
    busy_organization.integration.patch("/members/ana-7", {"profile": {"city": "Quito"}})
    seal_audit_log(busy_organization.api.engine, organization_id)
    busy_organization.integration.patch("/members/ana-7", {"profile": {"city": "Cusco"}})
    with busy_organization.api.engine.connect() as db:
        assert verify(db, organization_id) == []
    return busy_organization


# Conditions of SQL that only one entry fulfils.
FIRST_ENTRY = "audit_log_id = (SELECT min(audit_log_id) FROM audit_log WHERE organization_id = :o)"
LAST_ENTRY = "audit_log_id = (SELECT max(audit_log_id) FROM audit_log WHERE organization_id = :o)"


@pytest.mark.undistributed
@pytest.mark.parametrize(
    ("statement", "expected_text"),
    [
        (f"UPDATE audit_log SET actor = 'somebody' WHERE {FIRST_ENTRY}", "was changed"),
        (f"UPDATE audit_log SET created_at = '2020-01-01' WHERE {FIRST_ENTRY}", "was changed"),
        (f"UPDATE audit_log SET changes = '{{}}' WHERE {FIRST_ENTRY}", "was changed"),
        (f"UPDATE audit_log SET reason = 'another' WHERE {LAST_ENTRY}", "was changed"),
        (f"UPDATE audit_log SET salt = NULL WHERE {FIRST_ENTRY}", "was changed"),
        (f"DELETE FROM audit_log WHERE {FIRST_ENTRY}", "is missing"),
        (f"UPDATE audit_log SET digest = sha256('forged') WHERE {FIRST_ENTRY}", "its hash is not that of its entries"),
        ("UPDATE audit_log_seals SET hash = sha256('') WHERE seal_number = 1 AND organization_id = :o", "hash"),
        # The second seal contains the hash of the first.
        ("DELETE FROM audit_log_seals WHERE seal_number = 1 AND organization_id = :o", "does not follow"),
        ("DELETE FROM audit_log_seals WHERE seal_number = 2 AND organization_id = :o", "is 0 times in a seal"),
        # The last entry is not sealed yet.
        (f"DELETE FROM unsealed_audit_log WHERE {LAST_ENTRY}", "is 0 times in a seal"),
    ],
)
def test_tampering_is_found(sealed_log, statement, expected_text):
    findings = find_tampering(sealed_log, statement)
    assert any(expected_text in finding for finding in findings)


def test_every_entry_is_in_exactly_one_seal(sealed_log, db):
    seal_audit_log(sealed_log.api.engine, sealed_log.id)
    sealed_ids = db.execute(
        text("SELECT unnest(audit_log_ids) FROM audit_log_seals WHERE organization_id = :o"), {"o": sealed_log.id}
    )
    entry_ids = db.execute(text("SELECT audit_log_id FROM audit_log WHERE organization_id = :o"), {"o": sealed_log.id})
    assert sorted(sealed_ids.scalars()) == sorted(entry_ids.scalars())


def test_long_values_are_left_out_of_an_entry_with_long_changes(organization):
    # 400 texts of 200 characters.
    tags = [f"{number:04}{'a' * 196}" for number in range(400)]
    body = {"name": "Long", "active": True, "matcherType": "attribute-matcher", "matcher": {"tags": tags}}
    organization.administration.post("/audiences", body, expect=201)
    [entry] = entries_of(organization, operationId="createAudience")
    assert entry["changes"]["matcher"] == {"from": None, "to": "(too long)"}
    assert entry["changes"]["name"] == {"from": None, "to": "Long"}
    organization.administration.post("/audiences", {**body, "matcher": {"tags": tags[:100]}}, expect=201)
    entry = entries_of(organization, operationId="createAudience")[0]
    assert entry["changes"]["matcher"]["to"]["tags"] == tags[:100]


def test_an_entry_with_very_many_changes_has_only_the_fields_of_the_record(organization):
    def attributes(value):
        """20 groups of 150 attributes that have the value."""
        return {f"group{group}": {f"k{n}": value for n in range(150)} for group in range(20)}

    member = organization.member("m-1", customAttributes=attributes(0))
    organization.integration.patch("/members/m-1", {"customAttributes": attributes(1)})
    entry = entries_of(organization, operationId="updateMember")[0]
    assert (entry["entityId"], entry["changes"]) == (
        str(member["memberId"]),
        {"customAttributes": {"from": "(too long)", "to": "(too long)"}},
    )
