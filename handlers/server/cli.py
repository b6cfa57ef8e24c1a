"""The command `loyalty`."""

from importlib import import_module

import click

from handlers.server.commands import context
from handlers.server.loading import loading

# Each command by name: its module and function, and the first sentence of its help.
_COMMANDS = {
    "clock": ("clock:clock", "Move the time of a test organization."),
    "completion": ("completion:completion", "Print the script by which a shell completes commands."),
    "config": ("config:config", "Keep the configuration of an organization as YAML files, one for each record."),
    "credentials": ("organizations:credentials", "Credentials of programs that use the API."),
    "deliver": ("periodic_work:deliver", "Send due messages to the receivers of webhooks."),
    "distribute": ("database:distribute", "Distribute the database over a cluster of Citus."),
    "doctor": ("doctor:doctor", "Print what is configured, and whether it works."),
    "evaluate-tiers": ("periodic_work:evaluate_tiers", "Evaluate again the tiers that have expired."),
    "expire": ("periodic_work:expire", "Post the expiry of points that are past their date."),
    "export": ("export:export_rows", "Write rows to the standard output."),
    "import": ("import_file:import_file", "Import rows from a file."),
    "keys": ("keys:keys", "Replace the key that signs tokens and offline allowances."),
    "mcp": ("mcp:mcp", "Offer read operations and dry runs to AI assistants (MCP)."),
    "member": ("member:member", "Print a MEMBER and what happened, the newest first."),
    "migrate": ("database:migrate", "Bring the database's schema up to date."),
    "openapi": ("documents:openapi", "Print one interface's OpenAPI document."),
    "organizations": ("organizations:organizations", "Make and list organizations, the tenants of the server."),
    "playground": ("playground:playground", "Open the playground of a running server, with a token."),
    "release-answers": ("periodic_work:release_answers", "Release the stored responses to old events."),
    "remove-deliveries": ("periodic_work:remove_deliveries", "Remove old messages to the receivers of webhooks."),
    "replay": ("replay:replay", "Try a loyalty program on the purchases of a file."),
    "sample": ("sample:sample", "Fill a test organization with sample records."),
    "serve": ("serve:serve", "Run the server until Ctrl-C."),
    "simulate": ("simulate:simulate", "Print what an event would give a member, or a newcomer if none is named."),
    "token": ("organizations:token", "Print an access token for an organization."),
    "verify": ("database:verify", "Check members' records, ledger, reports and audit log."),
    "worker": ("worker:worker", "Evaluate queued events and run the periodic jobs."),
}


class _UnloadedCommand(click.Command):
    """The name and the short help of a command that is imported only when it is called."""

    def __init__(self, name: str, function: str, short_help: str) -> None:
        super().__init__(name, short_help=short_help)
        self._function = function

    def load(self) -> click.Command:
        """Import the command."""
        module, _, name = self._function.partition(":")
        with loading():
            command: click.Command = getattr(import_module(f"handlers.server.commands.{module}"), name)
        return command


class _Group(context.Group):
    """The group of all commands; each is imported only when it is called."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the called command, as click does, and import it."""
        name, command, remaining_args = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, _UnloadedCommand) else command, remaining_args


@click.group(
    cls=_Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    commands={name: _UnloadedCommand(name, function, short_help) for name, (function, short_help) in _COMMANDS.items()},
)
@click.version_option(package_name="loyalty-server", prog_name="loyalty")
def main() -> None:
    """Run loyalty programs: events in, points out, every point kept once.

    Settings are environment variables, LOYALTY_DATABASE_URL and others; see docs/configuration.md.
    """
    context.unwind_on_sigterm()
