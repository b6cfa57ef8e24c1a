"""Tiers of members whom many calls move at the same time."""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.builders.campaigns import mint
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, event, key, running, spend
from tests.concurrency.simultaneous import run_simultaneously

SET = "member-tier-set"


def check_tiers_and_moves(shop, schedule, members):
    """Check that each member has the tier of the balance, and that the reported moves lead to it without gaps."""
    for member in members:
        balance = shop.balance(member)
        _, highest_tier = max(
            (tier["minRequiredPoints"], name)
            for name, tier in schedule.tiers.items()
            if tier["minRequiredPoints"] <= balance
        )
        assert schedule.of(member) == highest_tier
        moves = schedule.moves(member)
        tiers_before, tiers_after = [before for _, before, _ in moves], [after for _, _, after in moves]
        # Each move begins at the tier that the one before it led to; the first one begins at Basic.
        assert tiers_before == ["Basic", *tiers_after][:-1]
        assert tiers_after[-1] == highest_tier
        assert all(before != after for _, before, after in moves)


def test_batches_and_calls_that_move_the_same_members_report_tier_moves_without_gaps(shop):
    schedule = TierSchedule.new(shop, **{f"Tier{n}": 10 * n for n in range(1, 8)})
    members = [shop.member() for _ in range(6)]
    daily_limit = {"scope": "campaign", "type": "points", "period": "daily", "limit": 10**9}
    shop.campaign(running(mint(7)), eventType=GENERIC, limitRules=[daily_limit])
    shop.campaign(running(spend(30), rule="balances.points >= 45"), eventType=GENERIC)
    shop.campaign(running(mint(1)), eventType=SET, limitRules=[daily_limit], maxTransactionsPerMember=10**6)

    def rounds(ordered_members):
        for _ in range(6):
            for result in shop.track(*(event(ordered_member) for ordered_member in ordered_members)):
                assert result["status"] == "success", result

    def gifts(member):
        for _ in range(6):
            shop.give(member, 11)

    run_simultaneously(
        [
            *(
                partial(rounds, list(member_order))
                for member_order in (members, members[::-1], members[3:] + members[:3])
            ),
            *(partial(gifts, member) for member in members),
        ]
    )
    check_tiers_and_moves(shop, schedule, members)


def test_many_events_that_lead_to_a_tier_report_it_once(shop):
    schedule = TierSchedule.new(shop, Gold=50)
    shop.campaign(running(mint(10)), eventType=GENERIC)
    shop.campaign(running(mint(1000)), eventType=SET)
    for _ in range(3):
        member = shop.member()
        run_simultaneously([partial(shop.track, event(member)) for _ in range(16)])
        assert shop.balance(member) == 16 * 10 + 1000
        assert schedule.moves(member) == [(SET, "Basic", "Gold")]


def test_transactions_of_calls_and_events_count_once_against_a_limit_of_the_campaign(shop):
    """Calls and events lock limits before accounts, so that they cannot deadlock."""
    # The maximum supply and the tiers need locks, too.
    capped_account = shop.account(maxSupply=10**9)
    TierSchedule.new(shop, Gold=50)
    total_limit = {"scope": "campaign", "type": "transactions", "period": "total", "limit": 20}
    shop.campaign(
        running(mint(1, ledgerAccountKey=capped_account["ledgerAccountKey"])),
        enabledTopics=["ledger-transaction-created", GENERIC],
        limitRules=[total_limit],
    )
    members = [shop.member() for _ in range(8)]
    calls = []
    for member in members * 2:
        calls += [
            partial(shop.give, member, 3, ledgerAccountId=capped_account["ledgerAccountId"]),
            partial(shop.track, event(member)),
        ]
    run_simultaneously(calls)
    minted_points = sum(shop.balance(member, capped_account["ledgerAccountId"]) for member in members)
    # 3 by each of the 16 calls, and 1 for each transaction up to the limit of 20.
    assert minted_points == 16 * 3 + 20


def test_calls_with_one_key_set_a_tier_once_and_get_the_same_response(shop):
    schedule = TierSchedule.new(shop, Silver=200, Gold=500)
    member, program = shop.member(), schedule.program["loyaltyProgramKey"]
    path = f"/members/{member}/loyalty-programs/{program}/tier"
    for _ in range(3):
        body = {"loyaltyTierKey": schedule.key("Gold"), "systemUniqueKey": key()}
        replies = run_simultaneously([partial(shop.integration.request, "PUT", path, body)] * 12)
        assert {(reply.status, reply.text) for reply in replies} == {(200, replies[0].text)}
    assert len(shop.rows("member_tier_trackings")) == 3
    assert len(schedule.moves(member)) == 3


def test_one_key_sets_the_tier_of_only_one_of_8_members(shop):
    schedule = TierSchedule.new(shop, Gold=500)
    members, program = [shop.member() for _ in range(8)], schedule.program["loyaltyProgramKey"]
    for _ in range(3):
        body = {"loyaltyTierKey": schedule.key("Gold"), "systemUniqueKey": key()}
        paths = [f"/members/{member}/loyalty-programs/{program}/tier" for member in members]
        replies = run_simultaneously([partial(shop.integration.request, "PUT", path, body) for path in paths])
        assert Counter(reply.status for reply in replies) == {200: 1, 409: 7}


def test_a_tier_set_by_request_is_kept_while_points_move(shop):
    schedule = TierSchedule.new(shop, Silver=20, Gold=500)
    shop.campaign(running(mint(10)), eventType=GENERIC)
    for _ in range(3):
        member = shop.member()
        run_simultaneously(
            [*(partial(shop.track, event(member)) for _ in range(12)), partial(schedule.set, member, "Gold")]
        )
        # The points would suffice only for Silver.
        assert schedule.of(member) == "Gold"
        assert shop.balance(member) == 12 * 10
