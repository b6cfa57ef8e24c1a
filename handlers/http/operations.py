"""Invocation: hands a validated request to the dispatcher in a thread, by plans compiled at start.

Operations are invoked straight from connexion's stack and not through Flask's WSGI application: nothing of Flask would
be used on the way, and it would add more than half of the cost of the whole HTTP layer (`docs/performance.md`). Flask
serves the plain pages.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any, Protocol

from connexion.middleware.abstract import ROUTING_CONTEXT, SpecMiddleware
from connexion.spec import Specification
from starlette.types import ASGIApp, Receive, Scope, Send

from domain.problems import DeadlineExceeded, FieldFault, InvalidRequest, Refusal, TooBusy
from handlers import tracing
from handlers.call import Answer, Caller, DoneAlone, Request
from handlers.http.call_groups import CallGroups, Outcome, WaitingCall
from handlers.http.deprecation import DeprecationPlan
from handlers.http.exchange import Exchange, exchange_of, request_id_of_thread
from handlers.http.intake import BodyPlan, ClientGone, read_body, read_upload
from handlers.http.negotiation import AnswerTypes
from handlers.http.oauth import TOKEN_OPERATION
from handlers.http.parameters import ParameterPlan
from handlers.http.problems import HttpProblem
from handlers.http.routing import METHODS, variables_of
from handlers.http.throttle import Throttle
from handlers.messages.faults import MAX_FAULTS
from handlers.messages.json_text import encode
from handlers.messages.uploads import Upload
from handlers.messages.validation import DocumentError, Schemas
from handlers.operation import all_operations
from persistence.deadlines import JointDeadline, TransactionDeadline, deadline_of_thread
from persistence.transactions import is_away, is_lock_timeout

Dispatch = Callable[[Request], Answer]
# status, headers, body
Rendered = tuple[int, list[tuple[bytes, bytes]], bytes]

_log = logging.getLogger("loyalty.groups")

_CLIENT_CLOSED_REQUEST = 499
# A file may take so many times as long to arrive as any other request takes in all.
_UPLOAD_TIMES = 10
_JSON = (b"content-type", b"application/json")
_VARY = (b"vary", b"accept")
_HANDED_ON = ("authorization", "accept-language", "idempotency-key", "user-agent", "if-match", "if-none-match")
# A call with a longer body has many items, and is a group by itself.
_MOST_GROUPED_BYTES = 16_384


class GroupDispatch(Protocol):
    """Does several requests of one operation and organization in one transaction."""

    def kind_of(self, surface: str, operation_id: str, caller: Caller | None) -> Hashable | None:
        """The kind of calls that this one can be done together with; None if it has to be done alone."""

    def together(self, requests: Sequence[Request]) -> list[Answer | Exception | None]:
        """Do the requests. Returns the outcome of each, None for those that have to be done alone."""


class OperationPlan:
    """One operation of one document, compiled: how its requests are read, validated and handed on."""

    def __init__(
        self, surface: str, path: str, item: Mapping[str, Any], operation: Mapping[str, Any], schemas: Schemas
    ) -> None:
        self.surface = surface
        self.operation_id: str = operation["operationId"]
        self.makes_tokens = f"{surface}:{self.operation_id}" == TOKEN_OPERATION
        handled = all_operations().get(self.operation_id)
        self.dry_run_mark = None if handled is None else handled.dry_run_mark
        where = f"{surface} {self.operation_id}"
        declared = _parameters(item, operation, schemas)
        self._parameters = ParameterPlan(declared, schemas, where)
        named = set(variables_of(path))
        if named != self._parameters.path_names:
            raise DocumentError(f"{where}: the path and its parameters differ: {named ^ self._parameters.path_names}")
        request_body = schemas.resolved(operation["requestBody"]) if "requestBody" in operation else None
        self.body = BodyPlan(request_body, schemas, where) if request_body else None
        bodies = [content["schema"] for content in request_body["content"].values()] if request_body else []
        self._deprecation = DeprecationPlan(operation, declared, bodies, schemas, where)
        success = next(status for status in operation["responses"] if status.startswith("2"))
        self.answers = AnswerTypes(schemas.resolved(operation["responses"][success]))
        headers = [parameter["name"].lower() for parameter in declared if parameter["in"] == "header"]
        self._handed_on = (*_HANDED_ON, *headers)

    def arguments(self, query: bytes, faults: list[FieldFault]) -> dict[str, Any]:
        """The typed parameters of a query, with defaults; their faults are added to `faults`."""
        return self._parameters.read_query(query, faults)[0]

    def request(self, exchange: Exchange, query: bytes, raw: bytes | Upload, media_type: str | None) -> Request:
        """The typed request.

        Raises InvalidRequest with all faults of parameters and body together, or a 406.
        """
        faults: list[FieldFault] = []
        path = self._parameters.read_path(exchange.path_values, faults)
        arguments, sent = self._parameters.read_query(query, faults)
        self._parameters.check_headers(exchange.headers, faults)
        body = self._read_body(raw, media_type, faults)
        if faults:
            raise _invalid(faults)
        answered = self.answers.choose(exchange.headers.get("accept"))
        if not self._deprecation.empty:
            exchange.deprecated_at = self._deprecation.earliest(sent, body)
        return Request(
            surface=self.surface,
            operation_id=self.operation_id,
            path=path,
            query=arguments,
            body=body,
            caller=exchange.caller,
            request_id=exchange.request_id,
            headers={name: exchange.headers[name] for name in self._handed_on if name in exchange.headers},
            address=exchange.address,
            media_type=answered,
        )

    def _read_body(self, raw: bytes | Upload, media_type: str | None, faults: list[FieldFault]) -> Any:
        if self.body is None:
            return None
        if media_type is None:
            if self.body.required:
                faults.append(FieldFault("The body is missing.", pointer=""))
            return None
        if isinstance(raw, Upload):
            return raw
        try:
            return self.body.read(raw, media_type, faults)
        except InvalidRequest as refusal:
            faults.extend(refusal.faults)
            return None


class HttpCall(WaitingCall[Rendered]):
    """A request that the server has read, to be done by `do`, alone or together with others."""

    def __init__(
        self,
        do: Callable[[HttpCall], Rendered],
        plan: OperationPlan,
        exchange: Exchange,
        query: bytes,
        raw: bytes | Upload,
        media_type: str | None,
    ) -> None:
        super().__init__(do)
        self.plan = plan
        self.exchange = exchange
        self.deadline = TransactionDeadline()
        self.trace = tracing.current()
        self.raw = raw
        self._query = query
        self._media_type = media_type

    def request(self) -> Request:
        """The typed request; raises as `OperationPlan.request`."""
        return self.plan.request(self.exchange, self._query, self.raw, self._media_type)


class Operations(SpecMiddleware):  # type: ignore[misc]
    """The innermost application: reads bodies on the event loop and does everything else in one of the threads."""

    def __init__(
        self,
        pages: ASGIApp,
        dispatch: Dispatch,
        pool: Callable[[Hashable], Executor],
        *,
        token_pool: Callable[[], Executor],
        dry_run_pool: Callable[[Hashable], Executor],
        throttle: Throttle,
        max_body_bytes: int,
        request_seconds: float,
        group_dispatch: GroupDispatch | None = None,
        most_together: int = 1,
    ) -> None:
        self._pages = pages
        self._dispatch = dispatch
        self._pool = pool
        self._token_pool = token_pool
        self._dry_run_pool = dry_run_pool
        self._dispatch_token_request = throttle.guard(dispatch)
        self._throttle = throttle
        self._max_body_bytes = max_body_bytes
        self._request_seconds = request_seconds
        self._plans: dict[str, OperationPlan] = {}
        self._group_dispatch = None if most_together == 1 else group_dispatch
        self._most_together = most_together
        self._groups: CallGroups[HttpCall] = CallGroups(self._together, most_together)

    def add_api(self, specification: Specification, *, name: str, schemas: Schemas, **_: Any) -> None:
        """Compile the operations of a document; raises DocumentError for those that cannot be served."""
        for path, item in specification.raw["paths"].items():
            for method in METHODS:
                if method in item:
                    plan = OperationPlan(name, path, item, item[method], schemas)
                    self._plans[f"{name}:{plan.operation_id}"] = plan

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request that passed routing and security."""
        if scope["type"] != "http":
            await self._pages(scope, receive, send)
            return
        operation_id = scope["extensions"][ROUTING_CONTEXT]["operation_id"]
        if operation_id is None:
            await self._pages(scope, receive, send)
            return
        plan, exchange = self._plans[operation_id], exchange_of(scope)
        self._throttle.count_caller(exchange)
        raw: bytes | Upload = b""
        media_type = None
        if plan.body is None:
            await self._refuse_body(receive, exchange)
        else:
            if "content-type" in exchange.headers or "content-encoding" in exchange.headers:
                media_type = plan.body.refuse_other_types(exchange)
            try:
                raw = await self._read(plan.body, receive, exchange)
            except ClientGone:
                exchange.status = _CLIENT_CLOSED_REQUEST
                return
            if not raw:
                media_type = None
            elif media_type is None:
                media_type = plan.body.refuse_other_types(exchange)
        try:
            status, headers, body = await self._in_time(plan, exchange, scope["query_string"], raw, media_type)
        finally:
            if isinstance(raw, Upload):
                raw.close()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _refuse_body(self, receive: Receive, exchange: Exchange) -> None:
        """Refuse a body that is sent to an operation without one: what it asks for would be ignored."""
        if exchange.headers.get("content-length", "0") == "0" and "transfer-encoding" not in exchange.headers:
            return
        if await read_body(receive, exchange, self._max_body_bytes, self._seconds_left(exchange)):
            raise HttpProblem(400, "The operation takes no body.")

    async def _read(self, body: BodyPlan, receive: Receive, exchange: Exchange) -> bytes | Upload:
        """The body; the time of a request with a file begins anew once the file is there."""
        if body.most_of_file is None:
            return await read_body(receive, exchange, self._max_body_bytes, self._seconds_left(exchange))
        upload = await read_upload(receive, exchange, body.most_of_file, _UPLOAD_TIMES * self._request_seconds)
        exchange.arrived = time.perf_counter()
        return upload

    async def _in_time(
        self, plan: OperationPlan, exchange: Exchange, query: bytes, raw: bytes | Upload, media_type: str | None
    ) -> Rendered:
        """Do the work in one of the threads; raises TooBusy or DeadlineExceeded if its time runs out."""
        call = HttpCall(self._alone, plan, exchange, query, raw, media_type)
        work = self._begin(call)
        await _ended(work, self._seconds_left(exchange))
        if work.done():
            return work.result()
        if work.cancel():
            raise TooBusy("The server had no time for the request. Nothing was changed; try again.")
        # Ending a statement takes a connection to the database, for which the event loop must not wait.
        await asyncio.get_running_loop().run_in_executor(None, call.deadline.expire)
        raise DeadlineExceeded(
            f"The request took longer than {self._request_seconds:g} seconds and was ended. Look whether it was done "
            "before you repeat one that has no systemUniqueKey."
        )

    def _begin(self, call: HttpCall) -> Future[Rendered]:
        """Have a call done by a thread, together with others of its kind if some are waiting."""
        plan = call.plan
        if plan.makes_tokens:
            return self._token_pool().submit(self._alone, call)
        organization = _organization_of(call.exchange)
        # Any other request that holds the mark is served all the same, if not as soon.
        if plan.dry_run_mark is not None and isinstance(call.raw, bytes) and plan.dry_run_mark in call.raw:
            return self._dry_run_pool(organization).submit(self._alone, call)
        kind = None
        if self._group_dispatch is not None and len(call.raw) <= _MOST_GROUPED_BYTES:
            kind = self._group_dispatch.kind_of(plan.surface, plan.operation_id, call.exchange.caller)
        if kind is None:
            return self._pool(organization).submit(self._alone, call)
        later = asyncio.get_running_loop().call_later
        self._groups.submit(kind, call, self._pool(organization), later)
        return call.future

    def _seconds_left(self, exchange: Exchange) -> float:
        return max(0.0, exchange.arrived + self._request_seconds - time.perf_counter())

    def _alone(self, call: HttpCall) -> Rendered:
        """Do a call by itself."""
        request_id_of_thread.set(call.exchange.request_id)
        deadline_of_thread.set(call.deadline)
        dispatch = self._dispatch_token_request if call.plan.makes_tokens else self._dispatch
        with tracing.continued(call.trace):
            return _rendered(call.plan, dispatch(call.request()))

    def _together(self, group: Sequence[HttpCall]) -> list[Outcome[Rendered]]:
        """Do calls of one operation and organization together, as far as they can be."""
        outcomes: dict[int, Outcome[Rendered]] = {}
        joined: dict[int, Request] = {}
        for position, call in enumerate(group):
            try:
                joined[position] = call.request()
            except Exception as error:
                outcomes[position] = error
        answers = self._answers([group[position] for position in joined], list(joined.values()))
        for position, answer in zip(joined, answers, strict=True):
            outcomes[position] = _rendered(group[position].plan, answer) if isinstance(answer, Answer) else answer
        return [outcomes[position] for position in range(len(group))]

    def _answers(self, calls: Sequence[HttpCall], requests: Sequence[Request]) -> Sequence[Answer | Exception | None]:
        """The answers to requests done in one transaction; None for those that have to be done alone."""
        if len(calls) < 2 or self._group_dispatch is None:
            return [None] * len(calls)
        request_id_of_thread.set(calls[0].exchange.request_id)
        deadline = JointDeadline([call.deadline for call in calls])
        deadline_of_thread.set(deadline)
        try:
            with tracing.joint("calls together", [call.trace for call in calls]):
                return self._group_dispatch.together(requests)
        except (Refusal, DoneAlone):
            # One of them is refused as a whole, say; each shows by itself which.
            return [None] * len(calls)
        except Exception as error:
            if deadline.expired or is_away(error):
                return [error] * len(calls)
            if is_lock_timeout(error):
                _log.info("a batch of %d calls needs a row that is locked: they are run individually", len(calls))
                return [None] * len(calls)
            # A fault of one call must not be that of the others, so each shows by itself who has it.
            _log.warning("calls that were done together met a fault, so each is done alone", exc_info=error)
            return [None] * len(calls)
        finally:
            deadline.release()


def _organization_of(exchange: Exchange) -> Hashable:
    """The organization whose share of the threads a call takes: the caller's, for system administrators the path's."""
    if exchange.caller is not None and exchange.caller.organization_id is not None:
        return exchange.caller.organization_id
    return next((value for name, value in exchange.path_values if name == "organizationId"), None)


async def _ended(work: Future[Any], seconds: float) -> None:
    """Wait until the work of a thread has ended, at most so long; `asyncio.wait` does it by four futures."""
    loop = asyncio.get_running_loop()
    waiter = loop.create_future()

    def wake() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake_from_thread(_: Future[Any]) -> None:
        # The loop may have been closed by the end of the server, when nobody waits any more.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(wake)

    timer = loop.call_later(seconds, wake)
    work.add_done_callback(wake_from_thread)
    try:
        await waiter
    finally:
        timer.cancel()


def _rendered(plan: OperationPlan, answer: Answer) -> Rendered:
    """The answer as it is sent."""
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    if plan.answers.are_many:
        headers.append(_VARY)
    if answer.status == 204 or answer.body is None:
        return answer.status, headers, b""
    is_typed = any(name == b"content-type" for name, _ in headers)
    body = answer.body.encode() if is_typed and isinstance(answer.body, str) else encode(answer.body)
    if not is_typed:
        headers.append(_JSON)
    headers.append((b"content-length", str(len(body)).encode()))
    return answer.status, headers, body


def _parameters(item: Mapping[str, Any], operation: Mapping[str, Any], schemas: Schemas) -> list[Mapping[str, Any]]:
    """The operation's parameters with those of its path; the operation's own take precedence."""
    by_key = {}
    for parameter in (*item.get("parameters", ()), *operation.get("parameters", ())):
        declared = schemas.resolved(parameter)
        by_key[declared["in"], declared["name"]] = declared
    return list(by_key.values())


def _invalid(faults: list[FieldFault]) -> InvalidRequest:
    return InvalidRequest(list(dict.fromkeys(faults))[:MAX_FAULTS])
