"""How far a read replica has come, compared with the primary."""

import time

from sqlalchemy import Connection

from persistence.connections import query

# A commit returns after the log is flushed, unless the database is configured not to wait for that.
_WRITTEN = """
SELECT CASE current_setting('synchronous_commit') WHEN 'off' THEN pg_current_wal_insert_lsn()
    ELSE pg_current_wal_flush_lsn() END::text
"""

# A database that replays nothing is a primary itself, such as one that took over from the last.
_REPLAYED = "SELECT NOT pg_is_in_recovery() OR coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false)"

# Nothing may have happened since the last commit that was replayed: what was received and replayed is all there is.
_LAG = """
SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0
    ELSE coalesce(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END
"""


def position(primary: Connection) -> str:
    """The place in the log of changes behind all that was committed until now."""
    place: str = query(primary, _WRITTEN, ())[0][0]
    return place


def has_reached(replica: Connection, place: str, seconds: float) -> bool:
    """True as soon as a replica shows all changes before a place of the log; False after so many seconds."""
    deadline, pause = time.monotonic() + seconds, 0.001
    while not query(replica, _REPLAYED, (place,))[0][0]:
        if time.monotonic() + pause > deadline:
            return False
        time.sleep(pause)
        pause *= 2
    return True


def lag(replica: Connection) -> float:
    """How many seconds ago that was committed which the replica replayed last; 0 if it has replayed all it received."""
    return float(query(replica, _LAG, ())[0][0])
