"""Points that wait until they are available, at the moments of a test clock."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint as mint_effect
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import ORDER_CREATED, Shop, order, order_update, running

# The clock starts at START, 10:00 in Madrid. AVAILABLE_AT is 14 days later.
START = "2026-03-01T09:00:00Z"
AVAILABLE_AT = "2026-03-15T09:00:00Z"
A_SECOND_BEFORE_AVAILABLE = "2026-03-15T08:59:59Z"
# The reason of events about points that became available at their moment.
BY_TIME = "Points became available."


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


def burn(shop, member, amount, *, expect=200):
    """Burn points of a member; return the response, which is a problem if `expect` is not 200."""
    return shop.administration.post(f"/members/by-loyalty-member-id/{member}/burn", {"amount": amount}, expect=expect)


def track(shop, *events):
    """Track events, which must succeed; return their results."""
    results = shop.integration.post("/events/track", {"events": list(events)}, expect=200)["results"]
    assert [result["status"] for result in results] == ["success"] * len(events), results
    return results


def partial_return(member, total):
    """The event that returns items of this total of order-1."""
    return order_update(member, "order-1", "partially-returned", items=[{"total": total}])


def events_of(shop, member, event_type):
    return shop.integration.get(f"/members/{member}/events", eventType=event_type)["results"]


def timeline(shop, member):
    """The rows of the member's timeline about points, newest first."""
    return shop.integration.get(f"/members/{member}/timeline", kinds="points")["results"]


def balance_pending_and_next(shop, member):
    """(balance, pending points, (amount, moment) of the pending points that are available next or None)."""
    [balance] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerBalances"]
    next_points = balance.get("nextAvailable")
    amount_and_moment = next_points and (next_points["amount"], next_points["availableAt"])
    return balance["balance"], balance["pending"], amount_and_moment


class TestWaiting:
    def test_points_are_available_from_their_moment(self, clock, shop, points):
        member = shop.member()
        mint(shop, member, 100, availableAfter="P14D")
        assert balance_pending_and_next(shop, member) == (0, 100, (100, AVAILABLE_AT))
        clock.advance(A_SECOND_BEFORE_AVAILABLE)
        assert balance_pending_and_next(shop, member) == (0, 100, (100, AVAILABLE_AT))
        assert clock.advance(AVAILABLE_AT)["steps"] == 1
        assert balance_pending_and_next(shop, member) == (100, 0, None)
        assert points.verify() == []

    def test_rounding_to_days_waits_for_the_midnight_in_the_zone_of_the_account(self, shop):
        member = shop.member()
        mint(shop, member, 100, availableAfter="P14D", availableRounding="day")
        # 14 days later it is 10:00 in Madrid, and the next midnight there is 23:00 UTC.
        assert balance_pending_and_next(shop, member) == (0, 100, (100, "2026-03-15T23:00:00Z"))

    @pytest.mark.parametrize(
        ("available_after", "available_at"),
        [
            pytest.param("P14D", "2026-04-03T08:00:00Z", id="days"),
            pytest.param(f"PT{14 * 24}H", "2026-04-03T09:00:00Z", id="hours"),
        ],
    )
    def test_a_period_in_days_follows_the_calendar_and_one_in_hours_does_not(
        self, clock, shop, available_after, available_at
    ):
        # In Madrid the clocks go forward on 29 March.
        clock.advance("2026-03-20T09:00:00Z")
        member = shop.member()
        mint(shop, member, 100, availableAfter=available_after)
        assert balance_pending_and_next(shop, member) == (0, 100, (100, available_at))

    def test_months_of_expiry_begin_when_points_are_available(self, clock):
        yearly_points = Points.new(clock.organization, expiresInMonths=12, pointTrackingEnabled=True)
        wallet = yearly_points.wallet()
        yearly_points.mint(wallet, 100, availableAfter="P14D")
        clock.advance("2026-04-01T09:00:00Z")
        [lot] = yearly_points.wallet_of(wallet, include="lots")["lots"]["expiring"]
        # 12 months after AVAILABLE_AT.
        assert (lot["available"], lot["expiresAt"]) == (100, "2027-03-15T09:00:00Z")
        clock.advance("2027-03-15T09:00:00Z")
        assert yearly_points.balance(wallet) == 0

    def test_a_refused_burn_reports_the_pending_points(self, shop):
        member = shop.member()
        mint(shop, member, 50)
        mint(shop, member, 100, availableAfter="P14D")
        problem = burn(shop, member, 60, expect=409)
        assert problem["type"] == "/problems/insufficient-balance"
        assert (
            problem["detail"] == "The amount 60 is more than the available balance of 50;"
            " 100 more are available from 2026-03-15T09:00:00Z."
        )

    def test_points_of_a_late_event_are_available_at_once_if_their_time_has_passed(self, shop):
        member = shop.member()
        # 14 days after the event is 15 February, and the clock shows 1 March.
        mint(shop, member, 100, availableAfter="P14D", externalEventDate="2026-02-01T12:00:00Z")
        assert balance_pending_and_next(shop, member) == (100, 0, None)

    def test_mints_without_terms_wait_by_the_terms_of_the_account(self, clock):
        points = Points.new(clock.organization, defaultAvailability={"availableAfter": "P1D"})
        terms = {"availableAt": None, "availableAfter": "P1D", "availableRounding": "none"}
        assert points.account["defaultAvailability"] == terms
        wallet = points.wallet()
        points.mint(wallet, 10)
        # START is now, so these points do not wait.
        points.mint(wallet, 5, availableAt=START)
        record = points.wallet_of(wallet, include="lots")
        assert (record["currentBalance"], record["pending"], record["pendingCreditBalance"]) == (5, 10, 10)
        assert record["lots"]["waiting"] == [{"amount": 10, "availableAt": "2026-03-02T09:00:00Z"}]

    def test_a_listed_transaction_shows_whether_its_points_wait(self, clock, points):
        # Status 0 is pending, 1 settled.
        [waiting_row] = points.move(source=None, target=points.wallet(), amount=10, availableAfter="P1D")
        assert (waiting_row["status"], waiting_row["availability"], waiting_row["availableAt"]) == (
            0,
            "waiting",
            "2026-03-02T09:00:00Z",
        )
        clock.advance("2026-03-02T09:00:00Z")
        [settled_row] = points.rows()
        assert (settled_row["status"], settled_row["availability"], settled_row["availableAt"]) == (
            1,
            "available",
            None,
        )

    def test_a_repeated_mint_returns_the_first_response_after_the_wait_has_ended(self, clock, points):
        wallet = points.wallet()
        request = {"source": None, "target": wallet, "amount": 10, "availableAfter": "P1D", "systemUniqueKey": "once"}
        first_response = points.move(**request)
        clock.advance("2026-03-02T09:00:00Z")
        assert points.move(**request) == first_response
        assert points.balance(wallet) == 10

    def test_pending_points_cannot_be_captured(self, points):
        mint_id = points.mint(points.wallet(), 10, availableAfter="P1D")
        # None captures the whole amount.
        assert points.capture((mint_id, None), expect=409)["type"] == "/problems/not-pending"

    def test_pending_points_are_released_early(self, clock, points):
        wallet = points.wallet()
        pending_mint_id = points.mint(wallet, 10, availableAfter="P1D")
        settled_mint_id = points.mint(wallet, 5)
        assert points.release(pending_mint_id, settled_mint_id, expect=409)["type"] == "/problems/not-pending"
        assert points.balance(wallet) == 5
        assert points.release(pending_mint_id) == {"ok": True}
        assert points.balance(wallet) == 5 + 10
        assert points.release(pending_mint_id, expect=409)["type"] == "/problems/not-pending"
        clock.advance("2026-03-03T09:00:00Z")
        assert points.balance(wallet) == 5 + 10
        assert points.verify() == []

    def test_a_reverted_pending_mint_never_becomes_available(self, clock, points):
        wallet = points.wallet()
        mint_id = points.mint(wallet, 10, availableAfter="P1D")
        points.revert(mint_id)
        clock.advance("2026-03-03T09:00:00Z")
        record = points.wallet_of(wallet)
        assert (record["currentBalance"], record["pending"], record["pendingCreditBalance"]) == (0, 0, 0)
        assert points.verify() == []

    def test_pending_points_count_towards_the_maximum_supply(self, clock):
        points = Points.new(clock.organization, maxSupply=100)
        wallet = points.wallet()
        mint_of_60 = points.mint(wallet, 60, availableAfter="P1D")
        problem = points.move(source=None, target=wallet, amount=41, expect=409)
        assert problem["type"] == "/problems/supply-exceeded"
        points.mint(wallet, 40)
        clock.advance("2026-03-02T09:00:00Z")
        assert points.balance(wallet) == 60 + 40
        assert points.verify() == []
        # After the revert, the supply is 40.
        points.revert(mint_of_60)
        points.mint(wallet, 60)

    def test_debt_is_repaid_when_points_are_available(self, clock):
        points = Points.new(clock.organization, overdraftLimit=100)
        wallet = points.wallet()
        points.burn(wallet, 30, allowOverdraft=True)
        points.mint(wallet, 100, availableAfter="P1D")
        record = points.wallet_of(wallet)
        assert (record["currentBalance"], record["currentOverdraftBalance"], record["pending"]) == (0, 30, 100)
        clock.advance("2026-03-02T09:00:00Z")
        record = points.wallet_of(wallet)
        assert (record["currentBalance"], record["currentOverdraftBalance"], record["pending"]) == (100 - 30, 0, 0)
        assert points.verify() == []

    @pytest.mark.parametrize(
        ("terms", "pointers"),
        [
            pytest.param(
                {"availableAt": AVAILABLE_AT, "availableAfter": "P1D"}, ["/availableAfter"], id="moment and period"
            ),
            pytest.param(
                {"availableAt": AVAILABLE_AT, "availableAfter": "P1D", "availableRounding": "day"},
                ["/availableAfter", "/availableRounding"],
                id="moment, period and rounding",
            ),
            pytest.param({"availableRounding": "day"}, ["/availableRounding"], id="rounding without a period"),
            pytest.param({"availableAfter": "P2Y1D"}, ["/availableAfter"], id="period too long"),
            pytest.param({"availableAfter": "P1X"}, ["/availableAfter"], id="not a period"),
            pytest.param(
                {"availableAfter": "P1D", "captureMethod": "manual"}, ["/availableAfter"], id="period and capture"
            ),
        ],
    )
    def test_contradictory_terms_of_a_mint_are_refused(self, points, terms, pointers):
        problem = points.move(source=None, target=points.wallet(), amount=10, expect=400, **terms)
        assert [fault["pointer"] for fault in problem["errors"]] == pointers

    def test_a_burn_with_terms_is_refused(self, points):
        problem = points.burn(points.wallet(), 10, expect=400, availableAfter="P1D")
        assert [fault["pointer"] for fault in problem["errors"]] == ["/availableAfter"]

    def test_points_do_not_expire_before_they_are_available(self, clock):
        points = Points.new(clock.organization, pointTrackingEnabled=True)
        wallet = points.wallet()
        item = {"fromWalletId": None, "toWalletId": wallet, "amount": 10, "ledgerAccountId": points.account_id}
        terms = {"expirationDate": AVAILABLE_AT, "availableAt": AVAILABLE_AT}
        batch = points.admin.post("/ledger-transactions/batch", {"items": [{**item, **terms}]}, expect=200)
        assert [failure["error"]["type"] for failure in batch["failed"]] == ["/problems/expires-before-available"]

    def test_a_timeline_has_a_row_for_each_wait_and_one_for_all_that_end_together(self, clock, shop, points):
        member, name = shop.member(), points.account["name"]
        id_of_70, id_of_30, id_to_release = (
            int(mint(shop, member, amount, availableAfter="P14D")["ledgerTransactionId"]) for amount in (70, 30, 5)
        )

        def lines(rows):
            """(moment, text, whether it has a requester) of each row."""
            return [(row["recordedAt"], row["text"], row["by"] is not None) for row in rows]

        assert lines(timeline(shop, member)) == [
            (START, f"{amount} {name} are pending by request; the balance was 0.", True) for amount in (5, 30, 70)
        ]
        clock.advance("2026-03-02T09:00:00Z")
        points.release(id_to_release)
        clock.advance(AVAILABLE_AT)
        rows = timeline(shop, member)
        assert lines(rows) == [
            (AVAILABLE_AT, f"100 {name} became available.", False),
            ("2026-03-02T09:00:00Z", f"5 {name} became available by request.", True),
            *((START, f"{amount} {name} were pending by request; the balance was 0.", True) for amount in (5, 30, 70)),
        ]
        [available_event] = [
            event for event in events_of(shop, member, "points-available") if event["createdAt"] == AVAILABLE_AT
        ]
        assert rows[0]["pointsRelease"] == {
            "loyaltyEventKey": available_event["loyaltyEventKey"],
            "ledgerAccountId": points.account_id,
            "ledgerAccountKey": points.account["ledgerAccountKey"],
            "ledgerTransactionIds": [id_of_70, id_of_30],
            "amount": 70 + 30,
        }

    def test_the_row_of_a_wait_shows_its_points_as_pending_until_its_end(self, clock, shop):
        member = shop.member()
        mint(shop, member, 70, availableAfter="P14D")

        def points_of_wait():
            """(amount, pending points, whether they are still pending) of the oldest row."""
            row = timeline(shop, member)[-1]["points"]
            return row["amount"], row["pending"], row["isPending"]

        assert points_of_wait() == (0, 70, True)
        clock.advance(AVAILABLE_AT)
        assert points_of_wait() == (0, 70, False)

    def test_the_event_about_available_points_has_the_reason_for_which_the_wait_ended(self, clock, shop, points):
        member = shop.member()
        mint(shop, member, 70, availableAfter="P14D")
        mint_to_release = mint(shop, member, 5, availableAfter="P14D")
        clock.advance("2026-03-02T09:00:00Z")
        points.release(mint_to_release["ledgerTransactionId"])
        clock.advance(AVAILABLE_AT)
        reasons = {event["createdAt"]: event["reason"] for event in events_of(shop, member, "points-available")}
        assert reasons == {"2026-03-02T09:00:00Z": "Points were moved by request.", AVAILABLE_AT: BY_TIME}


class TestOrders:
    """100.00 bought on 1 March at 10:00 in Madrid gives 100 points, available 14 days later."""

    @pytest.fixture
    def action(self, shop):
        """A point for each whole unit of an order, at most 100 in a month; the points wait for 14 days."""
        effect = mint_effect(("=", "floor(order.total)"), availableAfter="P14D")
        monthly = {"scope": "member", "type": "points", "period": "monthly", "limit": 100}
        limit_fields = {"limitRules": [monthly], "allowPartialApplicationOnLimit": True}
        return shop.campaign(running(effect), eventType=ORDER_CREATED, **limit_fields)

    def buy(self, shop, member):
        """Create order-1 of 100.00; return the result of the event."""
        [result] = track(shop, order(member, total=100, external_id="order-1"))
        return result

    def test_points_of_an_order_wait(self, clock, shop, points, action):
        member = shop.member()
        [effect] = self.buy(shop, member)["effects"]
        assert (effect["status"], effect["availableAt"]) == ("executed", AVAILABLE_AT)
        assert balance_pending_and_next(shop, member) == (0, 100, (100, AVAILABLE_AT))
        clock.advance(A_SECOND_BEFORE_AVAILABLE)
        assert balance_pending_and_next(shop, member) == (0, 100, (100, AVAILABLE_AT))
        clock.advance(AVAILABLE_AT)
        assert balance_pending_and_next(shop, member) == (100, 0, None)
        [available_event] = events_of(shop, member, "points-available")
        payloads = [row.payload or {} for row in shop.rows("events", "payload", order="loyalty_event_id")]
        [payload] = [payload for payload in payloads if "availableAt" in payload]
        [lot] = payload.pop("lots")
        assert payload == {
            "ledgerAccountKey": points.account["ledgerAccountKey"],
            "amount": 100,
            "availableAt": AVAILABLE_AT,
            "orderExternalIds": ["order-1"],
        }
        assert (lot["amount"], lot["expiresAt"], available_event["createdAt"]) == (100, None, AVAILABLE_AT)
        assert available_event["reason"] == BY_TIME

    def test_a_partial_return_reduces_the_pending_points(self, clock, shop, points, action):
        member = shop.member()
        self.buy(shop, member)
        clock.advance("2026-03-10T09:00:00Z")
        track(shop, order_update(member, "order-1", "confirmed"), partial_return(member, 40))
        # 100 for the order, less 40 for the returned items.
        assert balance_pending_and_next(shop, member) == (0, 60, (60, AVAILABLE_AT))
        clock.advance(AVAILABLE_AT)
        assert balance_pending_and_next(shop, member) == (60, 0, None)
        # 60 of the monthly limit of 100 are still used.
        [result] = track(shop, order(member, total=100))
        [minted_amount] = [param["value"] for param in result["effects"][0]["params"] if param["id"] == "amount"]
        assert minted_amount == 100 - 60
        assert points.verify() == []

    @pytest.mark.parametrize("undone_by", ["cancelled", "returned", "cancelEvent"])
    def test_no_points_remain_after_a_cancellation_or_a_full_return(self, clock, shop, points, action, undone_by):
        member = shop.member()
        event = self.buy(shop, member)
        clock.advance("2026-03-10T09:00:00Z")
        if undone_by == "returned":
            track(shop, order_update(member, "order-1", "confirmed"))
        if undone_by == "cancelEvent":
            shop.integration.post(f"/events/{event['loyaltyEventKey']}/cancel", {}, expect=200)
        else:
            track(shop, order_update(member, "order-1", undone_by))
        assert balance_pending_and_next(shop, member) == (0, 0, None)
        clock.advance("2026-03-16T09:00:00Z")
        assert balance_pending_and_next(shop, member) == (0, 0, None)
        assert points.verify() == []

    def test_the_return_of_an_order_claws_back_only_points_that_were_not_spent(self, clock, shop, action):
        member = shop.member()
        self.buy(shop, member)
        # The points have been available for a day.
        clock.advance("2026-03-16T09:00:00Z")
        burn(shop, member, 80)
        clock.advance("2026-03-20T09:00:00Z")
        [_, result] = track(
            shop, order_update(member, "order-1", "confirmed"), order_update(member, "order-1", "returned")
        )
        [clawback] = result["reverted"][0]["ledgerTransactions"]
        # The clawback is of 100, but only the 20 that were not spent are taken.
        assert (clawback["outcome"], clawback["amount"]) == ("clamped", 100), clawback
        assert balance_pending_and_next(shop, member) == (0, 0, None)

    def test_a_tier_is_reached_when_its_points_become_available(self, clock, shop):
        tiers = TierSchedule.new(shop, policy={"basis": "earned"}, Gold=1000)
        shop.campaign(running(mint_effect(("=", "floor(order.total)"), availableAfter="P14D")))
        member = shop.member()
        mint(shop, member, 950)
        # The order gives 100 points, which wait: with the 950 more than 1000, which is Gold.
        self.buy(shop, member)
        assert tiers.of(member) == "Basic"
        clock.advance("2026-03-20T09:00:00Z")
        assert tiers.of(member) == "Gold"
        [status] = shop.integration.get(f"/members/{member}")["loyaltyMember"]["tierStatus"]
        assert status["since"] == AVAILABLE_AT
        tier_events = events_of(shop, member, "member-tier-set")
        assert [(move["createdAt"], move["reason"]) for move in tier_events] == [(AVAILABLE_AT, BY_TIME)]

    def test_a_simulation_reports_when_points_are_available(self, shop, action):
        body = {"order": {"total": 37.60}}
        [account] = shop.integration.post("/simulations", body, expect=200)["simulation"]["earn"]["accounts"]
        assert (account["available"], account["pending"], account["availableAt"]) == (0, 37, AVAILABLE_AT)

    def test_contradictory_constants_of_an_effect_are_refused(self, shop):
        for terms in ({"availableAfter": "P3Y"}, {"availableAt": AVAILABLE_AT, "availableAfter": "P1D"}):
            campaign = shop.campaign()
            path = f"/campaigns/{campaign['campaignId']}/actions"
            problem = shop.administration.post(path, running(mint_effect(5, **terms)), expect=400)
            assert "availableAfter" in problem["errors"][0]["detail"]

    def test_a_computed_expiry_before_the_points_are_available_fails_the_effect(self, clock, shop):
        Points.new(clock.organization, pointTrackingEnabled=True, alias="tracked", isDefaultAccount=True)
        terms = {"availableAfter": "P14D", "expirationDate": ("=", "now + duration('1h')")}
        shop.campaign(running(mint_effect(5, **terms)))
        [effect] = self.buy(shop, shop.member())["effects"]
        assert (effect["status"], effect["error"]["type"]) == ("failed", "/problems/expires-before-available")


def test_points_of_an_ended_year_give_its_tier_until_the_year_of_their_release_ends(api):
    """The member earns 950 and 50 points in December. The 50 are available in January and make 1000, which is Gold."""
    clock = Clock.new(api, starts_at="2025-12-20T09:00:00Z", timezone="UTC")
    shop = Shop(clock.organization)
    tiers = TierSchedule.new(shop, policy={"basis": "earned", "period": "calendar"}, Gold=1000)
    member, member_with_950 = shop.member(), shop.member()
    mint(shop, member, 950)
    mint(shop, member, 50, availableAfter="P14D")
    mint(shop, member_with_950, 950)
    clock.advance("2026-01-02T09:00:00Z")
    assert (tiers.of(member), tiers.of(member_with_950)) == ("Basic", "Basic")
    clock.advance("2026-01-03T09:00:00Z")
    assert (tiers.of(member), tiers.of(member_with_950)) == ("Gold", "Basic")
    clock.advance("2026-12-31T23:59:59Z")
    assert tiers.of(member) == "Gold"
    clock.advance("2027-01-01T00:00:00Z")
    assert tiers.of(member) == "Basic"
