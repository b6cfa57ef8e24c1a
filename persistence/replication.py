"""The progress of a read replica, compared with the primary."""

import time

from sqlalchemy import Connection

from persistence.connections import fetch_rows

# A commit returns after the log is flushed, unless the database is configured not to wait for the flush.
_WRITTEN = """
SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_current_wal_insert_lsn()
    ELSE pg_current_wal_flush_lsn() END::text
"""

# A database that is not in recovery is a primary itself, such as a replica that has replaced the primary.
_REPLAYED = "SELECT NOT pg_is_in_recovery() OR coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)"

# If the replica has replayed all that it has received, it is not behind, however old the last commit is.
_LAG = """
SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
    ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END
"""


def end_of_log(primary: Connection) -> str:
    """The position in the log of the primary (WAL) after all changes that were committed until now."""
    [(log_position,)] = fetch_rows(primary, _WRITTEN, ())
    return str(log_position)


def wait_until_reached(replica: Connection, log_position: str, seconds: float) -> bool:
    """Wait until a replica has all changes before a position of the log; False if it has not after these seconds."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not _has_reached(replica, log_position):
        if time.monotonic() + pause > deadline:
            return False
        time.sleep(pause)
        pause *= 2
    return True


def _has_reached(replica: Connection, log_position: str) -> bool:
    [(has_reached,)] = fetch_rows(replica, _REPLAYED, (log_position,))
    return bool(has_reached)


def lag(replica: Connection) -> float:
    """The seconds since the last replayed transaction was committed; 0 if the replica has replayed all it received."""
    [(seconds,)] = fetch_rows(replica, _LAG, ())
    return float(seconds)
