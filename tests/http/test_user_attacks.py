"""Attempts of users to gain permissions, or to use permissions that they have lost; each is refused."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher

from handlers.services import passwords
from tests.builders.triggers import add_trigger, trigger_body
from tests.builders.users import PASSWORD, Users, new_email, user_body


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch):
    """The real Argon2 at a low cost."""
    monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=64))


@pytest.fixture
def users(organization):
    return Users.of(organization)


@pytest.fixture
def manager(users):
    """A user who has only the roles users:write and members:read, with a token."""
    user = users.create(roles=["users:write", "members:read"])
    return {**user, "token": users.token(user)}


@pytest.fixture
def by_manager(users, manager):
    """The users, with the manager as the caller."""
    return users.by(manager["token"])


def expect_refusal(response, problem="permission-not-held"):
    """Assert that a response is this problem."""
    assert response["type"] == f"/problems/{problem}", response


def only_administrator(users):
    """Create an administrator and remove all others; return the administrator."""
    ana = users.person(isAdmin=True)
    for result in users.surface.get("/users", includeAPIUsers=True)["results"]:
        if result["userId"] != ana["userId"] and result["organizations"][0]["isAdmin"]:
            users.surface.delete(f"/users/{result['userId']}")
    return ana


class TestGrantingPermissionsThatOneDoesNotHold:
    # The manager has the roles users:write and members:read.
    @pytest.mark.parametrize(
        "permissions",
        [{"roles": ["coupons:read"]}, {"roles": ["members:write"]}, {"isAdmin": True}, {"isSystemAdmin": True}],
    )
    def test_permissions_cannot_be_given_to_a_new_user(self, by_manager, permissions):
        expect_refusal(by_manager.surface.post("/users", user_body(**permissions), expect=403))

    def test_permissions_that_the_manager_holds_can_be_given(self, by_manager):
        # The role users:write includes users:read.
        new_user = by_manager.create(roles=["members:read", "users:read"])
        assert new_user["organizations"][0]["roles"] == ["members:read", "users:read"]

    @pytest.mark.parametrize("body", [{"isAdmin": True, "roles": []}, {"isAdmin": False, "roles": ["ledgers:write"]}])
    def test_permissions_cannot_be_given_to_oneself(self, by_manager, manager, body):
        expect_refusal(by_manager.surface.put(f"/users/{manager['userId']}/permissions", body, expect=403))
        membership = {"organizationId": by_manager.organization.id, **body}
        expect_refusal(
            by_manager.surface.put(f"/users/{manager['userId']}", {"organizations": [membership]}, expect=403)
        )

    @pytest.mark.parametrize("permissions", [{"isAdmin": True}, {"roles": ["ledgers:read"]}])
    def test_permissions_cannot_be_given_by_a_group(self, users, by_manager, manager, permissions):
        key = users.group(**permissions)["permissionGroupKey"]
        keys = {"permissionGroupKeys": [key]}
        expect_refusal(by_manager.surface.put(f"/users/{manager['userId']}/permissions", keys, expect=403))
        expect_refusal(by_manager.surface.put(f"/users/{manager['userId']}", {"organizations": [], **keys}, expect=403))
        expect_refusal(by_manager.surface.post("/users", user_body(**keys), expect=403))
        expect_refusal(by_manager.surface.post("/users/bulk-add", {"emails": [new_email()], **keys}, expect=403))
        group = {"permissionGroupKey": "mine", "name": "Mine", "roles": [], **permissions}
        expect_refusal(by_manager.surface.post("/permission-groups", group, expect=403))

    def test_permissions_cannot_be_given_by_changing_a_group_afterwards(self, users, by_manager, manager):
        key = by_manager.group(roles=["members:read"])["permissionGroupKey"]
        by_manager.surface.put(f"/users/{manager['userId']}/permissions", {"permissionGroupKeys": [key]})
        for permissions in ({"isAdmin": True}, {"roles": ["members:write"]}):
            expect_refusal(by_manager.surface.put(f"/permission-groups/{key}", permissions, expect=403))
        # Permissions that others have given to the group stay when the manager changes the rest.
        users.surface.put(f"/permission-groups/{key}", {"roles": ["ledgers:read", "members:read"]})
        by_manager.surface.put(f"/permission-groups/{key}", {"roles": ["ledgers:read"], "name": "Less"})

    def test_permissions_cannot_be_given_to_many_at_once(self, users, by_manager):
        ana = users.person()
        for permissions in ({"isAdmin": True}, {"roles": ["orders:write"]}):
            body = {"emails": [new_email()], **permissions}
            expect_refusal(by_manager.surface.post("/users/bulk-add", body, expect=403))
            body = {"emails": [ana["email"]], **permissions}
            expect_refusal(by_manager.surface.post("/users/bulk-reassign", body, expect=403))
        # Only Ana has an address.
        assert by_manager.surface.get("/users", search="@corner")["totalCount"] == 1

    def test_permissions_beyond_a_narrowed_token_cannot_be_given(self, users, organization):
        ana = users.person(isAdmin=True)
        narrowed_users = users.by(users.token(ana, scope="users:write"))
        expect_refusal(narrowed_users.surface.post("/users", user_body(isAdmin=True), expect=403))

    def test_permissions_cannot_be_given_in_another_organization(self, users, other_organization):
        # The rights of an administrator end at the organization.
        ana = users.person()
        for organization_id in (other_organization.id, 10**15):
            membership = {"organizationId": organization_id, "isAdmin": True, "roles": []}
            expect_refusal(users.surface.put(f"/users/{ana['userId']}", {"organizations": [membership]}, expect=403))

    def test_only_system_administrators_create_and_change_system_administrators(self, users):
        ana = users.person()
        change = {"organizations": [], "isSystemAdmin": True}
        expect_refusal(users.surface.put(f"/users/{ana['userId']}", change, expect=403))
        system = users.by(users.system_token())
        assert system.surface.put(f"/users/{ana['userId']}", change)["user"]["isSystemAdmin"]
        revocation = {"organizations": [], "isSystemAdmin": False}
        expect_refusal(users.surface.put(f"/users/{ana['userId']}", revocation, expect=403))
        new_password = {"password": "rain-and-espresso-42"}
        expect_refusal(users.surface.put(f"/users/{ana['userId']}/password", new_password, expect=403))


class TestTakingOverOthers:
    def test_the_password_of_a_user_with_more_permissions_cannot_be_reset(self, users, by_manager):
        for permissions in ({"isAdmin": True}, {"roles": ["ledgers:write"]}):
            ana = users.person(**permissions)
            expect_refusal(
                by_manager.surface.put(f"/users/{ana['userId']}/password", {"password": PASSWORD}, expect=403)
            )
            users.sign_in(ana)
        equal_user = users.person(roles=["members:read"])
        by_manager.surface.put(f"/users/{equal_user['userId']}/password", {"password": PASSWORD}, expect=204)

    def test_an_administrator_cannot_be_changed_removed_or_deactivated(self, users, by_manager):
        ana = users.person(isAdmin=True)
        path = f"/users/{ana['userId']}"
        expect_refusal(by_manager.surface.delete(path, expect=403))
        expect_refusal(by_manager.surface.put(path, {"organizations": [], "active": False}, expect=403))
        expect_refusal(by_manager.surface.put(f"{path}/permissions", {"isAdmin": False, "roles": []}, expect=403))
        emails = {"emails": [ana["email"]]}
        [result] = by_manager.surface.post("/users/bulk-remove", emails, expect=200)["results"]
        expect_refusal(result["error"])
        body = {**emails, "isAdmin": False}
        [result] = by_manager.surface.post("/users/bulk-reassign", body, expect=200)["results"]
        expect_refusal(result["error"])
        key = users.group(isAdmin=True)["permissionGroupKey"]
        expect_refusal(by_manager.surface.put(f"/permission-groups/{key}", {"isAdmin": False}, expect=403))

    def test_a_shared_user_cannot_be_taken_over_by_another_organization(self, users, other_organization):
        ana = users.person(roles=["members:read"])
        membership = {"organizationId": other_organization.id, "roles": ["members:read"]}
        system = users.by(users.system_token())
        system.surface.put(f"/users/{ana['userId']}", {"organizations": [membership]})
        other_surface = Users.of(other_organization).surface
        path = f"/users/{ana['userId']}"
        for change in ({"name": "Evil"}, {"pendingProvisioning": True}):
            expect_refusal(other_surface.put(path, {"organizations": [], **change}, expect=403), "user-shared")
        expect_refusal(other_surface.put(f"{path}/password", {"password": PASSWORD}, expect=403), "user-shared")
        # The other organization deactivates and removes Ana only for itself. The name is unchanged.
        other_surface.put(path, {"organizations": [], "active": False, "name": "Ana"})
        assert users.read(ana)["active"]
        other_surface.delete(path)
        token = users.token(ana)
        users.organization.api.surface(token=token).get("/members")
        users.organization.api.surface(f"/organizations/{other_organization.id}", token).get("/members", expect=403)

    def test_campaign_managers_cannot_subscribe_to_invitations(self, users, organization):
        marketing = organization.administration.with_token(organization.token_of("campaigns:write"))
        entities = {"entities": ["user-invitation"]}
        expect_refusal(marketing.post("/triggers", trigger_body("EntityChangeWebhook", **entities), expect=403))
        add_trigger(marketing, "EntityChangeWebhook", key="plain")
        mail = add_trigger(users.surface, "EntityChangeWebhook", key="mail", **entities)
        body = trigger_body("EntityChangeWebhook", key="mail", url="https://evil.invalid/")
        for trigger in (body, trigger_body("EntityChangeWebhook", key="mail", **entities)):
            expect_refusal(marketing.put(f"/triggers/{mail['triggerId']}", trigger, expect=403))

    def test_a_members_token_cannot_administer_users(self, users, organization):
        token = organization.member_token(organization.member()["loyaltyMemberId"])
        users.by(token).surface.get("/users", expect=403)
        users.by(token).surface.post("/users", user_body(), expect=403)


class TestUsingAnOldToken:
    @pytest.fixture
    def lead(self, users):
        """A user who has the role members:read inline and members:write through a group, with a token."""
        group = users.group(roles=["members:write"])
        user = users.person(roles=["members:read"], permissionGroupKeys=[group["permissionGroupKey"]])
        return {**user, "token": users.token(user), "group": f"/permission-groups/{group['permissionGroupKey']}"}

    def test_a_token_ends_with_the_removal_of_its_user(self, users, lead):
        surface = users.organization.api.surface(token=lead["token"])
        surface.get("/members")
        users.surface.delete(f"/users/{lead['userId']}")
        assert surface.get("/members", expect=401)["type"] == "/problems/unauthorized"
        users.sign_in(lead, expect=401)

    def test_a_token_ends_with_the_deactivation_of_its_user(self, users, lead):
        surface = users.organization.api.surface(token=lead["token"])
        users.surface.put(f"/users/{lead['userId']}", {"organizations": [], "active": False})
        surface.get("/members", expect=401)
        users.sign_in(lead, expect=401)
        users.surface.put(f"/users/{lead['userId']}", {"organizations": [], "active": True})
        surface.get("/members")

    def test_a_token_loses_permissions_that_the_group_loses(self, users, lead):
        surface = users.organization.api.surface(token=lead["token"])
        surface.post("/members", {"loyaltyMemberId": "ana"})
        users.surface.put(lead["group"], {"roles": []})
        surface.post("/members", {"loyaltyMemberId": "bob"}, expect=403)
        surface.get("/members")
        # The token gets a restored permission again. It does not get a permission that it never had.
        users.surface.put(lead["group"], {"roles": ["members:write", "tiers:read"]})
        surface.post("/members", {"loyaltyMemberId": "bob"})
        home = users.organization.api.surface(f"/organizations/{users.organization.id}", lead["token"])
        home.get("/loyalty-programs", expect=403)

    def test_a_token_loses_permissions_when_its_user_leaves_the_group(self, users, lead):
        surface = users.organization.api.surface(token=lead["token"])
        users.surface.put(f"/users/{lead['userId']}", {"organizations": [], "permissionGroupKeys": []})
        surface.post("/members", {"loyaltyMemberId": "bob"}, expect=403)

    def test_a_token_loses_the_rights_of_an_administrator(self, users):
        ana = users.person(isAdmin=True)
        by_ana = users.by(users.token(ana))
        path = f"/users/{ana['userId']}/permissions"
        by_ana.surface.put(path, {"isAdmin": False, "roles": ["users:write"]})
        # The administrator cannot restore the permissions that she has removed from herself.
        expect_refusal(by_ana.surface.put(path, {"isAdmin": True, "roles": []}, expect=403))
        by_ana.surface.get("/members", expect=403)
        users.surface.put(path, {"isAdmin": False, "roles": ["users:read"]})
        by_ana.surface.put(path, {"isAdmin": False, "roles": []}, expect=403)
        by_ana.surface.get("/users")

    def test_a_token_loses_the_rights_of_a_system_administrator(self, users, other_organization):
        system = users.by(users.system_token())
        ana = system.person(isSystemAdmin=True)
        other_surface = users.organization.api.surface(f"/organizations/{other_organization.id}", users.token(ana))
        other_surface.get("/members")
        system.surface.put(f"/users/{ana['userId']}", {"organizations": [], "isSystemAdmin": False})
        other_surface.get("/members", expect=401)

    def test_a_system_administrator_cannot_act_where_the_membership_is_inactive(self, users, other_organization):
        system = users.by(users.system_token())
        ana = system.person(isSystemAdmin=True)
        surface = users.organization.api.surface(token=users.token(ana))
        other_surface = users.organization.api.surface(f"/organizations/{other_organization.id}", users.token(ana))
        system.surface.put(f"/users/{ana['userId']}", {"organizations": [], "active": False})
        assert surface.get("/members", expect=401)["detail"] == (
            "The user of this access token is no longer active in the organization."
        )
        other_surface.get("/members")

    def test_a_token_ends_when_the_password_is_reset(self, users, lead):
        surface = users.organization.api.surface(token=lead["token"])
        users.surface.put(f"/users/{lead['userId']}/password", {"password": "rain-and-espresso-42"}, expect=204)
        assert surface.get("/members", expect=401)["detail"] == (
            "The password of the user was changed after this access token was issued. Request a new token."
        )
        users.surface.put(f"/users/{lead['userId']}", {"organizations": [], "active": False})
        assert surface.get("/members", expect=401)["detail"] == (
            "The user of this access token is no longer active in the organization."
        )


class TestRemovingTheLastAdministrator:
    def removals(self, users, ana):
        """(method, path, body) of every request about one user that would remove the administrator."""
        path, membership = f"/users/{ana['userId']}", {"organizationId": users.organization.id, "isAdmin": False}
        return [
            ("DELETE", path, None),
            ("PUT", path, {"organizations": [], "active": False}),
            ("PUT", path, {"organizations": [], "pendingProvisioning": True}),
            ("PUT", path, {"organizations": [membership]}),
            ("PUT", f"{path}/permissions", {"isAdmin": False, "roles": []}),
        ]

    def test_the_last_administrator_cannot_be_removed_in_any_way(self, users):
        ana = only_administrator(users)
        for surface in (users.surface, users.by(users.token(ana)).surface):
            for method, path, body in self.removals(users, ana):
                expect_refusal(surface.request(method, path, body, expect=409).json, "last-administrator")
        emails = {"emails": [ana["email"]]}
        [result] = users.surface.post("/users/bulk-remove", emails, expect=200)["results"]
        expect_refusal(result["error"], "last-administrator")
        [result] = users.surface.post("/users/bulk-reassign", {**emails, "isAdmin": False}, expect=200)["results"]
        expect_refusal(result["error"], "last-administrator")
        assert users.read(ana)["organizations"][0]["isAdmin"]
        # With a second administrator, ana can be deactivated.
        users.person(isAdmin=True)
        users.surface.put(f"/users/{ana['userId']}", {"organizations": [], "active": False})

    def test_the_last_administrator_of_a_group_cannot_be_removed(self, users):
        ana = only_administrator(users)
        key = users.group(isAdmin=True)["permissionGroupKey"]
        path = f"/users/{ana['userId']}"
        users.surface.put(f"{path}/permissions", {"isAdmin": False, "roles": [], "permissionGroupKeys": [key]})
        for target, body in (
            (f"/permission-groups/{key}", {"isAdmin": False}),
            (path, {"organizations": [], "permissionGroupKeys": []}),
            (f"{path}/permissions", {"isAdmin": False, "roles": [], "permissionGroupKeys": []}),
        ):
            expect_refusal(users.surface.put(target, body, expect=409), "last-administrator")
        body = {"emails": [ana["email"]], "permissionGroupKeys": []}
        [result] = users.surface.post("/users/bulk-reassign", body, expect=200)["results"]
        expect_refusal(result["error"], "last-administrator")

    def test_the_last_administrators_cannot_be_removed_all_at_once(self, users):
        ana = only_administrator(users)
        bob = users.person(isAdmin=True)
        body = {"emails": [bob["email"], ana["email"]]}
        bob_result, ana_result = users.surface.post("/users/bulk-remove", body, expect=200)["results"]
        assert bob_result["status"] == "removed"
        expect_refusal(ana_result["error"], "last-administrator")

    def test_an_administrator_who_never_signed_in_does_not_count(self, users):
        ana = only_administrator(users)
        users.surface.post("/users/bulk-add", {"emails": [new_email()], "isAdmin": True}, expect=200)
        expect_refusal(users.surface.delete(f"/users/{ana['userId']}", expect=409), "last-administrator")
