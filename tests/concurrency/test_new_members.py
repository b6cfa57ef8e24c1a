"""Members who are created while a call waits for the locks of the other members of its batch."""

from __future__ import annotations

import threading

from sqlalchemy import text

from persistence import posting
from tests.builders.campaigns import mint
from tests.builders.tracking import GENERIC, event, running
from tests.concurrency.simultaneous import PATIENCE, lock_waits, start_after
from tests.processes.fleet import wait_until


def test_points_of_a_member_who_is_created_while_a_batch_waits_are_not_lost(shop, monkeypatch):
    shop.campaign(running(mint(5)), eventType=GENERIC)
    zoe = shop.member()
    wallet_id = shop.integration.get(f"/members/{zoe}")["loyaltyMember"]["ledgerWalletId"]
    results = []
    tracking_thread = threading.Thread(target=lambda: results.extend(shop.track(event("ana"), event(zoe))))
    with shop.engine.connect() as db:
        lock = "SELECT FROM wallets WHERE organization_id = :organization_id AND wallet_id = :wallet_id FOR UPDATE"
        db.execute(text(lock), {"organization_id": shop.organization.id, "wallet_id": wallet_id})
        tracking_thread.start()
        wait_until(lambda: lock_waits(shop) == 1, PATIENCE)
        shop.member(loyaltyMemberId="ana")
        giving_thread = start_after(monkeypatch, shop, posting, "open_session", lambda: shop.give("ana", 100))
    tracking_thread.join(PATIENCE)
    giving_thread.join(PATIENCE)
    assert [result["status"] for result in results] == ["success", "success"]
    assert (shop.balance("ana"), shop.balance(zoe)) == (5 + 100, 5)
