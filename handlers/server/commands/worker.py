"""The command that evaluates queued events and runs periodic jobs."""

import os
import signal
import sys
import threading
from typing import Any

import click

from handlers.server.commands.context import load_settings, migrated_engine, refuse_without_database, with_database
from handlers.server.loading import loading


@click.command()
@click.option("--once", is_flag=True, help="Do what is due now, then end.")
@click.option("--attached", is_flag=True, hidden=True, help="End when the standard input does.")
def worker(once: bool, attached: bool) -> None:
    """Evaluate queued events and run the periodic jobs.

    It runs until Ctrl-C or SIGTERM, and ends its batch first; one that is killed leaves everything to the others. Run
    as many as are needed, on as many machines. `loyalty serve` runs one of its own by default.
    """
    with loading():
        from handlers.http.logging import configure
        from handlers.server.worker import Worker

    settings = load_settings()
    configure(settings.log_level, settings.log_format)
    refuse_without_database(settings)
    with with_database(settings) as settings:
        with migrated_engine(settings):
            pass  # or it has printed what is missing
        working = Worker(settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: working.stop())
        if attached:
            threading.Thread(target=_stop_with_parent, args=(working,), daemon=True).start()
        if once:
            working.run_once()
        else:
            working.run()


def _stop_with_parent(working: Any) -> None:
    # The parent process holds the other end of the pipe; however the parent ends, the kernel closes it.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    working.stop()
