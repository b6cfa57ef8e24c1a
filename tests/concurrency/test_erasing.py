"""A member who is erased during other calls about it: no personal data is left, whatever the order of the calls."""

from __future__ import annotations

from functools import partial

from handlers.http import dispatch
from handlers.server.jobs import run_job
from handlers.services.members import change
from persistence import erasing
from tests.builders import tracking
from tests.builders.coupons import CouponBooks
from tests.builders.person import NAME, WORD, event, order, traces, word
from tests.builders.queue import drain
from tests.concurrency.simultaneous import run_after, run_simultaneously

# The refusals of calls that come too late.
LATE = {"/problems/unknown-member", "/problems/member-erased", "/problems/member-inactive", "/problems/not-found"}


def test_calls_about_a_member_during_its_erasing_leave_no_personal_data(shop):
    integration, administration = shop.integration, shop.administration
    badge = integration.post("/badges", {"name": "Lark", "maxAmount": 99, "active": True})["badge"]["badgeKey"]
    program = {"name": "Friends", "code": "friends", "active": True, "maxPerCode": 9}
    program = administration.post("/referral-programs", {**program, "eventType": "member-purchase-order-created"})[
        "referralProgram"
    ]
    codes = f"/referral-programs/{program['referralProgramId']}/codes"
    for turn in range(4):
        body = {"profile": {"name": word("name")}, "customAttributes": {WORD: WORD}}
        member_id = integration.post("/members", {"loyaltyMemberId": NAME, **body})["loyaltyMember"]["memberId"]
        calls = [
            partial(administration.request, "DELETE", f"/members/{member_id}"),
            *[partial(track, integration, "/events/track") for _ in range(4)],
            *[partial(track, integration, "/events/track-async") for _ in range(2)],
            partial(administration.request, "PATCH", f"/members/{member_id}", {"profile": {"city": word("town")}}),
            partial(
                integration.request, "POST", f"/members/{NAME}/badges/{badge}/assign", {"externalId": word("external")}
            ),
            partial(
                administration.request,
                "POST",
                f"/members/by-loyalty-member-id/{NAME}/mint",
                {"amount": 1, "description": WORD},
            ),
            partial(administration.request, "POST", codes, {"memberId": member_id, "codes": [f"{WORD}-{turn}"]}),
            partial(drain, shop),
        ]
        replies = [reply for reply in run_simultaneously(calls) if reply is not None]
        assert replies[0].status == 200
        for reply in replies:
            refusals = {reply.json["type"]} if reply.status >= 400 else errors(reply.json)
            assert refusals <= LATE, reply.text
        drain(shop)
        assert traces(shop.engine, organization_id=shop.organization.id) == {}


def test_coupons_of_an_erased_member_leave_no_personal_data(shop):
    """In any order of the calls, the sums of the book and its lots agree, and no row names the erased member."""
    integration, administration = shop.integration, shop.administration
    book = CouponBooks(shop.organization).make(type="codeless", maxAssignedPerMember=9)
    path = f"/members/{NAME}/coupon-books/{book['couponBookKey']}"
    texts = {"description": word("a coupon"), "usageData": {WORD: word("of a coupon")}}
    data = {**texts, "couponData": {WORD: word("seat")}}
    for _ in range(4):
        member_id = integration.post("/members", {"loyaltyMemberId": NAME})["loyaltyMember"]["memberId"]
        for _ in range(4):
            assignment = integration.post(f"{path}/assign", data, expect=200)["couponUsage"]
        usage = integration.post(f"{path}/use", texts, expect=200)["couponUsage"]
        revert_paths = [
            f"/members/{NAME}/coupon-usages/{change['couponUsageKey']}/revert" for change in (assignment, usage)
        ]
        calls = [
            partial(administration.request, "DELETE", f"/members/{member_id}"),
            *[partial(integration.request, "POST", f"{path}/use", texts) for _ in range(4)],
            *[partial(integration.request, "POST", f"{path}/assign", data) for _ in range(2)],
            *[partial(integration.request, "POST", revert_path) for revert_path in revert_paths],
        ]
        replies = run_simultaneously(calls)
        assert replies[0].status == 200
        refusals = {reply.json["type"] for reply in replies if reply.status >= 400}
        assert refusals <= LATE | {"/problems/coupon-not-assigned", "/problems/coupon-assignment-used"}
        assert traces(shop.engine, organization_id=shop.organization.id) == {}
    [book_row] = shop.rows("coupon_books", "total_assigned, total_usages")
    lots = shop.rows("coupon_lots", "amount, amount_used, custom_attributes")
    sums = sum(lot.amount for lot in lots), sum(lot.amount_used for lot in lots)
    assert (book_row.total_assigned, book_row.total_usages) == sums
    assert all(0 <= lot.amount_used <= lot.amount and lot.custom_attributes == {} for lot in lots)


def test_orders_get_the_external_ids_of_orders_that_a_job_is_erasing(shop, monkeypatch):
    """The orders of a call overlap with those of the next one: one of both calls creates each order."""
    monkeypatch.setattr(change, "MAX_ERASING_SECONDS", 0)
    monkeypatch.setattr(erasing, "PAGE_ROWS", 1)
    member_id, ben = shop.organization.member(NAME)["memberId"], shop.organization.member("ben")
    external_ids = [f"order-{number}" for number in range(48)]
    for start in range(0, 48, 12):
        shop.track(*[tracking.order(NAME, external_id=external_id) for external_id in external_ids[start : start + 12]])
    shop.administration.delete(f"/members/{member_id}", expect=200)
    engine, settings = shop.organization.api.engine, shop.organization.api.settings
    # Eight orders in each call, of which the next call has four, too.
    calls = [
        partial(shop.track, *(tracking.order("ben", external_id=name) for name in external_ids[start : start + 8]))
        for start in range(0, 41, 4)
    ]
    job = partial(run_job, engine, settings, "finish-erasings")
    *results, job_result = run_simultaneously([*calls, job])
    refusals = {result["error"]["type"] for batch in results for result in batch if "error" in result}
    assert refusals == {"/problems/order-exists"}
    assert job_result["members"] == 1
    rows = shop.rows("purchase_orders", "member_id, external_id", order="order_id")
    assert sorted(row.external_id for row in rows if row.member_id == ben["memberId"]) == sorted(external_ids)
    assert len([row for row in rows if row.external_id.startswith("erased-")]) == 48


def test_an_erased_member_is_on_no_list_of_an_audience(shop):
    """In any order of the calls: the list has the other members, and counts them."""
    integration, administration = shop.integration, shop.administration
    for turn in range(6):
        member_ids = [
            integration.post("/members", {"loyaltyMemberId": f"m-{turn}-{n}"})["loyaltyMember"]["memberId"]
            for n in "abc"
        ]
        body = {"name": f"Panel {turn}", "active": True, "matcherType": "list-matcher"}
        audience_id = administration.post("/audiences", body)["audience"]["audienceId"]
        path = f"/audiences/{audience_id}/members"
        erasing_reply, *change_replies = run_simultaneously(
            [
                partial(administration.request, "DELETE", f"/members/{member_ids[0]}"),
                partial(administration.request, "PATCH", path, {"add": member_ids}),
                partial(administration.request, "PATCH", path, {"add": member_ids[:1]}),
                partial(administration.request, "PATCH", path, {"add": member_ids[1:]}),
            ]
        )
        # The last change is not about the erased member.
        assert (erasing_reply.status, change_replies[-1].status) == (200, 200)
        assert {reply.json["type"] for reply in change_replies if reply.status >= 400} <= {"/problems/member-erased"}
        listed_ids = [row.member_id for row in shop.rows("audience_members") if row.audience_id == audience_id]
        assert sorted(listed_ids) == member_ids[1:]
        assert administration.get(f"/audiences/{audience_id}")["audience"]["memberCount"] == 2


def test_a_message_that_is_deleted_with_its_member_cannot_be_sent_again(shop, monkeypatch):
    administration = shop.administration
    body = {"triggerKey": "told", "type": "EntityChangeWebhook", "name": "Told"}
    trigger = administration.post("/triggers", {**body, "settings": {"url": "https://told.invalid/"}})["trigger"]
    member_id = shop.organization.member("ana")["memberId"]
    path = f"/triggers/{trigger['triggerId']}/deliveries"
    [delivery] = administration.get(path)["results"]
    # The erasing ends after the call has found the message.
    erase = partial(administration.delete, f"/members/{member_id}", expect=200)
    run_after(monkeypatch, dispatch, "_find_records", erase)
    problem = administration.post(f"{path}/{delivery['triggerDeliveryId']}/redeliver", expect=404)
    assert problem["type"] == "/problems/not-found"


def track(surface, path):
    """Send an event and an order, each with an unused key."""
    order_event = event(
        "member-purchase-order-created", payload={"order": order(f"{WORD}-{event()['systemUniqueKey']}")}
    )
    return surface.request("POST", path, {"events": [event("member-generic-event"), order_event]})


def errors(body):
    """The types of the problems in the results of a batch."""
    return {result["error"]["type"] for result in body.get("results", ()) if "error" in result}
