"""Routing by a tree of path segments over all OpenAPI documents at once, instead of connexion's linear scan.

The resolver by which connexion gets the names of the operations is in this module, too.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

from connexion.exceptions import ResolverError
from connexion.middleware.abstract import ROUTING_CONTEXT, SpecMiddleware
from connexion.operations import AbstractOperation
from connexion.resolver import Resolution, Resolver
from connexion.spec import Specification
from starlette.types import ASGIApp, Receive, Scope, Send

import openapi
from handlers.http.exchange import exchange_of
from handlers.http.problems import HttpProblem
from handlers.http.request_plans import UnreadableText, decode_text
from handlers.messages.validation import DocumentError, Schemas

_VARIABLE = re.compile(r"\{[^{}]+\}")

Target = TypeVar("Target")


def variables_of(template: str) -> tuple[str, ...]:
    """The parameters of a path in their order; raises DocumentError if one shares a segment with other text."""
    segments = [segment for segment in template.split("/") if "{" in segment or "}" in segment]
    if not all(_VARIABLE.fullmatch(segment) for segment in segments):
        raise DocumentError(f"{template}: a segment is either a parameter or literal")
    return tuple(segment[1:-1] for segment in segments)


class _Node(Generic[Target]):
    """A node of the tree: its children by literal segment, the child for any other segment, and targets by method."""

    __slots__ = ("allow", "literal", "targets", "variable")

    def __init__(self) -> None:
        self.literal: dict[str, _Node[Target]] = {}
        self.variable: _Node[Target] | None = None
        self.targets: dict[str, Target] = {}
        self.allow = ""


class SegmentTree(Generic[Target]):
    """A tree of paths such as `/members/{memberId}`, with a target for each method.

    A literal segment takes precedence over a variable one (OpenAPI 3.0.3, Paths).
    """

    def __init__(self) -> None:
        self._root: _Node[Target] = _Node()

    def add(self, template: str, method: str, target: Target) -> None:
        """Register a target; raises DocumentError if another one has the same path and method."""
        node = self._root
        for segment in template.strip("/").split("/"):
            if variables_of(segment):
                if node.variable is None:
                    node.variable = _Node()
                node = node.variable
            else:
                node = node.literal.setdefault(segment, _Node())
        if method in node.targets:
            raise DocumentError(f"{method} {template} is declared twice: by {node.targets[method]} and by {target}")
        node.targets[method] = target
        if method == "GET":
            node.targets["HEAD"] = target
        node.allow = ", ".join(sorted({*node.targets, "OPTIONS"}))

    def find(self, raw_path: bytes) -> tuple[Mapping[str, Target], str, list[bytes]] | None:
        """The targets by method, the `Allow` header, and the still encoded variable segments of a path.

        None for a path that no operation has.
        """
        segments = raw_path.split(b"/")[1:]
        variables: list[bytes] = []
        node = self._find_node(self._root, segments, 0, variables)
        return (node.targets, node.allow, variables) if node is not None else None

    def _find_node(
        self, node: _Node[Target], segments: list[bytes], depth: int, variables: list[bytes]
    ) -> _Node[Target] | None:
        """Find the node below `node` for the segments from `depth` on; add the variable segments to `variables`."""
        if depth == len(segments):
            return node if node.targets else None
        segment = segments[depth]
        literal = node.literal.get(_literal(segment))
        if literal is not None:
            target_node = self._find_node(literal, segments, depth + 1, variables)
            if target_node is not None:
                return target_node
        if node.variable is not None and segment:
            variable_count = len(variables)
            variables.append(segment)
            target_node = self._find_node(node.variable, segments, depth + 1, variables)
            if target_node is not None:
                return target_node
            del variables[variable_count:]
        return None


def _origin_form(target: bytes) -> bytes:
    """The path of a request target, without the scheme and host that clients of a proxy send (RFC 9112, 3.2.2)."""
    if target.startswith(b"/"):
        return target
    _, _, without_scheme = target.partition(b"://")
    return b"/" + without_scheme.partition(b"/")[2]


def _literal(segment: bytes) -> str:
    """The decoded segment; for an undecodable one the empty text, which is no segment of an OpenAPI document."""
    try:
        return decode_text(segment)
    except UnreadableText:
        return ""


class _Route(NamedTuple):
    operation_id: str
    base_path: str
    template: str
    variables: tuple[str, ...]
    without_body: frozenset[int]

    def __str__(self) -> str:
        return self.operation_id


class SurfaceResolver(Resolver):  # type: ignore[misc]
    """Maps every operation of one OpenAPI document to the dispatcher, under the name `surface:operationId`.

    The surface is in the name because both OpenAPI documents may have the same operationId.
    """

    def __init__(self, surface: str, dispatch: Callable[..., Any]) -> None:
        super().__init__()
        self._surface = surface
        self._dispatch = dispatch

    def resolve(self, operation: AbstractOperation) -> Resolution:
        """The dispatcher, for any operation; raises ResolverError for one without an operationId."""
        if not operation.operation_id:
            raise ResolverError(f"{operation.method} {operation.path} has no operationId")
        return Resolution(self._dispatch, f"{self._surface}:{operation.operation_id}")


class Routing(SpecMiddleware):  # type: ignore[misc]
    """Finds the operation of a request and passes it to connexion's later middlewares."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tree: SegmentTree[_Route] = SegmentTree()

    def add_api(self, specification: Specification, *, base_path: str, name: str, schemas: Schemas, **_: Any) -> None:
        """Register the paths of an OpenAPI document under their operation's name, `surface:operationId`."""
        for path, method, _item, operation in openapi.operations_of(specification.raw):
            without_body = _errors_without_body(operation["responses"], schemas)
            template = base_path + path
            operation_name = f"{name}:{operation['operationId']}"
            route = _Route(operation_name, base_path, template, variables_of(template), without_body)
            self._tree.add(template, method.upper(), route)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Route one request; an unknown path is passed on to the plain pages."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        context = scope.setdefault("extensions", {}).setdefault(ROUTING_CONTEXT, {})
        match = self._tree.find(_origin_form(scope.get("raw_path") or scope["path"].encode()))
        if match is None:
            context.update(api_base_path=None, operation_id=None)
            await self._app(scope, receive, send)
            return
        targets, allow, variables = match
        target = targets.get(scope["method"])
        if target is None:
            if scope["method"] == "OPTIONS":
                await send({"type": "http.response.start", "status": 204, "headers": [(b"allow", allow.encode())]})
                await send({"type": "http.response.body", "body": b""})
                return
            raise HttpProblem(405, f"{scope['method'][:20]} is not allowed here.", headers={"Allow": allow})
        exchange = exchange_of(scope)
        exchange.operation_id = target.operation_id
        exchange.route = target.template
        exchange.without_body = target.without_body
        exchange.path_values = tuple(zip(target.variables, variables, strict=True))
        context.update(api_base_path=target.base_path, operation_id=target.operation_id)
        await self._app(scope, receive, send)


def _errors_without_body(responses: Mapping[str, Any], schemas: Schemas) -> frozenset[int]:
    """The statuses of errors that are declared without content and therefore have no body."""
    by_status = {int(status): schemas.resolve(response) for status, response in responses.items() if status.isdigit()}
    return frozenset(status for status, response in by_status.items() if status >= 400 and not response.get("content"))
