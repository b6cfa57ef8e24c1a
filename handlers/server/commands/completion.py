"""The command that prints the script by which a shell completes commands."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which a shell completes commands.

    For bash: `loyalty completion bash > ~/.local/share/bash-completion/completions/loyalty`.
    """
    completion_class = get_completion_class(shell)
    assert completion_class is not None, shell
    click.echo(completion_class(context.find_root().command, {}, "loyalty", "_LOYALTY_COMPLETE").source())
