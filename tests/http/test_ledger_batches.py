"""Batches of ledger transactions: individual items, items of a set, and a fixed number of statements."""

from __future__ import annotations

import uuid
from decimal import Decimal

import pytest

from domain.ledger.records import PENDING, SETTLED
from tests.builders.points import Points
from tests.builders.statements import count


@pytest.fixture
def points(organization):
    return Points.new(organization, decimals=2, pointTrackingEnabled=True)


@pytest.fixture
def ana_with_100(points):
    """A wallet with 100 points of one mint."""
    wallet = points.wallet()
    points.mint(wallet, 100)
    return wallet


class Batch:
    """Items of one account, and the call that posts them."""

    def __init__(self, points):
        self.points = points

    def mint(self, wallet, amount, **more):
        """The item of a mint."""
        return self._item(None, wallet, amount, **more)

    def burn(self, wallet, amount, **more):
        """The item of a burn."""
        return self._item(wallet, None, amount, **more)

    def transfer(self, source, target, amount, **more):
        """The item of a transfer from one wallet to another."""
        return self._item(source, target, amount, **more)

    def _item(self, source, target, amount, **more):
        ids = {"organizationId": self.points.organization.id, "ledgerAccountId": self.points.account_id}
        return {**ids, "amount": amount, "fromWalletId": source, "toWalletId": target, **more}

    def post(self, *items, expect=200):
        """Post the items; return the response."""
        return self.points.admin.post("/ledger-transactions/batch", {"items": list(items)}, expect=expect)


@pytest.fixture
def batch(points):
    return Batch(points)


def slugs_of_failures(response):
    """The last parts of the problem types of the failed items, by the index of the item."""
    return {item["index"]: item["error"]["type"].removeprefix("/problems/") for item in response["failed"]}


def test_items_without_a_set_succeed_or_fail_individually_in_order(points, batch, ana_with_100):
    ben = points.wallet()
    earlier_burn = points.burn(ana_with_100, 10, fiatValue=1)[0]["ledgerTransactionId"]
    response = batch.post(
        batch.mint(ben, Decimal("5.5"), systemUniqueKey="b-1", tags=["x"], externalId="e", description="d"),
        batch.burn(ben, 6),
        batch.transfer(ana_with_100, ben, 50, ledgerId=points.account["ledgerId"]),
        batch.burn(ben, 6, fiatValue=2, fiatCurrency="EUR", fiatGrossAmount=3),
        {"revertedLedgerTransactionId": earlier_burn, "systemUniqueKey": "b-5"},
        batch.burn(ana_with_100, 999, systemUniqueKey="b-6"),
        batch.burn(ana_with_100, 20, captureMethod="manual"),
    )
    assert [(item["index"], item["processedStatus"]) for item in response["processed"]] == [
        (0, "ok"),
        (2, "ok"),
        (3, "ok"),
        (4, "ok"),
        (6, "ok"),
    ]
    # The server chose the keys of the other items.
    keys = {item["index"]: item["systemUniqueKey"] for item in response["processed"]}
    assert (keys[0], keys[4]) == ("b-1", "b-5")
    assert slugs_of_failures(response) == {1: "insufficient-balance", 5: "insufficient-balance"}
    assert [item["systemUniqueKey"] for item in response["failed"]] == [None, "b-6"]
    account = points.account
    for item in response["processed"] + response["failed"]:
        assert (item["ledgerKey"], item["ledgerAccountKey"]) == (account["ledgerKey"], account["ledgerAccountKey"])
    rows = [row for item in response["processed"] for row in item["transactions"]]
    # ana has 100 - 10 points before the batch. A hold does not change the balance.
    assert [(r["transactionType"], r["walletId"], r["amount"], r["updatedBalance"], r["status"]) for r in rows] == [
        ("mint", ben, Decimal("5.5"), Decimal("5.5"), SETTLED),
        ("transfer", ana_with_100, 50, 100 - 10 - 50, SETTLED),
        ("transfer", ben, 50, Decimal("55.5"), SETTLED),
        ("burn", ben, 6, Decimal("49.5"), SETTLED),
        ("revert", ana_with_100, 10, 100 - 50, SETTLED),
        ("burn", ana_with_100, 20, 100 - 50, PENDING),
    ]
    assert "error" not in response["processed"][0]
    assert response["failed"][0]["transactions"] == []
    assert points.verify() == []


def test_a_refused_revert_names_the_account_of_its_transaction_if_it_exists(points, batch, ana_with_100):
    [mint] = points.move(5, target=ana_with_100)
    points.revert(mint["ledgerTransactionId"])
    item = {"revertedLedgerTransactionId": mint["ledgerTransactionId"]}
    response = batch.post(item, {"revertedLedgerTransactionId": 987654321})
    assert slugs_of_failures(response) == {0: "already-reverted", 1: "unknown-ledger-transaction"}
    account = points.account
    assert [(failure["ledgerKey"], failure["ledgerAccountKey"]) for failure in response["failed"]] == [
        (account["ledgerKey"], account["ledgerAccountKey"]),
        (None, None),
    ]


def test_items_of_a_set_all_succeed_or_all_fail(points, batch, ana_with_100):
    good_set, bad_set = str(uuid.uuid4()), str(uuid.uuid4())
    response = batch.post(
        batch.mint(ana_with_100, 1, atomicSetId=bad_set),
        batch.mint(ana_with_100, 2),
        batch.mint(ana_with_100, 4, atomicSetId=good_set),
        batch.burn(ana_with_100, 999, atomicSetId=bad_set),
        batch.burn(ana_with_100, 8, atomicSetId=good_set),
        batch.mint(ana_with_100, 16, atomicSetId=bad_set),
    )
    assert [item["index"] for item in response["processed"]] == [1, 2, 4]
    assert slugs_of_failures(response) == {0: "atomic-set-failed", 3: "insufficient-balance", 5: "atomic-set-failed"}
    # The item without a set, and those of the good set.
    assert points.balance(ana_with_100) == 100 + 2 + (4 - 8)
    assert points.verify() == []


def test_the_id_of_a_set_is_the_same_in_upper_and_lower_case(points, batch, ana_with_100):
    set_id = str(uuid.uuid4())
    response = batch.post(
        batch.mint(ana_with_100, 1, atomicSetId=set_id),
        batch.burn(ana_with_100, 999, atomicSetId=set_id.upper()),
    )
    assert slugs_of_failures(response) == {0: "atomic-set-failed", 1: "insufficient-balance"}
    assert points.balance(ana_with_100) == 100


def test_points_of_a_failed_set_are_not_available_to_other_items(points, batch, ana_with_100):
    ben = points.wallet()
    bad_set = str(uuid.uuid4())
    response = batch.post(
        batch.mint(ben, 50, atomicSetId=bad_set),
        batch.burn(ben, 30),
        batch.burn(ben, 60, atomicSetId=bad_set),
    )
    # The set fails because 60 are more than 50, and so the burn of 30 has no points.
    assert response["processed"] == []
    assert slugs_of_failures(response) == {
        0: "atomic-set-failed",
        1: "insufficient-balance",
        2: "insufficient-balance",
    }
    assert points.balance(ben) == 0
    assert points.verify() == []


@pytest.mark.parametrize(
    ("fault", "slug"),
    [
        # No record has the id 2**40, the account has two decimals, and only burns have a fiat value.
        ({"organizationId": 2**40}, "not-found"),
        ({"amount": Decimal("0.001")}, "invalid-request"),
        ({"ledgerAccountId": 2**40}, "unknown-ledger-account"),
        ({"ledgerId": 2**40}, "unknown-ledger-account"),
        ({"expirationDate": "2020-01-01T00:00:00Z"}, "invalid-request"),
        ({"fiatValue": 1}, "fiat-not-allowed"),
    ],
)
def test_an_invalid_item_fails_only_its_own_set(points, batch, ana_with_100, fault, slug):
    set_id = str(uuid.uuid4())
    response = batch.post(
        batch.mint(ana_with_100, 1, atomicSetId=set_id),
        {**batch.mint(ana_with_100, 2, atomicSetId=set_id), **fault},
        batch.mint(ana_with_100, 4),
    )
    assert [item["index"] for item in response["processed"]] == [2]
    assert slugs_of_failures(response) == {0: "atomic-set-failed", 1: slug}
    if slug == "invalid-request":
        [field] = fault
        assert [fault["pointer"] for fault in response["failed"][1]["error"]["errors"]] == [f"/items/1/{field}"]
    assert points.balance(ana_with_100) == 100 + 4


def test_items_with_missing_or_surplus_fields_fail(points, batch, ana_with_100):
    burn = points.burn(ana_with_100, 10)[0]["ledgerTransactionId"]
    expiry = "2099-01-01T00:00:00Z"
    revert = {"revertedLedgerTransactionId": burn}
    # An item, and the fields that its faults name.
    cases = [
        ({"amount": 1, "toWalletId": ana_with_100}, {"fromWalletId", "ledgerAccountId"}),
        ({"fromWalletId": None, "toWalletId": ana_with_100, "ledgerAccountId": points.account_id}, {"amount"}),
        (batch.transfer(None, None, 1), {"fromWalletId"}),
        (batch.mint(ana_with_100, amount=None), {"amount"}),
        (batch.burn(ana_with_100, 1, expirationDate=expiry), {"expirationDate"}),
        ({**batch.mint(ana_with_100, 1), **revert}, {"amount", "toWalletId"}),
        ({**revert, "captureMethod": "manual"}, {"captureMethod"}),
        ({**revert, "expirationDate": expiry}, {"expirationDate"}),
    ]
    response = batch.post(*[item for item, _ in cases])
    assert response["processed"] == []
    fields = [{fault["pointer"].rpartition("/")[2] for fault in item["error"]["errors"]} for item in response["failed"]]
    assert fields == [names for _, names in cases]
    response_with_fiat = batch.post({**revert, "fiatValue": 1})
    assert slugs_of_failures(response_with_fiat) == {0: "fiat-not-allowed"}
    detail = "A revert has no fiatValue, fiatGrossAmount or fiatCurrency."
    assert response_with_fiat["failed"][0]["error"]["detail"] == detail
    assert slugs_of_failures(batch.post({**revert, "ledgerId": 2**40})) == {0: "unknown-ledger-transaction"}
    assert slugs_of_failures(batch.post({**revert, "ledgerAccountId": 2**40})) == {0: "unknown-ledger-transaction"}
    assert slugs_of_failures(batch.post({**revert, "organizationId": 2**40})) == {0: "not-found"}
    assert points.balance(ana_with_100) == 100 - 10


def test_repeated_items_of_a_batch_get_their_first_response(points, batch, ana_with_100):
    ben, set_id = points.wallet(), str(uuid.uuid4())
    burn = points.burn(ana_with_100, 10)[0]["ledgerTransactionId"]
    items = [
        batch.mint(ben, 5, systemUniqueKey="r-1", expirationDate="2099-01-01T00:00:00Z"),
        batch.burn(ana_with_100, 30, systemUniqueKey="r-2", captureMethod="manual", fiatValue=9),
        batch.transfer(ana_with_100, ben, 2, systemUniqueKey="r-3", atomicSetId=set_id),
        {"revertedLedgerTransactionId": burn, "systemUniqueKey": "r-4"},
    ]
    first_response = batch.post(*items)
    assert first_response["failed"] == []
    _mint_id, hold_id, transfer_id, _revert_id = (
        item["transactions"][0]["ledgerTransactionId"] for item in first_response["processed"]
    )
    # Later changes of the transactions do not change the responses.
    points.capture((hold_id, 10))
    batch.post({"revertedLedgerTransactionId": transfer_id})
    balances = (points.balance(ana_with_100), points.balance(ben))
    assert batch.post(*items) == first_response
    assert (points.balance(ana_with_100), points.balance(ben)) == balances
    response = batch.post({**items[0], "amount": 6}, {**items[3], "description": "Other"})
    assert slugs_of_failures(response) == {0: "key-reused", 1: "key-reused"}


def test_a_key_that_occurs_twice_in_a_batch_is_posted_once(points, batch, ana_with_100):
    item = batch.mint(ana_with_100, 5, systemUniqueKey="twice")
    response = batch.post(item, item, {**item, "amount": 6})
    assert [item["index"] for item in response["processed"]] == [0, 1]
    assert response["processed"][0]["transactions"] == response["processed"][1]["transactions"]
    assert slugs_of_failures(response) == {2: "key-reused"}
    assert points.balance(ana_with_100) == 100 + 5


def test_a_refused_item_leaves_its_key_to_later_items(points, batch, ana_with_100):
    burn = batch.burn(ana_with_100, 150, systemUniqueKey="k-1")
    response = batch.post(
        burn,
        batch.mint(ana_with_100, 60, systemUniqueKey="k-2"),
        burn,
        batch.mint(ana_with_100, 5, systemUniqueKey="k-1"),
    )
    # The third item burns 150 of 100 + 60 points, and so uses the key.
    assert slugs_of_failures(response) == {0: "insufficient-balance", 3: "key-reused"}
    assert [item["index"] for item in response["processed"]] == [1, 2]
    assert points.balance(ana_with_100) == 100 + 60 - 150
    assert points.verify() == []


def test_a_failed_set_leaves_its_keys_to_later_items(points, batch, ana_with_100):
    set_id = str(uuid.uuid4())
    mint = batch.mint(ana_with_100, 7, systemUniqueKey="s-1")
    response = batch.post(
        {**mint, "atomicSetId": set_id},
        {**mint, "atomicSetId": set_id},
        batch.burn(ana_with_100, 999, systemUniqueKey="s-2", atomicSetId=set_id),
        mint,
        batch.mint(ana_with_100, 1, systemUniqueKey="s-2"),
    )
    assert slugs_of_failures(response) == {0: "atomic-set-failed", 1: "atomic-set-failed", 2: "insufficient-balance"}
    assert [item["index"] for item in response["processed"]] == [3, 4]
    assert points.balance(ana_with_100) == 100 + 7 + 1
    assert points.verify() == []


def test_a_batch_overdraws_up_to_the_limit(organization):
    points = Points.new(organization, overdraftLimit=50)
    batch, wallet = Batch(points), points.wallet()
    # The points of the mint are spent, so that its revert overdraws by 10; 40 more reach the limit.
    mint = points.mint(wallet, 10)
    points.burn(wallet, 10)
    response = batch.post(
        {"revertedLedgerTransactionId": mint, "allowOverdraft": True},
        batch.burn(wallet, 40, allowOverdraft=True),
        batch.burn(wallet, 1, allowOverdraft=True),
    )
    assert [item["transactions"][0]["isOverdraft"] for item in response["processed"]] == [True, True]
    assert slugs_of_failures(response) == {2: "overdraft-limit"}
    assert points.verify() == []


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/items"),
        ({"items": []}, "/items"),
        ({"items": [{"colour": "red"}]}, "/items/0/colour"),
        ({"items": [{"amount": "1"}]}, "/items/0/amount"),
    ],
)
def test_a_malformed_batch_is_refused_with_the_field(points, body, pointer):
    problem = points.admin.post("/ledger-transactions/batch", body, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_a_batch_has_at_most_100_items(points, batch, ana_with_100):
    mint_of_1 = batch.mint(ana_with_100, 1)
    assert batch.post(*[mint_of_1] * 101, expect=400)["errors"][0]["pointer"] == "/items"
    assert len(batch.post(*[mint_of_1] * 100)["processed"]) == 100
    # 100 from the fixture, and 100 mints of 1.
    assert points.balance(ana_with_100) == 100 + 100


def test_wallets_of_another_organization_are_unknown(points, batch, other_organization):
    foreign_wallet = other_organization.member()["ledgerWalletId"]
    assert slugs_of_failures(batch.post(batch.mint(foreign_wallet, 1))) == {0: "unknown-wallet"}


@pytest.mark.slow
def test_the_number_of_statements_does_not_depend_on_the_number_of_items(points, batch):
    # The first call fills the cache of the process.
    batch.post(batch.mint(points.wallet(), 1))

    def counts_of(number):
        """The numbers of statements of a batch of mints, one of burns, and one of reverts of these burns."""
        wallets = [points.raw(lambda ledger: ledger.wallet()) for _ in range(number)]
        mints = [batch.mint(wallet, 10) for wallet in wallets]
        burns = [batch.burn(wallet, 4) for wallet in wallets]
        responses: list = []
        engine = points.organization.api.engine
        return (
            count(engine, lambda: batch.post(*mints)),
            count(engine, lambda: responses.append(batch.post(*burns))),
            count(engine, lambda: _revert_all(points, responses[0])),
        )

    counts_of_one_item = counts_of(1)
    assert counts_of_one_item == counts_of(10) == counts_of(100)
    assert max(counts_of_one_item) <= 26
    assert points.verify() == []


def _revert_all(points, response):
    """Revert all transactions that a batch has posted, by one batch."""
    ids = [str(item["transactions"][0]["ledgerTransactionId"]) for item in response["processed"]]
    reverts = points.admin.post("/ledger-transactions/batch-revert", {"transactionIds": ids}, expect=200)
    assert len(reverts["processed"]) == len(ids)


def test_sets_whose_items_alternate_are_posted_one_after_the_other(points, batch):
    ana, first_set, second_set = points.wallet(), str(uuid.uuid4()), str(uuid.uuid4())
    points.mint(ana, 20)
    response = batch.post(
        batch.burn(ana, 20, atomicSetId=first_set),
        batch.burn(ana, 20, atomicSetId=second_set),
        batch.burn(ana, 1, atomicSetId=first_set),
    )
    # The first set fails at its second item, so that its 20 points are available to the second set.
    assert slugs_of_failures(response) == {0: "atomic-set-failed", 2: "insufficient-balance"}
    assert [item["index"] for item in response["processed"]] == [1]
    assert points.balance(ana) == 0
