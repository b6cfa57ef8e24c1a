"""The dispatcher: runs the handler of calls in one database transaction, and commits.

Calls always run as a batch. Most batches have one call; calls of one operation that have to wait may share a batch.
"""

import logging
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, TimeoutError

from domain.calendar import instant_text
from domain.organizations import TEST, Organization
from domain.problems import NotFound, Refusal
from domain.test_clocks import TestClockAdvancing
from handlers import metrics
from handlers.audit_trail import Audited, lock_of, write_entries
from handlers.call import (
    TEST_CLOCK_HEADER,
    BatchedCall,
    Call,
    Caller,
    NotBatchable,
    Request,
    RequestContext,
    Response,
)
from handlers.http.addresses import PathAddress
from handlers.http.routes import Route, documented_routes
from handlers.operation import BatchHandler, BeforeTransaction, Operation
from handlers.services.limit_configuration import limit_configuration, lock_configuration
from handlers.services.organizations.caller_rights import Admission, permitted_callers
from handlers.settings import Settings
from persistence import audit_log, replication, test_clocks, transactions
from persistence.connections import TransactionDeadlineExceeded
from persistence.engine import autocommit
from persistence.records import Addresses

# Operations whose path and caller name no organization: they find it themselves.
WITHOUT_ORGANIZATION = frozenset({"createAccessToken"})

# The milliseconds that a batch of several calls waits for a lock before its calls are run individually: longer than
# most commits take, and short for the calls of the batch that do not need the lock.
BATCH_LOCK_MS = 50

# How long a list waits for the response of the read replica, and how long the replica gets no queries after it did not
# respond.
REPLICA_SECONDS, REPLICA_PAUSE_SECONDS = 2.0, 30.0
# How long a list waits until the replica has everything that was committed, and how long lists are read from the
# primary after such a wait was in vain.
REPLICA_WAIT_SECONDS, REPLICA_BEHIND_SECONDS = 0.1, 2.0

_log = logging.getLogger("loyalty.replica")


class Dispatcher:
    """Calls the handlers of requests that satisfy the OpenAPI document.

    With a `replica`, lists and reports are read from it, as soon as it has everything that was committed before the
    request. Operations declared `may_be_outdated` do not wait for that. If the replica is unavailable or too far
    behind, the primary is read.
    """

    def __init__(self, settings: Settings, engine: Engine, replica: Engine | None = None) -> None:
        self._settings = settings
        self._engine = engine
        self._read_engine = autocommit(engine)
        self._replica = None if replica is None else autocommit(replica)
        self._replica_unavailable_until = 0.0
        self._replica_behind_until = 0.0
        self._routes = documented_routes()

    def __call__(self, requests: Sequence[Request]) -> Sequence[Response | Exception]:
        """Run requests of one operation and organization, in most cases one request, in one database transaction.

        Returns the outcome of each request: a response, a refusal, or NotBatchable if it has to be run individually.
        If there is only one request, its refusal is raised, so that nothing is committed. Also raises what concerns all
        requests: NotBatchable, a Refusal, or a database error if further attempts cannot help.
        """
        route = self._routes[requests[0].surface, requests[0].operation_id]
        if self._replica is not None and _may_read_replica(route):
            outcomes = self._read_replica(self._replica, route, requests)
            metrics.count_replica_read("primary" if outcomes is None else "replica")
            if outcomes is not None:
                return outcomes
        # Operations with a hook have no batch handler, so there is only one request.
        hook_result = None
        if route.operation.before_transaction is not None:
            hook_result = self._run_hook(route.operation.before_transaction, route.operation, requests[0])
        run, engine = (transactions.read, self._read_engine) if route.reads else (transactions.run, self._engine)
        outcomes = run(engine, partial(self._run_batch, route=route, requests=requests, hook_result=hook_result))
        if route.operation.after_transaction is not None:
            # The response of the hook replaces the response of the handler.
            return [route.operation.after_transaction(self._engine, self._settings, requests[0])]
        return outcomes

    def run_within(self, db: Connection, request: Request) -> Response:
        """Run a request in the open database transaction of the caller, who commits it; raises its refusal."""
        [response] = self._run_batch(db, self._routes[request.surface, request.operation_id], [request])
        assert isinstance(response, Response)
        return response

    def batch_key(self, surface: str, operation_id: str, caller: Caller | None) -> Hashable | None:
        """A key that is equal for calls that can be one batch; None for a call that has to be run individually."""
        # A batch is not worth it for members, who send few calls. For external tokens it is not possible: each needs
        # its own query to find its user.
        if (
            caller is None
            or caller.organization_id is None
            or caller.loyalty_member_id is not None
            or caller.is_external
        ):
            return None
        if not self._routes[surface, operation_id].is_batched:
            return None
        return surface, operation_id, caller.organization_id

    def _run_batch(
        self,
        db: Connection,
        route: Route,
        requests: Sequence[Request],
        hook_result: Any = None,
        admission: Admission | None = None,
    ) -> Sequence[Response | Exception]:
        """Run requests in an open transaction.

        If there is only one request, its refusal is raised, so that nothing is committed.
        """
        if len(requests) > 1 and not route.reads:
            # If one call needs a lock that another transaction holds, it delays the other calls of the batch only for
            # this time.
            transactions.limit_lock_wait(db, BATCH_LOCK_MS)
        now = datetime.now(UTC)
        organization, callers, first_records = admission or _admit(db, route, requests, now)
        if organization is not None:
            if route.holds_clock and organization.environment == TEST:
                organization = _hold_clock(db, organization)
            if organization.clock_now is not None:
                # Records that were read together with the organization were read as of the real time: read them again.
                first_records, now = None, organization.clock_now
            if route.operation.changes_configuration and isinstance(callers[0], Caller):
                first_records, organization = None, lock_configuration(db, organization)
        batch = []
        for request, caller in zip(requests, callers, strict=True):
            refusal = caller if isinstance(caller, Exception) else None
            call = Call(
                db=db,
                organization=organization,  # type: ignore[arg-type]
                caller=None if isinstance(caller, Exception) else caller,
                now=now,
                request_id=request.request_id,
                surface=request.surface,
                settings=self._settings,
            )
            batch.append(BatchedCall(request, call, refusal))
        _find_records(route, batch, first_records)
        self._handle(route.operation, batch, hook_result)
        _respond(route, batch)
        outcomes = [batched.outcome for batched in batch if batched.outcome is not None]
        if organization is not None and organization.clock_now is not None:
            outcomes = [_with_clock(outcome, now) for outcome in outcomes]
        if len(outcomes) == 1 and isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes

    def _handle(self, operation: Operation, batch: Sequence[BatchedCall], hook_result: Any) -> None:
        """Call the handler for each call without an outcome, then the batch handler, if there is one, for all calls."""
        for batched in batch:
            if batched.outcome is None:
                call = batched.call
                try:
                    arguments = _arguments(operation, batched, hook_result)
                    if operation.changes_configuration:
                        with limit_configuration(call.db, call.organization.organization_id):
                            result = operation.function(call, **arguments)
                    else:
                        result = operation.function(call, **arguments)
                    if operation.batch is None:
                        batched.result = result
                    else:
                        batched.batch_argument = result
                except Refusal as refusal:
                    batched.outcome = refusal
        if operation.batch is not None:
            _run_batch_handler(operation.batch, batch, self._settings.calls_together)

    def _run_hook(self, hook: BeforeTransaction, operation: Operation, request: Request) -> Any:
        """Run the hook that the operation has before its transaction; return its result."""
        command = _command(operation, request)
        return hook(RequestContext(command, request.headers, lambda work: transactions.read(self._read_engine, work)))

    def _read_replica(
        self, replica: Engine, route: Route, requests: Sequence[Request]
    ) -> Sequence[Response | Exception] | None:
        """The outcomes by the read replica; None if it is unavailable or behind, so that the primary is queried."""
        must_be_current = not route.operation.may_be_outdated
        now = time.monotonic()
        if now < self._replica_unavailable_until or (must_be_current and now < self._replica_behind_until):
            return None

        def ask_primary(db: Connection) -> tuple[Admission, str]:
            # The primary decides who may call: a permission taken from a user counts from the next request on.
            admission = permitted_callers(db, requests, route.scopes)
            return admission, replication.end_of_log(db) if must_be_current else ""

        admission, position = transactions.read(self._read_engine, ask_primary)

        def ask_replica(db: Connection) -> Sequence[Response | Exception] | None:
            if must_be_current:
                with transactions.time_limit(REPLICA_SECONDS), transactions.within_deadline(db):
                    has_reached_position = replication.wait_until_reached(db, position, REPLICA_WAIT_SECONDS)
                if not has_reached_position:
                    self._replica_behind_until = time.monotonic() + REPLICA_BEHIND_SECONDS
                    return None
            return self._run_batch(db, route, requests, admission=admission)

        try:
            return transactions.read(replica, ask_replica)
        except NotFound:
            # The primary may already have the record.
            return None
        except (DBAPIError, TimeoutError, TransactionDeadlineExceeded) as error:
            fault = "does not respond"
            if isinstance(error, DBAPIError) and transactions.lacks_schema(error):
                fault = "does not have the schema of this version"
            elif isinstance(error, DBAPIError) and not transactions.is_unavailable(error):
                if not transactions.is_retryable(error):
                    raise
                # The replica cancelled the statement because of the primary's changes.
                return None
            self._replica_unavailable_until = time.monotonic() + REPLICA_PAUSE_SECONDS
            _log.warning("the read replica %s; the primary serves for %.0f s", fault, REPLICA_PAUSE_SECONDS)
            return None


def _may_read_replica(route: Route) -> bool:
    return route.reads and (route.operation.may_be_outdated or route.operation.reads_many)


def _admit(db: Connection, route: Route, requests: Sequence[Request], now: datetime) -> Admission:
    """Find the organization, the callers and, if one statement can find them too, the first records of the paths."""
    if route.operation.operation_id in WITHOUT_ORGANIZATION:
        return Admission(organization=None, callers=[request.caller for request in requests], records=None)
    addresses = None
    if route.first_lookup is not None:
        name, _ = route.addresses[0]
        addresses = Addresses(route.first_lookup, {request.path[name] for request in requests}, now)
    return permitted_callers(db, requests, route.scopes, addresses)


def _hold_clock(db: Connection, organization: Organization) -> Organization:
    """Keep the test clock from advancing until the call ends; return the organization with the time of the clock.

    Raises TestClockAdvancing while the clock is advanced.
    """
    organization_now = test_clocks.hold(db, organization.organization_id)
    if organization_now is None:
        refusal = TestClockAdvancing("Nothing was written. Send the request again when the advance is done.")
        refusal.test_clock = organization.clock_now
        raise refusal
    return organization_now


def _with_clock(outcome: Response | Exception, now: datetime) -> Response | Exception:
    """The outcome of a call with the time of the test clock: in a header of a response, or in a refusal."""
    if isinstance(outcome, Response) and all(name != TEST_CLOCK_HEADER for name, _ in outcome.headers):
        return replace(outcome, headers=(*outcome.headers, (TEST_CLOCK_HEADER, instant_text(now))))
    if isinstance(outcome, Refusal):
        outcome.test_clock = now
    return outcome


def _find_records(route: Route, batch: Sequence[BatchedCall], first_records: Mapping[Any, Any] | None) -> None:
    """Find the records that the paths address, for the calls that have no outcome yet; add them to these calls.

    `first_records` are the records of the first parameter, by its values, if they were already read, else None. If no
    record belongs to a parameter of a call, a refusal becomes the outcome of the call.
    """
    if route.audit_of_change is not None:
        _lock_addressed_records(route.audit_of_change, batch)
    for name, address in route.addresses:
        records = _find_addressed(address, name, batch) if first_records is None else first_records
        # Records of further parameters were not read yet.
        first_records = None
        for batched in batch:
            if batched.outcome is None:
                record = records.get(batched.request.path[name])
                if record is not None and (address.inside is None or address.contains(record, batched.records)):
                    batched.records[address.argument] = record
                else:
                    batched.outcome = address.not_found(name, batched.request.path[name])


def _lock_addressed_records(audit: Audited, batch: Sequence[BatchedCall]) -> None:
    """Lock the addressed records, so that no other transaction changes them before these calls do."""
    for batched in batch:
        if batched.outcome is None:
            call, lock = batched.call, lock_of(batched.request.path, audit)
            audit_log.acquire_lock(call.db, call.organization.organization_id, lock)


def _find_addressed(address: PathAddress, name: str, batch: Sequence[BatchedCall]) -> Mapping[Any, Any]:
    """Find the records of the parameter `name` for the calls without an outcome; return them by value."""
    open_calls = [batched for batched in batch if batched.outcome is None]
    if not open_calls:
        return {}
    # Addresses that need the records of earlier parameters are never batched: then there is only this call.
    first = open_calls[0]
    return address.find(first.call, {batched.request.path[name] for batched in open_calls}, first.records)


def _arguments(operation: Operation, batched: BatchedCall, hook_result: Any) -> dict[str, Any]:
    """The arguments of the handler of a call, by name; raises InvalidRequest for an invalid body."""
    request, records = batched.request, batched.records
    arguments = {}
    for name in operation.arguments:
        if name in records:
            arguments[name] = records[name]
    if operation.takes_headers:
        arguments["headers"] = request.headers
    if operation.takes_query:
        arguments["query"] = request.query
    if operation.takes_body:
        body = _command(operation, request)
        # For an update that needs the whole record, stored values replace the fields that the request left out.
        arguments["body"] = body if operation.merge_into is None else body.of(records[operation.merge_into])
    if operation.before_transaction is not None:
        arguments["hook_result"] = hook_result
    return arguments


def _command(operation: Operation, request: Request) -> Any:
    # A body with only optional fields may be left out.
    return operation.bodies[request.surface].load({} if request.body is None else request.body)


def _run_batch_handler(handler: BatchHandler, batch: Sequence[BatchedCall], max_items: int) -> None:
    """Run the batch handler once for the open calls, those without an outcome.

    A call that cannot share its batch with other open calls, or brings it above `max_items`, gets NotBatchable.
    """
    open_calls = [batched for batched in batch if batched.outcome is None]
    if len(open_calls) > 1:
        items = 0
        for batched in open_calls:
            size = handler.size(batched.batch_argument)
            if size is None or items + size > max_items:
                batched.outcome = NotBatchable()
            else:
                items += size
        open_calls = [batched for batched in batch if batched.outcome is None]
    if not open_calls:
        return
    results = handler.run([batched.call for batched in open_calls], [batched.batch_argument for batched in open_calls])
    for batched, result in zip(open_calls, results, strict=True):
        # A refused call is complete; the outcome of the others will be a response with the result.
        if isinstance(result, Exception):
            batched.outcome = result
        else:
            batched.result = result


def _respond(route: Route, batch: Sequence[BatchedCall]) -> None:
    """Render the responses of the calls that were executed, and write their audit log."""
    audited = route.operation.audit
    logged_entries: set[audit_log.NewEntry] = set()
    audited_calls = []
    for batched in batch:
        if batched.outcome is not None:
            continue
        trail = batched.call.audit
        if isinstance(audited, Audited):
            audited.add(batched.call, batched.records, batched.result)
        if len(batch) > 1:
            # Calls with the same key created one record. The log has the entry once, for the first of these calls.
            trail.entries = [entry for entry in trail.entries if entry not in logged_entries]
            logged_entries.update(trail.entries)
        if trail.entries:
            audited_calls.append(batched.call)
        batched.outcome = _response_of(route, batched.request, batched.result)
    if audited_calls:
        write_entries(audited_calls, route.operation.operation_id)


def _response_of(route: Route, request: Request, result: Any) -> Response:
    """The response to a request, from its result."""
    if isinstance(result, Response):
        return result
    operation = route.operation
    represent = operation.representations.get(request.media_type)
    if represent is not None:
        return Response(route.status, represent(result), (("Content-Type", f"{request.media_type}; charset=utf-8"),))
    render = operation.responses.get(request.surface)
    return Response(route.status, result if render is None else render(result))
