"""The documented operations joined to their handlers: the parts that the dispatcher needs."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openapi
from handlers.audit_trail import Audited
from handlers.call import JSON, MEMBER
from handlers.http.addresses import (
    ADDRESSES,
    ORGANIZATION,
    PathAddress,
    addresses_of,
    first_lookup,
    offered_arguments,
)
from handlers.operation import Operation, all_operations
from persistence.records import Lookup

# Operations that do not hold the test clock: the first three wait for calls that hold it, the last one writes nothing.
WITHOUT_HOLD = frozenset({"createTestClock", "advanceTestClock", "removeTestClock", "simulate"})


@dataclass(frozen=True, slots=True)
class Route:
    """A documented operation with its handler: the parts that the dispatcher needs."""

    operation: Operation
    status: int
    reads: bool
    # The operation is refused while the test clock of the organization is advanced.
    holds_clock: bool
    # The addresses of the records that the path names, each with its parameter, in the order of the path.
    addresses: tuple[tuple[str, PathAddress], ...]
    # The lookup that finds the records of the first address together with the organization; None without such a lookup.
    first_lookup: Lookup[Any] | None
    scopes: tuple[str, ...]
    # True if several calls can be a batch.
    is_batched: bool
    # The audit of an operation that changes the record of its path; None for other operations.
    audit_of_change: Audited | None


def documented_routes() -> dict[tuple[str, str], Route]:
    """The documented operations by interface and id; raises RuntimeError if OpenAPI documents and handlers differ."""
    operations = all_operations()
    routes = {}
    documents = {surface: openapi.bundle(surface) for surface in openapi.SURFACES}
    documented = {
        (surface, operation["operationId"]): (path, method, operation)
        for surface, document in documents.items()
        for path, method, _, operation in openapi.operations_of(document)
    }
    without_handler = {operation_id for _, operation_id in documented} - operations.keys()
    without_document = operations.keys() - {operation_id for _, operation_id in documented}
    if without_handler or without_document:
        raise RuntimeError(
            f"without a handler: {sorted(without_handler)}; without a document: {sorted(without_document)}"
        )
    for (surface, operation_id), (path, method, operation) in documented.items():
        routes[surface, operation_id] = _route(
            operations[operation_id], f"{surface} {operation_id}", path, method, operation
        )
    return routes


def _route(operation: Operation, name: str, path: str, method: str, documented: Mapping[str, Any]) -> Route:
    """The route of an operation; raises RuntimeError with the `name` if OpenAPI document and handler do not fit."""
    parameters = [segment.strip("{}") for segment in path.split("/") if segment.startswith("{")]
    success = next(int(status) for status in documented["responses"] if status.startswith("2"))
    _refuse_gaps(name, operation, parameters, documented["responses"][str(success)].get("content", {}))
    audited = operation.audit
    audit_of_change = audited if isinstance(audited, Audited) and audited.before is not None else None
    addresses = addresses_of(parameters, operation.arguments)
    has_all_addresses_batched = all(address.is_batched for _, address in addresses)
    return Route(
        operation,
        status=success,
        reads=method == "get",
        # Operations that only read have no 409 (conflict) in the OpenAPI document.
        holds_clock=method != "get" and "409" in documented["responses"] and operation.operation_id not in WITHOUT_HOLD,
        addresses=addresses,
        # An operation that changes the record of its path has to lock the record before it reads it.
        first_lookup=None if audit_of_change is not None else first_lookup(parameters, operation.arguments),
        scopes=_scopes_of_users(documented["security"]),
        is_batched=operation.batch is not None and has_all_addresses_batched,
        audit_of_change=audit_of_change,
    )


def _scopes_of_users(security: Sequence[Mapping[str, Sequence[str]]]) -> tuple[str, ...]:
    """The scopes that tokens of users need for an operation.

    The alternatives of `security` are for different callers: other ones have no `oauth2`, or only the scope of members.
    """
    for alternative in security:
        if "oauth2" in alternative and alternative["oauth2"] != [MEMBER]:
            return tuple(alternative["oauth2"])
    return ()


def _refuse_gaps(name: str, operation: Operation, parameters: Sequence[str], media_types: Collection[str]) -> None:
    """Refuse to start if the OpenAPI document, the handler and the addresses of an operation do not fit."""
    if {*media_types} - {JSON} != operation.representations.keys():
        raise RuntimeError(f"{name}: the document and the handler have different media types")
    unknown_parameters = [parameter for parameter in parameters if parameter not in {ORGANIZATION, *ADDRESSES}]
    if unknown_parameters:
        raise RuntimeError(f"{name}: ADDRESSES has no entry for the path parameters {unknown_parameters}")
    unaddressed_arguments = set(operation.arguments) - offered_arguments(parameters) - operation.optional
    if unaddressed_arguments:
        arguments = sorted(unaddressed_arguments)
        raise RuntimeError(f"{name}: the handler takes {arguments}, but no parameter of the path provides them")
