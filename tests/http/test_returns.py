"""Orders that are undone by events: their points are reverted, all or in proportion."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.builders.campaigns import mint
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


def buy(shop, member, total=10, *statuses, external_id="o-1", **more):
    """Create an order and give it these statuses; return the result of the creation."""
    creation = shop.track_one(order(member, total, external_id=external_id, **more))
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
    creation = buy(shop, member, "10.75", *earlier_statuses)
    assert shop.balance(member) == 10
    result = shop.track_one(order_update(member, "o-1", status))
    assert shop.balance(member) == 0
    assert set(limit_usage(shop).values()) == {0}
    [reversal] = result["reverted"]
    assert reversal["loyaltyEventKey"] == creation["loyaltyEventKey"]
    assert [ledger_transaction["outcome"] for ledger_transaction in reversal["ledgerTransactions"]] == ["reverted"]
    reversal_event, *_, original = shop.events(member)
    assert reversal_event["revertedLoyaltyEventId"] == original["loyaltyEventId"]
    assert original["reversalLoyaltyEventId"] == reversal_event["loyaltyEventId"]
    assert (original["revertedLoyaltyEventId"], reversal_event["reversalLoyaltyEventId"]) == (None, None)
    problem = shop.integration.post(f"/events/{creation['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-cancelled"
    problem = shop.integration.post(f"/events/{reversal_event['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-not-cancellable"


def test_a_confirmation_reverts_nothing(shop, member, points):
    buy(shop, member, 10)
    assert "reverted" not in shop.track_one(order_update(member, "o-1", "confirmed"))
    assert shop.balance(member) == 10


def test_the_points_that_remain_after_a_partial_return_are_rounded_down(shop, member, points):
    buy(shop, member, 10, "confirmed")
    result = return_part(shop, member, "3.10")
    [reversal] = result["reverted"]
    [transaction] = reversal["ledgerTransactions"]
    assert (transaction["amount"], transaction["revertedAmount"], transaction["outcome"]) == (10, 4, "partial")
    assert [limit_counter["amount"] for limit_counter in reversal["limitCounters"]] == [4]
    assert shop.balance(member) == 6
    assert limit_usage(shop) == {"points": 6, "transactions": 1}
    events = shop.events(member)
    assert events[0]["revertedLoyaltyEventId"] == events[-1]["loyaltyEventId"]
    assert events[-1]["reversalLoyaltyEventId"] is None


def test_points_are_prorated_even_if_the_remaining_order_does_not_meet_the_rule(shop, member):
    shop.campaign(running(mint(500), rule="order.total >= 100.0"), eventType=ORDER_CREATED)
    buy(shop, member, 120, "confirmed")
    assert shop.balance(member) == 500
    return_part(shop, member, 80)
    # 500 x 40 / 120
    assert shop.balance(member) == 166
    return_part(shop, member, 40)
    assert shop.balance(member) == 0


def test_partial_returns_add_up_to_the_full_return(shop, member, points):
    buy(shop, member, 10, "confirmed")
    for total, expected_balance in (("1.50", 8), ("1.50", 7), ("3", 4)):
        return_part(shop, member, total)
        assert (shop.balance(member), limit_usage(shop)["points"]) == (expected_balance, expected_balance)
    last = shop.track_one(order_update(member, "o-1", "returned"))
    assert [t["revertedAmount"] for reversal in last["reverted"] for t in reversal["ledgerTransactions"]] == [4]
    assert shop.balance(member) == 0
    assert limit_usage(shop) == {"points": 0, "transactions": 0}
    [supply] = shop.administration.get(f"/ledgers/{shop.organization.created.ledger_id}/accounts")["results"]
    assert supply["issued"] == 0


def test_a_partial_return_of_all_items_is_the_full_return(shop, member, points):
    buy(shop, member, 10, "confirmed")
    return_part(shop, member, 6, 4)
    assert (shop.balance(member), limit_usage(shop)) == (0, {"points": 0, "transactions": 0})
    assert [row.status for row in shop.rows("purchase_orders")] == ["returned"]
    assert shop.expect_refusal(order_update(member, "o-1", "returned")) == "/problems/order-status"


def test_a_return_also_claws_back_points_that_an_earlier_return_could_not(shop, member, points):
    buy(shop, member, 10, "confirmed")
    shop.take(member, 9)
    # This part earned 5 points, but the member has only 1.
    return_part(shop, member, 5)
    assert shop.balance(member) == 0
    shop.give(member, 100)
    # The missing 4, and 1 for this part.
    return_part(shop, member, 1)
    assert shop.balance(member) == 95
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 91


def test_a_revert_by_request_takes_only_the_part_that_was_not_returned(shop, member, points):
    buy(shop, member, 10, "confirmed")
    return_part(shop, member, 4)
    shop.give(member, 100)
    mint_row = shop.rows("ledger_transactions", order="ledger_transaction_id")[0]
    path = f"/ledgers/{shop.organization.created.ledger_id}/accounts/{mint_row.ledger_account_id}/transactions"
    shop.administration.post(f"{path}/{mint_row.ledger_transaction_id}/revert", {}, expect=200)
    assert shop.balance(member) == 100
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 100


def test_undoing_an_order_reverts_its_burns_and_the_points_of_the_sponsor(shop, member):
    sponsor = shop.member()
    shop.give(member, 50)
    shop.campaign(running(spend(20), mint(8), mint(4, recipient="sponsor")), eventType=ORDER_CREATED)
    creation = order(member, 10, external_id="o-1")
    shop.track_one({**creation, "sponsorLoyaltyMemberId": sponsor})
    shop.track_one(order_update(member, "o-1", "confirmed"))
    return_part(shop, member, 5)
    # 50 - 20 + 8 / 2: only the full return reverts the burn.
    assert (shop.balance(member), shop.balance(sponsor)) == (34, 2)
    shop.track_one(order_update(member, "o-1", "returned"))
    assert (shop.balance(member), shop.balance(sponsor)) == (50, 0)


def test_the_value_of_a_returned_item_may_come_from_the_order(shop, member, points):
    items = [
        {"productCode": "mug", "total": 6, "quantity": 3},
        {"productCode": "tea", "total": 4},
        {"productCode": "x"},
    ]
    buy(shop, member, 10, "confirmed", items=items)
    part = order_update(member, "o-1", "partially-returned", items=[{"productCode": "mug", "quantity": 2}])
    shop.track_one(part)
    # Two of three mugs, which cost 6.
    assert shop.balance(member) == 6
    shop.track_one(order_update(member, "o-1", "partially-returned", items=[{"productCode": "tea"}]))
    assert shop.balance(member) == 2
    for unknown in ({"productCode": "x"}, {"description": "Something"}, {}):
        invalid_return = order_update(member, "o-1", "partially-returned", items=[unknown])
        assert shop.expect_refusal(invalid_return) == "/problems/payload-missing"
    assert [row.returned_total for row in shop.rows("purchase_orders")] == [8]


def test_a_partial_return_without_items_only_changes_the_status(shop, member, points):
    buy(shop, member, 10, "confirmed")
    assert "reverted" not in shop.track_one(order_update(member, "o-1", "partially-returned"))
    assert shop.balance(member) == 10
    assert [row.status for row in shop.rows("purchase_orders")] == ["partially-returned"]


@pytest.mark.parametrize("status", ["cancelled", "returned", "partially-returned"])
@pytest.mark.parametrize("has_campaign", [True, False])
def test_an_event_that_undid_an_order_cannot_be_cancelled(shop, member, status, has_campaign):
    if has_campaign:
        shop.campaign(running(WHOLE_DOLLARS), eventType=ORDER_CREATED)
    shop.track_one(order(member, 10, external_id="o-1"))
    shop.track_one(order_update(member, "o-1", "confirmed"))
    undoing = shop.track_one(
        order(member, 4 if status == "partially-returned" else None, status=status, external_id="o-1")
    )
    balance = shop.balance(member)
    problem = shop.integration.post(f"/events/{undoing['loyaltyEventKey']}/cancel", {}, expect=409)
    assert problem["type"] == "/problems/event-not-cancellable"
    assert [row.status for row in shop.rows("purchase_orders")] == [status]
    assert shop.balance(member) == balance == (6 if has_campaign and status == "partially-returned" else 0)


def test_a_dry_run_of_a_return_reports_the_reverts_and_changes_nothing(shop, member, points):
    buy(shop, member, 10, "confirmed")
    full_return = order_update(member, "o-1", "returned")
    [dry_result] = shop.track(full_return, executionMode="dryRun")
    assert [t["revertedAmount"] for reversal in dry_result["reverted"] for t in reversal["ledgerTransactions"]] == [10]
    assert shop.balance(member) == 10
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]


@pytest.mark.parametrize("status", ["cancelled", "returned", "partially-returned"])
def test_an_event_that_undoes_an_order_is_refused_in_the_mode_capture_only(shop, member, points, status):
    buy(shop, member, 10, "confirmed")
    undoing = order(member, 4 if status == "partially-returned" else None, status=status, external_id="o-1")
    assert shop.expect_refusal(undoing, executionMode="captureOnly") == "/problems/event-type-not-trackable"
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]
    # Its key is free.
    shop.track_one(undoing)
    assert shop.balance(member) == (6 if status == "partially-returned" else 0)


def test_a_return_that_was_sent_before_the_confirmation_can_be_sent_again(shop, member, points):
    buy(shop, member, 10)
    full_return = order_update(member, "o-1", "returned")
    [early_result], [repeated_result] = shop.track(full_return), shop.track(full_return)
    assert early_result == repeated_result
    assert early_result["error"]["type"] == "/problems/order-status"
    shop.track_one(order_update(member, "o-1", "confirmed"))
    assert shop.track(full_return, executionMode="dryRun")[0]["status"] == "success"
    result = shop.track_one(full_return)
    assert result["loyaltyEventKey"] == early_result["loyaltyEventKey"]
    assert [t["revertedAmount"] for reversal in result["reverted"] for t in reversal["ledgerTransactions"]] == [10]
    assert shop.track_one(full_return) == result
    assert shop.balance(member) == 0
    assert [row.status for row in shop.rows("purchase_orders")] == ["returned"]
    [stored_event] = [
        event for event in shop.events(member) if event["loyaltyEventKey"] == early_result["loyaltyEventKey"]
    ]
    assert (stored_event["status"], stored_event["evaluationStatus"], stored_event.get("lastError")) == (
        "success",
        1,
        None,
    )
    shop.check_ledger()


def test_an_event_that_was_sent_before_its_order_can_be_sent_again_unchanged(shop, member, points):
    early = order_update(member, "o-1", "confirmed")
    assert shop.expect_refusal(early) == "/problems/unknown-order"
    shop.track_one(order(member, 10, external_id="o-1"))
    assert shop.expect_refusal({**early, "description": "other"}) == "/problems/key-reused"
    shop.track_one(early)
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]


def test_a_batch_can_undo_orders_that_it_creates(shop, points):
    members = [shop.member() for _ in range(3)]
    batch = []
    for number, buyer in enumerate(members):
        name = f"o-{number}"
        batch += [order(buyer, 10, external_id=name), order_update(buyer, name, "confirmed")]
        batch.append(order_update(buyer, name, "partially-returned", items=[{"total": 2}]))
        batch.append(order_update(buyer, name, "returned"))
    results = shop.track(*batch)
    assert {result["status"] for result in results} == {"success"}
    amounts = [
        [t["revertedAmount"] for event in result.get("reverted", ()) for t in event["ledgerTransactions"]]
        for result in results
    ]
    assert amounts == [[], [], [2], [8]] * 3
    assert [shop.balance(buyer) for buyer in members] == [0, 0, 0]
    assert {row.used for row in shop.rows("campaign_limit_counters")} == {0}


@pytest.mark.parametrize("last", ["returned", "cancelled"])
def test_a_dry_run_of_a_batch_reverts_the_same_amounts_as_the_real_run(shop, points, last):
    shop.campaign(running(mint(3)), eventType=f"member-purchase-order-{last}")
    member, bystander = shop.member(), shop.member()
    batch = [order(member, 10, external_id="o-1"), order(bystander, 7, external_id="o-2")]
    if last == "returned":
        batch.append(order_update(member, "o-1", "confirmed"))
        batch.append(order_update(member, "o-1", "partially-returned", items=[{"total": 2}]))
    batch += [order_update(member, "o-1", last), order(member, 4, external_id="o-3"), order_update(member, "o-3", last)]

    def figures(results):
        """The reversed amounts, and the amounts of effects, of each event."""
        return [
            (
                [
                    t["revertedAmount"]
                    for reversal in result.get("reverted", ())
                    for t in reversal["ledgerTransactions"]
                ],
                [
                    param["value"]
                    for effect in result["effects"]
                    for param in effect["params"]
                    if param["id"] == "amount"
                ],
            )
            for result in results
        ]

    dry_results = shop.track(*batch, executionMode="dryRun")
    assert [shop.balance(person) for person in (member, bystander)] == [0, 0]
    assert {row.event_type for row in shop.rows("events")} == {"member-created"}
    assert [shop.rows(table) for table in ("purchase_orders", "ledger_transactions", "trigger_deliveries")] == [[]] * 3
    real_results = shop.track(*batch)
    assert {result["status"] for result in real_results} <= {"success", "failed"}
    assert figures(dry_results) == figures(real_results)
    assert ([10] if last == "cancelled" else [8]) in [amounts for amounts, _ in figures(real_results)]


def test_a_refused_return_changes_nothing_but_its_own_record(shop, member):
    stars = shop.account()
    shop.campaign(running(mint(10, ledgerAccountKey=stars["ledgerAccountKey"])), eventType=ORDER_CREATED)
    buy(shop, member, 10, "confirmed")
    path = f"/ledgers/{stars['ledgerId']}/accounts/{stars['ledgerAccountId']}"
    body = {"name": "Stars", "isRevolving": True, "chainSyncEnabled": False}
    shop.administration.put(path, {**body, "active": False})
    assert shop.expect_refusal(order_update(member, "o-1", "returned")) == "/problems/account-inactive"
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]
    shop.administration.put(path, {**body, "active": True})
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member, stars["ledgerAccountId"]) == 0


def test_campaigns_can_evaluate_the_event_of_a_return(shop, member, points):
    shop.campaign(running(mint(1)), eventType="member-purchase-order-returned")
    buy(shop, member, 10, "confirmed")
    shop.track_one(order_update(member, "o-1", "returned"))
    assert shop.balance(member) == 1


def test_a_return_reduces_the_used_limit_for_a_later_event_of_the_batch(shop, member):
    shop.campaign(
        running(WHOLE_DOLLARS),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "campaign", "type": "points", "period": "total", "limit": 10}],
    )
    buy(shop, member, 10, "confirmed")
    _, second = shop.track(order_update(member, "o-1", "returned"), order(member, 10))
    assert second["effects"][0]["status"] == "executed"
    assert shop.balance(member) == 10


def test_remaining_points_are_rounded_down_to_the_decimals_of_the_account(shop, member):
    cents = shop.account(decimals=2)
    shop.campaign(
        running(mint(("=", "order.total"), ledgerAccountKey=cents["ledgerAccountKey"])),
        eventType=ORDER_CREATED,
        limitRules=[{"scope": "member", "type": "points", "period": "total", "limit": 1000}],
    )
    buy(shop, member, 10, "confirmed")
    return_part(shop, member, "3.333")
    # 10 - 3.333 is 6.667.
    assert shop.balance(member, cents["ledgerAccountId"]) == Decimal("6.66")
    assert limit_usage(shop) == {"points": Decimal("6.66")}


CUPS = [{"productCode": "cup", "total": 60, "quantity": 4}, {"productCode": "jug", "total": 40, "quantity": 1}]


@pytest.mark.parametrize(
    "items",
    [
        [{"productCode": "vase", "quantity": 1}],
        [{"productCode": "vase", "total": 1}],
        [{"total": 1}],
        [{"productCode": "cup", "quantity": 40}],
        [{"productCode": "cup", "total": 500}],
        [{"productCode": "cup", "quantity": 3}, {"productCode": "cup", "quantity": 2}],
        [{"productCode": "cup", "quantity": 1, "total": 61}],
        [{"productCode": "jug"}, {"productCode": "jug"}],
    ],
)
def test_a_return_of_more_than_the_order_has_is_refused(shop, member, points, items):
    buy(shop, member, 100, "confirmed", items=CUPS)
    excessive_return = order_update(member, "o-1", "partially-returned", items=items)
    assert shop.expect_refusal(excessive_return) == "/problems/return-exceeds-order"
    assert shop.balance(member) == 100
    assert [row.status for row in shop.rows("purchase_orders")] == ["confirmed"]
    assert {row.returned_total for row in shop.rows("order_items")} == {0}


def test_returns_of_one_item_add_up_to_its_quantity(shop, member, points):
    buy(shop, member, 100, "confirmed", items=CUPS)

    def item_return(**item):
        return order_update(member, "o-1", "partially-returned", items=[item])

    # Three of four cups, which cost 60.
    shop.track_one(item_return(productCode="cup", quantity=3))
    assert shop.balance(member) == 55
    assert shop.expect_refusal(item_return(productCode="cup", quantity=2)) == "/problems/return-exceeds-order"
    shop.track_one(item_return(productCode="cup", quantity=1))
    assert shop.expect_refusal(item_return(productCode="cup", total=1)) == "/problems/return-exceeds-order"
    assert shop.balance(member) == 40
    result = shop.track_one(item_return(productCode="jug"))
    assert [t["revertedAmount"] for reversal in result["reverted"] for t in reversal["ledgerTransactions"]] == [40]
    assert (shop.balance(member), limit_usage(shop)) == (0, {"points": 0, "transactions": 0})
    assert [(row.status, row.returned_total) for row in shop.rows("purchase_orders")] == [("returned", 100)]


def test_a_return_can_have_a_total_instead_of_items(shop, member, points):
    buy(shop, member, 60, "confirmed")
    shop.track_one(order(member, 15, status="partially-returned", external_id="o-1"))
    assert shop.balance(member) == 45
    assert (
        shop.expect_refusal(order(member, 500, status="partially-returned", external_id="o-1"))
        == "/problems/return-exceeds-order"
    )
    shop.track_one(order(member, 45, status="partially-returned", external_id="o-1"))
    assert shop.balance(member) == 0
    assert [row.status for row in shop.rows("purchase_orders")] == ["returned"]


@pytest.mark.parametrize("in_one_batch", [True, False])
def test_points_of_the_confirmation_are_reverted_in_the_same_proportion(shop, member, points, in_one_batch):
    shop.campaign(running(mint(30)), eventType="member-purchase-order-confirmed")
    events = [
        order(member, 60, external_id="o-1"),
        order_update(member, "o-1", "confirmed"),
        order(member, 20, status="partially-returned", external_id="o-1"),
        order_update(member, "o-1", "returned"),
    ]
    if in_one_batch:
        *_, part, whole = shop.track(*events)
        assert shop.balance(member) == 0
    else:
        *_, part = (shop.track_one(event) for event in events[:-1])
        assert shop.balance(member) == 60
        whole = shop.track_one(events[-1])
    amounts = [
        sorted(t["revertedAmount"] for reversal in result["reverted"] for t in reversal["ledgerTransactions"])
        for result in (part, whole)
    ]
    # A third of the 30 and of the 60 points, and the rest.
    assert amounts == [[10, 20], [20, 40]]
    assert shop.balance(member) == 0


def test_reverting_a_burn_gives_back_no_points_of_a_returned_order(shop, member, points):
    for number in range(3):
        buy(shop, member, 50, "confirmed", external_id=f"o-{number}")
        burn = shop.take(member, 50)
        shop.track_one(order(member, 20, status="partially-returned", external_id=f"o-{number}"))
        shop.track_one(order_update(member, f"o-{number}", "returned"))
        path = f"/ledgers/{shop.organization.created.ledger_id}/accounts/{burn['ledgerAccountId']}/transactions"
        shop.administration.post(f"{path}/{burn['ledgerTransactionId']}/revert", {}, expect=200)
        assert shop.balance(member) == 0
