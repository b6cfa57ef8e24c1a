"""The command that offers the API to assistants by the Model Context Protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib import metadata
from typing import TYPE_CHECKING, Any

import click

from handlers.server.assistant_tools import AssistantTool, tools
from handlers.server.commands.api_client import ApiClient, ApiFailure
from handlers.server.commands.context import load_settings
from handlers.server.commands.server_address import server_url
from handlers.server.commands.simulate import base_url_option, organization_option, server_token
from persistence.engine import to_json

if TYPE_CHECKING:
    from mcp.server import Server

_TOKEN_SECONDS = 30 * 24 * 3600


@click.command()
@organization_option
@base_url_option
@click.option("--token", help="The access token of the calls; by default a new one with the roles that the tools need.")
@click.option(
    "--tag", "tags", multiple=True, metavar="TAG", help="Only tools of this tag, such as members; repeatable."
)
def mcp(organization: int | None, base_url: str | None, token: str | None, tags: tuple[str, ...]) -> None:
    """Offer read operations and dry runs to AI assistants (MCP).

    Speaks the Model Context Protocol on standard input and output, as assistants start it, and asks the running
    server. Nothing that it offers changes anything. Needs the extra `mcp`: `pip install loyalty-server[mcp]`.
    """
    try:
        import mcp.server  # noqa: F401
    except ImportError:
        raise click.ClickException("the package mcp is missing: pip install loyalty-server[mcp]") from None
    offered_tools = tools(tags)
    if not offered_tools:
        tags_of_tools = ", ".join(sorted({tool.tag for tool in tools()}))
        raise click.BadParameter(f"no tool has this tag; choose one of {tags_of_tools}", param_hint="--tag")
    settings = load_settings(base_url=base_url)
    roles = frozenset(tool.role for tool in offered_tools)
    organization_id, bearer = server_token(settings, organization, roles, _TOKEN_SECONDS, token)
    with ApiClient(server_url(settings), bearer, connections=4) as api:
        asyncio.run(_serve(mcp_server(api, offered_tools, organization_id)))


def mcp_server(api: ApiClient, offered_tools: Sequence[AssistantTool], organization_id: int) -> Server[Any]:
    """A server of the protocol that offers the tools; each use of a tool is a call of the API."""
    import mcp_types as types
    from mcp.server import Server

    by_name = {tool.name: tool for tool in offered_tools}

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.description,
                    input_schema=dict(tool.input_schema),
                    annotations=types.ToolAnnotations(read_only_hint=True),
                )
                for tool in offered_tools
            ]
        )

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text = await asyncio.to_thread(_call, api, by_name, organization_id, params.name, params.arguments or {})
        except (ApiFailure, ValueError) as error:
            # The assistant reads the message and corrects its call.
            message = error.message if isinstance(error, ApiFailure) else str(error)
            return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server(
        "loyalty",
        version=metadata.version("loyalty-server"),
        instructions="Reads of a loyalty server, and simulations. Nothing here changes anything.",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _call(
    api: ApiClient, by_name: dict[str, AssistantTool], organization_id: int, name: str, arguments: dict[str, Any]
) -> str:
    """Call the API for a tool; return the response as JSON."""
    if name not in by_name:
        raise ValueError(f"There is no tool {name}.")
    tool = by_name[name]
    path, query, body = tool.request(arguments, organization_id)
    response = api.get(path, **query) if tool.method == "GET" else api.post(path, body)
    return to_json(response)


async def _serve(server: Server[Any]) -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read_stream, write_stream):
        await server.run(read_stream, write_stream, server.create_initialization_options())
