"""The dispatcher: joins a call to its handler inside one database transaction, and commits."""

from __future__ import annotations

import logging
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, TimeoutError

import openapi
from domain.organizations import Organization
from domain.problems import FieldFault, Forbidden, InvalidRequest, NotFound, Refusal, Unauthorized
from handlers import metrics
from handlers.audit_trail import Audited, lock_of, write_entries
from handlers.call import ADMINISTRATION, JSON, Answer, Call, Caller, Request
from handlers.http.addresses import (
    ADDRESSES,
    are_found_in_sets,
    first_address,
    offered_arguments,
    resolve_addresses,
    resolve_all_addresses,
)
from handlers.operation import Operation, RequestContext, all_operations
from handlers.services.organizations.caller_rights import caller_by_now, known_caller
from handlers.services.tokens import MEMBER_SUBJECT
from handlers.settings import Settings
from persistence import audit_log, organizations, replication, transactions
from persistence.engine import autocommit
from persistence.lookups import Address
from persistence.members import MEMBERS
from persistence.organizations import CurrentRights
from persistence.users import first_organization

# Operations without an organization: they find it themselves.
WITHOUT_ORGANIZATION = frozenset({"createAccessToken"})


# The milliseconds that a batch of calls waits for a lock before its calls are run individually: longer than most
# commits take, and short for the calls of the batch that do not need the lock.
GROUP_LOCK_MS = 50

# The time without queries to the read replica after it did not answer.
REPLICA_PAUSE_SECONDS = 30.0
# How long a list waits for the replica to have all that was committed, and the time without waiting after it had not.
REPLICA_WAIT_SECONDS, REPLICA_BEHIND_SECONDS = 0.1, 2.0

_log = logging.getLogger("loyalty.replica")


class Dispatcher:
    """Calls the handler of a request that its document has accepted.

    With a `replica`, lists and reports read there once it shows all that was committed before they were called;
    operations declared `from_replica` do not wait for that. Both read from the primary if the replica is away, or too
    far behind.
    """

    def __init__(self, settings: Settings, engine: Engine, replica: Engine | None = None) -> None:
        self._settings = settings
        self._engine = engine
        self._reading = autocommit(engine)
        self._replica = None if replica is None else autocommit(replica)
        self._replica_away_until = 0.0
        self._replica_behind_until = 0.0
        self._operations = all_operations()
        self._routes = {surface: _routes(openapi.bundle(surface)) for surface in openapi.SURFACES}
        _refuse_gaps(self._operations, self._routes)
        self._grouped = {
            (surface, operation_id)
            for surface, routes in self._routes.items()
            for operation_id, route in routes.items()
            if self._operations[operation_id].together is not None and are_found_in_sets(route.parameters)
        }

    def __call__(self, request: Request) -> Answer:
        """Do the request. Raises Refusals, and database errors once further attempts are pointless."""
        operation = self._operations[request.operation_id]
        route = self._routes[request.surface][request.operation_id]
        if self._replica is not None and route.reads and (operation.from_replica or operation.reads_many):
            answer = self._from_replica(self._replica, operation, request, route)
            metrics.count_replica_read("primary" if answer is None else "replica")
            if answer is not None:
                return answer
        run, engine = (transactions.read, self._reading) if route.reads else (transactions.run, self._engine)
        prepared = self._prepared(operation, request)
        return run(engine, lambda db: self._do(db, operation, request, route, prepared))

    def within(self, db: Connection, request: Request) -> Answer:
        """Do the request in the open database transaction of the caller, who commits it."""
        operation, route = self._operations[request.operation_id], self._routes[request.surface][request.operation_id]
        return self._do(db, operation, request, route, self._prepared(operation, request))

    def kind_of(self, surface: str, operation_id: str, caller: Caller | None) -> Hashable | None:
        """The kind of calls that this one can be done together with; None if it has to be done alone."""
        if (surface, operation_id) not in self._grouped:
            return None
        # A member has few calls; queries of their own find the users of external tokens.
        if caller is None or caller.loyalty_member_id is not None or caller.is_external:
            return None
        return None if caller.organization_id is None else (surface, operation_id, caller.organization_id)

    def together(self, requests: Sequence[Request]) -> list[Answer | Exception | None]:
        """Do requests of one operation and organization in one transaction.

        Returns the outcome of each, None for those that have to be done alone. Raises errors that concern all of them,
        or that cannot be attributed to one.
        """
        return transactions.run(self._engine, lambda db: self._do_together(db, requests))

    def _do_together(self, db: Connection, requests: Sequence[Request]) -> list[Answer | Exception | None]:
        operation = self._operations[requests[0].operation_id]
        route = self._routes[requests[0].surface][operation.operation_id]
        assert operation.together is not None
        # A lock that somebody keeps holds up the call that needs it, not the others for long.
        transactions.wait_for_locks(db, GROUP_LOCK_MS)
        outcomes: dict[int, Answer | Exception | None] = {}
        ready = self._ready(db, operation, requests, route, outcomes)
        calls = [call for call, _ in ready.values()]
        results = operation.together.do(calls, [arguments for _, arguments in ready.values()]) if ready else ()
        told: set[tuple[str, str]] = set()
        for (position, (call, arguments)), result in zip(ready.items(), results, strict=True):
            if result is None or isinstance(result, Exception):
                outcomes[position] = result
                continue
            if isinstance(operation.audit, Audited):
                operation.audit.add(call, arguments, result)
                # Calls with one key made one record, of which the first of them is told.
                new = {(entry.entity_type, entry.entity_id): entry for entry in call.audit.entries}
                call.audit.entries = [entry for name, entry in new.items() if name not in told]
                told |= new.keys()
            outcomes[position] = _answer(operation, requests[position], route, result)
        write_entries(calls, operation.operation_id)
        return [outcomes[position] for position in range(len(requests))]

    def _ready(
        self,
        db: Connection,
        operation: Operation,
        requests: Sequence[Request],
        route: Route,
        outcomes: dict[int, Answer | Exception | None],
    ) -> dict[int, tuple[Call, dict[str, Any]]]:
        """The calls that can be done together and their arguments, by position; `outcomes` gets the others."""
        assert operation.together is not None
        accepted: dict[int, tuple[Call, Any]] = {}
        items, now = 0, datetime.now(UTC)
        for position, (request, allowed) in enumerate(zip(requests, _permitted(db, requests, route), strict=True)):
            if not isinstance(allowed, tuple):
                outcomes[position] = allowed
                continue
            try:
                body = _loaded(operation, request) if operation.takes_body else None
                size = operation.together.size(body)
            except Refusal as refusal:
                outcomes[position] = refusal
                continue
            if size is None or items + size > self._settings.calls_together:
                outcomes[position] = None
                continue
            items += size
            accepted[position] = self._call(db, request, *allowed, now), body
        if not accepted:
            return {}
        calls, paths = [call for call, _ in accepted.values()], [requests[position].path for position in accepted]
        ready: dict[int, tuple[Call, dict[str, Any]]] = {}
        for (position, (call, body)), addressed in zip(
            accepted.items(), resolve_all_addresses(calls, paths), strict=True
        ):
            if isinstance(addressed, NotFound):
                outcomes[position] = addressed
            else:
                ready[position] = call, {**addressed, "body": body}
        return ready

    def _call(
        self, db: Connection, request: Request, organization: Organization | None, caller: Caller | None, now: datetime
    ) -> Call:
        return Call(
            db=db,
            organization=organization,  # type: ignore[arg-type]
            caller=caller,
            now=now,
            request_id=request.request_id,
            surface=request.surface,
            settings=self._settings,
        )

    def _prepared(self, operation: Operation, request: Request) -> Any:
        """The result of what the operation prepares before its transaction; None if it prepares nothing."""
        if operation.before_transaction is None:
            return None
        body = _loaded(operation, request)
        return operation.before_transaction(
            RequestContext(body, request.headers, lambda work: transactions.read(self._reading, work))
        )

    def _from_replica(self, replica: Engine, operation: Operation, request: Request, route: Route) -> Answer | None:
        """The answer of the read replica; None if it is away or behind, so that the primary has to answer."""
        waits = not operation.from_replica
        if time.monotonic() < max(self._replica_away_until, self._replica_behind_until if waits else 0.0):
            return None

        def ask_primary(db: Connection) -> tuple[tuple[Organization, Caller], str]:
            # The primary decides who may call: a permission taken from a user counts from the next request on.
            organization, caller, _ = _organization_of(db, request, route.scopes)
            return (organization, caller), replication.position(db) if waits else ""

        def ask_replica(db: Connection) -> Answer | None:
            if waits and not replication.has_reached(db, place, REPLICA_WAIT_SECONDS):
                self._replica_behind_until = time.monotonic() + REPLICA_BEHIND_SECONDS
                return None
            return self._do(db, operation, request, route, None, allowed)

        allowed, place = transactions.read(self._reading, ask_primary)
        try:
            return transactions.read(replica, ask_replica)
        except NotFound:
            return None
        except (DBAPIError, TimeoutError) as error:
            if not (isinstance(error, TimeoutError) or transactions.is_away(error)):
                if not transactions.may_start_over(error):
                    raise
                # The replica cancelled the statement because of the primary's changes.
                return None
            self._replica_away_until = time.monotonic() + REPLICA_PAUSE_SECONDS
            _log.warning("the read replica does not answer; the primary serves for %.0f s", REPLICA_PAUSE_SECONDS)
            return None

    def _do(
        self,
        db: Connection,
        operation: Operation,
        request: Request,
        route: Route,
        prepared: Any,
        allowed: tuple[Organization, Caller] | None = None,
    ) -> Answer:
        now = datetime.now(UTC)
        organization, caller = allowed or (None, request.caller)
        first = None
        if organization is None and request.operation_id not in WITHOUT_ORGANIZATION:
            # What changes a record has to read it after it has locked it.
            address = first_address(request.path, operation.arguments, now) if route.reads else None
            organization, caller, first = _organization_of(db, request, route.scopes, address)
        call = self._call(db, request, organization, caller, now)
        audited = operation.audit if isinstance(operation.audit, Audited) else None
        if organization is not None and audited is not None and audited.before is not None:
            # Locked, so that nobody else changes the addressed record before this call does.
            audit_log.take_turn(db, organization.organization_id, lock_of(request.path, audited))
        addressed = resolve_addresses(call, request.path, operation.arguments, first)
        arguments = {name: addressed[name] for name in operation.arguments if name in addressed}
        if "headers" in operation.arguments:
            arguments["headers"] = request.headers
        if operation.takes_query:
            arguments["query"] = request.query
        if operation.takes_body:
            arguments["body"] = _body_of(operation, request, addressed)
        if operation.before_transaction is not None:
            arguments["hook_result"] = prepared
        if operation.changes_configuration:
            organizations.raise_configuration_version(db, call.organization.organization_id)
        result = operation.function(call, **arguments)
        if audited is not None:
            audited.add(call, addressed, result)
        write_entries([call], request.operation_id)
        return _answer(operation, request, route, result)


def _answer(operation: Operation, request: Request, route: Route, result: Any) -> Answer:
    """The answer to a request, from the result of its handler."""
    if isinstance(result, Answer):
        return result
    rendering = operation.representations.get(request.media_type)
    if rendering is not None:
        return Answer(route.status, rendering(result), (("Content-Type", f"{request.media_type}; charset=utf-8"),))
    answering = operation.answers.get(request.surface)
    return Answer(route.status, result if answering is None else answering(result))


def _permitted(
    db: Connection, requests: Sequence[Request], route: Route
) -> list[tuple[Organization, Caller] | Exception | None]:
    """The organization of requests of one organization, with the caller of each.

    It is the refusal of those that are not allowed, and None for those whose path names another organization.
    """
    callers = [request.caller for request in requests]
    organization_id = next(caller.organization_id for caller in callers if caller is not None)
    assert organization_id is not None
    user_ids = {caller.user_id for caller in callers if caller is not None and caller.user_id is not None}
    organization_and_rights = organizations.find_with_rights_of(db, organization_id, user_ids)
    if organization_and_rights is None:
        raise NotFound(f"There is no organization {organization_id}.")
    organization, rights = organization_and_rights
    permitted: list[tuple[Organization, Caller] | Exception | None] = []
    for request in requests:
        assert request.caller is not None
        try:
            if (
                request.surface == ADMINISTRATION
                and _path_organization(request.path["organizationId"]) != organization_id
            ):
                permitted.append(None)
            else:
                permitted.append((organization, _current(request.caller, rights, route.scopes)))
        except Refusal as refusal:
            permitted.append(refusal)
    return permitted


def _current(caller: Caller, rights: Mapping[int, CurrentRights], scopes: tuple[str, ...]) -> Caller:
    """The caller limited to the present permissions of its user; raises Unauthorized or Forbidden."""
    if caller.user_id is None:
        return caller
    current = caller_by_now(caller, rights[caller.user_id])
    if current is not caller:
        missing = [scope for scope in scopes if not current.holds(scope)]
        if missing:
            raise Forbidden(f"The user of this access token does not have {', '.join(missing)} any more.")
    return current


def _body_of(operation: Operation, request: Request, addressed: Mapping[str, Any]) -> Any:
    """The command of the body; for an update that needs the whole record, with the fields that were left out."""
    body = _loaded(operation, request)
    return body if operation.merge_into is None else body.of(addressed[operation.merge_into])


def _loaded(operation: Operation, request: Request) -> Any:
    # A body of optional fields alone may be left out.
    return operation.bodies[request.surface].load({} if request.body is None else request.body)


def _organization_of(
    db: Connection, request: Request, scopes: tuple[str, ...], address: Address[Any] | None = None
) -> tuple[Organization, Caller, Any]:
    """The organization of a call, the caller limited to the present permissions of its user there, and a record.

    The record is the one with the address; None if there is none.
    """
    if request.caller is None:
        raise Unauthorized("This operation needs an access token.")
    caller = known_caller(db, request.caller)
    organization_id = _organization_id(db, request, caller)
    organization_and_rights = organizations.find_with_record(db, organization_id, caller.user_id, address)
    if organization_and_rights is None:
        raise NotFound(f"There is no organization {organization_id}.")
    organization, rights, record = organization_and_rights
    if caller.loyalty_member_id is not None:
        _refuse_former_member(db, organization_id, caller)
    return organization, _current(caller, rights, scopes), record


def _organization_id(db: Connection, request: Request, caller: Caller) -> int:
    # The record decides what a user of the external issuer may do, and in which organizations.
    goes_by_record = caller.is_external and caller.user_id is not None
    if request.surface == ADMINISTRATION:
        organization_id = _path_organization(request.path["organizationId"])
        if not (caller.is_system_admin or goes_by_record or organization_id == caller.organization_id):
            raise Forbidden("The access token is for another organization.")
        return organization_id
    named = caller.organization_id
    if named is None and goes_by_record and caller.user_id is not None:
        named = first_organization(db, caller.user_id)
    if named is None:
        raise Forbidden("The access token names no organization.")
    return named


def _refuse_former_member(db: Connection, organization_id: int, caller: Caller) -> None:
    """Refuse the token of a member who is no longer active, or whose id another member has taken over."""
    member = MEMBERS.find_by(db, organization_id, loyalty_member_id=caller.loyalty_member_id or "")
    is_own = caller.subject.startswith(MEMBER_SUBJECT)
    if member is None or not member.active or (is_own and caller.subject != f"{MEMBER_SUBJECT}{member.member_id}"):
        raise Unauthorized("The member of this access token is no longer active in the organization.")


def _path_organization(value: Any) -> int:
    """The organization id of a path; `getOrganization` takes it as a string (administration, Organization 1)."""
    if isinstance(value, int):
        return value
    if value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    raise InvalidRequest([FieldFault("organizationId is not a whole number", parameter="organizationId")])


@dataclass(frozen=True, slots=True)
class Route:
    """The parts of a documented operation that the dispatcher needs."""

    status: int
    reads: bool
    parameters: tuple[str, ...]
    scopes: tuple[str, ...]
    further_media_types: tuple[str, ...]


def _routes(document: Mapping[str, Any]) -> dict[str, Route]:
    """The operations of a document by their ids."""
    routes = {}
    for path, item in document["paths"].items():
        parameters = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
        for method, operation in item.items():
            if method in ("get", "post", "put", "patch", "delete"):
                success = next(int(s) for s in operation["responses"] if s.startswith("2"))
                content = operation["responses"][str(success)].get("content", {})
                further = tuple(response for response in content if response != JSON)
                # Alternatives are whole schemes; that of tokens is the one with roles.
                scopes = next((tuple(scheme["oauth2"]) for scheme in operation["security"] if "oauth2" in scheme), ())
                routes[operation["operationId"]] = Route(success, method == "get", parameters, scopes, further)
    return routes


def _refuse_gaps(operations: Mapping[str, Operation], routes: Mapping[str, Mapping[str, Route]]) -> None:
    """Refuse to start if documents, handlers and addresses do not fit together."""
    documented = {operation_id for surface in routes.values() for operation_id in surface}
    for operation_id in sorted(documented & set(operations)):
        for surface, by_id in routes.items():
            route = by_id.get(operation_id)
            rendered = operations[operation_id].representations.keys()
            if route is not None and set(route.further_media_types) != rendered:
                raise RuntimeError(f"{surface} {operation_id}: the document and the handler answer other media types")
    if documented != set(operations):
        raise RuntimeError(
            f"without a handler: {sorted(documented - set(operations))}; "
            f"without a document: {sorted(set(operations) - documented)}"
        )
    for surface, by_id in routes.items():
        for operation_id, route in by_id.items():
            parameters = route.parameters
            unknown = [p for p in parameters if p != "organizationId" and p not in ADDRESSES]
            if unknown:
                raise RuntimeError(f"{surface} {operation_id}: no address for {unknown}")
            offered = offered_arguments(parameters) | {"headers"}
            missing = set(operations[operation_id].arguments) - offered - operations[operation_id].optional
            if missing:
                raise RuntimeError(f"{surface} {operation_id}: the path addresses no {sorted(missing)}")
