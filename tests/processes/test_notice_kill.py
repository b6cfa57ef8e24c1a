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

MEMBERS, KILLS, WALLETS_AT_ONCE = 80, 3, 4
PATIENCE_SECONDS = 120

# A worker that reports the notices of only a few wallets in a transaction, so that there is time to kill it.
WORKER = f"""
from handlers.server.cli import main
from handlers.services import wallet_batches
wallet_batches.FIRST_WALLETS = wallet_batches.MAX_WALLETS = {WALLETS_AT_ONCE}
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
            amounts_by_member = _enrol_members(organization, points)
        with disposed(create_engine(url, threads=1)) as engine:
            _date_back(engine, organization.id, points.account_id)
            counts_after_kills = []
            for _ in range(KILLS):
                count_before = len(_reported_notices(engine, organization.id))
                deadline = time.monotonic() + PATIENCE_SECONDS
                process = subprocess.Popen([sys.executable, "-c", WORKER], env=environment(home), cwd=ROOT)
                count_to_reach = count_before + WALLETS_AT_ONCE
                while len(_reported_notices(engine, organization.id)) < count_to_reach and process.poll() is None:
                    assert time.monotonic() < deadline, "the worker reports nothing more"
                    time.sleep(0.005)
                process.kill()
                process.wait()
                counts_after_kills.append(len(_reported_notices(engine, organization.id)))
                with engine.begin() as db:
                    # Do not wait for the interval of the job.
                    db.execute(text("UPDATE periodic_jobs SET next_run_at = now()"))
            assert 0 < counts_after_kills[0] < counts_after_kills[-1] < MEMBERS
            result = loyalty(home, "worker", "--once")
            assert result.returncode == 0, result.stderr
            assert _reported_notices(engine, organization.id) == [
                (member_id, str(amount), "1") for member_id, amount in sorted(amounts_by_member.items())
            ]
            with engine.connect() as db:
                assert verify(db, organization.id) == []


def _enrol_members(organization, points):
    """Enrol members with 1, 2, 3 ... points that expire tomorrow; return the points by member id."""
    tomorrow = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0) + timedelta(days=1)
    amounts_by_member = {}
    for amount in range(1, MEMBERS + 1):
        member = organization.member()
        points.mint(member["ledgerWalletId"], amount, expires_at=tomorrow)
        amounts_by_member[member["memberId"]] = amount
    return amounts_by_member


def _date_back(engine, organization_id, account_id):
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
    """(member id, amount, days before the expiry) of each notice, by member id."""
    with engine.connect() as db:
        return [tuple(row) for row in db.execute(text(REPORTED), {"o": organization_id})]
