"""Databases of their own for benchmarks."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from persistence import embedded, schema
from persistence.engine import create_engine


@contextmanager
def new_database(
    threads: int = 1, options: Mapping[str, str] | None = None, **settings: Any
) -> Iterator[tuple[Engine, str]]:
    """Make an engine on a new database with all tables, and its URL; both end with the block.

    It is durable as in production unless `options` of PostgreSQL change that; `settings` are those of the engine.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)  # for the user that PostgreSQL runs as where root works
        with embedded.server(Path(directory) / "home", options=options) as url:
            engine = create_engine(url, threads=threads, **settings)
            schema.migrate(engine)
            yield engine, url
            engine.dispose()
