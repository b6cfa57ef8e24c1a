"""A standby of an embedded PostgreSQL."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sqlalchemy import make_url

from persistence import embedded
from tests.processes.loyalty import copy_home

PRIMARY = {"fsync": "off", "wal_level": "replica", "max_wal_senders": "4"}


def standby_of(primary: Path) -> tuple[Path, dict[str, str]]:
    """Copy the home of a primary, which is not running, as a standby; returns the standby's home and its settings."""
    # The files have to be written with the log level of a primary before they are copied.
    with embedded.server(primary, options=PRIMARY) as url:
        pass
    home = primary.parent / "standby"
    copy_home(primary, home)
    description = embedded.describe(home)
    assert description is not None
    subprocess.run(["cp", "-a", description.data / "PG_VERSION", description.data / "standby.signal"], check=True)
    address = make_url(url)
    return home, {**PRIMARY, "primary_conninfo": f"host={address.query['host']} user={address.username}"}
