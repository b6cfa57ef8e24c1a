"""Cancelling events over HTTP: which effects are reverted, what is recorded, and what is refused."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from handlers.messages.reversals import UNDONE_KINDS
from tests.builders.campaigns import mint
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import (
    GENERIC,
    ORDER_CREATED,
    WHOLE_DOLLARS,
    Shop,
    event,
    key,
    order,
    order_update,
    running,
    spend,
)

TEN_MINTED = "event.payload.ledgerTransaction.amount == 10 && event.payload.ledgerTransaction.transactionType == 'mint'"


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def member(shop):
    return shop.member()


def cancel(shop, event_key, expect=200, **body):
    """Cancel the event with this key; return the response."""
    return shop.integration.post(f"/events/{event_key}/cancel", body, expect=expect)


def event_of(shop, event_key):
    """The current record of the event with this key."""
    return shop.integration.get(f"/events/{event_key}")["event"]


def counters(shop):
    """The used amounts of all limits, by type and period."""
    rows = shop.rows("campaign_limit_counters", "campaign_id, type, period, used")
    return {(row.type, row.period): row.used for row in rows}


def test_cancelling_reverts_all_effects_of_the_event_and_reports_them(shop, member):
    # A point for each whole dollar: 12 for 12.50.
    campaign = shop.campaign(running(WHOLE_DOLLARS), pointsMonthlyLimitPerMember=100, maxTransactionsPerMember=5)
    tracked_event = shop.track_one(order(member, "12.50", externalEventDate="2026-03-02T08:15:00Z"))
    [transaction] = shop.rows("ledger_transactions")
    response = cancel(shop, tracked_event["loyaltyEventKey"], description="Rung up twice")
    original = event_of(shop, tracked_event["loyaltyEventKey"])
    counter_fields = {"campaignId": campaign["campaignId"], "scope": "member", "ledgerAccountId": None}
    assert response == {
        "results": [
            {
                "loyaltyEventId": original["loyaltyEventId"],
                "loyaltyEventKey": tracked_event["loyaltyEventKey"],
                "systemUniqueKey": tracked_event["systemUniqueKey"],
                "eventType": ORDER_CREATED,
                "memberId": original["memberId"],
                "ledgerTransactions": [
                    {
                        "ledgerTransactionId": transaction.ledger_transaction_id,
                        "ledgerAccountId": shop.organization.defaults.ledger_account_id,
                        "ledgerAccountKey": shop.organization.defaults.ledger_account_key,
                        "transactionType": "mint",
                        "walletId": transaction.to_wallet_id,
                        "amount": 12,
                        "revertedAmount": 12,
                        "overdraftAmount": 0,
                        "outcome": "reverted",
                    }
                ],
                "limitCounters": [
                    {
                        **counter_fields,
                        "type": "points",
                        "period": "monthly",
                        "periodStart": "2026-03-01",
                        "amount": 12,
                    },
                    {
                        **counter_fields,
                        "type": "transactions",
                        "period": "total",
                        "periodStart": "0001-01-01",
                        "amount": 1,
                    },
                ],
                **{kind: [] for kind in UNDONE_KINDS},
            }
        ],
        "refunds": [],
        "executionMode": "full",
        "dryRun": False,
    }
    assert shop.balance(member) == 0
    assert set(counters(shop).values()) == {0}


def test_the_cancellation_and_the_cancelled_event_are_linked(shop, member):
    shop.campaign(running(mint(5)), maxTransactionsPerMember=5)
    tracked_event = shop.track_one(event(member, externalId="visit-1"))
    cancel(shop, tracked_event["loyaltyEventKey"], description="By mistake")
    reversal, original = shop.events(member)
    assert (reversal["eventType"], reversal["reason"], reversal["description"]) == (GENERIC, "cancelled", "By mistake")
    assert (reversal["status"], reversal["evaluationStatus"], reversal["externalId"]) == ("success", 0, "visit-1")
    assert reversal["revertedLoyaltyEventId"] == original["loyaltyEventId"]
    assert original["reversalLoyaltyEventId"] == reversal["loyaltyEventId"]
    assert (original["revertedLoyaltyEventId"], reversal["reversalLoyaltyEventId"]) == (None, None)
    assert [limit_counter["givenBack"] for limit_counter in original["limitCounters"]] == [1]
    assert [limit_counter["amount"] for limit_counter in reversal["limitCounters"]] == [-1]
    _, revert = shop.rows("ledger_transactions", order="ledger_transaction_id")
    assert (revert.loyalty_event_id, revert.description) == (reversal["loyaltyEventId"], "By mistake")
    outcome = shop.integration.get(f"/events/{reversal['loyaltyEventKey']}")["result"]
    assert [result["loyaltyEventKey"] for result in outcome["reverted"]] == [tracked_event["loyaltyEventKey"]]


def test_a_cancelled_event_no_longer_counts_against_limits(shop, member):
    shop.campaign(
        running(mint(5)),
        limitRules=[{"scope": "campaign", "type": "transactions", "period": "total", "limit": 1}],
    )
    first_result = shop.track_one(event(member))
    assert shop.track_one(event(member))["effects"][0]["status"] == "skipped"
    cancel(shop, first_result["loyaltyEventKey"])
    assert shop.track_one(event(member))["effects"][0]["status"] == "executed"
    assert shop.balance(member) == 5


def test_cancelling_gives_burned_points_back_and_claws_minted_points_back(shop, member):
    sponsor = shop.member()
    shop.give(member, 50)
    shop.campaign(running(spend(30), mint(7, recipient="sponsor"), mint(4)))
    tracked_event = shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    assert (shop.balance(member), shop.balance(sponsor)) == (50 - 30 + 4, 7)
    [result] = cancel(shop, tracked_event["loyaltyEventKey"])["results"]
    reversals = [
        (ledger_transaction["transactionType"], ledger_transaction["revertedAmount"])
        for ledger_transaction in result["ledgerTransactions"]
    ]
    assert reversals == [("mint", 4), ("mint", 7), ("burn", 30)]
    assert (shop.balance(member), shop.balance(sponsor)) == (50, 0)


def test_cancelling_a_spent_mint_claws_back_only_the_remaining_points(shop, member):
    shop.campaign(running(mint(10)), pointsMonthlyLimitPerMember=10)
    tracked_event = shop.track_one(event(member))
    shop.take(member, 8)
    # 10 - 8 = 2 points remain. The account has no overdraft limit, so the missing 8 cannot become debt.
    response = cancel(shop, tracked_event["loyaltyEventKey"], allowOverdraft=True)
    [transaction] = response["results"][0]["ledgerTransactions"]
    assert (transaction["revertedAmount"], transaction["overdraftAmount"], transaction["outcome"]) == (2, 0, "clamped")
    assert shop.balance(member) == 0
    assert set(counters(shop).values()) == {0}


def test_a_shortfall_becomes_debt_up_to_the_overdraft_limit(shop, member):
    debt_account = shop.account(overdraftLimit=8)
    account_id, account_key = debt_account["ledgerAccountId"], debt_account["ledgerAccountKey"]
    shop.campaign(running(mint(10, ledgerAccountKey=account_key)))
    first_key, second_key = (shop.track_one(event(member))["loyaltyEventKey"] for _ in range(2))
    # Leaves 4 of the 20 points, so that the first cancellation makes a debt of 6.
    shop.take(member, 16, ledgerAccountId=account_id)
    [transaction] = cancel(shop, first_key, allowOverdraft=True)["results"][0]["ledgerTransactions"]
    assert (transaction["revertedAmount"], transaction["overdraftAmount"]) == (10, 6)
    assert transaction["outcome"] == "reverted"
    # Another 10 would exceed the limit of 8.
    assert cancel(shop, second_key, expect=409, allowOverdraft=True)["type"] == "/problems/overdraft-limit"
    [transaction] = cancel(shop, second_key)["results"][0]["ledgerTransactions"]
    assert (transaction["revertedAmount"], transaction["outcome"]) == (0, "clamped")


def test_an_event_can_only_be_cancelled_once(shop, member):
    shop.campaign(running(mint(10)))
    tracked_event = shop.track_one(event(member))
    cancel(shop, tracked_event["loyaltyEventKey"])
    previous_events = shop.events(member)
    problem = cancel(shop, tracked_event["loyaltyEventKey"], expect=409)
    assert problem["type"] == "/problems/event-cancelled"
    assert shop.events(member) == previous_events


def test_failed_events_and_reversals_cannot_be_cancelled(shop, member):
    shop.track_one(order(member, external_id="o-1"))
    # The order exists already.
    [failed_event] = shop.track(order(member, external_id="o-1"))
    assert cancel(shop, failed_event["loyaltyEventKey"], expect=409)["type"] == "/problems/event-not-cancellable"
    tracked_event = shop.track_one(event(member))
    cancel(shop, tracked_event["loyaltyEventKey"])
    reversal = shop.events(member)[0]["loyaltyEventKey"]
    assert cancel(shop, reversal, expect=409)["type"] == "/problems/event-not-cancellable"


def test_cancelling_skips_transactions_reverted_by_request(shop, member):
    shop.campaign(running(mint(10), mint(1)))
    tracked_event = shop.track_one(event(member))
    mint_of_10 = shop.rows("ledger_transactions", order="ledger_transaction_id")[0]
    path = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts/{mint_of_10.ledger_account_id}"
    shop.administration.post(f"{path}/transactions/{mint_of_10.ledger_transaction_id}/revert", {}, expect=200)
    [result] = cancel(shop, tracked_event["loyaltyEventKey"])["results"]
    assert [ledger_transaction["revertedAmount"] for ledger_transaction in result["ledgerTransactions"]] == [1]
    assert shop.balance(member) == 0


def test_events_that_an_event_caused_are_cancelled_with_it(shop, member):
    shop.campaign(running(mint(10)), eventType=GENERIC)
    shop.campaign(
        running(mint(3), rule=TEN_MINTED),
        enabledTopics=["ledger-transaction-created"],
        maxTransactionsPerMember=1,
    )
    tracked_event = shop.track_one(event(member))
    assert shop.balance(member) == 10 + 3
    results = cancel(shop, tracked_event["loyaltyEventKey"])["results"]
    assert [result["eventType"] for result in results][-2:] == ["ledger-transaction-created", GENERIC]
    assert [transaction["amount"] for result in results for transaction in result["ledgerTransactions"]] == [3, 10]
    reversal = next(loyalty_event for loyalty_event in shop.events(member) if loyalty_event["reason"] == "cancelled")
    cancelled_events = [
        loyalty_event
        for loyalty_event in shop.events(member)
        if loyalty_event["reversalLoyaltyEventId"] == reversal["loyaltyEventId"]
    ]
    assert len(cancelled_events) == len(results)
    assert shop.balance(member) == 0


@pytest.mark.parametrize(
    ("statuses", "final_status"),
    [
        ((), "cancelled"),
        (("confirmed",), "cancelled"),
        (("confirmed", "partially-returned"), "partially-returned"),
    ],
)
def test_cancelling_the_creation_cancels_an_order_unless_a_part_was_returned(shop, member, statuses, final_status):
    shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    tracked_event = shop.track_one(order(member, 10, external_id="o-1"))
    for status in statuses:
        items = {"items": [{"total": 3}]} if status == "partially-returned" else {}
        shop.track_one(order_update(member, "o-1", status, **items))
    cancel(shop, tracked_event["loyaltyEventKey"])
    assert [row.status for row in shop.rows("purchase_orders")] == [final_status]
    assert shop.balance(member) == 0


def test_cancelling_the_creation_of_an_order_also_reverts_its_confirmation(shop, member):
    shop.campaign(running(mint(5)), eventType=ORDER_CREATED)
    limit = {"scope": "member", "type": "points", "period": "total", "limit": 12}
    shop.campaign(running(mint(10)), eventType="member-purchase-order-confirmed", limitRules=[limit])
    creation, confirmation = shop.track(order(member, 20, external_id="o-1"), order_update(member, "o-1", "confirmed"))
    assert shop.balance(member) == 5 + 10
    results = cancel(shop, creation["loyaltyEventKey"])["results"]
    assert [result["loyaltyEventKey"] for result in results] == [
        confirmation["loyaltyEventKey"],
        creation["loyaltyEventKey"],
    ]
    assert [[part["revertedAmount"] for part in result["ledgerTransactions"]] for result in results] == [[10], [5]]
    assert shop.balance(member) == 0
    assert cancel(shop, confirmation["loyaltyEventKey"], expect=409)["type"] == "/problems/event-cancelled"
    # The limit of 12 has all its points again.
    shop.track(order(member, 20, external_id="o-2"), order_update(member, "o-2", "confirmed"))
    assert shop.balance(member) == 5 + 10
    shop.check_ledger()


def test_cancelling_another_event_of_an_order_does_not_cancel_the_order(shop, member):
    shop.campaign(running(mint(5)), eventType="member-purchase-order-confirmed")
    shop.track_one(order(member, 10, external_id="o-1"))
    confirmation = shop.track_one(order_update(member, "o-1", "confirmed"))
    cancel(shop, confirmation["loyaltyEventKey"])
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]
    assert shop.balance(member) == 0


def test_a_captured_event_is_cancelled_with_its_order(shop, member):
    tracked_event = shop.track_one(order(member, 10), executionMode="captureOnly")
    [result] = cancel(shop, tracked_event["loyaltyEventKey"])["results"]
    assert (result["ledgerTransactions"], result["limitCounters"]) == ([], [])
    assert [row.status for row in shop.rows("purchase_orders")] == ["cancelled"]


def test_a_refused_cancellation_changes_nothing(shop, member):
    stars = shop.account()
    shop.campaign(running(mint(10), mint(1, ledgerAccountKey=stars["ledgerAccountKey"])), maxTransactionsPerMember=1)
    tracked_event = shop.track_one(order(member, 10))
    path = f"/ledgers/{stars['ledgerId']}/accounts/{stars['ledgerAccountId']}"
    body = {"name": "Stars", "active": False, "isRevolving": True, "chainSyncEnabled": False}
    shop.administration.put(path, body)
    initial_state = (shop.events(member), counters(shop), shop.balance(member))
    assert cancel(shop, tracked_event["loyaltyEventKey"], expect=409)["type"] == "/problems/account-inactive"
    assert (shop.events(member), counters(shop), shop.balance(member)) == initial_state
    assert [row.status for row in shop.rows("purchase_orders")] == ["created"]


def test_the_cancellation_of_an_unknown_event_is_refused(shop):
    assert cancel(shop, uuid.uuid4(), expect=404)["type"] == "/problems/not-found"


def test_an_event_of_another_organization_cannot_be_cancelled(shop, member, other_organization):
    tracked_event = shop.track_one(event(member))
    path = f"/events/{tracked_event['loyaltyEventKey']}/cancel"
    assert other_organization.integration.post(path, {}, expect=404)["type"] == "/problems/not-found"
    assert event_of(shop, tracked_event["loyaltyEventKey"])["reversalLoyaltyEventId"] is None


@pytest.mark.parametrize("body", [{"description": "x" * 256}, {"allowOverdraft": "yes"}, {"amount": 3}, []])
def test_malformed_cancellations_are_refused(shop, member, body):
    tracked_event = shop.track_one(event(member))
    path = f"/events/{tracked_event['loyaltyEventKey']}/cancel"
    assert shop.integration.post(path, body, expect=400)["type"] == "/problems/invalid-request"
    assert shop.integration.post(path, {"description": "x" * 255}, expect=200)


def test_cancelling_lowers_the_tier_that_the_points_gave(shop, member):
    tiers = TierSchedule.new(shop, Gold=10)
    shop.campaign(running(mint(10)), eventType=GENERIC)
    tracked_event = shop.track_one(event(member))
    assert tiers.of(member) == "Gold"
    cancel(shop, tracked_event["loyaltyEventKey"])
    assert tiers.of(member) == "Basic"
    reversal = next(loyalty_event for loyalty_event in shop.events(member) if loyalty_event["reason"] == "cancelled")
    newest_tier_event = shop.events(member, eventType="member-tier-set")[0]
    assert reversal["loyaltyEventKey"] in newest_tier_event["reason"]


def test_a_cancelled_event_that_is_tracked_again_gets_its_first_result(shop, member):
    shop.campaign(running(WHOLE_DOLLARS))
    purchase = order(member, Decimal("5"), systemUniqueKey=key())
    first_result = shop.track_one(purchase)
    cancel(shop, first_result["loyaltyEventKey"])
    assert shop.track_one(purchase) == first_result
    assert shop.balance(member) == 0


def test_spent_points_of_a_cancelled_event_are_clawed_back_when_a_revert_gives_them_back(shop, member):
    shop.campaign(running(mint(50)))
    earning = shop.track_one(event(member))
    burn_id = shop.take(member, 30)["ledgerTransactionId"]
    defaults = shop.organization.defaults
    account = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}"
    wallet = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]
    # The burn and the hold use all 50 points.
    body = {"amount": 20, "fromWalletId": wallet, "toWalletId": None, "captureMethod": "manual"}
    hold_id = shop.administration.post(f"{account}/transactions", body)["transactions"][0]["ledgerTransactionId"]
    [result] = cancel(shop, earning["loyaltyEventKey"])["results"]
    [reversal] = result["ledgerTransactions"]
    assert (reversal["revertedAmount"], reversal["outcome"]) == (0, "clamped")
    for transaction_id, amount in ((burn_id, 30), (hold_id, 20)):
        response = shop.administration.post(f"{account}/transactions/{transaction_id}/revert", {}, expect=200)
        # The revert gives the points back, and the clawback of the cancelled mint takes them.
        [_, clawback] = response["transactions"]
        assert clawback["revertedLedgerTransactionId"] == reversal["ledgerTransactionId"]
        assert clawback["amount"] == amount
    assert shop.balance(member) == 0


def test_a_cancelled_burn_reports_the_points_given_back_and_the_points_clawed_back_from_them(shop, member):
    shop.campaign(running(mint(50)), eventType=ORDER_CREATED)
    shop.campaign(running(spend(40)), eventType=GENERIC)
    earning = shop.track_one(order(member, 1))
    spending = shop.track_one(event(member))
    cancel(shop, earning["loyaltyEventKey"])
    [result] = cancel(shop, spending["loyaltyEventKey"])["results"]
    outcomes = [
        (ledger_transaction["transactionType"], ledger_transaction["revertedAmount"], ledger_transaction["outcome"])
        for ledger_transaction in result["ledgerTransactions"]
    ]
    # The cancellation of the order clawed back the 10 points that were not spent.
    assert outcomes == [("burn", 40, "reverted"), ("mint", 40, "partial")]
    assert shop.balance(member) == 0
