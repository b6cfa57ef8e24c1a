"""The lists of the ledger transactions of an account and of a member."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import combinations

import pytest
from sqlalchemy import text

from domain.ledger.records import BURN, MINT, PENDING, REVERT, REVERTED, SETTLED
from persistence import ledger_transactions
from tests.builders.ledger import START, RawLedger


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def path(organization):
    """The transactions of the default account."""
    defaults = organization.defaults
    return f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}/transactions"


@pytest.fixture
def raw(api, organization):
    """A function that changes the stored ledger, past all rules, and commits: `raw(lambda ledger: ...)`.

    Transactions are created at START, 15 January 2026, 12:00.
    """

    def work(do):
        with api.engine.begin() as db:
            return do(RawLedger(db, organization.defaults))

    return work


def test_a_row_has_every_field_of_its_transaction(organization, administration, path, raw):
    def mint_and_burn(ledger):
        wallet, event_date = ledger.wallet(), datetime(2026, 1, 10, 8, 30, tzinfo=UTC)
        ledger.mint(wallet, 50)
        burn = ledger.burn(
            wallet,
            20,
            system_unique_key="till-1",
            external_id="R-17",
            external_event_date=event_date,
            description="A coffee",
            tags=["bar", "coffee"],
            fiat_value=Decimal("3.50"),
            fiat_gross_amount=Decimal("4.2"),
            fiat_currency="EUR",
            updated_at=START + timedelta(days=1),
        )
        return wallet, burn

    wallet, burn = raw(mint_and_burn)
    response = administration.get(path)
    assert (response["totalCount"], response["page"], response["limit"]) == (2, 0, 25)
    account = administration.get(f"/ledgers/{organization.defaults.ledger_id}/accounts")["results"][0]
    assert response["results"][0] == {
        "ledgerTransactionId": burn,
        "ledgerTransactionDetailIndex": 0,
        "ledgerAccountId": account["ledgerAccountId"],
        "ledgerAccountKey": account["ledgerAccountKey"],
        "transactionType": "burn",
        "status": SETTLED,
        "amount": 20,
        "walletId": wallet,
        "fromWalletId": wallet,
        "toWalletId": None,
        "updatedBalance": 50 - 20,
        "isOverdraft": False,
        "systemUniqueKey": "till-1",
        "externalId": "R-17",
        "externalEventDate": "2026-01-10T08:30:00Z",
        "description": "A coffee",
        "tags": ["bar", "coffee"],
        "revertedLedgerTransactionId": None,
        "reversalLedgerTransactionId": None,
        "fiatValue": Decimal("3.5"),
        "fiatGrossAmount": Decimal("4.2"),
        "fiatCurrency": "EUR",
        "availability": "available",
        "availableAt": None,
        # START, and a day later.
        "createdAt": "2026-01-15T12:00:00Z",
        "updatedAt": "2026-01-16T12:00:00Z",
    }
    mint = response["results"][1]
    assert (mint["transactionType"], mint["amount"], mint["updatedBalance"], mint["tags"]) == ("mint", 50, 50, [])


def rows(response):
    """The rows of a list: type, index, wallet, amount and updated balance."""
    return [
        (
            row["transactionType"],
            row["ledgerTransactionDetailIndex"],
            row["walletId"],
            row["amount"],
            row["updatedBalance"],
        )
        for row in response["results"]
    ]


def test_a_transaction_has_a_row_for_each_wallet_and_for_its_overdraft(administration, path, raw):
    def post_parts(ledger):
        ana, ben = ledger.wallet(), ledger.wallet()
        ledger.mint(ana, 100)
        ledger.transfer(ana, ben, 40)
        burn = ledger.transaction(BURN, source=ben, target=None, amount=60)
        # 40 of the balance, and 20 of an overdraft.
        parts = [
            # The entry of the issuance side need not come last.
            {"wallet_id": None, "amount": 60},
            {"wallet_id": ben, "amount": -40, "updated_balance": 0},
            {"wallet_id": ben, "amount": -20, "updated_balance": 0, "is_overdraft": True},
        ]
        ledger.entries(burn, parts)
        return ana, ben

    ana, ben = raw(post_parts)
    response = administration.get(path)
    assert rows(response) == [
        ("burn", 0, ben, 40, 0),
        ("burn", 1, ben, 20, 0),
        ("transfer", 0, ana, 40, 60),
        ("transfer", 1, ben, 40, 40),
        ("mint", 0, ana, 100, 100),
    ]
    assert [row["isOverdraft"] for row in response["results"]] == [False, True, False, False, False]
    # The rows of one wallet.
    assert rows(administration.get(path, walletId=ana)) == [("transfer", 0, ana, 40, 60), ("mint", 0, ana, 100, 100)]
    assert rows(administration.get(path, walletId=ben))[2] == ("transfer", 1, ben, 40, 40)


def test_a_transaction_that_moves_nothing_has_a_row_without_a_wallet(administration, path, raw):
    raw(
        lambda ledger: ledger.transaction(
            MINT, source=None, target=None, amount=0, description="The supply is unlimited now"
        )
    )
    assert rows(administration.get(path)) == [("mint", 0, None, 0, None)]
    # Such a transaction counts like any other.
    raw(lambda ledger: ledger.transaction(MINT, source=None, target=None, amount=0))
    assert administration.get(path, limit=1)["totalCount"] == 2


def test_a_pending_transaction_shows_its_hold_and_a_captured_one_the_captured_amount(administration, path, raw):
    def hold_30(ledger):
        wallet = ledger.wallet()
        ledger.mint(wallet, 100)
        hold_id = ledger.transaction(BURN, source=wallet, target=None, amount=30, status=PENDING)
        ledger.entries(hold_id, [{"wallet_id": wallet, "amount": 0, "updated_balance": 100}])
        return wallet, hold_id

    wallet, hold_id = raw(hold_30)
    assert rows(administration.get(path, walletId=wallet))[0] == ("burn", 0, wallet, 30, 100)

    def capture_25(ledger):
        ledger.db.execute(
            text("UPDATE ledger_transactions SET status = :settled WHERE ledger_transaction_id = :id"),
            {"settled": SETTLED, "id": hold_id},
        )
        parts = [{"wallet_id": wallet, "amount": -25, "updated_balance": 75}, {"wallet_id": None, "amount": 25}]
        ledger.entries(hold_id, parts, first=1)

    raw(capture_25)
    expected_rows = [("burn", 0, wallet, 25, 100 - 25), ("mint", 0, wallet, 100, 100)]
    for filters in ({"walletId": wallet}, {}):
        assert rows(administration.get(path, **filters)) == expected_rows
        assert administration.get(path, **filters, limit=1)["totalCount"] == 2


def test_a_revert_and_its_transaction_name_each_other(administration, path, raw):
    def mint_and_revert(ledger):
        wallet = ledger.wallet()
        mint = ledger.mint(wallet, 10, status=REVERTED)
        revert = ledger.post(REVERT, source=wallet, target=None, amount=10, reverted_ledger_transaction_id=mint)
        ledger.db.execute(
            text("UPDATE ledger_transactions SET reversal_ledger_transaction_id = :r WHERE ledger_transaction_id = :m"),
            {"r": revert, "m": mint},
        )
        return mint, revert

    mint, revert = raw(mint_and_revert)
    # Newest first.
    revert_row, mint_row = administration.get(path)["results"]
    assert (revert_row["transactionType"], revert_row["revertedLedgerTransactionId"]) == ("revert", mint)
    assert (mint_row["status"], mint_row["reversalLedgerTransactionId"]) == (REVERTED, revert)


@pytest.fixture
def six_mints(raw):
    """Six mints with keys, tags, dates and amounts for two wallets, and one of another account.

    Returns the ids of the six by number, and the two wallets. The mint of number n has the key `key-n` and the date
    START plus n days, but number 5 has no date. Amounts and moments of creation are in other orders than the ids.
    """

    def mint_many(ledger):
        ana, ben = ledger.wallet(), ledger.wallet()
        ids = {}
        for number, (wallet, tags) in enumerate(
            [(ana, ["a"]), (ben, ["a", "b"]), (ana, ["b", "a", "c"]), (ana, None), (ben, ["c"]), (ana, ["a"])]
        ):
            ids[number] = ledger.mint(
                wallet,
                amount=10 + (number * 7) % 5,
                tags=tags,
                at=START + timedelta(hours=(number * 5) % 7),
                system_unique_key=f"key-{number}",
                external_event_date=None if number == 5 else START + timedelta(days=number),
            )
        ledger.mint(ana, 99, account_id=ledger.account(), tags=["a"], external_event_date=START)
        return ids, ana, ben

    return raw(mint_many)


@pytest.mark.slow
def test_every_filter_and_every_pair_of_filters_finds_its_rows(administration, path, six_mints):
    ids, ana, ben = six_mints
    date_of_2 = (START + timedelta(days=2)).isoformat()
    # A filter, and the numbers of the mints that it finds. Wallets and tags by number: 0 ana a, 1 ben a,b,
    # 2 ana b,a,c, 3 ana none, 4 ben c, 5 ana a.
    filters = [
        ({"fromExternalEventDate": date_of_2}, {2, 3, 4}),
        ({"toExternalEventDate": date_of_2}, {0, 1}),
        ({"fromLedgerTransactionId": ids[3]}, {3, 4, 5}),
        ({"toLedgerTransactionId": ids[3]}, {0, 1, 2, 3}),
        ({"systemUniqueKey": "key-1"}, {1}),
        ({"systemUniqueKey": "key-9"}, set()),
        ({"walletId": ana}, {0, 2, 3, 5}),
        ({"walletId": ben}, {1, 4}),
        ({"walletId": ben + 1000}, set()),
        ({"tags": "a"}, {0, 1, 2, 5}),
        ({"tags": "a,b"}, {1, 2}),
        ({"tags": "a,d"}, set()),
    ]

    def find_ids(**query):
        """The ids of the listed rows, all of which are on the first page."""
        response = administration.get(path, **query)
        assert response["totalCount"] == len(response["results"])
        return [row["ledgerTransactionId"] for row in response["results"]]

    def newest_first(numbers):
        return [ids[number] for number in sorted(numbers, reverse=True)]

    assert find_ids() == newest_first({0, 1, 2, 3, 4, 5})
    for filter_, numbers in filters:
        assert find_ids(**filter_) == newest_first(numbers), filter_
    for (filter_, numbers), (second_filter, second_numbers) in combinations(filters, 2):
        # A parameter cannot be sent twice.
        if filter_.keys().isdisjoint(second_filter):
            expected_ids = newest_first(numbers & second_numbers)
            assert find_ids(**filter_, **second_filter) == expected_ids, (filter_, second_filter)


@pytest.mark.parametrize("name", ["externalEventDate", "amount", "createdAt", "updatedAt", "ledgerTransactionId"])
@pytest.mark.parametrize("with_wallet", [False, True])
def test_rows_are_ordered_by_a_column_then_by_id(administration, path, six_mints, name, with_wallet):
    _, ana, _ = six_mints
    query = {"walletId": ana} if with_wallet else {}
    unordered = administration.get(path, **query)["results"]
    # Rows without a value, such as the mint without a date, come last in both directions.
    rows_with_value = [row for row in unordered if row[name] is not None]
    rows_without_value = [row for row in unordered if row[name] is None]

    def by_column_and_id(row):
        return (row[name], row["ledgerTransactionId"])

    ascending = sorted(rows_with_value, key=by_column_and_id) + rows_without_value
    assert administration.get(path, order=name, **query)["results"] == ascending
    assert administration.get(path, order=f"{name},asc", **query)["results"] == ascending
    descending = sorted(rows_with_value, key=by_column_and_id, reverse=True) + rows_without_value
    assert administration.get(path, order=f"{name},desc", **query)["results"] == descending


def test_each_row_is_on_one_page_and_each_page_has_the_total_count(administration, path, six_mints):
    ids, _, _ = six_mints
    pages = [administration.get(path, limit=4, page=page, order="amount") for page in range(3)]
    assert [page["totalCount"] for page in pages] == [6, 6, 6]
    listed_ids = [row["ledgerTransactionId"] for page in pages for row in page["results"]]
    assert sorted(listed_ids) == sorted(ids.values())


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 26},
        {"limit": 0},
        {"page": -1},
        {"order": "walletId"},
        {"fromExternalEventDate": "yesterday"},
        {"fromLedgerTransactionId": 0},
        {"walletId": "ana"},
        {"tags": "a,,b"},
        {"colour": "red"},
    ],
)
def test_invalid_parameters_of_a_list_are_refused_with_their_names(administration, path, query):
    problem = administration.get(path, expect=400, **query)
    assert {error["parameter"] for error in problem["errors"]} == set(query)


def test_the_list_of_a_member_has_the_rows_of_the_members_wallet_on_all_accounts(organization, raw):
    member = organization.member()
    wallet, wallet_of_another = member["ledgerWalletId"], organization.member()["ledgerWalletId"]

    def post_and_read(ledger):
        stars = ledger.account()
        ledger.mint(wallet, 10, tags=["a"], system_unique_key="first", external_event_date=START)
        ledger.mint(wallet_of_another, 20, tags=["a"])
        ledger.mint(wallet, 30, account_id=stars, tags=["a", "b"])
        ledger.transfer(wallet, wallet_of_another, 4, external_event_date=START + timedelta(days=1))
        return ledger.organization.ledger_account_key

    default_account_key = raw(post_and_read)
    path = f"/members/{member['loyaltyMemberId']}/ledger-transactions"

    def find_movements(**query):
        """The type and the amount of each listed row."""
        return [
            (row["transactionType"], row["amount"]) for row in organization.integration.get(path, **query)["results"]
        ]

    assert find_movements() == [("transfer", 4), ("mint", 30), ("mint", 10)]
    assert {row["walletId"] for row in organization.integration.get(path)["results"]} == {wallet}
    assert find_movements(ledgerAccountKey=default_account_key) == [("transfer", 4), ("mint", 10)]
    assert find_movements(ledgerAccountKey=str(uuid.uuid4())) == []
    assert find_movements(systemUniqueKey="first") == [("mint", 10)]
    assert find_movements(tags="a") == [("mint", 30), ("mint", 10)]
    assert find_movements(tags="a,b", ledgerAccountKey=default_account_key) == []
    assert find_movements(fromExternalEventDate=(START + timedelta(hours=1)).isoformat()) == [("transfer", 4)]
    assert find_movements(toExternalEventDate=(START + timedelta(hours=1)).isoformat()) == [("mint", 10)]
    assert find_movements(order="amount") == [("transfer", 4), ("mint", 10), ("mint", 30)]
    assert find_movements(limit=1, page=1) == [("mint", 30)]
    problem = organization.integration.get(path, walletId=wallet, expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["walletId"]
    organization.integration.get("/members/nobody/ledger-transactions", expect=404)


def test_rows_of_another_organization_are_not_listed(organization, other_organization, raw):
    raw(lambda ledger: ledger.mint(ledger.wallet(), 10, tags=["a"], system_unique_key="mine"))
    defaults = other_organization.defaults
    path = f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}/transactions"
    administration = other_organization.administration
    assert administration.get(path, tags="a")["results"] == []
    assert administration.get(path, systemUniqueKey="mine")["results"] == []


def test_the_total_count_of_an_account_has_each_transfer_once_for_each_wallet(administration, path, raw):
    def mint_and_transfer(ledger):
        ana, ben = ledger.wallet(), ledger.wallet()
        ledger.mint(ana, 100)
        for _ in range(3):
            ledger.transfer(ana, ben, 1)

    raw(mint_and_transfer)
    # The mint, and two rows of each transfer.
    assert administration.get(path, limit=2)["totalCount"] == 1 + 3 * 2


def test_the_total_of_an_account_is_counted_up_to_a_limit(administration, path, six_mints, monkeypatch):
    assert administration.get(path, limit=2)["totalCount"] == 6
    monkeypatch.setattr(ledger_transactions, "MAX_COUNTED", 3)
    # One more than the limit: there are more rows.
    assert administration.get(path, limit=2)["totalCount"] == 3 + 1
    # Pages of one row, numbered from 0. The page 4 is beyond the limit: it counts the 4 rows before it, its own row
    # and one more, so that a next page is known to exist.
    assert administration.get(path, limit=1, page=4)["totalCount"] == 4 + 2
    assert administration.get(path, limit=1, page=5)["totalCount"] == 6
