"""Mints, burns and transfers between wallets, individually and in sets: their responses and refusals."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.ledger.records import MAX_AMOUNT, PENDING, SETTLED
from tests.builders.points import Points

DETAILS = {
    "externalEventDate": "2026-04-01T10:00:00Z",
    "systemUniqueKey": "till-1",
    "externalId": "R-17",
    "description": "A coffee",
    "tags": ["bar", "coffee"],
}


@pytest.fixture
def points(organization):
    """An account with two decimals, which allows no overdraft."""
    return Points.new(organization, decimals=2)


@pytest.fixture
def overdrawable(organization):
    """An account whose wallets may owe up to 50."""
    return Points.new(organization, overdraftLimit=50)


def test_a_mint_returns_every_field(points):
    wallet = points.wallet()
    [row] = points.move(Decimal("12.50"), target=wallet, **DETAILS)
    assert row == {
        "ledgerTransactionId": row["ledgerTransactionId"],
        "ledgerTransactionDetailIndex": 0,
        "ledgerAccountId": points.account_id,
        "ledgerAccountKey": points.account["ledgerAccountKey"],
        "transactionType": "mint",
        "status": SETTLED,
        "amount": Decimal("12.5"),
        "walletId": wallet,
        "fromWalletId": None,
        "toWalletId": wallet,
        "updatedBalance": Decimal("12.5"),
        "isOverdraft": False,
        **DETAILS,
        "revertedLedgerTransactionId": None,
        "reversalLedgerTransactionId": None,
        "fiatValue": None,
        "fiatGrossAmount": None,
        "fiatCurrency": None,
        "availability": "available",
        "availableAt": None,
        "createdAt": row["createdAt"],
        "updatedAt": row["createdAt"],
    }
    assert points.rows() == [row]
    assert points.verify() == []


def test_a_burn_has_a_fiat_value(points):
    wallet = points.wallet()
    points.mint(wallet, 50)
    fiat = {"fiatValue": Decimal("3.55"), "fiatGrossAmount": 4, "fiatCurrency": "EUR"}
    [row] = points.burn(wallet, 20, **fiat)
    assert {name: row[name] for name in fiat} == fiat
    assert (row["transactionType"], row["fromWalletId"], row["updatedBalance"]) == ("burn", wallet, 50 - 20)
    assert points.wallet_of(wallet)["totalFiatValue"] == Decimal("3.55")
    points.burn(wallet, 1, fiatValue=1)
    assert points.wallet_of(wallet)["totalFiatValue"] == Decimal("3.55") + 1


def test_a_transfer_has_a_row_for_each_wallet(points):
    ana, ben = points.wallet(), points.wallet()
    points.mint(ana, 50)
    debit, credit = points.move(20, source=ana, target=ben, **DETAILS)
    assert [(row["walletId"], row["amount"], row["updatedBalance"]) for row in (debit, credit)] == [
        (ana, 20, 50 - 20),
        (ben, 20, 20),
    ]
    assert (debit["ledgerTransactionDetailIndex"], credit["ledgerTransactionDetailIndex"]) == (0, 1)
    assert debit["systemUniqueKey"] == credit["systemUniqueKey"] == "till-1"
    assert points.verify() == []


def test_a_key_is_generated_where_none_is_sent(points):
    wallet = points.wallet()
    first_mint, second_mint = (points.move(1, target=wallet)[0] for _ in range(2))
    assert uuid.UUID(first_mint["systemUniqueKey"]) != uuid.UUID(second_mint["systemUniqueKey"])
    assert points.balance(wallet) == 2


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"amount": 1, "fromWalletId": None}, "/toWalletId"),
        ({"amount": 1, "toWalletId": 7}, "/fromWalletId"),
        ({"fromWalletId": None, "toWalletId": 7}, "/amount"),
        ({"amount": 1, "fromWalletId": None, "toWalletId": None}, "/fromWalletId"),
        ({"amount": 1, "fromWalletId": "OWN", "toWalletId": "OWN"}, "/toWalletId"),
        ({"amount": -1, "fromWalletId": None, "toWalletId": 7}, "/amount"),
        ({"amount": MAX_AMOUNT + 1, "fromWalletId": None, "toWalletId": 7}, "/amount"),
        ({"amount": Decimal("0.001"), "fromWalletId": None, "toWalletId": "OWN"}, "/amount"),
        ({"amount": 1, "fromWalletId": None, "toWalletId": 0}, "/toWalletId"),
        ({"amount": 1, "fromWalletId": None, "toWalletId": 7, "captureMethod": "later"}, "/captureMethod"),
        (
            {"amount": 1, "fromWalletId": None, "toWalletId": 7, "expirationDate": "2099-01-01T00:00:00Z"},
            "/expirationDate",
        ),
        ({"amount": 1, "fromWalletId": 7, "toWalletId": None, "fiatCurrency": "Euro"}, "/fiatCurrency"),
        ({"amount": 1, "fromWalletId": 7, "toWalletId": None, "fiatValue": -1}, "/fiatValue"),
    ],
)
def test_malformed_requests_are_refused_with_the_field(points, body, pointer):
    # OWN is replaced by an existing wallet. The wallet 7 need not exist: bodies are checked before wallets are read.
    wallet = points.wallet()
    body = {name: wallet if value == "OWN" else value for name, value in body.items()}
    problem = points.admin.post(f"{points.path}/transactions", body, expect=400)
    assert {error["pointer"] for error in problem["errors"]} == {pointer}
    assert points.rows() == []


@pytest.mark.parametrize("amount", [0, Decimal("0.01"), MAX_AMOUNT])
def test_the_minimum_and_the_maximum_amount_can_be_posted(points, amount):
    assert points.move(amount, target=points.wallet())[0]["amount"] == amount
    assert points.verify() == []


def test_wallets_outside_the_ledger_are_unknown(points, organization, other_organization):
    foreign_wallet = other_organization.member()["ledgerWalletId"]
    other_ledger_id = points.admin.post("/ledgers", {"name": "Elsewhere"})["ledger"]["ledgerId"]
    wallet_of_other_ledger = points.raw(lambda ledger: ledger.wallet(other_ledger_id))
    wallet = points.wallet()
    points.mint(wallet, 5)
    for unknown_wallet in (foreign_wallet, wallet_of_other_ledger, 2**62):
        for source, target in (
            (None, unknown_wallet),
            (unknown_wallet, None),
            (wallet, unknown_wallet),
            (unknown_wallet, wallet),
        ):
            problem = points.move(1, source=source, target=target, expect=404)
            assert problem["type"] == "/problems/unknown-wallet"
    # Only the mint of 5.
    assert len(points.rows()) == 1


def refusal_type(points, *, amount, source=None, target=None, **more):
    """The problem type of a refused transaction: a mint has no source, a burn no target."""
    return points.move(amount, source=source, target=target, expect=409, **more)["type"]


def test_a_burn_or_transfer_cannot_exceed_the_balance(points):
    ana, ben = points.wallet(), points.wallet()
    points.mint(ana, 10)
    for more in ({}, {"captureMethod": "manual"}, {"allowOverdraft": True}):
        assert refusal_type(points, source=ana, amount=Decimal("10.01"), **more) == "/problems/insufficient-balance"
        assert (
            refusal_type(points, source=ana, target=ben, amount=Decimal("10.01"), **more)
            == "/problems/insufficient-balance"
        )
    assert refusal_type(points, source=ben, amount=1) == "/problems/insufficient-balance"
    points.burn(ana, 10)
    assert points.balance(ana) == 0
    assert points.verify() == []


def test_only_burns_have_a_fiat_value(points):
    ana, ben = points.wallet(), points.wallet()
    points.mint(ana, 10)
    for fiat in ({"fiatValue": 0}, {"fiatGrossAmount": 1}, {"fiatCurrency": "EUR"}):
        assert refusal_type(points, target=ana, amount=1, **fiat) == "/problems/fiat-not-allowed"
        assert refusal_type(points, source=ana, target=ben, amount=1, **fiat) == "/problems/fiat-not-allowed"
    # null is like a missing field.
    points.move(1, target=ana, fiatValue=None, fiatCurrency=None)


def test_movements_on_an_inactive_account_are_refused(points):
    wallet = points.wallet()
    mint_id = points.mint(wallet, 10)
    body = {"name": "Stars", "isRevolving": True, "chainSyncEnabled": False, "decimals": 2, "active": False}
    points.admin.put(points.path, body)
    assert refusal_type(points, target=wallet, amount=1) == "/problems/account-inactive"
    assert refusal_type(points, source=wallet, amount=1) == "/problems/account-inactive"
    assert points.revert(mint_id, expect=409)["type"] == "/problems/account-inactive"


def test_a_mint_cannot_exceed_the_maximum_supply(organization):
    points = Points.new(organization, maxSupply=100)
    wallet = points.wallet()
    points.mint(wallet, 60)
    problem = points.move(41, target=wallet, expect=409)
    assert (problem["type"], problem["available"]) == ("/problems/supply-exceeded", 40)
    burn = points.burn(wallet, 30)[0]["ledgerTransactionId"]
    points.mint(wallet, 70)
    # 60 - 30 + 70 = 100 points are issued, the maximum.
    # On a revolving account burned points are free to be issued again: reverting the burn would exceed the supply.
    assert points.revert(burn, expect=409)["type"] == "/problems/supply-exceeded"
    # On an account that is not revolving, burned points count as issued.
    points_issued_once = Points.new(organization, maxSupply=100, isRevolving=False)
    points_issued_once.mint(wallet, 100)
    points_issued_once.burn(wallet, 100)
    assert refusal_type(points_issued_once, target=wallet, amount=1) == "/problems/supply-exceeded"


def test_a_burn_overdraws_up_to_the_limit_and_mints_repay_the_overdraft(overdrawable):
    wallet = overdrawable.wallet()
    overdrawable.mint(wallet, 10)
    assert refusal_type(overdrawable, source=wallet, amount=30) == "/problems/insufficient-balance"
    # 10 of the balance, and 20 of the overdraft.
    from_balance, from_overdraft = overdrawable.burn(wallet, 30, allowOverdraft=True)
    assert [
        (row["amount"], row["isOverdraft"], row["updatedBalance"], row["ledgerTransactionDetailIndex"])
        for row in (from_balance, from_overdraft)
    ] == [
        (10, False, 0, 0),
        (20, True, 0, 1),
    ]
    # The limit is 50: 20 + 30 are allowed.
    assert refusal_type(overdrawable, source=wallet, amount=31, allowOverdraft=True) == "/problems/overdraft-limit"
    [overdraft_row] = overdrawable.burn(wallet, 30, allowOverdraft=True)
    assert (overdraft_row["amount"], overdraft_row["isOverdraft"]) == (30, True)
    # 50 are owed: 20 repay a part of them, then 35 repay the rest and leave 5.
    overdrawable.mint(wallet, 20)
    balances = overdrawable.wallet_of(wallet)
    assert balances["currentBalance"] == 0
    assert balances["currentOverdraftBalance"] == 50 - 20
    assert balances["totalOverdraftCreditBalance"] == 20
    overdrawable.mint(wallet, 35)
    balances = overdrawable.wallet_of(wallet)
    assert balances["currentBalance"] == 5
    assert balances["currentOverdraftBalance"] == 0
    assert balances["totalOverdraftCreditBalance"] == 50
    assert overdrawable.verify() == []


def test_an_account_with_an_overdraft_limit_has_no_manual_capture(overdrawable, points):
    wallet = overdrawable.wallet()
    overdrawable.mint(wallet, 10)
    assert (
        refusal_type(overdrawable, source=wallet, amount=1, captureMethod="manual") == "/problems/capture-not-supported"
    )
    points.mint(wallet, 10)
    points.burn(wallet, 1, captureMethod="manual")
    body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False, "decimals": 2}
    problem = points.admin.put(points.path, {**body, "overdraftLimit": 5}, expect=409)
    assert problem["type"] == "/problems/ledger-account-in-use"
    # A negative limit allows no overdraft.
    points.admin.put(points.path, {**body, "overdraftLimit": -5})


def test_points_that_expire_soonest_are_spent_first_and_keep_their_expiry(organization):
    points = Points.new(organization, expiresInMonths=12)
    ana, ben = points.wallet(), points.wallet()
    soon, later = datetime.now(UTC) + timedelta(days=3), datetime.now(UTC) + timedelta(days=9)
    late_mint, early_mint = points.mint(ana, 10, expires_at=later), points.mint(ana, 5, expires_at=soon)
    [debit, credit] = points.move(8, source=ana, target=ben)
    rows = {(row["ledgerTransactionId"], row["walletId"]): row["lots"] for row in points.rows(include="lots")}
    # The 8 points are the 5 of the early mint and 3 of the late one.
    consumed_lots = rows[debit["ledgerTransactionId"], ana]["consumed"]
    assert rows[debit["ledgerTransactionId"], ana]["count"] == 2
    assert [(lot["madeByLedgerTransactionId"], lot["amount"]) for lot in consumed_lots] == [
        (early_mint, 5),
        (late_mint, 3),
    ]
    assert [datetime.fromisoformat(lot["expiresAt"]) for lot in consumed_lots] == [soon, later]
    assert rows[credit["ledgerTransactionId"], ben] == {"count": 0, "consumed": []}
    assert rows[late_mint, ana] == {"count": 0, "consumed": []}
    lots = points.wallet_of(ben, include="lots")["lots"]
    assert [(datetime.fromisoformat(lot["expiresAt"]), lot["available"]) for lot in lots["expiring"]] == [
        (soon, 5),
        (later, 3),
    ]
    points.burn(ben, 6)
    lots_of_burn = points.rows(include="lots", walletId=ben)[0]["lots"]["consumed"]
    assert [(lot["madeByLedgerTransactionId"], lot["amount"]) for lot in lots_of_burn] == [
        (debit["ledgerTransactionId"], 5),
        (debit["ledgerTransactionId"], 1),
    ]
    assert points.verify() == []


def test_rows_of_a_member_include_the_consumed_lots(organization):
    points = Points.new(organization, pointTrackingEnabled=True)
    member = organization.member()
    mint_id = points.mint(member["ledgerWalletId"], 10)
    points.burn(member["ledgerWalletId"], 4)
    path = f"/members/{member['loyaltyMemberId']}/ledger-transactions"
    burn, mint = organization.integration.get(path, include="lots")["results"]
    [consumed_lot] = burn["lots"]["consumed"]
    assert (consumed_lot["madeByLedgerTransactionId"], consumed_lot["amount"], consumed_lot["expiresAt"]) == (
        mint_id,
        4,
        None,
    )
    assert mint["lots"] == {"count": 0, "consumed": []}
    assert "lots" not in organization.integration.get(path)["results"][0]


def test_a_part_that_transactions_do_not_have_cannot_be_included(organization):
    path = f"/members/{organization.member()['loyaltyMemberId']}/ledger-transactions"
    problem = organization.integration.get(path, include="coupons", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["include"]


def test_expired_points_cannot_be_spent(organization):
    points = Points.new(organization, expiresInMonths=12)
    wallet = points.wallet()
    expired_mint_id = points.mint(wallet, 10, expires_at=datetime.now(UTC) - timedelta(days=2))
    points.mint(wallet, 5)
    assert points.balance(wallet) == 5
    assert refusal_type(points, source=wallet, amount=6) == "/problems/insufficient-balance"
    [burn] = points.burn(wallet, 5)
    assert burn["updatedBalance"] == 0
    # Newest first: the burn of 5, the mint of 5, the expiry of 10, its mint.
    expiry = points.rows()[2]
    assert (expiry["transactionType"], expiry["amount"], expiry["description"]) == ("burn", 10, "Expired")
    problem = points.revert(expiry["ledgerTransactionId"], expect=409)
    assert problem["type"] == "/problems/not-revertible"
    assert problem["detail"].endswith(" cannot be reverted: it is an expiry.")
    # All points of the mint have expired, so nothing is clawed back.
    [revert] = points.revert(expired_mint_id)
    assert (revert["amount"], points.balance(wallet)) == (0, 0)
    assert points.verify() == []


def test_points_whose_lifetime_has_ended_expire_as_soon_as_they_are_minted(organization):
    points = Points.new(organization, expiresInMonths=1)
    wallet = points.wallet()
    [row] = points.move(10, target=wallet, externalEventDate="2020-01-01T00:00:00Z")
    assert (row["updatedBalance"], points.balance(wallet)) == (0, 0)
    assert [(row["transactionType"], row["amount"]) for row in points.rows()] == [("burn", 10), ("mint", 10)]
    assert points.verify() == []


def test_a_repeated_key_returns_the_same_rows_and_posts_nothing(points):
    ana, ben = points.wallet(), points.wallet()
    points.mint(ana, 100)
    for source, target in ((None, ana), (ana, None), (ana, ben)):
        movement = {
            **DETAILS,
            "source": source,
            "target": target,
            "amount": 7,
            "systemUniqueKey": f"once-{source}-{target}",
        }
        rows = points.move(**movement)
        assert points.move(**movement) == rows
        for change in ({"amount": 8}, {"description": "Tea"}, {"tags": []}, {"captureMethod": "manual"}):
            assert refusal_type(points, **{**movement, **change}) == "/problems/key-reused"
    # Two mints, a burn, and a transfer, which has two rows.
    assert len(points.rows()) == 2 + 1 + 2
    assert points.balance(ana) == 100 + 7 - 7 - 7
    assert points.verify() == []


def test_a_repeated_key_returns_the_first_response_after_captures_and_reverts(points):
    ana, ben = points.wallet(), points.wallet()
    points.mint(ana, 100)
    fiat = {"fiatValue": 10, "fiatCurrency": "EUR"}
    [hold] = points.burn(ana, 30, systemUniqueKey="held", captureMethod="manual", **fiat)
    assert (hold["status"], hold["amount"], hold["updatedBalance"]) == (PENDING, 30, 100)
    debit, credit = points.move(5, source=ana, target=ben, systemUniqueKey="sent")
    points.capture((hold["ledgerTransactionId"], 7))
    points.revert(debit["ledgerTransactionId"])
    assert points.rows(walletId=ana, systemUniqueKey="held")[0]["amount"] == 7
    assert points.burn(ana, 30, systemUniqueKey="held", captureMethod="manual", **fiat) == [hold]
    assert points.move(5, source=ana, target=ben, systemUniqueKey="sent") == [debit, credit]
    points.revert(hold["ledgerTransactionId"])
    assert points.burn(ana, 30, systemUniqueKey="held", captureMethod="manual", **fiat) == [hold]
    # Both movements are reverted.
    assert points.balance(ana) == 100


def test_organizations_may_use_the_same_key(points, other_organization):
    foreign_points = Points.new(other_organization)
    foreign_points.mint(foreign_points.wallet(), 5, systemUniqueKey="shared")
    [mint] = points.move(3, target=points.wallet(), systemUniqueKey="shared")
    assert mint["amount"] == 3


def test_accounts_of_other_ledgers_and_organizations_are_unknown(points, other_organization):
    wallet = points.wallet()
    body = {"amount": 1, "fromWalletId": None, "toWalletId": wallet}
    other_ledger_id = points.admin.post("/ledgers", {"name": "Elsewhere"})["ledger"]["ledgerId"]
    points.admin.post(f"/ledgers/{other_ledger_id}/accounts/{points.account_id}/transactions", body, expect=404)
    foreign_points = Points.new(other_organization)
    points.admin.post(f"{foreign_points.path}/transactions", body, expect=404)
    points.admin.post(f"{points.ledger_path}/accounts/{foreign_points.account_id}/transactions", body, expect=404)
    transaction_set = {"create": [{**body, "ledgerAccountId": foreign_points.account_id}]}
    problem = points.admin.post(f"{points.ledger_path}/transaction-sets", transaction_set, expect=404)
    assert problem["type"] == "/problems/unknown-ledger-account"


def test_points_of_a_wallet_can_be_burned_by_its_path(points, overdrawable):
    wallet = points.wallet()
    points.mint(wallet, 10)
    path = f"{points.path}/wallets/{wallet}/burn"
    [row] = points.admin.post(path, {"amount": 4, **DETAILS}, expect=200)["transactions"]
    assert (row["transactionType"], row["amount"], row["fromWalletId"], row["toWalletId"]) == ("burn", 4, wallet, None)
    assert {name: row[name] for name in DETAILS} == DETAILS
    assert points.admin.post(path, {"amount": 4, **DETAILS}, expect=200)["transactions"] == [row]
    [hold] = points.admin.post(path, {"amount": 5, "captureMethod": "manual"}, expect=200)["transactions"]
    assert (hold["status"], points.wallet_of(wallet)["pendingDebitBalance"]) == (PENDING, 5)
    # 4 of the 10 points are burned and 5 on hold, so only 1 is available.
    assert points.admin.post(path, {"amount": 2}, expect=409)["type"] == "/problems/insufficient-balance"
    assert points.admin.post(path, {"amount": 5, **DETAILS}, expect=409)["type"] == "/problems/key-reused"
    problem = points.admin.post(path, {"amount": 1, "fiatValue": 1}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/fiatValue"]
    points.admin.post(f"{points.path}/wallets/{2**60}/burn", {"amount": 1}, expect=404)
    path = f"{overdrawable.path}/wallets/{wallet}/burn"
    [overdraft] = points.admin.post(path, {"amount": 9, "allowOverdraft": True}, expect=200)["transactions"]
    assert (overdraft["amount"], overdraft["isOverdraft"]) == (9, True)


def test_points_can_be_minted_into_a_wallet_by_its_path(organization):
    administration, defaults = organization.administration, organization.defaults
    wallet = organization.member()["ledgerWalletId"]
    path = f"/ledgers/{defaults.ledger_id}/wallets/{wallet}/mint"
    [row] = administration.post(path, {"amount": 4, **DETAILS}, expect=200)["transactions"]
    assert row["ledgerAccountId"] == defaults.ledger_account_id
    assert (row["transactionType"], row["toWalletId"], row["updatedBalance"]) == ("mint", wallet, 4)
    assert {name: row[name] for name in DETAILS} == DETAILS
    assert administration.post(path, {"amount": 4, **DETAILS}, expect=200)["transactions"] == [row]
    assert administration.post(path, {"amount": 5, **DETAILS}, expect=409)["type"] == "/problems/key-reused"
    for past_date in ("2020-01-01T00:00:00Z", datetime.now(UTC).isoformat()):
        problem = administration.post(path, {"amount": 1, "expirationDate": past_date}, expect=400)
        assert [error["pointer"] for error in problem["errors"]] == ["/expirationDate"]
    administration.post(f"/ledgers/{defaults.ledger_id}/wallets/{2**60}/mint", {"amount": 1}, expect=404)


def test_a_mint_expires_on_its_expiration_date(organization):
    points = Points.new(organization, expiresInMonths=12, isDefaultAccount=True)
    wallet = points.wallet()
    path = f"{points.ledger_path}/wallets/{wallet}/mint"
    body = {"amount": 4, "expirationDate": "2099-12-31T23:59:59Z", "systemUniqueKey": "late"}
    [row] = points.admin.post(path, body, expect=200)["transactions"]
    assert row["ledgerAccountId"] == points.account_id
    [lots] = points.wallet_of(wallet, include="lots")["lots"]["expiring"]
    assert (lots["expiresAt"], lots["available"]) == ("2099-12-31T23:59:59Z", 4)


@pytest.mark.slow
def test_a_repeated_mint_returns_its_first_response_after_its_points_have_expired(organization):
    points = Points.new(organization, pointTrackingEnabled=True, isDefaultAccount=True)
    wallet = points.wallet()
    path = f"{points.ledger_path}/wallets/{wallet}/mint"
    soon = datetime.now(UTC) + timedelta(seconds=2)
    body = {"amount": 4, "expirationDate": soon.isoformat(), "systemUniqueKey": "short"}
    first_response = points.admin.post(path, body, expect=200)
    while datetime.now(UTC) <= soon:
        pass
    assert points.admin.post(path, body, expect=200) == first_response
    assert points.balance(wallet) == 0


def test_a_ledger_without_accounts_mints_nothing(points):
    ledger = points.admin.post("/ledgers", {"name": "Empty"})["ledger"]["ledgerId"]
    wallet = points.raw(lambda raw: raw.wallet(ledger))
    problem = points.admin.post(f"/ledgers/{ledger}/wallets/{wallet}/mint", {"amount": 1}, expect=404)
    assert problem["type"] == "/problems/unknown-ledger-account"


def test_a_set_is_posted_entirely_or_not_at_all(points, organization):
    moons, ana, ben = Points.new(organization, name="Moons"), points.wallet(), points.wallet()
    path = f"{points.ledger_path}/transaction-sets"
    account_field = {"ledgerAccountId": points.account_id}
    mint = {**account_field, "amount": 10, "fromWalletId": None, "toWalletId": ana, "tags": ["a"]}
    transfer = {**account_field, "amount": 4, "fromWalletId": ana, "toWalletId": ben}
    burn = {**account_field, "amount": 3, "fromWalletId": ben, "toWalletId": None, "fiatValue": 2}
    mint_of_moons = {"ledgerAccountId": moons.account_id, "amount": 9, "fromWalletId": None, "toWalletId": ana}
    create = [{**mint, "systemUniqueKey": "set-1"}, transfer, burn, mint_of_moons]
    rows = points.admin.post(path, {"create": create})["transactions"]
    assert [
        (row["transactionType"], row["ledgerAccountId"], row["walletId"], row["amount"], row["updatedBalance"])
        for row in rows
    ] == [
        ("mint", points.account_id, ana, 10, 10),
        ("transfer", points.account_id, ana, 4, 6),
        ("transfer", points.account_id, ben, 4, 4),
        ("burn", points.account_id, ben, 3, 1),
        ("mint", moons.account_id, ana, 9, 9),
    ]
    failing_set = [
        {**mint, "systemUniqueKey": "set-2"},
        {**account_field, "amount": 999, "fromWalletId": ana, "toWalletId": None},
    ]
    assert points.admin.post(path, {"create": failing_set}, expect=409)["type"] == "/problems/insufficient-balance"
    assert points.rows(systemUniqueKey="set-2") == []
    # Only the first set was posted.
    assert (points.balance(ana), points.balance(ben), moons.balance(ana)) == (10 - 4, 4 - 3, 9)
    assert points.verify() == []


def test_a_malformed_set_is_refused_with_the_field(points):
    ana = points.wallet()
    mint_without_account = {"amount": 1, "fromWalletId": None, "toWalletId": ana}
    mint = {**mint_without_account, "ledgerAccountId": points.account_id}
    for create, pointer in (
        # The account has two decimals.
        ([mint, {**mint, "amount": Decimal("0.001")}], "/create/1/amount"),
        ([mint_without_account], "/create/0/ledgerAccountId"),
        ([], "/create"),
        # A set has at most 100 items.
        ([mint] * 101, "/create"),
    ):
        problem = points.admin.post(f"{points.ledger_path}/transaction-sets", {"create": create}, expect=400)
        assert [error["pointer"] for error in problem["errors"]] == [pointer]
    assert points.balance(ana) == 0


def test_a_repeated_set_gets_its_first_response_in_any_order_and_a_changed_one_is_refused(points):
    ana = points.wallet()
    mint = {"ledgerAccountId": points.account_id, "amount": 10, "fromWalletId": None, "toWalletId": ana}
    create = [{**mint, "systemUniqueKey": "one"}, {**mint, "systemUniqueKey": "two", "captureMethod": "manual"}]
    path = f"{points.ledger_path}/transaction-sets"
    first_response = points.admin.post(path, {"create": create})
    points.capture((first_response["transactions"][1]["ledgerTransactionId"], 3))
    assert points.admin.post(path, {"create": create}) == first_response
    assert points.admin.post(path, {"create": create[::-1]})["transactions"] == first_response["transactions"][::-1]
    set_with_reused_key = [
        {**mint, "amount": 11, "systemUniqueKey": "three"},
        {**mint, "amount": 11, "systemUniqueKey": "one"},
    ]
    assert points.admin.post(path, {"create": set_with_reused_key}, expect=409)["type"] == "/problems/key-reused"
    # The mint "one", and the captured points of the mint "two".
    assert points.balance(ana) == 10 + 3
