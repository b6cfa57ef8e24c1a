"""Tiers set by request on both surfaces, with and without an expiry, and tiers that follow the points again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from handlers.services.tiers import evaluate_next
from persistence import organizations, transactions
from tests.builders.campaigns import effect, mint
from tests.builders.coupons import CouponBooks
from tests.builders.tiers import TierSchedule
from tests.builders.tracking import GENERIC, Shop, event, key, running

SET, REMOVED = "member-tier-set", "member-tier-removed"
FUTURE = "2099-12-31T23:00:00Z"


@pytest.fixture
def shop(organization):
    return Shop(organization)


@pytest.fixture
def tiers(shop):
    """Silver requires 200 points, gold 500; all other members have the default tier, Basic."""
    return TierSchedule.new(shop, Silver=200, Gold=500)


@pytest.fixture
def member(tiers, shop):
    """The loyaltyMemberId of a new member, who has no points."""
    return shop.member()


def member_id(shop, member):
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["memberId"]


def set_by_member_id(shop, tiers, member, expect=200, **body):
    """Set a tier by the memberId, in the administration; without a tier, unset it. Return the response."""
    program = tiers.program["loyaltyProgramId"]
    path = f"/members/{member_id(shop, member)}/loyalty-programs/{program}/tier"
    return shop.administration.put(path, body, expect=expect)


def set_by_loyalty_member_id(shop, tiers, member, expect=200, **body):
    """Set a tier by the loyaltyMemberId, in the administration; return the response."""
    body = {"loyaltyProgramId": tiers.program["loyaltyProgramId"], **body}
    return shop.administration.put(f"/members/by-loyalty-member-id/{member}/tier", body, expect=expect)


def test_a_tier_that_is_set_by_request_does_not_depend_on_points(shop, tiers, member):
    assert tiers.set(member, "Gold") == {"loyaltyTierKey": tiers.key("Gold")}
    entry = tiers.entry(member)
    assert (entry["loyaltyTierId"], entry["expiresAt"]) == (tiers.id("Gold"), None)
    shop.give(member, 250)
    shop.take(member, 250)
    assert tiers.of(member) == "Gold"
    assert tiers.moves(member) == [(SET, "Basic", "Gold")]


def test_both_surfaces_set_tiers(shop, tiers, member):
    gold = set_by_member_id(shop, tiers, member, loyaltyTierId=tiers.id("Gold"), expiresAt=FUTURE)
    assert gold == {"loyaltyTierId": tiers.id("Gold"), "memberTierTrackingId": gold["memberTierTrackingId"]}
    assert tiers.entry(member)["expiresAt"] == FUTURE
    silver = set_by_loyalty_member_id(shop, tiers, member, loyaltyTierId=tiers.id("Silver"))
    assert silver["loyaltyTierId"] == tiers.id("Silver")
    assert silver["memberTierTrackingId"] > gold["memberTierTrackingId"]
    assert tiers.entry(member) == {
        "loyaltyProgramId": tiers.program["loyaltyProgramId"],
        "loyaltyTierId": tiers.id("Silver"),
        "expiresAt": None,
    }
    path = f"/members/{member_id(shop, member)}/loyalty-programs/{tiers.program['loyaltyProgramId']}/tiers"
    page = shop.administration.get(path)
    assert (page["totalCount"], [entry["loyaltyTierId"] for entry in page["results"]]) == (1, [tiers.id("Silver")])
    assert shop.administration.get(path, page=1)["results"] == []


def test_every_field_of_the_request_is_stored(shop, tiers, member):
    tiers.set(
        member,
        "Gold",
        expiresAt=FUTURE,
        externalId="ticket-7",
        systemUniqueKey="tier-1",
        description="Old programme",
        tags=["a", "b"],
    )
    [tracking] = shop.rows("member_tier_trackings")
    assert (tracking.loyalty_tier_id, tracking.answered_tier_id) == (tiers.id("Gold"), tiers.id("Gold"))
    assert (tracking.external_id, tracking.system_unique_key) == ("ticket-7", "tier-1")
    assert (tracking.description, tracking.tags) == ("Old programme", ["a", "b"])
    [tier_event] = [event for event in shop.events(member) if event["eventType"] == SET]
    assert tier_event["reason"] == "Old programme"
    assert (tier_event["externalId"], tier_event["tags"]) == ("ticket-7", ["a", "b"])
    [stored_event] = [row for row in shop.rows("events") if row.event_type == SET]
    assert (stored_event.payload["isManual"], stored_event.payload["expiresAt"]) == (True, FUTURE)


def test_only_the_event_of_the_tier_has_the_external_id_and_the_tags_of_the_request(shop, tiers, member):
    id_and_tags = {"externalId": "ticket-7", "tags": ["a"]}
    shop.campaign(running(mint(5), rule='event.tags == ["a"]'), eventType=SET)
    shop.campaign(running(effect("notify", name="moved")), eventType="ledger-transaction-created")
    # The second request unsets the tier.
    tiers.set(member, "Gold", **id_and_tags)
    tiers.set(member, **id_and_tags)
    assert shop.balance(member) == 2 * 5
    # Each request causes an event of the tier, whose mint causes an event of the ledger.
    records = shop.events(member)
    assert len(records) == 2 * 2
    for record in records:
        expected_fields = ("ticket-7", ["a"]) if record["eventType"] == SET else (None, [])
        assert (record["externalId"], record["tags"]) == expected_fields
    # The third request changes no tier, so there is no event with them.
    tiers.set(member, **id_and_tags)
    assert len(tiers.moves(member)) == 2


def test_a_campaign_that_is_evaluated_when_a_tier_is_set_sees_the_new_tier(shop, tiers, member):
    shop.campaign(running(mint(5)), eventType=SET, loyaltyTierKeys=[tiers.key("Gold")])
    tiers.set(member, "Silver")
    assert shop.balance(member) == 0
    tiers.set(member, "Gold")
    assert shop.balance(member) == 5


@pytest.mark.parametrize("body", [{}, {"loyaltyTierKey": None, "expiresAt": None, "tags": []}])
def test_unassigning_a_tier_gives_the_member_the_tier_of_the_points(shop, tiers, member, body):
    shop.give(member, 250)
    tiers.set(member, "Gold")
    assert tiers.set(member, **body) == {"loyaltyTierKey": tiers.key("Silver")}
    assert tiers.of(member) == "Silver"
    shop.take(member, 250)
    assert tiers.of(member) == "Basic"
    assert tiers.moves(member) == [
        (SET, "Basic", "Silver"),
        (SET, "Silver", "Gold"),
        (SET, "Gold", "Silver"),
        (SET, "Silver", "Basic"),
    ]


def test_unassigning_a_tier_that_follows_the_points_reports_no_event(shop, tiers, member):
    response = set_by_member_id(shop, tiers, member)
    assert response["loyaltyTierId"] == tiers.id("Basic")
    assert tiers.moves(member) == []
    shop.give(member, 250)
    assert tiers.of(member) == "Silver"


def test_unassigning_the_tier_of_a_second_program_leaves_only_the_default_tier_of_the_first(shop, tiers, member):
    defaults = shop.organization.defaults
    body = {"ledgerId": defaults.ledger_id, "description": "Second", "setAsDefault": False}
    body["tierPointsLedgerAccountId"] = defaults.ledger_account_id
    program = shop.administration.post("/loyalty-programs", body)["loyaltyProgram"]
    tiers_path = f"/loyalty-programs/{program['loyaltyProgramId']}/tiers"
    body = {"name": "Star", "active": True, "minRequiredPoints": 10, "tierOrder": 1}
    star = shop.administration.post(tiers_path, body)["tier"]
    path = f"/members/{member}/loyalty-programs/{program['loyaltyProgramKey']}/tier"
    key_of_star = {"loyaltyTierKey": star["loyaltyTierKey"]}
    assert shop.integration.put(path, key_of_star) == key_of_star
    # The second program has no default tier.
    assert shop.integration.put(path, {}) == {"loyaltyTierKey": None}
    assert len(shop.integration.get(f"/members/{member}")["loyaltyMember"]["tiers"]) == 1
    assert [event["eventType"] for event in shop.events(member)] == [REMOVED, SET]


# --- refused -----------------------------------------------------------------------------------------------------


def test_invalid_tiers_programs_and_bodies_are_refused(shop, tiers, member):
    path = f"/members/{member}/loyalty-programs/{tiers.program['loyaltyProgramKey']}/tier"
    unknown_key = "00000000-0000-4000-8000-000000000000"
    problem = shop.integration.put(path, {"loyaltyTierKey": unknown_key}, expect=404)
    assert problem["type"] == "/problems/unknown-tier"
    problem = set_by_member_id(shop, tiers, member, expect=404, loyaltyTierId=10**9)
    assert problem["type"] == "/problems/unknown-tier"
    problem = set_by_loyalty_member_id(shop, tiers, member, expect=404, loyaltyProgramId=10**9)
    assert problem["type"] == "/problems/unknown-loyalty-program"
    shop.integration.put(f"/members/{member}/loyalty-programs/{unknown_key}/tier", {}, expect=404)
    shop.integration.put(f"/members/nobody/loyalty-programs/{tiers.program['loyaltyProgramKey']}/tier", {}, expect=404)
    for body, pointer in (
        ({"loyaltyTierKey": tiers.key("Gold"), "expiresAt": "2020-01-01T00:00:00Z"}, "/expiresAt"),
        ({"expiresAt": FUTURE}, "/expiresAt"),
        ({"loyaltyTierKey": "gold"}, "/loyaltyTierKey"),
        ({"colour": "red"}, "/colour"),
    ):
        problem = shop.integration.put(path, body, expect=400)
        assert [fault["pointer"] for fault in problem["errors"]] == [pointer]
    assert tiers.of(member) == "Basic"
    assert tiers.moves(member) == []
    assert shop.rows("member_tier_trackings") == []


def deactivate_gold(shop, tiers):
    """Make the tier Gold, which requires 500 points, inactive."""
    path = f"/loyalty-programs/{tiers.program['loyaltyProgramId']}/tiers/{tiers.id('Gold')}"
    shop.administration.put(path, {"name": "Gold", "active": False, "minRequiredPoints": 500, "tierOrder": 2})


def create_campaign_for_gold(shop, tiers):
    """A campaign for gold members; it mints points of an account on which the tiers do not depend."""
    one_star = mint(1, ledgerAccountKey=shop.account()["ledgerAccountKey"])
    shop.campaign(running(one_star, rule=f'"{tiers.key("Gold")}" in tiers'))


def test_no_member_gets_an_inactive_tier_by_request_or_by_points(shop, tiers, member):
    deactivate_gold(shop, tiers)
    assert tiers.set(member, "Gold", expect=409)["type"] == "/problems/tier-inactive"
    shop.give(member, 600)
    assert tiers.of(member) == "Silver"


@pytest.mark.parametrize("is_set_by_request", [False, True])
def test_a_tier_that_becomes_inactive_no_longer_counts_for_its_members(shop, tiers, member, is_set_by_request):
    shop.give(member, 600)
    if is_set_by_request:
        tiers.set(member, "Gold")
    create_campaign_for_gold(shop, tiers)
    assert [effect["status"] for effect in shop.track_one(event(member))["effects"]] == ["executed"]
    deactivate_gold(shop, tiers)
    assert tiers.of(member) == "Silver"
    # The job stores the tier Silver once.
    assert evaluate(shop) == 1
    assert evaluate(shop) == 0
    assert tiers.of(member) == "Silver"
    assert shop.track_one(event(member))["effects"] == []


def test_rules_ignore_an_inactive_tier_even_before_the_job_has_stored_the_new_tier(shop, tiers, member):
    shop.give(member, 600)
    create_campaign_for_gold(shop, tiers)
    deactivate_gold(shop, tiers)
    assert shop.track_one(event(member))["effects"] == []


def test_a_default_tier_cannot_be_inactive(shop, tiers):
    path = f"/loyalty-programs/{tiers.program['loyaltyProgramId']}"
    body = {"name": "Basic", "minRequiredPoints": 0, "tierOrder": 0}
    problem = shop.administration.put(f"{path}/tiers/{tiers.id('Basic')}", {**body, "active": False}, expect=409)
    assert problem["type"] == "/problems/tier-inactive"
    problem = shop.administration.post(f"{path}/tiers", {**body, "active": False, "isDefault": True}, expect=409)
    assert problem["type"] == "/problems/tier-inactive"
    inactive_tier = shop.administration.post(f"{path}/tiers", {**body, "name": "Old", "active": False})["tier"]
    # To make the inactive tier the default one, by an update of the tier or of the program.
    tier_path, old_body = f"{path}/tiers/{inactive_tier['loyaltyTierId']}", {**body, "name": "Old"}
    program = {name: tiers.program[name] for name in ("ledgerId", "description", "setAsDefault")}
    for address, changes in (
        (tier_path, {**old_body, "active": False, "isDefault": True}),
        (path, {**program, "defaultTierId": inactive_tier["loyaltyTierId"]}),
    ):
        assert shop.administration.put(address, changes, expect=409)["type"] == "/problems/tier-inactive"
    shop.administration.put(tier_path, {**body, "name": "Old", "active": True, "isDefault": True})


def test_tiers_programs_and_members_of_another_organization_are_unknown(shop, tiers, member, other_organization):
    other_shop = Shop(other_organization)
    other_tiers = TierSchedule.new(other_shop)
    stranger = other_shop.member()
    problem = set_by_member_id(shop, tiers, member, expect=404, loyaltyTierId=other_tiers.id("Basic"))
    assert problem["type"] == "/problems/unknown-tier"
    path = f"/members/{member}/loyalty-programs/{other_tiers.program['loyaltyProgramKey']}/tier"
    shop.integration.put(path, {}, expect=404)
    path = f"/members/{stranger}/loyalty-programs/{tiers.program['loyaltyProgramKey']}/tier"
    shop.integration.put(path, {}, expect=404)
    set_by_loyalty_member_id(shop, tiers, stranger, expect=404)
    problem = set_by_loyalty_member_id(
        shop, tiers, member, expect=404, loyaltyProgramId=other_tiers.program["loyaltyProgramId"]
    )
    assert problem["type"] == "/problems/unknown-loyalty-program"


def test_a_repeated_key_returns_the_same_tier_and_changes_nothing(shop, tiers, member):
    body = {"expiresAt": FUTURE, "systemUniqueKey": key(), "tags": ["a"]}
    first_response = tiers.set(member, "Gold", **body)
    tiers.set(member, "Silver")
    assert tiers.set(member, "Gold", **body) == first_response
    assert tiers.of(member) == "Silver"
    # The same request on the other surface returns the id of the tier.
    response = set_by_member_id(shop, tiers, member, loyaltyTierId=tiers.id("Gold"), **body)
    assert response["loyaltyTierId"] == tiers.id("Gold")
    assert len(shop.rows("member_tier_trackings")) == 2
    for change in ({"expiresAt": None}, {"tags": ["b"]}, {"description": "other"}, {"externalId": "other"}):
        assert tiers.set(member, "Gold", expect=409, **{**body, **change})["type"] == "/problems/key-reused"
    assert tiers.set(member, "Silver", expect=409, **body)["type"] == "/problems/key-reused"
    assert tiers.set(shop.member(), "Gold", expect=409, **body)["type"] == "/problems/key-reused"


@pytest.mark.slow
def test_a_repeated_request_returns_its_tier_after_the_expiry(shop, tiers, member):
    soon = (datetime.now(UTC) + timedelta(seconds=0.4)).isoformat()
    body = {"expiresAt": soon, "systemUniqueKey": key()}
    first_response = tiers.set(member, "Gold", **body)
    tiers.expire(member)
    while datetime.now(UTC) < datetime.fromisoformat(soon):
        pass
    assert tiers.set(member, "Gold", **body) == first_response
    assert tiers.of(member) == "Basic"


# --- expiry ------------------------------------------------------------------------------------------------------


@pytest.fixture
def member_after_gold(shop, tiers, member):
    """A member with the points for Silver, whose tier Gold, which was set by request, has just expired."""
    shop.give(member, 250)
    tiers.set(member, "Gold", expiresAt=FUTURE)
    tiers.expire(member)
    return member


def evaluate(shop, *, everyone=False):
    """Run the job that writes changed tiers, 2 members at once; return the number of changed tiers.

    Without `everyone`, only members whose points or tiers have expired are evaluated.
    """
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


def test_reads_return_the_tier_of_the_points_and_write_nothing(shop, tiers, member_after_gold):
    entry = tiers.entry(member_after_gold)
    assert (entry["loyaltyTierId"], entry["expiresAt"]) == (tiers.id("Silver"), None)
    path = f"/members/{member_id(shop, member_after_gold)}/loyalty-programs/{tiers.program['loyaltyProgramId']}/tiers"
    assert [result["loyaltyTierId"] for result in shop.administration.get(path)["results"]] == [tiers.id("Silver")]
    rows = shop.administration.get("/members/search", query=member_after_gold)["results"]
    assert [row["loyaltyTierId"] for row in rows] == [tiers.id("Silver")]
    # The stored tier is still the expired one.
    [manual_row] = [row for row in shop.rows("member_tiers") if row.is_manual]
    assert manual_row.loyalty_tier_id == tiers.id("Gold")
    assert tiers.moves(member_after_gold) == [(SET, "Basic", "Silver"), (SET, "Silver", "Gold")]


def test_an_event_uses_and_stores_the_tier_of_the_points_after_an_expiry(shop, tiers, member_after_gold):
    shop.campaign(running(mint(1)), eventType=GENERIC, loyaltyTierKeys=[tiers.key("Silver")])
    shop.campaign(running(mint(7)), eventType=GENERIC, loyaltyTierKeys=[tiers.key("Gold")])
    result = shop.track_one(event(member_after_gold))
    assert [effect["params"][0]["value"] for effect in result["effects"]] == [1]
    assert [row.is_manual for row in shop.rows("member_tiers")] == [False]
    assert tiers.moves(member_after_gold)[2:] == [(SET, "Gold", "Silver")]
    newest_tier_event = next(record for record in shop.events(member_after_gold) if record["eventType"] == SET)
    assert newest_tier_event["reason"] == "The tier had expired."


def test_reads_return_the_tier_of_the_points_that_have_not_expired(shop, tiers, member):
    book = CouponBooks(shop.organization).make(
        type="codeless", tierKeys=[tiers.key("Silver")], publishingStatus="published"
    )
    shop.give(member, 250)
    path = f"/members/{member}/coupon-books"
    assert tiers.of(member) == "Silver"
    assert [result["couponBookKey"] for result in shop.integration.get(path)["results"]] == [book["couponBookKey"]]
    with shop.organization.api.engine.begin() as db:
        db.exec_driver_sql(
            "UPDATE ledger_lots SET expires_at = now() - interval '1 second' WHERE organization_id = %s",
            (shop.organization.id,),
        )
    assert shop.balance(member) == 0
    assert tiers.of(member) == "Basic"
    [search_result] = shop.administration.get("/members/search", query=member)["results"]
    assert search_result["loyaltyTierId"] == tiers.id("Basic")
    [listed_member] = shop.integration.get("/members", loyaltyMemberId=member)["results"]
    assert [tier["loyaltyTierId"] for tier in listed_member["tiers"]] == [tiers.id("Basic")]
    assert shop.integration.get(path)["results"] == []
    # A tier that is set by request does not depend on points.
    tiers.set(member, "Gold")
    assert tiers.of(member) == "Gold"


def test_a_movement_of_points_stores_the_tier_of_the_points_after_an_expiry(shop, tiers, member_after_gold):
    shop.give(member_after_gold, 1)
    assert tiers.moves(member_after_gold)[2:] == [(SET, "Gold", "Silver")]
    assert [row.is_manual for row in shop.rows("member_tiers")] == [False]


def test_the_job_stores_and_reports_the_tiers_of_members_whose_tiers_have_expired(shop, tiers, member_after_gold):
    ben, cleo, gold_member, basic_member = (shop.member() for _ in range(4))
    for name in (ben, cleo, gold_member):
        tiers.set(name, "Gold", expiresAt=FUTURE)
    for name in (ben, cleo):
        tiers.expire(name)
    # The member with the points for Silver, and ben and cleo.
    assert evaluate(shop) == 3
    assert tiers.moves(member_after_gold)[2:] == [(SET, "Gold", "Silver")]
    assert tiers.moves(ben)[-1:] == [(SET, "Gold", "Basic")]
    assert tiers.moves(cleo)[-1:] == [(SET, "Gold", "Basic")]
    assert tiers.moves(gold_member)[-1:] == [(SET, "Basic", "Gold")]
    assert tiers.moves(basic_member) == []
    assert sorted(row.is_manual for row in shop.rows("member_tiers")) == [False] * 4 + [True]
    assert evaluate(shop) == 0


def test_the_job_reports_the_end_of_a_tier_that_was_set_if_points_decide_no_tier(shop, tiers, member):
    program = {name: tiers.program[name] for name in ("name", "active", "ledgerId", "description", "defaultTierId")}
    body = {**program, "setAsDefault": True, "tierPointsLedgerAccountId": None}
    shop.administration.put(f"/loyalty-programs/{tiers.program['loyaltyProgramId']}", body)
    tiers.set(member, "Gold", expiresAt=FUTURE)
    tiers.expire(member)
    assert evaluate(shop) == 1
    assert tiers.moves(member)[-1:] == [(SET, "Gold", "Basic")]
    assert [row.is_manual for row in shop.rows("member_tiers")] == [False]
    assert evaluate(shop) == 0


def test_the_job_applies_changed_thresholds_if_it_evaluates_everyone(shop, tiers, member):
    other_members = [shop.member() for _ in range(4)]
    for other_member in other_members:
        shop.give(other_member, 150)
    tiers.set(other_members[0], "Gold")
    path = f"/loyalty-programs/{tiers.program['loyaltyProgramId']}/tiers/{tiers.id('Silver')}"
    shop.administration.put(path, {"name": "Silver", "active": True, "minRequiredPoints": 100, "tierOrder": 1})
    assert evaluate(shop) == 0
    # The three members with 150 points whose tier was not set by request.
    assert evaluate(shop, everyone=True) == 3
    assert [tiers.of(person) for person in (member, *other_members)] == ["Basic", "Gold", "Silver", "Silver", "Silver"]
    assert evaluate(shop, everyone=True) == 0


def test_an_inactive_program_moves_no_tiers(shop, tiers, member):
    body = {name: tiers.program[name] for name in ("ledgerId", "description", "defaultTierId")}
    body |= {"tierPointsLedgerAccountId": shop.organization.defaults.ledger_account_id, "setAsDefault": True}
    shop.administration.put(f"/loyalty-programs/{tiers.program['loyaltyProgramId']}", {**body, "active": False})
    # Gold needs 500 points.
    shop.give(member, 600)
    assert tiers.of(member) == "Basic"
    shop.administration.put(f"/loyalty-programs/{tiers.program['loyaltyProgramId']}", {**body, "active": True})
    shop.give(member, 1)
    assert tiers.of(member) == "Gold"


def test_an_inactive_program_gives_its_default_tier_to_new_members_and_other_tiers_on_request(shop, tiers):
    body = {name: tiers.program[name] for name in ("ledgerId", "description", "defaultTierId")}
    path = f"/loyalty-programs/{tiers.program['loyaltyProgramId']}"
    shop.administration.put(path, {**body, "setAsDefault": True, "active": False})
    member = shop.member()
    assert tiers.of(member) == "Basic"
    tiers.set(member, "Gold")
    assert tiers.of(member) == "Gold"
    record = shop.integration.get(f"/members/{member}")["loyaltyMember"]
    assert tiers.program["loyaltyProgramKey"] not in [status["loyaltyProgramKey"] for status in record["tierStatus"]]
