"""Statements about audiences: one reads the lists of any number of events, members and audiences."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.statements import count_statements
from tests.builders.tracking import Shop, event, running


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def tracking_statements(shop, members, *, effects_of_each) -> list[str]:
    """The statements that track an event of each member, which has `effects_of_each` effects.

    The configuration is cached before.
    """
    shop.track(event(members[0]))
    with count_statements(shop.engine) as statements:
        results = shop.track(*(event(member) for member in members))
    assert {len(result["effects"]) for result in results} == {effects_of_each}
    return statements


def audience(shop, **body):
    return shop.administration.post("/audiences", body)["audience"]


def list_audience(shop, members, **body):
    """The key of a new audience that lists the members."""
    record = audience(shop, matcherType="list-matcher", **body)
    response = shop.integration.post("/members/exists", {"loyaltyMemberIds": members}, expect=200)
    ids = [loyalty_member["memberId"] for loyalty_member in response["loyaltyMembers"]]
    shop.administration.patch(f"/audiences/{record['audienceId']}/members", {"add": ids})
    return record["audienceKey"]


@pytest.mark.slow
def test_one_statement_reads_the_lists_of_all_members(shop):
    members = [shop.member() for _ in range(12)]
    keys = [list_audience(shop, members) for _ in range(3)]
    keys += [
        audience(shop, matcherType="attribute-matcher", matcher={"tags": [str(tag)]})["audienceKey"] for tag in range(3)
    ]
    for key in keys:
        shop.campaign(running(mint(1)), audienceKeys=[key])
    one_member, all_members = (
        tracking_statements(shop, group, effects_of_each=3) for group in (members[:1], members * 8)
    )
    assert len(one_member) == len(all_members)
    counts = [sum("audience_members" in statement for statement in run) for run in (one_member, all_members)]
    assert counts == [1, 1]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(None, id="no audience"),
        {"matcherType": "attribute-matcher", "matcher": {}},
        {"matcherType": "null-matcher"},
        {"matcherType": "list-matcher", "active": False},
        {"matcherType": "list-matcher", "expiresAt": "2026-01-01T00:00:00Z"},
    ],
)
def test_lists_are_not_read_unless_an_active_audience_has_one(shop, body):
    if body is not None:
        audience(shop, **body)
    shop.campaign(running(mint(1)))
    assert not any(
        "audience" in statement for statement in tracking_statements(shop, [shop.member()], effects_of_each=1)
    )


def test_capturing_without_evaluation_reads_no_lists(shop):
    member = shop.member()
    list_audience(shop, [member])
    shop.campaign(running(mint(1)))
    shop.track(event(member))
    with count_statements(shop.engine) as statements:
        shop.track(event(member), executionMode="captureOnly")
    assert not any("audience" in statement for statement in statements)


def test_changing_a_list_takes_as_many_statements_for_1_member_as_for_12(shop):
    members = [shop.organization.member()["memberId"] for _ in range(12)]
    path = f"/audiences/{audience(shop, matcherType='list-matcher')['audienceId']}/members"
    counts = []
    for body in ({"add": members[:1]}, {"add": members[1:], "remove": members[:1]}):
        with count_statements(shop.engine) as statements:
            shop.administration.patch(path, body)
        counts.append(len(statements))
    assert counts[0] == counts[1]
