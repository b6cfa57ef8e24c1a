"""Changes of the maximum supply of an account."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from sqlalchemy import text

from domain.ledger.records import MAX_AMOUNT, SETTLED
from tests.builders.points import Points

DETAILS = {
    "externalEventDate": "2026-04-01T10:00:00Z",
    "systemUniqueKey": "supply-1",
    "externalId": "S-1",
    "description": "Supply of the year",
    "tags": ["yearly"],
}


@pytest.fixture
def points(organization):
    """An account with a maximum supply of 100 and 2 fraction digits, without points."""
    return Points.new(organization, decimals=2, maxSupply=100)


def put(points, body=None, *, expect=200):
    """Change the maximum supply; return the response."""
    return points.admin.put(f"{points.path}/max-supply", body, expect=expect)


def max_supply(points):
    """The maximum supply of the account, or None if it is unlimited."""
    accounts = points.admin.get(f"{points.ledger_path}/accounts", name=points.account["name"])["results"]
    return next(result["maxSupply"] for result in accounts if result["ledgerAccountId"] == points.account_id)


def test_a_change_is_recorded_as_a_transaction_that_moves_nothing(points):
    [row] = put(points, {"maxSupply": Decimal("250.5"), **DETAILS})["transactions"]
    assert row == {
        "ledgerTransactionId": row["ledgerTransactionId"],
        "ledgerTransactionDetailIndex": 0,
        "ledgerAccountId": points.account_id,
        "ledgerAccountKey": points.account["ledgerAccountKey"],
        "transactionType": "mint",
        "status": SETTLED,
        "amount": 0,
        "walletId": None,
        "fromWalletId": None,
        "toWalletId": None,
        "updatedBalance": None,
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
    assert max_supply(points) == Decimal("250.5")
    problem = points.revert(row["ledgerTransactionId"], expect=409)
    assert problem["type"] == "/problems/not-revertible"
    assert problem["detail"].endswith(" cannot be reverted: it records a change of the account.")
    assert points.rows(include="lots")[0]["lots"] == {"count": 0, "consumed": []}
    assert points.verify() == []


@pytest.mark.parametrize("body", [None, {}, {"maxSupply": None}, {"description": "No end"}])
def test_a_change_without_a_supply_makes_it_unlimited(points, body):
    wallet = points.wallet()
    put(points, body)
    assert max_supply(points) is None
    points.mint(wallet, MAX_AMOUNT)


def test_a_supply_below_the_issued_points_is_refused(points):
    wallet = points.wallet()
    points.mint(wallet, 60)
    points.burn(wallet, 10)
    problem = put(points, {"maxSupply": Decimal("49.99")}, expect=409)
    assert (problem["type"], problem["issued"]) == ("/problems/supply-below-issued", 60 - 10)
    assert max_supply(points) == 100
    put(points, {"maxSupply": 50})
    assert points.move(source=None, target=wallet, amount=1, expect=409)["type"] == "/problems/supply-exceeded"
    put(points, {"maxSupply": 51})
    points.mint(wallet, 1)
    assert points.verify() == []


@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1, "5", Decimal("0.001")])
def test_invalid_supplies_are_refused(points, amount):
    problem = put(points, {"maxSupply": amount}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/maxSupply"]
    assert points.rows() == []


def test_an_amount_is_no_field_of_a_change(points):
    problem = put(points, {"maxSupply": 5, "amount": 5}, expect=400)
    assert [fault["pointer"] for fault in problem["errors"]] == ["/amount"]
    assert max_supply(points) == 100


def test_a_repeated_change_returns_the_first_response(points):
    body = {"maxSupply": 300, **DETAILS}
    first_response = put(points, body)
    put(points, {"maxSupply": 200})
    assert put(points, body) == first_response
    assert max_supply(points) == 200
    assert put(points, {**body, "maxSupply": 301}, expect=409)["type"] == "/problems/key-reused"
    points.mint(points.wallet(), 1, systemUniqueKey="mint-1")
    assert put(points, {"systemUniqueKey": "mint-1"}, expect=409)["type"] == "/problems/key-reused"


def test_concurrent_repetitions_change_the_supply_once(points):
    with ThreadPoolExecutor(6) as pool:
        responses = list(pool.map(lambda _: put(points, {"maxSupply": 300, **DETAILS}), range(6)))
    assert all(response == responses[0] for response in responses)
    assert len(points.rows()) == 1


def test_concurrent_mints_and_reductions_of_the_supply_never_exceed_it(points):
    wallets = [points.wallet() for _ in range(6)]

    def mint_or_reduce(number):
        """Reduce the supply if the number is a multiple of 3, else mint 10; return the status of the response."""
        if number % 3 == 0:
            return points.admin.request("PUT", f"{points.path}/max-supply", {"maxSupply": 40}).status
        body = {"amount": 10, "fromWalletId": None, "toWalletId": wallets[number % 6]}
        return points.admin.request("POST", f"{points.path}/transactions", body).status

    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(mint_or_reduce, range(24)))
    # 409 is the status of a mint beyond the supply, and of a supply below the issued points.
    assert set(statuses) <= {200, 201, 409}
    # The 16 mints exceed the supply, whether or not it was reduced. So as many succeeded as it allows.
    assert 10 * statuses.count(201) == max_supply(points)
    assert points.verify() == []


def test_a_changed_supply_raises_the_configuration_version(points, organization):
    def configuration_version():
        with organization.api.engine.connect() as db:
            query = text("SELECT configuration_version FROM organizations WHERE organization_id = :id")
            return db.execute(query, {"id": organization.id}).scalar_one()

    version_before = configuration_version()
    put(points, {"maxSupply": 300, **DETAILS})
    version_after = configuration_version()
    assert version_after > version_before
    # A repeated request changes nothing.
    put(points, {"maxSupply": 300, **DETAILS})
    assert configuration_version() == version_after


def test_accounts_of_another_organization_are_not_found(points, other_organization):
    other_points = Points.new(other_organization)
    # The ledger is of this organization, the account of the other.
    path = f"{points.ledger_path}/accounts/{other_points.account_id}/max-supply"
    points.admin.put(path, {"maxSupply": 1}, expect=404)
    assert max_supply(other_points) is None
