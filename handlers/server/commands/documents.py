"""The command that prints the OpenAPI documents."""

from __future__ import annotations

import json

import click
import yaml


@click.command()
@click.argument("surface", type=click.Choice(["integration", "administration"]))
@click.option("--format", "form", type=click.Choice(["json", "yaml"]), default="json", show_default=True)
def openapi(surface: str, form: str) -> None:
    """Print one interface's OpenAPI document."""
    from openapi import bundle

    document = bundle(surface)
    if form == "json":
        click.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)
