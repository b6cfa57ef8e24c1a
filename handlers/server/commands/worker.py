"""The command that evaluates queued events and runs periodic jobs."""

import click

from handlers.server.commands.context import load_settings, migrated_engine, refuse_without_database, with_database
from handlers.server.loading import loading


@click.command()
@click.option("--once", is_flag=True, help="Do what is due now, then end.")
def worker(once: bool) -> None:
    """Evaluate queued events and run the periodic jobs.

    It runs until Ctrl-C or SIGTERM, and ends its batch first; if it is killed, other workers do the rest of its work.
    Run as many as are needed, on as many machines. `loyalty serve` runs one of its own by default.
    """
    with loading():
        from handlers.http.logging import configure
        from handlers.server.worker import Worker

    settings = load_settings()
    configure(settings.log_level, settings.log_format)
    refuse_without_database(settings)
    with with_database(settings) as settings:
        with migrated_engine(settings):
            # Only to end the command if a migration is missing: the worker makes its own engine.
            pass
        process_worker = Worker(settings)
        process_worker.stop_at_signals()
        if once:
            process_worker.run_once()
        else:
            process_worker.run()
