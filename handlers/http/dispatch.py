"""The dispatcher: joins a call to its handler inside one database transaction, and commits."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection, Engine

import openapi
from domain.problems import FieldFault, Forbidden, InvalidRequest, NotFound, Unauthorized
from handlers.audit_trail import Audited, lock_of
from handlers.call import ADMINISTRATION, JSON, Answer, Call, Caller, Request
from handlers.http.addresses import ADDRESSES, resolve_addresses
from handlers.operations import Operation, all_operations
from handlers.settings import Settings
from persistence import audit_log, organizations, transactions
from persistence.engine import autocommit

# Operations that belong to no organization yet: they find out which.
WITHOUT_ORGANIZATION = frozenset({"createAccessToken"})


class Dispatcher:
    """Calls the handler of a request that its document has accepted."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._settings = settings
        self._engine = engine
        self._reading = autocommit(engine)
        self._operations = all_operations()
        self._routes = {surface: _routes(openapi.bundle(surface)) for surface in openapi.SURFACES}
        _refuse_gaps(self._operations, self._routes)

    def __call__(self, request: Request) -> Answer:
        """Do the request and answer; raises Refusals, and database errors once trying again is in vain."""
        operation = self._operations[request.operation_id]
        status, reads, _, _ = self._routes[request.surface][request.operation_id]
        run, engine = (transactions.read, self._reading) if reads else (transactions.run, self._engine)
        return run(engine, lambda db: self._do(db, operation, request, status))

    def _do(self, db: Connection, operation: Operation, request: Request, status: int) -> Answer:
        organization = None if request.operation_id in WITHOUT_ORGANIZATION else _organization_of(db, request)
        call = Call(
            db=db,
            organization=organization,  # type: ignore[arg-type]
            caller=request.caller,
            now=datetime.now(UTC),
            request_id=request.request_id,
            surface=request.surface,
            settings=self._settings,
            new_key=_new_key,
        )
        audited = operation.audit if isinstance(operation.audit, Audited) else None
        if organization is not None and audited is not None and audited.before is not None:
            # So that what the path addresses is what the change finds, whoever else changes it at this moment.
            audit_log.take_turn(db, organization.organization_id, lock_of(request.path, audited))
        addressed = resolve_addresses(call, request.path)
        arguments = {name: addressed[name] for name in operation.arguments if name in addressed}
        if "headers" in operation.arguments:
            arguments["headers"] = request.headers
        if operation.takes_query:
            arguments["query"] = request.query
        if operation.takes_body:
            shape = operation.bodies.get(request.surface)
            arguments["body"] = request.body if shape is None else shape.load(request.body)
        result = operation.function(call, **arguments)
        if audited is not None:
            audited.add(call, addressed, result)
        call.audit.write(call, request.operation_id)
        if isinstance(result, Answer):
            return result
        rendering = operation.renderings.get(request.media_type)
        if rendering is not None:
            return Answer(status, rendering(result), (("Content-Type", f"{request.media_type}; charset=utf-8"),))
        answering = operation.answers.get(request.surface)
        return Answer(status, result if answering is None else answering(result))


def _organization_of(db: Connection, request: Request) -> Any:
    caller = request.caller
    if caller is None:
        raise Unauthorized("This operation needs an access token.")
    if request.surface == ADMINISTRATION:
        organization_id = _path_organization(request.path["organizationId"])
        if not caller.is_system_admin and organization_id != caller.organization_id:
            raise Forbidden("The access token is for another organization.")
    elif caller.organization_id is None:
        raise Forbidden("The access token names no organization.")
    else:
        organization_id = caller.organization_id
    organization, is_member = organizations.find_with_membership(db, organization_id, caller.user_id or 0)
    if organization is None:
        raise NotFound("There is no such organization.")
    if caller.user_id is not None and not is_member:
        _refuse_former_user(db, caller)
    return organization


def _path_organization(value: Any) -> int:
    """The organization id of a path; the organization read takes it as a string (administration, Organization 1)."""
    if isinstance(value, int):
        return value
    if value.isascii() and value.isdigit() and len(value) <= 18:
        return int(value)
    raise InvalidRequest([FieldFault("organizationId is a whole number", parameter="organizationId")])


def _refuse_former_user(db: Connection, caller: Caller) -> None:
    """Deactivation of a user and removal of a membership count from the next request on, not from expiry."""
    if caller.is_system_admin and caller.user_id is not None and organizations.user_is_active(db, caller.user_id):
        return
    raise Unauthorized("The user of this access token is no longer active in the organization.")


def _new_key() -> str:
    return str(uuid.uuid4())


def _routes(document: Mapping[str, Any]) -> dict[str, tuple[int, bool, tuple[str, ...], tuple[str, ...]]]:
    """operationId -> (success status, reads only, path parameters, media types beside JSON) of a document."""
    routes = {}
    for path, item in document["paths"].items():
        parameters = tuple(part[1:-1] for part in path.split("/") if part.startswith("{"))
        for method, operation in item.items():
            if method in ("get", "post", "put", "patch", "delete"):
                success = next(int(s) for s in operation["responses"] if s.startswith("2"))
                content = operation["responses"][str(success)].get("content", {})
                further = tuple(each for each in content if each != JSON)
                routes[operation["operationId"]] = (success, method == "get", parameters, further)
    return routes


def _refuse_gaps(operations: Mapping[str, Operation], routes: Mapping[str, Mapping[str, tuple]]) -> None:
    """Refuse to start where documents, handlers and addresses do not fit together."""
    documented = {operation_id for surface in routes.values() for operation_id in surface}
    for operation_id in sorted(documented & set(operations)):
        for surface, by_id in routes.items():
            offered = by_id[operation_id][3] if operation_id in by_id else operations[operation_id].renderings.keys()
            if set(offered) != operations[operation_id].renderings.keys():
                raise RuntimeError(f"{surface} {operation_id}: the document and the handler answer other media types")
    if documented != set(operations):
        raise RuntimeError(
            f"without a handler: {sorted(documented - set(operations))}; "
            f"without a document: {sorted(set(operations) - documented)}"
        )
    for surface, by_id in routes.items():
        for operation_id, (_, _, parameters, _) in by_id.items():
            unknown = [p for p in parameters if p != "organizationId" and p not in ADDRESSES]
            if unknown:
                raise RuntimeError(f"{surface} {operation_id}: no address for {unknown}")
            offered = {ADDRESSES[p][0] for p in parameters if p != "organizationId"} | {"headers"}
            missing = set(operations[operation_id].arguments) - offered - operations[operation_id].optional
            if missing:
                raise RuntimeError(f"{surface} {operation_id}: the path addresses no {sorted(missing)}")
