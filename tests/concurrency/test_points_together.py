"""Many threads on one wallet, one key, one supply: as if one call came after the other."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.builders.campaigns import mint
from tests.builders.tracking import event, key, running, spend
from tests.concurrency.together import together


def statuses(replies):
    return Counter((reply.status, reply.json.get("type")) for reply in replies)


def mover(shop, member, action, amount, **body):
    path = f"/members/by-loyalty-member-id/{member}/{action}"
    return partial(shop.administration.request, "POST", path, {"amount": amount, **body})


@pytest.mark.parametrize("tracked", [False, True])
def test_64_threads_burn_one_wallet_to_zero_and_no_further(shop, tracked):
    member = shop.member()
    account = shop.account(pointTrackingEnabled=tracked)["ledgerAccountId"]
    for _ in range(10):
        shop.give(member, 10, ledgerAccountId=account)
    replies = together([mover(shop, member, "burn", 3, ledgerAccountId=account)] * 64)
    assert statuses(replies) == {(200, None): 33, (409, "/problems/insufficient-balance"): 31}
    assert shop.balance(member, account) == 1
    replies = together([mover(shop, member, "burn", 1, ledgerAccountId=account)] * 8)
    assert statuses(replies) == {(200, None): 1, (409, "/problems/insufficient-balance"): 7}
    assert shop.balance(member, account) == 0


def test_mints_and_burns_of_one_wallet_all_count(shop):
    member = shop.member()
    shop.give(member, 1000)
    replies = together([mover(shop, member, "mint", 5), mover(shop, member, "burn", 3)] * 24)
    assert {reply.status for reply in replies} == {200}
    assert shop.balance(member) == 1000 + 24 * 2


def test_burns_by_events_and_by_calls_share_one_balance(shop):
    member = shop.member()
    shop.give(member, 50)
    shop.campaign(running(spend(3)))
    calls = []
    for _ in range(16):
        calls += [mover(shop, member, "burn", 3), partial(shop.track, event(member))]
    answers = together(calls)
    burned = sum(reply.status == 200 for reply in answers[::2])
    spending_events = sum(result["effects"][0]["status"] == "executed" for [result] in answers[1::2])
    assert burned + spending_events == 16
    assert shop.balance(member) == 2


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_one_key_moves_points_once_and_returns_all_alike(shop, action):
    member = shop.member()
    shop.give(member, 100)
    for _ in range(5):
        before = shop.balance(member)
        replies = together([mover(shop, member, action, 5, systemUniqueKey=key(), tags=["a"])] * 16)
        assert {reply.status for reply in replies} == {200}
        assert len({reply.text for reply in replies}) == 1
        assert abs(shop.balance(member) - before) == 5


def test_one_key_for_two_members_goes_to_one_of_them(shop):
    members = [shop.member() for _ in range(8)]
    for _ in range(5):
        unique_key = key()
        replies = together([mover(shop, member, "mint", 5, systemUniqueKey=unique_key) for member in members])
        assert statuses(replies) == {(200, None): 1, (409, "/problems/key-reused"): 7}
    assert sum(shop.balance(member) for member in members) == 25


def test_one_key_of_an_event_acts_once_and_returns_all_alike(shop):
    member = shop.member()
    shop.campaign(running(mint(5), spend(1)), maxTransactionsPerMember=100)
    for round_number in range(1, 6):
        body = {"events": [event(member, payload={"n": 1})]}
        replies = together([partial(shop.integration.request, "POST", "/events/track", body)] * 16)
        assert {reply.status for reply in replies} == {200}
        assert len({reply.text for reply in replies}) == 1
        assert shop.balance(member) == 4 * round_number
        assert len(shop.events(member)) == round_number


def test_one_key_of_an_event_for_two_members_goes_to_one_of_them(shop):
    members = [shop.member() for _ in range(8)]
    shop.campaign(running(mint(5)))
    for _ in range(5):
        unique_key = key()
        answers = together(
            [partial(shop.track, {**event(member), "systemUniqueKey": unique_key}) for member in members]
        )
        counts = Counter(result.get("error", {}).get("type") for [result] in answers)
        assert counts == {None: 1, "/problems/key-reused": 7}
    assert sum(shop.balance(member) for member in members) == 25


def test_a_supply_is_issued_to_the_last_point_and_not_beyond(shop):
    account = shop.account(maxSupply=100)
    members = [shop.member() for _ in range(8)]
    calls = [mover(shop, member, "mint", 7, ledgerAccountId=account["ledgerAccountId"]) for member in members * 4]
    assert statuses(together(calls)) == {(200, None): 14, (409, "/problems/supply-exceeded"): 18}
    calls = [mover(shop, member, "mint", 1, ledgerAccountId=account["ledgerAccountId"]) for member in members]
    assert statuses(together(calls)) == {(200, None): 2, (409, "/problems/supply-exceeded"): 6}
    total = sum(shop.balance(member, account["ledgerAccountId"]) for member in members)
    assert total == 100


def test_a_supply_that_events_and_calls_issue_is_one_supply(shop):
    account = shop.account(maxSupply=100)
    number, members = account["ledgerAccountId"], [shop.member() for _ in range(8)]
    shop.campaign(running(mint(7, ledgerAccountKey=account["ledgerAccountKey"])))
    calls = []
    for member in members * 2:
        calls += [
            mover(shop, member, "mint", 7, ledgerAccountId=number),
            partial(shop.track, event(member), event(member)),
        ]
    answers = together(calls)
    minted = sum(reply.status == 200 for reply in answers[::2])
    minted += sum(r["effects"][0]["status"] == "executed" for results in answers[1::2] for r in results)
    assert minted == 14
    assert sum(shop.balance(member, number) for member in members) == 98


def test_what_is_burned_of_a_revolving_supply_can_be_issued_again(shop):
    account = shop.account(maxSupply=40)["ledgerAccountId"]
    member = shop.member()
    shop.give(member, 40, ledgerAccountId=account)
    calls = [
        mover(shop, member, "burn", 5, ledgerAccountId=account),
        mover(shop, member, "mint", 5, ledgerAccountId=account),
    ]
    replies = together(calls * 12)
    changes = sum((reply.status == 200) * (1 if index % 2 else -1) * 5 for index, reply in enumerate(replies))
    assert shop.balance(member, account) == 40 + changes <= 40


def test_expired_value_is_burned_once_by_the_first_call(shop):
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=1)["ledgerAccountId"]
    member = shop.member()
    shop.give(member, 10, ledgerAccountId=account)
    with shop.organization.api.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE ledger_lots SET expires_at = now() - interval '1 day' WHERE organization_id = %s",
            (shop.organization.id,),
        )
    replies = together([mover(shop, member, "mint", 1, ledgerAccountId=account)] * 16)
    assert {reply.status for reply in replies} == {200}
    assert shop.balance(member, account) == 16
    assert [row.amount for row in shop.rows("ledger_transactions") if row.is_expiry] == [10]
