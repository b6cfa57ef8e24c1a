"""Captures and reverts of each kind of transaction: refusals, and the lots and fiat values that they restore."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from domain.ledger.records import REVERTED, SETTLED
from tests.builders.points import Points

DETAILS = {
    "externalEventDate": "2026-04-01T10:00:00Z",
    "systemUniqueKey": "back-1",
    "externalId": "R-18",
    "description": "It was cold",
    "tags": ["bar"],
}


@pytest.fixture
def points(organization):
    return Points.new(organization, decimals=2, pointTrackingEnabled=True)


@pytest.fixture
def overdrawable(organization):
    """An account whose wallets may owe up to 50."""
    return Points.new(organization, overdraftLimit=50, pointTrackingEnabled=True)


@pytest.fixture
def ana_with_100(points):
    """A wallet with 100 points of one mint."""
    wallet = points.wallet()
    points.mint(wallet, 100)
    return wallet


def post_burn(points, wallet, amount, **more):
    """Burn points of a wallet; return the id of the transaction."""
    return points.burn(wallet, amount, **more)[0]["ledgerTransactionId"]


def post_hold(points, wallet, amount, **more):
    """Hold points of a wallet by a burn that waits for its capture; return the id of the transaction."""
    return post_burn(points, wallet, amount, captureMethod="manual", **more)


def post_transfer(points, source, target, amount, **more):
    """Move points from one wallet to another; return the id of the transaction."""
    return points.move(amount, source=source, target=target, **more)[0]["ledgerTransactionId"]


def test_a_revert_returns_every_field_and_both_rows_name_each_other(points, ana_with_100):
    burn = post_burn(points, ana_with_100, 20, fiatValue=4, fiatCurrency="EUR", fiatGrossAmount=5)
    [row] = points.revert(burn, **DETAILS)
    assert row == {
        "ledgerTransactionId": row["ledgerTransactionId"],
        "ledgerTransactionDetailIndex": 0,
        "ledgerAccountId": points.account_id,
        "ledgerAccountKey": points.account["ledgerAccountKey"],
        "transactionType": "revert",
        "status": SETTLED,
        "amount": 20,
        "walletId": ana_with_100,
        "fromWalletId": None,
        "toWalletId": ana_with_100,
        "updatedBalance": 100,
        "isOverdraft": False,
        **DETAILS,
        "revertedLedgerTransactionId": burn,
        "reversalLedgerTransactionId": None,
        "fiatValue": 4,
        "fiatGrossAmount": None,
        "fiatCurrency": "EUR",
        "availability": "available",
        "availableAt": None,
        "createdAt": row["createdAt"],
        "updatedAt": row["createdAt"],
    }
    listed_revert, listed_burn = points.rows(limit=2)
    assert listed_revert == row
    assert listed_burn["status"] == REVERTED
    assert listed_burn["reversalLedgerTransactionId"] == row["ledgerTransactionId"]
    assert points.wallet_of(ana_with_100)["totalFiatValue"] == 0
    assert points.verify() == []


def test_a_revert_needs_no_body(points, ana_with_100):
    burn = post_burn(points, ana_with_100, 20)
    points.admin.post(f"{points.path}/transactions/{burn}/revert", expect=200)
    assert points.balance(ana_with_100) == 100


def test_mints_and_transfers_can_be_reverted(points, ana_with_100):
    ben = points.wallet()
    transfer = post_transfer(points, ana_with_100, ben, 30)
    revert_rows = points.revert(transfer)
    # Wallet, amount and new balance.
    assert [(row["walletId"], row["amount"], row["updatedBalance"]) for row in revert_rows] == [
        (ben, 30, 0),
        (ana_with_100, 30, 100),
    ]
    mint = points.mint(ben, 7)
    [row] = points.revert(mint)
    assert (row["fromWalletId"], row["toWalletId"], row["updatedBalance"]) == (ben, None, 0)
    assert points.verify() == []


def test_a_transaction_can_be_reverted_only_once_and_a_revert_cannot(points, ana_with_100):
    burn = post_burn(points, ana_with_100, 20)
    [revert] = points.revert(burn)
    assert points.revert(burn, expect=409)["type"] == "/problems/already-reverted"
    problem = points.revert(revert["ledgerTransactionId"], expect=409)
    assert problem["type"] == "/problems/not-revertible"
    assert problem["detail"] == f"Transaction {revert['ledgerTransactionId']} cannot be reverted: it is a revert."
    assert points.balance(ana_with_100) == 100


def test_transactions_whose_points_are_spent_cannot_be_reverted(points, ana_with_100):
    ben = points.wallet()
    transfer = post_transfer(points, ana_with_100, ben, 60)
    mint_of_fixture = points.rows()[-1]["ledgerTransactionId"]
    points.burn(ben, 10)
    # ben has 60 - 10 points, ana 100 - 60.
    assert points.revert(transfer, expect=409)["type"] == "/problems/insufficient-balance"
    assert points.revert(mint_of_fixture, expect=409)["type"] == "/problems/insufficient-balance"
    assert points.verify() == []


def test_a_revert_can_return_a_part_of_the_fiat_value(points, ana_with_100):
    burn = post_burn(points, ana_with_100, 20, fiatValue=10, fiatCurrency="EUR")
    [row] = points.revert(burn, partialFiatValue=Decimal("2.5"))
    assert (row["fiatValue"], row["fiatCurrency"]) == (Decimal("2.5"), "EUR")
    assert points.wallet_of(ana_with_100)["totalFiatValue"] == 10 - Decimal("2.5")
    mint = points.mint(ana_with_100, 1)
    problem = points.revert(mint, partialFiatValue=0, expect=409)
    assert (problem["type"], problem["detail"]) == (
        "/problems/fiat-not-allowed",
        f"partialFiatValue is sent, but transaction {mint} is a mint; only the revert of a burn can have it.",
    )
    second_burn = post_burn(points, ana_with_100, 1, fiatValue=1)
    points.revert(second_burn, partialFiatValue=-1, expect=400)
    [row] = points.revert(second_burn, partialFiatValue=0)
    assert row["fiatValue"] == 0


def test_a_repeated_revert_gets_its_first_response(points, ana_with_100):
    burn = post_burn(points, ana_with_100, 20)
    rows = points.revert(burn, **DETAILS)
    assert points.revert(burn, **DETAILS) == rows
    assert points.revert(burn, **{**DETAILS, "description": "Other"}, expect=409)["type"] == "/problems/key-reused"
    second_burn = post_burn(points, ana_with_100, 20)
    assert points.revert(second_burn, **DETAILS, expect=409)["type"] == "/problems/key-reused"
    # Only the second burn is in force.
    assert points.balance(ana_with_100) == 100 - 20


def test_transactions_of_another_account_or_organization_are_not_found(
    points, ana_with_100, other_organization, organization
):
    foreign_points = Points.new(other_organization)
    foreign_mint = foreign_points.mint(foreign_points.wallet(), 5)
    points_of_other_account = Points.new(organization)
    mint_of_other_account = points_of_other_account.mint(ana_with_100, 5)
    for transaction_id in (foreign_mint, mint_of_other_account, 2**62):
        assert points.revert(transaction_id, expect=404)["type"] == "/problems/not-found"
        # In bodies, ids have at most 18 digits.
        problem = points.capture((min(transaction_id, 10**17), None), expect=404)
        assert problem["type"] == "/problems/unknown-ledger-transaction"
    assert points_of_other_account.balance(ana_with_100) == 5


def test_a_revert_of_the_transaction_id_0_is_invalid(points):
    assert points.revert(0, expect=400)["errors"][0]["parameter"] == "ledgerTransactionId"


def test_a_reverted_burn_restores_its_lots_with_their_expiry(points, ana_with_100):
    soon = datetime.now(UTC) + timedelta(days=2)
    points.mint(ana_with_100, 5, expires_at=soon)
    # The burn spends the 5 points that expire soon, and 3 of the 100.
    burn = post_burn(points, ana_with_100, 8)
    points.revert(burn)
    lots = points.wallet_of(ana_with_100, include="lots")["lots"]["expiring"]
    assert [(lot["expiresAt"] and datetime.fromisoformat(lot["expiresAt"]), lot["available"]) for lot in lots] == [
        (soon, 5),
        (None, 100),
    ]
    assert points.verify() == []


def test_points_of_a_reverted_burn_whose_expiry_has_passed_expire_at_once(points, ana_with_100):
    mint_id = points.mint(ana_with_100, 5, expires_at=datetime.now(UTC) + timedelta(days=2))
    burn = post_burn(points, ana_with_100, 5)
    expire_now(points, mint_id)
    [row] = points.revert(burn)
    assert (row["updatedBalance"], points.balance(ana_with_100)) == (100, 100)
    # Newest first: the expiry and the revert.
    assert [(row["transactionType"], row["amount"]) for row in points.rows(limit=2)] == [("burn", 5), ("revert", 5)]
    assert points.verify() == []


def test_a_pending_burn_holds_points_and_can_be_captured_in_part(points, ana_with_100):
    hold_id = post_hold(points, ana_with_100, 30, fiatValue=9)
    wallet = points.wallet_of(ana_with_100, include="lots")
    assert (wallet["currentBalance"], wallet["pendingDebitBalance"], wallet["totalFiatValue"]) == (100, 30, 0)
    assert wallet["lots"]["expiring"] == [{"expiresAt": None, "available": 100 - 30, "reserved": 30}]
    assert points.burn(ana_with_100, 71, expect=409)["type"] == "/problems/insufficient-balance"
    assert points.capture((hold_id, 10)) == {"ok": True}
    wallet = points.wallet_of(ana_with_100)
    # A third of the amount is captured, and so is a third of the fiat value.
    assert (wallet["currentBalance"], wallet["pendingDebitBalance"], wallet["totalFiatValue"]) == (100 - 10, 0, 9 / 3)
    [row] = points.rows(limit=1, include="lots")
    assert (row["status"], row["amount"], row["fiatValue"], row["updatedBalance"]) == (SETTLED, 10, 3, 90)
    assert [lot["amount"] for lot in row["lots"]["consumed"]] == [10]
    points.revert(hold_id)
    assert points.balance(ana_with_100) == 100
    assert points.verify() == []


def test_a_pending_transfer_is_shown_in_both_wallets(points, ana_with_100):
    ben = points.wallet()
    transfer_id = post_transfer(points, ana_with_100, ben, 30, captureMethod="manual")
    assert points.wallet_of(ana_with_100)["pendingDebitBalance"] == 30
    assert points.wallet_of(ben)["pendingCreditBalance"] == 30
    assert points.wallet_of(ben, include="lots")["lots"]["pending"] == 30
    points.capture((transfer_id, None))
    assert points.wallet_of(ana_with_100)["pendingDebitBalance"] == 0
    assert points.balance(ana_with_100) == 100 - 30
    assert points.balance(ben) == 30
    assert points.wallet_of(ben)["pendingCreditBalance"] == 0
    assert points.verify() == []


def test_a_pending_mint_counts_when_it_is_captured(points):
    wallet = points.wallet()
    mint_id = points.mint(wallet, 30, captureMethod="manual")
    assert points.balance(wallet) == 0
    points.capture((mint_id, 20))
    assert points.balance(wallet) == 20
    assert points.verify() == []


@pytest.mark.parametrize("way", ["revert", "capture"])
def test_a_hold_is_released_by_a_revert_or_a_capture_of_0(points, ana_with_100, way):
    hold_id = post_hold(points, ana_with_100, 30, fiatValue=9)
    if way == "revert":
        [row] = points.revert(hold_id, systemUniqueKey="release")
        assert (row["status"], row["amount"], row["transactionType"]) == (REVERTED, 30, "revert")
        assert points.revert(hold_id, systemUniqueKey="release") == [row]
    else:
        points.capture((hold_id, 0))
    wallet = points.wallet_of(ana_with_100)
    assert (wallet["currentBalance"], wallet["pendingDebitBalance"], wallet["totalFiatValue"]) == (100, 0, 0)
    assert points.capture((hold_id, None), expect=409)["type"] == "/problems/not-pending"
    assert points.revert(hold_id, expect=409)["type"] == "/problems/already-reverted"
    # All points are available again.
    points.burn(ana_with_100, 100)
    assert points.verify() == []


def test_either_all_captures_of_a_request_succeed_or_none(points, ana_with_100):
    hold_of_10, hold_of_20 = post_hold(points, ana_with_100, 10), post_hold(points, ana_with_100, 20)
    settled_burn = post_burn(points, ana_with_100, 1)
    # None captures the whole amount; the request captures `hold_of_10` before the refused capture.
    refusals = [
        ((settled_burn, None), "not-pending"),
        ((hold_of_20, 21), "capture-exceeds-hold"),
        ((hold_of_10, 5), "not-pending"),
    ]
    for refused_capture, slug in refusals:
        problem = points.capture((hold_of_10, None), refused_capture, expect=409)
        assert problem["type"] == f"/problems/{slug}"
    problem = points.capture((hold_of_10, None), (hold_of_20, Decimal("0.001")), expect=400)
    [error] = problem["errors"]
    assert error["pointer"] == "/transactions/1/captureAmount"
    assert error["detail"].startswith("captureAmount has more than the")
    assert points.wallet_of(ana_with_100)["pendingDebitBalance"] == 10 + 20
    assert points.capture((hold_of_10, 10), (hold_of_20, None)) == {"ok": True}
    assert points.balance(ana_with_100) == 100 - 1 - 10 - 20
    assert points.capture((hold_of_10, 10), expect=409)["type"] == "/problems/not-pending"
    assert points.verify() == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/transactions"),
        ({"transactions": []}, "/transactions"),
        # A request has at most 100 captures.
        ({"transactions": [{"ledgerTransactionId": "1"}] * 101}, "/transactions"),
        ({"transactions": [{"ledgerTransactionId": "x"}]}, "/transactions/0/ledgerTransactionId"),
    ],
)
def test_malformed_captures_are_refused_with_the_field(points, body, pointer):
    problem = points.admin.post(f"{points.path}/captures", body, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


def batch_revert(points, *ids, **more):
    """Revert transactions by one batch; return the response."""
    body = {"transactionIds": [str(transaction_id) for transaction_id in ids], **more}
    return points.admin.post("/ledger-transactions/batch-revert", body, expect=200)


def test_a_revert_of_a_spent_mint_fails_or_overdraws_or_burns_the_remaining_points(overdrawable):
    wallet = overdrawable.wallet()
    mint = overdrawable.mint(wallet, 30)
    overdrawable.burn(wallet, 20)
    # 10 of the 30 points remain; 20 would overdraw.
    [failed_item] = batch_revert(overdrawable, mint)["failed"]
    assert failed_item["error"]["type"] == "/problems/insufficient-balance"
    [revert] = batch_revert(overdrawable, mint, burnAvailableBalance=True, allowOverdraft=True)["processed"]
    assert [(row["amount"], row["isOverdraft"]) for row in revert["transactions"]] == [(10, False), (20, True)]
    assert overdrawable.wallet_of(wallet)["currentOverdraftBalance"] == 20
    second_wallet = overdrawable.wallet()
    mint = overdrawable.mint(second_wallet, 30)
    overdrawable.burn(second_wallet, 20)
    [revert] = batch_revert(overdrawable, mint, burnAvailableBalance=True)["processed"]
    assert [row["amount"] for row in revert["transactions"]] == [30 - 20]
    assert overdrawable.wallet_of(second_wallet)["currentOverdraftBalance"] == 0
    assert overdrawable.verify() == []


def test_a_revert_cannot_exceed_the_overdraft_limit(overdrawable):
    wallet = overdrawable.wallet()
    mint = overdrawable.mint(wallet, 60)
    overdrawable.burn(wallet, 60)
    # The limit is 50.
    [failed_item] = batch_revert(overdrawable, mint, allowOverdraft=True)["failed"]
    assert failed_item["error"]["type"] == "/problems/overdraft-limit"
    assert overdrawable.wallet_of(wallet)["currentOverdraftBalance"] == 0


def test_allowing_an_overdraft_has_no_effect_on_an_account_without_one(points, ana_with_100):
    [mint_of_fixture] = points.rows()
    mint = mint_of_fixture["ledgerTransactionId"]
    points.burn(ana_with_100, 60)
    [failed_item] = batch_revert(points, mint, allowOverdraft=True)["failed"]
    assert failed_item["error"]["type"] == "/problems/insufficient-balance"
    [revert] = batch_revert(points, mint, allowOverdraft=True, burnAvailableBalance=True)["processed"]
    assert [row["amount"] for row in revert["transactions"]] == [100 - 60]


def test_a_batch_of_reverts_returns_a_result_for_each_transaction(
    points, ana_with_100, organization, other_organization
):
    first_burn = post_burn(points, ana_with_100, 10, fiatValue=8)
    second_burn = post_burn(points, ana_with_100, 20, fiatValue=8)
    moons = Points.new(organization, name="Moons")
    mint_of_moons = moons.mint(ana_with_100, 5)
    foreign_points = Points.new(other_organization)
    foreign_mint = foreign_points.mint(foreign_points.wallet(), 5)
    unknown_id = 10**17
    fiat = [{"ledgerTransactionId": str(first_burn), "partialFiatValue": 3}]
    ids = (first_burn, foreign_mint, second_burn, mint_of_moons, first_burn, unknown_id)
    response = batch_revert(points, *ids, partialFiatValues=fiat)
    assert [(item["ledgerTransactionId"], item["processedStatus"]) for item in response["processed"]] == [
        (str(first_burn), "ok"),
        (str(second_burn), "ok"),
        (str(mint_of_moons), "ok"),
    ]
    assert [
        (item["ledgerTransactionId"], item["processedStatus"], item["error"]["type"]) for item in response["failed"]
    ] == [
        (str(foreign_mint), "failed", "/problems/unknown-ledger-transaction"),
        (str(first_burn), "failed", "/problems/already-reverted"),
        (str(unknown_id), "failed", "/problems/unknown-ledger-transaction"),
    ]
    assert [item["transactions"][0]["fiatValue"] for item in response["processed"]] == [3, 8, None]
    keys = [item["ledgerAccountKey"] for item in response["processed"]]
    assert keys == [points.account["ledgerAccountKey"]] * 2 + [moons.account["ledgerAccountKey"]]
    assert {item["ledgerKey"] for item in response["processed"]} == {points.account["ledgerKey"]}
    # Nothing is returned about the two unknown transactions.
    foreign_failure, _repeated_failure, unknown_failure = response["failed"]
    assert (foreign_failure["ledgerKey"], unknown_failure["ledgerKey"]) == (None, None)
    assert [item["transactions"] for item in response["failed"]] == [[], [], []]
    # The burns of 8 each, and the values that their reverts return.
    assert points.wallet_of(ana_with_100)["totalFiatValue"] == 8 + 8 - 3 - 8
    assert foreign_points.rows()[0]["status"] == SETTLED
    assert points.verify() == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"transactionIds": []}, "/transactionIds"),
        ({"transactionIds": ["1"] * 101}, "/transactionIds"),
        ({"transactionIds": [1]}, "/transactionIds/0"),
        ({"transactionIds": ["9" * 19]}, "/transactionIds/0"),
        ({}, "/transactionIds"),
        (
            {"transactionIds": ["1"], "partialFiatValues": [{"ledgerTransactionId": "2", "partialFiatValue": 1}]},
            "/partialFiatValues/0/ledgerTransactionId",
        ),
        (
            {"transactionIds": ["1"], "partialFiatValues": [{"ledgerTransactionId": "1", "partialFiatValue": 1}] * 2},
            "/partialFiatValues/1/ledgerTransactionId",
        ),
    ],
)
def test_malformed_batches_of_reverts_are_refused_with_the_field(points, body, pointer):
    problem = points.admin.post("/ledger-transactions/batch-revert", body, expect=400)
    assert {error["pointer"] for error in problem["errors"]} == {pointer}


def test_a_revert_cannot_return_more_fiat_value_than_the_burn_has(points, ana_with_100):
    burn = post_burn(points, ana_with_100, 20, fiatValue=4)
    problem = points.revert(burn, partialFiatValue=400, expect=409)
    assert problem["type"] == "/problems/fiat-exceeds-burn"
    burn_without_value = post_burn(points, ana_with_100, 5)
    assert points.revert(burn_without_value, partialFiatValue=1, expect=409)["type"] == "/problems/fiat-exceeds-burn"
    points.revert(burn, partialFiatValue=4)
    assert points.wallet_of(ana_with_100)["totalFiatValue"] == 0


def test_a_revert_of_a_mint_claws_back_only_points_that_have_not_expired(points, ana_with_100):
    mint = points.mint(ana_with_100, 50, expires_at=datetime.now(UTC) + timedelta(days=2))
    points.burn(ana_with_100, 20)
    expire_now(points, mint)
    # The points that expire first were spent first: 20 of the 50 by the burn, and 30 have expired.
    assert points.balance(ana_with_100) == 100
    [row] = points.revert(mint)
    assert (row["amount"], row["updatedBalance"]) == (20, 100 - 20)
    assert points.verify() == []


def test_a_revert_of_a_transfer_returns_only_points_that_have_not_expired(points, ana_with_100):
    ben = points.wallet()
    points.mint(ben, 100)
    mint = points.mint(ana_with_100, 50, expires_at=datetime.now(UTC) + timedelta(days=2))
    transfer = post_transfer(points, ana_with_100, ben, 50)
    expire_now(points, mint, transfer)
    # All 50 transferred points have expired: ana and ben have the 100 that were minted for each of them.
    assert (points.balance(ana_with_100), points.balance(ben)) == (100, 100)
    points.revert(transfer)
    assert (points.balance(ana_with_100), points.balance(ben)) == (100, 100)
    assert points.verify() == []


def expire_now(points, *transaction_ids):
    """Let the lots of these transactions expire at this moment."""
    statement = "UPDATE ledger_lots SET expires_at = now() WHERE ledger_transaction_id = ANY(:ids)"
    points.change(statement, ids=list(transaction_ids))


@pytest.mark.parametrize("is_tracked", [True, False])
def test_the_missing_amount_of_a_revert_is_clawed_back_when_a_debit_is_reverted(organization, is_tracked):
    points = Points.new(organization, pointTrackingEnabled=is_tracked)
    ana = points.wallet()
    mint = points.mint(ana, 50)
    burn = post_burn(points, ana, 30)
    hold = post_hold(points, ana, 20)
    # All 50 points are spent or on hold, so that the revert burns none and all are missing.
    revert_spent_mint(points, mint)
    assert points.balance(ana) == 50 - 30
    reversal, clawback = points.revert(burn, systemUniqueKey="back")
    assert (reversal["revertedLedgerTransactionId"], reversal["amount"], reversal["updatedBalance"]) == (burn, 30, 50)
    assert (clawback["revertedLedgerTransactionId"], clawback["amount"], clawback["updatedBalance"]) == (mint, 30, 20)
    assert points.revert(burn, systemUniqueKey="back") == [reversal, clawback]
    release, clawback = points.revert(hold)
    assert (release["status"], clawback["revertedLedgerTransactionId"], clawback["amount"]) == (REVERTED, mint, 20)
    assert points.balance(ana) == 0
    assert points.verify() == []


def test_the_missing_amount_of_a_revert_is_clawed_back_from_points_that_a_capture_releases(points):
    ana = points.wallet()
    mint = points.mint(ana, 50)
    hold = post_hold(points, ana, 50)
    revert_spent_mint(points, mint)
    # The capture burns 20 and releases 30, which are clawed back.
    points.capture((hold, 20))
    assert points.balance(ana) == 0
    # So are the 20 points that the revert returns.
    points.revert(hold)
    assert points.balance(ana) == 0
    assert points.verify() == []


def test_a_missing_amount_is_not_clawed_back_when_a_later_burn_is_reverted(points):
    ana = points.wallet()
    mint = points.mint(ana, 50)
    early_burn = post_burn(points, ana, 50)
    revert_spent_mint(points, mint)
    points.mint(ana, 30)
    late_burn = post_burn(points, ana, 30)
    # Only the row of the revert, no clawback: the burn took points of the second mint.
    assert len(points.revert(late_burn)) == 1
    assert points.balance(ana) == 30
    # The 50 points of the first mint are clawed back at once.
    points.revert(early_burn)
    assert points.balance(ana) == 30
    assert points.verify() == []


def revert_spent_mint(points, mint):
    """Revert a spent mint by burning the remaining points; the rest of its amount is missing."""
    body = {"transactionIds": [str(mint)], "burnAvailableBalance": True}
    assert points.admin.post("/ledger-transactions/batch-revert", body, expect=200)["failed"] == []


def test_an_updated_balance_excludes_expired_points(organization):
    points = Points.new(organization, expiresInMonths=1)
    ana = points.wallet()
    points.mint(ana, 10)
    [row] = points.move(5, target=ana, externalEventDate="2020-01-01T00:00:00Z")
    # The 5 points have expired, a month after their date.
    assert (row["amount"], row["updatedBalance"]) == (5, 10)
    # The two mints.
    assert [entry["updatedBalance"] for entry in points.rows()][-2:] == [10, 10]
    burn = post_burn(points, ana, 10)
    points.change("UPDATE ledger_lots SET expires_at = now() WHERE wallet_id = :ana", ana=ana)
    [row] = points.revert(burn)
    assert (row["amount"], row["updatedBalance"]) == (10, 0)
    assert points.verify() == []
