"""Users of one organization whom many calls change at the same time."""

from __future__ import annotations

from functools import partial

import pytest
from argon2 import PasswordHasher

from handlers.services import passwords
from tests.builders.users import Users, new_email
from tests.concurrency.simultaneous import run_simultaneously


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch):
    """Hash passwords with a low cost, so that the tests are quick."""
    monkeypatch.setattr(passwords, "_HASHER", PasswordHasher(time_cost=1, memory_cost=64))


@pytest.fixture
def users(busy_api):
    return Users.of(busy_api.organization())


def administrators(users):
    """The active administrators."""
    results = users.surface.get("/users", includeAPIUsers=True)["results"]
    return [result for result in results if result["active"] and result["organizations"][0]["isAdmin"]]


def test_one_of_the_calls_that_together_would_remove_all_administrators_is_refused(users):
    key = users.group(isAdmin=True)["permissionGroupKey"]
    people = [users.person(isAdmin=True) for _ in range(4)]
    people += [users.person(permissionGroupKeys=[key]) for _ in range(2)]
    ids_of_people = {person["userId"] for person in people}
    first_administrators = [
        administrator for administrator in administrators(users) if administrator["userId"] not in ids_of_people
    ]
    calls = [
        partial(users.surface.request, "DELETE", f"/users/{people[0]['userId']}"),
        partial(users.surface.request, "DELETE", f"/users/{people[1]['userId']}"),
        partial(users.surface.request, "PUT", f"/users/{people[2]['userId']}", {"organizations": [], "active": False}),
        partial(
            users.surface.request,
            "PUT",
            f"/users/{people[3]['userId']}/permissions",
            {"isAdmin": False, "roles": []},
        ),
        partial(users.surface.request, "PUT", f"/permission-groups/{key}", {"isAdmin": False}),
        *(partial(users.surface.request, "DELETE", f"/users/{person['userId']}") for person in first_administrators),
    ]
    statuses = [reply.status for reply in run_simultaneously(calls)]
    # The call that would remove the last administrator is refused.
    refused_position = statuses.index(409)
    statuses_without_refusal = [204, 204, 200, 200, 200, *[204] * len(first_administrators)]
    assert [status for position, status in enumerate(statuses) if position != refused_position] == [
        status for position, status in enumerate(statuses_without_refusal) if position != refused_position
    ]
    # The group has two users.
    is_change_of_group_refused = refused_position == 4
    assert len(administrators(users)) == (2 if is_change_of_group_refused else 1)


def test_a_permission_group_is_deleted_once_and_never_while_it_has_users(users):
    for _ in range(3):
        key, ana = users.group()["permissionGroupKey"], users.person()
        joining = {"isAdmin": False, "roles": [], "permissionGroupKeys": [key]}
        path = f"/permission-groups/{key}"
        joining_reply, renaming_reply, *deletion_replies = run_simultaneously(
            [
                partial(users.surface.request, "PUT", f"/users/{ana['userId']}/permissions", joining),
                partial(users.surface.request, "PUT", path, {"name": "Changed"}),
                *(partial(users.surface.request, "DELETE", path) for _ in range(3)),
            ]
        )
        statuses = sorted(reply.status for reply in deletion_replies)
        # Either the user joins the group first, or the group is deleted first.
        assert (joining_reply.status, statuses) in [(200, [409, 409, 409]), (404, [204, 404, 404])]
        # The group is renamed, unless it is deleted before.
        assert renaming_reply.status == 200 or (joining_reply.status, renaming_reply.status) == (404, 404)


def test_only_one_of_two_administrators_who_demote_each_other_succeeds(users):
    for _ in range(3):
        ana, bob = (users.person(isAdmin=True) for _ in range(2))
        hers, his = (users.by(users.token(person)) for person in (ana, bob))
        body = {"isAdmin": False, "roles": []}
        replies = run_simultaneously(
            [
                partial(hers.surface.request, "PUT", f"/users/{bob['userId']}/permissions", body),
                partial(his.surface.request, "PUT", f"/users/{ana['userId']}/permissions", body),
            ]
        )
        assert sorted(reply.status for reply in replies) == [200, 403]


def test_an_address_that_many_calls_add_becomes_one_user(users):
    emails = [new_email() for _ in range(5)]
    responses = run_simultaneously([partial(users.surface.post, "/users/bulk-add", {"emails": emails}, expect=200)] * 8)
    assert sum(response["summary"]["succeeded"] for response in responses) == 5
    assert users.surface.get("/users", search="@corner")["totalCount"] == 5


def test_only_one_of_8_calls_creates_a_user_with_one_client_id(users):
    user = users.create()
    users.surface.delete(f"/users/{user['userId']}")
    body = {name: user[name] for name in ("name", "nickname", "profilePictureUrl", "authClientId")}
    body |= {"active": True, "isSystemAdmin": False, "pendingProvisioning": False, "isAdmin": False, "roles": []}
    replies = run_simultaneously([partial(users.surface.request, "POST", "/users", body)] * 8)
    assert sorted(reply.status for reply in replies) == [201] + [409] * 7
