"""Users and permission groups over HTTP: records, lists, permissions, passwords, and many at once."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import jwt
import pytest
from argon2 import PasswordHasher
from sqlalchemy import select, update

from handlers.services import passwords
from persistence import transactions
from persistence.tables.organizations import users as users_table
from persistence.tables.triggers import trigger_deliveries
from tests.builders.statements import count_statements
from tests.builders.triggers import add_trigger
from tests.builders.users import PASSWORD, Users, new_email, user_body


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch):
    """The real Argon2 at a low cost."""
    monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=64))


@pytest.fixture
def users(organization):
    return Users.of(organization)


def claims_of(reply):
    """The claims of the access token of a reply."""
    return jwt.decode(reply.json["access_token"], options={"verify_signature": False})


def names(users, **query):
    """The names of the listed users, in the order of the alphabet unless the query has another."""
    return [result["name"] for result in users.surface.get("/users", **{"order": "name", **query})["results"]]


def deliveries_of(users, trigger):
    """The stored deliveries of a trigger, oldest first, with the fields that no response shows."""
    table = trigger_deliveries
    query = select(table).where(table.c.trigger_id == trigger["triggerId"]).order_by(table.c.trigger_delivery_id)
    with users.organization.api.engine.connect() as db:
        return db.execute(query).all()


class TestRecords:
    def test_an_api_user_is_created_and_read(self, users):
        body = user_body(name="Till 4", nickname="4", roles=["orders:write", "orders:read"], userName="till")
        response = users.surface.post("/users", body)
        assert response["password"].startswith("lsk_")
        # The prefix and 32 bytes in base64.
        assert len(response["password"]) == 4 + 43
        user = response["user"]
        assert user == {
            "userId": user["userId"],
            "name": "Till 4",
            "nickname": "4",
            "profilePictureUrl": None,
            "userName": "till",
            "email": None,
            "emailIsVerified": False,
            "authClientId": body["authClientId"],
            "active": True,
            "isSystemAdmin": False,
            "isApiUser": True,
            "isExternal": False,
            "pendingProvisioning": False,
            "passwordIsTemporary": False,
            "organizations": [
                {
                    "organizationId": users.organization.id,
                    "isAdmin": False,
                    "roles": ["orders:write"],
                    "inlineIsAdmin": False,
                    "inlineRoles": ["orders:write"],
                }
            ],
            "permissionGroupKeys": [],
            "createdAt": user["createdAt"],
            "updatedAt": user["createdAt"],
        }
        assert users.read(user) == user
        assert users.sign_in({**user, "password": response["password"]}).json["scope"] == "orders:write"

    def test_a_person_with_a_given_password_signs_in(self, users):
        ana = users.person(profilePictureUrl="https://x.example/a.png", emailIsVerified=True, isAdmin=True)
        assert (ana["isApiUser"], ana["passwordIsTemporary"], ana["password"]) == (False, False, PASSWORD)
        assert (ana["profilePictureUrl"], ana["emailIsVerified"]) == ("https://x.example/a.png", True)
        assert claims_of(users.sign_in(ana))["isAdmin"] is True

    def test_only_generated_passwords_have_a_fast_hash(self, users, db):
        generated_user, chosen_user = users.create(), users.create(password=PASSWORD)
        query = select(users_table.c.password_hash).where(
            users_table.c.user_id.in_([generated_user["userId"], chosen_user["userId"]])
        )
        hashes = list(db.scalars(query))
        # Hashes are such as sha256:... and $argon2id$...
        assert len(hashes) == 2
        assert sum("$argon2id$" in password_hash for password_hash in hashes) == 1
        assert sum(password_hash.startswith("sha256:") for password_hash in hashes) == 1

    @pytest.mark.parametrize(
        ("fields", "pointer"),
        [
            ({"password": "short"}, "/password"),
            ({"password": "password1234"}, "/password"),
            ({"password": "Corner Coffee Till", "name": "Corner Coffee Till"}, "/password"),
            ({"password": "lsk_abcdefghijklmnopq"}, "/password"),
            ({"password": "x" * 129}, "/password"),
            ({"passwordIsTemporary": True}, "/passwordIsTemporary"),
            ({"sendInvite": True}, "/sendInvite"),
            ({"isExternal": True, "password": PASSWORD}, "/password"),
            ({"email": "no address"}, "/email"),
            ({"roles": ["members:delete"]}, "/roles/0"),
            ({"authClientId": " x"}, "/authClientId"),
        ],
    )
    def test_an_invalid_user_is_refused_with_the_field(self, users, fields, pointer):
        problem = users.surface.post("/users", user_body(**fields), expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]

    def test_client_ids_and_addresses_are_unique_in_an_organization(self, users, other_organization):
        ana = users.person()
        same_client_id = user_body(authClientId=ana["authClientId"])
        assert users.surface.post("/users", same_client_id, expect=409)["type"] == "/problems/user-exists"
        same_address = user_body(email=ana["email"].upper(), password=PASSWORD)
        assert users.surface.post("/users", same_address, expect=409)["type"] == "/problems/user-exists"
        # The response does not reveal whether another organization has the address.
        Users.of(other_organization).create(email=ana["email"])

    def test_the_client_id_of_a_removed_user_is_free_again(self, users):
        till = users.create(roles=["members:read"])
        token = users.token(till)
        users.surface.delete(f"/users/{till['userId']}")
        new_till = users.create(authClientId=till["authClientId"], roles=["members:read"])
        assert new_till["userId"] != till["userId"]
        users.sign_in(till, expect=401)
        users.organization.api.surface(token=token).get("/members", expect=401)
        users.organization.api.surface(token=users.token(new_till)).get("/members")

    def test_users_of_other_organizations_are_not_found(self, users, other_organization):
        foreign_user = Users.of(other_organization).person()
        path = f"/users/{foreign_user['userId']}"
        users.surface.get(path, expect=404)
        users.surface.delete(path, expect=404)
        users.surface.put(path, {"organizations": []}, expect=404)
        users.surface.put(f"{path}/password", {"password": PASSWORD}, expect=404)


class TestLists:
    def test_users_are_filtered(self, users):
        ana = users.person(name="Ana", userName="ana", nickname="Nina")
        users.person(name="Bob", active=False)
        users.create(name="Till", authClientId=f"Till_{ana['userId']}%")
        users.create(name="Sue", isExternal=True, email=new_email())
        # A new organization has an administrator and an API user.
        assert names(users) == ["Administrator", "Ana", "Bob", "Sue"]
        assert names(users, includeAPIUsers=True) == ["API user", "Administrator", "Ana", "Bob", "Sue", "Till"]
        assert names(users, includeCognitoUsers=False) == ["Administrator", "Ana", "Bob"]
        assert names(users, email=ana["email"].upper()) == ["Ana"]
        assert names(users, userName="ana") == ["Ana"]
        assert names(users, authClientId=ana["authClientId"]) == ["Ana"]
        assert names(users, active=False) == ["Bob"]
        assert names(users, active=True, search="Bob") == []
        assert names(users, search="NIN") == ["Ana"]
        assert names(users, search=f"_{ana['userId']}%", includeAPIUsers=True) == ["Till"]
        assert names(users, search="%") == []
        assert names(users, organizationId=users.organization.id, search="sue") == ["Sue"]
        page = users.surface.get("/users", limit=2, page=1, order="name,desc")
        assert (page["totalCount"], [result["name"] for result in page["results"]]) == (4, ["Ana", "Administrator"])

    def test_an_organization_gets_no_second_user_with_an_address(self, users, other_organization):
        system, foreign_users = users.by(users.system_token()), Users.of(other_organization)
        email = new_email()
        ana, foreign_user = users.person(email=email), foreign_users.person(email=email.upper(), name="Other")
        body = {"organizations": [{"organizationId": other_organization.id, "isAdmin": True, "roles": []}]}
        problem = system.surface.put(f"/users/{ana['userId']}", body, expect=409)
        assert problem["type"] == "/problems/user-exists"
        detail = f"Organization {other_organization.id} already has a user with the email address {email}."
        assert problem["detail"] == detail
        [user_with_address] = foreign_users.surface.get("/users", email=email)["results"]
        assert user_with_address["userId"] == foreign_user["userId"]
        # After the address is free, ana becomes a user of both organizations, and the request can be repeated.
        foreign_users.surface.delete(f"/users/{foreign_user['userId']}")
        for _ in range(2):
            system.surface.put(f"/users/{ana['userId']}", body)
        [user_with_address] = foreign_users.surface.get("/users", email=email)["results"]
        assert user_with_address["userId"] == ana["userId"]

    def test_only_system_administrators_list_users_of_another_organization(self, users, other_organization):
        users.surface.get("/users", organizationId=other_organization.id, expect=403)
        system = users.by(users.system_token())
        ana = users.person(name="Shared")
        membership = {"organizationId": other_organization.id, "roles": ["members:read"]}
        shared_user = system.surface.put(f"/users/{ana['userId']}", {"organizations": [membership]})["user"]
        organization_ids = {membership["organizationId"] for membership in shared_user["organizations"]}
        assert organization_ids == {users.organization.id, other_organization.id}
        assert names(system, organizationId=other_organization.id) == ["Shared"]
        # Other users see only their own organization.
        assert len(users.read(ana)["organizations"]) == 1
        other_token = users.token(ana, organization_id=str(other_organization.id))
        users.organization.api.surface(f"/organizations/{other_organization.id}", other_token).get("/members")
        users.sign_in(ana, organization_id=str(10**15), expect=401)
        users.sign_in(ana, organization_id="1x", expect=400)

    @pytest.mark.parametrize("query", [{"order": "password"}, {"limit": 101}, {"search": ""}, {"roles": "x"}])
    def test_an_invalid_query_of_the_list_is_refused(self, users, query):
        problem = users.surface.get("/users", expect=400, **query)
        assert [fault["parameter"] for fault in problem["errors"]] == list(query)


class TestChanges:
    def test_missing_fields_keep_their_values(self, users):
        group = users.group(roles=["tiers:read"])
        ana = users.person(roles=["members:read"], permissionGroupKeys=[group["permissionGroupKey"]], nickname="An")
        path = f"/users/{ana['userId']}"
        ignored_fields = {"email": "other@x.example", "userName": "other", "authClientId": "other"}
        user = users.surface.put(path, {"organizations": [], "name": "Ana S.", **ignored_fields})["user"]
        expected_user = {**users.read(ana), "name": "Ana S."}
        assert user == expected_user
        assert (user["email"], user["nickname"]) == (ana["email"], "An")
        assert users.surface.put(path, {"organizations": [], "nickname": None})["user"]["nickname"] is None
        this_organization = {"organizationId": users.organization.id}
        [membership] = users.surface.put(path, {"organizations": [this_organization]})["user"]["organizations"]
        assert membership["inlineRoles"] == ["members:read"]
        changed_membership = {**this_organization, "roles": ["orders:read"]}
        [membership] = users.surface.put(path, {"organizations": [changed_membership]})["user"]["organizations"]
        # The role of the group is added.
        assert (membership["inlineRoles"], membership["roles"]) == (["orders:read"], ["orders:read", "tiers:read"])
        user = users.surface.put(path, {"organizations": [], "permissionGroupKeys": []})["user"]
        assert user["permissionGroupKeys"] == []
        assert users.surface.put(path, {"organizations": [], "active": False})["user"]["active"] is False
        problem = users.surface.put(path, {"organizations": [this_organization, this_organization]}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/organizations"]

    def test_a_user_has_inline_permissions_and_those_of_groups(self, users):
        lead = users.group(roles=["orders:write", "tiers:read"])
        admin = users.group(isAdmin=True)
        till = users.create(roles=["orders:read"])
        path, key = f"/users/{till['userId']}/permissions", lead["permissionGroupKey"]

        def permissions_of(user):
            """(is administrator, roles, inline roles) of a user."""
            [membership] = user["organizations"]
            return membership["isAdmin"], membership["roles"], membership["inlineRoles"]

        user = users.surface.put(path, {"permissionGroupKeys": [key]})["user"]
        assert permissions_of(user) == (False, ["orders:write", "tiers:read"], ["orders:read"])
        assert users.sign_in(till).json["scope"] == "orders:write tiers:read"
        # Inline roles are replaced, the group stays; a write role includes the read role.
        user = users.surface.put(path, {"isAdmin": False, "roles": ["members:write", "members:read"]})["user"]
        assert permissions_of(user) == (False, ["members:write", "orders:write", "tiers:read"], ["members:write"])
        assert user["permissionGroupKeys"] == [key]
        users.surface.put(path, {"permissionGroupKeys": [admin["permissionGroupKey"]]})
        assert users.sign_in(till).json["scope"] == "admin members:write"
        problem = users.surface.put(path, {"permissionGroupKeys": ["nobody"]}, expect=404)
        assert problem["type"] == "/problems/unknown-permission-group"

    @pytest.mark.parametrize(
        ("body", "missing_fields"),
        [
            ({}, ["isAdmin", "roles"]),
            ({"isAdmin": False}, ["roles"]),
            ({"roles": []}, ["isAdmin"]),
            ({"permissionGroupKeys": []}, ["isAdmin", "roles"]),
        ],
    )
    def test_incomplete_permissions_are_refused_with_the_missing_fields(self, users, body, missing_fields):
        path = f"/users/{users.create()['userId']}/permissions"
        problem = users.surface.put(path, body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/{name}" for name in missing_fields]

    def test_a_group_is_created_without_roles_that_another_role_includes(self, users):
        group = users.group(permissionGroupKey="shift-leads", name="Leads", roles=["orders:read", "orders:write"])
        assert group == {
            "organizationId": users.organization.id,
            "permissionGroupId": group["permissionGroupId"],
            "permissionGroupKey": "shift-leads",
            "name": "Leads",
            "description": None,
            "isAdmin": False,
            "roles": ["orders:write"],
            "createdAt": group["createdAt"],
            "updatedAt": group["createdAt"],
        }

    def test_groups_are_listed_in_the_order_of_the_request(self, users):
        users.group(permissionGroupKey="shift-leads")
        users.group(permissionGroupKey="admins", isAdmin=True)
        page = users.surface.get("/permission-groups", order="permissionGroupKey")
        assert [result["permissionGroupKey"] for result in page["results"]] == ["admins", "shift-leads"]

    def test_two_groups_cannot_have_the_same_key(self, users):
        users.group(permissionGroupKey="shift-leads")
        duplicate = {"permissionGroupKey": "shift-leads", "name": "x"}
        assert users.surface.post("/permission-groups", duplicate, expect=409)["type"] == "/problems/name-taken"

    def test_an_update_of_a_group_changes_only_the_fields_that_it_sends(self, users):
        group = users.group(permissionGroupKey="shift-leads", roles=["orders:write"])
        updated_group = users.surface.put("/permission-groups/shift-leads", {"description": "x"})["permissionGroup"]
        assert updated_group == {**group, "description": "x", "updatedAt": updated_group["updatedAt"]}
        response = users.surface.put("/permission-groups/shift-leads", {"description": None, "roles": []})
        assert (response["permissionGroup"]["description"], response["permissionGroup"]["roles"]) == (None, [])

    def test_an_update_of_an_unknown_group_is_a_404(self, users):
        users.surface.put("/permission-groups/nobody", {}, expect=404)

    def test_a_group_can_be_deleted_only_when_no_user_is_in_it(self, users):
        group = users.group(permissionGroupKey="shift-leads", roles=["orders:read"])
        path = "/permission-groups/shift-leads"
        ana, bob = (users.person(permissionGroupKeys=["shift-leads"]) for _ in range(2))
        problem = users.surface.delete(path, expect=409)
        assert problem["type"] == "/problems/permission-group-in-use"
        assert problem["detail"] == "The permission group shift-leads has 2 users."
        users.surface.delete(f"/users/{ana['userId']}")
        assert users.surface.delete(path, expect=409)["detail"].endswith("has 1 user.")
        no_permissions = {"isAdmin": False, "roles": [], "permissionGroupKeys": []}
        users.surface.put(f"/users/{bob['userId']}/permissions", no_permissions)
        users.surface.delete(path)
        assert users.surface.get("/permission-groups")["results"] == []
        users.surface.delete(path, expect=404)
        new_group = users.group(permissionGroupKey="shift-leads")
        assert new_group["permissionGroupId"] != group["permissionGroupId"]

    def test_only_administrators_delete_a_group_of_administrators(self, users):
        users.group(permissionGroupKey="admins", isAdmin=True)
        manager = users.by(users.organization.token_of("users:write")).surface
        problem = manager.delete("/permission-groups/admins", expect=403)
        assert problem["type"] == "/problems/permission-not-held"
        users.surface.delete("/permission-groups/admins")


class TestPasswords:
    def test_a_temporary_password_has_to_be_changed(self, users):
        ana = users.create(name="Ana", email=new_email(), pendingProvisioning=True, roles=["members:read"])
        assert ana["passwordIsTemporary"]
        reply = users.sign_in(ana, expect=403)
        assert reply.json["type"] == reply.json["error_uri"] == "/problems/password-change-required"
        assert reply.json["error"] == "invalid_grant"
        for weak_password in ("short", "password1234", ana["password"]):
            reply = users.sign_in(ana, new_password=weak_password, expect=400)
            assert reply.json["error"] == "invalid_request"
        assert users.read(ana)["pendingProvisioning"]
        assert users.sign_in(ana, new_password=PASSWORD).json["scope"] == "members:read"
        current_user = users.read(ana)
        assert (current_user["passwordIsTemporary"], current_user["pendingProvisioning"]) == (False, False)
        # The temporary password ends with the change.
        users.sign_in(ana, expect=401)
        users.sign_in({**ana, "password": PASSWORD})

    def test_an_expired_temporary_password_is_refused(self, users):
        ana = users.create(email=new_email())
        a_second_ago = datetime.now(UTC) - timedelta(seconds=1)

        def expire(db):
            statement = update(users_table).where(users_table.c.user_id == ana["userId"])
            db.execute(statement.values(password_expires_at=a_second_ago))

        transactions.run(users.organization.api.engine, expire)
        users.sign_in(ana, expect=401)
        users.sign_in(ana, new_password=PASSWORD, expect=401)

    def test_a_person_who_changes_the_password_ends_earlier_tokens(self, users):
        ana = users.person(roles=["members:read"])
        token = users.token(ana)
        users.sign_in(ana, new_password="a new one, at last 77")
        users.organization.api.surface(token=token).get("/members", expect=401)

    def test_an_api_user_cannot_change_its_password(self, users):
        till = users.create()
        users.sign_in(till, new_password=PASSWORD, expect=400)
        users.sign_in(till)

    def test_a_wrong_scope_does_not_change_the_password(self, users):
        ana = users.create(email=new_email())
        users.sign_in(ana, new_password=PASSWORD, scope="admin", expect=400)
        # The temporary password of the first request is still valid.
        users.sign_in(ana, new_password=PASSWORD)

    @pytest.mark.parametrize("field", ["name", "nickname", "userName", "email", "authClientId"])
    def test_a_password_made_of_a_text_of_the_user_is_refused(self, users, field):
        text = f"zblorth.{uuid.uuid4().hex[:6]}@kvwmtr.example"
        fields = {"email": new_email(), field: text}
        new_user = user_body(password=text, **fields)
        assert users.surface.post("/users", new_user, expect=400)["detail"].startswith("password is too easy to guess")
        ana = users.create(password=PASSWORD, **fields)
        body = {"password": text, "permanent": True}
        problem = users.surface.put(f"/users/{ana['userId']}/password", body, expect=400)
        assert problem["detail"].startswith("password is too easy to guess")
        refusal = users.sign_in(ana, new_password=text, expect=400).json
        assert refusal["error_description"].startswith("The new_password is too easy to guess")
        users.sign_in(ana)

    def test_a_password_made_of_words_of_the_users_texts_is_refused(self, users):
        new_user = user_body(nickname="zblorth.kvwmtr", password="KvwmtrZblorth")
        problem = users.surface.post("/users", new_user, expect=400)
        assert problem["detail"].startswith("password is too easy to guess")

    def test_a_reset_password_of_a_person_is_temporary_unless_it_is_sent_as_permanent(self, users):
        ana = users.person(roles=["members:read"])
        path = f"/users/{ana['userId']}/password"
        token = users.token(ana)
        new_password = "rain-and-espresso-42"
        users.surface.put(path, {"password": new_password}, expect=204)
        # The reset ends the earlier token, and a temporary password has to be changed at the first sign-in.
        users.organization.api.surface(token=token).get("/members", expect=401)
        users.sign_in({**ana, "password": new_password}, expect=403)
        users.surface.put(path, {"password": PASSWORD, "permanent": True}, expect=204)
        users.sign_in(ana)

    def test_a_password_cannot_be_reset_to_one_that_is_easy_to_guess(self, users):
        path = f"/users/{users.person()['userId']}/password"
        problem = users.surface.put(path, {"password": "password1234"}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/password"]

    def test_a_reset_password_of_an_api_user_cannot_be_temporary(self, users):
        till = users.create()
        path = f"/users/{till['userId']}/password"
        problem = users.surface.put(path, {"password": PASSWORD, "permanent": False}, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/permanent"]
        users.surface.put(path, {"password": PASSWORD}, expect=204)
        users.sign_in({**till, "password": PASSWORD})

    def test_an_external_user_has_no_password_and_gets_none(self, users):
        sue = users.create(isExternal=True)
        assert sue["password"] is None
        problem = users.surface.put(f"/users/{sue['userId']}/password", {"password": PASSWORD}, expect=409)
        assert problem["type"] == "/problems/external-user"
        users.sign_in({**sue, "password": "lsk_"}, expect=401)


class TestBulkOperations:
    def bulk(self, users, kind, emails, **body):
        """Send a bulk request; return for each address the status, or the type of the problem."""
        response = users.surface.post(f"/users/bulk-{kind}", {"emails": emails, **body}, expect=200)
        failed = sum(result["status"] == "failed" for result in response["results"])
        assert response["summary"] == {"total": len(emails), "succeeded": len(emails) - failed, "failed": failed}
        assert [result["email"] for result in response["results"]] == emails
        return [
            result["error"]["type"].removeprefix("/problems/") if "error" in result else result["status"]
            for result in response["results"]
        ]

    def add(self, users, **permissions):
        """Add a user with an unused email by a bulk request; return the record of the user."""
        email = new_email()
        assert self.bulk(users, "add", [email], **permissions) == ["added"]
        [user] = users.surface.get("/users", email=email)["results"]
        return user

    def test_a_bulk_addition_has_a_result_for_each_address(self, users):
        unused_email = new_email()
        # The second address is the first one in upper case.
        emails = [unused_email, unused_email.upper(), users.person()["email"], "no address"]
        assert self.bulk(users, "add", emails, roles=["members:read"]) == [
            "added",
            "user-exists",
            "user-exists",
            "invalid-request",
        ]

    def test_a_user_added_in_bulk_has_the_address_as_name_and_has_yet_to_sign_in(self, users):
        user = self.add(users, roles=["members:read"])
        assert (user["name"], user["pendingProvisioning"], user["isApiUser"]) == (user["email"], True, False)

    def test_a_user_added_in_bulk_has_the_roles_of_the_request_and_of_the_groups(self, users):
        key = users.group(roles=["tiers:read"])["permissionGroupKey"]
        user = self.add(users, roles=["members:read"], permissionGroupKeys=[key])
        assert user["organizations"][0]["roles"] == ["members:read", "tiers:read"]
        path = f"/users/{user['userId']}/password"
        users.surface.put(path, {"password": PASSWORD, "permanent": True}, expect=204)
        assert users.sign_in({**user, "password": PASSWORD}).json["scope"] == "members:read tiers:read"

    def test_a_bulk_reassignment_without_permissions_is_refused(self, users):
        problem = users.surface.post("/users/bulk-reassign", {"emails": [users.person()["email"]]}, expect=400)
        detail = problem["errors"][0]["detail"]
        assert detail == "The request changes nothing: send at least one of isAdmin, roles and permissionGroupKeys."

    def test_a_bulk_reassignment_and_a_bulk_removal_have_a_result_for_each_address(self, users):
        ana, bob = users.person(), users.person()
        # Bob is reassigned twice, but can be removed only once.
        emails = [ana["email"], new_email(), bob["email"].upper(), bob["email"]]
        assert self.bulk(users, "reassign", emails, roles=["tiers:read"]) == [
            "reassigned",
            "unknown-user",
            "reassigned",
            "reassigned",
        ]
        assert self.bulk(users, "remove", emails) == ["removed", "unknown-user", "removed", "unknown-user"]

    def test_a_bulk_reassignment_changes_only_the_permissions_that_it_sends(self, users):
        ana, group = users.person(roles=["members:read"]), users.group(roles=["tiers:read"])
        keys = [group["permissionGroupKey"]]
        assert self.bulk(users, "reassign", [ana["email"]], permissionGroupKeys=keys) == ["reassigned"]
        assert users.read(ana)["organizations"][0]["roles"] == ["members:read", "tiers:read"]
        assert self.bulk(users, "reassign", [ana["email"]], roles=[], isAdmin=True) == ["reassigned"]
        # The role of the group remains.
        [membership] = users.read(ana)["organizations"]
        assert (membership["isAdmin"], membership["roles"]) == (True, ["tiers:read"])

    def test_a_user_removed_in_bulk_can_neither_be_read_nor_sign_in(self, users):
        ana = users.person(roles=["members:read"])
        users.sign_in(ana)
        assert self.bulk(users, "remove", [ana["email"]]) == ["removed"]
        users.surface.get(f"/users/{ana['userId']}", expect=404)
        users.sign_in(ana, expect=401)

    def test_bulk_operations_execute_as_many_statements_for_300_users_as_for_1(self, users):
        def statement_count(kind, emails, **body):
            """Send a bulk request; return the number of executed statements."""
            with count_statements(users.organization.api.engine) as statements:
                self.bulk(users, kind, emails, **body)
            return len(statements)

        keys = [users.group(roles=["tiers:read"])["permissionGroupKey"] for _ in range(3)]
        add_trigger(users.surface, "EntityChangeWebhook", key="mail", entities=["user-invitation"])
        # The first request fills caches.
        statement_count("add", [new_email()])
        one_email, many_emails = [new_email()], [new_email() for _ in range(300)]
        for kind, body in (
            ("add", {"roles": ["members:read"], "permissionGroupKeys": keys}),
            ("reassign", {"roles": ["orders:read"], "permissionGroupKeys": keys[:1]}),
            ("remove", {}),
        ):
            assert statement_count(kind, one_email, **body) == statement_count(kind, many_emails, **body)


class TestInvitations:
    def test_triggers_for_invitations_get_the_temporary_password(self, users):
        trigger = add_trigger(users.surface, "EntityChangeWebhook", key="mail", entities=["user-invitation"])
        other_trigger = add_trigger(users.surface, "EntityChangeWebhook", key="crm")
        email = new_email()
        users.surface.post("/users/bulk-add", {"emails": [email], "roles": ["members:read"]}, expect=200)
        users.surface.post("/users/bulk-add", {"emails": [new_email()], "sendInvite": False}, expect=200)
        invited_person = users.person(sendInvite=True)
        delivery, delivery_about_person = deliveries_of(users, trigger)
        assert delivery.type == "user.invited"
        data = delivery.payload["data"]
        [user] = users.surface.get("/users", email=email)["results"]
        assert {name: data[name] for name in ("organizationId", "organizationName", "userId", "email")} == {
            "organizationId": users.organization.id,
            "organizationName": "Corner Coffee",
            "userId": user["userId"],
            "email": email,
        }
        assert data["tokenUrl"].endswith("/v2/oauth/token")
        # The person was created with a password, which the message does not have.
        assert delivery_about_person.payload["data"]["temporaryPassword"] is None
        assert delivery_about_person.payload["data"]["userId"] == invited_person["userId"]
        assert deliveries_of(users, other_trigger) == []
        invited_user = {**user, "password": data["temporaryPassword"]}
        users.sign_in(invited_user, expect=403)
        assert users.sign_in(invited_user, new_password=PASSWORD).json["scope"] == "members:read"
        assert users.read(user)["pendingProvisioning"] is False

    def test_listed_deliveries_do_not_show_the_password(self, users):
        trigger = add_trigger(users.surface, "EntityChangeWebhook", key="mail", entities=["user-invitation"])
        users.create(email=new_email(), sendInvite=True)
        [delivery] = deliveries_of(users, trigger)
        temporary_password = delivery.payload["data"]["temporaryPassword"]
        reply = users.surface.request("GET", f"/triggers/{trigger['triggerId']}/deliveries", expect=200)
        assert temporary_password not in reply.text
        path = f"/triggers/{trigger['triggerId']}/deliveries/{delivery.trigger_delivery_id}/redeliver"
        assert temporary_password not in users.surface.request("POST", path).text
