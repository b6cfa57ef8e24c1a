"""Expiration dates of points: stored if the account tracks points, and refused if it does not."""

from __future__ import annotations

import pytest

from tests.builders.campaigns import mint
from tests.builders.points import Points
from tests.builders.tracking import Shop, event, running

EXPIRY = "2099-12-31T23:59:59Z"
NOT_TRACKED = "/problems/points-not-tracked"


@pytest.fixture
def untracked_points(organization):
    """An account that does not track points."""
    return Points.new(organization)


@pytest.fixture
def shop(organization):
    return Shop(organization)


def test_the_default_account_of_a_new_organization_tracks_points(organization):
    accounts = organization.administration.get(f"/ledgers/{organization.defaults.ledger_id}/accounts")["results"]
    assert [result["pointTrackingEnabled"] for result in accounts] == [True]
    wallet = organization.member()["ledgerWalletId"]
    path = f"/ledgers/{organization.defaults.ledger_id}/wallets/{wallet}/mint"
    organization.administration.post(path, {"amount": 5, "expirationDate": EXPIRY}, expect=200)
    account = f"/ledgers/{organization.defaults.ledger_id}/accounts/{organization.defaults.ledger_account_id}"
    record = organization.administration.get(f"{account}/wallets/{wallet}", include="lots")["wallet"]
    assert [lot["expiresAt"] for lot in record["lots"]["expiring"]] == [EXPIRY]


def test_an_account_that_does_not_track_points_refuses_wallet_mints_with_an_expiration_date(
    organization, untracked_points
):
    wallet = untracked_points.wallet()
    # The request mints to the default account, which tracks points in a new organization.
    untracked_points.change(
        "UPDATE ledger_accounts SET point_tracking_enabled = false WHERE ledger_account_id = :id",
        id=organization.defaults.ledger_account_id,
    )
    path = f"{untracked_points.ledger_path}/wallets/{wallet}/mint"
    assert untracked_points.admin.post(path, {"amount": 5, "expirationDate": EXPIRY}, expect=409)["type"] == NOT_TRACKED
    untracked_points.admin.post(path, {"amount": 5}, expect=200)


def test_an_item_of_a_batch_with_an_expiration_date_is_refused(organization, untracked_points):
    wallet = untracked_points.wallet()
    item = {
        "organizationId": organization.id,
        "ledgerAccountId": untracked_points.account_id,
        "amount": 5,
        "fromWalletId": None,
        "toWalletId": wallet,
    }
    items = [{**item, "expirationDate": EXPIRY}, item]
    response = untracked_points.admin.post("/ledger-transactions/batch", {"items": items}, expect=200)
    assert [(failure["index"], failure["error"]["type"]) for failure in response["failed"]] == [(0, NOT_TRACKED)]
    assert untracked_points.balance(wallet) == 5


def test_an_action_with_a_constant_expiration_date_is_refused(shop, untracked_points):
    campaign = shop.campaign(running(mint(1, expirationDate=EXPIRY)))
    path = f"/campaigns/{campaign['campaignId']}/actions"
    key = untracked_points.account["ledgerAccountKey"]
    body = running(mint(1, expirationDate=EXPIRY, ledgerAccountKey=key))
    assert shop.administration.post(path, body, expect=409)["type"] == NOT_TRACKED
    action_path = f"{path}/{campaign['actions'][0]['actionId']}"
    assert shop.administration.put(action_path, body, expect=409)["type"] == NOT_TRACKED
    shop.administration.post(path, running(mint(1, expirationDate=None, ledgerAccountKey=key)))


def test_an_effect_that_computes_an_expiration_date_fails(shop, untracked_points):
    member = shop.member()
    key = untracked_points.account["ledgerAccountKey"]
    shop.campaign(running(mint(1, expirationDate=("=", "now + duration('240h')"), ledgerAccountKey=key)))
    [effect] = shop.track_one(event(member))["effects"]
    assert (effect["status"], effect["error"]["type"]) == ("failed", NOT_TRACKED)
    assert shop.balance(member, untracked_points.account_id) == 0
