"""Comparison of every response with the OpenAPI documents: on in tests, off in production.

The setting is `LOYALTY_VALIDATE_RESPONSES`.
"""

import logging
from collections.abc import Mapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

import openapi
from handlers.http.exchange import exchange_of
from handlers.http.problems import MEDIA_TYPE
from handlers.messages import json_text
from handlers.messages.json_text import encode
from handlers.messages.validation import Schemas, Validator

_log = logging.getLogger("loyalty.contract")
# Statuses that any operation may return at any time.
_UNDECLARED = {500, 503}
_PROBLEM_FIELDS = {"type": str, "title": str, "status": int, "detail": str, "instance": str}

# The validators of an operation's responses, by status and media type; None for a media type without a schema.
Responses = Mapping[str, Mapping[str, Validator | None]]


class ResponseContract:
    """A wrapper of an application: a response that the OpenAPI document forbids becomes a 500 with the reasons."""

    def __init__(
        self, app: ASGIApp, documents: Mapping[str, Mapping[str, Any]], schemas: Mapping[str, Schemas]
    ) -> None:
        self._app = app
        self._responses: dict[str, Responses] = {}
        for surface, document in documents.items():
            for *_, operation in openapi.operations_of(document):
                name = f"{surface}:{operation['operationId']}"
                self._responses[name] = _compile(operation["responses"], schemas[surface])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; send its response after the comparison."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._app(scope, receive, collect)
        if not messages:
            return
        body = b"".join(message.get("body", b"") for message in messages[1:])
        operation_id = exchange_of(scope).operation_id
        violations = self._violations(operation_id, scope["method"], messages[0], body)
        if violations:
            _log.error("AssertionError: %s broke its document: %s", operation_id, violations)
            problem = {
                "type": "/problems/contract-violation",
                "title": "The response does not match the document",
                "status": 500,
                "detail": f"{operation_id} returned {messages[0]['status']}: {violations}"[:4000],
                "instance": exchange_of(scope).request_id,
            }
            messages = [
                {"type": "http.response.start", "status": 500, "headers": [(b"content-type", MEDIA_TYPE.encode())]},
                {"type": "http.response.body", "body": encode(problem)},
            ]
        for message in messages:
            await send(message)

    def _violations(self, operation_id: str | None, method: str, start: Message, body: bytes) -> list[str]:
        """The differences between a response and its OpenAPI document, none for a page, which has no `operation_id`."""
        status = start["status"]
        media_type = dict(start["headers"]).get(b"content-type", b"").decode().split(";")[0].strip()
        if operation_id is None and (status, media_type) == (404, "text/html"):
            # The page for a browser that requested an unknown path.
            return []
        if status >= 400 and not self._has_own_form(operation_id, status, media_type):
            violations = _problem_violations(status, media_type, body)
            if violations or operation_id is None:
                return violations
        elif operation_id is None:
            return []
        responses = self._responses[operation_id]
        validators = responses.get(str(status), responses.get("default"))
        if validators is None:
            return [] if status in _UNDECLARED else [f"the status {status} is not documented"]
        if method == "HEAD":
            return []
        if not validators:
            return [f"{status} has a body, none is documented"] if body else []
        if media_type not in validators:
            return [f"the media type {media_type or '(none)'} is not documented for {status}"]
        validator = validators[media_type]
        if validator is None:
            return []
        value = json_text.decode_stored(body) if media_type.endswith(("/json", "+json")) else body.decode()
        return [f"{json_text.pointer_to(path) or '/'}: {detail}" for path, detail in validator.faults(value)]

    def _has_own_form(self, operation_id: str | None, status: int, media_type: str) -> bool:
        """True if the OpenAPI document declares another body than a problem for an error: another media type, or none.

        Such forms are prescribed by another standard, or by a partner.
        """
        validators = self._responses.get(operation_id or "", {}).get(str(status))
        if validators is None:
            return False
        return not validators or (media_type != MEDIA_TYPE and media_type in validators)


def _compile(responses: Mapping[str, Any], schemas: Schemas) -> Responses:
    """Compile the validators of the bodies of an operation's responses, by status and media type."""
    compiled: dict[str, Mapping[str, Validator | None]] = {}
    for status, response in responses.items():
        content = schemas.resolve(response).get("content", {})
        compiled[str(status)] = {
            media_type.lower(): schemas.validator(body["schema"]) if "schema" in body else None
            for media_type, body in content.items()
        }
    return compiled


def _problem_violations(status: int, media_type: str, body: bytes) -> list[str]:
    """The differences between the response to an error and RFC 9457."""
    if media_type != MEDIA_TYPE:
        # A page that a machine polls may have a form of its own.
        has_own_form = media_type == "application/json" and status == 503
        return [] if has_own_form else [f"the response with {status} is {media_type}, not {MEDIA_TYPE}"]
    if not body:
        return []
    problem = json_text.decode_stored(body)
    wrong_names = [name for name, kind in _PROBLEM_FIELDS.items() if not isinstance(problem.get(name), kind)]
    if not wrong_names and problem["status"] != status:
        wrong_names.append("status")
    return [f"the problem's field {name} is missing or wrong" for name in wrong_names]
