"""Offline allowances that several calls of tills, or of an app, create, redeem and cancel at the same time."""

from __future__ import annotations

from functools import partial

import pytest

from tests.builders.tracking import key
from tests.concurrency.simultaneous import run_simultaneously, statuses


@pytest.fixture
def member(shop):
    """A member with 100 points on an account that allows an offline allowance of up to 40."""
    defaults = shop.organization.defaults
    body = {"name": "Points", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    body["offlineAllowance"] = {"enabled": True, "maxAmount": 40}
    shop.administration.put(f"/ledgers/{defaults.ledger_id}/accounts/{defaults.ledger_account_id}", body)
    member = shop.member()
    shop.give(member, 100)
    return member


def creation(shop, member, request_key=None):
    """A call that creates an allowance of 40 points, by default with an unused key."""
    body = {"amount": 40, "systemUniqueKey": request_key or key()}
    return partial(shop.integration.request, "POST", f"/members/{member}/offline-allowances", body)


def redemption(shop, allowance, request_key=None):
    """A call that redeems 25 points of an allowance, by default with an unused key."""
    body = {"token": allowance["token"], "amount": 25, "externalEventDate": allowance["createdAt"]}
    body["systemUniqueKey"] = request_key or key()
    return partial(shop.integration.request, "POST", "/offline-allowances/redeem", body)


def test_only_one_of_20_redemptions_of_an_allowance_succeeds(shop, member):
    allowance = creation(shop, member)().json["offlineAllowance"]
    replies = run_simultaneously([redemption(shop, allowance) for _ in range(20)])
    assert statuses(replies) == {(200, None): 1, (409, "/problems/offline-allowance-redeemed"): 19}
    assert shop.balance(member) == 100 - 25


def test_20_repetitions_of_a_redemption_burn_once(shop, member):
    allowance = creation(shop, member)().json["offlineAllowance"]
    replies = run_simultaneously([redemption(shop, allowance, "till-4/1718")] * 20)
    assert statuses(replies) == {(200, None): 20}
    assert len({reply.text for reply in replies}) == 1
    assert shop.balance(member) == 100 - 25


def test_only_one_of_20_calls_creates_an_allowance(shop, member):
    replies = run_simultaneously([creation(shop, member) for _ in range(20)])
    assert statuses(replies) == {(201, None): 1, (409, "/problems/offline-allowance-limit"): 19}


def test_20_repetitions_of_a_creation_create_one_allowance(shop, member):
    replies = run_simultaneously([creation(shop, member, "app-12")] * 20)
    assert statuses(replies) == {(201, None): 20}
    assert len({reply.json["offlineAllowance"]["offlineAllowanceKey"] for reply in replies}) == 1


def test_either_the_redemption_or_the_cancellation_of_an_allowance_succeeds(shop, member):
    for balance_before in (100, 75, 50):
        allowance = creation(shop, member)().json["offlineAllowance"]
        cancel_path = f"/offline-allowances/{allowance['offlineAllowanceKey']}/cancel"
        redemption_reply, cancellation_reply = run_simultaneously(
            [redemption(shop, allowance), partial(shop.integration.request, "POST", cancel_path)]
        )
        assert sorted([redemption_reply.status, cancellation_reply.status]) == [200, 409]
        if redemption_reply.status == 409:
            assert shop.balance(member) == balance_before
            # The next round begins with 25 points less, as after a redemption.
            shop.take(member, 25)


def test_one_key_redeems_only_one_of_two_allowances(shop, member):
    other_member = shop.member()
    shop.give(other_member, 100)
    allowances = [creation(shop, person)().json["offlineAllowance"] for person in (member, other_member)]
    replies = run_simultaneously([redemption(shop, allowance, "till-4/1718") for allowance in allowances] * 4)
    assert statuses(replies) == {(200, None): 4, (409, "/problems/key-reused"): 4}
    assert shop.balance(member) + shop.balance(other_member) == 2 * 100 - 25
