"""Reversals: cancelling an event restores the state before it, and partial returns add up to a full return."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from decimal import ROUND_FLOOR, Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from handlers.services.verify import verify
from tests.builders.api import running_api
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running, spend


@pytest.fixture(scope="module")
def api(settings):
    # Other tests validate responses; here it would take long.
    with running_api(replace(settings, validate_responses=False)) as api:
        yield api


many = settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])

# Campaigns that react to every reported mint would react to their own mints, too.
SEVEN_MINTED = (
    "event.payload.ledgerTransaction.amount == 7 && event.payload.ledgerTransaction.transactionType == 'mint'"
)
LIMITS = st.lists(
    st.fixed_dictionaries(
        {
            "scope": st.sampled_from(["member", "campaign"]),
            "type": st.sampled_from(["points", "transactions"]),
            "period": st.sampled_from(["daily", "monthly", "total"]),
            "limit": st.integers(1, 40),
        }
    ),
    max_size=3,
)
ACCOUNTS = ({}, {"decimals": 2, "pointTrackingEnabled": True}, {"expiresInMonths": 6}, {"overdraftLimit": 50})
EFFECTS = st.lists(
    st.tuples(
        st.sampled_from([mint, spend]),
        st.integers(1, 15),
        st.integers(0, len(ACCOUNTS) - 1),
        st.sampled_from(["member", "sponsor"]),
    ),
    min_size=1,
    max_size=4,
)
CAMPAIGNS = st.lists(
    st.tuples(EFFECTS, LIMITS, st.booleans(), st.sampled_from([GENERIC, "ledger-transaction-created"])),
    min_size=1,
    max_size=3,
)


def state(shop) -> dict[str, Any]:
    """The balances, lots, supplies and counters that are not zero, by kind and ids."""
    amounts: dict[str, Any] = defaultdict(Decimal)
    for row in shop.rows("ledger_balances"):
        amounts["balance", row.wallet_id, row.ledger_account_id] += row.current_balance
        amounts["debt", row.wallet_id, row.ledger_account_id] += row.current_overdraft_balance
        amounts["pending", row.wallet_id, row.ledger_account_id] += row.pending_debit_balance
    for row in shop.rows("ledger_lots"):
        amounts["lot", row.wallet_id, row.ledger_account_id, row.expires_at] += row.remaining
    for row in shop.rows("ledger_account_supplies"):
        amounts["issued", row.ledger_account_id] += row.minted - row.burned
    for row in shop.rows("campaign_limit_counters"):
        assert row.used >= 0
        amounts["counter", row.campaign_id, row.member_id, row.type, row.period, row.ledger_account_id] += row.used
    return {key: value for key, value in amounts.items() if value}


@pytest.mark.slow
@many
@given(
    campaigns=CAMPAIGNS, initial_balances=st.lists(st.integers(0, 30), min_size=4, max_size=4), debt=st.integers(0, 20)
)
def test_cancelling_an_event_restores_the_state_before_it(api, campaigns, initial_balances, debt):
    shop = Shop(api.organization())
    accounts = [shop.account(name=f"Account {n}", **more) for n, more in enumerate(ACCOUNTS)]
    member, sponsor = shop.member(), shop.member()
    wallet_id = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]
    for account, amount in zip(accounts, initial_balances, strict=True):
        for recipient in (member, sponsor):
            if amount:
                shop.give(recipient, amount, ledgerAccountId=account["ledgerAccountId"])
    if debt:
        # The account of ACCOUNTS that allows an overdraft.
        overdraft_account = accounts[3]
        account_path = f"/ledgers/{overdraft_account['ledgerId']}/accounts/{overdraft_account['ledgerAccountId']}"
        shop.administration.post(
            f"{account_path}/wallets/{wallet_id}/burn",
            {"amount": initial_balances[3] + debt, "allowOverdraft": True},
            expect=200,
        )
    for effects, limits, partly, event_type in campaigns:
        effects_of_action = [
            kind(amount, ledgerAccountKey=accounts[index]["ledgerAccountKey"], recipient=recipient)
            for kind, amount, index, recipient in effects
        ]
        rule = None if event_type == GENERIC else SEVEN_MINTED
        shop.campaign(
            running(*effects_of_action, rule=rule),
            limitRules=limits,
            allowPartialApplicationOnLimit=partly,
            eventType=event_type,
        )
    shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    before = state(shop)
    track_result = shop.track_one(event(member, sponsorLoyaltyMemberId=sponsor))
    shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {"allowOverdraft": True}, expect=200)
    assert state(shop) == before
    shop.check_ledger()


ITEMS = st.lists(st.decimals("0.01", 40, places=2), min_size=1, max_size=5)


@pytest.mark.slow
@many
@given(items=ITEMS, extra=st.decimals(0, 5, places=2), data=st.data())
def test_returning_all_items_one_by_one_leaves_the_balances_of_a_full_return(api, items, extra, data):
    shop = Shop(api.organization())
    whole_account = shop.account(name="Whole")
    cents_account = shop.account(name="Cents", decimals=2, pointTrackingEnabled=True)
    shop.campaign(
        running(
            mint(("=", "floor(order.total)"), ledgerAccountKey=whole_account["ledgerAccountKey"]),
            mint(("=", "order.total * 1.5"), ledgerAccountKey=cents_account["ledgerAccountKey"]),
        ),
        eventType=ORDER_CREATED,
        limitRules=[
            {"scope": scope, "type": kind, "period": "total", "limit": 10_000}
            for scope in ("member", "campaign")
            for kind in ("points", "transactions")
        ],
    )
    total = sum(items) + extra
    minted_amounts = {whole_account["ledgerAccountId"]: total.to_integral_value(ROUND_FLOOR)}
    minted_amounts[cents_account["ledgerAccountId"]] = (total * 3 / 2).quantize(Decimal("0.01"), ROUND_FLOOR)
    members = {name: shop.member() for name in ("parts", "full")}
    spent_share = data.draw(st.sampled_from([0, Decimal("0.5"), 1]))
    other_points = data.draw(st.integers(0, 20))
    for name, member in members.items():
        if other_points:
            shop.give(member, other_points, ledgerAccountId=cents_account["ledgerAccountId"])
        bought_items = [{"productCode": f"p{n}", "total": item} for n, item in enumerate(items)]
        shop.track_one(order(member, total, external_id=name, items=bought_items))
        shop.track_one(order_update(member, name, "confirmed"))
        for account_id, amount in minted_amounts.items():
            spent_amount = (amount * spent_share).to_integral_value(ROUND_FLOOR)
            if spent_amount:
                shop.take(member, spent_amount, ledgerAccountId=account_id)
    returned_total = Decimal(0)
    # The items are returned in any order.
    for n, item in data.draw(st.permutations(list(enumerate(items)))):
        returned_items = [{"productCode": f"p{n}", "total": item}]
        part = order_update(members["parts"], "parts", "partially-returned", items=returned_items)
        shop.track_one(part)
        returned_total += item
        # When all items are returned, the server returns the rest of the order, too (`extra`).
        if returned_total == sum(items):
            returned_total = total
        if not spent_share and minted_amounts[whole_account["ledgerAccountId"]]:
            remaining_points = (
                minted_amounts[whole_account["ledgerAccountId"]] * (total - returned_total) / total
            ).to_integral_value(ROUND_FLOOR)
            assert shop.balance(members["parts"], whole_account["ledgerAccountId"]) == remaining_points
    shop.track_one(order_update(members["full"], "full", "returned"))
    for account_id in minted_amounts:
        assert shop.balance(members["parts"], account_id) == shop.balance(members["full"], account_id)
    assert {row.used for row in shop.rows("campaign_limit_counters")} <= {0}
    shop.check_ledger()


def test_verifying_reports_a_clawback_of_more_than_was_minted_and_one_without_a_link(api):
    shop = Shop(api.organization())
    member = shop.member()
    # An order mints 10 points, and a return of a part of it claws some of them back.
    shop.campaign(running(mint(10)), eventType=ORDER_CREATED)
    shop.track_one(order(member, total=10, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    shop.track_one(order_update(member, "o-1", "partially-returned", items=[{"total": 4}]))
    shop.check_ledger()
    with api.engine.connect() as db, db.begin() as transaction:
        statement = "UPDATE ledger_transactions SET amount = 11 WHERE is_partial AND organization_id = :id"
        db.execute(text(statement), {"id": shop.organization.id})
        assert any(
            "11 of its 10 were clawed back" in violation for violation in map(str, verify(db, shop.organization.id))
        )
        transaction.rollback()
    with api.engine.connect() as db, db.begin() as transaction:
        statement = "UPDATE ledger_transactions SET is_partial = false WHERE organization_id = :id"
        db.execute(text(statement), {"id": shop.organization.id})
        assert any("which has no link to it" in violation for violation in map(str, verify(db, shop.organization.id)))
        transaction.rollback()
