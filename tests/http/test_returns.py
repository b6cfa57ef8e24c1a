"""Orders that are undone by events: their points are reverted, all or in proportion."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tracking import ORDER_CREATED, WHOLE_DOLLARS, Shop, order, order_update, running, spend


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def member(shop):
    return shop.member()


@pytest.fixture
def points(shop):
    """A point for each whole dollar of a new order, under limits that are never reached."""
    return shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        pointsMonthlyLimitPerMember=1000,
        maxTransactionsPerMember=50,
    )


def buy(shop, member, *statuses, total, external_id="o-1", **more):
    """Create an order and give it these statuses; return the result of the creation."""
    creation = shop.track_one(order(member, total=total, external_id=external_id, **more))
    for status in statuses:
        shop.track_one(order_update(member, external_id, status))
    return creation


def return_part(shop, member, *totals, external_id="o-1"):
    """Return a part of an order: an item of each of these totals."""
    items = [{"total": Decimal(total)} for total in totals]
    return shop.track_one(order_update(member, external_id, "partially-returned", items=items))


def limit_usage(shop):
    """The used amount of each limit, by its type."""
    return {row.type: row.used for row in shop.rows("campaign_limit_counters")}


def reverted_amounts(result):
    """The reverted amount of each ledger transaction that the result of an event reports."""
    return [
        transaction["revertedAmount"]
        for reversal in result.get("reverted", ())
        for transaction in reversal["ledgerTransactions"]
    ]


def order_statuses(shop):
    """The status of each stored order."""
    return [row.status for row in shop.rows("purchase_orders")]


@pytest.mark.parametrize(
    ("earlier_statuses", "status"),
    [
        ((), "cancelled"),
        ((), "rejected"),
        (("confirmed",), "cancelled"),
        (("confirmed",), "returned"),
    ],
)
def test_undoing_an_order_reverts_its_points_and_its_use_of_limits(shop, member, points, earlier_statuses, status):
    creation = buy(shop, member, *earlier_statuses, total="10.75")
    assert shop.balance(member) == 10
    result = shop.track_one(order_update(member, "o-1", status))
    assert shop.balance(member) == 0
    assert set(limit_usage(shop).values()) == {0}
    [reversal] = result["reverted"]
    assert reversal["loyaltyEventKey"] == creation["loyaltyEventKey"]
    assert [ledger_transaction["outcome"] for ledger_transaction in reversal["ledgerTransactions"]] == ["reverted"]
    events = shop.events(member)
    reversal_event, creation_event = events[0], events[-1]
    assert reversal_event["revertedLoyaltyEventId"] == creation_event["loyaltyEventId"]
    assert creation_event["reversalLoyaltyEventId"] == reversal_event["loyaltyEventId"]
    assert creation_event["revertedLoyaltyEventId"] is None
    assert reversal_event["reversalLoyaltyEventId"] is None
    problem = shop.integration.post(f"/events/{creation['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-cancelled"
    problem = shop.integration.post(f"/events/{reversal_event['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-not-cancellable"


def test_a_confirmation_reverts_nothing(shop, member, points):
    buy(shop, member, total=10)
    assert "reverted" not in shop.track_one(order_update(member, "o-1", "confirmed"))
    assert shop.balance(member) == 10


def test_the_points_that_remain_after_a_partial_return_are_rounded_down(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    result = return_part(shop, member, "3.10")
    [reversal] = result["reverted"]
    [transaction] = reversal["ledgerTransactions"]
    # 6.90 of the order remain, which are 6 whole points.
    assert (transaction["amount"], transaction["revertedAmount"], transaction["outcome"]) == (10, 4, "partial")
    assert [limit_counter["amount"] for limit_counter in reversal["limitCounters"]] == [4]
    assert shop.balance(member) == 6
    assert limit_usage(shop) == {"points": 6, "transactions": 1}
    events = shop.events(member)
    return_event, creation_event = events[0], events[-1]
    assert return_event["revertedLoyaltyEventId"] == creation_event["loyaltyEventId"]
    assert creation_event["reversalLoyaltyEventId"] is None


def test_points_are_prorated_even_if_the_remaining_order_does_not_meet_the_rule(shop, member):
    shop.campaign(running(mint(500), rule="order.total >= 100.0"), eventType=ORDER_CREATED)
    buy(shop, member, "confirmed", total=120)
    assert shop.balance(member) == 500
    return_part(shop, member, 80)
    # 40 of 120 remain.
    assert shop.balance(member) == 500 * 40 // 120
    return_part(shop, member, 40)
    assert shop.balance(member) == 0


def test_partial_returns_add_up_to_the_full_return(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    # 8.50, 7.00 and 4.00 of the order remain.
    for returned_total, expected_balance in (("1.50", 8), ("1.50", 7), ("3", 4)):
        return_part(shop, member, returned_total)
        assert (shop.balance(member), limit_usage(shop)["points"]) == (expected_balance, expected_balance)
    full_return_result = shop.track_one(order_update(member, "o-1", "returned"))
    assert reverted_amounts(full_return_result) == [4]
    assert shop.balance(member) == 0
    assert limit_usage(shop) == {"points": 0, "transactions": 0}
    [account] = shop.administration.get(f"/ledgers/{shop.organization.defaults.ledger_id}/accounts")["results"]
    assert account["issued"] == 0


def test_a_partial_return_of_all_items_is_the_full_return(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    return_part(shop, member, 6, 4)
    assert (shop.balance(member), limit_usage(shop)) == (0, {"points": 0, "transactions": 0})
    assert order_statuses(shop) == ["returned"]
    assert shop.expect_refusal(order_update(member, "o-1", "returned")) == "/problems/order-status"


def test_a_return_also_claws_back_points_that_an_earlier_return_could_not(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    shop.take(member, 9)
    # This part earned 5 points, but the member has only 1.
    return_part(shop, member, 5)
    assert shop.balance(member) == 0
    shop.give(member, 100)
    # The missing 4, and 1 for this part.
    return_part(shop, member, 1)
    assert shop.balance(member) == 100 - 4 - 1
    # 4 for the rest of the order.
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 100 - 4 - 1 - 4


def test_a_revert_by_request_takes_only_the_part_that_was_not_returned(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    return_part(shop, member, 4)
    # The member has 6 points of the order.
    shop.give(member, 100)
    mint_row = shop.rows("ledger_transactions", order="ledger_transaction_id")[0]
    path = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts/{mint_row.ledger_account_id}/transactions"
    shop.administration.post(f"{path}/{mint_row.ledger_transaction_id}/revert", {}, expect=200)
    assert shop.balance(member) == 100
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 100


def test_undoing_an_order_reverts_its_burns_and_the_points_of_the_sponsor(shop, member):
    sponsor = shop.member()
    shop.give(member, 50)
    shop.campaign(running(spend(20), mint(8), mint(4, recipient="sponsor")), eventType=ORDER_CREATED)
    creation = order(member, total=10, external_id="o-1")
    shop.track_one({**creation, "sponsorLoyaltyMemberId": sponsor})
    shop.track_one(order_update(member, "o-1", "confirmed"))
    return_part(shop, member, 5)
    # 50 - 20 + 8 / 2: only the full return reverts the burn.
    assert (shop.balance(member), shop.balance(sponsor)) == (50 - 20 + 8 // 2, 4 // 2)
    shop.track_one(order_update(member, "o-1", "returned"))
    assert (shop.balance(member), shop.balance(sponsor)) == (50, 0)


def test_the_value_of_a_returned_item_may_come_from_the_order(shop, member, points):
    items = [
        {"productCode": "mug", "total": 6, "quantity": 3},
        {"productCode": "tea", "total": 4},
        {"productCode": "x"},
    ]
    buy(shop, member, "confirmed", total=10, items=items)
    return_of_mugs = order_update(member, "o-1", "partially-returned", items=[{"productCode": "mug", "quantity": 2}])
    shop.track_one(return_of_mugs)
    # Two of three mugs, which cost 6.
    assert shop.balance(member) == 10 - 4
    shop.track_one(order_update(member, "o-1", "partially-returned", items=[{"productCode": "tea"}]))
    assert shop.balance(member) == 10 - 4 - 4
    for item_without_value in ({"productCode": "x"}, {"description": "Something"}, {}):
        invalid_return = order_update(member, "o-1", "partially-returned", items=[item_without_value])
        assert shop.expect_refusal(invalid_return) == "/problems/payload-missing"
    assert [row.returned_total for row in shop.rows("purchase_orders")] == [4 + 4]


def test_a_partial_return_without_items_only_changes_the_status(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    assert "reverted" not in shop.track_one(order_update(member, "o-1", "partially-returned"))
    assert shop.balance(member) == 10
    assert order_statuses(shop) == ["partially-returned"]


@pytest.mark.parametrize("status", ["cancelled", "returned", "partially-returned"])
@pytest.mark.parametrize("has_campaign", [True, False])
def test_an_event_that_undid_an_order_cannot_be_cancelled(shop, member, status, has_campaign):
    if has_campaign:
        shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.track_one(order(member, total=10, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    # A partial return is of 4.00. Other events need no total.
    returned_total = 4 if status == "partially-returned" else None
    undo_result = shop.track_one(order(member, total=returned_total, status=status, external_id="o-1"))
    balance = shop.balance(member)
    problem = shop.integration.post(f"/events/{undo_result['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-not-cancellable"
    assert order_statuses(shop) == [status]
    assert balance == (10 - 4 if has_campaign and status == "partially-returned" else 0)
    assert shop.balance(member) == balance


def test_a_dry_run_of_a_return_reports_the_reverts_and_changes_nothing(shop, member, points):
    buy(shop, member, "confirmed", total=10)
    full_return = order_update(member, "o-1", "returned")
    [dry_result] = shop.track(full_return, executionMode="dryRun")
    assert reverted_amounts(dry_result) == [10]
    assert shop.balance(member) == 10
    assert order_statuses(shop) == ["confirmed"]


def test_a_dry_run_of_a_return_names_no_reversal_of_a_coupon(shop, member):
    book = CouponBooks(shop.organization).make(type="codeless")
    gift = effect("assign-coupon", couponBookKey=book["couponBookKey"], amount=1)
    shop.campaign(running(gift), eventType=ORDER_CREATED)
    buy(shop, member, "confirmed", total=10)
    [dry_result] = shop.track(order_update(member, "o-1", "returned"), executionMode="dryRun")
    [[coupon]] = [reverted_event["coupons"] for reverted_event in dry_result["reverted"] if reverted_event["coupons"]]
    assert (coupon["amountAssigned"], coupon["reversalUsageId"]) == (1, None)


@pytest.mark.parametrize("status", ["cancelled", "returned", "partially-returned"])
def test_an_event_that_undoes_an_order_is_refused_in_the_mode_capture_only(shop, member, points, status):
    buy(shop, member, "confirmed", total=10)
    # A partial return is of 4.00. Other events need no total.
    returned_total = 4 if status == "partially-returned" else None
    undo_event = order(member, total=returned_total, status=status, external_id="o-1")
    assert shop.expect_refusal(undo_event, executionMode="captureOnly") == "/problems/event-type-not-trackable"
    assert order_statuses(shop) == ["confirmed"]
    # Its key is free.
    shop.track_one(undo_event)
    assert shop.balance(member) == (10 - 4 if status == "partially-returned" else 0)


def test_a_return_that_was_sent_before_the_confirmation_can_be_sent_again(shop, member, points):
    buy(shop, member, total=10)
    full_return = order_update(member, "o-1", "returned")
    [early_result], [repeated_result] = shop.track(full_return), shop.track(full_return)
    assert early_result == repeated_result
    assert early_result["error"]["type"] == "/problems/order-status"
    shop.track_one(order_update(member, "o-1", "confirmed"))
    assert shop.track(full_return, executionMode="dryRun")[0]["status"] == "success"
    result = shop.track_one(full_return)
    assert result["loyaltyEventKey"] == early_result["loyaltyEventKey"]
    assert reverted_amounts(result) == [10]
    assert shop.track_one(full_return) == result
    assert shop.balance(member) == 0
    assert order_statuses(shop) == ["returned"]
    [stored_event] = [
        event for event in shop.events(member) if event["loyaltyEventKey"] == early_result["loyaltyEventKey"]
    ]
    # The evaluation status 1 is success.
    assert (stored_event["status"], stored_event["evaluationStatus"]) == ("success", 1)
    assert stored_event.get("lastError") is None
    shop.check_ledger()


def test_an_event_that_was_sent_before_its_order_can_be_sent_again_unchanged(shop, member, points):
    early_confirmation = order_update(member, "o-1", "confirmed")
    assert shop.expect_refusal(early_confirmation) == "/problems/unknown-order"
    shop.track_one(order(member, total=10, external_id="o-1"))
    changed_confirmation = {**early_confirmation, "description": "other"}
    assert shop.expect_refusal(changed_confirmation) == "/problems/key-reused"
    shop.track_one(early_confirmation)
    assert order_statuses(shop) == ["confirmed"]


def test_a_batch_can_undo_orders_that_it_creates(shop, points):
    members = [shop.member() for _ in range(3)]
    batch = []
    for number, buyer in enumerate(members):
        name = f"o-{number}"
        batch += [order(buyer, total=10, external_id=name), order_update(buyer, name, "confirmed")]
        batch.append(order_update(buyer, name, "partially-returned", items=[{"total": 2}]))
        batch.append(order_update(buyer, name, "returned"))
    results = shop.track(*batch)
    assert {result["status"] for result in results} == {"success"}
    # Each of the three orders of 10.00 is created, confirmed, returned by 2.00, and returned completely.
    assert [reverted_amounts(result) for result in results] == [[], [], [2], [8]] * 3
    assert [shop.balance(buyer) for buyer in members] == [0, 0, 0]
    assert {row.used for row in shop.rows("campaign_limit_counters")} == {0}


@pytest.mark.parametrize("final_status", ["returned", "cancelled"])
def test_a_dry_run_of_a_batch_reverts_the_same_amounts_as_the_real_run(shop, points, final_status):
    shop.campaign(running(mint(3)), eventType=f"member-purchase-order-{final_status}")
    member, member_who_keeps_the_order = shop.member(), shop.member()
    batch = [order(member, total=10, external_id="o-1"), order(member_who_keeps_the_order, total=7, external_id="o-2")]
    if final_status == "returned":
        batch.append(order_update(member, "o-1", "confirmed"))
        batch.append(order_update(member, "o-1", "partially-returned", items=[{"total": 2}]))
    batch.append(order_update(member, "o-1", final_status))
    # A return of o-3 fails, because o-3 is not confirmed.
    batch += [order(member, total=4, external_id="o-3"), order_update(member, "o-3", final_status)]

    def minted_amounts(result):
        params = [param for effect in result["effects"] for param in effect["params"]]
        return [param["value"] for param in params if param["id"] == "amount"]

    dry_results = shop.track(*batch, executionMode="dryRun")
    assert (shop.balance(member), shop.balance(member_who_keeps_the_order)) == (0, 0)
    assert {row.event_type for row in shop.rows("events")} == {"member-created"}
    for table in ("purchase_orders", "ledger_transactions", "trigger_deliveries"):
        assert shop.rows(table) == [], table
    real_results = shop.track(*batch)
    if final_status == "returned":
        assert [result["status"] for result in real_results] == ["success"] * 6 + ["failed"]
        assert [reverted_amounts(result) for result in real_results] == [[], [], [], [2], [8], [], []]
    else:
        assert [result["status"] for result in real_results] == ["success"] * 5
        assert [reverted_amounts(result) for result in real_results] == [[], [], [10], [], [4]]
    assert list(map(reverted_amounts, dry_results)) == list(map(reverted_amounts, real_results))
    assert list(map(minted_amounts, dry_results)) == list(map(minted_amounts, real_results))


def test_a_refused_return_changes_nothing_but_its_own_record(shop, member):
    stars = shop.account()
    shop.campaign(running(mint(10, ledgerAccountKey=stars["ledgerAccountKey"])), eventType=ORDER_CREATED)
    buy(shop, member, "confirmed", total=10)
    path = f"/ledgers/{stars['ledgerId']}/accounts/{stars['ledgerAccountId']}"
    body = {"name": "Stars", "isRevolving": True, "chainSyncEnabled": False}
    shop.administration.put(path, {**body, "active": False})
    assert shop.expect_refusal(order_update(member, "o-1", "returned")) == "/problems/account-inactive"
    assert order_statuses(shop) == ["confirmed"]
    shop.administration.put(path, {**body, "active": True})
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member, stars["ledgerAccountId"]) == 0


def test_campaigns_can_evaluate_the_event_of_a_return(shop, member, points):
    shop.campaign(running(mint(1)), eventType="member-purchase-order-returned")
    buy(shop, member, "confirmed", total=10)
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 1


def test_a_return_reduces_the_used_limit_for_a_later_event_of_the_batch(shop, member):
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 10}],
    )
    buy(shop, member, "confirmed", total=10)
    # The first order used the whole limit.
    _, later_result = shop.track(order_update(member, "o-1", "returned"), order(member, total=10))
    assert later_result["effects"][0]["status"] == "executed"
    assert shop.balance(member) == 10


def test_remaining_points_are_rounded_down_to_the_decimals_of_the_account(shop, member):
    cents = shop.account(decimals=2)
    shop.campaign(
        running(mint(("=", "order.total"), ledgerAccountKey=cents["ledgerAccountKey"])),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "member", "type": "points", "period": "total", "limit": 1000}],
    )
    buy(shop, member, "confirmed", total=10)
    return_part(shop, member, "3.333")
    # 10 - 3.333 is 6.667.
    assert shop.balance(member, cents["ledgerAccountId"]) == Decimal("6.66")
    assert limit_usage(shop) == {"points": Decimal("6.66")}


CUPS_AND_JUG = [{"productCode": "cup", "total": 60, "quantity": 4}, {"productCode": "jug", "total": 40, "quantity": 1}]


@pytest.mark.parametrize(
    "items",
    [
        pytest.param([{"productCode": "vase", "quantity": 1}], id="an item that the order has not"),
        pytest.param([{"productCode": "vase", "total": 1}], id="an item that the order has not, with a total"),
        pytest.param([{"total": 1}], id="an item without a product code"),
        pytest.param([{"productCode": "cup", "quantity": 40}], id="40 of 4 cups"),
        pytest.param([{"productCode": "cup", "total": 500}], id="cups for 500 instead of 60"),
        pytest.param([{"productCode": "cup", "quantity": 3}, {"productCode": "cup", "quantity": 2}], id="3 and 2 cups"),
        pytest.param([{"productCode": "cup", "quantity": 1, "total": 61}], id="a cup for more than all cups"),
        pytest.param([{"productCode": "jug"}, {"productCode": "jug"}], id="the only jug twice"),
    ],
)
def test_a_return_of_more_than_the_order_has_is_refused(shop, member, points, items):
    buy(shop, member, "confirmed", total=100, items=CUPS_AND_JUG)
    excessive_return = order_update(member, "o-1", "partially-returned", items=items)
    assert shop.expect_refusal(excessive_return) == "/problems/return-exceeds-order"
    assert shop.balance(member) == 100
    assert order_statuses(shop) == ["confirmed"]
    assert {row.returned_total for row in shop.rows("order_items")} == {0}


def test_returns_of_one_item_add_up_to_its_quantity(shop, member, points):
    buy(shop, member, "confirmed", total=100, items=CUPS_AND_JUG)

    def item_return(**item):
        return order_update(member, "o-1", "partially-returned", items=[item])

    # Three of four cups, which cost 60.
    shop.track_one(item_return(productCode="cup", quantity=3))
    assert shop.balance(member) == 100 - 45
    assert shop.expect_refusal(item_return(productCode="cup", quantity=2)) == "/problems/return-exceeds-order"
    shop.track_one(item_return(productCode="cup", quantity=1))
    assert shop.expect_refusal(item_return(productCode="cup", total=1)) == "/problems/return-exceeds-order"
    assert shop.balance(member) == 100 - 60
    result = shop.track_one(item_return(productCode="jug"))
    assert reverted_amounts(result) == [40]
    assert (shop.balance(member), limit_usage(shop)) == (0, {"points": 0, "transactions": 0})
    assert [(row.status, row.returned_total) for row in shop.rows("purchase_orders")] == [("returned", 100)]


def test_a_return_can_have_a_total_instead_of_items(shop, member, points):
    buy(shop, member, "confirmed", total=60)
    shop.track_one(order(member, total=15, status="partially-returned", external_id="o-1"))
    assert shop.balance(member) == 60 - 15
    excessive_return = order(member, total=500, status="partially-returned", external_id="o-1")
    assert shop.expect_refusal(excessive_return) == "/problems/return-exceeds-order"
    shop.track_one(order(member, total=45, status="partially-returned", external_id="o-1"))
    assert shop.balance(member) == 0
    assert order_statuses(shop) == ["returned"]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_points_of_the_confirmation_are_reverted_in_the_same_proportion(shop, member, points, in_one_batch):
    shop.campaign(running(mint(30)), eventType="member-purchase-order-confirmed")
    events = [
        order(member, total=60, external_id="o-1"),
        order_update(member, "o-1", "confirmed"),
        order(member, total=20, status="partially-returned", external_id="o-1"),
        order_update(member, "o-1", "returned"),
    ]
    if in_one_batch:
        _, _, partial_return_result, full_return_result = shop.track(*events)
    else:
        _, _, partial_return_result = [shop.track_one(event) for event in events[:-1]]
        # Two thirds of the 30 and of the 60 points.
        assert shop.balance(member) == 20 + 40
        full_return_result = shop.track_one(events[-1])
    # A third of the 30 and of the 60 points, and the rest.
    assert sorted(reverted_amounts(partial_return_result)) == [10, 20]
    assert sorted(reverted_amounts(full_return_result)) == [20, 40]
    assert shop.balance(member) == 0


def test_reverting_a_burn_gives_back_no_points_of_a_returned_order(shop, member, points):
    for name in ("o-1", "o-2", "o-3"):
        buy(shop, member, "confirmed", total=50, external_id=name)
        # All points of the order.
        burn = shop.take(member, 50)
        shop.track_one(order(member, total=20, status="partially-returned", external_id=name))
        shop.track_one(order_update(member, name, "returned"))
        path = f"/ledgers/{shop.organization.defaults.ledger_id}/accounts/{burn['ledgerAccountId']}/transactions"
        shop.administration.post(f"{path}/{burn['ledgerTransactionId']}/revert", {}, expect=200)
        assert shop.balance(member) == 0
