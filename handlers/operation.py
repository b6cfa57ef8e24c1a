"""The declaration of an operation: one function per operationId, with the shapes of body and response per surface."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from importlib import import_module
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar, get_args, get_origin

from sqlalchemy import Engine

from handlers.audit_trail import Audited
from handlers.call import ADMINISTRATION, INTEGRATION, Call, Request, RequestContext, Response
from handlers.messages.base import MERGED, Body, Changes, Update
from handlers.settings import Settings
from persistence.paging import Paged


class BodyShape(Protocol):
    """Turns a body that the OpenAPI document accepted into a command, the argument of the handler."""

    def load(self, body: Any) -> Any:
        """Decode the command, or its changes; raises InvalidRequest for faults that OpenAPI cannot express."""


# Renders the result of a handler as the body of a response, in JSON or as the text of another media type.
RenderResponse = Callable[[Any], Any]
Representation = Callable[[Any], str]
Handler = TypeVar("Handler", bound=Callable[..., Any])


BeforeTransaction = Callable[[RequestContext], Any]
AfterTransaction = Callable[[Engine, Settings, Request], Response]


@dataclass(frozen=True, slots=True)
class BatchHandler:
    """Carries out what several calls of one organization request, in one unit of work.

    The arguments of `run` are the calls, which share transaction and moment, and what the handler returned for each
    call. It returns an outcome for each call, as if the calls had come one after the other: a result, a Refusal, or
    NotBatchable for a call that has to be run individually. It raises NotBatchable if the calls depend on each other.
    `size` returns the number of items in what the handler returned for a call; None if the call cannot share its batch.
    """

    run: Callable[[Sequence[Call], Sequence[Any]], Sequence[Any]]
    size: Callable[[Any], int | None] = lambda request: 1


@dataclass(frozen=True)
class Operation:
    """An operationId with its handler and the arguments of `operation`; `bodies` and `responses` are by surface.

    `arguments` are the names of the handler's arguments that are records of the path; `optional` the names of all
    arguments with a default. `merge_into` is the argument whose stored values complete the body of an update; None if
    the body is not `Merged`.
    """

    operation_id: str
    function: Callable[..., Any]
    bodies: Mapping[str, BodyShape]
    responses: Mapping[str, RenderResponse]
    arguments: tuple[str, ...]
    optional: frozenset[str]
    takes_query: bool
    takes_headers: bool
    takes_body: bool
    audit: Audited | str | None
    representations: Mapping[str, Representation]
    may_be_outdated: bool
    changes_configuration: bool = False
    dry_run_mark: bytes | None = None
    before_transaction: BeforeTransaction | None = None
    after_transaction: AfterTransaction | None = None
    merge_into: str | None = None
    batch: BatchHandler | None = None

    @property
    def reads_many(self) -> bool:
        """True if the operation reads lists of records, or sums over them, which the first word of its name shows."""
        return self.operation_id.startswith(_PREFIXES_OF_LISTS)

    @property
    def has_large_records(self) -> bool:
        """True if the operation creates or changes a record that may be as large as its body, such as a campaign."""
        is_large = isinstance(self.audit, Audited) and self.audit.entity_type in _LARGE_ENTITIES
        return self.changes_configuration or is_large


# The types of large records that are not part of the configuration (`changes_configuration`).
_LARGE_ENTITIES = ("coupon-book", "portal")
_PREFIXES_OF_LISTS = ("list", "report", "search")
_OPERATIONS: dict[str, Operation] = {}
_SURFACES = (INTEGRATION, ADMINISTRATION)


def _per_surface(value: Any) -> Mapping[str, Any]:
    """A value for each surface: a mapping by surface unchanged, any other value for both surfaces."""
    if value is None:
        return {}
    return value if isinstance(value, Mapping) else dict.fromkeys(_SURFACES, value)


def _is_merged(annotation: Any) -> bool:
    """True if the type of an argument is `Merged[...]`."""
    return MERGED in getattr(annotation, "__metadata__", ())


def _body_of(annotation: Any) -> BodyShape | None:
    """The shape that reads bodies as values of this type: a command, or the changes of one. None for other types."""
    if _is_merged(annotation) or get_origin(annotation) is Changes:
        return Update(get_args(annotation)[0])
    return Body(annotation) if isinstance(annotation, type) and is_dataclass(annotation) else None


def operation(
    operation_id: str,
    *,
    body: Any = None,
    response: Any = None,
    audit: Audited | str | None = None,
    representations: Mapping[str, Representation] | None = None,
    before_transaction: BeforeTransaction | None = None,
    after_transaction: AfterTransaction | None = None,
    may_be_outdated: bool = False,
    changes_configuration: bool = False,
    dry_run_mark: bytes | None = None,
    batch: BatchHandler | None = None,
) -> Callable[[Handler], Handler]:
    """Declare the handler of an operationId.

    The first argument of the handler is the call. The names of its other arguments decide which values it gets: records
    that its path addresses (see `handlers.http.addresses`), `query` (typed parameters by their documented names),
    `headers`, `body` (loaded) and `hook_result`. A record whose argument has a default need not be in the path of every
    surface.

    - `response` renders the result: one shape or function, or one for each surface. `body` loads the body: one shape or
      function, or a shape for each surface. By default, the type of the argument `body` defines how it is loaded: a
      command from a whole body; `Changes` of a command from the fields that were sent; `Merged` from the fields that
      were sent and, for the other fields, the stored values of the record that the operation changes
      (`Audited.changing`). Calls that change the record are serialized, so no other call changes it meanwhile.
    - `audit` declares the entries of the audit log, see `handlers.audit_trail`: only the type of the entities if the
      handler or a service adds the entries.
    - `representations` render the result as text of media types other than JSON.
    - `before_transaction` is a hook for slow work that must not hold a transaction open; its result is the handler's
      argument `hook_result`.
    - `after_transaction` continues work that the transaction began, in further transactions, and returns the response.
    - `may_be_outdated` is for reads whose response may be slightly behind: the read replica, if there is one, serves
      them at once. It serves other lists and reports only after it has caught up.
    - `changes_configuration` increments the version of the configuration before the records of the path are read, which
      serializes such calls of one organization.
    - `dry_run_mark` is a part of the bodies of all requests that may be dry runs, which run in a separate thread.
    - `batch` carries out what a batch of calls requests, mostly one call, in one unit of work. The handler then changes
      nothing: it returns what its call requests.
    """

    def declare(function: Handler) -> Handler:
        if operation_id in _OPERATIONS:
            raise RuntimeError(f"{operation_id} has two handlers")
        if batch is not None and isinstance(audit, Audited) and audit.is_change:
            raise RuntimeError(f"{operation_id} changes a record, so its calls are serialized and cannot be a batch")
        parameters = inspect.signature(function).parameters
        # The first parameter is the call.
        names = tuple(parameters)[1:]
        command = parameters["body"].annotation if "body" in names else None
        shape = body or _body_of(command)
        if inspect.isfunction(body):
            shape = SimpleNamespace(load=body)
        if command is not None and shape is None:
            raise RuntimeError(f"{operation_id} has an argument for its body: declare the shape of the body too")
        merge_into = audit.before if isinstance(audit, Audited) and _is_merged(command) else None
        if _is_merged(command) and merge_into is None:
            detail = (
                "its body is merged into a stored record; declare audit=AUDITED.changing(...), which locks the record"
            )
            raise RuntimeError(f"{operation_id}: {detail}")
        _OPERATIONS[operation_id] = Operation(
            operation_id=operation_id,
            function=function,
            bodies=_per_surface(shape),
            responses=_per_surface(response),
            arguments=tuple(name for name in names if name not in ("query", "body", "headers", "hook_result")),
            optional=frozenset(name for name in names if parameters[name].default is not inspect.Parameter.empty),
            takes_query="query" in names,
            takes_headers="headers" in names,
            takes_body="body" in names,
            audit=audit,
            representations=representations or {},
            before_transaction=before_transaction,
            after_transaction=after_transaction,
            may_be_outdated=may_be_outdated,
            changes_configuration=changes_configuration,
            dry_run_mark=dry_run_mark,
            merge_into=merge_into,
            batch=batch,
        )
        return function

    return declare


def declare_list(operation_id: str, find_page: Callable[..., Paged[Any]], response: Any) -> None:
    """Declare an operation that returns a page of the organization's records that match all filters of the query."""

    @operation(operation_id, response=response)
    def list_records(call: Call, query: Mapping[str, Any]) -> Paged[Any]:
        """A page of the records that match all filters."""
        return find_page(call.db, call.organization.organization_id, query)


def declare_get(operation_id: str, argument: str, response: Any) -> None:
    """Declare an operation that returns the record that its path addresses under the name `argument`."""

    def get_record(call: Call, **records: Any) -> Any:
        """The addressed record."""
        return records[argument]

    # `operation` reads from the signature which records the handler gets.
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("call", argument)]
    get_record.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    operation(operation_id, response=response)(get_record)


@functools.cache
def all_operations() -> Mapping[str, Operation]:
    """All operations by operationId; imports the modules of the handlers package that declare them."""
    import handlers

    for module in iter_modules(handlers.__path__):
        if not module.ispkg and module.name not in _WITHOUT_OPERATIONS:
            import_module(f"handlers.{module.name}")
    return _OPERATIONS


# Modules that declare no operations.
_WITHOUT_OPERATIONS = {
    "__main__",
    "audit_trail",
    "call",
    "metrics",
    "operation",
    "setting_values",
    "settings",
    "tracing",
}
