"""A worker while a call of one organization holds a lock: it does the work of the others, and this work later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from handlers.server import job_runs, jobs
from handlers.server.job_runs import JobRun, PartlyFailed
from handlers.server.worker import Worker
from handlers.services.exports.write import ExportWriter
from handlers.services.imports.work import Importer
from handlers.services.ledger.extend_expiry import extend_running
from handlers.services.organizations import test_clock as clock_service
from tests.builders.campaigns import mint
from tests.builders.imports import Imports, status_read_done_failed
from tests.builders.points import Points
from tests.builders.queue import outcome, send, waiting
from tests.builders.test_clocks import Clock
from tests.builders.tracking import GENERIC, Shop, event, running
from tests.processes.fleet import wait_until

# Citus does not pass the worker's short timeout of locks on to other nodes.
pytestmark = pytest.mark.undistributed

PATIENCE = 60


@pytest.fixture
def other_shop(busy_api):
    """A second organization, whose members no call has locked."""
    return Shop(busy_api.organization())


@pytest.fixture
def worker(busy_api):
    """A worker whose loops a test steps itself."""
    worker = Worker(busy_api.settings)
    yield worker
    worker._engine.dispose()


@contextmanager
def lock_rows(api, sql: str, **values: object) -> Iterator[None]:
    """Lock the rows that the SQL selects, as a long call would, until the end of the block."""
    with api.engine.connect() as db:
        assert db.execute(text(f"{sql} FOR UPDATE"), values).all()
        yield


def lock_wallet(organization, wallet_id: int):
    """Lock a wallet of the organization until the end of the block."""
    sql = "SELECT wallet_id FROM wallets WHERE organization_id = :organization_id AND wallet_id = :wallet_id"
    return lock_rows(organization.api, sql, organization_id=organization.id, wallet_id=wallet_id)


def wallet_of(shop: Shop, member: str) -> int:
    return shop.integration.get(f"/members/{member}")["loyaltyMember"]["ledgerWalletId"]


def logged_errors(caplog) -> list[str]:
    """The messages of the log with a stack trace, or of a level above INFO."""
    return [record.getMessage() for record in caplog.records if record.exc_info or record.levelno > logging.INFO]


def test_queued_events_of_a_locked_member_wait_and_count_no_attempt_while_those_of_others_are_evaluated(
    shop, other_shop, worker, caplog
):
    caplog.set_level(logging.INFO, "loyalty")
    for each_shop in (shop, other_shop):
        each_shop.campaign(running(mint(1)), eventType=GENERIC)
    ana, ben, eve = shop.member(), shop.member(), other_shop.member()
    queue_loop = next(loop for loop in worker._loops if loop.name == "queue")
    thread = threading.Thread(target=worker._repeat, args=(queue_loop,))
    try:
        with lock_wallet(shop.organization, wallet_of(shop, ana)):
            # Ana's and Ben's events are claimed together.
            results = send(shop, *(event(member) for member in (ana, ben, ana, ben, ana)))
            [other_result] = send(other_shop, event(eve))
            thread.start()
            wait_until(lambda: not waiting(other_shop) and waiting(shop) == 3, PATIENCE)
            wait_until(lambda: "needs a row that is locked" in caplog.text, PATIENCE)
            assert outcome(other_shop, other_result)["event"]["status"] == "success"
            assert shop.rows("queued_events", "attempts, dead_at") == [(0, None)] * 3
            assert (shop.balance(ana), shop.balance(ben), other_shop.balance(eve)) == (0, 2, 1)
        wait_until(lambda: not waiting(shop), PATIENCE)
    finally:
        worker.stop()
        thread.join()
    assert [outcome(shop, result)["event"]["status"] for result in results] == ["success"] * 5
    # Each event mints a point, so the balances after Ana's events show their order.
    balances = shop.rows(
        "events e JOIN ledger_transactions t USING (organization_id, loyalty_event_id)"
        " JOIN ledger_entries n USING (organization_id, ledger_transaction_id)",
        "n.updated_balance",
        order="e.member_id, e.loyalty_event_id, n.updated_balance",
    )
    assert [balance for (balance,) in balances if balance is not None] == [1, 2, 3, 1, 2]
    assert logged_errors(caplog) == []


class TestJobs:
    @pytest.fixture
    def wallets(self, shop, other_shop):
        """A wallet of each organization with 10 points that have expired."""
        points = [Points.new(each_shop.organization, expiresInMonths=1) for each_shop in (shop, other_shop)]
        earlier, wallets = datetime.now(UTC) - timedelta(hours=1), {}
        for of_account in points:
            wallet = wallets[of_account.organization.id] = of_account.wallet()
            of_account.mint(wallet, 10, expires_at=earlier)
        return wallets

    def steps(self, worker, api, wallets):
        """The steps of a job that posts the expiries of the two organizations."""

        def work(organization_id):
            return jobs._expire_batches(worker._engine, organization_id) if organization_id in wallets else iter(())

        return JobRun(worker._engine, api.settings, {}).do_for(work)

    def expired_amount(self, shop):
        [(amount,)] = shop.rows("ledger_lots", "sum(expired)")
        return amount

    def test_a_job_serves_the_other_organizations_and_later_the_one_that_was_locked(
        self, shop, other_shop, wallets, worker, busy_api, caplog
    ):
        steps = self.steps(worker, busy_api, wallets)
        with lock_wallet(shop.organization, wallets[shop.organization.id]):
            wait_until(lambda: next(steps, None) or self.expired_amount(other_shop) == 10, PATIENCE)
            # The organization with the locked wallet is the older one, so its turn was before.
            assert self.expired_amount(shop) == 0
        for _ in steps:
            pass
        assert self.expired_amount(shop) == 10
        assert logged_errors(caplog) == []

    def test_a_job_fails_for_an_organization_that_stays_locked_and_serves_the_others(
        self, shop, other_shop, wallets, worker, busy_api, monkeypatch
    ):
        monkeypatch.setattr(job_runs, "_LOCKED_SECONDS", 0)
        steps = self.steps(worker, busy_api, wallets)
        with lock_wallet(shop.organization, wallets[shop.organization.id]), pytest.raises(PartlyFailed):
            for _ in steps:
                pass
        assert (self.expired_amount(shop), self.expired_amount(other_shop)) == (0, 10)


def test_an_import_of_a_locked_member_continues_later_and_no_row_fails(shop, other_shop, worker, busy_api, caplog):
    shops = {each_shop: Imports(each_shop.organization) for each_shop in (shop, other_shop)}
    importer = Importer(worker._engine, replace(busy_api.settings, import_share=100))
    member, other_member = shop.member(), other_shop.member()
    with lock_wallet(shop.organization, wallet_of(shop, member)):
        path, other_path = (
            imports.queue(f"systemUniqueKey,loyaltyMemberId,amount\nk1,{name},7\n", kind="balances")
            for imports, name in zip(shops.values(), (member, other_member), strict=True)
        )
        wait_until(lambda: importer.step() and shops[other_shop].get(other_path)["status"] == "done", PATIENCE)
        # After five crashes the import would fail: these attempts do not count as crashes.
        for _ in range(7):
            assert importer.step()
        assert status_read_done_failed(shops[shop].get(path)) == ("queued", 0, 0, 0)
    while importer.step():
        pass
    assert status_read_done_failed(shops[shop].get(path)) == ("done", 1, 1, 0)
    assert (shop.balance(member), other_shop.balance(other_member)) == (7, 7)
    assert logged_errors(caplog) == []


def test_an_extension_of_a_locked_wallet_continues_later(shop, other_shop, worker):
    accounts = [Points.new(each_shop.organization, expiresInMonths=12) for each_shop in (shop, other_shop)]
    wallets = [account_points.wallet() for account_points in accounts]
    for account_points, wallet in zip(accounts, wallets, strict=True):
        account_points.mint(wallet, 10)
        body = {"ledgerAccountId": account_points.account_id, "months": 1, "systemUniqueKey": "apology"}
        account_points.admin.post("/expiry-extensions", body, expect=200)
    with lock_wallet(shop.organization, wallets[0]):
        # The organizations take part in random order.
        wait_until(
            lambda: extend_running(worker._engine) and other_shop.rows("expiry_extensions", "lots") == [(1,)], PATIENCE
        )
        assert shop.rows("expiry_extensions", "status, lots") == [("running", 0)]
    while extend_running(worker._engine):
        pass
    assert shop.rows("expiry_extensions", "status, lots") == [("done", 1)]


def test_a_locked_export_is_left_out_and_written_later(shop, other_shop, worker, busy_api):
    shops = (shop, other_shop)
    for each_shop in shops:
        each_shop.administration.post("/exports", {"kind": "members"})
    writer = ExportWriter(worker._engine, busy_api.settings, is_stopping=lambda: False)
    with lock_rows(busy_api, "SELECT 1 FROM exports WHERE organization_id = :id", id=shop.organization.id):
        while writer.step():
            pass
        assert [each_shop.rows("exports", "status") for each_shop in shops] == [[("queued",)], [("done",)]]
    while writer.step():
        pass
    assert shop.rows("exports", "status") == [("done",)]


def test_the_advance_of_a_clock_waits_for_a_locked_row_without_failing(worker, busy_api, monkeypatch):
    clock = Clock.new(busy_api)
    monkeypatch.setattr(clock_service, "CALL_SECONDS", 0)
    clock.advance("2026-03-02T09:00:00Z")
    organization_id, attempts = clock.organization.id, iter([False] * 20)
    with lock_rows(busy_api, "SELECT 1 FROM organizations WHERE organization_id = :id", id=organization_id):
        advance = clock_service.advance_clock(
            worker._engine, busy_api.settings, organization_id, lambda: next(attempts, True)
        ).test_clock
        # A failed advance would have the status `failed`.
        assert advance.status == "advancing"
    advance = clock_service.advance_clock(worker._engine, busy_api.settings, organization_id, lambda: False).test_clock
    assert advance.status == "ready"
