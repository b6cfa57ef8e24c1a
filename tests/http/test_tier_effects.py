"""Tiers that campaigns set: their effects, and what cancelling the event restores."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import effect, mint
from tests.builders.statements import count_statements
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, running, spend

SET = "member-tier-set"
FUTURE = "2099-12-31T23:00:00Z"
UNKNOWN_KEY = "00000000-0000-4000-8000-000000000000"


@pytest.fixture
def shop(organization):
    shop = Shop(organization)
    yield shop
    shop.check_ledger()


@pytest.fixture
def schedule(shop):
    """The tiers are Basic below 200 points of balance, Silver from 200 and Gold from 500."""
    return TierSchedule.new(shop, Silver=200, Gold=500)


@pytest.fixture
def member(schedule, shop):
    """A member without points, who has the tier Basic."""
    return shop.member()


def sets(schedule, name, **params):
    """An effect that sets the tier of this name."""
    return effect(
        "set-tier", loyaltyProgramKey=schedule.program["loyaltyProgramKey"], loyaltyTierKey=schedule.key(name), **params
    )


def cancel(shop, track_result):
    """Cancel an event; return the reversals of the tiers that it and the events that it caused had set."""
    response = shop.integration.post(f"/events/{track_result['loyaltyEventKey']}/cancel", {}, expect=200)
    return [tier for result in response["results"] for tier in result["tiers"]]


def outcomes(result):
    """(status, type of the problem or None) of each effect."""
    return [(outcome["status"], outcome.get("error", {}).get("type")) for outcome in result["effects"]]


def stored_tiers(shop):
    """(member id, program id, tier id, whether points do not decide the tier, expiry) of each stored tier."""
    rows = shop.rows(
        "member_tiers", "member_id, loyalty_program_id, loyalty_tier_id, is_manual, expires_at", order="1, 2"
    )
    return [tuple(row) for row in rows]


def test_a_tier_that_a_campaign_sets_ignores_the_points_until_it_expires(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold", expiresAt=FUTURE)), eventType=GENERIC)
    track_result = shop.track_one(event(member))
    assert outcomes(track_result) == [("executed", None)]
    assert schedule.entry(member)["expiresAt"] == FUTURE
    shop.give(member, 250)
    assert schedule.of(member) == "Gold"
    assert schedule.moves(member) == [(SET, "Basic", "Gold")]
    [tier_event] = [row for row in shop.rows("events") if row.event_type == SET]
    assert (tier_event.payload["isManual"], tier_event.payload["expiresAt"]) == (True, FUTURE)
    [tracking] = shop.rows("member_tier_trackings")
    stored_event = shop.integration.get(f"/events/{track_result['loyaltyEventKey']}")["event"]
    assert (tracking.loyalty_tier_id, tracking.answered_tier_id) == (schedule.id("Gold"), schedule.id("Gold"))
    assert tracking.loyalty_event_id == stored_event["loyaltyEventId"]
    assert tracking.previous_tier_id == schedule.id("Basic")
    # Then the 250 points decide.
    schedule.expire(member)
    assert schedule.of(member) == "Silver"


def test_campaigns_of_the_tier_event_see_the_tier_that_the_effect_set(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold")), eventType=GENERIC)
    shop.campaign(running(mint(5)), eventType=SET, loyaltyTierKeys=[schedule.key("Gold")])
    shop.track(event(member), event(member))
    assert shop.balance(member) == 5 + 5
    assert schedule.moves(member) == [(SET, "Basic", "Gold"), (SET, "Gold", "Gold")]


def test_a_tier_of_a_program_that_is_not_active_can_be_set(shop, schedule, member):
    body = {"ledgerId": shop.organization.defaults.ledger_id, "description": "Second", "setAsDefault": False}
    program = shop.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    path = f"/loyalty-programs/{program['loyaltyProgramId']}"
    star_body = {"name": "Star", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    star = shop.administration.post(f"{path}/tiers", star_body)["tier"]
    shop.administration.put(path, {**body, "active": False})
    keys = {"loyaltyProgramKey": program["loyaltyProgramKey"], "loyaltyTierKey": star["loyaltyTierKey"]}
    shop.campaign(running(effect("set-tier", **keys)), eventType=GENERIC)
    track_result = shop.track_one(event(member))

    def tier_ids():
        return [tier_id for _member_id, _program_id, tier_id, _is_manual, _expiry in stored_tiers(shop)]

    assert tier_ids() == [schedule.id("Basic"), star["loyaltyTierId"]]
    [reversal] = cancel(shop, track_result)
    assert reversal["currentLoyaltyTierId"] is None
    assert tier_ids() == [schedule.id("Basic")]


def save_action(shop, *, expect=201, **keys):
    """Save an action that sets a tier by these keys, in a new campaign; return the response."""
    path = f"/campaigns/{shop.campaign()['campaignId']}/actions"
    return shop.administration.post(path, running(effect("set-tier", **keys)), expect=expect)


def test_an_unknown_constant_key_is_refused_when_the_action_is_saved(shop, schedule, other_organization):
    foreign_schedule = TierSchedule.new(Shop(other_organization), Gold=500)
    program, tier = schedule.program["loyaltyProgramKey"], schedule.key("Gold")
    for keys, problem in (
        ({"loyaltyProgramKey": UNKNOWN_KEY, "loyaltyTierKey": tier}, "unknown-loyalty-program"),
        ({"loyaltyProgramKey": "main", "loyaltyTierKey": tier}, "unknown-loyalty-program"),
        (
            {"loyaltyProgramKey": foreign_schedule.program["loyaltyProgramKey"], "loyaltyTierKey": tier},
            "unknown-loyalty-program",
        ),
        ({"loyaltyProgramKey": program, "loyaltyTierKey": foreign_schedule.key("Gold")}, "unknown-tier"),
        ({"loyaltyProgramKey": ("=", "event.tags[0]"), "loyaltyTierKey": UNKNOWN_KEY}, "unknown-tier"),
    ):
        assert save_action(shop, expect=404, **keys)["type"] == f"/problems/{problem}"


def test_an_action_can_be_saved_with_keys_in_upper_case(shop, schedule):
    program, tier = schedule.program["loyaltyProgramKey"], schedule.key("Gold")
    save_action(shop, loyaltyProgramKey=program.upper(), loyaltyTierKey=tier.upper())


def test_an_action_without_the_key_of_the_program_is_refused(shop, schedule):
    response = save_action(shop, expect=400, loyaltyTierKey=schedule.key("Gold"))
    assert response["type"] == "/problems/invalid-request"


def test_an_unknown_computed_key_or_a_past_expiry_fails_the_effect(shop, schedule, member):
    keys = {"loyaltyProgramKey": schedule.program["loyaltyProgramKey"], "loyaltyTierKey": ("=", "event.tags[0]")}
    shop.campaign(running(effect("set-tier", **keys)), eventType=GENERIC)
    shop.campaign(
        running(sets(schedule, "Gold", expiresAt=("=", "event.externalEventDate"))), eventType="member-updated"
    )
    results = shop.track(event(member, tags=[schedule.key("Silver")]), event(member, tags=[UNKNOWN_KEY]))
    assert [outcomes(result) for result in results] == [
        [("executed", None)],
        [("failed", "/problems/unknown-tier")],
    ]
    result = shop.track_one(event(member, "member-updated", externalEventDate="2020-01-01T00:00:00Z"))
    assert outcomes(result) == [("failed", "/problems/effect-parameter")]
    assert schedule.of(member) == "Silver"


def test_an_inactive_tier_is_not_set(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold")), eventType=GENERIC)
    path = f"/loyalty-programs/{schedule.program['loyaltyProgramId']}/tiers/{schedule.id('Gold')}"
    shop.administration.put(path, {"name": "Gold", "active": False, "minRequiredPoints": 500, "tierOrder": 2})
    assert outcomes(shop.track_one(event(member))) == [("skipped", "/problems/tier-inactive")]
    assert schedule.of(member) == "Basic"
    assert shop.rows("member_tier_trackings") == []


def test_a_dry_run_changes_nothing(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold")), eventType=GENERIC)
    tiers_before, events_before = stored_tiers(shop), shop.rows("events")
    [result] = shop.track(event(member), executionMode="dryRun")
    assert outcomes(result) == [("evaluated", None)]
    assert stored_tiers(shop) == tiers_before
    assert len(shop.rows("events")) == len(events_before)
    assert shop.rows("member_tier_trackings") == []


# --- cancellations -----------------------------------------------------------------------------------------------


def test_a_cancellation_restores_the_earlier_tier(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold"), mint(250)), eventType=GENERIC)
    tiers_before = stored_tiers(shop)
    track_result = shop.track_one(event(member))
    [tracking] = shop.rows("member_tier_trackings")
    assert cancel(shop, track_result) == [
        {
            "memberTierTrackingId": tracking.member_tier_tracking_id,
            "loyaltyProgramId": schedule.program["loyaltyProgramId"],
            "loyaltyTierId": schedule.id("Gold"),
            "currentLoyaltyTierId": schedule.id("Basic"),
            "outcome": "reverted",
        }
    ]
    assert stored_tiers(shop) == tiers_before
    assert schedule.moves(member) == [(SET, "Basic", "Gold")]
    # Points decide the tier again.
    shop.give(member, 250)
    assert schedule.of(member) == "Silver"


def test_a_cancellation_restores_an_earlier_tier_set_by_request_with_its_expiry(shop, schedule, member):
    schedule.set(member, "Silver", expiresAt=FUTURE)
    tiers_before = stored_tiers(shop)
    shop.campaign(running(sets(schedule, "Gold")), eventType=GENERIC)
    cancel(shop, shop.track_one(event(member)))
    assert stored_tiers(shop) == tiers_before
    assert schedule.entry(member)["expiresAt"] == FUTURE


def test_a_cancellation_returns_the_member_to_the_tier_of_the_current_points(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold")), eventType=GENERIC)
    track_result = shop.track_one(event(member))
    shop.give(member, 300)
    [reversal] = cancel(shop, track_result)
    assert (reversal["currentLoyaltyTierId"], reversal["outcome"]) == (schedule.id("Silver"), "reverted")
    assert schedule.of(member) == "Silver"
    assert schedule.moves(member) == [(SET, "Basic", "Gold"), (SET, "Basic", "Silver")]


def test_a_cancellation_leaves_the_tier_to_later_points_even_if_the_member_had_no_tier_before(shop, schedule, member):
    defaults = shop.organization.defaults
    program = {"name": "Club", "description": "Another one", "ledgerId": defaults.ledger_id, "setAsDefault": False}
    body = {**program, "tierPointsLedgerAccountId": defaults.ledger_account_id}
    club = shop.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    path = f"/loyalty-programs/{club['loyaltyProgramId']}/tiers"
    tiers = {}
    for name, threshold in (("Guest", 0), ("Friend", 50), ("Patron", 90)):
        tier_body = {"name": name, "active": True, "minRequiredPoints": threshold, "tierOrder": threshold}
        tiers[name] = shop.administration.post(path, tier_body)["tier"]
    club_schedule = TierSchedule(shop, club, tiers)
    shop.campaign(running(sets(club_schedule, "Patron")), eventType=GENERIC)
    # The member was enrolled before the club was created.
    assert club_schedule.of(member) is None
    cancel(shop, shop.track_one(event(member)))
    assert club_schedule.of(member) is None
    track_result = shop.track_one(event(member))
    shop.give(member, 60)
    assert club_schedule.of(member) == "Patron"
    cancel(shop, track_result)
    assert club_schedule.of(member) == "Friend"


@pytest.mark.parametrize("requested_tier", ["Silver", "Gold", pytest.param(None, id="unset")])
def test_a_cancellation_keeps_a_tier_that_was_set_by_request_later(shop, schedule, member, requested_tier):
    shop.campaign(running(sets(schedule, "Gold")), eventType=GENERIC)
    track_result = shop.track_one(event(member))
    schedule.set(member, requested_tier)
    tiers_before = stored_tiers(shop)
    [reversal] = cancel(shop, track_result)
    assert reversal["outcome"] == "kept"
    assert stored_tiers(shop) == tiers_before


def test_a_cancellation_after_the_tier_has_expired_keeps_the_tier_of_the_points(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Gold", expiresAt=FUTURE)), eventType=GENERIC)
    track_result = shop.track_one(event(member))
    shop.give(member, 250)
    schedule.expire(member)
    [reversal] = cancel(shop, track_result)
    assert (reversal["outcome"], reversal["currentLoyaltyTierId"]) == ("kept", schedule.id("Silver"))
    assert schedule.of(member) == "Silver"


@pytest.mark.parametrize("order_of_cancellations", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_several_events_that_set_tiers_can_be_cancelled_in_any_order(shop, schedule, member, order_of_cancellations):
    for name in ("Silver", "Gold"):
        shop.campaign(running(sets(schedule, name), rule=f"'{name}' in event.tags"), eventType=GENERIC)
    tiers_before = stored_tiers(shop)
    names = ["Silver", "Gold", "Silver"]
    track_results = shop.track(*(event(member, tags=[name]) for name in names))
    tier_of_event = dict(enumerate(names))
    for index in order_of_cancellations:
        cancel(shop, track_results[index])
        # The latest event that is not cancelled decides.
        del tier_of_event[index]
        assert schedule.of(member) == (tier_of_event[max(tier_of_event)] if tier_of_event else "Basic")
    assert stored_tiers(shop) == tiers_before


def test_a_cancellation_reverts_the_latest_change_of_a_tier_first(shop, schedule, member):
    shop.campaign(running(sets(schedule, "Silver")), eventType=GENERIC)
    is_silver = f"event.payload.loyaltyTierKey == '{schedule.key('Silver')}'"
    shop.campaign(running(sets(schedule, "Gold"), rule=is_silver), eventType=SET)
    tiers_before = stored_tiers(shop)
    track_result = shop.track_one(event(member))
    assert schedule.of(member) == "Gold"
    # In the other order, Silver of the first event would be kept, because Gold is the current tier.
    assert [result["outcome"] for result in cancel(shop, track_result)] == ["reverted", "reverted"]
    assert stored_tiers(shop) == tiers_before


def test_the_number_of_statements_does_not_grow_with_the_number_of_events(shop, schedule):
    shop.campaign(running(sets(schedule, "Gold"), spend(("=", "0.0")), mint(1)), eventType=GENERIC)
    members = [shop.member() for _ in range(10)]

    def statement_count(event_count):
        """Track so many events; return the number of statements that do not reserve numbers of sequences."""
        with count_statements(shop.organization.api.engine) as statements:
            shop.track(*(event(members[n % 10]) for n in range(event_count)))
        return sum("nextval" not in statement for statement in statements)

    # The first call fills caches and creates the balances of all members.
    statement_count(10)
    assert statement_count(1) == statement_count(100)
