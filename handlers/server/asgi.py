"""The API as an ASGI application, for a server other than `loyalty serve`.

    gunicorn -k asgi --no-control-socket 'handlers.server.asgi:create()'

The database has to be migrated before (`loyalty migrate`).
"""

import atexit
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from handlers.http.app import create_app, serving_engine
from handlers.settings import Settings
from persistence import embedded


def create() -> Callable[..., Any]:
    """Create the application that the environment configures.

    The embedded database runs until the process ends.
    """
    settings = Settings.from_environment(os.environ)
    if not settings.database_url:
        lease = embedded.acquire(settings.home)
        atexit.register(lease.close)
        settings = replace(settings, database_url=lease.url)
    return create_app(settings, serving_engine(settings))
