"""Calls about many members do not read customAttributes that they do not need, since these can be large."""

from __future__ import annotations

from sqlalchemy import text

from tests.builders.statements import count_statements
from tests.builders.tracking import event

MAX_BYTES = 16 * 1024 * 1024


def reads_attributes(engine, call):
    """True if a statement of the call reads the attributes of members."""
    with count_statements(engine) as statements:
        call()
    statements_about_members = [statement for statement in statements if "FROM members" in statement]
    assert statements_about_members
    return any(
        "members.custom_attributes" in text or "m.custom_attributes" in text for text in statements_about_members
    )


def test_only_calls_that_return_attributes_read_them(api, organization):
    ana = organization.member(loyaltyMemberId="ana", customAttributes={"size": "XXL"})
    integration, administration = organization.integration, organization.administration
    audience = {"name": "Friends", "matcherType": "list-matcher"}
    audience_id = administration.post("/audiences", audience)["audience"]["audienceId"]

    def find_members():
        integration.post("/members/exists", {"loyaltyMemberIds": ["ana"]}, expect=200)

    def queue_event():
        integration.post("/events/track-async", {"events": [event("ana")]}, expect=202)

    def add_to_audience():
        administration.patch(f"/audiences/{audience_id}/members", {"add": [ana["memberId"]]}, expect=200)

    def read_members():
        administration.post("/members/batch-get", {"memberIds": [ana["memberId"]]}, expect=200)

    assert reads_attributes(api.engine, read_members)
    for call in (find_members, queue_event, add_to_audience):
        assert not reads_attributes(api.engine, call), call


def test_more_than_100_members_with_large_attributes_are_not_read_at_once(api, organization):
    administration = organization.administration
    ids = [organization.member()["memberId"] for _ in range(101)]
    # The attributes of the other members are `{}`.
    other_bytes = 100 * len("{}")

    def read_members(member_ids, *, first_has, expect):
        """Give the first member attributes of `first_has` bytes as JSON, and read members."""
        statement = (
            "UPDATE members SET custom_attributes = jsonb_build_object('a', repeat('x', :n)) WHERE member_id = :id"
        )
        with api.engine.begin() as db:
            db.execute(text(statement), {"n": first_has - len('{"a": ""}'), "id": ids[0]})
        return administration.post("/members/batch-get", {"memberIds": member_ids}, expect=expect)

    assert len(read_members(ids, first_has=MAX_BYTES - other_bytes, expect=200)["members"]) == 101
    problem = read_members(ids, first_has=MAX_BYTES - other_bytes + 1, expect=400)
    assert problem["errors"] == [
        {
            "pointer": "/memberIds",
            "detail": "The customAttributes of these members have 16,777,217 bytes together, more than the maximum of"
            " 16,777,216. Read fewer members by a call.",
        }
    ]
    assert len(read_members(ids[:100], first_has=MAX_BYTES, expect=200)["members"]) == 100
