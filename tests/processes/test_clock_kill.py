"""The process that advances a test clock is killed (kill -9): each step is still executed exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from handlers.services.verify import verify
from handlers.settings import Settings
from persistence import embedded, organizations
from persistence.engine import create_engine
from tests.builders.api import running_api
from tests.builders.points import Points
from tests.builders.test_clocks import Clock
from tests.processes.fleet import disposed
from tests.processes.loyalty import ROOT, environment, invoke

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
EXPIRIES = "SELECT created_at FROM ledger_transactions WHERE organization_id = :o AND is_expiry ORDER BY 1"


@pytest.mark.parametrize(
    ("days", "kills"),
    [pytest.param(100, 2, id="100 days"), pytest.param(365, 5, id="a year", marks=pytest.mark.stress)],
)
def test_an_advance_whose_process_is_killed_continues_at_its_last_step(home, days, kills):
    with embedded.server(home, options={"fsync": "off"}) as url:
        with running_api(Settings(database_url=url, home=home)) as api:
            clock = Clock.new(api, starts_at=START.isoformat())
            points = Points.new(clock.organization, expiresInMonths=24, pointTrackingEnabled=True)
            wallet = points.wallet()
            for day in range(days):
                points.mint(wallet, 1, expires_at=START + timedelta(days=day, hours=3))
        organization_id = str(clock.organization.id)
        end = (START + timedelta(days=days)).isoformat()
        advance = ("clock", "advance", "--organization", organization_id, "--to", end)
        steps_after_kills = []
        with disposed(create_engine(url, threads=1)) as engine:
            for _ in range(kills):
                steps_before = _steps(engine, clock)
                process = subprocess.Popen(
                    [sys.executable, "-m", "handlers", *advance],
                    env=environment(home),
                    cwd=ROOT,
                    stdout=subprocess.DEVNULL,
                )
                while _steps(engine, clock) < steps_before + 20 and process.poll() is None:
                    time.sleep(0.01)
                process.kill()
                process.wait()
                steps_after_kills.append(_steps(engine, clock))
        # Each process executed further steps, and none was the last one.
        assert sorted(set(steps_after_kills)) == steps_after_kills
        assert 20 <= steps_after_kills[0] < steps_after_kills[-1] < days
        result = invoke(home, *advance, "--json")
        assert result.returncode == 0, result.stderr
        clock_record = json.loads(result.stdout)
        # A step for each day on which a point expires.
        assert (clock_record["status"], clock_record["steps"]) == ("ready", days)
        with disposed(create_engine(url, threads=1)) as engine, engine.connect() as db:
            expiry_moments = [row[0] for row in db.execute(text(EXPIRIES), {"o": clock.organization.id})]
            assert expiry_moments == [START + timedelta(days=day, hours=3) for day in range(days)]
            assert verify(db, clock.organization.id) == []


def _steps(engine, clock):
    """The number of steps that the advance has executed so far."""
    with engine.connect() as db:
        return organizations.find_details(db, clock.organization.id).clock_steps
