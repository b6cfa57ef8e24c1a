"""The mode `authorize`: points are held for a later capture, all other effects are only reported."""

from __future__ import annotations

from decimal import Decimal

import pytest

from domain.calendar import instant_text
from tests.builders.campaigns import effect, mint
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, Shop, event, order, order_update, running, spend


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def member(shop):
    return shop.member()


def authorize(shop, body):
    """Track the event in the mode `authorize`; return its result."""
    return shop.track_one(body, executionMode="authorize")


def account_path(shop, account=None):
    """The path of the account, by default that of the default account."""
    defaults = shop.organization.defaults
    account_id = defaults.ledger_account_id if account is None else account["ledgerAccountId"]
    return f"/ledgers/{defaults.ledger_id}/accounts/{account_id}"


def wallet_of(shop, member):
    """The id of the member's wallet."""
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]


def pending_transactions(shop, member, account=None):
    """The records of the member's pending transactions in the account, oldest first."""
    query = {"walletId": wallet_of(shop, member), "order": "ledgerTransactionId,asc"}
    transactions = shop.administration.get(f"{account_path(shop, account)}/transactions", **query)["results"]
    # Status 0 is pending.
    return [transaction for transaction in transactions if transaction["status"] == 0]


def pending_amounts(shop, member):
    """(transactionType, amount) of the member's pending transactions in the default account, oldest first."""
    return [(record["transactionType"], record["amount"]) for record in pending_transactions(shop, member)]


def capture(shop, member, amount, *, expect=200):
    """Capture an amount of the member's only pending transaction in the default account; return the response."""
    [transaction] = pending_transactions(shop, member)
    body = {"transactions": [{"ledgerTransactionId": str(transaction["ledgerTransactionId"]), "captureAmount": amount}]}
    return shop.administration.post(f"{account_path(shop)}/captures", body, expect=expect)


def capture_all(shop, member, account=None):
    """Capture the whole amount of each pending transaction of the member in the account."""
    transactions = [
        {"ledgerTransactionId": str(transaction["ledgerTransactionId"])}
        for transaction in pending_transactions(shop, member, account)
    ]
    body = {"transactions": transactions}
    assert shop.administration.post(f"{account_path(shop, account)}/captures", body, expect=200) == {"ok": True}


def lots(shop, member):
    """(amount, expiry) of the member's lots, oldest first."""
    statement = "SELECT amount, expires_at FROM ledger_lots WHERE wallet_id = %s ORDER BY ledger_lot_id"
    with shop.organization.api.engine.connect() as db:
        rows = db.exec_driver_sql(statement, (wallet_of(shop, member),))
        return [(amount, expiry.isoformat()) for amount, expiry in rows]


def test_points_are_pending_and_other_effects_are_only_reported(shop, member):
    shop.give(member, 10)
    shop.campaign(running(mint(7), spend(3), effect("discount", type="amount", value=2)))
    body = {"events": [event(member)], "executionMode": "authorize"}
    response = shop.integration.post("/events/track", body, expect=200)
    assert shop.integration.post("/events/track", body, expect=200) == response
    assert (response["executionMode"], response["dryRun"]) == ("authorize", False)
    [result] = response["results"]
    assert [outcome["status"] for outcome in result["effects"]] == ["authorized"] * 3
    assert result["explain"] == []
    assert shop.balance(member) == 10
    assert pending_amounts(shop, member) == [("mint", 7), ("burn", 3)]
    event_record = shop.integration.get(f"/events/{result['loyaltyEventKey']}")
    assert event_record["result"] == result
    assert (event_record["event"]["status"], event_record["event"]["evaluationStatus"]) == ("success", 1)
    capture_all(shop, member)
    assert shop.balance(member) == 10 + 7 - 3
    shop.check_ledger()


def test_authorized_effects_count_against_limits_until_the_event_is_cancelled(shop, member):
    shop.campaign(
        running(mint(4)), pointsMonthlyLimitPerMember=6, allowPartialApplicationOnLimit=True, maxTransactionsPerMember=2
    )
    results = [authorize(shop, event(member)) for _ in range(3)]
    # The second gets the remaining 2 of 6 points, the third nothing.
    statuses = [[outcome["status"] for outcome in result["effects"]] for result in results]
    assert statuses == [["authorized"], ["partial"], ["skipped"]]
    assert pending_amounts(shop, member) == [("mint", 4), ("mint", 6 - 4)]
    for result in (results[1], results[0]):
        response = shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        assert [transaction["outcome"] for transaction in response["results"][0]["ledgerTransactions"]] == ["released"]
    assert pending_transactions(shop, member) == []
    # The limits allow a full application again, now in the mode `full`.
    assert [outcome["status"] for outcome in shop.track_one(event(member))["effects"]] == ["executed"]
    assert shop.balance(member) == 4
    shop.check_ledger()


def limit_usage(shop):
    """The used amount of each limit, by its type."""
    return {row.type: row.used for row in shop.rows("campaign_limit_counters")}


@pytest.fixture
def order_for_100_points(shop, member):
    """The result of the authorized order o-1 of 100.

    Its 100 points are pending, and count against a limit on points and one on events.
    """
    shop.campaign(
        running(mint(("=", "order.total"))),
        eventType=ORDER_CREATED,
        pointsMonthlyLimitPerMember=1000,
        maxTransactionsPerMember=50,
    )
    result = authorize(shop, order(member, 100, external_id="o-1"))
    assert limit_usage(shop) == {"points": 100, "transactions": 1}
    return result


@pytest.mark.parametrize(
    ("captured_amount", "remaining_balance"),
    [
        pytest.param(30, 30, id="capture a part"),
        pytest.param(0, 0, id="capture nothing"),
        pytest.param(None, 0, id="revert the pending transaction"),
    ],
)
def test_points_that_are_released_by_request_still_count_against_limits(
    shop, member, order_for_100_points, captured_amount, remaining_balance
):
    if captured_amount is None:
        [transaction] = pending_transactions(shop, member)
        path = f"{account_path(shop)}/transactions/{transaction['ledgerTransactionId']}/revert"
        shop.administration.post(path, {}, expect=200)
    else:
        capture(shop, member, captured_amount)
    assert (pending_transactions(shop, member), shop.balance(member)) == ([], remaining_balance)
    assert limit_usage(shop) == {"points": 100, "transactions": 1}


@pytest.mark.parametrize("captured_amount", [None, 30], ids=["nothing captured", "30 captured"])
@pytest.mark.parametrize("statuses", [("cancelled",), ("rejected",), ("confirmed", "returned")])
def test_undoing_an_authorized_order_gives_limits_everything_back(
    shop, member, order_for_100_points, statuses, captured_amount
):
    if captured_amount is not None:
        capture(shop, member, captured_amount)
    for status in statuses:
        shop.track_one(order_update(member, "o-1", status))
    assert (pending_transactions(shop, member), shop.balance(member)) == ([], 0)
    assert limit_usage(shop) == {"points": 0, "transactions": 0}


@pytest.mark.parametrize("captured_amount", [None, 30], ids=["nothing captured", "30 captured"])
def test_cancelling_an_authorized_event_gives_limits_everything_back(
    shop, member, order_for_100_points, captured_amount
):
    if captured_amount is not None:
        capture(shop, member, captured_amount)
    shop.integration.post(f"/events/{order_for_100_points['loyaltyEventKey']}/cancel", {}, expect=200)
    assert (pending_transactions(shop, member), shop.balance(member)) == ([], 0)
    assert limit_usage(shop) == {"points": 0, "transactions": 0}


def test_a_partial_return_of_an_authorized_order_gives_its_share_back_to_limits_on_points(
    shop, member, order_for_100_points
):
    shop.track_one(order_update(member, "o-1", "confirmed"))
    shop.track_one(order_update(member, "o-1", "partially-returned", items=[{"total": 40}]))
    assert pending_amounts(shop, member) == [("mint", 100 - 40)]
    assert limit_usage(shop) == {"points": 100 - 40, "transactions": 1}


def test_an_authorized_burn_holds_the_points(shop, member):
    shop.give(member, 10)
    shop.campaign(running(spend(6)))
    assert authorize(shop, event(member))["effects"][0]["status"] == "authorized"
    # 6 of the 10 points are held, so a second burn of 6 fails.
    second_outcome = authorize(shop, event(member))["effects"][0]
    assert (second_outcome["status"], second_outcome["error"]["type"]) == ("failed", "/problems/insufficient-balance")
    assert pending_amounts(shop, member) == [("burn", 6)]


def test_an_account_with_an_overdraft_authorizes_nothing(shop, member):
    account = shop.account(overdraftLimit=5)
    shop.campaign(running(mint(6, ledgerAccountKey=account["ledgerAccountKey"])))
    [outcome] = authorize(shop, event(member))["effects"]
    assert (outcome["status"], outcome["error"]["type"]) == ("failed", "/problems/capture-not-supported")


def test_points_captured_later_expire_on_the_date_of_the_effect_or_else_by_their_account(clock):
    shop = Shop(clock.organization)
    member = shop.member()
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=1)
    account_param = {"ledgerAccountKey": account["ledgerAccountKey"]}
    shop.campaign(running(mint(4, expirationDate="2031-05-01T00:00:00Z", **account_param), mint(3, **account_param)))
    authorize(shop, event(member))
    assert lots(shop, member) == []
    capture_all(shop, member, account)
    # The clock shows 1 March, 10:00 in Madrid. One month later it is 10:00 in summer time, 08:00 in UTC.
    assert lots(shop, member) == [(4, "2031-05-01T00:00:00+00:00"), (3, "2026-04-01T08:00:00+00:00")]


def test_tiers_move_when_the_points_are_captured(shop, member):
    tiers = TierSchedule.new(shop, Gold=5)
    shop.campaign(running(mint(5)), eventType="member-generic-event")
    authorize(shop, event(member))
    assert tiers.of(member) == "Basic"
    capture_all(shop, member)
    assert tiers.of(member) == "Gold"


@pytest.mark.slow
@pytest.mark.parametrize("date_field", [{}, {"externalEventDate": "2026-12-20T08:00:00Z"}], ids=["no date", "a date"])
def test_points_captured_in_the_next_year_count_and_expire_by_the_date_of_their_event(api, date_field):
    clock = Clock.new(api, starts_at="2026-12-20T08:00:00Z", timezone="UTC")
    shop = Shop(clock.organization)
    member = shop.member()
    tiers = TierSchedule.new(shop, policy={"basis": "earned", "period": "calendar"}, Gold=5)
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=2)
    shop.campaign(running(mint(5), mint(3, ledgerAccountKey=account["ledgerAccountKey"])))
    authorize(shop, event(member, **date_field))
    Points(shop.organization, account).mint(wallet_of(shop, member), 4, captureMethod="manual", **date_field)
    clock.advance("2027-01-10T08:00:00Z")
    capture_all(shop, member)
    capture_all(shop, member, account)
    assert (shop.balance(member), shop.balance(member, account["ledgerAccountId"])) == (5, 3 + 4)
    # The 5 points were earned in the year before, as if the event had been tracked in the mode `full`.
    [status] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["tierStatus"]
    assert (tiers.of(member), status["points"]) == ("Basic", 0)
    # Two months after 20 December, not two months after the capture on 10 January.
    expiries = [(row.amount, instant_text(row.expires_at)) for row in shop.rows("ledger_lots") if row.expires_at]
    assert sorted(expiries) == [(3, "2027-02-20T08:00:00Z"), (4, "2027-02-20T08:00:00Z")]
    captured_transactions = shop.administration.get(f"{account_path(shop, account)}/transactions")["results"]
    assert {transaction["externalEventDate"] for transaction in captured_transactions} == {"2026-12-20T08:00:00Z"}
    shop.check_ledger()


def test_points_captured_after_their_expiry_expire_at_once(api):
    clock = Clock.new(api, starts_at="2026-12-20T08:00:00Z")
    shop = Shop(clock.organization)
    member = shop.member()
    account = shop.account(pointTrackingEnabled=True, expiresInMonths=2)
    shop.campaign(running(mint(3, ledgerAccountKey=account["ledgerAccountKey"])))
    authorize(shop, event(member))
    # Two months after the event.
    clock.advance("2027-02-20T08:00:00Z")
    capture_all(shop, member, account)
    assert shop.balance(member, account["ledgerAccountId"]) == 0


def test_an_authorized_order_is_stored_and_its_cancellation_releases_pending_points(shop, member):
    shop.campaign(running(mint(5)), eventType=ORDER_CREATED)
    results = shop.track(
        order(member, total=10, external_id="o-1"),
        order_update(member, "o-1", "cancelled"),
        executionMode="authorize",
    )
    assert [result["status"] for result in results] == ["success", "success"]
    assert [transaction["outcome"] for transaction in results[1]["reverted"][0]["ledgerTransactions"]] == ["released"]
    assert pending_transactions(shop, member) == []
    assert shop.balance(member) == 0
    shop.check_ledger()


def test_a_pending_mint_by_request_keeps_its_expiration_date_when_captured(shop, member):
    account = shop.account(pointTrackingEnabled=True)
    pending_mint = {
        "ledgerAccountId": account["ledgerAccountId"],
        "fromWalletId": None,
        "toWalletId": wallet_of(shop, member),
        "amount": 5,
        "captureMethod": "manual",
        "expirationDate": "2031-05-01T00:00:00Z",
    }
    response = shop.administration.post("/ledger-transactions/batch", {"items": [pending_mint]}, expect=200)
    assert response["failed"] == []
    capture_all(shop, member, account)
    assert lots(shop, member) == [(5, "2031-05-01T00:00:00+00:00")]


def test_a_return_lowers_the_amount_that_can_be_captured(shop, member):
    shop.campaign(running(mint(("=", "order.total"))), eventType=ORDER_CREATED)
    items = [{"productCode": "a", "total": 60, "quantity": 1}, {"productCode": "b", "total": 40, "quantity": 4}]
    authorize(shop, order(member, 100, external_id="o-1", items=items))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    # Two of the four products b, twice: 20 of 40.
    returned_items = [{"productCode": "b", "quantity": 2}]
    for remaining_points in (100 - 20, 100 - 20 - 20):
        shop.track_one(order_update(member, "o-1", "partially-returned", items=returned_items))
        assert pending_amounts(shop, member) == [("mint", remaining_points)]
    shop.check_ledger()
    problem = capture(shop, member, 60 + 1, expect=409)
    assert problem["type"] == "/problems/capture-exceeds-hold"
    capture_all(shop, member)
    assert shop.balance(member) == 60
    shop.check_ledger()
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 0
    shop.check_ledger()


def test_a_full_return_releases_the_authorized_points(shop, member):
    shop.campaign(running(mint(("=", "order.total"))), eventType=ORDER_CREATED)
    authorize(shop, order(member, 100, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    shop.track_one(order_update(member, "o-1", "returned"))
    assert pending_transactions(shop, member) == []
    assert shop.balance(member) == 0
    shop.check_ledger()


def test_partial_returns_of_an_authorized_order_release_the_exact_share_of_a_limit(shop, member):
    account = shop.account(decimals=2)
    effect = mint(Decimal("10.5"), ledgerAccountKey=account["ledgerAccountKey"])
    limit = {"scope": "member", "type": "points", "period": "total", "limit": 100}
    shop.campaign(running(effect), eventType=ORDER_CREATED, limitRules=[limit])
    shop.track_one(order(member, 100, external_id="o"), executionMode="authorize")
    shop.track_one(order_update(member, "o", "confirmed"))
    # 90 and then 80 % of 10.50.
    for used_points in (Decimal("9.45"), Decimal("8.40")):
        shop.track_one(order_update(member, "o", "partially-returned", total=10))
        assert [row.used for row in shop.rows("campaign_limit_counters")] == [used_points]
