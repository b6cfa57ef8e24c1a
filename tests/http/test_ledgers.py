"""Ledgers, their accounts, and the balances of wallets."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from sqlalchemy import select, text

from domain.ledger.records import BURN, MAX_AMOUNT, PENDING
from handlers.services.verify import verify
from persistence import organizations
from persistence.tables.ledger import ledger_lots, ledger_transactions
from tests.builders.ledger import RawLedger
from tests.builders.points import Points

# The required fields of an account.
STARS = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}


@pytest.fixture
def administration(organization):
    return organization.administration


@pytest.fixture
def accounts(organization):
    """The path of the default ledger's accounts."""
    return f"/ledgers/{organization.defaults.ledger_id}/accounts"


@pytest.fixture
def raw(api, organization):
    """A function that changes the stored ledger, past all rules, and commits: `raw(lambda ledger: ...)`.

    The methods of `ledger` use the default account unless they are called with another `account_id`.
    """

    def work(do):
        with api.engine.begin() as db:
            return do(RawLedger(db, organization.defaults))

    return work


def configuration_version(api, organization):
    with api.engine.begin() as db:
        return organizations.find(db, organization.id).configuration_version


def test_a_ledger_is_created_and_listed(organization, administration):
    body = {"name": "Franchise", "description": "Of the franchise bars."}
    ledger_record = administration.post("/ledgers", body)["ledger"]
    assert ledger_record == {
        "organizationId": organization.id,
        "ledgerId": ledger_record["ledgerId"],
        "ledgerKey": str(uuid.UUID(ledger_record["ledgerKey"])),
        "name": "Franchise",
        "description": "Of the franchise bars.",
        "isDefault": False,
        "externalKey": None,
        "createdAt": ledger_record["createdAt"],
        "updatedAt": ledger_record["createdAt"],
    }
    # The organization has its default ledger, too.
    page = administration.get("/ledgers")
    assert (page["totalCount"], page["page"], page["limit"]) == (2, 0, 25)
    assert page["results"][0] == ledger_record
    assert page["results"][1]["isDefault"] is True
    by_name = administration.get("/ledgers", order="name,asc", limit=1)
    assert [ledger["name"] for ledger in by_name["results"]] == ["Default"]
    assert by_name["totalCount"] == 2
    problem = administration.get("/ledgers", order="colour", expect=400)
    assert [fault["parameter"] for fault in problem["errors"]] == ["order"]


def test_an_account_is_created_with_every_property(organization, administration, accounts):
    body = {
        **STARS,
        "alias": "stars",
        "isCurrency": True,
        "decimals": 2,
        "formatString": "{amount} stars",
        "maxSupply": MAX_AMOUNT - Decimal("0.75"),
        "pointTrackingEnabled": True,
        "chainSyncEnabled": True,
        "expiresInMonths": 6,
        "expirationPolicies": [{"expirationType": "lastTransaction", "period": 12}],
        "expiryRounding": "half-year",
        "expiryYearStartMonth": 7,
        "timezone": "Europe/Madrid",
        "tierExpirations": [],
        "lateActivityDays": 0,
        "restoredExpiryDays": 30,
        "overdraftLimit": Decimal("10.5"),
        "maxBalance": Decimal("99.25"),
        "fiatPerPoint": Decimal("0.005"),
        "isDefaultAccount": False,
        "externalKey": "stars",
    }
    account = administration.post(accounts, body)["ledgerAccount"]
    ledger = administration.get("/ledgers")["results"][0]
    assert account == {
        **body,
        "ledgerId": organization.defaults.ledger_id,
        "ledgerKey": ledger["ledgerKey"],
        "ledgerAccountId": account["ledgerAccountId"],
        "ledgerAccountKey": str(uuid.UUID(account["ledgerAccountKey"])),
        "chainAssetId": None,
        "issued": 0,
        "createdAt": account["createdAt"],
        "updatedAt": account["createdAt"],
    }
    assert administration.get(accounts)["results"][0] == account


def test_missing_fields_have_their_defaults(administration, accounts):
    account = administration.post(accounts, STARS)["ledgerAccount"]
    defaults = {
        "alias": None,
        "isCurrency": False,
        "decimals": 0,
        "formatString": None,
        "maxSupply": None,
        "pointTrackingEnabled": False,
        "expiresInMonths": None,
        "expirationPolicies": [],
        "overdraftLimit": None,
        "maxBalance": None,
        "fiatPerPoint": None,
        "isDefaultAccount": False,
    }
    assert {name: account[name] for name in defaults} == defaults


@pytest.mark.parametrize("name", STARS)
def test_an_account_without_a_required_field_is_refused(administration, accounts, name):
    body = {key: value for key, value in STARS.items() if key != name}
    problem = administration.post(accounts, body, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == [f"/{name}"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"decimals": 7}, "/decimals"),
        ({"decimals": -1}, "/decimals"),
        ({"maxSupply": MAX_AMOUNT + 1}, "/maxSupply"),
        ({"maxSupply": Decimal("0.5")}, "/maxSupply"),
        ({"maxSupply": -1}, "/maxSupply"),
        ({"overdraftLimit": 5, "isRevolving": False}, "/overdraftLimit"),
        ({"overdraftLimit": Decimal("0.001"), "decimals": 2}, "/overdraftLimit"),
        ({"maxBalance": Decimal("0.5")}, "/maxBalance"),
        ({"pointTrackingEnabled": False, "expiresInMonths": 6}, "/pointTrackingEnabled"),
        (
            {
                "pointTrackingEnabled": False,
                "expirationPolicies": [{"expirationType": "lastTransaction", "period": 1}],
            },
            "/pointTrackingEnabled",
        ),
        ({"expiresInMonths": 0}, "/expiresInMonths"),
        ({"expirationPolicies": [{"expirationType": "never", "period": 1}]}, "/expirationPolicies/0/expirationType"),
        ({"expirationPolicies": [{"expirationType": "lastTransaction"}]}, "/expirationPolicies/0/period"),
        ({"alias": ""}, "/alias"),
        ({"ledgerAccountKey": str(uuid.uuid4())}, "/ledgerAccountKey"),
    ],
)
def test_invalid_settings_are_refused_with_the_field(administration, accounts, change, pointer):
    # Without other settings, an account has no decimals and is revolving.
    problem = administration.post(accounts, {**STARS, **change}, expect=400)
    assert problem["type"] == "/problems/invalid-request"
    assert [fault["pointer"] for fault in problem["errors"]] == [pointer]


def test_all_faults_of_an_account_are_reported_at_once(administration, accounts):
    body = {**STARS, "isRevolving": False, "overdraftLimit": 5, "expiresInMonths": 1, "pointTrackingEnabled": False}
    problem = administration.post(accounts, body, expect=400)
    assert {error["pointer"] for error in problem["errors"]} == {"/overdraftLimit", "/pointTrackingEnabled"}


@pytest.mark.parametrize("limit", [0, -5, None])
def test_an_account_that_is_not_revolving_accepts_limits_that_allow_no_overdraft(administration, accounts, limit):
    response = administration.post(accounts, {**STARS, "isRevolving": False, "overdraftLimit": limit})
    assert response["ledgerAccount"]["overdraftLimit"] == limit


@pytest.mark.parametrize(
    "expiry", [{"expiresInMonths": 3}, {"expirationPolicies": [{"expirationType": "lastTransaction", "period": 3}]}]
)
def test_an_account_whose_points_expire_tracks_points(administration, accounts, expiry):
    assert administration.post(accounts, {**STARS, **expiry})["ledgerAccount"]["pointTrackingEnabled"] is True


def test_an_alias_is_unique_in_its_ledger(administration, accounts):
    administration.post(accounts, {**STARS, "alias": "stars"})
    assert administration.post(accounts, {**STARS, "alias": "stars"}, expect=409)["type"] == "/problems/name-taken"
    moons = administration.post(accounts, {**STARS, "alias": "moons"})["ledgerAccount"]
    path = f"{accounts}/{moons['ledgerAccountId']}"
    assert administration.put(path, {**STARS, "alias": "stars"}, expect=409)["type"] == "/problems/name-taken"
    # Another ledger may have the same alias.
    ledger = administration.post("/ledgers", {"name": "Other"})["ledger"]
    administration.post(f"/ledgers/{ledger['ledgerId']}/accounts", {**STARS, "alias": "stars"})


def test_accounts_are_filtered_and_ordered(administration, accounts):
    stars = administration.post(accounts, {**STARS, "alias": "stars"})["ledgerAccount"]
    administration.post(accounts, {**STARS, "name": "Moons"})

    def list_names(**query):
        """The names of the listed accounts; the default account has the name Points and the alias points."""
        return [account["name"] for account in administration.get(accounts, **query)["results"]]

    assert list_names() == ["Moons", "Stars", "Points"]
    assert list_names(order="name") == ["Moons", "Points", "Stars"]
    assert list_names(order="alias,desc") == ["Stars", "Points", "Moons"]
    assert list_names(name="Stars") == ["Stars"]
    assert list_names(name="stars") == []
    assert list_names(alias="points") == ["Points"]
    assert list_names(ledgerAccountKey=stars["ledgerAccountKey"]) == ["Stars"]
    assert list_names(ledgerAccountKey=str(uuid.uuid4())) == []
    assert list_names(alias="stars", name="Moons") == []
    assert list_names(limit=1, page=1) == ["Stars"]


# The list cannot be ordered by that field, 25 is the maximum limit, and a key is a UUID.
@pytest.mark.parametrize(("parameter", "value"), [("order", "issued"), ("limit", 26), ("ledgerAccountKey", "points")])
def test_an_invalid_query_of_the_list_of_accounts_is_refused(administration, accounts, parameter, value):
    problem = administration.get(accounts, expect=400, **{parameter: value})
    assert [error["parameter"] for error in problem["errors"]] == [parameter]


def test_the_first_account_of_a_ledger_is_its_default_until_another_one_replaces_it(administration, accounts):
    ledger = administration.post("/ledgers", {"name": "Other"})["ledger"]
    other_accounts = f"/ledgers/{ledger['ledgerId']}/accounts"
    first_account = administration.post(other_accounts, STARS)["ledgerAccount"]
    assert first_account["isDefaultAccount"] is True
    assert administration.post(other_accounts, STARS)["ledgerAccount"]["isDefaultAccount"] is False
    third_account = administration.post(other_accounts, {**STARS, "isDefaultAccount": True})["ledgerAccount"]

    def default_ids(path):
        """The ids of the accounts that are the default of their ledger."""
        return [
            account["ledgerAccountId"] for account in administration.get(path)["results"] if account["isDefaultAccount"]
        ]

    assert default_ids(other_accounts) == [third_account["ledgerAccountId"]]
    path = f"{other_accounts}/{first_account['ledgerAccountId']}"
    administration.put(path, {**STARS, "isDefaultAccount": True})
    assert default_ids(other_accounts) == [first_account["ledgerAccountId"]]
    # A ledger always has a default account: only another account can replace it.
    assert administration.put(path, {**STARS, "isDefaultAccount": False})["ledgerAccount"]["isDefaultAccount"] is True
    # The default ledger still has its default account.
    assert len(default_ids(accounts)) == 1


def test_concurrent_updates_leave_one_default_account(administration, accounts):
    account_ids = [administration.post(accounts, STARS)["ledgerAccount"]["ledgerAccountId"] for _ in range(6)]

    def make_default(account_id):
        administration.put(f"{accounts}/{account_id}", {**STARS, "isDefaultAccount": True})

    with ThreadPoolExecutor(6) as pool:
        # `list` raises the errors of the threads.
        list(pool.map(make_default, account_ids))
    [default_account] = [account for account in administration.get(accounts)["results"] if account["isDefaultAccount"]]
    assert default_account["ledgerAccountId"] in account_ids


def test_an_update_changes_only_the_sent_fields_and_never_the_maximum_supply(administration, accounts):
    body = {**STARS, "alias": "stars", "maxSupply": 500, "formatString": "{amount}", "expiresInMonths": 3}
    original_account = administration.post(accounts, body)["ledgerAccount"]
    path = f"{accounts}/{original_account['ledgerAccountId']}"
    cleared_fields = {"alias": None, "formatString": None, "expiresInMonths": None}
    body = {**STARS, "name": "Moons", "active": False, "decimals": 3, **cleared_fields}
    account = administration.put(path, body)["ledgerAccount"]
    assert account["updatedAt"] > original_account["updatedAt"]
    assert account == {
        **original_account,
        "name": "Moons",
        "active": False,
        "alias": None,
        "decimals": 3,
        "formatString": None,
        "expiresInMonths": None,
        # An update without the field keeps lots: only an explicit false stops tracking.
        "pointTrackingEnabled": True,
        "updatedAt": account["updatedAt"],
    }
    account_without_tracking = administration.put(path, {**STARS, "pointTrackingEnabled": False})["ledgerAccount"]
    assert account_without_tracking["pointTrackingEnabled"] is False
    # The maximum supply is no field of an update.
    problem = administration.put(path, {**STARS, "maxSupply": 1}, expect=400)
    assert [error["pointer"] for error in problem["errors"]] == ["/maxSupply"]


def test_every_change_of_an_account_raises_the_version_of_the_configuration(
    api, organization, administration, accounts
):
    version_before = configuration_version(api, organization)
    account = administration.post(accounts, STARS)["ledgerAccount"]
    version_after_creation = configuration_version(api, organization)
    administration.put(f"{accounts}/{account['ledgerAccountId']}", STARS)
    assert version_before < version_after_creation < configuration_version(api, organization)


@pytest.mark.parametrize(
    "change", [{"decimals": 2}, {"isRevolving": False}, {"pointTrackingEnabled": False, "expiresInMonths": None}]
)
def test_settings_on_which_stored_amounts_depend_cannot_change_after_the_first_amount(
    administration, accounts, raw, change
):
    body = {**STARS, "decimals": 0, "expiresInMonths": 6}
    account_id = administration.post(accounts, body)["ledgerAccount"]["ledgerAccountId"]
    path = f"{accounts}/{account_id}"
    # Before the first amount, the change is allowed; the second update undoes it.
    administration.put(path, {**body, **change})
    administration.put(path, {**body})
    raw(lambda ledger: ledger.mint(ledger.wallet(), 5, account_id=account_id))
    problem = administration.put(path, {**body, **change}, expect=409)
    assert problem["type"] == "/problems/ledger-account-in-use"
    assert administration.put(path, {**body, "name": "Moons"})["ledgerAccount"]["name"] == "Moons"


def test_burns_reduce_the_issued_amount_only_on_a_revolving_account(administration, accounts, raw):
    def mint_and_burn(ledger):
        wallet = ledger.wallet()
        account_issued_once = ledger.account(name="once", is_revolving=False)
        for account_id in (ledger.account_id, account_issued_once):
            for amount in (100, 50, "0.5"):
                ledger.mint(wallet, amount, account_id=account_id)
            ledger.burn(wallet, 30, account_id=account_id)

    raw(mint_and_burn)
    # The default account, Points, is revolving.
    issued_amounts = {account["name"]: account["issued"] for account in administration.get(accounts)["results"]}
    assert issued_amounts == {"Points": 100 + 50 + Decimal("0.5") - 30, "once": 100 + 50 + Decimal("0.5")}


def test_an_account_that_starts_tracking_points_gets_a_lot_for_each_balance(api, administration, accounts, raw):
    account_id = administration.post(accounts, STARS)["ledgerAccount"]["ledgerAccountId"]

    def mint_and_burn(ledger):
        ana, ben = ledger.wallet(), ledger.wallet()
        ledger.mint(ana, 70, account_id=account_id)
        ledger.mint(ben, 30, account_id=account_id)
        ledger.burn(ben, 30, account_id=account_id)
        return ledger.organization_id, ana

    organization_id, ana = raw(mint_and_burn)
    path = f"{accounts}/{account_id}"
    account = administration.put(path, {**STARS, "expiresInMonths": 1})["ledgerAccount"]
    assert account["pointTrackingEnabled"] is True
    lots_of_account = select(ledger_lots).where(ledger_lots.c.ledger_account_id == account_id)
    with api.engine.begin() as db:
        # ben has no balance, and so no lot.
        [lot] = db.execute(lots_of_account).all()
        assert (lot.wallet_id, lot.amount, lot.remaining, lot.expires_at) == (ana, 70, 70, None)
        assert verify(db, organization_id) == []
        # A later change adds no lots.
        administration.put(path, {**STARS, "expiresInMonths": 2})
        assert len(db.execute(lots_of_account).all()) == 1


def test_an_account_cannot_start_tracking_points_while_transactions_are_pending(administration, accounts, raw):
    account_id = administration.post(accounts, STARS)["ledgerAccount"]["ledgerAccountId"]

    def place_hold(ledger):
        wallet = ledger.wallet()
        ledger.mint(wallet, 70, account_id=account_id)
        ledger.transaction(BURN, source=wallet, target=None, amount=7, account_id=account_id, status=PENDING)
        ledger.db.execute(
            text("UPDATE ledger_balances SET pending_debit_balance = 7 WHERE wallet_id = :wallet"), {"wallet": wallet}
        )

    raw(place_hold)
    problem = administration.put(f"{accounts}/{account_id}", {**STARS, "pointTrackingEnabled": True}, expect=409)
    assert problem["type"] == "/problems/ledger-account-in-use"
    assert raw(lambda ledger: ledger.count(ledger_lots)) == 0
    # Only the mint and the pending burn.
    assert raw(lambda ledger: ledger.count(ledger_transactions)) == 2


def test_a_wallet_without_transactions_has_zero_balances_and_no_dates(organization, administration, accounts, raw):
    wallet = raw(lambda ledger: ledger.wallet())
    record = administration.get(f"{accounts}/{organization.defaults.ledger_account_id}/wallets/{wallet}")["wallet"]
    ledger = administration.get("/ledgers")["results"][0]
    account = administration.get(accounts)["results"][0]
    assert record == {
        "ledgerId": ledger["ledgerId"],
        "ledgerKey": ledger["ledgerKey"],
        "ledgerAccountId": account["ledgerAccountId"],
        "ledgerAccountKey": account["ledgerAccountKey"],
        "ledgerAccountName": "Points",
        "isDefaultAccount": True,
        "walletId": wallet,
        "currentBalance": 0,
        "pendingCreditBalance": 0,
        "pendingDebitBalance": 0,
        "currentOverdraftBalance": 0,
        "totalOverdraftCreditBalance": 0,
        "totalFiatValue": 0,
        "pending": 0,
        "lastTransactionDate": None,
        "createdAt": None,
        "updatedAt": None,
    }


def test_a_wallet_shows_its_stored_balances(organization, administration, accounts, raw):
    def store_wallet(ledger):
        wallet = ledger.wallet()
        ledger.mint(wallet, MAX_AMOUNT, at=datetime(2026, 2, 1, tzinfo=UTC))
        ledger.db.execute(
            text(
                "UPDATE ledger_balances SET pending_debit_balance = 3, pending_credit_balance = 4,"
                " current_overdraft_balance = 5, total_overdraft_credit_balance = 6, total_fiat_value = 7.25,"
                " updated_at = '2026-02-03Z' WHERE wallet_id = :wallet"
            ),
            {"wallet": wallet},
        )
        return wallet

    wallet = raw(store_wallet)
    record = administration.get(f"{accounts}/{organization.defaults.ledger_account_id}/wallets/{wallet}")["wallet"]
    stored_values = {
        "currentBalance": MAX_AMOUNT,
        "pendingDebitBalance": 3,
        "pendingCreditBalance": 4,
        "currentOverdraftBalance": 5,
        "totalOverdraftCreditBalance": 6,
        "totalFiatValue": Decimal("7.25"),
        "lastTransactionDate": "2026-02-01T00:00:00Z",
        "createdAt": "2026-02-01T00:00:00Z",
        "updatedAt": "2026-02-03T00:00:00Z",
    }
    assert {name: record[name] for name in stored_values} == stored_values


def test_a_wallet_has_one_entry_for_each_account_of_its_ledger(organization, administration, raw):
    def open_accounts(ledger):
        wallet = ledger.wallet()
        stars = ledger.account(name="Stars", decimals=2)
        ledger.account(name="Moons", active=False)
        ledger.mint(wallet, "12.50", account_id=stars)
        # The points of another wallet do not count.
        ledger.mint(ledger.wallet(), 99)
        return wallet

    wallet = raw(open_accounts)
    administration.post("/ledgers", {"name": "Other"})
    wallets = administration.get(f"/ledgers/{organization.defaults.ledger_id}/wallets/{wallet}")["wallets"]
    assert [
        (wallet["ledgerAccountName"], wallet["currentBalance"], wallet["isDefaultAccount"]) for wallet in wallets
    ] == [
        ("Points", 0, True),
        ("Stars", Decimal("12.5"), False),
        ("Moons", 0, False),
    ]


def test_a_balance_excludes_expired_points(administration, accounts, raw):
    now = datetime.now(UTC)

    def mint_with_expiry(ledger):
        account_id = ledger.account(name="tracked", point_tracking_enabled=True, expires_in_months=1)
        wallet, wallet_of_another = ledger.wallet(), ledger.wallet()

        def mint_lot(wallet_id, amount, expires_at, *, remaining):
            mint_id = ledger.mint(wallet_id, amount, account_id=account_id)
            ledger.lot(
                wallet_id, mint_id, remaining=remaining, expires_at=expires_at, account_id=account_id, amount=amount
            )

        mint_lot(wallet, 5, now - timedelta(days=1), remaining=5)
        mint_lot(wallet, 7, now - timedelta(seconds=1), remaining=7)
        mint_lot(wallet, 11, now + timedelta(days=1), remaining=11)
        mint_lot(wallet, 13, None, remaining=13)
        # These points were spent before they expired.
        mint_lot(wallet, 17, now - timedelta(days=1), remaining=0)
        ledger.burn(wallet, 17, account_id=account_id)
        mint_lot(wallet_of_another, 19, now - timedelta(days=1), remaining=19)
        return account_id, wallet

    account_id, wallet = raw(mint_with_expiry)
    record = administration.get(f"{accounts}/{account_id}/wallets/{wallet}")["wallet"]
    assert record["currentBalance"] == 11 + 13


# A balance expires a month after the last transaction.
@pytest.mark.parametrize(("days_ago", "balance"), [(27, 40), (32, 3)])
def test_an_idle_balance_expires_except_for_the_points_on_hold(administration, accounts, raw, days_ago, balance):
    def mint_idle_points(ledger):
        policy = [{"expirationType": "lastTransaction", "period": 1}]
        account = ledger.account(name="idle", point_tracking_enabled=True, expiration_policies=policy)
        wallet = ledger.wallet()
        # 3 of the 40 points are on hold, so that the lot has 37.
        mint_id = ledger.mint(wallet, 40, account_id=account, at=datetime.now(UTC) - timedelta(days=days_ago))
        ledger.lot(wallet, mint_id, remaining=37, account_id=account, amount=40)
        ledger.db.execute(
            text("UPDATE ledger_balances SET pending_debit_balance = 3 WHERE wallet_id = :wallet"), {"wallet": wallet}
        )
        return account, wallet

    account, wallet = raw(mint_idle_points)
    assert administration.get(f"{accounts}/{account}/wallets/{wallet}")["wallet"]["currentBalance"] == balance


def test_accounts_and_wallets_are_found_only_in_the_path_of_their_ledger(organization, administration, raw):
    other_ledger_id = administration.post("/ledgers", {"name": "Other"})["ledger"]["ledgerId"]
    account = organization.defaults.ledger_account_id
    wallet, wallet_of_other_ledger = raw(lambda ledger: (ledger.wallet(), ledger.wallet(other_ledger_id)))
    default_ledger_id = organization.defaults.ledger_id
    administration.get(f"/ledgers/{default_ledger_id}/wallets/{wallet}")
    administration.get(f"/ledgers/{other_ledger_id}/wallets/{wallet}", expect=404)
    administration.get(f"/ledgers/{other_ledger_id}/accounts/{account}/wallets/{wallet_of_other_ledger}", expect=404)
    administration.get(f"/ledgers/{default_ledger_id}/accounts/{account}/wallets/{wallet_of_other_ledger}", expect=404)
    administration.put(f"/ledgers/{other_ledger_id}/accounts/{account}", STARS, expect=404)
    administration.get(f"/ledgers/{other_ledger_id + 1000}/accounts", expect=404)


def test_accounts_of_another_organization_are_not_found(organization, other_organization):
    foreign_records = other_organization.defaults
    foreign_accounts = f"/ledgers/{foreign_records.ledger_id}/accounts"
    organization.administration.get(foreign_accounts, expect=404)
    organization.administration.post(foreign_accounts, STARS, expect=404)
    path = f"/ledgers/{organization.defaults.ledger_id}/accounts/{foreign_records.ledger_account_id}"
    organization.administration.put(path, STARS, expect=404)


def test_an_overdraft_without_mints_makes_the_issued_amount_negative(organization):
    points = Points.new(organization, overdraftLimit=50)
    points.burn(points.wallet(), 20, allowOverdraft=True)
    accounts = points.admin.get(f"{points.ledger_path}/accounts")["results"]
    issued_by_account = {account["ledgerAccountId"]: account["issued"] for account in accounts}
    assert issued_by_account[points.account_id] == -20


@pytest.mark.parametrize(
    "settings_with",
    [
        lambda event_type: {
            "expirationPolicies": [{"expirationType": "inactivity", "period": 1, "activities": [event_type]}]
        },
        lambda event_type: {"defaultAvailability": {"availableOn": {"eventTypes": [event_type]}}},
    ],
    ids=["activity", "awaited"],
)
def test_an_account_keeps_a_type_of_event_that_was_deactivated_but_gets_no_other_inactive_one(
    organization, settings_with
):
    for code in ("app-opened", "app-closed"):
        body = {"name": "App", "apiCode": code, "schemaType": "custom"}
        organization.integration.post("/custom-event-types", body)
    points = Points.new(organization, **settings_with("app-opened"))
    for code in ("app-opened", "app-closed"):
        organization.integration.patch(f"/custom-event-types/{code}", {"active": False})
    renamed_account = points.admin.put(points.path, {**STARS, **settings_with("app-opened"), "name": "Miles"})
    assert renamed_account["ledgerAccount"]["name"] == "Miles"
    points.admin.put(points.path, {**STARS, "active": False})
    problem = points.admin.put(points.path, {**STARS, **settings_with("app-closed")}, expect=404)
    assert problem["type"] == "/problems/unknown-event-type"
