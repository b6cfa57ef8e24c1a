"""Problem responses (RFC 9457): all exceptions of a request become responses here."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import psycopg2
from connexion import ConnexionMiddleware
from connexion.exceptions import OAuthProblem, ProblemException
from connexion.lifecycle import ConnexionRequest, ConnexionResponse
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from domain.calendar import instant_text
from domain.problems import STATUS_OF_KIND, InvalidRequest, NotFound, Refusal, StorageFull, Unauthorized, Unavailable
from domain.test_clocks import TestClockAdvancing
from handlers.call import JSON, TEST_CLOCK_HEADER
from handlers.http import storage
from handlers.http.exchange import Exchange, exchange_of
from handlers.http.throttle import TooOften
from handlers.messages.json_text import encode
from persistence.connections import TransactionDeadlineExceeded
from persistence.transactions import is_full, is_unavailable

MEDIA_TYPE = "application/problem+json"
# The operation whose errors have the form of RFC 6749.
TOKEN_OPERATION = "integration:createAccessToken"
RETRY_AFTER_SECONDS = 2
REALM = "loyalty"
# No scheme is registered for API keys, but RFC 9110 demands a challenge with every 401.
KEY_CHALLENGE = f'ApiKey realm="{REALM}"'

# status -> (slug, title) of the problems without a refusal of the domain
PROTOCOL_PROBLEMS: Mapping[int, tuple[str, str]] = {
    400: (InvalidRequest.slug, InvalidRequest.title),
    404: (NotFound.slug, NotFound.title),
    405: ("method-not-allowed", "The path does not have this method"),
    406: ("not-acceptable", "The operation has no media type that the client accepts"),
    408: ("request-timeout", "The request did not arrive in time"),
    413: ("payload-too-large", "The request body is too large"),
    414: ("uri-too-long", "The request line is too long"),
    415: ("unsupported-media-type", "The media type of the request body is not supported"),
    431: ("headers-too-large", "The request headers are too large"),
    500: ("internal-error", "The server failed"),
    503: (Unavailable.slug, Unavailable.title),
}

_log = logging.getLogger("loyalty.errors")


class HttpProblem(Exception):
    """A refusal by the protocol instead of the domain: for a path, a method, a media type, or a size."""

    def __init__(self, status: int, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.headers = dict(headers or {})


class CredentialsProblem(Exception):
    """A refusal of credentials. Of several, connexion returns the one with the highest `status`: 403 before 401."""

    def __init__(self, refusal: Refusal, challenge: str) -> None:
        super().__init__(refusal.detail)
        self.refusal = refusal
        self.status = STATUS_OF_KIND[refusal.kind]
        self.challenge = challenge


def install(middleware: ConnexionMiddleware) -> None:
    """Replace the exception handlers of a connexion stack; an exception has the handler of its nearest class."""
    for exception_class, handler in (
        (Refusal, _on_refusal),
        (CredentialsProblem, _on_credentials),
        (OAuthProblem, _on_missing_credentials),
        (HttpProblem, _on_http_problem),
        (ProblemException, _on_http_exception),
        (HTTPException, _on_http_exception),
        (OperationalError, _on_database_unavailable),
        (InterfaceError, _on_database_unavailable),
        (PoolTimeout, _on_database_unavailable),
        (TransactionDeadlineExceeded, _on_database_unavailable),
        (psycopg2.Error, _on_database_unavailable),
        (DBAPIError, _on_database_error),
        (Exception, _on_failure),
    ):
        middleware.add_error_handler(exception_class, handler)


def problem_body(status: int, detail: str, request_id: str) -> bytes:
    """The JSON of a problem that is no refusal of the domain; its type and title depend on the status."""
    if status in PROTOCOL_PROBLEMS:
        slug, title = PROTOCOL_PROBLEMS[status]
        problem_type = f"/problems/{slug}"
    else:
        # RFC 9457, 4.2.1: the problem has no other meaning than that of its status.
        problem_type = "about:blank"
        title = HTTPStatus(status).phrase
    return encode({"type": problem_type, "title": title, "status": status, "detail": detail, "instance": request_id})


def _respond(request: ConnexionRequest, status: int, body: bytes, headers: Mapping[str, str]) -> ConnexionResponse:
    """The response with a problem, or without a body if the OpenAPI document declares none for the status."""
    exchange = exchange_of(request.scope)
    if status in exchange.without_body:
        # The partner gets no details, so they are logged.
        _log.info("refused without a body: %s", body.decode(), extra=_log_fields(exchange))
        return ConnexionResponse(status_code=status, body=b"", headers={**headers, "Content-Length": "0"})
    return ConnexionResponse(status_code=status, content_type=MEDIA_TYPE, body=body, headers=dict(headers))


def _respond_refusal(request: ConnexionRequest, refusal: Refusal, headers: Mapping[str, str]) -> ConnexionResponse:
    problem = {**refusal.as_problem(), "instance": exchange_of(request.scope).request_id}
    return _respond(request, problem["status"], encode(problem), headers)


async def _on_refusal(request: ConnexionRequest, refusal: Refusal) -> ConnexionResponse:
    """Respond to a refusal, with the headers that its kind needs."""
    headers: dict[str, str] = {}
    if refusal.test_clock is not None:
        headers[TEST_CLOCK_HEADER] = instant_text(refusal.test_clock)
    if isinstance(refusal, InvalidRequest) and exchange_of(request.scope).operation_id == TOKEN_OPERATION:
        body = encode(_oauth_error(refusal))
        no_store = {"Cache-Control": "no-store"}
        return ConnexionResponse(status_code=400, content_type=JSON, body=body, headers=no_store)
    if refusal.kind == "unauthorized":
        headers["WWW-Authenticate"] = _challenge_of(exchange_of(request.scope))
    elif isinstance(refusal, TooOften):
        headers["Retry-After"] = str(refusal.state.seconds)
    elif isinstance(refusal, TestClockAdvancing):
        headers["Retry-After"] = "1"
    elif isinstance(refusal, Unavailable):
        headers["Retry-After"] = str(refusal.retry_seconds)
    elif refusal.kind == "unavailable":
        headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    return _respond_refusal(request, refusal, headers)


def _challenge_of(exchange: Exchange) -> str:
    """The challenge of a 401, by the kind of credentials that the client used."""
    if exchange.caller is not None and exchange.caller.partner is not None:
        return KEY_CHALLENGE
    # RFC 6749, 5.2: a client that used a scheme gets a challenge of this scheme.
    if exchange.headers.get("authorization", "").lower().startswith("basic"):
        return f'Basic realm="{REALM}"'
    return f'Bearer realm="{REALM}", error="invalid_token"'


async def _on_credentials(request: ConnexionRequest, problem: CredentialsProblem) -> ConnexionResponse:
    """Respond to credentials that are not valid, or that do not suffice."""
    return _respond_refusal(request, problem.refusal, {"WWW-Authenticate": problem.challenge})


async def _on_missing_credentials(request: ConnexionRequest, _: OAuthProblem) -> ConnexionResponse:
    """Respond to a request without credentials."""
    # RFC 6750, 3.1: without credentials the challenge has no error code.
    refusal = Unauthorized("The request has no credentials of a kind that this operation takes.")
    return _respond_refusal(request, refusal, {"WWW-Authenticate": f'Bearer realm="{REALM}"'})


async def _on_http_problem(request: ConnexionRequest, problem: HttpProblem) -> ConnexionResponse:
    """Respond to a problem that has its own status and headers."""
    body = problem_body(problem.status, problem.detail, exchange_of(request.scope).request_id)
    return _respond(request, problem.status, body, problem.headers)


async def _on_http_exception(request: ConnexionRequest, error: HTTPException) -> ConnexionResponse:
    """Respond to an exception of connexion or Starlette, whose status is known."""
    if error.status_code >= 500:
        return await _on_failure(request, error)
    body = problem_body(error.status_code, "The request cannot be served.", exchange_of(request.scope).request_id)
    return _respond(request, error.status_code, body, error.headers or {})


async def _on_database_unavailable(request: ConnexionRequest, error: Exception) -> ConnexionResponse:
    """Log that the database is unavailable; respond with a 503."""
    exchange = exchange_of(request.scope)
    cause = type(getattr(error, "orig", None) or error).__name__
    _log.warning("the database is unavailable: %s", cause, extra=_log_fields(exchange))
    if is_full(error):
        storage.record_full_disk()
        return await _on_refusal(request, StorageFull("The disk of the database is full. Nothing was changed."))
    detail = "The database is unavailable, or did not respond in time. Try again."
    body = problem_body(503, detail, exchange.request_id)
    return _respond(request, 503, body, {"Retry-After": str(RETRY_AFTER_SECONDS)})


async def _on_database_error(request: ConnexionRequest, error: DBAPIError) -> ConnexionResponse:
    """Respond to an error of a statement, which may also be that of a lost connection or a read-only database."""
    if is_unavailable(error):
        return await _on_database_unavailable(request, error)
    return await _on_failure(request, error)


async def _on_failure(request: ConnexionRequest, error: Exception) -> ConnexionResponse:
    """Log an unexpected error; respond with a 500."""
    exchange = exchange_of(request.scope)
    _log.error("a request failed", exc_info=error, extra=_log_fields(exchange))
    body = problem_body(500, "Something went wrong. The request id leads to the log entry.", exchange.request_id)
    return _respond(request, 500, body, headers={})


def _log_fields(exchange: Exchange) -> dict[str, Any]:
    return {"requestId": exchange.request_id, "operation": exchange.operation_id}


def _oauth_error(refusal: InvalidRequest) -> dict[str, str]:
    """The error of a token request that the OpenAPI document does not accept, in the form of RFC 6749 (section 5.2)."""
    # A field that cannot be read or was sent twice is a fault with a parameter, not a pointer: an invalid request.
    faults = {fault.pointer: fault.detail for fault in refusal.faults}
    grant_fault = faults.get("/grant_type")
    if grant_fault is not None and not grant_fault.endswith(" is missing."):
        error = "unsupported_grant_type"
    elif set(faults) == {"/scope"}:
        error = "invalid_scope"
    else:
        error = "invalid_request"
    # Section 5.2 allows printable ASCII without quotation mark and backslash.
    detail = refusal.detail.replace('"', "'").replace("\\", "/")
    return {"error": error, "error_description": detail.encode("ascii", "replace").decode()}
