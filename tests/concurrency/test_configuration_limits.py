"""Ledger accounts and loyalty programs of one organization, created by many calls at the same time."""

from __future__ import annotations

from functools import partial

from handlers import loyalty_programs
from handlers.services.ledger import accounts
from handlers.services.webhooks import triggers
from tests.concurrency.conftest import THREADS
from tests.concurrency.simultaneous import run_simultaneously, statuses


def test_simultaneous_calls_create_the_maximum_of_ledger_accounts(shop, monkeypatch):
    administration = shop.administration
    second_ledger_id = administration.post("/ledgers", {"name": "Second"})["ledger"]["ledgerId"]
    paths = [f"/ledgers/{ledger_id}/accounts" for ledger_id in (shop.organization.defaults.ledger_id, second_ledger_id)]
    stored_accounts = sum(administration.get(path)["totalCount"] for path in paths)
    monkeypatch.setattr(accounts, "MAX_ACCOUNTS", stored_accounts + 3)
    body = {"name": "Stars", "active": True, "isRevolving": True, "chainSyncEnabled": False}
    calls = [partial(administration.request, "POST", path, body) for path in paths]
    replies = run_simultaneously(calls * (THREADS // 2))
    assert statuses(replies) == {(201, None): 3, (409, "/problems/ledger-account-limit"): len(replies) - 3}
    assert sum(administration.get(path)["totalCount"] for path in paths) == stored_accounts + 3


def test_simultaneous_calls_create_the_maximum_of_loyalty_programs(shop, monkeypatch):
    administration = shop.administration
    stored_programs = len(administration.get("/loyalty-programs")["loyaltyPrograms"])
    monkeypatch.setattr(loyalty_programs, "MAX_PROGRAMS", stored_programs + 3)
    body = {"ledgerId": shop.organization.defaults.ledger_id, "description": "Spare", "setAsDefault": False}
    replies = run_simultaneously([partial(administration.request, "POST", "/loyalty-programs", body)] * THREADS)
    assert statuses(replies) == {(201, None): 3, (409, "/problems/loyalty-program-limit"): THREADS - 3}
    assert len(administration.get("/loyalty-programs")["loyaltyPrograms"]) == stored_programs + 3


def test_simultaneous_calls_create_the_maximum_of_active_triggers(shop, monkeypatch):
    monkeypatch.setattr(triggers, "MAX_ACTIVE_TRIGGERS", 3)
    settings = {"url": "https://example.com/hook", "eventTypes": ["member-created"]}
    calls = [
        partial(
            shop.administration.request,
            "POST",
            "/triggers",
            {"triggerKey": f"trigger-{number}", "type": "WebHook", "name": "Hook", "settings": settings},
        )
        for number in range(THREADS)
    ]
    # The process has the configuration without triggers in memory.
    shop.member()
    assert statuses(run_simultaneously(calls)) == {(201, None): 3, (409, "/problems/trigger-limit"): THREADS - 3}
    assert shop.administration.get("/triggers")["totalCount"] == 3
