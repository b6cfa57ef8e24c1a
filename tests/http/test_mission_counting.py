"""Missions: the events that count, the rewards, and what a cancellation reverts."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.exports import exported_lines
from tests.builders.missions import (
    MissionCount,
    achievement_events,
    advance,
    assign,
    body,
    counters,
    create,
    member_id_of,
    new_badge,
    progress_of,
    times_and_count,
)
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update, running

PAYMENT = "member-payment-confirmed"
LATTE = {"operator": "AND", "conditions": [{"field": "productCode", "operator": "equals", "value": "latte"}]}


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    """The loyaltyMemberId of a new member."""
    return shop.member()


class TestCounting:
    """Unless a test has another goal, a mission is achieved by three generic events."""

    def test_counting_begins_again_after_the_goal_is_reached(self, shop, ana):
        mission = create(shop, goalCount=3, pointsAccrual=50)
        counts = [counters(result) for result in shop.track(*(event(ana) for _ in range(5)))]
        assert counts == [
            [MissionCount(before=0, after=1, achieved=False, times=0)],
            [MissionCount(before=1, after=2, achieved=False, times=0)],
            [MissionCount(before=2, after=3, achieved=True, times=1)],
            [MissionCount(before=0, after=1, achieved=False, times=1)],
            [MissionCount(before=1, after=2, achieved=False, times=1)],
        ]
        assert shop.balance(ana) == 50
        progress = progress_of(shop, ana, mission["missionKey"])
        assert progress["lastCounterCountWhenAchieved"] == 3
        assert progress["lastAchievedAt"] is not None
        assert times_and_count(shop, ana, mission) == (1, 2)
        shop.check_ledger()

    def test_events_do_not_count_after_the_last_repetition(self, shop, ana):
        mission = create(shop, goalCount=2, maxRepetitions=2)
        counts = [counters(result) for result in shop.track(*(event(ana) for _ in range(6)))]
        assert counts[3] == [MissionCount(before=1, after=2, achieved=True, times=2)]
        assert counts[4:] == [[], []]
        assert times_and_count(shop, ana, mission) == (2, 2)

    @pytest.mark.parametrize(
        # Weeks begin on Monday; the periods are those of UTC. The first moment and the second are in one period.
        ("period", "moments", "achievements"),
        [
            ("daily", ["2026-03-01T23:59:59Z", "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"], [1, 0, 1]),
            ("weekly", ["2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"], [1, 0, 1]),
            ("monthly", ["2026-03-31T12:00:00Z", "2026-04-01T01:00:00+02:00", "2026-04-01T00:00:00Z"], [1, 0, 1]),
            ("yearly", ["2026-01-01T00:00:00Z", "2026-12-31T23:00:00Z", "2025-12-31T23:00:00Z"], [1, 0, 1]),
        ],
    )
    def test_the_limit_of_a_period_applies_to_the_dates_of_the_events(self, shop, ana, period, moments, achievements):
        create(shop, goalCount=1, repetitionPeriod=period, periodLimit=1)
        batch_results = shop.track(*(event(ana, externalEventDate=at) for at in moments))
        assert [len(result["missions"]) for result in batch_results] == achievements
        # All limits are reached now.
        single_results = [shop.track_one(event(ana, externalEventDate=at)) for at in moments]
        assert [result["missions"] for result in single_results] == [[], [], []]

    def test_events_that_do_not_match_are_not_counted(self, shop, ana):
        audience = shop.administration.post("/audiences", {"matcherType": "list-matcher"})["audience"]
        create(shop, eventType=ORDER_CREATED, minSpendValue=10, inlineMatcher=LATTE, audienceId=audience["audienceId"])
        latte, cake = [{"productCode": "latte"}], [{"productCode": "cake"}]
        # Not counted: a member outside the audience, too low a total, no latte, and no order.
        assert shop.track_one(order(ana, 10, items=latte))["missions"] == []
        change = {"add": [member_id_of(shop, ana)]}
        shop.administration.patch(f"/audiences/{audience['audienceId']}/members", change)
        assert shop.track_one(order(ana, 9, items=latte))["missions"] == []
        assert shop.track_one(order(ana, 10, items=cake))["missions"] == []
        assert shop.track_one(event(ana))["missions"] == []
        assert counters(shop.track_one(order(ana, 10, items=latte))) == [
            MissionCount(before=0, after=1, achieved=False, times=0)
        ]

    def test_products_of_a_payment_count_as_items(self, shop, ana):
        create(shop, eventType=PAYMENT, inlineMatcher=LATTE)

        def counts_of_payment(sku):
            """Track a payment for a product; return the counts of missions."""
            payment = {"paymentId": f"pay-{sku}", "total": 5, "products": [{"sku": sku}]}
            return counters(shop.track_one(event(ana, PAYMENT, payload={"payment": payment})))

        assert counts_of_payment("cake") == []
        assert counts_of_payment("latte") == [MissionCount(before=0, after=1, achieved=False, times=0)]

    def test_a_mission_counts_badges_that_are_assigned_by_requests(self, shop, ana):
        badge = new_badge(shop, maxAmount=10)
        # Upper and lower case of keys are equal.
        condition = {"badgeKey": badge.upper(), "operator": ">=", "value": 2}
        matcher = {"operator": "AND", "conditions": [condition]}
        mission = create(shop, eventType="badge-assigned", badgeMatcher=matcher, pointsAccrual=5, goalCount=2)
        # The first assignment gives one badge, and the mission counts from two on. (times achieved, count)
        for expected_progress in ((0, 0), (0, 1), (1, 2)):
            assign(shop, ana, badge)
            assert times_and_count(shop, ana, mission) == expected_progress
        assert shop.balance(ana) == 5

    def test_a_mission_can_count_achievements_of_another_mission(self, shop, ana):
        create(shop, goalCount=1)
        mission_of_achievements = create(shop, eventType="mission-status-updated", goalCount=3)
        shop.track(event(ana), event(ana))
        # Two achievements of the first mission; a third one would achieve the other mission.
        assert times_and_count(shop, ana, mission_of_achievements) == (0, 2)

    def test_a_dry_run_reports_the_progress_and_does_not_store_it(self, shop, ana):
        mission = create(shop, goalCount=2, pointsAccrual=10)
        events = [event(ana) for _ in range(3)]
        dry_results = shop.track(*events, executionMode="dryRun")
        assert times_and_count(shop, ana, mission) == (0, 0)
        assert shop.balance(ana) == 0
        results = shop.track(*events)
        assert [counters(result) for result in dry_results] == [counters(result) for result in results]
        # The second event achieves the mission.
        assert dry_results[1]["missions"][0]["rewards"][0]["status"] == "evaluated"
        assert results[1]["missions"][0]["rewards"][0]["status"] == "executed"

    @pytest.mark.parametrize("mode", ["captureOnly", "authorize"])
    def test_captured_and_authorized_events_do_not_count(self, shop, ana, mode):
        mission = create(shop, goalCount=1)
        [result] = shop.track(event(ana), executionMode=mode)
        assert (result["status"], result["missions"]) == ("success", [])
        assert times_and_count(shop, ana, mission) == (0, 0)

    def test_a_repeated_event_counts_once(self, shop, ana):
        mission = create(shop)
        loyalty_event = event(ana)
        assert shop.track(loyalty_event) == shop.track(loyalty_event)
        assert times_and_count(shop, ana, mission) == (0, 1)

    def test_rules_see_the_progress_after_the_event_was_counted(self, shop, ana):
        mission = create(shop, goalCount=2)
        key = mission["missionKey"]
        rule = f'missions["{key}"].currentCounterCount == 1 && missions["{key}"].timesAchieved == 1'
        shop.campaign(running(mint(7), rule=rule), eventType=GENERIC)
        # The second event achieves the mission with the count 2; the third one has the count 1.
        shop.track(event(ana), event(ana))
        assert shop.balance(ana) == 0
        shop.track(event(ana))
        assert shop.balance(ana) == 7

    def test_rules_see_the_progress_in_an_inactive_mission(self, shop, ana):
        mission = create(shop, active=False)
        rule = f'missions["{mission["missionKey"]}"].timesAchieved == 0'
        shop.campaign(running(mint(7), rule=rule), eventType=GENERIC)
        shop.track(event(ana))
        assert shop.balance(ana) == 7


class TestRewards:
    def test_points_of_a_reward_have_the_account_text_and_expiry_of_the_mission(self, shop, ana):
        account = shop.account(pointTrackingEnabled=True)
        create(
            shop,
            goalCount=1,
            pointsAccrual=25,
            ledgerAccountId=account["ledgerAccountId"],
            ledgerTransactionDescription="A reward",
            manualExpiration={"value": 2, "unit": "weeks"},
        )
        at = datetime.now(UTC).replace(microsecond=0)
        result = shop.track_one(event(ana, externalEventDate=at.isoformat()))
        [entry] = result["missions"]
        assert entry["rewards"] == [
            {
                "kind": "points",
                "status": "executed",
                "amount": 25,
                "ledgerAccountKey": account["ledgerAccountKey"],
                "badgeKey": None,
                "couponBookKey": None,
                "code": None,
            }
        ]
        assert shop.balance(ana, account["ledgerAccountId"]) == 25
        [transaction] = shop.rows("ledger_transactions", "description, loyalty_event_id")
        assert transaction.description == "A reward"
        stored_event = shop.integration.get(f"/events/{result['loyaltyEventKey']}")["event"]
        assert transaction.loyalty_event_id == stored_event["loyaltyEventId"]
        [lot] = shop.rows("ledger_lots", "expires_at")
        assert lot.expires_at == at + timedelta(weeks=2)

    def test_campaigns_of_the_event_see_the_badge_of_a_reward(self, shop, ana):
        badge = new_badge(shop)
        create(shop, goalCount=1, badgeKey=badge)
        shop.campaign(running(mint(3), rule=f'badges["{badge}"] == 1'), eventType=GENERIC)
        [entry] = shop.track_one(event(ana))["missions"]
        assert [(reward["kind"], reward["status"], reward["badgeKey"]) for reward in entry["rewards"]] == [
            ("badge", "executed", badge)
        ]
        assert shop.balance(ana) == 3
        badge_balance = shop.integration.get(f"/members/{ana}/badges/{badge}/balance")["balance"]
        assert badge_balance["assignedBalance"] == 1

    def test_the_coupon_of_a_reward_is_reverted_with_its_event(self, shop, ana):
        book = CouponBooks(shop.organization).make("ONE", maxAssignedPerMember=1)
        key = book["couponBookKey"]
        mission = create(shop, goalCount=1, couponBookKey=key)
        first_result, second_result = (shop.track_one(event(ana)) for _ in range(2))
        first_reward, second_reward = (result["missions"][0]["rewards"][0] for result in (first_result, second_result))
        assert (first_reward["kind"], first_reward["status"], first_reward["couponBookKey"]) == (
            "coupon",
            "executed",
            key,
        )
        # A member can have one coupon of the book.
        assert (second_reward["status"], second_reward["error"]["status"]) == ("failed", 409)
        assert times_and_count(shop, ana, mission) == (2, 1)
        [usage] = shop.rows("coupon_usages", "amount_assigned, loyalty_event_id IS NULL AS has_no_event")
        assert (usage.amount_assigned, usage.has_no_event) == (1, False)
        shop.integration.post(f"/events/{first_result['loyaltyEventKey']}/cancel", {}, expect=200)
        assert sum(row.amount_assigned for row in shop.rows("coupon_usages", "amount_assigned")) == 0
        assert times_and_count(shop, ana, mission) == (1, 1)

    def test_a_refused_reward_does_not_undo_the_achievement(self, shop, ana):
        badge, account = new_badge(shop, maxAmount=1), shop.account(maxSupply=10)
        mission = create(
            shop, goalCount=1, badgeKey=badge, pointsAccrual=10, ledgerAccountId=account["ledgerAccountId"]
        )
        # The first achievement uses the whole supply and the only badge.
        shop.track_one(event(ana))
        result = shop.track_one(event(ana))
        assert result["status"] == "success"
        [entry] = result["missions"]
        names = ("kind", "status", "amount", "requestedAmount")
        assert [(*(reward[name] for name in names), reward["error"]["type"]) for reward in entry["rewards"]] == [
            ("points", "failed", 0, 10, "/problems/supply-exceeded"),
            ("badge", "failed", 0, 1, "/problems/badge-limit"),
        ]
        assert times_and_count(shop, ana, mission) == (2, 1)
        assert shop.balance(ana, account["ledgerAccountId"]) == 10
        shop.check_ledger()

    @pytest.mark.parametrize("by_event", [True, False])
    def test_several_achievements_at_once_are_rewarded_up_to_the_limits_of_badge_and_book(self, shop, ana, by_event):
        badge, book = new_badge(shop, maxAmount=2), CouponBooks(shop.organization).make("ONE", maxAssignedPerMember=2)
        mission = create(
            shop,
            goalCount=2,
            pointsAccrual=10,
            badgeKey=badge,
            couponBookKey=book["couponBookKey"],
            countExpression="6",
        )
        # A count of 6 achieves the goal of 2 three times.
        if by_event:
            [entry] = shop.track_one(event(ana))["missions"]
            names = ("kind", "status", "amount")
            assert [tuple(reward[name] for name in names) for reward in entry["rewards"]] == [
                ("points", "executed", 3 * 10),
                ("badge", "partial", 2),
                ("coupon", "partial", 2),
            ]
            assert [(reward["requestedAmount"], reward["error"]["type"]) for reward in entry["rewards"][1:]] == [
                (3, "/problems/badge-limit"),
                (3, "/problems/coupon-quota"),
            ]
            assert entry["rewards"][2]["code"] == "ONE"
        else:
            assert advance(shop, ana, mission["missionId"], amount=6)["balance"]["timesAchieved"] == 3
        assert shop.balance(ana) == 30
        assert shop.integration.get(f"/members/{ana}/badges/{badge}/balance")["balance"]["assignedBalance"] == 2
        [usage] = shop.rows("coupon_usages", "amount_assigned", order="coupon_usage_id")
        assert usage.amount_assigned == 2
        # The badge and the book have reached their limits, so the next achievements are rewarded only with points.
        [entry] = shop.track_one(event(ana))["missions"]
        assert [(reward["status"], reward["amount"]) for reward in entry["rewards"]] == [
            ("executed", 30),
            ("failed", 0),
            ("failed", 0),
        ]

    @pytest.mark.parametrize(("limits", "points"), [({"maxCouponCount": 4}, 30), ({"assignmentRequiredPoints": 7}, 2)])
    def test_the_stock_and_the_price_of_a_book_limit_the_coupons_of_a_reward(self, shop, ana, limits, points):
        """Six times 5 points are paid first; 4 coupons for 7 points each cost 28 of the 30 points."""
        books = CouponBooks(shop.organization)
        [ledger] = shop.administration.get("/ledgers")["results"]
        account_key = shop.organization.defaults.ledger_account_key
        points_config = {"ledgerKey": ledger["ledgerKey"], "ledgerAccountKey": account_key}
        book = books.make(type="codeless", requiredPointsConfig=points_config, **limits)
        mission = create(shop, goalCount=1, pointsAccrual=5, couponBookKey=book["couponBookKey"])
        advance(shop, ana, mission["missionId"], amount=6)
        assert (books.get(book)["totalAssigned"], shop.balance(ana)) == (4, points)
        shop.check_ledger()

    def test_each_achievement_is_reported_and_evaluated(self, shop, ana):
        mission = create(shop, goalCount=2, pointsAccrual=10, code="pair", name="A pair")
        shop.campaign(
            running(mint(("=", "event.payload.mission.timesAchieved * 100"))), eventType="mission-status-updated"
        )
        shop.track(*(event(ana) for _ in range(4)))
        # Two rewards, and the mints of the campaign for the first and the second achievement.
        assert shop.balance(ana) == 2 * 10 + 100 + 200
        second_event, first_event = achievement_events(shop, ana)
        payloads = {row.loyalty_event_id: row.payload for row in shop.rows("events", "loyalty_event_id, payload")}
        payload = payloads[second_event["loyaltyEventId"]]["mission"]
        assert [reward["status"] for reward in payload.pop("rewards")] == ["executed"]
        assert payload == {
            "missionId": mission["missionId"],
            "missionKey": mission["missionKey"],
            "code": "pair",
            "name": "A pair",
            "goal": 2,
            "goalsAchieved": 1,
            "currentCounter": 1,
            "newCounter": 2,
            "achieved": True,
            "timesAchieved": 2,
        }
        assert first_event["loyaltyEventId"] < second_event["loyaltyEventId"]


class TestUndoing:
    def cancel(self, shop, result):
        """Cancel the event of a result; return the results of all cancelled events."""
        path = f"/events/{result['loyaltyEventKey']}/cancel"
        return shop.integration.post(path, {}, expect=200)["results"]

    def test_a_cancelled_achievement_is_reverted_with_its_rewards(self, shop, ana):
        badge = new_badge(shop)
        mission = create(shop, goalCount=2, pointsAccrual=10, badgeKey=badge)
        first_result, achieving_result = (shop.track_one(event(ana)) for _ in range(2))
        [outcome] = achieving_result["missions"]
        assert (outcome["code"], outcome["name"]) == (mission["code"], mission["name"])
        assert times_and_count(shop, ana, mission) == (1, 2)
        key = achieving_result["loyaltyEventKey"]
        [cancellation] = [result for result in self.cancel(shop, achieving_result) if result["loyaltyEventKey"] == key]
        assert cancellation["missions"] == [
            {
                "missionId": mission["missionId"],
                "missionKey": mission["missionKey"],
                "code": mission["code"],
                "name": mission["name"],
                "counted": 1,
                "goalsAchieved": 1,
                "currentCounter": 2,
                "newCounter": 1,
                "timesAchieved": 0,
            }
        ]
        assert shop.balance(ana) == 0
        assert shop.integration.get(f"/members/{ana}/badges/{badge}/balance")["balance"]["assignedBalance"] == 0
        progress = progress_of(shop, ana, mission["missionKey"])
        assert (progress["lastAchievedAt"], progress["lastCounterCountWhenAchieved"]) == (None, None)
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=1, after=2, achieved=True, times=1)]
        assert shop.balance(ana) == 10
        self.cancel(shop, first_result)
        # The achievement and its reward belong to the third event, which is not cancelled; the next event pays no
        # second reward.
        assert times_and_count(shop, ana, mission) == (1, 1)
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=1, after=2, achieved=False, times=1)]
        assert shop.balance(ana) == 10
        shop.check_ledger()

    def test_a_cancelled_achievement_restores_the_previous_one(self, shop, ana):
        mission = create(shop, goalCount=1)
        first_day, second_day = "2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z"
        shop.track_one(event(ana, externalEventDate=first_day))
        second_achievement = shop.track_one(event(ana, externalEventDate=second_day))
        assert progress_of(shop, ana, mission["missionKey"])["lastAchievedAt"] == second_day
        self.cancel(shop, second_achievement)
        progress = progress_of(shop, ana, mission["missionKey"])
        assert (progress["lastAchievedAt"], progress["lastCounterCountWhenAchieved"]) == (first_day, 1)

    def test_a_cancelled_achievement_no_longer_counts_for_the_limit_of_its_period(self, shop, ana):
        create(shop, goalCount=1, repetitionPeriod="yearly", periodLimit=1)
        achievement = shop.track_one(event(ana))
        assert shop.track_one(event(ana))["missions"] == []
        self.cancel(shop, achievement)
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=0, after=1, achieved=True, times=1)]

    @pytest.mark.parametrize("status", ["cancelled", "rejected"])
    def test_a_cancelled_or_rejected_order_is_no_longer_counted(self, shop, ana, status):
        mission = create(shop, eventType=ORDER_CREATED)
        shop.track_one(order(ana, 10, external_id="o1"))
        result = shop.track_one(order_update(ana, "o1", status))
        assert result["reverted"][0]["missions"][0]["newCounter"] == 0
        assert times_and_count(shop, ana, mission) == (0, 0)

    def test_an_order_returned_in_the_batch_that_creates_it_is_not_counted(self, shop, ana):
        mission = create(shop, eventType=ORDER_CREATED, goalCount=1, pointsAccrual=10)
        results = shop.track(
            order(ana, 10, external_id="o1"),
            order_update(ana, "o1", "confirmed"),
            order_update(ana, "o1", "returned"),
            order(ana, 10, external_id="o2"),
        )
        assert [counters(result) for result in results] == [
            [MissionCount(before=0, after=1, achieved=True, times=1)],
            [],
            [],
            [MissionCount(before=0, after=1, achieved=True, times=1)],
        ]
        assert times_and_count(shop, ana, mission) == (1, 1)
        assert shop.balance(ana) == 10
        shop.check_ledger()

    def test_a_partial_return_does_not_change_the_count_and_a_full_return_does(self, shop, ana):
        mission = create(shop, eventType=ORDER_CREATED)
        shop.track_one(order(ana, 10, external_id="o1"))
        shop.track_one(order_update(ana, "o1", "confirmed"))
        shop.track_one(order_update(ana, "o1", "partially-returned", items=[{"total": 5}]))
        assert times_and_count(shop, ana, mission) == (0, 1)
        shop.track_one(order_update(ana, "o1", "returned"))
        assert times_and_count(shop, ana, mission) == (0, 0)

    def test_a_cancellation_reverts_the_counts_of_derived_events(self, shop, ana):
        create(shop, goalCount=1)
        mission_of_achievements = create(shop, eventType="mission-status-updated", goalCount=2)
        result = shop.track_one(event(ana))
        assert times_and_count(shop, ana, mission_of_achievements) == (0, 1)
        self.cancel(shop, result)
        assert times_and_count(shop, ana, mission_of_achievements) == (0, 0)


class TestGoals:
    """`times_and_count` returns how often the mission was achieved, and the count towards the next achievement."""

    def test_a_raised_goal_does_not_change_the_count(self, shop, ana):
        mission = create(shop, goalCount=3)
        shop.track(*(event(ana) for _ in range(5)))
        assert times_and_count(shop, ana, mission) == (1, 2)
        shop.administration.put(f"/missions/{mission['missionId']}", body(goalCount=5))
        assert times_and_count(shop, ana, mission) == (1, 2)
        assert [counters(result)[0] for result in shop.track(*(event(ana) for _ in range(3)))] == [
            MissionCount(before=2, after=3, achieved=False, times=1),
            MissionCount(before=3, after=4, achieved=False, times=1),
            MissionCount(before=4, after=5, achieved=True, times=2),
        ]

    def test_a_lowered_goal_cuts_the_count_to_one_less_than_the_goal(self, shop, ana):
        mission = create(shop, goalCount=5)
        shop.track(*(event(ana) for _ in range(9)))
        assert times_and_count(shop, ana, mission) == (1, 4)
        shop.administration.put(f"/missions/{mission['missionId']}", body(goalCount=2))
        assert times_and_count(shop, ana, mission) == (1, 1)
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=1, after=2, achieved=True, times=2)]
        assert times_and_count(shop, ana, mission) == (2, 2)

    def test_a_cancelled_event_no_longer_counts_towards_a_changed_goal(self, shop, ana):
        mission = create(shop, goalCount=2, pointsAccrual=10)
        path = f"/missions/{mission['missionId']}"
        first_result, second_result = shop.track(event(ana), event(ana))
        shop.administration.put(path, body(goalCount=5, pointsAccrual=10))
        # An achieved goal shows the full count of the present goal.
        assert times_and_count(shop, ana, mission) == (1, 5)
        for track_result, expected_progress in ((second_result, (0, 1)), (first_result, (0, 0))):
            shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
            assert times_and_count(shop, ana, mission) == expected_progress
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=0, after=1, achieved=False, times=0)]

    def test_counts_of_an_undone_achievement_do_not_reach_a_raised_goal(self, shop, ana):
        mission = create(shop, goalCount=2, pointsAccrual=10)
        path = f"/missions/{mission['missionId']}"
        _first_result, achieving_result, _third_result = shop.track(*(event(ana) for _ in range(3)))
        shop.administration.put(path, body(goalCount=10, pointsAccrual=10))
        assert (times_and_count(shop, ana, mission), shop.balance(ana)) == ((1, 1), 10)
        shop.integration.post(f"/events/{achieving_result['loyaltyEventKey']}/cancel", {}, expect=200)
        assert (times_and_count(shop, ana, mission), shop.balance(ana)) == ((0, 2), 0)
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=2, after=3, achieved=False, times=0)]
        assert shop.balance(ana) == 0

    def test_a_goal_that_is_raised_after_a_cancellation_is_not_reached(self, organization, shop, ana):
        mission = create(shop, goalCount=2, pointsAccrual=10)
        path = f"/missions/{mission['missionId']}"
        _first_result, achieving_result, _third_result = shop.track(*(event(ana) for _ in range(3)))
        shop.integration.post(f"/events/{achieving_result['loyaltyEventKey']}/cancel", {}, expect=200)
        shop.administration.put(path, body(goalCount=10, pointsAccrual=10))
        assert times_and_count(shop, ana, mission) == (0, 2)
        [line] = exported_lines(organization, "mission-progress")
        assert json.loads(line).items() >= {"count": 2, "timesAchieved": 0}.items()
        assert counters(shop.track_one(event(ana))) == [MissionCount(before=2, after=3, achieved=False, times=0)]

    def test_cancelled_counts_are_not_forgotten_when_the_goal_is_lowered(self, organization, shop, ana):
        mission = create(shop, goalCount=3)
        track_results = shop.track(*(event(ana) for _ in range(6)))
        # The third and the sixth event achieve the mission; all others are cancelled.
        for position in (0, 1, 3, 4):
            shop.integration.post(f"/events/{track_results[position]['loyaltyEventKey']}/cancel", {}, expect=200)
        shop.administration.put(f"/missions/{mission['missionId']}", body(goalCount=1))
        assert times_and_count(shop, ana, mission) == (2, 1)
        results = [counters(shop.track_one(event(ana)))[0] for _ in range(5)]
        # Four events replace the cancelled ones.
        assert [result.times for result in results] == [2, 2, 2, 2, 3]
        assert [result.after for result in results] == [1, 1, 1, 1, 1]
        assert times_and_count(shop, ana, mission) == (3, 1)

    @pytest.mark.parametrize("is_raised_first", [True, False])
    def test_a_cancelled_event_costs_one_count_whether_the_goal_is_raised_before_or_after_it(
        self, organization, shop, ana, is_raised_first
    ):
        mission = create(shop, goalCount=2)
        first_result = shop.track(*(event(ana) for _ in range(4)))[0]
        mission_path = f"/missions/{mission['missionId']}"
        if is_raised_first:
            shop.administration.put(mission_path, body(goalCount=6))
        shop.integration.post(f"/events/{first_result['loyaltyEventKey']}/cancel", {}, expect=200)
        if not is_raised_first:
            shop.administration.put(mission_path, body(goalCount=6))
        # Both achievements stay, with goals of 6 now, which lack the cancelled count.
        assert times_and_count(shop, ana, mission) == (2, 5)
        [line] = exported_lines(organization, "mission-progress")
        assert json.loads(line).items() >= {"count": 0, "timesAchieved": 2}.items()
        # One event replaces the cancelled one, and six achieve the goal.
        counts = [counters(shop.track_one(event(ana)))[0] for _ in range(1 + 6)]
        assert [count.times for count in counts] == [2, 2, 2, 2, 2, 2, 3]
