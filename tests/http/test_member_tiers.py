"""Tiers set by hand: on both surfaces, with and without an expiry, and returned to the points."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from handlers.services.tiers import evaluate_next
from persistence import organizations, transactions
from tests.builders.campaigns import mint
from tests.builders.coupons import CouponBooks
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, key, running

SET, REMOVED = "member-tier-set", "member-tier-removed"
FUTURE = "2099-12-31T23:00:00Z"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def ladder(shop):
    return TierSchedule.new(shop, Silver=200, Gold=500)


@pytest.fixture
def member(ladder, shop):
    return shop.member()


def member_id(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]


def by_id(shop, ladder, member, expect=200, **body):
    program = ladder.program["loyaltyProgramId"]
    path = f"/members/{member_id(shop, member)}/loyalty-programs/{program}/tier"
    return shop.administration.put(path, body, expect=expect)


def by_loyalty_member_id(shop, ladder, member, expect=200, **body):
    body = {"loyaltyProgramId": ladder.program["loyaltyProgramId"], **body}
    return shop.administration.put(f"/members/by-loyalty-member-id/{member}/tier", body, expect=expect)


def test_a_tier_that_is_set_stays_whatever_the_points(shop, ladder, member):
    assert ladder.set(member, "Gold") == {"loyaltyTierKey": ladder.key("Gold")}
    entry = ladder.entry(member)
    assert (entry["loyaltyTierId"], entry["expiresAt"]) == (ladder.id("Gold"), None)
    shop.give(member, 250)
    shop.give(member, 250, "burn")
    assert ladder.of(member) == "Gold"
    assert ladder.moves(member) == [(SET, "Basic", "Gold")]


def test_both_surfaces_set_the_same(shop, ladder, member):
    first = by_id(shop, ladder, member, loyaltyTierId=ladder.id("Gold"), expiresAt=FUTURE)
    assert first == {"loyaltyTierId": ladder.id("Gold"), "memberTierTrackingId": first["memberTierTrackingId"]}
    assert ladder.entry(member)["expiresAt"] == FUTURE
    second = by_loyalty_member_id(shop, ladder, member, loyaltyTierId=ladder.id("Silver"))
    assert second["loyaltyTierId"] == ladder.id("Silver")
    assert second["memberTierTrackingId"] > first["memberTierTrackingId"]
    assert ladder.entry(member) == {
        "loyaltyProgramId": ladder.program["loyaltyProgramId"],
        "loyaltyTierId": ladder.id("Silver"),
        "expiresAt": None,
    }
    path = f"/members/{member_id(shop, member)}/loyalty-programs/{ladder.program['loyaltyProgramId']}/tiers"
    listed = shop.administration.get(path)
    assert (listed["totalCount"], [e["loyaltyTierId"] for e in listed["results"]]) == (1, [ladder.id("Silver")])
    assert shop.administration.get(path, page=1)["results"] == []


def test_every_field_of_the_request_is_stored(shop, ladder, member):
    ladder.set(
        member,
        "Gold",
        expiresAt=FUTURE,
        externalId="ticket-7",
        systemUniqueKey="tier-1",
        description="Old programme",
        tags=["a", "b"],
    )
    [row] = shop.rows("member_tier_trackings")
    assert (row.loyalty_tier_id, row.answered_tier_id) == (ladder.id("Gold"), ladder.id("Gold"))
    assert (row.external_id, row.system_unique_key, row.description, row.tags) == (
        "ticket-7",
        "tier-1",
        "Old programme",
        ["a", "b"],
    )
    [reported] = [event for event in shop.events(member) if event["eventType"] == SET]
    assert reported["reason"] == "Old programme"
    [row] = [row for row in shop.rows("events") if row.event_type == SET]
    assert (row.payload["isManual"], row.payload["expiresAt"]) == (True, FUTURE)


def test_campaigns_evaluate_what_is_set_and_see_the_new_tier(shop, ladder, member):
    shop.campaign(running(mint(5)), eventType=SET, loyaltyTierKeys=[ladder.key("Gold")])
    ladder.set(member, "Silver")
    assert shop.balance(member) == 0
    ladder.set(member, "Gold")
    assert shop.balance(member) == 5


@pytest.mark.parametrize("body", [{}, {"loyaltyTierKey": None, "expiresAt": None, "tags": []}])
def test_unassigning_puts_the_member_where_the_points_belong(shop, ladder, member, body):
    shop.give(member, 250)
    ladder.set(member, "Gold")
    assert ladder.set(member, **body) == {"loyaltyTierKey": ladder.key("Silver")}
    assert ladder.of(member) == "Silver"
    shop.give(member, 250, "burn")
    assert ladder.of(member) == "Basic"
    assert ladder.moves(member) == [
        (SET, "Basic", "Silver"),
        (SET, "Silver", "Gold"),
        (SET, "Gold", "Silver"),
        (SET, "Silver", "Basic"),
    ]


def test_unassigning_reports_nothing_where_nothing_changes(shop, ladder, member):
    response = by_id(shop, ladder, member)
    assert response["loyaltyTierId"] == ladder.id("Basic")
    assert ladder.moves(member) == []
    shop.give(member, 250)
    assert ladder.of(member) == "Silver"


def test_where_the_points_lead_to_no_tier_unassigning_leaves_none(shop, ladder, member):
    created = shop.organization.created
    body = {"ledgerId": created.ledger_id, "description": "Second", "setAsDefault": False}
    body["tierPointsLedgerAccountId"] = created.ledger_account_id
    program = shop.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    tiers = f"/loyalty-programs/{program['loyaltyProgramId']}/tiers"
    body = {"name": "Star", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    star = shop.administration.post(tiers, body)["tier"]
    path = f"/members/{member}/loyalty-programs/{program['loyaltyProgramKey']}/tier"
    assert shop.integration.put(path, {"loyaltyTierKey": star["loyaltyTierKey"]}) == {
        "loyaltyTierKey": star["loyaltyTierKey"]
    }
    assert shop.integration.put(path, {}) == {"loyaltyTierKey": None}
    assert len(shop.integration.get(f"/members/{member}")["loyaltyMember"]["tiers"]) == 1
    assert [event["eventType"] for event in shop.events(member)] == [REMOVED, SET]


# --- refused -----------------------------------------------------------------------------------------------------


def test_invalid_tiers_programs_and_bodies_are_refused(shop, ladder, member):
    path = f"/members/{member}/loyalty-programs/{ladder.program['loyaltyProgramKey']}/tier"
    unknown = "00000000-0000-4000-8000-000000000000"
    problem = shop.integration.put(path, {"loyaltyTierKey": unknown}, expect=404)
    assert problem["type"] == "/problems/unknown-tier"
    problem = by_id(shop, ladder, member, expect=404, loyaltyTierId=10**9)
    assert problem["type"] == "/problems/unknown-tier"
    problem = by_loyalty_member_id(shop, ladder, member, expect=404, loyaltyProgramId=10**9)
    assert problem["type"] == "/problems/unknown-loyalty-program"
    shop.integration.put(f"/members/{member}/loyalty-programs/{unknown}/tier", {}, expect=404)
    shop.integration.put(f"/members/nobody/loyalty-programs/{ladder.program['loyaltyProgramKey']}/tier", {}, expect=404)
    for body, pointer in (
        ({"loyaltyTierKey": ladder.key("Gold"), "expiresAt": "2020-01-01T00:00:00Z"}, "/expiresAt"),
        ({"expiresAt": FUTURE}, "/expiresAt"),
        ({"loyaltyTierKey": "gold"}, "/loyaltyTierKey"),
        ({"colour": "red"}, "/colour"),
    ):
        problem = shop.integration.put(path, body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]
    assert ladder.of(member) == "Basic"
    assert ladder.moves(member) == []
    assert shop.rows("member_tier_trackings") == []


def test_no_member_is_put_into_an_inactive_tier(shop, ladder, member):
    path = f"/loyalty-programs/{ladder.program['loyaltyProgramId']}/tiers/{ladder.id('Gold')}"
    shop.administration.put(path, {"name": "Gold", "active": False, "minRequiredPoints": 500, "tierOrder": 2})
    assert ladder.set(member, "Gold", expect=409)["type"] == "/problems/tier-inactive"
    shop.give(member, 600)
    assert ladder.of(member) == "Silver"


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_tier_that_is_made_inactive_counts_for_nothing_at_once(shop, ladder, member, by_hand):
    shop.give(member, 600)
    if by_hand:
        ladder.set(member, "Gold")
    gold_only = {"rules": {"expression": f'"{ladder.key("Gold")}" in tiers'}}
    shop.campaign(running(mint(1, ledgerAccountKey=shop.account()["ledgerAccountKey"]), **gold_only))
    assert [effect["status"] for effect in shop.track_one(event(member))["effects"]] == ["executed"]
    path = f"/loyalty-programs/{ladder.program['loyaltyProgramId']}/tiers/{ladder.id('Gold')}"
    shop.administration.put(path, {"name": "Gold", "active": False, "minRequiredPoints": 500, "tierOrder": 2})
    assert ladder.of(member) == "Silver"
    assert evaluate(shop) == 1
    assert evaluate(shop) == 0
    assert ladder.of(member) == "Silver"
    assert shop.track_one(event(member))["effects"] == []


def test_events_depend_on_active_tiers_before_the_job_has_run(shop, ladder, member):
    shop.give(member, 600)
    gold_only = {"rules": {"expression": f'"{ladder.key("Gold")}" in tiers'}}
    shop.campaign(running(mint(1, ledgerAccountKey=shop.account()["ledgerAccountKey"]), **gold_only))
    path = f"/loyalty-programs/{ladder.program['loyaltyProgramId']}/tiers/{ladder.id('Gold')}"
    shop.administration.put(path, {"name": "Gold", "active": False, "minRequiredPoints": 500, "tierOrder": 2})
    assert shop.track_one(event(member))["effects"] == []


def test_the_default_tier_is_active(shop, ladder):
    path = f"/loyalty-programs/{ladder.program['loyaltyProgramId']}"
    body = {"name": "Basic", "minRequiredPoints": 0, "tierOrder": 0}
    problem = shop.administration.put(f"{path}/tiers/{ladder.id('Basic')}", {**body, "active": False}, expect=409)
    assert problem["type"] == "/problems/tier-inactive"
    problem = shop.administration.post(f"{path}/tiers", {**body, "active": False, "isDefault": True}, expect=409)
    assert problem["type"] == "/problems/tier-inactive"
    inactive_tier = shop.administration.post(f"{path}/tiers", {**body, "name": "Old", "active": False})["tier"]
    tier_path, old = f"{path}/tiers/{inactive_tier['loyaltyTierId']}", {**body, "name": "Old"}
    program = {name: ladder.program[name] for name in ("ledgerId", "description", "setAsDefault")}
    for address, changes in (
        (tier_path, {**old, "active": False, "isDefault": True}),
        (path, {**program, "defaultTierId": inactive_tier["loyaltyTierId"]}),
    ):
        assert shop.administration.put(address, changes, expect=409)["type"] == "/problems/tier-inactive"
    shop.administration.put(tier_path, {**body, "name": "Old", "active": True, "isDefault": True})


def test_tiers_programs_and_members_of_other_organizations_do_not_exist(shop, ladder, member, other_organization):
    other = Shop(other_organization)
    theirs = TierSchedule.new(other)
    stranger = other.member()
    problem = by_id(shop, ladder, member, expect=404, loyaltyTierId=theirs.id("Basic"))
    assert problem["type"] == "/problems/unknown-tier"
    path = f"/members/{member}/loyalty-programs/{theirs.program['loyaltyProgramKey']}/tier"
    shop.integration.put(path, {}, expect=404)
    path = f"/members/{stranger}/loyalty-programs/{ladder.program['loyaltyProgramKey']}/tier"
    shop.integration.put(path, {}, expect=404)
    by_loyalty_member_id(shop, ladder, stranger, expect=404)
    problem = by_loyalty_member_id(
        shop, ladder, member, expect=404, loyaltyProgramId=theirs.program["loyaltyProgramId"]
    )
    assert problem["type"] == "/problems/unknown-loyalty-program"


def test_a_repeated_key_returns_the_same_tier_and_changes_nothing(shop, ladder, member):
    body = {"expiresAt": FUTURE, "systemUniqueKey": key(), "tags": ["a"]}
    first = ladder.set(member, "Gold", **body)
    ladder.set(member, "Silver")
    assert ladder.set(member, "Gold", **body) == first
    assert ladder.of(member) == "Silver"
    assert by_id(shop, ladder, member, loyaltyTierId=ladder.id("Gold"), **body)["loyaltyTierId"] == ladder.id("Gold")
    assert len(shop.rows("member_tier_trackings")) == 2
    for change in ({"expiresAt": None}, {"tags": ["b"]}, {"description": "other"}, {"externalId": "other"}):
        assert ladder.set(member, "Gold", expect=409, **{**body, **change})["type"] == "/problems/key-reused"
    assert ladder.set(member, "Silver", expect=409, **body)["type"] == "/problems/key-reused"
    assert ladder.set(shop.member(), "Gold", expect=409, **body)["type"] == "/problems/key-reused"


def test_a_repeated_request_returns_its_tier_after_the_expiry(shop, ladder, member):
    soon = (datetime.now(UTC) + timedelta(seconds=0.4)).isoformat()
    body = {"expiresAt": soon, "systemUniqueKey": key()}
    first = ladder.set(member, "Gold", **body)
    ladder.expire(member)
    while datetime.now(UTC) < datetime.fromisoformat(soon):
        pass
    assert ladder.set(member, "Gold", **body) == first
    assert ladder.of(member) == "Basic"


# --- what has expired --------------------------------------------------------------------------------------------


@pytest.fixture
def lapsed(shop, ladder, member):
    """A member with the points for Silver, whose Gold has just expired."""
    shop.give(member, 250)
    ladder.set(member, "Gold", expiresAt=FUTURE)
    ladder.expire(member)
    return member


def evaluate(shop, *, everyone=False):
    engine, after, moves = shop.organization.api.engine, 0, 0
    now = datetime.now(UTC)
    while (
        step := transactions.run(
            engine,
            lambda db, after=after: evaluate_next(
                db, organizations.find(db, shop.organization.id), after, now, everyone=everyone, limit=2
            ),
        )
    ) is not None:
        after, moves = step.last_wallet_id, moves + step.moves
    return moves


def test_reads_return_the_tier_of_the_points_and_write_nothing(shop, ladder, lapsed):
    entry = ladder.entry(lapsed)
    assert (entry["loyaltyTierId"], entry["expiresAt"]) == (ladder.id("Silver"), None)
    path = f"/members/{member_id(shop, lapsed)}/loyalty-programs/{ladder.program['loyaltyProgramId']}/tiers"
    assert [result["loyaltyTierId"] for result in shop.administration.get(path)["results"]] == [ladder.id("Silver")]
    rows = shop.administration.get("/members/search", query=lapsed)["results"]
    assert [row["loyaltyTierId"] for row in rows] == [ladder.id("Silver")]
    [manual_row] = [row for row in shop.rows("member_tiers") if row.is_manual]
    assert manual_row.loyalty_tier_id == ladder.id("Gold")
    assert ladder.moves(lapsed) == [(SET, "Basic", "Silver"), (SET, "Silver", "Gold")]


def test_an_event_uses_the_tier_that_the_points_give_and_stores_it(shop, ladder, lapsed):
    shop.campaign(running(mint(1)), eventType=GENERIC, loyaltyTierKeys=[ladder.key("Silver")])
    shop.campaign(running(mint(7)), eventType=GENERIC, loyaltyTierKeys=[ladder.key("Gold")])
    result = shop.track_one(event(lapsed))
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1]
    assert [row.is_manual for row in shop.rows("member_tiers")] == [False]
    assert ladder.moves(lapsed)[2:] == [(SET, "Gold", "Silver")]
    [last, *_] = [record for record in shop.events(lapsed) if record["eventType"] == SET]
    assert last["reason"] == "Points or a tier had expired."


def test_reads_return_the_tier_that_expired_points_leave(shop, ladder, member):
    book = CouponBooks(shop.organization).make(
        type="codeless", tierKeys=[ladder.key("Silver")], publishingStatus="published"
    )
    shop.give(member, 250)
    path = f"/members/{member}/coupon-books"
    assert ladder.of(member) == "Silver"
    assert [result["couponBookKey"] for result in shop.integration.get(path)["results"]] == [book["couponBookKey"]]
    with shop.organization.api.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE ledger_lots SET expires_at = now() - interval '1 second' WHERE organization_id = %s",
            (shop.organization.id,),
        )
    assert shop.balance(member) == 0
    assert ladder.of(member) == "Basic"
    [row] = shop.administration.get("/members/search", query=member)["results"]
    assert row["loyaltyTierId"] == ladder.id("Basic")
    [row] = shop.integration.get("/members", loyaltyMemberId=member)["results"]
    assert [tier["loyaltyTierId"] for tier in row["tiers"]] == [ladder.id("Basic")]
    assert shop.integration.get(path)["results"] == []
    # A tier that was set by hand stays.
    ladder.set(member, "Gold")
    assert ladder.of(member) == "Gold"


def test_points_that_move_settle_the_tier(shop, ladder, lapsed):
    shop.give(lapsed, 1)
    assert ladder.moves(lapsed)[2:] == [(SET, "Gold", "Silver")]
    assert [row.is_manual for row in shop.rows("member_tiers")] == [False]


def test_evaluating_writes_and_reports_what_has_expired(shop, ladder, lapsed):
    others = [shop.member() for _ in range(4)]
    for other in others[:3]:
        ladder.set(other, "Gold", expiresAt=FUTURE)
    for other in others[:2]:
        ladder.expire(other)
    assert evaluate(shop) == 3
    assert ladder.moves(lapsed)[2:] == [(SET, "Gold", "Silver")]
    assert [ladder.moves(other)[-1:] for other in others] == [
        [(SET, "Gold", "Basic")],
        [(SET, "Gold", "Basic")],
        [(SET, "Basic", "Gold")],
        [],
    ]
    assert sorted(row.is_manual for row in shop.rows("member_tiers")) == [False] * 4 + [True]
    assert evaluate(shop) == 0


def test_evaluating_everybody_follows_changed_thresholds(shop, ladder, member):
    others = [shop.member() for _ in range(4)]
    for other in others:
        shop.give(other, 150)
    ladder.set(others[0], "Gold")
    path = f"/loyalty-programs/{ladder.program['loyaltyProgramId']}/tiers/{ladder.id('Silver')}"
    shop.administration.put(path, {"name": "Silver", "active": True, "minRequiredPoints": 100, "tierOrder": 1})
    assert evaluate(shop) == 0
    assert evaluate(shop, everyone=True) == 3
    assert [ladder.of(person) for person in (member, *others)] == ["Basic", "Gold", "Silver", "Silver", "Silver"]
    assert evaluate(shop, everyone=True) == 0


def test_an_inactive_program_moves_no_tiers(shop, ladder, member):
    body = {name: ladder.program[name] for name in ("ledgerId", "description", "defaultTierId")}
    body |= {"tierPointsLedgerAccountId": shop.organization.created.ledger_account_id, "setAsDefault": True}
    shop.administration.put(f"/loyalty-programs/{ladder.program['loyaltyProgramId']}", {**body, "active": False})
    shop.give(member, 600)
    assert ladder.of(member) == "Basic"
    shop.administration.put(f"/loyalty-programs/{ladder.program['loyaltyProgramId']}", {**body, "active": True})
    shop.give(member, 1)
    assert ladder.of(member) == "Gold"
