"""A pytest plugin for the tests of an older version: the newer version migrates their databases.

NEWER_VERSION is the folder of the newer version's code.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from sqlalchemy import Engine

from persistence import schema

_migrate = schema.migrate


def _migrate_by_newer(engine: Engine) -> list[str]:
    newer = os.environ["NEWER_VERSION"]
    subprocess.run(
        [sys.executable, "-m", "handlers", "migrate"],
        cwd=tempfile.gettempdir(),
        env={
            **os.environ,
            "PYTHONPATH": newer,
            "LOYALTY_DATABASE_URL": engine.url.render_as_string(hide_password=False),
        },
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return _migrate(engine)


schema.migrate = _migrate_by_newer
