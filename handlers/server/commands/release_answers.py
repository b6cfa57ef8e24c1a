"""The command that releases stored answers to old requests."""

import click

from handlers.server.commands.context import load_settings, migrated_engine
from handlers.server.commands.output import json_option, print_json


@click.command()
@json_option
def release_answers(as_json: bool) -> None:
    """Release the stored answers to old events.

    For LOYALTY_ANSWERS_KEPT_DAYS the same request under the same key is answered as the first time. After that its key
    stays used, so the request is refused with `/problems/key-reused`, and reading the event answers its record without
    the result. It goes on where the last run ended, and may be interrupted at any time. Workers run it by the clock.
    """
    from handlers.server.jobs import RELEASE_ANSWERS, run_job

    settings = load_settings()
    with migrated_engine(settings) as engine:
        answers = run_job(engine, settings, RELEASE_ANSWERS)["answers"]
    if as_json:
        print_json({"released": answers})
        return
    click.echo(f"{answers:,} answers released." if answers else "Nothing to release.")
