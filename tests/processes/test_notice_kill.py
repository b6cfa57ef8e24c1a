"""The worker that reports notices of expiring points is killed (kill -9): each notice is still reported once."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from handlers.services.verify import verify
from handlers.settings import Settings
from persistence import embedded
from persistence.engine import create_engine
from tests.builders.api import running_api
from tests.builders.points import Points
from tests.processes.fleet import disposed
from tests.processes.loyalty import ROOT, environment, loyalty

MEMBERS, KILLS, AT_ONCE = 80, 3, 4
PATIENCE_SECONDS = 120

# A worker that reports the notices of only a few wallets in a transaction, so that there is time to kill it.
WORKER = f"""
from handlers.server.cli import main
from handlers.services import wallet_batches
wallet_batches.FIRST_WALLETS = wallet_batches.MAX_WALLETS = {AT_ONCE}
main(["worker"])
"""
REPORTED = """
SELECT member_id, payload->>'amount', payload->>'daysBefore' FROM events
WHERE organization_id = :o AND event_type = 'points-expiring' ORDER BY member_id
"""


def test_the_next_worker_reports_the_remaining_notices_after_one_is_killed(home):
    with embedded.server(home, options={"fsync": "off"}) as url:
        with running_api(Settings(database_url=url, home=home)) as api:
            organization = api.organization()
            notices = {"daysBefore": [1], "at": "00:00"}
            points = Points.new(organization, pointTrackingEnabled=True, pointsExpiring=notices)
            amounts = dict(_members(organization, points))
        with disposed(create_engine(url, threads=1)) as engine:
            _prepare(engine, organization.id, points.account_id)
            counts = []
            for _ in range(KILLS):
                before, deadline = len(_reported_notices(engine, organization.id)), time.monotonic() + PATIENCE_SECONDS
                process = subprocess.Popen([sys.executable, "-c", WORKER], env=environment(home), cwd=ROOT)
                while len(_reported_notices(engine, organization.id)) < before + AT_ONCE and process.poll() is None:
                    assert time.monotonic() < deadline, "the worker reports nothing more"
                    time.sleep(0.005)
                process.kill()
                process.wait()
                counts.append(len(_reported_notices(engine, organization.id)))
                with engine.begin() as db:
                    # Do not wait for the interval of the job.
                    db.execute(text("UPDATE periodic_jobs SET next_run_at = now()"))
            assert 0 < counts[0] < counts[-1] < MEMBERS
            completed = loyalty(home, "worker", "--once")
            assert completed.returncode == 0, completed.stderr
            assert _reported_notices(engine, organization.id) == [(i, str(amounts[i]), "1") for i in sorted(amounts)]
            with engine.connect() as db:
                assert verify(db, organization.id) == []


def _members(organization, points):
    """Enrol members, each with another amount that expires tomorrow; yields pairs of member id and amount."""
    tomorrow = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=1)
    for number in range(MEMBERS):
        member = organization.member()
        points.mint(member["ledgerWalletId"], number + 1, expires_at=tomorrow)
        yield member["memberId"], number + 1


def _prepare(engine, organization_id, account_id):
    """Date the points back to yesterday, and let the notices have begun then."""
    yesterday = datetime.now(UTC) - timedelta(days=1)
    with engine.begin() as db:
        db.execute(
            text("UPDATE ledger_lots SET created_at = :y WHERE organization_id = :o"),
            {"y": yesterday, "o": organization_id},
        )
        db.execute(
            text("INSERT INTO expiry_notices VALUES (:o, :a, :y, NULL, 0)"),
            {"o": organization_id, "a": account_id, "y": yesterday},
        )


def _reported_notices(engine, organization_id):
    with engine.connect() as db:
        return [tuple(row) for row in db.execute(text(REPORTED), {"o": organization_id})]
