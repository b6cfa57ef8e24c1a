"""Imports without events that meet points and tiers that are due: what was due is reported as in other calls."""

from __future__ import annotations

import pytest

from handlers.services.imports import work
from tests.builders.campaigns import mint
from tests.builders.clock import install_clock
from tests.builders.imports import Imports
from tests.builders.tracking import Shop, running

IMPORTS = {
    "balances": "loyaltyMemberId,amount\nana,5\n",
    "badges": "loyaltyMemberId,badge\nana,Lark\n",
}
# The points that each import gives.
IMPORTED_POINTS = {"balances": 5, "badges": 0}


@pytest.fixture
def clock(monkeypatch):
    """A clock that calls and imports use."""
    clock = install_clock(monkeypatch)
    monkeypatch.setattr(work, "datetime", clock)
    return clock


@pytest.fixture
def shop(organization):
    """An organization with the member ana and a badge."""
    organization.member("ana")
    organization.integration.post("/badges", {"name": "Lark", "maxAmount": 9, "active": True})
    return Shop(organization)


@pytest.mark.parametrize("kind", IMPORTS)
def test_campaigns_evaluate_points_that_became_available_before_the_import(shop, clock, kind):
    shop.campaign(running(mint(7)), eventType="points-available")
    shop.give("ana", 10, availableAt=clock.moment(hours=1))
    clock.wait(hours=2)
    record = Imports(shop.organization).run(IMPORTS[kind], kind=kind)
    assert (record["status"], record["rowsDone"]) == ("done", 1)
    assert [event["eventType"] for event in shop.events("ana")] == ["points-available"]
    assert shop.balance("ana") == 10 + 7 + IMPORTED_POINTS[kind]
    shop.check_ledger()


@pytest.mark.parametrize("kind", IMPORTS)
def test_the_end_of_a_tier_before_the_import_is_reported(shop, clock, kind):
    program = f"/loyalty-programs/{shop.organization.defaults.loyalty_program_id}"
    body = {"name": "Gold", "active": True, "minRequiredPoints": 1000, "tierOrder": 1}
    tier = shop.administration.post(f"{program}/tiers", body)["tier"]
    member_id = shop.integration.get("/members/ana")["loyaltyMember"]["memberId"]
    setting = {"loyaltyTierId": tier["loyaltyTierId"], "expiresAt": clock.moment(hours=1)}
    shop.administration.put(f"/members/{member_id}{program}/tier", setting)
    clock.wait(hours=2)
    Imports(shop.organization).run(IMPORTS[kind], kind=kind)
    assert [event["reason"] for event in shop.events("ana")] == [
        "The tier had expired.",
        "The tier was set by request.",
    ]
