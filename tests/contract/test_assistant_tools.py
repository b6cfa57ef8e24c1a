"""The tools for assistants: calls of operations that read, and dry runs."""

from __future__ import annotations

import pytest

import openapi
from handlers.server.assistant_tools import SIMULATE, tools
from tests.contract.documents import operations

TOOLS = {tool.name: tool for tool in tools()}
ORGANIZATION_ID = 3
READS_BY_POST = {
    "batchGetMembers",
    "checkMembersExist",
    "checkMemberAudiences",
    "parseExpressions",
    "formatExpressions",
    "simulate",
}


def test_the_tools_are_all_operations_that_change_nothing():
    reads = {surface: set(reads_of(surface)) for surface in openapi.SURFACES}
    names = {SIMULATE, *reads["integration"]}
    # Operations of the administration that the integration has, too, get a prefix.
    names |= {f"administration_{name}" if name in names else name for name in reads["administration"]}
    assert TOOLS.keys() == names
    assert {name for name, tool in TOOLS.items() if tool.method != "GET"} == {SIMULATE, *READS_BY_POST}


def reads_of(surface):
    """The operations that change nothing, and for which a user can have the role."""
    for operation in operations(openapi.bundle(surface)):
        roles = operation.operation["security"][0].get("oauth2") if operation.operation["security"] else None
        is_for_users = roles is not None and [role for role in roles if role.endswith(":read")] == roles != []
        if is_for_users and (operation.method == "get" or operation.operation_id in READS_BY_POST):
            yield operation.operation_id


def test_tools_require_only_roles_to_read_and_orders_write_for_simulations():
    roles = {tool.role for tool in TOOLS.values()}
    assert all(role.endswith(":read") for role in roles - {"orders:write"})
    assert [tool.name for tool in TOOLS.values() if tool.role == "orders:write"] == [SIMULATE]


def test_no_tool_has_the_organization_as_an_argument():
    for tool in TOOLS.values():
        assert "organizationId" not in tool.input_schema["properties"], tool.name
        assert set(tool.input_schema["required"]) <= tool.input_schema["properties"].keys(), tool.name


def test_arguments_become_path_and_query():
    path, query, body = TOOLS["administration_getMember"].request({"memberId": 7}, ORGANIZATION_ID)
    assert (path, query, body) == ("/organizations/3/members/7", {}, None)
    path, query, _ = TOOLS["listCampaigns"].request({"page": 1, "tags": ["new", "old"]}, ORGANIZATION_ID)
    assert (path, query) == ("/organizations/3/campaigns", {"page": "1", "tags": "new,old"})
    path, _, _ = TOOLS["getMember"].request({"loyaltyMemberId": "a/../b"}, ORGANIZATION_ID)
    assert path == "/members/a%2F..%2Fb"


def test_a_simulation_is_always_a_dry_run():
    events = [{"loyaltyMemberId": "ana", "eventType": "member-created"}]
    _, _, body = TOOLS[SIMULATE].request({"events": events}, ORGANIZATION_ID)
    [event] = body.pop("events")
    # Besides the events.
    assert body == {"executionMode": "dryRun"}
    assert event.pop("systemUniqueKey").startswith("simulation-")
    assert event == events[0]
    with pytest.raises(ValueError, match="The tool has no arguments executionMode"):
        TOOLS[SIMULATE].request({"events": events, "executionMode": "full"}, ORGANIZATION_ID)


def test_missing_arguments_are_reported():
    with pytest.raises(ValueError, match="The call lacks the arguments loyaltyMemberId"):
        TOOLS["getMember"].request({}, ORGANIZATION_ID)


def test_tools_can_be_limited_to_some_tags():
    assert {tool.tag for tool in tools(["members", "campaigns"])} == {"members", "campaigns"}
