"""Missions: their records, and progress by requests and by effects."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from tests.builders.campaigns import effect
from tests.builders.coupons import CouponBooks
from tests.builders.missions import (
    MissionCount,
    achievement_events,
    advance,
    body,
    counters,
    create,
    member_id_of,
    new_badge,
    times_and_count,
)
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, running

PAYMENT = "member-payment-confirmed"
LATTE = {"operator": "AND", "conditions": [{"field": "productCode", "operator": "equals", "value": "latte"}]}
UNKNOWN_KEY = "11111111-2222-4333-8444-555555555555"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ana(shop):
    """The loyaltyMemberId of a new member."""
    return shop.member()


class TestRecords:
    @pytest.fixture
    def full_body(self, shop):
        """The body of a mission with all fields."""
        administration, defaults = shop.administration, shop.organization.defaults
        campaign = administration.post("/campaigns", {"code": "c", "name": "C"})["campaign"]["campaignId"]
        audience = administration.post("/audiences", {"matcherType": "list-matcher"})["audience"]["audienceId"]
        matcher = administration.post("/matchers", {"name": "Latte", "type": "item-matcher", "matcher": LATTE})[
            "matcher"
        ]
        account = shop.account(pointTrackingEnabled=True, decimals=2)
        return body(
            campaignId=campaign,
            loyaltyProgramId=defaults.loyalty_program_id,
            shortDescription="Short",
            description="Long",
            pictureUrl="https://cdn.example.com/m.png",
            customAttributes={"colour": "red"},
            type="orders",
            audienceId=audience,
            tags=["a", "b"],
            code="lattes",
            matcherId=matcher["matcherId"],
            inlineMatcher=LATTE,
            eventType=ORDER_CREATED,
            active=False,
            validFrom="2026-01-01T00:00:00Z",
            validTo="2027-01-01T00:00:00Z",
            maxRepetitions=2**53 - 1,
            repetitionPeriod="weekly",
            periodLimit=2,
            goalCount=1_000_000_000,
            pointsAccrual=12.25,
            ledgerId=defaults.ledger_id,
            ledgerAccountId=account["ledgerAccountId"],
            badgeKey=new_badge(shop),
            couponBookKey=CouponBooks(shop.organization).make()["couponBookKey"],
            ledgerTransactionDescription="Lattes",
            minSpendValue=4.5,
            currency="EUR",
            manualExpiration={"value": 3, "unit": "months"},
        )

    def test_a_mission_is_returned_with_every_field(self, shop, full_body):
        mission = create(shop, **full_body)
        # Amounts are returned as decimals.
        assert {name: mission[name] for name in full_body} == {**full_body, "pointsAccrual": Decimal("12.25")}
        assert mission["organizationId"] == shop.organization.id
        assert shop.administration.get(f"/missions/{mission['missionId']}") == {"mission": mission}

    def test_an_update_changes_only_the_fields_it_sends(self, shop, full_body):
        mission = create(shop, **full_body)
        required_fields = {name: full_body[name] for name in body()}
        path, changes = f"/missions/{mission['missionId']}", {**required_fields, "name": "Renamed"}
        renamed_mission = shop.administration.put(path, changes)["mission"]
        assert renamed_mission == {**mission, "name": "Renamed", "updatedAt": renamed_mission["updatedAt"]}

    def test_missing_fields_of_a_mission_have_defaults(self, shop):
        mission = create(shop)
        assert (mission["active"], mission["tags"], mission["code"], mission["pointsAccrual"]) == (True, [], None, None)
        assert "inlineMatcher" not in mission

    def test_missions_are_listed_by_all_filters(self, shop):
        program = shop.organization.defaults.loyalty_program_id
        create(shop, name="B", code="one", type="visits", tags=["a", "b"], loyaltyProgramId=program)
        create(shop, name="A", code="two", type="orders", tags=["a"], active=False)
        create(shop, name="C", tags=["b"])

        def names(**query):
            """The names of the listed missions."""
            return [result["name"] for result in shop.administration.get("/missions", **query)["results"]]

        # By default, the newest mission is first.
        assert names() == ["C", "A", "B"]
        assert names(order="name") == ["A", "B", "C"]
        assert names(order="name,desc", limit=2, page=1) == ["A"]
        assert names(loyaltyProgramId=program) == ["B"]
        assert names(type="orders") == ["A"]
        assert names(codes="one,two") == ["A", "B"]
        assert names(tags="a") == ["A", "B"]
        assert names(tags="a,b") == ["B"]
        assert names(page=7) == []
        assert shop.administration.get("/missions", page=7)["totalCount"] == 3

    @pytest.mark.parametrize(
        ("parameter", "value"), [("order", "tags"), ("limit", 101), ("loyaltyProgramId", 0), ("colour", "red")]
    )
    def test_an_invalid_query_of_the_list_of_missions_is_refused(self, shop, parameter, value):
        problem = shop.administration.get("/missions", expect=400, **{parameter: value})
        assert [fault["parameter"] for fault in problem["errors"]] == [parameter]

    @pytest.mark.parametrize(
        ("fields", "pointer"),
        [
            ({"maxRepetitions": 0}, "/maxRepetitions"),
            ({"goalCount": 0}, "/goalCount"),
            ({"eventType": "x" * 256}, "/eventType"),
            ({"matcherId": 0}, "/matcherId"),
            ({"minSpendValue": -1, "eventType": ORDER_CREATED}, "/minSpendValue"),
            ({"minSpendValue": 1}, "/minSpendValue"),
            ({"currency": "EUR"}, "/currency"),
            ({"inlineMatcher": LATTE}, "/inlineMatcher"),
            ({"repetitionPeriod": "hourly", "periodLimit": 1}, "/repetitionPeriod"),
            ({"periodLimit": 1}, "/periodLimit"),
            ({"manualExpiration": {"value": 0, "unit": "days"}, "pointsAccrual": 1}, "/manualExpiration/value"),
            ({"manualExpiration": {"value": 1, "unit": "eons"}, "pointsAccrual": 1}, "/manualExpiration/unit"),
            ({"pointsAccrual": 0.5}, "/pointsAccrual"),
            ({"validFrom": "2026-02-01T00:00:00Z", "validTo": "2026-01-01T00:00:00Z"}, "/validTo"),
            ({"couponBookKey": 5}, "/couponBookKey"),
            ({"badgeKey": "gold"}, "/badgeKey"),
            ({"colour": "red"}, "/colour"),
        ],
    )
    def test_an_invalid_mission_is_refused_with_the_field(self, shop, fields, pointer):
        problem = shop.administration.post("/missions", body(**fields), expect=400)
        assert [error["pointer"] for error in problem["errors"]] == [pointer]

    def test_an_expiration_needs_an_account_that_tracks_points(self, shop):
        account = shop.account()["ledgerAccountId"]
        expiring_points = {"manualExpiration": {"value": 1, "unit": "days"}, "pointsAccrual": 1}
        problem = shop.administration.post("/missions", body(ledgerAccountId=account, **expiring_points), expect=400)
        assert [error["pointer"] for error in problem["errors"]] == ["/manualExpiration"]

    def test_all_missing_required_fields_are_reported(self, shop):
        problem = shop.administration.post("/missions", {}, expect=400)
        assert {error["pointer"] for error in problem["errors"]} == {
            "/name",
            "/eventType",
            "/maxRepetitions",
            "/goalCount",
        }

    def test_a_fault_of_a_matcher_is_reported_with_its_pointer(self, shop):
        faulty_matcher = {"operator": "AND", "conditions": [{"field": "colour", "operator": "equals", "value": "red"}]}
        mission_body = body(eventType=ORDER_CREATED, inlineMatcher=faulty_matcher)
        problem = shop.administration.post("/missions", mission_body, expect=400)
        assert [error["pointer"] for error in problem["errors"]] == ["/inlineMatcher/conditions/0/field"]

    def test_a_mission_with_an_unknown_reference_is_refused_with_404(self, shop, other_organization):
        foreign_mission = create(Shop(other_organization))
        badges = {"operator": "AND", "conditions": [{"badgeKey": UNKNOWN_KEY, "operator": ">", "value": 0}]}
        for fields, slug in (
            ({"eventType": "cup-returned"}, "unknown-event-type"),
            ({"loyaltyProgramId": 10**9}, "unknown-loyalty-program"),
            ({"campaignId": 10**9}, "unknown-campaign"),
            ({"audienceId": 10**9}, "unknown-audience"),
            ({"matcherId": 10**9, "eventType": PAYMENT}, "unknown-matcher"),
            ({"badgeKey": UNKNOWN_KEY}, "unknown-badge"),
            ({"couponBookKey": UNKNOWN_KEY}, "unknown-coupon-book"),
            ({"badgeMatcher": badges, "eventType": "badge-assigned"}, "unknown-badge"),
            ({"ledgerId": 10**9, "pointsAccrual": 1}, "unknown-ledger"),
            ({"ledgerAccountId": 10**9, "pointsAccrual": 1}, "unknown-ledger-account"),
        ):
            problem = shop.administration.post("/missions", body(**fields), expect=404)
            assert problem["type"] == f"/problems/{slug}", fields
        for path in ("/missions/999999999", f"/missions/{foreign_mission['missionId']}"):
            shop.administration.get(path, expect=404)
            shop.administration.put(path, body(), expect=404)
        assert shop.administration.get("/missions")["totalCount"] == 0

    def test_a_code_is_unique(self, shop):
        create(shop, code="twice")
        mission_with_other_code = create(shop, code="once")
        problem = shop.administration.post("/missions", body(code="twice"), expect=409)
        assert problem["type"] == "/problems/name-taken"
        path = f"/missions/{mission_with_other_code['missionId']}"
        assert shop.administration.put(path, body(code="twice"), expect=409)["type"] == "/problems/name-taken"
        assert shop.administration.put(path, body(code="once"))["mission"]["code"] == "once"
        # Several missions may have no code.
        create(shop)
        create(shop)


class TestRequests:
    def test_an_amount_can_achieve_a_mission_several_times(self, shop, ana):
        mission = create(shop, goalCount=3, pointsAccrual=10, eventType="member-created")
        at = "2026-03-02T08:15:00Z"
        response = advance(
            shop,
            ana,
            mission["missionId"],
            amount=7,
            externalId="card-1",
            tags=["stamps"],
            description="From the card",
            externalEventDate=at,
        )
        assert response == {
            "balance": {
                "memberId": member_id_of(shop, ana),
                "timesAchieved": 2,
                "lastCounterCountWhenAchieved": 3,
                "currentCounterCount": 1,
                "lastAchievedAt": at,
                "lastGoalsAchieved": 2,
            }
        }
        # 7 is the goal of 3 twice, and 1.
        assert shop.balance(ana) == 2 * 10
        [transaction] = shop.rows("ledger_transactions", "amount, description, external_id, tags, external_event_date")
        assert transaction[:4] == (20, "From the card", "card-1", ["stamps"])
        assert transaction.external_event_date == datetime(2026, 3, 2, 8, 15, tzinfo=UTC)
        [mission_event] = achievement_events(shop, ana)
        assert mission_event["reason"] == "A mission was advanced by request."
        assert shop.integration.get(f"/events/{mission_event['loyaltyEventKey']}")["result"]["missions"] == []

    def test_a_repeated_key_returns_the_same_balance_and_another_request_is_refused(self, shop, ana):
        mission = create(shop, goalCount=2, pointsAccrual=10)
        request = {"amount": 2, "systemUniqueKey": "card-1"}
        first_response = advance(shop, ana, mission["missionId"], **request)
        shop.track(event(ana))
        assert advance(shop, ana, mission["missionId"], **request) == first_response
        for changes in ({"amount": 1}, {"description": "Other"}, {"tags": ["x"]}, {"externalId": "x"}):
            problem = advance(shop, ana, mission["missionId"], expect=409, **{**request, **changes})
            assert problem["type"] == "/problems/key-reused"
        assert times_and_count(shop, ana, mission) == (1, 1)
        assert shop.balance(ana) == 10

    def test_an_amount_of_0_returns_the_progress_and_stores_nothing(self, shop, ana):
        mission = create(shop)
        audit = {"operationId": "updateMissionProgress"}
        entries_before = shop.administration.get("/audit-log", **audit)["totalCount"]
        balance = advance(shop, ana, mission["missionId"], amount=0, systemUniqueKey="none")["balance"]
        assert (balance["currentCounterCount"], balance["lastGoalsAchieved"], balance["lastAchievedAt"]) == (0, 0, None)
        assert advance(shop, ana, mission["missionId"], amount=0, systemUniqueKey="none")["balance"] == balance
        assert shop.administration.get("/audit-log", **audit)["totalCount"] == entries_before
        assert shop.rows("mission_trackings") == []
        assert shop.integration.get(f"/members/{ana}/timeline", kinds="mission")["results"] == []
        # The key is free for a request that counts; afterwards it belongs to that request.
        counted_balance = advance(shop, ana, mission["missionId"], amount=2, systemUniqueKey="none")["balance"]
        assert counted_balance["currentCounterCount"] == 2
        assert advance(shop, ana, mission["missionId"], amount=2, systemUniqueKey="none")["balance"] == counted_balance
        problem = advance(shop, ana, mission["missionId"], amount=0, systemUniqueKey="none", expect=409)
        assert problem["type"] == "/problems/key-reused"
        assert advance(shop, ana, mission["missionId"], amount=0)["balance"]["currentCounterCount"] == 2

    @pytest.mark.parametrize("amount", [-1, 1.5, None])
    def test_an_amount_is_a_whole_number_of_at_least_0(self, shop, ana, amount):
        problem = advance(shop, ana, create(shop)["missionId"], amount=amount, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/amount"]

    def test_an_amount_counts_only_up_to_the_limits_of_the_mission(self, shop, ana):
        mission = create(shop, goalCount=2, maxRepetitions=5, repetitionPeriod="daily", periodLimit=2)
        day = "2026-03-02T08:00:00Z"
        balance = advance(shop, ana, mission["missionId"], amount=99, externalEventDate=day)["balance"]
        assert (balance["timesAchieved"], balance["currentCounterCount"], balance["lastGoalsAchieved"]) == (2, 2, 2)
        problem = advance(shop, ana, mission["missionId"], amount=1, externalEventDate=day, expect=409)
        assert problem["type"] == "/problems/mission-exhausted"
        # Two achievements on the second day, and the last of five on the third.
        for day in ("2026-03-03T08:00:00Z", "2026-03-04T08:00:00Z"):
            advance(shop, ana, mission["missionId"], amount=99, externalEventDate=day)
        assert times_and_count(shop, ana, mission) == (5, 2)
        assert advance(shop, ana, mission["missionId"], amount=1, expect=409)["type"] == "/problems/mission-exhausted"

    @pytest.mark.parametrize(
        "fields",
        [
            {"active": False},
            {"validTo": "2026-01-01T00:00:00Z"},
            {"validFrom": "2999-01-01T00:00:00Z"},
            "audience without members",
        ],
    )
    def test_a_closed_mission_cannot_be_advanced(self, shop, ana, fields):
        if fields == "audience without members":
            audience = shop.administration.post("/audiences", {"matcherType": "null-matcher"})["audience"]
            fields = {"audienceId": audience["audienceId"]}
        mission = create(shop, **fields)
        assert advance(shop, ana, mission["missionId"], amount=1, expect=409)["type"] == "/problems/mission-closed"
        # An amount of 0 adds nothing, so it is not refused.
        assert advance(shop, ana, mission["missionId"], amount=0)["balance"]["currentCounterCount"] == 0
        assert times_and_count(shop, ana, mission) == (0, 0)

    def test_progress_of_unknown_members_or_in_unknown_missions_is_refused_with_404(
        self, shop, ana, other_organization
    ):
        foreign_shop = Shop(other_organization)
        mission, foreign_mission = create(shop), create(foreign_shop)
        member_id = member_id_of(shop, ana)
        for member, mission_id in (
            (10**9, mission["missionId"]),
            (member_id, 10**9),
            (member_id, foreign_mission["missionId"]),
            (member_id_of(foreign_shop, foreign_shop.member()), mission["missionId"]),
        ):
            shop.administration.post(f"/members/{member}/missions/{mission_id}/progress", {"amount": 1}, expect=404)


class TestEffects:
    def test_an_effect_advances_a_mission(self, shop, ana):
        mission = create(shop, goalCount=3, pointsAccrual=10, eventType="member-created")
        advance_effect = effect(
            "advance-mission", missionKey=mission["missionKey"].upper(), amount=("=", "order.total / 2.0")
        )
        shop.campaign(running(advance_effect), eventType=ORDER_CREATED)
        result = shop.track_one(order(ana, 9))
        assert [(outcome["effectId"], outcome["status"]) for outcome in result["effects"]] == [
            ("advance-mission", "executed")
        ]
        # 9 / 2 is 4.5, of which 4 count: 3 achieve the goal, and 1 is the new count.
        assert counters(result) == [MissionCount(before=0, after=1, achieved=True, times=1)]
        assert shop.balance(ana) == 10
        path = f"/events/{result['loyaltyEventKey']}/cancel"
        shop.integration.post(path, {}, expect=200)
        assert (times_and_count(shop, ana, mission), shop.balance(ana)) == ((0, 0), 0)

    def test_an_effect_without_an_amount_counts_one(self, shop, ana):
        mission = create(shop, eventType="member-created")
        shop.campaign(running(effect("advance-mission", missionKey=mission["missionKey"])), eventType=GENERIC)
        shop.track_one(event(ana))
        assert times_and_count(shop, ana, mission) == (0, 1)

    @pytest.mark.parametrize(
        ("fields", "amount", "problem", "detail"),
        [
            ({"active": False}, 1, "mission-closed", "The mission Three times is not active."),
            (
                {"maxRepetitions": 1, "goalCount": 1},
                1,
                "mission-exhausted",
                "The member has achieved the mission Three times the maximum number of times, in total or in this"
                " period.",
            ),
            ({}, 0.5, "zero-amount", "amount is 0.5: a mission advances by at least 1."),
        ],
    )
    def test_an_effect_that_cannot_advance_the_mission_is_skipped(self, shop, ana, fields, amount, problem, detail):
        mission = create(shop, eventType="member-created", **fields)
        advance_effect = effect("advance-mission", missionKey=mission["missionKey"], amount=amount)
        shop.campaign(running(advance_effect), eventType=GENERIC)
        # The first event uses the only repetition, if there is one; the outcome is that of the second event.
        for _ in range(2):
            [outcome] = shop.track_one(event(ana))["effects"]
        assert (outcome["status"], outcome["error"]["type"]) == ("skipped", f"/problems/{problem}")
        assert outcome["error"]["detail"] == detail

    def test_an_effect_cut_by_the_maximum_of_the_mission_is_partial(self, shop, ana):
        mission = create(shop, eventType="member-created", goalCount=3, maxRepetitions=2)
        shop.campaign(running(effect("advance-mission", missionKey=mission["missionKey"], amount=7)), eventType=GENERIC)
        for mode in ("dryRun", "full"):
            [outcome] = shop.track_one(event(ana), executionMode=mode)["effects"]
            params = {param["id"]: param["value"] for param in outcome["params"]}
            assert (outcome["status"], outcome["error"]["type"]) == ("partial", "/problems/mission-exhausted")
            # The goal of 3 can be achieved twice.
            assert (params["amount"], params["requestedAmount"]) == (2 * 3, 7)
        assert times_and_count(shop, ana, mission) == (2, 3)

    def test_an_amount_of_26_digits_is_counted_up_to_the_maximum(self, shop, ana):
        max_values = {"goalCount": 1_000_000_000, "maxRepetitions": 2**53 - 1}
        mission = create(shop, eventType="member-created", **max_values)
        advance_effect = effect("advance-mission", missionKey=mission["missionKey"], amount=10**25)
        shop.campaign(running(advance_effect), eventType=GENERIC)
        statuses = [shop.track_one(event(ana))["effects"][0]["status"] for _ in range(2)]
        assert statuses == ["partial", "skipped"]
        # No mission is achieved more often than 9,000,000,000 times.
        assert times_and_count(shop, ana, mission) == (9_000_000_000, 1_000_000_000)

    def test_an_unknown_mission_is_refused_when_the_action_is_saved(self, shop, ana):
        campaign = shop.campaign(eventType=GENERIC)
        path = f"/campaigns/{campaign['campaignId']}/actions"
        action_with_unknown_key = running(effect("advance-mission", missionKey=UNKNOWN_KEY))
        problem = shop.administration.post(path, action_with_unknown_key, expect=404)
        assert problem["type"] == "/problems/unknown-mission"
        action_with_computed_key = running(effect("advance-mission", missionKey=("=", f"'{UNKNOWN_KEY}'")))
        shop.administration.post(path, action_with_computed_key)
        [outcome] = shop.track_one(event(ana))["effects"]
        assert (outcome["status"], outcome["error"]["type"]) == ("failed", "/problems/unknown-mission")
