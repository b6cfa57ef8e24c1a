"""The worker that extends the expiry of a whole account is killed (kill -9): each lot is still extended once."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime

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
EXPIRES, EXTENDED = datetime(2031, 1, 31, 12, tzinfo=UTC), datetime(2031, 4, 30, 12, tzinfo=UTC)

# A worker that extends only a few wallets in a transaction, so that there is time to kill it.
WORKER = f"""
from handlers.server.cli import main
from handlers.services.ledger import extend_expiry
extend_expiry.WALLETS_AT_ONCE = {WALLETS_AT_ONCE}
main(["worker"])
"""


def test_the_next_worker_continues_an_extension_after_one_is_killed(home):
    with embedded.server(home, options={"fsync": "off"}) as url:
        with running_api(Settings(database_url=url, home=home)) as api:
            organization = api.organization(timezone="UTC")
            points = Points.new(organization, pointTrackingEnabled=True)
            for number in range(MEMBERS):
                points.mint(organization.member()["ledgerWalletId"], number + 1, expires_at=EXPIRES)
            body = {"ledgerAccountId": points.account_id, "months": 3, "systemUniqueKey": "three-months"}
            extension = organization.administration.post("/expiry-extensions", body, expect=200)
            assert (extension["status"], extension["lots"]) == ("running", 0)
        with disposed(create_engine(url, threads=1)) as engine:
            counts_after_kills = []
            for _ in range(KILLS):
                count_before = _count_extended_lots(engine)
                process = subprocess.Popen([sys.executable, "-c", WORKER], env=environment(home), cwd=ROOT)
                while _count_extended_lots(engine) < count_before + WALLETS_AT_ONCE and process.poll() is None:
                    time.sleep(0.005)
                process.kill()
                process.wait()
                counts_after_kills.append(_count_extended_lots(engine))
                with engine.begin() as db:
                    # Do not wait for the interval of the job.
                    db.execute(text("UPDATE periodic_jobs SET next_run_at = now()"))
            assert 0 < counts_after_kills[0] < counts_after_kills[-1] < MEMBERS
            result = loyalty(home, "worker", "--once")
            assert result.returncode == 0, result.stderr
            with engine.connect() as db:
                lots_by_expiry = db.execute(text("SELECT expires_at, count(*) FROM ledger_lots GROUP BY 1")).all()
                assert [tuple(row) for row in lots_by_expiry] == [(EXTENDED, MEMBERS)]
                [extension_row] = db.execute(text("SELECT status, lots, amount FROM expiry_extensions")).all()
                # The members have 1, 2, 3 ... points.
                assert tuple(extension_row) == ("done", MEMBERS, sum(range(1, MEMBERS + 1)))
                assert verify(db, organization.id) == []


def _count_extended_lots(engine):
    """The number of extended lots."""
    with engine.connect() as db:
        statement = text("SELECT count(*) FROM ledger_lots WHERE expires_at = :end")
        return db.execute(statement, {"end": EXTENDED}).scalar_one()
