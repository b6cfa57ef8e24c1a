"""Points that wait for an event which confirms them, at the moments of a test clock."""

from __future__ import annotations

import pytest

from tests.builders import queue
from tests.builders.campaigns import mint as mint_effect
from tests.builders.points import Points
from tests.builders.tracking import ORDER_CREATED, Shop, event, order, order_update, running

CONFIRMED = "member-purchase-order-confirmed"
# AVAILABLE_AT is 14 days after the confirmation. CANCELLED_AT is 60 days after the start of the clock, in Madrid.
CONFIRMED_AT, AVAILABLE_AT, CANCELLED_AT = "2026-03-05T11:00:00Z", "2026-03-19T11:00:00Z", "2026-04-30T08:00:00Z"
ON_CONFIRMED = {"eventTypes": [CONFIRMED], "cancelAfter": "P60D"}


@pytest.fixture
def shop(clock):
    return Shop(clock.organization)


@pytest.fixture
def points(clock):
    """The default account."""
    return Points.default(clock.organization)


def mint(shop, member, amount, *, expect=200, **more):
    """Mint points for a member; return the transaction, or the problem if `expect` is not 200."""
    response = shop.administration.post(
        f"/members/by-loyalty-member-id/{member}/mint", {"amount": amount, **more}, expect=expect
    )
    return response["ledgerTransactions"][0] if expect == 200 else response


def balance_and_pending(shop, member):
    """(balance, pending points) of a member."""
    [balance] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerBalances"]
    return balance["balance"], balance["pending"]


def payloads(shop, event_type):
    """The payloads of the stored events of a type, which is `points-available` or `points-cancelled`."""
    key = {"points-available": "availableAt", "points-cancelled": "cancelledAt"}[event_type]
    all_payloads = [row[0] or {} for row in shop.rows("events", "payload", order="loyalty_event_id")]
    return [payload for payload in all_payloads if key in payload]


def confirm(shop, member, external_id, **more):
    """Confirm an order of the member; return the result of the event."""
    [result] = shop.track(order_update(member, external_id, "confirmed", **more))
    assert result["status"] == "success", result
    return result


def test_an_organization_awaits_events_as_soon_as_points_wait_for_one(shop):
    def awaits_events():
        [(awaits_events,)] = shop.rows("organizations", "awaits_events")
        return awaits_events

    member = shop.member()
    mint(shop, member, 10, availableAfter="P14D")
    assert awaits_events() is False
    mint(shop, member, 10, availableOn={"eventTypes": [CONFIRMED]})
    assert awaits_events() is True


class TestOrders:
    """100.00 bought on 1 March at 10:00 in Madrid gives 100 points, once the order is confirmed."""

    @pytest.fixture
    def action(self, shop):
        """The points are available 14 days after the confirmation, and cancelled after 60 days without one."""
        terms = {"availableOn": ON_CONFIRMED, "availableAfter": "P14D"}
        return shop.campaign(running(mint_effect(("=", "floor(order.total)"), **terms)), eventType=ORDER_CREATED)

    def buy(self, shop, member, external_id):
        """Create an order of 100.00, which gives points; return the effect that gave them."""
        [result] = shop.track(order(member, total=100, external_id=external_id))
        [effect] = result["effects"]
        assert effect["status"] == "executed", effect
        return effect

    def test_points_become_available_14_days_after_the_confirmation(self, clock, shop, points, action):
        member = shop.member()
        assert self.buy(shop, member, "order-1")["availableAt"] is None
        # Status 0 is pending.
        [unconfirmed_row] = points.rows()
        fields = {"status": 0, "availability": "waiting", "availableAt": None, "availableOn": ON_CONFIRMED}
        assert {name: unconfirmed_row[name] for name in fields} == fields
        wallet = unconfirmed_row["toWalletId"]
        assert points.wallet_of(wallet, include="lots")["lots"]["waiting"] == [{"availableAt": None, "amount": 100}]
        clock.advance(CONFIRMED_AT)
        assert balance_and_pending(shop, member) == (0, 100)
        confirm(shop, member, "order-1")
        [confirmed_row] = points.rows()
        fields = {"status": 0, "availability": "waiting", "availableAt": AVAILABLE_AT}
        assert {name: confirmed_row[name] for name in fields} == fields
        assert "availableOn" not in confirmed_row
        assert points.wallet_of(wallet, include="lots")["lots"]["waiting"] == [
            {"availableAt": AVAILABLE_AT, "amount": 100}
        ]
        clock.advance("2026-03-19T10:59:59Z")
        assert balance_and_pending(shop, member) == (0, 100)
        clock.advance(AVAILABLE_AT)
        assert balance_and_pending(shop, member) == (100, 0)
        clock.advance("2026-05-01T00:00:00Z")
        assert balance_and_pending(shop, member) == (100, 0)
        [payload] = payloads(shop, "points-available")
        assert (payload["amount"], payload["availableAt"]) == (100, AVAILABLE_AT)
        assert payload["orderExternalIds"] == ["order-1"]
        assert payloads(shop, "points-cancelled") == []
        assert points.verify() == []

    def test_the_first_order_of_the_organization_is_confirmed_in_the_batch_that_creates_it(self, clock, shop, action):
        member = shop.member()
        results = shop.track(
            order(member, total=100, external_id="order-1"),
            order_update(member, "order-1", "confirmed"),
        )
        assert [result["status"] for result in results] == ["success", "success"]
        assert balance_and_pending(shop, member) == (0, 100)
        # The clock started on 1 March.
        clock.advance("2026-03-15T09:00:00Z")
        assert balance_and_pending(shop, member) == (100, 0)

    def test_points_are_cancelled_if_no_event_confirms_them(self, clock, shop, points, action):
        member = shop.member()
        self.buy(shop, member, "order-1")
        clock.advance("2026-04-30T07:59:59Z")
        assert balance_and_pending(shop, member) == (0, 100)
        clock.advance(CANCELLED_AT)
        assert balance_and_pending(shop, member) == (0, 0)
        revert, mint_transaction = points.rows()
        assert (revert["description"], revert["externalEventDate"]) == ("not-confirmed", CANCELLED_AT)
        # Status 2 is reverted.
        assert (mint_transaction["status"], mint_transaction["reversalLedgerTransactionId"]) == (
            2,
            revert["ledgerTransactionId"],
        )
        assert payloads(shop, "points-cancelled") == [
            {
                "ledgerAccountKey": points.account["ledgerAccountKey"],
                "amount": 100,
                "cancelledAt": CANCELLED_AT,
                "reason": "not-confirmed",
                "orderExternalIds": ["order-1"],
                "lots": [{"ledgerTransactionId": mint_transaction["ledgerTransactionId"], "amount": 100}],
            }
        ]
        clock.advance("2026-05-02T00:00:00Z")
        confirm(shop, member, "order-1")
        assert balance_and_pending(shop, member) == (0, 0)
        assert points.verify() == []

    def test_points_are_confirmed_only_by_the_order_that_gave_them(self, clock, shop, points, action):
        member = shop.member()
        self.buy(shop, member, "order-1")
        self.buy(shop, member, "order-2")
        clock.advance(CONFIRMED_AT)
        confirm(shop, member, "order-2")
        clock.advance(AVAILABLE_AT)
        # The points of order-2 are available. The points of order-1 still wait.
        assert balance_and_pending(shop, member) == (100, 100)

    def test_one_call_can_create_and_confirm_an_order(self, clock, shop, points, action):
        member = shop.member()
        creation = order(member, total=100, external_id="order-1")
        results = shop.track(creation, order_update(member, "order-1", "confirmed"))
        assert [result["status"] for result in results] == ["success"] * 2
        assert balance_and_pending(shop, member) == (0, 100)
        clock.advance("2026-03-15T09:00:00Z")
        assert balance_and_pending(shop, member) == (100, 0)
        assert points.verify() == []

    @pytest.mark.parametrize("is_queued", [False, True])
    def test_an_order_is_confirmed_after_another_order_of_the_batch_was_cancelled(self, shop, points, is_queued):
        terms = mint_effect(10, availableOn=ON_CONFIRMED)
        shop.campaign(running(terms), eventType=ORDER_CREATED)
        ana, ben = shop.member(), shop.member()
        events = [
            order(ana, 100, external_id="o-1"),
            order(ben, 100, external_id="o-2"),
            order_update(ben, "o-2", "cancelled"),
            order_update(ana, "o-1", "confirmed"),
        ]
        if is_queued:
            queue.send(shop, *events)
            queue.drain(shop)
        else:
            shop.track(*events)
        assert balance_and_pending(shop, ana) == (10, 0)
        assert balance_and_pending(shop, ben) == (0, 0)
        assert points.verify() == []

    def test_the_wait_after_a_late_confirmation_begins_at_its_date(self, clock, shop, points, action):
        member = shop.member()
        self.buy(shop, member, "order-1")
        clock.advance("2026-04-10T09:00:00Z")
        confirm(shop, member, "order-1", externalEventDate="2026-03-28T12:00:00+01:00")
        assert balance_and_pending(shop, member) == (0, 100)
        # 12:00 in Madrid 14 days later, where the clocks have gone forward on 29 March.
        clock.advance("2026-04-11T10:00:00Z")
        assert balance_and_pending(shop, member) == (100, 0)

    def test_points_are_available_at_once_if_their_time_since_a_late_confirmation_has_passed(
        self, clock, shop, points, action
    ):
        member = shop.member()
        self.buy(shop, member, "order-1")
        clock.advance("2026-04-10T09:00:00Z")
        confirm(shop, member, "order-1", externalEventDate=CONFIRMED_AT)
        assert balance_and_pending(shop, member) == (100, 0)
        [payload] = payloads(shop, "points-available")
        assert (payload["availableAt"], payload["orderExternalIds"]) == ("2026-04-10T09:00:00Z", ["order-1"])
        assert points.verify() == []

    def test_waiting_points_of_a_returned_order_are_reverted(self, clock, shop, points, action):
        member = shop.member()
        self.buy(shop, member, "order-1")
        shop.track(
            order_update(member, "order-1", "confirmed"),
            order_update(member, "order-1", "returned"),
        )
        assert balance_and_pending(shop, member) == (0, 0)
        clock.advance(CANCELLED_AT)
        assert (balance_and_pending(shop, member), payloads(shop, "points-cancelled")) == ((0, 0), [])
        assert points.verify() == []

    def test_waiting_points_of_a_cancelled_order_are_reverted(self, clock, shop, points, action):
        member = shop.member()
        self.buy(shop, member, "order-1")
        shop.track(order_update(member, "order-1", "cancelled"))
        assert balance_and_pending(shop, member) == (0, 0)
        clock.advance(CANCELLED_AT)
        assert (balance_and_pending(shop, member), payloads(shop, "points-cancelled")) == ((0, 0), [])
        assert points.verify() == []

    @pytest.mark.parametrize("undone_by", ["cancelEvent", "cancelled", "returned"])
    def test_a_late_order_whose_points_were_cancelled_at_once_can_be_undone(self, shop, points, action, undone_by):
        member = shop.member()
        # The 60 days in which an event could confirm the points have passed.
        [result] = shop.track(order(member, total=100, external_id="order-1", externalEventDate="2025-12-01T09:00:00Z"))
        if undone_by == "cancelEvent":
            shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        else:
            if undone_by == "returned":
                confirm(shop, member, "order-1")
            [undo_result] = shop.track(order_update(member, "order-1", undone_by))
            assert undo_result["status"] == "success"
        assert balance_and_pending(shop, member) == (0, 0)
        [payload] = payloads(shop, "points-cancelled")
        assert payload["amount"] == 100
        # Status 2 is reverted.
        assert [row["status"] for row in points.rows() if row["transactionType"] == "mint"] == [2]
        assert points.verify() == []

    def test_a_dry_run_counts_the_confirmed_points_in_balances_and_writes_nothing(self, clock, shop, points):
        effect = mint_effect(("=", "floor(order.total)"), availableOn=ON_CONFIRMED)
        shop.campaign(running(effect), eventType=ORDER_CREATED)
        shop.campaign(running(mint_effect(("=", "balances['points'] + 1.0"))), eventType=CONFIRMED)
        member = shop.member()
        self.buy(shop, member, "order-1")
        [result] = shop.track(order_update(member, "order-1", "confirmed"), executionMode="dryRun")
        # The 100 points become available before the effects of the event, so the rule adds 1 to a balance of 100.
        [minted_amount] = [param["value"] for param in result["effects"][0]["params"] if param["id"] == "amount"]
        assert minted_amount == 100 + 1
        assert balance_and_pending(shop, member) == (0, 100)
        assert len(points.rows()) == 1

    def test_points_of_a_sponsor_wait_until_the_order_of_the_sponsored_member_is_confirmed(self, clock, shop, points):
        effect = mint_effect(50, recipient="sponsor", availableOn=ON_CONFIRMED)
        shop.campaign(running(effect), eventType=ORDER_CREATED)
        member, sponsor = shop.member(), shop.member()
        shop.track({**order(member, total=100, external_id="order-1"), "sponsorLoyaltyMemberId": sponsor})
        shop.track(order(sponsor, total=100, external_id="order-2"))
        # The sponsor's own order releases nothing.
        confirm(shop, sponsor, "order-2")
        assert balance_and_pending(shop, sponsor) == (0, 50)
        confirm(shop, member, "order-1")
        assert (balance_and_pending(shop, member), balance_and_pending(shop, sponsor)) == ((0, 0), (50, 0))
        assert points.verify() == []

    def test_mission_rewards_wait_for_the_order_as_the_default_of_their_account_says(self, clock, shop, points):
        reward_account = Points.new(clock.organization, defaultAvailability={"availableOn": ON_CONFIRMED})
        mission = {
            "name": "One order",
            "eventType": ORDER_CREATED,
            "goalCount": 1,
            "maxRepetitions": 10,
            "pointsAccrual": 25,
            "ledgerAccountId": reward_account.account_id,
        }
        shop.administration.post("/missions", mission, expect=201)
        member = shop.member()
        shop.track(order(member, total=100, external_id="order-1"), order(member, total=100, external_id="order-2"))
        confirm(shop, member, "order-2")
        wallet = reward_account.rows()[0]["toWalletId"]
        record = reward_account.wallet_of(wallet)
        # 25 for order-2, which is confirmed, and 25 for order-1, which is not.
        assert (record["currentBalance"], record["pending"]) == (25, 25)
        [payload] = payloads(shop, "points-available")
        assert payload["orderExternalIds"] == ["order-2"]
        assert reward_account.verify() == []


class TestMembers:
    def test_points_without_an_order_wait_for_an_event_of_the_member(self, clock, shop, points):
        member, another_member = shop.member(), shop.member()
        mint_transaction = mint(shop, member, 30, availableOn={"eventTypes": ["member-generic-event"]})
        shop.track(event(another_member))
        assert balance_and_pending(shop, member) == (0, 30)
        shop.track(event(member))
        assert balance_and_pending(shop, member) == (30, 0)
        [payload] = payloads(shop, "points-available")
        [lot] = payload["lots"]
        assert (lot["ledgerTransactionId"], payload["orderExternalIds"]) == (
            int(mint_transaction["ledgerTransactionId"]),
            [],
        )
        assert points.verify() == []

    def test_the_event_that_gives_points_does_not_confirm_them(self, clock, shop, points):
        effect = mint_effect(10, availableOn={"eventTypes": ["member-generic-event"]})
        shop.campaign(running(effect), eventType="member-generic-event")
        member = shop.member()
        shop.track(event(member))
        assert balance_and_pending(shop, member) == (0, 10)
        shop.track(event(member), event(member))
        # Each event confirms the 10 points of the event before it, and gives 10 that wait.
        assert balance_and_pending(shop, member) == (20, 10)
        lots = [lot for payload in payloads(shop, "points-available") for lot in payload["lots"]]
        # Status 1 is settled.
        settled_mints = [row["ledgerTransactionId"] for row in points.rows() if row["status"] == 1]
        assert sorted(lot["ledgerTransactionId"] for lot in lots) == sorted(settled_mints)
        assert points.verify() == []

    def test_a_repeated_request_returns_the_first_mint_and_a_changed_one_is_refused(self, clock, shop, points):
        member = shop.member()
        mint_transaction = mint(shop, member, 30, availableOn=ON_CONFIRMED, systemUniqueKey="once")
        assert mint(shop, member, 30, availableOn=ON_CONFIRMED, systemUniqueKey="once") == mint_transaction
        # Instead of P60D.
        changed_terms = {**ON_CONFIRMED, "cancelAfter": "P61D"}
        problem = mint(shop, member, 30, expect=409, availableOn=changed_terms, systemUniqueKey="once")
        assert problem["type"] == "/problems/key-reused"
        assert balance_and_pending(shop, member) == (0, 30)

    def test_rounding_to_days_waits_for_the_midnight_after_the_event(self, clock, shop, points):
        member = shop.member()
        terms = {"availableOn": {"eventTypes": ["member-generic-event"]}, "availableRounding": "day"}
        mint(shop, member, 30, **terms)
        shop.track(event(member))
        assert balance_and_pending(shop, member) == (0, 30)
        # Midnight in Madrid after the event, which was on 1 March at 10:00.
        clock.advance("2026-03-01T23:00:00Z")
        assert balance_and_pending(shop, member) == (30, 0)

    def test_a_mint_without_terms_waits_for_the_event_that_the_account_names(self, clock, shop):
        awaited_event = {"eventTypes": ["member-generic-event"], "cancelAfter": "P1D"}
        account = Points.new(clock.organization, defaultAvailability={"availableOn": awaited_event})
        assert account.account["defaultAvailability"]["availableOn"] == awaited_event
        wallet = account.wallet()
        account.mint(wallet, 10)
        # No event confirms the points within the day, so they are cancelled.
        clock.advance("2026-03-02T09:00:00Z")
        record = account.wallet_of(wallet)
        assert (record["currentBalance"], record["pending"], record["pendingCreditBalance"]) == (0, 0, 0)
        assert account.verify() == []

    def test_points_that_wait_for_an_event_are_released_early(self, clock, shop, points):
        member = shop.member()
        mint_transaction = mint(shop, member, 30, availableOn=ON_CONFIRMED)
        points.release(mint_transaction["ledgerTransactionId"])
        assert balance_and_pending(shop, member) == (30, 0)
        clock.advance(CANCELLED_AT)
        assert (balance_and_pending(shop, member), payloads(shop, "points-cancelled")) == ((30, 0), [])
        assert points.verify() == []

    @pytest.mark.parametrize(
        ("terms", "pointer"),
        [
            pytest.param(
                {"availableOn": ON_CONFIRMED, "availableAt": AVAILABLE_AT}, "/availableOn", id="event and moment"
            ),
            pytest.param({"availableOn": {"eventTypes": []}}, "/availableOn/eventTypes", id="no event"),
            pytest.param(
                {"availableOn": {"eventTypes": ["points-available"]}}, "/availableOn", id="event of the server"
            ),
            pytest.param(
                {"availableOn": {"eventTypes": [CONFIRMED], "cancelAfter": "P3Y"}}, "/availableOn", id="period too long"
            ),
        ],
    )
    def test_terms_that_can_never_be_met_are_refused(self, shop, terms, pointer):
        problem = mint(shop, shop.member(), 1, expect=400, **terms)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]

    def test_an_unknown_type_of_event_is_refused(self, shop):
        problem = mint(shop, shop.member(), 1, expect=404, availableOn={"eventTypes": ["sunrise"]})
        assert problem["type"] == "/problems/unknown-event-type"
