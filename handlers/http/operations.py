"""Invocation: hands a validated request to the dispatcher in a thread, by plans compiled at start.

Operations are invoked straight from connexion's stack and not through Flask's WSGI application: nothing of Flask would
be used on the way, and it would add more than half of the cost of the whole HTTP layer (`docs/performance.md`). Flask
serves the plain pages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import nullcontext, suppress
from typing import Any, NamedTuple, Protocol

from connexion.middleware.abstract import ROUTING_CONTEXT, SpecMiddleware
from connexion.spec import Specification
from starlette.types import ASGIApp, Receive, Scope, Send

import openapi
from domain.problems import DeadlineExceeded, FieldFault, InvalidRequest, Refusal, TooBusy
from handlers import tracing
from handlers.call import Caller, NotBatchable, Request, Response
from handlers.http.deprecation import DeprecationPlan
from handlers.http.exchange import Exchange, exchange_of, request_id_of_thread
from handlers.http.intake import ClientGone, KeptBody, read_body, read_upload
from handlers.http.negotiation import ResponseTypes
from handlers.http.problems import TOKEN_OPERATION, HttpProblem
from handlers.http.request_plans import BodyPlan, ParameterPlan
from handlers.http.routing import variables_of
from handlers.http.threads import CallBatches, Share, WaitingCall
from handlers.http.throttle import Throttle
from handlers.messages.faults import MAX_FAULTS
from handlers.messages.json_text import encode
from handlers.messages.uploads import Upload
from handlers.messages.validation import DocumentError, Schemas
from handlers.operation import all_operations
from persistence.transactions import (
    JointDeadline,
    TransactionDeadline,
    deadline_of_thread,
    is_lock_timeout,
    is_unavailable,
)

_log = logging.getLogger("loyalty.batches")

_CLIENT_CLOSED_REQUEST = 499
# How many times as long as any other request the upload of a file may take.
_UPLOAD_TIMES = 10
_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", b"accept")
# The headers that all handlers get; the OpenAPI document of an operation can name others for its handler.
_HEADERS_FOR_ALL = ("authorization", "accept-language", "idempotency-key", "user-agent", "if-match", "if-none-match")
# The maximum of a body with a large record, so that a page of 100 records has at most about 25 MiB.
_MAX_RECORD_BYTES = 256 * 1024
# A call with a longer body has many items, and is a batch of its own.
_MAX_BATCHED_BYTES = 16_384


class Rendered(NamedTuple):
    """A response in the form in which it is sent."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Dispatch(Protocol):
    """Runs requests of one operation and organization, mostly one, in one transaction."""

    def __call__(self, requests: Sequence[Request], /) -> Sequence[Response | Exception]:
        """The outcome of each request: a response, a refusal, or NotBatchable. Raises an error that concerns all."""

    def batch_key(self, surface: str, operation_id: str, caller: Caller | None) -> Hashable | None:
        """A key that is equal for calls that can be one batch; None for a call that has to be run individually."""


class OperationPlan:
    """One operation of an OpenAPI document, compiled: how its requests are read, validated and handed on."""

    def __init__(
        self, surface: str, path: str, item: Mapping[str, Any], operation: Mapping[str, Any], schemas: Schemas
    ) -> None:
        self.surface = surface
        self.operation_id: str = operation["operationId"]
        self.makes_tokens = f"{surface}:{self.operation_id}" == TOKEN_OPERATION
        operation_of_handler = all_operations().get(self.operation_id)
        self.dry_run_mark = None if operation_of_handler is None else operation_of_handler.dry_run_mark
        self.has_large_records = operation_of_handler is not None and operation_of_handler.has_large_records
        operation_name = f"{surface} {self.operation_id}"
        parameters = _parameters(item, operation, schemas)
        self._parameters = ParameterPlan(parameters, schemas, operation_name)
        differences = set(variables_of(path)) ^ self._parameters.path_names
        if differences:
            raise DocumentError(f"{operation_name}: the path and its parameters differ: {differences}")
        request_body = schemas.resolve(operation["requestBody"]) if "requestBody" in operation else None
        self.body = BodyPlan(request_body, schemas, operation_name) if request_body else None
        bodies = [content["schema"] for content in request_body["content"].values()] if request_body else []
        self._deprecation = DeprecationPlan(operation, parameters, bodies, schemas, operation_name)
        success = next(status for status in operation["responses"] if status.startswith("2"))
        self.response_types = ResponseTypes(schemas.resolve(operation["responses"][success]))
        headers = [parameter for parameter in parameters if parameter["in"] == "header"]
        self._documented_headers = [header["name"].lower() for header in headers]
        self._header_names = (*_HEADERS_FOR_ALL, *self._documented_headers)

    def arguments(self, query: bytes, faults: list[FieldFault]) -> dict[str, Any]:
        """The typed parameters of a query, with defaults; their faults are added to `faults`."""
        return self._parameters.read_query(query, faults)[0]

    def request(self, call: HttpCall) -> Request:
        """The typed request of a call.

        Raises InvalidRequest with all faults of parameters and body together, or a 406.
        """
        exchange = call.exchange
        faults: list[FieldFault] = []
        path = self._parameters.read_path(exchange.path_values, faults)
        arguments, query_names = self._parameters.read_query(call.query, faults)
        if self._documented_headers:
            self._parameters.check_headers(exchange.headers, faults)
        body = None if self.body is None else self.body.read(call.raw, call.media_type, faults)
        if faults:
            raise InvalidRequest(list(dict.fromkeys(faults))[:MAX_FAULTS])
        if not self._deprecation.is_empty:
            exchange.deprecated_at = self._deprecation.earliest(query_names, body)
        return Request(
            surface=self.surface,
            operation_id=self.operation_id,
            path=path,
            query=arguments,
            body=body,
            caller=exchange.caller,
            request_id=exchange.request_id,
            headers={name: exchange.headers[name] for name in self._header_names if name in exchange.headers},
            address=exchange.address,
            media_type=self.response_types.choose(exchange.headers.get("accept")),
        )


class HttpCall(WaitingCall[Rendered]):
    """A request that the server has read."""

    def __init__(
        self, plan: OperationPlan, exchange: Exchange, query: bytes, raw: bytes | Upload, media_type: str | None
    ) -> None:
        super().__init__()
        self.plan = plan
        self.exchange = exchange
        self.deadline = TransactionDeadline()
        self.trace = tracing.current()
        self.raw = raw
        self.query = query
        self.media_type = media_type


class Operations(SpecMiddleware):  # type: ignore[misc]
    """The innermost application: reads bodies on the event loop and does everything else in threads.

    `pool` returns the threads of an organization, `dry_run_pool` those of its dry runs, `token_pool` those of a token
    request.
    """

    def __init__(
        self,
        pages: ASGIApp,
        dispatch: Dispatch,
        pool: Callable[[Hashable], Share],
        *,
        token_pool: Callable[[Exchange, bytes], Executor],
        dry_run_pool: Callable[[Hashable], Executor],
        throttle: Throttle,
        max_body_bytes: int,
        request_seconds: float,
        max_batch: int = 1,
    ) -> None:
        self._pages = pages
        self._dispatch = dispatch
        self._pool = pool
        self._token_pool = token_pool
        self._dry_run_pool = dry_run_pool
        self._dispatch_token_request = throttle.guard(dispatch)
        self._throttle = throttle
        self._max_body_bytes = max_body_bytes
        self._max_record_bytes = min(max_body_bytes, _MAX_RECORD_BYTES)
        self._request_seconds = request_seconds
        self._plans: dict[str, OperationPlan] = {}
        self._max_batch = max_batch
        self._batches: CallBatches[HttpCall] = CallBatches(self._run, max_batch)
        self._kept_bytes: Counter[Hashable] = Counter()

    def add_api(self, specification: Specification, *, name: str, schemas: Schemas, **_: Any) -> None:
        """Compile the operations of an OpenAPI document; raises DocumentError for operations that cannot be served."""
        for path, _method, item, operation in openapi.operations_of(specification.raw):
            plan = OperationPlan(name, path, item, operation, schemas)
            self._plans[f"{name}:{plan.operation_id}"] = plan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that passed routing and security."""
        operation_id = None
        if scope["type"] == "http":
            operation_id = scope["extensions"][ROUTING_CONTEXT]["operation_id"]
        if operation_id is None:
            await self._pages(scope, receive, send)
            return
        plan, exchange = self._plans[operation_id], exchange_of(scope)
        self._throttle.count_caller(exchange)
        raw: bytes | Upload = b""
        media_type = None
        organization = _organization_of(exchange)
        kept_body = KeptBody(self._kept_bytes, organization)
        try:
            if plan.body is None:
                await self._refuse_body(receive, exchange, kept_body)
            else:
                if "content-type" in exchange.headers or "content-encoding" in exchange.headers:
                    media_type = plan.body.accepted_media_type(exchange)
                max_bytes = self._max_record_bytes if plan.has_large_records else self._max_body_bytes
                raw = await self._read(plan.body, max_bytes, receive, exchange, kept_body)
                if not raw:
                    media_type = None
                elif media_type is None:
                    media_type = plan.body.accepted_media_type(exchange)
            call = HttpCall(plan, exchange, scope["query_string"], raw, media_type)
            status, headers, body = await self._run_in_time(call, organization)
        except ClientGone:
            exchange.status = _CLIENT_CLOSED_REQUEST
            return
        finally:
            kept_body.release()
            if isinstance(raw, Upload):
                raw.close()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _refuse_body(self, receive: Receive, exchange: Exchange, kept_body: KeptBody) -> None:
        """Refuse a body that is sent to an operation without a body: its content would be ignored."""
        if exchange.headers.get("content-length", "0") == "0" and "transfer-encoding" not in exchange.headers:
            return
        if await read_body(receive, exchange, self._max_body_bytes, self._seconds_left(exchange), kept_body):
            raise HttpProblem(400, "The operation takes no body.")

    async def _read(
        self, body: BodyPlan, max_bytes: int, receive: Receive, exchange: Exchange, kept_body: KeptBody
    ) -> bytes | Upload:
        """Read the body. If it has a file, the time for the request counts from the arrival of the file."""
        if body.max_file_bytes is None:
            return await read_body(receive, exchange, max_bytes, self._seconds_left(exchange), kept_body)
        upload = await read_upload(receive, exchange, body.max_file_bytes, _UPLOAD_TIMES * self._request_seconds)
        exchange.arrived_at = time.perf_counter()
        return upload

    async def _run_in_time(self, call: HttpCall, organization: Hashable) -> Rendered:
        """Run a call in one of the threads that its organization may use.

        Raises TooBusy if its time runs out before the call begins, DeadlineExceeded if it runs out later.
        """
        self._submit(call, organization)
        await _wait_for_end(call.future, self._seconds_left(call.exchange))
        if call.future.done():
            return call.future.result()
        if call.future.cancel():
            raise TooBusy("The server had no time for the request. Nothing was changed; try again.")
        call.deadline.expire()
        raise DeadlineExceeded(
            f"The request took longer than {self._request_seconds:g} seconds and was ended. If it has no "
            "systemUniqueKey, check whether it took effect before you repeat it."
        )

    def _submit(self, call: HttpCall, organization: Hashable) -> None:
        """Have a call run by a thread, in a batch with others of its kind if some are waiting."""
        plan = call.plan
        if plan.makes_tokens and isinstance(call.raw, bytes):
            self._batches.submit_individually(call, self._token_pool(call.exchange, call.raw))
            return
        if plan.dry_run_mark is not None and isinstance(call.raw, bytes) and plan.dry_run_mark in call.raw:
            # Another request that contains the mark by chance is served as well, though perhaps later.
            self._batches.submit_individually(call, self._dry_run_pool(organization))
            return
        pool, kind = self._pool(organization), None
        if self._max_batch > 1 and len(call.raw) <= _MAX_BATCHED_BYTES:
            kind = self._dispatch.batch_key(plan.surface, plan.operation_id, call.exchange.caller)
        if kind is None:
            self._batches.submit_individually(call, pool)
        else:
            self._batches.submit(kind, call, pool, asyncio.get_running_loop().call_later)

    def _seconds_left(self, exchange: Exchange) -> float:
        return exchange.seconds_left(self._request_seconds)

    def _run(self, calls: Sequence[HttpCall]) -> list[Rendered | Exception]:
        """Run a batch of calls of one operation and organization, in most cases one call; render the responses."""
        outcomes: dict[HttpCall, Rendered | Exception] = {}
        requests: dict[HttpCall, Request] = {}
        for call in calls:
            try:
                requests[call] = call.plan.request(call)
            except Exception as error:
                outcomes[call] = error
        if requests:
            valid_calls, valid_requests = [*requests], [*requests.values()]
            for call, response in zip(valid_calls, self._dispatch_batch(valid_calls, valid_requests), strict=True):
                outcomes[call] = _render(call.plan, response) if isinstance(response, Response) else response
        return [outcomes[call] for call in calls]

    def _dispatch_batch(self, calls: Sequence[HttpCall], requests: Sequence[Request]) -> Sequence[Response | Exception]:
        """Dispatch the requests of a batch; return the response or the error of each request."""
        first = calls[0]
        deadline = first.deadline if len(calls) == 1 else JointDeadline([call.deadline for call in calls])
        request_id_of_thread.set(first.exchange.request_id)
        deadline_of_thread.set(deadline)
        dispatch = self._dispatch_token_request if first.plan.makes_tokens else self._dispatch
        try:
            with nullcontext() if first.trace is None else tracing.continue_span([call.trace for call in calls]):
                return dispatch(requests)
        except Exception as error:
            concerns_all = len(calls) == 1 or deadline.is_expired or is_unavailable(error)
            return [error if concerns_all else _outcome_of_failed_batch(error, calls)] * len(calls)
        finally:
            deadline_of_thread.set(None)
            if isinstance(deadline, JointDeadline):
                deadline.release()


def _outcome_of_failed_batch(error: Exception, calls: Sequence[HttpCall]) -> NotBatchable:
    """Log why a batch has failed; return the outcome of its calls.

    The outcome is to run each call individually, since the error of one call must not become the error of the others.
    """
    if is_lock_timeout(error):
        _log.info("a batch of %d calls needs a row that is locked: they are run individually", len(calls))
    elif not isinstance(error, Refusal | NotBatchable):
        _log.warning("a batch of %d calls has failed: they are run individually", len(calls), exc_info=error)
    return NotBatchable()


def _organization_of(exchange: Exchange) -> Hashable:
    """The organization whose share of the threads a call uses.

    This is the caller's organization, or for system administrators the organization in the path; None without one.
    """
    if exchange.caller is not None and exchange.caller.organization_id is not None:
        return exchange.caller.organization_id
    return next((value for name, value in exchange.path_values if name == "organizationId"), None)


async def _wait_for_end(work: Future[Any], seconds: float) -> None:
    """Wait until the work of a thread has ended, but at most `seconds`.

    Cheaper than `asyncio.wrap_future` and `asyncio.wait`, which create a future each.
    """
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake_from_thread(_: Future[Any]) -> None:
        # The loop may have been closed by the end of the server, when no request waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(wake)

    timer = loop.call_later(seconds, wake)
    work.add_done_callback(wake_from_thread)
    try:
        await waiter
    finally:
        timer.cancel()


def _render(plan: OperationPlan, response: Response) -> Rendered:
    """Status, headers and bytes of the response: JSON, unless it has a content type of its own."""
    headers, has_content_type = [], False
    for name, value in response.headers:
        headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))
        has_content_type = has_content_type or headers[-1][0] == b"content-type"
    if plan.response_types.is_negotiated:
        headers.append(_VARY)
    if response.status == 204 or response.body is None:
        return Rendered(response.status, headers, b"")
    body = response.body.encode() if has_content_type and isinstance(response.body, str) else encode(response.body)
    if not has_content_type:
        headers.append(_JSON)
    headers.append((b"content-length", str(len(body)).encode()))
    return Rendered(response.status, headers, body)


def _parameters(item: Mapping[str, Any], operation: Mapping[str, Any], schemas: Schemas) -> list[Mapping[str, Any]]:
    """The operation's parameters with those of its path; the operation's own take precedence."""
    by_key = {}
    for parameter in (*item.get("parameters", ()), *operation.get("parameters", ())):
        resolved_parameter = schemas.resolve(parameter)
        by_key[resolved_parameter["in"], resolved_parameter["name"]] = resolved_parameter
    return list(by_key.values())
