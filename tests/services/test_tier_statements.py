"""Statements about tiers: the same number for any number of tier changes and of events that the server reports."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.statements import count
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, running


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def count_moves(shop):
    """How often a tier of a member has changed."""
    return sum(row.event_type == "member-tier-set" for row in shop.rows("events"))


LIMITS = {
    "pointsMonthlyLimitPerMember": 10**9,
    "limitRules": [{"scope": "campaign", "type": "points", "period": "daily", "limit": 10**9}],
}


@pytest.mark.slow
@pytest.mark.parametrize("topics", [["member-tier-set"], ["member-tier-set", "ledger-transaction-created"]])
def test_tiers_that_move_with_every_event_take_as_many_statements_for_1_event_as_for_100(shop, topics):
    # Tiers at 100, 200, ... 700 points, so that each of the first 7 events of a member moves its tier.
    TierSchedule.new(shop, **{f"Tier{n}": 100 * n for n in range(1, 8)})
    shop.campaign(running(mint(100)), eventType=GENERIC, **LIMITS)
    shop.campaign(running(mint(1)), enabledTopics=topics, maxTransactionsPerMember=3, **LIMITS)

    def cost(size):
        # Five events of each member.
        members = [shop.member() for _ in range((size + 4) // 5)]
        batch = [event(members[i // 5]) for i in range(size)]
        shop.track_one(event(shop.member()))
        moves_before = count_moves(shop)
        statement_count = count(shop.engine, lambda: shop.track(*batch))
        assert count_moves(shop) - moves_before == size
        return statement_count

    assert len({cost(size) for size in (1, 10, 100)}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("topics", [[], ["ledger-transaction-created"]])
def test_tiers_that_move_with_every_item_of_a_set_take_as_many_statements_for_1_item_as_for_50(shop, topics):
    TierSchedule.new(shop, Silver=100)
    shop.campaign(running(mint(1)), enabledTopics=["member-tier-set", *topics], maxTransactionsPerMember=2, **LIMITS)
    defaults = shop.organization.defaults

    def cost(size):
        wallets = [shop.organization.member()["ledgerWalletId"] for _ in range(size)]
        items = [
            {"ledgerAccountId": defaults.ledger_account_id, "amount": 100, "fromWalletId": None, "toWalletId": wallet}
            for wallet in wallets
        ]
        shop.give(shop.member(), 100)
        moves_before = count_moves(shop)
        path = f"/ledgers/{defaults.ledger_id}/transaction-sets"
        statement_count = count(shop.engine, lambda: shop.administration.request("POST", path, {"create": items}))
        assert count_moves(shop) - moves_before == size
        return statement_count

    assert len({cost(size) for size in (1, 10, 50)}) == 1


def test_tiers_that_no_event_changes_cost_no_statement(shop):
    member = shop.member()
    shop.campaign(running(mint(1)), eventType=GENERIC)

    def costs():
        """The numbers of statements of a mint and of an event."""
        shop.give(member, 1)
        shop.track(event(member))
        return count(shop.engine, lambda: shop.give(member, 1)), count(shop.engine, lambda: shop.track(event(member)))

    path = f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}"
    program = shop.administration.get(path)["loyaltyProgram"]
    body = {name: program[name] for name in ("ledgerId", "description", "defaultTierId")}
    shop.administration.put(path, {**body, "setAsDefault": True, "tierPointsLedgerAccountId": None})
    cost_of_mint, cost_of_event = costs()
    TierSchedule.new(shop)
    assert costs() == (cost_of_mint, cost_of_event)
    # A tier that the member does not reach.
    TierSchedule.new(shop, Silver=10**6)
    cost_of_mint_with_tiers, cost_of_event_with_tiers = costs()
    assert cost_of_event_with_tiers == cost_of_event, "the statement that reads members reads their tiers, too"
    assert cost_of_mint_with_tiers == cost_of_mint, "the statement that reads the member reads its tiers, too"
