"""Tracking while the configuration changes: a batch has read it already, and another call changes it."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

import pytest

from domain.events import IncomingEvent
from handlers.call import Execution
from handlers.services.configuration import configuration_of
from handlers.services.events.track import track
from handlers.services.unit_of_work.unit import UnitOfWork
from persistence import organizations
from tests.builders.campaigns import mint
from tests.builders.tracking import Shop, running


@pytest.fixture
def shop(api):
    return Shop(api.organization())


def incoming_event(member):
    return IncomingEvent(str(uuid.uuid4()), "member-generic-event", loyalty_member_id=member)


def track_events(db, organization, *events):
    """The results of the events, which are tracked in the transaction of `db`."""
    execution = Execution(db=db, organization=organization, now=datetime.now(UTC), request_id="request")
    return [result.response for result in track(UnitOfWork(execution), events)]


def test_events_of_a_member_in_a_tier_that_the_batch_does_not_know_are_tracked(api, shop):
    program = shop.organization.defaults.loyalty_program_id
    with api.engine.begin() as db:
        organization = organizations.find(db, shop.organization.id)
        # The batch reads the configuration, which another call changes after that.
        configuration_of(db, organization)
        body = {"name": "Gold", "active": True, "minRequiredPoints": 0, "tierOrder": 1, "isDefault": True}
        shop.administration.post(f"/loyalty-programs/{program}/tiers", body)
        member = shop.member()
        [result] = track_events(db, organization, incoming_event(member))
    assert result["status"] == "success"


def test_a_mint_creates_lots_if_the_account_has_begun_to_track_points_meanwhile(api, shop):
    member, account = shop.member(), shop.account()
    shop.campaign(running(mint(5, ledgerAccountKey=account["ledgerAccountKey"])))
    path = f"/ledgers/{account['ledgerId']}/accounts/{account['ledgerAccountId']}"
    with api.engine.begin() as db:
        organization = organizations.find(db, shop.organization.id)
        # The batch reads the configuration, which another call changes after that.
        configuration_of(db, organization)
        body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
        shop.administration.put(path, {**body, "pointTrackingEnabled": True})
        track_events(db, organization, incoming_event(member))
    shop.check_ledger()
    # The burn takes its points from the new lot.
    shop.take(member, 5, ledgerAccountId=account["ledgerAccountId"])
    assert shop.balance(member, account["ledgerAccountId"]) == 0
    shop.check_ledger()


def test_a_mint_fails_if_the_account_has_become_inactive_meanwhile(api, shop):
    member, account = shop.member(), shop.account()
    shop.campaign(running(mint(5, ledgerAccountKey=account["ledgerAccountKey"])))
    path = f"/ledgers/{account['ledgerId']}/accounts/{account['ledgerAccountId']}"
    with api.engine.begin() as db:
        organization = organizations.find(db, shop.organization.id)
        # The batch reads the configuration, which another call changes after that.
        configuration_of(db, organization)
        body = {"name": "Stars", "active": False, "isRevolving": True, "chainSyncEnabled": False}
        shop.administration.put(path, body)
        [result] = track_events(db, organization, incoming_event(member))
    assert result["effects"][0]["error"]["type"] == "/problems/account-inactive"


def test_an_event_that_fails_while_it_is_stored_changes_nothing_and_can_be_sent_again(api, shop, monkeypatch):
    member = shop.member()
    shop.campaign(running(mint(5)), maxTransactionsPerMember=3)
    before = len(shop.rows("events"))

    def fail(*_):
        raise RuntimeError("out of luck")

    with monkeypatch.context() as patch:
        patch.setattr("persistence.limit_counters.store", fail)
        body = {"loyaltyMemberId": member, "systemUniqueKey": "k", "eventType": "member-generic-event"}
        shop.integration.post("/events/track", {"events": [body]}, expect=500)
    assert len(shop.rows("events")) == before
    assert shop.balance(member) == 0
    shop.track_one(body)
    assert shop.balance(member) == 5
    shop.check_ledger()
