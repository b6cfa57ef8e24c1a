"""The timeline of a member over HTTP: its rows and their order, pages and filters, and refusals."""

from __future__ import annotations

import base64
import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.timeline.rows import KINDS
from tests.builders import missions
from tests.builders.badges import Badges, assigns
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.points import Points
from tests.builders.queue import drain
from tests.builders.referrals import Friends
from tests.builders.statements import count
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running, spend
from tests.builders.triggers import add_trigger
from tests.builders.users import Users

# The effects of the campaign in the text about an event.
EFFECTS = "mint-points 30, burn-points 4, assign-badge 1, assign-coupon 1"


@pytest.fixture
def shop(organization):
    return Shop(organization)


def timeline(shop, member, **query):
    """A page of the timeline of a member."""
    return shop.integration.get(f"/members/{member}/timeline", **query)


def all_rows(shop, member, **query):
    """The rows of all pages, read by their cursors."""
    rows, cursor = [], {}
    while True:
        page = timeline(shop, member, **query, **cursor)
        assert len(page["results"]) <= page["limit"]
        rows += page["results"]
        if page["nextCursor"] is None:
            return rows
        cursor = {"cursor": page["nextCursor"]}


def rows_of_kind(shop, member, kind):
    """All rows of one kind, newest first."""
    return all_rows(shop, member, kinds=kind)


def test_every_kind_of_change_of_a_member_is_reported(shop):
    schedule = TierSchedule.new(shop, Silver=50)
    add_trigger(shop.administration, name="Mailer")
    badge = Badges(shop).create(name="Early bird")
    mission = missions.create(shop, name="Two coffees", eventType=ORDER_CREATED, goalCount=2, pointsAccrual=7)
    book = CouponBooks(shop.organization).make(name="Free coffee", type="codeless", publishingStatus="published")
    effects = (mint(30), spend(4), assigns(badge), effect("assign-coupon", couponBookKey=book["couponBookKey"]))
    campaign = shop.campaign(running(*effects), eventType=ORDER_CREATED, code="COFFEE")
    friends = Friends(shop, name="Bring a friend")
    bob = shop.member()
    code = friends.code(bob)
    ana = shop.member(loyaltyMemberId="ana", profile={"name": "Ana"})
    shop.integration.patch(f"/members/{ana}", {"profile": {"city": "Lima"}, "updateReason": "Moved house"})
    # The second order achieves the mission. The generic event uses the code, which gives ana 50 points.
    for number in (1, 2):
        shop.track_one(order(ana, 12, external_id=f"order-{number}"))
    shop.track_one(event(ana, payload={"referralCode": code}))
    shop.give(ana, 5, description="Sorry")
    rows = all_rows(shop, ana)
    texts = defaultdict(list)
    for row in rows:
        assert row[row["kind"]]
        assert set(KINDS) & row.keys() == {row["kind"]}
        texts[row["kind"]].append(row["text"])
    assert set(texts) == set(KINDS)
    assert f"The order order-1 over 12 was created. Campaign COFFEE: {EFFECTS}." in texts["event"]
    assert "The member was enrolled." in texts["event"]
    assert texts["tier"] == [
        f"The tier in {schedule.program['name']} changed from Member to Silver by the points of {ORDER_CREATED}."
    ]
    assert texts["badge"] == [
        "The badge Early bird was received; the member holds 2.",
        "The badge Early bird was received; the member holds 1.",
    ]
    assert texts["coupon"] == ["The coupon Free coffee was assigned."] * 2
    assert texts["mission"] == [
        "1 counted for the mission Two coffees, whose goal is 2; it was achieved.",
        "1 counted for the mission Two coffees, whose goal is 2.",
    ]
    assert texts["referral"] == [f"The member used the code {code} of Bring a friend, which is the member {bob}'s."]
    update_text, enrolment_text = texts["profile"]
    assert update_text.startswith("The member was changed: profile.city, by ")
    assert update_text.endswith(": Moved house.")
    assert enrolment_text.startswith("The member was enrolled, by ")
    assert "The message event.evaluated to Mailer waits." in texts["message"]
    name = shop.rows("ledger_accounts", "name")[0].name
    points = [row["text"].partition(";")[0] for row in rows if row["kind"] == "points"]
    assert points == [
        f"5 {name} were received by request: Sorry",
        f"50 {name} were received for a referral: Bring a friend",
        f"4 {name} were taken by the campaign COFFEE",
        f"30 {name} were received by the campaign COFFEE",
        f"7 {name} were received as the reward of the mission Two coffees",
        f"4 {name} were taken by the campaign COFFEE",
        f"30 {name} were received by the campaign COFFEE",
    ]
    newest_points = next(row for row in rows if row["kind"] == "points")
    assert newest_points["by"] is not None
    campaign_ids = {row["points"]["campaignId"] for row in rows if row["kind"] == "points"}
    assert campaign_ids == {campaign["campaignId"], None}
    assert mission["missionId"] in {row["mission"]["missionId"] for row in rows if row["kind"] == "mission"}
    assert sum(row["points"]["amount"] for row in rows if row["kind"] == "points") == shop.balance(ana)
    member_id = missions.member_id_of(shop, ana)
    administration_page = shop.administration.get(f"/members/{member_id}/timeline", limit=100)
    assert administration_page["results"] == rows
    [bobs_referral] = rows_of_kind(shop, bob, "referral")
    assert bobs_referral["text"] == f"The member ana used the code {code} of Bring a friend, which is this member's."


def test_rows_are_newest_first_and_pages_do_not_overlap(shop):
    shop.campaign(running(mint(2)), eventType=ORDER_CREATED)
    ana = shop.member()
    for number in range(6):
        shop.track(order(ana, 3, external_id=f"{ana}-{number}"), order(ana, 4))
    rows = all_rows(shop, ana, limit=100)
    moments = [row["recordedAt"] for row in rows]
    assert moments == sorted(moments, reverse=True)
    assert all_rows(shop, ana, limit=1) == all_rows(shop, ana, limit=7) == rows
    # Newest event first, each event directly before its points.
    events_and_points = [(row["loyaltyEventId"], row["kind"]) for row in rows if row["kind"] in ("event", "points")]
    assert events_and_points == sorted(events_and_points, key=lambda pair: (-pair[0], pair[1]))
    # Two orders for each number.
    assert len([row for row in rows if row["kind"] == "points"]) == 6 * 2


def test_later_pages_have_only_rows_that_existed_when_the_first_page_was_read(shop):
    ana = shop.member()
    shop.give(ana, 1)
    shop.give(ana, 2)
    first_page = timeline(shop, ana, limit=1)
    shop.track_one(event(ana))
    shop.give(ana, 3)
    second_page = timeline(shop, ana, limit=100, cursor=first_page["nextCursor"])
    rows = first_page["results"] + second_page["results"]
    assert [row["points"]["amount"] for row in rows if row["kind"] == "points"] == [2, 1]
    assert [row["event"]["eventType"] for row in rows if row["kind"] == "event"] == ["member-created"]


@pytest.mark.slow
def test_rows_are_filtered_by_kind_and_by_time(shop):
    shop.campaign(running(mint(2)))
    ana = shop.member()
    for _ in range(3):
        shop.track_one(event(ana))
    rows = all_rows(shop, ana)
    assert {row["kind"] for row in all_rows(shop, ana, kinds="points,event", limit=2)} == {"points", "event"}
    assert all_rows(shop, ana, kinds="badge") == []
    all_time = {"fromCreatedAt": "0001-01-01T00:00:00Z", "toCreatedAt": "9999-12-31T23:59:59Z"}
    assert all_rows(shop, ana, **all_time) == rows
    moments = sorted({row["recordedAt"] for row in rows})
    for start in moments:
        for end in moments:
            expected_rows = [row for row in rows if start <= row["recordedAt"] < end]
            assert all_rows(shop, ana, fromCreatedAt=start, toCreatedAt=end, limit=3) == expected_rows


def test_rows_are_found_in_every_range_of_weeks(shop):
    ana = shop.member()
    for _ in range(9):
        shop.track_one(event(ana))
    # One event a week, the oldest first; the first of the ten is about the enrolment.
    now = datetime(2026, 3, 2, tzinfo=UTC)
    with shop.engine.begin() as db:
        ids = [row.loyalty_event_id for row in shop.rows("events", order="loyalty_event_id")]
        for number, event_id in enumerate(ids):
            at = now + timedelta(weeks=number)
            statement = "UPDATE events SET created_at = %s WHERE organization_id = %s AND loyalty_event_id = %s"
            db.exec_driver_sql(statement, (at, shop.organization.id, event_id))
    for start in range(10):
        for end in range(start, 10):
            span = {"fromCreatedAt": (now + timedelta(weeks=start)).isoformat().replace("+00:00", "Z")}
            span["toCreatedAt"] = (now + timedelta(weeks=end)).isoformat().replace("+00:00", "Z")
            event_ids = [row["loyaltyEventId"] for row in timeline(shop, ana, kinds="event", **span)["results"]]
            assert event_ids == ids[start:end][::-1]


def test_reversed_rows_are_marked_as_reversed(shop):
    shop.campaign(running(mint(5)), code="FIVE", eventType=GENERIC)
    ana = shop.member()
    key = shop.track_one(event(ana))["loyaltyEventKey"]
    shop.integration.post(f"/events/{key}/cancel", {"description": "By mistake"}, expect=200)
    reversal, award = rows_of_kind(shop, ana, "points")
    assert (award["points"]["amount"], award["points"]["source"]) == (5, "campaign")
    assert award["isReversed"]
    assert (reversal["points"]["amount"], reversal["points"]["source"]) == (-5, "reversal")
    assert not reversal["isReversed"]
    by_key = {row["event"]["loyaltyEventKey"]: row for row in rows_of_kind(shop, ana, "event")}
    assert by_key[key]["isReversed"]
    assert by_key[key]["text"].endswith("It was reversed later.")


@pytest.mark.parametrize(
    ("statuses", "sentence"),
    [
        (["created"], "The order order-17 was cancelled."),
        (["created", "confirmed"], "The confirmation of the order order-17 was cancelled."),
    ],
)
def test_the_cancellation_of_an_event_of_an_order_names_the_order(shop, statuses, sentence):
    ana = shop.member()
    results = [shop.track_one(order(ana, status=status, external_id="order-17")) for status in statuses]
    shop.integration.post(f"/events/{results[-1]['loyaltyEventKey']}/cancel", {}, expect=200)
    newest_row = rows_of_kind(shop, ana, "event")[0]
    assert newest_row["text"] == f"{sentence} It reversed an earlier event."
    assert newest_row["event"]["externalId"] == "order-17"


def test_points_with_a_key_like_a_generated_one_are_reported_as_requested(shop):
    ana = shop.member()
    for name in ("coupon-usage-x", "mission-progress-1:mission-1"):
        shop.give(ana, 1, systemUniqueKey=name)
    assert {row["points"]["source"] for row in rows_of_kind(shop, ana, "points")} == {"request"}


def test_the_revert_of_a_mint_that_waits_reports_cancelled_points(shop):
    ana = shop.member()
    points = Points(shop.organization, {"ledgerAccountId": shop.organization.defaults.ledger_account_id})

    def mint_and_revert(amount, **terms):
        """Mint points and revert the mint; return its id."""
        mint_id = shop.give(ana, amount, **terms)["ledgerTransactionId"]
        points.revert(mint_id)
        return mint_id

    waiting_id, settled_id = mint_and_revert(12, availableAfter="P1D"), mint_and_revert(7)
    texts = [row["text"] for row in rows_of_kind(shop, ana, "points") if row["points"]["transactionType"] == "revert"]
    assert texts == [
        f"7 Points were taken, since the transaction {settled_id} was reverted; the balance was 0.",
        f"12 Points were cancelled while they were pending, since the transaction {waiting_id} was reverted; "
        "the balance was 0.",
    ]


def test_the_text_about_a_failed_event_has_the_reason(shop):
    ana = shop.member()
    shop.expect_refusal(order_update(ana, "order-1", "confirmed"))
    text = rows_of_kind(shop, ana, "event")[0]["text"]
    assert text.startswith("The order order-1 was confirmed. It failed: ")


def test_an_erased_member_has_a_timeline_without_personal_data(shop):
    ana = shop.member(profile={"name": "Ana", "city": "Rosario"})
    shop.integration.patch(f"/members/{ana}", {"profile": {"city": "Lima"}, "updateReason": "Moved to Lima"})
    shop.give(ana, 5, description="For Ana")
    member_id = missions.member_id_of(shop, ana)
    shop.administration.delete(f"/members/{member_id}", expect=200)
    page = shop.administration.get(f"/members/{member_id}/timeline", limit=100)
    assert {"points", "profile"} <= {row["kind"] for row in page["results"]}
    assert not {"Ana", "Lima", "Rosario"} & set(json.dumps(page, default=str).replace('"', " ").split())


def test_the_number_of_statements_does_not_depend_on_the_number_of_rows(shop):
    shop.campaign(running(mint(1)), eventType=ORDER_CREATED)
    ana = shop.member()
    shop.track_one(order(ana))
    # The first read fills caches.
    timeline(shop, ana)
    count_of_few_rows = count(shop.engine, lambda: timeline(shop, ana, limit=100))
    shop.track(*(order(ana) for _ in range(20)))
    assert count(shop.engine, lambda: timeline(shop, ana, limit=100)) == count_of_few_rows


@pytest.mark.parametrize(
    "cursor", ["x", "!!", "bnVsbA", base64.urlsafe_b64encode(b'{"events": -1}').decode(), "eyJ0YWJsZXMiOiAxfQ"]
)
def test_a_cursor_that_no_response_returned_is_refused(shop, cursor):
    problem = shop.integration.get(f"/members/{shop.member()}/timeline", cursor=cursor, expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["cursor"]


@pytest.mark.parametrize(("role", "status"), [("members:read", 200), ("ledgers:read", 403)])
def test_the_timeline_needs_the_role_to_read_members(shop, role, status):
    surface = shop.integration.with_token(shop.organization.token_of(role))
    surface.get(f"/members/{shop.member()}/timeline", expect=status)


def test_the_timeline_of_a_member_of_another_organization_is_not_found(shop, other_organization):
    problem = other_organization.integration.get(f"/members/{shop.member()}/timeline", expect=404)
    assert problem["type"] == "/problems/not-found"


# A kind of step and an amount.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["mint", "burn", "hold", "send", "capture", "revert", "track", "cancel", "wait", "release"]),
        st.integers(1, 12),
    ),
    min_size=4,
    max_size=12,
)


@pytest.mark.slow
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, overdraft=st.sampled_from([None, 20]))
def test_the_amounts_of_all_rows_add_up_to_the_balance(api, steps, overdraft):
    shop = Shop(api.organization())
    account = shop.account(overdraftLimit=overdraft)
    ledger = f"/ledgers/{account['ledgerId']}/accounts/{account['ledgerAccountId']}"
    shop.campaign(running(mint(("=", "event.payload.value"), ledgerAccountKey=account["ledgerAccountKey"])))
    ana, bob = shop.organization.member(), shop.organization.member()
    wallet_of_ana, wallet_of_bob = ana["ledgerWalletId"], bob["ledgerWalletId"]
    transactions, events = [], []

    def post(amount, *, source=None, target=None, **more):
        """Post a movement, which may be refused; add its id to `transactions`."""
        body = {"amount": amount, "fromWalletId": source, "toWalletId": target, **more}
        reply = shop.administration.request("POST", f"{ledger}/transactions", body)
        if reply.status == 201:
            transactions.append(reply.json["transactions"][0]["ledgerTransactionId"])

    for kind, amount in steps:
        if kind == "mint":
            post(amount, target=wallet_of_ana)
        elif kind == "wait":
            post(amount, target=wallet_of_ana, availableAfter="P1D")
        elif kind == "release" and transactions:
            body = {"transactions": [{"ledgerTransactionId": transactions[-1]}]}
            shop.administration.request("POST", f"{ledger}/releases", body)
        elif kind == "burn":
            post(amount, source=wallet_of_ana)
        elif kind == "hold":
            post(amount, source=wallet_of_ana, captureMethod="manual")
        elif kind == "send":
            post(amount, source=wallet_of_ana, target=wallet_of_bob)
        elif kind == "capture" and transactions:
            body = {"transactions": [{"ledgerTransactionId": transactions[-1], "captureAmount": 1}]}
            shop.administration.request("POST", f"{ledger}/captures", body)
        elif kind == "revert" and transactions:
            body = {"burnAvailableBalance": True}
            shop.administration.request("POST", f"{ledger}/transactions/{transactions[-1]}/revert", body)
        elif kind == "track":
            track_result = shop.track_one(event(ana["loyaltyMemberId"], payload={"value": Decimal(amount)}))
            events.append(track_result["loyaltyEventKey"])
        elif kind == "cancel" and events:
            shop.integration.request("POST", f"/events/{events.pop()}/cancel", {})
    with shop.engine.connect() as db:
        balances = {
            wallet_id: (balance, debt)
            for wallet_id, balance, debt in db.exec_driver_sql(
                "SELECT wallet_id, current_balance, current_overdraft_balance FROM ledger_balances"
                " WHERE organization_id = %s",
                (shop.organization.id,),
            )
        }
    for member in (ana, bob):
        rows = all_rows(shop, member["loyaltyMemberId"], kinds="points", limit=3)
        balance, debt = balances.get(member["ledgerWalletId"], (0, 0))
        amounts = [row.get("points", row.get("pointsRelease"))["amount"] for row in rows]
        assert sum(amounts) == balance - debt
        # A step has at most two rows with an amount.
        assert len([amount for amount in amounts if amount]) <= len(steps) * 2


def test_events_orders_and_mission_progress_report_who_sent_them(organization):
    shop, users = Shop(organization), Users.of(organization)
    mission = missions.create(shop, eventType=GENERIC, goalCount=5)
    ana = organization.member()
    cashier, clerk = (users.create(roles=["orders:write", "campaigns:write", "members:read"]) for _ in range(2))
    cashier_surface, clerk_surface = (organization.api.surface(token=users.token(user)) for user in (cashier, clerk))
    body = {"loyaltyMemberId": ana["loyaltyMemberId"], "eventType": GENERIC}
    for surface, key in ((cashier_surface, "by-cashier"), (clerk_surface, "by-clerk")):
        surface.post("/events/track", {"events": [{**body, "systemUniqueKey": key}]}, expect=200)
    cashier_surface.post("/events/track-async", {"events": [{**body, "systemUniqueKey": "queued"}]}, expect=202)
    drain(shop)
    clerk_administration = users.by(users.token(clerk)).surface
    path = f"/members/{ana['memberId']}"
    clerk_administration.post(
        f"{path}/purchase-orders", {"externalId": "o-1", "type": "shop", "total": 5, "status": "created"}
    )
    clerk_administration.post(f"{path}/missions/{mission['missionId']}/progress", {"amount": 2}, expect=200)
    events = organization.administration.get(f"{path}/events", limit=25)["results"]
    by_key = {event["systemUniqueKey"]: (event["actor"], event["userId"]) for event in events}
    by_type = {event["eventType"]: (event["actor"], event["userId"]) for event in events}
    ids_of_cashier, ids_of_clerk = ((user["authClientId"], user["userId"]) for user in (cashier, clerk))
    assert by_key["by-cashier"] == ids_of_cashier
    assert by_key["by-clerk"] == ids_of_clerk
    assert by_key["queued"] == ids_of_cashier
    assert by_type[ORDER_CREATED] == ids_of_clerk
    rows = timeline(shop, ana["loyaltyMemberId"], limit=100, kinds="event,mission")["results"]
    [order_row] = [row for row in rows if row["kind"] == "event" and row["event"]["eventType"] == ORDER_CREATED]
    assert order_row["by"] == clerk["authClientId"]
    [progress] = [row for row in rows if row["kind"] == "mission" and row["loyaltyEventId"] is None]
    assert (progress["mission"]["counted"], progress["by"]) == (2, clerk["authClientId"])
    # The integration interface does not return who sent an event.
    assert "actor" not in organization.integration.get(f"/members/{ana['loyaltyMemberId']}/events")["results"][0]
