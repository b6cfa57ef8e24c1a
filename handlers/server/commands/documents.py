"""The command that prints the OpenAPI documents."""

import json

import click
import yaml


@click.command()
@click.argument("surface", type=click.Choice(["integration", "administration"]))
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "yaml", "postman", "http"]),
    default="json",
    show_default=True,
    help="The document, or its examples as requests: a Postman collection, a file for the REST clients of editors.",
)
@click.option("--url", default="http://127.0.0.1:8080/v2", show_default=True, help="Where the requests of examples go.")
def openapi(surface: str, form: str, url: str) -> None:
    """Print one interface's OpenAPI document.

    Or its examples, as requests that tools can send.
    """
    from openapi import bundle
    from openapi.request_files import http_file, postman

    document = bundle(surface)
    if form == "yaml":
        click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120), nl=False)
    elif form == "http":
        click.echo(http_file(document, url), nl=False)
    else:
        printed = document if form == "json" else postman(document, url)
        click.echo(json.dumps(printed, indent=2, ensure_ascii=False))
