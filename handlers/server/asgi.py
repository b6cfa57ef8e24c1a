"""The API as an ASGI application, for a server other than `loyalty serve`.

    gunicorn -k asgi --no-control-socket 'handlers.server.asgi:create()'

The database has to be migrated before (`loyalty migrate`).
"""

import atexit
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from handlers.http.app import EXTRA_THREADS, create_app
from handlers.settings import Settings
from persistence import embedded
from persistence.engine import create_engine


def create() -> Callable[..., Any]:
    """Create the application that the environment configures.

    The embedded database runs until the process ends.
    """
    settings = Settings.from_environment(os.environ)
    if not settings.database_url:
        lease = embedded.acquire(settings.home)
        atexit.register(lease.close)
        settings = replace(settings, database_url=lease.url)
    engine = create_engine(
        settings.database_url,
        threads=settings.threads + EXTRA_THREADS,
        statement_timeout_ms=settings.statement_timeout_ms,
        lock_timeout_ms=settings.lock_timeout_ms,
        application_name="loyalty-serve",
    )
    return create_app(settings, engine)
