"""Waiting rewards of missions and referral programs by the terms of these, at the moments of a test clock."""

from __future__ import annotations

from operator import itemgetter

import pytest

from tests.builders.configuration_files import copy_configuration
from tests.builders.points import Points
from tests.builders.referrals import Friends, program_body
from tests.builders.tracking import GENERIC, ORDER_CREATED, Shop, event, order, order_update

CONFIRMED = "member-purchase-order-confirmed"
# 14 days after the start of the test clock.
AVAILABLE_AT = "2026-03-15T09:00:00Z"
MISSION = {"name": "One visit", "eventType": GENERIC, "goalCount": 1, "maxRepetitions": 10, "pointsAccrual": 100}


@pytest.fixture
def shop(clock):
    shop = Shop(clock.organization)
    yield shop
    shop.check_ledger()


def balance_and_pending(shop, member):
    """(balance, pending points) of a member in the default account."""
    balance = shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerBalances"][0]
    return balance["balance"], balance["pending"]


def create_mission(shop, *, expect=201, **more):
    """Create a mission that gives 100 points for each generic event, or for events of another type."""
    return shop.administration.post("/missions", {**MISSION, **more}, expect=expect)


def simulated_earnings(shop, **more):
    """The earnings of a simulated order of 10.00."""
    return shop.integration.post("/simulations", {"order": {"total": 10}, **more}, expect=200)["simulation"]["earn"]


class TestMissions:
    def test_the_points_wait_by_the_terms_of_the_mission(self, clock, shop):
        create_mission(shop, availableAfter="P14D")
        member = shop.member()
        shop.track(event(member))
        assert balance_and_pending(shop, member) == (0, 100)
        clock.advance("2026-03-15T08:59:59Z")
        assert balance_and_pending(shop, member) == (0, 100)
        clock.advance(AVAILABLE_AT)
        assert balance_and_pending(shop, member) == (100, 0)

    def test_points_wait_until_a_fixed_moment(self, clock, shop):
        create_mission(shop, availableAt="2026-03-02T00:00:00Z")
        member = shop.member()
        shop.track(event(member))
        # The moment has come, so later points do not wait.
        clock.advance("2026-03-02T00:00:00Z")
        shop.track(event(member))
        assert balance_and_pending(shop, member) == (100 + 100, 0)

    def test_terms_of_the_mission_replace_those_of_the_account(self, clock, shop):
        account = Points.new(clock.organization, defaultAvailability={"availableAfter": "P2D"})
        create_mission(shop, name="own", ledgerAccountId=account.account_id, availableAfter="P14D")
        create_mission(shop, name="of the account", ledgerAccountId=account.account_id)
        member = shop.member()
        shop.track(event(member))
        wallet = account.rows()[0]["toWalletId"]
        # The two days of the account have passed.
        clock.advance("2026-03-03T09:00:00Z")
        assert account.wallet_of(wallet, include="lots")["lots"]["waiting"] == [
            {"availableAt": AVAILABLE_AT, "amount": 100}
        ]
        assert account.balance(wallet) == 100

    def test_the_points_wait_for_the_order_to_be_confirmed(self, clock, shop):
        awaited_event = {"eventTypes": [CONFIRMED], "cancelAfter": "P20D"}
        mission = create_mission(shop, eventType=ORDER_CREATED, availableOn=awaited_event)["mission"]
        assert mission["availableOn"] == awaited_event
        member = shop.member()
        shop.track(order(member, total=100, external_id="order-1"), order(member, total=100, external_id="order-2"))
        assert balance_and_pending(shop, member) == (0, 100 + 100)
        shop.track_one(order_update(member, "order-2", "confirmed"))
        assert balance_and_pending(shop, member) == (100, 100)
        # 20 days after the orders, the points of order-1 are cancelled.
        clock.advance("2026-03-21T09:00:00Z")
        assert balance_and_pending(shop, member) == (100, 0)

    def test_the_cancellation_of_an_event_reverts_its_waiting_points(self, clock, shop):
        create_mission(shop, availableAfter="P14D")
        member = shop.member()
        [result] = shop.track(event(member))
        shop.integration.post(f"/events/{result['loyaltyEventKey']}/cancel", {}, expect=200)
        assert balance_and_pending(shop, member) == (0, 0)
        clock.advance(AVAILABLE_AT)
        assert balance_and_pending(shop, member) == (0, 0)

    @pytest.mark.parametrize(
        ("terms", "reported_moment"),
        [
            ({"availableAfter": "P14D"}, AVAILABLE_AT),
            ({"availableOn": {"eventTypes": [CONFIRMED]}}, None),
            ({"availableAt": "2026-02-01T00:00:00Z"}, "at once"),
            ({}, "at once"),
        ],
    )
    @pytest.mark.parametrize("body", [{}, {"executionMode": "dryRun"}])
    def test_the_result_of_the_event_reports_until_when_the_points_wait(self, shop, terms, reported_moment, body):
        create_mission(shop, **terms)
        [mission] = shop.track_one(event(shop.member()), **body)["missions"]
        [reward] = mission["rewards"]
        assert (reward["amount"], reward.get("availableAt", "at once")) == (100, reported_moment)

    def test_a_simulation_counts_the_points_as_pending(self, shop):
        create_mission(shop, eventType=ORDER_CREATED, availableAfter="P14D")
        [account] = simulated_earnings(shop, loyaltyMemberId=shop.member())["accounts"]
        assert (account["available"], account["pending"], account["availableAt"]) == (0, 100, AVAILABLE_AT)

    def test_an_update_changes_the_terms_of_later_rewards(self, clock, shop):
        mission = create_mission(shop, availableOn={"eventTypes": [CONFIRMED]})["mission"]
        assert mission["availableOn"] == {"eventTypes": [CONFIRMED], "cancelAfter": None}
        path = f"/missions/{mission['missionId']}"
        # Rounded to the next midnight in Madrid, 23:00 UTC.
        changes = {**MISSION, "availableOn": None, "availableAfter": "P14D", "availableRounding": "day"}
        updated_mission = shop.administration.put(path, changes)["mission"]
        assert "availableOn" not in updated_mission
        assert (updated_mission["availableAfter"], updated_mission["availableRounding"]) == ("P14D", "day")
        member = shop.member()
        shop.track(event(member))
        clock.advance("2026-03-15T22:59:59Z")
        assert balance_and_pending(shop, member) == (0, 100)
        clock.advance("2026-03-15T23:00:00Z")
        assert balance_and_pending(shop, member) == (100, 0)

    @pytest.mark.parametrize(
        ("invalid_terms", "pointer"),
        [
            ({"availableAt": AVAILABLE_AT, "availableAfter": "P1D"}, "/availableAfter"),
            ({"availableAfter": "P3Y"}, "/availableAfter"),
            ({"availableRounding": "day"}, "/availableRounding"),
            ({"availableOn": {"eventTypes": ["points-available"]}}, "/availableOn"),
            pytest.param(
                {"availableAfter": "P1D", "pointsAccrual": None, "badgeKey": None}, "/availableAfter", id="no points"
            ),
        ],
    )
    def test_invalid_terms_are_refused(self, shop, invalid_terms, pointer):
        problem = create_mission(shop, expect=400, **invalid_terms)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]

    def test_an_unknown_event_type_is_refused(self, shop):
        problem = create_mission(shop, expect=404, availableOn={"eventTypes": ["never-heard-of"]})
        assert problem["type"] == "/problems/unknown-event-type"


class TestReferralPrograms:
    def test_the_points_of_both_sides_wait(self, clock, shop):
        friends = Friends(shop, availableAfter="P14D")
        ana, ben = shop.member(), shop.member()
        # The program gives the referrer 100 points and the referred member 50.
        shop.track_one(event(ben, payload={"referralCode": friends.code(ana)}))
        assert (balance_and_pending(shop, ana), balance_and_pending(shop, ben)) == ((0, 100), (0, 50))
        clock.advance(AVAILABLE_AT)
        assert (balance_and_pending(shop, ana), balance_and_pending(shop, ben)) == ((100, 0), (50, 0))

    def test_the_points_of_both_sides_wait_for_the_order_of_the_referred_member(self, clock, shop):
        awaited_event = {"eventTypes": [CONFIRMED], "cancelAfter": "P20D"}
        friends = Friends(shop, eventType=ORDER_CREATED, availableOn=awaited_event)
        ana, ben, cora = shop.member(), shop.member(), shop.member()
        for member, name in ((ben, "order-1"), (cora, "order-2")):
            purchase = order(member, total=100, external_id=name)
            purchase["payload"]["referralCode"] = friends.code(ana)
            shop.track_one(purchase)
        # 100 for each referral of Ana, and 50 for each referred member.
        assert [balance_and_pending(shop, member) for member in (ana, ben, cora)] == [(0, 200), (0, 50), (0, 50)]
        shop.track_one(order_update(ben, "order-1", "confirmed"))
        assert [balance_and_pending(shop, member) for member in (ana, ben, cora)] == [(100, 100), (50, 0), (0, 50)]
        # 20 days after the orders, the points of order-2 are cancelled.
        clock.advance("2026-03-21T09:00:00Z")
        assert [balance_and_pending(shop, member) for member in (ana, ben, cora)] == [(100, 0), (50, 0), (0, 0)]

    @pytest.mark.parametrize(
        ("terms", "reported_moment"),
        [
            ({"availableAfter": "P14D"}, AVAILABLE_AT),
            ({"availableOn": {"eventTypes": [CONFIRMED]}}, None),
            ({}, "at once"),
        ],
    )
    @pytest.mark.parametrize("body", [{}, {"executionMode": "dryRun"}])
    def test_the_result_of_the_event_reports_until_when_the_points_wait(self, shop, terms, reported_moment, body):
        friends = Friends(shop, **terms)
        referral_event = event(shop.member(), payload={"referralCode": friends.code(shop.member())})
        [referral] = shop.track_one(referral_event, **body)["referrals"]
        rewards = [(reward["points"], reward.get("availableAt", "at once")) for reward in referral["rewards"]]
        assert rewards == [(100, reported_moment), (50, reported_moment)]

    def test_the_records_agree_after_a_partial_return_has_reduced_waiting_points(self, shop):
        friends = Friends(shop, eventType=ORDER_CREATED, availableAfter="P14D")
        owner, buyer = shop.member(), shop.member()
        shop.track_one(order(buyer, 10, external_id="o-1", referralCode=friends.code(owner)))
        shop.track_one(order_update(buyer, "o-1", "confirmed"))
        shop.track_one(order(buyer, 4, status="partially-returned", external_id="o-1"))
        [balance] = shop.integration.get(f"/members/{owner}")["loyaltyMember"]["ledgerBalances"]
        # 6 of 10 are left of the order, and so of the 100 points.
        assert balance["pending"] == 60
        shop.check_ledger()

    def test_a_simulation_counts_the_points_of_the_buyer_as_pending(self, shop):
        friends = Friends(shop, eventType=ORDER_CREATED, availableAfter="P14D")
        purchase = {"total": 10, "referralCode": friends.code(shop.member())}
        [account] = simulated_earnings(shop, loyaltyMemberId=shop.member(), order=purchase)["accounts"]
        # The referred member's 50.
        assert (account["available"], account["pending"], account["availableAt"]) == (0, 50, AVAILABLE_AT)

    def test_terms_without_points_are_refused(self, shop):
        body = program_body(referrerPointsAccrual=None, referredPointsAccrual=None, availableAfter="P1D")
        problem = shop.administration.post("/referral-programs", body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/availableAfter"]

    def test_contradictory_terms_are_refused(self, shop):
        body = program_body(availableAt=AVAILABLE_AT, availableAfter="P1D")
        problem = shop.administration.post("/referral-programs", body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == ["/availableAfter"]


def test_configuration_files_keep_the_terms_of_missions_and_referral_programs(api, clock, shop, tmp_path):
    awaited_event = {"eventTypes": [CONFIRMED], "cancelAfter": "P20D"}
    create_mission(shop, name="after", availableAfter="P14D", availableRounding="day")
    create_mission(shop, name="on", eventType=ORDER_CREATED, availableOn=awaited_event)
    Friends(shop, availableAt=AVAILABLE_AT)
    Friends(shop, eventType=ORDER_CREATED, availableOn=awaited_event)
    copy = Shop(api.organization())
    copy_configuration(api, clock.organization.id, copy.organization.id, tmp_path)

    def terms(of_shop, path):
        """(moment, period, rounding, awaited event) of each mission or program, by its name."""
        names = "availableAt", "availableAfter", "availableRounding", "availableOn"
        results = of_shop.administration.get(path)["results"]
        return [tuple(result.get(name) for name in names) for result in sorted(results, key=itemgetter("name"))]

    assert terms(copy, "/missions") == [(None, "P14D", "day", None), (None, None, "none", awaited_event)]
    assert sorted(terms(copy, "/referral-programs"), key=str) == [
        (AVAILABLE_AT, None, "none", None),
        (None, None, "none", awaited_event),
    ]
