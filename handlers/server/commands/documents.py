"""The command that prints the OpenAPI documents of the interfaces."""

import json

import click


@click.command()
@click.argument("document", type=click.Choice(["integration", "administration", "asyncapi"]))
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "yaml", "postman", "http"]),
    default="json",
    show_default=True,
    help="The document, or its examples as requests: a Postman collection, a file for the REST clients of editors.",
)
@click.option("--url", default="http://127.0.0.1:8080/v2", show_default=True, help="Where the requests of examples go.")
def openapi(document: str, form: str, url: str) -> None:
    """Print one interface's OpenAPI document.

    Or its examples, as requests that tools can send; `asyncapi` is the AsyncAPI document of the webhooks.
    """
    import yaml

    from openapi import asyncapi, bundle
    from openapi.request_files import http_file, postman

    if document == "asyncapi" and form in ("postman", "http"):
        raise click.UsageError(f"asyncapi has no requests to print as {form}: choose json or yaml")
    content = asyncapi.document() if document == "asyncapi" else bundle(document)
    if form == "yaml":
        click.echo(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120), nl=False)
    elif form == "http":
        click.echo(http_file(content, url), nl=False)
    else:
        output = content if form == "json" else postman(content, url)
        click.echo(json.dumps(output, indent=2, ensure_ascii=False))
