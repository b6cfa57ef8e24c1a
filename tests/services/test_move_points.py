"""Minting and burning points of members: fields, refusals and request keys."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from domain.ledger.postings import Details
from domain.ledger.records import MAX_AMOUNT
from domain.retries import StartOver
from handlers.call import Execution
from handlers.services.unit_of_work.requests import unit_of_work
from persistence import organizations, transactions
from persistence.members import MEMBERS
from tests.builders.tracking import Shop, key

LONG_AGO = "2020-01-31T00:00:00Z"


@pytest.fixture(scope="module")
def stranger(api):
    return api.organization("Other tenant")


@pytest.fixture
def shop(api):
    return Shop(api.organization())


@pytest.fixture
def member(shop):
    return shop.member()


def path(member, action):
    return f"/members/by-loyalty-member-id/{member}/{action}"


def refusal_type(shop, member, action, status, **body):
    """Mint or burn a point, or what `body` requests; return the type of the problem, which has this status."""
    return shop.administration.post(path(member, action), {"amount": 1, **body}, expect=status)["type"]


def transactions_of(shop, member, **query):
    return shop.integration.get(f"/members/{member}/ledger-transactions", **query)["results"]


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_every_field_of_the_request_is_stored(shop, member, action):
    defaults = shop.organization.defaults
    shop.give(member, 100)
    details = {
        "description": "Birthday bonus",
        "tags": ["birthday", "ana"],
        "systemUniqueKey": key(),
        "externalEventDate": "2026-03-02T10:15:00+02:00",
        "externalId": "bonus-1",
    }
    wallet = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]
    move_points = shop.give if action == "mint" else shop.take
    transaction = move_points(
        member, Decimal("12.0"), ledgerId=defaults.ledger_id, ledgerAccountId=defaults.ledger_account_id, **details
    )
    assert transaction == {
        "ledgerTransactionId": str(int(transaction["ledgerTransactionId"])),
        "amount": 12,
        "fromWalletId": wallet if action == "burn" else None,
        "toWalletId": wallet if action == "mint" else None,
        "organizationId": shop.organization.id,
        "ledgerId": defaults.ledger_id,
        "ledgerAccountId": defaults.ledger_account_id,
        "atomicSetId": None,
        "systemUniqueKey": details["systemUniqueKey"],
    }
    [row] = transactions_of(shop, member, systemUniqueKey=details["systemUniqueKey"])
    stored_fields = {name: row[name] for name in details}
    assert stored_fields == {**details, "externalEventDate": "2026-03-02T08:15:00Z"}
    assert (row["transactionType"], row["status"], row["amount"]) == (action, 1, 12)
    assert row["updatedBalance"] == shop.balance(member) == (100 + 12 if action == "mint" else 100 - 12)
    shop.check_ledger()


def test_a_request_of_only_an_amount_uses_the_default_account_and_a_generated_key(shop, member):
    transaction = shop.give(member, 5)
    assert transaction["ledgerAccountId"] == shop.organization.defaults.ledger_account_id
    # The key is a UUID in canonical form.
    assert transaction["systemUniqueKey"] == str(uuid.UUID(transaction["systemUniqueKey"]))
    # A second request is no repetition.
    second_transaction = shop.give(member, 5)
    assert second_transaction["ledgerTransactionId"] != transaction["ledgerTransactionId"]
    assert shop.balance(member) == 5 + 5
    assert shop.take(member, 5, ledgerId=None, ledgerAccountId=None, tags=[])["amount"] == 5


def test_a_request_may_contain_an_account_without_its_ledger(shop, member):
    stars = shop.account(decimals=6)
    amount = Decimal("18446744073708.123456")
    assert shop.give(member, amount, ledgerAccountId=stars["ledgerAccountId"])["amount"] == amount
    assert shop.balance(member, stars["ledgerAccountId"]) == amount
    shop.take(member, amount, ledgerAccountId=stars["ledgerAccountId"])
    assert shop.balance(member, stars["ledgerAccountId"]) == 0


@pytest.mark.slow
def test_an_amount_of_0_is_accepted(shop, member):
    assert shop.give(member, 0)["amount"] == 0
    assert shop.take(member, 0)["amount"] == 0
    assert len(transactions_of(shop, member)) == 2
    shop.check_ledger()


@pytest.mark.parametrize("action", ["mint", "burn"])
@pytest.mark.parametrize(
    "body",
    [
        {"amount": None},
        {"amount": -1},
        {"amount": "5"},
        {"amount": True},
        {"amount": Decimal("0.5")},
        {"amount": MAX_AMOUNT + 1},
        {"amount": Decimal("0." + "9" * 40)},
        {"amount": Decimal("1e-300")},
        {"amount": Decimal("1e300")},
        {"ledgerId": 0},
        {"ledgerAccountId": "1"},
        {"systemUniqueKey": ""},
        {"systemUniqueKey": "x" * 256},
        {"externalEventDate": "soon"},
        {"externalEventDate": "0001-01-01T00:00:00+01:00"},
        {"externalId": "x" * 256},
        {"description": "x" * 2001},
        {"tags": ["a,b"]},
        {"tags": [""]},
        {"expirationDate": "2030-01-01T00:00:00Z"},
    ],
)
def test_a_malformed_request_is_400(shop, member, action, body):
    count_before = len(transactions_of(shop, member))
    assert refusal_type(shop, member, action, 400, **body) == "/problems/invalid-request"
    assert len(transactions_of(shop, member)) == count_before


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_an_unknown_member_ledger_or_account_is_404(shop, member, action, stranger):
    other_ledger_id = shop.administration.post("/ledgers", {"name": "Franchise"})["ledger"]["ledgerId"]
    defaults, foreign = shop.organization.defaults, stranger.defaults
    assert refusal_type(shop, "nobody", action, 404) == "/problems/not-found"
    assert refusal_type(shop, stranger.member()["loyaltyMemberId"], action, 404) == "/problems/not-found"
    for ledger_id in (10**12, foreign.ledger_id):
        assert refusal_type(shop, member, action, 404, ledgerId=ledger_id) == "/problems/unknown-ledger"
    cases = [
        {"ledgerAccountId": 10**12},
        {"ledgerAccountId": foreign.ledger_account_id},
        # The other ledger has neither a default account nor this account.
        {"ledgerId": other_ledger_id},
        {"ledgerId": other_ledger_id, "ledgerAccountId": defaults.ledger_account_id},
    ]
    for body in cases:
        assert refusal_type(shop, member, action, 404, **body) == "/problems/unknown-ledger-account"


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_points_of_members_cannot_be_moved_in_another_ledger(shop, member, action):
    other_ledger_id = shop.administration.post("/ledgers", {"name": "Franchise"})["ledger"]["ledgerId"]
    body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    shop.administration.post(f"/ledgers/{other_ledger_id}/accounts", body)
    reply = shop.administration.request("POST", path(member, action), {"amount": 1, "ledgerId": other_ledger_id})
    assert reply.status == 409
    shop.check_ledger()


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_points_of_an_inactive_account_cannot_be_moved(shop, member, action):
    stars = shop.account(active=False)["ledgerAccountId"]
    assert refusal_type(shop, member, action, 409, ledgerAccountId=stars) == "/problems/account-inactive"


def test_a_burn_of_more_than_the_balance_is_refused(shop, member):
    assert refusal_type(shop, member, "burn", 409, amount=1) == "/problems/insufficient-balance"
    shop.give(member, 5)
    assert refusal_type(shop, member, "burn", 409, amount=6) == "/problems/insufficient-balance"
    shop.take(member, 5)
    assert refusal_type(shop, member, "burn", 409, amount=1) == "/problems/insufficient-balance"
    assert shop.balance(member) == 0


def test_a_mint_beyond_the_maximum_supply_is_refused(shop, member):
    for is_revolving in (True, False):
        account = shop.account(maxSupply=10, isRevolving=is_revolving)["ledgerAccountId"]

        def refuses_mint_of(amount, account=account):
            problem_type = refusal_type(shop, member, "mint", 409, amount=amount, ledgerAccountId=account)
            return problem_type == "/problems/supply-exceeded"

        assert refuses_mint_of(11)
        shop.give(member, 10, ledgerAccountId=account)
        assert refuses_mint_of(1)
        shop.take(member, 4, ledgerAccountId=account)
        # Burned points can be minted again only in a revolving account.
        if is_revolving:
            shop.give(member, 4, ledgerAccountId=account)
        assert refuses_mint_of(1)
    shop.check_ledger()


@pytest.mark.parametrize("action", ["mint", "burn"])
def test_a_repeated_request_gets_the_identical_response(shop, member, action):
    shop.give(member, 10)
    body = {"amount": Decimal("5"), "systemUniqueKey": key(), "tags": ["a"], "externalEventDate": LONG_AGO}
    first_reply = shop.administration.request("POST", path(member, action), body, expect=200)
    # Now the balance would not allow another burn.
    shop.take(member, shop.balance(member))
    repeated_reply = shop.administration.request("POST", path(member, action), body, expect=200)
    assert first_reply.text == repeated_reply.text
    assert shop.balance(member) == 0


@pytest.mark.parametrize(
    "change",
    [
        {"amount": 6},
        {"description": "other"},
        {"tags": ["b"]},
        {"externalId": "other"},
        {"externalEventDate": "2026-01-01T00:00:00Z"},
    ],
)
def test_a_request_with_the_key_of_another_one_is_refused(shop, member, change):
    body = {"amount": 5, "systemUniqueKey": key(), "description": "d", "tags": ["a"], "externalId": "e"}
    shop.give(member, **body)
    assert refusal_type(shop, member, "mint", 409, **{**body, **change}) == "/problems/key-reused"
    assert shop.balance(member) == 5


def test_a_key_belongs_to_one_member_account_and_direction(shop, member):
    stars, other_member = shop.account()["ledgerAccountId"], shop.member()
    body = {"amount": 5, "systemUniqueKey": key()}
    shop.give(member, **body)
    assert refusal_type(shop, other_member, "mint", 409, **body) == "/problems/key-reused"
    assert refusal_type(shop, member, "burn", 409, **body) == "/problems/key-reused"
    assert refusal_type(shop, member, "mint", 409, **body, ledgerAccountId=stars) == "/problems/key-reused"
    assert shop.balance(member) == 5


def test_the_key_of_a_refused_request_can_be_used_again(shop, member):
    body = {"amount": 5, "systemUniqueKey": key()}
    # The member has no points yet.
    refusal_type(shop, member, "burn", 409, **body)
    shop.give(member, 5)
    shop.take(member, **body)
    assert shop.balance(member) == 0


@pytest.mark.slow
def test_points_that_expire_at_once_are_neither_in_the_balance_nor_spendable(shop, member):
    stars = shop.account(pointTrackingEnabled=True, expiresInMonths=1)["ledgerAccountId"]
    shop.give(member, 10, ledgerAccountId=stars)
    # These expired a month after their date.
    transaction = shop.give(member, 90, ledgerAccountId=stars, externalEventDate=LONG_AGO)
    assert transaction["amount"] == 90
    assert shop.balance(member, stars) == 10
    assert refusal_type(shop, member, "burn", 409, amount=11, ledgerAccountId=stars) == "/problems/insufficient-balance"
    shop.take(member, 10, ledgerAccountId=stars)
    shop.check_ledger()


def test_points_that_have_expired_are_burned_before_the_next_movement(shop, member):
    stars = shop.account(pointTrackingEnabled=True, expiresInMonths=1)["ledgerAccountId"]
    shop.give(member, 10, ledgerAccountId=stars)
    with shop.organization.api.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE ledger_lots SET expires_at = now() - interval '1 second' WHERE organization_id = %s",
            (shop.organization.id,),
        )
    assert shop.balance(member, stars) == 0
    shop.give(member, 3, ledgerAccountId=stars)
    assert shop.balance(member, stars) == 3
    assert refusal_type(shop, member, "burn", 409, amount=4, ledgerAccountId=stars) == "/problems/insufficient-balance"
    shop.check_ledger()


def test_request_keys_of_clients_cannot_prevent_an_expiry(shop, member):
    stars = shop.account(pointTrackingEnabled=True, expiresInMonths=1)["ledgerAccountId"]
    # Keys that the server could use for its own transactions.
    for unique_key in ("a-expiry", "expiry-a", "expiry"):
        shop.give(member, 1, systemUniqueKey=unique_key)
    shop.give(member, 5, ledgerAccountId=stars, systemUniqueKey="a", externalEventDate=LONG_AGO)
    assert shop.balance(member, stars) == 0
    fields = {"systemUniqueKey": "a", "externalEventDate": LONG_AGO, "ledgerAccountId": stars}
    shop.give(member, 5, **fields)
    assert shop.balance(member, stars) == 0
    shop.check_ledger()


def test_an_event_may_have_the_request_key_of_a_transaction(shop, member):
    unique_key = key()
    shop.give(member, 5, systemUniqueKey=unique_key)
    shop.track_one({"loyaltyMemberId": member, "systemUniqueKey": unique_key, "eventType": "member-generic-event"})


def test_moving_points_requires_the_role_ledgers_write(shop, member):
    for role, status in (("ledgers:write", 200), ("ledgers:read", 403), ("members:write", 403)):
        surface = shop.administration.with_token(shop.organization.token_of(role))
        surface.post(path(member, "mint"), {"amount": 1}, expect=status)


def test_points_of_a_wallet_that_is_not_locked_are_not_moved(api, shop):
    """The session has not read the balance of ben: it would store 5 points instead of 105."""
    ana, ben = shop.member(), shop.member()
    shop.give(ben, 100)
    ids = [shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"] for member in (ana, ben)]

    def mint_for_ben(db):
        organization = organizations.find(db, shop.organization.id)
        execution = Execution(db=db, organization=organization, now=datetime.now(UTC), request_id="request")
        with unit_of_work(execution, ids[:1], "Test") as unit:
            wallet_of_ben = MEMBERS.find(db, organization.organization_id, ids[1]).wallet_id
            account = unit.ledger.accounts[shop.organization.defaults.ledger_account_id]
            unit.ledger.mint(account, wallet_of_ben, Decimal(5), Details(system_unique_key=key()))

    with pytest.raises(StartOver, match="not locked"):
        transactions.run(api.engine, mint_for_ben)
    assert (shop.balance(ana), shop.balance(ben)) == (0, 100)
    shop.check_ledger()
