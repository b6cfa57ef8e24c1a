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
            # Only checked: a missing migration has ended the command.
            pass
        process_worker = Worker(settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: process_worker.stop())
        if attached:
            threading.Thread(target=_stop_with_parent, args=(process_worker,), daemon=True).start()
        if once:
            process_worker.run_once()
        else:
            process_worker.run()


def _stop_with_parent(process_worker: Any) -> None:
    # The parent process has the other end of the pipe; however the parent ends, the kernel closes it.
    while os.read(sys.stdin.fileno(), 1024):
        pass
    process_worker.stop()
