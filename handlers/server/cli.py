"""The command `loyalty`."""

from __future__ import annotations

import click

from handlers.server.commands import (
    completion,
    config,
    context,
    database,
    deliver,
    documents,
    evaluate_tiers,
    expire,
    export,
    import_file,
    mcp,
    member,
    organizations,
    release_answers,
    replay,
    sample,
    serve,
    simulate,
    worker,
)


@click.group(cls=context.Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="loyalty-server", prog_name="loyalty")
def main() -> None:
    """Run loyalty programs: events in, points out, every point kept once.

    Settings are environment variables, LOYALTY_DATABASE_URL and others; see docs/configuration.md.
    """
    context.leave_tidily_on_sigterm()


for command in (
    serve.serve,
    worker.worker,
    database.migrate,
    database.distribute,
    organizations.organizations,
    organizations.token,
    organizations.credentials,
    member.member,
    sample.sample,
    config.config,
    import_file.import_file,
    export.export_rows,
    simulate.simulate,
    mcp.mcp,
    documents.openapi,
    replay.replay,
    expire.expire,
    evaluate_tiers.evaluate_tiers,
    release_answers.release_answers,
    deliver.deliver,
    deliver.remove_deliveries,
    database.verify,
    database.doctor,
    completion.completion,
):
    main.add_command(command)
