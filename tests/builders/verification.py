"""The verification of an organization by a statement that each connection plans once, since tests verify very often."""

from __future__ import annotations

import os

from sqlalchemy import Connection

from handlers.services import verify as service
from persistence import ledger_checks

_NAME = "verification"
# Planned again from time to time, since tables grow.
_USES_OF_A_PLAN = 50
_FAULTS = " UNION ALL ".join(
    f"SELECT words FROM ({check.replace(':organization_id', '$1')}) AS found(organization_id, words)"
    for check in service.CHECKS
)
# A pooler or a cluster does not keep what a connection has prepared.
_CAN_PREPARE = os.environ.keys().isdisjoint(("LOYALTY_TEST_POOLED", "LOYALTY_TEST_DATABASE_URL"))


def verify(db: Connection, organization_id: int) -> list[str]:
    """The faults of `service.verify`, which is called only if the prepared statement finds one."""
    return service.verify(db, organization_id) if not _CAN_PREPARE or is_broken(db, organization_id) else []


def is_broken(db: Connection, organization_id: int) -> bool:
    """True if `service.verify` finds a fault."""
    ledger_checks.plan_for_many(db)
    uses = db.info.get(_NAME, 0)
    if uses % _USES_OF_A_PLAN == 0:
        if uses:
            db.exec_driver_sql(f"DEALLOCATE {_NAME}")
        statement = f"PREPARE {_NAME}(bigint) AS SELECT count(*) FROM ({_FAULTS}) AS faults"
        db.exec_driver_sql(statement.replace("%", "%%"))
    db.info[_NAME] = uses + 1
    # PostgreSQL would plan each of the first five uses, which takes longer than to execute them.
    db.exec_driver_sql("SET LOCAL plan_cache_mode = force_generic_plan")
    return bool(db.exec_driver_sql(f"EXECUTE {_NAME}({int(organization_id)})").scalar_one())
