"""A member who is erased while everybody is at work with it: nothing of it is left, whatever came first."""

from __future__ import annotations

from functools import partial

from tests.builders.person import NAME, WORD, event, order, traces, word
from tests.builders.queue import drain
from tests.concurrency.together import together

# What those are told who come too late.
LATE = {"/problems/unknown-member", "/problems/member-erased", "/problems/member-inactive", "/problems/not-found"}


def test_whoever_is_at_work_with_an_erased_member_leaves_nothing(shop):
    i, a = shop.integration, shop.administration
    badge = i.post("/badges", {"name": "Lark", "maxAmount": 99, "active": True})["badge"]["badgeKey"]
    program = {"name": "Friends", "code": "friends", "active": True, "maxPerCode": 9}
    program = a.post("/referral-programs", {**program, "eventType": "member-purchase-order-created"})["referralProgram"]
    codes = f"/referral-programs/{program['referralProgramId']}/codes"
    for turn in range(4):
        body = {"profile": {"name": word("name")}, "customAttributes": {WORD: WORD}}
        member_id = i.post("/members", {"loyaltyMemberId": NAME, **body})["loyaltyMember"]["memberId"]
        calls = [
            partial(a.request, "DELETE", f"/members/{member_id}"),
            *[partial(track, i, "/events/track") for _ in range(4)],
            *[partial(track, i, "/events/track-async") for _ in range(2)],
            partial(a.request, "PATCH", f"/members/{member_id}", {"profile": {"city": word("town")}}),
            partial(i.request, "POST", f"/members/{NAME}/badges/{badge}/assign", {"externalId": word("external")}),
            partial(
                a.request, "POST", f"/members/by-loyalty-member-id/{NAME}/mint", {"amount": 1, "description": WORD}
            ),
            partial(a.request, "POST", codes, {"memberId": member_id, "codes": [f"{WORD}-{turn}"]}),
            partial(drain, shop),
        ]
        replies = [reply for reply in together(calls) if reply is not None]
        assert replies[0].status == 200
        for reply in replies:
            refused = {reply.json["type"]} if reply.status >= 400 else errors(reply.json)
            assert refused <= LATE, reply.text
        drain(shop)
        assert traces(shop.engine) == {}


def track(surface, path):
    """Send an event and an order, each with a key that nobody has used."""
    created = event("member-purchase-order-created", payload={"order": order(f"{WORD}-{event()['systemUniqueKey']}")})
    return surface.request("POST", path, {"events": [event("member-generic-event"), created]})


def errors(body):
    """The types of what was refused in a batch."""
    return {each["error"]["type"] for each in body.get("results", ()) if "error" in each}
