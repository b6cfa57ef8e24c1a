"""Qualifying points that differ from the amount of a mint: imported, minted and returned."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from domain.calendar import add_months, instant_text
from tests.builders.campaigns import mint
from tests.builders.exports import exported_lines
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, order, order_update, running

ROLLING = {"basis": "earned", "period": "rolling", "months": 12}


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def half_a_year_ago():
    """A moment in the quarter of an hour that begins at 12:00: exports sum up what was earned in a quarter."""
    return (datetime.now(UTC) - timedelta(days=180)).replace(hour=12, minute=7, second=0, microsecond=0)


@pytest.fixture
def program(shop):
    """The tiers are Member below 500 earned points, Silver from 500 and Gold from 1000."""
    return TierSchedule.new(shop, policy={"basis": "earned"}, Silver=500, Gold=1000)


@pytest.fixture
def member(program, shop):
    """Ana, a member without points, in the tiers of `program`."""
    return shop.member(loyaltyMemberId="ana")


def balance_qualifying_and_tier(shop, member="ana"):
    """(balance, points that qualify for tiers, tier) of a member: Member, Silver from 500, or Gold from 1000."""
    record = shop.integration.get(f"/members/{member}")["loyaltyMember"]
    [status] = record["tierStatus"]
    return shop.balance(member), status["points"], status["tier"]["name"]


def test_imported_points_qualify_for_more_than_their_amount(shop, organization, member):
    balances_import = Imports(organization).run(
        "loyaltyMemberId,amount,qualifyingAmount\nana,300,5000\n", kind="balances"
    )
    # One row, of which one was imported and none failed.
    assert status_read_done_failed(balances_import) == ("done", 1, 1, 0)
    assert balance_qualifying_and_tier(shop) == (300, 5000, "Gold")
    burn = shop.take("ana", 300)
    assert burn["amount"] == 300
    assert balance_qualifying_and_tier(shop) == (0, 5000, "Gold")
    # The 5000 cannot be spent.
    problem = shop.administration.post("/members/by-loyalty-member-id/ana/burn", {"amount": 1}, expect=409)
    assert problem["type"] == "/problems/insufficient-balance"


def test_points_qualify_in_the_period_in_which_they_were_earned(shop, organization, half_a_year_ago):
    program = TierSchedule.new(shop, policy=ROLLING, Silver=500, Gold=1000)
    shop.member(loyaltyMemberId="ana")
    balances_import = Imports(organization).run(
        f"loyaltyMemberId,amount,qualifyingAmount,earnedAt\nana,0,5000,{instant_text(half_a_year_ago)}\n",
        kind="balances",
    )
    assert status_read_done_failed(balances_import) == ("done", 1, 1, 0)
    assert balance_qualifying_and_tier(shop) == (0, 5000, "Gold")
    assert program.entry("ana")["expiresAt"] == instant_text(add_months(half_a_year_ago, 12, UTC))
    assert shop.rows("ledger_lots") == []


def test_rows_with_wrong_qualifying_amounts_fail(organization, member):
    balances_import = Imports(organization).run(
        "loyaltyMemberId,amount,qualifyingAmount,pending\nana,1,-1,\nana,1,1.5,\nana,0,5,true\nana,1,many,\n",
        kind="balances",
    )
    errors = Imports(organization).errors(balances_import)
    assert [(line, column) for line, column, _reason in errors] == [
        (2, "qualifyingAmount"),
        (3, None),
        (4, None),
        (5, "qualifyingAmount"),
    ]
    assert [reason for line, _column, reason in errors if line in {3, 4}] == [
        "qualifyingAmount has more than the 0 fraction digits of this account.",
        "qualifyingAmount needs a positive amount where the mint is pending.",
    ]


def test_rows_without_any_points_fail(shop, organization, member):
    imports = Imports(organization)
    balances_import = imports.run("loyaltyMemberId,amount,qualifyingAmount\nana,0,\nana,0,0\nana,5,\n", kind="balances")
    # Of three rows two were imported and one failed.
    assert status_read_done_failed(balances_import) == ("done", 3, 2, 1)
    reason = "amount is 0; a row with the amount 0 needs a value in qualifyingAmount."
    assert imports.errors(balances_import) == [(2, "amount", reason)]
    # The row fails like others when the file has other names of columns.
    renamed_import = imports.run(
        "loyaltyMemberId,Points,Status\nana,0,\n",
        kind="balances",
        columnNames={"amount": "Points", "qualifyingAmount": "Status"},
    )
    assert imports.errors(renamed_import) == [
        (2, "Points", "Points is 0; a row with the amount 0 needs a value in Status.")
    ]
    assert balance_qualifying_and_tier(shop) == (5, 5, "Member")


def test_a_row_with_the_key_of_a_mint_of_another_qualifying_amount_fails(organization, member):
    columns, imports = "loyaltyMemberId,amount,systemUniqueKey,qualifyingAmount\n", Imports(organization)
    assert status_read_done_failed(imports.run(columns + "ana,5,a,\nana,5,b,7\n", kind="balances")) == ("done", 2, 2, 0)
    balances_import = imports.run(
        columns + "ana,5,a,\nana,5,b,7.0\nana,5,b,8\nana,5,a,5\n", kind="balances", mode="upsert"
    )
    # Lines 2 and 3 repeat the first import. Lines 4 and 5 have its keys with other amounts.
    assert [line for line, _column, _reason in imports.errors(balances_import)] == [4, 5]


def test_a_request_mints_points_that_qualify_for_less(shop, member):
    shop.give(member, 100, qualifyingAmount=40)
    assert balance_qualifying_and_tier(shop) == (100, 40, "Member")
    shop.give(member, 0, qualifyingAmount=960)
    assert balance_qualifying_and_tier(shop) == (100, 40 + 960, "Gold")
    [newest_entry, _older_entry] = shop.administration.get("/audit-log", entityType="ledger-transaction")["results"]
    assert newest_entry["changes"]["qualifyingAmount"] == {"from": None, "to": 960}


def test_a_burn_has_no_qualifying_amount(shop, member):
    path = "/members/by-loyalty-member-id/ana/burn"
    problem = shop.administration.post(path, {"amount": 1, "qualifyingAmount": 1}, expect=400)
    assert [(fault["pointer"], fault["detail"]) for fault in problem["errors"]] == [
        ("/qualifyingAmount", "qualifyingAmount is not a known field.")
    ]


def test_a_key_that_is_used_again_with_another_qualifying_amount_is_a_409(shop, member):
    # The second mint of each key repeats the first: no amount and null are the same.
    shop.give(member, 5, systemUniqueKey="a")
    shop.give(member, 5, systemUniqueKey="a", qualifyingAmount=None)
    shop.give(member, 5, systemUniqueKey="b", qualifyingAmount=0)
    shop.give(member, 5, systemUniqueKey="b", qualifyingAmount=0)
    path = "/members/by-loyalty-member-id/ana/mint"
    # The amounts are compared as they were sent: none and 5 differ, although all 5 qualify in both cases.
    for key, other_qualifying_amount in (("a", 5), ("b", 1)):
        body = {"amount": 5, "systemUniqueKey": key, "qualifyingAmount": other_qualifying_amount}
        assert shop.administration.post(path, body, expect=409)["type"] == "/problems/key-reused"
    # Each key minted 5 once. Only the 5 of the key a qualify.
    assert balance_qualifying_and_tier(shop) == (5 + 5, 5, "Member")


def test_only_mints_of_a_batch_can_have_qualifying_amounts(shop, organization, member):
    wallet = shop.integration.get("/members/ana")["loyaltyMember"]["ledgerWalletId"]
    account = {"ledgerAccountId": organization.defaults.ledger_account_id}
    mint_id = shop.give(member, 1)["ledgerTransactionId"]
    items = [
        {**account, "fromWalletId": None, "toWalletId": wallet, "amount": 10, "qualifyingAmount": 700},
        {**account, "fromWalletId": wallet, "toWalletId": None, "amount": 1, "qualifyingAmount": 1},
        {"revertedLedgerTransactionId": int(mint_id), "qualifyingAmount": 1},
    ]
    response = shop.administration.post("/ledger-transactions/batch", {"items": items}, expect=200)
    assert [entry["index"] for entry in response["processed"]] == [0]
    assert [entry["error"]["errors"][0]["pointer"] for entry in response["failed"]] == [
        "/items/1/qualifyingAmount",
        "/items/2/qualifyingAmount",
    ]
    assert balance_qualifying_and_tier(shop) == (1 + 10, 1 + 700, "Silver")


def test_the_revert_of_a_mint_takes_all_of_its_qualifying_points(shop, member):
    mint_transaction = shop.give(member, 10, qualifyingAmount=900)
    path = f"/ledgers/{mint_transaction['ledgerId']}/accounts/{mint_transaction['ledgerAccountId']}"
    shop.administration.post(f"{path}/transactions/{mint_transaction['ledgerTransactionId']}/revert", {}, expect=200)
    assert balance_qualifying_and_tier(shop) == (0, 0, "Member")


def test_a_campaign_can_give_a_bonus_that_does_not_qualify(shop, member):
    shop.campaign(running(mint(100, qualifyingAmount=0)), running(mint(20)), eventType="member-purchase-order-created")
    [result] = shop.track(
        order(member, total=50, external_id="o-1", items=[{"productCode": "a", "quantity": 2, "total": 50}])
    )
    assert [effect["status"] for effect in result["effects"]] == ["executed"] * 2
    assert balance_qualifying_and_tier(shop) == (100 + 20, 20, "Member")


@pytest.mark.parametrize(
    ("params", "qualifying_points", "qualifying_points_of_half"),
    [({}, 100, 50), ({"qualifyingAmount": 0}, 0, 0), ({"qualifyingAmount": 33}, 33, 16)],
)
def test_a_return_takes_the_same_share_of_points_and_qualifying_points(
    shop, member, params, qualifying_points, qualifying_points_of_half
):
    shop.campaign(running(mint(100, **params)), eventType="member-purchase-order-created")
    shop.track_one(order(member, total=50, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    assert balance_qualifying_and_tier(shop) == (100, qualifying_points, "Member")
    # Half of the order.
    shop.track_one(order_update(member, "o-1", "partially-returned", items=[{"total": 25}]))
    assert balance_qualifying_and_tier(shop) == (50, qualifying_points_of_half, "Member")
    shop.track_one(order_update(member, "o-1", "returned"))
    assert balance_qualifying_and_tier(shop) == (0, 0, "Member")


def test_points_that_qualify_without_an_amount_are_cancelled_with_their_event(shop, member):
    shop.campaign(running(mint(0, qualifyingAmount=("=", "event.payload.points"))), eventType=GENERIC)
    track_result = shop.track_one(event(member, payload={"points": 600}))
    assert [effect["status"] for effect in track_result["effects"]] == ["executed"]
    assert balance_qualifying_and_tier(shop) == (0, 600, "Silver")
    shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    assert balance_qualifying_and_tier(shop) == (0, 0, "Member")


def test_an_expression_for_fewer_than_zero_qualifying_points_fails_the_effect(shop, member):
    shop.campaign(running(mint(0, qualifyingAmount=("=", "event.payload.points"))), eventType=GENERIC)
    [effect] = shop.track_one(event(member, payload={"points": -1}))["effects"]
    assert (effect["status"], effect["error"]["detail"]) == (
        "failed",
        "qualifyingAmount evaluated to -1, less than zero.",
    )


def test_a_mint_that_a_limit_cuts_qualifies_for_its_share(shop, member):
    limit = {"scope": "member", "type": "points", "period": "total", "limit": 25}
    shop.campaign(
        running(mint(100, qualifyingAmount=200)),
        eventType=GENERIC,
        limitRules=[limit],
        allowPartialApplicationOnLimit=True,
    )
    shop.track_one(event(member))
    # The limit allows a quarter of the 100 points, so a quarter of the 200 qualifies.
    assert balance_qualifying_and_tier(shop) == (25, 50, "Member")
    shop.track_one(event(member))
    assert balance_qualifying_and_tier(shop) == (25, 50, "Member")


def test_a_partly_captured_mint_qualifies_for_the_captured_share(shop, organization, member):
    wallet = shop.integration.get("/members/ana")["loyaltyMember"]["ledgerWalletId"]
    account, ledger = organization.defaults.ledger_account_id, organization.defaults.ledger_id
    item = {"ledgerAccountId": account, "fromWalletId": None, "toWalletId": wallet, "amount": 10}
    item |= {"captureMethod": "manual", "qualifyingAmount": 999}
    response = shop.administration.post("/ledger-transactions/batch", {"items": [item]}, expect=200)
    pending_id = response["processed"][0]["transactions"][0]["ledgerTransactionId"]
    assert balance_qualifying_and_tier(shop) == (0, 0, "Member")
    body = {"transactions": [{"ledgerTransactionId": str(pending_id), "captureAmount": 5}]}
    shop.administration.post(f"/ledgers/{ledger}/accounts/{account}/captures", body, expect=200)
    # 999 x 5 / 10, rounded down.
    assert balance_qualifying_and_tier(shop) == (5, 499, "Member")


def test_an_import_of_exported_balances_restores_the_qualifying_points_of_each_period(
    api, organization, half_a_year_ago
):
    shop, importing_shop = Shop(organization), Shop(api.organization())
    for store in (shop, importing_shop):
        TierSchedule.new(store, policy=ROLLING, Silver=500, Gold=1000)
        store.member(loyaltyMemberId="ana")
        store.member(loyaltyMemberId="ben")
    before_the_period = instant_text(half_a_year_ago - timedelta(days=400))
    shop.give("ana", 300, externalEventDate=instant_text(half_a_year_ago))
    shop.give("ana", 400, externalEventDate=instant_text(half_a_year_ago + timedelta(minutes=7)))
    shop.give("ana", 5, externalEventDate=instant_text(half_a_year_ago + timedelta(minutes=8)), qualifyingAmount=50)
    shop.give("ana", 9000, externalEventDate=before_the_period)
    shop.take("ana", 9600)
    lines = exported_lines(organization, "balances")
    quarter = half_a_year_ago.replace(minute=0)
    # One row has the balance, the others the points that qualify, by the quarter of an hour in which they were earned.
    rows = [json.loads(line) for line in lines]
    assert len({row.pop("systemUniqueKey") for row in rows}) == 4
    assert rows == [
        {"loyaltyMemberId": "ana", "amount": 9705 - 9600, "account": "points", "qualifyingAmount": 0},
        {
            "loyaltyMemberId": "ana",
            "amount": 0,
            "account": "points",
            "qualifyingAmount": 9000,
            "earnedAt": instant_text(quarter - timedelta(days=400)),
        },
        {
            "loyaltyMemberId": "ana",
            "amount": 0,
            "account": "points",
            "qualifyingAmount": 300 + 400,
            "earnedAt": instant_text(quarter),
        },
        {
            "loyaltyMemberId": "ana",
            "amount": 0,
            "account": "points",
            "qualifyingAmount": 50,
            "earnedAt": instant_text(quarter + timedelta(minutes=15)),
        },
    ]
    balances_import = Imports(importing_shop.organization).run("".join(lines), kind="balances", file_format="ndjson")
    assert status_read_done_failed(balances_import) == ("done", 4, 4, 0)
    for store in (shop, importing_shop):
        # The 9000 qualified only in an earlier period.
        assert balance_qualifying_and_tier(store, "ana") == (105, 300 + 400 + 50, "Silver")
        assert balance_qualifying_and_tier(store, "ben") == (0, 0, "Member")
    assert exported_lines(importing_shop.organization, "balances") == lines
    importing_shop.check_ledger()
    shop.check_ledger()


def test_impossible_constant_amounts_of_a_mint_are_refused_when_they_are_saved(shop, program):
    path = f"/campaigns/{shop.campaign()['campaignId']}/actions"
    # The pointers are those of the amount and of the qualifying amount.
    for params, index in (
        ({"amount": 0}, 0),
        ({"amount": 1, "qualifyingAmount": -1}, 1),
        ({"amount": -1, "qualifyingAmount": 1}, 0),
    ):
        problem = shop.administration.post(path, running(mint(**params)), expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [f"/effects/items/0/params/{index}/value"]
    shop.administration.post(path, running(mint(0, qualifyingAmount=0)))


def test_in_tiers_by_the_balance_the_qualifying_amount_of_a_mint_is_ignored(shop):
    """With the basis `balance`, the points that qualify for tiers are the balance."""
    TierSchedule.new(shop, policy={"basis": "balance"}, Silver=500)
    shop.member(loyaltyMemberId="ana")
    shop.give("ana", 499, qualifyingAmount=5000)
    assert balance_qualifying_and_tier(shop) == (499, 499, "Member")
    shop.give("ana", 1, qualifyingAmount=0)
    assert balance_qualifying_and_tier(shop) == (499 + 1, 499 + 1, "Silver")
