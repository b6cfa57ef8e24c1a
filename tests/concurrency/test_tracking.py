"""Batches, limits, orders, members and campaigns that many threads use and change at the same time."""

from __future__ import annotations

import threading
from collections import Counter
from functools import partial

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.tracking import WHOLE_DOLLARS, event, order, order_update, running
from tests.concurrency.simultaneous import run_simultaneously


def test_batches_that_touch_the_same_members_in_opposite_order_give_all_points(shop):
    members = [shop.member() for _ in range(12)]
    capped_account = shop.account(maxSupply=10**9)
    for _ in range(2):
        shop.campaign(
            running(
                mint(1), mint(1, ledgerAccountKey=capped_account["ledgerAccountKey"]), mint(1, recipient="sponsor")
            ),
            limitRules=[
                {"scope": "campaign", "type": "points", "period": "daily", "limit": 10**9},
                {"scope": "campaign", "type": "transactions", "period": "total", "limit": 10**9},
            ],
            pointsMonthlyLimitPerMember=10**9,
        )

    def rounds(ordered_members, count):
        for _ in range(count):
            sponsors = ordered_members[1:] + ordered_members[:1]
            batch = [
                event(member, sponsorLoyaltyMemberId=sponsor)
                for member, sponsor in zip(ordered_members, sponsors, strict=True)
            ]
            for result in shop.track(*batch):
                assert result["status"] == "success", result
                # Two campaigns with three effects each.
                assert [effect["status"] for effect in result["effects"]] == ["executed"] * 6

    run_simultaneously([partial(rounds, list(member_order), 12) for member_order in (members, members[::-1])] * 2)
    # 4 threads with 12 batches, and 4 points in each: 2 for the event of the member and 2 as a sponsor.
    assert [shop.balance(member) for member in members] == [4 * 12 * 4] * 12


def test_members_who_sponsor_each_other_get_all_points(shop):
    ana, ben = shop.member(), shop.member()
    shop.campaign(running(mint(1), mint(1, recipient="sponsor")))
    for _ in range(4):
        run_simultaneously(
            [
                partial(shop.track_one, event(ana, sponsorLoyaltyMemberId=ben)),
                partial(shop.track_one, event(ben, sponsorLoyaltyMemberId=ana)),
            ]
            * 8
        )
    # The eight calls of a pair have one key and act once; in each of 4 rounds, both members get 2 points.
    assert (shop.balance(ana), shop.balance(ben)) == (4 * 2, 4 * 2)


# A limit, whether an order may get a part of its points, and the points that all orders get together.
# Each order gives 7 points: without parts, 14 orders get 98 of 100 points, and 9 orders get 63.
LIMITS = [
    ({"pointsMonthlyLimitPerMember": 100}, True, 100),
    ({"pointsMonthlyLimitPerMember": 100}, False, 14 * 7),
    ({"limitRules": [{"scope": "member", "type": "points", "period": "total", "limit": 100}]}, True, 100),
    ({"limitRules": [{"scope": "campaign", "type": "points", "period": "total", "limit": 100}]}, True, 100),
    ({"limitRules": [{"scope": "campaign", "type": "points", "period": "monthly", "limit": 100}]}, False, 14 * 7),
    ({"limitRules": [{"scope": "campaign", "type": "transactions", "period": "monthly", "limit": 9}]}, False, 9 * 7),
    ({"maxTransactionsPerMember": 9}, False, 9 * 7),
]


@pytest.mark.parametrize(("limit", "parts", "total"), LIMITS)
def test_orders_at_the_same_time_stop_exactly_at_a_limit(shop, limit, parts, total):
    [limit_rule] = limit.get("limitRules", [{"scope": "member"}])
    members = [shop.member() for _ in range(1 if limit_rule["scope"] == "member" else 8)]
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType="member-purchase-order-created",
        allowPartialApplicationOnLimit=parts,
        **limit,
    )
    day = "2026-03-04T12:00:00Z"
    # 32 calls with two orders of 7 dollars.
    batches = [[order(members[(i + j) % len(members)], 7, externalEventDate=day) for j in range(2)] for i in range(32)]
    outcomes = run_simultaneously([partial(shop.track, *batch) for batch in batches])
    results = [result for batch in outcomes for result in batch]
    assert {result["status"] for result in results} == {"success"}
    assert sum(shop.balance(member) for member in members) == total
    discarded_points = sum(result["limitDiscardedTotalAmount"] for result in results)
    assert discarded_points == 32 * 2 * 7 - total
    [counter_value] = {row.used for row in shop.rows("campaign_limit_counters")}
    # The counters of the limits of transactions count 9 orders; the others count points.
    assert counter_value == (9 if total == 9 * 7 else total)


def test_events_stop_exactly_at_a_limit_and_cancellations_release_it(shop):
    members = [shop.member() for _ in range(8)]
    shop.campaign(
        running(effect("discount", type="amount", value=1), mint(2)),
        limitRules=[
            {"scope": "campaign", "type": "transactions", "period": "total", "limit": 11},
            {"scope": "campaign", "type": "points", "period": "total", "limit": 22},
        ],
        eventType="member-generic-event",
    )
    modes = ("full", "authorize")
    calls = [partial(shop.track_one, event(members[i % 8]), executionMode=modes[i % 2]) for i in range(32)]
    executed_results = [result for result in run_simultaneously(calls) if result["effects"][0]["status"] != "skipped"]
    assert len(executed_results) == 11
    cancelled_results = executed_results[:5]
    cancels = [
        partial(shop.integration.post, f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        for result in cancelled_results
    ]
    # More events than the 5 that the cancellations allow again.
    later_calls = [partial(shop.track_one, event(members[i % 8])) for i in range(27)]
    outcomes = run_simultaneously([*cancels, *later_calls])[len(cancels) :]
    later_executed_results = [outcome for outcome in outcomes if outcome["effects"][0]["status"] == "executed"]
    # Events before a cancellation were over the limit; events after all cancellations can use the remaining limit.
    assert len(later_executed_results) <= len(cancelled_results)
    last_results = [
        shop.track_one(event(members[0])) for _ in range(len(cancelled_results) - len(later_executed_results) + 1)
    ]
    statuses = [result["effects"][0]["status"] for result in last_results]
    assert statuses == ["executed"] * (len(cancelled_results) - len(later_executed_results)) + ["skipped"]
    counters = {(row.type, row.used) for row in shop.rows("campaign_limit_counters")}
    assert counters == {("transactions", 11), ("points", 22)}


def test_only_one_of_4_members_gets_the_order_with_one_external_id(shop):
    members = [shop.member() for _ in range(4)]
    shop.campaign(running(mint(5)), eventType="member-purchase-order-created")
    for number in range(6):
        calls = [partial(shop.track, order(member, 10, external_id=f"o-{number}"), event(member)) for member in members]
        outcomes = run_simultaneously(calls)
        assert Counter(result.get("error", {}).get("type") for result, _ in outcomes) == {
            None: 1,
            "/problems/order-exists": 3,
        }
        assert {generic_result["status"] for _, generic_result in outcomes} == {"success"}
    # In each of the 6 rounds, one order is created and three fail.
    assert sum(shop.balance(member) for member in members) == 6 * 5
    assert len(shop.rows("purchase_orders")) == 6
    failed_events = [row for row in shop.rows("events") if row.status == "failed"]
    assert len(failed_events) == 6 * 3


def test_an_order_is_either_confirmed_or_rejected_once(shop):
    member = shop.member()
    shop.campaign(running(mint(5)), enabledTopics=["member-purchase-order-confirmed", "member-purchase-order-rejected"])
    for number in range(4):
        shop.track_one(order(member, 10, external_id=f"o-{number}"))
        statuses = ("confirmed", "rejected") * 4
        outcomes = run_simultaneously(
            [partial(shop.track, order_update(member, f"o-{number}", status)) for status in statuses]
        )
        counts = Counter(result.get("error", {}).get("type") for [result] in outcomes)
        assert counts == {None: 1, "/problems/order-status": 7}
    # The confirmation or rejection of each of the four orders mints 5 points.
    assert shop.balance(member) == 4 * 5


def test_only_one_of_16_calls_enrols_a_loyalty_member_id(shop):
    shop.campaign(running(mint(5)), eventType="member-created")
    for number in range(4):
        name = f"ana-{number}"
        call = partial(shop.integration.request, "POST", "/members", {"loyaltyMemberId": name})
        replies = run_simultaneously([call] * 16)
        assert Counter(reply.status for reply in replies) == {201: 1, 409: 15}
        assert {reply.json["type"] for reply in replies if reply.status == 409} == {"/problems/member-exists"}
        assert shop.balance(name) == 5
    assert len(shop.rows("members")) == len(shop.rows("wallets")) == 4


def test_actions_created_at_the_same_time_get_consecutive_places(shop):
    campaign = shop.campaign()
    path = f"/campaigns/{campaign['campaignId']}/actions"
    outcomes = run_simultaneously([partial(shop.administration.post, path, running(mint(1)))] * 12)
    assert sorted(outcome["action"]["actionIndex"] for outcome in outcomes) == list(range(12))


def test_a_changed_campaign_applies_to_all_events_sent_after_the_change(shop):
    members = [shop.member() for _ in range(6)]
    campaign = shop.campaign(running(mint(1)))
    path = f"/campaigns/{campaign['campaignId']}/actions/{campaign['actions'][0]['actionId']}"
    stored_amounts, changes_are_done, faults = [1], threading.Event(), []

    def purchases(member):
        while not changes_are_done.is_set():
            minimum = stored_amounts[-1]
            [result] = shop.track(event(member))
            amounts = [effect["params"][0]["value"] for effect in result["effects"]]
            if result["status"] != "success" or len(amounts) != 1 or amounts[0] < minimum:
                faults.append((minimum, result))

    def changes():
        try:
            for amount in range(2, 20):
                shop.administration.put(path, running(mint(amount)))
                stored_amounts.append(amount)
        finally:
            changes_are_done.set()

    run_simultaneously([*(partial(purchases, member) for member in members), changes])
    assert faults == []
    [last_effect] = shop.track_one(event(members[0]))["effects"]
    assert last_effect["params"][0]["value"] == 19


def test_an_account_that_starts_to_track_points_while_they_move_tracks_all_of_them(shop):
    accounts = [shop.account() for _ in range(4)]
    member_of = {account["ledgerAccountId"]: [shop.member() for _ in range(4)] for account in accounts}
    shop.campaign(*(running(mint(1, ledgerAccountKey=account["ledgerAccountKey"])) for account in accounts))
    changes_are_done = threading.Event()

    def load(index):
        while not changes_are_done.is_set():
            for account in accounts:
                member = member_of[account["ledgerAccountId"]][index]
                shop.give(member, 2, ledgerAccountId=account["ledgerAccountId"])
                shop.take(member, 1, ledgerAccountId=account["ledgerAccountId"])
                result = shop.track_one(event(member))
                assert {effect["status"] for effect in result["effects"]} == {"executed"}

    def settings():
        try:
            for account in accounts:
                path = f"/ledgers/{account['ledgerId']}/accounts/{account['ledgerAccountId']}"
                body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
                shop.administration.put(path, {**body, "pointTrackingEnabled": True})
        finally:
            changes_are_done.set()

    run_simultaneously([*(partial(load, index) for index in range(4)), settings])
    for account in accounts:
        for member in member_of[account["ledgerAccountId"]]:
            balance = shop.balance(member, account["ledgerAccountId"])
            # The burn is refused if the lots of the member do not hold the whole balance.
            if balance:
                shop.take(member, balance, ledgerAccountId=account["ledgerAccountId"])
            assert shop.balance(member, account["ledgerAccountId"]) == 0
