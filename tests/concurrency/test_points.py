"""Calls of many threads with one wallet, key or supply: the results are those of calls one after the other."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.builders.campaigns import mint
from tests.builders.tracking import event, key, running, spend
from tests.concurrency.simultaneous import run_simultaneously, statuses


def movement(shop, member, action, amount, **body):
    """A call that mints or burns points of a member."""
    path = f"/members/by-loyalty-member-id/{member}/{action}"
    return partial(shop.administration.request, "POST", path, {"amount": amount, **body})


@pytest.mark.parametrize("is_tracked", [False, True])
def test_burns_of_64_threads_stop_before_the_balance_is_negative(shop, is_tracked):
    member = shop.member()
    account = shop.account(pointTrackingEnabled=is_tracked)["ledgerAccountId"]
    for _ in range(10):
        shop.give(member, 10, ledgerAccountId=account)
    replies = run_simultaneously([movement(shop, member, "burn", 3, ledgerAccountId=account)] * 64)
    # 33 burns of 3 leave 1 of the 100 points.
    assert statuses(replies) == {(200, None): 33, (409, "/problems/insufficient-balance"): 31}
    assert shop.balance(member, account) == 1
    # One point is enough for one more burn.
    replies = run_simultaneously([movement(shop, member, "burn", 1, ledgerAccountId=account)] * 8)
    assert statuses(replies) == {(200, None): 1, (409, "/problems/insufficient-balance"): 7}
    assert shop.balance(member, account) == 0


def test_mints_and_burns_of_one_wallet_all_count(shop):
    member = shop.member()
    shop.give(member, 1000)
    replies = run_simultaneously([movement(shop, member, "mint", 5), movement(shop, member, "burn", 3)] * 24)
    assert {reply.status for reply in replies} == {200}
    assert shop.balance(member) == 1000 + 24 * (5 - 3)


def test_burns_by_events_and_by_calls_share_one_balance(shop):
    member = shop.member()
    shop.give(member, 50)
    shop.campaign(running(spend(3)))
    calls = []
    for _ in range(16):
        calls += [movement(shop, member, "burn", 3), partial(shop.track, event(member))]
    outcomes = run_simultaneously(calls)
    burn_count = sum(reply.status == 200 for reply in outcomes[::2])
    spending_event_count = sum(result["effects"][0]["status"] == "executed" for [result] in outcomes[1::2])
    # 16 burns of 3 leave 2 of the 50 points.
    assert burn_count + spending_event_count == 16
    assert shop.balance(member) == 2


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_calls_with_one_key_move_points_once_and_get_the_same_response(shop, action):
    member = shop.member()
    shop.give(member, 100)
    for _ in range(5):
        balance_before = shop.balance(member)
        replies = run_simultaneously([movement(shop, member, action, 5, systemUniqueKey=key(), tags=["a"])] * 16)
        assert {reply.status for reply in replies} == {200}
        assert len({reply.text for reply in replies}) == 1
        assert abs(shop.balance(member) - balance_before) == 5


def test_one_key_mints_for_only_one_of_8_members(shop):
    members = [shop.member() for _ in range(8)]
    for _ in range(5):
        unique_key = key()
        replies = run_simultaneously(
            [movement(shop, member, "mint", 5, systemUniqueKey=unique_key) for member in members]
        )
        assert statuses(replies) == {(200, None): 1, (409, "/problems/key-reused"): 7}
    assert sum(shop.balance(member) for member in members) == 5 * 5


def test_events_with_one_key_act_once_and_get_the_same_response(shop):
    member = shop.member()
    shop.campaign(running(mint(5), spend(1)), maxTransactionsPerMember=100)
    for round_number in range(1, 6):
        body = {"events": [event(member, payload={"n": 1})]}
        replies = run_simultaneously([partial(shop.integration.request, "POST", "/events/track", body)] * 16)
        assert {reply.status for reply in replies} == {200}
        assert len({reply.text for reply in replies}) == 1
        assert shop.balance(member) == (5 - 1) * round_number
        assert len(shop.events(member)) == round_number


def test_one_key_tracks_an_event_of_only_one_of_8_members(shop):
    members = [shop.member() for _ in range(8)]
    shop.campaign(running(mint(5)))
    for _ in range(5):
        unique_key = key()
        outcomes = run_simultaneously(
            [partial(shop.track, {**event(member), "systemUniqueKey": unique_key}) for member in members]
        )
        counts = Counter(result.get("error", {}).get("type") for [result] in outcomes)
        assert counts == {None: 1, "/problems/key-reused": 7}
    assert sum(shop.balance(member) for member in members) == 5 * 5


def test_the_whole_supply_is_issued_and_no_more(shop):
    account = shop.account(maxSupply=100)
    members = [shop.member() for _ in range(8)]
    calls = [movement(shop, member, "mint", 7, ledgerAccountId=account["ledgerAccountId"]) for member in members * 4]
    # 14 mints of 7 leave 2 of the 100 points.
    assert statuses(run_simultaneously(calls)) == {(200, None): 14, (409, "/problems/supply-exceeded"): 18}
    calls = [movement(shop, member, "mint", 1, ledgerAccountId=account["ledgerAccountId"]) for member in members]
    assert statuses(run_simultaneously(calls)) == {(200, None): 2, (409, "/problems/supply-exceeded"): 6}
    assert sum(shop.balance(member, account["ledgerAccountId"]) for member in members) == 14 * 7 + 2 * 1 == 100


def test_events_and_calls_issue_from_one_supply(shop):
    account = shop.account(maxSupply=100)
    account_id, members = account["ledgerAccountId"], [shop.member() for _ in range(8)]
    shop.campaign(running(mint(7, ledgerAccountKey=account["ledgerAccountKey"])))
    calls = []
    for member in members * 2:
        calls += [
            movement(shop, member, "mint", 7, ledgerAccountId=account_id),
            partial(shop.track, event(member), event(member)),
        ]
    outcomes = run_simultaneously(calls)
    mint_count = sum(reply.status == 200 for reply in outcomes[::2])
    mint_count += sum(result["effects"][0]["status"] == "executed" for results in outcomes[1::2] for result in results)
    # 14 mints of 7 leave 2 of the 100 points, which are not enough for one more.
    assert mint_count == 14
    assert sum(shop.balance(member, account_id) for member in members) == 14 * 7


def test_burned_points_of_a_revolving_supply_can_be_issued_again(shop):
    account = shop.account(maxSupply=40)["ledgerAccountId"]
    member = shop.member()
    shop.give(member, 40, ledgerAccountId=account)
    calls = [
        movement(shop, member, "burn", 5, ledgerAccountId=account),
        movement(shop, member, "mint", 5, ledgerAccountId=account),
    ]
    replies = run_simultaneously(calls * 12)
    burn_count = sum(reply.status == 200 for reply in replies[::2])
    mint_count = sum(reply.status == 200 for reply in replies[1::2])
    balance = shop.balance(member, account)
    assert balance == 40 - 5 * burn_count + 5 * mint_count
    # Without other calls, exactly the burned points can be issued again.
    refusal = movement(shop, member, "mint", 40 - balance + 1, ledgerAccountId=account)()
    assert (refusal.status, refusal.json["type"]) == (409, "/problems/supply-exceeded")
    shop.take(member, balance, ledgerAccountId=account)
    shop.give(member, 40, ledgerAccountId=account)
    assert shop.balance(member, account) == 40


def test_expired_points_are_burned_only_by_the_first_of_many_calls(shop):
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=1)["ledgerAccountId"]
    member = shop.member()
    shop.give(member, 10, ledgerAccountId=account)
    with shop.organization.api.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE ledger_lots SET expires_at = now() - interval '1 day' WHERE organization_id = %s",
            (shop.organization.id,),
        )
    replies = run_simultaneously([movement(shop, member, "mint", 1, ledgerAccountId=account)] * 16)
    assert {reply.status for reply in replies} == {200}
    # The points of the 16 mints of 1; the 10 points before them have expired.
    assert shop.balance(member, account) == 16
    assert [row.amount for row in shop.rows("ledger_transactions") if row.is_expiry] == [10]
